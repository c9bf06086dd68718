/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The heap's one writer: taking it over from the builder before, requests, room, publishing. Called
 * by the builder process alone, which has one thread.
 *
 * What the builder knows of the heap beside what lies in it (which numbers are those of blocks,
 * whose they are) is its own memory, and is derived anew when a builder begins. Numbers that come
 * from outside, in pins, are looked up there before they are used.
 */
#include "heap/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <apr_strings.h>

#define ROUNDS      4    /* tries to make room; the last ones take what was used lately, too */
#define BATCH       64   /* part of the heap that makes way at once */
#define MOST_PART   4    /* of the heap, for one object, and to make way at once at most */
#define STUCK_MS    1000 /* a place written for so long belongs to a process that died */
#define AGAIN_MS    1000
#define LOOK_MS     500 /* all places are looked at so often */
#define MOST_OWNERS 65536
#define MOST_KEPT   512
#define ROW_GROUP   64 /* rows of which the kernel is asked at once whether anyone has them */

typedef struct owner_use {
    uint64_t owner, granules;
    unsigned share; /* per cent, as last asked for */
} owner_use;

typedef struct heap_writer {
    apr_pool_t *pool;
    uint8_t *starts,
        *live;         /* a bit for each granule: a block begins there; something leads to it */
    uint64_t free;     /* granules */
    uint32_t at, hand; /* where to look for free blocks, and for those to make way */
    apr_pool_t *owners_pool;
    apr_hash_t *owners;                /* owner_use by owner */
    uint64_t todo[HEAP_REQUESTS / 64]; /* places that may wait */
    int64_t looked;                    /* when all places were looked at */
    heap_place *current;               /* being worked on */
    int64_t stuck[HEAP_REQUESTS];      /* since when a place is being written; 0: it is not */
    uint32_t kept[MOST_KEPT];
    unsigned nkept;
    uint64_t died_record, died_version;
    _Alignas(16) char fixed[HTC_HEAP_MOST_FIXED]; /* of the draft */
} heap_writer;

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

static uint32_t total(const htc_heap *heap)
{
    return heap->end - heap->first;
}

/* What is used is noted from now on, as there is still time to know it before something has to go.
 * Where room was short once it is likely to be short again. */
static void set_free(htc_heap *heap, uint64_t granules)
{
    heap->writer->free = granules;
    if (granules < total(heap) / 4)
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
    return use->granules * 100 > (uint64_t)total(heap) * use->share;
}

/* --- what is in use ---------------------------------------------------------------------------*/

static bool is_block(const htc_heap *heap, uint32_t number)
{
    const heap_writer *w = heap->writer;

    return number >= heap->first && number < heap->end && bit(w->starts, number) &&
           heap_state(HEAP_GET(heap_block_at(heap, number)->head)) == HEAP_USED;
}

/* Mark a block and all that it needs. Chains are as long as paths are deep. */
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

        HEAP_CRASH_POINT("row");
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

/* Mark what is in use; with @a indexed also what can be found. */
static void mark(htc_heap *heap, bool indexed)
{
    heap_writer *w = heap->writer;

    memset(w->live, 0, heap->end / 8 + 1);
    for (size_t i = 0; indexed && i < heap->nsets * HEAP_WAYS; i++) {
        uint64_t word = HEAP_GET(heap->index[i]);

        if (word)
            mark_live(heap, (uint32_t)word);
    }
    for (unsigned i = 0; i < w->nkept && i < MOST_KEPT; i++)
        mark_live(heap, w->kept[i]);
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
        HEAP_CRASH_POINT("joined");
        clear_bit(heap->writer->starts, next);
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
    set_free(heap, total(heap) - sums->used);
}

/* Free the blocks to which nothing leads, as to what the builder before was at. */
static void collect(htc_heap *heap)
{
    heap_writer *w = heap->writer;
    apr_hash_index_t *i;
    sums now = {.used = 0};

    mark(heap, true);
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
            use_of(w, block->owner)->granules += granules;
            continue;
        }
        HEAP_SET(block->head, heap_head(granules, HEAP_FREE));
        HEAP_CRASH_POINT("freed");
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
            HEAP_CRASH_POINT("not used anew");
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
    heap_writer *w;
    apr_pool_t *pool;
    apr_status_t rv = map_for_writing(heap);

    if (rv != APR_SUCCESS)
        return rv;
    apr_pool_create(&pool, NULL);
    w = heap->writer = apr_pcalloc(pool, sizeof(*w));
    w->pool = pool;
    heap->joined = getpid();
    w->starts = apr_pcalloc(pool, heap->end / 8 + 1);
    w->live = apr_pcalloc(pool, heap->end / 8 + 1);
    w->at = w->hand = heap->first;
    apr_pool_create(&w->owners_pool, pool);
    forget_owners(w);
    w->died_record = HEAP_GET(header->working_record);
    w->died_version = HEAP_GET(header->working_version);
    HEAP_SET(header->working_record, 0);
    HEAP_SET(header->builders, HEAP_GET(header->builders) + 1);
    HEAP_CRASH_POINT("builder");
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

/* --- requests ---------------------------------------------------------------------------------*/

static bool anything_waits(const htc_heap *heap)
{
    for (unsigned i = 0; i < HEAP_REQUESTS / 64; i++) {
        if (atomic_load(&heap->hints->waiting[i]))
            return true;
    }
    return false;
}

void htc_heap_wait(htc_heap *heap, int ms)
{
    struct pollfd polled = {.fd = heap->wake, .events = POLLIN};
    uint64_t count;

    if (heap->writer->free < total(heap) / 16)
        HEAP_SET(heap->header->full, 1);
    else if (heap->writer->free > total(heap) / 2)
        HEAP_SET(heap->header->full, 0);
    atomic_store(&heap->hints->asleep, 1);
    if (!anything_waits(heap))
        poll(&polled, 1, ms);
    atomic_store(&heap->hints->asleep, 0);
    while (read(heap->wake, &count, sizeof(count)) < 0 && errno == EINTR)
        continue;
}

/* A process that was killed while it wrote a place leaves it so; or it leaves one that waits,
 * without a bit. It gets one here, and so its turn behind those that have theirs. */
static void look_at_all(htc_heap *heap, int64_t now_ms)
{
    heap_writer *w = heap->writer;

    w->looked = now_ms;
    for (unsigned i = 0; i < HEAP_REQUESTS; i++) {
        heap_place *place = &heap->hints->places[i];
        uint32_t state = atomic_load(&place->state);

        if (state == HEAP_WAITING)
            atomic_fetch_or(&heap->hints->waiting[i / 64], UINT64_C(1) << i % 64);
        if (state != HEAP_WRITING) {
            w->stuck[i] = 0;
        } else if (!w->stuck[i]) {
            w->stuck[i] = now_ms;
        } else if (now_ms - w->stuck[i] > STUCK_MS) {
            atomic_store(&place->state, HEAP_EMPTY);
            w->stuck[i] = 0;
        }
    }
}

/* The next place that may wait; HEAP_REQUESTS: none. */
static unsigned next_todo(heap_writer *w)
{
    for (unsigned i = 0; i < HEAP_REQUESTS / 64; i++) {
        unsigned low = (unsigned)__builtin_ctzll(w->todo[i] | UINT64_C(1) << 63);

        if (!w->todo[i])
            continue;
        w->todo[i] &= ~(UINT64_C(1) << low);
        return i * 64 + low;
    }
    return HEAP_REQUESTS;
}

static void read_request(const heap_place *place, htc_heap_request *request)
{
    request->key = HEAP_GET(place->key);
    request->record = HEAP_GET(place->record);
    request->owner = HEAP_GET(place->owner);
    request->server = HEAP_GET(place->server);
    request->share = HEAP_GET(place->share);
    if (request->share < 1 || request->share > 100)
        request->share = 100;
}

/* Those that came meanwhile have their turn when all that were there before have had theirs. */
bool htc_heap_next(htc_heap *heap, htc_heap_request *request, int64_t now_ms)
{
    heap_writer *w = heap->writer;

    if (now_ms - w->looked >= LOOK_MS)
        look_at_all(heap, now_ms);
    for (bool fetched = false;;) {
        unsigned number = next_todo(w);

        if (number < HEAP_REQUESTS) {
            heap_place *place = &heap->hints->places[number];

            if (atomic_load(&place->state) != HEAP_WAITING)
                continue;
            w->current = place;
            read_request(place, request);
            return true;
        }
        if (fetched)
            return false;
        for (unsigned i = 0; i < HEAP_REQUESTS / 64; i++) {
            if (HEAP_GET(heap->hints->waiting[i]))
                w->todo[i] = atomic_exchange(&heap->hints->waiting[i], 0);
        }
        fetched = true;
    }
}

void htc_heap_answer(htc_heap *heap, bool again, int64_t now_ms)
{
    heap_writer *w = heap->writer;

    HEAP_SET(w->current->until, now_ms + AGAIN_MS);
    atomic_store(&w->current->state, again ? HEAP_EMPTY : HEAP_ANSWERED);
    w->current = NULL;
    w->nkept = 0;
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
    HEAP_CRASH_POINT("unlinked");
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
    for (uint32_t looked = 0, granules; looked < total(heap) && found < wanted;
         looked += granules) {
        uint32_t n = w->hand;
        const heap_block *block = heap_block_at(heap, n);

        granules = heap_granules(HEAP_GET(block->head));
        w->hand = n + granules < heap->end ? n + granules : heap->first;
        if (!is_block(heap, n) || !in_index(heap, block, n) || (own_only && block->owner != owner))
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
    uint64_t wanted = larger(total(heap) / BATCH, 2 * (uint64_t)granules);
    uint64_t most = larger(total(heap) / MOST_PART, granules);
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
        HEAP_CRASH_POINT("rest");
        set_bit(heap->writer->starts, number + granules);
    }
    atomic_store(&block->head, heap_head(granules, state));
    HEAP_CRASH_POINT("cut");
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

    if (fixed > HTC_HEAP_MOST_FIXED || run > heap->bytes / 2 || heap->writer->nkept > MOST_KEPT)
        return false; /* what could not be noted must not go */
    draft->block = make_room(heap, granules, owner, share_percent);
    if (!draft->block) {
        HEAP_SET(heap->header->no_room, HEAP_GET(heap->header->no_room) + 1);
        return false;
    }
    heap->writer->at = draft->block;
    cut(heap, draft->block, granules, HEAP_DRAFT);
    block = heap_block_at(heap, draft->block);
    HEAP_CRASH_POINT("begun");
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
    return total(heap) * HEAP_GRANULE / MOST_PART;
}

void htc_heap_drop(htc_heap *heap, htc_heap_draft *draft)
{
    heap_block *block = heap_block_at(heap, draft->block);

    htc_run_undo(&draft->run);
    atomic_store(&block->head, heap_head(heap_granules(HEAP_GET(block->head)), HEAP_FREE));
    HEAP_CRASH_POINT("dropped");
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

void htc_heap_publish(htc_heap *heap, htc_heap_draft *draft, htc_heap_kind kind, uint64_t hash,
                      htc_heap_match match, const void *key,
                      const void *const needs[HTC_HEAP_NEEDS])
{
    heap_header *header = heap->header;
    heap_block *block = heap_block_at(heap, draft->block);
    uint32_t granules = granules_of(sizeof(*block) + htc_run_used(&draft->run));
    size_t at = word_for(heap, hash, match, key);

    htc_run_keep(&draft->run);
    HEAP_CRASH_POINT("kept");
    memcpy(draft->object, draft->payload, draft->fixed);
    HEAP_CRASH_POINT("fixed");
    block->hash = hash;
    HEAP_CRASH_POINT("hash");
    block->owner = draft->owner;
    block->kind = kind;
    block->place = (uint32_t)at;
    HEAP_CRASH_POINT("place");
    for (unsigned i = 0; i < HTC_HEAP_NEEDS; i++)
        block->needs[i] = needs && needs[i] ? heap_number_of(heap, needs[i]) : 0;
    HEAP_CRASH_POINT("needs");
    HEAP_SET(heap->hints->used[draft->block], 1);
    cut(heap, draft->block, granules, HEAP_USED);
    atomic_store(&heap->index[at], heap_word(hash, draft->block));
    HEAP_CRASH_POINT("published");
    set_free(heap,
             heap->writer->free - (granules < heap->writer->free ? granules : heap->writer->free));
    use_of(heap->writer, draft->owner)->granules += granules;
    HEAP_SET(header->objects[kind], HEAP_GET(header->objects[kind]) + 1);
    HEAP_CRASH_POINT("counted");
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

void htc_heap_keep(htc_heap *heap, const void *object)
{
    heap_writer *w = heap->writer;

    if (w->nkept < MOST_KEPT)
        w->kept[w->nkept] = heap_number_of(heap, object);
    w->nkept++;
}

/* --- what builders die of ---------------------------------------------------------------------*/

void htc_heap_working_on(htc_heap *heap, uint64_t record, uint64_t version)
{
    HEAP_SET(heap->header->working_version, version);
    atomic_store(&heap->header->working_record, record);
}

uint64_t htc_heap_died_of(const htc_heap *heap, uint64_t *version)
{
    *version = heap->writer->died_version;
    return heap->writer->died_record;
}

static void remember(heap_record *list, _Atomic uint64_t *n, uint64_t record, uint64_t version)
{
    heap_record *next = &list[HEAP_GET(*n) % HEAP_CONDEMNED];

    HEAP_SET(next->version, version);
    HEAP_SET(next->record, record);
    HEAP_SET(*n, HEAP_GET(*n) + 1);
}

static bool remembered(const heap_record *list, uint64_t record, uint64_t version)
{
    for (unsigned i = 0; i < HEAP_CONDEMNED; i++) {
        if (HEAP_GET(list[i].record) == record && HEAP_GET(list[i].version) == version)
            return true;
    }
    return false;
}

void htc_heap_condemn(htc_heap *heap, uint64_t record, uint64_t version)
{
    remember(heap->header->condemned, &heap->header->ncondemned, record, version);
}

bool htc_heap_condemned(const htc_heap *heap, uint64_t record, uint64_t version)
{
    return remembered(heap->header->condemned, record, version);
}

bool htc_heap_suspected(htc_heap *heap, uint64_t record, uint64_t version)
{
    if (remembered(heap->header->suspects, record, version))
        return true;
    remember(heap->header->suspects, &heap->header->nsuspects, record, version);
    return false;
}
