/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/store.h
 * The server-wide store: one anonymous shared segment, made before the children fork, that holds
 * one record per .htaccess path. A record says that the file is absent, or carries the parsed
 * directive tree (an opaque payload here) together with the identity it was read with, or says
 * that the file must be left to stock httpd.
 *
 *   segment
 *   +--------+----------+--------+---------------------+-------------------------+
 *   | header | counters | owners | slots (64 bytes, by | FAT (u32 per block) and |
 *   | lock   | stripes  |        | hash, 2 x 8 ways)   | blocks (128 bytes)      |
 *   +--------+----------+--------+---------------------+-------------------------+
 *
 * Only indices, no pointers, lie in the segment. A record's body (header with identity, key,
 * payload, checksum) is a chain of blocks through the FAT, so there is no external fragmentation:
 * any record fits once enough records were evicted.
 *
 * Readers take no lock. A slot's `version` is a number that is never used twice; a reader that
 * remembers (slot, version) needs one load to know that what it has is still current. Bodies are
 * copied out under the slot's sequence count and checked by checksum, so no process reads a
 * record in place. Bytes that come out are still to be validated by the payload's owner.
 *
 * Writers take the one lock (base/lock.h) and mark the segment dirty while they change
 * it. When a process dies in mid-write the next writer finds the mark and takes back the few words
 * that were changed: the record that was worked on is gone, all others stay. A writer that cannot
 * get the lock within HTC_STORE_LOCK_MS gives up with APR_EBUSY: caching is skipped, no request
 * waits. Nobody holds the lock for longer than a bounded number of records takes.
 *
 * Eviction: a full store evicts with CLOCK (a reference bit per slot, set by readers with
 * htc_store_touch). Each record belongs to an owner (a document root). When room is short, an
 * owner that holds more than its share gives up its own records first, and one below its share
 * takes from those above before CLOCK takes from all.
 *
 * Thread and process safety: every function may be called by any thread of any process that
 * inherited the segment, unless it says otherwise.
 */
#ifndef HTC_CACHE_STORE_H
#define HTC_CACHE_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "cache/counters.h"
#include "base/base.h"

#define HTC_STORE_MIN_BYTES (256 * 1024)
#define HTC_STORE_MAX_BYTES HTC_MAPPING_MAX
#define HTC_STORE_MAX_KEY   4096 /* bytes; no path that can be opened is longer */
#define HTC_STORE_LOCK_MS   20
/** For htc_store_reidentify(): leave checked_at as it is. */
#define HTC_STORE_KEEP INT64_MIN

typedef struct htc_store htc_store; /* process-local handle; the segment itself is private */

typedef enum htc_kind {
    HTC_KIND_NONE = 0,   /* slot unused */
    HTC_KIND_ABSENT = 1, /* there is no such file */
    HTC_KIND_TREE = 2,   /* payload is the parsed directive tree */
    HTC_KIND_STOCK = 3   /* payload is a NUL-terminated reason; stock httpd must read this file */
} htc_kind;

/** Flags of a record; the store keeps them and gives them no meaning. */
#define HTC_RF_RACY         0x0001u /* identity too young to be trusted, see htc_identity_racy() */
#define HTC_RF_EMPTY        0x0002u /* the tree has no directives */
#define HTC_RF_REPLAY       0x0004u /* not every directive is on the allow-list */
#define HTC_RF_EXEC_ON_READ 0x0008u /* sections were resolved while the tree was built */
#define HTC_RF_REDIRECTS \
    0x0010u /* of a STOCK file: it may have Redirect lines; of a TREE: it has such or \
             * RewriteRules */
/* Of a STOCK file: it does not fit in a share of so many per cent; 0: that is not why. */
#define HTC_RF_TOO_LARGE(share)    ((uint32_t)(share) << 16)
#define HTC_RF_TOO_LARGE_AT(flags) ((flags) >> 16)

/** Names one state of one record: valid as long as the slot still has this version. */
typedef struct htc_ref {
    uint32_t slot;
    uint64_t version; /* 0 names nothing */
} htc_ref;

/** What htc_store_find() tells of a record without its payload. */
typedef struct htc_info {
    htc_ref ref;
    htc_kind kind;
    uint32_t flags;
    uint32_t payload_len;
    int64_t checked_at; /* htc_mono_ms() of the last time it was known to be true */
    htc_identity id;    /* all zero for HTC_KIND_ABSENT */
} htc_info;

/** The public, hot half of a slot. Fields change only under the store's lock, except as noted. */
typedef struct htc_slot_hot {
    _Atomic uint64_t version;   /* 0: unused */
    _Atomic int64_t checked_at; /* changed without the lock by claim and confirm */
    _Atomic uint32_t touched;   /* CLOCK reference bit, set without the lock */
    _Atomic uint32_t used;      /* likewise; cleared by whoever wants to know what is used */
} htc_slot_hot;

/**
 * Create the segment: @a bytes in all, rounded down to whole blocks, at least HTC_STORE_MIN_BYTES.
 * The handle and the mapping live until @a pool is cleaned up in this process; a child that
 * inherited the mapping keeps it until it ends. Nothing is visible in the file system.
 *
 * @param why on failure, a sentence for the administrator allocated from @a pool, naming the size
 *            asked for and the limit met.
 * @return APR_SUCCESS; APR_EINVAL for a size out of range; otherwise errno of mmap or of the mutex.
 */
apr_status_t htc_store_create(htc_store **store, uint64_t bytes, apr_pool_t *pool,
                              const char **why);

/**
 * From now on the mapping does not go with @a pool, which it was created with: it outlives a
 * configuration, and the code that created it. *memory says what there is to give up.
 */
void htc_store_keep(htc_store *store, apr_pool_t *pool, htc_kept_memory *memory);
/** False when some process holds the store's lock and has not given it back within @a wait_ms. As
 * htc_lock_free_within(). */
bool htc_store_lock_free(const htc_store *store, unsigned wait_ms);
/** A new configuration begins with what is there: counters begin at 0, messages may be said again. */
void htc_store_begin_again(htc_store *store);

/** Seeded hash of a key, the same in every process of this segment. @a len in bytes. */
uint64_t htc_store_hash(const htc_store *store, const void *key, size_t len);

/** The hot half of slot @a slot, for inline loads; any uint32_t is safe. Never NULL. */
htc_slot_hot *htc_store_slot(const htc_store *store, uint32_t slot);

/**
 * Look a key up without a lock. The key's bytes are compared, not only its hash. A record that is
 * found damaged is dropped and counted as corrupt.
 * @return true and *info filled, or false and *info all zero (also when a writer kept changing the
 *         slot).
 */
bool htc_store_find(htc_store *store, uint64_t hash, const char *key, size_t key_len,
                    htc_info *info);

/**
 * Copy a record's payload into memory from @a pool (8-byte aligned, followed by a NUL byte that is
 * not counted).
 * @return APR_SUCCESS; APR_NOTFOUND when the slot no longer has that version; APR_EGENERAL when the
 *         record is damaged: it has then been dropped and counted as corrupt.
 */
apr_status_t htc_store_copy(htc_store *store, htc_ref ref, apr_pool_t *pool, char **payload,
                            size_t *len);

/**
 * Is what was not found under @a hash worth a record? While there is room, everything is. With less
 * than a 16th free, only what is asked for often (base/ghosts.h): otherwise records would push out
 * one another before they are of any use. Takes no lock.
 */
bool htc_store_admits(htc_store *store, uint64_t hash);

/** A record to be stored. Bytes are copied. */
typedef struct htc_put {
    uint64_t hash; /* htc_store_hash(key) */
    const char *key;
    size_t key_len;
    htc_kind kind;
    uint32_t flags;
    const htc_identity *id; /* may be NULL for HTC_KIND_ABSENT */
    const void *payload;
    size_t payload_len;
    uint64_t owner;         /* hash of the document root it counts against */
    unsigned share_percent; /* what that owner may hold while room is short; 1 to 100 */
    int64_t checked_at;     /* htc_mono_ms() from before the file was looked at */
} htc_put;

/**
 * Store a record under a new version, replacing the key's old one.
 * @return APR_SUCCESS with *ref; APR_ENOSPC when it is larger than its share or the whole store
 *         (nothing was evicted for it; an old record of the key is gone); APR_EINVAL for a key
 *         longer than HTC_STORE_MAX_KEY or a kind that is none; APR_EBUSY when the lock was not to
 *         be had, or the store is being emptied. *ref is all zero then.
 */
apr_status_t htc_store_put(htc_store *store, const htc_put *put, htc_ref *ref);

/**
 * Store @a n records under one hold of the lock. refs[i].version is 0 where the i-th could not be
 * stored; the return value is that of the first that could not.
 */
apr_status_t htc_store_put_all(htc_store *store, const htc_put *puts, size_t n, htc_ref *refs);

/**
 * Give a record a new identity and flags and keep version and payload: the file's bytes were read
 * again and are the same. No-op when @a ref is no longer current.
 */
apr_status_t htc_store_reidentify(htc_store *store, htc_ref ref, const htc_identity *id,
                                  uint32_t flags, int64_t checked_at);

/** Remove a record if @a ref is still current. */
apr_status_t htc_store_drop(htc_store *store, htc_ref ref);

/**
 * Remove every record, some at a time: others get the lock in between, but can store nothing before
 * it is done (APR_EBUSY).
 * @return APR_SUCCESS; APR_EBUSY when the lock was not to be had: if it was begun, processes that
 * store something do the rest.
 */
apr_status_t htc_store_clear(htc_store *store);

/** True when htc_store_touch() would do nothing. */
static inline bool htc_store_touched(const htc_slot_hot *slot)
{
    return atomic_load_explicit(&slot->touched, memory_order_relaxed) &&
           atomic_load_explicit(&slot->used, memory_order_relaxed);
}

/** Mark a slot as recently used. Loads, and stores only when it was not marked. */
static inline void htc_store_touch(htc_slot_hot *slot)
{
    if (htc_store_touched(slot))
        return;
    atomic_store_explicit(&slot->touched, 1, memory_order_relaxed);
    atomic_store_explicit(&slot->used, 1, memory_order_relaxed);
}

/**
 * Is version @a version still there, and since when is it known to be true? The order of the two
 * loads matters: a writer changes `version` first, so that a time read before the version cannot be
 * that of a newer record. The other way round an old record could pass for one just checked.
 */
static inline bool htc_store_current(const htc_slot_hot *slot, uint64_t version,
                                     int64_t *checked_at)
{
    *checked_at = atomic_load_explicit(&slot->checked_at, memory_order_acquire);
    HTC_LOAD_POINT("checked_at");
    return atomic_load_explicit(&slot->version, memory_order_acquire) == version;
}

/**
 * Try to become the one process that revalidates: change checked_at from @a seen to @a until
 * atomically. The others go on with the record meanwhile. @a until should be a short lease, so
 * that a claimant that dies does not keep the record unchecked for long.
 */
static inline bool htc_store_claim(htc_slot_hot *slot, int64_t seen, int64_t until)
{
    HTC_LOAD_POINT("claim");
    return atomic_compare_exchange_strong_explicit(&slot->checked_at, &seen, until,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/**
 * After a claim: the record was found to be true at @a now, a time from before the claim. @a seen
 * is what is there since. A late call changes nothing: when another process has found the record
 * untrue meanwhile, it stays so.
 */
static inline void htc_store_confirm(htc_slot_hot *slot, int64_t seen, int64_t now)
{
    htc_store_claim(slot, seen, now);
}

/**
 * The record was found to be untrue: whatever is said of it meanwhile, it is not to be used. @a
 * never: a time so long ago that no process trusts it. If the slot was given to another record
 * meanwhile, that one is then only checked sooner.
 */
static inline void htc_store_refute(htc_slot_hot *slot, int64_t never)
{
    HTC_LOAD_POINT("refute");
    atomic_store_explicit(&slot->checked_at, never, memory_order_release);
}

/** To be called in each process that counts, so that it does so in other cache lines than most others
 * do. */
void htc_counters_join(htc_store *store);

/** Add @a n to a counter. Lock-free, exact, striped to keep processors off each other's lines. */
void htc_count(htc_store *store, enum htc_counter counter, uint64_t n);

/** Sum of a counter over all stripes. HTC_C_lookups is never counted, it is a sum of others. */
uint64_t htc_counter_read(const htc_store *store, enum htc_counter counter);

/** Set all counters to 0. What is counted in the same moment may be lost or stay. */
void htc_counters_reset(htc_store *store);
/** When they were set to 0 last, in seconds since 1970, as some process says. */
int64_t htc_counters_since(const htc_store *store);

typedef struct htc_store_stats {
    uint64_t entries, absent, trees, stock; /* records, in all and by kind */
    uint64_t bytes_used;                    /* slots and blocks of live records */
    uint64_t bytes_total;                   /* the whole segment */
    uint64_t owners;                        /* document roots that hold records */
    uint64_t slots_total;
} htc_store_stats;

/** Totals; takes no lock, so they are exact only while no process writes. */
void htc_store_stats_get(const htc_store *store, htc_store_stats *stats);

/**
 * Visit every record (a snapshot entry at a time, no lock held during the call-back).
 * @a key is NUL-terminated and valid during the call only. Return false to stop.
 */
typedef bool (*htc_store_visit)(void *baton, const char *key, size_t key_len, const htc_info *info);
void htc_store_each(htc_store *store, htc_store_visit visit, void *baton);

/**
 * The same from a place on, to go through all records in pieces: *place is 0 at first, and is set
 * to the place behind the last record looked at; UINT32_MAX: there are no more. @a wanted (may be
 * NULL) is asked first, with the record's checked_at: what it does not want is not read at all. No
 * more than @a looks records are asked about.
 */
typedef bool (*htc_store_wanted)(void *baton, int64_t checked_at);
void htc_store_some(htc_store *store, uint32_t *place, uint32_t looks, htc_store_wanted wanted,
                    htc_store_visit visit, void *baton);

/** Some of the records; what is 0 selects nothing away. */
typedef struct htc_selection {
    htc_kind kind;
    uint32_t flags; /* one of these at least */
} htc_selection;

/** The same for some; the others are passed over without a look at their bodies. */
void htc_store_each_of(htc_store *store, const htc_selection *selection, htc_store_visit visit,
                       void *baton);

/** How many there are of these. */
uint64_t htc_store_count_of(const htc_store *store, const htc_selection *selection);

/** The key of a record, NUL-terminated and from @a pool, by its hash alone, and what
 * htc_store_find() says of it. NULL: there is no such record. */
char *htc_store_name(htc_store *store, uint64_t hash, apr_pool_t *pool, htc_info *info);

/** Put the slots in large pages as soon as most of their memory is in use. To be called now and then
 * by one process of the server; may take as long as copying that memory. Takes no lock.
 * @return true when they are. */
bool htc_store_enlarge_pages(htc_store *store);
/** Enter them in the page table of a process that serves, once they are in large pages. */
void htc_store_meet_pages(const htc_store *store);

/** A directory that is used often, for the builder of the next configuration generation. */
typedef struct htc_favourite {
    uint64_t record; /* hash of a record's key; 0: there is none */
    uint64_t owner;  /* whose its configuration is */
    uint64_t server; /* which virtual host, by a hash */
} htc_favourite;

/** The list of them lies in the segment. Place @a i of it, from 0; false: it has fewer places. What
 * is read there may be anything. One process writes. */
bool htc_store_favourite_set(htc_store *store, size_t i, const htc_favourite *favourite);
bool htc_store_favourite_get(const htc_store *store, size_t i, htc_favourite *favourite);
/** How many places it has. */
size_t htc_store_favourites(const htc_store *store);

/** True the first time that a process of the server says so: for what is to be logged once. */
bool htc_store_say(htc_store *store);

#endif
