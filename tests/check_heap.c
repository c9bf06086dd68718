/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the heap of parsed configurations: making it, publishing and finding, requests, and
 * room. Run by 'make check', as are the other check_heap* programs.
 */
#include "suite_util.h"
#include "heap_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#define NOW    INT64_C(100000)
#define SECOND 1000

/* --- making it ---------------------------------------------------------------------------------*/

/* A kernel with vm.memfd_noexec=2, and one that is older than the flag. */
static enum { ANY_KERNEL, STRICT, OLD, KERNELS } kernel;

int memfd_create(const char *name, unsigned flags)
{
    bool sealed = flags & 8U; /* MFD_NOEXEC_SEAL */

    if ((kernel == STRICT && !sealed) || (kernel == OLD && sealed)) {
        errno = kernel == OLD ? EINVAL : EACCES;
        return -1;
    }
    return (int)syscall(SYS_memfd_create, name, flags);
}

START_TEST(kernels)
{
    const char *why = NULL;
    htc_heap *made;

    kernel = _i;
    ck_assert_int_eq(htc_heap_create(&made, SMALL, ROWS, pool, &why), APR_SUCCESS);
    kernel = ANY_KERNEL;
    ck_assert_int_eq(fcntl(made->fd, F_GETFD), FD_CLOEXEC);
}
END_TEST

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
    {HTC_HEAP_MAX_BYTES / 50, 5000, true}, /* nothing of it is taken yet */
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

START_TEST(asked_often_while_full)
{
    uint64_t key = UINT64_C(5) << 32 | 1 << 8;

    own();
    build_others(1);
    ck_assert_uint_eq(heap->header->full, 1);
    for (int times = 0; times < 2; times++) {
        for (int i = 1; i < HTC_GHOST_ASKS; i++) {
            ask(key, NOW);
            ck_assert(!next(key, NOW));
        }
        ask(key, NOW);
        ck_assert(next(key, NOW));
        htc_heap_answer(heap, true, NOW);
    }
    for (uint64_t i = 0; i < HTC_GHOST_WAYS; i++) /* they take its place among what was asked for */
        ask(key + (UINT64_C(1) << (40 + i)), NOW);
    ask(key, NOW);
    ck_assert(!next(key, NOW));
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

/* Those with places behind it have their turn, however long each takes. */
START_TEST(one_that_asks_again_at_once)
{
    int64_t now = NOW;

    own();
    ask(1 << 8, now);
    ask(2 << 8, now);
    ck_assert(next(1 << 8, now));
    htc_heap_answer(heap, true, now += SECOND);
    ask(1 << 8, now);
    ck_assert(next(2 << 8, now));
    htc_heap_answer(heap, true, now += SECOND);
    ck_assert(next(1 << 8, now));
    htc_heap_answer(heap, true, now);
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

/* What several objects need stays until the last of them goes, also once it cannot be found itself. */
START_TEST(needed_by_several)
{
    const hu_object *shared, *users[2];
    bool had = true;

    own();
    shared = build(2, 1, 50);
    ck_assert(htc_heap_has(heap, shared, hu_hash(2)));
    ck_assert(!htc_heap_has(heap, shared, hu_hash(4)));
    for (int i = 0; i < 2; i++) {
        users[i] = hu_build(heap, &(hu_spec){.key = 4 + 2 * (uint64_t)i,
                                             .build = 1,
                                             .nwords = 50,
                                             .kind = HTC_HEAP_CONTENT,
                                             .needs = {NULL, NULL, shared}});
        ck_assert_ptr_nonnull(users[i]);
    }
    ck_assert_uint_eq(stats().objects[HTC_HEAP_CONFIG], 1);
    build(2, 2, 50); /* another one in its place */
    ck_assert(!htc_heap_has(heap, shared, hu_hash(2)));
    for (uint64_t i = 0; had; i++) {
        ck_assert_uint_lt(i, 100000);
        build(10000 + i, i, BIG_WORDS);
        had = hu_find(heap, 4) || hu_find(heap, 6);
        if (had)
            ck_assert_ptr_null(hu_wrong(shared, 2));
        hu_assert_consistent(heap);
    }
    build_others(1);
    ck_assert_uint_eq(stats().objects[HTC_HEAP_CONTENT], 0);
    ck_assert(!htc_heap_has(heap, shared, hu_hash(2)));
}
END_TEST

/* Objects that need one another not as the first need: the builder follows them with a part of its
 * stack for each. */
static const hu_object *build_deep(unsigned depth, unsigned which)
{
    const hu_object *object = NULL;

    for (uint64_t i = 0; i <= depth; i++) {
        hu_spec spec = {.key = 2 * i, .build = 1, .nwords = 1};

        spec.needs[which] = object;
        object = hu_build(heap, &spec);
        ck_assert_ptr_nonnull(object);
    }
    return object;
}

START_TEST(deep_needs)
{
    own();
    ck_assert_uint_eq(htc_heap_depth(heap, build_deep(100, 0)), 0);
    ck_assert_uint_eq(htc_heap_depth(heap, build_deep(HTC_HEAP_MOST_DEPTH, 1)),
                      HTC_HEAP_MOST_DEPTH);
    hu_assert_consistent(heap);
}
END_TEST

START_TEST(too_deep_needs)
{
    own();
    build_deep(HTC_HEAP_MOST_DEPTH + 1, 2);
}
END_TEST

/* A look that a request does not need is left out while there is room enough. */
START_TEST(use_is_noted_when_room_gets_short)
{
    hu_reader reader = hu_reader_start(heap, NULL);
    uint32_t number;
    uint64_t n = 1;

    own();
    number = heap_number_of(heap, build(0, 1, 10));
    heap->hints->used[number] = 0;
    hu_reader_acquire(&reader, 0);
    ck_assert_uint_eq(heap->hints->used[number], 0);
    while (stats().bytes_used * 4 < stats().bytes_total * 3)
        ck_assert_ptr_nonnull(build(n++, 1, BIG_WORDS));
    ck_assert_uint_eq(stats().evictions, 0);
    hu_reader_acquire(&reader, 0);
    ck_assert_uint_eq(heap->hints->used[number], 1);
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

static unsigned nfound(uint64_t n)
{
    unsigned found = 0;

    for (uint64_t i = 0; i < n; i++)
        found += hu_find(heap, i) != NULL;
    return found;
}

/* Wherever the last object lies that made way, and whether others are in use or not. */
START_TEST(draft_as_large_as_may_be)
{
    hu_reader reader = hu_reader_start(heap, NULL);
    htc_heap_draft draft;
    uint64_t n = 0, before;

    own();
    while (!stats().evictions || n < 100 + 13 * (uint64_t)_i)
        ck_assert_ptr_nonnull(build(n++, 1, BIG_WORDS));
    for (uint64_t i = 0; _i % 2 && i < n; i++)
        hu_reader_acquire(&reader, i);
    hu_tell(&reader, (hu_order){.what = HU_RELEASE});
    before = nfound(n);
    ck_assert(htc_heap_begin(heap, &draft, 100, htc_heap_most(heap), 1, 100));
    ck_assert_uint_ge(nfound(n), before / 4);
    htc_heap_drop(heap, &draft);
    hu_assert_consistent(heap);
    hu_reader_end(&reader, 0);
}
END_TEST

/* Where that can only be in vain nothing makes way, however often it is asked for. */
START_TEST(what_is_pinned_lies_in_between)
{
    hu_reader reader = hu_reader_start(heap, NULL);
    htc_heap_draft draft;
    uint64_t n = 0, most;
    unsigned before;

    own();
    most = htc_heap_most(heap);
    for (; n < SMALL / (BIG_WORDS * sizeof(uint64_t)); n++)
        ck_assert_ptr_nonnull(build(n, 1, BIG_WORDS));
    for (uint64_t i = 0; i < n; i += most / 2 / (BIG_WORDS * sizeof(uint64_t)))
        hu_reader_acquire(&reader, i);
    before = nfound(n);
    for (int i = 0; i < 10; i++)
        ck_assert(!htc_heap_begin(heap, &draft, 100, most, 1, 100));
    ck_assert_uint_eq(nfound(n), before);
    hu_tell(&reader, (hu_order){.what = HU_RELEASE});
    ck_assert(htc_heap_begin(heap, &draft, 100, most, 1, 100));
    htc_heap_drop(heap, &draft);
    hu_assert_consistent(heap);
    hu_reader_end(&reader, 0);
}
END_TEST

/* What is nobody's counts for each one that needs it: who has as much as another one counts as much,
 * whoever came first. */
START_TEST(common_to_owners)
{
    enum { OF_OTHERS = 20, OF_ONE = 100 };
    const hu_object *common;
    uint32_t granules;

    own();
    common =
        hu_build(heap, &(hu_spec){.key = 1, .nwords = 4 * BIG_WORDS, .owner = HTC_HEAP_NOBODY});
    ck_assert_ptr_nonnull(common);
    granules = heap_granules(heap_block_at(heap, heap_number_of(heap, common))->head);
    for (uint64_t i = 0; i < OF_OTHERS; i++)
        hu_build(heap, &(hu_spec){.key = 10 + i, .nwords = BIG_WORDS, .owner = i});
    for (uint64_t i = 0; i < OF_ONE; i++)
        ck_assert_ptr_nonnull(hu_build(
            heap,
            &(hu_spec){
                .key = 10000 + i, .nwords = 10, .owner = 77, .share = 50, .needs = {common}}));
    ck_assert(htc_heap_has(heap, common, hu_hash(1)));
    ck_assert_uint_gt(OF_ONE * granules, heap_total(heap));
    /* Room gets short. The one that counts for more than its share gives way to all others. */
    for (uint64_t i = 0; stats().evictions < OF_ONE / 2; i++) {
        ck_assert_uint_lt(i, 100000);
        ck_assert_ptr_nonnull(
            hu_build(heap, &(hu_spec){.key = 20000 + i, .nwords = BIG_WORDS, .owner = 20000 + i}));
        ck_assert_ptr_nonnull(hu_build(
            heap,
            &(hu_spec){.key = 30000, .nwords = 10, .owner = 77, .share = 50, .needs = {common}}));
    }
    for (uint64_t i = 0; i < OF_OTHERS; i++)
        hu_assert_right(hu_find(heap, 10 + i), 10 + i);
    hu_assert_right(hu_find(heap, 1), 1);
    hu_assert_consistent(heap);
    /* When nothing needs it any more it goes. */
    for (uint64_t i = 0; htc_heap_has(heap, common, hu_hash(1)); i++) {
        ck_assert_uint_lt(i, 100000);
        ck_assert_ptr_nonnull(
            hu_build(heap, &(hu_spec){.key = 40000 + i, .nwords = BIG_WORDS, .owner = 3}));
        hu_assert_consistent(heap);
    }
    for (uint64_t i = 0; i < OF_ONE; i++)
        ck_assert_ptr_null(hu_find(heap, 10000 + i));
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
    for (int i = 1; i < HEAP_KEPT; i++)
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

int main(void)
{
    Suite *s = suite_create("heap");
    TCase *make = add_case(s, "make");
    TCase *find = add_case(s, "find");
    TCase *asked = add_case(s, "ask");
    TCase *room = add_case(s, "room");

    tcase_add_loop_test(make, sizes_of_a_heap, 0, COUNT(sizes));
    tcase_add_test(make, limit_on_files);
    tcase_add_loop_test(make, kernels, 0, KERNELS);
    tcase_add_test(find, published_found_replaced);
    tcase_add_test(find, counted_by_kind);
    tcase_add_test(find, visited);
    tcase_add_test(find, more_than_the_index_has_words);
    tcase_add_test(find, given_up);
    tcase_add_test(find, no_room_for_so_much);
    tcase_add_test(asked, asked_and_answered);
    tcase_add_loop_test(asked, clock_of_an_answer_is_nonsense, 0, 4);
    tcase_add_test(asked, queue_full);
    tcase_add_test(asked, asked_often_while_full);
    tcase_add_test(asked, stuck_in_writing);
    tcase_add_test(asked, waits_without_a_bit);
    tcase_add_test(asked, bits_of_nothing);
    tcase_add_test(asked, one_that_asks_again_at_once);
    tcase_add_test(asked, woken);
    tcase_add_loop_test(asked, share_out_of_range, 0, COUNT(shares));
    tcase_add_test(room, used_lately);
    tcase_add_test(room, needed_by_several);
    tcase_add_test(room, deep_needs);
    tcase_add_test_raise_signal(room, too_deep_needs, SIGABRT);
    tcase_add_test(room, use_is_noted_when_room_gets_short);
    tcase_add_test(room, owners_with_shares);
    tcase_add_test(room, common_to_owners);
    tcase_add_loop_test(room, draft_as_large_as_may_be, 0, 10);
    tcase_add_test(room, what_is_pinned_lies_in_between);
    tcase_add_test(room, many_owners);
    tcase_add_test(room, all_is_pinned);
    tcase_add_test(room, kept_until_answered);
    return run_suite(s);
}
