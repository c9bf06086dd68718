/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report in Prometheus's text format, version 0.0.4 (?format=prometheus). Called by the handler
 * in status/status.c. Names follow https://prometheus.io/docs/practices/naming/: base units, the
 * unit behind the name, "_total" behind a counter's; `promtool check metrics` has nothing to say.
 */
#include "base/base.h"
#include "status/status.h"

#include "http_protocol.h"

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && !strcmp(text + len - end_len, end);
}

/* The name without an ending that says the unit in the way of JSON. */
static const char *without(apr_pool_t *pool, const char *name, const char *end)
{
    return ends_with(name, end) ? apr_pstrmemdup(pool, name, strlen(name) - strlen(end)) : name;
}

/* "bytes_used" becomes "used_bytes". */
static const char *bytes_name(apr_pool_t *pool, const char *name)
{
    if (!strncmp(name, "bytes_", 6))
        name += 6;
    return without(pool, name, "bytes");
}

/* "htcache_" group "_" name, with its unit and "_total" as they belong. A figure "total" is the
 * number of what the group is named for. */
static const char *metric_name(apr_pool_t *pool, const char *group, const char *name, htc_type type,
                               htc_unit unit)
{
    const char *tail = "";

    if (type == HTC_TIME) {
        name = without(pool, name, "_at");
        tail = "timestamp_seconds";
    } else if (type == HTC_RATIO) {
        name = without(pool, name, "ratio");
        tail = "ratio";
    } else if (unit == HTC_UNIT_MS || unit == HTC_UNIT_US) {
        name = without(pool, name, unit == HTC_UNIT_MS ? "ms" : "us");
        tail = "seconds";
    } else if (unit == HTC_UNIT_BYTES) {
        name = bytes_name(pool, name);
        tail = "bytes";
    } else if (!strcmp(name, "total")) {
        name = "";
    }
    name = without(pool, name, "_");
    return apr_pstrcat(pool, "htcache_", group, *name ? "_" : "", name, *tail ? "_" : "", tail,
                       type == HTC_COUNTER ? "_total" : "", NULL);
}

static const char *number(apr_pool_t *pool, htc_type type, htc_unit unit, const htc_value *value)
{
    if (type == HTC_RATIO)
        return value->ratio < 0 ? "NaN" : apr_psprintf(pool, "%.6f", value->ratio);
    if (value->number == HTC_UNKNOWN)
        return "NaN";
    if (unit == HTC_UNIT_MS)
        return apr_psprintf(pool, "%" APR_UINT64_T_FMT ".%03u", (apr_uint64_t)value->number / 1000,
                            (unsigned)(value->number % 1000));
    if (unit == HTC_UNIT_US)
        return apr_psprintf(pool, "%" APR_UINT64_T_FMT ".%06u",
                            (apr_uint64_t)value->number / 1000000,
                            (unsigned)(value->number % 1000000));
    return apr_psprintf(pool, "%" APR_UINT64_T_FMT, (apr_uint64_t)value->number);
}

static void send_head(request_rec *r, const char *name, htc_type type, const char *help)
{
    ap_rprintf(r, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
               type == HTC_COUNTER ? "counter" : "gauge");
}

static void send_group(const htc_group *group)
{
    const htc_report *report = group->report;

    if (group->flags & HTC_GROUP_NO_METRICS)
        return;
    for (int i = 0; i < group->figures->nelts; i++) {
        const htc_figure *f = &APR_ARRAY_IDX(group->figures, i, htc_figure);
        const char *name;

        if (f->type == HTC_TEXT)
            continue;
        name = metric_name(report->pool, group->name, f->name, f->type, f->unit);
        send_head(report->r, name, f->type, f->help);
        ap_rprintf(report->r, "%s %s\n", name, number(report->pool, f->type, f->unit, &f->value));
    }
}

/* name="...",source="..." of one row: the texts in front of its figures. Those behind may change.
 */
static const char *labels_of(const htc_list *list, int row)
{
    apr_pool_t *pool = list->report->pool;
    const char *labels = "";

    for (int i = 0; i < list->ncolumns && list->columns[i].type == HTC_TEXT; i++) {
        const char *text = htc_list_cell(list, row, i)->text;

        labels = apr_pstrcat(pool, labels, *labels ? "," : "", list->columns[i].name, "=\"",
                             text ? htc_escape_label(pool, text) : "", "\"", NULL);
    }
    return labels;
}

/* Labels of all rows. The same set may not come twice: further ones are numbered. */
static const char **labels_of_all(const htc_list *list)
{
    apr_pool_t *pool = list->report->pool;
    apr_hash_t *known = apr_hash_make(pool);
    int rows = htc_list_rows(list);
    const char **labels = apr_palloc(pool, ((size_t)rows + 1) * sizeof(*labels));

    for (int row = 0; row < rows; row++) {
        const char *plain = labels_of(list, row);
        int *count = apr_hash_get(known, plain, APR_HASH_KEY_STRING);

        labels[row] = plain;
        if (count) {
            labels[row] = apr_psprintf(pool, "%s,number=\"%d\"", plain, ++*count);
        } else {
            count = apr_palloc(pool, sizeof(*count));
            *count = 1;
            apr_hash_set(known, plain, APR_HASH_KEY_STRING, count);
        }
    }
    return labels;
}

static void send_list(const htc_list *list)
{
    const htc_report *report = list->report;
    int rows = htc_list_rows(list);
    const char **labels;

    if (!(list->flags & HTC_LIST_METRICS) || !rows)
        return;
    labels = labels_of_all(list);
    for (int i = 0; i < list->ncolumns; i++) {
        const htc_column *c = &list->columns[i];
        const char *name = metric_name(report->pool, list->name, c->name, c->type, c->unit);

        if (c->type == HTC_TEXT)
            continue;
        send_head(report->r, name, c->type, c->help);
        for (int row = 0; row < rows; row++)
            ap_rprintf(report->r, "%s{%s} %s\n", name, labels[row],
                       number(report->pool, c->type, c->unit, htc_list_cell(list, row, i)));
    }
}

static unsigned problems_of(const htc_list *list, const char *kind)
{
    unsigned n = 0;

    for (int row = 0; row < htc_list_rows(list); row++)
        n += !strcmp(htc_list_cell(list, row, list->ncolumns - 1)->text, kind);
    return n;
}

/* All kinds are there at any time, so that an alert has something to compare with. */
static void send_problems(const htc_list *list)
{
    request_rec *r = list->report->r;

    send_head(r, "htcache_problems", HTC_GAUGE, "what is wrong now, by its kind");
    for (const char *const *kind = htc_problem_kinds; *kind; kind++)
        ap_rprintf(r, "htcache_problems{kind=\"%s\"} %u\n", *kind, problems_of(list, *kind));
}

void htc_status_prometheus(const htc_report *report)
{
    request_rec *r = report->r;

    send_head(r, "htcache_info", HTC_GAUGE, "1, with the module's version");
    ap_rprintf(r, "htcache_info{version=\"%s\"} 1\n", HTC_VERSION);
    send_head(r, "htcache_on", HTC_GAUGE, "1 when the cache works, 0 when it is off");
    ap_rprintf(r, "htcache_on %d\n", !strcmp(report->state, "on"));
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        if (section->group)
            send_group(section->group);
        else if (!strcmp(section->list->name, "problems"))
            send_problems(section->list);
        else
            send_list(section->list);
    }
}
