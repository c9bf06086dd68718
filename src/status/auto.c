/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report as "Key: value" lines (?auto), as mod_status writes them. Called by the handler in
 * status/status.c.
 */
#include "base/base.h"
#include "status/status.h"

#include "http_protocol.h"

/* "file_stats" becomes "FileStats", as mod_status writes its keys. */
static const char *auto_key(apr_pool_t *pool, const char *name)
{
    char *key = apr_palloc(pool, strlen(name) + 1), *p = key;
    bool upper = true;

    for (; *name; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        *p++ = upper ? (char)apr_toupper(*name) : *name;
        upper = false;
    }
    *p = '\0';
    return key;
}

static void send_figure(const htc_group *group, const htc_figure *figure)
{
    const htc_report *report = group->report;
    request_rec *r = report->r;
    /* The cache's own figures have no prefix. */
    const char *prefix = strcmp(group->name, "htaccess") ? auto_key(report->pool, group->name) : "";

    ap_rprintf(r, "HtCache%s%s: ", prefix, auto_key(report->pool, figure->name));
    switch (figure->type) {
    case HTC_TEXT:
        ap_rputs(figure->value.text ? htc_escape_line(report->pool, figure->value.text) : "-", r);
        break;
    case HTC_RATIO:
        if (figure->value.ratio < 0)
            ap_rputs("-", r);
        else
            ap_rprintf(r, "%.6f", figure->value.ratio);
        break;
    default:
        if (figure->value.number == HTC_UNKNOWN) {
            ap_rputs("-", r);
            break;
        }
        ap_rprintf(r, "%" APR_UINT64_T_FMT, (apr_uint64_t)figure->value.number);
    }
    ap_rputs("\n", r);
}

void htc_status_auto(const htc_report *report)
{
    request_rec *r = report->r;

    ap_rprintf(r, "HtCacheVersion: %s\nHtCacheState: %s\n", HTC_VERSION,
               htc_escape_line(report->pool, report->state));
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        for (int j = 0; section->group && j < section->group->figures->nelts; j++)
            send_figure(section->group, &APR_ARRAY_IDX(section->group->figures, j, htc_figure));
        if (section->list)
            ap_rprintf(r, "HtCache%s: %d\n", auto_key(report->pool, section->list->name),
                       htc_list_rows(section->list));
    }
}
