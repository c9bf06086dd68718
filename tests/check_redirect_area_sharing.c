/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared area for table images: pins, what becomes of dead processes' things, the
 * lock, claims and counts, and damage. Run by 'make check'; users that work at the same time are in
 * check_redirect_area_processes.c, and those that are killed after each store in
 * check_redirect_area_crash.c.
 */
#include "area_fixture.h"

#include <pthread.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* --- names ------------------------------------------------------------------------------------*/

/* Somebody who may write /srv/a/.htaccess can find names of files in there that look like a map of
 * /srv/b to a hash that is not made against this: such as the second one, which took a moment to
 * find. */
START_TEST(names_cannot_be_chosen_to_be_those_of_others)
{
    static const char victim[] = "1 0 0 0 0 0\n\n\n/srv/b\n/srv/b/redirects.map";
    static const char chosen[] =
        "1 0 0 0 0 0\n\n\n/srv/a\n/srv/a/eszycidpyopuI\232\230\227\2039\314\350tyyawoixzhsdkaaauqdH"
        "\227\242\r\371N\333\227\360Yx\017l\244hvhyojanrudfuxjdxkxwqnqvgjjspqms";
    redirect_area_key keys[3];
    XXH128_hash_t a = XXH3_128bits(victim, strlen(victim)),
                  b = XXH3_128bits(chosen, strlen(chosen));

    ck_assert_uint_eq(a.low64, b.low64);
    ck_assert_uint_eq(a.high64, b.high64);
    keys[0] = redirect_area_key_of(victim, strlen(victim), pool);
    keys[1] = redirect_area_key_of(chosen, strlen(chosen), pool);
    keys[2] = redirect_area_key_of(victim, strlen(victim), pool);
    ck_assert_uint_ne(keys[0].word[0], keys[1].word[0]);
    ck_assert_uint_ne(keys[0].word[1], keys[1].word[1]);
    ck_assert_mem_eq(&keys[0], &keys[2], sizeof(keys[0]));
}
END_TEST

/* --- pins and processes -----------------------------------------------------------------------*/

START_TEST(pins_are_counted)
{
    uint32_t map = new_map(1);
    redirect_area_pin first, second;

    build_ok(map, 8000, 1, 1);
    first = pin_ok(map);
    second = pin_ok(map);
    pin_ok(map);
    build_ok(map, 100, 1, 2);
    for (int i = 0; i < 3; i++) {
        redirect_area_collect(area, 1);
        ck_assert_uint_eq(stats().images, 2);
        assert_image(&second, 1, 1);
        redirect_area_unpin(area, i ? &second : &first);
    }
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
}
END_TEST

/* --- thread pins -------------------------------------------------------------------------------*/

/* Held for a request, by a thread of this number. */
static au_held hold_ok(uint32_t map, uint64_t number, uint64_t build, uint64_t thread)
{
    au_held h = {.pin = pin_ok(map), .number = number, .build = build};

    ck_assert(au_hold(area, map, &h, thread));
    return h;
}

START_TEST(what_is_held_stays)
{
    uint32_t map = new_map(1);
    au_held one, two;
    redirect_area_pin old;

    build_ok(map, 8000, 1, 1);
    one = hold_ok(map, 1, 1, 3);
    two = hold_ok(map, 1, 1, 3 + RDA_PIN_ROWS);
    old = one.pin;
    ck_assert_ptr_ne(one.thread_pin, two.thread_pin);
    ck_assert_ptr_null(redirect_area_hold(area, map, &old, 3)); /* both are taken */
    build_ok(map, 100, 1, 2);
    ck_assert_ptr_null(redirect_area_hold(area, map, &old, 4)); /* it is an old one */
    au_let_go(area, &one);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 2);
    assert_image(&two.pin, 1, 1);
    au_let_go(area, &two);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
}
END_TEST

START_TEST(threads_have_lines_of_their_own)
{
    uint32_t map = new_map(1);
    au_held held[RDA_PIN_ROWS];

    build_ok(map, 8000, 1, 1);
    for (uint64_t i = 0; i < RDA_PIN_ROWS; i++) {
        held[i] = hold_ok(map, 1, 1, i);
        for (uint64_t j = 0; j < i; j++)
            ck_assert_uint_ne((uintptr_t)held[i].thread_pin / RDA_ALIGN,
                              (uintptr_t)held[j].thread_pin / RDA_ALIGN);
    }
    for (uint64_t i = 0; i < RDA_PIN_ROWS; i++)
        au_let_go(area, &held[i]);
}
END_TEST

/* Those who have no thread_pin are counted elsewhere; nobody's count is another map's. */
START_TEST(many_maps_one_thread)
{
    enum { MANY = 3 * RDA_ROW_PINS };
    uint32_t maps[MANY], thread_pins = 0;

    for (uint32_t i = 0; i < MANY; i++) {
        redirect_area_pin pin;
        redirect_area_thread_pin *thread_pin;

        maps[i] = new_map(i);
        build_ok(maps[i], 100, i, 1);
        pin = pin_ok(maps[i]);
        thread_pin = redirect_area_hold(area, maps[i], &pin, 1);
        redirect_area_unpin(area, &pin);
        if (thread_pin) {
            thread_pins++;
            redirect_area_count_held(thread_pin, 10 + i, i);
            redirect_area_let_go(area, &pin, thread_pin);
        } else
            redirect_area_count(area, maps[i], 10 + i, i);
    }
    ck_assert_uint_eq(thread_pins, RDA_ROW_PINS);
    for (uint32_t i = 0; i < MANY; i++) {
        ck_assert_uint_eq(state_ok(maps[i]).lookups, 10 + i);
        ck_assert_uint_eq(state_ok(maps[i]).hits, i);
    }
}
END_TEST

static int hold_1(void)
{
    uint32_t map = map_of(1, 1, false);
    redirect_area_pin pin;
    redirect_area_thread_pin *thread_pin;

    redirect_area_join(area, 1);
    if (!redirect_area_pin_get(area, map, &pin))
        return 1;
    thread_pin = redirect_area_hold(area, map, &pin, 9);
    if (!thread_pin)
        return 2;
    redirect_area_count_held(thread_pin, 3, 1);
    return 0; /* with all that it holds */
}

/* The thread pins of one that is gone hold nothing, but what it counted stays, whoever has its
 * cell. */
START_TEST(holders_that_are_gone)
{
    uint32_t map = new_map(1);

    build_ok(map, 8000, 1, 1);
    for (uint64_t i = 1; i < 5; i++) {
        ck_assert_int_eq(ask_child(hold_1), 0);
        ck_assert_uint_eq(rda_processes_end(area), 2);
        ck_assert_uint_eq(state_ok(map).lookups, 3 * i);
        ck_assert_uint_eq(state_ok(map).hits, i);
        build_ok(map, 8000, 1, 1 + i);
        redirect_area_collect(area, 1);
        au_assert_at_rest(area, &map, 1);
    }
}
END_TEST

static au_held held_by_parent;

static int let_go_of_parents(void)
{
    redirect_area_let_go(area, &held_by_parent.pin, held_by_parent.thread_pin);
    if (redirect_area_hold(area, map_of(1, 1, false), &held_by_parent.pin, 1))
        return 1;
    redirect_area_join(area, 1);
    redirect_area_let_go(area, &held_by_parent.pin, held_by_parent.thread_pin);
    return redirect_area_hold(area, map_of(1, 1, false), &held_by_parent.pin, 1) ? 3 : 0;
}

START_TEST(a_forked_child_holds_nothing)
{
    uint32_t map = new_map(1);

    build_ok(map, 8000, 1, 1);
    held_by_parent = hold_ok(map, 1, 1, 1);
    ck_assert_int_eq(ask_child(let_go_of_parents), 0);
    build_ok(map, 9000, 1, 2);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 2);
    assert_image(&held_by_parent.pin, 1, 1);
    au_let_go(area, &held_by_parent);
}
END_TEST

/* A thread_pin goes on to another map, and its counts do not. */
START_TEST(pegs_of_forgotten_maps)
{
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t map = map_of(i, i, true);
        au_held h;

        build_ok(map, 100, i, 1);
        h = hold_ok(map, i, 1, 2);
        redirect_area_count_held(h.thread_pin, 1 + i, 1);
        au_let_go(area, &h);
        ck_assert_uint_eq(state_ok(map).lookups, 1 + i);
        redirect_area_join(area, 1000);
        redirect_area_collect(area, 1000);
    }
}
END_TEST

static void pin_1(void)
{
    redirect_area_pin pin;

    redirect_area_join(area, 1);
    if (!redirect_area_pin_get(area, map_of(1, 1, false), &pin))
        abort();
}

START_TEST(pins_of_others)
{
    uint32_t map = new_map(1);
    pid_t child;

    build_ok(map, 8000, 1, 1);
    child = child_with(pin_1);
    build_ok(map, 9000, 1, 2);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 2);
    end_child(child);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
    /* A pin for the next image in the slot is none of the dead one's, whoever has its cell. */
    child = child_with(pin_1);
    end_child(child);
    child = child_with(join_2);
    build_ok(map, 7000, 1, 3);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
    ck_assert_uint_eq(rda_processes_end(area), 2);
    end_child(child);
}
END_TEST

static redirect_area_pin inherited;

/* What a child may do that was forked by one that had joined. */
static int use_without_joining(void)
{
    redirect_area_pin pin;
    void *image;
    uint32_t map = map_of(1, 1, true);

    if (redirect_area_pin_get(area, map, &pin) || pin.image)
        return 1;
    if (redirect_area_build_begin(area, map))
        return 2;
    if (redirect_area_reserve(area, map, 10, 0, &image) != APR_EINVAL)
        return 3;
    redirect_area_unpin(area, &inherited);
    redirect_area_collect(area, 1);
    redirect_area_join(area, 1);
    redirect_area_unpin(area, &inherited);
    if (!redirect_area_pin_get(area, map, &pin))
        return 5;
    redirect_area_unpin(area, &pin);
    redirect_area_count(area, map, 1, 0);
    return 0;
}

/* With and without help of the kernel. */
START_TEST(a_forked_child_has_not_joined)
{
    uint32_t map = new_map(1);

#ifdef MADV_WIPEONFORK
    ck_assert(area->wiped_on_fork);
#endif
    if (_i) {
        madvise(area->own, area->page, 15 + 4); /* MADV_KEEPONFORK */
        area->wiped_on_fork = false;
    }
    build_ok(map, 8000, 1, 1);
    inherited = pin_ok(map);
    ck_assert_int_eq(ask_child(use_without_joining), 0);
    build_ok(map, 9000, 1, 2);
    redirect_area_collect(area, 1);
    assert_image(&inherited, 1, 1);
    ck_assert_uint_eq(stats().images, 2);
    redirect_area_unpin(area, &inherited);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
    ck_assert_uint_eq(state_ok(map).lookups, 1);
}
END_TEST

static int join_once(void)
{
    redirect_area_join(area, 1);
    return rda_own_serial(area) ? 0 : 1;
}

START_TEST(cells_are_used_again)
{
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(ask_child(join_once), 0);
    ck_assert_uint_eq(rda_processes_end(area), 2);
    redirect_area_join(area, 5);
    ck_assert_uint_eq(RDA_GET(area->processes[0].generation), 5);
    ck_assert_uint_eq(rda_processes_end(area), 2);
}
END_TEST

/* Else each child would ask for all of those that are older, and live. */
START_TEST(cells_are_used_in_turn)
{
    pid_t children[] = {child_with(join_2), child_with(join_2)};
    uint64_t last = RDA_GET(area->processes[2].serial);

    for (int i = 0; i < 2; i++)
        end_child(children[i]);
    for (int i = 0; i < 2; i++)
        end_child(child_with(join_2));
    ck_assert_uint_ne(RDA_GET(area->processes[2].serial), last);
    ck_assert_uint_eq(rda_processes_end(area), 3);
}
END_TEST

static void hold_lock(void)
{
    redirect_area_join(area, 1);
    if (rda_lock(area) != APR_SUCCESS)
        abort();
}

static void take_all_cells(void)
{
    for (uint32_t i = 1; i < RDA_COMMON; i++) {
        uint64_t serial = 1000 * REDIRECT_AREA_PROCESSES + i;

        ck_assert(htc_lock_enlist(&area->lock, serial));
        area->processes[i].serial = serial;
    }
    area->header->processes_end = RDA_COMMON;
}

static void join_common(void)
{
    redirect_area_join(area, 1);
    if (!rda_own_serial(area) || rda_cell_of(rda_own_serial(area)) != RDA_COMMON)
        abort();
}

/* What is pinned, and then what is held, stays as it is; and no older image comes again. */
static int look_up_often(void)
{
    uint32_t map = map_of(1, 1, false);
    uint64_t build, last = 0;
    redirect_area_thread_pin *thread_pin;
    redirect_area_pin pin;

    join_common();
    for (uint64_t i = 0; i < 3000; i++) {
        if (!redirect_area_pin_get(area, map, &pin))
            return 1;
        thread_pin = redirect_area_hold(area, map, &pin, i % 3);
        if (thread_pin)
            redirect_area_unpin(area, &pin);
        if (au_wrong(pin.image, pin.size, 1, &build) || build < last)
            return 2;
        last = build;
        if (thread_pin)
            redirect_area_let_go(area, &pin, thread_pin);
        else
            redirect_area_unpin(area, &pin);
    }
    return 0;
}

static void end_lookers(const pid_t *lookers, int n)
{
    for (int i = 0; i < n; i++) {
        int status;

        ck_assert_int_eq(waitpid(lookers[i], &status, 0), lookers[i]);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    }
}

/* Those beyond the last cell answer while images are replaced, and leave nothing behind. */
START_TEST(more_processes_than_cells)
{
    enum { LOOKERS = 4, BUILDS = 300 };
    uint32_t map = new_map(1);
    pid_t lookers[LOOKERS];

    build_ok(map, 8000, 1, 1);
    take_all_cells();
    for (int i = 0; i < LOOKERS; i++) {
        lookers[i] = fork();
        ck_assert_int_ge(lookers[i], 0);
        if (lookers[i] == 0)
            _exit(look_up_often());
    }
    for (uint64_t build = 2; build < BUILDS; build++)
        build_ok(map, 5000 + build * 16, 1, build);
    end_lookers(lookers, LOOKERS);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 1);
}
END_TEST

static int build_beyond(void)
{
    join_common();
    return au_build(area, map_of(1, 1, false), 9000, 1, 2) == APR_SUCCESS ? 0 : 1;
}

static void begin_beyond(void)
{
    void *image;

    join_common();
    if (!redirect_area_build_begin(area, map_of(1, 1, false)) ||
        redirect_area_reserve(area, map_of(1, 1, false), 9000, 0, &image) != APR_SUCCESS)
        abort();
}

static void pin_beyond(void)
{
    redirect_area_pin pin;

    join_common();
    if (!redirect_area_pin_get(area, map_of(1, 1, false), &pin))
        abort();
}

/* Who shares a cell builds as others do; whose build it was is known. */
START_TEST(builds_beyond_the_last_cell)
{
    uint32_t map = new_map(1);
    pid_t child;

    build_ok(map, 8000, 1, 1);
    take_all_cells();
    ck_assert_int_eq(ask_child(build_beyond), 0);
    child = child_with(begin_beyond);
    ck_assert(state_ok(map).building);
    ck_assert(!redirect_area_build_begin(area, map));
    ck_assert_uint_eq(stats().images, 2);
    end_child(child);
    ck_assert(!state_ok(map).building);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 1);
    build_ok(map, 100, 1, 3);
}
END_TEST

/* Whose pins are in the common cell is not known: they keep an image, as long as the area is there.
 */
START_TEST(killed_beyond_the_last_cell)
{
    uint32_t map = new_map(1);

    build_ok(map, 8000, 1, 1);
    take_all_cells();
    end_child(child_with(pin_beyond));
    build_ok(map, 8000, 1, 2);
    build_ok(map, 8000, 1, 3);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 2);
}
END_TEST

/* One that finds a cell whose process is gone takes it. */
START_TEST(cell_of_another_process)
{
    build_ok(new_map(1), 100, 1, 1);
    take_all_cells();
    RDA_SET(area->processes[700].serial, 700);
    RDA_SET(area->cells[0].pins[700], 3);
    ck_assert_int_eq(ask_child(join_once), 0);
    ck_assert_uint_gt(RDA_GET(area->processes[700].serial), REDIRECT_AREA_PROCESSES);
    ck_assert_uint_eq(RDA_GET(area->cells[0].pins[700]), 0);
}
END_TEST

static int join_and_pin(void)
{
    pin_beyond();
    return 0;
}

/* Who has the lock is stopped: it can be done without. */
START_TEST(joining_without_the_lock)
{
    uint32_t map = new_map(1);
    pid_t child;

    build_ok(map, 100, 1, 1);
    child = child_with(hold_lock);
    ck_assert_int_eq(ask_child(join_and_pin), 0);
    end_child(child);
}
END_TEST

/* --- the lock, claims, counts -----------------------------------------------------------------*/

/* A holder that is stopped stops nobody who only looks, and the others not for ever. */
START_TEST(stopped_holder)
{
    uint32_t map = new_map(1), building = new_map(2);
    redirect_area_pin pin;
    pid_t child;
    void *image;

    build_ok(map, 100, 1, 1);
    ck_assert(redirect_area_build_begin(area, building));
    ck_assert_int_eq(redirect_area_reserve(area, building, 5000, 0, &image), APR_SUCCESS);
    child = child_with(hold_lock);
    pin = pin_ok(map);
    assert_image(&pin, 1, 1);
    redirect_area_unpin(area, &pin);
    ck_assert_uint_eq(new_map(1), map);
    ck_assert_uint_eq(map_of(3, 1, true), REDIRECT_AREA_NIL);
    ck_assert(!redirect_area_build_begin(area, map));
    ck_assert_int_eq(redirect_area_publish(area, building, &some_id), APR_EBUSY);
    redirect_area_build_failed(area, building, &some_id);
    ck_assert(!state_ok(building).building);
    /* Who builds needs no lock to note why it was in vain: what is wrong is not said again. */
    ck_assert(state_ok(building).failed);
    ck_assert_uint_eq(state_ok(building).failed_id.ino, some_id.ino);
    redirect_area_collect(area, 1);
    end_child(child);
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 1);
    build_ok(building, 100, 2, 2);
    new_map(3);
}
END_TEST

START_TEST(claims)
{
    uint32_t map = new_map(1);

    /* Never checked: at once, however little time has passed since the system was started. */
    ck_assert(redirect_area_claim(area, map, 5, 1000, 100));
    ck_assert(!redirect_area_claim(area, map, 5, 1000, 100));
    redirect_area_confirm(area, map, 5);
    ck_assert_int_eq(state_ok(map).checked_at, 5);
    ck_assert(!redirect_area_claim(area, map, 1004, 1000, 100));
    ck_assert(redirect_area_claim(area, map, 1005, 1000, 100));
    ck_assert(!redirect_area_claim(area, map, 1104, 1000, 100));
    /* Who claimed it does not come back: another one does it when the lease is over. */
    ck_assert(redirect_area_claim(area, map, 1105, 1000, 100));
    redirect_area_confirm(area, map, 1105);
    ck_assert(!redirect_area_claim(area, map, 2000, 1000, 100));
    /* A lease longer than the time to live is cut. */
    ck_assert(redirect_area_claim(area, map, 3000, 50, 1000));
    ck_assert(!redirect_area_claim(area, map, 3049, 50, 1000));
    ck_assert(redirect_area_claim(area, map, 3050, 50, 1000));
}
END_TEST

typedef struct claimer {
    pthread_t thread;
    pthread_barrier_t *start;
    uint32_t map;
    unsigned won;
} claimer;

static void *claim_often(void *data)
{
    claimer *c = data;

    for (int64_t now = 1000; now < 101000; now += 1000) {
        pthread_barrier_wait(c->start);
        c->won += redirect_area_claim(area, c->map, now, 1000, 500);
        redirect_area_count(area, c->map, 2, 1);
        pthread_barrier_wait(c->start);
        redirect_area_confirm(area, c->map, now);
    }
    return NULL;
}

START_TEST(one_claims_all_count)
{
    enum { THREADS = 4 };
    claimer claimers[THREADS];
    pthread_barrier_t start;
    uint32_t map = new_map(1);
    unsigned won = 0;

    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        claimers[i] = (claimer){.start = &start, .map = map};
        ck_assert_int_eq(pthread_create(&claimers[i].thread, NULL, claim_often, &claimers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(claimers[i].thread, NULL);
        won += claimers[i].won;
    }
    pthread_barrier_destroy(&start);
    ck_assert_uint_eq(won, 100);
    ck_assert_uint_eq(state_ok(map).lookups, THREADS * 100 * 2);
    ck_assert_uint_eq(state_ok(map).hits, THREADS * 100);
}
END_TEST

/* --- damage -----------------------------------------------------------------------------------*/

/* Nobody knows what an image covers: nothing new is put anywhere, what is there can be used. */
START_TEST(impossible_image)
{
    uint32_t map = new_map(1), broken = new_map(2);
    redirect_area_pin pin;
    rda_image *image;

    build_ok(map, 100, 1, 1);
    build_ok(broken, 100, 2, 2);
    image = &area->images[rda_slot_of(redirect_area_version(area, broken))];
    RDA_SET(image->pages, UINT32_MAX);
    ck_assert(!redirect_area_pin_get(area, broken, &pin));
    ck_assert_int_eq(au_build(area, broken, 100, 2, 3), APR_EGENERAL);
    RDA_SET(image->pages, 1);
    RDA_SET(image->size, 4097 + area->page);
    ck_assert(!redirect_area_pin_get(area, broken, &pin));
    RDA_SET(image->first, 0);
    ck_assert_int_eq(au_build(area, broken, 100, 2, 3), APR_EGENERAL);
    pin = pin_ok(map);
    assert_image(&pin, 1, 1);
}
END_TEST

/* An image as a hostile process would have it: larger than what anybody wrote of it. To ask takes
 * no memory. */
START_TEST(image_that_nobody_wrote)
{
    redirect_area *big = au_create(pool, UINT64_C(1) << 30);
    redirect_area_key key = {{1, 2}};
    uint32_t map = redirect_area_map(big, &key, 1, true);
    unsigned char resident;
    redirect_area_pin pin;
    rda_image *image;

    redirect_area_join(big, 1);
    ck_assert_int_eq(au_build(big, map, 3 * big->page, 1, 1), APR_SUCCESS);
    ck_assert(redirect_area_pin_get(big, map, &pin));
    ck_assert(redirect_area_pin_filled(big, &pin));
    image = &big->images[pin.slot];
    RDA_SET(image->pages, big->pages);
    for (size_t bytes = 32 << 20; bytes <= 512 << 20; bytes *= 2) {
        RDA_SET(image->size, bytes);
        ck_assert(redirect_area_pin_get(big, map, &pin));
        ck_assert_int_eq(redirect_area_pin_filled(big, &pin), bytes <= 64 << 20);
    }
    ck_assert_int_eq(mincore(big->room + (16 << 20), big->page, &resident), 0);
    ck_assert_int_eq(resident & 1, 0);
    RDA_SET(image->size, 3 * big->page);
    RDA_SET(image->counters, 64 << 20);
    ck_assert(redirect_area_pin_get(big, map, &pin));
    ck_assert(!redirect_area_pin_filled(big, &pin));
}
END_TEST

static void use_everything(const uint32_t *maps, uint32_t n)
{
    redirect_area_state state;
    redirect_area_pin pin;

    redirect_area_collect(area, 1);
    for (uint32_t i = 0; i < n; i++) {
        map_of(i, 1, true);
        redirect_area_state_get(area, maps[i], &state);
        if (redirect_area_pin_get(area, maps[i], &pin)) {
            const unsigned char *at = pin.image;

            ck_assert(at >= area->room);
            ck_assert_uint_le(pin.size, ROOM - (size_t)(at - area->room));
            redirect_area_unpin(area, &pin);
        }
        au_build(area, maps[i], 5000, i, 1);
        redirect_area_count(area, maps[i], 1, 1);
    }
    redirect_area_join(area, 1);
    stats();
}

/* A word of the tables, but not of the lock. */
static _Atomic uint32_t *some_word(uint64_t *random)
{
    rda_header *header = area->header;
    uint32_t i = au_random(random) % 8;

    switch (au_random(random) % 6) {
    case 0:
        return &header->maps_end;
    case 1:
        return i % 2 ? &header->images_end : &header->processes_end;
    case 2:
        return (_Atomic uint32_t *)(void *)&area->processes[i % 2] + au_random(random) % 8;
    case 3:
        return (_Atomic uint32_t *)(void *)&area->names[i] + au_random(random) % 8;
    case 4:
        return (_Atomic uint32_t *)(void *)&area->maps[i] + au_random(random) % 28;
    default:
        return (_Atomic uint32_t *)(void *)&area->images[i] + au_random(random) % 26;
    }
}

static int use_damaged(void)
{
    uint32_t maps[8];
    uint64_t random = (uint64_t)getpid();

    for (uint32_t i = 0; i < 8; i++)
        maps[i] = map_of(i, 1, true);
    for (int round = 0; round < 40; round++) {
        _Atomic uint32_t *word = some_word(&random);

        switch (au_random(&random) % 3) {
        case 0:
            *word = au_random(&random) * 2;
            break;
        case 1:
            *word ^= UINT32_C(1) << au_random(&random) % 32;
            break;
        default:
            *word = UINT32_MAX - au_random(&random) % 3;
        }
        use_everything(maps, 8);
    }
    return 0;
}

/* Whatever stands in the tables, nobody leaves the area or comes to no end. */
START_TEST(wild_writes)
{
    for (int i = 0; i < 150; i++) {
        teardown();
        setup();
        for (uint32_t m = 0; m < 8; m++)
            build_ok(new_map(m), 5000, m, m);
        ck_assert_int_eq(ask_child(use_damaged), 0);
    }
}
END_TEST
/* --- running ----------------------------------------------------------------------------------*/

int main(void)
{
    Suite *s = suite_create("redirect_area_sharing");
    TCase *tc = add_case(s, "names");

    tcase_add_test(tc, names_cannot_be_chosen_to_be_those_of_others);
    tc = add_case(s, "processes");
    tcase_add_test(tc, pins_are_counted);
    tcase_add_test(tc, pins_of_others);
    tcase_add_loop_test(tc, a_forked_child_has_not_joined, 0, 2);
    tcase_add_test(tc, cells_are_used_again);
    tcase_add_test(tc, cells_are_used_in_turn);
    tcase_add_test(tc, more_processes_than_cells);
    tcase_add_test(tc, builds_beyond_the_last_cell);
    tcase_add_test(tc, killed_beyond_the_last_cell);
    tcase_add_test(tc, cell_of_another_process);
    tcase_add_test(tc, joining_without_the_lock);
    tc = add_case(s, "thread_pins");
    tcase_add_test(tc, what_is_held_stays);
    tcase_add_test(tc, threads_have_lines_of_their_own);
    tcase_add_test(tc, many_maps_one_thread);
    tcase_add_test(tc, holders_that_are_gone);
    tcase_add_test(tc, a_forked_child_holds_nothing);
    tcase_add_test(tc, pegs_of_forgotten_maps);
    tc = add_case(s, "lock");
    tcase_add_test(tc, stopped_holder);
    tcase_add_test(tc, claims);
    tcase_add_test(tc, one_claims_all_count);
    tc = add_case(s, "damage");
    tcase_add_test(tc, impossible_image);
    tcase_add_test(tc, image_that_nobody_wrote);
    tcase_add_test(tc, wild_writes);
    return run(s);
}
