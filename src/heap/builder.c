/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The heap's one writer: taking it over from the builder before, room, publishing. Called by the
 * builder process alone, which has one thread. Requests to it are in heap/queue.c.
 *
 * What the builder knows of the heap beside what lies in it (which numbers are those of blocks,
 * whose they are) is its own memory, and is derived anew when a builder begins. Numbers that come
 * from outside, in pins, are looked up there before they are used.
 */
#include "heap/internal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <apr_strings.h>

#define ROUNDS      4  /* tries to make room; the last ones take what was used lately, too */
#define BATCH       64 /* part of the heap that makes way at once */
#define MOST_PART   4  /* of the heap, for one object, and to make way at once at most */
#define MOST_OWNERS 65536
#define ROW_GROUP   64 /* rows of which the kernel is asked at once whether anyone has them */

typedef struct owner_use {
    uint64_t owner, granules;
    unsigned share; /* per cent, as last asked for */
} owner_use;

static bool bit(const uint8_t *bits, uint32_t n)
{
    return bits[n / 8] >> n % 8 & 1;
}

static void set_bit(uint8_t *bits, uint32_t n)
{
    bits[n / 8] |= (uint8_t)(1U << n % 8);
}

static void clear_bit(uint8_t *bits, uint32_t n)
{
    bits[n / 8] &= (uint8_t) ~(1U << n % 8);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What is used is noted from now on, as there is still time to know it before something has to go.
 * Where room was short once it is likely to be short again. */
static void set_free(htc_heap *heap, uint64_t granules)
{
    heap->writer->free = granules;
    if (granules < heap_total(heap) / 4)
        HEAP_SET(heap->header->scarce, 1);
}

/* --- owners -----------------------------------------------------------------------------------*/

static void forget_owners(heap_writer *w)
{
    apr_pool_clear(w->owners_pool);
    w->owners = apr_hash_make(w->owners_pool);
}

static owner_use *use_of(heap_writer *w, uint64_t owner)
{
    owner_use *use = apr_hash_get(w->owners, &owner, sizeof(owner));

    if (use)
        return use;
    if (apr_hash_count(w->owners) >= MOST_OWNERS)
        forget_owners(w);
    use = apr_pcalloc(w->owners_pool, sizeof(*use));
    use->owner = owner;
    use->share = 100;
    apr_hash_set(w->owners, &use->owner, sizeof(use->owner), use);
    return use;
}

static bool over_share(const htc_heap *heap, const owner_use *use)
{
    return use->granules * 100 > (uint64_t)heap_total(heap) * use->share;
}

/* --- what is in use ---------------------------------------------------------------------------*/

static bool is_block(const htc_heap *heap, uint32_t number)
{
    const heap_writer *w = heap->writer;

    return number >= heap->first && number < heap->end && bit(w->starts, number) &&
           heap_state(HEAP_GET(heap_block_at(heap, number)->head)) == HEAP_USED;
}

/* Mark a block and all that it needs. Chains of first needs are as long as paths are deep; the others
 * are not longer than HTC_HEAP_MOST_DEPTH. */
static void mark_live(htc_heap *heap, uint32_t number)
{
    while (is_block(heap, number) && !bit(heap->writer->live, number)) {
        const heap_block *block = heap_block_at(heap, number);

        set_bit(heap->writer->live, number);
        for (unsigned i = 1; i < HTC_HEAP_NEEDS; i++)
            mark_live(heap, block->needs[i]);
        number = block->needs[0];
    }
}

/* Mark what rows pin. A process may have written anything to its row. The row of a process that has
 * ended does not count. */
static void mark_rows(htc_heap *heap, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        htc_pin *row = heap_row(heap, i);
        bool asked = false;

        HTC_POINT("row");
        for (size_t k = 0; k < HEAP_ROW_WORDS; k++) {
            uint64_t word = atomic_load(&row[k]);

            if (!(uint32_t)word)
                continue;
            if (!asked && !htc_lock_enlisted(&heap->lock, i))
                break;
            asked = true;
            mark_live(heap, (uint32_t)(word >> 32));
        }
    }
}

/* Where no process has any of these rows they are not read. A process that takes one later finds
 * what is in the index by then. */
static void mark_pinned(htc_heap *heap)
{
    for (unsigned i = 0; i < heap->nrows; i += ROW_GROUP) {
        unsigned n = (unsigned)smaller(heap->nrows - i, ROW_GROUP);

        if (htc_lock_any_enlisted(&heap->lock, i, n))
            mark_rows(heap, i, i + n);
    }
}

static bool is_nobodys(const htc_heap *heap, uint32_t number)
{
    return is_block(heap, number) && heap_block_at(heap, number)->owner == HTC_HEAP_NOBODY;
}

/* What an object counts for its owner: also what it needs that is nobody's. */
static uint64_t charge(const htc_heap *heap, const heap_block *block)
{
    uint64_t granules = heap_granules(HEAP_GET(block->head));

    if (block->owner == HTC_HEAP_NOBODY)
        return 0;
    for (unsigned i = 0; i < HTC_HEAP_NEEDS; i++) {
        if (is_nobodys(heap, block->needs[i]))
            granules += heap_granules(HEAP_GET(heap_block_at(heap, block->needs[i])->head));
    }
    return granules;
}

/* Mark what is in use; with @a indexed also what can be found and is somebody's. */
static void mark(htc_heap *heap, bool indexed)
{
    heap_writer *w = heap->writer;

    memset(w->live, 0, heap->end / 8 + 1);
    for (size_t i = 0; indexed && i < heap->nsets * HEAP_WAYS; i++) {
        uint64_t word = HEAP_GET(heap->index[i]);

        if (word && !is_nobodys(heap, (uint32_t)word))
            mark_live(heap, (uint32_t)word);
    }
    for (unsigned i = 0; i < w->nkept && i < HEAP_KEPT; i++)
        mark_live(heap, w->kept[i]);
    mark_pinned(heap);
}

/* What is nobody's and is not needed any more can be found no more. Somebody may just have pinned
 * it. */
static void unlink_unneeded(htc_heap *heap)
{
    bool any = false;

    for (size_t i = 0; i < heap->nsets * HEAP_WAYS; i++) {
        uint32_t number = (uint32_t)HEAP_GET(heap->index[i]);

        if (!is_nobodys(heap, number) || bit(heap->writer->live, number))
            continue;
        atomic_store(&heap->index[i], 0);
        HTC_POINT("unneeded");
        any = true;
    }
    if (any)
        mark_pinned(heap);
}

/* Two free blocks, one behind the other, become one. */
static void join_free(htc_heap *heap, uint32_t number)
{
    heap_block *block = heap_block_at(heap, number);
    uint32_t granules = heap_granules(HEAP_GET(block->head));
    uint32_t next = number + granules;

    while (next < heap->end) {
        uint64_t head = HEAP_GET(heap_block_at(heap, next)->head);

        if (heap_state(head) != HEAP_FREE)
            return;
        granules += heap_granules(head);
        HEAP_SET(block->head, heap_head(granules, HEAP_FREE));
        HTC_POINT("joined");
        clear_bit(heap->writer->starts, next);
        clear_bit(heap->writer->ranked, next);
        next = number + granules;
    }
}

typedef struct sums {
    uint64_t objects[HTC_HEAP_KINDS], granules[HTC_HEAP_KINDS], used;
} sums;

static void show_sums(htc_heap *heap, const sums *sums)
{
    heap_header *header = heap->header;

    for (int i = 0; i < HTC_HEAP_KINDS; i++) {
        HEAP_SET(header->objects[i], sums->objects[i]);
        HEAP_SET(header->bytes[i], sums->granules[i] * HEAP_GRANULE);
    }
    HEAP_SET(header->used, sums->used * HEAP_GRANULE);
    set_free(heap, heap_total(heap) - sums->used);
}

/* Free the blocks to which nothing leads, as to what the builder before was at. */
static void collect(htc_heap *heap)
{
    heap_writer *w = heap->writer;
    apr_hash_index_t *i;
    sums now = {.used = 0};

    mark(heap, true);
    unlink_unneeded(heap);
    for (i = apr_hash_first(NULL, w->owners); i; i = apr_hash_next(i))
        ((owner_use *)apr_hash_this_val(i))->granules = 0;
    for (uint32_t n = heap->first, granules; n < heap->end; n += granules) {
        heap_block *block = heap_block_at(heap, n);
        uint64_t head = HEAP_GET(block->head);

        granules = heap_granules(head);
        if (heap_state(head) == HEAP_FREE)
            continue;
        if (bit(w->live, n)) {
            now.objects[block->kind]++;
            now.granules[block->kind] += granules;
            now.used += granules;
            use_of(w, block->owner)->granules += charge(heap, block);
            continue;
        }
        HEAP_SET(block->head, heap_head(granules, HEAP_FREE));
        HTC_POINT("freed");
    }
    show_sums(heap, &now);
}

/* --- taking over ------------------------------------------------------------------------------*/

/* False: the blocks are not one behind the other. */
static bool find_blocks(htc_heap *heap)
{
    uint32_t n = heap->first;

    while (n < heap->end) {
        const heap_block *block = heap_block_at(heap, n);
        uint64_t head = HEAP_GET(block->head);
        uint32_t granules = heap_granules(head);

        if (!granules || granules > heap->end - n || heap_state(head) >= HEAP_STATES ||
            (heap_state(head) == HEAP_USED && block->kind >= HTC_HEAP_KINDS))
            return false;
        set_bit(heap->writer->starts, n);
        n += granules;
    }
    return n == heap->end;
}

static void check_index(htc_heap *heap, bool anew)
{
    for (size_t i = 0; i < heap->nsets * HEAP_WAYS; i++) {
        uint64_t word = HEAP_GET(heap->index[i]);

        if (word && (anew || !is_block(heap, (uint32_t)word))) {
            atomic_store(&heap->index[i], 0);
            HTC_POINT("not used anew");
        }
    }
}

static apr_status_t map_for_writing(htc_heap *heap)
{
    char name[32];
    void *at;
    int fd;

    apr_snprintf(name, sizeof(name), "/proc/self/fd/%d", heap->fd);
    fd = open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return APR_FROM_OS_ERROR(errno);
    at = mmap(heap->base, heap->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return APR_FROM_OS_ERROR(errno);
    madvise(at, heap->bytes, MADV_DONTDUMP);
    close(heap->fd);
    heap->fd = -1;
    return APR_SUCCESS;
}

apr_status_t htc_heap_own(htc_heap *heap, bool anew)
{
    heap_header *header = heap->header;
    size_t bits = (heap->end / 64 + 1) * sizeof(uint64_t);
    heap_writer *w;
    apr_pool_t *pool;
    apr_status_t rv = map_for_writing(heap);

    if (rv != APR_SUCCESS)
        return rv;
    rv = apr_pool_create(&pool, NULL);
    if (rv != APR_SUCCESS)
        return rv;
    w = heap->writer = apr_pcalloc(pool, sizeof(*w));
    w->pool = pool;
    heap->joined = getpid();
    w->starts = apr_pcalloc(pool, bits);
    w->live = apr_pcalloc(pool, bits);
    w->ranked = apr_pcalloc(pool, bits);
    w->at = w->hand = heap->first;
    apr_pool_create(&w->owners_pool, pool);
    forget_owners(w);
    w->died_record = HEAP_GET(header->working_record);
    w->died_version = HEAP_GET(header->working_version);
    HEAP_SET(header->working_record, 0);
    HEAP_SET(header->builders, HEAP_GET(header->builders) + 1);
    HTC_POINT("builder");
    if (!find_blocks(heap))
        return APR_EGENERAL;
    check_index(heap, anew);
    collect(heap);
    return APR_SUCCESS;
}

void htc_heap_ready(htc_heap *heap)
{
    HEAP_SET(heap->header->builder, (uint64_t)getpid());
}

/* --- room -------------------------------------------------------------------------------------*/

static bool in_index(const htc_heap *heap, const heap_block *block, uint32_t number)
{
    return HEAP_GET(heap->index[block->place]) == heap_word(block->hash, number);
}

/* The first free block of so many granules, from block @a from on and before @a to; or 0. */
static uint32_t free_block(htc_heap *heap, uint32_t from, uint32_t to, uint32_t granules)
{
    uint32_t n = from;

    while (n < to) {
        uint64_t head = HEAP_GET(heap_block_at(heap, n)->head);

        if (heap_state(head) == HEAP_FREE) {
            join_free(heap, n);
            head = HEAP_GET(heap_block_at(heap, n)->head);
            if (heap_granules(head) >= granules)
                return n;
        }
        n += heap_granules(head);
    }
    return 0;
}

/* The search goes on where the last free block was found, and then begins at the first block. There
 * may be no block at that place any more, where it was joined with the one before. */
static uint32_t find_free(htc_heap *heap, uint32_t granules)
{
    heap_writer *w = heap->writer;
    uint32_t found = 0;

    if (w->free < granules)
        return 0;
    if (bit(w->starts, w->at))
        found = free_block(heap, w->at, heap->end, granules);
    return found ? found : free_block(heap, heap->first, heap->end, granules);
}

/* True when it was used since the last look. Takes the mark away, and marks what it needs. */
static bool used_lately(htc_heap *heap, uint32_t number)
{
    _Atomic uint8_t *used = heap->hints->used;
    const heap_block *block = heap_block_at(heap, number);

    if (!HEAP_GET(used[number]))
        return false;
    HEAP_SET(used[number], 0);
    for (unsigned i = 0; i < HTC_HEAP_NEEDS; i++) {
        if (block->needs[i] && is_block(heap, block->needs[i]))
            HEAP_SET(used[block->needs[i]], 1);
    }
    return true;
}

static void unlink_block(htc_heap *heap, const heap_block *block)
{
    atomic_store(&heap->index[block->place], 0);
    HTC_POINT("unlinked");
    HEAP_SET(heap->header->evictions, HEAP_GET(heap->header->evictions) + 1);
}

/* Take objects out of the index, in the order of their addresses, so that what is freed lies
 * together. An owner that has its share makes room for itself. With @a all what is freed does not
 * go past the end of the heap, where the order begins again. */
static void evict(htc_heap *heap, uint64_t wanted, uint64_t owner, bool all)
{
    heap_writer *w = heap->writer;
    bool own_only = over_share(heap, use_of(w, owner));
    uint64_t found = 0;

    if (!bit(w->starts, w->hand) || (all && wanted > heap->end - w->hand))
        w->hand = heap->first;
    for (uint32_t looked = 0, granules; looked < heap_total(heap) && found < wanted;
         looked += granules) {
        uint32_t n = w->hand;
        const heap_block *block = heap_block_at(heap, n);

        granules = heap_granules(HEAP_GET(block->head));
        w->hand = n + granules < heap->end ? n + granules : heap->first;
        if (!is_block(heap, n) || !in_index(heap, block, n) || block->owner == HTC_HEAP_NOBODY ||
            (own_only && block->owner != owner))
            continue;
        if (!all && (own_only || !over_share(heap, use_of(w, block->owner))) &&
            used_lately(heap, n))
            continue;
        unlink_block(heap, block);
        found += granules;
    }
}

/* False: what is in use leaves no room for so much in one piece, whatever else makes way. */
static bool may_fit(htc_heap *heap, uint32_t granules)
{
    uint32_t found = 0;

    mark(heap, false);
    for (uint32_t n = heap->first, size; n < heap->end && found < granules; n += size) {
        size = heap_granules(HEAP_GET(heap_block_at(heap, n)->head));
        found = bit(heap->writer->live, n) ? 0 : found + size;
    }
    return found >= granules;
}

/* A round takes a quarter of the heap at most: that is as much as the largest object needs, and
 * some others stay. */
static uint32_t make_room(htc_heap *heap, uint32_t granules, uint64_t owner, unsigned share)
{
    uint64_t wanted = larger(heap_total(heap) / BATCH, 2 * (uint64_t)granules);
    uint64_t most = larger(heap_total(heap) / MOST_PART, granules);
    uint32_t found = find_free(heap, granules);

    for (int round = 0; !found && round < ROUNDS && (!round || may_fit(heap, granules)); round++) {
        use_of(heap->writer, owner)->share = share;
        if (round)
            evict(heap, smaller(wanted << (round - 1), most), owner, round == ROUNDS - 1);
        collect(heap);
        found = find_free(heap, granules);
        HEAP_SET(heap->header->full, 1);
    }
    return found;
}

/* --- building ---------------------------------------------------------------------------------*/

static uint32_t granules_of(size_t bytes)
{
    return (uint32_t)((bytes + HEAP_GRANULE - 1) / HEAP_GRANULE);
}

/* The rest of a block becomes a free one, before the block itself gets smaller. */
static void cut(htc_heap *heap, uint32_t number, uint32_t granules, unsigned state)
{
    heap_block *block = heap_block_at(heap, number), *rest = heap_block_at(heap, number + granules);
    uint32_t had = heap_granules(HEAP_GET(block->head));

    if (had > granules) {
        atomic_store(&rest->head, heap_head(had - granules, HEAP_FREE));
        HTC_POINT("rest");
        set_bit(heap->writer->starts, number + granules);
    }
    atomic_store(&block->head, heap_head(granules, state));
    HTC_POINT("cut");
}

static int no_memory(int retcode)
{
    (void)retcode;
    _exit(HTC_HEAP_NO_MEMORY);
}

bool htc_heap_begin(htc_heap *heap, htc_heap_draft *draft, size_t fixed, size_t room,
                    uint64_t owner, unsigned share_percent)
{
    uint32_t granules = granules_of(sizeof(heap_block) + fixed + room + HTC_RUN_MIN);
    size_t run = granules * HEAP_GRANULE - sizeof(heap_block);
    heap_block *block;

    if (fixed > HTC_HEAP_MOST_FIXED || run > heap->bytes / 2 || heap->writer->nkept > HEAP_KEPT)
        return false; /* what could not be noted must not go */
    draft->block = make_room(heap, granules, owner, share_percent);
    if (!draft->block) {
        HEAP_SET(heap->header->no_room, HEAP_GET(heap->header->no_room) + 1);
        return false;
    }
    heap->writer->at = draft->block;
    cut(heap, draft->block, granules, HEAP_DRAFT);
    block = heap_block_at(heap, draft->block);
    HTC_POINT("begun");
    draft->object = heap_payload(block);
    draft->payload = memset(heap->writer->fixed, 0, fixed);
    draft->fixed = fixed;
    draft->owner = owner;
    if (!htc_run_begin(&draft->run, draft->object, run, no_memory)) {
        cut(heap, draft->block, granules, HEAP_FREE);
        return false;
    }
    if (fixed > htc_run_used(&draft->run))
        apr_palloc(draft->run.pool, fixed - htc_run_used(&draft->run));
    return true;
}

bool htc_heap_scarce(const htc_heap *heap)
{
    return HEAP_GET(heap->header->scarce);
}

size_t htc_heap_most(const htc_heap *heap)
{
    return heap_total(heap) * HEAP_GRANULE / MOST_PART;
}

void htc_heap_drop(htc_heap *heap, htc_heap_draft *draft)
{
    heap_block *block = heap_block_at(heap, draft->block);

    htc_run_undo(&draft->run);
    atomic_store(&block->head, heap_head(heap_granules(HEAP_GET(block->head)), HEAP_FREE));
    HTC_POINT("dropped");
}

/* The word of the index for a new object: that of the object which it replaces; else a free one, in
 * the set that has more of them; else that of an object which was not used lately. */
static size_t word_for(htc_heap *heap, uint64_t hash, htc_heap_match match, const void *key)
{
    size_t unused[2], idle = SIZE_MAX;
    unsigned left[2] = {0, 0};

    for (unsigned i = 0; i < 2 * HEAP_WAYS; i++) {
        size_t at = heap_set(heap, hash, i / HEAP_WAYS) + i % HEAP_WAYS;
        uint64_t word = HEAP_GET(heap->index[at]);
        uint32_t number = (uint32_t)word;
        const heap_block *block = heap_block_at(heap, number);

        if (!word) {
            unused[i / HEAP_WAYS] = at;
            left[i / HEAP_WAYS]++;
        } else if (word == heap_word(hash, number) && block->hash == hash &&
                   match(heap_payload(block), key)) {
            return at;
        } else if (idle == SIZE_MAX && !HEAP_GET(heap->hints->used[number])) {
            idle = at;
        }
    }
    if (left[0] || left[1])
        return unused[left[1] > left[0]];
    HEAP_SET(heap->header->evictions, HEAP_GET(heap->header->evictions) + 1);
    return idle != SIZE_MAX ? idle : heap_set(heap, hash, 0) + hash % HEAP_WAYS;
}

unsigned htc_heap_depth(const htc_heap *heap, const void *object)
{
    return heap_block_at(heap, heap_number_of(heap, object))->depth;
}

/* Of an object with these needs. mark_live() relies on the limit, as each level takes some of the
 * stack. */
static uint32_t depth_of(const htc_heap *heap, const void *const needs[HTC_HEAP_NEEDS])
{
    uint32_t depth = 0;

    for (unsigned i = 0; needs && i < HTC_HEAP_NEEDS; i++) {
        if (needs[i])
            depth = (uint32_t)larger(depth, htc_heap_depth(heap, needs[i]) + (i > 0));
    }
    if (depth > HTC_HEAP_MOST_DEPTH)
        abort();
    return depth;
}

void htc_heap_publish(htc_heap *heap, htc_heap_draft *draft, htc_heap_kind kind, uint64_t hash,
                      htc_heap_match match, const void *key,
                      const void *const needs[HTC_HEAP_NEEDS])
{
    heap_header *header = heap->header;
    heap_block *block = heap_block_at(heap, draft->block);
    uint32_t granules = granules_of(sizeof(*block) + htc_run_used(&draft->run));
    size_t at = word_for(heap, hash, match, key);

    htc_run_keep(&draft->run);
    HTC_POINT("kept");
    memcpy(draft->object, draft->payload, draft->fixed);
    HTC_POINT("fixed");
    block->hash = hash;
    HTC_POINT("hash");
    block->owner = draft->owner;
    block->kind = kind;
    block->place = (uint32_t)at;
    HEAP_SET(block->rank, 0);
    block->depth = depth_of(heap, needs);
    HTC_POINT("place");
    for (unsigned i = 0; i < HTC_HEAP_NEEDS; i++)
        block->needs[i] = needs && needs[i] ? heap_number_of(heap, needs[i]) : 0;
    HTC_POINT("needs");
    HEAP_SET(heap->hints->used[draft->block], 1);
    cut(heap, draft->block, granules, HEAP_USED);
    heap->writer->filled = (uint32_t)larger(heap->writer->filled, draft->block + granules);
    atomic_store(&heap->index[at], heap_word(hash, draft->block));
    HTC_POINT("published");
    set_free(heap, heap->writer->free - smaller(granules, heap->writer->free));
    use_of(heap->writer, block->owner)->granules += charge(heap, block);
    HEAP_SET(header->objects[kind], HEAP_GET(header->objects[kind]) + 1);
    HTC_POINT("counted");
    HEAP_SET(header->bytes[kind], HEAP_GET(header->bytes[kind]) + granules * HEAP_GRANULE);
    HEAP_SET(header->used, HEAP_GET(header->used) + granules * HEAP_GRANULE);
    if (kind == HTC_HEAP_REFUSED)
        HEAP_SET(header->refusals, HEAP_GET(header->refusals) + 1);
    else
        HEAP_SET(header->builds, HEAP_GET(header->builds) + 1);
}

const void *htc_heap_find(const htc_heap *heap, uint64_t hash, htc_heap_match match,
                          const void *key)
{
    for (unsigned i = 0; i < 2 * HEAP_WAYS; i++) {
        uint64_t word = HEAP_GET(heap->index[heap_set(heap, hash, i / HEAP_WAYS) + i % HEAP_WAYS]);
        const heap_block *block = heap_block_at(heap, (uint32_t)word);

        if (word && word == heap_word(hash, (uint32_t)word) && block->hash == hash &&
            match(heap_payload(block), key))
            return heap_payload(block);
    }
    return NULL;
}

bool htc_heap_has(const htc_heap *heap, const void *object, uint64_t hash)
{
    uint32_t number = heap_number_of(heap, object);
    const heap_block *block = heap_block_at(heap, number);

    return is_block(heap, number) && block->hash == hash && in_index(heap, block, number);
}

void htc_heap_keep(htc_heap *heap, const void *object)
{
    heap_writer *w = heap->writer;

    if (w->nkept < HEAP_KEPT)
        w->kept[w->nkept] = heap_number_of(heap, object);
    w->nkept++;
}

/* --- what is used most ------------------------------------------------------------------------*/

#define RANK_STEP 32 /* for a call of htc_heap_rank(); an eighth of the rank goes with each */
#define RANKS     (8 * RANK_STEP + 1)

/* The first number from @a from on that has its bit, or heap->end. */
static uint32_t next_bit(const htc_heap *heap, const uint8_t *bits, uint32_t from)
{
    for (uint64_t word; from < heap->end; from = (from / 64 + 1) * 64) {
        memcpy(&word, bits + from / 64 * sizeof(word), sizeof(word));
        word = le64toh(word) >> from % 64; /* bytes, see set_bit() */
        if (word)
            return from + (uint32_t)__builtin_ctzll(word);
    }
    return heap->end;
}

/* Blocks lie in memory that this process read long ago, if ever. Some are begun ahead, so that it
 * waits for one of them only. */
#define BEGUN 8

static void begin_block(const htc_heap *heap, uint32_t *ahead)
{
    const char *block = (const char *)heap_block_at(heap, *ahead);

    if (*ahead == heap->end)
        return;
    __builtin_prefetch(block);
    __builtin_prefetch(block + 64);
    __builtin_prefetch(block + 128);
    *ahead = next_bit(heap, heap->writer->starts, *ahead + 1);
}

static void rank_block(htc_heap *heap, uint32_t number, htc_heap_used used, void *baton)
{
    heap_block *block = heap_block_at(heap, number);
    uint32_t rank;

    clear_bit(heap->writer->ranked, number);
    if (!is_block(heap, number))
        return;
    rank = HEAP_GET(block->rank);
    rank = rank - (rank + 7) / 8 + (used(baton, block->kind, heap_payload(block)) ? RANK_STEP : 0);
    HEAP_SET(block->rank, rank);
    if (rank)
        set_bit(heap->writer->ranked, number);
}

void htc_heap_rank(htc_heap *heap, htc_heap_used used, htc_heap_after after, void *baton)
{
    const heap_writer *w = heap->writer;
    uint32_t ahead = next_bit(heap, w->starts, heap->first);

    for (int i = 0; i < BEGUN; i++)
        begin_block(heap, &ahead);
    for (uint32_t n = heap->first; n < heap->end; n = next_bit(heap, w->starts, n + 1)) {
        begin_block(heap, &ahead);
        rank_block(heap, n, used, baton);
    }
    for (uint32_t n = next_bit(heap, w->ranked, 0); n < heap->end;
         n = next_bit(heap, w->ranked, n + 1)) {
        const heap_block *block = heap_block_at(heap, n);

        after(baton, block->kind, heap_payload(block));
    }
}

/* 0 also for what cannot be found any more. */
static uint32_t rank_of(const htc_heap *heap, uint32_t number)
{
    const heap_block *block = heap_block_at(heap, number);

    return is_block(heap, number) && in_index(heap, block, number) ? HEAP_GET(block->rank) % RANKS
                                                                   : 0;
}

size_t htc_heap_first(const htc_heap *heap, size_t most, htc_heap_ranked visit, void *baton)
{
    const uint8_t *ranked = heap->writer->ranked;
    size_t places[RANKS] = {0}, n = 0;

    for (uint32_t i = next_bit(heap, ranked, 0); i < heap->end; i = next_bit(heap, ranked, i + 1))
        places[rank_of(heap, i)]++;
    for (size_t rank = RANKS; rank-- > 1;) {
        size_t before = n;

        n += places[rank];
        places[rank] = before;
    }
    for (uint32_t i = next_bit(heap, ranked, 0); i < heap->end; i = next_bit(heap, ranked, i + 1)) {
        const heap_block *block = heap_block_at(heap, i);
        uint32_t rank = rank_of(heap, i);

        if (rank && places[rank] < most)
            visit(baton, places[rank], block->kind, heap_payload(block), block->owner);
        if (rank)
            places[rank]++;
    }
    return n < most ? n : most;
}
