/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Asking lists of redirects what they answer, and making up the requests for it. Called by the
 * commands that compare lists.
 */
#include "tool/probe.h"

#include "tool/convert_internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 10

/* A table counts from the last mark for a rule's line, which takes longer than the look-up. */
static bool note_indexes(probe_table *a, size_t size)
{
    a->indexes = calloc(size / PROBE_STEP + 1, sizeof(*a->indexes));
    if (!a->indexes)
        return false;
    for (uint32_t at = redirect_table_next(a->table, 0); at; at = redirect_table_next(a->table, at))
        a->indexes[at / PROBE_STEP] = redirect_table_line(a->table, at, NULL);
    return true;
}

bool probe_open(probe_table *a, const convert_list *list)
{
    size_t size;

    *a = (probe_table){0};
    a->list = list;
    a->regexes = map_regexes_create(list->pool);
    map_regexes_budget(a->regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
    if (convert_build(list, &a->image, &size) != APR_SUCCESS)
        return false;
    a->table = redirect_table_open(a->image, size, list->pool);
    return a->table && note_indexes(a, size);
}

probe_answer probe_ask(const probe_table *a, const redirect_request *request, apr_pool_t *pool)
{
    redirect_request normal = *request;
    redirect_group groups[GROUPS_MAX];
    probe_answer out = {-1, 0, NULL};
    redirect_match match;
    bool refused;
    int n;

    redirect_request_one_form(&normal, pool);
    normal.regex = map_regexes_match;
    normal.baton = a->regexes;
    if (!redirect_table_lookup(a->table, &normal, 0, &match))
        return out;
    out.index = (int)a->indexes[match.rule / PROBE_STEP];
    out.status = match.profile.status;
    n = map_regexes_groups(a->regexes, &match, request->path, request->path_len, groups,
                           GROUPS_MAX);
    out.location = redirect_map_location(&match, request, groups, n < GROUPS_MAX ? n : GROUPS_MAX,
                                         pool, &refused);
    if (refused)
        out.location = "refused";
    return out;
}

bool probe_same(const probe_answer *a, const probe_answer *b)
{
    return a->status == b->status &&
           (a->location == b->location ||
            (a->location && b->location && !strcmp(a->location, b->location)));
}

const char *probe_text(const probe_answer *a, apr_pool_t *pool)
{
    return a->status ? apr_psprintf(pool, "%d%s%s", a->status, a->location ? " " : "",
                                    a->location ? a->location : "")
                     : "nothing";
}

const char *probe_url(const redirect_request *request, apr_pool_t *pool)
{
    return apr_pstrcat(pool, request->https ? "https:" : "", request->host ? "//" : "",
                       request->host ? request->host : "", request->path, request->query ? "?" : "",
                       request->query ? request->query : "", NULL);
}

void probe_close(probe_table *a)
{
    free(a->image);
    free(a->indexes);
    a->image = NULL;
    a->indexes = NULL;
    a->table = NULL;
}

/* --- following --------------------------------------------------------------------------------*/

/* What a browser asks for next; false: nothing, or another server. */
static bool next_request(const probe_table *a, const probe_answer *answer,
                         const redirect_request *before, redirect_request *next, apr_pool_t *pool)
{
    redirect_server server = {.encoded_slashes = REDIRECT_SLASHES_NODECODE};
    probe_answer there;
    int status;

    if (!answer->location || redirect_request_of(answer->location, &server, next, &status, pool))
        return false;
    if (*answer->location == '/') {
        next->host = before->host;
        next->host_len = before->host_len;
        next->https = before->https;
        return true;
    }
    if (before->host && next->host_len == before->host_len &&
        !memcmp(next->host, before->host, next->host_len))
        return true;
    there = probe_ask(a, next, pool);
    return there.index >= 0 && APR_ARRAY_IDX(a->list->rules, there.index, convert_rule).rule.host;
}

probe_answer probe_follow(const probe_table *a, const redirect_request *request, int *hops,
                          apr_pool_t *pool)
{
    redirect_request next = *request;
    probe_answer last = probe_ask(a, &next, pool);

    *hops = last.status != 0;
    while (last.status && *hops < PROBE_HOPS) {
        redirect_request before = next;
        probe_answer there;

        if (!next_request(a, &last, &before, &next, pool))
            break;
        there = probe_ask(a, &next, pool);
        if (!there.status)
            break;
        last = there;
        ++*hops;
    }
    return last;
}

/* --- requests ---------------------------------------------------------------------------------*/

#define HOSTS_MAX   16
#define QUERIES_MAX 8

typedef struct prober {
    const convert_list *list;
    /* Rules with hosts and queries, a few different ones: formats that ask some kinds of rules
     * first may answer other rules' paths by them. */
    const convert_rule *hosts[HOSTS_MAX], *queries[QUERIES_MAX];
    int nhosts, nqueries;
    apr_pool_t *pool; /* of one rule's probes */
    bool keep_runs;   /* paths may have runs of slashes */
    probe_fn *each;
    void *baton;
} prober;

static const char *host_of(const convert_rule *r, apr_pool_t *pool)
{
    return r->rule.host && *r->rule.host == '*' ? apr_pstrcat(pool, "any", r->rule.host + 1, NULL)
                                                : r->rule.host;
}

/* With its host and another one, with each query, and once with the other scheme. */
static bool probe_at(prober *v, const convert_rule *r, const char *path)
{
    const char *queries[] = {NULL, r->rule.query, "zz=1&utm_source=x", ""};
    const char *host = host_of(r, v->pool);

    for (int i = 0; i < 8; i++) {
        const char *query = queries[i & 3];
        redirect_request request = {.path = path,
                                    .path_len = strlen(path),
                                    .host = i & 4 ? "another.invalid" : host,
                                    .https = r->rule.flags & REDIRECT_HTTPS,
                                    .query = query,
                                    .query_len = query ? strlen(query) : 0};

        if ((i && (i & 3) == 1 && !query) || (i > 4 && !host))
            continue;
        request.host_len = request.host ? strlen(request.host) : 0;
        if (!v->each(v->baton, r, &request, v->pool))
            return false;
        request.https = !request.https;
        if (!i && !(r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS)) &&
            !v->each(v->baton, r, &request, v->pool))
            return false;
    }
    return true;
}

static bool probe_with(prober *v, const convert_rule *r, const char *path,
                       const convert_rule *of_host, const convert_rule *of_query)
{
    redirect_request request = {.path = path,
                                .path_len = strlen(path),
                                .host = host_of(of_host, v->pool),
                                .https = of_host->rule.flags & REDIRECT_HTTPS,
                                .query = of_query->rule.query,
                                .query_len = of_query->rule.query_len};

    request.host_len = request.host ? strlen(request.host) : 0;
    return v->each(v->baton, r, &request, v->pool);
}

/* At the places of other rules. */
static bool probe_elsewhere(prober *v, const convert_rule *r, const char *path)
{
    for (int i = 0; i < v->nhosts; i++) {
        if (!probe_with(v, r, path, v->hosts[i], r))
            return false;
    }
    for (int i = 0; i < v->nqueries; i++) {
        if (!probe_with(v, r, path, r, v->queries[i]))
            return false;
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void find_others(prober *v)
{
    for (int i = 0; i < v->list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(v->list->rules, i, convert_rule);
        unsigned scheme = r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS);
        int h = 0, q = 0;

        while (h < v->nhosts && (!same_text(r->rule.host, v->hosts[h]->rule.host) ||
                                 (v->hosts[h]->rule.flags & scheme) != scheme))
            h++;
        if (h == v->nhosts && h < HOSTS_MAX && (r->rule.host || scheme))
            v->hosts[v->nhosts++] = r;
        while (q < v->nqueries && !same_text(r->rule.query, v->queries[q]->rule.query))
            q++;
        if (q == v->nqueries && q < QUERIES_MAX && r->rule.query)
            v->queries[v->nqueries++] = r;
    }
}

/* --- paths ------------------------------------------------------------------------------------*/

static const char *other_case(const char *path, apr_pool_t *pool)
{
    char *copy = apr_pstrdup(pool, path);

    for (char *s = copy; *s; s++)
        *s = (char)(apr_islower(*s) ? apr_toupper(*s) : apr_tolower(*s));
    return copy;
}

/* A path that a simple regex matches. */
static const char *example(const convert_rule *r, apr_pool_t *pool)
{
    convert_piece pieces[CONVERT_PIECES];
    int n = r->rule.pattern ? convert_pieces(r->rule.pattern, pieces, pool) : -1;
    const char *path = "";

    for (int i = 0; i < n; i++)
        path = apr_pstrcat(pool, path,
                           pieces[i].kind == PIECE_LITERAL
                               ? apr_pstrmemdup(pool, pieces[i].text, pieces[i].len)
                           : pieces[i].kind == PIECE_OPTIONAL_REST      ? "/rest/of it"
                           : memchr(pieces[i].text, 'd', pieces[i].len) ? "2024"
                                                                        : "some",
                           NULL);
    return n > 0 ? path : NULL;
}

/* Each slash behind the first one twice. */
static const char *with_runs(const char *path, apr_pool_t *pool)
{
    char *start = apr_palloc(pool, 2 * strlen(path) + 1), *to = start;

    for (const char *s = path; *s; s++) {
        *to++ = *s;
        if (*s == '/' && s > path)
            *to++ = '/';
    }
    *to = '\0';
    return start;
}

static void probe_rule(prober *v, const convert_rule *r)
{
    const char *source = *r->rule.source ? r->rule.source : "/";
    size_t len = r->rule.source_len;
    const char *paths[9] = {source,
                            apr_pstrcat(v->pool, source, "/", NULL),
                            apr_pstrcat(v->pool, source, "/below/page 1.html", NULL),
                            apr_pstrcat(v->pool, source, "x", NULL),
                            other_case(source, v->pool),
                            example(r, v->pool),
                            len > 1 ? apr_pstrmemdup(v->pool, source, len - 1) : NULL,
                            with_runs(source, v->pool),
                            apr_pstrcat(v->pool, source, "//below//page", NULL)};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        /* Most servers merge slashes before redirects are looked up, so formats need not. */
        if (!paths[i] || *paths[i] != '/' || (strstr(paths[i], "//") && !v->keep_runs))
            continue;
        if (!probe_at(v, r, paths[i]) || (i % 2 == 0 && !probe_elsewhere(v, r, paths[i])))
            return;
    }
}

void probe_rules(const convert_list *list, bool keep_runs, probe_fn *each, void *baton)
{
    prober v = {.list = list, .keep_runs = keep_runs, .each = each, .baton = baton};

    apr_pool_create(&v.pool, list->pool);
    find_others(&v);
    for (int i = 0; i < list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(list->rules, i, convert_rule);

        if (!r->lost)
            probe_rule(&v, r);
        apr_pool_clear(v.pool);
    }
    apr_pool_destroy(v.pool);
}
