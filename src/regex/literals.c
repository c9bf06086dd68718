/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lists of literals, of which every name that some patterns match has one. Made by the builder from
 * the patterns of <Files> sections; looked at in each request.
 *
 * A list is a string of items: kind, length, the literal and a NUL. Kind 0 ends it. So one or two
 * cache lines are all that is read of it.
 */
#include "base/base.h"
#include "regex/regex.h"

#include <string.h>

#define MOST_LENGTH 255
#define HEAD        2 /* bytes of an item ahead of the literal */

enum { END = 0, WHOLE, PREFIX, INSIDE, CASELESS = 4 /* added to one of them */ };

/* False: there is no room for it. Of a long literal the beginning will do. */
static bool add(redirect_literals *list, int kind, const char *text, size_t len)
{
    if (len > MOST_LENGTH) {
        len = MOST_LENGTH;
        kind = (kind & CASELESS) | ((kind & ~CASELESS) == WHOLE ? PREFIX : kind & ~CASELESS);
    }
    if (memchr(text, '\0', len) || list->len + HEAD + len + 2 > sizeof(list->bytes))
        return false;
    list->bytes[list->len++] = (unsigned char)kind;
    list->bytes[list->len++] = (unsigned char)len;
    memcpy(list->bytes + list->len, text, len);
    list->len += len;
    list->bytes[list->len++] = '\0';
    list->bytes[list->len] = END;
    return true;
}

bool redirect_literals_add_text(redirect_literals *list, const char *text)
{
    return add(list, WHOLE, text, strlen(text));
}

/* The longest part without a wildcard. */
bool redirect_literals_add_wildcards(redirect_literals *list, const char *pattern)
{
    const char *longest = pattern;
    size_t most = 0;

    if (strpbrk(pattern, "[\\/"))
        return false;
    for (const char *at = pattern; *at; at += strspn(at, "*?")) {
        size_t len = strcspn(at, "*?");

        if (len > most) {
            longest = at;
            most = len;
        }
        at += len;
    }
    return most && add(list, longest == pattern ? PREFIX : INSIDE, longest, most);
}

bool redirect_literals_add_regex(redirect_literals *list, const redirect_regex_facts *facts)
{
    for (unsigned i = 0; i < facts->count; i++) {
        const redirect_regex_string *string = &facts->strings[i];
        int kind = facts->kind == REDIRECT_REGEX_FLOATING ? INSIDE : PREFIX;

        if (facts->kind >= REDIRECT_REGEX_FINITE_MIXED && !string->rest)
            kind = WHOLE;
        if (!add(list, facts->caseless ? kind + CASELESS : kind, string->text, string->len))
            return false;
    }
    return facts->kind != REDIRECT_REGEX_NONE;
}

static inline bool has(int kind, const char *literal, size_t size, const char *name, size_t len)
{
    bool caseless = kind & CASELESS;

    switch (kind & ~CASELESS) {
    case INSIDE:
        return caseless ? htc_holds_caseless(name, literal, size) : strstr(name, literal) != NULL;
    case WHOLE:
        if (len > size + 1) /* a regex may pass over a newline at the end */
            return false;
        /* falls through */
    default:
        return caseless ? htc_begins_caseless(name, literal, size) : !memcmp(name, literal, size);
    }
}

HTC_EACH bool redirect_literals_any(const unsigned char *list, const char *name)
{
    size_t len = strlen(name);

    for (const unsigned char *at = list; *at != END; at += HEAD + at[1] + 1) {
        if (at[1] <= len && has(*at, (const char *)at + HEAD, at[1], name, len))
            return true;
    }
    return false;
}
