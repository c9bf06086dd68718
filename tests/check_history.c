/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of cache/history.c: one sample per time, also with many who want to take it; order,
 * the ring going round, counters that begin anew. Run by 'make check'.
 */
#include "suite_util.h"
#include "cache/history.h"

#include <apr_general.h>
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static apr_pool_t *pool;
static htc_history *history;
static htc_sample samples[HTC_HISTORY_SAMPLES];

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    ck_assert_int_eq(htc_history_create(&history, pool), APR_SUCCESS);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

static htc_sample sample_of(int64_t n)
{
    htc_sample sample = {.at = n, .generation = 1};

    for (int i = 0; i < HTC_HISTORY_VALUES; i++)
        sample.values[i] = (uint64_t)n * 10 + (uint64_t)i;
    return sample;
}

START_TEST(due_once_in_a_time)
{
    ck_assert(htc_history_due(history, 1000));
    ck_assert(!htc_history_due(history, 1000));
    ck_assert(!htc_history_due(history, 1000 + HTC_HISTORY_SECONDS - 1));
    ck_assert(htc_history_due(history, 1000 + HTC_HISTORY_SECONDS));
    /* The clock was set back. */
    ck_assert(htc_history_due(history, 500));
    ck_assert(!htc_history_due(history, 501));
}
END_TEST

START_TEST(oldest_first_and_the_last_ones_stay)
{
    htc_sample last;

    ck_assert_uint_eq(htc_history_read(history, samples), 0);
    ck_assert(!htc_history_last(history, &last));
    for (int64_t n = 1; n <= HTC_HISTORY_SAMPLES + 7; n++) {
        htc_sample sample = sample_of(n);

        htc_history_add(history, &sample);
        ck_assert(htc_history_last(history, &last));
        ck_assert_int_eq(last.at, n);
    }
    ck_assert_uint_eq(htc_history_read(history, samples), HTC_HISTORY_SAMPLES);
    for (size_t i = 0; i < HTC_HISTORY_SAMPLES; i++) {
        ck_assert_int_eq(samples[i].at, (int64_t)i + 8);
        ck_assert_uint_eq(samples[i].values[HTC_H_BYTES], (i + 8) * 10 + HTC_H_BYTES);
    }
}
END_TEST

START_TEST(deltas)
{
    htc_sample a = sample_of(5), b = sample_of(9);

    ck_assert_uint_eq(htc_history_delta(&a, &b, HTC_H_STATS), 40);
    ck_assert_uint_eq(htc_history_delta(&b, &a, HTC_H_STATS), 0);
    b.generation++;
    ck_assert_uint_eq(htc_history_delta(&a, &b, HTC_H_STATS), b.values[HTC_H_STATS]);
    ck_assert_uint_eq(htc_history_delta(&b, &a, HTC_H_STATS), 0);
    a.generation += 2;
    ck_assert_uint_eq(htc_history_delta(&a, &b, HTC_H_STATS), 0);
}
END_TEST

#define THREADS 8
#define TIMES   20000

static _Atomic int claimed, stop;

static void *claim(void *unused)
{
    (void)unused;
    for (int64_t now = 0; now < (int64_t)TIMES * HTC_HISTORY_SECONDS;
         now += HTC_HISTORY_SECONDS / 2) {
        if (htc_history_due(history, HTC_HISTORY_SECONDS + now)) {
            htc_sample sample = sample_of(now + 1);

            atomic_fetch_add(&claimed, 1);
            htc_history_add(history, &sample);
        }
    }
    return NULL;
}

static void *read_all(void *unused)
{
    static htc_sample own[HTC_HISTORY_SAMPLES];

    while (!atomic_load(&stop)) {
        size_t n = htc_history_read(history, own);

        for (size_t i = 0; i < n; i++) {
            for (int v = 0; v < HTC_HISTORY_VALUES; v++)
                ck_assert_uint_eq(own[i].values[v], (uint64_t)own[i].at * 10 + (uint64_t)v);
        }
    }
    return unused;
}

/* A sample that is seen is whole. */
START_TEST(many_at_once)
{
    pthread_t threads[THREADS], reader;

    ck_assert_int_eq(pthread_create(&reader, NULL, read_all, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, claim, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, 1);
    pthread_join(reader, NULL);
    ck_assert_int_ge(atomic_load(&claimed), TIMES);
    ck_assert_uint_gt(htc_history_read(history, samples), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tc = tcase_create("history");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, due_once_in_a_time);
    tcase_add_test(tc, oldest_first_and_the_last_ones_stay);
    tcase_add_test(tc, deltas);
    tcase_add_test(tc, many_at_once);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
