/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/chain.h
 * What several contexts have, in the order in which it is asked: the redirect maps, the folded
 * Redirect lines or the tracked RewriteRules of a server, a directory and those around it. httpd
 * merges contexts for each request, so merging makes one node, however much either has: both
 * chains stay as they are and are shared. Nothing here locks; a chain is not changed once it is
 * merged.
 */
#ifndef HTC_BASE_CHAIN_H
#define HTC_BASE_CHAIN_H

#include <stdbool.h>

#include <apr_pools.h>

/** NULL is the chain of nothing. */
typedef struct htc_chain {
    const struct htc_chain *first, *second; /* or NULL: asked before and behind `own` */
    void *own;                              /* what one context has; NULL: only the others */
} htc_chain;

/** A chain of one context. @a own: not NULL; must live as long as @a pool. */
const htc_chain *htc_chain_of(apr_pool_t *pool, void *own);

/** All of @a first, then all of @a second. Takes one node from @a pool, or nothing when one of them
 * is NULL; both must live as long. */
const htc_chain *htc_chain_merge(apr_pool_t *pool, const htc_chain *first, const htc_chain *second);

/** Called for each context. True: look no further. */
typedef bool htc_chain_fn(void *baton, void *own);

/** Call @a fn for each context in order, until it returns true. Returns true in that case. */
bool htc_chain_find(const htc_chain *chain, htc_chain_fn *fn, void *baton);

#endif
