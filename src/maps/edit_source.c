/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a row of a map is asked for, and whether two rows are asked for the same; and hashes of rows.
 * Called by maps/edit_file.c for edits of a file, and by maps/overlay_*.c for those of a table.
 */
#include "maps/edit_internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

uint64_t redirect_edit_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

uint64_t redirect_edit_mix_bytes(uint64_t hash, const char *s, size_t len)
{
    uint64_t word = 0;

    hash = redirect_edit_mix(hash, s ? len + 1 : 0);
    for (; s && len >= sizeof(word); s += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, s, sizeof(word));
        hash = redirect_edit_mix(hash, word);
    }
    if (s && len) {
        word = 0;
        memcpy(&word, s, len);
        hash = redirect_edit_mix(hash, word);
    }
    return hash;
}

/* A path without what does not count for some rows: case, runs of slashes and those at its end. */
static uint64_t mix_path(uint64_t hash, const char *s, size_t len)
{
    uint64_t word = 0;
    unsigned bits = 0;

    while (len && s[len - 1] == '/')
        len--;
    for (size_t i = 0; i < len; i++) {
        if (s[i] == '/' && i && s[i - 1] == '/')
            continue;
        word = word << 8 | (unsigned char)apr_tolower(s[i]);
        bits += 8;
        if (bits == 64) {
            hash = redirect_edit_mix(hash, word);
            word = 0;
            bits = 0;
        }
    }
    return redirect_edit_mix(hash, word);
}

/* A query as a set of parameters, of which the empty ones do not count: whatever their order. */
static uint64_t mix_query(uint64_t hash, const redirect_rule *rule)
{
    const char *s = rule->query, *end = s + rule->query_len;
    uint64_t sum = 0;

    if (!s || rule->flags & REDIRECT_QUERY_EXACT)
        return redirect_edit_mix_bytes(hash, s, rule->query_len);
    while (s < end) {
        const char *stop = memchr(s, '&', (size_t)(end - s));

        stop = stop ? stop : end;
        if (stop > s)
            sum += redirect_edit_mix_bytes(hash + 1, s, (size_t)(stop - s));
        s = stop < end ? stop + 1 : end;
    }
    return redirect_edit_mix(hash, sum + 1);
}

/* What comes of it when no row is acceptable is not what the row is asked for. */
size_t redirect_edit_condition_len(const char *condition, size_t len)
{
    static const char behind[] = "\nunacceptable=406";
    size_t n = sizeof(behind) - 1;

    return len > n && !memcmp(condition + len - n, behind, n) ? len - n : len;
}

bool redirect_edit_is_own_host(const redirect_map_options *o, const redirect_rule *rule)
{
    return o->host && rule->host_len == strlen(o->host) &&
           !strncasecmp(rule->host, o->host, rule->host_len);
}

bool redirect_edit_is_default(const redirect_map_options *o, const redirect_rule *rule)
{
    return o->format == REDIRECT_FORMAT_NGINX && rule->kind == REDIRECT_PREFIX &&
           rule->source_len == 1 &&
           (!rule->host || (!o->subpath && redirect_edit_is_own_host(o, rule)));
}

/* Formats with wildcards make prefixes of some; nginx's default is one, too. */
static bool is_path(const redirect_map_options *o, const redirect_rule *rule)
{
    if (rule->kind == REDIRECT_EXACT)
        return true;
    if (rule->kind != REDIRECT_PREFIX)
        return false;
    if (o->format == REDIRECT_FORMAT_NGINX)
        return !redirect_edit_is_default(o, rule);
    return o->format != REDIRECT_FORMAT_NETLIFY || o->subpath;
}

/* Is it the pattern that "/path/ *" is where the target makes no prefix of it? Its source is the
 * literal that it begins with. Two slashes are never a prefix. */
static bool is_splat(const redirect_rule *rule)
{
    bool all = rule->source_len == 1;
    map_text rest;
    size_t at = 1;

    for (size_t i = 0; i < rule->source_len && at < rule->pattern_len; i++)
        at += rule->pattern[at] == '\\' ? 2 : 1;
    if (!rule->source_len || at >= rule->pattern_len ||
        (!all && rule->source[rule->source_len - 1] == '/') ||
        memmem(rule->source, rule->source_len, "//", 2))
        return false;
    rest = (map_text){rule->pattern + at, rule->pattern_len - at, 0};
    return redirect_map_text_is(rest, all ? "(.*)$" : "(?:/(.*))?$") ||
           redirect_map_text_is(rest, all ? "(.*)/?$" : "(?:/(.*))?/?$");
}

redirect_rule redirect_edit_without_target(const redirect_map_options *o, const redirect_rule *rule)
{
    redirect_rule as = *rule;

    if (o->format == REDIRECT_FORMAT_NETLIFY && redirect_kind_has_pattern(rule->kind) &&
        is_splat(rule)) {
        as.kind = REDIRECT_PREFIX;
        as.pattern = NULL;
        as.pattern_len = 0;
    }
    return as;
}

#define SOURCE_FLAGS (REDIRECT_HTTP | REDIRECT_HTTPS | REDIRECT_QUERY_EXACT)

uint64_t redirect_edit_source_hash(const redirect_map_options *o, const redirect_rule *of)
{
    const redirect_rule as = redirect_edit_without_target(o, of), *rule = &as;
    uint64_t hash =
        redirect_edit_mix(is_path(o, rule) ? 0 : (uint64_t)rule->kind, rule->flags & SOURCE_FLAGS);

    hash = redirect_edit_mix_bytes(hash, rule->host, rule->host_len);
    hash = redirect_edit_mix_bytes(
        hash, rule->condition, redirect_edit_condition_len(rule->condition, rule->condition_len));
    hash = mix_query(hash, rule);
    if (redirect_kind_has_pattern(rule->kind))
        return redirect_edit_mix_bytes(hash, rule->pattern, rule->pattern_len);
    return mix_path(hash, rule->source, rule->source_len);
}

bool redirect_edit_same_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return !a || !b ? !a && !b : a_len == b_len && !memcmp(a, b, a_len);
}

static size_t skip_slashes(const char *s, size_t len, size_t i)
{
    while (i + 1 < len && s[i] == '/' && s[i + 1] == '/')
        i++;
    return i;
}

static bool same_path(const redirect_rule *a, const redirect_rule *b)
{
    bool fold = a->flags & b->flags & REDIRECT_ICASE;
    bool loose = (a->kind == REDIRECT_PREFIX || a->flags & REDIRECT_ANY_SLASH) &&
                 (b->kind == REDIRECT_PREFIX || b->flags & REDIRECT_ANY_SLASH);
    bool merge = a->kind <= REDIRECT_PREFIX;
    size_t i = 0, k = 0;

    while (i < a->source_len && k < b->source_len) {
        char x, y;

        i = merge ? skip_slashes(a->source, a->source_len, i) : i;
        k = merge ? skip_slashes(b->source, b->source_len, k) : k;
        x = a->source[i++];
        y = b->source[k++];
        if (x != y && !(fold && apr_tolower(x) == apr_tolower(y)))
            return false;
    }
    while (loose && i < a->source_len && a->source[i] == '/')
        i++;
    while (loose && k < b->source_len && b->source[k] == '/')
        k++;
    return i == a->source_len && k == b->source_len;
}

static bool same_query(const redirect_rule *a, const redirect_rule *b)
{
    if (!a->query || !b->query || a->flags & REDIRECT_QUERY_EXACT)
        return redirect_edit_same_bytes(a->query, a->query_len, b->query, b->query_len);
    return redirect_edit_same_bytes(a->query, a->query_len, b->query, b->query_len) ||
           redirect_query_equal(a->query, a->query_len, b->query, b->query_len, NULL, 0);
}

bool redirect_edit_same_source(const redirect_map_options *o, const redirect_rule *one,
                               const redirect_rule *other)
{
    const redirect_rule x = redirect_edit_without_target(o, one), *a = &x;
    const redirect_rule y = redirect_edit_without_target(o, other), *b = &y;
    bool path = is_path(o, a);

    if (path != is_path(o, b) || (!path && a->kind != b->kind) ||
        (a->flags & SOURCE_FLAGS) != (b->flags & SOURCE_FLAGS) ||
        !redirect_edit_same_bytes(a->host, a->host_len, b->host, b->host_len) ||
        !redirect_edit_same_bytes(
            a->condition, redirect_edit_condition_len(a->condition, a->condition_len), b->condition,
            redirect_edit_condition_len(b->condition, b->condition_len)) ||
        !same_query(a, b))
        return false;
    if (redirect_kind_has_pattern(a->kind))
        return redirect_edit_same_bytes(a->pattern, a->pattern_len, b->pattern, b->pattern_len);
    return same_path(a, b);
}

uint64_t redirect_edit_rule_hash(const redirect_rule *rule)
{
    uint64_t hash = redirect_edit_mix(0, (uint64_t)rule->kind << 32 | rule->flags);

    hash = redirect_edit_mix(hash, (uint64_t)rule->status << 32 | rule->options);
    hash = redirect_edit_mix_bytes(hash, rule->source, rule->source_len);
    hash = redirect_edit_mix_bytes(hash, rule->pattern, rule->pattern_len);
    hash = redirect_edit_mix_bytes(hash, rule->host, rule->host_len);
    hash = redirect_edit_mix_bytes(hash, rule->query, rule->query_len);
    hash = redirect_edit_mix_bytes(hash, rule->strip, rule->strip_len);
    hash = redirect_edit_mix_bytes(hash, rule->condition, rule->condition_len);
    return redirect_edit_mix_bytes(hash, rule->target, rule->target_len);
}

static bool ends_in_slash(const char *s, size_t len)
{
    size_t n = 0;

    while (n < len && s[n] != '?' && s[n] != '#')
        n++;
    return n && s[n - 1] == '/';
}

bool redirect_edit_keeps_source(const redirect_map_options *o, const char *old, size_t old_len,
                                const char *source, size_t len)
{
    bool slash = o->ignore_slash || ends_in_slash(old, old_len) == ends_in_slash(source, len);

    /* What query=ignore has left out would count in a row without that option. */
    return slash && (!memchr(old, '?', old_len) || memchr(source, '?', len));
}

/* --- one source to a table ----------------------------------------------------------------------*/

/* The parameters that count, in one order. */
static void put_query(map_buffer *b, const redirect_rule *rule, apr_pool_t *pool)
{
    const char *s = rule->query, *end = s + rule->query_len;
    apr_array_header_t *parameters = apr_array_make(pool, 4, sizeof(map_text));

    while (s < end) {
        const char *stop = memchr(s, '&', (size_t)(end - s));
        map_text one = {s, (size_t)((stop ? stop : end) - s), 0};

        if (one.len && !redirect_query_equal(one.s, one.len, "", 0, rule->strip, rule->strip_len))
            APR_ARRAY_PUSH(parameters, map_text) = one;
        s = stop ? stop + 1 : end;
    }
    qsort(parameters->elts, (size_t)parameters->nelts, sizeof(map_text),
          redirect_map_compare_texts);
    for (int i = 0; i < parameters->nelts; i++) {
        const map_text *one = &APR_ARRAY_IDX(parameters, i, map_text);

        redirect_map_put(b, one->s, one->len);
        redirect_map_put(b, "&", 1);
    }
}

static void put_path(map_buffer *b, const redirect_rule *rule)
{
    bool path = rule->kind <= REDIRECT_PREFIX, fold = rule->flags & REDIRECT_ICASE;
    size_t len = rule->source_len;

    while (path && rule->flags & REDIRECT_ANY_SLASH && len > 1 && rule->source[len - 1] == '/')
        len--;
    for (size_t i = 0; i < len; i++) {
        char c = fold ? (char)apr_tolower(rule->source[i]) : rule->source[i];

        if (!path || c != '/' || !i || rule->source[i - 1] != '/')
            redirect_map_put(b, &c, 1);
    }
}

static void put_part(map_buffer *b, const char *s, size_t len)
{
    redirect_map_put(b, s ? "=" : "-", 1);
    if (s)
        redirect_map_put(b, s, len);
    redirect_map_put(b, "", 1);
}

map_text redirect_edit_group_key(const redirect_rule *rule, apr_pool_t *pool)
{
    unsigned flags = rule->flags & ~(unsigned)REDIRECT_SEARCHED;
    size_t size = 64 + rule->source_len + rule->host_len + rule->pattern_len + rule->strip_len +
                  2 * rule->query_len;
    map_buffer b = {.to = apr_palloc(pool, size), .size = size};

    redirect_map_put(&b, (const char *)&rule->kind, sizeof(rule->kind));
    redirect_map_put(&b, (const char *)&flags, sizeof(flags));
    put_part(&b, rule->host, rule->host_len);
    put_part(&b, rule->pattern, rule->pattern_len);
    put_part(&b, rule->query ? rule->strip : NULL, rule->strip_len);
    redirect_map_put(&b, rule->query ? "=" : "-", 1);
    if (rule->query && rule->flags & REDIRECT_QUERY_EXACT)
        redirect_map_put(&b, rule->query, rule->query_len);
    else if (rule->query)
        put_query(&b, rule, pool);
    redirect_map_put(&b, "", 1);
    put_path(&b, rule);
    return (map_text){b.to, b.len, 0};
}
