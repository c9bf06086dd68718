/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of cache/costs.c: what is counted, the order, that the dearest stay when there are far
 * more files than room, that nothing is lost among threads. Run by 'make check'.
 */
#include "suite_util.h"
#include "cache/costs.h"

#include <apr_general.h>
#include <check.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define THREADS 8
#define TIMES   20000

static apr_pool_t *pool;
static htc_costs *costs;
static htc_cost out[HTC_COSTS_ENTRIES];
static size_t total;

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    ck_assert_int_eq(htc_costs_create(&costs, pool), APR_SUCCESS);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

/* Keys are hashes: spread over all bits. */
static uint64_t key_of(uint64_t n)
{
    return (n + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static const htc_cost *cost_of(uint64_t key, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (out[i].key == key)
            return &out[i];
    }
    return NULL;
}

START_TEST(a_parse_takes_the_median)
{
    uint64_t files = 7;

    ck_assert_uint_eq(htc_costs_parse(costs, &files), 0);
    ck_assert_uint_eq(files, 0);
    htc_costs_add(costs, key_of(1), HTC_COST_PARSES, 900);
    htc_costs_add(costs, key_of(1), HTC_COST_PARSES, 10); /* the last one of a file counts */
    htc_costs_add(costs, key_of(2), HTC_COST_PARSES, 30);
    htc_costs_add(costs, key_of(3), HTC_COST_PARSES, 1000000); /* it was interrupted */
    htc_costs_add(costs, key_of(4), HTC_COST_READS, 1);
    ck_assert_uint_eq(htc_costs_parse(costs, &files), 30);
    ck_assert_uint_eq(files, 3);
    htc_costs_reset(costs);
    ck_assert_uint_eq(htc_costs_parse(costs, &files), 30);
}
END_TEST

START_TEST(nothing_costs_nothing)
{
    ck_assert_uint_eq(htc_costs_top(costs, out, 10, &total), 0);
    ck_assert_uint_eq(total, 0);
    htc_costs_add(costs, 0, HTC_COST_READS, 1); /* a hash may be 0 */
    ck_assert_uint_eq(htc_costs_top(costs, out, 10, &total), 1);
    ck_assert_uint_eq(htc_costs_top(costs, out, 0, &total), 0);
    ck_assert_uint_eq(total, 1);
}
END_TEST

START_TEST(each_kind_is_counted)
{
    for (int kind = 0; kind < HTC_COST_KINDS; kind++) {
        for (int i = 0; i <= kind; i++)
            htc_costs_add(costs, key_of(1), (htc_cost_kind)kind, 1000);
    }
    ck_assert_uint_eq(htc_costs_top(costs, out, 10, &total), 1);
    for (int kind = 0; kind < HTC_COST_KINDS; kind++)
        ck_assert_uint_eq(out[0].counts[kind], (unsigned)kind + 1);
    ck_assert_uint_eq(out[0].ns, 1000 * HTC_COST_KINDS * (HTC_COST_KINDS + 1) / 2);
    ck_assert_uint_eq(out[0].parse_ns, 1000);
    htc_costs_add(costs, key_of(1), HTC_COST_PARSES, 7);
    htc_costs_top(costs, out, 10, &total);
    ck_assert_uint_eq(out[0].parse_ns, 7);
    htc_costs_reset(costs);
    htc_costs_top(costs, out, 10, &total);
    ck_assert_uint_eq(htc_cost_weight(&out[0]), 0);
    ck_assert_uint_eq(out[0].counts[HTC_COST_STOCK], 0);
}
END_TEST

/* What httpd does itself cannot be timed; what was parsed here all the same was. */
START_TEST(files_left_to_httpd_have_a_weight)
{
    htc_cost cost = {.ns = 5};

    cost.counts[HTC_COST_STOCK] = 3;
    ck_assert_uint_eq(htc_cost_weight(&cost), 5 + 3 * HTC_COSTS_STOCK_NS);
    cost.counts[HTC_COST_PARSES] = 2;
    ck_assert_uint_eq(htc_cost_weight(&cost), 5 + HTC_COSTS_STOCK_NS);
    cost.counts[HTC_COST_PARSES] = 4;
    ck_assert_uint_eq(htc_cost_weight(&cost), 5);
}
END_TEST

/* Any number of the dearest, in their order, for any number asked for. */
START_TEST(dearest_first)
{
    for (uint64_t i = 0; i < 1000; i++)
        htc_costs_add(costs, key_of(i), HTC_COST_READS, (i * 7919) % 1000 + 1);
    for (size_t max = 1; max <= 1100; max = max * 3 / 2 + 1) {
        size_t n = htc_costs_top(costs, out, max, &total);

        ck_assert_uint_eq(n, max < 1000 ? max : 1000);
        ck_assert_uint_eq(total, 1000);
        for (size_t i = 0; i < n; i++)
            ck_assert_uint_eq(out[i].ns, 1000 - i);
    }
}
END_TEST

/* A hundred dear files among a million others that cost once: all of these are still there. */
START_TEST(the_dearest_stay)
{
    size_t n;

    for (uint64_t i = 0; i < 1000000; i++) {
        htc_costs_add(costs, key_of(i + 1000), HTC_COST_READS, 100);
        if (i % 100 == 0)
            htc_costs_add(costs, key_of(i / 100 % 100), HTC_COST_REPLAYS, 10000);
    }
    n = htc_costs_top(costs, out, 100, &total);
    ck_assert_uint_eq(n, 100);
    ck_assert_uint_le(total, HTC_COSTS_ENTRIES);
    for (uint64_t i = 0; i < 100; i++) {
        const htc_cost *cost = cost_of(key_of(i), n);

        ck_assert_ptr_nonnull(cost);
        ck_assert_uint_eq(cost->counts[HTC_COST_REPLAYS], 100);
    }
}
END_TEST

static void *count_much(void *data)
{
    (void)data;
    for (uint64_t i = 0; i < TIMES; i++)
        htc_costs_add(costs, key_of(i % 5), HTC_COST_CHECKS, 3);
    return NULL;
}

START_TEST(threads_lose_nothing)
{
    pthread_t threads[THREADS];
    uint64_t checks = 0, ns = 0;
    size_t n;

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_much, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    n = htc_costs_top(costs, out, HTC_COSTS_ENTRIES, &total);
    ck_assert_uint_eq(n, 5);
    for (size_t i = 0; i < n; i++) {
        checks += out[i].counts[HTC_COST_CHECKS];
        ns += out[i].ns;
    }
    ck_assert_uint_eq(checks, THREADS * TIMES);
    ck_assert_uint_eq(ns, 3 * THREADS * TIMES);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("costs");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_parse_takes_the_median);
    tcase_add_test(tests, nothing_costs_nothing);
    tcase_add_test(tests, each_kind_is_counted);
    tcase_add_test(tests, files_left_to_httpd_have_a_weight);
    tcase_add_test(tests, dearest_first);
    tcase_add_test(tests, the_dearest_stay);
    tcase_add_test(tests, threads_lose_nothing);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
