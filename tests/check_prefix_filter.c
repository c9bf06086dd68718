/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/redirect_table/prefix_filter.c: what has to pass does, for named paths and for
 * millions of random ones, and of what need not pass almost nothing does. Run by 'make check'.
 */
#include "base/base.h"
#include "pool_fixture.h"
#include "redirect_table/prefix_filter.h"

#include <check.h>
#include <apr_strings.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum how { HEAD, WHOLE, PREFIX };

static void add(redirect_prefix_filter *prefixes, const char *text, enum how how)
{
    if (how == PREFIX)
        redirect_prefix_filter_add_prefix(prefixes, text, strlen(text), pool);
    else
        redirect_prefix_filter_add(prefixes, text, strlen(text), how == WHOLE);
}

static bool passes(const redirect_prefix_filter *prefixes, const char *path)
{
    return redirect_prefix_filter_passes(prefixes, path, strlen(path));
}

static const struct {
    enum how how;
    const char *text, *path;
    bool passes;
} cases[] = {
    {HEAD, "", "/any", true},
    {HEAD, "/a", "/a", true},
    {HEAD, "/a", "/abc", true},
    {HEAD, "/a", "/A/long/path/of/some/words", true},
    {HEAD, "/a", "/", false},
    {HEAD, "/a", "", false},
    {HEAD, "/a", "/b", false},
    {HEAD, "1234567", "1234567", true},
    {HEAD, "12345678", "1234567", false},
    {HEAD, "12345678", "12345678", true},
    {HEAD, "12345678", "123456789", true},
    {HEAD, "0123456789abcdef-", "0123456789abcdef-ghi", true},
    {HEAD, "0123456789abcdef-", "0123456789abcdeX", false},
    {WHOLE, "", "", true},
    {WHOLE, "", "/", false},
    {WHOLE, "", "\n", true},
    {WHOLE, "/a", "/a", true},
    {WHOLE, "/a", "/A", true},
    {WHOLE, "/a", "/a\n", true},
    {WHOLE, "/a", "/ab", false},
    {WHOLE, "12345678", "12345678", true},
    {WHOLE, "12345678", "123456789", false},
    {WHOLE, "/0123456789abcdef", "/0123456789ABCDEF", true},
    {WHOLE, "/0123456789abcdef", "/0123456789abcdeg", false},
    {PREFIX, "/a", "/a/b", true},
    {PREFIX, "//a", "/a", true},
    {PREFIX, "/a//b", "/a/b/c", true},
    {PREFIX, "/a/b", "/a//b", true},
    {PREFIX, "/a/b/c/d/e/f", "/a/b/c///d/e/f", true},
    {PREFIX, "/1234567/b", "/1234567//b", true},
    {PREFIX, "/123456/7", "/123456//7", true},
    {PREFIX, "/12345/7", "//12345/7", true},
    {PREFIX, "/a/", "/a/", true},
    {PREFIX, "/a/", "/a//", true},
    {PREFIX, "/a", "/b/c/d", false},
    {PREFIX, "/products/one", "/pictures/one/two", false},
};

START_TEST(named_paths)
{
    redirect_prefix_filter *prefixes = redirect_prefix_filter_create(1, pool);

    add(prefixes, cases[_i].text, cases[_i].how);
    ck_assert_msg(passes(prefixes, cases[_i].path) == cases[_i].passes, "'%s' and '%s'",
                  cases[_i].text, cases[_i].path);
}
END_TEST

START_TEST(an_open_one)
{
    redirect_prefix_filter *prefixes = redirect_prefix_filter_create(1, pool);

    ck_assert(!passes(prefixes, "/a") && !passes(prefixes, ""));
    redirect_prefix_filter_open(prefixes);
    ck_assert(passes(prefixes, "/a") && passes(prefixes, ""));
}
END_TEST

/* --- random ones ------------------------------------------------------------------------------*/

static uint64_t state;

static unsigned below(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % n;
}

/* Of few different bytes, so that one string often begins another. */
static void random_path(char *to, unsigned most)
{
    static const char bytes[] = "//aaAAbB.\x01\xe4\xc4";
    unsigned n = below(most + 1);

    for (unsigned i = 0; i < n; i++)
        to[i] = bytes[below(sizeof(bytes) - 1)];
    to[n] = '\0';
}

/* Bytes of the path that a prefix takes, as mod_alias finds it, or false. */
static bool alias_matches(const char *path, const char *prefix)
{
    while (*prefix) {
        if (*path != *prefix)
            return false;
        if (*prefix != '/') {
            path++;
            prefix++;
            continue;
        }
        path += strspn(path, "/");
        prefix += strspn(prefix, "/");
    }
    return true;
}

static bool has_to_pass(const char *text, enum how how, const char *path)
{
    if (how == PREFIX)
        return alias_matches(path, text);
    return how == WHOLE ? !strcasecmp(text, path) : !strncasecmp(text, path, strlen(text));
}

START_TEST(random_paths)
{
    char texts[8][80], path[100];
    enum how hows[8];

    state = (uint64_t)_i + 1;
    for (unsigned round = 0; round < 3000; round++) {
        unsigned n = 1 + below(8), longest = below(4) ? 20 : 79;
        redirect_prefix_filter *prefixes;

        apr_pool_clear(pool);
        prefixes = redirect_prefix_filter_create(n, pool);
        for (unsigned i = 0; i < n; i++) {
            random_path(texts[i], longest);
            hows[i] = (enum how)below(3);
            add(prefixes, texts[i], hows[i]);
        }
        for (unsigned asked = 0; asked < 60; asked++) {
            unsigned from = below(2 * n);

            random_path(path, 18);
            if (from < n) { /* one of them, with something behind it */
                memmove(path + strlen(texts[from]), path, strlen(path) + 1);
                memcpy(path, texts[from], strlen(texts[from]));
                if (below(2))
                    path[strlen(texts[from])] = '\0';
            }
            for (unsigned i = 0; i < n; i++)
                ck_assert_msg(!has_to_pass(texts[i], hows[i], path) || passes(prefixes, path),
                              "'%s' (%d) and '%s'", texts[i], hows[i], path);
        }
    }
}
END_TEST

START_TEST(few_others_pass)
{
    static const enum how hows[] = {HEAD, WHOLE, PREFIX};
    redirect_prefix_filter *prefixes = redirect_prefix_filter_create(10000, pool);
    unsigned passed = 0;
    char path[64];

    for (unsigned i = 0; i < 10000; i++) {
        snprintf(path, sizeof(path), "/%08x/%u", i * 2654435761u, i);
        add(prefixes, path, hows[_i]);
    }
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(path, sizeof(path), "/%08x/%u.html", i * 2654435761u + 77, i);
        passed += passes(prefixes, path);
    }
    ck_assert_uint_lt(passed, 300);
}
END_TEST

/* Without a type of 128 bits a hash is the same. */
START_TEST(products_are_folded)
{
    static const uint64_t products[][3] = {
        {0, 5, 0},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba987654321), UINT64_C(0x2317228f48165bb2)},
        {UINT64_C(0xffffffff), UINT64_C(0xffffffff00000001), UINT64_C(0x100000001)},
        {UINT64_C(0x8000000080000000), UINT64_C(0xc0000000ffffffff), UINT64_C(0x9fffffff5fffffff)}};

    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        ck_assert_uint_eq(htc_fold_product(products[i][0], products[i][1]), products[i][2]);
        ck_assert_uint_eq(htc_fold_product_halves(products[i][0], products[i][1]), products[i][2]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_prefix_filter");
    TCase *tests = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, named_paths, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(tests, an_open_one);
    tcase_add_loop_test(tests, random_paths, 0, 4);
    tcase_add_loop_test(tests, few_others_pass, 0, 3);
    tcase_add_test(tests, products_are_folded);
    suite_add_tcase(suite, tests);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
