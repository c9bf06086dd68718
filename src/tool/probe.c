/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Asking lists of redirects what they answer, and making up the requests for it. Called by the
 * commands that compare lists.
 */
#include "tool/probe.h"

#include "tool/convert_internal.h"

#include <apr_hash.h>
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
    n = map_regexes_groups(a->regexes, &match, normal.path, normal.path_len, groups, GROUPS_MAX);
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

const char *probe_with_fragment(const char *location, const char *before, apr_pool_t *pool)
{
    const char *fragment = location && before ? strchr(before, '#') : NULL;

    return fragment && !strchr(location, '#') ? apr_pstrcat(pool, location, fragment, NULL)
                                              : location;
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
        next.judge = before.judge;
        there = probe_ask(a, &next, pool);
        if (!there.status)
            break;
        there.location = probe_with_fragment(there.location, last.location, pool);
        last = there;
        ++*hops;
    }
    return last;
}

/* --- requests ---------------------------------------------------------------------------------*/

/* Rules of other places that are asked with each rule: so many, and more in short lists. */
#define HOSTS_LEAST   16
#define QUERIES_LEAST 8
#define MORE_OF_SHORT 20000  /* requests for each path in all */
#define NAMES_MAX     8192   /* bytes */
#define ANY_NAME      "any9" /* stands for the "*" of a name */

typedef struct prober {
    const convert_list *list;
    /* Rules with hosts and queries, a few different ones: formats that ask some kinds of rules
     * first may answer other rules' paths by them. const convert_rule * */
    apr_array_header_t *hosts, *queries;
    const char *names; /* a query with parameters that rules leave out, and one more */
    apr_pool_t *pool;  /* of one rule's probes */
    bool keep_runs;    /* paths may have runs of slashes */
    probe_fn *each;
    void *baton;
} prober;

static const char *host_of(const convert_rule *r, apr_pool_t *pool)
{
    return r->rule.host && *r->rule.host == '*' ? apr_pstrcat(pool, "any", r->rule.host + 1, NULL)
                                                : r->rule.host;
}

/* Behind a query the parameters that a strip= names; those in @a seen, if it is not NULL, are left
 * out and what is new is put there. */
static const char *with_names(const char *query, const char *strip, apr_hash_t *seen,
                              apr_pool_t *pool)
{
    while (*strip) {
        size_t n = strcspn(strip, ","), len = n - (n && strip[n - 1] == '*');
        const char *name =
            apr_pstrcat(pool, apr_pstrmemdup(pool, strip, len), len < n ? ANY_NAME : "", NULL);

        strip += n + (strip[n] == ',');
        if (!*name || (seen && apr_hash_get(seen, name, APR_HASH_KEY_STRING)))
            continue;
        if (seen)
            apr_hash_set(seen, name, APR_HASH_KEY_STRING, "");
        query = apr_pstrcat(pool, query, *query ? "&" : "", name, "=1", NULL);
    }
    return query;
}

/* The same parameters, the last one first. */
static const char *turned(const char *query, apr_pool_t *pool)
{
    const char *amp = strrchr(query, '&');

    return amp ? apr_psprintf(pool, "%s&%.*s", amp + 1, (int)(amp - query), query) : NULL;
}

/* Who asks is as the rule wants it. */
static bool probe_each(prober *v, const convert_rule *r, redirect_request *request)
{
    redirect_likeness likeness;

    redirect_likeness_begin(&likeness, r->rule.condition, r->rule.condition_len);
    request->judge = &likeness.judge;
    return v->each(v->baton, r, request, v->pool);
}

static bool probe_query(prober *v, const convert_rule *r, const char *path, const char *host,
                        bool https, const char *query)
{
    redirect_request request = {.path = path,
                                .path_len = strlen(path),
                                .host = host,
                                .host_len = host ? strlen(host) : 0,
                                .https = https,
                                .query = query,
                                .query_len = query ? strlen(query) : 0};

    return probe_each(v, r, &request);
}

/* With its host and another one, with each query, and once with the other scheme. */
static bool probe_at(prober *v, const convert_rule *r, const char *path)
{
    const char *own = r->rule.query, *strip = r->rule.strip ? r->rule.strip : "";
    const char *queries[] = {
        own, with_names(v->names, strlen(v->names) < NAMES_MAX ? "" : strip, NULL, v->pool), "",
        own && *strip ? with_names(own, strip, NULL, v->pool) : NULL,
        own ? turned(own, v->pool) : NULL};
    const char *hosts[] = {host_of(r, v->pool), "another.invalid"};
    bool https = r->rule.flags & REDIRECT_HTTPS;

    for (int h = 0; h < 2; h++) {
        if (!probe_query(v, r, path, hosts[h], https, NULL))
            return false;
        if (!h && !(r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS)) &&
            !probe_query(v, r, path, hosts[h], !https, NULL))
            return false;
        for (size_t i = 0; (!h || *hosts) && i < sizeof(queries) / sizeof(queries[0]); i++) {
            if (queries[i] && !probe_query(v, r, path, hosts[h], https, queries[i]))
                return false;
        }
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
    return probe_each(v, r, &request);
}

static const convert_rule *place_of(const apr_array_header_t *rules, int i)
{
    return APR_ARRAY_IDX(rules, i, const convert_rule *);
}

/* At the places of other rules. */
static bool probe_elsewhere(prober *v, const convert_rule *r, const char *path)
{
    for (int i = 0; i < v->hosts->nelts; i++) {
        if (!probe_with(v, r, path, place_of(v->hosts, i), r))
            return false;
    }
    for (int i = 0; i < v->queries->nelts; i++) {
        if (!probe_with(v, r, path, r, place_of(v->queries, i)))
            return false;
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void note_host(prober *v, const convert_rule *r, int most)
{
    unsigned scheme = r->rule.flags & (REDIRECT_HTTP | REDIRECT_HTTPS);
    int i = 0;

    while (i < v->hosts->nelts && (!same_text(r->rule.host, place_of(v->hosts, i)->rule.host) ||
                                   (place_of(v->hosts, i)->rule.flags & scheme) != scheme))
        i++;
    if (i == v->hosts->nelts && i < most && (r->rule.host || scheme))
        APR_ARRAY_PUSH(v->hosts, const convert_rule *) = r;
}

static void note_query(prober *v, const convert_rule *r, int most)
{
    int i = 0;

    while (i < v->queries->nelts && !same_text(r->rule.query, place_of(v->queries, i)->rule.query))
        i++;
    if (i == v->queries->nelts && i < most && r->rule.query)
        APR_ARRAY_PUSH(v->queries, const convert_rule *) = r;
}

/* Hosts, queries and parameters that the rules of a list name. */
static void find_others(prober *v, const convert_list *list, apr_hash_t *strips, apr_hash_t *names)
{
    int more = MORE_OF_SHORT / (v->list->rules->nelts + 1);

    for (int i = 0; i < list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(list->rules, i, convert_rule);

        note_host(v, r, HOSTS_LEAST + more);
        note_query(v, r, QUERIES_LEAST + more);
        if (!r->rule.strip || strlen(v->names) >= NAMES_MAX ||
            apr_hash_get(strips, r->rule.strip, APR_HASH_KEY_STRING))
            continue;
        apr_hash_set(strips, r->rule.strip, APR_HASH_KEY_STRING, "");
        v->names = with_names(v->names, r->rule.strip, names, apr_hash_pool_get(strips));
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

void probe_rules(const convert_list *list, const convert_list *also, bool keep_runs, probe_fn *each,
                 void *baton)
{
    prober v = {.list = list,
                .names = "zz=1&utm_source=x",
                .keep_runs = keep_runs,
                .each = each,
                .baton = baton};
    apr_hash_t *strips, *names;
    apr_pool_t *all;

    apr_pool_create(&all, list->pool);
    apr_pool_create(&v.pool, all);
    v.hosts = apr_array_make(all, HOSTS_LEAST, sizeof(const convert_rule *));
    v.queries = apr_array_make(all, QUERIES_LEAST, sizeof(const convert_rule *));
    strips = apr_hash_make(all);
    names = apr_hash_make(all);
    find_others(&v, list, strips, names);
    if (also)
        find_others(&v, also, strips, names);
    for (int i = 0; i < list->rules->nelts; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(list->rules, i, convert_rule);

        if (!r->lost)
            probe_rule(&v, r);
        apr_pool_clear(v.pool);
        if (list->progress)
            list->progress(list->progress_baton, (uint64_t)i + 1, (uint64_t)list->rules->nelts);
    }
    apr_pool_destroy(all);
}
