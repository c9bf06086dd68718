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
    uint64_t hash; /* redirect_edit_source_hash() */
    uint64_t place;
    uint64_t rank;   /* among those with the same place, the lowest comes first; 0: all have that */
    uint32_t number; /* then the lowest of these */
    bool dropped;
    unsigned role;         /* OVERLAY_ROW_* */
    struct edit_row *next; /* of the same hash */
} edit_row;

/* A line of edits, and the rules of its row: none if it is wrong, or two that are twins. */
typedef struct edit_line {
    redirect_edit edit;
    uint32_t line;
    bool is_edit, wrong;
    bool as_text; /* the format of the map's file has no words for it */
    bool pattern; /* its source is one of the format */
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
    apr_hash_t *groups;     /* edit_group *, see maps/overlay_source.c */
    bool conditioned;       /* some row of base or overlays has a condition */
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
void redirect_edits_copy(redirect_rule *to, const redirect_rule *rule, apr_pool_t *pool);
/* A rule of the base or of the older overlay goes, and comes to the overlay that is made. */
void redirect_edits_bring(redirect_edits *e, const redirect_table *table, uint32_t rule);

/* maps/overlay_source.c */
/* The first rule of the base, or of the older overlay, that has this source and is not gone; 0: none.
 * @a below: of rules for the hosts below those of another rule of their row; else of all others. */
uint32_t redirect_edits_find_in(redirect_edits *e, const redirect_table *table,
                                const redirect_rule *rule, bool below);
/* OVERLAY_ROW_* of such a rule. */
unsigned redirect_edits_role(redirect_edits *e, const redirect_table *table, uint32_t rule);
/* Are these the two rules of a row, for a host and for all below? */
bool redirect_edits_is_below(const redirect_rule *below, const redirect_rule *at);
bool redirect_edits_has_conditions(const redirect_table *table);
/* A row of the overlay that is made has this rule. */
void redirect_edits_note_compared(redirect_edits *e, const redirect_rule *rule);
/* Rows of the rule's source stand in one table if a request's Accept or the like chooses among them and
 * it: others come to the overlay that is made. False: these are too many. */
bool redirect_edits_gather(redirect_edits *e, const redirect_rule *rule);

/* maps/overlay_list.c */
/* A word as the text format has it in quotes. */
const char *redirect_edit_quoted(const char *word, apr_pool_t *pool);
/* A rule's conditions as options; "": none. */
const char *redirect_rule_conditions(const redirect_rule *rule, apr_pool_t *pool);

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
