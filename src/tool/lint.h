/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/lint.h
 * What is wrong with redirects although they can be read: targets that browsers do not follow, signs
 * that are taken for wildcards and are none, and in configurations what redirect_map_check() finds
 * in maps. For htcachectl check and its unit tests.
 */
#ifndef HTC_TOOL_LINT_H
#define HTC_TOOL_LINT_H

#include "maps/maps.h"
#include "tool/convert.h"

/** The rows of a map's table, one by one. */
void tool_lint_table(const redirect_table *table, redirect_report *report, apr_pool_t *pool);

/**
 * The redirect lines of a configuration or .htaccess file, one by one, and all together: duplicates,
 * lines that never answer, loops, chains. Lines of different directories are not compared. Patterns
 * are compiled by @a report's function.
 */
void tool_lint_config(const char *bytes, size_t len, bool htaccess, redirect_report *report,
                      apr_pool_t *pool);

#endif
