/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched, at its edges: several things that depend on one path, directories
 * that may be passed but not read, and the work that one tenant can make for others,
 * which is counted in nodes visited under one hold of the lock. Run by 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

#include <sys/syscall.h>

void htc_crash_point(const char *where)
{
    (void)where;
}

/* Events of one read and what is done beside a step. */
#define HOLD (HTCW_STEP + 64 * (4 * HTCW_PEERS + 16))

static const char *numbered(const char *format, int n)
{
    static char names[8][64];
    static unsigned next;
    char *name = names[next++ % 8];

    snprintf(name, sizeof(names[0]), format, n);
    return name;
}

/* --- several dependents -----------------------------------------------------------------------*/

static bool word_trusted(uint32_t word)
{
    return atomic_load(htc_watch_word_at(watch, word)) == htc_watch_word_fresh(watch, word);
}

static void trust_word(const char *name, uint32_t word)
{
    _Atomic int64_t *mark = htc_watch_word_at(watch, word);
    int64_t fresh = htc_watch_word_fresh(watch, word), own = htc_watch_unverified(watch);
    bool whole;

    atomic_store(mark, own);
    ck_assert_int_eq(htc_watch_word(watch, at(name), word, &whole), HTC_WATCH_OK);
    ck_assert(atomic_compare_exchange_strong(mark, &own, fresh));
}

static void write_map(void)
{
    write_text("maps/one", "2");
}

static void write_by_other_name(void)
{
    write_text("maps/hard", "3");
}

static void replace_map(void)
{
    write_text("maps/new", "4");
    move("maps/new", "maps/one");
}

static void touch_directory(void)
{
    ck_assert_int_eq(chmod(at("maps"), 0700), 0);
    ck_assert_int_eq(chmod(at("maps"), 0755), 0);
}

static void (*const map_edits[])(void) = {write_map, write_by_other_name, touch_directory,
                                          replace_map};

/* One file, named by itself, by a link, through a linked directory and by a hard link; by two words
 * and a record each. Whatever happens to it, all of them are doubtful afterwards. */
START_TEST(many_depend_on_one_file)
{
    static const char *const names[] = {"maps/one", "maps/link", "linked/one", "maps/hard"};
    const size_t all = sizeof(names) / sizeof(names[0]);
    htc_ref refs[4];

    make_dir("maps");
    write_text("maps/one", "1");
    make_link("one", "maps/link");
    make_link("maps", "linked");
    ck_assert_int_eq(link(at("maps/one"), at("maps/hard")), 0);
    for (int round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < all; i++) {
            trust_word(names[i], 2 * i);
            refs[i] = trust_new(names[i]);
            trust_word(names[i], 2 * i + 1);
        }
        for (uint32_t i = 0; i < all; i++)
            ck_assert(word_trusted(2 * i) && word_trusted(2 * i + 1) && trusted(refs[i]));
        map_edits[_i]();
        htc_watch_drain(watch);
        for (uint32_t i = 0; i < all; i++) {
            if (map_edits[_i] == replace_map && i == 3)
                continue; /* a file of its own since then */
            ck_assert_msg(!word_trusted(2 * i) && !word_trusted(2 * i + 1), "%s, %d", names[i], _i);
            ck_assert_msg(!trusted(refs[i]), "%s, %d", names[i], _i);
        }
    }
    /* What nothing depends on is given up, words as well. */
    htc_watch_distrust(watch);
    for (int i = 1; i < 12; i++)
        htc_watch_sweep(watch, htc_mono_ms() + HTC_WATCH_WORD_MS + 1000 * i);
    ck_assert_uint_eq(stats().watches, 1);
}
END_TEST

/* --- the limit on watches, and what is not a regular file -------------------------------------*/

/* At the limit, what has a watch goes on, also when it was doubted, and names beside it. */
START_TEST(watched_already_at_the_limit)
{
    htc_ref file, beside;

    make_dir("a");
    make_dir("b");
    write_text("a/.htaccess", "1");
    file = trust_new("a/.htaccess");
    watch->own_limit = stats().watches;
    ck_assert_int_eq(trust(at("b/.htaccess"), put(at("b/.htaccess"), "")), HTC_WATCH_KERNEL);
    beside = trust_new("a/.first");
    write_text("a/.htaccess", "2");
    write_text("a/.first", "1");
    htc_watch_drain(watch);
    ck_assert(!trusted(file) && !trusted(beside));
    ck_assert_int_eq(trust(at("a/.htaccess"), file), HTC_WATCH_OK);
    ck_assert_int_eq(trust(at("a/.first"), beside), HTC_WATCH_KERNEL);
    ck_assert(trusted(file) && !trusted(beside));
    htc_watch_distrust(watch);
    ck_assert_int_eq(trust(at("a/.htaccess"), file), HTC_WATCH_OK);
}
END_TEST

static void make_fifo(void)
{
    ck_assert_int_eq(mkfifo(at("a/.htaccess"), 0644), 0);
}

static void make_directory(void)
{
    make_dir("a/.htaccess");
}

static void make_link_to_fifo(void)
{
    ck_assert_int_eq(mkfifo(at("a/fifo"), 0644), 0);
    make_link("fifo", "a/.htaccess");
}

static void make_dangling_link(void)
{
    make_link("nothing", "a/.htaccess");
}

static void make_circle(void)
{
    make_link(".htaccess", "a/.htaccess");
}

static void (*const odd_ones[])(void) = {make_fifo, make_directory, make_link_to_fifo,
                                         make_dangling_link, make_circle};

/* What is neither absent nor a file costs a few looks, once. */
START_TEST(not_a_regular_file)
{
    const char *path = at("a/.htaccess");
    uint64_t looks;
    htc_ref ref;

    make_dir("a");
    odd_ones[_i]();
    ref = put(path, "");
    looks = watch->looks;
    trust(path, ref);
    ck_assert_msg(watch->looks - looks < 60, "%u looks", (unsigned)(watch->looks - looks));
    looks = watch->looks;
    trust(path, ref);
    ck_assert_uint_lt(watch->looks - looks, 2);
    remove(path);
    write_text("a/.htaccess", "1");
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
    ck_assert_int_eq(trust(path, ref), HTC_WATCH_OK);
    write_text("a/.htaccess", "2");
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
}
END_TEST

/* --- what one tenant costs others -------------------------------------------------------------*/

static void soft(int n)
{
    make_link("../shared", numbered("l/%d", n));
}

static void dangling(int n)
{
    make_link("../nothing", numbered("l/%d", n));
}

static void hard(int n)
{
    ck_assert_int_eq(link(at("shared/.htaccess"), at(numbered("l/%d", n))), 0);
}

static const struct {
    void (*make)(int n);
    const char *path;
} many[] = {{soft, "l/%d/.htaccess"}, {dangling, "l/%d"}, {hard, "l/%d"}};

/* More names of one place than share a watch: the rest cannot be watched; all edits are seen, and
 * an event visits few nodes. */
START_TEST(many_names_of_one_place)
{
    enum { NAMES = 1000 };
    static htc_ref refs[NAMES];
    unsigned watched = 0;

    make_dir("l");
    make_dir("shared");
    write_text("shared/.htaccess", "1");
    for (int i = 0; i < NAMES; i++) {
        const char *path;

        many[_i].make(i);
        path = at(numbered(many[_i].path, i));
        refs[i] = put(path, "");
        switch (trust(path, refs[i])) {
        case HTC_WATCH_OK:
            watched++;
            break;
        case HTC_WATCH_PATH:
            break;
        default:
            ck_abort_msg("%s", path);
        }
    }
    ck_assert_uint_ge(watched, HTCW_PEERS / 2);
    ck_assert_uint_le(watched, HTCW_PEERS);
    watch->most_visits = 0;
    for (int i = 0; i < 10; i++)
        write_text("shared/.htaccess", "2");
    write_text("nothing", "");
    htc_watch_drain(watch);
    ck_assert_msg(watch->most_visits <= HOLD, "%u", watch->most_visits);
    for (int i = 0; i < NAMES; i++)
        ck_assert_msg(!trusted(refs[i]), "%d", i);
    /* One event, alone. */
    trust(at(numbered(many[_i].path, 0)), refs[0]);
    watch->most_visits = 0;
    write_text("shared/new", "");
    htc_watch_drain(watch);
    ck_assert_msg(watch->most_visits <= 8 * HTCW_PEERS, "%u", watch->most_visits);
    /* And what is given up. */
    for (int i = 0; i < NAMES; i++)
        htc_store_drop(store, refs[i]);
    watch->most_visits = 0;
    for (int i = 1; i < 12; i++)
        htc_watch_sweep(watch, htc_mono_ms() + 40000 + 1000 * i);
    ck_assert_msg(watch->most_visits <= 2 * HTCW_STEP, "%u", watch->most_visits);
    ck_assert_uint_eq(stats().watches, 1);
}
END_TEST

enum { FILES = 1500 };
static htc_ref files[FILES];

static void trust_files(void)
{
    make_dir("big");
    make_link("big", "alias");
    for (int i = 0; i < FILES; i++) {
        const char *path = at(numbered(i % 100 ? "big/no%d" : "alias/no%d", i));

        files[i] = put(path, "");
        ck_assert_int_eq(trust(path, files[i]), HTC_WATCH_OK);
    }
}

static unsigned doubted(void)
{
    unsigned n = 0;

    for (int i = 0; i < FILES; i++) {
        ck_assert_uint_eq(atomic_load(&htc_store_slot(store, files[i].slot)->version),
                          files[i].version);
        n += !trusted(files[i]);
    }
    return n;
}

/* All below a directory that moves is doubtful for the next request, though it is done in steps. */
START_TEST(large_tree_moves)
{
    trust_files();
    ck_assert_uint_eq(doubted(), 0);
    watch->most_visits = 0;
    move("big", "away");
    htc_watch_drain(watch);
    ck_assert_uint_eq(doubted(), FILES);
    ck_assert_msg(watch->most_visits <= HOLD, "%u", watch->most_visits);
    ck_assert_uint_eq(atomic_load(&watch->header->busy), 0);
}
END_TEST

/* Who took the event dies, or goes on with something else, between two steps: whoever drains next
 * goes on, although the kernel's queue is empty. */
START_TEST(steps_are_finished_by_others)
{
    htc_ref other;

    trust_files();
    make_dir("beside");
    other = trust_new("beside/.htaccess");
    ck_assert(htcw_lock(watch, true));
    htcw_doom(watch, htcw_find_child(watch, HTCW_ROOT,
                                     htcw_name_hash(watch, root + 1, strcspn(root + 1, "/"))));
    ck_assert(!htcw_doom_some(watch));
    htcw_unlock(watch);
    ck_assert_uint_lt(doubted(), FILES);
    ck_assert_uint_eq(atomic_load(&watch->header->busy), 1);
    /* Settled again meanwhile, and doomed all the same. */
    trust(at("big/no1"), files[1]);
    htc_watch_drain(watch);
    ck_assert_uint_ge(doubted(), FILES - 1);
    ck_assert(!trusted(other));
    ck_assert_uint_eq(atomic_load(&watch->header->busy), 0);
    ck_assert_int_eq(trust(at("big/no1"), files[1]), HTC_WATCH_OK);
    write_text("big/no1", "");
    htc_watch_drain(watch);
    ck_assert(!trusted(files[1]));
}
END_TEST

START_TEST(many_events)
{
    htc_ref ref;

    make_dir("a");
    ref = trust_new("a/.htaccess");
    for (int i = 0; i < 2000; i++)
        write_text(numbered("a/new%d", i), "");
    write_text("a/.htaccess", "");
    watch->most_visits = 0;
    htc_watch_drain(watch);
    ck_assert(!trusted(ref));
    ck_assert_msg(watch->most_visits <= HOLD, "%u", watch->most_visits);
}
END_TEST

START_TEST(sweeps_in_steps)
{
    trust_files();
    for (int i = 0; i < FILES; i++)
        htc_store_drop(store, files[i]);
    watch->most_visits = 0;
    for (int i = 1; i < 5; i++)
        htc_watch_sweep(watch, htc_mono_ms() + 40000 + 1000 * i);
    ck_assert_uint_lt(stats().nodes, 10);
    ck_assert_msg(watch->most_visits <= 2 * HTCW_STEP, "%u", watch->most_visits);
}
END_TEST

/* As many numbers as one killed process may leave unknown. */
START_TEST(strays_in_steps)
{
    trust_files();
    watch->header->last_wd = 100000;
    watch->header->adding[0].after = 5;
    watch->header->adding[0].pid = INT32_MAX;
    watch->header->adding[1].after = INT32_MAX - 3;
    watch->header->adding[1].pid = INT32_MAX - 1;
    watch->most_visits = 0;
    for (int i = 1; i < 40; i++)
        htc_watch_sweep(watch, 5000000 + 1000 * i);
    ck_assert_msg(watch->most_visits <= 2 * HTCW_STEP, "%u", watch->most_visits);
    ck_assert_int_eq(watch->header->adding[0].pid, 0);
    ck_assert_int_eq(watch->header->stray, watch->header->stray_end);
}
END_TEST

/* All that was watched may be unknown when the tree was emptied: given up by and by, too. */
START_TEST(emptied_in_steps)
{
    trust_files();
    watch->header->last_wd = 100000;
    ck_assert(htcw_lock(watch, true));
    watch->damaged = true;
    htcw_unlock(watch);
    ck_assert_msg(watch->visits <= 2 * HTCW_STEP, "%u", watch->visits);
    ck_assert_int_lt(watch->header->stray, watch->header->stray_end);
    watch->most_visits = 0;
    for (int i = 1; i < 40; i++)
        htc_watch_sweep(watch, 5000000 + 1000 * i);
    ck_assert_msg(watch->most_visits <= 2 * HTCW_STEP, "%u", watch->most_visits);
    ck_assert_int_eq(watch->header->stray, watch->header->stray_end);
    ck_assert_uint_eq(kernel_watches(), 0);
}
END_TEST

/* When room is short, a user who has his share of it gets no more; others do. */
START_TEST(share_of_one_user)
{
    htc_watch_why why = HTC_WATCH_OK;
    int n = 0;

    if (geteuid() != 0) {
        fprintf(stderr, "skipped: files of several users: only root may make them\n");
        return;
    }
    make_dir("first");
    make_dir("second");
    ck_assert_int_eq(chown(at("first"), 10001, 10001), 0);
    ck_assert_int_eq(chown(at("second"), 10002, 10002), 0);
    for (; why == HTC_WATCH_OK && n < 8192; n++)
        why = trust(at(numbered("first/no%d", n)), put(at(numbered("first/no%d", n)), ""));
    ck_assert_int_eq(why, HTC_WATCH_FULL);
    ck_assert_int_gt(n, 8192 / 2);
    ck_assert_int_lt(n, 8192 * 7 / 8);
    /* A link does not make it somebody else's. */
    ck_assert_int_eq(symlink(at("second"), at("first/link")), 0);
    ck_assert_int_eq(lchown(at("first/link"), 10002, 10002), 0);
    htc_watch_drain(watch);
    ck_assert_int_eq(trust(at("first/link/no"), put(at("first/link/no"), "")), HTC_WATCH_FULL);
    for (int i = 0; i < 500; i++)
        trust_new(numbered("second/no%d", i));
    trust_new("roots");
}
END_TEST

/* --- directories that may be passed but not read ----------------------------------------------*/

static void blind_scene(void)
{
    make_dir("x");
    make_dir("x/pub");
    make_dir("x/empty");
    make_dir("x/blind");
    make_dir("x/blind/deep");
    write_text("x/pub/page", "");
    write_text("x/blind/deep/page", "");
    write_text("x/.htaccess", "1");
    write_text("x/pub/.htaccess", "1");
    write_text("x/twin", "1");
    ck_assert_int_eq(link(at("x/twin"), at("x/twin2")), 0);
    make_link("pub", "x/link");
    make_link("x/pub", "way");
    if (geteuid() == 0) {
        static const char *const all[] = {
            "",           "x",           "x/pub",           "x/empty", "x/blind", "x/blind/deep",
            "x/pub/page", "x/.htaccess", "x/pub/.htaccess", "x/twin"};
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
            ck_assert_int_eq(lchown(at(all[i]), 10001, 10001), 0);
        ck_assert_int_eq(seteuid(10001), 0);
    }
    ck_assert_int_eq(chmod(at("x/blind"), 0311), 0);
    ck_assert_int_eq(chmod(at("x"), 0311), 0);
}

static void end_blind(void)
{
    chmod(at("x"), 0755);
    chmod(at("x/blind"), 0755);
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}

static const struct {
    const char *name;
    htc_watch_why why;
} blind[] = {
    {"x/.first", HTC_WATCH_DENIED}, /* absence cannot be watched */
    {"x/none/.htaccess", HTC_WATCH_DENIED},
    {"x/.htaccess", HTC_WATCH_OK}, /* a file can */
    {"x/pub/.htaccess", HTC_WATCH_OK},
    {"x/pub/.first", HTC_WATCH_OK}, /* so can what lies in a directory there */
    {"x/pub/no/.first", HTC_WATCH_OK},
    {"way/.first", HTC_WATCH_OK},
    {"x/empty/.first", HTC_WATCH_DENIED},   /* which can be removed unnoticed */
    {"x/link/.htaccess", HTC_WATCH_DENIED}, /* a link has no watch of its own */
    {"x/page/.htaccess", HTC_WATCH_DENIED},
    {"x/blind/deep/.first", HTC_WATCH_DENIED}, /* nobody tells of x/blind */
};

START_TEST(blind_directories)
{
    blind_scene();
    for (size_t i = 0; i < sizeof(blind) / sizeof(blind[0]); i++) {
        htc_ref ref = put(at(blind[i].name), "");
        htc_watch_why why = trust(at(blind[i].name), ref);

        ck_assert_msg(why == blind[i].why, "%s: %d", blind[i].name, why);
        ck_assert(trusted(ref) == (why == HTC_WATCH_OK));
    }
    stats();
    /* Given the right to read it: told of. */
    ck_assert_int_eq(chmod(at("x"), 0755), 0);
    htc_watch_drain(watch);
    for (size_t i = 0; i < sizeof(blind) / sizeof(blind[0]); i++) {
        if (strncmp(blind[i].name, "x/blind", 7))
            trust_new(blind[i].name);
    }
    end_blind();
}
END_TEST

/* Two names of one file: what is reported could be the other's. It is compared then. */
START_TEST(blind_twins)
{
    htc_ref one, two;

    blind_scene();
    one = put(at("x/twin"), "");
    two = put(at("x/twin2"), "");
    ck_assert_int_eq(trust(at("x/twin"), one), HTC_WATCH_OK);
    ck_assert_int_eq(trust(at("x/twin2"), two), HTC_WATCH_DENIED);
    write_text("x/twin2", "2");
    htc_watch_drain(watch);
    ck_assert(!trusted(one) && !trusted(two));
    end_blind();
}
END_TEST

static void write_file_there(void)
{
    write_text("x/.htaccess", "2");
}

static void replace_file_there(void)
{
    write_text("x/new", "2");
    move("x/new", "x/.htaccess");
}

static void remove_file_there(void)
{
    ck_assert_int_eq(unlink(at("x/.htaccess")), 0);
    write_text("x/.htaccess", "2");
}

static void exchange_file_there(void)
{
    write_text("x/new", "2");
    ck_assert_int_eq(syscall(SYS_renameat2, AT_FDCWD, at("x/new"), AT_FDCWD, at("x/.htaccess"), 2),
                     0);
}

static void chmod_file_there(void)
{
    ck_assert_int_eq(chmod(at("x/.htaccess"), 0600), 0);
}

static void make_there(void)
{
    write_text("x/pub/.first", "1");
}

static void replace_there(void)
{
    move("x/pub", "x/away");
    make_dir("x/pub");
    write_text("x/pub/.first", "1");
}

static void exchange_there(void)
{
    make_dir("x/new");
    write_text("x/new/.first", "1");
    ck_assert_int_eq(syscall(SYS_renameat2, AT_FDCWD, at("x/new"), AT_FDCWD, at("x/pub"), 2), 0);
}

static void rename_over(void)
{
    make_dir("x/new");
    write_text("x/new/.first", "1");
    unlink(at("x/pub/page"));
    unlink(at("x/pub/.htaccess"));
    move("x/new", "x/pub");
}

/* Somebody has the directory open, so that its end is not reported. */
static void remake_there(void)
{
    int fd = open(at("x/pub"), O_RDONLY | O_DIRECTORY);

    ck_assert_int_ge(fd, 0);
    unlink(at("x/pub/page"));
    unlink(at("x/pub/.htaccess"));
    ck_assert_int_eq(rmdir(at("x/pub")), 0);
    make_dir("x/pub");
    write_text("x/pub/.first", "1");
}

static void empty_then_remake_there(void)
{
    htc_ref ref = put(at("x/pub/.first"), "");
    int fd = open(at("x/pub"), O_RDONLY | O_DIRECTORY);

    ck_assert_int_ge(fd, 0);
    unlink(at("x/pub/page"));
    move("x/pub/.htaccess", "x/kept");
    htc_watch_drain(watch);
    ck_assert_int_eq(trust(at("x/pub/.first"), ref), HTC_WATCH_DENIED);
    ck_assert_int_eq(rmdir(at("x/pub")), 0);
    make_dir("x/pub");
    write_text("x/pub/.first", "1");
}

static void move_blind_one(void)
{
    move("x", "y");
}

static const struct {
    const char *name;
    void (*edit)(void);
} blind_edits[] = {{"x/.htaccess", write_file_there},  {"x/.htaccess", replace_file_there},
                   {"x/.htaccess", remove_file_there}, {"x/.htaccess", exchange_file_there},
                   {"x/.htaccess", chmod_file_there},  {"x/.htaccess", move_blind_one},
                   {"x/pub/.first", make_there},       {"x/pub/.first", replace_there},
                   {"x/pub/.first", exchange_there},   {"x/pub/.first", rename_over},
                   {"x/pub/.first", remake_there},     {"x/pub/.first", empty_then_remake_there},
                   {"x/pub/.first", move_blind_one},   {"way/.first", make_there},
                   {"way/.first", replace_there},      {"way/.first", remake_there}};

START_TEST(blind_edits_are_seen)
{
    htc_ref ref;

    blind_scene();
    ref = trust_new(blind_edits[_i].name);
    blind_edits[_i].edit();
    htc_watch_drain(watch);
    ck_assert_msg(!trusted(ref), "edit %d of %s", _i, blind_edits[_i].name);
    rename(at("y"), at("x")); /* where it was moved away */
    end_blind();
}
END_TEST

#define LOOP(tc, test, table) \
    tcase_add_loop_test(tc, test, 0, (int)(sizeof(table) / sizeof((table)[0])))

/* While another process compares records itself the sweep makes words unverified, and nothing else;
 * when that process is gone, records as well. */
START_TEST(others_compare_records)
{
    const int64_t began = 5000000;
    htc_ref ref;

    make_dir("maps");
    write_text("maps/one", "1");
    ref = trust_new("maps/one");
    trust_word("maps/one", 7);
    htc_watch_net_taken(watch, began);
    for (int64_t now = began; now < began + HTC_WATCH_NET_MS + 1000; now += 1000) {
        htc_watch_net_taken(watch, now);
        htc_watch_sweep(watch, now);
    }
    ck_assert(trusted(ref));
    ck_assert(htc_mark_is_unprompted(atomic_load(htc_watch_word_at(watch, 7))));
    ck_assert(htc_mark_is_unprompted(htc_watch_unprompted(watch)));
    for (int64_t now = began + HTC_WATCH_NET_MS + 1000; now < began + 3 * HTC_WATCH_NET_MS;
         now += 1000)
        htc_watch_sweep(watch, now);
    ck_assert(!trusted(ref));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("watch edges");
    TCase *tc = tcase_create("watch edges");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    LOOP(tc, many_depend_on_one_file, map_edits);
    tcase_add_test(tc, watched_already_at_the_limit);
    LOOP(tc, not_a_regular_file, odd_ones);
    LOOP(tc, many_names_of_one_place, many);
    tcase_add_test(tc, large_tree_moves);
    tcase_add_test(tc, steps_are_finished_by_others);
    tcase_add_test(tc, many_events);
    tcase_add_test(tc, sweeps_in_steps);
    tcase_add_test(tc, others_compare_records);
    tcase_add_test(tc, strays_in_steps);
    tcase_add_test(tc, emptied_in_steps);
    tcase_add_test(tc, share_of_one_user);
    tcase_add_test(tc, blind_directories);
    tcase_add_test(tc, blind_twins);
    LOOP(tc, blind_edits_are_seen, blind_edits);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
