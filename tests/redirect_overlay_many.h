/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Many edited rows, and how often look-ups ask for them. Included by tests/check_redirect_overlay.c.
 */
#ifndef REDIRECT_OVERLAY_MANY_H
#define REDIRECT_OVERLAY_MANY_H

#include "redirect_overlay_fixture.h"

/* Many rows of one directory are kept without it. Each edit takes those of the ones before along. */
START_TEST(rows_of_one_directory_stay)
{
    char *text = apr_pstrdup(pool, "");
    test_map map;

    open_map(&map, "rows.txt", "/a /1\n");
    for (unsigned i = 0; i < 30; i++)
        text = apr_psprintf(pool, "%sadd /some/directory/%u /to/%u\n", text, i, i);
    expect_edit(&map, text, APR_SUCCESS, "");
    expect_edit(&map, "add /b /2\n", APR_SUCCESS, "");
    expect_edit(&map, "set /some/directory/20 /3\n", APR_SUCCESS, "");
    for (unsigned i = 0; i < 30; i++)
        expect(&map, apr_psprintf(pool, "http://h.example/some/directory/%u", i),
               i == 20 ? "302 /3" : apr_psprintf(pool, "302 /to/%u", i));
    close_map(&map);
}
END_TEST

/* In one request. If each were compared with all that came before, this would run out of time. */
START_TEST(thousands_of_one_path)
{
    char *text = apr_palloc(pool, 60 * 20000), *to = text;
    test_map map;

    for (unsigned i = 0; i < 20000; i++)
        to += apr_snprintf(to, 60, "add /index.php?id=%u&x /to/%u\n", i, i);
    open_map(&map, "rows.txt", "/a /1\n");
    expect_edit(&map, text, APR_SUCCESS, "");
    expect(&map, "/index.php?x&id=19999", "302 /to/19999");
    expect_edit(&map, "add /index.php?&x&id=7 /again\n", APR_EEXIST,
                "1: the source has a row already, by an edit; change that with set\n");
    close_map(&map);
}
END_TEST

/* So many of other requests are not answered by the base alone. */
static unsigned count_asked(const test_map *map, unsigned requests, const char *beginning)
{
    apr_pool_t *outer = pool;
    static fields none;
    unsigned asked = 0;

    apr_pool_create(&pool, outer);
    for (unsigned i = 0; i < requests; i++) {
        asked += !ask_once(map, apr_psprintf(pool, "%s/other-%u/page", beginning, i), none, true);
        if (i % 100 == 0)
            apr_pool_clear(pool);
    }
    apr_pool_destroy(pool);
    pool = outer;
    return asked;
}

/* Of 1,000 edits the filter has so many bits that a request for another source hardly ever asks them. */
START_TEST(added_rows_are_found_at_once)
{
    char *text = apr_palloc(pool, 60 * 1000), *to = text;
    test_map map;

    for (unsigned i = 0; i < 1000; i++)
        to += apr_snprintf(to, 60, "add /a/directory/%u /to/%u\n", i, i);
    open_map(&map, "rows.txt", "/a/directory /1\n");
    expect_edit(&map, text, APR_SUCCESS, "");
    for (unsigned i = 0; i < 1000; i++)
        expect(&map, apr_psprintf(pool, "http://h.example/a/directory/%u", i),
               apr_psprintf(pool, "302 /to/%u", i));
    ck_assert_uint_lt(count_asked(&map, 100000, "http://h.example"), 200);
    close_map(&map);
}
END_TEST

/* Rows of which look-ups in the base make no key, and requests that they answer. */
static const struct {
    const char *rows, *add;
    const char *urls[4];
} added[] = {
    {"/a /1\n", "//h.example/new /2", {"http://h.example/new", "http://h.example//new"}},
    {"/a /1\n", "/some/directory/new?x=1 /2", {"http://h.example/some/directory/new?x=1"}},
    {"/a /1\n", "/new?x=1 /2 strip=y", {"http://h.example/new?y=2&x=1"}},
    {"/a /1\n",
     "/New/somewhere/else /2 case=ignore",
     {"http://h.example/new/SOMEWHERE/else", "http://h.example/new//SOMEWHERE//else"}},
    {"/a /1\n",
     "/New/somewhere/else /2 case=ignore subpath=on",
     {"http://h.example/new/SOMEWHERE/else/and/more", "http://h.example/new//somewhere/else//",
      "http://h.example/new/somewhere/else"}},
    {"/a /1 subpath=on\n", "//h.example/b/c /2", {"http://h.example/b/c"}},
    {"//a.example/a /1\n", "/b/c /2", {"http://h.example/b/c", "http://a.example/b//c"}},
    {"//a.example/a /1\n",
     "//h.example/b/c/d /2 subpath=on",
     {"http://h.example/b/c/d", "http://h.example/b/c/d/e", "http://h.example//b/c/d/e/f/g"}},
    {"//a.example/a /1\n", "/b?x=1 /2", {"http://a.example/b?x=1", "http://h.example//b?x=1"}},
    {"/a?x=1 /1\n", "//h.example/b /2", {"http://h.example/b", "http://h.example/b?x=1"}},
    {"/a?x=1 /1\n",
     "/b /2 subpath=on",
     {"http://h.example/b", "http://h.example/b/c",
      "http://h.example/b/a-long-path-that-is-not-hashed-in-four-blocks-of-sixteen-bytes-each"}},
    {"//a.example/a /1\n", "/b/C /2 case=ignore", {"http://h.example/B/c"}},
};

/* Whatever kind they are of: requests for others are answered by the base alone. */
START_TEST(edits_are_asked_for_their_own_paths)
{
    test_map map;

    open_map(&map, "rows.txt", added[_i].rows);
    expect_edit(&map, apr_pstrcat(pool, "add ", added[_i].add, "\n", NULL), APR_SUCCESS, "");
    for (unsigned i = 0; i < COUNT_OF(added[_i].urls) && added[_i].urls[i]; i++)
        ck_assert_ptr_nonnull(strstr(ask(&map, added[_i].urls[i]), "302 /2"));
    ck_assert_uint_lt(count_asked(&map, 10000, "http://h.example"), 1000);
    ck_assert_uint_lt(count_asked(&map, 10000, "http://a.example"), 1000);
    close_map(&map);
}
END_TEST

#endif
