/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counters of single redirects. Counted by the glue with each answer; moved from one image to the
 * next by the process that has built that; read by the status page.
 */
#include "base/base.h"
#include "area/counters.h"

#include <apr_general.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HITS_MASK ((UINT64_C(1) << REDIRECT_COUNTER_HIT_BITS) - 1)
#define LAST_MOST (UINT64_MAX >> REDIRECT_COUNTER_HIT_BITS)

/* Never 0, which is for what was never hit. */
static uint64_t last_of(int64_t now)
{
    int64_t seconds = now - REDIRECT_COUNTER_EPOCH;

    if (seconds < 1)
        return 1;
    return (uint64_t)seconds < LAST_MOST ? (uint64_t)seconds : LAST_MOST;
}

/* The same hits, at `last` if they are not later already. */
static void raise_last(redirect_counter *counter, uint64_t seen, uint64_t last)
{
    while (seen >> REDIRECT_COUNTER_HIT_BITS < last &&
           !atomic_compare_exchange_weak_explicit(
               &counter->word, &seen, (seen & HITS_MASK) | last << REDIRECT_COUNTER_HIT_BITS,
               memory_order_relaxed, memory_order_relaxed))
        continue;
}

void redirect_counter_hit(redirect_counter *counter, int64_t now)
{
    uint64_t seen = atomic_load_explicit(&counter->word, memory_order_relaxed);

    if ((seen & HITS_MASK) < REDIRECT_COUNTER_MOST)
        seen = atomic_fetch_add_explicit(&counter->word, 1, memory_order_relaxed) + 1;
    raise_last(counter, seen, last_of(now));
}

redirect_count redirect_counter_read(const redirect_counter *counter)
{
    uint64_t word = atomic_load_explicit(&counter->word, memory_order_relaxed);
    uint64_t last = word >> REDIRECT_COUNTER_HIT_BITS;

    return (redirect_count){word & HITS_MASK, last ? REDIRECT_COUNTER_EPOCH + (int64_t)last : 0};
}

void redirect_counters_reset(redirect_counter *counters, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (atomic_load_explicit(&counters[i].word, memory_order_relaxed))
            atomic_store_explicit(&counters[i].word, 0, memory_order_relaxed);
    }
}

void redirect_counter_add(redirect_counter *counter, uint64_t word)
{
    uint64_t seen = atomic_load_explicit(&counter->word, memory_order_relaxed), hits, last;

    do {
        hits = (seen & HITS_MASK) + (word & HITS_MASK);
        if (hits > REDIRECT_COUNTER_MOST)
            hits = REDIRECT_COUNTER_MOST;
        last = (seen > word ? seen : word) >> REDIRECT_COUNTER_HIT_BITS;
    } while (!atomic_compare_exchange_weak_explicit(&counter->word, &seen,
                                                    hits | last << REDIRECT_COUNTER_HIT_BITS,
                                                    memory_order_relaxed, memory_order_relaxed));
}

/* --- moving -----------------------------------------------------------------------------------*/

/* A rule that was hit, in a table hashed by keys. */
typedef struct hit_rule {
    uint64_t key;
    redirect_counter *counter; /* NULL: an empty place, or one whose counts have gone */
    bool used;
} hit_rule;

typedef struct hit_rules {
    hit_rule *places;
    uint64_t mask;
    uint64_t seed;
} hit_rules;

static bool was_hit(const redirect_counter *counter)
{
    return atomic_load_explicit(&counter->word, memory_order_relaxed) != 0;
}

static uint32_t count_hit(const redirect_counter *counters, uint32_t n)
{
    uint32_t hit = 0;

    for (uint32_t i = 0; i < n; i++)
        hit += was_hit(&counters[i]);
    return hit;
}

/* The key's place, or the empty one where it belongs. Keys are hashes already, but without a seed:
 * who writes maps can choose many that lie side by side in any order of theirs that he knows. */
static hit_rule *place_of(const hit_rules *rules, uint64_t key)
{
    uint64_t i = XXH3_64bits_withSeed(&key, sizeof(key), rules->seed);

    while (rules->places[i & rules->mask].used && rules->places[i & rules->mask].key != key)
        i++;
    return &rules->places[i & rules->mask];
}

/* At most `most` of them, as more may be hit meanwhile. */
static void gather(const hit_rules *rules, redirect_counter *counters, const redirect_keys *keys,
                   uint32_t most)
{
    for (uint32_t i = 0; i < keys->count && most; i++) {
        uint64_t key = keys->next(keys->baton);
        hit_rule *place;

        if (!was_hit(&counters[i]))
            continue;
        place = place_of(rules, key);
        if (!place->used) {
            *place = (hit_rule){key, &counters[i], true};
            most--;
        }
    }
}

apr_status_t redirect_counters_move(redirect_counter *from, const redirect_keys *from_keys,
                                    redirect_counter *to, const redirect_keys *to_keys,
                                    uint32_t *moved)
{
    uint32_t hit = count_hit(from, from_keys->count), found = 0;
    hit_rules rules = {NULL, 15, 0};
    size_t bytes;

    if (moved)
        *moved = 0;
    if (!hit)
        return APR_SUCCESS;
    while (rules.mask < 2 * (uint64_t)hit)
        rules.mask = 2 * rules.mask + 1;
    bytes = (rules.mask + 1) * sizeof(hit_rule);
    rules.places = htc_pages_take(bytes);
    if (!rules.places)
        return APR_ENOMEM;
    /* Without one it is slow at worst. */
    (void)apr_generate_random_bytes((unsigned char *)&rules.seed, sizeof(rules.seed));
    gather(&rules, from, from_keys, hit);
    for (uint32_t i = 0; i < to_keys->count && found < hit; i++) {
        hit_rule *place = place_of(&rules, to_keys->next(to_keys->baton));

        if (!place->counter)
            continue;
        redirect_counter_add(
            &to[i], atomic_exchange_explicit(&place->counter->word, 0, memory_order_relaxed));
        place->counter = NULL;
        found++;
    }
    htc_pages_give(rules.places, bytes);
    if (moved)
        *moved = found;
    return APR_SUCCESS;
}
