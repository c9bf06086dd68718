/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/fix_index.h
 * Which rules of a list may answer a path, or a path below it. For tool/fix_plan.c. Each question
 * takes a few look-ups, however many rules there are, but for patterns without a literal beginning:
 * these are compared one by one.
 */
#ifndef HTC_TOOL_FIX_INDEX_H
#define HTC_TOOL_FIX_INDEX_H

#include "tool/fix.h"

typedef struct fix_index fix_index;

/** Of the list's rules that are not dropped, in the list's pool. The list and the steps are kept. */
fix_index *fix_index_create(const convert_list *list, const fix_step *steps);

/** Lower case, without slashes at the end: what any rule may take for the same path. This is the
 * form of all paths below. */
const char *fix_path(const char *path, size_t len, apr_pool_t *pool);

/** Have two rules or more sources at this path or below it, for hosts of @a r? @a pool, here and
 * below, for scratch memory. */
bool fix_more_below(const fix_index *index, const char *path, const convert_rule *r,
                    apr_pool_t *pool);
/** May a pattern for a host of @a r answer something at this path or below it? */
bool fix_pattern_below(const fix_index *index, const char *path, const convert_rule *r,
                       apr_pool_t *pool);
/** Can rules for some hosts, for one scheme, or with a condition on the query answer this path? */
bool fix_depends_on_host(const fix_index *index, const char *path, apr_pool_t *pool);
bool fix_depends_on_scheme(const fix_index *index, const char *path, apr_pool_t *pool);
bool fix_depends_on_query(const fix_index *index, const char *path);

#endif
