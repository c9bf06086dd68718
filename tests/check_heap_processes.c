/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The heap with many users: threads and processes that find objects, verify, keep and let go of
 * them all the time, while the builder builds, replaces and evicts in a heap that is much too
 * small, and readers and builders are killed wherever they are. Every byte of an object follows
 * from its key and build, so that a wrong one is noticed by whoever has it pinned. Run by 'make
 * check'; HTC_LONG=seconds makes the killing last that long; the case "threads" is also meant for
 * ThreadSanitizer (CK_RUN_CASE=threads CK_FORK=no).
 */
#include "suite_util.h"
#include "heap_util.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#define HEAP_BYTES HTC_HEAP_MIN_BYTES
#define PROCESSES  4
#define ROWS       (PROCESSES + 1) /* so each is used again and again */
#define THREADS    3
#define KEYS       60
#define MOST_WORDS 1200
#define HELD       5 /* objects that a thread holds */
#define LASTS_MS   2500

#ifdef HTC_CRASH_POINTS
void htc_crash_point(const char *where);

static _Thread_local long countdown;  /* of this thread's stores until death; 0: never */
static _Thread_local uint64_t pauses; /* state of its random numbers; 0: it never pauses */

/* Another one goes on in the midst of this. */
void htc_crash_point(const char *where)
{
    (void)where;
    if (pauses && hu_random(&pauses) % 64 == 0)
        sched_yield();
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}
#else
#error "compile this and the heap's sources with -DHTC_CRASH_POINTS"
#endif

/* What the test's own processes know of each other, in memory that they share. */
typedef struct common {
    _Atomic bool stop;
    _Atomic uint64_t builds; /* the last build's number */
    _Atomic uint64_t found, published, replaced;
} common;

static apr_pool_t *pool;
static htc_heap *heap;
static common *shared;

static void setup(void)
{
    pool = hu_pool();
    heap = hu_create(pool, HEAP_BYTES, ROWS);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
}

static void teardown(void)
{
    munmap(shared, sizeof(*shared));
    apr_pool_destroy(pool);
}

/* Enough has happened, also on a machine that is busy with something else. */
static bool enough(void)
{
    return atomic_load(&shared->found) > 1000 && atomic_load(&shared->published) > 1000;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --- readers -----------------------------------------------------------------------------------*/

typedef struct worker {
    pthread_t thread;
    uint64_t state;
    long dies_after;
    const char *wrong;
    struct {
        const hu_object *object;
        htc_pin *pin;
        uint64_t key, build;
    } held[HELD];
    uint64_t newest[KEYS]; /* build seen of each key */
} worker;

static void complain(worker *w, const char *wrong)
{
    if (!w->wrong)
        w->wrong = wrong;
}

static void verify(worker *w, unsigned i)
{
    const char *wrong = hu_wrong(w->held[i].object, w->held[i].key);

    if (wrong)
        complain(w, wrong);
    else if (w->held[i].object->build != w->held[i].build)
        complain(w, "a pinned object became another one");
}

static void let_go(worker *w, unsigned i)
{
    if (!w->held[i].object)
        return;
    verify(w, i);
    htc_heap_release(w->held[i].pin);
    w->held[i].object = NULL;
}

static void acquire(worker *w, uint64_t key)
{
    unsigned i = hu_random(&w->state) % HELD;
    const hu_object *object;

    let_go(w, i);
    w->held[i].object = object = hu_acquire(heap, key, &w->held[i].pin);
    if (!object)
        return;
    w->held[i].key = key;
    w->held[i].build = object->build;
    verify(w, i);
    if (object->build < w->newest[key])
        complain(w, "an object came back that had been replaced");
    w->newest[key] = object->build;
    atomic_fetch_add_explicit(&shared->found, 1, memory_order_relaxed);
}

static bool look(void *baton, const void *object, size_t bytes)
{
    worker *w = baton;
    const char *wrong = hu_wrong(object, ((const hu_object *)object)->key);

    if (wrong)
        complain(w, wrong);
    if (bytes < sizeof(hu_object))
        complain(w, "an object has no size");
    return hu_random(&w->state) % 16 != 0;
}

static void ask(uint64_t key)
{
    htc_heap_request request = {.key = key << 8, .record = key, .owner = key % 5, .share = 40};

    htc_heap_ask(heap, &request, now_ms());
}

static void operate(worker *w)
{
    uint32_t choice = hu_random(&w->state) % 100;
    uint64_t key = hu_random(&w->state) % KEYS;
    htc_heap_stats stats;

    if (choice < 70)
        acquire(w, key);
    else if (choice < 80)
        let_go(w, hu_random(&w->state) % HELD);
    else if (choice < 97)
        ask(key);
    else if (choice < 99)
        htc_heap_stats_get(heap, &stats);
    else
        htc_heap_each(heap, HTC_HEAP_CONFIG, look, w);
}

static void *read_objects(void *data)
{
    worker *w = data;

    countdown = w->dies_after;
    pauses = w->state | 1;
    while (!atomic_load(&shared->stop) && !w->wrong)
        operate(w);
    for (unsigned i = 0; i < HELD; i++)
        let_go(w, i);
    return NULL;
}

static void start_threads(worker *workers, uint32_t n, uint64_t seed, long dies_after)
{
    for (uint32_t i = 0; i < n; i++) {
        workers[i].state = seed * 1000 + i;
        workers[i].dies_after = i ? 0 : dies_after;
        if (pthread_create(&workers[i].thread, NULL, read_objects, &workers[i]) != 0)
            abort();
    }
}

/* What the first failing one said, or NULL. */
static const char *join_threads(worker *workers, uint32_t n)
{
    const char *wrong = NULL;

    for (uint32_t i = 0; i < n; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].wrong)
            wrong = workers[i].wrong;
    }
    return wrong;
}

/* --- the builder -------------------------------------------------------------------------------*/

/* An object needs some of larger keys, so that there is no end of needing. */
static void build(uint64_t key, uint64_t owner, unsigned share, uint64_t *state)
{
    hu_spec spec = {.key = key, .owner = owner, .share = share};

    spec.build = atomic_fetch_add(&shared->builds, 1) + 1;
    spec.nwords = hu_random(state) % (hu_random(state) % 4 ? 100 : MOST_WORDS);
    spec.kind = hu_random(state) % HTC_HEAP_KINDS;
    if (hu_random(state) % 2)
        spec.needs[0] = hu_find(heap, key + 1 + hu_random(state) % 6);
    if (hu_random(state) % 4 == 0)
        spec.needs[1] = hu_find_shallow(heap, key + 1);
    if (hu_random(state) % 4 == 0)
        spec.needs[2] = hu_find_shallow(heap, key + 2);
    atomic_fetch_add_explicit(&shared->replaced, hu_find(heap, key) != NULL, memory_order_relaxed);
    if (hu_build(heap, &spec))
        atomic_fetch_add_explicit(&shared->published, 1, memory_order_relaxed);
}

/* What is asked for, and what is not. */
static void build_some(uint64_t *state)
{
    htc_heap_request request;

    htc_heap_wait(heap, 1);
    while (htc_heap_next(heap, &request, now_ms())) {
        htc_heap_answer(heap, true, now_ms());
        build(request.record % KEYS, request.owner, request.share, state);
    }
    for (int i = 0; i < 10; i++)
        build(hu_random(state) % KEYS, hu_random(state) % 5, 100, state);
}

/* --- threads of one process -------------------------------------------------------------------*/

/* The kernel must show the row as another process's: so one takes it and does nothing. */
static pid_t row_of_another(int *to)
{
    int ends[2], ready[2];
    pid_t child;
    char byte;

    ck_assert(!pipe(ends) && !pipe(ready));
    child = fork();
    if (!child) {
        close(ends[1]);
        if (!htc_lock_enlist(&heap->lock, 0) || write(ready[1], "", 1) != 1)
            _exit(1);
        while (read(ends[0], &byte, 1) > 0)
            continue;
        _exit(0);
    }
    close(ends[0]);
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    *to = ends[1];
    heap->row = heap_row(heap, 0);
    return child;
}

START_TEST(threads)
{
    worker *workers = calloc(THREADS, sizeof(*workers));
    int64_t until = now_ms() + LASTS_MS;
    uint64_t state = 1;
    const char *wrong;
    pid_t child;
    int to;

    child = row_of_another(&to);
    ck_assert_int_eq(htc_heap_own(heap, false), APR_SUCCESS);
    start_threads(workers, THREADS, 1, 0);
    while (now_ms() < until || !enough())
        build_some(&state);
    atomic_store(&shared->stop, true);
    wrong = join_threads(workers, THREADS);
    ck_assert_msg(!wrong, "%s", wrong);
    hu_assert_consistent(heap);
    for (size_t i = 0; i < HEAP_ROW_WORDS; i++)
        ck_assert_uint_eq((uint32_t)heap->row[i], 0);
    ck_assert_uint_gt(atomic_load(&shared->replaced), 100);
    close(to);
    waitpid(child, NULL, 0);
    free(workers);
}
END_TEST

/* --- processes ---------------------------------------------------------------------------------*/

static pid_t fork_reader(uint64_t seed, long dies_after)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child) {
        worker workers[THREADS] = {{.state = 0}};
        const char *wrong;

        if (!htc_heap_join(heap, false))
            _exit(2);
        start_threads(workers, THREADS, seed, dies_after);
        wrong = join_threads(workers, THREADS);
        if (wrong)
            fprintf(stderr, "reader %d: %s\n", (int)getpid(), wrong);
        _exit(wrong ? 1 : 0);
    }
    return child;
}

static pid_t fork_builder(uint64_t seed, long dies_after)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child) {
        const char *wrong = htc_heap_own(heap, seed % 40 == 0) == APR_SUCCESS
                                ? hu_inconsistent(heap)
                                : "the heap is damaged";

        countdown = dies_after;
        pauses = seed | 1;
        while (!wrong && !atomic_load(&shared->stop))
            build_some(&seed);
        if (wrong)
            fprintf(stderr, "builder %d: %s\n", (int)getpid(), wrong);
        _exit(wrong ? 1 : 0);
    }
    return child;
}

static void reap(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        ck_assert_int_eq(WTERMSIG(status), SIGKILL);
    else
        ck_assert_int_eq(WEXITSTATUS(status), 0);
}

/* The first is the builder. Some die by themselves, after one of their own stores. */
static pid_t fork_one(int which, uint64_t *state)
{
    long dies_after = hu_random(state) % 3 ? 0 : 1 + hu_random(state) % 20000;

    return which ? fork_reader(hu_random(state), dies_after)
                 : fork_builder(hu_random(state), dies_after);
}

static int64_t lasts_ms(void)
{
    const char *seconds = getenv("HTC_LONG");

    return seconds ? 1000 * atol(seconds) : LASTS_MS;
}

START_TEST(processes_that_are_killed)
{
    pid_t children[1 + PROCESSES];
    int64_t until = now_ms() + lasts_ms();
    uint64_t state = 7, kills = 0, builders = 0;

    for (int i = 0; i <= PROCESSES; i++)
        children[i] = fork_one(i, &state);
    while (now_ms() < until || !enough()) {
        int which = hu_random(&state) % 2 ? 0 : 1 + (int)(hu_random(&state) % PROCESSES);

        usleep(hu_random(&state) % 20000);
        kill(children[which], SIGKILL);
        reap(children[which]);
        children[which] = fork_one(which, &state);
        kills++;
        builders += !which;
    }
    atomic_store(&shared->stop, true);
    for (int i = 0; i <= PROCESSES; i++)
        reap(children[i]);
    hu_assert_consistent(heap);
    printf("%lu processes killed, %lu of them builders; %lu objects built, %lu found\n",
           (unsigned long)kills, (unsigned long)builders,
           (unsigned long)atomic_load(&shared->published),
           (unsigned long)atomic_load(&shared->found));
}
END_TEST

/* None is killed: all pins are let go of in the end. */
START_TEST(processes)
{
    pid_t children[1 + PROCESSES];
    int64_t until = now_ms() + LASTS_MS / 2;
    htc_heap_stats stats;

    for (int i = 0; i <= PROCESSES; i++)
        children[i] = i ? fork_reader((uint64_t)i, 0) : fork_builder(1, 0);
    while (now_ms() < until || !enough())
        usleep(10000);
    atomic_store(&shared->stop, true);
    for (int i = 0; i <= PROCESSES; i++)
        reap(children[i]);
    for (unsigned i = 0; i < heap->nrows; i++) {
        for (size_t k = 0; k < HEAP_ROW_WORDS; k++)
            ck_assert_uint_eq((uint32_t)heap_row(heap, i)[k], 0);
    }
    hu_assert_consistent(heap);
    ck_assert_int_eq(htc_heap_own(heap, true), APR_SUCCESS);
    htc_heap_stats_get(heap, &stats);
    ck_assert_uint_eq(stats.bytes_used, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap_processes");
    TCase *threads_case = tcase_create("threads"), *processes_case = tcase_create("processes");

    tcase_add_checked_fixture(threads_case, setup, teardown);
    tcase_add_checked_fixture(processes_case, setup, teardown);
    tcase_set_timeout(threads_case, 300);
    tcase_set_timeout(processes_case, 7200); /* HTC_LONG */
    tcase_add_test(threads_case, threads);
    tcase_add_test(processes_case, processes);
    tcase_add_test(processes_case, processes_that_are_killed);
    suite_add_tcase(s, threads_case);
    suite_add_tcase(s, processes_case);
    return run_suite(s);
}
