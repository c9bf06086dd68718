/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * In place of httpd's handlers: what only reads a file, or sends the request to another path inside
 * of httpd, is run. Before what has an effect, or may have one, the request is stopped. Called by
 * explain/lookup.c.
 */
#include "explain/internal.h"

#include "http_core.h"
#include "http_protocol.h"
#include "mod_rewrite.h"

#define REDIRECT "redirect:"
#define PROXY    "proxy:"

/* Those whose handlers only read, or lead to another path, as mod_actions' does. */
static const char *const readers[] = {"mod_negotiation.c", "mod_autoindex.c", "mod_actions.c",
                                      "core.c"};

/* Handlers of httpd that they are asked for; others belong to other modules. */
static bool is_read(const char *handler)
{
    static const char *const names[] = {"default-handler", DIR_MAGIC_TYPE, "type-map",
                                        "application/x-type-map"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(handler, names[i]))
            return true;
    }
    return false;
}

/* Modules take some types for handlers' names. */
static bool is_plain_type(const char *type)
{
    return strncmp(type, "application/x-httpd-", 20) != 0 && strncmp(type, "httpd/", 6) != 0;
}

/* As ap_invoke_handler() chooses. */
static const char *handler_of(request_rec *r)
{
    const char *type = r->content_type;

    if (r->handler)
        return r->handler;
#ifdef AP_REQUEST_IS_TRUSTED_CT
    if (!AP_REQUEST_IS_TRUSTED_CT(r))
        type = NULL;
#endif
    if (!type)
        return "default-handler";
    return apr_pstrmemdup(r->pool, type, strcspn(type, "; "));
}

/* core's handler that is ahead of all others changes the protocol: mod_http2 would answer the
 * request once more, with all its effects. */
static bool is_reader(const ap_LINK_handler_t *link)
{
    for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
        if (!strcmp(link->szName, readers[i]))
            return link->nOrder != APR_HOOK_REALLY_FIRST;
    }
    return false;
}

/* Of a listing the header is made, and with a Range its status depends on the rest. */
static void note_listing(explain *e, const request_rec *r, const char *handler)
{
    if (!r->main && !strcmp(handler, DIR_MAGIC_TYPE) && apr_table_get(r->headers_in, "Range"))
        explain_note(e, "The listing was not made. With Range it may have another status.");
}

static int run_readers(request_rec *r, const char *handler)
{
    const apr_array_header_t *links = ap_hook_get_handler();
    const char *before = r->handler;
    int status = DECLINED;

    r->handler = handler;
    for (int i = 0; links && i < links->nelts && status == DECLINED; i++) {
        const ap_LINK_handler_t *link = &APR_ARRAY_IDX(links, i, const ap_LINK_handler_t);

        if (is_reader(link))
            status = link->pFunc(r);
    }
    r->handler = before;
    return status;
}

/* RewriteRules of directories leave it to a handler to ask httpd for the other path. */
static int redirect_inside(request_rec *r)
{
    const char *path = r->filename + strlen(REDIRECT);

    ap_internal_redirect(apr_pstrcat(r->pool, path, r->args ? "?" : NULL, r->args, NULL), r);
    return OK;
}

/* The document of an error may be made by a program: the error is the answer all the same. */
static int stop(explain *e, const request_rec *r, const char *handler)
{
    const char *file = r->filename ? r->filename : r->uri;

    if (r->status != HTTP_OK)
        explain_note(e,
                     "The document of the answer %d is made by the handler '%s' of %s, which was "
                     "not run. It may set another status.",
                     r->status, handler, file);
    else if (!strncmp(file, PROXY, strlen(PROXY)))
        explain_stop(e, "mod_proxy would ask %s", file + strlen(PROXY));
    else if (r->finfo.filetype == APR_NOFILE)
        explain_stop(e, "the handler '%s' would be run for %s, which does not exist", handler,
                     file);
    else
        explain_stop(e, "the handler '%s' would be run for %s", handler, file);
    return DONE;
}

int explain_answer(explain *e, request_rec *r)
{
    const char *handler = handler_of(r);

    explain_drop_filters(e, r);
    if (!strcmp(handler, REWRITE_REDIRECT_HANDLER_NAME) && r->filename &&
        !strncmp(r->filename, REDIRECT, strlen(REDIRECT)))
        return redirect_inside(r);
    if (r->status == HTTP_OK && !r->main)
        e->handler = apr_pstrdup(e->pool, handler);
    if ((r->handler || !is_plain_type(handler)) && !is_read(handler))
        return stop(e, r, handler);
    note_listing(e, r, handler);
    return run_readers(r, handler);
}
