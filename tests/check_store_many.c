/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of a shared store with very many records: what one process does to all of them, or
 * leaves to others when it is killed, takes a bounded number of stores under the lock, and little
 * memory. The store's sources are compiled into this program with HTC_CRASH_POINTS, so that the
 * stores are counted. Run by 'make check'.
 */
#include "suite_util.h"
#include "store_util.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY      200000
#define BYTES     (UINT64_C(192) << 20)
#define VICTIM    5
#define NEW_KEY   (MANY + 5)
#define FEW_WORK  400    /* stores that one change of a record takes, and a repair, at most */
#define HELD_MOST 200000 /* stores that others wait for at most */

static apr_pool_t *pool, *scratch;
static htc_store *store;
static htc_ref victim;
static long countdown;       /* stores until death; 0: never */
static uint64_t held, worst; /* stores since the lock was taken, and the most of these */

void htc_crash_point(const char *where)
{
    if (!strcmp(where, "locked"))
        held = 0;
    held++;
    worst = held > worst ? held : worst;
    if (countdown && --countdown == 0)
        raise(SIGKILL);
}

static void setup(void)
{
    pool = su_pool();
    apr_pool_create(&scratch, pool);
    store = su_create(pool, BYTES);
    for (uint32_t i = 0; i < MANY; i++) {
        su_spec spec = {.number = i, .kind = HTC_KIND_ABSENT, .owner = i % 50};
        htc_ref ref;

        if (i == VICTIM)
            spec = (su_spec){.number = i, .len = 3000};
        if (su_put(store, &spec, &ref) != APR_SUCCESS)
            abort();
        if (i == VICTIM)
            victim = ref;
    }
    worst = 0;
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

static void assert_consistent(void)
{
    const char *wrong = su_inconsistent(store);

    ck_assert_msg(!wrong, "%s", wrong);
}

static uint64_t entries(void)
{
    htc_store_stats stats;

    htc_store_stats_get(store, &stats);
    return stats.entries;
}

static su_found get(uint32_t number)
{
    htc_info info;

    return su_get(store, number, scratch, &info);
}

/* --- what is done, and by whom ----------------------------------------------------------------*/

static apr_status_t put(uint32_t number)
{
    htc_ref ref;

    return su_put(store, &(su_spec){.number = number, .len = 700, .owner = 3}, &ref);
}

static void put_new(void)
{
    put(NEW_KEY);
}

static void put_again(void)
{
    put(VICTIM);
}

static void drop(void)
{
    htc_store_drop(store, victim);
}

static void reidentify(void)
{
    htc_identity id = su_identity(VICTIM, true);

    htc_store_reidentify(store, victim, &id, 0, 77);
}

static void clear(void)
{
    htc_store_clear(store);
}

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
    return WIFSIGNALED(status);
}

static void (*const changes[])(void) = {put_new, put_again, drop, reidentify};

/* --- a writer is killed -----------------------------------------------------------------------*/

/* All records stay but the one that it worked on, and the next writer has little to do. */
START_TEST(a_killed_writer_costs_one_record)
{
    uint64_t least = MANY - 1;

    for (long n = 1; killed_at(changes[_i], n); n += 7) {
        worst = 0;
        ck_assert_int_eq(put(NEW_KEY + 1), APR_SUCCESS);
        ck_assert_uint_le(worst, FEW_WORK);
        ck_assert_uint_ge(entries(), least);
        for (uint32_t i = 0; i < MANY; i += 997)
            ck_assert_int_eq(get(i), SU_RIGHT);
        if (get(VICTIM) != SU_RIGHT) {
            su_put(store, &(su_spec){.number = VICTIM, .len = 3000}, &victim);
            ck_assert_int_eq(get(VICTIM), SU_RIGHT);
        }
    }
    ck_assert_uint_gt(htc_counter_read(store, HTC_C_recoveries), 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 0);
    assert_consistent();
}
END_TEST

/* --- the store is emptied ---------------------------------------------------------------------*/

START_TEST(a_purge_lets_others_in)
{
    ck_assert_int_eq(htc_store_clear(store), APR_SUCCESS);
    ck_assert_uint_le(worst, HELD_MOST);
    ck_assert_uint_eq(entries(), 0);
    assert_consistent();
    ck_assert_int_eq(put(1), APR_SUCCESS);
    ck_assert_int_eq(get(1), SU_RIGHT);
    ck_assert_int_eq(get(2), SU_NONE);
    assert_consistent();
}
END_TEST

/* Puts until one succeeds; the others each did a piece of what was left to do. */
static void put_until_stored(void)
{
    uint32_t most = (store->nslots + 63) / 64 / HTCS_CLEARED_WORDS + 2, tries = 0;

    while (put(NEW_KEY) == APR_EBUSY)
        ck_assert_uint_lt(tries++, most);
    ck_assert_uint_le(worst, HELD_MOST);
    ck_assert_int_eq(get(NEW_KEY), SU_RIGHT);
    ck_assert_uint_eq(entries(), 1);
    assert_consistent();
}

/* Those who want to store something do the rest; what is found meanwhile is right. */
START_TEST(a_killed_purge_goes_on)
{
    static const long deaths[] = {1, 2, 5, 1000, 50000, 300000, 700000};

    ck_assert(killed_at(clear, deaths[_i]));
    for (uint32_t i = 0; i < MANY; i += 997) {
        su_found found = get(i);

        ck_assert(found == SU_RIGHT || found == SU_NONE);
    }
    if (htcs_clearing(store))
        put_until_stored();
    else
        ck_assert_int_eq(put(NEW_KEY), APR_SUCCESS);
    assert_consistent();
}
END_TEST

/* Nothing but the records themselves is to be trusted then, and they are too many to prove. */
START_TEST(damage_empties_it_by_pieces)
{
    htc_info info;

    atomic_fetch_xor(&store->blocks[HTCS_GET(store->slots[victim.slot].first)].words[2], 1);
    ck_assert(!htc_store_find(store, su_hash(store, VICTIM), su_key(VICTIM), strlen(su_key(VICTIM)),
                              &info));
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
    put_until_stored();
}
END_TEST

/* --- who has to make way ----------------------------------------------------------------------*/

static void touch_all(void)
{
    for (uint32_t i = 0; i < store->nslots; i++)
        htc_store_touch(htc_store_slot(store, i));
}

static void put_until_evicted(size_t len, uint32_t number)
{
    uint64_t before = htc_counter_read(store, HTC_C_evictions);

    for (uint32_t i = 0; htc_counter_read(store, HTC_C_evictions) == before; i++) {
        su_spec spec = {.number = number + i, .len = len, .owner = 1000 + i};
        htc_ref ref;

        ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
        ck_assert_uint_lt(i, 10000);
    }
}

/* All are in use: each that goes does so after so many were spared. */
START_TEST(eviction_looks_at_so_many)
{
    put_until_evicted(1 << 20, 2 * MANY);
    touch_all();
    worst = 0;
    put_until_evicted(700, 3 * MANY);
    ck_assert_uint_le(worst, 8 * (HTCS_LOOKS + FEW_WORK)); /* for each of its blocks */
    assert_consistent();
}
END_TEST

/* --- memory -----------------------------------------------------------------------------------*/

static uint64_t resident(const htc_store *of)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), n = of->bytes / page, pages = 0;
    unsigned char *in = malloc(n + 1);

    ck_assert_int_eq(mincore(of->base, of->bytes, in), 0);
    for (size_t i = 0; i < n; i++)
        pages += in[i] & 1;
    free(in);
    return pages * page;
}

/* Of 4 GB, with few records: at the start, and when the store was emptied and repaired. */
START_TEST(memory_is_what_records_take)
{
    apr_pool_t *own = su_pool();
    htc_store *large;
    const char *why;

    if (htc_store_create(&large, UINT64_C(4) << 30, own, &why) != APR_SUCCESS) {
        fprintf(stderr, "4 GB are not to be had here: %s\n", why);
        return;
    }
    ck_assert_uint_le(resident(large), 256 << 10);
    for (uint32_t i = 0; i < 1000; i++) {
        htc_ref ref;

        ck_assert_int_eq(su_put(large, &(su_spec){.number = i, .len = 10}, &ref), APR_SUCCESS);
    }
    atomic_store(&large->header->dirty, 1);
    ck_assert_int_eq(htc_store_drop(large, (htc_ref){0, 1}), APR_SUCCESS);
    ck_assert_int_eq(htc_store_clear(large), APR_SUCCESS);
    ck_assert_uint_le(resident(large), 16 << 20);
    apr_pool_destroy(own);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store_many");
    TCase *tc = tcase_create("many");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, a_killed_writer_costs_one_record, 0,
                        (int)(sizeof(changes) / sizeof(changes[0])));
    tcase_add_test(tc, a_purge_lets_others_in);
    tcase_add_loop_test(tc, a_killed_purge_goes_on, 0, 7);
    tcase_add_test(tc, damage_empties_it_by_pieces);
    tcase_add_test(tc, eviction_looks_at_so_many);
    tcase_add_test(tc, memory_is_what_records_take);
    suite_add_tcase(s, tc);
    return run_suite(s);
}
