/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Exchanges of the farm tier with memcached: counting, the request's budget, and the proof of what
 * comes back. Called by htaccess/farm.c.
 */
#include "htaccess/farm_internal.h"

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
    ap_log_error(
        APLOG_MARK, APLOG_WARNING, 0, farm->server,
        "HtCache: memcached %s, value for %s: %s. The server goes on as if there were no such "
        "value. %s. Further ones are counted on the status page and not logged",
        farm->names[server], path, counter_texts[why],
        why == HTC_FC_drop_future
            ? "Let all servers of the farm take their time from NTP"
            : "Check who can reach memcached, and that all servers have the same key file");
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

void htc_farm_run(htc_farm_request *fr, htc_mc_item *items, unsigned n)
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

int64_t htc_farm_now(void)
{
    return apr_time_as_msec(apr_time_now());
}

bool htc_farm_got(htc_farm_request *fr, const htc_farm_scope *scope, const htc_mc_item *item,
                  htc_farm_value *value)
{
    int why;

    if (item->result != HTC_MC_HIT)
        return false;
    why = htc_farm_decode(scope, (htc_farm_type)item->key[0], htc_farm_now(), item->got,
                          item->got_len, value);
    if (why >= 0)
        drop(fr->farm, (enum htc_farm_counter)why, item->server, scope->path);
    return why < 0;
}
