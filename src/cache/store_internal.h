/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/store_internal.h
 * The layout of the shared segment, and what the store's source files know of each other:
 *
 *   cache/store.c          creation and layout, counters, totals
 *   cache/store_read.c     reading records without a lock
 *   cache/store_write.c    the lock; put, reidentify, drop, clear
 *   cache/store_room.c     room for a record: whom to evict
 *   cache/store_rebuild.c  repair after a writer died or memory was damaged; emptying
 *   cache/store_remove.c   taking a record out
 *   cache/store_owner.c    owners, shares, totals
 *   cache/store_task.c     what a writer that dies leaves for the next one
 *
 * A file calls only those below it in this list. Removal and eviction report damage; only the
 * writer, store_write.c, repairs it.
 *
 * Only these and the store's tests include this file.
 *
 * The one invariant that everything rests on: a slot whose `seq` is even and whose `version` is
 * not 0 names a chain of blocks that is complete and that no process changes. All else (free list,
 * owner table, owner lists, totals, the map of used slots) follows from the slots. It is changed
 * within a task, which the next writer takes back and ends when a writer dies: a few steps, and no
 * record is lost but the one that was worked on. Where damage is found it is derived anew from the
 * slots, if these are few; else the store is emptied, some slots at a time.
 */
#ifndef HTC_CACHE_STORE_INTERNAL_H
#define HTC_CACHE_STORE_INTERNAL_H

#include <assert.h>
#include <stddef.h>

#include "base/base.h"
#include "cache/store.h"

#define HTCS_ALIGN              128 /* of every area; two cache lines, which some processors fetch as one */
#define HTCS_BLOCK_BYTES        128
#define HTCS_BLOCK_WORDS        (HTCS_BLOCK_BYTES / 8)
#define HTCS_WAYS               8               /* slots of a set */
#define HTCS_CANDIDATES         (2 * HTCS_WAYS) /* slots that a key may lie in */
#define HTCS_BYTES_PER_SLOT     512             /* of the segment */
#define HTCS_GHOSTS(nslots)     ((nslots) / 2)
#define HTCS_FAVOURITES(nslots) ((nslots) / 16)
#define HTCS_STRIPES            64
#define HTCS_MIN_OWNERS         16
#define HTCS_MAX_OWNERS         8192
#define HTCS_SLOTS_PER_OWNER    16 /* decides the size of the owner table */
#define HTCS_NIL                UINT32_MAX
#define HTCS_PROVED_MOST        65536 /* records that are proved when damage was found */
#define HTCS_CLEARED_WORDS      256   /* of the map of used slots, under one hold of the lock */
#define HTCS_LOOKS              4096  /* records that CLOCK spares at most before one has to go */
#define HTCS_NOTES              24    /* words that a task changes */
#define HTCS_MOST_PAYLOAD       (UINT32_C(256) << 20) /* bytes */
#define HTCS_SUM_WORDS          512 /* a payload's checksum is folded over pieces of this size */

/* Words in the segment are read and written through these. Readers look at words that a writer is
 * changing, so every word is atomic; order comes from the sequence counts and fences alone. */
#define HTCS_GET(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define HTCS_SET(word, value)                                          \
    do {                                                               \
        atomic_store_explicit(&(word), (value), memory_order_relaxed); \
        HTC_POINT(#word);                                              \
    } while (0)

/* What a writer is doing. */
typedef enum htcs_task {
    HTCS_NO_TASK = 0,
    HTCS_PUTTING,    /* the slot `changing` becomes a record */
    HTCS_REMOVING,   /* it stops being one; also while its identity is changed */
    HTCS_SHARING,    /* an owner's share changes */
    HTCS_REBUILDING, /* all is derived anew */
    HTCS_CLEARING    /* the store is being emptied, over several holds of the lock */
} htcs_task;

/* What a word was before a task changed it. */
typedef struct htcs_noted {
    _Atomic uint64_t where; /* bytes from the segment's beginning; plus 1: a word of 64 bits */
    _Atomic uint64_t value;
} htcs_noted;

typedef struct htcs_header {
    htc_lock_shared lock;
    _Atomic uint32_t dirty;         /* a writer has the lock, or died with it */
    _Atomic uint32_t said;          /* htc_store_say() */
    _Atomic int64_t counting_since; /* seconds since 1970, wall clock */

    /* All below changes under the lock only. */
    _Atomic uint32_t free_head;    /* list of freed blocks, through the FAT */
    _Atomic uint32_t fresh;        /* blocks from here on were never used and are in no list */
    _Atomic uint32_t cleared;      /* words of the map of used slots, in HTCS_CLEARING */
    _Atomic uint32_t clock_hand;   /* the slot that CLOCK looks at next */
    _Atomic uint32_t owner_hand;   /* the owner that is asked next whether it is above its share */
    _Atomic uint32_t owners_live;  /* owners that hold records */
    _Atomic uint32_t owners_above; /* of these, those above their share */
    _Atomic uint32_t blocks_used;
    _Atomic uint64_t last_version;
    _Atomic uint32_t records[HTC_KIND_STOCK + 1]; /* by kind */

    _Atomic uint32_t task;
    _Atomic uint32_t changing; /* the slot, and what it says of its record */
    _Atomic uint32_t changing_first, changing_len, changing_kind, changing_owner;
    _Atomic uint32_t noted;
    htcs_noted notes[HTCS_NOTES];
} htcs_header;

typedef struct htcs_stripe {
    _Alignas(HTCS_ALIGN) _Atomic uint64_t counts[HTC_COUNTER_COUNT];
} htcs_stripe;

/* An entry without records may be given to another owner. Changes under the lock only. */
typedef struct htcs_owner {
    _Atomic uint64_t tag;
    _Atomic uint32_t blocks, slots; /* held */
    _Atomic uint32_t hand;          /* where CLOCK stands in the ring of its slots */
    _Atomic uint32_t share;         /* per cent, as of its last put */
    _Atomic uint32_t share_blocks;  /* what that comes to */
    _Atomic uint32_t share_slots;
    _Atomic uint32_t above; /* it holds more than its share */
    _Atomic uint32_t taken; /* it belonged to an owner once */
} htcs_owner;

typedef struct htcs_slot {
    htc_slot_hot hot;
    _Atomic uint32_t seq;   /* odd while a writer changes the slot or its body */
    _Atomic uint32_t first; /* block */
    _Atomic uint64_t tag;   /* the key's hash */
    _Atomic uint32_t body_len;
    _Atomic uint32_t flags;
    _Atomic uint32_t kind;
    _Atomic uint32_t owner;              /* index in the owner table */
    _Atomic uint32_t own_prev, own_next; /* ring of the owner's slots; writers only */
} htcs_slot;

static_assert(sizeof(htcs_slot) == 64, "a slot is one cache line");
static_assert(offsetof(htcs_slot, hot) == 0, "the public half comes first");

typedef struct htcs_block {
    _Atomic uint64_t words[HTCS_BLOCK_WORDS];
} htcs_block;

static_assert(sizeof(htcs_block) == HTCS_BLOCK_BYTES, "atomic words are plain words");

/* A body: this, the key, a NUL, zeros up to a whole word; the identity of what is not absent (most
 * records are of absent files, and one block is enough for these); then, unless the payload is
 * empty, the payload's checksum (one word) and the payload. */
typedef struct htcs_head {
    uint64_t sum; /* of all that describes the record, but not of the payload */
    uint32_t key_len;
    uint32_t payload_len;
} htcs_head;

#define HTCS_HEAD_WORDS (sizeof(htcs_head) / 8)
#define HTCS_ID_WORDS   (sizeof(htc_identity) / 8)
static_assert(sizeof(htcs_head) == 16, "whole words, no padding");
static_assert(sizeof(htc_identity) % 8 == 0, "whole words");

/* A private copy of head, key and identity (zero if there is none). */
typedef struct htcs_front {
    htcs_head head;
    char key[HTC_STORE_MAX_KEY + 8]; /* NUL-terminated */
    htc_identity id;
} htcs_front;

static_assert(offsetof(htcs_front, key) == sizeof(htcs_head), "written in one piece");
static_assert(offsetof(htcs_front, id) % 8 == 0, "read by whole words");

/* A private copy of a slot. */
typedef struct htcs_view {
    uint64_t version;
    int64_t checked_at;
    uint64_t tag;
    uint32_t seq, first, body_len, flags, kind, owner;
} htcs_view;

/* A place in a body. */
typedef struct htcs_cursor {
    uint32_t block, word;
} htcs_cursor;

/* As htc_favourite. */
typedef struct htcs_favourite {
    _Atomic uint64_t record, owner, server;
} htcs_favourite;

/* What is known of the segment lies in private memory, so that damage to the segment cannot send
 * a process outside of it. */
struct htc_store {
    void *base;
    size_t bytes;
    uint64_t seed;
    htcs_header *header;
    htcs_stripe *stripes;
    htcs_owner *owners; /* nowners entries, and one for the owners that found no place */
    htcs_slot *slots;
    _Atomic uint64_t *used;   /* a bit per slot: CLOCK passes over unused slots quickly */
    _Atomic uint32_t *ghosts; /* by hash, what was looked for in vain while there was little room */
    htcs_favourite *favourites;
    _Atomic uint32_t *fat;   /* per block the next of its chain, or HTCS_NIL */
    _Atomic uint64_t *marks; /* a bit per block, for the time of a rebuild */
    htcs_block *blocks;
    uint32_t nowners; /* a power of two */
    uint32_t nsets, nslots, nblocks;
    htc_lock lock;
    bool enlarged, large; /* by this process; with success */
    uint64_t process;     /* for its place among the stripes */
};

/* The key, its NUL and the zeros behind it. */
static inline uint64_t htcs_key_bytes(uint32_t key_len)
{
    return ((uint64_t)key_len + 1 + 7) & ~UINT64_C(7);
}

static inline uint64_t htcs_front_bytes(uint32_t kind, uint32_t key_len)
{
    return sizeof(htcs_head) + (kind == HTC_KIND_ABSENT ? 0 : sizeof(htc_identity)) +
           htcs_key_bytes(key_len);
}

static inline uint64_t htcs_body_bytes(uint32_t kind, uint32_t key_len, uint64_t payload_len)
{
    return htcs_front_bytes(kind, key_len) + (payload_len ? 8 + payload_len : 0);
}

static inline uint64_t htcs_blocks_for(uint64_t body_bytes)
{
    return (body_bytes + HTCS_BLOCK_BYTES - 1) / HTCS_BLOCK_BYTES;
}

/* The slots that a key may lie in: two sets of HTCS_WAYS, by their first slots. */
typedef struct htcs_home {
    uint32_t first[2];
} htcs_home;

static inline htcs_home htcs_home_of(const htc_store *store, uint64_t hash)
{
    uint32_t first = (uint32_t)(((hash & UINT32_MAX) * store->nsets) >> 32);
    uint32_t second = (uint32_t)(((hash >> 32) * store->nsets) >> 32);

    if (second == first)
        second = first + 1 < store->nsets ? first + 1 : 0;
    return (htcs_home){{first * HTCS_WAYS, second * HTCS_WAYS}};
}

/* The i-th of the HTCS_CANDIDATES slots. */
static inline uint32_t htcs_candidate(htcs_home home, unsigned i)
{
    return home.first[i / HTCS_WAYS] + i % HTCS_WAYS;
}

/* The candidates that hold records, as bits, from the map of used slots: a look-up touches only the
 * slots that may matter. A record is in the map a moment after it is published. */
static inline uint32_t htcs_used(const htc_store *store, htcs_home home)
{
    uint64_t first = HTCS_GET(store->used[home.first[0] / 64]) >> home.first[0] % 64;
    uint64_t second = HTCS_GET(store->used[home.first[1] / 64]) >> home.first[1] % 64;
    uint32_t mask = (1U << HTCS_WAYS) - 1;

    return ((uint32_t)first & mask) | ((uint32_t)second & mask) << HTCS_WAYS;
}

/* --- cache/store_read.c: no lock needed --------------------------------------------------------*/

typedef enum htcs_result {
    HTCS_OK,
    HTCS_NONE,   /* the slot is unused */
    HTCS_BUSY,   /* a writer is changing it, or died there */
    HTCS_DAMAGED /* no writer is changing it, and its contents are impossible */
} htcs_result;

/* Copy slot, head and key; on HTCS_OK they belong together and @a cursor is behind the key. */
htcs_result htcs_read(const htc_store *store, uint32_t index, htcs_view *view, htcs_front *front,
                      htcs_cursor *cursor);

/* The checksum for front->head.sum; front->key is zero from its end to a whole word. */
uint64_t htcs_front_sum(const htc_store *store, const htcs_view *view, const htcs_front *front);
uint64_t htcs_payload_sum(const htc_store *store, uint64_t version, const void *bytes, size_t len);

/* True when slot, chain, key and payload are what a writer left there; *view is the slot then.
 * Under the lock only. */
bool htcs_intact(const htc_store *store, uint32_t index, htcs_view *view);

/* --- cache/store_write.c: under the lock, but for htcs_drop_damaged ----------------------------*/

/* Take the lock and drop the record, if it is still there and still damaged. */
void htcs_drop_damaged(htc_store *store, uint32_t index, uint64_t version);

/* --- cache/store_remove.c: under the lock ------------------------------------------------------*/

/* Between the two readers keep off the slot. */
void htcs_slot_begin(htcs_slot *slot);
void htcs_slot_end(htcs_slot *slot);

/* Take a record out and free its blocks. False: damage was found; the slot is unused, and the
 * caller calls htcs_rebuild(). */
bool htcs_remove(htc_store *store, uint32_t index);

/* The same for one that is proved to be as @a view says, within HTCS_REMOVING. False, and only
 * the slot is unused, when the owner's ring is damaged. */
bool htcs_remove_known(htc_store *store, uint32_t index, const htcs_view *view);

/* Make a slot unused, whatever it holds. Its blocks and its owner do not hear of it. */
void htcs_wipe(htc_store *store, uint32_t index);

/* --- cache/store_owner.c: under the lock -------------------------------------------------------*/

/* Index of the owner's entry; a new one if need be. Sets its share. */
uint32_t htcs_owner_get(htc_store *store, uint64_t tag, unsigned share_percent);

/* True when the owner would hold more than its share with so much more. */
bool htcs_above_share(const htcs_owner *owner, uint32_t more_blocks, uint32_t more_slots);

/* Blocks that a share comes to. */
uint32_t htcs_share_blocks(const htc_store *store, unsigned share_percent);

/* Count a published slot in: its owner, the totals, the map of used slots. */
void htcs_account(htc_store *store, uint32_t index, const htcs_view *view);

/* Set or clear its bit in the map of used slots. */
void htcs_set_used(htc_store *store, uint32_t index, bool used);

/* Count it out. False when the owner's ring is damaged. */
bool htcs_discount(htc_store *store, uint32_t index, const htcs_view *view);

/* --- cache/store_room.c: under the lock --------------------------------------------------------*/

/* A free slot among a key's candidates, made free if need be. HTCS_NIL: damage; the caller
 * rebuilds. @a rebuilt: it has done so, and a slot that is damaged still is used all the same. */
uint32_t htcs_room_slot(htc_store *store, htcs_home home, uint32_t owner, bool rebuilt);

/* Evict until @a blocks blocks are free. False: damage, the caller rebuilds; or the store is being
 * emptied. */
bool htcs_room_blocks(htc_store *store, uint32_t blocks, uint32_t owner);

/* --- cache/store_task.c: under the lock --------------------------------------------------------*/

/* Begin something that may be killed at any store. @a view says which record is changed, in slot
 * @a index; NULL: none is removed. */
void htcs_task_begin(htc_store *store, htcs_task task, uint32_t index, const htcs_view *view);
void htcs_task_end(htc_store *store);

/* Within a task, before a word is changed: what it is now. */
void htcs_note(htc_store *store, const _Atomic uint32_t *word);
void htcs_note_wide(htc_store *store, const _Atomic uint64_t *word);

/* Change a word of 32 bits that follows from the records. */
#define HTCS_CHANGE(store, word, value) \
    do {                                \
        htcs_note((store), &(word));    \
        HTCS_SET((word), (value));      \
    } while (0)

/* Take back what the task has changed so far. A process that scribbles in the log has words of the
 * segment overwritten, which it could do itself. */
void htcs_take_back(htc_store *store);

/* --- cache/store_rebuild.c: under the lock -----------------------------------------------------*/

/* The last writer died: take back and end what it was doing. */
void htcs_recover(htc_store *store);

/* Drop what is damaged and derive everything else anew from the slots that remain; when there are
 * more than HTCS_PROVED_MOST records, begin to empty the store. */
void htcs_rebuild(htc_store *store);

/* Begin to drop all records. Until that is done nothing can be stored. */
void htcs_clear_begin(htc_store *store);

/* Go on with it. True when it is done. */
bool htcs_clear_step(htc_store *store);

static inline bool htcs_clearing(const htc_store *store)
{
    return HTCS_GET(store->header->task) == HTCS_CLEARING;
}

#endif
