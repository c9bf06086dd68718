/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which rules of a list may answer a path. Called by tool/fix_plan.c.
 */
#include "tool/fix_index.h"

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define SCHEMES (REDIRECT_HTTP | REDIRECT_HTTPS)
#define SLASH   '\1' /* of keys: what is below a path stands right behind it */

/* What a rule's source begins with. */
typedef struct source_at {
    const char *host; /* "": any; "*": that of a wildcard */
    const char *key;  /* the path */
} source_at;

/* The same sources twice: sorted by path, and by host and path. */
typedef struct sources {
    source_at *by_path, *by_host;
    int n;
} sources;

struct fix_index {
    sources all, patterns;
    apr_hash_t *query_sources;  /* paths of rules with a condition on the query */
    apr_hash_t *host_sources;   /* those of rules for a host */
    apr_hash_t *scheme_sources; /* those of rules for http or https alone */
    apr_hash_t *begins;         /* what patterns begin with: keys */
    apr_hash_t *host_begins;    /* the same behind "host\n" */
    apr_hash_t *begins_of_hosts, *begins_of_schemes; /* of patterns for some */
    const convert_rule **floating;                   /* patterns without a beginning */
    int nfloating;
};

static const convert_rule *rule_at(const convert_list *list, int i)
{
    return &APR_ARRAY_IDX(list->rules, i, convert_rule);
}

const char *fix_path(const char *path, size_t len, apr_pool_t *pool)
{
    char *copy = apr_pstrmemdup(pool, path, len);

    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    for (char *s = copy; *s; s++)
        *s = (char)apr_tolower(*s);
    return copy;
}

static const char *key_of(const char *path, apr_pool_t *pool)
{
    char *key = apr_pstrdup(pool, path);

    for (char *s = strchr(key, '/'); s; s = strchr(s, '/'))
        *s = SLASH;
    return key;
}

static const char *host_of(const convert_rule *r)
{
    return !r->rule.host ? "" : *r->rule.host == '*' ? "*" : r->rule.host;
}

static bool is_any_host(const convert_rule *r)
{
    return !r->rule.host || *r->rule.host == '*';
}

/* --- making it --------------------------------------------------------------------------------*/

static int compare_paths(const void *a, const void *b)
{
    return strcmp(((const source_at *)a)->key, ((const source_at *)b)->key);
}

static int compare_hosts(const void *a, const void *b)
{
    const source_at *x = a, *y = b;
    int order = strcmp(x->host, y->host);

    return order ? order : strcmp(x->key, y->key);
}

static void sort_sources(sources *s, apr_pool_t *pool)
{
    size_t size = (size_t)s->n * sizeof(source_at);

    s->by_host = apr_pmemdup(pool, s->by_path, size);
    if (!s->n)
        return;
    qsort(s->by_path, (size_t)s->n, sizeof(source_at), compare_paths);
    qsort(s->by_host, (size_t)s->n, sizeof(source_at), compare_hosts);
}

static void put(apr_hash_t *hash, const char *key)
{
    apr_hash_set(hash, key, APR_HASH_KEY_STRING, "");
}

static void add_pattern(fix_index *x, const convert_rule *r, source_at at, apr_pool_t *pool)
{
    if (r->rule.flags & REDIRECT_FLOATING) {
        x->floating[x->nfloating++] = r;
        return;
    }
    x->patterns.by_path[x->patterns.n++] = at;
    put(x->begins, at.key);
    put(x->host_begins, apr_pstrcat(pool, at.host, "\n", at.key, NULL));
    if (r->rule.host)
        put(x->begins_of_hosts, at.key);
    if (r->rule.flags & SCHEMES)
        put(x->begins_of_schemes, at.key);
}

static void add_rule(fix_index *x, const convert_rule *r, bool dropped, apr_pool_t *pool)
{
    const char *path = fix_path(r->rule.source, r->rule.source_len, pool);
    source_at at = {host_of(r), key_of(path, pool)};

    if (redirect_kind_has_pattern(r->rule.kind) || r->rule.kind == REDIRECT_LITERAL_PREFIX)
        add_pattern(x, r, at, pool);
    if (r->rule.query)
        put(x->query_sources, path);
    if (dropped)
        return;
    x->all.by_path[x->all.n++] = at;
    if (r->rule.host)
        put(x->host_sources, path);
    if (r->rule.flags & SCHEMES)
        put(x->scheme_sources, path);
}

fix_index *fix_index_create(const convert_list *list, const fix_step *steps)
{
    apr_pool_t *pool = list->pool;
    size_t n = (size_t)list->rules->nelts;
    fix_index *x = apr_pcalloc(pool, sizeof(*x));

    x->all.by_path = apr_palloc(pool, (n + 1) * sizeof(source_at));
    x->patterns.by_path = apr_palloc(pool, (n + 1) * sizeof(source_at));
    x->floating = apr_palloc(pool, (n + 1) * sizeof(*x->floating));
    x->query_sources = apr_hash_make(pool);
    x->host_sources = apr_hash_make(pool);
    x->scheme_sources = apr_hash_make(pool);
    x->begins = apr_hash_make(pool);
    x->host_begins = apr_hash_make(pool);
    x->begins_of_hosts = apr_hash_make(pool);
    x->begins_of_schemes = apr_hash_make(pool);
    for (int i = 0; i < list->rules->nelts; i++)
        add_rule(x, rule_at(list, i), steps[i].drop, pool);
    sort_sources(&x->all, pool);
    sort_sources(&x->patterns, pool);
    return x;
}

/* --- asking it --------------------------------------------------------------------------------*/

static bool is_below(const char *key, const char *top)
{
    size_t len = strlen(top);

    return !strncmp(key, top, len) && (!key[len] || key[len] == SLASH || top[len - 1] == SLASH);
}

/* The first that is not before the key; with a NULL host by path alone. */
static int find_first(const sources *s, const char *host, const char *key)
{
    const source_at wanted = {host, key};
    int low = 0, high = s->n;

    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = host ? compare_hosts(&s->by_host[middle], &wanted)
                         : compare_paths(&s->by_path[middle], &wanted);

        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Two stand for more. */
static int count_below(const sources *s, const char *host, const char *key)
{
    int n = 0;

    for (int i = find_first(s, host, key); i < s->n && n < 2; i++, n++) {
        const source_at *at = host ? &s->by_host[i] : &s->by_path[i];

        if ((host && strcmp(at->host, host) != 0) || !is_below(at->key, key))
            break;
    }
    return n;
}

bool fix_more_below(const fix_index *x, const char *path, const convert_rule *r, apr_pool_t *pool)
{
    const char *key = key_of(path, pool);

    if (is_any_host(r))
        return count_below(&x->all, NULL, key) > 1;
    return count_below(&x->all, "", key) + count_below(&x->all, "*", key) +
               count_below(&x->all, host_of(r), key) >
           1;
}

static bool any_begins_with(const sources *s, const char *host, const char *key)
{
    int i = find_first(s, host, key);
    const source_at *at = host ? &s->by_host[i] : &s->by_path[i];

    return i < s->n && (!host || !strcmp(at->host, host)) && !strncmp(at->key, key, strlen(key));
}

/* Does this, from a certain length on, begin with one of these? */
static bool begins_with_any(apr_hash_t *begins, const char *key, size_t least)
{
    for (size_t len = strlen(key); len && len >= least; len--) {
        if (apr_hash_get(begins, key, (apr_ssize_t)len))
            return true;
    }
    return !least && apr_hash_get(begins, "", 0);
}

static bool pattern_for(const fix_index *x, const char *host, const char *key, apr_pool_t *pool)
{
    return any_begins_with(&x->patterns, host, key) ||
           begins_with_any(x->host_begins, apr_pstrcat(pool, host, "\n", key, NULL),
                           strlen(host) + 1);
}

bool fix_pattern_below(const fix_index *x, const char *path, const convert_rule *r,
                       apr_pool_t *pool)
{
    const char *key = key_of(path, pool);

    for (int i = 0; i < x->nfloating; i++) {
        const convert_rule *other = x->floating[i];

        if (is_any_host(other) || is_any_host(r) || !strcmp(other->rule.host, r->rule.host))
            return true;
    }
    if (!x->patterns.n)
        return false;
    if (is_any_host(r))
        return any_begins_with(&x->patterns, NULL, key) || begins_with_any(x->begins, key, 0);
    return pattern_for(x, "", key, pool) || pattern_for(x, "*", key, pool) ||
           pattern_for(x, host_of(r), key, pool);
}

/* Has this path, or one above it, a rule of these? */
static bool stands_above(apr_hash_t *sources, const char *path)
{
    for (size_t len = apr_hash_count(sources) ? strlen(path) : 0; len; len--) {
        bool end = !path[len] || path[len] == '/' || len == 1;

        if (end && apr_hash_get(sources, path, (apr_ssize_t)len))
            return true;
    }
    return false;
}

bool fix_depends_on_host(const fix_index *x, const char *path, apr_pool_t *pool)
{
    for (int i = 0; i < x->nfloating; i++) {
        if (x->floating[i]->rule.host)
            return true;
    }
    return stands_above(x->host_sources, path) ||
           (apr_hash_count(x->begins_of_hosts) &&
            begins_with_any(x->begins_of_hosts, key_of(path, pool), 0));
}

bool fix_depends_on_scheme(const fix_index *x, const char *path, apr_pool_t *pool)
{
    for (int i = 0; i < x->nfloating; i++) {
        if (x->floating[i]->rule.flags & SCHEMES)
            return true;
    }
    return stands_above(x->scheme_sources, path) ||
           (apr_hash_count(x->begins_of_schemes) &&
            begins_with_any(x->begins_of_schemes, key_of(path, pool), 0));
}

bool fix_depends_on_query(const fix_index *x, const char *path)
{
    return stands_above(x->query_sources, path);
}
