/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Patterns of redirect maps, compiled by httpd when they are first asked. Patterns of the server's
 * configuration stay with their table. Authors of .htaccess files may write more patterns than
 * there is memory for. So each process keeps as many of these as fit in HtCacheProcessMemory, and
 * lets go of those that were not used for long. Each pattern is compiled with a limit on its steps,
 * see maps/budget.h. Other processes can write the memory that a pattern lies in, so it may have no
 * end. It is copied first, and no further than such memory goes, see RDA_TAIL. Called by
 * redirects/map.c.
 */
#include "redirects/map.h"
#include "maps/maps.h"
#include "regex/regex.h"

#include <stdlib.h>
#include <string.h>

#define MALLOC_OVERHEAD 16

static int flags_of(unsigned flags)
{
    return AP_REG_EXTENDED | (flags & REDIRECT_ICASE ? AP_REG_ICASE : 0);
}

/* A copy is made of what is at most as long as a pattern may be. */
int htc_map_compile(ap_regex_t *regex, const char *pattern, unsigned flags)
{
    size_t len = strnlen(pattern, REDIRECT_MAX_TEXT);
    int rc = AP_REG_ESPACE;

    if (redirect_pattern_limits_itself(pattern, len))
        return AP_REG_ASSERT;
    for (const char *const *limit = redirect_pattern_limits; rc && *limit; limit++) {
        size_t before = strlen(*limit);
        char *limited = malloc(before + len + 1);

        if (!limited)
            return AP_REG_ESPACE;
        memcpy(limited, *limit, before);
        memcpy(limited + before, pattern, len);
        limited[before + len] = '\0';
        rc = ap_regcomp(regex, limited, flags_of(flags));
        free(limited);
    }
    return rc;
}

/* Such a limit was reached. */
static bool too_hard(int rc)
{
    return rc == AP_REG_ESPACE || rc == AP_REG_ASSERT;
}

static bool run(const ap_regex_t *regex, const char *subject, size_t len, redirect_budget *budget,
                size_t n, ap_regmatch_t found[])
{
    int rc = ap_regexec_len(regex, subject, len, n, found, 0);

    if (too_hard(rc) && budget)
        redirect_budget_charge(budget, REDIRECT_PATTERN_STEPS);
    return !rc;
}

/* --- of the server's configuration ------------------------------------------------------------*/

static apr_status_t free_regex(void *regex)
{
    ap_regfree(regex);
    return APR_SUCCESS;
}

static ap_regex_t *compile(htc_table *table, uint32_t id, const char *pattern, unsigned flags)
{
    ap_regex_t *regex;

    apr_thread_mutex_lock(table->lock);
    regex = atomic_load(&table->regexes[id]);
    if (!regex) {
        regex = apr_palloc(table->pool, sizeof(*regex));
        if (htc_map_compile(regex, pattern, flags))
            regex = NULL;
        else
            apr_pool_cleanup_register(table->pool, regex, free_regex, apr_pool_cleanup_null);
        atomic_store(&table->regexes[id], regex);
    }
    apr_thread_mutex_unlock(table->lock);
    return regex;
}

static ap_regex_t *regex_of(htc_table *table, uint32_t id, const char *pattern, unsigned flags)
{
    ap_regex_t *regex = atomic_load_explicit(&table->regexes[id], memory_order_acquire);

    return regex ? regex : compile(table, id, pattern, flags);
}

/* --- of .htaccess files -----------------------------------------------------------------------*/

/* An image's version is no other's, so what is kept of an old one is found no more, and makes room.
 */
typedef struct regex_key {
    uint64_t version;
    uint64_t id;
} regex_key;

typedef struct kept_regex {
    regex_key key;
    ap_regex_t regex; /* PCRE's memory is malloc's */
} kept_regex;

static bool key_match(const void *data, const void *key)
{
    return !memcmp(&((const kept_regex *)data)->key, key, sizeof(regex_key));
}

static uint64_t key_hash(const regex_key *key)
{
    uint64_t h = (key->version * UINT64_C(0x9E3779B97F4A7C15)) ^ (key->id + 1);

    return h ^ h >> 32;
}

static void regex_free(void *data)
{
    ap_regfree(&((kept_regex *)data)->regex);
    free(data);
}

apr_status_t htc_map_regex_prepare(htc_redirects *redirects)
{
    return htc_process_cache_create(&redirects->patterns, redirects->patterns_limit, regex_free);
}

/* The request that asks has it to itself first. Then others may find it, unless it is larger than
 * all that is kept. */
static bool run_new(htc_process_cache *cache, uint64_t hash, const regex_key *key,
                    const char *pattern, unsigned flags, const char *subject, size_t len,
                    redirect_budget *budget, size_t n, ap_regmatch_t found[])
{
    size_t text_len = strnlen(pattern, REDIRECT_MAX_TEXT);
    kept_regex *made = malloc(sizeof(*made));
    htc_process_node *node;
    size_t cost;
    bool matches;

    if (!made || htc_map_compile(&made->regex, pattern, flags)) {
        free(made);
        return false;
    }
    cost = sizeof(kept_regex) + MALLOC_OVERHEAD + redirect_regex_bytes(pattern, text_len);
    made->key = *key;
    matches = run(&made->regex, subject, len, budget, n, found);
    node = htc_process_cache_insert(cache, hash, key_match, key, made, cost);
    if (node)
        htc_process_cache_release(cache, node);
    return matches;
}

static bool run_bounded(htc_table *table, uint32_t id, const char *pattern, unsigned flags,
                        const char *subject, size_t len, redirect_budget *budget, size_t n,
                        ap_regmatch_t found[])
{
    htc_process_cache *cache = table->redirects->patterns;
    regex_key key = {table->pin.version, id};
    uint64_t hash = key_hash(&key);
    htc_process_node *node = htc_process_cache_acquire(cache, hash, key_match, &key);
    bool matches;

    if (!node)
        return run_new(cache, hash, &key, pattern, flags, subject, len, budget, n, found);
    matches =
        run(&((kept_regex *)htc_process_cache_data(node))->regex, subject, len, budget, n, found);
    htc_process_cache_release(cache, node);
    return matches;
}

bool htc_map_regex(htc_table *table, uint32_t id, const char *pattern, unsigned flags,
                   const char *subject, size_t len, redirect_budget *budget, size_t n,
                   ap_regmatch_t found[])
{
    ap_regex_t *regex;

    if (!table->regexes)
        return run_bounded(table, id, pattern, flags, subject, len, budget, n, found);
    regex = regex_of(table, id, pattern, flags);
    return regex && run(regex, subject, len, budget, n, found);
}
