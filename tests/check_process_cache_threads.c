/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/cache/process_cache.c: payloads that hold other objects, and many threads at
 * one cache. Run by 'make check'; built with -fsanitize=thread, this is also the proof of the
 * memory orders.
 */
#include "process_cache_items.h"

#include <pthread.h>

/* --- payloads that hold others --------------------------------------------------------------- */

#define CHAIN 1000

/* Each object holds the one before it. Returns the last with a reference. */
static htc_process_node *make_chain(htc_process_cache *m, unsigned n, size_t cost)
{
    htc_process_node *node = NULL;

    for (unsigned key = 0; key < n; key++) {
        node = htc_process_cache_insert(m, hash_of(key), item_match, &key,
                                        item_new(key, cost, m, node), cost);
        ck_assert_ptr_nonnull(node);
    }
    return node;
}

START_TEST(chain_is_freed_without_nesting)
{
    htc_process_node *leaf;

    cache = map_with_room(CHAIN * 1000);
    leaf = make_chain(cache, CHAIN, 10);
    for (unsigned key = 0; key < CHAIN; key++) {
        htc_process_node *node = acquire(cache, key);

        htc_process_cache_remove(cache, node);
        htc_process_cache_release(cache, node);
    }
    ck_assert_uint_eq(atomic_load(&freed), 0);
    ck_assert_uint_eq(stats_of(cache).entries, 0);
    htc_process_cache_release(cache, leaf);
    ck_assert_uint_eq(atomic_load(&freed), CHAIN);
    ck_assert_uint_eq(atomic_load(&deepest_free), 1);
    destroy_and_count(cache);
}
END_TEST

START_TEST(destroy_frees_a_chain)
{
    cache = map_with_room(CHAIN * 1000);
    htc_process_cache_release(cache, make_chain(cache, CHAIN, 10));
    destroy_and_count(cache);
    ck_assert_uint_eq(atomic_load(&deepest_free), 1);
}
END_TEST

START_TEST(leaf_is_evicted_before_its_parents)
{
    cache = map_with_room(1000);
    htc_process_cache_release(cache, make_chain(cache, 10, 100));
    ck_assert(has(cache, 9));
    put(cache, 100, 100);
    ck_assert_uint_eq(stats_of(cache).evictions, 1);
    ck_assert(!has(cache, 9));
    ck_assert_uint_eq(count_present(cache, 0, 9, 1), 9);
    destroy_and_count(cache);
}
END_TEST

START_TEST(whole_chain_makes_room)
{
    cache = map_with_room(1000);
    htc_process_cache_release(cache, make_chain(cache, 100, 10));
    put(cache, 100, 1000);
    ck_assert_uint_eq(stats_of(cache).entries, 1);
    ck_assert_uint_eq(stats_of(cache).evictions, 100);
    destroy_and_count(cache);
}
END_TEST

START_TEST(refused_payload_releases_its_parent)
{
    unsigned key = 2;
    htc_process_node *parent, *node;

    cache = map_with_room(1000);
    parent = insert(cache, 1, 900);
    htc_process_cache_remove(cache, parent);
    node = htc_process_cache_insert(cache, hash_of(key), item_match, &key,
                                    item_new(key, 200, cache, parent), 200);
    ck_assert_ptr_null(node);
    ck_assert_uint_eq(atomic_load(&freed), 2);
    destroy_and_count(cache);
}
END_TEST

START_TEST(parent_in_another_map)
{
    unsigned key = 2;
    htc_process_cache *other;
    htc_process_node *parent, *child;

    cache = map_with_room(1000);
    other = map_with_room(1000);
    parent = insert(other, 1, 100);
    htc_process_cache_remove(other, parent);
    child = htc_process_cache_insert(cache, hash_of(key), item_match, &key,
                                     item_new(key, 100, other, parent), 100);
    htc_process_cache_remove(cache, child);
    htc_process_cache_release(cache, child);
    ck_assert_uint_eq(atomic_load(&freed), 2);
    ck_assert_uint_eq(stats_of(other).bytes, empty_bytes);
    htc_process_cache_destroy(other);
    destroy_and_count(cache);
}
END_TEST

/* --- threads --------------------------------------------------------------------------------- */

#define THREADS      8
#define THREAD_STEPS 60000
#define THREAD_KEYS  160
#define THREAD_HELD  6

/* Pairs of keys share a hash, so that a look-up meets objects that do not match. */
static uint64_t crowded_hash(unsigned key)
{
    return hash_of(key / 2);
}

static void check_family(const htc_process_node *node)
{
    while (node) {
        const item *it = htc_process_cache_data(node);

        require(it->canary == ALIVE, "held but freed");
        node = it->parent;
    }
}

/* A new object that holds the one of a smaller key, if that is there. */
static htc_process_node *churn_insert(unsigned key, size_t cost)
{
    htc_process_node *parent = key ? acquire_at(cache, crowded_hash(key / 2), key / 2) : NULL;

    return htc_process_cache_insert(cache, crowded_hash(key), item_match, &key,
                                    item_new(key, cost, cache, parent), cost);
}

static void *churn(void *seed)
{
    uint64_t state = (uint64_t)(uintptr_t)seed;
    htc_process_node *mine[THREAD_HELD] = {NULL};

    for (int step = 0; step < THREAD_STEPS; step++) {
        htc_process_node **place = &mine[next_random(&state) % THREAD_HELD];
        unsigned key = next_random(&state) % THREAD_KEYS, what = next_random(&state) % 100;

        check_family(*place);
        if (*place)
            htc_process_cache_release(cache, *place);
        *place = what < 70 ? acquire_at(cache, crowded_hash(key), key)
                           : churn_insert(key, next_random(&state) % 400);
        if (*place && what >= 60 && what < 75)
            htc_process_cache_remove(cache, *place);
        stats_of(cache);
    }
    for (int i = 0; i < THREAD_HELD; i++) {
        check_family(mine[i]);
        if (mine[i])
            htc_process_cache_release(cache, mine[i]);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];

    for (uintptr_t i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}

START_TEST(churn_with_threads)
{
    htc_process_cache_stats stats;

    /* Room for about half of the keys. */
    cache = map_with_room(THREAD_KEYS / 2 * 200);
    run_threads(churn);
    stats = stats_of(cache);
    ck_assert_uint_gt(stats.evictions, 100);
    ck_assert_uint_gt(stats.entries, 0);
    ck_assert_uint_gt(atomic_load(&freed), 1000);
    ck_assert_uint_eq(atomic_load(&deepest_free), 1);
    destroy_and_count(cache);
}
END_TEST

/* All threads at one key: most look-ups meet an object that is just going away or came to be. */
static void *fight(void *seed)
{
    uint64_t state = (uint64_t)(uintptr_t)seed;

    for (int step = 0; step < THREAD_STEPS; step++) {
        htc_process_node *node =
            next_random(&state) % 4 ? acquire(cache, 1) : insert(cache, 1, 100);

        check_family(node);
        if (node && next_random(&state) % 4 == 0)
            htc_process_cache_remove(cache, node);
        if (node)
            htc_process_cache_release(cache, node);
    }
    return NULL;
}

START_TEST(fight_for_one_key)
{
    cache = map_with_room(100000);
    run_threads(fight);
    ck_assert_uint_le(stats_of(cache).entries, 1);
    ck_assert_uint_eq(stats_of(cache).evictions, 0);
    destroy_and_count(cache);
}
END_TEST

/* One thread adds objects, and with them memory for nodes; the others only look. */
#define GROWING_KEYS 20000

static void *grow_or_read(void *seed)
{
    bool writer = (uintptr_t)seed == 1;

    for (unsigned key = 0; key < GROWING_KEYS; key++) {
        htc_process_node *node = writer ? insert(cache, key, 10) : acquire(cache, key);

        require(node || !writer, "there is room");
        if (node)
            htc_process_cache_release(cache, node);
    }
    return NULL;
}

START_TEST(readers_of_a_growing_map)
{
    cache = new_cache((uint64_t)16 << 20);
    run_threads(grow_or_read);
    ck_assert_uint_eq(stats_of(cache).entries, GROWING_KEYS);
    destroy_and_count(cache);
}
END_TEST

static Suite *map_suite(void)
{
    Suite *suite = suite_create("cache, chains and threads");
    TCase *chains = new_case(suite, "chains"), *threads = new_case(suite, "threads");

    tcase_add_test(chains, chain_is_freed_without_nesting);
    tcase_add_test(chains, destroy_frees_a_chain);
    tcase_add_test(chains, leaf_is_evicted_before_its_parents);
    tcase_add_test(chains, whole_chain_makes_room);
    tcase_add_test(chains, refused_payload_releases_its_parent);
    tcase_add_test(chains, parent_in_another_map);

    tcase_add_test(threads, churn_with_threads);
    tcase_add_test(threads, fight_for_one_key);
    tcase_add_test(threads, readers_of_a_growing_map);
    return suite;
}

int main(void)
{
    return run_suite(map_suite());
}
