/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Exchanges of the farm tier with memcached: each one also reads the clock of the servers that take
 * part, in front of what is asked, so that what comes back can be judged by it. Called by
 * glue_farm.c.
 */
#include "glue_farm_private.h"

#define MAX_BATCH 64

static const char *const counter_texts[HTC_FARM_COUNTER_COUNT] = {
#define X(name, help) help,
    HTC_FARM_COUNTERS(X)
#undef X
};

void htc_farm_count(htc_farm *farm, enum htc_farm_counter counter, uint64_t n)
{
    if (n)
        atomic_fetch_add_explicit(&farm->shared->counters[counter], n, memory_order_relaxed);
}

/* Count, and say it the first time. */
static void drop(htc_farm *farm, enum htc_farm_counter why, unsigned server, const char *path)
{
    uint64_t bit = UINT64_C(1) << why;

    htc_farm_count(farm, why, 1);
    if (atomic_fetch_or(&farm->shared->told, bit) & bit)
        return;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, farm->server,
                 "HtCache: from memcached %s, for %s: %s. It is as if there were none. Check who "
                 "can reach memcached, and that all servers have the same key file; further ones "
                 "are counted on the status page and not logged",
                 farm->names[server], path, counter_texts[why]);
}

static htc_farm_scope clock_scope(const htc_farm *farm)
{
    return (htc_farm_scope){&farm->keys, farm->print, "clock"};
}

static htc_mc_item clock_item(const htc_farm *farm, unsigned server, htc_mc_op op)
{
    htc_mc_item item = {.op = op, .server = server};

    htc_farm_name(item.key, HTC_FARM_CLOCK, farm->print, "clock");
    return item;
}

/* A look at a clock. */
static void clock_seen(htc_farm *farm, const htc_mc_item *item, uint64_t epoch, apr_int64_t before,
                       apr_int64_t after)
{
    int64_t tick = (int64_t)HTC_FARM_CLOCK_LIFE - (int64_t)item->left;

    switch (htc_farm_clock_seen(&farm->shared->clocks[item->server], epoch, tick, before,
                                after + HTC_FARM_COARSE_MS)) {
    case HTC_CLOCK_NEW:
        htc_farm_count(farm, HTC_FC_clock_resets, 1);
        break;
    case HTC_CLOCK_BACK:
        drop(farm, HTC_FC_clock_refused, item->server, "its clock");
        break;
    default:
        break;
    }
}

/* Is it a clock of ours, and in use? Without one there are no leases; a bad one is replaced. */
static bool clock_good(htc_farm *farm, const htc_mc_item *item, apr_int64_t before,
                       apr_int64_t after)
{
    const htc_farm_scope scope = clock_scope(farm);
    htc_farm_value value;
    int why;

    if (item->result != HTC_MC_HIT)
        return false;
    why = htc_farm_decode(&scope, HTC_FARM_CLOCK, NULL, item->got, item->got_len, &value);
    if (why >= 0) {
        drop(farm, (enum htc_farm_counter)why, item->server, "its clock");
        return false;
    }
    clock_seen(farm, item, value.epoch, before, after);
    return atomic_load(&farm->shared->clocks[item->server].refused) != value.epoch;
}

static void count_items(htc_farm *farm, const htc_mc_item *items, unsigned n)
{
    uint64_t gets = 0, hits = 0, sets = 0, refused = 0, unanswered = 0;

    for (unsigned i = 0; i < n; i++) {
        gets += items[i].op == HTC_MC_GET;
        hits += items[i].op == HTC_MC_GET && items[i].result == HTC_MC_HIT;
        sets += items[i].op != HTC_MC_DELETE && items[i].result == HTC_MC_DONE;
        refused += items[i].result == HTC_MC_REFUSED;
        unanswered += items[i].result == HTC_MC_NONE;
    }
    htc_farm_count(farm, HTC_FC_gets, gets);
    htc_farm_count(farm, HTC_FC_hits, hits);
    htc_farm_count(farm, HTC_FC_sets, sets);
    htc_farm_count(farm, HTC_FC_refused, refused);
    htc_farm_count(farm, HTC_FC_unanswered, unanswered);
}

/* The most that any request has spent. */
static void note_longest(const htc_farm_request *fr)
{
    _Atomic uint64_t *longest = &fr->farm->shared->longest_us;
    uint64_t spent = (uint64_t)(fr->farm->timeout_us - fr->budget_us), known = atomic_load(longest);

    while (spent > known && !atomic_compare_exchange_weak(longest, &known, spent))
        ;
}

/* What the request has spent up to now. */
static void note_spent(htc_farm_request *fr)
{
    note_longest(fr);
    if (fr->budget_us <= 0 && !fr->spent) {
        fr->spent = true;
        htc_farm_count(fr->farm, HTC_FC_budget_spent, 1);
    }
}

static void exchange(htc_farm_request *fr, htc_mc_item *items, unsigned n)
{
    htc_mc_run(fr->farm->mc, items, n, &fr->budget_us, fr->farm->timeout_us / 2, fr->pool);
    note_spent(fr);
    count_items(fr->farm, items, n);
}

void htc_farm_pause(htc_farm_request *fr, int64_t us)
{
    htc_mc_pause(fr->farm->mc, us, &fr->budget_us);
    note_spent(fr);
}

/* Begin a new epoch on a server. Whoever is first wins; all read what he has written. */
static void clock_start(htc_farm_request *fr, unsigned server, bool replace)
{
    htc_farm *farm = fr->farm;
    const htc_farm_scope scope = clock_scope(farm);
    htc_farm_value value = {.type = HTC_FARM_CLOCK};
    htc_mc_item items[3];
    unsigned n = 0;
    apr_int64_t before;

    if (!htc_farm_random(&value.epoch, sizeof(value.epoch)) || !value.epoch)
        return;
    if (replace)
        items[n++] = clock_item(farm, server, HTC_MC_DELETE);
    items[n] = clock_item(farm, server, HTC_MC_ADD);
    items[n].expire = HTC_FARM_CLOCK_LIFE;
    if (htc_farm_encode(&scope, &value, fr->pool, &items[n].value, &items[n].value_len) !=
        APR_SUCCESS)
        return;
    items[++n] = clock_item(farm, server, HTC_MC_CLOCK);
    before = htc_mono_ms();
    exchange(fr, items, n + 1);
    clock_good(farm, &items[n], before, htc_mono_ms());
}

/* Which servers have a part in it, each once. */
static unsigned servers_of(const htc_mc_item *items, unsigned n, unsigned servers[])
{
    unsigned found = 0;

    for (unsigned i = 0; i < n; i++) {
        unsigned j = 0;

        while (j < found && servers[j] != items[i].server)
            j++;
        if (j == found)
            servers[found++] = items[i].server;
    }
    return found;
}

void htc_farm_run(htc_farm_request *fr, htc_mc_item *items, unsigned n)
{
    unsigned servers[HTC_MC_MAX_SERVERS];
    htc_mc_item batch[HTC_MC_MAX_SERVERS + MAX_BATCH];
    unsigned clocks;
    apr_int64_t before, after;

    for (; n > MAX_BATCH; items += MAX_BATCH, n -= MAX_BATCH)
        htc_farm_run(fr, items, MAX_BATCH);
    clocks = servers_of(items, n, servers);
    for (unsigned i = 0; i < clocks; i++)
        batch[i] = clock_item(fr->farm, servers[i], HTC_MC_CLOCK);
    memcpy(batch + clocks, items, n * sizeof(*items));
    before = htc_mono_ms();
    exchange(fr, batch, clocks + n);
    after = htc_mono_ms();
    memcpy(items, batch + clocks, n * sizeof(*items));
    for (unsigned i = 0; i < clocks; i++) {
        if (!clock_good(fr->farm, &batch[i], before, after) && batch[i].result != HTC_MC_NONE)
            clock_start(fr, servers[i], batch[i].result == HTC_MC_HIT);
    }
}

htc_farm_time htc_farm_now(htc_farm_request *fr, unsigned server, apr_int64_t now)
{
    const htc_farm_clock *clock = &fr->farm->shared->clocks[server];
    htc_farm_time time = htc_farm_clock_at(clock, now);
    htc_mc_item item;

    if (time.epoch)
        return time;
    /* Any item makes the clock be looked at. */
    item = clock_item(fr->farm, server, HTC_MC_CLOCK);
    htc_farm_run(fr, &item, 1);
    return htc_farm_clock_at(clock, now);
}

bool htc_farm_got(htc_farm_request *fr, const htc_farm_scope *scope, const htc_mc_item *item,
                  htc_farm_value *value)
{
    const htc_farm_time now =
        htc_farm_clock_at(&fr->farm->shared->clocks[item->server], htc_mono_ms());
    int why;

    if (item->result != HTC_MC_HIT)
        return false;
    why =
        htc_farm_decode(scope, (htc_farm_type)item->key[0], &now, item->got, item->got_len, value);
    /* While nobody knows the time, nothing is dropped for being of another one. */
    if (why >= 0 && (why != HTC_FC_drop_replayed || now.epoch))
        drop(fr->farm, (enum htc_farm_counter)why, item->server, scope->path);
    return why < 0;
}
