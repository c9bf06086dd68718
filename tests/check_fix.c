/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of check --fix: what is flattened, removed and left, and that random lists end where
 * they did. The seed is HTC_SEED, and HTC_LONG makes so many times as many lists. Run by 'make
 * check'.
 */
#include "pool_fixture.h"
#include "redirect_map_util.h"
#include "suite_util.h"
#include "tool/fix.h"
#include "tool/map.h"
#include "tool/probe.h"

#include <apr_strings.h>
#include <check.h>
#include <stdlib.h>
#include <string.h>

static void quiet(void *baton, redirect_severity severity, const char *file, uint32_t line,
                  const char *message)
{
    (void)baton, (void)severity, (void)file, (void)line, (void)message;
}

/* What looks like a _redirects file is one: it may have patterns. */
static convert_list *list_of(const char *text)
{
    convert_list *list = convert_list_create(pool, quiet, NULL);
    redirect_map_options options;

    redirect_map_options_init(&options);
    options.format = strstr(text, "/*") ? REDIRECT_FORMAT_NETLIFY : REDIRECT_FORMAT_AUTO;
    ck_assert_int_eq(convert_read_map(list, &options, "a.txt", text, strlen(text)), APR_SUCCESS);
    return list;
}

static const convert_rule *rule_at(const convert_list *list, int i)
{
    return &APR_ARRAY_IDX(list->rules, i, convert_rule);
}

/* "2: /c 1, 3: removed by 1, 4: left": the steps by line, with what they save. */
static const char *plan_of(const char *text)
{
    convert_list *list = list_of(text);
    const char *out = "";
    fix_step *steps;

    ck_assert(fix_plan(list, &steps));
    for (int i = 0; i < list->rules->nelts; i++) {
        const char *line =
            apr_psprintf(pool, "%s%u: ", *out ? ", " : "", (unsigned)rule_at(list, i)->rule.line);

        if (steps[i].drop)
            out = apr_psprintf(pool, "%s%sremoved by %u", out, line, (unsigned)steps[i].by);
        else if (steps[i].target)
            out = apr_psprintf(pool, "%s%s%s %d%s", out, line, steps[i].target, steps[i].saved,
                               steps[i].left ? " left" : "");
        else if (steps[i].left)
            out = apr_psprintf(pool, "%s%sleft", out, line);
    }
    return out;
}

/* More than are asked when a copy is compared. */
#define HOSTS4(n)                                                                           \
    "//" n "1.example/y /x 301\n//" n "2.example/y /x 301\n//" n "3.example/y /x 301\n//" n \
    "4.example/y /x 301\n"
#define MANY_HOSTS HOSTS4("a") HOSTS4("b") HOSTS4("c") HOSTS4("d")

static const struct {
    const char *text, *plan;
} plans[] = {
    {"/a /b 301\n", ""},
    {"/a /b 301\n/b /c 301\n", "1: /c 1"},
    {"/a /b 301\n/b /c 301\n/c https://x.example/ 301\n", "1: https://x.example/ 2, 2: "
                                                          "https://x.example/ 1"},
    /* What browsers are told stays: permanent only if all of the way is, and the method. */
    {"/a /b 302\n/b /c 301\n", "1: /c 1"},
    {"/a /b 301\n/b /c 302\n", "1: left"},
    {"/a /b 307\n/b /c 308\n", "1: /c 1"},
    {"/a /b 308\n/b /c 301\n", "1: left"},
    {"/a /b 301\n/b /c 308\n", "1: left"},
    {"/a /b 303\n/b /c 303\n", "1: /c 1"},
    {"/a /b 301\n/b /c 301\n/c /d 302\n", "1: /c 1 left, 2: left"},
    {"/a /b 301\n/b 410\n", "1: left"},
    /* Loops are not touched, nor is what leads into them. */
    {"/a /b\n/b /a\n/c /a\n", "1: left, 2: left, 3: left"},
    {"/a /a\n/c /a\n", "1: left, 2: left"},
    /* Rows that never answer. */
    {"/a /x subpath=on\n/a/b /y\n", "2: removed by 1"},
    {"/a/b /y\n/a /x subpath=on\n", ""},
    /* Prefixes, if nothing else answers on the way. */
    {"/a /b subpath=on\n/b /c subpath=on\n", "1: /c 1"},
    {"/a /b subpath=on\n/b/x /y\n/b /c subpath=on\n", "1: left"},
    {"/a /b subpath=on\n/b /c\n", "1: left"},
    {"/a /b/ subpath=on\n/b /c subpath=on\n", "1: /c/ 1"},
    {"/a /b\n/b /c subpath=on\n", "1: /c 1"},
    {"//h.example/a /b subpath=on\n//h.example/b /c subpath=on\n//i.example/b/x /d\n", "1: /c 1"},
    {"//h.example/a /b subpath=on\n//h.example/b /c subpath=on\n/b/x /d\n", "1: left"},
    {"/a /b subpath=on\n/b /c subpath=on\n/b.x /d\n/b0 /d\n", "1: /c 1"},
    /* Prefixes and patterns. */
    {"/a/* /b/:splat 301\n/b/* /c/:splat 301\n", "1: /c/ 1"},
    {"/a/* /b/:splat 301\n/b/:x/y /d/:x 301\n/b/* /c/:splat 301\n", "1: left"},
    {"/a/* /b/e/:splat 301\n/b/:x/y /f/:x 301\n/b/e/* /c/:splat 301\n", "1: left"},
    {"/a/* /b/:splat 301\n/b/* /c/:splat 301\n/d/:x/y /e/:x 301\n", "1: /c/ 1"},
    {"/a/* /b/:splat 301\n/:x/y /e/:x 301\n/b/* /c/:splat 301\n", "1: left"},
    {"http://h.example/a/* /b/:splat 301\nhttp://h.example/b/* /c/:splat 301\n"
     "http://i.example/b/:x/y /d/:x 301\n",
     "1: /c/ 1"},
    {"http://h.example/a/* /b/:splat 301\nhttp://h.example/b/:x/y /d/:x 301\n"
     "http://h.example/b/* /c/:splat 301\n",
     "1: left"},
    /* Conditions: others may end elsewhere. */
    {"/a /b 301\n/b /c 301 cookie=x\n/b /d 301\n", "1: left"},
    {"/a /b 301\n/b /d 301\n/b /c 301 accept=a/b\n", "1: left"},
    {"/a /b 301\n/b /c 301 cookie=x\n", "1: left"},
    {"/a /b 301 cookie=x\n/b /d 301\n", "1: /d 1"},
    {"/a /b 301 cookie=x\n/a /d 301 cookie=y\n/a /b 301\n", ""},
    {"/a /b 301\n/a /c 301 cookie=x\n/a /d 301 accept=a/b\n", "2: removed by 1"},
    /* Queries. */
    {"/a /b 301\n/b /c 301 query=drop\n", "1: left"},
    {"/a /b 301 query=drop\n/b /c 301\n", "1: /c 1"},
    {"/b?id=1 /x 301\n/a /b 301\n/b /c 301\n", "2: left"},
    {"/b?id=1 /x 301\n/a /b?id=1 301\n", "2: left"}, /* /x would get the request's query */
    {"/b?id=1 /x 301\n/a /b?id=1 301 query=drop\n", "2: /x 1"},
    {"/b /a 301\n/a https://n.example/t 301 strip=gclid\n", "1: left"},
    {"/b /a 301 strip=gclid\n/a https://n.example/t 301\n", "1: https://n.example/t 1"},
    {"/b /a 301 strip=utm_*\n/a /c 301 strip=utm_x\n", "1: /c 1"},
    {"/b /a 301 strip=utm_x\n/a /c 301 strip=utm_*\n", "1: left"},
    {"/b /a 301 query=drop\n/a /c 301 strip=gclid\n", "1: /c 1"},
    {"/a?x=1 /b strip=u\n/a?x=1 /c strip=v\n", ""},
    {"/a?x=1&y=2 /b query=exact\n/a?x=1&y=2 /c\n", ""},
    /* Browsers keep a fragment. */
    {"/a /b#f 301\n/b /c 301\n", "1: /c#f 1"},
    {"/a /b#f 301\n/b /c#own 301\n", "1: /c#own 1"},
    {"/a /b#f 301\n/b /c 301\n/c /d 301\n", "1: /d#f 2, 2: /d 1"},
    {"/a /b#f 301 subpath=on\n/b /c 301 subpath=on\n", "1: /c#f 1"},
    /* Hosts. */
    {"//h.example/a http://h.example/b 301\n//h.example/b /c 301\n", "1: /c 1"},
    {"/a http://h.example/b 301\n/b /c 301\n", ""},
    {"/c https://new.example/c 301\n", ""},
    /* Whoever asks may come with any host and scheme. */
    {"http://h.example/b /d 301\n//h.example/a /b 301\n/b /c 301\n", "2: left"},
    {"https://h.example/b /d 301\n//h.example/a /b 301\n/b /c 301\n", "2: left"},
    {"http://h.example/b /d 301\n//h.example/a /b 301\n", "2: left"},
    {"http://h.example/b /d 301\nhttp://h.example/a /b 301\n", "2: /d 1"},
    {"/a /b 301\n/b /c 301\n//h.example/b /d 301\n", "1: /c 1, 3: removed by 2"},
    {MANY_HOSTS "//h.example/b /d 301\n/a /b 301\n/b /c 301\n", "18: left"},
    {MANY_HOSTS "//h.example/b /d 301 subpath=on\n/a /b/x 301\n/b/x /c 301\n", "18: left"},
    {MANY_HOSTS "//h.example/z /d 301\n/a /b 301\n/b /c 301\n", "18: /c 1"},
};

START_TEST(a_plan)
{
    ck_assert_str_eq(plan_of(plans[_i].text), plans[_i].plan);
}
END_TEST

/* --- what is tried ---*/

/* Lists that answer some URL in different ways. */
static const struct {
    const char *from, *to;
} different[] = {
    {"/a /t strip=utm_*,gclid\n", "/a /t strip=utm_*\n"},
    {"/a /t strip=utm_*\n", "/a /t strip=utm_*,gclid\n"},
    {"/a /t\n", "/a /t strip=x\n"},
    {"/a /t\n", "/a /t strip=fb*\n"},
    {"/a /t\n/b /u strip=x\n", "/a /t strip=x\n/b /u strip=x\n"},
    {"/a?id=1 /t strip=gclid\n", "/a?id=1 /t\n"},
    {"/a?id=1 /t strip=u\n/a?id=1 /x strip=v\n", "/a?id=1 /t strip=u\n"},
    {"/a?x=1&y=2 /t query=exact\n", "/a?x=1&y=2 /t query=drop\n"},
    {"/a?x=1&y=2 /t query=drop\n", "/a?x=1&y=2 /t query=exact\n"},
    {"/a /t\n", "//h.example/ /u subpath=on\n/a /t\n"},
    {"/a /t\n", "/a?id=7 /u\n/a /t\n"},
    {"/a /t#f\n/t /u\n", "/a /u\n/t /u\n"},
};

START_TEST(a_difference_is_tried)
{
    convert_list *from = list_of(different[_i].from);
    bool *wrong = apr_pcalloc(pool, (size_t)from->rules->nelts + 1);

    ck_assert_msg(fix_count_wrong(from, list_of(different[_i].to), wrong) > 0, "%s%s",
                  different[_i].from, different[_i].to);
    ck_assert_int_eq(fix_count_wrong(from, list_of(different[_i].from), wrong), 0);
}
END_TEST

/* --- why a way is not followed to its end ---*/

static const char *why(const char *text, int i)
{
    fix_step *steps;

    ck_assert(fix_plan(list_of(text), &steps));
    return steps[i].left ? steps[i].left : "";
}

START_TEST(loops_are_told_from_long_ways)
{
    const char *text = "", *loop;

    for (int i = 0; i < 30; i++)
        text = apr_psprintf(pool, "%s/r%d /r%d 301\n", text, i, i + 1);
    loop = apr_psprintf(pool, "%s/r30 /r25 301\n", text);
    ck_assert_msg(!strncmp(why(text, 0), "it leads over more than 20 rows", 31), "%s",
                  why(text, 0));
    ck_assert_msg(!strncmp(why(text, 9), "it leads over more", 18), "%s", why(text, 9));
    ck_assert_str_eq(why(text, 10), "");
    ck_assert_str_eq(why(loop, 0), "it leads into a loop");
    ck_assert_str_eq(why(loop, 29), "it leads into a loop");
    ck_assert_str_eq(why("/a /b\n/b /a\n/c /a\n", 2), "it leads into a loop");
}
END_TEST

/* --- what it costs ----------------------------------------------------------------------------*/

/* How often lists were asked, and how often a table was asked for a line. */
static uint64_t asks, lines;

probe_answer __real_probe_ask(const probe_table *table, const redirect_request *request,
                              apr_pool_t *in);
probe_answer __wrap_probe_ask(const probe_table *table, const redirect_request *request,
                              apr_pool_t *in);
probe_answer __wrap_probe_ask(const probe_table *table, const redirect_request *request,
                              apr_pool_t *in)
{
    asks++;
    return __real_probe_ask(table, request, in);
}

uint32_t __real_redirect_table_line(const redirect_table *table, uint32_t rule, uint32_t *index);
uint32_t __wrap_redirect_table_line(const redirect_table *table, uint32_t rule, uint32_t *index);
uint32_t __wrap_redirect_table_line(const redirect_table *table, uint32_t rule, uint32_t *index)
{
    lines++;
    return __real_redirect_table_line(table, rule, index);
}

/* Nothing is changed, so nothing is compared: each row is asked once where it leads. */
START_TEST(a_list_that_stays_is_not_tried)
{
    asks = 0;
    ck_assert_str_eq(plan_of("/a /x\n/b /y\n/c /z\n"), "");
    ck_assert_uint_eq(asks, 3);
}
END_TEST

/* A table counts records for a line: not for each answer. */
START_TEST(lines_are_looked_up_once_for_each_list)
{
    asks = lines = 0;
    ck_assert_str_eq(plan_of("/a /b\n/b /c\n"), "1: /c 1");
    ck_assert_uint_gt(asks, 50);
    ck_assert_uint_lt(lines, 20);
}
END_TEST

START_TEST(lists_are_the_same_but_for_their_lines)
{
#define ROWS "/a/* /b/:splat 301\nhttp://h.example/x /c?d=1 302\n"
    convert_list *a = list_of(ROWS "/p/:q/r /:q 301\n");

    ck_assert_int_eq(a->rules->nelts, 3);
    ck_assert(fix_same(a, list_of("\n# c\n" ROWS "\n/p/:q/r /:q 301\n")));
    ck_assert(!fix_same(a, list_of(ROWS)));
    ck_assert(!fix_same(a, list_of(ROWS "/p/:q/s /:q 301\n")));
    ck_assert(!fix_same(a, list_of(ROWS "/p/:q/r /:q 302\n")));
    ck_assert(!fix_same(a, list_of(ROWS "/p/:q/r /z/:q 301\n")));
    ck_assert(!fix_same(a, list_of(ROWS "http://h.example/p/:q/r /:q 301\n")));
    ck_assert(!fix_same(a, list_of(ROWS "/p/:q/r a=1 /:q 301\n")));
    APR_ARRAY_IDX(a->rules, 2, convert_rule).lost = true;
    ck_assert(fix_same(a, list_of(ROWS)));
}
END_TEST

/* --- lines of files ---------------------------------------------------------------------------*/

static const struct {
    convert_format format;
    const char *text, *result;
    const char *fault; /* NULL: none */
} edits[] = {
    {CONVERT_TEXT, "# c\n/a /b 301 # why\n/c /d\n", "# c\n/a /new 301 # why\n/c /d\n", NULL},
    {CONVERT_TEXT, "\n\"/a\"\t\"/b\"\r\n", "\n\"/a\"\t\"/new\"\r\n", NULL},
    {CONVERT_TEXT, "\n/b /b\n", "\n/b /new\n", NULL},
    {CONVERT_TEXT, "\n/x /b/c\n", "\n/x /b/c\n", "its target is written in another way"},
    {CONVERT_CSV, "s;t\n/a;\"/b\";301\n", "s;t\n/a;\"/new\";301\n", NULL},
    {CONVERT_CSV, "s,t\r\n/a,/b\r\n", "s,t\r\n/a,/new\r\n", NULL},
    {CONVERT_CSV, "s,t\n/a,\"/b\nx\"\n", "s,t\n/a,\"/b\nx\"\n", "it goes over several lines"},
    {CONVERT_NGINX, "map $uri $n {\n/a \"/b$is_args$args\"; # c\n}\n",
     "map $uri $n {\n/a \"/new$is_args$args\"; # c\n}\n", NULL},
    {CONVERT_NGINX, "\n/a /b; /c /d;\n", "\n/a /b; /c /d;\n", "several rows stand in its line"},
    {CONVERT_NETLIFY, "\n/a/* /b:splat 301!\n", "\n/a/* /new:splat 301!\n", NULL},
    {CONVERT_HTTPD, "#\nRedirect 301 /b /b\n", "#\nRedirect 301 /b /new\n", NULL},
    {CONVERT_HTTPD, "Redirect 301 /a \\\n /b\n", "Redirect 301 /a \\\n /b\n",
     "it goes over several lines"},
};

static const char *written(convert_format format, const char *text, fix_edit *edit)
{
    char *out;
    size_t len;
    FILE *file = open_memstream(&out, &len);
    const char *copy;

    fix_write(file, text, strlen(text), format, edit, 1);
    ck_assert_int_eq(fclose(file), 0);
    copy = apr_pstrmemdup(pool, out, len);
    free(out);
    return copy;
}

START_TEST(an_edit)
{
    fix_edit edit = {.line = 2, .old_target = "/b", .new_target = "/new"};

    ck_assert_str_eq(written(edits[_i].format, edits[_i].text, &edit), edits[_i].result);
    if (edits[_i].fault)
        ck_assert_msg(edit.fault && strstr(edit.fault, edits[_i].fault), "%s", edit.fault);
    else
        ck_assert_msg(!edit.fault, "%s", edit.fault);
}
END_TEST

START_TEST(a_line_goes)
{
    fix_edit edit = {.line = 2, .drop = true};

    ck_assert_str_eq(written(CONVERT_TEXT, "# 1\n/a /b\n# 3\n", &edit), "# 1\n# 3\n");
    edit.line = 3;
    ck_assert_str_eq(written(CONVERT_CSV, "s,t\n/a,/b\n/a,/c", &edit), "s,t\n/a,/b\n");
}
END_TEST

START_TEST(a_target_with_a_separator_gets_quotes)
{
    fix_edit edit = {.line = 1, .old_target = "/b", .new_target = "/x,y"};

    ck_assert_str_eq(written(CONVERT_CSV, "/a,/b,301\n", &edit), "/a,\"/x,y\",301\n");
    edit.line = 1;
    edit.new_target = "/x\"y";
    ck_assert_str_eq(written(CONVERT_TEXT, "/a /b\n", &edit), "/a /b\n");
    ck_assert_ptr_nonnull(edit.fault);
}
END_TEST

/* --- random lists -----------------------------------------------------------------------------*/

static const char *pick(const char *const *words, size_t count)
{
    return words[(size_t)rand() % count];
}
#define PICK(...)                            \
    pick((const char *const[]){__VA_ARGS__}, \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static const char *random_list(void)
{
    const char *text = "";
    int n = 3 + rand() % 12;

    for (int i = 0; i < n; i++)
        text =
            apr_pstrcat(pool, text, PICK("", "", "", "//h.example"),
                        PICK("/a", "/b", "/c", "/d", "/a/b", "/b/c", "/A", "/b/"),
                        PICK("", "", "", "?x=1"), " ", PICK("", "", "http://h.example"),
                        PICK("/a", "/b", "/c", "/d", "/e", "/a/b", "/b/c", "/c/", "/b?x=1", "/b#f"),
                        " ", PICK("301", "301", "302", "307", "308"),
                        PICK("", "", " subpath=on", " query=drop", " case=ignore", " slash=ignore",
                             " query=exact", " strip=x", " strip=u*,x"),
                        "\n", NULL);
    return text;
}

START_TEST(random_lists_end_where_they_did)
{
    const char *seed = getenv("HTC_SEED"), *times = getenv("HTC_LONG");
    int rounds = 300 * (times ? atoi(times) : 1), changed = 0;

    srand(seed ? (unsigned)atoi(seed) : 1);
    for (int i = 0; i < rounds; i++) {
        const char *text = random_list();
        convert_list *list = list_of(text);
        bool *wrong = apr_pcalloc(pool, (size_t)list->rules->nelts + 1);
        fix_step *steps;

        ck_assert_msg(fix_plan(list, &steps), "%s", text);
        for (int k = 0; k < list->rules->nelts; k++)
            changed += steps[k].drop || steps[k].target;
        ck_assert_msg(fix_count_wrong(list, fix_apply(list, steps), wrong) == 0, "%s", text);
        apr_pool_clear(pool);
    }
    ck_assert_msg(changed > rounds / 3, "only %d changes", changed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fix");
    TCase *tc = tcase_create("fix");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_plan, 0, (int)COUNT_OF(plans));
    tcase_add_loop_test(tc, a_difference_is_tried, 0, (int)COUNT_OF(different));
    tcase_add_test(tc, loops_are_told_from_long_ways);
    tcase_add_test(tc, a_list_that_stays_is_not_tried);
    tcase_add_test(tc, lines_are_looked_up_once_for_each_list);
    tcase_add_test(tc, lists_are_the_same_but_for_their_lines);
    tcase_add_loop_test(tc, an_edit, 0, (int)COUNT_OF(edits));
    tcase_add_test(tc, a_line_goes);
    tcase_add_test(tc, a_target_with_a_separator_gets_quotes);
    tcase_add_test(tc, random_lists_end_where_they_did);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
