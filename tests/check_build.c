/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of base/build.c: each object has a number, by whatever address in it. That another
 * build has another one is tested in t/30-kept-build.t. Run by 'make check'.
 */
#include "suite_util.h"
#include "base/build.h"

#include <check.h>
#include <stdlib.h>

#include <apr_general.h>

static int written = 1;
static const char constant[] = "constant";

START_TEST(an_object_has_one_number)
{
    uint64_t own = htc_build_of(constant);

    ck_assert_uint_ne(own, 0);
    ck_assert_uint_eq(htc_build_of(&written), own);
    ck_assert_uint_eq(htc_build_of((const void *)(uintptr_t)suite_create), own);
}
END_TEST

START_TEST(others_have_others)
{
    const void *apr = (const void *)(uintptr_t)apr_initialize;
    int local = 0;
    void *heap = malloc(1);

    ck_assert_uint_ne(htc_build_of(apr), 0);
    ck_assert_uint_ne(htc_build_of(apr), htc_build_of(constant));
    ck_assert_uint_eq(htc_build_of(&local), 0);
    ck_assert_uint_eq(htc_build_of(heap), 0);
    ck_assert_uint_eq(htc_build_of(NULL), 0);
    free(heap);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("build");
    TCase *tcase = tcase_create("build");

    tcase_add_test(tcase, an_object_has_one_number);
    tcase_add_test(tcase, others_have_others);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
