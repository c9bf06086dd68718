/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Where a target leads, and what hides a row: for the checks of rows taken together, of a file by
 * maps/check.c and of edits by maps/overlay_check.c.
 */
#include "maps/check_url.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>
#include <strings.h>

/* Scheme and host. False: it is asked elsewhere. */
static bool request_host(check_url *u, const redirect_request *before, const char **rest,
                         size_t *len, redirect_request *request)
{
    const char *s = *rest;
    size_t i, n = 0;

    request->host = before->host;
    request->host_len = before->host_len;
    request->https = before->https;
    if (*len && s[0] == '/')
        return true;
    request->https = *len > 8 && !strncasecmp(s, "https://", 8);
    i = request->https ? 8 : 7;
    if (*len < i || (!request->https && strncasecmp(s, "http://", 7)))
        return false;
    if (i < *len && s[i] == '[') /* an address: not followed */
        return false;
    for (; i < *len && n < CHECK_HOST_MAX && s[i] && !strchr(":/?#", s[i]); i++)
        u->host[n++] = (char)apr_tolower(s[i]);
    if (n && u->host[n - 1] == '.')
        n--;
    while (i < *len && !strchr("/?#", s[i])) {
        if (s[i] == '@')
            return false;
        i++;
    }
    request->host = u->host;
    request->host_len = n;
    *rest = s + i;
    *len -= i;
    return n > 0;
}

bool check_request_of(check_url *u, const char *s, size_t len, const redirect_request *before,
                      redirect_request *request)
{
    const char *hash, *mark;
    size_t path_len;
    map_text path;

    if (!request_host(u, before, &s, &len, request))
        return false;
    hash = memchr(s, '#', len);
    if (hash)
        len = (size_t)(hash - s);
    mark = memchr(s, '?', len);
    path_len = mark ? (size_t)(mark - s) : len;
    path = path_len ? (map_text){s, path_len, 0} : (map_text){"/", 1, 0};
    if (redirect_map_decode(path, u->path, &path_len))
        return false;
    u->path[path_len] = '\0';
    request->path = u->path;
    request->path_len = path_len;
    if (mark) {
        request->query_len =
            redirect_query_normalize(mark + 1, len - (size_t)(mark + 1 - s), u->query);
        request->query = u->query;
    }
    return true;
}

redirect_request check_source_of(const redirect_rule *rule)
{
    return (redirect_request){
        .host = rule->host, .host_len = rule->host_len, .https = rule->flags & REDIRECT_HTTPS};
}

static bool same_host(const redirect_request *a, const redirect_request *b)
{
    return a->host_len == b->host_len && a->host && b->host &&
           !memcmp(a->host, b->host, a->host_len);
}

bool check_leads_back(const char *url, const redirect_request *request,
                      const redirect_request *before, const redirect_rule *to)
{
    return url[0] == '/' || same_host(request, before) || to->host;
}

const char *check_with_fragment(const char *url, const char *before, apr_pool_t *pool)
{
    const char *fragment = strchr(before, '#');

    return fragment && !strchr(url, '#') ? apr_pstrcat(pool, url, fragment, NULL) : url;
}

/* --- rows with patterns -------------------------------------------------------------------------*/

#define SAMPLED_MAX 1000 /* bytes of a pattern */
#define HIDERS_MAX  4    /* rows that are looked at before a row is thought to be reachable */

/* The rule becomes one for a single path of its template. A row that answers this path, and is no
 * regex, answers all paths of the template. With nothing but names, each stands for a byte that no
 * source has. With a wildcard, the path ends where the first one begins, and only a prefix can
 * answer it. */
static void take_template_path(redirect_rule *rule, apr_pool_t *pool)
{
    const char *pattern = rule->pattern, *slash = memrchr(rule->source, '/', rule->source_len);

    if (rule->pattern_len <= SAMPLED_MAX && !memmem(pattern, rule->pattern_len, "(.*)", 4) &&
        !memmem(pattern, rule->pattern_len, "(?:", 3) && pattern[rule->pattern_len - 2] != '?') {
        rule->source =
            redirect_map_sample(apr_pstrmemdup(pool, pattern, rule->pattern_len), "\1", pool);
        rule->source_len = strlen(rule->source);
    } else {
        rule->source_len = slash ? (size_t)(slash - rule->source) + 1 : 0;
        rule->kind = REDIRECT_PREFIX;
    }
}

const char *check_sample(const redirect_rule *rule, unsigned number, apr_pool_t *pool)
{
    static const char *const texts[] = {"some", "2024", "some/page.html", "a", ""};

    if (number >= 2 * sizeof(texts) / sizeof(texts[0]) || rule->pattern_len > SAMPLED_MAX)
        return NULL;
    return number % 2 == 0
               ? redirect_map_sample(apr_pstrmemdup(pool, rule->pattern, rule->pattern_len),
                                     texts[number / 2], pool)
               : apr_psprintf(pool, "%.*s%s", (int)rule->source_len, rule->source,
                              texts[number / 2]);
}

/* Of a template the groups are known without a regex library. */
static int groups_of(const redirect_report *report, const redirect_match *match,
                     const redirect_request *request, redirect_group *groups)
{
    int n = 0;

    if (match->profile.kind == REDIRECT_TEMPLATE)
        n = redirect_template_match(match->pattern, match->pattern_len, match->profile.flags,
                                    request->path, request->path_len, groups, REDIRECT_GROUPS);
    else if (report->groups)
        n = report->groups(report->regex_baton, match, request->path, request->path_len, groups,
                           REDIRECT_GROUPS);
    return n < REDIRECT_GROUPS ? n : REDIRECT_GROUPS;
}

const char *check_answer(const redirect_report *report, const redirect_match *match,
                         const redirect_request *request, apr_pool_t *pool)
{
    redirect_group groups[REDIRECT_GROUPS];
    bool refused;
    int n = 0;

    if (match->profile.options & REDIRECT_OPT_EXPAND) {
        n = groups_of(report, match, request, groups);
        if (n <= 0)
            return NULL;
    }
    return redirect_map_location(match, request, groups, n, pool, &refused);
}

/* --- hidden rows --------------------------------------------------------------------------------*/

/* Both may have a condition on the query. */
static bool hides_queries(const redirect_match *earlier, const redirect_rule *rule)
{
    if (!rule->query)
        return false;
    if (earlier->profile.flags & REDIRECT_QUERY_EXACT)
        return rule->flags & REDIRECT_QUERY_EXACT;
    return rule->flags & REDIRECT_QUERY_EXACT ||
           redirect_map_strips_all(earlier->strip, earlier->strip_len, rule->strip,
                                   rule->strip_len);
}

static bool hides(const redirect_match *earlier, const redirect_rule *rule)
{
    bool prefix = earlier->profile.kind == REDIRECT_PREFIX ||
                  earlier->profile.kind == REDIRECT_LITERAL_PREFIX;
    unsigned schemes = REDIRECT_HTTP | REDIRECT_HTTPS;

    if (rule->kind == REDIRECT_PREFIX && !prefix)
        return false;
    if (rule->kind == REDIRECT_TEMPLATE && !prefix && earlier->profile.kind != REDIRECT_TEMPLATE)
        return false;
    if (earlier->profile.has & REDIRECT_HAS_QUERY && !hides_queries(earlier, rule))
        return false;
    if (earlier->profile.flags & schemes &&
        (earlier->profile.flags & schemes) != (rule->flags & schemes))
        return false;
    return !(rule->flags & (REDIRECT_ICASE | REDIRECT_ANY_SLASH) & ~earlier->profile.flags);
}

bool check_is_hidden(const redirect_rule *given, char *path, check_earlier_fn *earlier, void *baton,
                     apr_pool_t *pool)
{
    redirect_rule rule = *given;
    redirect_request request = check_source_of(given);
    redirect_match match;

    if (rule.kind == REDIRECT_TEMPLATE)
        take_template_path(&rule, pool);
    memcpy(path, rule.source, rule.source_len);
    path[rule.source_len] = '\0';
    request.path = path;
    request.path_len = rule.source_len;
    request.query = rule.query;
    request.query_len = rule.query_len;
    for (unsigned i = 0; i < HIDERS_MAX && earlier(baton, &request, &match); i++) {
        if (hides(&match, &rule))
            return true;
    }
    return false;
}
