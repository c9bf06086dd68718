/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file wildcard_oracle.h
 * What rows of _redirects and vercel.json answer, found the slow way: each row is read from its
 * text as the platforms' documents have it, and every place is tried for each of its wildcards. It
 * knows nothing of the module: no table, no regex, no code of src/.
 */
#ifndef WILDCARD_ORACLE_H
#define WILDCARD_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

#define ORACLE_PARTS  1200
#define ORACLE_GROUPS 9
#define ORACLE_TEXT   16384

typedef enum oracle_kind {
    ORACLE_BYTE,
    ORACLE_NAME,   /* one byte or more, no slash */
    ORACLE_ANY,    /* "*", "(.*)" */
    ORACLE_DIGITS, /* "(\d+)" */
} oracle_kind;

typedef struct oracle_part {
    oracle_kind kind;
    char byte;
    bool greedy;   /* it takes as much as it can; else as little */
    bool optional; /* with the slash ahead of it, or nothing */
    bool repeated; /* segments with slashes between them */
    char name[100];
} oracle_part;

typedef struct oracle_row {
    const char *source, *target; /* as the file has them */
    const char *query;           /* NULL: any */
    bool vercel, icase, any_end, drop_query;
    bool bad; /* the format has no such row */
    bool wild;
    bool prefix; /* a splat behind a slash, at the end, that is put behind the target, or dropped */
    char scheme[8], host[64]; /* "": any */
    unsigned n, groups;
    oracle_part part[ORACLE_PARTS];
} oracle_row;

typedef struct oracle_url {
    bool https;
    const char *host, *query; /* query NULL: none */
    const char *path;         /* decoded, but for an encoded slash, which is "%2F" */
    const char *sent;         /* the same with "%2F" or "%2f" as it was sent */
} oracle_url;

/** Read what the fields above `bad` say. */
void oracle_read(oracle_row *row);
/** The answer's location, in the form of oracle_form(), or "refused": it would name a host that the
 * target does not. NULL: the row does not match. */
const char *oracle_ask(const oracle_row *row, const oracle_url *url, char to[ORACLE_TEXT]);
/** A location with all bytes escaped that mean the same escaped or not. */
void oracle_form(const char *location, char to[ORACLE_TEXT]);

#endif
