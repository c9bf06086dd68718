/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the literals by which htcachectl finds patterns: how many rules and patterns a
 * look-up tries in lists that have thousands, and that it answers as before. Run by 'make check'.
 */
#include "redirect_map_util.h"
#include "tool/convert.h"
#include "tool/map.h"
#include "tool/probe.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LINES 3000

static apr_pool_t *pool;

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    (void)baton;
    if (severity == REDIRECT_ERROR)
        ck_abort_msg("%s:%u: %s", file, (unsigned)line, message);
}

/* Patterns are run by the tool, and counted. */
typedef struct counter {
    map_regexes *regexes;
    uint64_t runs;
} counter;

static bool match_counted(void *baton, uint32_t id, const char *pattern, unsigned flags,
                          const char *subject, size_t len)
{
    counter *c = baton;

    c->runs++;
    return map_regexes_match(c->regexes, id, pattern, flags, subject, len);
}

static const convert_list *list_of(const char *text)
{
    convert_list *list = convert_list_create(pool, say, NULL);
    convert_place place = {.htaccess = false};

    convert_read_config(list, &place, "a.conf", text, strlen(text));
    return list;
}

static const redirect_table *table_of(const convert_list *list)
{
    size_t size;
    void *image;

    ck_assert_int_eq(convert_build(list, &image, &size), APR_SUCCESS);
    return redirect_table_open(image, size, pool);
}

static const struct {
    const char *line; /* %d twice: source and target */
    const char *path; /* that it answers */
} shapes[] = {
    {"RedirectMatch 301 (?i)^/page-%d/x$ https://n.example/%d\n", "/PAGE-%d/x"},
    {"RedirectMatch 301 ^(?i)/page-%d/x/?$ https://n.example/%d\n", "/page-%d/X/"},
    {"RedirectMatch 301 /page-%d\\.html$ https://n.example/%d\n", "/a/page-%d.html"},
    {"RedirectMatch 301 (?i)/a-long-name/page-%d\\.html$ https://n.example/%d\n",
     "/A-Long-Name/page-%d.html"},
    {"RedirectMatch 301 ^/([a-z]+)/x/(.*)-%d-end-of-the-name$ https://n.example/%d/$1\n",
     "/a/x/b-%d-end-of-the-name"},
    {"RewriteRule ^/page-%d/?$ https://n.example/%d [R=301,L,NC]\n", "/Page-%d"},
    {"RewriteRule page-%d$ https://n.example/%d [R=301,L,NC]\n", "/a/Page-%d"},
};

/* The work of all look-ups together is bounded by a few tries for each. */
START_TEST(a_look_up_tries_few_patterns)
{
    counter c = {map_regexes_create(pool), 0};
    uint64_t compared = 0;
    char *text = malloc(LINES * 120 + 100), *to = text;
    const redirect_table *table;

    if (!map_regexes_available())
        return;
    map_regexes_budget(c.regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
    to += sprintf(to, "RewriteEngine On\n");
    for (int i = 0; i < LINES; i++)
        to += sprintf(to, shapes[_i].line, 10000 + i, i);
    table = table_of(list_of(text));
    for (int i = 0; i < LINES; i++) {
        redirect_request request = {.path = apr_psprintf(pool, shapes[_i].path, 10000 + i),
                                    .regex = match_counted,
                                    .baton = &c,
                                    .compared = &compared};
        redirect_match match;

        request.path_len = strlen(request.path);
        ck_assert_msg(redirect_table_lookup(table, &request, 0, &match), "%s", request.path);
        ck_assert_uint_eq(redirect_table_line(table, match.rule, NULL), (unsigned)i);
    }
    ck_assert_uint_le(c.runs, 2 * LINES);
    ck_assert_uint_le(compared, 32 * LINES);
    free(text);
}
END_TEST

/* Alike in their literals, so that order and case decide. */
static const char *const lines[] = {
    "RedirectMatch 301 (?i)^/page-1/x$ /r%d\n",
    "RedirectMatch 301 ^/page-1/x$ /r%d\n",
    "RedirectMatch 301 ^/(?i)page-1/x /r%d\n",
    "RedirectMatch 301 /page(?i)-1/X$ /r%d\n",
    "RedirectMatch 301 page-1/ /r%d\n",
    "RedirectMatch 301 (?i)E-1 /r%d\n",
    "RedirectMatch 301 ^/page-(1|2)/x$ /r%d\n",
    "RedirectMatch 301 ^/page-.*1/x$ /r%d\n",
    "RedirectMatch 301 [0-9]/x$ /r%d\n",
    "RedirectMatch 301 (?i)^/(page)-1/(.*)$ /r%d\n",
    "RedirectMatch 301 ^/page-1 /r%d\n",
    "RedirectMatch 301 (a|/page-1/)x /r%d\n",
    "Redirect 301 /page-1 /r%d\n",
};

static const char *const paths[] = {"/page-1/x",  "/PAGE-1/X",  "/Page-1/x",   "/page-1/X",
                                    "/page-2/x",  "/page-11/x", "/a/page-1/x", "/page-1",
                                    "/page-1/xy", "/PAGE-1/xy", "/pa",         "/"};

/* Which line answers, found by trying all. */
static int first_of(map_regexes *regexes, const convert_list *list, const char *path)
{
    for (int i = 0; i < list->rules->nelts; i++) {
        const redirect_rule *rule = &APR_ARRAY_IDX(list->rules, i, convert_rule).rule;
        size_t len = rule->source_len;

        if (rule->kind == REDIRECT_PATTERN ? map_regexes_match(regexes, (uint32_t)i, rule->pattern,
                                                               rule->flags, path, strlen(path))
            : rule->kind == REDIRECT_PREFIX
                ? !strncmp(path, rule->source, len) && (!path[len] || path[len] == '/')
            : rule->kind == REDIRECT_LITERAL ? !strcmp(path, rule->source)
                                             : !strncmp(path, rule->source, len))
            return i;
    }
    return -1;
}

START_TEST(the_first_line_answers)
{
    map_regexes *regexes = map_regexes_create(pool);
    unsigned seed = (unsigned)_i + 1;
    const convert_list *list;
    probe_table table;
    char *text = "";

    if (!map_regexes_available())
        return;
    for (int i = 0; i < 24; i++) {
        seed = seed * 1103515245 + 12345;
        text = apr_pstrcat(pool, text, apr_psprintf(pool, lines[(seed >> 16) % COUNT_OF(lines)], i),
                           NULL);
    }
    list = list_of(text);
    ck_assert_int_eq(list->rules->nelts, 24);
    ck_assert(probe_open(&table, list));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        redirect_request request = {.path = paths[i], .path_len = strlen(paths[i])};

        ck_assert_msg(probe_ask(&table, &request, pool).index == first_of(regexes, list, paths[i]),
                      "%s in\n%s", paths[i], text);
    }
    probe_close(&table);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pattern_keys");
    TCase *tc = tcase_create("pattern_keys");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, a_look_up_tries_few_patterns, 0, (int)COUNT_OF(shapes));
    tcase_add_loop_test(tc, the_first_line_answers, 0, 50);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
