/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of farm/census.c, with processes that live and such that were killed. Run by
 * 'make check'.
 */
#include "farm/census.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static htc_census *census;

static void setup(void)
{
    census = mmap(NULL, sizeof(*census), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(census != MAP_FAILED);
}

static void teardown(void)
{
    munmap(census, sizeof(*census));
}

/* A process that has n open and waits to be killed. */
static pid_t process_with(int32_t n)
{
    int ready[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        atomic_fetch_add(htc_census_join(census, (int32_t)getpid()), n);
        ck_assert_int_eq(write(ready[1], "x", 1), 1);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

START_TEST(sums_up_those_that_live)
{
    uint64_t most;
    pid_t a, b;

    ck_assert_uint_eq(htc_census_sum(census, &most), 0);
    ck_assert_uint_eq(most, 0);
    a = process_with(3);
    b = process_with(5);
    ck_assert_uint_eq(htc_census_sum(census, &most), 8);
    ck_assert_uint_eq(most, 5);
    end(b);
    ck_assert_uint_eq(htc_census_sum(census, &most), 3);
    ck_assert_uint_eq(most, 3);
    end(a);
    ck_assert_uint_eq(htc_census_sum(census, &most), 0);
}
END_TEST

START_TEST(seats_of_the_dead_are_taken_again)
{
    uint64_t most;
    pid_t alive = process_with(1);

    for (int i = 0; i < 20; i++)
        end(process_with(7));
    ck_assert_int_eq(census->seat[2].pid, 0);
    ck_assert_uint_eq(htc_census_sum(census, &most), 1);
    end(alive);
}
END_TEST

START_TEST(full)
{
    const int32_t me = (int32_t)getpid(), parent = (int32_t)getppid();
    _Atomic int32_t *mine;
    uint64_t most;

    for (unsigned i = 0; i < HTC_CENSUS_SEATS; i++)
        census->seat[i].pid = parent;
    ck_assert_ptr_null(htc_census_join(census, me));
    census->seat[9].pid = me;
    census->seat[9].n = 4;
    /* The seat of an earlier process of that number. */
    mine = htc_census_join(census, me);
    ck_assert_ptr_eq(mine, &census->seat[9].n);
    ck_assert_uint_eq(htc_census_sum(census, &most), 0);
    *mine = -1; /* nonsense does no harm */
    ck_assert_uint_eq(htc_census_sum(census, &most), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("census");
    TCase *tc = tcase_create("census");
    SRunner *runner = srunner_create(s);
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, sums_up_those_that_live);
    tcase_add_test(tc, seats_of_the_dead_are_taken_again);
    tcase_add_test(tc, full);
    suite_add_tcase(s, tc);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
