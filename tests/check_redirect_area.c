/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared area for table images: reservation and its limits, maps, builds, and
 * room for images. Run by 'make check'; pins, processes and damage are in
 * check_redirect_area_sharing.c.
 */
#include "area_fixture.h"

#include <errno.h>
#include <sys/resource.h>

/* --- between builds ---------------------------------------------------------------------------*/

/* By what this process alone has written. What lies in the area, which others write, does not
 * count, and of another build's nothing is looked at. */
START_TEST(another_builds_area)
{
    redirect_area *other = au_create(pool, ROOM);
    unsigned char resident;
    void *base = other->range.base;

    ck_assert_uint_ne(redirect_area_layout(), 0);
    ck_assert(redirect_area_fits(other));
    memset(other->header, 0x5a, sizeof(*other->header));
    ck_assert(redirect_area_fits(other));
    other->range.layout++;
    other->header = NULL;
    ck_assert(!redirect_area_fits(other));
    redirect_area_abandon(other);
    ck_assert_int_eq(mincore(base, other->page, &resident), -1);
    ck_assert_int_eq(errno, ENOMEM);
    /* This process's own build's is not touched by that. */
    ck_assert(redirect_area_fits(area));
    ck_assert_ptr_eq(area, (void *)&area->range);
    other->range.bytes = 0; /* nothing is left for its pool to give back */
}
END_TEST

/* --- reservation ------------------------------------------------------------------------------*/

START_TEST(little_is_touched)
{
    redirect_area *big = au_create(pool, UINT64_C(16) << 30);
    redirect_area_key key = {{1, 2}};
    redirect_area_stats found;

    redirect_area_join(big, 1);
    redirect_area_collect(big, 1);
    ck_assert_uint_eq(redirect_area_map(big, &key, 1, false), REDIRECT_AREA_NIL);
    redirect_area_stats_get(big, &found);
    ck_assert_uint_eq(found.bytes_reserved % MEGABYTE, 0);
    ck_assert_uint_eq(found.bytes_used, 0);
    if (!au_huge_pages())
        ck_assert_uint_le(au_resident(big->range.base,
                                      (size_t)(big->room - (unsigned char *)big->range.base),
                                      big->page),
                          8);
}
END_TEST

START_TEST(sizes_are_checked)
{
    redirect_area *other;
    const char *why = NULL;

    ck_assert_int_eq(redirect_area_create(&other, 0, pool, &why), APR_EINVAL);
    ck_assert_ptr_nonnull(why);
    ck_assert_int_eq(redirect_area_create(&other, UINT64_MAX, pool, &why), APR_EINVAL);
    ck_assert_ptr_nonnull(strstr(why, "18446744073709551615"));
    ck_assert_int_eq(redirect_area_create(&other, 1, pool, &why), APR_SUCCESS);
    ck_assert_ptr_null(why);
    ck_assert_uint_eq(other->pages, 1);
}
END_TEST

/* Let this process have only so many more addresses. */
static void limit_addresses(uint64_t more)
{
    struct rlimit limit;
    unsigned long long used = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file || fscanf(file, "%llu", &used) != 1)
        _exit(90);
    fclose(file);
    limit.rlim_cur = limit.rlim_max = (rlim_t)(used * (uint64_t)sysconf(_SC_PAGESIZE) + more);
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        _exit(91);
}

static int create_with_few_addresses(void)
{
    redirect_area *less;
    const char *why = NULL;
    redirect_area_stats found;

    limit_addresses(1000 * MEGABYTE);
    if (redirect_area_create(&less, UINT64_C(16) << 30, pool, &why) != APR_SUCCESS)
        return 1;
    redirect_area_stats_get(less, &found);
    if (found.bytes_reserved > 500 * MEGABYTE || found.bytes_reserved < 100 * MEGABYTE)
        return 2;
    if (!why || !strstr(why, "17179869184") || !strstr(why, "ulimit -v"))
        return 3;
    redirect_area_join(less, 1);
    return rda_own_serial(less) ? 0 : 4;
}

static int create_with_hardly_any_addresses(void)
{
    redirect_area *none = NULL;
    const char *why = NULL;

    limit_addresses(20 * MEGABYTE);
    if (redirect_area_create(&none, UINT64_C(16) << 30, pool, &why) != APR_ENOMEM)
        return 1;
    if (none || !why || !strstr(why, "17179869184") || !strstr(why, "ulimit -v"))
        return 2;
    return 0;
}

START_TEST(limited_addresses)
{
    ck_assert_int_eq(ask_child(create_with_few_addresses), 0);
    ck_assert_int_eq(ask_child(create_with_hardly_any_addresses), 0);
}
END_TEST

static const struct {
    uint64_t bytes;
    const char *overcommit, *meminfo;
    uint64_t addresses, modest;
} modest[] = {
    {1000 << 10, "0\n", "CommitLimit: 40 kB\nCommitted_AS: 20 kB\n", UINT64_MAX, 1000 << 10},
    {1000 << 10, "2\n", "MemTotal: 9 kB\nCommitLimit:   40 kB\nCommitted_AS:   20 kB\n", UINT64_MAX,
     5 << 10},
    {1000 << 10, "2\n", "CommitLimit: 20 kB\nCommitted_AS: 40 kB\n", UINT64_MAX, 0},
    {1000 << 10, "2\n", "", UINT64_MAX, 1000 << 10},
    {1000 << 10, "", "", UINT64_MAX, 1000 << 10},
    {1000 << 10, "0\n", "", 600 << 10, 300 << 10},
    {1000 << 10, "2\n", "CommitLimit: 4000 kB\nCommitted_AS: 0 kB\n", 600 << 10, 300 << 10},
};

START_TEST(modest_where_it_costs_others)
{
    ck_assert_uint_eq(rda_modest(modest[_i].bytes, modest[_i].overcommit, modest[_i].meminfo,
                                 modest[_i].addresses),
                      modest[_i].modest);
}
END_TEST

/* The line of /proc/self/smaps that follows the mapping at an address, by its name. */
static bool smaps_flag(const void *at, const char *flag)
{
    char line[512], wanted[32];
    bool here = false, found = false;
    FILE *file = fopen("/proc/self/smaps", "re");

    snprintf(wanted, sizeof(wanted), "%lx-", (unsigned long)(uintptr_t)at);
    while (file && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, wanted, strlen(wanted)))
            here = true;
        if (here && !strncmp(line, "VmFlags:", 8)) {
            found = strstr(line, flag) != NULL;
            break;
        }
    }
    if (file)
        fclose(file);
    return found;
}

/* A child that crashes must not fill the whole range while it writes its core file. */
START_TEST(is_not_dumped)
{
    ck_assert(smaps_flag(area->range.base, " dd"));
}
END_TEST

/* --- maps -------------------------------------------------------------------------------------*/

START_TEST(maps_by_key)
{
    redirect_area_key half = {{au_key(1).word[0], 5}};
    uint32_t a = new_map(1), b = new_map(2);

    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(map_of(1, 1, true), a);
    ck_assert_uint_eq(map_of(2, 1, false), b);
    ck_assert_uint_eq(map_of(3, 1, false), REDIRECT_AREA_NIL);
    ck_assert_uint_eq(redirect_area_map(area, &half, 1, false), REDIRECT_AREA_NIL);
    ck_assert_uint_eq(stats().maps, 2);
}
END_TEST

START_TEST(maps_are_limited)
{
    for (uint32_t i = 0; i < REDIRECT_AREA_MAPS; i++)
        new_map(i);
    ck_assert_uint_eq(map_of(REDIRECT_AREA_MAPS, 1, true), REDIRECT_AREA_NIL);
    ck_assert_uint_eq(map_of(17, 1, true), map_of(17, 1, false));
    ck_assert_uint_eq(stats().maps, REDIRECT_AREA_MAPS);
    build_ok(map_of(4095, 1, false), 1000, 4095, 1);
    redirect_area_join(area, 2);
    redirect_area_collect(area, 2);
    ck_assert_uint_eq(stats().maps, 0);
    ck_assert_uint_eq(stats().bytes_used, 0);
    ck_assert_uint_ne(map_of(REDIRECT_AREA_MAPS, 2, true), REDIRECT_AREA_NIL);
}
END_TEST

/* Nothing that is done with the number of a map that was forgotten reaches the one in its place. */
START_TEST(forgotten_map)
{
    uint32_t old = new_map(1), map;
    redirect_area_pin pin, none;
    redirect_area_state state;
    void *image;

    build_ok(old, 1000, 1, 1);
    pin = pin_ok(old);
    redirect_area_count(area, old, 7, 7);
    redirect_area_join(area, 2);
    redirect_area_collect(area, 2);
    map = map_of(2, 2, true);
    ck_assert_uint_eq(rda_entry_of(map), rda_entry_of(old));
    build_ok(map, 2000, 2, 2);
    redirect_area_count(area, old, 7, 7);
    redirect_area_confirm(area, old, 1234);
    ck_assert(!redirect_area_pin_get(area, old, &none));
    ck_assert_ptr_null(none.image);
    ck_assert(!redirect_area_state_get(area, old, &state));
    ck_assert_uint_eq(redirect_area_version(area, old), 0);
    ck_assert(!redirect_area_claim(area, old, 5000, 1, 1));
    ck_assert(!redirect_area_build_begin(area, old));
    ck_assert_int_eq(redirect_area_reserve(area, old, 10, 0, &image), APR_EINVAL);
    ck_assert_int_eq(redirect_area_publish(area, old, &some_id), APR_EINVAL);
    redirect_area_build_failed(area, old, &some_id);
    state = state_ok(map);
    ck_assert_uint_eq(state.lookups + state.hits + state.failures + state.reloads, 0);
    ck_assert_int_eq(state.checked_at, 0);
    assert_image(&pin, 1, 1);
    redirect_area_unpin(area, &pin);
    redirect_area_collect(area, 2);
    au_assert_at_rest(area, &map, 1);
    ck_assert(!redirect_area_pin_get(area, REDIRECT_AREA_NIL, &none));
    ck_assert(!redirect_area_state_get(area, REDIRECT_AREA_NIL, &state));
    ck_assert(!redirect_area_build_begin(area, REDIRECT_AREA_NIL));
    redirect_area_count(area, REDIRECT_AREA_NIL, 1, 1);
}
END_TEST

START_TEST(a_map_number_returns_late)
{
    uint32_t map = new_map(1), last = map;
    rda_name *name = &area->names[rda_entry_of(map)];

    for (int i = 0; i < 3; i++) {
        RDA_SET(name->last_handle,
                (UINT32_MAX >> RDA_MAP_BITS << RDA_MAP_BITS) - ((uint32_t)(3 - i) << RDA_MAP_BITS));
        RDA_SET(name->handle, 0);
        map = new_map(1);
        ck_assert_uint_ne(map, last);
        ck_assert_uint_ne(map, REDIRECT_AREA_NIL);
        ck_assert_uint_ne(map, 0);
        last = map;
    }
}
END_TEST

START_TEST(maps_live_as_long_as_their_generations)
{
    uint32_t maps[4];
    pid_t child;

    maps[0] = new_map(0);
    maps[1] = new_map(1);
    maps[2] = map_of(2, 2, true);
    ck_assert_uint_eq(map_of(1, 3, true), maps[1]);
    maps[3] = map_of(3, 3, true);
    child = child_with(join_2);
    redirect_area_join(area, 4);
    redirect_area_collect(area, 3);
    ck_assert_uint_eq(stats().maps, 3);
    ck_assert_uint_eq(map_of(0, 3, false), REDIRECT_AREA_NIL);
    redirect_area_collect(area, 4);
    ck_assert_uint_eq(stats().maps, 2);
    ck_assert_uint_eq(map_of(1, 2, false), maps[1]);
    ck_assert_uint_eq(map_of(2, 2, false), maps[2]);
    ck_assert_uint_eq(map_of(3, 4, false), REDIRECT_AREA_NIL);
    end_child(child);
    redirect_area_collect(area, 4);
    ck_assert_uint_eq(stats().maps, 0);
}
END_TEST

/* --- builds and states ------------------------------------------------------------------------*/

START_TEST(notes_go_with_their_map)
{
    redirect_area_note note = {.file = "/maps/a.txt", .load_ms = 7, .refused = 2}, seen;
    uint32_t a = new_map(1), b = new_map(2), place = 0;

    ck_assert(!redirect_area_note_get(area, a, &seen));
    ck_assert_uint_eq(seen.refused, 0);
    redirect_area_note_set(area, a, &note);
    ck_assert(redirect_area_note_get(area, a, &seen));
    ck_assert_str_eq(seen.file, "/maps/a.txt");
    ck_assert_uint_eq(seen.load_ms, 7);
    ck_assert_uint_eq(seen.refused, 2);
    ck_assert(!redirect_area_note_get(area, b, &seen));
    ck_assert_uint_eq(redirect_area_next(area, &place), a);
    ck_assert_uint_eq(redirect_area_next(area, &place), b);
    ck_assert_uint_eq(redirect_area_next(area, &place), REDIRECT_AREA_NIL);

    /* Forgotten: neither it nor another one in its place has the note. */
    redirect_area_join(area, 2);
    redirect_area_collect(area, 2);
    place = 0;
    ck_assert_uint_eq(redirect_area_next(area, &place), REDIRECT_AREA_NIL);
    ck_assert(!redirect_area_note_get(area, a, &seen));
    redirect_area_note_set(area, a, &note);
    ck_assert(!redirect_area_note_get(area, map_of(3, 2, true), &seen));
}
END_TEST

/* Who wrote it died over it; and a text without an end. */
START_TEST(half_a_note)
{
    redirect_area_note note = {.load_ms = 1}, seen;
    uint32_t map = new_map(1);

    memset(note.error, 'x', sizeof(note.error));
    redirect_area_note_set(area, map, &note);
    ck_assert(redirect_area_note_get(area, map, &seen));
    ck_assert_uint_eq(strlen(seen.error), sizeof(seen.error) - 1);
    RDA_SET(area->notes[rda_entry_of(map)].seq, 5);
    ck_assert(!redirect_area_note_get(area, map, &seen));
    redirect_area_note_set(area, map, &note);
    ck_assert(redirect_area_note_get(area, map, &seen));
}
END_TEST

START_TEST(a_new_map)
{
    uint32_t map = new_map(1);
    redirect_area_state state = state_ok(map), zero = {0};
    redirect_area_pin pin;

    ck_assert_mem_eq(&state, &zero, sizeof(state));
    ck_assert_uint_eq(redirect_area_version(area, map), 0);
    ck_assert(!redirect_area_pin_get(area, map, &pin));
}
END_TEST

START_TEST(publishing)
{
    uint32_t map = new_map(1);
    redirect_area_state state;
    redirect_area_pin pin;
    void *image;
    uint64_t version;

    ck_assert(redirect_area_build_begin(area, map));
    ck_assert(state_ok(map).building);
    ck_assert(!redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_publish(area, map, &some_id), APR_EINVAL);
    ck_assert_int_eq(redirect_area_reserve(area, map, 5000, 0, &image), APR_SUCCESS);
    au_fill(image, 5000, 1, 9);
    ck_assert(!redirect_area_pin_get(area, map, &pin));
    ck_assert_int_eq(redirect_area_publish(area, map, &some_id), APR_SUCCESS);
    ck_assert_int_eq(redirect_area_publish(area, map, &some_id), APR_EINVAL);
    state = state_ok(map);
    version = state.version;
    ck_assert_uint_ne(version, 0);
    ck_assert_uint_eq(redirect_area_version(area, map), version);
    ck_assert_mem_eq(&state.id, &some_id, sizeof(some_id));
    ck_assert_uint_eq(state.size, 5000);
    ck_assert_int_gt(state.loaded_at, 1600000000);
    ck_assert(!state.building && !state.failed);
    ck_assert_uint_eq(state.reloads, 0);
    pin = pin_ok(map);
    ck_assert_ptr_eq(pin.image, image);
    ck_assert_uint_eq(pin.version, version);
    assert_image(&pin, 1, 9);
    redirect_area_unpin(area, &pin);
    build_ok(map, 100, 1, 10);
    ck_assert_uint_gt(redirect_area_version(area, map), version);
    ck_assert_uint_eq(state_ok(map).reloads, 1);
    au_assert_at_rest(area, &map, 1);
}
END_TEST

static redirect_area_pin build_counted(uint32_t map, size_t size, uint32_t counters)
{
    void *image;

    ck_assert(redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_reserve(area, map, size, counters, &image), APR_SUCCESS);
    memset(image, 0x55, size);
    ck_assert_int_eq(redirect_area_publish(area, map, &some_id), APR_SUCCESS);
    return pin_ok(map);
}

/* Beside the image, zero at first whatever was there, one for all who pin the image. */
START_TEST(counters_of_an_image)
{
    static const struct {
        size_t size;
        uint32_t counters;
    } sizes[] = {{1, 1}, {4096, 512}, {4097, 513}, {100000, 1}, {8, 100000}, {5000, 0}};
    uint32_t map = new_map(1);

    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        redirect_area_pin pin = build_counted(map, sizes[i].size, sizes[i].counters), again;
        uint32_t n = pin.ncounters;

        ck_assert_uint_eq(n, sizes[i].counters);
        ck_assert_uint_eq(pin.size, sizes[i].size);
        ck_assert((const char *)pin.counters >= (const char *)pin.image + pin.size);
        for (uint32_t j = 0; j < n; j++)
            ck_assert_uint_eq(redirect_counter_read(&pin.counters[j]).hits, 0);
        for (uint32_t j = 0; j < n; j++)
            redirect_counter_hit(&pin.counters[j], REDIRECT_COUNTER_EPOCH + 1);
        again = pin_ok(map);
        ck_assert(!n || redirect_counter_read(&again.counters[n - 1]).hits == 1);
        for (size_t j = 0; j < pin.size; j++)
            ck_assert_int_eq(((const char *)pin.image)[j], 0x55);
        redirect_area_unpin(area, &again);
        redirect_area_unpin(area, &pin);
    }
    au_assert_at_rest(area, &map, 1);
}
END_TEST

/* Damage to the table must not send anybody outside of the image's room. */
START_TEST(counters_must_fit)
{
    uint32_t map = new_map(1);
    redirect_area_pin pin = build_counted(map, 5000, 10);

    RDA_SET(area->images[pin.slot].counters, 513);
    redirect_area_unpin(area, &pin);
    ck_assert(!redirect_area_pin_get(area, map, &pin));
}
END_TEST

/* Who has a table open knows by this alone whether it is still the map's, so no number may come
 * again, although images come to lie where others were. */
START_TEST(versions_are_never_the_same)
{
    uint32_t maps[2] = {new_map(1), new_map(2)};
    uint64_t last = 0;

    for (uint32_t i = 0; i < 20; i++) {
        uint32_t map = maps[i % 3 == 0];

        build_ok(map, 100, 1, i);
        ck_assert_uint_gt(redirect_area_version(area, map), last);
        last = redirect_area_version(area, map);
    }
    ck_assert_uint_le(rda_images_end(area), 4);
}
END_TEST

START_TEST(builds_in_vain)
{
    const htc_identity other = {.ino = 77};
    uint32_t map = new_map(1);
    redirect_area_state state;
    void *image;

    build_ok(map, 5000, 1, 1);
    ck_assert(redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_reserve(area, map, 9000, 0, &image), APR_SUCCESS);
    memset(image, 1, 9000);
    redirect_area_build_failed(area, map, &some_id);
    state = state_ok(map);
    ck_assert(state.failed && !state.building);
    ck_assert_uint_eq(state.failures, 1);
    ck_assert_mem_eq(&state.failed_id, &some_id, sizeof(some_id));
    ck_assert_uint_eq(state.id.ino, 1);
    au_assert_at_rest(area, &map, 1);
    /* Who does not build cannot end it. */
    redirect_area_build_failed(area, map, &other);
    ck_assert_uint_eq(state_ok(map).failures, 1);
    ck_assert(redirect_area_build_begin(area, map));
    redirect_area_build_failed(area, map, &other);
    ck_assert_uint_eq(state_ok(map).failed_id.ino, 77);
    build_ok(map, 50, 1, 2);
    ck_assert(!state_ok(map).failed);
    ck_assert_uint_eq(state_ok(map).failures, 2);
}
END_TEST

/* Somebody died while it wrote down that its build was in vain. */
START_TEST(half_a_failure)
{
    uint32_t map = new_map(1);

    ck_assert(redirect_area_build_begin(area, map));
    redirect_area_build_failed(area, map, &some_id);
    atomic_fetch_add(&rda_map_at(area, map)->failed_seq, 1);
    ck_assert(!state_ok(map).failed);
    ck_assert(redirect_area_build_begin(area, map));
    redirect_area_build_failed(area, map, &some_id);
    ck_assert(state_ok(map).failed);
}
END_TEST

START_TEST(reserving_again_in_one_build)
{
    uint32_t map = new_map(1);
    void *image;

    ck_assert(redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_reserve(area, map, 3 * MEGABYTE, 0, &image), APR_SUCCESS);
    ck_assert_int_eq(redirect_area_reserve(area, map, 3 * MEGABYTE, 0, &image), APR_SUCCESS);
    au_fill(image, 3 * MEGABYTE, 1, 1);
    ck_assert_int_eq(redirect_area_publish(area, map, &some_id), APR_SUCCESS);
    au_assert_at_rest(area, &map, 1);
}
END_TEST

START_TEST(several_builds_at_once)
{
    enum { N = 5 };
    uint32_t maps[N];
    void *images[N];
    redirect_area_pin pin;

    for (uint32_t i = 0; i < N; i++) {
        maps[i] = new_map(i);
        ck_assert(redirect_area_build_begin(area, maps[i]));
        ck_assert_int_eq(redirect_area_reserve(area, maps[i], 10000, 0, &images[i]), APR_SUCCESS);
    }
    redirect_area_collect(area, 1);
    for (uint32_t i = 0; i < N; i++)
        au_fill(images[i], 10000, i, i);
    for (uint32_t i = N; i-- > 0;)
        ck_assert_int_eq(redirect_area_publish(area, maps[i], &some_id), APR_SUCCESS);
    for (uint32_t i = 0; i < N; i++) {
        pin = pin_ok(maps[i]);
        assert_image(&pin, i, i);
        redirect_area_unpin(area, &pin);
    }
    au_assert_at_rest(area, maps, N);
}
END_TEST

static void begin_build(void)
{
    void *image;

    redirect_area_join(area, 1);
    if (!redirect_area_build_begin(area, map_of(1, 1, true)) ||
        redirect_area_reserve(area, map_of(1, 1, true), 100000, 0, &image) != APR_SUCCESS)
        abort();
    memset(image, 5, 100000);
}

/* As long as it lives, a builder is alone, and what it reserved is nobody else's; then not. */
START_TEST(builder_that_dies)
{
    uint32_t map = new_map(1);
    pid_t child = child_with(begin_build);

    ck_assert(!redirect_area_build_begin(area, map));
    ck_assert(state_ok(map).building);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 1);
    end_child(child);
    ck_assert(!state_ok(map).building);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
    child = child_with(begin_build);
    end_child(child);
    /* What the dead one began is nothing that the next could publish. */
    ck_assert(redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_publish(area, map, &some_id), APR_EINVAL);
    redirect_area_build_failed(area, map, &some_id);
    au_assert_at_rest(area, &map, 1);
    child = child_with(begin_build);
    end_child(child);
    build_ok(map, 100, 1, 1);
    au_assert_at_rest(area, &map, 1);
}
END_TEST

/* Its parent has not looked yet, but it cannot write any more. */
START_TEST(builder_that_is_dead_but_not_buried)
{
    uint32_t map = new_map(1);
    pid_t child = child_with(begin_build);
    siginfo_t info;

    kill(child, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(kill(child, 0), 0);
    build_ok(map, 100, 1, 1);
    au_assert_at_rest(area, &map, 1);
    end_child(child);
}
END_TEST

/* --- room -------------------------------------------------------------------------------------*/

START_TEST(room_is_limited)
{
    uint32_t map = new_map(1), other = new_map(2);
    void *image;

    ck_assert(redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_reserve(area, map, 0, 0, &image), APR_EINVAL);
    ck_assert_int_eq(redirect_area_reserve(area, map, ROOM + 1, 0, &image), APR_ENOSPC);
    ck_assert_int_eq(redirect_area_reserve(area, map, SIZE_MAX, 0, &image), APR_ENOSPC);
    ck_assert_ptr_null(image);
    ck_assert_int_eq(redirect_area_reserve(area, map, ROOM, 0, &image), APR_SUCCESS);
    memset(image, 1, ROOM);
    ck_assert_int_eq(au_build(area, other, 100, 2, 1), APR_ENOSPC);
    redirect_area_build_failed(area, map, &some_id);
    build_ok(other, 100, 2, 1);
    ck_assert_uint_eq(stats().bytes_reserved, ROOM);
}
END_TEST

START_TEST(memory_goes_back)
{
    uint32_t map = new_map(1);
    redirect_area_pin pin;

    build_ok(map, 3 * MEGABYTE, 1, 1);
    pin = pin_ok(map);
    /* No room for another one of that size while the old one is in use. */
    ck_assert_int_eq(au_build(area, map, 3 * MEGABYTE, 1, 2), APR_ENOSPC);
    build_ok(map, MEGABYTE / 2, 1, 3);
    ck_assert_uint_eq(stats().bytes_used, 3 * MEGABYTE + MEGABYTE / 2);
    redirect_area_collect(area, 1);
    assert_image(&pin, 1, 1);
    redirect_area_unpin(area, &pin);
    /* The next one does not need a collect. */
    build_ok(map, 3 * MEGABYTE, 1, 4);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
}
END_TEST

START_TEST(gaps_are_filled)
{
    uint32_t maps[8];
    redirect_area_pin pin;

    for (uint32_t i = 0; i < 8; i++) {
        maps[i] = new_map(i);
        build_ok(maps[i], MEGABYTE / 2, i, i);
    }
    ck_assert_uint_eq(stats().bytes_used, ROOM);
    for (uint32_t i = 1; i < 8; i += 2) {
        redirect_area_pin old = pin_ok(maps[i]);

        ck_assert_int_eq(au_build(area, maps[i], 100, i, 50), APR_ENOSPC);
        redirect_area_unpin(area, &old);
        ck_assert_int_eq(au_build(area, maps[i], 100, i, 50), APR_ENOSPC);
    }
    /* Two maps give up their images; the next ones fill the gaps, the first one first. */
    area->maps[rda_entry_of(maps[3])].current = 0;
    area->maps[rda_entry_of(maps[5])].current = 0;
    build_ok(maps[5], MEGABYTE / 2, 5, 51);
    pin = pin_ok(maps[5]);
    ck_assert_ptr_eq(pin.image, area->room + 3 * MEGABYTE / 2);
    redirect_area_unpin(area, &pin);
    build_ok(maps[3], MEGABYTE / 2 - 5, 3, 52);
    for (uint32_t i = 0; i < 8; i++) {
        pin = pin_ok(maps[i]);
        assert_image(&pin, i, i == 5 ? 51 : i == 3 ? 52 : i);
        redirect_area_unpin(area, &pin);
    }
    au_assert_at_rest(area, maps, 8);
}
END_TEST

/* All but the last entries of the table are in use. */
static void occupy(redirect_area *large, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        large->images[i].first = i;
        large->images[i].pages = 1;
        large->images[i].releaser = rda_own_serial(large);
        large->images[i].state = RDA_RELEASING;
    }
    large->header->images_end = n;
}

START_TEST(images_are_limited)
{
    enum { N = 100, OTHERS = REDIRECT_AREA_IMAGES - N };
    redirect_area *large = au_create(pool, (REDIRECT_AREA_IMAGES + N) * area->page);
    redirect_area_key key = au_key(1);
    redirect_area_pin pins[N];
    uint32_t map;

    redirect_area_join(large, 1);
    occupy(large, OTHERS);
    map = redirect_area_map(large, &key, 1, true);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_int_eq(au_build(large, map, 64, 1, i), APR_SUCCESS);
        ck_assert(redirect_area_pin_get(large, map, &pins[i]));
    }
    ck_assert_int_eq(au_build(large, map, 64, 1, 5), APR_ENOSPC);
    for (uint32_t i = 0; i < N; i += 2) {
        assert_image(&pins[i], 1, i);
        redirect_area_unpin(large, &pins[i]);
    }
    ck_assert_int_eq(au_build(large, map, 64, 1, 6), APR_SUCCESS);
    for (uint32_t i = 1; i < N; i += 2) {
        assert_image(&pins[i], 1, i);
        redirect_area_unpin(large, &pins[i]);
    }
    for (uint32_t i = 0; i < OTHERS; i++)
        large->images[i].state = RDA_FREE;
    redirect_area_collect(large, 1);
    au_assert_at_rest(large, &map, 1);
}
END_TEST

/* --- running ----------------------------------------------------------------------------------*/

static void add_reservation(Suite *s)
{
    TCase *tc = add_case(s, "reservation");

    tcase_add_test(tc, another_builds_area);
    tcase_add_test(tc, little_is_touched);
    tcase_add_test(tc, sizes_are_checked);
    tcase_add_test(tc, limited_addresses);
    tcase_add_loop_test(tc, modest_where_it_costs_others, 0,
                        (int)(sizeof(modest) / sizeof(modest[0])));
    tcase_add_test(tc, is_not_dumped);
}

static void add_maps(Suite *s)
{
    TCase *tc = add_case(s, "maps");

    tcase_add_test(tc, maps_by_key);
    tcase_add_test(tc, maps_are_limited);
    tcase_add_test(tc, notes_go_with_their_map);
    tcase_add_test(tc, half_a_note);
    tcase_add_test(tc, forgotten_map);
    tcase_add_test(tc, a_map_number_returns_late);
    tcase_add_test(tc, maps_live_as_long_as_their_generations);
}

static void add_builds(Suite *s)
{
    TCase *tc = add_case(s, "builds");

    tcase_add_test(tc, a_new_map);
    tcase_add_test(tc, publishing);
    tcase_add_test(tc, counters_of_an_image);
    tcase_add_test(tc, counters_must_fit);
    tcase_add_test(tc, versions_are_never_the_same);
    tcase_add_test(tc, builds_in_vain);
    tcase_add_test(tc, half_a_failure);
    tcase_add_test(tc, reserving_again_in_one_build);
    tcase_add_test(tc, several_builds_at_once);
    tcase_add_test(tc, builder_that_dies);
    tcase_add_test(tc, builder_that_is_dead_but_not_buried);
    tcase_add_test(tc, room_is_limited);
    tcase_add_test(tc, memory_goes_back);
    tcase_add_test(tc, gaps_are_filled);
    tcase_add_test(tc, images_are_limited);
}

int main(void)
{
    Suite *s = suite_create("redirect_area");

    add_reservation(s);
    add_maps(s);
    add_builds(s);
    return run(s);
}
