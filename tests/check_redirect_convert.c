/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conversions of redirects: what files of each format become in each other one, by look-ups. Random
 * maps go to every format and back; the seed is HTC_SEED, and HTC_LONG makes so many times as many of
 * them. HTC_CORPUS is a folder with redirect lists (redirects/ *.csv), some of which go through all
 * formats, too. Single rows are in check_redirect_convert_rows.c.
 */
#include "convert_fixture.h"
#include "tool/verify.h"

#include <check.h>
#include <glob.h>

/* --- whole files ------------------------------------------------------------------------------*/

/* What the configurations answer was asked of httpd. */
static const struct {
    const char *config, *url, *answer;
} answers[] = {
    /* httpd puts a query behind the fragment, unless the target has one. */
    {"RedirectMatch 301 ^/r2$ https://o.example/x#f\n", "/r2?q=1", "301 https://o.example/x#f?q=1"},
    {"RedirectMatch 301 ^/r2$ https://o.example/x#f?g\n", "/r2?q=1", "301 https://o.example/x#f?g"},
    {"RewriteRule ^/r2$ https://o.example/x#f [NE,R=301,L]\n", "/r2?q=1",
     "301 https://o.example/x#f?q=1"},
    {"Redirect 301 /r2 https://o.example/x#f\n", "/r2?q=1", "301 https://o.example/x#f?q=1"},
    {"Redirect 301 /r2/ https://o.example/x\n", "/r2/y%20z?q=1",
     "301 https://o.example/xy%20z?q=1"},
    /* The last rule of a context ends the processing without L, too. */
    {"RewriteRule ^/a$ /b [R=301]\n", "/a", "301 /b"},
    {"RewriteRule ^/a$ /b [R=301]\nRewriteRule ^/c$ /d [R=301]\n", "/a", "none"},
    {"Redirect 301 /a https://x.example/b\n", "/a/c%20d?q", "301 https://x.example/b/c%20d?q"},
    {"Redirect 301 /a/ https://x.example/b/\n", "/a", "none"},
    {"Redirect 301 /a/ https://x.example/b/\n", "/a/c", "301 https://x.example/b/c"},
    {"Redirect 301 /a https://x.example/\n", "/a/c", "301 https://x.example//c"},
    {"Redirect /a /b?x=1\n", "/a?y=2", "302 /b?x=1"},
    {"Redirect /a /b\n", "/ab", "none"},
    {"RedirectMatch ^/a(.*)\\.gif$ /b$1.png\n", "/a/c.gif", "302 /b/c.png"},
    {"RedirectMatch 410 ^/a\n", "/abc", "410"},
    {"RewriteRule ^/x/([a-z]+)/(\\d+)$ /y?n=$2&t=$1 [R=308,L]\n", "/x/ab/12", "308 /y?n=12&t=ab"},
    {"RewriteRule ^/x /y [R=301,L,QSD]\n", "/xyz?q", "301 /y"},
    {"RewriteRule ^/X$ /y [R=301,NC,L]\n", "/x?q", "301 /y?q"},
    {"RewriteRule ^/x$ - [F]\n", "/x", "403"},
};

static const char *ask_list(convert_list *list, const char *url)
{
    void *image;
    size_t size;
    redirect_request request;
    redirect_match match;
    redirect_group groups[10];
    const redirect_table *table;
    map_regexes *regexes = map_regexes_create(pool);
    const char *location;
    bool refused;
    int n, status;

    ck_assert_int_eq(convert_build(list, &image, &size), APR_SUCCESS);
    table = redirect_table_open(image, size, pool);
    ck_assert_ptr_null(redirect_request_of(url, NULL, &request, &status, pool));
    request.regex = map_regexes_match;
    request.baton = regexes;
    if (!redirect_table_lookup(table, &request, 0, &match)) {
        free(image);
        return "none";
    }
    n = map_regexes_groups(regexes, &match, request.path, request.path_len, groups, 10);
    location = redirect_map_location(&match, &request, groups, n, pool, &refused);
    location = apr_psprintf(pool, "%d%s%s", match.profile.status, location ? " " : "",
                            location ? location : "");
    free(image);
    return location;
}

START_TEST(what_a_configuration_answers)
{
    convert_list *list = list_of(CONVERT_HTTPD, answers[_i].config, "");

    if (test_map_has_regexes())
        ck_assert_str_eq(ask_list(list, answers[_i].url), answers[_i].answer);
}
END_TEST

static test_map *load(convert_format format, const char *text, const convert_result *result)
{
    return test_map_load(file_names[format], text,
                         apr_psprintf(pool, "format=%s%s%s", convert_format_name(format),
                                      *result->words ? " " : "", result->words));
}

/* The map and its conversion answer the same, but where the row was reported. */
static void compare(test_map *from, test_map *to, const char *const *urls, size_t n,
                    const char *what)
{
    for (size_t i = 0; i < n; i++) {
        const char *was = test_map_ask(from, urls[i]), *is = test_map_ask(to, urls[i]);
        unsigned line = test_map_line(from, urls[i]);

        if (line && was_lost(line))
            continue;
        if (!line && strstr(said, "paths that end in a slash are redirected, too") &&
            urls[i][strlen(urls[i]) - 1] == '/')
            continue;
        ck_assert_msg(!strcmp(was, is),
                      "%s: %s is answered with '%s' instead of '%s'; reports:\n%s", what, urls[i],
                      is, was, said);
    }
}

static const struct {
    convert_format format;
    const char *text;
} samples[] = {
    {CONVERT_TEXT,
     "/a /b 301\n/p /q/ subpath=on\n/p/own /r\n/q?x=1&y=2 /s\n/q /t query=drop\n"
     "/gone 410\n//h.example/a /hosted case=ignore\nhttps://h.example/a /secure\n"
     "/with%20blank/%3Fmark%23hash%25 /u%20v#w\n/e /f query=exact\n/sl /m slash=ignore\n"
     "/strip /n strip=utm_*,gclid\n/caf\xc3\xa9/* /star\n/quote\" /\\\n"},
    {CONVERT_CSV, "Old Url,New Url,Status\n/a,https://x.example/?a=b,301\n\"/b,c\",/d,302\n"
                  "http://h.example/a?b=c,/e,301\n/g,,410\n"},
    {CONVERT_NETLIFY, "/a /b\n/blog/:year/:slug /news/:slug?y=:year 302!\n/s/* /t/:splat\n"
                      "/q id=1 /r 308\n/x/*/y /z/:splat\n/all/* /one\n/colon:x /y\n"},
    {CONVERT_NGINX,
     "/a /b;\n~^/c/(\\d+)$ /d?n=$1;\n~*^/e/(?<name>[^/]+)$ /f/$name;\n\"/g h\" \"/i j\";\n"
     "~^/k /l;\ndefault /m;\n"},
    {CONVERT_JSON,
     "{\"redirects\":[{\"source\":\"/a/:b/c\",\"destination\":\"/d/:b\",\"permanent\":true},"
     "{\"source\":\"/e/(\\\\d{1,3})\",\"destination\":\"/f?g=$1\",\"permanent\":false},"
     "{\"source\":\"/h/:rest*\",\"destination\":\"/i/:rest*\",\"permanent\":false},"
     "{\"source\":\"/plain.x\",\"destination\":\"/j\",\"statusCode\":303}]}"},
    {CONVERT_JSON, "[{\"source\":\"/a\",\"destination\":\"/b\",\"preserveQueryParams\":true},\n"
                   "{\"source\":\"/c?d=e\",\"destination\":\"/f\",\"statusCode\":301},\n"
                   "{\"source\":\"/g\",\"destination\":\"/h\",\"caseSensitive\":true}]"},
};

static const char *const urls[] = {"/a",
                                   "/A",
                                   "/a/",
                                   "/a?x",
                                   "/p",
                                   "/p/",
                                   "/p/x/y%20z",
                                   "/p/own",
                                   "/q?y=2&x=1",
                                   "/q?x=1",
                                   "/q?id=1",
                                   "/gone",
                                   "http://h.example/a",
                                   "http://h.example/A",
                                   "https://h.example/a",
                                   "http://h.example/a?b=c",
                                   "/with%20blank/%3Fmark%23hash%25",
                                   "/e",
                                   "/e?x",
                                   "/sl/",
                                   "/sl",
                                   "/strip?utm_a=1&b=2",
                                   "/caf%c3%a9/*",
                                   "/caf%c3%a9/x",
                                   "/quote%22",
                                   "/b,c",
                                   "/b%2cc",
                                   "/g",
                                   "/blog/2020/x",
                                   "/blog/2020/x/",
                                   "/blog/2020",
                                   "/s",
                                   "/s/",
                                   "/s/t/u",
                                   "/x/1/2/y",
                                   "/x//y",
                                   "/all",
                                   "/all/x",
                                   "/colon:x",
                                   "/c/12",
                                   "/c/x",
                                   "/E/%C3%A4",
                                   "/g%20h",
                                   "/kkk",
                                   "/zzz",
                                   "/a/b/c",
                                   "/e/123",
                                   "/e/1234",
                                   "/h",
                                   "/h/",
                                   "/h/x/y",
                                   "/plain.x",
                                   "/plainyx",
                                   "/c?d=e",
                                   "/c",
                                   "/G"};

START_TEST(a_sample_in_every_format)
{
    size_t sample = (size_t)_i / CONVERT_FORMATS;
    convert_format to = (convert_format)(_i % CONVERT_FORMATS), from = samples[sample].format;
    convert_list *list = list_of(from, samples[sample].text, "");
    convert_result result = {.words = ""};
    test_map *origin = load(from, samples[sample].text, &result), *copy;
    const char *text = written(list, to, &result);

    if (!test_map_has_regexes())
        return;
    tool_verify(list, to, &result.options, false, text, strlen(text));
    /* A virtual host's lines are asked before others, wherever they stand. */
    ck_assert_msg(to == CONVERT_HTTPD || !strstr(said, "after conversion"), "%s:\n%s", text, said);
    if (to == CONVERT_HTTPD) {
        convert_list *back = list_of(to, text, "");

        ck_assert_msg(!back->losses, "%s", said);
        ck_assert_int_gt(back->rules->nelts, 0);
    } else {
        copy = load(to, text, &result);
        ck_assert_msg(!copy->report.errors, "%s\n%s", text, copy->log);
        compare(origin, copy, urls, COUNT_OF(urls), text);
        test_map_free(copy);
    }
    test_map_free(origin);
}
END_TEST

/* --- random maps ------------------------------------------------------------------------------*/

static uint64_t seed;

static unsigned rnd(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % n;
}

static const char *random_path(void)
{
    static const char *const segments[] = {
        "a",    "b",         "A",    "x.y",      "c%20d",     "%2F",     "e+f",     "g:h",
        "i*j",  "k(l)",      "$1",   "%25",      "\xc3\xa9",  "m,n",     "o;p",     "q'r",
        "s~t",  "i%2Aj",     "%241", "w%24",     "%5B0-9]+x", "%7Bp,q}", "{id}",    "%7Bid}",
        ".%2B", "%28b%7Cc)", "%5Cd", "r[1]+(2)", "%5Eu",      "v%7C",    "%28.%2B)"};
    const char *path = "";

    for (unsigned i = 0, n = 1 + rnd(3); i < n; i++)
        path = apr_pstrcat(pool, path, "/", segments[rnd(rnd(2) ? 3 : COUNT_OF(segments))], NULL);
    return rnd(8) ? path : apr_pstrcat(pool, path, "/", NULL);
}

static const char *random_query(void)
{
    static const char *const queries[] = {"", "?x=1", "?x=1&y=2", "?y=2&x=1", "?utm_a=3", "?x=%20"};

    return queries[rnd(2) ? 0 : rnd(COUNT_OF(queries))];
}

static const char *random_row(void)
{
    static const char *const hosts[] = {
        "", "", "", "", "//h.example", "https://h.example", "//*.h.example"};
    static const char *const options[] = {"query=drop",   "query=exact", "case=ignore",
                                          "slash=ignore", "subpath=on",  "subpath=on",
                                          "strip=utm_*",  "301"};
    const char *row =
        apr_pstrcat(pool, hosts[rnd(COUNT_OF(hosts))], random_path(), random_query(), NULL);

    row = rnd(10) ? apr_pstrcat(pool, row, rnd(2) ? " /t" : " https://t.example", random_path(),
                                rnd(4) ? "" : "?z=1", NULL)
                  : apr_pstrcat(pool, row, " 410", NULL);
    for (unsigned i = rnd(3); i; i--)
        row = apr_pstrcat(
            pool, row, " ",
            options[rnd(COUNT_OF(options) - !strncmp(row + strlen(row) - 3, "410", 3))], NULL);
    return apr_pstrcat(pool, row, "\n", NULL);
}

static const char *random_url(void)
{
    static const char *const hosts[] = {"", "", "http://h.example", "https://h.example",
                                        "http://w.h.example"};

    /* Without runs of slashes: servers merge them first, so that not every format minds them. */
    return apr_pstrcat(pool, hosts[rnd(COUNT_OF(hosts))], random_path(), random_query(), NULL);
}

/* A random map, to a format, and back to text. */
static void there_and_back(convert_format to)
{
    const char *text = "", *there, *back_text;
    const char *asked[60];
    convert_result none = {.words = ""}, result, back_result;
    convert_list *list, *back;
    const char *first_said;
    test_map *origin, *copy, *again;
    unsigned n = 1 + rnd(12);

    for (unsigned i = 0; i < n; i++)
        text = apr_pstrcat(pool, text, random_row(), NULL);
    for (size_t i = 0; i < COUNT_OF(asked); i++)
        asked[i] = random_url();
    list = list_of(CONVERT_TEXT, text, "");
    there = written(list, to, &result);
    check_rows(list, &result, n);
    tool_verify(list, to, &result.options, false, there, strlen(there));
    first_said = said;
    /* nginx asks exact rows and hosts first, httpd virtual hosts: there the order may be lost. */
    ck_assert_msg(to == CONVERT_NGINX || to == CONVERT_HTTPD || !strstr(said, "after conversion"),
                  "%sbecomes\n%s%s", text, there, said);
    origin = load(CONVERT_TEXT, text, &none);
    if (to != CONVERT_HTTPD) {
        copy = load(to, there, &result);
        ck_assert_msg(!copy->report.errors, "%s\n%s", there, copy->log);
        compare(origin, copy, asked, COUNT_OF(asked),
                apr_pstrcat(pool, text, "becomes\n", there, NULL));
        test_map_free(copy);
    }
    back = list_of(to, there, result.words);
    back_text = written(back, CONVERT_TEXT, &back_result);
    if (back->losses == 0) {
        said = (char *)(uintptr_t)first_said;
        again = load(CONVERT_TEXT, back_text, &none);
        compare(origin, again, asked, COUNT_OF(asked),
                apr_pstrcat(pool, text, "becomes\n", there, "and\n", back_text, NULL));
        test_map_free(again);
    }
    test_map_free(origin);
}

/* Rows that have several rules, that cannot be read, and that an earlier one hides. */
static const struct {
    convert_format format;
    const char *text;
    unsigned read;
} counted[] = {
    {CONVERT_CLOUDFLARE,
     "h.example/b,https://t.example/?x,302,FALSE,TRUE,TRUE,TRUE\n"
     "h.example/a,https://t.example/,301,TRUE,TRUE\n"
     "g.example/p,https://t.example/,301,TRUE,FALSE,TRUE,FALSE\n"
     "g.example/f,https://t.example/#f,308,TRUE,TRUE,FALSE,FALSE\n",
     4},
    {CONVERT_TEXT, "/a /b 301\n/a /c 301\n/d nowhere 301\n# none\n\n/e 410\n", 4},
    {CONVERT_HTTPD,
     "RewriteEngine On\nRedirect 301 /a /b\nRewriteCond %{HTTPS} off\nRewriteRule ^/c$ /d [R,L]\n"
     "<VirtualHost *:80>\nServerName h.example\nServerAlias i.example\nRedirect /a /b/\n"
     "</VirtualHost>\n<VirtualHost *:80>\nServerName -bad-\nRedirect /a /b\n</VirtualHost>\n"
     "RewriteRule ^/e$ index.php [L]\nRedirect 302 /f /g/#h\nHtCacheRedirectMap x\n",
     6},
};

START_TEST(each_row_is_counted_once)
{
    size_t sample = (size_t)_i / CONVERT_FORMATS;
    convert_list *list = list_of(counted[sample].format, counted[sample].text, "");
    convert_result result;

    if (!test_map_has_regexes())
        return;
    written(list, (convert_format)(_i % CONVERT_FORMATS), &result);
    check_rows(list, &result, counted[sample].read);
}
END_TEST

START_TEST(random_maps_there_and_back)
{
    const char *given = getenv("HTC_SEED"), *times = getenv("HTC_LONG");
    unsigned n = 150 * (times ? (unsigned)atoi(times) : 1);
    uint64_t first = given ? strtoull(given, NULL, 10) : 1;

    if (!test_map_has_regexes())
        return;
    for (unsigned i = 0; i < n; i++) {
        seed = (first + i) * 1000 + (unsigned)_i;
        there_and_back((convert_format)_i);
        apr_pool_clear(pool);
    }
}
END_TEST

/* A rule that answers for what DirectoryIndex tries, and not for the directory. */
START_TEST(index_of_a_directory)
{
    static const char *const texts[] = {"RewriteRule ^(.+)$ /x [R,L]\n",
                                        "RewriteRule ^(.*)$ /x [R,L]\n"};
    convert_list *list = list_of(CONVERT_HTTPD, texts[_i], "htaccess");
    convert_result result;
    const char *text = written(list, CONVERT_CSV, &result);

    if (!test_map_has_regexes())
        return;
    tool_verify(list, CONVERT_CSV, &result.options, false, text, strlen(text));
    ck_assert_str_eq(said,
                     _i ? ""
                        : "E0 a map answers '/' as '/index.html', which DirectoryIndex tries; "
                          "RewriteRules do not. Set 'DirectoryIndex disabled' there, or add a "
                          "row for '/'\n");
}
END_TEST

/* Rows with conditions are rows with the same conditions, or are named. */
START_TEST(conditions)
{
    static const char text[] =
        "/a /b 301 method=GET accept=text/turtle,a/b;x=\"y\"\n/a /c 301 language=de,de-ch\n"
        "/a /d 301 !country=AT cookie=a=1,b\n/a /e 301 \"header=X-A: one two\"\n/a /f 301\n";
    static const char more[] = "/a /b 301 parameter=x=1\n/a /c 301 header=X header=Y\n"
                               "/a /d 301 accept=a/b unacceptable=406\n/a /e 301\n";

    for (int to = 0; to < CONVERT_FORMATS; to++) {
        bool says = to == CONVERT_TEXT || to == CONVERT_CSV;
        bool some = to == CONVERT_NETLIFY || to == CONVERT_JSON || to == CONVERT_VERCEL;
        convert_list *list = list_of(CONVERT_TEXT, text, "");
        convert_result result;
        const char *out = written(list, (convert_format)to, &result);

        /* Cloudflare's rows have a host. */
        ck_assert_msg(list->losses == (says                       ? 0
                                       : some                     ? 3
                                       : to == CONVERT_CLOUDFLARE ? 5
                                                                  : 4),
                      "%d: %s", to, said);
        if (!says)
            continue;
        ck_assert_msg(
            tool_verify(list, (convert_format)to, &result.options, false, out, strlen(out)),
            "%s\n%s", out, said);
        list = list_of((convert_format)to, out, "");
        ck_assert_int_eq(list->rules->nelts, 5);
        ck_assert_str_eq(APR_ARRAY_IDX(list->rules, 0, convert_rule).rule.condition,
                         "method=GET\naccept=a/b;x=y,text/turtle");
        ck_assert_str_eq(APR_ARRAY_IDX(list->rules, 3, convert_rule).rule.condition,
                         "header=X-A:one two");
        list = list_of(CONVERT_TEXT, more, "");
        out = written(list, (convert_format)to, &result);
        ck_assert_msg(list->losses == (to == CONVERT_TEXT ? 0 : 3), "%d: %s", to, said);
    }
}
END_TEST

/* nginx decodes what it captures, and compares slashes one by one. */
START_TEST(what_nginx_cannot_say)
{
    static const struct {
        const char *map;
        unsigned losses, with_runs; /* where runs of slashes are merged, and where not */
    } cases[] = {{"/a http://t/a\n", 0, 0},
                 {"/a/b http://t/a\n", 0, 1},
                 {"/a http://t/a subpath=on\n", 1, 2},
                 {"/a/b/c http://t/a\n/d http://t/d\n", 0, 1}};
    static const struct {
        const char *map;
        unsigned losses;
    } groups[] = {{"~^/a/([0-9]+)$ http://t/$1;\n", 0},   {"\"~^/a/(\\d{4})$\" http://t/$1;\n", 0},
                  {"~^/a/([a-z_-]+)$ http://t/$1;\n", 0}, {"~^/a/([A-z]+)$ http://t/$1;\n", 1},
                  {"~^/a/([^/]+)$ http://t/$1;\n", 1},    {"~^/a/(.*)$ http://t/$1;\n", 1},
                  {"~^/a/(?:b|(c.))$ http://t/$1;\n", 1}, {"~^/a/(.*)$ http://t/all;\n", 0},
                  {"~^/a(?:/(.*))?$ http://t/$1;\n", 1}};
    convert_result result;

    for (size_t i = 0; i < 2 * COUNT_OF(cases); i++) {
        bool runs = i % 2;
        unsigned want = runs ? cases[i / 2].with_runs : cases[i / 2].losses;
        convert_list *list = list_of(CONVERT_TEXT, cases[i / 2].map, "");
        const char *text = written(list, CONVERT_NGINX, &result);

        tool_verify(list, CONVERT_NGINX, &result.options, runs, text, strlen(text));
        ck_assert_msg(list->losses == want, "%s: %d instead of %u losses:\n%s", cases[i / 2].map,
                      (int)list->losses, want, said);
    }
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        convert_list *list = list_of(CONVERT_NGINX, groups[i].map, "");

        written(list, CONVERT_NGINX, &result);
        ck_assert_msg(list->losses == groups[i].losses, "%s: %d losses:\n%s", groups[i].map,
                      (int)list->losses, said);
    }
}
END_TEST

START_TEST(real_lists_in_every_format)
{
    const char *corpus = getenv("HTC_CORPUS");
    glob_t found = {0};

    if (!corpus || glob(apr_pstrcat(pool, corpus, "/redirects/*.csv", NULL), 0, NULL, &found))
        return;
    for (size_t i = (size_t)_i; i < found.gl_pathc; i += 12) {
        convert_list *list = convert_list_create(pool, say, NULL);
        convert_result result;
        redirect_map_options options;
        char *bytes = NULL;
        size_t len = 0;
        FILE *in = fopen(found.gl_pathv[i], "r");

        ck_assert_ptr_nonnull(in);
        ck_assert_int_ge(getdelim(&bytes, &len, 0, in), 0);
        fclose(in);
        said = "";
        redirect_map_options_init(&options);
        ck_assert_int_eq(convert_read_map(list, &options, found.gl_pathv[i], bytes, strlen(bytes)),
                         APR_SUCCESS);
        free(bytes);
        said = "";
        bytes = (char *)(uintptr_t)written(list, (convert_format)_i, &result);
        said = "";
        ck_assert_msg(
            tool_verify(list, (convert_format)_i, &result.options, false, bytes, strlen(bytes)),
            "%s: %s", found.gl_pathv[i], said);
        apr_pool_clear(pool);
    }
    globfree(&found);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("redirect_convert");
    TCase *tc = tcase_create("convert");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_loop_test(tc, what_a_configuration_answers, 0, (int)COUNT_OF(answers));
    tcase_add_loop_test(tc, a_sample_in_every_format, 0, (int)COUNT_OF(samples) * CONVERT_FORMATS);
    tcase_add_loop_test(tc, each_row_is_counted_once, 0, (int)COUNT_OF(counted) * CONVERT_FORMATS);
    tcase_add_loop_test(tc, random_maps_there_and_back, 0, CONVERT_FORMATS);
    tcase_add_test(tc, what_nginx_cannot_say);
    tcase_add_loop_test(tc, index_of_a_directory, 0, 2);
    tcase_add_test(tc, conditions);
    tcase_add_loop_test(tc, real_lists_in_every_format, 0, CONVERT_FORMATS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
