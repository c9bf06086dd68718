/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file heap/run.h
 * A pool whose allocations lie one behind the other in memory of the caller's choice. httpd's
 * modules allocate from a pool. So what they make can be laid where all processes can read it.
 *
 * APR hands out a node of its allocator as a whole. So a node is laid over the caller's memory (its
 * declaration is in apr_allocator.h), given to a new allocator, and a pool is created, which takes
 * it. A pool that needs more takes a second node, which htc_run_whole() notices.
 *
 * Two members of apr_pool_t are read that APR does not declare: the list of cleanups, and the first
 * child. htc_run_prepare() registers a cleanup and creates a child, and so finds them. Where it does
 * not find them, nothing can be shared.
 */
#ifndef HTC_HEAP_RUN_H
#define HTC_HEAP_RUN_H

#include <stdbool.h>
#include <stddef.h>

#include <apr_allocator.h>
#include <apr_pools.h>

/** The least memory for a run, and enough to try one. */
#define HTC_RUN_MIN   ((size_t)512)
#define HTC_RUN_TRIAL ((size_t)32 << 10)

typedef struct htc_run {
    apr_pool_t *pool;
    apr_allocator_t *allocator;
    apr_memnode_t *node;
    size_t asked; /* bytes for which the allocator gives the node */
} htc_run;

/** Find what APR does not declare. To be called once in a process. False: it is not as expected. */
bool htc_run_prepare(void);

/** Create the pool in @a bytes bytes at @a at (16-byte aligned, HTC_RUN_MIN at least). Its abort
 * function is @a abort_fn. False: there is no memory for the
 * allocator. */
bool htc_run_begin(htc_run *run, void *at, size_t bytes, apr_abortfunc_t abort_fn);

/** True when all that was allocated lies in the run, and the pool has no child. */
bool htc_run_whole(const htc_run *run);
/** Bytes that can still be allocated in the run; 0 when it is not whole. */
size_t htc_run_left(const htc_run *run);
/** Bytes used from the beginning on. */
size_t htc_run_used(const htc_run *run);

/** Call @a fn for each cleanup of the pool until it returns false. Returns what it returned last;
 * true without any. */
typedef bool (*htc_run_cleanup)(void *baton, const void *data, apr_status_t (*plain)(void *));
bool htc_run_each_cleanup(const htc_run *run, htc_run_cleanup fn, void *baton);

/** Keep what was made: the pool is never used, cleared or destroyed again. */
void htc_run_keep(htc_run *run);
/** Destroy the pool, with its cleanups and children. The run's memory may be used for something
 * else. */
void htc_run_undo(htc_run *run);

#endif
