/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in a map's table and the overlay of its edits. maps/overlay_edit.c makes overlays.
 * Called by the module for requests of maps that were edited.
 */
#include "maps/internal.h"

#include <string.h>

static bool span_fits(uint64_t at, uint64_t count, uint64_t each, uint64_t end)
{
    return at <= end && count * each <= end - at;
}

static bool head_possible(const overlay_head *head, size_t size)
{
    uint64_t words = (uint64_t)head->rules + head->nfilter;
    uint64_t words_end = sizeof(*head) + words * sizeof(uint64_t);

    return head->magic == OVERLAY_MAGIC && head->rules <= REDIRECT_OVERLAY_MAX &&
           head->ngone <= REDIRECT_OVERLAY_MAX && head->nfilter &&
           !(head->nfilter & (head->nfilter - 1)) &&
           span_fits(words_end, head->ngone, sizeof(uint32_t), head->table_at) &&
           head->table_at % OVERLAY_ALIGN == 0 &&
           span_fits(head->table_at, head->table_size, 1, size);
}

const redirect_overlay *redirect_overlay_open(const void *image, size_t size, apr_pool_t *pool)
{
    redirect_overlay *overlay;
    redirect_table_info info;
    overlay_head head;

    if (size < sizeof(head))
        return NULL;
    memcpy(&head, image, sizeof(head));
    __asm__ volatile("" : : : "memory"); /* the copy is what is checked and used */
    if (!head_possible(&head, size))
        return NULL;
    overlay = apr_pcalloc(pool, sizeof(*overlay));
    overlay->base = head.base;
    overlay->since = head.since;
    overlay->edits = head.edits;
    overlay->rules = head.rules;
    overlay->ngone = head.ngone;
    overlay->query_end = head.query_end;
    overlay->places = (const uint64_t *)(const void *)((const char *)image + sizeof(head));
    overlay->filter = overlay->places + head.rules;
    overlay->nfilter = head.nfilter;
    overlay->filtered = head.filtered == 1;
    overlay->gone = (const uint32_t *)(const void *)(overlay->filter + head.nfilter);
    overlay->table =
        redirect_table_open((const char *)image + head.table_at, head.table_size, pool);
    if (!overlay->table)
        return NULL;
    redirect_table_info_get(overlay->table, &info);
    return info.rules == head.rules ? overlay : NULL;
}

uint64_t redirect_overlay_place(const redirect_overlay *overlay, uint32_t index)
{
    return index < overlay->rules ? overlay->places[index] : UINT64_MAX;
}

static inline bool may_have(const redirect_overlay *overlay, uint64_t hash)
{
    uint64_t bits = overlay_bits(hash);

    return (overlay->filter[hash & (overlay->nfilter - 1)] & bits) == bits;
}

bool redirect_overlay_is_gone(const redirect_overlay *overlay, uint32_t rule)
{
    uint32_t low = 0, high = overlay->ngone;

    if (!may_have(overlay, overlay_hash(rule)))
        return false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (overlay->gone[middle] < rule)
            low = middle + 1;
        else
            high = middle;
    }
    return low < overlay->ngone && overlay->gone[low] == rule;
}

uint32_t redirect_overlay_differing(const redirect_overlay *overlay)
{
    uint32_t n = overlay->ngone;

    for (uint32_t i = 0; i < overlay->rules; i++)
        n += overlay->places[i] % 2;
    return n;
}

#define NOWHERE UINT64_MAX

/* Which rows of one of the two tables a look-up asks about: conditions of others must neither
 * answer nor be said in Vary. */
typedef struct part {
    const redirect_overlay *overlay;
    bool base;      /* of the base; else of the overlay */
    uint64_t until; /* the place of a row behind which none of this table can answer */
} part;

static uint64_t place_in(const part *p, uint32_t rule)
{
    uint32_t index;

    if (p->base)
        return 2 * (uint64_t)rule;
    redirect_table_line(p->overlay->table, rule, &index);
    return redirect_overlay_place(p->overlay, index);
}

/* Rows of a source are compared with each other, wherever they stand. */
static bool is_left_out(const void *of, uint32_t rule, bool first)
{
    const part *p = of;

    return (p->base && redirect_overlay_is_gone(p->overlay, rule)) ||
           (first && place_in(p, rule) > p->until);
}

/* Where the table answers: the place of the first row of the source that does, or by which the
 * look-up ends without an answer; then it is not *found. What is gone may change meanwhile if the
 * memory is hostile; so there are no more steps than rows that can be gone. */
static uint64_t find(const part *p, const redirect_table *table, const redirect_request *request,
                     redirect_match *match, bool *found)
{
    redirect_judge none = {.refusals = 0}, *judge = request->judge ? request->judge : &none;
    uint32_t from = 0;

    *found = false;
    judge->left_out = is_left_out;
    judge->left_out_of = p;
    for (uint32_t steps = 0; steps <= p->overlay->ngone; steps++) {
        judge->refusals = 0; /* a judge's notes are of one look-up */
        judge->decided_at = 0;
        *found = redirect_table_lookup(table, request, from, match);
        if (judge->decided_at)
            return place_in(p, judge->decided_at);
        if (!*found)
            return NOWHERE;
        if (!p->base || !redirect_overlay_is_gone(p->overlay, match->rule))
            return place_in(p, match->rule);
        from = match->rule + 1;
        *found = false;
    }
    return NOWHERE;
}

redirect_origin redirect_overlay_lookup(const redirect_overlay *overlay, const redirect_table *base,
                                        const redirect_request *request,
                                        const redirect_request *own, redirect_match *match)
{
    redirect_conditions *c = (redirect_conditions *)(void *)request->judge;
    part edits = {overlay, false, NOWHERE}, rest = {overlay, true, NOWHERE};
    redirect_conditions_notes before = redirect_conditions_noted(c);
    bool in_edits, in_base;
    redirect_match edited;
    uint64_t at;

    if (overlay->filtered && !may_have(overlay, overlay_end_of(own->path, own->path_len))) {
        find(&rest, base, request, match, &in_base);
        return in_base ? REDIRECT_IN_BASE : REDIRECT_NOT_FOUND;
    }
    rest.until = find(&edits, overlay->table, own, &edited, &in_edits);
    at = find(&rest, base, request, match, &in_base);
    if (at < rest.until && redirect_conditions_forget(c, before)) {
        /* Once more, without the conditions of edited rows behind that one. */
        edits.until = at;
        find(&edits, overlay->table, own, &edited, &in_edits);
        find(&rest, base, request, match, &in_base);
    }
    if (at < rest.until)
        return in_base ? REDIRECT_IN_BASE : REDIRECT_NOT_FOUND;
    if (!in_edits)
        return REDIRECT_NOT_FOUND;
    *match = edited;
    return REDIRECT_IN_OVERLAY;
}
