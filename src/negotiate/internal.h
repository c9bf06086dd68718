/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file negotiate/internal.h
 * Pieces of RFC 9110's grammar that headers and rows share. All read within [p, end) and return
 * where they stopped.
 */
#ifndef HTC_NEGOTIATE_INTERNAL_H
#define HTC_NEGOTIATE_INTERNAL_H

#include "negotiate/negotiate.h"

/** A parameter; a quoted value is without the quotes, but with its backslashes. */
typedef struct negotiate_parameter {
    const char *name, *value;
    size_t name_len, value_len;
    bool quoted;
} negotiate_parameter;

static inline char negotiate_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static inline const char *negotiate_skip_space(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

/** The next member of a list that is not empty: [*member, the result), without white space around
 * it. @a p goes behind it. NULL: there is none. */
const char *negotiate_member(const char **p, const char *end, const char **member);

/** @a p itself: there is no token. */
const char *negotiate_token(const char *p, const char *end);

/** type/subtype. NULL: there is none. */
const char *negotiate_media_type(const char *p, const char *end, size_t *type_len);

/** What follows a basic language range other than "*", or a language tag. NULL: there is none. */
const char *negotiate_language(const char *p, const char *end);

/** name=value at @a p. Returns what follows it. NULL: malformed. */
const char *negotiate_read_parameter(const char *p, const char *end,
                                     negotiate_parameter *parameter);

/** The parameter after the next ";", @a p goes behind it. 1, or 0: the member ends here, or -1: malformed. */
int negotiate_next_parameter(const char **p, const char *end, negotiate_parameter *parameter);

/** How many parameters a member has from @a p on, beside the weight, which goes to @a quality. -1:
 * malformed, or too many. */
int negotiate_count_parameters(const char *p, const char *end, uint16_t *quality, bool *weighed);

bool negotiate_is_weight(const negotiate_parameter *parameter);
bool negotiate_same_name(const negotiate_parameter *a, const negotiate_parameter *b);
bool negotiate_same_value(const negotiate_parameter *a, const negotiate_parameter *b);

/** A qvalue as thousandths; a number without the leading 0 is one. -1: it is not. */
int negotiate_quality(const char *text, size_t len);

#endif
