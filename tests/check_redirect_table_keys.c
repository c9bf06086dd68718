/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of what src/redirect_table*.c find rules by: hashes of paths, and keys that several
 * rules have in common. Run by 'make check', once with vectors of 16 bytes and once without.
 */
#include "pool_fixture.h"
#include "suite_util.h"
#include "redirect_table.h"
#include "redirect_table/builder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* What rt_hash_short() says of itself, a byte at a time: images made with vectors and without them
 * are the same. */
static uint64_t naive_hash(const rt_secret *secret, const char *path, size_t len)
{
    const size_t at[] = {0, len < 32 ? len - 16 : 16, len - 16, len < 32 ? 0 : len - 32};
    uint64_t sum[2] = {0, 0};

    for (unsigned i = 0; i < 8; i++) {
        uint64_t bytes = 0, mixed;

        for (unsigned j = 0; j < 8; j++)
            bytes |= (uint64_t)(unsigned char)path[at[i / 2] + i % 2 * 8 + j] << 8 * j;
        mixed = bytes ^ secret->lane[i];
        sum[i % 2] += (mixed & UINT32_MAX) * (mixed >> 32);
        sum[(i + 1) % 2] += bytes;
    }
    return rt_mix(sum[0] ^ secret->seed, sum[1] ^ len * RT_K2);
}

/* Each byte of a path counts, wherever it is, and a path has one hash, in however many pieces it is
 * looked at. */
START_TEST(paths_are_compared_and_hashed_whole)
{
    char path[201] = "/", other[201], doubled[402];
    rt_secret secret = rt_secret_of(1);

    for (size_t i = 1; i < sizeof(path); i++)
        path[i] = i % 7 ? (char)('a' + i % 23) : '/';
    for (size_t len = 1; len < sizeof(path); len++) {
        size_t n = 0;

        if (path[len - 1] == '/')
            continue;
        memcpy(other, path, len);
        for (size_t i = 0; i < len; i++) {
            doubled[n++] = path[i];
            if (path[i] == '/')
                doubled[n++] = '/';
        }
        ck_assert_uint_eq(rt_hash_path(&secret, path, len, false),
                          rt_hash_clean(&secret, path, len));
        ck_assert_uint_eq(rt_hash_path(&secret, doubled, n, false),
                          rt_hash_clean(&secret, path, len));
        for (size_t i = 0; i < len; i++) {
            other[i] ^= 1;
            ck_assert_uint_ne(rt_hash_clean(&secret, other, len),
                              rt_hash_clean(&secret, path, len));
            if (len >= 16 && len <= RT_SHORT_PATH)
                ck_assert(!rt_equal_short(other, path, len));
            other[i] = path[i];
        }
        if (len >= 16 && len <= RT_SHORT_PATH) {
            ck_assert(rt_equal_short(other, path, len));
            ck_assert_uint_eq(rt_hash_clean(&secret, path, len), naive_hash(&secret, path, len));
        }
    }
}
END_TEST

/* Two rules, and the one of them that answers the path; -1: none does. They are looked up where
 * their keys have bucket and tag in common, so that the index offers both for the key of each, and
 * where they do not. */
static const struct {
    redirect_kind kinds[2];
    const char *sources[2], *path;
    int answer;
} alike[] = {
    {{REDIRECT_EXACT, REDIRECT_EXACT},
     {"/some/old/place/a", "/some/old/place/b"},
     "/some/old/place/a",
     0},
    {{REDIRECT_EXACT, REDIRECT_EXACT},
     {"/some/old/place/a", "/some/old/place/b"},
     "/some/old/place/b",
     1},
    {{REDIRECT_EXACT, REDIRECT_EXACT},
     {"/some/old/place/a", "/some/old/place/b"},
     "/some/old/place/c",
     -1},
    {{REDIRECT_EXACT, REDIRECT_EXACT},
     {"/some/old/place/ab", "/some/old/place/a"},
     "/some/old/place/a/",
     -1},
    {{REDIRECT_PREFIX, REDIRECT_EXACT},
     {"/some/old/place/a", "/some/old/place/a/b.html"},
     "/some/old/place/a/b.html",
     0},
    {{REDIRECT_EXACT, REDIRECT_PREFIX},
     {"/some/old/place/a/b.html", "/some/old/place/a"},
     "/some/old/place/a/b.html",
     0},
    {{REDIRECT_EXACT, REDIRECT_PREFIX},
     {"/some/old/place/a/b.html", "/some/old/place/a"},
     "/some/old/place/a/c.html",
     1},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a", "/some/old/place/a/b"},
     "/some/old/place/a/b/c",
     0},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a/b", "/some/old/place/a"},
     "/some/old/place/a/b/c",
     0},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a/b", "/some/old/place/a"},
     "/some/old//place/a//b/c",
     0},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a", "/some/old/place/a/b"},
     "/some/old//place/a//b/c",
     0},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a/b", "/some/old/place/a"},
     "/some/old/place/a/c",
     1},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a/", "/some/old/place/b/"},
     "/some/old/place/b/c",
     1},
    {{REDIRECT_PREFIX, REDIRECT_PREFIX},
     {"/some/old/place/a/", "/some/old/place/b/"},
     "/some/old/place/b",
     -1},
};

static uint16_t tag_of(unsigned number, unsigned i, uint64_t seed)
{
    const char *source = alike[number].sources[i];
    rt_secret secret = rt_secret_of(seed);
    uint64_t hash = rt_hash_path(&secret, source, strlen(source), false);
    uint64_t salt = rt_salt(seed, 0, 0, 0);

    return rt_tag(alike[number].kinds[i] == REDIRECT_EXACT ? rt_whole_key(hash, salt)
                                                           : rt_segments_key(hash, salt));
}

/* A table of these two, which are alone in a bucket. */
static char *make_alike(unsigned number, uint64_t seed, bool same_tag)
{
    redirect_builder *builder = redirect_builder_create(0, 0);
    size_t size;
    char *image;

    ck_assert_ptr_nonnull(builder);
    rt_builder_seed(builder, seed);
    for (unsigned i = 0; i < 2; i++) {
        redirect_rule rule = {.kind = alike[number].kinds[i],
                              .source = alike[number].sources[i],
                              .source_len = strlen(alike[number].sources[i]),
                              .target = "/new",
                              .target_len = 4,
                              .status = 301,
                              .line = i + 1};

        ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    }
    ck_assert_int_eq(rt_tag(rt_entries(builder)[0].key) == rt_tag(rt_entries(builder)[1].key),
                     same_tag);
    ck_assert_int_eq(redirect_builder_finish(builder, NULL, NULL, &size), APR_SUCCESS);
    image = malloc(size);
    ck_assert_ptr_nonnull(image);
    redirect_builder_write(builder, image);
    redirect_builder_destroy(builder);
    ck_assert_int_eq(redirect_table_validate(image, size), APR_SUCCESS);
    return image;
}

static void ask_alike(unsigned number, uint64_t seed, bool same_tag)
{
    const char *path = alike[number].path;
    redirect_request request = {.path = path, .path_len = strlen(path)};
    char *image = make_alike(number, seed, same_tag);
    const redirect_table *table =
        redirect_table_open(image, ((const rt_header *)(const void *)image)->size, pool);
    redirect_match match;
    bool found = redirect_table_lookup(table, &request, 0, &match);

    ck_assert_int_eq(found ? (int)redirect_table_line(table, match.rule, NULL) - 1 : -1,
                     alike[number].answer);
    free(image);
}

START_TEST(rules_that_look_alike_are_told_apart)
{
    unsigned number = (unsigned)_i;
    uint64_t same = 1, other = 1;

    while (tag_of(number, 0, same) != tag_of(number, 1, same))
        same++;
    while (tag_of(number, 0, other) == tag_of(number, 1, other))
        other++;
    ask_alike(number, same, true);
    ask_alike(number, other, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_table_keys");
    TCase *tc = tcase_create("keys");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, paths_are_compared_and_hashed_whole);
    tcase_add_loop_test(tc, rules_that_look_alike_are_told_apart, 0, COUNT_OF(alike));
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
