/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for src/regex/regex.c. Input: a byte of flags, two bytes of limits, and the
 * pattern, in an allocation that ends where it ends. Whatever it is, reading must end, stay within
 * the limits, and say the same twice; and each string that is claimed must be one that the claim
 * admits. Without libFuzzer, replay_main.c feeds it files.
 */
#include "../regex_admits.h"

#include <apr_general.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void require_same(const redirect_regex_string *a, const redirect_regex_string *b,
                         unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        require(a[i].len == b[i].len && a[i].rest == b[i].rest);
        require(!memcmp(a[i].text, b[i].text, a[i].len + 1));
    }
}

static void check_facts(const redirect_regex_facts *facts, const redirect_regex_limits *limits,
                        size_t len)
{
    unsigned most = limits->strings ? limits->strings : 16;
    unsigned most_inner = limits->inner ? limits->inner : 4;

    require(facts->count <= (facts->kind == REDIRECT_REGEX_FLOATING ? most_inner : most));
    require((facts->count == 0) == (facts->kind == REDIRECT_REGEX_NONE));
    require(facts->inner_count <= most_inner);
    require(facts->groups >= -1 && facts->groups <= (int)len);
    require(facts->has_groups || facts->groups <= 0);
    for (unsigned i = 0; i < facts->count && !facts->inner_count; i++)
        require(regex_admits(facts, facts->strings[i].text, facts->strings[i].len));
}

static void check_pattern(const char *pattern, size_t len, unsigned flags,
                          const redirect_regex_limits *limits, apr_pool_t *pool)
{
    redirect_regex_facts facts, again;

    redirect_regex_read(pattern, len, flags, limits, pool, &facts);
    redirect_regex_read(pattern, len, flags, limits, pool, &again);
    check_facts(&facts, limits, len);
    require(facts.kind == again.kind && facts.count == again.count);
    require(facts.inner_count == again.inner_count && facts.groups == again.groups);
    require_same(facts.strings, again.strings, facts.count);
    require_same(facts.inner, again.inner, facts.inner_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redirect_regex_limits limits;
    apr_pool_t *pool;
    char *copy;

    if (size < 3)
        return 0;
    limits = (redirect_regex_limits){data[1], data[2]};
    copy = malloc(size - 3 ? size - 3 : 1);
    require(copy != NULL);
    memcpy(copy, data + 3, size - 3);
    require(apr_initialize() == APR_SUCCESS);
    require(apr_pool_create(&pool, NULL) == APR_SUCCESS);
    check_pattern(copy, size - 3, data[0], &limits, pool);
    apr_pool_destroy(pool);
    apr_terminate();
    free(copy);
    return 0;
}
