/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * How much memory a compiled pattern may take, by its text alone: PCRE copies a group that is
 * repeated by number, so that a line may become a thousand times as long. Called by the glue, which
 * bounds what patterns of tenants take in each process.
 */
#include "regex/regex.h"

#include <string.h>

/* The limit of PCRE's usual build. */
#define MOST_CODE 65536
/* What a compiled pattern takes beside its code, and a byte of text in it at most: "[ab]" becomes
 * 33 bytes. */
#define FIXED    384
#define FOR_BYTE 9

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

/* PCRE takes no number over 65535. */
static const char *read_number(const char *at, const char *end, unsigned *number)
{
    for (*number = 0; at < end && is_digit(*at); at++)
        *number = *number < MOST_CODE ? *number * 10 + (unsigned)(*at - '0') : MOST_CODE;
    return skip_blanks(at, end);
}

/* How often the item before the "{" at @a at may be repeated; 1: it is no such quantifier. */
static unsigned copies(const char *at, const char *end)
{
    unsigned least, most = 0;

    at = read_number(skip_blanks(at + 1, end), end, &least);
    if (at < end && *at == ',')
        at = read_number(skip_blanks(at + 1, end), end, &most);
    if (at >= end || *at != '}' || !(least | most))
        return 1;
    return (least > most ? least : most) + 1;
}

/* A single character, a class or an escape is repeated without being copied. "\E" and what is white
 * under (?x) may stand behind a group. */
static bool stands_alone(char before)
{
    return is_digit(before) || (before >= 'a' && before <= 'z') ||
           (before >= 'A' && before <= 'Z' && before != 'E') || before == ']' || before == '.';
}

size_t redirect_regex_copies(const char *text, size_t len)
{
    const char *end = text + len;
    uint64_t plain = (uint64_t)len * FOR_BYTE, code = plain, most = 0;

    for (const char *at = text; (at = memchr(at, '{', (size_t)(end - at))) != NULL; at++) {
        unsigned n = at == text || stands_alone(at[-1]) ? 1 : copies(at, end);

        if (n == 1)
            continue;
        code = code * n > UINT32_MAX ? UINT32_MAX : code * n;
        most += MOST_CODE;
    }
    code -= plain;
    return (size_t)(code < most ? code : most);
}

size_t redirect_regex_bytes(const char *text, size_t len)
{
    return FIXED + len * FOR_BYTE + redirect_regex_copies(text, len);
}
