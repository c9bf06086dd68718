/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/map_command.h
 * Edits of a map that are collected in a file until they are sent together. For htcachectl map.
 */
#ifndef HTC_TOOL_MAP_COMMAND_H
#define HTC_TOOL_MAP_COMMAND_H

#include "tool/htcachectl.h"

#include <time.h>

/** The collected edits of one map of one server. */
typedef struct map_collection {
    const char *path; /* of their file; NULL: nowhere */
    int fd;           /* locked; -1: nothing is collected */
    bool begun;       /* the file has its first line */
    char *bytes;      /* malloc'ed; edits, one a line, below that */
    size_t len;
    unsigned edits;
    time_t since;
} map_collection;

/** Read what is collected for a map. A tool_exit; what is wrong was said. */
int map_collection_open(const tool_options *o, const char *map, map_collection *c,
                        apr_pool_t *pool);
/** Begin to collect; nothing is. c->begun: somebody else has begun at the same time, so nothing was
 * done. */
int map_collection_begin(const tool_options *o, const char *map, map_collection *c,
                         apr_pool_t *pool);
/** Add an edit's line, with its end. */
int map_collection_add(map_collection *c, const char *line);
/** They are gone. */
int map_collection_remove(map_collection *c);
void map_collection_close(map_collection *c);

#endif
