/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The process cache. Called by redirects/map.c for every request that asks a redirect map
 * (htc_process_cache_acquire), and where a table is opened or a pattern compiled (the rest).
 *
 * The table is an array of sets of eight slots. An object may lie in one of two sets, which its
 * hash names. A slot holds a pointer to a node with six more bits of the hash in the low bits of
 * the pointer, so that a look-up reads other objects' nodes hardly ever. Nothing moves once it is
 * in a slot.
 *
 * How a reader and the end of an object agree: refs counts the table (1 while linked) and all
 * holders of the node. A reader may add to it only while it is not 0. Once it is 0 it cannot be
 * brought back, and the thread that made it 0 owns the node alone: frees the payload, then gives
 * the node to the list of spare ones. A reader that meets such a node, or one that was given to
 * another object since, reads memory that still is a node, and finds refs at 0 or another hash.
 *
 * Memory orders. refs is the only word that readers depend on:
 *   - htc_process_cache_insert fills a node, then stores refs with release; a reader's increment
 *     reads that value, or one that increments and decrements made of it, with acquire. So a holder
 *     of a reference sees the payload and the hash that the node was filled with.
 *   - Every decrement is acquire and release: all use of the payload comes before its end.
 *   - Slots are stored with release and loaded with acquire, for the memory of a new slab.
 *   - hash is read before a reference is held, as a hint, hence atomic and relaxed; once one is
 *     held it cannot change, and is compared again.
 *   - touched and the totals decide nothing that must be exact: relaxed.
 */
#include "cache/process_cache.h"
#include "base/base.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define WAYS             8   /* slots of a set: one cache line */
#define LINE             64  /* bytes of a cache line; nodes are aligned to it */
#define BYTES_PER_OBJECT 512 /* assumed to size the table: one slot for so much of the bound */
#define MIN_SETS         64
#define MAX_SETS         ((size_t)1 << 22)
#define SLAB_NODES       127 /* with the slab's link, 8 KB */

/* The low half of the hash is the index of one set, the high half that of the other. The top
 * bits are kept in the slot. */
#define SECOND_SHIFT 32
#define TAG_SHIFT    58
#define TAG_MASK     ((uintptr_t)LINE - 1)

static_assert(UINT64_MAX >> TAG_SHIFT == TAG_MASK, "the tag fits below an aligned pointer");
static_assert(MAX_SETS <= (size_t)1 << (TAG_SHIFT - SECOND_SHIFT),
              "no index shares the tag's bits");

struct htc_process_node {
    alignas(LINE) _Atomic uint32_t refs; /* 0: being freed, or spare */
    _Atomic uint32_t touched;            /* CLOCK reference bit */
    _Atomic uint64_t hash;
    void *data;
    size_t cost;
    htc_process_node *next; /* of a node with refs 0: in the list it waits in */
};

typedef struct htc_slab {
    struct htc_slab *next;
    htc_process_node nodes[SLAB_NODES];
} htc_slab;

typedef _Atomic uintptr_t htc_slot;

struct htc_process_cache {
    htc_slot *slots; /* WAYS for each set, aligned to LINE */
    size_t nsets;    /* a power of two */
    htc_process_cache_free free_fn;
    uint64_t max_bytes;
    void *slots_memory; /* what slots lies in */

    alignas(LINE) pthread_mutex_t lock; /* taken to change anything below, or a slot */
    htc_slab *slabs;
    htc_process_node *spare;
    size_t hand;                  /* CLOCK: next slot to look at */
    _Atomic uint64_t fixed_bytes; /* of bytes: the cache itself, which no eviction gives back */
    _Atomic uint64_t entries, bytes, evictions; /* atomic for htc_process_cache_stats_get() only */
};

/* Payloads that this thread is freeing. A payload's free function may release other nodes, whose
 * payloads hold others in turn: they wait here for the loop in free_list() instead of nesting in
 * it. A chain of any length is freed with a stack of constant depth. */
typedef struct graveyard {
    const htc_process_cache *cache;
    htc_process_node *list;
} graveyard;

/* Must be seen by htc_process_cache_release() inside of the call-back, which passes no context
 * along. */
static _Thread_local graveyard *freeing;

static void push(htc_process_node **list, htc_process_node *node)
{
    node->next = *list;
    *list = node;
}

/* The totals are changed under the lock only, so that a load and a store do. */
static void add_to(_Atomic uint64_t *total, uint64_t n)
{
    atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

static void take_from(_Atomic uint64_t *total, uint64_t n)
{
    atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) - n,
                          memory_order_relaxed);
}

/* --- slots ----------------------------------------------------------------------------------- */

static inline htc_slot *first_set(const htc_process_cache *cache, uint64_t hash)
{
    return cache->slots + ((size_t)hash & (cache->nsets - 1)) * WAYS;
}

static inline htc_slot *second_set(const htc_process_cache *cache, uint64_t hash)
{
    return cache->slots + ((size_t)(hash >> SECOND_SHIFT) & (cache->nsets - 1)) * WAYS;
}

static inline uintptr_t tag_of(uint64_t hash)
{
    return (uintptr_t)(hash >> TAG_SHIFT);
}

static inline htc_process_node *node_in(uintptr_t value)
{
    return (htc_process_node *)(value & ~TAG_MASK);
}

/* The node in a slot, under the lock. */
static htc_process_node *linked_in(htc_slot *slot)
{
    return node_in(atomic_load_explicit(slot, memory_order_relaxed));
}

/* --- references ------------------------------------------------------------------------------ */

static inline bool try_retain(htc_process_node *node)
{
    uint32_t refs = atomic_load_explicit(&node->refs, memory_order_relaxed);

    do {
        if (refs == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&node->refs, &refs, refs + 1,
                                                    memory_order_acquire, memory_order_relaxed));
    return true;
}

static inline bool drop_reference(htc_process_node *node)
{
    return atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) == 1;
}

/* The cache's reference, if it is the only one. */
static bool drop_only_reference(htc_process_node *node)
{
    uint32_t one = 1;

    return atomic_compare_exchange_strong_explicit(&node->refs, &one, 0, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static bool in_use(htc_process_node *node)
{
    return atomic_load_explicit(&node->refs, memory_order_relaxed) > 1;
}

static void give_back(htc_process_cache *cache, htc_process_node *node)
{
    pthread_mutex_lock(&cache->lock);
    take_from(&cache->bytes, node->cost);
    push(&cache->spare, node);
    pthread_mutex_unlock(&cache->lock);
}

/* Free the payloads of nodes whose refs are 0, and of those that this leads to. No lock is held. */
static void free_list(htc_process_cache *cache, htc_process_node *list)
{
    graveyard here = {cache, list};
    graveyard *outer = freeing;

    freeing = &here;
    while (here.list) {
        htc_process_node *node = here.list;

        here.list = node->next;
        cache->free_fn(node->data);
        give_back(cache, node);
    }
    freeing = outer;
}

static HTC_COLD void bury(htc_process_cache *cache, htc_process_node *node)
{
    if (freeing && freeing->cache == cache) {
        push(&freeing->list, node);
        return;
    }
    node->next = NULL;
    free_list(cache, node);
}

void htc_process_cache_retain(htc_process_node *node)
{
    atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
}

HTC_EACH void htc_process_cache_release(htc_process_cache *cache, htc_process_node *node)
{
    if (drop_reference(node))
        bury(cache, node);
}

void *htc_process_cache_data(const htc_process_node *node)
{
    return node->data;
}

size_t htc_process_cache_cost(const htc_process_node *node)
{
    return node->cost;
}

/* --- look-up --------------------------------------------------------------------------------- */

static inline void touch(htc_process_node *node)
{
    if (!atomic_load_explicit(&node->touched, memory_order_relaxed))
        atomic_store_explicit(&node->touched, 1, memory_order_relaxed);
}

static inline bool hash_is(htc_process_node *node, uint64_t hash)
{
    return atomic_load_explicit(&node->hash, memory_order_relaxed) == hash;
}

static inline htc_process_node *acquire_from(htc_process_cache *cache, htc_slot *set, uint64_t hash,
                                             htc_process_cache_match match, const void *key)
{
    for (int i = 0; i < WAYS; i++) {
        uintptr_t value = atomic_load_explicit(&set[i], memory_order_acquire);
        htc_process_node *node = node_in(value);

        if (!node || (value & TAG_MASK) != tag_of(hash) || !hash_is(node, hash) ||
            !try_retain(node))
            continue;
        if (hash_is(node, hash) && match(node->data, key)) {
            touch(node);
            return node;
        }
        htc_process_cache_release(cache, node);
    }
    return NULL;
}

HTC_EACH htc_process_node *htc_process_cache_acquire(htc_process_cache *cache, uint64_t hash,
                                                     htc_process_cache_match match, const void *key)
{
    htc_process_node *node = acquire_from(cache, first_set(cache, hash), hash, match, key);

    return node ? node : acquire_from(cache, second_set(cache, hash), hash, match, key);
}

/* --- unlinking, all under the lock ----------------------------------------------------------- */

static void clear_slot(htc_process_cache *cache, htc_slot *slot)
{
    /* A reader that still sees the node is a reader that came before. */
    atomic_store_explicit(slot, 0, memory_order_relaxed);
    take_from(&cache->entries, 1);
}

/* Unlink whatever is in a slot. It is added to *dead when no request holds it. */
static void unlink_slot(htc_process_cache *cache, htc_slot *slot, htc_process_node **dead)
{
    htc_process_node *node = linked_in(slot);

    clear_slot(cache, slot);
    if (drop_reference(node))
        push(dead, node);
}

static bool matches(htc_slot *slot, uint64_t hash, htc_process_cache_match match, const void *key)
{
    htc_process_node *node = linked_in(slot);

    return node && hash_is(node, hash) && match(node->data, key);
}

static void forget(htc_process_cache *cache, uint64_t hash, htc_process_cache_match match,
                   const void *key, htc_process_node **dead)
{
    htc_slot *sets[2] = {first_set(cache, hash), second_set(cache, hash)};

    for (int i = 0; i < 2 * WAYS; i++) {
        htc_slot *slot = &sets[i / WAYS][i % WAYS];
        if (matches(slot, hash, match, key))
            unlink_slot(cache, slot, dead);
    }
}

static bool take_touch(htc_process_node *node)
{
    if (!atomic_load_explicit(&node->touched, memory_order_relaxed))
        return false;
    atomic_store_explicit(&node->touched, 0, memory_order_relaxed);
    return true;
}

/*
 * CLOCK: unlink objects that only the cache holds until @a wanted bytes are on *dead. The first
 * round spares those that were used since the hand came by last; the second takes them too. Objects
 * in use are left alone: their bytes would not come back before they are released anyway, and until
 * then they would be missed.
 */
static void evict_bytes(htc_process_cache *cache, uint64_t wanted, htc_process_node **dead)
{
    size_t nslots = cache->nsets * WAYS;
    uint64_t found = 0;

    for (size_t step = 0; step < 2 * nslots && found < wanted; step++) {
        htc_slot *slot = &cache->slots[cache->hand];
        htc_process_node *node = linked_in(slot);

        cache->hand = (cache->hand + 1) & (nslots - 1);
        if (!node || in_use(node) || (take_touch(node) && step < nslots) ||
            !drop_only_reference(node))
            continue;
        clear_slot(cache, slot);
        push(dead, node);
        add_to(&cache->evictions, 1);
        found += node->cost;
    }
}

/* How much an object would be missed. */
static unsigned rank(htc_process_node *node)
{
    unsigned touched = atomic_load_explicit(&node->touched, memory_order_relaxed);

    return (in_use(node) ? 2 : 0) + touched;
}

/* Both sets are full: empty the slot of the object that is missed least, even one in use. */
static htc_slot *evict_slot(htc_process_cache *cache, htc_slot *const sets[2],
                            htc_process_node **dead)
{
    htc_slot *least = NULL;
    unsigned least_rank = UINT32_MAX;

    for (int i = 0; i < 2 * WAYS; i++) {
        htc_slot *slot = &sets[i / WAYS][i % WAYS];
        htc_process_node *node = linked_in(slot);
        unsigned r = rank(node);

        if (r < least_rank) {
            least = slot;
            least_rank = r;
        }
    }
    /* All were used: from now on they have to prove it again. */
    for (int i = 0; (least_rank & 1) && i < 2 * WAYS; i++)
        take_touch(linked_in(&sets[i / WAYS][i % WAYS]));
    unlink_slot(cache, least, dead);
    add_to(&cache->evictions, 1);
    return least;
}

/* --- insertion ------------------------------------------------------------------------------- */

static void account_fixed(htc_process_cache *cache, uint64_t bytes)
{
    add_to(&cache->fixed_bytes, bytes);
    add_to(&cache->bytes, bytes);
}

static bool add_slab(htc_process_cache *cache)
{
    htc_slab *slab = aligned_alloc(LINE, sizeof(*slab));

    if (!slab)
        return false;
    slab->next = cache->slabs;
    cache->slabs = slab;
    for (int i = SLAB_NODES - 1; i >= 0; i--) {
        atomic_init(&slab->nodes[i].refs, 0);
        atomic_init(&slab->nodes[i].touched, 0);
        atomic_init(&slab->nodes[i].hash, 0);
        push(&cache->spare, &slab->nodes[i]);
    }
    account_fixed(cache, sizeof(*slab));
    return true;
}

bool htc_process_cache_fits(const htc_process_cache *cache, size_t cost)
{
    return cost <=
           cache->max_bytes - atomic_load_explicit(&cache->fixed_bytes, memory_order_relaxed);
}

/* Take a node, and account for its payload. NULL when there is no room; what must be freed to make
 * some is on *dead then. Others are evicted only when what is there already was not enough. */
static htc_process_node *reserve(htc_process_cache *cache, size_t cost, htc_process_node **dead)
{
    uint64_t left = cache->max_bytes - atomic_load_explicit(&cache->bytes, memory_order_relaxed);
    uint64_t need = (uint64_t)cost + (cache->spare ? 0 : sizeof(htc_slab));
    htc_process_node *node;

    if (!htc_process_cache_fits(cache, cost))
        return NULL;
    if (need > left) {
        if (!*dead)
            evict_bytes(cache, need - left, dead);
        return NULL;
    }
    if (!cache->spare && !add_slab(cache))
        return NULL;
    node = cache->spare;
    cache->spare = node->next;
    add_to(&cache->bytes, cost);
    return node;
}

/* The first of the free slots: a look-up comes to it first. */
static unsigned used_slots(htc_slot *set, htc_slot **free_slot)
{
    unsigned used = 0;

    for (int i = WAYS - 1; i >= 0; i--) {
        if (linked_in(&set[i]))
            used++;
        else
            *free_slot = &set[i];
    }
    return used;
}

/* A slot in the emptier one of the two sets. */
static htc_slot *slot_for(htc_process_cache *cache, uint64_t hash, htc_process_node **dead)
{
    htc_slot *const sets[2] = {first_set(cache, hash), second_set(cache, hash)};
    htc_slot *first = NULL, *second = NULL;
    unsigned in_first = used_slots(sets[0], &first);

    if (used_slots(sets[1], &second) < in_first)
        return second;
    return first ? first : evict_slot(cache, sets, dead);
}

static void link_node(htc_process_cache *cache, htc_process_node *node, uint64_t hash,
                      htc_process_node **dead)
{
    htc_slot *slot = slot_for(cache, hash, dead);

    atomic_store_explicit(&node->hash, hash, memory_order_relaxed);
    atomic_store_explicit(&node->touched, 0, memory_order_relaxed);
    atomic_store_explicit(&node->refs, 2, memory_order_release); /* the cache's, the caller's */
    atomic_store_explicit(slot, (uintptr_t)node | tag_of(hash), memory_order_release);
    add_to(&cache->entries, 1);
}

htc_process_node *htc_process_cache_insert(htc_process_cache *cache, uint64_t hash,
                                           htc_process_cache_match match, const void *key,
                                           void *data, size_t cost)
{
    htc_process_node *node, *dead;

    /* Each turn but the last frees at least one object that was linked. */
    do {
        dead = NULL;
        pthread_mutex_lock(&cache->lock);
        forget(cache, hash, match, key, &dead);
        node = reserve(cache, cost, &dead);
        if (node) {
            node->data = data;
            node->cost = cost;
            link_node(cache, node, hash, &dead);
        }
        pthread_mutex_unlock(&cache->lock);
        free_list(cache, dead);
    } while (!node && dead);
    if (!node)
        cache->free_fn(data);
    return node;
}

void htc_process_cache_remove(htc_process_cache *cache, htc_process_node *node)
{
    uint64_t hash = atomic_load_explicit(&node->hash, memory_order_relaxed);
    htc_slot *sets[2] = {first_set(cache, hash), second_set(cache, hash)};

    pthread_mutex_lock(&cache->lock);
    for (int i = 0; i < 2 * WAYS; i++) {
        htc_slot *slot = &sets[i / WAYS][i % WAYS];

        if (linked_in(slot) != node)
            continue;
        clear_slot(cache, slot);
        drop_reference(node); /* not the last: the caller has one */
    }
    pthread_mutex_unlock(&cache->lock);
}

/* --- life ------------------------------------------------------------------------------------ */

static size_t sets_for(uint64_t max_bytes)
{
    size_t nsets = MIN_SETS;

    while (nsets < MAX_SETS && nsets < max_bytes / (BYTES_PER_OBJECT * WAYS))
        nsets *= 2;
    return nsets;
}

/* Large allocations come as untouched zero pages: an idle cache costs address space, not memory. */
static bool make_slots(htc_process_cache *cache)
{
    size_t bytes = cache->nsets * WAYS * sizeof(htc_slot);

    cache->slots_memory = calloc(1, bytes + LINE);
    if (!cache->slots_memory)
        return false;
    cache->slots =
        (htc_slot *)(((uintptr_t)cache->slots_memory + LINE - 1) & ~(uintptr_t)(LINE - 1));
    account_fixed(cache, sizeof(*cache) + bytes + LINE);
    return true;
}

apr_status_t htc_process_cache_create(htc_process_cache **cache_out, uint64_t max_bytes,
                                      htc_process_cache_free free_fn)
{
    htc_process_cache *cache = aligned_alloc(LINE, sizeof(*cache));
    apr_status_t rv;

    *cache_out = NULL;
    if (!cache)
        return APR_ENOMEM;
    memset(cache, 0, sizeof(*cache));
    cache->nsets = sets_for(max_bytes);
    cache->free_fn = free_fn;
    cache->max_bytes = max_bytes;
    rv = pthread_mutex_init(&cache->lock, NULL);
    if (rv != APR_SUCCESS) {
        free(cache);
        return rv;
    }
    if (!make_slots(cache) || !add_slab(cache))
        rv = APR_ENOMEM;
    else if (cache->fixed_bytes >= max_bytes)
        rv = APR_EINVAL;
    if (rv != APR_SUCCESS)
        htc_process_cache_destroy(cache);
    else
        *cache_out = cache;
    return rv;
}

static void unlink_all(htc_process_cache *cache)
{
    htc_process_node *dead = NULL;

    for (size_t i = 0; cache->slots && i < cache->nsets * WAYS; i++) {
        if (linked_in(&cache->slots[i]))
            unlink_slot(cache, &cache->slots[i], &dead);
    }
    free_list(cache, dead);
}

void htc_process_cache_destroy(htc_process_cache *cache)
{
    unlink_all(cache);
    while (cache->slabs) {
        htc_slab *next = cache->slabs->next;

        free(cache->slabs);
        cache->slabs = next;
    }
    free(cache->slots_memory);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

void htc_process_cache_stats_get(const htc_process_cache *cache, htc_process_cache_stats *stats)
{
    stats->entries = atomic_load_explicit(&cache->entries, memory_order_relaxed);
    stats->bytes = atomic_load_explicit(&cache->bytes, memory_order_relaxed);
    stats->max_bytes = cache->max_bytes;
    stats->evictions = atomic_load_explicit(&cache->evictions, memory_order_relaxed);
}
