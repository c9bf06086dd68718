/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of how the shared area for table images is shared out among owners of maps, who are
 * tenants that the administrator has not heard of: none of them takes what others have, or what
 * the server's configuration needs. Run by 'make check'.
 */
#include "area_fixture.h"

#define MOST_MAPS   (REDIRECT_AREA_MAPS / 4 * 3)
#define MOST_IMAGES (REDIRECT_AREA_IMAGES / 4 * 3)
#define PAGE        UINT64_C(4096)
#define HOG         UINT64_C(1001)
#define SMALL       UINT64_C(7)
#define HOG_MAPS    100000 /* the first of their numbers */

static uint32_t map_owned(uint64_t number, uint64_t owner)
{
    redirect_area_key key = au_key(number);

    return redirect_area_map_of(area, &key, 1, owner);
}

static uint32_t new_owned(uint64_t number, uint64_t owner)
{
    uint32_t map = map_owned(number, owner);

    ck_assert(redirect_area_exists(area, map));
    return map;
}

/* As many of the maps with numbers from @a first on exist. */
static uint32_t exist(uint64_t first, uint32_t n)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n; i++)
        found += map_of(first + i, 1, false) != REDIRECT_AREA_NIL;
    return found;
}

static void name_maps(uint64_t first, uint32_t n, uint64_t owner)
{
    for (uint32_t i = 0; i < n; i++)
        new_owned(first + i, owner);
}

/* --- places for maps --------------------------------------------------------------------------*/

START_TEST(one_owner_has_its_own_make_way)
{
    uint32_t small = new_owned(1, SMALL), server = new_map(2);

    ck_assert(redirect_area_owned(area, small) && !redirect_area_owned(area, server));
    ck_assert(redirect_area_owned(area, REDIRECT_AREA_NIL));
    build_ok(small, 5000, 1, 1);
    build_ok(server, 5000, 2, 1);
    name_maps(HOG_MAPS, MOST_MAPS - 1, HOG);
    ck_assert_uint_eq(stats().evicted, 0);
    ck_assert_uint_eq(exist(HOG_MAPS, MOST_MAPS - 1), MOST_MAPS - 1);
    name_maps(HOG_MAPS + MOST_MAPS, 500, HOG);
    ck_assert_uint_eq(stats().evicted, 500);
    ck_assert_uint_eq(stats().maps, MOST_MAPS + 1);
    ck_assert_uint_eq(stats().owners_maps, MOST_MAPS);
    ck_assert_uint_eq(stats().owners_maps_most, MOST_MAPS);
    ck_assert_uint_eq(redirect_area_version(area, small), state_ok(small).version);
    ck_assert_uint_ne(redirect_area_version(area, small), 0);
    ck_assert_uint_ne(redirect_area_version(area, server), 0);
}
END_TEST

START_TEST(who_has_most_makes_way_for_others)
{
    name_maps(HOG_MAPS, MOST_MAPS, HOG);
    for (uint64_t owner = 1; owner <= 50; owner++)
        name_maps(owner * 10, 3, owner);
    ck_assert_uint_eq(stats().evicted, 150);
    for (uint64_t owner = 1; owner <= 50; owner++)
        ck_assert_uint_eq(exist(owner * 10, 3), 3);
    /* Once more from the hog: none of theirs. */
    name_maps(HOG_MAPS + MOST_MAPS, 300, HOG);
    for (uint64_t owner = 1; owner <= 50; owner++)
        ck_assert_uint_eq(exist(owner * 10, 3), 3);
}
END_TEST

/* Nobody has more than one, and there is one owner more than there are places. */
START_TEST(equals_make_way_for_each_other)
{
    for (uint64_t owner = 1; owner <= MOST_MAPS + 1; owner++)
        new_owned(owner, owner);
    ck_assert_uint_eq(stats().maps, MOST_MAPS);
    ck_assert_uint_eq(stats().evicted, 1);
    /* But nobody gets a second one. */
    new_owned(HOG_MAPS, MOST_MAPS + 1);
    ck_assert_uint_eq(stats().evicted, 2);
    ck_assert_uint_eq(exist(MOST_MAPS + 1, 1), 0);
}
END_TEST

START_TEST(the_configuration_has_its_places)
{
    name_maps(HOG_MAPS, REDIRECT_AREA_MAPS, HOG);
    for (uint64_t i = 0; i < REDIRECT_AREA_MAPS; i++)
        new_map(i);
    ck_assert_uint_eq(exist(0, REDIRECT_AREA_MAPS), REDIRECT_AREA_MAPS);
    ck_assert_uint_eq(map_of(REDIRECT_AREA_MAPS, 1, true), REDIRECT_AREA_NIL);
    ck_assert_uint_eq(map_owned(HOG_MAPS, HOG), REDIRECT_AREA_NIL);
    ck_assert_uint_eq(exist(0, REDIRECT_AREA_MAPS), REDIRECT_AREA_MAPS);
}
END_TEST

START_TEST(what_is_asked_for_stays)
{
    uint32_t used = new_owned(1, HOG);

    name_maps(HOG_MAPS, MOST_MAPS - 1, HOG);
    for (uint32_t i = 0; i < 2 * MOST_MAPS; i++) {
        redirect_area_count(area, used, 1, 0);
        new_owned(2 * HOG_MAPS + i, HOG);
    }
    ck_assert(redirect_area_exists(area, used));
    ck_assert_uint_eq(state_ok(used).lookups, 2 * MOST_MAPS);
}
END_TEST

START_TEST(what_is_being_built_stays)
{
    uint32_t built = new_owned(1, HOG);
    void *image;

    ck_assert(redirect_area_build_begin(area, built));
    ck_assert_int_eq(redirect_area_reserve(area, built, 5000, 0, &image), APR_SUCCESS);
    au_fill(image, 5000, 1, 1);
    name_maps(HOG_MAPS, 3 * MOST_MAPS, HOG);
    ck_assert_int_eq(redirect_area_publish(area, built, &some_id), APR_SUCCESS);
    ck_assert_uint_ne(redirect_area_version(area, built), 0);
}
END_TEST

/* Who has an image pinned reads on, whatever became of the map; the next map in its place is
 * another one. */
START_TEST(pinned_images_outlive_their_maps)
{
    uint32_t gone = new_owned(1, HOG), next;
    redirect_area_pin pin;

    build_ok(gone, 5000, 1, 9);
    pin = pin_ok(gone);
    name_maps(HOG_MAPS, 2 * MOST_MAPS, HOG);
    ck_assert(!redirect_area_exists(area, gone));
    ck_assert(!redirect_area_pin_known(area, gone, &pin));
    next = new_owned(1, HOG);
    ck_assert_uint_ne(next, gone);
    build_ok(next, 5000, 1, 10);
    assert_image(&pin, 1, 9);
    redirect_area_unpin(area, &pin);
    redirect_area_sweep(area);
    ck_assert_uint_eq(stats().images, 1);
}
END_TEST

/* --- memory -----------------------------------------------------------------------------------*/

/* The room of these tests is 1,024 pages: 768 for owners, of which one may have 384. */
#define OWN_PAGES UINT64_C(384)

START_TEST(memory_makes_way)
{
    uint32_t small = new_owned(1, SMALL);

    build_ok(small, 50 * PAGE, 1, 1);
    for (uint64_t i = 0; i < 100; i++)
        build_ok(new_owned(HOG_MAPS + i, HOG), 10 * PAGE, HOG_MAPS + i, i);
    ck_assert_uint_eq(stats().bytes_used, (50 + OWN_PAGES / 10 * 10) * PAGE);
    ck_assert_uint_eq(stats().evicted, 100 - OWN_PAGES / 10);
    ck_assert_uint_ne(redirect_area_version(area, small), 0);
    /* What was asked for last is there. */
    ck_assert_uint_eq(exist(HOG_MAPS + 99, 1), 1);
}
END_TEST

START_TEST(who_has_most_memory_gives_it)
{
    uint32_t small = new_owned(1, SMALL);

    for (uint64_t owner = HOG; owner < HOG + 2; owner++) {
        for (uint64_t i = 0; i < 38; i++)
            build_ok(new_owned(owner * 100 + i, owner), 10 * PAGE, owner * 100 + i, i);
    }
    ck_assert_uint_eq(stats().evicted, 0);
    build_ok(small, 120 * PAGE, 1, 1);
    /* 880 pages are 112 too many, and both have as much. */
    ck_assert_uint_eq(stats().evicted, 12);
    ck_assert_uint_eq(exist(HOG * 100, 38), 38 - 6);
    ck_assert_uint_eq(exist((HOG + 1) * 100, 38), 38 - 6);
    ck_assert_uint_ne(redirect_area_version(area, small), 0);
}
END_TEST

/* However many requests hold on to images that are no more. */
START_TEST(pinned_memory_has_a_bound)
{
    redirect_area_pin pins[64];
    uint32_t hog = new_owned(HOG_MAPS, HOG), small = new_owned(1, SMALL), n = 0;

    while (n < 64 && au_build(area, hog, 10 * PAGE, HOG_MAPS, n) == APR_SUCCESS)
        pins[n++] = pin_ok(hog);
    ck_assert_uint_eq(n, OWN_PAGES / 10);
    build_ok(small, OWN_PAGES * PAGE, 1, 1);
    build_ok(new_map(2), 200 * PAGE, 2, 1);
    for (uint32_t i = 0; i < n; i++) {
        assert_image(&pins[i], HOG_MAPS, i);
        redirect_area_unpin(area, &pins[i]);
    }
    build_ok(hog, 10 * PAGE, HOG_MAPS, 99);
}
END_TEST

START_TEST(what_is_too_large_drives_nobody_out)
{
    uint32_t small = new_owned(1, SMALL);

    build_ok(small, 300 * PAGE, 1, 1);
    ck_assert_int_eq(au_build(area, new_owned(HOG_MAPS, HOG), (OWN_PAGES + 1) * PAGE, HOG_MAPS, 1),
                     APR_ENOSPC);
    ck_assert_uint_eq(stats().evicted, 0);
    build_ok(new_map(3), 500 * PAGE, 3, 1);
}
END_TEST

/* The configuration's maps may have all, and have others make way. */
START_TEST(the_configuration_has_its_memory)
{
    for (uint64_t i = 0; i < 38; i++)
        build_ok(new_owned(HOG_MAPS + i, HOG), 10 * PAGE, HOG_MAPS + i, i);
    build_ok(new_map(1), 1000 * PAGE, 1, 1);
    ck_assert_uint_ge(stats().evicted, 36);
    ck_assert_int_eq(au_build(area, new_owned(HOG_MAPS + 50, HOG), 30 * PAGE, 1, 1), APR_ENOSPC);
    ck_assert_uint_ne(redirect_area_version(area, map_of(1, 1, false)), 0);
}
END_TEST

START_TEST(the_bound_can_be_lower)
{
    redirect_area_bound(area, 100 * PAGE);
    ck_assert_uint_eq(stats().owners_most, 100 * PAGE);
    ck_assert_int_eq(au_build(area, new_owned(HOG_MAPS, HOG), 51 * PAGE, 1, 1), APR_ENOSPC);
    build_ok(new_owned(HOG_MAPS, HOG), 50 * PAGE, HOG_MAPS, 1);
    build_ok(new_owned(1, SMALL), 50 * PAGE, 1, 1);
    build_ok(new_owned(2, SMALL), 50 * PAGE, 2, 1);
    ck_assert_uint_eq(exist(HOG_MAPS, 1), 1);
    ck_assert_uint_eq(exist(1, 1), 0);
    redirect_area_bound(area, UINT64_MAX);
    ck_assert_uint_eq(stats().owners_most, ROOM / 4 * 3);
}
END_TEST

/* --- entries for images -----------------------------------------------------------------------*/

START_TEST(images_have_a_bound)
{
    uint32_t hog = new_owned(HOG_MAPS, HOG), n = 0;
    static redirect_area_pin pins[MOST_IMAGES];

    teardown();
    pool = au_pool();
    area = au_create(pool, 2 * MOST_IMAGES * PAGE);
    redirect_area_join(area, 1);
    hog = new_owned(HOG_MAPS, HOG);
    while (n < MOST_IMAGES && au_build(area, hog, 100, HOG_MAPS, n) == APR_SUCCESS)
        pins[n++] = pin_ok(hog);
    ck_assert_uint_eq(n, MOST_IMAGES / 2);
    build_ok(new_owned(1, SMALL), 100, 1, 1);
    build_ok(new_map(2), 100, 2, 1);
    for (uint32_t i = 0; i < n; i++)
        redirect_area_unpin(area, &pins[i]);
    build_ok(hog, 100, HOG_MAPS, n);
    ck_assert_uint_eq(stats().images, 3);
}
END_TEST

/* --- saying so --------------------------------------------------------------------------------*/

START_TEST(said_once_an_hour)
{
    redirect_area_note note = {.where = "/srv/hog/.htaccess:12", .htaccess = 1};
    char where[100];

    ck_assert(!redirect_area_evicted(area, 10, where, sizeof(where)));
    redirect_area_note_set(area, new_owned(HOG_MAPS, HOG), &note);
    name_maps(HOG_MAPS + 1, MOST_MAPS - 1, HOG);
    ck_assert(!redirect_area_evicted(area, 10, where, sizeof(where)));
    new_owned(1, SMALL);
    ck_assert(redirect_area_evicted(area, 10, where, sizeof(where)));
    ck_assert_str_eq(where, "/srv/hog/.htaccess:12");
    new_owned(2, SMALL);
    ck_assert(!redirect_area_evicted(area, 11, where, sizeof(where)));
    ck_assert(!redirect_area_evicted(area, 3609, where, sizeof(where)));
    ck_assert(redirect_area_evicted(area, 3610, where, sizeof(where)));
    ck_assert_str_eq(where, "");
    ck_assert(!redirect_area_evicted(area, 99999, where, sizeof(where)));
}
END_TEST

/* --- running ----------------------------------------------------------------------------------*/

int main(void)
{
    Suite *s = suite_create("redirect_area_share");
    TCase *tc = add_case(s, "places");

    tcase_add_test(tc, one_owner_has_its_own_make_way);
    tcase_add_test(tc, who_has_most_makes_way_for_others);
    tcase_add_test(tc, equals_make_way_for_each_other);
    tcase_add_test(tc, the_configuration_has_its_places);
    tcase_add_test(tc, what_is_asked_for_stays);
    tcase_add_test(tc, what_is_being_built_stays);
    tcase_add_test(tc, pinned_images_outlive_their_maps);
    tc = add_case(s, "memory");
    tcase_add_test(tc, memory_makes_way);
    tcase_add_test(tc, who_has_most_memory_gives_it);
    tcase_add_test(tc, pinned_memory_has_a_bound);
    tcase_add_test(tc, what_is_too_large_drives_nobody_out);
    tcase_add_test(tc, the_configuration_has_its_memory);
    tcase_add_test(tc, the_bound_can_be_lower);
    tc = add_case(s, "images");
    tcase_add_test(tc, images_have_a_bound);
    tc = add_case(s, "saying so");
    tcase_add_test(tc, said_once_an_hour);
    return run(s);
}
