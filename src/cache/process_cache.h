/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/process_cache.h
 * What a process keeps for itself: reference-counted objects found by hash, bounded in accounted
 * bytes, evicted by CLOCK. It holds opened redirect tables, and the compiled patterns of redirect
 * maps that .htaccess files name, and knows neither.
 *
 * Look-ups take no lock: the table is an array of sets of eight atomic pointers, and nodes are
 * type-stable (their memory is reused only for nodes, and freed with the cache), so that a reader
 * may try to take a reference to a node that another thread is just freeing, and notice that it
 * failed.
 * Insertion, removal and eviction take the cache's mutex.
 *
 * A node's payload is freed, by the cache's free function, when it is no longer in the cache and
 * its last reference was released; by whichever thread does that. Accounted bytes are given back
 * then, not at unlinking: the bound is on what the process holds, not on what the cache can find.
 *
 * Nothing here depends on a pool being thread-safe; the cache allocates with malloc.
 */
#ifndef HTC_CACHE_PROCESS_CACHE_H
#define HTC_CACHE_PROCESS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>

typedef struct htc_process_cache htc_process_cache;
typedef struct htc_process_node htc_process_node;

/** True when @a data is the object that @a key describes. Called with a reference held. */
typedef bool (*htc_process_cache_match)(const void *data, const void *key);
/** Frees a payload. May itself call htc_process_cache_release on other nodes of the same cache. */
typedef void (*htc_process_cache_free)(void *data);

/**
 * Make an empty cache that holds at most @a max_bytes, its own table and nodes included.
 * @return APR_SUCCESS; APR_EINVAL when not even an empty cache fits in @a max_bytes (16 KB do);
 *         APR_ENOMEM; or the error of the mutex.
 */
apr_status_t htc_process_cache_create(htc_process_cache **cache, uint64_t max_bytes,
                                      htc_process_cache_free free_fn);

/** Unlink everything and free the cache. No other thread may use it; every reference held by
 * callers  must have been released. */
void htc_process_cache_destroy(htc_process_cache *cache);

/** The payload of a node on which the caller holds a reference. */
void *htc_process_cache_data(const htc_process_node *node);
/** What it was inserted with as its cost, in bytes. */
size_t htc_process_cache_cost(const htc_process_node *node);

/** Find and take a reference, or NULL. Lock-free; marks the node as recently used. @a hash must be
 *  well mixed in all of its 64 bits. */
htc_process_node *htc_process_cache_acquire(htc_process_cache *cache, uint64_t hash,
                                            htc_process_cache_match match, const void *key);

/** True when an object of this cost is not larger than all the room that the cache has for
 * objects. */
bool htc_process_cache_fits(const htc_process_cache *cache, size_t cost);

/**
 * Insert @a data under @a hash, unlinking an object that matches @a key first, evicting as needed.
 * Takes ownership of @a data in every case. @a cost is its accounted size in bytes, without the
 * node. Not to be called from the free function.
 * @return the node with one reference for the caller; NULL when there was no room (everything else
 *         is in use, or it is larger than the bound) or no memory, and @a data was freed.
 */
htc_process_node *htc_process_cache_insert(htc_process_cache *cache, uint64_t hash,
                                           htc_process_cache_match match, const void *key,
                                           void *data, size_t cost);

/** Unlink a node if it is still in the cache. The caller's reference stays. */
void htc_process_cache_remove(htc_process_cache *cache, htc_process_node *node);

/** Take another reference; the caller must already hold one. */
void htc_process_cache_retain(htc_process_node *node);

/** Release a reference. */
void htc_process_cache_release(htc_process_cache *cache, htc_process_node *node);

typedef struct htc_process_cache_stats {
    uint64_t entries;   /* linked */
    uint64_t bytes;     /* accounted bytes of everything not yet freed, and of the cache itself */
    uint64_t max_bytes; /* the bound */
    uint64_t evictions; /* unlinked to make room */
} htc_process_cache_stats;

void htc_process_cache_stats_get(const htc_process_cache *cache, htc_process_cache_stats *stats);

#endif
