/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/counters.h
 * Counters of single redirects in httpd: rows of redirect maps, and folded lines of the server's
 * configuration. Counts lie in the redirect area, so all processes share them, and rows that stay
 * keep theirs when a map is loaded anew and when the server is restarted gracefully. A process of its
 * own keeps them in a file, so that they survive a stop (redirects/keeper.c). Redirect lines of
 * .htaccess files are counted, too, in a table of their own, and so are RewriteRules in them
 * (redirects/fold_track.h). Pages that were not found are in redirects/missing.c.
 */
#ifndef HTC_REDIRECTS_COUNTERS_H
#define HTC_REDIRECTS_COUNTERS_H

#include "module/module.h"
#include "area/area.h"
#include "redirect_table.h"

/** One redirect and how often it answered. Strings are valid during the call only. */
typedef struct htc_redirect_row {
    const char *file; /* in which it stands */
    uint32_t line;
    bool edited;  /* of a map, by an edit that lasts until its file is loaded: it has no line */
    uint64_t key; /* identifies the redirect as long as it stays, see area/counters.h */
    redirect_count count;
    redirect_rule rule; /* as text; of a folded regex, `pattern` */
} htc_redirect_row;

/** Lines of the server's configuration that are counted. */
typedef struct htc_counted {
    uint32_t count;
    const void *owner;
    /** Fill file, line and rule of line number @a i. */
    void (*describe)(const void *owner, uint32_t i, htc_redirect_row *row);
    redirect_counter *counters; /* `count` of them, from post_config on; NULL: not counted */
} htc_counted;

/** False ends it. */
typedef bool htc_redirect_row_fn(void *baton, const htc_redirect_row *row);

/** Call @a fn for every redirect that is counted, in the order in which they stand in each map and
 * context; maps first. Linear in the number of redirects. */
void htc_redirect_rows(const server_rec *s, apr_pool_t *pool, htc_redirect_row_fn *fn, void *baton);

/** How many there are, and how many have answered. */
typedef struct htc_redirect_totals {
    uint64_t all, used;
    uint64_t htaccess; /* lines of .htaccess files that have; how many there are is not known */
    uint64_t unseen;   /* such lines that have not answered since the start, or whose file the cache
                        * does not have now */
} htc_redirect_totals;

/** Call @a fn for the @a n (at most HTC_REDIRECT_MOST) that answered most of those that there are
 * now, most hits first, and fill *totals. Goes through the counters only, 8 bytes for each redirect, not through the
 * redirects. */
#define HTC_REDIRECT_MOST 16
void htc_redirect_most(const server_rec *s, apr_pool_t *pool, unsigned n, htc_redirect_row_fn *fn,
                       void *baton, htc_redirect_totals *totals);

/** Set the counters of all of these redirects to 0: as they are listed, those of all virtual hosts.
 */
void htc_redirect_counts_reset(const server_rec *s, apr_pool_t *pool);
/** Since when they count, in seconds since 1970: the first start with the file of counts, or without
 * one httpd's start; or the last reset. */
int64_t htc_redirect_counts_since(const server_rec *s);

/** A redirect has answered: number @a index of @a n, whose counters may be NULL. It is counted
 * unless HtCacheCounters is Off for the request's server. */
void htc_count_hit(const request_rec *r, redirect_counter *counters, uint32_t n, uint32_t index);

/** Announce lines while the server's configuration is read; @a owner lives as long as that. */
htc_counted *htc_counted_add(const void *owner, uint32_t count,
                             void (*describe)(const void *owner, uint32_t i,
                                              htc_redirect_row *row));
/** post_config, in a process that has joined the area: give all announced lines their counters,
 * with what was counted in the area @a before (NULL: there was none). */
void htc_counted_prepare(htc_redirects *redirects, redirect_area *before);
/** Pin the image that @a name had in @a before, which may be NULL. Other processes can write to
 * the image; its memory exists. */
bool htc_counted_before(redirect_area *before, const redirect_area_key *name,
                        redirect_area_pin *old);
/** The map @a slot has the counts that @a name had in the area @a before: if these were earlier ones
 * from the file, too, the keeper does not add them again. */
void htc_counted_carried(redirect_area *area, uint32_t slot, const redirect_area *before,
                         const redirect_area_key *name);
/** child_init, after joining: keep the counters in their place as long as this process lives. */
void htc_counted_keep(htc_redirects *redirects);

/** An image of @a len bytes, a copy of @a bytes or zeros, becomes the current one of @a slot, with
 * @a n counters at 0. APR_EBUSY: another process is making one; otherwise there is no room. */
apr_status_t htc_counted_publish(redirect_area *area, uint32_t slot, const void *bytes, size_t len,
                                 uint32_t n);

/** An image of the area with counters, pinned, whichever kind it is. */
typedef struct htc_counted_image {
    redirect_area_pin pin;
    redirect_keys keys; /* of its counters, to be gone through once; their number, too */
    bool hits;          /* lines of .htaccess files: a redirect_hits */
    const void *at;     /* private */
    const redirect_table *table;
    uint32_t rule;
} htc_counted_image;

/** False: the map @a slot has no image with redirects' counters, or one that is damaged. @a image
 * stays where it is until htc_counted_close(). @a pool for scratch memory, until then. */
bool htc_counted_open(redirect_area *area, uint32_t slot, apr_pool_t *pool,
                      htc_counted_image *image);
void htc_counted_close(redirect_area *area, const htc_counted_image *image);

/* redirects/counters_htaccess.c: the same for lines of .htaccess files. */
struct htc_fold_entry;
/** The line of @a file that has this key has answered. */
void htc_count_htaccess(const request_rec *r, const char *file, uint64_t key);
/** The key of a Redirect line: the same as long as the line says the same in the same file,
 * wherever it stands there. */
uint64_t htc_count_key(const struct htc_fold_entry *entry, bool is_regex);
extern const redirect_area_key htc_hits_name;
/** True when it is an image of such counters. */
bool htc_hits_fit(const redirect_area_pin *pin);
void htc_hits_prepare(htc_redirects *redirects, redirect_area *before);
void htc_hits_keep(htc_redirects *redirects);
void htc_hits_reset(const server_rec *s);
/** Call @a fn for those in all files that the cache has at the moment. False: it ended it. */
bool htc_hits_rows(const server_rec *s, apr_pool_t *pool, htc_redirect_row_fn *fn, void *baton);
/** For htc_redirect_most(): does the cache have the file of counter @a index now? */
typedef struct htc_known_files {
    const server_rec *server;
    apr_pool_t *scratch;
} htc_known_files;
bool htc_hits_known(void *known_files, uint32_t index);
/** Call @a fn for the one that counter number @a index is of, if its file is in the cache. */
void htc_hits_show(const server_rec *s, apr_pool_t *pool, uint32_t index, htc_redirect_row_fn *fn,
                   void *baton);

/* redirects/keeper.c: counts in a file. */
/** optional_fn_retrieve, behind the configuration: begin to keep counts in HtCacheCountersFile. */
void htc_keeper_start(void);
/** monitor: see to it that they are kept. */
int htc_keeper_monitor(apr_pool_t *pool, server_rec *s);
/** Why counts are not kept, in @a pool, with *advice; NULL: they are, or need not be. */
const char *htc_keeper_problem(const server_rec *s, const char **advice, apr_pool_t *pool);
const char *htc_keeper_directive(cmd_parms *cmd, void *dir_conf, const char *file,
                                 const char *interval);

/* redirects/missing.c: pages that were not found. */
extern const redirect_area_key htc_missing_name;
const char *htc_missing_directive(cmd_parms *cmd, void *dir_conf, int on);
/** pre_config: where a HtCacheMissing stands, look at each request when it is logged. */
void htc_missing_pre_config(void);
/** True when some server has HtCacheMissing On. */
bool htc_missing_wanted(const server_rec *s);
void htc_missing_prepare(htc_redirects *redirects, redirect_area *before);
void htc_missing_keep(htc_redirects *redirects);
void htc_missing_reset(const server_rec *s);
/** NULL: none are counted. */
const redirect_missing *htc_missing_of(const server_rec *s);

/** Let rows of the map's earlier image @a old, which lies here or in the area before the
 * restart, keep their counts in its current image. Either may be the image of a map's edits. */
void htc_count_moved(redirect_area *area, uint32_t slot, const redirect_area_pin *old,
                     apr_pool_t *pool);
struct htc_table;
/** Rows of the file that edits have given what they had already keep their counts. Of the tables of a
 * map and of its edits. */
void htc_count_edited(const struct htc_table *base, const struct htc_table *edits);
/** The same of rows of older edits that recent ones have replaced. */
void htc_count_recent(const struct htc_table *older, const struct htc_table *recent);

#endif
