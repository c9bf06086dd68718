/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for src/redirect_table*.c. Whatever bytes come in, validation and every use of
 * an image that it let pass must stay inside of them and end. Requests are made from the image's
 * own rules, so that look-ups get as far as they can. Without libFuzzer, replay_main.c feeds it
 * files.
 */
#include "maps/condition.h"

#include <apr_general.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RULES 64 /* that requests are made from */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char target[REDIRECT_RULE_ROOM];
static char path[REDIRECT_MAX_TEXT + 3];
static char host[REDIRECT_MAX_TEXT + 3];

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Reads all that it is given; matches now and then. */
static bool on_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                     const char *subject, size_t len)
{
    const redirect_table_info *info = baton;
    size_t sum = strlen(pattern) + flags;

    require(id < info->patterns);
    for (size_t i = 0; i < len; i++)
        sum += (unsigned char)subject[i];
    return sum % 3 == 0;
}

static const char *field_of(void *baton, const char *name)
{
    (void)baton;
    return *name == 'A' ? "text/turtle, de;q=0.5, */*;q=0.1" : "a=1; b";
}

static void look_up(const redirect_table *table, redirect_request *request, apr_pool_t *pool)
{
    redirect_conditions conditions;
    redirect_match match;

    redirect_conditions_begin(&conditions, pool, field_of, NULL);
    request->judge = &conditions.judge;
    for (uint32_t from = 0; redirect_table_lookup(table, request, from, &match);
         from = match.rule + 1) {
        require(match.rule >= from && match.matched <= request->path_len);
        require(match.target_len <= REDIRECT_MAX_TEXT);
        redirect_match_target(&match, target);
        require(!match.strip || strlen(match.strip) <= REDIRECT_MAX_TEXT);
        if (from)
            break;
    }
}

/* The rule's source as the path, and what comes close to it. */
static void ask_like(const redirect_table *table, redirect_table_info *info,
                     const redirect_rule *rule, apr_pool_t *pool)
{
    static const char *const tails[] = {"", "/", "\n", "x/y"};
    redirect_request request = {.path = path,
                                .host = rule->host ? host : NULL,
                                .query = rule->query,
                                .query_len = rule->query_len,
                                .regex = on_regex,
                                .baton = info};

    host[0] = 'x';
    if (rule->host && rule->host_len)
        memcpy(host + (rule->host[0] == '*'), rule->host, rule->host_len);
    request.host_len = rule->host ? rule->host_len + (rule->host[0] == '*') : 0;
    for (unsigned i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        size_t len = rule->source_len < sizeof(path) - 4 ? rule->source_len : sizeof(path) - 4;

        memcpy(path, rule->source, len);
        strcpy(path + len, tails[i]);
        request.path_len = len + strlen(tails[i]);
        request.https = i & 1;
        look_up(table, &request, pool);
    }
}

static void use(const redirect_table *table, apr_pool_t *pool)
{
    redirect_table_info info;
    uint32_t place = 0, count = 0, index;
    redirect_rule rule;

    redirect_table_info_get(table, &info);
    while ((place = redirect_table_next(table, place)) != 0) {
        redirect_table_rule(table, place, &rule, target, &index);
        require(index == count && rule.target_len <= REDIRECT_MAX_TEXT);
        if (count++ < MAX_RULES)
            ask_like(table, &info, &rule, pool);
    }
    require(count == info.rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* ends where the input ends */
    apr_pool_t *pool;

    require(copy != NULL);
    if (size)
        memcpy(copy, data, size);
    if (redirect_table_validate(copy, size) == APR_SUCCESS) {
        require(apr_initialize() == APR_SUCCESS);
        require(apr_pool_create(&pool, NULL) == APR_SUCCESS);
        use(redirect_table_open(copy, size, pool), pool);
        apr_pool_destroy(pool);
        apr_terminate();
    }
    free(copy);
    return 0;
}
