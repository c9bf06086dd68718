/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/area.h
 * Memory for table images that all processes of the server share. The parent reserves one range of
 * addresses before it forks, without filling it. Images come and go in it while the server runs,
 * and the memory of an image that nobody uses any more goes back to the system. Part of the core:
 * no httpd headers.
 *
 * A map is a named place for one image at a time. A process that has built a new image publishes it
 * there; from then on others get it when they pin the map. An image stays where it is while it is
 * pinned. A process that was killed pins nothing: its pins lie in a cell and in thread pins of its
 * own, which are ignored once it is gone.
 *
 * Everything that can be read without the lock is atomic. What is under the lock is consistent
 * after each store, so a holder that is killed leaves nothing to repair. A holder that is stopped
 * is waited for once, for a second. Then, until it goes on, what needs the lock fails with
 * APR_EBUSY (false, REDIRECT_AREA_NIL). Nothing is left behind when the last process ends.
 *
 * All functions may be called by several threads at once, except create and join. A map is known by
 * a number that is never another map's while a process can still have it. With a map that was
 * forgotten, functions do nothing, or say that there is no image.
 */
#ifndef HTC_AREA_AREA_H
#define HTC_AREA_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "base/base.h"
#include "area/counters.h"
#include "area/counts_file.h"
#include "area/hits.h"
#include "area/image_file.h"
#include "area/missing.h"

#define REDIRECT_AREA_MAPS      4096 /* maps at a time */
#define REDIRECT_AREA_IMAGES    8192 /* images at a time, old ones still in use included */
#define REDIRECT_AREA_PROCESSES 1024
#define REDIRECT_AREA_NIL       UINT32_MAX

typedef struct redirect_area redirect_area;

/** Identifies the layout of an area in this build of the module. Made of a version (incremented
 * when the meaning of something changes), the sizes of all structures in the area, and the
 * version of table images. Never 0. */
uint64_t redirect_area_layout(void);

/** The beginning of what redirect_area_create() returns. It is the same in all builds, and lies
 * in memory that only this process writes. */
typedef struct redirect_area_range {
    uint64_t layout;
    void *base; /* of all shared memory of the area */
    size_t bytes;
} redirect_area_range;

/** True when a build with the same layout made this area. Reads nothing else, and nothing that
 * other processes can write. If false, only redirect_area_abandon() may be called with it. */
bool redirect_area_fits(const redirect_area *area);

/** Give back everything that this process has of an area, except the memory of its pool. Other
 * processes keep theirs. No thread of this process may use the area any more. */
void redirect_area_destroy(redirect_area *area);

/** Give back this process's mapping of an area, whichever build made it. Others keep theirs. */
void redirect_area_abandon(redirect_area *area);

/** Names a map: a hash of all that decides what its table holds (file, options). */
typedef struct redirect_area_key {
    uint64_t word[2];
} redirect_area_key;

/** The key of a map that is described by @a len bytes at @a text: half of their SHA-256. A tenant
 * who chooses a part of them cannot give them the key of another map. @a pool is for scratch
 * memory. */
redirect_area_key redirect_area_key_of(const char *text, size_t len, apr_pool_t *pool);

/**
 * Reserve @a bytes of addresses for images, and about 65 MB more for tables. Memory is taken only
 * as images need it. Called by the parent, before it forks. @a pool is the process's, so the area
 * outlives configurations; nothing is registered with it, see redirect_area_destroy(). The number
 * of addresses may be limited, or the system may refuse to promise more memory than it has. Then
 * the function asks for a part of what is left, and for less each time it is refused;
 * bytes_reserved of the stats is the result.
 * @return APR_SUCCESS with *why NULL, or with a sentence when it got less than @a bytes; an error
 * with *why, a sentence for the administrator with the size asked for and the limit met.
 */
apr_status_t redirect_area_create(redirect_area **area, uint64_t bytes, apr_pool_t *pool,
                                  const char **why);

/**
 * This process begins to use the area, for configuration generation @a generation. Every process
 * that pins, builds or collects joins once after each fork, the parent too, and again to change the
 * generation. Joining takes over the cell of a process that is gone. A process that finds no cell,
 * or cannot have the lock to take one, shares the common cell for as long as it lives. All works
 * there, but what such a process has pinned when it is killed keeps its memory until the area ends.
 * A child that was forked by a process that had joined has not joined.
 */
void redirect_area_join(redirect_area *area, uint32_t generation);

/**
 * Find the map @a key, or with @a create make it (empty, without an image). Marks it as used by
 * @a generation. REDIRECT_AREA_NIL when it does not exist or there is no room.
 */
uint32_t redirect_area_map(redirect_area *area, const redirect_area_key *key, uint32_t generation,
                           bool create);

/**
 * Find or make the map @a key, which counts towards @a owner (not 0). An owner is a tenant whose
 * .htaccess files name maps. Maps made by redirect_area_map() belong to the server's configuration.
 *
 * All owners together may have three quarters of the places for maps and images, and as much memory
 * as redirect_area_bound() allows. One owner may have half of the images and of the memory. When
 * there is no more room for a new map or image, the owner that has most of what is needed loses the
 * map that was not used for the longest time. An owner does not lose a map to one that would then
 * have more than it. Maps of the server's configuration are never evicted; those of owners are
 * evicted for them. An evicted map is forgotten, and made again when it is asked for.
 */
uint32_t redirect_area_map_of(redirect_area *area, const redirect_area_key *key,
                              uint32_t generation, uint64_t owner);

/** Limit the images of all owners together to @a bytes, and to three quarters of the area, which
 * is the initial limit. Called by the parent, before it forks: other processes do not learn of
 * it. */
void redirect_area_bound(redirect_area *area, uint64_t bytes);

/** True when maps were evicted and nothing was logged about it for an hour (@a now, in seconds):
 * the caller logs it. Then @a where is the file and line that name the map which this process
 * evicted last; "": not known. */
bool redirect_area_evicted(redirect_area *area, int64_t now, char *where, size_t room);

/** True while the map exists. */
bool redirect_area_exists(const redirect_area *area, uint32_t map);

/** True when the map counts against an owner, or does not exist (any more). */
bool redirect_area_owned(const redirect_area *area, uint32_t map);

/** The map's owner. 0: none, or the map does not exist (any more). */
uint64_t redirect_area_owner(const redirect_area *area, uint32_t map);

/** The map @a key, or REDIRECT_AREA_NIL. Marks nothing, and takes no lock. */
uint32_t redirect_area_find(const redirect_area *area, const redirect_area_key *key);

/** A number below REDIRECT_AREA_MAPS that no two maps have at a time. */
uint32_t redirect_area_place(uint32_t map);

/** What is known of a map. Read without the lock; version, id, loaded_at and size belong together,
 *  failed and failed_id, too. */
typedef struct redirect_area_state {
    uint64_t version;   /* of its image: unique within the area; 0: it has none */
    htc_identity id;    /* the file that the image was built from */
    int64_t checked_at; /* monotonic ms, from before the file was last compared; 0: never */
    int64_t loaded_at;  /* wall clock, seconds since 1970 */
    uint64_t size;      /* bytes of the image */
    uint64_t lookups, hits;
    uint32_t reloads;  /* images published after the first */
    uint32_t failures; /* builds that ended in vain */
    bool building;     /* by a living process */
    unsigned percent;  /* of what is being read, while building; a number that others can write */
    bool failed;       /* the last load failed, with the file `failed_id` */
    htc_identity failed_id;
} redirect_area_state;

/** False when the map does not exist any more, or its image's entry is damaged. When a process
 * died while it recorded a failed load, `failed` is false. */
bool redirect_area_state_get(const redirect_area *area, uint32_t map, redirect_area_state *state);

/** Fill in only how often the map was asked for and has answered; zeros when it does not exist.
 * Reads nothing else of the area, for a caller that does not trust it. */
void redirect_area_asked(const redirect_area *area, uint32_t map, uint64_t *lookups,
                         uint64_t *hits);

#define REDIRECT_AREA_NOTE_TEXT 512

/** What the loading process records about a map, for the status page. Longer texts are cut. */
typedef struct redirect_area_note {
    char file[REDIRECT_AREA_NOTE_TEXT];
    char where[REDIRECT_AREA_NOTE_TEXT]; /* it is named */
    char error[REDIRECT_AREA_NOTE_TEXT]; /* why the last load failed; "": it did not */
    uint64_t load_ms, refused, warnings; /* time and rows of the last successful load */
    uint64_t htaccess;                   /* 1: named in a .htaccess file */
    uint64_t from_image;                 /* 1: the last load took a kept image, not the text */
    uint64_t rejected;         /* 1: the line that names it is an error, so httpd answers 500 */
    int64_t ended_at;          /* wall clock, ns: when the last load ended, well or in vain */
    uint64_t out_of_budget_at; /* seconds: when it was last logged that its patterns take too
                                * long */
} redirect_area_note;

/** Store a note. Does nothing when the map does not exist any more, or the lock cannot be had. */
void redirect_area_note_set(redirect_area *area, uint32_t map, const redirect_area_note *note);

/** The last note. False, and all zeros, when there is none, when it is being written, or when a
 * process died while it wrote it. Takes no lock. */
bool redirect_area_note_get(const redirect_area *area, uint32_t map, redirect_area_note *note);

/** The maps that exist, one after the other: *place is 0 at first and is changed here.
 * REDIRECT_AREA_NIL: there are no more. */
uint32_t redirect_area_next(const redirect_area *area, uint32_t *place);

typedef struct redirect_area_pin {
    const void *image; /* 4096-byte aligned; NULL: not pinned */
    size_t size;
    uint64_t version;
    uint64_t user; /* the process that has pinned it; in another one the pin means nothing */
    uint32_t slot; /* of the image */
    uint32_t ncounters;
    redirect_counter *counters; /* beside the image */
} redirect_area_pin;

/** Pin the map's current image. Lock-free. False when it has none or the process has not joined. */
bool redirect_area_pin_get(redirect_area *area, uint32_t map, redirect_area_pin *pin);

/** Pin the image that @a known was once a pin of, if it is still the map's current one. Lock-free.
 * @a known must be this process's. */
bool redirect_area_pin_known(redirect_area *area, uint32_t map, const redirect_area_pin *known);

/**
 * As redirect_area_pin_known(), for the length of a request, and cheaper: the only write is to a
 * thread pin, which no other thread writes while the process has no more than 64 threads.
 * @a thread is a number of the calling thread, the same in each of its requests. Any thread of the
 * process may let go. NULL when the image is not the map's current one any more, or when the thread
 * has no thread pin left: then pin the image. A thread has two thread pins for a map, in case that
 * it begins a request before another has ended, and thread pins for eight maps.
 */
typedef struct redirect_area_thread_pin redirect_area_thread_pin;
redirect_area_thread_pin *redirect_area_hold(redirect_area *area, uint32_t map,
                                             const redirect_area_pin *known, uint64_t thread);
void redirect_area_let_go(redirect_area *area, const redirect_area_pin *known,
                          redirect_area_thread_pin *pin);

/** As redirect_area_count(), for the holder of a thread pin, one thread at a time. */
void redirect_area_count_held(redirect_area_thread_pin *pin, uint64_t lookups, uint64_t hits);

/** Lock-free; the memory is not given back here but by the next publish or collect. */
void redirect_area_unpin(redirect_area *area, const redirect_area_pin *pin);

/** True when the image's pages exist (in memory or swapped out), and there is room for as many
 * counters as the pin says. For a caller that reads an image in an area which other processes
 * can write: reading pages that were never written takes memory. Reads nothing of the image. */
bool redirect_area_pin_filled(const redirect_area *area, const redirect_area_pin *pin);

/** The version of the map's image, for a caller that has it pinned already; two atomic loads. 0:
 * none. */
uint64_t redirect_area_version(const redirect_area *area, uint32_t map);

/** True when the map's time is up and this caller is the one to look at the file. The time is up
 * when the file was never checked, or was checked @a ttl ms or more before @a now. As with
 * htc_store_claim(), other callers go on for @a lease ms. */
bool redirect_area_claim(redirect_area *area, uint32_t map, int64_t now, int64_t ttl,
                         int64_t lease);

/** The time that redirect_area_claim() compares: when the file was last looked at, or when the
 * claim of a process that looks at it now runs out. */
int64_t redirect_area_checked_at(const redirect_area *area, uint32_t map);

/** After a claim: the file was compared at @a now (a time from before that). */
void redirect_area_confirm(redirect_area *area, uint32_t map, int64_t now);

/** Become the only process in the server that builds this map. False when a living process
 * builds it, including this one. */
bool redirect_area_build_begin(redirect_area *area, uint32_t map);

/** A place for an image of @a size bytes, with @a counters zeroed counters beside it. They live as
 * long as the image does, and take memory only where something is counted. APR_ENOSPC when there is none; APR_EINVAL when this
 * process does not build the map, or @a size is 0; APR_EGENERAL when the area's tables are
 * damaged, so free places are not known. The place is not cleared. The caller fills it, and
 * then calls redirect_area_publish() or redirect_area_build_failed(). If the process dies, the
 * place becomes free. A second call in the same build gives up the first place. */
apr_status_t redirect_area_reserve(redirect_area *area, uint32_t map, size_t size,
                                   uint32_t counters, void **image);

/** For the state: so much of the file has been read, by the process that builds the map. */
void redirect_area_progress(redirect_area *area, uint32_t map, unsigned percent);

/** End a build: the reserved place is now the map's image, made from the file @a id. Gives back
 * the memory of images that are not used any more. After an error the build has not ended: call
 * redirect_area_build_failed(). */
apr_status_t redirect_area_publish(redirect_area *area, uint32_t map, const htc_identity *id);

/** End a build that failed: the old image stays. Gives back what was reserved. @a id is
 * remembered, so the same bytes are not tried and reported again; NULL: the file was not tried.
 * Does nothing in a process that does not build this map. */
void redirect_area_build_failed(redirect_area *area, uint32_t map, const htc_identity *id);

/** Count look-ups and hits. Striped by process and thread, exact, lock-free. */
void redirect_area_count(redirect_area *area, uint32_t map, uint64_t lookups, uint64_t hits);

/**
 * Give back the memory of images that are neither current nor pinned by a living process. Forget
 * maps that were used neither by @a generation nor by the generation of a living process. A map
 * counts as used by every generation between the first and the last that used it.
 */
void redirect_area_collect(redirect_area *area, uint32_t generation);

/** Only give back the memory of images that are neither current nor pinned by a living process. */
void redirect_area_sweep(redirect_area *area);

typedef struct redirect_area_stats {
    uint32_t maps, images;
    uint64_t bytes_used, bytes_reserved;
    uint32_t owners_maps, owners_maps_most; /* of all owners together, and how many that may be */
    uint64_t owners_bytes, owners_most;     /* the same for the memory of their images */
    uint64_t evicted;                       /* maps, ever */
} redirect_area_stats;

void redirect_area_stats_get(const redirect_area *area, redirect_area_stats *stats);

/** Since when redirects are counted in it, in seconds since 1970: the time it was created, unless
 * somebody has set another one. A number that a child may have written. */
int64_t redirect_area_counting_since(const redirect_area *area);
void redirect_area_count_since(redirect_area *area, int64_t seconds);

/** How it is with the file of counts. */
typedef enum redirect_area_kept {
    REDIRECT_KEPT,           /* well, or nothing is known yet */
    REDIRECT_KEPT_UNUSABLE,  /* it cannot be made or opened, or is not to be trusted */
    REDIRECT_KEPT_BY_OTHER,  /* another server has it */
    REDIRECT_KEPT_UNWRITTEN, /* it cannot be written */
    REDIRECT_KEPT_REMOVED,
    REDIRECT_KEPT_IN_PART /* it has not room for all counts */
} redirect_area_kept;

/** What the process that keeps the counts said last. A number that a child may have written: one
 * that is not of these is REDIRECT_KEPT. */
redirect_area_kept redirect_area_kept_get(const redirect_area *area);
void redirect_area_kept_set(redirect_area *area, redirect_area_kept kept);

/** True when counts from before this area were taken over: those of @a map, or with
 * REDIRECT_AREA_NIL the time since which all are counted. What other processes say. */
bool redirect_area_restored(const redirect_area *area, uint32_t map);
void redirect_area_set_restored(redirect_area *area, uint32_t map);

/** The map's key; false when it does not exist (any more). */
bool redirect_area_key_get(const redirect_area *area, uint32_t map, redirect_area_key *key);

#endif
