/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Pools in memory of the caller's choice. Called by the builder for each object that it makes.
 */
#include "heap/run.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEADER APR_ALIGN_DEFAULT(sizeof(apr_memnode_t))
#define UNIT   ((size_t)4096) /* of an allocator's nodes */

/* As APR declares it in apr_pools.c. */
typedef struct cleanup {
    struct cleanup *next;
    const void *data;
    apr_status_t (*plain)(void *);
    apr_status_t (*child)(void *);
} cleanup;

/* Of apr_pool_t, in words; found by htc_run_prepare(). */
static struct {
    size_t cleanups, child;
} member;

#define WORDS_OF_POOL 32

bool htc_run_begin(htc_run *run, void *at, size_t bytes, apr_abortfunc_t abort_fn)
{
    size_t units = (bytes + UNIT - 1) / UNIT;
    apr_memnode_t *node = at;

    if (apr_allocator_create(&run->allocator) != APR_SUCCESS)
        return false;
    memset(node, 0, HEADER);
    /* The allocator goes by the index alone; a pool asks for two units at first. */
    if (units < 2)
        units = 2;
    node->index = (apr_uint32_t)(units - 1);
    node->first_avail = (char *)at + HEADER;
    node->endp = (char *)at + bytes;
    run->node = node;
    run->asked = units * UNIT - HEADER;
    apr_allocator_free(run->allocator, node);
    if (apr_pool_create_unmanaged_ex(&run->pool, abort_fn, run->allocator) != APR_SUCCESS) {
        run->pool = NULL;
        htc_run_undo(run);
        return false;
    }
    return true;
}

static const void *word_of(const apr_pool_t *pool, size_t number)
{
    const void *word;

    memcpy(&word, (const char *)pool + number * sizeof(word), sizeof(word));
    return word;
}

bool htc_run_whole(const htc_run *run)
{
    return run->node->next == run->node && !word_of(run->pool, member.child);
}

size_t htc_run_left(const htc_run *run)
{
    return htc_run_whole(run) ? (size_t)(run->node->endp - run->node->first_avail) : 0;
}

size_t htc_run_used(const htc_run *run)
{
    return (size_t)(run->node->first_avail - (char *)run->node);
}

bool htc_run_each_cleanup(const htc_run *run, htc_run_cleanup fn, void *baton)
{
    for (const cleanup *c = word_of(run->pool, member.cleanups); c; c = c->next) {
        if (!fn(baton, c->data, c->plain))
            return false;
    }
    return true;
}

void htc_run_keep(htc_run *run)
{
    apr_allocator_destroy(run->allocator); /* has nothing but itself */
    run->pool = NULL;
    run->allocator = NULL;
}

/* The allocator would give the run's memory back to the system, so it is taken out again. It may
 * have other nodes, which go first or last. */
void htc_run_undo(htc_run *run)
{
    apr_memnode_t *others = NULL, *node = NULL;

    if (run->pool)
        apr_pool_destroy(run->pool);
    while (node != run->node) {
        node = apr_allocator_alloc(run->allocator, run->asked);
        if (!node)
            return; /* no memory: the allocator is given up with what it has */
        if (node != run->node) {
            node->next = others;
            others = node;
        }
    }
    if (others)
        apr_allocator_free(run->allocator, others);
    apr_allocator_destroy(run->allocator);
    run->pool = NULL;
    run->allocator = NULL;
}

/* --- what APR does not declare ----------------------------------------------------------------*/

static apr_status_t probe_cleanup(void *data)
{
    (void)data;
    return APR_SUCCESS;
}

/* The cleanup that was registered last lies behind all else. */
static const void *find_cleanup(const htc_run *run, const void *data)
{
    const char *end = run->node->first_avail;
    const cleanup *c;

    for (const char *at = end - sizeof(*c); at > (const char *)run->pool; at -= sizeof(void *)) {
        c = (const cleanup *)(const void *)at;
        if (!c->next && c->data == data && c->plain == probe_cleanup &&
            c->child == apr_pool_cleanup_null)
            return c;
    }
    return NULL;
}

/* The one word of the pool that has this value now and had none before. */
static bool find_member(const apr_pool_t *pool, const void *const before[], const void *value,
                        size_t *number)
{
    bool found = false;

    for (size_t i = 0; i < WORDS_OF_POOL; i++) {
        if (before[i] || word_of(pool, i) != value)
            continue;
        if (found)
            return false;
        found = true;
        *number = i;
    }
    return found;
}

static bool probe(const htc_run *run)
{
    const void *before[WORDS_OF_POOL], *registered;
    apr_pool_t *child;
    bool found;

    memcpy(before, run->pool, sizeof(before));
    apr_pool_cleanup_register(run->pool, before, probe_cleanup, apr_pool_cleanup_null);
    registered = find_cleanup(run, before);
    if (!registered || !find_member(run->pool, before, registered, &member.cleanups) ||
        apr_pool_create(&child, run->pool) != APR_SUCCESS)
        return false;
    found = find_member(run->pool, before, child, &member.child);
    apr_pool_destroy(child);
    return found && !word_of(run->pool, member.child) && run->node->next == run->node;
}

bool htc_run_prepare(void)
{
    size_t bytes = HTC_RUN_TRIAL;
    htc_run run = {NULL};
    void *memory;
    bool good;

    if (posix_memalign(&memory, 64, bytes))
        return false;
    memset(memory, 0, bytes);
    good = htc_run_begin(&run, memory, bytes, NULL);
    if (good) {
        good = (void *)run.pool > memory && (char *)run.pool < (char *)memory + HTC_RUN_MIN &&
               probe(&run);
        htc_run_undo(&run);
    }
    free(memory);
    return good;
}
