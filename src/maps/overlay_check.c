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
    const char *condition; /* of the row that is checked */
    size_t condition_len;
    char path[REDIRECT_MAX_TEXT + 1];
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

/* Where it stands among all others. */
static overlay_order order_of(const checking *c, const found_row *row)
{
    uint32_t index;

    if (row->origin == REDIRECT_IN_BASE)
        return overlay_order_of(2 * (uint64_t)row->match.rule, 0, 0);
    redirect_table_line(table_of(c, row), row->match.rule, &index);
    return redirect_overlay_order(
        row->origin == REDIRECT_IN_OLDER ? c->edited->older : c->edited->overlay, index);
}

/* Who asks is as the row wants it that is checked. @a before: rows up to that one are left out. */
static bool find(const checking *c, redirect_request *request, const found_row *before,
                 found_row *row)
{
    redirect_likeness likeness;

    redirect_likeness_begin(&likeness, c->condition, c->condition_len);
    request->judge = &likeness.judge;
    request->regex = c->report->regex;
    request->baton = c->report->regex_baton;
    if (c->edited) {
        row->origin =
            redirect_edited_next(c->edited, c->e->base, request, request, request,
                                 before ? order_of(c, before) : OVERLAY_START, &row->match);
    } else {
        uint32_t from = before ? redirect_table_next(c->e->base, before->match.rule) : 0;

        row->origin =
            (!before || from) && redirect_table_lookup(c->e->base, request, from, &row->match)
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
    uint32_t index;
    const char *source;

    redirect_table_rule(table_of(c, row), row->match.rule, &rule, c->target, &index);
    if (row->origin != REDIRECT_IN_BASE) {
        const redirect_overlay *overlay =
            row->origin == REDIRECT_IN_OLDER ? c->edited->older : c->edited->overlay;

        source = redirect_rule_source(&rule, c->pool);
        if (!(redirect_overlay_role(overlay, index) & OVERLAY_ROW_MOVED))
            return apr_psprintf(c->pool, "the edited row '%.*s'", 200, source);
        rule.line = redirect_table_line(
            c->e->base, (uint32_t)(redirect_overlay_place(overlay, index) / 2), NULL);
    }
    return apr_psprintf(c->pool, "%s %u", redirect_line_word(rule.line),
                        redirect_line_number(rule.line));
}

/* --- hidden rows ------------------------------------------------------------------------------ */

/* Rows ahead of the one that is checked, as they are found. */
typedef struct earlier_rows {
    checking *c;
    found_row last;
} earlier_rows;

static bool next_earlier(void *baton, redirect_request *request, redirect_match *match)
{
    earlier_rows *rows = baton;
    const checking *c = rows->c;
    found_row row;

    if (!find(c, request, rows->last.origin == REDIRECT_NOT_FOUND ? NULL : &rows->last, &row) ||
        !overlay_is_before(order_of(c, &row), order_of(c, &c->own)))
        return false;
    rows->last = row;
    *match = row.match;
    return true;
}

static void find_hider(checking *c, const redirect_rule *rule)
{
    earlier_rows rows = {.c = c, .last = {.origin = REDIRECT_NOT_FOUND}};

    if (rule->kind == REDIRECT_PATTERN || rule->kind == REDIRECT_LITERAL_PREFIX)
        return;
    if (check_is_hidden(rule, c->path, next_earlier, &rows, c->pool))
        redirect_report_say(c->report, REDIRECT_WARNING, c->edit->line,
                            "never used: %s answers this source already", name_of(c, &rows.last));
}

/* --- loops ------------------------------------------------------------------------------------ */

/* Where a client gets who is sent to @a url; NULL: that is not known, or elsewhere. */
static const char *step(checking *c, const char *url, redirect_request *before, found_row *row)
{
    redirect_request request = {0};
    redirect_rule to;
    const char *answer;

    row->origin = REDIRECT_NOT_FOUND;
    if (!check_request_of(&c->url, url, strlen(url), before, &request) ||
        !find(c, &request, NULL, row))
        return NULL;
    redirect_table_rule(table_of(c, row), row->match.rule, &to, c->target, NULL);
    if (!check_leads_back(url, &request, before, &to)) {
        row->origin = REDIRECT_NOT_FOUND;
        return NULL;
    }
    answer = to.target ? check_answer(c->report, &row->match, &request, c->pool) : NULL;
    *before = request;
    before->host = request.host ? apr_pstrmemdup(c->pool, request.host, request.host_len) : NULL;
    return answer ? check_with_fragment(answer, url, c->pool) : NULL;
}

/* @a path: with which path it does so; NULL: with its source. */
static void say_loop(checking *c, unsigned rows, const found_row *first, const found_row *last,
                     const char *path)
{
    const char *such = path ? apr_psprintf(c->pool, " for '%s'", path) : "";

    if (rows == 1)
        redirect_report_say(
            c->report, REDIRECT_WARNING, c->edit->line,
            "leads to itself%s: browsers give up; remove the row or change its target", such);
    else
        redirect_report_say(c->report, REDIRECT_WARNING, c->edit->line,
                            "a loop of %u rows%s, by %s and back from %s: browsers give up; remove "
                            "one of them",
                            rows, such, name_of(c, first), name_of(c, last));
}

/* Where a row leads; with groups, from a path in *from that it answers. NULL: that is not known. */
static const char *way_of(checking *c, const redirect_rule *rule, const char **from)
{
    redirect_request request = check_source_of(rule);
    found_row row;

    *from = NULL;
    if (!(rule->options & REDIRECT_OPT_EXPAND))
        return apr_pstrmemdup(c->pool, rule->target, rule->target_len);
    request.query = rule->query;
    request.query_len = rule->query_len;
    for (unsigned i = 0; (*from = check_sample(rule, i, c->pool)) != NULL; i++) {
        request.path = *from;
        request.path_len = strlen(*from);
        if (**from == '/' && find(c, &request, NULL, &row) && is_same(&row, &c->own))
            return check_answer(c->report, &row.match, &request, c->pool);
    }
    return NULL;
}

/* Brent's way to find a loop that does not come back to the row itself. */
static void follow(checking *c, const redirect_rule *rule)
{
    redirect_request before = check_source_of(rule);
    found_row first = {.origin = REDIRECT_NOT_FOUND}, mark = first, last = first, row;
    const char *from, *url = way_of(c, rule, &from);
    unsigned marked = 1;

    for (unsigned rows = 1; url && rows < STEPS_MAX; rows++) {
        url = step(c, url, &before, &row);
        if (row.origin == REDIRECT_NOT_FOUND)
            return;
        if (is_same(&row, &c->own)) {
            say_loop(c, rows, &first, &last, from);
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
        return redirect_edits_find_in(c->e, c->e->base, &row->rule, false);
    return row->dropped ? 0 : redirect_table_nth(c->edited->overlay->table, row->rule.line - 1);
}

static void check_row(checking *c, edit_row *row)
{
    const redirect_rule *rule = &row->rule;

    c->own.origin = c->edited ? REDIRECT_IN_OVERLAY : REDIRECT_IN_BASE;
    c->own.match.rule = rule_of(c, row);
    if (!c->own.match.rule)
        return;
    c->condition = rule->condition;
    c->condition_len = rule->condition_len;
    find_hider(c, rule);
    if (rule->target)
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
