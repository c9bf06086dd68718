/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Rules, requests and what is to come of them, for check_redirect_table.c, which includes this file
 * and has the tests that walk over these lists.
 */
#ifndef REDIRECT_TABLE_SAMPLES_H
#define REDIRECT_TABLE_SAMPLES_H

#include "redirect_table.h"

#define NO ((size_t)-1) /* as where a match ends: there is none */

/* A rule in short; NULL for what it does not have. */
typedef struct brief {
    redirect_kind kind;
    unsigned flags;
    const char *source, *pattern, *host, *query, *strip, *target;
    uint32_t line;
} brief;

/* One rule and one request; where the match ends, or NO. */
typedef struct sample {
    brief rule;
    const char *path;
    size_t matched;
    const char *host, *query;
    bool https;
} sample;

#define EXACT(flags, source)                                           \
    {                                                                  \
        REDIRECT_EXACT, flags, source, NULL, NULL, NULL, NULL, NULL, 0 \
    }
#define PREFIX(flags, source)                                           \
    {                                                                   \
        REDIRECT_PREFIX, flags, source, NULL, NULL, NULL, NULL, NULL, 0 \
    }
#define LITERAL(flags, source)                                           \
    {                                                                    \
        REDIRECT_LITERAL, flags, source, NULL, NULL, NULL, NULL, NULL, 0 \
    }
#define LITERAL_PREFIX(flags, source)                                           \
    {                                                                           \
        REDIRECT_LITERAL_PREFIX, flags, source, NULL, NULL, NULL, NULL, NULL, 0 \
    }
#define PATTERN(flags, source, pattern)                                     \
    {                                                                       \
        REDIRECT_PATTERN, flags, source, pattern, NULL, NULL, NULL, NULL, 0 \
    }
#define AT_HOST(host)                                            \
    {                                                            \
        REDIRECT_EXACT, 0, "/a", NULL, host, NULL, NULL, NULL, 0 \
    }
#define WITH_QUERY(flags, query, strip)                                \
    {                                                                  \
        REDIRECT_EXACT, flags, "/a", NULL, NULL, query, strip, NULL, 0 \
    }
#define LONG_NAME "0123456789012345678901234567890123456789012345678901234567890123456789"
#define DEEP      "/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"

static const sample path_samples[] = {
    {EXACT(0, "/a/b"), "/a/b", 4, 0, 0, 0},
    {EXACT(0, "/a/b"), "/a/b/", NO, 0, 0, 0},
    {EXACT(0, "/a/b"), "/a", NO, 0, 0, 0},
    {EXACT(0, "/a/b"), "/A/b", NO, 0, 0, 0},
    {EXACT(0, "/a/b"), "/a/b\n", NO, 0, 0, 0},
    {EXACT(0, "/a/b"), "//a///b", 7, 0, 0, 0},
    {EXACT(0, "/a//b/"), "/a/b/", 5, 0, 0, 0},
    {EXACT(0, "/a//b/"), "/a/b//", 6, 0, 0, 0},
    {EXACT(0, "/a/b/"), "/a/b", NO, 0, 0, 0},
    {EXACT(0, "a"), "/a", NO, 0, 0, 0},
    {EXACT(0, "/a"), "a", NO, 0, 0, 0},
    {EXACT(0, "a"), "a", 1, 0, 0, 0},
    {EXACT(0, ""), "", 0, 0, 0, 0},
    {EXACT(0, ""), "/", NO, 0, 0, 0},
    {EXACT(0, "/"), "///", 3, 0, 0, 0},
    {EXACT(0, "/a%2Fb"), "/a/b", NO, 0, 0, 0},
    {EXACT(0, "/a%2Fb"), "/a%2Fb", 6, 0, 0, 0},
    {EXACT(0, "/\xc3\xa9\xff"), "/\xc3\xa9\xff", 4, 0, 0, 0},
    {EXACT(REDIRECT_ICASE, "/A/b"), "/a/B", 4, 0, 0, 0},
    {EXACT(REDIRECT_ICASE, "/[\xc9"), "/{\xe9", NO, 0, 0, 0},
    {EXACT(REDIRECT_ANY_SLASH, "/a/"), "/a", 2, 0, 0, 0},
    {EXACT(REDIRECT_ANY_SLASH, "/a"), "/a//", 4, 0, 0, 0},
    {EXACT(REDIRECT_ANY_SLASH, "/a"), "/a/b", NO, 0, 0, 0},
    {EXACT(REDIRECT_ANY_SLASH, "/"), "", 0, 0, 0, 0},
    {EXACT(0, DEEP DEEP), DEEP DEEP, sizeof(DEEP DEEP) - 1, 0, 0, 0},
    {PREFIX(0, "/a"), "/a", 2, 0, 0, 0},
    {PREFIX(0, "/a"), "/a/b", 2, 0, 0, 0},
    {PREFIX(0, "/a"), "/ab", NO, 0, 0, 0},
    {PREFIX(0, "/a"), "//a//b", 3, 0, 0, 0},
    {PREFIX(0, "/a/"), "/a", NO, 0, 0, 0},
    {PREFIX(0, "/a/"), "/a///b", 5, 0, 0, 0},
    {PREFIX(0, "/a/b"), "/a//b/c", 5, 0, 0, 0},
    {PREFIX(0, "/"), "/x/y", 1, 0, 0, 0},
    {PREFIX(0, "/"), "x", NO, 0, 0, 0},
    {PREFIX(0, ""), "/x", 0, 0, 0, 0},
    {PREFIX(0, ""), "x", NO, 0, 0, 0},
    {PREFIX(0, ""), "", 0, 0, 0, 0},
    {PREFIX(0, "a/b"), "a//b/c", 4, 0, 0, 0},
    {PREFIX(REDIRECT_ANY_SLASH, "/a/"), "/a", 2, 0, 0, 0},
    {PREFIX(REDIRECT_ANY_SLASH, "/a/"), "/a//b", 4, 0, 0, 0},
    {PREFIX(REDIRECT_ANY_SLASH, "/a"), "/a//b", 2, 0, 0, 0},
    {PREFIX(REDIRECT_ICASE, "/Ab"), "/aB/c", 3, 0, 0, 0},
    {PREFIX(0, DEEP DEEP), DEEP DEEP "/b", sizeof(DEEP DEEP) - 1, 0, 0, 0},
    {LITERAL(0, "/a"), "/a", 2, 0, 0, 0},
    {LITERAL(0, "/a"), "/a\n", 3, 0, 0, 0},
    {LITERAL(0, "/a\n"), "/a\n\n", 4, 0, 0, 0},
    {LITERAL(0, "/a"), "/a\n\n", NO, 0, 0, 0},
    {LITERAL(0, "/a"), "//a", NO, 0, 0, 0},
    {LITERAL(0, "//a"), "//a", 3, 0, 0, 0},
    {LITERAL(0, "//a"), "/a", NO, 0, 0, 0},
    {LITERAL(0, "/a/"), "/a/\n", 4, 0, 0, 0},
    {LITERAL(0, "/a//"), "/a//\n", 5, 0, 0, 0},
    {LITERAL(0, ""), "\n", 1, 0, 0, 0},
    {LITERAL(0, ""), "", 0, 0, 0, 0},
    {LITERAL(0, "/"), "/\n", 2, 0, 0, 0},
    {LITERAL(0, "a"), "a\n", 2, 0, 0, 0},
    {LITERAL(REDIRECT_ICASE, "/aB"), "/Ab\n", 4, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a"), "/abc/d", 6, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a"), "//abc", NO, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a/"), "/a//b", 5, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a//"), "/a//", 4, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a//"), "/a///b", 6, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a//"), "/a/b", NO, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a//b"), "/a//bc", 6, 0, 0, 0},
    {LITERAL_PREFIX(0, "/a/b"), "/a/", NO, 0, 0, 0},
    {LITERAL_PREFIX(0, ""), "", 0, 0, 0, 0},
    {LITERAL_PREFIX(0, ""), "/x", 2, 0, 0, 0},
    {LITERAL_PREFIX(0, "fo"), "foo/x", 5, 0, 0, 0},
    {LITERAL_PREFIX(0, "foo/b"), "foo/bar", 7, 0, 0, 0},
    {LITERAL_PREFIX(0, "/" LONG_NAME), "/" LONG_NAME "x", sizeof(LONG_NAME) + 1, 0, 0, 0},
    {LITERAL_PREFIX(0, "/" LONG_NAME "y"), "/" LONG_NAME "x", NO, 0, 0, 0},
    {LITERAL_PREFIX(REDIRECT_ICASE, "/A/b"), "/a/Bc", 5, 0, 0, 0},
    {LITERAL_PREFIX(0, DEEP DEEP "/b"), DEEP DEEP "/bc", sizeof(DEEP DEEP) + 2, 0, 0, 0},
    {PATTERN(0, "/a", "b"), "/a/b", 4, 0, 0, 0},
    {PATTERN(0, "/a", "b"), "/a/c", NO, 0, 0, 0},
    {PATTERN(0, "/a", "b"), "/b/a", NO, 0, 0, 0},
    {PATTERN(0, "", "b"), "ab", 2, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "index.php", "x"), "/x/index.php", 12, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "index.php", "x"), "/x/index.ph", NO, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "12345", "x"), "x12345", 6, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "12345678", "x"), "x12345678", 9, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "1234", "x"), "123x1234", 8, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "123", "x"), "x123", 4, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "123", "x"), "x12", NO, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING, "", "x"), "x", 1, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING | REDIRECT_ICASE, "aBcD", "x"), "x/AbCd", 6, 0, 0, 0},
    {PATTERN(REDIRECT_FLOATING | REDIRECT_ICASE, "aB", "x"), "x/Ab", 4, 0, 0, 0},
};

static const sample condition_samples[] = {
    {AT_HOST("example.org"), "/a", 2, "example.org", 0, 0},
    {AT_HOST("example.org"), "/a", NO, "www.example.org", 0, 0},
    {AT_HOST("example.org"), "/a", NO, NULL, 0, 0},
    {AT_HOST("*.example.org"), "/a", 2, "www.example.org", 0, 0},
    {AT_HOST("*.example.org"), "/a", 2, "a.b.example.org", 0, 0},
    {AT_HOST("*.example.org"), "/a", NO, "example.org", 0, 0},
    {AT_HOST("*.example.org"), "/a", NO, ".example.org", 0, 0},
    {AT_HOST("*.example.org"), "/a", NO, "notexample.org", 0, 0},
    {AT_HOST("*.org"), "/a", 2, "a.b.c.d.e.f.org", 0, 0},
    {EXACT(REDIRECT_HTTP, "/a"), "/a", 2, 0, 0, false},
    {EXACT(REDIRECT_HTTP, "/a"), "/a", NO, 0, 0, true},
    {EXACT(REDIRECT_HTTPS, "/a"), "/a", NO, 0, 0, false},
    {EXACT(REDIRECT_HTTPS, "/a"), "/a", 2, 0, 0, true},
    {EXACT(0, "/a"), "/a", 2, 0, "x=1", 0},
    {WITH_QUERY(0, "", NULL), "/a", 2, 0, NULL, 0},
    {WITH_QUERY(0, "", NULL), "/a", 2, 0, "", 0},
    {WITH_QUERY(0, "", NULL), "/a", 2, 0, "&", 0},
    {WITH_QUERY(0, "", NULL), "/a", NO, 0, "x", 0},
    {WITH_QUERY(0, "", "x"), "/a", 2, 0, "x=7", 0},
    {WITH_QUERY(0, "a=1&b=2", NULL), "/a", 2, 0, "b=2&a=1", 0},
    {WITH_QUERY(0, "a=1&b=2", NULL), "/a", 2, 0, "&&b=2&a=1&", 0},
    {WITH_QUERY(0, "a=1&b=2", NULL), "/a", NO, 0, "a=1", 0},
    {WITH_QUERY(0, "a=1&b=2", NULL), "/a", NO, 0, "a=1&b=2&c=3", 0},
    {WITH_QUERY(0, "a=1&a=1", NULL), "/a", NO, 0, "a=1", 0},
    {WITH_QUERY(0, "a=1&a=1&b", NULL), "/a", NO, 0, "a=1&b&b", 0},
    {WITH_QUERY(0, "a=1", NULL), "/a", NO, 0, "A=1", 0},
    {WITH_QUERY(0, "a=1", "utm_*,gclid"), "/a", 2, 0, "utm_source=x&a=1&gclid", 0},
    {WITH_QUERY(0, "a=1", "utm_*,gclid"), "/a", NO, 0, "utm=x&a=1", 0},
    {WITH_QUERY(0, "a=1", "utm_*,gclid"), "/a", NO, 0, "gclids=x&a=1", 0},
    {WITH_QUERY(0, "a=1&utm_x=2", "utm_*"), "/a", 2, 0, "a=1&utm_y=3", 0},
    {WITH_QUERY(0, "", "*"), "/a", 2, 0, "anything&at=all", 0},
    {WITH_QUERY(REDIRECT_QUERY_EXACT, "a=1&b=2", NULL), "/a", 2, 0, "a=1&b=2", 0},
    {WITH_QUERY(REDIRECT_QUERY_EXACT, "a=1&b=2", NULL), "/a", NO, 0, "b=2&a=1", 0},
    {WITH_QUERY(REDIRECT_QUERY_EXACT, "a=1", "c"), "/a", NO, 0, "a=1&c=2", 0},
    {WITH_QUERY(REDIRECT_QUERY_EXACT, "", NULL), "/a", 2, 0, NULL, 0},
};

static const brief ordered[] = {
    {REDIRECT_EXACT, 0, "/x/y", NULL, NULL, NULL, NULL, "exact", 10},
    {REDIRECT_PATTERN, 0, "/x", "p", NULL, NULL, NULL, "pattern", 20},
    {REDIRECT_PREFIX, 0, "/x", NULL, NULL, NULL, NULL, "prefix", 21},
    {REDIRECT_LITERAL, REDIRECT_ICASE, "/x/y", "^(x/y)$", NULL, NULL, NULL, "literal", 30},
    {REDIRECT_PREFIX, 0, "/", NULL, "h", NULL, NULL, "host", 29},
    {REDIRECT_LITERAL_PREFIX, 0, "", NULL, NULL, NULL, NULL, NULL, 4000000000u},
};

static const struct {
    const char *path, *host;
    unsigned first; /* rule from whose place on; COUNT_OF(ordered): from the beginning */
    unsigned rule;
} order_samples[] = {
    {"/x/y", NULL, 6, 0},   {"/x/y", NULL, 1, 2}, {"/x/p", NULL, 6, 1}, {"/x/q", NULL, 6, 2},
    {"/X/Y", NULL, 6, 3},   {"/X/Y", "h", 4, 4},  {"/X/Y", NULL, 4, 5}, {"/z", NULL, 6, 5},
    {"/x/y/p", NULL, 0, 1}, {"z", "h", 6, 5},     {"/z", "h", 6, 4},
};

/* Targets in their pieces; the source ends as the target does, or not. */
static const struct {
    const char *source, *target;
} targets[] = {
    {"/old/page.html", "https://example.org/new/page.html"},
    {"/old/page2.html", "https://example.org/new/page2.html"},
    {"/a", "https://example.org"},
    {"/b", "https://example.organic/b"},
    {"/c", ""},
    {"/d", "/d"},
    {"/longer", "er"},
    {"/e", "http://[::1]:8080/e?x=http://y/"},
    {"/f", "//host/f"},
    {"//g//h", "/x//g/h"},
    {"/" LONG_NAME LONG_NAME LONG_NAME LONG_NAME, "/" LONG_NAME LONG_NAME LONG_NAME LONG_NAME},
};

/* The second and third line of each are duplicates of the first, the others are not. */
static const brief duplicates[] = {
    {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, NULL, NULL, "/x", 1},
    {REDIRECT_EXACT, 0, "//a//b", NULL, NULL, NULL, NULL, "/y", 2},
    {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, NULL, NULL, NULL, 3},
    {REDIRECT_PREFIX, 0, "/a/b", NULL, NULL, NULL, NULL, "/x", 4},
    {REDIRECT_EXACT, 0, "/a/b/", NULL, NULL, NULL, NULL, "/x", 5},
    {REDIRECT_EXACT, REDIRECT_ICASE, "/a/b", NULL, NULL, NULL, NULL, "/x", 11},
    {REDIRECT_EXACT, REDIRECT_ICASE, "/A/b", NULL, NULL, NULL, NULL, "/x", 12},
    {REDIRECT_EXACT, REDIRECT_ICASE, "/A/B", NULL, NULL, NULL, NULL, "/x", 13},
    {REDIRECT_EXACT, 0, "/A/B", NULL, NULL, NULL, NULL, "/x", 14},
    {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, "x=1&y=2", NULL, "/x", 21},
    {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, "y=2&x=1", NULL, "/x", 22},
    {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, "&x=1&y=2&", NULL, "/x", 23},
    {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, "x=1&y=2", "z", "/x", 24},
    {REDIRECT_EXACT, REDIRECT_QUERY_EXACT, "/a/b", NULL, NULL, "x=1&y=2", NULL, "/x", 25},
    {REDIRECT_EXACT, REDIRECT_QUERY_EXACT, "/a/b", NULL, NULL, "y=2&x=1", NULL, "/x", 26},
    {REDIRECT_PATTERN, 0, "/a/b", "p", NULL, NULL, NULL, "/x", 31},
    {REDIRECT_PATTERN, 0, "/a/b", "p", NULL, NULL, NULL, "/x", 32},
    {REDIRECT_PATTERN, 0, "/a/b", "p", NULL, NULL, NULL, "/x", 33},
    {REDIRECT_PATTERN, 0, "/a/b", "q", NULL, NULL, NULL, "/x", 34},
    {REDIRECT_PREFIX, REDIRECT_ANY_SLASH, "/a/b", NULL, "h", NULL, NULL, "/x", 41},
    {REDIRECT_PREFIX, REDIRECT_ANY_SLASH, "/a/b/", NULL, "h", NULL, NULL, "/x", 42},
    {REDIRECT_PREFIX, REDIRECT_ANY_SLASH, "/a/b", NULL, "h", NULL, NULL, "/x", 43},
    {REDIRECT_PREFIX, REDIRECT_ANY_SLASH, "/a/b", NULL, "i", NULL, NULL, "/x", 44},
    {REDIRECT_PREFIX, REDIRECT_ANY_SLASH | REDIRECT_HTTP, "/a/b", NULL, "h", NULL, NULL, "/x", 45},
};

#endif
