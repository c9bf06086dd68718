/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The table of what files cost: one cache line for each. Counted by htaccess/costs.c, read by the
 * status page. The rule by which an entry makes room is that of "space saving" (Metwally, Agrawal
 * and El Abbadi, 2005), within a set and without the inherited count.
 */
#include "cache/costs.h"
#include "base/base.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SETS (HTC_COSTS_ENTRIES / HTC_COSTS_WAYS)
/* Counting ends there, with room for all that count in the same moment. */
#define MOST (UINT32_MAX - 65536)

typedef struct entry {
    _Alignas(64) _Atomic uint64_t key; /* 0: unused */
    _Atomic uint64_t ns, parse_ns;
    _Atomic uint32_t counts[HTC_COST_KINDS];
} entry;

static_assert(sizeof(entry) == 64, "an entry is one cache line");

struct htc_costs {
    entry entries[HTC_COSTS_ENTRIES];
};

apr_status_t htc_costs_create(htc_costs **costs, apr_pool_t *pool)
{
    void *base;
    apr_status_t rv = htc_pages_share(&base, sizeof(htc_costs), pool);

    *costs = base;
    return rv;
}

static void clear(entry *e)
{
    atomic_store(&e->ns, 0);
    for (int i = 0; i < HTC_COST_KINDS; i++)
        atomic_store(&e->counts[i], 0);
}

static htc_cost copy_of(const entry *e)
{
    htc_cost cost = {.key = atomic_load(&e->key),
                     .ns = atomic_load(&e->ns),
                     .parse_ns = atomic_load(&e->parse_ns)};

    for (int i = 0; i < HTC_COST_KINDS; i++)
        cost.counts[i] = atomic_load(&e->counts[i]);
    return cost;
}

/* The text of a file with Redirect lines is parsed here although it is left to httpd. */
uint64_t htc_cost_weight(const htc_cost *cost)
{
    uint32_t stock = cost->counts[HTC_COST_STOCK], timed = cost->counts[HTC_COST_PARSES];

    return cost->ns + (stock > timed ? (stock - timed) * HTC_COSTS_STOCK_NS : 0);
}

/* The set's entry that cost least is the key's from now on; if another became that meanwhile, it is
 * left alone. */
static entry *make_room(entry *set, uint64_t key)
{
    entry *least = NULL;
    uint64_t weight = UINT64_MAX, old = 0;

    for (int i = 0; i < HTC_COSTS_WAYS; i++) {
        htc_cost cost = copy_of(&set[i]);

        if (least && htc_cost_weight(&cost) >= weight)
            continue;
        least = &set[i];
        weight = htc_cost_weight(&cost);
        old = cost.key;
    }
    if (!atomic_compare_exchange_strong(&least->key, &old, key))
        return NULL;
    clear(least);
    atomic_store(&least->parse_ns, 0);
    return least;
}

static entry *find(htc_costs *costs, uint64_t key)
{
    entry *set = &costs->entries[(key >> 32) % SETS * HTC_COSTS_WAYS];

    for (int i = 0; i < HTC_COSTS_WAYS; i++) {
        uint64_t seen = atomic_load(&set[i].key);

        if (!seen && atomic_compare_exchange_strong(&set[i].key, &seen, key))
            return &set[i];
        if (seen == key)
            return &set[i];
    }
    return make_room(set, key);
}

void htc_costs_add(htc_costs *costs, uint64_t key, htc_cost_kind kind, uint64_t ns)
{
    entry *e = find(costs, key ? key : 1);

    if (!e)
        return;
    if (atomic_load_explicit(&e->counts[kind], memory_order_relaxed) < MOST)
        atomic_fetch_add_explicit(&e->counts[kind], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->ns, ns, memory_order_relaxed);
    if (kind == HTC_COST_PARSES)
        atomic_store_explicit(&e->parse_ns, ns, memory_order_relaxed);
}

/* --- those that cost most ---------------------------------------------------------------------*/

static int dearer(const void *a_, const void *b_)
{
    const htc_cost *a = a_, *b = b_;
    uint64_t x = htc_cost_weight(a), y = htc_cost_weight(b);

    if (x != y)
        return x > y ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* A heap with the cheapest on top, so that going through all takes no more room than the answer. */
static void sift_down(htc_cost *heap, size_t n, size_t at)
{
    for (;;) {
        size_t least = at;

        for (size_t child = 2 * at + 1; child < n && child <= 2 * at + 2; child++) {
            if (dearer(&heap[child], &heap[least]) > 0)
                least = child;
        }
        if (least == at)
            return;
        htc_cost kept = heap[at];
        heap[at] = heap[least];
        heap[least] = kept;
        at = least;
    }
}

size_t htc_costs_top(const htc_costs *costs, htc_cost *out, size_t max, size_t *total)
{
    size_t n = 0;

    *total = 0;
    for (size_t i = 0; i < HTC_COSTS_ENTRIES; i++) {
        htc_cost cost;

        if (!atomic_load_explicit(&costs->entries[i].key, memory_order_relaxed))
            continue;
        ++*total;
        cost = copy_of(&costs->entries[i]);
        if (n < max) {
            out[n++] = cost;
            for (size_t at = n / 2; n == max && at-- > 0;)
                sift_down(out, n, at);
        } else if (max && dearer(&cost, &out[0]) < 0) {
            out[0] = cost;
            sift_down(out, n, 0);
        }
    }
    qsort(out, n, sizeof(*out), dearer);
    return n;
}

static int by_number(const void *a_, const void *b_)
{
    const uint64_t *a = a_, *b = b_;

    return *a < *b ? -1 : *a > *b;
}

uint64_t htc_costs_parse(const htc_costs *costs, uint64_t *files)
{
    uint64_t *times = malloc(HTC_COSTS_ENTRIES * sizeof(*times)), median = 0;
    size_t n = 0;

    for (size_t i = 0; times && i < HTC_COSTS_ENTRIES; i++) {
        uint64_t ns = atomic_load_explicit(&costs->entries[i].parse_ns, memory_order_relaxed);

        if (ns)
            times[n++] = ns;
    }
    if (n) {
        qsort(times, n, sizeof(*times), by_number);
        median = times[n / 2];
    }
    free(times);
    *files = n;
    return median;
}

void htc_costs_reset(htc_costs *costs)
{
    for (size_t i = 0; i < HTC_COSTS_ENTRIES; i++) {
        if (atomic_load(&costs->entries[i].key))
            clear(&costs->entries[i]);
    }
}
