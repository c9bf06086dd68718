/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Choosing the literals that patterns are found by. A table finds a pattern by the whole literal
 * that its matches begin with, or by the first 8 or 4 bytes of one that they contain. So what
 * counts is how many patterns of the list have the same beginning, or these bytes in the literal.
 * Called before a table is built.
 */
#include "tool/pattern_keys.h"

#include "regex/regex.h"

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>

#define WIDE        8
#define NARROW      4
#define WINDOWS_MAX 64 /* of a literal: the last ones */
#define FEW         4  /* patterns with the same beginning: one literal is as good as another */

/* What is known of a pattern. */
typedef struct literals {
    const char *begin; /* NULL: none; lower case if caseless */
    size_t begin_len;
    const char *inner; /* NULL: none */
    size_t inner_len;
    bool caseless;
} literals;

typedef struct keys {
    apr_pool_t *pool;
    apr_hash_t *begins;  /* to how many patterns begin so: unsigned */
    apr_hash_t *windows; /* to how many have these bytes in `inner` */
} keys;

static unsigned *count_of(apr_hash_t *hash, const char *text, size_t len)
{
    unsigned *count = apr_hash_get(hash, text, (apr_ssize_t)len);

    if (!count) {
        count = apr_pcalloc(apr_hash_pool_get(hash), sizeof(*count));
        apr_hash_set(hash, text, (apr_ssize_t)len, count);
    }
    return count;
}

/* A pattern that is caseless from its beginning on may be compiled caseless as well. */
static bool all_caseless(const char *pattern)
{
    return !strncmp(pattern, "(?i)", 4) || !strncmp(pattern, "^(?i)", 5);
}

static void take(literals *l, const redirect_regex_facts *facts)
{
    if (facts->kind == REDIRECT_REGEX_FLOATING) {
        l->inner = facts->strings[0].text;
        l->inner_len = facts->strings[0].len;
        return;
    }
    l->begin = facts->strings[0].text;
    l->begin_len = facts->strings[0].len;
    if (facts->inner_count == 1) {
        l->inner = facts->inner[0].text;
        l->inner_len = facts->inner[0].len;
    }
}

static void read_pattern(const redirect_rule *rule, literals *l, apr_pool_t *pool)
{
    static const redirect_regex_limits one_of_each = {1, 1};
    unsigned flags = REDIRECT_REGEX_DEFAULT;
    redirect_regex_facts facts;

    *l = (literals){0};
    if (rule->flags & REDIRECT_ICASE)
        flags |= REDIRECT_REGEX_ICASE;
    redirect_regex_read(rule->pattern, rule->pattern_len, flags, &one_of_each, pool, &facts);
    l->caseless = facts.caseless;
    if (facts.kind != REDIRECT_REGEX_NONE && facts.count == 1 &&
        (!facts.caseless || rule->flags & REDIRECT_ICASE || all_caseless(rule->pattern)))
        take(l, &facts);
}

static size_t width_of(const literals *l)
{
    return l->inner_len >= WIDE ? WIDE : NARROW;
}

/* The first place in the literal whose bytes are counted. It has at least one. */
static size_t first_window(const literals *l)
{
    size_t n = l->inner_len - width_of(l) + 1;

    return n > WINDOWS_MAX ? n - WINDOWS_MAX : 0;
}

static void count(keys *k, const literals *l)
{
    size_t width = width_of(l);

    if (l->begin)
        ++*count_of(k->begins, l->begin, l->begin_len);
    for (size_t i = first_window(l); l->inner_len >= NARROW && i + width <= l->inner_len; i++)
        ++*count_of(k->windows, l->inner + i, width);
}

/* Where in the literal the rarest bytes stand; of several the last. */
static size_t rarest(const keys *k, const literals *l, unsigned *least)
{
    size_t width = width_of(l), at = first_window(l);

    *least = UINT32_MAX;
    for (size_t i = at; i + width <= l->inner_len; i++) {
        unsigned n = *count_of(k->windows, l->inner + i, width);

        if (n <= *least) {
            *least = n;
            at = i;
        }
    }
    return at;
}

static void set_key(redirect_rule *rule, const literals *l, const char *source, size_t len,
                    unsigned flags)
{
    rule->source = source;
    rule->source_len = len;
    rule->flags = (rule->flags & ~(unsigned)REDIRECT_FLOATING) | flags;
    if (l->caseless)
        rule->flags |= REDIRECT_ICASE;
}

static void choose(const keys *k, const literals *l, redirect_rule *rule)
{
    unsigned same = l->begin ? *count_of(k->begins, l->begin, l->begin_len) : UINT32_MAX, least;
    size_t at;

    if (l->inner_len >= NARROW && same > FEW) {
        at = rarest(k, l, &least);
        if (least < same) {
            set_key(rule, l, l->inner + at, l->inner_len - at, REDIRECT_FLOATING);
            return;
        }
    }
    if (l->begin)
        set_key(rule, l, l->begin, l->begin_len, 0);
}

void tool_key_patterns(redirect_rule *rules, size_t n, apr_pool_t *pool)
{
    keys k = {pool, apr_hash_make(pool), apr_hash_make(pool)};
    literals *all = apr_palloc(pool, (n + 1) * sizeof(*all));

    for (size_t i = 0; i < n; i++) {
        if (rules[i].kind != REDIRECT_PATTERN)
            continue;
        read_pattern(&rules[i], &all[i], pool);
        count(&k, &all[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (rules[i].kind == REDIRECT_PATTERN)
            choose(&k, &all[i], &rules[i]);
    }
}
