/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Single .htaccess files: those that cost most, those that are left to httpd, and those whose
 * directives are run for each request, each with the reason and what to do about it. Called by
 * htc_report_make(), and for ?directories=cost by the handler in status/status.c.
 */
#include "status/status.h"
#include "htaccess/htaccess.h"

#define COLUMNS(list) (list), (int)(sizeof(list) / sizeof((list)[0]))

/* --- why --------------------------------------------------------------------------------------*/

/* The first directive that keeps what was parsed from being shared: "line 3: ...". One that httpd
 * does not know comes ahead of others, as it ends the request; *unknown says so. NULL: none does
 * now. */
static const char *replay_reason(const htc_report *report, const char *record, bool *unknown,
                                 apr_pool_t *pool)
{
    const char *first = NULL;
    htc_directive directive;
    size_t offset = 0;

    while (htc_record_next(record, &offset, &directive)) {
        const char *reason = htc_command_replayed(report->ctx, &directive, pool);

        *unknown = reason && !htc_command_find(report->ctx, directive.name);
        if (*unknown)
            return reason;
        if (!first)
            first = reason;
    }
    return first;
}

/* Why the file of this record is not kept; NULL: it is, or it is not known. *unknown: for a
 * directive that httpd does not know. */
static const char *reason_of(const htc_report *report, const htc_info *info, bool *unknown)
{
    const char *reason = NULL;
    apr_pool_t *pool;
    char *bytes;
    size_t len;

    *unknown = false;
    if (info->kind != HTC_KIND_STOCK &&
        (info->kind != HTC_KIND_TREE || !(info->flags & HTC_RF_REPLAY)))
        return NULL;
    apr_pool_create(&pool, report->pool);
    if (htc_store_copy(report->store, info->ref, pool, &bytes, &len) == APR_SUCCESS) {
        if (info->kind == HTC_KIND_STOCK)
            reason = bytes;
        else if (htc_record_validate(bytes, len) == APR_SUCCESS)
            reason = replay_reason(report, bytes, unknown, pool);
    }
    reason = reason ? apr_pstrdup(report->pool, reason) : NULL;
    apr_pool_destroy(pool);
    return reason;
}

/* --- what costs most --------------------------------------------------------------------------*/

static const char *record_name(const htc_info *info)
{
    switch (info->kind) {
    case HTC_KIND_ABSENT:
        return "absent";
    case HTC_KIND_TREE:
        return info->flags & HTC_RF_REPLAY ? "replayed" : "parsed";
    case HTC_KIND_STOCK:
        return "stock";
    default:
        return "none";
    }
}

/* The setting of the virtual host that the page is in. */
static htc_fresh_entry fresh_entry_of(const htc_report *report, const char *path,
                                      const htc_info *info)
{
    const char *slash = strrchr(path, '/');
    htc_fresh_entry entry = {.mode = HTC_FRESH_STAT};

    htc_fresh_judge(report->ctx, report->server,
                    apr_pstrmemdup(report->pool, path, slash ? (size_t)(slash - path) + 1 : 0),
                    info, &entry);
    return entry;
}

/* What most of its time went to. */
static htc_cost_kind dearest_kind(const htc_cost *cost)
{
    const uint32_t *n = cost->counts;

    if (n[HTC_COST_STOCK] > 1)
        return HTC_COST_STOCK;
    if (n[HTC_COST_REPLAYS] > n[HTC_COST_PARSES] && n[HTC_COST_REPLAYS] > n[HTC_COST_READS])
        return HTC_COST_REPLAYS;
    if (n[HTC_COST_CHECKS] > 10 && n[HTC_COST_CHECKS] > n[HTC_COST_READS])
        return HTC_COST_CHECKS;
    if (n[HTC_COST_LOADS] > 10 && n[HTC_COST_LOADS] > n[HTC_COST_PARSES])
        return HTC_COST_LOADS;
    return n[HTC_COST_READS] > 2 ? HTC_COST_READS : HTC_COST_PARSES;
}

static uint64_t counter_of(const htc_report *report, enum htc_counter which)
{
    return report->store ? htc_counter_read(report->store, which) : 0;
}

/* Why it is looked at, and what to do. *asks: somebody should do it. */
static const char *advice_of_checks(const htc_report *report, const htc_fresh_entry *fresh,
                                    bool *asks)
{
    switch (fresh->reason) {
    case HTC_FRESH_SETTING:
        *asks = true;
        return "HtCacheRevalidate says to compare it: auto, or a longer time, asks less often";
    case HTC_FRESH_NO_REASON:
        return "nothing: the kernel reports changes, and it is compared every ten seconds all the "
               "same";
    case HTC_FRESH_YOUNG:
    case HTC_FRESH_UNVERIFIED:
    case HTC_FRESH_BY_FARM:
        return "it changes often, or is asked for seldom: nothing to do";
    case HTC_FRESH_BY_FILESYSTEM:
        return "nothing: it lies on a file system that is not known to report all changes, so it "
               "is "
               "compared each second. HtCacheRevalidate with a longer time asks less often";
    default:
        *asks = true;
        return apr_psprintf(report->pool, "compared %s: %s",
                            fresh->mode == HTC_FRESH_INTERVAL ? "each second" : "on each request",
                            htc_fresh_reason_text(fresh->reason));
    }
}

#define UNKNOWN_ADVICE                                                                     \
    "each request for the directory is answered with error 500, unless AllowOverride has " \
    "Nonfatal=Unknown: correct the line named as the reason, or load its module (a2enmod)"

/* What to do about it. *asks: somebody should do it. */
static const char *advice_of(const htc_report *report, const htc_cost *cost,
                             const htc_fresh_entry *fresh, bool *asks)
{
    const htc_cost_kind kind = dearest_kind(cost);

    *asks = kind == HTC_COST_STOCK || kind == HTC_COST_REPLAYS || kind == HTC_COST_LOADS ||
            (kind == HTC_COST_READS && counter_of(report, HTC_C_evictions));
    switch (kind) {
    case HTC_COST_STOCK:
        return "httpd reads it for each request: move the line named as the reason into the "
               "server's configuration";
    case HTC_COST_REPLAYS:
        return "its directives are run for each request: move the one named as the reason into "
               "the server's configuration, or to a .htaccess file where few requests pass";
    case HTC_COST_CHECKS:
        return advice_of_checks(report, fresh, asks);
    case HTC_COST_READS:
        return "it is read again and again: it changes often, or its record is evicted (see "
               "evictions)";
    case HTC_COST_LOADS:
        return "what it comes to is not shared, or has to make way: see refused_files, or raise "
               "HtCacheMemory";
    default:
        return "nothing: this is paid once";
    }
}

static void add_cost(htc_list *list, const htc_cost *cost)
{
    const htc_report *report = list->report;
    htc_info info = {.kind = HTC_KIND_NONE};
    const char *name = htc_store_name(report->store, cost->key, report->pool, &info);
    const char *advice;
    htc_fresh_entry fresh;
    bool asks, unknown;

    if (!name)
        return;
    fresh = fresh_entry_of(report, name, &info);
    htc_cell_text(list, name);
    htc_cell_number(list, htc_cost_weight(cost) / 1000);
    htc_cell_text(list, reason_of(report, &info, &unknown));
    advice = advice_of(report, cost, &fresh, &asks);
    if (unknown) {
        /* Moved into the server's configuration, it would keep httpd from starting. */
        advice = UNKNOWN_ADVICE;
        asks = true;
    }
    htc_cell_text(list, advice);
    for (int i = 0; i < HTC_COST_KINDS; i++)
        htc_cell_number(list, cost->counts[i]);
    htc_cell_number(list, cost->counts[HTC_COST_PARSES] ? cost->parse_ns / 1000 : HTC_UNKNOWN);
    htc_cell_text(list, record_name(&info));
    htc_cell_text(list, htc_fresh_mode_name(fresh.mode));
    htc_cell_number(list, asks);
}

static htc_list *costs_list(htc_report *report, htc_group *group)
{
    static const htc_column columns[] = {
        {"path", "File", HTC_TEXT, HTC_UNIT_ONE, "its name"},
        {"spent_us", "Time", HTC_GAUGE, HTC_UNIT_US,
         "spent on it in all; 50 \xc2\xb5s are taken for each request for which httpd read it "
         "itself"},
        {"reason", "Why", HTC_TEXT, HTC_UNIT_ONE, "why it is not kept for all requests"},
        {"advice", "What to do", HTC_TEXT, HTC_UNIT_ONE, "about it"},
        {"checks", "Compared", HTC_GAUGE, HTC_UNIT_ONE, "times it was compared with the disk"},
        {"reads", "Read", HTC_GAUGE, HTC_UNIT_ONE, "times it was read"},
        {"parses", "Parsed", HTC_GAUGE, HTC_UNIT_ONE, "times its text was parsed"},
        {"loads", "Loaded", HTC_GAUGE, HTC_UNIT_ONE,
         "times its directives were run because what they come to was not shared yet"},
        {"replays", "Replayed", HTC_GAUGE, HTC_UNIT_ONE,
         "times its directives were run for one request"},
        {"stock", "Left to httpd", HTC_GAUGE, HTC_UNIT_ONE, "times it was left to httpd"},
        {"parse_us", "Parse", HTC_GAUGE, HTC_UNIT_US, "time of the last parse"},
        {"record", "Record", HTC_TEXT, HTC_UNIT_ONE, "what the cache has"},
        {"freshness", "Kept fresh", HTC_TEXT, HTC_UNIT_ONE, "how a change of it is noticed"},
        {"asks", "To do", HTC_FLAG, HTC_UNIT_ONE, "somebody should do what is advised"},
    };

    return htc_report_list(report, group, "dearest", "Directories that cost most",
                           "by the .htaccess file in them, with what they cost since the start", 0,
                           COLUMNS(columns));
}

/* Files whose record is gone have no name, and are left out: so many more are looked at. */
#define NAMELESS 64

void htc_costs_list(htc_report *report, uint32_t limit)
{
    htc_group *group = htc_report_group(report, "costs", "Directories that cost most",
                                        "what was not answered from memory");
    htc_list *list = costs_list(report, group);
    htc_cost *costs = apr_palloc(report->pool, (limit + NAMELESS) * sizeof(*costs));
    size_t n = 0, total = 0;

    if (report->store && report->ctx->costs)
        n = htc_costs_top(report->ctx->costs, costs, limit + NAMELESS, &total);
    for (size_t i = 0; report->lists && i < n && htc_list_rows(list) < (int)limit; i++)
        add_cost(list, &costs[i]);
    htc_add_gauge(group, "total", HTC_UNIT_ONE, total, "files that have cost anything");
}

void htc_costs_report(htc_report *report)
{
    htc_costs_list(report, HTC_COSTS_LISTED);
}

/* --- what is not kept -------------------------------------------------------------------------*/

static bool add_file(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    htc_list *list = baton;
    bool unknown;
    const char *reason = reason_of(list->report, info, &unknown);

    if (!reason)
        return true;
    htc_cell_text(list, apr_pstrmemdup(list->report->pool, key, key_len));
    htc_cell_text(list, reason);
    return htc_list_rows(list) < HTC_LISTED_FILES;
}

static void report_files(htc_report *report, const char *name, const char *title, const char *help,
                         const htc_selection *selection)
{
    static const htc_column columns[] = {
        {"path", "File", HTC_TEXT, HTC_UNIT_ONE, "its name"},
        {"reason", "Why", HTC_TEXT, HTC_UNIT_ONE, "line and directive that make it so"},
    };
    htc_group *group = htc_report_group(report, name, title, help);
    htc_list *list = htc_report_list(report, group, "listed", title, help, 0, COLUMNS(columns));
    uint64_t total = report->store ? htc_store_count_of(report->store, selection) : 0;

    if (total && report->lists)
        htc_store_each_of(report->store, selection, add_file, list);
    htc_add_gauge(group, "total", HTC_UNIT_ONE, total, help);
}

void htc_files_report(htc_report *report)
{
    static const htc_selection stock = {.kind = HTC_KIND_STOCK},
                               replayed = {.kind = HTC_KIND_TREE, .flags = HTC_RF_REPLAY};

    report_files(report, "stock_files", "Files left to httpd",
                 "files that httpd reads itself on each request", &stock);
    report_files(report, "replayed_files", "Files that are replayed",
                 "files whose directives are run for each request, from memory", &replayed);
}
