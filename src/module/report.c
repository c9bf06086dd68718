/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report: what the parts of the module call to put their figures in. See module/report.h.
 */
#include "module/module.h"

htc_group *htc_report_group(htc_report *report, const char *name, const char *title,
                            const char *help)
{
    htc_group *group = apr_pcalloc(report->pool, sizeof(*group));

    group->report = report;
    group->name = name;
    group->title = title;
    group->help = help;
    group->figures = apr_array_make(report->pool, 16, sizeof(htc_figure));
    group->lists = apr_array_make(report->pool, 1, sizeof(htc_list *));
    APR_ARRAY_PUSH(report->sections, htc_report_section) = (htc_report_section){.group = group};
    return group;
}

static htc_value *add(htc_group *group, const char *name, htc_type type, htc_unit unit,
                      const char *help)
{
    htc_figure *figure = apr_array_push(group->figures);

    figure->name = name;
    figure->type = type;
    figure->unit = unit;
    figure->help = help;
    figure->value = (htc_value){0};
    return &figure->value;
}

void htc_add_counter(htc_group *group, const char *name, htc_unit unit, uint64_t value,
                     const char *help)
{
    add(group, name, HTC_COUNTER, unit, help)->number = value;
}

void htc_add_gauge(htc_group *group, const char *name, htc_unit unit, uint64_t value,
                   const char *help)
{
    add(group, name, HTC_GAUGE, unit, help)->number = value;
}

static double ratio_of(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : -1.0;
}

void htc_add_ratio(htc_group *group, const char *name, uint64_t part, uint64_t whole,
                   const char *help)
{
    add(group, name, HTC_RATIO, HTC_UNIT_ONE, help)->ratio = ratio_of(part, whole);
}

void htc_add_time(htc_group *group, const char *name, int64_t seconds, const char *help)
{
    add(group, name, HTC_TIME, HTC_UNIT_ONE, help)->number = seconds > 0 ? (uint64_t)seconds : 0;
}

void htc_add_flag(htc_group *group, const char *name, bool value, const char *help)
{
    add(group, name, HTC_FLAG, HTC_UNIT_ONE, help)->number = value;
}

void htc_add_text(htc_group *group, const char *name, const char *text, const char *help)
{
    add(group, name, HTC_TEXT, HTC_UNIT_ONE, help)->text = text;
}

void htc_add_counters(htc_group *group)
{
    static const struct {
        const char *group, *name, *help;
    } texts[HTC_COUNTER_COUNT] = {
#define X(group, name, help) {#group, #name, help},
        HTC_COUNTERS(X)
#undef X
    };
    htc_store *store = group->report->store;
    size_t prefix = strlen(group->name);

    for (int i = 0; i < HTC_COUNTER_COUNT; i++) {
        const char *name = texts[i].name;

        if (strcmp(texts[i].group, group->name))
            continue;
        if (!strncmp(name, group->name, prefix) && name[prefix] == '_')
            name += prefix + 1;
        htc_add_counter(group, name, HTC_UNIT_ONE, store ? htc_counter_read(store, i) : 0,
                        texts[i].help);
    }
}

htc_list *htc_report_list(htc_report *report, htc_group *group, const char *name, const char *title,
                          const char *help, unsigned flags, const htc_column *columns, int ncolumns)
{
    htc_list *list = apr_pcalloc(report->pool, sizeof(*list));

    list->report = report;
    list->name = name;
    list->title = title;
    list->help = help;
    list->flags = flags;
    list->columns = columns;
    list->ncolumns = ncolumns;
    list->cells = apr_array_make(report->pool, 8 * ncolumns, sizeof(htc_value));
    if (group)
        APR_ARRAY_PUSH(group->lists, htc_list *) = list;
    else
        APR_ARRAY_PUSH(report->sections, htc_report_section) = (htc_report_section){.list = list};
    return list;
}

static htc_value *next_cell(htc_list *list)
{
    htc_value *cell = apr_array_push(list->cells);

    *cell = (htc_value){0};
    return cell;
}

void htc_cell_number(htc_list *list, uint64_t number)
{
    next_cell(list)->number = number;
}

void htc_cell_ratio(htc_list *list, uint64_t part, uint64_t whole)
{
    next_cell(list)->ratio = ratio_of(part, whole);
}

void htc_cell_text(htc_list *list, const char *text)
{
    next_cell(list)->text = text;
}

int htc_list_rows(const htc_list *list)
{
    return list->cells->nelts / list->ncolumns;
}

const htc_value *htc_list_cell(const htc_list *list, int row, int column)
{
    return &APR_ARRAY_IDX(list->cells, row * list->ncolumns + column, htc_value);
}

const htc_figure *htc_report_figure(const htc_report *report, const char *group, const char *name)
{
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_group *g = APR_ARRAY_IDX(report->sections, i, htc_report_section).group;

        for (int j = 0; g && !strcmp(g->name, group) && j < g->figures->nelts; j++) {
            const htc_figure *figure = &APR_ARRAY_IDX(g->figures, j, htc_figure);

            if (!strcmp(figure->name, name))
                return figure;
        }
    }
    return NULL;
}

static const char *state_of(const htc_context *ctx, apr_pool_t *pool)
{
    if (!ctx)
        return "off: HtCache On holds nowhere in the configuration";
    if (!ctx->store)
        return apr_pstrcat(pool, "off: ", ctx->off_reason, NULL);
    return "on";
}

htc_report *htc_report_empty(request_rec *r)
{
    htc_report *report = apr_pcalloc(r->pool, sizeof(*report));

    report->r = r;
    report->pool = r->pool;
    report->server = r->server;
    report->ctx = htc_server_conf_of(r->server)->ctx;
    report->store = report->ctx ? report->ctx->store : NULL;
    report->state = state_of(report->ctx, r->pool);
    report->now = apr_time_now();
    report->sections = apr_array_make(r->pool, 16, sizeof(htc_report_section));
    return report;
}
