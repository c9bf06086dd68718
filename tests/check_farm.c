/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of farm/farm.c: keys, names, and that nothing which was forged, cut, swapped or kept
 * for later comes through. Run by 'make check' where the farm tier is built.
 */
#include "farm/farm.h"
#include "cache/record.h"

#include <apr_general.h>
#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

#define K1   "11111111111111111111111111111111"
#define K2   "22222222222222222222222222222222"
#define PATH "/srv/www/.htaccess"

static apr_pool_t *pool;
static htc_farm_keys keys;
static unsigned char fingerprint[HTC_FARM_FINGERPRINT];
static const int64_t the_time = 100400; /* ms since 1970 */

static htc_farm_keys keys_of(const char *text)
{
    htc_farm_keys k;

    ck_assert_ptr_null(htc_farm_keys_read(&k, text, strlen(text)));
    return k;
}

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
    keys = keys_of(K1 "\n");
    memset(fingerprint, 3, sizeof(fingerprint));
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

/* --- key file -----------------------------------------------------------------------------------
 */

static const struct {
    const char *text;
    unsigned n;
    const char *wrong;
} key_files[] = {
    {K1, 1, NULL},
    {K1 "\n", 1, NULL},
    {K1 "\r\n" K2 "\r\n", 2, NULL},
    {"# comment\n\n" K1 "  \n\n# more\n" K2, 2, NULL},
    {"", 0, "it has no key"},
    {"\n\n# " K1 "\n", 0, "it has no key"},
    {"1111111111111111111111111111111\n", 0, "a key is shorter than 32 characters"},
    {K1 "\nshort\n", 0, "a key is shorter than 32 characters"},
    {K1 "\n" K2 "\n" K1 "\n", 0, "it has more than two keys"},
    {K1 K1 K1 K1 K1 K1 K1 K1 K1, 0, "a key is longer than 256 characters"},
};

START_TEST(key_file)
{
    htc_farm_keys k;
    const char *wrong = htc_farm_keys_read(&k, key_files[_i].text, strlen(key_files[_i].text));

    ck_assert_pstr_eq(wrong, key_files[_i].wrong);
    if (wrong)
        return;
    ck_assert_uint_eq(k.n, key_files[_i].n);
    ck_assert_uint_eq(k.key[0].len, 32);
    ck_assert(!memcmp(k.key[0].bytes, K1, 32));
    if (k.n > 1)
        ck_assert(k.key[1].len == 32 && !memcmp(k.key[1].bytes, K2, 32));
}
END_TEST

/* --- names --------------------------------------------------------------------------------------
 */

START_TEST(names_are_hashes)
{
    static const char *const paths[] = {"", PATH, "/a b\r\nflush_all\r\n", "/\xff\x01",
                                        "/srv/www/.htaccess2"};
    char names[5][HTC_MC_KEY + 1], other[HTC_MC_KEY + 1];
    unsigned char print2[HTC_FARM_FINGERPRINT] = {9};

    for (int i = 0; i < 5; i++) {
        htc_farm_name(names[i], HTC_FARM_LEASE, fingerprint, paths[i]);
        ck_assert_uint_eq(strlen(names[i]), HTC_MC_KEY);
        ck_assert_int_eq(names[i][0], 'l');
        ck_assert_uint_eq(strspn(names[i] + 1, "0123456789abcdef"), HTC_MC_KEY - 1);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(names[i], names[j]);
        htc_farm_name(other, HTC_FARM_RECORD, fingerprint, paths[i]);
        ck_assert_str_eq(other + 1, names[i] + 1); /* so that they lie on one server */
        ck_assert_int_eq(other[0], 'r');
        htc_farm_name(other, HTC_FARM_LEASE, print2, paths[i]);
        ck_assert_str_ne(other, names[i]);
    }
}
END_TEST

/* --- values -------------------------------------------------------------------------------------
 */

static htc_farm_value lease(void)
{
    return (htc_farm_value){.type = HTC_FARM_LEASE,
                            .kind = HTC_KIND_TREE,
                            .id = {.dev = 5, .ino = 6, .size = 7, .mtime_ns = 8, .mode = 0100644},
                            .stamp = 99000,
                            .expires = 103000};
}

static htc_farm_value record(void)
{
    htc_farm_value value = lease();
    htc_record_builder *builder = htc_record_begin(pool, (htc_text_hash){1, 2});
    const htc_directive d = {1, 0, "Header", "set X-Test \"1\""};

    htc_record_add(builder, &d);
    ck_assert_int_eq(htc_record_finish(builder, &value.body, &value.body_len), APR_SUCCESS);
    value.type = HTC_FARM_RECORD;
    return value;
}

typedef struct encoded {
    char *bytes;
    size_t len;
} encoded;

static encoded encode_as(const htc_farm_value *value, const htc_farm_keys *k,
                         const unsigned char *p, const char *path)
{
    const htc_farm_scope scope = {k, p, path};
    encoded e;
    const void *bytes;

    ck_assert_int_eq(htc_farm_encode(&scope, value, pool, &bytes, &e.len), APR_SUCCESS);
    e.bytes = apr_pmemdup(pool, bytes, e.len);
    return e;
}

static encoded encode(htc_farm_value value)
{
    return encode_as(&value, &keys, fingerprint, PATH);
}

static int decode(encoded e, htc_farm_type type, int64_t now, htc_farm_value *out)
{
    const htc_farm_scope scope = {&keys, fingerprint, PATH};
    char *copy = malloc(e.len ? e.len : 1); /* ends where the value ends */
    int why;

    memcpy(copy, e.bytes, e.len);
    why = htc_farm_decode(&scope, type, now, copy, e.len, out);
    if (why < 0 && out->body_len)
        out->body = apr_pmemdup(pool, out->body, out->body_len);
    free(copy);
    return why;
}

START_TEST(comes_back_as_it_was)
{
    htc_farm_value values[4] = {record(), lease(), lease(), lease()}, out;

    values[2].kind = HTC_KIND_ABSENT;
    values[3].type = HTC_FARM_CLAIM;
    values[3].kind = HTC_KIND_NONE;
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(decode(encode(values[i]), values[i].type, the_time, &out), -1);
        ck_assert_int_eq(out.kind, values[i].kind);
        ck_assert_uint_eq(out.id.dev, 0); /* another number on each machine */
        ck_assert_uint_eq(out.id.ino, 6);
        ck_assert_int_eq(out.stamp, 99000);
        ck_assert_int_eq(out.expires, 103000);
        ck_assert_uint_eq(out.body_len, values[i].body_len);
        if (out.body_len)
            ck_assert(!memcmp(out.body, values[i].body, out.body_len));
    }
}
END_TEST

START_TEST(any_bit_changed_is_noticed)
{
    encoded e = encode(record());
    htc_farm_value out;

    for (size_t i = 0; i < e.len * 8; i++) {
        e.bytes[i / 8] ^= (char)(1 << (i % 8));
        ck_assert_int_ge(decode(e, HTC_FARM_RECORD, the_time, &out), 0);
        e.bytes[i / 8] ^= (char)(1 << (i % 8));
    }
    ck_assert_int_eq(decode(e, HTC_FARM_RECORD, the_time, &out), -1);
}
END_TEST

START_TEST(any_other_length_is_noticed)
{
    encoded e = encode(record()), longer;
    htc_farm_value out;

    for (size_t len = 0; len < e.len; len++)
        ck_assert_int_eq(decode((encoded){e.bytes, len}, HTC_FARM_RECORD, the_time, &out),
                         HTC_FC_drop_truncated);
    longer.len = e.len + 1;
    longer.bytes = apr_pcalloc(pool, longer.len);
    memcpy(longer.bytes, e.bytes, e.len);
    ck_assert_int_eq(decode(longer, HTC_FARM_RECORD, the_time, &out), HTC_FC_drop_truncated);
}
END_TEST

START_TEST(other_keys_paths_types_and_configurations)
{
    htc_farm_value value = lease(), out;
    htc_farm_keys other = keys_of(K2);
    unsigned char print2[HTC_FARM_FINGERPRINT] = {9};

    ck_assert_int_eq(
        decode(encode_as(&value, &other, fingerprint, PATH), HTC_FARM_LEASE, the_time, &out),
        HTC_FC_drop_forged);
    ck_assert_int_eq(decode(encode_as(&value, &keys, print2, PATH), HTC_FARM_LEASE, the_time, &out),
                     HTC_FC_drop_fingerprint);
    ck_assert_int_eq(
        decode(encode_as(&value, &keys, fingerprint, PATH "x"), HTC_FARM_LEASE, the_time, &out),
        HTC_FC_drop_swapped);
    ck_assert_int_eq(decode(encode_as(&value, &keys, fingerprint, "/srv/www/.htaccesT"),
                            HTC_FARM_LEASE, the_time, &out),
                     HTC_FC_drop_swapped);
    ck_assert_int_eq(decode(encode(value), HTC_FARM_CLAIM, the_time, &out), HTC_FC_drop_swapped);
    ck_assert_int_eq(decode(encode(value), HTC_FARM_RECORD, the_time, &out), HTC_FC_drop_swapped);
}
END_TEST

START_TEST(rotation)
{
    htc_farm_value value = lease(), out;
    htc_farm_keys old_new = keys_of(K1 "\n" K2), new_old = keys_of(K2 "\n" K1), new = keys_of(K2);
    encoded by_old = encode_as(&value, &old_new, fingerprint, PATH);
    encoded by_new = encode_as(&value, &new_old, fingerprint, PATH);

    keys = new_old;
    ck_assert_int_eq(decode(by_old, HTC_FARM_LEASE, the_time, &out), -1);
    keys = old_new;
    ck_assert_int_eq(decode(by_new, HTC_FARM_LEASE, the_time, &out), -1);
    keys = new;
    ck_assert_int_eq(decode(by_new, HTC_FARM_LEASE, the_time, &out), -1);
    ck_assert_int_eq(decode(by_old, HTC_FARM_LEASE, the_time, &out), HTC_FC_drop_forged);
}
END_TEST

static const struct {
    int64_t stamp, expires;
    int why;
} times[] = {
    {99000, 103000, -1},
    {100400, 103000, -1},
    {100400 + HTC_FARM_AGREE_MS, 103000, -1},
    {100401 + HTC_FARM_AGREE_MS, 103000, HTC_FC_drop_future},
    {50000, 100401, -1},
    {50000, 100400, HTC_FC_drop_replayed},
    {50000, 99999, HTC_FC_drop_replayed},
    {INT64_MAX, INT64_MAX, HTC_FC_drop_future},
    {INT64_MIN, INT64_MAX, -1},
    {INT64_MIN, INT64_MIN, HTC_FC_drop_replayed},
};

START_TEST(only_of_this_time)
{
    htc_farm_value value = lease(), out;

    value.stamp = times[_i].stamp;
    value.expires = times[_i].expires;
    ck_assert_int_eq(decode(encode(value), HTC_FARM_LEASE, the_time, &out), times[_i].why);
}
END_TEST

/* Signed by somebody who has the key, and yet not what the module writes. */
START_TEST(signed_nonsense)
{
    htc_farm_value values[9], out;

    for (int i = 0; i < 9; i++)
        values[i] = i < 5 ? record() : lease();
    values[0].body_len--;
    values[1].flags = HTC_RF_EMPTY;
    values[2].flags = HTC_RF_REPLAY;
    values[3].kind = HTC_KIND_STOCK;
    values[4].body_len = 0;
    values[5].kind = HTC_KIND_STOCK;
    values[6].flags = HTC_RF_EXEC_ON_READ;
    values[7].body = "x";
    values[7].body_len = 1;
    values[8].type = HTC_FARM_CLAIM;
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(decode(encode(values[i]), values[i].type, the_time, &out),
                         HTC_FC_drop_invalid);
}
END_TEST

START_TEST(larger_than_memcached_takes)
{
    const htc_farm_scope scope = {&keys, fingerprint, PATH};
    htc_farm_value value = record();
    const void *bytes;
    size_t len;

    value.body_len = HTC_MC_MAX_VALUE - 1024;
    value.body = apr_pcalloc(pool, value.body_len);
    ck_assert_int_eq(htc_farm_encode(&scope, &value, pool, &bytes, &len), APR_SUCCESS);
    ck_assert_uint_lt(len, HTC_MC_MAX_VALUE);
    value.body_len = HTC_MC_MAX_VALUE;
    ck_assert_int_eq(htc_farm_encode(&scope, &value, pool, &bytes, &len), APR_ENOSPC);
    value.body_len = SIZE_MAX;
    ck_assert_int_eq(htc_farm_encode(&scope, &value, pool, &bytes, &len), APR_ENOSPC);
}
END_TEST

/* As Python's hmac module computes it, so that it is the function that it says it is. */
START_TEST(the_mac_is_hmac_sha256)
{
    encoded e = encode(lease());
    char hex[65];

    for (int i = 0; i < 32; i++)
        apr_snprintf(hex + (size_t)2 * i, 3, "%02x", (unsigned char)e.bytes[i]);
    ck_assert_str_eq(hex, "b72a44c440d7393f9a083b3938fe600edc08c80000b13fa56ad8aaa0d5506a79");
}
END_TEST

/* A key of one block of SHA-256, and a longer one, of which HMAC takes the hash. */
START_TEST(the_mac_of_long_keys)
{
    static const char *const macs[] = {
        "00c43a7a15ab9d00b033a374e6d8fe8135231dc62b1a7591ad55d7ecbc2375e1",
        "665229ec944585efa744a07b6f0f56948c2833156de986b41a3b05463e33dd5f"};
    htc_farm_key key = {.len = _i ? 100 : 64};
    unsigned char mac[32];
    char hex[65];

    memset(key.bytes, 'K', key.len);
    ck_assert(htc_farm_hmac(&key, "what is signed", 14, mac));
    for (int i = 0; i < 32; i++)
        apr_snprintf(hex + (size_t)2 * i, 3, "%02x", mac[i]);
    ck_assert_str_eq(hex, macs[_i]);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("farm");
    TCase *tc = tcase_create("farm");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, key_file, 0, (int)(sizeof(key_files) / sizeof(key_files[0])));
    tcase_add_test(tc, names_are_hashes);
    tcase_add_test(tc, comes_back_as_it_was);
    tcase_add_test(tc, any_bit_changed_is_noticed);
    tcase_add_test(tc, any_other_length_is_noticed);
    tcase_add_test(tc, other_keys_paths_types_and_configurations);
    tcase_add_test(tc, rotation);
    tcase_add_loop_test(tc, only_of_this_time, 0, (int)(sizeof(times) / sizeof(times[0])));
    tcase_add_test(tc, signed_nonsense);
    tcase_add_test(tc, larger_than_memcached_takes);
    tcase_add_test(tc, the_mac_is_hmac_sha256);
    tcase_add_loop_test(tc, the_mac_of_long_keys, 0, 2);
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
