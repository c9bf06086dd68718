/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl check and lookup: redirect maps are read, built and asked here exactly as the module
 * does it, but from files and without a server. Called by tool/htcachectl.c.
 */
#include "tool/htcachectl.h"
#include "tool/kinds.h"
#include "tool/map.h"
#include "maps/maps.h"
#include "rules/rules.h"
#include "tool/convert.h"

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
    uint64_t more; /* of its kind, behind it, that are only counted */
} message;

#define CHECK_MOST UINT64_C(100000000) /* rows that are compared: some seconds */

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
    convert_list *lines; /* lookup of a configuration: the table's rules are its; else NULL */
    redirect_server server;
    map_regexes *regexes;
    message *messages;
    size_t count, capacity;
    message_kinds *kinds;
    bool keep_notes, terminal;
    int percent;
} map_file;

static const char *const severities[] = {
    [REDIRECT_NOTE] = "note", [REDIRECT_WARNING] = "warning", [REDIRECT_ERROR] = "error"};

/* --- the command line ------------------------------------------------------------------------- */

static bool is_option(const char *word)
{
    static const char *const keys[] = {"format=", "query=", "case=",  "slash=",      "subpath=",
                                       "status=", "host=",  "strip=", "configtest=", "columns="};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!strncasecmp(word, keys[i], strlen(keys[i])))
            return true;
    }
    return false;
}

/* Options go to *options, other words to *names. --format=httpd is left to the command: it is none
 * of a map's. */
bool tool_take_words(const tool_options *command, redirect_map_options *options,
                     apr_array_header_t *names, apr_pool_t *pool)
{
    const char *why = NULL;

    redirect_map_options_init(options);
    if (command->format && convert_format_of(command->format) != CONVERT_HTTPD)
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

static void keep_message(map_file *f, redirect_severity severity, uint32_t line, const char *text)
{
    message *grown;

    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        grown = realloc(f->messages, f->capacity * sizeof(*grown));
        if (!grown)
            abort();
        f->messages = grown;
    }
    f->messages[f->count] = (message){line, (uint32_t)f->count, severity, strdup(text), 0};
    if (!f->messages[f->count].text)
        abort();
    f->count++;
}

static void collect(void *baton, redirect_severity severity, uint32_t line, const char *text)
{
    map_file *f = baton;
    message_kind *kind;
    bool told;

    if (!f->keep_notes)
        return;
    kind = message_kinds_count(f->kinds, severity, text, &told);
    if (!told) {
        f->messages[kind->last].more++;
        return;
    }
    kind->last = f->count;
    keep_message(f, severity, line, text);
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
    f->report.check_most = CHECK_MOST;
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
        if (!f->messages[i].more)
            continue;
        tool_put(stdout, f->name);
        printf(": %s: and %" APR_UINT64_T_FMT " more of this kind\n",
               severities[f->messages[i].severity], f->messages[i].more);
    }
}

#define U64 APR_UINT64_T_FMT

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

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
    printf(": %" U64 " error%s, %" U64 " warning%s, %" U64 " note%s\n", r->errors,
           plural(r->errors), r->warnings, plural(r->warnings), r->notes, plural(r->notes));
}

static json_t *json_messages(const map_file *f)
{
    json_t *list = json_array();

    for (size_t i = 0; i < f->count; i++) {
        const message *m = &f->messages[i];
        json_t *one = json_pack("{sIssss}", "line", (json_int_t)m->line, "severity",
                                severities[m->severity], "message", m->text);

        if (m->more)
            json_object_set_new(one, "more", json_integer((json_int_t)m->more));
        json_array_append_new(list, one);
    }
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
    const char *format; /* --format, or NULL */
    json_t *list;       /* NULL unless JSON is wanted */
    uint64_t limit;     /* messages of one kind; 0: all */
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

static bool has_lines(const map_file *f, const char *format)
{
    if (format)
        return convert_format_of(format) == CONVERT_HTTPD;
    return f->options.format == REDIRECT_FORMAT_AUTO &&
           redirect_map_is_httpd(f->name, f->bytes, f->len);
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
    f.kinds = message_kinds_create(c->limit, pool);
    f.terminal = isatty(STDERR_FILENO);
    readable = tool_read_file(f.name, &f.bytes, &f.len);
    if (readable && has_lines(&f, c->format)) {
        code = check_configuration(&f, c);
    } else if (readable) {
        unsigned hosts = 0;

        rv = build(&f);
        if (rv == APR_SUCCESS) {
            map_regexes_budget(f.regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
            rv = redirect_map_check(f.table, &f.report, pool);
            if (map_regexes_out_of_budget(f.regexes))
                tool_say("%s: its patterns take too long: not all of them were looked at for loops "
                         "and hidden rows",
                         name);
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

/* For a directory, the .htaccess files in it. */
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
    bool found;

    redirect_request_one_form(&asked, f->pool);
    asked.regex = map_regexes_match;
    asked.baton = f->regexes;
    map_regexes_budget(f->regexes, REDIRECT_REQUEST_STEPS, REDIRECT_REQUEST_MS);
    found = redirect_table_lookup(f->table, &asked, 0, match);
    if (!map_regexes_out_of_budget(f->regexes))
        return found;
    tool_say("%s: its patterns take too long for '%s', so the map has no match", f->name,
             request->path);
    return false;
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
    count = count < GROUPS_MAX ? count : GROUPS_MAX;
    if (f->lines) {
        h->location = convert_location(f->lines, &h->match, h->line, request, groups, count,
                                       f->pool, &h->refused);
        h->line = APR_ARRAY_IDX(f->lines->rules, h->line, convert_rule).rule.line;
    } else
        h->location =
            redirect_map_location(&h->match, request, groups, count, f->pool, &h->refused);
    return true;
}

/* The next request of a browser; false: none, or one that is not known to be for this map. */
static bool next_request(map_file *f, const hop *h, redirect_request *next)
{
    bool path = h->location && h->location[0] == '/';
    redirect_match match;
    redirect_rule rule;
    int status;

    if (!h->location || redirect_request_of(h->location, &f->server, next, &status, f->pool))
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
        printf(":%u: %d", (unsigned)hops[i].line, hops[i].match.profile.status);
        if (hops[i].location) {
            putchar(' ');
            tool_put(stdout, hops[i].location);
        }
        puts(hops[i].refused
                 ? " refused: what was captured would change the target's host, or make it too "
                   "long"
                 : "");
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
                                hops[i].match.profile.status, "refused", hops[i].refused);

        json_object_set_new(one, "location",
                            hops[i].location ? json_string(hops[i].location) : json_null());
        json_array_append_new(list, one);
    }
    return json_pack("{sosbso}", "file", tool_json_string(f->name), "found", n > 0, "answers",
                     list);
}

static void say_line(void *baton, redirect_severity severity, const char *file, uint32_t line,
                     const char *message)
{
    (void)baton;
    if (severity == REDIRECT_ERROR)
        tool_say("%s:%u: %s; lookup does not ask it", file, (unsigned)line, message);
}

/* Redirect and RewriteRule lines, as convert reads them. */
static apr_status_t read_lines(map_file *f)
{
    const char *slash = strrchr(f->name, '/');
    convert_place place = {.htaccess = !strcmp(slash ? slash + 1 : f->name, ".htaccess")};
    apr_status_t rv;

    f->lines = convert_list_create(f->pool, say_line, NULL);
    convert_read_config(f->lines, &place, f->name, f->bytes, f->len);
    rv = convert_build(f->lines, &f->image, &f->image_size);
    if (rv == APR_SUCCESS)
        f->table = redirect_table_open(f->image, f->image_size, f->pool);
    if (rv == APR_SUCCESS)
        redirect_table_info_get(f->table, &f->info);
    return rv;
}

/* A tool_exit. */
static int read_rows(map_file *f, const char *format)
{
    redirect_format taken = f->options.format;
    apr_status_t rv;

    if (!tool_read_file(f->name, &f->bytes, &f->len))
        return TOOL_USAGE;
    if (has_lines(f, format)) {
        rv = read_lines(f);
        return rv == APR_SUCCESS ? TOOL_GOOD : code_of(f, rv);
    }
    if (taken == REDIRECT_FORMAT_AUTO || taken == REDIRECT_FORMAT_CSV)
        taken = redirect_format_of(&f->options, f->name, f->bytes, f->len);
    rv = build(f);
    if (f->report.errors)
        tool_say("%s: %" U64 " error%s in the file, read as %s; see htcachectl check", f->name,
                 f->report.errors, plural(f->report.errors),
                 taken == REDIRECT_FORMAT_CLOUDFLARE
                     ? "cloudflare"
                     : convert_format_name((convert_format)(taken - REDIRECT_FORMAT_TEXT)));
    if (rv != APR_SUCCESS)
        return code_of(f, rv) == TOOL_FOUND ? TOOL_USAGE : code_of(f, rv);
    return TOOL_GOOD;
}

/* httpd answers before it asks any map. */
static int put_own_answer(const map_file *f, int status, const char *why, bool json)
{
    if (!json) {
        printf("no row answers: httpd answers %d itself: ", status);
        tool_put(stdout, why);
        putchar('\n');
        return TOOL_FOUND;
    }
    return tool_print_json(json_pack("{sosbs[]siss}", "file", tool_json_string(f->name), "found", 0,
                                     "answers", "status", status, "reason", why)) == TOOL_GOOD
               ? TOOL_FOUND
               : TOOL_USAGE;
}

static int look_up(map_file *f, const char *url, const tool_options *command)
{
    redirect_request request;
    hop hops[HOPS_MAX];
    int status, n, code;
    const char *why = redirect_request_of(url, &f->server, &request, &status, f->pool);

    if (why && !status) {
        tool_say("the URL cannot be used: %s", why);
        return TOOL_USAGE;
    }
    code = read_rows(f, command->format);
    if (code != TOOL_GOOD)
        return code;
    if (why)
        return put_own_answer(f, status, why, command->json);
    if (f->info.pattern && !map_regexes_available())
        tool_say("built without PCRE2: rows with patterns were not asked");
    n = follow(f, &request, command->follow, hops);
    if (command->json) {
        int written = tool_print_json(json_hops(f, hops, n));

        if (written != TOOL_GOOD)
            return written;
    } else
        print_hops(f, hops, n);
    return n > 0 && n < HOPS_MAX && !hops[n - 1].refused ? TOOL_GOOD : TOOL_FOUND;
}

bool tool_take_server(const tool_options *command, redirect_server *server)
{
    static const char *const slashes[] = {[REDIRECT_SLASHES_OFF] = "off",
                                          [REDIRECT_SLASHES_ON] = "on",
                                          [REDIRECT_SLASHES_NODECODE] = "nodecode"};
    const char *encoded = command->encoded_slashes, *merge = command->merge_slashes;

    *server = (redirect_server){.keep_runs = merge && !strcasecmp(merge, "off")};
    for (int i = 0; encoded && i < 3; i++) {
        if (!strcasecmp(encoded, slashes[i])) {
            server->encoded_slashes = (redirect_slashes)i;
            encoded = NULL;
        }
    }
    if (encoded)
        tool_say("--allow-encoded-slashes must be off, on or nodecode");
    else if (merge && !server->keep_runs && strcasecmp(merge, "on") != 0)
        tool_say("--merge-slashes must be on or off");
    else
        return true;
    return false;
}

int tool_lookup(const tool_options *command, apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 2, sizeof(const char *));
    redirect_map_options options;
    redirect_server server;
    map_file f;
    int code;

    if (!tool_take_words(command, &options, names, pool) || !tool_take_server(command, &server))
        return TOOL_USAGE;
    if (names->nelts != 2) {
        tool_say("lookup needs a file and a URL");
        return TOOL_USAGE;
    }
    begin_file(&f, APR_ARRAY_IDX(names, 0, const char *), &options, pool);
    f.server = server;
    code = look_up(&f, APR_ARRAY_IDX(names, 1, const char *), command);
    end_file(&f);
    return code;
}
