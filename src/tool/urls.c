/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl lookup --urls: a list of URLs against a file, a running server, or both. Called by
 * tool/lookup.c.
 */
#include "tool/urls.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- the list ---------------------------------------------------------------------------------*/

static bool is_status(const char *s)
{
    return apr_isdigit(s[0]) && apr_isdigit(s[1]) && apr_isdigit(s[2]) && !s[3];
}

static const char *text_of(map_text field, apr_pool_t *pool)
{
    return apr_pstrmemdup(pool, field.s, field.len);
}

static bool is_expectation(map_text field, apr_pool_t *pool)
{
    const char *s = text_of(field, pool);

    return *s == '/' || strstr(s, "://") || is_status(s) || !strcmp(s, "-");
}

#define NO_SEPARATOR '\x1f' /* stands in no URL */

/* What separates the columns of a list without a header: whatever puts a target or a status behind
 * a URL. Nothing does in a list of URLs alone, which may have commas. */
static char find_separator(const redirect_csv *start, apr_pool_t *pool)
{
    static const char separators[] = {'\t', ';', ',', ' '};

    for (redirect_csv line = *start; line.at < line.end; redirect_csv_skip_line(&line)) {
        for (size_t i = 0; i < sizeof(separators); i++) {
            redirect_csv one = line;

            one.separator = separators[i];
            if (!redirect_csv_next(&one) && one.fields > 1 &&
                (is_expectation(one.field[1], pool) ||
                 (!one.field[1].len && one.fields > 2 && is_expectation(one.field[2], pool))))
                return separators[i];
        }
    }
    return NO_SEPARATOR;
}

/* A host goes into a header, where a line's end would begin another one. */
static bool has_plain_host(const char *url)
{
    const char *host = strstr(url, "//");

    if (!host || (host != url && host[-1] != ':'))
        return true;
    for (const char *s = host + 2; *s && !strchr("/?#", *s); s++) {
        if ((unsigned char)*s <= ' ' || *s == 127)
            return false;
    }
    return true;
}

/* False: wrong, which was said. */
static bool take_row(const char *file, const redirect_csv *csv, apr_array_header_t *rows,
                     apr_pool_t *pool)
{
    url_row row = {.line = csv->line, .url = text_of(redirect_csv_field(csv, CSV_SOURCE), pool)};
    const char *target = text_of(redirect_csv_field(csv, CSV_TARGET), pool);
    const char *status = text_of(redirect_csv_field(csv, CSV_STATUS), pool);

    if (!*row.url || *row.url == '#')
        return true;
    if (csv->separator == NO_SEPARATOR && strchr(row.url, ' ')) {
        tool_say("%s:%u: what stands behind the URL in '%s' is neither a target nor a status; "
                 "separate columns by TAB, ';', ',' or a blank",
                 file, (unsigned)row.line, row.url);
        return false;
    }
    if (csv->separator == ' ' && *target &&
        !is_expectation(redirect_csv_field(csv, CSV_TARGET), pool)) {
        tool_say("%s:%u: '%s' is neither a target nor a status", file, (unsigned)row.line, target);
        return false;
    }
    if (!has_plain_host(row.url)) {
        tool_say("%s:%u: the host of '%s' has blanks or control characters", file,
                 (unsigned)row.line, row.url);
        return false;
    }
    if (is_status(target)) { /* "URL,301,TARGET", or "URL,410" */
        const char *other = status;

        status = target;
        target = other;
    }
    if (*status && !is_status(status)) {
        tool_say("%s:%u: '%s' is not a status", file, (unsigned)row.line, status);
        return false;
    }
    row.target = *target && strcmp(target, "-") != 0 ? target : NULL;
    row.status = *status ? atoi(status) : 0;
    APR_ARRAY_PUSH(rows, url_row) = row;
    return true;
}

static void note_unused(const char *file, const redirect_csv *csv, apr_pool_t *pool)
{
    for (unsigned i = 0; i < csv->fields && i < CSV_FIELDS_MAX; i++) {
        if (i != csv->column[CSV_SOURCE] && i != csv->column[CSV_TARGET] &&
            i != csv->column[CSV_STATUS] && csv->field[i].len)
            tool_say("%s:%u: note: column '%s' is not used", file, (unsigned)csv->line,
                     text_of(csv->field[i], pool));
    }
}

/* Opens the list at its first row. False: the names of its columns are unknown, which was said. */
static bool begin_list(const tool_options *command, redirect_csv *csv, apr_pool_t *pool)
{
    redirect_csv start = *csv;
    redirect_map_options options;
    const char *why;

    redirect_map_options_init(&options);
    why = redirect_map_option(
        &options, apr_pstrcat(pool, "columns=", command->columns ? command->columns : "", NULL),
        pool);
    if (why) {
        tool_say("%s", why);
        return false;
    }
    switch (redirect_csv_find_header(csv, command->columns)) {
    case CSV_HEADER_KNOWN:
        note_unused(command->urls, csv, pool);
        return true;
    case CSV_HEADER_UNKNOWN:
        if (csv->fields == 1)
            tool_say("%s:%u: the columns are not found: ',', ';' or TAB separates them, or what a "
                     "first line such as 'sep=|' says. No URL was read",
                     command->urls, (unsigned)csv->line);
        else
            tool_say(
                "%s:%u: the names of the columns are not known; say what they are, as in "
                "--columns source,target,status with '-' for what is not needed, or rename them. "
                "No URL was read",
                command->urls, (unsigned)csv->line);
        return false;
    default:
        if (command->columns)
            return true;
        start.at = csv->at;
        start.next_line = csv->next_line;
        *csv = start;
        if (!csv->separator)
            csv->separator = find_separator(csv, pool);
        return true;
    }
}

/* NULL: the list cannot be used, which was said. */
static apr_array_header_t *read_list(const tool_options *command, apr_pool_t *pool)
{
    const char *file = command->urls;
    char *bytes, *room = apr_palloc(pool, (size_t)3 * (REDIRECT_MAX_TEXT + 1));
    char *const rooms[3] = {room, room + REDIRECT_MAX_TEXT + 1,
                            room + (size_t)2 * (REDIRECT_MAX_TEXT + 1)};
    apr_array_header_t *rows = apr_array_make(pool, 64, sizeof(url_row));
    redirect_csv csv;
    size_t len, skip;
    bool good;

    if (!tool_read_file(file, &bytes, &len))
        return NULL;
    skip = len >= 3 && !memcmp(bytes, "\xEF\xBB\xBF", 3) ? 3 : 0;
    redirect_csv_open(&csv, bytes + skip, len - skip, rooms, REDIRECT_MAX_TEXT);
    good = begin_list(command, &csv, pool);
    while (good && csv.at < csv.end) {
        const char *why = redirect_csv_next(&csv);

        if (why)
            tool_say("%s:%u: %s", file, (unsigned)csv.line, why);
        good = !why && take_row(file, &csv, rows, pool);
    }
    free(bytes);
    return good ? rows : NULL;
}

/* --- answers ----------------------------------------------------------------------------------*/

static void look_up(map_file *f, url_row *row, apr_pool_t *pool)
{
    redirect_request request;
    map_hop hop = {.refused = false};
    int status = 0;
    const char *why = redirect_request_of(row->url, &f->server, &request, &status, pool);

    if (why && status) /* httpd answers before it asks any map */
        row->map.status = status;
    else if (why)
        row->map.why = why;
    else if (map_file_ask(f, &request, &hop) && !hop.refused) {
        row->map.status = hop.match.profile.status;
        row->map.line = hop.line;
        row->map.location = hop.location ? apr_pstrdup(pool, hop.location) : NULL;
    }
}

/* The length of "scheme://host[:port]" if the URL is absolute and of this host; else 0. */
static size_t own_origin(const char *url, const char *host, size_t host_len)
{
    const char *scheme = strstr(url, "://"), *s;

    if (*url == '/' || !scheme || !host_len)
        return 0;
    s = scheme + 3;
    if (strncasecmp(s, host, host_len) != 0 || !strchr(":/?#", s[host_len]))
        return 0;
    return (size_t)(s - url) + strcspn(s, "/?#");
}

/* A path leads to the same place as a URL with the host that was asked: httpd completes it. @a url
 * has this host; without one, only the same text is the same place. */
static bool same_place(const char *a, const char *b, const char *url)
{
    const char *host = strstr(url, "//");
    size_t len = 0, skip_a, skip_b;

    if (host && (host == url || host[-1] == ':')) {
        host += 2;
        len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    }
    skip_a = *b == '/' ? own_origin(a, host, len) : 0;
    skip_b = *a == '/' ? own_origin(b, host, len) : 0;
    a += skip_a;
    b += skip_b;
    if (skip_a || skip_b) {
        a = *a ? a : "/";
        b = *b ? b : "/";
    }
    return !strcmp(a, b);
}

/* As a map sends it, which the list need not know; with capitals in escapes, as %c3 is %C3 (RFC 3986,
 * 6.2.2.1). */
static const char *encoded(const char *target, apr_pool_t *pool)
{
    size_t len = strlen(target);
    char *to = apr_palloc(pool, 3 * len + 1);

    to[redirect_map_encode(target, len, to)] = '\0';
    for (char *p = strchr(to, '%'); p; p = strchr(p + 1, '%')) {
        if (apr_isxdigit(p[1]) && apr_isxdigit(p[2])) {
            p[1] = (char)apr_toupper(p[1]);
            p[2] = (char)apr_toupper(p[2]);
        }
    }
    return to;
}

static const char *say_answer(int status, const char *location, apr_pool_t *pool)
{
    if (!status && !location)
        return "no redirect";
    return apr_psprintf(pool, "%s%s%s", status ? apr_itoa(pool, status) : "",
                        status && location ? " " : "", location ? location : "");
}

static bool is_redirect(int status)
{
    return status >= 300 && status < 400;
}

/* The row's answer: of the server, if one was asked. */
static const url_answer *answer_of(const url_row *row, bool server)
{
    return server ? &row->server : &row->map;
}

/* @a server is its address, or NULL: a URL without a host is asked there. */
static void judge(url_row *row, bool map, const char *server, apr_pool_t *pool)
{
    const char *asked = *row->url == '/' && row->url[1] != '/' && server ? server : row->url;
    const url_answer *got = answer_of(row, server != NULL);
    bool given = row->target || row->status;
    const char *target = given ? row->target : row->map.location;
    int status = given ? row->status : row->map.status;

    if (got->why)
        row->differs = given ? say_answer(status, target, pool) : "an answer";
    else if (!given && !server)
        row->differs = got->status ? NULL : "an answer";
    else if (!given && !map)
        row->differs = got->status < 400 ? NULL : "an answer below 400";
    else if (!status && !target)
        row->differs = is_redirect(got->status) ? "no redirect"
                       : got->status >= 500     ? "an answer below 500"
                                                : NULL;
    else if (target ? !got->location ||
                          !same_place(encoded(target, pool), encoded(got->location, pool), asked)
                    : is_redirect(status) != (got->location != NULL) && !given)
        row->differs = say_answer(status, target, pool);
    else if (status && status != got->status &&
             !(!server && !got->status && !is_redirect(status) &&
               (status < 300 || status == 404))) /* no row answers, so httpd goes on */
        row->differs = say_answer(status, target, pool);
}

/* --- output -----------------------------------------------------------------------------------*/

static const char *reason_of(const url_answer *got, bool server)
{
    return got->why ? got->why : server || got->status ? "" : "no row answers";
}

static void print_csv(const url_row *row, const url_answer *got, bool server)
{
    printf("%u,", (unsigned)row->line);
    tool_put_csv(stdout, row->url);
    putchar(',');
    tool_put_csv(stdout, row->differs);
    if (got->status)
        printf(",%d,", got->status);
    else
        fputs(",,", stdout);
    tool_put_csv(stdout, got->location ? got->location : "");
    putchar(',');
    tool_put_csv(stdout, reason_of(got, server));
    putchar('\n');
}

static json_t *json_string_or_null(const char *s)
{
    return s ? tool_json_string(s) : json_null();
}

static json_t *json_row(const url_row *row, const url_answer *got)
{
    json_t *one = json_pack("{sIsososisoso}", "line", (json_int_t)row->line, "url",
                            tool_json_string(row->url), "expected", tool_json_string(row->differs),
                            "status", got->status, "location", json_string_or_null(got->location),
                            "reason", json_string_or_null(got->why));

    json_object_set_new(one, "map_line", json_integer(redirect_line_number(row->map.line)));
    if (row->map.line & REDIRECT_BY_ROW)
        json_object_set_new(one, "map_by_row", json_true());
    return one;
}

static void print_row(const tool_options *o, const map_file *f, const url_row *row,
                      const url_answer *got, apr_pool_t *pool)
{
    const char *why = reason_of(got, o->server != NULL);

    tool_put(stdout, o->urls);
    printf(":%u: ", (unsigned)row->line);
    tool_put(stdout, row->url);
    printf(": expected ");
    tool_put(stdout, row->differs);
    printf(", got ");
    tool_put(stdout, *why ? why : say_answer(got->status, got->location, pool));
    if (row->map.line && f) {
        printf(" (");
        tool_put_place(stdout, f->name, row->map.line);
        putchar(')');
    }
    putchar('\n');
}

static int put_differences(const tool_options *o, const map_file *f, const apr_array_header_t *rows,
                           apr_pool_t *pool)
{
    json_t *list = o->json ? json_array() : NULL;
    int differ = 0;

    if (o->csv)
        puts("line,url,expected,status,target,reason");
    for (int i = 0; i < rows->nelts; i++) {
        const url_row *row = &APR_ARRAY_IDX(rows, i, url_row);
        const url_answer *got = answer_of(row, o->server != NULL);

        if (!row->differs)
            continue;
        differ++;
        if (list)
            json_array_append_new(list, json_row(row, got));
        else if (o->csv)
            print_csv(row, got, o->server != NULL);
        else
            print_row(o, f, row, got, pool);
    }
    if (list && tool_print_json(json_pack("{sosisiso}", "urls", tool_json_string(o->urls), "asked",
                                          rows->nelts, "different", differ, "differences", list)) !=
                    TOOL_GOOD)
        return TOOL_USAGE;
    if (!list && !o->csv)
        printf("%d URL%s: %d as expected, %d not\n", rows->nelts, rows->nelts == 1 ? "" : "s",
               rows->nelts - differ, differ);
    return differ ? TOOL_FOUND : TOOL_GOOD;
}

int tool_lookup_urls(const tool_options *command, map_file *map, apr_pool_t *pool)
{
    apr_array_header_t *rows = read_list(command, pool);
    url_row *row = rows ? (url_row *)rows->elts : NULL;

    if (!rows)
        return TOOL_USAGE;
    if (!rows->nelts) {
        tool_say("%s: there is no URL in it", command->urls);
        return TOOL_USAGE;
    }
    for (int i = 0; map && i < rows->nelts; i++)
        look_up(map, &row[i], pool);
    if (command->server) {
        int code = urls_ask(row, (size_t)rows->nelts, command->server, pool);

        if (code != TOOL_GOOD)
            return code;
    }
    for (int i = 0; i < rows->nelts; i++)
        judge(&row[i], map != NULL, command->server, pool);
    return put_differences(command, map, rows, pool);
}
