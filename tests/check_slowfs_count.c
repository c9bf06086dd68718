/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of bench/slowfs_count.c: profiles, settings and counters of the slow file system. Run
 * by 'make check'; tests/slowfs.pl tests the mounted file system.
 */
#include "suite_util.h"
#include "slowfs.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static slowfs_profile named(const char *name)
{
    slowfs_profile profile;

    ck_assert(slowfs_profile_named(&profile, name));
    return profile;
}

/* On both kinds of names. */
static void ck_assert_delay(const slowfs_profile *profile, int op, uint32_t us)
{
    ck_assert_uint_eq(profile->delay_us[op][0], us);
    ck_assert_uint_eq(profile->delay_us[op][1], us);
}

START_TEST(every_profile_can_be_had)
{
    char names[128], *save = NULL;
    int count = 0;

    snprintf(names, sizeof(names), "%s", slowfs_profile_names());
    for (char *name = strtok_r(names, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
        ck_assert_str_eq(named(name).name, name);
        count++;
    }
    ck_assert_int_eq(count, 3);
}
END_TEST

START_TEST(profiles_are_what_they_say)
{
    slowfs_profile lustre = named("lustre-2009"), nfs = named("nfs"), local = named("local");
    slowfs_profile none;

    ck_assert(lustre.entry_s > 1 && lustre.negative_s == 0);
    ck_assert(nfs.entry_s > 1 && nfs.negative_s > 0);
    for (int op = 0; op < SLOWFS_OP_COUNT; op++) {
        for (int whose = 0; whose < 2; whose++) {
            ck_assert_uint_gt(lustre.delay_us[op][whose], 0);
            ck_assert_uint_gt(nfs.delay_us[op][whose], 0);
            ck_assert_uint_eq(local.delay_us[op][whose], 0);
        }
    }
    ck_assert(!slowfs_profile_named(&none, "lustre"));
    ck_assert(!slowfs_profile_named(&none, ""));
}
END_TEST

START_TEST(settings_change_what_they_name)
{
    slowfs_profile profile = named("local");

    ck_assert_ptr_null(slowfs_set(&profile, "open=2900,lookup_miss=730\n cache=3600 reset"));
    ck_assert_delay(&profile, SLOWFS_open, 2900);
    ck_assert_delay(&profile, SLOWFS_lookup_miss, 730);
    ck_assert_delay(&profile, SLOWFS_lookup_hit, 0);
    ck_assert(profile.entry_s == 3600 && profile.attr_s == 3600 && profile.negative_s == 0);
    ck_assert_ptr_null(slowfs_set(&profile, "negative=1.5"));
    ck_assert(profile.negative_s == 1.5 && profile.entry_s == 3600);
    ck_assert_ptr_null(slowfs_set(&profile, "all=5,read=6"));
    for (int op = 0; op < SLOWFS_OP_COUNT; op++)
        ck_assert_delay(&profile, op, op == SLOWFS_read ? 6 : 5);
    ck_assert_ptr_null(slowfs_set(&profile, "profile=nfs,open=1"));
    ck_assert_str_eq(profile.name, "nfs");
    ck_assert_delay(&profile, SLOWFS_open, 1);
    ck_assert_delay(&profile, SLOWFS_read, named("nfs").delay_us[SLOWFS_read][0]);
}
END_TEST

START_TEST(delays_of_htaccess_alone)
{
    slowfs_profile profile = named("local");

    ck_assert_ptr_null(slowfs_set(&profile, "open=7,open.htaccess=8,read.other=9,all.htaccess=8"));
    for (int op = 0; op < SLOWFS_OP_COUNT; op++) {
        ck_assert_uint_eq(profile.delay_us[op][1], 8);
        ck_assert_uint_eq(profile.delay_us[op][0],
                          op == SLOWFS_open ? 7 : (op == SLOWFS_read ? 9 : 0));
    }
}
END_TEST

static const char *const nonsense[] = {
    "open.=1",
    "open.htacces=1",
    "open.htaccess.other=1",
    ".htaccess=1",
    "ope.other=1",
    "opens=1",
    "open=",
    "open=-1",
    "open=x",
    "open=1x",
    "open=1e99",
    "open=nan",
    "cache=-1",
    "cache=",
    "cache=inf",
    "negative=x",
    "profile=none",
    "profile=",
    "=1",
    "open=1,=",
    "open=10000001",
    "a_word_that_is_longer_than_any_setting_could_be_and_so_is_refused_here=1",
};

START_TEST(nonsense_is_refused)
{
    slowfs_profile profile = named("local");

    ck_assert_ptr_nonnull(slowfs_set(&profile, nonsense[_i]));
}
END_TEST

START_TEST(words_without_value_mean_nothing)
{
    slowfs_profile profile = named("nfs"), before = profile;

    ck_assert_ptr_null(slowfs_set(&profile, ""));
    ck_assert_ptr_null(slowfs_set(&profile, "reset\n"));
    ck_assert_ptr_null(slowfs_set(&profile, " , 0,,open \n"));
    ck_assert_mem_eq(&profile, &before, sizeof(profile));
}
END_TEST

START_TEST(only_htaccess_is_counted_apart)
{
    ck_assert(slowfs_is_htaccess(".htaccess"));
    ck_assert(!slowfs_is_htaccess(".htaccess~"));
    ck_assert(!slowfs_is_htaccess(".HTACCESS"));
    ck_assert(!slowfs_is_htaccess("htaccess"));
    ck_assert(!slowfs_is_htaccess(""));
}
END_TEST

START_TEST(counters_as_text)
{
    static slowfs_counters counters;
    char text[SLOWFS_TEXT_SIZE];

    slowfs_reset(&counters);
    slowfs_count(&counters, SLOWFS_lookup_miss, true);
    slowfs_count(&counters, SLOWFS_lookup_miss, true);
    slowfs_count(&counters, SLOWFS_open, false);
    ck_assert_uint_eq(slowfs_text(&counters, text, sizeof(text)), strlen(text));
    ck_assert_str_eq(text, "lookup_hit.htaccess 0\nlookup_hit.other 0\n"
                           "lookup_miss.htaccess 2\nlookup_miss.other 0\n"
                           "getattr.htaccess 0\ngetattr.other 0\n"
                           "open.htaccess 0\nopen.other 1\n"
                           "read.htaccess 0\nread.other 0\n"
                           "readdir.htaccess 0\nreaddir.other 0\n"
                           "change.htaccess 0\nchange.other 0\n"
                           "other.htaccess 0\nother.other 0\n");
    slowfs_reset(&counters);
    slowfs_text(&counters, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "lookup_miss.htaccess 0\n"));
    ck_assert_ptr_nonnull(strstr(text, "open.other 0\n"));
}
END_TEST

START_TEST(the_largest_counters_have_room)
{
    static slowfs_counters counters;
    char text[SLOWFS_TEXT_SIZE];

    memset(&counters, 0xff, sizeof(counters));
    slowfs_text(&counters, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "other.other 18446744073709551615\n"));
    ck_assert_uint_eq(slowfs_text(&counters, text, 30), strlen(text));
}
END_TEST

#define THREADS 4
#define EACH    20000

static void *count_many(void *counters)
{
    for (int i = 0; i < EACH; i++)
        slowfs_count(counters, SLOWFS_open, true);
    return NULL;
}

START_TEST(no_count_is_lost)
{
    static slowfs_counters counters;
    pthread_t threads[THREADS];
    char text[SLOWFS_TEXT_SIZE];

    slowfs_reset(&counters);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_many, &counters), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    slowfs_text(&counters, text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "open.htaccess 80000\n"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slowfs_count");
    TCase *tc = tcase_create("slowfs_count");

    tcase_add_test(tc, every_profile_can_be_had);
    tcase_add_test(tc, profiles_are_what_they_say);
    tcase_add_test(tc, settings_change_what_they_name);
    tcase_add_test(tc, delays_of_htaccess_alone);
    tcase_add_loop_test(tc, nonsense_is_refused, 0, sizeof(nonsense) / sizeof(nonsense[0]));
    tcase_add_test(tc, words_without_value_mean_nothing);
    tcase_add_test(tc, only_htaccess_is_counted_apart);
    tcase_add_test(tc, counters_as_text);
    tcase_add_test(tc, the_largest_counters_have_room);
    tcase_add_test(tc, no_count_is_lost);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
