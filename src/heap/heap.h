/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file heap/heap.h
 * The heap of parsed configurations: what httpd makes of .htaccess files, once for the whole
 * server. One process, the builder, writes it. All others read it in place, at the same address.
 *
 *   heap (memory file)                       written by: the builder. Others map it read-only.
 *   +--------+-------------------+------------------------------------------------------------+
 *   | header | index             | blocks, one behind the other, free or with an object       |
 *   |        | 8 words in a set: | +------+---------+ +------+-----------------+ +------+---- |
 *   |        | tag, block number | | head | payload | | head | free            | | head | ... |
 *   +--------+-------------------+-+------+---------+-+------+-----------------+-+------+-----+
 *
 *   hints (shared memory)                    written by: every process. Nobody relies on it.
 *   +----------------------------+------------------------------------------------------------+
 *   | requests to build          | used bits, one byte for each granule of the heap           |
 *   +----------------------------+------------------------------------------------------------+
 *
 *   pin rows (one shared mapping each)       written by: the one process that has the row.
 *   +-------+ +-------+ +-------+
 *   | row 0 | | row 1 | | row 2 | ...        a word: number of a block, how many requests use it
 *   +-------+ +-------+ +-------+
 *
 * An object is immutable once it is in the index. Pointers in it are plain addresses: every process
 * has the heap at the address at which the parent mapped it before it forked. An object may need
 * others (a path entry needs the entry of the directory above); these stay as long as it does.
 *
 * A reader finds a block's number in the index, pins the block in its row, and looks whether the
 * index still says the same. The builder takes a block out of the index, and then looks at all
 * pins. Both use sequentially consistent operations, so at least one of the two sees the other. The
 * builder reuses the memory of a block only when neither the index nor a pin, nor an object that is
 * in use, leads to it. So a reader never waits, and never sees an object change or go.
 *
 * Room: when there is none, the builder takes objects out of the index by CLOCK, in the order of
 * their addresses. It then frees what nothing leads to any more. Objects of an owner (a document
 * root) that has more than its share go first. An object that is nobody's stays as long as another
 * one needs it, and counts for each of these as if it were this one's own. So what owners have in
 * common makes no difference to their shares.
 *
 * A process that was taken over cannot write to the heap. mprotect() cannot change that, because the
 * process has no descriptor that was opened for writing. It cannot write the pins of another
 * process: it has no mapping of them. It can pin objects of its choice, have the wrong ones
 * evicted, and ask the builder for any directory.
 *
 * A builder that dies leaves a heap that is consistent after each of its stores. The next one goes
 * on with it.
 */
#ifndef HTC_HEAP_HEAP_H
#define HTC_HEAP_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "base/base.h"
#include "heap/run.h"

#define HTC_HEAP_MIN_BYTES ((uint64_t)256 << 10)
#define HTC_HEAP_MAX_BYTES HTC_MAPPING_MAX

typedef struct htc_heap htc_heap; /* process-local handle */

/** Keeps an object in place while its count is not 0. Lies in the process's row. */
typedef _Atomic uint64_t htc_pin;

/** What an object is. The heap gives it no meaning, but counts them apart. */
typedef enum htc_heap_kind {
    HTC_HEAP_CONFIG,     /* what httpd made of a file */
    HTC_HEAP_REFUSED,    /* why a file's configuration cannot be shared */
    HTC_HEAP_PATH_ENTRY, /* a directory's ready-made result */
    HTC_HEAP_CONTENT,    /* what configurations of files with one text have in common */
    HTC_HEAP_KINDS
} htc_heap_kind;

/** Objects that one may need. */
#define HTC_HEAP_NEEDS 3
/** From an object on, any number of others may be needed one by the other as the first need, but no
 * more than so many as another one. */
#define HTC_HEAP_MOST_DEPTH 5

/**
 * Make an empty heap before the children fork. @a bytes is its size with its index; memory is taken
 * as it fills. At most @a processes can use it at once. Lives until @a pool is cleaned up in the
 * process that made it; a child that inherited it keeps it until it ends. Nothing is visible in the
 * file system.
 * @param why on failure, a sentence for the administrator from @a pool.
 */
apr_status_t htc_heap_create(htc_heap **heap, uint64_t bytes, unsigned processes, apr_pool_t *pool,
                             const char **why);

/**
 * Give each process that this one forks from now on a single row, so that it cannot reach those of
 * others, and need not copy mappings of them. Not for a fork that is to be the builder: call it with
 * @a hide false before, and with true again. Only for the process that made the heap.
 */
void htc_heap_hide_rows(htc_heap *heap, bool hide);

/**
 * The last process that this one forked, and one of its children that has ended and was waited for.
 * So the row of a process that was reported goes to no other one while it lives, whatever it does.
 * Rows of others may: see SECURITY.md. Without effect for processes that have no row.
 */
void htc_heap_forked(htc_heap *heap, pid_t child);
void htc_heap_ended(htc_heap *heap, pid_t child);

/* --- a process that serves --------------------------------------------------------------------*/

/**
 * Take the row that the parent gave (htc_heap_hide_rows()), or any without that, and give up what
 * this process shall not be able to write. To be called in every fork
 * of the parent, before it serves. Does nothing the second time, and in the builder. A process that
 * a module forks from this one finds nothing, and what it releases changes no pin. @a alone: httpd
 * runs as one process, which forks builders later. Then the other rows stay mapped, and what a
 * module forks has no row, where rows are hidden.
 * @return false when the process has no row. Then htc_heap_acquire() finds nothing.
 */
bool htc_heap_join(htc_heap *heap, bool alone);

/** Enter what is in large pages in this process's page table, so that requests meet no fault there. */
void htc_heap_meet(htc_heap *heap);

/** What htc_heap_tell() was called with, by a builder of this heap. */
uint64_t htc_heap_told(const htc_heap *heap);

/** True when @a object is the one that @a key describes. Called with the object pinned. */
typedef bool (*htc_heap_match)(const void *object, const void *key);

/**
 * Find an object and pin it, or NULL: there is none, or the process pins as many as it can. Takes
 * no lock. @a hash must be well mixed in all of its 64 bits. Any thread may call it, and
 * htc_heap_release().
 */
const void *htc_heap_acquire(const htc_heap *heap, uint64_t hash, htc_heap_match match,
                             const void *key, htc_pin **pin);

/** The request needs the object no more. */
static inline void htc_heap_release(htc_pin *pin)
{
    atomic_fetch_sub_explicit(pin, 1, memory_order_release);
}

/** What the builder is asked to do. Every process can write it: it is a hint. */
typedef struct htc_heap_request {
    uint64_t key;    /* hash of what is asked for; two requests with one key are the same */
    uint64_t record; /* which record, by the hash of its path */
    uint64_t owner;  /* whose it will be */
    uint32_t server; /* number of the virtual host */
    uint32_t share;  /* what the owner may have while room is short, in per cent */
} htc_heap_request;

/**
 * Ask the builder. Never waits: when the queue has no place, or the same was asked for and answered
 * less than a second ago, nothing happens. While the heap is full only what is asked for often gets
 * to the builder (base/ghosts.h). @a now_ms from htc_mono_ms().
 */
void htc_heap_ask(htc_heap *heap, const htc_heap_request *request, int64_t now_ms);

/* --- the builder ------------------------------------------------------------------------------*/

/**
 * Become the builder: map the heap for writing, at the same address, and go on with what the last
 * builder left. To be called in a fork of the parent, with the parent's rights. @a anew: the last
 * builder ended by a fault of its own, so nothing that it made is used any more.
 * @return APR_SUCCESS; an error of open(2) or mmap(2); APR_EGENERAL when the heap is damaged.
 */
apr_status_t htc_heap_own(htc_heap *heap, bool anew);

/** Say that this builder is ready for requests, which htc_heap_builder() shows. */
void htc_heap_ready(htc_heap *heap);

/** Tell serving processes of this heap something that nobody else can say: the bits' meaning is the
 *  caller's. They stay until there is another heap. */
void htc_heap_tell(htc_heap *heap, uint64_t bits);

/** Wait until something is asked for, at most @a ms. */
void htc_heap_wait(htc_heap *heap, int ms);

/** The next request. False: there is none now. To be answered before the next call. */
bool htc_heap_next(htc_heap *heap, htc_heap_request *request, int64_t now_ms);
/** It is done, or what was built without a request. @a again: it may be asked for again at once;
 * else not within the next second. */
void htc_heap_answer(htc_heap *heap, bool again, int64_t now_ms);

/** Exit code of a builder for whose pools there was no memory. No signal has that number. */
#define HTC_HEAP_NO_MEMORY 201

/** Owner of what several owners need. No document root has this hash. */
#define HTC_HEAP_NOBODY UINT64_MAX

/** Being built. */
typedef struct htc_heap_draft {
    htc_run run;   /* run.pool is where to build */
    void *payload; /* its fixed bytes, to be filled, in the builder's own memory; zeroed */
    void *object;  /* where they will lie: what is to point to them points there */
    uint32_t block;
    uint64_t owner; /* who made room for it; may be changed */
    size_t fixed;
} htc_heap_draft;

/** The most fixed bytes. */
#define HTC_HEAP_MOST_FIXED ((size_t)32 << 10)

/**
 * Begin an object: @a fixed bytes, and behind it a pool of @a room bytes at least. Others make way
 * for it. There is one draft at a time. The fixed bytes take the place of the pool's own ones when
 * the object is published, and the pool must not be used any more.
 * @return false: there is no room for so much.
 */
bool htc_heap_begin(htc_heap *heap, htc_heap_draft *draft, size_t fixed, size_t room,
                    uint64_t owner, unsigned share_percent);
/** True when room was short once. Then a draft should have no more than it is likely to need: large
 * ones find no place between objects that are in use. */
bool htc_heap_scarce(const htc_heap *heap);
/** The most room that an object should have, so that not all others have to make way. */
size_t htc_heap_most(const htc_heap *heap);
/** Give it up, with all that was allocated from its pool. */
void htc_heap_drop(htc_heap *heap, htc_heap_draft *draft);
/**
 * Publish it under @a hash in place of an object that matches @a key. It keeps the objects in @a
 * needs (NULL: none), which are other objects. The process ends (SIGABRT) if they lie too deep.
 */
void htc_heap_publish(htc_heap *heap, htc_heap_draft *draft, htc_heap_kind kind, uint64_t hash,
                      htc_heap_match match, const void *key,
                      const void *const needs[HTC_HEAP_NEEDS]);
/** How many there are of which HTC_HEAP_MOST_DEPTH is the limit. In the builder. */
unsigned htc_heap_depth(const htc_heap *heap, const void *object);
/** Find an object, in the builder. Nothing goes away before the next htc_heap_begin(). */
const void *htc_heap_find(const htc_heap *heap, uint64_t hash, htc_heap_match match,
                          const void *key);
/** True when @a object, which was published under @a hash, can still be found. In the builder. */
bool htc_heap_has(const htc_heap *heap, const void *object, uint64_t hash);
/** Keep an object that was found in place until the request is answered, also when
 * htc_heap_begin() makes room. After 768 of them htc_heap_begin() returns false. */
void htc_heap_keep(htc_heap *heap, const void *object);

/** Note what is being worked on, in case that the builder dies of it. 0: nothing. */
void htc_heap_working_on(htc_heap *heap, uint64_t record, uint64_t version);
/** What the builder before this one died of, if it is known; else 0. */
uint64_t htc_heap_died_of(const htc_heap *heap, uint64_t *version);
/** Never work on this version of this record again. The last few are remembered. */
void htc_heap_condemn(htc_heap *heap, uint64_t record, uint64_t version);
bool htc_heap_condemned(const htc_heap *heap, uint64_t record, uint64_t version);
/** True when a builder ended while it worked on this before; remembers it if not. The last few are
 * remembered. */
bool htc_heap_suspected(htc_heap *heap, uint64_t record, uint64_t version);

/**
 * Note of each object whether it was used since the last call, as @a used says; @a after is then
 * called for those that were, and for some more. What was used in more of the last calls, or in
 * later ones, ranks higher.
 */
typedef bool (*htc_heap_used)(void *baton, htc_heap_kind kind, const void *object);
typedef void (*htc_heap_after)(void *baton, htc_heap_kind kind, const void *object);
void htc_heap_rank(htc_heap *heap, htc_heap_used used, htc_heap_after after, void *baton);
/** Visit the @a most objects that rank highest, in any order: @a place is from 0 for the first, and
 * objects of the same rank are in the order of their addresses. Returns how many. */
typedef void (*htc_heap_ranked)(void *baton, size_t place, htc_heap_kind kind, const void *object,
                                uint64_t owner);
size_t htc_heap_first(const htc_heap *heap, size_t most, htc_heap_ranked visit, void *baton);

/* --- figures ----------------------------------------------------------------------------------*/

typedef struct htc_heap_stats {
    uint64_t bytes_total, bytes_used; /* with header and index; what objects take */
    uint64_t objects[HTC_HEAP_KINDS], bytes[HTC_HEAP_KINDS];
    uint64_t builds, refusals, evictions; /* of this generation, by all its builders */
    uint64_t no_room;                     /* times there was no room for an object */
    uint64_t builders;                    /* how many there have been */
    uint64_t condemned;                   /* records that a builder died of */
    int32_t builder;                      /* as htc_heap_builder() says */
    unsigned waiting;                     /* requests in the queue */
    unsigned processes;                   /* rows that are taken, as far as known */
} htc_heap_stats;

/** Process number of the last builder that was ready; 0: none was yet. For any process. */
int32_t htc_heap_builder(const htc_heap *heap);

/** Takes no lock. For any process. */
void htc_heap_stats_get(const htc_heap *heap, htc_heap_stats *stats);

/** Visit the objects of a kind, one after the other, each pinned during the call. Return false to
 * stop. @a bytes is what it takes. */
typedef bool (*htc_heap_visit)(void *baton, const void *object, size_t bytes);
void htc_heap_each(const htc_heap *heap, htc_heap_kind kind, htc_heap_visit visit, void *baton);

#endif
