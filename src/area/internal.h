/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/internal.h
 * The layout of the area, and what its source files know of each other:
 *
 *   area/area.c     creation and layout, totals
 *   area/process.c  the lock; which processes live
 *   area/map.c      maps, what is known of them, pins
 *   area/image.c    builds, room for images, giving memory back
 *   area/share.c    how much of it each owner has, and which maps make way
 *
 * Only these and the area's tests include this file.
 *
 *   header | processes | names | maps | images | counts | notes | cells | rows | room ...
 *
 * All but the last lies at fixed places, so that a word that is written too late (a pin that is
 * taken back, a count) lands in a word of the same kind, never in an image. Pages that nothing was
 * written to do not exist; tables are filled from their beginning, and what was ever used of them
 * is remembered, so that no search goes further.
 *
 * A process that changes something under the lock may be killed between any two stores. Nothing has
 * to be repaired then, as each change becomes valid by one store:
 *
 *   a process has joined       its `serial` is set
 *   a map exists               its name's `handle` is set
 *   an image is the map's      the map's `current` is its version
 *   a map is being built       its `builder` is the serial of a living process
 *   an image is reserved       the map that it names is being built and has it as `reserved`
 *
 * An image entry that is not free and for which nothing of this holds is garbage, and so is one
 * that a process was about to free when it died. What is garbage, and pinned by no living process,
 * is found by going through the image table; there are no lists that could be left half changed.
 */
#ifndef HTC_AREA_INTERNAL_H
#define HTC_AREA_INTERNAL_H

#include <assert.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/base.h"
#include "area/area.h"

/* Counted up when what lies in the area gets another meaning without another size. A test looks for
 * this text in the module. */
#define RDA_LAYOUT_TEXT "redirect area layout 0007"

#define RDA_ALIGN       128 /* two cache lines, which some processors fetch as one */
#define RDA_STRIPES     16  /* counters of a map, for threads without a thread pin */
#define RDA_PIN_ROWS    64  /* of a process: as many as it has threads, mostly */
#define RDA_ROW_PINS    8   /* of a row */
#define RDA_CHOICE      2   /* so many of them may be of one map; they share a cache line */
#define RDA_LOCK_MS     1000
#define RDA_MAX_BYTES   (UINT64_C(1) << 44)  /* so that page numbers fit in 32 bits */
#define RDA_LEAST_ROOM  (UINT64_C(16) << 20) /* less is reserved only if less was asked for */
#define RDA_TAIL        (2 * 65536) /* bytes behind the last image that can be read, and are nobody's */
#define RDA_NIL         REDIRECT_AREA_NIL
#define RDA_COMMON      (REDIRECT_AREA_PROCESSES - 1) /* the cell of all processes that found no other */
#define RDA_ID_WORDS    (sizeof(htc_identity) / 8)

/* Words of the area are read and written through these. A thread that sees a word sees all that
 * was stored before it. Reading without the lock relies on that and on nothing else. */
#define RDA_GET(word) atomic_load_explicit(&(word), memory_order_acquire)
#define RDA_SET(word, value)                                           \
    do {                                                               \
        atomic_store_explicit(&(word), (value), memory_order_release); \
        HTC_POINT(#word);                                              \
    } while (0)

typedef struct rda_header {
    htc_lock_shared lock;

    _Atomic uint64_t joins; /* ever. Without the lock, too */

    /* All below changes under the lock only. */
    _Atomic uint64_t versions; /* ever */
    /* Entries from here on were never used. */
    _Atomic uint32_t processes_end, maps_end, images_end;
    _Atomic uint32_t hand;    /* the map that is looked at next when some have to make way */
    _Atomic uint32_t cell;    /* that is looked at first for a process that joins */
    _Atomic uint64_t evicted; /* maps, ever */
    _Atomic uint64_t said;    /* of these, when the administrator was told. Without the lock */
    _Atomic int64_t said_at;  /* seconds; 0: never. Without the lock */
    _Atomic int64_t counting_since; /* seconds since 1970. Without the lock */
    _Atomic uint32_t restored;      /* that is the time of earlier counts. Without the lock */
    _Atomic uint32_t kept;          /* a redirect_area_kept. Without the lock */
} rda_header;

/* A process's cell is its index in this table. */
typedef struct rda_process {
    _Atomic uint64_t
        serial; /* number of its joining * cells + cell; never the same again. 0: free */
    _Atomic uint32_t generation;
    _Atomic uint64_t rows; /* bits: those that were ever used, by any process that had the cell */
} rda_process;

/* What others know a map by. Apart from the map itself, as all of these are searched. */
typedef struct rda_name {
    _Atomic uint32_t handle;      /* 0: free */
    _Atomic uint32_t last_handle; /* the entry's, before it became free */
    _Atomic uint32_t first, last; /* generations that it was used by */
    _Atomic uint64_t key[2];
    _Atomic uint64_t owner;    /* 0: the server's configuration */
    _Atomic uint32_t touched;  /* asked since the hand went by; set without the lock */
    _Atomic uint32_t restored; /* earlier counts were added; set without the lock */
} rda_name;

typedef struct rda_map {
    _Alignas(RDA_ALIGN) _Atomic uint64_t current; /* version of its image; 0: none */
    _Atomic int64_t checked_at;                   /* changed without the lock; 0: never */
    _Atomic uint64_t builder;                     /* serial of a process; 0: none */
    _Atomic uint32_t reserved;                    /* image that is being built, or RDA_NIL */
    _Atomic uint32_t reloads, failures;
    _Atomic uint32_t percent;    /* of its text, that the builder has read */
    _Atomic uint32_t failed_seq; /* odd: a process changes the two below, or died there */
    _Atomic uint32_t failed;
    _Atomic uint64_t failed_id[RDA_ID_WORDS];
} rda_map;

typedef enum rda_image_state {
    RDA_FREE = 0,
    RDA_RESERVED,
    RDA_PUBLISHED, /* the map's, or given up by it */
    RDA_RELEASING  /* `releaser` gives its memory back; this state only it may end while it lives */
} rda_image_state;

typedef struct rda_image {
    _Alignas(RDA_ALIGN) _Atomic uint32_t state;
    _Atomic uint32_t map; /* handle */
    _Atomic uint32_t first, pages;
    _Atomic uint64_t size;     /* bytes */
    _Atomic uint64_t version;  /* 0: not published */
    _Atomic uint64_t releaser; /* serial of a process */
    _Atomic int64_t loaded_at;
    _Atomic uint64_t id[RDA_ID_WORDS];
    _Atomic uint32_t counters; /* their number; they lie on pages of their own behind the image */
    _Atomic uint64_t owner;    /* of its map, which may be gone before the image */
} rda_image;

typedef struct rda_stripe {
    _Alignas(RDA_ALIGN) _Atomic uint64_t lookups;
    _Atomic uint64_t hits;
} rda_stripe;

typedef struct rda_counts {
    rda_stripe stripes[RDA_STRIPES];
} rda_counts;

#define RDA_NOTE_WORDS (sizeof(redirect_area_note) / 8)
static_assert(sizeof(redirect_area_note) % 8 == 0, "whole words");

/* Changed under the lock; odd: a process changes it, or died there. */
typedef struct rda_note {
    _Atomic uint32_t seq;
    _Atomic uint32_t handle; /* of the map that it is for */
    _Atomic uint64_t words[RDA_NOTE_WORDS];
} rda_note;

/* How often each process has pinned the image in the slot of this number. */
typedef struct rda_cells {
    _Atomic uint32_t pins[REDIRECT_AREA_PROCESSES];
} rda_cells;

/* Where one thread says, request by request, which image it uses, and counts what it asked. Who has
 * stored a version here is the only one to change the rest. Counts are not taken away when the
 * process ends: the process that has its cell then goes on with them. */
struct redirect_area_thread_pin {
    _Atomic uint64_t
        version; /* that is used; 0: none, and any thread of the process may take the thread pin */
    _Atomic uint32_t handle; /* the counts are of this map, as long as it exists */
    _Atomic uint32_t unused;
    _Atomic uint64_t lookups, hits;
};

/* Of one thread, as long as there are no more threads than rows: so no other thread writes here. */
typedef struct rda_pin_row {
    _Alignas(RDA_ALIGN) redirect_area_thread_pin pins[RDA_ROW_PINS];
} rda_pin_row;

typedef struct rda_pin_rows {
    rda_pin_row rows[RDA_PIN_ROWS];
} rda_pin_rows;

static_assert(RDA_PIN_ROWS == 64, "bits of a word");
static_assert(sizeof(redirect_area_thread_pin) == 32 && RDA_ROW_PINS % RDA_CHOICE == 0,
              "none straddles");
static_assert(sizeof(htc_identity) % 8 == 0, "whole words");
static_assert(sizeof(rda_image) == RDA_ALIGN, "one per line");
static_assert(sizeof(rda_map) <= 2 * RDA_ALIGN, "small");

/* Of one process, in a page that is empty again in a child that was forked. */
typedef struct rda_own {
    _Atomic uint64_t serial; /* 0: has not joined */
    _Atomic int32_t pid;
} rda_own;

typedef struct rda_extent {
    uint32_t first, pages;
} rda_extent;

/* What is shared out among the owners of maps. */
typedef enum rda_share { RDA_MAPS, RDA_IMAGES, RDA_PAGES, RDA_SHARES } rda_share;

/* How much of one of these an owner has. */
typedef struct rda_holding {
    uint64_t owner, amount;
} rda_holding;

/* All that is needed to stay within the area lies in private memory, so that damage to the area
 * cannot send a process outside of it. */
struct redirect_area {
    redirect_area_range range; /* tables included */
    htc_lock lock;
    rda_header *header;
    rda_process *processes;
    rda_name *names;
    rda_map *maps;
    rda_image *images;
    rda_counts *counts;
    rda_note *notes;
    rda_cells *cells;
    rda_pin_rows *rows; /* of each process */
    unsigned char *room;
    size_t page;
    uint32_t pages; /* of room */
    rda_own *own;
    bool wiped_on_fork;  /* the page of `own`; else the caller compares its process id */
    rda_extent *extents; /* space for sorting; used under the lock */
    rda_holding *holdings;
    uint64_t most[RDA_SHARES];             /* that all owners may have together */
    char evicted[REDIRECT_AREA_NOTE_TEXT]; /* where the last map stands that did; under the lock */
};

/* --- versions and handles ---------------------------------------------------------------------*/

#define RDA_IMAGE_BITS 13
#define RDA_MAP_BITS   12
static_assert(REDIRECT_AREA_IMAGES == 1 << RDA_IMAGE_BITS, "a version's low bits are the slot");
static_assert(REDIRECT_AREA_MAPS == 1 << RDA_MAP_BITS, "a handle's low bits are the entry");

/* A version says where its image is. The same number never comes again, so one word is enough to
 * know both which image it is and that it is still that image. */
static inline uint32_t rda_slot_of(uint64_t version)
{
    return (uint32_t)version & (REDIRECT_AREA_IMAGES - 1);
}

static inline uint32_t rda_entry_of(uint32_t handle)
{
    return handle & (REDIRECT_AREA_MAPS - 1);
}

/* Does the map still exist? Read anything of it first and ask then: the answer is for before. */
static inline bool rda_map_valid(const redirect_area *area, uint32_t handle)
{
    return handle && RDA_GET(area->names[rda_entry_of(handle)].handle) == handle;
}

static inline rda_map *rda_map_at(const redirect_area *area, uint32_t handle)
{
    return &area->maps[rda_entry_of(handle)];
}

/* What the map's image is from now on; see area/map.c for the order that this makes.
 * Nothing that was a map's image may be given back before. */
static inline void rda_set_current(rda_map *map, uint64_t version)
{
    atomic_store_explicit(&map->current, version, memory_order_seq_cst);
    HTC_POINT("current");
}

/* The first of the thread pins in which a map may be counted. */
static inline uint32_t rda_first_pin(uint32_t handle)
{
    return handle % (RDA_ROW_PINS / RDA_CHOICE) * RDA_CHOICE;
}

/* How far a table is used, never further than it goes. */
#define RDA_END(word, limit) rda_at_most(RDA_GET(word), (limit))

static inline uint32_t rda_at_most(uint32_t n, uint32_t limit)
{
    return n < limit ? n : limit;
}

static inline uint32_t rda_maps_end(const redirect_area *area)
{
    return RDA_END(area->header->maps_end, REDIRECT_AREA_MAPS);
}

static inline uint32_t rda_images_end(const redirect_area *area)
{
    return RDA_END(area->header->images_end, REDIRECT_AREA_IMAGES);
}

/* Does a process share the common cell, or did one? In one order with pins and thread pins, so
 * that who sees one of them there sees this, too. */
static inline bool rda_common_used(const redirect_area *area)
{
    return atomic_load_explicit(&area->processes[RDA_COMMON].serial, memory_order_seq_cst) != 0;
}

/* Of cells that are one process's own. */
static inline uint32_t rda_cells_end(const redirect_area *area)
{
    return RDA_END(area->header->processes_end, RDA_COMMON);
}

static inline uint32_t rda_processes_end(const redirect_area *area)
{
    return rda_common_used(area) ? REDIRECT_AREA_PROCESSES : rda_cells_end(area);
}

/* --- area/area.c --------------------------------------------------------------------------*/

/* How much to ask the system for first, when @a bytes are wanted: @a overcommit is the text of
 * /proc/sys/vm/overcommit_memory, @a meminfo that of /proc/meminfo, @a addresses how many this
 * process may still take. */
uint64_t rda_modest(uint64_t bytes, const char *overcommit, const char *meminfo,
                    uint64_t addresses);

/* --- area/process.c ------------------------------------------------------------------*/

/* APR_EBUSY when the lock was not to be had in time: its holder is stopped. */
apr_status_t rda_lock(redirect_area *area);
void rda_unlock(redirect_area *area);

/* This process's serial; 0 when it has not joined since it was forked. */
static inline uint64_t rda_own_serial(const redirect_area *area)
{
    uint64_t serial = RDA_GET(area->own->serial);

    if (__builtin_expect(!area->wiped_on_fork, 0) && serial && RDA_GET(area->own->pid) != getpid())
        return 0;
    return serial;
}

static inline uint32_t rda_cell_of(uint64_t serial)
{
    return (uint32_t)(serial % REDIRECT_AREA_PROCESSES);
}

/* Has this process joined, and does the kernel tell others that it lives? What only a living
 * process may have under way, a build or giving memory back, is begun by no other. */
bool rda_enlisted(const redirect_area *area);

/* Which processes live, asked of the system only once for each cell. Start with zeros. */
typedef struct rda_census {
    enum { RDA_UNKNOWN = 0, RDA_ALIVE, RDA_DEAD } cells[REDIRECT_AREA_PROCESSES];
} rda_census;

bool rda_cell_alive(const redirect_area *area, uint32_t cell, rda_census *census);

/* Does the process live that joined with this serial? @a census may be NULL. Of those who share
 * the common cell this is known, too, but not whose pins and thread pins there are: these always
 * count. */
bool rda_serial_alive(const redirect_area *area, uint64_t serial, rda_census *census);

/* Does a process of a generation from @a first to @a last live? */
bool rda_generation_alive(const redirect_area *area, uint32_t first, uint32_t last,
                          rda_census *census);

/* --- area/image.c --------------------------------------------------------------------*/

/* Bounds of an image that is said to be there; false when they are impossible. */
bool rda_image_extent(const redirect_area *area, uint32_t slot, rda_extent *extent);

/* What is found by going through all that processes say of themselves, once for many images. */
typedef struct rda_survey {
    rda_census census;
    uint64_t held[REDIRECT_AREA_IMAGES / 64]; /* bits: slots whose image has a thread pin */
} rda_survey;

void rda_survey_locked(const redirect_area *area, rda_survey *survey);

/* Has a living process pinned it, or had a thread pin on it at the time of the survey? */
bool rda_image_pinned_locked(const redirect_area *area, uint32_t slot, rda_survey *survey);

/* --- area/share.c --------------------------------------------------------------------*/

/* What all owners may have together, at first. */
void rda_share_init(redirect_area *area);

/* May @a owner have @a want more? The server's configuration always may. */
bool rda_may_have_locked(redirect_area *area, rda_share share, uint64_t owner, uint64_t want);

/* Have maps make way until @a owner may have @a want more; and if there was no room for it though
 * it might (@a full), until as much was given up, or all that there is. What images take is free
 * after the next sweep. False: it cannot be had. */
bool rda_make_way_locked(redirect_area *area, rda_share share, uint64_t owner, uint64_t want,
                         bool full);

/* --- area/map.c ----------------------------------------------------------------------*/

/* The map exists no more. */
void rda_forget_locked(redirect_area *area, uint32_t entry);

#endif
