/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl check: what is wrong with redirect maps and with the redirect lines of configurations,
 * and which of these become tables. Called by tool/htcachectl.c.
 */
#include "tool/map_file.h"
#include "rules/rules.h"
#include "tool/fix.h"
#include "tool/lint.h"

#include <apr_hash.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned count_hosts(const map_file *f)
{
    apr_hash_t *hosts = apr_hash_make(f->pool);
    char *target = apr_palloc(f->pool, REDIRECT_RULE_ROOM);
    redirect_rule rule;
    const char *last = NULL;

    if (!f->info.uses_host)
        return 0;
    for (uint32_t i = redirect_table_next(f->table, 0); i; i = redirect_table_next(f->table, i)) {
        redirect_table_rule(f->table, i, &rule, target, NULL);
        if (rule.host && rule.host != last)
            apr_hash_set(hosts, rule.host, (apr_ssize_t)rule.host_len, "");
        last = rule.host;
    }
    return apr_hash_count(hosts);
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_found(const map_file *f)
{
    const redirect_report *r = &f->report;

    tool_put(stdout, f->name);
    printf(": %" U64 " error%s, %" U64 " warning%s, %" U64 " note%s; read as %s\n", r->errors,
           plural(r->errors), r->warnings, plural(r->warnings), r->notes, plural(r->notes),
           map_file_format(f));
}

static void print_summary(const map_file *f, unsigned hosts)
{
    const redirect_report *r = &f->report;

    map_file_print(f);
    tool_put(stdout, f->name);
    printf(": %" U64 " rows, %u hosts, %u patterns, %" U64 " duplicates, %" U64 " never used, %" U64
           " to themselves, %" U64 " loops, %" U64 " chains, longest chain %u, image %zu bytes\n",
           r->rows, hosts, (unsigned)f->info.pattern, r->duplicates, r->shadowed, r->self, r->loops,
           r->chains, (unsigned)r->longest_chain, f->image_size);
    print_found(f);
}

static json_t *json_summary(const map_file *f, unsigned hosts)
{
    const redirect_report *r = &f->report;

    return json_pack(
        "{sosssIsIsIsIsIsIsIsIsIsIsIsIsIso}", "file", tool_json_string(f->name), "format",
        map_file_format(f), "rows", (json_int_t)r->rows, "hosts", (json_int_t)hosts, "patterns",
        (json_int_t)f->info.pattern, "duplicates", (json_int_t)r->duplicates, "shadowed",
        (json_int_t)r->shadowed, "self", (json_int_t)r->self, "loops", (json_int_t)r->loops,
        "chains", (json_int_t)r->chains, "longest_chain", (json_int_t)r->longest_chain, "bytes",
        (json_int_t)f->image_size, "errors", (json_int_t)r->errors, "warnings",
        (json_int_t)r->warnings, "notes", (json_int_t)r->notes, "messages", map_file_json(f));
}

/* What is found out about all files. */
typedef struct checking {
    const redirect_map_options *options;
    const char *format; /* --format, or NULL */
    json_t *list;       /* NULL unless JSON is wanted */
    uint64_t limit;     /* messages of one kind; 0: all */
    apr_pool_t *pool;
    int code;                   /* the worst so far */
    unsigned files;             /* so far */
    redirect_config_totals sum; /* of configurations */
    unsigned configurations;
} checking;

static void add_totals(checking *c, const redirect_config_totals *t)
{
    c->configurations++;
    c->sum.redirects_seen += t->redirects_seen;
    c->sum.redirects_folded += t->redirects_folded;
    c->sum.rewrite_rules_seen += t->rewrite_rules_seen;
    c->sum.rewrite_rules_folded += t->rewrite_rules_folded;
    c->sum.filtered += t->filtered;
    c->sum.conditional += t->conditional;
}

static json_t *json_totals(const redirect_config_totals *t)
{
    return json_pack("{sIsIsIsIsIsIsIsI}", "redirects_seen", (json_int_t)t->redirects_seen,
                     "redirects_folded", (json_int_t)t->redirects_folded, "redirects_left",
                     (json_int_t)(t->redirects_seen - t->redirects_folded), "rewrite_rules_seen",
                     (json_int_t)t->rewrite_rules_seen, "rewrite_rules_folded",
                     (json_int_t)t->rewrite_rules_folded, "rewrite_rules_filtered",
                     (json_int_t)t->filtered, "rewrite_rules_left",
                     (json_int_t)(t->rewrite_rules_seen - t->rewrite_rules_folded),
                     "rewrite_rules_conditional", (json_int_t)t->conditional);
}

static void print_totals(const redirect_config_totals *t)
{
    printf("%" U64 " of %" U64 " Redirect lines and %" U64 " of %" U64
           " RewriteRules become tables, %" U64 " more are skipped together; %" U64
           " RewriteRules have conditions\n",
           t->redirects_folded, t->redirects_seen, t->rewrite_rules_folded - t->filtered,
           t->rewrite_rules_seen, t->filtered, t->conditional);
}

static void put_counts(json_t *one, const map_file *f)
{
    const redirect_report *r = &f->report;

    json_object_set_new(one, "duplicates", json_integer((json_int_t)r->duplicates));
    json_object_set_new(one, "shadowed", json_integer((json_int_t)r->shadowed));
    json_object_set_new(one, "self", json_integer((json_int_t)r->self));
    json_object_set_new(one, "loops", json_integer((json_int_t)r->loops));
    json_object_set_new(one, "chains", json_integer((json_int_t)r->chains));
    json_object_set_new(one, "longest_chain", json_integer(r->longest_chain));
    json_object_set_new(one, "errors", json_integer((json_int_t)r->errors));
    json_object_set_new(one, "warnings", json_integer((json_int_t)r->warnings));
    json_object_set_new(one, "notes", json_integer((json_int_t)r->notes));
}

static void count_note(void *baton, redirect_severity severity, uint32_t line, const char *text)
{
    map_file *f = baton;

    f->report.notes++;
    map_file_collect(f, severity, line, text);
}

/* A configuration: what is wrong with its redirects, which of its lines become tables, and why
 * others do not. */
static int check_configuration(map_file *f, checking *c)
{
    bool htaccess = map_is_htaccess(f->name);
    redirect_config_totals t = {.reasons = c->sum.reasons};

    redirect_config_check(f->bytes, f->len, htaccess, count_note, f, &t, f->pool);
    tool_lint_config(f->bytes, f->len, htaccess, &f->report, f->pool);
    add_totals(c, &t);
    map_file_sort(f);
    if (c->list) {
        json_t *one = json_totals(&t);

        json_object_set_new(one, "file", tool_json_string(f->name));
        json_object_set_new(one, "format", json_string(map_file_format(f)));
        put_counts(one, f);
        json_object_set_new(one, "messages", map_file_json(f));
        json_array_append_new(c->list, one);
        return map_file_code(f, APR_SUCCESS);
    }
    map_file_print(f);
    tool_put(stdout, f->name);
    fputs(": ", stdout);
    print_totals(&t);
    print_found(f);
    return map_file_code(f, APR_SUCCESS);
}

typedef struct reason {
    const char *text;
    uint64_t times;
} reason;

static int compare_reasons(const void *a, const void *b)
{
    const reason *x = a, *y = b;

    if (x->times != y->times)
        return x->times > y->times ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* Those for which lines are neither in tables nor skipped, the most frequent first. */
static const apr_array_header_t *sorted_reasons(const checking *c)
{
    apr_array_header_t *all = apr_array_make(c->pool, 16, sizeof(reason));

    for (apr_hash_index_t *at = apr_hash_first(c->pool, c->sum.reasons); at; at = apr_hash_next(at))
        APR_ARRAY_PUSH(all, reason) =
            (reason){apr_hash_this_key(at), *(uint64_t *)apr_hash_this_val(at)};
    if (all->nelts)
        qsort(all->elts, (size_t)all->nelts, sizeof(reason), compare_reasons);
    return all;
}

static json_t *json_sum(const checking *c)
{
    const apr_array_header_t *reasons = sorted_reasons(c);
    json_t *sum = json_totals(&c->sum), *list = json_array();

    for (int i = 0; i < reasons->nelts; i++) {
        const reason *one = &APR_ARRAY_IDX(reasons, i, reason);

        json_array_append_new(
            list, json_pack("{sIss}", "lines", (json_int_t)one->times, "reason", one->text));
    }
    json_object_set_new(sum, "files", json_integer((json_int_t)c->configurations));
    json_object_set_new(sum, "reasons", list);
    return sum;
}

/* Of one file its own lines say it. */
static void print_sum(const checking *c)
{
    const apr_array_header_t *reasons = sorted_reasons(c);

    if (c->configurations < 2)
        return;
    printf("%u configurations: ", c->configurations);
    print_totals(&c->sum);
    for (int i = 0; i < reasons->nelts; i++)
        printf("%8" U64 " left: %s\n", APR_ARRAY_IDX(reasons, i, reason).times,
               APR_ARRAY_IDX(reasons, i, reason).text);
}

/* A map: what is wrong with its rows, one by one and together. */
static int check_map(map_file *f, checking *c)
{
    apr_status_t rv = map_file_build(f);
    unsigned hosts = 0;

    if (rv == APR_SUCCESS) {
        map_regexes_budget(f->regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
        tool_lint_table(f->table, &f->report, f->pool);
        rv = redirect_map_check(f->table, &f->report, f->pool);
        if (map_regexes_out_of_budget(f->regexes))
            tool_say("%s: its patterns take too long: not all of them were looked at for loops "
                     "and hidden rows",
                     f->name);
        hosts = count_hosts(f);
    }
    map_file_sort(f);
    tool_work_end(&f->work);
    if (c->list)
        json_array_append_new(c->list, json_summary(f, hosts));
    else
        print_summary(f, hosts);
    if (f->info.pattern && !map_regexes_available())
        fputs("htcachectl: built without PCRE2: patterns were not compiled or compared\n", stderr);
    return map_file_code(f, rv);
}

/* The exit code. */
static int check_file(const char *name, checking *c, apr_pool_t *pool)
{
    map_file f;
    int code = TOOL_USAGE;

    map_file_begin(&f, name, c->options, pool);
    f.keep_notes = true;
    f.kinds = message_kinds_create(c->limit, pool);
    f.shows = true;
    if (map_file_read(&f, c->format))
        code = f.httpd ? check_configuration(&f, c) : check_map(&f, c);
    map_file_end(&f);
    return code;
}

static void check_one(void *baton, const char *name)
{
    checking *c = baton;
    apr_pool_t *sub;
    int one;

    c->files++;
    apr_pool_create(&sub, c->pool);
    one = check_file(name, c, sub);
    apr_pool_destroy(sub);
    if (one > c->code)
        c->code = one;
}

/* For a directory, the .htaccess files in it. */
static void check_word(checking *c, const char *name)
{
    unsigned before = c->files;

    if (!tool_is_directory(name))
        check_one(c, name);
    else if (!tool_tree(name, check_one, c))
        c->code = TOOL_USAGE;
    else if (c->files == before)
        tool_say("%s: no .htaccess file is in this directory or below it", name);
}

int tool_check(const tool_options *command, apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 8, sizeof(const char *));
    redirect_map_options options;
    checking c = {.options = &options,
                  .format = command->format,
                  .pool = pool,
                  .limit = command->limit < 0 ? MESSAGES_OF_A_KIND : (uint64_t)command->limit};

    if (command->cost)
        return tool_cost(command, pool);
    if (!tool_take_words(command, &options, names, pool))
        return TOOL_USAGE;
    if (!names->nelts) {
        tool_say("check which file?");
        return TOOL_USAGE;
    }
    if (command->fix &&
        (names->nelts > 1 || tool_is_directory(APR_ARRAY_IDX(names, 0, const char *)))) {
        tool_say("--fix mends one file at a time");
        return TOOL_USAGE;
    }
    if (command->fix)
        return tool_fix(command, &options, APR_ARRAY_IDX(names, 0, const char *), pool);
    c.list = command->json ? json_array() : NULL;
    c.sum.reasons = apr_hash_make(pool);
    for (int i = 0; i < names->nelts; i++)
        check_word(&c, APR_ARRAY_IDX(names, i, const char *));
    if (c.list) {
        int written =
            tool_print_json(json_pack("{soso}", "files", c.list, "summary", json_sum(&c)));

        c.code = written > c.code ? written : c.code;
    } else
        print_sum(&c);
    return c.code;
}
