/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of area/counters.c: counting by many threads, times, where counting ends, and
 * counts that move to another table with the rules that stay. Run by 'make check'.
 */
#include "suite_util.h"
#include "area/counters.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH   REDIRECT_COUNTER_EPOCH
#define THREADS 4
#define EACH    100000

START_TEST(nothing_was_hit)
{
    redirect_counter counter = {0};
    redirect_count count = redirect_counter_read(&counter);

    ck_assert_uint_eq(count.hits, 0);
    ck_assert_int_eq(count.last, 0);
}
END_TEST

static const struct {
    int64_t times[3], last;
} hits[] = {
    {{EPOCH + 5, EPOCH + 6, EPOCH + 7}, EPOCH + 7},
    {{EPOCH + 7, EPOCH + 5, EPOCH + 6}, EPOCH + 7}, /* clocks of processes differ a little */
    {{EPOCH + 7, EPOCH + 7, EPOCH + 7}, EPOCH + 7},
    {{0, -5, EPOCH}, EPOCH + 1}, /* a hit has a time, whatever the clock says */
    {{EPOCH + 9, EPOCH + (INT64_C(1) << 40), EPOCH + 10}, EPOCH + (1 << 30) - 1},
};

START_TEST(hits_are_counted)
{
    redirect_counter counter = {0};
    redirect_count count;

    for (unsigned i = 0; i < 3; i++)
        redirect_counter_hit(&counter, hits[_i].times[i]);
    count = redirect_counter_read(&counter);
    ck_assert_uint_eq(count.hits, 3);
    ck_assert_int_eq(count.last, hits[_i].last);
}
END_TEST

START_TEST(counting_ends)
{
    redirect_counter counter = {REDIRECT_COUNTER_MOST - 1};
    redirect_count count;

    for (unsigned i = 0; i < 10; i++)
        redirect_counter_hit(&counter, EPOCH + 3 + i);
    count = redirect_counter_read(&counter);
    ck_assert_uint_eq(count.hits, REDIRECT_COUNTER_MOST);
    ck_assert_int_eq(count.last, EPOCH + 12);
}
END_TEST

START_TEST(reset_begins_again)
{
    redirect_counter counters[3] = {{0}};

    redirect_counter_hit(&counters[0], EPOCH + 3);
    redirect_counter_hit(&counters[2], EPOCH + 4);
    redirect_counters_reset(counters, 2);
    ck_assert_uint_eq(redirect_counter_read(&counters[0]).hits, 0);
    ck_assert_int_eq(redirect_counter_read(&counters[0]).last, 0);
    ck_assert_uint_eq(redirect_counter_read(&counters[2]).hits, 1);
    redirect_counter_hit(&counters[0], EPOCH + 2);
    ck_assert_uint_eq(redirect_counter_read(&counters[0]).hits, 1);
    ck_assert_int_eq(redirect_counter_read(&counters[0]).last, EPOCH + 2);
}
END_TEST

static void *count_many(void *counter)
{
    for (int i = 0; i < EACH; i++)
        redirect_counter_hit(counter, EPOCH + 1 + i / 10);
    return NULL;
}

START_TEST(threads_count_together)
{
    redirect_counter counter = {0};
    pthread_t threads[THREADS];
    redirect_count count;

    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_many, &counter), 0);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    count = redirect_counter_read(&counter);
    ck_assert_uint_eq(count.hits, THREADS * EACH);
    ck_assert_int_eq(count.last, EPOCH + EACH / 10);
}
END_TEST

/* --- moving -----------------------------------------------------------------------------------*/

typedef struct list {
    const uint64_t *keys;
    uint32_t at;
} list;

static uint64_t next_key(void *baton)
{
    list *l = baton;

    return l->keys[l->at++];
}

static apr_status_t move(redirect_counter *from, const uint64_t *from_keys, uint32_t from_count,
                         redirect_counter *to, const uint64_t *to_keys, uint32_t to_count,
                         uint32_t *moved)
{
    list a = {from_keys, 0}, b = {to_keys, 0};
    redirect_keys first = {next_key, &a, from_count}, second = {next_key, &b, to_count};
    apr_status_t rv = redirect_counters_move(from, &first, to, &second, moved);

    ck_assert_uint_le(a.at, from_count);
    ck_assert_uint_le(b.at, to_count);
    return rv;
}

START_TEST(counts_go_with_their_rules)
{
    /* keys that collide in a small table, too */
    static const uint64_t from_keys[] = {100, 116, 132, 7, 8}, to_keys[] = {9, 132, 100, 8, 7, 100};
    redirect_counter from[5] = {0}, to[6] = {0};
    static const uint64_t expected[] = {0, 3, 12, 0, 4, 0};
    uint32_t moved;

    for (unsigned i = 0; i < 4; i++) { /* the last was never hit */
        for (unsigned n = 0; n <= i; n++)
            redirect_counter_hit(&from[i], EPOCH + 10 * (i + 1));
    }
    for (unsigned n = 0; n < 11; n++) /* some were hit already */
        redirect_counter_hit(&to[2], EPOCH + 500);
    ck_assert_int_eq(move(from, from_keys, 5, to, to_keys, 6, &moved), APR_SUCCESS);
    ck_assert_uint_eq(moved, 3);
    for (unsigned i = 0; i < 6; i++)
        ck_assert_uint_eq(redirect_counter_read(&to[i]).hits, expected[i]);
    ck_assert_int_eq(redirect_counter_read(&to[1]).last, EPOCH + 30);
    ck_assert_int_eq(redirect_counter_read(&to[2]).last, EPOCH + 500);
    ck_assert_uint_eq(redirect_counter_read(&from[1]).hits, 2); /* a rule that is gone */
    ck_assert_uint_eq(redirect_counter_read(&from[0]).hits, 0);
    ck_assert_int_eq(move(from, from_keys, 5, to, to_keys, 6, NULL), APR_SUCCESS);
    ck_assert_uint_eq(redirect_counter_read(&to[2]).hits, 12);
}
END_TEST

START_TEST(nothing_to_move)
{
    static const uint64_t keys[] = {1, 2};
    redirect_counter from[2] = {0}, to[2] = {0};
    uint32_t moved = 7;

    ck_assert_int_eq(move(from, keys, 2, to, keys, 2, &moved), APR_SUCCESS);
    ck_assert_uint_eq(moved, 0);
    ck_assert_int_eq(move(from, keys, 0, to, keys, 2, &moved), APR_SUCCESS);
    redirect_counter_hit(&from[1], EPOCH + 1);
    ck_assert_int_eq(move(from, keys, 2, to, keys, 0, &moved), APR_SUCCESS);
    ck_assert_uint_eq(moved, 0);
    ck_assert_uint_eq(redirect_counter_read(&from[1]).hits, 1);
}
END_TEST

START_TEST(many_move)
{
    enum { N = 20000 };
    uint64_t *from_keys = calloc(N, sizeof(*from_keys)), *to_keys = calloc(N, sizeof(*to_keys));
    redirect_counter *from = calloc(N, sizeof(*from)), *to = calloc(N, sizeof(*to));
    uint32_t moved, expected = 0;

    for (unsigned i = 0; i < N; i++) {
        from_keys[i] = i * UINT64_C(0x9e3779b97f4a7c15);
        to_keys[N - 1 - i] = from_keys[i] + (i % 3 == 0);
        for (unsigned n = 0; n < i % 4; n++)
            redirect_counter_hit(&from[i], EPOCH + i + 1);
        expected += i % 3 && i % 4;
    }
    ck_assert_int_eq(move(from, from_keys, N, to, to_keys, N, &moved), APR_SUCCESS);
    ck_assert_uint_eq(moved, expected);
    for (unsigned i = 0; i < N; i++) {
        redirect_count count = redirect_counter_read(&to[N - 1 - i]);

        ck_assert_uint_eq(count.hits, i % 3 ? i % 4 : 0);
        ck_assert_int_eq(count.last, count.hits ? EPOCH + (int64_t)i + 1 : 0);
    }
    free(from_keys);
    free(to_keys);
    free(from);
    free(to);
}
END_TEST

/* Keys as a map's author can choose them, whose halves cancel each other out, and ones whose low or
 * high bits are all the same: each takes its place at once. Otherwise this would not end within the
 * time of a test. */
START_TEST(keys_that_collide_move)
{
    enum { N = 500000 };
    uint64_t *keys = calloc(N, sizeof(*keys));
    redirect_counter *from = calloc(N, sizeof(*from)), *to = calloc(N, sizeof(*to));
    uint32_t moved;

    for (uint64_t i = 0; i < N; i++) {
        uint64_t low = _i == 0 ? i ^ 0x1234 : 0x1234;

        keys[i] = _i == 2 ? i : i << 32 | low;
        redirect_counter_hit(&from[i], EPOCH + 1);
    }
    ck_assert_int_eq(move(from, keys, N, to, keys, N, &moved), APR_SUCCESS);
    ck_assert_uint_eq(moved, N);
    for (unsigned i = 0; i < N; i++)
        ck_assert_uint_eq(redirect_counter_read(&to[i]).hits, 1);
    free(keys);
    free(from);
    free(to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_counters");
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, nothing_was_hit);
    tcase_add_loop_test(tc, hits_are_counted, 0, sizeof(hits) / sizeof(hits[0]));
    tcase_add_test(tc, counting_ends);
    tcase_add_test(tc, reset_begins_again);
    tcase_add_test(tc, threads_count_together);
    tcase_add_test(tc, counts_go_with_their_rules);
    tcase_add_test(tc, nothing_to_move);
    tcase_add_test(tc, many_move);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, keys_that_collide_move, 0, 3);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
