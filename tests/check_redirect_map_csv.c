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
    map = test_map_load("a.csv", "old,new,status\n/a,/b,301\n", "");
    ck_assert_str_eq(map->log, "");
    test_map_free(map);
}
END_TEST

/* What a spreadsheet without a status gets is said, once. */
START_TEST(a_status_that_nothing_names_is_said)
{
    static const struct {
        const char *name, *text, *options;
        bool said;
    } files[] = {{"a.csv", "Redirect from,Redirect to\n/a,/b\n/c,/d\n", "", true},
                 {"a.csv", "Redirect from,Redirect to\n/a,/b\n", "status=302", false},
                 {"a.csv", "old,new,status\n/a,/b,\n/c,/d,301\n", "", false},
                 {"a.csv", "source,destination,permanent\n/a,/b,\n", "", false},
                 {"a.map", "/a /b;\n/c /d;\n~^/e /f;\n", "", true},
                 {"a.txt", "/a /b\n", "", false},
                 {"_redirects", "/a /b\n", "", false}};

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        test_map *map = test_map_load(files[i].name, files[i].text, files[i].options);

        ck_assert_msg(count(map->log, "name no status and get 302; status=301") == files[i].said,
                      "%s", map->log);
        test_map_free(map);
    }
}
END_TEST

/* --- what is no UTF-8 ------------------------------------------------------------------------- */

START_TEST(rows_that_are_not_utf8_are_said_once)
{
    static const struct {
        const char *name, *text, *said;
    } files[] = {
        {"a.csv", "Alte URL;Neue URL;Status\r\n/m\xFCller;https://h.example/m;301\r\n",
         "W2 1 row is not UTF-8"},
        {"a.txt", "/\xE4 /b\n/c /d\n\n/\xF6 /b\n/\xFC?x=1 /b\n", "W5 3 rows are not UTF-8"},
        {"a.csv", "old,new\n/a,/\xFC\n", "W2 1 row is not UTF-8"},
        {"_redirects", "/\xFC/* /b/:splat\n", "W1 1 row is not UTF-8"},
        {"a.map", "/\xFC /b;\n~^/\xFC /c;\n", "W1 2 rows are not UTF-8"},
        {"a.json", "[{\"source\": \"/\xFC\", \"destination\": \"/b\"}]", "W1 1 row is not UTF-8"},
        {"a.txt", "/\xC3\xBC /b # \xFC\n/%FC /c\n", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(files); i++) {
        test_map *map = test_map_load(files[i].name, files[i].text, "");

        ck_assert_msg(count(map->log, "not UTF-8") == (files[i].said != NULL), "%s", map->log);
        if (files[i].said)
            ck_assert_msg(test_map_said(map, files[i].said), "%s", map->log);
        ck_assert_msg(!files[i].said || strstr(map->log, "save the file as UTF-8 (line"), "%s",
                      map->log);
        ck_assert_uint_eq(map->report.errors, 0);
        test_map_free(map);
    }
}
END_TEST

START_TEST(the_first_lines_are_named)
{
    test_map *map = test_map_load("a.txt", "/\xE4 /b\n/\xF6 /b\n/\xFC /b\n/\xDF /b\n", "");

    ck_assert_msg(strstr(map->log, "W1 4 rows are") && strstr(map->log, "(lines 1, 2, 3, ...)"),
                  "%s", map->log);
    test_map_expect(map, "/%FC", "302 /b"); /* which a link may well have */
    test_map_free(map);
}
END_TEST

/* --- regexes, and rows that are not in use ---------------------------------------------------- */

static const char plugin[] = "source,target,regex,code,type,hits,title,status\n"
                             "/a,/b,0,301,url,5,,active\n"
                             "\"^/r/(.*)\",/x/$1,1,308,url,0,,enabled\n"
                             "/off,/y,0,302,url,1,,disabled\n"
                             "/r/late,/z,0,301,url,1,,\n";

START_TEST(wordpress_plugin_redirection)
{
    test_map *map = test_map_load("a.csv", plugin, "");

    ck_assert_msg(map->report.errors == 0 && map->report.rows == 3, "%s", map->log);
    ck_assert_msg(test_map_said(map, "N4 1 rows are disabled"), "%s", map->log);
    test_map_expect(map, "/a", "301 /b");
    test_map_expect(map, "/off", "none");
    if (test_map_has_regexes()) {
        test_map_expect(map, "/r/q%20r", "308 /x/q%20r");
        test_map_expect(map, "/r/late", "308 /x/late"); /* the order is the file's */
    }
    test_map_free(map);
}
END_TEST

static const struct {
    const char *text, *said;
    unsigned rows;
} columns_of_words[] = {
    {"source,target,status\n/a,/b,enabled\n",
     "E2 'enabled' is not a status; if the column has none, say what the columns are, as in "
     "columns=source,target,-",
     0},
    {"source,target,type,code\n/a,/b,url,301\n", "N1 column 'type' is not used", 1},
    {"source,target,status,code\n/a,/b,301,\n", "", 1},
    {"source,target,code,status\n/a,/b,301,maybe\n",
     "E2 'maybe' is no value for the column "
     "'enabled'",
     0},
    {"source,target,enabled\n/a,/b,no\n", "N2 1 rows are disabled", 0},
    {"source,target,regex\n/a,/b,1\n",
     "E2 the regex '/a' is taken only if it is for the whole path", 0},
    {"source,target,regex\n^/a,/b,1\n", "E2 the regex '^/a' is taken only", 0},
    {"source,target,regex\n^/a|/b$,/b,1\n", "E2 the regex '^/a|/b$' is taken only", 0},
    {"source,target,regex\n^/a\\$,/b,1\n^/a\\.*,/b,1\n", "E3 the regex '^/a\\.*' is taken", 0},
    {"source,target,regex\n^/a(/b|/c.*),/b,1\n", "E2 the regex '^/a(/b|/c.*)' is taken", 0},
    {"source,target,regex\n^/(a|b)/(.*),/b,1\n^/\\\\$,/c,1\n^/(x.*),/d,1\n", "", 3},
    {"source,target,regex\n^/a\\?b$,/b,1\n", "E2 a regex is compared with the path", 0},
    {"source,target,regex\n\"^/\"\"(.*)$\",\"/\"\"$1\",1\n", "", 1},
    {"source,target,regex\n^/a/?$,/b,1\n/a?x=1,/c,\n", "", 2},
};

START_TEST(words_beside_statuses)
{
    test_map *map = test_map_load("a.csv", columns_of_words[_i].text, "");

    ck_assert_msg(!*columns_of_words[_i].said || test_map_said(map, columns_of_words[_i].said),
                  "%s", map->log);
    ck_assert_msg(map->report.rows == columns_of_words[_i].rows, "%u rows\n%s",
                  (unsigned)map->report.rows, map->log);
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
        "{\"type\": \"header\", \"key\": \"x\", \"value\": \"a.*\"}",
        "{\"type\": \"header\", \"key\": \"x\", \"value\": {\"pre\": \"a\"}}",
        "{\"type\": \"address\", \"key\": \"x\"}",
        "{\"type\": \"cookie\", \"key\": \"c\", \"value\": \"a,b\"}",
        "{\"type\": \"query\", \"key\": \"c&d\"}",
        "{\"type\": \"host\", \"value\": \"(a|b).example\"}",
        "{\"type\": \"host\", \"value\": \"*\"}, {\"type\": \"cookie\", \"key\": \"c\"}",
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
    tcase_add_test(tc, a_status_that_nothing_names_is_said);
    tcase_add_test(tc, rows_that_are_not_utf8_are_said_once);
    tcase_add_test(tc, the_first_lines_are_named);
    tcase_add_test(tc, wordpress_plugin_redirection);
    tcase_add_loop_test(tc, words_beside_statuses, 0, (int)COUNT_OF(columns_of_words));
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
