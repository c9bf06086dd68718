/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared store when room is short: eviction, what is too large, shares of owners,
 * and more owners than the table holds. Run by 'make check'.
 */
#include "store_util.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MB (UINT64_C(1) << 20)

static apr_pool_t *pool, *scratch;
static htc_store *store;

static void setup(void)
{
    pool = su_pool();
    apr_pool_create(&scratch, pool);
    store = su_create(pool, MB);
}

static void teardown(void)
{
    const char *wrong = su_inconsistent(store);

    ck_assert_msg(!wrong, "%s", wrong);
    apr_pool_destroy(pool);
}

static su_found get(uint32_t number)
{
    htc_info info;

    return su_get(store, number, scratch, &info);
}

static htc_ref put_ok(su_spec spec)
{
    htc_ref ref;

    ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
    return ref;
}

static uint64_t evictions(void)
{
    return htc_counter_read(store, HTC_C_evictions);
}

static unsigned survivors(uint32_t from, uint32_t to)
{
    unsigned n = 0;

    for (uint32_t i = from; i < to; i++) {
        su_found found = get(i);

        ck_assert(found == SU_RIGHT || found == SU_NONE);
        n += found == SU_RIGHT;
    }
    return n;
}

static void touch(htc_ref ref)
{
    htc_store_touch(htc_store_slot(store, ref.slot));
}

/* The payload with which a record of this key takes exactly so many blocks. */
static size_t payload_for(uint32_t number, uint32_t blocks)
{
    return (size_t)blocks * HTCS_BLOCK_BYTES -
           (size_t)htcs_front_bytes(HTC_KIND_TREE, (uint32_t)strlen(su_key(number))) - 8;
}

/* Put records of one owner, each a hundredth of the store. */
static void put_hundredths(uint32_t from, uint32_t n, uint64_t owner, unsigned share)
{
    for (uint32_t i = from; i < from + n; i++)
        put_ok((su_spec){.number = i,
                         .len = payload_for(i, store->nblocks / 100),
                         .owner = owner,
                         .share = share});
}

/* --- eviction ---------------------------------------------------------------------------------*/

START_TEST(a_put_that_fits_never_fails)
{
    uint64_t state = 42;

    for (int i = 0; i < 5000; i++) {
        uint32_t number = su_random(&state) % 1000;
        uint32_t shape = su_random(&state);
        size_t len = shape % 50 == 0 ? su_random(&state) % 700000 : su_random(&state) % 5000;
        unsigned share = len > 100000 ? 100 : 20 + shape % 80;

        put_ok((su_spec){.number = number,
                         .round = (uint32_t)i,
                         .len = len,
                         .owner = shape % 9,
                         .share = share});
        ck_assert_int_eq(get(number), SU_RIGHT);
    }
    ck_assert_uint_gt(evictions(), 1000);
}
END_TEST

static const unsigned shares[] = {1, 10, 25, 99, 100};

START_TEST(larger_than_the_share_is_refused_and_evicts_nothing)
{
    unsigned share = shares[_i];
    uint32_t most = (uint32_t)((uint64_t)store->nblocks * share / 100);
    su_spec fits = {.number = 500, .len = payload_for(500, most), .share = share, .owner = 7};
    su_spec too_large = fits;
    htc_ref ref = {1, 1};
    uint64_t before;

    too_large.len++;
    put_ok(fits);
    ck_assert_int_eq(get(500), SU_RIGHT);
    put_hundredths(0, 120, 1, 100);
    before = evictions();
    put_ok((su_spec){.number = 500, .len = 1, .share = share, .owner = 7});
    before = evictions();
    unsigned others = survivors(0, 120);
    ck_assert_int_eq(su_put(store, &too_large, &ref), APR_ENOSPC);
    ck_assert_uint_eq(ref.version, 0);
    ck_assert_uint_eq(evictions(), before);
    ck_assert_int_eq(get(500), SU_NONE);
    ck_assert_uint_eq(survivors(0, 120), others);
    put_ok(fits);
    ck_assert_int_eq(get(500), SU_RIGHT);
}
END_TEST

START_TEST(absurd_sizes_are_refused)
{
    static const size_t sizes[] = {2 << 20, UINT32_MAX / 2, UINT32_MAX, SIZE_MAX - 8, SIZE_MAX};
    htc_put put = {
        .key = "k", .key_len = 1, .kind = HTC_KIND_TREE, .payload = "", .share_percent = 100};
    htc_ref ref;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put.payload_len = sizes[i];
        ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_ENOSPC);
    }
}
END_TEST

/* Percentages out of range mean the nearest in range. */
START_TEST(shares_are_clamped)
{
    htc_ref ref;
    su_spec spec = {.number = 1, .len = payload_for(1, store->nblocks), .share = 1000};
    htc_put put = {.key = "k", .key_len = 1, .kind = HTC_KIND_ABSENT, .share_percent = 0};

    ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
    ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_SUCCESS);
}
END_TEST

START_TEST(clock_spares_what_was_touched)
{
    htc_ref ref;

    for (uint32_t i = 0; i < 90; i++) {
        ref = put_ok((su_spec){.number = i, .len = payload_for(i, store->nblocks / 100)});
        if (i % 2)
            touch(ref);
    }
    put_hundredths(1000, 40, 0, 100);
    for (uint32_t i = 1; i < 90; i += 2)
        ck_assert_int_eq(get(i), SU_RIGHT);
    ck_assert_uint_lt(survivors(0, 90), 90);
    /* All marks were used up, or are; room is found all the same. */
    for (uint32_t i = 0; i < store->nslots; i++)
        touch((htc_ref){i, 0});
    put_hundredths(2000, 200, 0, 100);
    ck_assert_int_eq(get(2199), SU_RIGHT);
}
END_TEST

/* Sixteen records with one hash fill both sets; each further one makes room among them. */
static void put_same_hash(uint32_t number, bool touched)
{
    htc_put put = {.hash = 1,
                   .key = su_key(number),
                   .key_len = strlen(su_key(number)),
                   .kind = HTC_KIND_ABSENT,
                   .share_percent = 100,
                   .checked_at = number};
    htc_ref ref;

    ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_SUCCESS);
    if (touched)
        touch(ref);
}

static bool has_same_hash(uint32_t number)
{
    htc_info info;

    return htc_store_find(store, 1, su_key(number), strlen(su_key(number)), &info);
}

START_TEST(a_full_set_gives_up_the_oldest_untouched)
{
    for (uint32_t i = 0; i < 16; i++)
        put_same_hash(i, i < 2 || i == 9);
    put_same_hash(16, true);
    ck_assert(!has_same_hash(2));
    ck_assert(has_same_hash(0) && has_same_hash(1));
    /* 0 and 1 were spared once, being older than 2. */
    put_same_hash(17, true);
    put_same_hash(18, true);
    ck_assert(!has_same_hash(0) && !has_same_hash(1));
    for (uint32_t i = 3; i < 9; i++) {
        ck_assert(has_same_hash(i));
        put_same_hash(16 + i, true);
        ck_assert(!has_same_hash(i));
    }
    /* 9 is older than 10 but touched: once. */
    put_same_hash(30, true);
    ck_assert(!has_same_hash(10) && has_same_hash(9));
    put_same_hash(31, true);
    ck_assert(!has_same_hash(9));
}
END_TEST

START_TEST(a_full_set_of_touched_records_gives_up_the_oldest)
{
    for (uint32_t i = 0; i < 16; i++)
        put_same_hash(i, true);
    put_same_hash(16, true);
    ck_assert(!has_same_hash(0));
    ck_assert(has_same_hash(1) && has_same_hash(16));
}
END_TEST

/* --- shares -----------------------------------------------------------------------------------*/

START_TEST(a_share_matters_only_when_room_is_short)
{
    put_hundredths(0, 95, 1, 25);
    ck_assert_uint_eq(evictions(), 0);
    ck_assert_uint_eq(survivors(0, 95), 95);
}
END_TEST

START_TEST(who_is_below_takes_from_who_is_above)
{
    put_hundredths(0, 100, 1, 25);
    put_hundredths(1000, 40, 2, 50);
    put_hundredths(2000, 20, 3, 50);
    ck_assert_uint_eq(survivors(1000, 1040), 40);
    ck_assert_uint_eq(survivors(2000, 2020), 20);
    ck_assert_uint_ge(survivors(0, 100), 25);
}
END_TEST

START_TEST(who_is_above_gives_up_its_own_first)
{
    put_hundredths(0, 50, 1, 25);
    put_hundredths(1000, 49, 2, 50);
    put_hundredths(2000, 100, 1, 25);
    ck_assert_uint_eq(survivors(1000, 1049), 49);
    ck_assert_int_eq(get(2099), SU_RIGHT);
}
END_TEST

/* Even where somebody else is above its share by far. */
START_TEST(who_would_be_above_gives_up_its_own_first)
{
    put_hundredths(0, 25, 1, 25);
    put_hundredths(1000, 74, 2, 50);
    put_hundredths(2000, 50, 1, 25);
    ck_assert_uint_ge(survivors(1000, 1074), 73);
    ck_assert_uint_ge(survivors(0, 25) + survivors(2000, 2050), 24);
}
END_TEST

START_TEST(who_is_above_keeps_what_was_touched)
{
    htc_info info;

    put_hundredths(0, 50, 1, 25);
    put_hundredths(1000, 49, 2, 50);
    for (uint32_t i = 0; i < 20; i++) {
        ck_assert_int_eq(su_get(store, i, scratch, &info), SU_RIGHT);
        touch(info.ref);
    }
    put_hundredths(2000, 25, 1, 25);
    ck_assert_uint_eq(survivors(0, 20), 20);
    ck_assert_uint_lt(survivors(20, 50), 10);
}
END_TEST

START_TEST(with_nobody_above_everybody_gives)
{
    put_hundredths(0, 49, 1, 60);
    put_hundredths(1000, 49, 2, 60);
    put_hundredths(2000, 50, 3, 60);
    ck_assert_int_eq(get(2049), SU_RIGHT);
    ck_assert_uint_gt(survivors(2000, 2050), 25);
    ck_assert_uint_lt(survivors(0, 49), 49);
    ck_assert_uint_lt(survivors(1000, 1049), 49);
}
END_TEST

/* A lowered share counts from the owner's next put on. */
START_TEST(the_last_share_given_counts)
{
    put_hundredths(0, 60, 1, 100);
    put_hundredths(1000, 38, 2, 100);
    put_ok((su_spec){.number = 3000, .kind = HTC_KIND_ABSENT, .owner = 2, .share = 10});
    put_hundredths(2000, 25, 3, 100);
    ck_assert_uint_eq(survivors(0, 60), 60);
    ck_assert_uint_le(survivors(1000, 1038), 15);
}
END_TEST

/* Records that take hardly more than a slot run out of slots, not of blocks. */
static void put_absent(uint32_t from, uint32_t n, uint64_t owner, unsigned share)
{
    for (uint32_t i = from; i < from + n; i++) {
        put_ok((su_spec){.number = i, .kind = HTC_KIND_ABSENT, .owner = owner, .share = share});
        ck_assert_int_eq(get(i), SU_RIGHT);
    }
}

START_TEST(shares_hold_for_slots_too)
{
    uint32_t n = store->nslots;
    htc_store_stats stats;

    /* Higher numbers were checked later: age alone would spare owner 1. */
    put_absent(500000, 3 * n, 1, 25);
    htc_store_stats_get(store, &stats);
    ck_assert_uint_gt(stats.absent, n * 3 / 4);
    put_absent(100000, n / 5, 2, 50);
    put_absent(200000, n / 5, 3, 50);
    ck_assert_uint_eq(survivors(100000, 100000 + n / 5), n / 5);
    ck_assert_uint_eq(survivors(200000, 200000 + n / 5), n / 5);
    /* Owner 1 is above its share still, and goes on at its own expense. */
    put_absent(600000, n / 5, 1, 25);
    ck_assert_uint_ge(survivors(100000, 100000 + n / 5) + survivors(200000, 200000 + n / 5),
                      2 * (n / 5) * 9 / 10);
}
END_TEST

START_TEST(a_full_set_takes_from_who_would_be_above)
{
    uint32_t n = store->nslots;

    /* Both are above their share, owner 2 with older records. */
    put_absent(100000, n / 2, 2, 25);
    put_absent(500000, n / 2 + n / 4, 1, 25);
    put_absent(700000, n, 1, 25);
    ck_assert_uint_ge(survivors(100000, 100000 + n / 2), n * 2 / 5);
}
END_TEST

/* --- more owners than entries -----------------------------------------------------------------*/

START_TEST(owners_without_an_entry_share_one)
{
    uint32_t n = store->nslots / 2;
    htc_store_stats stats;

    ck_assert_uint_gt(n, store->nowners + 1);
    for (uint32_t i = 0; i < n; i++)
        put_ok((su_spec){.number = i, .kind = HTC_KIND_ABSENT, .owner = i + 1, .share = 5});
    htc_store_stats_get(store, &stats);
    ck_assert_uint_le(stats.owners, store->nowners + 1);
    ck_assert_uint_gt(HTCS_GET(store->owners[store->nowners].slots), 0);
    ck_assert_uint_gt(survivors(0, n), n * 3 / 4);
    ck_assert_ptr_null(su_inconsistent(store));
    for (uint32_t i = 0; i < n; i++) {
        htc_info info;

        if (su_get(store, i, scratch, &info) == SU_RIGHT)
            htc_store_drop(store, info.ref);
    }
    htc_store_stats_get(store, &stats);
    ck_assert_uint_eq(stats.owners, 0);
    ck_assert_uint_eq(stats.entries, 0);
    ck_assert_uint_eq(stats.bytes_used, 0);
}
END_TEST

START_TEST(entries_of_owners_that_left_are_given_on)
{
    htc_store_stats stats;

    for (uint32_t i = 0; i < 20 * store->nowners; i++) {
        htc_ref ref = put_ok((su_spec){.number = i, .kind = HTC_KIND_ABSENT, .owner = i});

        ck_assert_int_eq(htc_store_drop(store, ref), APR_SUCCESS);
    }
    for (uint32_t i = 0; i < 40; i++)
        put_ok((su_spec){.number = i, .kind = HTC_KIND_ABSENT, .owner = 7000000 + i % 20});
    htc_store_stats_get(store, &stats);
    ck_assert_uint_eq(stats.owners, 20);
}
END_TEST

/* --- suite ------------------------------------------------------------------------------------*/

/* --- who gets a record ------------------------------------------------------------------------*/

static bool admits(uint32_t number)
{
    return htc_store_admits(store, (uint64_t)number << 40 | number);
}

/* Until the store has hardly any room for records of so many bytes. */
static void fill(size_t len)
{
    for (uint32_t i = 0; evictions() < 100; i++)
        put_ok((su_spec){.number = i, .len = len, .owner = i});
}

START_TEST(all_is_admitted_while_there_is_room)
{
    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert(admits(i));
        put_ok((su_spec){.number = i, .len = 10});
    }
    ck_assert_uint_eq(evictions(), 0);
}
END_TEST

#define SET (HTCS_GHOSTS(store->nslots) / HTC_GHOST_WAYS)

static const size_t lens[] = {10, 1000, 20000}; /* slots are short, or blocks */

/* False the first three times. */
static bool admits_fourth(uint32_t number)
{
    for (int i = 1; i < HTC_GHOST_ASKS; i++)
        ck_assert(!admits(number));
    return admits(number);
}

START_TEST(what_is_asked_for_often_is_admitted_when_it_is_full)
{
    fill(lens[_i]);
    ck_assert(admits_fourth(7));
    ck_assert(admits_fourth(7));
    ck_assert(!admits(7));
    ck_assert(!admits(7));
    for (uint32_t i = 1; i < HTC_GHOST_WAYS; i++)
        ck_assert(!admits(7 + i * SET)); /* their set is that of 7 */
    ck_assert(!admits(7));
    ck_assert(admits(7));
    ck_assert(!admits(7));
    ck_assert(!admits(7));
    ck_assert(!admits(7 + HTC_GHOST_WAYS * SET));
    ck_assert(admits_fourth(7));
    ck_assert_int_eq(htc_store_clear(store), APR_SUCCESS);
    ck_assert(admits(9));
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("store_room");
    TCase *tc = tcase_create("room");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_put_that_fits_never_fails);
    tcase_add_loop_test(tc, larger_than_the_share_is_refused_and_evicts_nothing, 0,
                        (int)(sizeof(shares) / sizeof(shares[0])));
    tcase_add_test(tc, absurd_sizes_are_refused);
    tcase_add_test(tc, shares_are_clamped);
    tcase_add_test(tc, clock_spares_what_was_touched);
    tcase_add_test(tc, a_full_set_gives_up_the_oldest_untouched);
    tcase_add_test(tc, a_full_set_of_touched_records_gives_up_the_oldest);
    tcase_add_test(tc, a_share_matters_only_when_room_is_short);
    tcase_add_test(tc, who_is_below_takes_from_who_is_above);
    tcase_add_test(tc, who_is_above_gives_up_its_own_first);
    tcase_add_test(tc, who_would_be_above_gives_up_its_own_first);
    tcase_add_test(tc, who_is_above_keeps_what_was_touched);
    tcase_add_test(tc, with_nobody_above_everybody_gives);
    tcase_add_test(tc, the_last_share_given_counts);
    tcase_add_test(tc, shares_hold_for_slots_too);
    tcase_add_test(tc, a_full_set_takes_from_who_would_be_above);
    tcase_add_test(tc, owners_without_an_entry_share_one);
    tcase_add_test(tc, entries_of_owners_that_left_are_given_on);
    tcase_add_test(tc, all_is_admitted_while_there_is_room);
    tcase_add_loop_test(tc, what_is_asked_for_often_is_admitted_when_it_is_full, 0,
                        sizeof(lens) / sizeof(lens[0]));
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
