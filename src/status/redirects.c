/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * ?redirects=top and ?redirects=unused: single redirects and how often they answered. There may be
 * a million, so they are gone through twice: once to find which belong on the page that was asked
 * for, remembering a few words of each, once for the text of those. Called by the handler in
 * status/status.c.
 */
#include "redirects/redirects.h"
#include "status/status.h"

/* What the order depends on. */
typedef struct entry {
    uint64_t hits, key;
    uint32_t number; /* in the order in which they stand */
} entry;

typedef struct walk {
    const htc_redirect_query *query;
    entry *entries; /* of malloc: this may be much, and there is no need to keep it */
    size_t n, room;
    uint32_t number;
    uint64_t total, skipped;
    bool failed;
    const entry *next, *end; /* second time: those to be shown, by number */
    htc_list *list;
} walk;

bool htc_text_has(const char *text, size_t len, const char *part)
{
    size_t part_len = strlen(part);

    for (size_t i = 0; text && i + part_len <= len; i++) {
        size_t n = 0;

        while (n < part_len && apr_tolower(text[i + n]) == apr_tolower(part[n]))
            n++;
        if (n == part_len)
            return true;
    }
    return false;
}

/* In what is shown of it. */
static bool is_found(const char *search, const htc_redirect_row *row)
{
    const redirect_rule *rule = &row->rule;

    return htc_text_has(rule->pattern ? rule->pattern : rule->source,
                        rule->pattern ? rule->pattern_len : rule->source_len, search) ||
           htc_text_has(rule->host, rule->host_len, search) ||
           htc_text_has(rule->query, rule->query_len, search) ||
           htc_text_has(rule->target, rule->target_len, search) ||
           htc_text_has(row->file, strlen(row->file), search);
}

static bool wanted(const htc_redirect_query *query, const htc_redirect_row *row)
{
    const redirect_count *count = &row->count;
    bool used = count->hits > 0 && (!query->since || count->last >= query->since);

    return used == query->used && (!query->search || is_found(query->search, row));
}

static bool keep(walk *w, const htc_redirect_row *row)
{
    if (w->n == w->room) {
        size_t room = w->room ? 2 * w->room : 1024;
        entry *grown = realloc(w->entries, room * sizeof(*grown));

        if (!grown)
            return false;
        w->entries = grown;
        w->room = room;
    }
    w->entries[w->n++] = (entry){row->count.hits, row->key, w->number};
    return true;
}

/* Those that never answered are shown as they stand, so only the page's own need to be kept. */
static bool first_time(void *baton, const htc_redirect_row *row)
{
    walk *w = baton;

    if (wanted(w->query, row)) {
        bool shown = w->query->used || (w->total >= w->query->offset && w->n < w->query->limit);

        w->total++;
        if (shown && !keep(w, row)) {
            w->failed = true;
            return false;
        }
    }
    w->number++;
    return true;
}

static const char *copy(const htc_list *list, const char *text, size_t len)
{
    return text ? apr_pstrmemdup(list->report->pool, text, len) : NULL;
}

/* The row's cells in the list, but for its place in it. */
static void add_row(htc_list *list, const htc_redirect_row *row)
{
    const redirect_rule *rule = &row->rule;
    const char *source = rule->pattern ? copy(list, rule->pattern, rule->pattern_len)
                                       : copy(list, rule->source, rule->source_len);

    if (rule->host)
        source =
            apr_pstrcat(list->report->pool, copy(list, rule->host, rule->host_len), source, NULL);
    if (rule->query)
        source = apr_pstrcat(list->report->pool, source, "?",
                             copy(list, rule->query, rule->query_len), NULL);
    htc_cell_number(list, row->count.hits);
    htc_cell_number(list, row->count.last > 0 ? (uint64_t)row->count.last : 0);
    htc_cell_text(list, apr_pstrdup(list->report->pool, row->file));
    htc_cell_number(list, redirect_line_number(row->line));
    htc_cell_number(list, (row->line & REDIRECT_BY_ROW) != 0);
    htc_cell_number(list, row->edited);
    htc_cell_text(list, source ? source : "");
    htc_cell_text(list, copy(list, rule->target, rule->target_len));
    htc_cell_number(list, (uint64_t)rule->status);
}

/* A map may have been loaded anew between the two: what is no longer in its place is left out. */
static bool second_time(void *baton, const htc_redirect_row *row)
{
    walk *w = baton;

    if (w->next == w->end)
        return false;
    if (w->number++ == w->next->number) {
        if (row->key == w->next->key)
            add_row(w->list, row);
        w->next++;
    }
    return true;
}

static int by_hits(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;

    if (a->hits != b->hits)
        return a->hits < b->hits ? 1 : -1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_number(const void *a_, const void *b_)
{
    const entry *a = a_, *b = b_;

    return a->number < b->number ? -1 : a->number > b->number;
}

/* Rows were added as they stand; most hits come first again. */
static int rows_by_hits(const void *a_, const void *b_)
{
    const htc_value *a = a_, *b = b_;

    return a->number < b->number ? 1 : a->number > b->number ? -1 : 0;
}

/* The part of the list that was asked for. */
static void choose_page(walk *w)
{
    const htc_redirect_query *query = w->query;
    size_t from = 0;

    if (query->used && w->n) {
        qsort(w->entries, w->n, sizeof(*w->entries), by_hits);
        from = query->offset < w->n ? (size_t)query->offset : w->n;
    }
    w->next = w->entries + from;
    w->end = w->next + (w->n - from < query->limit ? w->n - from : query->limit);
    if (w->next)
        qsort(w->entries + from, (size_t)(w->end - w->next), sizeof(*w->entries), by_number);
}

static htc_list *make_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"hits", "Hits", HTC_COUNTER, HTC_UNIT_ONE, "requests that it answered"},
        {"last_hit_at", "Last hit", HTC_TIME, HTC_UNIT_ONE, "when it answered last"},
        {"file", "File", HTC_TEXT, HTC_UNIT_ONE, "the file that it stands in"},
        {"line", "Line", HTC_GAUGE, HTC_UNIT_ONE, "its line in that file"},
        {"by_row", "By row", HTC_FLAG, HTC_UNIT_ONE,
         "several rows stand in a line: that is the number of the row"},
        {"edited", "Edited", HTC_FLAG, HTC_UNIT_ONE,
         "a temporary edit of a map, which has no line in the file"},
        {"rule", "From", HTC_TEXT, HTC_UNIT_ONE, "path or pattern"},
        {"target", "To", HTC_TEXT, HTC_UNIT_ONE, "target as written"},
        {"status", "Status", HTC_GAUGE, HTC_UNIT_ONE, "status of its answer"},
    };

    return htc_report_list(report, NULL, "rows", "Redirects", "single redirects", 0, columns,
                           (int)(sizeof(columns) / sizeof(columns[0])));
}

static bool add_most(void *baton, const htc_redirect_row *row)
{
    add_row(baton, row);
    return true;
}

/* All rows that belong on the page that was asked for. Returns how many there are in all. */
static uint64_t find_rows(htc_report *report, htc_list *list, const htc_redirect_query *query,
                          bool *complete)
{
    walk w = {.query = query, .list = list};
    uint64_t total;

    htc_redirect_rows(report->server, report->pool, first_time, &w);
    total = w.total;
    *complete = !w.failed;
    choose_page(&w);
    w.number = 0;
    if (w.next != w.end)
        htc_redirect_rows(report->server, report->pool, second_time, &w);
    free(w.entries);
    if (query->used)
        qsort(list->cells->elts, (size_t)htc_list_rows(list),
              sizeof(htc_value) * (size_t)list->ncolumns, rows_by_hits);
    return total;
}

void htc_redirects_report(htc_report *report, const htc_redirect_query *query)
{
    htc_group *group = htc_report_group(report, "redirects", "Redirects one by one",
                                        "which redirects answer, and which do not");
    htc_list *list = make_list(report);
    htc_redirect_totals totals;
    bool complete = true;
    uint64_t total;

    if (query->quick) {
        htc_redirect_most(report->server, report->pool, query->limit, add_most, list, &totals);
        /* Those that there are: some may have answered that stand in no file any more. */
        total = totals.used + totals.htaccess;
        if ((uint64_t)htc_list_rows(list) < query->limit)
            total = (uint64_t)htc_list_rows(list);
    } else {
        total = find_rows(report, list, query, &complete);
    }
    htc_add_text(group, "order", query->used ? "top" : "unused", "which were asked for");
    htc_add_time(group, "counting_since", htc_redirect_counts_since(report->server),
                 "hits count from then on");
    htc_add_time(group, "since", query->since, "hits before that do not count");
    htc_add_text(group, "search", query->search, "text that each of them has");
    htc_add_gauge(group, "offset", HTC_UNIT_ONE, query->offset,
                  "position of the first redirect in this answer");
    htc_add_gauge(group, "limit", HTC_UNIT_ONE, query->limit, "most redirects in this answer");
    htc_add_gauge(group, "total", HTC_UNIT_ONE, total, "number of redirects in the whole list");
    htc_add_flag(group, "complete", complete, "false: there was no memory to look at all of them");
}
