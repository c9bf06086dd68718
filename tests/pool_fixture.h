/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file pool_fixture.h
 * A fixture for tests that need no more than a pool: begun and ended with each test.
 */
#ifndef POOL_FIXTURE_H
#define POOL_FIXTURE_H

#include <apr_general.h>
#include <apr_pools.h>

static apr_pool_t *pool;

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

#endif
