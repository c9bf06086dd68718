/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in a map, and the same look-ups while rows of it are edited. Compiled and run by
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

/* Every step-th row from the first on is edited. */
static const redirect_edited *edit_rows(const redirect_table *base,
                                        const redirect_map_options *options, const char *kind,
                                        const char *added, unsigned rows, unsigned edits,
                                        apr_pool_t *pool)
{
    redirect_report report = {.fn = show};
    redirect_edits *e = redirect_edits_create(base, 1, NULL, 0, options, pool);
    unsigned step = edits ? rows / edits : rows + 1;
    uint32_t counters;
    bool older;
    text t = {0};
    size_t size;
    void *image;

    for (unsigned i = 0; i < edits; i++) {
        if (i % 3 == 0)
            put_row(&t, "del ", kind, i * step, NULL);
        else if (i % 3 == 1)
            put_row(&t, "set ", kind, i * step, "edited");
        else
            put_row(&t, "add ", added, 2 * rows + i, "added");
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
    const redirect_table *base;
    const redirect_edited *edited;
    redirect_request *requests;
    unsigned lookups;
} work;

__attribute__((noinline)) static unsigned without_edits(const work *w)
{
    unsigned found = 0;
    redirect_match match;

    for (unsigned i = 0; i < w->lookups; i++)
        found += redirect_table_lookup(w->base, &w->requests[i], 0, &match);
    return found;
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
    const char *kind = argc > 5 ? argv[1] : "";
    unsigned rows, edits;
    redirect_map_options options;
    redirect_report report = {.fn = show};
    apr_pool_t *pool;
    work w = {0};
    text t = {0};
    void *image;
    size_t size;
    bool hit;

    if (argc < 6)
        die("usage: edited_map KIND ROWS EDITS LOOKUPS hit|miss [ADDED]");
    rows = (unsigned)atoi(argv[2]);
    edits = (unsigned)atoi(argv[3]);
    w.lookups = (unsigned)atoi(argv[4]);
    hit = !strcmp(argv[5], "hit");
    apr_initialize();
    apr_pool_create(&pool, NULL);
    for (unsigned i = 0; i < rows; i++)
        put_row(&t, "", kind, i, "new");
    redirect_map_options_init(&options);
    options.format = REDIRECT_FORMAT_TEXT;
    if (redirect_map_build(&options, "rows.txt", t.at, t.len, &report, pool, &image, &size) !=
            APR_SUCCESS ||
        !(w.base = redirect_table_open(image, size, pool)))
        die("the map cannot be built");
    w.edited = edit_rows(w.base, &options, kind, argc > 6 ? argv[6] : kind, rows, edits, pool);
    w.requests = apr_palloc(pool, w.lookups * sizeof(*w.requests));
    for (unsigned i = 0; i < w.lookups; i++) {
        unsigned step = edits ? rows / edits : rows + 1,
                 n = (unsigned)((uint64_t)i * 2654435761U % rows);

        if (n % step == 0) /* it may be edited */
            n++;
        w.requests[i] = request_for(kind, hit ? n : 4 * rows + n, pool);
    }
    if (without_edits(&w) != (hit ? w.lookups : 0) || with_edits(&w) != (hit ? w.lookups : 0))
        die("wrong answers");
    apr_pool_destroy(pool);
    apr_terminate();
    return 0;
}
