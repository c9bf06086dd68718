/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The shared store with many users: counters and the process table; then, under load, threads,
 * processes, and processes that are killed at random, all of them doing everything to a few keys in
 * a segment that is far too small. Every byte of a record follows from its key, so that a wrong one
 * is noticed by whoever reads it. Run by 'make check'; its case "threads" is also meant for
 * ThreadSanitizer (CK_RUN_CASE=threads CK_FORK=no).
 */
#include "suite_util.h"
#include "store_util.h"

#include <pthread.h>
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEYS    400
#define MAX_LEN 6000

static apr_pool_t *pool;
static htc_store *store;

static void setup(void)
{
    pool = su_pool();
    store = su_create(pool, HTC_STORE_MIN_BYTES);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

/* --- counters and processes -------------------------------------------------------------------*/

static void *count_much(void *data)
{
    for (int i = 0; i < 10000; i++)
        htc_count(data, HTC_C_hits, 3);
    return NULL;
}

START_TEST(counters_are_exact)
{
    pthread_t threads[4];
    pid_t child = fork();
    int status;

    if (child == 0) {
        count_much(store);
        _exit(0);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_much, store), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    htc_count(store, HTC_C_hits, 0);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_hits), 5 * 3 * 10000);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_misses), 0);
    htc_count(store, HTC_C_absent_hits, 2);
    htc_count(store, HTC_C_misses, 3);
    htc_count(store, HTC_C_replays, 4);
    htc_count(store, HTC_C_bypasses, 5);
    htc_count(store, HTC_C_asked, 6);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_lookups), 5 * 3 * 10000 + 2 + 3 + 4 + 5);
    htc_count(store, HTC_C_recoveries, 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 1);
}
END_TEST

/* --- workers ----------------------------------------------------------------------------------*/

typedef struct worker {
    pthread_t thread;
    uint64_t state;
    long operations; /* to be done */
    unsigned long right, puts, busy;
    const char *wrong;
    apr_pool_t *pool;
    uint64_t versions[KEYS]; /* newest seen of each key */
} worker;

static void complain(worker *w, const char *wrong)
{
    if (!w->wrong)
        w->wrong = wrong;
}

/* A key's version never goes back: what was replaced does not come again. */
static void note_version(worker *w, uint32_t number, uint64_t version)
{
    if (version < w->versions[number])
        complain(w, "an old version came back");
    w->versions[number] = version;
}

static void read_key(worker *w, uint32_t number)
{
    htc_info info;

    switch (su_get(store, number, w->pool, &info)) {
    case SU_RIGHT:
        w->right++;
        note_version(w, number, info.ref.version);
        htc_store_touch(htc_store_slot(store, info.ref.slot));
        break;
    case SU_NONE:
        break;
    case SU_FAILED:
        complain(w, "an undamaged record was called damaged");
        break;
    case SU_WRONG:
        complain(w, "a wrong record was read");
        break;
    }
}

static void put_key(worker *w, uint32_t number)
{
    uint32_t shape = su_random(&w->state);
    su_spec spec = {.number = number,
                    .round = su_random(&w->state),
                    .len = shape % 4 ? shape % 600 : shape % MAX_LEN,
                    .kind = (htc_kind)(1 + shape % 3),
                    .owner = number % 7,
                    .share = 10 + number % 60};
    htc_ref ref;
    apr_status_t rv = su_put(store, &spec, &ref);

    if (rv == APR_SUCCESS) {
        w->puts++;
        note_version(w, number, ref.version);
    } else if (rv == APR_EBUSY) {
        w->busy++;
    } else {
        complain(w, "a put that fits failed");
    }
}

static bool find(uint32_t number, htc_info *info)
{
    return htc_store_find(store, su_hash(store, number), su_key(number), strlen(su_key(number)),
                          info);
}

static void reidentify_key(worker *w, uint32_t number)
{
    htc_identity id = su_identity(number, su_random(&w->state) % 2);
    htc_info info;

    if (find(number, &info))
        htc_store_reidentify(store, info.ref, &id, info.flags, su_random(&w->state));
}

static void revalidate_key(worker *w, uint32_t number)
{
    htc_slot_hot *slot;
    int64_t checked_at;
    htc_info info;

    if (!find(number, &info))
        return;
    slot = htc_store_slot(store, info.ref.slot);
    if (htc_store_current(slot, info.ref.version, &checked_at) &&
        htc_store_claim(slot, checked_at, checked_at + 1))
        htc_store_confirm(slot, checked_at + 1, su_random(&w->state));
}

static bool visit(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    worker *w = baton;
    uint32_t number = (uint32_t)strtoul(key + strlen("/srv/"), NULL, 10);

    if (number >= KEYS || key_len != strlen(su_key(number)) || strcmp(key, su_key(number)) != 0)
        complain(w, "a wrong key was visited");
    else if (info->kind != HTC_KIND_ABSENT && info->id.ino != number)
        complain(w, "a wrong identity was visited");
    return su_random(&w->state) % 64 != 0;
}

static void drop_key(uint32_t number)
{
    htc_info info;

    if (find(number, &info))
        htc_store_drop(store, info.ref);
}

static void operate(worker *w)
{
    uint32_t number = su_random(&w->state) % KEYS, choice = su_random(&w->state) % 1000;

    htc_count(store, HTC_C_misses, 1);
    if (choice < 550)
        read_key(w, number);
    else if (choice < 850)
        put_key(w, number);
    else if (choice < 900)
        reidentify_key(w, number);
    else if (choice < 950)
        revalidate_key(w, number);
    else if (choice < 990)
        drop_key(number);
    else if (choice < 998)
        htc_store_each(store, visit, w);
    else
        htc_store_clear(store);
}

static void *work(void *data)
{
    worker *w = data;

    for (; w->operations && !w->wrong; w->operations--)
        operate(w);
    return NULL;
}

static worker *start_workers(unsigned n, uint64_t seed, long operations)
{
    worker *workers = calloc(n, sizeof(*workers));

    for (unsigned i = 0; i < n; i++) {
        workers[i].state = seed * 1000 + i;
        workers[i].operations = operations;
        if (apr_pool_create(&workers[i].pool, NULL) != APR_SUCCESS ||
            pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    }
    return workers;
}

/* What the first failing worker said, or NULL. */
static const char *join_workers(worker *workers, unsigned n, unsigned long *right)
{
    const char *wrong = NULL;

    *right = 0;
    for (unsigned i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        *right += workers[i].right;
        if (workers[i].wrong)
            wrong = workers[i].wrong;
        apr_pool_destroy(workers[i].pool);
    }
    free(workers);
    return wrong;
}

static void assert_store_works(void)
{
    const char *wrong;
    su_spec spec = {.number = 1, .len = 3000};
    apr_pool_t *scratch;
    htc_info info;
    htc_ref ref;

    apr_pool_create(&scratch, pool);
    ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
    ck_assert_int_eq(su_get(store, 1, scratch, &info), SU_RIGHT);
    wrong = su_inconsistent(store);
    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 0);
    ck_assert_uint_gt(htc_counter_read(store, HTC_C_evictions), 0);
}

/* --- tests ------------------------------------------------------------------------------------*/

START_TEST(threads)
{
    enum { THREADS = 4, OPERATIONS = 100000 };
    unsigned long right;
    const char *wrong = join_workers(start_workers(THREADS, 1, OPERATIONS), THREADS, &right);

    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_uint_gt(right, OPERATIONS / 10);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_lookups), THREADS * OPERATIONS);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 0);
    assert_store_works();
}
END_TEST

/* Ends with 0 when no worker saw anything wrong; says what, otherwise. */
static pid_t fork_workers(unsigned threads, uint64_t seed, long operations)
{
    pid_t child = fork();

    if (child == 0) {
        unsigned long right;
        const char *wrong = join_workers(start_workers(threads, seed, operations), threads, &right);

        if (wrong)
            fprintf(stderr, "worker %d: %s\n", (int)getpid(), wrong);
        _exit(wrong ? 1 : 0);
    }
    return child;
}

START_TEST(processes)
{
    enum { PROCESSES = 4, THREADS = 2, OPERATIONS = 60000 };
    pid_t children[PROCESSES];
    int status;

    for (int i = 0; i < PROCESSES; i++)
        children[i] = fork_workers(THREADS, 10 + (uint64_t)i, OPERATIONS);
    for (int i = 0; i < PROCESSES; i++) {
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_lookups), PROCESSES * THREADS * OPERATIONS);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 0);
    assert_store_works();
}
END_TEST

static void kill_worker(pid_t child)
{
    int status;

    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "a worker gave up with %d", WEXITSTATUS(status));
}

static uint64_t recoveries(void)
{
    return htc_counter_read(store, HTC_C_recoveries);
}

/* Workers are killed wherever they are, often while they write, and replaced by others. A parent
 * that reads all the time must never be stopped by that. On a busy machine few of them have come as
 * far as to write: the killing goes on until one was hit there. */
START_TEST(processes_that_are_killed)
{
    enum { PROCESSES = 4, THREADS = 2, KILLS = 250, KILLS_AT_MOST = 20000 };
    pid_t children[PROCESSES];
    worker reader = {.state = 99};

    ck_assert_int_eq(apr_pool_create(&reader.pool, pool), APR_SUCCESS);
    for (int i = 0; i < PROCESSES; i++)
        children[i] = fork_workers(THREADS, 100 + (uint64_t)i, -1);
    for (int i = 0; i < KILLS || (i < KILLS_AT_MOST && recoveries() == 0); i++) {
        pid_t *child = &children[i % PROCESSES];

        usleep(su_random(&reader.state) % 3000);
        kill_worker(*child);
        for (uint32_t number = 0; number < KEYS; number += 7)
            read_key(&reader, number);
        ck_assert_msg(!reader.wrong, "%s", reader.wrong);
        *child = fork_workers(THREADS, 1000 + (uint64_t)i, -1);
    }
    for (int i = 0; i < PROCESSES; i++)
        kill_worker(children[i]);
    ck_assert_uint_gt(recoveries(), 0);
    assert_store_works();
}
END_TEST

static void add_sharing(Suite *s)
{
    TCase *tc = tcase_create("sharing");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, counters_are_exact);
    suite_add_tcase(s, tc);
}

static void add_case(Suite *s, const char *name, const TTest *test)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, test);
    suite_add_tcase(s, tc);
}

int main(void)
{
    Suite *s = suite_create("store_churn");

    add_sharing(s);
    add_case(s, "threads", threads);
    add_case(s, "processes", processes);
    add_case(s, "kills", processes_that_are_killed);
    return run_suite(s);
}
