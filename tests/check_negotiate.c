/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/negotiate/: each rule of RFC 9110, 12.4.2, 12.5.1 and 12.5.4, and of RFC 4647,
 * 3.3.1, with their own examples; each choice and each malformed case that negotiate.h names. Run by
 * 'make check'. check_negotiate_random.c compares random headers with an oracle.
 */
#include "suite_util.h"
#include "negotiate/negotiate.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define MAX_ROWS        8

/* "TYPES" or "TYPES | LANGUAGES", as a row has them; "-": none. Ends with NULL. */
typedef const char *const *row_list;

static char written[MAX_ROWS][2][500];
static negotiate_variant variants[MAX_ROWS];

/* A row's list from text to to; false: it is none. */
static bool write_list(const char *text, size_t len, char *to, const char **list, size_t *list_len,
                       size_t (*check)(const char *, size_t, char *))
{
    *list = to;
    *list_len = 0;
    if (!len || (len == 1 && *text == '-'))
        return true;
    return (*list_len = check(text, len, to)) > 0;
}

static unsigned read_rows(row_list rows)
{
    unsigned n = 0;

    for (; rows[n]; n++) {
        const char *bar = strstr(rows[n], " | ");
        negotiate_variant *v = &variants[n];

        ck_assert(n < MAX_ROWS);
        ck_assert_msg(write_list(rows[n], bar ? (size_t)(bar - rows[n]) : strlen(rows[n]),
                                 written[n][0], &v->types, &v->types_len, negotiate_types) &&
                          write_list(bar ? bar + 3 : "", bar ? strlen(bar + 3) : 0, written[n][1],
                                     &v->languages, &v->languages_len, negotiate_languages),
                      "row '%s'", rows[n]);
    }
    return n;
}

static negotiate_answer ask(row_list rows, const char *accept, const char *accept_language)
{
    unsigned n = read_rows(rows);
    negotiation negotiation;

    memset(&negotiation, 0xa5, sizeof(negotiation));
    negotiate_begin(&negotiation, accept, accept_language);
    for (unsigned i = 0; i < n; i++)
        negotiate_offer(&negotiation, &variants[i]);
    return negotiate_end(&negotiation);
}

#define ROWS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NONE      (-1)

/* Which row is chosen; NONE. */
static int row_of(row_list rows, const char *accept, const char *accept_language)
{
    negotiate_answer answer = ask(rows, accept, accept_language);

    return answer.outcome == NEGOTIATE_NONE ? NONE : (int)answer.index;
}

static void is_row(int row, row_list rows, const char *accept, const char *accept_language)
{
    int got = row_of(rows, accept, accept_language);

    ck_assert_msg(got == row, "Accept: %s, Accept-Language: %s: row %d, should be %d",
                  accept ? accept : "(none)", accept_language ? accept_language : "(none)", got,
                  row);
}

/* The weight of one type (language), in thousandths: another type with a known weight is better or
 * not. */
static int weight_of(const char *type, bool is_language, const char *value)
{
    char header[70000], row[300];
    const char *other = is_language ? "xx-other" : "x-other/x-other";
    int low = 0, high = 1000;

    while (low < high) {
        int middle = (low + high) / 2;

        snprintf(row, sizeof(row), is_language ? "- | %s" : "%s", type);
        if (middle + 1 == 1000)
            snprintf(header, sizeof(header), "%s, %s", other, value);
        else
            snprintf(header, sizeof(header), "%s;q=0.%03d, %s", other, middle + 1, value);
        /* Of equals the first one wins: row 0 has that weight or more. */
        if (row_of(ROWS(row, is_language ? "- | xx-other" : "x-other/x-other"),
                   is_language ? NULL : header, is_language ? header : NULL) == 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

typedef struct weight_case {
    const char *header, *type;
    int weight;
} weight_case;

#define RFC9110_TABLE_5                                                                         \
    "text/*;q=0.3, text/plain;q=0.7, text/plain;format=flowed, text/plain;format=fixed;q=0.4, " \
    "*/*;q=0.5"
#define RFC7231_TABLE \
    "text/*;q=0.3, text/html;q=0.7, text/html;level=1, text/html;level=2;q=0.4, */*;q=0.5"
#define EIGHT ";a=1;b=2;c=3;d=4;e=5;f=6;g=7;h=8"

static const weight_case type_weights[] = {
    /* 12.5.1's examples */
    {"audio/*; q=0.2, audio/basic", "audio/basic", 1000},
    {"audio/*; q=0.2, audio/basic", "audio/mpeg", 200},
    {"audio/*; q=0.2, audio/basic", "video/mpeg", 0},
    {"text/plain; q=0.5, text/html,\t text/x-dvi; q=0.8, text/x-c", "text/html", 1000},
    {"text/plain; q=0.5, text/html,\t text/x-dvi; q=0.8, text/x-c", "text/x-c", 1000},
    {"text/plain; q=0.5, text/html,\t text/x-dvi; q=0.8, text/x-c", "text/x-dvi", 800},
    {"text/plain; q=0.5, text/html,\t text/x-dvi; q=0.8, text/x-c", "text/plain", 500},
    {RFC9110_TABLE_5, "text/plain;format=flowed", 1000},
    {RFC9110_TABLE_5, "text/plain", 700},
    {RFC9110_TABLE_5, "text/html", 300},
    {RFC9110_TABLE_5, "image/jpeg", 500},
    {RFC9110_TABLE_5, "text/plain;format=fixed", 400},
    /* The table says 0.7, left over from RFC 7231, whose header had text/html: erratum 7138. */
    {RFC9110_TABLE_5, "text/html;level=3", 300},
    {RFC7231_TABLE, "text/html;level=1", 1000},
    {RFC7231_TABLE, "text/html", 700},
    {RFC7231_TABLE, "text/plain", 300},
    {RFC7231_TABLE, "image/jpeg", 500},
    {RFC7231_TABLE, "text/html;level=2", 400},
    {RFC7231_TABLE, "text/html;level=3", 700},
    /* 12.4.2: up to three digits, 1 when there is none; 12.4.3: what is not mentioned is not
     * acceptable without a wildcard */
    {"a/b;q=0.5", "a/b", 500},
    {"a/b;q=0.05", "a/b", 50},
    {"a/b;q=0.123", "a/b", 123},
    {"a/b;q=0.001", "a/b", 1},
    {"a/b;q=0.999", "a/b", 999},
    {"a/b;q=0", "a/b", 0},
    {"a/b;q=0.", "a/b", 0},
    {"a/b;q=0.000", "a/b", 0},
    {"a/b;q=1", "a/b", 1000},
    {"a/b;q=1.", "a/b", 1000},
    {"a/b;q=1.000", "a/b", 1000},
    {"a/b;Q=0.5", "a/b", 500},
    {"a/b \t; \t q=0.5", "a/b", 500},
    {"a/b", "a/c", 0},
    {"*/*;q=0.1, a/b;q=0", "a/b", 0},
    {"*/*;q=0.1, a/*;q=0", "a/b", 0},
    {"*/*;q=0, a/b;q=0.2", "a/b", 200},
    /* precedence, whatever the order */
    {"text/*;q=0.3, text/plain;q=0.2, text/plain;format=flowed;q=0.1, */*;q=0.4",
     "text/plain;format=flowed", 100},
    {"*/*;q=0.4, text/plain;format=flowed;q=0.1, text/plain;q=0.2, text/*;q=0.3", "text/plain",
     200},
    {"*/*;q=0.4, text/plain;format=flowed;q=0.1, text/plain;q=0.2, text/*;q=0.3", "text/html", 300},
    {"*/*;q=0.4, text/plain;format=flowed;q=0.1, text/plain;q=0.2, text/*;q=0.3", "a/b", 400},
    {"a/b;x=1;q=0.1, a/b;x=1;y=2;q=0.2, a/b;q=0.3", "a/b;x=1;y=2", 200},
    {"a/b;x=1;q=0.1, a/b;x=1;y=2;q=0.2, a/b;q=0.3", "a/b;y=2;x=1", 200},
    {"a/b;x=1;q=0.1, a/b;x=1;y=2;q=0.2, a/b;q=0.3", "a/b;x=1;z=2", 100},
    {"a/b;x=1;q=0.1, a/b;x=1;y=2;q=0.2, a/b;q=0.3", "a/b;x=2;y=2", 300},
    {"a/*;x=1;q=0.1, a/b;q=0.2", "a/b;x=1", 200},
    {"a/*;x=1;q=0.1, a/*;q=0.2", "a/b;x=1", 100},
    {"*/*;x=1;q=0.1, */*;q=0.2", "a/b;x=1", 100},
    {"*/*;x=1;q=0.1, */*;q=0.2", "a/b", 200},
    /* equally specific: the first one */
    {"a/b;q=0.1, a/b;q=0.2", "a/b", 100},
    {"a/b;q=0.2, a/b;q=0.1", "a/b", 200},
    {"a/b;q=0, a/b", "a/b", 0},
    {"a/b;x=1;q=0.1, a/b;y=1;q=0.2", "a/b;x=1;y=1", 100},
    /* names end where they end */
    {"a/bc", "a/b", 0},
    {"a/b", "a/bc", 0},
    {"ab/*", "a/b", 0},
    {"a/*", "ab/b", 0},
    /* case, and quoted strings */
    {"TEXT/Html;CharSet=UTF-8;q=0.5", "text/HTML;charset=utf-8", 500},
    {"TeXt/*;q=0.5", "text/html", 500},
    {"a/b;x=\"1\";q=0.5", "a/b;x=1", 500},
    {"a/b;x=1;q=0.5", "a/b;x=\"1\"", 500},
    {"a/b;x=\"\\1\";q=0.5", "a/b;x=1", 500},
    {"a/b;x=\"1 \";q=0.5", "a/b;x=1", 0},
    {"a/b;x=\"\";q=0.5", "a/b;x=\"\"", 500},
    {"a/b;x=\"\";q=0.5", "a/b;x=1", 0},
    {"a/b;x=\"a,b;q=0\";q=0.5", "a/b;x=\"a,b;q=0\"", 500},
    {"a/b;x=\"\\\",\";q=0.5, a/c;q=0.25", "a/b;x=\"\\\",\"", 500},
    {"a/b;x=\"\\\",\";q=0.5, a/c;q=0.25", "a/c", 250},
    {"a/b;x=\"\xc3\xa9\";q=0.5", "a/b;x=\"\xc3\xa9\"", 500},
    {"application/ld+json;profile=\"http://www.w3.org/ns/json-ld#compacted\";q=0.5",
     "application/ld+json;profile=\"http://www.w3.org/ns/json-ld#compacted\"", 500},
    /* empty members, empty parameters, parameters behind the weight */
    {", ,\t,a/b;q=0.5 , ,", "a/b", 500},
    {"a/b;;q=0.5; ;", "a/b", 500},
    {"a/b;q=0.5;x=1", "a/b;x=1", 500},
    {"a/b;q=0.5;x=1", "a/b", 0},
    /* malformed: ignored as a whole, others count */
    {"a/b;q=1.001, a/*;q=0.25", "a/b", 250},
    {"a/b;q=2, a/*;q=0.25", "a/b", 250},
    {"a/b;q=-0.5, a/*;q=0.25", "a/b", 250},
    {"a/b;q=0.1234, a/*;q=0.25", "a/b", 250},
    {"a/b;q=00, a/*;q=0.25", "a/b", 250},
    {"a/b;q=, a/*;q=0.25", "a/b", 250},
    {"a/b;q, a/*;q=0.25", "a/b", 250},
    {"a/b;q=., a/*;q=0.25", "a/b", 250},
    {"a/b;q=\"0.5\", a/*;q=0.25", "a/b", 250},
    {"a/b;q=0.5;q=0.5, a/*;q=0.25", "a/b", 250},
    {"a/b;q= 0.5, a/*;q=0.25", "a/b", 250},
    {"a/b;q =0.5, a/*;q=0.25", "a/b", 250},
    {"a/b;q=0.5 x, a/*;q=0.25", "a/b", 250},
    {"a/b;x, a/*;q=0.25", "a/b", 250},
    {"a/b;x=, a/*;q=0.25", "a/b", 250},
    {"a/b;=1, a/*;q=0.25", "a/b", 250},
    {"a/b;x=1;X=1, a/*;q=0.25", "a/b;x=1", 250},
    {"a/b;x=\"1\"2, a/*;q=0.25", "a/b", 250},
    {"a/b;x=\"\x01\", a/*;q=0.25", "a/b", 250},
    {"a/b;x=\"\x7f\", a/*;q=0.25", "a/b", 250},
    {"a /b, a/*;q=0.25", "a/b", 250},
    {"a/ b, a/*;q=0.25", "a/b", 250},
    {"a/b/c, a/*;q=0.25", "a/b", 250},
    {"/b, a/*;q=0.25", "a/b", 250},
    {"a, a/*;q=0.25", "a/b", 250},
    {"a/, a/*;q=0.25", "a/b", 250},
    {"*/b, a/*;q=0.25", "a/b", 250},
    {"\x80/b, a/*;q=0.25", "a/b", 250},
    {"a/b;c=d e, a/*;q=0.25", "a/b", 250},
    {"a/*;q=0.25, c/d;x=\"a, a/b;q=0.5", "a/b", 250},
    {"a/*;q=0.25, c/d;x=\"\\\", a/b;q=0.5", "a/b", 250},
    {"c\"/d, a/b\"/c, a/*;q=0.25", "a/b", 250},
    {"a/b" EIGHT ";q=0.5, a/*;q=0.25", "a/b" EIGHT, 500},
    {"a/b" EIGHT ";i=9;q=0.5, a/*;q=0.25", "a/b" EIGHT, 250},
    /* httpd's exceptions, for Java */
    {"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "text/turtle", 200},
    {"text/html, image/gif, image/jpeg, *; q=.2", "text/turtle", 200},
    {"a/b;q=.5", "a/b", 500},
    {"a/b;q=.1234, a/*;q=0.25", "a/b", 250},
};

START_TEST(weights_of_types)
{
    const weight_case *c = &type_weights[_i];
    int weight = weight_of(c->type, false, c->header);

    ck_assert_msg(weight == c->weight, "Accept: %s: %s has %d, should have %d", c->header, c->type,
                  weight, c->weight);
}
END_TEST

static const weight_case language_weights[] = {
    /* 12.5.4's example: "I prefer Danish, but will accept British English and other types of
     * English" */
    {"da, en-gb;q=0.8, en;q=0.7", "da", 1000},
    {"da, en-gb;q=0.8, en;q=0.7", "en-GB", 800},
    {"da, en-gb;q=0.8, en;q=0.7", "en", 700},
    {"da, en-gb;q=0.8, en;q=0.7", "en-US", 700},
    {"da, en-gb;q=0.8, en;q=0.7", "en-GB-oed", 800},
    {"da, en-gb;q=0.8, en;q=0.7", "de", 0},
    /* RFC 4647, 3.3.1's examples */
    {"de-de;q=0.5", "de-DE", 500},
    {"de-de;q=0.5", "de-DE-1996", 500},
    {"de-de;q=0.5", "de-Deva", 0},
    {"de-de;q=0.5", "de-Latn-DE", 0},
    {"de-de;q=0.5", "de", 0},
    /* a prefix ends at a subtag */
    {"en;q=0.5", "eng", 0},
    {"en;q=0.5", "en-a", 500},
    {"en-u;q=0.5", "en-us", 0},
    /* "*" is for what no other range matches, wherever it stands */
    {"*;q=0.5, en;q=0.2", "en", 200},
    {"*;q=0.5, en;q=0.2", "de", 500},
    {"en;q=0, *", "en-US", 0},
    {"en;q=0, *", "de", 1000},
    {"en-US, en;q=0, *;q=0.1", "en-US", 1000},
    {"en-US, en;q=0, *;q=0.1", "en-GB", 0},
    {"*;q=0, en;q=0.3", "en", 300},
    {"*;q=0, en;q=0.3", "de", 0},
    {"*;q=0.5, *;q=0.2", "de", 500},
    /* the first of two */
    {"en;q=0.1, EN;q=0.2", "en", 100},
    /* case, white space, empty members, long ranges */
    {"EN-us ; Q=0.5", "en-US", 500},
    {" ,\t, en;q=0.5,,", "en", 500},
    {"zh-Hant-HK-x-abcdefgh;q=0.5, zh;q=0.2", "zh-hant-hk-X-abcdefgh", 500},
    {"zh-Hant-HK-x-abcdefgh;q=0.5, zh;q=0.2", "zh-hant-hk", 200},
    {"i-klingon;q=0.5", "i-klingon", 500},
    {"en;q=.5", "en", 500},
    /* malformed */
    {"en-*, en;q=0.25", "en-US", 250},
    {"*-US, en;q=0.25", "en-US", 250},
    {"en_US, en;q=0.25", "en-US", 250},
    {"abcdefghi, en;q=0.25", "abcdefgh", 0},
    {"abcdefgh;q=0.5, en;q=0.25", "abcdefgh", 500},
    {"en-, en;q=0.25", "en", 250},
    {"-en, en;q=0.25", "en", 250},
    {"en-123456789, en;q=0.25", "en-12345678", 250},
    {"1n, en;q=0.25", "en", 250},
    {"en;q=1.5, *;q=0.25", "en", 250},
    {"en;q=\"1\", *;q=0.25", "en", 250},
    {"en;q=0.5;q=0.5, *;q=0.25", "en", 250},
    {"en;, *;q=0.25", "en", 250},
    {"en;;q=1, *;q=0.25", "en", 250},
    {"en;q=1;, *;q=0.25", "en", 250},
    {"en;x=1, *;q=0.25", "en", 250},
    {"en;x=1;q=1, *;q=0.25", "en", 250},
    {"en;q=1 x, *;q=0.25", "en", 250},
    {"en x, *;q=0.25", "en", 250},
    {"*x, *;q=0.25", "en", 250},
    {"*;q=0.25, de\", en", "en", 250},
};

START_TEST(weights_of_languages)
{
    const weight_case *c = &language_weights[_i];
    int weight = weight_of(c->type, true, c->header);

    ck_assert_msg(weight == c->weight, "Accept-Language: %s: %s has %d, should have %d", c->header,
                  c->type, weight, c->weight);
}
END_TEST

#define CHROME "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"

START_TEST(the_best_row)
{
    row_list data = ROWS("text/turtle", "application/ld+json, application/json", "text/html");

    is_row(0, data, "text/turtle", NULL);
    is_row(1, data, "application/json", NULL);
    is_row(1, data, "text/html;q=0.8, application/json;q=0.9", NULL);
    is_row(2, data, CHROME, NULL);
    is_row(NONE, data, "image/png", NULL);
    is_row(NONE, data, "image/png, */*;q=0", NULL);
    is_row(NONE, data, "*/*;q=0", NULL);
    /* All types of a row count, not only the first one. */
    is_row(1, data, "application/ld+json;q=0, application/json;q=0.1", NULL);
    /* Equals: the first row, and it is the rows' order, not the header's. */
    is_row(0, data, "*/*", NULL);
    is_row(1, data, "text/html, application/json", NULL);
    is_row(0, data, "text/*", NULL);
    is_row(0, ROWS("text/html", "text/turtle"), "text/turtle, text/html", NULL);
}
END_TEST

START_TEST(no_header)
{
    row_list rows = ROWS("text/turtle | de", "text/html | en", "-");

    is_row(0, rows, NULL, NULL);
    is_row(1, rows, "text/html", NULL);
    is_row(1, rows, NULL, "en");
    /* Nothing is said by these, either. */
    is_row(0, rows, "", "");
    is_row(0, rows, " , ,", "\t");
    is_row(0, rows, "garbage", "e_n");
    is_row(0, rows, "text/html;q=7", "en;q=7");
    is_row(2, rows, "garbage, a/b", NULL);
}
END_TEST

START_TEST(defaults)
{
    row_list rows = ROWS("-", "text/turtle", "text/html", "-");
    negotiate_answer answer;

    /* Behind all that are acceptable, wherever it stands; the first one of several. */
    is_row(1, rows, "text/turtle;q=0.001", NULL);
    is_row(0, rows, "image/png", NULL);
    is_row(0, rows, "*/*;q=0", NULL);
    answer = ask(rows, "image/png", NULL);
    ck_assert_int_eq(answer.outcome, NEGOTIATE_DEFAULT);
    answer = ask(rows, "text/html", NULL);
    ck_assert_int_eq(answer.outcome, NEGOTIATE_CHOSEN);
    /* Where no row says anything there is nothing to fall back from. */
    answer = ask(ROWS("-", "-"), "text/html", "en");
    ck_assert_int_eq(answer.outcome, NEGOTIATE_CHOSEN);
    ck_assert_uint_eq(answer.index, 0);
    /* In one dimension alone: a row's type must be acceptable all the same. */
    rows = ROWS("text/html | en", "text/html");
    is_row(0, rows, "text/html", "en;q=0.001");
    is_row(1, rows, "text/html", "de");
    is_row(NONE, rows, "text/turtle", "de");
    ck_assert_int_eq(ask(rows, "text/html", "de").outcome, NEGOTIATE_DEFAULT);
    ck_assert_int_eq(ask(ROWS("text/html"), "text/html", "de").outcome, NEGOTIATE_CHOSEN);
    /* No rows at all. */
    answer = ask((row_list)(const char *const[]){NULL}, "text/html", "de");
    ck_assert_int_eq(answer.outcome, NEGOTIATE_NONE);
    ck_assert_uint_eq(answer.looked_at, 0);
}
END_TEST

START_TEST(both_dimensions)
{
    row_list matrix =
        ROWS("text/html | en", "text/html | de", "application/pdf | en", "application/pdf | de");
    row_list site = ROWS("text/turtle", "text/html | en", "text/html | de", "-");

    is_row(1, matrix, "text/html, application/pdf;q=0.5", "de, en;q=0.5");
    is_row(2, matrix, "text/html;q=0.5, application/pdf", "de;q=0.5, en");
    is_row(2, matrix, "application/pdf", "en");
    is_row(NONE, matrix, "application/pdf", "fr");
    is_row(NONE, matrix, "image/png", "en");
    is_row(0, matrix, NULL, NULL);
    is_row(1, matrix, NULL, "de");
    /* The type first, as in mod_negotiation; not the product, which is 0.1 and 0.9. */
    is_row(0, ROWS("text/html | de", "application/pdf | en"), "text/html, application/pdf;q=0.9",
           "en, de;q=0.1");
    /* Both must be acceptable. */
    is_row(1, ROWS("text/html | de", "application/pdf | en"), "text/html, application/pdf;q=0.9",
           "en");
    /* Data without a language, pages with one. */
    is_row(0, site, "text/turtle, text/html;q=0.1", "en");
    is_row(2, site, "text/turtle;q=0.1, text/html", "de, en;q=0.9");
    is_row(0, site, "text/turtle;q=0.1, text/html", "fr");
    is_row(3, site, "text/html", "fr");
    is_row(3, site, "image/png", "en");
    /* Of several languages of one row the best counts. */
    is_row(0, ROWS("- | en, fr", "- | de"), NULL, "de;q=0.5, fr;q=0.6");
    is_row(0, ROWS("- | en, en-US", "- | de"), NULL, "de;q=0.5, en-US");
    is_row(1, ROWS("- | en", "- | de"), NULL, "de;q=0.5, en-US");
}
END_TEST

START_TEST(what_was_looked_at)
{
    static const struct {
        const char *rows[3];
        unsigned looked_at;
    } cases[] = {{{"-", "-", NULL}, 0},
                 {{"text/html", "-", NULL}, NEGOTIATE_ACCEPT},
                 {{"-", "text/html", NULL}, NEGOTIATE_ACCEPT},
                 {{"- | en", "- | de", NULL}, NEGOTIATE_ACCEPT_LANGUAGE},
                 {{"text/html", "- | de", NULL}, NEGOTIATE_ACCEPT | NEGOTIATE_ACCEPT_LANGUAGE},
                 {{"text/html | en", "-", NULL}, NEGOTIATE_ACCEPT | NEGOTIATE_ACCEPT_LANGUAGE}};
    static const char *const accepts[] = {NULL, "", "text/html", "image/png", "*/*;q=0"};
    static const char *const languages[] = {NULL, "", "en", "fr", "*;q=0"};

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (size_t k = 0; k < COUNT_OF(accepts); k++)
            for (size_t m = 0; m < COUNT_OF(languages); m++)
                ck_assert_uint_eq(ask(cases[i].rows, accepts[k], languages[m]).looked_at,
                                  cases[i].looked_at);
}
END_TEST

/* "one" n times, then "last". */
static char *long_header(const char *one, unsigned n, const char *last)
{
    size_t len = strlen(one);
    char *header = malloc(len * n + strlen(last) + 1);

    ck_assert_ptr_nonnull(header);
    for (unsigned i = 0; i < n; i++)
        memcpy(header + i * len, one, len);
    memcpy(header + n * len, last, strlen(last) + 1);
    return header;
}

START_TEST(long_headers)
{
    static const struct {
        const char *one;
        unsigned n;
        const char *last;
        int row;
    } cases[] = {{"a/b,", NEGOTIATE_MEMBERS - 1, "c/d", 0},
                 {"a/b,", NEGOTIATE_MEMBERS, "c/d", NONE},
                 {"c/d;q=0,", 1, "", NONE},
                 /* Neither empty nor malformed members are counted. */
                 {", ", 1000000, "c/d", 0},
                 {"a/b;q=2,", 100000, "c/d", 0},
                 {"\"\\\"\",", 100000, "c/d", 0},
                 /* Names, values, and what is in quotes may be long. */
                 {"a", 1000000, "/b, c/d", 0},
                 {"c/d;q=0,a/b;x=\"", 1, "\", c/d;q=1", NONE},
                 /* No member counts, so it says nothing. */
                 {"\"", 100000, " a/b", 0}};
    row_list rows = ROWS("c/d");

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *header = long_header(cases[i].one, cases[i].n, cases[i].last);
        int row = row_of(rows, header, NULL);

        ck_assert_msg(row == cases[i].row, "case %zu: row %d", i, row);
        free(header);
    }
}
END_TEST

/* Lists of rows: what becomes of them; NULL: an error. */
static const struct {
    const char *list, *as;
} type_lists[] =
    {
        {"text/html", "text/html"},
        {" Text/HTML ,, application/xhtml+XML\t", "text/html,application/xhtml+xml"},
        {"text/plain ; Format=\"Flowed\" ;; charset=utf-8;",
         "text/plain;format=flowed;charset=utf-8"},
        {"a/b;x=\"a, b\", c/d", "a/b;x=\"a, b\",c/d"},
        {"a/b;x=\"\"", "a/b;x=\"\""},
        {"a/b;x=\"\\\"\"", "a/b;x=\"\\\"\""},
        {"a/b" EIGHT, "a/b" EIGHT},
        {"a/b" EIGHT ";i=9", NULL},
        {"", NULL},
        {" , ", NULL},
        {"text", NULL},
        {"*/*", NULL},
        {"*", NULL},
        {"text/*", NULL},
        {"te*t/html", NULL},
        {"text/html;q=0.5", NULL},
        {"text/html;Q=1", NULL},
        {"text/html;a", NULL},
        {"text/html;a=1;A=2", NULL},
        {"text/html, text", NULL},
        {"text/html text/plain", NULL},
        {"a/b;x=\"", NULL},
        {"a/b\x80", NULL},
},
  language_lists[] = {
      {"en", "en"},
      {" de-CH,,fr\t", "de-ch,fr"},
      {"zh-Hant-HK", "zh-hant-hk"},
      {"i-klingon, x-pig-latin", "i-klingon,x-pig-latin"},
      {"", NULL},
      {",", NULL},
      {"*", NULL},
      {"en-*", NULL},
      {"en_US", NULL},
      {"en;q=1", NULL},
      {"en de", NULL},
      {"en,1", NULL},
      {"abcdefghi", NULL},
      {"en-", NULL},
};

static void check_list(const char *list, const char *as,
                       size_t (*check)(const char *, size_t, char *))
{
    size_t len = strlen(list), got;
    char *from = malloc(len + 1), *to = malloc(len + 1);

    /* Of their very size, so that a sanitizer sees what lies outside. */
    ck_assert(from && to);
    memcpy(from, list, len);
    from = realloc(from, len ? len : 1);
    to = realloc(to, len ? len : 1);
    ck_assert(from && to);
    got = check(from, len, to);
    ck_assert_msg(got == (as ? strlen(as) : 0) && (!as || !memcmp(to, as, got)),
                  "'%s' became '%.*s'", list, (int)got, to);
    free(from);
    free(to);
}

START_TEST(lists_of_rows)
{
    for (size_t i = 0; i < COUNT_OF(type_lists); i++)
        check_list(type_lists[i].list, type_lists[i].as, negotiate_types);
    for (size_t i = 0; i < COUNT_OF(language_lists); i++)
        check_list(language_lists[i].list, language_lists[i].as, negotiate_languages);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("negotiate");
    TCase *tcase = tcase_create("negotiate");

    tcase_add_loop_test(tcase, weights_of_types, 0, COUNT_OF(type_weights));
    tcase_add_loop_test(tcase, weights_of_languages, 0, COUNT_OF(language_weights));
    tcase_add_test(tcase, the_best_row);
    tcase_add_test(tcase, no_header);
    tcase_add_test(tcase, defaults);
    tcase_add_test(tcase, both_dimensions);
    tcase_add_test(tcase, what_was_looked_at);
    tcase_add_test(tcase, long_headers);
    tcase_add_test(tcase, lists_of_rows);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
