/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the unit tests of redirect maps share: a map built from text that stands in the test, what
 * was reported about it, and what it answers. Included by tests/check_redirect_map*.c.
 */
#ifndef REDIRECT_MAP_UTIL_H
#define REDIRECT_MAP_UTIL_H

#include "maps/maps.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct test_map {
    apr_pool_t *pool;
    redirect_report report;
    apr_status_t rv;
    void *image;
    size_t size;
    const redirect_table *table; /* NULL: was not built */
    char *log; /* "E3 message\n" for an error in line 3, "Erow 3" in row 3; N notes, W
                                  * warnings */
    void *regexes;
} test_map;

/** Build a map of @a len bytes with options such as "status=301 query=drop" ("": none). They are
 * put where the byte behind them may not be read. */
test_map *test_map_load_bytes(const char *name, const char *bytes, size_t len, const char *options);
test_map *test_map_load(const char *name, const char *text, const char *options);
void test_map_free(test_map *map);

/** "301 /b", "410", "none" or "refused"; valid until the map is freed. */
const char *test_map_ask(test_map *map, const char *url);
/** The line of the row that answers; 0: none. */
unsigned test_map_line(test_map *map, const char *url);
/** Is there a report that begins so: "E3" or "W4 the same"? */
bool test_map_said(const test_map *map, const char *begin);

/** Fail the test unless the map answers so, naming both. */
void test_map_expect(test_map *map, const char *url, const char *answer);

/** Can patterns be run in this build? */
bool test_map_has_regexes(void);

#endif
