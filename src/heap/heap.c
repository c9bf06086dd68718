/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The heap as serving processes see it: making it before they are forked, joining, finding and
 * pinning objects, asking the builder. What the builder does is in heap/builder.c.
 */
#include "heap/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_strings.h>

#define BYTES_PER_WORD 1024 /* of the heap, for each word of its index */
#define MOST_ROWS      4096
#define MOST_MET       ((uint64_t)64 << 20) /* bytes; each large page takes some time */

/* --- making it --------------------------------------------------------------------------------*/

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* The index is a power of two of sets, behind the header; then come the blocks. */
static void lay_out(htc_heap *heap)
{
    size_t index = round_up(sizeof(heap_header), 4096), blocks;

    heap->nsets = 16;
    while (heap->nsets * 2 * HEAP_WAYS * BYTES_PER_WORD <= heap->bytes)
        heap->nsets *= 2;
    blocks = index + heap->nsets * HEAP_WAYS * sizeof(uint64_t);
    heap->header = (heap_header *)(void *)heap->base;
    heap->index = (_Atomic uint64_t *)(void *)(heap->base + index);
    heap->first = (uint32_t)(round_up(blocks, HEAP_GRANULE) / HEAP_GRANULE);
    heap->end = (uint32_t)(heap->bytes / HEAP_GRANULE);
}

/* The kernel ends a process that makes a file larger than its limit. */
static bool may_be_so_large(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ||
           limit.rlim_cur >= bytes;
}

/* A descriptor that cannot write, of a file that only its owner can open again. The descriptor that
 * can write is closed once there is one free block. */
static apr_status_t map_file(htc_heap *heap, const char **why)
{
    char name[32];
    heap_block *all;
    apr_status_t rv;
    void *begun;
    int fd = htc_pages_file("htcache");

    *why = "memfd_create() or ftruncate() failed";
    if (fd < 0 || ftruncate(fd, (off_t)heap->bytes) || fchmod(fd, 0600)) {
        rv = APR_FROM_OS_ERROR(errno);
        if (fd >= 0)
            close(fd);
        return rv;
    }
    *why = "/proc/self/fd cannot be opened; mount /proc";
    apr_snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    heap->fd = open(name, O_RDONLY | O_CLOEXEC);
    if (heap->fd < 0) {
        rv = APR_FROM_OS_ERROR(errno);
        close(fd);
        return rv;
    }
    *why = "mmap() failed";
    heap->base = htc_pages_map(heap->bytes, PROT_READ, heap->fd);
    begun = mmap(NULL, heap->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rv = APR_FROM_OS_ERROR(errno);
    close(fd);
    if (!heap->base || begun == MAP_FAILED) {
        if (begun != MAP_FAILED)
            munmap(begun, heap->bytes);
        return rv;
    }
    lay_out(heap);
    all = (heap_block *)(void *)((char *)begun + heap->first * HEAP_GRANULE);
    HEAP_SET(all->head, heap_head(heap->end - heap->first, HEAP_FREE));
    munmap(begun, heap->bytes);
    madvise(heap->base, heap->bytes, MADV_DONTDUMP);
    return APR_SUCCESS;
}

/* Each row is a mapping of its own, so that what a process has unmapped it cannot reach again by
 * growing or moving what it has. */
static bool map_rows(htc_heap *heap)
{
    size_t bytes = heap->nrows * HEAP_ROW_BYTES;
    char *rows = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (rows == MAP_FAILED)
        return false;
    heap->rows = rows;
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (mmap(rows + i * HEAP_ROW_BYTES, HEAP_ROW_BYTES, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
            return false;
    }
    return true;
}

/* Fork handlers get no argument. */
static htc_heap *made;   /* whose maker hides rows from its forks */
static htc_heap *joined; /* where this process has a row */

/* A child has other things where it has unmapped rows. */
static apr_status_t unmap(void *data)
{
    htc_heap *heap = data;

    made = joined = NULL;
    if (getpid() != heap->maker)
        return APR_SUCCESS;
    if (heap->base)
        munmap(heap->base, heap->bytes);
    if (heap->rows)
        munmap(heap->rows, heap->nrows * HEAP_ROW_BYTES);
    if (heap->fd >= 0)
        close(heap->fd);
    if (heap->wake >= 0)
        close(heap->wake);
    return APR_SUCCESS;
}

apr_status_t htc_heap_create(htc_heap **made, uint64_t bytes, unsigned processes, apr_pool_t *pool,
                             const char **why)
{
    htc_heap *heap = apr_pcalloc(pool, sizeof(*heap));
    void *hints;
    apr_status_t rv;

    *made = NULL;
    *why = "its size is out of range";
    if (bytes < HTC_HEAP_MIN_BYTES || bytes > HTC_HEAP_MAX_BYTES)
        return APR_EINVAL;
    heap->bytes = (size_t)bytes / 4096 * 4096;
    *why = "the limit on the size of files (ulimit -f) is lower";
    if (!may_be_so_large(heap->bytes))
        return APR_FROM_OS_ERROR(EFBIG);
    heap->nrows = processes < MOST_ROWS ? processes : MOST_ROWS;
    heap->given_ms = apr_pcalloc(pool, heap->nrows * sizeof(*heap->given_ms));
    heap->holders = apr_pcalloc(pool, heap->nrows * sizeof(*heap->holders));
    heap->fd = heap->wake = -1;
    heap->maker = getpid();
    apr_pool_cleanup_register(pool, heap, unmap, apr_pool_cleanup_null);
    rv = map_file(heap, why);
    if (rv != APR_SUCCESS)
        return rv;
    heap->hints_bytes = round_up(sizeof(heap_hints) + heap->end, 4096);
    *why = "mmap() failed";
    rv = htc_pages_share(&hints, heap->hints_bytes, pool);
    if (rv != APR_SUCCESS)
        return rv;
    heap->hints = hints;
    if (!map_rows(heap))
        return APR_FROM_OS_ERROR(errno);
    *why = "eventfd() or memfd_create() failed";
    heap->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (heap->wake < 0)
        return APR_FROM_OS_ERROR(errno);
    rv = htc_lock_create(&heap->lock, &heap->hints->lock, pool);
    if (rv != APR_SUCCESS)
        return rv;
    *why = NULL;
    *made = heap;
    return APR_SUCCESS;
}

/* --- forks ------------------------------------------------------------------------------------*/

/* What a row begins with from before a fork until the fork has it. No block has that number. */
#define GIVEN    (UINT64_C(0xffffffff) << 32)
#define GIVEN_MS 30000 /* a fork that does not have it by then will not */

/* Has it gone to no process yet that may live? This is known without asking anyone else: what a
 * process has locked it can unlock, and still have the row. */
static bool is_row_unused(const htc_heap *heap, unsigned number)
{
    return !heap->given_ms[number] && !htc_lock_enlisted(&heap->lock, number);
}

/* The process that it was given to is not known, and has ended, or runs another program, or has
 * unlocked it. */
static bool is_row_left(const htc_heap *heap, unsigned number, int64_t now_ms)
{
    return !heap->holders[number] && !htc_lock_enlisted(&heap->lock, number) &&
           (HEAP_GET(*heap_row(heap, number)) != GIVEN ||
            now_ms - heap->given_ms[number] >= GIVEN_MS);
}

/* Rows in use shall lie together, at the beginning. */
static unsigned choose_row(const htc_heap *heap, int64_t now_ms)
{
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (is_row_unused(heap, i))
            return i;
    }
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (is_row_left(heap, i, now_ms))
            return i;
    }
    return heap->nrows;
}

/* One process that serves alone has forks that get no row. */
static bool hides(const htc_heap *heap)
{
    return heap && heap->hidden && heap->maker == getpid() && !heap->row;
}

static void before_fork(void)
{
    htc_heap *heap = made;
    int64_t now_ms;

    if (!hides(heap))
        return;
    now_ms = htc_mono_ms();
    heap->given = choose_row(heap, now_ms);
    if (heap->given == heap->nrows)
        return;
    HEAP_SET(*heap_row(heap, heap->given), GIVEN);
    heap->given_ms[heap->given] = now_ms ? now_ms : 1;
    heap->holders[heap->given] = 0;
    madvise((void *)heap_row(heap, heap->given), HEAP_ROW_BYTES, MADV_DOFORK);
}

static void after_fork(void)
{
    htc_heap *heap = made;

    if (hides(heap) && heap->given < heap->nrows)
        madvise((void *)heap_row(heap, heap->given), HEAP_ROW_BYTES, MADV_DONTFORK);
}

/* In a process that a module has forked from one that serves, as a script of mod_perl may. Pins
 * there are the other one's, which still uses what they pin. The fork may run the same cleanups when
 * it ends: these get words of its own. It finds nothing, as nobody would look at its pins. */
static void leave_in_fork(void)
{
    if (!joined->row)
        return;
    mmap((void *)joined->row, HEAP_ROW_BYTES, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    joined->row = NULL;
}

static void give_up(htc_heap *heap)
{
    if (heap->given < heap->nrows)
        munmap((void *)heap_row(heap, heap->given), HEAP_ROW_BYTES);
    heap->given = heap->nrows;
}

/* Whether it will join or not, the fork has its row from now on: until it ends or runs another
 * program, as that of a piped log does. What a daemon of another module forks shall not share it. */
static void in_fork(void)
{
    htc_heap *heap = made;

    if (joined)
        leave_in_fork();
    else if (heap && heap->hidden && heap->given < heap->nrows) {
        if (htc_lock_enlist(&heap->lock, heap->given))
            HEAP_SET(*heap_row(heap, heap->given), 0);
        else
            give_up(heap);
    }
}

/* False: there is no memory for it. */
static bool handle_forks(void)
{
    static bool handled;

    handled = handled || !pthread_atfork(before_fork, after_fork, in_fork);
    return handled;
}

void htc_heap_hide_rows(htc_heap *heap, bool hide)
{
    if (!handle_forks())
        return;
    made = heap;
    heap->given = heap->nrows;
    heap->hidden = hide && !madvise(heap->rows, heap->nrows * HEAP_ROW_BYTES, MADV_DONTFORK);
    if (!heap->hidden)
        madvise(heap->rows, heap->nrows * HEAP_ROW_BYTES, MADV_DOFORK);
}

void htc_heap_forked(htc_heap *heap, pid_t child)
{
    if (hides(heap) && heap->given < heap->nrows)
        heap->holders[heap->given] = child;
}

void htc_heap_ended(htc_heap *heap, pid_t child)
{
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (heap->holders[i] == child) {
            heap->holders[i] = 0;
            heap->given_ms[i] = 0;
        }
    }
}

/* --- joining ----------------------------------------------------------------------------------*/

/* Where rows are hidden only the given one was inherited. The rest of their place is not this
 * heap's: anything that was mapped since the fork may lie there. */
static void unmap_others(htc_heap *heap, unsigned own)
{
    char *row = heap->rows + own * HEAP_ROW_BYTES;
    char *end = heap->rows + heap->nrows * HEAP_ROW_BYTES;

    if (heap->hidden) {
        if (own == heap->nrows)
            give_up(heap);
        return;
    }
    if (own == heap->nrows) {
        munmap(heap->rows, heap->nrows * HEAP_ROW_BYTES);
        return;
    }
    if (row > heap->rows)
        munmap(heap->rows, (size_t)(row - heap->rows));
    if (row + HEAP_ROW_BYTES < end)
        munmap(row + HEAP_ROW_BYTES, (size_t)(end - row) - HEAP_ROW_BYTES);
}

/* The one that it was given; or else the first row that no living process has, as the kernel says.
 * What a process before has pinned there is void with it. */
static unsigned enlist(const htc_heap *heap, bool alone)
{
    unsigned own = heap->hidden && !alone ? heap->given : 0;
    unsigned end = heap->hidden && !alone && own < heap->nrows ? own + 1 : heap->nrows;

    while (own < end && !htc_lock_enlist(&heap->lock, own))
        own++;
    return own < end ? own : heap->nrows;
}

bool htc_heap_join(htc_heap *heap, bool alone)
{
    unsigned own;

    if (heap->joined == getpid())
        return heap->row != NULL;
    heap->joined = getpid();
    own = enlist(heap, alone);
    if (own < heap->nrows) {
        memset((void *)heap_row(heap, own), 0, HEAP_ROW_BYTES);
        heap->row = heap_row(heap, own);
    }
    joined = heap;
    if (heap->row && !alone && !handle_forks())
        heap->row = NULL;
    if (alone)
        return heap->row != NULL;
    unmap_others(heap, heap->row ? own : heap->nrows);
    close(heap->fd);
    heap->fd = -1;
    return heap->row != NULL;
}

void htc_heap_meet(htc_heap *heap)
{
    uint64_t large = HEAP_GET(heap->header->large);

    htc_pages_meet(heap->base, large < MOST_MET ? large : MOST_MET);
}

uint64_t htc_heap_told(const htc_heap *heap)
{
    return HEAP_GET(heap->header->told);
}

/* --- finding ----------------------------------------------------------------------------------*/

#define BUCKETS   (HEAP_ROW_WORDS / HEAP_WAYS)
#define ONE(word) ((uint32_t)(word))

static inline htc_pin *bucket_of(htc_pin *row, uint32_t number, unsigned which)
{
    uint32_t mixed = number * UINT32_C(0x9E3779B1) >> 16;

    return row + ((mixed + which) % BUCKETS) * HEAP_WAYS;
}

/* One more request of this process uses the block. */
static inline htc_pin *pin_known(htc_pin *bucket, uint32_t number)
{
    for (unsigned i = 0; i < HEAP_WAYS; i++) {
        uint64_t seen = HEAP_GET(bucket[i]);

        while (seen >> 32 == number && ONE(seen)) {
            if (atomic_compare_exchange_weak(&bucket[i], &seen, seen + 1))
                return &bucket[i];
        }
    }
    return NULL;
}

static inline htc_pin *pin_new(htc_pin *bucket, uint32_t number)
{
    for (unsigned i = 0; i < HEAP_WAYS; i++) {
        uint64_t seen = HEAP_GET(bucket[i]);

        if (!ONE(seen) &&
            atomic_compare_exchange_strong(&bucket[i], &seen, (uint64_t)number << 32 | 1))
            return &bucket[i];
    }
    return NULL;
}

/* Where the block's number leads to, if the thread's own words are taken. */
static HTC_APART htc_pin *pin_elsewhere(htc_pin *row, uint32_t number)
{
    htc_pin *pin = pin_known(bucket_of(row, number, 0), number);

    for (unsigned which = 0; !pin && which < 4; which++)
        pin = pin_new(bucket_of(row, number, which), number);
    return pin;
}

/* A thread has words of its own, in one cache line, which it shares with few others. Threads differ
 * by where their stacks lie. */
static inline htc_pin *own_bucket(htc_pin *row)
{
    return bucket_of(row, (uint32_t)((uintptr_t)__builtin_frame_address(0) >> 16), 0);
}

static inline htc_pin *pin_block(htc_pin *row, uint32_t number)
{
    htc_pin *own = own_bucket(row), *pin = pin_known(own, number);

    if (!pin)
        pin = pin_new(own, number);
    return pin ? pin : pin_elsewhere(row, number);
}

/* Only when room is short: the mark lies on a page that nothing else of the request needs. */
static inline void mark_used(const htc_heap *heap, uint32_t number)
{
    _Atomic uint8_t *used = &heap->hints->used[number];

    if (HEAP_GET(heap->header->scarce) && !HEAP_GET(*used))
        HEAP_SET(*used, 1);
}

/* What is to be read next lies on pages of its own each, and the pin orders all reads. So they are
 * begun ahead of it. */
static inline void fetch_object(const htc_heap *heap, uint32_t number)
{
    const char *block = (const char *)heap_block_at(heap, number);

    __builtin_prefetch(block);
    __builtin_prefetch(block + 64);
    __builtin_prefetch(block + 128);
    __builtin_prefetch(block + 192);
}

/* The index is looked at again behind the pin; see heap/heap.h. */
static HTC_EACH const void *acquire_from(const htc_heap *heap, size_t set, uint64_t hash,
                                         htc_heap_match match, const void *key, htc_pin **pin)
{
    for (size_t at = set; at < set + HEAP_WAYS; at++) {
        uint64_t word = atomic_load_explicit(&heap->index[at], memory_order_acquire);
        uint32_t number = (uint32_t)word;
        const heap_block *block;

        if (!word || word != heap_word(hash, number))
            continue;
        fetch_object(heap, number);
        HTC_POINT("about to pin");
        *pin = pin_block(heap->row, number);
        if (!*pin)
            return NULL;
        HTC_POINT("pinned");
        block = heap_block_at(heap, number);
        if (atomic_load(&heap->index[at]) == word && block->hash == hash &&
            match(heap_payload(block), key)) {
            mark_used(heap, number);
            return heap_payload(block);
        }
        htc_heap_release(*pin);
    }
    return NULL;
}

HTC_EACH const void *htc_heap_acquire(const htc_heap *heap, uint64_t hash, htc_heap_match match,
                                      const void *key, htc_pin **pin)
{
    const void *found;

    if (!heap->row)
        return NULL;
    __builtin_prefetch(&heap->index[heap_set(heap, hash, 1)]);
    __builtin_prefetch((const void *)own_bucket(heap->row), 1);
    found = acquire_from(heap, heap_set(heap, hash, 0), hash, match, key, pin);
    return found ? found : acquire_from(heap, heap_set(heap, hash, 1), hash, match, key, pin);
}

/* --- asking -----------------------------------------------------------------------------------*/

static bool take_place(heap_place *place, uint64_t key, int64_t now_ms)
{
    uint32_t state = HEAP_GET(place->state);

    if (state == HEAP_WRITING || state == HEAP_WAITING ||
        (state == HEAP_ANSWERED && HEAP_GET(place->key) == key &&
         (uint64_t)HEAP_GET(place->until) - (uint64_t)now_ms - 1 < HEAP_AGAIN_MS))
        return false;
    return atomic_compare_exchange_strong(&place->state, &state, HEAP_WRITING);
}

void htc_heap_ask(htc_heap *heap, const htc_heap_request *request, int64_t now_ms)
{
    heap_hints *hints = heap->hints;
    unsigned number = (request->key >> 8) % HEAP_REQUESTS;
    heap_place *place = &hints->places[number];
    const uint64_t one = 1;

    if ((HEAP_GET(heap->header->full) &&
         !htc_ghosts_want(hints->ghosts, HEAP_GHOSTS, request->key)) ||
        !take_place(place, request->key, now_ms))
        return;
    HEAP_SET(place->key, request->key);
    HEAP_SET(place->record, request->record);
    HEAP_SET(place->owner, request->owner);
    HEAP_SET(place->server, request->server);
    HEAP_SET(place->share, request->share);
    atomic_store(&place->state, HEAP_WAITING);
    atomic_fetch_or(&hints->waiting[number / 64], UINT64_C(1) << number % 64);
    if (atomic_exchange(&hints->asleep, 0) && write(heap->wake, &one, sizeof(one)) < 0)
        return; /* it wakes by itself */
}

/* --- figures ----------------------------------------------------------------------------------*/

int32_t htc_heap_builder(const htc_heap *heap)
{
    return (int32_t)HEAP_GET(heap->header->builder);
}

void htc_heap_stats_get(const htc_heap *heap, htc_heap_stats *stats)
{
    const heap_header *header = heap->header;

    *stats = (htc_heap_stats){.bytes_total = heap->bytes,
                              .bytes_used = HEAP_GET(header->used),
                              .builds = HEAP_GET(header->builds),
                              .refusals = HEAP_GET(header->refusals),
                              .evictions = HEAP_GET(header->evictions),
                              .no_room = HEAP_GET(header->no_room),
                              .builders = HEAP_GET(header->builders),
                              .condemned = HEAP_GET(header->ncondemned),
                              .builder = htc_heap_builder(heap)};
    for (int i = 0; i < HTC_HEAP_KINDS; i++) {
        stats->objects[i] = HEAP_GET(header->objects[i]);
        stats->bytes[i] = HEAP_GET(header->bytes[i]);
    }
    for (unsigned i = 0; i < HEAP_REQUESTS; i++)
        stats->waiting += HEAP_GET(heap->hints->places[i].state) == HEAP_WAITING;
    for (unsigned i = 0; i < heap->nrows; i++)
        stats->processes += heap_row(heap, i) == heap->row || htc_lock_enlisted(&heap->lock, i);
}

void htc_heap_each(const htc_heap *heap, htc_heap_kind kind, htc_heap_visit visit, void *baton)
{
    bool more = heap->row != NULL;

    for (size_t at = 0; more && at < heap->nsets * HEAP_WAYS; at++) {
        uint64_t word = atomic_load_explicit(&heap->index[at], memory_order_acquire);
        const heap_block *block = heap_block_at(heap, (uint32_t)word);
        htc_pin *pin = word ? pin_block(heap->row, (uint32_t)word) : NULL;

        if (!pin)
            continue;
        if (atomic_load(&heap->index[at]) == word && block->kind == kind)
            more = visit(baton, heap_payload(block),
                         heap_granules(HEAP_GET(block->head)) * HEAP_GRANULE);
        htc_heap_release(pin);
    }
}
