/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Writing redirects as lines of an httpd configuration, with a <VirtualHost> around those of a
 * host. They are Redirect and RedirectMatch lines, or all of them RewriteRules if one has to be:
 * mod_rewrite answers ahead of mod_alias, so that the two together would lose the order. Called by
 * convert_write().
 */
#include "rules/rules.h"
#include "tool/convert_internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

/* The lines of a host. httpd asks one virtual host for each request: the first of the connection's
 * port that has the name. So a host's has all lines that hold for it. */
typedef struct host_lines {
    const char *host;          /* NULL: any */
    int place;                 /* among all hosts: by its first line */
    bool all;                  /* any host and scheme: they stand ahead of virtual hosts */
    bool has_scheme;           /* some are for http or https alone */
    apr_array_header_t *rules; /* const convert_rule *, in their order */
    apr_array_header_t *below; /* host_lines *: whose hosts these lines are for, too */
} host_lines;

typedef struct httpd_writer {
    convert_writer *w;
    apr_array_header_t *hosts;    /* host_lines * */
    const host_lines *host;       /* those being written */
    const char *address;          /* of their virtual host */
    const convert_rule *rewrites; /* the first that has to be a RewriteRule; NULL: none */
    bool escapes;                 /* some put a part of the path behind their target */
    bool inherits;                /* virtual hosts have the server's RewriteRules, too */
} httpd_writer;

/* A word for httpd's argument reader. */
static const char *word_of(const char *text, apr_pool_t *pool)
{
    if (*text && !strpbrk(text, " \t\"'\\#"))
        return text;
    return apr_pstrcat(pool, "\"", convert_backslash(pool, text, "\"\\"), "\"", NULL);
}

static bool has_control(const char *s)
{
    while (*s && !apr_iscntrl(*s))
        s++;
    return *s;
}

/* Dollars that stand for themselves as such. */
static const char *plain_target(const char *target, apr_pool_t *pool)
{
    char *plain = apr_pstrdup(pool, target);

    for (char *s = plain; (s = strchr(s, CONVERT_DOLLAR)); s++)
        *s = '$';
    return plain;
}

/* mod_alias escapes the path of what a RedirectMatch gives: here is what it escapes to @a target.
 * NULL: nothing does. */
static const char *unescape_target(const char *target, bool expand, apr_pool_t *pool)
{
    size_t n = convert_target_path(target, strlen(target)), len;
    char *path = apr_pstrmemdup(pool, target, n), *to = path;
    const char *out = "", *plain;

    for (const char *s = path; *s; s++) {
        if (*s == '%' && apr_isxdigit(s[1]) && apr_isxdigit(s[2])) {
            char digits[3] = {s[1], s[2], '\0'};

            *to++ = (char)strtol(digits, NULL, 16);
            s += 2;
        } else
            *to++ = *s;
    }
    len = (size_t)(to - path);
    *to = '\0';
    plain = plain_target(path, pool);
    if (strlen(path) != len || strpbrk(path, "?#") || has_control(plain) ||
        strncmp(redirect_escape_path(pool, plain), plain_target(target, pool), n) != 0)
        return NULL;
    path = apr_pstrcat(pool, path, target + n, NULL);
    for (const char *s = path; *s; s++) {
        bool literal = *s == '\\' || (*s == '$' && apr_isdigit(s[1]) && !expand);

        out = *s == CONVERT_DOLLAR
                  ? apr_pstrcat(pool, out, "\\$", NULL)
                  : apr_pstrcat(pool, out, literal ? "\\" : "", apr_pstrmemdup(pool, s, 1), NULL);
    }
    return out;
}

static bool is_redirect_line(const convert_rule *r)
{
    const redirect_rule *rule = &r->rule;
    const char *t = rule->target;
    bool ends;

    if (rule->kind != REDIRECT_PREFIX || rule->flags & (REDIRECT_ICASE | REDIRECT_ANY_SLASH) ||
        has_control(rule->source))
        return false;
    if (!t || r->joins)
        return true;
    ends = rule->source[rule->source_len - 1] == '/'; /* only a pattern's may be empty */
    return rule->options & REDIRECT_OPT_APPEND_REST &&
           convert_target_path(t, rule->target_len) == rule->target_len &&
           (t[rule->target_len - 1] == '/') == ends;
}

/* Is the request's query to be put ahead of a fragment? */
static bool splits_target(const convert_rule *r)
{
    return r->rule.target && strchr(r->rule.target, '#') && !convert_has_query(r) &&
           (r->rule.options & (REDIRECT_OPT_APPEND_QUERY | REDIRECT_OPT_LINE)) ==
               REDIRECT_OPT_APPEND_QUERY;
}

/* mod_alias escapes the targets of patterns, knows no queries, and appends them to all targets that
 * have none. */
static bool is_rewrite(const convert_rule *r, apr_pool_t *pool)
{
    if (r->rule.query || convert_wants_of(r).query == REDIRECT_QUERY_DROP || splits_target(r))
        return true;
    return r->rule.target && !is_redirect_line(r) &&
           !unescape_target(r->rule.target, r->rule.options & REDIRECT_OPT_EXPAND, pool);
}

static bool puts_rest(const convert_rule *r)
{
    return r->joins || r->rule.options & (REDIRECT_OPT_APPEND_REST | REDIRECT_OPT_EXPAND);
}

static void open_host(const httpd_writer *h)
{
    fprintf(h->w->out, "<VirtualHost %s>\n", h->address);
    if (h->host->host)
        fprintf(h->w->out, "    Server%s %s\n", h->host->host[0] == '*' ? "Alias" : "Name",
                h->host->host);
}

/* The first line of a group is to follow. */
static void open_group(const httpd_writer *h)
{
    const char *indent = h->host->all ? "" : "    ";

    if (!h->host->all)
        open_host(h);
    if (!h->rewrites)
        return;
    fprintf(h->w->out, "%sRewriteEngine On\n", indent);
    if (h->inherits && !h->host->all)
        fprintf(h->w->out, "%sRewriteOptions Inherit\n", indent);
    if (h->escapes)
        fprintf(h->w->out, "%sRewriteMap " CONVERT_ESCAPE_MAP " int:escape\n", indent);
}

static void begin_line(const httpd_writer *h)
{
    if (h->w->first)
        open_group(h);
    h->w->first = false;
    fputs(h->host->all ? "" : "    ", h->w->out);
}

/* No control character may stand in a line. */
static const char *pattern_of(const convert_regex *regex, apr_pool_t *pool)
{
    const char *out = regex->icase ? "(?i)" : "";

    for (const char *s = regex->pattern; *s; s++)
        out = apr_iscntrl(*s) ? apr_psprintf(pool, "%s\\x%02x", out, (unsigned)*s)
                              : apr_psprintf(pool, "%s%c", out, *s);
    return out;
}

/* Can a "?" or "#" be among what the regex matches, as far as that can be seen? */
static bool takes_marks(const char *regex)
{
    for (const char *s = regex; *s; s++) {
        if (*s == '.' || !strncmp(s, "[^", 2) ||
            (*s == '\\' && s[1] && strchr("?#DNSWXCHVR", s[1])))
            return true;
        s += *s == '\\' && s[1];
    }
    return false;
}

/* Maps escape what divides parameters. */
static void note_captured_query(const httpd_writer *h, const convert_rule *r,
                                const convert_regex *regex)
{
    const char *at = regex->target && regex->expand ? strchr(regex->target, '?') : NULL;

    if (r->rule.options & REDIRECT_OPT_LINE || !takes_marks(regex->pattern))
        return;
    while (at && *at != '#' && (at = strpbrk(at + 1, "$#"))) {
        if (*at == '$' && apr_isdigit(at[1])) {
            convert_differs(h->w->list, r,
                            "httpd puts a captured '&', '=', ';' or '+' into the target's query as "
                            "it is, where it may divide parameters");
            return;
        }
    }
}

static bool put_match(const httpd_writer *h, const convert_rule *r, const convert_regex *regex)
{
    apr_pool_t *pool = h->w->list->pool;
    const char *target = regex->target ? unescape_target(regex->target, regex->expand, pool) : "";

    begin_line(h);
    fprintf(h->w->out, "RedirectMatch %d %s%s%s\n", r->rule.status,
            word_of(pattern_of(regex, pool), pool), regex->target ? " " : "",
            regex->target ? word_of(target, pool) : "");
    if (regex->expand && takes_marks(regex->pattern) && !(r->rule.options & REDIRECT_OPT_LINE))
        convert_differs(h->w->list, r,
                        "RedirectMatch takes a %%3F or %%23 in what it puts into the target for a "
                        "query or a fragment");
    note_captured_query(h, r, regex);
    return true;
}

/* mod_rewrite has no backslashes within quotes. In front of a blank they stay, where they do no
 * harm. */
static const char *rewrite_word(const char *text, apr_pool_t *pool)
{
    char *word = apr_palloc(pool, 2 * strlen(text) + 1), *to = word;

    for (; *text; text++) {
        if (*text == ' ')
            *to++ = '\\';
        else if (*text == '\\' && text[1])
            *to++ = *text++;
        *to++ = *text;
    }
    *to = '\0';
    return word;
}

/* mod_rewrite sends what stands here as it is, but for the groups. */
static const char *substitution(const convert_regex *regex, bool query, apr_pool_t *pool)
{
    const char *out = "";

    for (const char *s = regex->target; *s; s++) {
        const char *one = apr_pstrmemdup(pool, s, 1);

        if (*s == '#' && query) {
            one = CONVERT_QUERY "#";
            query = false;
        } else if (*s == '$' && regex->expand && apr_isdigit(s[1]))
            one = apr_psprintf(pool, "${" CONVERT_ESCAPE_MAP ":$%c}", *++s);
        else if (*s == CONVERT_DOLLAR)
            one = "\\$";
        else if (*s == '\\' || ((*s == '$' || *s == '%') && (apr_isdigit(s[1]) || s[1] == '{')))
            one = apr_pstrcat(pool, "\\", one, NULL);
        out = apr_pstrcat(pool, out, one, NULL);
    }
    return out;
}

/* mod_rewrite takes away a "?" at the end, and an "&" at the end of a query. It knows few schemes.
 */
static bool takes_target(const char *target, bool query)
{
    size_t len = strlen(target);

    return (*target == '/' || !strncasecmp(target, "http://", 7) ||
            !strncasecmp(target, "https://", 8)) &&
           !(query && (target[len - 1] == '?' || target[len - 1] == '&'));
}

static void put_rewrite_line(const httpd_writer *h, const convert_rule *r,
                             const convert_regex *regex, bool query, bool drop)
{
    apr_pool_t *pool = h->w->list->pool;

    begin_line(h);
    fprintf(h->w->out, "RewriteRule %s %s [R=%d,%s%sL]\n",
            rewrite_word(pattern_of(regex, pool), pool),
            regex->target ? substitution(regex, query, pool) : "-", r->rule.status,
            regex->target ? "NE," : "", drop ? "QSD," : "");
}

/* Where a target has a fragment, a request with a query, be it empty, has a line of its own: of the
 * query of any other httpd makes the target's end. */
static bool put_rewrite(const httpd_writer *h, const convert_rule *r, const convert_regex *regex)
{
    apr_pool_t *pool = h->w->list->pool;
    apr_array_header_t *queries = convert_query_regexes(r, pool);
    bool drop =
        regex->target && !convert_has_query(r) && !(r->rule.options & REDIRECT_OPT_APPEND_QUERY);

    bool splits = splits_target(r);

    if (regex->target && !takes_target(regex->target, splits || strchr(regex->target, '?')))
        return false;
    for (int i = 0; i < queries->nelts; i++) {
        begin_line(h);
        fprintf(h->w->out, "RewriteCond %%{QUERY_STRING} %s\n",
                APR_ARRAY_IDX(queries, i, const char *));
    }
    if (splits) {
        begin_line(h);
        fputs("RewriteCond " CONVERT_IF_QUERY "\n", h->w->out);
        put_rewrite_line(h, r, regex, true, false);
    }
    put_rewrite_line(h, r, regex, false, drop);
    note_captured_query(h, r, regex);
    return true;
}

/* Statuses that httpd has no text for, such as 418, are 500 with mod_alias, and mod_rewrite refuses
 * them. */
static bool has_status(int status, apr_pool_t *pool)
{
    rewrite_rule rule;

    redirect_config_answers(apr_psprintf(pool, "^ - [R=%d]", status), &rule, pool);
    return !(rule.flags & REWRITE_UNKNOWN);
}

static const char *fault_of(const convert_rule *r, apr_pool_t *pool)
{
    if (r->rule.condition)
        return convert_condition_fault(r);
    if (!has_status(r->rule.status, pool))
        return apr_psprintf(pool, "status %d", r->rule.status);
    if (!convert_query_regexes(r, pool))
        return "a parameter twice in a query";
    return convert_wants_of(r).strip ? "strip=" : NULL;
}

/* httpd puts values for "${NAME}" into any line, and leaves those alone that have none. */
static void note_variable(const convert_writer *w, const convert_rule *r)
{
    const char *name = r->rule.target ? strstr(r->rule.target, "${") : NULL;

    if (!name && r->rule.kind == REDIRECT_PREFIX)
        name = strstr(r->rule.source, "${");
    if (!name || !strchr(name, '}'))
        return;
    convert_list_at(w->list, r)->unread = true;
    convert_warn(w->list, r,
                 "httpd warns of '%.*s', and puts a value there if a variable of this name is "
                 "defined",
                 (int)(strchr(name, '}') - name) + 1, name);
}

static void write_rule(const httpd_writer *h, const convert_rule *r)
{
    convert_writer *w = h->w;
    apr_pool_t *pool = w->list->pool;
    const char *fault = fault_of(r, w->list->pool);
    convert_regex regex[2];
    int n, i = 0;

    if (fault) {
        convert_left_out(w->list, r, "httpd cannot say %s", fault);
        return;
    }
    if (!h->rewrites && is_redirect_line(r)) {
        note_variable(w, r);
        begin_line(h);
        fprintf(w->out, "Redirect %d %s%s%s\n", r->rule.status, word_of(r->rule.source, pool),
                r->rule.target ? " " : "", r->rule.target ? word_of(r->rule.target, pool) : "");
        w->count++;
        return;
    }
    n = convert_regexes(w->list, r, regex);
    while (i < n && (h->rewrites ? put_rewrite : put_match)(h, r, &regex[i]))
        i++;
    if (i)
        note_variable(w, r);
    if (i < n && i)
        convert_lost(w->list, r, "RewriteRule cannot give the target '%s'",
                     plain_target(regex[i].target, pool));
    else if (i < n)
        convert_left_out(w->list, r, "RewriteRule cannot give the target '%s'",
                         plain_target(regex[i].target, pool));
    w->count += (unsigned)i;
}

/* --- hosts ------------------------------------------------------------------------------------*/

static bool is_for_all(const convert_rule *r)
{
    return !r->rule.host && !(r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS));
}

static host_lines *lines_of(httpd_writer *h, apr_hash_t *known, const convert_rule *r)
{
    apr_pool_t *pool = h->w->list->pool;
    const char *name = is_for_all(r) ? "all" : apr_pstrcat(pool, "/", r->rule.host, NULL);
    host_lines *lines = apr_hash_get(known, name, APR_HASH_KEY_STRING);

    if (lines)
        return lines;
    lines = apr_pcalloc(pool, sizeof(*lines));
    *lines = (host_lines){r->rule.host,
                          h->hosts->nelts,
                          is_for_all(r),
                          false,
                          apr_array_make(pool, 4, sizeof(const convert_rule *)),
                          apr_array_make(pool, 1, sizeof(host_lines *))};
    apr_hash_set(known, name, APR_HASH_KEY_STRING, lines);
    APR_ARRAY_PUSH(h->hosts, host_lines *) = lines;
    return lines;
}

/* Lines of "*.example.com" are for "a.example.com" and "*.a.example.com", too, and those of no host
 * for all. */
static void find_below(const httpd_writer *h, apr_hash_t *known)
{
    apr_pool_t *pool = h->w->list->pool;

    for (int i = 0; i < h->hosts->nelts; i++) {
        host_lines *lines = APR_ARRAY_IDX(h->hosts, i, host_lines *), *above;
        const char *dot = lines->host;

        if (lines->all || !dot)
            continue;
        dot += *dot == '*' ? 2 : 0;
        while ((dot = strchr(dot, '.'))) {
            above = apr_hash_get(known, apr_pstrcat(pool, "/*", dot++, NULL), APR_HASH_KEY_STRING);
            if (above)
                APR_ARRAY_PUSH(above->below, host_lines *) = lines;
        }
        above = apr_hash_get(known, "/", APR_HASH_KEY_STRING);
        if (above)
            APR_ARRAY_PUSH(above->below, host_lines *) = lines;
    }
}

static void add_line(host_lines *lines, const convert_rule *r)
{
    APR_ARRAY_PUSH(lines->rules, const convert_rule *) = r;
    lines->has_scheme |= (r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS)) != 0;
}

/* The first virtual host that a name fits answers for it. */
static int rank_of(const host_lines *lines)
{
    return lines->all || (lines->host && *lines->host != '*') ? 1 : lines->host ? 2 : 0;
}

static int compare_hosts(const void *a, const void *b)
{
    const host_lines *x = *(const host_lines *const *)a, *y = *(const host_lines *const *)b;
    int first = rank_of(x) - rank_of(y);
    size_t n, m;

    if (!first && rank_of(x) == 2) {
        n = strlen(x->host);
        m = strlen(y->host);
        first = (n < m) - (n > m);
    }
    /* in the order of the first lines that are their own */
    return first ? first : (x->place > y->place) - (x->place < y->place);
}

static void note_rewrites(const httpd_writer *h)
{
    if (h->rewrites)
        convert_report(h->w->list, REDIRECT_NOTE, h->rewrites->file, h->rewrites->rule.line,
                       "only RewriteRule can say this, so all lines are RewriteRules; they hold in "
                       "the <VirtualHost> that they stand in, and not in a .htaccess file");
}

/* Does it stand ahead of another one in its file? Lists are not always in that order. */
static bool is_ahead(const convert_rule *r, const convert_rule *of)
{
    return !of || (r->file == of->file && r->rule.line < of->rule.line);
}

/* The lines of a host for all schemes but those of @a but. */
static void write_group(httpd_writer *h, const host_lines *lines, const char *address, unsigned but)
{
    h->host = lines;
    h->address = address;
    h->w->first = true;
    for (int i = 0; i < lines->rules->nelts; i++) {
        const convert_rule *r = APR_ARRAY_IDX(lines->rules, i, const convert_rule *);

        if (!(r->rule.flags & but))
            write_rule(h, r);
    }
    if (!lines->all && !h->w->first)
        fputs("</VirtualHost>\n", h->w->out);
}

/* Beside a virtual host of a port httpd never asks those of all ports. */
static void write_groups(httpd_writer *h)
{
    bool ports = false;

    for (int i = 0; i < h->hosts->nelts; i++)
        ports |= APR_ARRAY_IDX(h->hosts, i, const host_lines *)->has_scheme;
    for (int i = 0; i < h->hosts->nelts; i++) {
        const host_lines *lines = APR_ARRAY_IDX(h->hosts, i, const host_lines *);

        if (!lines->has_scheme) {
            write_group(h, lines, ports ? "*:80 *:443" : "*", 0);
            continue;
        }
        write_group(h, lines, "*:80", REDIRECT_HTTPS);
        write_group(h, lines, "*:443", REDIRECT_HTTP);
    }
}

static void note_hosts(const httpd_writer *h)
{
    const convert_rule *first = NULL;
    int n = 0;

    for (int i = 0; i < h->hosts->nelts; i++) {
        const host_lines *lines = APR_ARRAY_IDX(h->hosts, i, const host_lines *);

        if (lines->all)
            continue;
        n++;
        if (is_ahead(APR_ARRAY_IDX(lines->rules, 0, const convert_rule *), first))
            first = APR_ARRAY_IDX(lines->rules, 0, const convert_rule *);
    }
    if (first)
        convert_report(h->w->list, REDIRECT_NOTE, first->file, first->rule.line,
                       "%d hosts have lines of their own. httpd asks only the first <VirtualHost> "
                       "of a name, and one for all ports (*) only where none is for the request's: "
                       "move lines of a host that your server has into its own",
                       n);
}

void convert_write_httpd(convert_writer *w)
{
    apr_pool_t *pool = w->list->pool;
    apr_hash_t *known = apr_hash_make(pool);
    httpd_writer h = {.w = w, .hosts = apr_array_make(pool, 4, sizeof(host_lines *))};

    w->list->own_dollars = true;
    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(w->list->rules, i, convert_rule);

        lines_of(&h, known, r);
        if (is_ahead(r, h.rewrites) && !fault_of(r, pool) && is_rewrite(r, pool))
            h.rewrites = r;
        h.escapes |= puts_rest(r);
    }
    find_below(&h, known);
    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(w->list->rules, i, convert_rule);
        host_lines *lines = lines_of(&h, known, r);

        add_line(lines, r);
        for (int j = 0; j < lines->below->nelts; j++)
            add_line(APR_ARRAY_IDX(lines->below, j, host_lines *), r);
    }
    h.inherits = h.hosts->nelts > 1 && apr_hash_get(known, "all", APR_HASH_KEY_STRING);
    qsort(h.hosts->elts, (size_t)h.hosts->nelts, sizeof(host_lines *), compare_hosts);
    note_rewrites(&h);
    note_hosts(&h);
    write_groups(&h);
}
