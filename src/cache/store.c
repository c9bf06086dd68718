/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The shared segment: its creation and layout, and the parts that need no lock and hold no records
 * (counters, process table, totals). Called by the glue at startup, by everything that counts, and
 * by the status page.
 */
#include "cache/store_internal.h"
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* --- creation ---------------------------------------------------------------------------------*/

/* Lines of /proc/meminfo as text, the two that matter here. */
static const char *memory_limits(apr_pool_t *pool)
{
    static const char *const names[] = {"MemAvailable:", "CommitLimit:"};
    const char *text = "";
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && fgets(line, sizeof(line), file)) {
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
            size_t len = strlen(names[i]);

            if (!strncmp(line, names[i], len))
                text = apr_psprintf(pool, "%s; %.*s is %ld kB", text, (int)len - 1, names[i],
                                    strtol(line + len, NULL, 10));
        }
    }
    if (file)
        fclose(file);
    return text;
}

static const char *why_not_mapped(apr_pool_t *pool, uint64_t bytes, int err)
{
    struct rlimit limit;
    char text[128];

    apr_strerror(APR_FROM_OS_ERROR(err), text, sizeof(text));
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
        return apr_psprintf(pool,
                            "%" APR_UINT64_T_FMT " bytes of shared memory cannot be reserved: %s; "
                            "a process is limited to %" APR_UINT64_T_FMT
                            " bytes of addresses (ulimit -v, LimitAS)",
                            bytes, text, (apr_uint64_t)limit.rlim_cur);
    return apr_psprintf(pool,
                        "%" APR_UINT64_T_FMT " bytes of shared memory cannot be reserved: %s%s",
                        bytes, text, memory_limits(pool));
}

static apr_status_t map_segment(htc_store *store, apr_pool_t *pool, const char **why)
{
    void *base = htc_pages_map(store->bytes, PROT_READ | PROT_WRITE, -1);

    if (!base) {
        int err = errno;

        *why = why_not_mapped(pool, store->bytes, err);
        return APR_FROM_OS_ERROR(err);
    }
    store->base = base;
    madvise(base, store->bytes,
            MADV_DONTDUMP); /* a core file of one process shows no other's sites */
    return APR_SUCCESS;
}

static void *area(unsigned char **at, size_t size)
{
    void *start = *at;

    *at += (size + HTCS_ALIGN - 1) / HTCS_ALIGN * HTCS_ALIGN;
    return start;
}

static uint32_t owner_table_size(uint32_t nslots)
{
    uint32_t n = HTCS_MIN_OWNERS;

    while (n < HTCS_MAX_OWNERS && n * HTCS_SLOTS_PER_OWNER < nslots)
        n *= 2;
    return n;
}

/* All follows from the segment's size, so that nothing of it has to be kept in the segment. */
static void lay_out(htc_store *store)
{
    unsigned char *at = store->base, *end = at + store->bytes;

    store->nsets = (uint32_t)(store->bytes / HTCS_BYTES_PER_SLOT / HTCS_WAYS);
    store->nslots = store->nsets * HTCS_WAYS;
    store->nowners = owner_table_size(store->nslots);
    store->header = area(&at, sizeof(htcs_header));
    store->stripes = area(&at, HTCS_STRIPES * sizeof(htcs_stripe));
    store->owners = area(&at, (store->nowners + 1) * sizeof(htcs_owner));
    store->slots = area(&at, store->nslots * sizeof(htcs_slot));
    store->used = area(&at, (store->nslots + 63) / 64 * 8);
    store->ghosts = area(&at, HTCS_GHOSTS(store->nslots) * sizeof(uint32_t));
    store->favourites = area(&at, htc_store_favourites(store) * sizeof(htcs_favourite));
    /* Per block its bytes, four in the FAT and a bit; what rounding up the two areas may take. */
    store->nblocks = (uint32_t)(((uint64_t)(end - at) - 3 * HTCS_ALIGN) * 8 /
                                (8 * (HTCS_BLOCK_BYTES + sizeof(uint32_t)) + 1));
    store->fat = area(&at, (size_t)store->nblocks * sizeof(uint32_t));
    store->marks = area(&at, ((size_t)store->nblocks + 63) / 64 * 8);
    store->blocks = area(&at, (size_t)store->nblocks * HTCS_BLOCK_BYTES);
    assert(at <= end);
}

static apr_status_t unmap(void *data)
{
    htc_store *store = data;

    sys_munmap(store->base, store->bytes);
    return APR_SUCCESS;
}

/* The kernel delivered zeros, which mean unused almost everywhere; what is not written here stays
 * without a page until it is needed. */
static apr_status_t init_segment(htc_store *store, apr_pool_t *pool)
{
    apr_status_t rv;

    lay_out(store);
    rv = sys_random_bytes((unsigned char *)&store->seed, sizeof(store->seed));
    if (rv != APR_SUCCESS)
        return rv;
    HTCS_SET(store->header->free_head, HTCS_NIL);
    atomic_store(&store->header->counting_since, apr_time_sec(apr_time_now()));
    return htc_lock_create(&store->lock, &store->header->lock,
                           pool); /* last: it leaves a cleanup */
}

apr_status_t htc_store_create(htc_store **store_out, uint64_t bytes, apr_pool_t *pool,
                              const char **why)
{
    htc_store *store = apr_pcalloc(pool, sizeof(*store));
    apr_status_t rv;

    if (bytes < HTC_STORE_MIN_BYTES || bytes > HTC_STORE_MAX_BYTES) {
        *why = apr_psprintf(pool,
                            "%" APR_UINT64_T_FMT " bytes of shared memory were asked for, the least"
                            " is %d and the most %" APR_UINT64_T_FMT,
                            bytes, HTC_STORE_MIN_BYTES, HTC_STORE_MAX_BYTES);
        return APR_EINVAL;
    }
    store->bytes = bytes - bytes % HTCS_BLOCK_BYTES;
    rv = map_segment(store, pool, why);
    if (rv != APR_SUCCESS)
        return rv;
    apr_pool_cleanup_register(pool, store, unmap, apr_pool_cleanup_null);
    rv = init_segment(store, pool);
    if (rv != APR_SUCCESS) {
        *why = apr_psprintf(pool,
                            "%" APR_UINT64_T_FMT " bytes of shared memory could not be "
                            "prepared: %pm",
                            bytes, &rv);
        apr_pool_cleanup_run(pool, store, unmap);
        return rv;
    }
    *store_out = store;
    return APR_SUCCESS;
}

void htc_store_keep(htc_store *store, apr_pool_t *pool, htc_kept_memory *memory)
{
    apr_pool_cleanup_kill(pool, store, unmap);
    *memory = (htc_kept_memory){store->base, store->bytes, {htc_lock_keep(&store->lock, pool), -1}};
}

bool htc_store_lock_free(const htc_store *store, unsigned wait_ms)
{
    return htc_lock_free_within(&store->lock, wait_ms);
}

void htc_store_begin_again(htc_store *store)
{
    htc_counters_reset(store);
    atomic_store(&store->header->said, 0);
}

/* --- hash and slots ---------------------------------------------------------------------------*/

HTC_EACH __attribute__((flatten)) uint64_t htc_store_hash(const htc_store *store, const void *key,
                                                          size_t len)
{
    return XXH3_64bits_withSeed(key, len, store->seed);
}

htc_slot_hot *htc_store_slot(const htc_store *store, uint32_t slot)
{
    return &store->slots[slot < store->nslots ? slot : 0].hot;
}

/* --- counters ---------------------------------------------------------------------------------*/

/* Threads differ by where their stacks lie. Children of one parent have their stacks at the same
 * addresses, and differ by their numbers. A variable of each thread would be one more page to look
 * at. */
static inline unsigned own_stripe(const htc_store *store)
{
    uint64_t stack = (uint64_t)(uintptr_t)__builtin_frame_address(0) >> 16;

    return (unsigned)((stack + store->process) * UINT64_C(0x9E3779B97F4A7C15) >> 32) % HTCS_STRIPES;
}

void htc_counters_join(htc_store *store)
{
    store->process = (uint64_t)sys_getpid() << 32;
}

HTC_EACH void htc_count(htc_store *store, enum htc_counter counter, uint64_t n)
{
    if (n)
        atomic_fetch_add_explicit(&store->stripes[own_stripe(store)].counts[counter], n,
                                  memory_order_relaxed);
}

uint64_t htc_counter_read(const htc_store *store, enum htc_counter counter)
{
    uint64_t sum = 0;

    if (counter == HTC_C_lookups)
        return htc_counter_read(store, HTC_C_hits) + htc_counter_read(store, HTC_C_absent_hits) +
               htc_counter_read(store, HTC_C_misses) + htc_counter_read(store, HTC_C_replays) +
               htc_counter_read(store, HTC_C_bypasses);

    for (unsigned i = 0; i < HTCS_STRIPES; i++)
        sum += HTCS_GET(store->stripes[i].counts[counter]);
    return sum;
}

void htc_counters_reset(htc_store *store)
{
    for (unsigned i = 0; i < HTCS_STRIPES; i++) {
        for (unsigned counter = 0; counter < HTC_COUNTER_COUNT; counter++)
            HTCS_SET(store->stripes[i].counts[counter], 0);
    }
    atomic_store(&store->header->counting_since, apr_time_sec(apr_time_now()));
}

int64_t htc_counters_since(const htc_store *store)
{
    return atomic_load(&store->header->counting_since);
}

void htc_store_stats_get(const htc_store *store, htc_store_stats *stats)
{
    htcs_header *header = store->header;

    stats->absent = HTCS_GET(header->records[HTC_KIND_ABSENT]);
    stats->trees = HTCS_GET(header->records[HTC_KIND_TREE]);
    stats->stock = HTCS_GET(header->records[HTC_KIND_STOCK]);
    stats->entries = stats->absent + stats->trees + stats->stock;
    stats->bytes_used =
        stats->entries * sizeof(htcs_slot) +
        (uint64_t)HTCS_GET(header->blocks_used) * (HTCS_BLOCK_BYTES + sizeof(uint32_t));
    stats->bytes_total = store->bytes;
    stats->owners = HTCS_GET(header->owners_live);
    stats->slots_total = store->nslots;
}

/* Records are spread over the slots by hash, so most pages have some by then. What lies behind the
 * slots in the last large page is used as records come: without that page a new process meets the
 * last slots in small pages, each at the cost of several large ones. */
static size_t bytes_of_slots(const htc_store *store)
{
    size_t slots = (size_t)((char *)store->ghosts - (char *)store->base);
    size_t whole = (slots + HTC_LARGE_PAGE - 1) / HTC_LARGE_PAGE * HTC_LARGE_PAGE;

    return whole < store->bytes ? whole : store->bytes;
}

bool htc_store_enlarge_pages(htc_store *store)
{
    htc_store_stats stats;

    htc_store_stats_get(store, &stats);
    if (!store->enlarged && stats.entries * sizeof(htcs_slot) >= store->nslots * 2) {
        store->large = htc_pages_enlarge(store->base, bytes_of_slots(store));
        store->enlarged = true;
    }
    return store->large;
}

void htc_store_meet_pages(const htc_store *store)
{
    htc_pages_meet(store->base, bytes_of_slots(store) / HTC_LARGE_PAGE * HTC_LARGE_PAGE);
}

size_t htc_store_favourites(const htc_store *store)
{
    return HTCS_FAVOURITES(store->nslots);
}

bool htc_store_favourite_set(htc_store *store, size_t i, const htc_favourite *favourite)
{
    if (i >= htc_store_favourites(store))
        return false;
    HTCS_SET(store->favourites[i].record, favourite->record);
    HTCS_SET(store->favourites[i].owner, favourite->owner);
    HTCS_SET(store->favourites[i].server, favourite->server);
    return true;
}

bool htc_store_favourite_get(const htc_store *store, size_t i, htc_favourite *favourite)
{
    if (i >= htc_store_favourites(store))
        return false;
    favourite->record = HTCS_GET(store->favourites[i].record);
    favourite->owner = HTCS_GET(store->favourites[i].owner);
    favourite->server = HTCS_GET(store->favourites[i].server);
    return true;
}

bool htc_store_say(htc_store *store)
{
    return !atomic_exchange(&store->header->said, 1);
}
