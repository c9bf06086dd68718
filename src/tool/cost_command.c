/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl check --cost: what configurations and whole trees of .htaccess files cost, the most
 * expensive first, and what to change. Called by tool/htcachectl.c through check.
 */
#include "tool/config_cost.h"
#include "tool/http.h"
#include "tool/map.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <apr_time.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INCLUDES_MAX 1000
#define PARSE_TIMES  3

typedef struct cost_file {
    const char *name;
    size_t bytes;
    apr_time_t parse;   /* microseconds that this tool takes, the shortest of some */
    apr_int64_t server; /* that httpd took; -1: not known */
    cost_report report;
} cost_file;

typedef struct survey {
    const tool_options *command;
    apr_pool_t *pool;
    apr_array_header_t *files; /* cost_file */
    apr_hash_t *server;        /* by file: apr_int64_t, microseconds; NULL: no server was asked */
    apr_array_header_t *more;  /* const char *: names of files still to be read */
    const char *including;     /* the file whose Include lines are seen; NULL: not followed */
    bool terminal;
    int code;
    unsigned seen;
} survey;

/* --- finding files ----------------------------------------------------------------------------*/

static const char *directory_of(const char *name, apr_pool_t *pool)
{
    const char *slash = strrchr(name, '/');

    return slash ? apr_pstrmemdup(pool, name, (apr_size_t)(slash - name)) : ".";
}

/* A relative name is taken from the directory of the file that names it. */
static void include(void *baton, const char *name)
{
    survey *s = baton;
    glob_t found = {0};

    if (*name != '/')
        name = apr_pstrcat(s->pool, directory_of(s->including, s->pool), "/", name, NULL);
    if (glob(name, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && s->more->nelts < INCLUDES_MAX; i++)
            APR_ARRAY_PUSH(s->more, const char *) = apr_pstrdup(s->pool, found.gl_pathv[i]);
    } else if (!strpbrk(name, "*?["))
        tool_say("%s, included by %s, is not there", name, s->including);
    globfree(&found);
}

static bool is_htaccess(const char *name)
{
    const char *slash = strrchr(name, '/');

    return !strcmp(slash ? slash + 1 : name, ".htaccess");
}

/* --- reading ----------------------------------------------------------------------------------*/

/* Results of measuring are thrown away. */
static apr_time_t parse_time(const char *bytes, size_t len, const cost_options *options,
                             apr_pool_t *pool)
{
    apr_time_t best = 0;
    cost_options quiet = *options;

    quiet.include = NULL;
    for (int i = 0; i < PARSE_TIMES; i++) {
        apr_time_t begin, taken;
        cost_report report;
        apr_pool_t *sub;

        apr_pool_create(&sub, pool);
        begin = apr_time_now();
        cost_read(bytes, len, &quiet, &report, sub);
        taken = apr_time_now() - begin;
        apr_pool_destroy(sub);
        if (!i || taken < best)
            best = taken;
    }
    return best;
}

/* The server knows files by where they are. */
static apr_int64_t server_time(const survey *s, const char *name)
{
    char *real = s->server ? realpath(name, NULL) : NULL;
    const apr_int64_t *us = real ? apr_hash_get(s->server, real, APR_HASH_KEY_STRING) : NULL;

    free(real);
    return us ? *us : -1;
}

/* How long httpd took for the last parse of each file that it still knows of. A server that cannot
 * be asked has said so, and that is all. */
static void ask_server(survey *s)
{
    static const char *const query[] = {"directories", "cost", "limit", "16384", NULL};
    json_t *root, *file;
    size_t i;

    if (tool_ask(s->command, query, NULL, "costs", &root, NULL) != TOOL_GOOD)
        return;
    s->server = apr_hash_make(s->pool);
    json_array_foreach(json_object_get(json_object_get(root, "costs"), "dearest"), i, file)
    {
        const char *path = json_string_value(json_object_get(file, "path"));
        const json_t *us = json_object_get(file, "parse_us");
        apr_int64_t *kept = apr_palloc(s->pool, sizeof(*kept));

        *kept = json_integer_value(us);
        if (path && json_is_integer(us))
            apr_hash_set(s->server, apr_pstrdup(s->pool, path), APR_HASH_KEY_STRING, kept);
    }
    json_decref(root);
}

static void read_one(void *baton, const char *name)
{
    survey *s = baton;
    cost_options options = {.htaccess = is_htaccess(name),
                            .compile = map_regexes_available() ? map_regexes_try : NULL,
                            .baton = s};
    cost_file *file;
    char *bytes;
    size_t len;

    if (!tool_read_file(name, &bytes, &len)) {
        s->code = TOOL_USAGE;
        return;
    }
    if (s->command->follow) {
        s->including = name;
        options.include = include;
    }
    file = apr_array_push(s->files);
    file->name = apr_pstrdup(s->pool, name);
    file->bytes = len;
    file->parse = parse_time(bytes, len, &options, s->pool);
    file->server = server_time(s, name);
    cost_read(bytes, len, &options, &file->report, s->pool);
    free(bytes);
    if (++s->seen % 64 == 0)
        tool_progress(s->terminal, apr_psprintf(s->pool, "%u files: %s", s->seen, name), -1);
}

static void read_word(survey *s, const char *name)
{
    if (!tool_is_directory(name))
        read_one(s, name);
    else if (!tool_tree(name, read_one, s))
        s->code = TOOL_USAGE;
}

/* --- printing ---------------------------------------------------------------------------------*/

static int dearer(const void *a, const void *b)
{
    const cost_file *x = a, *y = b;

    if (x->report.points != y->report.points)
        return x->report.points > y->report.points ? -1 : 1;
    if (x->parse != y->parse)
        return x->parse > y->parse ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void put_class(const tool_options *o, const cost_report *r)
{
    tool_colour colour = r->class == COST_KEPT       ? COLOUR_GREEN
                         : r->class == COST_REPLAYED ? COLOUR_YELLOW
                                                     : COLOUR_RED;

    printf("%s%s%s", tool_begin(o, colour), cost_class_name(r->class), tool_end(o));
}

static void put_advice(const tool_options *o, const cost_file *file)
{
    for (int i = 0; i < file->report.advice->nelts; i++) {
        const cost_advice *advice = &APR_ARRAY_IDX(file->report.advice, i, cost_advice);

        fputs("    ", stdout);
        if (advice->line)
            printf("%sline %u:%s ", tool_begin(o, COLOUR_DIM), (unsigned)advice->line, tool_end(o));
        tool_put(stdout, advice->text);
        putchar('\n');
    }
}

static void put_file(const tool_options *o, const cost_file *file)
{
    const cost_report *r = &file->report;
    const redirect_config_totals *t = &r->folded;

    fputs(tool_begin(o, COLOUR_BOLD), stdout);
    tool_put(stdout, file->name);
    printf("%s: %" APR_UINT64_T_FMT " points, ", tool_end(o), r->points);
    put_class(o, r);
    if (r->class != COST_KEPT) {
        printf(" (line %u: ", (unsigned)r->class_line);
        tool_put(stdout, r->class_directive);
        printf(")");
    }
    printf("\n  %zu bytes, ", file->bytes);
    if (file->server >= 0)
        printf("parsed by the server in %.3f ms, ", (double)file->server / 1000.0);
    printf("read by this tool in %.3f ms: %u directives, %u rules, %u conditions, %u redirects, "
           "%u patterns\n",
           (double)file->parse / 1000.0, r->directives, r->rules, r->conditions, r->redirects,
           r->regexes);
    printf("  folded: %" APR_UINT64_T_FMT " of %" APR_UINT64_T_FMT " redirects, %" APR_UINT64_T_FMT
           " of %" APR_UINT64_T_FMT " rules; each request may run %u patterns and ask the disk %u "
           "times\n",
           t->redirects_folded, t->redirects_seen, t->rewrite_rules_folded, t->rewrite_rules_seen,
           r->request_regexes, r->disk_tests);
    put_advice(o, file);
}

static json_t *json_advice(const cost_report *r)
{
    json_t *list = json_array();

    for (int i = 0; i < r->advice->nelts; i++) {
        const cost_advice *advice = &APR_ARRAY_IDX(r->advice, i, cost_advice);

        json_array_append_new(list, json_pack("{sIso}", "line", (json_int_t)advice->line, "message",
                                              tool_json_string(advice->text)));
    }
    return list;
}

static void set_number(json_t *object, const char *key, uint64_t n)
{
    json_object_set_new(object, key, json_integer((json_int_t)n));
}

static json_t *json_file(const cost_file *file)
{
    const cost_report *r = &file->report;
    json_t *one = json_object();

    json_object_set_new(one, "file", tool_json_string(file->name));
    json_object_set_new(one, "class", json_string(cost_class_name(r->class)));
    json_object_set_new(one, "class_directive",
                        r->class_directive ? tool_json_string(r->class_directive) : json_null());
    set_number(one, "class_line", r->class_line);
    json_object_set_new(one, "parse_ms", json_real((double)file->parse / 1000.0));
    json_object_set_new(one, "server_parse_ms",
                        file->server < 0 ? json_null() : json_real((double)file->server / 1000.0));
    set_number(one, "points", r->points);
    set_number(one, "bytes", file->bytes);
    set_number(one, "directives", r->directives);
    set_number(one, "rules", r->rules);
    set_number(one, "rules_folded", r->folded.rewrite_rules_folded);
    set_number(one, "conditions", r->conditions);
    set_number(one, "redirects", r->redirects);
    set_number(one, "redirects_folded", r->folded.redirects_folded);
    set_number(one, "patterns", r->regexes);
    set_number(one, "request_patterns", r->request_regexes);
    set_number(one, "disk_tests", r->disk_tests);
    json_object_set_new(one, "advice", json_advice(r));
    return one;
}

static void put_total(const survey *s)
{
    unsigned classes[3] = {0};
    apr_time_t parse = 0;

    for (int i = 0; i < s->files->nelts; i++) {
        const cost_file *file = &APR_ARRAY_IDX(s->files, i, cost_file);

        classes[file->report.class]++;
        parse += file->parse;
    }
    printf("%d files: %u parsed, %u replayed, %u stock; read by this tool in %.3f ms\n",
           s->files->nelts, classes[COST_KEPT], classes[COST_REPLAYED], classes[COST_STOCK],
           (double)parse / 1000.0);
}

static int put_survey(survey *s)
{
    const tool_options *o = s->command;
    int shown = s->files->nelts;
    json_t *list = o->json ? json_array() : NULL;

    if (o->limit > 0 && o->limit < shown)
        shown = (int)o->limit;
    if (s->files->nelts)
        qsort(s->files->elts, (size_t)s->files->nelts, sizeof(cost_file), dearer);
    for (int i = 0; i < shown; i++) {
        const cost_file *file = &APR_ARRAY_IDX(s->files, i, cost_file);

        if (list)
            json_array_append_new(list, json_file(file));
        else
            put_file(o, file);
    }
    if (list)
        return tool_print_json(json_pack("{so}", "files", list));
    put_total(s);
    return TOOL_GOOD;
}

int tool_cost(const tool_options *command, apr_pool_t *pool)
{
    survey s = {.command = command,
                .pool = pool,
                .files = apr_array_make(pool, 64, sizeof(cost_file)),
                .more = apr_array_make(pool, 4, sizeof(const char *)),
                .terminal = isatty(STDERR_FILENO)};
    int code;

    if (!command->words) {
        tool_say("check --cost which files or directories?");
        return TOOL_USAGE;
    }
    if (command->url_given)
        ask_server(&s);
    for (int i = 0; i < command->words; i++)
        read_word(&s, command->word[i]);
    for (int i = 0; i < s.more->nelts; i++)
        read_word(&s, APR_ARRAY_IDX(s.more, i, const char *));
    tool_progress_end(s.terminal);
    code = put_survey(&s);
    return s.code > code ? s.code : code;
}
