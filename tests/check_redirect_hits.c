/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of area/hits.c: counting by name, who makes room in a full set, and many threads.
 * Run by 'make check'.
 */
#include "suite_util.h"
#include "area/hits.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#define NOW     (REDIRECT_COUNTER_EPOCH + 1000)
#define THREADS 4
#define EACH    50000

static redirect_hits make_hits(void)
{
    redirect_hits hits = {calloc(REDIRECT_HITS_ENTRIES, sizeof(*hits.names)),
                          calloc(REDIRECT_HITS_ENTRIES, sizeof(*hits.counters))};

    ck_assert(hits.names && hits.counters);
    return hits;
}

static void free_hits(redirect_hits hits)
{
    free(hits.names);
    free(hits.counters);
}

/* The n-th key of one set. */
static uint64_t same_set(uint64_t n)
{
    return UINT64_C(7) << 32 | n;
}

START_TEST(answers_are_counted_by_name)
{
    redirect_hits hits = make_hits();

    ck_assert_uint_eq(redirect_hits_get(&hits, 5).hits, 0);
    redirect_hits_add(&hits, 5, 50, NOW);
    redirect_hits_add(&hits, 6, 60, NOW + 1);
    redirect_hits_add(&hits, 5, 50, NOW + 2);
    ck_assert_uint_eq(redirect_hits_get(&hits, 5).hits, 2);
    ck_assert_int_eq(redirect_hits_get(&hits, 5).last, NOW + 2);
    ck_assert_uint_eq(redirect_hits_get(&hits, 6).hits, 1);
    ck_assert_uint_eq(redirect_hits_get(&hits, 7).hits, 0);
    redirect_hits_reset(&hits);
    ck_assert_uint_eq(redirect_hits_get(&hits, 5).hits, 0);
    free_hits(hits);
}
END_TEST

START_TEST(no_hash_stands_for_nothing)
{
    redirect_hits hits = make_hits();

    ck_assert_uint_eq(redirect_hits_get(&hits, 0).hits, 0);
    redirect_hits_add(&hits, 0, 1, NOW);
    ck_assert_uint_eq(redirect_hits_get(&hits, 0).hits, 1);
    free_hits(hits);
}
END_TEST

START_TEST(the_file_is_known_anew)
{
    redirect_hits hits = make_hits();
    int found = 0;

    redirect_hits_add(&hits, 5, 50, NOW);
    redirect_hits_add(&hits, 5, 51, NOW);
    for (int i = 0; i < REDIRECT_HITS_ENTRIES; i++) {
        if (hits.names[i].key) {
            found++;
            ck_assert_uint_eq(hits.names[i].file, 51);
        }
    }
    ck_assert_int_eq(found, 1);
    free_hits(hits);
}
END_TEST

START_TEST(whoever_answered_longest_ago_makes_room)
{
    redirect_hits hits = make_hits();

    for (uint64_t i = 0; i < REDIRECT_HITS_WAYS; i++)
        redirect_hits_add(&hits, same_set(i), 1, NOW + (int64_t)i);
    redirect_hits_add(&hits, same_set(0), 1, NOW + 100);
    redirect_hits_add(&hits, same_set(REDIRECT_HITS_WAYS), 1, NOW + 101);
    ck_assert_uint_eq(redirect_hits_get(&hits, same_set(0)).hits, 2);
    ck_assert_uint_eq(redirect_hits_get(&hits, same_set(1)).hits, 0);
    ck_assert_uint_eq(redirect_hits_get(&hits, same_set(2)).hits, 1);
    ck_assert_uint_eq(redirect_hits_get(&hits, same_set(REDIRECT_HITS_WAYS)).hits, 1);
    free_hits(hits);
}
END_TEST

static void *count_all(void *hits)
{
    for (unsigned i = 0; i < EACH; i++)
        redirect_hits_add(hits, same_set(i % REDIRECT_HITS_WAYS), 1, NOW);
    return NULL;
}

/* As long as no entry changes its owner, nothing is lost; two may begin one name at once, though,
 * so the names are there before. */
START_TEST(threads_lose_nothing)
{
    redirect_hits hits = make_hits();
    pthread_t threads[THREADS];
    uint64_t sum = 0;

    for (uint64_t i = 0; i < REDIRECT_HITS_WAYS; i++)
        redirect_hits_add(&hits, same_set(i), 1, NOW);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_all, &hits), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t i = 0; i < REDIRECT_HITS_WAYS; i++)
        sum += redirect_hits_get(&hits, same_set(i)).hits;
    ck_assert_uint_eq(sum, REDIRECT_HITS_WAYS + THREADS * EACH);
    free_hits(hits);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_hits");
    TCase *tests = tcase_create("hits");

    tcase_add_test(tests, answers_are_counted_by_name);
    tcase_add_test(tests, no_hash_stands_for_nothing);
    tcase_add_test(tests, the_file_is_known_anew);
    tcase_add_test(tests, whoever_answered_longest_ago_makes_room);
    tcase_add_test(tests, threads_lose_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
