/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Tables whose image another process overwrites while they are read: no function of
 * redirect_table.h reads outside of the image, runs without end, or says more than the header
 * allows. The image lies between two pages that nobody may touch. Run by 'make check'.
 */
#include "suite_util.h"
#include "maps/maps.h"
#include "redirect_table/builder.h"
#include "hostile_util.h"

#include <apr_strings.h>

#define RULES  3000
#define ROUNDS 200
#define ASKED  150 /* in each round */

typedef enum mixture { WHOLE, PREFIXES, ALL_KINDS, CONDITIONS, DIRECTORIES, MIXTURES } mixture;

typedef struct scene {
    hu_walled image;
    mixture what;
    pid_t writers[HU_WRITERS];
} scene;

static apr_pool_t *pool;
static scene s;
static char target[REDIRECT_RULE_ROOM];
static uint64_t random_rules; /* of read_rules() */

static const char *path_of(unsigned i, char path[200])
{
    static const char *const shapes[] = {"/section/%u/page-%u.html", "/%u/a/b/c/%u", "/x%u%u",
                                         "/a-longer-section-%u/of-the-site/with-%u/many/segments/"
                                         "and-a-last-one-that-is-long.html"};

    if (s.what == DIRECTORIES)
        apr_snprintf(path, 200, shapes[0], i / 200, i);
    else
        apr_snprintf(path, 200, shapes[i % 4], i / 7, i);
    return path;
}

static redirect_rule rule_of(mixture what, unsigned i, char path[200])
{
    static const char *const conditions[] = {"accept=a/b,text/html;v=1\nunacceptable=406",
                                             "cookie=a,b=1\nheader=X-A:1\nlanguage=de,en",
                                             "method=GET,POST\n!country=AT\nparameter=a=1", NULL};
    static const char *const hosts[] = {NULL, "example.org", "*.example.org", "h"};
    static const char *const queries[] = {NULL, NULL, "a=1&b=2", ""};
    redirect_rule rule = {.kind = REDIRECT_EXACT, .status = 301, .line = i + i % 5};

    if (what == CONDITIONS) { /* four of a source */
        rule.condition = conditions[i % 4];
        rule.condition_len = rule.condition ? strlen(rule.condition) : 0;
        i -= i % 4;
    }
    rule.source = path_of(i, path);
    rule.source_len = strlen(path);
    rule.target = apr_psprintf(pool, "https://host-%u.example.org/new%s",
                               s.what == DIRECTORIES ? 0 : i % 300, path);
    rule.target_len = strlen(rule.target);
    if (what == PREFIXES && i % 3 == 0)
        rule.kind = REDIRECT_PREFIX;
    if (what != ALL_KINDS)
        return rule;
    rule.kind = (redirect_kind)(REDIRECT_EXACT + i % 5);
    rule.flags = i % 11 == 0 ? REDIRECT_ICASE : 0;
    if (rule.kind == REDIRECT_PATTERN) {
        rule.pattern = apr_psprintf(pool, "p%u", i % 40);
        rule.pattern_len = strlen(rule.pattern);
        rule.flags |= i % 2 ? REDIRECT_FLOATING : 0;
        rule.source_len = i % 2 ? i % 12 : rule.source_len;
        if (i % 4 == 0) { /* it is found, and matched, as it stands */
            rule.kind = REDIRECT_TEMPLATE;
            rule.pattern = i % 8 ? "^/(.*)$" : "^/([^/]+)(?:/((?:[^/]+)(?:/(?:[^/]+))*))?/?$";
            rule.pattern_len = strlen(rule.pattern);
        }
    }
    rule.host = hosts[i / 5 % 4];
    rule.host_len = rule.host ? strlen(rule.host) : 0;
    rule.query = queries[i / 20 % 4];
    rule.query_len = rule.query ? strlen(rule.query) : 0;
    rule.strip = rule.query && i % 3 ? "utm_*,gclid" : NULL;
    rule.strip_len = rule.strip ? strlen(rule.strip) : 0;
    return rule;
}

static void build(bool at_end)
{
    redirect_builder *builder = redirect_builder_create(RULES, 0);
    char path[200], *bytes;
    size_t size;

    rt_builder_seed(builder, 1);
    for (unsigned i = 0; i < RULES; i++) {
        redirect_rule rule = rule_of(s.what, i, path);

        ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    }
    ck_assert_int_eq(redirect_builder_finish(builder, NULL, NULL, &size), APR_SUCCESS);
    bytes = malloc(size);
    redirect_builder_write(builder, bytes);
    redirect_builder_destroy(builder);
    s.image = hu_wall(bytes, size, at_end);
    free(bytes);
    ck_assert_int_eq(redirect_table_validate(s.image.at, size), APR_SUCCESS);
}

/* What to write where. Places near the header, and values that are nearly possible, matter most. */
static uint32_t wild_value(uint64_t *random, uint32_t old)
{
    switch (hu_random(random) % 6) {
    case 0:
        return (uint32_t)(s.image.size - hu_random(random) % 700);
    case 1:
        return (uint32_t)hu_random(random) * 2;
    case 2:
        return UINT32_MAX - (uint32_t)(hu_random(random) % 300);
    case 3:
        return (uint32_t)(hu_random(random) % 300);
    case 4:
        return old ^ UINT32_C(1) << hu_random(random) % 32;
    default:
        return old + (uint32_t)(hu_random(random) % 2000) - 1000;
    }
}

/* Without end: some words get other values, and then their own again. */
static void scribble(uint64_t seed)
{
    volatile uint32_t *words = (volatile uint32_t *)(void *)s.image.at;
    const uint32_t *own = (const uint32_t *)(const void *)s.image.pristine;
    uint64_t random = seed;
    uint32_t at[64];

    for (;;) {
        for (unsigned i = 0; i < 64; i++) {
            size_t n = hu_random(&random) % 100 ? s.image.size / 4 : sizeof(rt_header) / 4;

            at[i] = (uint32_t)(hu_random(&random) % n);
            words[at[i]] = wild_value(&random, words[at[i]]);
        }
        for (unsigned i = 0; i < 64; i++)
            words[at[i]] = own[at[i]];
    }
}

/* --- the reader -------------------------------------------------------------------------------*/

static bool on_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                     const char *subject, size_t len)
{
    const redirect_table_info *info = baton;

    (void)pattern;
    (void)flags;
    (void)subject;
    ck_assert_uint_lt(id, info->patterns);
    return (id + len) % 3 == 0;
}

static void read_match(const redirect_table *table, const redirect_request *request,
                       const redirect_match *match, const redirect_table_info *info)
{
    redirect_group groups[REDIRECT_GROUPS];
    bool refused;
    uint32_t index;
    int n = 0;

    if (match->profile.kind == REDIRECT_TEMPLATE)
        n = redirect_template_match(match->pattern, match->pattern_len, match->profile.flags,
                                    request->path, request->path_len, groups, REDIRECT_GROUPS);
    ck_assert_uint_le(match->target_len, REDIRECT_MAX_TEXT);
    ck_assert(match->profile.status >= 100 && match->profile.status <= 999);
    ck_assert_uint_le(match->matched, request->path_len);
    ck_assert(!match->pattern || match->pattern_id < info->patterns);
    redirect_match_target(match, target);
    redirect_map_location(match, request, groups, n < REDIRECT_GROUPS ? n : REDIRECT_GROUPS, pool,
                          &refused);
    redirect_table_line(table, match->rule, &index);
    ck_assert(index < info->rules || !index);
    redirect_table_key(table, match->rule);
}

static const char *field_of(void *baton, const char *name)
{
    static const char *const values[] = {"a/b;q=0.5, */*", "x=1; b=1", "de, en;q=0", NULL};
    const unsigned *i = baton;

    return values[(*i + strlen(name)) % 4];
}

static void ask(const redirect_table *table, redirect_table_info *info, unsigned i)
{
    static const char *const tails[] = {"", "/", "/more", "\n"};
    static const char *const queries[] = {NULL, "a=1&b=2", "b=2&utm_x=1&a=1", ""};
    static const char *const hosts[] = {"example.org", "www.example.org", "h", NULL};
    redirect_request request = {.regex = on_regex, .baton = info, .https = i % 2};
    redirect_conditions conditions;
    redirect_match match;
    char path[200];

    redirect_conditions_begin(&conditions, pool, field_of, &i);
    request.judge = i % 17 ? &conditions.judge : NULL;
    path_of(i % (RULES + 100), path);
    strcat(path, tails[i / 3 % 4]);
    request.path = path;
    request.path_len = strlen(path);
    request.query = queries[i / 5 % 4];
    request.query_len = request.query ? strlen(request.query) : 0;
    request.host = hosts[i / 7 % 4];
    request.host_len = request.host ? strlen(request.host) : 0;
    if (redirect_table_lookup(table, &request, i % 13 ? 0 : i * 50, &match))
        read_match(table, &request, &match, info);
}

static void read_rules(const redirect_table *table, const redirect_table_info *info)
{
    uint32_t rule = redirect_table_nth(table, (uint32_t)hu_random(&random_rules) % (RULES + 10));
    redirect_rule out;
    uint32_t index;

    for (unsigned n = 0; rule && n < 50; n++, rule = redirect_table_next(table, rule)) {
        redirect_table_rule(table, rule, &out, target, &index);
        ck_assert(index < info->rules || !index);
        ck_assert_uint_le(out.target_len, REDIRECT_MAX_TEXT);
        ck_assert_uint_le(out.source_len, REDIRECT_MAX_TEXT);
        if (out.source_len)
            memcpy(target, out.source, out.source_len);
        if (out.host_len)
            memcpy(target, out.host, out.host_len);
        if (out.condition_len)
            memcpy(target, out.condition, out.condition_len);
        redirect_table_key(table, rule);
    }
    /* Also from a place where no rule begins. */
    rule = (uint32_t)hu_random(&random_rules);
    redirect_table_rule(table, rule, &out, target, NULL);
    redirect_table_next(table, rule);
    redirect_table_key(table, rule);
}

/* Whether the table could be opened. */
static bool read_once(unsigned round)
{
    const redirect_table *table = redirect_table_open(s.image.at, s.image.size, pool);
    redirect_table_info info;

    if (!table)
        return false;
    redirect_table_info_get(table, &info);
    for (unsigned i = 0; i < ASKED; i++)
        ask(table, &info, round * ASKED + i);
    read_rules(table, &info);
    return true;
}

static unsigned read_all(unsigned rounds)
{
    random_rules = 7;
    return hu_read(rounds, &pool, read_once);
}

/* --- tests ------------------------------------------------------------------------------------*/

static void setup(void)
{
    apr_pool_create(&pool, NULL);
}

static void teardown(void)
{
    hu_stop(s.writers);
    apr_pool_destroy(pool);
}

START_TEST(written_while_read)
{
    s.what = (mixture)(_i / 2);
    build(_i % 2);
    /* Nobody writes: all is there. */
    ck_assert_uint_eq(read_all(3), 3);
    hu_start(s.writers, scribble);
    read_all(ROUNDS);
    hu_stop(s.writers);
}
END_TEST

/* Each word of the header, and each of some others, with each of some values, one at a time. */
START_TEST(each_word)
{
    static const uint32_t values[] = {0, 1, 63, 64, 4096, UINT32_MAX, UINT32_MAX - 63, 0x80000000};
    uint32_t *words;
    size_t step;

    s.what = (mixture)(_i / 2);
    build(_i % 2);
    words = (uint32_t *)(void *)s.image.at;
    step = s.image.size / 4 / 80;
    for (size_t n = 0; n < s.image.size / 4; n += n < sizeof(rt_header) / 4 ? 1 : step) {
        uint32_t own = words[n];

        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]) + 1; v++) {
            words[n] =
                v < sizeof(values) / sizeof(values[0]) ? values[v] : (uint32_t)s.image.size - 3;
            read_all(1);
        }
        words[n] = own;
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_table_hostile");
    TCase *tc = tcase_create("hostile");

    apr_initialize();
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, written_while_read, 0, 2 * MIXTURES);
    tcase_add_loop_test(tc, each_word, 0, 2 * MIXTURES);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
