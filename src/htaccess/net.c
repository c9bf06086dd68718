/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The periodic check: trusted records are compared with the disk now and then, for what the kernel
 * never reports (docs/design.md). The builder does it, so that no request pays for it. Where there
 * is no builder, the sweep has requests do it (HTC_WATCH_NET_MS).
 *
 * The builder only takes trust away. A record whose file is another one becomes unverified; the next
 * request for it compares it again, and finds out whether that was reported meanwhile.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#define PERIOD_MS  1000
#define MOST_LOOKS 8192 /* at records that may not be trusted */

typedef struct check {
    htc_context *ctx;
    int64_t fresh;
    uint32_t left;
} check;

static bool is_trusted(void *baton, int64_t checked_at)
{
    return checked_at == ((const check *)baton)->fresh;
}

/* That of a file which was changed just before it was read says nothing about its bytes. Who has the
 * slot by now is then compared once for nothing. */
static bool compare(void *baton, const char *path, size_t len, const htc_info *info)
{
    check *c = baton;

    (void)len;
    htc_count(c->ctx->store, HTC_C_file_stats, 1);
    if ((info->flags & HTC_RF_RACY) || !htc_same_file(path, info->kind, &info->id))
        htc_store_claim(htc_store_slot(c->ctx->store, info->ref.slot), c->fresh,
                        htc_watch_unprompted(c->ctx->watch));
    return --c->left > 0;
}

static uint32_t least(uint64_t a, uint32_t b)
{
    return a < b ? (uint32_t)a : b;
}

void htc_net_check(htc_net *net, htc_context *ctx, int64_t now)
{
    htc_store_stats stats;
    uint64_t due;
    check c;

    if (!ctx->watch || now < net->next)
        return;
    net->next = now + PERIOD_MS;
    htc_watch_net_taken(ctx->watch, now);
    htc_store_stats_get(ctx->store, &stats);
    due = stats.entries / (HTC_WATCH_NET_MS / PERIOD_MS) + 1;
    c = (check){ctx, htc_watch_fresh(ctx->watch), least(due, HTC_WATCH_NET_RATE)};
    htc_store_some(ctx->store, &net->place, due < HTC_WATCH_NET_RATE ? (uint32_t)due : MOST_LOOKS,
                   is_trusted, compare, &c);
    if (net->place == UINT32_MAX)
        net->place = 0;
}
