/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The shared area for table images when the worst happens: an image is replaced in the midst of
 * pinning it or reading its state, and processes are killed after each store of each operation. The
 * area's sources are compiled into this program with HTC_CRASH_POINTS. Run by 'make check'.
 */
#include "suite_util.h"
#include "area_util.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HTC_CRASH_POINTS
#error "compile this and the area's sources with -DHTC_CRASH_POINTS"
#endif

#define AREA_BYTES (UINT64_C(3) << 20)
#define MAPS       5
#define OTHER_TIME 7 /* a generation that nobody has */

static apr_pool_t *pool;
static redirect_area *area;
static uint32_t maps[MAPS];
static long countdown;             /* stores until death; 0: never */
static const char *interrupted_at; /* once; NULL: nowhere */
static void (*interrupt)(void);

void htc_crash_point(const char *where)
{
    if (interrupted_at && !strcmp(where, interrupted_at)) {
        interrupted_at = NULL;
        interrupt();
    }
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}

static void setup(void)
{
    pool = au_pool();
    area = au_create(pool, AREA_BYTES);
    redirect_area_join(area, 1);
    for (uint32_t i = 0; i < MAPS; i++) {
        redirect_area_key key = au_key(i);

        maps[i] = redirect_area_map(area, &key, 1, true);
        ck_assert_uint_ne(maps[i], REDIRECT_AREA_NIL);
    }
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

static void assert_held(const au_held *h)
{
    const char *wrong = au_held_wrong(h);

    ck_assert_msg(!wrong, "%s", wrong);
}

static void let_go(au_held *h)
{
    assert_held(h);
    au_let_go(area, h);
}

/* --- at the worst moment ----------------------------------------------------------------------*/

static void replace_once(void)
{
    ck_assert_int_eq(au_build(area, maps[0], 5000, 0, 2), APR_SUCCESS);
}

/* The first image's memory and its entry are used for another image then. */
static void replace_twice(void)
{
    replace_once();
    ck_assert_int_eq(au_build(area, maps[0], 6000, 0, 3), APR_SUCCESS);
}

static const struct {
    const char *at;
    void (*interrupt)(void);
    uint64_t build; /* that is pinned in the end */
} moments[] = {
    {"about to pin", replace_once, 2},
    {"about to pin", replace_twice, 3},
    {"pins", replace_once, 2},
    {"pins", replace_twice, 3},
};

START_TEST(published_while_pinning)
{
    au_held h = {.number = 0, .build = moments[_i].build};

    ck_assert_int_eq(au_build(area, maps[0], 4000, 0, 1), APR_SUCCESS);
    interrupted_at = moments[_i].at;
    interrupt = moments[_i].interrupt;
    ck_assert(redirect_area_pin_get(area, maps[0], &h.pin));
    ck_assert_ptr_null(interrupted_at);
    let_go(&h);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, maps, MAPS);
}
END_TEST

START_TEST(published_while_reading)
{
    const htc_identity id = au_identity(3);
    redirect_area_state state;

    ck_assert_int_eq(au_build(area, maps[0], 4000, 0, 1), APR_SUCCESS);
    interrupted_at = "reading the state";
    interrupt = replace_twice;
    ck_assert(redirect_area_state_get(area, maps[0], &state));
    ck_assert_ptr_null(interrupted_at);
    ck_assert_mem_eq(&state.id, &id, sizeof(id));
    ck_assert_uint_eq(state.size, 6000);
    ck_assert_uint_eq(state.version, redirect_area_version(area, maps[0]));
}
END_TEST

static void forget_map(void)
{
    redirect_area_join(area, 9);
    redirect_area_collect(area, 9);
}

START_TEST(forgotten_while_pinning)
{
    redirect_area_pin pin;

    ck_assert_int_eq(au_build(area, maps[0], 4000, 0, 1), APR_SUCCESS);
    interrupted_at = moments[_i].at;
    interrupt = forget_map;
    ck_assert(!redirect_area_pin_get(area, maps[0], &pin));
    ck_assert_ptr_null(interrupted_at);
    redirect_area_collect(area, 9);
    au_assert_at_rest(area, maps, 0);
}
END_TEST

static const char *const hold_moments[] = {"about to hold", "held", "pin rows"};

/* Who holds does so before it asks whether the image is current still; so it is, or is not held. */
START_TEST(published_while_holding)
{
    au_held h = {.number = 0, .build = 1};
    redirect_area_thread_pin *pin;

    ck_assert_int_eq(au_build(area, maps[0], 4000, 0, 1), APR_SUCCESS);
    ck_assert(redirect_area_pin_get(area, maps[0], &h.pin));
    if (_i < 4) { /* the pin is the map's already */
        pin = redirect_area_hold(area, maps[0], &h.pin, 5);
        ck_assert_ptr_nonnull(pin);
        redirect_area_let_go(area, &h.pin, pin);
    }
    interrupted_at = hold_moments[_i / 2];
    interrupt = _i % 2 ? replace_twice : replace_once;
    ck_assert_ptr_null(redirect_area_hold(area, maps[0], &h.pin, 5));
    ck_assert_ptr_null(interrupted_at);
    let_go(&h);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, maps, MAPS);
}
END_TEST

/* --- killed after every store -----------------------------------------------------------------*/

#define BIG       ((size_t)900 << 10)
#define OWN_BYTES (AREA_BYTES / 8 * 3) /* that one owner may have */

static au_held first; /* this process has it pinned in all scenes */
static uint32_t gone_map;

static void end_child(pid_t child)
{
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* Run something in a child that then dies with all that it holds. */
static void in_child(void (*act)(void))
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        redirect_area_join(area, 1);
        act();
        raise(SIGKILL);
    }
    end_child(child);
}

static void simple(void)
{
    if (area)
        teardown();
    setup();
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_eq(au_build(area, maps[i], 30000, i, 10 + i), APR_SUCCESS);
    ck_assert(redirect_area_pin_get(area, maps[0], &first.pin));
    first.build = 10;
}

static void pin_all(void)
{
    redirect_area_pin pin;

    for (uint32_t i = 0; i < MAPS; i++)
        redirect_area_pin_get(area, maps[i], &pin);
}

static void after_dead_pinner(void)
{
    simple();
    in_child(pin_all);
}

static void begin_build(void)
{
    void *image;

    redirect_area_build_begin(area, maps[0]);
    redirect_area_reserve(area, maps[0], 100000, 0, &image);
}

static void after_dead_builder(void)
{
    simple();
    in_child(begin_build);
}

/* Images that nobody has any more, but whose memory nobody gave back yet. */
static void with_garbage(void)
{
    redirect_area_pin pins[4];

    simple();
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(au_build(area, maps[1], 40000, 1, 20 + i), APR_SUCCESS);
        ck_assert(redirect_area_pin_get(area, maps[1], &pins[i]));
    }
    for (uint32_t i = 0; i < 4; i++)
        redirect_area_unpin(area, &pins[i]);
}

/* So much of it that there is no room before it is given back. */
static void with_much_garbage(void)
{
    redirect_area_pin pins[2];

    simple();
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(au_build(area, maps[1], BIG, 1, 20 + i), APR_SUCCESS);
        ck_assert(redirect_area_pin_get(area, maps[1], &pins[i]));
    }
    ck_assert_int_eq(au_build(area, maps[1], 100, 1, 30), APR_SUCCESS);
    for (uint32_t i = 0; i < 2; i++)
        redirect_area_unpin(area, &pins[i]);
}

static void with_old_map(void)
{
    redirect_area_key key = au_key(50);

    simple();
    gone_map = redirect_area_map(area, &key, OTHER_TIME, true);
    ck_assert_int_eq(au_build(area, gone_map, 40000, 50, 3), APR_SUCCESS);
    redirect_area_count(area, gone_map, 5, 5);
}

static void with_forgotten_map(void)
{
    with_old_map();
    redirect_area_collect(area, 1);
}

/* One owner has all the places that owners may have. */
static void with_many_owned(void)
{
    simple();
    for (uint64_t i = 0; i < REDIRECT_AREA_MAPS / 4 * 3; i++) {
        redirect_area_key key = au_key(1000 + i);

        redirect_area_map_of(area, &key, OTHER_TIME, 5);
    }
}

/* And one all the memory that it may have. */
static void with_much_owned(void)
{
    simple();
    for (uint64_t i = 0; i < 8; i++) {
        redirect_area_key key = au_key(1000 + i);
        uint32_t map = redirect_area_map_of(area, &key, OTHER_TIME, 5);

        ck_assert_int_eq(au_build(area, map, OWN_BYTES / 8, 1000 + i, i), APR_SUCCESS);
    }
}

static void create_owned(void)
{
    redirect_area_key key = au_key(900);

    redirect_area_map_of(area, &key, OTHER_TIME, 6);
}

static void build_owned(void)
{
    redirect_area_key key = au_key(900);

    au_build(area, redirect_area_map_of(area, &key, OTHER_TIME, 5), OWN_BYTES / 4, 900, 1);
}

static void join(void)
{
    redirect_area_join(area, 1);
}

static void do_nothing(void)
{
}

static void create_map(void)
{
    redirect_area_key key = au_key(60);

    redirect_area_map(area, &key, OTHER_TIME, true);
}

static void mark_map(void)
{
    redirect_area_key key = au_key(1);

    redirect_area_map(area, &key, 3, false);
}

static void build_new(void)
{
    au_build(area, maps[2], 5000, 2, 40);
}

static void build_over_pinned(void)
{
    au_build(area, maps[0], 60000, 0, 41);
}

static void build_over_unpinned(void)
{
    au_build(area, maps[1], 60000, 1, 42);
}

static void build_big(void)
{
    au_build(area, maps[0], BIG, 0, 43);
}

static void build_too_big(void)
{
    au_build(area, maps[0], AREA_BYTES - 4096, 0, 44);
}

static void build_in_vain(void)
{
    htc_identity id = au_identity(45);
    void *image;

    redirect_area_build_begin(area, maps[0]);
    redirect_area_reserve(area, maps[0], 1000, 0, &image);
    redirect_area_reserve(area, maps[0], 2000, 0, &image);
    redirect_area_build_failed(area, maps[0], &id);
}

static void collect(void)
{
    redirect_area_collect(area, 1);
}

static void pin_and_count(void)
{
    redirect_area_pin pin;

    ck_assert(redirect_area_pin_get(area, maps[0], &pin));
    redirect_area_unpin(area, &pin);
    redirect_area_count(area, maps[0], 1, 1);
    if (redirect_area_claim(area, maps[0], 1000, 10, 5))
        redirect_area_confirm(area, maps[0], 1000);
}

/* Pins that nobody had, one that was another map's, and one that was this one's. */
static void hold_and_count(void)
{
    for (int i = 0; i < 3; i++) {
        au_held h = {.number = 0};

        ck_assert(redirect_area_pin_get(area, maps[0], &h.pin));
        if (!au_hold(area, maps[0], &h, 7))
            abort();
        redirect_area_count_held(h.thread_pin, 1, 1);
        redirect_area_let_go(area, &h.pin, h.thread_pin);
    }
}

static void hold_gone(void)
{
    redirect_area_pin pin;

    for (uint64_t thread = 0; thread < 10; thread++) {
        if (!redirect_area_pin_get(area, gone_map, &pin) ||
            !redirect_area_hold(area, gone_map, &pin, thread))
            abort();
    }
}

/* A process died that had held the old map's image. */
static void after_dead_holder(void)
{
    with_old_map();
    in_child(hold_gone);
}

static void after_dead_holder_of_nothing(void)
{
    after_dead_holder();
    redirect_area_collect(area, 1);
}

static const struct scene {
    const char *name;
    void (*prepare)(void);
    void (*before)(void); /* the child, before it can be killed */
    void (*act)(void);    /* while it can be killed after each store */
} scenes[] = {
    {"join", simple, do_nothing, join},
    {"join in place of a dead process", after_dead_pinner, do_nothing, join},
    {"create a map", simple, join, create_map},
    {"create a map where one was", with_forgotten_map, join, create_map},
    {"mark a map as used", simple, join, mark_map},
    {"build the first image", simple, join, build_new},
    {"build over a pinned image", simple, join, build_over_pinned},
    {"build over an image that is not pinned", simple, join, build_over_unpinned},
    {"build after somebody died over it", after_dead_builder, join, build_over_pinned},
    {"build with garbage about", with_garbage, join, build_over_pinned},
    {"build when there is only garbage left", with_much_garbage, join, build_big},
    {"build what does not fit", simple, join, build_too_big},
    {"build in vain", simple, join, build_in_vain},
    {"collect garbage", with_garbage, join, collect},
    {"collect what a dead builder left", after_dead_builder, join, collect},
    {"forget a map", with_old_map, join, collect},
    {"pin and count", simple, join, pin_and_count},
    {"have a map make way", with_many_owned, join, create_owned},
    {"have images make way", with_much_owned, join, build_owned},
    {"hold and count", simple, join, hold_and_count},
    {"hold and count after a dead process", after_dead_holder_of_nothing, join, hold_and_count},
    {"join in place of a dead process that held", after_dead_holder, do_nothing, join},
    {"forget a map that a dead process held", after_dead_holder, join, collect},
};

#define SCENES ((int)(sizeof(scenes) / sizeof(scenes[0])))

/* True when the child was killed, false when it got through. */
static bool killed_at(void (*before)(void), void (*act)(void), long n)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        before();
        countdown = n;
        act();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        ck_assert_int_eq(WTERMSIG(status), SIGKILL);
        return true;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    return false;
}

/* Nobody has taken the lock since: what can be read is right. */
static void check_readers(void)
{
    assert_held(&first);
    for (uint32_t i = 0; i < 3; i++) {
        au_held h = {.number = i};
        const char *wrong;

        if (!redirect_area_pin_get(area, maps[i], &h.pin)) {
            ck_assert_uint_eq(i, 2);
            continue;
        }
        wrong = au_wrong(h.pin.image, h.pin.size, i, &h.build);
        ck_assert_msg(!wrong, "%s", wrong);
        wrong = au_state_wrong(area, maps[i], &h);
        ck_assert_msg(!wrong, "%s", wrong);
        let_go(&h);
    }
}

/* Everything can be built, in as much room as before, and when the pin is gone, so is all garbage.
 */
static void check_writers(void)
{
    for (uint32_t i = 0; i < MAPS; i++)
        ck_assert_int_eq(au_build(area, maps[i], 20000 + i, i, 70 + i), APR_SUCCESS);
    ck_assert_int_eq(au_build(area, maps[3], BIG, 3, 80), APR_SUCCESS);
    ck_assert_int_eq(au_build(area, maps[3], BIG, 3, 81), APR_SUCCESS);
    check_readers();
    in_child(pin_all);
    let_go(&first);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, maps, MAPS);
}

START_TEST(killed_after_every_store)
{
    const struct scene *scene = &scenes[_i];
    bool killed = true;
    long n = 1;

    area = NULL;
    for (; killed; n++) {
        scene->prepare();
        killed = killed_at(scene->before, scene->act, n);
        check_readers();
        check_writers();
    }
    ck_assert_msg(n > 3, "%s went through after %ld stores", scene->name, n);
    teardown();
}
END_TEST

/* Who comes after the dead one is killed as well, and only the third gets through. */
START_TEST(killed_one_after_the_other)
{
    const struct scene *scene = &scenes[_i];

    area = NULL;
    for (long n = 1, killed = true; killed; n += 3) {
        scene->prepare();
        killed = killed_at(scene->before, scene->act, n);
        for (long m = 2; m < 60 && killed; m += 11)
            killed_at(join, build_over_pinned, m + n % 11);
        check_readers();
        check_writers();
    }
    teardown();
}
END_TEST
int main(void)
{
    Suite *s = suite_create("redirect_area_crash");
    TCase *crash = tcase_create("crash"), *moment = tcase_create("moment");

    tcase_add_checked_fixture(moment, setup, teardown);
    tcase_add_loop_test(moment, published_while_pinning, 0,
                        (int)(sizeof(moments) / sizeof(moments[0])));
    tcase_add_loop_test(moment, forgotten_while_pinning, 1, 3);
    tcase_add_loop_test(moment, published_while_holding, 0, 6);
    tcase_add_test(moment, published_while_reading);
    suite_add_tcase(s, moment);
    tcase_set_timeout(crash, 300);
    tcase_add_loop_test(crash, killed_after_every_store, 0, SCENES);
    tcase_add_loop_test(crash, killed_one_after_the_other, 0, SCENES);
    suite_add_tcase(s, crash);
    return run_suite(s);
}
