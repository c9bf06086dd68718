/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Nothing that processes share lies in the core file of one of them: each segment that the module
 * maps is left out, as the kernel says of it. Run by 'make check'.
 */
#include "suite_util.h"
#include "cache/costs.h"
#include "cache/history.h"
#include "base/pages.h"
#include "cache/store.h"
#include "cache/watch.h"
#include "area/area.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <apr_general.h>

#define MB (1 << 20)

static apr_pool_t *pool;
static htc_store *store;

static void make_store(void)
{
    const char *why;

    ck_assert_int_eq(htc_store_create(&store, 16 * MB, pool, &why), APR_SUCCESS);
}

static void make_watch(void)
{
    htc_watch *watch;
    const char *why;

    make_store();
    ck_assert_int_eq(htc_watch_create(&watch, store, 8192, pool, &why), APR_SUCCESS);
}

/* Also when images were built and given back. */
static void make_area(void)
{
    redirect_area_key key = {{1, 2}};
    htc_identity id = {.ino = 1};
    redirect_area *area;
    const char *why;
    void *image;

    ck_assert_int_eq(redirect_area_create(&area, 64 * MB, pool, &why), APR_SUCCESS);
    redirect_area_join(area, 1);
    for (int i = 0; i < 3; i++) {
        uint32_t map = redirect_area_map(area, &key, 1, true);

        ck_assert(redirect_area_build_begin(area, map));
        ck_assert_int_eq(redirect_area_reserve(area, map, 5 * MB, 0, &image), APR_SUCCESS);
        memset(image, 1, 5 * MB);
        ck_assert_int_eq(redirect_area_publish(area, map, &id), APR_SUCCESS);
    }
}

static void make_costs(void)
{
    htc_costs *costs;

    ck_assert_int_eq(htc_costs_create(&costs, pool), APR_SUCCESS);
}

static void make_history(void)
{
    htc_history *history;

    ck_assert_int_eq(htc_history_create(&history, pool), APR_SUCCESS);
}

static void make_pages(void)
{
    void *at;

    ck_assert_int_eq(htc_pages_share(&at, 8 * MB, pool), APR_SUCCESS);
    htc_pages_enlarge(at, 8 * MB);
}

/* For comparison: what is not left out. */
static void make_nothing_special(void)
{
    ck_assert(mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
              MAP_FAILED);
}

static void (*const makers[])(void) = {make_store,   make_watch, make_area,           make_costs,
                                       make_history, make_pages, make_nothing_special};

#define MAKERS ((int)(sizeof(makers) / sizeof(makers[0])))

/* Of the mappings that are shared: all, and those that a core file has. False: not told here. */
static bool count_shared(unsigned *all, unsigned *dumped)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[4096], access[8];
    bool shared = false, told = false;

    *all = *dumped = 0;
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%*x-%*x %7s", access) == 1) {
            shared = access[3] == 's';
            *all += shared;
        }
        if (strncmp(line, "VmFlags:", 8))
            continue;
        told = true;
        *dumped += shared && !strstr(line, " dd");
    }
    if (file)
        fclose(file);
    return told;
}

/* An emulator of another processor takes the advice, and does not tell. */
static bool is_told(void)
{
    unsigned all, dumped, dumped_then;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool told = page != MAP_FAILED && count_shared(&all, &dumped) &&
                madvise(page, 4096, MADV_DONTDUMP) == 0 && count_shared(&all, &dumped_then) &&
                dumped_then + 1 == dumped;

    munmap(page, 4096);
    return told;
}

START_TEST(left_out_of_core_files)
{
    unsigned before, before_dumped, all, dumped;

    if (!is_told() || !count_shared(&before, &before_dumped)) {
        fprintf(stderr, "not told by this system: what core files leave out\n");
        return;
    }
    makers[_i]();
    ck_assert(count_shared(&all, &dumped));
    ck_assert_uint_gt(all, before);
    ck_assert_uint_eq(dumped, before_dumped + (makers[_i] == make_nothing_special));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dumps");
    TCase *tc = tcase_create("dumps");

    apr_initialize();
    apr_pool_create(&pool, NULL);
    tcase_add_loop_test(tc, left_out_of_core_files, 0, MAKERS);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
