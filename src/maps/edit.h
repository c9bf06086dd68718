/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/edit.h
 * Editing single rows of a map's file: comments, order and all else that stands there stay as they
 * are. For edits at run time, on the server and by htcachectl map. Included by maps/maps.h.
 */
#ifndef HTC_MAPS_EDIT_H
#define HTC_MAPS_EDIT_H

#include <stddef.h>

#include <apr_errno.h>
#include <apr_pools.h>

struct redirect_map_options;

typedef enum redirect_edit_op {
    REDIRECT_EDIT_ADD, /* an error if the source has a row */
    REDIRECT_EDIT_SET, /* replaces its first row and removes its others; without any as ADD */
    REDIRECT_EDIT_DEL  /* removes all its rows; an error if it has none */
} redirect_edit_op;

/** One edit. Texts are as the format of the file has them, without its quotes. */
typedef struct redirect_edit {
    redirect_edit_op op;
    const char *source;
    const char *target;  /* NULL: none */
    int status;          /* 0: none named */
    const char *options; /* words "key=value" as in the text format, quoted as there; "": none */
} redirect_edit;

/** What is wrong with edits. */
typedef struct redirect_edit_error {
    size_t edit; /* its number, from 0; REDIRECT_EDIT_NONE: it is no single one's */
    const char *message;
    struct redirect_edit_error *next; /* of another edit; NULL: that is all */
} redirect_edit_error;

#define REDIRECT_EDIT_NONE ((size_t)-1)

/** Most edits that one call takes. */
#define REDIRECT_EDITS_MAX 1000000

/** Take apart "add SOURCE TARGET [STATUS] [key=value...]", "set" with the same, or "del SOURCE
 * [key=value...]": words as in the text format of maps. NULL, or a message that says what is wrong,
 * also with the row as such. Both are in @a pool. */
const char *redirect_edit_parse(const char *line, size_t len, redirect_edit *edit,
                                apr_pool_t *pool);

/**
 * The bytes of a map's file after @a n edits, one after the other: *out, in @a pool. All are taken or
 * none. A row that is set keeps its place, its comment, and what an edit has no words for, such as
 * further columns; a new one goes to the end. Two sources are the same if one row could hide the
 * other: see redirect_edit_same_source(). The result was read again: its rows are those of the file
 * with the edits, and its errors are the file's.
 * @return APR_SUCCESS; APR_EINVAL, APR_EEXIST, APR_NOTFOUND: edits are wrong, see *error;
 *         APR_ENOTIMPL: the file's format cannot say it; APR_EGENERAL: the file cannot be read, or
 *         the result is not what it should be; APR_ENOMEM. With all but the last there is an error.
 */
apr_status_t redirect_map_edit(const struct redirect_map_options *options, const char *name,
                               const char *bytes, size_t len, const redirect_edit *edits, size_t n,
                               redirect_edit_error *error, apr_pool_t *pool, char **out,
                               size_t *out_len);

#endif
