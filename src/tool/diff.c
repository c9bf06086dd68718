/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl diff: which URLs two lists of redirects answer differently. Both are asked for the
 * sources of both, and for what lies around them (tool/probe.c). Called by tool/htcachectl.c.
 */
#include "tool/map_file.h"
#include "tool/probe.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

typedef struct side {
    const char *name;
    convert_list *list;
    probe_table table;
    tool_work work;
} side;

typedef struct change {
    const char *url;
    probe_answer was, is;
} change;

typedef struct comparison {
    apr_pool_t *pool;
    side old, new;
    apr_hash_t *urls;            /* of the changes */
    apr_array_header_t *changes; /* change */
    uint64_t asked;
    int shown; /* changes, by --limit */
} comparison;

static bool compare(void *baton, const convert_rule *r, const redirect_request *request,
                    apr_pool_t *pool)
{
    comparison *c = baton;
    change one = {.was = probe_ask(&c->old.table, request, pool),
                  .is = probe_ask(&c->new.table, request, pool)};

    (void)r;
    c->asked++;
    if (probe_same(&one.was, &one.is))
        return true;
    one.url = probe_url(request, c->pool);
    if (apr_hash_get(c->urls, one.url, APR_HASH_KEY_STRING))
        return false;
    one.was.location = apr_pstrdup(c->pool, one.was.location);
    one.is.location = apr_pstrdup(c->pool, one.is.location);
    apr_hash_set(c->urls, one.url, APR_HASH_KEY_STRING, "");
    APR_ARRAY_PUSH(c->changes, change) = one;
    return false;
}

#define NOT_SHOWN "and %d more (--limit 0 prints all)"

/* --- output -----------------------------------------------------------------------------------*/

static uint32_t line_of(const side *s, const probe_answer *a)
{
    return a->index < 0 ? 0 : APR_ARRAY_IDX(s->list->rules, a->index, convert_rule).rule.line;
}

static void print_answer(const side *s, const probe_answer *a, apr_pool_t *pool)
{
    tool_put(stdout, probe_text(a, pool));
    if (a->index < 0)
        return;
    fputs(" (", stdout);
    tool_put_place(stdout, s->name, line_of(s, a));
    putchar(')');
}

static void print_changes(const comparison *c)
{
    int new = 0, gone = 0;

    for (int i = 0; i < c->changes->nelts; i++) {
        const change *one = &APR_ARRAY_IDX(c->changes, i, change);

        new += one->was.index < 0;
        gone += one->is.index < 0;
        if (i >= c->shown)
            continue;
        tool_put(stdout, one->url);
        fputs(": ", stdout);
        print_answer(&c->old, &one->was, c->pool);
        fputs(" becomes ", stdout);
        print_answer(&c->new, &one->is, c->pool);
        putchar('\n');
    }
    if (c->shown < c->changes->nelts)
        printf(NOT_SHOWN "\n", c->changes->nelts - c->shown);
    printf("%d of %" U64 " URLs asked change their answer: %d are new, %d are answered no more, "
           "%d otherwise\n",
           c->changes->nelts, c->asked, new, gone, c->changes->nelts - new - gone);
}

static void print_csv_side(const side *s, const probe_answer *a)
{
    if (a->index < 0) {
        fputs(",,,", stdout);
        return;
    }
    printf(",%d,", a->status);
    tool_put_csv(stdout, a->location ? a->location : "");
    printf(",%s%u", redirect_line_prefix(line_of(s, a)), redirect_line_number(line_of(s, a)));
}

static void print_csv(const comparison *c)
{
    puts("url,old_status,old_target,old_line,new_status,new_target,new_line");
    for (int i = 0; i < c->shown; i++) {
        const change *one = &APR_ARRAY_IDX(c->changes, i, change);

        tool_put_csv(stdout, one->url);
        print_csv_side(&c->old, &one->was);
        print_csv_side(&c->new, &one->is);
        putchar('\n');
    }
    if (c->shown < c->changes->nelts)
        tool_say(NOT_SHOWN, c->changes->nelts - c->shown);
}

static json_t *json_side(const side *s, const probe_answer *a)
{
    return a->index < 0 ? json_null()
                        : tool_json_place(
                              json_pack("{siso}", "status", a->status, "location",
                                        a->location ? tool_json_string(a->location) : json_null()),
                              line_of(s, a));
}

static int print_json(const comparison *c)
{
    json_t *list = json_array();

    for (int i = 0; i < c->shown; i++) {
        const change *one = &APR_ARRAY_IDX(c->changes, i, change);

        json_array_append_new(list, json_pack("{sososo}", "url", tool_json_string(one->url), "old",
                                              json_side(&c->old, &one->was), "new",
                                              json_side(&c->new, &one->is)));
    }
    return tool_print_json(json_pack("{sososIsosi}", "old", tool_json_string(c->old.name), "new",
                                     tool_json_string(c->new.name), "asked", (json_int_t)c->asked,
                                     "changes", list, "more", c->changes->nelts - c->shown));
}

/* --- the command ------------------------------------------------------------------------------*/

static int load(const tool_options *command, const redirect_map_options *options, const char *name,
                side *s, apr_pool_t *pool)
{
    redirect_file file = {NULL, 0, false};
    message_kinds *kinds = message_kinds_create(1, pool);
    int code;

    s->name = name;
    s->list = convert_list_create(pool, map_say_unasked, kinds);
    s->list->progress = tool_work_done;
    s->list->progress_baton = &s->work;
    s->work = tool_work_begin(name);
    s->list->compile = map_regexes_available() ? map_regexes_try : NULL;
    code = tool_read_redirects(command, options, name, s->list, &file);
    map_say_more_unasked(kinds, name);
    free(file.bytes);
    if (code == TOOL_FOUND)
        return TOOL_USAGE;
    if (code == TOOL_GOOD && !probe_open(&s->table, s->list)) {
        tool_say("%s: its redirects cannot be looked up", name);
        return TOOL_USAGE;
    }
    return code;
}

static int compare_both(const tool_options *command, comparison *c, bool keep_runs)
{
    int written = TOOL_GOOD;

    probe_rules(c->old.list, c->new.list, keep_runs, compare, c);
    probe_rules(c->new.list, c->old.list, keep_runs, compare, c);
    c->shown = c->changes->nelts;
    if (command->limit > 0 && command->limit < c->shown)
        c->shown = (int)command->limit;
    if (command->json)
        written = print_json(c);
    else if (command->csv)
        print_csv(c);
    else
        print_changes(c);
    if (map_regexes_out_of_budget(c->old.table.regexes) ||
        map_regexes_out_of_budget(c->new.table.regexes)) {
        tool_say("patterns take too long to compare all URLs");
        return TOOL_USAGE;
    }
    return written != TOOL_GOOD ? written : c->changes->nelts ? TOOL_FOUND : TOOL_GOOD;
}

int tool_diff(const tool_options *command, apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 2, sizeof(const char *));
    comparison c = {.pool = pool, .urls = apr_hash_make(pool)};
    redirect_map_options options;
    redirect_server server;
    int code;

    if (!tool_take_words(command, &options, names, pool) || !tool_take_server(command, &server))
        return TOOL_USAGE;
    if (names->nelts != 2 || (command->csv && command->json)) {
        tool_say(names->nelts != 2 ? "diff needs two files" : "--csv or --json?");
        return TOOL_USAGE;
    }
    c.changes = apr_array_make(pool, 64, sizeof(change));
    code = load(command, &options, APR_ARRAY_IDX(names, 0, const char *), &c.old, pool);
    if (code == TOOL_GOOD)
        code = load(command, &options, APR_ARRAY_IDX(names, 1, const char *), &c.new, pool);
    if (code == TOOL_GOOD)
        code = compare_both(command, &c, server.keep_runs);
    probe_close(&c.old.table);
    probe_close(&c.new.table);
    return code;
}
