/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the literals by which patterns of maps, and of lines that htcachectl reads, are
 * found: how many rules and patterns a look-up tries where there are thousands, and that it answers
 * as one that tries all. Run by 'make check'.
 */
#include "pool_fixture.h"
#include "redirect_map_util.h"
#include "suite_util.h"
#include "tool/convert.h"
#include "tool/map.h"
#include "tool/probe.h"

#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LINES 3000
#define ROWS  40

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

static const struct shape {
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

/* Rows of maps, in nginx's format. */
static const struct shape rows[] = {
    {"~page-%d\\.html$ /%d;\n", "/a/page-%d.html"},
    {"~*page-%d\\.html$ /%d;\n", "/a/PAGE-%d.HTML"},
    {"~(?i)/page-%d$ /%d;\n", "/PAGE-%d"},
    {"~^/shop/(?:a|b)/(?<rest>.*)-%d-end$ /%d/$rest;\n", "/shop/b/x-%d-end"},
    {"~^/p/%d/.*/the-same-long-end\\.html$ /%d;\n", "/p/%d/x/the-same-long-end.html"},
};

/* The work of all look-ups together is bounded by a few tries for each. Line i of the table is
 * @a first + i. */
static void ask_all(const redirect_table *table, const char *path, unsigned first)
{
    counter c = {map_regexes_create(pool), 0};
    uint64_t compared = 0;

    map_regexes_budget(c.regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
    for (unsigned i = 0; i < LINES; i++) {
        redirect_request request = {.path = apr_psprintf(pool, path, 10000 + i),
                                    .regex = match_counted,
                                    .baton = &c,
                                    .compared = &compared};
        redirect_match match;

        request.path_len = strlen(request.path);
        ck_assert_msg(redirect_table_lookup(table, &request, 0, &match), "%s", request.path);
        ck_assert_uint_eq(redirect_table_line(table, match.rule, NULL), first + i);
    }
    ck_assert_uint_le(c.runs, 2 * LINES);
    ck_assert_uint_le(compared, 32 * LINES);
}

static char *lines_of(const char *line, const char *begin)
{
    char *text = apr_palloc(pool, LINES * 120 + 100), *to = text + sprintf(text, "%s", begin);

    for (int i = 0; i < LINES; i++)
        to += sprintf(to, line, 10000 + i, i);
    return text;
}

START_TEST(a_look_up_tries_few_patterns)
{
    if (map_regexes_available())
        ask_all(table_of(list_of(lines_of(shapes[_i].line, "RewriteEngine On\n"))), shapes[_i].path,
                0);
}
END_TEST

START_TEST(so_it_does_in_a_map)
{
    test_map *map = test_map_load("a.map", lines_of(rows[_i].line, ""), "format=nginx");

    ck_assert_uint_eq(map->report.rows, LINES);
    if (map_regexes_available())
        ask_all(map->table, rows[_i].path, 1);
    test_map_free(map);
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

/* Patterns of a map whose literals are much alike. What they say of a path's letters and options is
 * all that can make a literal wrong that is not needed, or is written otherwise. */
static const char *const patterns[] = {
    "page-1/x",
    "Page-1",
    "PAGE-12/",
    "(?i)page-1/x",
    "page(?i)-1/X",
    "page(?-i)-1",
    "(?i)page(?-i)-1/x",
    "(?i:PAGE)-1",
    "^/page-1/x$",
    "^(?i)/page-1",
    "(?:page-1/x|other-2)",
    "page-1/x|other-2",
    "(page-1/)?x12",
    "(?:page-1)*/x12",
    "(?:page-1){0}/x12",
    "(page-1/x){0,1}y",
    "page-1{0}/x",
    "page-1{2}",
    "page-12?/x",
    "page-1+/x",
    "(?=.*page-1/)x",
    "(?!.*page-1/)x",
    "(?<=page-1/)x",
    "(?<!page-1/)x",
    "page-1(?=/x)",
    "page-1(?!/x)",
    "\\Qpage-1/x\\E",
    "\\Qpage-1\\E?/x",
    "(?x) page - 1 /x",
    "(?x)page-1 # /xyz\n/x",
    "p[a]ge-1/[x]",
    "p[aA]ge-1/[^y]",
    "pa.e-1/x",
    "page\\-1\\/x",
    "\\x70age-1/x",
    "page-1(?#/y)/x",
    "(?|page-1/(x)|other-2/(y))",
    "(?>page-1/)x",
    "(p)age-1/x\\1?",
    "^/(?:a/)?page-1/x",
    "/x\\Kpage-1|page-1/x",
    "caf\xc3\xa9-page",
    "(?i)CAF\xc3\xa9-page",
    "[[:alpha:]]+-1/x",
    "a?p?a?g?e?-?1?/xyz1",
    "page-1/x$",
    "x(*ACCEPT)page-1",
    "()", /* only among the last */
};

static const char *const path_pieces[] = {"/page-1",
                                          "/x",
                                          "/PAGE-1",
                                          "/Page-12",
                                          "/X",
                                          "/xyz",
                                          "/x12",
                                          "/other-2",
                                          "/page-11",
                                          "/a",
                                          "page-1/x",
                                          "/y",
                                          "/caf\xc3\xa9-page",
                                          "/CAF\xc3\xa9-PAGE",
                                          "/pa.e-1",
                                          "/page-",
                                          "/ge-1/x",
                                          "/page-1/x",
                                          "/xyz1",
                                          "\n",
                                          "/pXge-1"};

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 16) % below;
}

/* A row of nginx's map with the pattern, whatever is in it. */
static char *put_row(char *to, const char *pattern, bool icase, int number)
{
    to += sprintf(to, icase ? "\"~*" : "\"~");
    for (; *pattern; pattern++) {
        if (*pattern == '\\' || *pattern == '"')
            *to++ = '\\';
        *to++ = *pattern;
    }
    return to + sprintf(to, "\" /r%d;\n", number);
}

/* With RegexDefaultOptions ICASE a server compiles them all so. */
static bool match_caseless(void *baton, uint32_t id, const char *pattern, unsigned flags,
                           const char *subject, size_t len)
{
    return map_regexes_match(baton, id, pattern, flags | REDIRECT_ICASE, subject, len);
}

static unsigned line_of(const redirect_table *table, redirect_regex_fn *regex, const char *path)
{
    redirect_request request = {
        .path = path, .path_len = strlen(path), .regex = regex, .baton = map_regexes_create(pool)};
    redirect_match match;

    return redirect_table_lookup(table, &request, 0, &match)
               ? redirect_table_line(table, match.rule, NULL)
               : 0;
}

static const char *random_path(unsigned *seed)
{
    const char *path = "/";

    for (unsigned n = draw(seed, 4); n; n--)
        path = apr_pstrcat(pool, path, path_pieces[draw(seed, COUNT_OF(path_pieces))], NULL);
    return path[1] == '/' ? path + 1 : path;
}

/* Each row's pattern is run for each path, one behind the other. */
START_TEST(the_first_row_answers)
{
    redirect_regex_fn *regex = _i % 4 ? map_regexes_match : match_caseless;
    map_regexes *regexes = map_regexes_create(pool);
    unsigned seed = (unsigned)_i + 1, found = 0, lines[ROWS], line = 1;
    const char *chosen[ROWS];
    unsigned flags[ROWS];
    char *text = apr_palloc(pool, ROWS * 200), *to = text;
    test_map *map;

    if (!map_regexes_available())
        return;
    for (int i = 0; i < ROWS; i++) {
        do
            chosen[i] = patterns[draw(&seed, COUNT_OF(patterns) - (i < ROWS - 2))];
        while (regex == match_caseless && *chosen[i] == '^'); /* its beginning is as written */
        flags[i] = draw(&seed, 3) ? 0 : REDIRECT_ICASE;
        lines[i] = line;
        line += strchr(chosen[i], '\n') ? 2 : 1;
        to = put_row(to, chosen[i], flags[i], i);
    }
    map = test_map_load("a.map", text, "format=nginx");
    ck_assert_msg(!map->report.errors, "%s", map->log);
    for (int i = 0; i < 60; i++) {
        const char *path = random_path(&seed);
        unsigned wanted = 0;

        for (uint32_t j = 0; j < ROWS && !wanted; j++) {
            if (regex(regexes, j, chosen[j], flags[j], path, strlen(path)))
                wanted = lines[j];
        }
        found += wanted > 0;
        ck_assert_msg(line_of(map->table, regex, path) == wanted, "%s: line %u, not %u, in\n%s",
                      path, line_of(map->table, regex, path), wanted, text);
    }
    ck_assert_uint_gt(found, 10);
    test_map_free(map);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pattern_keys");
    TCase *tc = tcase_create("pattern_keys");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, a_look_up_tries_few_patterns, 0, (int)COUNT_OF(shapes));
    tcase_add_loop_test(tc, so_it_does_in_a_map, 0, (int)COUNT_OF(rows));
    tcase_add_loop_test(tc, the_first_line_answers, 0, 50);
    tcase_add_loop_test(tc, the_first_row_answers, 0, 100);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
