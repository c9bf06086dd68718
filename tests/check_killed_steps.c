/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Shared memory whose writers take no lock, or have no places in their code at which a test could
 * kill them: the history of the status page, counters of redirects and of records, notes of maps,
 * the farm's clock and breaker. A child is stopped before it writes, taken on by single
 * instructions (ptrace), and killed after the first, the second, ... What others find then is
 * right, and they can go on. Run by 'make check'; check_store_crash, check_watch and
 * check_redirect_area_crash do the rest.
 */
#include "suite_util.h"
#include "area_util.h"
#include "farm/breaker.h"
#include "farm/breaker.h"
#include "cache/history.h"
#include "area/counters.h"
#include "store_util.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS_TRIED 30 /* of a work; of a longer one each second, or third, ... */
#define STEPS_MOST  200000

static apr_pool_t *pool;

static void setup(void)
{
    pool = su_pool();
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

/* A child that is stopped right before its work. 0: nobody may trace here. */
static pid_t child_before(void (*work)(void))
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (!child) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(99);
        raise(SIGSTOP);
        work();
        raise(SIGSTOP);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSTOPPED(status) ? child : 0;
}

/* Take it on by so many instructions and kill it. Returns how many it took; fewer: its work was
 * done. */
static long killed_after(void (*work)(void), long steps, bool *may_trace)
{
    pid_t child = child_before(work);
    long n = 0;
    int status = 0;

    *may_trace = child != 0;
    if (!child)
        return 0;
    while (n < steps) {
        ck_assert_int_eq(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFSTOPPED(status), "it ended by itself: %x", (unsigned)status);
        if (WSTOPSIG(status) == SIGSTOP)
            break;
        ck_assert_int_eq(WSTOPSIG(status), SIGTRAP);
        n++;
    }
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return n;
}

/* --- history ----------------------------------------------------------------------------------*/

static htc_history *history;

static htc_sample sample_of(int64_t at)
{
    htc_sample sample = {.at = at, .generation = (uint64_t)at};

    for (int i = 0; i < HTC_HISTORY_VALUES; i++)
        sample.values[i] = (uint64_t)at * 100 + (uint64_t)i;
    return sample;
}

static void add_sample(void)
{
    htc_sample sample = sample_of(2);

    if (htc_history_due(history, 1000))
        htc_history_add(history, &sample);
}

static void a_history(void)
{
    htc_sample first = sample_of(1);

    ck_assert_int_eq(htc_history_create(&history, pool), APR_SUCCESS);
    htc_history_add(history, &first);
}

/* Whole samples only, and the next is taken ten seconds later. */
static void history_is_whole(void)
{
    static htc_sample found[HTC_HISTORY_SAMPLES];
    htc_sample next = sample_of(3), want;
    size_t n = htc_history_read(history, found);

    ck_assert_uint_ge(n, 1);
    ck_assert_uint_le(n, 2);
    for (size_t i = 0; i < n; i++) {
        want = sample_of((int64_t)i + 1);
        ck_assert_mem_eq(&found[i], &want, sizeof(want));
    }
    ck_assert(htc_history_due(history, 2000));
    htc_history_add(history, &next);
    ck_assert_uint_eq(htc_history_read(history, found), n + 1);
    ck_assert_mem_eq(&found[n], &next, sizeof(next));
}

/* --- counters of redirects --------------------------------------------------------------------*/

#define RULES 8

static redirect_counter *from, *to;

static uint64_t next_key(void *baton)
{
    return UINT64_C(0x9e3779b97f4a7c15) * ++*(unsigned *)baton;
}

static void some_counts(void)
{
    from = mmap(NULL, 2 * RULES * sizeof(*from), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    ck_assert_ptr_ne(from, MAP_FAILED);
    to = from + RULES;
    for (unsigned i = 0; i < RULES; i++) {
        for (unsigned n = 0; n <= i; n++)
            redirect_counter_hit(&from[i], REDIRECT_COUNTER_EPOCH + 10 + n);
    }
}

static void move_counts(void)
{
    unsigned i = 0, j = 0;
    redirect_keys from_keys = {next_key, &i, RULES}, to_keys = {next_key, &j, RULES};

    redirect_counters_move(from, &from_keys, to, &to_keys, NULL);
}

/* Nothing is counted twice; one rule's counts may be lost. */
static void counts_are_sane(void)
{
    unsigned lost = 0;

    for (unsigned i = 0; i < RULES; i++) {
        redirect_count a = redirect_counter_read(&from[i]), b = redirect_counter_read(&to[i]);

        ck_assert(!a.hits || !b.hits);
        ck_assert(a.hits + b.hits == i + 1 || a.hits + b.hits == 0);
        ck_assert(a.last + b.last == REDIRECT_COUNTER_EPOCH + 10 + i || a.last + b.last == 0);
        lost += a.hits + b.hits == 0;
    }
    ck_assert_uint_le(lost, 1);
    munmap(from, 2 * RULES * sizeof(*from));
}

static void hit(void)
{
    redirect_counter_hit(&from[2], REDIRECT_COUNTER_EPOCH + 50);
}

static void hit_is_counted_or_not(void)
{
    redirect_count now = redirect_counter_read(&from[2]);

    ck_assert(now.hits == 3 || now.hits == 4);
    ck_assert(now.last == REDIRECT_COUNTER_EPOCH + 12 || now.last == REDIRECT_COUNTER_EPOCH + 50);
    redirect_counter_hit(&from[2], REDIRECT_COUNTER_EPOCH + 60);
    ck_assert_uint_eq(redirect_counter_read(&from[2]).hits, now.hits + 1);
    munmap(from, 2 * RULES * sizeof(*from));
}

static void reset_counts(void)
{
    redirect_counters_reset(from, RULES);
}

static void counts_are_as_before_or_none(void)
{
    for (unsigned i = 0; i < RULES; i++) {
        uint64_t hits = redirect_counter_read(&from[i]).hits;

        ck_assert(!hits || hits == i + 1);
    }
    munmap(from, 2 * RULES * sizeof(*from));
}

/* --- notes of maps ----------------------------------------------------------------------------*/

static redirect_area *area;
static uint32_t map;

static redirect_area_note note_of(unsigned n)
{
    redirect_area_note note = {.load_ms = n, .refused = n};

    memset(note.file, 'a' + (int)n, sizeof(note.file) - 1);
    memset(note.error, 'a' + (int)n, sizeof(note.error) - 1);
    return note;
}

static void a_note(void)
{
    redirect_area_key key = au_key(1);
    redirect_area_note note = note_of(1);

    area = au_create(pool, UINT64_C(1) << 20);
    redirect_area_join(area, 1);
    map = redirect_area_map(area, &key, 1, true);
    redirect_area_note_set(area, map, &note);
}

static void another_note(void)
{
    redirect_area_note note = note_of(2);

    redirect_area_note_set(area, map, &note);
}

static void note_is_whole(void)
{
    redirect_area_note seen, next = note_of(3);

    if (redirect_area_note_get(area, map, &seen)) {
        redirect_area_note want = note_of((unsigned)seen.load_ms);

        ck_assert(seen.load_ms == 1 || seen.load_ms == 2);
        ck_assert_mem_eq(&seen, &want, sizeof(want));
    }
    redirect_area_note_set(area, map, &next);
    ck_assert(redirect_area_note_get(area, map, &seen));
    ck_assert_mem_eq(&seen, &next, sizeof(next));
}

/* --- the breaker of a memcached server --------------------------------------------------------*/

static htc_breaker *breaker;

static void a_breaker(void)
{
    breaker =
        mmap(NULL, sizeof(*breaker), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(breaker, MAP_FAILED);
}

static void break_and_mend(void)
{
    for (int i = 0; i < 5; i++)
        htc_breaker_failure(breaker, 1000);
    htc_breaker_success(breaker);
}

/* Whatever it is now: a server that answers is used again. */
static void breaker_can_be_closed(void)
{
    htc_breaker_allow(breaker, 1000000);
    htc_breaker_success(breaker);
    ck_assert(!htc_breaker_is_open(breaker));
    ck_assert(htc_breaker_allow(breaker, 1000001));
    munmap(breaker, sizeof(*breaker));
}

/* --- counters of records ----------------------------------------------------------------------*/

static htc_store *store;

static void a_store(void)
{
    store = su_create(pool, HTC_STORE_MIN_BYTES);
    htc_count(store, HTC_C_hits, 5);
}

static void count(void)
{
    htc_count(store, HTC_C_hits, 1);
    htc_count(store, HTC_C_evictions, 1);
}

static void counts_go_on(void)
{
    uint64_t hits = htc_counter_read(store, HTC_C_hits);

    ck_assert(hits == 5 || hits == 6);
    ck_assert_uint_le(htc_counter_read(store, HTC_C_evictions), 1);
    htc_count(store, HTC_C_hits, 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_hits), hits + 1);
}

/* --- running ----------------------------------------------------------------------------------*/

static const struct scene {
    const char *name;
    void (*prepare)(void);
    void (*work)(void);
    void (*check)(void);
} scenes[] = {
    {"a sample of the history", a_history, add_sample, history_is_whole},
    {"counts move to another image", some_counts, move_counts, counts_are_sane},
    {"a redirect is counted", some_counts, hit, hit_is_counted_or_not},
    {"counts are reset", some_counts, reset_counts, counts_are_as_before_or_none},
    {"a note of a map", a_note, another_note, note_is_whole},
    {"the breaker of a server", a_breaker, break_and_mend, breaker_can_be_closed},
    {"counters of records", a_store, count, counts_go_on},
};

START_TEST(killed_after_every_step)
{
    const struct scene *scene = &scenes[_i];
    bool may_trace = false;
    long all, stride;

    scene->prepare();
    all = killed_after(scene->work, STEPS_MOST, &may_trace);
    scene->check();
    if (!may_trace) {
        fprintf(stderr, "%s: not tried, as ptrace() is not allowed here\n", scene->name);
        return;
    }
    ck_assert_msg(all > 20 && all < STEPS_MOST, "%s: %ld steps", scene->name, all);
    stride = 1 + all / STEPS_TRIED;
    for (long n = 1; n < all; n += stride) {
        apr_pool_clear(pool);
        scene->prepare();
        killed_after(scene->work, n, &may_trace);
        scene->check();
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("killed_steps");
    TCase *tcase = tcase_create("steps");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, killed_after_every_step, 0,
                        (int)(sizeof(scenes) / sizeof(scenes[0])));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
