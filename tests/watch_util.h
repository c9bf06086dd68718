/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file watch_util.h
 * Shared by the unit tests of what is watched: files in a directory of their own, records, a scene
 * of directories and links, and how many watches the kernel counts. Each of these programs has the
 * sources compiled in with HTC_CRASH_POINTS and defines htc_crash_point().
 */
#ifndef WATCH_UTIL_H
#define WATCH_UTIL_H

#include "cache/watch_internal.h"
#include "store_util.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_strings.h>

static apr_pool_t *pool;
static htc_store *store;
static htc_watch *watch;
static char root[256];

/* --- files ------------------------------------------------------------------------------------*/

static inline const char *at(const char *name)
{
    static char paths[32][512];
    static unsigned next;
    char *path = paths[next++ % 32];

    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static inline void make_dir(const char *name)
{
    ck_assert_int_eq(mkdir(at(name), 0755), 0);
}

static inline void write_text(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static inline void make_link(const char *text, const char *name)
{
    ck_assert_int_eq(symlink(text, at(name)), 0);
}

static inline void move(const char *from, const char *to)
{
    ck_assert_int_eq(rename(at(from), at(to)), 0);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- records ----------------------------------------------------------------------------------*/

static inline void setup(void)
{
    const char *why = NULL;
    const char *tmp = getenv("TMPDIR");
    char name[128], real[4096];

    snprintf(name, sizeof(name), "%s/check-watch-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(name));
    ck_assert_ptr_nonnull(realpath(name, real));
    ck_assert_uint_lt(strlen(real), sizeof(root));
    memcpy(root, real, strlen(real) + 1);
    pool = su_pool();
    store = su_create(pool, 4 << 20); /* so much that no set of slots is full: names are random */
    ck_assert_int_eq(htc_watch_create(&watch, store, 8192, pool, &why), APR_SUCCESS);
}

static inline void teardown(void)
{
    apr_pool_destroy(pool);
    remove_tree(root);
}

/* A record of the path; its payload is the text. */
static inline apr_status_t try_put(const char *path, const char *text, htc_ref *ref)
{
    htc_identity id = {.ino = 1};
    htc_put put = {.hash = htc_store_hash(store, path, strlen(path)),
                   .key = path,
                   .key_len = strlen(path),
                   .kind = HTC_KIND_TREE,
                   .id = &id,
                   .payload = text,
                   .payload_len = strlen(text) + 1,
                   .share_percent = 100,
                   .checked_at = htc_watch_unverified(watch)};

    return htc_store_put(store, &put, ref);
}

static inline htc_ref put(const char *path, const char *text)
{
    htc_ref ref;

    ck_assert_int_eq(try_put(path, text, &ref), APR_SUCCESS);
    return ref;
}

static inline _Atomic int64_t *mark_of(htc_ref ref)
{
    return &htc_store_slot(store, ref.slot)->checked_at;
}

static inline bool trusted(htc_ref ref)
{
    return atomic_load(mark_of(ref)) == htc_watch_fresh(watch);
}

/* The steps 1 to 5; what is on disk is taken for what the record says. */
static inline htc_watch_why trust(const char *path, htc_ref ref)
{
    int64_t fresh = htc_watch_fresh(watch), own = htc_watch_unverified(watch);
    htc_watch_why why;
    bool known;

    atomic_store(mark_of(ref), own);
    why = htc_watch_record(watch, path, ref, &known);
    if (why == HTC_WATCH_OK)
        atomic_compare_exchange_strong(mark_of(ref), &own, fresh);
    return why;
}

static inline htc_ref trust_new(const char *name)
{
    const char *path = at(name);
    htc_ref ref = put(path, "");

    ck_assert_int_eq(trust(path, ref), HTC_WATCH_OK);
    ck_assert(trusted(ref));
    return ref;
}

/* --- changes ----------------------------------------------------------------------------------*/

static inline void scene(void)
{
    make_dir("a");
    make_dir("a/b");
    make_dir("a/c");
    write_text("a/b/.htaccess", "one");
    ck_assert_int_eq(link(at("a/b/.htaccess"), at("a/c/hard")), 0);
    make_dir("r1");
    make_dir("r1/d");
    make_dir("r2");
    make_dir("r2/d");
    make_dir("links");
    make_link("../r1", "links/now");
    make_link(at("links/now/d"), "links/deep");
    make_link("now", "links/two");
    make_link("../../a/c/target", "r1/d/.htaccess");
    make_link("nowhere/at/all", "links/.htaccess");
}

static inline void write_in_place(void)
{
    write_text("a/b/.htaccess", "two");
}

static inline void replace_directory(void)
{
    move("a/b", "away");
    make_dir("a/b");
}

static inline void switch_release(void)
{
    make_link("../r2", "links/next");
    move("links/next", "links/now");
}

/* --- what the kernel counts
 * ---------------------------------------------------------------------*/

static inline unsigned kernel_watches(void)
{
    char path[64], line[256];
    unsigned n = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", watch->fd);
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        n += !strncmp(line, "inotify wd:", 11);
    fclose(file);
    return n;
}

static inline htc_watch_stats stats(void)
{
    htc_watch_stats now;

    htc_watch_stats_get(watch, &now);
    ck_assert_uint_eq(now.watches, kernel_watches());
    return now;
}

#endif
