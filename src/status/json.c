/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report as JSON (?format=json); docs/status.schema.json describes it. Called by the handler in
 * status/status.c.
 */
#include "base/base.h"
#include "status/status.h"

#include "http_protocol.h"

static void send_string(const htc_report *report, const char *text)
{
    ap_rputs(text ? htc_escape_json(report->pool, text) : "null", report->r);
}

static void send_value(const htc_report *report, htc_type type, const htc_value *value)
{
    request_rec *r = report->r;

    switch (type) {
    case HTC_TEXT:
        send_string(report, value->text);
        break;
    case HTC_FLAG:
        ap_rputs(value->number ? "true" : "false", r);
        break;
    case HTC_RATIO:
        if (value->ratio < 0)
            ap_rputs("null", r);
        else
            ap_rprintf(r, "%.6f", value->ratio);
        break;
    case HTC_TIME:
        if (!value->number) {
            ap_rputs("null", r);
            break;
        }
        /* fall through */
    default:
        if (value->number == HTC_UNKNOWN) {
            ap_rputs("null", r);
            break;
        }
        ap_rprintf(r, "%" APR_UINT64_T_FMT, (apr_uint64_t)value->number);
    }
}

static void send_list(const htc_list *list, const char *indent)
{
    request_rec *r = list->report->r;
    int rows = htc_list_rows(list);

    ap_rprintf(r, "\"%s\": [", list->name);
    for (int row = 0; row < rows; row++) {
        ap_rprintf(r, "%s\n%s  {", row ? "," : "", indent);
        for (int i = 0; i < list->ncolumns; i++) {
            ap_rprintf(r, "%s\"%s\": ", i ? ", " : "", list->columns[i].name);
            send_value(list->report, list->columns[i].type, htc_list_cell(list, row, i));
        }
        ap_rputs("}", r);
    }
    ap_rputs("]", r);
}

static void send_group(const htc_group *group)
{
    request_rec *r = group->report->r;
    const char *comma = "";

    ap_rprintf(r, "\"%s\": {", group->name);
    for (int i = 0; i < group->figures->nelts; i++) {
        const htc_figure *figure = &APR_ARRAY_IDX(group->figures, i, htc_figure);

        ap_rprintf(r, "%s\n    \"%s\": ", comma, figure->name);
        send_value(group->report, figure->type, &figure->value);
        comma = ",";
    }
    for (int i = 0; i < group->lists->nelts; i++) {
        ap_rprintf(r, "%s\n    ", comma);
        send_list(APR_ARRAY_IDX(group->lists, i, htc_list *), "    ");
        comma = ",";
    }
    ap_rputs("\n  }", r);
}

void htc_status_json(const htc_report *report)
{
    request_rec *r = report->r;

    ap_rprintf(r, "{\n  \"version\": \"%s\",\n  \"state\": ", HTC_VERSION);
    send_string(report, report->state);
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        ap_rputs(",\n  ", r);
        if (section->group)
            send_group(section->group);
        else
            send_list(section->list, "  ");
    }
    ap_rputs("\n}\n", r);
}
