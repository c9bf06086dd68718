/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is wrong with rows of edits beside all others of the map: what maps/check.c finds in a file.
 * Only the rows that were set are looked at, so the time is that of their ways. Called by the module
 * when the rows are in use.
 */
#include "maps/check_url.h"
#include "maps/overlay_internal.h"

#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 1000

/* A row that answers now. */
typedef struct found_row {
    redirect_origin origin;
    redirect_match match;
} found_row;

typedef struct checking {
    redirect_edits *e;
    const redirect_edited *edited; /* or NULL */
    redirect_report *report;
    const edit_line *edit;
    found_row own;
    apr_pool_t *pool; /* of one row */
    check_url url;
    char target[REDIRECT_RULE_ROOM];
} checking;

static const redirect_table *table_of(const checking *c, const found_row *row)
{
    return row->origin == REDIRECT_IN_OVERLAY ? c->edited->overlay->table
           : row->origin == REDIRECT_IN_OLDER ? c->edited->older->table
                                              : c->e->base;
}

static bool is_same(const found_row *a, const found_row *b)
{
    return a->origin == b->origin && a->match.rule == b->match.rule;
}

static const char *no_field(void *baton, const char *name)
{
    (void)baton, (void)name;
    return NULL;
}

/* For who asks, no condition of another row holds. */
static bool find(const checking *c, redirect_request *request, found_row *row)
{
    redirect_conditions conditions;
    redirect_likeness likeness;

    if (c->edited) {
        redirect_conditions_begin(&conditions, c->pool, no_field, NULL);
        request->judge = &conditions.judge;
        row->origin =
            redirect_edited_lookup(c->edited, c->e->base, request, request, request, &row->match);
    } else {
        redirect_likeness_begin(&likeness, NULL, 0);
        request->judge = &likeness.judge;
        row->origin = redirect_table_lookup(c->e->base, request, 0, &row->match)
                          ? REDIRECT_IN_BASE
                          : REDIRECT_NOT_FOUND;
    }
    request->judge = NULL;
    return row->origin != REDIRECT_NOT_FOUND;
}

/* "line 3", or "the edited row '/a'". */
static const char *name_of(checking *c, const found_row *row)
{
    redirect_rule rule;
    const char *source;

    redirect_table_rule(table_of(c, row), row->match.rule, &rule, c->target, NULL);
    if (row->origin == REDIRECT_IN_BASE)
        return apr_psprintf(c->pool, "%s %u", redirect_line_word(rule.line),
                            redirect_line_number(rule.line));
    source = redirect_rule_source(&rule, c->pool);
    return apr_psprintf(c->pool, "the edited row '%.*s'", 200, source);
}

/* --- hidden rows ------------------------------------------------------------------------------ */

static void find_hider(checking *c, const redirect_rule *rule)
{
    redirect_request request = check_source_of(rule);
    found_row first;

    if (redirect_kind_has_pattern(rule->kind) || rule->kind == REDIRECT_LITERAL_PREFIX)
        return;
    request.path = rule->source;
    request.path_len = rule->source_len;
    request.query = rule->query;
    request.query_len = rule->query_len;
    if (!find(c, &request, &first) || is_same(&first, &c->own) || !check_hides(&first.match, rule))
        return;
    redirect_report_say(c->report, REDIRECT_WARNING, c->edit->line,
                        "never used: %s answers this source already", name_of(c, &first));
}

/* --- loops ------------------------------------------------------------------------------------ */

/* Where a client gets who is sent to @a url; NULL: that is not known, or elsewhere. */
static const char *step(checking *c, const char *url, redirect_request *before, found_row *row)
{
    redirect_request request = {0};
    redirect_rule to;
    const char *answer;
    bool refused;

    row->origin = REDIRECT_NOT_FOUND;
    if (!check_request_of(&c->url, url, strlen(url), before, &request) || !find(c, &request, row))
        return NULL;
    redirect_table_rule(table_of(c, row), row->match.rule, &to, c->target, NULL);
    if (!check_leads_back(url, &request, before, &to)) {
        row->origin = REDIRECT_NOT_FOUND;
        return NULL;
    }
    if (!to.target || to.options & REDIRECT_OPT_EXPAND)
        return NULL;
    answer = redirect_map_location(&row->match, &request, NULL, 0, c->pool, &refused);
    *before = request;
    before->host = request.host ? apr_pstrmemdup(c->pool, request.host, request.host_len) : NULL;
    return answer ? check_with_fragment(answer, url, c->pool) : NULL;
}

static void say_loop(checking *c, unsigned rows, const found_row *first, const found_row *last)
{
    if (rows == 1)
        redirect_report_say(
            c->report, REDIRECT_WARNING, c->edit->line,
            "leads to itself: browsers give up; remove the row or change its target");
    else
        redirect_report_say(c->report, REDIRECT_WARNING, c->edit->line,
                            "a loop of %u rows, by %s and back from %s: browsers give up; remove "
                            "one of them",
                            rows, name_of(c, first), name_of(c, last));
}

/* Brent's way to find a loop that does not come back to the row itself. */
static void follow(checking *c, const redirect_rule *rule)
{
    redirect_request before = check_source_of(rule);
    found_row first = {.origin = REDIRECT_NOT_FOUND}, mark = first, last = first, row;
    const char *url = apr_pstrmemdup(c->pool, rule->target, rule->target_len);
    unsigned marked = 1;

    for (unsigned rows = 1; url && rows < STEPS_MAX; rows++) {
        url = step(c, url, &before, &row);
        if (row.origin == REDIRECT_NOT_FOUND)
            return;
        if (is_same(&row, &c->own)) {
            say_loop(c, rows, &first, &last);
            return;
        }
        if (is_same(&row, &mark)) {
            redirect_report_say(c->report, REDIRECT_WARNING, c->edit->line,
                                "leads into a loop, by %s", name_of(c, &first));
            return;
        }
        if (rows == 1)
            first = row;
        if (rows == marked) {
            mark = row;
            marked *= 2;
        }
        last = row;
    }
}

/* --- all rows --------------------------------------------------------------------------------- */

/* Its place in the tables; 0: a later edit has taken it away. */
static uint32_t rule_of(checking *c, edit_row *row)
{
    if (!c->edited)
        return redirect_edits_find_in_base(c->e, &row->rule);
    return row->dropped ? 0 : redirect_table_nth(c->edited->overlay->table, row->rule.line - 1);
}

static void check_row(checking *c, edit_row *row)
{
    const redirect_rule *rule = &row->rule;

    c->own.origin = c->edited ? REDIRECT_IN_OVERLAY : REDIRECT_IN_BASE;
    c->own.match.rule = rule_of(c, row);
    if (!c->own.match.rule || rule->condition)
        return;
    find_hider(c, rule);
    if (rule->target && !(rule->options & REDIRECT_OPT_EXPAND))
        follow(c, rule);
    apr_pool_clear(c->pool);
}

apr_status_t redirect_edits_check(redirect_edits *e, const redirect_edited *edited,
                                  const char *text, size_t len, redirect_report *report)
{
    redirect_report silent = {.fn = NULL};
    checking *c;
    apr_status_t rv = e->lines ? APR_SUCCESS : redirect_edits_read(e, text, len, &silent);

    if (rv != APR_SUCCESS)
        return rv;
    c = calloc(1, sizeof(*c));
    if (!c)
        return APR_ENOMEM;
    c->e = e;
    c->edited = edited;
    c->report = report;
    apr_pool_create(&c->pool, e->pool);
    for (int i = 0; i < e->lines->nelts; i++) {
        c->edit = &APR_ARRAY_IDX(e->lines, i, edit_line);
        if (c->edit->rows && c->edit->edit.op != REDIRECT_EDIT_DEL)
            check_row(c, c->edit->rows);
    }
    apr_pool_destroy(c->pool);
    free(c);
    return APR_SUCCESS;
}
