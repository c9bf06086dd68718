/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file store_fixture.h
 * Shared by the unit tests of the store by one process: a small store for each test, and what is
 * done with it all the time.
 */
#ifndef STORE_FIXTURE_H
#define STORE_FIXTURE_H

#include "store_util.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MB           (UINT64_C(1) << 20)
#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

static apr_pool_t *pool, *scratch;
static htc_store *store;

static inline void setup(void)
{
    pool = su_pool();
    apr_pool_create(&scratch, pool);
    store = su_create(pool, MB);
}

static inline void teardown(void)
{
    apr_pool_destroy(pool);
}

static inline void assert_consistent(void)
{
    const char *wrong = su_inconsistent(store);

    ck_assert_msg(!wrong, "%s", wrong);
}

static inline htc_ref put_ok(uint32_t number, size_t len)
{
    htc_ref ref;

    ck_assert_int_eq(su_put(store, &(su_spec){.number = number, .len = len}, &ref), APR_SUCCESS);
    return ref;
}

static inline su_found get(uint32_t number)
{
    htc_info info;

    return su_get(store, number, scratch, &info);
}

static inline htc_store_stats stats(void)
{
    htc_store_stats s;

    htc_store_stats_get(store, &s);
    return s;
}

#endif
