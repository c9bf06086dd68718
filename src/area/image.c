/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The images of the area: builds, where there is room, what becomes a map's image, and giving
 * the memory of old ones back to the system. Called by the glue when a file is loaded.
 */
#include "area/internal.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <apr_time.h>

#define MAKE_WAY_TRIES 4
#define BATCH          32 /* images marked at a time before their memory is given back */
#define LOOK_PAGES     1024
#define ABSENT_MOST    ((size_t)64 << 20) /* bytes of an image that may have been swapped out */

/* --- what is there ----------------------------------------------------------------------------*/

/* This number of bytes, of LOOK_PAGES pages at most; all bytes, if it is not known. */
static size_t absent_of(const redirect_area *area, const void *at, size_t bytes)
{
    unsigned char resident[LOOK_PAGES];
    size_t absent = 0;

    if (mincore((void *)(uintptr_t)at, bytes, resident) != 0)
        return bytes;
    for (size_t i = 0; i * area->page < bytes; i++)
        absent += resident[i] & 1 ? 0 : area->page;
    return absent;
}

/* No rule takes less than two bytes of a table, and what else has counters has larger entries. */
bool redirect_area_pin_filled(const redirect_area *area, const redirect_area_pin *pin)
{
    size_t look = LOOK_PAGES * area->page, absent = 0;

    for (size_t at = 0; at < pin->size && absent <= ABSENT_MOST; at += look)
        absent += absent_of(area, (const char *)pin->image + at,
                            pin->size - at < look ? pin->size - at : look);
    return absent <= ABSENT_MOST && pin->ncounters <= pin->size / 2;
}

/* --- garbage ----------------------------------------------------------------------------------*/

bool rda_image_extent(const redirect_area *area, uint32_t slot, rda_extent *extent)
{
    const rda_image *image = &area->images[slot];

    extent->first = RDA_GET(image->first);
    extent->pages = RDA_GET(image->pages);
    return extent->pages > 0 && extent->first < area->pages &&
           extent->pages <= area->pages - extent->first;
}

static void survey_row(rda_survey *s, const redirect_area *area, uint32_t cell,
                       const rda_pin_row *row)
{
    for (uint32_t i = 0; i < RDA_ROW_PINS; i++) {
        uint64_t version = atomic_load_explicit(&row->pins[i].version, memory_order_seq_cst);
        uint32_t slot = rda_slot_of(version);

        if (version && rda_cell_alive(area, cell, &s->census))
            s->held[slot / 64] |= UINT64_C(1) << slot % 64;
    }
}

/* The reading of the thread pins that redirect_area_hold() speaks of. It may come first, as an
 * image that is no map's can only become one's under the lock. */
void rda_survey_locked(const redirect_area *area, rda_survey *s)
{
    memset(s, 0, sizeof(*s));
    for (uint32_t cell = 0; cell < rda_processes_end(area); cell++) {
        for (uint64_t left =
                 atomic_load_explicit(&area->processes[cell].rows, memory_order_seq_cst);
             left; left &= left - 1)
            survey_row(s, area, cell, &area->rows[cell].rows[__builtin_ctzll(left)]);
    }
}

/* The reading of the cells that redirect_area_pin_get() speaks of. */
bool rda_image_pinned_locked(const redirect_area *area, uint32_t slot, rda_survey *s)
{
    if (s->held[slot / 64] >> slot % 64 & 1)
        return true;
    for (uint32_t cell = 0; cell < rda_processes_end(area); cell++) {
        if (atomic_load_explicit(&area->cells[slot].pins[cell], memory_order_seq_cst) &&
            rda_cell_alive(area, cell, &s->census))
            return true;
    }
    return false;
}

static bool reserved_locked(const redirect_area *area, uint32_t slot, rda_census *census)
{
    uint32_t handle = RDA_GET(area->images[slot].map);
    const rda_map *map = rda_map_at(area, handle);

    return rda_map_valid(area, handle) && RDA_GET(map->reserved) == slot &&
           rda_serial_alive(area, RDA_GET(map->builder), census);
}

/* By the one word that pinning reads, too. */
static bool current_locked(const redirect_area *area, uint32_t slot)
{
    const rda_image *image = &area->images[slot];
    const rda_map *map = rda_map_at(area, RDA_GET(image->map));

    return atomic_load_explicit(&map->current, memory_order_seq_cst) == RDA_GET(image->version);
}

static bool garbage_locked(const redirect_area *area, uint32_t slot, rda_survey *s)
{
    rda_extent extent;

    if (!rda_image_extent(area, slot, &extent))
        return false;
    switch (RDA_GET(area->images[slot].state)) {
    case RDA_RESERVED:
        return !reserved_locked(area, slot, &s->census);
    case RDA_PUBLISHED:
        return !current_locked(area, slot) && !rda_image_pinned_locked(area, slot, s);
    case RDA_RELEASING:
        return !rda_serial_alive(area, RDA_GET(area->images[slot].releaser), &s->census);
    default:
        return false;
    }
}

/* Mark garbage as this process's to give back, from *next on. Returns how much there was. */
static uint32_t mark_garbage_locked(redirect_area *area, uint32_t *next, uint32_t slots[BATCH])
{
    rda_survey s;
    uint32_t n = 0;

    rda_survey_locked(area, &s);
    for (; *next < rda_images_end(area) && n < BATCH; ++*next) {
        rda_image *image = &area->images[*next];

        if (!garbage_locked(area, *next, &s))
            continue;
        RDA_SET(image->releaser, rda_own_serial(area));
        RDA_SET(image->state, RDA_RELEASING);
        slots[n++] = *next;
    }
    return n;
}

/* Where the system cannot take memory back from the middle of a mapping, it stays for the images to
 * come. */
static void give_back(redirect_area *area, uint32_t slot)
{
    rda_extent extent;

    if (rda_image_extent(area, slot, &extent))
        madvise(area->room + (size_t)extent.first * area->page, (size_t)extent.pages * area->page,
                MADV_REMOVE);
    HTC_POINT("given back");
    RDA_SET(area->images[slot].state, RDA_FREE);
}

/* Giving back much takes long, so it is done without the lock; no process touches what is
 * marked. */
void redirect_area_sweep(redirect_area *area)
{
    uint32_t slots[BATCH], next = 0, n;

    do {
        if (!rda_enlisted(area) || rda_lock(area) != APR_SUCCESS)
            return;
        n = mark_garbage_locked(area, &next, slots);
        rda_unlock(area);
        for (uint32_t i = 0; i < n; i++)
            give_back(area, slots[i]);
    } while (n == BATCH);
}

/* --- room -------------------------------------------------------------------------------------*/

static int by_first(const void *a, const void *b)
{
    uint32_t first = ((const rda_extent *)a)->first, second = ((const rda_extent *)b)->first;

    return (first > second) - (first < second);
}

/* All extents in use, in order. False when one is impossible: what it covers is not known, so
 * nothing can be said to be free. */
static bool extents_locked(redirect_area *area, uint32_t *n)
{
    uint32_t end = 0;

    *n = 0;
    for (uint32_t i = 0; i < rda_images_end(area); i++) {
        if (RDA_GET(area->images[i].state) == RDA_FREE)
            continue;
        if (!rda_image_extent(area, i, &area->extents[*n]))
            return false;
        ++*n;
    }
    qsort(area->extents, *n, sizeof(*area->extents), by_first);
    for (uint32_t i = 0; i < *n; i++) {
        if (area->extents[i].first < end)
            return false;
        end = area->extents[i].first + area->extents[i].pages;
    }
    return true;
}

/* First fit. What fills a large page begins on one. */
static apr_status_t find_room_locked(redirect_area *area, uint32_t pages, uint32_t *first)
{
    uint64_t large = HTC_LARGE_PAGE / area->page, align = pages >= large ? large : 1, at = 0;
    uint32_t n;

    if (!extents_locked(area, &n))
        return APR_EGENERAL;
    for (uint32_t i = 0; i < n && area->extents[i].first < at + pages; i++)
        at =
            ((uint64_t)area->extents[i].first + area->extents[i].pages + align - 1) / align * align;
    *first = (uint32_t)at;
    return at + pages <= area->pages ? APR_SUCCESS : APR_ENOSPC;
}

static uint32_t free_slot_locked(redirect_area *area)
{
    uint32_t end = rda_images_end(area);

    for (uint32_t i = 0; i < end; i++) {
        if (RDA_GET(area->images[i].state) == RDA_FREE)
            return i;
    }
    if (end == REDIRECT_AREA_IMAGES)
        return RDA_NIL;
    RDA_SET(area->header->images_end, end + 1);
    return end;
}

/* --- builds -----------------------------------------------------------------------------------*/

static bool builds(const redirect_area *area, uint32_t handle)
{
    uint64_t serial = rda_own_serial(area);

    return serial && rda_map_valid(area, handle) &&
           RDA_GET(rda_map_at(area, handle)->builder) == serial;
}

bool redirect_area_build_begin(redirect_area *area, uint32_t handle)
{
    rda_map *map = rda_map_at(area, handle);
    bool mine;

    if (!rda_enlisted(area) || rda_lock(area) != APR_SUCCESS)
        return false;
    mine = rda_map_valid(area, handle) && !rda_serial_alive(area, RDA_GET(map->builder), NULL);
    if (mine) {
        RDA_SET(map->reserved, RDA_NIL);
        RDA_SET(map->percent, 0);
        RDA_SET(map->builder, rda_own_serial(area));
    }
    rda_unlock(area);
    return mine;
}

void redirect_area_progress(redirect_area *area, uint32_t handle, unsigned percent)
{
    if (builds(area, handle))
        RDA_SET(rda_map_at(area, handle)->percent, percent);
}

/* A request for room, and why there is none. */
typedef struct room {
    size_t size;
    uint32_t pages, counters;
    rda_share full; /* of this there is no room; RDA_SHARES: the owner may not have so much */
} room;

static uint64_t owner_of(const redirect_area *area, uint32_t handle)
{
    return RDA_GET(area->names[rda_entry_of(handle)].owner);
}

/* Only the map's `reserved` makes it more than garbage. */
static apr_status_t reserve_locked(redirect_area *area, uint32_t handle, room *want, void **to)
{
    uint64_t owner = owner_of(area, handle);
    uint32_t slot, first;
    rda_image *image;
    apr_status_t rv;

    if (!builds(area, handle))
        return APR_EINVAL;
    RDA_SET(rda_map_at(area, handle)->reserved, RDA_NIL);
    want->full = RDA_SHARES;
    if (!rda_may_have_locked(area, RDA_PAGES, owner, want->pages) ||
        !rda_may_have_locked(area, RDA_IMAGES, owner, 1))
        return APR_ENOSPC;
    want->full = RDA_PAGES;
    rv = find_room_locked(area, want->pages, &first);
    if (rv != APR_SUCCESS)
        return rv;
    want->full = RDA_IMAGES;
    slot = free_slot_locked(area);
    if (slot == RDA_NIL)
        return APR_ENOSPC;
    image = &area->images[slot];
    RDA_SET(image->version, 0);
    RDA_SET(image->map, handle);
    RDA_SET(image->first, first);
    RDA_SET(image->pages, want->pages);
    RDA_SET(image->size, want->size);
    RDA_SET(image->counters, want->counters);
    RDA_SET(image->owner, owner);
    RDA_SET(image->state, RDA_RESERVED);
    RDA_SET(rda_map_at(area, handle)->reserved, slot);
    *to = area->room + (size_t)first * area->page;
    return APR_SUCCESS;
}

static apr_status_t try_reserve(redirect_area *area, uint32_t handle, room *want, void **to)
{
    apr_status_t rv = rda_lock(area);

    if (rv != APR_SUCCESS)
        return rv;
    rv = reserve_locked(area, handle, want, to);
    rda_unlock(area);
    return rv;
}

/* Evict maps with an owner for this one. */
static bool make_way(redirect_area *area, uint32_t handle, const room *want)
{
    uint64_t owner = owner_of(area, handle);
    bool made;

    if (rda_lock(area) != APR_SUCCESS)
        return false;
    made = builds(area, handle) &&
           rda_make_way_locked(area, RDA_PAGES, owner, want->pages, want->full == RDA_PAGES) &&
           rda_make_way_locked(area, RDA_IMAGES, owner, 1, want->full == RDA_IMAGES);
    rda_unlock(area);
    return made;
}

static uint64_t pages_of(const redirect_area *area, uint64_t bytes)
{
    return bytes / area->page + (bytes % area->page != 0);
}

/* The earlier contents were given back, but that does not leave zeros everywhere. */
static void clear_counters(const redirect_area *area, void *image, const room *want)
{
    unsigned char *at = (unsigned char *)image + pages_of(area, want->size) * area->page;
    size_t bytes = want->counters * sizeof(redirect_counter);

    if (bytes && madvise(at, pages_of(area, bytes) * area->page, MADV_REMOVE) != 0)
        memset(at, 0, bytes);
}

apr_status_t redirect_area_reserve(redirect_area *area, uint32_t handle, size_t size,
                                   uint32_t counters, void **image)
{
    uint64_t pages =
        pages_of(area, size) + pages_of(area, (uint64_t)counters * sizeof(redirect_counter));
    room want = {size, (uint32_t)pages, counters, RDA_SHARES};
    apr_status_t rv;

    *image = NULL;
    if (!size)
        return APR_EINVAL;
    if (pages > area->pages)
        return APR_ENOSPC;
    redirect_area_sweep(area); /* or there would be three images for a while: two and an old one */
    rv = try_reserve(area, handle, &want, image);
    if (rv == APR_ENOSPC) { /* what this build had reserved before is free now */
        redirect_area_sweep(area);
        rv = try_reserve(area, handle, &want, image);
    }
    /* More than once, as a request may pin the map that was to be evicted, or free room may lie
     * in pieces. */
    for (int i = 0; rv == APR_ENOSPC && i < MAKE_WAY_TRIES && make_way(area, handle, &want); i++) {
        redirect_area_sweep(area);
        rv = try_reserve(area, handle, &want, image);
    }
    if (rv == APR_SUCCESS)
        clear_counters(area, *image, &want);
    return rv;
}

/* The reserved image, now with a version and all that is known of it; no map's yet. */
static void complete_locked(redirect_area *area, uint32_t slot, const htc_identity *id)
{
    rda_image *image = &area->images[slot];
    uint64_t number = RDA_GET(area->header->versions) + 1, words[RDA_ID_WORDS];

    memcpy(words, id, sizeof(words));
    for (size_t i = 0; i < RDA_ID_WORDS; i++)
        RDA_SET(image->id[i], words[i]);
    RDA_SET(image->loaded_at, apr_time_sec(apr_time_now()));
    RDA_SET(area->header->versions, number);
    RDA_SET(image->version, number << RDA_IMAGE_BITS | slot);
    RDA_SET(image->state, RDA_PUBLISHED);
}

static void end_build_locked(rda_map *map)
{
    RDA_SET(map->reserved, RDA_NIL);
    RDA_SET(map->builder, 0);
}

static apr_status_t publish_locked(redirect_area *area, uint32_t handle, const htc_identity *id)
{
    rda_map *map = rda_map_at(area, handle);
    uint32_t slot = RDA_GET(map->reserved);
    bool first = RDA_GET(map->current) == 0;

    if (!builds(area, handle) || slot >= rda_images_end(area) ||
        RDA_GET(area->images[slot].state) != RDA_RESERVED)
        return APR_EINVAL;
    complete_locked(area, slot, id);
    rda_set_current(map, RDA_GET(area->images[slot].version));
    RDA_SET(map->failed, 0);
    if (!first)
        RDA_SET(map->reloads, RDA_GET(map->reloads) + 1);
    end_build_locked(map);
    return APR_SUCCESS;
}

/* The image that this process is building is read at random places from now on. */
static void enlarge_pages(const redirect_area *area, uint32_t handle)
{
    uint32_t slot = RDA_GET(rda_map_at(area, handle)->reserved);
    rda_extent extent;

    if (builds(area, handle) && slot < rda_images_end(area) &&
        rda_image_extent(area, slot, &extent))
        htc_pages_enlarge(area->room + (size_t)extent.first * area->page,
                          (size_t)extent.pages * area->page);
}

apr_status_t redirect_area_publish(redirect_area *area, uint32_t handle, const htc_identity *id)
{
    apr_status_t rv;

    enlarge_pages(area, handle);
    rv = rda_lock(area);
    if (rv != APR_SUCCESS)
        return rv;
    rv = publish_locked(area, handle, id);
    rda_unlock(area);
    if (rv == APR_SUCCESS)
        redirect_area_sweep(area);
    return rv;
}

/* See read_failure() in area/map.c. Only the process that builds the map's image writes
 * here, so it needs no lock. A count that is odd already was left by a process that died. */
static void remember_failure(rda_map *map, const htc_identity *id)
{
    uint64_t words[RDA_ID_WORDS];
    uint32_t seq = RDA_GET(map->failed_seq) | 1;

    memcpy(words, id, sizeof(words));
    RDA_SET(map->failed_seq, seq);
    for (size_t i = 0; i < RDA_ID_WORDS; i++)
        RDA_SET(map->failed_id[i], words[i]);
    RDA_SET(map->failed, 1);
    RDA_SET(map->failed_seq, seq + 1);
    RDA_SET(map->failures, RDA_GET(map->failures) + 1);
}

/* Without the lock the build still ends, as no other process may end it while this process
 * lives. */
void redirect_area_build_failed(redirect_area *area, uint32_t handle, const htc_identity *id)
{
    rda_map *map = rda_map_at(area, handle);
    bool locked = rda_lock(area) == APR_SUCCESS;

    if (builds(area, handle)) {
        if (id)
            remember_failure(map, id);
        if (locked)
            end_build_locked(map);
        else
            RDA_SET(map->builder, 0);
    }
    if (!locked)
        return;
    rda_unlock(area);
    redirect_area_sweep(area);
}
