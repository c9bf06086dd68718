/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The process cache: a hash table with chains. Buckets are divided among stripes. A stripe has a
 * lock, and a queue of its objects in the order in which they are looked at for eviction.
 *
 * refs counts the table (1 while an object is linked) and all holders. Only a look-up under the
 * stripe's lock adds to it, and only to an object that is linked. So an object that is in no chain
 * and has no holder can be freed without a lock.
 */
#include "cache/process_cache.h"

#include "base/base.h"

#include <apr_ring.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STRIPES          32   /* a power of two: so that threads seldom meet at a lock */
#define LINE             64   /* bytes of a cache line */
#define BYTES_PER_BUCKET 4096 /* of the bound: what a compiled pattern may take */
#define MIN_BUCKETS      256  /* a power of two, at least STRIPES */
#define MAX_BUCKETS      ((size_t)1 << 20)

struct htc_process_node {
    htc_process_node *next; /* in the bucket */
    APR_RING_ENTRY(htc_process_node) link;
    uint64_t hash;
    void *data;
    size_t cost; /* with the node */
    _Atomic uint32_t refs;
    bool touched; /* since it was looked at for eviction; under the lock */
};

typedef struct stripe {
    alignas(LINE) pthread_mutex_t lock; /* for all below, and the stripe's buckets */
    APR_RING_HEAD(ring, htc_process_node) queue;
    size_t n;
} stripe;

struct htc_process_cache {
    stripe stripes[STRIPES];
    htc_process_node **buckets;
    size_t nbuckets; /* a power of two */
    htc_process_cache_free free_fn;
    uint64_t max_bytes;
    _Atomic uint64_t bytes; /* of what is not yet freed */
    _Atomic unsigned hand;  /* the stripe that is next to evict something */
};

static htc_process_node **bucket_of(const htc_process_cache *cache, uint64_t hash)
{
    return &cache->buckets[hash & (cache->nbuckets - 1)];
}

static stripe *stripe_of(htc_process_cache *cache, uint64_t hash)
{
    return &cache->stripes[hash % STRIPES];
}

/* The place that leads to the object, or the end of the chain. Under the lock. */
static htc_process_node **find(const htc_process_cache *cache, uint64_t hash,
                               htc_process_cache_match match, const void *key)
{
    htc_process_node **place = bucket_of(cache, hash);

    while (*place && ((*place)->hash != hash || !match((*place)->data, key)))
        place = &(*place)->next;
    return place;
}

htc_process_node *htc_process_cache_acquire(htc_process_cache *cache, uint64_t hash,
                                            htc_process_cache_match match, const void *key)
{
    stripe *of = stripe_of(cache, hash);
    htc_process_node *node;

    pthread_mutex_lock(&of->lock);
    node = *find(cache, hash, match, key);
    if (node) {
        atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
        node->touched = true;
    }
    pthread_mutex_unlock(&of->lock);
    return node;
}

void *htc_process_cache_data(const htc_process_node *node)
{
    return node->data;
}

void htc_process_cache_release(htc_process_cache *cache, htc_process_node *node)
{
    if (atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) > 1)
        return;
    cache->free_fn(node->data);
    atomic_fetch_sub_explicit(&cache->bytes, node->cost, memory_order_relaxed);
    free(node);
}

/* --- room ------------------------------------------------------------------------------------ */

/* Take an object out of its bucket and its queue. The table's reference is the caller's then. */
static htc_process_node *unlink_at(stripe *of, htc_process_node **place)
{
    htc_process_node *node = *place;

    *place = node->next;
    APR_RING_REMOVE(node, link);
    of->n--;
    return node;
}

static bool evictable(htc_process_node *node)
{
    bool touched = node->touched;

    if (atomic_load_explicit(&node->refs, memory_order_relaxed) > 1)
        return false;
    node->touched = false;
    return !touched;
}

/* An object of the stripe that nobody holds, and that was not used since the last time. */
static htc_process_node *evict(const htc_process_cache *cache, stripe *of)
{
    for (size_t left = of->n; left; left--) {
        htc_process_node *node = APR_RING_FIRST(&of->queue), **place;

        if (evictable(node)) {
            for (place = bucket_of(cache, node->hash); *place != node; place = &(*place)->next)
                ;
            return unlink_at(of, place);
        }
        APR_RING_REMOVE(node, link);
        APR_RING_INSERT_TAIL(&of->queue, node, htc_process_node, link);
    }
    return NULL;
}

/* One round spares what was used, and a second one takes it. After that, all is in use. */
static void make_room(htc_process_cache *cache)
{
    int in_vain = 0;

    while (atomic_load_explicit(&cache->bytes, memory_order_relaxed) > cache->max_bytes &&
           in_vain < 2 * STRIPES) {
        stripe *of = stripe_of(cache, atomic_fetch_add(&cache->hand, 1));
        htc_process_node *node;

        pthread_mutex_lock(&of->lock);
        node = evict(cache, of);
        pthread_mutex_unlock(&of->lock);
        if (node)
            htc_process_cache_release(cache, node);
        in_vain = node ? 0 : in_vain + 1;
    }
}

/* --- insertion ------------------------------------------------------------------------------- */

static htc_process_node *make_node(htc_process_cache *cache, uint64_t hash, void *data, size_t cost)
{
    htc_process_node *node = NULL;

    if (cost < cache->max_bytes && cost + sizeof(*node) <= cache->max_bytes)
        node = malloc(sizeof(*node));
    if (!node)
        return NULL;
    node->hash = hash;
    node->data = data;
    node->cost = cost + sizeof(*node);
    node->touched = false;
    atomic_init(&node->refs, 2); /* the table's, the caller's */
    atomic_fetch_add_explicit(&cache->bytes, node->cost, memory_order_relaxed);
    return node;
}

htc_process_node *htc_process_cache_insert(htc_process_cache *cache, uint64_t hash,
                                           htc_process_cache_match match, const void *key,
                                           void *data, size_t cost)
{
    stripe *of = stripe_of(cache, hash);
    htc_process_node *node = make_node(cache, hash, data, cost), *old = NULL, **place;

    if (!node) {
        cache->free_fn(data);
        return NULL;
    }
    pthread_mutex_lock(&of->lock);
    place = find(cache, hash, match, key);
    if (*place)
        old = unlink_at(of, place);
    place = bucket_of(cache, hash);
    node->next = *place;
    *place = node;
    APR_RING_INSERT_TAIL(&of->queue, node, htc_process_node, link);
    of->n++;
    pthread_mutex_unlock(&of->lock);
    if (old)
        htc_process_cache_release(cache, old);
    make_room(cache);
    return node;
}

apr_status_t htc_process_cache_create(htc_process_cache **made, uint64_t max_bytes,
                                      htc_process_cache_free free_fn)
{
    size_t nbuckets = MIN_BUCKETS, bytes;
    htc_process_cache *cache;

    *made = NULL;
    while (nbuckets < MAX_BUCKETS && nbuckets < max_bytes / BYTES_PER_BUCKET)
        nbuckets *= 2;
    /* Most processes never use it. Then no page of the buckets is touched. */
    bytes = sizeof(*cache) + nbuckets * sizeof(htc_process_node *);
    cache = htc_pages_take(bytes);
    if (!cache)
        return APR_ENOMEM;
    cache->free_fn = free_fn;
    cache->max_bytes = max_bytes;
    cache->nbuckets = nbuckets;
    cache->buckets = (htc_process_node **)(cache + 1);
    for (int i = 0; i < STRIPES; i++) {
        int rv = pthread_mutex_init(&cache->stripes[i].lock, NULL);

        if (rv) {
            htc_pages_give(cache, bytes);
            return rv;
        }
        APR_RING_INIT(&cache->stripes[i].queue, htc_process_node, link);
    }
    *made = cache;
    return APR_SUCCESS;
}
