/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counts expensive work for each .htaccess file, with the time it took: comparisons with the disk,
 * parses, directives run for a request. Called where that work is done; the status page lists the
 * files that cost most (status/costs.c). A request that is answered from memory does not come here.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include <time.h>

void htc_cost_create(htc_context *ctx, server_rec *s)
{
    apr_status_t rv;

    if (!ctx->store)
        return;
    rv = htc_costs_create(&ctx->costs, ctx->pconf);
    if (rv != APR_SUCCESS)
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                     "HtCache: no memory to count what single .htaccess files cost; the status "
                     "page does not list those that cost most until httpd is restarted with more");
}

uint64_t htc_cost_begin(void)
{
    struct timespec now;

    sys_clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

void htc_cost_end(htc_context *ctx, const char *path, htc_cost_kind kind, uint64_t began)
{
    if (ctx->costs)
        htc_costs_add(ctx->costs, htc_store_hash(ctx->store, path, strlen(path)), kind,
                      began ? htc_cost_begin() - began : 0);
}
