/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared store with writers that are killed: the store's sources are compiled
 * into this program with HTC_CRASH_POINTS, so that a child can be killed after its first, second,
 * ... store to the segment, until the operation gets through. After each death everything must be
 * right for readers at once, and for writers after one repair. Run by 'make check'.
 */
#include "store_util.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef HTC_CRASH_POINTS
#error "compile this and the store's sources with -DHTC_CRASH_POINTS"
#endif

#define KEYS     20
#define VICTIM   5  /* the key that is changed */
#define NEW_KEY  50 /* one that was not there */
#define PROBE    99 /* put by whoever comes after the death */
#define SET_HASH 1

static apr_pool_t *pool, *scratch;
static htc_store *store;
static htc_ref refs[KEYS];
static long countdown; /* stores until death; 0: never */

void htc_crash_point(const char *where)
{
    (void)where;
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}

static void put_ok(su_spec spec)
{
    htc_ref ref;

    ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
    if (spec.number < KEYS)
        refs[spec.number] = ref;
}

static su_found get(uint32_t number)
{
    htc_info info;

    return su_get(store, number, scratch, &info);
}

static void assert_consistent(void)
{
    const char *wrong = su_inconsistent(store);

    ck_assert_msg(!wrong, "%s", wrong);
}

/* --- scenes: how a store is prepared, and what the child does in it
 * -----------------------------*/

static void fresh_store(void)
{
    if (pool)
        apr_pool_destroy(pool);
    pool = su_pool();
    apr_pool_create(&scratch, pool);
    store = su_create(pool, HTC_STORE_MIN_BYTES);
    for (uint32_t i = 0; i < KEYS; i++)
        put_ok((su_spec){.number = i, .len = i * 40, .owner = i % 3});
}

static void full_store(void)
{
    fresh_store();
    for (uint32_t i = 0; i < 60; i++)
        put_ok((su_spec){.number = 1000 + i, .len = 3000, .owner = 7, .share = 20});
}

static void put_in_full_set(uint32_t number)
{
    htc_put put = {.hash = SET_HASH,
                   .key = su_key(number),
                   .key_len = strlen(su_key(number)),
                   .kind = HTC_KIND_ABSENT,
                   .share_percent = 100};
    htc_ref ref;

    htc_store_put(store, &put, &ref);
}

static void full_set(void)
{
    fresh_store();
    for (uint32_t i = 0; i < HTCS_CANDIDATES; i++)
        put_in_full_set(2000 + i);
}

/* A record whose payload is damaged, for which the whole store is repaired by who notices. */
static void damaged_store(void)
{
    fresh_store();
    put_ok((su_spec){.number = NEW_KEY, .len = 10});
    for (uint32_t i = 0; i < store->nslots; i++) {
        if (HTCS_GET(store->slots[i].tag) == su_hash(store, NEW_KEY))
            atomic_fetch_xor(&store->blocks[HTCS_GET(store->slots[i].first)].words[2], 1);
    }
}

static void put_new(void)
{
    put_ok((su_spec){.number = NEW_KEY, .len = 500, .owner = 9});
}

static void put_again(void)
{
    put_ok((su_spec){.number = VICTIM, .round = 2, .len = 300});
}

static void put_again_absent(void)
{
    put_ok((su_spec){.number = VICTIM, .kind = HTC_KIND_ABSENT});
}

static void put_too_large(void)
{
    htc_ref ref;

    su_put(store, &(su_spec){.number = VICTIM, .len = 100000, .share = 1}, &ref);
}

static void put_much(void)
{
    put_ok((su_spec){.number = NEW_KEY, .len = 2500});
}

static void put_several(void)
{
    static const char *const keys[] = {"a", "b", "c"};
    htc_put puts[3];
    htc_ref out[3];

    for (uint32_t i = 0; i < 3; i++) {
        puts[i] = (htc_put){.hash = htc_store_hash(store, keys[i], 1),
                            .key = keys[i],
                            .key_len = 1,
                            .kind = HTC_KIND_ABSENT,
                            .owner = i,
                            .share_percent = 50};
    }
    htc_store_put_all(store, puts, 3, out);
}

static void put_17th(void)
{
    put_in_full_set(NEW_KEY);
}

static void drop(void)
{
    htc_store_drop(store, refs[VICTIM]);
}

static void reidentify(void)
{
    htc_identity id = su_identity(VICTIM, true);
    htc_info info;

    su_get(store, VICTIM, scratch, &info);
    htc_store_reidentify(store, refs[VICTIM], &id, info.flags, 77);
}

static void clear(void)
{
    htc_store_clear(store);
}

static void find_damaged(void)
{
    get(NEW_KEY);
}

static const struct scene {
    const char *name;
    void (*prepare)(void);
    void (*act)(void);
    bool others_stay; /* all keys but VICTIM and NEW_KEY survive, whenever the child dies */
    bool damaged;
} scenes[] = {
    {"put a new key", fresh_store, put_new, true, false},
    {"put a key again", fresh_store, put_again, true, false},
    {"put a key again, absent", fresh_store, put_again_absent, true, false},
    {"put a key again, too large", fresh_store, put_too_large, true, false},
    {"put much into a full store", full_store, put_much, false, false},
    {"put several", fresh_store, put_several, true, false},
    {"put into a full set", full_set, put_17th, false, false},
    {"drop", fresh_store, drop, true, false},
    {"reidentify", fresh_store, reidentify, true, false},
    {"clear", fresh_store, clear, false, false},
    {"find a damaged record", damaged_store, find_damaged, true, true},
};

#define SCENES ((int)(sizeof(scenes) / sizeof(scenes[0])))

/* --- killing ----------------------------------------------------------------------------------*/

/* True when the child was killed, false when it got through. */
static bool killed_at(void (*act)(void), long n)
{
    pid_t child = fork();
    int status;

    ck_assert_int_ge(child, 0);
    if (child == 0) {
        countdown = n;
        act();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        ck_assert_int_eq(WTERMSIG(status), SIGKILL);
        return true;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    return false;
}

/* No lock, no repair yet: what can be read is right. */
static void check_readers(const struct scene *scene)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        su_found found = get(i);

        ck_assert_int_ne(found, SU_WRONG);
        ck_assert_int_ne(found, SU_FAILED);
        if (scene->others_stay && i != VICTIM)
            ck_assert_int_eq(found, SU_RIGHT);
    }
    if (!scene->damaged)
        ck_assert_int_ne(get(NEW_KEY), SU_WRONG);
}

static void put_probe(void)
{
    put_ok((su_spec){.number = PROBE, .len = 200});
}

/* The first writer repairs, if there is anything to repair, and everything is as it should be. What
 * is damaged waits for who finds it. */
static void check_writers(const struct scene *scene)
{
    bool dirty = HTCS_GET(store->header->dirty) != 0;
    uint64_t before = htc_counter_read(store, HTC_C_recoveries);

    put_probe();
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), before + dirty);
    ck_assert_int_eq(get(PROBE), SU_RIGHT);
    if (!scene->damaged)
        assert_consistent();
    check_readers(scene);
    if (!scene->damaged)
        ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 0);
    for (uint32_t i = 0; i < 80; i++)
        put_ok((su_spec){.number = 3000 + i, .len = 4000, .owner = i});
    get(NEW_KEY);
    assert_consistent();
}

START_TEST(killed_after_every_store)
{
    const struct scene *scene = &scenes[_i];
    long n = 1;
    bool killed = true;

    for (; killed; n++) {
        scene->prepare();
        killed = killed_at(scene->act, n);
        check_readers(scene);
        check_writers(scene);
    }
    ck_assert_msg(n > 3, "%s went through after %ld stores", scene->name, n);
}
END_TEST

/* Where the first writer died; each leaves another mess to the repair. */
static const struct {
    int scene;
    long at, stride;
} repairs[] = {{1, 20, 1}, {1, 60, 7}, {4, 60, 11}, {8, 15, 13}, {9, 200, 17}, {10, 300, 19}};

/* The repair, killed after every store; the one after it is killed as well; the third one works. */
START_TEST(killed_while_repairing)
{
    const struct scene *scene = &scenes[repairs[_i].scene];
    bool killed = true;

    for (long n = 1; killed; n += repairs[_i].stride) {
        scene->prepare();
        ck_assert(killed_at(scene->act, repairs[_i].at));
        killed = killed_at(put_probe, n);
        check_readers(scene);
        if (killed && n > 2)
            killed_at(put_probe, n / 2);
        check_readers(scene);
        check_writers(scene);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("store_crash");
    TCase *tc = tcase_create("crash");

    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, killed_after_every_store, 0, SCENES);
    tcase_add_loop_test(tc, killed_while_repairing, 0, (int)(sizeof(repairs) / sizeof(repairs[0])));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
