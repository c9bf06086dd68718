/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * How each directory is kept fresh: how many there are of each kind, the first of those of which
 * the kernel does not tell, with the reason, and for ?directories=freshness all of them, page by
 * page. Called by htc_report_make() and by the handler in status/status.c.
 */
#include "status/status.h"
#include "htaccess/htaccess.h"

/* Records that a refresh of the page examines for its list. A watched record costs some
 * nanoseconds, any other a microsecond. */
#define MOST_LOOKS 20000

typedef struct marks {
    int64_t fresh;
    uint64_t watched, unverified, time, polled[HTC_WATCH_WHYS];
} marks;

/* By the marks alone: no record is read. */
static bool count_mark(void *baton, int64_t checked_at)
{
    marks *m = baton;

    if (checked_at == m->fresh)
        m->watched++;
    else if (htc_mark_is_polled(checked_at))
        m->polled[htc_mark_why(checked_at)]++;
    else if (htc_mark_is_unverified(checked_at) || checked_at >= HTC_MARK_WATCHED)
        m->unverified++;
    else
        m->time++;
    return false;
}

static void add_totals(htc_report *report, htc_group *group)
{
    marks m = {0};
    uint32_t place = 0;

    if (report->store) {
        m.fresh = htc_watch_fresh(report->ctx->watch);
        htc_store_some(report->store, &place, UINT32_MAX, count_mark, NULL, &m);
    }
    htc_add_gauge(group, "watched", HTC_UNIT_ONE, m.watched,
                  "records whose changes the kernel reports");
    htc_add_gauge(group, "unverified", HTC_UNIT_ONE, m.unverified,
                  "records that the next request compares with the disk");
    htc_add_gauge(group, "setting", HTC_UNIT_ONE, m.time,
                  "records that are compared now and then, or always, as HtCacheRevalidate says");
    htc_add_gauge(group, "file_system", HTC_UNIT_ONE, m.polled[HTC_WATCH_FILESYSTEM],
                  "records compared each second: on a file system that may not report all changes");
    htc_add_gauge(group, "limit", HTC_UNIT_ONE, m.polled[HTC_WATCH_KERNEL],
                  "records compared on each request: the kernel gave no more watches");
    htc_add_gauge(group, "room", HTC_UNIT_ONE, m.polled[HTC_WATCH_FULL],
                  "records compared on each request: the table of what is watched was full");
    htc_add_gauge(group, "permission", HTC_UNIT_ONE, m.polled[HTC_WATCH_DENIED],
                  "records compared on each request: a directory on the way could not be read");
    htc_add_gauge(group, "path", HTC_UNIT_ONE, m.polled[HTC_WATCH_PATH],
                  "records compared on each request: too deep, or links that cannot be followed");
    htc_add_gauge(group, "silent", HTC_UNIT_ONE, m.polled[HTC_WATCH_SILENT],
                  "records compared on each request: their directory ignores the case of letters, "
                  "or the file of an overlay has several names");
    htc_add_gauge(group, "farm", HTC_UNIT_ONE, m.polled[HTC_WATCH_OK] + m.polled[HTC_WATCH_AGAIN],
                  "records known from another server and not compared here so far");
}

static htc_list *make_list(htc_report *report, htc_group *group, const char *title,
                           const char *help)
{
    static const htc_column columns[] = {
        {"path", "File", HTC_TEXT, HTC_UNIT_ONE, "its name"},
        {"mode", "Kept fresh", HTC_TEXT, HTC_UNIT_ONE, "how a change of it is noticed"},
        {"reason", "Reason", HTC_TEXT, HTC_UNIT_ONE,
         "why the kernel does not report it, in a word"},
        {"why", "Why", HTC_TEXT, HTC_UNIT_ONE, "the same in a sentence"},
        {"interval_ms", "Every", HTC_GAUGE, HTC_UNIT_MS, "time between two comparisons"},
        {"age_ms", "Age", HTC_GAUGE, HTC_UNIT_MS,
         "since it was last compared, or became unverified"},
    };

    return htc_report_list(report, group, "listed", title, help, 0, columns,
                           (int)(sizeof(columns) / sizeof(columns[0])));
}

static void add_entry(htc_list *list, const htc_fresh_entry *entry)
{
    const char *reason = htc_fresh_reason_name(entry->reason);

    htc_cell_text(list, entry->file);
    htc_cell_text(list, htc_fresh_mode_name(entry->mode));
    htc_cell_text(list, *reason ? reason : NULL);
    htc_cell_text(list, htc_fresh_reason_text(entry->reason));
    htc_cell_number(list,
                    entry->mode == HTC_FRESH_INTERVAL ? (uint64_t)entry->interval_ms : HTC_UNKNOWN);
    htc_cell_number(list, entry->age_ms < 0 ? HTC_UNKNOWN : (uint64_t)entry->age_ms);
}

/* Returns where to go on. */
static uint32_t add_entries(htc_list *list, htc_fresh_query query, size_t limit)
{
    htc_report *report = list->report;
    htc_fresh_entry *entries = apr_palloc(report->pool, limit * sizeof(*entries));
    size_t n = htc_fresh_list(report->ctx, &query, entries, limit, report->pool);

    for (size_t i = 0; i < n; i++)
        add_entry(list, &entries[i]);
    return query.place;
}

void htc_freshness_report(htc_report *report)
{
    htc_group *group = htc_report_group(
        report, "freshness", "How directories are kept fresh",
        "whether the kernel reports changes or records are compared with the disk, and why");
    htc_list *list =
        make_list(report, group, "Directories that are compared with the disk",
                  "the first for which the kernel reports no changes, with the reason");
    const htc_fresh_query query = {.modes = 1U << HTC_FRESH_INTERVAL | 1U << HTC_FRESH_STAT,
                                   .looks = MOST_LOOKS};

    add_totals(report, group);
    htc_fresh_report_trees(report, group);
    if (report->store && report->lists)
        add_entries(list, query, HTC_LISTED_FILES);
}

void htc_freshness_list(htc_report *report, uint32_t limit, uint32_t place)
{
    htc_group *group = htc_report_group(
        report, "freshness", "How directories are kept fresh",
        "whether the kernel reports changes or records are compared with the disk, and why");
    htc_list *list = make_list(report, group, "All directories", "in no order");
    uint32_t next = HTC_FRESH_END;

    add_totals(report, group);
    if (report->store)
        next = add_entries(list, (htc_fresh_query){.place = place}, limit);
    htc_add_gauge(group, "next", HTC_UNIT_ONE, next == HTC_FRESH_END ? HTC_UNKNOWN : next,
                  "offset of the next page; none: this is the last");
}
