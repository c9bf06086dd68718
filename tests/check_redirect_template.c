/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of templates: placeholders and wildcards of redirect maps, which the table matches
 * itself. PCRE, which ran them as regexes before, says what is right: of random templates with
 * random paths, and of whole maps. Then the examples of the platforms whose formats these are, how
 * few rows a look-up compares, and images that others write. HTC_LONG=N: so many times as many.
 * Run by 'make check'.
 */
#include "pool_fixture.h"
#include "redirect_map_util.h"
#include "redirect_table/template.h"
#include "suite_util.h"
#include "tool/map.h"

#include <apr_strings.h>
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned seed;

static unsigned draw(unsigned n)
{
    seed = seed * 1103515245 + 12345;
    return (seed >> 16) % n;
}

static unsigned rounds(unsigned n)
{
    const char *more = getenv("HTC_LONG");

    return n * (more ? (unsigned)atoi(more) : 1);
}

/* --- templates and regexes -------------------------------------------------------------------- */

/* Literals as long as what is compared at once, looked for in a segment, or kept of a template. */
#define B16  "bbbbbbbbbbbbbbbb"
#define B64  B16 B16 B16 B16
#define B255 B64 B64 B64 B16 B16 B16 "bbbbbbbbbbbbbbb"

/* What templates are written with, each with texts that it matches. */
static const struct word {
    const char *text;
    const char *some[4];
} words[] = {
    {"a", {"a", "A"}},
    {"b", {"b", "a"}},
    {"-", {"-", "--"}},
    {"/", {"/", "//"}},
    {"\\.", {".", ""}},
    {"/a", {"/a", "/A"}},
    {"/", {"/", "/"}},
    {"/ab/", {"/ab/", "/ab"}},
    {"\xc3\xa9", {"\xc3\xa9", "\xc3\x89"}},
    {B64, {B64, B64 "b"}},
    {B255, {B255, B64 "B" B64}},
    {B255 "b", {B255 "b", B255 "a"}},
    {"([^/]+)", {"a", "ab", "a-b.a", "\n"}},
    {"([^/]+?)", {"b", "-", "aa-b", "a\n"}},
    {"([^/]+)", {"x", "-a", "b", "."}},
    {"(.*)", {"", "a/b", "/", "ab/ab/a\n"}},
    {"(?:/(.*))?", {"", "/", "/a//b/", "/ab"}},
    {"(?:/([^/]+))?", {"", "/a", "/ab", "/"}},
    {"((?:[^/]+)(?:/(?:[^/]+))*)", {"a", "a/b", "a/ab/-", "a//b"}},
    {"(?:/((?:[^/]+)(?:/(?:[^/]+))*))?", {"", "/a", "/a/b/ab", "/a/"}},
    {"((?:[^/]+?)(?:/(?:[^/]+?))*)", {"a", "aa-b/a", "a/ab-a/-", "a//b"}},
    {"(?:/([^/]+?))?", {"", "/a-a", "/ab", "/"}},
    {"(?:/((?:[^/]+?)(?:/(?:[^/]+?))*))?", {"", "/a-", "/ab/b/a", "/a/"}},
};
#define WORDS   COUNT_OF(words)
#define MOST    9  /* words of a template */
#define LITERAL 12 /* the first of them are literals, */
#define SHORT   9  /* of which these are short */
#define ROOM    (MOST * 300)

typedef struct sample {
    unsigned n, word[MOST];
    char text[ROOM];
} sample;

static void random_sample(sample *s)
{
    const char *end = draw(3) ? "$" : "/?$";
    char *to = s->text + sprintf(s->text, "^/");
    bool few = draw(20) == 0; /* or PCRE has no steps left for long ones */

    s->n = 1 + draw(few ? 3 : MOST);
    for (unsigned i = 0; i < s->n; i++) {
        s->word[i] = draw(4) ? draw(few ? LITERAL : SHORT) : LITERAL + draw(WORDS - LITERAL);
        to += sprintf(to, "%s", words[s->word[i]].text);
    }
    strcpy(to, end);
}

/* Often one that the template matches. */
static size_t random_path(const sample *s, char *path)
{
    size_t len = (size_t)sprintf(path, "/"), at;

    for (unsigned i = 0; i < s->n; i++) {
        unsigned few = s->word[i] < LITERAL ? 2 : 4, which = draw(few);

        which = s->word[i] < LITERAL && draw(8) ? 0 : which;
        len += (size_t)sprintf(path + len, "%s", words[s->word[i]].some[which]);
    }
    if (draw(8) == 0)
        path[len++] = "/\na"[draw(3)];
    at = draw((unsigned)len);
    if (draw(8) == 0)
        memmove(path + at, path + at + 1, len-- - at);
    else if (draw(8) == 0)
        path[at] = "/ab-A"[draw(5)];
    path[len] = '\0';
    return len;
}

static void compare(map_regexes *regexes, unsigned id, const sample *s, unsigned flags,
                    const char *path, size_t len, unsigned *matched)
{
    redirect_group wanted[REDIRECT_GROUPS], got[REDIRECT_GROUPS];
    redirect_match match = {.pattern = s->text, .pattern_id = id};
    int n, m;

    match.profile.flags = (uint16_t)flags;
    n = map_regexes_groups(regexes, &match, path, len, wanted, REDIRECT_GROUPS);
    if (redirect_template_needs_search(s->text, strlen(s->text)))
        flags |= REDIRECT_SEARCHED;
    m = redirect_template_match(s->text, strlen(s->text), flags, path, len, got, REDIRECT_GROUPS);
    ck_assert_msg(!n == !m, "%s with '%s': %d, not %d", s->text, path, m, n);
    *matched += m > 0;
    for (int i = 0; i < m; i++) {
        if (i >= n) /* PCRE does not count those behind the last that is set */
            wanted[i] = (redirect_group){-1, -1};
        ck_assert_msg(got[i].start == wanted[i].start && got[i].end == wanted[i].end,
                      "%s with '%s': group %d is %d to %d, not %d to %d", s->text, path, i,
                      got[i].start, got[i].end, wanted[i].start, wanted[i].end);
    }
    ck_assert_int_eq(redirect_template_match(s->text, strlen(s->text), flags, path, len, got, 1),
                     m);
}

START_TEST(a_template_is_its_regex)
{
    unsigned templates = 0, matched = 0, all = rounds(4000);

    seed = (unsigned)_i + 1;
    for (unsigned i = 0; i < all; i++) {
        map_regexes *regexes;
        apr_pool_t *sub;
        char path[ROOM];
        sample s;

        random_sample(&s);
        if (!redirect_template_is(s.text, strlen(s.text)))
            continue;
        templates++;
        apr_pool_create(&sub, pool);
        regexes = map_regexes_create(sub);
        map_regexes_budget(regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
        for (int j = 0; j < 12; j++) {
            size_t len = random_path(&s, path);

            compare(regexes, j % 2, &s, j % 2 ? REDIRECT_ICASE : 0, path, len, &matched);
        }
        apr_pool_destroy(sub);
    }
    ck_assert_uint_gt(templates, all / 10);
    ck_assert_uint_gt(matched, templates * 3);
}
END_TEST

/* A template with a search has a bit for each place of a path. */
START_TEST(the_longest_path)
{
    static const char pattern[] = "^/(.*)/x/(.*)/y/(.*)$";
    char *path = apr_palloc(pool, RT_TEMPLATE_PATH + 2);
    redirect_group groups[4];

    memset(path, 'a', RT_TEMPLATE_PATH + 1);
    memcpy(path, "/a/x/b/y/", 9);
    ck_assert(redirect_template_needs_search(pattern, strlen(pattern)));
    ck_assert_int_eq(redirect_template_match(pattern, strlen(pattern), REDIRECT_SEARCHED, path,
                                             RT_TEMPLATE_PATH, groups, 4),
                     4);
    ck_assert_int_eq(groups[3].end, RT_TEMPLATE_PATH);
    ck_assert_int_eq(redirect_template_match(pattern, strlen(pattern), REDIRECT_SEARCHED, path,
                                             RT_TEMPLATE_PATH + 1, groups, 4),
                     0);
}
END_TEST

/* Other texts are left to PCRE, also those that look much like it. */
START_TEST(what_is_no_template)
{
    static const char *const others[] = {
        "",
        "^",
        "$",
        "^/a$", /* a literal */
        "^/([^/]+)",
        "/([^/]+)$",
        "^/([^/]+)$x",
        "^/([^/]*)$",
        "^/([^/]+)\\d$",
        "^/([^/]+).x$",
        "^/([^/]+)a?$",
        "^/([^/]+)\\/?$",
        "^/([^/]+)[$",
        "^/([^/]+)\\",
        "^/(.+)$",
        "^/(.*?)$",
        "^/(.*)+$",
        "^/((?:[^/]+)(?:/(?:[^/]+?))*)$",
        "^/(?:/(.*)?)$",
        "^/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)/([^/]+)$",
    };

    for (size_t i = 0; i < COUNT_OF(others); i++)
        ck_assert_msg(!redirect_template_is(others[i], strlen(others[i])), "%s", others[i]);
    ck_assert(!redirect_template_is("^/([^/]+)\0$", 11));
}
END_TEST

/* --- whole maps ------------------------------------------------------------------------------- */

static const char *const netlify_pieces[] = {"/",  "/:year", "/:id", "/a",     "/*",    "/old",
                                             "-x", "*",      "/A.b", "%2Fc",   "/:m-x", "/new",
                                             "//", ".html",  "/b",   "%C3%A9", "/:n*x", "%0A"};
static const char *const vercel_pieces[] = {
    "/:year", "/:a-:b", "/old",        "/:p*",   "/:q+",       "/:r?", "/a",
    "/(.*)",  "-x",     "/:c.:d-",     "%2Fc",   "/new",       "/",    "/:e.pdf",
    ".b",     "/:z",    "/:n(\\\\d+)", "%C3%A9", "/:j/b/:h?-x"};
static const char *const path_pieces[] = {"/",     "/a",   "/old", "/2024", "-x",     "/A.b",
                                          "//",    "%2Fc", "%2fc", "/new",  "/é",     ".pdf",
                                          ".html", "/b-c", "%0A",  "/",     "/a.b-c", "/OLD"};

static const char *random_source(const char *const pieces[], size_t n)
{
    const char *source = "";

    for (unsigned i = 1 + draw(4); i; i--)
        source = apr_pstrcat(pool, source, pieces[draw((unsigned)n)], NULL);
    return *source == '/' ? source : apr_pstrcat(pool, "/", source, NULL);
}

/* The names of the source, as a target has them. */
static const char *random_target(const char *source, unsigned number)
{
    const char *target = apr_psprintf(pool, "/t%u", number);

    for (const char *s = source; *s; s++) {
        size_t n = strspn(s + (*s == ':'), "abcdefghijklmnopqrstuvwxyz");

        if (*s == ':' && n && draw(3))
            target = apr_pstrcat(pool, target, draw(2) ? "/" : "?x=", apr_pstrndup(pool, s, n + 1),
                                 NULL);
        else if (*s == '*' && s[-1] != 'p' && draw(3))
            target = apr_pstrcat(pool, target, draw(2) ? "/:splat" : "?y=:splat", NULL);
    }
    return target;
}

static const char *random_rows(bool vercel, unsigned rows)
{
    const char *text = vercel ? "{\"redirects\":[" : "";

    for (unsigned i = 0; i < rows; i++) {
        const char *source = vercel ? random_source(vercel_pieces, COUNT_OF(vercel_pieces))
                                    : random_source(netlify_pieces, COUNT_OF(netlify_pieces));
        const char *target = random_target(source, i);

        text = vercel ? apr_pstrcat(pool, text, i ? ",\n" : "\n", "{\"source\":\"", source,
                                    "\",\"destination\":\"", target, "\"}", NULL)
                      : apr_pstrcat(pool, text, source, " ", target, "\n", NULL);
    }
    return vercel ? apr_pstrcat(pool, text, "]}", NULL) : text;
}

/* The map's rows, with regexes for its templates: how it was before there were these. */
static void with_regexes(test_map *map, unsigned *templates)
{
    redirect_builder *builder = redirect_builder_create(0, 0);
    char *target = apr_palloc(pool, REDIRECT_RULE_ROOM);
    uint32_t place = 0;

    while ((place = redirect_table_next(map->table, place)) != 0) {
        redirect_rule rule;

        redirect_table_rule(map->table, place, &rule, target, NULL);
        *templates += rule.kind == REDIRECT_TEMPLATE;
        if (rule.kind == REDIRECT_TEMPLATE)
            rule.kind = REDIRECT_PATTERN;
        ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    }
    ck_assert_int_eq(redirect_builder_finish(builder, NULL, NULL, &map->size), APR_SUCCESS);
    free(map->image);
    map->image = malloc(map->size);
    redirect_builder_write(builder, map->image);
    redirect_builder_destroy(builder);
    map->table = redirect_table_open(map->image, map->size, pool);
}

START_TEST(a_map_answers_as_with_regexes)
{
    static const char *const options[] = {"", "case=ignore", "slash=ignore", "query=drop"};
    unsigned templates = 0, answers = 0, all = rounds(40);

    seed = (unsigned)_i + 100;
    for (unsigned i = 0; i < all; i++) {
        const char *text = random_rows(_i % 2, 12), *o = options[draw(4)];
        const char *name = _i % 2 ? "vercel.json" : "_redirects";
        test_map *map = test_map_load(name, text, o), *twin = test_map_load(name, text, o);

        if (map->table)
            with_regexes(twin, &templates);
        for (int j = 0; map->table && j < 60; j++) {
            const char *path = apr_pstrcat(pool, "http://h",
                                           random_source(path_pieces, COUNT_OF(path_pieces)), NULL);
            const char *got = test_map_ask(map, path), *wanted = test_map_ask(twin, path);

            answers += strcmp(got, "none") != 0;
            ck_assert_msg(!strcmp(got, wanted), "%s: %s, not %s, in\n%s", path, got, wanted, text);
            ck_assert_uint_eq(test_map_line(map, path), test_map_line(twin, path));
        }
        test_map_free(map);
        test_map_free(twin);
    }
    ck_assert_uint_gt(templates, 2 * all);
    ck_assert_uint_gt(answers, 5 * all);
}
END_TEST

/* --- what the platforms say ------------------------------------------------------------------- */

/* The examples of their documentation, and the answers that it gives. */
static const struct {
    const char *map, *text, *url, *answer;
} documented[] = {
    /* Netlify */
    {"_redirects", "/news/* /blog/:splat", "/news/2004/01/10/my-story",
     "301 /blog/2004/01/10/my-story"},
    {"_redirects", "/news/* /blog/:splat", "/news/", "301 /blog/"},
    {"_redirects", "/news/:month/:date/:year/:slug /blog/:year/:month/:date/:slug",
     "/news/02/12/2004/my-story", "301 /blog/2004/02/12/my-story"},
    {"_redirects", "/news/:month/:date/:year/:slug /blog/:year/:month/:date/:slug",
     "/news/02/12/2004", "none"},
    {"_redirects", "/articles id=1 tag=2 /posts/1/2 301", "/articles?tag=2&id=1", "301 /posts/1/2"},
    /* GitLab Pages, which has Netlify's */
    {"_redirects", "/news/:year/:month/:date /blog-:year-:month-:date.html", "/news/2021/08/12",
     "301 /blog-2021-08-12.html"},
    {"_redirects", "/old/*.html /new/:splat", "/old/a/b.html", "301 /new/a/b"},
    /* Cloudflare Pages */
    {"_redirects", "/blog/* https://blog.my.domain/:splat", "/blog/a/b",
     "301 https://blog.my.domain/a/b"},
    {"_redirects", "/movies/:title /media/:title", "/movies/the-matrix", "301 /media/the-matrix"},
    {"_redirects", "/products/:code/:name /products?code=:code&name=:name", "/products/123/a&b",
     "301 /products?code=123&name=a%26b"},
    /* Vercel and Next.js: path-to-regexp */
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/old-blog/:slug\",\"destination\":\"/news/:slug\"}]}",
     "/old-blog/hello-world", "307 /news/hello-world"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/old-blog/:slug\",\"destination\":\"/news/:slug\"}]}",
     "/old-blog/a/b", "none"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/blog/:slug*\",\"destination\":\"/news/:slug*\"}]}",
     "/blog/a/b/c/d/hello-world", "307 /news/a/b/c/d/hello-world"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/blog/:slug*\",\"destination\":\"/news/:slug*\"}]}", "/blog",
     "307 /news/"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/post/:slug(\\\\d{1,})\",\"destination\":\"/n/:slug\"}]}",
     "/post/123", "307 /n/123"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/:lang/guide/(.*)\",\"destination\":\"/:lang/g/$2\"}]}",
     "/de/guide/a/b", "307 /de/g/a/b"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/flights/:from-:to\",\"destination\":\"/:from/:to\"}]}",
     "/flights/LAX-SFO-2", "307 /LAX/SFO-2"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/:year?/x/:id+\",\"destination\":\"/y/:id+\"}]}",
     "/x/1/2", "307 /y/1/2"},
    /* Several that may have several places */
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/x/:path*/:id+\",\"destination\":\"/:path*/:id+\"}]}",
     "/x/y/b/c", "307 /y/b/c"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/:path*/x/:rest*\",\"destination\":\"/:rest*/:path*\"}]}",
     "/a/b/x/c", "307 /c/a/b"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/:p+-x/:q*\",\"destination\":\"/:p+/:q*\"}]}",
     "/aa-x/b-x", "307 /aa/b-x"},
    {"vercel.json",
     "{\"redirects\":[{\"source\":\"/(.*)/x/(.*)/y/(.*)\",\"destination\":\"/$1/$2/$3\"}]}",
     "/a/x/b/y/c", "307 /a/b/c"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/:d-/:p*(.*)\",\"destination\":\"/:d/$3\"}]}",
     "/b--x", "307 /b/-x"},
    {"vercel.json", "{\"redirects\":[{\"source\":\"/a/:1\",\"destination\":\"/t/:1\"}]}", "/a/b",
     "307 /t/b"},
    /* Where a placeholder and a splat meet */
    {"_redirects", "/:lang/* /x/:lang/:splat", "/de/a/b", "301 /x/de/a/b"},
    {"_redirects", "/:lang/* /x/:lang/:splat", "/de", "301 /x/de/"},
    {"_redirects", "/:n*x /:n:splat", "/ab/cx", "301 /ab/c"},
    {"_redirects", "/a//* /b/:splat", "/a/c", "none"},
    {"_redirects", "/a//* /b/:splat", "/a//c", "301 /b/c"},
    /* In the middle of a segment */
    {"_redirects", "/post-:id.html /p/:id", "/post-7.html", "301 /p/7"},
    {"_redirects", "/post-:id.html /gone", "/post-:id.htm", "none"},
    {"_redirects", "/a/:i:j /b/:j/:i", "/a/xyz", "301 /b/z/xy"},
    {"_redirects", "/a/:year-:month /b/:month/:year", "/a/2024-02-03", "301 /b/03/2024-02"},
    {"_redirects", "/wiki/Special:Search /s", "/wiki/SpecialX", "none"},
    {"_redirects", "/wiki/Special:Search /s", "/wiki/Special:Search", "301 /s"},
    /* Names that begin as others do */
    {"_redirects", "/x/:a/:ab /y/:ab/:a", "/x/1/2", "301 /y/2/1"},
    /* The first row answers, whatever it is. */
    {"_redirects", "/a/:b /1\n/a/* /2\n/a/b /3", "/a/b", "301 /1"},
    {"_redirects", "/a/b /3\n/a/:b /1\n/a/* /2", "/a/b", "301 /3"},
    {"_redirects", "/a/*/z /1\n/a/:b/z /2", "/a/b/z", "301 /1"},
    /* Bytes are compared as they are: runs of slashes, a newline, an encoded slash. */
    {"_redirects", "/a/:b/c /1/:b", "/a//c", "none"},
    {"_redirects", "/a/:b/c /1/:b", "/a//b/c", "none"},
    {"_redirects", "/a/*/c /1/:splat", "/a//b/c", "301 /1//b"},
    {"_redirects", "/a/:b/c /1/:b", "/a/b/c%0A", "none"},
    {"_redirects", "/a/:b /1/:b", "/a/b%0A", "301 /1/b%0a"},
    {"_redirects", "/a%2Fb/:c /1/:c", "/a%2fb/x", "301 /1/x"},
};

START_TEST(what_the_platforms_say)
{
    for (size_t i = 0; i < COUNT_OF(documented); i++) {
        test_map *map = test_map_load(documented[i].map, documented[i].text, "");

        ck_assert_msg(!map->report.errors, "%s: %s", documented[i].text, map->log);
        test_map_expect(map, documented[i].url, documented[i].answer);
        test_map_free(map);
    }
}
END_TEST

/* --- rows that are hidden ------------------------------------------------------------------------ */

/* Rows that never answer, as an earlier one does, and those that may: W with their line. */
static const struct {
    const char *rows, *said; /* NULL: nothing */
} hidden[] = {
    {"/old/* /n/:splat\n/old/x /y\n", "W2 never used: line 1"},
    {"/old/* /n/:splat\n/old/:x /y/:x\n", "W2 never used: line 1"},
    {"/old/* /n/:splat\n/old/a/*/b /y/:splat\n", "W2 never used: line 1"},
    {"/old/* /n/:splat\n/old*/b /y/:splat\n", NULL},
    {"/old/* /n/:splat\n/:x/b /y/:x\n", NULL},
    {"/a/:b /n/:b\n/a/c /y\n", "W2 never used: line 1"},
    {"/a/:b /n/:b\n/a/:x-y /y/:x\n", "W2 never used: line 1"},
    {"/:a/:b /n/:b\n/x/:y /y/:y\n", "W2 never used: line 1"},
    {"/x/:y /y/:y\n/:a/:b /n/:b\n", NULL},
    {"/x/:y-:z /y/:y\n/x/:a /n/:a\n", NULL},
    {"/:a/:b /n/:b\n/x/* /y/:splat\n", NULL},
    {"/a/*/c /n/:splat\n/a/:b/c /y/:b\n", "W2 never used: line 1"},
    {"/a/:b/c /n/:b\n/a/*/c /y/:splat\n", NULL},
};

START_TEST(what_is_never_used)
{
    for (size_t i = 0; i < COUNT_OF(hidden); i++) {
        test_map *map = test_map_load("_redirects", hidden[i].rows, "");

        redirect_map_check(map->table, &map->report, map->pool);
        ck_assert_msg(hidden[i].said ? test_map_said(map, hidden[i].said)
                                     : !strstr(map->log, "never used"),
                      "%s: %s", hidden[i].rows, map->log);
        test_map_free(map);
    }
}
END_TEST

/* --- how they are found ----------------------------------------------------------------------- */

#define MANY 3000

static const struct {
    const char *row, *path; /* %s: of the row alone */
    bool vercel, brief;     /* it has two bytes */
} shapes[] = {
    {"/old-%s/*/x /n/:splat\n", "/old-%s/a/b/x", false, false},
    {"/old/%s/:year /n/:year\n", "/old/%s/2024", false, false},
    {"/:lang/about-%s /n/:lang\n", "/de/about-%s", false, false},
    {"/:lang/:page/item-%s.html /n/:lang\n", "/de/a/item-%s.html", false, false},
    {"/*/page-%s.html /n/:splat\n", "/a/b/page-%s.html", false, false},
    {"/:lang/%s /n/:lang\n", "/de/%s", false, true},
    {"/:lang/%s/:page /n/:lang\n", "/de/%s/a", false, true},
    {"/a/:lang/%s/* /n/:lang\n", "/a/de/%s/a/b/c", false, true},
    {"/a/*/%s /n/:splat\n", "/a/b/c/d/%s", false, true},
    {"/*/%s/:x /n/:splat\n", "/a/b/c/%s/d", false, true},
    {"/:l/%s/:page* /n/:l\n", "/de/%s", true, true},
    {"/:l*/%s/:x? /n/:l*\n", "/de/at/%s/c", true, false},
    {"/(.*)/%s/:x /n/$1\n", "/a/b/%s/c", true, true},
};

static const char *text_of(unsigned number, bool brief)
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

    return brief ? apr_psprintf(pool, "%c%c", digits[number / 64], digits[number % 64])
                 : apr_psprintf(pool, "%u", 10000 + number);
}

/* Rows "source target" of a shape, as the format has them. */
static test_map *map_of(const char *shape, bool vercel, bool brief)
{
    char *text = apr_palloc(pool, MANY * 100), *to = text;

    to += sprintf(to, "%s", vercel ? "{\"redirects\":[\n" : "");
    for (unsigned i = 0; i < MANY; i++) {
        char *row = apr_psprintf(pool, shape, text_of(i, brief)), *target = strchr(row, ' ');

        *target++ = '\0';
        to += vercel ? sprintf(to, "{\"source\":\"%s\",\"destination\":\"%.*s\"}%s\n", row,
                               (int)strcspn(target, "\n"), target, i + 1 < MANY ? "," : "]}")
                     : sprintf(to, "%s %s", row, target);
    }
    return test_map_load(vercel ? "vercel.json" : "_redirects", text, "");
}

static bool never(void *baton, uint32_t id, const char *pattern, unsigned flags,
                  const char *subject, size_t len)
{
    (void)baton, (void)id, (void)flags, (void)subject, (void)len;
    ck_abort_msg("%s is run", pattern);
    return false;
}

START_TEST(a_look_up_compares_few)
{
    uint64_t compared = 0, steps = UINT64_MAX;
    bool vercel = shapes[_i].vercel, brief = shapes[_i].brief;
    test_map *map = map_of(shapes[_i].row, vercel, brief);

    ck_assert_uint_eq(map->report.rows, MANY);
    for (unsigned i = 0; i < MANY; i++) {
        redirect_request request = {.path = apr_psprintf(pool, shapes[_i].path, text_of(i, brief)),
                                    .regex = never,
                                    .compared = &compared,
                                    .steps = &steps};
        redirect_match match;

        request.path_len = strlen(request.path);
        ck_assert_msg(redirect_table_lookup(map->table, &request, 0, &match), "%s", request.path);
        ck_assert_uint_eq(redirect_table_line(map->table, match.rule, NULL), i + 1 + vercel);
    }
    ck_assert_uint_le(compared, 16 * MANY);
    ck_assert_uint_lt(UINT64_MAX - steps, 400 * MANY);
    test_map_free(map);
}
END_TEST

/* Rows that nothing tells apart but the row itself: all are compared, within a budget. */
START_TEST(many_that_are_alike)
{
    test_map *map = map_of("/:a.%s:b /n/:a/:b\n", true, true);
    uint64_t steps = 1000000;
    redirect_request request = {.path = "/p.__q", .path_len = 6, .regex = never, .steps = &steps};
    redirect_match match;

    ck_assert_uint_eq(map->report.rows, MANY);
    ck_assert(!redirect_table_lookup(map->table, &request, 0, &match));
    ck_assert_uint_ge(1000000 - steps, MANY);
    ck_assert_uint_le(1000000 - steps, 64 * MANY);
    request.path = "/p.aaq";
    ck_assert(redirect_table_lookup(map->table, &request, 0, &match));
    steps = 1000;
    request.path = "/p.__q";
    ck_assert(!redirect_table_lookup(map->table, &request, 0, &match));
    ck_assert_uint_eq(steps, 0);
    steps = 1000; /* nothing is found if rows in front were not compared */
    request.path = apr_psprintf(pool, "/p.%sq", text_of(MANY - 1, true));
    ck_assert(!redirect_table_lookup(map->table, &request, 0, &match));
    test_map_free(map);
}
END_TEST

/* The sources that have the most to try. */
static const struct {
    const char *template, *path, *more, *end; /* more: again and again */
} hard[] = {
    {"^/(.*)/a/(.*)/a/(.*)/a/(.*)/b$", "", "/a", "/c"},
    {"^/(.*)a(.*)a(.*)a(.*)a(.*)a(.*)a(.*)a(.*)a(.*)b$", "/", "a", "c"},
    {"^/(.*)a(.*)a(.*)a(.*)a(.*)b(.*)$", "/", "a", "c"},
    {"^((?:/([^/]+))?$", "", "/", ""},
    {"^(?:/((?:[^/]+)(?:/(?:[^/]+))*))?(?:/((?:[^/]+)(?:/(?:[^/]+))*))?"
     "(?:/((?:[^/]+)(?:/(?:[^/]+))*))?(?:/((?:[^/]+)(?:/(?:[^/]+))*))?/b/(.*)$",
     "", "/a", ""},
    {"^/((?:[^/]+?)(?:/(?:[^/]+?))*)a((?:[^/]+?)(?:/(?:[^/]+?))*)a"
     "((?:[^/]+?)(?:/(?:[^/]+?))*)b([^/]+)$",
     "/", "aa/", "c"},
    {"^/([^/]+?)a([^/]+?)a([^/]+?)a([^/]+?)b(.*)$", "/", "a", "c"},
    {"^/([^/]+)([^/]+)([^/]+)([^/]+)([^/]+)b(.*)$", "/", "a", "c"},
    {"^/([^/]+?)-([^/]+?)-([^/]+)/$", "/", "-", ""},
    {"^/(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)/(.*)$", "", "a", ""},
    {"^/(.*)aaaaaaaaaaaaaaaaaaaaaaaaaaaaaab(.*)c(.*)$", "/", "a", ""},
    {"^/([^/]+)/([^/]+)/([^/]+)/?$", "", "/", ""},
    {"^/(.*)/x$", "", "/", ""},
};

static uint64_t steps_of(unsigned i, unsigned times)
{
    char *path = apr_palloc(pool, 40000), *to = path + sprintf(path, "%s", hard[i].path);
    unsigned flags = redirect_template_needs_search(hard[i].template, strlen(hard[i].template))
                         ? REDIRECT_SEARCHED
                         : 0;
    uint64_t steps = UINT64_MAX;

    for (unsigned j = 0; j < times; j++)
        to += sprintf(to, "%s", hard[i].more);
    to += sprintf(to, "%s", hard[i].end);
    rt_template_match(hard[i].template, strlen(hard[i].template), flags, path, (size_t)(to - path),
                      NULL, 0, &steps);
    return UINT64_MAX - steps;
}

/* Ten times as long a path takes ten times as much. */
START_TEST(the_time_is_linear)
{
    for (unsigned i = 0; i < COUNT_OF(hard); i++) {
        uint64_t some = steps_of(i, 400), more = steps_of(i, 4000);

        ck_assert_msg(more <= 11 * some, "%s: %u, %u", hard[i].template, (unsigned)some,
                      (unsigned)more);
        ck_assert_msg(more <= 400 * UINT64_C(4000), "%s: %u", hard[i].template, (unsigned)more);
    }
}
END_TEST

/* --- whatever stands there -------------------------------------------------------------------- */

/* Of an image that others write. The texts end where the memory that may be read ends; a sanitizer
 * or valgrind tells. Groups lie inside of the path. */
START_TEST(any_bytes_may_stand_there)
{
    unsigned all = rounds(20000);

    seed = (unsigned)_i + 1;
    for (unsigned i = 0; i < all; i++) {
        redirect_group groups[REDIRECT_GROUPS];
        char path[ROOM];
        sample s;
        size_t len, path_len;
        char *text, *subject;
        int n;

        random_sample(&s);
        path_len = random_path(&s, path);
        len = strlen(s.text);
        text = malloc(len);
        subject = malloc(path_len);
        memcpy(text, s.text, len);
        memcpy(subject, path, path_len);
        for (unsigned j = draw(4); j; j--)
            text[draw((unsigned)len)] = "/()[]^+*?:$\\a\0\xff"[draw(15)];
        len -= draw(3) ? 0 : draw((unsigned)len);
        redirect_template_is(text, len);
        n = redirect_template_match(
            text, len, (draw(2) ? REDIRECT_ICASE : 0) | (draw(2) ? REDIRECT_SEARCHED : 0), subject,
            path_len, groups, REDIRECT_GROUPS);
        for (int j = 0; j < n && j < REDIRECT_GROUPS; j++)
            ck_assert(groups[j].end < 0 ||
                      (groups[j].start >= 0 && groups[j].start <= groups[j].end &&
                       (size_t)groups[j].end <= path_len));
        free(text);
        free(subject);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_template");
    TCase *tc = tcase_create("redirect_template");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 600);
    tcase_add_test(tc, what_is_no_template);
    tcase_add_test(tc, the_longest_path);
    if (map_regexes_available()) {
        tcase_add_loop_test(tc, a_template_is_its_regex, 0, 4);
        tcase_add_loop_test(tc, a_map_answers_as_with_regexes, 0, 4);
        tcase_add_test(tc, what_the_platforms_say);
    }
    tcase_add_test(tc, what_is_never_used);
    tcase_add_test(tc, many_that_are_alike);
    tcase_add_test(tc, the_time_is_linear);
    tcase_add_loop_test(tc, a_look_up_compares_few, 0, (int)COUNT_OF(shapes));
    tcase_add_loop_test(tc, any_bytes_may_stand_there, 0, 2);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
