/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what a file of redirects is taken for: httpd's own configuration, whatever stands
 * first in it, or a map. Run by 'make check'.
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

int main(void)
{
    Suite *suite = suite_create("what files are");
    TCase *tc = tcase_create("files");
    SRunner *runner;
    int failed;

    tcase_add_test(tc, a_line_says_that_it_is_a_configuration);
    tcase_add_loop_test(tc, what_a_file_is_taken_for, 0, (int)COUNT_OF(files));
    tcase_add_test(tc, a_configuration_is_no_map);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
