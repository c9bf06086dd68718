/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of redirect maps: options, formats by name, the text and CSV formats, sources,
 * targets, queries, and what a row answers. Run by 'make check'; the other formats are in
 * check_redirect_map_formats.c, the checks of whole maps in check_redirect_map_whole.c.
 */
#include "tool/map.h"
#include "maps/budget.h"
#include "redirect_map_util.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

/* One map, one request. */
typedef struct one {
    const char *map, *options, *url, *answer;
} one;

static void expect_all(const char *name, const one *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        test_map *map = test_map_load(name, cases[i].map, cases[i].options);

        ck_assert_msg(map->rv == APR_SUCCESS, "not read: %s\n%s", cases[i].map, map->log);
        test_map_expect(map, cases[i].url, cases[i].answer);
        test_map_free(map);
    }
}

/* One row that must be left out, or reported. */
typedef struct wrong {
    const char *map, *said;
    unsigned rows; /* that are taken nevertheless */
} wrong;

static void expect_said(const char *name, const wrong *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        test_map *map = test_map_load(name, cases[i].map, "");

        ck_assert_msg(test_map_said(map, cases[i].said), "'%s': '%s' is missing in:\n%s",
                      cases[i].map, cases[i].said, map->log);
        ck_assert_msg(map->report.rows == cases[i].rows, "'%s': %u rows", cases[i].map,
                      (unsigned)map->report.rows);
        test_map_free(map);
    }
}

/* --- options and formats ---------------------------------------------------------------------- */

START_TEST(options_are_understood)
{
    apr_pool_t *pool;
    redirect_map_options o;
    static const char *const good[] = {"format=CSV",         "query=drop",       "case=ignore",
                                       "slash=ignore",       "subpath=on",       "status=permanent",
                                       "host=*.Example.COM", "strip=utm_*,gclid"};

    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&o);
    for (size_t i = 0; i < COUNT_OF(good); i++)
        ck_assert_ptr_null(redirect_map_option(&o, good[i], pool));
    ck_assert_int_eq(o.format, REDIRECT_FORMAT_CSV);
    ck_assert_int_eq(o.query, REDIRECT_QUERY_DROP);
    ck_assert(o.ignore_case && o.ignore_slash && o.subpath);
    ck_assert_int_eq(o.status, 301);
    ck_assert_str_eq(o.host, "*.example.com");
    ck_assert_str_eq(o.strip, "utm_*,gclid");
    ck_assert_ptr_null(redirect_map_option(&o, "subpath=off", pool));
    ck_assert(!o.subpath);
    apr_pool_destroy(pool);
}
END_TEST

START_TEST(wrong_options_are_refused)
{
    static const char *const bad[] = {
        "format=xml", "query=",     "case=yes",          "slash=1",      "subpath=ignore",
        "status=200", "status=304", "status=600",        "status=3x1",   "host=",
        "host=a:80",  "host=a/b",   "host=http://a",     "host=*.",      "nonsense",
        "",           "querydrop",  "host=b\xC3\xBC.de", "status=30\n1", "="};
    apr_pool_t *pool;
    redirect_map_options o, before;

    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&o);
    before = o;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_msg(redirect_map_option(&o, bad[i], pool), "'%s' was taken", bad[i]);
        ck_assert(o.format == before.format && o.query == before.query &&
                  o.status == before.status);
        ck_assert(o.ignore_case == before.ignore_case && o.ignore_slash == before.ignore_slash);
        ck_assert(o.subpath == before.subpath && o.host == before.host && o.strip == before.strip);
    }
    apr_pool_destroy(pool);
}
END_TEST

START_TEST(formats_are_known_by_name_and_content)
{
    static const struct {
        const char *name, *bytes;
        redirect_format format;
    } cases[] = {{"a.csv", "", REDIRECT_FORMAT_CSV},
                 {"/x/A.CSV", "", REDIRECT_FORMAT_CSV},
                 {"a.tsv", "", REDIRECT_FORMAT_CSV},
                 {"a.json", "", REDIRECT_FORMAT_JSON},
                 {"a.jsonl", "", REDIRECT_FORMAT_JSON},
                 {"_redirects", "", REDIRECT_FORMAT_NETLIFY},
                 {"/site/_redirects", "", REDIRECT_FORMAT_NETLIFY},
                 {"my_redirects", "", REDIRECT_FORMAT_TEXT},
                 {"a.txt", "map $uri $x {", REDIRECT_FORMAT_TEXT},
                 {"a.map", "# c\n\n/a /b;\n", REDIRECT_FORMAT_NGINX},
                 {"a.map", "/a /b\n", REDIRECT_FORMAT_TEXT},
                 {"a.map", "", REDIRECT_FORMAT_TEXT},
                 {"a.conf", "map $uri $new\n{\n", REDIRECT_FORMAT_NGINX},
                 {"a.conf", "/a /b; # why\n", REDIRECT_FORMAT_NGINX},
                 {"noext", "", REDIRECT_FORMAT_TEXT},
                 {"noext", "Redirect from,Redirect to\n/a,/b\n", REDIRECT_FORMAT_CSV},
                 {"a.txt", "\xEF\xBB\xBFOld URL;New URL\r\n", REDIRECT_FORMAT_CSV},
                 {"a.txt", "old,new\n", REDIRECT_FORMAT_CSV},
                 {"a.txt", "old new\n", REDIRECT_FORMAT_TEXT},
                 {"noext", "[{\"source\": \"/a\"}]", REDIRECT_FORMAT_JSON},
                 {"noext", "{\"redirects\": []}", REDIRECT_FORMAT_JSON},
                 {"a.csv", "source,target,include_subdomains\n", REDIRECT_FORMAT_CLOUDFLARE},
                 {"a.csv", "h.example/a,https://h.example/b\n", REDIRECT_FORMAT_CLOUDFLARE},
                 {"a.csv", "h.example,https://h.example/b,301,,TRUE\n", REDIRECT_FORMAT_CLOUDFLARE},
                 {"a.csv", "page.html,https://h.example/b,301\n", REDIRECT_FORMAT_CSV},
                 {"a.csv", "/a,https://h.example/b,301,TRUE\n", REDIRECT_FORMAT_CSV}};
    redirect_map_options options;

    redirect_map_options_init(&options);
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        ck_assert_msg(redirect_format_of(&options, cases[i].name, cases[i].bytes,
                                         strlen(cases[i].bytes)) == cases[i].format,
                      "%s, case %zu", cases[i].name, i);
}
END_TEST

START_TEST(what_is_no_map_is_refused)
{
    static const struct {
        const char *name, *bytes;
        size_t len;
    } cases[] = {{".htaccess", "/a /b", 5},
                 {"x.txt", "# moved\nRedirect 301 /a /b\n", 27},
                 {"x.conf", "<VirtualHost *:80>\n", 19},
                 {"x.txt", "\xFF\xFE/\0a\0", 6},
                 {"x.json", "/a /b", 5}};

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        test_map *map = test_map_load_bytes(cases[i].name, cases[i].bytes, cases[i].len, "");

        ck_assert_int_eq(map->rv, APR_EGENERAL);
        ck_assert_uint_eq(map->report.errors, 1);
        test_map_free(map);
    }
}
END_TEST

/* --- text ------------------------------------------------------------------------------------- */

static const one text_cases[] = {
    {"/a /b", "", "/a", "302 /b"},
    {"/a /b", "status=301", "/a", "301 /b"},
    {"/a /b 308", "status=301", "/a", "308 /b"},
    {"/a /b status=307", "status=301", "/a", "307 /b"},
    {"/a\t/b\r\n/c\t\t/d \r\n", "", "/c", "302 /d"},
    {"/a /b\r/c /d\r", "", "/c", "302 /d"},
    {"  /a   /b  ", "", "/a", "302 /b"},
    {"\xEF\xBB\xBF/a /b", "", "/a", "302 /b"},
    {"# /a /c\n/a /b # /d 301", "", "/a", "302 /b"},
    {"/a /b#c", "", "/a", "302 /b#c"},
    {"key\tvalue/x", "", "/key", "none"},
    {"key\t/value", "", "/key", "302 /value"},
    {"\"/a b\" \"/c\\\"d\\\\e\" 301", "", "/a%20b", "301 /c\"d\\e"},
    {"\"/a\\\\b\" /c", "", "/a%5Cb", "302 /c"},
    {"/a\\b /c\\d", "", "/a%5Cb", "302 /c\\d"},
    {"/a 410", "", "/a", "410"},
    {"/a - 404", "", "/a", "404"},
    {"/a - gone", "", "/a", "410"},
    {"/a status=503", "", "/a", "503"},
    {"/a /b\n/a /c", "", "/a", "302 /b"},
    {"/a http://h/%41 seeother", "", "/a", "303 http://h/%41"},
    {"/a /b host=x.example\n/a /c", "", "//X.example./a", "302 /b"},
    {"/a /b host=x.example\n/a /c", "", "//y.example/a", "302 /c"},
    {"/a /b host=*.example", "", "//y.example/a", "302 /b"},
    {"/a /b host=*.example", "", "//example/a", "none"},
    {"/a /b case=ignore\n/c /d", "", "/A", "302 /b"},
    {"/a /b case=ignore\n/c /d", "", "/C", "none"},
    {"/a /b slash=ignore", "", "/a/", "302 /b"},
    {"/a /b", "", "/a/", "none"},
};

START_TEST(text_rows)
{
    expect_all("m.txt", text_cases, COUNT_OF(text_cases));
}
END_TEST

static const wrong text_wrongs[] = {
    {"/a", "E1 no target", 0},
    {"/a 301", "E1 no target", 0},
    {"/ok /x\n/a /b /c\n/ok2 /y", "E2 '/c' is neither", 2},
    {"/a \"/b", "E1 a quote", 0},
    {"\"/a\"b /c", "E1 a quote", 0},
    {"/a /b 301 302", "E1 '302' is neither", 0},
    {"/a /b format=csv", "E1 'format='", 0},
    {"/a /b configtest=off", "E1 'configtest=off' is neither a status nor an option", 0},
    {"/a /b query=no", "E1 query=no", 0},
    {"/a /b 200", "E1 status 200", 0},
    {"/a /b 304", "E1 status 304", 0},
    {"/a /b 410", "W1 the target is ignored", 1},
    {"/a /\x01", "E1 a control character in the target", 0},
    {"/\x7F /b", "E1 a control character in the source", 0},
    {"/a /b\n/a /c", "W2 the same source as in line 1", 2},
};

START_TEST(text_rows_that_are_wrong)
{
    expect_said("m.txt", text_wrongs, COUNT_OF(text_wrongs));
}
END_TEST

START_TEST(nul_bytes_are_errors)
{
    static const char bytes[] = "/a\0x /b\n/c /d\0e\n/f /g host=\0\n/h /i\n";
    test_map *map = test_map_load_bytes("m.txt", bytes, sizeof(bytes) - 1, "");

    ck_assert_uint_eq(map->report.rows, 1);
    ck_assert_uint_eq(map->report.errors, 3);
    test_map_expect(map, "/h", "302 /i");
    test_map_free(map);
}
END_TEST

/* --- CSV -------------------------------------------------------------------------------------- */

static const one csv_cases[] = {
    {"Old Url,New Url,Status\n/a,/b,301\n", "", "/a", "301 /b"},
    {"status , DESTINATION,\" Source \"\n301,/b,/a\n", "", "/a", "301 /b"},
    {"Status;Redirect To;Comment;Request\r\n301;/b;hi;/a\r\n", "", "/a", "301 /b"},
    {"from\tto\n/a\t/b\n", "", "/a", "302 /b"},
    {"sep=;\nold;new\n/a;/b,c\n", "", "/a", "302 /b,c"},
    {"/a,/b,301\n", "", "/a", "301 /b"},
    {"/from,/to,301\n", "", "/from", "301 /to"},
    {"/a\t/b\t301\n", "", "/a", "301 /b"},
    {"/a,/b\r/c,/d\r", "", "/c", "302 /d"},
    {"\xEF\xBB\xBFsource,target\n/a,/b", "", "/a", "302 /b"},
    {"/a,\"/b,\"\"c\"\"\"\n", "", "/a", "302 /b,\"c\""},
    {"source,note,target\n/a,\"two\nlines\",/b\n/c,,/d\n", "", "/c", "302 /d"},
    {"/a , /b , 301 \n", "", "/a", "301 /b"},
    {"/a,,410\n", "", "/a", "410"},
    {"/a,-,410\n", "", "/a", "410"},
    {"/a,/b,418\n", "", "/a", "418"},
    {"source,status\n/a,410\n", "", "/a", "410"},
    {"/a,/b,301 Moved Permanently\n", "", "/a", "301 /b"},
    {"/a,/b,\n", "status=307", "/a", "307 /b"},
    {"source,destination,permanent\n/a,/b,true\n/c,/d,f\n", "", "/a", "308 /b"},
    {"source,destination,permanent\n/a,/b,true\n/c,/d,f\n", "", "/c", "307 /d"},
    {"Old Url,New Url,Status,Suggested Link\n/a,/b,301\n", "", "/a", "301 /b"},
    {"\n\n/a,/b\n,,\n", "", "/a", "302 /b"},
    {"/a,/b \"c\"\n", "", "/a", "302 /b%20\"c\""},
};

START_TEST(csv_rows)
{
    expect_all("m.csv", csv_cases, COUNT_OF(csv_cases));
}
END_TEST

static const wrong csv_wrongs[] = {
    {"/a\n/b,/c\n", "E1 no target", 1},
    {"source,target\n,/b\n", "E2 the source is missing", 0},
    {"/a,/b,moved\n", "E1 'moved' is not a status", 0},
    {"/a,/b\n\"/c,/d\n/e,/f\n", "E2 a quote is not closed", 2},
    {"/a,/b\n\"/c\"d,/e\n/e,/f\n", "E2 there is something behind", 2},
    {"/a,/b,418\n", "W1 the target is ignored, as status 418", 1},
    {"source,target,owner\n/a,/b,me\n/c,/d,you\n", "N1 column 'owner'", 2},
    {"/a,/b,301,me\n/c,/d,301,you\n", "N1 there is no header", 2},
    {"/a,/b\n\"x\ny\",/c\n\n/d,nowhere", "E5 the target 'nowhere'", 1},
};

START_TEST(csv_rows_that_are_wrong)
{
    expect_said("m.csv", csv_wrongs, COUNT_OF(csv_wrongs));
}
END_TEST

START_TEST(csv_goes_on_behind_a_quote_that_is_not_closed)
{
    static const char text[] = "/a,/b\n\"/c,/d\n/e,/f\n/g,\"/h\"\n/i,/j\n";
    test_map *map = test_map_load("m.csv", text, "");

    test_map_expect(map, "/a", "302 /b");
    test_map_expect(map, "/e", "302 /f");
    test_map_expect(map, "/g", "302 /h");
    test_map_expect(map, "/i", "302 /j");
    ck_assert_uint_eq(map->report.errors, 1);
    test_map_free(map);
}
END_TEST

/* --- sources ---------------------------------------------------------------------------------- */

static const one source_cases[] = {
    {"http://H.example/a /b", "", "http://h.example/a", "302 /b"},
    {"http://h.example/a /b", "", "https://h.example/a", "none"},
    {"HTTPS://h.example:443/a /b", "", "https://h.example/a", "302 /b"},
    {"//h.example/a /b", "", "https://h.example/a", "302 /b"},
    {"//h.example:8080/a /b", "", "http://h.example/a", "302 /b"},
    {"//h.example /b", "", "http://h.example/", "302 /b"},
    {"//h.example./a /b", "", "http://h.example/a", "302 /b"},
    {"http://h.example?x=1 /b", "", "http://h.example/?x=1", "302 /b"},
    {"//*.example/a /b", "", "http://h.example/a", "302 /b"},
    {"//[2001:DB8::1]:80/a /b", "", "http://[2001:db8::1]/a", "302 /b"},
    {"//h.example/a /b", "host=other.example", "http://h.example/a", "302 /b"},
    {"/a /b", "host=h.example", "http://h.example/a", "302 /b"},
    {"/a /b", "host=h.example", "http://other.example/a", "none"},
    {"a/b /c", "", "/a/b", "302 /c"},
    {"/a%20%C3%a4 /c", "", "/a%20\xC3\xA4", "302 /c"},
    {"/a\xC3\xA4 /c", "", "/a%C3%A4", "302 /c"},
    {"/a%2fb /c", "", "/a%2Fb", "302 /c"},
    {"/a%2fb /c", "", "/a/b", "none"},
    {"/x/../a/./b /c", "", "/a/b", "302 /c"},
    {"/x/.. /c", "", "/", "302 /c"},
    {"/a/..b/.c/... /d", "", "/a/..b/.c/...", "302 /d"},
    {"/%2e%2e/a/%2E%2e /c", "", "/", "none"},
    {"/a//b /c", "", "/a/b", "302 /c"},
    {"/a /c", "", "//h///a", "302 /c"},
    {"/a#frag /c", "", "/a", "302 /c"},
    {"/a /b subpath=on", "", "/a/x/y", "302 /b/x/y"},
    {"/a/ /b subpath=on", "", "/a", "302 /b"},
    {"/a /b/ subpath=on", "", "/a/x", "302 /b/x"},
    {"/a /b subpath=on", "", "/ab", "none"},
    {"/a /b?x=1#y subpath=on", "", "/a/r%20s?q", "302 /b/r%20s?x=1#y"},
    {"/ https://n.example subpath=on", "", "/.evil.example", "302 https://n.example/.evil.example"},
    {"/ https://n.example?x subpath=on", "", "/r", "302 https://n.example/r?x"},
    {"/ / subpath=on", "", "//h//evil.example/x", "302 /evil.example/x"},
    {"/a / subpath=on", "", "/a//evil.example/x", "302 /evil.example/x"},
    {"/a / subpath=on", "", "/a/%5Cevil.example", "302 /%5cevil.example"},
    {"/a /b subpath=on", "", "/a/%3Fx%0D%0A", "302 /b/%3fx%0d%0a"},
};

START_TEST(sources)
{
    expect_all("m.txt", source_cases, COUNT_OF(source_cases));
}
END_TEST

static const wrong source_wrongs[] = {
    {"ftp://h/a /b", "E1 the source's scheme is 'ftp'", 0},
    {"http:///a /b", "E1 the source cannot be used: its host is missing", 0},
    {"http://u@h/a /b", "E1 the source cannot be used: it names a user", 0},
    {"http://u:p@h/a /b", "E1 the source cannot be used: it names a user", 0},
    {"http://h:x/a /b", "E1 the source cannot be used: its port", 0},
    {"http://h:70000/a /b", "E1 the source cannot be used: its port", 0},
    {"http://b\xC3\xBC.example/ /b", "E1 the source cannot be used: its host", 0},
    {"/a% /b", "E1 the source cannot be used: '%'", 0},
    {"/a%4 /b", "E1 the source cannot be used: '%'", 0},
    {"/a%zz /b", "E1 the source cannot be used: '%'", 0},
    {"/a%00 /b", "E1 the source cannot be used: %00", 0},
    {"/../a /b", "E1 the source leads above '/'", 0},
    {"/a#f /b", "W1 the source's fragment '#f'", 1},
    {"//h:8080/a /b\n//h:81/b /b", "N1 2 sources named a port", 2},
    {"/x/../a /b", "N1 1 sources had", 1},
    {"a /b", "N1 1 sources did not begin", 1},
};

START_TEST(sources_that_are_wrong)
{
    expect_said("m.txt", source_wrongs, COUNT_OF(source_wrongs));
}
END_TEST

START_TEST(long_sources_and_targets)
{
    char *bytes = malloc(300000);
    size_t n = 0;
    test_map *map;

    ck_assert_ptr_nonnull(bytes);
    for (size_t len = REDIRECT_MAX_TEXT - 2; len < REDIRECT_MAX_TEXT + 2; len++) {
        /* a source of len bytes, then a target */
        n = 0;
        bytes[n++] = '/';
        memset(bytes + n, 's', len - 1);
        n += len - 1;
        n += (size_t)(apr_cpystrn(bytes + n, " /t\n/a /", 9) - (bytes + n));
        memset(bytes + n, 't', len - 1);
        n += len - 1;
        bytes[n++] = '\n';
        map = test_map_load_bytes("m.txt", bytes, n, "");
        ck_assert_uint_eq(map->report.rows, (len < REDIRECT_MAX_TEXT) + (len <= REDIRECT_MAX_TEXT));
        ck_assert_uint_eq(map->report.errors, 2 - map->report.rows);
        test_map_free(map);
    }
    free(bytes);
}
END_TEST

/* --- targets ---------------------------------------------------------------------------------- */

static const one target_cases[] = {
    {"/a https://h.example", "", "/a", "302 https://h.example"},
    {"/a HTTP://H.example:8080?x#y", "", "/a", "302 HTTP://H.example:8080?x#y"},
    {"/a https://u:p@h.example/{x}|^`<>\"", "", "/a", "302 https://u:p@h.example/{x}|^`<>\""},
    {"/a https://[::1]:80/%2f", "", "/a", "302 https://[::1]:80/%2f"},
    {"/a ftp://h/x", "", "/a", "302 ftp://h/x"},
    {"/a app://", "", "/a", "302 app://"},
    {"/a \"/b c\"", "", "/a", "302 /b%20c"},
    {"/a /\xC3\xA4%41", "", "/a", "302 /%C3%A4%41"},
    {"/a /$1", "", "/a", "302 /$1"},
    {"/a /", "", "/a", "302 /"},
};

START_TEST(targets)
{
    expect_all("m.txt", target_cases, COUNT_OF(target_cases));
}
END_TEST

static const wrong target_wrongs[] = {
    {"/a b", "E1 the target 'b' cannot be used: it is neither", 0},
    {"/a //h/x", "E1 the target '//h/x'", 0},
    {"/a /\\h/x", "E1 the target '/\\h/x'", 0},
    {"/a mailto:x", "E1 the target 'mailto:x'", 0},
    {"/a http://", "E1 the target 'http://' cannot be used: its host is missing", 0},
    {"/a http:///x", "E1 the target 'http:///x' cannot be used: its host is missing", 0},
    {"/a http://:80/", "E1 the target 'http://:80/' cannot be used: its host is missing", 0},
    {"/a http://h:0/", "E1 the target 'http://h:0/' cannot be used: its port", 0},
    {"/a http://h:65536/", "E1 the target 'http://h:65536/' cannot be used: its port", 0},
    {"/a http://h:8x/", "E1 the target", 0},
    {"/a http://h\\@e/", "E1 the target", 0},
    {"/a \"http://h e/\"", "E1 the target", 0},
    {"/a http://\xC3\xA4.example/", "E1 the target", 0},
    {"/a http://[::1/", "E1 the target", 0},
    {"/a ://h/", "E1 the target", 0},
    {"/a 1x://h/", "E1 the target", 0},
    {"/a /%", "E1 the target cannot be used: '%'", 0},
    {"/a /%g0", "E1 the target cannot be used: '%'", 0},
    {"/a \"/b c\"\n/d /\xFF", "N1 2 targets had blanks", 2},
};

START_TEST(targets_that_are_wrong)
{
    expect_said("m.txt", target_wrongs, COUNT_OF(target_wrongs));
}
END_TEST

/* --- queries ---------------------------------------------------------------------------------- */

static const one query_cases[] = {
    {"/a /b", "", "/a?x=1", "302 /b?x=1"},
    {"/a /b", "", "/a?", "302 /b?"},
    {"/a /b#f", "", "/a?x=1", "302 /b?x=1#f"},
    {"/a /b?y", "", "/a?x=1", "302 /b?y"},
    {"/a /b#f?", "", "/a?x=1", "302 /b?x=1#f?"},
    {"/a https://h", "", "/a?x=1", "302 https://h?x=1"},
    {"/a?x=1&y=2 /b", "", "/a?y=2&x=1", "302 /b"},
    {"/a?x=1 /b", "", "/a?x=1&y=2", "none"},
    {"/a?x=1 /b", "", "/a", "none"},
    {"/a?x=%7e%2f%41 /b", "", "/a?x=~%2FA", "302 /b"},
    {"\"/a?x=1 \xC3\xA4\" /b", "", "/a?x=1%20%c3%a4", "302 /b"},
    {"/a /all\n/a?x=1 /b", "", "/a?x=1", "302 /b"},
    {"/a /all\n/a?x=1 /b", "", "/a?x=2", "302 /all?x=2"},
    {"/a /b", "query=drop", "/a?x=1", "302 /b"},
    {"/a?x=1 /b", "query=drop", "/a?x=1", "302 /b"},
    {"/a /b", "query=exact", "/a", "302 /b"},
    {"/a /b", "query=exact", "/a?x=1", "none"},
    {"/a?x=1&y=2 /b", "query=exact", "/a?x=1&y=2", "302 /b"},
    {"/a?x=1&y=2 /b", "query=exact", "/a?y=2&x=1", "none"},
    {"/a?x=1 /b", "query=ignore", "/a?y=2", "302 /b?y=2"},
    {"/a?x=1 /b query=ignore\n/a?y=2 /c", "", "/a?y=2", "302 /c"},
    {"/a /b", "strip=utm_*,gclid", "/a?utm_x=1&k=v&gclid=3", "302 /b?k=v"},
    {"/a /b", "strip=utm_*,gclid", "/a?utm_x=1&gclid=3", "302 /b"},
    {"/a /b", "strip=utm_*,gclid", "/a?gclidx=1&utm_", "302 /b?gclidx=1"},
    {"/a?k=v /b", "strip=utm_*", "/a?k=v&utm_source=x", "302 /b"},
    {"/a /b strip=*", "", "/a?x&y", "302 /b"},
};

START_TEST(queries)
{
    expect_all("m.txt", query_cases, COUNT_OF(query_cases));
}
END_TEST

START_TEST(queries_have_one_form)
{
    static const struct {
        const char *from, *to;
    } cases[] = {{"", ""},       {"a=b", "a=b"}, {"%61%7E%5f", "a~_"},  {"%2f%Ff", "%2F%FF"},
                 {"%", "%"},     {"%4", "%4"},   {"%zz%41", "%zzA"},    {"%%41", "%A"},
                 {"%00", "%00"}, {"a+b", "a+b"}, {"%25%34%31", "%2541"}};
    char to[64];

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t n = redirect_query_normalize(cases[i].from, strlen(cases[i].from), to);

        ck_assert_msg(n == strlen(cases[i].to) && !memcmp(to, cases[i].to, n), "%s", cases[i].from);
        apr_cpystrn(to, cases[i].from, sizeof(to));
        ck_assert_uint_eq(redirect_query_normalize(to, strlen(to), to), n);
    }
}
END_TEST

START_TEST(no_request_can_put_a_line_end_into_a_location)
{
    static const char query[] = "x=\r\nSet-Cookie: a \x01\xFF";
    test_map *map = test_map_load("m.txt", "/a /b", "");
    redirect_request request = {.path = "/a", .path_len = 2};
    redirect_match match;
    bool refused;

    ck_assert(redirect_table_lookup(map->table, &request, 0, &match));
    request.query = query;
    request.query_len = sizeof(query) - 1;
    ck_assert_str_eq(redirect_map_location(&match, &request, NULL, 0, map->pool, &refused),
                     "/b?x=%0D%0ASet-Cookie:%20a%20%01%FF");
    test_map_free(map);
}
END_TEST

/* --- reports ---------------------------------------------------------------------------------- */

START_TEST(reports_are_counted_without_a_function)
{
    redirect_report report = {0};
    redirect_map_options options;
    apr_pool_t *pool;
    void *image;
    size_t size;
    static const char text[] = "/a /b\n/a /c\n/d\n/e e\n";

    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&options);
    ck_assert_int_eq(
        redirect_map_build(&options, "m.txt", text, sizeof(text) - 1, &report, pool, &image, &size),
        APR_SUCCESS);
    ck_assert_uint_eq(report.rows, 2);
    ck_assert_uint_eq(report.errors, 2);
    ck_assert_uint_eq(report.warnings, 1);
    ck_assert_uint_eq(report.duplicates, 1);
    free(image);
    apr_pool_destroy(pool);
}
END_TEST

START_TEST(messages_are_printable)
{
    /* the helper looks at each byte of them */
    test_map *map =
        test_map_load("m.txt",
                      "/a x\x1B[31m\xC2\x9B\n/b \xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n/c "
                      "\xED\xA0\x80\xFF\xC0\xAF\n/d y",
                      "");

    ck_assert_uint_eq(map->report.errors, 4);
    ck_assert_ptr_nonnull(strstr(map->log, "'\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80'"));
    ck_assert_ptr_nonnull(strstr(map->log, "'\\xed\\xa0\\x80\\xff\\xc0\\xaf'"));
    test_map_free(map);
    map = test_map_load("m.txt", "/a /b zz\x01", "");
    ck_assert_ptr_nonnull(strstr(map->log, "'zz\\x01'"));
    test_map_free(map);
}
END_TEST

static bool stop(void *baton, uint64_t done, uint64_t total)
{
    uint64_t *calls = baton;

    ck_assert_uint_le(done, total);
    return ++*calls < 3;
}

/* --- URLs as httpd reads them ------------------------------------------------------------------
 */

typedef struct url_case {
    const char *url;
    redirect_slashes slashes;
    bool keep_runs;
    const char *path; /* NULL: httpd answers `status` itself */
    int status;
} url_case;

START_TEST(urls_are_read_as_httpd_reads_them)
{
    static const url_case cases[] = {
        {"/a;b", REDIRECT_SLASHES_OFF, false, "/a;b", 0},
        {"http://h", REDIRECT_SLASHES_OFF, false, "/", 0},
        {"http://h?q", REDIRECT_SLASHES_OFF, false, "/", 0},
        {"/a//b///", REDIRECT_SLASHES_OFF, false, "/a/b/", 0},
        {"/a//b///", REDIRECT_SLASHES_OFF, true, "/a//b///", 0},
        {"//h///a//b", REDIRECT_SLASHES_OFF, true, "/a//b", 0},
        {"/b//./b", REDIRECT_SLASHES_OFF, true, "/b//b", 0},
        {"/b//../c", REDIRECT_SLASHES_OFF, true, "/b/c", 0},
        {"/b//../c", REDIRECT_SLASHES_OFF, false, "/c", 0},
        {"/a/.%2e/b", REDIRECT_SLASHES_OFF, false, "/b", 0},
        {"/a/%2E%2e", REDIRECT_SLASHES_OFF, false, "/", 0},
        {"/a/%252e%252e/b", REDIRECT_SLASHES_OFF, false, "/a/%2e%2e/b", 0},
        {"/%61%7e%3B%3f", REDIRECT_SLASHES_OFF, false, "/a~;?", 0},
        {"/...", REDIRECT_SLASHES_OFF, false, "/...", 0},
        {"/..", REDIRECT_SLASHES_OFF, false, NULL, 400},
        {"/a/../..", REDIRECT_SLASHES_ON, false, NULL, 400},
        {"/a%", REDIRECT_SLASHES_OFF, false, NULL, 400},
        {"/a%zz", REDIRECT_SLASHES_ON, false, NULL, 400},
        {"/a%4", REDIRECT_SLASHES_ON, false, NULL, 400},
        {"/a%00", REDIRECT_SLASHES_NODECODE, false, NULL, 404},
        {"/a%2fb", REDIRECT_SLASHES_OFF, false, NULL, 404},
        {"/a%2fb", REDIRECT_SLASHES_ON, false, "/a/b", 0},
        {"/a%2f%2fb", REDIRECT_SLASHES_ON, false, "/a/b", 0},
        {"/a%2f%2fb", REDIRECT_SLASHES_ON, true, "/a//b", 0},
        {"/a%2f..%2fb", REDIRECT_SLASHES_ON, false, "/b", 0},
        {"/..%2fb", REDIRECT_SLASHES_ON, false, "/b", 0},
        {"/a%2f..%2fb", REDIRECT_SLASHES_NODECODE, false, "/a%2f..%2fb", 0},
        {"/a%2Fb%20", REDIRECT_SLASHES_NODECODE, false, "/a%2Fb ", 0},
        {"a/b", REDIRECT_SLASHES_OFF, false, NULL, 0},
        {"http://u@h/", REDIRECT_SLASHES_OFF, false, NULL, 0},
    };
    redirect_request request;
    apr_pool_t *pool;

    apr_initialize();
    apr_pool_create(&pool, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const url_case *c = &cases[i];
        redirect_server server = {c->slashes, c->keep_runs};
        int status;
        const char *why = redirect_request_of(c->url, &server, &request, &status, pool);

        ck_assert_msg(!why == !!c->path, "%s: %s", c->url, why ? why : request.path);
        ck_assert_msg(status == c->status, "%s: %d", c->url, status);
        if (c->path)
            ck_assert_msg(!strcmp(request.path, c->path), "%s: %s", c->url, request.path);
    }
    ck_assert_str_eq(redirect_escape_path(pool, "/a;b c%?#\"\xe9~$'(),:@&=+!*-_."),
                     "/a;b%20c%25%3f%23%22%e9~$'(),:@&=+!*-_.");
    apr_pool_destroy(pool);
    apr_terminate();
}
END_TEST

/* --- what patterns may take ------------------------------------------------------------------- */

START_TEST(a_budget_ends_with_its_steps)
{
    redirect_budget b;
    int runs = 0;

    redirect_budget_init(&b, 10, 1000000);
    for (; redirect_budget_left(&b); runs++)
        redirect_budget_charge(&b, 3);
    ck_assert_int_eq(runs, 4);
    redirect_budget_begin(&b);
    ck_assert_msg(!redirect_budget_left(&b), "another look-up does not fill it");
    redirect_budget_init(&b, 10, 0);
    ck_assert_msg(!redirect_budget_left(&b), "no time is none from the start");
}
END_TEST

/* Runs that are each shorter than a tick are charged, too; else this does not end. */
START_TEST(a_budget_ends_with_its_time)
{
    redirect_budget b;

    for (int begin = 0; begin < 2; begin++) {
        redirect_budget_init(&b, 10, 30);
        while (redirect_budget_left(&b)) {
            if (begin)
                redirect_budget_begin(&b);
            for (volatile int i = 0; i < 1000; i++) {
            }
        }
        ck_assert_uint_eq(b.steps, 10);
    }
}
END_TEST

START_TEST(a_slow_pattern_does_not_match)
{
    apr_pool_t *pool;
    map_regexes *regexes;
    char path[64] = "/";
    int tried = 0;

    if (!map_regexes_available())
        return;
    apr_pool_create(&pool, NULL);
    regexes = map_regexes_create(pool);
    memset(path + 1, 'a', 40);
    ck_assert(map_regexes_match(regexes, 0, "^/a+", 0, path, strlen(path)));
    map_regexes_budget(regexes, 3 * REDIRECT_PATTERN_STEPS, 1000000);
    for (; !map_regexes_out_of_budget(regexes); tried++)
        ck_assert(!map_regexes_match(regexes, 1, "^/(?:a|aa)+[!?]|^/a", 0, path, strlen(path)));
    ck_assert_int_eq(tried, 4);
    ck_assert_msg(!map_regexes_match(regexes, 0, "^/a+", 0, path, strlen(path)), "nothing is left");
    apr_pool_destroy(pool);
}
END_TEST

START_TEST(work_can_be_stopped)
{
    size_t len = (size_t)8 << 20, n = 0;
    char *text = malloc(len);
    uint64_t calls = 0;
    redirect_report report = {.progress = stop, .baton = &calls};
    redirect_map_options options;
    apr_pool_t *pool;
    void *image;
    size_t size;

    ck_assert_ptr_nonnull(text);
    while (n + 32 < len)
        n += (size_t)apr_snprintf(text + n, 32, "/a%zu /b\n", n);
    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&options);
    ck_assert_int_eq(redirect_map_build(&options, "m.txt", text, n, &report, pool, &image, &size),
                     APR_EINTR);
    ck_assert_ptr_null(image);
    ck_assert_uint_eq(calls, 3);
    apr_pool_destroy(pool);
    free(text);
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

static TCase *tcase(const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    return tc;
}

static Suite *map_suite(void)
{
    Suite *s = suite_create("redirect maps");
    TCase *tc = tcase("options");

    tcase_add_test(tc, options_are_understood);
    tcase_add_test(tc, wrong_options_are_refused);
    tcase_add_test(tc, formats_are_known_by_name_and_content);
    tcase_add_test(tc, what_is_no_map_is_refused);
    suite_add_tcase(s, tc);
    tc = tcase("text and CSV");
    tcase_add_test(tc, text_rows);
    tcase_add_test(tc, text_rows_that_are_wrong);
    tcase_add_test(tc, nul_bytes_are_errors);
    tcase_add_test(tc, csv_rows);
    tcase_add_test(tc, csv_rows_that_are_wrong);
    tcase_add_test(tc, csv_goes_on_behind_a_quote_that_is_not_closed);
    suite_add_tcase(s, tc);
    tc = tcase("rows");
    tcase_add_test(tc, sources);
    tcase_add_test(tc, sources_that_are_wrong);
    tcase_add_test(tc, long_sources_and_targets);
    tcase_add_test(tc, targets);
    tcase_add_test(tc, targets_that_are_wrong);
    tcase_add_test(tc, queries);
    tcase_add_test(tc, queries_have_one_form);
    tcase_add_test(tc, no_request_can_put_a_line_end_into_a_location);
    suite_add_tcase(s, tc);
    tc = tcase("reports");
    tcase_add_test(tc, reports_are_counted_without_a_function);
    tcase_add_test(tc, messages_are_printable);
    tcase_add_test(tc, work_can_be_stopped);
    tcase_add_test(tc, urls_are_read_as_httpd_reads_them);
    tcase_add_test(tc, a_budget_ends_with_its_steps);
    tcase_add_test(tc, a_budget_ends_with_its_time);
    tcase_add_test(tc, a_slow_pattern_does_not_match);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(map_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
