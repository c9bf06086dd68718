/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Notes for access logs: %{htcache}n says how a request's .htaccess files were answered,
 * %{htcache-redirect}n which line of which file redirected it. They are made only when a log format
 * of the configuration names one: then, and only then, the hook is there.
 */
#include "maps/maps.h"
#include "redirects/notes.h"

#include "http_protocol.h"

#define NOTE "htcache"

static bool names_note(const ap_directive_t *node)
{
    static const char *const logs[] = {"LogFormat", "CustomLog", "GlobalLog", "TransferLog"};

    for (size_t i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
        if (!strcasecmp(node->directive, logs[i]) && node->args)
            return strstr(node->args, "{" NOTE) != NULL;
    }
    return false;
}

/* In any virtual host or other section. */
static bool wanted(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (names_note(node) || (node->first_child && wanted(node->first_child)))
            return true;
    }
    return false;
}

/* The one word for all levels of a request: what cost most. NULL: httpd asked for no file. */
static const char *outcome_of(const request_rec *r)
{
    static const struct {
        enum htc_counter outcome;
        const char *word;
    } words[] = {{HTC_C_bypasses, "stock"},
                 {HTC_C_misses, "parsed"},
                 {HTC_C_replays, "replayed"},
                 {HTC_C_hits, "hit"}};
    const htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    const struct htaccess_result *result = r->htaccess;

    if (rq && rq->page)
        return NULL;
    for (size_t i = 0; rq && i < sizeof(words) / sizeof(words[0]); i++) {
        if (rq->outcomes & (1U << words[i].outcome))
            return words[i].word;
    }
    /* Answered ahead of core, or nothing but absent ones. */
    for (; result; result = result->next) {
        if (result->htaccess)
            return "hit";
    }
    return r->htaccess || (rq && rq->outcomes) ? "absent" : NULL;
}

/* Ahead of mod_log_config, which logs the last request of a chain of internal redirects. */
static int note_transaction(request_rec *r)
{
    const char *word, *redirect = NULL;

    while (r->next)
        r = r->next;
    /* The answer was made by another request of the chain, when its page is an ErrorDocument. */
    for (const request_rec *one = r; one && !redirect; one = one->prev)
        redirect = apr_table_get(one->notes, HTC_NOTE_REDIRECT);
    if (redirect)
        apr_table_setn(r->notes, HTC_NOTE_REDIRECT, redirect);
    if (!htc_server_conf_of(r->server)->may_be_enabled)
        return DECLINED;
    word = outcome_of(r);
    if (word)
        apr_table_setn(r->notes, NOTE, word);
    return DECLINED;
}

void htc_notes_pre_config(void)
{
    static const char *const ahead_of_log[] = {"mod_log_config.c", NULL};

    if (!wanted(ap_conftree))
        return;
    htc_options_get()->notes = true;
    ap_hook_log_transaction(note_transaction, NULL, ahead_of_log, APR_HOOK_FIRST);
}

/* mod_dir hands a subrequest's notes on and frees the subrequest: they must live longer. */
static apr_pool_t *pool_of(const request_rec *r)
{
    while (r->main)
        r = r->main;
    return r->pool;
}

/* Without blanks: logs have them between their fields. */
static void note_line(request_rec *r, const char *note, const char *file, unsigned line)
{
    apr_table_setn(r->notes, note,
                   apr_psprintf(pool_of(r), "%s:%s%u", file, line & REDIRECT_BY_ROW ? "row" : "",
                                redirect_line_number(line)));
}

static bool is_to_be_noted(request_rec *r)
{
    if (htc_options_get()->missing)
        htc_request_get(r)->answered = true;
    return htc_options_get()->notes || htc_explained_of(r);
}

void htc_note_redirect(request_rec *r, const char *file, unsigned line)
{
    if (is_to_be_noted(r))
        note_line(r, HTC_NOTE_REDIRECT, file, line);
}

/* Sources that are patterns may have blanks. */
static const char *without_blanks(const char *text, apr_pool_t *pool)
{
    char *copy = apr_palloc(pool, 3 * strlen(text) + 1), *to = copy;

    for (; *text; text++) {
        if ((unsigned char)*text > ' ')
            *to++ = *text;
        else
            to += apr_snprintf(to, 4, "%%%02X", (unsigned)(unsigned char)*text);
    }
    *to = '\0';
    return copy;
}

const char *htc_edited_source(apr_pool_t *pool, const redirect_table *table, uint32_t rule)
{
    redirect_rule row;

    redirect_table_rule(table, rule, &row, apr_palloc(pool, REDIRECT_RULE_ROOM), NULL);
    return without_blanks(redirect_rule_source(&row, pool), pool);
}

void htc_note_edit(request_rec *r, const char *file, const redirect_table *table, uint32_t rule)
{
    apr_pool_t *pool = pool_of(r);
    const char *source;

    if (!is_to_be_noted(r))
        return;
    source = apr_pstrdup(pool, htc_edited_source(r->pool, table, rule));
    apr_table_setn(r->notes, HTC_NOTE_EDIT, source);
    apr_table_setn(r->notes, HTC_NOTE_REDIRECT,
                   apr_pstrcat(pool, file, HTC_NOTE_AN_EDIT, source, NULL));
}

void htc_note_first(request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);

    if (dc && dc->first_file && htc_explained_of(r))
        note_line(r, HTC_NOTE_FIRST, dc->first_file, (unsigned)dc->first_line);
}
