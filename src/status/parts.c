/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the parts of the module report: the cache of .htaccess files, folded lines, redirect tables.
 * Called by htc_report_make(); the order of the list at the end is that of the page.
 */
#include "htaccess/htaccess.h"
#include "redirects/redirects.h"
#include "status/status.h"

#include "ap_mpm.h"

#define MAX_LISTED_FILES HTC_LISTED_FILES

#define COLUMNS(list)    (list), (int)(sizeof(list) / sizeof((list)[0]))

static uint64_t counter(const htc_report *report, enum htc_counter which)
{
    return report->store ? htc_counter_read(report->store, which) : 0;
}

/* --- the server -------------------------------------------------------------------------------*/

static int64_t counting_since(const htc_report *report)
{
    return report->store ? htc_counters_since(report->store)
                         : apr_time_sec(htc_options_get()->started_at);
}

static void report_server(htc_report *report)
{
    htc_group *group =
        htc_report_group(report, "server", "Server", "the httpd that these figures are from");
    int generation = 0;

    ap_mpm_query(AP_MPMQ_GENERATION, &generation);
    htc_add_text(group, "httpd", ap_get_server_description(),
                 "httpd's version, as ServerTokens lets it say");
    htc_add_text(group, "mpm", ap_show_mpm(), "its multi-processing module");
    htc_add_time(group, "now", apr_time_sec(report->now), "when these figures were taken");
    htc_add_time(group, "first_started_at", apr_time_sec(htc_options_get()->first_started_at),
                 "when httpd was started");
    htc_add_time(group, "started_at", apr_time_sec(htc_options_get()->started_at),
                 "when httpd was started or last restarted, gracefully or not");
    htc_add_time(group, "counting_since", counting_since(report),
                 "what these figures count: that restart, or the last reset");
    htc_add_time(group, "redirects_counting_since", htc_redirect_counts_since(report->server),
                 "hits of redirects count from then on");
    htc_add_gauge(group, "generation", HTC_UNIT_ONE, (uint64_t)generation,
                  "restarts since httpd was started");
}

/* --- the cache of .htaccess files -------------------------------------------------------------*/

static void add_ratios(htc_group *group)
{
    const htc_report *report = group->report;
    uint64_t lookups = counter(report, HTC_C_lookups);

    htc_add_ratio(group, "hit_ratio",
                  counter(report, HTC_C_hits) + counter(report, HTC_C_absent_hits) +
                      counter(report, HTC_C_replays),
                  lookups, "look-ups that opened, read and parsed no file, of all");
}

static void add_store_gauges(htc_group *group)
{
    htc_store_stats stats = {0};

    if (group->report->store)
        htc_store_stats_get(group->report->store, &stats);
    htc_add_gauge(group, "entries", HTC_UNIT_ONE, stats.entries, "records in shared memory");
    htc_add_gauge(group, "entries_absent", HTC_UNIT_ONE, stats.absent,
                  "records that say: there is no file");
    htc_add_gauge(group, "entries_parsed", HTC_UNIT_ONE, stats.trees,
                  "records that hold a parsed file");
    htc_add_gauge(group, "entries_stock", HTC_UNIT_ONE, stats.stock,
                  "records of files left to httpd");
    htc_add_gauge(group, "document_roots", HTC_UNIT_ONE, stats.owners,
                  "document roots that hold records");
    htc_add_gauge(group, "bytes_used", HTC_UNIT_BYTES, stats.bytes_used, "shared memory in use");
    htc_add_gauge(group, "bytes_total", HTC_UNIT_BYTES, stats.bytes_total, "shared memory in all");
}

static void report_htaccess(htc_report *report)
{
    htc_group *group = htc_report_group(report, "htaccess", "Cache of .htaccess files",
                                        "what was asked of the cache, and what it holds");

    htc_add_counters(group);
    add_ratios(group);
    add_store_gauges(group);
}

/* --- folded lines -----------------------------------------------------------------------------*/

#define FOLD_COLUMNS                                                                               \
    {"redirects_seen", "Redirect", HTC_GAUGE, HTC_UNIT_ONE, "Redirect lines"},                     \
        {"redirects_folded", "in a table", HTC_GAUGE, HTC_UNIT_ONE, "of these: part of a table"},  \
        {"rewrite_rules_seen", "RewriteRule", HTC_GAUGE, HTC_UNIT_ONE, "RewriteRule lines"},       \
    {                                                                                              \
        "rewrite_rules_folded", "in a table", HTC_GAUGE, HTC_UNIT_ONE, "of these: part of a table" \
    }

static void fold_cells(htc_list *list, const htc_fold_counts *counts)
{
    htc_cell_number(list, counts->redirects_seen);
    htc_cell_number(list, counts->redirects_folded);
    htc_cell_number(list, counts->rewrite_rules_seen);
    htc_cell_number(list, counts->rewrite_rules_folded);
}

static void report_fold_hosts(htc_report *report, htc_group *group)
{
    static const htc_column columns[] = {
        {"name", "Host", HTC_TEXT, HTC_UNIT_ONE, "its ServerName, or its address"},
        {"where", "Where", HTC_TEXT, HTC_UNIT_ONE, "file and line of the <VirtualHost>"},
        FOLD_COLUMNS};
    const apr_array_header_t *hosts = htc_options_get()->hosts;
    htc_list *list = htc_report_list(report, group, "hosts", "Lines of each host",
                                     "virtual hosts that have such lines, sections included",
                                     HTC_LIST_FOLDED, COLUMNS(columns));

    for (int i = 0; hosts && i < hosts->nelts && htc_list_rows(list) < MAX_LISTED_FILES; i++) {
        const htc_fold_host *host = APR_ARRAY_IDX(hosts, i, htc_fold_host *);

        if (!host->counts.redirects_seen && !host->counts.rewrite_rules_seen)
            continue;
        htc_cell_text(list, host->name);
        htc_cell_text(list, host->where);
        fold_cells(list, &host->counts);
    }
}

/* Records are read anew for each refresh of the page, up to this number of bytes; when less
 * than the least is left, the list ends. */
#define FOLD_FILES_BYTES (4U << 20)
#define FOLD_FILES_LEAST 1024

typedef struct fold_files {
    htc_list *list;
    uint32_t bytes; /* left */
} fold_files;

/* The lines of one file, counted in its record. */
static bool add_fold_file(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    fold_files *files = baton;
    htc_list *list = files->list;
    apr_pool_t *pool;
    htc_fold_counts counts = {0};
    char *record;
    size_t len;

    if (info->payload_len > files->bytes)
        return true;
    files->bytes -= info->payload_len;
    apr_pool_create(&pool, list->report->pool);
    if (htc_store_copy(list->report->store, info->ref, pool, &record, &len) == APR_SUCCESS &&
        htc_record_validate(record, len) == APR_SUCCESS)
        htc_fold_count_tree(htc_tree_decode(record, "", pool), info->flags & HTC_RF_REPLAY, pool,
                            &counts);
    apr_pool_destroy(pool);
    if (counts.redirects_seen || counts.rewrite_rules_seen) {
        htc_cell_text(list, apr_pstrmemdup(list->report->pool, key, key_len));
        fold_cells(list, &counts);
    }
    return htc_list_rows(list) < MAX_LISTED_FILES && files->bytes >= FOLD_FILES_LEAST;
}

static void report_fold_files(htc_report *report, htc_group *group)
{
    static const htc_column columns[] = {{"path", "File", HTC_TEXT, HTC_UNIT_ONE, "its name"},
                                         FOLD_COLUMNS};
    static const htc_selection with_lines = {.kind = HTC_KIND_TREE, .flags = HTC_RF_REDIRECTS};
    htc_list *list = htc_report_list(report, group, "files", "Lines of each .htaccess file",
                                     "the first of those in the cache that have such lines",
                                     HTC_LIST_FOLDED, COLUMNS(columns));
    fold_files files = {.list = list, .bytes = FOLD_FILES_BYTES};

    if (report->store && report->lists)
        htc_store_each_of(report->store, &with_lines, add_fold_file, &files);
    htc_add_gauge(group, "htaccess_files", HTC_UNIT_ONE,
                  report->store ? htc_store_count_of(report->store, &with_lines) : 0,
                  ".htaccess files in the cache that have such lines");
}

/* Lines of the server's configuration and of .htaccess files together. */
static void report_fold(htc_report *report)
{
    const htc_fold_counts *own = &htc_options_get()->counts;
    htc_group *group =
        htc_report_group(report, "fold", "Redirect lines as tables",
                         "lines of the configuration, and of .htaccess files as they are parsed");

    htc_add_counter(group, "redirects_seen", HTC_UNIT_ONE,
                    own->redirects_seen + counter(report, HTC_C_redirects_seen),
                    "Redirect lines read");
    htc_add_counter(group, "redirects_folded", HTC_UNIT_ONE,
                    own->redirects_folded + counter(report, HTC_C_redirects_folded),
                    "those that became part of a table");
    htc_add_counter(group, "rewrite_rules_seen", HTC_UNIT_ONE,
                    own->rewrite_rules_seen + counter(report, HTC_C_rewrite_rules_seen),
                    "RewriteRule lines read");
    htc_add_counter(group, "rewrite_rules_folded", HTC_UNIT_ONE,
                    own->rewrite_rules_folded + counter(report, HTC_C_rewrite_rules_folded),
                    "those that became part of a table");
    report_fold_hosts(report, group);
    report_fold_files(report, group);
}

/* --- redirect tables --------------------------------------------------------------------------*/

static const htc_column table_columns[] = {
    {"name", "File", HTC_TEXT, HTC_UNIT_ONE, "the map's file"},
    {"source", "Named in", HTC_TEXT, HTC_UNIT_ONE, "file and line of its HtCacheRedirectMap"},
    {"rules", "Rows", HTC_GAUGE, HTC_UNIT_ONE, "rows of the table in use"},
    {"exact", "Exact", HTC_GAUGE, HTC_UNIT_ONE, "of these: the whole path is compared"},
    {"prefix", "Prefix", HTC_GAUGE, HTC_UNIT_ONE, "of these: the path begins with it"},
    {"pattern", "Pattern", HTC_GAUGE, HTC_UNIT_ONE, "of these: a regular expression decides"},
    {"bytes", "Memory", HTC_GAUGE, HTC_UNIT_BYTES, "shared memory of the table"},
    {"loaded_at", "Loaded", HTC_TIME, HTC_UNIT_ONE, "when the table in use was loaded"},
    {"lookups", "Look-ups", HTC_COUNTER, HTC_UNIT_ONE, "requests that asked it"},
    {"hits", "Hits", HTC_COUNTER, HTC_UNIT_ONE, "requests that it answered"},
    {"reloads", "Reloads", HTC_COUNTER, HTC_UNIT_ONE, "times a changed file was loaded"},
    {"failures", "Failures", HTC_COUNTER, HTC_UNIT_ONE, "times a file could not be loaded"},
    {"failed", "Bad now", HTC_FLAG, HTC_UNIT_ONE,
     "the file as it is now cannot be used, see the error log"},
    {"load_ms", "Load time", HTC_GAUGE, HTC_UNIT_MS,
     "from opening the file until the table was in use and checked"},
    {"from_image", "From its image", HTC_FLAG, HTC_UNIT_ONE,
     "the table in use was kept by an earlier start, and the text was not read"},
    {"reading_ratio", "Being read", HTC_RATIO, HTC_UNIT_ONE,
     "how much of a changed file has been read; 0 while none is"},
    {"at_once", "At once", HTC_FLAG, HTC_UNIT_ONE,
     "the request that notices an edit reads it, as that takes less than 50 ms; else the rows "
     "before go on answering until the new ones are read"},
    {"refused", "Left out", HTC_GAUGE, HTC_UNIT_ONE, "rows of the file that could not be used"},
    {"warnings", "Warnings", HTC_GAUGE, HTC_UNIT_ONE, "about the rows in use"},
    {"edited", "Edited", HTC_GAUGE, HTC_UNIT_ONE,
     "rows that differ from the file, until it is loaded: temporary edits"},
    {"edited_since", "Edited since", HTC_TIME, HTC_UNIT_ONE, "the first of these edits"},
    {"error", "Error", HTC_TEXT, HTC_UNIT_ONE, "why the file as it is now cannot be used"},
};

static void report_tables(htc_report *report)
{
    apr_array_header_t *maps = htc_map_reports(report->server, report->pool);
    htc_list *list = htc_report_list(report, NULL, "redirect_tables", "Redirect maps",
                                     "files named by HtCacheRedirectMap", HTC_LIST_METRICS,
                                     COLUMNS(table_columns));

    for (int i = 0; maps && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);

        htc_cell_text(list, map->name);
        htc_cell_text(list, map->source);
        htc_cell_number(list, map->info.rules);
        htc_cell_number(list, map->info.exact);
        htc_cell_number(list, map->info.prefix);
        htc_cell_number(list, map->info.pattern);
        htc_cell_number(list, map->state.size);
        htc_cell_number(list, map->state.loaded_at > 0 ? (uint64_t)map->state.loaded_at : 0);
        htc_cell_number(list, map->state.lookups);
        htc_cell_number(list, map->state.hits);
        htc_cell_number(list, map->state.reloads);
        htc_cell_number(list, map->state.failures);
        htc_cell_number(list, map->state.failed);
        htc_cell_number(list, map->note.load_ms);
        htc_cell_number(list, map->note.from_image);
        htc_cell_ratio(list, map->state.percent, 100);
        htc_cell_number(list, htc_map_is_quick(&map->state, &map->note, map->state.id.size));
        htc_cell_number(list, map->note.refused);
        htc_cell_number(list, map->note.warnings);
        htc_cell_number(list, map->edited);
        htc_cell_number(list, map->edited_since);
        htc_cell_text(list, map->state.failed && *map->note.error ? map->note.error : NULL);
    }
}

static void report_table_memory(htc_report *report)
{
    redirect_area_stats stats = htc_map_area_stats(report->server);
    htc_group *group =
        htc_report_group(report, "redirect_memory", "Memory of redirect maps",
                         "shared by tables and counters of redirects, and what tenants have of it");

    htc_add_gauge(group, "bytes_used", HTC_UNIT_BYTES, stats.bytes_used,
                  "tables and counters, including old tables that requests still use");
    htc_add_gauge(group, "bytes_total", HTC_UNIT_BYTES, stats.bytes_reserved,
                  "limit of that memory, which is taken as it is used");
    htc_add_gauge(group, "htaccess_maps", HTC_UNIT_ONE, stats.owners_maps,
                  "maps of .htaccess files that were asked for");
    htc_add_gauge(group, "htaccess_maps_most", HTC_UNIT_ONE, stats.owners_maps_most,
                  "limit of their number");
    htc_add_gauge(group, "htaccess_bytes", HTC_UNIT_BYTES, stats.owners_bytes,
                  "their part of the memory");
    htc_add_gauge(group, "htaccess_most_bytes", HTC_UNIT_BYTES, stats.owners_most,
                  "limit of their part");
    htc_add_counter(
        group, "evictions", HTC_UNIT_ONE, stats.evicted,
        "times one of them was removed to make room for another map, since httpd was started");
}

/* --- all --------------------------------------------------------------------------------------*/

/* clang-format off: one for each line */
htc_reporter *const htc_reporters[] = {report_server,   htc_saved_report,    htc_recent_report,
                                       report_htaccess, htc_costs_report,    htc_files_report,
                                       htc_heap_report, htc_fresh_report,    htc_freshness_report,
                                       report_fold,     report_tables,       report_table_memory,
                                       htc_farm_report, htc_problems_report, NULL};
/* clang-format on */
