/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/cache/record.c: what goes in comes out, and what no builder can have made is
 * refused or at least safe to walk. Run by 'make check'; damaged records lie in allocations of
 * exactly their size, so that a build with -fsanitize=address sees the first byte read too many.
 */
#include "cache/record.h"

#include <check.h>
#include <apr_general.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#define HEADER_BYTES    32
#define ENTRY_BYTES     16
#define TOTAL_AT        12 /* offsets in the header */
#define HASH_AT         16
#define HASH_END        32
#define NAME_LEN_AT     8 /* offset in an entry */
#define ARGS_LEN_AT     12

static apr_pool_t *pool;

static const htc_text_hash some_hash = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

static void setup(void)
{
    apr_initialize();
    apr_pool_create(&pool, NULL);
}

static void teardown(void)
{
    apr_pool_destroy(pool);
    apr_terminate();
}

/* A sequence of directives; ends with a name of NULL. */
#define MAX_DIRECTIVES 8
typedef struct sample {
    const char *title;
    htc_directive directives[MAX_DIRECTIVES];
} sample;

/* Lengths are chosen so that each amount of padding occurs. */
static const sample samples[] = {
    {"empty", {{0}}},
    {"one, padding 2",
     {{
         1,
         0,
         "Deny",
         "from",
     }}},
    {"one, padding 1", {{1, 0, "Allow", "from"}}},
    {"one, padding 0", {{1, 0, "Order", "a,b,c"}}},
    {"one, padding 3", {{1, 0, "Deny", "all"}}},
    {"no arguments", {{7, 0, "ErrorDocument", ""}}},
    {"flat", {{1, 0, "A", "x"}, {2, 0, "B", "yy"}, {2, 0, "C", "zzz"}}},
    {"nested and back",
     {{1, 0, "<Files", "*.html>"},
      {2, 1, "<If", "\"%{REQUEST_URI} =~ /x/\">"},
      {3, 2, "Header", "set X-A \"b\""},
      {5, 1, "Require", "all granted"},
      {9, 0, "Options", "-Indexes"}}},
    {"several levels up at once",
     {{1, 0, "a", ""}, {2, 1, "b", ""}, {3, 2, "c", ""}, {4, 3, "d", ""}, {5, 0, "e", ""}}},
    {"bytes over 127 and control characters",
     {{1, 0, "AddDescription", "\"caf\xc3\xa9 \xff\xfe\x80\" \x01\x7f*.t\txt\r\n"}}},
    {"largest line number", {{UINT32_MAX, 0, "X", "y"}}},
};

static htc_record_builder *build(const htc_directive *directives)
{
    htc_record_builder *builder = htc_record_begin(pool, some_hash);

    for (size_t i = 0; i < MAX_DIRECTIVES && directives[i].name; i++)
        htc_record_add(builder, &directives[i]);
    return builder;
}

static const char *finish(htc_record_builder *builder, size_t *len)
{
    const void *bytes;

    ck_assert_int_eq(htc_record_finish(builder, &bytes, len), APR_SUCCESS);
    return bytes;
}

/* A copy that ends where the allocation ends. */
static char *exact_copy(const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, len);
    return copy;
}

static apr_status_t validate_copy(const char *bytes, size_t len)
{
    char *copy = exact_copy(bytes, len);
    apr_status_t rv = htc_record_validate(copy, len);

    free(copy);
    return rv;
}

static void assert_same(const htc_directive *a, const htc_directive *b)
{
    ck_assert_uint_eq(a->line, b->line);
    ck_assert_uint_eq(a->depth, b->depth);
    ck_assert_str_eq(a->name, b->name);
    ck_assert_str_eq(a->args, b->args);
}

static void assert_holds(const char *record, const htc_directive *expected, size_t n)
{
    htc_directive d;
    size_t offset = 0;

    ck_assert_uint_eq(htc_record_count(record), n);
    for (size_t i = 0; i < n; i++) {
        ck_assert(htc_record_next(record, &offset, &d));
        assert_same(&d, &expected[i]);
    }
    ck_assert(!htc_record_next(record, &offset, &d));
    ck_assert(!htc_record_next(record, &offset, &d));
}

/* Read every byte that a walk offers. */
static size_t walk(const char *record)
{
    htc_directive d;
    size_t offset = 0, n = 0, bytes = 0;
    uint32_t max_depth = 0;

    for (; htc_record_next(record, &offset, &d); n++) {
        ck_assert_uint_le(d.depth, max_depth);
        ck_assert_uint_lt(d.depth, HTC_RECORD_MAX_NESTING);
        ck_assert_uint_ge(strlen(d.name), 1);
        bytes += strlen(d.name) + strlen(d.args);
        max_depth = d.depth + 1;
    }
    ck_assert_uint_eq(n, htc_record_count(record));
    return bytes;
}

START_TEST(round_trip)
{
    const sample *s = &samples[_i];
    size_t len, n = 0;
    const char *record = finish(build(s->directives), &len);

    while (n < MAX_DIRECTIVES && s->directives[n].name)
        n++;
    ck_assert_msg(validate_copy(record, len) == APR_SUCCESS, "%s", s->title);
    ck_assert_uint_eq(len % 4, 0);
    ck_assert(htc_text_hash_equal(htc_record_text_hash(record), some_hash));
    assert_holds(record, s->directives, n);
}
END_TEST

START_TEST(empty_is_a_header)
{
    size_t len;

    finish(build(samples[0].directives), &len);
    ck_assert_uint_eq(len, HEADER_BYTES);
}
END_TEST

START_TEST(misaligned_is_fine)
{
    size_t len;
    const char *record = finish(build(samples[7].directives), &len);

    for (size_t shift = 1; shift < 4; shift++) {
        char *block = malloc(len + shift);

        ck_assert_ptr_nonnull(block);
        memcpy(block + shift, record, len);
        ck_assert_int_eq(htc_record_validate(block + shift, len), APR_SUCCESS);
        ck_assert_uint_eq(walk(block + shift), walk(record));
        free(block);
    }
}
END_TEST

/* A small generator of its own: the same sequence everywhere. */
static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static char *random_string(uint64_t *state, size_t len)
{
    char *s = apr_palloc(pool, len + 1);

    for (size_t i = 0; i < len; i++)
        s[i] = (char)(1 + next_random(state) % 255);
    s[len] = '\0';
    return s;
}

START_TEST(random_round_trip)
{
    uint64_t state = (uint64_t)_i + 1;
    size_t n = next_random(&state) % 300, len;
    htc_directive *made = apr_pcalloc(pool, (n + 1) * sizeof(*made));
    htc_record_builder *builder = htc_record_begin(pool, some_hash);
    const char *record;

    for (size_t i = 0; i < n; i++) {
        uint32_t deepest = i ? made[i - 1].depth + 1 : 0;

        made[i].line = next_random(&state);
        made[i].depth = deepest ? next_random(&state) % (deepest + 1) : 0;
        made[i].name = random_string(&state, 1 + next_random(&state) % 40);
        made[i].args = random_string(&state, next_random(&state) % 400);
        htc_record_add(builder, &made[i]);
    }
    record = finish(builder, &len);
    ck_assert_int_eq(validate_copy(record, len), APR_SUCCESS);
    assert_holds(record, made, n);
}
END_TEST

START_TEST(huge_arguments)
{
    const size_t sizes[] = {1000, 65535, 65536, (size_t)16 << 20};
    htc_directive made[COUNT_OF(sizes)];
    htc_record_builder *builder = htc_record_begin(pool, some_hash);
    const char *record;
    size_t len;

    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        char *args = apr_palloc(pool, sizes[i] + 1);

        memset(args, 'a' + (int)i, sizes[i]);
        args[sizes[i]] = '\0';
        made[i] = (htc_directive){(uint32_t)i, 0, "RewriteRule", args};
        htc_record_add(builder, &made[i]);
    }
    record = finish(builder, &len);
    ck_assert_int_eq(validate_copy(record, len), APR_SUCCESS);
    assert_holds(record, made, COUNT_OF(sizes));
}
END_TEST

/* A record may not be copied again for each directive: it moves once for each doubling. */
START_TEST(growth_is_amortised)
{
    htc_directive d = {1, 0, "Redirect", "/some/where /else/where"};
    htc_record_builder *builder = htc_record_begin(pool, some_hash);
    const char *last = NULL;
    size_t len, moves = 0;

    for (int i = 0; i < 20000; i++) {
        const void *bytes;

        htc_record_add(builder, &d);
        ck_assert_int_eq(htc_record_finish(builder, &bytes, &len), APR_SUCCESS);
        moves += bytes != last;
        last = bytes;
    }
    ck_assert_uint_gt(len, 20000 * (ENTRY_BYTES + strlen(d.name) + strlen(d.args)));
    ck_assert_uint_lt(moves, 16);
}
END_TEST

/* Depths a builder must refuse, as a list of depths. */
static const struct {
    const char *title;
    uint32_t depths[4];
    size_t n;
} bad_depths[] = {
    {"first is not 0", {1}, 1},
    {"skips a level", {0, 2}, 2},
    {"skips a level below", {0, 1, 3}, 3},
    {"skips after going up", {0, 1, 0, 2}, 4},
    {"largest number", {0, UINT32_MAX}, 2},
};

START_TEST(builder_refuses_depth)
{
    htc_record_builder *builder = htc_record_begin(pool, some_hash);
    const void *bytes = "";
    size_t len = 1;

    for (size_t i = 0; i < bad_depths[_i].n; i++) {
        htc_directive d = {1, bad_depths[_i].depths[i], "X", ""};
        htc_record_add(builder, &d);
    }
    ck_assert_msg(htc_record_finish(builder, &bytes, &len) == APR_EINVAL, "%s",
                  bad_depths[_i].title);
    ck_assert_ptr_null(bytes);
    ck_assert_uint_eq(len, 0);
}
END_TEST

START_TEST(builder_refuses_empty_name)
{
    const htc_directive bad = {1, 0, "", "x"}, good = {2, 0, "X", "x"};
    htc_record_builder *builder = htc_record_begin(pool, some_hash);
    const void *bytes;
    size_t len;

    htc_record_add(builder, &bad);
    htc_record_add(builder, &good);
    ck_assert_int_eq(htc_record_finish(builder, &bytes, &len), APR_EINVAL);
}
END_TEST

static apr_status_t nest(uint32_t levels, const void **bytes, size_t *len)
{
    htc_record_builder *builder = htc_record_begin(pool, some_hash);

    for (uint32_t i = 0; i < levels; i++) {
        htc_directive d = {i + 1, i, "<If", "true>"};
        htc_record_add(builder, &d);
    }
    return htc_record_finish(builder, bytes, len);
}

START_TEST(nesting_is_bounded)
{
    const uint32_t deepest = HTC_RECORD_MAX_NESTING - 1;
    const size_t step = ENTRY_BYTES + sizeof("<If") + sizeof("true>") + 2;
    const void *bytes;
    size_t len;
    char *copy;

    ck_assert_int_eq(nest(HTC_RECORD_MAX_NESTING, &bytes, &len), APR_SUCCESS);
    ck_assert_int_eq(validate_copy(bytes, len), APR_SUCCESS);
    ck_assert_int_eq(nest(HTC_RECORD_MAX_NESTING + 1, &bytes, &len), APR_EINVAL);

    /* A forged record: another directive below the deepest one. */
    ck_assert_int_eq(nest(HTC_RECORD_MAX_NESTING, &bytes, &len), APR_SUCCESS);
    ck_assert_uint_eq(len, HEADER_BYTES + step * HTC_RECORD_MAX_NESTING);
    copy = malloc(len + step);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, len);
    memcpy(copy + len, copy + len - step, step);
    memcpy(copy + 8, &(uint32_t){HTC_RECORD_MAX_NESTING + 1}, 4);
    memcpy(copy + TOTAL_AT, &(uint32_t){(uint32_t)(len + step)}, 4);
    memcpy(copy + len + 4, &deepest, 4);
    ck_assert_int_eq(htc_record_validate(copy, len + step), APR_SUCCESS);
    memcpy(copy + len + 4, &(uint32_t){deepest + 1}, 4);
    ck_assert_int_eq(htc_record_validate(copy, len + step), APR_EINVAL);
    free(copy);
}
END_TEST

/* A string of 4 GiB made of the same 16 MB over and over. NULL on failure. */
static char *string_of_4g(size_t *mapped)
{
    const size_t piece = (size_t)16 << 20, pieces = 256;
    int fd = memfd_create("string", 0);
    char *base;

    *mapped = piece * (pieces + 1);
    base = mmap(NULL, *mapped, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd < 0 || base == MAP_FAILED || ftruncate(fd, (off_t)piece) != 0)
        return NULL;
    for (size_t i = 0; i < pieces; i++) {
        int prot = i ? PROT_READ : PROT_READ | PROT_WRITE;

        if (mmap(base + i * piece, piece, prot, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            return NULL;
    }
    memset(base, 'x', piece);
    close(fd);
    return base;
}

START_TEST(builder_refuses_4g)
{
    htc_record_builder *builder = htc_record_begin(pool, some_hash);
    htc_directive d = {1, 0, "X", ""};
    const void *bytes;
    size_t len, mapped;
    char *huge = string_of_4g(&mapped);

    ck_assert_ptr_nonnull(huge);
    htc_record_add(builder, &d);
    d.args = huge;
    htc_record_add(builder, &d);
    ck_assert_int_eq(htc_record_finish(builder, &bytes, &len), APR_ENOSPC);
    ck_assert_ptr_null(bytes);

    builder = htc_record_begin(pool, some_hash);
    d.args = "";
    d.name = huge;
    htc_record_add(builder, &d);
    ck_assert_int_eq(htc_record_finish(builder, &bytes, &len), APR_ENOSPC);
    munmap(huge, mapped);
}
END_TEST

START_TEST(truncations_are_refused)
{
    size_t len;
    const char *record = finish(build(samples[_i].directives), &len);

    for (size_t cut = 0; cut < len; cut++)
        ck_assert_int_eq(validate_copy(record, cut), APR_EINVAL);
}
END_TEST

/* The same, with a header that admits to the length: the body's own checks must see it. */
START_TEST(admitted_truncations_are_refused)
{
    size_t len;
    const char *record = finish(build(samples[_i].directives), &len);

    for (size_t cut = HEADER_BYTES; cut < len; cut++) {
        char *copy = exact_copy(record, cut);

        memcpy(copy + TOTAL_AT, &(uint32_t){(uint32_t)cut}, 4);
        ck_assert_int_eq(htc_record_validate(copy, cut), APR_EINVAL);
        free(copy);
    }
}
END_TEST

START_TEST(excess_is_refused)
{
    size_t len;
    const char *record = finish(build(samples[_i].directives), &len);

    for (size_t more = 1; more <= 64; more++) {
        char *copy = calloc(1, len + more);

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, record, len);
        ck_assert_int_eq(htc_record_validate(copy, len + more), APR_EINVAL);
        memcpy(copy + TOTAL_AT, &(uint32_t){(uint32_t)(len + more)}, 4);
        ck_assert_int_eq(htc_record_validate(copy, len + more), APR_EINVAL);
        free(copy);
    }
}
END_TEST

/* Every bit of a record in turn: refused, or safe to walk. Those of the header, other than the
 * text's hash, must be refused. */
START_TEST(bit_flips)
{
    size_t len, refused = 0;
    const char *record = finish(build(samples[_i].directives), &len);
    char *copy = exact_copy(record, len);

    for (size_t bit = 0; bit < len * 8; bit++) {
        size_t at = bit / 8;

        copy[at] ^= (char)(1 << bit % 8);
        if (htc_record_validate(copy, len) == APR_SUCCESS) {
            ck_assert_uint_ge(at, HASH_AT);
            walk(copy);
        } else {
            ck_assert(at < HASH_AT || at >= HASH_END);
            refused++;
        }
        copy[at] ^= (char)(1 << bit % 8);
    }
    ck_assert_uint_ge(refused, (size_t)HASH_AT * 8);
    free(copy);
}
END_TEST

/* Lengths that overflow when they are added up or rounded. */
START_TEST(huge_lengths_are_refused)
{
    const uint32_t values[] = {0xffffffff, 0xfffffffe, 0xfffffffc, 0xfffffff0, 0xffffffe0,
                               0x80000000, 0x7fffffff, 0x7ffffffe, 0x0000ffff, 0x00000100};
    size_t len;
    const char *record = finish(build(samples[1].directives), &len);
    char *copy = exact_copy(record, len);

    for (size_t i = 0; i < COUNT_OF(values) * (COUNT_OF(values) + 1); i++) {
        size_t second = i % (COUNT_OF(values) + 1);

        memcpy(copy, record, len);
        memcpy(copy + HEADER_BYTES + NAME_LEN_AT, &values[i / (COUNT_OF(values) + 1)], 4);
        if (second < COUNT_OF(values))
            memcpy(copy + HEADER_BYTES + ARGS_LEN_AT, &values[second], 4);
        ck_assert_int_eq(htc_record_validate(copy, len), APR_EINVAL);
    }
    memcpy(copy, record, len);
    memcpy(copy + HEADER_BYTES + ARGS_LEN_AT, &values[0], 4);
    ck_assert_int_eq(htc_record_validate(copy, len), APR_EINVAL);
    free(copy);
}
END_TEST

/* One field changed in the record of {"Deny", "from"}, {"A", ""} below it. Offsets from the start
 * of the second directive. */
static const struct {
    const char *title;
    size_t at;
    const char *bytes;
    size_t n;
    apr_status_t rv;
} forged[] = {
    {"nothing", 0, "", 0, APR_SUCCESS},
    {"another line", 0, "\x09\x09\x09\x09", 4, APR_SUCCESS},
    {"empty name", NAME_LEN_AT, "\0\0\0\0\0\0\0\0\0\0\0\0", 12, APR_EINVAL},
    {"NUL inside the name", 16, "\0", 1, APR_EINVAL},
    {"no NUL behind the name", 17, "x", 1, APR_EINVAL},
    {"no NUL behind the arguments", 18, "x", 1, APR_EINVAL},
    {"padding is not zero", 19, "x", 1, APR_EINVAL},
    {"name takes the arguments' place", NAME_LEN_AT, "\2\0\0\0\0\0\0\0AB\0\0", 12, APR_SUCCESS},
    {"arguments take the padding's place", ARGS_LEN_AT, "\1\0\0\0A\0B\0", 8, APR_SUCCESS},
    {"NUL inside the arguments", ARGS_LEN_AT, "\1\0\0\0A\0\0\0", 8, APR_EINVAL},
};

START_TEST(forged_field)
{
    const htc_directive made[MAX_DIRECTIVES] = {{1, 0, "Deny", "from"}, {2, 1, "A", ""}};
    size_t len;
    const char *record = finish(build(made), &len);
    char *copy = exact_copy(record, len);
    size_t second = len - ENTRY_BYTES - 4;

    ck_assert_uint_le(second + forged[_i].at + forged[_i].n, len);
    memcpy(copy + second + forged[_i].at, forged[_i].bytes, forged[_i].n);
    ck_assert_msg(htc_record_validate(copy, len) == forged[_i].rv, "%s", forged[_i].title);
    free(copy);
}
END_TEST

/* Depths of the two directives of the record above. */
static const struct {
    uint32_t first, second;
    apr_status_t rv;
} depths[] = {{0, 0, APR_SUCCESS},         {0, 1, APR_SUCCESS},
              {0, 2, APR_EINVAL},          {1, 1, APR_EINVAL},
              {0, UINT32_MAX, APR_EINVAL}, {UINT32_MAX, 0, APR_EINVAL},
              {1, 2, APR_EINVAL},          {UINT32_MAX, UINT32_MAX, APR_EINVAL}};

START_TEST(forged_depth)
{
    const htc_directive made[MAX_DIRECTIVES] = {{1, 0, "Deny", "from"}, {2, 1, "A", ""}};
    size_t len;
    const char *record = finish(build(made), &len);
    char *copy = exact_copy(record, len);

    memcpy(copy + HEADER_BYTES + 4, &depths[_i].first, 4);
    memcpy(copy + len - ENTRY_BYTES - 4 + 4, &depths[_i].second, 4);
    ck_assert_int_eq(htc_record_validate(copy, len), depths[_i].rv);
    free(copy);
}
END_TEST

/* The published values of XXH3 with 128 bits, so that a record from elsewhere is compared right. */
START_TEST(text_hash)
{
    const htc_text_hash empty = {UINT64_C(0x6001c324468d497f), UINT64_C(0x99aa06d3014798d8)};
    htc_text_hash a = htc_text_hash_of("Deny from all\n", 14);
    htc_text_hash low = a, high = a;

    ck_assert(htc_text_hash_equal(htc_text_hash_of("", 0), empty));
    ck_assert(htc_text_hash_equal(a, htc_text_hash_of("Deny from all\n", 14)));
    ck_assert(!htc_text_hash_equal(a, htc_text_hash_of("Deny from all", 13)));
    low.low ^= 1;
    high.high ^= 1;
    ck_assert(!htc_text_hash_equal(a, low));
    ck_assert(!htc_text_hash_equal(a, high));
}
END_TEST

static Suite *record_suite(void)
{
    Suite *suite = suite_create("record");
    TCase *build_case = tcase_create("build and walk"), *hostile = tcase_create("hostile");

    tcase_add_checked_fixture(build_case, setup, teardown);
    tcase_set_timeout(build_case, 120);
    tcase_add_loop_test(build_case, round_trip, 0, COUNT_OF(samples));
    tcase_add_test(build_case, empty_is_a_header);
    tcase_add_test(build_case, misaligned_is_fine);
    tcase_add_loop_test(build_case, random_round_trip, 0, 100);
    tcase_add_test(build_case, huge_arguments);
    tcase_add_test(build_case, growth_is_amortised);
    tcase_add_loop_test(build_case, builder_refuses_depth, 0, COUNT_OF(bad_depths));
    tcase_add_test(build_case, builder_refuses_empty_name);
    tcase_add_test(build_case, nesting_is_bounded);
    if (sizeof(size_t) > 4) /* with 32 bits there is no such string */
        tcase_add_test(build_case, builder_refuses_4g);
    tcase_add_test(build_case, text_hash);
    suite_add_tcase(suite, build_case);

    tcase_add_checked_fixture(hostile, setup, teardown);
    tcase_set_timeout(hostile, 120);
    tcase_add_loop_test(hostile, truncations_are_refused, 0, COUNT_OF(samples));
    tcase_add_loop_test(hostile, admitted_truncations_are_refused, 1, COUNT_OF(samples));
    tcase_add_loop_test(hostile, excess_is_refused, 0, COUNT_OF(samples));
    tcase_add_loop_test(hostile, bit_flips, 0, COUNT_OF(samples));
    tcase_add_test(hostile, huge_lengths_are_refused);
    tcase_add_loop_test(hostile, forged_field, 0, COUNT_OF(forged));
    tcase_add_loop_test(hostile, forged_depth, 0, COUNT_OF(depths));
    suite_add_tcase(suite, hostile);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(record_suite());
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
