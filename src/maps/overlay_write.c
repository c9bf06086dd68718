/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The image of an overlay, of the rows that maps/overlay_edit.c put together.
 */
#include "maps/overlay_internal.h"

#include <stdlib.h>
#include <string.h>

uint32_t redirect_edits_applied(const redirect_edits *e)
{
    return e->applied;
}

/* A changed row is one of the overlay and one that is gone. */
uint32_t redirect_edits_differing(const redirect_edits *e)
{
    uint32_t n = apr_hash_count(e->gone);

    for (int i = 0; i < e->rows->nelts; i++) {
        const edit_row *row = APR_ARRAY_IDX(e->rows, i, edit_row *);

        n += !row->dropped && row->place % 2;
    }
    return n;
}

static int by_place(const void *a_, const void *b_)
{
    const edit_row *a = *(edit_row *const *)a_, *b = *(edit_row *const *)b_;

    return edit_row_before(a, b) ? -1 : edit_row_before(b, a);
}

static apr_status_t build(redirect_edits *e, size_t bytes)
{
    e->builder = redirect_builder_create((size_t)e->sorted->nelts, bytes);
    if (!e->builder)
        return APR_ENOMEM;
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

apr_status_t redirect_edits_finish(redirect_edits *e, int64_t now, size_t *size, uint32_t *counters)
{
    size_t bytes = 0, at;
    apr_status_t rv;

    e->sorted = apr_array_make(e->pool, e->rows->nelts + 1, sizeof(edit_row *));
    for (int i = 0; i < e->rows->nelts; i++) {
        edit_row *row = APR_ARRAY_IDX(e->rows, i, edit_row *);

        if (row->dropped)
            continue;
        APR_ARRAY_PUSH(e->sorted, edit_row *) = row;
        bytes += row->rule.source_len + row->rule.target_len + 32;
    }
    qsort(e->sorted->elts, (size_t)e->sorted->nelts, sizeof(edit_row *), by_place);
    rv = build(e, bytes);
    if (rv != APR_SUCCESS)
        return rv;
    /* The same source never has two rows, so the table has all of them. */
    if (redirect_builder_rules(e->builder) != (uint32_t)e->sorted->nelts)
        return APR_EGENERAL;
    rv = redirect_table_validate(redirect_builder_image(e->builder), e->table_size);
    if (rv != APR_SUCCESS)
        return rv;
    e->head.rules = *counters = (uint32_t)e->sorted->nelts;
    e->head.ngone = apr_hash_count(e->gone);
    e->head.edits += e->applied;
    if (!e->head.since)
        e->head.since = (uint64_t)now;
    for (e->head.nfilter = 1;
         e->head.nfilter * 64 < (e->head.rules + e->head.ngone) * OVERLAY_FILTER_BITS;)
        e->head.nfilter *= 2;
    at = align_up(sizeof(e->head) + (e->head.rules + e->head.nfilter) * sizeof(uint64_t) +
                  e->head.ngone * sizeof(uint32_t));
    if (at + e->table_size > REDIRECT_MAX_IMAGE)
        return APR_ENOSPC;
    e->head.table_at = (uint32_t)at;
    e->head.table_size = (uint32_t)e->table_size;
    *size = at + e->table_size;
    return APR_SUCCESS;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void filter_add(const redirect_edits *e, uint64_t *filter, uint64_t hash)
{
    filter[hash & (e->head.nfilter - 1)] |= overlay_bits(hash);
}

void redirect_edits_write(redirect_edits *e, void *to)
{
    uint64_t *places = (uint64_t *)(void *)((char *)to + sizeof(e->head));
    uint64_t *filter = places + e->head.rules;
    uint32_t *gone = apr_palloc(e->pool, (e->head.ngone + 1) * sizeof(*gone)), n = 0;

    e->head.filtered = 1;
    memset(filter, 0, e->head.nfilter * sizeof(*filter));
    for (uint32_t i = 0; i < e->head.rules; i++) {
        const edit_row *row = APR_ARRAY_IDX(e->sorted, (int)i, edit_row *);

        places[i] = row->place;
        filter_add(e, filter, overlay_end_of(row->rule.source, row->rule.source_len));
        if (row->rule.kind != REDIRECT_EXACT || row->rule.flags & REDIRECT_ICASE)
            e->head.filtered = 0;
    }
    memcpy(to, &e->head, sizeof(e->head));
    for (apr_hash_index_t *i = apr_hash_first(e->pool, e->gone); i; i = apr_hash_next(i)) {
        const void *key;

        apr_hash_this(i, &key, NULL, NULL);
        gone[n++] = *(const uint32_t *)key;
        filter_add(e, filter, overlay_hash(gone[n - 1]));
    }
    /* Not where others may write, as sorting relies on what it has compared. */
    qsort(gone, n, sizeof(*gone), by_number);
    memcpy(filter + e->head.nfilter, gone, n * sizeof(*gone));
    redirect_builder_write(e->builder, (char *)to + e->head.table_at);
}

void redirect_edits_destroy(redirect_edits *e)
{
    redirect_builder_destroy(e->builder);
    e->builder = NULL;
}
