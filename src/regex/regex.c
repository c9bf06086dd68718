/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From what is known of a whole pattern (regex/parse.c) to the claim about it that callers
 * get. Called by whatever folds lines with regexes into redirect tables, and by htcachectl.
 */
#include "regex/internal.h"

#include <apr_strings.h>

#include <string.h>

#define PATTERN_MAX    65536
#define STRINGS_MAX    256
#define STRINGS_NORMAL 16
#define INNER_NORMAL   4

/* All that one look at a pattern needs. */
typedef struct reading {
    const char *pattern;
    size_t len;
    unsigned flags;
    unsigned strings; /* most of them */
    regex_work work;
    regex_part part;  /* the whole */
    apr_pool_t *pool; /* for the facts */
    redirect_regex_facts *facts;
} reading;

/* Strings for the caller */

static void give(const regex_set *set, apr_pool_t *pool, unsigned *count,
                 const redirect_regex_string **strings)
{
    redirect_regex_string *out = apr_palloc(pool, set->count * sizeof(*out));

    for (unsigned i = 0; i < set->count; i++) {
        out[i].text = apr_pstrmemdup(pool, set->texts[i].bytes, set->texts[i].len);
        out[i].len = set->texts[i].len;
        out[i].rest = set->texts[i].tail == REGEX_REST;
    }
    *count = set->count;
    *strings = out;
}

static void claim(reading *r, redirect_regex_kind kind, const regex_set *set)
{
    r->facts->kind = kind;
    give(set, r->pool, &r->facts->count, &r->facts->strings);
}

/* Texts that say nothing new */

static bool begins_with(const regex_text *text, const regex_text *with)
{
    return text->len >= with->len && !memcmp(text->bytes, with->bytes, with->len);
}

/* True when the regex matches everything that `text` stands for, because of `by` alone. */
static bool covered(const regex_text *text, const regex_text *by)
{
    if (by->superset || !begins_with(text, by))
        return false;
    if (by->tail == REGEX_REST)
        return true;
    return text->len == by->len && text->tail < REGEX_REST && by->tail < REGEX_REST &&
           (by->tail == REGEX_END_NL || text->tail == REGEX_END);
}

static bool has_prefix(const regex_text *text, const regex_text *by)
{
    return begins_with(text, by);
}

static bool holds(const regex_text *text, const regex_text *by)
{
    return !by->len || memmem(text->bytes, text->len, by->bytes, by->len) != NULL;
}

/* Without the texts that another one covers; of two that cover each other the first stays. */
static regex_set reduce(reading *r, const regex_set *set,
                        bool (*covers)(const regex_text *text, const regex_text *by))
{
    regex_text *texts = apr_palloc(r->work.pool, (set->count + 1) * sizeof(*texts));
    unsigned count = 0;

    for (unsigned i = 0; i < set->count; i++) {
        const regex_text *text = &set->texts[i];
        bool needed = true;

        for (unsigned j = 0; j < set->count && needed; j++) {
            const regex_text *by = &set->texts[j];

            needed = i == j || !covers(text, by) || (i < j && covers(by, text));
        }
        if (needed)
            texts[count++] = *text;
    }
    return (regex_set){texts, count};
}

/* Exact claims */

static unsigned count_tails(const regex_set *set, regex_tail tail)
{
    unsigned count = 0;

    for (unsigned i = 0; i < set->count; i++)
        count += set->texts[i].tail == tail;
    return count;
}

static bool exact(const regex_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->texts[i].superset || set->texts[i].tail == REGEX_UNKNOWN)
            return false;
    }
    return true;
}

static const char *with_newline(reading *r, const regex_text *text)
{
    char *bytes = apr_palloc(r->work.pool, text->len + 1);

    memcpy(bytes, text->bytes, text->len);
    bytes[text->len] = '\n';
    return bytes;
}

/* Write out each final newline that is allowed, because it is not for every string. */
static regex_set spell_newlines(reading *r, const regex_set *set)
{
    regex_text *texts = apr_palloc(r->work.pool, 2 * set->count * sizeof(*texts));
    unsigned count = 0;

    for (unsigned i = 0; i < set->count; i++) {
        regex_text text = set->texts[i];
        bool newline = text.tail == REGEX_END_NL;

        if (newline)
            text.tail = REGEX_END;
        texts[count++] = text;
        if (newline) {
            text.bytes = with_newline(r, &text);
            text.len++;
            texts[count++] = text;
        }
    }
    return reduce(r, &(regex_set){texts, count}, covered);
}

static bool claim_exact(reading *r, const regex_set *set)
{
    regex_set strings = *set;
    unsigned rest;

    if (r->part.ways > REGEX_WAYS_EXACT || !exact(set))
        return false;
    if (count_tails(set, REGEX_END) && count_tails(set, REGEX_END_NL))
        strings = spell_newlines(r, set);
    rest = count_tails(&strings, REGEX_REST);
    if (strings.count > r->strings)
        return false;
    r->facts->final_newline = count_tails(&strings, REGEX_END_NL) > 0;
    if (!rest)
        claim(r, REDIRECT_REGEX_FINITE, &strings);
    else if (rest == strings.count)
        claim(r, REDIRECT_REGEX_FINITE_PREFIX, &strings);
    else
        claim(r, REDIRECT_REGEX_FINITE_MIXED, &strings);
    return true;
}

/* A match of nothing, somewhere, is always there. */
static bool claim_everything(reading *r, const regex_set *heads)
{
    static const regex_text any = {"", 0, REGEX_REST, false, false};

    if (r->part.ways > REGEX_WAYS_EXACT)
        return false;
    for (unsigned i = 0; i < heads->count; i++) {
        const regex_text *head = &heads->texts[i];

        if (!head->len && !head->superset && head->tail != REGEX_UNKNOWN && !head->at_start) {
            claim(r, REDIRECT_REGEX_FINITE_PREFIX, &(regex_set){&any, 1});
            return true;
        }
    }
    return false;
}

/* Claims that are less than exact */

static bool claim_prefixed(reading *r, const regex_set *heads)
{
    regex_set strings = redirect_regex_shorten(&r->work, heads, r->strings);
    regex_set inner = redirect_regex_contained(&r->work, &r->part);
    uint32_t shortest;

    strings = reduce(r, &strings, has_prefix);
    shortest = redirect_regex_shortest(&strings);
    if (!shortest || strings.count > r->strings)
        return false;
    claim(r, REDIRECT_REGEX_PREFIXED, &strings);
    if (redirect_regex_shortest(&inner) > shortest) {
        inner = reduce(r, &inner, holds);
        give(&inner, r->pool, &r->facts->inner_count, &r->facts->inner);
    }
    return true;
}

static void claim_floating(reading *r)
{
    regex_set inner = redirect_regex_contained(&r->work, &r->part);

    if (!redirect_regex_shortest(&inner))
        return;
    inner = reduce(r, &inner, holds);
    claim(r, REDIRECT_REGEX_FLOATING, &inner);
}

static bool all_at_start(const regex_set *heads)
{
    for (unsigned i = 0; i < heads->count; i++) {
        if (!heads->texts[i].at_start)
            return false;
    }
    return heads->count > 0;
}

/* Behind the pattern's end anything may follow. With `prefixes` its texts are looked at as nothing
 * but that. */
static regex_set opened(reading *r, const regex_set *heads, bool prefixes)
{
    regex_text *texts = apr_palloc(r->work.pool, (heads->count + 1) * sizeof(*texts));

    for (unsigned i = 0; i < heads->count; i++) {
        texts[i] = heads->texts[i];
        if (prefixes)
            texts[i].tail = REGEX_UNKNOWN;
        else if (texts[i].tail == REGEX_OPEN)
            texts[i].tail = REGEX_REST;
    }
    return (regex_set){texts, heads->count};
}

static void conclude(reading *r)
{
    const regex_set *heads = &r->part.heads;
    regex_set strings;

    r->facts->anchored = all_at_start(heads);
    if (claim_everything(r, heads))
        return;
    if (r->facts->anchored) {
        strings = opened(r, heads, false);
        strings = reduce(r, &strings, covered);
        if (claim_exact(r, &strings))
            return;
        strings = opened(r, heads, true);
        if (claim_prefixed(r, &strings))
            return;
    }
    claim_floating(r);
}

/* Reading */

static void read_with(reading *r, regex_reader *reader, unsigned max_class, bool fold)
{
    r->work.max_class = max_class;
    r->work.fold = fold;
    r->work.wide_class = false;
    r->work.spent = 0;
    apr_pool_clear(r->work.pool);
    *reader = (regex_reader){
        .at = r->pattern, .end = r->pattern + r->len, .work = &r->work, .groups_known = true};
    reader->run = apr_palloc(r->work.pool, r->len + 1);
    r->part = redirect_regex_parse(reader, r->flags);
}

/* One reading; if there turns out to be a caseless letter, again from the start. */
static void read_pattern(reading *r, unsigned max_class)
{
    regex_reader reader;

    read_with(r, &reader, max_class, false);
    if (reader.needs_fold)
        read_with(r, &reader, max_class, true);
    memset(r->facts, 0, sizeof(*r->facts));
    r->facts->groups = reader.lost || !reader.groups_known ? -1 : reader.groups;
    r->facts->has_groups = reader.lost || reader.groups > 0;
    r->facts->caseless = r->work.fold;
    if (!reader.lost)
        conclude(r);
}

/* A class that does not make the claim exact makes many strings out of one, a byte longer. So try
 * without listing it, if that leaves the same kind of claim. */
static void read_narrowly(reading *r)
{
    redirect_regex_facts wide = *r->facts;

    read_pattern(r, REGEX_NARROW_CLASS);
    if (r->facts->kind < wide.kind)
        *r->facts = wide;
}

static unsigned within(unsigned value, unsigned normal)
{
    if (!value)
        return normal;
    return value < STRINGS_MAX ? value : STRINGS_MAX;
}

void redirect_regex_read(const char *pattern, size_t len, unsigned flags,
                         const redirect_regex_limits *limits, apr_pool_t *pool,
                         redirect_regex_facts *facts)
{
    reading r = {.pattern = pattern,
                 .len = len,
                 .flags = flags & (REDIRECT_REGEX_ICASE | REDIRECT_REGEX_DOTALL |
                                   REDIRECT_REGEX_DOLLAR_ENDONLY | REDIRECT_REGEX_MULTILINE),
                 .pool = pool,
                 .facts = facts};

    *facts = (redirect_regex_facts){.groups = -1, .has_groups = true};
    if (len > PATTERN_MAX || memchr(pattern, 0, len))
        return;
    r.strings = within(limits ? limits->strings : 0, STRINGS_NORMAL);
    r.work.max_inner = within(limits ? limits->inner : 0, INNER_NORMAL);
    r.work.max_texts =
        4 * r.strings < 32 ? 32 : 4 * r.strings; /* some turn out to be superfluous */
    if (apr_pool_create(&r.work.pool, pool) != APR_SUCCESS)
        return;
    read_pattern(&r, r.strings);
    if (facts->kind < REDIRECT_REGEX_FINITE_MIXED && r.work.wide_class)
        read_narrowly(&r);
    apr_pool_destroy(r.work.pool);
}
