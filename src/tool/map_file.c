/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Redirect maps and configurations as htcachectl reads them. Called by its commands.
 */
#include "tool/map_file.h"
#include "base/base.h"
#include "maps/maps.h"

#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUPS_MAX 10
#define CHECK_MOST UINT64_C(100000000) /* rows that are compared: some seconds */

const char *const map_severities[] = {
    [REDIRECT_NOTE] = "note", [REDIRECT_WARNING] = "warning", [REDIRECT_ERROR] = "error"};

/* --- the command line ------------------------------------------------------------------------- */

static bool is_option(const char *word)
{
    static const char *const keys[] = {
        "format=", "query=", "case=",       "slash=",   "subpath=",      "status=",
        "host=",   "strip=", "configtest=", "columns=", "unacceptable=", "country_from="};

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
    if (command->format && convert_format_of(command->format) < 0 &&
        strcasecmp(command->format, "auto") != 0)
        why = apr_psprintf(pool,
                           "--format=%s: must be text, csv, netlify, nginx, json, cloudflare, "
                           "vercel or httpd",
                           command->format);
    else if (command->format && convert_format_of(command->format) != CONVERT_HTTPD)
        why =
            redirect_map_option(options, apr_pstrcat(pool, "format=", command->format, NULL), pool);
    if (command->columns && !command->urls && !why) /* those are the list's */
        why = redirect_map_option(options, apr_pstrcat(pool, "columns=", command->columns, NULL),
                                  pool);
    for (int i = 0; i < command->words && !why; i++) {
        if (is_option(command->word[i]))
            why = redirect_map_option(options, command->word[i], pool);
        else
            APR_ARRAY_PUSH(names, const char *) = command->word[i];
    }
    if (why)
        tool_say("%s", why);
    return !why;
}

/* --- messages --------------------------------------------------------------------------------- */

static void keep_message(map_file *f, redirect_severity severity, uint32_t line, const char *text)
{
    map_message *grown;

    if (f->count == f->capacity) {
        f->capacity = f->capacity ? 2 * f->capacity : 64;
        grown = realloc(f->messages, f->capacity * sizeof(*grown));
        if (!grown)
            abort();
        f->messages = grown;
    }
    f->messages[f->count] = (map_message){line, (uint32_t)f->count, severity, strdup(text), 0};
    if (!f->messages[f->count].text)
        abort();
    f->count++;
}

void map_file_collect(void *baton, redirect_severity severity, uint32_t line, const char *text)
{
    map_file *f = baton;
    message_kind *kind;
    bool told;

    if (!f->keep_notes)
        return;
    kind = message_kinds_count(f->kinds, severity, f->name, line, text, &told);
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
    const map_message *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void map_file_sort(map_file *f)
{
    if (f->count)
        qsort(f->messages, f->count, sizeof(*f->messages), compare);
}

static bool show_progress(void *baton, uint64_t done, uint64_t total)
{
    map_file *f = baton;

    if (f->shows)
        tool_work_done(&f->work, done, total);
    return true;
}

/* --- files -------------------------------------------------------------------------------------
 */

void map_file_begin(map_file *f, const char *name, const redirect_map_options *options,
                    apr_pool_t *pool)
{
    memset(f, 0, sizeof(*f));
    f->name = name;
    f->options = *options;
    f->pool = pool;
    f->work = tool_work_begin(name);
    f->regexes = map_regexes_create(pool);
    f->report.fn = map_file_collect;
    f->report.baton = f;
    f->report.progress = show_progress;
    f->report.check_most = CHECK_MOST;
    f->report.compile = map_regexes_try;
    f->report.regex = map_regexes_match;
    f->report.regex_baton = f->regexes;
    f->report.groups = map_regexes_find_groups;
}

void map_file_end(map_file *f)
{
    for (size_t i = 0; i < f->count; i++)
        free(f->messages[i].text);
    free(f->messages);
    free(f->bytes);
    free(f->image);
}

/* APR_EGENERAL: has been reported. */
apr_status_t map_file_build(map_file *f)
{
    apr_status_t rv = redirect_map_build(&f->options, f->name, f->bytes, f->len, &f->report,
                                         f->pool, &f->image, &f->image_size);

    if (rv != APR_SUCCESS)
        return rv;
    f->table = redirect_table_open(f->image, f->image_size, f->pool);
    redirect_table_info_get(f->table, &f->info);
    return APR_SUCCESS;
}

/* --- reading ----------------------------------------------------------------------------------*/

static bool is_httpd(const map_file *f, const char *format)
{
    if (format)
        return convert_format_of(format) == CONVERT_HTTPD;
    return f->options.format == REDIRECT_FORMAT_AUTO && !f->options.columns &&
           redirect_map_is_httpd(f->name, f->bytes, f->len);
}

const char *map_format_name(const redirect_map_options *options, bool httpd, const char *name,
                            const char *bytes, size_t len)
{
    static const char *const names[] = {
        [REDIRECT_FORMAT_TEXT] = "text",       [REDIRECT_FORMAT_CSV] = "csv",
        [REDIRECT_FORMAT_NETLIFY] = "netlify", [REDIRECT_FORMAT_NGINX] = "nginx",
        [REDIRECT_FORMAT_JSON] = "json",       [REDIRECT_FORMAT_CLOUDFLARE] = "cloudflare"};

    return httpd ? "httpd" : names[redirect_format_of(options, name, bytes, len)];
}

const char *map_file_format(const map_file *f)
{
    return map_format_name(&f->options, f->httpd, f->name, f->bytes, f->len);
}

/* A name that everybody reads as the format. */
static bool says_itself(const char *name, const char *format)
{
    static const struct {
        const char *end, *format;
    } ends[] = {{".csv", "csv"},        {".tsv", "csv"},         {".json", "json"},
                {".jsonl", "json"},     {".txt", "text"},        {"_redirects", "netlify"},
                {".htaccess", "httpd"}, {"httpd.conf", "httpd"}, {"apache2.conf", "httpd"}};
    size_t len = strlen(name);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t n = strlen(ends[i].end);

        if (len >= n && !strcasecmp(name + len - n, ends[i].end))
            return !strcmp(format, ends[i].format);
    }
    return false;
}

void map_say_format(const char *name, const char *format)
{
    if (!says_itself(name, format))
        tool_say("%s: read as %s (--format names another)", name, format);
}

bool map_file_read(map_file *f, const char *format)
{
    if (!tool_read_file(f->name, &f->bytes, &f->len))
        return false;
    f->httpd = is_httpd(f, format);
    if (!format && f->options.format == REDIRECT_FORMAT_AUTO)
        map_say_format(f->name, map_file_format(f));
    return true;
}

int map_file_code(const map_file *f, apr_status_t rv)
{
    char text[120];

    if (rv != APR_SUCCESS && rv != APR_EGENERAL) {
        tool_say("%s: %s", f->name, apr_strerror(rv, text, sizeof(text)));
        return TOOL_USAGE;
    }
    return rv != APR_SUCCESS || f->report.errors ? TOOL_FOUND : TOOL_GOOD;
}

void map_say_unasked(void *baton, redirect_severity severity, const char *file, uint32_t line,
                     const char *message)
{
    bool told;

    if (severity != REDIRECT_ERROR)
        return;
    message_kinds_count(baton, severity, file, line, message, &told);
    if (told)
        tool_say("%s:%s%u: %s; it is not asked", file, redirect_line_prefix(line),
                 redirect_line_number(line), message);
}

void map_say_more_unasked(const message_kinds *kinds, const char *name)
{
    const apr_array_header_t *all = message_kinds_all(kinds);
    uint64_t more = 0;

    for (int i = 0; i < all->nelts; i++)
        more += APR_ARRAY_IDX(all, i, message_kind *)->more;
    if (more)
        tool_say("%s: %" U64 " more lines are not asked, for the same reasons", name, more);
}

/* Redirect and RewriteRule lines, as convert reads them. */
static apr_status_t load_lines(map_file *f)
{
    convert_place place = {.htaccess = map_is_htaccess(f->name)};
    message_kinds *kinds = message_kinds_create(1, f->pool);
    apr_status_t rv;

    f->lines = convert_list_create(f->pool, map_say_unasked, kinds);
    convert_read_config(f->lines, &place, f->name, f->bytes, f->len);
    map_say_more_unasked(kinds, f->name);
    rv = convert_build(f->lines, &f->image, &f->image_size);
    if (rv == APR_SUCCESS)
        f->table = redirect_table_open(f->image, f->image_size, f->pool);
    if (rv == APR_SUCCESS)
        redirect_table_info_get(f->table, &f->info);
    return rv;
}

bool map_is_htaccess(const char *name)
{
    const char *slash = strrchr(name, '/');

    return !strcmp(slash ? slash + 1 : name, ".htaccess");
}

int map_file_load(map_file *f, const char *format)
{
    apr_status_t rv;

    if (!map_file_read(f, format))
        return TOOL_USAGE;
    if (f->httpd) {
        rv = load_lines(f);
        return rv == APR_SUCCESS ? TOOL_GOOD : map_file_code(f, rv);
    }
    rv = map_file_build(f);
    tool_work_end(&f->work);
    if (f->report.errors)
        tool_say("%s: %" U64 " error%s in the file, read as %s; see htcachectl check %s", f->name,
                 f->report.errors, f->report.errors == 1 ? "" : "s", map_file_format(f),
                 htc_shell_word(f->pool, f->name));
    if (rv != APR_SUCCESS)
        return map_file_code(f, rv) == TOOL_FOUND ? TOOL_USAGE : map_file_code(f, rv);
    return TOOL_GOOD;
}

/* --- asking -----------------------------------------------------------------------------------*/

/* Of --header. */
static const char *field_of(void *baton, const char *name)
{
    const map_file *f = baton;

    return f->headers ? apr_table_get(f->headers, name) : NULL;
}

bool map_file_find(map_file *f, const redirect_request *request, redirect_match *match)
{
    redirect_request asked = *request;
    bool found;

    redirect_request_one_form(&asked, f->pool);
    asked.regex = map_regexes_match;
    asked.baton = f->regexes;
    asked.steps = map_regexes_steps(f->regexes);
    redirect_conditions_begin(&f->conditions, f->pool, field_of, f);
    f->conditions.method = f->method;
    f->conditions.query =
        request->query ? apr_pstrmemdup(f->pool, request->query, request->query_len) : NULL;
    f->conditions.country = f->country;
    asked.judge = &f->conditions.judge;
    asked.judge->most = REDIRECT_REQUEST_STEPS;
    map_regexes_budget(f->regexes, REDIRECT_REQUEST_STEPS, REDIRECT_REQUEST_MS);
    found = redirect_table_lookup(f->table, &asked, 0, match);
    if (!map_regexes_out_of_budget(f->regexes) && !redirect_judge_is_over(asked.judge))
        return found;
    f->conditions.not_acceptable = false;
    tool_say("%s: its patterns or conditions take too long for '%s', so the map has no match",
             f->name, request->path);
    return false;
}

/* Does a row answer? */
bool map_file_ask(map_file *f, const redirect_request *request, map_hop *h)
{
    redirect_group groups[GROUPS_MAX];
    int count;

    if (!map_file_find(f, request, &h->match))
        return false;
    h->request = *request;
    h->line = redirect_table_line(f->table, h->match.rule, NULL);
    count =
        map_regexes_groups(f->regexes, &h->match, redirect_path_one_form(request->path, f->pool),
                           request->path_len, groups, GROUPS_MAX);
    count = count < GROUPS_MAX ? count : GROUPS_MAX;
    h->location = redirect_map_location(&h->match, request, groups, count, f->pool, &h->refused);
    if (f->lines)
        h->line = APR_ARRAY_IDX(f->lines->rules, h->line, convert_rule).rule.line;
    return true;
}

/* --- messages, printed -------------------------------------------------------------------------*/

void map_file_print(const map_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        tool_put_place(stdout, f->name, f->messages[i].line);
        printf(": %s: %s\n", map_severities[f->messages[i].severity], f->messages[i].text);
        if (!f->messages[i].more)
            continue;
        tool_put(stdout, f->name);
        printf(": %s: and %" APR_UINT64_T_FMT " more of this kind\n",
               map_severities[f->messages[i].severity], f->messages[i].more);
    }
}

json_t *map_file_json(const map_file *f)
{
    json_t *list = json_array();

    for (size_t i = 0; i < f->count; i++) {
        const map_message *m = &f->messages[i];
        json_t *one = tool_json_place(json_object(), m->line);

        json_object_set_new(one, "severity", json_string(map_severities[m->severity]));
        json_object_set_new(one, "message", json_string(m->text));
        if (m->more)
            json_object_set_new(one, "more", json_integer((json_int_t)m->more));
        json_array_append_new(list, one);
    }
    return list;
}
