/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched: nothing is asked of a file system while the lock is held, which
 * file systems are taken for local, and what happens between a look and its end is not lost. Run by
 * 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

#include <ctype.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#ifndef FS_CASEFOLD_FL
#define FS_CASEFOLD_FL 0x40000000
#endif

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
static int64_t fake_type = -1; /* of all file systems; -1: their own */
static const char *seen_wrong; /* what lstat() sees there is what is at seen_instead */
static const char *seen_instead;

/* The library's functions that cache/watch_settle.c asks file systems with come here instead,
 * but for open(), which is followed by fstatfs(). */
static void ask_file_system(void)
{
    if (!observed)
        return;
    asked++;
    if (htc_lock_take(&watch->lock, 0) == HTC_LOCK_BUSY)
        held++;
    else
        htc_lock_give(&watch->lock);
}

static bool folding_names;        /* of all directories */
static const char *folding_below; /* or of this one, and what is in it */

static int stat_of_lower_case(const char *path, struct stat *st)
{
    char lower[4096];

    snprintf(lower, sizeof(lower), "%s", path);
    for (char *c = strrchr(lower, '/'); *c; c++)
        *c = (char)tolower(*c);
    return fstatat(AT_FDCWD, lower, st, AT_SYMLINK_NOFOLLOW);
}

int lstat(const char *restrict path, struct stat *restrict st)
{
    ask_file_system();
    if (seen_wrong && !strcmp(path, seen_wrong))
        path = seen_instead;
    if (fstatat(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    if (folding_below && !strncmp(path, folding_below, strlen(folding_below)) &&
        path[strlen(folding_below)] == '/')
        return stat_of_lower_case(path, st);
    return folding_names ? stat_of_lower_case(path, st) : -1;
}

static const char *folding;    /* a directory that has FS_CASEFOLD_FL */
static int geometry_says = -1; /* XFS, of itself; -1: it is none */

/* With 32 bits it is not padded. */
typedef struct xfs_geometry {
    uint64_t sizes[11];
    uint32_t rest[5];
} xfs_geometry;

static int say_geometry(uint32_t *geometry)
{
    memset(geometry, 0, sizeof(xfs_geometry));
    geometry[23] = 0x40Fu | (uint32_t)geometry_says << 12;
    return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
    char link[64], path[4096];
    va_list arguments;
    void *argument;
    ssize_t len;
    int rc;

    va_start(arguments, request);
    argument = va_arg(arguments, void *);
    va_end(arguments);
    if (geometry_says >= 0 && request == _IOR('X', 100, xfs_geometry))
        return say_geometry(argument);
    rc = (int)syscall(SYS_ioctl, fd, request, argument);
    if (!folding || request != FS_IOC_GETFLAGS)
        return rc;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path) - 1);
    path[len > 0 ? len : 0] = '\0';
    *(int *)argument = strcmp(path, folding) ? 0 : FS_CASEFOLD_FL;
    return 0;
}

int fstatfs(int fd, struct statfs *fs)
{
    int rc;

    ask_file_system();
#ifdef SYS_fstatfs64 /* a processor of 32 bits */
    rc = (int)syscall(SYS_fstatfs64, fd, sizeof(*fs), fs);
#else
    rc = (int)syscall(SYS_fstatfs, fd, fs);
#endif
    if (fake_type >= 0)
        fs->f_type = (__typeof__(fs->f_type))fake_type;
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

#define NO  HTC_WATCH_FILESYSTEM
#define YES HTC_WATCH_OK
#define SIL HTC_WATCH_SILENT

/* The numbers of linux/magic.h, which not every system's has all of. The file has two names, which
 * an overlay cannot be watched for. */
static const struct {
    const char *name;
    int64_t type;
    htc_watch_why why;
} types[] = {{"ext4", 0xEF53, YES},       {"xfs", 0x58465342, YES},   {"btrfs", 0x9123683E, YES},
             {"tmpfs", 0x01021994, YES},  {"f2fs", 0xF2F52010, YES},  {"zfs", 0x2FC12FC1, YES},
             {"NFS", 0x6969, NO},         {"Lustre", 0x0BD00BD0, NO}, {"CIFS", 0xFF534D42, NO},
             {"SMB2", 0xFE534D42, NO},    {"FUSE", 0x65735546, NO},   {"overlay", 0x794C7630, SIL},
             {"Ceph", 0x00C36400, NO},    {"9P", 0x01021997, NO},     {"GFS2", 0x01161970, NO},
             {"OCFS2", 0x7461636F, NO},   {"AFS", 0x5346414F, NO},    {"autofs", 0x0187, NO},
             {"ecryptfs", 0xF15F, NO},    {"nothing", 0, NO},         {"unheard of", 0x12345, NO},
             {"32 bits", 0xFFFFFFFF, NO}, {"vfat", 0x4D44, SIL},      {"exfat", 0x2011BAB0, SIL},
             {"ntfs3", 0x7366746E, SIL},  {"ntfs", 0x5346544E, SIL},  {"hfsplus", 0x482B, SIL},
             {"hfs", 0x4244, SIL}};

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
    ck_assert_msg(why == types[_i].why, "%s: %d", types[_i].name, why);
    ck_assert_msg(trusted(ref) == (why == YES), "%s", types[_i].name);
    ck_assert(htc_watch_refused(watch, &refusal) == (why == NO));
    if (why == NO) {
        ck_assert_uint_eq(refusal.type, (uint32_t)types[_i].type);
        ck_assert_str_eq(refusal.at, "/");
    }
}
END_TEST

/* --- upper and lower case ---------------------------------------------------------------------*/

/* A directory with FS_CASEFOLD_FL: nothing in it is relied on, nor below; what lies beside is. */
START_TEST(folding_directory)
{
    scene();
    folding = at("a/b");
    make_dir("a/b/sub");
    ck_assert_int_eq(trust(at("a/b/.htaccess"), put(at("a/b/.htaccess"), "")), SIL);
    ck_assert_int_eq(trust(at("a/b/sub/.htaccess"), put(at("a/b/sub/.htaccess"), "")), SIL);
    make_link("a/b", "way");
    ck_assert_int_eq(trust(at("way/.first"), put(at("way/.first"), "")), SIL);
    trust_new("a/.htaccess");
    trust_new("a/c/.htaccess");
    stats();
    folding = NULL;
}
END_TEST

/* File systems that were made to fold, found by a directory of theirs: its name in other letters
 * is the same one. */
START_TEST(folding_file_system)
{
    static const struct {
        long type;
        htc_watch_why why;
    } fold[] = {{0x58465342, SIL}, {0x2FC12FC1, SIL}, {0x3153464A, SIL}, {0xEF53, YES}};

    scene();
    fake_type = fold[_i].type;
    folding_names = true;
    ck_assert_int_eq(trust(at("a/b/.htaccess"), put(at("a/b/.htaccess"), "")), fold[_i].why);
    folding_names = false;
    for (int i = 0; i < HTCW_DEVICES; i++)
        watch->header->devices[i].at = 0;
    htc_watch_distrust(watch);
    trust_new("a/b/.htaccess");
    fake_type = -1;
}
END_TEST

/* XFS says of itself whether it folds (1), or not (0); others (-1) are asked by a name with
 * letters, where there is one. */
static const struct {
    const char *name;
    bool folds, names;
    int says;
    htc_watch_why why;
} mounted[] = {
    {"m/.htaccess", true, true, -1, SIL},           {"m/1/.htaccess", true, true, -1, SIL},
    {"m/1/2/.htaccess", true, false, -1, SIL},      {"m/1/page/.htaccess", true, false, -1, SIL},
    {"m/.htaccess", false, true, -1, YES},          {"m/1/page/.htaccess", false, true, -1, YES},
    {"m/1/page/3/.htaccess", false, true, -1, YES}, {"m/4/.htaccess", false, false, -1, SIL},
    {"m/.htaccess", true, false, 1, SIL},           {"m/4/.htaccess", true, false, 1, SIL},
    {"m/.htaccess", false, false, 0, YES},          {"m/4/.htaccess", false, false, 0, YES}};

/* One that is mounted: the name of the mount point says nothing, and names without letters do not
 * either. Where no name tells it is compared. */
START_TEST(folding_mount)
{
    htc_ref ref;

    make_dir("m");
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", at("m"), "tmpfs", 0, NULL) != 0) {
        fprintf(stderr, "skipped: a mount: not allowed here: %s\n", strerror(errno));
        return;
    }
    make_dir("m/1");
    make_dir("m/1/2");
    make_dir("m/1/page");
    make_dir("m/1/page/3");
    make_dir("m/4");
    if (mounted[_i].names) {
        write_text("m/5", "");
        write_text("m/index", "");
        write_text("m/1/index", "");
    }
    fake_type = 0x58465342;
    geometry_says = mounted[_i].says;
    folding_below = mounted[_i].folds ? at("m") : NULL;
    ref = put(at(mounted[_i].name), "");
    ck_assert_int_eq(trust(at(mounted[_i].name), ref), mounted[_i].why);
    ck_assert(trusted(ref) == (mounted[_i].why == YES));
    fake_type = -1;
    geometry_says = -1;
    folding_below = NULL;
    umount(at("m"));
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

/* The node that is looked at is nobody's yet, and goes. */
static void sweep_it_away(void)
{
    htc_watch_sweep(watch, htc_mono_ms() + 100000);
}

static void (*const meddlers[])(void) = {write_meanwhile,  another_file, another_directory,
                                         another_parent,   touch_parent, lose_all,
                                         others_settle_it, sweep_it_away};

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
            htc_watch_sweep(watch, htc_mono_ms() + 100000 * (i + 1));
        stats();
        ck_assert_msg(!htc_watch_troubled(watch, HTC_TROUBLE_DAMAGE), "%d, watch %u: damage", _i,
                      n);
        teardown();
    }
    setup();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch looks");
    TCase *tc = tcase_create("watch looks");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, no_lock_is_held);
    tcase_add_loop_test(tc, file_system_types, 0, (int)(sizeof(types) / sizeof(types[0])));
    tcase_add_test(tc, folding_directory);
    tcase_add_loop_test(tc, folding_file_system, 0, 4);
    tcase_add_loop_test(tc, folding_mount, 0, (int)(sizeof(mounted) / sizeof(mounted[0])));
    tcase_add_test(tc, another_directory_asked);
    tcase_add_loop_test(tc, something_happens_meanwhile, 0,
                        (int)(sizeof(meddlers) / sizeof(meddlers[0])));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
