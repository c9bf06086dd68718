/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the status page says of the heap and of the builder. Called by status/parts.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#define MOST_REFUSED 200

typedef struct refused_rows {
    htc_list *list;
    apr_pool_t *pool;
} refused_rows;

static bool add_refused(void *baton, const void *object, size_t bytes)
{
    const refused_rows *rows = baton;
    const htc_config *config = object;

    (void)bytes;
    htc_cell_text(rows->list, apr_pstrdup(rows->pool, config->path));
    htc_cell_text(rows->list, apr_pstrdup(rows->pool, config->reason));
    return htc_list_rows(rows->list) < MOST_REFUSED;
}

static void report_refused(htc_report *report, htc_group *group)
{
    static const htc_column columns[] = {
        {"path", "File", HTC_TEXT, HTC_UNIT_ONE, "the .htaccess file"},
        {"reason", "Why", HTC_TEXT, HTC_UNIT_ONE, "why its configuration is not shared"},
    };
    refused_rows rows = {.pool = report->pool};

    rows.list = htc_report_list(report, group, "refused_files", "Not shared",
                                "files whose directives each request runs itself, and why",
                                HTC_LIST_FOLDED, columns, 2);
    if (report->ctx && report->ctx->heap && report->lists)
        htc_heap_each(report->ctx->heap, HTC_HEAP_REFUSED, add_refused, &rows);
}

void htc_heap_report(htc_report *report)
{
    htc_group *group =
        htc_report_group(report, "shared", "Shared configurations",
                         "what httpd made of .htaccess files, once for all processes");
    htc_heap_stats stats = {0};

    if (report->ctx && report->ctx->heap)
        htc_heap_stats_get(report->ctx->heap, &stats);
    htc_add_gauge(group, "configurations", HTC_UNIT_ONE, stats.objects[HTC_HEAP_CONFIG],
                  "files whose configuration is shared");
    htc_add_gauge(group, "configurations_bytes", HTC_UNIT_BYTES, stats.bytes[HTC_HEAP_CONFIG],
                  "memory that these take");
    htc_add_gauge(group, "contents", HTC_UNIT_ONE, stats.objects[HTC_HEAP_CONTENT],
                  "texts that several of these files have, kept once");
    htc_add_gauge(group, "contents_bytes", HTC_UNIT_BYTES, stats.bytes[HTC_HEAP_CONTENT],
                  "memory that these take");
    htc_add_gauge(group, "directories", HTC_UNIT_ONE, stats.objects[HTC_HEAP_PATH_ENTRY],
                  "directories with a ready-made result");
    htc_add_gauge(group, "directories_bytes", HTC_UNIT_BYTES, stats.bytes[HTC_HEAP_PATH_ENTRY],
                  "memory that these take");
    htc_add_gauge(group, "refused", HTC_UNIT_ONE, stats.objects[HTC_HEAP_REFUSED],
                  "files whose configuration cannot be shared");
    htc_add_gauge(group, "bytes_used", HTC_UNIT_BYTES, stats.bytes_used, "memory in use");
    htc_add_gauge(group, "bytes_total", HTC_UNIT_BYTES, stats.bytes_total,
                  "memory in all; the system gives it as it is used");
    htc_add_counter(group, "builds", HTC_UNIT_ONE, stats.builds,
                    "configurations and directories that the builder made");
    htc_add_counter(group, "refusals", HTC_UNIT_ONE, stats.refusals,
                    "times that it found that a configuration cannot be shared");
    htc_add_counter(group, "evictions", HTC_UNIT_ONE, stats.evictions,
                    "times that something made way for something else");
    htc_add_counter(group, "no_room", HTC_UNIT_ONE, stats.no_room,
                    "times that nothing could make way");
    htc_add_gauge(group, "waiting", HTC_UNIT_ONE, stats.waiting,
                  "directories that the builder was asked for and has not come to yet");
    htc_add_gauge(group, "builder", HTC_UNIT_ONE, (uint64_t)stats.builder,
                  "process number of the builder");
    htc_add_counter(group, "builders", HTC_UNIT_ONE, stats.builders,
                    "builders that have begun, the first one included");
    htc_add_counter(group, "condemned", HTC_UNIT_ONE, stats.condemned,
                    "files during whose build a builder ended, which are not tried again");
    htc_add_gauge(group, "processes", HTC_UNIT_ONE, stats.processes,
                  "processes that use what is shared");
    report_refused(report, group);
}
