/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conditions on queries as RewriteConds on %{QUERY_STRING}: written for rules, and read from
 * configurations, where "^literal$" is met most. Called by the reader and the writer of httpd's
 * lines.
 */
#include "tool/convert_internal.h"

#include "rules/rules.h"

#include <stdlib.h>
#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

/* One of the parameters, so many of them, one alone, none. Empty ones do not count. */
#define ONE_BEGIN    "(^|&)"
#define ONE_END      "(&|$)"
#define COUNT_BEGIN  "^&*[^&]+(&+[^&]+){"
#define COUNT_END    "}&*$"
#define ALONE_BEGIN  "^&*"
#define ALONE_END    "&*$"
#define NO_PARAMETER "^&*$"

/* --- writing ----------------------------------------------------------------------------------*/

/* The hexadecimal digits of %XX in any case. */
static const char *regex_of(const char *text, size_t len, apr_pool_t *pool)
{
    const char *quoted = convert_quote_regex(pool, text, len);
    char *out = apr_palloc(pool, 4 * strlen(quoted) + 1), *to = out;
    unsigned digits = 0;

    for (const char *s = quoted; *s; s++) {
        bool letter = digits && apr_isalpha(*s);

        digits = *s == '%' ? 2 : digits - (digits > 0);
        to += letter ? sprintf(to, "[%c%c]", apr_toupper(*s), apr_tolower(*s))
                     : sprintf(to, "%c", *s);
    }
    *to = '\0';
    return out;
}

static bool is_among(const char *regex, const apr_array_header_t *regexes)
{
    for (int i = 0; i < regexes->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(regexes, i, const char *), regex))
            return true;
    }
    return false;
}

/* All parameters, in any order. NULL: one is there twice. */
static apr_array_header_t *regexes_of_set(char *query, apr_pool_t *pool)
{
    apr_array_header_t *regexes = apr_array_make(pool, 3, sizeof(const char *));
    const char *one = "";
    char *state;

    for (char *p = apr_strtok(query, "&", &state); p; p = apr_strtok(NULL, "&", &state)) {
        one = regex_of(p, strlen(p), pool);
        p = apr_pstrcat(pool, ONE_BEGIN, one, ONE_END, NULL);
        if (is_among(p, regexes))
            return NULL;
        APR_ARRAY_PUSH(regexes, const char *) = p;
    }
    if (regexes->nelts < 2) {
        regexes->nelts = 0;
        one = *one ? apr_pstrcat(pool, ALONE_BEGIN, one, ALONE_END, NULL) : NO_PARAMETER;
    } else
        one = apr_psprintf(pool, COUNT_BEGIN "%d" COUNT_END, regexes->nelts - 1);
    APR_ARRAY_PUSH(regexes, const char *) = one;
    return regexes;
}

apr_array_header_t *convert_query_regexes(const convert_rule *r, apr_pool_t *pool)
{
    apr_array_header_t *regexes = apr_array_make(pool, 1, sizeof(const char *));
    const redirect_rule *rule = &r->rule;

    if (rule->query && !(rule->flags & REDIRECT_QUERY_EXACT))
        return regexes_of_set(apr_pstrdup(pool, rule->query), pool);
    if (rule->query)
        APR_ARRAY_PUSH(regexes, const char *) =
            apr_pstrcat(pool, "^", regex_of(rule->query, rule->query_len, pool), "$", NULL);
    return regexes;
}

/* --- reading ----------------------------------------------------------------------------------*/

/* The text between @a begin and @a end; NULL: it does not stand between them. */
static const char *between(const char *regex, const char *begin, const char *end, apr_pool_t *pool)
{
    size_t len = strlen(regex), b = strlen(begin), e = strlen(end);

    return len >= b + e && !strncmp(regex, begin, b) && !strcmp(regex + len - e, end)
               ? apr_pstrmemdup(pool, regex + b, len - b - e)
               : NULL;
}

/* What a regex matches, in the form in which queries are compared; NULL: it is no literal. */
static const char *literal_of(const char *regex, apr_pool_t *pool)
{
    char *plain = apr_palloc(pool, strlen(regex) + 3), *to = plain, *literal;
    redirect_kind kind;
    size_t len;

    if (!*regex)
        return "";
    *to++ = '^';
    for (const char *s = regex; *s; s++) {
        if (*s == '[' && apr_isxdigit(s[1]) && apr_tolower(s[1]) == s[2] && s[3] == ']') {
            *to++ = s[1];
            s += 3;
        } else
            *to++ = *s;
    }
    *to++ = '$';
    *to = '\0';
    literal = apr_palloc(pool, strlen(plain) + 1);
    len = redirect_map_literal_prefix(plain, strlen(plain), literal, &kind);
    if (kind != REDIRECT_LITERAL)
        return NULL;
    literal[redirect_query_normalize(literal, len, literal)] = '\0';
    return literal;
}

/* The regex of a RewriteCond on the query without flags; NULL: it is another one. */
static const char *query_regex(const rewrite_line *condition, apr_pool_t *pool)
{
    const char *args = condition->args;
    bool closed;
    const char *input = redirect_config_word(pool, &args, &closed);
    const char *regex = redirect_config_word(pool, &args, &closed);

    return !strcmp(input, "%{QUERY_STRING}") && !*redirect_config_word(pool, &args, &closed) ? regex
                                                                                             : NULL;
}

/* The first of several RewriteConds say parameters, and the last one how many. */
static const char *read_set(const apr_array_header_t *conditions, apr_pool_t *pool)
{
    const char *query = "", *text = NULL;
    int n = conditions->nelts - 1;

    for (int i = 0; i <= n; i++) {
        const char *regex = query_regex(&APR_ARRAY_IDX(conditions, i, rewrite_line), pool);

        if (!regex)
            return NULL;
        text = i < n ? between(regex, ONE_BEGIN, ONE_END, pool)
                     : between(regex, COUNT_BEGIN, COUNT_END, pool);
        if (!text || (i < n && !(text = literal_of(text, pool))))
            return NULL;
        if (i < n)
            query = apr_pstrcat(pool, query, i ? "&" : "", text, NULL);
    }
    return strcmp(text, apr_itoa(pool, n - 1)) ? NULL : query;
}

/* The only RewriteCond. *exact: empty parameters count. */
static const char *read_alone(const rewrite_line *condition, bool *exact, apr_pool_t *pool)
{
    const char *regex = query_regex(condition, pool), *text;

    *exact = false;
    if (!regex)
        return NULL;
    if (!strcmp(regex, NO_PARAMETER))
        return "";
    text = between(regex, ALONE_BEGIN, ALONE_END, pool);
    if (text)
        return *text ? literal_of(text, pool) : NULL;
    *exact = true;
    text = between(regex, "^", "$", pool);
    return text ? literal_of(text, pool) : NULL;
}

bool convert_read_query(const apr_array_header_t *conditions, redirect_rule *rule, apr_pool_t *pool)
{
    bool exact = false;
    const char *query = conditions->nelts == 1
                            ? read_alone(&APR_ARRAY_IDX(conditions, 0, rewrite_line), &exact, pool)
                            : read_set(conditions, pool);

    if (!query)
        return false;
    rule->query = query;
    rule->query_len = strlen(query);
    rule->flags |= exact ? REDIRECT_QUERY_EXACT : 0;
    return true;
}

bool convert_is_without_query(const apr_array_header_t *all, const char *args, apr_pool_t *pool)
{
    const rewrite_line *lines = (const rewrite_line *)all->elts;
    int n = all->nelts;
    const char *mark;

    if (n < 2 || !lines[n - 2].condition || (n > 2 && lines[n - 3].condition) ||
        strcmp(lines[n - 2].args, CONVERT_IF_QUERY) != 0)
        return false;
    mark = strstr(lines[n - 1].args, CONVERT_QUERY "#");
    return mark && !strcmp(args, apr_psprintf(pool, "%.*s%s", (int)(mark - lines[n - 1].args),
                                              lines[n - 1].args, mark + strlen(CONVERT_QUERY)));
}
