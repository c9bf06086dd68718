/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The linear list that redirect tables are compared with, see redirect_list.h. It shares no code
 * with them. Used by check_redirect_table_random.c.
 */
#include "redirect_list.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char list_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool equal(const char *a, const char *b, size_t len, bool icase)
{
    if (!icase)
        return !memcmp(a, b, len);
    for (size_t i = 0; i < len; i++) {
        if (list_lower(a[i]) != list_lower(b[i]))
            return false;
    }
    return true;
}

void list_collapse(const char *from, size_t len, list_string *to, size_t *map)
{
    to->len = 0;
    if (map)
        map[0] = 0;
    for (size_t i = 0; i < len; i++) {
        if (from[i] != '/' || !to->len || to->bytes[to->len - 1] != '/')
            to->bytes[to->len++] = from[i];
        if (map)
            map[to->len] = i + 1;
    }
}

static size_t without_slash(const list_string *s)
{
    return s->len && s->bytes[s->len - 1] == '/' ? s->len - 1 : s->len;
}

static bool list_exact(const list_item *it, const list_question *q)
{
    bool icase = it->rule.flags & REDIRECT_ICASE, any = it->rule.flags & REDIRECT_ANY_SLASH;
    size_t a = any ? without_slash(&it->source) : it->source.len;
    size_t b = any ? without_slash(&q->collapsed) : q->collapsed.len;

    return a == b && equal(it->source.bytes, q->collapsed.bytes, a, icase);
}

static bool list_prefix(const list_item *it, const list_question *q, size_t *matched)
{
    const list_string *path = &q->collapsed;
    bool icase = it->rule.flags & REDIRECT_ICASE, any = it->rule.flags & REDIRECT_ANY_SLASH;
    size_t n = it->source.len, core = without_slash(&it->source);
    bool slash = core < n;

    if (path->len < core || !equal(it->source.bytes, path->bytes, core, icase) ||
        (path->len > core && path->bytes[core] != '/'))
        return false;
    if (path->len == core) {
        *matched = q->map[core];
        return !slash || any;
    }
    *matched = slash ? q->map[n] : q->map[core];
    return true;
}

static bool list_begins(const list_item *it, const char *path, size_t len)
{
    return len >= it->source.len &&
           equal(it->source.bytes, path, it->source.len, it->rule.flags & REDIRECT_ICASE);
}

static bool list_source(const list_item *it, const list_question *q, size_t *matched)
{
    const list_string *path = &q->path;
    size_t n = it->source.len;

    *matched = path->len;
    switch (it->rule.kind) {
    case REDIRECT_EXACT:
        return list_exact(it, q);
    case REDIRECT_PREFIX:
        return list_prefix(it, q, matched);
    case REDIRECT_LITERAL:
        return list_begins(it, path->bytes, path->len) &&
               (path->len == n || (path->len == n + 1 && path->bytes[n] == '\n'));
    default:
        break;
    }
    if (!(it->rule.flags & REDIRECT_FLOATING))
        return list_begins(it, path->bytes, path->len);
    for (size_t i = 0; i <= path->len; i++) {
        if (list_begins(it, path->bytes + i, path->len - i))
            return true;
    }
    return false;
}

static bool list_host(const redirect_rule *rule, const list_question *q)
{
    size_t n;

    if (!rule->host)
        return true;
    if (!q->request.host)
        return false;
    if (rule->host_len > 2 && !memcmp(rule->host, "*.", 2)) {
        n = rule->host_len - 1;
        return q->host.len > n && !memcmp(q->host.bytes + q->host.len - n, rule->host + 1, n);
    }
    return rule->host_len == q->host.len && !memcmp(rule->host, q->host.bytes, q->host.len);
}

static bool named(const char *name, size_t len, const redirect_rule *rule)
{
    size_t begin = 0;

    for (size_t i = 0; i <= rule->strip_len; i++) {
        const char *entry = rule->strip + begin;
        size_t n = i - begin;

        if (i < rule->strip_len && rule->strip[i] != ',')
            continue;
        begin = i + 1;
        if (!n)
            continue;
        if (entry[n - 1] == '*' ? len >= n - 1 && !memcmp(entry, name, n - 1)
                                : len == n && !memcmp(entry, name, n))
            return true;
    }
    return false;
}

static int by_word(const void *a, const void *b)
{
    const list_string *x = a, *y = b;

    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->bytes, y->bytes, x->len);
}

#define MAX_WORDS 16

/* A query's parameters that count, sorted. */
static unsigned list_words(const char *query, size_t len, const redirect_rule *rule,
                           list_string *sorted)
{
    unsigned count = 0;
    size_t begin = 0;

    for (size_t i = 0; i <= len; i++) {
        size_t n = i - begin;
        const char *word = query + begin, *equals;

        if (i < len && query[i] != '&')
            continue;
        begin = i + 1;
        if (!n)
            continue;
        equals = memchr(word, '=', n);
        if (rule->strip && named(word, equals ? (size_t)(equals - word) : n, rule))
            continue;
        REQUIRE(count < MAX_WORDS);
        sorted[count].len = n;
        memcpy(sorted[count++].bytes, word, n);
    }
    qsort(sorted, count, sizeof(list_string), by_word);
    return count;
}

static bool same_set(const char *a, size_t a_len, const char *b, size_t b_len,
                     const redirect_rule *rule)
{
    static list_string left[MAX_WORDS], right[MAX_WORDS];
    unsigned n = list_words(a, a_len, rule, left);

    if (list_words(b, b_len, rule, right) != n)
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (by_word(&left[i], &right[i]))
            return false;
    }
    return true;
}

static bool list_query(const redirect_rule *rule, const list_question *q)
{
    if (!rule->query)
        return true;
    if (rule->flags & REDIRECT_QUERY_EXACT)
        return rule->query_len == q->query.len &&
               !memcmp(rule->query, q->query.bytes, q->query.len);
    return same_set(rule->query, rule->query_len, q->query.bytes, q->query.len, rule);
}

static bool list_scheme(const redirect_rule *rule, const list_question *q)
{
    return !(rule->flags & (q->request.https ? REDIRECT_HTTP : REDIRECT_HTTPS));
}

static bool contains(const char *subject, size_t len, const char *text, size_t n)
{
    for (size_t i = 0; i + n <= len; i++) {
        if (equal(subject + i, text, n, true))
            return true;
    }
    return false;
}

static bool contains_all(const char *subject, size_t len, const char *texts)
{
    while (texts) {
        const char *end = strchr(++texts, ':');

        if (!contains(subject, len, texts, end ? (size_t)(end - texts) : strlen(texts)))
            return false;
        texts = end;
    }
    return true;
}

bool list_regex(const char *pattern, unsigned flags, const char *subject, size_t len)
{
    unsigned modulus, salt;
    uint64_t hash;

    REQUIRE(sscanf(pattern, LIST_PATTERN, &modulus, &salt) == 2);
    hash = salt + 1;
    for (size_t i = 0; i < len; i++) {
        char c = flags & REDIRECT_ICASE ? list_lower(subject[i]) : subject[i];

        hash = (hash ^ (unsigned char)c) * UINT64_C(0x100000001b3);
    }
    return (hash >> 20) % modulus == 0 &&
           contains_all(subject, len, strchr(strchr(pattern, ':') + 1, ':'));
}

const list_item *list_lookup(const list_item *items, unsigned count, const list_question *q,
                             uint32_t from, size_t *matched, unsigned *runs)
{
    *runs = 0;
    *matched = 0;
    for (unsigned i = 0; i < count; i++) {
        const list_item *it = &items[i];

        if (!it->kept || it->place < from || !list_scheme(&it->rule, q) ||
            !list_host(&it->rule, q) || !list_source(it, q, matched) || !list_query(&it->rule, q))
            continue;
        if (it->rule.kind != REDIRECT_PATTERN)
            return it;
        if (!q->request.regex)
            continue;
        ++*runs;
        if (list_regex(it->rule.pattern, it->rule.flags, q->path.bytes, q->path.len))
            return it;
    }
    return NULL;
}

bool list_same_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return !a == !b && (!a || (a_len == b_len && !memcmp(a, b, a_len)));
}

bool list_same(const list_item *a, const list_item *b)
{
    const redirect_rule *x = &a->rule, *y = &b->rule;
    const redirect_rule none = {.strip = NULL}; /* what is stripped counts */
    bool any = x->flags & REDIRECT_ANY_SLASH;
    size_t n = any ? without_slash(&a->source) : a->source.len;

    if (x->kind != y->kind || x->flags != y->flags ||
        n != (any ? without_slash(&b->source) : b->source.len) ||
        !equal(a->source.bytes, b->source.bytes, n, x->flags & REDIRECT_ICASE) ||
        !list_same_text(x->host, x->host_len, y->host, y->host_len) ||
        !list_same_text(x->strip, x->strip_len, y->strip, y->strip_len) ||
        !list_same_text(x->pattern, x->pattern_len, y->pattern, y->pattern_len) ||
        !x->query != !y->query)
        return false;
    if (!x->query || list_same_text(x->query, x->query_len, y->query, y->query_len))
        return true;
    return !(x->flags & REDIRECT_QUERY_EXACT) &&
           same_set(x->query, x->query_len, y->query, y->query_len, &none);
}
