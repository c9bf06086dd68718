/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of how the area for table images knows who lives: the kernel says so, of processes
 * that are gone, that nobody has waited for, that go on in another thread, in another program or in
 * a child; and nothing of /proc is opened for it. Run by 'make check'.
 */
#include "area_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>

static unsigned proc_opens;

/* Instead of the C library's. */
int open(const char *path, int flags, ...)
{
    va_list args;
    int mode;

    va_start(args, flags);
    mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    proc_opens += !strncmp(path, "/proc/", 6);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static void begin_build(void)
{
    void *image;

    redirect_area_join(area, 1);
    if (!redirect_area_build_begin(area, map_of(1, 1, true)) ||
        redirect_area_reserve(area, map_of(1, 1, true), 9000, 0, &image) != APR_SUCCESS)
        abort();
}

static void pin_and_build(void)
{
    redirect_area_pin pin;

    begin_build();
    if (!redirect_area_pin_get(area, map_of(1, 1, false), &pin))
        abort();
}

/* A map with an image that a child has pinned, while it builds the next one. */
static uint32_t used_map(void)
{
    uint32_t map = new_map(1);

    build_ok(map, 8000, 1, 1);
    return map;
}

static void assert_alive(uint32_t map)
{
    ck_assert(state_ok(map).building);
    ck_assert(!redirect_area_build_begin(area, map));
    redirect_area_collect(area, 1);
    ck_assert_uint_eq(stats().images, 2);
}

/* The build is over, and another one is not hindered; nothing is pinned any more. */
static void assert_dead(uint32_t map)
{
    ck_assert(!state_ok(map).building);
    build_ok(map, 7000, 1, 2);
    redirect_area_collect(area, 1);
    au_assert_at_rest(area, &map, 1);
}

/* --- what the end of a process is -------------------------------------------------------------*/

START_TEST(killed)
{
    uint32_t map = used_map();
    pid_t child = child_with(pin_and_build);

    assert_alive(map);
    end_child(child);
    assert_dead(map);
}
END_TEST

START_TEST(killed_and_not_waited_for)
{
    uint32_t map = used_map();
    pid_t child = child_with(pin_and_build);
    siginfo_t info;

    kill(child, SIGKILL);
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_dead(map);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

static void *stop_here(void *data)
{
    (void)data;
    for (;;)
        pause();
    return NULL;
}

/* The first thread ends, another one goes on. */
START_TEST(first_thread_has_ended)
{
    uint32_t map = used_map();
    int ready[2];
    char byte;
    pid_t child;

    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pthread_t thread;

        pin_and_build();
        if (pthread_create(&thread, NULL, stop_here, NULL) != 0 || write(ready[1], "1", 1) != 1)
            abort();
        pthread_exit(NULL);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    assert_alive(map);
    end_child(child);
    assert_dead(map);
}
END_TEST

/* A script that a process has started, or what it became itself, is not this process. */
START_TEST(child_of_the_dead_goes_on)
{
    uint32_t map = used_map();
    int orphan[2];
    pid_t child, grandchild;

    ck_assert_int_eq(pipe(orphan), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pin_and_build();
        grandchild = fork();
        if (grandchild == 0)
            stop_here(NULL);
        _exit(write(orphan[1], &grandchild, sizeof(grandchild)) != sizeof(grandchild));
    }
    ck_assert_int_eq(read(orphan[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    assert_dead(map);
    kill(grandchild, SIGKILL);
}
END_TEST

START_TEST(another_program)
{
    uint32_t map = used_map();
    pid_t child;
    int out[2];
    char byte;

    ck_assert_int_eq(pipe(out), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pin_and_build();
        dup2(out[1], 1);
        execlp("sh", "sh", "-c", "echo; exec sleep 600", NULL);
        _exit(1);
    }
    ck_assert_int_eq(read(out[0], &byte, 1), 1);
    assert_dead(map);
    end_child(child);
}
END_TEST

/* A child that has joined itself, forked by one that had. */
static void join_again_and_build(void)
{
    redirect_area_join(area, 1);
    if (fork() != 0)
        _exit(0);
    begin_build();
}

START_TEST(forked_children_have_lives_of_their_own)
{
    uint32_t map = used_map();
    int ready[2];
    pid_t child, grandchild = 0;

    ck_assert_int_eq(pipe(ready), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pid_t self;

        join_again_and_build();
        self = getpid();
        if (write(ready[1], &self, sizeof(self)) != sizeof(self))
            abort();
        stop_here(NULL);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    ck_assert_int_eq(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_alive(map);
    kill(grandchild, SIGKILL);
    for (int i = 0; i < 1000 && state_ok(map).building; i++)
        usleep(10000);
    assert_dead(map);
}
END_TEST

/* --- what is asked for it ---------------------------------------------------------------------*/

static void hold_and_die(void)
{
    redirect_area_pin pin;

    redirect_area_join(area, 1);
    if (!redirect_area_pin_get(area, map_of(1, 1, false), &pin) ||
        !redirect_area_hold(area, map_of(1, 1, false), &pin, 3))
        abort();
    raise(SIGKILL);
}

static void leave_a_dead_one(void)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0)
        hold_and_die();
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* Whatever asks who lives: joining, builds, room for more, giving back, forgetting, the state. */
START_TEST(nothing_of_proc_is_opened)
{
    uint32_t map = used_map(), others;
    pid_t living = child_with(pin_and_build);

    leave_a_dead_one();
    proc_opens = 0;
    redirect_area_join(area, 1);
    assert_alive(map);
    ck_assert_int_eq(au_build(area, map, 9000, 1, 2), APR_EBUSY);
    for (uint64_t i = 0; i < 5000; i++) {
        redirect_area_key key = au_key(i + 10);

        others = redirect_area_map_of(area, &key, 1, 7);
        ck_assert_uint_ne(others, REDIRECT_AREA_NIL);
    }
    redirect_area_sweep(area);
    ck_assert_uint_eq(proc_opens, 0);
    end_child(living);
}
END_TEST

/* By who joins, a child. */
static int join_counted(void)
{
    proc_opens = 0;
    redirect_area_join(area, 1);
    return proc_opens != 0;
}

START_TEST(joining_opens_nothing_of_proc)
{
    used_map();
    leave_a_dead_one();
    ck_assert_int_eq(ask_child(join_counted), 0);
    for (uint32_t i = 1; i < RDA_COMMON; i++)
        area->processes[i].serial = 1000 * REDIRECT_AREA_PROCESSES + i;
    area->header->processes_end = RDA_COMMON;
    ck_assert_int_eq(ask_child(join_counted), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("redirect_area_lives");
    TCase *ends = add_case(s, "ends"), *asked = add_case(s, "asked");

    tcase_add_test(ends, killed);
    tcase_add_test(ends, killed_and_not_waited_for);
    tcase_add_test(ends, first_thread_has_ended);
    tcase_add_test(ends, child_of_the_dead_goes_on);
    tcase_add_test(ends, another_program);
    tcase_add_test(ends, forked_children_have_lives_of_their_own);
    tcase_add_test(asked, nothing_of_proc_is_opened);
    tcase_add_test(asked, joining_opens_nothing_of_proc);
    return run(s);
}
