/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Writing redirects as Redirect and RedirectMatch lines of an httpd configuration, with a
 * <VirtualHost> around those of a host. Called by convert_write().
 */
#include "tool/convert_internal.h"

#include <stdlib.h>
#include <string.h>

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

/* A word for httpd's argument reader. */
static const char *word_of(const char *text, apr_pool_t *pool)
{
    if (*text && !strpbrk(text, " \t\"'\\#"))
        return text;
    return apr_pstrcat(pool, "\"", convert_backslash(pool, text, "\"\\"), "\"", NULL);
}

/* mod_alias escapes the path of what a RedirectMatch gives: here is what it escapes to @a target.
 * NULL: nothing does. */
static const char *unescape_target(const char *target, bool expand, apr_pool_t *pool)
{
    size_t n = convert_target_path(target, strlen(target)), len;
    char *path = apr_pstrmemdup(pool, target, n), *to = path;
    const char *out = "";

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
    if (strlen(path) != len || strpbrk(path, "?#") ||
        strncmp(redirect_escape_path(pool, path), target, n) != 0)
        return NULL;
    path = apr_pstrcat(pool, path, target + n, NULL);
    for (const char *s = path; *s; s++) {
        bool literal = *s == '\\' || (*s == '$' && apr_isdigit(s[1]) && !expand);

        out = apr_pstrcat(pool, out, literal ? "\\" : "", apr_pstrmemdup(pool, s, 1), NULL);
    }
    return out;
}

static bool is_redirect_line(const convert_rule *r)
{
    const redirect_rule *rule = &r->rule;
    const char *t = rule->target;
    bool ends;

    if (rule->kind != REDIRECT_PREFIX || rule->flags & (REDIRECT_ICASE | REDIRECT_ANY_SLASH))
        return false;
    if (!t || r->joins)
        return true;
    ends = rule->source[rule->source_len - 1] == '/'; /* only a pattern's may be empty */
    return rule->options & REDIRECT_OPT_APPEND_REST &&
           convert_target_path(t, rule->target_len) == rule->target_len &&
           (t[rule->target_len - 1] == '/') == ends;
}

static void open_host(convert_writer *w, const convert_rule *r)
{
    fprintf(w->out, "<VirtualHost *%s>\n",
            r->rule.flags & REDIRECT_HTTP    ? ":80"
            : r->rule.flags & REDIRECT_HTTPS ? ":443"
                                             : "");
    if (r->rule.host)
        fprintf(w->out, "    Server%s %s\n", r->rule.host[0] == '*' ? "Alias" : "Name",
                r->rule.host);
}

static bool has_host(const convert_rule *r)
{
    return r->rule.host || r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS);
}

/* A line begins: within its host's section, which is opened by the first. */
static void begin_line(convert_writer *w, const convert_rule *r)
{
    if (!has_host(r))
        return;
    if (w->first)
        open_host(w, r);
    w->first = false;
    fputs("    ", w->out);
}

static bool put_match(convert_writer *w, const convert_rule *r, const convert_regex *regex)
{
    apr_pool_t *pool = w->list->pool;
    const char *target = regex->target ? unescape_target(regex->target, regex->expand, pool) : "";
    const char *pattern =
        regex->icase ? apr_pstrcat(pool, "(?i)", regex->pattern, NULL) : regex->pattern;

    if (!target)
        return !convert_lost(w->list, r,
                             "RedirectMatch cannot give the target '%s': its path is "
                             "not escaped as httpd escapes it; it was left out",
                             regex->target);
    begin_line(w, r);
    fprintf(w->out, "RedirectMatch %d %s%s%s\n", r->rule.status, word_of(pattern, pool),
            regex->target ? " " : "", regex->target ? word_of(target, pool) : "");
    return true;
}

static const char *fault_of(const convert_rule *r)
{
    convert_wants wants = convert_wants_of(r);

    if (r->rule.query)
        return "a condition on the query";
    if (wants.query == REDIRECT_QUERY_DROP)
        return "query=drop";
    if (wants.query == REDIRECT_QUERY_WHOLE)
        return "query=exact";
    return wants.strip ? "strip=" : NULL;
}

static void write_rule(convert_writer *w, const convert_rule *r)
{
    apr_pool_t *pool = w->list->pool;
    const char *fault = fault_of(r);
    convert_regex regex[2];
    int n;

    if (fault) {
        convert_lost(w->list, r, "Redirect cannot say %s; it was left out", fault);
        return;
    }
    if (is_redirect_line(r)) {
        begin_line(w, r);
        fprintf(w->out, "Redirect %d %s%s%s\n", r->rule.status, word_of(r->rule.source, pool),
                r->rule.target ? " " : "", r->rule.target ? word_of(r->rule.target, pool) : "");
        w->count++;
        return;
    }
    n = convert_regexes(w->list, r, regex);
    for (int i = 0; i < n; i++) {
        if (!put_match(w, r, &regex[i]))
            return;
    }
    w->count += n > 0;
}

/* --- hosts ------------------------------------------------------------------------------------*/

static const char *group_of(const convert_rule *r, apr_pool_t *pool)
{
    return has_host(r)
               ? apr_psprintf(pool, "%u %s", r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS),
                              r->rule.host ? r->rule.host : "")
               : "";
}

/* Rules of one host, in their order, that no earlier group had. */
void convert_write_httpd(convert_writer *w)
{
    apr_pool_t *pool = w->list->pool;
    apr_array_header_t *names = apr_array_make(pool, 4, sizeof(const char *));
    apr_hash_t *groups = apr_hash_make(pool);

    for (int i = 0; i < w->list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(w->list->rules, i, convert_rule);
        const char *name = group_of(r, pool);
        apr_array_header_t *group = apr_hash_get(groups, name, APR_HASH_KEY_STRING);

        if (!group) {
            group = apr_array_make(pool, 16, sizeof(const convert_rule *));
            apr_hash_set(groups, name, APR_HASH_KEY_STRING, group);
            APR_ARRAY_PUSH(names, const char *) = name;
        }
        APR_ARRAY_PUSH(group, const convert_rule *) = r;
    }
    for (int i = 0; i < names->nelts; i++) {
        const char *name = APR_ARRAY_IDX(names, i, const char *);
        apr_array_header_t *group = apr_hash_get(groups, name, APR_HASH_KEY_STRING);

        w->first = true;
        for (int j = 0; j < group->nelts; j++)
            write_rule(w, APR_ARRAY_IDX(group, j, const convert_rule *));
        if (*name && !w->first)
            fputs("</VirtualHost>\n", w->out);
    }
}
