/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is wrong, in sentences, each with what to do about it: made from the figures of the other
 * parts, and so the last of the reporters. Empty when all is well.
 */
#include "base/base.h"
#include "htaccess/htaccess.h"
#include "redirects/redirects.h"
#include "status/status.h"

#include "http_main.h"

/* A hit ratio below this, among at least this number of look-ups, is a problem. */
#define LOW_RATIO   0.5
#define LOW_LOOKUPS 1000

static uint64_t number_of(const htc_report *report, const char *group, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, group, name);

    return figure ? figure->value.number : 0;
}

const char *const htc_problem_kinds[] = {
    "off",       "evictions", "no_room",      "too_large",         "recoveries",  "corrupt",
    "condemned", "builder",   "watch",        "watches",           "memcached",   "secret_file",
    "map",       "map_rows",  "htaccess_map", "htaccess_map_rows", "counts_file", "hit_ratio",
    NULL};

static void add(htc_list *list, const char *kind, const char *text, const char *advice)
{
    htc_cell_text(list, text);
    htc_cell_text(list, advice);
    htc_cell_text(list, kind);
}

static void add_off(htc_list *list)
{
    const htc_report *report = list->report;

    if (strcmp(report->state, "on"))
        add(list, "off", apr_pstrcat(report->pool, "the cache is ", report->state, NULL),
            report->ctx ? report->ctx->off_advice : htc_options_get()->on_advice);
}

/* Counters that should be 0. */
static void add_counted(htc_list *list)
{
    static const struct {
        const char *kind, *group, *name, *text, *advice;
    } all[] = {
        {"evictions", "recent", "evictions",
         "records were removed to make room in the last five minutes",
         "raise HtCacheMemory and restart httpd; docs/tuning-memory.md has sizes"},
        {"no_room", "shared", "no_room",
         "times nothing could make way for what httpd makes of a file: requests use all of it",
         "raise HtCacheMemory and restart httpd; docs/tuning-memory.md has sizes"},
        {"too_large", "htaccess", "too_large",
         "times a file did not fit in its share of the cache, and was left to httpd",
         "raise HtCacheMemory or HtCacheDocumentRootShare; the error log names the file"},
        {"recoveries", "htaccess", "recoveries",
         "times a process died while it wrote to shared memory, which was repaired",
         "look for 'exit signal' in the error log, and for the module that crashes"},
        {"corrupt", "htaccess", "corrupt", "records were damaged, and were read from disk again",
         "test the machine's memory, and look for a module that crashes"},
        {"condemned", "shared", "condemned",
         "files ended the builder process, so each request runs their directives itself",
         "the error log names them: please report what is in them"},
        {"watches", "watch", "refused_limit",
         "times the kernel gave no more inotify watches; the paths are compared on each request",
         "raise the sysctl fs.inotify.max_user_watches, then restart httpd"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uint64_t n = number_of(list->report, all[i].group, all[i].name);

        if (n)
            add(list, all[i].kind,
                apr_psprintf(list->report->pool, "%" APR_UINT64_T_FMT " %s", (apr_uint64_t)n,
                             all[i].text),
                all[i].advice);
    }
}

/* What the start could not have. */
static void add_missing(htc_list *list)
{
    const htc_context *ctx = list->report->ctx;

    if (!ctx || !ctx->store)
        return;
    if (!ctx->heap)
        add(list, "builder",
            "what httpd makes of .htaccess files is not shared: each request runs their directives",
            "the error log of the start says why");
    if (!ctx->watch && htc_fresh_wanted(ap_server_conf))
        add(list, "watch", "the kernel reports no changes, so files are compared every second",
            "the error log of the start says why; mostly fs.inotify.max_user_instances is too low");
}

static void add_failed_map(htc_list *list, const htc_map_report *map)
{
    apr_pool_t *pool = list->report->pool;

    add(list, "map",
        apr_psprintf(pool, "the redirect map %s cannot be used as it is now", map->name),
        apr_psprintf(pool, "%s; see what is wrong with: htcachectl check %s",
                     map->info.rules ? "the rows it had before still answer"
                                     : "it answers nothing until its file is mended",
                     htc_shell_word(pool, map->name)));
}

/* "1 row of the redirect map FILE was left out", or "2 rows ... were left out". */
static const char *left_out(apr_pool_t *pool, uint64_t rows, const char *file)
{
    return apr_psprintf(pool, "%" APR_UINT64_T_FMT " row%s of the redirect map %s %s left out",
                        (apr_uint64_t)rows, rows == 1 ? "" : "s", file, rows == 1 ? "was" : "were");
}

static void add_map_rows(htc_list *list, const htc_map_report *map)
{
    apr_pool_t *pool = list->report->pool;

    add(list, "map_rows", left_out(pool, map->note.refused, map->name),
        apr_psprintf(pool,
                     "its other rows answer, %" APR_UINT64_T_FMT
                     " of them; see what is wrong with: htcachectl check %s",
                     (apr_uint64_t)map->info.rules, htc_shell_word(pool, map->name)));
}

static void add_maps(htc_list *list)
{
    const htc_report *report = list->report;
    apr_array_header_t *maps = htc_map_reports(report->server, report->pool);

    for (int i = 0; maps && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);

        /* Those of .htaccess files are one problem, see below. */
        if (map->note.htaccess)
            continue;
        if (map->state.failed)
            add_failed_map(list, map);
        else if (map->note.refused)
            add_map_rows(list, map);
    }
}

/* Their owners mend them, and may break them as they like: so however many there are, they are one
 * problem, which has its own kind. */
static void add_htaccess_maps(htc_list *list)
{
    apr_pool_t *pool = list->report->pool;
    redirect_area_note one;
    unsigned n = htc_map_failed_in_htaccess(list->report->server, &one);

    if (!n)
        return;
    add(list, "htaccess_map",
        n == 1 ? apr_psprintf(pool, "the redirect map %s, named at %s, cannot be used as it is now",
                              one.file, one.where)
               : apr_psprintf(pool,
                              "%u redirect maps that .htaccess files name cannot be used as they "
                              "are now, one of them %s, named at %s",
                              n, one.file, one.where),
        one.rejected
            ? apr_psprintf(pool,
                           "requests for that directory are answered 500 until its owner puts the "
                           "file there, or takes the line out: %s",
                           one.error)
            : apr_psprintf(pool, "tell the owner; see what is wrong with: htcachectl check %s",
                           htc_shell_word(pool, one.file)));
}

/* The same for rows. */
static void add_htaccess_rows(htc_list *list)
{
    apr_pool_t *pool = list->report->pool;
    redirect_area_note one;
    unsigned n = htc_map_rows_left_out_in_htaccess(list->report->server, &one);
    const char *rows;

    if (!n)
        return;
    rows = apr_pstrcat(pool, left_out(pool, one.refused, one.file), ", named at ", one.where, NULL);
    add(list, "htaccess_map_rows",
        n == 1 ? rows
               : apr_psprintf(pool,
                              "rows of %u redirect maps that .htaccess files name were left "
                              "out; %s",
                              n, rows),
        apr_psprintf(pool, "tell the owner; see what is wrong with: htcachectl check %s",
                     htc_shell_word(pool, one.file)));
}

static void add_counts_file(htc_list *list)
{
    const char *advice;
    const char *problem = htc_keeper_problem(list->report->server, &advice, list->report->pool);

    if (problem)
        add(list, "counts_file", problem, advice);
}

/* Settings that the start could not honour. */
static void add_unused(htc_list *list)
{
    const htc_context *ctx = list->report->ctx;
    const htc_secret *secret = &htc_options_get()->secret;

    if (ctx && ctx->farm_off)
        add(list, "memcached",
            apr_pstrcat(list->report->pool, "memcached is not used: ", ctx->farm_off, NULL),
            "this server goes on alone until that is mended and httpd restarted");
    if (secret->file && !secret->known)
        add(list, "secret_file",
            "the file of HtCacheAdminSecretFile cannot be used, so every POST is refused",
            "the error log of the start says what is wrong with it; mend that and restart httpd");
}

static void add_ratio(htc_list *list)
{
    const htc_figure *ratio = htc_report_figure(list->report, "recent", "hit_ratio");

    if (ratio && ratio->value.ratio >= 0 && ratio->value.ratio < LOW_RATIO &&
        number_of(list->report, "recent", "lookups") >= LOW_LOOKUPS)
        add(list, "hit_ratio",
            "more than half of the look-ups of the last five minutes were not answered from the "
            "cache",
            "look at stock_files for files that are left to httpd, and at evictions for lack of "
            "memory");
}

void htc_problems_report(htc_report *report)
{
    static const htc_column columns[] = {
        {"problem", "Problem", HTC_TEXT, HTC_UNIT_ONE, "what is wrong"},
        {"advice", "What to do", HTC_TEXT, HTC_UNIT_ONE, "about it"},
        {"kind", "Kind", HTC_TEXT, HTC_UNIT_ONE, "a word for it"},
    };
    htc_list *list = htc_report_list(report, NULL, "problems", "What is wrong",
                                     "and what to do about it", 0, columns, 3);

    add_off(list);
    add_missing(list);
    add_counted(list);
    add_unused(list);
    htc_farm_problems(list);
    add_maps(list);
    add_htaccess_maps(list);
    add_htaccess_rows(list);
    add_counts_file(list);
    add_ratio(list);
}
