/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * libFuzzer harness for the readers of redirect maps. The first byte chooses the format, the second
 * the options; the rest is the file. Whatever it holds, reading must stay inside of it, messages
 * must be printable, and what a row answers must be a Location that cannot end a header or name a
 * host that the row does not. Without libFuzzer, replay_main.c feeds it files.
 */
#include "maps/maps.h"

#include <apr_general.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void look_at(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    (void)baton;
    require(severity <= REDIRECT_ERROR && line > 0 && *message);
    for (; *message; message++)
        require((unsigned char)*message >= ' ' && *message != 127);
}

/* Patterns match whatever they are asked; the groups are the whole path. */
static bool match_all(void *baton, uint32_t id, const char *pattern, unsigned flags,
                      const char *subject, size_t len)
{
    (void)baton, (void)id, (void)flags;
    require(strlen(pattern) > 0 && subject[len] == '\0');
    return true;
}

static const char *field_of(void *baton, const char *name)
{
    (void)baton;
    require(*name && strlen(name) < 256);
    return *name == 'A' ? "text/turtle, de;q=0.5, */*;q=0.1" : *name == 'C' ? "a=1; b" : NULL;
}

static void check_location(const char *location)
{
    size_t scheme = strcspn(location, ":/");

    for (const char *p = location; *p; p++)
        require((unsigned char)*p > ' ' && (unsigned char)*p < 127);
    if (*location == '/')
        require(location[1] != '/' && location[1] != '\\');
    else
        require(scheme && !strncmp(location + scheme, "://", 3));
}

static void ask(const redirect_table *table, const redirect_rule *rule, apr_pool_t *pool)
{
    static const char query[] = "a=1&utm_x=2&\r\n";
    char *path = malloc(rule->source_len + 20);
    redirect_request request = {.path = path,
                                .host = rule->host,
                                .host_len = rule->host_len,
                                .https = rule->flags & REDIRECT_HTTPS,
                                .query = rule->query,
                                .query_len = rule->query_len,
                                .regex = match_all};
    redirect_conditions conditions;
    redirect_group groups[10];
    redirect_match match;
    const char *location;
    bool refused;

    require(path != NULL);
    memcpy(path, rule->source, rule->source_len);
    memcpy(path + rule->source_len, "//evil.example/\r\n", 18);
    request.path_len = rule->source_len + (rule->kind == REDIRECT_EXACT ? 0 : 17);
    path[request.path_len] = '\0';
    for (int i = 0; i < 10; i++)
        groups[i] = (redirect_group){i % 2 ? (int)rule->source_len : 0, (int)request.path_len};
    redirect_conditions_begin(&conditions, pool, field_of, NULL);
    conditions.query = query;
    conditions.country = "AT";
    request.judge = &conditions.judge;
    if (redirect_table_lookup(table, &request, 0, &match)) {
        request.query = query;
        request.query_len = sizeof(query) - 1;
        location = redirect_map_location(&match, &request, groups, 10, pool, &refused);
        require(!location == (refused || !(match.profile.has & REDIRECT_HAS_TARGET)));
        if (location)
            check_location(location);
    }
    free(path);
}

static void use(const redirect_table *table, redirect_report *report, apr_pool_t *pool)
{
    char *target = malloc(REDIRECT_RULE_ROOM);
    redirect_rule rule;

    require(target != NULL);
    require(redirect_map_check(table, report, pool) == APR_SUCCESS);
    for (uint32_t i = redirect_table_next(table, 0); i; i = redirect_table_next(table, i)) {
        redirect_table_rule(table, i, &rule, target, NULL);
        require(!rule.target == (rule.status >= 400));
        ask(table, &rule, pool);
    }
    free(target);
}

static void read_map(const char *bytes, size_t len, redirect_map_options *options)
{
    redirect_report report = {.fn = look_at, .regex = match_all};
    apr_pool_t *pool;
    void *image;
    size_t size;

    require(apr_initialize() == APR_SUCCESS);
    require(apr_pool_create(&pool, NULL) == APR_SUCCESS);
    if (redirect_map_build(options, "map", bytes, len, &report, pool, &image, &size) ==
        APR_SUCCESS) {
        require(redirect_table_validate(image, size) == APR_SUCCESS);
        use(redirect_table_open(image, size, pool), &report, pool);
        free(image);
    } else
        require(report.errors > 0);
    apr_pool_destroy(pool);
    apr_terminate();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redirect_map_options options;
    char *copy;

    if (size < 2)
        return 0;
    redirect_map_options_init(&options);
    options.format = (redirect_format)((data[0] & 127) % 7);
    options.columns = data[0] & 128 ? "target,-,source,subdomains,suffix" : NULL;
    options.query = (redirect_query)(data[1] % 5);
    options.ignore_case = data[1] & 8;
    options.ignore_slash = data[1] & 16;
    options.subpath = data[1] & 32;
    options.strip = data[1] & 64 ? "utm_*,a" : NULL;
    options.unacceptable = data[1] & 64;
    options.host = data[1] & 128 ? "*.h.example" : NULL;
    size -= 2;
    copy = malloc(size ? size : 1); /* ends where the input ends */
    require(copy != NULL);
    memcpy(copy, data + 2, size);
    read_map(copy, size, &options);
    free(copy);
    return 0;
}
