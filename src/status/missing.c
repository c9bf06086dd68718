/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * ?redirects=missing: pages that were asked for and not found, and that no redirect answers, most
 * requests first. Called by the handler in status/status.c.
 */
#include "redirects/redirects.h"
#include "status/status.h"

typedef struct page {
    char text[REDIRECT_MISSING_TEXT + 1]; /* host and path */
    redirect_count count;
} page;

static int by_hits(const void *a_, const void *b_)
{
    const page *a = a_, *b = b_;

    if (a->count.hits != b->count.hits)
        return a->count.hits < b->count.hits ? 1 : -1;
    return strcmp(a->text, b->text);
}

static bool wanted(const htc_redirect_query *query, const page *page)
{
    return strchr(page->text, '/') && (!query->since || page->count.last >= query->since) &&
           (!query->search || htc_text_has(page->text, strlen(page->text), query->search));
}

/* All that are asked for; their number. */
static uint32_t collect(const redirect_missing *missing, const htc_redirect_query *query,
                        page *pages)
{
    uint32_t n = 0;

    for (uint32_t i = 0; missing && i < REDIRECT_MISSING_ENTRIES; i++) {
        if (redirect_missing_get(missing, i, pages[n].text, &pages[n].count) &&
            wanted(query, &pages[n]))
            n++;
    }
    qsort(pages, n, sizeof(*pages), by_hits);
    return n;
}

static htc_list *make_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"hits", "Requests", HTC_COUNTER, HTC_UNIT_ONE, "requests for it that were not found"},
        {"last_hit_at", "Last request", HTC_TIME, HTC_UNIT_ONE, "when it was asked for last"},
        {"host", "Host", HTC_TEXT, HTC_UNIT_ONE, "the host that was asked"},
        {"path", "Path", HTC_TEXT, HTC_UNIT_ONE,
         "the path as the client wrote it, without a query"},
    };

    return htc_report_list(report, NULL, "pages", "Pages that were not found",
                           "and that no redirect answers", 0, columns,
                           (int)(sizeof(columns) / sizeof(columns[0])));
}

static void add_page(htc_list *list, const page *page)
{
    apr_pool_t *pool = list->report->pool;
    const char *path = strchr(page->text, '/');

    htc_cell_number(list, page->count.hits);
    htc_cell_number(list, page->count.last > 0 ? (uint64_t)page->count.last : 0);
    htc_cell_text(list, apr_pstrmemdup(pool, page->text, (apr_size_t)(path - page->text)));
    htc_cell_text(list, apr_pstrdup(pool, path));
}

void htc_missing_report(htc_report *report, const htc_redirect_query *query)
{
    const redirect_missing *missing = htc_missing_of(report->server);
    htc_group *group = htc_report_group(report, "missing", "Pages that were not found",
                                        "candidates for a redirect");
    htc_list *list = make_list(report);
    page *pages = apr_palloc(report->pool, REDIRECT_MISSING_ENTRIES * sizeof(*pages));
    uint32_t total = collect(missing, query, pages);

    for (uint64_t i = query->offset; i < total && i - query->offset < query->limit; i++)
        add_page(list, &pages[i]);
    htc_add_time(group, "counting_since", missing ? redirect_missing_since(missing) : 0,
                 "requests count from then on; none: HtCacheMissing is Off");
    htc_add_time(group, "since", query->since, "only pages that were asked for since then");
    htc_add_text(group, "search", query->search, "text that each of them has");
    htc_add_gauge(group, "offset", HTC_UNIT_ONE, query->offset,
                  "position of the first row in this answer");
    htc_add_gauge(group, "limit", HTC_UNIT_ONE, query->limit, "most rows in this answer");
    htc_add_gauge(group, "total", HTC_UNIT_ONE, total, "number of rows in the whole list");
    htc_add_gauge(group, "places", HTC_UNIT_ONE, REDIRECT_MISSING_ENTRIES,
                  "most pages that are counted at a time");
}
