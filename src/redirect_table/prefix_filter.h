/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirect_table/prefix_filter.h
 * A prefix filter in front of a table: says of most paths that none of many strings begins them, or
 * is all of them, without looking a rule up, in one pass and some dozens of instructions. It may be
 * wrong in one direction only: a path that passes may match nothing. A Bloom filter with three bits
 * in one word (Putze, Sanders, Singler: "Cache-, Hash- and Space-Efficient Bloom Filters", 2007),
 * asked for the beginnings of a path that are as long as something in it. Part of the core: no
 * httpd headers.
 */
#ifndef HTC_REDIRECT_TABLE_PREFIX_FILTER_H
#define HTC_REDIRECT_TABLE_PREFIX_FILTER_H

#include <stdbool.h>
#include <stddef.h>

#include <apr_pools.h>

typedef struct redirect_prefix_filter redirect_prefix_filter;

/** An empty filter, which nothing passes, for about @a n strings; lives in @a pool, two bytes for
 *  each. It is read without locks once all is added. */
redirect_prefix_filter *redirect_prefix_filter_create(size_t n, apr_pool_t *pool);

/** Let pass all paths that begin with these bytes, or, @a whole, that consist of them, perhaps with
 *  a newline behind them; in any case of ASCII letters. */
void redirect_prefix_filter_add(redirect_prefix_filter *filter, const char *bytes, size_t len,
                                bool whole);

/** The same for a path prefix as mod_alias understands it: any run of slashes equals any other. */
void redirect_prefix_filter_add_prefix(redirect_prefix_filter *filter, const char *bytes,
                                       size_t len, apr_pool_t *scratch);

/** Let everything pass. */
void redirect_prefix_filter_open(redirect_prefix_filter *filter);

/** False: nothing that was added is the beginning of this path, or all of it. */
bool redirect_prefix_filter_passes(const redirect_prefix_filter *filter, const char *path,
                                   size_t len);

#endif
