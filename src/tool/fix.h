/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/fix.h
 * A copy of a list of redirects without chains, duplicates and rows that never answer. For
 * htcachectl check --fix.
 */
#ifndef HTC_TOOL_FIX_H
#define HTC_TOOL_FIX_H

#include "tool/convert.h"

struct tool_options;

/** check --fix FILE. A tool_exit: TOOL_FOUND when something is left that needs a decision. */
int tool_fix(const struct tool_options *command, const redirect_map_options *options,
             const char *name, apr_pool_t *pool);

/** What is to become of a rule of a list. */
typedef struct fix_step {
    bool drop; /* another rule answers for it; `by` is that rule's line */
    uint32_t by;
    const char *target; /* its new target; NULL: as it is */
    int saved;          /* how many redirects the new target saves */
    const char *left;   /* why a chain stays, or is not followed to its end; NULL */
} fix_step;

/**
 * Find out what can be done with each rule of the list, in the list's pool: *steps has one for each.
 * No URL then ends elsewhere, and none is answered with another status, as was found out by
 * look-ups. False: there is no memory.
 */
bool fix_plan(const convert_list *list, fix_step **steps);

/** The list with the steps taken; rules that are dropped are marked lost. */
convert_list *fix_apply(const convert_list *list, const fix_step *steps);

/** How many of the URLs that are tried do not end at the same place, or not with the same first
 * status; wrong[i]: one of them is answered by rule i of @a from. -1: it could not be found out. */
int fix_count_wrong(const convert_list *from, const convert_list *to, bool *wrong);

/** Have two lists the same rules in the same order, but for their files and lines? Rules that are
 * lost do not count. */
bool fix_same(const convert_list *a, const convert_list *b);

/** A change of a row. */
typedef struct fix_edit {
    uint32_t line;
    int rule; /* the row's first in the list; -1: it has none there */
    bool drop;
    uint32_t by;                         /* if drop: the line that answers */
    const char *old_target, *new_target; /* unless drop */
    const char *fault;                   /* set by fix_write(): it could not be done, and why */
} fix_edit;

/** Write the file with its lines changed; all others stay as they are. Edits are sorted by line;
 * of a line with several nothing is changed. @a format is the file's. */
void fix_write(FILE *out, const char *bytes, size_t len, convert_format format, fix_edit *edits,
               size_t count);

#endif
