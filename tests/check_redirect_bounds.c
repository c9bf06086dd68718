/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a redirect map may take when it is read and checked, in numbers of patterns and comparisons:
 * patterns that are tried, limits that patterns set themselves, and the check for loops; and what
 * groups make of a target. Run by 'make check'.
 */
#include "suite_util.h"
#include "tool/map.h"
#include "maps/budget.h"
#include "redirect_map_util.h"
#include "regex/regex.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- text that is written row by row -----------------------------------------------------------
 */

static char *text;
static size_t text_len, text_size;

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    char row[20000];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(row, sizeof(row), format, args);
    va_end(args);
    ck_assert(n > 0 && (size_t)n < sizeof(row));
    if (text_len + (size_t)n > text_size) {
        text_size = 2 * (text_len + (size_t)n);
        text = realloc(text, text_size);
        ck_assert_ptr_nonnull(text);
    }
    memcpy(text + text_len, row, (size_t)n);
    text_len += (size_t)n;
}

/* --- patterns that are tried -------------------------------------------------------------------
 */

typedef struct tried {
    uint64_t count, cost;
    unsigned said, said_line;
    bool wrong; /* none can be compiled */
} tried;

static uint64_t cost_of(const char *pattern)
{
    size_t len = strlen(pattern);

    return redirect_regex_bytes(pattern, len) * (1 + len / 256);
}

static const char *try_it(void *baton, const char *pattern, unsigned flags)
{
    tried *t = baton;

    (void)flags;
    t->count++;
    t->cost += cost_of(pattern);
    return t->wrong ? "wrong" : NULL;
}

static void hear(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    tried *t = baton;

    if (severity != REDIRECT_WARNING || !strstr(message, "not tried"))
        return;
    t->said++;
    t->said_line = line;
}

static redirect_report read_map(const char *name, uint64_t most, tried *t)
{
    redirect_report report = {
        .fn = hear, .baton = t, .compile = try_it, .try_most = most, .progress = NULL};
    redirect_map_options options;
    apr_pool_t *pool;
    void *image;
    size_t size;

    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&options);
    ck_assert_int_eq(
        redirect_map_build(&options, name, text, text_len, &report, pool, &image, &size),
        APR_SUCCESS);
    free(image);
    apr_pool_destroy(pool);
    text_len = 0;
    return report;
}

/* Rows of each format that has patterns, which differ, and cost much by their copies, their number
 * or their length. */
static const char *write_rows(int format, int kind, unsigned rows)
{
    static char filler[4001];
    const char *costly = kind == 0 ? "(?:(?:a*|b*|c*){600})" : kind == 1 ? "a+b" : filler;

    memset(filler, 'x', sizeof(filler) - 1);
    if (format == 1)
        put("{\"redirects\":[\n");
    for (unsigned i = 0; i < rows; i++) {
        if (format == 0)
            put("\"~%s%ux?\" /t;\n", costly, i);
        else if (format == 1)
            put("%s{\"source\":\"/:p(%s%u)\",\"destination\":\"/t\"}\n", i ? "," : "", costly, i);
        else
            put("/%s%u/:a/* /t/:a\n", kind == 2 ? costly : "", i);
    }
    if (format == 1)
        put("]}\n");
    return format == 0 ? "m.map" : format == 1 ? "m.json" : "_redirects";
}

START_TEST(patterns_have_a_bound_together)
{
    for (int format = 0; format < 2; format++) {
        for (int kind = 0; kind < 3; kind++) {
            tried all = {0}, bound = {0}, some = {0};
            redirect_report whole = read_map(write_rows(format, kind, 500), 0, &all), report;

            ck_assert_uint_eq(all.count, 500);
            ck_assert_uint_eq(all.said, 0);
            report = read_map(write_rows(format, kind, 500), all.cost, &bound);
            ck_assert_uint_eq(bound.count, 500);
            ck_assert_uint_eq(bound.said, 0);
            report = read_map(write_rows(format, kind, 500), all.cost / 2, &some);
            ck_assert_uint_eq(report.rows, whole.rows);
            ck_assert_uint_le(some.cost, all.cost / 2);
            ck_assert_uint_gt(some.count, 200);
            ck_assert_uint_lt(some.count, 300);
            ck_assert_uint_eq(some.said, 1);
            ck_assert_uint_eq(some.said_line, some.count + 1 + (format == 1));
        }
    }
}
END_TEST

/* Placeholders and splats of _redirects are no patterns of a regex library. */
START_TEST(templates_cost_nothing_of_it)
{
    for (int kind = 0; kind < 3; kind++) {
        tried none = {0};
        redirect_report report = read_map(write_rows(2, kind, 500), 1, &none);

        ck_assert_uint_eq(report.rows, 500);
        ck_assert_uint_eq(none.count, 0);
        ck_assert_uint_eq(none.said, 0);
    }
}
END_TEST

/* Errors are found as far as patterns are tried; what is behind is taken. */
START_TEST(patterns_that_are_not_tried_are_rows)
{
    tried t = {.wrong = true};
    redirect_report report = read_map(write_rows(0, 0, 500), REDIRECT_TRY_MOST / 10, &t);

    ck_assert_uint_eq(report.errors, t.count);
    ck_assert_uint_eq(report.rows, 500 - t.count);
    ck_assert_uint_lt(t.count, 200);
    ck_assert_uint_eq(t.said, 1);
}
END_TEST

START_TEST(ordinary_patterns_stay_below_the_bound)
{
    tried t = {0};

    for (unsigned i = 0; i < 20000; i++)
        put("\"~^/archive/%u/([^/]+)/([0-9]{4})-([0-9]{2})/?$\" /new/$1/$2;\n", i);
    read_map("m.map", REDIRECT_TRY_MOST, &t);
    ck_assert_uint_eq(t.count, 20000);
    ck_assert_uint_eq(t.said, 0);
    ck_assert_uint_lt(t.cost, REDIRECT_TRY_MOST / 2);
}
END_TEST

/* --- limits at a pattern's head ----------------------------------------------------------------
 */

START_TEST(a_pattern_sets_no_limits)
{
    static const struct {
        const char *pattern;
        bool limits;
    } cases[] = {{"(*LIMIT_MATCH=1)^/a", true},
                 {"(*LIMIT_MATCH=4000000000)^/a", true},
                 {"(*LIMIT_DEPTH=1)^/a", true},
                 {"(*LIMIT_RECURSION=1)^/a", true},
                 {"(*LIMIT_HEAP=1)^/a", true},
                 {"(*UTF)(*LIMIT_MATCH=9)^/a", true},
                 {"(*UTF)(*UCP)(*NO_JIT)(*LIMIT_HEAP=9)^/a", true},
                 {"(*UTF)^/a", false},
                 {"(*LIMIT", false},
                 {"(*LIMIT_", true},
                 {"(*", false},
                 {"(", false},
                 {"", false},
                 {"^/a", false},
                 {"^(*LIMIT_MATCH=1)/a", false}, /* an error */
                 {"\\(*LIMIT_MATCH=1", false},   /* literal */
                 {"(*UTF)a(*LIMIT_MATCH=1)", false}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t len = strlen(cases[i].pattern);
        char *exact = malloc(len + 1);

        ck_assert_ptr_nonnull(exact);
        memcpy(exact, cases[i].pattern, len + 1);
        ck_assert_msg(redirect_pattern_limits_itself(exact, len) == cases[i].limits, "%s",
                      cases[i].pattern);
        free(exact);
    }
}
END_TEST

START_TEST(rows_whose_patterns_set_limits_are_errors)
{
    static const struct {
        const char *name, *map, *said;
    } cases[] = {{"m.map", "~(*LIMIT_MATCH=9)^/a(b) /t;", "E1 the pattern sets a limit"},
                 {"m.map", "~(*UTF)(*LIMIT_HEAP=9)^/a(b) /t;", "E1 the pattern sets a limit"},
                 {"m.map", "~*(*LIMIT_DEPTH=9)^/a(b) /t;", "E1 the pattern sets a limit"},
                 {"m.map", "~(*UTF)^/a(b) /t;", NULL}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        test_map *map = test_map_load(cases[i].name, cases[i].map, "status=301");

        ck_assert_msg(cases[i].said ? test_map_said(map, cases[i].said) : !*map->log, "%s: %s",
                      cases[i].map, map->log);
        ck_assert_uint_eq(map->report.rows, cases[i].said ? 0 : 1);
        test_map_free(map);
    }
}
END_TEST

/* Whoever writes the memory that a pattern lies in cannot raise them either; neither can a pattern
 * take memory for as many steps as it has. Each would match by its last alternative. */
START_TEST(nothing_runs_beyond_the_limits)
{
    static char groups[3000], path[8000];
    const char *patterns[] = {"(*LIMIT_MATCH=9000000)^/(?:(?:a|aa)+[!?]|a)", groups};
    apr_pool_t *pool;
    size_t n = (size_t)apr_snprintf(groups, sizeof(groups), "^/(?:(?:a|b)+(?:(?!)|x");

    if (!map_regexes_available())
        return;
    for (int i = 0; i < 1000; i++, n += 2)
        memcpy(groups + n, "()", 2);
    memcpy(groups + n, ")!|a)", 6);
    memset(path + 1, 'a', sizeof(path) - 1);
    path[0] = '/';
    apr_pool_create(&pool, NULL);
    for (uint32_t i = 0; i < COUNT_OF(patterns); i++) {
        map_regexes *regexes = map_regexes_create(pool);
        size_t len = i ? sizeof(path) : 28;

        ck_assert(map_regexes_match(regexes, i, patterns[1], 0, "/a", 2));
        regexes = map_regexes_create(pool);
        ck_assert_msg(!map_regexes_match(regexes, i, patterns[i], 0, path, len), "%u", i);
    }
    apr_pool_destroy(pool);
}
END_TEST

/* --- the check for loops -----------------------------------------------------------------------
 */

static uint64_t ran;

static bool run_none(void *baton, uint32_t id, const char *pattern, unsigned flags,
                     const char *subject, size_t len)
{
    (void)baton, (void)id, (void)pattern, (void)flags, (void)subject, (void)len;
    ran++;
    return false;
}

/* Rows that each have to be compared with many, as patterns begin with nothing literal or with the
 * same; and rows that have not. */
static const char *write_crowd(int kind, unsigned rows)
{
    for (unsigned i = 0; i < rows; i++) {
        if (kind == 0)
            put("~.*[x%u]$ /t;\n/r%u /r%u;\n", i, i, i + 1);
        else if (kind == 1)
            put("~^/a/.*[x%u]$ /a/t;\n/a/r%u /a/r%u;\n", i, i, i + 1);
        else if (kind == 2)
            put("/a?id=%u /a?id=%u\n", i, i + 1);
        else if (kind == 4)
            put("/w /r%u accept=x/y%u\n", i, i);
        else if (kind == 5)
            put("/w /r%u cookie=c%u\n", i, i);
        else
            put("/r%u /r%u\n", i, i + 1);
    }
    return kind < 2 ? "m.map" : "m.txt";
}

static redirect_report check_map(const char *name, redirect_regex_fn *regex, uint64_t most,
                                 bool *said)
{
    test_map *map = test_map_load_bytes(name, text, text_len, "");
    redirect_report report;

    ck_assert_int_eq(map->rv, APR_SUCCESS);
    map->report.regex = regex;
    map->report.check_most = most;
    map->log = "";
    ran = 0;
    ck_assert_int_eq(redirect_map_check(map->table, &map->report, map->pool), APR_SUCCESS);
    *said = strstr(map->log, "were not checked for loops") != NULL;
    ck_assert(!*said || !strstr(strstr(map->log, "not checked for") + 1, "not checked for"));
    report = map->report;
    test_map_free(map);
    text_len = 0;
    return report;
}

#define CROWD 400

START_TEST(checking_is_linear)
{
    for (int kind = 0; kind < 4; kind++) {
        for (int regex = 0; regex < 2; regex++) {
            redirect_regex_fn *fn = regex ? run_none : NULL;
            bool said;

            check_map(write_crowd(kind, CROWD), fn, UINT64_MAX, &said);
            ck_assert_msg(!said, "kind %d, without a bound", kind);
            if (kind < 2 && regex)
                ck_assert_uint_ge(ran, (uint64_t)CROWD * CROWD);
            check_map(write_crowd(kind, CROWD), fn, 10 * CROWD, &said);
            ck_assert_msg(said == (kind < 2), "kind %d", kind);
            ck_assert_uint_le(ran, 13 * CROWD);
            check_map(write_crowd(kind, CROWD), fn, 0, &said);
            ck_assert_msg(!said, "kind %d: a small map is looked at whole", kind);
        }
    }
}
END_TEST

/* Of a source with conditions each look-up goes over all rows, also over those behind the one that it
 * finds. */
START_TEST(rows_with_conditions_count)
{
    for (int kind = 4; kind < 6; kind++) {
        bool said;

        check_map(write_crowd(kind, CROWD), NULL, (uint64_t)CROWD * CROWD * 3 / 4, &said);
        ck_assert_msg(said, "kind %d", kind);
        check_map(write_crowd(kind, CROWD), NULL, 0, &said);
        ck_assert_msg(!said, "kind %d: a small map is looked at whole", kind);
    }
}
END_TEST

/* What was looked at is reported as ever. */
START_TEST(loops_in_front_are_found)
{
    redirect_report report;
    bool said;

    put("/z /z;\n");
    report = check_map(write_crowd(0, CROWD), NULL, 2 * CROWD, &said);
    ck_assert(said);
    ck_assert_uint_eq(report.self, 1);
    put("/z /z;\n");
    report = check_map(write_crowd(0, CROWD), NULL, 1, &said);
    ck_assert(said);
    ck_assert_uint_eq(report.self, 1);
}
END_TEST

/* --- what groups make --------------------------------------------------------------------------
 */

/* A row whose target repeats its group so often, asked with a path that has 16 bytes in it. */
static const char *answer_of(const char *name, const char *begin, const char *group, unsigned times,
                             const char *end, apr_pool_t *pool)
{
    test_map *map;
    const char *answer;

    text_len = 0;
    put("%s", begin);
    for (unsigned i = 0; i < times; i++)
        put("%s", group);
    put("%s", end);
    map = test_map_load_bytes(name, text, text_len, "");
    answer = apr_pstrdup(pool, test_map_ask(map, "/r0123456789abcdef"));
    test_map_free(map);
    return answer;
}

START_TEST(what_groups_make_is_bounded)
{
    static const char target[] = "http://x/";
    unsigned fits = (REDIRECT_LOCATION_MAX - (sizeof(target) - 1)) / 16;
    apr_pool_t *pool;

    if (!test_map_has_regexes())
        return;
    apr_initialize();
    apr_pool_create(&pool, NULL);
    ck_assert_uint_eq(
        strlen(answer_of("m.map", "\"~^/r(.*)$\" \"http://x/", "$1", fits, "\";\n", pool)),
        strlen("302 ") + sizeof(target) - 1 + (size_t)16 * fits);
    ck_assert_str_eq(answer_of("m.map", "\"~^/r(.*)$\" \"http://x/", "$1", fits + 1, "\";\n", pool),
                     "refused");
    apr_pool_destroy(pool);
    apr_terminate();
}
END_TEST

static void setup(void)
{
    apr_initialize();
}

static void teardown(void)
{
    apr_terminate();
}

int main(void)
{
    Suite *suite = suite_create("bounds of redirect maps");
    TCase *tests = tcase_create("bounds");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, patterns_have_a_bound_together);
    tcase_add_test(tests, templates_cost_nothing_of_it);
    tcase_add_test(tests, patterns_that_are_not_tried_are_rows);
    tcase_add_test(tests, ordinary_patterns_stay_below_the_bound);
    tcase_add_test(tests, a_pattern_sets_no_limits);
    tcase_add_test(tests, rows_whose_patterns_set_limits_are_errors);
    tcase_add_test(tests, nothing_runs_beyond_the_limits);
    tcase_add_test(tests, checking_is_linear);
    tcase_add_test(tests, rows_with_conditions_count);
    tcase_add_test(tests, loops_in_front_are_found);
    tcase_add_test(tests, what_groups_make_is_bounded);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
