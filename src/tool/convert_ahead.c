/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * RewriteRules that were left out by their conditions on Accept, and the rules behind them. A map is
 * asked ahead of a directory's rules, so there one behind would answer the requests of one that was
 * left out. Not noticed so far: lines of two sections, skips, conditions on Accept by way of a
 * variable or an expression. Called as a configuration has been read.
 */
#include "tool/convert_internal.h"

#include <string.h>
#include <strings.h>

#include <apr_strings.h>

static bool asks_for_accept(const char *condition)
{
    for (; *condition; condition++) {
        if (!strncasecmp(condition, "HTTP_ACCEPT}", 12) ||
            !strncasecmp(condition, "HTTP:Accept}", 12))
            return true;
    }
    return false;
}

bool convert_ask_accept(const apr_array_header_t *conditions)
{
    for (int i = 0; i < conditions->nelts; i++) {
        if (asks_for_accept(APR_ARRAY_IDX(conditions, i, rewrite_line).args))
            return true;
    }
    return false;
}

void convert_put_ahead(convert_rule *rule, const char *pattern, bool redirects, apr_pool_t *pool)
{
    size_t len = strlen(pattern);
    char *literal = apr_pcalloc(pool, len + 2);

    rule->ahead = redirects ? CONVERT_AHEAD : CONVERT_AHEAD_OF_SAME;
    rule->rule.source_len = redirect_map_literal_prefix(pattern, len, literal, &rule->rule.kind);
    rule->rule.source = literal;
    rule->rule.pattern = pattern;
    rule->rule.pattern_len = len;
}

static bool is_whole(const redirect_rule *rule)
{
    return rule->kind == REDIRECT_LITERAL || rule->kind == REDIRECT_EXACT;
}

static bool same_source(const redirect_rule *a, const redirect_rule *b)
{
    return a->source_len == b->source_len && !memcmp(a->source, b->source, a->source_len);
}

/* By what both begin with: they may match the same path. */
static bool may_meet(const redirect_rule *a, const redirect_rule *b)
{
    size_t n = a->source_len < b->source_len ? a->source_len : b->source_len;
    bool icase = (a->flags | b->flags) & REDIRECT_ICASE;

    if (icase ? strncasecmp(a->source, b->source, n) : memcmp(a->source, b->source, n))
        return false;
    return !(is_whole(a) && a->source_len < b->source_len) &&
           !(is_whole(b) && b->source_len < a->source_len);
}

/* One that is no redirect, with a pattern that most paths match, is often of images alone. */
static bool is_same(const redirect_rule *ahead, const redirect_rule *rule)
{
    if (is_whole(ahead) && is_whole(rule))
        return same_source(ahead, rule);
    return rule->pattern && !strcmp(ahead->pattern, rule->pattern);
}

static bool is_behind(const convert_rule *rule, const convert_rule *ahead)
{
    if (rule->place && ahead->place && rule->place != ahead->place)
        return false;
    if (rule->rule.host && ahead->rule.host && strcmp(rule->rule.host, ahead->rule.host) != 0)
        return false;
    return ahead->ahead == CONVERT_AHEAD_OF_SAME ? is_same(&ahead->rule, &rule->rule)
                                                 : may_meet(&ahead->rule, &rule->rule);
}

static const convert_rule *find_ahead(const apr_array_header_t *ahead, const convert_rule *rule)
{
    for (int i = 0; i < ahead->nelts; i++) {
        const convert_rule *one = &APR_ARRAY_IDX(ahead, i, convert_rule);

        if (is_behind(rule, one))
            return one;
    }
    return NULL;
}

/* It stands ahead of others itself. */
static void leave_out(convert_list *list, convert_rule *rule, const convert_rule *by)
{
    rule->ahead = CONVERT_AHEAD;
    convert_report(list, REDIRECT_ERROR, rule->file, rule->rule.line,
                   "it was left out: line %u was, is asked first, and may match the same paths",
                   redirect_line_number(by->rule.line));
    convert_no_rule(list, &(convert_row){rule->file, rule->rule.line, 0});
}

void convert_append(convert_list *list, apr_array_header_t *const phases[], int n)
{
    apr_array_header_t *ahead = apr_array_make(list->pool, 4, sizeof(convert_rule));

    for (int phase = 0; phase < n; phase++) {
        for (int i = 0; i < phases[phase]->nelts; i++) {
            convert_rule rule = APR_ARRAY_IDX(phases[phase], i, convert_rule);
            const convert_rule *by = rule.ahead ? NULL : find_ahead(ahead, &rule);

            if (by)
                leave_out(list, &rule, by);
            APR_ARRAY_PUSH(rule.ahead ? ahead : list->rules, convert_rule) = rule;
        }
    }
}
