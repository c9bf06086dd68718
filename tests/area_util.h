/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area_util.h
 * Shared by the test programs of the area for table images: images whose every byte follows from
 * the map and the build that they are of, and what must hold in an area at rest.
 */
#ifndef AREA_UTIL_H
#define AREA_UTIL_H

#include "area/internal.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <apr_general.h>

#define AU_MAGIC UINT64_C(0x6167616d69206e61)
#define AU_LEAST 32 /* bytes of an image */

typedef struct au_head {
    uint64_t magic, map, build, size;
} au_head;

/* A small generator, for tests that can be repeated. */
static inline uint32_t au_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static inline uint64_t au_word(const au_head *head, size_t i)
{
    return (head->build * 0x9e3779b97f4a7c15 ^ head->map) + i * 0xff51afd7ed558ccd;
}

static inline void au_fill(void *image, size_t size, uint64_t map, uint64_t build)
{
    au_head head = {AU_MAGIC, map, build, size};
    unsigned char *at = image;

    memcpy(at, &head, sizeof(head));
    for (size_t i = sizeof(head); i < size; i += 8) {
        uint64_t word = au_word(&head, i);

        memcpy(at + i, &word, size - i < 8 ? size - i : 8);
    }
}

/* NULL when every byte is as build number *build of the map left it; else what is wrong. */
static inline const char *au_wrong(const void *image, size_t size, uint64_t map, uint64_t *build)
{
    const unsigned char *at = image;
    au_head head;

    memcpy(&head, at, sizeof(head));
    *build = head.build;
    if (head.magic != AU_MAGIC)
        return "no image";
    if (head.map != map)
        return "an image of another map";
    if (head.size != size)
        return "an image of another size";
    for (size_t i = sizeof(head); i < size; i += 8) {
        uint64_t word = au_word(&head, i);

        if (memcmp(at + i, &word, size - i < 8 ? size - i : 8) != 0)
            return "a mixture of images";
    }
    return NULL;
}

static inline htc_identity au_identity(uint64_t build)
{
    return (htc_identity){.dev = 1, .ino = build, .size = build * 3, .mode = (uint32_t)build};
}

/* A pinned image, and what it must be. */
typedef struct au_held {
    redirect_area_pin pin;
    uint64_t number, build;               /* of its map */
    redirect_area_thread_pin *thread_pin; /* where it is held instead of being pinned */
} au_held;

/* Whatever keeps it. */
static inline void au_let_go(redirect_area *area, au_held *h)
{
    if (h->thread_pin)
        redirect_area_let_go(area, &h->pin, h->thread_pin);
    else
        redirect_area_unpin(area, &h->pin);
    memset(h, 0, sizeof(*h));
}

/* Hold what is pinned, if it is the map's current image still and there is a thread pin. */
static inline bool au_hold(redirect_area *area, uint32_t map, au_held *h, uint64_t thread)
{
    h->thread_pin = redirect_area_hold(area, map, &h->pin, thread);
    if (h->thread_pin)
        redirect_area_unpin(area, &h->pin);
    return h->thread_pin != NULL;
}

static inline const char *au_held_wrong(const au_held *h)
{
    uint64_t build;
    const char *wrong = au_wrong(h->pin.image, h->pin.size, h->number, &build);

    return wrong ? wrong : build == h->build ? NULL : "a pinned image became another one";
}

/* The state that is read while the map's image is pinned is of that image or of a newer one. */
static inline const char *au_state_wrong(const redirect_area *area, uint32_t map, const au_held *h)
{
    htc_identity id = au_identity(h->build);
    redirect_area_state state;

    if (!redirect_area_state_get(area, map, &state))
        return "a map's state could not be read";
    if (state.version < h->pin.version)
        return "an old version is in a map's state";
    if (state.version == h->pin.version && memcmp(&state.id, &id, sizeof(id)) != 0)
        return "an image is said to be of another file";
    return NULL;
}

static inline redirect_area_key au_key(uint64_t number)
{
    return (redirect_area_key){{number * 77, ~number}};
}

static inline apr_pool_t *au_pool(void)
{
    apr_pool_t *pool;

    if (apr_initialize() != APR_SUCCESS || apr_pool_create(&pool, NULL) != APR_SUCCESS)
        abort();
    return pool;
}

static inline apr_status_t au_destroy(void *area)
{
    redirect_area_destroy(area);
    return APR_SUCCESS;
}

static inline redirect_area *au_create(apr_pool_t *pool, uint64_t bytes)
{
    redirect_area *area;
    const char *why = "";

    if (redirect_area_create(&area, bytes, pool, &why) != APR_SUCCESS) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    apr_pool_cleanup_register(pool, area, au_destroy, apr_pool_cleanup_null);
    return area;
}

/* A whole build. */
static inline apr_status_t au_build(redirect_area *area, uint32_t map, size_t size, uint64_t number,
                                    uint64_t build)
{
    htc_identity id = au_identity(build);
    void *image;
    apr_status_t rv;

    if (!redirect_area_build_begin(area, map))
        return APR_EBUSY;
    rv = redirect_area_reserve(area, map, size, 0, &image);
    if (rv == APR_SUCCESS) {
        au_fill(image, size, number, build);
        rv = redirect_area_publish(area, map, &id);
    }
    if (rv != APR_SUCCESS)
        redirect_area_build_failed(area, map, &id);
    return rv;
}

/* Pages of `bytes` at `at` that exist. */
static inline uint64_t au_resident(void *at, size_t bytes, size_t page)
{
    size_t n = (bytes + page - 1) / page;
    unsigned char *in = malloc(n);
    uint64_t sum = 0;

    if (!in || mincore(at, bytes, in) != 0)
        abort();
    for (size_t i = 0; i < n; i++)
        sum += in[i] & 1;
    free(in);
    return sum;
}

/* Memory of more than one page at a time may be given out for shared memory here; then what is
 * resident says little. */
static inline bool au_huge_pages(void)
{
    char text[256] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        fclose(file);
    text[n] = '\0';
    return n && !strstr(text, "[never]") && !strstr(text, "[advise]") && !strstr(text, "[deny]");
}

/* Nothing is being built and nothing is pinned: what is used is what the maps' images take, and no
 * other memory exists. `maps` of them are known to the caller, and there are no others. */
static inline void au_assert_at_rest(redirect_area *area, const uint32_t *maps, uint32_t n)
{
    uint64_t bytes = 0, images = 0;
    redirect_area_state state;
    redirect_area_stats stats;

    for (uint32_t i = 0; i < n; i++) {
        ck_assert(redirect_area_state_get(area, maps[i], &state));
        ck_assert(!state.building);
        images += state.version != 0;
        bytes += state.version ? (state.size + area->page - 1) / area->page * area->page : 0;
    }
    redirect_area_stats_get(area, &stats);
    ck_assert_uint_eq(stats.maps, n);
    ck_assert_uint_eq(stats.images, images);
    ck_assert_uint_eq(stats.bytes_used, bytes);
    if (!au_huge_pages())
        ck_assert_uint_eq(au_resident(area->room, (size_t)area->pages * area->page, area->page),
                          bytes / area->page);
}

#endif
