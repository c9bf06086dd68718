/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The request on its way through httpd: all hooks that httpd runs before a handler, the internal
 * redirects that it makes itself, and what it makes of errors. The answer's header comes to the sink
 * in explain/connection.c. Called by explain/explain.c, and by httpd for requests of its own making.
 */
#include "explain/internal.h"
#include "redirects/redirects.h"

#include "ap_expr.h"
#include "http_protocol.h"
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 102)
#include "http_ssl.h"
#endif
#include "mod_core.h"
#include "mod_rewrite.h"

/* An ErrorDocument, or a page of it: its request has the status of the error. */
static bool is_document(const request_rec *r)
{
    while (r->main)
        r = r->main;
    return r->prev && r->prev->status != HTTP_OK;
}

static const char *whole_path(const request_rec *r)
{
    return r->args ? apr_pstrcat(r->pool, r->uri, "?", r->args, NULL) : r->uri;
}

/* The ErrorDocument that holds for @a r, unless a module has set another one. */
static explain_where document_line(request_rec *r, int status)
{
    const core_request_config *set = ap_get_core_module_config(r->request_config);
    const core_dir_config *conf = ap_get_core_module_config(r->per_dir_config);
    const ap_expr_info_t *document;
    int index = ap_index_of_response(status);

    /* What "default" puts there is no expression, and has no text. */
    if ((set->response_code_strings && set->response_code_strings[index]) ||
        !ap_response_code_string(r, index))
        return (explain_where){NULL, 0};
    document = apr_hash_get(conf->response_code_exprs, &index, sizeof(index));
    return (explain_where){document->filename, document->line_number};
}

void htc_explain_translate(request_rec *r)
{
    explain *e = explain_of(r);
    explain_where where;

    htc_request_get(r); /* so that htc_learn() looks */
    htc_explained_trace(r);
    htc_note_first(r);
    if (r->main) {
        apr_table_setn(r->notes, EXPLAIN_PATH, apr_pstrdup(e->pool, r->uri));
        return;
    }
    if (!e->mark.path)
        e->mark.path = apr_pstrdup(e->pool, r->uri);
    if (is_document(r) && !is_document(r->prev)) {
        where = document_line(r->prev, r->prev->status);
        explain_step(
            e, "ErrorDocument", &where,
            apr_psprintf(r->pool, "the answer %d is made of %s", r->prev->status, whole_path(r)),
            r->uri, r->args);
    }
}

/* --- one request of the chain -----------------------------------------------------------------*/

/* The line that answered, as a table or a rule that told has noted it; else the rule with which
 * mod_rewrite ended, or a line of mod_alias. */
static explain_where answering_line(explain *e, const request_rec *r, int status)
{
    const char *note = apr_table_get(r->notes, HTC_NOTE_REDIRECT);
    const char *colon = note ? strrchr(note, ':') : NULL, *number = colon ? colon + 1 : NULL;
    unsigned by_row = 0;

    e->edit = apr_pstrdup(e->pool, apr_table_get(r->notes, HTC_NOTE_EDIT));
    if (e->edit)
        return (explain_where){
            apr_pstrmemdup(e->pool, note,
                           strlen(note) - strlen(e->edit) - strlen(HTC_NOTE_AN_EDIT)),
            0};
    if (!colon)
        return e->ended ? e->applied : explain_redirect(e, r, status);
    if (!strncmp(number, "row", 3)) {
        by_row = REDIRECT_BY_ROW;
        number += 3;
    }
    return (explain_where){apr_pstrmemdup(e->pool, note, (apr_size_t)(colon - note)),
                           by_row | (unsigned)strtoul(number, NULL, 10)};
}

const char *explain_place(const explain *e)
{
    return e->edit ? apr_psprintf(e->pool, "%s, edited row %s", e->by.file, e->edit)
                   : apr_psprintf(e->pool, "%s %s %u", e->by.file, redirect_line_word(e->by.line),
                                  redirect_line_number(e->by.line));
}

/* mod_dir and mod_negotiation put a subrequest's file in the place of the request's own. */
static void say_replaced(explain *e, const request_rec *r)
{
    const htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    const char *uri = rq ? rq->located : NULL;
    size_t len = uri ? strlen(uri) : 0;

    if (!len || r->main || !strcmp(uri, r->uri))
        return;
    explain_step(e, !strncmp(uri, r->uri, len) && uri[len - 1] != '/' ? "MultiViews" : "mod_dir",
                 NULL, apr_psprintf(r->pool, "%s is answered with %s", uri, r->uri), r->uri,
                 r->args);
}

/* mod_dir hands a subrequest's Location on and frees the subrequest. Nothing may be taken from a
 * pool before there is a copy of it. */
static void keep_location(request_rec *r)
{
    const char *location = apr_table_get(r->headers_out, "Location");
    char *copy = location ? strdup(location) : NULL;

    if (copy)
        apr_table_setn(r->headers_out, "Location", apr_pstrdup(r->pool, copy));
    free(copy);
}

/* An ErrorDocument that is a URL makes a redirect of an answer. */
static void note_document(explain *e, request_rec *r, int status)
{
    const char *url = ap_response_code_string(r, ap_index_of_response(status)), *from = "";

    if (!url || !ap_is_url(url))
        return;
    if (e->by.file)
        from = apr_pstrcat(r->pool, " from ", explain_place(e), NULL);
    e->document = document_line(r, status);
    explain_step(
        e, "ErrorDocument", &e->document,
        apr_psprintf(r->pool, "the answer %d%s becomes a redirect to %s", status, from, url), NULL,
        NULL);
}

/* The first answer that is no success, and a redirect that comes of it: its document is one, or is
 * answered with one. */
static void note_refusal(explain *e, request_rec *r, int status)
{
    bool document = is_document(r);

    if (status == OK || status == DONE || r->main)
        return;
    if (document && ap_is_HTTP_REDIRECT(status))
        e->document = answering_line(e, r, status);
    if (document || e->refused)
        return;
    e->refused = status;
    e->by = answering_line(e, r, status);
    note_document(e, r, status);
}

/* What httpd does with a request until it has an answer, or a handler would run. */
static int go_through(explain *e, request_rec *r)
{
    int status;

    e->ended = false;
    if (!is_document(r))
        e->last = r;
    status = ap_process_request_internal(r);
    if (ap_is_HTTP_REDIRECT(status))
        keep_location(r);
    if (status == OK)
        say_replaced(e, r);
    if (status == OK && !e->mark.stopped)
        status = explain_insert_filters(r);
    if (status == OK && !e->mark.stopped)
        status = explain_answer(e, r);
    if (status == DECLINED)
        status = HTTP_INTERNAL_SERVER_ERROR;
    note_refusal(e, r, status);
    return status;
}

/* httpd asks here for each internal redirect. Once it was stopped, nothing more is done. */
static int quick_handler(request_rec *r, int lookup)
{
    explain *e = explain_of(r);

    if (!e || lookup)
        return DECLINED;
    return e->mark.stopped ? DONE : go_through(e, r);
}

int htc_explain_handler(request_rec *r)
{
    explain *e = explain_of(r);

    if (!r->main && !is_document(r))
        e->last = r;
    return e->mark.stopped ? DONE : explain_answer(e, r);
}

/* --- the whole --------------------------------------------------------------------------------*/

static const char *header_of(const explain *e, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = strstr(e->head, "\r\n"); at && at[2]; at = strstr(at + 2, "\r\n")) {
        if (strncasecmp(at + 2, name, len) || at[2 + len] != ':')
            continue;
        at += 2 + len + 1;
        at += strspn(at, " \t");
        return apr_pstrmemdup(e->pool, at, strcspn(at, "\r\n"));
    }
    return NULL;
}

static void read_head(explain *e)
{
    const char *blank = strchr(e->head, ' ');

    e->status = !strncmp(e->head, "HTTP/", 5) && blank ? (int)strtol(blank, NULL, 10) : 0;
    e->location = header_of(e, "Location");
    if (e->document.file && e->status != e->refused)
        e->by = e->document;
}

void explain_look_up(explain *e)
{
    request_rec *r = e->r;
    int status = r->status == HTTP_OK ? ap_run_post_read_request(r) : r->status;

    r->status = HTTP_OK;
    e->last = r;
    if (status == OK || status == DECLINED)
        status = go_through(e, r);
    /* Core has set the status of some answers, such as that for a symbolic link that is not to be
     * followed. httpd makes their documents all the same; ap_die() would take it for an error of before. */
    if (status != OK && status != DONE)
        r->status = HTTP_OK;
    if (!e->mark.stopped)
        ap_die(status, r);
    if (!e->mark.stopped)
        read_head(e);
}

/* --- hooks ------------------------------------------------------------------------------------*/

/* A map of a program, which mod_rewrite would ask. */
static char *ask_program(request_rec *r, char *key)
{
    explain *e = explain_of(r);

    if (!e)
        return NULL;
    if (e->tried.file)
        explain_stop(e, "a RewriteMap would ask a program for '%s', by %s line %u", key,
                     e->tried.file, e->tried.line);
    else
        explain_stop(e, "a RewriteMap would ask a program for '%s'", key);
    return NULL;
}

/* Whoever asks whether the connection is encrypted is told so. */
static bool is_https(const conn_rec *c)
{
    const htc_explained *e = htc_server_conf_of(c->base_server)->explained;

    return e && e->https;
}

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 102)
static int conn_is_ssl(conn_rec *c)
{
    return is_https(c) ? OK : DECLINED;
}

static void hook_https(void)
{
    ap_hook_ssl_conn_is_ssl(conn_is_ssl, NULL, NULL, APR_HOOK_REALLY_FIRST);
}
#else
/* Before httpd 2.4.48 mod_ssl itself is asked, by this function. mod_rewrite and others look for it
 * when the configuration has been read. */
APR_DECLARE_OPTIONAL_FN(int, ssl_is_https, (conn_rec *));
static APR_OPTIONAL_FN_TYPE(ssl_is_https) * of_mod_ssl;

static int ssl_is_https(conn_rec *c)
{
    return is_https(c) || (of_mod_ssl && of_mod_ssl(c));
}

static int stand_for_mod_ssl(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    (void)pconf;
    (void)plog;
    (void)ptemp;
    (void)s;
    of_mod_ssl = APR_RETRIEVE_OPTIONAL_FN(ssl_is_https);
    APR_REGISTER_OPTIONAL_FN(ssl_is_https);
    return OK;
}

static void hook_https(void)
{
    ap_hook_post_config(stand_for_mod_ssl, NULL, NULL, APR_HOOK_REALLY_FIRST);
}
#endif

void htc_explain_register_hooks(void)
{
    explain_register_filters();
    ap_hook_error_log(explain_hear, NULL, NULL, APR_HOOK_MIDDLE);
}

/* Where mod_rewrite is, and keeps what it keeps as expected. */
static void find_rewrite(apr_pool_t *pconf, apr_pool_t *ptemp)
{
    static char name[] = EXPLAIN_MAP;
    APR_OPTIONAL_FN_TYPE(ap_register_rewrite_mapfunc) *fn =
        APR_RETRIEVE_OPTIONAL_FN(ap_register_rewrite_mapfunc);
    htc_rewrite *rewrite = apr_pcalloc(pconf, sizeof(*rewrite));

    if (!fn || htc_is_preflight())
        return;
    fn(name, ask_program);
    if (htc_rewrite_find(rewrite, EXPLAIN_MAP, pconf, ptemp))
        htc_options_get()->explain_rewrite = rewrite;
}

void htc_explain_pre_config(apr_pool_t *pconf, apr_pool_t *ptemp)
{
    find_rewrite(pconf, ptemp);
    explain_hook_effects(pconf);
    ap_hook_quick_handler(quick_handler, NULL, NULL, APR_HOOK_REALLY_FIRST);
    hook_https();
}
