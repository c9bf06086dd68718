/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched: limits, file systems and overflows end in doubt, what nobody needs
 * is given up, and what is looked at again is bounded. Run by 'make check'.
 */
#include "watch_util.h"

void htc_crash_point(const char *where)
{
    (void)where;
}

/* --- limits -----------------------------------------------------------------------------------*/

START_TEST(no_more_watches)
{
    htc_ref ref;

    scene();
    trust_new("a/.htaccess");
    watch->own_limit = stats().watches;
    ref = put(at("a/b/.htaccess"), "");
    ck_assert_int_eq(trust(at("a/b/.htaccess"), ref), HTC_WATCH_KERNEL);
    ck_assert(!trusted(ref));
    ck_assert_uint_eq(stats().failures[HTC_WATCH_KERNEL], 1);
    ck_assert(htc_watch_first(watch, HTC_WATCH_KERNEL));
    ck_assert(!htc_watch_first(watch, HTC_WATCH_KERNEL));
}
END_TEST

START_TEST(full_tree)
{
    char name[32];
    htc_watch_why why = HTC_WATCH_OK;

    for (int i = 0; i < 10000 && why == HTC_WATCH_OK; i++) {
        snprintf(name, sizeof(name), "no%d", i);
        why = trust(at(name), put(at(name), ""));
    }
    ck_assert_int_eq(why, HTC_WATCH_FULL);
    htc_watch_sweep(watch, htc_mono_ms() + 1000000);
    ck_assert_uint_lt(stats().nodes, 8192);
}
END_TEST

START_TEST(other_file_systems)
{
    htc_ref ref = put("/proc/.htaccess", "");

    ck_assert_int_eq(trust("/proc/.htaccess", ref), HTC_WATCH_FILESYSTEM);
    ck_assert(!trusted(ref));
}
END_TEST

/* Each is told of once, with the place where it begins. */
START_TEST(refused_file_systems)
{
    htc_watch_refusal one;

    scene();
    trust_new("a/.htaccess");
    ck_assert(!htc_watch_refused(watch, &one));
    trust("/proc/sys/kernel/.htaccess", put("/proc/sys/kernel/.htaccess", ""));
    ck_assert(htc_watch_refused(watch, &one));
    ck_assert_str_eq(one.at, "/proc");
    ck_assert_uint_eq(one.type, 0x9fa0);
    ck_assert(!htc_watch_refused(watch, &one));
    /* Asked anew, and another path of the same. */
    watch->header->devices[0].at = watch->header->devices[1].at = 1;
    htc_watch_distrust(watch);
    trust("/proc/sys/.htaccess", put("/proc/sys/.htaccess", ""));
    ck_assert(!htc_watch_refused(watch, &one));
    /* As if it was another. */
    watch->header->refused[0].dev++;
    watch->header->devices[0].at = watch->header->devices[1].at = 1;
    watch->header->devices[2].at = watch->header->devices[3].at = 1;
    htc_watch_distrust(watch);
    trust("/proc/sys/.htaccess", put("/proc/sys/.htaccess", ""));
    ck_assert(htc_watch_refused(watch, &one));
    ck_assert(!htc_watch_refused(watch, &one));
}
END_TEST

START_TEST(overflow)
{
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    long max = 0, n;
    htc_ref ref;

    ck_assert(file && fscanf(file, "%ld", &max) == 1);
    fclose(file);
    scene();
    ref = trust_new("a/b/.htaccess");
    for (n = 0; n < max / 2 + 10; n++) {
        write_text("a/b/x", "");
        unlink(at("a/b/x"));
    }
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_overflows), 1);
    trust(at("a/b/.htaccess"), ref);
    ck_assert(trusted(ref));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

/* --- what is given up -------------------------------------------------------------------------*/

START_TEST(churn_leaks_nothing)
{
    char name[64];
    uint64_t before;

    scene();
    trust_new("a/b/.htaccess");
    before = stats().watches;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof(name), "d%d", i);
            make_dir(name);
            snprintf(name, sizeof(name), "d%d/.htaccess", i);
            write_text(name, "x");
            trust_new(name);
        }
        ck_assert_uint_eq(stats().watches, before + 400);
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof(name), "d%d/.htaccess", i);
            if (round % 2)
                unlink(at(name));
            snprintf(name, sizeof(name), "d%d", i);
            if (round % 2) {
                rmdir(at(name));
            } else {
                char away[64];

                snprintf(away, sizeof(away), "away%d-%d", round, i);
                move(name, away);
            }
        }
        htc_watch_drain(watch);
        htc_watch_sweep(watch, htc_mono_ms() + 10000 * (round + 1));
        htc_watch_sweep(watch, htc_mono_ms() + 10000 * (round + 1) + 2000);
        ck_assert_uint_eq(stats().watches, before);
        ck_assert_uint_lt(stats().nodes, 30);
    }
}
END_TEST

START_TEST(records_that_are_gone)
{
    htc_ref ref;
    uint64_t nodes;

    scene();
    trust_new("a/b/.htaccess");
    nodes = stats().nodes;
    ref = trust_new("links/two/d/.first");
    ck_assert_uint_gt(stats().nodes, nodes);
    htc_watch_sweep(watch, htc_mono_ms() + 10000);
    ck_assert(trusted(ref) || atomic_load(mark_of(ref)) < 0);
    htc_store_drop(store, ref);
    for (int i = 2; i < 12; i++)
        htc_watch_sweep(watch, htc_mono_ms() + 10000 * i);
    ck_assert_uint_eq(stats().nodes, nodes);
}
END_TEST

/* What is never reported: by and by everything is looked at again, but not all at once. */
START_TEST(safety_net)
{
    htc_ref refs[40];
    char name[32];
    int doubtful = 0, sweeps = 0;

    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        refs[i] = trust_new(name);
    }
    htc_watch_sweep(watch, 5000000);
    for (int i = 0; i < 40; i++)
        doubtful += !trusted(refs[i]);
    ck_assert_int_lt(doubtful, 10);
    for (sweeps = 1; doubtful < 40 && sweeps < 30; sweeps++) {
        htc_watch_sweep(watch, 5000000 + sweeps * 1000);
        doubtful = 0;
        for (int i = 0; i < 40; i++)
            doubtful += !trusted(refs[i]);
    }
    ck_assert_int_eq(doubtful, 40);
    ck_assert_int_le(sweeps, 12);
}
END_TEST

/* However many are trusted: no more than so many of them become doubtful each second, to the one.
 */
START_TEST(safety_net_is_bounded)
{
    enum { RECORDS = 4 * HTC_WATCH_NET_RATE };
    static htc_ref refs[RECORDS];
    int64_t now = 5000000;
    int doubtful = 0;
    char name[32];

    for (int i = 0; i < RECORDS; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        refs[i] = trust_new(name);
    }
    /* As many nodes as make a tenth of them more than that. */
    watch->header->fresh = 8000;
    for (uint32_t i = (uint32_t)watch->header->used; i < 8000; i++)
        watch->nodes[i].parent = HTCW_NIL;
    for (int sweeps = 1; sweeps <= 4; sweeps++) {
        htc_watch_sweep(watch, now += 1000);
        htc_watch_sweep(watch, now + 999); /* the same second: nothing */
        doubtful = 0;
        for (int i = 0; i < RECORDS; i++)
            doubtful += !trusted(refs[i]);
        ck_assert_int_eq(doubtful, sweeps * HTC_WATCH_NET_RATE);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch limits");
    TCase *tc = tcase_create("watch limits");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, no_more_watches);
    tcase_add_test(tc, full_tree);
    tcase_add_test(tc, other_file_systems);
    tcase_add_test(tc, refused_file_systems);
    tcase_add_test(tc, overflow);
    tcase_add_test(tc, churn_leaks_nothing);
    tcase_add_test(tc, records_that_are_gone);
    tcase_add_test(tc, safety_net);
    tcase_add_test(tc, safety_net_is_bounded);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
