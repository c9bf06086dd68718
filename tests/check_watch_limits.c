/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched: limits, file systems, overflows, unmounts and events that nobody
 * asked for end in doubt, what nobody needs is given up, and what is looked at again is bounded.
 * Those that need the kernel's own limits or a mount make a namespace for themselves, and say so
 * where they may not. Run by 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

void htc_crash_point(const char *where)
{
    (void)where;
}

/* --- namespaces -------------------------------------------------------------------------------*/

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return written;
}

/* This process may limit itself and mount from now on, and nobody else notices. Each test has a
 * process of its own. False where that is not allowed. */
static bool own_namespaces(int others)
{
    char map[64];
    uid_t uid = geteuid();
    gid_t gid = getegid();

    if (unshare(CLONE_NEWUSER | others) != 0)
        return false;
    snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
    if (!write_file("/proc/self/uid_map", map) || !write_file("/proc/self/setgroups", "deny"))
        return false;
    snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
    return write_file("/proc/self/gid_map", map);
}

static void skipped(const char *what)
{
    fprintf(stderr, "skipped: %s: not allowed here: %s\n", what, strerror(errno));
}

/* Another instance than that of the fixture. */
static apr_status_t create_again(const char **why)
{
    return htc_watch_create(&watch, store, 8192, pool, why);
}

/* --- large pages ------------------------------------------------------------------------------*/

static size_t enlarged; /* bytes for which large pages were asked */

int madvise(void *at, size_t bytes, int advice)
{
    if (advice == 25) /* MADV_COLLAPSE */
        enlarged += bytes;
    return (int)syscall(SYS_madvise, at, bytes, advice);
}

/* Large pages are asked for where nodes were taken, each once, and never behind the table. */
START_TEST(nodes_get_large_pages)
{
    static const struct {
        uint32_t fresh;
        size_t pages;
    } steps[] = {{1, 0}, {14000, 1}, {14000, 1}, {60000, 3}, {UINT32_MAX, 3}};
    const char *why;

    ck_assert_int_eq(htc_watch_create(&watch, store, 65536, pool, &why), APR_SUCCESS);
    ck_assert_uint_eq((uintptr_t)watch->base % HTC_LARGE_PAGE, 0);
    enlarged = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        watch->header->fresh = steps[i].fresh;
        htc_watch_enlarge_pages(watch);
        ck_assert_uint_eq(enlarged, steps[i].pages * HTC_LARGE_PAGE);
    }
}
END_TEST

/* --- limits -----------------------------------------------------------------------------------*/

/* As many descriptors as there are: the error is that of too many instances. */
START_TEST(no_instance)
{
    struct rlimit limit;
    const char *why = NULL;
    int fd = dup(0);

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    close(fd);
    limit.rlim_cur = (rlim_t)fd;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(create_again(&why), EMFILE);
    ck_assert_ptr_nonnull(strstr(why, "sysctl fs.inotify.max_user_instances"));
    ck_assert_ptr_nonnull(strstr(why, "limit of open files"));
    /* What there is goes on. */
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    scene();
    htc_ref ref = trust_new("a/b/.htaccess");
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

START_TEST(kernel_limit_of_instances)
{
    const char *why = NULL;

    if (!own_namespaces(0) || !write_file("/proc/sys/user/max_inotify_instances", "0")) {
        skipped("a limit on inotify instances");
        return;
    }
    ck_assert_int_eq(create_again(&why), EMFILE);
    ck_assert_ptr_nonnull(strstr(why, "sysctl fs.inotify.max_user_instances"));
}
END_TEST

/* Children use their parent's instance, and need none. */
START_TEST(children_need_no_instance)
{
    htc_ref ref;
    int status;
    pid_t child;

    scene();
    ref = trust_new("a/b/.htaccess");
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        if (!own_namespaces(0) || !write_file("/proc/sys/user/max_inotify_instances", "0"))
            skipped("a limit on inotify instances of children");
        write_in_place();
        htc_watch_drain(watch);
        if (trusted(ref) || trust(at("a/b/.htaccess"), ref) != HTC_WATCH_OK || !trusted(ref))
            _exit(1);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(trusted(ref));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

/* What was watched before stays so; what was not is not trusted, and tried again later. */
START_TEST(kernel_limit_of_watches)
{
    const char *why = NULL, *path = at("a/b/.htaccess");
    char limit[32];
    htc_ref before, ref;

    if (!own_namespaces(0)) {
        skipped("a limit on inotify watches");
        return;
    }
    scene();
    /* An instance counts where it was made. */
    ck_assert_int_eq(create_again(&why), APR_SUCCESS);
    before = trust_new("a/.htaccess");
    snprintf(limit, sizeof(limit), "%u", kernel_watches());
    if (!write_file("/proc/sys/user/max_inotify_watches", limit)) {
        skipped("a limit on inotify watches");
        return;
    }
    ref = put(path, "");
    ck_assert_int_eq(trust(path, ref), HTC_WATCH_KERNEL);
    ck_assert(!trusted(ref));
    ck_assert_uint_eq(stats().failures[HTC_WATCH_KERNEL], 1);
    ck_assert(trusted(before));
    write_text("a/.htaccess", "two");
    htc_watch_drain(watch);
    ck_assert(!trusted(before));
    /* Raised, and HTC_WATCH_RETRY_MS later. */
    ck_assert(write_file("/proc/sys/user/max_inotify_watches", "1000"));
    ck_assert_int_eq(trust(path, ref), HTC_WATCH_KERNEL);
    for (uint32_t i = 0; i < watch->header->fresh; i++)
        watch->nodes[i].since -= HTC_WATCH_RETRY_MS;
    ck_assert_int_eq(trust(path, ref), HTC_WATCH_OK);
    ck_assert(trusted(ref));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

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

static const char *const links_to_proc[] = {"/proc/sys", "//proc/sys", "/../proc/sys",
                                            "/./proc//sys"};

/* The place is named by its own path, however a link to it is written. */
START_TEST(refused_behind_a_link)
{
    htc_watch_refusal one;
    const char *path;

    scene();
    make_link(links_to_proc[_i], "a/link");
    path = apr_pstrdup(pool, at("a/link/.htaccess"));
    ck_assert_int_eq(trust(path, put(path, "")), HTC_WATCH_FILESYSTEM);
    ck_assert(htc_watch_refused(watch, &one));
    ck_assert_str_eq(one.at, "/proc");
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
    ck_assert(htc_watch_troubled(watch, HTC_TROUBLE_OVERFLOW));
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_OVERFLOW));
    trust(at("a/b/.htaccess"), ref);
    ck_assert(trusted(ref));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

/* --- unmounts ---------------------------------------------------------------------------------*/

/* "m" becomes a file system of its own, of memory. */
static bool mount_here(void)
{
    make_dir("m");
    if ((geteuid() != 0 || unshare(CLONE_NEWNS) != 0) && !own_namespaces(CLONE_NEWNS))
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", at("m"), "tmpfs", 0, "size=1m,mode=0755") == 0;
}

static const char *const mounted[] = {"m/.htaccess", "m/d/.htaccess", "m/d/none", "links/m/none",
                                      "m/e/absent/.htaccess"};

#define MOUNTED (sizeof(mounted) / sizeof(mounted[0]))

/* All that was watched there is in doubt, and nothing else. */
START_TEST(unmount)
{
    htc_ref refs[MOUNTED], other, beside;

    scene();
    if (!mount_here()) {
        skipped("an unmount");
        return;
    }
    make_dir("m/d");
    make_dir("m/e");
    write_text("m/.htaccess", "one");
    write_text("m/d/.htaccess", "one");
    make_link("../m", "links/m");
    other = trust_new("a/b/.htaccess");
    beside = trust_new("n/.htaccess");
    for (size_t i = 0; i < MOUNTED; i++)
        refs[i] = trust_new(mounted[i]);
    htc_watch_drain(watch);
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_UNMOUNT));
    ck_assert_int_eq(umount(at("m")), 0);
    htc_watch_drain(watch);
    for (size_t i = 0; i < MOUNTED; i++)
        ck_assert_msg(!trusted(refs[i]), "%s", mounted[i]);
    ck_assert(trusted(other) && trusted(beside));
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 0);
    ck_assert(htc_watch_troubled(watch, HTC_TROUBLE_UNMOUNT));
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_UNMOUNT));
    stats();
    /* The directory that it was mounted over. */
    for (size_t i = 0; i < MOUNTED; i++)
        ck_assert_int_eq(trust(at(mounted[i]), refs[i]), HTC_WATCH_OK);
    write_text("m/.htaccess", "two");
    htc_watch_drain(watch);
    ck_assert(!trusted(refs[0]) && trusted(refs[1]));
    make_dir("m/d");
    htc_watch_drain(watch);
    ck_assert(!trusted(refs[1]) && !trusted(refs[2]));
}
END_TEST

/* Another file system is mounted there that is given the same device number: it is not taken for
 * the one of before. */
START_TEST(mounted_again)
{
    struct stat before, after;
    htc_ref ref;

    scene();
    if (!mount_here()) {
        skipped("an unmount");
        return;
    }
    trust_new("m/.htaccess");
    ck_assert_int_eq(stat(at("m"), &before), 0);
    ck_assert_int_eq(umount(at("m")), 0);
    if (mount("hugetlbfs", at("m"), "hugetlbfs", 0, NULL) != 0 || stat(at("m"), &after) != 0 ||
        before.st_dev != after.st_dev) {
        skipped("a device number that is given again");
        return;
    }
    htc_watch_drain(watch);
    ref = put(at("m/.htaccess"), "");
    ck_assert_int_eq(trust(at("m/.htaccess"), ref), HTC_WATCH_FILESYSTEM);
    ck_assert(!trusted(ref));
    umount(at("m"));
}
END_TEST

/* --- events that nobody asked for -------------------------------------------------------------*/

/* As if the kernel had reported it. */
static void report(int32_t wd, uint32_t mask)
{
    struct inotify_event event = {.wd = wd, .mask = mask};
    int ends[2], instance = dup(watch->fd);

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(write(ends[1], &event, sizeof(event)), sizeof(event));
    ck_assert_int_eq(dup2(ends[0], watch->fd), watch->fd);
    htc_watch_drain(watch);
    ck_assert_int_eq(dup2(instance, watch->fd), watch->fd);
    close(ends[0]);
    close(ends[1]);
    close(instance);
}

static int32_t some_wd(void)
{
    for (uint32_t i = 0; i < watch->header->fresh; i++) {
        if (watch->nodes[i].wd >= 0)
            return watch->nodes[i].wd;
    }
    return -1;
}

/* Each bit that a mask may have, of a watch that there is and of one that there is not. */
START_TEST(unknown_event)
{
    uint32_t bit = UINT32_C(1) << _i;
    bool known = (bit & HTCW_EVENTS) != 0, told = false;

    scene();
    for (int round = 0; round < 2 && !known; round++) {
        htc_ref ref = trust_new("a/b/.htaccess"), other = trust_new("links/deep/.first");
        uint64_t distrusts = htc_counter_read(store, HTC_C_distrusts);

        report(round ? 1000000 : some_wd(), bit);
        ck_assert_msg(!trusted(ref) && !trusted(other), "bit %d", _i);
        ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), distrusts + 1);
        ck_assert(htc_watch_troubled(watch, HTC_TROUBLE_UNKNOWN) != told);
        told = true;
        /* And on it goes. */
        ck_assert_int_eq(trust(at("a/b/.htaccess"), ref), HTC_WATCH_OK);
        ck_assert(trusted(ref));
        write_in_place();
        htc_watch_drain(watch);
        ck_assert(!trusted(ref));
    }
    ck_assert_int_eq(known, (IN_ALL_EVENTS & bit & ~(IN_ACCESS | IN_OPEN | IN_CLOSE_NOWRITE)) ||
                                (bit & (IN_ISDIR | IN_IGNORED | IN_UNMOUNT | IN_Q_OVERFLOW)));
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

/* Only the sweep doubts unprompted: not whoever publishes an edit, looks at a file or claims it. */
START_TEST(who_doubts)
{
    htc_ref edited, other;

    scene();
    edited = trust_new("a/b/.htaccess");
    other = trust_new("links/deep/.first");
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!trusted(edited) && !htc_mark_is_unprompted(atomic_load(mark_of(edited))));
    ck_assert(!htc_mark_is_unprompted(htc_watch_fresh(watch)));
    ck_assert(!htc_mark_is_unprompted(htc_watch_unverified(watch)));
    for (int i = 0; i < 20 && trusted(other); i++)
        htc_watch_sweep(watch, 5000000 + 1000 * i);
    ck_assert(htc_mark_is_unprompted(atomic_load(mark_of(other))));
    /* An edit takes that back. */
    ck_assert_int_eq(trust(at("a/b/.htaccess"), edited), HTC_WATCH_OK);
    for (int i = 20; i < 40 && trusted(edited); i++)
        htc_watch_sweep(watch, 5000000 + 1000 * i);
    ck_assert(htc_mark_is_unprompted(atomic_load(mark_of(edited))));
    write_in_place();
    htc_watch_drain(watch);
    ck_assert(!htc_mark_is_unprompted(atomic_load(mark_of(edited))));
}
END_TEST

/* The owner of a file may write to it through a mapping as often as he likes. */
START_TEST(untrue_is_bounded)
{
    htc_ref ref;

    scene();
    ref = trust_new("a/b/.htaccess");
    htc_watch_untrue(watch, 5000000);
    ck_assert(!trusted(ref));
    for (int i = 1; i <= 100; i++)
        htc_watch_untrue(watch, 5000000 + i * (HTC_WATCH_NET_MS - 1) / 100);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 1);
    htc_watch_untrue(watch, 5000000 + HTC_WATCH_NET_MS);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 2);
}
END_TEST

/* However many are trusted: no more than so many of them become doubtful each second, to the one.
 * Nor are all nodes looked at each second for those that nobody needs.
 */
START_TEST(safety_net_is_bounded)
{
    enum { RECORDS = 4 * HTC_WATCH_NET_RATE };
    static htc_ref refs[RECORDS];
    int64_t now = 5000000;
    int doubtful = 0;
    char name[32];

    for (int i = 0; i < RECORDS; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        refs[i] = trust_new(name);
    }
    /* As many nodes as make a tenth of them more than that. */
    watch->header->fresh = 8000;
    for (uint32_t i = (uint32_t)watch->header->used; i < 8000; i++)
        watch->nodes[i].parent = HTCW_NIL;
    watch->header->hand = 0;
    for (int sweeps = 1; sweeps <= 4; sweeps++) {
        htc_watch_sweep(watch, now += 1000);
        htc_watch_sweep(watch, now + 999); /* the same second: nothing */
        ck_assert_uint_eq(watch->header->hand, (uint32_t)sweeps * HTCW_STEP);
        doubtful = 0;
        for (int i = 0; i < RECORDS; i++)
            doubtful += !trusted(refs[i]);
        ck_assert_int_eq(doubtful, sweeps * HTC_WATCH_NET_RATE);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch limits");
    TCase *tc = tcase_create("watch limits");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, nodes_get_large_pages);
    tcase_add_test(tc, no_instance);
    tcase_add_test(tc, kernel_limit_of_instances);
    tcase_add_test(tc, children_need_no_instance);
    tcase_add_test(tc, kernel_limit_of_watches);
    tcase_add_test(tc, no_more_watches);
    tcase_add_test(tc, full_tree);
    tcase_add_test(tc, other_file_systems);
    tcase_add_test(tc, refused_file_systems);
    tcase_add_loop_test(tc, refused_behind_a_link, 0, 4);
    tcase_add_test(tc, overflow);
    tcase_add_test(tc, unmount);
    tcase_add_test(tc, mounted_again);
    tcase_add_loop_test(tc, unknown_event, 0, 32);
    tcase_add_test(tc, churn_leaks_nothing);
    tcase_add_test(tc, records_that_are_gone);
    tcase_add_test(tc, safety_net);
    tcase_add_test(tc, safety_net_is_bounded);
    tcase_add_test(tc, who_doubts);
    tcase_add_test(tc, untrue_is_bounded);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
