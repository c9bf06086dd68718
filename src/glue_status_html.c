/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report as a page for people. Called by the handler in glue_status.c.
 */
#include "core/htc_escape.h"
#include "glue_status.h"

#include "http_protocol.h"

static const char *esc(const htc_report *report, const char *text)
{
    return text ? htc_escape_html(report->pool, text) : "";
}

static void send_value(const htc_report *report, htc_type type, const htc_value *value)
{
    request_rec *r = report->r;

    switch (type) {
    case HTC_TEXT:
        ap_rputs(esc(report, value->text), r);
        break;
    case HTC_FLAG:
        ap_rputs(value->number ? "yes" : "no", r);
        break;
    case HTC_RATIO:
        if (value->ratio >= 0)
            ap_rprintf(r, "%.2f %%", 100.0 * value->ratio);
        break;
    case HTC_TIME:
        ap_rputs(
            value->number
                ? ap_ht_time(report->pool, apr_time_from_sec((apr_time_t)value->number), "%F %T", 0)
                : "never",
            r);
        break;
    default:
        if (value->number == HTC_UNKNOWN)
            break;
        ap_rprintf(r, "%" APR_UINT64_T_FMT, (apr_uint64_t)value->number);
    }
}

static void send_list(const htc_list *list)
{
    const htc_report *report = list->report;
    request_rec *r = report->r;

    if (!htc_list_rows(list))
        return;
    ap_rprintf(r, "<h2>%s</h2>\n<table>\n<tr>", list->title);
    for (int i = 0; i < list->ncolumns; i++)
        ap_rprintf(r, "<th>%s</th>", list->columns[i].title);
    ap_rputs("</tr>\n", r);
    for (int row = 0; row < htc_list_rows(list); row++) {
        ap_rputs("<tr>", r);
        for (int i = 0; i < list->ncolumns; i++) {
            ap_rputs("<td>", r);
            send_value(report, list->columns[i].type, htc_list_cell(list, row, i));
            ap_rputs("</td>", r);
        }
        ap_rputs("</tr>\n", r);
    }
    ap_rputs("</table>\n", r);
}

static void send_group(const htc_group *group)
{
    const htc_report *report = group->report;
    request_rec *r = report->r;

    ap_rprintf(r, "<h2>%s</h2>\n<table>\n", group->title);
    for (int i = 0; i < group->figures->nelts; i++) {
        const htc_figure *figure = &APR_ARRAY_IDX(group->figures, i, htc_figure);

        ap_rprintf(r, "<tr><th>%s</th><td>", figure->name);
        send_value(report, figure->type, &figure->value);
        ap_rprintf(r, "</td><td>%s</td></tr>\n", esc(report, figure->help));
    }
    ap_rputs("</table>\n", r);
    for (int i = 0; i < group->lists->nelts; i++)
        send_list(APR_ARRAY_IDX(group->lists, i, htc_list *));
}

static void send_head(const htc_report *report)
{
    ap_rprintf(report->r,
               "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"UTF-8\">"
               "<meta name=\"viewport\" content=\"width=device-width\">"
               "<title>mod_htcache</title>\n<style>body{font-family:sans-serif;margin:1em auto;"
               "max-width:60em;padding:0 1em;color-scheme:light dark}table{border-collapse:"
               "collapse}th,td{text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid "
               "#8884}td:nth-child(2){font-variant-numeric:tabular-nums}</style></head><body>\n"
               "<h1>mod_htcache %s</h1>\n<p>State: <strong>%s</strong>. Other forms: <a "
               "href=\"?auto\">text</a>, <a href=\"?format=json\">JSON</a>, <a "
               "href=\"?format=prometheus\">Prometheus</a>.</p>\n",
               HTC_VERSION, esc(report, report->state));
}

void htc_status_html(const htc_report *report)
{
    send_head(report);
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_section *section = &APR_ARRAY_IDX(report->sections, i, htc_section);

        if (section->group)
            send_group(section->group);
        else
            send_list(section->list);
    }
    ap_rputs("</body></html>\n", report->r);
}
