/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What can be done with the rules of a list so that browsers need fewer redirects and nobody ends
 * elsewhere. Called by tool/fix.c and unit tests.
 */
#include "tool/fix.h"

#include "tool/convert_internal.h"
#include "tool/probe.h"

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 10
#define SCHEMES    (REDIRECT_HTTP | REDIRECT_HTTPS)

/** What a rule's source begins with. */
typedef struct source_at {
    const char *path;
    int index;
} source_at;

typedef struct planner {
    const convert_list *list;
    fix_step *steps;
    probe_table table;
    source_at *sources;  /* of all rules, sorted, for prefixes */
    source_at *patterns; /* those of them that are patterns */
    int npatterns;
    apr_hash_t *query_sources;  /* paths of rules with a condition on the query */
    apr_hash_t *host_sources;   /* those of rules for a host */
    apr_hash_t *scheme_sources; /* those of rules for http or https alone */
    apr_pool_t *pool;           /* of one rule */
} planner;

static const convert_rule *rule_at(const convert_list *list, int i)
{
    return &APR_ARRAY_IDX(list->rules, i, convert_rule);
}

/* --- rules that never answer ------------------------------------------------------------------*/

static void take_duplicate(void *baton, uint32_t index, uint32_t first)
{
    planner *p = baton;

    p->steps[index].drop = true;
    p->steps[index].by = rule_at(p->list, (int)first)->rule.line;
}

static void take_hidden(void *baton, uint32_t index, uint32_t by)
{
    take_duplicate(baton, index, by);
}

/* The table of the list, its duplicates marked. */
static bool find_dropped(planner *p)
{
    redirect_report report = {.hidden = take_hidden, .hidden_baton = p};
    redirect_builder *builder = redirect_builder_create((size_t)p->list->rules->nelts, 0);
    size_t size;
    bool good = builder != NULL;

    for (int i = 0; good && i < p->list->rules->nelts; i++) {
        redirect_rule rule = rule_at(p->list, i)->rule;

        rule.line = (uint32_t)i;
        good = redirect_builder_add(builder, &rule) == REDIRECT_ADDED;
    }
    good = good && redirect_builder_finish(builder, take_duplicate, p, &size) == APR_SUCCESS;
    if (builder)
        redirect_builder_destroy(builder);
    if (!good || !probe_open(&p->table, p->list))
        return false;
    report.regex = map_regexes_match;
    report.regex_baton = p->table.regexes;
    return redirect_map_check(p->table.table, &report, p->list->pool) == APR_SUCCESS;
}

/* --- what keeps a chain -----------------------------------------------------------------------*/

/* Lower case, without slashes at the end: what any rule may take for the same path. */
static const char *loose_path(const char *path, size_t len, apr_pool_t *pool)
{
    char *copy = apr_pstrmemdup(pool, path, len);

    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    for (char *s = copy; *s; s++)
        *s = (char)apr_tolower(*s);
    return copy;
}

static int compare_sources(const void *a, const void *b)
{
    return strcmp(((const source_at *)a)->path, ((const source_at *)b)->path);
}

static bool is_pattern(const convert_rule *r)
{
    return r->rule.kind == REDIRECT_PATTERN || r->rule.kind == REDIRECT_LITERAL_PREFIX;
}

static void index_sources(planner *p)
{
    int n = p->list->rules->nelts;

    p->sources = apr_palloc(p->list->pool, ((size_t)n + 1) * sizeof(*p->sources));
    p->patterns = apr_palloc(p->list->pool, ((size_t)n + 1) * sizeof(*p->patterns));
    p->query_sources = apr_hash_make(p->list->pool);
    p->host_sources = apr_hash_make(p->list->pool);
    p->scheme_sources = apr_hash_make(p->list->pool);
    for (int i = 0; i < n; i++) {
        const redirect_rule *rule = &rule_at(p->list, i)->rule;
        const char *path = loose_path(rule->source, rule->source_len, p->list->pool);

        p->sources[i] = (source_at){path, i};
        if (is_pattern(rule_at(p->list, i)))
            p->patterns[p->npatterns++] = p->sources[i];
        if (rule->query)
            apr_hash_set(p->query_sources, path, APR_HASH_KEY_STRING, "");
        if (rule->host && !p->steps[i].drop)
            apr_hash_set(p->host_sources, path, APR_HASH_KEY_STRING, "");
        if (rule->flags & SCHEMES && !p->steps[i].drop)
            apr_hash_set(p->scheme_sources, path, APR_HASH_KEY_STRING, "");
    }
    if (n)
        qsort(p->sources, (size_t)n, sizeof(*p->sources), compare_sources);
}

static bool may_be_asked_together(const convert_rule *a, const convert_rule *b)
{
    return !a->rule.host || !b->rule.host || *a->rule.host == '*' || *b->rule.host == '*' ||
           !strcmp(a->rule.host, b->rule.host);
}

/* May a pattern answer something at this path or below it? */
static bool pattern_below(const planner *p, const char *path, const convert_rule *r)
{
    for (int i = 0; i < p->npatterns; i++) {
        const convert_rule *other = rule_at(p->list, p->patterns[i].index);
        const char *source = p->patterns[i].path;
        size_t len = strlen(source), shorter = strlen(path) < len ? strlen(path) : len;

        if (may_be_asked_together(other, r) &&
            (other->rule.flags & REDIRECT_FLOATING || !strncmp(source, path, shorter)))
            return true;
    }
    return false;
}

/* How many rules have sources at this path or below it; two stand for more. */
static int count_below(const planner *p, const char *path, const convert_rule *r)
{
    size_t len = strlen(path), low = 0, high = (size_t)p->list->rules->nelts;
    int n = 0;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (strcmp(p->sources[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < (size_t)p->list->rules->nelts && n < 2; low++) {
        const char *source = p->sources[low].path;

        if (strncmp(source, path, len) != 0)
            break;
        n += (!source[len] || source[len] == '/' || path[len - 1] == '/') &&
             may_be_asked_together(rule_at(p->list, p->sources[low].index), r) &&
             !p->steps[p->sources[low].index].drop;
    }
    return n;
}

/* A redirect may be skipped if the one that stays tells browsers no more than both did: not that it
 * is permanent, nor that the method stays. */
static bool may_skip(int stays, int skipped)
{
    return stays == skipped || (stays == 302 && skipped == 301) || (stays == 307 && skipped == 308);
}

static bool is_prefix(const convert_rule *r)
{
    return r->rule.kind == REDIRECT_PREFIX &&
           (r->joins || r->rule.options & REDIRECT_OPT_APPEND_REST);
}

static bool ends_in_slash(const char *target)
{
    size_t n = convert_target_path(target, strlen(target));

    return n && target[n - 1] == '/';
}

/* Has this path, or one above it, a rule of these? */
static bool stands_above(apr_hash_t *sources, const char *path)
{
    for (size_t len = strlen(path); len; len--) {
        bool end = !path[len] || path[len] == '/' || len == 1;

        if (end && apr_hash_get(sources, path, (apr_ssize_t)len))
            return true;
    }
    return false;
}

/* Patterns whose literal beginning this path has. */
static bool pattern_for_some(const planner *p, const char *path, bool hosts)
{
    for (int i = 0; i < p->npatterns; i++) {
        const redirect_rule *rule = &rule_at(p->list, p->patterns[i].index)->rule;
        const char *source = p->patterns[i].path;

        if ((hosts ? rule->host != NULL : (rule->flags & SCHEMES) != 0) &&
            (rule->flags & REDIRECT_FLOATING || !strncmp(source, path, strlen(source))))
            return true;
    }
    return false;
}

/* A path is asked for with the host and the scheme of whoever came to rule @a r, which may be any.
 * Can rules for some of them answer it? */
static bool depends_on_place(const planner *p, const convert_rule *r, const char *path)
{
    return (!r->rule.host &&
            (stands_above(p->host_sources, path) || pattern_for_some(p, path, true))) ||
           (!(r->rule.flags & SCHEMES) &&
            (stands_above(p->scheme_sources, path) || pattern_for_some(p, path, false)));
}

/* Why rule @a r cannot lead past the rule that answers its target's path; NULL: it can. */
static const char *fault_of(const planner *p, const convert_rule *r, const convert_rule *next,
                            const redirect_request *request, bool is_path)
{
    const char *path = loose_path(request->path, request->path_len, p->pool);

    if (!next->rule.target)
        return "its end has a status without a target";
    if (is_path && depends_on_place(p, r, path))
        return "rows for one host or scheme may answer on the way";
    if (!may_skip(r->rule.status, next->rule.status))
        return apr_psprintf(p->list->pool, "status %d cannot stand for %d then %d", r->rule.status,
                            r->rule.status, next->rule.status);
    if (r->rule.options & REDIRECT_OPT_APPEND_QUERY && !convert_has_query(r) &&
        stands_above(p->query_sources, path))
        return "the rows on the way tell queries apart";
    if (!is_prefix(r))
        return NULL;
    if (r->joins || next->joins || !is_prefix(next))
        return "what is below it does not go the same way";
    if (count_below(p, path, r) > 1 || pattern_below(p, path, r))
        return "other rows, or patterns, may answer what is below it";
    return NULL;
}

/* --- chains -----------------------------------------------------------------------------------*/

/* What a browser asks for at a rule's target; false: that is not known to be for this list. */
static bool request_of(const planner *p, const convert_rule *r, const char *target,
                       redirect_request *request)
{
    redirect_server server = {.encoded_slashes = REDIRECT_SLASHES_NODECODE};
    int status;

    if (redirect_request_of(target, &server, request, &status, p->pool))
        return false;
    if (*target == '/') {
        if (r->rule.host && *r->rule.host == '*')
            return false;
        request->host = r->rule.host;
        request->host_len = r->rule.host_len;
        request->https = r->rule.flags & REDIRECT_HTTPS;
    }
    return true;
}

static bool same_host(const convert_rule *r, const redirect_request *request)
{
    return r->rule.host && request->host_len == r->rule.host_len &&
           !memcmp(r->rule.host, request->host, request->host_len);
}

static void shorten(planner *p, int index)
{
    const convert_rule *r = rule_at(p->list, index);
    fix_step *step = &p->steps[index];
    const char *target = r->rule.target;
    int hops = 0;

    if (!target || r->rule.options & REDIRECT_OPT_EXPAND || step->drop)
        return;
    for (; hops < PROBE_HOPS && !step->left; hops++) {
        redirect_request request;
        probe_answer there;
        const convert_rule *next;

        if (!request_of(p, r, target, &request))
            break;
        there = probe_ask(&p->table, &request, p->pool);
        if (there.index < 0)
            break;
        next = rule_at(p->list, there.index);
        if (*target != '/' && !same_host(r, &request) && !next->rule.host)
            break;
        if (there.index == index) {
            hops = PROBE_HOPS;
            break;
        }
        step->left = fault_of(p, r, next, &request, *target == '/');
        if (!step->left && is_prefix(r) &&
            ends_in_slash(there.location) != ends_in_slash(r->rule.target))
            step->left = "the slash at its end would change";
        if (!step->left)
            target = there.location;
    }
    if (hops == PROBE_HOPS) { /* a loop, which nobody can shorten */
        step->left = "it leads into a loop, or over more than 20 rows";
        return;
    }
    step->saved = hops - (step->left != NULL);
    if (step->saved > 0)
        step->target = apr_pstrdup(p->list->pool, target);
}

/* --- proving it -------------------------------------------------------------------------------*/

convert_list *fix_apply(const convert_list *list, const fix_step *steps)
{
    convert_list *to = apr_pmemdup(list->pool, list, sizeof(*to));

    to->rules = apr_array_copy(list->pool, list->rules);
    for (int i = to->rules->nelts - 1; i >= 0; i--) {
        convert_rule *r = &APR_ARRAY_IDX(to->rules, i, convert_rule);

        r->lost = steps[i].drop;
        if (steps[i].target) {
            r->rule.target = steps[i].target;
            r->rule.target_len = strlen(steps[i].target);
        }
    }
    return to;
}

typedef struct prover {
    probe_table from, to;
    bool *wrong; /* of each rule of `from` */
    unsigned count;
} prover;

static void mark_wrong(prover *v, const convert_rule *r)
{
    v->wrong[r - (const convert_rule *)v->from.list->rules->elts] = true;
    v->count++;
}

/* The end counts, and the status that browsers see first. */
static bool ends_alike(void *baton, const convert_rule *r, const redirect_request *request,
                       apr_pool_t *pool)
{
    prover *v = baton;
    probe_answer was = probe_ask(&v->from, request, pool), is = probe_ask(&v->to, request, pool);
    int before, after;

    if (probe_same(&was, &is))
        return true;
    if (was.index >= 0)
        r = rule_at(v->from.list, was.index);
    if (was.status != is.status) {
        mark_wrong(v, r);
        return false;
    }
    was = probe_follow(&v->from, request, &before, pool);
    is = probe_follow(&v->to, request, &after, pool);
    if (before < PROBE_HOPS && after <= before && was.location && is.location &&
        !strcmp(was.location, is.location))
        return true;
    mark_wrong(v, r);
    return false;
}

/* The list's rules without those that are lost. */
static convert_list *without_lost(const convert_list *list)
{
    convert_list *to = apr_pmemdup(list->pool, list, sizeof(*to));

    to->rules = apr_array_make(list->pool, list->rules->nelts + 1, sizeof(convert_rule));
    for (int i = 0; i < list->rules->nelts; i++) {
        if (!rule_at(list, i)->lost)
            APR_ARRAY_PUSH(to->rules, convert_rule) = *rule_at(list, i);
    }
    return to;
}

int fix_count_wrong(const convert_list *from, const convert_list *to, bool *wrong)
{
    prover v = {.wrong = wrong};
    bool open = probe_open(&v.from, from);

    open = probe_open(&v.to, without_lost(to)) && open;
    if (open)
        probe_rules(from, false, ends_alike, &v);
    if (open &&
        (map_regexes_out_of_budget(v.from.regexes) || map_regexes_out_of_budget(v.to.regexes)))
        open = false;
    probe_close(&v.from);
    probe_close(&v.to);
    return open ? (int)v.count : -1;
}

/* What changes an answer is taken back. */
static bool take_back(const convert_list *list, fix_step *steps)
{
    size_t n = (size_t)list->rules->nelts;
    bool *wrong = apr_palloc(list->pool, n + 1);

    for (int round = 0; round < ROUNDS_MAX; round++) {
        int count;

        memset(wrong, 0, n);
        count = fix_count_wrong(list, fix_apply(list, steps), wrong);
        if (count <= 0)
            return !count;
        for (size_t i = 0; i < n; i++) {
            if (wrong[i])
                steps[i] = (fix_step){.left = "some URLs would end elsewhere"};
        }
    }
    return false;
}

bool fix_plan(const convert_list *list, fix_step **steps)
{
    planner p = {.list = list};
    bool good;

    *steps = apr_pcalloc(list->pool, ((size_t)list->rules->nelts + 1) * sizeof(**steps));
    p.steps = *steps;
    apr_pool_create(&p.pool, list->pool);
    good = find_dropped(&p);
    if (good) {
        index_sources(&p);
        for (int i = 0; i < list->rules->nelts; i++) {
            shorten(&p, i);
            apr_pool_clear(p.pool);
        }
        good = take_back(list, *steps);
    }
    probe_close(&p.table);
    apr_pool_destroy(p.pool);
    return good;
}
