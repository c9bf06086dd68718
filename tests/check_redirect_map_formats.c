/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the formats of redirect maps that other servers have: _redirects, nginx maps,
 * Vercel's JSON. What can be had answers as it would there, what cannot is named by line. Run by
 * 'make check'.
 */
#include "redirect_map_util.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct one {
    const char *map, *url, *answer;
} one;

/* Whether a row needs a regex is seen from the reports of the build without them. */
static void expect_all(const char *name, const one *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        test_map *map = test_map_load(name, cases[i].map, "");
        redirect_table_info info;

        ck_assert_msg(map->rv == APR_SUCCESS, "not read: %s\n%s", cases[i].map, map->log);
        redirect_table_info_get(map->table, &info);
        if (!info.pattern || test_map_has_regexes())
            test_map_expect(map, cases[i].url, cases[i].answer);
        test_map_free(map);
    }
}

typedef struct wrong {
    const char *map, *said;
    unsigned rows;
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

/* How many patterns does the table have? */
static unsigned patterns(const char *name, const char *text)
{
    test_map *map = test_map_load(name, text, "");
    redirect_table_info info;

    redirect_table_info_get(map->table, &info);
    test_map_free(map);
    return info.pattern;
}

/* --- _redirects ------------------------------------------------------------------------------- */

static const one netlify_cases[] = {
    {"/a /b", "/a", "301 /b"},
    {"# c\n/a /b 302! # why\r\n", "/a", "302 /b"},
    {"/a /b", "/a?x=1", "301 /b?x=1"},
    {"/n/* /b/:splat", "/n/x/y", "301 /b/x/y"},
    {"/n/* /b/:splat", "/n", "301 /b/"},
    {"/n/* /b/:splat", "/nx", "none"},
    {"/n/* https://h/:splat 302", "/n/x?q", "302 https://h/x?q"},
    {"/* https://h/:splat", "/", "301 https://h/"},
    {"/* https://h/:splat", "//g//e.example", "301 https://h/e.example"},
    {"/n/* /b", "/n/x/y", "301 /b"},
    {"/n/* /b/:splat/c", "/n/x/y", "301 /b/x/y/c"},
    {"/n/* /b/:splat/c", "/n", "301 /b//c"},
    {"/n/* /b?p=:splat", "/n/x/y&z=1", "301 /b?p=x/y%26z%3D1"},
    {"/n.x/*/e /b/:splat", "/n.x/1/2/e", "301 /b/1/2"},
    {"/n.x/*/e /b/:splat", "/nyx/1/2/e", "none"},
    {"/y/:year/:t.html /p/:t-:year", "/y/2020/a.html", "301 /p/a-2020"},
    {"/y/:year/:t /p/:t-:year", "/y/2020/a b", "301 /p/a%20b-2020"},
    {"/y/:year/:t /p/:t-:year", "/y/2020/a/b", "none"},
    {"/y/:a /p:80/:a", "/y/x", "301 /p:80/x"},
    {"/y/:a /p/$1", "/y/x", "301 /p/$1"},
    {"/y/:a /p/$1/:a", "/y/x", "301 /p/%241/x"},
    {"/y/:a https://h:80/:a", "/y/x", "301 https://h:80/x"},
    {"/y/T:foo /p/:T", "/y/T:foo", "301 /p/:T"},
    {"/%C3%A4(b)/:x /p/:x", "/\xC3\xA4(b)/c", "301 /p/c"},
    {"/s id=5 /p", "/s?id=5", "301 /p"},
    {"/s id=5 k=v /p 302", "/s?k=v&id=5", "302 /p"},
    {"/s id=5 /p", "/s?id=6", "none"},
    {"http://b.example/* https://w.example/b/:splat 301!", "http://b.example/x",
     "301 https://w.example/b/x"},
    {"http://b.example/* https://w.example/b/:splat 301!", "http://c.example/x", "none"},
    {"/a/* /first\n/a/x?y=1 /second", "/a/x?y=1", "301 /first?y=1"}, /* the order is kept */
    {"/p/:x /:x", "/p//g", "none"},
    {"/p/* /:splat", "//h/p//g", "301 /g"},
    {"/p/*/q /:splat", "/p//g/q", "refused"},
    {"/gone - 410", "/gone", "none"},
};

START_TEST(netlify_rows)
{
    expect_all("_redirects", netlify_cases, COUNT_OF(netlify_cases));
    ck_assert_uint_eq(patterns("_redirects", "/n/* /b/:splat\n/* https://h/:splat 302\n/c/* /d"),
                      0);
    ck_assert_uint_eq(patterns("_redirects", "/n/*/x /b/:splat\n/:a /b"), 2);
}
END_TEST

static const wrong netlify_wrongs[] = {
    {"/a", "E1 the target is missing", 0},
    {"/a x=1", "E1 the target is missing", 0},
    {"/s id=:id /b/:id", "E1 'id=:id' would take", 0},
    {"/ok /b\n/* /index.html 200", "E2 status 200 would serve", 1},
    {"/a https://x/ 200!", "E1 status 200", 0},
    {"/* /404.html 404", "E1 status 404 has no target", 0},
    {"/ /de 302 Role=de", "E1 the condition 'Role=de'", 0},
    {"/ /de Role=de", "E1 the condition 'Role=de'", 0},
    {"/a /b 301!x", "E1 '301!x' is neither a status nor a condition", 0},
    {"/h/:h https://:h/", "E1 the target 'https://$1/' cannot be used: its scheme and host", 0},
    {"/h/* https://x.:splat", "E1 the target", 0},
    {"/h/* :splat", "E1 the target", 0},
    {"/h /x/:splat", "N1 1 rows had no", 1},
    {"/h/:a /x/:b", "E1 the target has ':b'", 0},
    {"/*/* /x", "E1 the source has 'splat' twice", 0},
    {"/:a/:a /x", "E1 the source has 'a' twice", 0},
    {"/:a/:b/:c/:d/:e/:f/:g/:h/:i/:j /x", "E1 more than 9", 0},
    {"/a/./:b /x", "E1 a source with a splat", 0},
    {"/:b/%00 /x", "E1 the source cannot be used", 0},
    {"/a?x=1 y=2 /b", "E1 the source has a query and", 0},
};

START_TEST(netlify_rows_that_are_wrong)
{
    expect_said("_redirects", netlify_wrongs, COUNT_OF(netlify_wrongs));
}
END_TEST

/* --- nginx ------------------------------------------------------------------------------------ */

static const one nginx_cases[] = {
    {"map $uri?$args $n { \"/a?id=1\" /b; }", "/a?id=1", "302 /b"},
    {"map $uri?$args $n { \"/a?id=1\" /b; }", "/A?id=1", "302 /b"},
    {"map $uri?$args $n { \"/a?id=1\" /b; }", "/a?id=1&x=2", "none"},
    {"map $uri?$args $n { \"/a?\" /b; }", "/a", "302 /b"},
    {"map $uri?$args $n { \"/a?\" /b; }", "/a?id=1", "none"},
    {"map $uri?$args $n { \"~^/a\\\\?id=1$\" /b; }", "/a?id=1", "302 /b"},
    {"map $uri?$args $n { \"~^/a\\\\?id=1$\" /b; }", "/A?id=1", "none"},
    {"map $uri $n { /a /c; }\nmap $uri?$args $n { \"~^/a\\\\?id=1$\" /b; }", "/a?id=1", "302 /b"},
    {"map $host$uri?$args $n { \"h.example/a?id=1\" /b; }", "http://h.example/a?id=1", "302 /b"},
    {"map $host$uri $n { \"~^h\\\\.example/a/(.*)$\" /b/$1; }", "http://h.example/a/x", "302 /b/x"},
    {"map $host$uri $n { \"~^h\\\\.example/a/(.*)$\" /b/$1; }", "http://g.example/a/x", "none"},
    {"map $host$uri $n { \"~^[^/]+\\\\.h\\\\.example/a$\" /b; }", "http://x.h.example/a", "302 /b"},
    {"map $scheme://$host$uri $n { \"~^https://h\\\\.example/a$\" /b; }", "https://h.example/a",
     "302 /b"},
    {"map $scheme://$host$uri $n { \"~^https://h\\\\.example/a$\" /b; }", "http://h.example/a",
     "none"},
    {"map $scheme://$host$uri $n { \"http://h.example/a\" /b; }", "http://h.example/A", "302 /b"},
    {"map $scheme://$host$uri?$args $n { \"http://h.example/a?x=1\" /b; }",
     "http://h.example/a?x=1", "302 /b"},
    {"/a /b;", "/a", "302 /b"},
    {"/a /b;", "/A", "302 /b"},
    {"map $uri $new { /a /b; }", "/a", "302 /b"},
    {"map $uri $new\n{\n # c\n /a\n  \"/b c\" ; # d\n}\n", "/a", "302 /b%20c"},
    {"map $uri $n { default /d; ~^/a /regex; /a /exact; }", "/a", "302 /exact"},
    {"map $uri $n { default /d; ~^/a /regex; /a /exact; }", "/ab", "302 /regex"},
    {"map $uri $n { default /d; ~^/a /regex; /a /exact; }", "/b", "302 /d"},
    {"map $uri $n { default ''; /a /b; }", "/c", "none"},
    {"map $uri $n { default 0; volatile; /a /b; }", "/c", "none"},
    {"map $request_uri $n { /a /b; }", "/a?x", "none"},
    {"map $request_uri $n { /a?x=1 /b; }", "/a?x=1", "302 /b"},
    {"map $uri $n { /a /b; }", "/a?x", "302 /b?x"},
    {"map $uri $n { /a /b$is_args$args; }", "/a?x", "302 /b?x"},
    {"map $host$uri $n { h.example/a /b; }", "//h.example/a", "302 /b"},
    {"map $host$uri $n { h.example/a /b; }", "//g.example/a", "none"},
    {"map $scheme://$host$request_uri $n { https://h.example/a?x /b; }", "https://h.example/a?x",
     "302 /b"},
    {"~^/o/(.*)$ /n/$1;", "/o/x/y z", "302 /n/x/y%20z"},
    {"~^/o/(.*)$ /n/$1;", "/O/x", "none"},
    {"~*^/o/(.*)$ /n/${1}0;", "/O/x", "302 /n/x0"},
    {"~^/(?<a>\\w+)/(?P<b>\\d+)$ https://h/$b/$a;", "/x/12", "302 https://h/12/x"},
    {"~*\\.php$ /new;", "/x/y.PHP", "302 /new"},
    {"\"~^/a{2}$\" /new;", "/aa", "302 /new"},
    {"~^/(a|b)[/(](x)$ /$2;", "/b(x", "302 /x"},
    {"~^/a|^/b /new;", "/b", "302 /new"},
    {"~^/x\\c(|/b /new;", "/b", "302 /new"},
    {"~^/x[[:a]b|/c] /new;", "/c]", "302 /new"},
    {"~^/x[[:alpha:]]+$ /new;", "/xy", "302 /new"},
    {"~^/x?y /new;", "/y", "302 /new"},
    {"~^/x*y /new;", "/y", "302 /new"},
    {"~^/x+y /new;", "/xxy", "302 /new"},
    {"~^/x\\.y$ /new;", "/x.y", "302 /new"},
    {"~^/x\\.y$ /new;", "/x.yz", "none"},
    {"~^/x\\.y /new;", "/x.yz", "302 /new"},
    {"~*^/Lit$ /new;", "/lIT", "302 /new"},
    {"'\\~x' /b;", "/~x", "302 /b"},
    {"\\default /b;", "/default", "302 /b"},
    {"'/a\\'b' \"/c\\\"d\";", "/a'b", "302 /c\"d"},
    {"/a\\;b /c;", "/a%5C;b", "302 /c"},
    {"map_hash_max_size 99;\nmap $uri $n { /a /b; }\nmap $uri $m { /c /d; }", "/c", "302 /d"},
    {"/a /all; /a?x=1 /one;", "/a?x=1", "302 /one"},
    {"~^/a/(.*)$ /$1;", "/a//evil.example", "refused"},
    {"~^/a/(.*)$ /$1;", "/a/%5Cevil.example", "302 /%5cevil.example"},
    {"~^/a(.*)$ /n?u=$1;", "/a&b=c", "302 /n?u=%26b%3Dc"},
};

START_TEST(nginx_rows)
{
    expect_all("m.map", nginx_cases, COUNT_OF(nginx_cases));
    ck_assert_uint_eq(patterns("m.map", "~^/a$ /b;\n~^/c\\.d /e;\n~*^/F$ /g;"), 0);
    ck_assert_uint_eq(patterns("m.map", "~^/a(b)$ /c;\n~d /e;\n~^/f$ /$0;"), 2);
}
END_TEST

static const wrong nginx_wrongs[] = {
    {"/a;", "E1 a row must be", 0},
    {"/a /b /c;\n/d /e;", "E1 a row must be", 1},
    {"/a /b;\n/c $scheme://x/;", "E2 the target has '$scheme'", 1},
    {"/c https://$host/x;", "E1 the target has '$host'", 0},
    {"/c /x$1;", "E1 the target has '$1'", 0},
    {"~^/(.*) https://$1/;", "E1 the target 'https://$1/'", 0},
    {"~^/(.*) https://h$1;", "E1 the target", 0},
    {"~^/(.*) $1;", "E1 the target", 0},
    {"map $uri $n { hostnames; /a /b; }", "E1 'hostnames'", 1},
    {"map $uri $n { include x.map; /a /b; }", "E1 'include' is not followed; load the file 'x.map'",
     1},
    {"map $host $n { a.example /b; }\n/c /d;", "E1 a map of '$host'", 1},
    {"geo $x {\n 1.2.3.4 y;\n { }\n}\n/a /b;", "E1 'geo {'", 1},
    {"map $uri $n { /a ''; }", "E1 an empty target", 0},
    {"map $host$uri $n { ~x /b; }", "E1 a regex on host and path must begin with a host", 0},
    {"map $host$request_uri $n { ~^h/x /b; }", "E1 a regex on host, path and query", 0},
    {"map $host$uri $n { ~^h.example/x /b; }", "E1 a regex on host and path must begin", 0},
    {"map $host$uri $n { \"~^h/x|y\" /b; }", "E1 a regex on host and path must begin", 0},
    {"map $scheme://$host$uri $n { ~^h/x /b; }", "E1 a regex on host and path must begin", 0},
    {"map $uri?$args $n { \"~^/a\\\\?id=(.*)$\" /b; }", "E1 a regex on path and query must be", 0},
    {"~ /b;", "E1 the regex is empty", 0},
    {"map $request_uri $n {\n~^/a(.) /b;\n}", "N2 regexes on $request_uri", 1},
};

START_TEST(nginx_rows_that_are_wrong)
{
    expect_said("m.map", nginx_wrongs, COUNT_OF(nginx_wrongs));
    if (test_map_has_regexes()) {
        static const wrong bad[] = {{"~^/(a /b;", "E1 the pattern cannot be compiled", 0}};

        expect_said("m.map", bad, 1);
    }
}
END_TEST

START_TEST(broken_nginx_files_are_refused)
{
    static const char *const broken[] = {"map $uri $n { /a /b;", "/a /b;\n/c", "/a '/b;\n",
                                         "/a /b; }", "map $uri $n { /a /b }"};

    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        test_map *map = test_map_load("m.txt", broken[i], "format=nginx");

        ck_assert_msg(map->rv == APR_EGENERAL, "%s", broken[i]);
        ck_assert_uint_eq(map->report.errors, 1);
        test_map_free(map);
    }
}
END_TEST

/* --- JSON ------------------------------------------------------------------------------------- */

#define ROW(s, d, more)    "{\"source\":\"" s "\",\"destination\":\"" d "\"" more "}"
#define BULK(s, d, more)   "[" ROW(s, d, more) "]"
#define CONFIG(s, d, more) "{\"redirects\":[" ROW(s, d, more) "]}"

static const one json_cases[] = {
    {BULK("/a", "/b", ""), "/a", "307 /b"},
    {BULK("/a", "/b", ""), "/A", "307 /b"},
    {BULK("/a", "/b", ",\"caseSensitive\":true"), "/A", "none"},
    {BULK("/a", "/b", ",\"sensitive\":true"), "/A", "none"},
    {BULK("/a", "/b", ""), "/a?x", "307 /b"},
    {BULK("/a", "/b", ",\"query\":true"), "/a?x", "307 /b?x"},
    {BULK("/a", "/b", ",\"preserveQueryParams\":true"), "/a?x", "307 /b?x"},
    {BULK("/a", "/b", ",\"permanent\":true"), "/a", "308 /b"},
    {BULK("/a", "/b", ",\"permanent\":true,\"statusCode\":303"), "/a", "303 /b"},
    {BULK("/a", "/b", ",\"permanent\":null,\"statusCode\":\"301\""), "/a", "301 /b"},
    {BULK("/a_(b)", "/b", ""), "/a_(b)", "307 /b"},
    {BULK("https://h.example/a", "/b", ""), "https://h.example/a", "307 /b"},
    {" [ ] ", "/a", "none"},
    {ROW("/a", "/b", "") "\n" ROW("/c", "/d", "") "\n", "/c", "307 /d"},
    {BULK("\\/a\\u00e4\\ud83d\\ude00", "\\u002fb", ""), "/a\xC3\xA4\xF0\x9F\x98\x80", "307 /b"},
    {CONFIG("/a", "/b", ""), "/A", "none"},
    {CONFIG("/a", "/b", ""), "/a?x", "307 /b?x"},
    {"{\"x\":[1,{\"y\":[-0.5e+3,true,false,null,\"\\\"\"]}],\"redirects\":[" ROW("/a", "/b",
                                                                                 "") "],\"z\":{}}",
     "/a", "307 /b"},
    {CONFIG("/b/:s", "/n/:s", ""), "/b/x y", "307 /n/x%20y"},
    {CONFIG("/b/:s", "/n/:s", ""), "/b/x/y", "none"},
    {CONFIG("/b/:s", "/n/:s", ""), "/b/x/", "none"},
    {CONFIG("/b/:p*", "/n/:p*", ""), "/b/x/y", "307 /n/x/y"},
    {CONFIG("/b/:p*", "/n/:p*", ""), "/b", "307 /n/"},
    {CONFIG("/b/:p*", "/n/:p*", ""), "/bx", "none"},
    {CONFIG("/b/:p+", "/n/:p+", ""), "/b", "none"},
    {CONFIG("/b/:p?", "/n", ""), "/b", "307 /n"},
    {CONFIG("/b/:p?", "/n", ""), "/b/x/y", "none"},
    {CONFIG("/p/:n(\\\\d{2,})-:s", "/q/:s/:n", ""), "/p/12-x", "307 /q/x/12"},
    {CONFIG("/p/:n(\\\\d{2,})-:s", "/q/:s/:n", ""), "/p/1-x", "none"},
    {CONFIG("/p/(.*)/e", "/q/$1", ""), "/p/a/b/e", "307 /q/a/b"},
    {CONFIG("/p/:a-:b", "/q/:b/:a", ""), "/p/x-y-z", "307 /q/y-z/x"},
    {CONFIG("/p/:a-:b/:c", "/q/:b/:a", ""), "/p/x-y-z/c", "307 /q/y-z/x"},
    {CONFIG("/p/(a|b)?", "/q/$1", ""), "/p", "307 /q/"},
    {CONFIG("/p/(a|b)?", "/q/$1", ""), "/p/b", "307 /q/b"},
    {CONFIG("/p/(\\\\d)+", "/q/$1", ""), "/p/1/2", "307 /q/1/2"},
    {CONFIG("/p/((?:a|b)c)", "/q/$1$2", ""), "/p/bc", "307 /q/bc%242"},
    {CONFIG("/p.x/:a", "/q", ""), "/pyx/1", "none"},
    {CONFIG("/p\\\\(x\\\\)/:a", "/q", ""), "/p(x)/1", "307 /q"},
    {CONFIG("/%70/:a", "/q", ""), "/p/1", "307 /q"},
    {CONFIG("/a/:p*", "/:p*", ""), "/a//evil.example", "none"},
    {CONFIG("/a/(.*)", "/$1", ""), "/a//evil.example", "refused"},
};

START_TEST(json_rows)
{
    expect_all("m.json", json_cases, COUNT_OF(json_cases));
}
END_TEST

static const wrong json_wrongs[] = {
    {"[{\"source\":\"/a\"}]", "E1 no target", 0},
    {"[{\"destination\":\"/a\"}]", "E1 the source is missing", 0},
    {"[\n" ROW("/a", "/b", "") ",\n{\"source\":5,\"destination\":\"/b\"}]",
     "E3 'source' has the wrong", 1},
    {BULK("/a", "/b", ",\"permanent\":\"yes\""), "E1 'permanent' has", 0},
    {BULK("/a", "/b", ",\"statusCode\":1e3"), "E1 'statusCode' has", 0},
    {BULK("/a", "/b", ",\"statusCode\":200"), "E1 status 200", 0},
    {BULK("/a", "/b", ",\"has\":[{\"type\":\"host\"}]"), "E1 the condition 'has'", 0},
    {BULK("/a", "/b", ",\"missing\":[]"), "E1 the condition 'missing'", 0},
    {BULK("/a", "/b", ",\"owner\":\"me\""), "N1 'owner' is not used", 1},
    {BULK("/a/:b", "/b", ""), "E1 bulk redirects have no patterns", 0},
    {BULK("/a/(.*)", "/b", ""), "E1 bulk redirects have no patterns", 0},
    {BULK("/a\\u0000", "/b", ""), "E1 a control character", 0},
    {BULK("/a", "/b\\r\\nX: y", ""), "E1 a control character in the target", 0},
    {"{\"headers\":[],\n\"redirects\":[" ROW("/a", "/b", "") "]}", "N1 'headers' is not used", 1},
    {CONFIG("/a/:h", "https://:h/", ""), "E1 the target", 0},
    {CONFIG("/a/:h", "/:g", ""), "E1 the target has ':g'", 0},
    {CONFIG("/a{b}", "/c", ""), "E1 '{' in the source", 0},
    {CONFIG("/a?x=1", "/c", ""), "E1 '?' in the source", 0},
    {CONFIG("/a(b)*", "/c", ""), "E1 '*' is only possible", 0},
    {CONFIG("/a((b))", "/c", ""), "E1 '(' in the source", 0},
    {CONFIG("/a(b", "/c", ""), "E1 '(' in the source", 0},
    {CONFIG("a/:b", "/c", ""), "E1 a source with a pattern must begin", 0},
    {CONFIG("/:a/%0", "/c", ""), "E1 the source cannot be used", 0},
    {"{\"source\": \"/a\", \"destination\": \"/b\", \"redirects\": [" ROW("/c", "/d", "") "]}",
     "E1 an object with \"redirects\" is no redirect itself", 1},
};

START_TEST(json_rows_that_are_wrong)
{
    expect_said("m.json", json_wrongs, COUNT_OF(json_wrongs));
}
END_TEST

START_TEST(what_is_not_json_is_refused)
{
    static const char *const broken[] = {"",
                                         "x",
                                         "5",
                                         "[",
                                         "[{",
                                         "[{}",
                                         "[{},]",
                                         "[{}]x",
                                         "[5]",
                                         "[{\"a\"}]",
                                         "[{\"a\":}]",
                                         "[{\"a\":1,}]",
                                         "[{\"a\":01}]",
                                         "[{\"a\":-}]",
                                         "[{\"a\":1.}]",
                                         "[{\"a\":1e}]",
                                         "[{\"a\":tru}]",
                                         "[{\"a\":\"\\x\"}]",
                                         "[{\"a\":\"\\u12\"}]",
                                         "[{\"a\":\"\\ud800\"}]",
                                         "[{\"a\":\"\\ud800\\u0041\"}]",
                                         "[{\"a\":\"\\udc00\"}]",
                                         "[{\"a\":\"\n\"}]",
                                         "[{\"a\":\"",
                                         "[{\"a\":\"\\",
                                         "[{\"a\":[1,]}]",
                                         "[{\"a\":{\"b\":1 \"c\":2}}]",
                                         "[{'a':1}]",
                                         "{\"redirects\":[{}",
                                         "{\"redirects\":[{}]",
                                         ROW("/a", "/b", "") ",",
                                         "[{}] [{}]"};

    for (size_t i = 0; i < COUNT_OF(broken); i++) {
        test_map *map = test_map_load("m.json", broken[i], "");

        ck_assert_msg(map->rv == APR_EGENERAL, "taken: %s", broken[i]);
        ck_assert_ptr_nonnull(strstr(map->log, "not valid JSON: "));
        ck_assert_ptr_null(strstr(map->log, "(null)"));
        test_map_free(map);
    }
}
END_TEST

START_TEST(json_nests_as_deep_as_it_says)
{
    for (int depth = 60; depth < 70; depth++) {
        char text[400] = "[{\"x\":";
        size_t n = strlen(text);
        test_map *map;

        memset(text + n, '[', (size_t)depth);
        memset(text + n + depth, ']', (size_t)depth);
        apr_cpystrn(text + n + 2 * depth, ",\"source\":\"/a\",\"destination\":\"/b\"}]", 60);
        map = test_map_load("m.json", text, "");
        ck_assert_int_eq(map->rv, depth <= 62 ? APR_SUCCESS : APR_EGENERAL);
        test_map_free(map);
    }
}
END_TEST

static void setup(void)
{
    apr_initialize();
    if (!test_map_has_regexes())
        fputs("built without PCRE2: patterns are not run\n", stderr);
}

static void teardown(void)
{
    apr_terminate();
}

static Suite *formats_suite(void)
{
    Suite *s = suite_create("formats of redirect maps");
    TCase *tc = tcase_create("formats");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, netlify_rows);
    tcase_add_test(tc, netlify_rows_that_are_wrong);
    tcase_add_test(tc, nginx_rows);
    tcase_add_test(tc, nginx_rows_that_are_wrong);
    tcase_add_test(tc, broken_nginx_files_are_refused);
    tcase_add_test(tc, json_rows);
    tcase_add_test(tc, json_rows_that_are_wrong);
    tcase_add_test(tc, what_is_not_json_is_refused);
    tcase_add_test(tc, json_nests_as_deep_as_it_says);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(formats_suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
