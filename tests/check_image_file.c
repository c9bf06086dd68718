/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of area/image_file.c. An image that is written is read again. A file is not used if it is
 * cut off, garbled, or of another text, map or version, or if somebody else may have written it. A
 * write that fails leaves the file of before. Run by 'make check'.
 */
#include "suite_util.h"
#include "area/image_file.h"
#include "redirect_table.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#define BLOCK      4096
#define HEAD_BYTES 176
#define IMAGE_SIZE 10000
#define SERVER     UINT64_C(7)

static apr_pool_t *pool;
static char dir[] = "/tmp/check_image_file.XXXXXX";
static const char *folder_path, *path;
static char name[REDIRECT_IMAGE_NAME];
static char image[IMAGE_SIZE];
static redirect_image_about about;
static int folder;

/* --- a disk that stops ------------------------------------------------------------------------*/

static long budget = -1; /* bytes that may still be written; -1: any number */

#if _FILE_OFFSET_BITS + 0 == 64 /* with 32 bits it has another name in the C library */
#define __real_pwrite __real_pwrite64
#define __wrap_pwrite __wrap_pwrite64
#endif
ssize_t __real_pwrite(int fd, const void *from, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at);

ssize_t __wrap_pwrite(int fd, const void *from, size_t len, off_t at)
{
    ssize_t n;

    if (budget == 0) {
        errno = ENOSPC;
        return -1;
    }
    n = __real_pwrite(fd, from, budget > 0 && len > (size_t)budget ? (size_t)budget : len, at);
    if (budget > 0)
        budget -= n;
    return n;
}

/* --- what is used below -----------------------------------------------------------------------*/

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    folder_path = apr_pstrcat(pool, dir, "/counts.maps", NULL);
    ck_assert_ptr_null(redirect_image_folder(folder_path, true, &folder, pool));
    about = (redirect_image_about){.version = "1.2.3",
                                   .key = {3, 4},
                                   .source = {.dev = 1,
                                              .ino = 2,
                                              .size = 3,
                                              .mtime_ns = 4,
                                              .ctime_ns = 5,
                                              .mode = S_IFREG | 0644,
                                              .uid = 6,
                                              .gid = 7},
                                   .size = IMAGE_SIZE,
                                   .rules = 8,
                                   .refused = 9,
                                   .warnings = 10,
                                   .load_ms = 11};
    for (size_t i = 0; i < sizeof(image); i++)
        image[i] = (char)(i * 7 + i / 256);
    redirect_image_name(name, SERVER, about.key);
    path = apr_pstrcat(pool, folder_path, "/", name, NULL);
    budget = -1;
    ck_assert_int_eq(redirect_image_write(folder, name, &about, image), APR_SUCCESS);
}

static void teardown(void)
{
    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(system("rm -rf -- *"), 0);
    ck_assert_int_eq(chdir("/"), 0);
    rmdir(dir);
    if (folder >= 0)
        close(folder);
    apr_pool_destroy(pool);
    apr_terminate();
}

/* Is the file's image the one that was written? *why: what is said. */
static bool is_read(const redirect_image_about *wanted, const char **why)
{
    redirect_image_about found;
    char to[IMAGE_SIZE];
    int fd = redirect_image_open(folder, name, wanted, &found, why, pool);
    bool same;

    if (fd < 0)
        return false;
    ck_assert_uint_eq(found.size, IMAGE_SIZE);
    same = redirect_image_read(fd, &found, to);
    close(fd);
    if (same) {
        ck_assert_mem_eq(to, image, IMAGE_SIZE);
        ck_assert_mem_eq(&found, &about, sizeof(about));
    }
    return same;
}

/* --- files ------------------------------------------------------------------------------------*/

START_TEST(an_image_is_read_as_it_was_written)
{
    const char *why;
    struct stat st;

    ck_assert(is_read(&about, &why));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0600);
}
END_TEST

#define VERSION "another version or build of the module made it"
#define MAP     "it is of another map"

static const struct {
    size_t at;       /* in redirect_image_about */
    const char *why; /* NULL: of an earlier text, which is as if there was no file */
} others[] = {
    {offsetof(redirect_image_about, version), VERSION},
    {offsetof(redirect_image_about, version) + 15, VERSION},
    {offsetof(redirect_image_about, key), MAP},
    {offsetof(redirect_image_about, key) + 8, MAP},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, dev), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, ino), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, size), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, mtime_ns), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, ctime_ns), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, mode), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, uid), NULL},
    {offsetof(redirect_image_about, source) + offsetof(htc_identity, gid), NULL},
};

START_TEST(an_image_of_another_map_or_text_is_none)
{
    redirect_image_about wanted = about;
    const char *why;

    ((char *)&wanted)[others[_i].at] ^= 1;
    ck_assert(!is_read(&wanted, &why));
    ck_assert_pstr_eq(why, others[_i].why);
}
END_TEST

static void change_byte(size_t at)
{
    int fd = open(path, O_RDWR);
    char byte;

    ck_assert_int_eq(pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 1;
    ck_assert_int_eq(__real_pwrite(fd, &byte, 1, (off_t)at), 1);
    close(fd);
}

START_TEST(no_changed_byte_is_taken)
{
    const char *why;

    /* All of the head; of the image some. What is between them is of no use. */
    for (size_t at = 0; at < HEAD_BYTES; at++) {
        change_byte(at);
        ck_assert_msg(!is_read(&about, &why) && why, "byte %zu", at);
        change_byte(at);
    }
    for (size_t at = BLOCK; at < BLOCK + IMAGE_SIZE; at += at == BLOCK ? 1 : 997) {
        change_byte(at);
        ck_assert_msg(!is_read(&about, &why), "byte %zu", at);
        change_byte(at);
    }
    change_byte(BLOCK + IMAGE_SIZE - 1);
    ck_assert(!is_read(&about, &why));
    change_byte(BLOCK + IMAGE_SIZE - 1);
    ck_assert(is_read(&about, &why));
}
END_TEST

static const long lengths[] = {
    0, 1, 100, BLOCK - 1, BLOCK, BLOCK + IMAGE_SIZE - 1, BLOCK + IMAGE_SIZE + 1};

START_TEST(no_file_of_another_length_is_taken)
{
    const char *why;

    ck_assert_int_eq(truncate(path, lengths[_i]), 0);
    ck_assert(!is_read(&about, &why));
    ck_assert_str_eq(why, "it is damaged");
}
END_TEST

static const mode_t modes[] = {0640, 0620, 0604, 0602, 0666};

START_TEST(no_file_that_others_may_open_is_taken)
{
    const char *why;

    ck_assert_int_eq(chmod(path, modes[_i]), 0);
    ck_assert(!is_read(&about, &why));
    ck_assert_ptr_nonnull(strstr(why, "others may read or write it"));
}
END_TEST

static void make_link(void)
{
    const char *moved = apr_pstrcat(pool, dir, "/moved", NULL);

    ck_assert_int_eq(rename(path, moved), 0);
    ck_assert_int_eq(symlink(moved, path), 0);
}

static void make_hard_link(void)
{
    ck_assert_int_eq(link(path, apr_pstrcat(pool, dir, "/other", NULL)), 0);
}

static void make_folder(void)
{
    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void make_fifo(void)
{
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static const struct {
    void (*make)(void);
    const char *why;
} planted[] = {{make_link, "it is a symbolic link"},
               {make_hard_link, "it has another name, too (a hard link)"},
               {make_folder, "it is not a regular file"},
               {make_fifo, "it is not a regular file"}};

START_TEST(no_planted_file_is_taken)
{
    const char *why;

    planted[_i].make();
    ck_assert(!is_read(&about, &why));
    ck_assert_str_eq(why, planted[_i].why);
    if (planted[_i].make == make_folder)
        return;
    ck_assert_int_eq(redirect_image_write(folder, name, &about, image), APR_SUCCESS);
    ck_assert(is_read(&about, &why)); /* and is replaced */
}
END_TEST

/* Root alone can give files away. */
START_TEST(no_file_of_somebody_else_is_taken)
{
    const char *why;

    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chown(path, 65534, 0), 0);
    ck_assert(!is_read(&about, &why));
    ck_assert_ptr_nonnull(strstr(why, "it must belong to the user that starts httpd"));
}
END_TEST

START_TEST(a_write_that_fails_leaves_the_file_of_before)
{
    redirect_image_about later = about;
    const char *why, *made;

    later.rules++;
    budget = BLOCK; /* of the image, which comes first */
    ck_assert_int_eq(redirect_image_write(folder, name, &later, image), ENOSPC);
    budget = -1;
    ck_assert(is_read(&about, &why));
    made = apr_pstrcat(pool, apr_pstrndup(pool, path, strlen(path) - 4), ".new", NULL);
    ck_assert_int_ne(access(made, F_OK), 0);
}
END_TEST

/* --- folders ----------------------------------------------------------------------------------*/

static const mode_t folder_modes[] = {0750, 0720, 0701, 0702, 0777};

START_TEST(no_folder_that_others_may_use_is_taken)
{
    int fd;

    ck_assert_int_eq(chmod(folder_path, folder_modes[_i]), 0);
    ck_assert_ptr_nonnull(redirect_image_folder(folder_path, true, &fd, pool));
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(no_link_to_a_folder_is_taken)
{
    const char *link_path = apr_pstrcat(pool, dir, "/link", NULL);
    int fd;

    ck_assert_int_eq(symlink(folder_path, link_path), 0);
    ck_assert_ptr_nonnull(redirect_image_folder(link_path, true, &fd, pool));
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(no_folder_of_somebody_else_is_taken)
{
    int fd;

    if (geteuid() != 0)
        return;
    ck_assert_int_eq(chown(folder_path, 65534, 0), 0);
    ck_assert_ptr_nonnull(redirect_image_folder(folder_path, true, &fd, pool));
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_made_only_if_wanted)
{
    const char *other = apr_pstrcat(pool, dir, "/other", NULL);
    int fd;

    ck_assert_ptr_null(redirect_image_folder(other, false, &fd, pool));
    ck_assert_int_eq(fd, -1);
    ck_assert_int_ne(access(other, F_OK), 0);
    ck_assert_ptr_nonnull(
        redirect_image_folder(apr_pstrcat(pool, other, "/deep", NULL), true, &fd, pool));
}
END_TEST

static bool is_there(const char *file)
{
    return faccessat(folder, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

START_TEST(only_own_files_that_are_not_named_are_removed)
{
    char gone[REDIRECT_IMAGE_NAME], foreign[REDIRECT_IMAGE_NAME];
    const char *names[] = {name};

    redirect_image_name(gone, SERVER, (const uint64_t[]){9, 9});
    redirect_image_name(foreign, SERVER + 1, (const uint64_t[]){9, 9});
    ck_assert_int_eq(redirect_image_write(folder, gone, &about, image), APR_SUCCESS);
    ck_assert_int_eq(redirect_image_write(folder, foreign, &about, image), APR_SUCCESS);
    ck_assert_int_eq(mkdirat(folder, "mine", 0700), 0);
    redirect_image_prune(folder, SERVER, names, 1);
    ck_assert(is_there(name));
    ck_assert(is_there(foreign));
    ck_assert(is_there("mine"));
    ck_assert(!is_there(gone));
}
END_TEST

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("image_file");
    TCase *tc = tcase_create("all");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, an_image_is_read_as_it_was_written);
    tcase_add_loop_test(tc, an_image_of_another_map_or_text_is_none, 0, COUNT_OF(others));
    tcase_add_test(tc, no_changed_byte_is_taken);
    tcase_add_loop_test(tc, no_file_of_another_length_is_taken, 0, COUNT_OF(lengths));
    tcase_add_loop_test(tc, no_file_that_others_may_open_is_taken, 0, COUNT_OF(modes));
    tcase_add_loop_test(tc, no_planted_file_is_taken, 0, COUNT_OF(planted));
    tcase_add_test(tc, no_file_of_somebody_else_is_taken);
    tcase_add_test(tc, a_write_that_fails_leaves_the_file_of_before);
    tcase_add_loop_test(tc, no_folder_that_others_may_use_is_taken, 0, COUNT_OF(folder_modes));
    tcase_add_test(tc, no_link_to_a_folder_is_taken);
    tcase_add_test(tc, no_folder_of_somebody_else_is_taken);
    tcase_add_test(tc, a_folder_that_is_not_there_is_made_only_if_wanted);
    tcase_add_test(tc, only_own_files_that_are_not_named_are_removed);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
