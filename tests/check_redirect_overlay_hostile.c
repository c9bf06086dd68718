/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A table and the two overlays of its edits whose images another process overwrites: look-ups, listings,
 * and edits that go on from there read nothing outside of the images, write nothing outside of the
 * new one, and end. Run by 'make check'.
 */
#include "suite_util.h"
#include "maps/maps.h"
#include "maps/overlay_internal.h"
#include "hostile_util.h"

#include <apr_strings.h>

#define ROUNDS  60
#define VERSION 7
#define OLDER   9 /* version of the older overlay */
#define RECENT  1000
#define ROOM    (1 << 20) /* of a new overlay */

enum { TABLE, OLDER_OVERLAY, OVERLAY, NEW_OVERLAY, IMAGES };

static apr_pool_t *pool;
static redirect_map_options options;
static hu_walled images[IMAGES];
static pid_t writers[HU_WRITERS];

/* --- images -----------------------------------------------------------------------------------*/

static const char *rows_of_file(void)
{
    const char *text = "";

    for (unsigned i = 0; i < 120; i++)
        text = apr_psprintf(pool,
                            "%s/dir/%u https://h-%u.example/%u\n/dir/%u /c/%u 301 cookie=a%u\n"
                            "/dir/%u?a=%u&b /q 301 strip=utm_*\n//h%u.example/p /h 301 subpath=on\n"
                            "//*.h%u.example/below /x/%u 302\n",
                            text, i, i % 9, i, i, i, i, i, i, i % 7, i, i);
    return text;
}

static const char *edits_of_rows(void)
{
    const char *text = "";

    for (unsigned i = 0; i < 120; i += 2)
        text = apr_psprintf(pool,
                            "%sset /dir/%u https://edited.example/%u\ndel /dir/%u?a=%u&b\n"
                            "add /new/%u /n/%u 308 subpath=on method=GET\nset //h%u.example/p /e\n"
                            "add /w/%u?x=%u /y 301 strip=utm_*,gclid header=X-A:%u\n",
                            text, i, i, i, i, i, i, i % 7, i, i, i);
    return text;
}

static size_t make_overlay(const redirect_table *table, const redirect_edited *before,
                           const char *edits, char *to, size_t room)
{
    redirect_report report = {.fn = NULL};
    redirect_edits *e =
        redirect_edits_create(table, VERSION, before, before ? OLDER : 0, &options, pool);
    uint32_t counters;
    size_t size = 0;
    bool older;

    redirect_edits_bound(e, before ? RECENT : 0);
    if (redirect_edits_apply(e, edits, strlen(edits), &report) == APR_SUCCESS &&
        redirect_edits_finish(e, 1000, &size, &counters, &older) == APR_SUCCESS && size <= room)
        redirect_edits_write(e, to);
    redirect_edits_destroy(e);
    return size;
}

static const redirect_overlay *overlay_of(const hu_walled *image)
{
    return redirect_overlay_open(image->at, image->size, pool);
}

static void build(bool at_end)
{
    redirect_report report = {.fn = NULL};
    const char *text = rows_of_file();
    const redirect_edited *older;
    const redirect_table *table;
    char *overlay;
    void *image;
    size_t size;

    redirect_map_options_init(&options);
    options.format = REDIRECT_FORMAT_TEXT;
    ck_assert_int_eq(
        redirect_map_build(&options, "rows.txt", text, strlen(text), &report, pool, &image, &size),
        APR_SUCCESS);
    ck_assert_uint_eq(report.errors, 0);
    images[TABLE] = hu_wall(image, size, at_end);
    free(image);
    table = redirect_table_open(images[TABLE].at, images[TABLE].size, pool);
    ck_assert_int_eq(posix_memalign((void **)&overlay, 64, ROOM), 0);
    size = make_overlay(table, NULL, edits_of_rows(), overlay, ROOM);
    ck_assert_uint_gt(size, 0);
    images[OLDER_OVERLAY] = hu_wall(overlay, size, at_end);
    older = redirect_edited_open(table, overlay_of(&images[OLDER_OVERLAY]), NULL, pool);
    size = make_overlay(table, older, "set /dir/0 /over\ndel /dir/1\nset /new/2 /over\nadd /o /p\n",
                        overlay, ROOM);
    ck_assert_uint_gt(size, 0);
    images[OVERLAY] = hu_wall(overlay, size, at_end);
    ck_assert_uint_eq(overlay_of(&images[OVERLAY])->older, OLDER);
    free(overlay);
    images[NEW_OVERLAY] = hu_wall(NULL, ROOM, at_end);
}

/* --- the writers ------------------------------------------------------------------------------*/

static void scribble(uint64_t seed)
{
    static const uint32_t values[] = {0, 1, 0x7fffffff, UINT32_MAX, 0x2a2f2e2a, 0x0a3d0a21};
    uint64_t random = seed;

    for (;;) {
        hu_walled *image = &images[hu_random(&random) % IMAGES];
        volatile uint32_t *words = (volatile uint32_t *)(void *)image->at;
        size_t n = hu_random(&random) % 8 ? image->size / 4 : 64, at = hu_random(&random) % n;

        words[at] = hu_random(&random) % 2 ? values[hu_random(&random) % 6]
                                           : words[at] ^ UINT32_C(1) << hu_random(&random) % 32;
        for (volatile unsigned i = 0; i < 200; i++)
            ;
        if (image != &images[NEW_OVERLAY])
            words[at] = ((const uint32_t *)(const void *)image->pristine)[at];
    }
}

/* --- the reader -------------------------------------------------------------------------------*/

static const char *field_of(void *baton, const char *name)
{
    (void)baton;
    return !strcmp(name, "Cookie") ? "a1=1; a7" : NULL;
}

static void ask(const redirect_edited *edited, const redirect_table *table, unsigned i)
{
    static const char *const shapes[] = {"/dir/%u", "/new/%u/x", "/w/%u", "/p/q", "/below"};
    redirect_request request = {.host = i % 3 ? "h1.example" : "x.h2.example"};
    redirect_conditions conditions;
    char path[50], target[REDIRECT_MAX_TEXT + REDIRECT_SLACK + 1];
    redirect_match match;
    bool found;

    redirect_conditions_begin(&conditions, pool, field_of, NULL);
    request.judge = &conditions.judge;
    apr_snprintf(path, sizeof(path), shapes[i % 5], i % 120);
    request.path = path;
    request.path_len = strlen(path);
    request.host_len = strlen(request.host);
    request.query = i % 4 ? NULL : "a=1&b";
    request.query_len = request.query ? 5 : 0;
    if (!redirect_edited_ask_base(edited, &request, &match, &found))
        found = redirect_edited_lookup(edited, table, &request, &request, &request, &match) !=
                REDIRECT_NOT_FOUND;
    if (found) {
        ck_assert_uint_le(match.target_len, REDIRECT_MAX_TEXT);
        redirect_match_target(&match, target);
    }
}

static bool show(void *baton, const redirect_rule *rule, redirect_differs differs)
{
    apr_pool_t *own;

    (void)differs;
    apr_pool_create(&own, pool);
    redirect_rule_source(rule, own);
    redirect_rule_options(rule, own);
    if (rule->target)
        apr_pstrmemdup(own, rule->target, rule->target_len);
    apr_pool_destroy(own);
    return ++*(unsigned *)baton < 2000;
}

static void go_on_editing(const redirect_table *table, const redirect_edited *edited, unsigned i)
{
    const char *edits = apr_psprintf(pool, "set /dir/%u /z\nset /new/%u /zz\nset /last/%u /l\n",
                                     i % 120, i % 60 * 2, i);
    redirect_report report = {.fn = NULL};
    redirect_edits *e = redirect_edits_create(table, VERSION, edited, OLDER, &options, pool);
    const char *source = apr_psprintf(pool, "/dir/%u", i % 120);
    unsigned n = 0;

    redirect_edits_find(e, source, strlen(source), &report, show, &n);
    redirect_edits_destroy(e);
    make_overlay(table, edited, edits, images[NEW_OVERLAY].at, ROOM);
}

/* Whether all could be opened. */
static bool read_once(unsigned round)
{
    const redirect_table *table = redirect_table_open(images[TABLE].at, images[TABLE].size, pool);
    const redirect_overlay *older = overlay_of(&images[OLDER_OVERLAY]),
                           *overlay = overlay_of(&images[OVERLAY]);
    const redirect_edited *edited;
    unsigned shown = 0;

    if (!table || !overlay || !older)
        return false;
    edited = redirect_edited_open(table, overlay, round % 4 ? older : NULL, pool);
    for (unsigned i = 0; i < 100; i++)
        ask(edited, table, round * 100 + i);
    redirect_edited_each(edited, table, round % 2, round % 3, show, &shown, pool);
    go_on_editing(table, edited, round);
    return true;
}

/* --- tests ------------------------------------------------------------------------------------*/

static void setup(void)
{
    apr_pool_create(&pool, NULL);
}

static void teardown(void)
{
    hu_stop(writers);
    apr_pool_destroy(pool);
}

START_TEST(written_while_read)
{
    const char *rounds = getenv("HTC_ROUNDS");

    build(_i);
    ck_assert_uint_eq(hu_read(3, &pool, read_once), 3); /* nobody writes: all is there */
    hu_start(writers, scribble);
    ck_assert_uint_gt(hu_read(rounds ? (unsigned)atoi(rounds) : ROUNDS, &pool, read_once), 0);
    hu_stop(writers);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_overlay_hostile");
    TCase *tc = tcase_create("hostile");

    apr_initialize();
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, written_while_read, 0, 2);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
