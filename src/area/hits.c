/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counters of redirects that are found by a hash, in a set-associative table. Called by
 * redirects/counters_htaccess.c for each answer by a line of a .htaccess file, and for the status
 * page.
 */
#include "area/hits.h"

#include <stddef.h>

#define SETS (REDIRECT_HITS_ENTRIES / REDIRECT_HITS_WAYS)
#define NONE UINT32_MAX

static uint32_t set_of(uint64_t key)
{
    return (uint32_t)((key >> 32) % SETS) * REDIRECT_HITS_WAYS;
}

/* 0 stands for an unused entry. */
static uint64_t used(uint64_t key)
{
    return key ? key : 1;
}

static uint32_t find(const redirect_hits *hits, uint64_t key)
{
    for (uint32_t i = set_of(key), end = i + REDIRECT_HITS_WAYS; i < end; i++) {
        if (atomic_load(&hits->names[i].key) == key)
            return i;
    }
    return NONE;
}

/* The entry that answered longest ago, or never. */
static uint32_t oldest(const redirect_hits *hits, uint32_t set)
{
    uint32_t oldest = set;
    int64_t at = INT64_MAX;

    for (uint32_t i = set; i < set + REDIRECT_HITS_WAYS; i++) {
        int64_t last = redirect_counter_read(&hits->counters[i]).last;

        if (!atomic_load(&hits->names[i].key))
            return i;
        if (last < at) {
            at = last;
            oldest = i;
        }
    }
    return oldest;
}

/* NONE: another process took the same place in the same moment. */
static uint32_t claim(const redirect_hits *hits, uint64_t key)
{
    uint32_t i = oldest(hits, set_of(key));
    redirect_hits_name *name = &hits->names[i];
    uint64_t old = atomic_load(&name->key);

    if (old == key)
        return i;
    if (!atomic_compare_exchange_strong(&name->key, &old, key))
        return old == key ? i : NONE;
    atomic_store(&name->file, 0);
    redirect_counters_reset(&hits->counters[i], 1);
    return i;
}

void redirect_hits_add(const redirect_hits *hits, uint64_t key, uint64_t file, int64_t now)
{
    uint32_t i = find(hits, used(key));

    if (i == NONE)
        i = claim(hits, used(key));
    if (i == NONE)
        return;
    if (atomic_load_explicit(&hits->names[i].file, memory_order_relaxed) != file)
        atomic_store_explicit(&hits->names[i].file, file, memory_order_relaxed);
    redirect_counter_hit(&hits->counters[i], now);
}

void redirect_hits_restore(const redirect_hits *hits, uint64_t key, uint64_t word)
{
    uint32_t i = find(hits, used(key));
    uint64_t free_place = 0;

    if (i == NONE) {
        i = oldest(hits, set_of(used(key)));
        if (!atomic_compare_exchange_strong(&hits->names[i].key, &free_place, used(key)))
            return;
    }
    redirect_counter_add(&hits->counters[i], word);
}

redirect_count redirect_hits_get(const redirect_hits *hits, uint64_t key)
{
    uint32_t i = find(hits, used(key));

    return i == NONE ? (redirect_count){0, 0} : redirect_counter_read(&hits->counters[i]);
}

void redirect_hits_reset(const redirect_hits *hits)
{
    redirect_counters_reset(hits->counters, REDIRECT_HITS_ENTRIES);
}
