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
    if (to->kind <= REDIRECT_PREFIX)
        merge_slashes(to);
}

/* nginx looks for whole sources first, then for regexes, and takes the default last. */
static uint64_t nginx_rank(const redirect_edits *e, const redirect_rule *rule)
{
    if (redirect_edit_is_default(&e->options, rule))
        return 3;
    return rule->kind <= REDIRECT_PREFIX ? 1 : 2;
}

/* Which row comes first whatever the order in the file. Cloudflare's: see maps/csv.c. 0: the format has
 * the file's order. */
static uint64_t rank_of(const redirect_edits *e, const redirect_rule *rule, bool subdomains)
{
    size_t host = rule->host_len, path = rule->source_len;

    if (e->options.format == REDIRECT_FORMAT_NGINX)
        return nginx_rank(e, rule);
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
    row->hash = redirect_edit_source_hash(&e->options, &row->rule);
    row->next = apr_hash_get(e->by_source, &row->hash, sizeof(row->hash));
    apr_hash_set(e->by_source, &row->hash, sizeof(row->hash), row);
    APR_ARRAY_PUSH(e->rows, edit_row *) = row;
    redirect_edits_note_compared(e, &row->rule);
}

/* A row with subdomains is less special for the hosts below, too. */
static uint64_t rank_of_row(const redirect_edits *e, const edit_row *row)
{
    redirect_rule rule = row->rule;

    if (row->role & OVERLAY_ROW_BELOW)
        rule.host_len -= 2;
    return rank_of(e, &rule, row->role & (OVERLAY_ROW_BELOW | OVERLAY_ROW_HAS_BELOW));
}

static void add_row(redirect_edits *e, edit_row *row, uint64_t place)
{
    row->place = place;
    row->rank = rank_of_row(e, row);
    row->number = e->head.next++;
    put_row(e, row);
}

/* The first row of the overlay that has this source. @a below: see redirect_edits_find_in(). */
static edit_row *find_row(const redirect_edits *e, const redirect_rule *rule, bool below)
{
    uint64_t hash = redirect_edit_source_hash(&e->options, rule);
    edit_row *first = NULL;

    for (edit_row *row = apr_hash_get(e->by_source, &hash, sizeof(hash)); row; row = row->next) {
        if (!row->dropped && below == ((row->role & OVERLAY_ROW_BELOW) != 0) &&
            redirect_edit_same_source(&e->options, &row->rule, rule) &&
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

static uint32_t find_in_base(redirect_edits *e, const redirect_rule *rule)
{
    return redirect_edits_find_in(e, e->base, rule, false);
}

static uint32_t find_in_older(redirect_edits *e, const redirect_rule *rule, bool below)
{
    return e->older ? redirect_edits_find_in(e, e->older->table, rule, below) : 0;
}

/* --- where a row comes --------------------------------------------------------------------------*/

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
        if (nginx_rank(e, &row) == 1) {
            last = rule;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 2 * (uint64_t)last + 1;
}

static edit_row row_of_base(redirect_edits *e, uint32_t rule)
{
    edit_row row = {.place = 2 * (uint64_t)rule, .role = redirect_edits_role(e, e->base, rule)};

    redirect_table_rule(e->base, rule, &row.rule, e->target, NULL);
    row.rule.source = copy_text(e->pool, row.rule.source, row.rule.source_len);
    row.rank = rank_of_row(e, &row);
    return row;
}

/* Behind the last one that is as special. */
static uint64_t behind_special(redirect_edits *e, const edit_row *row)
{
    uint64_t rank = rank_of_row(e, row);
    uint32_t low = 0, high;
    redirect_table_info info;

    redirect_table_info_get(e->base, &info);
    high = info.rules;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (row_of_base(e, redirect_table_nth(e->base, middle)).rank <= rank)
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
    if (nginx_rank(e, &row) != 3)
        return BEHIND_ALL;
    return info.rules > 1 ? 2 * (uint64_t)redirect_table_nth(e->base, info.rules - 2) + 1 : 1;
}

/* Where the format puts a row that stands at the file's end. */
static uint64_t end_of(redirect_edits *e, const edit_row *row)
{
    redirect_format format = e->options.format;
    const redirect_rule *rule = &row->rule;

    if (format == REDIRECT_FORMAT_CLOUDFLARE)
        return behind_special(e, row);
    if (format == REDIRECT_FORMAT_NETLIFY || format == REDIRECT_FORMAT_JSON)
        return BEHIND_ALL;
    if (rule->query && rule->query_len)
        return behind_queries(e);
    if (format != REDIRECT_FORMAT_NGINX)
        return BEHIND_ALL;
    switch (nginx_rank(e, rule)) {
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

/* The row, with others that it is compared with. */
static void put_with_group(redirect_edits *e, const edit_line *edit, edit_row *row, uint64_t place)
{
    if (!redirect_edits_gather(e, &row->rule))
        say(e, edit,
            "the source has too many rows with conditions for a temporary edit; have it written to "
            "the file");
    add_row(e, row, place);
}

static void add(redirect_edits *e, const edit_line *edit)
{
    uint32_t rule = find_in_base(e, &edit->rows->rule);

    if (rule)
        redirect_report_say(e->report, REDIRECT_ERROR, edit->line,
                            "the source has a row already, in %s %u of the file; change that with "
                            "set",
                            redirect_line_word(redirect_table_line(e->base, rule, NULL)),
                            redirect_line_number(redirect_table_line(e->base, rule, NULL)));
    else if (find_row(e, &edit->rows->rule, false) || find_in_older(e, &edit->rows->rule, false))
        say(e, edit, "the source has a row already, by an edit; change that with set");
    else
        put_with_group(e, edit, edit->rows, end_of(e, edit->rows));
}

/* If it comes before the one that is known. */
static void take_first(edit_row *first, const edit_row *row)
{
    if (!first->place || edit_row_before(row, first))
        *first = *row;
}

/* All rows of the source go. *first: the one that came first; its place is 0 if there was none. */
static void drop_rules(redirect_edits *e, const redirect_rule *rule, bool below, edit_row *first)
{
    edit_row *row;
    uint32_t place;

    *first = (edit_row){.place = 0};
    while ((row = find_row(e, rule, below)) != NULL) {
        take_first(first, row);
        row->dropped = true;
    }
    while ((place = find_in_older(e, rule, below)) != 0) {
        take_first(first, redirect_edits_row_of(e, e->older, place));
        put_rule(e, e->gone_older, place);
    }
    while ((place = redirect_edits_find_in(e, e->base, rule, below)) != 0) {
        edit_row base = row_of_base(e, place);

        take_first(first, &base);
        set_gone(e, place);
    }
}

/* The same row's, for the hosts below. */
static edit_row *row_below(redirect_edits *e, const edit_row *row)
{
    edit_row *below = apr_pmemdup(e->pool, row, sizeof(*row));

    below->rule.host = apr_pstrcat(
        e->pool, "*.", apr_pstrmemdup(e->pool, row->rule.host, row->rule.host_len), NULL);
    below->rule.host_len += 2;
    below->role = OVERLAY_ROW_BELOW;
    return below;
}

/* Where a row has two rules, both. A row with subdomains that another one hides has only the second in
 * the table, as a row of its own would. */
static void drop_all(redirect_edits *e, const edit_line *edit, edit_row *first, edit_row *below)
{
    const redirect_rule *rule = &edit->rows->rule, *second;

    *below = (edit_row){.place = 0};
    drop_rules(e, rule, false, first);
    if (!first->place || !rule->host)
        return;
    second = &row_below(e, edit->rows)->rule;
    drop_rules(e, second, true, below);
    if (!below->place && e->options.format == REDIRECT_FORMAT_CLOUDFLARE && find_in_base(e, second))
        say(e, edit,
            "the source may have two rows, one of them with subdomains, which a temporary edit "
            "cannot tell; have it written to the file");
}

static void put_at(redirect_edits *e, const edit_line *edit, edit_row *row, const edit_row *first)
{
    if (!first->place || first->rank != rank_of_row(e, row)) {
        /* it is more or less special now */
        put_with_group(e, edit, row, end_of(e, row));
        return;
    }
    put_with_group(e, edit, row, first->place);
    row->number = first->number;
}

/* In the first one's place: others that it hid must not come back if it hides them no more. Its source
 * stays as it was written, as in a file, and so does what an edit has no words for. */
static void set(redirect_edits *e, const edit_line *edit)
{
    edit_row first, first_below, *row = edit->rows, *below = NULL;

    drop_all(e, edit, &first, &first_below);
    row->role = first.role & OVERLAY_ROW_HAS_BELOW;
    if (first.place && first.rank == rank_of_row(e, row) && first.rule.kind <= REDIRECT_PREFIX &&
        row->rule.kind <= REDIRECT_PREFIX &&
        redirect_edit_keeps_source(&e->options, first.rule.source, first.rule.source_len,
                                   row->rule.source, row->rule.source_len)) {
        row->rule.source = first.rule.source;
        row->rule.source_len = first.rule.source_len;
    }
    if (row->role)
        below = row_below(e, row);
    put_at(e, edit, row, &first);
    if (below)
        put_at(e, edit, below, &first_below);
}

static void drop(redirect_edits *e, const edit_line *edit)
{
    edit_row first, below;

    drop_all(e, edit, &first, &below);
    if (!first.place)
        say(e, edit, "the source has no row");
}

/* --- all of them ------------------------------------------------------------------------------*/

static void apply_line(redirect_edits *e, const edit_line *edit)
{
    if (!edit->rows)
        return;
    if (edit->edit.op == REDIRECT_EDIT_ADD)
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
    bool in_file = row->place % 2 == 0;

    row->rule.line = in_file ? redirect_table_line(e->base, (uint32_t)(row->place / 2), NULL) : 0;
    return fn(baton, &row->rule,
              row->role & OVERLAY_ROW_MOVED ? REDIRECT_SAME
              : in_file                     ? REDIRECT_ROW_CHANGED
                                            : REDIRECT_ROW_ADDED);
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
    while (asked && (row = find_row(e, &asked->rule, false)) != NULL) {
        row->dropped = true;
        if (!show_found(e, row, fn, baton))
            return APR_SUCCESS;
    }
    while (asked && (rule = find_in_older(e, &asked->rule, false)) != 0) {
        row = redirect_edits_row_of(e, e->older, rule);
        put_rule(e, e->gone_older, rule);
        if (!show_found(e, row, fn, baton))
            return APR_SUCCESS;
    }
    while (asked && (rule = find_in_base(e, &asked->rule)) != 0) {
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
    row->number = redirect_overlay_number(overlay, index);
    row->role = redirect_overlay_role(overlay, index);
    if (!row->rule.host || row->rule.host_len <= 2) /* whatever others have written */
        row->role &= ~(unsigned)OVERLAY_ROW_BELOW;
    row->rank = rank_of_row(e, row);
    return row;
}

void redirect_edits_bring(redirect_edits *e, const redirect_table *table, uint32_t rule)
{
    edit_row *row;

    if (table == e->base) {
        row = apr_palloc(e->pool, sizeof(*row));
        *row = row_of_base(e, rule);
        redirect_table_rule(table, rule, &row->rule, e->target, NULL);
        redirect_edits_copy(&row->rule, &row->rule, e->pool);
        if (redirect_kind_has_pattern(row->rule.kind))
            redirect_map_set_literals(&row->rule, e->pool);
        row->role |= OVERLAY_ROW_MOVED;
        set_gone(e, rule);
    } else {
        row = redirect_edits_row_of(e, e->older, rule);
        put_rule(e, e->gone_older, rule);
    }
    if (table == e->base)
        row->number = e->head.next++;
    put_row(e, row);
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
    e->groups = apr_hash_make(pool);
    e->target = apr_palloc(pool, REDIRECT_RULE_ROOM);
    if (before)
        take_before(e, before, older);
    e->conditioned |= redirect_edits_has_conditions(base) ||
                      (e->older && redirect_edits_has_conditions(e->older->table));
    return e;
}
