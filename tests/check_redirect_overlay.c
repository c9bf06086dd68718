/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Edits of a map's rows: a table and the overlay of its edits answer as a table would that is built
 * anew from the edited rows. Random rows, edits and requests are compared with a plain list of lines;
 * HTC_ANSWERS asks for more of them, HTC_SEED=N repeats a run.
 */
#include "suite_util.h"
#include "redirect_overlay_fixture.h"
#include "redirect_overlay_checks.h"
#include "redirect_overlay_shown.h"
#include "redirect_overlay_many.h"

#include <regex.h>

#define MAX_LINES 200

/* --- the oracle: lines of a file -----------------------------------------------------------------*/

typedef struct line {
    const char *id; /* equal for rows of the same source */
    const char *row;
} line;

static line lines[MAX_LINES];
static unsigned nlines;

static const char *const paths[] = {
    "/",    "/a",
    "/a/b", "/a/b/c",
    "/y",   "/x/long-enough-for-a-block",
    "/x/y", "/x/longer-than-the-paths-that-are-hashed-in-four-blocks-of-sixteen-bytes"};
static const char *const queries[] = {"",         "",         "",         "?q=1",
                                      "?q=1&r=2", "?r=2&q=1", "?q=1&u=1", "?u=2&q=1"};
static const char *const hosts[] = {"", "", "https://h.example", "//h.example"};
static const char *const options[] = {"", "", " case=ignore", " slash=ignore", " subpath=on"};

static const char *const conditions[] = {"",
                                         "",
                                         " cookie=k",
                                         " accept=a/b",
                                         " accept=a/c",
                                         " accept=a/c unacceptable=406",
                                         " language=de",
                                         " cookie=k language=de",
                                         " accept=a/b language=en"};
static bool narrow; /* few sources, with many conditions */

static const char *random_id(const char **source, const char *condition)
{
    const char *path = paths[below(narrow ? 2 : COUNT_OF(paths))];
    const char *query = queries[below(COUNT_OF(queries))];
    const char *host = hosts[below(narrow ? 2 : COUNT_OF(hosts))];
    const char *exact = below(6) ? "" : " query=exact", *drop = below(6) ? "" : " query=drop",
               *below_host = below(6) ? "" : " host=*.example", *strip = below(3) ? "" : " strip=u";
    const char *refuses = strstr(condition, " unacceptable");

    *source = apr_pstrcat(pool, host, path, query, *exact ? exact : drop, below_host, strip,
                          condition, NULL);
    if (refuses)
        condition = apr_pstrmemdup(pool, condition, (size_t)(refuses - condition));
    /* As sets these two are the same; as a whole they are not. */
    if (!*exact && !strcmp(query, "?r=2&q=1"))
        query = "?q=1&r=2";
    return apr_pstrcat(pool, host, path, query, exact, *host ? "" : below_host, condition, NULL);
}

/* The target, status and options go between source and the options that belong to it. */
static const char *row_of(const char *source, unsigned n)
{
    const char *blank = strchr(source, ' ');
    size_t len = blank ? (size_t)(blank - source) : strlen(source);

    return apr_psprintf(pool, "%.*s https://to.example/%u %u%s%s", (int)len, source, n,
                        301 + below(2), blank ? blank : "", options[below(COUNT_OF(options))]);
}

static bool has_line(const char *id)
{
    for (unsigned i = 0; i < nlines; i++) {
        if (!strcmp(lines[i].id, id))
            return true;
    }
    return false;
}

static void add_line(const char *id, const char *row)
{
    ck_assert_uint_lt(nlines, MAX_LINES);
    lines[nlines++] = (line){id, row};
}

/* With a row, that takes the first one's place; the others go. */
static void change_lines(const char *id, const char *row)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < nlines; i++) {
        if (strcmp(lines[i].id, id)) {
            lines[kept++] = lines[i];
        } else if (row) {
            lines[kept++] = (line){id, row};
            row = NULL;
        }
    }
    nlines = kept;
    if (row)
        add_line(id, row);
}

static const char *all_lines(void)
{
    char *text = apr_pstrdup(pool, "# a comment\n");

    for (unsigned i = 0; i < nlines; i++)
        text = apr_pstrcat(pool, text, lines[i].row, "\n", NULL);
    return text;
}

/* --- random edits --------------------------------------------------------------------------------*/

static const char *random_edit(unsigned n)
{
    const char *source, *id, *row;
    unsigned what = below(3);

    id = random_id(&source, conditions[below(COUNT_OF(conditions))]);
    row = row_of(source, n);

    if (what == 0 && has_line(id))
        what = 1;
    if (what == 2 && !has_line(id))
        what = 0;
    if (what == 2) {
        change_lines(id, NULL);
        return apr_psprintf(pool, "del %s\n", source);
    }
    change_lines(id, row);
    return apr_psprintf(pool, "%s %s\n", what ? "set" : "add", row);
}

static const char *random_url(void)
{
    static const char *const starts[] = {"http://h.example", "https://h.example",
                                         "http://b.example", "http://other.test"};
    static const char *const ends[] = {"", "", "/", "/more", "/A", "//", "//more"};
    static const char *const asked[] = {"",         "",   "?q=1",     "?r=2&q=1",
                                        "?q=1&r=2", "?z", "?u=3&q=1", "?q=1&u=1"};
    const char *path = paths[below(narrow ? 2 : COUNT_OF(paths))];

    if (!strcmp(path, "/"))
        path = "";
    return apr_pstrcat(pool, starts[below(COUNT_OF(starts))], below(8) ? path : "/A",
                       ends[below(COUNT_OF(ends))], asked[below(COUNT_OF(asked))], NULL);
}

static const char *const accepts[] = {"a/b", "a/c", "x/y", "a/b;q=0.5, a/c"};
static const char *const languages[] = {"de", "en"}, *const cookies[] = {"k"};

static const char *any_of(const char *const *texts, unsigned n)
{
    unsigned i = below(n + 1);

    return i < n ? texts[i] : NULL;
}

static bool count_row(void *baton, const redirect_rule *rule, redirect_differs differs)
{
    (void)rule;
    ck_assert_int_ne(differs, REDIRECT_SAME);
    ++*(unsigned *)baton;
    return true;
}

static unsigned compare(const test_map *map, const char *edits)
{
    test_map anew;
    unsigned n = 0, differing = 0;

    redirect_edited_each(map->edited, map->table, true, 0, count_row, &differing, pool);
    ck_assert_uint_eq(differing, map->edited->overlay->differing);
    open_map(&anew, "rows.txt", all_lines());
    for (; n < 40; n++) {
        fields has = {any_of(accepts, COUNT_OF(accepts)), any_of(languages, COUNT_OF(languages)),
                      any_of(cookies, COUNT_OF(cookies))};
        const char *url = random_url(), *is = ask_with(map, url, has);
        const char *should = ask_with(&anew, url, has);

        ck_assert_msg(!strcmp(is, should), "%s: %s, not %s\n%s\nafter\n%s", url, is, should,
                      all_lines(), edits);
    }
    close_map(&anew);
    return n;
}

static unsigned run_random(void)
{
    unsigned n = 0, answers = 0;
    test_map map;

    nlines = 0;
    narrow = below(2);
    for (unsigned rows = below(25); rows; rows--) {
        const char *source, *id = random_id(&source, conditions[below(COUNT_OF(conditions))]);

        add_line(id, row_of(source, ++n));
    }
    open_map(&map, "rows.txt", all_lines());
    map.recent_max = below(8);
    for (unsigned batch = 0; batch < 4; batch++) {
        char *edits = apr_pstrdup(pool, ""), *log;

        for (unsigned i = 1 + below(8); i; i--)
            edits = apr_pstrcat(pool, edits, random_edit(++n), NULL);
        ck_assert_msg(edit(&map, edits, &log) == APR_SUCCESS, "%s\n%s%s", log, all_lines(), edits);
        answers += compare(&map, edits);
    }
    close_map(&map);
    return answers;
}

START_TEST(answers_as_the_edited_rows_do)
{
    const char *seed = getenv("HTC_SEED"), *wanted = getenv("HTC_ANSWERS");
    unsigned long answers = 0, most = wanted ? strtoul(wanted, NULL, 10) : 60000;

    state = seed ? strtoull(seed, NULL, 10) : (uint64_t)apr_time_now();
    printf("overlay: HTC_SEED=%llu\n", (unsigned long long)state);
    fflush(stdout);
    while (answers < most) {
        apr_pool_t *outer = pool;

        apr_pool_create(&pool, outer);
        answers += run_random();
        apr_pool_destroy(pool);
        pool = outer;
    }
    ck_assert_uint_gt(asked_base, answers / 20);
    ck_assert_uint_gt(merged, answers / 1000);
}
END_TEST

/* --- edits that are written ---------------------------------------------------------------------*/

/* Files of all formats, and sources that are in them or might be. */
static const struct {
    const char *name, *text;
    const char *sources[10];
} files[] = {
    {"rows.txt",
     "/a /1\n/b/ /2 301\n/b/c /3 case=ignore\n/d?q=1 /4\n//h.example/e /5 subpath=on\n",
     {"/a", "/b/", "/b/c", "/d?q=1", "/d", "//h.example/e", "/%41", "/new"}},
    {"_redirects",
     "/a /1\n/b/* /2/:splat 302\n/by/:id /3/:id\n/d q=1 /4\n/e/* /5\n",
     {"/a", "/b/*", "/by/:id", "/d?q=1", "/e/*", "/e/:x", "/b/c", "/new/*"}},
    /* whose sources are kept as prefixes or as templates */
    {"_redirects",
     "/a/* /1/:splat.html\n/b/* /2/:splat\n/b/c/* /3?x=:splat\n/* /4/:splat/x 302 Cookie=k\n",
     {"/a/*", "/b/*", "/b/c/*", "/*", "/new/*", "/b//*", "/A/*", "/b*"}},
    {"rows.map",
     "default /0;\n/a /1;\n/B/c /2;\n~^/b /3;\n~*^/e/(.*)$ /4/$1;\n/d?q=1 /5;\n",
     {"/a", "/b/c", "~^/b", "~*^/e/(.*)$", "/d?q=1", "~^/new", "/new", "default", "/", "/A"}},
    {"rows.conf",
     "map $request_uri $to {\n    /a /1;\n    /b/c /2;\n    ~^/b /3;\n    /d?q=1 /5;\n}\n",
     {"/a", "/b/c", "~^/b", "/d?q=1", "~^/new", "/new", "default"}},
    {"rows.conf",
     "map $host$uri $to {\n    h.example/a /1;\n    b.example/b /2;\n}\n",
     {"//h.example/a", "//b.example/b", "//h.example/new"}},
    {"rows.csv",
     "source,target,status,query,case\n/a,/1,301,,\n/b,/2,,drop,\n/b/c,/3,,,ignore\n/d?q=1,/4,,,\n",
     {"/a", "/b", "/b/c", "/d?q=1", "/d", "/new", "/B"}},
    {"rows.csv", "from,to\n/a,/1\n/b,/2\n", {"/a", "/b", "/new", "/a?q=1"}},
    {"bulk.csv",
     "source,destination,permanent,caseSensitive,query\n/a,/1,true,,\n/b/c,/2,,true,\n/d,/"
     "3,,,true\n",
     {"/a", "/b/c", "/d", "/new", "/A"}},
    {"bulk.csv",
     "h.example/a,https://to.example/1,301,FALSE,FALSE,TRUE,TRUE\n"
     "h.example/b,https://to.example/2,302,TRUE,FALSE,FALSE,FALSE\n",
     {"https://h.example/b", "//h.example/a", "//h.example/new", "//b.example/new"}},
    {"bulk.json",
     "[{\"source\": \"/a\", \"destination\": \"/1\"},\n"
     " {\"source\": \"/b/c\", \"destination\": \"/2\", \"caseSensitive\": true},\n"
     " {\"source\": \"/d\", \"destination\": \"/3\", \"query\": true, \"permanent\": true}]\n",
     {"/a", "/b/c", "/d", "/A", "/new", "/D"}},
    {"rows.jsonl",
     "{\"source\": \"/a\", \"destination\": \"/1\"}\n{\"source\": \"/d\", \"destination\": "
     "\"/2\"}\n",
     {"/a", "/d", "/new"}},
    {"vercel.json",
     "{\"redirects\": [{\"source\": \"/a\", \"destination\": \"/1\"},\n"
     " {\"source\": \"/b/:x\", \"destination\": \"/2/:x\", \"permanent\": true},\n"
     " {\"source\": \"/e/(.*)\", \"destination\": \"/3/$1\"},\n"
     " {\"source\": \"/d\", \"destination\": \"/4\"}]}\n",
     {"/a", "/b/:x", "/e/(.*)", "/d", "/new/:x*", "/b/c", "/A"}},
    /* with conditions */
    {"rows.txt",
     "/a /1 accept=a/b\n/a /2 language=de\n/a /3\n/b/ /4 subpath=on accept=a/b unacceptable=406\n"
     "/d?q=1&u=2 /5 strip=u\n/d?q=1 /6 accept=a/b strip=u\n/d /7 cookie=k\n",
     {"/a", "/b/", "/b", "/d?q=1&u=2", "/d?q=1", "/d", "/A", "/new"}},
    /* of which some answer once others are gone */
    {"rows.txt",
     "/d?q=1&u=1 /1 strip=u\n/d?u=2&q=1 /2 strip=u\n/d?q=1&u=9 /3 strip=u accept=a/b\n"
     "/d?q=1 /4 strip=u accept=a/b\n/d?q=1 /5 strip=u\n/d?q=1&u=3 /6 subpath=on strip=u\n",
     {"/d?q=1&u=1", "/d?q=1&u=2", "/d?u=9&q=1", "/d?q=1", "/d?q=1&u=3"}},
    {"_redirects",
     "/a /1 301 Language=de\n/a /2\n/b/* /3/:splat 301 Cookie=k\n/b /4\n"
     "/by/:id /5/:id 302 Language=de\n/by/:id /6/:id\n/e/* /7 301 Language=en\n",
     {"/a", "/b/*", "/b", "/by/:id", "/e/*", "/e", "/new/:x"}},
    {"rows.csv",
     "source,target,status,accept,language,cookie\n/a,/1,301,a/b,,\n/a,/2,,,de,\n/a,/3,,,,\n"
     "/b,/4,,a/c,,\n/d,/5,,,,k\n/d,/6,,a/b,de,k\n",
     {"/a", "/b", "/d", "/new"}},
    {"vercel.json",
     "{\"redirects\": [{\"source\": \"/a\", \"destination\": \"/1\",\n"
     " \"has\": [{\"type\": \"cookie\", \"key\": \"k\"}]},\n"
     " {\"source\": \"/b/:x\", \"destination\": \"/2/:x\",\n"
     " \"missing\": [{\"type\": \"cookie\", \"key\": \"k\"}]},\n"
     " {\"source\": \"/a\", \"destination\": \"/3\"},\n"
     " {\"source\": \"/b/:x\", \"destination\": \"/4/:x\",\n"
     " \"has\": [{\"type\": \"host\", \"value\": \"h.example\"}]}]}\n",
     {"/a", "/b/:x", "/b/c", "/new/:x*"}},
    /* with subdomains */
    {"rows.csv",
     "source,target,subdomains,accept\nhttps://h.example/a,/1,true,\n//x.h.example/a,/2,,\n"
     "//h.example/b,/3,true,a/b\n//h.example/b,/4,true,\n//b.example/d,/5,,\n",
     {"https://h.example/a", "//h.example/a", "//x.h.example/a", "//h.example/b", "//*.h.example/b",
      "https://*.h.example/a", "//b.example/d"}},
    {"bulk.csv",
     "h.example/a,https://to.example/1,301,FALSE,TRUE,TRUE,TRUE\n"
     "x.h.example/a,https://to.example/2,302,TRUE,FALSE,FALSE,FALSE\n"
     "h.example/b/c,https://to.example/3,302,TRUE,TRUE,FALSE,FALSE\n"
     "h.example/b,https://to.example/4,302,TRUE,TRUE,TRUE,FALSE\n",
     {"//h.example/a", "https://h.example/a", "//x.h.example/a", "//h.example/b/c", "//h.example/b",
      "//*.h.example/b", "//x.h.example/b/c"}},
};

static const char *const files_hosts[] = {"https://h.example", "http://h.example",
                                          "http://b.example", "https://x.h.example"};
static const char *const files_targets[] = {
    "/to",        "/to?x=1",        "https://to.example/x", "https://to.example/y#z",
    "/to/:splat", "/to/:splat.html"};
static const char *const files_rest[] = {"",
                                         "",
                                         "",
                                         " 301",
                                         " 302",
                                         " 307",
                                         " case=exact",
                                         " 308",
                                         " query=append",
                                         " query=drop",
                                         " subpath=on"};
static const char *const files_conditions[] = {"",
                                               "",
                                               "",
                                               "",
                                               " accept=a/b",
                                               " accept=a/c unacceptable=406",
                                               " cookie=k",
                                               " language=de",
                                               " host=h.example",
                                               " strip=u",
                                               " strip=u accept=a/b"};
static const char *const files_urls[] = {
    "/a",     "/A",       "/a/",      "/a?q=1", "/b",     "/b/",    "/b/c",   "/B/C",      "/b/c/d",
    "/d",     "/d?q=1",   "/D?z=2",   "/e",     "/e/f",   "/E/f",   "/by/7",  "/new",      "/NEW",
    "/new/x", "/new/x/y", "/new?q=1", "/",      "/other", "/x?q=1", "/a?z=3", "/d?q=1&u=9"};

static unsigned edit_of_file(unsigned n, const char **line)
{
    const char *source, *condition = files_conditions[below(COUNT_OF(files_conditions))];

    do
        source = files[n].sources[below(COUNT_OF(files[n].sources))];
    while (!source);
    if (!below(4)) {
        *line = apr_psprintf(pool, "del %s%s", source, condition);
        return 0;
    }
    *line = apr_psprintf(pool, "%s %s %s%s%s%s", below(3) ? "set" : "add", source,
                         files_targets[below(COUNT_OF(files_targets))],
                         files_rest[below(COUNT_OF(files_rest))], below(6) ? "" : " case=ignore",
                         condition);
    return 1;
}

/* Regexes of sources are literal here, but for their ends. */
static bool matches(void *baton, uint32_t id, const char *pattern, unsigned flags,
                    const char *subject, size_t len)
{
    regex_t regex;
    bool found = false;

    (void)baton, (void)id, (void)len;
    if (regcomp(&regex, pattern, REG_EXTENDED | (flags & REDIRECT_ICASE ? REG_ICASE : 0)) == 0) {
        found = regexec(&regex, subject, 0, NULL, 0) == 0;
        regfree(&regex);
    }
    return found;
}

/* The target as it stands, what of the request goes behind it, and Vary. */
static const char *ask_all(const test_map *map, const char *url, fields has)
{
    redirect_request request = request_of(url);
    redirect_conditions conditions;
    redirect_match match;
    bool found;

    redirect_conditions_begin(&conditions, pool, field_of, (void *)(uintptr_t)has);
    request.judge = &conditions.judge;
    request.regex = matches;
    if (!map->edited)
        found = redirect_table_lookup(map->table, &request, 0, &match);
    else if (!redirect_edited_ask_base(map->edited, &request, &match, &found))
        found = redirect_edited_lookup(map->edited, map->table, &request, &request, &request,
                                       &match) != REDIRECT_NOT_FOUND;
    return apr_pstrcat(
        pool, conditions.not_acceptable ? "406" : text_of(found, &match),
        found ? apr_psprintf(pool, " %x %s", match.profile.options, match.strip ? match.strip : "")
              : "",
        sorted_vary(&conditions), NULL);
}

/* Lines of a _redirects file that have this source and no condition. */
static unsigned count_source(const char *text, const char *source)
{
    unsigned n = 0;
    size_t len = strlen(source);

    for (const char *eol; *text; text = eol + 1) {
        const char *line;

        eol = strchr(text, '\n');
        line = apr_pstrmemdup(pool, text, (size_t)(eol - text));
        n += !strncmp(line, source, len) && line[len] == ' ' && !strstr(line, " Language=") &&
             !strstr(line, " Cookie=");
    }
    return n;
}

/* What was edited stands there once, or no more. */
static void expect_source(unsigned n, const redirect_edit *one, const char *text)
{
    const char *star = strchr(one->source, '*');

    if (!strcmp(files[n].name, "_redirects") && star && !*one->options)
        ck_assert_msg(count_source(text, one->source) == (one->op != REDIRECT_EDIT_DEL),
                      "%s of\n%s", one->source, text);
}

static bool compare_ways(unsigned n)
{
    redirect_map_options automatic;
    redirect_edit_error error;
    test_map map, written;
    char *text = (char *)(uintptr_t)files[n].text, *out, *log = NULL, *all = apr_pstrdup(pool, "");
    size_t len = strlen(text), out_len;
    unsigned done = 0;

    redirect_map_options_init(&automatic);
    open_map(&map, files[n].name, files[n].text);
    map.recent_max = below(4);
    for (unsigned tries = 0; tries < 5; tries++) {
        const char *line;
        redirect_edit one;
        apr_status_t rv, temporary;

        edit_of_file(n, &line);
        ck_assert_ptr_null(redirect_edit_parse(line, strlen(line), &one, pool));
        rv = redirect_map_edit(&automatic, files[n].name, text, len, &one, 1, &error, pool, &out,
                               &out_len);
        if (rv == APR_ENOTIMPL || rv == APR_EGENERAL) /* which --temporary may do */
            continue;
        all = apr_pstrcat(pool, all, line, "\n", NULL);
        temporary = edit(&map, apr_pstrcat(pool, line, "\n", NULL), &log);
        ck_assert_msg((rv == APR_SUCCESS) == (temporary == APR_SUCCESS),
                      "%s\nof %s%s: '%s', but '%s'", all, files[n].name, text,
                      error.message ? error.message : "done", log);
        if (rv != APR_SUCCESS)
            continue;
        text = out;
        len = out_len;
        expect_source(n, &one, text);
        done++;
    }
    open_map(&written, files[n].name, text);
    for (unsigned i = 0; done && i < 2 * COUNT_OF(files_urls); i++) {
        const char *url =
            apr_pstrcat(pool, files_hosts[below(COUNT_OF(files_hosts))], files_urls[i / 2], NULL);
        fields has = {any_of(accepts, COUNT_OF(accepts)), any_of(languages, COUNT_OF(languages)),
                      any_of(cookies, COUNT_OF(cookies))};
        const char *is = ask_all(&map, url, has), *should = ask_all(&written, url, has);

        ck_assert_msg(!strcmp(is, should), "%s: %s, not %s\n%s\nafter\n%s\nof\n%s", url, is, should,
                      text, all, files[n].text);
    }
    close_map(&map);
    close_map(&written);
    return done > 0;
}

/* Whatever the format: as if the edits had been written to the file. */
START_TEST(answers_as_the_written_file_does)
{
    apr_pool_t *outer = pool;
    const char *seed = getenv("HTC_SEED"), *wanted = getenv("HTC_ANSWERS");
    unsigned done = 0, most = wanted ? (unsigned)(strtoul(wanted, NULL, 10) / 50) : 1800;

    state = seed ? strtoull(seed, NULL, 10) : (uint64_t)apr_time_now();
    printf("overlay: HTC_SEED=%llu\n", (unsigned long long)state);
    fflush(stdout);
    for (unsigned i = 0; i < most; i++) {
        apr_pool_create(&pool, outer);
        done += compare_ways(i % COUNT_OF(files));
        apr_pool_destroy(pool);
    }
    pool = outer;
    ck_assert_uint_gt(done, most / 2);
}
END_TEST

/* --- single ones ---------------------------------------------------------------------------------*/

START_TEST(takes_all_or_nothing)
{
    test_map map;

    open_map(&map, "rows.txt", "/a /1\n/b /2\n");
    expect_edit(&map, "set /a /3\nadd /b /4\n", APR_EEXIST,
                "2: the source has a row already, in line 2");
    ck_assert_ptr_null(map.overlay);
    expect_edit(&map, "set /a /3\n\n# \ndel /c\n", APR_EEXIST, "4: the source has no row");
    expect_edit(&map, "set /a\n", APR_EGENERAL, "1: ");
    expect_edit(&map, "/a /b\n", APR_EGENERAL, "1: an edit is 'add SOURCE");
    expect_edit(&map, "set \"/a /b\n", APR_EGENERAL, "1: a quote is not closed");
    expect_edit(&map, "del /a /b\n", APR_EGENERAL, "1: ");
    expect_edit(&map, "set /a /3\r\nadd \"/c d\" /4 gone\r\ndel /b", APR_SUCCESS, "");
    expect(&map, "/a", "302 /3");
    expect(&map, "/b", "none");
    expect_edit(&map, "add /a /4\n", APR_EEXIST, "1: the source has a row already, by an edit");
    expect_edit(&map, "add /c%20d /4\n", APR_EEXIST, "1: ");
    expect_edit(&map, "add /b /4\ndel /a\nset /a /5 301\n", APR_SUCCESS, "");
    expect(&map, "/a", "301 /5");
    expect(&map, "/b", "302 /4");
    close_map(&map);
}
END_TEST

/* A text file's words are of no use to a pattern of the file's format: it would be a path there. */
START_TEST(a_pattern_has_the_words_of_its_format)
{
    test_map map;

    open_map(&map, "_redirects", "/a /1\n");
    expect_edit(&map, "add /p/:id /2 case=ignore\n", APR_EGENERAL,
                "1: a row of _redirects has no options such as 'case=ignore'");
    expect_edit(&map, "add /w/* 410\n", APR_EGENERAL,
                "1: a row of _redirects cannot be without a target");
    expect_edit(&map, "add /p/x:id /2 case=ignore\nadd /gone 410\n", APR_SUCCESS, "");
    expect(&map, "/P/X:id", "301 /2");
    expect(&map, "/gone", "410 ");
    close_map(&map);
    open_map(&map, "vercel.json", "{\"redirects\": []}\n");
    expect_edit(&map, "add /p/:id /2 subpath=on\n", APR_EGENERAL, "1: JSON has no word for");
    expect_edit(&map, "add /p /2 subpath=on\n", APR_SUCCESS, "");
    expect(&map, "/p/7", "307 /2");
    close_map(&map);
}
END_TEST

/* Where a row would stand if it were the last of the file. */
START_TEST(new_rows_come_where_the_format_has_them)
{
    test_map map;

    open_map(&map, "rows.txt", "/a /1\n/b?x=1 /2\n/c /3 query=exact\n");
    expect_edit(&map, "add /a?x=1 /4\n", APR_SUCCESS, "");
    expect(&map, "/a?x=1", "302 /4");
    expect(&map, "/a", "302 /1");
    close_map(&map);
    open_map(&map, "_redirects", "/a /1\n/b/* /2\n");
    expect_edit(&map, "add /a?x=1 /4\nadd /b/c /5\nadd /d /6\n", APR_SUCCESS, "");
    expect(&map, "/a?x=1", "301 /1"); /* the first of the file that matches */
    expect(&map, "/d", "301 /6");     /* the format's status */
    close_map(&map);
    open_map(&map, "rows.map", "default /0;\n/a /1;\n~^/b /2;\n");
    expect_edit(&map, "add /b/c /3\n", APR_SUCCESS, "");
    expect(&map, "/b/c", "302 /3"); /* ahead of regexes */
    expect(&map, "/a", "302 /1");
    close_map(&map);
}
END_TEST

/* A row of a CSV file may have two rules: for a host, and for those below it. */
START_TEST(rules_of_one_row_go_together)
{
    test_map map;

    open_map(
        &map, "rows.csv",
        "source,target,subdomains\nhttps://h.example/a,/1,true\nhttps://h.example/b,/2,true\n");
    expect(&map, "https://x.h.example/a", "301 /1");
    expect_edit(&map, "del https://h.example/a\n", APR_SUCCESS, "");
    expect(&map, "https://h.example/a", "none");
    expect(&map, "https://x.h.example/a", "none");
    expect(&map, "https://x.h.example/b", "301 /2");
    expect_edit(&map, "set https://h.example/b /3\n", APR_SUCCESS, "");
    expect(&map, "https://h.example/b", "301 /3");
    expect(&map, "https://x.h.example/b", "301 /3");
    close_map(&map);
    /* a row of its own for those below, which hides the other one's second rule */
    open_map(&map, "rows.csv",
             "source,target,subdomains\n//h.example/a,/1,true\n//*.h.example/a,/2,\n");
    expect(&map, "https://x.h.example/a", "301 /2");
    expect_edit(&map, "del //*.h.example/a\n", APR_SUCCESS, "");
    expect(&map, "https://x.h.example/a", "301 /1");
    close_map(&map);
}
END_TEST

START_TEST(other_rows_of_the_line_stay)
{
    test_map map;

    open_map(&map, "rows.map", "/a /1; /b /2; /c /3;\n");
    expect_edit(&map, "del /b\n", APR_SUCCESS, "");
    expect(&map, "/a", "302 /1");
    expect(&map, "/b", "none");
    expect(&map, "/c", "302 /3");
    close_map(&map);
}
END_TEST

/* Queries that differ in what strip= leaves out are those of one source to a table, but not to whoever
 * edits. */
START_TEST(what_is_stripped_is_one_source)
{
    static fields wanted = {"a/b", NULL, NULL}, other = {"x/y", NULL, NULL};
    test_map map;

    open_map(&map, "rows.txt", "/a?x=1&u=2 /2 strip=u\n/a?x=1 /1 accept=a/b strip=u\n");
    expect_edit(&map, "set /a?x=1&u=2 /3 strip=u\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/a?x=1", other), "302 /3 Accept");
    ck_assert_str_eq(ask_with(&map, "/a?x=1", wanted), "302 /1 Accept");
    expect_edit(&map, "add /a?x=1&u=4 /4 strip=u\nadd /a?x=1&u=5 /5 strip=u\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/a?x=1", other), "302 /3 Accept");
    expect_edit(&map, "del /a?x=1&u=2\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/a?x=1", other), "302 /4 Accept");
    expect_edit(&map, "del /a?x=1&u=4\ndel /a?x=1 accept=a/b\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/a?x=1", other), "302 /5");
    close_map(&map);
    open_map(&map, "rows.txt", "/a?x=1&u=1 /1 strip=u\n/a?u=2&x=1 /2 strip=u\n/a?x=1 /3 strip=u\n");
    expect(&map, "/a?x=1", "302 /1");
    expect_edit(&map, "del /a?x=1&u=1\n", APR_SUCCESS, "");
    expect(&map, "/a?x=1", "302 /2");
    expect_edit(&map, "set /a?x=1&u=2 /4 strip=y\n", APR_SUCCESS, "");
    expect(&map, "/a?x=1", "302 /3");
    close_map(&map);
}
END_TEST

/* A row that was not edited answers as in the file, and does not differ from it. */
START_TEST(rows_that_are_compared_come_along)
{
    static fields wanted = {"a/b", NULL, NULL}, other = {"x/y", NULL, NULL};
    test_map map;

    open_map(&map, "rows.txt", "/a /1 accept=a/b unacceptable=406\n/a /2 accept=a/c\n/b /3\n");
    expect_edit(&map, "set /a /4 accept=a/c\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/a", wanted), "302 /1 Accept");
    ck_assert_str_eq(ask_with(&map, "/a", other), "406 Accept");
    ck_assert_uint_eq(map.overlay->differing, 1);
    expect_edit(&map, "set /a /5 accept=a/b\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/a", wanted), "302 /5 Accept");
    ck_assert_str_eq(ask_with(&map, "/a", other), "none Accept");
    ck_assert_uint_eq(map.overlay->differing, 2);
    close_map(&map);
}
END_TEST

/* Conditions of rows that went are not asked, nor those behind the row that answers, whichever of
 * both tables it is in. A source's rows stand where its first one does. */
START_TEST(asks_only_what_counts)
{
    static fields other = {"x/y", NULL, NULL}, wanted = {"a/b", NULL, NULL};
    test_map map;

    open_map(&map, "rows.txt",
             "/c /1 cookie=k\n/p/x /2\n/p /3 accept=a/b subpath=on unacceptable=406\n/p/y /4\n"
             "/p/z /5 cookie=k\n");
    expect_edit(&map, "set /p/x /6\nset /p/z /7 cookie=k\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/p/x", other), "302 /6");
    ck_assert_str_eq(ask_with(&map, "/p/y", other), "406 Accept");
    ck_assert_str_eq(ask_with(&map, "/p/z", other), "406 Accept");
    ck_assert_str_eq(ask_with(&map, "/p/z", wanted), "302 /3 Accept");
    expect_edit(&map, "del /c cookie=k\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/c", other), "none");
    close_map(&map);
    open_map(&map, "rows.txt", "/p /1 subpath=on\n/p/x /2\n/p /3 accept=a/b subpath=on\n");
    expect_edit(&map, "set /p/x /4\n", APR_SUCCESS, "");
    ck_assert_str_eq(ask_with(&map, "/p/x", wanted), "302 /3 Accept");
    close_map(&map);
}
END_TEST

/* Whatever a process writes there: nothing outside is read, and look-ups end. */
START_TEST(survives_what_others_write)
{
    static fields none;
    apr_pool_t *outer = pool;
    test_map map;

    open_map(&map, "rows.txt", "/a /1\n/b /2\n/b?x=1 /3\n/c /4\n");
    expect_edit(&map, "set /a /5\ndel /b\nadd /e?x=1 /6\nset /c /7\n", APR_SUCCESS, "");
    for (unsigned i = 0; i < 20000; i++) {
        unsigned char *byte = (unsigned char *)map.overlay_image + below((unsigned)map.size),
                      was = *byte;
        const redirect_overlay *again;

        apr_pool_create(&pool, outer);
        *byte = (unsigned char)below(256);
        ask_once(&map, random_url(), none, false);
        ask_once(&map, random_url(), none, true);
        again = redirect_overlay_open(map.overlay_image, map.size, pool);
        if (again) {
            const redirect_edited *before = map.edited;

            map.edited = redirect_edited_open(map.table, again, map.edited->older, pool);
            ask_once(&map, random_url(), none, false);
            ask_once(&map, random_url(), none, true);
            map.edited = before;
        }
        if (below(4))
            *byte = was;
        apr_pool_destroy(pool);
    }
    pool = outer;
    close_map(&map);
}
END_TEST

static void begin(void)
{
    apr_initialize();
}

static void set_up(void)
{
    apr_pool_create(&pool, NULL);
}

static void tear_down(void)
{
    apr_pool_destroy(pool);
}

int main(void)
{
    Suite *suite = suite_create("redirect_overlay");
    TCase *tests = tcase_create("overlay"), *many = tcase_create("many");

    tcase_add_unchecked_fixture(tests, begin, NULL);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 600);
    tcase_add_test(tests, takes_all_or_nothing);
    tcase_add_test(tests, a_pattern_has_the_words_of_its_format);
    tcase_add_loop_test(tests, what_is_shown_is_what_edits_take, 0, COUNT_OF(shown));
    tcase_add_test(tests, new_rows_come_where_the_format_has_them);
    tcase_add_test(tests, default_of_a_host_comes_last);
    tcase_add_test(tests, row_that_is_half_hidden_is_not_taken_apart);
    tcase_add_test(tests, rules_of_one_row_go_together);
    tcase_add_test(tests, lists_say_the_same_in_any_order);
    tcase_add_test(tests, other_rows_of_the_line_stay);
    tcase_add_test(tests, what_is_stripped_is_one_source);
    tcase_add_test(tests, rows_that_are_compared_come_along);
    tcase_add_test(tests, asks_only_what_counts);
    tcase_add_test(tests, rows_of_one_directory_stay);
    tcase_add_test(tests, added_rows_are_found_at_once);
    tcase_add_loop_test(tests, edits_are_asked_for_their_own_paths, 0, COUNT_OF(added));
    tcase_add_loop_test(tests, warns_as_the_check_of_a_file_does, 0, COUNT_OF(checks));
    tcase_add_test(tests, survives_what_others_write);
    tcase_add_test(tests, answers_as_the_edited_rows_do);
    tcase_add_test(tests, answers_as_the_written_file_does);
    tcase_add_unchecked_fixture(many, begin, NULL);
    tcase_add_checked_fixture(many, set_up, tear_down);
    tcase_set_timeout(many, 20);
    tcase_add_test(many, thousands_of_one_path);
    suite_add_tcase(suite, many);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
