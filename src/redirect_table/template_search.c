/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Templates in which more than one piece may have several places, as a source with two wildcards:
 * what they match, and their groups, is that of their regex. Called by template.c.
 *
 * A template is taken apart into its parts, each a group and the literal behind it. The parts are
 * tried from the first one on, each with the ends that a regex library would try, in that order.
 * Whether what follows can match from a place of the path does not depend on how one got there. So
 * a place that has failed for a part is noted in a bit and not tried again: each part is at each
 * place once at most. The last part ends where the path ends, but for the literal behind it, so it
 * is not searched. The time is linear in the path's length, with the lengths of the literals
 * between two parts as a factor at most; these are short.
 */
#include "redirect_table/template.h"
#include "base/base.h"

#define PARTS       (REDIRECT_GROUPS - 1)
#define LITERAL_MAX 255 /* bytes between two parts */
#define WORDS       (RT_TEMPLATE_PATH / 64 + 1)

/* What a part's group matches. */
typedef enum body {
    BODY_NAME,     /* one segment or a part of it */
    BODY_SEGMENTS, /* one or more */
    BODY_BYTES     /* any */
} body;

typedef struct part {
    body body;
    bool optional; /* with a slash ahead, or nothing */
    bool lazy;
    uint16_t at, len; /* of the literal behind it, but for the last part's */
} part;

typedef struct plan {
    part parts[PARTS];
    unsigned n;
    size_t literals_len;
    char literals[PARTS * LITERAL_MAX];
    reader tail; /* the literal behind the last part */
    size_t tail_len;
} plan;

static bool part_of(piece_kind kind, part *p)
{
    *p = (part){0};
    switch (kind) {
    case PIECE_LAZY:
    case PIECE_NAME:
        p->body = BODY_NAME;
        p->lazy = kind == PIECE_LAZY;
        return true;
    case PIECE_SPLAT:
    case PIECE_REST:
        p->body = BODY_BYTES;
        p->optional = kind == PIECE_REST;
        return true;
    case PIECE_MAYBE:
    case PIECE_MAYBE_LAZY:
        p->body = BODY_NAME;
        p->optional = true;
        p->lazy = kind == PIECE_MAYBE_LAZY;
        return true;
    case PIECE_SOME:
    case PIECE_ANY:
    case PIECE_SOME_LAZY:
    case PIECE_ANY_LAZY:
        p->body = BODY_SEGMENTS;
        p->optional = kind == PIECE_ANY || kind == PIECE_ANY_LAZY;
        p->lazy = kind == PIECE_SOME_LAZY || kind == PIECE_ANY_LAZY;
        return true;
    default:
        return false;
    }
}

/* The part that begins with `kind`, and the literal behind it. False: it is too long. *behind: what
 * follows. */
static bool take_part(plan *pl, reader *r, piece_kind kind, piece_kind *behind)
{
    part *p = &pl->parts[pl->n];
    size_t len = 0;

    if (pl->n == PARTS || !part_of(kind, p))
        return false;
    pl->n++;
    pl->tail = *r;
    p->at = (uint16_t)pl->literals_len;
    for (;;) {
        piece next = rt_take_piece(r);

        if (next.kind != PIECE_LITERAL) {
            *behind = next.kind;
            break;
        }
        if (len < LITERAL_MAX)
            pl->literals[pl->literals_len + len] = next.byte;
        len++;
    }
    pl->tail_len = len;
    if (*behind == PIECE_END || *behind == PIECE_SLASH)
        return true;
    p->len = (uint16_t)len;
    pl->literals_len += len;
    return len <= LITERAL_MAX;
}

/* All parts; the first one is `kind`. */
static bool take_parts(plan *pl, reader *r, piece_kind kind)
{
    pl->n = 0;
    pl->literals_len = 0;
    while (kind != PIECE_END && kind != PIECE_SLASH) {
        if (!take_part(pl, r, kind, &kind))
            return false;
    }
    return pl->n > 0;
}

bool rt_template_is_searched(const char *pattern, size_t len)
{
    reader r = {pattern + 1, pattern + len};
    plan pl;
    piece p;

    if (!len || *pattern != '^')
        return false;
    do
        p = rt_take_piece(&r);
    while (p.kind == PIECE_LITERAL);
    return take_parts(&pl, &r, p.kind);
}

/* --- does it match ---------------------------------------------------------------------------- */

typedef struct search {
    const plan *plan;
    const char *path;
    size_t end;
    bool icase;
    size_t last_end; /* of the last part */
    size_t free;     /* no slash from here on to last_end, */
    size_t single;   /* and no two of them, or one at the end; more than last_end: there is one */
    uint64_t steps;
    redirect_group groups[PARTS];
    uint64_t *failed; /* a bit for each place; WORDS for each part behind the first, in front of the
                       * last */
} search;

static bool same_byte(const search *s, char byte, size_t at)
{
    return byte == s->path[at] || (s->icase && rt_fold(byte) == rt_fold(s->path[at]));
}

/* The literals from r on, up to another piece or the path's end; *at is moved behind them. */
static piece_kind match_literals(const search *s, reader *r, size_t *at)
{
    for (;; ++*at) {
        piece p = rt_take_piece(r);

        if (p.kind != PIECE_LITERAL)
            return p.kind;
        if (*at >= s->end || !same_byte(s, p.byte, *at))
            return PIECE_BAD;
    }
}

/* True when it is new that this place failed. */
static bool note_failed(search *s, unsigned n, size_t at)
{
    uint64_t *word, bit = UINT64_C(1) << at % 64;

    s->steps++;
    if (!n)
        return true;
    word = &s->failed[(n - 1) * WORDS + at / 64];
    if (*word & bit)
        return false;
    *word |= bit;
    return true;
}

static bool match_part(search *s, unsigned n, size_t at);

/* Part n ends here: does what follows match? */
static bool match_behind(search *s, unsigned n, size_t at)
{
    const part *p = &s->plan->parts[n];
    const char *literal = s->plan->literals + p->at;

    if (s->last_end < at || s->last_end - at < p->len)
        return false;
    for (size_t i = 0; i < p->len; i++) {
        if (!same_byte(s, literal[i], at + i)) {
            s->steps += i;
            return false;
        }
    }
    s->steps += p->len;
    return match_part(s, n + 1, at + p->len);
}

static bool end_at(search *s, unsigned n, size_t start, size_t at)
{
    s->groups[n] = (redirect_group){(int)start, (int)at};
    return match_behind(s, n, at);
}

/* Behind the last place at which the part that begins at `start` can end, and which did not fail.
 * With `try_inside` those inside of segments are tried on the way; *matched: one of them did. */
static size_t find_ends(search *s, unsigned n, size_t start, bool try_inside, bool *matched)
{
    const part *p = &s->plan->parts[n];
    size_t at = start + (p->body != BODY_BYTES);

    for (; at <= s->last_end; at++) {
        bool segment_ends = at == s->last_end || s->path[at] == '/';

        if (p->body == BODY_NAME && s->path[at - 1] == '/')
            break;
        if (p->body == BODY_SEGMENTS && s->path[at - 1] == '/') {
            if (segment_ends)
                break;
            continue;
        }
        if (!note_failed(s, n, at))
            break;
        if (try_inside && (p->body == BODY_NAME || !segment_ends) && end_at(s, n, start, at)) {
            *matched = true;
            break;
        }
    }
    return at;
}

/* A group that begins at `start` and is not the last. */
static bool match_body(search *s, unsigned n, size_t start)
{
    const part *p = &s->plan->parts[n];
    bool matched = false;
    size_t at, least = start + (p->body != BODY_BYTES);

    if (p->body != BODY_BYTES && (start >= s->last_end || s->path[start] == '/'))
        return false;
    at = find_ends(s, n, start, p->lazy, &matched);
    if (matched)
        return true;
    if (p->lazy && p->body == BODY_NAME)
        return false;
    while (at-- > least) {
        bool inside = at < s->last_end && s->path[at] != '/';

        s->steps++;
        if ((p->body == BODY_SEGMENTS && s->path[at - 1] == '/') || (p->lazy && inside))
            continue;
        if (end_at(s, n, start, at))
            return true;
    }
    return false;
}

/* The last part ends where it must. */
static bool match_last_body(search *s, unsigned n, size_t start)
{
    const part *p = &s->plan->parts[n];

    s->groups[n] = (redirect_group){(int)start, (int)s->last_end};
    s->steps++;
    if (start > s->last_end)
        return false;
    if (p->body == BODY_BYTES)
        return true;
    return start < s->last_end && s->path[start] != '/' &&
           start >= (p->body == BODY_NAME ? s->free : s->single);
}

static bool match_part(search *s, unsigned n, size_t at)
{
    const part *p = &s->plan->parts[n];
    bool last = n + 1 == s->plan->n;
    bool slash = !p->optional || (at < s->last_end && s->path[at] == '/');

    if (slash &&
        (last ? match_last_body(s, n, at + p->optional) : match_body(s, n, at + p->optional)))
        return true;
    if (!p->optional)
        return false;
    s->groups[n] = (redirect_group){-1, -1};
    return last ? at == s->last_end : match_behind(s, n, at);
}

/* What match_last_body() asks. */
static void look_at_end(search *s)
{
    size_t at = s->last_end;

    s->single = at && s->path[at - 1] == '/' ? at + 1 : 0;
    while (at && s->path[at - 1] != '/')
        at--;
    s->free = at;
    for (; at > 1 && !s->single; at--) {
        if (s->path[at - 1] == '/' && s->path[at - 2] == '/')
            s->single = at;
    }
    s->steps += s->last_end - at;
}

static HTC_APART bool search_parts(search *s, size_t at)
{
    uint64_t failed[(PARTS - 2) * WORDS];
    size_t words = s->end / 64 + 1;

    for (unsigned n = 1; n + 1 < s->plan->n; n++)
        memset(failed + (n - 1) * WORDS, 0, words * sizeof(*failed));
    s->failed = failed;
    return match_part(s, 0, at);
}

int rt_template_search(reader r, bool icase, const char *path, size_t end, redirect_group *groups,
                       int max, uint64_t *steps)
{
    search s = {.path = path, .end = end, .icase = icase};
    size_t at = 0, tail;
    plan pl;
    piece_kind first = match_literals(&s, &r, &at);

    *steps += at;
    if (first == PIECE_BAD || end > RT_TEMPLATE_PATH || !take_parts(&pl, &r, first) ||
        pl.tail_len > end - at)
        return 0;
    s.plan = &pl;
    s.last_end = tail = end - pl.tail_len;
    *steps += pl.literals_len + pl.tail_len;
    if (match_literals(&s, &pl.tail, &tail) == PIECE_BAD)
        return 0;
    look_at_end(&s);
    if (!search_parts(&s, at))
        pl.n = 0;
    *steps += s.steps;
    for (unsigned i = 0; groups && i < pl.n && (int)i + 1 < max; i++)
        groups[i + 1] = s.groups[i];
    return pl.n ? (int)pl.n + 1 : 0;
}
