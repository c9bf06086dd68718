/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * HtCacheRevalidate auto: the kernel tells of changes. The shared inotify instance is made here
 * before the children fork, drained at the start of each request, and a record is trusted here from
 * the time its path is watched. What cannot be watched is compared with the disk on each request,
 * or every second on file systems of which the kernel does not see all changes, and the error log
 * says once why. The mechanism itself is in cache/watch.c.
 */
#include "htaccess/watch.h"
#include "htaccess/farm.h"

#include "http_main.h"

#include <unistd.h>

/* A record, the directories on its way, and links: nodes for each slot of the store. */
#define NODES_PER_SLOT 2

static bool wanted(const server_rec *s)
{
    for (; s; s = s->next) {
        if (htc_server_conf_of(s)->may_be_auto)
            return true;
    }
    return false;
}

void htc_fresh_create(htc_context *ctx, server_rec *s)
{
    const char *why = NULL;
    htc_store_stats stats;
    apr_status_t rv;

    if (!ctx->store || !wanted(s))
        return;
    htc_store_stats_get(ctx->store, &stats);
    rv = htc_watch_create(&ctx->watch, ctx->store, (uint32_t)stats.slots_total * NODES_PER_SLOT,
                          ctx->pconf, &why);
    if (rv == APR_SUCCESS) {
        htc_fresh_find_trees(ctx, s);
        return;
    }
    ctx->watch = NULL;
    ap_log_error(APLOG_MARK, APLOG_WARNING, rv, s,
                 "HtCacheRevalidate auto: %s. Until the next restart entries are compared with the "
                 "disk every second instead",
                 why);
}

/* --- draining ---------------------------------------------------------------------------------*/

#define ALL_COMPARED "every entry is compared with the disk once"

static const struct {
    int level;
    const char *text;
} troubles[HTC_TROUBLES] = {
    [HTC_TROUBLE_OVERFLOW] =
        {APLOG_WARNING,
         "the kernel's queue of changes was full, and some of them are lost: " ALL_COMPARED
         "; raise the sysctl fs.inotify.max_queued_events"},
    [HTC_TROUBLE_DEATH] = {APLOG_WARNING,
                           "a process died with changes that it had not told the others of, or "
                           "while it noted what is watched: " ALL_COMPARED},
    [HTC_TROUBLE_HANG] =
        {APLOG_WARNING, "a process is stopped, or very slow, and holds changes that it has not "
                        "told the others of: each request compares with the disk until it goes on"},
    [HTC_TROUBLE_UNKNOWN] =
        {APLOG_WARNING, "the kernel reported something that it was not asked for: " ALL_COMPARED},
    [HTC_TROUBLE_DAMAGE] = {APLOG_ERR,
                            "the table of what is watched was written to by somebody else, and was "
                            "emptied: " ALL_COMPARED
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
    if (ctx && ctx->watch && geteuid() != 0) {
        htc_watch_drain(ctx->watch);
        say_troubles(ctx);
        htc_watch_sweep(ctx->watch, htc_mono_ms());
    }
    return DECLINED;
}

/* --- trust ------------------------------------------------------------------------------------*/

static const struct {
    int level;
    const char *text; /* NULL: nothing to say */
} messages[HTC_WATCH_WHYS] = {
    [HTC_WATCH_KERNEL] = {APLOG_WARNING, "no more inotify watches are to be had; raise the sysctl "
                                         "fs.inotify.max_user_watches"},
    [HTC_WATCH_FULL] = {APLOG_WARNING, "there is no room for more of what is watched, or its owner "
                                       "has a quarter of it; raise HtCacheMemory"},
    [HTC_WATCH_DENIED] = {APLOG_INFO, "a directory on the way may be passed but not read by the "
                                      "server's user; give it read permission"},
    [HTC_WATCH_PATH] = {APLOG_NOTICE, "its path is too deep, has links that cannot be followed, or "
                                      "too many others lead to the same place"},
    [HTC_WATCH_SILENT] = {APLOG_NOTICE, "a directory on the way takes upper and lower case for the "
                                        "same, or it is a file of an overlay with several names"}};

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

/* Those that were met since anybody said it last; mostly the one of this path. */
static void say_file_systems(htc_context *ctx, const char *path)
{
    htc_watch_refusal one;

    while (htc_watch_refused(ctx->watch, &one))
        ap_log_error(
            APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
            "HtCacheRevalidate auto: the file system at %s (type 0x%x, %s) is not known to "
            "report all changes: what lies there cannot be watched, and an edit takes effect "
            "within "
            "a second (with HtCacheRevalidate 0, on the next request). Met for %s. Not logged "
            "again for this one",
            one.at, one.type, htc_fresh_type_name(one.type), path);
}

static void say_once(htc_context *ctx, htc_watch_why why, const char *path)
{
    if (why == HTC_WATCH_FILESYSTEM)
        say_file_systems(ctx, path);
    else if (messages[why].text && htc_watch_first(ctx->watch, why))
        ap_log_error(APLOG_MARK, messages[why].level, 0, ap_server_conf,
                     "HtCacheRevalidate auto: %s cannot be watched and is compared with the disk "
                     "on each request instead: %s. Not logged again for others",
                     path, messages[why].text);
}

int64_t htc_fresh_mark(const htc_context *ctx, apr_int64_t ttl, apr_int64_t now)
{
    return ttl == HTC_REVALIDATE_AUTO && ctx->watch ? htc_watch_doubt(ctx->watch) : now;
}

/* Anything but a doubt may be there twice, the second time with another record in the slot. */
static void claim(htc_context *ctx, htc_trust *trust, _Atomic int64_t *mark, int64_t seen)
{
    bool was_doubt = htc_mark_is_doubt(seen);

    *trust = (htc_trust){
        .mark = mark, .fresh = htc_watch_fresh(ctx->watch), .own = htc_watch_doubt(ctx->watch)};
    trust->unprompted = htc_mark_is_unprompted(seen);
    trust->mine = atomic_compare_exchange_strong(mark, &seen, trust->own) && was_doubt;
}

void htc_trust_begin(htc_context *ctx, htc_trust *trust, _Atomic int64_t *mark, int64_t seen,
                     const char *path, htc_ref ref)
{
    if (!ctx->watch) {
        trust->mark = NULL;
        return;
    }
    claim(ctx, trust, mark, seen);
    if (!trust->mine)
        return;
    trust->why = htc_watch_record(ctx->watch, path, ref, &trust->known);
    say_once(ctx, trust->why, path);
}

void htc_trust_end(htc_trust *trust)
{
    int64_t own = trust->own, mark = trust->fresh;

    if (!trust->mine || trust->why == HTC_WATCH_AGAIN)
        return;
    if (trust->why != HTC_WATCH_OK)
        mark = htc_mark_asked(trust->why, htc_mono_ms());
    atomic_compare_exchange_strong(trust->mark, &own, mark);
}

/* Is the identity that a request remembers of the record still the record's? It gets another one
 * when its file is written again with the same bytes, which was reported then. */
static bool has_identity(const htc_context *ctx, const htc_dep *dep)
{
    size_t len = strlen(dep->path);
    htc_info info;

    return htc_store_find(ctx->store, htc_store_hash(ctx->store, dep->path, len), dep->path, len,
                          &info) &&
           info.ref.version == dep->ref.version && htc_identity_equal(&info.id, &dep->id);
}

/* The file is another one. Is it although all that was watched reported nothing? A record that was
 * doubted for what was reported is looked at more than once before it is replaced: its path may be
 * watched again by then. */
static void note_untrue(htc_context *ctx, const htc_trust *trust, const htc_dep *dep)
{
    if (!trust->mine || !trust->unprompted || !trust->known || trust->why != HTC_WATCH_OK ||
        !has_identity(ctx, dep))
        return;
    htc_watch_drain(ctx->watch);
    if (atomic_load(trust->mark) == trust->own)
        htc_watch_untrue(ctx->watch, htc_mono_ms());
}

/* What cannot be watched on a disk of this machine is compared on each request. Once a second it is
 * asked again whether it can be watched now. */
static bool recheck_each(htc_context *ctx, htc_slot_hot *slot, const htc_dep *dep, int64_t mark,
                         int64_t now)
{
    int64_t base = mark - htc_mark_time(mark, HTC_MARK_NONE), claimed = base + now;
    htc_watch_why why;
    bool known;

    htc_count(ctx->store, HTC_C_unwatched, 1);
    if (!htc_compare(ctx, dep)) {
        htc_store_claim(slot, mark, HTC_NEVER_CHECKED);
        return false;
    }
    if (mark > claimed - HTC_ASK_MS || !htc_store_claim(slot, mark, claimed))
        return true;
    why = htc_watch_record(ctx->watch, dep->path, dep->ref, &known);
    if (why == HTC_WATCH_OK)
        htc_store_claim(slot, claimed,
                        htc_watch_doubt(ctx->watch)); /* The next one may trust it. */
    else if (why != HTC_WATCH_AGAIN)
        htc_store_claim(slot, claimed, htc_mark_asked(why, now));
    return true;
}

/* What cannot be watched on a file system that others change is asked for once a second, by one for
 * all. */
static bool recheck_asked(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                          int64_t mark, int64_t now)
{
    int64_t base = mark - htc_mark_time(mark, HTC_MARK_NONE), claimed = base + now;
    htc_watch_why why;
    bool known, same;

    if (mark > claimed - HTC_ASK_MS)
        return true;
    /* The others go on while one looks, but not with what nobody has looked at for long. */
    if (mark <= claimed - 2 * HTC_ASK_MS)
        claimed = mark;
    else if (!htc_store_claim(slot, mark, claimed))
        return true;
    if (ctx->farm &&
        htc_farm_knows(ctx, r, slot, dep, HTC_ASK_MS, base, mark - base, claimed, now, &same))
        return same;
    htc_count(ctx->store, HTC_C_unwatched, 1);
    same = htc_compare(ctx, dep);
    if (same && ctx->farm)
        htc_farm_confirm(ctx, r, dep, HTC_ASK_MS, now);
    if (!same) {
        htc_store_refute(slot, HTC_NEVER_CHECKED);
        return false;
    }
    why = htc_watch_record(ctx->watch, dep->path, dep->ref, &known);
    if (why == HTC_WATCH_OK)
        htc_store_confirm(slot, claimed,
                          htc_watch_doubt(ctx->watch)); /* The next one may trust it. */
    else if (why != HTC_WATCH_AGAIN)
        htc_store_claim(slot, claimed, htc_mark_asked(why, now));
    return true;
}

/* Asked for after a long time, or found with a mark of somebody who does not watch: one look at the
 * disk, and the next request may trust it. */
static bool recheck_once(htc_context *ctx, htc_slot_hot *slot, const htc_dep *dep, int64_t mark)
{
    htc_trust trust;

    claim(ctx, &trust, &slot->checked_at, mark);
    return htc_compare(ctx, dep);
}

/* Without an instance all is asked for. */
static bool recheck_without(htc_context *ctx, request_rec *r, htc_slot_hot *slot,
                            const htc_dep *dep, int64_t mark, int64_t now)
{
    if (htc_mark_time(mark, HTC_MARK_NONE) > now - HTC_ASK_MS)
        return true;
    return htc_recheck(ctx, r, slot, dep, mark, HTC_ASK_MS, now);
}

bool htc_fresh_recheck(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                       int64_t mark)
{
    int64_t now = htc_mono_ms();
    htc_trust trust;

    if (dep->racy)
        return false;
    if (!ctx->watch)
        return recheck_without(ctx, r, slot, dep, mark, now);
    if (htc_mark_is_asked(mark) && htc_watch_each_request(htc_mark_why(mark)))
        return recheck_each(ctx, slot, dep, mark, now);
    if (htc_mark_is_asked(mark))
        return recheck_asked(ctx, r, slot, dep, mark, now);
    if (!htc_mark_is_doubt(mark) || now - htc_mark_doubted_at(mark) > HTC_WATCH_SOON_MS)
        return recheck_once(ctx, slot, dep, mark);
    htc_trust_begin(ctx, &trust, &slot->checked_at, mark, dep->path, dep->ref);
    if (htc_compare(ctx, dep)) {
        htc_trust_end(&trust);
        return true;
    }
    note_untrue(ctx, &trust, dep);
    return false;
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
    htc_add_flag(group, "active", watch != NULL, "whether the kernel is asked to tell");
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
                    "times a directory took upper and lower case for the same, or a file of an "
                    "overlay had several names");
}
