/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of htc_farm_clock.c, against simulated clocks: whatever is seen, the true time lies
 * within what the estimate says, and the estimate becomes narrow. Run by 'make check'.
 */
#include "htc_farm_clock.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH UINT64_C(0x1234)

static htc_farm_clock the_clock;
static uint64_t seed;

static void setup(void)
{
    memset(&the_clock, 0, sizeof(the_clock));
    seed = 1;
}

static int64_t below(int64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* A look at a clock that is `offset` ms ahead of ours, at moment `now`, by a trip of `trip` ms. */
static htc_clock_news look(int64_t now, int64_t trip, int64_t offset)
{
    int64_t moment = now + below(trip + 1);

    return htc_farm_clock_seen(&the_clock, EPOCH, (moment + offset) / 1000, now, now + trip);
}

START_TEST(unknown_at_first)
{
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 5000).epoch, 0);
    ck_assert_int_eq(look(5000, 2, 70123), HTC_CLOCK_NEW);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 5000).epoch, EPOCH);
}
END_TEST

START_TEST(the_truth_is_within_and_found_soon)
{
    for (int run = 0; run < 300; run++) {
        int64_t offset = below(100000000), now = 1000 + below(1000000), trip = 1 + below(20);

        setup();
        seed = (uint64_t)run * 977 + 5;
        for (int i = 0; i < 200; i++) {
            htc_farm_time time;

            ck_assert_int_ne(look(now, trip, offset), HTC_CLOCK_BACK);
            now += trip + below(120);
            time = htc_farm_clock_at(&the_clock, now);
            ck_assert_int_le(time.low, now + offset);
            ck_assert_int_ge(time.high, now + offset);
            if (i > 150)
                ck_assert_int_lt(time.high - time.low, 300);
        }
    }
}
END_TEST

START_TEST(grows_uncertain_with_time)
{
    htc_farm_time soon, late;

    look(5000, 0, 0);
    soon = htc_farm_clock_at(&the_clock, 5000);
    late = htc_farm_clock_at(&the_clock, 5000 + 100 * HTC_CLOCK_DRIFT);
    ck_assert_int_eq(late.high - late.low, soon.high - soon.low + 200);
    /* A moment before the look is not known better. */
    soon = htc_farm_clock_at(&the_clock, 4000);
    ck_assert_int_eq(soon.high - soon.low, 1000);
}
END_TEST

START_TEST(another_epoch_begins_anew)
{
    look(5000, 0, 70000);
    ck_assert_int_eq(htc_farm_clock_seen(&the_clock, EPOCH + 1, 3, 6000, 6000), HTC_CLOCK_NEW);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 6000).epoch, EPOCH + 1);
    ck_assert_int_eq(htc_farm_clock_at(&the_clock, 6000).low, 3000);
    ck_assert_int_eq(htc_farm_clock_at(&the_clock, 6000).high, 4000);
}
END_TEST

START_TEST(a_jump_ahead_is_followed)
{
    look(5000, 0, 70000);
    ck_assert_int_eq(look(6000, 0, 90000), HTC_CLOCK_NEW);
    ck_assert_int_eq(htc_farm_clock_at(&the_clock, 6000).low, 96000 - 0);
}
END_TEST

/* A busy memcached shows an old second: what is judged by the clock may look older, not younger. */
START_TEST(a_late_tick_never_lowers_the_upper_end)
{
    htc_farm_time before, after;

    look(5000, 0, 70000);
    before = htc_farm_clock_at(&the_clock, 6000);
    ck_assert_int_eq(look(6000, 0, 70000 - 4000), HTC_CLOCK_FINE);
    after = htc_farm_clock_at(&the_clock, 6000);
    ck_assert_uint_eq(after.epoch, EPOCH);
    ck_assert_int_ge(after.high, before.high);
    ck_assert_int_le(after.low, 6000 + 66000);
    /* It catches up. */
    ck_assert_int_eq(look(6100, 0, 70000), HTC_CLOCK_FINE);
    ck_assert_int_ge(htc_farm_clock_at(&the_clock, 6100).low, 76000);
}
END_TEST

START_TEST(a_clock_put_back_is_refused_for_good)
{
    look(500000, 0, 70000);
    ck_assert_int_eq(look(501000, 0, 70000 - HTC_CLOCK_LATE_MS - 3000), HTC_CLOCK_BACK);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 501000).epoch, 0);
    ck_assert_int_eq(look(502000, 0, 70000), HTC_CLOCK_BACK);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 502000).epoch, 0);
    ck_assert_int_eq(htc_farm_clock_seen(&the_clock, EPOCH + 1, 0, 503000, 503000), HTC_CLOCK_NEW);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 503000).epoch, EPOCH + 1);
}
END_TEST

START_TEST(an_updater_that_died_blocks_for_a_while_only)
{
    look(5000, 0, 70000);
    atomic_store(&the_clock.busy_since, 6000);
    atomic_fetch_add(&the_clock.sequence, 1); /* in the middle of writing */
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 6000).epoch, 0);
    ck_assert_int_eq(look(6000 + HTC_CLOCK_STUCK_MS - 1, 0, 70000), HTC_CLOCK_FINE);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 8000).epoch, 0);
    ck_assert_int_eq(look(6000 + HTC_CLOCK_STUCK_MS, 0, 70000), HTC_CLOCK_NEW);
    ck_assert_uint_eq(htc_farm_clock_at(&the_clock, 8000).epoch, EPOCH);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("farm_clock");
    TCase *tc = tcase_create("farm_clock");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, unknown_at_first);
    tcase_add_test(tc, the_truth_is_within_and_found_soon);
    tcase_add_test(tc, grows_uncertain_with_time);
    tcase_add_test(tc, another_epoch_begins_anew);
    tcase_add_test(tc, a_jump_ahead_is_followed);
    tcase_add_test(tc, a_late_tick_never_lowers_the_upper_end);
    tcase_add_test(tc, a_clock_put_back_is_refused_for_good);
    tcase_add_test(tc, an_updater_that_died_blocks_for_a_while_only);
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
