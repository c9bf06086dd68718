/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htcachectl_map.h
 * The commands of htcachectl that work on redirect maps, without a server: check and lookup. For
 * htcachectl.c, and between htcachectl_map.c and htcachectl_regex.c.
 */
#ifndef HTCACHECTL_MAP_H
#define HTCACHECTL_MAP_H

#include "redirect_map.h"

/** Exit codes of check and lookup. */
enum { MAP_EXIT_GOOD = 0, MAP_EXIT_BAD = 1, MAP_EXIT_USAGE = 2 };

/** What was said on the command line. */
typedef struct map_command {
    const char *format; /* of --format; or NULL */
    bool json, follow;
    int words; /* behind the command's name */
    char *const *word;
} map_command;

/** htcachectl check FILE... [key=value...]. The exit code. */
int htcachectl_check(const map_command *command);

/** htcachectl lookup FILE URL [key=value...]. The exit code. */
int htcachectl_lookup(const map_command *command);

/** The patterns of one table, compiled when they are first asked. */
typedef struct map_regexes map_regexes;

/** False when the tool was built without a regex library: then patterns match nothing. */
bool map_regexes_available(void);
map_regexes *map_regexes_create(apr_pool_t *pool);
/** As redirect_report.compile. */
const char *map_regexes_try(void *ignored, const char *pattern, unsigned flags);
/** As redirect_regex_fn; @a baton is a map_regexes. */
bool map_regexes_match(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len);
/** The groups of a match; how many there are. */
int map_regexes_groups(map_regexes *regexes, const redirect_match *match, const char *subject,
                       size_t len, redirect_group *groups, int max);

#endif
