/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what htcachectl check finds wrong with redirects that can be read: rows of maps, and
 * lines of configurations one by one and together. Run by 'make check'.
 */
#include "redirect_map_util.h"
#include "tool/lint.h"
#include "tool/map.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

static apr_pool_t *pool;
static char *said; /* "W3 message\n" */

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    said = "";
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

static void note(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    (void)baton;
    said = apr_psprintf(pool, "%s%c%u %s\n", said, "NWE"[severity], (unsigned)line, message);
}

static bool was_said(const char *begin)
{
    return strstr(apr_pstrcat(pool, "\n", said, NULL), apr_pstrcat(pool, "\n", begin, NULL)) !=
           NULL;
}

static redirect_report lint(const char *text, bool htaccess)
{
    redirect_report report = {.fn = note,
                              .compile = map_regexes_available() ? map_regexes_try : NULL};

    said = "";
    tool_lint_config(text, strlen(text), htaccess, &report, pool);
    return report;
}

static const struct {
    const char *text, *said; /* "": nothing */
    bool htaccess;
} lines[] = {
    {"Redirect 301 /a https://x.example/\n", "", false},
    {"Redirect 301 /a /b\nRedirect 301 /c /d\n", "", false},
    {"RedirectMatch 301 ^/a/(.*)$ https://x.example/$1\n", "", false},
    {"RewriteRule ^a/(.*)$ /b/$1 [R=301,L]\n", "", true},
    {"Redirect 301 /a/* /b\n", "W1 '*' in the source is no wildcard", false},
    {"Include x.conf\n", "W1 the included file 'x.conf' was not read", false},
    {"<Location />\nIncludeOptional y\n</Location>\n", "W2 the included file 'y' was not read",
     false},
    {"Redirect 301 /a/(.*) /b/$1\n", "W1 '(.*)' in the source is no wildcard", false},
    {"Redirect 301 /a/[0-9]+ /b\n", "W1 '[0-9]+' in the source is no wildcard", false},
    {"Redirect 301 /a$ /b\n", "W1 '$' in the source is no wildcard", false},
    {"Redirect 301 /a[1]+(2).pdf /b\n", "", false},
    {"Redirect 301 /a /b/$1\n", "W1 '$1' in the target stands for itself", false},
    {"Redirect 301 /a?id=1 /b\n", "W1 the source '/a?id=1' has a query and never matches", false},
    {"Redirect 301 /a%20b /b\n", "W1 the source '/a%20b' is compared with the decoded path", false},
    {"Redirect 301 a /b\n", "W1 the source 'a' does not begin with '/'", false},
    {"Redirect 301 /a htp://x.example/\n", "W1 the target's scheme is 'htp'", false},
    {"Redirect 301 /a www.example.com/b\n",
     "E1 httpd refuses the line: the target 'www.example.com/b' is neither a URL nor a path",
     false},
    {"Redirect 301 /a b?to=https://x.example/\n",
     "E1 httpd refuses the line: the target 'b?to=", false},
    {"Redirect 301 /a b\n", "E1 httpd refuses the line: the target 'b' is neither", true},
    {"RedirectTemp /a \"\"\n", "E1 httpd refuses the line: the target '' is neither", false},
    {"RedirectMatch ^/a www.example.com/b\n", "W1 the target 'www.example.com/b' is neither",
     false},
    {"Redirect 301 /a ${TARGET}/b\nRedirect 301 /c $target\n", "", false},
    {"RedirectMatch ^/a/(.*) $1\n", "", false},
    {"Redirect 404 /a http://x.example/\n",
     "E1 httpd refuses the line: a redirect with status 404 has no target", false},
    {"RedirectMatch gone ^/a /b\n",
     "E1 httpd refuses the line: a redirect with status gone has no target", false},
    {"Redirect 404 /a\nRedirect gone /b\n", "", false},
    {"Redirect 301 /a example.com:8080/b\n", "W1 the target 'example.com:8080/b' has no scheme",
     false},
    {"Redirect 301 /a javascript:x\n", "W1 the target's scheme is 'javascript'", false},
    {"RedirectPermanent /a data:text/html,x\n", "W1 the target's scheme is 'data'", true},
    {"RedirectMatch ^/a mailto:a@x.example\n", "W1 the target's scheme is 'mailto'", false},
    {"RewriteRule ^a JavaScript:x [R]\n",
     "W1 mod_rewrite takes the target 'JavaScript:x' for a path of this server", true},
    {"RewriteRule ^a mailto:a@x.example [R]\n", "W1 the target's scheme is 'mailto'", true},
    {"RewriteRule ^Talk/(.*) Talk:$1 [R]\n", "", true},
    {"Redirect 301 /a http:/x.example/b\n", "W1 the target 'http:/x.example/b' has no scheme",
     false},
    {"RedirectPermanent /a htps://x.example/\n", "W1 the target's scheme is 'htps'", false},
    {"RedirectMatch 301 /old/* /b\n", "W1 '/*' in the pattern '/old/*' repeats the slash", false},
    {"RedirectMatch 301 ^/a\\?id=1 /b\n", "W1 the pattern '^/a\\?id=1' never matches a query",
     false},
    {"RewriteRule ^/a$ /b [R=301]\n", "W1 the pattern '^/a$' never matches here: in a directory",
     true},
    {"<Directory /srv>\nRewriteRule ^/a$ /b [R=301]\n</Directory>\nRewriteRule ^/c$ /d [R=301]\n",
     "W2 the pattern '^/a$' never matches here: in a directory", false},
    {"RewriteRule ^a$ /b [R=301]\n", "W1 the pattern '^a$' never matches here: outside", false},
    {"RewriteRule ^/?a$ /b [R=301]\n", "", true},
    {"RewriteRule ^([A-Z]{1,2})\\ ([0-9]+)$ https://x.example/$1\\%20$2 [R=301]\n", "", true},
    {"RewriteRule ^/a$ htp://x.example/ [R=301]\n", "W1 the target's scheme is 'htp'", false},
    {"RewriteRule ^/a$ /srv/www/index.php\n", "", false},
    /* Together. */
    {"Redirect 301 /a /b\nRedirect 301 /a /c\n", "W2 the same source as in line 1", false},
    {"Redirect 301 /a /x\nRedirect 301 /a/b /y\n", "W2 never used: line 1 answers", false},
    {"Redirect 301 /a/b /y\nRedirect 301 /a /x\n", "", false},
    {"Redirect 301 /a /b\nRedirect 301 /b /a\n", "W1 a loop of 2 rows", false},
    {"Redirect 301 /a /a/b\n", "W1 leads to itself", false},
    {"Redirect 301 /a /b\nRedirect 301 /b /c\n", "N1 a chain of 2 redirects", false},
    {"Redirect 301 /a /b\nRedirect 301 /b /c\n", "N1 a chain of 2 redirects", true},
    {"<VirtualHost *>\nServerName a.example\nRedirect 301 /a http://a.example/b\n"
     "Redirect 301 /b http://a.example/a\n</VirtualHost>\n",
     "W3 a loop of 2 rows", false},
    {"<VirtualHost *>\nServerName a.example\nServerAlias b.example c.example\nRedirect 301 /a /b\n"
     "Redirect 301 /a /c\n</VirtualHost>\n",
     "W5 the same source as in line 4", false},
    {"RedirectMatch 301 ^/a$ https://www.example.com/a\n", "", false},
    {"Redirect 301 /a https://www.example.com/a\n", "", false},
    {"<VirtualHost *:80>\nServerName a.example\nRedirect 301 /s /t\nRedirect 301 / "
     "https://n.example/\n"
     "</VirtualHost>\n",
     "N3 a chain of 2 redirects, by line 4, that ends at 'https://n.example/t'", false},
    {"Redirect 301 /s /t/x\nRedirect 301 /t/ https://n.example\n",
     "N1 a chain of 2 redirects, by line 2, that ends at 'https://n.examplex'", false},
    /* Loops through patterns, and where all paths go. */
    {"RedirectMatch 301 ^/(.*)$ /z/$1\n", "W1 leads to itself for '/some'", false},
    {"RedirectMatch 301 ^/a/(.*)$ /b/$1\nRedirectMatch 301 ^/b/(.*)$ /a/$1\n",
     "W1 a loop of 2 rows for '/a/some', by line 2 and back from line 2", false},
    {"RewriteRule ^(.*)$ /z/$1 [R=301,L]\n", "W1 leads to itself for '/some'", true},
    {"RewriteRule ^/(.*)$ https://www.example.com/$1 [R=301]\n",
     "N1 answers each path with the same one of a named host", false},
    {"RewriteRule ^(.*)$ https://www.example.com/$1 [R=301,L]\n",
     "N1 answers each path with the same one of a named host", true},
    {"Redirect 301 / https://www.example.com/\n",
     "N1 answers each path with the same one of a named host", false},
    {"<VirtualHost *:80>\nServerName a.example\nRedirect 301 / https://a.example/\n"
     "RewriteRule ^/(.*)$ https://www.a.example/$1 [R=301]\n</VirtualHost>\n",
     "", false},
    {"RewriteCond %{HTTP_HOST} !^www\nRewriteRule ^/(.*)$ https://www.a.example/$1 [R=301]\n", "",
     false},
    {"RedirectMatch 301 ^/docs/(.*)$ https://docs.example.com/docs/$1\n", "", false},
    {"RewriteRule ^/a/(.*)$ /b/$1 [R=301]\nRewriteRule ^/b/(.*)$ /a/$1 [R=301]\n", "", false},
    /* Not the same requests. */
    {"<VirtualHost *>\nServerName a.example\nRedirect 301 /a /b\n</VirtualHost>\n<VirtualHost *>\n"
     "ServerName b.example\nRedirect 301 /a /c\n</VirtualHost>\n",
     "", false},
    {"<Directory /srv/x>\nRedirect 301 /a /b\n</Directory>\n<Directory /srv/y>\nRedirect 301 /a "
     "/c\n"
     "</Directory>\n",
     "", false},
    {"RewriteRule ^/a https://x.example/ [R]\n<VirtualHost *>\nServerName a.example\n"
     "Redirect 301 /a/b /c\n</VirtualHost>\n",
     "", false},
};

START_TEST(a_line)
{
    lint(lines[_i].text, lines[_i].htaccess);
    if (*lines[_i].said)
        ck_assert_msg(was_said(lines[_i].said), "%s: '%s' is missing in\n%s", lines[_i].text,
                      lines[_i].said, said);
    else
        ck_assert_msg(!*said, "%s:\n%s", lines[_i].text, said);
}
END_TEST

START_TEST(each_message_comes_once)
{
    redirect_report report =
        lint("<VirtualHost *>\nServerName a.example\nServerAlias b.example c.example\n"
             "Redirect 301 /a /b\nRedirect 301 /a /c\nRedirect 301 /l /m\nRedirect 301 /m /l\n"
             "</VirtualHost>\n",
             false);

    ck_assert_uint_eq(report.duplicates, 1);
    ck_assert_uint_eq(report.loops, 1);
    ck_assert_uint_eq(report.warnings, 2);
}
END_TEST

START_TEST(a_pattern_that_cannot_be_compiled)
{
    if (!map_regexes_available())
        return;
    ck_assert_uint_eq(lint("RedirectMatch 301 ^/a( /b\n", false).errors, 1);
    ck_assert_msg(was_said("E1 the pattern '^/a(' cannot be compiled"), "%s", said);
}
END_TEST

static const struct {
    const char *name, *text, *said;
} rows[] = {
    {"a.txt", "/a/%2A /b\n", ""},
    {"a.csv", "/a,/b/$1\n", "W1 '$1' in the target stands for itself"},
    {"a.txt", "/a /b/:splat\n", "W1 ':splat' in the target stands for itself"},
    {"a.txt", "/a htp://x.example/\n", "W1 the target's scheme is 'htp'"},
    {"a.txt", "/a ftp://x.example/\n", ""},
    {"_redirects", "/a/* /b/:splat\n/c/:x /d/:x\n", ""},
    {"a.map", "~^/a/(.*)$ /b/$1;\n", ""},
};

START_TEST(a_row_of_a_map)
{
    test_map *map = test_map_load(rows[_i].name, rows[_i].text, "");
    redirect_report report = {.fn = note};

    ck_assert_ptr_nonnull(map->table);
    tool_lint_table(map->table, &report, pool);
    if (*rows[_i].said)
        ck_assert_msg(was_said(rows[_i].said), "%s: %s", rows[_i].text, said);
    else
        ck_assert_msg(!*said, "%s: %s", rows[_i].text, said);
    test_map_free(map);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lint");
    TCase *tc = tcase_create("lint");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_line, 0, (int)COUNT_OF(lines));
    tcase_add_test(tc, each_message_comes_once);
    tcase_add_test(tc, a_pattern_that_cannot_be_compiled);
    tcase_add_loop_test(tc, a_row_of_a_map, 0, (int)COUNT_OF(rows));
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
