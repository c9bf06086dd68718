/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What can be done with the rules of a list so that browsers need fewer redirects and nobody ends
 * elsewhere. Called by tool/fix.c and unit tests.
 */
#include "tool/fix.h"

#include "tool/convert_internal.h"
#include "tool/fix_index.h"
#include "tool/probe.h"

#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 10
#define LOOP_STEPS 1000000 /* look-ups of all rows together */
#define SCHEMES    (REDIRECT_HTTP | REDIRECT_HTTPS)
#define LOOPS      "it leads into a loop"

typedef struct planner {
    const convert_list *list;
    fix_step *steps;
    probe_table table;
    fix_index *index;
    apr_pool_t *pool; /* of one rule */
    int looked;       /* look-ups for loops so far */
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

/* Is who answers a matter of conditions? Such rules are taken not to hold. */
typedef struct watch {
    redirect_judge judge;
    bool asked;
} watch;

static bool watch_compares(const redirect_judge *judge, const char *condition, size_t len)
{
    (void)condition;
    ((watch *)(void *)(uintptr_t)judge)->asked = true;
    return len == 0;
}

static bool watch_holds(redirect_judge *judge, const char *condition, size_t len)
{
    (void)condition, (void)len;
    ((watch *)(void *)judge)->asked = true;
    return false;
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

/* Rule @a next gets the query of whoever came to rule @a r, and hands it on. Does it leave
 * parameters out that rule @a r would not? */
static bool strips_more(const convert_rule *r, const convert_rule *next)
{
    unsigned appends = r->rule.options & next->rule.options & REDIRECT_OPT_APPEND_QUERY;

    return appends && !convert_has_query(r) && !convert_has_query(next) &&
           !redirect_map_strips_all(r->rule.strip, r->rule.strip_len, next->rule.strip,
                                    next->rule.strip_len);
}

/* A path is asked for with the host and the scheme of whoever came to rule @a r, which may be any.
 * Can rules for some of them answer it? */
static bool depends_on_place(const planner *p, const convert_rule *r, const char *path)
{
    return (!r->rule.host && fix_depends_on_host(p->index, path, p->pool)) ||
           (!(r->rule.flags & SCHEMES) && fix_depends_on_scheme(p->index, path, p->pool));
}

/* Why rule @a r cannot lead past the rule that answers its target's path; NULL: it can. */
static const char *fault_of(const planner *p, const convert_rule *r, const convert_rule *next,
                            const redirect_request *request, bool is_path)
{
    const char *path = fix_path(request->path, request->path_len, p->pool);

    if (!next->rule.target)
        return "its end has a status without a target";
    if (is_path && depends_on_place(p, r, path))
        return "rows for one host or scheme may answer on the way";
    if (!may_skip(r->rule.status, next->rule.status))
        return apr_psprintf(p->list->pool, "status %d cannot stand for %d then %d", r->rule.status,
                            r->rule.status, next->rule.status);
    if (r->rule.options & REDIRECT_OPT_APPEND_QUERY && !convert_has_query(r) &&
        fix_depends_on_query(p->index, path))
        return "the rows on the way tell queries apart";
    if (strips_more(r, next))
        return "the rows on the way leave other parameters out of queries (strip=)";
    if (!is_prefix(r))
        return NULL;
    if (r->joins || next->joins || !is_prefix(next))
        return "what is below it does not go the same way";
    if (fix_more_below(p->index, path, r, p->pool) || fix_pattern_below(p->index, path, r, p->pool))
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

/* Where rule @a r's way goes on from a target that it has come to; NULL: nowhere. */
static const char *next_target(planner *p, const convert_rule *r, const char *target, int *index)
{
    redirect_request request;
    probe_answer there = {.index = -1};

    if (request_of(p, r, target, &request))
        there = probe_ask(&p->table, &request, p->pool);
    *index = there.index;
    if (there.index < 0 ||
        (*target != '/' && !same_host(r, &request) && !rule_at(p->list, there.index)->rule.host))
        return NULL;
    return there.location;
}

/* A way of more rows than are followed: why it stays. A loop comes to a target again, which is looked
 * for as in Brent's algorithm. */
static const char *why_long(planner *p, const convert_rule *r, const char *target)
{
    const char *mark = target;
    int index, until = 2 * PROBE_HOPS;

    for (int n = 0; target && p->looked < LOOP_STEPS; p->looked++) {
        target = next_target(p, r, target, &index);
        if (target && (!strcmp(target, mark) || rule_at(p->list, index) == r))
            return LOOPS;
        if (++n == until) {
            mark = target;
            until *= 2;
        }
    }
    return "it leads over more than 20 rows, which are not followed further; mend the copy once "
           "more";
}

static void shorten(planner *p, int index)
{
    const convert_rule *r = rule_at(p->list, index);
    fix_step *step = &p->steps[index];
    const char *target = r->rule.target;
    int hops = 0;

    if (!target || r->rule.options & REDIRECT_OPT_EXPAND || step->drop)
        return;
    for (; hops < REDIRECT_FOLLOW_MAX && !step->left; hops++) {
        watch conditions = {.judge = {.compares = watch_compares, .holds = watch_holds}};
        redirect_request request;
        probe_answer there;
        const convert_rule *next;

        if (!request_of(p, r, target, &request))
            break;
        request.judge = &conditions.judge;
        there = probe_ask(&p->table, &request, p->pool);
        if (conditions.asked)
            step->left = "rows with conditions may answer on the way";
        if (there.index < 0 || step->left)
            break;
        next = rule_at(p->list, there.index);
        if (*target != '/' && !same_host(r, &request) && !next->rule.host)
            break;
        if (there.index == index) {
            step->left = LOOPS;
            return;
        }
        step->left = fault_of(p, r, next, &request, *target == '/');
        if (!step->left && is_prefix(r) &&
            ends_in_slash(there.location) != ends_in_slash(r->rule.target))
            step->left = "the slash at its end would change";
        if (!step->left)
            target = probe_with_fragment(there.location, target, p->pool);
    }
    if (hops == REDIRECT_FOLLOW_MAX) {
        step->left = why_long(p, r, target);
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
        probe_rules(from, to, false, ends_alike, &v);
    if (open &&
        (map_regexes_out_of_budget(v.from.regexes) || map_regexes_out_of_budget(v.to.regexes)))
        open = false;
    probe_close(&v.from);
    probe_close(&v.to);
    return open ? (int)v.count : -1;
}

static bool same_bytes(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return !a || !b ? !a && !b : a_len == b_len && !memcmp(a, b, a_len);
}

static bool same_rule(const convert_rule *x, const convert_rule *y)
{
    const redirect_rule *a = &x->rule, *b = &y->rule;

    return a->kind == b->kind && a->flags == b->flags && a->status == b->status &&
           a->options == b->options && x->joins == y->joins && x->place == y->place &&
           same_bytes(a->source, a->source_len, b->source, b->source_len) &&
           same_bytes(a->pattern, a->pattern_len, b->pattern, b->pattern_len) &&
           same_bytes(a->host, a->host_len, b->host, b->host_len) &&
           same_bytes(a->query, a->query_len, b->query, b->query_len) &&
           same_bytes(a->strip, a->strip_len, b->strip, b->strip_len) &&
           same_bytes(a->target, a->target_len, b->target, b->target_len) &&
           same_bytes(a->condition, a->condition_len, b->condition, b->condition_len);
}

bool fix_same(const convert_list *a, const convert_list *b)
{
    int i = 0, k = 0;

    for (;;) {
        while (i < a->rules->nelts && rule_at(a, i)->lost)
            i++;
        while (k < b->rules->nelts && rule_at(b, k)->lost)
            k++;
        if (i == a->rules->nelts || k == b->rules->nelts)
            return i == a->rules->nelts && k == b->rules->nelts;
        if (!same_rule(rule_at(a, i++), rule_at(b, k++)))
            return false;
    }
}

static bool any_step(const fix_step *steps, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (steps[i].drop || steps[i].target)
            return true;
    }
    return false;
}

/* What changes an answer is taken back. */
static bool take_back(const convert_list *list, fix_step *steps)
{
    size_t n = (size_t)list->rules->nelts;
    bool *wrong = apr_palloc(list->pool, n + 1);

    for (int round = 0; round < ROUNDS_MAX; round++) {
        int count;

        if (!any_step(steps, n))
            return true;
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
        p.index = fix_index_create(list, p.steps);
        for (int i = 0; i < list->rules->nelts; i++) {
            shorten(&p, i);
            apr_pool_clear(p.pool);
            if (list->progress)
                list->progress(list->progress_baton, (uint64_t)i + 1, (uint64_t)list->rules->nelts);
        }
        good = take_back(list, *steps);
    }
    probe_close(&p.table);
    apr_pool_destroy(p.pool);
    return good;
}
