/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of area/missing.c: what is asked for steadily stays, whatever a scanner asks for; and
 * memory that holds anything is read safely. Run by 'make check'.
 */
#include "suite_util.h"
#include "area/missing.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW     (REDIRECT_COUNTER_EPOCH + 1000)
#define WEEK    (7 * 86400)
#define THREADS 4
#define EACH    20000

static redirect_missing *missing;

static void setup(void)
{
    missing = calloc(1, redirect_missing_bytes());
    ck_assert_ptr_nonnull(missing);
    redirect_missing_begin(missing, 42, NOW);
}

static void teardown(void)
{
    free(missing);
}

static void ask(const char *text, int64_t now)
{
    redirect_missing_add(missing, text, strlen(text), now);
}

static uint64_t hits_of(const char *wanted, int64_t *last)
{
    char text[REDIRECT_MISSING_TEXT + 1];
    redirect_count count;
    uint64_t hits = 0;

    for (uint32_t i = 0; i < REDIRECT_MISSING_ENTRIES; i++) {
        if (!redirect_missing_get(missing, i, text, &count) || strcmp(text, wanted) != 0)
            continue;
        hits += count.hits;
        if (last)
            *last = count.last;
    }
    return hits;
}

static uint32_t number(void)
{
    char text[REDIRECT_MISSING_TEXT + 1];
    redirect_count count;
    uint32_t n = 0;

    for (uint32_t i = 0; i < REDIRECT_MISSING_ENTRIES; i++)
        n += redirect_missing_get(missing, i, text, &count);
    return n;
}

/* Pages that are asked for once each. */
static void scan(unsigned from, unsigned n, int64_t now)
{
    char text[64];

    for (unsigned i = from; i < from + n; i++) {
        snprintf(text, sizeof(text), "host/scan-%u.php", i);
        ask(text, now);
    }
}

START_TEST(pages_are_counted_by_name)
{
    int64_t last = 0;

    ask("host/a", NOW);
    ask("host/b", NOW + 1);
    ask("host/a", NOW + 2);
    ck_assert_uint_eq(hits_of("host/a", &last), 2);
    ck_assert_int_eq(last, NOW + 2);
    ck_assert_uint_eq(hits_of("host/b", NULL), 1);
    ck_assert_uint_eq(number(), 2);
    ck_assert_int_eq(redirect_missing_since(missing), NOW);
    redirect_missing_reset(missing, NOW + 9);
    ck_assert_uint_eq(number(), 0);
    ck_assert_int_eq(redirect_missing_since(missing), NOW + 9);
    ask("host/a", NOW);
    ck_assert_uint_eq(hits_of("host/a", NULL), 1);
}
END_TEST

START_TEST(long_names_are_cut)
{
    char text[1000];

    memset(text, 'x', sizeof(text));
    redirect_missing_add(missing, text, sizeof(text), NOW);
    redirect_missing_add(missing, text, REDIRECT_MISSING_TEXT, NOW);
    text[REDIRECT_MISSING_TEXT] = '\0';
    ck_assert_uint_eq(hits_of(text, NULL), 2);
}
END_TEST

START_TEST(a_scanner_pushes_out_nothing_that_is_asked_for)
{
    char text[64];

    for (unsigned round = 0; round < 10; round++) {
        for (unsigned i = 0; i < 300; i++) {
            snprintf(text, sizeof(text), "host/old/%u", i);
            ask(text, NOW + round);
        }
        scan(round * 50000, 50000, NOW + round);
    }
    for (unsigned i = 0; i < 300; i++) {
        snprintf(text, sizeof(text), "host/old/%u", i);
        ck_assert_uint_eq(hits_of(text, NULL), 10);
    }
    ck_assert_uint_le(number(), REDIRECT_MISSING_ENTRIES);
}
END_TEST

START_TEST(what_comes_after_a_scanner_still_finds_room)
{
    scan(0, 200000, NOW);
    for (unsigned i = 0; i < 50; i++)
        ask("host/old", NOW + 1);
    ck_assert_uint_eq(hits_of("host/old", NULL), 50);
    scan(1000000, 200000, NOW + 2);
    ask("host/old", NOW + 3);
    ck_assert_uint_eq(hits_of("host/old", NULL), 51);
}
END_TEST

/* Something that was asked for much, long ago, makes room for what is asked for today. */
START_TEST(old_fame_fades)
{
    char text[64];
    uint32_t old = 0;

    for (unsigned i = 0; i < 20000; i++) {
        snprintf(text, sizeof(text), "host/before/%u", i);
        for (unsigned n = 0; n < 100; n++)
            ask(text, NOW);
    }
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(text, sizeof(text), "host/today/%u", i);
        for (unsigned n = 0; n < 20; n++)
            ask(text, NOW + 10 * WEEK);
    }
    for (unsigned i = 0; i < 20000; i += 100) {
        snprintf(text, sizeof(text), "host/before/%u", i);
        old += hits_of(text, NULL) > 0;
    }
    ck_assert_uint_eq(old, 0);
}
END_TEST

/* Words of an entry: hash, counter, seq, text. */
START_TEST(memory_that_holds_anything_is_read_safely)
{
    char text[REDIRECT_MISSING_TEXT + 1];
    unsigned char *bytes = (unsigned char *)missing;
    redirect_count count;
    unsigned seed = 1;

    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 16; i < redirect_missing_bytes(); i++)
            bytes[i] = (unsigned char)rand_r(&seed);
        for (uint32_t i = 0; i < REDIRECT_MISSING_ENTRIES; i++)
            ck_assert(!redirect_missing_get(missing, i, text, &count));
        ask("host/a", NOW);
        redirect_missing_mend(missing);
        redirect_missing_reset(missing, NOW);
        ask("host/a", NOW);
        ck_assert_uint_le(number(), 1);
    }
}
END_TEST

START_TEST(an_entry_whose_writer_died_is_given_up_and_mended)
{
    uint32_t odd = 1;
    unsigned char *bytes = (unsigned char *)missing;

    for (size_t i = 0; i < REDIRECT_MISSING_ENTRIES; i++)
        memcpy(bytes + 16 + i * (24 + REDIRECT_MISSING_TEXT) + 16, &odd, sizeof(odd));
    ask("host/a", NOW);
    ck_assert_uint_eq(number(), 0);
    redirect_missing_mend(missing);
    ask("host/a", NOW);
    ck_assert_uint_eq(number(), 1);
}
END_TEST

static void *count_all(void *data)
{
    char text[64];

    (void)data;
    for (unsigned i = 0; i < EACH; i++) {
        snprintf(text, sizeof(text), "host/%u", i % 8);
        ask(text, NOW);
    }
    return NULL;
}

START_TEST(threads_lose_nothing_that_has_an_entry)
{
    pthread_t threads[THREADS];
    uint64_t sum = 0;
    char text[64];

    for (unsigned i = 0; i < 8; i++) {
        snprintf(text, sizeof(text), "host/%u", i);
        ask(text, NOW);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_all, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < 8; i++) {
        snprintf(text, sizeof(text), "host/%u", i);
        sum += hits_of(text, NULL);
    }
    ck_assert_uint_eq(sum, 8 + THREADS * EACH);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("missing");
    TCase *tests = tcase_create("missing");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, pages_are_counted_by_name);
    tcase_add_test(tests, long_names_are_cut);
    tcase_add_test(tests, a_scanner_pushes_out_nothing_that_is_asked_for);
    tcase_add_test(tests, what_comes_after_a_scanner_still_finds_room);
    tcase_add_test(tests, old_fame_fades);
    tcase_add_test(tests, memory_that_holds_anything_is_read_safely);
    tcase_add_test(tests, an_entry_whose_writer_died_is_given_up_and_mended);
    tcase_add_test(tests, threads_lose_nothing_that_has_an_entry);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
