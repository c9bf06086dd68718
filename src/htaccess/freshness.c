/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * How each directory is kept fresh, and why: read from the records' marks (cache/watch.h), which
 * say why a path cannot be watched. Called by the status page and by explain.
 */
#include "htaccess/freshness.h"
#include "htaccess/internal.h"

#include "http_main.h"

static const char *const mode_names[HTC_FRESH_MODES] = {
    [HTC_FRESH_WATCHED] = "watched", [HTC_FRESH_INTERVAL] = "interval", [HTC_FRESH_STAT] = "stat"};

static const struct {
    const char *name, *text;
} reasons[HTC_FRESH_REASONS] = {
    [HTC_FRESH_NO_REASON] = {"", "the kernel reports changes"},
    [HTC_FRESH_SETTING] = {"setting", "HtCacheRevalidate says so"},
    [HTC_FRESH_YOUNG] = {"young", "it was changed so recently that its times may not tell the next "
                                  "change; it is read again until it is older"},
    [HTC_FRESH_UNVERIFIED] = {"unverified",
                              "it was asked for only once so far, or a change was reported; the "
                              "kernel reports changes after the next request"},
    [HTC_FRESH_BY_INSTANCE] = {"no_instance", "there is no inotify instance; raise the sysctl "
                                              "fs.inotify.max_user_instances and restart"},
    [HTC_FRESH_BY_LIMIT] =
        {"limit",
         "the kernel gives no more inotify watches; raise the sysctl fs.inotify.max_user_watches"},
    [HTC_FRESH_BY_ROOM] = {"room", "the table of what is watched is full, or one user has used up "
                                   "his share of it; raise HtCacheMemory"},
    [HTC_FRESH_BY_FILESYSTEM] = {"file_system", "it lies on a file system that is not known to "
                                                "report all changes"},
    [HTC_FRESH_BY_PERMISSION] = {"permission", "a directory on the way may be passed but not read "
                                               "by the server's user; give it read permission"},
    [HTC_FRESH_BY_PATH] = {"path", "its path is too deep, has links that cannot be followed, or "
                                   "too many others lead to the same place"},
    [HTC_FRESH_BY_SILENCE] = {"silent", "a directory on the way ignores the case of letters, or it "
                                        "is a file of an overlay with several names"},
    [HTC_FRESH_BY_FARM] = {"farm", "known from another server, and not compared here so far"}};

static const htc_fresh_reason reason_of_why[HTC_WATCH_WHYS] = {
    [HTC_WATCH_OK] = HTC_FRESH_BY_FARM,
    [HTC_WATCH_AGAIN] = HTC_FRESH_BY_FARM,
    [HTC_WATCH_KERNEL] = HTC_FRESH_BY_LIMIT,
    [HTC_WATCH_FULL] = HTC_FRESH_BY_ROOM,
    [HTC_WATCH_FILESYSTEM] = HTC_FRESH_BY_FILESYSTEM,
    [HTC_WATCH_DENIED] = HTC_FRESH_BY_PERMISSION,
    [HTC_WATCH_PATH] = HTC_FRESH_BY_PATH,
    [HTC_WATCH_SILENT] = HTC_FRESH_BY_SILENCE};

const char *htc_fresh_mode_name(htc_fresh_mode mode)
{
    return mode_names[mode];
}

const char *htc_fresh_reason_name(htc_fresh_reason reason)
{
    return reasons[reason].name;
}

const char *htc_fresh_reason_text(htc_fresh_reason reason)
{
    return reasons[reason].text;
}

/* --- one record -------------------------------------------------------------------------------*/

static apr_int64_t age_of(int64_t mark)
{
    int64_t since = mark, now = htc_mono_ms();

    if (htc_mark_is_unverified(mark))
        since = htc_mark_unverified_at(mark);
    else if (mark >= HTC_MARK_WATCHED || mark == HTC_NEVER_CHECKED)
        return -1;
    else
        since = htc_mark_time(mark, HTC_MARK_NONE);
    return since < now ? now - since : 0;
}

static void set(htc_fresh_entry *entry, htc_fresh_mode mode, htc_fresh_reason reason,
                apr_int64_t interval_ms)
{
    entry->mode = mode;
    entry->reason = reason;
    entry->interval_ms = interval_ms;
}

static void judge(const htc_context *ctx, apr_int64_t ttl, const htc_info *info,
                  htc_fresh_entry *entry)
{
    int64_t mark = info->checked_at;

    entry->age_ms = age_of(mark);
    if (!ttl)
        set(entry, HTC_FRESH_STAT, HTC_FRESH_SETTING, 0);
    else if (ttl == HTC_REVALIDATE_AUTO && ctx->watch && mark == htc_watch_fresh(ctx->watch))
        set(entry, HTC_FRESH_WATCHED, HTC_FRESH_NO_REASON, 0);
    else if (info->flags & HTC_RF_RACY)
        set(entry, HTC_FRESH_STAT, HTC_FRESH_YOUNG, 0);
    else if (ttl != HTC_REVALIDATE_AUTO)
        set(entry, HTC_FRESH_INTERVAL, HTC_FRESH_SETTING, ttl);
    else if (!ctx->watch)
        set(entry, HTC_FRESH_INTERVAL, HTC_FRESH_BY_INSTANCE, HTC_ASK_MS);
    else if (htc_mark_is_polled(mark) && htc_watch_each_request(htc_mark_why(mark)))
        set(entry, HTC_FRESH_STAT, reason_of_why[htc_mark_why(mark)], 0);
    else if (htc_mark_is_polled(mark))
        set(entry, HTC_FRESH_INTERVAL, reason_of_why[htc_mark_why(mark)], HTC_ASK_MS);
    else
        set(entry, HTC_FRESH_STAT, HTC_FRESH_UNVERIFIED, 0);
}

void htc_fresh_judge(const htc_context *ctx, const server_rec *s, const char *dir,
                     const htc_info *info, htc_fresh_entry *entry)
{
    judge(ctx, htc_scope_of(htc_server_conf_of(s), dir, NULL).revalidate_ms, info, entry);
}

/* --- all records ------------------------------------------------------------------------------*/

typedef struct listing {
    const htc_context *ctx;
    htc_fresh_query *query;
    htc_fresh_entry *out;
    size_t max, n;
    apr_pool_t *pool;
    int64_t fresh;
    bool autos; /* HtCacheRevalidate has a time nowhere */
} listing;

/* True when every server that has the cache uses HtCacheRevalidate auto, and nothing else. */
static bool all_auto(void)
{
    for (const server_rec *s = ap_server_conf; s; s = s->next) {
        const htc_server_conf *sc = htc_server_conf_of(s);

        if (sc->may_be_enabled &&
            (sc->special || sc->location_used || sc->plain.revalidate_ms != HTC_REVALIDATE_AUTO))
            return false;
    }
    return true;
}

/* The setting of the first server that uses the cache there, in the way that the mark shows. */
static apr_int64_t ttl_of(const listing *l, const char *dir, int64_t mark)
{
    bool watched = mark == l->fresh || htc_mark_is_unverified(mark) || htc_mark_is_polled(mark);
    apr_int64_t ttl = HTC_REVALIDATE_AUTO;

    if (l->autos || (watched && l->ctx->watch))
        return HTC_REVALIDATE_AUTO;
    for (const server_rec *s = ap_server_conf; s; s = s->next) {
        const htc_server_conf *sc = htc_server_conf_of(s);
        htc_scope scope = {false, 0};

        if (sc->may_be_enabled)
            scope = htc_scope_of(sc, dir, NULL);
        if (!scope.enabled)
            continue;
        ttl = scope.revalidate_ms;
        if (ttl != HTC_REVALIDATE_AUTO)
            break;
    }
    return ttl;
}

static bool wanted(void *baton, int64_t checked_at)
{
    listing *l = baton;

    return checked_at != l->fresh || !l->query->modes ||
           (l->query->modes & 1U << HTC_FRESH_WATCHED);
}

static bool visit(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    listing *l = baton;
    const char *slash = memrchr(key, '/', key_len);
    htc_fresh_entry entry = {.dir_len = slash ? (size_t)(slash - key) + 1 : 0, .kind = info->kind};
    char dir[HTC_STORE_MAX_KEY + 1];

    memcpy(dir, key, entry.dir_len);
    dir[entry.dir_len] = '\0';
    judge(l->ctx, ttl_of(l, dir, info->checked_at), info, &entry);
    if ((l->query->modes && !(l->query->modes & 1U << entry.mode)) ||
        (l->query->reasons && !(l->query->reasons & 1U << entry.reason)))
        return true;
    entry.file = apr_pstrmemdup(l->pool, key, key_len);
    l->out[l->n++] = entry;
    return l->n < l->max;
}

size_t htc_fresh_list(const htc_context *ctx, htc_fresh_query *query, htc_fresh_entry *out,
                      size_t max, apr_pool_t *pool)
{
    listing l = {.ctx = ctx,
                 .query = query,
                 .out = out,
                 .max = max,
                 .pool = pool,
                 .fresh = htc_watch_fresh(ctx->watch),
                 .autos = all_auto()};

    if (!ctx->store || !max || query->place == HTC_FRESH_END)
        return 0;
    htc_store_some(ctx->store, &query->place, query->looks ? query->looks : UINT32_MAX, wanted,
                   visit, &l);
    return l.n;
}
