/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of base/identity.c: what makes two files the same, when a file is too young to be
 * trusted, and the two clocks. Run by 'make check'.
 */
#include "base/identity.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define S INT64_C(1000000000)

static struct stat some_stat(void)
{
    struct stat st;

    memset(&st, 0, sizeof(st));
    st.st_dev = 11;
    st.st_ino = 22;
    st.st_size = 33;
    st.st_mtim.tv_sec = 44;
    st.st_mtim.tv_nsec = 55;
    st.st_ctim.tv_sec = 66;
    st.st_ctim.tv_nsec = 77;
    st.st_mode = S_IFREG | 0640;
    st.st_uid = 88;
    st.st_gid = 99;
    return st;
}

static htc_identity identity_of(const struct stat *st)
{
    htc_identity id;

    memset(&id, 0xA5, sizeof(id));
    htc_identity_from_stat(&id, st);
    return id;
}

START_TEST(from_stat_takes_every_field)
{
    struct stat st = some_stat();
    htc_identity id = identity_of(&st);

    ck_assert_uint_eq(id.dev, 11);
    ck_assert_uint_eq(id.ino, 22);
    ck_assert_uint_eq(id.size, 33);
    ck_assert_int_eq(id.mtime_ns, 44 * S + 55);
    ck_assert_int_eq(id.ctime_ns, 66 * S + 77);
    ck_assert_uint_eq(id.mode, S_IFREG | 0640);
    ck_assert_uint_eq(id.uid, 88);
    ck_assert_uint_eq(id.gid, 99);
    ck_assert_uint_eq(id.unused, 0);
}
END_TEST

/* Fields of struct stat, each of which alone makes another file of it. */
enum field { DEV, INO, SIZE, MTIME, MTIME_NS, CTIME, CTIME_NS, MODE, UID, GID, FIELDS };

static void change(struct stat *st, enum field field)
{
    switch (field) {
    case DEV:
        st->st_dev++;
        break;
    case INO:
        st->st_ino++;
        break;
    case SIZE:
        st->st_size++;
        break;
    case MTIME:
        st->st_mtim.tv_sec--;
        break;
    case MTIME_NS:
        st->st_mtim.tv_nsec++;
        break;
    case CTIME:
        st->st_ctim.tv_sec--;
        break;
    case CTIME_NS:
        st->st_ctim.tv_nsec++;
        break;
    case MODE:
        st->st_mode ^= 04;
        break;
    case UID:
        st->st_uid++;
        break;
    default:
        st->st_gid++;
    }
}

START_TEST(equal_means_every_field)
{
    struct stat before = some_stat(), after = some_stat();
    htc_identity a = identity_of(&before), b = identity_of(&after);

    ck_assert(htc_identity_equal(&a, &b));
    change(&after, (enum field)_i);
    b = identity_of(&after);
    ck_assert(!htc_identity_equal(&a, &b));
    ck_assert(!htc_identity_equal(&b, &a));
}
END_TEST

START_TEST(equal_ignores_what_reading_changes)
{
    struct stat before = some_stat(), after = some_stat();
    htc_identity a, b;

    after.st_atim.tv_sec = 123456;
    after.st_nlink = 7;
    a = identity_of(&before);
    b = identity_of(&after);
    ck_assert(htc_identity_equal(&a, &b));
}
END_TEST

/* By which the clock of file times may lag behind. */
#define TICKS (20 * (S / 1000))

static const struct {
    int64_t mtime, ctime, now;
    bool racy;
} racy_cases[] = {
    {0, 0, 1000 * S, false},
    {998 * S - TICKS, 0, 1000 * S, false},
    {998 * S - TICKS + 1, 0, 1000 * S, true},
    {0, 998 * S - TICKS, 1000 * S, false},
    {0, 998 * S - TICKS + 1, 1000 * S, true},
    {1000 * S, 0, 1000 * S, true},
    {0, 1000 * S, 1000 * S, true},
    {1001 * S, 0, 1000 * S, true},
    {0, INT64_MAX, 1000 * S, true},
    {INT64_MAX, 0, 1000 * S, true},
    {INT64_MIN, INT64_MIN, 1000 * S, false},
    {INT64_MIN, INT64_MIN, INT64_MAX, false},
    {-S, -S, S + TICKS, false},
    {-S, -S, S + TICKS - 1, true},
};

START_TEST(racy_within_two_seconds_or_in_the_future)
{
    htc_identity id;

    memset(&id, 0, sizeof(id));
    id.mtime_ns = racy_cases[_i].mtime;
    id.ctime_ns = racy_cases[_i].ctime;
    ck_assert_int_eq(htc_identity_racy(&id, racy_cases[_i].now), racy_cases[_i].racy);
}
END_TEST

/* Seconds that do not fit into 64 bits of nanoseconds. Those of 32 bits all do. */
START_TEST(times_out_of_range_stay_where_they_are)
{
    const bool fit = sizeof(time_t) == 4;
    const time_t far = (time_t)(fit ? INT32_MAX : INT64_C(1) << 50);
    struct stat st = some_stat();
    htc_identity id;

    st.st_mtim = (struct timespec){.tv_sec = far};
    st.st_ctim = (struct timespec){.tv_sec = -far};
    id = identity_of(&st);
    ck_assert_int_eq(id.mtime_ns, fit ? INT32_MAX * S : INT64_MAX);
    ck_assert_int_eq(id.ctime_ns, fit ? -(INT32_MAX * S) : INT64_MIN);
    ck_assert(htc_identity_racy(&id, htc_wall_ns()));
    st.st_mtim.tv_sec = -far;
    id = identity_of(&st);
    ck_assert(!htc_identity_racy(&id, htc_wall_ns()));
}
END_TEST

START_TEST(wall_clock_is_the_systems)
{
    int64_t before = (int64_t)time(NULL) - 1, now = htc_wall_ns();

    ck_assert_int_ge(now / S, before);
    ck_assert_int_le(now / S, (int64_t)time(NULL) + 1);
}
END_TEST

START_TEST(mono_clock_is_positive_and_never_goes_back)
{
    int64_t last = htc_mono_ms();

    ck_assert_int_gt(last, 0);
    for (int i = 0; i < 100000; i++) {
        int64_t now = htc_mono_ms();

        ck_assert_int_ge(now, last);
        last = now;
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("identity");
    TCase *tc = tcase_create("identity");

    tcase_add_test(tc, from_stat_takes_every_field);
    tcase_add_loop_test(tc, equal_means_every_field, 0, FIELDS);
    tcase_add_test(tc, equal_ignores_what_reading_changes);
    tcase_add_loop_test(tc, racy_within_two_seconds_or_in_the_future, 0,
                        (int)(sizeof(racy_cases) / sizeof(racy_cases[0])));
    tcase_add_test(tc, times_out_of_range_stay_where_they_are);
    tcase_add_test(tc, wall_clock_is_the_systems);
    tcase_add_test(tc, mono_clock_is_positive_and_never_goes_back);
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
