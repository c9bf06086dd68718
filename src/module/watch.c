/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * HtCacheRevalidate auto: the kernel reports changes. The shared inotify instance is made here
 * before the children fork, and drained at the start of each request. The mechanism itself is in
 * cache/watch.c; htaccess/revalidate.c uses it for one record.
 */
#include "module/module.h"

#include "http_main.h"

#include <unistd.h>

/* A record, the directories on its way, and links: nodes for each slot of the store. */
#define NODES_PER_SLOT 2

bool htc_fresh_wanted(const server_rec *s)
{
    for (; s; s = s->next) {
        if (htc_server_conf_of(s)->may_be_auto)
            return true;
    }
    return false;
}

void htc_fresh_create(htc_context *ctx, server_rec *s, apr_pool_t *pool)
{
    const char *why = NULL;
    htc_store_stats stats;
    apr_status_t rv;

    if (!htc_fresh_wanted(s))
        return;
    htc_store_stats_get(ctx->store, &stats);
    rv = htc_watch_create(&ctx->watch, ctx->store, (uint32_t)stats.slots_total * NODES_PER_SLOT,
                          pool, &why);
    if (rv == APR_SUCCESS)
        return;
    ctx->watch = NULL;
    ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                 "HtCacheRevalidate auto: %s. Until the next restart records are compared with the "
                 "disk every second instead",
                 why);
}

/* --- draining ---------------------------------------------------------------------------------*/

#define ALL_COMPARED "every record is compared with the disk once"

static const struct {
    int level;
    const char *text;
} troubles[HTC_TROUBLES] = {
    [HTC_TROUBLE_OVERFLOW] =
        {APLOG_WARNING,
         "the kernel's queue of changes was full, and some of them are lost: " ALL_COMPARED
         "; raise the sysctl fs.inotify.max_queued_events"},
    [HTC_TROUBLE_DEATH] = {APLOG_WARNING,
                           "a process died with changes that it had not published, or while it "
                           "wrote to the table of what is watched: " ALL_COMPARED
                           "; look for 'exit signal' in this log"},
    [HTC_TROUBLE_HANG] = {APLOG_WARNING,
                          "a process is stopped, or very slow, and holds changes that it has not "
                          "published: each request compares with the disk until it goes on, or is "
                          "ended"},
    [HTC_TROUBLE_UNKNOWN] = {APLOG_WARNING,
                             "the kernel reported something unexpected: " ALL_COMPARED
                             "; please report it, with the version of the kernel"},
    [HTC_TROUBLE_DAMAGE] =
        {APLOG_ERR, "the table of what is watched was damaged, and was emptied: " ALL_COMPARED
                    "; suspect that a child process was taken over, or a "
                    "module that writes where it must not"},
    [HTC_TROUBLE_UNMOUNT] = {APLOG_NOTICE,
                             "a file system was unmounted; what was watched there is compared "
                             "with the disk"}};

static void say_troubles(const htc_context *ctx)
{
    for (int i = 0; i < HTC_TROUBLES; i++) {
        if (htc_watch_troubled(ctx->watch, (htc_watch_trouble)i))
            ap_log_error(APLOG_MARK, troubles[i].level, 0, ap_server_conf,
                         "HtCacheRevalidate auto: %s. Not logged again until the next restart",
                         troubles[i].text);
    }
}

/* Once a second and process; htc_watch_sweep() sees to it that one process of all does it. */
static HTC_APART void sweep(htc_context *ctx, apr_int64_t second)
{
    atomic_store_explicit(&ctx->swept, second, memory_order_relaxed);
    say_troubles(ctx);
    htc_watch_sweep(ctx->watch, htc_mono_ms());
}

HTC_EACH int htc_fresh_request(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);

    /* Also where a time is set: servers share records, and one that another server trusts because
     * nothing was reported is not looked at by time any more. */
    if (!sc->may_be_enabled || !sc->ctx)
        return DECLINED;
    htc_hot_fetch();
    if (sc->ctx->watch) {
        apr_int64_t second = apr_time_sec(r->request_time);

        htc_watch_drain(sc->ctx->watch);
        if (atomic_load_explicit(&sc->ctx->swept, memory_order_relaxed) != second)
            sweep(sc->ctx, second);
    }
    return DECLINED;
}

void htc_fresh_drain(const server_rec *s)
{
    const htc_context *ctx = htc_server_conf_of(s)->ctx;

    if (ctx && ctx->watch)
        htc_watch_drain(ctx->watch);
}

/* A server that is asked for nothing need not let the kernel's queue overflow. But the parent
 * mostly is root, and nothing in the tree is checked, which its children may write: then it stays
 * away, and a queue that did overflow costs one comparison of each record. */
int htc_fresh_monitor(apr_pool_t *pool, server_rec *s)
{
    const htc_context *ctx = htc_server_conf_of(s)->ctx;

    (void)pool;
    if (ctx && ctx->watch && sys_geteuid() != 0) {
        htc_watch_drain(ctx->watch);
        say_troubles(ctx);
        htc_watch_sweep(ctx->watch, htc_mono_ms());
    }
    return DECLINED;
}

static const struct {
    uint32_t type;
    const char *name;
} type_names[] = {{0x6969, "NFS"},      {0xFF534D42, "CIFS"},    {0xFE534D42, "SMB"},
                  {0x65735546, "FUSE"}, {0x794C7630, "overlay"}, {0x0BD00BD0, "Lustre"},
                  {0x00C36400, "Ceph"}, {0x01161970, "GFS2"},    {0x7461636F, "OCFS2"},
                  {0x47504653, "GPFS"}, {0x5346414F, "AFS"},     {0x01021997, "9P"}};

const char *htc_fresh_type_name(uint32_t type)
{
    for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++) {
        if (type_names[i].type == type)
            return type_names[i].name;
    }
    return "unknown";
}

/* --- status -----------------------------------------------------------------------------------*/

void htc_fresh_report(htc_report *report)
{
    htc_group *group = htc_report_group(report, "watch", "Being told of changes",
                                        "how HtCacheRevalidate auto learns of edits");
    const htc_watch *watch = report->ctx ? report->ctx->watch : NULL;
    htc_watch_stats now = {0};

    if (watch)
        htc_watch_stats_get(watch, &now);
    htc_add_counters(group);
    htc_add_flag(group, "active", watch != NULL, "whether files are watched with inotify");
    htc_add_gauge(group, "watches", HTC_UNIT_ONE, now.watches, "inotify watches in use");
    htc_add_gauge(group, "watches_allowed", HTC_UNIT_ONE, now.watches_limit,
                  "fs.inotify.max_user_watches");
    htc_add_gauge(group, "watch_nodes", HTC_UNIT_ONE, now.nodes,
                  "paths in the table of what is watched");
    htc_add_gauge(group, "watch_bytes", HTC_UNIT_BYTES, now.bytes, "memory of that table");
    htc_add_counter(group, "refused_limit", HTC_UNIT_ONE, now.failures[HTC_WATCH_KERNEL],
                    "times the kernel gave no more watches");
    htc_add_counter(group, "refused_table", HTC_UNIT_ONE, now.failures[HTC_WATCH_FULL],
                    "times the table of what is watched was full");
    htc_add_counter(group, "refused_filesystem", HTC_UNIT_ONE, now.failures[HTC_WATCH_FILESYSTEM],
                    "times a path lay on a file system that may not report all changes");
    htc_add_counter(group, "refused_permission", HTC_UNIT_ONE, now.failures[HTC_WATCH_DENIED],
                    "times a directory on the way could be passed but not read");
    htc_add_counter(group, "refused_path", HTC_UNIT_ONE, now.failures[HTC_WATCH_PATH],
                    "times a path was too deep, had links that cannot be followed, or shared its "
                    "place with too many others");
    htc_add_counter(group, "refused_silent", HTC_UNIT_ONE, now.failures[HTC_WATCH_SILENT],
                    "times a directory ignored case, or a file of an overlay had several names");
}
