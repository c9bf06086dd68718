/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/map.h
 * The patterns of redirect maps, run by the tool itself. For htcachectl check, lookup and convert,
 * and for unit tests.
 */
#ifndef HTC_TOOL_MAP_H
#define HTC_TOOL_MAP_H

#include "maps/maps.h"

/** The patterns of one table, compiled when they are first asked. */
typedef struct map_regexes map_regexes;

/** False when the tool was built without a regex library: then patterns match nothing. */
bool map_regexes_available(void);
map_regexes *map_regexes_create(apr_pool_t *pool);
/** From here on patterns may take so many steps and milliseconds together, see maps/budget.h.
 * To begin with it is what a request may. */
void map_regexes_budget(map_regexes *regexes, uint64_t steps, int64_t ms);
/** For a command that looks up each row of a map. */
#define MAP_REGEXES_COMMAND_MS 60000
/** For redirect_request.steps. */
uint64_t *map_regexes_steps(map_regexes *regexes);
/** True when a pattern was not run because the budget was used up. */
bool map_regexes_out_of_budget(const map_regexes *regexes);
/** As redirect_report.compile. */
const char *map_regexes_try(void *ignored, const char *pattern, unsigned flags);
/** As redirect_regex_fn; @a baton is a map_regexes. */
bool map_regexes_match(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len);
/** The groups of a match; how many there are. */
int map_regexes_groups(map_regexes *regexes, const redirect_match *match, const char *subject,
                       size_t len, redirect_group *groups, int max);
/** As redirect_report.groups; @a baton is a map_regexes. */
int map_regexes_find_groups(void *baton, const redirect_match *match, const char *subject,
                            size_t len, redirect_group *groups, int max);

#endif
