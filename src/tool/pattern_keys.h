/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/pattern_keys.h
 * By which literal a table finds each of its patterns. The rules of a map or configuration name the
 * one that a pattern begins with, if any. For tables of which every row is looked up many times that
 * is not enough: thousands of patterns may begin alike, or with no literal at all. Used by the
 * commands of htcachectl that ask such tables.
 */
#ifndef HTC_TOOL_PATTERN_KEYS_H
#define HTC_TOOL_PATTERN_KEYS_H

#include <apr_pools.h>

#include "redirect_table.h"

/**
 * Give each PATTERN of the @a n rules the source and flags by which fewest others are found, and
 * leave all else, so that a table of them answers as before. The sources are allocated from @a pool.
 * Takes time linear in the length of the patterns.
 */
void tool_key_patterns(redirect_rule *rules, size_t n, apr_pool_t *pool);

#endif
