/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched, with the kernel's own inotify and files in a directory of their
 * own: every kind of change makes the records doubtful that it concerns and no others, nothing
 * leaks, limits and overflows end in doubt, and a process may be killed at any step. The sources
 * are compiled into this program with HTC_CRASH_POINTS. Run by 'make check'.
 */
#include "htc_watch_private.h"
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
static long countdown; /* steps until death; 0: never */

void htc_crash_point(const char *where)
{
    (void)where;
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}

/* --- files ------------------------------------------------------------------------------------*/

static const char *at(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void make_dir(const char *name)
{
    ck_assert_int_eq(mkdir(at(name), 0755), 0);
}

static void write_text(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void make_link(const char *text, const char *name)
{
    ck_assert_int_eq(symlink(text, at(name)), 0);
}

static void move(const char *from, const char *to)
{
    ck_assert_int_eq(rename(at(from), at(to)), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* --- records ----------------------------------------------------------------------------------*/

static void setup(void)
{
    const char *why = NULL;
    const char *tmp = getenv("TMPDIR");
    char name[128], real[4096];

    snprintf(name, sizeof(name), "%s/check-watch-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(name));
    ck_assert_ptr_nonnull(realpath(name, real));
    ck_assert_uint_lt(strlen(real), sizeof(root));
    memcpy(root, real, strlen(real) + 1);
    countdown = 0;
    pool = su_pool();
    store = su_create(pool, 1 << 20);
    ck_assert_int_eq(htc_watch_create(&watch, store, 8192, pool, &why), APR_SUCCESS);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    remove_tree(root);
}

/* A record of the path; its payload is the text. */
static apr_status_t try_put(const char *path, const char *text, htc_ref *ref)
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
                   .checked_at = htc_watch_doubt(watch)};

    return htc_store_put(store, &put, ref);
}

static htc_ref put(const char *path, const char *text)
{
    htc_ref ref;

    ck_assert_int_eq(try_put(path, text, &ref), APR_SUCCESS);
    return ref;
}

static _Atomic int64_t *mark_of(htc_ref ref)
{
    return &htc_store_slot(store, ref.slot)->checked_at;
}

static bool trusted(htc_ref ref)
{
    return atomic_load(mark_of(ref)) == htc_watch_fresh(watch);
}

/* The steps 1 to 5; what is on disk is taken for what the record says. */
static htc_watch_why trust(const char *path, htc_ref ref)
{
    int64_t fresh = htc_watch_fresh(watch), own = htc_watch_doubt(watch);
    htc_watch_why why;
    bool known;

    atomic_store(mark_of(ref), own);
    why = htc_watch_record(watch, path, ref, &known);
    if (why == HTC_WATCH_OK)
        atomic_compare_exchange_strong(mark_of(ref), &own, fresh);
    return why;
}

static htc_ref trust_new(const char *name)
{
    const char *path = at(name);
    htc_ref ref = put(path, "");

    ck_assert_int_eq(trust(path, ref), HTC_WATCH_OK);
    ck_assert(trusted(ref));
    return ref;
}

/* --- changes ----------------------------------------------------------------------------------*/

static void scene(void)
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

static void write_in_place(void)
{
    write_text("a/b/.htaccess", "two");
}

static void same_size_and_time(void)
{
    struct stat st;
    int fd = open(at("a/b/.htaccess"), O_WRONLY);

    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(pwrite(fd, "two", 3, 0), 3);
    ck_assert_int_eq(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
    close(fd);
}

static void through_hard_link(void)
{
    write_text("a/c/hard", "two");
}

static void through_mapping(void)
{
    int fd = open(at("a/c/hard"), O_RDWR);
    char *map = mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    ck_assert_ptr_ne(map, MAP_FAILED);
    map[0] = 'x';
    munmap(map, 3);
    close(fd);
}

static void rename_over(void)
{
    write_text("a/b/new", "two");
    move("a/b/new", "a/b/.htaccess");
}

static void delete_it(void)
{
    unlink(at("a/b/.htaccess"));
}

static void change_mode(void)
{
    chmod(at("a/b/.htaccess"), 0600);
}

static void change_owner(void)
{
    ck_assert_int_eq(chown(at("a/b/.htaccess"), getuid(), getgid()), 0);
}

static void create_earlier(void)
{
    write_text("a/b/.first", "");
}

static void replace_directory(void)
{
    move("a/b", "away");
    make_dir("a/b");
}

static void replace_parent(void)
{
    move("a", "away");
    make_dir("a");
}

static void close_directory(void)
{
    chmod(at("a"), 0700);
}

static void switch_release(void)
{
    make_link("../r2", "links/next");
    move("links/next", "links/now");
}

static void replace_release(void)
{
    move("r1", "away");
    make_dir("r1");
}

static void replace_in_release(void)
{
    move("r1/d", "r1/e");
}

static void create_target(void)
{
    write_text("a/c/target", "two");
}

static void make_way(void)
{
    make_dir("links/nowhere");
}

static void create_below(void)
{
    make_dir("new");
}

/* The path, and what concerns it. */
static const struct {
    const char *name, *path;
    void (*change)(void);
} concerned[] = {{"written in place", "a/b/.htaccess", write_in_place},
                 {"same size and time", "a/b/.htaccess", same_size_and_time},
                 {"written through a hard link", "a/b/.htaccess", through_hard_link},
                 {"written through a mapping", "a/b/.htaccess", through_mapping},
                 {"renamed over", "a/b/.htaccess", rename_over},
                 {"deleted", "a/b/.htaccess", delete_it},
                 {"chmod", "a/b/.htaccess", change_mode},
                 {"chown", "a/b/.htaccess", change_owner},
                 {"an earlier name created", "a/b/.first", create_earlier},
                 {"directory replaced", "a/b/.htaccess", replace_directory},
                 {"directory of an absent file replaced", "a/b/.first", replace_directory},
                 {"parent replaced", "a/b/.htaccess", replace_parent},
                 {"parent closed", "a/b/.htaccess", close_directory},
                 {"release switched", "links/now/d/.first", switch_release},
                 {"release switched, two links", "links/two/d/.first", switch_release},
                 {"release switched, linked below", "links/deep/.first", switch_release},
                 {"release replaced", "links/deep/.first", replace_release},
                 {"replaced in the release", "links/two/d/.first", replace_in_release},
                 {"link comes true", "links/now/d/.htaccess", create_target},
                 {"way to a link's target", "links/.htaccess", make_way},
                 {"directory created", "new/d/.htaccess", create_below}};

START_TEST(change_is_seen)
{
    const int i = _i;
    htc_ref ref;

    scene();
    ref = trust_new(concerned[i].path);
    htc_watch_drain(watch);
    ck_assert_msg(trusted(ref), "%s: nothing happened yet", concerned[i].name);
    concerned[i].change();
    htc_watch_drain(watch);
    ck_assert_msg(!trusted(ref), "%s: not seen", concerned[i].name);
    /* Trusted again, and seen again. */
    trust(at(concerned[i].path), ref);
    ck_assert_msg(trusted(ref), "%s: cannot be trusted again", concerned[i].name);
    htc_watch_drain(watch);
    ck_assert_msg(trusted(ref), "%s: doubtful for nothing", concerned[i].name);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 0);
}
END_TEST

static const struct {
    const char *name, *path;
    void (*change)(void);
} others[] = {{"another name created", "a/b/.htaccess", create_earlier},
              {"another file deleted", "a/c/.htaccess", delete_it},
              {"another directory replaced", "a/c/.htaccess", replace_directory},
              {"another release", "r2/d/.htaccess", replace_release},
              {"a link beside", "links/nothing", switch_release}};

START_TEST(others_are_left_alone)
{
    htc_ref ref;

    scene();
    ref = trust_new(others[_i].path);
    others[_i].change();
    htc_watch_drain(watch);
    ck_assert_msg(trusted(ref), "%s", others[_i].name);
}
END_TEST

/* What was switched to is watched as well. */
START_TEST(switched_twice)
{
    htc_ref ref;

    scene();
    ref = trust_new("links/two/d/.first");
    for (int i = 0; i < 3; i++) {
        switch_release();
        htc_watch_drain(watch);
        ck_assert(!trusted(ref));
        trust(at("links/two/d/.first"), ref);
        write_text("r2/d/.first", "");
        htc_watch_drain(watch);
        ck_assert(!trusted(ref));
        trust(at("links/two/d/.first"), ref);
        unlink(at("r2/d/.first"));
        htc_watch_drain(watch);
        ck_assert(!trusted(ref));
        trust(at("links/two/d/.first"), ref);
        ck_assert(trusted(ref));
    }
}
END_TEST

/* A change between the look at the disk and the last step. */
START_TEST(late_change)
{
    int64_t fresh = htc_watch_fresh(watch), own = htc_watch_doubt(watch);
    htc_ref ref;
    bool known;

    scene();
    ref = put(at("a/b/.htaccess"), "");
    atomic_store(mark_of(ref), own);
    ck_assert_int_eq(htc_watch_record(watch, at("a/b/.htaccess"), ref, &known), HTC_WATCH_OK);
    ck_assert(!known);
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!atomic_compare_exchange_strong(mark_of(ref), &own, fresh));
}
END_TEST

START_TEST(links_in_a_circle)
{
    htc_ref ref;

    make_link("two", "one");
    make_link("one", "two");
    make_link("a/../b", "dots");
    ref = put(at("one/.htaccess"), "");
    ck_assert_int_eq(trust(at("one/.htaccess"), ref), HTC_WATCH_PATH);
    ck_assert(!trusted(ref));
    ck_assert_int_eq(trust(at("dots"), put(at("dots"), "")), HTC_WATCH_PATH);
}
END_TEST

START_TEST(doubts_differ)
{
    int64_t last = htc_watch_doubt(watch);

    for (int i = 0; i < 100000; i++) {
        int64_t next = htc_watch_doubt(watch);

        ck_assert_int_ne(next, last);
        ck_assert_int_lt(next, 0);
        last = next;
    }
}
END_TEST

START_TEST(words)
{
    _Atomic int64_t *word = htc_watch_word_at(watch, 7);
    int64_t fresh = htc_watch_word_fresh(watch, 7);
    bool known;

    ck_assert_int_ne(fresh, htc_watch_word_fresh(watch, 7 + HTC_WATCH_WORDS));
    write_text("map.txt", "one");
    ck_assert_int_eq(htc_watch_word(watch, at("map.txt"), 7, &known), HTC_WATCH_OK);
    atomic_store(word, fresh);
    htc_watch_drain(watch);
    ck_assert_int_eq(atomic_load(word), fresh);
    ck_assert_int_eq(htc_watch_word(watch, at("map.txt"), 7, &known), HTC_WATCH_OK);
    ck_assert(known);
    write_text("map.txt", "two");
    htc_watch_drain(watch);
    ck_assert_int_lt(atomic_load(word), 0);
}
END_TEST

/* --- limits -----------------------------------------------------------------------------------*/

static unsigned kernel_watches(void)
{
    char path[64], line[256];
    unsigned n = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", htc_watch_fd(watch));
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof(line), file))
        n += !strncmp(line, "inotify wd:", 11);
    fclose(file);
    return n;
}

static htc_watch_stats stats(void)
{
    htc_watch_stats now;

    htc_watch_stats_get(watch, &now);
    ck_assert_uint_eq(now.watches, kernel_watches());
    return now;
}

START_TEST(no_more_watches)
{
    htc_ref ref;

    scene();
    trust_new("a/.htaccess");
    watch->own_limit = stats().watches;
    ref = put(at("a/b/.htaccess"), "");
    ck_assert_int_eq(trust(at("a/b/.htaccess"), ref), HTC_WATCH_KERNEL);
    ck_assert(!trusted(ref));
    ck_assert_uint_eq(stats().failures[HTC_WATCH_KERNEL], 1);
    ck_assert(htc_watch_first(watch, HTC_WATCH_KERNEL));
    ck_assert(!htc_watch_first(watch, HTC_WATCH_KERNEL));
}
END_TEST

START_TEST(full_tree)
{
    char name[32];
    htc_watch_why why = HTC_WATCH_OK;

    for (int i = 0; i < 10000 && why == HTC_WATCH_OK; i++) {
        snprintf(name, sizeof(name), "no%d", i);
        why = trust(at(name), put(at(name), ""));
    }
    ck_assert_int_eq(why, HTC_WATCH_FULL);
    htc_watch_sweep(watch, htc_mono_ms() + 1000000);
    ck_assert_uint_lt(stats().nodes, 8192);
}
END_TEST

START_TEST(other_file_systems)
{
    htc_ref ref = put("/proc/.htaccess", "");

    ck_assert_int_eq(trust("/proc/.htaccess", ref), HTC_WATCH_FILESYSTEM);
    ck_assert(!trusted(ref));
}
END_TEST

/* Each is told of once, with the place where it begins. */
START_TEST(refused_file_systems)
{
    htc_watch_refusal one;

    scene();
    trust_new("a/.htaccess");
    ck_assert(!htc_watch_refused(watch, &one));
    trust("/proc/sys/kernel/.htaccess", put("/proc/sys/kernel/.htaccess", ""));
    ck_assert(htc_watch_refused(watch, &one));
    ck_assert_str_eq(one.at, "/proc");
    ck_assert_uint_eq(one.type, 0x9fa0);
    ck_assert(!htc_watch_refused(watch, &one));
    /* Asked anew, and another path of the same. */
    watch->header->devices[0].at = watch->header->devices[1].at = 1;
    htc_watch_distrust(watch);
    trust("/proc/sys/.htaccess", put("/proc/sys/.htaccess", ""));
    ck_assert(!htc_watch_refused(watch, &one));
    /* As if it was another. */
    watch->header->refused[0].dev++;
    watch->header->devices[0].at = watch->header->devices[1].at = 1;
    watch->header->devices[2].at = watch->header->devices[3].at = 1;
    htc_watch_distrust(watch);
    trust("/proc/sys/.htaccess", put("/proc/sys/.htaccess", ""));
    ck_assert(htc_watch_refused(watch, &one));
    ck_assert(!htc_watch_refused(watch, &one));
}
END_TEST

START_TEST(overflow)
{
    FILE *file = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
    long max = 0, n;
    htc_ref ref;

    ck_assert(file && fscanf(file, "%ld", &max) == 1);
    fclose(file);
    scene();
    ref = trust_new("a/b/.htaccess");
    for (n = 0; n < max / 2 + 10; n++) {
        write_text("a/b/x", "");
        unlink(at("a/b/x"));
    }
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_overflows), 1);
    trust(at("a/b/.htaccess"), ref);
    ck_assert(trusted(ref));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

/* --- what is given up -------------------------------------------------------------------------*/

START_TEST(churn_leaks_nothing)
{
    char name[64];
    uint64_t before;

    scene();
    trust_new("a/b/.htaccess");
    before = stats().watches;
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof(name), "d%d", i);
            make_dir(name);
            snprintf(name, sizeof(name), "d%d/.htaccess", i);
            write_text(name, "x");
            trust_new(name);
        }
        ck_assert_uint_eq(stats().watches, before + 400);
        for (int i = 0; i < 200; i++) {
            snprintf(name, sizeof(name), "d%d/.htaccess", i);
            if (round % 2)
                unlink(at(name));
            snprintf(name, sizeof(name), "d%d", i);
            if (round % 2) {
                rmdir(at(name));
            } else {
                char away[64];

                snprintf(away, sizeof(away), "away%d-%d", round, i);
                move(name, away);
            }
        }
        htc_watch_drain(watch);
        htc_watch_sweep(watch, htc_mono_ms() + 10000 * (round + 1));
        htc_watch_sweep(watch, htc_mono_ms() + 10000 * (round + 1) + 2000);
        ck_assert_uint_eq(stats().watches, before);
        ck_assert_uint_lt(stats().nodes, 30);
    }
}
END_TEST

START_TEST(records_that_are_gone)
{
    htc_ref ref;
    uint64_t nodes;

    scene();
    trust_new("a/b/.htaccess");
    nodes = stats().nodes;
    ref = trust_new("links/two/d/.first");
    ck_assert_uint_gt(stats().nodes, nodes);
    htc_watch_sweep(watch, htc_mono_ms() + 10000);
    ck_assert(trusted(ref) || atomic_load(mark_of(ref)) < 0);
    htc_store_drop(store, ref);
    for (int i = 2; i < 12; i++)
        htc_watch_sweep(watch, htc_mono_ms() + 10000 * i);
    ck_assert_uint_eq(stats().nodes, nodes);
}
END_TEST

/* What is never reported: by and by everything is looked at again, but not all at once. */
START_TEST(safety_net)
{
    htc_ref refs[40];
    char name[32];
    int doubtful = 0, sweeps = 0;

    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        refs[i] = trust_new(name);
    }
    htc_watch_sweep(watch, 5000000);
    for (int i = 0; i < 40; i++)
        doubtful += !trusted(refs[i]);
    ck_assert_int_lt(doubtful, 10);
    for (sweeps = 1; doubtful < 40 && sweeps < 30; sweeps++) {
        htc_watch_sweep(watch, 5000000 + sweeps * 1000);
        doubtful = 0;
        for (int i = 0; i < 40; i++)
            doubtful += !trusted(refs[i]);
    }
    ck_assert_int_eq(doubtful, 40);
    ck_assert_int_le(sweeps, 12);
}
END_TEST

/* --- death ------------------------------------------------------------------------------------*/

static void step_drain(void)
{
    htc_watch_drain(watch);
}

static void step_trust(void)
{
    const char *path = at("links/two/d/.htaccess");

    trust(path, put(path, "x"));
}

static void step_sweep(void)
{
    htc_watch_drain(watch);
    htc_watch_sweep(watch, htc_mono_ms() + 100000);
}

static void (*const steps[])(void) = {step_drain, step_trust, step_sweep};

/* True when the child got through. */
static bool killed_after(long n, void (*step)(void))
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (!child) {
        countdown = n;
        step();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status);
}

START_TEST(killed_anywhere)
{
    bool through = false;
    long n = 0;

    while (!through) {
        htc_ref ref, other;

        setup();
        scene();
        ref = trust_new("a/b/.htaccess");
        other = trust_new("links/deep/.first");
        write_text("a/c/hard", "two");
        switch_release();
        through = killed_after(++n, steps[_i]);
        htc_watch_drain(watch);
        ck_assert_msg(!trusted(ref) && !trusted(other), "step %d killed at %ld", _i, n);
        /* Who takes the lock over from the dead begins another epoch, so the first may be in vain. */
        for (int i = 0; i < 2 && !trusted(ref); i++)
            ck_assert_int_eq(trust(at("a/b/.htaccess"), ref), HTC_WATCH_OK);
        ck_assert(trusted(ref));
        write_text("a/c/hard", "three");
        htc_watch_drain(watch);
        ck_assert(!trusted(ref));
        for (int i = 1; i < 8; i++) {
            htc_watch_drain(watch);
            htc_watch_sweep(watch, htc_mono_ms() + 100000 + i * 10000);
        }
        stats();
        teardown();
    }
    ck_assert_int_gt(n, 3);
    setup();
}
END_TEST

/* One that holds what it read and does not go on: nobody relies on anything. */
START_TEST(stopped_holder)
{
    htc_ref ref;
    pid_t child;

    scene();
    ref = trust_new("a/b/.htaccess");
    pthread_mutex_lock(&watch->header->lock.mutex);
    atomic_store(&watch->header->busy, 1);
    child = fork();
    if (!child) {
        htc_watch_drain(watch);
        _exit(trusted(ref) ? 1 : 0);
    }
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert(!trusted(ref));
    atomic_store(&watch->header->busy, 0);
    pthread_mutex_unlock(&watch->header->lock.mutex);
}
END_TEST

/* --- many at once -----------------------------------------------------------------------------*/

#define FILES   6
#define WRITERS 3
#define READERS 4
#define EDITS   1500

typedef struct shared {
    _Atomic uint64_t done[FILES]; /* number of the last edit that is complete */
    _Atomic uint64_t asked, unasked, stale, ended;
} shared;

static shared *sh;

static const char *file_name(unsigned i)
{
    static const char *const names[FILES] = {"a/b/.htaccess",     "a/c/.htaccess",
                                             "links/now/d/first", "links/two/d/second",
                                             "links/deep/third",  "r2/d/fourth"};
    return names[i];
}

/* Each file has one writer, which counts up in it. */
static void edit(unsigned i, uint64_t number, uint64_t *state)
{
    bool in_place = number > 1 && su_random(state) % 4 == 0;
    int fd;

    char text[32], temp[64];

    snprintf(text, sizeof(text), "%lu", (unsigned long)number);
    snprintf(temp, sizeof(temp), "temp%u", i);
    if (in_place && (fd = open(at(file_name(i)), O_WRONLY)) >= 0) {
        /* Not shorter than the number before. */
        ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
        close(fd);
    } else {
        write_text(temp, text);
        move(temp, file_name(i));
    }
    atomic_store(&sh->done[i], number);
}

static uint64_t number_in(const char *path)
{
    char text[32] = "";
    int fd = open(path, O_RDONLY);

    if (fd >= 0) {
        ssize_t n = read(fd, text, sizeof(text) - 1);

        text[n > 0 ? n : 0] = '\0';
        close(fd);
    }
    return strtoull(text, NULL, 10);
}

/* A request: what it answers must not be older than what was complete before it. */
static void ask(unsigned i, apr_pool_t *scratch)
{
    uint64_t least = atomic_load(&sh->done[i]), answer = 0;
    const char *path = at(file_name(i));
    htc_info info;
    htc_ref ref;
    char *payload, text[32];
    size_t len;

    htc_watch_drain(watch);
    if (!htc_store_find(store, htc_store_hash(store, path, strlen(path)), path, strlen(path),
                        &info) ||
        htc_store_copy(store, info.ref, scratch, &payload, &len) != APR_SUCCESS) {
        snprintf(text, sizeof(text), "%lu", (unsigned long)number_in(path));
        try_put(path, text, &ref);
        return;
    }
    answer = strtoull(payload, NULL, 10);
    if (info.checked_at == htc_watch_fresh(watch)) {
        atomic_fetch_add(&sh->unasked, 1);
        if (answer < least)
            atomic_fetch_add(&sh->stale, 1);
        return;
    }
    int64_t fresh = htc_watch_fresh(watch), own = htc_watch_doubt(watch), seen = info.checked_at;
    bool known, mine = htc_mark_is_doubt(seen) &&
                       atomic_compare_exchange_strong(mark_of(info.ref), &seen, own);
    htc_watch_why why = htc_watch_record(watch, path, info.ref, &known);
    uint64_t now = number_in(path);

    atomic_fetch_add(&sh->asked, 1);
    if (now != answer) {
        snprintf(text, sizeof(text), "%lu", (unsigned long)now);
        try_put(path, text, &ref);
    } else if (mine && why == HTC_WATCH_OK) {
        atomic_compare_exchange_strong(mark_of(info.ref), &own, fresh);
    }
}

static void writer(unsigned w)
{
    uint64_t state = w + 1;

    for (uint64_t n = 1; n <= EDITS; n++) {
        for (unsigned i = w; i < FILES; i += WRITERS)
            edit(i, n, &state);
        if (su_random(&state) % 8 == 0)
            usleep(su_random(&state) % 300);
    }
    atomic_fetch_add(&sh->ended, 1);
}

static void reader(unsigned r)
{
    uint64_t state = r + 100;
    apr_pool_t *scratch;

    apr_pool_create(&scratch, pool);
    while (atomic_load(&sh->ended) < WRITERS) {
        for (int n = 0; n < 20; n++)
            ask(su_random(&state) % FILES, scratch);
        apr_pool_clear(scratch);
    }
}

START_TEST(many_at_once)
{
    pid_t children[WRITERS + READERS];

    scene();
    sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(sh, MAP_FAILED);
    for (unsigned i = 0; i < WRITERS + READERS; i++) {
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (!children[i]) {
            if (i < WRITERS)
                writer(i);
            else
                reader(i);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < WRITERS + READERS; i++) {
        int status;

        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    uint64_t stale = sh->stale, asked = sh->asked, unasked = sh->unasked;

    ck_assert_uint_eq(stale, 0);
    ck_assert_uint_gt(unasked, 0);
    ck_assert_uint_gt(asked, 0);
    for (unsigned i = 0; i < FILES; i++)
        ck_assert_uint_eq(number_in(at(file_name(i))), EDITS);
    munmap(sh, sizeof(*sh));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch");
    TCase *tc = tcase_create("watch");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, change_is_seen, 0, (int)(sizeof(concerned) / sizeof(concerned[0])));
    tcase_add_loop_test(tc, others_are_left_alone, 0, (int)(sizeof(others) / sizeof(others[0])));
    tcase_add_test(tc, switched_twice);
    tcase_add_test(tc, late_change);
    tcase_add_test(tc, links_in_a_circle);
    tcase_add_test(tc, doubts_differ);
    tcase_add_test(tc, words);
    tcase_add_test(tc, no_more_watches);
    tcase_add_test(tc, full_tree);
    tcase_add_test(tc, other_file_systems);
    tcase_add_test(tc, refused_file_systems);
    tcase_add_test(tc, overflow);
    tcase_add_test(tc, churn_leaks_nothing);
    tcase_add_test(tc, records_that_are_gone);
    tcase_add_test(tc, safety_net);
    tcase_add_loop_test(tc, killed_anywhere, 0, (int)(sizeof(steps) / sizeof(steps[0])));
    tcase_add_test(tc, stopped_holder);
    tcase_add_test(tc, many_at_once);
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
