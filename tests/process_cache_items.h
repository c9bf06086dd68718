/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file process_cache_items.h
 * The payload that the tests of the process cache (check_process_cache.c and
 * check_process_cache_threads.c) put into it, and short names for what they do all the time.
 * Payloads come from an arena and are never handed out twice, so that one that is used after it was
 * freed is seen without any tool.
 */
#ifndef PROCESS_CACHE_ITEMS_H
#define PROCESS_CACHE_ITEMS_H

#include "cache/process_cache.h"

#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ALIVE  0x600dcafeu
#define POISON 0xdeadbeefu

typedef struct item {
    uint32_t canary; /* not atomic: a race on it is a bug of the cache */
    unsigned key;
    size_t cost;
    htc_process_cache *cache; /* of the parent */
    htc_process_node *parent;
} item;

#define ARENA_ITEMS 300000
static item *arena;

/* Counted with relaxed order, and checked with require() where several threads are at it: anything
 * that orders the threads (libcheck's ck_assert takes a lock) would hide a missing order in the
 * cache. */
static _Atomic size_t made, freed, live_cost, match_calls;

/* How many calls of item_free() are on this thread's stack, and how many ever were. */
static _Thread_local unsigned free_depth;
static _Atomic unsigned deepest_free;

static htc_process_cache *cache;
static uint64_t empty_bytes; /* what an empty cache accounts for */

static inline void require(bool holds, const char *what)
{
    if (!holds)
        ck_abort_msg("%s", what);
}

static inline size_t count(_Atomic size_t *counter, size_t n)
{
    return atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline item *item_new(unsigned key, size_t cost, htc_process_cache *parent_cache,
                             htc_process_node *parent)
{
    size_t i = count(&made, 1);

    require(i < ARENA_ITEMS, "the arena is too small");
    arena[i] = (item){ALIVE, key, cost, parent_cache, parent};
    count(&live_cost, cost);
    return &arena[i];
}

static inline void item_free(void *data)
{
    item *it = data;

    require(it->canary == ALIVE, "freed twice");
    it->canary = POISON;
    count(&freed, 1);
    count(&live_cost, 0 - it->cost);
    free_depth++;
    if (free_depth > atomic_load_explicit(&deepest_free, memory_order_relaxed))
        atomic_store_explicit(&deepest_free, free_depth, memory_order_relaxed);
    if (it->parent)
        htc_process_cache_release(it->cache, it->parent);
    free_depth--;
}

static inline bool item_match(const void *data, const void *key)
{
    const item *it = data;

    require(it->canary == ALIVE, "matched after it was freed");
    count(&match_calls, 1);
    return it->key == *(const unsigned *)key;
}

/* Spreads keys over all bits (the finalizer of splitmix64). */
static inline uint64_t hash_of(unsigned key)
{
    uint64_t h = key + UINT64_C(0x9E3779B97F4A7C15);

    h = (h ^ (h >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94D049BB133111EB);
    return h ^ (h >> 31);
}

static inline htc_process_cache_stats stats_of(const htc_process_cache *m)
{
    htc_process_cache_stats stats;

    htc_process_cache_stats_get(m, &stats);
    require(stats.bytes <= stats.max_bytes, "the bound is passed");
    return stats;
}

static inline htc_process_cache *new_cache(uint64_t max_bytes)
{
    htc_process_cache *m;

    ck_assert_int_eq(htc_process_cache_create(&m, max_bytes, item_free), APR_SUCCESS);
    return m;
}

/* A cache that has room for so many bytes of payload. */
static inline htc_process_cache *map_with_room(uint64_t room)
{
    return new_cache(empty_bytes + room);
}

static inline void setup(void)
{
    htc_process_cache *probe = new_cache((uint64_t)64 << 10);

    empty_bytes = stats_of(probe).bytes;
    htc_process_cache_destroy(probe);
    arena = calloc(ARENA_ITEMS, sizeof(*arena));
    ck_assert_ptr_nonnull(arena);
    made = freed = live_cost = match_calls = 0;
    deepest_free = 0;
}

static inline void teardown(void)
{
    free(arena);
}

static inline htc_process_node *insert_at(htc_process_cache *m, uint64_t hash, unsigned key,
                                          size_t cost)
{
    return htc_process_cache_insert(m, hash, item_match, &key, item_new(key, cost, NULL, NULL),
                                    cost);
}

static inline htc_process_node *insert(htc_process_cache *m, unsigned key, size_t cost)
{
    return insert_at(m, hash_of(key), key, cost);
}

/* Insert and let go. */
static inline void put(htc_process_cache *m, unsigned key, size_t cost)
{
    htc_process_node *node = insert(m, key, cost);

    ck_assert_ptr_nonnull(node);
    htc_process_cache_release(m, node);
}

static inline htc_process_node *acquire_at(htc_process_cache *m, uint64_t hash, unsigned key)
{
    htc_process_node *node = htc_process_cache_acquire(m, hash, item_match, &key);

    if (node) {
        const item *it = htc_process_cache_data(node);

        require(it->canary == ALIVE, "found after it was freed");
        require(it->key == key, "found another key");
    }
    return node;
}

static inline htc_process_node *acquire(htc_process_cache *m, unsigned key)
{
    return acquire_at(m, hash_of(key), key);
}

/* Look a key up, which marks it as used. */
static inline bool has(htc_process_cache *m, unsigned key)
{
    htc_process_node *node = acquire(m, key);

    if (node)
        htc_process_cache_release(m, node);
    return node != NULL;
}

static inline size_t count_present(htc_process_cache *m, unsigned from, unsigned to, unsigned step)
{
    size_t n = 0;

    for (unsigned key = from; key < to; key += step)
        n += has(m, key);
    return n;
}

static inline void destroy_and_count(htc_process_cache *m)
{
    htc_process_cache_destroy(m);
    ck_assert_uint_eq(atomic_load(&freed), atomic_load(&made));
    ck_assert_uint_eq(atomic_load(&live_cost), 0);
}

/* A small generator of its own: the same sequence everywhere. */
static inline uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static inline TCase *new_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 300);
    suite_add_tcase(suite, tcase);
    return tcase;
}

static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
