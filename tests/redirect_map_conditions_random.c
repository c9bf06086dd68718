/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Random rows with conditions, written in each format that has words for them, and random requests,
 * compared with a second look-up that is written from docs/redirect-maps.md and asks the oracle of
 * negotiation. HTC_HEADERS=1000000 asks for more requests, HTC_SEED=N for others. Part of
 * check_redirect_map_conditions.
 */
#include "negotiate_oracle.h"
#include "redirect_map_conditions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_REQUESTS 16000 /* each is asked of each format */
#define REQUESTS_OF_MAP  40

static uint64_t state;

static unsigned below(unsigned n)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele, Lea, Flood, 2014) */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((x ^ x >> 31) % n);
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

#define ONE_OF(array) ((array)[below(COUNT_OF(array))])
#define MAX_ROWS      14
#define NAMES         3 /* of cookies and of header fields */
#define SOURCES       4

/* What must hold of a name: nothing, that it is there, that it is not, that it has the value. */
typedef enum wish { ANY, THERE, NOT_THERE, VALUE, NOT_VALUE, WISHES } wish;

static const char *const wish_of_option[WISHES] = {"", "%s=%s", "!%s=%s", "%s=%s%s1", "!%s=%s%s1"};

/* A row, as the second look-up knows it. */
typedef struct row {
    unsigned source;             /* an index of sources of its format */
    wish post, country;          /* ANY, THERE, NOT_THERE */
    const char *country_written; /* in either case of letters */
    wish parameter, cookie[NAMES], header[NAMES];
    unsigned any_cookie;             /* bits: of these cookies one must be there; 0: need not */
    char types[100], languages[100]; /* "": none */
    bool refuses, missing_first;     /* what must not be there is asked first */
} row;

/* A request; 0: not there, 1: its value is 1, 2: another. */
typedef struct wanted {
    unsigned path;
    bool post, other_host;
    const char *country; /* NULL: not known */
    unsigned parameter, cookie[NAMES], header[NAMES];
    char accept[400], language[400]; /* "": none */
    bool has_accept, has_language;
} wanted;

static const char *const paths[] = {"/a", "/b", "/c"};
static const char *const types[] = {"a/b", "a/c", "b/b", "a/b;v=1", "text/html"};
static const char *const tags[] = {"en", "de", "de-ch", "fr"};
static const char *const ranges[] = {"a/b",     "a/c",       "a/*", "*/*",
                                     "a/b;v=1", "text/html", "x/y", "b/*"};
static const char *const tongues[] = {"en", "de", "de-CH", "fr", "*", "en-US"};
static const char *const weights[] = {"",        "",        ";q=0",   ";q=0.5",
                                      ";q=0.50", "; q=0.9", ";q=1.0", ";q=2"};
static const char *const countries[] = {"AT", "at", "X1", "A", "ATX", NULL};
static const char *const fields[NAMES] = {"X-A", "X-B", "X-C"};

static unsigned random_wish(unsigned percent)
{
    return chance(percent) ? 1 + below(WISHES - 1) : ANY;
}

static void random_row(row *r)
{
    *r = (row){.source = below(SOURCES),
               .post = chance(14) ? 1 + below(2) : ANY,
               .country = chance(14) ? 1 + below(2) : ANY,
               .country_written = chance(50) ? "AT" : "at",
               .parameter = random_wish(8),
               .any_cookie = chance(10) ? below(1u << NAMES) : 0};
    for (int i = 0; i < NAMES; i++) {
        r->cookie[i] = random_wish(12);
        r->header[i] = random_wish(8);
    }
    for (unsigned n = chance(50) ? 1 + below(2) : 0; n; n--)
        sprintf(r->types + strlen(r->types), "%s%s", *r->types ? "," : "", ONE_OF(types));
    for (unsigned n = chance(35) ? 1 + below(2) : 0; n; n--)
        sprintf(r->languages + strlen(r->languages), "%s%s", *r->languages ? "," : "",
                ONE_OF(tags));
    r->refuses = chance(25);
}

static char *put_any_cookie(char *to, const row *r, const char *name)
{
    bool first = true;

    for (int i = 0; i < NAMES; i++) {
        if (r->any_cookie & 1u << i) {
            to += sprintf(to, "%s%s", first ? name : ",", fields[i]);
            first = false;
        }
    }
    return to;
}

/* --- text ------------------------------------------------------------------------------------- */

static char *put_wish(char *to, wish w, const char *option, const char *name, const char *between)
{
    if (w == ANY)
        return to;
    *to++ = ' ';
    return to + sprintf(to, wish_of_option[w], option, name, between);
}

static char *put_text(char *to, const row *r, int number)
{
    static const char *const sources[SOURCES] = {"/a", "/b", "/", "/a"};
    static const char *const options[SOURCES] = {"", "", " subpath=on", " case=ignore"};

    to += sprintf(to, "%s /r%d%s", sources[r->source], number, options[r->source]);
    to = put_wish(to, r->post, "method", "POST,PUT", "");
    to = put_wish(to, r->country, "country", r->country_written, "");
    to = put_wish(to, r->parameter, "parameter", "p", "=");
    for (int i = 0; i < NAMES; i++)
        to = put_wish(to, r->cookie[i], "cookie", fields[i], "=");
    to = put_any_cookie(to, r, " cookie=");
    for (int i = 0; i < NAMES; i++)
        to = put_wish(to, r->header[i], "header", fields[i], ":");
    if (*r->types)
        to += sprintf(to, " accept=%s", r->types);
    if (*r->languages)
        to += sprintf(to, " language=%s", r->languages);
    return to + sprintf(to, "%s\n", r->refuses ? " unacceptable=406" : "");
}

/* --- CSV -------------------------------------------------------------------------------------- */

/* One of each column, and neither parameters nor what a row refuses. */
static void reduce_to_csv(row *r, bool refuses)
{
    bool cookie = r->any_cookie != 0, header = false;

    r->parameter = ANY;
    r->refuses = refuses;
    for (int i = 0; i < NAMES; i++) {
        r->cookie[i] = cookie ? ANY : r->cookie[i];
        cookie |= r->cookie[i] != ANY;
        r->header[i] = header ? ANY : r->header[i];
        header |= r->header[i] != ANY;
    }
}

static char *put_cell(char *to, wish w, const char *name, char between)
{
    if (w == THERE || w == NOT_THERE)
        return to + sprintf(to, "%s%s", w == NOT_THERE ? "!" : "", name);
    return w == ANY ? to : to + sprintf(to, "%s%s%c1", w == NOT_VALUE ? "!" : "", name, between);
}

static char *put_csv(char *to, const row *r, int number)
{
    static const char *const sources[SOURCES] = {"/a;;", "/b;;", "/;;true", "/a;ignore;"};

    to += sprintf(to, "%s;/r%d;", sources[r->source], number);
    to = put_cell(to, r->post, "POST,PUT", 0);
    *to++ = ';';
    to = put_cell(to, r->country, r->country_written, 0);
    to += sprintf(to, ";%s;\"%s\";", r->languages, r->types);
    to = put_any_cookie(to, r, "");
    for (int i = 0; i < NAMES; i++)
        to = put_cell(to, r->cookie[i], fields[i], '=');
    *to++ = ';';
    for (int i = 0; i < NAMES; i++)
        to = put_cell(to, r->header[i], fields[i], ':');
    *to++ = '\n';
    *to = '\0';
    return to;
}

/* --- _redirects ------------------------------------------------------------------------------- */

static void reduce_to_netlify(row *r, bool refuses)
{
    r->post = r->parameter = ANY;
    r->country = r->country == NOT_THERE ? ANY : r->country;
    *r->types = '\0';
    r->refuses = refuses;
    for (int i = 0; i < NAMES; i++) {
        r->cookie[i] = r->cookie[i] == THERE ? THERE : ANY;
        r->header[i] = ANY;
    }
}

/* The names of a placeholder do not count. */
static char *put_netlify(char *to, const row *r, int number)
{
    static const char *const sources[SOURCES] = {"/a", "/b", "/*", "/:x"};

    to += sprintf(to, "%s /r%d 302!", r->source == 3 && number % 2 ? "/:y" : sources[r->source],
                  number);
    if (*r->languages)
        to += sprintf(to, " Language=%s", r->languages);
    if (r->country != ANY)
        to += sprintf(to, " Country=%s", r->country_written);
    to = put_any_cookie(to, r, " Cookie=");
    for (int i = 0; i < NAMES; i++) {
        if (r->cookie[i] != ANY)
            to += sprintf(to, " Cookie=%s", fields[i]);
    }
    return to + sprintf(to, "\n");
}

/* --- vercel.json ------------------------------------------------------------------------------ */

static void reduce_to_vercel(row *r, bool missing_first)
{
    r->post = r->country = ANY;
    r->any_cookie = 0;
    *r->types = *r->languages = '\0';
    r->missing_first = missing_first;
}

static bool is_missing(wish w)
{
    return w == NOT_THERE || w == NOT_VALUE;
}

static char *put_object(char *to, wish w, const char *type, const char *name, bool *any)
{
    to += sprintf(to, "%s{\"type\":\"%s\",\"key\":\"%s\"%s}", *any ? "," : "", type, name,
                  w == VALUE || w == NOT_VALUE ? ",\"value\":\"1\"" : "");
    *any = true;
    return to;
}

static char *put_objects(char *to, const row *r, bool missing)
{
    bool any = false;

    to += sprintf(to, ",\"%s\":[", missing ? "missing" : "has");
    for (int i = 0; i < NAMES; i++) {
        if (r->header[i] != ANY && is_missing(r->header[i]) == missing)
            to = put_object(to, r->header[i], "header", fields[i], &any);
        if (r->cookie[i] != ANY && is_missing(r->cookie[i]) == missing)
            to = put_object(to, r->cookie[i], "cookie", fields[i], &any);
    }
    if (r->parameter != ANY && is_missing(r->parameter) == missing)
        to = put_object(to, r->parameter, "query", "p", &any);
    if (r->source == 3 && !missing)
        to += sprintf(to, "%s{\"type\":\"host\",\"value\":\"h.example\"}", any ? "," : "");
    return to + sprintf(to, "]");
}

static char *put_vercel(char *to, const row *r, int number)
{
    static const char *const sources[SOURCES] = {"/a", "/b", "/:x*", "/a"};

    to += sprintf(to, "%s{\"source\":\"%s\",\"destination\":\"/r%d\"", number ? ",\n" : "",
                  sources[r->source], number);
    to = put_objects(to, r, r->missing_first);
    to = put_objects(to, r, !r->missing_first);
    return to + sprintf(to, "}");
}

/* --- formats ---------------------------------------------------------------------------------- */

/* Paths of each source, as bits; and what stands around the rows. */
typedef struct format {
    const char *name, *before, *after;
    int first_line;
    unsigned matches[SOURCES];
    bool host; /* the last source is of a host */
    void (*reduce)(row *r, bool option);
    char *(*put)(char *to, const row *r, int number);
} format;

#define CSV_HEAD "source;case;subpath;target;method;country;language;accept;cookie;header\n"

static const format formats[] = {
    {"m.txt", "", "", 1, {1, 2, 7, 1}, false, NULL, put_text},
    {"m.csv", CSV_HEAD, "", 2, {1, 2, 7, 1}, false, reduce_to_csv, put_csv},
    {"_redirects", "", "", 1, {1, 2, 7, 7}, false, reduce_to_netlify, put_netlify},
    {"vercel.json",
     "{\"redirects\":[\n",
     "\n]}",
     2,
     {1, 2, 7, 1},
     true,
     reduce_to_vercel,
     put_vercel},
};

typedef struct random_map {
    const format *format;
    row rows[MAX_ROWS];
    int n;
    char text[MAX_ROWS * 1000];
    test_map *map;
} random_map;

static void make_map(random_map *m, const format *f, const row *rows, int n, bool option)
{
    char *to = m->text + sprintf(m->text, "%s", f->before);

    m->format = f;
    m->n = n;
    for (int i = 0; i < n; i++) {
        m->rows[i] = rows[i];
        if (f->reduce)
            f->reduce(&m->rows[i], option);
        to = f->put(to, &m->rows[i], i);
    }
    sprintf(to, "%s", f->after);
    m->map = test_map_load(f->name, m->text, f->reduce && option ? "unacceptable=406" : "");
    if (m->map->report.errors || !m->map->table)
        ck_abort_msg("%s\n%s\n%s", f->name, m->text, m->map->log);
}

/* --- requests --------------------------------------------------------------------------------- */

static bool random_list(char *to, const char *const *words, unsigned n)
{
    unsigned members = below(5);

    *to = '\0';
    if (chance(10))
        return false;
    for (unsigned i = 0; i < members; i++)
        to += sprintf(to, "%s%s%s", i ? ", " : "", words[below(n)], ONE_OF(weights));
    return true;
}

static void random_request(wanted *w)
{
    *w = (wanted){.path = below(COUNT_OF(paths)),
                  .post = chance(30),
                  .other_host = chance(30),
                  .country = ONE_OF(countries),
                  .parameter = below(3)};
    for (int i = 0; i < NAMES; i++) {
        w->cookie[i] = below(3);
        w->header[i] = below(3);
    }
    w->has_accept = random_list(w->accept, ranges, COUNT_OF(ranges));
    w->has_language = random_list(w->language, tongues, COUNT_OF(tongues));
}

static void put_url(const wanted *w, char *to)
{
    static const char *const queries[] = {"", "?z&p=1", "?p=11&z"};

    sprintf(to, "http://%s.example%s%s", w->other_host ? "o" : "h", paths[w->path],
            queries[w->parameter]);
}

static void put_lines(const wanted *w, char *to)
{
    bool cookies = false;

    *to = '\0';
    if (w->post)
        to += sprintf(to, "PUT\n");
    if (w->country)
        to += sprintf(to, "country %s\n", w->country);
    for (int i = 0; i < NAMES; i++) {
        if (!w->cookie[i])
            continue;
        to += sprintf(to, "%s%s=%s", cookies ? "; " : "Cookie: ", fields[i],
                      w->cookie[i] == 1 ? "1" : "11");
        cookies = true;
    }
    to += sprintf(to, "%s", cookies ? "\n" : "");
    for (int i = 0; i < NAMES; i++) {
        if (w->header[i])
            to += sprintf(to, "%s: %s\n", fields[i], w->header[i] == 1 ? "1" : "");
    }
    if (w->has_accept)
        to += sprintf(to, "Accept: %s\n", w->accept);
    if (w->has_language)
        sprintf(to, "Accept-Language: %s\n", w->language);
}

/* --- the second look-up ----------------------------------------------------------------------- */

/* Fields looked at, in their order. */
typedef struct seen {
    char vary[200];
} seen;

static void see(seen *s, const char *name)
{
    char known[210], wanted_name[30];

    snprintf(known, sizeof(known), "%s,", s->vary);
    snprintf(wanted_name, sizeof(wanted_name), " %s,", name);
    if (!strstr(known, wanted_name))
        sprintf(s->vary + strlen(s->vary), "%s %s", *s->vary ? "," : "", name);
}

static bool is_fulfilled(wish w, unsigned there)
{
    return w == ANY || (w == THERE && there) || (w == NOT_THERE && !there) ||
           (w == VALUE && there == 1) || (w == NOT_VALUE && there != 1);
}

static bool cookies_hold(const row *r, const wanted *w, seen *s)
{
    bool any = !r->any_cookie;

    for (int i = 0; i < NAMES; i++) {
        if (r->cookie[i] != ANY || r->any_cookie)
            see(s, "Cookie");
        if (!is_fulfilled(r->cookie[i], w->cookie[i]))
            return false;
        any |= (r->any_cookie & 1u << i) && w->cookie[i];
    }
    return any;
}

static bool headers_hold(const row *r, const wanted *w, bool missing, bool all, seen *s)
{
    for (int i = 0; i < NAMES; i++) {
        if (r->header[i] == ANY || (!all && is_missing(r->header[i]) != missing))
            continue;
        see(s, fields[i]);
        if (!is_fulfilled(r->header[i], w->header[i]))
            return false;
    }
    return true;
}

static bool row_holds(const random_map *m, const row *r, const wanted *w, seen *s)
{
    bool austria = w->country && (!strcmp(w->country, "AT") || !strcmp(w->country, "at"));

    if (!is_fulfilled(r->post, w->post) || !is_fulfilled(r->country, austria) ||
        !is_fulfilled(r->parameter, w->parameter) || !cookies_hold(r, w, s))
        return false;
    if (m->format->put != put_vercel)
        return headers_hold(r, w, false, true, s);
    return headers_hold(r, w, r->missing_first, false, s) &&
           headers_hold(r, w, !r->missing_first, false, s);
}

static bool is_compared(const row *r)
{
    return *r->types || *r->languages;
}

/* Of the rows of one source, from `first` on, which holds: the one that answers, -1: none, -2: 406.
 * Others without a type or language are asked only if nothing else is acceptable. */
static int compare_rows(const random_map *m, int first, const wanted *w, seen *s)
{
    const row *rows = m->rows;
    oracle_row offered[MAX_ROWS];
    oracle_answer answer;
    int number[MAX_ROWS], count = 0;
    bool any = false, refuses = false;

    for (int i = first; i < m->n; i++)
        any |= rows[i].source == rows[first].source && is_compared(&rows[i]);
    if (!any)
        return first;
    for (int i = first; i < m->n; i++) {
        const row *r = &rows[i];

        if (r->source != rows[first].source ||
            (i > first && (!is_compared(r) || !row_holds(m, r, w, s))))
            continue;
        refuses |= is_compared(r) && r->refuses;
        number[count] = i;
        offered[count++] =
            (oracle_row){*r->types ? r->types : NULL, *r->languages ? r->languages : NULL};
    }
    answer = oracle_negotiate(w->has_accept ? w->accept : NULL,
                              w->has_language ? w->language : NULL, offered, count);
    for (int i = first + 1; answer.row < 0 && i < m->n; i++) {
        if (rows[i].source == rows[first].source && !is_compared(&rows[i]) &&
            row_holds(m, &rows[i], w, s)) {
            number[answer.row = 0] = i;
            break;
        }
    }
    if (answer.accept)
        see(s, "Accept");
    if (answer.accept_language)
        see(s, "Accept-Language");
    return answer.row >= 0 ? number[answer.row] : refuses ? -2 : -1;
}

static bool is_of(const random_map *m, unsigned source, const wanted *w)
{
    return (m->format->matches[source] & 1u << w->path) &&
           !(m->format->host && source == 3 && w->other_host);
}

static void second_look_up(const random_map *m, const wanted *w, char *to)
{
    bool refused[SOURCES] = {false};
    seen s = {""};
    int found = -1;

    for (int i = 0; found == -1 && i < m->n; i++) {
        const row *r = &m->rows[i];

        if (!is_of(m, r->source, w) || refused[r->source] || !row_holds(m, r, w, &s))
            continue;
        found = compare_rows(m, i, w, &s);
        refused[r->source] = true;
    }
    if (found == -2)
        sprintf(to, "406%s", s.vary);
    else
        sprintf(to, "%d%s", found == -1 ? 0 : found + m->format->first_line, s.vary);
}

/* --- both ------------------------------------------------------------------------------------- */

typedef struct tally {
    unsigned long none, refused, varied;
} tally;

static void ask_one(const random_map *m, const wanted *w, unsigned long request, uint64_t seed,
                    tally *t)
{
    char url[60], lines[1500], expected[300];
    const char *got;

    put_url(w, url);
    put_lines(w, lines);
    second_look_up(m, w, expected);
    got = answer_to(m->map, url, lines);
    if (strcmp(got, expected) != 0)
        ck_abort_msg("HTC_SEED=%llu, request %lu of %s: '%s' instead of '%s'\n%s\n%s%s",
                     (unsigned long long)seed, request, m->format->name, got, expected, m->text,
                     lines, url);
    t->none += *expected == '0';
    t->refused += !strncmp(expected, "406", 3);
    t->varied += strchr(expected, ' ') != NULL;
}

static void make_maps(random_map *maps)
{
    row rows[MAX_ROWS];
    int n = 1 + (int)below(MAX_ROWS);
    bool option = chance(40);

    for (int k = 0; k < n; k++)
        random_row(&rows[k]);
    for (unsigned f = 0; f < COUNT_OF(formats); f++) {
        if (maps[f].map)
            test_map_free(maps[f].map);
        make_map(&maps[f], &formats[f], rows, n, option);
    }
}

START_TEST(random_maps)
{
    const char *given = getenv("HTC_SEED"), *more = getenv("HTC_HEADERS");
    unsigned long requests = more ? strtoul(more, NULL, 10) : DEFAULT_REQUESTS;
    uint64_t seed = given ? strtoull(given, NULL, 10) : 26;
    random_map *maps = calloc(COUNT_OF(formats), sizeof(*maps));
    tally tallies[COUNT_OF(formats)] = {{0}};

    ck_assert_ptr_nonnull(maps);
    state = seed;
    for (unsigned long i = 0; i < requests; i++) {
        wanted w;

        if (i % REQUESTS_OF_MAP == 0)
            make_maps(maps);
        random_request(&w);
        for (unsigned f = 0; f < COUNT_OF(formats); f++)
            ask_one(&maps[f], &w, i, seed, &tallies[f]);
    }
    for (unsigned f = 0; f < COUNT_OF(formats); f++) {
        const tally *t = &tallies[f];

        if (maps[f].map)
            test_map_free(maps[f].map);
        printf("%s: %lu requests, seed %llu: none %lu, 406 %lu, with Vary %lu\n", formats[f].name,
               requests, (unsigned long long)seed, t->none, t->refused, t->varied);
        if (requests < DEFAULT_REQUESTS)
            continue;
        ck_assert(t->none > requests / 50 && t->none < requests / 2);
        ck_assert(t->varied > requests / 4);
        ck_assert(formats[f].put == put_vercel ? !t->refused : t->refused > requests / 100);
    }
    free(maps);
}
END_TEST

void add_random_maps(TCase *tc)
{
    tcase_add_test(tc, random_maps);
}
