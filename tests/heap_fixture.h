/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file heap_fixture.h
 * A fixture for tests of a small heap. This process is the builder, or forks one; readers are
 * forked.
 */
#ifndef HEAP_FIXTURE_H
#define HEAP_FIXTURE_H

#include "heap_util.h"

#define ROWS      4
#define SMALL     HTC_HEAP_MIN_BYTES
#define BIG_WORDS 300 /* an object of some 2.5 KB */

static apr_pool_t *pool;
static htc_heap *heap;

static inline void setup_bytes(uint64_t bytes)
{
    pool = hu_pool();
    heap = hu_create(pool, bytes, ROWS);
}

static inline void setup(void)
{
    setup_bytes(SMALL);
}

static inline void teardown(void)
{
    apr_pool_destroy(pool);
}

static inline void own(void)
{
    ck_assert_int_eq(htc_heap_own(heap, false), APR_SUCCESS);
    htc_heap_ready(heap);
}

static inline const hu_object *build(uint64_t key, uint64_t number, size_t nwords)
{
    return hu_build(heap, &(hu_spec){.key = key, .build = number, .nwords = nwords});
}

/* Others, until the heap was filled several times over. */
static inline void build_others(uint64_t owner)
{
    for (uint64_t i = 0; i < 4 * SMALL / (BIG_WORDS * sizeof(uint64_t)); i++)
        ck_assert_ptr_nonnull(hu_build(
            heap, &(hu_spec){.key = 10000 + i, .build = i, .nwords = BIG_WORDS, .owner = owner}));
}

static inline htc_heap_stats stats(void)
{
    htc_heap_stats now;

    htc_heap_stats_get(heap, &now);
    return now;
}

/* What a child ended with: the signal, or minus what it returned. */
static inline int end_of(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static inline int in_child(int (*act)(void))
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child)
        _exit(act());
    return end_of(child);
}

static inline int build_as_other(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    if (!build(1, 1, 10))
        return 2;
    return hu_inconsistent(heap) ? 3 : 0;
}

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static inline TCase *add_case(Suite *s, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(s, tcase);
    return tcase;
}

#endif
