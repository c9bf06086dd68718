/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the folders below explain/ do for a request that ?explain makes; see module/module.h.
 */
#include "module/module.h"

struct ap_logconf *htc_explained_traced(const struct ap_logconf *own, apr_pool_t *pool)
{
    const module *rewrite = ap_find_linked_module("mod_rewrite.c");
    struct ap_logconf *traced = ap_new_log_config(pool, own);

    if (rewrite)
        ap_set_module_loglevel(pool, traced, rewrite->module_index, APLOG_TRACE8);
    return traced;
}

/* A subrequest begins with the level of the request that it is made for. */
static const htc_request *traced_by(const request_rec *r)
{
    for (const request_rec *by = r; by && r->log; by = by->main) {
        const htc_request *rq = ap_get_module_config(by->request_config, &htcache_module);

        if (rq && rq->traced == r->log)
            return rq;
    }
    return NULL;
}

void htc_explained_trace(request_rec *r)
{
    htc_request *rq;

    if (!r->log || traced_by(r))
        return;
    rq = htc_request_get(r);
    rq->level = r->log;
    rq->traced = r->log = htc_explained_traced(r->log, r->pool);
}

void htc_explained_located(request_rec *r, htc_request *rq)
{
    rq->located = apr_pstrdup(r->pool, r->uri);
    rq->file = apr_pstrcat(r->pool, r->filename, r->path_info, NULL);
    htc_explained_trace(r);
}

const struct ap_logconf *htc_explained_level(const htc_explained *e, const request_rec *r)
{
    const htc_request *by = traced_by(r);

    return by ? by->level : r->log ? r->log : &e->server->log;
}

void htc_explained_met(const htc_explained *e, const char *dir, const char *path)
{
    htc_met *met;

    for (int i = 0; i < e->met->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(e->met, i, htc_met).path, path))
            return;
    }
    met = apr_array_push(e->met);
    met->dir = apr_pstrdup(e->pool, dir);
    met->path = apr_pstrdup(e->pool, path);
}
