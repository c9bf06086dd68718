/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/kinds.h
 * Kinds of messages: those that differ in what is quoted and in numbers only. Each
 * column or key that is not used is a kind of its own. A file may have millions of a kind; the
 * first of each are told, and the others counted. For htcachectl check and convert.
 */
#ifndef HTC_TOOL_KINDS_H
#define HTC_TOOL_KINDS_H

#include <apr_tables.h>

#include "maps/maps.h"

#define MESSAGES_OF_A_KIND 100 /* check, without --limit */
#define MESSAGE_KIND_LINES 5

typedef struct message_kind {
    redirect_severity severity;
    uint64_t count;
    uint64_t more;           /* of these, beyond the limit */
    size_t last;             /* for the caller: the last message that was printed */
    const char *file, *text; /* of the first line */
    uint32_t text_line;
    uint32_t lines[MESSAGE_KIND_LINES]; /* of the first ones in its file */
    unsigned nlines;
    bool more_lines; /* than these; a line may have many rows */
} message_kind;

typedef struct message_kinds message_kinds;

/** Print at most @a limit messages of a kind; 0: all. What is remembered lies in @a pool. */
message_kinds *message_kinds_create(uint64_t limit, apr_pool_t *pool);

/** Count a message, and find its kind. If *told is true, print it. Never NULL. @a file is kept. */
message_kind *message_kinds_count(message_kinds *kinds, redirect_severity severity,
                                  const char *file, uint32_t line, const char *text, bool *told);

/** All kinds, message_kind *, in the order in which they came first. */
const apr_array_header_t *message_kinds_all(const message_kinds *kinds);

#endif
