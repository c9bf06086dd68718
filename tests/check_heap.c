/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the heap of parsed configurations: making it, pools that lie in it, publishing and
 * finding, what readers keep, requests, room, and what a process that was taken over cannot do.
 * This process is the builder, readers are forked. Run by 'make check'; check_heap_crash and
 * check_heap_processes do the rest.
 */
#include "suite_util.h"
#include "heap_util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>

#include <apr_strings.h>

#define ROWS      4
#define SMALL     HTC_HEAP_MIN_BYTES
#define NOW       INT64_C(100000)
#define SECOND    1000
#define NOBODY    65534
#define BIG_WORDS 300 /* an object of some 2.5 KB */

static apr_pool_t *pool;
static htc_heap *heap;

static void setup_bytes(uint64_t bytes)
{
    pool = hu_pool();
    heap = hu_create(pool, bytes, ROWS);
}

static void setup(void)
{
    setup_bytes(SMALL);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

static void own(void)
{
    ck_assert_int_eq(htc_heap_own(heap, false), APR_SUCCESS);
}

static const hu_object *build(uint64_t key, uint64_t number, size_t nwords)
{
    return hu_build(heap, &(hu_spec){.key = key, .build = number, .nwords = nwords});
}

/* Others, until the heap was filled several times over. */
static void build_others(uint64_t owner)
{
    for (uint64_t i = 0; i < 4 * SMALL / (BIG_WORDS * sizeof(uint64_t)); i++)
        ck_assert_ptr_nonnull(hu_build(
            heap, &(hu_spec){.key = 10000 + i, .build = i, .nwords = BIG_WORDS, .owner = owner}));
}

static htc_heap_stats stats(void)
{
    htc_heap_stats now;

    htc_heap_stats_get(heap, &now);
    return now;
}

/* What a child ended with: the signal, or minus what it returned. */
static int end_of(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static int in_child(int (*act)(void))
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child)
        _exit(act());
    return end_of(child);
}

/* --- making it ---------------------------------------------------------------------------------*/

static const struct {
    uint64_t bytes;
    unsigned processes;
    bool made;
} sizes[] = {
    {0, 4, false},
    {HTC_HEAP_MIN_BYTES - 1, 4, false},
    {HTC_HEAP_MAX_BYTES + 1, 4, false},
    {UINT64_MAX, 4, false},
    {HTC_HEAP_MIN_BYTES, 0, false},
    {HTC_HEAP_MIN_BYTES, 1, true},
    {HTC_HEAP_MIN_BYTES + 4095, 4, true},
    {UINT64_C(3) << 20, 100, true},
    {UINT64_C(5) << 30, 5000, true}, /* nothing of it is taken yet */
};

/* The kernel would send SIGXFSZ. */
static int create_limited(void)
{
    const struct rlimit limit = {4096, 4096};
    const char *why = NULL;
    htc_heap *made;

    return setrlimit(RLIMIT_FSIZE, &limit) ||
           htc_heap_create(&made, HTC_HEAP_MIN_BYTES, 4, pool, &why) == APR_SUCCESS || !why;
}

START_TEST(limit_on_files)
{
    ck_assert_int_eq(in_child(create_limited), 0);
}
END_TEST

START_TEST(sizes_of_a_heap)
{
    apr_pool_t *own_pool = hu_pool();
    const char *why = NULL;
    htc_heap *made;
    apr_status_t rv = htc_heap_create(&made, sizes[_i].bytes, sizes[_i].processes, own_pool, &why);

    if (sizes[_i].made) {
        ck_assert_int_eq(rv, APR_SUCCESS);
        ck_assert_ptr_null(why);
        ck_assert_uint_le(made->bytes, sizes[_i].bytes);
        hu_assert_consistent(made);
    } else {
        ck_assert_int_ne(rv, APR_SUCCESS);
        ck_assert_ptr_null(made);
        ck_assert(why && *why);
    }
    apr_pool_destroy(own_pool);
}
END_TEST

/* --- pools in memory of the caller's choice ----------------------------------------------------*/

static int cleanups_run;

static apr_status_t count_cleanup(void *data)
{
    cleanups_run += data == &cleanups_run;
    return APR_SUCCESS;
}

static bool note_cleanup(void *baton, const void *data, apr_status_t (*plain)(void *))
{
    unsigned *n = baton;

    (*n)++;
    ck_assert_ptr_eq(data, &cleanups_run);
    ck_assert(plain == count_cleanup);
    return *n < 2;
}

static void keep_small(htc_run *run)
{
    char *text = apr_pstrdup(run->pool, "text");

    ck_assert(text > (char *)run->node && text < (char *)run->node + run->bytes);
    ck_assert(htc_run_whole(run));
    ck_assert_uint_lt(htc_run_used(run), HTC_RUN_MIN);
    ck_assert(text + 5 <= (char *)run->node + htc_run_used(run));
}

static void fill_up(htc_run *run)
{
    while (run->bytes - htc_run_used(run) >= 16)
        apr_palloc(run->pool, 8);
    ck_assert(htc_run_whole(run));
}

static void one_too_many(htc_run *run)
{
    fill_up(run);
    apr_palloc(run->pool, 100);
    ck_assert(!htc_run_whole(run));
}

static void one_too_large(htc_run *run)
{
    apr_palloc(run->pool, 4 * run->bytes);
    ck_assert(!htc_run_whole(run));
    apr_palloc(run->pool, 8);
    ck_assert(!htc_run_whole(run));
}

static void with_child(htc_run *run)
{
    apr_pool_t *child;

    ck_assert_int_eq(apr_pool_create(&child, run->pool), APR_SUCCESS);
    apr_palloc(child, 20000);
    ck_assert(!htc_run_whole(run));
}

static void with_child_that_is_gone(htc_run *run)
{
    apr_pool_t *child;

    ck_assert_int_eq(apr_pool_create(&child, run->pool), APR_SUCCESS);
    apr_palloc(child, 20000);
    apr_pool_destroy(child);
    ck_assert(htc_run_whole(run));
    keep_small(run);
}

static void with_cleanups(htc_run *run)
{
    unsigned n = 0;

    ck_assert(htc_run_each_cleanup(run, note_cleanup, &n));
    ck_assert_uint_eq(n, 0);
    apr_pool_cleanup_register(run->pool, &cleanups_run, count_cleanup, apr_pool_cleanup_null);
    ck_assert(htc_run_each_cleanup(run, note_cleanup, &n));
    ck_assert_uint_eq(n, 1);
    apr_pool_cleanup_register(run->pool, &cleanups_run, count_cleanup, apr_pool_cleanup_null);
    apr_pool_cleanup_register(run->pool, &cleanups_run, count_cleanup, apr_pool_cleanup_null);
    n = 0;
    ck_assert(!htc_run_each_cleanup(run, note_cleanup, &n));
    ck_assert_uint_eq(n, 2);
    ck_assert(htc_run_whole(run));
}

static const struct {
    void (*use)(htc_run *run);
    bool may_be_kept;
    int cleanups;
} uses[] = {
    {keep_small, true, 0},     {fill_up, true, 0},     {one_too_many, false, 0},
    {one_too_large, false, 0}, {with_child, false, 0}, {with_child_that_is_gone, true, 0},
    {with_cleanups, false, 3},
};

#define RUN_SIZES 4

/* The memory is this test's again behind it, as valgrind and AddressSanitizer see. */
START_TEST(a_run)
{
    size_t bytes = HTC_RUN_MIN + (size_t)(_i % RUN_SIZES) * 33 * HTC_RUN_UNIT;
    char *memory = aligned_alloc(64, bytes);
    htc_run run;

    for (int again = 0; again < 3; again++) {
        memset(memory, 0x55, bytes);
        cleanups_run = 0;
        ck_assert(htc_run_begin(&run, memory, bytes, NULL));
        ck_assert_ptr_eq(run.node, memory);
        uses[_i / RUN_SIZES].use(&run);
        htc_run_undo(&run);
        ck_assert_int_eq(cleanups_run, uses[_i / RUN_SIZES].cleanups);
    }
    if (uses[_i / RUN_SIZES].may_be_kept) {
        ck_assert(htc_run_begin(&run, memory, bytes, NULL));
        uses[_i / RUN_SIZES].use(&run);
        htc_run_keep(&run);
    }
    free(memory);
}
END_TEST

/* --- publishing and finding --------------------------------------------------------------------*/

START_TEST(published_found_replaced)
{
    hu_reader reader = hu_reader_start(heap, NULL);
    const hu_object *first, *second;

    own();
    ck_assert_ptr_null(hu_find(heap, 4));
    ck_assert_ptr_null(hu_reader_acquire(&reader, 4));
    first = build(4, 1, 100);
    ck_assert_ptr_eq(hu_find(heap, 4), first);
    ck_assert_uint_ge(hu_bytes_of(first), 100 * sizeof(uint64_t));
    ck_assert_uint_lt(hu_bytes_of(first), 100 * sizeof(uint64_t) + 2048);
    ck_assert_ptr_eq(hu_reader_acquire(&reader, 4), first); /* the same address */
    ck_assert_ptr_null(hu_find(heap, 5));                   /* has the same hash */
    ck_assert_ptr_nonnull(build(5, 1, 10));
    second = build(4, 2, 100);
    ck_assert_ptr_ne(first, second);
    ck_assert_ptr_eq(hu_find(heap, 4), second);
    ck_assert_uint_eq(hu_tell(&reader, (hu_order){HU_ACQUIRE, 4}).build, 2);
    build_others(1);
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    ck_assert_uint_eq(first->build, 1);
    hu_assert_consistent(heap);
    hu_reader_end(&reader, 0);
}
END_TEST

START_TEST(counted_by_kind)
{
    htc_heap_stats now;

    own();
    for (uint64_t i = 0; i < 6; i++)
        ck_assert_ptr_nonnull(hu_build(heap, &(hu_spec){.key = i,
                                                        .nwords = 20,
                                                        .kind = i < 3   ? HTC_HEAP_CONFIG
                                                                : i < 5 ? HTC_HEAP_PATH_ENTRY
                                                                        : HTC_HEAP_REFUSED}));
    now = stats();
    ck_assert_uint_eq(now.objects[HTC_HEAP_CONFIG], 3);
    ck_assert_uint_eq(now.objects[HTC_HEAP_PATH_ENTRY], 2);
    ck_assert_uint_eq(now.objects[HTC_HEAP_REFUSED], 1);
    ck_assert_uint_eq(now.bytes[HTC_HEAP_CONFIG], 3 * now.bytes[HTC_HEAP_REFUSED]);
    ck_assert_uint_eq(now.bytes_used, 6 * now.bytes[HTC_HEAP_REFUSED]);
    ck_assert_uint_eq(now.builds, 5);
    ck_assert_uint_eq(now.refusals, 1);
    ck_assert_int_eq(now.builder, getpid());
    ck_assert_uint_eq(now.builders, 1);
}
END_TEST

static bool stop_at_second(void *baton, const void *object, size_t bytes)
{
    unsigned *n = baton;

    ck_assert_uint_eq(bytes, hu_bytes_of(object));
    return ++*n < 2;
}

START_TEST(visited)
{
    unsigned n = 0;

    ck_assert(htc_heap_join(heap, true));
    own();
    for (uint64_t i = 0; i < 5; i++)
        ck_assert_ptr_nonnull(hu_build(heap, &(hu_spec){.key = i, .kind = i % 2}));
    htc_heap_each(heap, HTC_HEAP_CONFIG, stop_at_second, &n);
    ck_assert_uint_eq(n, 2);
    n = 0;
    htc_heap_each(heap, HTC_HEAP_PATH_ENTRY, stop_at_second, &n);
    ck_assert_uint_eq(n, 0);
    for (size_t i = 0; i < HEAP_ROW_WORDS; i++)
        ck_assert_uint_eq((uint32_t)heap->row[i], 0);
}
END_TEST

/* Each set of the index has 8 words, and each object two sets. */
START_TEST(more_than_the_index_has_words)
{
    const uint64_t n = 20 * heap->nsets * HEAP_WAYS;

    own();
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_ptr_nonnull(build(i, i, 0));
        hu_assert_right(hu_find(heap, i), i);
    }
    hu_assert_consistent(heap);
    ck_assert_uint_gt(stats().evictions, n / 2);
}
END_TEST

START_TEST(given_up)
{
    htc_heap_draft draft;
    htc_heap_stats now;

    own();
    for (int i = 0; i < 1000; i++) {
        ck_assert(htc_heap_begin(heap, &draft, 100, 20000, 1, 100));
        for (int k = 0; k < 100; k++)
            ck_assert_int_eq(((const char *)draft.payload)[k], 0);
        memset(draft.payload, 0x55, 100);
        apr_palloc(draft.run.pool, i % 2 ? 100 : 50000);
        ck_assert_int_eq(htc_run_whole(&draft.run), i % 2);
        htc_heap_drop(heap, &draft);
    }
    hu_assert_consistent(heap);
    now = stats();
    ck_assert_uint_eq(now.bytes_used + now.builds + now.no_room + now.evictions, 0);
}
END_TEST

START_TEST(no_room_for_so_much)
{
    htc_heap_draft draft;

    own();
    ck_assert(!htc_heap_begin(heap, &draft, 10, SMALL, 1, 100));
    ck_assert(!htc_heap_begin(heap, &draft, SMALL, 10, 1, 100));
    ck_assert_ptr_nonnull(build(1, 1, 100));
    ck_assert_ptr_nonnull(build(2, 1, SMALL / 3 / sizeof(uint64_t)));
    hu_assert_right(hu_find(heap, 1), 1);
}
END_TEST

/* --- readers -----------------------------------------------------------------------------------*/

/* An object that is pinned keeps what it needs, also when nothing else leads there. */
START_TEST(kept_while_pinned)
{
    enum { DEPTH = 30 };
    hu_reader reader = hu_reader_start(heap, NULL), other = hu_reader_start(heap, NULL);
    const hu_object *object = NULL, *side;

    own();
    for (uint64_t i = 0; i < DEPTH; i++) {
        side = hu_build(heap, &(hu_spec){.key = 100 + i, .build = i, .nwords = 10});
        htc_heap_keep(heap, side);
        if (object)
            htc_heap_keep(heap, object);
        object =
            hu_build(heap, &(hu_spec){.key = i, .build = i, .nwords = 10, .needs = {object, side}});
        ck_assert_ptr_nonnull(object);
    }
    ck_assert_ptr_eq(hu_reader_acquire(&reader, DEPTH - 1), object);
    ck_assert_ptr_eq(hu_reader_acquire(&other, DEPTH - 1), object);
    /* What something needs that was used lately is as if it had been used itself. */
    for (uint64_t i = 0, rounds = 0; i < DEPTH; i++) {
        for (; hu_find(heap, i) || hu_find(heap, 100 + i); rounds++) {
            build_others(1);
            ck_assert_uint_lt(rounds, 2 * DEPTH);
        }
    }
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    if (_i)
        hu_reader_end(&reader, SIGKILL); /* what it has pinned is void */
    else
        hu_tell(&reader, (hu_order){.what = HU_RELEASE});
    build_others(2);
    hu_tell(&other, (hu_order){.what = HU_VERIFY});
    hu_tell(&other, (hu_order){.what = HU_RELEASE});
    build_others(3);
    for (uint32_t n = heap->first; n < heap->end;
         n += heap_granules(heap_block_at(heap, n)->head)) {
        const hu_object *at = heap_payload(heap_block_at(heap, n));

        ck_assert(heap_state(heap_block_at(heap, n)->head) == HEAP_FREE || at->key >= 10000);
    }
    hu_assert_consistent(heap);
    if (!_i)
        hu_reader_end(&reader, 0);
    hu_reader_end(&other, 0);
}
END_TEST

/* The same object by several requests of one process: let go once, it is kept by the others. */
static int pin_often(void)
{
    htc_pin *pins[100];
    const hu_object *object = NULL;

    if (!htc_heap_join(heap, false))
        return 1;
    for (int i = 0; i < 100; i++) {
        object = hu_acquire(heap, 1, &pins[i]);
        if (!object || pins[i] != pins[0] || (uint32_t)*pins[i] != (uint32_t)i + 1)
            return 2;
    }
    for (int i = 0; i < 100; i++)
        htc_heap_release(pins[i]);
    return (uint32_t)*pins[0] != 0;
}

START_TEST(pinned_often)
{
    own();
    build(1, 1, 10);
    ck_assert_int_eq(in_child(pin_often), 0);
}
END_TEST

static htc_pin *pinned;

/* What it inherited it may release, as cleanups do when it ends. */
static int in_fork(void)
{
    htc_pin *pin;

    htc_heap_release(pinned);
    return hu_acquire(heap, 1, &pin) != NULL;
}

static int pin_and_fork(void)
{
    pid_t child;
    int status;

    if (!htc_heap_join(heap, false) || !hu_acquire(heap, 1, &pinned))
        return 1;
    child = fork();
    if (!child)
        _exit(in_fork());
    if (waitpid(child, &status, 0) != child || status)
        return 2;
    if ((uint32_t)*pinned != 1 || !hu_acquire(heap, 1, &pinned) || (uint32_t)*pinned != 2)
        return 3;
    return 0;
}

START_TEST(fork_of_a_module)
{
    own();
    build(1, 1, 10);
    ck_assert_int_eq(in_child(pin_and_fork), 0);
}
END_TEST

static const uint64_t many = 1800;

/* Until the row has no word for one. */
static int pin_all(void)
{
    static htc_pin *pins[2000];
    uint64_t n = 0, missed = 0;
    htc_pin *pin;

    if (!htc_heap_join(heap, false))
        return 1;
    for (uint64_t i = 0; i < 2 * many; i += 2) {
        if (hu_acquire(heap, i, &pins[n]))
            n++;
        else
            missed++;
    }
    if (n > HEAP_ROW_WORDS || n < HEAP_ROW_WORDS / 4 || missed < many - HEAP_ROW_WORDS)
        return 2;
    for (uint64_t i = 0; i < n; i++)
        htc_heap_release(pins[i]);
    for (size_t i = 0; i < HEAP_ROW_WORDS; i++) {
        if ((uint32_t)heap->row[i])
            return 3;
    }
    for (uint64_t i = 0; i < 2 * many; i += 2) {
        if (!hu_acquire(heap, i, &pin))
            return 4;
        htc_heap_release(pin);
    }
    return 0;
}

START_TEST(row_full)
{
    teardown();
    setup_bytes(UINT64_C(16) << 20);
    own();
    for (uint64_t i = 0; i < 2 * many; i += 2)
        ck_assert_ptr_nonnull(build(i, i, 0));
    for (uint64_t i = 0; i < 2 * many; i += 2)
        ck_assert_ptr_nonnull(hu_find(heap, i));
    ck_assert_int_eq(in_child(pin_all), 0);
}
END_TEST

START_TEST(more_processes_than_rows)
{
    hu_reader readers[ROWS], more;
    bool joined;

    for (int i = 0; i < ROWS; i++)
        readers[i] = hu_reader_start(heap, NULL);
    more = hu_reader_start(heap, &joined);
    ck_assert(!joined);
    ck_assert_uint_eq(stats().processes, ROWS);
    own();
    ck_assert_ptr_nonnull(build(1, 1, 10));
    ck_assert_ptr_null(hu_reader_acquire(&more, 1));
    for (int i = 0; i < ROWS; i++)
        ck_assert_ptr_nonnull(hu_reader_acquire(&readers[i], 1));
    hu_reader_end(&readers[2], SIGKILL);
    ck_assert_uint_eq(stats().processes, ROWS - 1);
    ck_assert_uint_ne((uint32_t)*heap_row(heap, 2) + 1, 0);
    readers[2] = hu_reader_start(heap, NULL); /* its row is empty */
    build(1, 2, 10);
    hu_reader_end(&readers[0], 0);
    hu_reader_end(&readers[1], 0);
    hu_reader_end(&readers[3], 0);
    build_others(1);
    for (uint32_t n = heap->first; n < heap->end;
         n += heap_granules(heap_block_at(heap, n)->head)) {
        const hu_object *at = heap_payload(heap_block_at(heap, n));

        ck_assert(heap_state(heap_block_at(heap, n)->head) == HEAP_FREE || at->key != 1);
    }
    hu_reader_end(&readers[2], 0);
    hu_reader_end(&more, 0);
}
END_TEST

/* Numbers of no block, of free ones, and from within a block. */
START_TEST(nonsense_in_a_row)
{
    hu_reader hostile = hu_reader_start(heap, NULL), reader = hu_reader_start(heap, NULL);

    own();
    ck_assert_ptr_nonnull(build(1, 1, 10));
    ck_assert_ptr_nonnull(hu_reader_acquire(&reader, 1));
    hu_tell(&hostile, (hu_order){.what = HU_JUNK});
    for (uint64_t i = 0; i < 500; i++)
        build(10000 + i, i, i % BIG_WORDS);
    hu_assert_consistent(heap);
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    hu_reader_end(&hostile, 0);
    build_others(1);
    hu_assert_consistent(heap);
    hu_reader_end(&reader, 0);
}
END_TEST

static int build_as_other(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    if (!build(1, 1, 10))
        return 2;
    return hu_inconsistent(heap) ? 3 : 0;
}

static int fill_as_other(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    build_others(1);
    return hu_inconsistent(heap) ? 3 : 0;
}

/* One process that serves, and forks builders. */
START_TEST(alone)
{
    const hu_object *object;
    htc_pin *pin;

    ck_assert(htc_heap_join(heap, true));
    ck_assert_int_eq(in_child(build_as_other), 0);
    object = hu_acquire(heap, 1, &pin);
    hu_assert_right(object, 1);
    ck_assert_int_eq(in_child(fill_as_other), 0);
    hu_assert_right(object, 1);
    ck_assert_ptr_null(hu_acquire(heap, 1, &(htc_pin *){NULL}));
    htc_heap_release(pin);
    ck_assert_int_eq(in_child(fill_as_other), 0);
    ck_assert_uint_eq(stats().builders, 3);
}
END_TEST

/* What a process maps where other rows were is its own. */
static int destroy_in_child(void)
{
    char *mine;

    if (!htc_heap_join(heap, false))
        return 1;
    mine = mmap(heap_row(heap, 2), HEAP_ROW_BYTES, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mine != (char *)heap_row(heap, 2))
        return 2;
    apr_pool_destroy(pool);
    *mine = 1;
    return 0;
}

START_TEST(pool_destroyed_in_a_child)
{
    ck_assert_int_eq(in_child(destroy_in_child), 0);
}
END_TEST

/* --- requests ----------------------------------------------------------------------------------*/

static htc_heap_request request(uint64_t key)
{
    return (htc_heap_request){
        .key = key, .record = key * 3, .owner = key * 5, .server = 7, .share = 9};
}

static void ask(uint64_t key, int64_t now)
{
    htc_heap_request asked = request(key);

    htc_heap_ask(heap, &asked, now);
}

static bool next(uint64_t key, int64_t now)
{
    htc_heap_request got, expected = request(key);

    if (!htc_heap_next(heap, &got, now))
        return false;
    ck_assert_uint_eq(got.key, expected.key);
    ck_assert_uint_eq(got.record, expected.record);
    ck_assert_uint_eq(got.owner, expected.owner);
    ck_assert_uint_eq(got.server, expected.server);
    ck_assert_uint_eq(got.share, expected.share);
    return true;
}

START_TEST(asked_and_answered)
{
    own();
    ck_assert(!next(1, NOW));
    ask(1 << 8, NOW);
    ask(1 << 8, NOW); /* waits already */
    ck_assert_uint_eq(stats().waiting, 1);
    ck_assert(next(1 << 8, NOW));
    ask(1 << 8, NOW); /* being worked on */
    htc_heap_answer(heap, false, NOW);
    ask(1 << 8, NOW);
    ask(1 << 8, NOW + SECOND - 1);
    ck_assert(!next(1 << 8, NOW + SECOND - 1));
    ask(1 << 8, NOW + SECOND);
    ck_assert(next(1 << 8, NOW + SECOND));
    htc_heap_answer(heap, true, NOW + SECOND);
    ask(1 << 8, NOW + SECOND);
    ck_assert(next(1 << 8, NOW + SECOND));
    htc_heap_answer(heap, false, NOW + SECOND);
    ask((1 << 8) + 1, NOW + SECOND); /* another one, which has the same place */
    ck_assert(next((1 << 8) + 1, NOW + SECOND));
    htc_heap_answer(heap, false, NOW);
    ck_assert(!next(1, NOW + SECOND));
}
END_TEST

START_TEST(clock_of_an_answer_is_nonsense)
{
    static const int64_t until[] = {INT64_MIN, INT64_MAX, -1, NOW + SECOND + 1};

    own();
    ask(1 << 8, NOW);
    ck_assert(next(1 << 8, NOW));
    htc_heap_answer(heap, false, NOW);
    heap->hints->places[1].until = until[_i];
    ask(1 << 8, NOW);
    ck_assert(next(1 << 8, NOW));
    htc_heap_answer(heap, false, NOW);
}
END_TEST

START_TEST(queue_full)
{
    htc_heap_request got;
    unsigned n = 0;

    own();
    for (uint64_t i = 0; i < 3 * HEAP_REQUESTS; i++)
        ask(i << 8, NOW);
    ck_assert_uint_eq(stats().waiting, HEAP_REQUESTS);
    for (; htc_heap_next(heap, &got, NOW); n++) {
        ck_assert_uint_lt(got.key >> 8, HEAP_REQUESTS);
        htc_heap_answer(heap, n % 2, NOW);
    }
    ck_assert_uint_eq(n, HEAP_REQUESTS);
    ck_assert_uint_eq(stats().waiting, 0);
}
END_TEST

START_TEST(asked_twice_while_full)
{
    uint64_t key = UINT64_C(5) << 32 | 1 << 8;

    own();
    build_others(1);
    ck_assert_uint_eq(heap->header->full, 1);
    ask(key, NOW);
    ck_assert(!next(key, NOW));
    ask(key, NOW);
    ck_assert(next(key, NOW));
    htc_heap_answer(heap, true, NOW);
    ask(key + (UINT64_C(1) << 40), NOW); /* takes its place among what was asked for */
    ask(key, NOW);
    ck_assert(!next(key, NOW));
    ask(key, NOW);
    ck_assert(next(key, NOW));
    htc_heap_answer(heap, true, NOW);
}
END_TEST

START_TEST(stuck_in_writing)
{
    own();
    heap->hints->places[1].state = HEAP_WRITING;
    ask(1 << 8, NOW);
    ck_assert(!next(1 << 8, NOW));
    ck_assert(!next(1 << 8, NOW + SECOND));
    ck_assert_uint_eq(heap->hints->places[1].state, HEAP_WRITING);
    ck_assert(!next(1 << 8, NOW + 2 * SECOND));
    ask(1 << 8, NOW);
    ck_assert(next(1 << 8, NOW));
    htc_heap_answer(heap, true, NOW);
}
END_TEST

/* Its process was killed before it set the bit. */
START_TEST(waits_without_a_bit)
{
    own();
    ask(1 << 8, NOW);
    heap->hints->waiting[0] = 0;
    ck_assert(next(1 << 8, NOW));
    htc_heap_answer(heap, true, NOW);
    ask(1 << 8, NOW);
    heap->hints->waiting[0] = 0;
    ck_assert(!next(1 << 8, NOW));
    ck_assert(next(1 << 8, NOW + SECOND));
    htc_heap_answer(heap, true, NOW);
}
END_TEST

/* A process may set any bit. */
START_TEST(bits_of_nothing)
{
    own();
    for (unsigned i = 0; i < HEAP_REQUESTS / 64; i++)
        heap->hints->waiting[i] = UINT64_MAX;
    ck_assert(!next(1 << 8, NOW));
    for (unsigned i = 0; i < HEAP_REQUESTS / 64; i++)
        heap->hints->waiting[i] = UINT64_MAX;
    ask(1 << 8, NOW);
    ck_assert(next(1 << 8, NOW));
    htc_heap_answer(heap, true, NOW);
    ck_assert(!next(1 << 8, NOW));
}
END_TEST

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int ask_later(void)
{
    while (!heap->hints->asleep)
        usleep(100);
    ask(1 << 8, NOW);
    return 0;
}

START_TEST(woken)
{
    int64_t began = now_ms();
    pid_t child = fork();

    if (!child)
        _exit(ask_later());
    own();
    htc_heap_wait(heap, 20000);
    ck_assert(next(1 << 8, NOW));
    htc_heap_wait(heap, 20000); /* this one waits still */
    ck_assert_int_lt(now_ms() - began, 15000);
    htc_heap_answer(heap, true, NOW);
    htc_heap_wait(heap, 1);
    ck_assert_int_eq(end_of(child), 0);
}
END_TEST

static const uint32_t shares[][2] = {{0, 100}, {1, 1}, {100, 100}, {101, 100}, {UINT32_MAX, 100}};

START_TEST(share_out_of_range)
{
    htc_heap_request asked = {.share = shares[_i][0]}, got;

    own();
    htc_heap_ask(heap, &asked, NOW);
    ck_assert(htc_heap_next(heap, &got, NOW));
    ck_assert_uint_eq(got.share, shares[_i][1]);
    htc_heap_answer(heap, true, NOW);
}
END_TEST

/* --- room --------------------------------------------------------------------------------------*/

/* What is used all the time stays, by itself and as what something else needs. */
START_TEST(used_lately)
{
    hu_reader reader = hu_reader_start(heap, NULL);
    const hu_object *needed, *leaf, *idle;

    own();
    build_others(1);
    needed = build(2, 1, 50);
    htc_heap_keep(heap, needed);
    leaf = hu_build(heap, &(hu_spec){.key = 4, .build = 1, .nwords = 50, .needs = {needed}});
    idle = build(6, 1, 50);
    ck_assert(needed && leaf && idle);
    for (uint64_t i = 0; i < 1000; i++) {
        build(10000 + i, i, BIG_WORDS);
        ck_assert_ptr_eq(hu_reader_acquire(&reader, 4), leaf);
        hu_tell(&reader, (hu_order){.what = HU_RELEASE});
    }
    ck_assert_ptr_eq(hu_find(heap, 2), needed);
    ck_assert_ptr_null(hu_find(heap, 6));
    ck_assert_uint_eq(stats().no_room, 0);
    ck_assert_uint_gt(stats().evictions, 500);
    hu_reader_end(&reader, 0);
}
END_TEST

/* An owner that has its share makes room for itself. */
START_TEST(owners_with_shares)
{
    enum { OF_OTHERS = 20 };

    own();
    for (uint64_t i = 0; i < OF_OTHERS; i++)
        hu_build(heap, &(hu_spec){.key = i, .nwords = BIG_WORDS, .owner = i});
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_ptr_nonnull(hu_build(
            heap, &(hu_spec){.key = 10000 + i, .nwords = BIG_WORDS, .owner = 77, .share = 30}));
    for (uint64_t i = 0; i < OF_OTHERS; i++)
        hu_assert_right(hu_find(heap, i), i);
    /* Somebody who has less comes: the one that has too much gives way. */
    for (uint64_t i = 0; i < OF_OTHERS; i++)
        ck_assert_ptr_nonnull(
            hu_build(heap, &(hu_spec){.key = 100 + i, .nwords = BIG_WORDS, .owner = 100 + i}));
    for (uint64_t i = 0; i < OF_OTHERS; i++) {
        hu_assert_right(hu_find(heap, i), i);
        hu_assert_right(hu_find(heap, 100 + i), 100 + i);
    }
    hu_assert_consistent(heap);
}
END_TEST

/* More than are remembered: a hostile process can ask for as many as it likes. */
START_TEST(many_owners)
{
    own();
    for (uint64_t i = 0; i < 70000; i++)
        ck_assert_ptr_nonnull(hu_build(
            heap, &(hu_spec){.key = i, .nwords = i % 50, .owner = i, .share = 1 + i % 100}));
    hu_assert_consistent(heap);
}
END_TEST

START_TEST(all_is_pinned)
{
    hu_reader reader = hu_reader_start(heap, NULL);
    uint64_t n = 0, found = 0;

    own();
    while (build(n, n, BIG_WORDS)) {
        found += hu_reader_acquire(&reader, n) != NULL;
        ck_assert_uint_lt(++n, 1000);
    }
    ck_assert_uint_eq(found, n);
    ck_assert_uint_ge(stats().no_room, 1);
    hu_tell(&reader, (hu_order){.what = HU_VERIFY});
    hu_assert_consistent(heap);
    hu_tell(&reader, (hu_order){.what = HU_RELEASE});
    build_others(1);
    hu_reader_end(&reader, 0);
}
END_TEST

/* What is found is kept on request. Whoever keeps more than can be noted builds nothing. */
START_TEST(kept_until_answered)
{
    const hu_object *object;
    htc_heap_draft draft;

    own();
    object = build(1, 1, 10);
    htc_heap_keep(heap, object);
    build_others(1);
    hu_assert_right(object, 1);
    ck_assert_uint_eq(object->build, 1);
    for (int i = 1; i < 512; i++)
        htc_heap_keep(heap, object);
    ck_assert(htc_heap_begin(heap, &draft, 10, 10, 1, 100));
    htc_heap_drop(heap, &draft);
    htc_heap_keep(heap, hu_find(heap, 10000));
    ck_assert(!htc_heap_begin(heap, &draft, 10, 10, 1, 100));
    hu_answered(heap);
    ck_assert(htc_heap_begin(heap, &draft, 10, 10, 1, 100));
    htc_heap_drop(heap, &draft);
}
END_TEST

/* --- builders that end -------------------------------------------------------------------------*/

static int die_at_work(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS)
        return 1;
    htc_heap_working_on(heap, 5, 6);
    raise(SIGKILL);
    return 2;
}

static int look_at_last(void)
{
    uint64_t version;

    if (htc_heap_own(heap, false) != APR_SUCCESS || htc_heap_died_of(heap, &version) != 5 ||
        version != 6)
        return 1;
    if (htc_heap_suspected(heap, 5, 6) || !htc_heap_suspected(heap, 5, 6) ||
        htc_heap_suspected(heap, 5, 7))
        return 2;
    htc_heap_condemn(heap, 5, 6);
    return 0;
}

static int look_at_condemned(void)
{
    uint64_t version;

    if (htc_heap_own(heap, false) != APR_SUCCESS || htc_heap_died_of(heap, &version))
        return 1;
    if (!htc_heap_condemned(heap, 5, 6) || htc_heap_condemned(heap, 5, 7) ||
        !htc_heap_suspected(heap, 5, 6))
        return 2;
    for (uint64_t i = 0; i < HEAP_CONDEMNED; i++)
        htc_heap_condemn(heap, 100 + i, 1);
    return htc_heap_condemned(heap, 5, 6) || !htc_heap_condemned(heap, 100, 1) ? 3 : 0;
}

START_TEST(died_of_a_record)
{
    ck_assert_int_eq(in_child(die_at_work), SIGKILL);
    ck_assert_int_eq(in_child(look_at_last), 0);
    ck_assert_uint_eq(stats().condemned, 1);
    ck_assert_int_eq(in_child(look_at_condemned), 0);
    ck_assert_uint_eq(stats().builders, 3);
}
END_TEST

static int own_anew(void)
{
    if (htc_heap_own(heap, true) != APR_SUCCESS || hu_find(heap, 1))
        return 1;
    build_others(1);
    return hu_inconsistent(heap) ? 2 : 0;
}

/* Nothing is found any more; what is pinned stays. */
START_TEST(last_one_ended_by_a_fault)
{
    const hu_object *object;
    htc_pin *pin;

    ck_assert(htc_heap_join(heap, true));
    ck_assert_int_eq(in_child(build_as_other), 0);
    object = hu_acquire(heap, 1, &pin);
    ck_assert_ptr_nonnull(object);
    ck_assert_int_eq(in_child(own_anew), 0);
    hu_assert_right(object, 1);
    htc_heap_release(pin);
}
END_TEST

static uint64_t damage;

static int damage_it(void)
{
    if (htc_heap_own(heap, false) != APR_SUCCESS || !build(1, 1, 10))
        return 1;
    heap_block_at(heap, heap->first)->head = damage;
    heap_block_at(heap, heap->first)->kind = HTC_HEAP_KINDS;
    return 0;
}

static int own_damaged(void)
{
    return htc_heap_own(heap, true) == APR_EGENERAL ? 0 : 1;
}

static const uint64_t damages[] = {
    0, 3, 4 << 2 | 3, 1 << 2 | HEAP_USED, UINT64_MAX, UINT64_C(1) << 40};

START_TEST(damaged)
{
    damage = damages[_i];
    ck_assert_int_eq(in_child(damage_it), 0);
    ck_assert_int_eq(in_child(own_damaged), 0);
}
END_TEST

/* --- a process that was taken over -------------------------------------------------------------*/

static const hu_object *object_there;
static bool privileged; /* this could not give up its user: then some things are not tried */

static bool give_up_rights(void)
{
    if (geteuid() == 0 && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
        return false;
    return true;
}

static volatile char *writable(const volatile void *at)
{
    return (volatile char *)(uintptr_t)at;
}

static int write_object(void)
{
    *writable(object_there) = 1;
    return 1;
}

static int write_words(void)
{
    *writable(object_there->words) = 1;
    return 1;
}

static int write_header(void)
{
    *writable(heap->header) = 1;
    return 1;
}

static int write_index(void)
{
    *writable(heap->index) = 1;
    return 1;
}

static int write_row(void)
{
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (heap_row(heap, i) != heap->row)
            *writable(heap_row(heap, i)) = 1;
    }
    return 1;
}

static int read_row(void)
{
    for (unsigned i = 0; i < heap->nrows; i++) {
        if (heap_row(heap, i) != heap->row && *writable(heap_row(heap, i)) == 1)
            return 2;
    }
    return 1;
}

/* The row's memory ends with the row. */
static int grow_row(void)
{
    char *row = mremap((void *)heap->row, HEAP_ROW_BYTES, 4 * HEAP_ROW_BYTES, MREMAP_MAYMOVE);

    if (row == MAP_FAILED)
        return 1;
    *writable(row + HEAP_ROW_BYTES) = 1;
    return 2;
}

static int protect(void)
{
    return mprotect(heap->base, heap->bytes, PROT_READ | PROT_WRITE) ? 0 : 1;
}

static int protect_moved(void)
{
    char *at = mremap(heap->base, heap->bytes, heap->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                      heap->base + (UINT64_C(1) << 32));

    if (at == MAP_FAILED)
        return 2;
    return mprotect(at, heap->bytes, PROT_READ | PROT_WRITE) ? 0 : 1;
}

static int protect_copied(void)
{
    char *at = mremap(heap->base, 0, heap->bytes, MREMAP_MAYMOVE);

    if (at == MAP_FAILED)
        return 0;
    return mprotect(at, heap->bytes, PROT_READ | PROT_WRITE) ? 0 : 1;
}

static int map_from_descriptor(void)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int found = 0;

    while (dir && (entry = readdir(dir))) {
        char name[300], to[300];
        ssize_t n;

        apr_snprintf(name, sizeof(name), "/proc/self/fd/%s", entry->d_name);
        n = readlink(name, to, sizeof(to) - 1);
        if (n > 0) {
            to[n] = '\0';
            found += strstr(to, "memfd:htcache") != NULL;
        }
    }
    if (dir)
        closedir(dir);
    return dir ? found : 99;
}

static int write_own_memory(void)
{
    int fd = open("/proc/self/mem", O_RDWR);

    return fd >= 0 && pwrite(fd, "x", 1, (off_t)(uintptr_t)object_there) == 1 ? 1 : 0;
}

static int open_map_files(void)
{
    char name[100];

    apr_snprintf(name, sizeof(name), "/proc/self/map_files/%lx-%lx", (unsigned long)heap->base,
                 (unsigned long)heap->base + heap->bytes);
    return !privileged && open(name, O_RDWR) >= 0 ? 1 : 0;
}

/* The parent has a descriptor, with which a builder that was forked may begin. */
static int open_parents(void)
{
    char name[100];

    if (privileged)
        return 0;
    for (int i = 0; i < 100; i++) {
        apr_snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)getppid(), i);
        if (open(name, O_RDWR) >= 0)
            return 1;
    }
    return 0;
}

static int write_parents(void)
{
    struct iovec local = {"x", 1}, remote = {(void *)(uintptr_t)object_there, 1};

    return !privileged && process_vm_writev(getppid(), &local, 1, &remote, 1, 0) == 1 ? 1 : 0;
}

static int own_it(void)
{
    return htc_heap_own(heap, false) == APR_SUCCESS ? 1 : 0;
}

static const struct attempt {
    const char *name;
    int (*act)(void);
    int end; /* 0: it is refused; else the signal */
} attempts[] = {
    {"write an object", write_object, SIGSEGV},
    {"write what an object has in its pool", write_words, SIGSEGV},
    {"write the header", write_header, SIGSEGV},
    {"write the index", write_index, SIGSEGV},
    {"write another process's row", write_row, SIGSEGV},
    {"read another process's row", read_row, SIGSEGV},
    {"reach another row by growing its own", grow_row, SIGBUS},
    {"mprotect() the heap", protect, 0},
    {"mprotect() it elsewhere", protect_moved, 0},
    {"mprotect() a second mapping", protect_copied, 0},
    {"find a descriptor", map_from_descriptor, 0},
    {"write by /proc/self/mem", write_own_memory, 0},
    {"open the mapping", open_map_files, 0},
    {"open the parent's descriptor", open_parents, 0},
    {"write the parent's memory", write_parents, 0},
    {"become the builder", own_it, 0},
};

static int attempt_in_joined(const struct attempt *attempt)
{
    pid_t child = fork();

    ck_assert_int_ge(child, 0);
    if (!child) {
        if (!htc_heap_join(heap, false))
            _exit(98);
        if (!give_up_rights())
            _exit(97);
        signal(SIGSEGV, SIG_DFL); /* AddressSanitizer's */
        signal(SIGBUS, SIG_DFL);
        _exit(attempt->act());
    }
    return end_of(child);
}

START_TEST(taken_over)
{
    htc_pin *pin;

    privileged = geteuid() != 0; /* the parent has the same user */
    if (privileged)
        printf("not run as root: a child has its parent's rights, what these allow is not tried\n");
    ck_assert(htc_heap_join(heap, true));
    ck_assert_int_eq(in_child(build_as_other), 0);
    object_there = hu_acquire(heap, 1, &pin);
    ck_assert_ptr_nonnull(object_there);
    ck_assert_msg(attempt_in_joined(&attempts[_i]) == attempts[_i].end, "%s", attempts[_i].name);
    hu_assert_right(object_there, 1);
    hu_assert_consistent(heap);
    htc_heap_release(pin);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static TCase *add_case(Suite *s, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(s, tcase);
    return tcase;
}

int main(void)
{
    Suite *s = suite_create("heap");
    TCase *make = add_case(s, "make"), *find = add_case(s, "find"), *read = add_case(s, "read");
    TCase *asked = add_case(s, "ask"), *room = add_case(s, "room");
    TCase *builders = add_case(s, "builders"), *hostile = add_case(s, "hostile");

    tcase_add_loop_test(make, sizes_of_a_heap, 0, COUNT(sizes));
    tcase_add_test(make, limit_on_files);
    tcase_add_loop_test(make, a_run, 0, COUNT(uses) * RUN_SIZES);
    tcase_add_test(find, published_found_replaced);
    tcase_add_test(find, counted_by_kind);
    tcase_add_test(find, visited);
    tcase_add_test(find, more_than_the_index_has_words);
    tcase_add_test(find, given_up);
    tcase_add_test(find, no_room_for_so_much);
    tcase_add_loop_test(read, kept_while_pinned, 0, 2);
    tcase_add_test(read, pinned_often);
    tcase_add_test(read, fork_of_a_module);
    tcase_add_test(read, row_full);
    tcase_add_test(read, more_processes_than_rows);
    tcase_add_test(read, nonsense_in_a_row);
    tcase_add_test(read, alone);
    tcase_add_test(read, pool_destroyed_in_a_child);
    tcase_add_test(asked, asked_and_answered);
    tcase_add_loop_test(asked, clock_of_an_answer_is_nonsense, 0, 4);
    tcase_add_test(asked, queue_full);
    tcase_add_test(asked, asked_twice_while_full);
    tcase_add_test(asked, stuck_in_writing);
    tcase_add_test(asked, waits_without_a_bit);
    tcase_add_test(asked, bits_of_nothing);
    tcase_add_test(asked, woken);
    tcase_add_loop_test(asked, share_out_of_range, 0, COUNT(shares));
    tcase_add_test(room, used_lately);
    tcase_add_test(room, owners_with_shares);
    tcase_add_test(room, many_owners);
    tcase_add_test(room, all_is_pinned);
    tcase_add_test(room, kept_until_answered);
    tcase_add_test(builders, died_of_a_record);
    tcase_add_test(builders, last_one_ended_by_a_fault);
    tcase_add_loop_test(builders, damaged, 0, COUNT(damages));
    tcase_add_loop_test(hostile, taken_over, 0, COUNT(attempts));
    return run_suite(s);
}
