/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Tables whose rules share directories: what is in front of the last segment of many sources is
 * kept once. All comes back as it was given, all is found, and numbers of directories that are
 * wrong are refused, or safe where the image is damaged later. Nothing outside of the image is
 * read. Run by 'make check'.
 */
#include "pool_fixture.h"
#include "hostile_util.h"
#include "suite_util.h"
#include "redirect_table.h"
#include "redirect_table/builder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <apr_strings.h>

#define RULES           240
#define FEW             3  /* rules of a directory that is not kept once */
#define MEMBER          33 /* a rule of a directory, with no line */
#define SHORTEST        4  /* bytes of a directory that is kept once */
#define LONGEST         63 /* bytes of a path that is compared in blocks */
#define SHORT_DIRS      (LONGEST - SHORTEST)
#define IN_EACH         25
#define TAIL            128 /* bytes at an image's end that a test changes */
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

typedef struct image {
    char *bytes;
    size_t size;
    const redirect_table *table;
    uint32_t dirs; /* that are kept once */
    unsigned duplicates;
} image;

static char room[REDIRECT_RULE_ROOM];

/* --- rules ------------------------------------------------------------------------------------*/

/* Of directories that many rules have, one of which lies in another and one of which is long, and
 * of one that few have. The last segment often ends in a slash. */
static const char *source_of(unsigned i)
{
    static const char *const dirs[] = {"/products/archive/", "/products/archive/2019/",
                                       "/a-directory/with-a-long-name/that-goes-on/and-on/and-on/"
                                       "and-on/until-it-no-longer/fits-into/a-look-ups-blocks/"};

    if (i < FEW)
        return apr_psprintf(pool, "/seldom/seen/%u", i);
    return apr_psprintf(pool, "%sPage-%u%s", dirs[i % COUNT_OF(dirs)], i, i % 5 ? "" : "/");
}

/* A target ends as the source does: with its last bytes, its last segment, also with some of its
 * directory, or with all of it; or as nothing of it. */
static const char *target_of(unsigned i, const char *source)
{
    size_t len = strlen(source);
    static const char *const others[] = {"/new", "https://example.org/x?y=1"};

    switch (i % 7) {
    case 0:
        return NULL;
    case 1:
        return apr_pstrcat(pool, "https://shop.example.org", source, NULL);
    case 2:
        return apr_pstrcat(pool, "https://shop.example.org/x", source + len / 2, NULL);
    case 3:
        return apr_pstrcat(pool, "/elsewhere", strrchr(source, '/'), NULL);
    case 4:
        return apr_pstrcat(pool, "/n/", source + len - 2, NULL);
    default:
        return others[i % 2];
    }
}

static size_t length(const char *text)
{
    return text ? strlen(text) : 0;
}

/* `all`: of each kind, with hosts, queries, conditions and flags. */
static redirect_rule rule_of(unsigned i, bool all)
{
    static const char *const hosts[] = {NULL, NULL, "example.org", "*.example.org"};
    static const char *const queries[] = {NULL, NULL, "b=2&a=1", "", NULL};
    static const unsigned flags[] = {0, REDIRECT_ICASE, 0, REDIRECT_ANY_SLASH, REDIRECT_HTTPS};
    redirect_rule rule = {.kind = REDIRECT_EXACT, .status = i % 7 ? 301 : 410, .line = i + i / 9};

    rule.source = source_of(i);
    rule.source_len = strlen(rule.source);
    rule.target = target_of(i, rule.source);
    rule.target_len = length(rule.target);
    if (i % 3 == 1)
        rule.kind = REDIRECT_PREFIX;
    if (!all)
        return rule;
    rule.flags = flags[i % COUNT_OF(flags)];
    rule.host = hosts[i / 3 % COUNT_OF(hosts)];
    rule.host_len = length(rule.host);
    rule.query = queries[i / 12 % COUNT_OF(queries)];
    rule.query_len = length(rule.query);
    rule.strip = rule.query && i % 2 ? "utm_*,gclid" : NULL;
    rule.strip_len = length(rule.strip);
    rule.condition = i % 4 == 3 ? (i % 8 == 3 ? "one" : "two") : NULL;
    rule.condition_len = length(rule.condition);
    if (i % 10 == 9) {
        rule.kind = REDIRECT_TEMPLATE;
        rule.flags = 0;
        rule.source = apr_psprintf(pool, "/products/archive/t%u/", i);
        rule.source_len = strlen(rule.source);
        rule.pattern = apr_psprintf(pool, "^/products/archive/t%u/(.*)$", i);
        rule.pattern_len = strlen(rule.pattern);
    }
    return rule;
}

static void count_duplicate(void *baton, uint32_t line, uint32_t first_line)
{
    ck_assert_uint_gt(line, first_line);
    ++*(unsigned *)baton;
}

static uint32_t dirs_of(const char *bytes)
{
    rt_header head;

    memcpy(&head, bytes, sizeof(head));
    return head.section[RT_DIRS].count;
}

static image finish(redirect_builder *builder)
{
    image made = {.duplicates = 0};

    ck_assert_int_eq(
        redirect_builder_finish(builder, count_duplicate, &made.duplicates, &made.size),
        APR_SUCCESS);
    made.bytes = malloc(made.size);
    ck_assert_ptr_nonnull(made.bytes);
    redirect_builder_write(builder, made.bytes);
    redirect_builder_destroy(builder);
    ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_SUCCESS);
    made.table = redirect_table_open(made.bytes, made.size, pool);
    ck_assert_ptr_nonnull(made.table);
    made.dirs = dirs_of(made.bytes);
    return made;
}

static redirect_builder *begin(void)
{
    redirect_builder *builder = redirect_builder_create(0, 0);

    ck_assert_ptr_nonnull(builder);
    rt_builder_seed(builder, 1);
    return builder;
}

static void add(redirect_builder *builder, const redirect_rule *rule)
{
    ck_assert_int_eq(redirect_builder_add(builder, rule), REDIRECT_ADDED);
}

static image build(unsigned rules, bool all)
{
    redirect_builder *builder = begin();

    for (unsigned i = 0; i < rules; i++) {
        redirect_rule rule = rule_of(i, all);

        add(builder, &rule);
    }
    return finish(builder);
}

/* --- requests ---------------------------------------------------------------------------------*/

/* All conditions hold but "two", and none is a comparison. */
static bool compares(const redirect_judge *judge, const char *condition, size_t len)
{
    (void)judge, (void)condition;
    return len == 4;
}

static bool holds(redirect_judge *judge, const char *condition, size_t len)
{
    (void)judge;
    return len != 3 || memcmp(condition, "two", 3);
}

static bool offer(redirect_judge *judge, const char *condition, size_t len)
{
    (void)judge;
    return len == 4 && !memcmp(condition, "best", 4);
}

static redirect_choice choose(redirect_judge *judge)
{
    (void)judge;
    return REDIRECT_CHOSEN;
}

static redirect_judge judge_of(void)
{
    return (redirect_judge){.compares = compares, .holds = holds, .offer = offer, .choose = choose};
}

static redirect_request request_of(const redirect_rule *rule, const char *path,
                                   redirect_judge *judge)
{
    redirect_request request = {.path = path, .path_len = strlen(path), .judge = judge};

    *judge = judge_of();
    request.host = rule->host ? "www.example.org" + (*rule->host == '*' ? 0 : 4) : NULL;
    request.host_len = length(request.host);
    request.query = rule->query && *rule->query ? "a=1&b=2" : NULL;
    request.query_len = length(request.query);
    request.https = rule->flags & REDIRECT_HTTPS;
    return request;
}

/* The place of the rule that answers; 0: none does. Its target is in `room`, with a NUL. */
static uint32_t ask(const image *made, const redirect_rule *rule, const char *path)
{
    redirect_judge judge;
    redirect_request request = request_of(rule, path, &judge);
    redirect_match match;
    char *exact = malloc(request.path_len); /* nothing behind it may be read */
    bool found;

    ck_assert_ptr_nonnull(exact);
    request.path = memcpy(exact, path, request.path_len);
    found = redirect_table_lookup(made->table, &request, 0, &match);
    free(exact);
    if (!found)
        return 0;
    redirect_match_target(&match, room);
    room[match.target_len] = '\0';
    return match.rule;
}

/* --- tests ------------------------------------------------------------------------------------*/

static void ck_same(const char *text, size_t len, const char *wanted)
{
    ck_assert(!text == !wanted);
    ck_assert_uint_eq(len, length(wanted));
    if (text)
        ck_assert_mem_eq(text, wanted, len);
}

static uint64_t key_alone(const redirect_rule *rule)
{
    redirect_builder *builder = begin();
    uint64_t key;
    image made;

    add(builder, rule);
    made = finish(builder);
    ck_assert_uint_eq(made.dirs, 0);
    key = redirect_table_key(made.table, redirect_table_next(made.table, 0));
    free(made.bytes);
    return key;
}

START_TEST(rules_come_back)
{
    image made = build(RULES, _i);
    redirect_step step = {0};
    uint32_t place = 0;

    ck_assert_uint_eq(made.dirs, 3);
    for (unsigned i = 0; i < RULES; i++) {
        redirect_rule rule = rule_of(i, _i), back;
        uint32_t index;

        place = redirect_table_next(made.table, place);
        ck_assert_uint_eq(redirect_table_nth(made.table, i), place);
        redirect_table_rule(made.table, place, &back, room, &index);
        ck_assert_uint_eq(index, i);
        ck_assert(redirect_table_step(made.table, &step, &back, room));
        ck_assert_uint_eq(step.rule, place);
        ck_assert_uint_eq(step.index, i);
        ck_assert_uint_eq(back.kind, rule.kind);
        ck_assert_uint_eq(back.flags, rule.flags);
        ck_assert_uint_eq(back.line, rule.line);
        ck_assert_uint_eq(redirect_table_line(made.table, place, NULL), rule.line);
        ck_assert_int_eq(back.status, rule.status);
        ck_same(back.source, back.source_len, rule.source);
        ck_same(back.target, back.target_len, rule.target);
        ck_same(back.host, back.host_len, rule.host);
        ck_same(back.query, back.query_len, rule.query);
        ck_same(back.strip, back.strip_len, rule.strip);
        ck_same(back.condition, back.condition_len, rule.condition);
        ck_same(back.pattern, back.pattern_len, rule.pattern);
        ck_assert_uint_eq(redirect_table_key(made.table, place), key_alone(&rule));
    }
    ck_assert_uint_eq(redirect_table_next(made.table, place), 0);
    free(made.bytes);
}
END_TEST

START_TEST(rules_are_found)
{
    image made = build(RULES, _i);
    uint32_t place = 0;

    for (unsigned i = 0; i < RULES; i++) {
        redirect_rule rule = rule_of(i, _i);
        bool answers = length(rule.condition) == 0 || strcmp(rule.condition, "two");
        const char *slash = strrchr(rule.source, '/'), *path;

        place = redirect_table_next(made.table, place);
        ck_assert_uint_eq(ask(&made, &rule, rule.source), answers ? place : 0);
        if (answers)
            ck_assert_str_eq(room, rule.target ? rule.target : "");
        if (rule.kind == REDIRECT_TEMPLATE)
            continue;
        /* Runs of slashes equal one. Another directory of this length is another source, and so is
         * another last segment. */
        path = apr_pstrcat(pool, "/", rule.source, NULL);
        ck_assert_uint_eq(ask(&made, &rule, path), answers ? place : 0);
        path = apr_pstrcat(pool, "/x", rule.source + 2, NULL);
        ck_assert_uint_eq(ask(&made, &rule, path), 0);
        path = apr_pstrcat(pool, rule.source, "0", NULL);
        ck_assert(ask(&made, &rule, path) != place || (rule.kind == REDIRECT_PREFIX && !slash[1]));
    }
    free(made.bytes);
}
END_TEST

/* The first rules of a directory have it in their own source, and later ones have its number. They
 * are of one source all the same. */
START_TEST(the_same_source_is_known)
{
    redirect_rule rule = {.kind = REDIRECT_EXACT,
                          .flags = _i ? REDIRECT_ICASE | REDIRECT_ANY_SLASH : 0,
                          .status = 301,
                          .target = "/first",
                          .target_len = 6};
    redirect_builder *builder = begin();
    const char *again = _i ? "/SOME/Directory/0/" : "/some/directory/0";
    image made;

    for (unsigned i = 0; i < 20; i++) {
        rule.source = apr_psprintf(pool, "/some/directory/%u", i);
        rule.source_len = strlen(rule.source);
        rule.line = i + 1;
        add(builder, &rule);
    }
    for (unsigned i = 0; i < 10; i++) { /* in capitals this is another directory */
        rule.source = apr_psprintf(pool, "%.16s%u", again, 100 + i);
        rule.source_len = strlen(rule.source);
        rule.line++;
        add(builder, &rule);
    }
    rule.target = "/second";
    rule.target_len = 7;
    rule.source = again;
    rule.source_len = strlen(again);
    rule.line++;
    add(builder, &rule);
    rule.condition = "best";
    rule.condition_len = 4;
    rule.target = "/third/";
    rule.line++;
    add(builder, &rule);
    made = finish(builder);
    ck_assert_uint_eq(made.dirs, _i ? 2 : 1);
    ck_assert_uint_eq(made.duplicates, 1);
    ck_assert_uint_ne(ask(&made, &rule, "/some/directory/0"), 0);
    ck_assert_str_eq(room, "/third/");
    ck_assert_uint_ne(ask(&made, &rule, "/some/directory/1"), 0);
    ck_assert_str_eq(room, "/first");
    free(made.bytes);
}
END_TEST

START_TEST(a_list_takes_less)
{
    image shared, apart;
    redirect_builder *builder = begin(), *other = begin();
    redirect_rule rule = {.kind = REDIRECT_EXACT, .status = 301, .target = "/x", .target_len = 2};

    for (unsigned i = 0; i < 1000; i++) {
        rule.source = apr_psprintf(pool, "/a/directory/of/thirty-two/bytes/%04u", i);
        rule.source_len = strlen(rule.source);
        rule.line = i + 1;
        add(builder, &rule);
        rule.source = apr_psprintf(pool, "/a/directory/of-thirty-two/%04u/bytes", i);
        add(other, &rule);
    }
    shared = finish(builder);
    apart = finish(other);
    ck_assert_uint_eq(shared.dirs, 1);
    ck_assert_uint_eq(apart.dirs, 0);
    ck_assert_uint_lt(shared.size, apart.size - 29 * 1000);
    free(shared.bytes);
    free(apart.bytes);
}
END_TEST

/* A source in a directory begins behind two bytes of a number, so the number of a rule without a
 * line is at a place that is known. */
static char *number_of_dir(const image *made, uint32_t place)
{
    rt_record r;

    ck_assert(rt_take(made->table, place, &r));
    ck_assert_uint_ne(r.dir, 0);
    ck_assert_uint_eq(r.line_delta, 0);
    return made->bytes + (r.source - made->bytes) - 2;
}

static void use_all(const image *made, const redirect_rule *like, const char *path)
{
    uint32_t place = 0;
    redirect_rule rule;

    ask(made, like, path);
    while ((place = redirect_table_next(made->table, place)) != 0) {
        redirect_table_rule(made->table, place, &rule, room, NULL);
        ck_assert_uint_le(rule.source_len, REDIRECT_MAX_TEXT);
        ck_assert_uint_le(rule.target_len, REDIRECT_MAX_TEXT);
        redirect_table_key(made->table, place);
    }
}

START_TEST(wrong_numbers_are_refused)
{
    static const unsigned numbers[] = {0, 4, 5, 127, 128, 255, 256, 0x3fff};
    image made = build(RULES, _i);
    redirect_rule like = rule_of(MEMBER, _i);
    uint32_t place = redirect_table_nth(made.table, MEMBER);
    char *number = number_of_dir(&made, place), was[2];

    memcpy(was, number, 2);
    ck_assert_uint_eq(ask(&made, &like, like.source), place);
    for (unsigned i = 0; i < COUNT_OF(numbers); i++) {
        number[0] = (char)(numbers[i] | 0x80);
        number[1] = (char)(numbers[i] >> 7);
        ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_EINVAL);
        ck_assert_uint_ne(ask(&made, &like, like.source), place);
        use_all(&made, &like, like.source);
    }
    /* One that there is, of another directory: the source is another one, which is not found. */
    number[0] = (char)((was[0] & 0x7f) == 1 ? 0x82 : 0x81);
    number[1] = 0;
    ck_assert_uint_ne(ask(&made, &like, like.source), place);
    memcpy(number, was, 2);
    ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_SUCCESS);
    free(made.bytes);
}
END_TEST

/* Where the directories' texts begin and end is damaged, when the table has been opened. */
START_TEST(damaged_directories_are_safe)
{
    static const uint32_t values[] = {0, 1, 64, 70000, UINT32_MAX, UINT32_MAX - 1, 0x80000000};
    image made = build(RULES, _i);
    redirect_rule like = rule_of(MEMBER, _i);
    rt_header head;
    uint32_t *ends;

    memcpy(&head, made.bytes, sizeof(head));
    ends = (uint32_t *)(void *)(made.bytes + head.section[RT_DIRS].at);
    for (unsigned i = 0; i <= made.dirs; i++) {
        uint32_t was = ends[i];

        for (unsigned v = 0; v < COUNT_OF(values) + 2; v++) {
            ends[i] = v < COUNT_OF(values) ? values[v] : (uint32_t)made.size - (v % 2 ? 1 : 33);
            ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_EINVAL);
            for (unsigned n = 0; n < RULES; n++) {
                redirect_rule rule = rule_of(n, _i);

                ask(&made, &rule, rule.source);
            }
            use_all(&made, &like, like.source);
        }
        ends[i] = was;
    }
    ck_assert_int_eq(redirect_table_validate(made.bytes, made.size), APR_SUCCESS);
    free(made.bytes);
}
END_TEST

/* --- at the image's ends -----------------------------------------------------------------------*/

/* Rule n of the directory of `dir_len` bytes, which no other directory begins with. The source is
 * of LONGEST bytes or fewer. */
static redirect_rule short_rule(redirect_kind kind, unsigned dir_len, unsigned n)
{
    redirect_rule rule = {.kind = kind, .status = 301};
    unsigned own = dir_len < LONGEST ? 1 + (dir_len + 7 * n) % (LONGEST - dir_len) : 8;
    char *source = apr_palloc(pool, dir_len + own + 1);

    memset(source, 'a' + (int)(dir_len % 26), dir_len);
    source[0] = source[dir_len - 1] = '/';
    memset(source + dir_len, 'A' + (int)n, own);
    source[dir_len + own] = '\0';
    rule.source = source;
    rule.source_len = dir_len + own;
    rule.target = apr_pstrcat(pool, "/new", source + (n % 2 ? 0 : dir_len - 1), NULL);
    rule.target_len = strlen(rule.target);
    return rule;
}

/* Records of rules one line apart have no line, as those have that are compared in blocks. */
static void add_short(redirect_builder *builder, redirect_kind kind, unsigned dir_len,
                      uint32_t *line)
{
    for (unsigned n = 0; n < IN_EACH; n++) {
        redirect_rule rule = short_rule(kind, dir_len, n);

        rule.line = ++*line;
        add(builder, &rule);
    }
}

/* The shortest directory is the last text of the image, and the image ends where its last page does:
 * the first directory is as long as it takes for that. */
static image build_to_the_end(redirect_kind kind)
{
    image made;
    unsigned first = LONGEST;

    do {
        redirect_builder *builder = begin();
        uint32_t line = 0;

        add_short(builder, kind, ++first, &line);
        for (unsigned i = SHORT_DIRS; i-- > 0;)
            add_short(builder, kind, SHORTEST + i, &line);
        made = finish(builder);
    } while (made.size % 64 && (free(made.bytes), first < LONGEST + 64));
    ck_assert_uint_eq(made.size % 64, 0);
    ck_assert_uint_eq(made.dirs, SHORT_DIRS + 1);
    return made;
}

/* Which lie between pages that nobody may touch. */
static image wall(image made, bool at_end)
{
    hu_walled walled = hu_wall(made.bytes, made.size, at_end);

    free(made.bytes);
    free(walled.pristine);
    made.bytes = walled.at;
    made.table = redirect_table_open(made.bytes, made.size, pool);
    ck_assert_ptr_nonnull(made.table);
    ck_assert(made.table->usual_in_dir);
    return made;
}

/* The directory of `dir_len` bytes is said to end, with its NUL, at `end`, and its text is there. */
static void ask_for_moved(const image *made, redirect_kind kind, unsigned dir_len, uint32_t end)
{
    char was[TAIL], *tail = made->bytes + made->size - TAIL;
    uint32_t *ends = (uint32_t *)(void *)(made->bytes + made->table->head.section[RT_DIRS].at);
    uint32_t *number = &ends[LONGEST - dir_len], at = end - dir_len - 1;
    uint32_t place = redirect_table_nth(made->table, (LONGEST - dir_len + 1) * IN_EACH - 1);
    uint32_t were[2] = {number[0], number[1]};
    redirect_rule rule = short_rule(kind, dir_len, IN_EACH - 1);
    bool possible = end <= made->size - REDIRECT_SLACK;

    memcpy(was, tail, TAIL);
    if (end <= made->size)
        memcpy(made->bytes + at, rule.source, dir_len);
    number[0] = at;
    number[1] = end;
    ck_assert_uint_eq(ask(made, &rule, rule.source), possible ? place : 0);
    if (possible)
        ck_assert_str_eq(room, rule.target);
    memcpy(number, were, sizeof(were));
    memcpy(tail, was, TAIL);
}

START_TEST(nothing_outside_is_read)
{
    redirect_kind kind = _i / 2 ? REDIRECT_PREFIX : REDIRECT_EXACT;
    image made = wall(build_to_the_end(kind), _i % 2);
    uint32_t place = redirect_table_nth(made.table, IN_EACH - 1);

    for (unsigned i = SHORT_DIRS; i-- > 0;) {
        for (unsigned n = 0; n < IN_EACH; n++) {
            redirect_rule rule = short_rule(kind, SHORTEST + i, n);

            place = redirect_table_next(made.table, place);
            ck_assert_uint_eq(ask(&made, &rule, rule.source), place);
            ck_assert_str_eq(room, rule.target);
        }
        for (uint32_t back = 0; back < TAIL / 2; back++)
            ask_for_moved(&made, kind, SHORTEST + i, (uint32_t)made.size + 1 - back);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redirect_table_dirs");
    TCase *tc = tcase_create("dirs");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, rules_come_back, 0, 2);
    tcase_add_loop_test(tc, rules_are_found, 0, 2);
    tcase_add_loop_test(tc, the_same_source_is_known, 0, 2);
    tcase_add_test(tc, a_list_takes_less);
    tcase_add_loop_test(tc, wrong_numbers_are_refused, 0, 2);
    tcase_add_loop_test(tc, damaged_directories_are_safe, 0, 2);
    tcase_add_loop_test(tc, nothing_outside_is_read, 0, 4);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
