/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/map.h
 * Bulk redirect maps in httpd. The files of redirects/:
 *   map_conf.c    the directive
 *   map_area.c    the memory that all processes share
 *   map_load.c    from file to shared image, in whatever thread
 *   map_loader.c  the thread for files that have changed
 *   map_start.c   start, restart, stop
 *   map_image.c   large maps' images in files, for the next start
 *   map_renew.c   the same while the server runs, after an edit
 *   map_open.c    images as a process has them open
 *   map.c         answering requests
 *   map_edit.c    edits of rows while the server runs
 *   map_overlay.c where temporary ones lie, and how they begin and end
 *   map_report.c  what the status page says of maps
 *   map_write.c   putting a new file in the place of a map's
 *   map_regex.c   patterns
 *   map_vary.c    conditions on the request's header and the like
 *   map_said.c    how much is logged of .htaccess files' maps
 *
 * The image of a map lies in the server's redirect area and is shared by all processes. Each
 * process opens an image once (htc_table: the parsed header and the regexes compiled so far). It is
 * pinned while a request uses it, and only then: a process that is idle keeps no old image alive.
 */
#ifndef HTC_REDIRECTS_MAP_H
#define HTC_REDIRECTS_MAP_H

#include "module/module.h"
#include "area/area.h"
#include "maps/maps.h"
#include "redirect_table.h"

/** Where in the area the overlays of a map's edits lie, see redirects/map_overlay.c. */
typedef struct htc_edits_slots {
    uint32_t recent; /* REDIRECT_AREA_NIL: its rows cannot be edited */
    uint32_t older;
} htc_edits_slots;

/** One HtCacheRedirectMap line. */
typedef struct htc_redirect_map {
    const char *file;  /* absolute */
    const char *where; /* "file:line" of the directive */
    const char *tree;  /* of .htaccess: the directory that the file must lie in; else NULL */
    redirect_map_options options;
    redirect_area_key key;
    /* In the area; REDIRECT_AREA_NIL: none yet, or no room. What stands in .htaccess cannot be
     * written: a request has a copy, see ask_map_of_file(). */
    _Atomic uint32_t slot;
    htc_edits_slots edits;
    uint64_t kept_version; /* of the image that its file was compared with; the parent's alone */
    bool renew;            /* for the process that is forked next, see redirects/map_renew.c */
} htc_redirect_map;

/** The directory of the .htaccess file that names a map: what its path led to when httpd served the
 * request. All zero for a map of the server's configuration. A tenant can put a link to
 * another tenant's directory in its place before the file is read. */
typedef struct htc_map_dir {
    uint64_t dev, ino;
} htc_map_dir;

/** Limit of all tables of maps of .htaccess files together, in multiples of HtCacheMemory. */
#define HTC_TREES_MEMORY UINT64_C(4)

/** What the maps of a server need; one per configuration generation, from pconf. */
struct htc_redirects {
    redirect_area *area;
    uint32_t generation;
    uint32_t counted_slot;    /* in the area: counters of folded lines, see redirects/counters.c */
    uint64_t counted_version; /* of their image; 0: none */
    uint32_t hits_slot; /* the same for lines of .htaccess files, redirects/counters_htaccess.c */
    uint64_t hits_version;
    redirect_hits hits;    /* NULL in it: they are not counted */
    uint32_t missing_slot; /* the same for pages that are not found, redirects/missing.c */
    uint64_t missing_version;
    redirect_missing *missing; /* NULL: they are not counted */
    server_rec *main_server;
    apr_pool_t *pool;            /* of the configuration */
    struct htc_keeper *keeper;   /* redirects/keeper.c; NULL: there is none */
    struct htc_renewer *renewer; /* redirects/map_renew.c; the same */
    apr_array_header_t *maps; /* htc_redirect_map *: all that stand in the server's configuration */
    uint64_t tree_limit;      /* most bytes that one map in a .htaccess file may have */
    uint64_t patterns_limit;  /* most that compiled patterns of these take in a process */

    /* Of each process. */
    uint64_t fold_secret;          /* of the IDs of folded RewriteRules */
    apr_thread_mutex_t *fold_lock; /* for lending a rule of a server another pattern's text */
    _Atomic uint64_t *slots;       /* of maps in .htaccess files, as found last; by their keys */
    htc_process_cache *tables;     /* htc_table, by place; NULL until child_init */
    htc_process_cache *patterns; /* of .htaccess files' maps, compiled; see redirects/map_regex.c */
    struct htc_loader *loader;   /* see redirects/map_loader.c */
    struct htc_said *said;       /* see redirects/map_said.c; NULL until child_init */
    _Atomic int64_t no_memory;   /* monotonic ms: when this was said last; 0: never */
    _Atomic int stopping;        /* the process ends */
};

typedef struct htc_loader htc_loader;
typedef struct htc_map_report htc_map_report;

/** What an image of the area is. */
typedef enum htc_image_kind { HTC_IMAGE_TABLE, HTC_IMAGE_EDITS } htc_image_kind;

/** An image opened by this process. */
typedef struct htc_table {
    htc_redirects *redirects;
    uint32_t place;        /* of its map: a later one in the same place takes this one's */
    redirect_area_pin pin; /* as it was when the image was opened; given up since */
    const redirect_table *table;
    const redirect_overlay *edits; /* HTC_IMAGE_EDITS: `table` is that of its rows; else NULL */
    _Atomic(const redirect_edited *) edited; /* HTC_IMAGE_EDITS: with the table that it is of; NULL:
                                              * nobody has wanted both yet. See htc_edits_join() */
    redirect_table_info info;
    apr_pool_t *pool;               /* own allocator; this struct lies in it */
    _Atomic int64_t looked_until;   /* see htc_map_refresh() */
    apr_thread_mutex_t *lock;       /* for compiling */
    _Atomic(ap_regex_t *) *regexes; /* by pattern id; NULL: not yet compiled. NULL itself: of a
                                     * .htaccess file, see redirects/map_regex.c */
} htc_table;

/* redirects/map_conf.c */
const char *htc_map_directive(cmd_parms *cmd, void *dir_conf, int argc, char *const argv[]);

/* redirects/map_area.c */
/** What is kept until the next restart. The first two are the same in all builds of the module.
 * Lies in private memory of the parent. */
typedef struct htc_lasting {
    uint64_t layout; /* redirect_area_layout() */
    redirect_area *area;
    uint32_t generation;
    bool shared; /* children were forked: others can write to the area */
    apr_pool_t *pool;
} htc_lasting;

/** The area that this server process made last; NULL: there is none. */
htc_lasting *htc_lasting_find(server_rec *s);
/** A new one. NULL: *why says what is in the way. */
htc_lasting *htc_lasting_create(server_rec *s, const char **why);
/** Give back all that this process has of one that was replaced. */
void htc_lasting_end(htc_lasting *kept);
/** Give a map of a .htaccess file its place in the area, if it has none (any more). Without room,
 * its slot is REDIRECT_AREA_NIL. */
void htc_map_adopt(request_rec *r, htc_redirects *redirects, htc_redirect_map *map);
/** The line of a .htaccess file that names @a map is an error, which is @a err: so it is on the status
 * page. */
void htc_map_reject(const cmd_parms *cmd, htc_redirect_map *map, const char *err);
/** What all tables take together, and what of it .htaccess files' do; all zero without an area. */
redirect_area_stats htc_map_area_stats(const server_rec *s);
/** True when the map of a .htaccess file has failed and is still wanted. It is if neither its file nor
 * its .htaccess file has changed since, or if a request has asked for the map since. Looks at both. */
bool htc_map_fails(const redirect_area_state *state, const redirect_area_note *note);
/** The same when it has not failed, but rows of it were left out. */
bool htc_map_leaves_out(const redirect_area_state *state, const redirect_area_note *note);
/** Log that maps of .htaccess files were evicted, once an hour at most. */
void htc_map_say_evicted(const htc_redirects *redirects);

/* redirects/map_load.c */
/** Read, build and publish @a map in this thread, unless another thread or process is doing so.
 * What is found about the file goes to the error log. Without @a at_once, a file that changed a
 * moment ago and cannot be used is reported later, if it is still the same then. A file of another
 * directory than @a dir is not read; that is logged at level debug. */
apr_status_t htc_map_load(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir,
                          bool at_once, apr_pool_t *pool);
/** Read and build @a map for nothing but to report what is wrong with it. False: it cannot be used.
 * @a pool for scratch memory. */
bool htc_map_try(server_rec *s, const htc_redirect_map *map, apr_pool_t *pool);
/** Load @a map from @a dir in this thread, unless its file has not changed since (any more) or
 * another process does so. Ends early, and without a trace, when the process does. */
void htc_map_load_behind(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir,
                         apr_pool_t *pool);

/** Read and build @a map apart from the area, and keep its image for the next start. Nothing of its
 * rows is said, as they are read elsewhere, too. False: to be tried again in a while, since the file
 * is being changed or there was no memory. */
bool htc_map_load_apart(server_rec *s, const htc_redirect_map *map, apr_pool_t *pool);

/** True when reading the file as it is now would fail again. */
bool htc_map_in_vain(const htc_identity *id, const redirect_area_state *state);

/* redirects/map_look.c */
/** The directory of the map's .htaccess file as it is now. To be taken while a request is served
 * from this directory: httpd has just checked its links. */
htc_map_dir htc_map_dir_now(const htc_redirect_map *map);
/** What the map's file is now. All zero when there is none. */
htc_identity htc_map_file(const htc_redirect_map *map);
/** Have the kernel tell of changes of the map's file from now on. Whether it has changed is for the
 * next htc_map_refresh() to see. */
void htc_map_watch(const htc_redirects *redirects, const htc_redirect_map *map, htc_watch *watch);
/** The map's time may be up: compare the file. If it changed read it, at once or in the background,
 * see htc_map_is_quick(). Returns for how many ms more its time is not up; 0 when it is not told by
 * time. @a pool for scratch memory. */
apr_int64_t htc_map_refresh(htc_redirects *redirects, const htc_redirect_map *map, apr_int64_t ttl,
                            apr_pool_t *pool);
/** True when a changed file of @a size bytes is read by the request that notices: it will not take
 * long, as the last load shows. */
bool htc_map_is_quick(const redirect_area_state *state, const redirect_area_note *note,
                      uint64_t size);

/* redirects/map_loader.c */
apr_status_t htc_map_loader_create(htc_redirects *redirects, apr_pool_t *pool);
/** Have the process's loader load @a map, of which it keeps a copy, from @a dir when it is its
 * turn. When too many of the same owner wait, nothing is done: to be asked again when the map's
 * time is up again. */
void htc_map_load_later(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir);
/** The process ends: wait for the piece of work that the loader is at, and drop the rest. */
void htc_map_loader_end(htc_redirects *redirects);

/* redirects/map_said.c */
/** For child_init. Messages are counted in @a pool. */
apr_status_t htc_map_said_create(htc_redirects *redirects, apr_pool_t *pool);
/** True when a message of this @a level about @a map should be logged now. Call it once for each
 * message. For a map of the server's configuration LogLevel decides. For a map of a .htaccess
 * file, messages of the same @a owner (redirect_area_owner()) are counted, too; the first one
 * beyond the limit logs that further ones are not logged. Takes a lock of its own. */
bool htc_map_may_say(const htc_redirects *redirects, const htc_redirect_map *map, uint64_t owner,
                     int level);

/* redirects/map_image.c */
/** Publish @a map's image from its file, if that is of the map's text as it is now. False: the text is
 * to be read. @a pool for scratch memory, as of the others. */
bool htc_map_image_load(htc_redirects *redirects, const htc_redirect_map *map, apr_pool_t *pool);
/** Keep @a map's image, whose text was read from @a began_ns (wall clock) on, in its file, if it is
 * large. No other process may have the area yet. False: it was too early, to be tried again. */
bool htc_map_image_save(htc_redirects *redirects, const htc_redirect_map *map, int64_t began_ns,
                        apr_pool_t *pool);
/** True when an image of @a map as it is now is to be kept. Looks at the text. */
bool htc_map_image_wanted(const htc_redirect_map *map);
/** True when the file has an image of @a map as it is now, as far as its head says, or when it cannot
 * have one, which is logged. */
bool htc_map_image_settled(const htc_redirects *redirects, const htc_redirect_map *map,
                           apr_pool_t *pool);
/** Write @a image as that of @a map to its file; version and key of *about are filled in here. */
void htc_map_image_write(const htc_redirects *redirects, const htc_redirect_map *map,
                         redirect_image_about *about, const void *image, apr_pool_t *pool);
/** Remove this server's files of maps that are not in its configuration any more. */
void htc_map_images_prune(const htc_redirects *redirects, apr_pool_t *pool);

/* redirects/map_renew.c */
/** post_config, in the parent: from now on images are renewed. */
void htc_map_renew_prepare(htc_redirects *redirects);
/** The parent's, some times a minute. */
int htc_map_renew_monitor(apr_pool_t *pool, server_rec *s);

/* redirects/map_start.c */
/** post_config, after all directives were read: prepare the area and load what changed. @a needed:
 * the area is, also without a map: maps may come from .htaccess files, or something is counted in
 * it. */
int htc_maps_post_config(apr_pool_t *pconf, apr_pool_t *ptemp, server_rec *s, bool needed);
/** check_config: `httpd -t` reads all maps, and says what is wrong; so does a start, ahead of its
 * first post_config, where the administrator sees it. */
int htc_maps_check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s);
/** True when the area has an image of this map. A missing file then does not matter. */
bool htc_map_known(server_rec *s, const redirect_area_key *key);
void htc_maps_child_init(apr_pool_t *pchild, server_rec *s);

/* redirects/map_regex.c */
/** Make what these are kept in. */
apr_status_t htc_map_regex_prepare(htc_redirects *redirects);
/** As ap_regcomp(), with limits that no pattern can raise. */
int htc_map_compile(ap_regex_t *regex, const char *pattern, unsigned flags);
/** True when pattern @a id of the table matches. With @a n, *found are the groups. A pattern that
 * cannot be compiled was reported when the map was loaded; it never matches. Nor does one that takes
 * more than REDIRECT_PATTERN_STEPS; these are charged to @a budget then (NULL: to none). */
bool htc_map_regex(htc_table *table, uint32_t id, const char *pattern, unsigned flags,
                   const char *subject, size_t len, redirect_budget *budget, size_t n,
                   ap_regmatch_t found[]);

/* redirects/map_vary.c */
/** The look-up may have to ask conditions of rows. */
void htc_map_conditions(redirect_request *asked, request_rec *r, const htc_redirect_map *map);
/** It was made: Vary says what of the header was looked at. True when the answer is 406, which it is
 * not if the look-up was @a given_up. */
bool htc_map_looked(request_rec *r, const htc_redirect_map *map, const redirect_judge *judge,
                    bool given_up);

/* redirects/map_open.c */
/** Overlays of a map's edits that belong together, pinned. */
typedef struct htc_overlays {
    htc_table *recent, *older; /* what lies in the places; NULL: nothing */
    htc_table *last;           /* the one that has all edits; NULL: there are none */
    htc_table *under;          /* over which it lies; NULL: over none */
    htc_process_node *recent_node, *older_node; /* for htc_overlays_release() */
} htc_overlays;

/** Find the last two of what is in the places. An overlay that is replaced names the older one that it
 * lay over. If that was replaced, too, there are none. */
void htc_overlays_belong(htc_overlays *o);
/** The table @a base with its edits; all are pinned. Lies with the last. NULL: they are not of this
 * table, or there are none. */
const redirect_edited *htc_overlays_join(const htc_table *base, const htc_overlays *o);

/* redirects/map_edit.c */
/** Edits of a map, as they are asked for and what became of them. */
typedef struct htc_map_edit {
    const char *map;  /* its file, the last part of that name, or the line that names it */
    const char *text; /* see redirect_edits_apply() */
    size_t len;
    bool temporary; /* else they are written to the map's file */

    const char *file;             /* the map's; NULL: it was not found */
    const char *why;              /* not done: the reason, or a line for each */
    apr_array_header_t *warnings; /* const char * */
    uint32_t applied, differing;
    uint32_t ended; /* temporary edits, as the file was written */
} htc_map_edit;

/** Do them all, or none. The next request of each process sees them. HTTP_OK, or a status for
 * `why`. */
int htc_map_edit_apply(request_rec *r, htc_map_edit *edit);
/** Rows of a map that are asked for. */
typedef struct htc_map_question {
    const char *map;
    const char *source; /* those of this source, see redirect_edits_find(); NULL: all */
    bool differing;     /* only those that differ from the file */
    uint64_t from;
    redirect_row_fn *fn;
    void *baton;
    redirect_edits *edits; /* while fn is called: for redirect_edits_words() */
    const char *why;       /* as in htc_map_edit */
} htc_map_question;

/** HTTP_OK, or a status for `why`. */
int htc_map_rows(request_rec *r, htc_map_question *question);

/* redirects/map_overlay.c */
/** post_config, in the parent: give the map places for edits, if somebody may make some. */
void htc_map_edits_prepare(htc_redirects *redirects, htc_redirect_map *map);
/** What lies in a map's places. Give it back. */
void htc_overlays_acquire(htc_redirects *redirects, const htc_edits_slots *slots, htc_overlays *o);
void htc_overlays_release(htc_redirects *redirects, const htc_overlays *o);
/** For redirect_edits_create(): the version of the older overlay; 0: there is none. */
uint64_t htc_overlays_older(const htc_overlays *o);
/** With the right to build the recent overlay, which ends unless this fails: put edits in their place,
 * which were made from @a before. */
apr_status_t htc_map_edits_publish(htc_redirects *redirects, const htc_redirect_map *map,
                                   redirect_edits *edits, const htc_overlays *before,
                                   apr_pool_t *pool);
/** The same right: if there are edits of another table than the current one, they end. True: there
 * were, and the right has ended. */
bool htc_map_edits_clear(htc_redirects *redirects, const htc_redirect_map *map);
/** Fill in what is edited of the map, whose table has this version. */
void htc_map_edits_report(htc_redirects *redirects, const htc_redirect_map *map, uint64_t version,
                          htc_map_report *report);
/** The map's table was replaced: edits of the one before end. */
void htc_map_edits_end(htc_redirects *redirects, const htc_redirect_map *map);

/* redirects/map_write.c */
/** From the bytes of a file to its new ones, in a pool. False: it is to stay as it is. */
typedef bool htc_map_rewrite_fn(void *baton, const char *bytes, size_t len, char **out,
                                size_t *out_len);
/** Why a file stays as it was. */
typedef enum htc_map_not_written {
    HTC_MAP_MAY_NOT, /* the server's user may not write it, or another reason that stays */
    HTC_MAP_AGAIN,   /* somebody else wrote it at this moment */
    HTC_MAP_FULL     /* there is no room for the new one */
} htc_map_not_written;
/** Put a new file in the place of @a file, after links, with its owner, mode and ACL. NULL, or why
 * that was not done, for whoever asked, and *why in one word. */
const char *htc_map_replace(const char *file, htc_map_rewrite_fn *rewrite, void *baton,
                            htc_map_not_written *why, apr_pool_t *pool);

/* redirects/map.c */
/** For child_init. False: there is no memory. */
bool htc_map_slots_create(htc_redirects *redirects);
int htc_map_translate(request_rec *r);
int htc_map_fixup(request_rec *r);
/** What the status page says of a map. */
struct htc_map_report {
    const char *name;   /* of its file */
    const char *source; /* where it is named */
    uint32_t slot;
    htc_edits_slots edits;
    redirect_area_state state;
    redirect_table_info info; /* zero when it has no image */
    redirect_area_note note;
    uint64_t edited, edited_since; /* rows that differ from the file; the first of these edits */
};

/** Most maps of .htaccess files that are reported. */
#define HTC_MAX_HTACCESS_REPORTS 200

/** An htc_map_report for each map of the configuration, in @a pool. Behind them those of maps that
 * .htaccess files name and that were asked for since the start. NULL: there are no redirect maps. */
apr_array_header_t *htc_map_reports(const server_rec *s, apr_pool_t *pool);
/** How many maps that .htaccess files name cannot be used as they are now, also of those that are
 * not reported. *one: the note of one of them, of a rejected one if there is one. */
unsigned htc_map_failed_in_htaccess(const server_rec *s, redirect_area_note *one);
/** The same of those whose rows were left out in part. *one: the note of one that lost most. */
unsigned htc_map_rows_left_out_in_htaccess(const server_rec *s, redirect_area_note *one);
/** A load has ended, well (@a err is NULL) or in vain: what is reported of it from now on. An error
 * leaves the figures of the rows that are in use as they are. @a report NULL: there was no load, the
 * line that names the map is an error. */
void htc_map_note(const htc_redirects *redirects, const htc_redirect_map *map, int64_t load_ms,
                  const redirect_report *report, const char *err);
/** The open table of a map's current image, pinned, with a reference on the node of
 * redirects->tables; NULL when it has none. */
htc_process_node *htc_table_acquire(htc_redirects *redirects, uint32_t slot, htc_image_kind kind);
/** The same. *no_memory: there is an image, for which this process has no memory. That is logged, and
 * nothing is wrong with the map's file: to read it again would not help. */
htc_process_node *htc_table_try(htc_redirects *redirects, uint32_t slot, htc_image_kind kind,
                                bool *no_memory);
void htc_table_release(htc_redirects *redirects, htc_process_node *node);
/** log_transaction: the request needs its tables no more. */
int htc_map_done(request_rec *r);
/** Free function of redirects->tables. */
void htc_table_free(void *data);
/** True when mod_alias has a Redirect without a source for this request. It comes before all
 * others. */
bool htc_expression_first(const request_rec *r);

#endif
