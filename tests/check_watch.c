/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched, with the kernel's own inotify and files in a directory of their
 * own: every kind of change makes the records doubtful that it concerns and no others. Limits are
 * in check_watch_limits.c, looks during which something happens in check_watch_looks.c, processes
 * that die or work at once in check_watch_processes.c. Run by 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

void htc_crash_point(const char *where)
{
    (void)where;
}

/* --- changes ----------------------------------------------------------------------------------*/

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

static void replace_parent(void)
{
    move("a", "away");
    make_dir("a");
}

static void close_directory(void)
{
    chmod(at("a"), 0700);
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
    int64_t fresh = htc_watch_fresh(watch), own = htc_watch_unverified(watch);
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
    int64_t last = htc_watch_unverified(watch);

    for (int i = 0; i < 100000; i++) {
        int64_t next = htc_watch_unverified(watch);

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
    bool whole;

    ck_assert_int_ne(fresh, htc_watch_word_fresh(watch, 7 + HTC_WATCH_WORDS));
    write_text("map.txt", "one");
    ck_assert_int_eq(htc_watch_word(watch, at("map.txt"), 7, &whole), HTC_WATCH_OK);
    atomic_store(word, fresh);
    htc_watch_drain(watch);
    ck_assert_int_eq(atomic_load(word), fresh);
    write_text("map.txt", "two");
    htc_watch_drain(watch);
    ck_assert_int_lt(atomic_load(word), 0);
}
END_TEST

static bool is_whole(const char *name)
{
    bool whole;

    htc_watch_drain(watch);
    ck_assert_int_eq(htc_watch_word(watch, at(name), 7, &whole), HTC_WATCH_OK);
    return whole;
}

/* Also of a file that changed twice, if others alone were asked for in between. */
START_TEST(writing_is_told_later)
{
    write_text("map.txt", "one");
    is_whole("map.txt");
    write_text("map.txt", "two");
    htc_watch_drain(watch);
    for (int i = 1; i < 12; i++)
        htc_watch_sweep(watch, htc_mono_ms() + 40000 + 1000 * i);
    write_text("map.txt", "three");
    ck_assert(is_whole("map.txt"));
}
END_TEST

/* Whether a file is complete is told by who wrote it: it is closed, or gets its name. By the file's
 * own name and through links. */
START_TEST(writing_is_told)
{
    static const char *const names[] = {"map.txt", "link", "linked/map.txt"};
    const char *name = names[_i];
    int fd;

    write_text("map.txt", "one");
    make_link("map.txt", "link");
    make_link(".", "linked");
    ck_assert_msg(!is_whole(name), "not known at first");
    fd = open(at("map.txt"), O_WRONLY | O_TRUNC);
    ck_assert_int_ge(fd, 0);
    ck_assert_msg(!is_whole(name), "emptied");
    ck_assert_int_eq(write(fd, "two", 3), 3);
    ck_assert_msg(!is_whole(name), "in the middle");
    close(fd);
    ck_assert_msg(is_whole(name), "closed");
    ck_assert_int_eq(chmod(at("map.txt"), 0600), 0);
    ck_assert_msg(is_whole(name), "other rights");
    fd = open(at("map.txt"), O_WRONLY | O_APPEND);
    ck_assert_int_eq(write(fd, "3", 1), 1);
    ck_assert_msg(!is_whole(name), "appended to");
    close(fd);
    ck_assert_int_eq(unlink(at("map.txt")), 0);
    fd = open(at("map.txt"), O_WRONLY | O_CREAT, 0644);
    ck_assert_msg(!is_whole(name), "made anew");
    close(fd);
    ck_assert_msg(is_whole(name), "and closed");
    write_text("new", "four");
    move("new", "map.txt");
    ck_assert_msg(is_whole(name), "moved into place");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch");
    TCase *tc = tcase_create("watch");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, change_is_seen, 0, (int)(sizeof(concerned) / sizeof(concerned[0])));
    tcase_add_loop_test(tc, others_are_left_alone, 0, (int)(sizeof(others) / sizeof(others[0])));
    tcase_add_test(tc, switched_twice);
    tcase_add_test(tc, late_change);
    tcase_add_test(tc, links_in_a_circle);
    tcase_add_test(tc, doubts_differ);
    tcase_add_test(tc, words);
    tcase_add_test(tc, writing_is_told_later);
    tcase_add_loop_test(tc, writing_is_told, 0, 3);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
