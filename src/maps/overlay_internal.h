/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/overlay_internal.h
 * Edits of a map while they are put together: read by overlay_rows.c, made by overlay_edit.c, written
 * as an image by overlay_write.c. For these alone.
 */
#ifndef HTC_MAPS_OVERLAY_INTERNAL_H
#define HTC_MAPS_OVERLAY_INTERNAL_H

#include "maps/internal.h"

#include <apr_hash.h>
#include <apr_tables.h>

/* A row of the overlay. */
typedef struct edit_row {
    redirect_rule rule;
    uint64_t hash; /* redirect_edit_loose_hash() */
    uint64_t place;
    uint64_t rank;   /* among those with the same place, the lowest comes first; 0: all have that */
    uint32_t number; /* then the lowest of these */
    bool dropped;
    bool twin;             /* of the base's: it has a rule for the hosts below its own, too */
    struct edit_row *next; /* of the same hash */
} edit_row;

/* A line of edits, and the rules of its row: none if it is wrong, or two that are twins. */
typedef struct edit_line {
    redirect_edit edit;
    uint32_t line;
    bool is_edit, wrong;
    bool as_text; /* the format of the map's file has no words for it */
    edit_row *rows;
} edit_line;

struct redirect_edits {
    const redirect_table *base;
    const redirect_overlay *recent, *older; /* from which these go on; NULL: none */
    redirect_map_options options;
    apr_pool_t *pool;
    overlay_head head;
    apr_array_header_t *rows; /* edit_row *, in the order in which they were made */
    apr_hash_t *by_source;    /* edit_row *, the latest first */
    apr_hash_t *gone; /* uint32_t *: rules of the base, without those the older one has gone */
    apr_hash_t *gone_older; /* uint32_t *: rules of the older overlay */
    const char *name;       /* of the map's file; NULL: rows are those of a text file */
    map_text file;          /* its beginning */
    bool whole;
    char *target; /* room for one */
    uint32_t applied;
    apr_array_header_t *lines; /* edit_line, while they are applied */
    redirect_report *report;
    redirect_builder *builder;
    size_t table_size;
    apr_array_header_t *sorted; /* edit_row *: the overlay's, in their order */
    bool merged;                /* with those of the older one */
    uint32_t recent_max;        /* rows of the small overlay, and rows that it takes away */
};

/* maps/overlay_edit.c */
/* The first rule of the base that has this source and is not gone; 0: none. */
uint32_t redirect_edits_find_in_base(redirect_edits *e, const redirect_rule *rule);
void redirect_edits_copy(redirect_rule *to, const redirect_rule *rule, apr_pool_t *pool);

/* maps/overlay_rows.c */
/* The lines' rows; nothing is done with them yet. */
apr_status_t redirect_edits_read(redirect_edits *e, const char *text, size_t len,
                                 redirect_report *report);

/* For tests, before finish: have the small overlay no larger than that. */
void redirect_edits_bound(redirect_edits *edits, uint32_t recent_max);

/* maps/overlay_edit.c: the row that is this rule of an overlay. */
edit_row *redirect_edits_row_of(redirect_edits *edits, const redirect_overlay *overlay,
                                uint32_t rule);

static inline bool edit_row_before(const edit_row *a, const edit_row *b)
{
    return a->place != b->place ? a->place < b->place
           : a->rank != b->rank ? a->rank < b->rank
                                : a->number < b->number;
}

#endif
