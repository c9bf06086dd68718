/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The whole segments that a template fixes, with their places: "b" of "/:a/b/:c" is the second
 * segment of each path that matches. A template may be found by one of them. Called by key.c.
 */
#include "redirect_table/template.h"

/* A template being read. */
typedef struct walk {
    rt_segment_fn *fn;
    void *baton;
    bool back;        /* slashes are counted from the path's end */
    unsigned slashes; /* so far, or with `back` those that still come */
    bool whole;       /* this segment is literal so far, and begins where a segment does */
    size_t len;
    char text[RT_SEGMENT_MAX];
} walk;

static bool is_optional(piece_kind kind)
{
    return kind == PIECE_REST || kind == PIECE_MAYBE || kind == PIECE_ANY ||
           kind == PIECE_MAYBE_LAZY || kind == PIECE_ANY_LAZY;
}

static bool is_end(piece_kind kind)
{
    return kind == PIECE_END || kind == PIECE_SLASH || kind == PIECE_BAD;
}

static bool is_span(piece_kind kind)
{
    return kind == PIECE_SPLAT || kind == PIECE_SOME || kind == PIECE_SOME_LAZY ||
           is_optional(kind);
}

static void end_segment(walk *w)
{
    if (w->whole && w->len && w->slashes < RT_SEGMENT_SLASHES)
        w->fn(w->baton, w->back, w->slashes, w->text, w->len);
}

static void begin_segment(walk *w)
{
    w->slashes += w->back ? -1U : 1U;
    w->whole = true;
    w->len = 0;
}

static void take_byte(walk *w, char byte)
{
    if (w->len == RT_SEGMENT_MAX)
        w->whole = false;
    else
        w->text[w->len++] = byte;
}

/* Pieces up to the end or, with counting from the beginning, the first span. */
static void walk_pieces(walk *w, reader r)
{
    for (;;) {
        piece p = rt_take_piece(&r);

        if (is_end(p.kind)) {
            end_segment(w);
            return;
        }
        if (is_span(p.kind)) {
            reader next = r;
            piece behind = rt_take_piece(&next);

            if (is_optional(p.kind) && (is_end(behind.kind) || behind.byte == '/'))
                end_segment(w);
            return;
        }
        if (p.kind != PIECE_LITERAL) {
            w->whole = false;
        } else if (p.byte == '/') {
            end_segment(w);
            begin_segment(w);
        } else {
            take_byte(w, p.byte);
        }
    }
}

void rt_template_segments(const char *pattern, size_t len, rt_segment_fn *fn, void *baton)
{
    reader r = {pattern + 1, pattern + len}, behind = {NULL, NULL};
    unsigned slashes = 0;
    walk w = {.fn = fn, .baton = baton, .whole = true};
    piece p;

    walk_pieces(&w, r);
    for (;;) {
        p = rt_take_piece(&r);
        if (is_end(p.kind))
            break;
        if (is_span(p.kind)) {
            behind = r;
            slashes = 0;
        }
        slashes += p.kind == PIECE_LITERAL && p.byte == '/';
    }
    if (!behind.at || p.kind != PIECE_END)
        return;
    w.back = true;
    w.slashes = slashes;
    w.whole = false;
    walk_pieces(&w, behind);
}
