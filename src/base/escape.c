/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Escaping for each form of the status page. All four go through the text once, character by
 * character; they differ in what they make of one character. Called by the renderers in
 * the folder status/.
 */
#include "base/escape.h"

#include <apr_lib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Most bytes that one byte of text becomes: "&quot;", "\u00ff". A character of n bytes becomes no
 * more than n times that. */
#define WORST 6

size_t htc_utf8_length(const unsigned char *s)
{
    size_t len = *s >= 0xC2 && *s < 0xE0   ? 2
                 : *s >= 0xE0 && *s < 0xF0 ? 3
                 : *s >= 0xF0 && *s < 0xF5 ? 4
                                           : 0;

    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    if ((*s == 0xE0 && s[1] < 0xA0) || (*s == 0xED && s[1] > 0x9F) || (*s == 0xF0 && s[1] < 0x90) ||
        (*s == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

static uint32_t utf8_number(const unsigned char *s, size_t len)
{
    uint32_t number = len == 2 ? s[0] & 0x1Fu : len == 3 ? s[0] & 0x0Fu : s[0] & 0x07u;

    for (size_t i = 1; i < len; i++)
        number = number << 6 | (s[i] & 0x3Fu);
    return number;
}

/* Characters that are not seen, or that move what is around them: C1 controls, soft hyphens,
 * joiners and fillers, direction marks, line separators, variation selectors, tags. Ascending. */
static const struct {
    uint32_t first, last;
} unseen[] = {{0x80, 0x9F},       {0xAD, 0xAD},      {0x34F, 0x34F},   {0x61C, 0x61C},
              {0x115F, 0x1160},   {0x17B4, 0x17B5},  {0x180B, 0x180F}, {0x200B, 0x200F},
              {0x2028, 0x202E},   {0x2060, 0x206F},  {0x3164, 0x3164}, {0xFE00, 0xFE0F},
              {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},  {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3},
              {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

static bool invisible(uint32_t number)
{
    for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]) && number >= unseen[i].first; i++) {
        if (number <= unseen[i].last)
            return true;
    }
    return false;
}

static bool control(unsigned char c)
{
    return c < 0x20 || c == 0x7F;
}

size_t htc_printable(const unsigned char *s, size_t len)
{
    unsigned char copy[5] = {0};
    size_t n;

    if (*s < 0x80)
        return !control(*s);
    memcpy(copy, s, len < 4 ? len : 4);
    n = htc_utf8_length(copy);
    return n && !invisible(utf8_number(copy, n)) ? n : 0;
}

size_t htc_utf8_number(const unsigned char *s, size_t len, uint32_t *number)
{
    unsigned char copy[5] = {0};
    size_t n;

    memcpy(copy, s, len < 4 ? len : 4);
    n = *s < 0x80 ? 1 : htc_utf8_length(copy);
    *number = n > 1 ? utf8_number(copy, n) : *s;
    return n;
}

/* One character at s, of len bytes in UTF-8 (0: one byte that is none), to `to`; returns its end.
 */
typedef char *write_fn(char *to, const unsigned char *s, size_t len);

static const char *each(apr_pool_t *pool, const char *text, write_fn *write)
{
    char *out, *p;

    if (!text)
        return NULL;
    p = out = apr_palloc(pool, strlen(text) * WORST + 3);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t len = *s < 0x80 ? 1 : htc_utf8_length(s);

        p = write(p, s, len);
        s += len ? len : 1;
    }
    *p = '\0';
    return out;
}

static char *put(char *to, const void *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return to + len;
}

static char *put_hex(char *to, const char *format, uint32_t number)
{
    char text[16];
    int len = snprintf(text, sizeof(text), format, number);

    return put(to, text, (size_t)len);
}

static char *write_json(char *to, const unsigned char *s, size_t len)
{
    if (len > 1)
        return put(to, s, len);
    if (*s == '"' || *s == '\\') {
        *to++ = '\\';
        return put(to, s, 1);
    }
    if (!len || control(*s) || *s == '<' || *s == '>' || *s == '&')
        return put_hex(to, "\\u%04x", *s);
    return put(to, s, 1);
}

const char *htc_escape_json(apr_pool_t *pool, const char *text)
{
    const char *inner = each(pool, text, write_json);
    size_t len;
    char *out;

    if (!inner)
        return NULL;
    len = strlen(inner);
    out = apr_palloc(pool, len + 3);
    out[0] = '"';
    memcpy(out + 1, inner, len);
    memcpy(out + 1 + len, "\"", 2);
    return out;
}

/* The escaped form, as \x.. or \u....; NULL when the character may stand as it is. */
static char *write_visibly(char *to, const unsigned char *s, size_t len)
{
    if (!len || (len == 1 && control(*s)))
        return put_hex(to, "\\x%02x", *s);
    if (len > 1 && invisible(utf8_number(s, len)))
        return put_hex(to, "\\u%04x", utf8_number(s, len));
    return NULL;
}

static char *write_html(char *to, const unsigned char *s, size_t len)
{
    char *seen = write_visibly(to, s, len);

    if (seen)
        return seen;
    switch (*s) {
    case '<':
        return put(to, "&lt;", 4);
    case '>':
        return put(to, "&gt;", 4);
    case '&':
        return put(to, "&amp;", 5);
    case '"':
        return put(to, "&quot;", 6);
    case '\'':
        return put(to, "&#39;", 5);
    default:
        return put(to, s, len);
    }
}

const char *htc_escape_html(apr_pool_t *pool, const char *text)
{
    return each(pool, text, write_html);
}

static char *write_line(char *to, const unsigned char *s, size_t len)
{
    char *seen = write_visibly(to, s, len);

    if (seen)
        return seen;
    return *s == '\\' ? put(to, "\\\\", 2) : put(to, s, len);
}

const char *htc_escape_line(apr_pool_t *pool, const char *text)
{
    return each(pool, text, write_line);
}

/* The format knows three escapes and no number for a character: what is no UTF-8 becomes the
 * character of the same number, as in JSON. */
static char *write_label(char *to, const unsigned char *s, size_t len)
{
    if (!len) {
        *to++ = (char)(0xC0 | *s >> 6);
        *to++ = (char)(0x80 | (*s & 0x3F));
        return to;
    }
    if (*s == '\n')
        return put(to, "\\n", 2);
    if (*s == '\\' || *s == '"')
        *to++ = '\\';
    return put(to, s, len);
}

const char *htc_escape_label(apr_pool_t *pool, const char *text)
{
    return each(pool, text, write_label);
}

static bool means_itself(char c)
{
    return apr_isalnum(c) || (c && strchr("/._-+,:@%=", c)) || (unsigned char)c >= 0x80;
}

const char *htc_shell_word(apr_pool_t *pool, const char *text)
{
    static const char quote[] = "'\"'\"'"; /* ends the quotes, has a quote in others, goes on */
    const char *s = text;
    char *word, *to;

    while (s && means_itself(*s))
        s++;
    if (!s || (!*s && s > text))
        return text;
    word = to = apr_palloc(pool, strlen(text) * (sizeof(quote) - 1) + 3);
    *to++ = '\'';
    for (s = text; *s; s++) {
        if (*s == '\'') {
            memcpy(to, quote, sizeof(quote) - 1);
            to += sizeof(quote) - 1;
        } else
            *to++ = *s;
    }
    *to++ = '\'';
    *to = '\0';
    return word;
}
