/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The shared area for table images: its creation and layout, and its totals. Called by the glue
 * when the server starts, and by the status page.
 */
#include "area/internal.h"
#include "area/hits.h"
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <apr_strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "redirect_table.h"

/* --- how much can be had ----------------------------------------------------------------------*/

/* A small file of /proc as a string; empty when it cannot be read. */
static const char *read_text(const char *path, char *to, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, to, room - 1);

    to[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return to;
}

/* The value of a line of /proc/meminfo, in bytes. */
static bool meminfo_value(const char *meminfo, const char *name, uint64_t *bytes)
{
    const char *line = strstr(meminfo, name);

    if (!line)
        return false;
    *bytes = strtoull(line + strlen(name), NULL, 10) << 10;
    return true;
}

/* Addresses are nothing to the system, but there may be a limit to how many a process takes;
 * threads need some, too. And where every promise of memory is kept (overcommit 2), what is
 * reserved here is taken from all other programs, used or not. */
uint64_t rda_modest(uint64_t bytes, const char *overcommit, const char *meminfo, uint64_t addresses)
{
    uint64_t limit, promised;

    if (addresses / 2 < bytes)
        bytes = addresses / 2;
    if (strtol(overcommit, NULL, 10) == 2 && meminfo_value(meminfo, "CommitLimit:", &limit) &&
        meminfo_value(meminfo, "Committed_AS:", &promised)) {
        uint64_t left = limit > promised ? limit - promised : 0;

        if (left / 4 < bytes)
            bytes = left / 4;
    }
    return bytes;
}

/* How many addresses this process may still take. */
static uint64_t addresses_left(void)
{
    char text[128];
    uint64_t used;
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    used = strtoull(read_text("/proc/self/statm", text, sizeof(text)), NULL, 10) *
           (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

static uint64_t first_attempt(uint64_t bytes)
{
    char overcommit[16], meminfo[8192];

    read_text("/proc/sys/vm/overcommit_memory", overcommit, sizeof(overcommit));
    read_text("/proc/meminfo", meminfo, sizeof(meminfo));
    return rda_modest(bytes, overcommit, meminfo, addresses_left());
}

/* The limits that may have been met, as text. */
static const char *limits(apr_pool_t *pool)
{
    char overcommit[16], meminfo[8192];
    const char *text = "";
    struct rlimit limit;
    uint64_t commit;

    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        text = apr_psprintf(pool,
                            "; a process is limited to %" APR_UINT64_T_FMT
                            " bytes of addresses (ulimit -v, LimitAS)",
                            (apr_uint64_t)limit.rlim_cur);
    read_text("/proc/sys/vm/overcommit_memory", overcommit, sizeof(overcommit));
    read_text("/proc/meminfo", meminfo, sizeof(meminfo));
    if (strtol(overcommit, NULL, 10) == 2 && meminfo_value(meminfo, "CommitLimit:", &commit))
        text = apr_psprintf(
            pool, "%s; vm.overcommit_memory is 2 and CommitLimit %" APR_UINT64_T_FMT " bytes", text,
            (apr_uint64_t)commit);
    return text;
}

/* --- layout -----------------------------------------------------------------------------------*/

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* The next table, on pages of its own. Without a base it only adds up. */
static void *table(const redirect_area *area, size_t *at, size_t size)
{
    size_t start = *at;

    *at += round_up(size, area->page);
    return area->range.base ? (unsigned char *)area->range.base + start : NULL;
}

/* All follows from the sizes, so that nothing of it has to be kept in the area. Returns the size of
 * the tables. */
static size_t lay_out(redirect_area *area)
{
    size_t at = 0;

    area->header = table(area, &at, sizeof(rda_header));
    area->processes = table(area, &at, sizeof(rda_process) * REDIRECT_AREA_PROCESSES);
    area->names = table(area, &at, sizeof(rda_name) * REDIRECT_AREA_MAPS);
    area->maps = table(area, &at, sizeof(rda_map) * REDIRECT_AREA_MAPS);
    area->images = table(area, &at, sizeof(rda_image) * REDIRECT_AREA_IMAGES);
    area->counts = table(area, &at, sizeof(rda_counts) * REDIRECT_AREA_MAPS);
    area->notes = table(area, &at, sizeof(rda_note) * REDIRECT_AREA_MAPS);
    area->cells = table(area, &at, sizeof(rda_cells) * REDIRECT_AREA_IMAGES);
    area->rows = table(area, &at, sizeof(rda_pin_rows) * REDIRECT_AREA_PROCESSES);
    at = round_up(at, HTC_LARGE_PAGE);
    area->room = table(area, &at, 0);
    return at;
}

/* --- between builds ---------------------------------------------------------------------------*/

/* The area outlives configurations, and a restart may bring another build of the module, which must
 * not take one thing for another. */
uint64_t redirect_area_layout(void)
{
    /* Volatile, so that the text stands in the module's file as it is: a test changes it there. */
    static const volatile char text[] = RDA_LAYOUT_TEXT;
    char copy[sizeof(text)];
    const uint64_t sizes[] = {sizeof(redirect_area),
                              sizeof(rda_header),
                              sizeof(htc_lock_shared),
                              sizeof(rda_process),
                              REDIRECT_AREA_PROCESSES,
                              sizeof(rda_name),
                              sizeof(rda_map),
                              REDIRECT_AREA_MAPS,
                              sizeof(rda_image),
                              REDIRECT_AREA_IMAGES,
                              sizeof(rda_counts),
                              sizeof(rda_note),
                              sizeof(rda_cells),
                              sizeof(redirect_area_thread_pin),
                              sizeof(rda_pin_rows),
                              sizeof(htc_identity),
                              sizeof(redirect_counter),
                              REDIRECT_COUNTER_HIT_BITS,
                              (uint64_t)REDIRECT_COUNTER_EPOCH,
                              sizeof(redirect_hits_name),
                              REDIRECT_HITS_ENTRIES,
                              redirect_table_format()};
    uint64_t layout;

    for (size_t i = 0; i < sizeof(text); i++)
        copy[i] = text[i];
    layout = XXH3_64bits_withSeed(sizes, sizeof(sizes), XXH3_64bits(copy, sizeof(copy)));
    return layout ? layout : 1;
}

bool redirect_area_fits(const redirect_area *area)
{
    return area->range.layout == redirect_area_layout();
}

void redirect_area_abandon(redirect_area *area)
{
    munmap(area->range.base, area->range.bytes);
}

/* --- creation ---------------------------------------------------------------------------------*/

/* Map the tables and @a room bytes for images. For large pages the mapping must begin at a multiple
 * of their size. */
static bool map_range(redirect_area *area, uint64_t room, size_t tables)
{
    size_t bytes = tables + (size_t)room + RDA_TAIL, skip;
    unsigned char *around;

    if (room > SIZE_MAX - tables - RDA_TAIL - HTC_LARGE_PAGE) {
        errno = ENOMEM;
        return false;
    }
    around = mmap(NULL, bytes + HTC_LARGE_PAGE, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (around == MAP_FAILED)
        return false;
    skip = round_up((uintptr_t)around, HTC_LARGE_PAGE) - (uintptr_t)around;
    area->range.base = mmap(around + skip, bytes, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (area->range.base == MAP_FAILED) {
        munmap(around, bytes + HTC_LARGE_PAGE);
        area->range.base = NULL;
        return false;
    }
    if (skip)
        munmap(around, skip);
    munmap(around + skip + bytes, HTC_LARGE_PAGE - skip);
    area->range.bytes = bytes;
    area->pages = (uint32_t)(room / area->page);
    return true;
}

static apr_status_t map_most(redirect_area *area, uint64_t bytes, apr_pool_t *pool,
                             const char **why)
{
    uint64_t least = bytes < RDA_LEAST_ROOM ? bytes : RDA_LEAST_ROOM, room = first_attempt(bytes);
    size_t tables = lay_out(area);
    apr_status_t rv;

    room = room > least ? room - room % area->page : least;
    while (!map_range(area, room, tables)) {
        rv = APR_FROM_OS_ERROR(errno);
        if (room == least) {
            *why = apr_psprintf(
                pool,
                "%" APR_UINT64_T_FMT " bytes of addresses for redirect tables cannot be reserved, "
                "nor can %" APR_UINT64_T_FMT ": %pm%s",
                (apr_uint64_t)bytes, (apr_uint64_t)(room + tables), &rv, limits(pool));
            return rv;
        }
        room = room / 2 > least ? room / 2 - room / 2 % area->page : least;
    }
    if (room < bytes)
        *why = apr_psprintf(pool,
                            "%" APR_UINT64_T_FMT " bytes of addresses for redirect tables cannot "
                            "be reserved; there is room for %" APR_UINT64_T_FMT " bytes of them%s",
                            (apr_uint64_t)bytes, (apr_uint64_t)room, limits(pool));
    return APR_SUCCESS;
}

/* A page of this process alone. What it says must not be taken for true by a child that inherited
 * it; asking for the process id at each pin would cost a system call. */
static apr_status_t map_own(redirect_area *area)
{
    void *own = mmap(NULL, area->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (own == MAP_FAILED)
        return APR_FROM_OS_ERROR(errno);
    area->own = own;
#ifdef MADV_WIPEONFORK
    area->wiped_on_fork = madvise(own, area->page, MADV_WIPEONFORK) == 0;
#endif
    return APR_SUCCESS;
}

int64_t redirect_area_counting_since(const redirect_area *area)
{
    return RDA_GET(area->header->counting_since);
}

void redirect_area_count_since(redirect_area *area, int64_t seconds)
{
    RDA_SET(area->header->counting_since, seconds);
}

redirect_area_kept redirect_area_kept_get(const redirect_area *area)
{
    uint32_t kept = RDA_GET(area->header->kept);

    return kept <= REDIRECT_KEPT_IN_PART ? (redirect_area_kept)kept : REDIRECT_KEPT;
}

void redirect_area_kept_set(redirect_area *area, redirect_area_kept kept)
{
    RDA_SET(area->header->kept, (uint32_t)kept);
}

/* Also works for an area that is only half prepared. */
void redirect_area_destroy(redirect_area *area)
{
    munmap(area->range.base, area->range.bytes);
    if (area->own)
        munmap(area->own, area->page);
    if (area->lock.fd >= 0)
        htc_lock_close(&area->lock);
}

/* The kernel delivered zeros, which mean free and unused everywhere. */
static apr_status_t prepare(redirect_area *area, apr_pool_t *pool)
{
    apr_status_t rv;

    lay_out(area);
    /* A core file would fill the whole range, and it would stay filled. */
    madvise(area->range.base, area->range.bytes, MADV_DONTDUMP);
    area->extents = apr_palloc(pool, sizeof(rda_extent) * REDIRECT_AREA_IMAGES);
    area->holdings = apr_palloc(pool, sizeof(rda_holding) * (REDIRECT_AREA_IMAGES + 1));
    rda_share_init(area);
    rv = htc_lock_create(&area->lock, &area->header->lock, NULL);
    if (rv != APR_SUCCESS)
        return rv;
    area->range.layout = redirect_area_layout();
    redirect_area_count_since(area, apr_time_sec(apr_time_now()));
    return map_own(area);
}

apr_status_t redirect_area_create(redirect_area **area_out, uint64_t bytes, apr_pool_t *pool,
                                  const char **why)
{
    redirect_area *area = apr_pcalloc(pool, sizeof(*area));
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    apr_status_t rv;

    *why = NULL;
    if (bytes == 0 || bytes > RDA_MAX_BYTES) {
        *why = apr_psprintf(pool,
                            "%" APR_UINT64_T_FMT " bytes of addresses for redirect tables were "
                            "asked for; the most is %" APR_UINT64_T_FMT,
                            (apr_uint64_t)bytes, (apr_uint64_t)RDA_MAX_BYTES);
        return APR_EINVAL;
    }
    area->page = page > 4096 ? page : 4096;
    area->lock.fd = -1;
    rv = map_most(area, (bytes + area->page - 1) / area->page * area->page, pool, why);
    if (rv != APR_SUCCESS)
        return rv;
    rv = prepare(area, pool);
    if (rv != APR_SUCCESS) {
        *why = apr_psprintf(pool,
                            "%" APR_UINT64_T_FMT " bytes of addresses for redirect tables could "
                            "not be prepared: %pm",
                            (apr_uint64_t)bytes, &rv);
        redirect_area_destroy(area);
        return rv;
    }
    *area_out = area;
    return APR_SUCCESS;
}

/* --- totals -----------------------------------------------------------------------------------*/

static void add_maps(const redirect_area *area, redirect_area_stats *stats)
{
    for (uint32_t i = 0; i < rda_maps_end(area); i++) {
        bool there = RDA_GET(area->names[i].handle) != 0;

        stats->maps += there;
        stats->owners_maps += there && RDA_GET(area->names[i].owner);
    }
}

static void add_images(const redirect_area *area, redirect_area_stats *stats)
{
    rda_extent extent;

    for (uint32_t i = 0; i < rda_images_end(area); i++) {
        uint64_t bytes;

        if (RDA_GET(area->images[i].state) == RDA_FREE)
            continue;
        stats->images++;
        bytes = rda_image_extent(area, i, &extent) ? (uint64_t)extent.pages * area->page : 0;
        stats->bytes_used += bytes;
        stats->owners_bytes += RDA_GET(area->images[i].owner) ? bytes : 0;
    }
}

void redirect_area_stats_get(const redirect_area *area, redirect_area_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    add_maps(area, stats);
    add_images(area, stats);
    stats->bytes_reserved = (uint64_t)area->pages * area->page;
    stats->owners_maps_most = (uint32_t)area->most[RDA_MAPS];
    stats->owners_most = area->most[RDA_PAGES] * area->page;
    stats->evicted = RDA_GET(area->header->evicted);
}
