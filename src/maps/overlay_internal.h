/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/overlay_internal.h
 * Edits of a map while they are put together: made by overlay_edit.c, written as an image by
 * overlay_write.c. For these two alone.
 */
#ifndef HTC_MAPS_OVERLAY_INTERNAL_H
#define HTC_MAPS_OVERLAY_INTERNAL_H

#include "maps/internal.h"

#include <apr_hash.h>
#include <apr_tables.h>

/* A row of the overlay. */
typedef struct edit_row {
    redirect_rule rule;
    uint64_t place;
    uint32_t number; /* among those with the same place, the lowest comes first */
    bool dropped;
    struct edit_row *next; /* of the same hash */
} edit_row;

struct redirect_edits {
    const redirect_table *base;
    redirect_map_options options;
    apr_pool_t *pool;
    overlay_head head;
    apr_array_header_t *rows; /* edit_row *, in the order in which they were made */
    apr_hash_t *by_source;    /* edit_row *, the latest first */
    apr_hash_t *gone;         /* uint32_t *: rules of the base */
    char *target;             /* room for one */
    uint32_t applied;
    apr_array_header_t *lines; /* edit_line, while they are applied */
    redirect_report *report;
    redirect_builder *builder;
    size_t table_size;
    apr_array_header_t *sorted; /* edit_row *: the overlay's, in their order */
};

static inline bool edit_row_before(const edit_row *a, const edit_row *b)
{
    return a->place != b->place ? a->place < b->place : a->number < b->number;
}

#endif
