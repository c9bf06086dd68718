/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The heap when the worst happens: objects are replaced and evicted in the midst of being pinned,
 * others are pinned in the midst of an eviction, and the builder is killed after each store of
 * each operation. The heap's sources are compiled into this program with HTC_CRASH_POINTS. This
 * process serves, builders are forked. Run by 'make check'; with HTC_LONG=seconds builders are
 * killed at random for so long, and 10000 times at least.
 */
#include "suite_util.h"
#include "heap_util.h"

#include <time.h>

#ifndef HTC_CRASH_POINTS
#error "compile this and the heap's sources with -DHTC_CRASH_POINTS"
#endif

#define HEAP_BYTES HTC_HEAP_MIN_BYTES
#define ROWS       6
#define KEYS       12
#define WORDS      40
#define BIG        ((size_t)40 << 10)  /* bytes */
#define HALF       ((size_t)100 << 10) /* nearly half of the heap */
#define PINNED     2                   /* keys that this process has pinned in all scenes */

static apr_pool_t *pool;
static htc_heap *heap;
static long countdown;             /* stores until death; 0: never */
static const char *interrupted_at; /* NULL: nowhere */
static bool each_time;
static void (*interrupt)(void);
static unsigned interrupted;

void htc_crash_point(const char *where)
{
    if (interrupted_at && !strcmp(where, interrupted_at)) {
        if (!each_time)
            interrupted_at = NULL;
        interrupted++;
        interrupt();
    }
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}

static void setup(void)
{
    pool = hu_pool();
    heap = hu_create(pool, HEAP_BYTES, ROWS);
    ck_assert(htc_heap_join(heap, true));
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

/* --- what builders do -------------------------------------------------------------------------*/

static void must(bool good)
{
    if (!good)
        _exit(2);
}

static void own(void)
{
    must(htc_heap_own(heap, false) == APR_SUCCESS);
}

static void own_anew(void)
{
    must(htc_heap_own(heap, true) == APR_SUCCESS);
}

static const hu_object *build(uint64_t key, uint64_t number, size_t nwords)
{
    return hu_build(heap,
                    &(hu_spec){.key = key, .build = number, .nwords = nwords, .owner = key % 3});
}

/* A builder that gets through. */
static void in_builder(void (*act)(void))
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (!child) {
        countdown = 0;
        act();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}

static void build_keys(uint64_t number)
{
    const hu_object *above = NULL;

    for (uint64_t i = 0; i < KEYS; i++) {
        above = hu_build(heap, &(hu_spec){.key = i,
                                          .build = number + i,
                                          .nwords = WORDS,
                                          .owner = i % 3,
                                          .needs = {i % 4 ? above : NULL}});
        must(above != NULL);
    }
}

static void fill(void)
{
    own();
    build_keys(1);
}

static void replace(void)
{
    own();
    for (uint64_t i = 0; i < KEYS; i++)
        must(build(i, 100 + i, WORDS + i) != NULL);
}

static void replace_twice(void)
{
    replace();
    for (uint64_t i = 0; i < KEYS; i++)
        must(build(i, 200 + i, WORDS) != NULL);
}

/* Blocks get the same numbers, and the words of the index are what they were. */
static void evict_and_rebuild(void)
{
    own_anew();
    build_keys(300);
}

/* The same for keys that have the same hash. */
static void evict_and_build_neighbours(void)
{
    own_anew();
    for (uint64_t i = 0; i < KEYS; i++)
        must(build(i ^ 1, 400, WORDS) != NULL);
}

static void evict_and_build_big(void)
{
    own_anew();
    must(build(100, 1, BIG / sizeof(uint64_t)) && build(101, 1, BIG / sizeof(uint64_t)));
}

static void make_room(void)
{
    own();
    for (uint64_t i = 0; i < 4 * HEAP_BYTES / BIG; i++)
        must(build(200 + i, i, BIG / sizeof(uint64_t)) != NULL);
}

/* --- at the worst moment ----------------------------------------------------------------------*/

static const struct {
    const char *at;
    void (*act)(void);
    uint64_t build; /* of key 0 that may be found; 0: none */
} moments[] = {
    {"about to pin", replace, 100},
    {"about to pin", replace_twice, 200},
    {"about to pin", evict_and_rebuild, 300},
    {"about to pin", evict_and_build_neighbours, 400},
    {"about to pin", evict_and_build_big, 0},
    {"about to pin", make_room, 0},
    {"pinned", replace, 100},
    {"pinned", replace_twice, 200},
    {"pinned", evict_and_rebuild, 300},
    {"pinned", evict_and_build_neighbours, 400},
    {"pinned", evict_and_build_big, 0},
    {"pinned", make_room, 0},
};
#define MOMENTS ((int)(sizeof(moments) / sizeof(moments[0])))

static int moment;

static void act_now(void)
{
    in_builder(moments[moment].act);
}

/* What is found then is right, and stays so; what is not found is not pinned. */
static void pin_in_the_midst(uint64_t key)
{
    const hu_object *object;
    htc_pin *pin;
    uint64_t number;

    interrupted_at = moments[moment].at;
    interrupt = act_now;
    object = hu_acquire(heap, key, &pin);
    ck_assert_ptr_null(interrupted_at);
    if (object) {
        hu_assert_right(object, key);
        number = object->build;
        ck_assert_uint_ge(number, moments[moment].build);
        in_builder(make_room);
        in_builder(make_room);
        hu_assert_right(object, key);
        ck_assert_uint_eq(object->build, number);
        htc_heap_release(pin);
    }
    for (size_t i = 0; i < HEAP_ROW_WORDS; i++)
        ck_assert_uint_eq((uint32_t)heap->row[i], 0);
    hu_assert_consistent(heap);
}

START_TEST(changed_while_pinning)
{
    moment = _i % MOMENTS;
    in_builder(fill);
    pin_in_the_midst((uint64_t)_i / MOMENTS);
}
END_TEST

/* A number that comes again with the same word is that of another object. */
START_TEST(number_used_again)
{
    const hu_object *before, *after;
    htc_pin *pin;

    in_builder(fill);
    before = hu_acquire(heap, 1, &pin);
    htc_heap_release(pin);
    moment = 2;
    interrupted_at = moments[moment].at;
    interrupt = act_now;
    after = hu_acquire(heap, 1, &pin);
    ck_assert_ptr_eq(before, after);
    ck_assert_uint_eq(after->build, 301);
    hu_assert_right(after, 1);
    htc_heap_release(pin);
}
END_TEST

static void die(void)
{
    raise(SIGKILL);
}

static void evict_all(void)
{
    own_anew();
}

static const char *const deaths[] = {"about to pin", "pinned"};

/* A reader that dies in the midst of it keeps nothing, also before its row has another owner. */
START_TEST(reader_dies_while_pinning)
{
    htc_heap_stats stats;
    pid_t child;
    htc_pin *pin;

    in_builder(fill);
    child = fork();
    if (!child) {
        htc_heap_join(heap, false);
        interrupted_at = deaths[_i];
        interrupt = die;
        hu_acquire(heap, 1, &pin);
        _exit(1);
    }
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
    in_builder(evict_all);
    htc_heap_stats_get(heap, &stats);
    ck_assert_uint_eq(stats.bytes_used, 0);
}
END_TEST

static hu_reader readers[2];

static void acquire_all(void)
{
    for (uint64_t i = 0; i < KEYS + 4 * HEAP_BYTES / BIG; i++)
        hu_reader_acquire(&readers[i % 2], i < KEYS ? i : 200 + i - KEYS);
}

static void make_some_room(void)
{
    own();
    for (uint64_t i = 0; i < 3 * HEAP_BYTES / BIG; i++)
        build(200 + i, i, BIG / sizeof(uint64_t)); /* until all is pinned */
    must(interrupted > 0 && !hu_inconsistent(heap));
}

static const char *const evictions[] = {"unlinked", "row", "freed", "rest", "cut", "published"};

START_TEST(acquired_while_evicting)
{
    readers[0] = hu_reader_start(heap, NULL);
    readers[1] = hu_reader_start(heap, NULL);
    in_builder(fill);
    interrupted_at = evictions[_i];
    each_time = true;
    interrupt = acquire_all;
    in_builder(make_some_room);
    interrupted_at = NULL;
    for (int i = 0; i < 2; i++) {
        hu_tell(&readers[i], (hu_order){.what = HU_VERIFY});
        hu_tell(&readers[i], (hu_order){.what = HU_RELEASE});
    }
    in_builder(make_room);
    hu_assert_consistent(heap);
    hu_reader_end(&readers[0], 0);
    hu_reader_end(&readers[1], 0);
}
END_TEST

/* --- killed after every store -----------------------------------------------------------------*/

static const hu_object *pinned[PINNED];
static htc_pin *pins[PINNED];
static uint64_t pinned_build[PINNED];

static void simple(void)
{
    in_builder(fill);
    for (uint64_t i = 0; i < PINNED; i++) {
        pinned[i] = hu_acquire(heap, 5 + i, &pins[i]);
        ck_assert_ptr_nonnull(pinned[i]);
        pinned_build[i] = pinned[i]->build;
    }
}

static void full(void)
{
    simple();
    in_builder(make_room);
}

static void fragment(void)
{
    own();
    for (uint64_t i = 0; i < 60; i++)
        must(build(500 + i, i, WORDS * (1 + i % 5)) != NULL);
}

/* Objects that nobody needs any more lie between others. */
static void fragmented(void)
{
    simple();
    in_builder(fragment);
    in_builder(replace_twice);
}

static void begin_and_die(void)
{
    htc_heap_draft draft;

    own();
    must(htc_heap_begin(heap, &draft, 1000, 50000, 1, 100));
    htc_heap_working_on(heap, 1, 1);
}

static void after_dead_builder(void)
{
    fragmented();
    in_builder(begin_and_die);
}

static void do_nothing(void)
{
}

static void build_new(void)
{
    must(build(50, 1, WORDS) != NULL);
}

static void build_over_pinned(void)
{
    must(build(5, 50, WORDS) && build(6, 51, WORDS));
}

static void build_with_needs(void)
{
    const hu_object *above = hu_find(heap, 3), *side = hu_find(heap, 7);

    must(hu_build(heap, &(hu_spec){.key = 60, .nwords = WORDS, .needs = {above, side, side}}) !=
         NULL);
}

static void build_big(void)
{
    must(build(70, 1, BIG / sizeof(uint64_t)) != NULL);
}

static void build_half(void)
{
    build(71, 1, HALF / sizeof(uint64_t));
}

static void build_of_small_share(void)
{
    for (uint64_t i = 0; i < 3; i++)
        must(
            hu_build(heap, &(hu_spec){.key = 80 + i, .nwords = BIG / 8, .owner = 1, .share = 10}) !=
            NULL);
}

static void build_in_vain(void)
{
    htc_heap_draft draft;

    must(htc_heap_begin(heap, &draft, 1000, 20000, 1, 100));
    apr_palloc(draft.run.pool, 30000);
    htc_heap_drop(heap, &draft);
    must(htc_heap_begin(heap, &draft, 100, 2000, 1, 100));
    htc_heap_drop(heap, &draft);
}

static void answer(void)
{
    hu_answered(heap);
    htc_heap_working_on(heap, 5, 5);
    must(build(50, 2, WORDS) != NULL);
    htc_heap_working_on(heap, 0, 0);
    htc_heap_condemn(heap, 5, 5);
    htc_heap_suspected(heap, 5, 5);
}

static const struct scene {
    const char *name;
    void (*prepare)(void);
    void (*before)(void); /* the builder, before it can be killed */
    void (*act)(void);    /* while it can be killed after each store */
} scenes[] = {
    {"begin", simple, do_nothing, own},
    {"begin after another that died", after_dead_builder, do_nothing, own},
    {"begin after a fault", fragmented, do_nothing, own_anew},
    {"build the first object", simple, own, build_new},
    {"build over pinned objects", simple, own, build_over_pinned},
    {"build over them in a full heap", full, own, build_over_pinned},
    {"build what needs others", simple, own, build_with_needs},
    {"build something big", fragmented, own, build_big},
    {"build something big in a full heap", full, own, build_big},
    {"build something very big", full, own, build_half},
    {"build for an owner with a small share", full, own, build_of_small_share},
    {"build in vain", fragmented, own, build_in_vain},
    {"build in vain in a full heap", full, own, build_in_vain},
    {"answer", fragmented, own, answer},
};
#define SCENES ((int)(sizeof(scenes) / sizeof(scenes[0])))

/* True when the child was killed, false when it got through. */
static bool killed_at(void (*before)(void), void (*act)(void), long n)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (!child) {
        before();
        countdown = n;
        act();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status))
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    else
        ck_assert_int_eq(WTERMSIG(status), SIGKILL);
    return WIFSIGNALED(status);
}

static void check_pinned(void)
{
    for (uint64_t i = 0; i < PINNED; i++) {
        hu_assert_right(pinned[i], 5 + i);
        ck_assert_uint_eq(pinned[i]->build, pinned_build[i]);
    }
}

/* No builder has begun since: what can be read is right. */
static void check_readers(void)
{
    htc_pin *pin;

    hu_assert_consistent(heap);
    check_pinned();
    for (uint64_t i = 0; i < 600; i++) {
        const hu_object *object = hu_acquire(heap, i, &pin);

        if (object) {
            hu_assert_right(object, i);
            htc_heap_release(pin);
        }
    }
}

static void build_all(void)
{
    own();
    must(!hu_inconsistent(heap));
    build_keys(1000);
    for (uint64_t i = 0; i < KEYS; i++)
        must(hu_find(heap, i) && hu_find(heap, i)->build == 1000 + i);
    must(!hu_inconsistent(heap));
}

/* In as much memory as there was in the beginning. */
static void build_in_empty(void)
{
    own_anew();
    must(heap->header->used == 0);
    must(build(1, 1, HALF / sizeof(uint64_t)) && build(2, 1, HALF / sizeof(uint64_t)));
    must(hu_find(heap, 1) && hu_find(heap, 2) && !hu_inconsistent(heap));
}

/* Everything can be built, and when the pins are gone, so is all else. */
static void check_builders(void)
{
    in_builder(build_all);
    check_readers();
    in_builder(make_room);
    check_readers();
    for (int i = 0; i < PINNED; i++)
        htc_heap_release(pins[i]);
    in_builder(build_in_empty);
    hu_assert_consistent(heap);
}

static long stride(void)
{
    return getenv("HTC_LONG") ? 1 : 3;
}

/* Every one of the first stores, and each third of the others. */
START_TEST(killed_after_every_store)
{
    const struct scene *scene = &scenes[_i];
    bool killed = true;
    long n = 1;

    for (; killed; n += n < 40 ? 1 : stride()) {
        setup();
        scene->prepare();
        killed = killed_at(scene->before, scene->act, n);
        check_readers();
        check_builders();
        teardown();
    }
    ck_assert_msg(n > 3, "%s went through after %ld stores", scene->name, n);
}
END_TEST

/* The next one is killed as well, and the one after it; only then one gets through. */
START_TEST(killed_one_after_the_other)
{
    const struct scene *scene = &scenes[_i];
    bool killed = true;

    for (long n = 1; killed; n += 3 * stride()) {
        setup();
        scene->prepare();
        killed = killed_at(scene->before, scene->act, n);
        for (long m = 2; m < 60 && killed; m += 11)
            killed_at(do_nothing, make_room, m + n % 11);
        check_readers();
        check_builders();
        teardown();
    }
}
END_TEST

/* --- killed at random --------------------------------------------------------------------------*/

#define CHURN_KEYS  80
#define CHURN_WORDS 1500
#define HELD        12
#define KILLS       300
#define LONG_KILLS  10000

static uint64_t seed;

/* What it needs has a larger key, so that there is no end of needing. */
static void churn_once(uint64_t *state)
{
    hu_spec spec = {.key = hu_random(state) % CHURN_KEYS, .build = hu_random(state)};
    uint64_t above = spec.key + 1 + hu_random(state) % 8, side = spec.key + 1;

    spec.owner = hu_random(state) % 4;
    spec.share = spec.owner ? 100 : 20;
    if (spec.owner == 3)
        spec.owner = HTC_HEAP_NOBODY;
    spec.nwords = hu_random(state) % (hu_random(state) % 4 ? 100 : CHURN_WORDS);
    spec.kind = hu_random(state) % HTC_HEAP_KINDS;
    if (hu_random(state) % 2)
        spec.needs[0] = hu_find(heap, above);
    if (hu_random(state) % 4 == 0)
        spec.needs[1] = hu_find_shallow(heap, side);
    if (hu_random(state) % 4 == 0)
        spec.needs[2] = hu_find_shallow(heap, side + 1);
    hu_build(heap, &spec);
    if (hu_random(state) % 8 == 0) {
        htc_heap_draft draft;

        if (htc_heap_begin(heap, &draft, hu_random(state) % 3000, 1000, 1, 100))
            htc_heap_drop(heap, &draft);
    }
}

static void churn(void)
{
    uint64_t state = seed;

    must(htc_heap_own(heap, hu_random(&state) % 50 == 0) == APR_SUCCESS);
    must(!hu_inconsistent(heap));
    for (int i = 0; i < 3000; i++)
        churn_once(&state);
}

static struct {
    const hu_object *object;
    htc_pin *pin;
    uint64_t key, build;
} held[HELD];

static void let_go(unsigned i)
{
    if (!held[i].object)
        return;
    hu_assert_right(held[i].object, held[i].key);
    ck_assert_uint_eq(held[i].object->build, held[i].build);
    htc_heap_release(held[i].pin);
    held[i].object = NULL;
}

static void hold_another(uint64_t *state)
{
    unsigned i = hu_random(state) % HELD;

    let_go(i);
    held[i].key = hu_random(state) % CHURN_KEYS;
    held[i].object = hu_acquire(heap, held[i].key, &held[i].pin);
    if (held[i].object)
        held[i].build = held[i].object->build;
}

START_TEST(killed_at_random)
{
    const char *seconds = getenv("HTC_LONG");
    time_t began = time(NULL);
    uint64_t state = 1, kills = 0, found = 0;

    while (kills < (seconds ? LONG_KILLS : KILLS) ||
           (seconds && time(NULL) - began < atol(seconds))) {
        seed = state;
        kills += killed_at(do_nothing, churn,
                           1 + hu_random(&state) % (hu_random(&state) % 4 ? 300 : 5000));
        hu_assert_consistent(heap);
        for (int i = 0; i < 4; i++)
            hold_another(&state);
        for (unsigned i = 0; i < HELD; i++) {
            found += held[i].object != NULL;
            if (held[i].object)
                hu_assert_right(held[i].object, held[i].key);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        let_go(i);
    ck_assert_uint_gt(found, kills);
    in_builder(build_in_empty);
    printf("%lu builders killed at random\n", (unsigned long)kills);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heap_crash");
    TCase *crash = tcase_create("crash"), *random = tcase_create("random");
    TCase *moment_case = tcase_create("moment");

    tcase_add_checked_fixture(moment_case, setup, teardown);
    tcase_add_loop_test(moment_case, changed_while_pinning, 0, MOMENTS * 4);
    tcase_add_test(moment_case, number_used_again);
    tcase_add_loop_test(moment_case, reader_dies_while_pinning, 0, 2);
    tcase_add_loop_test(moment_case, acquired_while_evicting, 0,
                        (int)(sizeof(evictions) / sizeof(evictions[0])));
    tcase_set_timeout(moment_case, 60);
    suite_add_tcase(s, moment_case);
    tcase_set_timeout(crash, 300);
    tcase_add_loop_test(crash, killed_after_every_store, 0, SCENES);
    tcase_add_loop_test(crash, killed_one_after_the_other, 0, SCENES);
    suite_add_tcase(s, crash);
    tcase_add_checked_fixture(random, setup, teardown);
    tcase_set_timeout(random, 3600);
    tcase_add_test(random, killed_at_random);
    suite_add_tcase(s, random);
    return run_suite(s);
}
