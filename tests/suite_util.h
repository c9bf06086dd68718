/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file suite_util.h
 * What every test program of the core ends with.
 */
#ifndef SUITE_UTIL_H
#define SUITE_UTIL_H

#include <stdlib.h>

#include <check.h>

/** Run the suite and free it. The program's exit code: a failure when a test failed. */
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
