/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/heap/run.c: pools that lie in memory of the caller's choice. Run by 'make
 * check'.
 */
#include "suite_util.h"
#include "heap_fixture.h"

#include <apr_strings.h>

static int cleanups_run;

static apr_status_t count_cleanup(void *data)
{
    cleanups_run += data == &cleanups_run;
    return APR_SUCCESS;
}

static bool note_cleanup(void *baton, const void *data, apr_status_t (*plain)(void *))
{
    unsigned *n = baton;

    (*n)++;
    ck_assert_ptr_eq(data, &cleanups_run);
    ck_assert(plain == count_cleanup);
    return *n < 2;
}

static void keep_small(htc_run *run)
{
    char *text = apr_pstrdup(run->pool, "text");

    ck_assert(text > (char *)run->node && text < (char *)run->node->endp);
    ck_assert(htc_run_whole(run));
    ck_assert_uint_lt(htc_run_used(run), HTC_RUN_MIN);
    ck_assert(text + 5 <= (char *)run->node + htc_run_used(run));
}

static void fill_up(htc_run *run)
{
    while (htc_run_left(run) >= 16)
        apr_palloc(run->pool, 8);
    ck_assert(htc_run_whole(run));
}

static void one_too_many(htc_run *run)
{
    fill_up(run);
    apr_palloc(run->pool, 100);
    ck_assert(!htc_run_whole(run));
}

static void one_too_large(htc_run *run)
{
    apr_palloc(run->pool, 4 * run->asked);
    ck_assert(!htc_run_whole(run));
    apr_palloc(run->pool, 8);
    ck_assert(!htc_run_whole(run));
}

static void with_child(htc_run *run)
{
    apr_pool_t *child;

    ck_assert_int_eq(apr_pool_create(&child, run->pool), APR_SUCCESS);
    apr_palloc(child, 20000);
    ck_assert(!htc_run_whole(run));
}

static void with_child_that_is_gone(htc_run *run)
{
    apr_pool_t *child;

    ck_assert_int_eq(apr_pool_create(&child, run->pool), APR_SUCCESS);
    apr_palloc(child, 20000);
    apr_pool_destroy(child);
    ck_assert(htc_run_whole(run));
    keep_small(run);
}

static void with_cleanups(htc_run *run)
{
    unsigned n = 0;

    ck_assert(htc_run_each_cleanup(run, note_cleanup, &n));
    ck_assert_uint_eq(n, 0);
    apr_pool_cleanup_register(run->pool, &cleanups_run, count_cleanup, apr_pool_cleanup_null);
    ck_assert(htc_run_each_cleanup(run, note_cleanup, &n));
    ck_assert_uint_eq(n, 1);
    apr_pool_cleanup_register(run->pool, &cleanups_run, count_cleanup, apr_pool_cleanup_null);
    apr_pool_cleanup_register(run->pool, &cleanups_run, count_cleanup, apr_pool_cleanup_null);
    n = 0;
    ck_assert(!htc_run_each_cleanup(run, note_cleanup, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert(htc_run_whole(run));
}

static const struct {
    void (*use)(htc_run *run);
    bool may_be_kept;
    int cleanups;
} uses[] = {
    {keep_small, true, 0},     {fill_up, true, 0},     {one_too_many, false, 0},
    {one_too_large, false, 0}, {with_child, false, 0}, {with_child_that_is_gone, true, 0},
    {with_cleanups, false, 3},
};

#define RUN_SIZES 4

/* The memory is this test's again behind it, as valgrind and AddressSanitizer see. */
START_TEST(a_run)
{
    size_t bytes = HTC_RUN_MIN + (size_t)(_i % RUN_SIZES) * 33 * 4096;
    char *memory = aligned_alloc(64, bytes);
    htc_run run;

    for (int again = 0; again < 3; again++) {
        memset(memory, 0x55, bytes);
        cleanups_run = 0;
        ck_assert(htc_run_begin(&run, memory, bytes, NULL));
        ck_assert_ptr_eq(run.node, memory);
        uses[_i / RUN_SIZES].use(&run);
        htc_run_undo(&run);
        ck_assert_int_eq(cleanups_run, uses[_i / RUN_SIZES].cleanups);
    }
    if (uses[_i / RUN_SIZES].may_be_kept) {
        ck_assert(htc_run_begin(&run, memory, bytes, NULL));
        uses[_i / RUN_SIZES].use(&run);
        htc_run_keep(&run);
    }
    free(memory);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap, pools");
    TCase *pools = add_case(s, "pools");

    tcase_add_loop_test(pools, a_run, 0, COUNT(uses) * RUN_SIZES);
    return run_suite(s);
}
