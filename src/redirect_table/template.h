/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirect_table/template.h
 * What the files of templates know of each other: template.c, template_search.c and
 * template_segments.c; see REDIRECT_TEMPLATE. The table's tests include it, too.
 */
#ifndef HTC_REDIRECT_TABLE_TEMPLATE_H
#define HTC_REDIRECT_TABLE_TEMPLATE_H

#include "redirect_table/internal.h"

/* What a template is written with. */
typedef enum piece_kind {
    PIECE_BAD,
    PIECE_LITERAL, /* one byte */
    PIECE_LAZY,    /* a name with others behind it in its segment */
    PIECE_NAME,
    PIECE_SPLAT,      /* any bytes */
    PIECE_REST,       /* "/" and any bytes, or nothing */
    PIECE_MAYBE,      /* "/" and a segment, or nothing */
    PIECE_SOME,       /* segments */
    PIECE_ANY,        /* "/" and segments, or nothing */
    PIECE_MAYBE_LAZY, /* the same with lazy segments */
    PIECE_SOME_LAZY,
    PIECE_ANY_LAZY,
    PIECE_SLASH, /* one that may be there, at the end */
    PIECE_END
} piece_kind;

typedef struct piece {
    piece_kind kind;
    char byte; /* the literal */
} piece;

/* A text, and where in it the next piece begins. */
typedef struct reader {
    const char *at, *end;
} reader;

piece rt_take_piece(reader *r);

/* --- redirect_table/template_search.c --------------------------------------------------------- */

bool rt_template_is_searched(const char *pattern, size_t len);

/* The groups behind number 0, from groups[1] on. r is behind "^". *steps grows.
 * @return how many there are, with number 0; 0: it does not match. */
int rt_template_search(reader r, bool icase, const char *path, size_t end, redirect_group *groups,
                       int max, uint64_t *steps);

/* --- redirect_table/template_segments.c ------------------------------------------------------- */

/* A whole segment that all paths have which the template matches: the segment behind `slashes`
 * slashes from the path's beginning or, with `back`, in front of so many to its end. */
typedef void rt_segment_fn(void *baton, bool back, unsigned slashes, const char *text, size_t len);

/* All of a template with at most RT_SEGMENT_MAX bytes and RT_SEGMENT_SLASHES slashes. */
void rt_template_segments(const char *pattern, size_t len, rt_segment_fn *fn, void *baton);

#endif
