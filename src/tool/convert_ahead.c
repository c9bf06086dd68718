/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lines that were left out, and rows that would answer their requests. A map is asked ahead of a
 * directory's lines, so it must have no row for a path that such a line may answer first, by the
 * header Accept. Lines of two sections are taken to be asked in any order: httpd merges sections by
 * kind and by length, and mod_rewrite's rules of one replace those of another. And a map is asked for
 * paths that a line makes, of which httpd asks no RewriteRule any more; in a loop, it may be, for ever.
 * Called by tool/convert_config.c.
 */
#include "tool/convert_internal.h"
#include "regex/regex.h"

#include <string.h>
#include <strings.h>

#include <apr_strings.h>

/* --- what looks at Accept ---------------------------------------------------------------------- */

static bool mentions(const char *text, const char *word)
{
    size_t len = strlen(word);

    while (*text && strncasecmp(text, word, len) != 0)
        text++;
    return *text != '\0';
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcasecmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* The header's name may be a regex. */
static bool looks_at_accept(const config_line *line)
{
    static const char *const conditions[] = {"RewriteCond", "RewriteRule", "SetEnvIfExpr",
                                             "<If",         "<ElseIf",     NULL};

    if (is_one_of(line->name, conditions))
        return mentions(line->args, "accept");
    return !strncasecmp(line->name, "SetEnvIf", 8) &&
           (mentions(line->args, "accept") ||
            strcspn(line->args, "^$.*+?[(|\\") < strcspn(line->args, " \t"));
}

static bool sets_variable(const config_line *line)
{
    return !strncasecmp(line->name, "SetEnvIf", 8) ||
           !strncasecmp(line->name, "BrowserMatch", 12) ||
           (!strcasecmp(line->name, "RewriteRule") &&
            (mentions(line->args, "E=") || mentions(line->args, "env=")));
}

convert_askers convert_find_askers(config_reader lines)
{
    bool asks = false, sets = false;
    config_line line;

    while (config_next_line(&lines, &line)) {
        asks = asks || looks_at_accept(&line);
        sets = sets || sets_variable(&line);
    }
    return asks ? sets ? CONVERT_ASKERS_SET : CONVERT_ASKERS : CONVERT_NO_ASKERS;
}

bool convert_asks(convert_askers askers, const char *condition)
{
    return mentions(condition, "accept") ||
           (askers == CONVERT_ASKERS_SET && mentions(condition, "env"));
}

bool convert_has_asking(convert_askers askers, const char *args)
{
    const char *variable = strstr(args, "%{");

    return variable && convert_asks(askers, variable);
}

bool convert_section_asks(convert_askers askers, const char *name, const char *args)
{
    if (!strcasecmp(name, "<Else") || !strcasecmp(name, "<ElseIf"))
        return askers != CONVERT_NO_ASKERS;
    return !strcasecmp(name, "<If") && convert_asks(askers, args);
}

static bool moves_on(const rewrite_rule *rule)
{
    return strcmp(rule->output, "-") != 0 && !strstr(rule->output, "://") &&
           !(rule->flags & (REWRITE_LAST | REWRITE_END | REWRITE_STATUS | REWRITE_PASSTHROUGH));
}

void convert_pass_on(convert_begun *begun, const rewrite_rule *rules, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t counted = rules[i].flags & REWRITE_CHAIN ? 1 : 0;

        if (rules[i].skip > 0 && (size_t)rules[i].skip > counted)
            counted = (size_t)rules[i].skip;
        for (size_t k = i + 1; begun[i].asks && k < n && k - i <= counted; k++)
            begun[k].asks = true;
        begun[i].moved = i && (begun[i - 1].moved || moves_on(&rules[i - 1]));
    }
}

/* --- lines ahead of others --------------------------------------------------------------------- */

/* NULL: nothing is known. Where all begin alike, something inside says more. */
static const unsigned char *literals_of(const char *pattern, unsigned flags, apr_pool_t *pool)
{
    redirect_literals *literals = apr_pcalloc(pool, sizeof(*literals));
    redirect_regex_facts facts;

    redirect_regex_read(pattern, strlen(pattern),
                        REDIRECT_REGEX_DEFAULT |
                            (flags & REDIRECT_ICASE ? REDIRECT_REGEX_ICASE : 0),
                        NULL, pool, &facts);
    if (facts.kind == REDIRECT_REGEX_PREFIXED && facts.inner_count) {
        facts.kind = REDIRECT_REGEX_FLOATING;
        facts.strings = facts.inner;
        facts.count = facts.inner_count;
    }
    return redirect_literals_add_regex(literals, &facts) ? literals->bytes : NULL;
}

void convert_put_ahead(convert_rule *rule, const char *pattern, apr_pool_t *pool)
{
    size_t len = strlen(pattern);
    char *literal = apr_pcalloc(pool, len + 2);

    rule->rule.source_len = redirect_map_literal_prefix(pattern, len, literal, &rule->rule.kind);
    rule->rule.source = literal;
    rule->literals = literals_of(pattern, rule->rule.flags, pool);
}

bool convert_goes_on(const rewrite_rule *rule)
{
    return !strcmp(rule->output, "-") &&
           !(rule->flags & (REWRITE_LAST | REWRITE_END | REWRITE_STATUS | REWRITE_PASSTHROUGH |
                            REWRITE_NEXT | REWRITE_UNKNOWN));
}

typedef struct candidate {
    convert_rule rule;
    int phase, order;
} candidate;

static bool is_whole(const redirect_rule *rule)
{
    return rule->kind == REDIRECT_LITERAL || rule->kind == REDIRECT_EXACT;
}

/* As mod_alias compares: a run of slashes is one. */
static const char *without_runs(const char *source, size_t *len, apr_pool_t *pool)
{
    char *to;
    size_t n = 0;

    if (!strstr(source, "//"))
        return source;
    to = apr_palloc(pool, *len + 1);
    for (size_t i = 0; i < *len; i++) {
        if (source[i] != '/' || !n || to[n - 1] != '/')
            to[n++] = source[i];
    }
    to[n] = '\0';
    *len = n;
    return to;
}

/* By what both begin with, and by what the one ahead must have: they may match the same path. */
static bool may_meet(const convert_rule *ahead, const convert_rule *row, apr_pool_t *pool)
{
    size_t a_len = ahead->rule.source_len, b_len = row->rule.source_len;
    const char *a = without_runs(ahead->rule.source, &a_len, pool);
    const char *b = without_runs(row->rule.source, &b_len, pool);
    size_t n = a_len < b_len ? a_len : b_len;
    bool icase = (ahead->rule.flags | row->rule.flags) & REDIRECT_ICASE;

    if (icase ? strncasecmp(a, b, n) : memcmp(a, b, n))
        return false;
    if ((is_whole(&ahead->rule) && a_len < b_len) || (is_whole(&row->rule) && b_len < a_len))
        return false;
    return !ahead->literals || !is_whole(&row->rule) || row->rule.flags & REDIRECT_ICASE ||
           redirect_literals_any(ahead->literals, b);
}

/* "*.example" may be another host, too. */
static bool same_host(const redirect_rule *a, const redirect_rule *b)
{
    return !a->host || !b->host || strchr(a->host, '*') || strchr(b->host, '*') ||
           !strcmp(a->host, b->host);
}

/* A server's line that leaves its requests to a map, without those of the RewriteRules behind it. */
static bool is_behind_server(const candidate *row, const candidate *ahead,
                             const convert_phases *order)
{
    if (!(order->rewrites & 1U << row->phase))
        return false;
    if (row->phase >= order->directories)
        return ahead->rule.ahead == CONVERT_AHEAD;
    return row->phase == ahead->phase ? row->order > ahead->order : order->inherits;
}

/* Where a path that is made is seen does not depend on the order of lines. */
static bool is_behind(const candidate *row, const candidate *ahead, const convert_phases *order,
                      apr_pool_t *pool)
{
    bool apart = row->rule.place != ahead->rule.place;

    if (!same_host(&row->rule.rule, &ahead->rule.rule))
        return false;
    if (ahead->rule.ahead == CONVERT_MAKES_PATH)
        return order->rewrites & 1U << row->phase && may_meet(&ahead->rule, &row->rule, pool);
    if (ahead->phase < order->directories)
        return is_behind_server(row, ahead, order) && may_meet(&ahead->rule, &row->rule, pool);
    if (row->phase < order->directories ||
        (apart ? row->phase < ahead->phase : row->order < ahead->order))
        return false;
    /* Where mod_rewrite has changed a path, mod_alias still sees the one that was asked for. */
    if (ahead->rule.ahead == CONVERT_AHEAD_OF_REWRITES && row->phase != ahead->phase)
        return false;
    return (apart && order->inherits) || may_meet(&ahead->rule, &row->rule, pool);
}

static const candidate *find_ahead(const apr_array_header_t *ahead, const candidate *row,
                                   const convert_phases *order, apr_pool_t *pool)
{
    for (int i = 0; i < ahead->nelts; i++) {
        const candidate *one = APR_ARRAY_IDX(ahead, i, const candidate *);

        if (is_behind(row, one, order, pool))
            return one;
    }
    return NULL;
}

/* What meets a single path meets what that path has met. */
static bool says_more(const candidate *row, const candidate *by)
{
    return by->rule.ahead != CONVERT_AHEAD || !is_whole(&row->rule.rule) ||
           row->rule.rule.flags & REDIRECT_ICASE || row->rule.place != by->rule.place ||
           (by->rule.rule.host && !row->rule.rule.host);
}

/* Requests that such a row would have answered go on to others: it may stand ahead of these itself. A
 * server's line answers them still. */
static void leave_out(convert_list *list, candidate *row, const candidate *by,
                      apr_array_header_t *ahead, const convert_phases *order)
{
    row->rule.ahead = CONVERT_AHEAD;
    row->rule.literals = NULL;
    if (row->phase >= order->directories && says_more(row, by))
        APR_ARRAY_PUSH(ahead, const candidate *) = row;
    convert_report(list, REDIRECT_ERROR, row->rule.file, row->rule.rule.line,
                   by->rule.ahead == CONVERT_MAKES_PATH
                       ? "it was left out: line %u was, and may make such a path, of which httpd "
                         "does not ask a RewriteRule"
                       : "it was left out: line %u was, and may answer the same paths first",
                   redirect_line_number(by->rule.rule.line));
    convert_no_rule(list, &(convert_row){row->rule.file, row->rule.rule.line, 0});
}

static void leave_out_behind(convert_list *list, apr_array_header_t *all, apr_array_header_t *ahead,
                             const convert_phases *order)
{
    apr_pool_t *scratch;
    bool again = ahead->nelts > 0;

    apr_pool_create(&scratch, list->pool);
    while (again) {
        again = false;
        for (int i = 0; i < all->nelts; i++) {
            candidate *row = &APR_ARRAY_IDX(all, i, candidate);
            const candidate *by = row->rule.ahead ? NULL : find_ahead(ahead, row, order, scratch);

            if (by) {
                leave_out(list, row, by, ahead, order);
                again = true;
            }
        }
        apr_pool_clear(scratch);
    }
    apr_pool_destroy(scratch);
}

void convert_append(convert_list *list, apr_array_header_t *const phases[],
                    const convert_phases *order)
{
    apr_array_header_t *all = apr_array_make(list->pool, 64, sizeof(candidate));
    apr_array_header_t *ahead = apr_array_make(list->pool, 4, sizeof(candidate *));

    for (int phase = 0; phase < order->count; phase++) {
        for (int i = 0; i < phases[phase]->nelts; i++)
            APR_ARRAY_PUSH(all, candidate) =
                (candidate){APR_ARRAY_IDX(phases[phase], i, convert_rule), phase, all->nelts};
    }
    for (int i = 0; i < all->nelts; i++) {
        if (APR_ARRAY_IDX(all, i, candidate).rule.ahead)
            APR_ARRAY_PUSH(ahead, const candidate *) = &APR_ARRAY_IDX(all, i, candidate);
    }
    leave_out_behind(list, all, ahead, order);
    for (int i = 0; i < all->nelts; i++) {
        convert_rule *rule = &APR_ARRAY_IDX(all, i, candidate).rule;

        if (rule->begun && !rule->ahead)
            rule->begun->taken = true;
        rule->begun = NULL;
        if (!rule->ahead)
            APR_ARRAY_PUSH(list->rules, convert_rule) = *rule;
    }
}
