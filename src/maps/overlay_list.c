/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The rows of a map in their order, with what was edited: for whoever shows them.
 */
#include "maps/overlay_internal.h"

#include <string.h>

#include <apr_strings.h>

/* The rows of an overlay that are still to come. */
typedef struct cursor {
    const redirect_overlay *overlay; /* NULL: there is none */
    uint32_t rule, index;            /* of the next row; 0: none */
} cursor;

/* One listing. */
typedef struct listing {
    const redirect_table *base;
    const redirect_edited *edited; /* or NULL */
    cursor recent, older;
    uint64_t skip;
    bool edited_only;
    redirect_row_fn *fn;
    void *baton;
    char *target;
    uint32_t place; /* of the base's rule that the row at hand stands for */
} listing;

static bool show(listing *l, const redirect_table *table, uint32_t rule, redirect_differs differs,
                 unsigned role)
{
    redirect_rule row;

    bool moved = differs == REDIRECT_ROW_CHANGED && role & OVERLAY_ROW_MOVED;

    if (l->edited_only && (differs == REDIRECT_SAME || moved))
        return true;
    if (l->skip) {
        l->skip--;
        return true;
    }
    redirect_table_rule(table, rule, &row, l->target, NULL);
    if (differs == REDIRECT_ROW_ADDED)
        row.line = 0;
    else if (differs == REDIRECT_ROW_CHANGED)
        row.line = redirect_table_line(l->base, l->place, NULL);
    return l->fn(l->baton, &row, moved ? REDIRECT_SAME : differs);
}

static void step(cursor *c)
{
    c->rule = redirect_table_next(c->overlay->table, c->rule);
    c->index++;
}

static void skip_gone(listing *l)
{
    while (l->older.rule && redirect_edited_is_older_gone(l->edited, l->older.rule))
        step(&l->older);
}

static void begin(cursor *c, const redirect_overlay *overlay)
{
    *c = (cursor){overlay, overlay ? redirect_table_next(overlay->table, 0) : 0, 0};
}

static overlay_order order_at(const cursor *c)
{
    return c->rule ? redirect_overlay_order(c->overlay, c->index) : OVERLAY_NOWHERE;
}

/* The overlay whose row comes next; NULL: there are no more. */
static cursor *next_edited(listing *l)
{
    cursor *c =
        overlay_is_before(order_at(&l->older), order_at(&l->recent)) ? &l->older : &l->recent;

    return c->rule ? c : NULL;
}

/* The overlays' rows up to @a place. */
static bool show_edited(listing *l, uint64_t place)
{
    cursor *c;

    while ((c = next_edited(l)) != NULL && redirect_overlay_place(c->overlay, c->index) <= place) {
        uint64_t at = redirect_overlay_place(c->overlay, c->index);
        uint32_t rule = c->rule;
        unsigned role = redirect_overlay_role(c->overlay, c->index);

        l->place = (uint32_t)(at / 2);
        step(c);
        skip_gone(l);
        if (!show(l, c->overlay->table, rule,
                  at % 2 == 0 ? REDIRECT_ROW_CHANGED : REDIRECT_ROW_ADDED, role))
            return false;
    }
    return true;
}

static bool is_replaced(listing *l, uint32_t rule)
{
    const cursor *c = next_edited(l);

    return c && redirect_overlay_place(c->overlay, c->index) == 2 * (uint64_t)rule;
}

static bool show_base(listing *l, uint32_t rule)
{
    redirect_differs differs = REDIRECT_SAME;

    if (!l->edited)
        return show(l, l->base, rule, differs, 0);
    if (!show_edited(l, 2 * (uint64_t)rule - 1))
        return false;
    if (redirect_edited_is_gone(l->edited, rule))
        differs = REDIRECT_ROW_DELETED;
    if (differs == REDIRECT_ROW_DELETED && is_replaced(l, rule))
        return show_edited(l, 2 * (uint64_t)rule);
    return show(l, l->base, rule, differs, 0);
}

void redirect_edited_each(const redirect_edited *edited, const redirect_table *base,
                          bool edited_only, uint64_t from, redirect_row_fn *fn, void *baton,
                          apr_pool_t *pool)
{
    listing l = {.base = base,
                 .edited = edited,
                 .skip = from,
                 .edited_only = edited_only,
                 .fn = fn,
                 .baton = baton,
                 .target = apr_palloc(pool, REDIRECT_RULE_ROOM)};
    uint32_t rule = redirect_table_next(base, 0);

    if (edited) {
        begin(&l.recent, edited->overlay);
        begin(&l.older, edited->older);
        skip_gone(&l);
    } else if (from && from <= UINT32_MAX) {
        rule = redirect_table_nth(base, (uint32_t)from);
        l.skip = 0;
    }
    for (; rule; rule = redirect_table_next(base, rule)) {
        if (!show_base(&l, rule))
            return;
    }
    if (edited)
        show_edited(&l, UINT64_MAX);
}

/* --- as words --------------------------------------------------------------------------------- */

static const char *quoted(const char *text, size_t len, apr_pool_t *pool)
{
    return apr_pstrmemdup(pool, text ? text : "", text ? len : 0);
}

const char *redirect_rule_source(const redirect_rule *rule, apr_pool_t *pool)
{
    bool below = rule->host_len > 2 && rule->host[0] == '*';
    const char *scheme = rule->flags & REDIRECT_HTTPS  ? "https:"
                         : rule->flags & REDIRECT_HTTP ? "http:"
                                                       : "";
    const char *host = rule->host && !below ? quoted(rule->host, rule->host_len, pool) : NULL;
    const char *path =
        redirect_kind_has_pattern(rule->kind)
            ? quoted(rule->pattern, rule->pattern_len, pool)
            : redirect_escape_path(pool, quoted(rule->source, rule->source_len, pool));

    return apr_pstrcat(pool, host ? scheme : "", host ? "//" : "", host ? host : "", path,
                       rule->query ? "?" : "",
                       rule->query ? quoted(rule->query, rule->query_len, pool) : "", NULL);
}

const char *redirect_edit_quoted(const char *word, apr_pool_t *pool)
{
    char *to = apr_palloc(pool, 2 * strlen(word) + 3), *at = to;

    *at++ = '"';
    for (; *word; word++) {
        if (*word == '"' || *word == '\\')
            *at++ = '\\';
        *at++ = *word;
    }
    *at++ = '"';
    *at = '\0';
    return to;
}

/* With blanks in them, or a quote ahead, they are words in quotes. */
const char *redirect_rule_conditions(const redirect_rule *rule, apr_pool_t *pool)
{
    apr_array_header_t *words =
        redirect_condition_words(rule->condition, rule->condition_len, pool);

    for (int i = 0; i < words->nelts; i++) {
        const char **word = &APR_ARRAY_IDX(words, i, const char *);

        if (strpbrk(*word, " \t"))
            *word = redirect_edit_quoted(*word, pool);
    }
    return apr_array_pstrcat(pool, words, ' ');
}

const char *redirect_rule_options(const redirect_rule *rule, apr_pool_t *pool)
{
    bool below = rule->host_len > 2 && rule->host[0] == '*';
    bool plain = !rule->query || rule->flags & REDIRECT_QUERY_EXACT;
    const char *words = apr_pstrcat(
        pool, rule->flags & REDIRECT_ICASE ? " case=ignore" : "",
        rule->flags & REDIRECT_ANY_SLASH ? " slash=ignore" : "",
        rule->kind == REDIRECT_PREFIX ? " subpath=on" : "",
        rule->flags & REDIRECT_QUERY_EXACT ? " query=exact" : "",
        plain && !rule->query && rule->target && !(rule->options & REDIRECT_OPT_APPEND_QUERY)
            ? " query=drop"
            : "",
        below ? " host=" : "", below ? quoted(rule->host, rule->host_len, pool) : "",
        rule->strip ? " strip=" : "", quoted(rule->strip, rule->strip_len, pool), NULL);

    if (rule->condition)
        words = apr_pstrcat(pool, words, " ", redirect_rule_conditions(rule, pool), NULL);
    return *words ? words + 1 : words;
}
