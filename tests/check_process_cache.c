/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/cache/process_cache.c. Payloads come from an arena and are never handed out
 * twice, so that one that is used after it was freed is seen without any tool. Built with
 * -fsanitize=thread, this is also the proof of the memory orders.
 */
#include "cache/process_cache.h"
#include "suite_util.h"

#include <pthread.h>
#include <stdatomic.h>

#define ALIVE       0x600dcafeu
#define POISON      0xdeadbeefu
#define ARENA_ITEMS 300000
#define NODE        64 /* what a node is accounted for, at most */

typedef struct item {
    uint32_t canary; /* not atomic: a race on it is a bug of the cache */
    unsigned key;
    size_t cost;
} item;

static item *arena;
static htc_process_cache *cache; /* a cache is never destroyed */

/* Counted with relaxed order, and checked with require() where several threads are at it: anything
 * that orders the threads (libcheck's ck_assert takes a lock) would hide a missing order in the
 * cache. */
static _Atomic size_t made, freed, live_cost;

static void require(bool holds, const char *what)
{
    if (!holds)
        ck_abort_msg("%s", what);
}

static item *item_new(unsigned key, size_t cost)
{
    size_t i = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);

    require(i < ARENA_ITEMS, "the arena is too small");
    arena[i] = (item){ALIVE, key, cost};
    atomic_fetch_add_explicit(&live_cost, cost, memory_order_relaxed);
    return &arena[i];
}

static void item_free(void *data)
{
    item *it = data;

    require(it->canary == ALIVE, "freed twice");
    it->canary = POISON;
    atomic_fetch_sub_explicit(&live_cost, it->cost, memory_order_relaxed);
    atomic_fetch_add_explicit(&freed, 1, memory_order_relaxed);
}

static bool item_match(const void *data, const void *key)
{
    const item *it = data;

    require(it->canary == ALIVE, "matched after it was freed");
    return it->key == *(const unsigned *)key;
}

/* Pairs of keys share a hash, and some hashes a bucket. */
static uint64_t hash_of(unsigned key)
{
    return key / 2 % 100 | (uint64_t)key / 200 << 32;
}

static void new_cache(uint64_t max_bytes)
{
    ck_assert_int_eq(htc_process_cache_create(&cache, max_bytes, item_free), APR_SUCCESS);
}

static void setup(void)
{
    arena = calloc(ARENA_ITEMS, sizeof(*arena));
    ck_assert_ptr_nonnull(arena);
    made = freed = live_cost = 0;
}

static void check_item(const htc_process_node *node, unsigned key)
{
    const item *it = node ? htc_process_cache_data(node) : NULL;

    require(!it || it->canary == ALIVE, "held but freed");
    require(!it || it->key == key, "another key");
}

static htc_process_node *insert(unsigned key, size_t cost)
{
    htc_process_node *node =
        htc_process_cache_insert(cache, hash_of(key), item_match, &key, item_new(key, cost), cost);

    check_item(node, key);
    return node;
}

static htc_process_node *acquire(unsigned key)
{
    htc_process_node *node = htc_process_cache_acquire(cache, hash_of(key), item_match, &key);

    check_item(node, key);
    return node;
}

static void let_go(htc_process_node *node)
{
    if (node)
        htc_process_cache_release(cache, node);
}

static void put(unsigned key, size_t cost)
{
    htc_process_node *node = insert(key, cost);

    ck_assert_ptr_nonnull(node);
    let_go(node);
}

/* Look a key up, which marks it as used. */
static bool has(unsigned key)
{
    htc_process_node *node = acquire(key);

    let_go(node);
    return node != NULL;
}

static size_t count_present(unsigned from, unsigned to, unsigned step)
{
    size_t n = 0;

    for (unsigned key = from; key < to; key += step)
        n += has(key);
    return n;
}

static size_t n_freed(void)
{
    return atomic_load(&freed);
}

/* --- one thread ------------------------------------------------------------------------------ */

START_TEST(found_and_not_found)
{
    new_cache(10000);
    ck_assert(!has(2));
    put(2, 100);
    ck_assert(has(2));
    ck_assert(!has(3)); /* has the same hash */
    put(3, 100);
    ck_assert(has(2));
    ck_assert(has(3));
    ck_assert_uint_eq(n_freed(), 0);
}
END_TEST

START_TEST(all_of_a_chain_are_found)
{
    const unsigned n = 20000;

    new_cache((uint64_t)1 << 30);
    for (unsigned key = 0; key < n; key++)
        put(key, 1);
    ck_assert_uint_eq(count_present(0, n, 1), n);
    ck_assert_uint_eq(count_present(n, 2 * n, 1), 0);
    for (unsigned key = 0; key < n; key += 3)
        put(key, 2);
    ck_assert_uint_eq(n_freed(), (n + 2) / 3);
    ck_assert_uint_eq(count_present(0, n, 1), n);
}
END_TEST

START_TEST(replaced)
{
    htc_process_node *old, *newer;

    new_cache(10000);
    put(1, 100);
    put(1, 100);
    ck_assert_uint_eq(n_freed(), 1);
    old = acquire(1);
    put(1, 100);
    newer = acquire(1);
    ck_assert_ptr_ne(newer, old);
    put(1, 100);
    ck_assert_uint_eq(n_freed(), 1); /* both wait for their holders */
    check_item(old, 1);
    let_go(newer);
    ck_assert_uint_eq(n_freed(), 2);
    let_go(old);
    ck_assert_uint_eq(n_freed(), 3);
    ck_assert(has(1));
}
END_TEST

START_TEST(unused_go_first)
{
    const unsigned n = 100;

    new_cache(n * 1000);
    for (unsigned key = 0; key < n; key++)
        put(key, 1000 - NODE);
    ck_assert_uint_eq(count_present(0, n, 2), n / 2);
    ck_assert_uint_eq(n_freed(), 0);
    for (unsigned key = n; key < n + n / 2; key++) {
        htc_process_node *node = insert(key, 1000 - NODE);

        ck_assert_uint_eq(count_present(0, n, 2), n / 2);
        let_go(node);
    }
    ck_assert_uint_ge(n_freed(), n / 3);
    ck_assert_uint_le(atomic_load(&live_cost), n * 1000);
}
END_TEST

START_TEST(used_go_when_all_are_used)
{
    new_cache(10000);
    for (unsigned key = 0; key < 10; key++)
        put(key, 1000 - NODE);
    ck_assert_uint_eq(count_present(0, 10, 1), 10);
    put(10, 3000 - NODE);
    ck_assert_uint_eq(n_freed(), 3);
    ck_assert(has(10));
}
END_TEST

START_TEST(use_is_remembered_while_held)
{
    htc_process_node *node;

    new_cache(10000);
    put(0, 1000 - NODE);
    node = acquire(0);
    for (unsigned key = 1; key < 50; key++)
        put(key, 1000 - NODE);
    let_go(node);
    put(50, 1000 - NODE);
    ck_assert(has(0));
}
END_TEST

/* The bound does not hold against what is in use, but from the next insertion on. */
START_TEST(held_stay)
{
    htc_process_node *held[20];

    new_cache(10000);
    for (unsigned key = 0; key < 20; key++)
        held[key] = insert(key, 1000 - NODE);
    ck_assert_uint_eq(n_freed(), 0);
    ck_assert_uint_eq(count_present(0, 20, 1), 20);
    for (unsigned key = 0; key < 20; key++)
        let_go(held[key]);
    put(20, 1000 - NODE);
    ck_assert_uint_ge(n_freed(), 11);
    ck_assert_uint_le(atomic_load(&live_cost), 10000);
    ck_assert(has(20));
}
END_TEST

static const size_t hopeless[] = {10000, 10001, 100000, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX};

START_TEST(larger_than_the_bound)
{
    new_cache(10000);
    put(1, 4000);
    put(2, 4000);
    ck_assert_ptr_null(insert(3, hopeless[_i]));
    ck_assert_ptr_null(insert(1, hopeless[_i]));
    ck_assert_uint_eq(n_freed(), 2);
    ck_assert_uint_eq(count_present(1, 3, 1), 2);
    put(3, 10000 - NODE);
    ck_assert_uint_eq(n_freed(), 4);
}
END_TEST

/* Objects that cost nothing have nodes all the same. */
START_TEST(nodes_are_accounted_for)
{
    new_cache(10000);
    for (unsigned key = 0; key < 1000; key++)
        put(key, 0);
    ck_assert_uint_ge(n_freed(), 1000 - 10000 / (4 * sizeof(void *)));
    ck_assert_uint_le(n_freed(), 1000 - 10000 / NODE);
}
END_TEST

/* --- threads --------------------------------------------------------------------------------- */

#define THREADS 8
#define STEPS   60000
#define KEYS    160
#define HELD    6
#define COST    400

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static void *churn(void *seed)
{
    uint64_t state = (uint64_t)(uintptr_t)seed;
    htc_process_node *mine[HELD] = {NULL};
    unsigned keys[HELD] = {0};

    for (int step = 0; step < STEPS; step++) {
        unsigned at = next_random(&state) % HELD;

        check_item(mine[at], keys[at]);
        let_go(mine[at]);
        keys[at] = next_random(&state) % KEYS;
        mine[at] = next_random(&state) % 4 ? acquire(keys[at])
                                           : insert(keys[at], next_random(&state) % COST);
    }
    for (int i = 0; i < HELD; i++) {
        check_item(mine[i], keys[i]);
        let_go(mine[i]);
    }
    return NULL;
}

/* All threads at one key: most look-ups meet an object that is just going away or came to be. */
static void *fight(void *seed)
{
    uint64_t state = (uint64_t)(uintptr_t)seed;

    for (int step = 0; step < STEPS / 2; step++)
        let_go(next_random(&state) % 4 ? acquire(1) : insert(1, 100));
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
    const size_t bound = KEYS / 2 * 200;

    new_cache(bound);
    run_threads(churn);
    ck_assert_uint_gt(n_freed(), 1000);
    ck_assert(insert(KEYS, 0) != NULL);
    ck_assert_uint_le(atomic_load(&live_cost), bound);
    ck_assert_uint_eq(count_present(0, KEYS + 1, 1), atomic_load(&made) - n_freed());
}
END_TEST

START_TEST(fight_for_one_key)
{
    new_cache(100000);
    run_threads(fight);
    ck_assert(has(1));
    ck_assert_uint_eq(n_freed(), atomic_load(&made) - 1);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("process cache");
    TCase *one = tcase_create("one thread"), *threads = tcase_create("threads");

    suite_add_tcase(suite, one);
    suite_add_tcase(suite, threads);
    tcase_add_checked_fixture(one, setup, NULL);
    tcase_add_checked_fixture(threads, setup, NULL);
    tcase_set_timeout(threads, 300);
    tcase_add_test(one, found_and_not_found);
    tcase_add_test(one, all_of_a_chain_are_found);
    tcase_add_test(one, replaced);
    tcase_add_test(one, unused_go_first);
    tcase_add_test(one, used_go_when_all_are_used);
    tcase_add_test(one, use_is_remembered_while_held);
    tcase_add_test(one, held_stay);
    tcase_add_loop_test(one, larger_than_the_bound, 0, COUNT(hopeless));
    tcase_add_test(one, nodes_are_accounted_for);
    tcase_add_test(threads, churn_with_threads);
    tcase_add_test(threads, fight_for_one_key);
    return run_suite(suite);
}
