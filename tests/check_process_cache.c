/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/cache/process_cache.c as one thread sees it: finding, replacing, the sets, what
 * is evicted and when, and the bound. Run by 'make check', as is check_process_cache_threads.c.
 */
#include "process_cache_items.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What a test holds, by a number of its own. */
#define MAX_HELD 4096
static htc_process_node *held[MAX_HELD];
static unsigned nheld;

static void hold_nothing(void)
{
    memset(held, 0, sizeof(held));
    nheld = 0;
}

/* --- basics ---------------------------------------------------------------------------------- */

static const struct {
    uint64_t max_bytes;
    apr_status_t rv;
} sizes[] = {
    {0, APR_EINVAL},
    {1, APR_EINVAL},
    {4096, APR_EINVAL},
    {8192, APR_EINVAL},
    {16384, APR_SUCCESS},
    {65536, APR_SUCCESS},
    {(uint64_t)1 << 20, APR_SUCCESS},
    {(uint64_t)1 << 30, APR_SUCCESS},
};

START_TEST(size_limits)
{
    htc_process_cache *m = (htc_process_cache *)&arena;

    ck_assert_int_eq(htc_process_cache_create(&m, sizes[_i].max_bytes, item_free), sizes[_i].rv);
    if (sizes[_i].rv != APR_SUCCESS) {
        ck_assert_ptr_null(m);
        return;
    }
    put(m, 1, 100);
    ck_assert(has(m, 1));
    destroy_and_count(m);
}
END_TEST

START_TEST(table_is_accounted_for)
{
    /* One slot, of a pointer's size, for each 512 bytes. */
    cache = new_cache((uint64_t)64 << 20);
    ck_assert_uint_ge(stats_of(cache).bytes, ((uint64_t)64 << 20) / 512 * sizeof(void *));
    htc_process_cache_destroy(cache);
}
END_TEST

/* A script of operations on keys with small numbers. Each ends with what must be true then. */
typedef enum op { END, PUT, HOLD, DROP, REMOVE, ABSENT, PRESENT } op;

#define MAX_STEPS 12
static const struct {
    const char *title;
    struct {
        op what;
        unsigned key;
        uint64_t entries; /* afterwards */
        size_t freed;
    } steps[MAX_STEPS];
} scripts[] = {
    {"empty", {{ABSENT, 1, 0, 0}}},
    {"found and not found", {{PUT, 1, 1, 0}, {PRESENT, 1, 1, 0}, {ABSENT, 2, 1, 0}}},
    {"several", {{PUT, 1, 1, 0}, {PUT, 2, 2, 0}, {PRESENT, 1, 2, 0}, {PRESENT, 2, 2, 0}}},
    {"replacement frees the old", {{PUT, 1, 1, 0}, {PUT, 1, 1, 1}, {PRESENT, 1, 1, 1}}},
    {"replacement waits for the holder",
     {{PUT, 1, 1, 0}, {HOLD, 1, 1, 0}, {PUT, 1, 1, 0}, {PRESENT, 1, 1, 0}, {DROP, 0, 1, 1}}},
    {"removal frees", {{PUT, 1, 1, 0}, {REMOVE, 1, 0, 1}, {ABSENT, 1, 0, 1}}},
    {"removal waits for the holder",
     {{PUT, 1, 1, 0}, {HOLD, 1, 1, 0}, {REMOVE, 1, 0, 0}, {ABSENT, 1, 0, 0}, {DROP, 0, 0, 1}}},
    {"removal spares the others",
     {{PUT, 1, 1, 0}, {PUT, 2, 2, 0}, {REMOVE, 1, 1, 1}, {PRESENT, 2, 1, 1}}},
    {"back again", {{PUT, 1, 1, 0}, {REMOVE, 1, 0, 1}, {PUT, 1, 1, 1}, {PRESENT, 1, 1, 1}}},
    {"old and new held",
     {{PUT, 1, 1, 0},
      {HOLD, 1, 1, 0},
      {PUT, 1, 1, 0},
      {HOLD, 1, 1, 0},
      {PUT, 1, 1, 0},
      {DROP, 1, 1, 1},
      {DROP, 0, 1, 2}}},
};

static void run_op(op what, unsigned key)
{
    htc_process_node *node;

    switch (what) {
    case PUT:
        put(cache, key, 100);
        break;
    case HOLD:
        held[nheld++] = acquire(cache, key);
        ck_assert_ptr_nonnull(held[nheld - 1]);
        break;
    case DROP:
        ck_assert_uint_eq(((item *)htc_process_cache_data(held[key]))->canary, ALIVE);
        htc_process_cache_release(cache, held[key]);
        break;
    case REMOVE:
        node = acquire(cache, key);
        ck_assert_ptr_nonnull(node);
        htc_process_cache_remove(cache, node);
        htc_process_cache_release(cache, node);
        break;
    case ABSENT:
    case PRESENT:
        ck_assert(has(cache, key) == (what == PRESENT));
        break;
    default:
        ck_abort();
    }
}

START_TEST(script)
{
    cache = map_with_room(10000);
    for (size_t i = 0; i < MAX_STEPS && scripts[_i].steps[i].what != END; i++) {
        htc_process_cache_stats stats;

        run_op(scripts[_i].steps[i].what, scripts[_i].steps[i].key);
        stats = stats_of(cache);
        ck_assert_msg(stats.entries == scripts[_i].steps[i].entries &&
                          atomic_load(&freed) == scripts[_i].steps[i].freed,
                      "%s, step %zu: %u entries, %zu freed", scripts[_i].title, i,
                      (unsigned)stats.entries, atomic_load(&freed));
        ck_assert_uint_eq(stats.bytes, empty_bytes + atomic_load(&live_cost));
        ck_assert_uint_eq(stats.evictions, 0);
    }
    destroy_and_count(cache);
}
END_TEST

START_TEST(retain_adds_a_reference)
{
    htc_process_node *node;

    cache = map_with_room(1000);
    node = insert(cache, 1, 10);
    htc_process_cache_retain(node);
    htc_process_cache_remove(cache, node);
    htc_process_cache_release(cache, node);
    ck_assert_uint_eq(atomic_load(&freed), 0);
    htc_process_cache_release(cache, node);
    ck_assert_uint_eq(atomic_load(&freed), 1);
    destroy_and_count(cache);
}
END_TEST

START_TEST(second_removal_does_nothing)
{
    htc_process_node *old;

    cache = map_with_room(1000);
    old = insert(cache, 1, 10);
    htc_process_cache_remove(cache, old);
    put(cache, 1, 10);
    htc_process_cache_remove(cache, old);
    ck_assert(has(cache, 1));
    ck_assert_uint_eq(stats_of(cache).entries, 1);
    htc_process_cache_release(cache, old);
    destroy_and_count(cache);
}
END_TEST

/* A look-up that the table can decide by hash asks no payload. */
START_TEST(other_hash_is_not_matched)
{
    cache = map_with_room(100000);
    for (unsigned key = 0; key < 100; key++)
        put(cache, key, 10);
    atomic_store(&match_calls, 0);
    ck_assert_uint_eq(count_present(cache, 1000, 3000, 1), 0);
    ck_assert_uint_eq(atomic_load(&match_calls), 0);
    destroy_and_count(cache);
}
END_TEST

/* --- sets ------------------------------------------------------------------------------------ */

/* Two sets of eight take 16 objects of one hash, when the hash names two sets. */
#define TWO_SETS UINT64_C(0x0000000100000002)
#define ONE_SET  UINT64_C(0x0000000300000003)

static const struct {
    uint64_t hash;
    unsigned room;
} equal_hashes[] = {{TWO_SETS, 16}, {ONE_SET, 8}, {0, 8}, {UINT64_MAX, 8}};

START_TEST(equal_hashes_are_told_apart)
{
    uint64_t hash = equal_hashes[_i].hash;
    unsigned room = equal_hashes[_i].room;

    cache = map_with_room(100000);
    for (unsigned key = 0; key < room; key++)
        htc_process_cache_release(cache, insert_at(cache, hash, key, 10));
    ck_assert_uint_eq(stats_of(cache).entries, room);
    for (unsigned key = 0; key < room; key++) {
        htc_process_node *node = acquire_at(cache, hash, key);

        ck_assert_ptr_nonnull(node);
        htc_process_cache_release(cache, node);
    }
    ck_assert_ptr_null(acquire_at(cache, hash, room));
    destroy_and_count(cache);
}
END_TEST

static size_t count_at(uint64_t hash, unsigned keys)
{
    size_t n = 0;

    for (unsigned key = 0; key < keys; key++) {
        htc_process_node *node = acquire_at(cache, hash, key);

        if (node)
            htc_process_cache_release(cache, node);
        n += node != NULL;
    }
    return n;
}

/* Wherever in its two sets an object lies, it is replaced and removed there. */
START_TEST(equal_hashes_are_replaced_and_removed)
{
    uint64_t hash = equal_hashes[_i].hash;
    unsigned room = equal_hashes[_i].room;

    cache = map_with_room(100000);
    for (unsigned key = 0; key < 2 * room; key++)
        htc_process_cache_release(cache, insert_at(cache, hash, key % room, 10));
    ck_assert_uint_eq(stats_of(cache).entries, room);
    ck_assert_uint_eq(stats_of(cache).evictions, 0);
    ck_assert_uint_eq(atomic_load(&freed), room);
    for (unsigned key = 0; key < room; key++) {
        htc_process_node *node = acquire_at(cache, hash, key);

        ck_assert_ptr_nonnull(node);
        htc_process_cache_remove(cache, node);
        htc_process_cache_release(cache, node);
    }
    ck_assert_uint_eq(stats_of(cache).entries, 0);
    destroy_and_count(cache);
}
END_TEST

START_TEST(full_sets_evict_the_unused)
{
    cache = map_with_room(100000);
    for (unsigned key = 0; key < 16; key++)
        htc_process_cache_release(cache, insert_at(cache, TWO_SETS, key, 10));
    for (unsigned key = 0; key < 16; key++) {
        if (key != 11)
            htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, key));
    }
    htc_process_cache_release(cache, insert_at(cache, TWO_SETS, 16, 10));
    ck_assert_ptr_null(acquire_at(cache, TWO_SETS, 11));
    ck_assert_uint_eq(count_at(TWO_SETS, 17), 16);
    ck_assert_uint_eq(stats_of(cache).evictions, 1);
    ck_assert_uint_eq(atomic_load(&freed), 1);
    destroy_and_count(cache);
}
END_TEST

START_TEST(full_sets_evict_the_used_before_the_held)
{
    htc_process_node *nodes[16];

    cache = map_with_room(100000);
    for (unsigned key = 0; key < 16; key++)
        nodes[key] = insert_at(cache, TWO_SETS, key, 10);
    htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, 7));
    htc_process_cache_release(cache, nodes[7]);
    htc_process_cache_release(cache, insert_at(cache, TWO_SETS, 16, 10));
    ck_assert_uint_eq(atomic_load(&freed), 1);
    ck_assert_ptr_null(acquire_at(cache, TWO_SETS, 7));
    for (unsigned key = 0; key < 16; key++) {
        if (key != 7)
            htc_process_cache_release(cache, nodes[key]);
    }
    destroy_and_count(cache);
}
END_TEST

/* After all had been used, a use counts again from the next eviction on. */
START_TEST(full_sets_forget_old_use)
{
    cache = map_with_room(100000);
    for (unsigned key = 0; key < 16; key++)
        htc_process_cache_release(cache, insert_at(cache, TWO_SETS, key, 10));
    ck_assert_uint_eq(count_at(TWO_SETS, 16), 16);
    htc_process_cache_release(cache, insert_at(cache, TWO_SETS, 16, 10));
    htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, 15));
    htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, 16));
    for (unsigned key = 17; key < 17 + 14; key++) {
        htc_process_cache_release(cache, insert_at(cache, TWO_SETS, key, 10));
        htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, key));
    }
    ck_assert_uint_eq(stats_of(cache).evictions, 15);
    htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, 15));
    htc_process_cache_release(cache, acquire_at(cache, TWO_SETS, 16));
    destroy_and_count(cache);
}
END_TEST

START_TEST(full_sets_of_held_objects_still_take_one)
{
    htc_process_node *nodes[17];
    uint64_t bytes;

    cache = map_with_room(100000);
    for (unsigned key = 0; key < 17; key++)
        nodes[key] = insert_at(cache, TWO_SETS, key, 10);
    ck_assert_ptr_nonnull(nodes[16]);
    ck_assert_uint_eq(stats_of(cache).entries, 16);
    ck_assert_uint_eq(stats_of(cache).evictions, 1);
    bytes = stats_of(cache).bytes;
    ck_assert_uint_eq(bytes, empty_bytes + 170);
    for (unsigned key = 0; key < 17; key++) {
        ck_assert_uint_eq(((item *)htc_process_cache_data(nodes[key]))->canary, ALIVE);
        htc_process_cache_release(cache, nodes[key]);
    }
    ck_assert_uint_eq(atomic_load(&freed), 1);
    ck_assert_uint_eq(stats_of(cache).bytes, bytes - 10);
    destroy_and_count(cache);
}
END_TEST

/* --- the bound ------------------------------------------------------------------------------- */

START_TEST(unused_go_first)
{
    const unsigned n = 100;

    cache = map_with_room(n * 100);
    for (unsigned key = 0; key < n; key++)
        put(cache, key, 100);
    ck_assert_uint_eq(stats_of(cache).bytes, stats_of(cache).max_bytes);
    ck_assert_uint_eq(stats_of(cache).evictions, 0);
    ck_assert_uint_eq(count_present(cache, 0, n, 2), n / 2);

    for (unsigned key = n; key < n + n / 2; key++)
        put(cache, key, 100);
    ck_assert_uint_eq(stats_of(cache).evictions, n / 2);
    ck_assert_uint_eq(stats_of(cache).entries, n);
    ck_assert_uint_eq(count_present(cache, 0, n, 2), n / 2);
    destroy_and_count(cache);
}
END_TEST

START_TEST(used_go_when_all_are_used)
{
    cache = map_with_room(1000);
    for (unsigned key = 0; key < 10; key++)
        put(cache, key, 100);
    ck_assert_uint_eq(count_present(cache, 0, 10, 1), 10);
    put(cache, 10, 300);
    ck_assert_uint_eq(stats_of(cache).evictions, 3);
    ck_assert(has(cache, 10));
    destroy_and_count(cache);
}
END_TEST

/* Eviction passes by an object in use; that it was used is not forgotten by that. */
START_TEST(use_is_remembered_while_held)
{
    htc_process_node *node;

    cache = map_with_room(1000);
    put(cache, 0, 100);
    node = acquire(cache, 0);
    for (unsigned key = 1; key < 50; key++)
        put(cache, key, 100);
    htc_process_cache_release(cache, node);
    ck_assert_uint_eq(count_present(cache, 1, 50, 1), 9);
    put(cache, 50, 100);
    ck_assert(has(cache, 0));
    destroy_and_count(cache);
}
END_TEST

START_TEST(held_are_never_evicted_for_room)
{
    cache = map_with_room(1000);
    for (nheld = 0; nheld < 10; nheld++)
        held[nheld] = insert(cache, nheld, 100);
    ck_assert_ptr_null(insert(cache, 10, 100));
    ck_assert_uint_eq(atomic_load(&freed), 1);
    ck_assert_uint_eq(count_present(cache, 0, 10, 1), 10);

    htc_process_cache_release(cache, held[4]);
    put(cache, 10, 100);
    ck_assert(!has(cache, 4));
    ck_assert(has(cache, 10));
    ck_assert_uint_eq(stats_of(cache).evictions, 1);
    for (unsigned i = 0; i < 10; i++) {
        if (i != 4)
            htc_process_cache_release(cache, held[i]);
    }
    destroy_and_count(cache);
}
END_TEST

START_TEST(unlinked_and_held_still_count)
{
    htc_process_node *node;

    cache = map_with_room(1000);
    node = insert(cache, 1, 1000);
    htc_process_cache_remove(cache, node);
    ck_assert_uint_eq(stats_of(cache).entries, 0);
    ck_assert_ptr_null(insert(cache, 2, 1));
    htc_process_cache_release(cache, node);
    put(cache, 2, 1000);
    destroy_and_count(cache);
}
END_TEST

START_TEST(replacement_uses_the_old_ones_room)
{
    cache = map_with_room(1000);
    put(cache, 1, 600);
    put(cache, 2, 400);
    put(cache, 1, 600);
    ck_assert(has(cache, 1));
    ck_assert(has(cache, 2));
    ck_assert_uint_eq(stats_of(cache).evictions, 0);
    destroy_and_count(cache);
}
END_TEST

static const size_t hopeless[] = {1001, 100000, SIZE_MAX / 2, SIZE_MAX - 1, SIZE_MAX};

START_TEST(larger_than_the_bound)
{
    cache = map_with_room(1000);
    put(cache, 1, 500);
    put(cache, 2, 500);
    ck_assert_ptr_null(insert(cache, 3, hopeless[_i]));
    ck_assert_uint_eq(atomic_load(&freed), 1);
    ck_assert_uint_eq(stats_of(cache).evictions, 0);
    ck_assert_uint_eq(count_present(cache, 1, 3, 1), 2);

    /* What it would have replaced is out of date all the same. */
    ck_assert_ptr_null(insert(cache, 1, hopeless[_i]));
    ck_assert(!has(cache, 1));
    put(cache, 3, 1000);
    destroy_and_count(cache);
}
END_TEST

/* Objects that cost nothing take nodes all the same: the bound holds for these too. */
START_TEST(what_can_never_have_room_is_known)
{
    cache = new_cache(65536);
    ck_assert(htc_process_cache_fits(cache, stats_of(cache).max_bytes - stats_of(cache).bytes));
    ck_assert(
        !htc_process_cache_fits(cache, stats_of(cache).max_bytes - stats_of(cache).bytes + 1));
    for (unsigned key = 0; stats_of(cache).max_bytes - stats_of(cache).bytes >= 1000; key++)
        put(cache, key, 1000);
    ck_assert(htc_process_cache_fits(cache, 1000)); /* others make way */
    ck_assert(!htc_process_cache_fits(cache, 65536));
    destroy_and_count(cache);
}
END_TEST

START_TEST(nodes_are_accounted_for)
{
    const uint64_t room = 40000;
    const size_t smallest_node = 4 * sizeof(void *);

    cache = map_with_room(room);
    for (nheld = 0; nheld < MAX_HELD; nheld++) {
        held[nheld] = insert(cache, nheld, 0);
        if (!held[nheld])
            break;
        stats_of(cache);
    }
    ck_assert_uint_gt(nheld, 127);
    ck_assert_uint_lt(nheld, (empty_bytes + room) / smallest_node);
    for (unsigned i = 0; i < nheld; i++)
        htc_process_cache_release(cache, held[i]);
    put(cache, MAX_HELD, 0);
    destroy_and_count(cache);
}
END_TEST

#define RANDOM_HELD 32

/* Replace what is held in a place by a new object or a look-up of one. */
static void random_step(uint64_t *state, htc_process_node **place)
{
    unsigned key = next_random(state) % 500;

    if (*place)
        htc_process_cache_release(cache, *place);
    *place = next_random(state) % 3 ? acquire(cache, key)
                                    : insert(cache, key, next_random(state) % 2000);
    if (*place && next_random(state) % 8 == 0)
        htc_process_cache_remove(cache, *place);
}

START_TEST(random_operations_keep_the_bound)
{
    uint64_t state = (uint64_t)_i + 1, before = 0;

    cache = map_with_room(30000);
    for (int step = 0; step < 20000; step++) {
        uint64_t overhead;

        random_step(&state, &held[next_random(&state) % RANDOM_HELD]);
        /* All that is alive, and the cache itself, which never shrinks. */
        overhead = stats_of(cache).bytes - atomic_load(&live_cost);
        ck_assert_uint_ge(overhead, before ? before : empty_bytes);
        before = overhead;
    }
    ck_assert_uint_gt(stats_of(cache).evictions, 100);
    for (int i = 0; i < RANDOM_HELD; i++) {
        if (held[i])
            htc_process_cache_release(cache, held[i]);
    }
    destroy_and_count(cache);
}
END_TEST

static Suite *map_suite(void)
{
    Suite *suite = suite_create("cache");
    TCase *basics = new_case(suite, "basics"), *sets = new_case(suite, "sets"),
          *bound = new_case(suite, "bound");

    tcase_add_checked_fixture(basics, hold_nothing, NULL);
    tcase_add_checked_fixture(bound, hold_nothing, NULL);
    tcase_add_loop_test(basics, size_limits, 0, COUNT_OF(sizes));
    tcase_add_test(basics, table_is_accounted_for);
    tcase_add_loop_test(basics, script, 0, COUNT_OF(scripts));
    tcase_add_test(basics, retain_adds_a_reference);
    tcase_add_test(basics, second_removal_does_nothing);
    tcase_add_test(basics, other_hash_is_not_matched);

    tcase_add_loop_test(sets, equal_hashes_are_told_apart, 0, COUNT_OF(equal_hashes));
    tcase_add_loop_test(sets, equal_hashes_are_replaced_and_removed, 0, COUNT_OF(equal_hashes));
    tcase_add_test(sets, full_sets_evict_the_unused);
    tcase_add_test(sets, full_sets_evict_the_used_before_the_held);
    tcase_add_test(sets, full_sets_forget_old_use);
    tcase_add_test(sets, full_sets_of_held_objects_still_take_one);

    tcase_add_test(bound, unused_go_first);
    tcase_add_test(bound, used_go_when_all_are_used);
    tcase_add_test(bound, use_is_remembered_while_held);
    tcase_add_test(bound, held_are_never_evicted_for_room);
    tcase_add_test(bound, what_can_never_have_room_is_known);
    tcase_add_test(bound, unlinked_and_held_still_count);
    tcase_add_test(bound, replacement_uses_the_old_ones_room);
    tcase_add_loop_test(bound, larger_than_the_bound, 0, COUNT_OF(hopeless));
    tcase_add_test(bound, nodes_are_accounted_for);
    tcase_add_loop_test(bound, random_operations_keep_the_bound, 0, 5);
    return suite;
}

int main(void)
{
    return run_suite(map_suite());
}
