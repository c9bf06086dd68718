/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the tests of edited maps begin with: a map, edits of it as the area would have them, and what
 * it answers. Included by tests/check_redirect_overlay.c.
 */
#ifndef REDIRECT_OVERLAY_FIXTURE_H
#define REDIRECT_OVERLAY_FIXTURE_H

#include "maps/overlay_internal.h"

#include <check.h>
#include <apr_general.h>
#include <apr_strings.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define VERSION         7

static apr_pool_t *pool;
static uint64_t state;

static unsigned below(unsigned n)
{
    uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 (Steele, Lea, Flood, 2014) */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((x ^ x >> 31) % n);
}

/* --- tables and overlays -----------------------------------------------------------------------*/

/* Memory as the area has it. */
static void *take(size_t size)
{
    void *at = NULL;

    ck_assert_int_eq(posix_memalign(&at, 64, size ? size : 64), 0);
    return at;
}

static void count_errors(void *baton, redirect_severity severity, uint32_t line,
                         const char *message)
{
    char **log = baton;

    if (severity == REDIRECT_ERROR)
        *log = apr_psprintf(pool, "%s%u: %s\n", *log, line, message);
}

typedef struct test_map {
    redirect_map_options options;
    const char *name, *text;
    void *image, *overlay_image, *older_image;
    size_t size; /* of the overlay's */
    const redirect_table *table;
    const redirect_overlay *overlay, *older; /* as in two places of the area */
    const redirect_edited *edited;
    uint64_t older_version; /* 0: there is none */
    uint32_t recent_max;    /* 0: as usual */
} test_map;

static unsigned long asked_base; /* look-ups that the base alone has answered */
static unsigned long merged;     /* times that both overlays became one */

static const redirect_table *build(const redirect_map_options *options, const char *name,
                                   const char *text, void **image)
{
    redirect_report report = {.fn = NULL};
    const redirect_table *table;
    size_t size;

    ck_assert_int_eq(
        redirect_map_build(options, name, text, strlen(text), &report, pool, image, &size),
        APR_SUCCESS);
    ck_assert_msg(report.errors == 0, "%s", text);
    table = redirect_table_open(*image, size, pool);
    ck_assert_ptr_nonnull(table);
    return table;
}

static void open_map(test_map *map, const char *name, const char *text)
{
    memset(map, 0, sizeof(*map));
    map->name = name;
    map->text = text;
    redirect_map_options_init(&map->options);
    map->options.format = redirect_format_of(&map->options, name, text, strlen(text));
    map->table = build(&map->options, name, text, &map->image);
}

/* Into one of its two places. What both have is what a request gets. */
static void take_image(test_map *map, void *image, size_t size, bool older)
{
    const redirect_overlay **to = older ? &map->older : &map->overlay, *last;
    void **at = older ? &map->older_image : &map->overlay_image;
    const redirect_overlay *under = NULL;

    *to = redirect_overlay_open(image, size, pool);
    ck_assert_ptr_nonnull(*to);
    map->older_version += older;
    last = map->overlay;
    if (map->older && (!last || redirect_overlay_covers(map->older, last))) {
        last = map->older;
    } else if (last->older) {
        ck_assert_uint_eq(last->older, map->older_version);
        under = map->older;
    }
    map->edited = redirect_edited_open(map->table, last, under, pool);
    free(*at);
    *at = image;
    if (!older)
        map->size = size;
    merged += older;
}

/* APR_SUCCESS, or what is wrong in *log. */
static apr_status_t edit(test_map *map, const char *edits, char **log)
{
    redirect_report report = {.fn = count_errors, .baton = log};
    bool over = map->edited && (map->edited->older || map->edited->overlay == map->older);
    redirect_edits *e = redirect_edits_create(map->table, VERSION, map->edited,
                                              over ? map->older_version : 0, &map->options, pool);
    uint32_t counters;
    bool older;
    size_t size;
    void *image;
    const redirect_overlay *last;
    apr_status_t rv;

    if (map->recent_max)
        redirect_edits_bound(e, map->recent_max - 1);
    *log = apr_pstrdup(pool, "");
    redirect_edits_like(e, map->name, map->text, strlen(map->text), true);
    rv = redirect_edits_apply(e, edits, strlen(edits), &report);
    if (rv == APR_SUCCESS)
        rv = redirect_edits_finish(e, 1000, &size, &counters, &older);
    if (rv == APR_SUCCESS) {
        image = take(size);
        redirect_edits_write(e, image);
        take_image(map, image, size, older);
        last = older ? map->older : map->overlay;
        ck_assert_uint_eq(last->base, VERSION);
        ck_assert_uint_eq(last->rules, counters);
        ck_assert_uint_eq(last->since, 1000);
        ck_assert_uint_eq(last->differing, redirect_edits_differing(e));
    }
    redirect_edits_destroy(e);
    return rv;
}

static void close_map(test_map *map)
{
    free(map->image);
    free(map->overlay_image);
    free(map->older_image);
}

static const char *text_of(bool found, const redirect_match *match)
{
    char *target;

    if (!found)
        return "none";
    target = apr_pcalloc(pool, match->target_len + REDIRECT_SLACK + 1);
    redirect_match_target(match, target);
    target[match->target_len] = '\0';
    return apr_psprintf(pool, "%d %s", match->profile.status, target);
}

static redirect_request request_of(const char *url)
{
    redirect_request request;
    int status;

    ck_assert_ptr_null(redirect_request_of(url, NULL, &request, &status, pool));
    redirect_request_one_form(&request, pool);
    return request;
}

/* What a request has beside its URL: "Accept", "Accept-Language", "Cookie" in turn, or NULL. */
typedef const char *const fields[3];

static const char *field_of(void *baton, const char *name)
{
    const char *const *has = baton;

    return has[!strcmp(name, "Accept") ? 0 : !strcmp(name, "Accept-Language") ? 1 : 2];
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *sorted_vary(redirect_conditions *c)
{
    const char *vary;

    if (c->vary)
        qsort(c->vary->elts, (size_t)c->vary->nelts, sizeof(char *), compare_names);
    vary = redirect_conditions_vary(c, pool);
    return vary ? apr_pstrcat(pool, " ", vary, NULL) : "";
}

/* The answer, and what Vary says, in whichever order. NULL: @a shortly, and nothing is known. */
static const char *ask_once(const test_map *map, const char *url, fields has, bool shortly)
{
    redirect_request request = request_of(url);
    redirect_conditions conditions;
    redirect_match match;
    bool found;

    redirect_conditions_begin(&conditions, pool, field_of, (void *)(uintptr_t)has);
    request.judge = &conditions.judge;
    if (shortly && !redirect_edited_ask_base(map->edited, &request, &match, &found))
        return NULL;
    if (!shortly)
        found = map->edited ? redirect_edited_lookup(map->edited, map->table, &request, &request,
                                                     &request, &match) != REDIRECT_NOT_FOUND
                            : redirect_table_lookup(map->table, &request, 0, &match);
    ck_assert(!found || !conditions.not_acceptable);
    return apr_pstrcat(pool, conditions.not_acceptable ? "406" : text_of(found, &match),
                       sorted_vary(&conditions), NULL);
}

/* Where the base alone answers, it does as both do. */
static const char *ask_with(const test_map *map, const char *url, fields has)
{
    const char *answer = ask_once(map, url, has, false);
    const char *shortly = map->edited ? ask_once(map, url, has, true) : NULL;

    if (shortly)
        ck_assert_msg(!strcmp(answer, shortly), "%s: %s, not %s", url, shortly, answer);
    asked_base += shortly != NULL;
    return answer;
}

static const char *ask(const test_map *map, const char *url)
{
    static fields none;

    return ask_with(map, url, none);
}

static void expect(const test_map *map, const char *url, const char *answer)
{
    ck_assert_msg(!strcmp(ask(map, url), answer), "%s: %s, not %s", url, ask(map, url), answer);
}

static void expect_edit(test_map *map, const char *edits, apr_status_t rv, const char *said)
{
    char *log;

    ck_assert_int_eq(edit(map, edits, &log), rv);
    ck_assert_msg(!strncmp(log, said, strlen(said)), "'%s' for %s", log, edits);
}

#endif
