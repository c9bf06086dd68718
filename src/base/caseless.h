/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/caseless.h
 * Comparing ASCII letters in any case, as PCRE does with its own tables. strncasecmp() and
 * strcasestr() follow the process's locale, which other modules set: in a Turkish one "I" is not
 * the capital of "i". Part of the core: no httpd headers.
 */
#ifndef HTC_BASE_CASELESS_H
#define HTC_BASE_CASELESS_H

#include <stdbool.h>
#include <stddef.h>

/** True when @a text begins with the @a len bytes at @a lower, which have no capitals. */
static inline bool htc_begins_caseless(const char *text, const char *lower, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if ((c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c) != lower[i] || !c)
            return false;
    }
    return true;
}

/** True when they stand somewhere in @a text. */
static inline bool htc_holds_caseless(const char *text, const char *lower, size_t len)
{
    for (; *text; text++) {
        if (htc_begins_caseless(text, lower, len))
            return true;
    }
    return !len;
}

#endif
