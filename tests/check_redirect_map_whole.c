/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is said about redirect maps as a whole: duplicates, hidden rows, loops,
 * chains, rows that lead to themselves. Loops and chains are compared with a naive walk over random
 * graphs. With HTC_CORPUS, a folder of real maps, each of their rows must answer exactly what
 * stands in it.
 */
#include "redirect_map_util.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <apr_tables.h>
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NODES 24

static test_map *load_and_check(const char *name, const char *text, const char *options)
{
    test_map *map = test_map_load(name, text, options);

    ck_assert_int_eq(map->rv, APR_SUCCESS);
    ck_assert_int_eq(redirect_map_check(map->table, &map->report, map->pool), APR_SUCCESS);
    return map;
}

/* --- what is said ----------------------------------------------------------------------------- */

typedef struct whole {
    const char *map, *options, *said; /* said NULL: nothing at all */
} whole;

static const whole cases[] = {
    {"/a /b\n/c /d", "", NULL},
    {"/a /a", "", "W1 leads to itself"},
    {"/a /%61", "", "W1 leads to itself"},
    {"/a /a#x", "", "W1 leads to itself"},
    {"/a /a 410", "", "W1 the target is ignored"},
    {"/a /A", "", NULL},
    {"/a /A case=ignore", "", "W1 leads to itself"},
    {"/a /a/ slash=ignore", "", "W1 leads to itself"},
    {"/a /a/b subpath=on", "", "W1 leads to itself"},
    {"/a /b/a subpath=on", "", NULL},
    {"/a?x=1 /a", "", NULL},
    {"/a?x=1 /a?x=1", "", "W1 leads to itself"},
    {"/a /a?x=1", "", "W1 leads to itself"},
    {"/a /a?x=1", "query=exact", NULL},
    {"http://h.example/a http://H.example:80/a", "", "W1 leads to itself"},
    {"http://h.example/a https://h.example/a", "", NULL},
    {"//h.example/a https://h.example/a", "", "W1 leads to itself"},
    {"/a https://h.example/a", "host=h.example", "W1 leads to itself"},
    {"/a https://h.example/a", "host=*.h.example", NULL},
    {"/a https://h.example/a", "", "N1 1 rows keep the path"},
    {"/a https://h.example/a/?x=1#f", "", NULL},
    {"/a https://h.example/a/ slash=ignore", "", "N1 1 rows keep the path"},
    {"/a/ https://h.example/a slash=ignore", "", "N1 1 rows keep the path"},
    {"/a/b https://h.example//a///b", "", "N1 1 rows keep the path"},
    {"/a https://h.example/A", "", NULL},
    {"/a https://h.example/A case=ignore", "", "N1 1 rows keep the path"},
    {"/a https://h.example/a/b subpath=on", "", "N1 1 rows keep the path"},
    {"/a https://h.example/ab subpath=on", "", NULL},
    {"/ https://h.example/ab subpath=on", "", "N1 "},
    {"/b https://h.example/a\n/a https://h.example/b", "", NULL},
    {"/a https://h.example/b\n/b /c", "", NULL},
    {"/a https://h.example/b\n//h.example/b /c", "",
     "N1 a chain of 2 redirects, by line 2; give it the target '/c'"},
    {"/a /b\n/b /c\n/c /d", "", "N1 a chain of 3 redirects, by line 2; give it the target '/d'"},
    /* What stands behind a prefix, in a query or in a fragment is taken along. */
    {"/s /t\n/ https://n.example/ subpath=on", "",
     "N1 a chain of 2 redirects, by line 2; give it the target 'https://n.example/t'"},
    {"/s /t/u\n/t /v?x=1 subpath=on\n/v /w subpath=on", "",
     "N1 a chain of 3 redirects, by line 2; give it the target '/w/u?x=1'"},
    {"/s /t#f\n/t /v", "", "N1 a chain of 2 redirects, by line 2; give it the target '/v#f'"},
    {"/s /t?x=1\n/t /v", "", "N1 a chain of 2 redirects, by line 2; give it the target '/v?x=1'"},
    {"/s /t subpath=on\n/t /v subpath=on", "",
     "N1 a chain of 2 redirects, by line 2, that ends at '/v'"},
    {"/s /t/x\n/t /u subpath=on\n/u/x 410", "",
     "N1 a chain of 2 redirects, by line 2, that ends in line 3"},
    {"/p /q/a\n/q /p subpath=on", "", "N2 a chain of 3 redirects, by line 1, that ends at '/p/a'"},
    {"/p /q/a subpath=on\n/q /p subpath=on", "",
     "W1 a loop of 2 rows, by line 2 and back from line 2"},
    {"/x /p/y\n/p /q/a subpath=on\n/q /p subpath=on", "", "W1 leads into a loop, by line 2"},
    {"/a /b\n/b /c\n/c 410", "", "N1 a chain of 2 redirects, by line 2, that ends in line 3"},
    {"/a /b\n/b 404", "", "N1 leads to line 2, which has"},
    {"/a /b\n/b /a", "", "W1 a loop of 2 rows, by line 2 and back from line 2"},
    {"/x /a\n/a /b\n/b /c\n/c /a", "", "W2 a loop of 3 rows, by line 3 and back from line 4"},
    {"/x /a\n/a /b\n/b /c\n/c /a", "", "W1 leads into a loop, by line 2"},
    {"/x /a\n/a /a", "", "W1 leads into a loop, by line 2"},
    {"//h.example/a //h.example/b", "", "E1 the target"},
    {"//h.example/a http://g.example/b\n//g.example/b https://h.example/a", "", "W1 a loop of 2"},
    {"//*.example/a /a", "", "W1 leads to itself"},
    {"/a /b\n/a /c", "", "W2 the same source as in line 1"},
    {"/a /b subpath=on\n/a/x /c", "", "W2 never used: line 1 answers"},
    {"/a /b subpath=on\n/a/x /c subpath=on", "", "W2 never used: line 1 answers"},
    {"/a/x /c\n/a /b subpath=on", "", NULL},
    {"/a /b\n/a /c subpath=on", "", NULL},
    {"/a /b case=ignore\n/A /c", "", "W2 never used: line 1 answers"},
    {"/A /b\n/a /c case=ignore", "", NULL},
    {"/a/ /b\n/a /c slash=ignore", "", NULL},
    {"/a /b\n//h.example/a /c", "", "W2 never used: line 1 answers"},
    {"//h.example/a /c\n/a /b", "", NULL},
    {"http://h.example/a /c\n//h.example/a /b", "", NULL},
    {"//h.example/a /c\nhttp://h.example/a /b", "", "W2 never used: line 1 answers"},
    {"/a /b\n/a?x=1 /c", "", NULL}, /* rows with a query are asked first */
    {"/a?x=1 /b subpath=on strip=u,v*\n/a?x=1 /c strip=u", "", "W2 never used: line 1 answers"},
    {"/a?x=1 /b subpath=on strip=u,v*\n/a?x=1 /c strip=vv", "", "W2 never used: line 1 answers"},
    {"/a?x=1 /b subpath=on strip=u\n/a?x=1 /c strip=v", "", NULL},
    {"/a?x=1 /b subpath=on query=exact\n/a?x=1 /c", "", NULL},
    {"/a?x=1 /b subpath=on\n/a?x=1 /c query=exact", "", "W2 never used: line 1 answers"},
};

START_TEST(whole_maps)
{
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        test_map *map = load_and_check("m.txt", cases[i].map, cases[i].options);

        if (cases[i].said)
            ck_assert_msg(test_map_said(map, cases[i].said), "'%s': '%s' is missing in:\n%s",
                          cases[i].map, cases[i].said, map->log);
        else
            ck_assert_msg(!*map->log, "'%s': '%s'", cases[i].map, map->log);
        test_map_free(map);
    }
}
END_TEST

#define A_TO_B "{\"source\":\"/a\",\"destination\":\"/b\"}"
#define B_TO_A "{\"source\":\"/b\",\"destination\":\"/a\"}"
#define NO_ROW "{\"source\":1,\"destination\":\"/a\"}"
#define UNUSED "{\"source\":\"/u\",\"destination\":\"/v\",\"x\":1}"
#define HOSTS \
    "\"has\":[{\"type\":\"host\",\"value\":\"h.example\"},{\"type\":\"cookies\",\"key\":\"k\"}]"

/* Rows that begin in one line have numbers, and their messages name these. */
static const struct {
    const char *map, *said;
} rows_of_json[] = {
    {"[" A_TO_B "," B_TO_A "]", "Wrow 1 a loop of 2 rows, by row 2 and back from row 2"},
    {"[" A_TO_B ",\n" B_TO_A "]", "W1 a loop of 2 rows, by line 2 and back from line 2"},
    {"[\n" A_TO_B ",\n" B_TO_A "]\n", "W2 a loop of 2 rows, by line 3 and back from line 3"},
    {"[{\"source\":\"/a\",\n\"destination\":\"/b\"},{\n\"source\":\"/a\",\"destination\":\"/c\"}]",
     "W2 the same source as in line 1, which answers"},
    {"[\n" A_TO_B ",\n" B_TO_A "," A_TO_B "]", "Wrow 3 the same source as in row 1"},
    {"{\n\"version\":2,\n\"redirects\":[" NO_ROW "," NO_ROW "," UNUSED "]\n}", "Erow 2 'source'"},
    {"{\n\"version\":2,\n\"redirects\":[" NO_ROW "," UNUSED "]\n}", "Nrow 2 'x' is not used"},
    {"{\n\"version\":2,\n\"redirects\":[" NO_ROW "," UNUSED "]\n}", "N2 'version' is not used"},
    {"[" NO_ROW "]", "E1 'source' has the wrong type"},
    {"{\"redirects\":[\n{\"source\":\"/a\"," HOSTS "},\n{\"source\":\"/b\"," HOSTS "}]}",
     "E3 the condition 'has'"},
    {"{\"redirects\":[{\"source\":\"/a\"," HOSTS "},{\"source\":\"/b\"," HOSTS "}]}",
     "Erow 2 the condition 'has'"},
    {A_TO_B " " B_TO_A, "Wrow 1 a loop of 2 rows, by row 2"},
    {"[" A_TO_B "," B_TO_A ",", "E1 not valid JSON: each redirect must be an object"},
};

START_TEST(rows_that_share_a_line)
{
    test_map *map = test_map_load("m.json", rows_of_json[_i].map, "");

    if (map->rv == APR_SUCCESS)
        redirect_map_check(map->table, &map->report, map->pool);
    ck_assert_msg(test_map_said(map, rows_of_json[_i].said), "'%s': '%s' is missing in:\n%s",
                  rows_of_json[_i].map, rows_of_json[_i].said, map->log);
    test_map_free(map);
}
END_TEST

static const struct {
    const char *name, *map, *said; /* said NULL: nothing at all */
} patterns[] = {
    {"a.map", "~^/(.*)$ /z/$1;", "W1 leads to itself for '/some'"},
    {"a.map", "~^/a/(.*)$ /b/$1;\n~^/b/(.*)$ /a/$1;",
     "W1 a loop of 2 rows for '/a/some', by line 2"},
    {"a.map", "~^/a/(.*)$ /b/$1;\n~^/b/(.*)$ /c/$1;\n~^/c/(.*)$ /d/$1;", NULL},
    {"a.map", "~^/a/([0-9]+)$ /b/$1;\n~^/b/([a-z]+)$ /a/$1;", NULL},
    {"a.map", "\"~^/a/(\\d{4})/x-([a-z]+)\\.html$\" /a/$1/x-$2.html;", "W1 leads to itself for"},
    {"a.map", "~/(.*)\\.php$ /$1.html;\n~/(.*)\\.html$ /$1.php;", "W1 a loop of 2 rows for '/"},
    {"a.map", "~^/a/(.*)$ /b/$1;\n~^/b/(.*)$ /b/x/$1;", "W2 leads to itself for '/b/some'"},
    {"a.map", "/s /a/1;\n~^/a/(.*)$ /b/$1;",
     "N1 a chain of 2 redirects, by line 2; give it the "
     "target '/b/1'"},
    {"a.map", "/s /a/1;\n~^/a/(.*)$ /a/$1/2;", "W1 leads into a loop, by line 2"},
    {"a.json",
     "{\"redirects\":[{\"source\":\"/((?!api/).*)\",\"destination\":\"/z/$1\","
     "\"permanent\":true}]}",
     "W1 leads to itself for '/some'"},
    {"a.map", "~^/(.*)$ https://www.example.com/$1;", "N1 1 rows keep the path and name a host"},
};

START_TEST(loops_through_patterns)
{
    test_map *map = load_and_check(patterns[_i].name, patterns[_i].map, "status=301");

    if (test_map_has_regexes() && patterns[_i].said)
        ck_assert_msg(test_map_said(map, patterns[_i].said), "'%s': '%s' is missing in:\n%s",
                      patterns[_i].map, patterns[_i].said, map->log);
    else
        ck_assert_msg(!test_map_has_regexes() || !*map->log, "'%s': '%s'", patterns[_i].map,
                      map->log);
    test_map_free(map);
}
END_TEST

/* A loop is told once, by the first of its rows. */
START_TEST(a_loop_through_patterns_comes_once)
{
    test_map *map = load_and_check("a.map",
                                   "~^/a/(.*)$ /b/$1;\n~^/b/(.*)$ /c/$1;\n/c/x /d;\n"
                                   "~^/c/(.*)$ /a/$1;",
                                   "");

    ck_assert_uint_eq(map->report.loops, test_map_has_regexes() ? 1 : 0);
    ck_assert_uint_eq(map->report.warnings, map->report.loops);
    test_map_free(map);
}
END_TEST

START_TEST(patterns_hide_rows)
{
    test_map *map =
        load_and_check("_redirects", "/a/*/c /x 301!\n/a/b/c /y 301!\n/a/b/d /z 301!", "");

    ck_assert_uint_eq(map->report.shadowed, test_map_has_regexes() ? 1 : 0);
    ck_assert(!test_map_has_regexes() || test_map_said(map, "W2 never used: line 1"));
    test_map_free(map);
}
END_TEST

/* --- loops and chains, compared --------------------------------------------------------------- */

typedef struct graph {
    int count, next[MAX_NODES]; /* -1: leads out; -2: has no target */
} graph;

static void random_graph(graph *g, unsigned *seed)
{
    g->count = 1 + rand_r(seed) % MAX_NODES;
    for (int i = 0; i < g->count; i++) {
        int r = rand_r(seed) % 8;

        g->next[i] = r == 0 ? -1 : r == 1 ? -2 : rand_r(seed) % g->count;
    }
}

static char *graph_text(const graph *g, apr_pool_t *pool)
{
    char *text = "";

    for (int i = 0; i < g->count; i++) {
        if (g->next[i] >= 0)
            text = apr_psprintf(pool, "%s/%d /%d\n", text, i, g->next[i]);
        else
            text = apr_psprintf(pool, "%s/%d %s\n", text, i, g->next[i] == -1 ? "/out" : "410");
    }
    return text;
}

typedef struct counts {
    unsigned self, loops, chains, longest;
} counts;

/* Is i on a loop of more than one? Its smallest member counts for it. */
static bool begins_loop(const graph *g, int i)
{
    int smallest = i, k = g->next[i];

    for (int steps = 0; steps <= g->count && k >= 0 && k != i; steps++, k = g->next[k])
        smallest = k < smallest ? k : smallest;
    return k == i && g->next[i] != i && smallest == i;
}

static counts naive(const graph *g)
{
    counts c = {0};

    for (int i = 0; i < g->count; i++) {
        bool has_predecessor = false;
        unsigned redirects = 0;
        int k = i;

        c.self += g->next[i] == i;
        c.loops += begins_loop(g, i);
        for (int j = 0; j < g->count; j++)
            has_predecessor |= g->next[j] == i && j != i;
        while (k >= 0 && redirects <= MAX_NODES) {
            redirects += g->next[k] != -2;
            k = g->next[k];
        }
        if (has_predecessor || g->next[i] < 0 || redirects > MAX_NODES)
            continue;
        c.chains += redirects > 1;
        c.longest = redirects > c.longest ? redirects : c.longest;
    }
    return c;
}

START_TEST(loops_and_chains_are_those_of_a_naive_walk)
{
    unsigned seed = 20240611;

    for (int round = 0; round < 3000; round++) {
        apr_pool_t *pool;
        graph g;
        test_map *map;
        counts want;

        apr_pool_create(&pool, NULL);
        random_graph(&g, &seed);
        map = load_and_check("m.txt", graph_text(&g, pool), "");
        want = naive(&g);
        ck_assert_msg(map->report.self == want.self && map->report.loops == want.loops &&
                          map->report.chains == want.chains &&
                          map->report.longest_chain == want.longest,
                      "self %u loops %u chains %u longest %u wanted for:\n%s\nbut:\n%s", want.self,
                      want.loops, want.chains, want.longest, graph_text(&g, pool), map->log);
        test_map_free(map);
        apr_pool_destroy(pool);
    }
}
END_TEST

/* A walk that was not linear would not end within the time that a test case has. */
START_TEST(one_long_chain)
{
    enum { ROWS = 200000 };
    char *text = malloc((size_t)ROWS * 24);
    size_t n = 0;
    test_map *map;

    ck_assert_ptr_nonnull(text);
    for (int i = 0; i < ROWS; i++)
        n += (size_t)sprintf(text + n, "/%d /%d\n", i, i + 1);
    map = load_and_check("m.txt", text, "");
    ck_assert_uint_eq(map->report.longest_chain, ROWS);
    ck_assert_uint_eq(map->report.chains, 1);
    test_map_free(map);
    free(text);
}
END_TEST

/* --- real maps -------------------------------------------------------------------------------- */

static char *read_file(const char *path, apr_pool_t *pool)
{
    FILE *file = fopen(path, "rb");
    char *bytes;
    long len;

    ck_assert_msg(file && !fseek(file, 0, SEEK_END) && (len = ftell(file)) >= 0, "%s", path);
    rewind(file);
    bytes = apr_pcalloc(pool, (size_t)len + 1);
    ck_assert_uint_eq(fread(bytes, 1, (size_t)len, file), (size_t)len);
    fclose(file);
    return bytes;
}

/* The next field of a CSV line without line ends in quotes, which is what these files are. */
static char *take_field(char **line)
{
    char *s = *line, *start = s, *to = s;
    bool quoted = *s == '"';

    for (s += quoted; *s && (quoted || *s != ','); s++) {
        if (quoted && *s == '"') {
            if (s[1] != '"') {
                quoted = false;
                continue;
            }
            s++;
        }
        *to++ = *s;
    }
    *line = *s ? s + 1 : s;
    *to = '\0';
    return start;
}

typedef struct totals {
    unsigned files, rows, exact, hidden; /* by another row with the same source, as was reported */
} totals;

static void expect_row(test_map *map, char *line, unsigned number, totals *t)
{
    char *source = take_field(&line), *target = take_field(&line), *status = take_field(&line);
    const char *want = *status == '4' ? status : apr_pstrcat(map->pool, status, " ", target, NULL);
    const char *got;

    if (!*source)
        return;
    t->rows++;
    got = test_map_ask(map, source);
    if (!strcmp(got, want)) {
        t->exact++;
        return;
    }
    t->hidden++;
    ck_assert_msg(test_map_said(map, apr_psprintf(map->pool, "W%u the same source", number)),
                  "line %u, %s: %s instead of %s", number, source, got, want);
}

static void expect_csv(const char *path, totals *t)
{
    test_map *map;
    apr_pool_t *pool;
    char *line, *next;
    unsigned number = 1;

    apr_pool_create(&pool, NULL);
    line = read_file(path, pool);
    map = test_map_load(path, line, "");
    ck_assert_int_eq(map->rv, APR_SUCCESS);
    ck_assert_msg(!map->report.errors, "%s:\n%s", path, map->log);
    for (; line; line = next, number++) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        if (number > 1)
            expect_row(map, line, number, t);
    }
    t->files++;
    test_map_free(map);
    apr_pool_destroy(pool);
}

static void expect_rewrite_map(const char *path)
{
    test_map *map;
    apr_pool_t *pool;
    char *bytes, *line, *state;
    unsigned rows = 0;

    apr_pool_create(&pool, NULL);
    bytes = read_file(path, pool);
    map = test_map_load(path, bytes, "");
    ck_assert_msg(!map->report.errors, "%s:\n%s", path, map->log);
    for (line = apr_strtok(bytes, "\r\n", &state); line; line = apr_strtok(NULL, "\r\n", &state)) {
        char *rest, *source = apr_strtok(line, " \t", &rest),
                    *target = apr_strtok(NULL, " \t", &rest);

        if (!source || *source == '#')
            continue;
        test_map_expect(map, source, apr_pstrcat(pool, "302 ", target, NULL));
        rows++;
    }
    printf("%s: %u rows, each with exactly its target\n", strrchr(path, '/') + 1, rows);
    test_map_free(map);
    apr_pool_destroy(pool);
}

START_TEST(real_maps)
{
    const char *folder = getenv("HTC_CORPUS");
    DIR *dir = folder ? opendir(folder) : NULL;
    struct dirent *entry;
    totals t = {0};

    if (!dir) {
        puts("skipped: HTC_CORPUS does not name a folder of real maps");
        return;
    }
    while ((entry = readdir(dir))) {
        char path[4096];
        const char *dot = strrchr(entry->d_name, '.');

        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (dot && !strcmp(dot, ".csv"))
            expect_csv(path, &t);
        else if (dot && !strcmp(dot, ".txt"))
            expect_rewrite_map(path);
    }
    closedir(dir);
    printf(
        "%u CSV files without an error, %u rows: %u answer exactly what they say, %u are hidden by "
        "another with the same source\n",
        t.files, t.rows, t.exact, t.hidden);
    ck_assert_uint_eq(t.exact + t.hidden, t.rows);
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

static Suite *whole_suite(void)
{
    Suite *s = suite_create("whole redirect maps");
    TCase *tc = tcase_create("whole");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, whole_maps);
    tcase_add_loop_test(tc, rows_that_share_a_line, 0, COUNT_OF(rows_of_json));
    tcase_add_loop_test(tc, loops_through_patterns, 0, (int)COUNT_OF(patterns));
    tcase_add_test(tc, a_loop_through_patterns_comes_once);
    tcase_add_test(tc, patterns_hide_rows);
    tcase_add_test(tc, loops_and_chains_are_those_of_a_naive_walk);
    tcase_add_test(tc, one_long_chain);
    tcase_add_test(tc, real_maps);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(whole_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
