/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared store by one process: what is counted, visits to all records, to some
 * kinds of them, and in pieces, and that each request's part lies in large pages. Run by 'make
 * check'.
 */
#include "suite_util.h"
#include "store_fixture.h"

#include <sys/mman.h>
#include <sys/syscall.h>

static char *enlarged, *enlarged_end; /* what large pages were asked for */

int madvise(void *at, size_t bytes, int advice)
{
    if (advice == 25) { /* MADV_COLLAPSE */
        enlarged = at;
        enlarged_end = enlarged + bytes;
    }
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* All slots, also those in the page that they do not fill. */
START_TEST(all_slots_get_large_pages)
{
    htc_store *large = su_create(pool, 24 * MB);
    htc_ref ref;

    enlarged = NULL;
    htc_store_enlarge_pages(large);
    ck_assert_ptr_null(enlarged); /* there is nothing in it */
    for (uint32_t i = 0; i < large->nslots / 16; i++)
        su_put(large, &(su_spec){.number = i, .kind = HTC_KIND_ABSENT, .owner = i % 50}, &ref);
    htc_store_enlarge_pages(large);
    ck_assert_ptr_eq(enlarged, (char *)large->base);
    ck_assert_uint_ne((uintptr_t)large->ghosts % (2 * MB), 0);
    ck_assert(enlarged_end >= (char *)large->ghosts);
    ck_assert(enlarged_end < (char *)large->ghosts + 2 * MB);
}
END_TEST

START_TEST(stats_count_what_is_there)
{
    htc_store_stats empty = stats(), s;
    htc_ref ref;

    ck_assert_uint_eq(empty.entries, 0);
    ck_assert_uint_gt(empty.slots_total, 0);
    put_ok(1, 100000);
    su_put(store, &(su_spec){.number = 2, .kind = HTC_KIND_ABSENT, .owner = 5}, &ref);
    su_put(store, &(su_spec){.number = 3, .kind = HTC_KIND_ABSENT, .owner = 5}, &ref);
    su_put(store, &(su_spec){.number = 4, .kind = HTC_KIND_STOCK, .owner = 6}, &ref);
    s = stats();
    ck_assert_uint_eq(s.entries, 4);
    ck_assert_uint_eq(s.trees, 1);
    ck_assert_uint_eq(s.absent, 2);
    ck_assert_uint_eq(s.stock, 1);
    ck_assert_uint_eq(s.owners, 3);
    ck_assert_uint_gt(s.bytes_used, 100000);
    ck_assert_uint_lt(s.bytes_used, 110000);
    ck_assert_uint_eq(s.bytes_total, MB);
}
END_TEST

typedef struct visit_log {
    unsigned seen[100];
    unsigned left, wrong;
} visit_log;

static bool log_visit(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    visit_log *log = baton;
    uint32_t number = (uint32_t)info->id.ino;

    if (number >= 100 || key_len != strlen(su_key(number)) || strcmp(key, su_key(number)) != 0 ||
        info->payload_len != number)
        log->wrong++;
    else
        log->seen[number]++;
    return --log->left != 0;
}

START_TEST(each_visits_every_record_once)
{
    visit_log all = {.left = 1000}, some = {.left = 10}, none = {.left = 1};
    unsigned visits = 0;

    htc_store_each(store, log_visit, &none);
    ck_assert_uint_eq(none.left, 1);
    for (uint32_t i = 0; i < 100; i++)
        put_ok(i, i);
    htc_store_each(store, log_visit, &all);
    htc_store_each(store, log_visit, &some);
    ck_assert_uint_eq(all.wrong + some.wrong, 0);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(all.seen[i], 1);
        visits += some.seen[i];
    }
    ck_assert_uint_eq(visits, 10);
}
END_TEST

/* Numbers up to 49 are trees, the others are absent. */
START_TEST(some_by_kind_and_by_name)
{
    static const htc_selection trees = {.kind = HTC_KIND_TREE}, none = {.kind = HTC_KIND_STOCK},
                               all = {0};
    visit_log log = {.left = 1000}, first = {.left = 3};
    htc_info info;

    for (uint32_t i = 0; i < 50; i++) {
        su_spec absent = {.number = 50 + i, .kind = HTC_KIND_ABSENT};
        htc_ref ref;

        put_ok(i, i);
        ck_assert_int_eq(su_put(store, &absent, &ref), APR_SUCCESS);
    }
    ck_assert_uint_eq(htc_store_count_of(store, &trees), 50);
    ck_assert_uint_eq(htc_store_count_of(store, &none), 0);
    ck_assert_uint_eq(htc_store_count_of(store, &all), 100);
    htc_store_each_of(store, &trees, log_visit, &log);
    htc_store_each_of(store, &trees, log_visit, &first);
    ck_assert_uint_eq(log.wrong + first.wrong + first.left, 0);
    ck_assert_uint_eq(log.left, 950);
    for (uint32_t i = 0; i < 100; i++) {
        ck_assert_uint_eq(log.seen[i], i < 50);
        ck_assert_str_eq(htc_store_name(store, su_hash(store, i), pool, &info), su_key(i));
        ck_assert_uint_eq(info.kind, i < 50 ? HTC_KIND_TREE : HTC_KIND_ABSENT);
    }
    ck_assert_ptr_null(htc_store_name(store, su_hash(store, 100), pool, &info));
}
END_TEST

/* By the time that su_put() gives a record: its own number. */
static bool want_odd(void *baton, int64_t checked_at)
{
    (*(unsigned *)baton)++;
    return checked_at % 2 != 0;
}

typedef struct odd_log {
    unsigned asked; /* first: want_odd() counts here */
    visit_log log;
} odd_log;

static bool log_odd(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    odd_log *odd = baton;

    odd->log.wrong += info->checked_at % 2 == 0;
    return log_visit(&odd->log, key, key_len, info);
}

/* In pieces that end after so many records, or after so many were asked about. */
static const struct {
    unsigned visits;
    uint32_t looks;
} pieces[] = {{1, UINT32_MAX}, {7, UINT32_MAX}, {1000, 1}, {1000, 13}, {3, 4}, {1000, UINT32_MAX}};

START_TEST(pieces_visit_every_record_once)
{
    odd_log odd = {0};
    uint32_t place = 0;
    unsigned calls = 0;

    for (uint32_t i = 0; i < 100; i++)
        atomic_store(&htc_store_slot(store, put_ok(i, i).slot)->checked_at, i);
    for (; place != UINT32_MAX && calls < 1000; calls++) {
        unsigned asked = odd.asked;

        odd.log.left = pieces[_i].visits;
        htc_store_some(store, &place, pieces[_i].looks, want_odd, log_odd, &odd);
        ck_assert_uint_le(odd.asked - asked, pieces[_i].looks);
    }
    ck_assert_uint_eq(place, UINT32_MAX);
    ck_assert_uint_eq(odd.asked, 100);
    ck_assert_uint_eq(odd.log.wrong, 0);
    for (unsigned i = 0; i < 100; i++)
        ck_assert_uint_eq(odd.log.seen[i], i % 2);
    htc_store_some(store, &place, UINT32_MAX, NULL, log_odd, &odd);
    ck_assert_uint_eq(place, UINT32_MAX);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store visits");
    TCase *tc = tcase_create("totals and visits");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, stats_count_what_is_there);
    tcase_add_test(tc, all_slots_get_large_pages);
    tcase_add_test(tc, each_visits_every_record_once);
    tcase_add_test(tc, some_by_kind_and_by_name);
    tcase_add_loop_test(tc, pieces_visit_every_record_once, 0, COUNT(pieces));
    suite_add_tcase(s, tc);
    return run_suite(s);
}
