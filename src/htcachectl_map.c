/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl check and lookup: redirect maps are read, built and asked here exactly as the module
 * does it, but from files and without a server. Called by htcachectl.c.
 */
#include "htcachectl.h"
#include "htcachectl_map.h"
#include "redirect_config.h"

#include <apr_general.h>
#include <apr_hash.h>
#include <apr_strings.h>
#include <apr_tables.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUPS_MAX 10
#define HOPS_MAX   20

typedef struct message {
    uint32_t line;
    uint32_t order;
    redirect_severity severity;
    char *text;
} message;

/* One file, from its bytes to its table. */
typedef struct map_file {
    const char *name;
    apr_pool_t *pool;
    redirect_map_options options;
    redirect_report report;
    char *bytes;
    size_t len;
    void *image;
    size_t image_size;
    const redirect_table *table;
    redirect_table_info info;
    map_regexes *regexes;
    message *messages;
    size_t count, capacity;
    bool keep_notes, terminal;
    int percent;
} map_file;

static const char *const severities[] = {
    [REDIRECT_NOTE] = "note", [REDIRECT_WARNING] = "warning", [REDIRECT_ERROR] = "error"};

/* --- the command line ------------------------------------------------------------------------- */

static bool is_option(const char *word)
{
    static const char *const keys[] = {
        "format=", "query=", "case=", "slash=", "subpath=", "status=", "host=", "strip="};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!strncasecmp(word, keys[i], strlen(keys[i])))
            return true;
    }
    return false;
}

/* Options go to *options, other words to *names. */
bool tool_take_words(const tool_options *command, redirect_map_options *options,
                     apr_array_header_t *names, apr_pool_t *pool)
{
    const char *why = NULL;

    redirect_map_options_init(options);
    if (command->format)
        why =
            redirect_map_option(options, apr_pstrcat(pool, "format=", command->format, NULL), pool);
    for (int i = 0; i < command->words && !why; i++) {
        if (is_option(command->word[i]))
            why = redirect_map_option(options, command->word[i], pool);
        else
            APR_ARRAY_PUSH(names, const char *) = command->word[i];
    }
    if (why)
        fprintf(stderr, "htcachectl: %s\n", why);
    return !why;
}

/* --- messages --------------------------------------------------------------------------------- */

static void collect(void *baton, redirect_severity severity, uint32_t line, const char *text)
{
    map_file *f = baton;
    message *grown;

    if (!f->keep_notes)
        return;
    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        grown = realloc(f->messages, f->capacity * sizeof(*grown));
        if (!grown)
            abort();
        f->messages = grown;
    }
    f->messages[f->count] = (message){line, (uint32_t)f->count, severity, strdup(text)};
    if (!f->messages[f->count].text)
        abort();
    f->count++;
}

/* Files are read in several passes; people read them from top to bottom. */
static int compare(const void *a, const void *b)
{
    const message *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void clear_progress(map_file *f)
{
    if (f->percent >= 0)
        tool_progress_end(f->terminal);
    f->percent = -1;
}

static bool show_progress(void *baton, uint64_t done, uint64_t total)
{
    map_file *f = baton;
    int percent = total ? (int)(100 * done / total) : 100;

    if (percent != f->percent)
        tool_progress(f->terminal, f->name, percent);
    f->percent = percent;
    return true;
}

/* --- files -------------------------------------------------------------------------------------
 */

static void begin_file(map_file *f, const char *name, const redirect_map_options *options,
                       apr_pool_t *pool)
{
    memset(f, 0, sizeof(*f));
    f->name = name;
    f->options = *options;
    f->pool = pool;
    f->percent = -1;
    f->regexes = map_regexes_create(pool);
    f->report.fn = collect;
    f->report.baton = f;
    f->report.progress = show_progress;
    f->report.compile = map_regexes_try;
    f->report.regex = map_regexes_match;
    f->report.regex_baton = f->regexes;
}

static void end_file(map_file *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->messages[i].text);
    free(f->messages);
    free(f->bytes);
    free(f->image);
}

/* APR_EGENERAL: has been reported. */
static apr_status_t build(map_file *f)
{
    apr_status_t rv = redirect_map_build(&f->options, f->name, f->bytes, f->len, &f->report,
                                         f->pool, &f->image, &f->image_size);

    if (rv != APR_SUCCESS)
        return rv;
    f->table = redirect_table_open(f->image, f->image_size, f->pool);
    redirect_table_info_get(f->table, &f->info);
    return APR_SUCCESS;
}

/* --- check ------------------------------------------------------------------------------------ */

static unsigned count_hosts(const map_file *f)
{
    apr_hash_t *hosts = apr_hash_make(f->pool);
    char *target = apr_palloc(f->pool, REDIRECT_MAX_TEXT);
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

static void print_messages(const map_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        tool_put(stdout, f->name);
        printf(":%u: %s: %s\n", (unsigned)f->messages[i].line, severities[f->messages[i].severity],
               f->messages[i].text);
    }
}

#define U64 APR_UINT64_T_FMT

static void print_summary(const map_file *f, unsigned hosts)
{
    const redirect_report *r = &f->report;

    print_messages(f);
    tool_put(stdout, f->name);
    printf(": %" U64 " rows, %u hosts, %u patterns, %" U64 " duplicates, %" U64 " never used, %" U64
           " to themselves, %" U64 " loops, %" U64 " chains, longest chain %u, image %zu bytes\n",
           r->rows, hosts, (unsigned)f->info.pattern, r->duplicates, r->shadowed, r->self, r->loops,
           r->chains, (unsigned)r->longest_chain, f->image_size);
    tool_put(stdout, f->name);
    printf(": %" U64 " errors, %" U64 " warnings, %" U64 " notes\n", r->errors, r->warnings,
           r->notes);
}

static json_t *json_messages(const map_file *f)
{
    json_t *list = json_array();

    for (size_t i = 0; i < f->count; i++)
        json_array_append_new(list, json_pack("{sIssss}", "line", (json_int_t)f->messages[i].line,
                                              "severity", severities[f->messages[i].severity],
                                              "message", f->messages[i].text));
    return list;
}

static json_t *json_summary(const map_file *f, unsigned hosts)
{
    const redirect_report *r = &f->report;

    return json_pack("{sosIsIsIsIsIsIsIsIsIsIsIsIsIso}", "file", tool_json_string(f->name), "rows",
                     (json_int_t)r->rows, "hosts", (json_int_t)hosts, "patterns",
                     (json_int_t)f->info.pattern, "duplicates", (json_int_t)r->duplicates,
                     "shadowed", (json_int_t)r->shadowed, "self", (json_int_t)r->self, "loops",
                     (json_int_t)r->loops, "chains", (json_int_t)r->chains, "longest_chain",
                     (json_int_t)r->longest_chain, "bytes", (json_int_t)f->image_size, "errors",
                     (json_int_t)r->errors, "warnings", (json_int_t)r->warnings, "notes",
                     (json_int_t)r->notes, "messages", json_messages(f));
}

static int code_of(const map_file *f, apr_status_t rv)
{
    char text[120];

    if (rv != APR_SUCCESS && rv != APR_EGENERAL) {
        fprintf(stderr, "htcachectl: %s: %s\n", f->name, apr_strerror(rv, text, sizeof(text)));
        return TOOL_USAGE;
    }
    return rv != APR_SUCCESS || f->report.errors ? TOOL_FOUND : TOOL_GOOD;
}

/* What is found out about all files. */
typedef struct checking {
    const redirect_map_options *options;
    json_t *list; /* NULL unless JSON is wanted */
    apr_pool_t *pool;
    int code;                   /* the worst so far */
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
    c->sum.gated += t->gated;
    c->sum.conditional += t->conditional;
}

static json_t *json_totals(const redirect_config_totals *t)
{
    return json_pack("{sIsIsIsIsIsIsIsI}", "redirects_seen", (json_int_t)t->redirects_seen,
                     "redirects_folded", (json_int_t)t->redirects_folded, "redirects_left",
                     (json_int_t)(t->redirects_seen - t->redirects_folded), "rewrite_rules_seen",
                     (json_int_t)t->rewrite_rules_seen, "rewrite_rules_folded",
                     (json_int_t)t->rewrite_rules_folded, "rewrite_rules_gated",
                     (json_int_t)t->gated, "rewrite_rules_left",
                     (json_int_t)(t->rewrite_rules_seen - t->rewrite_rules_folded),
                     "rewrite_rules_conditional", (json_int_t)t->conditional);
}

static void print_totals(const redirect_config_totals *t)
{
    printf("%" U64 " of %" U64 " Redirect lines and %" U64 " of %" U64
           " RewriteRules become tables, %" U64 " more are skipped together; %" U64
           " RewriteRules have conditions\n",
           t->redirects_folded, t->redirects_seen, t->rewrite_rules_folded - t->gated,
           t->rewrite_rules_seen, t->gated, t->conditional);
}

/* A configuration: which of its lines become tables, and why others do not. */
static int check_configuration(map_file *f, checking *c)
{
    const char *slash = strrchr(f->name, '/');
    bool htaccess = !strcmp(slash ? slash + 1 : f->name, ".htaccess");
    redirect_config_totals t = {.reasons = c->sum.reasons};

    redirect_config_check(f->bytes, f->len, htaccess, collect, f, &t, f->pool);
    add_totals(c, &t);
    if (f->count)
        qsort(f->messages, f->count, sizeof(*f->messages), compare);
    if (c->list) {
        json_t *one = json_totals(&t);

        json_object_set_new(one, "file", tool_json_string(f->name));
        json_object_set_new(one, "messages", json_messages(f));
        json_array_append_new(c->list, one);
        return TOOL_GOOD;
    }
    print_messages(f);
    tool_put(stdout, f->name);
    fputs(": ", stdout);
    print_totals(&t);
    return TOOL_GOOD;
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

/* The exit code. */
static int check_file(const char *name, checking *c, apr_pool_t *pool)
{
    map_file f;
    apr_status_t rv;
    bool readable;
    int code = TOOL_USAGE;

    begin_file(&f, name, c->options, pool);
    f.keep_notes = true;
    f.terminal = isatty(STDERR_FILENO);
    readable = tool_read_file(f.name, &f.bytes, &f.len);
    if (readable && f.options.format == REDIRECT_FORMAT_AUTO &&
        redirect_map_is_httpd(name, f.bytes, f.len)) {
        code = check_configuration(&f, c);
    } else if (readable) {
        unsigned hosts = 0;

        rv = build(&f);
        if (rv == APR_SUCCESS) {
            rv = redirect_map_check(f.table, &f.report, pool);
            hosts = count_hosts(&f);
        }
        if (f.count)
            qsort(f.messages, f.count, sizeof(*f.messages), compare);
        clear_progress(&f);
        if (c->list)
            json_array_append_new(c->list, json_summary(&f, hosts));
        else
            print_summary(&f, hosts);
        code = code_of(&f, rv);
        if (f.info.pattern && !map_regexes_available())
            fputs("htcachectl: built without PCRE2: patterns were not compiled or compared\n",
                  stderr);
    }
    end_file(&f);
    return code;
}

static void check_one(void *baton, const char *name)
{
    checking *c = baton;
    apr_pool_t *sub;
    int one;

    apr_pool_create(&sub, c->pool);
    one = check_file(name, c, sub);
    apr_pool_destroy(sub);
    if (one > c->code)
        c->code = one;
}

/* Of a directory: the .htaccess files in it. */
static void check_word(checking *c, const char *name)
{
    if (!tool_is_directory(name))
        check_one(c, name);
    else if (!tool_tree(name, check_one, c))
        c->code = TOOL_USAGE;
}

int tool_check(const tool_options *command, apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 8, sizeof(const char *));
    redirect_map_options options;
    checking c = {.options = &options, .pool = pool};

    if (command->cost)
        return tool_cost(command, pool);
    if (!tool_take_words(command, &options, names, pool))
        return TOOL_USAGE;
    if (!names->nelts) {
        tool_say("check which file?");
        return TOOL_USAGE;
    }
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

/* --- lookup ----------------------------------------------------------------------------------- */

typedef struct hop {
    redirect_request request; /* the query as sent */
    redirect_match match;
    const char *location; /* NULL: none */
    uint32_t line;
    bool refused;
} hop;

static bool look_up_normalized(map_file *f, const redirect_request *request, redirect_match *match)
{
    redirect_request asked = *request;

    if (asked.query) {
        char *query = apr_palloc(f->pool, asked.query_len + 1);

        asked.query_len = redirect_query_normalize(asked.query, asked.query_len, query);
        asked.query = query;
    }
    asked.regex = map_regexes_match;
    asked.baton = f->regexes;
    return redirect_table_lookup(f->table, &asked, 0, match);
}

/* Does a row answer? */
static bool ask(map_file *f, const redirect_request *request, hop *h)
{
    redirect_group groups[GROUPS_MAX];
    int count;

    if (!look_up_normalized(f, request, &h->match))
        return false;
    h->request = *request;
    h->line = redirect_table_line(f->table, h->match.rule, NULL);
    count = map_regexes_groups(f->regexes, &h->match, request->path, request->path_len, groups,
                               GROUPS_MAX);
    h->location = redirect_map_location(
        &h->match, request, groups, count < GROUPS_MAX ? count : GROUPS_MAX, f->pool, &h->refused);
    return true;
}

/* What a browser asks next; false: nothing, or what cannot be known to be for this map. */
static bool next_request(map_file *f, const hop *h, redirect_request *next)
{
    bool path = h->location && h->location[0] == '/';
    redirect_match match;
    redirect_rule rule;

    if (!h->location || redirect_request_of(h->location, next, f->pool))
        return false;
    if (path) {
        next->host = h->request.host;
        next->host_len = h->request.host_len;
        next->https = h->request.https;
        return true;
    }
    if (h->request.host && next->host_len == h->request.host_len &&
        !memcmp(next->host, h->request.host, next->host_len))
        return true;
    /* Another host is this map's if it has a row for it. */
    if (!look_up_normalized(f, next, &match))
        return false;
    redirect_table_rule(f->table, match.rule, &rule, apr_palloc(f->pool, REDIRECT_MAX_TEXT), NULL);
    return rule.host != NULL;
}

static int follow(map_file *f, const redirect_request *request, bool on, hop *hops)
{
    redirect_request next = *request;
    int n = 0;

    while (n < HOPS_MAX && ask(f, &next, &hops[n])) {
        n++;
        if (!on || !next_request(f, &hops[n - 1], &next))
            break;
    }
    return n;
}

static void print_hops(const map_file *f, const hop *hops, int n)
{
    for (int i = 0; i < n; i++) {
        tool_put(stdout, f->name);
        printf(":%u: %d", (unsigned)hops[i].line, hops[i].match.profile->status);
        if (hops[i].location) {
            putchar(' ');
            tool_put(stdout, hops[i].location);
        }
        puts(hops[i].refused ? " refused: what was captured would change the target's host" : "");
    }
    if (n == HOPS_MAX)
        printf("more than %d redirects: probably a loop\n", HOPS_MAX - 1);
    if (n == 0)
        puts("no row answers");
}

static json_t *json_hops(const map_file *f, const hop *hops, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < n; i++) {
        json_t *one = json_pack("{sIsisb}", "line", (json_int_t)hops[i].line, "status",
                                hops[i].match.profile->status, "refused", hops[i].refused);

        json_object_set_new(one, "location",
                            hops[i].location ? json_string(hops[i].location) : json_null());
        json_array_append_new(list, one);
    }
    return json_pack("{sosbso}", "file", tool_json_string(f->name), "found", n > 0, "answers",
                     list);
}

static int look_up(map_file *f, const char *url, const tool_options *command)
{
    redirect_request request;
    hop hops[HOPS_MAX];
    const char *why = redirect_request_of(url, &request, f->pool);
    apr_status_t rv;
    int n;

    if (why) {
        fprintf(stderr, "htcachectl: the URL cannot be used: %s\n", why);
        return TOOL_USAGE;
    }
    if (!tool_read_file(f->name, &f->bytes, &f->len))
        return TOOL_USAGE;
    rv = build(f);
    if (f->report.errors)
        fprintf(stderr, "htcachectl: %" U64 " errors in the file; see htcachectl check\n",
                f->report.errors);
    if (rv != APR_SUCCESS)
        return code_of(f, rv) == TOOL_FOUND ? TOOL_USAGE : code_of(f, rv);
    if (f->info.pattern && !map_regexes_available())
        fputs("htcachectl: built without PCRE2: rows with patterns were not asked\n", stderr);
    n = follow(f, &request, command->follow, hops);
    if (command->json) {
        int written = tool_print_json(json_hops(f, hops, n));

        if (written != TOOL_GOOD)
            return written;
    } else
        print_hops(f, hops, n);
    return n > 0 && n < HOPS_MAX && !hops[n - 1].refused ? TOOL_GOOD : TOOL_FOUND;
}

int tool_lookup(const tool_options *command, apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 2, sizeof(const char *));
    redirect_map_options options;
    map_file f;
    int code;

    if (!tool_take_words(command, &options, names, pool))
        return TOOL_USAGE;
    if (names->nelts != 2) {
        fputs("htcachectl: lookup needs a file and a URL\n", stderr);
        return TOOL_USAGE;
    }
    begin_file(&f, APR_ARRAY_IDX(names, 0, const char *), &options, pool);
    code = look_up(&f, APR_ARRAY_IDX(names, 1, const char *), command);
    end_file(&f);
    return code;
}
