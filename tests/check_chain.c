/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of base/chain.c: the order in which contexts are asked, and that what is merged is
 * shared and stays as it was. Run by 'make check'.
 */
#include "base/chain.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <apr_general.h>
#include <apr_strings.h>

static apr_pool_t *pool;

static void set_up(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
}

static void tear_down(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

static const htc_chain *chain(const char *name)
{
    return htc_chain_of(pool, apr_pstrdup(pool, name));
}

static const htc_chain *merge(const htc_chain *first, const htc_chain *second)
{
    return htc_chain_merge(pool, first, second);
}

typedef struct asked {
    char names[256];
    const char *wanted;
} asked;

static bool ask(void *baton, void *own)
{
    asked *a = baton;

    strcat(a->names, own);
    return a->wanted && !strcmp(own, a->wanted);
}

/* The names of all that are asked until one is @a wanted. */
static const char *order(const htc_chain *asked_chain, const char *wanted, bool *found)
{
    asked a = {"", wanted};

    *found = htc_chain_find(asked_chain, ask, &a);
    return apr_pstrdup(pool, a.names);
}

static void expect(const htc_chain *asked_chain, const char *names)
{
    bool found;

    ck_assert_str_eq(order(asked_chain, NULL, &found), names);
    ck_assert(!found);
}

START_TEST(nothing_merged_with_something_is_that)
{
    const htc_chain *a = chain("a");

    ck_assert_ptr_null(merge(NULL, NULL));
    ck_assert_ptr_eq(merge(a, NULL), a);
    ck_assert_ptr_eq(merge(NULL, a), a);
    expect(NULL, "");
    expect(a, "a");
}
END_TEST

START_TEST(first_comes_first_however_it_was_merged)
{
    const htc_chain *ab = merge(chain("a"), chain("b")), *cd = merge(chain("c"), chain("d"));

    expect(merge(ab, cd), "abcd");
    expect(merge(ab, merge(cd, chain("e"))), "abcde");
    expect(merge(merge(merge(ab, chain("x")), cd), chain("y")), "abxcdy");
    expect(merge(ab, ab), "abab");
    expect(ab, "ab");
    expect(cd, "cd");
}
END_TEST

START_TEST(none_is_asked_behind_the_one_that_answers)
{
    const htc_chain *all = merge(merge(chain("a"), chain("b")), merge(chain("c"), chain("d")));
    static const char *const asked_until[][2] = {
        {"a", "a"}, {"b", "ab"}, {"c", "abc"}, {"d", "abcd"}};
    bool found;

    for (size_t i = 0; i < sizeof(asked_until) / sizeof(asked_until[0]); i++) {
        ck_assert_str_eq(order(all, asked_until[i][0], &found), asked_until[i][1]);
        ck_assert(found);
    }
    ck_assert_str_eq(order(all, "e", &found), "abcd");
    ck_assert(!found);
}
END_TEST

/* However much is in them: they are in the new one by their addresses. */
START_TEST(both_are_shared)
{
    const htc_chain *deep = chain("x"), *other = chain("y"), *both;

    for (int i = 0; i < 1000; i++)
        deep = merge(chain("x"), deep);
    both = merge(deep, other);
    ck_assert_ptr_eq(both->first, deep);
    ck_assert_ptr_eq(both->second, other);
    ck_assert_ptr_null(both->own);
}
END_TEST

static bool count(void *baton, void *own)
{
    (void)own;
    ++*(int *)baton;
    return false;
}

/* As httpd merges the directories of a request, each ahead of all above. */
START_TEST(as_many_as_there_are_directories)
{
    const htc_chain *all = NULL;
    int n = 0;

    for (int i = 0; i < 1000000; i++)
        all = merge(chain("d"), all);
    htc_chain_find(all, count, &n);
    ck_assert_int_eq(n, 1000000);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("chain");
    TCase *tc = tcase_create("chain");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, nothing_merged_with_something_is_that);
    tcase_add_test(tc, first_comes_first_however_it_was_merged);
    tcase_add_test(tc, none_is_asked_behind_the_one_that_answers);
    tcase_add_test(tc, both_are_shared);
    tcase_add_test(tc, as_many_as_there_are_directories);
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
