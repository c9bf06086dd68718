/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the shared store by one process: creation, records of all sizes, single operations
 * and the lock. Run by 'make check'. See check_store_visits.c for totals and visits,
 * check_store_room.c for eviction and shares, check_store_damage.c, check_store_crash.c and
 * check_store_churn.c for what can go wrong.
 */
#include "suite_util.h"
#include "store_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_strings.h>

/* --- creation ---------------------------------------------------------------------------------*/

static const struct {
    uint64_t bytes, total; /* total 0: refused */
} create_cases[] = {
    {0, 0},
    {HTC_STORE_MIN_BYTES - 1, 0},
    {HTC_STORE_MIN_BYTES, HTC_STORE_MIN_BYTES},
    {HTC_STORE_MIN_BYTES + 127, HTC_STORE_MIN_BYTES},
    {HTC_STORE_MIN_BYTES + 128, HTC_STORE_MIN_BYTES + 128},
    {10 * 1000 * 1000, 10 * 1000 * 1000},
    {HTC_STORE_MAX_BYTES + 1, 0},
    {UINT64_MAX, 0},
};

static const char *bytes_text(uint64_t bytes)
{
    return apr_psprintf(pool, "%" APR_UINT64_T_FMT " bytes", bytes);
}

START_TEST(favourites_are_listed)
{
    const size_t n = htc_store_favourites(store);
    htc_favourite favourite = {1, 2, 3};

    ck_assert_uint_gt(n, 10);
    ck_assert(htc_store_favourite_get(store, n - 1, &favourite));
    ck_assert_uint_eq(favourite.record, 0);
    for (size_t i = 0; i < n; i++)
        ck_assert(htc_store_favourite_set(store, i, &(htc_favourite){i + 1, i + 2, i + 3}));
    ck_assert(!htc_store_favourite_set(store, n, &favourite));
    ck_assert(!htc_store_favourite_get(store, n, &favourite));
    for (size_t i = 0; i < n; i++) {
        ck_assert(htc_store_favourite_get(store, i, &favourite));
        ck_assert_uint_eq(favourite.record, i + 1);
        ck_assert_uint_eq(favourite.owner, i + 2);
        ck_assert_uint_eq(favourite.server, i + 3);
    }
}
END_TEST

START_TEST(create_takes_sizes_in_range)
{
    const char *why = NULL;
    apr_status_t rv = htc_store_create(&store, create_cases[_i].bytes, pool, &why);

    if (create_cases[_i].total) {
        ck_assert_int_eq(rv, APR_SUCCESS);
        ck_assert_uint_eq(stats().bytes_total, create_cases[_i].total);
        ck_assert_int_eq(get(1), SU_NONE);
        put_ok(1, 100);
        ck_assert_int_eq(get(1), SU_RIGHT);
        assert_consistent();
    } else {
        ck_assert_int_eq(rv, APR_EINVAL);
        ck_assert_ptr_nonnull(strstr(why, bytes_text(create_cases[_i].bytes)));
        ck_assert_ptr_nonnull(strstr(why, "262144"));
    }
}
END_TEST

/* AddressSanitizer itself needs more addresses than any limit worth testing. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NO_ADDRESS_LIMIT
#endif
#endif
#else
#define NO_ADDRESS_LIMIT
#endif

#if SIZE_MAX == UINT32_MAX
#define NO_ADDRESS_LIMIT /* 8 GB are no size there */
#endif

#ifndef NO_ADDRESS_LIMIT
START_TEST(create_names_the_address_limit)
{
    struct rlimit limit;
    const char *why = NULL;

    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1024 * MB;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    ck_assert_int_eq(htc_store_create(&store, 8192 * MB, pool, &why), ENOMEM);
    ck_assert_ptr_nonnull(strstr(why, "8589934592 bytes"));
    ck_assert_ptr_nonnull(strstr(why, strerror(ENOMEM)));
    ck_assert_ptr_nonnull(strstr(why, "1073741824 bytes"));
    ck_assert_ptr_nonnull(strstr(why, "ulimit -v"));
}
END_TEST
#endif

/* Where the kernel refuses as much as the most that may be asked for, it is for want of memory. */
START_TEST(create_names_the_memory_there_is)
{
    const char *why = NULL;
    apr_status_t rv = htc_store_create(&store, HTC_STORE_MAX_BYTES, pool, &why);

    if (rv == APR_SUCCESS) {
        ck_assert_uint_eq(stats().bytes_total, HTC_STORE_MAX_BYTES);
        put_ok(1, 100);
        ck_assert_int_eq(get(1), SU_RIGHT);
        return;
    }
    ck_assert_int_eq(rv, ENOMEM);
    ck_assert_ptr_nonnull(strstr(why, bytes_text(HTC_STORE_MAX_BYTES)));
    ck_assert_ptr_nonnull(strstr(why, strerror(ENOMEM)));
    ck_assert_ptr_nonnull(strstr(why, "MemAvailable is "));
    ck_assert_ptr_nonnull(strstr(why, "CommitLimit is "));
}
END_TEST

/* The mapping ends with the pool in this process, and stays in a child that inherited it. */
START_TEST(mapping_lives_as_long_as_the_pool)
{
    apr_pool_t *own = su_pool();
    int to_child[2], status;
    char go;
    pid_t child;
    void *base;

    store = su_create(own, MB);
    base = store->base;
    put_ok(1, 1000);
    ck_assert_int_eq(msync(base, 1, MS_ASYNC), 0);
    ck_assert_int_eq(pipe(to_child), 0);
    child = fork();
    if (child == 0) {
        ssize_t got = read(to_child[0], &go, 1);

        _exit(got == 1 && get(1) == SU_RIGHT ? 0 : 1);
    }
    /* The parent's handle goes with its pool, as at a graceful restart. */
    apr_pool_destroy(own);
    ck_assert_int_eq(msync(base, 1, MS_ASYNC), -1);
    ck_assert_int_eq(errno, ENOMEM);
    ck_assert_int_eq(write(to_child[1], "g", 1), 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

/* --- records ----------------------------------------------------------------------------------*/

static const size_t payload_sizes[] = {0,    1,    7,    8,    9,     47,     48,         63,
                                       64,   100,  119,  120,  127,   128,    129,        255,
                                       4087, 4095, 4096, 4097, 65536, 100001, 2900 * 1000};

START_TEST(records_of_any_size)
{
    htc_info info;
    htc_ref ref;
    size_t len = payload_sizes[_i];

    store = su_create(pool, 4 * MB);
    for (int kind = HTC_KIND_ABSENT; kind <= HTC_KIND_STOCK; kind++) {
        su_spec spec = {.number = (uint32_t)kind, .len = len, .kind = (htc_kind)kind};

        ck_assert_int_eq(su_put(store, &spec, &ref), APR_SUCCESS);
        ck_assert_int_eq(su_get(store, spec.number, scratch, &info), SU_RIGHT);
        ck_assert_int_eq(info.kind, kind);
        ck_assert_uint_eq(info.ref.slot, ref.slot);
        ck_assert_uint_eq(info.ref.version, ref.version);
        ck_assert_uint_eq(info.payload_len, len);
        ck_assert_int_eq(info.checked_at, kind);
    }
    assert_consistent();
}
END_TEST

static const struct {
    size_t len;
    apr_status_t status;
} key_sizes[] = {{0, APR_SUCCESS},    {1, APR_SUCCESS},   {54, APR_SUCCESS},
                 {55, APR_SUCCESS},   {56, APR_SUCCESS},  {64, APR_SUCCESS},
                 {111, APR_SUCCESS},  {112, APR_SUCCESS}, {4095, APR_SUCCESS},
                 {4096, APR_SUCCESS}, {4097, APR_EINVAL}, {1 << 20, APR_EINVAL}};

static void check_key(const char *key, size_t len, htc_kind kind, apr_status_t expected)
{
    htc_put put = {.hash = htc_store_hash(store, key, len),
                   .key = key,
                   .key_len = len,
                   .kind = kind,
                   .payload = "why",
                   .payload_len = 4,
                   .share_percent = 50};
    htc_info info;
    htc_ref ref;
    char *payload;

    ck_assert_int_eq(htc_store_put(store, &put, &ref), expected);
    ck_assert_int_eq(htc_store_find(store, put.hash, key, len, &info), expected == APR_SUCCESS);
    ck_assert_uint_eq(info.ref.version, ref.version);
    /* Same hash, longer key: somebody else. */
    ck_assert(!htc_store_find(store, put.hash, key, len + 1, &info));
    ck_assert_uint_eq(info.ref.version, 0);
    ck_assert_int_eq(info.kind, HTC_KIND_NONE);
    if (expected == APR_SUCCESS) {
        ck_assert_int_eq(htc_store_copy(store, ref, pool, &payload, &len), APR_SUCCESS);
        ck_assert_uint_eq(len, 4);
        ck_assert_str_eq(payload, "why");
    } else {
        ck_assert_uint_eq(ref.version, 0);
    }
}

START_TEST(keys_of_any_size)
{
    size_t len = key_sizes[_i].len;
    char *key = apr_palloc(pool, len + 1);

    memset(key, 'k', len + 1);
    check_key(key, len, HTC_KIND_STOCK, key_sizes[_i].status);
    check_key(key, len, HTC_KIND_ABSENT, key_sizes[_i].status);
    assert_consistent();
}
END_TEST

START_TEST(kinds_that_are_none_are_refused)
{
    htc_put put = {.key = "k", .key_len = 1, .share_percent = 100};
    htc_ref ref;

    put.kind = HTC_KIND_NONE;
    ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_EINVAL);
    put.kind = (htc_kind)(HTC_KIND_STOCK + 1);
    ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_EINVAL);
    ck_assert_uint_eq(stats().entries, 0);
}
END_TEST

START_TEST(hash_is_seeded_per_store)
{
    htc_store *other = su_create(pool, MB);

    ck_assert_uint_eq(su_hash(store, 1), su_hash(store, 1));
    ck_assert_uint_ne(su_hash(store, 1), su_hash(store, 2));
    ck_assert_uint_ne(su_hash(store, 1), su_hash(other, 1));
}
END_TEST

START_TEST(put_replaces)
{
    htc_ref first = put_ok(1, 5000), second;
    char *payload;
    size_t len;

    ck_assert_int_eq(su_put(store, &(su_spec){.number = 1, .round = 2, .len = 10}, &second),
                     APR_SUCCESS);
    ck_assert_uint_gt(second.version, first.version);
    ck_assert_int_eq(get(1), SU_RIGHT);
    ck_assert_int_eq(htc_store_copy(store, first, pool, &payload, &len), APR_NOTFOUND);
    ck_assert_uint_eq(stats().entries, 1);
    assert_consistent();
}
END_TEST

/* The second and the third cannot be stored; the others can. The last replaces the first. */
START_TEST(put_all_stores_what_it_can)
{
    enum { N = 5 };
    static const char *const keys[N] = {"a", "b", "c", "d", "a"};
    static const htc_kind kinds[N] = {HTC_KIND_ABSENT, HTC_KIND_TREE, HTC_KIND_NONE, HTC_KIND_STOCK,
                                      HTC_KIND_ABSENT};
    htc_put puts[N];
    htc_ref refs[N];
    htc_info info;

    for (int i = 0; i < N; i++) {
        puts[i] = (htc_put){.hash = htc_store_hash(store, keys[i], 1),
                            .key = keys[i],
                            .key_len = 1,
                            .kind = kinds[i],
                            .payload = "",
                            .payload_len = i == 1 ? 2 * MB : 1,
                            .owner = (uint64_t)i,
                            .share_percent = 50};
    }
    ck_assert_int_eq(htc_store_put_all(store, puts, N, refs), APR_ENOSPC);
    ck_assert_uint_ne(refs[0].version, 0);
    ck_assert_uint_eq(refs[1].version, 0);
    ck_assert_uint_eq(refs[2].version, 0);
    ck_assert_uint_gt(refs[3].version, refs[0].version);
    ck_assert_uint_gt(refs[4].version, refs[3].version);
    ck_assert(htc_store_find(store, puts[0].hash, "a", 1, &info));
    ck_assert_uint_eq(info.ref.version, refs[4].version);
    ck_assert_uint_eq(stats().entries, 2);
    ck_assert_int_eq(htc_store_put_all(store, puts, 1, refs), APR_SUCCESS);
    ck_assert_int_eq(htc_store_put_all(store, puts, 0, refs), APR_SUCCESS);
    assert_consistent();
}
END_TEST

START_TEST(drop_removes_only_what_is_current)
{
    htc_ref old = put_ok(1, 100), now = put_ok(1, 200);
    char *payload;
    size_t len;

    put_ok(2, 100);
    ck_assert_int_eq(htc_store_drop(store, old), APR_SUCCESS);
    ck_assert_int_eq(htc_store_drop(store, (htc_ref){now.slot, 0}), APR_SUCCESS);
    ck_assert_int_eq(htc_store_drop(store, (htc_ref){UINT32_MAX, now.version}), APR_SUCCESS);
    ck_assert_int_eq(get(1), SU_RIGHT);
    ck_assert_int_eq(htc_store_drop(store, now), APR_SUCCESS);
    ck_assert_int_eq(get(1), SU_NONE);
    ck_assert_int_eq(htc_store_copy(store, now, pool, &payload, &len), APR_NOTFOUND);
    ck_assert_int_eq(htc_store_copy(store, (htc_ref){UINT32_MAX, 1}, pool, &payload, &len),
                     APR_NOTFOUND);
    ck_assert_int_eq(htc_store_copy(store, (htc_ref){now.slot, 0}, pool, &payload, &len),
                     APR_NOTFOUND);
    ck_assert_int_eq(get(2), SU_RIGHT);
    ck_assert_uint_eq(stats().entries, 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_evictions), 0);
    assert_consistent();
}
END_TEST

START_TEST(clear_leaves_nothing)
{
    for (uint32_t i = 0; i < 500; i++)
        put_ok(i, i);
    ck_assert_int_eq(htc_store_clear(store), APR_SUCCESS);
    ck_assert_uint_eq(stats().entries, 0);
    ck_assert_uint_eq(stats().bytes_used, 0);
    ck_assert_uint_eq(stats().owners, 0);
    for (uint32_t i = 0; i < 500; i++)
        ck_assert_int_eq(get(i), SU_NONE);
    assert_consistent();
    put_ok(1, 100);
    ck_assert_int_eq(get(1), SU_RIGHT);
    assert_consistent();
}
END_TEST

START_TEST(reidentify_keeps_version_and_payload)
{
    htc_ref ref = put_ok(7, 300);
    htc_identity id = su_identity(7, true);
    htc_info before, after;

    ck_assert_int_eq(su_get(store, 7, scratch, &before), SU_RIGHT);
    ck_assert_int_eq(htc_store_reidentify(store, ref, &id, before.flags, 999), APR_SUCCESS);
    ck_assert_int_eq(su_get(store, 7, scratch, &after), SU_RIGHT);
    ck_assert_int_eq(after.id.mtime_ns, -7);
    ck_assert_int_eq(after.checked_at, 999);
    ck_assert_uint_eq(after.ref.version, ref.version);
    ck_assert_int_eq(htc_store_reidentify(store, ref, &id, 0x80000001u, 1000), APR_SUCCESS);
    ck_assert(htc_store_find(store, su_hash(store, 7), su_key(7), strlen(su_key(7)), &after));
    ck_assert_uint_eq(after.flags, 0x80000001u);
    assert_consistent();
}
END_TEST

START_TEST(reidentify_leaves_others_alone)
{
    htc_ref old = put_ok(7, 300), now = put_ok(7, 301), absent;
    htc_identity id = su_identity(7, true);
    htc_info info;

    ck_assert_int_eq(htc_store_reidentify(store, old, &id, 1, 1), APR_SUCCESS);
    ck_assert_int_eq(su_get(store, 7, scratch, &info), SU_RIGHT);
    ck_assert_int_eq(info.id.mtime_ns, 7);
    ck_assert_uint_eq(info.ref.version, now.version);
    ck_assert_int_eq(su_put(store, &(su_spec){.number = 8, .kind = HTC_KIND_ABSENT}, &absent),
                     APR_SUCCESS);
    ck_assert_int_eq(htc_store_reidentify(store, absent, &id, 5, 77), APR_SUCCESS);
    ck_assert(htc_store_find(store, su_hash(store, 8), su_key(8), strlen(su_key(8)), &info));
    ck_assert_uint_eq(info.id.ino, 0);
    ck_assert_uint_eq(info.flags, 5);
    ck_assert_int_eq(info.checked_at, 77);
}
END_TEST

START_TEST(claim_has_one_winner)
{
    htc_ref ref = put_ok(3, 10);
    htc_slot_hot *slot = htc_store_slot(store, ref.slot);
    int64_t checked_at;

    ck_assert(htc_store_current(slot, ref.version, &checked_at));
    ck_assert_int_eq(checked_at, 3);
    ck_assert(htc_store_claim(slot, 3, 50));
    ck_assert(!htc_store_claim(slot, 3, 60));
    ck_assert(htc_store_current(slot, ref.version, &checked_at));
    ck_assert_int_eq(checked_at, 50);
    htc_store_confirm(slot, 50, 100);
    ck_assert(htc_store_current(slot, ref.version, &checked_at));
    ck_assert_int_eq(checked_at, 100);
    put_ok(3, 10);
    ck_assert(!htc_store_current(slot, ref.version, &checked_at));
}
END_TEST

/* Whoever claimed is late: it was looked at by somebody else, found untrue, or replaced meanwhile.
 */
START_TEST(late_confirmations_change_nothing)
{
    static const int64_t stays[] = {200, -1000, 90, 3};
    htc_ref ref = put_ok(3, 10);
    htc_slot_hot *slot = htc_store_slot(store, ref.slot);
    int64_t checked_at;

    ck_assert(htc_store_claim(slot, 3, 50));
    switch (_i) {
    case 0:
        htc_store_confirm(slot, 50, 200);
        break;
    case 1:
        htc_store_refute(slot, -1000);
        break;
    case 2:
        ck_assert(htc_store_claim(slot, 50, 90));
        break;
    default:
        htc_store_drop(store, ref);
        ref = put_ok(3, 20);
        slot = htc_store_slot(store, ref.slot);
        break;
    }
    htc_store_confirm(slot, 50, 100);
    ck_assert(htc_store_current(slot, ref.version, &checked_at));
    ck_assert_int_eq(checked_at, stays[_i]);
}
END_TEST

/* Untrue is what was found to be so, whoever says what at the same time. */
START_TEST(what_is_untrue_stays_untrue)
{
    htc_ref ref = put_ok(3, 10);
    htc_slot_hot *slot = htc_store_slot(store, ref.slot);
    int64_t checked_at;

    ck_assert(htc_store_claim(slot, 3, 50));
    htc_store_confirm(slot, 50, 100);
    htc_store_refute(slot, -1000);
    htc_store_confirm(slot, 50, 120);
    htc_store_confirm(slot, 100, 120);
    ck_assert(htc_store_current(slot, ref.version, &checked_at));
    ck_assert_int_eq(checked_at, -1000);
}
END_TEST

START_TEST(any_slot_number_is_safe)
{
    static const uint32_t numbers[] = {0, 1, 1000000, INT32_MAX, UINT32_MAX};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        htc_slot_hot *slot = htc_store_slot(store, numbers[i]);

        ck_assert_uint_eq(atomic_load(&slot->version), 0);
        htc_store_touch(slot);
        ck_assert_uint_eq(atomic_load(&slot->touched), 1);
    }
}
END_TEST

START_TEST(versions_are_never_used_twice)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < 20000; i++) {
        htc_ref ref = put_ok(i % 97, i % 1000);

        ck_assert_uint_gt(ref.version, last);
        last = ref.version;
        if (i % 5 == 0)
            htc_store_drop(store, ref);
        if (i % 4999 == 0)
            htc_store_clear(store);
    }
    assert_consistent();
}
END_TEST

START_TEST(equal_hashes_are_told_apart_by_key)
{
    enum { KEYS = 40 };
    uint64_t hash = UINT64_C(0x1234567812345678); /* both sets are the same one, too */
    unsigned found = 0;
    htc_info info;
    htc_ref ref;

    for (uint32_t i = 0; i < KEYS; i++) {
        htc_put put = {.hash = hash,
                       .key = su_key(i),
                       .key_len = strlen(su_key(i)),
                       .kind = HTC_KIND_TREE,
                       .flags = i,
                       .share_percent = 100,
                       .checked_at = i};

        ck_assert_int_eq(htc_store_put(store, &put, &ref), APR_SUCCESS);
        ck_assert(htc_store_find(store, hash, su_key(i), strlen(su_key(i)), &info));
        ck_assert_uint_eq(info.ref.version, ref.version);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        if (htc_store_find(store, hash, su_key(i), strlen(su_key(i)), &info)) {
            ck_assert_uint_eq(info.flags, i);
            found++;
        }
    }
    ck_assert_uint_eq(found, HTCS_CANDIDATES);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_evictions), KEYS - HTCS_CANDIDATES);
    assert_consistent();
}
END_TEST

/* --- the lock ---------------------------------------------------------------------------------*/

static void end_child(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* A child that holds the lock until it is killed. */
static pid_t fork_holder(bool dirty)
{
    pid_t child = fork();

    if (child == 0) {
        if (!htc_lock_take(&store->lock, 0))
            _exit(1);
        if (dirty)
            atomic_store(&store->header->dirty, 1);
        raise(SIGSTOP);
        _exit(0);
    }
    waitpid(child, NULL, WUNTRACED);
    return child;
}

START_TEST(a_busy_lock_is_no_wait_and_no_error)
{
    htc_ref ref = put_ok(1, 100), none;
    htc_identity id = su_identity(1, true);
    su_spec spec = {.number = 2, .len = 5};
    pid_t holder = fork_holder(false);

    ck_assert_int_eq(su_put(store, &spec, &none), APR_EBUSY);
    ck_assert_uint_eq(none.version, 0);
    /* From now on this holder is not waited for any more. */
    ck_assert_uint_eq(HTCS_GET(store->header->lock.stuck), HTCS_GET(store->header->lock.holder));
    ck_assert_int_eq(su_put(store, &spec, &none), APR_EBUSY);
    ck_assert_int_eq(htc_store_drop(store, ref), APR_EBUSY);
    ck_assert_int_eq(htc_store_reidentify(store, ref, &id, 0, 0), APR_EBUSY);
    ck_assert_int_eq(htc_store_clear(store), APR_EBUSY);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_lock_timeouts), 5);
    ck_assert_int_eq(get(1), SU_RIGHT);
    end_child(holder);
    ck_assert_int_eq(su_put(store, &spec, &none), APR_SUCCESS);
    ck_assert_int_eq(get(1), SU_RIGHT);
    ck_assert_int_eq(get(2), SU_RIGHT);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 0);
    assert_consistent();
}
END_TEST

START_TEST(a_writer_that_died_is_cleaned_up_after)
{
    pid_t holder;

    put_ok(1, 100);
    put_ok(3, 100);
    holder = fork_holder(true);
    end_child(holder);
    put_ok(2, 100);
    for (uint32_t i = 1; i <= 3; i++)
        ck_assert_int_eq(get(i), SU_RIGHT);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 1);
    put_ok(4, 100);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 0);
    assert_consistent();
}
END_TEST

START_TEST(a_half_written_slot_is_seen_by_nobody)
{
    htc_ref ref = put_ok(1, 100);
    pid_t holder = fork_holder(true);
    htcs_view view;
    char *payload;
    size_t len;

    ck_assert(htcs_intact(store, ref.slot, &view));
    htcs_task_begin(store, HTCS_REMOVING, ref.slot, &view);
    atomic_fetch_add(&store->slots[ref.slot].seq, 1);
    end_child(holder);
    ck_assert_int_eq(get(1), SU_NONE);
    ck_assert_int_eq(htc_store_copy(store, ref, pool, &payload, &len), APR_NOTFOUND);
    put_ok(2, 100);
    ck_assert_uint_eq(stats().entries, 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_recoveries), 1);
    ck_assert_uint_eq(htc_counter_read(store, HTC_C_corrupt), 0);
    assert_consistent();
}
END_TEST

/* --- suite ------------------------------------------------------------------------------------*/

static void add_creation(Suite *s)
{
    TCase *tc = tcase_create("creation");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, create_takes_sizes_in_range, 0, COUNT(create_cases));
#ifndef NO_ADDRESS_LIMIT
    tcase_add_test(tc, favourites_are_listed);
    tcase_add_test(tc, create_names_the_address_limit);
#endif
    tcase_add_test(tc, create_names_the_memory_there_is);
    tcase_add_test(tc, mapping_lives_as_long_as_the_pool);
    suite_add_tcase(s, tc);
}

static void add_records(Suite *s)
{
    TCase *tc = tcase_create("records");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, records_of_any_size, 0, COUNT(payload_sizes));
    tcase_add_loop_test(tc, keys_of_any_size, 0, COUNT(key_sizes));
    tcase_add_test(tc, kinds_that_are_none_are_refused);
    tcase_add_test(tc, hash_is_seeded_per_store);
    tcase_add_test(tc, put_replaces);
    tcase_add_test(tc, put_all_stores_what_it_can);
    tcase_add_test(tc, drop_removes_only_what_is_current);
    tcase_add_test(tc, clear_leaves_nothing);
    tcase_add_test(tc, reidentify_keeps_version_and_payload);
    tcase_add_test(tc, reidentify_leaves_others_alone);
    tcase_add_test(tc, claim_has_one_winner);
    tcase_add_loop_test(tc, late_confirmations_change_nothing, 0, 4);
    tcase_add_test(tc, what_is_untrue_stays_untrue);
    tcase_add_test(tc, any_slot_number_is_safe);
    tcase_add_test(tc, versions_are_never_used_twice);
    tcase_add_test(tc, equal_hashes_are_told_apart_by_key);
    suite_add_tcase(s, tc);
}

static void add_lock(Suite *s)
{
    TCase *tc = tcase_create("lock");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_busy_lock_is_no_wait_and_no_error);
    tcase_add_test(tc, a_writer_that_died_is_cleaned_up_after);
    tcase_add_test(tc, a_half_written_slot_is_seen_by_nobody);
    suite_add_tcase(s, tc);
}

int main(void)
{
    Suite *s = suite_create("store");

    add_creation(s);
    add_records(s);
    add_lock(s);
    return run_suite(s);
}
