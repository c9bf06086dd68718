/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Matching templates: paths with placeholders and wildcards, see REDIRECT_TEMPLATE. No regex
 * library is asked. Called by look-ups for each candidate, once more for the groups of the rule
 * that answers, and by those who read maps, to find out what is a template.
 *
 * Here are those that are head, [span, tail], ["/?"]; template_search.c has the others. Head and
 * tail are literals and names; a name is a part of one segment. A span may be many segments, or
 * none. Each piece has one place at most where it can be, so nothing is ever tried twice:
 *
 *   - The last name of a segment ends where the segment ends, but for the literal behind it. Those
 *     ahead of it are lazy: each ends at the first place where the literal behind it stands. If what
 *     follows fits behind a later place, it fits behind the first one, too.
 *   - The tail's names lie behind its first slash. It has as many slashes as the path behind the
 *     span has, so its place is found from the path's end.
 *   - A "/?" at the end takes a slash only if what is ahead of it cannot have it.
 *
 * So the time is linear in the lengths of path and template, and literals between names of a
 * segment, which are looked for, are short. The text may be that of an image that others write: any
 * bytes will do, also others each time they are read.
 */
#include "redirect_table/template.h"

#define BETWEEN_MAX    64 /* bytes of a literal between two names of a segment */

#define NAME           "[^/]+"
#define SEGMENTS(name) "((?:" name ")(?:/(?:" name "))*)"

static const struct {
    const char *text;
    size_t len;
    piece_kind kind;
} words[] = {
#define WORD(text, kind)             \
    {                                \
        text, sizeof(text) - 1, kind \
    }
    WORD("(" NAME ")", PIECE_NAME),
    WORD("(.*)", PIECE_SPLAT),
    WORD("(?:/(.*))?", PIECE_REST),
    WORD("(" NAME "?)", PIECE_LAZY),
    WORD("(?:/(" NAME "))?", PIECE_MAYBE),
    WORD(SEGMENTS(NAME), PIECE_SOME),
    WORD("(?:/" SEGMENTS(NAME) ")?", PIECE_ANY),
    WORD("(?:/(" NAME "?))?", PIECE_MAYBE_LAZY),
    WORD(SEGMENTS(NAME "?"), PIECE_SOME_LAZY),
    WORD("(?:/" SEGMENTS(NAME "?") ")?", PIECE_ANY_LAZY),
#undef WORD
};

static piece take_word(reader *r)
{
    size_t left = (size_t)(r->end - r->at);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (words[i].len <= left && !memcmp(r->at, words[i].text, words[i].len)) {
            r->at += words[i].len;
            return (piece){words[i].kind, 0};
        }
    }
    return (piece){PIECE_BAD, 0};
}

/* Bytes that do not just stand for themselves, or may not. */
static const bool is_special[256] = {
    [0] = true,   ['.'] = true, ['['] = true,  [']'] = true, ['('] = true, [')'] = true,
    ['{'] = true, ['}'] = true, ['*'] = true,  ['+'] = true, ['?'] = true, ['|'] = true,
    ['^'] = true, ['$'] = true, ['\\'] = true, ['/'] = true};

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* What is not a word has a backslash ahead, or means nothing else in a regex. */
piece rt_take_piece(reader *r)
{
    size_t left = (size_t)(r->end - r->at);
    char c;

    if (!left)
        return (piece){PIECE_BAD, 0};
    c = *r->at;
    if (!is_special[(unsigned char)c] || (c == '/' && left != 3)) {
        r->at++;
        return (piece){PIECE_LITERAL, c};
    }
    if (c == '(')
        return take_word(r);
    if (c == '$' && left == 1) {
        r->at++;
        return (piece){PIECE_END, 0};
    }
    if (c == '/' && left == 3 && r->at[1] == '?' && r->at[2] == '$') {
        r->at += 2;
        return (piece){PIECE_SLASH, 0};
    }
    if (c == '\\') {
        if (left < 2 || is_letter_or_digit(r->at[1]) || (unsigned char)r->at[1] > 126)
            return (piece){PIECE_BAD, 0};
        r->at += 2;
        return (piece){PIECE_LITERAL, r->at[-1]};
    }
    if (c != '/')
        return (piece){PIECE_BAD, 0};
    r->at++;
    return (piece){PIECE_LITERAL, c};
}

static bool is_name(piece_kind kind)
{
    return kind == PIECE_LAZY || kind == PIECE_NAME;
}

/* Such as a template without a search may have. */
static bool is_span(piece_kind kind)
{
    return kind >= PIECE_SPLAT && kind <= PIECE_ANY;
}

/* --- is it a template ------------------------------------------------------------------------- */

/* What has been read of a text so far. */
typedef struct reading {
    unsigned groups;
    piece_kind span;  /* 0: none so far */
    piece_kind last;  /* name in this segment; 0: none */
    unsigned between; /* bytes behind it */
    bool named;       /* the segment in front of the span has names */
    bool tail;        /* something is behind the span */
    bool sealed;      /* a slash is behind the span */
} reading;

static bool see_literal(reading *t, char byte)
{
    if (t->span && !t->tail && byte != '/' && t->named)
        return false; /* what is left out would join the name */
    if (t->span == PIECE_REST)
        return false;
    t->tail = t->span != 0;
    t->between++;
    if (byte == '/') {
        t->sealed = t->span != 0;
        if (t->last == PIECE_LAZY)
            return false;
        t->last = PIECE_BAD;
    }
    return true;
}

static bool see_name(reading *t, piece_kind kind)
{
    if ((t->span && !t->sealed) || t->last == PIECE_NAME ||
        (t->last == PIECE_LAZY && t->between > BETWEEN_MAX))
        return false;
    t->last = kind;
    t->between = 0;
    t->groups++;
    return true;
}

static bool see_span(reading *t, piece_kind kind)
{
    bool slash = kind == PIECE_REST || kind == PIECE_MAYBE || kind == PIECE_ANY;

    if (t->span || t->last == PIECE_LAZY || (t->last && !slash))
        return false;
    t->span = kind;
    t->named = t->last != PIECE_BAD;
    t->last = PIECE_BAD;
    t->groups++;
    return true;
}

static bool is_simple(const char *pattern, size_t len)
{
    reader r = {pattern, pattern + len};
    reading t = {0};

    if (!len || *r.at++ != '^')
        return false;
    for (;;) {
        piece p = rt_take_piece(&r);

        if (p.kind == PIECE_END || p.kind == PIECE_SLASH)
            return t.groups && t.groups < REDIRECT_GROUPS && t.last != PIECE_LAZY;
        if (!(p.kind == PIECE_LITERAL ? see_literal(&t, p.byte)
              : is_name(p.kind)       ? see_name(&t, p.kind)
              : is_span(p.kind)       ? see_span(&t, p.kind)
                                      : false))
            return false;
    }
}

bool redirect_template_is(const char *pattern, size_t len)
{
    return is_simple(pattern, len) || rt_template_is_searched(pattern, len);
}

bool redirect_template_needs_search(const char *pattern, size_t len)
{
    return !is_simple(pattern, len) && rt_template_is_searched(pattern, len);
}

/* --- does it match ---------------------------------------------------------------------------- */

/* A path, of which the first `end` bytes are to be matched. */
typedef struct subject {
    const char *path;
    size_t end;
    bool icase;
    redirect_group *groups; /* NULL: they are not wanted */
    int max, found;         /* found: with number 0, the whole path */
    uint64_t steps;         /* bytes gone over, at most */
} subject;

static void put_group(subject *s, size_t start, size_t end)
{
    if (s->groups && s->found < s->max)
        s->groups[s->found] = (redirect_group){(int)start, (int)end};
    s->found++;
}

static void put_unset(subject *s)
{
    if (s->groups && s->found < s->max)
        s->groups[s->found] = (redirect_group){-1, -1};
    s->found++;
}

static bool same_byte(const subject *s, char byte, size_t at)
{
    return byte == s->path[at] || (s->icase && rt_fold(byte) == rt_fold(s->path[at]));
}

/* The literal at r, up to a slash, the next name or span, or the end: its length, and what is
 * behind it. What is longer than the buffer is PIECE_BAD. */
static size_t take_literal(reader *r, char literal[], size_t max, piece_kind *behind)
{
    size_t n = 0;

    for (;;) {
        reader before = *r;
        piece p = rt_take_piece(r);

        if (p.kind != PIECE_LITERAL || p.byte == '/') {
            *behind = p.kind;
            *r = before;
            return n;
        }
        if (n == max) {
            *behind = PIECE_BAD;
            return n;
        }
        literal[n++] = p.byte;
    }
}

static bool literal_at(const subject *s, const char *literal, size_t len, size_t at)
{
    for (size_t i = 0; i < len; i++) {
        if (!same_byte(s, literal[i], at + i))
            return false;
    }
    return true;
}

/* A name that begins at *at, with the literal behind it. False: it does not fit. */
static bool match_lazy(subject *s, reader *r, size_t *at)
{
    char literal[BETWEEN_MAX];
    piece_kind behind;
    size_t len = take_literal(r, literal, sizeof(literal), &behind), start = *at;
    size_t end = rt_segment_end(s->path, start, s->end);

    if (!is_name(behind))
        return false;
    for (size_t i = start + 1; i + len <= end; i++) {
        s->steps++;
        if (literal_at(s, literal, len, i)) {
            put_group(s, start, i);
            *at = i + len;
            return true;
        }
    }
    return false;
}

/* The segment's last one: the literal behind it is compared from the segment's end. */
static bool match_name(subject *s, reader *r, size_t *at)
{
    reader again = *r;
    size_t start = *at, end = rt_segment_end(s->path, start, s->end), len = 0;
    piece p;

    for (;;) {
        reader before = again;

        p = rt_take_piece(&again);
        if (p.kind != PIECE_LITERAL || p.byte == '/') {
            again = before;
            break;
        }
        len++;
    }
    if (start + len >= end)
        return false;
    put_group(s, start, end - len);
    for (size_t i = end - len; i < end; i++) {
        p = rt_take_piece(r);
        if (!same_byte(s, p.byte, i))
            return false;
    }
    *r = again;
    *at = end;
    return true;
}

/* Literals and names from *at on. @return what is behind them; PIECE_BAD: they do not match. */
static piece_kind match_pieces(subject *s, reader *r, size_t *at)
{
    for (;;) {
        piece p;

        while (r->at < r->end && *at < s->end && *r->at == s->path[*at] &&
               !is_special[(unsigned char)s->path[*at]]) {
            r->at++;
            ++*at;
        }
        p = rt_take_piece(r);
        switch (p.kind) {
        case PIECE_LITERAL:
            if (*at >= s->end || !same_byte(s, p.byte, *at))
                return PIECE_BAD;
            ++*at;
            break;
        case PIECE_LAZY:
        case PIECE_NAME:
            if (!(p.kind == PIECE_LAZY ? match_lazy(s, r, at) : match_name(s, r, at)))
                return PIECE_BAD;
            break;
        default:
            return p.kind;
        }
    }
}

/* Segments with one slash between them, none of them empty. */
static bool are_segments(const char *path, size_t at, size_t end)
{
    if (at >= end || path[at] == '/' || path[end - 1] == '/')
        return false;
    for (;;) {
        at = rt_segment_end(path, at, end);
        if (at == end)
            return true;
        if (path[++at] == '/')
            return false;
    }
}

/* The span from `at` to `end` of the path. */
static bool match_span(subject *s, piece_kind kind, size_t at, size_t end)
{
    bool slash = kind == PIECE_REST || kind == PIECE_MAYBE || kind == PIECE_ANY;

    if (slash && at == end) {
        put_unset(s);
        return true;
    }
    if (slash && s->path[at++] != '/')
        return false;
    put_group(s, at, end);
    if (kind == PIECE_MAYBE)
        return at < end && rt_segment_end(s->path, at, end) == end;
    return kind == PIECE_SPLAT || kind == PIECE_REST || are_segments(s->path, at, end);
}

/* Where the tail at r begins in the path, at `least` or behind it. False: nowhere. */
static bool find_tail(subject *s, reader r, size_t least, size_t *start)
{
    size_t before = 0, slashes = 0, at = s->end;

    s->steps += (size_t)(r.end - r.at);

    for (;;) {
        piece p = rt_take_piece(&r);

        if (p.kind == PIECE_END || p.kind == PIECE_SLASH)
            break;
        if (p.kind == PIECE_BAD)
            return false;
        if (p.kind == PIECE_LITERAL && p.byte == '/')
            slashes++;
        else if (!slashes)
            before++;
    }
    while (slashes) {
        const char *slash = at > least ? memrchr(s->path + least, '/', at - least) : NULL;

        if (!slash)
            return false;
        at = (size_t)(slash - s->path);
        slashes--;
    }
    if (at - least < before)
        return false;
    *start = at - before;
    return true;
}

/* Without "/?" at the end. */
static bool match_all(subject *s, reader r)
{
    const char *begin = r.at;
    size_t at = 0, tail;
    piece_kind behind = match_pieces(s, &r, &at);

    if (is_span(behind)) {
        if (!find_tail(s, r, at, &tail) || !match_span(s, behind, at, tail)) {
            s->steps += s->end;
            return false;
        }
        at = tail;
        behind = match_pieces(s, &r, &at);
    }
    s->steps += at + (size_t)(r.at - begin);
    return (behind == PIECE_END || behind == PIECE_SLASH) && at == s->end;
}

/* How a template is matched up to the path's end. */
typedef bool match_fn(subject *s, reader r);

static bool match_with_search(subject *s, reader r)
{
    int n = rt_template_search(r, s->icase, s->path, s->end, s->groups, s->max, &s->steps);

    if (n)
        s->found = n;
    return n > 0;
}

int rt_template_match(const char *pattern, size_t len, unsigned flags, const char *path,
                      size_t path_len, redirect_group *groups, int max, uint64_t *steps)
{
    subject s = {path, path_len, flags & REDIRECT_ICASE, groups, max, 0, RT_TEMPLATE_STEPS};
    reader r = {pattern + 1, pattern + len};
    match_fn *match = flags & REDIRECT_SEARCHED ? match_with_search : match_all;
    bool matched;

    if (!len)
        return 0;
    put_group(&s, 0, path_len);
    matched = match(&s, r);
    if (!matched && path_len && path[path_len - 1] == '/' && len >= 3 &&
        !memcmp(pattern + len - 3, "/?$", 3)) {
        s.end--;
        s.found = 1;
        matched = match(&s, r);
    }
    if (steps)
        *steps -= s.steps < *steps ? s.steps : *steps;
    return matched ? s.found : 0;
}

int redirect_template_match(const char *pattern, size_t len, unsigned flags, const char *path,
                            size_t path_len, redirect_group *groups, int max)
{
    return rt_template_match(pattern, len, flags, path, path_len, groups, max, NULL);
}
