/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The allow-list: every row answers for itself, arguments that decide do decide, and the table in
 * docs/allow-list.md says the same. Run by make check, with srcdir in the environment.
 */
#include "base/allow_list.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARE  HTC_ALLOW_SHARE
#define REPLAY HTC_ALLOW_REPLAY
#define STOCK  HTC_ALLOW_STOCK

START_TEST(every_row_is_found)
{
    struct htc_allow_entry entry;
    size_t n = 0;

    for (; htc_allow_entry(n, &entry); n++) {
        enum htc_allow expected = entry.by_arguments ? REPLAY : entry.decision;
        bool plain = entry.decision == SHARE && !entry.by_arguments;

        ck_assert_msg(htc_allow_class(entry.module_name, entry.directive, NULL) == expected,
                      "%s %s", entry.module_name, entry.directive);
        ck_assert_msg((htc_allow_reason(entry.module_name, entry.directive) == NULL) == plain,
                      "%s %s", entry.module_name, entry.directive);
    }
    ck_assert_uint_gt(n, 300);
}
END_TEST

static const struct {
    const char *module_name, *directive, *args;
    enum htc_allow expected;
} lines[] = {
    {"mod_authz_core.c", "require", "all granted", SHARE},
    {"mod_authz_core.c", "REQUIRE", " not ip 10", SHARE},
    {"mod_authz_core.c", "Require", "\"all\" granted", SHARE},
    {"mod_authz_core.c", "Require", "ldap-group x", REPLAY},
    {"mod_authz_core.c", "Require", "ALL granted", REPLAY},
    {"mod_authz_core.c", "Require", "", REPLAY},
    {"mod_authz_core.c", "Require", NULL, REPLAY},
    {"mod_rewrite.c", "RewriteCond", "%{REQUEST_FILENAME} !-f [NC]", REPLAY},
    {"mod_rewrite.c", "RewriteCond", "%{REQUEST_FILENAME} !-f [OR]", SHARE},
    {"mod_rewrite.c", "RewriteCond", "%{REQUEST_FILENAME} !-f", SHARE},
    {"mod_rewrite.c", "RewriteCond", "%{REQUEST_FILENAME} -d [OR, nocase]", REPLAY},
    {"mod_rewrite.c", "RewriteCond", "%{HTTP_ACCEPT} [a-z]-ld [NC]", SHARE},
    {"mod_rewrite.c", "RewriteCond", "%{X} \"-ge3\" [ NC ]", REPLAY},
    {"mod_rewrite.c", "RewriteCond", "%{X} =foo [NC]", SHARE},
    {"mod_rewrite.c", "RewriteCond", "expr \"%{X} == 'y'\" [NC]", REPLAY},
    {"mod_rewrite.c", "RewriteOptions", "Inherit maxredirects=3", REPLAY},
    {"mod_rewrite.c", "RewriteOptions", "Inherit", SHARE},
    {"mod_env.c", "SetEnv", "A=b", REPLAY},
    {"mod_env.c", "SetEnv", "A b=c", SHARE},
    {"core.c", "ErrorDocument", "401 http://x/", REPLAY},
    {"core.c", "errordocument", "401 /x", SHARE},
    {"core.c", "ErrorDocument", "404 http://x/", SHARE},
    {"core.c", "<iffile", "x", STOCK},
    {"core.c", "<if", "true", SHARE},
    {"core.c", "Option", "x", REPLAY},
    {"core.c", "", "", REPLAY},
    {"mod_php.c", "php_value", "a b", REPLAY},
};

START_TEST(arguments_decide)
{
    ck_assert_int_eq(htc_allow_class(lines[_i].module_name, lines[_i].directive, lines[_i].args),
                     lines[_i].expected);
}
END_TEST

/* "| mod_alias.c | `Redirect` | share | ... |" */
static bool parse_row(char *line, char **module_name, char **directive, char **decision)
{
    char *save, *cell[4];

    if (strncmp(line, "| ", 2))
        return false;
    cell[0] = strtok_r(line, "|", &save);
    for (int i = 1; i < 4; i++)
        cell[i] = strtok_r(NULL, "|", &save);
    if (!cell[2])
        return false;
    *module_name = strtok_r(cell[0], " `", &save);
    *directive = strtok_r(cell[1], " `", &save);
    *decision = strtok_r(cell[2], " ", &save);
    return *module_name && *directive && *decision && strstr(*module_name, ".c");
}

static bool says(const struct htc_allow_entry *entry, const char *decision)
{
    static const char *const words[] = {[REPLAY] = "replay", [SHARE] = "share", [STOCK] = "stock"};

    return !strcmp(decision, words[entry->decision]);
}

static bool in_table(const char *module_name, const char *directive, const char *decision)
{
    struct htc_allow_entry entry;
    size_t len = strlen(directive);

    if (len && directive[len - 1] == '>')
        len--;
    for (size_t i = 0; htc_allow_entry(i, &entry); i++) {
        if (!strcmp(entry.module_name, module_name) && strlen(entry.directive) == len &&
            !strncmp(entry.directive, directive, len))
            return says(&entry, decision);
    }
    return false;
}

START_TEST(documentation_agrees)
{
    const char *srcdir = getenv("srcdir");
    char path[4096], line[4096];
    struct htc_allow_entry entry;
    size_t rows = 0, entries = 0;
    FILE *docs;

    snprintf(path, sizeof(path), "%s/docs/allow-list.md", srcdir ? srcdir : ".");
    docs = fopen(path, "r");
    ck_assert_msg(docs != NULL, "%s cannot be read", path);
    while (fgets(line, sizeof(line), docs)) {
        char *module_name, *directive, *decision;

        if (!parse_row(line, &module_name, &directive, &decision))
            continue;
        rows++;
        ck_assert_msg(in_table(module_name, directive, decision), "%s %s %s", module_name,
                      directive, decision);
    }
    fclose(docs);
    while (htc_allow_entry(entries, &entry))
        entries++;
    ck_assert_uint_eq(rows, entries);
}
END_TEST

START_TEST(what_to_trust)
{
    char text[512], small[8];

    ck_assert(htc_allow_listed("mod_filter.c", "filterdeclare"));
    ck_assert(!htc_allow_listed("mod_php.c", "php_value"));
    ck_assert_int_lt(htc_allow_trust(text, sizeof(text), "mod_example.c"), (int)sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "HtCacheTrustModule mod_example.c lets requests share"));
    ck_assert_int_lt(htc_allow_trust(text, sizeof(text), "mod_php7.c"), (int)sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "HtCacheTrustModule mod_php7.c would"));
    ck_assert_ptr_nonnull(strstr(text, "memory of its own"));
    ck_assert_int_lt(htc_allow_trust(text, sizeof(text), NULL), (int)sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, "'httpd -M'"));
    htc_allow_trust(small, sizeof(small), "mod_example.c");
    ck_assert_uint_lt(strlen(small), sizeof(small));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("allow_list");
    TCase *tc = tcase_create("allow_list");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_test(tc, every_row_is_found);
    tcase_add_loop_test(tc, arguments_decide, 0, (int)(sizeof(lines) / sizeof(lines[0])));
    tcase_add_test(tc, documentation_agrees);
    tcase_add_test(tc, what_to_trust);
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
