/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conditions of rows: which row answers which request, what Vary says, in each format that has words
 * for them; what is reported. Random ones are in redirect_map_conditions_random.c.
 */
#include "redirect_map_conditions.h"
#include "suite_util.h"
#include "tool/map.h"

#include <apr_strings.h>
#include <apr_tables.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- asking ----------------------------------------------------------------------------------- */

typedef struct asking {
    apr_table_t *fields;
    redirect_conditions conditions;
} asking;

static const char *field_of(void *baton, const char *name)
{
    return apr_table_get(baton, name);
}

static void add_lines(asking *a, const char *lines, apr_pool_t *pool)
{
    char *state, *copy = apr_pstrdup(pool, lines);

    for (char *line = apr_strtok(copy, "\n", &state); line; line = apr_strtok(NULL, "\n", &state)) {
        char *value = strstr(line, ": ");

        if (!strncmp(line, "country ", 8))
            a->conditions.country = line + 8;
        else if (!value)
            a->conditions.method = line;
        else {
            *value = '\0';
            apr_table_merge(a->fields, line, value + 2);
        }
    }
}

const char *answer_to(test_map *map, const char *url, const char *lines)
{
    redirect_request request;
    redirect_match match;
    asking a = {.fields = apr_table_make(map->pool, 4)};
    const char *vary, *line;
    int status;
    bool found;

    ck_assert_ptr_null(redirect_request_of(url, NULL, &request, &status, map->pool));
    redirect_conditions_begin(&a.conditions, map->pool, field_of, a.fields);
    add_lines(&a, lines, map->pool);
    a.conditions.query = request.query;
    redirect_request_one_form(&request, map->pool);
    request.judge = &a.conditions.judge;
    request.regex = map_regexes_match;
    request.baton = map->regexes;
    found = redirect_table_lookup(map->table, &request, 0, &match);
    ck_assert(!(found && a.conditions.not_acceptable));
    vary = redirect_conditions_vary(&a.conditions, map->pool);
    line = a.conditions.not_acceptable
               ? "406"
               : apr_psprintf(map->pool, "%u",
                              found ? redirect_table_line(map->table, match.rule, NULL) : 0);
    return apr_pstrcat(map->pool, line, vary ? " " : "", vary ? vary : "", NULL);
}

/* --- which row answers ------------------------------------------------------------------------ */

typedef struct one {
    const char *map, *url, *lines, *answer;
} one;

#define WIDGET                                                                        \
    "/w /html 303\n/w /ttl 303 accept=text/turtle,application/rdf+xml\n/w /json 303 " \
    "accept=application/json\n"
#define FLAGS "/f /x method=POST\n/f /y cookie=beta,old=1\n/f /z header=X-A:b country=AT,DE\n"

static const one answers[] = {
    /* the row without is the default, wherever it stands */
    {WIDGET, "/w", "Accept: text/turtle", "2 Accept"},
    {WIDGET, "/w", "Accept: text/html", "1 Accept"},
    {WIDGET, "/w", "Accept: application/json, text/turtle;q=0.9", "3 Accept"},
    {WIDGET, "/w", "Accept: application/json;q=0, text/*;q=0.1", "2 Accept"},
    {WIDGET, "/w", "Accept: application/*;q=0", "1 Accept"},
    {WIDGET, "/w", "", "2 Accept"}, /* all are acceptable: the first that says what it is */
    {WIDGET, "/w", "Accept: */*", "2 Accept"},
    {WIDGET, "/other", "Accept: */*", "0"},
    {"/w /ttl accept=text/turtle\n/w /html\n", "/w", "Accept: text/html", "2 Accept"},
    /* none acceptable and no default */
    {"/w /ttl accept=text/turtle\n/ /rest subpath=on\n", "/w", "Accept: text/html", "2 Accept"},
    {"/w /ttl accept=text/turtle unacceptable=406\n/ /rest subpath=on\n", "/w", "Accept: text/html",
     "406 Accept"},
    {"/w /ttl accept=text/turtle unacceptable=406\n/ /rest subpath=on\n", "/x", "Accept: text/html",
     "2"},
    {"/ /rest subpath=on\n/w /ttl accept=text/turtle unacceptable=406\n", "/w", "Accept: text/html",
     "1"},
    /* a default behind rows of other sources is still of its source */
    {"/w /ttl accept=text/turtle\n/ /rest subpath=on\n/w /html\n", "/w", "Accept: text/html",
     "3 Accept"},
    {"/w /html\n/ /rest subpath=on\n/w /ttl accept=text/turtle\n", "/w", "Accept: text/turtle",
     "3 Accept"},
    /* languages, and both */
    {"/l /en language=en\n/l /de language=de,de-CH\n", "/l", "Accept-Language: de-CH, en;q=0.5",
     "2 Accept-Language"},
    {"/l /en language=en\n/l /de language=de\n", "/l", "Accept-Language: fr", "0 Accept-Language"},
    {"/l /en language=en accept=text/html\n/l /de language=de\n", "/l",
     "Accept-Language: de\nAccept: text/html", "2 Accept, Accept-Language"},
    /* conditions that hold or not */
    {FLAGS, "/f", "POST", "1"},
    {FLAGS, "/f", "post", "0 Cookie"},
    {FLAGS, "/f", "Cookie: a=b; beta=2", "2 Cookie"},
    {FLAGS, "/f", "Cookie: beta", "2 Cookie"},
    {FLAGS, "/f", "Cookie: old=1", "2 Cookie"},
    {FLAGS, "/f", "Cookie: old=12; Beta=1; xbeta=1", "0 Cookie"},
    {FLAGS, "/f", "X-A: b\ncountry at", "3 Cookie, X-A"},
    {FLAGS, "/f", "X-A: bb\ncountry AT", "0 Cookie, X-A"},
    {FLAGS, "/f", "X-A: b\ncountry FR", "0 Cookie"},
    {FLAGS, "/f", "x-a: b\ncountry DE", "3 Cookie, X-A"},
    {"/g /x method=GET\n", "/g", "HEAD", "1"},
    {"/g /x method=HEAD\n", "/g", "", "0"},
    {"/g /x !method=GET\n", "/g", "DELETE", "1"},
    {"/g /x !country=AT\n", "/g", "", "1"},
    {"/g /x !cookie=a !header=X-A\n", "/g", "", "1 Cookie, X-A"},
    {"/g /x !cookie=a !header=X-A\n", "/g", "X-A: ", "0 Cookie, X-A"},
    {"/g /x header=X-A:\n", "/g", "X-A: ", "1 X-A"},
    {"/g /x \"header=X-A: one, two\"\n", "/g", "X-A: one\nX-A: two", "1 X-A"},
    {"/g /x parameter=id=1\n", "/g?b&id=1", "", "1"},
    {"/g /x parameter=id\n", "/g?b&id=1", "", "1"},
    {"/g /x parameter=a%20b=%c3%a4\n", "/g?a%20b=%C3%A4", "", "1"},
    {"/g /x parameter=id\n", "/g?idx=1", "", "0"},
    {"/g /x !parameter=id\n", "/g?id", "", "0"},
    /* of those that hold the first one answers; one that cannot answer is not looked at */
    {"/g /x cookie=a\n/g /y header=X-A\n/g /z\n", "/g", "Cookie: a=1\nX-A: 1", "1 Cookie"},
    {"/g /x cookie=a\n/g /y header=X-A\n/g /z\n", "/g", "", "3 Cookie, X-A"},
    {"/g /z\n/g /x cookie=a\n", "/g", "Cookie: a=1", "1"},
    /* compared are those that hold */
    {"/g /x cookie=a accept=a/b\n/g /y accept=a/c\n/g /z\n", "/g", "Accept: a/b",
     "3 Cookie, Accept"},
    {"/g /x cookie=a accept=a/b\n/g /y accept=a/c\n/g /z\n", "/g", "Cookie: a=\nAccept: a/b",
     "1 Cookie, Accept"},
    {"/g /x cookie=a\n/g /y accept=a/c\n/g /z\n", "/g", "Cookie: a=\nAccept: a/c",
     "2 Cookie, Accept"},
    {"/g /x cookie=a\n/g /y accept=a/c\n/g /z\n", "/g", "Cookie: a=\nAccept: a/d",
     "1 Cookie, Accept"},
    /* other hosts, queries, kinds and cases are other sources */
    {"/g?a=1 /x accept=a/b\n/g /z\n", "/g?a=1", "Accept: a/c", "2 Accept"},
    {"/g?a=1&b=2 /x accept=a/b\n/g?b=2&a=1 /y\n", "/g?b=2&a=1", "Accept: a/b", "1 Accept"},
    {"//h.example/g /x accept=a/b\n/g /z\n", "http://h.example/g", "Accept: a/c", "2 Accept"},
    {"/g /x accept=a/b case=ignore\n/g /z\n", "/g", "Accept: a/c", "2 Accept"},
    {"/g /x accept=a/b case=ignore\n/G /z case=ignore\n", "/g", "Accept: a/c", "2 Accept"},
    {"/g/ /x accept=a/b slash=ignore\n/g /z slash=ignore\n", "/g/", "Accept: a/c", "2 Accept"},
    {"/g /x accept=a/b subpath=on\n/g /z subpath=on\n", "/g/y", "Accept: a/c", "2 Accept"},
    {"/g /x accept=a/b subpath=on strip=u\n/g - 410 subpath=on strip=u\n", "/g/y", "Accept: a/c",
     "2 Accept"},
};

static void expect_answer(const char *name, const one *c)
{
    test_map *map = test_map_load(name, c->map, "");
    const char *got;

    ck_assert_msg(map->table != NULL, "'%s': %s", c->map, map->log);
    got = answer_to(map, c->url, c->lines);
    ck_assert_msg(!strcmp(got, c->answer), "%s'%s' with '%s': '%s' instead of '%s'; reports:\n%s",
                  c->map, c->url, c->lines, got, c->answer, map->log);
    test_map_free(map);
}

START_TEST(an_answer)
{
    expect_answer("m.txt", &answers[_i]);
}
END_TEST

/* --- formats ---------------------------------------------------------------------------------- */

#define VERCEL(conditions)                                                           \
    "{\"redirects\":[\n{\"source\":\"/a\",\"destination\":\"/b\"," conditions "},\n" \
    "{\"source\":\"/p/:x\",\"destination\":\"/q/:x\"," conditions "}]}"
#define CSV "source,target,accept,language,country,cookie,header,method\n"

static const struct {
    const char *name;
    one one;
} formats[] = {
    {"_redirects",
     {"/a /b 302 Language=de,fr\n/a /c\n", "/a", "Accept-Language: fr", "1 Accept-Language"}},
    {"_redirects", {"/a /b 302! Country=at,DE\n/a /c\n", "/a", "country AT", "1"}},
    {"_redirects",
     {"/a /b 302 Country=at Cookie=x\n/a /c\n", "/a", "country AT\nCookie: x=", "1 Cookie"}},
    {"_redirects", {"/a/* /b/:splat cookie=x,y\n/a/* /c\n", "/a/z", "Cookie: y=1", "1 Cookie"}},
    {"_redirects",
     {"/a/:p/c /b/:p 302 Language=de\n/a/:q/c /d/:q 302\n", "/a/z/c", "Accept-Language: de",
      "1 Accept-Language"}},
    {"m.csv",
     {CSV "/a,/b,text/turtle,,,,,\n/a,/c,,,,,,\n", "/a", "Accept: text/turtle", "2 Accept"}},
    {"m.csv",
     {CSV "/a,/b,\"text/turtle, a/b;c=\"\"d\"\"\",,,,\"x: \"\"y\"\"\",\n/a,/c,,,,,,\n", "/a",
      "Accept: a/b;c=d\nX: \"y\"", "2 x, Accept"}},
    {"m.csv",
     {CSV "/a,/b,,de,,,,\n/a,/c,,fr,,,,\n", "/a", "Accept-Language: fr", "3 Accept-Language"}},
    {"m.csv", {CSV "/a,/b,,,AT,!x,,\"get,POST\"\n/a,/c,,,,,,\n", "/a", "country AT", "2 Cookie"}},
    {"m.csv", {CSV "/a,/b,,,,,,!POST\n", "/a", "POST", "0"}},
    {"vercel.json",
     {VERCEL("\"has\":[{\"type\":\"header\",\"key\":\"x-a\"}]"), "/a", "X-A: 1", "2 x-a"}},
    {"vercel.json",
     {VERCEL("\"has\":[{\"type\":\"header\",\"key\":\"x-a\",\"value\":\"a\\\\.b\"}]"), "/p/1",
      "X-A: a.b", "3 x-a"}},
    {"vercel.json",
     {VERCEL("\"missing\":[{\"type\":\"cookie\",\"key\":\"k\",\"value\":\"1\"}]"), "/p/1",
      "Cookie: k=2", "3 Cookie"}},
    {"vercel.json",
     {VERCEL("\"has\":[{\"type\":\"cookie\",\"key\":\"k\"},{\"type\":\"query\",\"key\":\"i\","
             "\"value\":\"1\"}]"),
      "/a?i=1&j", "Cookie: k=2", "2 Cookie"}},
    {"vercel.json",
     {VERCEL("\"has\":[{\"type\":\"host\",\"value\":\"h.example\"},{\"type\":\"query\",\"key\":"
             "\"i\"}]"),
      "http://h.example/p/1?i", "", "3"}},
    {"vercel.json", {VERCEL("\"missing\":[{\"type\":\"query\",\"key\":\"i\"}]"), "/a?i", "", "0"}},
};

START_TEST(a_format)
{
    if (test_map_has_regexes())
        expect_answer(formats[_i].name, &formats[_i].one);
}
END_TEST

#define HAS_KEY(source, target)                                                            \
    "{\"redirects\":[{\"source\":\"" source "\",\"destination\":\"" target "\",\"has\":[{" \
    "\"type\":\"query\",\"key\":\"a\"}]}]}"

/* Vercel takes what a condition found by its name, or refuses the name. */
START_TEST(a_target_takes_nothing_from_conditions)
{
    static const struct {
        const char *text, *said;
        unsigned rows;
    } all[] = {
        {HAS_KEY("/s", "/x/:a"), "E1 the target takes ':a' from a condition", 0},
        {HAS_KEY("/s", "/x?y=:a"), "E1 the target takes ':a' from a condition", 0},
        {HAS_KEY("/s/:p", "/x/:p?y=:a"), "E1 the target takes ':a' from a condition", 0},
        {HAS_KEY("/s", "/x/:b"), "E1 the target has ':b', which the source does not have", 0},
        {HAS_KEY("/s/:a", "/x/:a"), "", 1},
        {HAS_KEY("/s", "https://h:80/x:ab"), "", 1},
    };

    if (!test_map_has_regexes())
        return;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        test_map *map = test_map_load("vercel.json", all[i].text, "");

        ck_assert_msg(map->report.rows == all[i].rows &&
                          (!*all[i].said || test_map_said(map, all[i].said)),
                      "%s\n%s", all[i].text, map->log);
        test_map_free(map);
    }
}
END_TEST

/* --- reports ---------------------------------------------------------------------------------- */

static const struct {
    const char *map, *said; /* NULL: nothing */
} reports[] = {
    {"/a /b accept=*/*", "E1 accept=*/*: must be media types"},
    {"/a /b accept=text/html;q=1", "E1 accept=text/html;q=1: must be"},
    {"/a /b language=en_US", "E1 language=en_US: must be language tags"},
    {"/a /b country=Austria", "E1 country=Austria: must be country codes"},
    {"/a /b country=AT,,DE", "E1 country=AT,,DE: must be"},
    {"/a /b \"cookie=a b\"", "E1 cookie=a b: must be"},
    {"/a /b cookie==1", "E1 cookie==1: must be"},
    {"/a /b header=:x", "E1 header=:x: must be NAME or NAME:VALUE"},
    {"/a /b \"header=X Y\"", "E1 header=X Y: must be"},
    {"/a /b header=", "E1 header=: must be"},
    {"/a /b method=GE/T", "E1 method=GE/T: must be methods"},
    {"/a /b parameter=a&b", "E1 parameter=a&b: must be"},
    {"/a /b accept=a/b accept=a/c", "E1 accept= stands there twice"},
    {"/a /b !accept=a/b", "E1 '!accept=a/b' is neither"},
    {"/a /b unacceptable=404", "E1 unacceptable=: must be 406 or next"},
    {"/a /b country_from=X", "E1 'country_from=X' is neither"},
    {"/a /b cookie=x\n/a /c cookie=x", "W2 the same source"},
    {"/a /b cookie=x\n/a /c cookie=y", NULL},
    {"/a /b cookie=x method=get\n/a /c method=GET cookie=x", "W2 the same source"},
    {"/a /b accept=a/b\n/a /c\n", NULL},
    {"/a /b\n/a /c accept=a/b\n", NULL},
    {"/a /b\n/a /c cookie=x\n", "W2 never used: line 1 answers"},
    {"/a /b cookie=x\n/a /c accept=a/b\n/a /d", NULL},
    {"/ /b subpath=on\n/a /c accept=a/b\n", "W2 never used: line 1 answers"},
    {"/ /b subpath=on cookie=x\n/a /c cookie=x\n", "W2 never used: line 1 answers"},
    {"/a /b subpath=on cookie=x\n/a/c /d\n", NULL},
    {"/a /b cookie=x\n/b /a\n", "N1 a chain"},
    {"/a /b cookie=x\n/b /a cookie=x\n", "W1 a loop of 2 rows"},
    {"/a /a cookie=x\n", "W1 leads to itself"},
    {"/a /b accept=a/b\n/b /c accept=a/b\n/b /d\n", "N1 a chain of 2 redirects, by line 2"},
};

START_TEST(a_report)
{
    test_map *map = test_map_load("m.txt", reports[_i].map, "");

    redirect_map_check(map->table, &map->report, map->pool);
    if (reports[_i].said)
        ck_assert_msg(test_map_said(map, reports[_i].said), "'%s': '%s' is missing in:\n%s",
                      reports[_i].map, reports[_i].said, map->log);
    else
        ck_assert_msg(!*map->log, "'%s':\n%s", reports[_i].map, map->log);
    test_map_free(map);
}
END_TEST

START_TEST(options_of_a_map)
{
    test_map *map = test_map_load("m.txt", "/w /x accept=a/b\n/v /x accept=a/b unacceptable=next\n",
                                  "unacceptable=406 country_from=GEO");

    ck_assert_str_eq(answer_to(map, "/w", "Accept: a/c"), "406 Accept");
    ck_assert_str_eq(answer_to(map, "/v", "Accept: a/c"), "0 Accept");
    test_map_free(map);
}
END_TEST

/* Hundreds of rows of one source, more than wait in one walk, in vain. */
START_TEST(many_rows_of_a_source)
{
    char *text = malloc(100 * 1000), *to = text;
    test_map *map;

    for (int i = 0; i < 500; i++)
        to += sprintf(to, "/w /x%d accept=a/t%d cookie=c%d\n/%s /y%d language=x-l%d subpath=on\n",
                      i, i, i % 3, i % 2 ? "w" : "", i, i);
    map = test_map_load("m.txt", text, "");
    ck_assert_str_eq(map->log, "");
    ck_assert_str_eq(answer_to(map, "/w", "Accept: a/t400\nCookie: c1=1\nAccept-Language: fr"),
                     "801 Cookie, Accept-Language, Accept");
    ck_assert_str_eq(answer_to(map, "/w", "Accept: b/b\nCookie: c1=1\nAccept-Language: x-l499"),
                     "1000 Cookie, Accept-Language, Accept");
    ck_assert_str_eq(answer_to(map, "/w", "Accept: b/b\nCookie: c1=1\nAccept-Language: x-l498"),
                     "998 Cookie, Accept-Language");
    ck_assert_str_eq(answer_to(map, "/w", "Accept: b/b\nAccept-Language: fr"),
                     "0 Cookie, Accept-Language");
    test_map_free(map);
    free(text);
}
END_TEST

/* --- what a request may take -------------------------------------------------------------------- */

#define MOST 100000

/* Steps taken, in front of what answer_to() says; with a bound. */
static uint64_t steps_of(test_map *map, const char *url, const char *lines, const char **vary)
{
    redirect_request request;
    redirect_match match;
    asking a = {.fields = apr_table_make(map->pool, 4)};
    int status;

    ck_assert_ptr_null(redirect_request_of(url, NULL, &request, &status, map->pool));
    redirect_conditions_begin(&a.conditions, map->pool, field_of, a.fields);
    add_lines(&a, lines, map->pool);
    a.conditions.query = request.query;
    request.judge = &a.conditions.judge;
    request.judge->most = MOST;
    redirect_table_lookup(map->table, &request, 0, &match);
    if (vary)
        *vary = redirect_conditions_vary(&a.conditions, map->pool);
    return request.judge->steps;
}

/* The worst that rows can be: lists of types that are compared with as many ranges as count, a row
 * of each of ten sources in turn, which are compared in vain again and again. */
START_TEST(a_request_has_a_bound)
{
    char *text = malloc(30000 * 100), *big = malloc(40000), *to;

    for (int shape = 0; shape < 7; shape++) {
        test_map *map;
        uint64_t steps;

        to = text;
        for (int i = 0; i < 20000; i++) {
            static const char *const conditions[] = {"accept=a/t%d;a=1;b=1;c=1;d=1;e=1;f=1;g=1;h=1",
                                                     "cookie=c,d,e,f,g,h,k=%d",
                                                     "header=X-%d",
                                                     "parameter=p%d",
                                                     "language=x-%d",
                                                     "header=X-Z:%d",
                                                     "accept=a/t%d"};

            to += sprintf(to, "%.*s /x%d subpath=on ", shape == 6 ? 2 + 2 * (i % 10) : 2,
                          "/w/w/w/w/w/w/w/w/w/w/", i);
            to += sprintf(to, conditions[shape], i);
            *to++ = '\n';
        }
        *to = '\0';
        to = big + sprintf(big, "X-Z: y\nCookie: ");
        for (int i = 0; i < 1000; i++)
            to += sprintf(to, "a%d=b; ", i);
        to += sprintf(to, "\nAccept: ");
        for (int i = 0; i < 2000; i++)
            to += sprintf(to, "b/b%d,", i);
        map = test_map_load("m.txt", text, "");
        ck_assert_msg(!map->report.errors, "%s", map->log);
        steps = steps_of(map, "/w/w/w/w/w/w/w/w/w/w?a=1&b=2", big, NULL);
        ck_assert_msg(steps > MOST, "shape %d: %" APR_UINT64_T_FMT, shape, steps);
        ck_assert_msg(steps < MOST + 20000, "shape %d: %" APR_UINT64_T_FMT, shape, steps);
        test_map_free(map);
    }
    free(text);
    free(big);
}
END_TEST

/* More than Vary names: rows whose fields are all looked at, as none of them is there. */
START_TEST(many_fields)
{
    char text[10000], *to = text;
    const char *vary;
    test_map *map;

    for (int i = 0; i < 3; i++) {
        to += sprintf(to, "/v /x%d", i);
        for (int k = 0; k < 30; k++)
            to += sprintf(to, " !header=X-%d-%d", i, k);
        to += sprintf(to, " header=Y-%d\n", i);
    }
    map = test_map_load("m.txt", text, "");
    vary = answer_to(map, "/v", "");
    ck_assert(!strncmp(vary, "0 X-0-0, X-0-1, ", 16));
    ck_assert_msg(strstr(vary, ", X-2-0, X-2-1, *") && strlen(strstr(vary, ", X-2-1")) == 10, "%s",
                  vary);
    test_map_free(map);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conditions of redirect maps");
    TCase *tc = tcase_create("conditions");

    tcase_add_loop_test(tc, an_answer, 0, (int)COUNT_OF(answers));
    tcase_add_loop_test(tc, a_format, 0, (int)COUNT_OF(formats));
    tcase_add_test(tc, a_target_takes_nothing_from_conditions);
    tcase_add_loop_test(tc, a_report, 0, (int)COUNT_OF(reports));
    tcase_add_test(tc, options_of_a_map);
    tcase_add_test(tc, many_rows_of_a_source);
    tcase_add_test(tc, a_request_has_a_bound);
    tcase_add_test(tc, many_fields);
    add_random_maps(tc);
    tcase_set_timeout(tc, 7200);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
