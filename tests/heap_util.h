/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file heap_util.h
 * Shared by the test programs of the heap: objects whose every byte follows from their key and
 * build, and what must hold between any two stores of the builder.
 */
#ifndef HEAP_UTIL_H
#define HEAP_UTIL_H

#include "heap/internal.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>

#define HU_MAGIC UINT64_C(0x70616568206e6920)

/** The payload; its words are in its pool. */
typedef struct hu_object {
    uint64_t magic, key, build, nwords;
    uint64_t *words;
    const struct hu_object *needs[HTC_HEAP_NEEDS];
} hu_object;

/** What is to be built. */
typedef struct hu_spec {
    uint64_t key, build, owner;
    size_t nwords;
    unsigned share; /* 0: 100 per cent */
    htc_heap_kind kind;
    const hu_object *needs[HTC_HEAP_NEEDS];
} hu_spec;

/* A small generator, for tests that can be repeated. */
static inline uint32_t hu_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static inline uint64_t hu_mix(uint64_t n)
{
    n = (n ^ n >> 31) * UINT64_C(0x7fb5d329728ea185);
    n = (n ^ n >> 27) * UINT64_C(0x81dadef4bc2dd44d);
    return n ^ n >> 33;
}

/* Two keys share a hash. */
static inline uint64_t hu_hash(uint64_t key)
{
    return hu_mix(key / 2 + 1);
}

static inline uint64_t hu_word(const hu_object *object, size_t i)
{
    return hu_mix(object->key * UINT64_C(0x9E3779B97F4A7C15) ^ object->build) + i;
}

static inline bool hu_match(const void *object, const void *key)
{
    return ((const hu_object *)object)->key == *(const uint64_t *)key;
}

static inline void hu_fill(hu_object *object, const hu_spec *spec, apr_pool_t *pool)
{
    object->magic = HU_MAGIC;
    object->key = spec->key;
    object->build = spec->build;
    object->nwords = spec->nwords;
    object->words = apr_palloc(pool, spec->nwords * sizeof(uint64_t));
    for (size_t i = 0; i < spec->nwords; i++)
        object->words[i] = hu_word(object, i);
    memcpy(object->needs, spec->needs, sizeof(spec->needs));
}

/* NULL when every byte of it, and of what it needs, is as it was built; else what is wrong. */
static inline const char *hu_wrong(const hu_object *object, uint64_t key)
{
    for (; object; object = object->needs[0]) {
        if (object->magic != HU_MAGIC)
            return "no object";
        if (object->key != key)
            return "an object of another key";
        for (size_t i = 0; i < object->nwords; i++) {
            if (object->words[i] != hu_word(object, i))
                return "a mixture of objects";
        }
        for (int i = 1; i < HTC_HEAP_NEEDS; i++) {
            if (object->needs[i] && hu_wrong(object->needs[i], object->needs[i]->key))
                return "what an object needs is wrong";
        }
        key = object->needs[0] ? object->needs[0]->key : 0;
    }
    return NULL;
}

static inline apr_pool_t *hu_pool(void)
{
    apr_pool_t *pool;

    if (apr_initialize() != APR_SUCCESS || apr_pool_create(&pool, NULL) != APR_SUCCESS ||
        !htc_run_prepare())
        abort();
    return pool;
}

static inline htc_heap *hu_create(apr_pool_t *pool, uint64_t bytes, unsigned processes)
{
    const char *why = NULL;
    htc_heap *heap;

    if (htc_heap_create(&heap, bytes, processes, pool, &why) != APR_SUCCESS || why) {
        fprintf(stderr, "%s\n", why ? why : "?");
        abort();
    }
    return heap;
}

/* As after a request: nothing is kept any more. */
static inline void hu_answered(htc_heap *heap)
{
    static uint64_t n;
    htc_heap_request request = {.key = ++n << 8};

    for (int i = 0; i < HTC_GHOST_ASKS; i++) /* while the heap is full */
        htc_heap_ask(heap, &request, 1);
    while (htc_heap_next(heap, &request, 1))
        htc_heap_answer(heap, true, 1);
}

/* In the builder. NULL: there is no room. */
static inline const hu_object *hu_build(htc_heap *heap, const hu_spec *spec)
{
    const void *needs[HTC_HEAP_NEEDS];
    htc_heap_draft draft;
    bool any = false;

    for (int i = 0; i < HTC_HEAP_NEEDS; i++) {
        needs[i] = spec->needs[i];
        any = any || needs[i];
        if (needs[i])
            htc_heap_keep(heap, needs[i]);
    }
    if (!htc_heap_begin(heap, &draft, sizeof(hu_object), spec->nwords * sizeof(uint64_t),
                        spec->owner, spec->share ? spec->share : 100))
        return NULL;
    hu_fill(draft.payload, spec, draft.run.pool);
    if (!htc_run_whole(&draft.run)) {
        htc_heap_drop(heap, &draft);
        return NULL;
    }
    htc_heap_publish(heap, &draft, spec->kind, hu_hash(spec->key), hu_match, &spec->key, needs);
    if (any)
        hu_answered(heap);
    return draft.object;
}

static inline const hu_object *hu_find(const htc_heap *heap, uint64_t key)
{
    return htc_heap_find(heap, hu_hash(key), hu_match, &key);
}

/* One that an object may need, not as the first of its needs; or NULL. */
static inline const hu_object *hu_find_shallow(const htc_heap *heap, uint64_t key)
{
    const hu_object *found = hu_find(heap, key);

    return found && htc_heap_depth(heap, found) < HTC_HEAP_MOST_DEPTH ? found : NULL;
}

static inline const hu_object *hu_acquire(const htc_heap *heap, uint64_t key, htc_pin **pin)
{
    return htc_heap_acquire(heap, hu_hash(key), hu_match, &key, pin);
}

static inline const char *hu_wrong_block(const htc_heap *heap, const uint8_t *starts, uint32_t n,
                                         size_t at)
{
    const heap_block *block = heap_block_at(heap, n);

    if (n < heap->first || n >= heap->end || !starts[n])
        return "a word of the index leads to no block";
    if (heap_state(HEAP_GET(block->head)) != HEAP_USED)
        return "a word of the index leads to a block that is not used";
    if (heap_word(block->hash, n) != HEAP_GET(heap->index[at]))
        return "a word of the index has another object's hash";
    if (block->place != at || (at / HEAP_WAYS * HEAP_WAYS != heap_set(heap, block->hash, 0) &&
                               at / HEAP_WAYS * HEAP_WAYS != heap_set(heap, block->hash, 1)))
        return "a block is not where it belongs in the index";
    for (int i = 0; i < HTC_HEAP_NEEDS; i++) {
        uint32_t needs = block->needs[i];

        if (needs && (needs >= heap->end || !starts[needs] ||
                      heap_state(HEAP_GET(heap_block_at(heap, needs)->head)) != HEAP_USED))
            return "what an object needs is gone";
    }
    return hu_wrong(heap_payload(block), ((const hu_object *)heap_payload(block))->key);
}

/* What must hold at any moment, as long as all objects are of this kind. NULL: it does. */
static inline const char *hu_inconsistent(const htc_heap *heap)
{
    uint8_t *starts = calloc(1, heap->end);
    const char *wrong = NULL;
    uint32_t n = heap->first, granules;

    for (; n < heap->end; n += granules) {
        granules = heap_granules(HEAP_GET(heap_block_at(heap, n)->head));
        if (!granules || granules > heap->end - n ||
            heap_state(HEAP_GET(heap_block_at(heap, n)->head)) >= HEAP_STATES)
            break;
        starts[n] = 1;
    }
    if (n != heap->end)
        wrong = "blocks do not lie one behind the other";
    for (size_t at = 0; !wrong && at < heap->nsets * HEAP_WAYS; at++) {
        if (HEAP_GET(heap->index[at]))
            wrong = hu_wrong_block(heap, starts, (uint32_t)HEAP_GET(heap->index[at]), at);
    }
    free(starts);
    return wrong;
}

#define hu_assert_consistent(heap)                  \
    do {                                            \
        const char *wrong_ = hu_inconsistent(heap); \
        ck_assert_msg(!wrong_, "%s", wrong_);       \
    } while (0)

#define hu_assert_right(object, key)                    \
    do {                                                \
        const char *wrong_ = hu_wrong((object), (key)); \
        ck_assert_ptr_nonnull(object);                  \
        ck_assert_msg(!wrong_, "%s", wrong_);           \
    } while (0)

/* No block is used but those of this many objects. */
#define hu_assert_objects(heap, n)                                                         \
    do {                                                                                   \
        htc_heap_stats stats_;                                                             \
        htc_heap_stats_get((heap), &stats_);                                               \
        ck_assert_uint_eq(stats_.objects[0] + stats_.objects[1] + stats_.objects[2], (n)); \
    } while (0)

/* --- readers: processes that do what they are told ---------------------------------------------*/

#define HU_HELD 2000

typedef struct hu_reader {
    pid_t pid;
    int to, from;
} hu_reader;

typedef struct hu_order {
    enum { HU_ACQUIRE, HU_RELEASE, HU_VERIFY, HU_JUNK, HU_END } what;
    uint64_t key;
} hu_order;

typedef struct hu_reply {
    const hu_object *object;
    uint64_t build;
    const char *wrong; /* at the same address here */
} hu_reply;

static inline hu_reply hu_obey(htc_heap *heap, const hu_order *order)
{
    static struct {
        const hu_object *object;
        htc_pin *pin;
        uint64_t key, build;
    } held[HU_HELD];
    static unsigned n;
    hu_reply reply = {.object = NULL};

    if (order->what == HU_ACQUIRE && n < HU_HELD) {
        held[n].object = reply.object = hu_acquire(heap, order->key, &held[n].pin);
        if (reply.object) {
            held[n].key = order->key;
            held[n].build = reply.build = reply.object->build;
            reply.wrong = hu_wrong(reply.object, order->key);
            n++;
        }
    }
    for (unsigned i = 0; order->what == HU_VERIFY && i < n && !reply.wrong; i++) {
        reply.wrong = hu_wrong(held[i].object, held[i].key);
        if (!reply.wrong && held[i].object->build != held[i].build)
            reply.wrong = "a pinned object became another one";
    }
    for (; order->what == HU_RELEASE && n; n--)
        htc_heap_release(held[n - 1].pin);
    for (uint64_t i = 0; order->what == HU_JUNK && i < HEAP_ROW_WORDS; i++)
        atomic_store(&heap->row[i], i % 2 ? hu_mix(i) | 1 : hu_mix(i) % heap->end << 32 | 1);
    return reply;
}

/* The heap is joined when this returns. False as *joined: it had no row. */
static inline hu_reader hu_reader_start(htc_heap *heap, bool *joined)
{
    hu_reader reader;
    hu_order order;
    int to[2], from[2];
    bool got;

    if (pipe(to) || pipe(from))
        abort();
    reader.pid = fork();
    if (reader.pid < 0)
        abort();
    if (!reader.pid) {
        close(to[1]);
        close(from[0]);
        got = htc_heap_join(heap, false);
        if (write(from[1], &got, sizeof(got)) != sizeof(got))
            _exit(1);
        while (read(to[0], &order, sizeof(order)) == sizeof(order)) {
            hu_reply reply = {.object = NULL};

            if (order.what == HU_END)
                break;
            reply = hu_obey(heap, &order);
            if (write(from[1], &reply, sizeof(reply)) != sizeof(reply))
                _exit(1);
        }
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    reader.to = to[1];
    reader.from = from[0];
    if (read(reader.from, &got, sizeof(got)) != sizeof(got))
        abort();
    if (joined)
        *joined = got;
    else
        ck_assert(got);
    return reader;
}

static inline hu_reply hu_tell(const hu_reader *reader, hu_order order)
{
    hu_reply reply;

    if (write(reader->to, &order, sizeof(order)) != sizeof(order) ||
        read(reader->from, &reply, sizeof(reply)) != sizeof(reply))
        ck_abort_msg("a reader ended");
    ck_assert_msg(!reply.wrong, "%s", reply.wrong);
    return reply;
}

static inline const hu_object *hu_reader_acquire(const hu_reader *reader, uint64_t key)
{
    return hu_tell(reader, (hu_order){HU_ACQUIRE, key}).object;
}

/* By itself, with what it has pinned, or killed. */
static inline void hu_reader_end(const hu_reader *reader, int signal)
{
    hu_order order = {.what = HU_END};

    if (signal)
        kill(reader->pid, signal);
    else if (write(reader->to, &order, sizeof(order)) != sizeof(order))
        abort();
    close(reader->to);
    close(reader->from);
    waitpid(reader->pid, NULL, 0);
}

/** Bytes that an object and its pool have in the heap. */
static inline size_t hu_bytes_of(const void *object)
{
    const heap_block *block =
        (const heap_block *)(const void *)((const char *)object - sizeof(*block));

    return heap_granules(HEAP_GET(block->head)) * HEAP_GRANULE;
}

#endif
