/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Redirect maps for unit tests; see redirect_map_util.h. Patterns are run by the same code as in
 * htcachectl.
 */
#include "redirect_map_util.h"

#include "tool/map.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void note(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    test_map *map = baton;

    for (const char *p = message; *p; p++)
        ck_assert_msg((unsigned char)*p >= ' ' && *p != 127, "a control character in: %s", message);
    map->log = apr_psprintf(map->pool, "%s%c%s%u %s\n", map->log, "NWE"[severity],
                            redirect_line_prefix(line), redirect_line_number(line), message);
}

static void set_options(test_map *map, const char *words, redirect_map_options *options)
{
    char *state, *copy = apr_pstrdup(map->pool, words);

    redirect_map_options_init(options);
    for (char *word = apr_strtok(copy, " ", &state); word; word = apr_strtok(NULL, " ", &state)) {
        const char *why = redirect_map_option(options, word, map->pool);

        ck_assert_msg(!why, "%s", why);
    }
}

test_map *test_map_load_bytes(const char *name, const char *bytes, size_t len, const char *options)
{
    apr_pool_t *pool;
    test_map *map;
    redirect_map_options o;
    char *exact = malloc(len ? len : 1);

    apr_initialize();
    apr_pool_create(&pool, NULL);
    map = apr_pcalloc(pool, sizeof(*map));
    map->pool = pool;
    map->log = "";
    map->regexes = map_regexes_create(pool);
    map->report.fn = note;
    map->report.baton = map;
    map->report.compile = map_regexes_try;
    map->report.regex = map_regexes_match;
    map->report.regex_baton = map->regexes;
    map->report.groups = map_regexes_find_groups;
    set_options(map, options, &o);
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, bytes, len);
    map->rv = redirect_map_build(&o, name, exact, len, &map->report, pool, &map->image, &map->size);
    free(exact);
    if (map->rv == APR_SUCCESS) {
        ck_assert_int_eq(redirect_table_validate(map->image, map->size), APR_SUCCESS);
        map->table = redirect_table_open(map->image, map->size, pool);
    } else
        ck_assert_ptr_null(map->image);
    return map;
}

test_map *test_map_load(const char *name, const char *text, const char *options)
{
    return test_map_load_bytes(name, text, strlen(text), options);
}

void test_map_free(test_map *map)
{
    free(map->image);
    apr_pool_destroy(map->pool);
    apr_terminate();
}

static bool ask(test_map *map, const char *url, redirect_request *request, redirect_match *match)
{
    redirect_server lenient = {.encoded_slashes = REDIRECT_SLASHES_NODECODE, .keep_runs = true};
    int status;
    const char *why = redirect_request_of(url, &lenient, request, &status, map->pool);
    redirect_request asked = *request;

    ck_assert_msg(!why, "%s: %s", url, why);
    ck_assert_ptr_nonnull(map->table);
    redirect_request_one_form(&asked, map->pool);
    asked.regex = map_regexes_match;
    asked.baton = map->regexes;
    return redirect_table_lookup(map->table, &asked, 0, match);
}

const char *test_map_ask(test_map *map, const char *url)
{
    redirect_request request;
    redirect_match match;
    redirect_group groups[10];
    const char *location;
    bool refused;
    int n;

    if (!ask(map, url, &request, &match))
        return "none";
    n = map_regexes_groups(map->regexes, &match, redirect_path_one_form(request.path, map->pool),
                           request.path_len, groups, 10);
    location = redirect_map_location(&match, &request, groups, n, map->pool, &refused);
    if (refused)
        return "refused";
    return apr_psprintf(map->pool, "%d%s%s", match.profile.status, location ? " " : "",
                        location ? location : "");
}

unsigned test_map_line(test_map *map, const char *url)
{
    redirect_request request;
    redirect_match match;

    return ask(map, url, &request, &match) ? redirect_table_line(map->table, match.rule, NULL) : 0;
}

bool test_map_said(const test_map *map, const char *begin)
{
    const char *line = map->log;
    size_t len = strlen(begin);

    while (line && *line) {
        if (!strncmp(line, begin, len) && (strchr(begin, ' ') || line[len] == ' '))
            return true;
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return false;
}

void test_map_expect(test_map *map, const char *url, const char *answer)
{
    const char *got = test_map_ask(map, url);

    ck_assert_msg(!strcmp(got, answer), "%s answers '%s' instead of '%s'; reports:\n%s", url, got,
                  answer, map->log);
}

bool test_map_has_regexes(void)
{
    return map_regexes_available();
}
