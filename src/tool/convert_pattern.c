/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Writing redirects as nginx maps and as Vercel's JSON: the formats that have patterns. Called by
 * convert_write().
 */
#include "tool/convert_internal.h"

#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

static const convert_rule *rule_at(const convert_writer *w, int i)
{
    return &APR_ARRAY_IDX(w->list->rules, i, convert_rule);
}

static bool has_group_sign(const char *target)
{
    for (const char *s = target; s && (s = strchr(s, '$')); s++) {
        if (apr_isalnum(s[1]) || s[1] == '_' || s[1] == '{')
            return true;
    }
    return false;
}

/* --- nginx ------------------------------------------------------------------------------------*/

static void put_nginx_word(FILE *out, const char *word)
{
    putc('"', out);
    for (; *word; word++)
        fprintf(out, "%s%c", *word == '"' || *word == '\\' ? "\\" : "", *word);
    putc('"', out);
}

/* nginx takes what a map gives as it is, so the query has to be asked for. */
static void put_nginx_row(convert_writer *w, const convert_rule *r, const char *source,
                          const char *target)
{
    bool appends = convert_wants_of(r).query == REDIRECT_QUERY_APPEND;

    fputs("    ", w->out);
    put_nginx_word(w->out, source);
    putc(' ', w->out);
    put_nginx_word(w->out,
                   apr_pstrcat(w->list->pool, target, appends ? "$is_args$args" : "", NULL));
    fputs(";\n", w->out);
}

static bool is_nginx_exact(const convert_rule *r)
{
    return r->rule.kind == REDIRECT_EXACT && r->rule.flags & REDIRECT_ICASE;
}

static const char *nginx_fault(const convert_rule *r)
{
    if (!r->rule.target)
        return "rows without a target";
    if (r->rule.query)
        return "a condition on the query";
    if (r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS))
        return "a condition on the scheme";
    if (r->rule.host && *r->rule.host == '*')
        return "every host below a name";
    if (r->rule.host && !is_nginx_exact(r))
        return "a host unless the path is literal and its case is ignored (case=ignore)";
    if (!(r->rule.options & REDIRECT_OPT_EXPAND) && has_group_sign(r->rule.target))
        return "a '$' in a target";
    if (convert_wants_of(r).query == REDIRECT_QUERY_APPEND && strchr(r->rule.target, '#'))
        return "a query ahead of a fragment";
    return NULL;
}

/* In which of the two blocks does it stand? */
static bool is_said(convert_writer *w, const convert_rule *r, bool hosts)
{
    const char *fault = nginx_fault(r);

    if (fault && !hosts)
        convert_lost(w->list, r, "nginx maps cannot say %s; it was left out", fault);
    return !fault && !!r->rule.host == hosts && (hosts || convert_fits(w, r)) &&
           (!hosts || r->rule.status == w->map.status ||
            !convert_lost(w->list, r, "the format cannot say its status %d for one row",
                          r->rule.status));
}

static bool same_class(char a, char b)
{
    return (apr_isdigit(a) && apr_isdigit(b)) || (apr_islower(a) && apr_islower(b)) ||
           (apr_isupper(a) && apr_isupper(b));
}

/* True when a group matches letters, digits, "-" and "_" only. */
static bool is_plain_group(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool range = i + 2 < len && s[i + 1] == '-' && s[i] != '[' && s[i + 2] != ']';

        if (s[i] == '\\' && i + 1 < len && strchr("dw", s[i + 1]))
            i++;
        else if ((!apr_isalnum(s[i]) && !strchr("-_[]{}*|", s[i]) && !(s[i] == '+' && i)) ||
                 (range && !same_class(s[i], s[i + 2])))
            return false;
    }
    return true;
}

/* nginx decodes a path and puts what was captured of it into Location as it is; httpd encodes it
 * again. */
static bool captures_encoded(const convert_regex *regex, apr_pool_t *pool)
{
    convert_piece pieces[CONVERT_PIECES];
    int n = regex->expand ? convert_pieces(regex->pattern, pieces, pool) : 0;

    for (int i = 0; i < n; i++) {
        if (pieces[i].kind != PIECE_LITERAL && !is_plain_group(pieces[i].text, pieces[i].len))
            return true;
    }
    return n < 0 && has_group_sign(regex->target);
}

static void write_nginx_rule(convert_writer *w, const convert_rule *r)
{
    apr_pool_t *pool = w->list->pool;
    convert_regex regex[2];
    int n = 0;

    if (is_nginx_exact(r)) {
        const char *path = convert_encode(pool, r->rule.source, r->rule.source_len, "");

        put_nginx_row(w, r, apr_pstrcat(pool, r->rule.host ? r->rule.host : "", path, NULL),
                      r->rule.target);
        n = -1;
    } else
        n = convert_regexes(w->list, r, regex);
    for (int i = 0; i < n; i++) {
        if (captures_encoded(&regex[i], pool))
            convert_report(w->list, REDIRECT_ERROR, r->file, r->rule.line,
                           "nginx puts what '%s' captures into the address decoded: a path with "
                           "%%20, %%25 or %%3F leads elsewhere",
                           regex[i].pattern);
        put_nginx_row(w, r, apr_pstrcat(pool, regex[i].icase ? "~*" : "~", regex[i].pattern, NULL),
                      regex[i].target);
    }
    w->count += n != 0;
}

static void write_nginx_block(convert_writer *w, bool hosts)
{
    bool open = false;

    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = rule_at(w, i);

        if (!is_said(w, r, hosts))
            continue;
        if (!open)
            fprintf(w->out, "map %s {\n", hosts ? "$host$uri $redirect_of_host" : "$uri $redirect");
        open = true;
        write_nginx_rule(w, r);
    }
    if (open)
        fputs("}\n", w->out);
}

/* Rows that append the query say so; all others append none. */
void convert_write_nginx(convert_writer *w)
{
    convert_choose_options(w, WANT_SLASH | WANT_STRIP | WANT_STATUS);
    for (int i = 0; i < w->list->rules->nelts; i++) {
        if (convert_wants_of(rule_at(w, i)).query == REDIRECT_QUERY_DROP)
            w->map.query = REDIRECT_QUERY_DROP;
    }
    write_nginx_block(w, true);
    write_nginx_block(w, false);
}

/* --- JSON -------------------------------------------------------------------------------------*/

static void put_json_string(FILE *out, const char *s)
{
    putc('"', out);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fprintf(out, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
    }
    putc('"', out);
}

static void put_json_row(convert_writer *w, const convert_rule *r, const char *source,
                         const char *target, bool bulk)
{
    convert_wants wants = convert_wants_of(r);

    fputs(w->first ? "\n    {\"source\": " : ",\n    {\"source\": ", w->out);
    put_json_string(w->out, source);
    if (target) {
        fputs(", \"destination\": ", w->out);
        put_json_string(w->out, target);
    }
    fprintf(w->out, ", \"statusCode\": %d, \"%s\": %s", r->rule.status,
            bulk ? "caseSensitive" : "sensitive", wants.ignore_case ? "false" : "true");
    if (wants.query)
        fprintf(w->out, ", \"preserveQueryParams\": %s",
                wants.query == REDIRECT_QUERY_APPEND ? "true" : "false");
    fputs("}", w->out);
    w->first = false;
}

/* Literal text of a pattern: what has a meaning there is escaped. */
static const char *json_literal(const convert_piece *piece, apr_pool_t *pool)
{
    return convert_backslash(pool, convert_encode(pool, piece->text, piece->len, ""), "(){}*+?:");
}

/* "^/a/(.*)$" as "/a/(.*)". NULL: it cannot be said. */
static const char *json_pattern(const convert_piece *pieces, int n, apr_pool_t *pool)
{
    const char *source = "";

    for (int i = 0; i < n; i++) {
        if (pieces[i].kind == PIECE_OPTIONAL_REST)
            return NULL;
        source = pieces[i].kind == PIECE_LITERAL
                     ? apr_pstrcat(pool, source, json_literal(&pieces[i], pool), NULL)
                     : apr_pstrcat(pool, source, "(",
                                   apr_pstrmemdup(pool, pieces[i].text, pieces[i].len), ")", NULL);
    }
    return *source == '/' ? source : NULL;
}

/* The number of an optional rest's group, and the target without it. */
static const char *without_group(const char *target, int number, apr_pool_t *pool)
{
    const char *out = "";

    for (const char *s = target; *s; s++) {
        if (*s == '$' && s[1] == '0' + number)
            s++;
        else
            out = apr_pstrcat(pool, out, apr_pstrmemdup(pool, s, 1), NULL);
    }
    return out;
}

/* A pattern that ends in "(?:/(.*))?" takes two rows. */
static bool put_json_optional(convert_writer *w, const convert_rule *r, const convert_regex *regex,
                              convert_piece *pieces, int n)
{
    apr_pool_t *pool = w->list->pool;
    const char *source = json_pattern(pieces, n - 1, pool);
    int groups = 0;

    for (int i = 0; i < n; i++)
        groups += pieces[i].kind != PIECE_LITERAL;
    if (!source || groups > 9)
        return false;
    put_json_row(w, r, source,
                 regex->expand ? without_group(regex->target, groups, pool) : regex->target, false);
    put_json_row(w, r, apr_pstrcat(pool, source, "/(.*)", NULL), regex->target, false);
    return true;
}

static bool put_json_regex(convert_writer *w, const convert_rule *r, const convert_regex *regex)
{
    convert_piece pieces[CONVERT_PIECES];
    const char *pattern = regex->pattern, *source;
    size_t len = strlen(pattern);
    int n;

    if (!len || pattern[len - 1] != '$')
        pattern = apr_pstrcat(w->list->pool, pattern, "(.*)$", NULL);
    n = convert_pieces(pattern, pieces, w->list->pool);
    if (n > 0 && pieces[n - 1].kind == PIECE_OPTIONAL_REST)
        return put_json_optional(w, r, regex, pieces, n);
    source = n > 0 ? json_pattern(pieces, n, w->list->pool) : NULL;
    if (source)
        put_json_row(w, r, source, regex->target, false);
    return source != NULL;
}

static bool is_json_literal(const convert_rule *r)
{
    return r->rule.kind == REDIRECT_EXACT || (r->rule.kind == REDIRECT_LITERAL && r->rule.host);
}

static void write_json_patterns(convert_writer *w, const convert_rule *r)
{
    convert_regex regex[2];
    int n;

    if (r->rule.host || r->rule.query) {
        convert_lost(w->list, r, "patterns have neither host nor query here; it was left out");
        return;
    }
    n = convert_regexes(w->list, r, regex);
    for (int i = 0; i < n; i++) {
        if (!put_json_regex(w, r, &regex[i])) {
            convert_lost(w->list, r, "the pattern '%s' cannot be said in vercel.json",
                         regex[i].pattern);
            return;
        }
    }
    w->count += n > 0;
}

static void write_json_rule(convert_writer *w, const convert_rule *r, bool bulk)
{
    if (!convert_fits(w, r))
        return;
    if (r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS) && !r->rule.host)
        convert_lost(w->list, r, "the format cannot say a scheme without a host");
    else if (convert_wants_of(r).query == REDIRECT_QUERY_WHOLE)
        convert_lost(w->list, r, "the format cannot say query=exact; it was left out");
    else if (!is_json_literal(r))
        write_json_patterns(w, r);
    else if (r->rule.host && *r->rule.host == '*' && !bulk)
        convert_lost(w->list, r, "vercel.json cannot say '%s'", r->rule.host);
    else if (r->rule.query && !bulk)
        convert_lost(w->list, r,
                     "vercel.json cannot say a condition on the query, which only bulk "
                     "redirects can; convert the patterns to a file of their own");
    else {
        put_json_row(w, r, convert_source(r, w->list->pool, "(){}*+:"), r->rule.target, bulk);
        w->count++;
    }
}

void convert_write_json(convert_writer *w)
{
    bool bulk = true;

    convert_choose_options(w, WANT_SLASH | WANT_STRIP);
    for (int i = 0; i < w->list->rules->nelts; i++)
        bulk = bulk && is_json_literal(rule_at(w, i));
    w->first = true;
    fputs(bulk ? "[" : "{\"redirects\": [", w->out);
    for (int i = 0; i < w->list->rules->nelts; i++)
        write_json_rule(w, rule_at(w, i), bulk);
    fputs(bulk ? "\n]\n" : "\n]}\n", w->out);
}
