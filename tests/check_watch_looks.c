/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched: nothing is asked of a file system while the lock is held, which
 * file systems are taken for local, and what happens between a look and its end is not lost. Run by
 * 'make check'.
 */
#include "watch_util.h"

#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

static void (*meddle)(void);
static long meddle_at; /* watches to be added until then; 0: never */
static unsigned adds;

void htc_crash_point(const char *where)
{
    if (strcmp(where, "add_watch"))
        return;
    adds++;
    if (meddle_at && --meddle_at == 0)
        meddle();
}

/* --- file systems -----------------------------------------------------------------------------*/

static bool observed;
static unsigned asked, held;
static long fake_type = -1;    /* of all file systems; -1: their own */
static const char *seen_wrong; /* what lstat() sees there is what is at seen_instead */
static const char *seen_instead;

/* The library's functions that htc_watch_settle.c asks file systems with come here instead, but for
 * open(), which is followed by fstatfs(). */
static void ask_file_system(void)
{
    if (!observed)
        return;
    asked++;
    if (pthread_mutex_trylock(&watch->header->lock.mutex))
        held++;
    else
        pthread_mutex_unlock(&watch->header->lock.mutex);
}

int lstat(const char *restrict path, struct stat *restrict st)
{
    ask_file_system();
    if (seen_wrong && !strcmp(path, seen_wrong))
        path = seen_instead;
    return fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int fstatfs(int fd, struct statfs *fs)
{
    int rc;

    ask_file_system();
    rc = (int)syscall(SYS_fstatfs, fd, fs);
    if (fake_type >= 0)
        fs->f_type = fake_type;
    return rc;
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    ask_file_system();
    return (int)syscall(SYS_inotify_add_watch, fd, path, mask);
}

START_TEST(no_lock_is_held)
{
    scene();
    observed = true;
    trust_new("a/b/.htaccess");
    ck_assert_uint_gt(asked, 6); /* for each directory two, and one for the file system */
    ck_assert_uint_eq(held, 0);
    trust_new("links/two/d/.first");
    trust_new("links/deep/.first");
    ck_assert_int_eq(trust("/proc/.htaccess", put("/proc/.htaccess", "")), HTC_WATCH_FILESYSTEM);
    htc_watch_distrust(watch);
    trust_new("links/now/d/.htaccess");
    write_text("a/b/.htaccess", "two");
    htc_watch_drain(watch);
    htc_watch_sweep(watch, 5000000);
    observed = false;
    ck_assert_uint_gt(asked, 20);
    ck_assert_uint_eq(held, 0);
}
END_TEST

/* The numbers of linux/magic.h, which not every system's has all of. */
static const struct {
    const char *name;
    long type;
    bool local;
} types[] = {
    {"ext4", 0xEF53, true},        {"xfs", 0x58465342, true},     {"btrfs", 0x9123683E, true},
    {"tmpfs", 0x01021994, true},   {"f2fs", 0xF2F52010, true},    {"zfs", 0x2FC12FC1, true},
    {"NFS", 0x6969, false},        {"Lustre", 0x0BD00BD0, false}, {"CIFS", 0xFF534D42, false},
    {"SMB2", 0xFE534D42, false},   {"FUSE", 0x65735546, false},   {"overlay", 0x794C7630, false},
    {"Ceph", 0x00C36400, false},   {"9P", 0x01021997, false},     {"GFS2", 0x01161970, false},
    {"OCFS2", 0x7461636F, false},  {"AFS", 0x5346414F, false},    {"autofs", 0x0187, false},
    {"ecryptfs", 0xF15F, false},   {"nothing", 0, false},         {"unheard of", 0x12345, false},
    {"32 bits", 0xFFFFFFFF, false}};

START_TEST(file_system_types)
{
    htc_watch_refusal refusal;
    htc_watch_why why;
    htc_ref ref;

    scene();
    fake_type = types[_i].type;
    ref = put(at("a/b/.htaccess"), "");
    why = trust(at("a/b/.htaccess"), ref);
    fake_type = -1;
    ck_assert_msg(why == (types[_i].local ? HTC_WATCH_OK : HTC_WATCH_FILESYSTEM), "%s: %d",
                  types[_i].name, why);
    ck_assert_msg(trusted(ref) == types[_i].local, "%s", types[_i].name);
    ck_assert(htc_watch_refused(watch, &refusal) == !types[_i].local);
    if (!types[_i].local) {
        ck_assert_uint_eq(refusal.type, (uint32_t)types[_i].type);
        ck_assert_str_eq(refusal.at, "/");
    }
}
END_TEST

/* Its owner puts another directory in the place of one of a remote file system after that was seen:
 * the remote one is not taken for local. */
START_TEST(another_directory_asked)
{
    const char *path = at("a/b/.htaccess");
    htc_ref ref;

    scene();
    trust_new("a/.htaccess");
    seen_wrong = at("a/b");
    seen_instead = "/proc";
    for (int i = 0; i < HTCW_DEVICES; i++)
        watch->header->devices[i].at = 0;
    ref = put(path, "");
    ck_assert_int_eq(trust(path, ref), HTC_WATCH_AGAIN);
    ck_assert(!trusted(ref));
    ck_assert_int_eq(trust("/proc/.htaccess", put("/proc/.htaccess", "")), HTC_WATCH_FILESYSTEM);
    seen_wrong = NULL;
    ck_assert_int_eq(trust(path, ref), HTC_WATCH_OK);
    ck_assert(trusted(ref));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

/* --- meanwhile --------------------------------------------------------------------------------*/

/* Twice: what the first one gives up reports that only then. */
static void drain_twice(void)
{
    htc_watch_drain(watch);
    htc_watch_drain(watch);
}

static void write_meanwhile(void)
{
    write_in_place();
    drain_twice();
}

static void another_file(void)
{
    write_text("a/b/new", "two");
    move("a/b/new", "a/b/.htaccess");
    drain_twice();
}

static void another_directory(void)
{
    replace_directory();
    write_in_place();
    drain_twice();
}

static void another_parent(void)
{
    move("a", "away");
    make_dir("a");
    make_dir("a/b");
    write_in_place();
    drain_twice();
}

static void touch_parent(void)
{
    chmod(at("a"), 0700);
    drain_twice();
}

static void lose_all(void)
{
    htc_watch_distrust(watch);
}

/* As by a process that enters the same and gives it up. */
static void others_settle_it(void)
{
    meddle_at = 0;
    htc_watch_drain(watch);
    trust(at("a/b/.htaccess"), put(at("a/b/.htaccess"), "other"));
    unlink(at("a/b/.htaccess"));
    write_in_place();
    drain_twice();
}

static void (*const meddlers[])(void) = {write_meanwhile, another_file, another_directory,
                                         another_parent,  touch_parent, lose_all,
                                         others_settle_it};

/* At each watch that is added something happens and is published: afterwards the record is not
 * trusted, or it is and the next change is seen. */
START_TEST(something_happens_meanwhile)
{
    unsigned most = 1;

    for (unsigned n = 1; n <= most; n++) {
        htc_ref ref;

        if (n > 1)
            setup();
        scene();
        adds = 0;
        meddle = meddlers[_i];
        meddle_at = (long)n;
        ref = put(at("a/b/.htaccess"), "one");
        trust(at("a/b/.htaccess"), ref);
        ck_assert_uint_ge(adds + 2, n); /* the first one may have made some more necessary */
        meddle_at = 0;
        if (n == 1)
            most = adds;
        for (int again = 0; again < 3; again++) {
            write_in_place();
            htc_watch_drain(watch);
            ck_assert_msg(!trusted(ref), "%d, watch %u, change %d is not seen", _i, n, again);
            trust(at("a/b/.htaccess"), ref);
        }
        if (atomic_load(&htc_store_slot(store, ref.slot)->version) == ref.version)
            ck_assert_msg(trusted(ref), "%d, watch %u: not trusted again", _i, n);
        drain_twice();
        for (int i = 1; i < 4; i++)
            htc_watch_sweep(watch, htc_mono_ms() + 100000 * i);
        stats();
        teardown();
    }
    setup();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch looks");
    TCase *tc = tcase_create("watch looks");
    SRunner *runner;
    int failed;

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, no_lock_is_held);
    tcase_add_loop_test(tc, file_system_types, 0, (int)(sizeof(types) / sizeof(types[0])));
    tcase_add_test(tc, another_directory_asked);
    tcase_add_loop_test(tc, something_happens_meanwhile, 0,
                        (int)(sizeof(meddlers) / sizeof(meddlers[0])));
    suite_add_tcase(suite, tc);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
