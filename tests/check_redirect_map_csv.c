/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the CSV format of redirect maps: what names of columns are understood, what columns=
 * says, and the bulk redirects of Cloudflare and Vercel. Run by 'make check'.
 */
#include "redirect_map_util.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define HAS(list) \
    "{\"redirects\": [{\"source\": \"/a/:x\", \"destination\": \"/b/:x\", \"has\": [" list "]}]}"

static const struct {
    const char *text, *options, *url, *answer;
} answers[] = {
    /* Names of columns. */
    {"source,target,status\n/a,/b,301\n", "", "/a", "301 /b"},
    {"Redirect from,Redirect to\n/a,/b\n", "", "/a", "302 /b"},
    {"Old URL;New URL;HTTP status\n/a;/b;301\n", "", "/a", "301 /b"},
    {"\xEF\xBB\xBFOld page;New page;Code\r\n/a;\"/b;c\";301\r\n", "", "/a", "301 /b;c"},
    {"Quelle\tZiel\n/a\t/b\n", "", "/a", "302 /b"},
    {"sep=;\nold;new\n/a;/b\n", "", "/a", "302 /b"},
    {"ID,Owner,Current URL,Final destination,Type\n7,me,/a,/b,307\n", "", "/a", "307 /b"},
    {"target,source\n/b,/a\n", "", "/a", "302 /b"},
    {"From (old page),To (new page)\n/a,/b\n", "", "/a", "302 /b"},
    {"REQUEST_PATH,TARGET_URL\n/a,/b\n", "", "/a", "302 /b"},
    {"source-url,destination-url,status-code\n/a,/b,308\n", "", "/a", "308 /b"},
    {"url,status\n/a,410\n", "", "/a", "410"},
    {"source,target,query\n/a,/b,drop\n", "", "/a?x", "302 /b"},
    {"source,target,query\n/a,/b,append\n", "", "/a?x", "302 /b?x"},
    {"source,target,query\n/a,/b,exact\n", "", "/a?x", "none"},
    {"source,target,query\n/a,/b,\n", "", "/a?x", "302 /b?x"},
    {"source,target,query\n/a,/b,\n", "query=drop", "/a?x", "302 /b"},
    {"source,target,case\n/a,/b,ignore\n", "", "/A", "302 /b"},
    {"source,target,case\n/a,/b,exact\n", "case=ignore", "/A", "none"},
    {"source,target,subpath\n/a,/b,on\n", "", "/a/x", "302 /b/x"},
    {"source,target,subpath\n/a,/b,off\n", "subpath=on", "/a/x", "none"},
    /* What stands ahead of it. */
    {"\n \t\r\n# moved, in May\n#\nold;new\n/a;/b\n", "", "/a", "302 /b"},
    {"#;Old;New\n1;/a;/b\n", "", "/a", "302 /b"},
    {"#Nr,Old,New\n1,/a,/b\n", "", "/a", "302 /b"},
    {"# why\n/a,/b\n", "", "/a", "302 /b"},
    {"\xEF\xBB\xBF\nNr;Alt;Neu\n1;/a;/b\n", "columns=-,source,target", "/a", "302 /b"},
    {"sep=|\nOld URL|New URL|Status\n/a|/b|301\n", "", "/a", "301 /b"},
    /* columns= */
    {"Nr;Alt;Neu\n1;/a;/b\n", "columns=-,source,target", "/a", "302 /b"},
    {"1;/a;/b\n", "columns=-,source,target", "/a", "302 /b"},
    {"/b,/a,301\n", "columns=target,source,status", "/a", "301 /b"},
    {"old,new\n/b,/a\n", "columns=new,old", "/a", "302 /b"},
    {"/a,/b,TRUE\n", "columns=source,target,subpath", "/a/x", "302 /b/x"},
    {"/a,/b\n", "columns=source,target", "/a", "302 /b"},
    {"/a,x\n", "columns=source status=410", "/a", "410"},
    /* Cloudflare. */
    {"h.example/a,https://t.example/b\n", "", "http://h.example/a", "301 https://t.example/b"},
    {"h.example/a,https://t.example/b\n", "", "https://h.example/a", "301 https://t.example/b"},
    {"h.example/a,https://t.example/b\n", "", "/a", "none"},
    {"h.example/a,https://t.example/b\n", "", "http://x.h.example/a", "none"},
    {"https://h.example/a,https://t.example/b,302,,,,\n", "format=cloudflare", "http://h.example/a",
     "none"},
    {"h.example/a,https://t.example/b,302,,,,\n", "", "http://h.example/a?q",
     "302 https://t.example/b"},
    {"h.example/a,https://t.example/b,,TRUE\n", "", "http://h.example/a?q",
     "301 https://t.example/b?q"},
    {"h.example/a,https://t.example/b,,,true\n", "", "http://x.y.h.example/a",
     "301 https://t.example/b"},
    {"h.example/a,https://t.example/b,,,true\n", "", "http://h.example/a",
     "301 https://t.example/b"},
    {"h.example/a,https://t.example/b,,,,TRUE,TRUE\n", "", "http://h.example/a/x",
     "301 https://t.example/b/x"},
    {"h.example/a,https://t.example/b,,,,TRUE,FALSE\n", "", "http://h.example/a/x",
     "301 https://t.example/b"},
    {"h.example/a,https://t.example/b,,,,TRUE\n", "", "http://h.example/a/x",
     "301 https://t.example/b"},
    {"h.example/a,https://t.example/b,,,,FALSE,TRUE\n", "", "http://h.example/a/x", "none"},
    {"h.example,https://t.example/b,301,,TRUE\n", "", "http://h.example/",
     "301 "
     "https://t.example/b"},
    /* Flags tell it, too, behind full URLs. */
    {"https://h.example/a,https://t.example/b/,301,TRUE,FALSE,TRUE,TRUE\n", "",
     "https://h.example/a/x?q", "301 https://t.example/b/x?q"},
    {"http://h.example/a,https://t.example/b,,true\n", "", "http://h.example/a?q",
     "301 https://t.example/b?q"},
    {"https://h.example/a,https://t.example/b,302,,true\n", "", "https://x.h.example/a?q",
     "302 https://t.example/b"},
    {"h.example,https://t.example/b,,,,,\n", "", "http://h.example/", "301 https://t.example/b"},
    {"/a,/b,301,false\n", "", "/a?q", "301 /b?q"},
    /* Rows without flags are plain. */
    {"https://h.example/a,https://t.example/b,,\n", "", "https://h.example/a?q",
     "302 https://t.example/b?q"},
    {"https://h.example/a,https://t.example/b,301,TRUE,note\n", "", "https://h.example/a?q",
     "301 https://t.example/b?q"},
    {"/a,/b,301\n", "", "/a?q", "301 /b?q"},
    {"index.php/a,/b\n", "", "/index.php/a", "302 /b"},
    {"h.example/a,https://t.example/b\n", "format=csv", "/h.example/a", "302 https://t.example/b"},
    {"Source URL,Target URL,Status code,Preserve query string,Include subdomains,Subpath "
     "matching,Preserve path suffix\nh.example/a,https://t.example/b,307,TRUE,FALSE,TRUE,TRUE\n",
     "", "http://h.example/a/x?q", "307 https://t.example/b/x?q"},
    {"source_url,target_url,include_subdomains\nh.example/a,https://t.example/b,TRUE\n", "",
     "http://x.h.example/a", "301 https://t.example/b"},
    /* The most special one answers, wherever it stands. */
    {"h.example/a,https://t.example/1,,,,TRUE\nh.example/a/b,https://t.example/2,,,,TRUE\n", "",
     "http://h.example/a/b/c", "301 https://t.example/2"},
    {"h.example/a,https://t.example/1,,,TRUE\nx.h.example/a,https://t.example/2\n", "",
     "http://x.h.example/a", "301 https://t.example/2"},
    {"h.example/a,https://t.example/1,,,TRUE\nx.h.example/a,https://t.example/2,,,TRUE\n", "",
     "http://y.x.h.example/a", "301 https://t.example/2"},
    {"h.example/a,https://t.example/1\nhttps://h.example/a,https://t.example/2\n", "",
     "https://h.example/a", "301 https://t.example/2"},
    /* Vercel. */
    {"source,destination,permanent\n/a,/b,true\n", "", "/A?q", "308 /b"},
    {"source,destination,permanent\n/a,/b,f\n", "", "/a", "307 /b"},
    {"source,destination,permanent\n/a,/b,\n", "", "/a", "307 /b"},
    {"destination,source,statusCode,caseSensitive,preserveQueryParams\n/b,/a,301,t,t\n", "", "/a?q",
     "301 /b?q"},
    {"destination,source,statusCode,caseSensitive,preserveQueryParams\n/b,/a,301,t,t\n", "", "/A",
     "none"},
    {"source,destination,statusCode,permanent\n/a,/b,302,true\n", "", "/a", "302 /b"},
    {"source,destination,permanent\n/a,/b,true\n", "query=append", "/a?q", "308 /b?q"},
    /* vercel.json: conditions on the host. */
    {HAS("{\"type\": \"host\", \"value\": \"H.example\"}"), "", "http://h.example/a/1", "307 /b/1"},
    {HAS("{\"type\": \"host\", \"value\": \"h\\\\.example\"}"), "", "http://h.example/a/1",
     "307 /b/1"},
    {HAS("{\"value\": \"h.example\", \"type\": \"host\"}"), "", "http://g.example/a/1", "none"},
    {"{\"redirects\": [{\"source\": \"/a\", \"has\": [{\"type\": \"host\", \"value\": "
     "\"h.example\"}], "
     "\"destination\": \"/b\"}]}",
     "", "http://h.example/a", "307 /b"},
};

START_TEST(an_answer)
{
    bool json = answers[_i].text[0] == '{', columns = strstr(answers[_i].options, "columns=");
    test_map *map;

    if (json && !test_map_has_regexes())
        return;
    map = test_map_load(json      ? "vercel.json"
                        : columns ? "noext" /* they make any file CSV */
                                  : "a.csv",
                        answers[_i].text, answers[_i].options);
    ck_assert_msg(map->rv == APR_SUCCESS, "not read: %s\n%s", answers[_i].text, map->log);
    test_map_expect(map, answers[_i].url, answers[_i].answer);
    test_map_free(map);
}
END_TEST

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

#define UNKNOWN   "columns=source,target,status"
#define NOT_FOUND "',', ';' or TAB separates them"

static const struct {
    const char *text, *options, *says;
} errors[] = {
    {"Alt,Neu\n/a,/b\n/c,/d\n", "", UNKNOWN},
    {"Nr;Bezeichnung;Wert\n1;/a;/b\n2;/c;/d?x=1\n", "", UNKNOWN},
    {"first\tsecond\n/a?x=1\t/b\n/c\t/d\n", "", UNKNOWN},
    {"Old URL|New URL|Status\n/a|/b|301\n/c|/d|301\n", "", NOT_FOUND},
    {"Alt|Neu\n/a|/b\n/c|/d\n", "", NOT_FOUND},
    {"old new\n/a /b\n/c /d\n", "", NOT_FOUND},
    {"/a,/b\n/c,/d\n", "columns=source", "columns= names no target"},
};

START_TEST(columns_that_are_unknown_are_one_error)
{
    test_map *map = test_map_load("a.csv", errors[_i].text, errors[_i].options);

    ck_assert_int_eq(map->rv, APR_EGENERAL);
    ck_assert_msg(count(map->log, "E1 ") == 1 && map->report.errors == 1, "%s", map->log);
    ck_assert_ptr_nonnull(strstr(map->log, errors[_i].says));
    test_map_free(map);
}
END_TEST

START_TEST(what_is_not_used_is_said_once)
{
    test_map *map = test_map_load("a.csv", "/a,/b,301,,\n/c,/d,301,,TRUE\n/e,/f,301,FALSE\n", "");

    ck_assert_msg(test_map_said(map, "N2 there is no header row, so 'TRUE' is not used") &&
                      count(map->log, "no header row") == 1,
                  "%s", map->log);
    ck_assert_ptr_nonnull(strstr(map->log, "columns=source,target,status,query with '-'"));
    test_map_free(map);
    map = test_map_load("a.csv", "/a,/b,301,x\n", "columns=source,target,status,-");
    ck_assert_str_eq(map->log, "");
    test_map_free(map);
}
END_TEST

START_TEST(a_row_is_not_taken_for_a_header)
{
    test_map *map = test_map_load("a.csv", "page.html,nowhere,301\n/c,/d\n", "");

    ck_assert_msg(test_map_said(map, "E1 the target 'nowhere'"), "%s", map->log);
    test_map_expect(map, "/c", "302 /d");
    test_map_free(map);
}
END_TEST

START_TEST(the_separator_is_said)
{
    test_map *map = test_map_load("a.csv", "old;new\n/a;/b\n", "");

    ck_assert_msg(test_map_said(map, "N1 columns are separated by ';'"), "%s", map->log);
    test_map_free(map);
    map = test_map_load("a.csv", "old,new\n/a,/b\n", "");
    ck_assert_str_eq(map->log, "");
    test_map_free(map);
}
END_TEST

START_TEST(wrong_columns)
{
    static const char *const words[] = {"columns=from,nonsense",
                                        "columns=/a,/b",
                                        "columns=1,2",
                                        "columns=target,status",
                                        "columns=source,target,to",
                                        "columns=source,from,target",
                                        "columns=-"};
    redirect_map_options options;
    apr_pool_t *pool;

    apr_initialize();
    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&options);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        ck_assert_msg(redirect_map_option(&options, words[i], pool) != NULL, "%s", words[i]);
    ck_assert_ptr_null(redirect_map_option(&options, "columns=", pool));
    ck_assert_ptr_null(options.columns);
    apr_pool_destroy(pool);
    apr_terminate();
}
END_TEST

/* --- what is wrong ---------------------------------------------------------------------------- */

START_TEST(cloudflares_wrong_rows)
{
    test_map *map = test_map_load("a.csv",
                                  "h.example/a,https://t.example/b,301,,,,\n"
                                  "h.example/b,https://t.example/b,301,maybe\n"
                                  "/c,https://t.example/b,301,,TRUE\n",
                                  "format=cloudflare");

    ck_assert_msg(test_map_said(map, "E2 'maybe' is no value for the column 'query'"), "%s",
                  map->log);
    ck_assert_msg(test_map_said(map, "E3 the subdomains of which host?"), "%s", map->log);
    test_map_expect(map, "http://h.example/a", "301 https://t.example/b");
    test_map_free(map);
}
END_TEST

START_TEST(other_conditions_are_named)
{
    static const char *const lists[] = {
        "{\"type\": \"header\", \"key\": \"x\"}",
        "{\"type\": \"host\", \"value\": \"(a|b).example\"}",
        "{\"type\": \"host\", \"value\": \"a.example\"}, {\"type\": \"cookie\", \"key\": \"c\"}",
        "{\"type\": \"host\"}"};

    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        test_map *map;
        char all[400];

        apr_snprintf(all, sizeof(all), HAS("%s"), lists[i]);
        map = test_map_load("vercel.json", all, "");
        ck_assert_msg(test_map_said(map, "E1 the condition 'has' is not possible"), "%s\n%s", all,
                      map->log);
        ck_assert_uint_eq(map->report.rows, 0);
        test_map_free(map);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("CSV of redirect maps");
    TCase *tc = tcase_create("CSV");
    SRunner *runner;
    int failed;

    tcase_add_loop_test(tc, an_answer, 0, (int)COUNT_OF(answers));
    tcase_add_loop_test(tc, columns_that_are_unknown_are_one_error, 0, (int)COUNT_OF(errors));
    tcase_add_test(tc, what_is_not_used_is_said_once);
    tcase_add_test(tc, a_row_is_not_taken_for_a_header);
    tcase_add_test(tc, the_separator_is_said);
    tcase_add_test(tc, wrong_columns);
    tcase_add_test(tc, cloudflares_wrong_rows);
    tcase_add_test(tc, other_conditions_are_named);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
