/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * POST to the status page: forgetting records, setting counters to 0, and editing rows of maps
 * (status/edit.c), for whom status/guard.c lets through. The action stands in a header, which a form in somebody's page
 * cannot send. Called by the handler in status/status.c.
 */
#include "base/base.h"
#include "redirects/redirects.h"
#include "status/status.h"

#include "http_protocol.h"

#define PATH_PARAMETER "path="

typedef struct purge_baton {
    htc_store *store;
    const char *prefix; /* ends with '/' */
    size_t len;
    uint64_t records;
} purge_baton;

static bool purge_record(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    purge_baton *b = baton;

    if (key_len >= b->len && !memcmp(key, b->prefix, b->len) &&
        htc_store_drop(b->store, info->ref) == APR_SUCCESS)
        b->records++;
    return true;
}

/* What the builder made of the records goes with them: it is valid only as long as they are. */
static uint64_t purge(htc_store *store, const char *path)
{
    purge_baton b = {.store = store, .prefix = path, .len = strlen(path)};
    htc_store_stats stats;

    if (*path) {
        htc_store_each(store, purge_record, &b);
        return b.records;
    }
    htc_store_stats_get(store, &stats);
    return htc_store_clear(store) == APR_SUCCESS ? stats.entries : 0;
}

/* The directory that the query names, with a slash at its end; "": none is named. NULL: it is
 * no directory's name. */
static const char *path_of(const request_rec *r)
{
    size_t len = sizeof(PATH_PARAMETER) - 1;
    char *path;

    if (!r->args || !*r->args)
        return "";
    if (strncmp(r->args, PATH_PARAMETER, len))
        return NULL;
    path = apr_pstrdup(r->pool, r->args + len);
    if (strchr(path, '&') || ap_unescape_urlencoded(path) != OK || *path != '/')
        return NULL;
    len = strlen(path);
    return path[len - 1] == '/' ? path : apr_pstrcat(r->pool, path, "/", NULL);
}

static int send_done(request_rec *r, const char *action, const char *path, uint64_t records)
{
    ap_log_rerror(APLOG_MARK, APLOG_NOTICE, 0, r,
                  "HtCache: %s of %s, asked for through the status page: %" APR_UINT64_T_FMT
                  " records",
                  action, *path ? path : "everything", (apr_uint64_t)records);
    ap_set_content_type(r, "application/json");
    ap_rprintf(r,
               "{\n  \"version\": \"%s\",\n  \"done\": {\"action\": \"%s\", \"path\": %s, "
               "\"records\": %" APR_UINT64_T_FMT "}\n}\n",
               HTC_VERSION, action, *path ? htc_escape_json(r->pool, path) : "null",
               (apr_uint64_t)records);
    return OK;
}

static int refuse(request_rec *r, int status, const char *why)
{
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "HtCache: POST to the status page refused: %s", why);
    return status;
}

int htc_status_post(request_rec *r)
{
    const htc_context *ctx = htc_server_conf_of(r->server)->ctx;
    const char *action = apr_table_get(r->headers_in, "X-HtCache");
    const char *path = path_of(r), *why = htc_admin_refusal(r);
    int rv;

    if (!why && action && !strcmp(action, "map-edit"))
        return htc_status_edit(r);
    rv = ap_discard_request_body(r);
    if (rv != OK)
        return rv;
    if (why)
        return refuse(r, HTTP_FORBIDDEN, why);
    if (!action || (strcmp(action, "purge") && strcmp(action, "reset")))
        return refuse(r, HTTP_BAD_REQUEST,
                      "send the header X-HtCache: purge, X-HtCache: reset or X-HtCache: map-edit");
    if (!path || (*path && strcmp(action, "purge")))
        return refuse(r, HTTP_BAD_REQUEST,
                      "the only parameter is path=, a directory, and only with X-HtCache: purge");
    if (!strcmp(action, "reset"))
        htc_redirect_counts_reset(r->server, r->pool);
    if (!ctx || !ctx->store)
        return send_done(r, action, path, 0);
    if (!strcmp(action, "purge"))
        return send_done(r, action, path, purge(ctx->store, path));
    htc_counters_reset(ctx->store);
    if (ctx->costs)
        htc_costs_reset(ctx->costs);
    return send_done(r, action, path, 0);
}
