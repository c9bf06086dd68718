/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is wrong, in sentences, each with what to do about it: made from the figures of the other
 * parts, and so the last of the reporters. Empty when all is well.
 */
#include "htaccess/htaccess.h"
#include "redirects/redirects.h"
#include "status/status.h"

/* A hit ratio below this, among at least this number of look-ups, is a problem. */
#define LOW_RATIO   0.5
#define LOW_LOOKUPS 1000

static uint64_t number_of(const htc_report *report, const char *group, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, group, name);

    return figure ? figure->value.number : 0;
}

static void add(htc_list *list, const char *text, const char *advice)
{
    htc_cell_text(list, text);
    htc_cell_text(list, advice);
}

/* Counters that should be 0. */
static void add_counted(htc_list *list)
{
    static const struct {
        const char *group, *name, *text, *advice;
    } all[] = {
        {"recent", "evictions", "records were removed to make room in the last five minutes",
         "raise HtCacheMemory"},
        {"htaccess", "too_large", "times a file did not fit in its share of the cache",
         "raise HtCacheMemory or HtCacheDocumentRootShare; the error log names it"},
        {"htaccess", "recoveries", "times a process died while it wrote to shared memory",
         "look for crashes in the error log"},
        {"htaccess", "corrupt", "records were damaged", "suspect the machine's memory"},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uint64_t n = number_of(list->report, all[i].group, all[i].name);

        if (n)
            add(list,
                apr_psprintf(list->report->pool, "%" APR_UINT64_T_FMT " %s", (apr_uint64_t)n,
                             all[i].text),
                all[i].advice);
    }
}

static void add_maps(htc_list *list)
{
    const htc_report *report = list->report;
    apr_array_header_t *maps = htc_map_reports(report->server, report->pool);

    for (int i = 0; maps && i < maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(maps, i, htc_map_report);

        /* Those of .htaccess files are their owners' affair. */
        if (map->state.failed && !map->note.htaccess)
            add(list,
                apr_psprintf(report->pool, "the redirect map %s cannot be used as it is now",
                             map->name),
                map->state.version
                    ? "the rows it had before still answer; the error log says what is wrong with "
                      "it"
                    : "it answers nothing until its file is mended; the error log says what is "
                      "wrong with it");
    }
}

/* Settings that the start could not honour. */
static void add_unused(htc_list *list)
{
    const htc_context *ctx = list->report->ctx;
    const htc_secret *secret = &htc_options_get()->secret;

    if (ctx && ctx->farm_off)
        add(list, apr_pstrcat(list->report->pool, "memcached is not used: ", ctx->farm_off, NULL),
            "this server goes on alone until that is mended and httpd restarted");
    if (secret->file && !secret->known)
        add(list, "the file of HtCacheAdminSecretFile cannot be used, so every POST is refused",
            "the error log of the start says what is wrong with it; mend that and restart httpd");
}

static void add_ratio(htc_list *list)
{
    const htc_figure *ratio = htc_report_figure(list->report, "recent", "hit_ratio");

    if (ratio && ratio->value.ratio >= 0 && ratio->value.ratio < LOW_RATIO &&
        number_of(list->report, "recent", "lookups") >= LOW_LOOKUPS)
        add(list, "more than half of the look-ups of the last five minutes needed the disk",
            "see which files are left to httpd, and whether records are evicted");
}

void htc_problems_report(htc_report *report)
{
    static const htc_column columns[] = {
        {"problem", "Problem", HTC_TEXT, HTC_UNIT_ONE, "what is wrong"},
        {"advice", "What to do", HTC_TEXT, HTC_UNIT_ONE, "about it"},
    };
    htc_list *list = htc_report_list(report, NULL, "problems", "What is wrong",
                                     "and what to do about it", 0, columns, 2);

    if (strcmp(report->state, "on"))
        add(list, apr_pstrcat(report->pool, "the cache is ", report->state, NULL),
            "the error log of the start says more");
    add_counted(list);
    add_unused(list);
    htc_farm_problems(list);
    add_maps(list);
    add_ratio(list);
}
