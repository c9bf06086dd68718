/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The text format of redirect maps: one row a line, words with blanks between them. mod_rewrite's
 * txt maps are a subset of it. Every byte is looked at once: the loop that finds the end of a word
 * also finds out what kinds of bytes it has.
 */
#include "maps/internal.h"

#include <string.h>
#include <strings.h>

#define BLANK(c)   ((c) == ' ' || (c) == '\t' || (c) == '\r')

#define OPTION_MAX 13 /* "unacceptable=" */

/* A quoted word; r->at is behind the opening quote. It is copied only if it has backslashes to be
 * taken away. */
static map_word_kind quoted_word(map_reader *r, const char *eol, char *copy, map_text *word)
{
    size_t len = 0;
    const char *start = r->at;
    bool escapes = false;

    for (; r->at < eol && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && r->at + 1 < eol && (r->at[1] == '"' || r->at[1] == '\\')) {
            r->at++;
            escapes = true;
        }
    }
    if (r->at == eol || (r->at + 1 < eol && !BLANK(r->at[1])))
        return MAP_BAD_WORD;
    *word = (map_text){start, (size_t)(r->at - start), 0};
    r->at++;
    if (escapes && word->len <= REDIRECT_MAX_TEXT) {
        for (const char *s = start; s < start + word->len; s++) {
            if (*s == '\\' && (s[1] == '"' || s[1] == '\\'))
                s++;
            copy[len++] = *s;
        }
        *word = (map_text){copy, len, 0};
    }
    *word = redirect_map_text_of(word->s, word->len);
    return MAP_WORD_QUOTED;
}

/* Eight bytes at once: a bit is set for each byte of x that equals that of y. Exact up to the first
 * one that does, which is all that is asked here (Bit Twiddling Hacks, "determine if a word has a
 * zero byte"). */
#define ONES        UINT64_C(0x0101010101010101)
#define HIGHS       (ONES << 7)
#define EQUAL(x, c) ((((x) ^ ONES * (c)) - ONES) & ~((x) ^ ONES * (c)) & HIGHS)

/* True when none of the eight bytes at s ends a word or needs special treatment. */
static bool is_plain(const char *s)
{
    uint64_t x;

    memcpy(&x, s, sizeof(x));
    return !((x | (x - ONES * 0x21) | EQUAL(x, 0x7F) | EQUAL(x, '%') | EQUAL(x, '?') |
              EQUAL(x, '#') | EQUAL(x, '\\')) &
             HIGHS);
}

bool redirect_map_word(map_reader *r, const char *eol, map_text *word)
{
    const char *s = r->at, *start;
    unsigned seen = 0, class;

    while (s < eol && BLANK(*s))
        s++;
    r->at = s;
    if (s == eol || *s == '#')
        return false;
    for (start = s; s < eol;) {
        if (eol - s >= 8 && is_plain(s)) {
            s += 8;
            continue;
        }
        for (const char *stop = eol - s < 8 ? eol : s + 8; s < stop; s++) {
            class = redirect_map_class[(unsigned char)*s];
            if (class & (MAP_SPACE | MAP_CONTROL) && BLANK(*s))
                goto end;
            seen |= class;
        }
    }
end:
    r->at = s;
    *word = (map_text){start, (size_t)(s - start), seen};
    return true;
}

map_word_kind redirect_map_next_word(map_reader *r, const char *eol, char *copy, map_text *word)
{
    while (r->at < eol && BLANK(*r->at))
        r->at++;
    if (r->at < eol && *r->at == '"') {
        r->at++;
        return quoted_word(r, eol, copy, word);
    }
    return redirect_map_word(r, eol, word) ? MAP_WORD : MAP_NO_WORD;
}

bool redirect_map_is_option(map_text word)
{
    static const char *const keys[] = {
        "query=",   "case=",       "slash=",       "subpath=",  "status=",  "host=",
        "strip=",   "format=",     "accept=",      "language=", "country=", "cookie=",
        "header=",  "method=",     "parameter=",   "!cookie=",  "!header=", "!country=",
        "!method=", "!parameter=", "unacceptable="};

    if (!memchr(word.s, '=', word.len < OPTION_MAX ? word.len : OPTION_MAX))
        return false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        size_t len = strlen(keys[i]);

        if (word.len > len && !strncasecmp(word.s, keys[i], len))
            return true;
    }
    return false;
}

/* A word behind the source that is not the target: a status, or an option. */
static bool take_extra(map_reader *r, map_row *row, redirect_map_options *own, map_text word)
{
    int status = redirect_map_status_of(word);
    bool taken;

    if (status && !row->status) {
        row->status = status;
        return true;
    }
    if (!redirect_map_condition_word(r, word, &taken))
        return false;
    if (taken)
        return true;
    if (redirect_map_is_option(word)) {
        if (row->options != own) {
            *own = *r->options;
            own->status = 0;
            row->options = own;
        }
        if (!redirect_map_row_option(r, own, word))
            return false;
        if (own->status)
            row->status = own->status;
        return true;
    }
    return redirect_map_fail(r,
                             "'%s' is neither a status nor an option; put values with blanks in "
                             "quotes, and a blank before '#'",
                             redirect_map_quote(r, word.s, word.len));
}

static bool take_rest(map_reader *r, const char *eol, map_row *row, redirect_map_options *own)
{
    map_word_kind kind;
    map_text word = {0};

    for (int i = 0;
         (kind = redirect_map_next_word(r, eol, i ? r->target : r->expanded, &word)) != MAP_NO_WORD;
         i++) {
        bool nothing = i == 0 && word.len == 1 && word.s[0] == '-';

        if (kind == MAP_BAD_WORD)
            return redirect_map_fail(r, "a quote is not closed, or has no blank behind it");
        if (i == 0 && (kind == MAP_WORD_QUOTED || (!nothing && !redirect_map_status_of(word) &&
                                                   !redirect_map_is_option(word))))
            row->target = word;
        else if (!nothing && !take_extra(r, row, own, word))
            return false;
    }
    return true;
}

static void read_line(map_reader *r, const char *eol)
{
    redirect_map_options own;
    map_row row = {.options = r->options, .rank = MAP_RANK_PLAIN};
    map_word_kind kind = redirect_map_next_word(r, eol, r->pattern, &row.source);

    if (kind == MAP_NO_WORD)
        return;
    if (kind == MAP_BAD_WORD) {
        redirect_map_fail(r, "a quote is not closed, or has no blank behind it");
        return;
    }
    /* This pass is for few rows, if any. */
    if (r->rank == MAP_RANK_QUERY && !(row.source.seen & MAP_QUESTION))
        return;
    if (take_rest(r, eol, &row, &own))
        redirect_map_add(r, &row);
}

/* Lines end in LF, or CR LF; in CR if there is no LF at all. */
apr_status_t redirect_map_read_text(map_reader *r)
{
    char end_of_line = memchr(r->at, '\n', (size_t)(r->end - r->at)) ? '\n' : '\r';

    while (r->at < r->end && redirect_map_begin_row(r)) {
        const char *eol = memchr(r->at, end_of_line, (size_t)(r->end - r->at));

        if (!eol)
            eol = r->end;
        read_line(r, eol);
        r->at = eol < r->end ? eol + 1 : eol;
        r->line++;
    }
    return APR_SUCCESS;
}
