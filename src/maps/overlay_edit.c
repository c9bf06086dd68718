/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From edits to an overlay: each line becomes an operation and a row, see maps/overlay_rows.c. The row
 * of the same source is looked for among those that were edited before, by a
 * hash of the source, and in the base, by a look-up of the source itself. Called by the module for
 * POST to the status page. maps/overlay_find.c looks rows up,
 * maps/overlay_write.c makes the image.
 */
#include "maps/edit_internal.h"
#include "maps/overlay_internal.h"

#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

#define BEHIND_ALL OVERLAY_BEHIND_ALL
#define RECENT_MAX 256 /* see redirect_edits_bound() */

/* --- sources ----------------------------------------------------------------------------------*/

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len, bool fold)
{
    if (!a || !b)
        return !a && !b;
    return a_len == b_len && (fold ? !strncasecmp(a, b, a_len) : !memcmp(a, b, a_len));
}

static bool same_query(const redirect_rule *a, const redirect_rule *b)
{
    if (!a->query || !b->query || (a->flags ^ b->flags) & REDIRECT_QUERY_EXACT)
        return !a->query && !b->query;
    return same_text(a->query, a->query_len, b->query, b->query_len, false) ||
           (!(a->flags & REDIRECT_QUERY_EXACT) &&
            redirect_query_equal(a->query, a->query_len, b->query, b->query_len));
}

static bool is_path(const redirect_rule *rule)
{
    return rule->kind == REDIRECT_EXACT || rule->kind == REDIRECT_PREFIX;
}

/* Without the slash at its end where that is ignored. */
static size_t source_len(const redirect_rule *rule, bool any_slash)
{
    size_t len = rule->source_len;

    return any_slash && len > 1 && rule->source[len - 1] == '/' ? len - 1 : len;
}

/* But for the condition. */
static bool same_beside_condition(const redirect_rule *a, const redirect_rule *b)
{
    unsigned both = a->flags & b->flags, differ = a->flags ^ b->flags;
    bool fold = both & REDIRECT_ICASE, any_slash = both & REDIRECT_ANY_SLASH;

    return (is_path(a) ? is_path(b) : a->kind == b->kind) &&
           !(differ & (REDIRECT_HTTP | REDIRECT_HTTPS)) &&
           same_text(a->source, source_len(a, any_slash), b->source, source_len(b, any_slash),
                     fold) &&
           (is_path(a) ||
            same_text(a->pattern, a->pattern_len, b->pattern, b->pattern_len, false)) &&
           same_text(a->host, a->host_len, b->host, b->host_len, false) && same_query(a, b);
}

static bool same_source(const redirect_rule *a, const redirect_rule *b)
{
    return same_text(a->condition, a->condition_len, b->condition, b->condition_len, false) &&
           same_beside_condition(a, b);
}

typedef bool same_fn(const redirect_rule *a, const redirect_rule *b);

/* nginx's default is no row for "/". */
static bool is_same(const redirect_edits *e, same_fn *same, const redirect_rule *a,
                    const redirect_rule *b)
{
    return same(a, b) && (e->options.format != REDIRECT_FORMAT_NGINX || a->kind == b->kind);
}

/* --- rows --------------------------------------------------------------------------------------*/

static const char *copy_text(apr_pool_t *pool, const char *text, size_t len)
{
    return text ? apr_pstrmemdup(pool, text, len) : NULL;
}

/* Runs of slashes are one, as in a table. */
static void merge_slashes(redirect_rule *rule)
{
    char *to = (char *)rule->source;
    size_t kept = 0;

    for (size_t i = 0; i < rule->source_len; i++) {
        if (to[i] != '/' || !i || to[i - 1] != '/')
            to[kept++] = to[i];
    }
    rule->source_len = kept;
}

void redirect_edits_copy(redirect_rule *to, const redirect_rule *rule, apr_pool_t *pool)
{
    *to = *rule;
    to->source = copy_text(pool, rule->source, rule->source_len);
    to->literals = copy_text(pool, rule->literals, rule->literals_len);
    to->pattern = copy_text(pool, rule->pattern, rule->pattern_len);
    to->host = copy_text(pool, rule->host, rule->host_len);
    to->query = copy_text(pool, rule->query, rule->query_len);
    to->strip = copy_text(pool, rule->strip, rule->strip_len);
    to->target = copy_text(pool, rule->target, rule->target_len);
    to->condition = copy_text(pool, rule->condition, rule->condition_len);
    if (is_path(to))
        merge_slashes(to);
}

/* nginx looks for whole sources first, then for regexes, and takes the default last. */
static uint64_t nginx_rank(const redirect_rule *rule)
{
    if (rule->kind == REDIRECT_PREFIX && rule->source_len == 1 && !rule->host)
        return 3;
    return is_path(rule) ? 1 : 2;
}

/* Which row comes first whatever the order in the file. Cloudflare's: see maps/csv.c. 0: the format has
 * the file's order. */
static uint64_t rank_of(const redirect_edits *e, const redirect_rule *rule, bool subdomains)
{
    size_t host = rule->host_len, path = rule->source_len;

    if (e->options.format == REDIRECT_FORMAT_NGINX)
        return nginx_rank(rule);
    if (e->options.format != REDIRECT_FORMAT_CLOUDFLARE)
        return 0;
    if (path && rule->source[path - 1] == '/')
        path--;
    return (uint64_t)(REDIRECT_MAX_TEXT - path) << 12 |
           (uint64_t)(rule->kind == REDIRECT_PREFIX) << 11 | (uint64_t)subdomains << 10 |
           (511 - host) << 1 | !(rule->flags & (REDIRECT_HTTP | REDIRECT_HTTPS));
}

static void put_row(redirect_edits *e, edit_row *row)
{
    row->hash = redirect_edit_loose_hash(&row->rule);
    row->next = apr_hash_get(e->by_source, &row->hash, sizeof(row->hash));
    apr_hash_set(e->by_source, &row->hash, sizeof(row->hash), row);
    APR_ARRAY_PUSH(e->rows, edit_row *) = row;
}

static void add_row(redirect_edits *e, edit_row *row, uint64_t place)
{
    row->place = place;
    row->rank = rank_of(e, &row->rule, false);
    row->number = e->head.next++;
    put_row(e, row);
}

/* The first row of the overlay that has this source. */
static edit_row *find_row(const redirect_edits *e, const redirect_rule *rule)
{
    uint64_t hash = redirect_edit_loose_hash(rule);
    edit_row *first = NULL;

    for (edit_row *row = apr_hash_get(e->by_source, &hash, sizeof(hash)); row; row = row->next) {
        if (!row->dropped && is_same(e, same_source, &row->rule, rule) &&
            (!first || edit_row_before(row, first)))
            first = row;
    }
    return first;
}

/* --- rules of the base -------------------------------------------------------------------------*/

static void put_rule(redirect_edits *e, apr_hash_t *to, uint32_t rule)
{
    uint32_t *key = apr_pmemdup(e->pool, &rule, sizeof(rule));

    apr_hash_set(to, key, sizeof(*key), key);
}

static void set_gone(redirect_edits *e, uint32_t rule)
{
    put_rule(e, e->gone, rule);
}

/* Of the base, or of the older overlay. */
static bool is_gone(const redirect_edits *e, const redirect_table *table, uint32_t rule)
{
    const apr_hash_t *gone = table == e->base ? e->gone : e->gone_older;

    if (apr_hash_get((apr_hash_t *)(uintptr_t)gone, &rule, sizeof(rule)))
        return true;
    return table == e->base && e->older && redirect_overlay_is_gone(e->older, rule);
}

/* For redirect_request.regex: it is the pattern that is looked for. */
static bool is_pattern(void *baton, uint32_t id, const char *pattern, unsigned flags,
                       const char *subject, size_t len)
{
    const redirect_rule *rule = baton;

    (void)id, (void)flags, (void)subject, (void)len;
    return rule->pattern && !strncmp(pattern, rule->pattern, rule->pattern_len + 1);
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
static uint32_t walk_all(redirect_edits *e, const redirect_table *table, const redirect_rule *rule,
                         uint32_t from, same_fn *same)
{
    uint32_t at = redirect_table_next(table, from ? from - 1 : 0);

    for (; at; at = redirect_table_next(table, at)) {
        redirect_rule found;

        redirect_table_rule(table, at, &found, e->target, NULL);
        if (is_same(e, same, &found, rule) && !is_gone(e, table, at))
            return at;
    }
    return 0;
}

/* The first rule of the table from @a from on that has this source and is not gone; 0: none. */
static uint32_t find_from(redirect_edits *e, const redirect_table *table, const redirect_rule *rule,
                          uint32_t from, redirect_judge *judge, same_fn *same)
{
    redirect_request request = {.judge = judge,
                                .https = rule->flags & REDIRECT_HTTPS,
                                .query = rule->query,
                                .query_len = rule->query_len,
                                .regex = is_pattern,
                                .baton = (void *)rule};
    redirect_match match;

    if (rule->kind == REDIRECT_TEMPLATE)
        return walk_all(e, table, rule, from, same);
    request.path = path_of(rule, &request.path_len, e->pool);
    if (rule->host) {
        request.host =
            rule->host[0] == '*'
                ? apr_pstrcat(e->pool, "a",
                              apr_pstrmemdup(e->pool, rule->host + 1, rule->host_len - 1), NULL)
                : apr_pstrmemdup(e->pool, rule->host, rule->host_len);
        request.host_len = strlen(request.host);
    }
    while (redirect_table_lookup(table, &request, from, &match) && match.rule >= from) {
        redirect_rule found;

        redirect_table_rule(table, match.rule, &found, e->target, NULL);
        if (is_same(e, same, &found, rule) && !is_gone(e, table, match.rule))
            return match.rule;
        from = match.rule + 1;
        judge->refusals = 0;
    }
    return 0;
}

static uint32_t find_in(redirect_edits *e, const redirect_table *table, const redirect_rule *rule)
{
    redirect_likeness likeness;

    redirect_likeness_begin(&likeness, rule->condition, rule->condition_len);
    return find_from(e, table, rule, 0, &likeness.judge, same_source);
}

uint32_t redirect_edits_find_in_base(redirect_edits *e, const redirect_rule *rule)
{
    return find_in(e, e->base, rule);
}

static uint32_t find_in_older(redirect_edits *e, const redirect_rule *rule)
{
    return e->older ? find_in(e, e->older->table, rule) : 0;
}

/* For a request for which all conditions hold, and none is a comparison. */
static bool never(const redirect_judge *judge, const char *condition, size_t len)
{
    (void)judge, (void)condition, (void)len;
    return false;
}

static bool always(redirect_judge *judge, const char *condition, size_t len)
{
    (void)judge, (void)condition, (void)len;
    return true;
}

static redirect_choice first_one(redirect_judge *judge)
{
    (void)judge;
    return REDIRECT_CHOSEN;
}

static bool is_comparison(const redirect_rule *rule, apr_pool_t *pool)
{
    redirect_conditions conditions;

    redirect_conditions_begin(&conditions, pool, NULL, NULL);
    return rule->condition &&
           conditions.judge.compares(&conditions.judge, rule->condition, rule->condition_len);
}

/* True when a request's Accept and the like choose among the rows of this source: then all of them
 * must stand in one table. */
static bool is_chosen_among(redirect_edits *e, const redirect_rule *rule)
{
    redirect_table_info info;
    uint32_t at = 0;

    redirect_table_info_get(e->base, &info);
    if (is_comparison(rule, e->pool))
        return true;
    while (info.uses_condition) {
        redirect_judge judge = {
            .compares = never, .holds = always, .offer = always, .choose = first_one};
        redirect_rule found;

        at = find_from(e, e->base, rule, at ? at + 1 : 0, &judge, same_beside_condition);
        if (!at)
            break;
        redirect_table_rule(e->base, at, &found, e->target, NULL);
        if (is_comparison(&found, e->pool))
            return true;
    }
    return false;
}

/* Are these the two rules of a row, for a host and for all below? */
static bool is_below(const redirect_rule *below, const redirect_rule *at)
{
    return below->line == at->line && below->host_len == at->host_len + 2 &&
           !memcmp(below->host, "*.", 2) && !memcmp(below->host + 2, at->host, at->host_len) &&
           same_text(below->source, below->source_len, at->source, at->source_len, false);
}

/* Rules of the same line may be of several rows. Those of one row are for a host and for all below. */
static void take_twin(redirect_edits *e, const redirect_rule *rule, uint32_t other)
{
    const redirect_rule *below = rule, *at = rule;
    redirect_rule found;

    if (!other)
        return;
    redirect_table_rule(e->base, other, &found, e->target, NULL);
    if (found.host_len < rule->host_len)
        at = &found;
    else
        below = &found;
    if (at->host && is_below(below, at))
        set_gone(e, other);
}

static void take_away(redirect_edits *e, uint32_t rule)
{
    redirect_rule taken;
    uint32_t index;

    redirect_table_rule(e->base, rule, &taken, e->target, &index);
    taken.source =
        copy_text(e->pool, taken.source, taken.source_len); /* e->target has others next */
    set_gone(e, rule);
    take_twin(e, &taken, redirect_table_next(e->base, rule));
    take_twin(e, &taken, index ? redirect_table_nth(e->base, index - 1) : 0);
}

/* Rows with a query stand in front of all others, which might hide them. */
static uint64_t behind_queries(redirect_edits *e)
{
    uint32_t last = e->head.query_end;

    for (uint32_t rule = redirect_table_next(e->base, last); rule;
         rule = redirect_table_next(e->base, rule)) {
        redirect_rule row;

        redirect_table_rule(e->base, rule, &row, e->target, NULL);
        if (!row.query)
            break;
        last = rule;
    }
    e->head.query_end = last;
    return 2 * (uint64_t)last + 1;
}

static uint64_t behind_whole(const redirect_edits *e)
{
    redirect_table_info info;
    uint32_t low = 0, high, last = 0;

    redirect_table_info_get(e->base, &info);
    high = info.rules;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2, rule = redirect_table_nth(e->base, middle);
        redirect_rule row;

        redirect_table_rule(e->base, rule, &row, e->target, NULL);
        if (nginx_rank(&row) == 1) {
            last = rule;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 2 * (uint64_t)last + 1;
}

/* Rule number @a index of the base. A row with subdomains has two rules. */
static uint64_t rank_at(redirect_edits *e, uint32_t index, uint32_t count)
{
    redirect_rule rule, next;
    uint32_t line;
    size_t host;

    redirect_table_rule(e->base, redirect_table_nth(e->base, index), &rule, e->target, NULL);
    if (rule.host_len > 2 && rule.host[0] == '*') {
        rule.host_len -= 2;
        return rank_of(e, &rule, true);
    }
    line = rule.line;
    host = rule.host_len;
    if (index + 1 == count)
        return rank_of(e, &rule, false);
    redirect_table_rule(e->base, redirect_table_nth(e->base, index + 1), &next, e->target, NULL);
    return rank_of(e, &rule, next.line == line && next.host_len == host + 2);
}

/* Behind the last one that is as special. */
static uint64_t behind_special(redirect_edits *e, const redirect_rule *rule)
{
    uint64_t rank = rank_of(e, rule, false);
    uint32_t low = 0, high;
    redirect_table_info info;

    redirect_table_info_get(e->base, &info);
    high = info.rules;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (rank_at(e, middle, info.rules) <= rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? 2 * (uint64_t)redirect_table_nth(e->base, low - 1) + 1 : 1;
}

/* The default comes behind all others. */
static uint64_t ahead_of_default(redirect_edits *e)
{
    redirect_table_info info;
    redirect_rule row;

    redirect_table_info_get(e->base, &info);
    if (!info.rules)
        return BEHIND_ALL;
    redirect_table_rule(e->base, redirect_table_nth(e->base, info.rules - 1), &row, e->target,
                        NULL);
    if (nginx_rank(&row) != 3)
        return BEHIND_ALL;
    return info.rules > 1 ? 2 * (uint64_t)redirect_table_nth(e->base, info.rules - 2) + 1 : 1;
}

/* Where the format puts a row that stands at the file's end. */
static uint64_t end_of(redirect_edits *e, const redirect_rule *rule)
{
    redirect_format format = e->options.format;

    if (format == REDIRECT_FORMAT_CLOUDFLARE)
        return behind_special(e, rule);
    if (format == REDIRECT_FORMAT_NETLIFY || format == REDIRECT_FORMAT_JSON)
        return BEHIND_ALL;
    if (rule->query && rule->query_len)
        return behind_queries(e);
    if (format != REDIRECT_FORMAT_NGINX)
        return BEHIND_ALL;
    switch (nginx_rank(rule)) {
    case 1:
        return behind_whole(e);
    case 2:
        return ahead_of_default(e);
    default:
        return BEHIND_ALL;
    }
}

/* --- one edit ----------------------------------------------------------------------------------*/

static void say(const redirect_edits *e, const edit_line *edit, const char *what)
{
    redirect_report_say(e->report, REDIRECT_ERROR, edit->line, "%s", what);
}

static void add(redirect_edits *e, const edit_line *edit)
{
    uint32_t rule = redirect_edits_find_in_base(e, &edit->rows->rule);

    if (rule)
        redirect_report_say(e->report, REDIRECT_ERROR, edit->line,
                            "the source has a row already, in %s %u of the file; change that with "
                            "set",
                            redirect_line_word(redirect_table_line(e->base, rule, NULL)),
                            redirect_line_number(redirect_table_line(e->base, rule, NULL)));
    else if (find_row(e, &edit->rows->rule) || find_in_older(e, &edit->rows->rule))
        say(e, edit, "the source has a row already, by an edit; change that with set");
    else
        add_row(e, edit->rows, end_of(e, &edit->rows->rule));
}

/* Is the rule of the same row, for the hosts below? */
static bool has_twin(redirect_edits *e, const redirect_rule *rule, uint32_t next)
{
    redirect_rule found;

    if (!next || !rule->host)
        return false;
    redirect_table_rule(e->base, next, &found, e->target, NULL);
    return is_below(&found, rule);
}

static edit_row row_of_base(redirect_edits *e, uint32_t rule)
{
    edit_row row = {.place = 2 * (uint64_t)rule};

    redirect_table_rule(e->base, rule, &row.rule, e->target, NULL);
    row.rule.source = copy_text(e->pool, row.rule.source, row.rule.source_len);
    row.rank = rank_of(e, &row.rule, false);
    row.twin = has_twin(e, &row.rule, redirect_table_next(e->base, rule));
    return row;
}

/* If it comes before the one that is known. */
static void take_first(edit_row *first, const edit_row *row)
{
    if (!first->place || edit_row_before(row, first))
        *first = *row;
}

/* All rows of the source go. *first: the one that came first; its place is 0 if there was none. */
static void drop_all(redirect_edits *e, const redirect_rule *rule, edit_row *first)
{
    edit_row *row;
    uint32_t place;

    *first = (edit_row){.place = 0};
    while ((row = find_row(e, rule)) != NULL) {
        take_first(first, row);
        row->dropped = true;
    }
    while ((place = find_in_older(e, rule)) != 0) {
        take_first(first, redirect_edits_row_of(e, e->older, place));
        put_rule(e, e->gone_older, place);
    }
    while ((place = redirect_edits_find_in_base(e, rule)) != 0) {
        edit_row base = row_of_base(e, place);

        take_first(first, &base);
        take_away(e, place);
    }
}

/* In the first one's place: others that it hid must not come back if it hides them no more. Its source
 * stays as it was written, as in a file. */
static void set(redirect_edits *e, const edit_line *edit)
{
    edit_row first;

    drop_all(e, &edit->rows->rule, &first);
    if (first.twin)
        say(e, edit,
            "this row is for the hosts below its own, too, which is not for edits to say; have the "
            "edit written to the file");
    if (first.place && first.rank != rank_of(e, &edit->rows->rule, false))
        first.place = 0; /* it is more or less special now */
    else if (first.place && is_path(&first.rule)) {
        edit->rows->rule.source = first.rule.source;
        edit->rows->rule.source_len = first.rule.source_len;
    }
    add_row(e, edit->rows, first.place ? first.place : end_of(e, &edit->rows->rule));
    if (first.place)
        edit->rows->number = first.number;
}

static void drop(redirect_edits *e, const edit_line *edit)
{
    edit_row first;

    drop_all(e, &edit->rows->rule, &first);
    if (!first.place)
        say(e, edit, "the source has no row");
}

/* --- all of them ------------------------------------------------------------------------------*/

static void apply_line(redirect_edits *e, const edit_line *edit)
{
    if (!edit->rows)
        return;
    if (is_chosen_among(e, &edit->rows->rule))
        say(e, edit,
            "among rows of this source accept= or language= chooses, and these have no temporary "
            "edits; leave --temporary (temporary=1) out, and the edit is written to the file");
    else if (edit->edit.op == REDIRECT_EDIT_ADD)
        add(e, edit);
    else if (edit->edit.op == REDIRECT_EDIT_SET)
        set(e, edit);
    else
        drop(e, edit);
    e->applied++;
}

apr_status_t redirect_edits_apply(redirect_edits *e, const char *text, size_t len,
                                  redirect_report *report)
{
    apr_status_t rv = redirect_edits_read(e, text, len, report);

    if (rv != APR_SUCCESS)
        return rv;
    for (int i = 0; i < e->lines->nelts; i++)
        apply_line(e, &APR_ARRAY_IDX(e->lines, i, edit_line));
    if (redirect_edits_differing(e) > REDIRECT_OVERLAY_MAX)
        return APR_ENOSPC;
    return report->errors ? APR_EEXIST : APR_SUCCESS;
}

static bool show_found(redirect_edits *e, edit_row *row, redirect_row_fn *fn, void *baton)
{
    bool changed = row->place % 2 == 0;

    row->rule.line = changed ? redirect_table_line(e->base, (uint32_t)(row->place / 2), NULL) : 0;
    return fn(baton, &row->rule, changed ? REDIRECT_ROW_CHANGED : REDIRECT_ROW_ADDED);
}

apr_status_t redirect_edits_find(redirect_edits *e, const char *source, size_t len,
                                 redirect_report *report, redirect_row_fn *fn, void *baton)
{
    const char *text = apr_pstrcat(e->pool, "del ", apr_pstrmemdup(e->pool, source, len), NULL);
    const edit_row *asked;
    edit_row *row;
    uint32_t rule;
    apr_status_t rv = memchr(source, '\n', len)
                          ? APR_EGENERAL
                          : redirect_edits_read(e, text, strlen(text), report);

    if (rv != APR_SUCCESS)
        return rv;
    asked = APR_ARRAY_IDX(e->lines, 0, edit_line).rows;
    while (asked && (row = find_row(e, &asked->rule)) != NULL) {
        row->dropped = true;
        if (!show_found(e, row, fn, baton))
            return APR_SUCCESS;
    }
    while (asked && (rule = find_in_older(e, &asked->rule)) != 0) {
        row = redirect_edits_row_of(e, e->older, rule);
        put_rule(e, e->gone_older, rule);
        if (!show_found(e, row, fn, baton))
            return APR_SUCCESS;
    }
    while (asked && (rule = redirect_edits_find_in_base(e, &asked->rule)) != 0) {
        redirect_rule found;

        set_gone(e, rule);
        redirect_table_rule(e->base, rule, &found, e->target, NULL);
        if (!fn(baton, &found, REDIRECT_SAME))
            return APR_SUCCESS;
    }
    return APR_SUCCESS;
}

/* --- from one overlay to the next --------------------------------------------------------------*/

/* Texts are copied: others may write to the image while patterns are read and keys are made. */
edit_row *redirect_edits_row_of(redirect_edits *e, const redirect_overlay *overlay, uint32_t rule)
{
    edit_row *row = apr_pcalloc(e->pool, sizeof(*row));
    redirect_rule there;
    uint32_t index;

    redirect_table_rule(overlay->table, rule, &there, e->target, &index);
    redirect_edits_copy(&row->rule, &there, e->pool);
    if (redirect_kind_has_pattern(row->rule.kind))
        redirect_map_set_literals(&row->rule, e->pool);
    row->place = redirect_overlay_place(overlay, index);
    row->number = (uint32_t)redirect_overlay_order(overlay, index);
    row->rank = rank_of(e, &row->rule, false);
    return row;
}

static void take_recent(redirect_edits *e)
{
    const redirect_overlay *recent = e->recent;

    for (uint32_t i = 0; i < recent->ngone; i++)
        set_gone(e, recent->gone[i]);
    for (uint32_t i = 0; i < recent->ngone_older; i++)
        put_rule(e, e->gone_older, recent->gone_older[i]);
    for (uint32_t rule = redirect_table_next(recent->table, 0); rule;
         rule = redirect_table_next(recent->table, rule))
        put_row(e, redirect_edits_row_of(e, recent, rule));
}

/* An overlay that covers the other one is alone, but it stands where the older one does. */
static void take_before(redirect_edits *e, const redirect_edited *before, uint64_t older)
{
    const redirect_overlay *last = before->overlay;

    e->head.since = last->since;
    e->head.edits = last->edits;
    e->head.query_end = last->query_end;
    e->head.next = last->next;
    e->older = before->older;
    if (!before->older && older)
        e->older = last->rules || last->ngone ? last : NULL; /* else nothing is gained by it */
    else
        e->recent = last;
    e->head.older = e->older ? older : 0;
    if (e->recent)
        take_recent(e);
}

/* What the format has where a row says nothing. */
static void set_defaults(redirect_map_options *options)
{
    redirect_format format = options->format;

    if (!options->status &&
        (format == REDIRECT_FORMAT_NETLIFY || format == REDIRECT_FORMAT_CLOUDFLARE))
        options->status = 301;
    if (!options->status && format == REDIRECT_FORMAT_JSON)
        options->status = 307;
}

redirect_edits *redirect_edits_create(const redirect_table *base, uint64_t version,
                                      const redirect_edited *before, uint64_t older,
                                      const redirect_map_options *options, apr_pool_t *pool)
{
    redirect_edits *e = apr_pcalloc(pool, sizeof(*e));

    e->base = base;
    e->options = *options;
    set_defaults(&e->options);
    e->pool = pool;
    e->recent_max = RECENT_MAX;
    e->head = (overlay_head){.magic = OVERLAY_MAGIC, .base = version};
    e->rows = apr_array_make(pool, 64, sizeof(edit_row *));
    e->by_source = apr_hash_make(pool);
    e->gone = apr_hash_make(pool);
    e->gone_older = apr_hash_make(pool);
    e->target = apr_palloc(pool, REDIRECT_RULE_ROOM);
    if (before)
        take_before(e, before, older);
    return e;
}
