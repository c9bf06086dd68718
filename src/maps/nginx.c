/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The nginx format of redirect maps: map blocks, or what stands in one. As in nginx, exact sources
 * are asked before regexes, which keep their order, and "default" comes last; so the file is read
 * once for each of them. What depends on other variables than the path is reported.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>
#include <strings.h>

#define WORDS_MAX 4 /* of a statement that is kept; more are counted */

/* What the sources of a block are compared with. Without a block: the path, and a query as in other
 * formats. */
typedef struct nginx_subject {
    const char *variable;
    bool scheme, host; /* stand ahead of the path */
    bool query;        /* stands behind it, as a part of $request_uri */
    bool args;         /* or as $args */
} nginx_subject;

static const nginx_subject subjects[] = {
    {.variable = "$uri"},
    {.variable = "$document_uri"},
    {.variable = "$request_uri", .query = true},
    {.variable = "$host$uri", .host = true},
    {.variable = "$http_host$uri", .host = true},
    {.variable = "$host$request_uri", .host = true, .query = true},
    {.variable = "$http_host$request_uri", .host = true, .query = true},
    {.variable = "$scheme://$host$uri", .scheme = true, .host = true},
    {.variable = "$scheme://$http_host$uri", .scheme = true, .host = true},
    {.variable = "$scheme://$host$request_uri", .scheme = true, .host = true, .query = true},
    {.variable = "$scheme://$http_host$request_uri", .scheme = true, .host = true, .query = true},
    {.variable = "$uri?$args", .args = true},
    {.variable = "$host$uri?$args", .host = true, .args = true},
    {.variable = "$scheme://$host$uri?$args", .scheme = true, .host = true, .args = true}};

typedef struct nginx {
    map_reader *r;
    nginx_subject subject;
    uint32_t next_line;
    map_text word[WORDS_MAX];
    bool quoted[WORDS_MAX];
    unsigned words;
    bool regexes_noted;
} nginx;

/* --- statements ------------------------------------------------------------------------------- */

/* Quotes, backslashes and a few control characters may be escaped; other backslashes stay. */
static map_text unescape(map_reader *r, const char *s, size_t len)
{
    char *to = apr_palloc(r->row_pool, len + 1);
    size_t n = 0;

    r->row_pool_used = true;
    for (size_t i = 0; i < len; i++) {
        char next = s[i] == '\\' && i + 1 < len ? s[i + 1] : 0;

        if (next == '"' || next == '\'' || next == '\\')
            i++;
        else if (next == 't' || next == 'r' || next == 'n') {
            to[n++] = next == 't' ? '\t' : next == 'r' ? '\r' : '\n';
            i++;
            continue;
        }
        to[n++] = s[i];
    }
    return redirect_map_text_of(to, n);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The word at r->at. False: a quote is not closed. */
static bool take_word(nginx *n)
{
    map_reader *r = n->r;
    char quote = *r->at == '"' || *r->at == '\'' ? *r->at++ : 0;
    const char *start = r->at, *s = start;
    bool escapes = false;
    map_text word;

    for (; s < r->end; s++) {
        if (*s == '\n')
            n->next_line += quote != 0;
        if (quote ? *s == quote
                  : is_space(*s) || *s == ';' || (*s == '{' && (s == start || s[-1] != '$')))
            break;
        if (*s == '\\' && s + 1 < r->end) {
            escapes = true;
            s++;
            n->next_line += *s == '\n';
        }
    }
    if (quote && s == r->end)
        return false;
    word = escapes ? unescape(r, start, (size_t)(s - start))
                   : redirect_map_text_of(start, (size_t)(s - start));
    r->at = s + (quote != 0);
    if (n->words < WORDS_MAX) {
        n->word[n->words] = word;
        n->quoted[n->words] = quote != 0;
    }
    n->words++;
    return true;
}

static void skip_comment(map_reader *r)
{
    r->at = redirect_map_line_end(r);
}

/* The words up to ";", "{" or "}", which is given back; 0 at the end of the file, -1: broken. */
static int next_statement(nginx *n)
{
    map_reader *r = n->r;

    n->words = 0;
    r->line = n->next_line;
    while (r->at < r->end) {
        char c = *r->at;

        if (is_space(c)) {
            n->next_line += c == '\n';
            r->at++;
            if (!n->words)
                r->line = n->next_line;
        } else if (c == '#')
            skip_comment(r);
        else if (c == ';' || c == '{' || c == '}') {
            r->at++;
            return c;
        } else if (!take_word(n))
            return -1;
    }
    return 0;
}

/* --- regexes ---------------------------------------------------------------------------------- */

/* Behind the name of a named group whose "(" is at regex[i]; *name is set. 0: it is none. */
static size_t group_name(map_text regex, size_t i, map_text *name)
{
    size_t start, end;
    char close;

    if (i + 3 >= regex.len || regex.s[i + 1] != '?')
        return 0;
    start = i + 2 + (regex.s[i + 2] == 'P');
    if (start >= regex.len || (regex.s[start] != '<' && regex.s[start] != '\''))
        return 0;
    close = regex.s[start] == '<' ? '>' : '\'';
    start++;
    end = start + redirect_map_name_length(regex.s + start, regex.len - start);
    if (end == start || end >= regex.len || regex.s[end] != close)
        return 0;
    *name = (map_text){regex.s + start, end - start, 0};
    return end + 1;
}

/* Number the groups of a regex. Those behind the ninth cannot be named in a target. */
static void find_groups(map_text regex, map_names *names)
{
    bool in_class = false;

    for (size_t i = 0; i < regex.len && names->count < MAP_GROUPS; i++) {
        map_text name = {"", 0, 0};
        char c = regex.s[i];

        if (c == '\\')
            i++;
        else if (c == '[' && !in_class) {
            in_class = true;
            if (i + 1 < regex.len && regex.s[i + 1] == '^')
                i++;
            if (i + 1 < regex.len && regex.s[i + 1] == ']')
                i++;
        } else if (c == ']')
            in_class = false;
        else if (c == '(' && !in_class &&
                 (group_name(regex, i, &name) || i + 1 == regex.len ||
                  (regex.s[i + 1] != '?' && regex.s[i + 1] != '*')))
            names->name[names->count++] = name;
    }
}

/* The variable at target.s[i], its name in *name. Its length; 0: there is none. */
static size_t variable_at(map_text target, size_t i, map_text *name)
{
    bool braces = i + 1 < target.len && target.s[i + 1] == '{';
    size_t start = i + 1 + braces, len;

    if (target.s[i] != '$' || start >= target.len)
        return 0;
    len = apr_isdigit(target.s[start])
              ? 1
              : redirect_map_name_length(target.s + start, target.len - start);
    *name = (map_text){target.s + start, len, 0};
    if (!len || (braces && (start + len >= target.len || target.s[start + len] != '}')))
        return 0;
    return start + len + braces - i;
}

static unsigned group_number(const map_names *names, map_text name)
{
    unsigned digit = apr_isdigit(name.s[0]) ? (unsigned)(name.s[0] - '0') : 0;

    return digit <= names->count && digit ? digit : redirect_map_names_find(names, name);
}

static bool ends_in(map_text text, const char *end)
{
    size_t len = strlen(end);

    return text.len >= len && !memcmp(text.s + text.len - len, end, len);
}

/* "$is_args$args" at the end is what query=append does. */
static void take_args(map_row *row, redirect_map_options *own)
{
    static const char *const ends[] = {"$is_args$args", "$is_args$query_string"};

    for (size_t i = 0; i < 2; i++) {
        if (ends_in(row->target, ends[i])) {
            *own = *row->options;
            own->query = REDIRECT_QUERY_APPEND;
            row->options = own;
            row->target.len -= strlen(ends[i]);
            return;
        }
    }
}

/* Variables of the target: groups of the regex become $1 to $9, others cannot be had. */
static bool expand(map_reader *r, const map_names *names, map_row *row)
{
    map_text target = row->target, name;
    map_buffer b = {.to = r->expanded, .size = sizeof(r->expanded)};

    if (!target.len || !memchr(target.s, '$', target.len))
        return true;
    for (size_t i = 0; i < target.len;) {
        size_t len = variable_at(target, i, &name);
        unsigned number = len ? group_number(names, name) : 0;

        if (len && !number)
            return redirect_map_fail(r,
                                     "the target has '$%s', which is not known here; write it out",
                                     redirect_map_quote(r, name.s, name.len));
        if (number) {
            char digits[2] = {'$', (char)('0' + number)};

            redirect_map_put(&b, digits, 2);
            row->expand = true;
        } else
            redirect_map_put(&b, target.s + i, 1);
        i += len ? len : 1;
    }
    if (b.full)
        return redirect_map_fail(r, "the target is longer than %d bytes", REDIRECT_MAX_TEXT);
    row->target = redirect_map_text_of(r->expanded, b.len);
    return true;
}

static void note_regex(nginx *n)
{
    if (n->subject.query && !n->regexes_noted && !n->r->muted) {
        redirect_map_say(n->r, REDIRECT_NOTE,
                         "regexes on $request_uri are compared with the decoded path, without the "
                         "query (this is the first)");
        n->regexes_noted = true;
    }
}

static const map_names no_names = {0};

/* The query is a part of what is compared. */
static void compare_query(map_row *row, redirect_map_options *own)
{
    *own = *row->options;
    own->query = REDIRECT_QUERY_WHOLE;
    row->options = own;
}

/* "http://" or "https://" at *s, which is moved behind it. */
static bool take_scheme(const char **s, const char *end, map_source *parts)
{
    size_t left = (size_t)(end - *s);

    if (left > 7 && !memcmp(*s, "http://", 7)) {
        parts->flags = REDIRECT_HTTP;
        *s += 7;
    } else if (left > 8 && !memcmp(*s, "https://", 8)) {
        parts->flags = REDIRECT_HTTPS;
        *s += 8;
    }
    return parts->flags != 0;
}

/* "^example\.com/..." and "^[^/]+\.example\.com/...": the host goes to *parts, and what is left
 * is a regex of the path. False: it does not begin so. */
static bool take_host(map_reader *r, map_text *regex, bool scheme, map_source *parts)
{
    static const char any[] = "[^/]+\\.";
    const char *s = regex->s + 1, *end = regex->s + regex->len;
    char *regex_of_path;
    size_t n = 0;

    if (regex->len < 2 || *regex->s != '^' || redirect_map_has_alternatives(regex->s, regex->len))
        return false;
    if (scheme && !take_scheme(&s, end, parts))
        return false;
    if ((size_t)(end - s) > sizeof(any) && !memcmp(s, any, sizeof(any) - 1)) {
        s += sizeof(any) - 1;
        memcpy(r->host, "*.", 2);
        n = 2;
    }
    for (; s < end && *s != '/' && n < MAP_HOST_MAX; s++) {
        s += *s == '\\' && s + 1 < end && (s[1] == '.' || s[1] == '-');
        if (!apr_isalnum(*s) && (*s != '.' || s[-1] != '\\') && *s != '-')
            return false;
        r->host[n++] = (char)apr_tolower(*s);
    }
    if (s == end || *s != '/' || !n)
        return false;
    parts->host = r->host;
    parts->host_len = n;
    regex_of_path = apr_palloc(r->row_pool, (size_t)(end - s) + 1);
    r->row_pool_used = true;
    regex_of_path[0] = '^';
    memcpy(regex_of_path + 1, s, (size_t)(end - s));
    *regex = redirect_map_text_of(regex_of_path, (size_t)(end - s) + 1);
    return true;
}

/* A regex on path and query that is literal: a source whose case counts. */
static void add_literal(nginx *n, map_row *row, map_text regex, map_source parts)
{
    map_reader *r = n->r;
    redirect_kind kind = REDIRECT_PATTERN;
    redirect_map_options own;
    size_t len = 0;
    const char *mark;

    if (regex.len && regex.len <= REDIRECT_MAX_TEXT)
        len = redirect_map_literal_prefix(regex.s, regex.len, r->path, &kind);
    mark = kind == REDIRECT_LITERAL ? memchr(r->path, '?', len) : NULL;
    if (!mark) {
        redirect_map_fail(r, "a regex on path and query must be literal, as ~^/a\\?id=1$");
        return;
    }
    row->literal = r->path;
    row->literal_len = (size_t)(mark - r->path);
    row->kind = REDIRECT_LITERAL;
    parts.query = redirect_map_text_of(mark + 1, len - row->literal_len - 1);
    row->parts = &parts;
    row->source = redirect_map_text_of(r->path, len); /* which has a query, and so its rank */
    compare_query(row, &own);
    if (expand(r, &no_names, row))
        redirect_map_add(r, row);
}

static void add_path_regex(nginx *n, map_row *row, map_text regex, const map_source *parts)
{
    map_reader *r = n->r;
    map_buffer b = {.to = r->pattern, .size = sizeof(r->pattern)};
    map_names names = {0};

    note_regex(n);
    row->rank = MAP_RANK_REGEX;
    row->parts = parts;
    find_groups(regex, &names);
    redirect_map_put(&b, regex.s, regex.len);
    if (expand(r, &names, row))
        redirect_map_add_pattern(r, row, &b);
}

static void add_regex(nginx *n, map_row *row, map_text regex)
{
    map_source parts = {0};
    map_reader *r = n->r;

    if (regex.len && regex.s[0] == '*') {
        row->flags = REDIRECT_ICASE;
        regex.s++;
        regex.len--;
    }
    if (!regex.len || memchr(regex.s, '\0', regex.len))
        redirect_map_fail(r, "the regex is empty or has a NUL byte");
    else if (n->subject.host && n->subject.query)
        redirect_map_fail(r, "a regex on host, path and query is not possible");
    else if (n->subject.host && !take_host(r, &regex, n->subject.scheme, &parts))
        redirect_map_fail(r, "a regex on host and path must begin with a host, as "
                             "~^example\\.com/ or ~^https://example\\.com/");
    else if (n->subject.args)
        add_literal(n, row, regex, parts);
    else
        add_path_regex(n, row, regex, &parts);
}

/* --- rows ------------------------------------------------------------------------------------- */

/* The target for every path that no other row names. An empty one counts as none. */
static void add_default(nginx *n, map_row *row)
{
    static const map_source no_parts = {0};

    if (!row->target.len || (row->target.len == 1 && row->target.s[0] == '0'))
        return;
    row->rank = MAP_RANK_LAST;
    row->kind = REDIRECT_PREFIX;
    row->parts = &no_parts;
    row->literal = "/";
    row->literal_len = 1;
    if (expand(n->r, &no_names, row))
        redirect_map_add(n->r, row);
}

/* "$host$uri" and such: the source as a URL. */
static map_text with_host(nginx *n, map_text source)
{
    char *url;

    if (!n->subject.host || n->subject.scheme)
        return source;
    url = apr_palloc(n->r->row_pool, source.len + 2);
    n->r->row_pool_used = true;
    url[0] = url[1] = '/';
    memcpy(url + 2, source.s, source.len);
    return redirect_map_text_of(url, source.len + 2);
}

static void add_exact(nginx *n, map_row *row, redirect_map_options *own)
{
    if (n->subject.args || (n->subject.query && row->options->query == REDIRECT_QUERY_DEFAULT))
        compare_query(row, own);
    row->flags = REDIRECT_ICASE;
    row->source = with_host(n, row->source);
    if (!row->target.len)
        redirect_map_fail(n->r,
                          "an empty target would keep the path from being redirected by other "
                          "rows, which is not possible; remove the row");
    else if (expand(n->r, &no_names, row))
        redirect_map_add(n->r, row);
}

/* A statement of one word, or what has a meaning of its own. True: it has been dealt with. */
static bool take_special(nginx *n, map_text source)
{
    if (n->words == 1 && redirect_map_text_is(source, "volatile"))
        return true;
    if (n->words == 1 && redirect_map_text_is(source, "hostnames")) {
        redirect_map_fail(n->r, "'hostnames' is not possible: sources here are paths or URLs");
        return true;
    }
    if (n->words == 2 && redirect_map_text_is(source, "include")) {
        redirect_map_fail(n->r, "'include' is not followed; load the file '%s' as a map of its own",
                          redirect_map_quote(n->r, n->word[1].s, n->word[1].len));
        return true;
    }
    if (redirect_map_text_is(source, "map_hash_max_size") ||
        redirect_map_text_is(source, "map_hash_bucket_size"))
        return true;
    return false;
}

static void take_row(nginx *n)
{
    map_row row = {.options = n->r->options, .rank = MAP_RANK_PLAIN};
    map_text source = n->word[0];
    redirect_map_options own, own_query;

    if (!n->words || take_special(n, source))
        return;
    if (n->words != 2) {
        redirect_map_fail(n->r, "a row must be a source and a target, followed by ';'");
        return;
    }
    row.target = redirect_map_trim(n->word[1]);
    take_args(&row, &own);
    if (redirect_map_text_is(source, "default")) {
        add_default(n, &row);
        return;
    }
    if (source.len && source.s[0] == '~') {
        add_regex(n, &row, (map_text){source.s + 1, source.len - 1, source.seen});
        return;
    }
    if (source.len > 1 && source.s[0] == '\\')
        source = redirect_map_text_of(source.s + 1, source.len - 1);
    row.source = redirect_map_trim(source);
    add_exact(n, &row, &own_query);
}

/* --- blocks ----------------------------------------------------------------------------------- */

static const nginx_subject *subject_of(map_text word)
{
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        if (redirect_map_text_is(word, subjects[i].variable))
            return &subjects[i];
    }
    return NULL;
}

bool redirect_map_nginx_subject(map_text variable, bool *host)
{
    const nginx_subject *subject = subject_of(variable);

    *host = subject && subject->host && !subject->scheme;
    return subject != NULL;
}

/* A block that is none of ours, with all that stands in it. */
static int skip_block(nginx *n)
{
    uint32_t line = n->r->line;
    unsigned depth = 1;

    while (depth) {
        int end = next_statement(n);

        if (end <= 0)
            return end;
        depth += end == '{';
        depth -= end == '}';
        if (!redirect_map_begin_row(n->r))
            break;
    }
    n->r->line = line;
    return 1;
}

/* "map $uri $name {", or something else that opens a block. 1: go on; else as next_statement(). */
static int open_block(nginx *n, bool *inside)
{
    map_text what = n->word[0];

    if (n->words == 3 && !*inside && redirect_map_text_is(what, "map")) {
        const nginx_subject *subject = subject_of(n->word[1]);

        if (subject) {
            n->subject = *subject;
            *inside = true;
            return 1;
        }
        redirect_map_fail(n->r, "a map of '%s' is not a map of paths; its rows are left out",
                          redirect_map_quote(n->r, n->word[1].s, n->word[1].len));
    } else
        redirect_map_fail(n->r, "'%s {' is not a map block; it is left out",
                          redirect_map_quote(n->r, what.s, n->words ? what.len : 0));
    return skip_block(n);
}

static apr_status_t broken(nginx *n, const char *why)
{
    redirect_map_fail(n->r, "%s", why);
    return n->r->muted ? APR_SUCCESS : APR_EGENERAL;
}

apr_status_t redirect_map_read_nginx(map_reader *r)
{
    nginx n = {.r = r, .next_line = 1};
    bool inside = false;

    while (redirect_map_begin_row(r)) {
        int end = next_statement(&n);

        if (end == ';')
            take_row(&n);
        else if (end == '{')
            end = open_block(&n, &inside);
        else if (end == '}') {
            if (!inside || n.words)
                return broken(&n, n.words ? "';' is missing" : "'}' without '{'");
            inside = false;
            n.subject = (nginx_subject){.variable = NULL};
        }
        if (end < 0)
            return broken(&n, "a quote is not closed");
        if (end == 0)
            return n.words || inside ? broken(&n, "the file ends within a row or block")
                                     : APR_SUCCESS;
    }
    return APR_SUCCESS;
}
