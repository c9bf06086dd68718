/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what the heap tells of its objects' use. Run by 'make check'.
 */
#include "suite_util.h"
#include "heap_fixture.h"

#include <apr_hash.h>
#include <apr_strings.h>

#define OBJECTS 10

static bool is_used[OBJECTS]; /* by key */
static unsigned looked;

/* Kinds are ranked together; objects with an odd key are configurations. */
static void check_kind(htc_heap_kind kind, const void *object)
{
    ck_assert_int_eq(kind,
                     ((const hu_object *)object)->key % 2 ? HTC_HEAP_CONFIG : HTC_HEAP_PATH_ENTRY);
}

static bool used(void *baton, htc_heap_kind kind, const void *object)
{
    ck_assert_ptr_eq(baton, heap);
    check_kind(kind, object);
    ck_assert_uint_eq(looked, 0);
    return is_used[((const hu_object *)object)->key];
}

static void after(void *baton, htc_heap_kind kind, const void *object)
{
    ck_assert_ptr_eq(baton, heap);
    check_kind(kind, object);
    is_used[((const hu_object *)object)->key] = false;
    looked++;
}

/* Every object that was used is looked at again behind all of them. */
static void rank(void)
{
    bool before[OBJECTS];

    memcpy(before, is_used, sizeof(before));
    looked = 0;
    htc_heap_rank(heap, used, after, heap);
    for (int key = 0; key < OBJECTS; key++)
        ck_assert(!is_used[key]);
    memcpy(is_used, before, sizeof(is_used));
}

static uint64_t first[OBJECTS];

static void visit(void *baton, size_t place, htc_heap_kind kind, const void *object, uint64_t owner)
{
    (void)baton;
    check_kind(kind, object);
    ck_assert_uint_lt(place, OBJECTS);
    ck_assert_uint_eq(first[place], UINT64_MAX);
    ck_assert_uint_eq(owner, 77);
    first[place] = ((const hu_object *)object)->key;
}

static size_t get_first(size_t most)
{
    memset(first, 0xff, sizeof(first));
    return htc_heap_first(heap, most, visit, NULL);
}

static bool build_one(uint64_t key, unsigned n)
{
    return hu_build(heap, &(hu_spec){.key = key,
                                     .build = n,
                                     .nwords = 10,
                                     .owner = 77,
                                     .kind = key % 2 ? HTC_HEAP_CONFIG : HTC_HEAP_PATH_ENTRY});
}

static void build_all(void)
{
    for (uint64_t key = 0; key < OBJECTS; key++)
        ck_assert(build_one(key, 1));
}

START_TEST(nothing_was_used)
{
    own();
    build_all();
    ck_assert_uint_eq(get_first(OBJECTS), 0);
    memset(is_used, 0, sizeof(is_used));
    rank();
    ck_assert_uint_eq(looked, 0); /* each costs the builder a wait for memory */
    ck_assert_uint_eq(get_first(OBJECTS), 0);
}
END_TEST

/* Used in each call, in the last two, in the first two, never. */
START_TEST(those_used_more_and_later_come_first)
{
    own();
    build_all();
    for (int call = 0; call < 4; call++) {
        memset(is_used, 0, sizeof(is_used));
        is_used[7] = true;
        is_used[2] = call >= 2;
        is_used[5] = call < 2;
        rank();
    }
    ck_assert_uint_eq(get_first(OBJECTS), 3);
    ck_assert_uint_eq(first[0], 7);
    ck_assert_uint_eq(first[1], 2);
    ck_assert_uint_eq(first[2], 5);
    ck_assert_uint_eq(get_first(2), 2);
    ck_assert_uint_eq(first[1], 2);
    ck_assert_uint_eq(first[2], UINT64_MAX);
}
END_TEST

START_TEST(use_is_forgotten)
{
    own();
    build_all();
    memset(is_used, 1, sizeof(is_used));
    for (int call = 0; call < 1000; call++)
        rank();
    ck_assert_uint_eq(get_first(OBJECTS), OBJECTS);
    memset(is_used, 0, sizeof(is_used));
    for (int call = 0; call < 100; call++)
        rank();
    ck_assert_uint_eq(get_first(OBJECTS), 0);
}
END_TEST

START_TEST(what_is_built_anew_begins_anew)
{
    own();
    build_all();
    memset(is_used, 1, sizeof(is_used));
    rank();
    ck_assert(build_one(3, 2));
    ck_assert_uint_eq(get_first(OBJECTS), OBJECTS - 1);
}
END_TEST

static bool all_used;

static bool is_seen(void *seen, htc_heap_kind kind, const void *object)
{
    (void)kind;
    apr_hash_set(seen, apr_pmemdup(pool, &object, sizeof(object)), sizeof(object), object);
    return all_used;
}

static void was_seen(void *seen, htc_heap_kind kind, const void *object)
{
    (void)kind;
    ck_assert_ptr_eq(apr_hash_get(seen, &object, sizeof(object)), object);
    looked++;
}

/* Larger objects lie where smaller ones began, which were used: no object begins there now. */
START_TEST(only_objects_are_looked_at)
{
    own();
    for (uint64_t key = 0; key < 200; key++)
        ck_assert_ptr_nonnull(build(key, 1, 10));
    all_used = true;
    htc_heap_rank(heap, is_seen, was_seen, apr_hash_make(pool));
    build_others(77);
    all_used = false;
    looked = 0;
    htc_heap_rank(heap, is_seen, was_seen, apr_hash_make(pool));
    ck_assert_uint_eq(looked, 0);
    ck_assert_uint_eq(htc_heap_first(heap, OBJECTS, visit, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap, use");
    TCase *use = add_case(s, "use");

    tcase_add_test(use, nothing_was_used);
    tcase_add_test(use, those_used_more_and_later_come_first);
    tcase_add_test(use, use_is_forgotten);
    tcase_add_test(use, what_is_built_anew_begins_anew);
    tcase_add_test(use, only_objects_are_looked_at);
    return run_suite(s);
}
