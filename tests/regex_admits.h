/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file regex_admits.h
 * What the facts about a regex say of a subject, string by string.
 */
#ifndef REGEX_ADMITS_H
#define REGEX_ADMITS_H

#include "regex/regex.h"

#include <ctype.h>

static inline bool same_bytes(const char *a, const char *b, size_t len, bool caseless)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char x = (unsigned char)a[i], y = (unsigned char)b[i];

        if (caseless ? tolower(x) != tolower(y) : x != y)
            return false;
    }
    return true;
}

static inline bool contains(const char *subject, size_t len, const redirect_regex_string *string,
                            bool caseless)
{
    for (size_t i = 0; i + string->len <= len; i++) {
        if (same_bytes(subject + i, string->text, string->len, caseless))
            return true;
    }
    return false;
}

static inline bool contains_one(const redirect_regex_string *strings, unsigned count,
                                const char *subject, size_t len, bool caseless)
{
    for (unsigned i = 0; i < count; i++) {
        if (contains(subject, len, &strings[i], caseless))
            return true;
    }
    return false;
}

static inline bool admits_string(const redirect_regex_facts *facts,
                                 const redirect_regex_string *string, const char *subject,
                                 size_t len)
{
    if (len < string->len || !same_bytes(subject, string->text, string->len, facts->caseless))
        return false;
    if (len == string->len || string->rest || facts->kind == REDIRECT_REGEX_PREFIXED)
        return true;
    return facts->final_newline && len == string->len + 1 && subject[len - 1] == '\n';
}

/** True when the regex matches this subject (FINITE kinds), or can match it (other kinds). */
static inline bool regex_admits(const redirect_regex_facts *facts, const char *subject, size_t len)
{
    if (facts->kind == REDIRECT_REGEX_NONE)
        return true;
    if (facts->kind == REDIRECT_REGEX_FLOATING)
        return contains_one(facts->strings, facts->count, subject, len, facts->caseless);
    if (facts->inner_count &&
        !contains_one(facts->inner, facts->inner_count, subject, len, facts->caseless))
        return false;
    for (unsigned i = 0; i < facts->count; i++) {
        if (admits_string(facts, &facts->strings[i], subject, len))
            return true;
    }
    return false;
}

#endif
