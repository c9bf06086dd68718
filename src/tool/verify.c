/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Holds a converted file against its origin, look-up by look-up. Called by htcachectl convert and
 * by unit tests.
 */
#include "tool/verify.h"

#include "tool/map.h"
#include "tool/convert_internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 10

/** A list that can be asked. */
typedef struct asked {
    const convert_list *list;
    void *image;
    const redirect_table *table;
    map_regexes *regexes;
} asked;

typedef struct answer {
    int index;  /* of the rule in its list; -1: none */
    int status; /* 0: none */
    const char *location;
} answer;

#define HOSTS_MAX   16
#define QUERIES_MAX 8

typedef struct verifier {
    convert_list *list;
    /* Rules with hosts and queries, a few different ones: formats that ask some kinds of rules
     * first may answer other rules' paths by them. */
    const convert_rule *hosts[HOSTS_MAX], *queries[QUERIES_MAX];
    int nhosts, nqueries;
    asked from, to;
    apr_pool_t *pool; /* of one rule's probes */
    bool keep_runs;   /* paths may have runs of slashes */
    bool good;
} verifier;

static bool begin(asked *a, const convert_list *list)
{
    size_t size;

    a->list = list;
    a->regexes = map_regexes_create(list->pool);
    map_regexes_budget(a->regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
    if (convert_build(list, &a->image, &size) != APR_SUCCESS)
        return false;
    a->table = redirect_table_open(a->image, size, list->pool);
    return true;
}

static answer ask(const asked *a, const redirect_request *request, apr_pool_t *pool)
{
    redirect_request normal = *request;
    redirect_group groups[GROUPS_MAX];
    answer out = {-1, 0, NULL};
    redirect_match match;
    bool refused;
    int n;

    redirect_request_one_form(&normal, pool);
    normal.regex = map_regexes_match;
    normal.baton = a->regexes;
    if (!redirect_table_lookup(a->table, &normal, 0, &match))
        return out;
    out.index = (int)redirect_table_line(a->table, match.rule, NULL);
    out.status = match.profile.status;
    n = map_regexes_groups(a->regexes, &match, request->path, request->path_len, groups,
                           GROUPS_MAX);
    out.location = convert_location(a->list, &match, (unsigned)out.index, request, groups,
                                    n < GROUPS_MAX ? n : GROUPS_MAX, pool, &refused);
    if (refused)
        out.location = "refused";
    return out;
}

static bool same(const answer *a, const answer *b)
{
    return a->status == b->status &&
           (a->location == b->location ||
            (a->location && b->location && !strcmp(a->location, b->location)));
}

static const char *text_of(const answer *a, apr_pool_t *pool)
{
    return a->status ? apr_psprintf(pool, "%d %s", a->status, a->location ? a->location : "")
                     : "nothing";
}

/* True: they agree, or it is known that they cannot. */
static bool agree(verifier *v, const convert_rule *r, const redirect_request *request)
{
    answer was = ask(&v->from, request, v->pool), is = ask(&v->to, request, v->pool);

    if (same(&was, &is) ||
        (was.index >= 0 && APR_ARRAY_IDX(v->list->rules, was.index, convert_rule).lost))
        return true;
    if (was.index >= 0) /* this is the one that something else answers for */
        r = &APR_ARRAY_IDX(v->list->rules, was.index, convert_rule);
    convert_lost(v->list, r, "after conversion '%s%s%s%s%s%s' is answered with %s instead of %s",
                 request->https ? "https:" : "", request->host ? "//" : "",
                 request->host ? request->host : "", request->path, request->query ? "?" : "",
                 request->query ? request->query : "", text_of(&is, v->pool),
                 text_of(&was, v->pool));
    v->good = false;
    return false;
}

static const char *host_of(const convert_rule *r, apr_pool_t *pool)
{
    return r->rule.host && *r->rule.host == '*' ? apr_pstrcat(pool, "any", r->rule.host + 1, NULL)
                                                : r->rule.host;
}

/* With its host and another one, with each query. */
static bool agree_at(verifier *v, const convert_rule *r, const char *path)
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
        if (!agree(v, r, &request))
            return false;
    }
    return true;
}

static bool agree_with(verifier *v, const convert_rule *r, const char *path,
                       const convert_rule *of_host, const convert_rule *of_query)
{
    redirect_request request = {.path = path,
                                .path_len = strlen(path),
                                .host = host_of(of_host, v->pool),
                                .https = of_host->rule.flags & REDIRECT_HTTPS,
                                .query = of_query->rule.query,
                                .query_len = of_query->rule.query_len};

    request.host_len = request.host ? strlen(request.host) : 0;
    return agree(v, r, &request);
}

/* At the places of other rules. */
static bool agree_elsewhere(verifier *v, const convert_rule *r, const char *path)
{
    for (int i = 0; i < v->nhosts; i++) {
        if (!agree_with(v, r, path, v->hosts[i], r))
            return false;
    }
    for (int i = 0; i < v->nqueries; i++) {
        if (!agree_with(v, r, path, r, v->queries[i]))
            return false;
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void find_others(verifier *v)
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

static void verify_rule(verifier *v, const convert_rule *r)
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
        if (!agree_at(v, r, paths[i]) || (i % 2 == 0 && !agree_elsewhere(v, r, paths[i])))
            return;
    }
}

static void quiet(void *baton, redirect_severity severity, const char *file, uint32_t line,
                  const char *message)
{
    (void)baton, (void)severity, (void)file, (void)line, (void)message;
}

static bool read_again(convert_list *to, convert_format format, const redirect_map_options *options,
                       const char *text, size_t len)
{
    static const redirect_format formats[] = {REDIRECT_FORMAT_TEXT, REDIRECT_FORMAT_CSV,
                                              REDIRECT_FORMAT_NETLIFY, REDIRECT_FORMAT_NGINX,
                                              REDIRECT_FORMAT_JSON};
    redirect_map_options as = *options;
    convert_place place = {.htaccess = false};

    if (format == CONVERT_HTTPD) {
        convert_read_config(to, &place, "converted", text, len);
        return true;
    }
    as.format = formats[format];
    return convert_read_map(to, &as, "converted", text, len) == APR_SUCCESS;
}

bool tool_verify(convert_list *list, convert_format format, const redirect_map_options *options,
                 bool keep_runs, const char *text, size_t len)
{
    convert_list *to = convert_list_create(list->pool, quiet, NULL);
    verifier v = {.list = list, .keep_runs = keep_runs, .good = true};

    apr_pool_create(&v.pool, list->pool);
    find_others(&v);
    if (!read_again(to, format, options, text, len) || !begin(&v.from, list) || !begin(&v.to, to)) {
        convert_report(list, REDIRECT_ERROR, "converted", 0,
                       "what was written cannot be read again");
        v.good = false;
    }
    for (int i = 0; i < list->rules->nelts && v.to.table; i++) {
        const convert_rule *r = &APR_ARRAY_IDX(list->rules, i, convert_rule);

        if (!r->lost)
            verify_rule(&v, r);
        apr_pool_clear(v.pool);
    }
    if (v.to.table &&
        (map_regexes_out_of_budget(v.from.regexes) || map_regexes_out_of_budget(v.to.regexes))) {
        convert_report(list, REDIRECT_ERROR, "converted", 0,
                       "patterns take too long to compare all of what was written");
        v.good = false;
    }
    free(v.from.image);
    free(v.to.image);
    return v.good;
}
