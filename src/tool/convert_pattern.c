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
    w->count++;
}

static bool looks_like_pattern(const char *s, size_t len)
{
    redirect_sign sign;

    return redirect_map_find_sign(s, len, len, false, &sign) || memmem(s, len, "/{", 2);
}

/* What looks like a pattern is written as a regex, which nginx and our own reader take alike. */
static bool is_nginx_exact(const convert_rule *r)
{
    return !looks_like_pattern(r->rule.source, r->rule.source_len) &&
           r->rule.kind == REDIRECT_EXACT && r->rule.flags & REDIRECT_ICASE &&
           !(r->rule.host && *r->rule.host == '*');
}

static bool has_scheme(const convert_rule *r)
{
    return r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS);
}

/* "example.com", "https://example.com" or "", ahead of a path. */
static const char *nginx_origin(const convert_rule *r, apr_pool_t *pool)
{
    const char *origin = convert_host(r, pool);

    return strncmp(origin, "//", 2) ? origin : origin + 2;
}

/* A regex that begins with "^", with the rule's scheme and host behind that. */
static const char *with_origin(const convert_rule *r, const char *regex, apr_pool_t *pool)
{
    const char *origin = nginx_origin(r, pool), *star = strchr(origin, '*');
    size_t len = star ? (size_t)(star - origin) : strlen(origin);

    return apr_pstrcat(pool, "^", convert_quote_regex(pool, origin, len), star ? "[^/]+\\." : "",
                       star ? convert_quote_regex(pool, star + 2, strlen(star + 2)) : "", regex + 1,
                       NULL);
}

/* A host can be put in front of the pattern. */
static bool is_anchored(const convert_rule *r)
{
    return !strncmp(r->rule.pattern, "^/", 2) &&
           !redirect_map_has_alternatives(r->rule.pattern, r->rule.pattern_len);
}

/* nginx takes what stands behind any "$" for a name, and does not start without one. */
static bool has_other_dollar(const char *target, bool groups)
{
    for (const char *s = strchr(target, '$'); s; s = strchr(s + 1, '$')) {
        if (!groups || s[1] < '1' || s[1] > '9')
            return true;
    }
    return false;
}

static const char *nginx_fault(const convert_rule *r)
{
    if (r->rule.condition)
        return convert_condition_fault(r);
    if (!r->rule.target)
        return "rows without a target";
    if (r->rule.query && r->rule.kind != REDIRECT_EXACT && r->rule.kind != REDIRECT_LITERAL)
        return "a condition on the query unless the path is literal";
    if (has_scheme(r) && !r->rule.host)
        return "a condition on the scheme without a host";
    if (r->rule.host && redirect_kind_has_pattern(r->rule.kind) && !is_anchored(r))
        return "a host before a pattern that does not begin with '^/', or has alternatives";
    if (has_other_dollar(r->rule.target, r->rule.options & REDIRECT_OPT_EXPAND))
        return "a '$' in a target";
    if (convert_wants_of(r).query == REDIRECT_QUERY_APPEND && strchr(r->rule.target, '#'))
        return "a query ahead of a fragment";
    return NULL;
}

/* Queries are asked first, as more special. */
static const struct {
    bool scheme, host, query;
    const char *head;
} nginx_blocks[] = {{true, true, true, "$scheme://$host$uri?$args $redirect_of_url_query"},
                    {false, true, true, "$host$uri?$args $redirect_of_host_query"},
                    {false, false, true, "$uri?$args $redirect_of_query"},
                    {true, true, false, "$scheme://$host$uri $redirect_of_url"},
                    {false, true, false, "$host$uri $redirect_of_host"},
                    {false, false, false, "$uri $redirect"}};
#define NGINX_BLOCKS (sizeof(nginx_blocks) / sizeof(nginx_blocks[0]))

/* Does it stand in this block? What cannot be said at all is reported with the last one. */
static bool is_said(convert_writer *w, const convert_rule *r, size_t block)
{
    const char *fault = nginx_fault(r);

    if (fault && block == NGINX_BLOCKS - 1)
        convert_left_out(w->list, r, "nginx maps cannot say %s", fault);
    return !fault && !!r->rule.host == nginx_blocks[block].host &&
           has_scheme(r) == nginx_blocks[block].scheme &&
           !!r->rule.query == nginx_blocks[block].query && convert_fits(w, r);
}

/* As nginx has it in $uri. What would begin a query or fragment for our own reader is encoded. */
static const char *nginx_path(const convert_rule *r, apr_pool_t *pool)
{
    return convert_encode_only(pool, r->rule.source, r->rule.source_len, "%?#");
}

#define ORDERS_MAX 6

static size_t split_query(char *query, char **parameter, size_t max)
{
    size_t n = 0;
    char *state;

    for (char *p = apr_strtok(query, "&", &state); p; p = apr_strtok(NULL, "&", &state)) {
        if (n == max)
            return max + 1;
        parameter[n++] = p;
    }
    return n;
}

/* nginx does not start with one source twice: parameters may be the same. */
static bool is_among(const char *s, const char *const *of, int n)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(s, of[i]))
            return true;
    }
    return false;
}

/* nginx compares a query byte by byte. Where the order of parameters does not count, it has to be
 * given all orders. How many there are. */
static int query_orders(convert_writer *w, const convert_rule *r, const char *out[ORDERS_MAX])
{
    static const unsigned char orders[ORDERS_MAX][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1},
                                                        {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    apr_pool_t *pool = w->list->pool;
    int count = 0;
    char *p[3];
    size_t n = split_query(apr_pstrdup(pool, r->rule.query), p, 3);

    out[0] = r->rule.query;
    if (r->rule.flags & REDIRECT_QUERY_EXACT || n < 2)
        return 1;
    if (n > 3) {
        convert_lost(w->list, r,
                     "nginx compares the parameters of a query in their order only, and more than "
                     "three have too many orders");
        return 1;
    }
    for (int i = 0; i < (n == 2 ? 2 : ORDERS_MAX); i++) {
        out[count] = apr_pstrcat(pool, p[orders[i][0]], "&", p[orders[i][1]], n == 3 ? "&" : "",
                                 n == 3 ? p[orders[i][2]] : "", NULL);
        count += !is_among(out[count], out, count);
    }
    return count;
}

static void write_nginx_query(convert_writer *w, const convert_rule *r)
{
    apr_pool_t *pool = w->list->pool;
    const char *queries[ORDERS_MAX];
    int n = query_orders(w, r, queries);

    for (int i = 0; i < n; i++) {
        const char *source;

        if (is_nginx_exact(r))
            source = apr_pstrcat(pool, nginx_origin(r, pool), nginx_path(r, pool), "?", queries[i],
                                 NULL);
        else {
            source = apr_pstrcat(
                pool, "^", convert_quote_regex(pool, r->rule.source, r->rule.source_len), "\\?",
                convert_quote_regex(pool, queries[i], strlen(queries[i])), "$", NULL);
            source = apr_pstrcat(pool, r->rule.flags & REDIRECT_ICASE ? "~*" : "~",
                                 r->rule.host ? with_origin(r, source, pool) : source, NULL);
        }
        put_nginx_row(w, r, source, r->rule.target);
    }
}

static void write_nginx_rule(convert_writer *w, const convert_rule *r)
{
    apr_pool_t *pool = w->list->pool;
    convert_regex regex[2];
    int n = 0;

    if (is_nginx_exact(r))
        put_nginx_row(w, r, apr_pstrcat(pool, nginx_origin(r, pool), nginx_path(r, pool), NULL),
                      r->rule.target);
    else
        n = convert_regexes(w->list, r, regex);
    for (int i = 0; i < n; i++) {
        if (regex[i].expand && convert_captures_encoded(regex[i].pattern, regex[i].target, pool))
            convert_differs(w->list, r,
                            "nginx puts what '%s' captures into the address decoded: a path with "
                            "%%20, %%25 or %%3F leads elsewhere",
                            convert_shown(r, regex[i].pattern));
        put_nginx_row(
            w, r,
            apr_pstrcat(pool, regex[i].icase ? "~*" : "~",
                        r->rule.host ? with_origin(r, regex[i].pattern, pool) : regex[i].pattern,
                        NULL),
            regex[i].target);
    }
}

static void write_nginx_block(convert_writer *w, size_t block)
{
    bool open = false;

    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = rule_at(w, i);

        if (!is_said(w, r, block))
            continue;
        if (!open)
            fprintf(w->out, "map %s {\n", nginx_blocks[block].head);
        open = true;
        if (nginx_blocks[block].query)
            write_nginx_query(w, r);
        else
            write_nginx_rule(w, r);
    }
    if (open)
        fputs("}\n", w->out);
}

#define REGEXES_NOTED 100

static void note_regexes(convert_writer *w)
{
    int regexes = 0;

    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = rule_at(w, i);

        regexes += r->rule.kind == REDIRECT_EXACT && !(r->rule.flags & REDIRECT_ICASE);
    }
    if (regexes >= REGEXES_NOTED)
        convert_report(
            w->list, REDIRECT_NOTE, rule_at(w, 0)->file, 0,
            "%d rows become regexes, which nginx tries one after the other, as its other "
            "rows match in any case; with case=ignore they are looked up by hashing",
            regexes);
}

/* What nginx's hash has for a source beside its bytes, and its default for a bucket. It does not
 * start when a source has no room in one. */
#define NGINX_BUCKET(len)    (16 + (((len) + 2 + 7) & ~(size_t)7))
#define NGINX_BUCKET_DEFAULT 64

static void note_bucket(convert_writer *w)
{
    size_t bucket = NGINX_BUCKET_DEFAULT;
    const convert_rule *longest = NULL;

    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = rule_at(w, i);
        size_t len = strlen(nginx_origin(r, w->list->pool)) + strlen(nginx_path(r, w->list->pool)) +
                     (r->rule.query ? r->rule.query_len + 1 : 0);

        if (!is_nginx_exact(r) || nginx_fault(r) || NGINX_BUCKET(len) <= bucket)
            continue;
        longest = r;
        while (bucket < NGINX_BUCKET(len))
            bucket *= 2;
    }
    if (longest)
        convert_report(w->list, REDIRECT_NOTE, longest->file, longest->rule.line,
                       "nginx does not start with a source as long as this unless "
                       "'map_hash_bucket_size %u;' stands ahead of its maps",
                       (unsigned)bucket);
}

/* Rows that append the query say so; all others append none. */
void convert_write_nginx(convert_writer *w)
{
    convert_choose_options(w, WANT_SLASH | WANT_STRIP | WANT_STATUS);
    for (int i = 0; i < w->list->rules->nelts; i++) {
        if (convert_wants_of(rule_at(w, i)).query == REDIRECT_QUERY_DROP)
            w->map.query = REDIRECT_QUERY_DROP;
    }
    for (size_t block = 0; block < NGINX_BLOCKS; block++)
        write_nginx_block(w, block);
    note_regexes(w);
    note_bucket(w);
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

/* Of rules whose conditions can be said. */
static void put_json_conditions(convert_writer *w, const convert_rule *r, const char *host)
{
    const char *has, *missing;

    convert_json_conditions(r, &has, &missing, w->list->pool);
    if (host || *has)
        fputs(", \"has\": [", w->out);
    if (host) {
        fputs("{\"type\": \"host\", \"value\": ", w->out);
        put_json_string(w->out, host);
        fputs(*has ? "}, " : "}", w->out);
    }
    if (host || *has)
        fprintf(w->out, "%s]", has);
    if (*missing)
        fprintf(w->out, ", \"missing\": [%s]", missing);
}

/* @a source NULL-terminated; @a target NULL: none. */
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
    fprintf(w->out, ", \"statusCode\": %d", r->rule.status);
    if (bulk || !w->strict)
        fprintf(w->out, ", \"%s\": %s", bulk ? "caseSensitive" : "sensitive",
                wants.ignore_case ? "false" : "true");
    if (wants.query && (bulk || !w->strict))
        fprintf(w->out, ", \"preserveQueryParams\": %s",
                wants.query == REDIRECT_QUERY_APPEND ? "true" : "false");
    put_json_conditions(w, r, bulk ? NULL : r->rule.host);
    fputs("}", w->out);
    w->first = false;
    w->count++;
}

#define JSON_SIGNS       "(){}*+?:"
#define JSON_REGEX_SIGNS JSON_SIGNS "[]|$^" /* which mean themselves, but could look like a regex */

/* Literal text of a pattern: what has a meaning there is escaped. */
static const char *json_literal(const convert_piece *piece, apr_pool_t *pool)
{
    return convert_backslash(pool, convert_encode(pool, piece->text, piece->len, ""),
                             JSON_REGEX_SIGNS);
}

/* "^/a/(.*)$" as "/a/(.*)". NULL: it cannot be said. */
static const char *json_pattern(const convert_piece *pieces, int n, apr_pool_t *pool)
{
    const char *source = "";

    for (int i = 0; i < n; i++) {
        if (pieces[i].kind == PIECE_OPTIONAL_REST || pieces[i].kind == PIECE_OPTIONAL)
            return NULL;
        source = pieces[i].kind == PIECE_LITERAL
                     ? apr_pstrcat(pool, source, json_literal(&pieces[i], pool), NULL)
                     : apr_pstrcat(pool, source, "(",
                                   apr_pstrmemdup(pool, pieces[i].text, pieces[i].len), ")", NULL);
    }
    return *source == '/' ? source : NULL;
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
                 regex->expand ? convert_without_group(regex->target, groups, pool) : regex->target,
                 false);
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

/* The path of a literal source in vercel.json, where some characters begin patterns. */
static const char *json_path(const convert_rule *r, apr_pool_t *pool)
{
    bool regex = looks_like_pattern(r->rule.source, r->rule.source_len);

    return convert_backslash(pool, convert_encode(pool, r->rule.source, r->rule.source_len, ""),
                             regex ? JSON_REGEX_SIGNS : JSON_SIGNS);
}

static bool is_json_literal(const convert_rule *r)
{
    return r->rule.kind == REDIRECT_EXACT || (r->rule.kind == REDIRECT_LITERAL && r->rule.host);
}

static void write_json_patterns(convert_writer *w, const convert_rule *r)
{
    convert_regex regex[2];
    int n, i = 0;

    if (r->written && r->made_target == r->rule.target) {
        put_json_row(w, r, r->written, r->written_target, false);
        return;
    }
    n = convert_regexes(w->list, r, regex);
    for (; i < n; i++) {
        if (!put_json_regex(w, r, &regex[i])) {
            if (i)
                convert_lost(w->list, r, "the pattern '%s' cannot be said in vercel.json",
                             convert_shown(r, regex[i].pattern));
            else
                convert_left_out(w->list, r, "the pattern '%s' cannot be said in vercel.json",
                                 convert_shown(r, regex[i].pattern));
            break;
        }
    }
}

/* What vercel.json cannot say, and bulk redirects can, or none of them. */
static const char *json_fault(const convert_writer *w, const convert_rule *r, bool bulk)
{
    convert_wants wants = convert_wants_of(r);
    const char *has, *missing, *fault = convert_json_conditions(r, &has, &missing, w->list->pool);

    if (fault)
        return fault;
    if (r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS) && (!r->rule.host || !bulk || w->strict))
        return "a condition on the scheme (write the source with // alone for both)";
    if (wants.query == REDIRECT_QUERY_WHOLE)
        return "query=exact";
    if (r->rule.query && (!bulk || w->strict))
        return w->strict ? "a condition on the query"
                         : "a condition on the query beside patterns, hosts or conditions; convert "
                           "these to a "
                           "file of their own";
    if (r->rule.host && *r->rule.host == '*' && (!bulk || w->strict))
        return "all hosts below a name";
    if (!w->strict)
        return NULL;
    if (!r->rule.target)
        return "rows without a target";
    if (!bulk && wants.ignore_case)
        return "case=ignore beside patterns or hosts; convert these to a file of their own";
    if (!bulk && wants.query == REDIRECT_QUERY_DROP)
        return "query=drop beside patterns or hosts; convert these to a file of their own";
    return NULL;
}

static void write_json_rule(convert_writer *w, const convert_rule *r, bool bulk)
{
    const char *fault = convert_fits(w, r) ? json_fault(w, r, bulk) : "";

    if (fault && *fault)
        convert_left_out(w->list, r, "the format cannot say %s", fault);
    else if (!fault && !is_json_literal(r))
        write_json_patterns(w, r);
    else if (!fault) {
        const char *source = bulk ? convert_source(r, w->list->pool, "(){}+:" CONVERT_SIGNS)
                                  : json_path(r, w->list->pool);

        put_json_row(w, r, source, r->rule.target, bulk);
    }
}

/* Bulk redirects have neither patterns nor conditions nor, at Vercel, hosts. */
static bool is_bulk(const convert_writer *w)
{
    bool bulk = !w->list->as_object;
    const char *has, *missing;

    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = rule_at(w, i);

        bulk = bulk && is_json_literal(r) && !(w->strict && r->rule.host) &&
               (!r->rule.condition ||
                convert_json_conditions(r, &has, &missing, w->list->pool) != NULL);
    }
    return bulk;
}

void convert_write_json(convert_writer *w)
{
    bool bulk = is_bulk(w);

    convert_choose_options(w, WANT_SLASH | WANT_STRIP);
    w->first = true;
    fputs(bulk ? "[" : "{\"redirects\": [", w->out);
    for (int i = 0; i < w->list->rules->nelts; i++)
        write_json_rule(w, rule_at(w, i), bulk);
    fputs(bulk ? "\n]\n" : "\n]}\n", w->out);
}

bool convert_looks_back(const char *pattern)
{
    bool in_class = false;

    for (const char *s = pattern; *s; s++) {
        if (*s == '\\' && s[1]) {
            if (!in_class && strchr("AGKbB", s[1]))
                return true;
            s++;
        } else if (in_class)
            in_class = *s != ']' || s[-1] == '[' || (s[-1] == '^' && s[-2] == '[');
        else if (*s == '[')
            in_class = true;
        else if ((*s == '^' && s > pattern) || !strncmp(s, "(?<=", 4) || !strncmp(s, "(?<!", 4))
            return true;
    }
    return false;
}

const char *convert_whole_pattern(const char *base, const char *pattern, apr_pool_t *pool)
{
    const char *quoted = convert_quote_regex(pool, base, strlen(base));
    unsigned depth = 0;

    if (convert_looks_back(pattern))
        return NULL;
    for (const char *p = strchr(pattern, '|') ? pattern : ""; *p; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '|' && !depth)
            return NULL;
        depth += *p == '(';
        depth -= *p == ')' && depth;
    }
    if (*pattern == '^')
        return apr_pstrcat(pool, "^", quoted, pattern + 1, NULL);
    /* What it captures stands at the first place that it matches. */
    return apr_pstrcat(pool, "^", quoted, ".*?", pattern, NULL);
}
