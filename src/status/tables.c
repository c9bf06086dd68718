/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Groups and lists of the report as tables of the page. Of a list with many columns a row has those
 * that say most; the others stand small below its name, so that no table is wider than the page. On
 * a telephone a row is a card: each cell has the column's title beside it (data-l). Called by
 * status/html.c and the parts of the page.
 */
#include "status/internal.h"

#include "http_protocol.h"

/* Columns of a list that is not named here. */
#define MOST_COLUMNS 6

/* Columns that are shown as such, the row's name first. `error` is shown where it stands when there
 * is one. A number in `warn` should be 0. `hidden` is said in another way. */
static const struct layout {
    const char *list, *columns, *error, *warn, *hidden;
} layouts[] = {
    {"redirect_tables", "name rules hits loaded_at refused warnings", "error", "refused", "failed"},
    {"dearest", "path spent_us reason advice", NULL, NULL, "asks"},
    {"rows", "rule target status hits last_hit_at", NULL, NULL, NULL},
    {"pages", "path host hits last_hit_at", NULL, NULL, NULL},
    {"listed", "path why mode age_ms", NULL, NULL, "reason"},
    {"servers", "server state exchanges timeouts failures", NULL, NULL, NULL},
    {"steps", "by text path", NULL, NULL, NULL},
    {"rules", "rule target status location kind", NULL, NULL, NULL},
    {"levels", "directory record reason allow_override", NULL, NULL, NULL},
};

/* Columns of one list, and those of them that have cells. */
#define MOST_SHAPED 64
#define MOST_CELLS  16

/* Of one table: which columns are shown, in which order. */
typedef struct shape {
    int columns[MOST_CELLS], n;
    bool shown[MOST_SHAPED]; /* or not to be shown */
    int error, warn;         /* -1: none */
} shape;

static void show_column(shape *s, int column)
{
    if (column >= MOST_SHAPED || s->n == MOST_CELLS || s->shown[column])
        return;
    s->columns[s->n++] = column;
    s->shown[column] = true;
}

/* False: the list has not all of these columns, and so is another one of this name. */
static bool set_layout(shape *s, const htc_list *list, const struct layout *layout)
{
    char *names = apr_pstrdup(list->report->pool, layout->columns), *last;
    int hidden = layout->hidden ? htc_page_column(list, layout->hidden) : -1;

    *s = (shape){.error = -1, .warn = -1};
    for (char *name = apr_strtok(names, " ", &last); name; name = apr_strtok(NULL, " ", &last)) {
        if (htc_page_column(list, name) < 0)
            return false;
        show_column(s, htc_page_column(list, name));
    }
    s->error = layout->error ? htc_page_column(list, layout->error) : -1;
    s->warn = layout->warn ? htc_page_column(list, layout->warn) : -1;
    if (hidden >= 0 && hidden < MOST_SHAPED)
        s->shown[hidden] = true;
    return true;
}

static void set_shape(shape *s, const htc_list *list)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
        if (!strcmp(list->name, layouts[i].list) && set_layout(s, list, &layouts[i]))
            return;
    }
    *s = (shape){.error = -1, .warn = -1};
    for (int i = 0; i < list->ncolumns && i < MOST_COLUMNS; i++)
        show_column(s, i);
}

/* --- cells ------------------------------------------------------------------------------------*/

static bool is_number(htc_type type)
{
    return type == HTC_COUNTER || type == HTC_GAUGE || type == HTC_RATIO || type == HTC_TIME;
}

static bool says_something(htc_type type, const htc_value *value)
{
    if (type == HTC_TEXT)
        return value->text && *value->text;
    return type == HTC_RATIO ? value->ratio >= 0 : value->number && value->number != HTC_UNKNOWN;
}

/* What a script sorts by, as an attribute. */
static const char *sort_key(const htc_report *report, htc_type type, const htc_value *value)
{
    if (type == HTC_RATIO)
        return apr_psprintf(report->pool, " data-v=\"%.6f\"", value->ratio);
    return apr_psprintf(report->pool, " data-v=\"%" APR_UINT64_T_FMT "\"",
                        (apr_uint64_t)(value->number == HTC_UNKNOWN ? 0 : value->number));
}

/* The rows of a map that differ from its file are a page of their own, see status/rows.c. */
static void send_edited(const htc_list *list, int row, const char *text)
{
    const char *where = htc_list_cell(list, row, htc_page_column(list, "source"))->text;

    ap_rprintf(list->report->r, "<a href=\"?map=%s&amp;rows=json&amp;differs=1\">%s</a>",
               ap_escape_urlencoded(list->report->pool, where), text);
}

/* A column that has no cell of its own. Returns the last column that was said. "by_row" may stand
 * behind "line", and "edited" behind that. */
static int send_small(const htc_list *list, int row, int i, const char *separator)
{
    const htc_report *report = list->report;
    const htc_column *column = &list->columns[i];
    const htc_value *value = htc_list_cell(list, row, i);
    bool place = i + 1 < list->ncolumns && !strcmp(column->name, "file") &&
                 !strcmp(list->columns[i + 1].name, "line");
    const char *text;

    if (place) {
        bool rows = i + 2 < list->ncolumns && !strcmp(list->columns[i + 2].name, "by_row");
        int edited = htc_page_column(list, "edited");

        if (rows && edited == i + 3 && htc_list_cell(list, row, edited)->number) {
            ap_rprintf(report->r, "%s%s, edited", separator, htc_page_text(report, value->text));
            return edited;
        }
        ap_rprintf(
            report->r, "%s%s %s %s", separator, htc_page_text(report, value->text),
            rows && htc_list_cell(list, row, i + 2)->number ? "row" : "line",
            htc_page_number(report->pool, HTC_UNIT_ONE, htc_list_cell(list, row, i + 1)->number));
        return i + 1 + rows;
    }
    text = apr_psprintf(
        report->pool, "%s %s", column->title,
        column->type == HTC_FLAG ? "" : htc_page_value(report, column->type, column->unit, value));
    ap_rputs(separator, report->r);
    if (strcmp(list->name, "redirect_tables") || strcmp(column->name, "edited"))
        ap_rputs(text, report->r);
    else
        send_edited(list, row, text);
    return i;
}

static void send_smalls(const htc_list *list, const shape *s, int row)
{
    const char *separator = "<small>";
    request_rec *r = list->report->r;

    for (int i = 0; i < list->ncolumns; i++) {
        if ((i < MOST_SHAPED && s->shown[i]) || i == s->error ||
            !says_something(list->columns[i].type, htc_list_cell(list, row, i)))
            continue;
        i = send_small(list, row, i, separator);
        separator = " \xc2\xb7 ";
    }
    ap_rputs(*separator == '<' ? "" : "</small>", r);
}

static void send_first(const htc_list *list, const shape *s, int row)
{
    const htc_report *report = list->report;
    const htc_column *column = &list->columns[s->columns[0]];
    const htc_value *value = htc_list_cell(list, row, s->columns[0]);

    ap_rprintf(report->r, "<th scope=\"row\"%s>%s",
               is_number(column->type) ? sort_key(report, column->type, value) : "",
               htc_page_value(report, column->type, column->unit, value));
    if (s->error >= 0 && htc_list_cell(list, row, s->error)->text)
        ap_rprintf(report->r, "<strong class=\"error\">%s</strong>",
                   htc_page_text(report, htc_list_cell(list, row, s->error)->text));
    send_smalls(list, s, row);
    ap_rputs("</th>", report->r);
}

static void send_cell(const htc_list *list, int row, int i, bool warn)
{
    const htc_report *report = list->report;
    const htc_column *column = &list->columns[i];
    const htc_value *value = htc_list_cell(list, row, i);
    bool number = is_number(column->type);

    ap_rprintf(report->r, "<td%s data-l=\"%s\"%s>%s</td>",
               !number                 ? ""
               : warn && value->number ? " class=\"n warn\""
                                       : " class=\"n\"",
               column->title, number ? sort_key(report, column->type, value) : "",
               htc_page_value(report, column->type, column->unit, value));
}

/* --- lists ------------------------------------------------------------------------------------*/

static void send_titles(const htc_list *list, const shape *s)
{
    const htc_report *report = list->report;

    ap_rputs("<thead><tr>", report->r);
    for (int i = 0; i < s->n; i++) {
        const htc_column *column = &list->columns[s->columns[i]];

        ap_rprintf(report->r, "<th scope=\"col\"%s title=\"%s\">%s</th>",
                   i && is_number(column->type) ? " class=\"n\"" : "",
                   htc_page_text(report, column->help), column->title);
    }
    ap_rputs("</tr></thead>", report->r);
}

int htc_page_rows(const htc_list *list, htc_page_filter *filter, const char *id)
{
    request_rec *r = list->report->r;
    int sent = 0;
    shape s;

    set_shape(&s, list);
    for (int row = 0; row < htc_list_rows(list); row++) {
        if (filter && !filter(list, row))
            continue;
        if (!sent++) {
            ap_rprintf(r, "<table class=\"rows l-%s\" id=\"%s\">", list->name, id);
            send_titles(list, &s);
            ap_rputs("<tbody>\n", r);
        }
        ap_rputs(s.error >= 0 && htc_list_cell(list, row, s.error)->text ? "<tr class=\"bad\">"
                                                                         : "<tr>",
                 r);
        send_first(list, &s, row);
        for (int i = 1; i < s.n; i++)
            send_cell(list, row, s.columns[i], s.columns[i] == s.warn);
        ap_rputs("</tr>\n", r);
    }
    if (sent)
        ap_rputs("</tbody></table>\n", r);
    return sent;
}

void htc_page_list(const htc_list *list, bool folded, bool open)
{
    const htc_report *report = list->report;
    const char *count = htc_page_number(report->pool, HTC_UNIT_ONE, (uint64_t)htc_list_rows(list));

    if (!htc_list_rows(list))
        return;
    ap_rprintf(report->r,
               folded ? "<details id=\"d-%s\"%s><summary>%s<span>%s \xc2\xb7 %s</span></summary>\n"
                      : "<section id=\"s-%s\"%s><h2>%s<span>%s \xc2\xb7 %s</span></h2>\n",
               list->name, folded && open ? " open" : "", list->title,
               htc_page_text(report, list->help), count);
    htc_page_rows(list, NULL, apr_pstrcat(report->pool, "t-", list->name, NULL));
    ap_rputs(folded ? "</details>\n" : "</section>\n", report->r);
}

/* --- groups -----------------------------------------------------------------------------------*/

static void send_figure(const htc_report *report, const htc_figure *figure)
{
    ap_rprintf(
        report->r,
        "<tr><th scope=\"row\">%s</th><td class=\"%s\">%s</td><td class=\"help\">%s</td></tr>\n",
        figure->name, is_number(figure->type) ? "n" : "t",
        htc_page_value(report, figure->type, figure->unit, &figure->value),
        htc_page_text(report, figure->help));
}

/* Lists of several groups may have one name. */
static void send_group_list(const htc_group *group, const htc_list *list)
{
    const htc_report *report = group->report;

    if (!htc_list_rows(list))
        return;
    ap_rprintf(report->r, "<h3>%s<span>%s \xc2\xb7 %d</span></h3>\n", list->title,
               htc_page_text(report, list->help), htc_list_rows(list));
    htc_page_rows(list, NULL, apr_pstrcat(report->pool, "t-", group->name, "-", list->name, NULL));
}

void htc_page_group(const htc_group *group, bool open)
{
    const htc_report *report = group->report;

    ap_rprintf(report->r, "<details id=\"d-%s\"%s><summary>%s<span>%s</span></summary>\n",
               group->name, open ? " open" : "", group->title, htc_page_text(report, group->help));
    if (group->figures->nelts) {
        ap_rputs("<table class=\"figures\"><tbody>\n", report->r);
        for (int i = 0; i < group->figures->nelts; i++)
            send_figure(report, &APR_ARRAY_IDX(group->figures, i, htc_figure));
        ap_rputs("</tbody></table>\n", report->r);
    }
    for (int i = 0; i < group->lists->nelts; i++)
        send_group_list(group, APR_ARRAY_IDX(group->lists, i, htc_list *));
    ap_rputs("</details>\n", report->r);
}
