/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what is watched: a process may be killed at any step, or be stopped with the lock,
 * and many of them read and write at once. Run by 'make check'.
 */
#include "suite_util.h"
#include "watch_util.h"

static long countdown;     /* steps until death; 0: never */
static const char *die_at; /* or where; NULL: nowhere */

void htc_crash_point(const char *where)
{
    if ((countdown && --countdown == 0) || (die_at && !strcmp(where, die_at)))
        raise(SIGKILL);
}

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
        /* Who takes the lock over from the dead begins another epoch, so the first may be in vain.
         */
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

static const char *const drain_points[] = {"busy", "read", "doom", "published"};

#define DRAIN_POINTS ((int)(sizeof(drain_points) / sizeof(drain_points[0])))

/* Who is killed after it began to publish, whether it took events or not: the next one who asks, of
 * any process, relies on nothing, not even on what no event concerned. Said once. */
START_TEST(drainer_killed)
{
    htc_ref written, switched, untouched;
    int status;
    pid_t child;

    scene();
    written = trust_new("a/b/.htaccess");
    switched = trust_new("links/deep/.first");
    untouched = trust_new("r2/.htaccess");
    write_text("a/c/hard", "two");
    switch_release();
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        die_at = drain_points[_i];
        htc_watch_drain(watch);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "not killed at %s", die_at);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        htc_watch_drain(watch);
        _exit(trusted(written) || trusted(switched) || trusted(untouched));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 1);
    ck_assert(htc_watch_troubled(watch, HTC_TROUBLE_DEATH));
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_DEATH));
    ck_assert_int_eq(trust(at("links/deep/.first"), switched), HTC_WATCH_OK);
    ck_assert(trusted(switched));
    write_text("r2/d/.first", "");
    htc_watch_drain(watch);
    ck_assert(!trusted(switched));
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 1);
    stats();
}
END_TEST

/* One that holds what it read and does not go on: nobody relies on anything. */
START_TEST(stopped_holder)
{
    htc_ref ref;
    pid_t child;

    scene();
    ref = trust_new("a/b/.htaccess");
    ck_assert_int_eq(htc_lock_take(&watch->lock, 0), HTC_LOCK_HELD);
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
    ck_assert(htc_watch_troubled(watch, HTC_TROUBLE_HANG));
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_HANG));
    atomic_store(&watch->header->busy, 0);
    htc_lock_give(&watch->lock);
}
END_TEST

/* One process after the other holds what it read, for longer than a stopped one is waited for. Nobody
 * needs to doubt anything. */
START_TEST(others_take_turns)
{
    htc_ref written, untouched;
    int status;
    pid_t child;

    scene();
    written = trust_new("a/b/.htaccess");
    untouched = trust_new("r2/.htaccess");
    write_text("a/c/hard", "two");
    ck_assert_int_eq(htc_lock_take(&watch->lock, 0), HTC_LOCK_HELD);
    atomic_store(&watch->header->busy, 1);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        htc_watch_drain(watch);
        _exit(trusted(written) || !trusted(untouched));
    }
    for (int i = 0; i < 4 * HTC_WATCH_LOCK_MS; i += 5) {
        usleep(5000);
        atomic_fetch_add(&watch->header->lock.holder, 1);
    }
    htc_lock_give(&watch->lock);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_distrusts), 0);
    ck_assert(!htc_watch_troubled(watch, HTC_TROUBLE_HANG));
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
    int64_t fresh = htc_watch_fresh(watch), own = htc_watch_unverified(watch),
            seen = info.checked_at;
    bool known, mine = htc_mark_is_unverified(seen) &&
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
    Suite *suite = suite_create("watch processes");
    TCase *tc = tcase_create("watch processes");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, killed_anywhere, 0, (int)(sizeof(steps) / sizeof(steps[0])));
    tcase_add_loop_test(tc, drainer_killed, 0, DRAIN_POINTS);
    tcase_add_test(tc, stopped_holder);
    tcase_add_test(tc, others_take_turns);
    tcase_add_test(tc, many_at_once);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
