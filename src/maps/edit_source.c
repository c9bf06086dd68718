/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a row of a map is asked for, and whether two rows are asked for the same; and hashes of rows.
 * Called by maps/edit_file.c.
 */
#include "maps/edit_internal.h"

#include <apr_lib.h>
#include <string.h>

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
static size_t condition_len(const redirect_rule *rule)
{
    static const char behind[] = "\nunacceptable=406";
    size_t len = sizeof(behind) - 1;

    if (rule->condition_len > len &&
        !memcmp(rule->condition + rule->condition_len - len, behind, len))
        return rule->condition_len - len;
    return rule->condition_len;
}

uint64_t redirect_edit_loose_hash(const redirect_rule *rule)
{
    uint64_t hash = redirect_edit_mix(0, rule->flags & (REDIRECT_HTTP | REDIRECT_HTTPS));

    hash = redirect_edit_mix_bytes(hash, rule->host, rule->host_len);
    hash = redirect_edit_mix_bytes(hash, rule->condition, condition_len(rule));
    if (redirect_kind_has_pattern(rule->kind))
        hash = redirect_edit_mix_bytes(hash, rule->pattern, rule->pattern_len);
    return mix_path(mix_query(hash, rule), rule->source, rule->source_len);
}

#define SOURCE_FLAGS (REDIRECT_HTTP | REDIRECT_HTTPS | REDIRECT_QUERY_EXACT)

uint64_t redirect_edit_source_hash(const redirect_rule *rule, bool plain)
{
    uint64_t hash = redirect_edit_mix(plain ? 0 : (uint64_t)rule->kind, rule->flags & SOURCE_FLAGS);

    hash = redirect_edit_mix_bytes(hash, rule->host, rule->host_len);
    hash = redirect_edit_mix_bytes(hash, rule->condition, condition_len(rule));
    hash = mix_query(hash, rule);
    if (plain)
        return mix_path(hash, rule->source, rule->source_len);
    if (redirect_kind_has_pattern(rule->kind))
        return redirect_edit_mix_bytes(hash, rule->pattern, rule->pattern_len);
    return redirect_edit_mix_bytes(hash, rule->source, rule->source_len);
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
    size_t i = 0, k = 0;

    while (i < a->source_len && k < b->source_len) {
        char x, y;

        i = skip_slashes(a->source, a->source_len, i);
        k = skip_slashes(b->source, b->source_len, k);
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

bool redirect_edit_same_source(const edit_source *a, const redirect_rule *rule, bool plain)
{
    const redirect_rule *b = &a->rule;

    if (a->plain != plain || (b->flags & SOURCE_FLAGS) != (rule->flags & SOURCE_FLAGS) ||
        !redirect_edit_same_bytes(b->host, b->host_len, rule->host, rule->host_len) ||
        !redirect_edit_same_bytes(b->condition, condition_len(b), rule->condition,
                                  condition_len(rule)) ||
        !b->query != !rule->query || mix_query(0, b) != mix_query(0, rule) ||
        mix_query(1, b) != mix_query(1, rule))
        return false;
    if (plain)
        return same_path(b, rule);
    if (b->kind != rule->kind)
        return false;
    if (redirect_kind_has_pattern(rule->kind))
        return redirect_edit_same_bytes(b->pattern, b->pattern_len, rule->pattern,
                                        rule->pattern_len);
    return redirect_edit_same_bytes(b->source, b->source_len, rule->source, rule->source_len);
}

uint64_t redirect_edit_rule_hash(const redirect_rule *rule)
{
    uint64_t hash = redirect_edit_mix((uint64_t)rule->kind << 32 | rule->flags,
                                      (uint64_t)rule->status << 32 | rule->options);

    hash = redirect_edit_mix_bytes(hash, rule->source, rule->source_len);
    hash = redirect_edit_mix_bytes(hash, rule->pattern, rule->pattern_len);
    hash = redirect_edit_mix_bytes(hash, rule->host, rule->host_len);
    hash = redirect_edit_mix_bytes(hash, rule->query, rule->query_len);
    hash = redirect_edit_mix_bytes(hash, rule->strip, rule->strip_len);
    hash = redirect_edit_mix_bytes(hash, rule->condition, rule->condition_len);
    return redirect_edit_mix_bytes(hash, rule->target, rule->target_len);
}
