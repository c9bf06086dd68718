/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The rules of a map's table, or of its older overlay, that have the source of an edit. They are found
 * by a look-up of the source itself, for a request that fulfils their conditions. Called by
 * maps/overlay_edit.c and maps/overlay_check.c.
 */
#include "maps/edit_internal.h"
#include "maps/overlay_internal.h"

#include <string.h>

#include <apr_strings.h>

#define GROUP_MAX 4096 /* rows of one source that edits bring to the overlay */

/* Of the base, or of the older overlay. */
static bool is_gone(const redirect_edits *e, const redirect_table *table, uint32_t rule)
{
    const apr_hash_t *gone = table == e->base ? e->gone : e->gone_older;

    if (apr_hash_get((apr_hash_t *)(uintptr_t)gone, &rule, sizeof(rule)))
        return true;
    return table == e->base && e->older && redirect_overlay_is_gone(e->older, rule);
}

/* --- rows with subdomains -----------------------------------------------------------------------*/

bool redirect_edits_is_below(const redirect_rule *below, const redirect_rule *at)
{
    return at->host && below->line == at->line && below->host_len == at->host_len + 2 &&
           !memcmp(below->host, "*.", 2) && !memcmp(below->host + 2, at->host, at->host_len) &&
           redirect_edit_same_bytes(below->source, below->source_len, at->source, at->source_len);
}

/* Both rules stand one behind the other. */
static bool are_of_one_row(redirect_edits *e, const redirect_rule *rule, uint32_t other)
{
    redirect_rule copy = *rule, found;

    if (!other || !rule->host)
        return false;
    copy.source = apr_pstrmemdup(e->pool, rule->source, rule->source_len); /* of e->target */
    redirect_table_rule(e->base, other, &found, e->target, NULL);
    return rule->host[0] == '*' ? redirect_edits_is_below(&copy, &found)
                                : redirect_edits_is_below(&found, &copy);
}

/* @a found lies in e->target. */
static unsigned role_in_base(redirect_edits *e, uint32_t rule, const redirect_rule *found,
                             uint32_t index)
{
    if (found->host_len > 2 && found->host[0] == '*')
        return index && are_of_one_row(e, found, redirect_table_nth(e->base, index - 1))
                   ? OVERLAY_ROW_BELOW
                   : 0;
    return are_of_one_row(e, found, redirect_table_next(e->base, rule)) ? OVERLAY_ROW_HAS_BELOW : 0;
}

unsigned redirect_edits_role(redirect_edits *e, const redirect_table *table, uint32_t rule)
{
    redirect_rule found;
    uint32_t index;

    redirect_table_rule(table, rule, &found, e->target, &index);
    return table == e->base ? role_in_base(e, rule, &found, index)
                            : redirect_overlay_role(e->older, index);
}

/* --- finding them -------------------------------------------------------------------------------*/

/* What is looked for. */
typedef struct wanted {
    redirect_judge judge;
    redirect_edits *e;
    const redirect_rule *rule;
    bool below;    /* the second rule of a row with subdomains; else no such one */
    map_text *key; /* NULL, or: all rules with this key, see redirect_edit_group_key() */
} wanted;

/* No rule is compared with others, so that each is found. */
static bool never(const redirect_judge *judge, const char *condition, size_t len)
{
    (void)judge, (void)condition, (void)len;
    return false;
}

static bool holds(redirect_judge *judge, const char *condition, size_t len)
{
    const wanted *w = (const wanted *)(const void *)judge;
    const redirect_rule *rule = w->rule;

    return w->key || redirect_edit_same_bytes(
                         condition, redirect_edit_condition_len(condition, len), rule->condition,
                         redirect_edit_condition_len(rule->condition, rule->condition_len));
}

/* For redirect_request.regex: it is the pattern that is looked for. */
static bool is_pattern(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len)
{
    const redirect_rule *rule = baton;

    (void)id, (void)flags, (void)subject, (void)len;
    return rule->pattern && !strncmp(pattern, rule->pattern, rule->pattern_len + 1);
}

static bool has_key(const wanted *w, const redirect_rule *rule)
{
    map_text key;

    if (rule->kind != w->rule->kind ||
        (rule->flags ^ w->rule->flags) & ~(unsigned)REDIRECT_SEARCHED)
        return false;
    if (redirect_kind_has_pattern(rule->kind) &&
        !redirect_edit_same_bytes(rule->pattern, rule->pattern_len, w->rule->pattern,
                                  w->rule->pattern_len))
        return false;
    key = redirect_edit_group_key(rule, w->e->pool);
    return redirect_edit_same_bytes(key.s, key.len, w->key->s, w->key->len);
}

static bool is_wanted(const wanted *w, const redirect_table *table, uint32_t at)
{
    redirect_rule found;

    redirect_table_rule(table, at, &found, w->e->target, NULL);
    if (w->key)
        return has_key(w, &found) && !is_gone(w->e, table, at);
    return redirect_edit_same_source(&w->e->options, &found, w->rule) &&
           !is_gone(w->e, table, at) &&
           w->below == ((redirect_edits_role(w->e, table, at) & OVERLAY_ROW_BELOW) != 0);
}

/* A path that the rule's source and literals are found by. */
static const char *path_of(const redirect_rule *rule, size_t *len, apr_pool_t *pool)
{
    char *path = apr_palloc(pool, rule->source_len + rule->literals_len + 1), *to;

    memcpy(path, rule->source, rule->source_len);
    to = path + rule->source_len;
    for (size_t i = 0; i < rule->literals_len; i++) {
        if (rule->literals[i])
            *to++ = rule->literals[i];
    }
    *to = '\0';
    *len = (size_t)(to - path);
    return path;
}

/* No path is made of a template: all rules are compared with it. */
static uint32_t walk_all(const wanted *w, const redirect_table *table, uint32_t from)
{
    uint32_t at = redirect_table_next(table, from ? from - 1 : 0);

    while (at && !is_wanted(w, table, at))
        at = redirect_table_next(table, at);
    return at;
}

static redirect_request request_for(wanted *w)
{
    const redirect_rule *rule = w->rule;
    apr_pool_t *pool = w->e->pool;
    redirect_request request = {.judge = &w->judge,
                                .https = rule->flags & REDIRECT_HTTPS,
                                .query = rule->query,
                                .query_len = rule->query_len,
                                .regex = is_pattern,
                                .baton = (void *)(uintptr_t)rule};

    request.path = path_of(rule, &request.path_len, pool);
    if (rule->host) {
        const char *host = apr_pstrmemdup(pool, rule->host, rule->host_len);

        request.host = *host == '*' ? apr_pstrcat(pool, "a", host + 1, NULL) : host;
        request.host_len = strlen(request.host);
    }
    return request;
}

/* The first one of the table from @a from on; 0: none. */
static uint32_t find_from(wanted *w, const redirect_table *table, uint32_t from)
{
    redirect_request request;
    redirect_match match;

    if (w->rule->kind == REDIRECT_TEMPLATE)
        return walk_all(w, table, from);
    request = request_for(w);
    while (redirect_table_lookup(table, &request, from, &match) && match.rule >= from) {
        if (is_wanted(w, table, match.rule))
            return match.rule;
        from = match.rule + 1;
        w->judge.refusals = 0;
    }
    return 0;
}

uint32_t redirect_edits_find_in(redirect_edits *e, const redirect_table *table,
                                const redirect_rule *rule, bool below)
{
    const redirect_rule as = redirect_edit_without_target(&e->options, rule);
    wanted w = {.judge = {.compares = never, .holds = holds}, .e = e, .rule = &as, .below = below};

    return find_from(&w, table, 0);
}

/* --- rows that are compared ---------------------------------------------------------------------*/

/* The rules of one source to a table. */
typedef struct edit_group {
    bool compared; /* some row is compared with the others */
    bool looked;   /* in base and older overlay, for such a row */
    bool gathered; /* all rows are in the overlay that is being made */
} edit_group;

static bool is_compared(const redirect_edits *e, const redirect_rule *rule)
{
    redirect_conditions conditions;

    if (!rule->condition)
        return false;
    redirect_conditions_begin(&conditions, e->pool, NULL, NULL);
    return conditions.judge.compares(&conditions.judge, rule->condition, rule->condition_len);
}

static edit_group *group_of(redirect_edits *e, map_text key)
{
    edit_group *group = apr_hash_get(e->groups, key.s, (apr_ssize_t)key.len);

    if (!group) {
        group = apr_pcalloc(e->pool, sizeof(*group));
        apr_hash_set(e->groups, key.s, (apr_ssize_t)key.len, group);
    }
    return group;
}

void redirect_edits_note_compared(redirect_edits *e, const redirect_rule *rule)
{
    if (!is_compared(e, rule))
        return;
    e->conditioned = true;
    group_of(e, redirect_edit_group_key(rule, e->pool))->compared = true;
}

bool redirect_edits_has_conditions(const redirect_table *table)
{
    redirect_table_info info;

    redirect_table_info_get(table, &info);
    return info.uses_condition;
}

/* The members of the group in one table. */
static void find_members(wanted *w, const redirect_table *table, edit_group *group,
                         apr_array_header_t *rules)
{
    uint32_t at = 0;

    if (!group->compared && !redirect_edits_has_conditions(table))
        return;
    while (rules->nelts <= GROUP_MAX && (at = find_from(w, table, at ? at + 1 : 0)) != 0) {
        redirect_rule found;

        APR_ARRAY_PUSH(rules, uint32_t) = at;
        redirect_table_rule(table, at, &found, w->e->target, NULL);
        group->compared |= is_compared(w->e, &found);
    }
}

/* As they are. */
static void bring(redirect_edits *e, const redirect_table *table, const apr_array_header_t *rules)
{
    for (int i = 0; i < rules->nelts; i++)
        redirect_edits_bring(e, table, APR_ARRAY_IDX(rules, i, uint32_t));
}

bool redirect_edits_gather(redirect_edits *e, const redirect_rule *rule)
{
    apr_array_header_t *base, *older;
    wanted w = {.judge = {.compares = never, .holds = holds}, .e = e, .rule = rule};
    edit_group *group;
    map_text key;

    if (!e->conditioned && !rule->condition)
        return true;
    key = redirect_edit_group_key(rule, e->pool);
    group = group_of(e, key);
    if (is_compared(e, rule))
        e->conditioned = group->compared = true;
    if (group->gathered || (group->looked && !group->compared))
        return true;
    w.key = &key;
    base = apr_array_make(e->pool, 8, sizeof(uint32_t));
    older = apr_array_make(e->pool, 8, sizeof(uint32_t));
    if (e->older) /* first, as what is compared may be there alone */
        find_members(&w, e->older->table, group, older);
    find_members(&w, e->base, group, base);
    if (e->older && group->compared && !older->nelts)
        find_members(&w, e->older->table, group, older);
    group->looked = true;
    if (base->nelts > GROUP_MAX || older->nelts > GROUP_MAX)
        return false;
    group->gathered = group->compared;
    if (group->compared) {
        bring(e, e->base, base);
        if (e->older)
            bring(e, e->older->table, older);
    }
    return true;
}
