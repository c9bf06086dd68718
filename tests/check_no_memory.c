/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the core does when there is no memory: each of its calls that can fail is made over and
 * over, and the Nth allocation in it fails, until one gets through. Each must say so in its own way
 * and leave nothing behind, and what was there before must still work. The linker puts the
 * functions below in front of malloc and its like (-Wl,--wrap) for the core only: APR's pools,
 * which are never refused memory here, end the process when they are.
 */
#include "suite_util.h"
#include "area_util.h"
#include "cache/history.h"
#include "cache/process_cache.h"
#include "cache/store.h"
#include "cache/watch.h"
#include "tool/convert.h"
#include "area/counters.h"
#include "heap/heap.h"
#include "maps/edit.h"
#include "maps/maps.h"

#include <errno.h>
#include <fcntl.h>

#include <apr_general.h>
#include <apr_strings.h>

#define HELD 1000

static bool watching;      /* only then calls are counted: libcheck's own go through here, too */
static unsigned countdown; /* so many calls from now on one fails; 0: none */
static unsigned refused;
static void *held[HELD]; /* what was not given back */
static unsigned nheld;
static long mapped; /* bytes, as parts of a mapping may be given back */

static bool is_refused(void)
{
    if (!watching || !countdown || --countdown)
        return false;
    refused++;
    errno = ENOMEM;
    return true;
}

static void *given(void *memory)
{
    if (watching && memory && nheld < HELD)
        held[nheld++] = memory;
    return memory;
}

static void taken(const void *memory)
{
    for (unsigned i = 0; i < nheld; i++) {
        if (held[i] == memory) {
            held[i] = held[--nheld];
            return;
        }
    }
}

/* What libcheck allocates for an assertion is not counted. */
#define must(condition)       \
    do {                      \
        watching = false;     \
        ck_assert(condition); \
        watching = true;      \
    } while (0)

#if _FILE_OFFSET_BITS + 0 == 64 /* with 32 bits it has another name in the C library */
#define __real_mmap __real_mmap64
#define __wrap_mmap __wrap_mmap64
#endif
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__real_mremap(void *old, size_t old_len, size_t len, int flags, ...);
int __real_munmap(void *at, size_t len);
int __real_memfd_create(const char *name, unsigned flags);
apr_status_t __real_apr_generate_random_bytes(unsigned char *bytes, apr_size_t len);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *memory);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
void *__wrap_mremap(void *old, size_t old_len, size_t len, int flags, ...);
int __wrap_munmap(void *at, size_t len);
int __wrap_memfd_create(const char *name, unsigned flags);
apr_status_t __wrap_apr_generate_random_bytes(unsigned char *bytes, apr_size_t len);

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : given(__real_malloc(size));
}

void *__wrap_calloc(size_t n, size_t size)
{
    return is_refused() ? NULL : given(__real_calloc(n, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory;

    if (is_refused())
        return NULL;
    taken(old);
    memory = __real_realloc(old, size);
    return given(memory);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return is_refused() ? NULL : given(__real_aligned_alloc(alignment, size));
}

void __wrap_free(void *memory)
{
    taken(memory);
    __real_free(memory);
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
    void *to = is_refused() ? MAP_FAILED : __real_mmap(at, len, prot, flags, fd, offset);

    /* At a fixed place the core only replaces what it has mapped before. */
    if (to != MAP_FAILED && !(flags & MAP_FIXED))
        mapped += (long)len;
    return to;
}

/* The core lets the kernel choose the place. */
void *__wrap_mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
    void *to = is_refused() ? MAP_FAILED : __real_mremap(old, old_len, len, flags);

    if (to != MAP_FAILED)
        mapped += (long)len - (long)old_len;
    return to;
}

int __wrap_munmap(void *at, size_t len)
{
    mapped -= (long)len;
    return __real_munmap(at, len);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
    return is_refused() ? -1 : __real_memfd_create(name, flags);
}

static bool needs_random; /* what is tried does; others go on without */

apr_status_t __wrap_apr_generate_random_bytes(unsigned char *bytes, apr_size_t len)
{
    return needs_random && is_refused() ? APR_ENOMEM : __real_apr_generate_random_bytes(bytes, len);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* --- what is tried ----------------------------------------------------------------------------*/

#define ROWS 3000 /* more than the first buffers hold */

static const struct {
    redirect_format format;
    const char *begin, *row, *between, *end;
} formats[] = {
    {REDIRECT_FORMAT_TEXT, "", "/%u/row-%u http://h%u.example/%u\n", "", ""},
    {REDIRECT_FORMAT_CSV, "from,to\n", "/%u/row-%u,\"http://h%u.example/%u\"\n", "", ""},
    {REDIRECT_FORMAT_NETLIFY, "", "/%u/row-%u http://h%u.example/%u 302\n", "", ""},
    {REDIRECT_FORMAT_NGINX, "map $uri $to {\n", "/%u/row-%u http://h%u.example/%u;\n", "", "}\n"},
    {REDIRECT_FORMAT_JSON, "[",
     "{\"source\":\"/%u/row-%u\",\"destination\":\"http://h%u.example/%u\"}", ",\n", "]\n"},
};
#define FORMATS (sizeof(formats) / sizeof(formats[0]))

static apr_pool_t *pool;
static char *rows[FORMATS];

static void write_rows(unsigned f)
{
    size_t size = (size_t)ROWS * 90, len;

    rows[f] = apr_palloc(pool, size);
    len = (size_t)apr_snprintf(rows[f], size, "%s", formats[f].begin);
    for (unsigned i = 0; i < ROWS; i++) {
        len += (size_t)apr_snprintf(rows[f] + len, size - len, "%s", i ? formats[f].between : "");
        len += (size_t)apr_snprintf(rows[f] + len, size - len, formats[f].row, i % 7, i, i % 50, i);
    }
    apr_snprintf(rows[f] + len, size - len, "%s", formats[f].end);
}

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    for (unsigned f = 0; f < FORMATS; f++)
        write_rows(f);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

/* Read, build, prove and look into a map. */
static bool a_map(apr_pool_t *sub, unsigned f)
{
    redirect_map_options options;
    redirect_report report;
    void *image;
    size_t size;
    apr_status_t rv;

    memset(&report, 0, sizeof(report));
    redirect_map_options_init(&options);
    options.format = formats[f].format;
    rv = redirect_map_build(&options, "map", rows[f], strlen(rows[f]), &report, sub, &image, &size);
    if (rv != APR_SUCCESS) {
        must(rv == APR_ENOMEM);
        must(!image);
        return false;
    }
    must(report.rows == ROWS);
    rv = redirect_table_validate(image, size);
    if (rv == APR_SUCCESS)
        rv = redirect_map_check(redirect_table_open(image, size, sub), &report, sub);
    must(rv == APR_SUCCESS || rv == APR_ENOMEM);
    free(image);
    return rv == APR_SUCCESS;
}

static bool text_map(apr_pool_t *sub)
{
    return a_map(sub, 0);
}

static bool csv_map(apr_pool_t *sub)
{
    return a_map(sub, 1);
}

static bool netlify_map(apr_pool_t *sub)
{
    return a_map(sub, 2);
}

static bool nginx_map(apr_pool_t *sub)
{
    return a_map(sub, 3);
}

static bool json_map(apr_pool_t *sub)
{
    return a_map(sub, 4);
}

static void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                const char *message)
{
    (void)baton, (void)severity, (void)file, (void)line, (void)message;
}

/* Read by htcachectl, made a table again to be verified. */
static bool a_conversion(apr_pool_t *sub)
{
    convert_list *list = convert_list_create(sub, say, NULL);
    redirect_map_options options;
    void *image = NULL;
    size_t size;
    apr_status_t rv;

    redirect_map_options_init(&options);
    options.format = REDIRECT_FORMAT_TEXT;
    rv = convert_read_map(list, &options, "map", rows[0], strlen(rows[0]));
    if (rv == APR_SUCCESS)
        rv = convert_build(list, &image, &size);
    must(rv == APR_SUCCESS || (rv == APR_ENOMEM && !image));
    free(image);
    return rv == APR_SUCCESS;
}

static uint64_t next_key(void *baton)
{
    return UINT64_C(0x9e3779b97f4a7c15) * ++*(unsigned *)baton;
}

/* Counts that cannot be moved stay where they are. */
static bool moved_counts(apr_pool_t *sub)
{
    redirect_counter from[40] = {0}, to[40] = {0};
    unsigned i = 0, j = 0;
    redirect_keys from_keys = {next_key, &i, 40}, to_keys = {next_key, &j, 40};
    uint32_t moved;
    apr_status_t rv;

    (void)sub;
    redirect_counter_hit(&from[7], REDIRECT_COUNTER_EPOCH + 5);
    rv = redirect_counters_move(from, &from_keys, to, &to_keys, &moved);
    must(redirect_counter_read(rv == APR_SUCCESS ? &to[7] : &from[7]).hits == 1);
    must(rv == (moved ? APR_SUCCESS : APR_ENOMEM));
    return rv == APR_SUCCESS;
}

/* Rules one by one: what was refused may be given once more. */
static bool a_builder(apr_pool_t *sub)
{
    static const redirect_rule rule = {.kind = REDIRECT_EXACT,
                                       .source = "/a",
                                       .source_len = 2,
                                       .status = 301,
                                       .target = "/b",
                                       .target_len = 2,
                                       .host = "h.example",
                                       .host_len = 9,
                                       .query = "q=1",
                                       .query_len = 3};
    redirect_builder *builder = redirect_builder_create(0, 0);
    redirect_outcome outcome;
    size_t size;
    apr_status_t rv;

    (void)sub;
    if (!builder)
        return false;
    outcome = redirect_builder_add(builder, &rule);
    must(outcome == REDIRECT_ADDED || outcome == REDIRECT_NO_MEMORY);
    rv = outcome == REDIRECT_ADDED ? redirect_builder_finish(builder, NULL, NULL, &size)
                                   : APR_ENOMEM;
    must(rv == APR_SUCCESS || rv == APR_ENOMEM);
    redirect_builder_destroy(builder);
    return rv == APR_SUCCESS;
}

/* Smaller ones are tried when one is refused, so it may come to be all the same. */
static bool an_area(apr_pool_t *sub)
{
    redirect_area *area;
    const char *why = NULL;
    unsigned before = refused;
    apr_status_t rv = redirect_area_create(&area, 4 << 20, sub, &why);

    must(rv == APR_SUCCESS || (why && *why));
    if (rv == APR_SUCCESS)
        redirect_area_join(area, 1);
    if (rv == APR_SUCCESS)
        redirect_area_destroy(area);
    return refused == before && rv == APR_SUCCESS;
}

static bool a_store(apr_pool_t *sub)
{
    htc_store *store;
    const char *why = NULL;
    unsigned before = descriptors();
    apr_status_t rv;

    needs_random = true;
    rv = htc_store_create(&store, HTC_STORE_MIN_BYTES, sub, &why);

    if (rv != APR_SUCCESS) {
        must(descriptors() == before);
        must(rv == APR_ENOMEM);
        must(why && *why);
    }
    return rv == APR_SUCCESS;
}

static bool a_history(apr_pool_t *sub)
{
    htc_history *history;
    apr_status_t rv = htc_history_create(&history, sub);

    must(rv == APR_SUCCESS ? history != NULL : rv == APR_ENOMEM && !history);
    return rv == APR_SUCCESS;
}

/* What is watched, of a store that there is. */
static bool a_watch(apr_pool_t *sub)
{
    unsigned later = countdown, before;
    const char *why = NULL;
    htc_store *store;
    htc_watch *watch;
    apr_status_t rv;

    countdown = 0;
    must(htc_store_create(&store, HTC_STORE_MIN_BYTES, sub, &why) == APR_SUCCESS);
    countdown = later;
    before = descriptors();
    needs_random = true;
    rv = htc_watch_create(&watch, store, 100, sub, &why);
    must(rv == APR_SUCCESS || (rv == APR_ENOMEM && why && *why));
    must(rv == APR_SUCCESS || descriptors() == before); /* it does not wait for the pool's end */
    return rv == APR_SUCCESS;
}

/* It has no part that is left out. */
static bool a_heap(apr_pool_t *sub)
{
    htc_heap *heap;
    const char *why = NULL;
    apr_status_t rv = htc_heap_create(&heap, HTC_HEAP_MIN_BYTES, 4, sub, &why);

    must(rv == APR_SUCCESS ? heap && !why : rv == APR_ENOMEM && !heap && why && *why);
    return rv == APR_SUCCESS;
}

static bool always(const void *data, const void *key)
{
    return data == key;
}

static unsigned given_up;

static void give_up(void *data)
{
    (void)data;
    given_up++;
}

/* What is to be kept and finds no memory is given up at once. A cache is never destroyed: it has
 * pages of its own, and the nodes. */
static bool a_process_cache(apr_pool_t *sub)
{
    static htc_process_cache *caches[10]; /* lead to them */
    static unsigned ncaches;
    static char data[2];
    unsigned before = nheld, kept = 0;
    long mapped_before = mapped;
    htc_process_cache *cache;
    apr_status_t rv = htc_process_cache_create(&cache, 1 << 20, give_up);

    (void)sub;
    given_up = 0;
    if (rv != APR_SUCCESS) {
        must(rv == APR_ENOMEM && !cache);
        return false;
    }
    caches[ncaches++ % 10] = cache;
    for (unsigned i = 0; i < 2; i++) {
        htc_process_node *node = htc_process_cache_insert(cache, i, always, &data[i], &data[i], 10);

        if (node)
            htc_process_cache_release(cache, node);
        kept += node != NULL;
        must(given_up == i + 1 - kept);
    }
    must(nheld == before + kept && caches[0]);
    nheld = before;
    mapped = mapped_before;
    return kept == 2;
}

static const struct {
    const char *name;
    bool (*work)(apr_pool_t *sub); /* false: something was refused */
    unsigned least;                /* so many allocations it has */
} works[] = {
    {"a text map", text_map, 8},
    {"a CSV map", csv_map, 8},
    {"a Netlify map", netlify_map, 8},
    {"an nginx map", nginx_map, 8},
    {"a JSON map", json_map, 8},
    {"a conversion", a_conversion, 4},
    {"counts that move", moved_counts, 1},
    {"a builder of few rules", a_builder, 4},
    {"an area", an_area, 1},
    {"a store", a_store, 3},
    {"a history", a_history, 1},
    {"a watch", a_watch, 3},
    {"a heap", a_heap, 7},
    {"a process cache", a_process_cache, 3},
};

START_TEST(each_allocation_may_fail)
{
    unsigned n = 0;
    bool done = false;

    while (!done) {
        apr_pool_t *sub;
        unsigned before = nheld;
        long mapped_before = mapped;

        apr_pool_create(&sub, pool);
        refused = 0;
        needs_random = false;
        countdown = ++n;
        watching = true;
        done = works[_i].work(sub);
        watching = false;
        ck_assert_msg(refused || done, "%s: failed without a cause", works[_i].name);
        ck_assert_msg(!(done && refused), "%s: allocation %u is not missed", works[_i].name, n);
        apr_pool_destroy(sub);
        ck_assert_msg(nheld == before, "%s, allocation %u refused: %u are not given back",
                      works[_i].name, n, nheld - before);
        ck_assert_msg(mapped == mapped_before, "%s, allocation %u refused: %ld bytes stay mapped",
                      works[_i].name, n, mapped - mapped_before);
    }
    ck_assert_uint_gt(n, works[_i].least);
}
END_TEST

/* Not half a megabyte for each, which a thread's heap gives back to the system each time. */
START_TEST(edits_share_their_buffers)
{
    const unsigned most = 1000;
    const char line[] = "set /a /b 301 accept=text/html";
    apr_pool_t *sub;

    apr_pool_create(&sub, pool);
    countdown = most;
    watching = true;
    for (unsigned i = 0; i < most; i++) {
        redirect_edit edit;
        const char *why = redirect_edit_parse(line, strlen(line), &edit, sub);

        must(!why);
    }
    watching = false;
    ck_assert_uint_lt(most - countdown, 10);
    countdown = 0;
    apr_pool_destroy(sub);
    ck_assert_uint_eq(nheld, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("no memory");
    TCase *tcase = tcase_create("each allocation");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, each_allocation_may_fail, 0, sizeof(works) / sizeof(works[0]));
    tcase_add_test(tcase, edits_share_their_buffers);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
