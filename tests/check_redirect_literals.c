/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/regex/literals.c: lists of texts and of apr_fnmatch() patterns. Run by 'make
 * check'. Lists of regexes are compared with PCRE by check_redirect_regex_random.c.
 */
#include "pool_fixture.h"
#include "regex/regex.h"

#include <check.h>
#include <apr_fnmatch.h>
#include <apr_strings.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *text, *wildcards, *regex; /* what is in the list */
    const char *name;
    bool found;
} cases[] = {
    {"a.txt", NULL, NULL, "a.txt", true},
    {"a.txt", NULL, NULL, "A.txt", false},
    {"a.txt", NULL, NULL, "b-a.txt", false},
    {"a.txt", NULL, NULL, "a.txt.gz", false},
    {"", NULL, NULL, "", true},
    {"", NULL, NULL, "index.html", false},
    {NULL, "*.php", NULL, "index.php", true},
    {NULL, "*.php", NULL, "index.html", false},
    {NULL, "a*.php?", NULL, "index.php", true}, /* that it cannot match is not noticed */
    {NULL, "wp-*.p", NULL, "x-wp-", false},     /* the longest part is at the beginning */
    {NULL, NULL, "^\\.ht", ".htaccess", true},
    {NULL, NULL, "^\\.ht", "a.ht", false},
    {NULL, NULL, "\\.(php|phtml)$", "a.phtml", true},
    {NULL, NULL, "\\.(php|phtml)$", "photo.png", false},
    {NULL, NULL, "(?i)\\.php$", "A.PHP", true},
    {NULL, NULL, "(?i)\\.php$", "A.PNG", false},
    {NULL, NULL, "(?i)\\.ini$", "A.INI", true},
    {NULL, NULL, "(?i)^readme$", "ReadMe", true},
    {NULL, NULL, "(?i)^ini$", "INI", true},
    {NULL, NULL, "(?i)^readme$", "ReadMe2x", false},
    {"a", "*.php", "^x", "a", true},
    {"a", "*.php", "^x", "b.php", true},
    {"a", "*.php", "^x", "xyz", true},
    {"a", "*.php", "^x", "b", false},
};

static bool add_all(redirect_literals *list, const char *text, const char *wildcards,
                    const char *regex)
{
    redirect_regex_facts facts;

    if (regex)
        redirect_regex_read(regex, strlen(regex), REDIRECT_REGEX_DEFAULT, NULL, pool, &facts);
    return (!text || redirect_literals_add_text(list, text)) &&
           (!wildcards || redirect_literals_add_wildcards(list, wildcards)) &&
           (!regex || redirect_literals_add_regex(list, &facts));
}

static void compare_names(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        redirect_literals list = {.len = 0};

        ck_assert(add_all(&list, cases[i].text, cases[i].wildcards, cases[i].regex));
        ck_assert_msg(redirect_literals_any(list.bytes, cases[i].name) == cases[i].found, "case %d",
                      (int)i);
    }
}

START_TEST(names_are_compared)
{
    compare_names();
}
END_TEST

/* False: this system has no such locale, nor what to make it of. */
static bool set_turkish(void)
{
    char dir[] = "/tmp/check-literals-XXXXXX";
    bool set;

    if (setlocale(LC_CTYPE, "tr_TR.UTF-8"))
        return true;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("LOCPATH", dir, 1);
    set = !system(apr_psprintf(pool, "localedef -i tr_TR -f UTF-8 %s/tr_TR.UTF-8 >%s/said 2>&1",
                               dir, dir)) &&
          setlocale(LC_CTYPE, "tr_TR.UTF-8");
    unsetenv("LOCPATH");
    ck_assert(!system(apr_psprintf(pool, "rm -r %s", dir)));
    return set;
}

/* Other modules set the process's locale. PCRE compares without it. */
START_TEST(no_locale_changes_what_is_found)
{
    if (set_turkish())
        ck_assert_int_ne(strcasecmp("I", "i"), 0);
    compare_names();
    setlocale(LC_CTYPE, "C");
}
END_TEST

START_TEST(an_empty_list_has_nothing)
{
    redirect_literals list = {.len = 0};

    ck_assert(!redirect_literals_any(list.bytes, ""));
    ck_assert(!redirect_literals_any(list.bytes, "a"));
}
END_TEST

START_TEST(not_all_is_known)
{
    static const char *const wildcards[] = {"*", "?", "", "a[bc]", "a\\*", "a/b"};
    static const char *const regexes[] = {".*", "[a-z]*", "a?b?"};

    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++) {
        redirect_literals list = {.len = 0};

        ck_assert_msg(!redirect_literals_add_wildcards(&list, wildcards[i]), "%s", wildcards[i]);
    }
    for (size_t i = 0; i < sizeof(regexes) / sizeof(regexes[0]); i++) {
        redirect_literals list = {.len = 0};
        redirect_regex_facts facts;

        redirect_regex_read(regexes[i], strlen(regexes[i]), REDIRECT_REGEX_DEFAULT, NULL, pool,
                            &facts);
        if (redirect_literals_add_regex(&list, &facts))
            ck_assert_msg(redirect_literals_any(list.bytes, ""), "%s", regexes[i]);
    }
}
END_TEST

START_TEST(a_long_text_is_cut)
{
    redirect_literals list = {.len = 0};
    char text[400];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    ck_assert(redirect_literals_add_text(&list, text));
    ck_assert(redirect_literals_any(list.bytes, text));
    text[10] = 'y';
    ck_assert(!redirect_literals_any(list.bytes, text));
    text[200] = '\0';
    ck_assert(!redirect_literals_any(list.bytes, text));
}
END_TEST

START_TEST(too_many_have_no_room)
{
    redirect_literals list = {.len = 0};
    int n = 0;

    while (redirect_literals_add_text(&list, apr_psprintf(pool, "name-%d", n)))
        ck_assert_int_lt(++n, 1000);
    ck_assert_int_gt(n, 10);
    for (int i = 0; i < n; i++)
        ck_assert(redirect_literals_any(list.bytes, apr_psprintf(pool, "name-%d", i)));
    ck_assert(!redirect_literals_any(list.bytes, "name"));
}
END_TEST

static const char *random_text(unsigned *seed, const char *letters, unsigned most)
{
    unsigned len = (unsigned)rand_r(seed) % (most + 1);
    char *text = apr_pcalloc(pool, len + 1);

    for (unsigned i = 0; i < len; i++)
        text[i] = letters[(size_t)rand_r(seed) % strlen(letters)];
    return text;
}

START_TEST(wildcards_are_compared_as_apr_does)
{
    unsigned seed = 23, matched = 0, passed_over = 0;

    for (int i = 0; i < 300000; i++) {
        redirect_literals list = {.len = 0};
        const char *pattern = random_text(&seed, "ab.**?[]\\/", 6);
        const char *name = random_text(&seed, "abA.\n", 6);
        bool match = apr_fnmatch(pattern, name, APR_FNM_PATHNAME) == APR_SUCCESS;

        if (!redirect_literals_add_wildcards(&list, pattern))
            continue;
        if (redirect_literals_any(list.bytes, name))
            matched += match;
        else if (match)
            ck_abort_msg("pattern %s name %s", pattern, name);
        else
            passed_over++;
        apr_pool_clear(pool);
    }
    ck_assert_uint_gt(matched, 1000);
    ck_assert_uint_gt(passed_over, 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_literals");
    TCase *group = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_set_timeout(group, 60); /* localedef takes some seconds on a busy machine */
    tcase_add_checked_fixture(group, setup, teardown);
    tcase_add_test(group, names_are_compared);
    tcase_add_test(group, no_locale_changes_what_is_found);
    tcase_add_test(group, an_empty_list_has_nothing);
    tcase_add_test(group, not_all_is_known);
    tcase_add_test(group, a_long_text_is_cut);
    tcase_add_test(group, too_many_have_no_room);
    tcase_add_test(group, wildcards_are_compared_as_apr_does);
    suite_add_tcase(suite, group);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
