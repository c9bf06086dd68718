/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The image of an overlay, of the rows that maps/overlay_edit.c put together.
 */
#include "maps/overlay_internal.h"

#include <stdlib.h>
#include <string.h>

#include <apr_strings.h>

#define NUMBERS_MAX (UINT32_C(1) << 31)
#define OLDER_SHARE 192 /* the small overlay may have this part of the older one's rows more */

/* Bits of the filter for each source that was edited, at least: with many, each edit writes fewer
 * bytes, and some look-ups ask for nothing. */
#define KEY_BITS_FEW  128
#define KEY_BITS      32
#define KEY_BITS_MANY 16
#define FEW           1024
#define MANY          16384

void redirect_edits_bound(redirect_edits *e, uint32_t recent_max)
{
    e->recent_max = recent_max;
}

uint32_t redirect_edits_applied(const redirect_edits *e)
{
    return e->applied;
}

/* 1: it is one more that differs from the base's; -1: though the base's is gone, it does not. */
static int more_differing(uint64_t place, unsigned role)
{
    return place % 2 ? 1 : role & OVERLAY_ROW_MOVED ? -1 : 0;
}

static int is_added(uint64_t place, unsigned role)
{
    (void)role;
    return place % 2;
}

/* The sum for the rows of the older overlay that are gone now. */
static int64_t sum_of_gone(const redirect_edits *e, int (*of)(uint64_t place, unsigned role))
{
    int64_t n = 0;

    for (apr_hash_index_t *i = apr_hash_first(e->pool, e->gone_older); i; i = apr_hash_next(i)) {
        const void *rule;
        uint32_t index;

        apr_hash_this(i, &rule, NULL, NULL);
        redirect_table_line(e->older->table, *(const uint32_t *)rule, &index);
        n += of(redirect_overlay_place(e->older, index), redirect_overlay_role(e->older, index));
    }
    return n;
}

/* A changed row is one of the overlay and one that is gone. */
uint32_t redirect_edits_differing(const redirect_edits *e)
{
    int64_t n = apr_hash_count(e->gone);

    for (int i = 0; i < e->rows->nelts; i++) {
        const edit_row *row = APR_ARRAY_IDX(e->rows, i, edit_row *);

        n += row->dropped ? 0 : more_differing(row->place, row->role);
    }
    if (e->older)
        n += e->older->differing - sum_of_gone(e, more_differing);
    return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0; /* others may write to the older one */
}

static int by_place(const void *a_, const void *b_)
{
    const edit_row *a = *(edit_row *const *)a_, *b = *(edit_row *const *)b_;

    return edit_row_before(a, b) ? -1 : edit_row_before(b, a);
}

static size_t text_of(const redirect_edits *e)
{
    size_t bytes = 0;

    for (int i = 0; i < e->sorted->nelts; i++) {
        const redirect_rule *rule = &APR_ARRAY_IDX(e->sorted, i, edit_row *)->rule;

        bytes += rule->source_len + rule->target_len + 32;
    }
    return bytes;
}

static apr_status_t build(redirect_edits *e)
{
    e->builder = redirect_builder_create((size_t)e->sorted->nelts, text_of(e));
    if (!e->builder)
        return APR_ENOMEM;
    redirect_builder_keep_all(e->builder);
    for (int i = 0; i < e->sorted->nelts; i++) {
        edit_row *row = APR_ARRAY_IDX(e->sorted, i, edit_row *);

        row->rule.line = (uint32_t)i + 1;
        switch (redirect_builder_add(e->builder, &row->rule)) {
        case REDIRECT_ADDED:
            break;
        case REDIRECT_NO_MEMORY:
            return APR_ENOMEM;
        default:
            return APR_ENOSPC;
        }
    }
    return redirect_builder_finish(e->builder, NULL, NULL, &e->table_size);
}

static size_t align_up(size_t n)
{
    return (n + OVERLAY_ALIGN - 1) / OVERLAY_ALIGN * OVERLAY_ALIGN;
}

/* Those of this overlay, in their order. */
static void sort_rows(redirect_edits *e)
{
    e->sorted = apr_array_make(e->pool, e->rows->nelts + 1, sizeof(edit_row *));
    for (int i = 0; i < e->rows->nelts; i++) {
        edit_row *row = APR_ARRAY_IDX(e->rows, i, edit_row *);

        if (!row->dropped)
            APR_ARRAY_PUSH(e->sorted, edit_row *) = row;
    }
    qsort(e->sorted->elts, (size_t)e->sorted->nelts, sizeof(edit_row *), by_place);
}

/* And those of the older one, which come in their order. */
static void merge_older(redirect_edits *e)
{
    apr_array_header_t *own = e->sorted;
    int i = 0;

    e->sorted = apr_array_make(e->pool, own->nelts + (int)e->older->rules + 1, sizeof(edit_row *));
    for (uint32_t rule = redirect_table_next(e->older->table, 0); rule;
         rule = redirect_table_next(e->older->table, rule)) {
        edit_row *row;

        if (apr_hash_get(e->gone_older, &rule, sizeof(rule)))
            continue;
        row = redirect_edits_row_of(e, e->older, rule);
        while (i < own->nelts && edit_row_before(APR_ARRAY_IDX(own, i, edit_row *), row))
            APR_ARRAY_PUSH(e->sorted, edit_row *) = APR_ARRAY_IDX(own, i++, edit_row *);
        APR_ARRAY_PUSH(e->sorted, edit_row *) = row;
    }
    while (i < own->nelts)
        APR_ARRAY_PUSH(e->sorted, edit_row *) = APR_ARRAY_IDX(own, i++, edit_row *);
}

/* Numbers begin anew, so that they never end. */
static void number_rows(redirect_edits *e)
{
    for (int i = 0; i < e->sorted->nelts; i++)
        APR_ARRAY_IDX(e->sorted, i, edit_row *)->number = (uint32_t)i;
    e->head.next = (uint32_t)e->sorted->nelts;
}

/* The small overlay has grown: a larger one takes longer to make with each edit, and a smaller one is
 * made one with the older more often, which takes the longer the larger that is. */
static bool is_large(const redirect_edits *e)
{
    uint32_t rows = (uint32_t)e->sorted->nelts;
    uint32_t gone = apr_hash_count(e->gone) + apr_hash_count(e->gone_older);
    uint32_t most = e->recent_max + (e->older ? e->older->rules / OLDER_SHARE : 0);

    return (rows > gone ? rows : gone) > most || e->head.next > NUMBERS_MAX;
}

static uint32_t gone_of(const redirect_edits *e)
{
    return apr_hash_count(e->gone) + (e->merged && e->older ? e->older->ngone : 0);
}

/* As many as the older one's, or some times as many. */
static uint32_t words_of(const redirect_edits *e)
{
    uint64_t edits = e->head.differing;
    uint64_t bits = edits * (edits > MANY ? KEY_BITS_MANY : edits > FEW ? KEY_BITS : KEY_BITS_FEW);
    uint32_t n = e->older ? (uint32_t)e->older->keys.count : 1;

    while (n * UINT64_C(64) < bits)
        n *= 2;
    return n;
}

static apr_status_t lay_out(redirect_edits *e, size_t *size)
{
    size_t at =
        align_up(sizeof(e->head) + (2 * (size_t)e->head.rules + e->head.nkeys) * sizeof(uint64_t) +
                 ((size_t)e->head.ngone + e->head.ngone_older) * sizeof(uint32_t));

    if (at + e->table_size > REDIRECT_MAX_IMAGE)
        return APR_ENOSPC;
    e->head.table_at = (uint32_t)at;
    e->head.table_size = (uint32_t)e->table_size;
    *size = at + e->table_size;
    return APR_SUCCESS;
}

/* The first edits of a table are one overlay, however many they are. */
apr_status_t redirect_edits_finish(redirect_edits *e, int64_t now, size_t *size, uint32_t *counters,
                                   bool *older)
{
    apr_status_t rv;

    sort_rows(e);
    e->merged = *older = (e->recent || e->older) && is_large(e);
    if (e->merged && e->older)
        merge_older(e);
    if (e->merged)
        number_rows(e);
    if (e->sorted->nelts > REDIRECT_OVERLAY_MAX || gone_of(e) > REDIRECT_OVERLAY_MAX)
        return APR_ENOSPC;
    rv = build(e);
    if (rv != APR_SUCCESS)
        return rv;
    rv = redirect_table_validate(redirect_builder_image(e->builder), e->table_size);
    if (rv != APR_SUCCESS)
        return rv;
    e->head.rules = *counters = (uint32_t)e->sorted->nelts;
    e->head.ngone = gone_of(e);
    e->head.ngone_older = e->merged ? 0 : apr_hash_count(e->gone_older);
    e->head.edits += e->applied;
    e->head.differing = redirect_edits_differing(e);
    if (e->merged)
        e->head.older = 0;
    if (!e->head.since)
        e->head.since = (uint64_t)now;
    e->head.nkeys = words_of(e);
    return lay_out(e, size);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

/* Ascending. */
static void write_rules(const redirect_edits *e, apr_hash_t *rules, uint32_t *to)
{
    uint32_t n = 0;

    for (apr_hash_index_t *i = apr_hash_first(e->pool, rules); i; i = apr_hash_next(i)) {
        const void *rule;

        apr_hash_this(i, &rule, NULL, NULL);
        to[n++] = *(const uint32_t *)rule;
    }
    qsort(to, n, sizeof(*to), by_number);
}

static bool add_gone(const redirect_edits *e, redirect_key_filter *keys, const uint32_t *gone,
                     uint32_t n)
{
    bool keyed = true;

    for (uint32_t i = 0; keyed && i < n; i++) {
        redirect_rule rule;

        redirect_table_rule(e->base, gone[i], &rule, e->target, NULL);
        keyed = redirect_filter_add(keys, e->base, &rule);
    }
    return keyed;
}

static bool add_rows(const redirect_edits *e, redirect_key_filter *keys,
                     const apr_array_header_t *rows)
{
    bool keyed = true;

    for (int i = 0; keyed && i < rows->nelts; i++)
        keyed = redirect_filter_add(keys, e->base, &APR_ARRAY_IDX(rows, i, edit_row *)->rule);
    return keyed;
}

/* Those of the older overlay are there already, unless some are of rows that it has no more. A key's
 * word in a larger filter is the same with some high bits. @a gone: what is gone, and the older
 * overlay does not say. */
static void write_keys(redirect_edits *e, uint64_t *words, const uint32_t *gone)
{
    redirect_key_filter keys = {.words = words, .count = e->head.nkeys};
    const redirect_overlay *older = e->older;
    bool keyed;

    if (older && (!e->merged || (older->keys.count == keys.count && !sum_of_gone(e, is_added)))) {
        for (uint64_t at = 0; at < keys.count; at += older->keys.count)
            memcpy(words + at, older->keys.words, older->keys.count * sizeof(*words));
        keys.strange = older->keys.strange;
        keys.strange_lengths = older->keys.strange_lengths;
        keyed = older->keyed && add_rows(e, &keys, e->rows);
    } else {
        memset(words, 0, keys.count * sizeof(*words));
        keyed = add_rows(e, &keys, e->sorted) &&
                (!older || add_gone(e, &keys, older->gone, older->ngone));
    }
    e->head.keyed = keyed && add_gone(e, &keys, gone, apr_hash_count(e->gone));
    e->head.strange = keys.strange;
    e->head.strange_lengths = keys.strange_lengths;
}

/* Both are ascending; there is room for all in the first. */
static void merge_rules(uint32_t *to, uint32_t n, const uint32_t *more, uint32_t nmore)
{
    while (nmore) {
        bool own = n && to[n - 1] > more[nmore - 1];

        to[n + nmore - 1] = own ? to[n - 1] : more[nmore - 1];
        if (own)
            n--;
        else
            nmore--;
    }
}

void redirect_edits_write(redirect_edits *e, void *to)
{
    uint64_t *orders = (uint64_t *)(void *)((char *)to + sizeof(e->head));
    uint64_t *words = orders + 2 * (size_t)e->head.rules;
    size_t ngone = (size_t)e->head.ngone + e->head.ngone_older;
    uint32_t *gone = apr_palloc(e->pool, (ngone + 1) * sizeof(*gone));

    for (uint32_t i = 0; i < e->head.rules; i++) {
        const edit_row *row = APR_ARRAY_IDX(e->sorted, (int)i, edit_row *);

        overlay_order order = overlay_order_of(row->place, row->rank, row->number);

        orders[2 * (size_t)i] = order.upper;
        orders[2 * (size_t)i + 1] = order.lower | row->role;
    }
    /* Not where others may write, as sorting relies on what it has compared. */
    write_rules(e, e->gone, gone);
    write_keys(e, words, gone);
    if (e->merged && e->older)
        merge_rules(gone, apr_hash_count(e->gone), e->older->gone, e->older->ngone);
    if (!e->merged)
        write_rules(e, e->gone_older, gone + e->head.ngone);
    memcpy(words + e->head.nkeys, gone, ngone * sizeof(*gone));
    memcpy(to, &e->head, sizeof(e->head));
    redirect_builder_write(e->builder, (char *)to + e->head.table_at);
}

void redirect_edits_destroy(redirect_edits *e)
{
    redirect_builder_destroy(e->builder);
    e->builder = NULL;
}
