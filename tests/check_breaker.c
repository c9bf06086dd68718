/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of farm/breaker.c: when it opens, who may try, when it closes. Run by 'make check'.
 */
#include "farm/breaker.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NOW 1000000

static htc_breaker breaker;

static void setup(void)
{
    memset(&breaker, 0, sizeof(breaker));
}

static void open_it(int64_t now)
{
    for (int i = 0; i < HTC_BREAKER_LIMIT; i++)
        htc_breaker_failure(&breaker, now);
    ck_assert(htc_breaker_is_open(&breaker));
}

START_TEST(opens_after_failures_in_a_row)
{
    for (int i = 1; i < HTC_BREAKER_LIMIT; i++) {
        ck_assert(!htc_breaker_failure(&breaker, NOW));
        ck_assert(htc_breaker_allow(&breaker, NOW));
    }
    ck_assert(htc_breaker_failure(&breaker, NOW));
    ck_assert(!htc_breaker_failure(&breaker, NOW)); /* told once */
    ck_assert(!htc_breaker_allow(&breaker, NOW));
    ck_assert_uint_eq(breaker.opened, 1);
}
END_TEST

START_TEST(a_success_between_starts_the_count_anew)
{
    for (int i = 0; i < 10 * HTC_BREAKER_LIMIT; i++) {
        htc_breaker_failure(&breaker, NOW);
        if (i % (HTC_BREAKER_LIMIT - 1) == HTC_BREAKER_LIMIT - 2)
            ck_assert(!htc_breaker_success(&breaker));
    }
    ck_assert(!htc_breaker_is_open(&breaker));
}
END_TEST

START_TEST(one_try_at_a_time)
{
    open_it(NOW);
    ck_assert(!htc_breaker_allow(&breaker, NOW + HTC_BREAKER_RETRY_MS - 1));
    ck_assert(htc_breaker_allow(&breaker, NOW + HTC_BREAKER_RETRY_MS));
    ck_assert(!htc_breaker_allow(&breaker, NOW + HTC_BREAKER_RETRY_MS));
    ck_assert(!htc_breaker_allow(&breaker, NOW + 2 * HTC_BREAKER_RETRY_MS - 1));
    /* Whoever tried never came back. */
    ck_assert(htc_breaker_allow(&breaker, NOW + 2 * HTC_BREAKER_RETRY_MS));
}
END_TEST

START_TEST(a_failed_try_leaves_it_open)
{
    open_it(NOW);
    ck_assert(htc_breaker_allow(&breaker, NOW + HTC_BREAKER_RETRY_MS));
    ck_assert(!htc_breaker_failure(&breaker, NOW + HTC_BREAKER_RETRY_MS));
    ck_assert(htc_breaker_is_open(&breaker));
    ck_assert_uint_eq(breaker.opened, 1);
}
END_TEST

START_TEST(a_good_try_closes_it_at_once)
{
    open_it(NOW);
    ck_assert(htc_breaker_allow(&breaker, NOW + HTC_BREAKER_RETRY_MS));
    ck_assert(htc_breaker_success(&breaker));
    ck_assert(!htc_breaker_success(&breaker)); /* told once */
    ck_assert(htc_breaker_allow(&breaker, NOW));
    for (int i = 1; i < HTC_BREAKER_LIMIT; i++)
        ck_assert(!htc_breaker_failure(&breaker, NOW));
    ck_assert(htc_breaker_failure(&breaker, NOW));
    ck_assert_uint_eq(breaker.opened, 2);
}
END_TEST

static _Atomic int allowed;

static void *try_it(void *unused)
{
    (void)unused;
    if (htc_breaker_allow(&breaker, NOW + HTC_BREAKER_RETRY_MS))
        atomic_fetch_add(&allowed, 1);
    return NULL;
}

START_TEST(one_try_of_many_threads)
{
    for (int round = 0; round < 200; round++) {
        pthread_t threads[8];

        setup();
        open_it(NOW);
        atomic_store(&allowed, 0);
        for (int i = 0; i < 8; i++)
            ck_assert_int_eq(pthread_create(&threads[i], NULL, try_it, NULL), 0);
        for (int i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        ck_assert_int_eq(atomic_load(&allowed), 1);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("breaker");
    TCase *tc = tcase_create("breaker");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, opens_after_failures_in_a_row);
    tcase_add_test(tc, a_success_between_starts_the_count_anew);
    tcase_add_test(tc, one_try_at_a_time);
    tcase_add_test(tc, a_failed_try_leaves_it_open);
    tcase_add_test(tc, a_good_try_closes_it_at_once);
    tcase_add_test(tc, one_try_of_many_threads);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
