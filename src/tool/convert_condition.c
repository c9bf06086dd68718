/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conditions of rules in _redirects and vercel.json. Called by the writers of these.
 */
#include "tool/convert_internal.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <string.h>

static bool is_compared(const char *word)
{
    return !strncmp(word, "accept=", 7) || !strncmp(word, "language=", 9);
}

static apr_array_header_t *words_of(const convert_rule *r, apr_pool_t *pool)
{
    return redirect_condition_words(r->rule.condition,
                                    r->rule.condition ? r->rule.condition_len : 0, pool);
}

static const char *source_key(const convert_rule *r, apr_pool_t *pool)
{
    return apr_psprintf(pool, "%d %u %s?%s %s", r->rule.kind, r->rule.flags,
                        r->rule.host ? r->rule.host : "", r->rule.query ? r->rule.query : "-",
                        r->rule.pattern ? r->rule.pattern : r->rule.source);
}

apr_hash_t *convert_compared(const convert_list *list)
{
    apr_hash_t *sources = apr_hash_make(list->pool);

    for (int i = 0; i < list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(list->rules, i, convert_rule);
        const apr_array_header_t *words = words_of(r, list->pool);

        for (int k = 0; k < words->nelts; k++) {
            if (is_compared(APR_ARRAY_IDX(words, k, const char *)))
                apr_hash_set(sources, source_key(r, list->pool), APR_HASH_KEY_STRING, r);
        }
    }
    return sources;
}

bool convert_is_compared(apr_hash_t *compared, const convert_rule *r, apr_pool_t *pool)
{
    return apr_hash_count(compared) &&
           apr_hash_get(compared, source_key(r, pool), APR_HASH_KEY_STRING);
}

/* The name of a condition, with "!". */
static const char *name_of(const char *word, apr_pool_t *pool)
{
    return apr_pstrmemdup(pool, word, strcspn(word, "="));
}

static const char *fault_of(const char *word, const char *why, apr_pool_t *pool)
{
    if (!strncmp(word, "unacceptable", 12))
        return "unacceptable=406 for one row";
    return apr_psprintf(pool, "the condition %s= (%s)", name_of(word, pool), why);
}

const char *convert_netlify_conditions(const convert_rule *r, const char **words, apr_pool_t *pool)
{
    const apr_array_header_t *list = words_of(r, pool);
    const char *last = "", *why;

    *words = "";
    for (int i = 0; i < list->nelts; i++) {
        const char *word = APR_ARRAY_IDX(list, i, const char *), *name = name_of(word, pool);
        const char *said = redirect_condition_netlify(word, &why, pool);

        if (!said)
            return fault_of(word, why, pool);
        if (!strcmp(name, last))
            return "several conditions of one kind";
        last = name;
        *words = apr_pstrcat(pool, *words, " ", said, NULL);
    }
    return NULL;
}

const char *convert_json_conditions(const convert_rule *r, const char **has, const char **lacks,
                                    apr_pool_t *pool)
{
    const apr_array_header_t *list = words_of(r, pool);
    const char *why, *last = ""; /* the name of the last one that must not hold */

    *has = *lacks = "";
    for (int i = 0; i < list->nelts; i++) {
        const char *word = APR_ARRAY_IDX(list, i, const char *), *said, **to;
        bool missing;

        said = redirect_condition_json(word, &missing, &why, pool);
        if (!said)
            return fault_of(word, why, pool);
        if (!missing && !strcmp(last, name_of(word, pool)))
            return "a condition behind one of its kind that must not hold";
        if (missing && !strncmp(word, "!cookie=", 8) && strchr(word, ','))
            return "several cookies in one condition";
        last = missing ? name_of(word + 1, pool) : last;
        to = missing ? lacks : has;
        *to = apr_pstrcat(pool, *to, **to ? ", " : "", said, NULL);
    }
    return NULL;
}
