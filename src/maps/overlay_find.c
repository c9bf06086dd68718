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
    uint64_t words = 2 * (uint64_t)head->rules + head->nkeys;
    uint64_t words_end = sizeof(*head) + words * sizeof(uint64_t);
    uint64_t gone = (uint64_t)head->ngone + head->ngone_older;

    return head->magic == OVERLAY_MAGIC && head->rules <= REDIRECT_OVERLAY_MAX &&
           gone <= 2 * REDIRECT_OVERLAY_MAX && head->nkeys && !(head->nkeys & (head->nkeys - 1)) &&
           span_fits(words_end, gone, sizeof(uint32_t), head->table_at) &&
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
    overlay->older = head.older;
    overlay->ngone = head.ngone;
    overlay->ngone_older = head.ngone_older;
    overlay->next = head.next;
    overlay->differing = head.differing;
    overlay->query_end = head.query_end;
    overlay->orders = (const uint64_t *)(const void *)((const char *)image + sizeof(head));
    overlay->keys =
        (redirect_key_filter){(uint64_t *)(uintptr_t)(overlay->orders + 2 * (size_t)head.rules),
                              head.nkeys, head.strange, head.strange_lengths};
    overlay->keyed = head.keyed == 1;
    overlay->gone = (const uint32_t *)(const void *)(overlay->keys.words + head.nkeys);
    overlay->gone_older = overlay->gone + head.ngone;
    overlay->table =
        redirect_table_open((const char *)image + head.table_at, head.table_size, pool);
    if (!overlay->table)
        return NULL;
    redirect_table_info_get(overlay->table, &info);
    return info.rules == head.rules ? overlay : NULL;
}

overlay_order redirect_overlay_order(const redirect_overlay *overlay, uint32_t index)
{
    const uint64_t *order = overlay->orders + 2 * (size_t)index;

    return index < overlay->rules ? (overlay_order){order[0], order[1]} : OVERLAY_NOWHERE;
}

unsigned redirect_overlay_role(const redirect_overlay *overlay, uint32_t index)
{
    return (unsigned)redirect_overlay_order(overlay, index).lower & ((1U << OVERLAY_ROLE_BITS) - 1);
}

uint32_t redirect_overlay_number(const redirect_overlay *overlay, uint32_t index)
{
    return (uint32_t)(redirect_overlay_order(overlay, index).lower >> OVERLAY_ROLE_BITS);
}

uint64_t redirect_overlay_place(const redirect_overlay *overlay, uint32_t index)
{
    return redirect_overlay_order(overlay, index).upper >> OVERLAY_RANK_BITS;
}

static bool is_among(const uint32_t *rules, uint32_t n, uint32_t rule)
{
    uint32_t low = 0, high = n;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (rules[middle] < rule)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && rules[low] == rule;
}

bool redirect_overlay_is_gone(const redirect_overlay *overlay, uint32_t rule)
{
    return is_among(overlay->gone, overlay->ngone, rule);
}

bool redirect_edited_is_gone(const redirect_edited *edited, uint32_t rule)
{
    return redirect_overlay_is_gone(edited->overlay, rule) ||
           (edited->older && redirect_overlay_is_gone(edited->older, rule));
}

bool redirect_edited_is_older_gone(const redirect_edited *edited, uint32_t rule)
{
    return is_among(edited->overlay->gone_older, edited->overlay->ngone_older, rule);
}

const redirect_edited *redirect_edited_open(const redirect_table *base,
                                            const redirect_overlay *overlay,
                                            const redirect_overlay *older, apr_pool_t *pool)
{
    redirect_edited *edited = apr_pcalloc(pool, sizeof(*edited));
    const redirect_table *tables[] = {overlay->table, older ? older->table : NULL};

    edited->overlay = overlay;
    edited->older = older;
    if (overlay->keyed)
        edited->beside = redirect_table_beside(base, tables, older ? 2 : 1, &overlay->keys, pool);
    return edited;
}

/* Which rows of one of the tables a look-up asks about: conditions of others must neither answer nor
 * be said in Vary. */
typedef struct part {
    const redirect_edited *edited;
    redirect_origin origin;
    const redirect_table *table;
    const redirect_request *request;
    uint32_t from;       /* rows ahead of this rule are left out; 0: none is */
    overlay_order until; /* of a row behind which none of this table can answer */
    overlay_order
        at; /* of the row that answers, or by which the look-up ends; or OVERLAY_NOWHERE */
    bool found;
    redirect_match match;
} part;

static overlay_order order_of(const part *p, uint32_t rule)
{
    uint32_t index;

    if (p->origin == REDIRECT_IN_BASE)
        return overlay_order_of(2 * (uint64_t)rule, 0, 0);
    redirect_table_line(p->table, rule, &index);
    return redirect_overlay_order(
        p->origin == REDIRECT_IN_OLDER ? p->edited->older : p->edited->overlay, index);
}

static bool is_gone(const part *p, uint32_t rule)
{
    return p->origin == REDIRECT_IN_BASE    ? redirect_edited_is_gone(p->edited, rule)
           : p->origin == REDIRECT_IN_OLDER ? redirect_edited_is_older_gone(p->edited, rule)
                                            : false;
}

/* Rows of a source are compared with each other, wherever they stand. */
static bool is_left_out(const void *of, uint32_t rule, bool first)
{
    const part *p = of;

    return is_gone(p, rule) || (first && overlay_is_before(p->until, order_of(p, rule)));
}

/* Where the table answers: the order of the first row of the source that does, or by which the
 * look-up ends without an answer; then it is not found. What is gone may change meanwhile if the
 * memory is hostile; so there are no more steps than rows that can be gone. */
static void find(part *p)
{
    redirect_judge none = {.refusals = 0};
    redirect_judge *judge = p->request->judge ? p->request->judge : &none;
    const redirect_overlay *overlay = p->edited->overlay, *older = p->edited->older;
    uint32_t from = p->from,
             most = overlay->ngone + overlay->ngone_older + (older ? older->ngone : 0);

    judge->left_out = is_left_out;
    judge->left_out_of = p;
    p->at = OVERLAY_NOWHERE;
    for (uint32_t steps = 0; steps <= most; steps++) {
        judge->refusals = 0; /* a judge's notes are of one look-up */
        judge->decided_at = 0;
        p->found = redirect_table_lookup(p->table, p->request, from, &p->match);
        if (judge->decided_at || (p->found && !is_gone(p, p->match.rule))) {
            p->at = order_of(p, judge->decided_at ? judge->decided_at : p->match.rule);
            return;
        }
        if (!p->found)
            return;
        from = p->match.rule + 1;
    }
    p->found = false;
}

/* The first rule of an overlay's table that stands behind that. 0: there is none. */
static uint32_t rule_behind(const redirect_overlay *overlay, overlay_order behind)
{
    uint32_t low = 0, high = overlay->rules;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (!overlay_is_before(behind, redirect_overlay_order(overlay, middle)))
            low = middle + 1;
        else
            high = middle;
    }
    return low < overlay->rules ? redirect_table_nth(overlay->table, low) : 0;
}

/* False: no row of this table stands behind that. */
static bool begin_behind(part *p, overlay_order behind)
{
    uint64_t rule = (behind.upper >> OVERLAY_RANK_BITS) / 2;

    if (!overlay_is_before(OVERLAY_START, behind))
        return true;
    if (p->origin == REDIRECT_IN_BASE)
        p->from = rule < UINT32_MAX ? redirect_table_next(p->table, (uint32_t)rule) : 0;
    else
        p->from = rule_behind(
            p->origin == REDIRECT_IN_OLDER ? p->edited->older : p->edited->overlay, behind);
    return p->from != 0;
}

/* Those with rows behind that. Requests: the base's, the overlay's, the older one's. */
static unsigned parts_of(part *parts, const redirect_edited *edited, const redirect_table *base,
                         const redirect_request *const *requests, overlay_order behind)
{
    const part all[] = {
        {.origin = REDIRECT_IN_OVERLAY, .table = edited->overlay->table, .request = requests[1]},
        {.origin = REDIRECT_IN_OLDER,
         .table = edited->older ? edited->older->table : NULL,
         .request = requests[2]},
        {.origin = REDIRECT_IN_BASE, .table = base, .request = requests[0]}};
    unsigned n = 0;

    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        parts[n] = all[i];
        parts[n].edited = edited;
        n += all[i].table && begin_behind(&parts[n], behind);
    }
    return n;
}

redirect_origin redirect_edited_next(const redirect_edited *edited, const redirect_table *base,
                                     const redirect_request *request, const redirect_request *own,
                                     const redirect_request *older, overlay_order behind,
                                     redirect_match *match)
{
    redirect_conditions *c = redirect_conditions_of(request->judge);
    redirect_conditions_notes before = redirect_conditions_noted(c);
    overlay_order until = OVERLAY_NOWHERE;
    part parts[3];
    unsigned n = 0, best = 0;
    bool noted = false; /* in a part whose rows may stand behind the one that answers */

    n = parts_of(parts, edited, base, (const redirect_request *[]){request, own, older}, behind);
    for (unsigned i = 0; i < n; i++) {
        bool noted_before = redirect_conditions_noted_since(c, before);

        parts[i].until = until;
        find(&parts[i]);
        if (overlay_is_before(parts[i].at, until)) {
            until = parts[i].at;
            best = i;
            noted = noted_before;
        }
    }
    if (noted) {
        /* Once more, without the conditions of rows behind that one. */
        redirect_conditions_forget(c, before);
        for (unsigned i = 0; i < n; i++) {
            parts[i].until = until;
            find(&parts[i]);
        }
    }
    if (!overlay_is_before(until, OVERLAY_NOWHERE) || !parts[best].found)
        return REDIRECT_NOT_FOUND;
    *match = parts[best].match;
    return parts[best].origin;
}

redirect_origin redirect_edited_lookup(const redirect_edited *edited, const redirect_table *base,
                                       const redirect_request *request, const redirect_request *own,
                                       const redirect_request *older, redirect_match *match)
{
    return redirect_edited_next(edited, base, request, own, older, OVERLAY_START, match);
}
