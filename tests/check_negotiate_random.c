/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Random rows and headers, well-formed and not: each answer of src/negotiate/ is compared with that
 * of negotiate_oracle.c. Run by 'make check' for about a second; HTC_HEADERS=10000000 asks for more
 * pairs of headers, HTC_SEED=N for others.
 */
#include "suite_util.h"
#include "negotiate/negotiate.h"
#include "negotiate_oracle.h"

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define DEFAULT_HEADERS 100000
#define MAX_ROWS        400
#define MAX_TEXT        200 /* of a row's list */
#define MAX_HEADER      30000

typedef struct text {
    char *bytes;
    size_t len, size;
} text;

typedef struct row {
    char types[MAX_TEXT], languages[MAX_TEXT];                 /* as written */
    char offered_types[MAX_TEXT], offered_languages[MAX_TEXT]; /* as offered */
} row;

static uint64_t state;
static row rows[MAX_ROWS];
static oracle_row oracle_rows[MAX_ROWS];
static negotiate_variant variants[MAX_ROWS];
static int nrows;
static char accept_bytes[MAX_HEADER], language_bytes[MAX_HEADER];
static unsigned long outcomes[3], two_headers;

static uint64_t next_random(void)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele, Lea, Flood, 2014) */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static unsigned below(unsigned n)
{
    return (unsigned)(next_random() % n);
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

#define ONE_OF(array) ((array)[below(COUNT_OF(array))])

/* --- text ------------------------------------------------------------------------------------- */

static void put(text *t, const char *more)
{
    size_t len = strlen(more);

    if (t->len + len + 1 > t->size)
        return;
    memcpy(t->bytes + t->len, more, len + 1);
    t->len += len;
}

/* In any case. */
static void put_word(text *t, const char *word)
{
    size_t from = t->len;
    bool mixed = chance(15);

    put(t, word);
    for (size_t i = from; mixed && i < t->len; i++) {
        if (t->bytes[i] >= 'a' && t->bytes[i] <= 'z' && chance(50))
            t->bytes[i] = (char)(t->bytes[i] - 32);
    }
}

static void put_space(text *t)
{
    static const char *const spaces[] = {" ", "\t", "  ", " \t"};

    if (chance(25))
        put(t, ONE_OF(spaces));
}

static const char *const types[] = {"text", "text", "text", "application", "a", "te"};
static const char *const subtypes[] = {"html", "html", "plain", "turtle", "b", "ht", "ld+json"};
static const char *const names[] = {"format", "charset", "a", "b", "level", "profile"};
static const char *const values[] = {"flowed", "fixed", "1", "2", "utf-8", "x"};
static const char *const quoted[] = {
    "\"flowed\"",   "\"fl\\owed\"", "\"1\"",         "\"x\"",   "\"\"",
    "\"a,b\"",      "\"a;q=0\"",    "\"a\\\"b\"",    "\"a b\"", "\"\\\\\"",
    "\"http://u\"", "\"\xc3\xa9\"", "\"fl\\\\owed\""};
static const char *const subtags[] = {"us", "gb", "latn", "1996", "x", "u", "ch", "12345678"};
static const char *const tags[] = {"en", "en", "de", "fr", "e", "zh", "i", "engl"};

static void put_parameter(text *t)
{
    put_word(t, ONE_OF(names));
    put(t, "=");
    put_word(t, chance(70) ? ONE_OF(values) : ONE_OF(quoted));
}

static void put_parameters(text *t, unsigned percent)
{
    for (unsigned n = chance(percent) ? 1 + below(3) : 0; n; n--) {
        put_space(t);
        put(t, ";");
        put_space(t);
        if (chance(95))
            put_parameter(t);
    }
}

static void put_tag(text *t)
{
    put_word(t, ONE_OF(tags));
    for (unsigned n = chance(50) ? 1 + below(3) : 0; n; n--) {
        put(t, "-");
        put_word(t, ONE_OF(subtags));
    }
}

/* --- headers ---------------------------------------------------------------------------------- */

static void put_weight(text *t, bool odd)
{
    static const char *const good[] = {"0",   "0.0",   "0.000", "1",     "1.0", "1.000",
                                       "0.5", "0.50",  "0.9",   "0.001", "0.8", "0.999",
                                       "0.7", "0.500", "0.",    "1.",    ".5"};
    static const char *const bad[] = {"",     "1.001", "2",     "0.1234", "-1",  "\"0.5\"", "0,5",
                                      "00",   "01",    "0.5.1", "0.a",    ".",   "1e0",     "0.5 ",
                                      " 0.5", "10",    ".1234", "1.0000", "0x1", "5."};
    char number[8];

    put_space(t);
    put(t, ";");
    put_space(t);
    put(t, odd && chance(5) ? "q =" : chance(10) ? "Q=" : "q=");
    if (odd && chance(30))
        put(t, ONE_OF(bad));
    else if (chance(50))
        put(t, ONE_OF(good));
    else {
        snprintf(number, sizeof(number), "0.%0*u", (int)(1 + below(3)), below(10));
        put(t, number);
    }
}

/* A type of a row with some of its parameters, or a part of what is in quotes. False: it has none. */
static bool put_type_of_row(text *t)
{
    const negotiate_variant *v = &variants[nrows ? below((unsigned)nrows) : 0];
    char type[MAX_TEXT];
    size_t len = v->types_len;

    if (!nrows || !len)
        return false;
    memcpy(type, v->types, len);
    for (unsigned drop = below(3); len && drop; drop--) {
        const char *last = memrchr(type, ';', len);

        if (last)
            len = (size_t)(last - type);
    }
    type[len] = '\0';
    put_word(t, type);
    return true;
}

static void put_media_range(text *t, bool odd)
{
    static const char *const garbage[] = {
        "text", "/",  "text/",      "/html", "text//html", "*/html", "text/*x", "*x/html",
        "\"",   "\\", "text /html", "a/b c", "a/b/c",      "a/b=c",  "\x80/b",  "a\"b\"/c"};
    unsigned kind = below(20);

    if (odd && chance(10))
        put(t, ONE_OF(garbage));
    else if (kind > 15 && put_type_of_row(t))
        ;
    else if (kind < 3)
        put(t, kind || !odd ? "*/*" : "*");
    else {
        put_word(t, ONE_OF(types));
        put(t, "/");
        put_word(t, kind < 6 ? "*" : ONE_OF(subtypes));
    }
    put_parameters(t, 30);
    if (odd && chance(5)) {
        static const char *const wrong[] = {";a",
                                            ";=b",
                                            ";a=",
                                            ";a=\"b",
                                            ";a =b",
                                            "; a= b",
                                            ";a=b c",
                                            ";a=\"b\"c",
                                            ";a=\"\x01\"",
                                            ";a=\"b\\",
                                            ";\xe9=1",
                                            ";a=\x7f",
                                            ";a=b;a=b",
                                            ";;;",
                                            ";x1=1;x2=2;x3=3;x4=4;x5=5;x6=6;x7=7;x8=8",
                                            ";x1=1;x2=2;x3=3;x4=4;x5=5;x6=6;x7=7;x8=8;x9=9"};

        put(t, ONE_OF(wrong));
    }
    if (chance(60))
        put_weight(t, odd);
    if (odd && chance(10))
        put_weight(t, odd);
    put_parameters(t, 5);
}

static void put_language_range(text *t, bool odd)
{
    static const char *const garbage[] = {
        "en-*",    "*-us",         "en_US",     "e1",     "123456789", "en-",
        "-en",     "en--us",       "abcdefghi", "en us",  "\"",        "en;",
        "en;;q=1", "en-123456789", "**",        "en;a=1", "\xc3\xa9",  "*;"};

    if (odd && chance(10))
        put(t, ONE_OF(garbage));
    else if (chance(12))
        put(t, "*");
    else
        put_tag(t);
    if (chance(65))
        put_weight(t, odd);
    if (odd && chance(4))
        put(t, ";");
}

/* A byte more, less, or another one. */
static void damage(text *t)
{
    static const char bytes[] = "\",;=/*-\\q01. \taA\x80\x01\x7f%";
    size_t at = t->len ? below((unsigned)t->len) : 0;

    switch (t->len ? below(3) : 3) {
    case 0:
        t->bytes[at] = bytes[below(sizeof(bytes) - 1)];
        break;
    case 1:
        memmove(t->bytes + at, t->bytes + at + 1, t->len - at);
        t->len--;
        break;
    case 2:
        if (t->len + 2 > t->size)
            break;
        memmove(t->bytes + at + 1, t->bytes + at, t->len + 1 - at);
        t->bytes[at] = bytes[below(sizeof(bytes) - 1)];
        t->len++;
        break;
    default:
        break;
    }
}

/* NULL: no such header. */
static const char *random_header(char *bytes, void (*put_range)(text *, bool))
{
    text t = {bytes, 0, MAX_HEADER};
    bool odd = chance(40);
    unsigned n = chance(2) ? 60 + below(90) : below(8);

    if (chance(4))
        return NULL;
    *bytes = '\0';
    for (unsigned i = 0; i < n; i++) {
        if (i)
            put(&t, ",");
        put_space(&t);
        if (chance(96))
            put_range(&t, odd);
        put_space(&t);
    }
    for (unsigned i = odd && chance(40) ? 1 + below(4) : 0; i; i--)
        damage(&t);
    return bytes;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void put_type(text *t)
{
    put_word(t, ONE_OF(types));
    put(t, "/");
    put_word(t, ONE_OF(subtypes));
    put_parameters(t, 35);
}

/* A row's list, as it is offered. Rarely none that a row may have: false. */
static bool random_list(char *list, char *offered, size_t *len, void (*put_member)(text *),
                        size_t (*check)(const char *, size_t, char *),
                        bool (*is_list)(const char *))
{
    text t = {list, 0, MAX_TEXT};
    char again[MAX_TEXT];

    *list = '\0';
    for (unsigned n = chance(75) ? 1 : 2 + below(2); n; n--) {
        put_space(&t);
        put_member(&t);
        put_space(&t);
        if (n > 1)
            put(&t, ",");
    }
    if (chance(5))
        damage(&t);
    *len = check(list, t.len, offered);
    /* libcheck writes to a file for each assertion, which takes longer than all the rest. */
    if ((*len > 0) != is_list(list))
        ck_abort_msg("is '%s' a list?", list);
    if (*len > t.len)
        ck_abort_msg("'%s' became longer", list);
    if (!*len)
        return false;
    if (check(offered, *len, again) != *len || memcmp(again, offered, *len) != 0)
        ck_abort_msg("'%s' is written in two ways", list);
    return true;
}

static void random_rows(void)
{
    unsigned with_types = chance(80) ? 60 + below(41) : 0,
             with_languages = chance(60) ? 60 + below(41) : 0;

    nrows = chance(1) ? 300 : (int)below(9);
    for (int i = 0; i < nrows; i++) {
        oracle_row *o = &oracle_rows[i];
        negotiate_variant *v = &variants[i];

        *o = (oracle_row){NULL, NULL};
        *v = (negotiate_variant){rows[i].offered_types, rows[i].offered_languages, 0, 0};
        if (chance(with_types) && random_list(rows[i].types, rows[i].offered_types, &v->types_len,
                                              put_type, negotiate_types, oracle_is_type_list))
            o->types = rows[i].types;
        if (chance(with_languages) &&
            random_list(rows[i].languages, rows[i].offered_languages, &v->languages_len, put_tag,
                        negotiate_languages, oracle_is_language_list))
            o->languages = rows[i].languages;
    }
}

/* --- the comparison --------------------------------------------------------------------------- */

static void say_rows(void)
{
    for (int i = 0; i < nrows && i < 20; i++)
        printf("  row %d: types '%s' languages '%s'\n", i,
               oracle_rows[i].types ? oracle_rows[i].types : "-",
               oracle_rows[i].languages ? oracle_rows[i].languages : "-");
}

static bool same_answer(const char *accept, const char *accept_language)
{
    oracle_answer right = oracle_negotiate(accept, accept_language, oracle_rows, nrows);
    negotiate_answer answer;
    negotiation n;
    unsigned looked_at = (right.accept ? NEGOTIATE_ACCEPT : 0U) |
                         (right.accept_language ? NEGOTIATE_ACCEPT_LANGUAGE : 0U);
    negotiate_outcome outcome = right.row < 0      ? NEGOTIATE_NONE
                                : right.by_default ? NEGOTIATE_DEFAULT
                                                   : NEGOTIATE_CHOSEN;

    memset(&n, 0xa5, sizeof(n));
    negotiate_begin(&n, accept, accept_language);
    for (int i = 0; i < nrows; i++)
        negotiate_offer(&n, &variants[i]);
    answer = negotiate_end(&n);
    outcomes[outcome]++;
    two_headers += right.accept && right.accept_language && outcome != NEGOTIATE_NONE;
    if (answer.outcome == outcome && answer.looked_at == looked_at &&
        (right.row < 0 || answer.index == (size_t)right.row))
        return true;
    printf("Accept: %s\nAccept-Language: %s\n", accept ? accept : "(none)",
           accept_language ? accept_language : "(none)");
    say_rows();
    printf("  oracle: row %d outcome %d looked at %u; answer: row %d outcome %d looked at %u\n",
           right.row, (int)outcome, looked_at,
           answer.outcome == NEGOTIATE_NONE ? -1 : (int)answer.index, (int)answer.outcome,
           answer.looked_at);
    return false;
}

START_TEST(random_headers)
{
    const char *given = getenv("HTC_SEED"), *more = getenv("HTC_HEADERS");
    unsigned long headers = more ? strtoul(more, NULL, 10) : DEFAULT_HEADERS;
    uint64_t seed = given ? strtoull(given, NULL, 10) : 26;

    state = seed;
    for (unsigned long i = 0; i < headers; i++) {
        const char *accept, *accept_language;

        if (i % 4 == 0)
            random_rows();
        accept = random_header(accept_bytes, put_media_range);
        accept_language = random_header(language_bytes, put_language_range);
        if (!same_answer(accept, accept_language))
            ck_abort_msg("another answer than the oracle's; HTC_SEED=%llu, pair %lu",
                         (unsigned long long)seed, i);
    }
    printf("%lu pairs of headers, seed %llu: none acceptable %lu, chosen %lu, the default %lu; by "
           "both "
           "headers %lu\n",
           headers, (unsigned long long)seed, outcomes[NEGOTIATE_NONE], outcomes[NEGOTIATE_CHOSEN],
           outcomes[NEGOTIATE_DEFAULT], two_headers);
    /* Whatever the seed, the headers are of all kinds. */
    if (headers >= DEFAULT_HEADERS) {
        ck_assert(outcomes[NEGOTIATE_NONE] > headers / 20);
        ck_assert(outcomes[NEGOTIATE_CHOSEN] > headers / 5);
        ck_assert(outcomes[NEGOTIATE_DEFAULT] > headers / 20);
        ck_assert(two_headers > headers / 10);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("negotiate, random");
    TCase *random_case = tcase_create("random");

    tcase_add_test(random_case, random_headers);
    tcase_set_timeout(random_case, 7200);
    suite_add_tcase(suite, random_case);
    return run_suite(suite);
}
