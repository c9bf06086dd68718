/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lists of redirects: read from maps, built into a table, asked; and what is common to the writers
 * of all formats. Called by htcachectl convert; the writers are in tool/convert_write.c.
 */
#include "tool/convert_internal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

static const struct {
    const char *name;
    convert_format format;
} formats[] = {{"text", CONVERT_TEXT},
               {"csv", CONVERT_CSV},
               {"netlify", CONVERT_NETLIFY},
               {"nginx", CONVERT_NGINX},
               {"json", CONVERT_JSON},
               {"httpd", CONVERT_HTTPD},
               {"cloudflare", CONVERT_CLOUDFLARE},
               {"vercel", CONVERT_VERCEL},
               {"txt", CONVERT_TEXT},
               {"apache", CONVERT_HTTPD}};

int convert_format_of(const char *name)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        if (!strcasecmp(name, formats[i].name))
            return (int)formats[i].format;
    }
    return -1;
}

const char *convert_format_name(convert_format format)
{
    size_t i = 0;

    while (formats[i].format != format)
        i++;
    return formats[i].name;
}

redirect_format convert_reader_of(convert_format format)
{
    static const redirect_format readers[] = {[CONVERT_TEXT] = REDIRECT_FORMAT_TEXT,
                                              [CONVERT_CSV] = REDIRECT_FORMAT_CSV,
                                              [CONVERT_NETLIFY] = REDIRECT_FORMAT_NETLIFY,
                                              [CONVERT_NGINX] = REDIRECT_FORMAT_NGINX,
                                              [CONVERT_JSON] = REDIRECT_FORMAT_JSON,
                                              [CONVERT_VERCEL] = REDIRECT_FORMAT_JSON,
                                              [CONVERT_CLOUDFLARE] = REDIRECT_FORMAT_CLOUDFLARE};

    return readers[format];
}

convert_list *convert_list_create(apr_pool_t *pool, convert_say_fn *say, void *baton)
{
    convert_list *list = apr_pcalloc(pool, sizeof(*list));

    list->pool = pool;
    list->rules = apr_array_make(pool, 64, sizeof(convert_rule));
    list->no_rules = apr_array_make(pool, 4, sizeof(convert_row));
    list->faults = apr_array_make(pool, 4, sizeof(convert_row));
    list->waiting = apr_array_make(pool, 4, sizeof(convert_loss));
    list->say = say;
    list->baton = baton;
    return list;
}

/* --- reports ----------------------------------------------------------------------------------*/

typedef struct forward {
    convert_list *list;
    const char *file;
    bool shared; /* several rows may stand in a line */
} forward;

static void pass_on(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    forward *f = baton;

    f->list->losses += severity == REDIRECT_ERROR;
    f->list->say(f->list->baton, severity, f->file, line, message);
}

/* redirect_report_say() escapes what is not printable. */
static void report(convert_list *list, redirect_severity severity, const char *file, uint32_t line,
                   const char *text)
{
    forward to = {list, file, false};
    redirect_report r = {.fn = pass_on, .baton = &to};

    redirect_report_say(&r, severity, line, "%s", text);
}

void convert_report(convert_list *list, redirect_severity severity, const char *file, uint32_t line,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report(list, severity, file, line, apr_pvsprintf(list->pool, format, args));
    va_end(args);
}

/* --- reading maps -----------------------------------------------------------------------------*/

static const char *keep(apr_pool_t *pool, const char *s, size_t len)
{
    return s ? apr_pstrmemdup(pool, s, len) : NULL;
}

static uint32_t part_of(const forward *f)
{
    return f->shared ? ++f->list->parts : 0;
}

static void take_rule(const forward *f, const redirect_rule *from)
{
    convert_list *list = f->list;
    convert_rule *to = apr_array_push(list->rules);

    *to = (convert_rule){.rule = *from, .file = f->file, .part = part_of(f)};
    to->rule.source = keep(list->pool, from->source, from->source_len);
    to->rule.pattern = keep(list->pool, from->pattern, from->pattern_len);
    to->rule.host = keep(list->pool, from->host, from->host_len);
    to->rule.query = keep(list->pool, from->query, from->query_len);
    to->rule.strip = keep(list->pool, from->strip, from->strip_len);
    to->rule.target = keep(list->pool, from->target, from->target_len);
    to->rule.condition = keep(list->pool, from->condition, from->condition_len);
}

/* An error is a row that cannot be read, or not all of it. */
static void pass_read(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    forward *f = baton;

    if (severity == REDIRECT_ERROR) {
        convert_row row = {f->file, line, part_of(f)};

        convert_no_rule(f->list, &row);
        APR_ARRAY_PUSH(f->list->faults, convert_row) = row;
    }
    pass_on(baton, severity, line, message);
}

static void pass_hidden(void *baton, uint32_t line, uint32_t by)
{
    forward *f = baton;

    convert_no_rule(f->list, &(convert_row){f->file, line, part_of(f)});
    if (f->list->hidden)
        f->list->hidden(f->list->hidden_baton, line, by);
}

/* A row with the same key is written the same, or answers the same. */
static const char *key_of(apr_pool_t *pool, const redirect_rule *rule, apr_ssize_t *len)
{
    size_t literal = rule->source_len, pattern = rule->pattern ? rule->pattern_len : 0,
           target = rule->target ? rule->target_len : 0;
    char *key = apr_palloc(pool, 3 * sizeof(size_t) + literal + pattern + target), *to = key;
    size_t numbers[3] = {rule->line, literal, pattern};

    memcpy(to, numbers, sizeof(numbers));
    to += sizeof(numbers);
    memcpy(to, rule->source, literal);
    to += literal;
    if (pattern)
        memcpy(to, rule->pattern, pattern);
    to += pattern;
    if (target)
        memcpy(to, rule->target, target);
    *len = (apr_ssize_t)(to + target - key);
    return key;
}

typedef struct written_row {
    const char *source, *target;
} written_row;

typedef struct written_rows {
    apr_pool_t *pool;
    apr_hash_t *by_key;
} written_rows;

static void keep_written(void *baton, const redirect_rule *rule, map_text source, map_text target)
{
    written_rows *rows = baton;
    written_row *row = apr_palloc(rows->pool, sizeof(*row));
    apr_ssize_t len;
    const char *key = key_of(rows->pool, rule, &len);

    row->source = apr_pstrmemdup(rows->pool, source.s, source.len);
    row->target = target.len ? apr_pstrmemdup(rows->pool, target.s, target.len) : NULL;
    apr_hash_set(rows->by_key, key, len, row);
}

static void take_written(convert_list *list, const written_rows *rows)
{
    convert_rule *r = &APR_ARRAY_IDX(list->rules, list->rules->nelts - 1, convert_rule);
    const written_row *row;
    apr_ssize_t len;
    const char *key;

    if (!apr_hash_count(rows->by_key))
        return;
    key = key_of(list->pool, &r->rule, &len);
    row = apr_hash_get(rows->by_key, key, len);
    if (!row)
        return;
    r->written = row->source;
    r->written_target = row->target;
    r->made_target = r->rule.target;
}

apr_status_t convert_read_map(convert_list *list, const redirect_map_options *options,
                              const char *file, const char *bytes, size_t len)
{
    forward to = {list, file,
                  redirect_format_of(options, file, bytes, len) == REDIRECT_FORMAT_NGINX};
    written_rows rows = {list->pool, apr_hash_make(list->pool)};
    redirect_report r = {.fn = pass_read,
                         .written = keep_written,
                         .written_baton = &rows,
                         .baton = &to,
                         .compile = list->compile,
                         .hidden = pass_hidden,
                         .hidden_baton = &to};
    void *image;
    size_t size;
    apr_status_t rv = redirect_map_build(options, file, bytes, len, &r, list->pool, &image, &size);
    const redirect_table *table;
    char *buffer;

    if (r.json.keys || r.json.in_object)
        list->json = r.json;
    if (rv != APR_SUCCESS)
        return rv;
    table = redirect_table_open(image, size, list->pool);
    buffer = apr_palloc(list->pool, REDIRECT_RULE_ROOM);
    for (uint32_t i = redirect_table_next(table, 0); i; i = redirect_table_next(table, i)) {
        redirect_rule rule;

        redirect_table_rule(table, i, &rule, buffer, NULL);
        take_rule(&to, &rule);
        take_written(list, &rows);
    }
    free(image);
    return APR_SUCCESS;
}

/* --- asking -----------------------------------------------------------------------------------*/

/* As they go into a table: the line of each is its index in the list. */
static redirect_rule *rules_of(const convert_list *list, apr_pool_t *pool)
{
    size_t n = (size_t)list->rules->nelts;
    redirect_rule *rules = apr_palloc(pool, (n + 1) * sizeof(*rules));

    for (size_t i = 0; i < n; i++) {
        rules[i] = APR_ARRAY_IDX(list->rules, i, convert_rule).rule;
        rules[i].line = (uint32_t)i;
        if (redirect_kind_has_pattern(rules[i].kind))
            redirect_map_set_literals(&rules[i], pool);
    }
    return rules;
}

static apr_status_t add_rules(redirect_builder *builder, const redirect_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        switch (redirect_builder_add(builder, &rules[i])) {
        case REDIRECT_ADDED:
            break;
        case REDIRECT_TOO_BIG:
            return APR_ENOSPC;
        case REDIRECT_NO_MEMORY:
            return APR_ENOMEM;
        default:
            return APR_EINVAL;
        }
    }
    return APR_SUCCESS;
}

apr_status_t convert_build(const convert_list *list, void **image, size_t *size)
{
    size_t n = (size_t)list->rules->nelts;
    redirect_builder *builder = redirect_builder_create(n, 0);
    apr_status_t rv = APR_ENOMEM;
    apr_pool_t *pool;

    *image = NULL;
    apr_pool_create(&pool, list->pool);
    if (builder)
        rv = add_rules(builder, rules_of(list, pool), n);
    apr_pool_destroy(pool);
    if (rv == APR_SUCCESS)
        rv = redirect_builder_finish(builder, NULL, NULL, size);
    if (rv == APR_SUCCESS && !(*image = malloc(*size ? *size : 1)))
        rv = APR_ENOMEM;
    if (rv == APR_SUCCESS)
        redirect_builder_write(builder, *image);
    if (builder)
        redirect_builder_destroy(builder);
    return rv;
}

/* --- what rules need --------------------------------------------------------------------------*/

size_t convert_target_path(const char *target, size_t len)
{
    size_t n = 0;

    while (n < len && target[n] != '?' && target[n] != '#')
        n++;
    return n;
}

bool convert_has_query(const convert_rule *r)
{
    size_t n = r->rule.target ? convert_target_path(r->rule.target, r->rule.target_len) : 0;

    return n < r->rule.target_len && r->rule.target[n] == '?';
}

convert_wants convert_wants_of(const convert_rule *r)
{
    const redirect_rule *rule = &r->rule;
    convert_wants wants = {.ignore_case = rule->flags & REDIRECT_ICASE,
                           .ignore_slash = rule->flags & REDIRECT_ANY_SLASH,
                           .subpath = rule->kind == REDIRECT_PREFIX};
    bool appends = rule->target && rule->options & REDIRECT_OPT_APPEND_QUERY;

    if (rule->flags & REDIRECT_QUERY_EXACT)
        wants.query = REDIRECT_QUERY_WHOLE;
    else if (!rule->query && rule->target && !convert_has_query(r))
        wants.query = appends ? REDIRECT_QUERY_APPEND : REDIRECT_QUERY_DROP;
    if (rule->strip && (wants.query == REDIRECT_QUERY_APPEND || (rule->query && !wants.query)))
        wants.strip = rule->strip;
    return wants;
}

static bool same_strip(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static int most_frequent_status(const convert_list *list)
{
    unsigned counts[1000] = {0};
    int most = 302;

    for (int i = 0; i < list->rules->nelts; i++) {
        int status = APR_ARRAY_IDX(list->rules, i, convert_rule).rule.status;

        if (status > 0 && status < 1000 && status < 400 && ++counts[status] > counts[most])
            most = status;
    }
    return most;
}

/* The value of each kind that all rules agree on, or else the usual one. */
void convert_choose_options(convert_writer *w, unsigned kinds)
{
    const convert_list *list = w->list;
    redirect_map_options *map = &w->map;
    bool all_drop = true, all_append = true, all_whole = true, asked = false, strips = true;
    bool icase = list->rules->nelts > 0, slash = icase, subpath = icase;

    for (int i = 0; i < list->rules->nelts; i++) {
        convert_wants wants = convert_wants_of(&APR_ARRAY_IDX(list->rules, i, convert_rule));

        asked |= wants.query != REDIRECT_QUERY_DEFAULT;
        all_append &= wants.query != REDIRECT_QUERY_DROP && wants.query != REDIRECT_QUERY_WHOLE;
        all_drop &= wants.query != REDIRECT_QUERY_APPEND && wants.query != REDIRECT_QUERY_WHOLE;
        all_whole &= wants.query == REDIRECT_QUERY_WHOLE;
        icase &= wants.ignore_case;
        slash &= wants.ignore_slash;
        subpath &= wants.subpath;
        if (i == 0)
            map->strip = wants.strip;
        strips &= same_strip(map->strip, wants.strip);
    }
    if (!strips || !(kinds & WANT_STRIP))
        map->strip = NULL;
    if (asked && kinds & WANT_QUERY && !all_append)
        map->query = all_drop ? REDIRECT_QUERY_DROP : all_whole ? REDIRECT_QUERY_WHOLE : 0;
    map->ignore_case = icase && kinds & WANT_CASE;
    map->ignore_slash = slash && kinds & WANT_SLASH;
    map->subpath = subpath && kinds & WANT_SUBPATH;
    map->status = kinds & WANT_STATUS ? most_frequent_status(list) : 0;
    w->for_map = kinds;
}

const char *convert_query_fault(const convert_writer *w, const convert_rule *r)
{
    redirect_query query = convert_wants_of(r).query;

    if (query == REDIRECT_QUERY_DEFAULT)
        return w->map.query == REDIRECT_QUERY_WHOLE && !(!r->rule.query && !r->rule.target)
                   ? "query=append"
                   : NULL;
    if (query == REDIRECT_QUERY_APPEND)
        return w->map.query > REDIRECT_QUERY_APPEND ? "query=append" : NULL;
    if (w->map.query == query)
        return NULL;
    return query == REDIRECT_QUERY_DROP ? "query=drop" : "query=exact";
}

static const char *fault_of(const convert_writer *w, const convert_rule *r)
{
    convert_wants wants = convert_wants_of(r);
    unsigned kinds = w->for_map;

    if (kinds & WANT_CASE && wants.ignore_case != w->map.ignore_case)
        return wants.ignore_case ? "case=ignore" : "case=exact";
    if (kinds & WANT_SLASH && wants.ignore_slash != w->map.ignore_slash)
        return wants.ignore_slash ? "slash=ignore" : "slash=exact";
    if (kinds & WANT_SUBPATH && wants.subpath != w->map.subpath)
        return wants.subpath ? "subpath=on" : "subpath=off";
    if (kinds & WANT_STRIP && !same_strip(wants.strip, w->map.strip))
        return "strip=";
    if (kinds & WANT_STATUS && r->rule.status != w->map.status)
        return "its status";
    return kinds & WANT_QUERY ? convert_query_fault(w, r) : NULL;
}

bool convert_fits(convert_writer *w, const convert_rule *r)
{
    const char *fault = fault_of(w, r);

    return !fault ||
           !convert_left_out(w->list, r, "the format cannot say %s for one row (status %d)", fault,
                             r->rule.status);
}

/* --- text -------------------------------------------------------------------------------------*/

static char *put_escaped(char *to, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";

    *to++ = '%';
    *to++ = digits[c >> 4];
    *to++ = digits[c & 15];
    return to;
}

const char *convert_encode(apr_pool_t *pool, const char *s, size_t len, const char *also)
{
    char *start = apr_palloc(pool, 3 * len + 1), *to = start;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool kept = c == '%' && len - i >= 3 && s[i + 1] == '2' && s[i + 2] == 'F';

        if (!kept && (c <= ' ' || c >= 127 || strchr("%?#\"\\", c) || strchr(also, c)))
            to = put_escaped(to, c);
        else
            *to++ = (char)c;
    }
    *to = '\0';
    return start;
}

const char *convert_clean_target(const char *target, apr_pool_t *pool)
{
    char *start = apr_palloc(pool, 3 * strlen(target) + 1), *to = start;

    for (; *target; target++) {
        unsigned char c = (unsigned char)*target;

        if (c <= ' ' || c >= 127)
            to = put_escaped(to, c);
        else
            *to++ = (char)c;
    }
    *to = '\0';
    return start;
}

const char *convert_encode_only(apr_pool_t *pool, const char *s, size_t len, const char *these)
{
    char *start = apr_palloc(pool, 3 * len + 1), *to = start;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool kept = c == '%' && len - i >= 3 && s[i + 1] == '2' && s[i + 2] == 'F';

        if (!kept && (c < ' ' || c == 127 || strchr(these, c)))
            to = put_escaped(to, c);
        else
            *to++ = (char)c;
    }
    *to = '\0';
    return start;
}

const char *convert_host(const convert_rule *r, apr_pool_t *pool)
{
    const char *scheme = r->rule.flags & REDIRECT_HTTP    ? "http://"
                         : r->rule.flags & REDIRECT_HTTPS ? "https://"
                                                          : "//";

    return r->rule.host ? apr_pstrcat(pool, scheme, r->rule.host, NULL) : "";
}

/* A colon or brace that would begin a name. */
static const char *without_names(const char *path, const char *begin, const char *encoded,
                                 apr_pool_t *pool)
{
    const char *found;

    while ((found = strstr(path, begin)))
        path = apr_pstrcat(pool, apr_pstrmemdup(pool, path, (size_t)(found - path)), encoded,
                           found + 2, NULL);
    return path;
}

const char *convert_without_signs(const char *source, bool wildcards, apr_pool_t *pool)
{
    redirect_sign sign;

    source = without_names(source, "/{", "/%7B", pool);
    while (redirect_map_find_sign(source, strcspn(source, "?"), strlen(source), wildcards, &sign))
        source = apr_psprintf(pool, "%.*s%%%02X%s", (int)sign.mark, source,
                              (unsigned char)source[sign.mark], source + sign.mark + 1);
    return source;
}

const char *convert_source(const convert_rule *r, apr_pool_t *pool, const char *also)
{
    const redirect_rule *rule = &r->rule;
    bool query = rule->query && (rule->query_len || !(rule->flags & REDIRECT_QUERY_EXACT));
    const char *path = without_names(convert_encode(pool, rule->source, rule->source_len, also),
                                     "/:", "/%3A", pool);

    return apr_pstrcat(
        pool, convert_host(r, pool),
        convert_without_signs(query ? apr_pstrcat(pool, path, "?", rule->query, NULL) : path, false,
                              pool),
        NULL);
}

const char *convert_quote_regex(apr_pool_t *pool, const char *s, size_t len)
{
    char *start = apr_palloc(pool, 2 * len + 1), *to = start;

    for (size_t i = 0; i < len; i++) {
        if (strchr(".[](){}*+?|^$\\", s[i]) && s[i])
            *to++ = '\\';
        *to++ = s[i];
    }
    *to = '\0';
    return start;
}

const char *convert_backslash(apr_pool_t *pool, const char *s, const char *chars)
{
    char *start = apr_palloc(pool, 2 * strlen(s) + 1), *to = start;

    for (; *s; s++) {
        if (strchr(chars, *s))
            *to++ = '\\';
        *to++ = *s;
    }
    *to = '\0';
    return start;
}
