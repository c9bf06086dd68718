/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file heap/internal.h
 * The layout of the heap, the hints and the pin rows. For this folder and its tests.
 */
#ifndef HTC_HEAP_INTERNAL_H
#define HTC_HEAP_INTERNAL_H

#include "heap/heap.h"
#include "base/base.h"

#include <sys/types.h>

#include <apr_hash.h>

/* Otherwise the compiler's library would keep a lock for each process by itself, and write where
 * only reading is allowed. */
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics need a lock");

#define HEAP_GRANULE   ((size_t)128) /* blocks begin and end at multiples of it */
#define HEAP_WAYS      8             /* words of a set of the index: one cache line */
#define HEAP_ROW_BYTES ((size_t)8192)
#define HEAP_ROW_WORDS (HEAP_ROW_BYTES / sizeof(htc_pin))
#define HEAP_REQUESTS  1024  /* places of the queue; a power of two */
#define HEAP_GHOSTS    16384 /* for what is asked for while it is full */
#define HEAP_CONDEMNED 64
#define HEAP_AGAIN_MS  1000 /* what was answered is not asked for again before */

/** State of a block, in the low bits of its head. */
enum { HEAP_FREE = 0, HEAP_DRAFT = 1, HEAP_USED = 2, HEAP_STATES = 3 };

/** What every block begins with. Written by the builder alone. */
typedef struct heap_block {
    _Atomic uint64_t head; /* granules, times four, and the state */
    uint64_t hash;
    uint64_t owner;
    uint32_t needs[HTC_HEAP_NEEDS]; /* numbers of blocks; 0: none */
    uint32_t place;                 /* its word in the index was this one */
    uint32_t kind;
    _Atomic uint32_t rank; /* how often it was used of late */
    uint32_t depth;        /* htc_heap_depth() */
    uint32_t unused[3];
} heap_block;

/** A version of a record. */
typedef struct heap_record {
    _Atomic uint64_t record, version;
} heap_record;

/** The heap begins with it. Counters are changed by the builder alone. */
typedef struct heap_header {
    /* Every request reads the first line, and the builder seldom changes it. */
    _Alignas(64) _Atomic uint64_t full; /* no room at the last build: others must make way */
    _Atomic uint64_t scarce;            /* less than a quarter was free: note what is used */
    _Alignas(64) _Atomic uint64_t builder, builders;
    _Atomic uint64_t large; /* bytes from the heap's begin on that are in large pages */
    _Atomic uint64_t told;  /* see htc_heap_tell() */
    _Atomic uint64_t builds, refusals, evictions, no_room, used;
    _Atomic uint64_t objects[HTC_HEAP_KINDS], bytes[HTC_HEAP_KINDS];
    _Atomic uint64_t working_record, working_version;
    _Atomic uint64_t ncondemned, nsuspects;
    heap_record condemned[HEAP_CONDEMNED], suspects[HEAP_CONDEMNED];
} heap_header;

/** Of a place of the queue. */
enum { HEAP_EMPTY = 0, HEAP_WRITING, HEAP_WAITING, HEAP_ANSWERED };

typedef struct heap_place {
    _Atomic uint32_t state;
    _Atomic uint32_t server;
    _Atomic uint64_t key, record, owner;
    _Atomic uint32_t share;
    _Atomic int64_t until; /* ANSWERED: not to be asked for before */
} heap_place;

/** Shared memory that every process writes. */
typedef struct heap_hints {
    htc_lock_shared lock;
    _Atomic uint32_t asleep;                      /* the builder waits to be woken */
    _Atomic uint64_t waiting[HEAP_REQUESTS / 64]; /* a bit for each place that was made to wait */
    heap_place places[HEAP_REQUESTS];
    _Atomic uint32_t ghosts[HEAP_GHOSTS];
    _Atomic uint8_t used[]; /* by granule */
} heap_hints;

struct htc_heap {
    char *base; /* the same address in all processes */
    size_t bytes;
    heap_header *header;
    _Atomic uint64_t *index;
    size_t nsets;        /* a power of two */
    uint32_t first, end; /* granules that have blocks */
    heap_hints *hints;
    size_t hints_bytes;
    char *rows;
    unsigned nrows;
    pid_t joined;      /* the process that has, or needs no row */
    htc_pin *row;      /* of this process; NULL: none */
    htc_lock lock;     /* for which processes live; never taken */
    int fd;            /* opened for reading; -1: given up */
    int wake;          /* eventfd */
    pid_t maker;       /* the process that unmaps it */
    bool hidden;       /* its forks get one row each */
    unsigned given;    /* to the last fork; nrows: none */
    int64_t *given_ms; /* when, by row; 0: to none, or to one that is known to have ended */
    pid_t *holders;    /* to which process, by row; 0: not known */
    struct heap_writer *writer; /* of the builder; else NULL */
};

/** Objects of one request that are kept in place while it is worked on. */
#define HEAP_KEPT 768

/** The builder's own memory. */
typedef struct heap_writer {
    apr_pool_t *pool;
    uint8_t *starts, *live,
        *ranked;       /* a bit for each granule: a block begins there; something leads to it; its
                        * rank is not 0, or was not */
    uint64_t free;     /* granules */
    uint32_t at, hand; /* where to look for free blocks, and for those to make way */
    uint32_t filled;   /* no object lies behind it */
    size_t enlarged;   /* bytes of the heap that were put in large pages */
    apr_pool_t *owners_pool;
    apr_hash_t *owners;               /* owner_use by owner */
    uint64_t due[HEAP_REQUESTS / 64]; /* places that may wait */
    int64_t looked;                   /* when all places were looked at */
    heap_place *current;              /* being worked on */
    int64_t stuck[HEAP_REQUESTS];     /* since when a place is being written; 0: it is not */
    uint32_t kept[HEAP_KEPT];
    unsigned nkept;
    uint64_t died_record, died_version;
    _Alignas(8) char fixed[HTC_HEAP_MOST_FIXED]; /* of the draft; a pool aligns no more */
} heap_writer;

static inline uint32_t heap_total(const htc_heap *heap)
{
    return heap->end - heap->first;
}

static inline heap_block *heap_block_at(const htc_heap *heap, uint32_t number)
{
    return (heap_block *)(void *)(heap->base + (size_t)number * HEAP_GRANULE);
}

static inline void *heap_payload(const heap_block *block)
{
    return (char *)block + sizeof(*block);
}

static inline uint32_t heap_number_of(const htc_heap *heap, const void *payload)
{
    return (uint32_t)(((size_t)((const char *)payload - heap->base) - sizeof(heap_block)) /
                      HEAP_GRANULE);
}

static inline uint32_t heap_granules(uint64_t head)
{
    return (uint32_t)(head >> 2);
}

static inline unsigned heap_state(uint64_t head)
{
    return (unsigned)(head & 3);
}

static inline uint64_t heap_head(uint32_t granules, unsigned state)
{
    return (uint64_t)granules << 2 | state;
}

/** A word of the index. */
static inline uint64_t heap_word(uint64_t hash, uint32_t number)
{
    return (hash & UINT64_C(0xffffffff00000000)) | number;
}

/** The two sets in which an object may be. The high half of the hash is the tag. */
static inline size_t heap_set(const htc_heap *heap, uint64_t hash, unsigned which)
{
    uint64_t mixed = which ? hash * UINT64_C(0x9E3779B97F4A7C15) >> 20 : hash;

    return (size_t)(mixed & (heap->nsets - 1)) * HEAP_WAYS;
}

static inline htc_pin *heap_row(const htc_heap *heap, unsigned number)
{
    return (htc_pin *)(void *)(heap->rows + number * HEAP_ROW_BYTES);
}

#define HEAP_SET(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
#define HEAP_GET(word)        atomic_load_explicit(&(word), memory_order_relaxed)

#endif
