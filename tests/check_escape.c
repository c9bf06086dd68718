/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of base/escape.c: hostile names in each form of the status page, and, for every byte
 * and random texts, that what comes out is valid UTF-8 on one line. Run by 'make check'.
 */
#include "pool_fixture.h"
#include "suite_util.h"
#include "base/escape.h"

#include <apr_strings.h>
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text, *json, *html, *label, *line;
} cases[] = {
    {"", "\"\"", "", "", ""},
    {"plain/.htaccess", "\"plain/.htaccess\"", "plain/.htaccess", "plain/.htaccess",
     "plain/.htaccess"},
    {"a\"b'c", "\"a\\\"b'c\"", "a&quot;b&#39;c", "a\\\"b'c", "a\"b'c"},
    {"back\\slash", "\"back\\\\slash\"", "back\\slash", "back\\\\slash", "back\\\\slash"},
    {"</script><b>&", "\"\\u003c/script\\u003e\\u003cb\\u003e\\u0026\"",
     "&lt;/script&gt;&lt;b&gt;&amp;", "</script><b>&", "</script><b>&"},
    {"line\nfeed\r\t", "\"line\\u000afeed\\u000d\\u0009\"", "line\\x0afeed\\x0d\\x09",
     "line\\nfeed\r\t", "line\\x0afeed\\x0d\\x09"},
    {"\x1b[31m\x7f", "\"\\u001b[31m\\u007f\"", "\\x1b[31m\\x7f", "\x1b[31m\x7f", "\\x1b[31m\\x7f"},
    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xba", "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xba\"",
     "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xba", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xba",
     "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x8d\xba"},
    {"latin \xe9", "\"latin \\u00e9\"", "latin \\xe9", "latin \xc3\xa9", "latin \\xe9"},
    /* Overlong, surrogate, too high, cut short: not UTF-8. */
    {"\xc0\xaf", "\"\\u00c0\\u00af\"", "\\xc0\\xaf", "\xc3\x80\xc2\xaf", "\\xc0\\xaf"},
    {"\xed\xa0\x80", "\"\\u00ed\\u00a0\\u0080\"", "\\xed\\xa0\\x80", "\xc3\xad\xc2\xa0\xc2\x80",
     "\\xed\\xa0\\x80"},
    {"\xf4\x90\x80\x80", "\"\\u00f4\\u0090\\u0080\\u0080\"", "\\xf4\\x90\\x80\\x80",
     "\xc3\xb4\xc2\x90\xc2\x80\xc2\x80", "\\xf4\\x90\\x80\\x80"},
    {"\xe2\x82", "\"\\u00e2\\u0082\"", "\\xe2\\x82", "\xc3\xa2\xc2\x82", "\\xe2\\x82"},
    /* What turns the text around it, and what is not seen. */
    {"a\xe2\x80\xaez", "\"a\xe2\x80\xaez\"", "a\\u202ez", "a\xe2\x80\xaez", "a\\u202ez"},
    {"a\xc2\x85z", "\"a\xc2\x85z\"", "a\\u0085z", "a\xc2\x85z", "a\\u0085z"},
    {"a\xef\xbb\xbfz", "\"a\xef\xbb\xbfz\"", "a\\ufeffz", "a\xef\xbb\xbfz", "a\\ufeffz"},
};

START_TEST(each_form)
{
    ck_assert_str_eq(htc_escape_json(pool, cases[_i].text), cases[_i].json);
    ck_assert_str_eq(htc_escape_html(pool, cases[_i].text), cases[_i].html);
    ck_assert_str_eq(htc_escape_label(pool, cases[_i].text), cases[_i].label);
    ck_assert_str_eq(htc_escape_line(pool, cases[_i].text), cases[_i].line);
}
END_TEST

static const struct {
    const char *text;
    size_t len, printable;
} characters[] = {{"a", 1, 1},
                  {" ", 1, 1},
                  {"~", 1, 1},
                  {"\x1f", 1, 0},
                  {"\x7f", 1, 0},
                  {"\x1b[0m", 4, 0},
                  {"\xc3\xa9", 2, 2},
                  {"\xc3\xa9", 1, 0}, /* cut off */
                  {"\xc2\x9b", 2, 0}, /* a C1 control, which begins an escape sequence */
                  {"\xc2\xa0", 2, 2},
                  {"\xc0\x80", 2, 0}, /* overlong */
                  {"\xe2\x82\xac", 3, 3},
                  {"\xe2\x82\xac", 2, 0},
                  {"\xe2\x80\xae", 3, 0}, /* from right to left */
                  {"\xe2\x80\xa8", 3, 0}, /* a line separator */
                  {"\xe2\x81\xa6", 3, 0},
                  {"\xed\xa0\x80", 3, 0}, /* a surrogate */
                  {"\xf0\x9f\x8d\xba", 4, 4},
                  {"\xf0\x9f\x8d\xba", 3, 0},
                  {"\xf4\x90\x80\x80", 4, 0}, /* beyond Unicode */
                  {"\xff", 1, 0}};

START_TEST(what_is_printable)
{
    /* At the end of its memory: nothing behind the length is read. */
    unsigned char *copy = malloc(characters[_i].len);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, characters[_i].text, characters[_i].len);
    ck_assert_uint_eq(htc_printable(copy, characters[_i].len), characters[_i].printable);
    free(copy);
}
END_TEST

START_TEST(null_stays_null)
{
    ck_assert_ptr_null(htc_escape_json(pool, NULL));
    ck_assert_ptr_null(htc_escape_html(pool, NULL));
    ck_assert_ptr_null(htc_escape_label(pool, NULL));
    ck_assert_ptr_null(htc_escape_line(pool, NULL));
}
END_TEST

static bool is_utf8(const char *text)
{
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t len = *s < 0x80 ? 1 : htc_utf8_length(s);

        if (!len)
            return false;
        s += len;
    }
    return true;
}

/* Random bytes, with more than their share of those that mean something. */
static void random_text(char *text, size_t len)
{
    static const char special[] = "<>&\"'\\\n\r\t\x1b\x7f\xc3\xa9\xe2\x80\xae\xed\xf0\x9f\x8d\xba";

    for (size_t i = 0; i < len; i++) {
        int c = rand() % 3 ? special[(size_t)rand() % (sizeof(special) - 1)] : rand() % 255 + 1;
        text[i] = (char)c;
    }
    text[len] = '\0';
}

START_TEST(random_texts_stay_harmless)
{
    for (int i = 0; i < 200000; i++) {
        char text[33];
        const char *json, *html, *label, *line;

        random_text(text, (size_t)rand() % (sizeof(text) - 1));
        json = htc_escape_json(pool, text);
        html = htc_escape_html(pool, text);
        label = htc_escape_label(pool, text);
        line = htc_escape_line(pool, text);
        ck_assert(is_utf8(json) && is_utf8(html) && is_utf8(label) && is_utf8(line));
        ck_assert_ptr_null(strpbrk(json, "<>&\n\r\x1b"));
        ck_assert_ptr_null(strpbrk(html, "<>\"'\n\r\t\x1b\x7f"));
        ck_assert_ptr_null(strpbrk(label, "\n"));
        ck_assert_ptr_null(strpbrk(line, "\n\r\x1b"));
        for (const char *q = label; (q = strchr(q, '"')); q++)
            ck_assert(q > label && q[-1] == '\\');
        apr_pool_clear(pool);
    }
}
END_TEST

static const struct {
    const char *name, *word;
} words[] = {
    {"/srv/maps/a-b_c.1.csv", "/srv/maps/a-b_c.1.csv"},
    {"C:%41@x,y+z=1", "C:%41@x,y+z=1"},
    {"/srv/m\xc3\xa4rz.csv", "/srv/m\xc3\xa4rz.csv"},
    {"", "''"},
    {"a b", "'a b'"},
    {"$(reboot)", "'$(reboot)'"},
    {"~/a", "'~/a'"},
    {"a\\b", "'a\\b'"},
    {"a*;b", "'a*;b'"},
    {"it's", "'it'\"'\"'s'"},
    {"''", "''\"'\"''\"'\"''"},
};

START_TEST(words_of_a_shell)
{
    ck_assert_str_eq(htc_shell_word(pool, words[_i].name), words[_i].word);
}
END_TEST

/* The shell is the judge. */
START_TEST(a_shell_reads_the_name)
{
    for (int i = 0; i < 50; i++) {
        char text[33], read[64];
        size_t n;
        FILE *out;

        random_text(text, (size_t)rand() % (sizeof(text) - 1));
        out = popen(apr_pstrcat(pool, "printf %s ", htc_shell_word(pool, text), NULL), "r");
        ck_assert_ptr_nonnull(out);
        n = fread(read, 1, sizeof(read), out);
        ck_assert_int_eq(pclose(out), 0);
        ck_assert_uint_eq(n, strlen(text));
        ck_assert_mem_eq(read, text, n);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("escape");
    TCase *tc = tcase_create("escape");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, each_form, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(tc, what_is_printable, 0,
                        (int)(sizeof(characters) / sizeof(characters[0])));
    tcase_add_test(tc, null_stays_null);
    tcase_add_test(tc, random_texts_stay_harmless);
    tcase_add_loop_test(tc, words_of_a_shell, 0, (int)(sizeof(words) / sizeof(words[0])));
    tcase_add_test(tc, a_shell_reads_the_name);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
