/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Answering requests from folded Redirect lines, just ahead of mod_alias in the same two phases,
 * with the answers, headers and error-log lines that mod_alias would have given.
 */
#include "redirects/fold.h"
#include "redirects/map.h"
#include "redirects/notes.h"

/* mod_alias's numbers for the same messages in the two phases. */
typedef struct phase {
    const char *completed, *not_a_url;
} phase;

static const phase in_translate = {APLOGNO(00673), APLOGNO(00674)};
static const phase in_fixup = {APLOGNO(00675), APLOGNO(00676)};

/* The line that answers, and how much of the path it took. */
typedef struct found_line {
    const htc_fold *fold;
    const htc_fold_entry *entry;
    size_t matched;
} found_line;

/* --- finding ----------------------------------------------------------------------------------*/

static bool find_linear(const htc_fold *fold, const char *path, found_line *found)
{
    const htc_fold_entry *entry = (const htc_fold_entry *)fold->entries->elts;

    for (int left = fold->entries->nelts; left; left--, entry++) {
        size_t matched = 0;
        bool match = entry->regex
                         ? !ap_regexec(entry->regex, path, 0, NULL, 0)
                         : (matched = htc_alias_prefix(path, entry->source, entry->source_len)) > 0;

        if (match) {
            *found = (found_line){fold, entry, matched};
            return true;
        }
    }
    return false;
}

/* A pattern's text is its entry's number. */
static bool run_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                      const char *subject, size_t len)
{
    const htc_fold *fold = baton;
    const htc_fold_entry *entry =
        &APR_ARRAY_IDX(fold->entries, (int)strtol(pattern, NULL, 10), htc_fold_entry);

    (void)id;
    (void)flags;
    return !ap_regexec_len(entry->regex, subject, len, 0, NULL, 0);
}

static bool find_in_table(const htc_fold *fold, const redirect_table *table, const char *path,
                          size_t len, found_line *found)
{
    redirect_request asked = {
        .path = path, .path_len = len, .regex = run_regex, .baton = (void *)(uintptr_t)fold};
    redirect_match match;

    if (!redirect_table_lookup(table, &asked, 0, &match))
        return false;
    found->fold = fold;
    found->entry = &APR_ARRAY_IDX(fold->entries, (int)redirect_table_line(table, match.rule, NULL),
                                  htc_fold_entry);
    found->matched = match.matched;
    return true;
}

/* In a context with a table. */
static bool find_own(const htc_fold *fold, const char *path, found_line *found)
{
    size_t len = strlen(path);

    return redirect_prefix_filter_passes(fold->prefixes, path, len) &&
           find_in_table(fold, fold->table, path, len, found);
}

/* Of what a line is looked for. */
typedef struct asked_line {
    const char *path;
    found_line *found;
} asked_line;

static HTC_HOT bool find_in_context(void *baton, void *own)
{
    const asked_line *asked = baton;
    const htc_fold *fold = own;

    return fold->table ? find_own(fold, asked->path, asked->found)
                       : find_linear(fold, asked->path, asked->found);
}

static bool find(const htc_chain *folds, const char *path, found_line *found)
{
    asked_line asked = {path, found};

    return htc_chain_find(folds, find_in_context, &asked);
}

/* --- answering --------------------------------------------------------------------------------*/

/* In mod_alias's name. */
#define ALIAS_LOG(level, r, ...)                                                \
    do {                                                                        \
        int index_ = htc_alias_index();                                         \
        if (ap_get_request_module_loglevel(r, index_) >= (level))               \
            ap_log_rerror_("mod_alias.c", 0, index_, level, 0, r, __VA_ARGS__); \
    } while (0)

/* NULL: the substitution failed, which was logged. */
static const char *regex_target(request_rec *r, const htc_fold_entry *entry)
{
    ap_regmatch_t groups[AP_MAX_REG_MATCH];
    const char *target;

    if (!entry->target)
        return "";
    if (ap_regexec(entry->regex, r->uri, AP_MAX_REG_MATCH, groups, 0))
        return "";
    target = ap_pregsub(r->pool, entry->target, r->uri, AP_MAX_REG_MATCH, groups);
    if (!target) {
        ALIAS_LOG(APLOG_ERR, r,
                  APLOGNO(00672) "Regex substitution in '%s' failed. Replacement too long?",
                  entry->target);
        return NULL;
    }
    return htc_alias_escape(r->pool, target);
}

static const char *target_of(request_rec *r, const found_line *found)
{
    const htc_fold_entry *entry = found->entry;

    if (entry->regex)
        return regex_target(r, entry);
    ap_set_context_info(r, htc_fold_terminated(entry->source, entry->source_len, r->pool),
                        entry->target);
    return apr_pstrcat(r->pool, entry->target ? entry->target : "",
                       ap_os_escape_path(r->pool, r->uri + found->matched, 1), NULL);
}

/* A path is completed to a URL, unless RedirectRelative says otherwise. NULL: it is none. */
static const char *complete(request_rec *r, const char *target, const phase *phase)
{
    const char *url = htc_alias_complete(r, target, r->pool);

    if (*url == '/')
        return url;
    if (url != target)
        ALIAS_LOG(APLOG_DEBUG, r,
                  "%sincomplete redirection target of '%s' for URI '%s' modified to '%s'",
                  phase->completed, target, r->uri, url);
    if (ap_is_url(url))
        return url;
    ALIAS_LOG(APLOG_ERR, r,
              "%scannot redirect '%s' to '%s'; target is not a valid absoluteURI or abs_path",
              phase->not_a_url, r->uri, url);
    return NULL;
}

static void count_answer(request_rec *r, const found_line *found)
{
    const htc_counted *counted = found->fold->counted;
    const htc_fold_entry *first = (const htc_fold_entry *)found->fold->entries->elts;

    if (counted)
        htc_count_hit(r, counted->counters, counted->count, (uint32_t)(found->entry - first));
    else
        htc_count_htaccess(r, found->entry->file,
                           htc_count_key(found->entry, found->entry->regex != NULL));
    htc_note_redirect(r, found->entry->file, (unsigned)found->entry->line);
}

static int answer(request_rec *r, const found_line *found, const phase *phase)
{
    const char *location = target_of(r, found);

    count_answer(r, found);
    if (!location)
        return HTTP_INTERNAL_SERVER_ERROR;
    if (!ap_is_HTTP_REDIRECT(found->entry->status))
        return found->entry->status;
    location = complete(r, location, phase);
    if (!location)
        return HTTP_INTERNAL_SERVER_ERROR;
    location = htc_alias_add_query(r->pool, location, r->args);
    apr_table_setn(r->headers_out, "Location", location);
    return found->entry->status;
}

bool htc_expression_first(const request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);

    return dc && dc->first_file;
}

int htc_fold_translate(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    found_line found;

    if (!sc->own.folds || (r->uri[0] != '/' && r->uri[0] != '\0') || htc_expression_first(r) ||
        !find(sc->own.folds, r->uri, &found))
        return DECLINED;
    return answer(r, &found, &in_translate);
}

int htc_fold_fixup(request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);
    found_line found;

    htc_note_first(r);
    if (!dc || !dc->folds || dc->first_file || !find(dc->folds, r->uri, &found))
        return DECLINED;
    return answer(r, &found, &in_fixup);
}
