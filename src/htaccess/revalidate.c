/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Whether a record is still true. A path that is watched is trusted from then on. What cannot be
 * watched is compared with the disk on each request. On file systems of which the kernel does not
 * see all changes it is compared every second. The error log says once why. Called by
 * htaccess/hook.c and htaccess/shortcut.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include "http_main.h"

bool htc_same_file(const char *path, htc_kind kind, const htc_identity *id)
{
    struct stat st;
    htc_identity now;

    if (sys_stat(path, &st) != 0)
        return kind == HTC_KIND_ABSENT && (errno == ENOENT || errno == ENOTDIR);
    if (kind == HTC_KIND_ABSENT)
        return false;
    htc_identity_from_stat(&now, &st);
    /* A record from another server of a farm has no device, as devices have other numbers there. */
    if (!id->dev)
        now.dev = 0;
    return htc_identity_equal(&now, id);
}

/* The same, counted. */
static bool compare(htc_context *ctx, const htc_dep *dep)
{
    uint64_t began = htc_cost_begin();
    bool same = htc_same_file(dep->path, dep->kind, &dep->id);

    htc_count(ctx->store, HTC_C_revalidations, 1);
    htc_count(ctx->store, HTC_C_file_stats, 1);
    htc_cost_end(ctx, dep->path, HTC_COST_CHECKS, began);
    return same;
}

/* Ask the farm about a claimed record, checked at checked_at, that has run out. If another server
 * knows whether it is true, set *usable and mark the slot with that time plus base. The mark stays
 * as it is when another process has changed what was seen there since the claim. False: this process
 * must look at the disk. */
static bool farm_knows(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                       apr_int64_t ttl, int64_t base, apr_int64_t checked_at, int64_t seen,
                       apr_int64_t now, bool *usable)
{
    switch (htc_farm_recheck(ctx, r, dep, ttl, &checked_at)) {
    case HTC_FARM_OWN:
        return false;
    case HTC_FARM_CHANGED:
        checked_at = HTC_NEVER_CHECKED;
        break;
    default:
        break;
    }
    *usable = checked_at != HTC_NEVER_CHECKED;
    if (*usable)
        htc_store_confirm(slot, seen, base + (checked_at < now ? checked_at : now));
    else
        htc_store_refute(slot, HTC_NEVER_CHECKED);
    return true;
}

static bool recheck_marked(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                           int64_t mark);

bool htc_recheck(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                 apr_int64_t checked_at, apr_int64_t ttl, apr_int64_t now)
{
    int64_t seen = checked_at;
    bool same;

    /* Known to be untrue: no request may use it again, not even while one looks. */
    if (checked_at == HTC_NEVER_CHECKED)
        return false;
    if (ttl == HTC_REVALIDATE_AUTO)
        return recheck_marked(ctx, r, slot, dep, checked_at);
    if (!now)
        now = htc_mono_ms();
    /* The others go on while one looks, but not with what was not looked at for long. */
    if (ttl > 0 && checked_at > now - 2 * ttl) {
        seen = now - ttl + (ttl < HTC_LEASE_MS ? ttl : HTC_LEASE_MS);
        if (!htc_store_claim(slot, checked_at, seen))
            return true;
    }
    if (ctx->farm && farm_knows(ctx, r, slot, dep, ttl, 0, checked_at, seen, now, &same))
        return same;
    same = compare(ctx, dep);
    /* A record that is known to be untrue must not be used by any request until the file is
     * read again. */
    if (same)
        htc_store_confirm(slot, seen, now);
    else
        htc_store_refute(slot, HTC_NEVER_CHECKED);
    if (same && ctx->farm)
        htc_farm_confirm(ctx, r, dep, ttl, now);
    return same;
}

static const struct {
    int level;
    const char *text; /* NULL: nothing to say */
} messages[HTC_WATCH_WHYS] = {
    [HTC_WATCH_KERNEL] =
        {APLOG_WARNING,
         "the kernel gives no more inotify watches; raise the sysctl fs.inotify.max_user_watches"},
    [HTC_WATCH_FULL] = {APLOG_WARNING, "the table of what is watched is full, or one user has used "
                                       "up his share of it; raise HtCacheMemory"},
    [HTC_WATCH_DENIED] = {APLOG_INFO, "a directory on the way may be passed but not read by the "
                                      "server's user; give it read permission"},
    [HTC_WATCH_PATH] = {APLOG_NOTICE,
                        "its path is too deep, has links that cannot be followed, or "
                        "too many others lead to the same place; a plainer path would "
                        "save the comparison"},
    [HTC_WATCH_SILENT] = {APLOG_NOTICE, "a directory on the way ignores the case of letters, or it "
                                        "is a file of an overlay with several names; another file "
                                        "system would save the comparison"}};

/* Those that were met since anybody said it last; mostly the one of this path. */
static void say_file_systems(htc_context *ctx, const char *path)
{
    htc_watch_refusal one;

    while (htc_watch_refused(ctx->watch, &one))
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
                     "HtCacheRevalidate auto: the file system at %s (type 0x%x, %s) is not known "
                     "to report all changes. Files there cannot be watched, so an edit takes "
                     "effect within a second (with HtCacheRevalidate 0, on the next request). "
                     "First met for %s. Not logged again for this file system",
                     one.at, one.type, htc_fresh_type_name(one.type), path);
}

static void say_once(htc_context *ctx, htc_watch_why why, const char *path)
{
    if (why == HTC_WATCH_FILESYSTEM)
        say_file_systems(ctx, path);
    else if (messages[why].text && htc_watch_first(ctx->watch, why))
        ap_log_error(APLOG_MARK, messages[why].level, 0, ap_server_conf,
                     "HtCacheRevalidate auto: %s cannot be watched and is compared with the disk "
                     "on each request instead: %s. Not logged again for this reason",
                     path, messages[why].text);
}

int64_t htc_fresh_mark(const htc_context *ctx, apr_int64_t ttl, apr_int64_t now)
{
    return ttl == HTC_REVALIDATE_AUTO && ctx->watch ? htc_watch_unverified(ctx->watch) : now;
}

/* Any mark but an unverified one may be there twice, the second time with another record in the
 * slot. */
static void claim(htc_context *ctx, htc_trust *trust, _Atomic int64_t *mark, int64_t seen)
{
    bool was_unverified = htc_mark_is_unverified(seen);

    *trust = (htc_trust){.mark = mark,
                         .fresh = htc_watch_fresh(ctx->watch),
                         .own = htc_watch_unverified(ctx->watch)};
    trust->unprompted = htc_mark_is_unprompted(seen);
    HTC_LOAD_POINT("trust");
    trust->mine = atomic_compare_exchange_strong(mark, &seen, trust->own) && was_unverified;
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
        mark = htc_mark_polled(trust->why, htc_mono_ms());
    HTC_LOAD_POINT("trusted");
    atomic_compare_exchange_strong(trust->mark, &own, mark);
}

/* True when the identity that a request remembers is still the record's. The record gets
 * another one when its file is written again with the same bytes; the kernel reports that
 * write. */
static bool has_identity(const htc_context *ctx, const htc_dep *dep)
{
    size_t len = strlen(dep->path);
    htc_info info;

    return htc_store_find(ctx->store, htc_store_hash(ctx->store, dep->path, len), dep->path, len,
                          &info) &&
           info.ref.version == dep->ref.version && htc_identity_equal(&info.id, &dep->id);
}

/* The file is another one. Is it although all that was watched reported nothing? A record that was
 * made unverified by a report is looked at more than once before it is replaced: its path may be
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

/* A path on a disk of this machine that cannot be watched is compared on each request. Once a
 * second the module tries to watch it again. */
static bool recheck_each(htc_context *ctx, htc_slot_hot *slot, const htc_dep *dep, int64_t mark,
                         int64_t now)
{
    int64_t base = mark - htc_mark_time(mark, HTC_MARK_NONE), claimed = base + now;
    htc_watch_why why;
    bool known;

    htc_count(ctx->store, HTC_C_unwatched, 1);
    if (!compare(ctx, dep)) {
        htc_store_claim(slot, mark, HTC_NEVER_CHECKED);
        return false;
    }
    if (mark > claimed - HTC_ASK_MS || !htc_store_claim(slot, mark, claimed))
        return true;
    why = htc_watch_record(ctx->watch, dep->path, dep->ref, &known);
    if (why == HTC_WATCH_OK)
        htc_store_claim(slot, claimed,
                        htc_watch_unverified(ctx->watch)); /* The next one may trust it. */
    else if (why != HTC_WATCH_AGAIN)
        htc_store_claim(slot, claimed, htc_mark_polled(why, now));
    return true;
}

/* A path on a file system that other machines change is compared once a second, by one request
 * for all. */
static bool recheck_polled(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                           int64_t mark, int64_t now)
{
    int64_t base = mark - htc_mark_time(mark, HTC_MARK_NONE), claimed = base + now;
    htc_watch_why why;
    bool known, same;

    if (mark > claimed - HTC_ASK_MS)
        return true;
    /* The others go on while one looks, but not with what was not looked at for long. */
    if (mark <= claimed - 2 * HTC_ASK_MS)
        claimed = mark;
    else if (!htc_store_claim(slot, mark, claimed))
        return true;
    if (ctx->farm &&
        farm_knows(ctx, r, slot, dep, HTC_ASK_MS, base, mark - base, claimed, now, &same))
        return same;
    htc_count(ctx->store, HTC_C_unwatched, 1);
    same = compare(ctx, dep);
    if (same && ctx->farm)
        htc_farm_confirm(ctx, r, dep, HTC_ASK_MS, now);
    if (!same) {
        htc_store_refute(slot, HTC_NEVER_CHECKED);
        return false;
    }
    why = htc_watch_record(ctx->watch, dep->path, dep->ref, &known);
    if (why == HTC_WATCH_OK)
        htc_store_confirm(slot, claimed,
                          htc_watch_unverified(ctx->watch)); /* The next one may trust it. */
    else if (why != HTC_WATCH_AGAIN)
        htc_store_claim(slot, claimed, htc_mark_polled(why, now));
    return true;
}

/* The record was not asked for in a long time, or has the mark of a process that does not watch. One
 * look at the disk, and the next request may trust it. */
static bool recheck_once(htc_context *ctx, htc_slot_hot *slot, const htc_dep *dep, int64_t mark)
{
    htc_trust trust;

    claim(ctx, &trust, &slot->checked_at, mark);
    return compare(ctx, dep);
}

/* Without an instance all is asked for. */
static bool recheck_without(htc_context *ctx, request_rec *r, htc_slot_hot *slot,
                            const htc_dep *dep, int64_t mark, int64_t now)
{
    if (htc_mark_time(mark, HTC_MARK_NONE) > now - HTC_ASK_MS)
        return true;
    return htc_recheck(ctx, r, slot, dep, mark, HTC_ASK_MS, now);
}

/* The mark is none that HtCacheRevalidate auto trusts as it is. */
static bool recheck_marked(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                           int64_t mark)
{
    int64_t now = htc_mono_ms();
    htc_trust trust;

    if (dep->racy)
        return false;
    if (!ctx->watch)
        return recheck_without(ctx, r, slot, dep, mark, now);
    if (htc_mark_is_polled(mark) && htc_watch_each_request(htc_mark_why(mark)))
        return recheck_each(ctx, slot, dep, mark, now);
    if (htc_mark_is_polled(mark))
        return recheck_polled(ctx, r, slot, dep, mark, now);
    if (!htc_mark_is_unverified(mark) || now - htc_mark_unverified_at(mark) > HTC_WATCH_SOON_MS)
        return recheck_once(ctx, slot, dep, mark);
    htc_trust_begin(ctx, &trust, &slot->checked_at, mark, dep->path, dep->ref);
    if (compare(ctx, dep)) {
        htc_trust_end(&trust);
        return true;
    }
    note_untrue(ctx, &trust, dep);
    return false;
}
