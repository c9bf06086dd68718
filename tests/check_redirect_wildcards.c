/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Random rows of _redirects and vercel.json with wildcards and placeholders, in paths, queries and
 * targets and beside hosts, compared with an oracle that is written from the platforms' documents and
 * tries every place: wildcard_oracle.c. HTC_ANSWERS=1000000 asks for more answers, HTC_SEED=N repeats
 * a run. Run by 'make check'.
 */
#include "pool_fixture.h"
#include "redirect_map_util.h"
#include "suite_util.h"
#include "wildcard_oracle.h"

#include <apr_strings.h>
#include <apr_time.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS            12
#define URLS            40
#define DEFAULT_ANSWERS 30000
#define LONG            "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq"

static uint64_t state;

static unsigned draw(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state >> 33) % n;
}

#define PICK(array) ((array)[draw(COUNT_OF(array))])

/* --- rows ------------------------------------------------------------------------------------- */

static const char *const netlify_pieces[] = {
    "/",     "/:year", "/:id",  "/a",   "/*",   "/old",    "-x",     "*",
    "/A.b",  "%2Fc",   "/:m-x", "/new", "//",   ".pdf",    "/b",     "%C3%A9",
    "/:n*x", "%0A",    "/:i:j", "/:ab", ":k_2", "/-:u-:v", "/w:x",   ":a%41",
    "/:a",   "/:a.:b", "/a",    "/b",   "/%26", "/c",      "/" LONG, ":y" LONG};
static const char *const vercel_pieces[] = {
    "/:year",  "/:a-:b", "/old",      "/:p*",   "/:q+",    "/:r?",        "/a",
    "/(.*)",   "-x",     "/:c.:d-",   "%2Fc",   "/new",    "/",           "/:e.pdf",
    ".b",      "/:z",    "/:n(\\d+)", "%C3%A9", "(.*)",    "/(.*)?",      "/b",
    "/:s*",    "/:t+-x", "/:1",       "/w:x",   "/a\\:b",  "/:u:v",       "/(\\d+)",
    "/:w(.*)", "/c",     "/:f*",      "/" LONG, ":y" LONG, "/:j/b/:h?-x", "/:g/b/:l*c"};
static const char *const hosts[] = {"h.example", "a.h.example", "other.example"};
static const char *const row_hosts[] = {"//h.example", "https://h.example", "http://h.example",
                                        "//*.h.example"};
static const char *const parameters[] = {"id=5", "tag=2", "id=5 tag=2", "q=", "id=:id"};

static const char *random_source(bool vercel)
{
    const char *source = "";

    for (unsigned i = 1 + draw(4); i; i--)
        source =
            apr_pstrcat(pool, source, vercel ? PICK(vercel_pieces) : PICK(netlify_pieces), NULL);
    source += strspn(source, "/"); /* two of them begin a host */
    return apr_pstrcat(pool, "/", source, NULL);
}

/* Often the names of the source, in path, query, fragment and, which is a mistake, host. */
static const char *random_target(const char *source, unsigned number, bool vercel)
{
    static const char *const between[] = {"/", "-", "/x", "?x=", "", "&y=", "#", "/:80", "/$1"};
    const char *target = draw(4)   ? apr_psprintf(pool, "/t%u/~", number)
                         : draw(2) ? apr_psprintf(pool, "https://to.example/t%u/", number)
                                   : "/";
    unsigned group = 0;

    for (const char *s = source; *s; s++) {
        size_t n = strspn(s + (*s == ':'), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                                           "0123456789");
        const char *name = NULL;

        if (*s == '\\') {
            s++;
            continue;
        }
        if (*s == ':' && n)
            name = apr_pstrndup(pool, s, n + 1);
        else if (*s == '*' && !vercel)
            name = ":splat";
        group += name || *s == '(';
        if (vercel && (!draw(4) || *s == '(') && (name || *s == '('))
            name = apr_psprintf(pool, "$%u", group);
        else if (vercel && name && draw(2) && strchr("*+", s[n + 1]))
            name = apr_psprintf(pool, "%s%c", name, s[n + 1]);
        if (name && draw(60) == 0)
            target = apr_pstrcat(pool, "https://", name, ".example/", NULL);
        else if (name && draw(60) == 0)
            target = apr_pstrcat(pool, "/", name, NULL); /* which might be a host's name */
        else if (name && draw(4))
            target = apr_pstrcat(pool, target, PICK(between), name, NULL);
    }
    if (!vercel && strstr(source, "/*") && draw(2))
        target =
            apr_psprintf(pool, draw(2) ? "/t%u/:splat" : "https://to.example/t%u/:splat", number);
    if (draw(100) == 0)
        target = apr_pstrcat(pool, target, "/:nobody", NULL);
    return target;
}

static const char *json_text(const char *s)
{
    char *to = apr_palloc(pool, 2 * strlen(s) + 1), *start = to;

    for (; *s; *to++ = *s++) {
        if (*s == '\\' || *s == '"')
            *to++ = '\\';
    }
    *to = '\0';
    return start;
}

/* The row's text, ended by its line's. */
static const char *random_row(oracle_row *row, unsigned number, bool last)
{
    const char *source = random_source(row->vercel), *words = "";

    row->query = NULL;
    row->target = random_target(source, number, row->vercel);
    *row->host = '\0';
    if (row->vercel) {
        const char *has = "";

        if (draw(8) == 0) {
            strcpy(row->host, "h.example");
            has = ",\"has\":[{\"type\":\"host\",\"value\":\"h.example\"}]";
        }
        row->source = source;
        return apr_psprintf(pool, "{\"source\":\"%s\",\"destination\":\"%s\"%s}%s\n",
                            json_text(source), json_text(row->target), has, last ? "]}" : ",");
    }
    if (draw(8) == 0)
        source = apr_pstrcat(pool, PICK(row_hosts), source, NULL);
    row->source = source;
    if (draw(8) == 0) {
        char *query = apr_pstrdup(pool, words = PICK(parameters));

        row->query = query;
        for (; *query; query++)
            *query = *query == ' ' ? '&' : *query;
    }
    return apr_psprintf(pool, "%s %s %s\n", source, words, row->target);
}

/* --- URLs ------------------------------------------------------------------------------------- */

static const char *const path_pieces[] = {"/",    "/a",   "/old",   "/2024", "-x",   "/A.b", "//",
                                          "%2Fc", "%2fc", "/new",   "/é",    ".pdf", "/b-c", "%0A",
                                          "/",    "/:80", "/a.b-c", "/OLD",  "%26x", "/b",   "/c"};
static const char *const names[] = {"a", "b",   "-",  "a-b", "2024", "a.b",
                                    "x", "%2F", "\n", "é",   "A&b"};
static const char *const more[] = {"",      "/",        "a",         "a/b", "/a",
                                   "a//b/", "x/2024/-", "b/c/d.pdf", ".pdf"};

static const char *random_text(const oracle_part *p)
{
    const char *text;

    if (draw(12) == 0)
        return "";
    text = p->kind == ORACLE_ANY ? PICK(more) : p->kind == ORACLE_DIGITS ? "2024" : PICK(names);
    if (p->repeated && draw(2))
        text = apr_pstrcat(pool, text, "/", PICK(names), draw(2) ? "/b" : "", NULL);
    return !p->optional ? text : draw(3) ? apr_pstrcat(pool, "/", text, NULL) : "";
}

static const char *path_of_row(const oracle_row *row)
{
    char *path = apr_palloc(pool, ORACLE_TEXT), *to = path;

    for (unsigned i = 0; i < row->n; i++) {
        const oracle_part *p = &row->part[i];

        if (p->kind != ORACLE_BYTE)
            to += sprintf(to, "%s", random_text(p));
        else if (draw(60))
            *to++ = p->byte;
        else
            to += sprintf(to, "%s", draw(2) ? "" : draw(2) ? "/" : "A");
    }
    to += sprintf(to, "%s", draw(10) ? "" : draw(2) ? "/" : "//");
    *to = '\0';
    return *path == '/' ? path : apr_pstrcat(pool, "/", path, NULL);
}

/* As a client asks for the path: some bytes must be escaped, others may be. */
static const char *url_path(const char *path)
{
    char *to = apr_palloc(pool, 3 * strlen(path) + 1), *start = to;

    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        bool slash = !strncasecmp(path, "%2F", 3);

        if (c <= ' ' || strchr("?#\"<>\\^`{|}", c) || (c == '%' && !slash) ||
            (c != '/' && !slash && !draw(30)))
            to += sprintf(to, draw(2) ? "%%%02X" : "%%%02x", c);
        else if (slash) {
            to += sprintf(to, draw(2) ? "%%2F" : "%%2f");
            path += 2;
        } else
            *to++ = (char)c;
    }
    *to = '\0';
    return start;
}

/* What the server sees: all decoded, but for the slash. Slashes at the beginning are one. */
static const char *seen_path(const char *path, bool one_form)
{
    char *to = apr_palloc(pool, strlen(path) + 1), *start = to;
    unsigned byte;

    for (path += strspn(path, "/") - 1; *path; path++) {
        if (*path != '%' || sscanf(path, "%%%2x", &byte) != 1)
            *to++ = *path;
        else if (byte != '/') {
            *to++ = (char)byte;
            path += 2;
        } else
            *to++ = *path;
        if (one_form && to - start > 2 && !memcmp(to - 3, "%2f", 3))
            to[-1] = 'F';
    }
    *to = '\0';
    return start;
}

/* "." and ".." are resolved before a map is asked. */
static bool has_dots(const char *path)
{
    for (const char *s = strstr(path, "/."); s; s = strstr(s + 1, "/.")) {
        size_t n = strspn(s + 1, ".");

        if (n < 3 && (!s[1 + n] || s[1 + n] == '/'))
            return true;
    }
    return false;
}

/* Often one of the row's. */
static const char *random_path(const oracle_row *row)
{
    const char *path = "";

    if (draw(4))
        return url_path(path_of_row(row));
    for (unsigned i = 1 + draw(4); i; i--)
        path = apr_pstrcat(pool, path, PICK(path_pieces), NULL);
    return *path == '/' ? path : apr_pstrcat(pool, "/", path, NULL);
}

static const char *random_url(const oracle_row *rows, oracle_url *url)
{
    static const char *const queries[] = {
        "id=5",        "tag=2&id=5", "id=5&tag=2", "id=5&id=5", "id=5&&q=", "q",  "q=",
        "x=%26&y=a+b", "id=%3Aid",   "id=5&&",     "&id=5",     "q=&",      "&&", ""};
    const oracle_row *row = &rows[draw(ROWS)];
    const char *path, *text;

    do
        path = random_path(row);
    while (has_dots(seen_path(path, true)));
    *url = (oracle_url){.https = draw(2),
                        .host = PICK(hosts),
                        .path = seen_path(path, true),
                        .sent = seen_path(path, false)};
    url->query = row->query && draw(2) ? row->query : draw(4) ? NULL : PICK(queries);
    text = apr_psprintf(pool, "%s://%s%s", url->https ? "https" : "http", url->host, path);
    return url->query ? apr_pstrcat(pool, text, "?", url->query, NULL) : text;
}

/* --- comparing -------------------------------------------------------------------------------- */

/* So that a run has been of use. */
static unsigned long matched, wild, bad, refused, by_host, by_query, in_query;

static const char *wanted_of(const oracle_row *rows, const oracle_url *url, unsigned *line)
{
    char *to = apr_palloc(pool, ORACLE_TEXT);

    for (unsigned i = 0; i < ROWS; i++) {
        if (!oracle_ask(&rows[i], url, to))
            continue;
        *line = i + 1 + rows[i].vercel;
        matched++;
        wild += rows[i].wild;
        by_host += rows[i].wild && *rows[i].host;
        by_query += rows[i].wild && rows[i].query;
        in_query += rows[i].wild && strchr(rows[i].target, '?');
        refused += !strcmp(to, "refused");
        return to;
    }
    *line = 0;
    return "none";
}

static const char *got_of(test_map *map, const char *url)
{
    const char *got = test_map_ask(map, url), *location = strchr(got, ' ');
    char *to = apr_palloc(pool, ORACLE_TEXT);

    if (!location)
        return got;
    oracle_form(location + 1, to);
    return to;
}

static void compare_rows(test_map *map, const oracle_row *rows, const char *text)
{
    for (unsigned i = 0; i < ROWS; i++) {
        char line[16];

        snprintf(line, sizeof(line), "E%u", i + 1 + rows[i].vercel);
        bad += rows[i].bad;
        ck_assert_msg(test_map_said(map, line) == rows[i].bad, "%s: the oracle %s the row\n%s\n%s",
                      line, rows[i].bad ? "refuses" : "takes", text, map->log);
    }
}

static unsigned long one_map(void)
{
    static const char *const options[] = {
        "", "", "case=ignore", "slash=ignore", "query=drop", "case=ignore slash=ignore"};
    static oracle_row rows[ROWS];
    bool vercel = draw(2);
    const char *text = vercel ? "{\"redirects\":[\n" : "", *option = PICK(options);
    unsigned long answers = 0;
    test_map *map;

    for (unsigned i = 0; i < ROWS; i++) {
        rows[i].vercel = vercel;
        rows[i].icase = strstr(option, "case");
        rows[i].any_end = strstr(option, "slash");
        rows[i].drop_query = strstr(option, "drop");
        text = apr_pstrcat(pool, text, random_row(&rows[i], i, i + 1 == ROWS), NULL);
        oracle_read(&rows[i]);
    }
    map = test_map_load(vercel ? "vercel.json" : "_redirects", text, option);
    compare_rows(map, rows, text);
    for (unsigned j = 0; map->table && j < URLS; j++, answers++) {
        oracle_url url;
        unsigned line;
        const char *asked = random_url(rows, &url), *wanted = wanted_of(rows, &url, &line);
        const char *got = got_of(map, asked);

        ck_assert_msg(!strcmp(got, wanted) && test_map_line(map, asked) == line,
                      "%s: '%s' by line %u, not '%s' by line %u, of (%s)\n%s", asked, got,
                      test_map_line(map, asked), wanted, line, option, text);
    }
    test_map_free(map);
    return answers;
}

START_TEST(a_map_answers_as_the_documents_say)
{
    const char *seed = getenv("HTC_SEED"), *most = getenv("HTC_ANSWERS");
    unsigned long all = most ? strtoul(most, NULL, 10) : DEFAULT_ANSWERS, answers = 0;

    state = seed ? strtoull(seed, NULL, 10) : (uint64_t)apr_time_now();
    printf("wildcards: HTC_SEED=%llu\n", (unsigned long long)state);
    fflush(stdout);
    while (answers < all) {
        apr_pool_t *outer = pool;

        apr_pool_create(&pool, outer);
        answers += one_map();
        apr_pool_destroy(pool);
        pool = outer;
    }
    if (most)
        printf("wildcards: %lu answers, %lu by rows, %lu by wildcards, %lu with a host, %lu with a "
               "query, %lu to one; %lu refused, %lu bad rows\n",
               answers, matched, wild, by_host, by_query, in_query, refused, bad);
    ck_assert_uint_gt(wild, answers / 4);
    ck_assert_uint_gt(bad, answers / 2000);
    ck_assert_uint_gt(by_host, answers / 500);
    ck_assert_uint_gt(by_query, answers / 2000);
    ck_assert_uint_gt(in_query, answers / 200);
    ck_assert_uint_gt(refused, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_wildcards");
    TCase *tc = tcase_create("redirect_wildcards");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 3600);
    if (test_map_has_regexes())
        tcase_add_test(tc, a_map_answers_as_the_documents_say);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
