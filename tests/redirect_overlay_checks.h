/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is said of edited rows beside all others, and which rows have the same source. Included by tests/check_redirect_overlay.c.
 */
#ifndef REDIRECT_OVERLAY_CHECKS_H
#define REDIRECT_OVERLAY_CHECKS_H

#include "redirect_overlay_fixture.h"

static void take_warning(void *baton, redirect_severity severity, uint32_t line,
                         const char *message)
{
    char **log = baton;

    if (severity != REDIRECT_NOTE)
        *log = apr_psprintf(pool, "%s%u: %s\n", *log, line, message);
}

/* Of temporary edits, or of edits that are rows of the file already. */
static const char *warnings_of(const char *name, const char *text, const char *edits, bool written)
{
    char *log = apr_pstrdup(pool, "");
    redirect_report report = {.fn = take_warning, .baton = &log};
    const redirect_edited *edited = NULL;
    void *image = NULL;
    uint32_t counters;
    redirect_edits *e;
    test_map map;
    bool older;
    size_t size;

    open_map(&map, name, text);
    e = redirect_edits_create(map.table, VERSION, NULL, 0, &map.options, pool);
    redirect_edits_like(e, name, text, strlen(text), true);
    if (!written) {
        ck_assert_int_eq(redirect_edits_apply(e, edits, strlen(edits), &report), APR_SUCCESS);
        ck_assert_int_eq(redirect_edits_finish(e, 1000, &size, &counters, &older), APR_SUCCESS);
        image = take(size);
        redirect_edits_write(e, image);
        edited =
            redirect_edited_open(map.table, redirect_overlay_open(image, size, pool), NULL, pool);
    }
    ck_assert_int_eq(redirect_edits_check(e, edited, edits, strlen(edits), &report), APR_SUCCESS);
    redirect_edits_destroy(e);
    free(image);
    close_map(&map);
    return log;
}

static const struct {
    const char *name, *text, *edit, *row, *said;
} checks[] = {
    {"rows.txt", "/a /1\n", "add /b /b cookie=x\n", "/b /b cookie=x\n", "1: leads to itself: "},
    {"rows.txt", "/a /1 subpath=on cookie=x\n", "add /a/b /2 cookie=x\n", "/a/b /2 cookie=x\n",
     "1: never used: line 1 "},
    {"rows.txt", "/a /1 subpath=on cookie=x\n", "add /a/b /2 cookie=y\n", "/a/b /2 cookie=y\n", ""},
    {"rows.txt", "/a /b language=de\n", "add /b /a language=de\n", "/b /a language=de\n",
     "1: a loop of 2 rows, by line 1 and back from line 1: "},
    {"rows.txt", "/a /b language=de\n", "add /b /a\n", "/b /a\n", ""},
    /* the first one that answers does not hide it, but the next does */
    {"rows.txt", "http://h.example/a/b /1 subpath=on\n/a /2 subpath=on\n",
     "add //h.example/a/b /3 subpath=on\n", "//h.example/a/b /3 subpath=on\n",
     "1: never used: line 2 "},
    {"rows.txt", "http://h.example/a/b /1 subpath=on\n/a /2 subpath=on\n",
     "set http://h.example/a/b /4 subpath=on\nadd //h.example/a/b /3 subpath=on\n",
     "//h.example/a/b /3 subpath=on\n", "2: never used: line 2 "},
    {"rows.txt", "/b /1\n/a /2 subpath=on\n",
     "set /b /4\nadd http://h.example/a/b /1 subpath=on\nadd //h.example/a/b /3 subpath=on\n",
     "http://h.example/a/b /1 subpath=on\n//h.example/a/b /3 subpath=on\n",
     "2: never used: line 2 answers this source already\n3: never used: line 2 "},
    {"_redirects", "/a/* /1\n", "add /a/:x /2\n", "/a/:x /2\n", "1: never used: line 1 "},
    {"_redirects", "/a/b /1\n", "add /a/:x /2\n", "/a/:x /2\n", ""},
    {"_redirects", "/b/* /c/:splat\n", "add /c/:x /b/:x\n", "/c/:x /b/:x\n",
     "1: a loop of 2 rows for '/c/some', by line 1 and back from line 1: "},
    {"_redirects", "/b/* /1\n", "add /c/:x /c/:x\n", "/c/:x /c/:x\n",
     "1: leads to itself for '/c/some': "},
};

/* Also rows with conditions, wildcards and placeholders. */
START_TEST(warns_as_the_check_of_a_file_does)
{
    const char *text = checks[_i].text, *said = checks[_i].said, *is;

    for (unsigned written = 0; written < 2; written++) {
        is = warnings_of(checks[_i].name,
                         written ? apr_pstrcat(pool, text, checks[_i].row, NULL) : text,
                         checks[_i].edit, written);
        ck_assert_msg(*said ? !strncmp(is, said, strlen(said)) : !*is, "%s: '%s', not '%s'",
                      checks[_i].edit, is, said);
    }
}
END_TEST

/* In a file, in a temporary edit and in one that is written. */
START_TEST(lists_say_the_same_in_any_order)
{
    static const char text[] =
        "/a /1 accept=a/b,a/c;x=\"1,2\" language=de,en cookie=j,k method=GET,PUT\n";
    static const char other[] =
        "/a /2 method=put,get cookie=k,j language=en,de accept=a/c;x=\"1,2\",a/b,a/b";
    redirect_report report = {.fn = NULL};
    redirect_edit_error error;
    redirect_edit one;
    char *out;
    size_t size;
    void *image;
    const char *both = apr_pstrcat(pool, text, other, "\n", NULL);
    const char *set = apr_pstrcat(pool, "set ", other, NULL);
    test_map map;

    open_map(&map, "rows.txt", text);
    expect_edit(&map, apr_pstrcat(pool, "add ", other, "\n", NULL), APR_EEXIST,
                "1: the source has a row already, in line 1");
    ck_assert_int_eq(redirect_map_build(&map.options, "rows.txt", both, strlen(both), &report, pool,
                                        &image, &size),
                     APR_SUCCESS);
    free(image);
    ck_assert_uint_eq(report.duplicates, 1);
    ck_assert_ptr_null(redirect_edit_parse(set, strlen(set), &one, pool));
    ck_assert_int_eq(redirect_map_edit(&map.options, "rows.txt", text, strlen(text), &one, 1,
                                       &error, pool, &out, &size),
                     APR_SUCCESS);
    ck_assert_ptr_nonnull(strstr(out, "/a /2 "));
    ck_assert_ptr_null(strstr(out, "/a /1 "));
    close_map(&map);
}
END_TEST

#endif
