/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/process_cache.h
 * What a process keeps for itself: reference-counted objects found by hash, bounded in bytes. It
 * holds opened redirect tables, and the compiled patterns of redirect maps that .htaccess files
 * name, and knows neither.
 *
 * Any thread may call any function. The cache has several locks, and a call holds one of them for
 * a short time. Neither a payload's use nor its end is under a lock.
 *
 * When the bound is passed, the cache lets go of objects that were not used for long. The last one
 * to release an object frees it. So what is in use stays, and may take more than the bound.
 *
 * Nothing here depends on a pool being thread-safe: the cache allocates with malloc. It is never
 * destroyed, because requests may still release what they hold while a child ends.
 */
#ifndef HTC_CACHE_PROCESS_CACHE_H
#define HTC_CACHE_PROCESS_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>

typedef struct htc_process_cache htc_process_cache;
typedef struct htc_process_node htc_process_node;

/** True when @a data is the object that @a key describes. Called with a lock held. */
typedef bool (*htc_process_cache_match)(const void *data, const void *key);
/** Frees a payload. Called without a lock, in the thread that was the last to release it. */
typedef void (*htc_process_cache_free)(void *data);

/**
 * Make an empty cache. @a max_bytes bounds all costs with the nodes, but not the table, which is
 * small.
 * @return APR_SUCCESS; APR_ENOMEM; or the error of a mutex. Then *cache is NULL.
 */
apr_status_t htc_process_cache_create(htc_process_cache **cache, uint64_t max_bytes,
                                      htc_process_cache_free free_fn);

/** The payload of a node on which the caller holds a reference. */
void *htc_process_cache_data(const htc_process_node *node);

/** Find an object and take a reference, or NULL. Marks it as used. The low bits of @a hash must
 * differ between objects. */
htc_process_node *htc_process_cache_acquire(htc_process_cache *cache, uint64_t hash,
                                            htc_process_cache_match match, const void *key);

/**
 * Insert @a data under @a hash, in place of the object that matches @a key. Takes ownership of
 * @a data in every case. @a cost is its size in bytes, without the node.
 * @return the node with one reference for the caller. NULL: it is larger than the bound, or there
 *         is no memory; then @a data was freed, and an object that matches @a key stays.
 */
htc_process_node *htc_process_cache_insert(htc_process_cache *cache, uint64_t hash,
                                           htc_process_cache_match match, const void *key,
                                           void *data, size_t cost);

/** Release a reference. */
void htc_process_cache_release(htc_process_cache *cache, htc_process_node *node);

#endif
