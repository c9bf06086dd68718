/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of area/counts_file.c: what is written is read again; a write that is cut off at any
 * byte leaves one whole state; a file that is cut off, garbled or foreign gives one of the states
 * that were written, or a sentence; files that are not to be trusted are refused. Run by
 * 'make check'.
 */
#include "suite_util.h"
#include "area/counts_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NOW        1800000000
#define HEAD_BYTES 72
#define BLOCK      4096

static apr_pool_t *pool;
static char dir[] = "/tmp/check_counts_file.XXXXXX";
static const char *path;

/* --- a disk that stops ------------------------------------------------------------------------*/

static long budget = -1; /* bytes that may still be written; -1: any number */
static char order[64];   /* what was done: w, s */

#if _FILE_OFFSET_BITS + 0 == 64 /* with 32 bits it has another name in the C library */
#define __real_pwrite __real_pwrite64
#define __wrap_pwrite __wrap_pwrite64
#endif
ssize_t __real_pwrite(int fd, const void *from, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at);
int __wrap_fdatasync(int fd);

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at)
{
    ssize_t n;

    if (budget >= 0 && len > (size_t)budget)
        len = (size_t)budget;
    if (budget == 0) {
        errno = ENOSPC;
        return -1;
    }
    n = __real_pwrite(fd, from, len, at);
    if (budget > 0)
        budget -= n;
    strcat(order, "w");
    return n;
}

int __wrap_fdatasync(int fd)
{
    (void)fd; /* a disk that is waited for would only take time */
    strcat(order, "s");
    return 0;
}

/* --- what is used below -----------------------------------------------------------------------*/

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    path = apr_pstrcat(pool, dir, "/counts", NULL);
    budget = -1;
    *order = '\0';
}

static void teardown(void)
{
    (void)!system(apr_pstrcat(pool, "rm -rf ", dir, NULL));
    apr_pool_destroy(pool);
    apr_terminate();
}

static redirect_counts sample(uint64_t groups, uint64_t pairs, uint64_t seed)
{
    redirect_counts counts = {.since = NOW - (int64_t)seed};

    for (uint64_t i = 1; i <= groups; i++) {
        redirect_counts_begin(&counts, (uint64_t[]){i, seed});
        for (uint64_t j = 1; j <= pairs; j++)
            redirect_counts_add(&counts, i * 1000 + j, j + seed);
        redirect_counts_end(&counts);
    }
    ck_assert(!counts.too_much);
    return counts;
}

static redirect_counts_file open_file(void)
{
    redirect_counts_file file;
    const char *why = redirect_counts_file_open(&file, path, pool);

    ck_assert_msg(!why, "%s", why);
    return file;
}

/* The state that the file has; why, or NULL. */
static const char *read_counts(redirect_counts *counts)
{
    redirect_counts_file file = open_file();
    const char *why = redirect_counts_file_read(&file, counts, pool);

    redirect_counts_file_close(&file);
    return why;
}

static apr_status_t write_counts(const redirect_counts *counts)
{
    redirect_counts_file file = open_file();
    redirect_counts before = {0};
    apr_status_t rv;

    ck_assert_ptr_null(redirect_counts_file_read(&file, &before, pool));
    redirect_counts_clear(&before);
    *order = '\0';
    rv = redirect_counts_file_write(&file, counts, NOW);
    redirect_counts_file_close(&file);
    return rv;
}

static size_t load(char **bytes)
{
    struct stat st;
    int fd = open(path, O_RDONLY);

    ck_assert_int_eq(fstat(fd, &st), 0);
    *bytes = malloc((size_t)st.st_size + 1);
    ck_assert_int_eq(read(fd, *bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    return (size_t)st.st_size;
}

static void store(const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    close(fd);
}

/* --- states -----------------------------------------------------------------------------------*/

START_TEST(what_is_written_is_read_again)
{
    redirect_counts none = {0}, counts = sample(3, 5, 7), got = {0};
    redirect_counts_group group;
    size_t place = 0;

    ck_assert_ptr_null(read_counts(&got));
    ck_assert(redirect_counts_equal(&got, &none));
    ck_assert_int_eq(got.written, 0);
    ck_assert_int_eq(write_counts(&counts), APR_SUCCESS);
    ck_assert_str_eq(order, "wsws");
    ck_assert_ptr_null(read_counts(&got));
    ck_assert(redirect_counts_equal(&got, &counts));
    ck_assert_int_eq(got.written, NOW);
    for (uint64_t i = 1; i <= 3; i++) {
        ck_assert(redirect_counts_next(&got, &place, &group));
        ck_assert_uint_eq(group.key[0], i);
        ck_assert_uint_eq(group.n, 5);
        ck_assert_uint_eq(group.pairs[4].key, i * 1000 + 5);
        ck_assert_uint_eq(group.pairs[4].word, 12);
    }
    ck_assert(!redirect_counts_next(&got, &place, &group));
    ck_assert(redirect_counts_find(&got, (uint64_t[]){2, 7}, &group));
    ck_assert(!redirect_counts_find(&got, (uint64_t[]){2, 8}, &group));
    redirect_counts_clear(&got);
    redirect_counts_clear(&counts);
}
END_TEST

START_TEST(groups_and_counts_of_nothing_take_no_room)
{
    redirect_counts counts = {0};

    redirect_counts_begin(&counts, (uint64_t[]){1, 2});
    redirect_counts_add(&counts, 5, 0);
    redirect_counts_end(&counts);
    ck_assert_uint_eq(counts.n, 0);
    redirect_counts_clear(&counts);
}
END_TEST

START_TEST(no_more_is_kept_than_a_file_may_hold)
{
    redirect_counts counts = {0};

    redirect_counts_begin(&counts, (uint64_t[]){1, 2});
    for (uint64_t i = 0; i <= REDIRECT_COUNTS_MOST / 16; i++)
        redirect_counts_add(&counts, i, 1);
    redirect_counts_end(&counts);
    ck_assert(counts.too_much);
    ck_assert_uint_le(counts.n * 8, REDIRECT_COUNTS_MOST);
    redirect_counts_clear(&counts);
}
END_TEST

/* States that grow and shrink lie where they must not, unless their places are right. */
START_TEST(many_writes_keep_the_file_small)
{
    redirect_counts got = {0};
    struct stat st;

    for (uint64_t i = 1; i <= 60; i++) {
        redirect_counts counts = sample(1, i % 7 * 300 + 1, i);

        ck_assert_int_eq(write_counts(&counts), APR_SUCCESS);
        ck_assert_ptr_null(read_counts(&got));
        ck_assert(redirect_counts_equal(&got, &counts));
        redirect_counts_clear(&counts);
    }
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_lt(st.st_size, 2 * BLOCK + 3 * 9 * BLOCK);
    for (uint64_t i = 1; i <= 3; i++) {
        redirect_counts counts = sample(1, 1, i);

        ck_assert_int_eq(write_counts(&counts), APR_SUCCESS);
        redirect_counts_clear(&counts);
    }
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_le(st.st_size, 4 * BLOCK);
    redirect_counts_clear(&got);
}
END_TEST

/* Two states, of which the second is larger, or smaller, or ends in the middle of the first. */
static void cut_off_everywhere(const redirect_counts *first, const redirect_counts *second)
{
    char *before;
    size_t len, whole = 0;
    redirect_counts got = {0};

    unlink(path);
    ck_assert_int_eq(write_counts(second), APR_SUCCESS);
    ck_assert_int_eq(write_counts(first), APR_SUCCESS);
    len = load(&before);
    for (long n = 0; !whole; n++) {
        bool done;

        store(before, len);
        budget = n;
        done = write_counts(second) == APR_SUCCESS;
        budget = -1;
        ck_assert_ptr_null(read_counts(&got));
        ck_assert_msg(redirect_counts_equal(&got, done ? second : first), "cut off at byte %ld", n);
        ck_assert_int_eq(write_counts(second), APR_SUCCESS);
        ck_assert_ptr_null(read_counts(&got));
        ck_assert(redirect_counts_equal(&got, second));
        whole = done ? (size_t)n : 0;
    }
    ck_assert_uint_eq(whole, second->n * 8 + HEAD_BYTES);
    redirect_counts_clear(&got);
    free(before);
}

START_TEST(a_write_that_is_cut_off_leaves_the_state_of_before)
{
    redirect_counts small = sample(1, 3, 1), large = sample(2, 20, 2), none = {.since = 9};

    cut_off_everywhere(&small, &large);
    cut_off_everywhere(&large, &small);
    cut_off_everywhere(&small, &none);
    cut_off_everywhere(&none, &small);
    redirect_counts_clear(&small);
    redirect_counts_clear(&large);
}
END_TEST

/* --- files that hold anything -----------------------------------------------------------------*/

/* The newest state is `second`; what comes out is one of the two, or none with a reason. */
static void check_either(const redirect_counts *first, const redirect_counts *second, bool newest)
{
    redirect_counts got = {0};
    const char *why = read_counts(&got);

    if (why)
        ck_assert_uint_eq(got.n, 0);
    else
        ck_assert(redirect_counts_equal(&got, second) ||
                  (!newest && redirect_counts_equal(&got, first)));
    redirect_counts_clear(&got);
}

START_TEST(a_file_of_any_length_is_read_safely)
{
    redirect_counts first = sample(1, 4, 1), second = sample(2, 9, 2);
    char *bytes;
    size_t len;

    write_counts(&first);
    write_counts(&second);
    len = load(&bytes);
    for (size_t n = 0; n <= len; n++) {
        store(bytes, n);
        check_either(&first, &second, n == len);
    }
    free(bytes);
    redirect_counts_clear(&first);
    redirect_counts_clear(&second);
}
END_TEST

START_TEST(each_garbled_byte_is_noticed)
{
    redirect_counts first = sample(1, 4, 1), second = sample(2, 9, 2);
    char *bytes;
    size_t len;

    write_counts(&first);
    write_counts(&second);
    len = load(&bytes);
    for (size_t n = 0; n < len; n++) {
        bytes[n] ^= (char)(1 << n % 8);
        store(bytes, len);
        check_either(&first, &second, false);
        bytes[n] ^= (char)(1 << n % 8);
    }
    free(bytes);
    redirect_counts_clear(&first);
    redirect_counts_clear(&second);
}
END_TEST

/* Words of the first head, with the right hash behind them. */
static void set_head(unsigned word, uint64_t value)
{
    char *bytes;
    size_t len = load(&bytes);

    for (unsigned i = 0; i < 2; i++) {
        uint64_t hash;

        memcpy(bytes + i * BLOCK + word * 8, &value, 8);
        hash = XXH3_64bits(bytes + i * BLOCK, HEAD_BYTES - 8);
        memcpy(bytes + i * BLOCK + HEAD_BYTES - 8, &hash, 8);
    }
    store(bytes, len);
    free(bytes);
}

START_TEST(heads_with_right_hashes_may_say_anything)
{
    static const uint64_t values[] = {0,
                                      1,
                                      7,
                                      4096,
                                      8191,
                                      8192,
                                      8193,
                                      8200,
                                      1 << 20,
                                      UINT64_C(1) << 32,
                                      UINT64_MAX,
                                      INT64_MAX,
                                      UINT64_MAX - 8191};
    redirect_counts counts = sample(2, 9, 2), got = {0};

    for (unsigned word = 1; word < 6; word++) {
        for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
            unlink(path);
            write_counts(&counts);
            set_head(word, values[i]);
            if (!read_counts(&got))
                ck_assert(got.n == counts.n || got.n == 0);
        }
    }
    redirect_counts_clear(&got);
    redirect_counts_clear(&counts);
}
END_TEST

START_TEST(groups_with_right_hashes_may_say_anything)
{
    static const uint64_t sizes[] = {8,
                                     10,
                                     1 << 20,
                                     UINT64_MAX,
                                     UINT64_MAX / 2,
                                     UINT64_MAX / 16,
                                     (UINT64_C(1) << 63) + 9}; /* 2 * that is 2 * 9 */

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        redirect_counts counts = sample(1, 9, 2), got = {0};

        counts.words[2] = sizes[i];
        unlink(path);
        ck_assert_int_eq(write_counts(&counts), APR_SUCCESS);
        ck_assert_ptr_null(read_counts(&got)); /* the state of before, which is empty */
        ck_assert_uint_eq(got.n, 0);
        redirect_counts_clear(&counts);
    }
}
END_TEST

START_TEST(foreign_files_are_named_and_left)
{
    redirect_counts got = {0}, counts = sample(1, 1, 1);

    store("", 0);
    ck_assert_str_eq(read_counts(&got), "it is not a file of counts");
    store("ServerName www.example.com\n", 27);
    ck_assert_str_eq(read_counts(&got), "it is not a file of counts");
    unlink(path);
    write_counts(&counts);
    set_head(1, UINT64_C(0x0002000001020304));
    ck_assert_ptr_nonnull(strstr(read_counts(&got), "another version"));
    unlink(path);
    write_counts(&counts);
    set_head(2, 0);
    ck_assert_str_eq(read_counts(&got), "it is damaged");
    redirect_counts_clear(&counts);
}
END_TEST

/* --- opening ----------------------------------------------------------------------------------*/

static void refused(const char *because)
{
    redirect_counts_file file;
    const char *why = redirect_counts_file_open(&file, path, pool);

    ck_assert_msg(why && strstr(why, because), "%s, not %s", why, because);
}

START_TEST(files_that_others_may_have_made_are_refused)
{
    redirect_counts_file file = open_file();
    const char *other = apr_pstrcat(pool, dir, "/other", NULL);
    struct stat st;

    ck_assert_int_eq(fstat(file.fd, &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0600);
    redirect_counts_file_close(&file);
    ck_assert_int_eq(chmod(path, 0640), 0);
    refused("chmod 600");
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(link(path, other), 0);
    refused("hard link");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(other, path), 0);
    refused("symbolic link");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("nowhere", path), 0);
    refused("symbolic link");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    refused("not a regular file");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    refused("cannot be opened");
    ck_assert_int_eq(rmdir(path), 0);
    path = apr_pstrcat(pool, dir, "/none/counts", NULL);
    refused("cannot be made");
}
END_TEST

START_TEST(files_of_another_user_are_refused)
{
    redirect_counts_file file = open_file();

    redirect_counts_file_close(&file);
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can give a file away\n");
        return;
    }
    ck_assert_int_eq(chown(path, 65534, 65534), 0);
    refused("must belong to the user that starts httpd (uid 0), not to uid 65534");
}
END_TEST

START_TEST(what_a_start_left_behind_is_replaced)
{
    redirect_counts got = {0};
    const char *left = apr_pstrcat(pool, path, ".new", NULL);

    ck_assert_int_eq(symlink(dir, left), 0);
    ck_assert_ptr_null(read_counts(&got));
    ck_assert_int_eq(access(left, F_OK), -1);
}
END_TEST

#define MAKERS 4

/* Servers that start at once have one file: one of them has the lock, and it is not taken away. */
START_TEST(a_file_is_made_by_one_of_many)
{
    for (int round = 0; round < 6; round++) {
        pid_t makers[MAKERS];
        int go[2], failed = 0;

        ck_assert_int_eq(pipe(go), 0);
        unlink(path);
        for (int i = 0; i < MAKERS; i++) {
            makers[i] = fork();
            if (!makers[i]) {
                redirect_counts_file file;
                struct stat own, named;
                char byte;

                close(go[1]);
                _exit(read(go[0], &byte, 1) != 0 || redirect_counts_file_open(&file, path, pool) ||
                      usleep(2000) || fstat(file.fd, &own) || stat(path, &named) ||
                      own.st_ino != named.st_ino);
            }
        }
        close(go[0]);
        close(go[1]);
        for (int i = 0; i < MAKERS; i++) {
            int status;

            waitpid(makers[i], &status, 0);
            failed += status != 0;
        }
        ck_assert_int_eq(failed, 0);
    }
}
END_TEST

START_TEST(one_process_has_the_lock)
{
    redirect_counts_file file = open_file(), other = open_file();
    pid_t child;
    int status;

    ck_assert(redirect_counts_file_lock(&file));
    ck_assert(redirect_counts_file_lock(&file));
    ck_assert(!redirect_counts_file_lock(&other));
    redirect_counts_file_close(&file);
    child = fork();
    if (!child)
        _exit(!redirect_counts_file_lock(&other));
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_removed_file_is_noticed)
{
    redirect_counts_file file = open_file();
    redirect_counts counts = {0};

    ck_assert_ptr_null(redirect_counts_file_read(&file, &counts, pool));
    unlink(path);
    ck_assert_int_eq(redirect_counts_file_write(&file, &counts, NOW), APR_ENOENT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("counts_file");
    TCase *tests = tcase_create("counts");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, what_is_written_is_read_again);
    tcase_add_test(tests, groups_and_counts_of_nothing_take_no_room);
    tcase_add_test(tests, no_more_is_kept_than_a_file_may_hold);
    tcase_add_test(tests, many_writes_keep_the_file_small);
    tcase_add_test(tests, a_write_that_is_cut_off_leaves_the_state_of_before);
    tcase_add_test(tests, a_file_of_any_length_is_read_safely);
    tcase_add_test(tests, each_garbled_byte_is_noticed);
    tcase_add_test(tests, heads_with_right_hashes_may_say_anything);
    tcase_add_test(tests, groups_with_right_hashes_may_say_anything);
    tcase_add_test(tests, foreign_files_are_named_and_left);
    tcase_add_test(tests, files_that_others_may_have_made_are_refused);
    tcase_add_test(tests, files_of_another_user_are_refused);
    tcase_add_test(tests, what_a_start_left_behind_is_replaced);
    tcase_add_test(tests, a_file_is_made_by_one_of_many);
    tcase_add_test(tests, one_process_has_the_lock);
    tcase_add_test(tests, a_removed_file_is_noticed);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
