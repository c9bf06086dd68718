/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched on overlayfs: copy-ups, files of a lower layer with several names,
 * and kernels on which writes are not reported. Skipped where overlayfs cannot be mounted. Run by
 * 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

#include <sched.h>
#include <sys/mount.h>

void htc_crash_point(const char *where)
{
    (void)where;
}

/* Mounts "lower" with "upper" over it at "m", below `dir`. False: that is not allowed here. */
static bool mount_at(const char *dir)
{
    char options[1024], place[512];

    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return false;
    snprintf(options, sizeof(options), "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", dir,
             dir, dir);
    snprintf(place, sizeof(place), "%s/m", dir);
    return mount("overlay", place, "overlay", 0, options) == 0;
}

static bool mount_overlay(void)
{
    make_dir("upper");
    make_dir("work");
    make_dir("m");
    return mount_at(root);
}

static void lower_scene(void)
{
    make_dir("lower");
    make_dir("lower/d");
    make_dir("lower/d/sub");
    write_text("lower/d/.htaccess", "1");
    write_text("lower/d/hard1", "1");
    ck_assert_int_eq(link(at("lower/d/hard1"), at("lower/d/hard2")), 0);
}

static void copy_up_by_write(void)
{
    write_text("m/d/.htaccess", "2");
}

static void copy_up_by_mode(void)
{
    ck_assert_int_eq(chmod(at("m/d/.htaccess"), 0600), 0);
}

static void copy_up_before(void)
{
    int fd = open(at("m/d/.htaccess"), O_WRONLY | O_APPEND);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "2", 1), 1);
    close(fd);
}

static void overlay_replace(void)
{
    write_text("m/d/new", "2");
    move("m/d/new", "m/d/.htaccess");
}

static void overlay_unlink(void)
{
    ck_assert_int_eq(unlink(at("m/d/.htaccess")), 0);
}

static void overlay_link(void)
{
    ck_assert_int_eq(link(at("m/d/.htaccess"), at("m/d/other")), 0);
    write_text("m/d/other", "2");
}

static void overlay_make(void)
{
    write_text("m/d/sub/.htaccess", "1");
}

static void overlay_remake(void)
{
    ck_assert_int_eq(rmdir(at("m/d/sub")), 0);
    make_dir("m/d/sub");
    write_text("m/d/sub/.htaccess", "1");
}

static const struct {
    const char *name;
    void (*edit)(void);
} overlay_edits[] = {{"m/d/.htaccess", copy_up_by_write}, {"m/d/.htaccess", copy_up_by_mode},
                     {"m/d/.htaccess", copy_up_before},   {"m/d/.htaccess", overlay_replace},
                     {"m/d/.htaccess", overlay_unlink},   {"m/d/.htaccess", overlay_link},
                     {"m/d/sub/.htaccess", overlay_make}, {"m/d/sub/.htaccess", overlay_remake}};

START_TEST(overlay_edits_are_seen)
{
    htc_ref ref;

    lower_scene();
    if (!mount_overlay()) {
        fprintf(stderr, "skipped: an overlay: not allowed here: %s\n", strerror(errno));
        return;
    }
    ref = put(at(overlay_edits[_i].name), "");
    if (!watch->overlays) {
        ck_assert_int_eq(trust(at(overlay_edits[_i].name), ref), HTC_WATCH_FILESYSTEM);
    } else {
        trust_new(overlay_edits[_i].name);
        ref = trust_new(overlay_edits[_i].name);
        overlay_edits[_i].edit();
        htc_watch_drain(watch);
        ck_assert_msg(!trusted(ref), "edit %d of %s", _i, overlay_edits[_i].name);
    }
    umount(at("m"));
}
END_TEST

/* The kernel forgets such an inode as soon as nobody uses it, and writes go to another one. */
START_TEST(overlay_hard_links)
{
    lower_scene();
    ck_assert(mount_overlay());
    ck_assert_int_eq(trust(at("m/d/hard1"), put(at("m/d/hard1"), "")),
                     watch->overlays ? HTC_WATCH_SILENT : HTC_WATCH_FILESYSTEM);
    if (watch->overlays)
        trust_new("m/d/.first");
    umount(at("m"));
}
END_TEST

/* A kernel that is too old for it. */
START_TEST(overlay_of_old_kernels)
{
    lower_scene();
    ck_assert(mount_overlay());
    watch->overlays = false;
    ck_assert_int_eq(trust(at("m/d/.htaccess"), put(at("m/d/.htaccess"), "")),
                     HTC_WATCH_FILESYSTEM);
    umount(at("m"));
}
END_TEST

/* In a process of its own, as the mount is in a namespace of its own, which ends with it. */
static bool allowed(void)
{
    static const char *const parts[] = {"lower", "upper", "work", "m"};
    const char *tmp = getenv("TMPDIR");
    char dir[256], part[512];
    int status = 1;
    pid_t child;

    snprintf(dir, sizeof(dir), "%s/check-overlay-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return false;
    for (int i = 0; i < 4; i++) {
        snprintf(part, sizeof(part), "%s/%s", dir, parts[i]);
        mkdir(part, 0700);
    }
    child = fork();
    if (!child)
        _exit(!mount_at(dir));
    if (child > 0 && waitpid(child, &status, 0) != child)
        status = 1;
    remove_tree(dir);
    return status == 0;
}

#define LOOP(tc, test, table) \
    tcase_add_loop_test(tc, test, 0, (int)(sizeof(table) / sizeof((table)[0])))

int main(void)
{
    Suite *suite = suite_create("watch overlay");
    TCase *tc = tcase_create("watch overlay");

    if (!allowed()) {
        puts("overlayfs cannot be mounted here: needs root, and a mount namespace");
        return 77;
    }
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    LOOP(tc, overlay_edits_are_seen, overlay_edits);
    tcase_add_test(tc, overlay_hard_links);
    tcase_add_test(tc, overlay_of_old_kernels);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
