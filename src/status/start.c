/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * One line in the error log for each start and restart: which version, whether the cache is on, with
 * how much memory, which builder, and how edits are noticed. Called by mod_htcache.c when all of
 * that is known.
 */
#include "htaccess/htaccess.h"
#include "status/status.h"

#include "http_main.h"

static const char *memory_text(const htc_context *ctx)
{
    uint64_t bytes = ctx->memory;
    const char *unit = "";

    for (const char *const *u = (const char *const[]){"K", "M", "G", NULL}; *u && !(bytes % 1024);
         u++) {
        bytes /= 1024;
        unit = *u;
    }
    return apr_psprintf(ctx->pconf, "%" APR_UINT64_T_FMT "%s", (apr_uint64_t)bytes, unit);
}

static const char *builder_text(const htc_context *ctx)
{
    pid_t pid = htc_builder_pid(ctx);

    if (!ctx->heap)
        return "no builder, so each request runs the directives of .htaccess files itself";
    return pid ? apr_psprintf(ctx->pconf, "builder process %" APR_PID_T_FMT, pid)
               : "no builder process yet";
}

/* Of the main server; virtual hosts and directories may have settings of their own. */
static const char *freshness_text(const htc_context *ctx, const server_rec *s)
{
    apr_int64_t ms = htc_server_conf_of(s)->plain.revalidate_ms;
    int slow = ctx->unwatched ? ctx->unwatched->nelts : 0;

    if (!htc_fresh_wanted(s))
        return ms > 0 ? apr_psprintf(ctx->pconf, "files are compared after %" APR_INT64_T_FMT " ms",
                                     ms)
                      : "files are compared on each request";
    if (!ctx->watch)
        return "files are compared every second, as the kernel cannot report changes";
    if (!slow)
        return "the kernel reports changes";
    return apr_psprintf(ctx->pconf,
                        "the kernel reports changes, but in %d %s an edit takes effect within a "
                        "second",
                        slow, slow == 1 ? "tree" : "trees");
}

void htc_status_say_start(server_rec *s)
{
    const htc_context *ctx = htc_server_conf_of(s)->ctx;

    if (htc_is_preflight())
        return;
    if (!ctx)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                     "mod_htcache " HTC_VERSION ": off, as HtCache On holds nowhere: %s",
                     htc_options_get()->on_advice);
    else if (!ctx->store)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s, "mod_htcache " HTC_VERSION ": off, as %s: %s",
                     ctx->off_reason, ctx->off_advice);
    else
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                     "mod_htcache " HTC_VERSION ": on, HtCacheMemory %s, %s, %s", memory_text(ctx),
                     builder_text(ctx), freshness_text(ctx, s));
}
