/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What htcachectl check says of the lines of a whole configuration or .htaccess file
 * (tool/config_check.c): which are folded, and why others are not. Run by 'make check'.
 */
#include "pool_fixture.h"
#include "suite_util.h"
#include "rules/rules.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <apr_strings.h>

static char reported[4096];

static void collect(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    (void)baton;
    ck_assert_int_eq(severity, REDIRECT_NOTE);
    apr_snprintf(reported + strlen(reported), sizeof(reported) - strlen(reported), "%u:%.11s;",
                 line, message);
}

START_TEST(a_configuration_file)
{
    static const char text[] = "# Redirect /commented /out\n"
                               "Redirect /a /b\n"
                               "Redirect \\\n  301 /c /d\n"
                               "Redirect 301 /no-target\n"
                               "<Directory /srv>\n"
                               "  Redirect http://everything/\n"
                               "  <IfModule mod_rewrite.c>\n"
                               "    RewriteRule ^1$ /x [L]\r\n"
                               "    RewriteRule ^2$ /x [L]\n"
                               "  </IfModule>\n"
                               "  RewriteRule ^3$ /x [L]\n"
                               "  RewriteRule ^4$ /x [L]\n"
                               "  RewriteRule ^5$ /x [L]\n"
                               "  RewriteRule ^6$ /x [L]\n"
                               "  RewriteRule ^7$ /x [L]\n"
                               "  RewriteRule ^8$ /x [L]\n"
                               "  RewriteCond %{HTTPS} on\n"
                               "  RewriteRule ^9$ /x [L]\n"
                               "</Directory>\n"
                               "RewriteRule ^/10$ /x [L]";
    redirect_config_totals totals = {0};

    reported[0] = '\0';
    redirect_config_check(text, sizeof(text) - 1, false, collect, NULL, &totals, pool);
    ck_assert_uint_eq(totals.redirects_seen, 4);
    ck_assert_uint_eq(totals.redirects_folded, 2);
    ck_assert_uint_eq(totals.rewrite_rules_seen, 10);
    ck_assert_uint_eq(totals.rewrite_rules_folded, 10);
    ck_assert_uint_eq(totals.filtered, 1);
    ck_assert_uint_eq(totals.conditional, 1);
    ck_assert_str_eq(reported, "5:Redirect st;21:RewriteRule;7:Redirect st;");
}
END_TEST

START_TEST(a_htaccess_file)
{
    static const char text[] = "Redirect 301 http://all/\n</Files>\nRedirect /a /b\n\\";
    redirect_config_totals totals = {0};

    reported[0] = '\0';
    redirect_config_check(text, sizeof(text) - 1, true, collect, NULL, &totals, pool);
    ck_assert_uint_eq(totals.redirects_folded, 1);
    ck_assert_str_eq(reported, "1:Redirect st;");
}
END_TEST

/* A configuration of a server: what is said of the rule with "/last". */
static const struct {
    int before;         /* rules with conditions, each with a path of its own */
    const char *middle; /* lines between them and /last */
    const char *says;
} costs[] = {
    {0, "",
     "mod_rewrite is called only where the path may match one of the rules here, and each "
     "request that gets to it costs one regular expression"},
    {10, "", "rules here, and each request that gets to it"},
    {11, "", "rules here, and a guard skips it, as one of 12 rules,"},
    {31, "", "rules here, and a guard skips it, as one of 32 rules,"},
    {32, "", "rules here, and each request that gets to it"},
    {43, "", "rules here, and a guard skips it, as one of 12 rules,"},
    {11, "RewriteRule . - [E=A]\n", "conditions; each request that gets to it costs"},
    {32, "RewriteRule . - [E=A]\n", "conditions; each request that gets to it costs"},
    {11, "<Location /l>\nRewriteRule . - [E=A]\n</Location>\n", "one of 12 rules,"},
};

static char last_message[1024];

static void collect_last(void *baton, redirect_severity severity, uint32_t line,
                         const char *message)
{
    (void)baton;
    (void)severity;
    (void)line;
    if (strstr(message, "/last"))
        apr_cpystrn(last_message, message, sizeof(last_message));
}

START_TEST(a_rule_that_stays)
{
    redirect_config_totals totals = {0};
    const char *text = "";

    for (int i = 0; i < costs[_i].before; i++)
        text = apr_psprintf(pool, "%sRewriteCond %%{QUERY_STRING} x\nRewriteRule ^/r%d$ /x [R,L]\n",
                            text, i);
    text = apr_pstrcat(pool, text, costs[_i].middle,
                       "RewriteCond %{QUERY_STRING} x\nRewriteRule ^/last$ /x [R,L]\n", NULL);
    last_message[0] = '\0';
    redirect_config_check(text, strlen(text), false, collect_last, NULL, &totals, pool);
    ck_assert_msg(strstr(last_message, costs[_i].says) != NULL, "%s", last_message);
}
END_TEST

/* Eight rules that a directory or a server folds, and one Redirect, with something else in the
 * text: how many of each are folded, and the reason that is given for those that are not. */
#define EIGHT                                                            \
    "RewriteRule ^/a http://t/ [R,L]\nRewriteRule ^/b http://t/ [R,L]\n" \
    "RewriteRule ^/c http://t/ [R,L]\nRewriteRule ^/d http://t/ [R,L]\n" \
    "RewriteRule ^/e http://t/ [R,L]\nRewriteRule ^/f http://t/ [R,L]\n" \
    "RewriteRule ^/g http://t/ [R,L]\nRewriteRule ^/h http://t/ [R,L]\nRedirect /r http://t/\n"

static const struct {
    const char *text;
    unsigned redirects, rules;
    const char *reason;
    bool server_only;
} others[] = {
    {EIGHT, 1, 8, NULL, false},
    {EIGHT "HtCacheFold Off\n", 0, 0, "Off", false},
    {EIGHT "HtCacheFold On\n", 1, 8, NULL, false},
    {"HtCache Off\n" EIGHT, 0, 0, "Off for one", true},
    {"HtCache Off\nHtCacheFold On\n" EIGHT, 1, 8, NULL, true},
    {EIGHT "<VirtualHost *>\nHtCacheFold Off\n</VirtualHost>\n", 0, 0, "one of the servers", true},
    {"<VirtualHost *>\n" EIGHT "HtCacheFold Off\n</VirtualHost>\n", 0, 0, "Off here", true},
    {"HtCache Off\n<VirtualHost *>\n" EIGHT "HtCache On\n</VirtualHost>\n", 1, 8, NULL, true},
    {"<Directory />\n" EIGHT "</Directory>\n", 1, 8, NULL, true},
    {"<Directory />\n" EIGHT "HtCacheFold Off\n</Directory>\n", 0, 0, "leaves a part", true},
    {"HtCacheExclude /x\n<Directory />\n" EIGHT "</Directory>\n", 0, 0, "leaves a part", true},
    {"HtCacheExclude /x\n" EIGHT, 1, 8, NULL, true},
    {"<Location /x>\nHtCacheFold Off\n</Location>\n<VirtualHost *>\n<Files x>\n" EIGHT
     "</Files>\n</VirtualHost>\n",
     0, 0, "leaves a part", true},
    {"<VirtualHost *>\nHtCacheExclude /x\n</VirtualHost>\n<VirtualHost *>\n<Files x>\n" EIGHT
     "</Files>\n</VirtualHost>\n",
     1, 8, NULL, true},
    {"<VirtualHost *>\nHtCacheExclude /x\n</VirtualHost>\n<Files x>\n" EIGHT "</Files>\n", 0, 0,
     "leaves a part", true},
    {"<VirtualHost *>\nHtCacheFold Off\n</VirtualHost>\n<VirtualHost *>\n<Files x>\n" EIGHT
     "</Files>\n</VirtualHost>\n",
     1, 8, NULL, true},
    {"<Location /x>\nHtCache Off\n</Location>\n" EIGHT, 1, 8, NULL, true},
    {"<Files x>\n" EIGHT "</Files>\n", 1, 8, NULL, false},
    {"<IfModule x.c>\n" EIGHT "</IfModule>\n", 1, 8, NULL, false},
    {"<Limit GET>\n" EIGHT "</Limit>\n", 1, 0, "<Limit>", false},
    {"<Limit GET>\n<Files x>\n" EIGHT "</Files>\n</Limit>\n", 1, 0, "<Limit>", false},
    {EIGHT "<Limit GET>\n<IfModule x.c>\nRewriteCond a b\n</IfModule>\n</Limit>\n", 1, 0, "<Limit>",
     false},
    {EIGHT "<Limit GET>\nRequire x\n</Limit>\n", 1, 8, NULL, false},
    {"<RequireAny>\n" EIGHT "</RequireAny>\n", 0, 0, "left to httpd", false},
    {"RegexDefaultOptions +DOTALL\n" EIGHT, 1, 0, "RegexDefaultOptions", true},
    {"PerlLoadModule X\n" EIGHT, 0, 0, "PerlLoadModule", true},
    {EIGHT "<Directory /x>\nRewriteRule ^x - [C]\n</Directory>\n", 1, 0, "within a skip", true},
    {"<Directory />\nRewriteOptions Inherit\n" EIGHT "</Directory>\n", 1, 0, "Inherit", true},
    {"<Directory />\nRewriteOptions MergeBase InheritBefore\n" EIGHT "</Directory>\n", 1, 0,
     "Inherit", true},
    {"RewriteOptions InheritDown\n" EIGHT, 1, 8, NULL, false},
};

START_TEST(what_else_stands_there)
{
    for (int htaccess = 0; htaccess < 2 - others[_i].server_only; htaccess++) {
        redirect_config_totals totals = {.reasons = apr_hash_make(pool)};
        apr_hash_index_t *first;

        reported[0] = '\0';
        redirect_config_check(others[_i].text, strlen(others[_i].text), htaccess, collect, NULL,
                              &totals, pool);
        ck_assert_uint_eq(totals.redirects_seen, 1);
        ck_assert_uint_ge(totals.rewrite_rules_seen, 8);
        ck_assert_uint_eq(totals.redirects_folded, others[_i].redirects);
        ck_assert_msg(totals.rewrite_rules_folded == others[_i].rules, "%s: %d", others[_i].text,
                      (int)totals.rewrite_rules_folded);
        first = apr_hash_first(pool, totals.reasons);
        ck_assert_int_eq(!first, !others[_i].reason);
        ck_assert(!first || strstr(apr_hash_this_key(first), others[_i].reason));
    }
}
END_TEST

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("config_check");
    TCase *tc = tcase_create("files");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_configuration_file);
    tcase_add_test(tc, a_htaccess_file);
    tcase_add_loop_test(tc, what_else_stands_there, 0, COUNT_OF(others));
    tcase_add_loop_test(tc, a_rule_that_stays, 0, COUNT_OF(costs));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
