/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/overlay.h
 * Edits of a map's rows while its table stays as it is. An overlay is one image beside that of the
 * table (the base): a small table of the rows that were added or changed, where each of them stands
 * in the base's order, and which rows of the base they take away. A look-up in both answers as one
 * in a table of the edited rows would. Part of the core: no httpd headers.
 *
 *   header | orders of its rows, two uint64_t | keys of what was edited, uint64_t |
 *   rows of the base that are gone, uint32_t | rows of the older overlay that are gone, uint32_t |
 *   table
 *
 * Each edit makes an overlay anew, which takes the longer the more rows are edited. So there can be
 * two: a large older one and, over it, a small one of the latest edits. When that has grown, both
 * are made one, which takes the older one's place.
 *
 * A request whose source was not edited is answered by the base alone, see redirect_edited.
 *
 * As a table's, an overlay's image may lie in memory that other processes write: whatever is there,
 * nothing outside of it is read, and a look-up ends.
 */
#ifndef HTC_MAPS_OVERLAY_H
#define HTC_MAPS_OVERLAY_H

#include "redirect_table.h"

struct redirect_map_options;
struct redirect_report;

/** Most rows of an overlay, those of the base that are gone included. */
#define REDIRECT_OVERLAY_MAX 65536

/** Most bytes of edits that are applied at once. */
#define REDIRECT_EDIT_BYTES (16U << 20)

/** An open overlay. Public for those who list it; made by redirect_overlay_open() alone. */
typedef struct redirect_overlay {
    uint64_t base;  /* the version of the table that it belongs to */
    uint64_t since; /* wall clock, seconds: the first of its edits */
    uint64_t edits; /* so many were made since the table was loaded */
    uint64_t older; /* the version of the older overlay that it lies over; 0: over none */
    uint32_t rules; /* of its table */
    uint32_t ngone, ngone_older;
    uint32_t next;      /* number of the next row that is added */
    uint32_t differing; /* rows that differ from the base's: those of the older overlay, too */
    uint32_t query_end; /* rows with a query come behind this rule of the base; 0: not known */
    const redirect_table *table;
    const uint64_t *orders;            /* in the image, two for each rule */
    const uint32_t *gone, *gone_older; /* in the image, ascending: rules */
    redirect_key_filter keys; /* in the image, of all that was edited, also in the older one */
    bool keyed;               /* all of them are there */
} redirect_overlay;

/** Open an image. NULL: its header is impossible. */
const redirect_overlay *redirect_overlay_open(const void *image, size_t size, apr_pool_t *pool);

/** Where a row of the overlay stands: twice the rule of the base that it takes the place of, or one
 * more: behind that rule. */
uint64_t redirect_overlay_place(const redirect_overlay *overlay, uint32_t index);

/** True when it takes away this rule of the base: it is deleted, or another row has its place. */
bool redirect_overlay_is_gone(const redirect_overlay *overlay, uint32_t rule);

/** True when the older overlay has all edits of the other one, which then does not count. */
static inline bool redirect_overlay_covers(const redirect_overlay *older,
                                           const redirect_overlay *overlay)
{
    return older->base == overlay->base && older->edits >= overlay->edits;
}

/** A table with its edits. */
typedef struct redirect_edited {
    const redirect_overlay *overlay, *older; /* older NULL: there is none */
    const redirect_table *beside;            /* see redirect_table_beside(); NULL: none */
} redirect_edited;

/** @a older: the one of the version that @a overlay names, or NULL. Needs the image of @a base, and
 * the overlays. */
const redirect_edited *redirect_edited_open(const redirect_table *base,
                                            const redirect_overlay *overlay,
                                            const redirect_overlay *older, apr_pool_t *pool);

/** True when this rule of the base is gone: deleted, or another row has its place. */
bool redirect_edited_is_gone(const redirect_edited *edited, uint32_t rule);

/** True when this rule of the older overlay is gone. */
bool redirect_edited_is_older_gone(const redirect_edited *edited, uint32_t rule);

/** True when the base alone answers, as without edits: *found says whether it does. False: nothing
 * is known yet, see redirect_edited_lookup(). */
static inline bool redirect_edited_ask_base(const redirect_edited *edited,
                                            const redirect_request *request, redirect_match *match,
                                            bool *found)
{
    if (!edited->beside)
        return false;
    *found = redirect_table_lookup(edited->beside, request, 0, match);
    return *found || match->rule != REDIRECT_ASK_EDITS;
}

/** Where a match was found. */
typedef enum redirect_origin {
    REDIRECT_NOT_FOUND,
    REDIRECT_IN_BASE,
    REDIRECT_IN_OVERLAY,
    REDIRECT_IN_OLDER
} redirect_origin;

/** As redirect_table_lookup() in a table of the edited rows. The match is one of the table that is
 * returned. @a own and @a older are @a request with the batons for patterns of the overlays. */
redirect_origin redirect_edited_lookup(const redirect_edited *edited, const redirect_table *base,
                                       const redirect_request *request, const redirect_request *own,
                                       const redirect_request *older, redirect_match *match);

/* --- showing rows ------------------------------------------------------------------------------*/

/** How a row differs from the file. */
typedef enum redirect_differs {
    REDIRECT_SAME,
    REDIRECT_ROW_ADDED,
    REDIRECT_ROW_CHANGED,
    REDIRECT_ROW_DELETED
} redirect_differs;

/** False ends it. The rule is valid during the call only. Its line is that of the row
 * in the file; 0: it has none. */
typedef bool redirect_row_fn(void *baton, const redirect_rule *rule, redirect_differs differs);

/** Call @a fn for all rows in the order in which they answer, those that are gone among them, but
 * for the first @a from. @a edited may be NULL. @a edited_only: those that differ from the file. */
void redirect_edited_each(const redirect_edited *edited, const redirect_table *base,
                          bool edited_only, uint64_t from, redirect_row_fn *fn, void *baton,
                          apr_pool_t *pool);

/** A rule as the words of a text row: its source, and options but for status. */
const char *redirect_rule_source(const redirect_rule *rule, apr_pool_t *pool);
const char *redirect_rule_options(const redirect_rule *rule, apr_pool_t *pool);

/* --- making one --------------------------------------------------------------------------------*/

/** The edits of a map, in memory of a pool. */
typedef struct redirect_edits redirect_edits;

/** Go on from the edits @a before (NULL: none), which are of @a base like the new ones. Both stay
 * open until redirect_edits_destroy(). @a version: of the base's image. @a older: of the older
 * overlay's; 0: there is none. If @a before is one overlay, and there is an older one, it is that.
 * @a options: the map's, with the format that its file has. NULL: there is no memory. */
redirect_edits *redirect_edits_create(const redirect_table *base, uint64_t version,
                                      const redirect_edited *before, uint64_t older,
                                      const struct redirect_map_options *options, apr_pool_t *pool);

/** Rows of edits are those that the file @a name would have, which begins with @a bytes; @a whole:
 * these are all. Texts stay the caller's until redirect_edits_destroy(). Without it, rows are those of
 * a text file. */
void redirect_edits_like(redirect_edits *edits, const char *name, const char *bytes, size_t len,
                         bool whole);

/**
 * Apply edits, one a line, words as in the text format of maps:
 *
 *   add SOURCE TARGET [STATUS] [key=value...]   a row at the end; an error if the source has one
 *   set SOURCE TARGET [STATUS] [key=value...]   in place of the source's rows, or at the end
 *   del SOURCE [key=value...]                   all rows of the source; an error if it has none
 *
 * Rows are written and read as those of the map's file, see redirect_edits_like(). Where its format
 * has no words for an edit, the row is one of a text file, with the format's defaults.
 * Sources are the same when scheme, host, path or pattern, and query are. Errors are reported with
 * the line of the edit; after one of them, the edits must not be used. What the reader says of rows
 * is reported, too.
 * @return APR_SUCCESS; APR_EGENERAL: a line cannot be read; APR_EEXIST: the source has a row, or has
 * none; APR_ENOSPC: more rows than an overlay may
 * have; APR_ENOMEM.
 */
apr_status_t redirect_edits_apply(redirect_edits *edits, const char *text, size_t len,
                                  struct redirect_report *report);

/** Call @a fn for the rows that the source has now: SOURCE and options, as behind "del". What is
 * wrong with it is reported. */
apr_status_t redirect_edits_find(redirect_edits *edits, const char *source, size_t len,
                                 struct redirect_report *report, redirect_row_fn *fn, void *baton);

/** A row as words of an edit. Where the format of the map's file has words for it, reading them makes
 * this rule again; else they are those of redirect_rule_source() and redirect_rule_options(). In @a pool. */
typedef struct redirect_row_words {
    const char *source;
    const char *target; /* NULL: none */
    const char *options;
} redirect_row_words;
void redirect_edits_words(redirect_edits *edits, const redirect_rule *rule, apr_pool_t *pool,
                          redirect_row_words *words);

/** Make the overlay's table. *size: of the image; *counters: the number of its rules. *older: it takes
 * the place of the older overlay, and has all edits. */
apr_status_t redirect_edits_finish(redirect_edits *edits, int64_t now, size_t *size,
                                   uint32_t *counters, bool *older);
/** Write the image to @a to (64-byte aligned). Once, after finish. */
void redirect_edits_write(redirect_edits *edits, void *to);
/**
 * Warn of rows that the edits of @a text set and that are never used, lead to themselves or to a
 * loop, as redirect_map_check() does of rows of a file. Lines are those of the text. @a edited: the
 * table with the overlay that @a edits has written. NULL: the edits are rows of the base already,
 * and @a edits is new.
 */
apr_status_t redirect_edits_check(redirect_edits *edits, const redirect_edited *edited,
                                  const char *text, size_t len, struct redirect_report *report);
/** So many edits were applied by redirect_edits_apply(), and so many rows differ from the base's. */
uint32_t redirect_edits_applied(const redirect_edits *edits);
uint32_t redirect_edits_differing(const redirect_edits *edits);
void redirect_edits_destroy(redirect_edits *edits);

#endif
