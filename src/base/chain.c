/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Chains of what several contexts have; see base/chain.h. Used by the directives of redirect maps,
 * of folded Redirect lines and of tracked RewriteRules, and by the requests that ask them.
 */
#include "base/chain.h"
#include "base/hot.h"

const htc_chain *htc_chain_of(apr_pool_t *pool, void *own)
{
    htc_chain *chain = apr_pcalloc(pool, sizeof(*chain));

    chain->own = own;
    return chain;
}

const htc_chain *htc_chain_merge(apr_pool_t *pool, const htc_chain *first, const htc_chain *second)
{
    htc_chain *both;

    if (!first || !second)
        return first ? first : second;
    both = apr_palloc(pool, sizeof(*both));
    *both = (htc_chain){first, second, NULL};
    return both;
}

/* httpd adds one context after the other, deeper ones first: all but one are in `second`, over
 * which this does not recurse. */
HTC_HOT bool htc_chain_find(const htc_chain *chain, htc_chain_fn *fn, void *baton)
{
    for (; chain; chain = chain->second) {
        if ((chain->first && htc_chain_find(chain->first, fn, baton)) ||
            (chain->own && fn(baton, chain->own)))
            return true;
    }
    return false;
}
