/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The cost report of configurations: what becomes of a .htaccess file and because of which line,
 * what requests have to run, and what is advised. Expected classes follow from the allow-list,
 * foldings from rules/rules.h.
 */
#include "pool_fixture.h"
#include "tool/config_cost.h"
#include "redirect_map_util.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *refuse(void *baton, const char *pattern, unsigned flags)
{
    (void)baton, (void)flags;
    return strchr(pattern, '(') && !strchr(pattern, ')') ? "it has no )" : NULL;
}

static cost_report cost_of(const char *text)
{
    cost_options options = {.htaccess = true, .compile = refuse};
    cost_report report;

    cost_read(text, strlen(text), &options, &report, pool);
    return report;
}

static const struct {
    const char *text;
    cost_class class;
    uint32_t line;
    const char *advice; /* "line: begins so"; NULL: none at all */
} files[] = {
    {"DirectoryIndex a.html\nHeader set X y\n", COST_KEPT, 0, NULL},
    {"# only\n\n", COST_KEPT, 0, "0: the file has no directives"},
    {"Options -Indexes\nphp_value a b\n", COST_REPLAYED, 2,
     "2: php_value is not on the allow-list"},
    {"php_flag a on\n", COST_REPLAYED, 1,
     "1: php_flag is not on the allow-list of mod_htcache: each request runs the line, and all "
     "others of the file that cannot be told apart from it; move the line to the server's "
     "configuration, or to a .htaccess file where few requests pass. HtCacheTrustModule mod_php.c "
     "would let requests share it, but PHP keeps these values in memory of its own"},
    {"FilterDeclare a\n", COST_REPLAYED, 1, "1: FilterDeclare has its configuration altered"},
    {"php_value a b\nphp_value c d\n", COST_REPLAYED, 1, "2: php_value"},
    {"php_value a b\n<IfFile x>\n</IfFile>\n", COST_STOCK, 2, "2: <IfFile"},
    {"Include x\nphp_value a b\n", COST_STOCK, 1, "1: Include"},
    {"SetEnv a b\n", COST_KEPT, 0, NULL},
    {"HtCacheFold Off\n", COST_KEPT, 0, NULL},
    {"RewriteEngine On\n", COST_KEPT, 0, "1: RewriteEngine On without rules"},
    {"RewriteEngine On\nRewriteRule ^a(b$ /c [R]\n", COST_KEPT, 0,
     "2: '^a(b$' cannot be used: it has no )"},
    {"RewriteEngine On\nRewriteRule old\\.html$ /c [R]\n", COST_KEPT, 0,
     "2: 'old\\.html$' is compared at every position"},
    {"RewriteEngine On\nRewriteRule ^.*old$ /c [R]\n", COST_KEPT, 0,
     "2: '^.*old$' tries every position"},
    {"RewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . index.php [L]\n", COST_KEPT, 0,
     "1: !-f asks the disk"},
    {"RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n"
     "RewriteRule . index.php [L]\n",
     COST_KEPT, 0,
     "3: this front controller works without mod_rewrite: FallbackResource index.php"},
    {"RewriteCond %{REQUEST_URI} -U\nRewriteRule . x [L]\n", COST_KEPT, 0,
     "1: -U makes a subrequest"},
    {"Require host example.org\n", COST_KEPT, 0, "1: Require host asks the DNS"},
    {"Order deny,allow\nDeny from example.org\n", COST_KEPT, 0,
     "2: Allow and Deny with a host's name"},
    {"Order deny,allow\nDeny from 10.0.0.0/8 all\n", COST_KEPT, 0, NULL},
    {"<IfModule mod_x.c>\n</IfModule>\n<IfModule mod_y.c>\n</IfModule>\n", COST_KEPT, 0,
     "1: <IfModule> hides"},
    {"Redirect http://x/\n", COST_KEPT, 0, "1: Redirect stays with mod_alias"},
};

static bool has_advice(const cost_report *report, const char *wanted)
{
    char *text;
    uint32_t line = (uint32_t)strtoul(wanted, &text, 10);

    for (int i = 0; i < report->advice->nelts; i++) {
        const cost_advice *advice = &APR_ARRAY_IDX(report->advice, i, cost_advice);

        if (advice->line == line && !strncmp(advice->text, text + 2, strlen(text + 2)))
            return true;
    }
    return false;
}

START_TEST(a_file)
{
    cost_report report = cost_of(files[_i].text);

    ck_assert_msg(report.class == files[_i].class, "%s is %s", files[_i].text,
                  cost_class_name(report.class));
    ck_assert_uint_eq(report.class_line, files[_i].line);
    ck_assert_int_eq(report.class_directive != NULL, report.class != COST_KEPT);
    if (!files[_i].advice)
        ck_assert_msg(!report.advice->nelts, "%s: %s", files[_i].text,
                      APR_ARRAY_IDX(report.advice, 0, cost_advice).text);
    else
        ck_assert_msg(
            has_advice(&report, files[_i].advice), "%s: %d pieces of advice, the first: %s",
            files[_i].text, report.advice->nelts,
            report.advice->nelts ? APR_ARRAY_IDX(report.advice, 0, cost_advice).text : "");
}
END_TEST

START_TEST(lines_are_counted)
{
    cost_report report = cost_of("RewriteEngine On\n"
                                 "RewriteCond %{HTTP_HOST} ^a$ [NC]\n"
                                 "RewriteCond %{REQUEST_FILENAME} !-f\n"
                                 "RewriteRule . /b [L]\n"
                                 "RedirectMatch 301 ^/c$ /d\n"
                                 "Redirect /e /f\n"
                                 "<FilesMatch \"\\.x$\">\n"
                                 "ErrorDocument 404 /g\n"
                                 "</FilesMatch>\n");

    ck_assert_uint_eq(report.directives, 8);
    ck_assert_uint_eq(report.rules, 1);
    ck_assert_uint_eq(report.conditions, 2);
    ck_assert_uint_eq(report.redirects, 2);
    ck_assert_uint_eq(report.regexes, 4);
    ck_assert_uint_eq(report.folded.redirects_folded, 2);
    ck_assert_uint_eq(report.folded.rewrite_rules_folded, 0);
    ck_assert_uint_eq(report.request_regexes, 2);
    ck_assert_uint_eq(report.disk_tests, 1);
    ck_assert_uint_eq(report.points, 12);
}
END_TEST

START_TEST(what_is_run_again_costs_more)
{
    cost_report kept = cost_of("Options -Indexes\n");
    cost_report replayed = cost_of("Options -Indexes\nphp_flag a on\n");
    cost_report stock = cost_of("Options -Indexes\n<IfFile a>\n</IfFile>\n");

    ck_assert_uint_eq(kept.points, 0);
    ck_assert_uint_gt(replayed.points, kept.points);
    ck_assert_uint_gt(stock.points, replayed.points);
}
END_TEST

static unsigned included;

static void count_include(void *baton, const char *name)
{
    ck_assert_ptr_eq(baton, &included);
    ck_assert_str_eq(name, "conf.d/*.conf");
    included++;
}

START_TEST(a_server_configuration)
{
    static const char text[] = "ServerName a\nInclude \"conf.d/*.conf\"\nphp_value a b\n";
    cost_options options = {.include = count_include, .baton = &included};
    cost_report report;

    cost_read(text, sizeof(text) - 1, &options, &report, pool);
    ck_assert_uint_eq(included, 1);
    ck_assert_int_eq(report.class, COST_KEPT);
    ck_assert_uint_eq(report.points, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("config_cost");
    TCase *tc = tcase_create("cost");
    SRunner *sr;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_file, 0, (int)COUNT_OF(files));
    tcase_add_test(tc, lines_are_counted);
    tcase_add_test(tc, what_is_run_again_costs_more);
    tcase_add_test(tc, a_server_configuration);
    suite_add_tcase(s, tc);
    sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed != 0;
}
