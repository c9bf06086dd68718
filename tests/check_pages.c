/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of base/pages.c: memory for a moment is zeroed and all gone afterwards, with nothing
 * beside it; shared memory is seen by children; what is laid in large pages stays what it was; what
 * was met costs no fault; a hole has one page. Run by 'make check'.
 */
#include "pool_fixture.h"
#include "suite_util.h"
#include "base/pages.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define MIB  ((size_t)1 << 20)

/* Is anything mapped there? */
static bool is_mapped(const char *at)
{
    unsigned char in_memory;

    return mincore((void *)((uintptr_t)at / PAGE * PAGE), PAGE, &in_memory) == 0;
}

static bool is_all(const char *at, size_t bytes, char value)
{
    for (size_t i = 0; i < bytes; i++) {
        if (at[i] != value)
            return false;
    }
    return true;
}

/* What is given back in pieces has more than one from 4 MiB on. */
static const size_t sizes[] = {1,       PAGE - 1,    PAGE,    PAGE + 1,           4 * MIB - 1,
                               4 * MIB, 4 * MIB + 1, 8 * MIB, 8 * MIB + PAGE + 1, 33 * MIB};

START_TEST(taken_is_zeroed_and_given_back_is_gone)
{
    size_t bytes = sizes[_i];

    for (int time = 0; time < 3; time++) {
        char *at = htc_pages_take(bytes);

        ck_assert_ptr_nonnull(at);
        ck_assert_uint_eq((uintptr_t)at % PAGE, 0);
        ck_assert(is_all(at, bytes, 0));
        memset(at, 'x', bytes);
        htc_pages_give(at, bytes);
        for (size_t i = 0; i < bytes; i += PAGE)
            ck_assert(!is_mapped(at + i));
        ck_assert(!is_mapped(at + bytes - 1));
    }
}
END_TEST

START_TEST(neighbours_stay)
{
    size_t bytes = sizes[_i], pages = (bytes + PAGE - 1) / PAGE * PAGE;
    char *around =
        mmap(NULL, pages + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    ck_assert_ptr_ne(around, MAP_FAILED);
    memset(around, 'a', PAGE);
    memset(around + PAGE + pages, 'b', PAGE);
    htc_pages_give(around + PAGE, bytes);
    ck_assert(is_all(around, PAGE, 'a'));
    ck_assert(is_all(around + PAGE + pages, PAGE, 'b'));
    ck_assert(!is_mapped(around + PAGE));
    ck_assert(!is_mapped(around + pages));
    munmap(around, PAGE);
    munmap(around + PAGE + pages, PAGE);
}
END_TEST

START_TEST(nothing_is_given_back)
{
    htc_pages_give(NULL, 0);
    htc_pages_give(NULL, 100 * MIB);
}
END_TEST

START_TEST(more_than_there_is)
{
    ck_assert_ptr_null(htc_pages_take(SIZE_MAX / 4 * 3));
}
END_TEST

START_TEST(children_share)
{
    void *at;
    int status;
    pid_t child;

    ck_assert_int_eq(htc_pages_share(&at, 3 * PAGE, pool), APR_SUCCESS);
    ck_assert(is_all(at, 3 * PAGE, 0));
    child = fork();
    if (!child) {
        memset(at, 'c', 3 * PAGE);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(is_all(at, 3 * PAGE, 'c'));
    apr_pool_clear(pool);
    ck_assert(!is_mapped(at));
}
END_TEST

/* Nothing but what was asked for is mapped, also at its ends. */
START_TEST(mapped_at_a_large_page)
{
    size_t bytes = sizes[_i], whole = (bytes + PAGE - 1) / PAGE * PAGE;
    char *at = htc_pages_map(bytes, PROT_READ | PROT_WRITE, -1);

    ck_assert_ptr_nonnull(at);
    ck_assert_uint_eq((uintptr_t)at % HTC_LARGE_PAGE, 0);
    ck_assert(is_all(at, bytes, 0));
    munmap(at, whole);
    ck_assert(!is_mapped(at));
    ck_assert(!is_mapped(at + whole - PAGE));
    at = htc_pages_map(bytes, PROT_READ, -1);
    ck_assert_ptr_nonnull(at);
    munmap(at, whole);
}
END_TEST

START_TEST(nothing_is_left_where_it_cannot_be_mapped)
{
    char *at;

    errno = 0;
    ck_assert_ptr_null(htc_pages_map(4 * MIB, PROT_READ, 12345));
    ck_assert_int_eq(errno, EBADF);
    ck_assert_ptr_null(htc_pages_map(SIZE_MAX / 4 * 3, PROT_READ, -1));
    at = htc_pages_map(4 * MIB, PROT_READ, -1);
    ck_assert_ptr_nonnull(at);
    munmap(at, 4 * MIB);
}
END_TEST

/* As the builder fills the heap, which others have mapped to read it. */
START_TEST(a_reader_sees_what_is_enlarged)
{
    size_t bytes = 3 * HTC_LARGE_PAGE;
    int fd = htc_pages_file("check_pages"), ends[2], status;
    const char *reader;
    char *writer, go;
    pid_t child;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
    ck_assert_int_eq(pipe(ends), 0);
    reader = htc_pages_map(bytes, PROT_READ, fd);
    writer = htc_pages_map(bytes, PROT_READ | PROT_WRITE, fd);
    ck_assert_ptr_nonnull(reader);
    ck_assert_ptr_nonnull(writer);
    memset(writer, 'w', bytes);
    ck_assert(is_all(reader, bytes, 'w'));
    child = fork();
    if (!child)
        _exit(read(ends[0], &go, 1) == 1 && is_all(reader, bytes - 1, 'w') &&
                      reader[bytes - 1] == 'x'
                  ? 0
                  : 1);
    htc_pages_enlarge(writer, bytes);
    writer[bytes - 1] = 'x';
    ck_assert_int_eq(write(ends[1], "", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(is_all(reader, bytes - 1, 'w'));
    munmap(writer, bytes);
    munmap((void *)(uintptr_t)reader, bytes);
    close(fd);
}
END_TEST

START_TEST(what_is_enlarged_stays)
{
    size_t bytes = 5 * HTC_LARGE_PAGE + 3;
    void *shared;
    char *own = htc_pages_take(bytes);

    ck_assert_int_eq(htc_pages_share(&shared, bytes, pool), APR_SUCCESS);
    ck_assert_ptr_nonnull(own);
    memset(own, 'o', bytes);
    memset(shared, 's', bytes);
    htc_pages_enlarge(own, bytes);
    htc_pages_enlarge(shared, bytes);
    htc_pages_enlarge(own + 1, 1); /* without a whole one */
    ck_assert(is_all(own, bytes, 'o'));
    ck_assert(is_all(shared, bytes, 's'));
    htc_pages_give(own, bytes);
}
END_TEST

static long faults(void)
{
    struct rusage used;

    ck_assert_int_eq(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_minflt;
}

/* A fork meets no fault where it was, and many where it was not. */
START_TEST(what_was_met_costs_no_fault)
{
    const size_t bytes = 2 * HTC_LARGE_PAGE, page = (size_t)sysconf(_SC_PAGESIZE);
    char *at = htc_pages_map(bytes, PROT_READ | PROT_WRITE, -1);
    pid_t pid;
    int status;

    ck_assert_ptr_nonnull(at);
    memset(at, 1, bytes);
    if (madvise(at, page, 22 /* MADV_POPULATE_READ */)) /* Linux before 5.14 */
        return;
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        long before;

        htc_pages_meet(at, bytes);
        before = faults();
        for (size_t i = 0; i < bytes; i += page)
            (void)*(volatile char *)(at + i);
        _exit(faults() - before < 8 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    munmap(at, bytes);
}
END_TEST

/* Of just one page: what lies beside it is mapped, and stays so. */
START_TEST(a_hole_is_one_page)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *hole = htc_pages_hole(), *other = htc_pages_hole();

    ck_assert_ptr_nonnull(hole);
    ck_assert_ptr_ne(hole, other);
    ck_assert(!is_mapped(hole));
    ck_assert(is_mapped(hole - page));
    ck_assert(is_mapped(hole + page));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pages");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, taken_is_zeroed_and_given_back_is_gone, 0,
                        sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_loop_test(tests, neighbours_stay, 0, sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_test(tests, nothing_is_given_back);
    tcase_add_test(tests, more_than_there_is);
    tcase_add_test(tests, children_share);
    tcase_add_loop_test(tests, mapped_at_a_large_page, 0, sizeof(sizes) / sizeof(sizes[0]));
    tcase_add_test(tests, nothing_is_left_where_it_cannot_be_mapped);
    tcase_add_test(tests, a_reader_sees_what_is_enlarged);
    tcase_add_test(tests, what_is_enlarged_stays);
    tcase_add_test(tests, what_was_met_costs_no_fault);
    tcase_add_test(tests, a_hole_is_one_page);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
