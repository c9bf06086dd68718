/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Kinds of messages. Called by tool/map_file.c and tool/convert_command.c.
 */
#include "tool/kinds.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <string.h>

#define KINDS_MAX 1000 /* more count with the last */

struct message_kinds {
    apr_pool_t *pool;
    apr_hash_t *by_text;
    apr_array_header_t *all; /* message_kind * */
    uint64_t limit;
};

message_kinds *message_kinds_create(uint64_t limit, apr_pool_t *pool)
{
    message_kinds *kinds = apr_palloc(pool, sizeof(*kinds));

    kinds->pool = pool;
    kinds->by_text = apr_hash_make(pool);
    kinds->all = apr_array_make(pool, 8, sizeof(message_kind *));
    kinds->limit = limit;
    return kinds;
}

/* "column 'x' is not used": these are few, and with each one something else is lost. */
static bool is_about_name(const char *text)
{
    static const char *const ends[] = {"' is not used", "' was not read"};
    size_t len = strlen(text);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t n = strlen(ends[i]);

        if (len >= n && !strcmp(text + len - n, ends[i]))
            return true;
    }
    return false;
}

/* The part of a message that others of its kind have, too. */
static size_t key_of(redirect_severity severity, const char *text, char *key, size_t size)
{
    bool whole = is_about_name(text);
    size_t n = 0;

    key[n++] = (char)('0' + severity);
    for (bool quoted = false; *text && n < size; text++) {
        if (whole)
            key[n++] = *text;
        else if (*text == '\'')
            quoted = !quoted;
        else if (!quoted && (*text < '0' || *text > '9'))
            key[n++] = *text;
    }
    return n;
}

static message_kind *find(message_kinds *kinds, redirect_severity severity, const char *text)
{
    char key[200];
    size_t len = key_of(severity, text, key, sizeof(key));
    message_kind *kind = apr_hash_get(kinds->by_text, key, (apr_ssize_t)len);

    if (kind)
        return kind;
    if (kinds->all->nelts > KINDS_MAX)
        return APR_ARRAY_IDX(kinds->all, KINDS_MAX, message_kind *);
    kind = apr_pcalloc(kinds->pool, sizeof(*kind));
    kind->severity = severity;
    APR_ARRAY_PUSH(kinds->all, message_kind *) = kind;
    apr_hash_set(kinds->by_text, apr_pmemdup(kinds->pool, key, len), (apr_ssize_t)len, kind);
    return kind;
}

/* The first ones of the file that had it first, each line once, also when they do not come in
 * order. */
static void note_line(message_kind *kind, const char *file, uint32_t line)
{
    unsigned i = kind->nlines;

    if (strcmp(kind->file, file) != 0) {
        kind->more_lines = true;
        return;
    }
    while (i && kind->lines[i - 1] > line)
        i--;
    if (i && kind->lines[i - 1] == line)
        return;
    if (kind->nlines == MESSAGE_KIND_LINES) {
        kind->more_lines = true;
        if (i == MESSAGE_KIND_LINES)
            return;
        kind->nlines--;
    }
    memmove(&kind->lines[i + 1], &kind->lines[i], (kind->nlines - i) * sizeof(kind->lines[0]));
    kind->lines[i] = line;
    kind->nlines++;
}

message_kind *message_kinds_count(message_kinds *kinds, redirect_severity severity,
                                  const char *file, uint32_t line, const char *text, bool *told)
{
    message_kind *kind = find(kinds, severity, text);

    if (!kind->count)
        kind->file = file;
    note_line(kind, file, line);
    if (!kind->count || (kind->lines[0] == line && line < kind->text_line)) {
        kind->text = apr_pstrdup(kinds->pool, text);
        kind->text_line = line;
    }
    kind->count++;
    *told = !kinds->limit || kind->count <= kinds->limit;
    kind->more += !*told;
    return kind;
}

const apr_array_header_t *message_kinds_all(const message_kinds *kinds)
{
    return kinds->all;
}
