/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the builder is asked for, and what builders died of. Called by the builder process alone.
 * Every process can write to the queue: nothing in it is relied on.
 */
#include "heap/internal.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#define STUCK_MS 1000 /* a place written for so long belongs to a process that died */
#define LOOK_MS  500  /* all places are looked at so often */

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

    if (heap->writer->free < heap_total(heap) / 16)
        HEAP_SET(heap->header->full, 1);
    else if (heap->writer->free > heap_total(heap) / 2)
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
static unsigned next_due(heap_writer *w)
{
    for (unsigned i = 0; i < HEAP_REQUESTS / 64; i++) {
        unsigned low = (unsigned)__builtin_ctzll(w->due[i] | UINT64_C(1) << 63);

        if (!w->due[i])
            continue;
        w->due[i] &= ~(UINT64_C(1) << low);
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
        unsigned number = next_due(w);

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
                w->due[i] = atomic_exchange(&heap->hints->waiting[i], 0);
        }
        fetched = true;
    }
}

/* Serving processes read objects at random places. In large pages they meet fewer faults, and the
 * processor finds the memory sooner. The last page is worth it when a quarter of it is empty. One at a
 * time, so that no request waits long for the next. */
static void enlarge_page(htc_heap *heap)
{
    heap_writer *w = heap->writer;

    if (w->filled * HEAP_GRANULE + HTC_LARGE_PAGE / 4 >= w->enlarged + HTC_LARGE_PAGE &&
        w->enlarged + HTC_LARGE_PAGE <= heap->bytes) {
        if (htc_pages_enlarge(heap->base + w->enlarged, HTC_LARGE_PAGE) &&
            HEAP_GET(heap->header->large) == w->enlarged)
            HEAP_SET(heap->header->large, w->enlarged + HTC_LARGE_PAGE);
        w->enlarged += HTC_LARGE_PAGE;
    }
}

void htc_heap_tell(htc_heap *heap, uint64_t bits)
{
    uint64_t told = HEAP_GET(heap->header->told);

    if ((told & bits) != bits)
        HEAP_SET(heap->header->told, told | bits);
}

void htc_heap_answer(htc_heap *heap, bool again, int64_t now_ms)
{
    heap_writer *w = heap->writer;

    if (w->current) {
        HEAP_SET(w->current->until, now_ms + HEAP_AGAIN_MS);
        atomic_store(&w->current->state, again ? HEAP_EMPTY : HEAP_ANSWERED);
        w->current = NULL;
    }
    w->nkept = 0;
    enlarge_page(heap);
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
