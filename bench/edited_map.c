/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in a map, the same look-ups while rows of it are edited, and when the edits are in its
 * file. Compiled and run by
 * bench/edited_map.py, which counts their instructions:
 *
 *   edited_map KIND ROWS EDITS LOOKUPS HOW [ADDED]
 *
 * KIND: exact, prefix, mixed, host or query: the rows. One third of the EDITS removes a row, one
 * changes one, and one adds one, of the kind ADDED: one of these, shallow (`subpath=on`, of fewer
 * segments) or icase. HOW: hit or miss; no row that a request asks for was edited.
 */
#include "maps/maps.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    char *at;
    size_t len, room;
} text;

static void put(text *t, const char *s)
{
    size_t n = strlen(s);

    if (t->len + n + 1 > t->room) {
        t->room = 2 * (t->len + n + 1);
        t->at = realloc(t->at, t->room);
    }
    memcpy(t->at + t->len, s, n + 1);
    t->len += n;
}

/* The source of row i. */
static void source_of(const char *kind, unsigned i, char *to, size_t room)
{
    if (!strcmp(kind, "shallow"))
        snprintf(to, room, "/added/section-%u", i);
    else if (!strcmp(kind, "host"))
        snprintf(to, room, "//h%u.example/old/section-%u/page-%u", i % 1000, i % 97, i);
    else if (!strcmp(kind, "query"))
        snprintf(to, room, "/old/section-%u/part-%u/page?id=%u", i % 97, i % 13, i);
    else
        snprintf(to, room, "/old/section-%u/part-%u/page-%u", i % 97, i % 13, i);
}

static bool is_subpath(const char *kind, unsigned i)
{
    return !strcmp(kind, "prefix") || !strcmp(kind, "shallow") || (!strcmp(kind, "mixed") && i % 2);
}

static void put_row(text *t, const char *edit, const char *kind, unsigned i, const char *target)
{
    char source[200], row[400];

    source_of(kind, i, source, sizeof(source));
    if (target)
        snprintf(row, sizeof(row), "%s%s https://www.example.com/%s/%u%s%s\n", edit, source, target,
                 i, is_subpath(kind, i) ? " subpath=on" : "",
                 strcmp(kind, "icase") ? "" : " case=ignore");
    else
        snprintf(row, sizeof(row), "%s%s\n", edit, source);
    put(t, row);
}

static void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void show(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    (void)baton;
    if (severity == REDIRECT_ERROR)
        fprintf(stderr, "%u: %s\n", line, message);
}

static void *take(size_t size)
{
    void *at = NULL;

    if (posix_memalign(&at, 4096, size))
        die("no memory");
    return at;
}

/* The row of the edit; every step-th row from the first on is edited. */
typedef struct change {
    unsigned rows, edits, step;
    const char *kind, *added;
} change;

static void put_map(text *t, const change *c, bool edited)
{
    for (unsigned i = 0; i < c->rows; i++) {
        unsigned edit = edited && i % c->step == 0 ? i / c->step : c->edits;

        if (edit >= c->edits || edit % 3 == 2)
            put_row(t, "", c->kind, i, "new");
        else if (edit % 3 == 1)
            put_row(t, "", c->kind, i, "edited");
    }
    for (unsigned i = 2; edited && i < c->edits; i += 3)
        put_row(t, "", c->added, 2 * c->rows + i, "added");
}

static const redirect_table *build(const change *c, bool edited,
                                   const redirect_map_options *options, apr_pool_t *pool)
{
    redirect_report report = {.fn = show};
    const redirect_table *table = NULL;
    text t = {0};
    void *image;
    size_t size;

    put_map(&t, c, edited);
    if (redirect_map_build(options, "rows.txt", t.at, t.len, &report, pool, &image, &size) ==
        APR_SUCCESS)
        table = redirect_table_open(image, size, pool);
    if (!table)
        die("the map cannot be built");
    free(t.at);
    return table;
}

static const redirect_edited *edit_rows(const redirect_table *base, const change *c,
                                        const redirect_map_options *options, apr_pool_t *pool)
{
    redirect_report report = {.fn = show};
    redirect_edits *e = redirect_edits_create(base, 1, NULL, 0, options, pool);
    uint32_t counters;
    bool older;
    text t = {0};
    size_t size;
    void *image;

    for (unsigned i = 0; i < c->edits; i++) {
        if (i % 3 == 0)
            put_row(&t, "del ", c->kind, i * c->step, NULL);
        else if (i % 3 == 1)
            put_row(&t, "set ", c->kind, i * c->step, "edited");
        else
            put_row(&t, "add ", c->added, 2 * c->rows + i, "added");
    }
    if (redirect_edits_apply(e, t.at ? t.at : "", t.len, &report) != APR_SUCCESS ||
        redirect_edits_finish(e, 1, &size, &counters, &older) != APR_SUCCESS)
        die("the edits cannot be made");
    image = take(size);
    redirect_edits_write(e, image);
    redirect_edits_destroy(e);
    free(t.at);
    return redirect_edited_open(base, redirect_overlay_open(image, size, pool), NULL, pool);
}

typedef struct work {
    const redirect_table *base, *written;
    const redirect_edited *edited;
    redirect_request *requests;
    unsigned lookups;
} work;

static inline unsigned look_up(const work *w, const redirect_table *table)
{
    unsigned found = 0;
    redirect_match match;

    for (unsigned i = 0; i < w->lookups; i++)
        found += redirect_table_lookup(table, &w->requests[i], 0, &match);
    return found;
}

__attribute__((noinline)) static unsigned without_edits(const work *w)
{
    return look_up(w, w->base);
}

__attribute__((noinline)) static unsigned in_the_file(const work *w)
{
    return look_up(w, w->written);
}

__attribute__((noinline)) static unsigned with_edits(const work *w)
{
    unsigned found = 0;
    redirect_match match;
    bool is;

    for (unsigned i = 0; i < w->lookups; i++) {
        const redirect_request *request = &w->requests[i];

        if (!redirect_edited_ask_base(w->edited, request, &match, &is))
            is = redirect_edited_lookup(w->edited, w->base, request, request, request, &match) !=
                 REDIRECT_NOT_FOUND;
        found += is;
    }
    return found;
}

static redirect_request request_for(const char *kind, unsigned i, apr_pool_t *pool)
{
    redirect_request request;
    char source[200], url[300];
    int status;

    source_of(kind, i, source, sizeof(source));
    snprintf(url, sizeof(url), "%s%s", strcmp(kind, "host") ? "http://h.example" : "http:", source);
    if (redirect_request_of(url, NULL, &request, &status, pool))
        die("no URL");
    redirect_request_one_form(&request, pool);
    return request;
}

int main(int argc, char **argv)
{
    change c = {.step = 1};
    redirect_map_options options;
    apr_pool_t *pool;
    work w = {0};
    unsigned wanted;
    bool hit;

    if (argc < 6)
        die("usage: edited_map KIND ROWS EDITS LOOKUPS hit|miss [ADDED]");
    c.kind = argv[1];
    c.added = argc > 6 ? argv[6] : c.kind;
    c.rows = (unsigned)atoi(argv[2]);
    c.edits = (unsigned)atoi(argv[3]);
    c.step = c.edits ? c.rows / c.edits : c.rows + 1;
    w.lookups = (unsigned)atoi(argv[4]);
    hit = !strcmp(argv[5], "hit");
    wanted = hit ? w.lookups : 0;
    apr_initialize();
    apr_pool_create(&pool, NULL);
    redirect_map_options_init(&options);
    options.format = REDIRECT_FORMAT_TEXT;
    w.base = build(&c, false, &options, pool);
    w.written = build(&c, true, &options, pool);
    w.edited = edit_rows(w.base, &c, &options, pool);
    w.requests = apr_palloc(pool, w.lookups * sizeof(*w.requests));
    for (unsigned i = 0; i < w.lookups; i++) {
        unsigned n = (unsigned)((uint64_t)i * 2654435761U % c.rows);

        if (n % c.step == 0) /* it may be edited */
            n++;
        w.requests[i] = request_for(c.kind, hit ? n : 4 * c.rows + n, pool);
    }
    if (without_edits(&w) != wanted || with_edits(&w) != wanted || in_the_file(&w) != wanted)
        die("wrong answers");
    apr_pool_destroy(pool);
    apr_terminate();
    return 0;
}
