/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area_fixture.h
 * Shared by the unit tests of the area for table images: one small area for each test, what is done
 * with it all the time, and children.
 */
#ifndef AREA_FIXTURE_H
#define AREA_FIXTURE_H

#include "area_util.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEGABYTE (UINT64_C(1) << 20)
#define ROOM     (4 * MEGABYTE)

static apr_pool_t *pool;
static redirect_area *area;
static const htc_identity some_id = {.dev = 1, .ino = 2, .size = 3, .mtime_ns = -4, .gid = 5};

static inline void setup(void)
{
    pool = au_pool();
    area = au_create(pool, ROOM);
    redirect_area_join(area, 1);
}

static inline void teardown(void)
{
    apr_pool_destroy(pool);
}

static inline uint32_t map_of(uint64_t number, uint32_t generation, bool create)
{
    redirect_area_key key = au_key(number);

    return redirect_area_map(area, &key, generation, create);
}

static inline uint32_t new_map(uint64_t number)
{
    uint32_t map = map_of(number, 1, true);

    ck_assert_uint_ne(map, REDIRECT_AREA_NIL);
    return map;
}

static inline void build_ok(uint32_t map, size_t size, uint64_t number, uint64_t build)
{
    ck_assert_int_eq(au_build(area, map, size, number, build), APR_SUCCESS);
}

static inline redirect_area_pin pin_ok(uint32_t map)
{
    redirect_area_pin pin;

    ck_assert(redirect_area_pin_get(area, map, &pin));
    return pin;
}

static inline void assert_image(const redirect_area_pin *pin, uint64_t number, uint64_t build)
{
    uint64_t seen;
    const char *wrong = au_wrong(pin->image, pin->size, number, &seen);

    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_uint_eq(seen, build);
    ck_assert_uint_eq((uintptr_t)pin->image % 4096, 0);
}

static inline redirect_area_stats stats(void)
{
    redirect_area_stats found;

    redirect_area_stats_get(area, &found);
    return found;
}

static inline redirect_area_state state_ok(uint32_t map)
{
    redirect_area_state state;

    ck_assert(redirect_area_state_get(area, map, &state));
    return state;
}

/* --- children ---------------------------------------------------------------------------------*/

/* A child that does something, then stops until it is ended. */
static inline pid_t child_with(void (*act)(void))
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        act();
        raise(SIGSTOP);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, WUNTRACED), child);
    ck_assert(WIFSTOPPED(status));
    return child;
}

static inline void end_child(pid_t child)
{
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* A child whose exit status says what was found. */
static inline int ask_child(int (*act)(void))
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0)
        _exit(act());
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline void join_2(void)
{
    redirect_area_join(area, 2);
}

static inline TCase *add_case(Suite *s, const char *name)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    suite_add_tcase(s, tc);
    return tc;
}

static inline int run(Suite *s)
{
    SRunner *runner = srunner_create(s);
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
