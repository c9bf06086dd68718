/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The shared area for table images with many users: threads and processes that pin, build and give
 * back all the time, processes that are killed wherever they are, and processes that are killed
 * after each store of each operation. Every byte of an image follows from its map and build, so
 * that a wrong one is noticed by whoever has it pinned. The area's sources are compiled into this
 * program with HTC_CRASH_POINTS. Run by 'make check'; HTC_LONG=seconds makes the killing last that
 * long; the case "threads" is also meant for ThreadSanitizer (CK_RUN_CASE=threads CK_FORK=no).
 */
#include "suite_util.h"
#include "area_util.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef HTC_CRASH_POINTS
#error "compile this and the area's sources with -DHTC_CRASH_POINTS"
#endif

#define AREA_BYTES  (UINT64_C(3) << 20)
#define MAPS        5 /* that stay */
#define EXTRA       3 /* that come and go */
#define HELD        6 /* pins that a thread holds */
#define MAX_SIZE    (300 << 10)
#define MAX_WORKERS 100000
#define OTHER_TIME  7 /* a generation that nobody has */

/* What the test's own processes know of each other, in memory that they share. */
typedef struct common {
    _Atomic uint64_t builds;                         /* the last build's number */
    _Atomic uint32_t builder[MAPS + EXTRA];          /* worker that builds a map; 0: none */
    _Atomic uint8_t killed[MAX_WORKERS];             /* it is as good as dead */
    _Atomic uint64_t published, pinned, held, tried; /* to see that something happened */
} common;

static apr_pool_t *pool;
static redirect_area *area;
static common *shared;
static uint32_t maps[MAPS];
static _Thread_local long countdown; /* stores of this thread until death; 0: never */

void htc_crash_point(const char *where)
{
    (void)where;
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}

static void setup(void)
{
    pool = au_pool();
    area = au_create(pool, AREA_BYTES);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    redirect_area_join(area, 1);
    for (uint32_t i = 0; i < MAPS; i++) {
        redirect_area_key key = au_key(i);

        maps[i] = redirect_area_map(area, &key, 1, true);
        ck_assert_uint_ne(maps[i], REDIRECT_AREA_NIL);
    }
}

static void teardown(void)
{
    munmap(shared, sizeof(*shared));
    apr_pool_destroy(pool);
}

/* --- workers ----------------------------------------------------------------------------------*/

typedef struct worker {
    pthread_t thread;
    uint32_t id; /* of its process, in `shared`; from 1 */
    uint64_t state;
    uint64_t thread_number; /* two share one */
    long operations;        /* to be done */
    const char *wrong;
    au_held pins[HELD];
    uint64_t versions[MAPS]; /* newest seen of each map */
} worker;

static void complain(worker *w, const char *wrong)
{
    if (!w->wrong)
        w->wrong = wrong;
}

static void check_pin(worker *w, const au_held *h)
{
    const char *wrong = au_held_wrong(h);

    if (wrong)
        complain(w, wrong);
}

static void let_go(worker *w, au_held *h)
{
    if (!h->pin.image)
        return;
    check_pin(w, h);
    au_let_go(area, h);
}

static void check_state(worker *w, uint32_t map, const au_held *h)
{
    const char *wrong = au_state_wrong(area, map, h);

    if (wrong)
        complain(w, wrong);
}

static void pin_map(worker *w, uint32_t number)
{
    au_held *h = &w->pins[au_random(&w->state) % HELD];
    const char *wrong;

    let_go(w, h);
    if (!redirect_area_pin_get(area, maps[number], &h->pin))
        return;
    atomic_fetch_add_explicit(&shared->pinned, 1, memory_order_relaxed);
    h->number = number;
    wrong = au_wrong(h->pin.image, h->pin.size, number, &h->build);
    if (wrong)
        complain(w, wrong);
    if (h->pin.version < w->versions[number])
        complain(w, "an old version came back");
    w->versions[number] = h->pin.version;
    if (au_random(&w->state) % 2 && au_hold(area, maps[number], h, w->thread_number))
        atomic_fetch_add_explicit(&shared->held, 1, memory_order_relaxed);
    if (au_random(&w->state) % 8 == 0)
        check_state(w, maps[number], h);
}

static void use_pin(worker *w)
{
    const au_held *h = &w->pins[au_random(&w->state) % HELD];

    if (!h->pin.image)
        return;
    check_pin(w, h);
}

/* In the hands of this worker alone, until it says otherwise; an earlier builder is dead. */
static void own_build(worker *w, uint32_t number)
{
    uint32_t before = atomic_exchange(&shared->builder[number], w->id);

    if (before && !atomic_load(&shared->killed[before]))
        complain(w, "two build one map at once");
}

static apr_status_t fill_and_publish(worker *w, uint32_t map, uint32_t number)
{
    uint64_t build = atomic_fetch_add(&shared->builds, 1) + 1, seen;
    size_t size = AU_LEAST + au_random(&w->state) % (au_random(&w->state) % 4 ? 20000 : MAX_SIZE);
    htc_identity id = au_identity(build);
    void *image;
    apr_status_t rv = redirect_area_reserve(area, map, size, 0, &image);

    if (rv != APR_SUCCESS)
        return rv;
    au_fill(image, size, number, build);
    if (au_random(&w->state) % 16 == 0)
        return APR_EGENERAL;
    if (au_wrong(image, size, number, &seen) || seen != build)
        complain(w, "a reserved place was used by somebody else");
    atomic_store(&shared->builder[number], 0);
    return redirect_area_publish(area, map, &id);
}

static void build(worker *w, uint32_t map, uint32_t number)
{
    htc_identity nothing = {0};
    apr_status_t rv;

    atomic_fetch_add_explicit(&shared->tried, 1, memory_order_relaxed);
    if (!redirect_area_build_begin(area, map))
        return;
    own_build(w, number);
    rv = fill_and_publish(w, map, number);
    if (rv == APR_SUCCESS) {
        atomic_fetch_add_explicit(&shared->published, 1, memory_order_relaxed);
        return;
    }
    if (rv != APR_EGENERAL && rv != APR_ENOSPC && rv != APR_EBUSY)
        complain(w, "a build failed for no reason");
    atomic_store(&shared->builder[number], 0);
    redirect_area_build_failed(area, map, &nothing);
}

/* A map of a generation that nobody has: collect forgets it at any time, and it may come again
 * under another number, also in the midst of this. */
static void use_extra(worker *w)
{
    uint32_t number = MAPS + au_random(&w->state) % EXTRA;
    redirect_area_key key = au_key(number);
    uint32_t map = redirect_area_map(area, &key, OTHER_TIME, true);
    au_held h = {.number = number};
    const char *wrong;

    if (map == REDIRECT_AREA_NIL)
        return;
    if (au_random(&w->state) % 2)
        au_build(area, map, AU_LEAST + au_random(&w->state) % 9000, number, w->state);
    if (!redirect_area_pin_get(area, map, &h.pin))
        return;
    wrong = au_wrong(h.pin.image, h.pin.size, number, &h.build);
    if (wrong)
        complain(w, wrong);
    let_go(w, &h);
}

static void claim(worker *w, uint32_t map)
{
    int64_t now = 1000 + au_random(&w->state) % 1000;

    if (redirect_area_claim(area, map, now, 10, 5))
        redirect_area_confirm(area, map, now);
}

/* Where it may, as who holds the image; which map is counted does not matter. */
static void count(worker *w, uint32_t number)
{
    const au_held *h = &w->pins[au_random(&w->state) % HELD];

    if (h->thread_pin)
        redirect_area_count_held(h->thread_pin, 2, 1);
    else
        redirect_area_count(area, maps[number], 2, 1);
}

static void operate(worker *w)
{
    uint32_t number = au_random(&w->state) % MAPS, choice = au_random(&w->state) % 100;
    redirect_area_stats stats;

    count(w, number);
    if (choice < 45)
        pin_map(w, number);
    else if (choice < 60)
        use_pin(w);
    else if (choice < 65)
        let_go(w, &w->pins[au_random(&w->state) % HELD]);
    else if (choice < 82)
        build(w, maps[number], number);
    else if (choice < 90)
        use_extra(w);
    else if (choice < 94)
        redirect_area_collect(area, 1);
    else if (choice < 97)
        claim(w, maps[number]);
    else
        redirect_area_stats_get(area, &stats);
}

static void *work(void *data)
{
    worker *w = data;

    for (; w->operations && !w->wrong; w->operations--)
        operate(w);
    for (uint32_t i = 0; i < HELD; i++)
        let_go(w, &w->pins[i]);
    return NULL;
}

/* What the first failing one said, or NULL. */
static const char *run_threads(uint32_t n, uint32_t id, uint64_t seed, long operations)
{
    worker *workers = calloc(n, sizeof(*workers));
    const char *wrong = NULL;

    for (uint32_t i = 0; i < n; i++) {
        workers[i].id = id;
        workers[i].state = seed * 1000 + i;
        workers[i].operations = operations;
        workers[i].thread_number = i / 2;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].wrong)
            wrong = workers[i].wrong;
    }
    free(workers);
    return wrong;
}

/* All users are gone. */
static void assert_area_works(void)
{
    worker w = {.id = MAX_WORKERS - 1, .state = 1};

    redirect_area_collect(area, 1);
    au_assert_at_rest(area, maps, MAPS);
    for (uint32_t i = 0; i < MAPS; i++) {
        ck_assert_int_eq(au_build(area, maps[i], 50000, i, 1), APR_SUCCESS);
        pin_map(&w, i);
        ck_assert_int_eq(au_build(area, maps[i], 70000, i, 2), APR_SUCCESS);
    }
    ck_assert_msg(!w.wrong, "%s", w.wrong);
    for (uint32_t i = 0; i < HELD; i++)
        let_go(&w, &w.pins[i]);
    redirect_area_collect(area, 1);
    ck_assert_msg(!w.wrong, "%s", w.wrong);
    au_assert_at_rest(area, maps, MAPS);
}

/* --- under load -------------------------------------------------------------------------------*/

static void assert_counts(uint64_t lookups)
{
    redirect_area_state state;
    uint64_t sum = 0, hits = 0;

    for (uint32_t i = 0; i < MAPS; i++) {
        ck_assert(redirect_area_state_get(area, maps[i], &state));
        sum += state.lookups;
        hits += state.hits;
    }
    ck_assert_uint_eq(sum, lookups);
    ck_assert_uint_eq(hits, lookups / 2);
}

START_TEST(threads)
{
    enum { THREADS = 4, OPERATIONS = 20000 };
    const char *wrong = run_threads(THREADS, 1, 1, OPERATIONS);

    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_uint_gt(atomic_load(&shared->published), OPERATIONS / 20);
    ck_assert_uint_gt(atomic_load(&shared->pinned), OPERATIONS / 4);
    ck_assert_uint_gt(atomic_load(&shared->held), OPERATIONS / 20);
    assert_counts(2 * THREADS * OPERATIONS);
    assert_area_works();
}
END_TEST

/* Ends with 0 when no thread of it saw anything wrong; says what, otherwise. */
static pid_t fork_worker(uint32_t id, long operations, long dies_after)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const char *wrong = NULL;

        countdown = dies_after;
        redirect_area_join(area, 1);
        if (dies_after) {
            worker w = {.id = id, .state = id, .operations = operations};

            work(&w);
            wrong = w.wrong;
        } else {
            wrong = run_threads(2, id, id, operations);
        }
        if (wrong)
            fprintf(stderr, "worker %d: %s\n", (int)getpid(), wrong);
        _exit(wrong ? 1 : 0);
    }
    return child;
}

START_TEST(processes)
{
    enum { PROCESSES = 4, OPERATIONS = 8000 };
    pid_t children[PROCESSES];
    int status;

    for (uint32_t i = 0; i < PROCESSES; i++)
        children[i] = fork_worker(i + 1, OPERATIONS, 0);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ck_assert_uint_gt(atomic_load(&shared->published), OPERATIONS / 20);
    assert_counts(2 * PROCESSES * 2 * OPERATIONS);
    assert_area_works();
}
END_TEST

static bool long_enough(time_t began, uint32_t kills, uint32_t least)
{
    const char *seconds = getenv("HTC_LONG");

    return kills >= least && (!seconds || time(NULL) - began >= atol(seconds));
}

static void end_worker(pid_t child, uint32_t id)
{
    int status;

    atomic_store(&shared->killed[id], 1);
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFSIGNALED(status), "a worker gave up with %d", WEXITSTATUS(status));
}

/* Who kills itself after some store does not say before that it is as good as dead; so it is said
 * of all these from the start. */
static pid_t fork_another(uint32_t id, uint64_t *state)
{
    long dies_after = au_random(state) % 2 ? 1 + au_random(state) % 20000 : 0;

    atomic_store(&shared->killed[id], dies_after != 0);
    return fork_worker(id, -1, dies_after);
}

/* Workers are killed wherever they are and replaced by others, while this process, too, pins,
 * checks and builds; it must never see anything wrong. */
START_TEST(processes_that_are_killed)
{
    enum { PROCESSES = 4, KILLS = 300 };
    struct {
        pid_t pid;
        uint32_t id;
    } children[PROCESSES];
    worker own = {.id = MAX_WORKERS - 1, .state = 99};
    uint32_t id = 1;
    time_t began = time(NULL);

    for (uint32_t i = 0; i < PROCESSES; i++, id++) {
        children[i].id = id;
        children[i].pid = fork_another(id, &own.state);
    }
    for (uint32_t i = 0; !long_enough(began, i, KILLS) && id < MAX_WORKERS - 1; i++, id++) {
        uint32_t victim = i % PROCESSES;

        usleep(au_random(&own.state) % 4000);
        end_worker(children[victim].pid, children[victim].id);
        children[victim].id = id;
        children[victim].pid = fork_another(id, &own.state);
        for (int n = 0; n < 10; n++)
            operate(&own);
        ck_assert_msg(!own.wrong, "%s", own.wrong);
    }
    for (uint32_t i = 0; i < PROCESSES; i++)
        end_worker(children[i].pid, children[i].id);
    for (uint32_t i = 0; i < HELD; i++)
        let_go(&own, &own.pins[i]);
    ck_assert_msg(!own.wrong, "%s", own.wrong);
    if (getenv("HTC_LONG"))
        printf("%u workers, %llu builds begun, %llu images published, %llu pins\n", id - 1,
               (unsigned long long)atomic_load(&shared->tried),
               (unsigned long long)atomic_load(&shared->published),
               (unsigned long long)atomic_load(&shared->pinned));
    ck_assert_uint_gt(atomic_load(&shared->published), KILLS);
    assert_area_works();
}
END_TEST
static void add_case(Suite *s, const char *name, const TTest *test)
{
    TCase *tc = tcase_create(name);

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, test);
    suite_add_tcase(s, tc);
}

int main(void)
{
    Suite *s = suite_create("redirect_area_processes");

    add_case(s, "threads", threads);
    add_case(s, "processes", processes);
    add_case(s, "killed", processes_that_are_killed);
    return run_suite(s);
}
