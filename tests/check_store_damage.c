/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared store with damaged memory: every byte of the live slots, the FAT and the
 * blocks is changed in turn, then anything but the lock at random, then each structure in the
 * ways that matter. Nothing may crash or deliver a wrong byte, and puts go on. Run by 'make check'.
 */
#include "store_util.h"

#include <pthread.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define KEYS 12

static apr_pool_t *pool, *scratch;
static htc_store *store;
static htc_ref refs[KEYS];

static void put_ok(uint32_t number, size_t len)
{
    htc_ref ref;
    su_spec spec = {.number = number, .len = len, .owner = number % 3};

    ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
    if (number < KEYS)
        refs[number] = ref;
}

static void put_keys(void)
{
    for (uint32_t i = 0; i < KEYS; i++)
        put_ok(i, i * 100);
}

static void setup(void)
{
    pool = su_pool();
    apr_pool_create(&scratch, pool);
    store = su_create(pool, HTC_STORE_MIN_BYTES);
    put_keys();
}

static void teardown(void)
{
    apr_pool_destroy(pool);
}

static su_found get(uint32_t number)
{
    htc_info info;

    return su_get(store, number, scratch, &info);
}

static void assert_nothing_wrong(void)
{
    for (uint32_t i = 0; i < KEYS; i++)
        ck_assert_int_ne(get(i), SU_WRONG);
}

static void assert_consistent(void)
{
    const char *wrong = su_inconsistent(store);

    ck_assert_msg(!wrong, "%s", wrong);
}

/* Whatever is damaged still: after a clear all must be as new. */
static void assert_recovers(void)
{
    ck_assert_int_eq(htc_store_clear(store), APR_SUCCESS);
    assert_consistent();
    put_keys();
    for (uint32_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(get(i), SU_RIGHT);
    assert_consistent();
}

/* --- every byte -------------------------------------------------------------------------------*/

static uint64_t state;

static void spoil(void *byte)
{
    *(volatile unsigned char *)byte ^= (unsigned char)(1 + su_random(&state) % 255);
}

/* One change, then in turn: read all and put back what is gone; put, drop or overfill first. */
static void spoil_and_use(void *byte, unsigned turn)
{
    uint32_t number = su_random(&state) % KEYS;
    htc_info info;

    spoil(byte);
    switch (turn % 4) {
    case 0:
        put_ok(number, su_random(&state) % 3000);
        break;
    case 1:
        if (htc_store_find(store, su_hash(store, number), su_key(number), strlen(su_key(number)),
                           &info))
            htc_store_drop(store, info.ref);
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        su_found found = get(i);

        ck_assert_int_ne(found, SU_WRONG);
        if (found != SU_RIGHT) {
            put_ok(i, i * 100);
            ck_assert_int_eq(get(i), SU_RIGHT);
        }
    }
    if (turn % 97 == 0)
        put_ok(1000, 120000);
}

static void spoil_area(void *start, size_t len)
{
    for (size_t i = 0; i < len; i++)
        spoil_and_use((char *)start + i, (unsigned)su_random(&state));
}

START_TEST(every_byte_of_live_slots)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        /* The record may have moved since. */
        for (size_t byte = 0; byte < sizeof(htcs_slot); byte++)
            spoil_and_use((char *)&store->slots[refs[i].slot] + byte, (unsigned)byte);
    }
    assert_recovers();
}
END_TEST

START_TEST(every_byte_of_the_fat)
{
    spoil_area((void *)store->fat, HTCS_GET(store->header->fresh) * sizeof(uint32_t));
    assert_recovers();
}
END_TEST

START_TEST(every_byte_of_used_blocks)
{
    spoil_area(store->blocks, HTCS_GET(store->header->fresh) * sizeof(htcs_block));
    assert_recovers();
}
END_TEST

/* Slots, FAT and blocks all over, in bursts of several bytes, while the store is full. */
START_TEST(bursts_anywhere_in_a_full_store)
{
    char *start = (char *)store->slots;
    size_t len = (size_t)((char *)store->base + store->bytes - start);

    for (int round = 0; round < 3000; round++) {
        size_t at = ((size_t)su_random(&state) * 7919) % (len - 16);

        for (int i = 0; i < 16; i += 1 + (int)su_random(&state) % 8)
            spoil(start + at + i);
        put_ok(100 + su_random(&state) % 300, su_random(&state) % 4000);
        assert_nothing_wrong();
    }
    assert_recovers();
}
END_TEST

static void read_everything(void)
{
    htc_store_stats stats;

    htc_store_stats_get(store, &stats);
    assert_nothing_wrong();
}

/* The whole segment but for the lock itself. */
START_TEST(anything_but_the_lock)
{
    size_t first = sizeof(pthread_mutex_t);
    unsigned failures = 0;
    htc_ref ref;

    for (int round = 0; round < 20000; round++) {
        size_t at = first + ((size_t)su_random(&state) * 7919) %
                                (round % 3 ? store->bytes - first : sizeof(htcs_header) - first);
        su_spec spec = {.number = su_random(&state) % 300,
                        .len = su_random(&state) % 3000,
                        .owner = su_random(&state) % 5,
                        .share = 50};

        spoil((char *)store->base + at);
        failures += su_put(store, &spec, &ref) != APR_SUCCESS;
        if (round % 100 == 0)
            read_everything();
    }
    ck_assert_uint_lt(failures, 100);
    assert_recovers();
}
END_TEST

/* --- one structure at a time ------------------------------------------------------------------*/

static htcs_slot *slot_of(uint32_t number)
{
    return &store->slots[refs[number].slot];
}

static void free_head_outside(void)
{
    atomic_store(&store->header->free_head, store->nblocks);
}

static void free_head_in_a_record(void)
{
    atomic_store(&store->header->free_head, atomic_load(&slot_of(9)->first));
}

static void free_list_is_a_loop(void)
{
    uint32_t block;

    htc_store_drop(store, refs[5]);
    block = atomic_load(&store->header->free_head);
    atomic_store(&store->fat[block], block);
}

static void free_list_is_lost(void)
{
    atomic_store(&store->header->free_head, HTCS_NIL);
    atomic_store(&store->header->fresh, store->nblocks);
}

static void fresh_outside(void)
{
    atomic_store(&store->header->fresh, UINT32_MAX - 5);
}

static void fresh_too_low(void)
{
    atomic_store(&store->header->fresh, 0);
}

static void blocks_used_too_low(void)
{
    atomic_store(&store->header->blocks_used, 0);
}

static void blocks_used_too_high(void)
{
    atomic_store(&store->header->blocks_used, UINT32_MAX);
}

static void used_map_full(void)
{
    for (uint32_t i = 0; i < (store->nslots + 63) / 64; i++)
        atomic_store(&store->used[i], UINT64_MAX);
}

static void used_map_empty(void)
{
    for (uint32_t i = 0; i < (store->nslots + 63) / 64; i++)
        atomic_store(&store->used[i], 0);
}

static void for_each_owner(size_t word, uint32_t value)
{
    for (uint32_t i = 0; i <= store->nowners; i++)
        ((_Atomic uint32_t *)&store->owners[i])[word] = value;
}

static void owner_hands_outside(void)
{
    for_each_owner(offsetof(htcs_owner, hand) / 4, store->nslots);
}

static void owner_hands_elsewhere(void)
{
    for_each_owner(offsetof(htcs_owner, hand) / 4, refs[1].slot);
}

static void owners_hold_nothing(void)
{
    for_each_owner(offsetof(htcs_owner, slots) / 4, 0);
}

static void owners_are_all_above(void)
{
    for_each_owner(offsetof(htcs_owner, above) / 4, 1);
    atomic_store(&store->header->owners_above, 3);
}

static void nobody_is_above_but_counted(void)
{
    atomic_store(&store->header->owners_above, 3);
}

static void rings_are_cut(void)
{
    for (uint32_t i = 0; i < KEYS; i++)
        atomic_store(&slot_of(i)->own_next, HTCS_NIL);
}

static void rings_are_one_slot(void)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        atomic_store(&slot_of(i)->own_next, refs[0].slot);
        atomic_store(&slot_of(i)->own_prev, refs[0].slot);
    }
}

static void slot_of_no_owner(void)
{
    atomic_store(&slot_of(3)->owner, UINT32_MAX);
}

static void slot_of_no_kind(void)
{
    atomic_store(&slot_of(3)->kind, UINT32_MAX);
}

static void body_of_no_length(void)
{
    atomic_store(&slot_of(3)->body_len, UINT32_MAX);
}

static void sequence_is_odd(void)
{
    atomic_fetch_add(&slot_of(3)->seq, 1);
}

static void unused_sequences_are_odd(void)
{
    for (uint32_t i = 0; i < store->nslots; i++) {
        if (!atomic_load(&store->slots[i].hot.version))
            atomic_store(&store->slots[i].seq, 7);
    }
}

static void unused_slots_have_versions(void)
{
    for (uint32_t i = 0; i < store->nslots; i++) {
        if (!atomic_load(&store->slots[i].hot.version))
            atomic_store(&store->slots[i].hot.version, 1);
    }
}

static void two_slots_with_one_chain(void)
{
    atomic_store(&slot_of(3)->first, atomic_load(&slot_of(4)->first));
}

static void a_slot_twice(void)
{
    uint32_t other = refs[3].slot ^ 1;

    memcpy((void *)&store->slots[other], (void *)slot_of(3), sizeof(htcs_slot));
}

static void chains_run_together(void)
{
    uint32_t first = atomic_load(&slot_of(9)->first), second = atomic_load(&slot_of(10)->first);

    atomic_store(&store->fat[first], atomic_load(&store->fat[second]));
}

static void chain_is_a_loop(void)
{
    uint32_t first = atomic_load(&slot_of(9)->first);

    atomic_store(&store->fat[first], first);
}

static void chain_does_not_end(void)
{
    atomic_store(&store->fat[atomic_load(&slot_of(0)->first)], atomic_load(&slot_of(1)->first));
}

static void hands_are_outside(void)
{
    atomic_store(&store->header->clock_hand, UINT32_MAX);
    atomic_store(&store->header->owner_hand, UINT32_MAX);
}

static void head_says_long_key(void)
{
    htcs_block *block = &store->blocks[atomic_load(&slot_of(3)->first)];

    atomic_store(&block->words[1], UINT64_MAX);
}

typedef void (*damage)(void);

static const damage damages[] = {free_head_outside,
                                 free_head_in_a_record,
                                 free_list_is_a_loop,
                                 free_list_is_lost,
                                 fresh_outside,
                                 fresh_too_low,
                                 blocks_used_too_low,
                                 blocks_used_too_high,
                                 used_map_full,
                                 used_map_empty,
                                 owner_hands_outside,
                                 owner_hands_elsewhere,
                                 owners_hold_nothing,
                                 owners_are_all_above,
                                 nobody_is_above_but_counted,
                                 rings_are_cut,
                                 rings_are_one_slot,
                                 slot_of_no_owner,
                                 slot_of_no_kind,
                                 body_of_no_length,
                                 sequence_is_odd,
                                 unused_sequences_are_odd,
                                 unused_slots_have_versions,
                                 two_slots_with_one_chain,
                                 a_slot_twice,
                                 chains_run_together,
                                 chain_is_a_loop,
                                 chain_does_not_end,
                                 hands_are_outside,
                                 head_says_long_key};

#define DAMAGES ((int)(sizeof(damages) / sizeof(damages[0])))

/* Puts until everything was evicted several times over. */
static void fill_over(void)
{
    for (uint32_t i = 0; i < 400; i++) {
        put_ok(100 + i, 1000 + i * 5);
        ck_assert_int_eq(get(100 + i), SU_RIGHT);
        assert_nothing_wrong();
    }
}

START_TEST(puts_go_on_after_damage)
{
    damages[_i]();
    assert_nothing_wrong();
    fill_over();
    assert_recovers();
}
END_TEST

START_TEST(puts_go_on_after_damage_in_a_full_store)
{
    fill_over();
    put_keys();
    damages[_i]();
    fill_over();
    assert_recovers();
}
END_TEST

/* A repair keeps all that is whole. */
START_TEST(repair_keeps_what_is_whole)
{
    unsigned right = 0;

    damages[_i]();
    htcs_rebuild(store);
    assert_consistent();
    for (uint32_t i = 0; i < KEYS; i++)
        right += get(i) == SU_RIGHT;
    ck_assert_uint_ge(right, KEYS - 2);
}
END_TEST

/* --- what is told -----------------------------------------------------------------------------*/

START_TEST(a_damaged_payload_is_dropped_and_counted)
{
    uint32_t first = HTCS_GET(slot_of(11)->first), last = first;
    char *payload;
    size_t len;

    while (HTCS_GET(store->fat[last]) != HTCS_NIL)
        last = HTCS_GET(store->fat[last]);
    atomic_fetch_xor(&store->blocks[last].words[0], 1);
    ck_assert_int_eq(htc_store_copy(store, refs[11], scratch, &payload, &len), APR_EGENERAL);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
    ck_assert_int_eq(htc_store_copy(store, refs[11], scratch, &payload, &len), APR_NOTFOUND);
    ck_assert_int_eq(get(11), SU_NONE);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 0);
    assert_consistent();
}
END_TEST

START_TEST(a_damaged_identity_is_dropped_and_counted)
{
    htc_info info;
    htc_identity id = su_identity(4, true);

    atomic_fetch_xor(&store->blocks[HTCS_GET(slot_of(4)->first)].words[3], 1);
    ck_assert(!htc_store_find(store, su_hash(store, 4), su_key(4), strlen(su_key(4)), &info));
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
    atomic_fetch_xor(&store->blocks[HTCS_GET(slot_of(5)->first)].words[3], 1);
    ck_assert_int_eq(htc_store_reidentify(store, refs[5], &id, 0, 0), APR_SUCCESS);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 2);
    ck_assert_int_eq(get(5), SU_NONE);
    assert_consistent();
}
END_TEST

static bool name_ends(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    (void)info;
    *(unsigned *)baton += strlen(key) != key_len;
    return true;
}

/* Who can write the segment knows its seed, too: a name without an end, under the right sum. */
START_TEST(a_forged_name_ends)
{
    unsigned wrong = 0, forged = 0;

    for (uint32_t i = 0; i < KEYS; i++) {
        htcs_block *block = &store->blocks[HTCS_GET(slot_of(i)->first)];
        htcs_view view;
        htcs_front front;
        htcs_cursor cursor;
        size_t words;

        ck_assert_int_eq(htcs_read(store, refs[i].slot, &view, &front, &cursor), HTCS_OK);
        words = (sizeof(front.head) + htcs_key_bytes(front.head.key_len)) / 8;
        if (words > HTCS_BLOCK_WORDS)
            continue;
        memset(front.key + front.head.key_len, 'x', 8 - front.head.key_len % 8);
        front.head.sum = htcs_front_sum(store, &view, &front);
        for (size_t w = 0; w < words; w++)
            HTCS_SET(block->words[w], ((const uint64_t *)(const void *)&front)[w]);
        ck_assert_int_eq(htcs_read(store, refs[i].slot, &view, &front, &cursor), HTCS_OK);
        forged++;
    }
    htc_store_each(store, name_ends, &wrong);
    ck_assert_uint_gt(forged, 0);
    ck_assert_uint_eq(wrong, 0);
}
END_TEST

/* Two records of the same length exchange their tails: freeing one must not free the other's. */
START_TEST(a_stolen_chain_is_not_freed)
{
    uint32_t a, b;

    put_ok(0, 1000);
    put_ok(1, 1000 + strlen(su_key(0)) / 8 * 8 - strlen(su_key(1)) / 8 * 8);
    a = HTCS_GET(slot_of(0)->first);
    b = HTCS_GET(slot_of(1)->first);
    HTCS_SET(store->fat[a], HTCS_GET(store->fat[b]));
    ck_assert_int_eq(htc_store_drop(store, refs[0]), APR_SUCCESS);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
    assert_consistent();
    put_ok(200, 5000);
    ck_assert_int_eq(get(1), SU_RIGHT);
    ck_assert_int_eq(get(200), SU_RIGHT);
}
END_TEST

/* Two records end in blocks of zeros. When one is made to end in the other's, both still pass their
 * checksums; the repair drops one of them, and its other blocks become free. */
START_TEST(a_shared_tail_is_noticed)
{
    static const char zeros[1000];
    uint32_t at[2], before[2] = {0, 0};

    for (uint32_t i = 0; i < 2; i++) {
        htc_put put = {.hash = su_hash(store, i),
                       .key = su_key(i),
                       .key_len = strlen(su_key(i)),
                       .kind = HTC_KIND_TREE,
                       .payload = zeros,
                       .payload_len = sizeof(zeros),
                       .share_percent = 100};

        ck_assert_int_eq(htc_store_put(store, &put, &refs[i]), APR_SUCCESS);
        for (at[i] = HTCS_GET(slot_of(i)->first); HTCS_GET(store->fat[at[i]]) != HTCS_NIL;
             at[i] = HTCS_GET(store->fat[at[i]]))
            before[i] = at[i];
    }
    HTCS_SET(store->fat[before[0]], at[1]);
    htcs_rebuild(store);
    assert_consistent();
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
}
END_TEST

/* Records that the map of used slots has lost are not written over. */
START_TEST(a_lost_slot_is_not_given_away)
{
    htc_info info;
    htc_ref ref;

    ck_assert_int_eq(htc_store_clear(store), APR_SUCCESS);
    for (uint32_t i = 0; i < HTCS_CANDIDATES; i++) {
        htc_put put = {.key = su_key(i),
                       .key_len = strlen(su_key(i)),
                       .kind = HTC_KIND_ABSENT,
                       .share_percent = 100};

        used_map_empty();
        ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_SUCCESS);
    }
    assert_consistent();
    for (uint32_t i = 0; i < HTCS_CANDIDATES; i++)
        ck_assert(htc_store_find(store, 0, su_key(i), strlen(su_key(i)), &info));
}
END_TEST

/* With the lock taken, damage is told but stays for the next one. */
START_TEST(damage_is_not_repaired_without_the_lock)
{
    char *payload;
    size_t len;

    atomic_fetch_xor(&store->blocks[HTCS_GET(slot_of(4)->first)].words[3], 1);
    ck_assert_int_eq(htc_lock_take(&store->lock, 0), HTC_LOCK_HELD);
    ck_assert_int_eq(htc_store_copy(store, refs[4], scratch, &payload, &len), APR_EGENERAL);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 0);
    htc_lock_give(&store->lock);
    ck_assert_int_eq(htc_store_copy(store, refs[4], scratch, &payload, &len), APR_EGENERAL);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 1);
}
END_TEST

/* --- suite ------------------------------------------------------------------------------------*/

static Suite *suite(void)
{
    Suite *s = suite_create("store_damage");
    TCase *tc = tcase_create("damage");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, every_byte_of_live_slots);
    tcase_add_test(tc, every_byte_of_the_fat);
    tcase_add_test(tc, every_byte_of_used_blocks);
    tcase_add_test(tc, bursts_anywhere_in_a_full_store);
    tcase_add_test(tc, anything_but_the_lock);
    tcase_add_loop_test(tc, puts_go_on_after_damage, 0, DAMAGES);
    tcase_add_loop_test(tc, puts_go_on_after_damage_in_a_full_store, 0, DAMAGES);
    tcase_add_loop_test(tc, repair_keeps_what_is_whole, 0, DAMAGES);
    tcase_add_test(tc, a_damaged_payload_is_dropped_and_counted);
    tcase_add_test(tc, a_damaged_identity_is_dropped_and_counted);
    tcase_add_test(tc, a_forged_name_ends);
    tcase_add_test(tc, a_stolen_chain_is_not_freed);
    tcase_add_test(tc, a_shared_tail_is_noticed);
    tcase_add_test(tc, a_lost_slot_is_not_given_away);
    tcase_add_test(tc, damage_is_not_repaired_without_the_lock);
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
