/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what a file of redirects is taken for: httpd's own configuration, whatever stands
 * first in it, or a map; and sources that look like patterns in a format without them. Run by
 * 'make check'.
 */
#include "redirect_map_util.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *const heads[] = {"Include conf/x.conf",
                                    "Listen 80",
                                    "Define NAME value",
                                    "DocumentRoot /var/www",
                                    "Alias /icons /usr/share/icons",
                                    "Options -Indexes",
                                    "AddType text/x .x",
                                    "Header always set X-A b",
                                    "ErrorDocument 404 /missing.html",
                                    "FallbackResource /index.php",
                                    "ExpiresActive On",
                                    "AddDefaultCharset utf-8",
                                    "SetEnv NAME value",
                                    "Require all granted",
                                    "Order allow,deny",
                                    "php_value memory_limit 64M",
                                    "ServerAdmin a@example.com",
                                    "Protocols h2 http/1.1",
                                    "UseCanonicalName Off",
                                    "Use Macro one",
                                    "LogLevel warn",
                                    "ErrorLog /var/log/x.log",
                                    "HtCacheRedirectMap conf/x.txt",
                                    "SomeThirdPartys directive",
                                    "Header set X \\\n  /a/path"};

static const char *const lines[] = {
    "Redirect 301 /a /b",       "Redirect /a /b",
    "Redirect gone /a",         "redirect permanent \"/a\" https://h.example/",
    "RedirectMatch ^/a$ /b",    "RedirectPermanent /a /b",
    "  RewriteRule ^a$ /b [R]", "<Location /l>",
    "<VirtualHost *:80>\r"};

START_TEST(a_line_says_that_it_is_a_configuration)
{
    static const char *const names[] = {"x.conf", "htaccess.bak", "x.txt"};
    char text[200];

    for (size_t i = 0; i < COUNT_OF(heads) * COUNT_OF(lines) * COUNT_OF(names); i++) {
        const char *name = names[i % COUNT_OF(names)];

        strcpy(text, heads[i / COUNT_OF(names) % COUNT_OF(heads)]);
        strcat(text, "\n# why\n\n");
        strcat(text, lines[i / COUNT_OF(names) / COUNT_OF(heads)]);
        strcat(text, "\n");
        ck_assert_msg(redirect_map_is_httpd(name, text, strlen(text)), "%s: %s", name, text);
    }
}
END_TEST

static const struct {
    const char *name, *text;
    bool httpd;
} files[] = {
    {"t2.conf", "FallbackResource /index.php\nErrorLog /var/log/x.log\n", true},
    {"t2.conf",
     "\xEF\xBB\xBF"
     "AllowOverride None\nUnknownThing x\nListen 80\n",
     true},
    {"only.conf", "Include inc1.conf\n", true},
    {"x.conf", "Alias /x\nabout /about-us\nteam /team\n", false},
    {"x.txt", "about /about-us\nalias /x\ninclude /y\n", false},
    {"x.txt", "about /about-us\nredirect /new\n", false},
    {"x.txt", "about /about-us\nredirect /new 301\n", false},
    {"x.txt", "redirect /new query=drop\n", false},
    {"x.txt", "Redirect from,Redirect to\n/a,/b\n", false},
    {"x.txt", "/a /b\nRedirect 301 /c /d\n", false},
    {"x.txt", "https://h.example/a /b\n<p> /c\n", false},
    {"x.csv", "old,new,title\n/a,/b,\"two\n<b>lines</b>\nRedirect 301 /c /d\"\n", false},
    {"x.txt", "old,new,title\n/a,/b,\"two\n<b>lines</b>\n\"\n", false},
    {"x.json", "[\n<p>\n", false},
    {"x.conf", "map $uri $new {\nRedirect /a /b;\n", false},
    {"x.map", "~^/a /b;\n", false},
    {"_redirects", "\n/a /b\n", false},
    {".htaccess", "/a /b\n", true},
    {"x.txt", "", false},
    {"x.txt", "Redirect", false},
};

START_TEST(what_a_file_is_taken_for)
{
    ck_assert_msg(redirect_map_is_httpd(files[_i].name, files[_i].text, strlen(files[_i].text)) ==
                      files[_i].httpd,
                  "%s: %s", files[_i].name, files[_i].text);
}
END_TEST

/* As a map it is one error and no rows, unless a format was named. */
START_TEST(a_configuration_is_no_map)
{
    test_map *map = test_map_load("x.conf", "Listen 80\nRedirect 301 /a /b\n", "");

    ck_assert_int_eq(map->rv, APR_EGENERAL);
    ck_assert_msg(test_map_said(map, "E1 this is an httpd configuration"), "%s", map->log);
    test_map_free(map);
    map = test_map_load("x.conf", "Alias /x\n", "");
    ck_assert_int_eq(map->rv, APR_EGENERAL);
    test_map_free(map);
    map = test_map_load("x.conf", "Alias /x\n", "format=text");
    test_map_expect(map, "/Alias", "302 /x");
    test_map_free(map);
}
END_TEST

/* --- formats without patterns ----------------------------------------------------------------- */

static const struct {
    const char *map, *text, *said; /* "": it is a row */
} looks[] = {
    {"a.txt", "/old/* /new/:splat", "E1 '*' in the source is no pattern here; subpath=on"},
    {"a.txt", "/blog/(.*) /b/$1", "E1 '(.*)' in the source is no pattern here"},
    {"a.txt", "/blog/([0-9]+) /b/$1", "E1 '([' in"},
    {"a.txt", "/blog/(\\d+) /b/$1", "E1 '(\\' in"},
    {"a.txt", "^/x$ /y", "E1 '^' in"},
    {"a.txt", "/^x$ /y", "E1 '^' in"},
    {"a.txt", "https://h.example/^x /y", "E1 '^' in"},
    {"a.txt", "/a/:id /b/:id", "E1 ':id' in"},
    {"a.txt", "/a/:id/x?q=1 https://n.example/b?i=:id", "E1 ':id' in"},
    {"a.csv", "source,target\n/old/*,/new\n", "E2 '*' in the source is no pattern here; a column"},
    {"a.csv", "//h.example/a/*,https://n.example/,301,true,false,false,false",
     "E1 '*' in the source"},
    {"a.map", "/old/* /new;", "E1 '*' in the source is no pattern here; a regex begins with '~'"},
    {"a.map", "^/x$ /y;", "E1 '^' in"},
    {"a.json", "[{\"source\":\"/old/*\",\"destination\":\"/b\"}]", "E1 '*' in"},
    {"a.json", "[{\"source\":\"/a/:id\",\"destination\":\"/b\"}]",
     "E1 bulk redirects have no patterns"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/^x\",\"destination\":\"/b\"}]}", "E1 '^' in"},
    {"_redirects", "/a/(.*) /b", "E1 '(.*)' in the source is no pattern here; this format has '*'"},
    {"_redirects", "/a/([^/]+) /b", "E1 '([' in"},
    {"_redirects", "^/a$ /b", "E1 '^' in"},
    {"_redirects", "/a/* /b/:year/:splat", "E1 the target has ':year', which the source does not"},
    /* Regexes without a group */
    {"a.txt", "/a/[0-9]+ /b", "E1 '[0-9]+' in the source is no pattern here"},
    {"a.txt", "/a/[a-zA-Z0-9_-]/x /b", "E1 '[a-zA-Z0-9_-]' in"},
    {"a.txt", "/a/[0-9]{4} /b", "E1 '[0-9]{4}' in"},
    {"a.txt", "/a/[^/]+/x /b", "E1 '[^/]+' in"},
    {"a.txt", "/a/[abc]+/x /b", "E1 '[abc]+' in"},
    {"a.txt", "/a/[0-9]?$ /b", "E1 '[0-9]?' in"},
    {"a.txt", "/a-\\d+ /b", "E1 '\\d' in"},
    {"a.txt", "/a\\.html /b", "E1 '\\.' in"},
    {"a.txt", "/a/{b,c} /d", "E1 '{b,c}' in"},
    {"a.txt", "/a/(b|c) /d", "E1 '(b|c)' in"},
    {"a.txt", "/a|/b /d", "E1 '|' in"},
    {"a.txt", "/a/(?:b) /d", "E1 '(?' in"},
    {"a.txt", "/a/(b)? /d", "E1 ')?' in"},
    {"a.txt", "/a/(bc)+ /d", "E1 ')+' in"},
    {"a.txt", "/a/(.+)/b /d", "E1 '(.+)' in"},
    {"a.txt", "/a/.+ /b",
     "E1 '.+' in the source is no pattern here; subpath=on is for all below a "
     "path, and a map with format=netlify has '*' and ':name'. If it means "
     "itself, write %2B for its '+'"},
    {"a.txt", "/a.+/b /c", "E1 '.+' in"},
    {"a.txt", "/a$ /b", "E1 '$' in"},
    {"a.txt", "/a/?$ /b", "E1 '$' in"},
    {"a.txt", "~^/a /b", "E1 '^' in"},
    {"a.txt", "/a?id=[0-9]+ /b", "E1 '[0-9]+' in"},
    {"a.txt", "/a?id=.* /b", "E1 '.*' in"},
    {"a.txt", "/a?id=(.*) /b", "E1 '(.*)' in"},
    {"a.txt", "/a?id=\\d /b", "E1 '\\d' in"},
    {"a.txt", "/a?id=5$ /b", "E1 '$' in"},
    {"a.txt", "/a?* /b", "E1 '*' in the source's query is no pattern here"},
    {"a.txt", "/a?b=1&utm_*&c=1 /b", "E1 '*' in"},
    {"a.txt", "/a/[[:digit:]]+ /b", "E1 '[[:digit:]' in"},
    {"a.txt", "/a?id=[[:alpha:]] /b", "E1 '[[:alpha:]' in"},
    {"a.txt", "/a/(?s). /b", "E1 '(?s)' in"},
    {"a.txt", "/a/(?-i:b) /b", "E1 '(?-i:' in"},
    {"a.txt", "/a/(?>b) /b", "E1 '(?' in"},
    {"a.txt", "/\\x41 /b", "E1 '\\x41' in"},
    {"a.txt", "/\\x{41} /b", "E1 '\\x{' in"},
    {"a.txt", "/\\p{L}+ /b", "E1 '\\p{L}' in"},
    {"a.txt", "/a/\\PL+ /b", "E1 '\\PL' in"},
    {"a.txt", "/\\Qa.b\\E /b", "E1 '\\Qa.b\\E' in"},
    /* Names, as others have them */
    {"a.txt", "/a/{id} /b/{id}", "E1 '{id}' in"},
    {"a.txt", "/a/$1 /b", "E1 '$1' in"},
    {"a.txt", "/a?id=:id /b/:id", "E1 ':id' in"},
    {"a.txt", "/a?id=$1 /b/$1", "E1 '$1' in"},
    /* In the other formats */
    {"a.csv", "source,target\n/a/[0-9]+,/b\n", "E2 '[0-9]+' in"},
    {"a.csv", "//h.example/a/.+,https://n.example/,301,true,false,false,false", "E1 '.+' in"},
    {"a.csv", "source,target\n/\\p{L}+,/b\n", "E2 '\\p{L}' in"},
    {"_redirects", "/a/:b/[[:digit:]]+ /c", "E1 '[[:digit:]' in"},
    {"a.map", "/a$ /b;", "E1 '$' in the source is no pattern here; a regex begins with '~'"},
    {"a.json", "[{\"source\":\"/a/[0-9]+\",\"destination\":\"/b\"}]", "E1 '[0-9]+' in"},
    {"a.json", "[{\"source\":\"/a/{b,c}\",\"destination\":\"/d\"}]", "E1 '{b,c}' in"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/a$\",\"destination\":\"/b\"}]}",
     "E1 '$' in the source is no pattern here; a regex stands in parentheses"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/a/[0-9]+\",\"destination\":\"/b\"}]}",
     "E1 '[0-9]+' in the source is no pattern here; a regex stands in parentheses, as in "
     "'/:id(\\d+)'. If it means itself, write a backslash in front"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/:a/\\\\d\",\"destination\":\"/b\"}]}",
     "E1 '\\d' in the source is no pattern here; a regex stands in parentheses"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/:a/b$\",\"destination\":\"/b\"}]}",
     "E1 '$' in"},
    {"_redirects", "/a/:b/[0-9]+ /c", "E1 '[0-9]+' in the source is no pattern here; this format"},
    {"_redirects", "/a/{b,c}/* /d", "E1 '{b,c}' in"},
    {"_redirects", "/a/.+ /b", "E1 '.+' in"},
    {"_redirects", "/a/$1 /b", "E1 '$1' in"},
    {"_redirects", "/a/:b$ /c", "E1 '$' in"},
    {"_redirects", "/a/:b* /c/:b*", "E1 ':b*' in the source is no pattern here; this format has"},
    {"_redirects", "/a/:b+ /c/:b", "E1 ':b+' in"},
    {"_redirects", "/a/:b+?c=d /c/:b", "E1 ':b+' in"},
    {"_redirects", "/a/:b+/c /c/:b", "E1 ':b+' in"},
    {"_redirects", "/a/:b? /c/:b", "E1 ':b?' in"},
    {"_redirects", "/a/:b?/c /c/:b", "E1 ':b?' in"},
    {"_redirects", "/a/:b?id=1&* /c", "E1 '*' in the source's query"},
    /* These are addresses as there are many, or say that they mean themselves. */
    {"a.txt", "/Report[1].pdf /b/Report[1].pdf", ""},
    {"a.txt", "/Report[1]+final+(2).pdf?x[0]=a+b /b", ""},
    {"a.txt", "/r[2010-2011].pdf /b", ""},
    {"a.txt", "/a/[draft]/b /c", ""},
    {"a.txt", "/a?b*=2*3 /c", ""},
    {"a.txt", "/a?b=%2A /c", ""},
    {"_redirects", "/a/:b+:c /d/:b/:c", ""},
    {"_redirects", "/a/:b?c=d /d/:b", ""},
    {"_redirects", "/a/:b/* /d/:b/:splat", ""},
    {"a.txt", "/a+b/persons-65+.pdf /c", ""},
    {"a.txt", "/Dr.+Smith /c", ""},
    {"a.txt", "/65+ /c", ""},
    {"a.txt", "/{0F1C2A3B-12AB-4C5D-8E9F-001122334455}.aspx /c", ""},
    {"a.txt", "/a/{id} /c", ""},
    {"a.txt", "/user$/x /c", ""},
    {"a.txt", "/save-$5 /c/save-$5", ""},
    {"a.txt", "/a/$100 /c", ""},
    {"a.txt", "/docs\\data\\www /c", ""},
    {"a.txt", "/docs\\xbad\\public\\Quality\\PDF /c", ""},
    {"a.txt", "/a(?s=1) /b", ""},
    {"a.txt", "/a[:b:]/[[c]] /d", ""},
    {"a.txt", "/%5B[:digit:]]/%28?s)./%5Cx41/%5Cp{L}+/%5CQa.b%5CE /b", ""},
    {"a.txt", "/a|b /c", ""},
    {"a.txt", "/a?q=(a|b)&f={x,y}&p=*.pdf&c=$ /b", ""},
    {"a.txt", "/a(1)?id=5 /b", ""},
    {"a.txt", "/a/? /b", ""},
    {"a.txt", "/%5B0-9]/%7Ba,b}/%28b|c)/.%2B/%5Cd/%241/x%24 /b", ""},
    {"a.txt", "/a?id=%5B0-9]+x%24 /b", ""},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/a\\\\[0-9]/.\\\\+\\\\$\","
     "\"destination\":\"/b\"}]}",
     ""},
    {"_redirects", "/a.*/x[1]/:b /c", ""},
    {"a.txt", "/old/%2A /new", ""},
    {"a.txt", "/%5Ex%24 /new", ""},
    {"a.txt", "/a/%28%5B /new", ""},
    {"a.txt", "/a/%3Aid /b/:id", ""},
    {"a.txt", "/a/:id /b", ""},
    {"a.txt", "/a/:id /b/:idx", ""},
    {"a.txt", "/wiki/Special:Search /w/Special:Search", ""},
    {"a.txt", "/a/:80 /b/:80", ""},
    {"a.txt", "/a(b)_(.x)/c^2$/ /b", ""},
    {"a.txt", "/a?x=* /b", ""},
    {"a.txt", "//*.h.example/a /b", ""},
    {"a.map", "/w/Special:Search /w;", ""},
    {"_redirects", "/wiki/Special:Search /b", ""},
    {"_redirects", "/a/* /b", ""},
};

START_TEST(what_looks_like_a_pattern)
{
    for (size_t i = 0; i < COUNT_OF(looks); i++) {
        test_map *map = test_map_load(looks[i].map, looks[i].text, "");

        ck_assert_msg(*looks[i].said ? test_map_said(map, looks[i].said) : !map->report.errors,
                      "%s: %s", looks[i].text, map->log);
        ck_assert_uint_eq(map->report.rows, !*looks[i].said);
        test_map_free(map);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("what files are");
    TCase *tc = tcase_create("files");
    SRunner *runner;
    int failed;

    tcase_add_test(tc, a_line_says_that_it_is_a_configuration);
    tcase_add_loop_test(tc, what_a_file_is_taken_for, 0, (int)COUNT_OF(files));
    tcase_add_test(tc, a_configuration_is_no_map);
    tcase_add_test(tc, what_looks_like_a_pattern);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
