/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of src/redirect_table*.c: what each kind of rule matches, what the builder refuses and
 * leaves out, what comes back, and that damaged images are refused or at least safe to use. Run by
 * 'make check'; images lie in allocations of exactly their size, so that a build with
 * -fsanitize=address sees the first byte read too many.
 */
#include "pool_fixture.h"
#include "redirect_table.h"
#include "redirect_table/builder.h"
#include "redirect_table_samples.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* --- helpers --------------------------------------------------------------------------------- */

static size_t length(const char *text)
{
    return text ? strlen(text) : 0;
}

static redirect_rule rule_of(const brief *b)
{
    return (redirect_rule){.kind = b->kind,
                           .flags = b->flags,
                           .source = b->source,
                           .source_len = length(b->source),
                           .pattern = b->pattern,
                           .pattern_len = length(b->pattern),
                           .host = b->host,
                           .host_len = length(b->host),
                           .query = b->query,
                           .query_len = length(b->query),
                           .strip = b->strip,
                           .strip_len = length(b->strip),
                           .status = 301,
                           .target = b->target,
                           .target_len = length(b->target),
                           .options = 7,
                           .line = b->line};
}

typedef struct image {
    char *bytes;
    size_t size;
} image;

static image finish(redirect_builder *builder, redirect_duplicate_fn *duplicate, void *baton)
{
    image made;

    ck_assert_int_eq(redirect_builder_finish(builder, duplicate, baton, &made.size), APR_SUCCESS);
    made.bytes = malloc(made.size);
    ck_assert_ptr_nonnull(made.bytes);
    redirect_builder_write(builder, made.bytes);
    redirect_builder_destroy(builder);
    ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_SUCCESS);
    return made;
}

static image build(const brief *rules, size_t count)
{
    redirect_builder *builder = redirect_builder_create(0, 0);

    ck_assert_ptr_nonnull(builder);
    rt_builder_seed(builder, 1);
    for (size_t i = 0; i < count; i++) {
        redirect_rule rule = rule_of(&rules[i]);

        ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    }
    return finish(builder, NULL, NULL);
}

static const redirect_table *open_image(const image *made)
{
    return redirect_table_open(made->bytes, made->size, pool);
}

/* The mock regex: a pattern is what the path must contain. */
static bool contains(void *baton, uint32_t id, const char *pattern, unsigned flags,
                     const char *subject, size_t len)
{
    (void)baton;
    (void)id;
    (void)flags;
    return memmem(subject, len, pattern, strlen(pattern)) != NULL;
}

static redirect_request request_of(const char *path, const char *host, const char *query)
{
    return (redirect_request){.path = path,
                              .path_len = strlen(path),
                              .host = host,
                              .host_len = length(host),
                              .query = query,
                              .query_len = length(query),
                              .regex = contains};
}

/* --- what rules match ------------------------------------------------------------------------ */

static void check_sample(const sample *s)
{
    image made = build(&s->rule, 1);
    redirect_request request = request_of(s->path, s->host, s->query);
    redirect_match match;
    bool found;

    request.https = s->https;
    found = redirect_table_lookup(open_image(&made), &request, 0, &match);
    ck_assert_msg(found == (s->matched != NO), "rule '%s', path '%s', host '%s', query '%s'",
                  s->rule.source, s->path, s->host ? s->host : "", s->query ? s->query : "");
    if (found)
        ck_assert_msg(match.matched == s->matched, "rule '%s', path '%s': %zu", s->rule.source,
                      s->path, match.matched);
    free(made.bytes);
}

START_TEST(paths_match)
{
    check_sample(&path_samples[_i]);
}
END_TEST

START_TEST(conditions_match)
{
    check_sample(&condition_samples[_i]);
}
END_TEST

/* --- several rules --------------------------------------------------------------------------- */

START_TEST(the_first_rule_wins)
{
    image made = build(ordered, COUNT_OF(ordered));
    const redirect_table *table = open_image(&made);
    uint32_t places[COUNT_OF(ordered) + 1] = {0}, place = 0;

    for (unsigned i = 0; i < COUNT_OF(ordered); i++)
        places[i] = place = redirect_table_next(table, place);
    for (unsigned i = 0; i < COUNT_OF(order_samples); i++) {
        redirect_request request = request_of(order_samples[i].path, order_samples[i].host, NULL);
        redirect_match match;

        ck_assert(redirect_table_lookup(table, &request, places[order_samples[i].first], &match));
        ck_assert_msg(match.rule == places[order_samples[i].rule], "sample %u", i);
    }
    free(made.bytes);
}
END_TEST

START_TEST(rules_come_back)
{
    image made = build(ordered, COUNT_OF(ordered));
    const redirect_table *table = open_image(&made);
    static char target[REDIRECT_RULE_ROOM];
    redirect_table_info info;
    redirect_step step = {0};
    redirect_rule rule;
    uint32_t place = 0, index;

    for (unsigned i = 0; i < COUNT_OF(ordered); i++) {
        place = redirect_table_next(table, place);
        ck_assert(redirect_table_step(table, &step, &rule, target));
        ck_assert_uint_eq(step.rule, place);
        ck_assert_uint_eq(step.index, i);
        redirect_table_rule(table, place, &rule, target, &index);
        ck_assert_uint_eq(index, i);
        ck_assert_uint_eq(rule.line, ordered[i].line);
        ck_assert_uint_eq(redirect_table_line(table, place, NULL), ordered[i].line);
        ck_assert_uint_eq(rule.kind, ordered[i].kind);
        ck_assert_uint_eq(rule.options, 7);
        ck_assert_mem_eq(rule.source, ordered[i].source, rule.source_len);
        ck_assert(!rule.target == !ordered[i].target);
        if (rule.target)
            ck_assert_mem_eq(rule.target, ordered[i].target, rule.target_len);
        ck_assert_pstr_eq(rule.pattern, ordered[i].pattern);
        ck_assert_pstr_eq(rule.host, ordered[i].host);
    }
    ck_assert_uint_eq(redirect_table_next(table, place), 0);
    ck_assert(!redirect_table_step(table, &step, &rule, target));
    redirect_table_info_get(table, &info);
    ck_assert_uint_eq(info.rules, 6);
    ck_assert_uint_eq(info.exact, 2);
    ck_assert_uint_eq(info.prefix, 3);
    ck_assert_uint_eq(info.pattern, 1);
    ck_assert_uint_eq(info.patterns, 2);
    ck_assert_uint_eq(info.bytes, made.size);
    ck_assert(info.uses_host && !info.uses_query);
    free(made.bytes);
}
END_TEST

START_TEST(an_empty_table_matches_nothing)
{
    image made = build(NULL, 0);
    const redirect_table *table = open_image(&made);
    redirect_request request = request_of("/a/b\n", "h", "q");
    redirect_match match;

    ck_assert(!redirect_table_lookup(table, &request, 0, &match));
    ck_assert_uint_eq(match.rule, 0);
    ck_assert_uint_eq(redirect_table_next(table, 0), 0);
    free(made.bytes);
}
END_TEST

START_TEST(targets_are_put_together)
{
    redirect_request request = request_of(targets[_i].source, NULL, NULL);
    brief rules[COUNT_OF(targets)] = {0};
    redirect_match match;
    char target[400];
    image made;

    for (unsigned i = 0; i < COUNT_OF(targets); i++)
        rules[i] = (brief){
            .kind = REDIRECT_EXACT, .source = targets[i].source, .target = targets[i].target};
    made = build(rules, COUNT_OF(targets));
    ck_assert(redirect_table_lookup(open_image(&made), &request, 0, &match));
    ck_assert(match.profile.has & REDIRECT_HAS_TARGET);
    ck_assert_uint_eq(match.target_len, strlen(targets[_i].target));
    redirect_match_target(&match, target);
    ck_assert_mem_eq(target, targets[_i].target, match.target_len);
    free(made.bytes);
}
END_TEST

START_TEST(patterns_are_numbered_without_gaps)
{
    static const brief rules[] = {PATTERN(0, "/a", "one"), PATTERN(0, "/b", "two"),
                                  PATTERN(0, "/c", "one"), PATTERN(REDIRECT_ICASE, "/d", "one")};
    static const uint32_t ids[] = {0, 1, 0, 2}; /* one number for each (pattern, case) */
    image made = build(rules, COUNT_OF(rules));
    const redirect_table *table = open_image(&made);
    redirect_table_info info;

    redirect_table_info_get(table, &info);
    ck_assert_uint_eq(info.patterns, 3);
    for (unsigned i = 0; i < COUNT_OF(rules); i++) {
        char path[16];
        redirect_request request;
        redirect_match match;

        snprintf(path, sizeof(path), "%s%s", rules[i].source, rules[i].pattern);
        request = request_of(path, NULL, NULL);
        ck_assert(redirect_table_lookup(table, &request, 0, &match));
        ck_assert_uint_eq(match.pattern_id, ids[i]);
        ck_assert_str_eq(match.pattern, rules[i].pattern);
    }
    free(made.bytes);
}
END_TEST

/* More patterns with one key than a look-up keeps at a time. */
#define MANY 1000

typedef struct tried {
    uint32_t ids[MANY + 1];
    unsigned count;
    uint32_t matches;
} tried;

static bool note_pattern(void *baton, uint32_t id, const char *pattern, unsigned flags,
                         const char *subject, size_t len)
{
    tried *t = baton;

    (void)pattern;
    (void)flags;
    (void)subject;
    (void)len;
    ck_assert_uint_lt(t->count, MANY + 1);
    t->ids[t->count++] = id;
    return id == t->matches;
}

static const struct {
    unsigned flags;
    const char *source;
} many_samples[] = {{0, "/a"}, {0, ""}, {REDIRECT_FLOATING, ""}, {REDIRECT_FLOATING, "/aaaa"}};

START_TEST(many_patterns_are_tried_once_and_in_order)
{
    static brief rules[MANY + 1];
    static char names[MANY][8];
    redirect_request request = request_of("/aaaa/aaaa/aaaa", NULL, NULL);
    tried t = {.matches = MANY - 100};
    redirect_match match;
    image made;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "%u", i);
        rules[i] = (brief)PATTERN(many_samples[_i].flags, many_samples[_i].source, names[i]);
    }
    rules[MANY] = (brief)LITERAL_PREFIX(0, many_samples[_i].flags ? "" : many_samples[_i].source);
    made = build(rules, MANY + 1);
    request.regex = note_pattern;
    request.baton = &t;
    for (unsigned wanted = MANY - 100; wanted <= MANY; wanted += 100) {
        t.count = 0;
        t.matches = wanted;
        ck_assert(redirect_table_lookup(open_image(&made), &request, 0, &match));
        ck_assert((match.profile.kind == REDIRECT_PATTERN) == (wanted < MANY));
        ck_assert_uint_eq(t.count, wanted < MANY ? wanted + 1 : MANY);
        for (unsigned i = 0; i < t.count; i++)
            ck_assert_uint_eq(t.ids[i], i);
    }
    free(made.bytes);
}
END_TEST

/* More strip sets than take part in keys, and more hosts and sets than one walk has room for. */
START_TEST(many_strip_sets_and_hosts)
{
    static const char *const hosts[] = {NULL, "c.b.a.x", "*.x", "*.a.x", "*.b.a.x"};
    static char strips[40][8];
    brief rules[5 * 40];
    unsigned n = 0;
    image made;

    for (unsigned i = 0; i < 40; i++) {
        snprintf(strips[i], sizeof(strips[i]), "s%u", i);
        for (unsigned j = 0; j < COUNT_OF(hosts); j++, n++)
            rules[n] = (brief){.kind = REDIRECT_EXACT,
                               .source = "/a",
                               .host = hosts[j],
                               .query = "a=1",
                               .strip = strips[i],
                               .line = n + 1};
    }
    made = build(rules, n);
    for (unsigned i = 0; i < n; i++) {
        char query[32];
        redirect_request request;
        redirect_match match;

        snprintf(query, sizeof(query), "%s=x&a=1", rules[i].strip);
        request = request_of("/a", "c.b.a.x", query);
        ck_assert(redirect_table_lookup(open_image(&made), &request, 0, &match));
        ck_assert_str_eq(match.strip, rules[i].strip);
        ck_assert_uint_eq(redirect_table_line(open_image(&made), match.rule, NULL),
                          i - i % COUNT_OF(hosts) + 1);
    }
    free(made.bytes);
}
END_TEST

/* --- what is refused or left out ------------------------------------------------------------- */

static char long_text[REDIRECT_MAX_TEXT + 2];

START_TEST(bad_rules_are_refused)
{
    static const redirect_rule good = {
        .kind = REDIRECT_EXACT, .source = "/a", .source_len = 2, .status = 301};
    redirect_rule bad[24];
    unsigned n = 0;
    redirect_builder *builder = redirect_builder_create(0, 0);

    for (unsigned i = 0; i < COUNT_OF(bad); i++)
        bad[i] = good;
    memset(long_text, 'x', sizeof(long_text) - 1);
    bad[n++].kind = (redirect_kind)0;
    bad[n++].kind = (redirect_kind)6;
    bad[n++].kind = REDIRECT_PATTERN; /* without one */
    bad[n++].flags = 64;
    bad[n++].flags = REDIRECT_FLOATING;
    bad[n++].flags = REDIRECT_QUERY_EXACT;
    bad[n++].flags = REDIRECT_HTTP | REDIRECT_HTTPS;
    bad[n].kind = REDIRECT_LITERAL;
    bad[n++].flags = REDIRECT_ANY_SLASH;
    bad[n++].source = NULL;
    bad[n++].status = 99;
    bad[n++].status = 1000;
    bad[n++].options = 65536;
    bad[n].source = long_text;
    bad[n++].source_len = REDIRECT_MAX_TEXT + 1;
    bad[n].target = long_text;
    bad[n++].target_len = REDIRECT_MAX_TEXT + 1;
    bad[n].query = long_text;
    bad[n++].query_len = REDIRECT_MAX_TEXT + 1;
    bad[n].strip = long_text;
    bad[n++].strip_len = REDIRECT_MAX_TEXT + 1;
    bad[n].pattern = long_text;
    bad[n++].pattern_len = REDIRECT_MAX_TEXT + 1;
    bad[n].host = long_text;
    bad[n++].host_len = REDIRECT_MAX_HOST + 1;
    bad[n].host = "";
    bad[n++].host_len = 0;
    bad[n].host = "*.";
    bad[n++].host_len = 2;
    bad[n].strip = "a\0b";
    bad[n++].strip_len = 3;
    bad[n].pattern = "a\0b";
    bad[n++].pattern_len = 3;
    for (unsigned i = 0; i < n; i++)
        ck_assert_msg(redirect_builder_add(builder, &bad[i]) == REDIRECT_BAD, "rule %u", i);
    ck_assert_int_eq(redirect_builder_add(builder, &good), REDIRECT_ADDED);
    redirect_builder_destroy(builder);
}
END_TEST

START_TEST(the_longest_rule_is_taken)
{
    redirect_rule rule = {.kind = REDIRECT_PATTERN,
                          .flags = REDIRECT_QUERY_EXACT,
                          .source = long_text,
                          .source_len = REDIRECT_MAX_TEXT,
                          .pattern = long_text,
                          .pattern_len = REDIRECT_MAX_TEXT,
                          .host = long_text,
                          .host_len = REDIRECT_MAX_HOST,
                          .query = long_text,
                          .query_len = REDIRECT_MAX_TEXT,
                          .strip = long_text,
                          .strip_len = REDIRECT_MAX_TEXT,
                          .status = 999,
                          .target = long_text,
                          .target_len = REDIRECT_MAX_TEXT,
                          .options = UINT16_MAX,
                          .line = UINT32_MAX};
    redirect_builder *builder = redirect_builder_create(1, 1);
    redirect_request request;
    redirect_match match;
    image made;

    memset(long_text, 'x', sizeof(long_text) - 1);
    ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    made = finish(builder, NULL, NULL);
    long_text[REDIRECT_MAX_TEXT] = 0;
    request = request_of(long_text, long_text, long_text);
    request.host_len = REDIRECT_MAX_HOST;
    ck_assert(redirect_table_lookup(open_image(&made), &request, 0, &match));
    ck_assert_uint_eq(match.target_len, REDIRECT_MAX_TEXT);
    ck_assert_uint_eq(match.profile.options, UINT16_MAX);
    ck_assert_uint_eq(redirect_table_line(open_image(&made), match.rule, NULL), UINT32_MAX);
    free(made.bytes);
}
END_TEST

static void check_duplicate(void *baton, uint32_t line, uint32_t first_line)
{
    uint32_t *expected = baton;

    ck_assert_uint_eq(line, *expected);
    ck_assert_uint_eq(first_line, line - line % 10 + 1);
    *expected += line % 10 == 2 ? 1 : 9;
}

START_TEST(duplicates_are_reported_and_left_out)
{
    redirect_builder *builder = redirect_builder_create(0, 0);
    uint32_t expected = 2, place = 0;
    redirect_table_info info;
    const redirect_table *table;
    image made;

    for (unsigned i = 0; i < COUNT_OF(duplicates); i++) {
        redirect_rule rule = rule_of(&duplicates[i]);

        ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    }
    made = finish(builder, check_duplicate, &expected);
    ck_assert_uint_eq(expected, 52);
    table = open_image(&made);
    for (unsigned i = 0; i < COUNT_OF(duplicates); i++) {
        uint32_t line = duplicates[i].line;

        if (line % 10 == 2 || line % 10 == 3)
            continue;
        place = redirect_table_next(table, place);
        ck_assert_uint_eq(redirect_table_line(table, place, NULL), line);
    }
    redirect_table_info_get(table, &info);
    ck_assert_uint_eq(info.rules, COUNT_OF(duplicates) - 10);
    free(made.bytes);
}
END_TEST

/* So many duplicates that records, marks and lines all move. */
START_TEST(lines_survive_duplicates)
{
    redirect_builder *builder = redirect_builder_create(0, 0);
    const redirect_table *table;
    uint32_t place = 0, index;
    image made;

    for (uint32_t i = 0; i < 3000; i++) {
        char source[16];
        redirect_rule rule = {
            .kind = REDIRECT_EXACT,
            .source = source,
            .source_len = (size_t)snprintf(source, sizeof(source), "/%u", i % 3 ? i % 3 : i),
            .status = 301,
            .line = i * i};

        ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
    }
    made = finish(builder, NULL, NULL);
    table = open_image(&made);
    for (uint32_t i = 0, n = 0; i < 3000; i++) {
        if (i > 2 && i % 3)
            continue;
        place = redirect_table_next(table, place);
        ck_assert_uint_eq(redirect_table_line(table, place, &index), i * i);
        ck_assert_uint_eq(index, n++);
        ck_assert_uint_eq(redirect_table_nth(table, index), place);
    }
    ck_assert_uint_eq(redirect_table_next(table, place), 0);
    ck_assert_uint_eq(redirect_table_nth(table, index + 1), 0);
    ck_assert_uint_eq(redirect_table_nth(table, UINT32_MAX), 0);
    free(made.bytes);
}
END_TEST

/* The same in each image, wherever the rule stands in it, and another for each rule; both rows of a
 * pair differ in one thing. */
START_TEST(keys_of_rules)
{
    static const brief rules[] = {
        {REDIRECT_EXACT, 0, "/a", NULL, NULL, NULL, NULL, "https://example.org/x", 1},
        {REDIRECT_EXACT, 0, "/a/b", NULL, NULL, NULL, NULL, "https://example.org/x", 2},
        {REDIRECT_PREFIX, 0, "/a", NULL, NULL, NULL, NULL, "https://example.org/x", 3},
        {REDIRECT_EXACT, REDIRECT_ICASE, "/a", NULL, NULL, NULL, NULL, "https://example.org/x", 4},
        {REDIRECT_EXACT, 0, "/a", NULL, "h", NULL, NULL, "https://example.org/x", 5},
        {REDIRECT_EXACT, 0, "/a", NULL, "i", NULL, NULL, "https://example.org/x", 6},
        {REDIRECT_EXACT, 0, "/a", NULL, NULL, "q=1", NULL, "https://example.org/x", 7},
        {REDIRECT_EXACT, 0, "/a", NULL, NULL, "q=1", "s", "https://example.org/x", 8},
        {REDIRECT_EXACT, 0, "/a", NULL, NULL, "", NULL, "https://example.org/x", 9},
        {REDIRECT_EXACT, 0, "/c", NULL, NULL, NULL, NULL, "https://example.org/y", 10},
        {REDIRECT_EXACT, 0, "/d", NULL, NULL, NULL, NULL, NULL, 11},
        {REDIRECT_PATTERN, 0, "/a", "p", NULL, NULL, NULL, "https://example.org/x", 12},
        {REDIRECT_PATTERN, 0, "/a", "q", NULL, NULL, NULL, "https://example.org/x", 13},
    };
    enum { N = COUNT_OF(rules) };
    uint64_t keys[2][N];

    for (unsigned run = 0; run < 2; run++) { /* forwards and backwards, with other seeds */
        redirect_builder *builder = redirect_builder_create(0, 0);
        const redirect_table *table;
        uint32_t place = 0;
        image made;

        for (unsigned i = 0; i < N; i++) {
            redirect_rule rule = rule_of(&rules[run ? N - 1 - i : i]);

            rule.line += 100 * run;
            ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
        }
        made = finish(builder, NULL, NULL);
        table = open_image(&made);
        for (unsigned i = 0; i < N; i++) {
            place = redirect_table_next(table, place);
            keys[run][run ? N - 1 - i : i] = redirect_table_key(table, place);
        }
        free(made.bytes);
    }
    for (unsigned i = 0; i < N; i++) {
        ck_assert_uint_eq(keys[0][i], keys[1][i]);
        for (unsigned j = 0; j < i; j++)
            ck_assert_uint_ne(keys[0][i], keys[0][j]);
    }
}
END_TEST

/* --- images ---------------------------------------------------------------------------------- */

static bool no_pattern(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len)
{
    size_t *read = baton;

    (void)flags;
    (void)subject;
    *read += id + strlen(pattern) + len;
    return false;
}

/* Use everything in an image that passes validation. */
static void use(const image *made)
{
    static const char *const paths[] = {"/a/b", "/x/y\n", "", "index.php", "//a//b//c", "/A/B/"};
    const redirect_table *table = open_image(made);
    static char target[REDIRECT_RULE_ROOM];
    size_t read = 0;
    redirect_rule rule;

    for (uint32_t place = redirect_table_next(table, 0); place;
         place = redirect_table_next(table, place))
        redirect_table_rule(table, place, &rule, target, NULL);
    for (unsigned i = 0; i < COUNT_OF(paths); i++) {
        redirect_request request = request_of(paths[i], i % 2 ? "h" : "a.b.x", "x=1&y=2");
        redirect_match match;

        request.regex = no_pattern;
        request.baton = &read;
        if (redirect_table_lookup(table, &request, 0, &match))
            redirect_match_target(&match, target);
    }
}

static image sample_image(void)
{
    brief rules[COUNT_OF(duplicates) + COUNT_OF(ordered) + 1];
    unsigned n = 0;

    for (unsigned i = 0; i < COUNT_OF(duplicates); i++)
        rules[n++] = duplicates[i];
    for (unsigned i = 0; i < COUNT_OF(ordered); i++)
        rules[n++] = ordered[i];
    rules[n++] = (brief)PATTERN(REDIRECT_FLOATING, "index.php", "r");
    return build(rules, n);
}

START_TEST(damaged_images_are_safe)
{
    static const unsigned char changes[] = {0x01, 0x80, 0xff};
    image made = sample_image();
    unsigned refused = 0, passed = 0;

    for (size_t i = 0; i < made.size; i++) {
        for (unsigned j = 0; j < COUNT_OF(changes); j++) {
            made.bytes[i] = (char)(made.bytes[i] ^ changes[j]);
            if (redirect_table_validate(made.bytes, made.size) == APR_SUCCESS) {
                use(&made);
                passed++;
            } else {
                refused++;
            }
            made.bytes[i] = (char)(made.bytes[i] ^ changes[j]);
            apr_pool_clear(pool);
        }
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(passed, 0);
    free(made.bytes);
}
END_TEST

START_TEST(truncated_images_are_refused)
{
    image made = sample_image();

    for (size_t size = 0; size < made.size; size++) {
        char *copy = malloc(size ? size : 1);

        ck_assert_ptr_nonnull(copy);
        memcpy(copy, made.bytes, size);
        ck_assert_int_eq(redirect_table_validate(copy, size), APR_EINVAL);
        free(copy);
    }
    free(made.bytes);
}
END_TEST

START_TEST(images_can_be_moved)
{
    image made = sample_image();
    char *copy = malloc(made.size + 8);
    redirect_request request = request_of("/a/b", NULL, NULL);
    redirect_match match;
    const redirect_table *table;

    memcpy(copy + 8, made.bytes, made.size); /* 8-byte aligned, and not more */
    memset(made.bytes, 0, made.size);
    free(made.bytes);
    ck_assert_int_eq(redirect_table_validate(copy + 8, made.size), APR_SUCCESS);
    table = redirect_table_open(copy + 8, made.size, pool);
    ck_assert(redirect_table_lookup(table, &request, 0, &match));
    ck_assert_uint_eq(match.rule, redirect_table_next(table, 0));
    free(copy);
}
END_TEST

/* Look-ups go by tags alone, and would follow what stands in a place that is not used. */
START_TEST(tags_without_a_place_are_refused)
{
    image made = build(&(brief){.kind = REDIRECT_EXACT, .source = "/a"}, 1);
    const rt_header *head = (const rt_header *)(const void *)made.bytes;
    rt_bucket *buckets = (rt_bucket *)(void *)(made.bytes + head->section[RT_BUCKETS].at);

    ck_assert_uint_eq(head->section[RT_BUCKETS].count, 1);
    ck_assert_uint_eq(buckets[0].used, 1);
    buckets[0].tag[RT_WAYS - 1] = 1;
    ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_EINVAL);
    free(made.bytes);
}
END_TEST

/* Seeds decide where rules lie in the index, never what matches. */
START_TEST(any_seed_will_do)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        redirect_builder *builder = redirect_builder_create(0, 0);
        redirect_request request;
        redirect_match match;
        image made;

        rt_builder_seed(builder, seed * UINT64_C(0x0101010101010101));
        for (unsigned i = 0; i < COUNT_OF(targets); i++) {
            redirect_rule rule = rule_of(&(brief){
                .kind = REDIRECT_PREFIX, .source = targets[i].source, .target = targets[i].target});

            ck_assert_int_eq(redirect_builder_add(builder, &rule), REDIRECT_ADDED);
        }
        made = finish(builder, NULL, NULL);
        for (unsigned i = 0; i < COUNT_OF(targets); i++) {
            request = request_of(targets[i].source, NULL, NULL);
            ck_assert(redirect_table_lookup(open_image(&made), &request, 0, &match));
            ck_assert_uint_eq(match.target_len, strlen(targets[i].target));
        }
        free(made.bytes);
        apr_pool_clear(pool);
    }
}
END_TEST

/* Who chooses sources that collide would have to know it. */
START_TEST(each_table_has_a_seed_of_its_own)
{
    uint64_t seeds[4];

    for (unsigned i = 0; i < COUNT_OF(seeds); i++) {
        redirect_builder *builder = redirect_builder_create(0, 0);
        image made;

        ck_assert_ptr_nonnull(builder);
        made = finish(builder, NULL, NULL);
        seeds[i] = ((const rt_header *)(const void *)made.bytes)->seed;
        for (unsigned j = 0; j < i; j++)
            ck_assert_uint_ne(seeds[i], seeds[j]);
        free(made.bytes);
    }
}
END_TEST

static Suite *redirect_table_suite(void)
{
    Suite *suite = suite_create("redirect_table");
    TCase *tc = tcase_create("core");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, paths_match, 0, COUNT_OF(path_samples));
    tcase_add_loop_test(tc, conditions_match, 0, COUNT_OF(condition_samples));
    tcase_add_test(tc, the_first_rule_wins);
    tcase_add_test(tc, rules_come_back);
    tcase_add_test(tc, an_empty_table_matches_nothing);
    tcase_add_loop_test(tc, targets_are_put_together, 0, COUNT_OF(targets));
    tcase_add_test(tc, patterns_are_numbered_without_gaps);
    tcase_add_loop_test(tc, many_patterns_are_tried_once_and_in_order, 0, COUNT_OF(many_samples));
    tcase_add_test(tc, many_strip_sets_and_hosts);
    tcase_add_test(tc, bad_rules_are_refused);
    tcase_add_test(tc, the_longest_rule_is_taken);
    tcase_add_test(tc, duplicates_are_reported_and_left_out);
    tcase_add_test(tc, lines_survive_duplicates);
    tcase_add_test(tc, keys_of_rules);
    tcase_add_test(tc, damaged_images_are_safe);
    tcase_add_test(tc, truncated_images_are_refused);
    tcase_add_test(tc, tags_without_a_place_are_refused);
    tcase_add_test(tc, images_can_be_moved);
    tcase_add_test(tc, any_seed_will_do);
    tcase_add_test(tc, each_table_has_a_seed_of_its_own);
    suite_add_tcase(suite, tc);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(redirect_table_suite());
    int failed;

    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
