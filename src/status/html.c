/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report as a page for people: what is wrong, a few big figures, the last hour, then all groups
 * and lists. Called by the handler in status/status.c.
 */
#include "base/base.h"
#include "redirects/redirects.h"
#include "status/internal.h"

#include "http_protocol.h"

/* "" for NULL. */
static const char *html_text(const htc_report *report, const char *text)
{
    return text ? htc_escape_html(report->pool, text) : "";
}

/* --- values -----------------------------------------------------------------------------------*/

static const char *value_text(const htc_report *report, htc_type type, htc_unit unit,
                              const htc_value *value)
{
    switch (type) {
    case HTC_TEXT:
        return html_text(report, value->text);
    case HTC_FLAG:
        return value->number ? "yes" : "no";
    case HTC_RATIO:
        return value->ratio < 0 ? "\xe2\x80\x93"
                                : apr_psprintf(report->pool, "%.2f %%", 100.0 * value->ratio);
    case HTC_TIME:
        return value->number ? ap_ht_time(report->pool,
                                          apr_time_from_sec((apr_time_t)value->number), "%F %T", 0)
                             : "never";
    default:
        return htc_page_number(report->pool, unit, value->number);
    }
}

static bool is_number(htc_type type)
{
    return type == HTC_COUNTER || type == HTC_GAUGE || type == HTC_RATIO;
}

/* One cell; what a script sorts by stands beside what is shown. */
static void send_cell(const htc_report *report, htc_type type, htc_unit unit,
                      const htc_value *value)
{
    const char *text = value_text(report, type, unit, value);
    request_rec *r = report->r;

    if (type == HTC_RATIO)
        ap_rprintf(r, "<td class=\"n\" data-v=\"%.6f\">%s</td>", value->ratio, text);
    else if (is_number(type) || type == HTC_TIME)
        ap_rprintf(r, "<td class=\"n\" data-v=\"%" APR_UINT64_T_FMT "\">%s</td>",
                   (apr_uint64_t)(value->number == HTC_UNKNOWN ? 0 : value->number), text);
    else
        ap_rprintf(r, "<td class=\"%s\">%s</td>", type == HTC_TEXT ? "t" : "f", text);
}

/* --- lists and groups -------------------------------------------------------------------------*/

static void send_rows(const htc_list *list)
{
    const htc_report *report = list->report;
    request_rec *r = report->r;

    ap_rprintf(r, "<div class=\"scroll\"><table class=\"sortable\" id=\"t-%s\"><thead><tr>",
               list->name);
    for (int i = 0; i < list->ncolumns; i++) {
        htc_type type = list->columns[i].type;

        ap_rprintf(r, "<th scope=\"col\" class=\"%s\" title=\"%s\">%s</th>",
                   is_number(type) || type == HTC_TIME ? "n" : "t",
                   html_text(report, list->columns[i].help), list->columns[i].title);
    }
    ap_rputs("</tr></thead><tbody>\n", r);
    for (int row = 0; row < htc_list_rows(list); row++) {
        ap_rputs("<tr>", r);
        for (int i = 0; i < list->ncolumns; i++)
            send_cell(report, list->columns[i].type, list->columns[i].unit,
                      htc_list_cell(list, row, i));
        ap_rputs("</tr>\n", r);
    }
    ap_rputs("</tbody></table></div>\n", r);
}

static void send_list(const htc_list *list)
{
    request_rec *r = list->report->r;
    bool folded = (list->flags & HTC_LIST_FOLDED) != 0;

    if (!htc_list_rows(list))
        return;
    ap_rprintf(r,
               folded ? "<section><details id=\"d-%s\"><summary>%s<span>%s, %d</span></summary>\n"
                      : "<section id=\"s-%s\"><h2>%s<span>%s, %d</span></h2>\n",
               list->name, list->title, html_text(list->report, list->help), htc_list_rows(list));
    send_rows(list);
    ap_rputs(folded ? "</details></section>\n" : "</section>\n", r);
}

static bool is_problems(const htc_list *list)
{
    return !strcmp(list->name, "problems");
}

static void send_group(const htc_group *group)
{
    const htc_report *report = group->report;
    request_rec *r = report->r;

    /* A group that only counts the rows of its list has nothing more to say than the list. */
    for (int i = 0; group->figures->nelts <= 1 && i < group->lists->nelts; i++)
        send_list(APR_ARRAY_IDX(group->lists, i, htc_list *));
    if (group->figures->nelts <= 1)
        return;
    ap_rprintf(r,
               "<section><details id=\"d-%s\"%s><summary>%s<span>%s</span></summary>\n"
               "<table class=\"figures\"><tbody>\n",
               group->name, !strcmp(group->name, "explain") ? " open" : "", group->title,
               html_text(report, group->help));
    for (int i = 0; i < group->figures->nelts; i++) {
        const htc_figure *figure = &APR_ARRAY_IDX(group->figures, i, htc_figure);

        ap_rprintf(r, "<tr><th scope=\"row\">%s</th>", figure->name);
        send_cell(report, figure->type, figure->unit, &figure->value);
        ap_rprintf(r, "<td class=\"help\">%s</td></tr>\n", html_text(report, figure->help));
    }
    ap_rputs("</tbody></table>\n</details></section>\n", r);
    for (int i = 0; i < group->lists->nelts; i++)
        send_list(APR_ARRAY_IDX(group->lists, i, htc_list *));
}

/* --- the top ----------------------------------------------------------------------------------*/

static uint64_t number_of(const htc_report *report, const char *group, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, group, name);

    return figure ? figure->value.number : 0;
}

static double ratio_of(const htc_report *report, const char *group, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, group, name);

    return figure ? figure->value.ratio : -1;
}

static const char *percent(const htc_report *report, double ratio)
{
    if (ratio < 0)
        return "\xe2\x80\x93";
    return apr_psprintf(report->pool, ratio > 0.9995 && ratio < 1 ? "%.3f %%" : "%.1f %%",
                        100.0 * ratio);
}

static void send_card(const htc_report *report, const char *title, const char *big,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

static void send_card(const htc_report *report, const char *title, const char *big,
                      const char *format, ...)
{
    va_list args;

    va_start(args, format);
    ap_rprintf(report->r, "<div class=\"card\"><h2>%s</h2><strong>%s</strong><p>", title, big);
    ap_vrprintf(report->r, format, args);
    va_end(args);
    ap_rputs("</p></div>\n", report->r);
}

static const char *big(const htc_report *report, htc_unit unit, uint64_t number)
{
    return htc_page_number(report->pool, unit, number);
}

static void send_cards(const htc_report *report)
{
    uint64_t used = number_of(report, "htaccess", "bytes_used");
    uint64_t total = number_of(report, "htaccess", "bytes_total");
    uint64_t saved = number_of(report, "htaccess", "hits") +
                     number_of(report, "htaccess", "absent_hits") +
                     number_of(report, "htaccess", "replays");

    ap_rputs("<div class=\"cards\">\n", report->r);
    send_card(report, "Hit ratio", percent(report, ratio_of(report, "recent", "hit_ratio")),
              "in 5 minutes; %s since start",
              percent(report, ratio_of(report, "htaccess", "hit_ratio")));
    send_card(report, "Opens saved",
              big(report, HTC_UNIT_ONE, number_of(report, "recent", "saved_opens")),
              "in 5 minutes; %s since start", big(report, HTC_UNIT_ONE, saved));
    send_card(report, "Parses saved",
              big(report, HTC_UNIT_ONE, number_of(report, "recent", "saved_parses")),
              "in 5 minutes; %s since start",
              big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "hits")));
    send_card(
        report, "Disk asked",
        big(report, HTC_UNIT_ONE,
            number_of(report, "recent", "file_stats") + number_of(report, "recent", "file_reads")),
        "in 5 minutes; %s stat, %s open since start",
        big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "file_stats")),
        big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "file_reads")));
    ap_rprintf(report->r, "<div class=\"card\"><h2>Shared memory</h2><strong>%s</strong>",
               big(report, HTC_UNIT_BYTES, used));
    htc_bar(report, used, total);
    ap_rprintf(report->r, "<p>of %s, %s evictions</p></div>\n", big(report, HTC_UNIT_BYTES, total),
               big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "evictions")));
    send_card(report, "Entries",
              big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "entries")),
              "%s absent, %s parsed, %s left to httpd",
              big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "entries_absent")),
              big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "entries_parsed")),
              big(report, HTC_UNIT_ONE, number_of(report, "htaccess", "entries_stock")));
    ap_rputs("</div>\n", report->r);
}

static void send_head(const htc_report *report)
{
    bool live = htc_report_figure(report, "server", "now") != NULL;
    bool on = !strcmp(report->state, "on");

    ap_rprintf(report->r,
               "<!DOCTYPE html>\n<html lang=\"en\"%s>\n<head>\n<meta charset=\"UTF-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
               "<meta name=\"robots\" content=\"noindex\">\n<title>mod_htcache</title>\n%s"
               "<link rel=\"stylesheet\" href=\"?asset=style\">\n"
               "<script src=\"?asset=script\" defer></script>\n</head>\n<body>\n",
               live ? " data-live" : "",
               live ? "<noscript><meta http-equiv=\"refresh\" content=\"10\"></noscript>\n" : "");
    ap_rprintf(report->r,
               "<header><h1>mod_htcache <small>%s</small></h1><span class=\"pill %s\">%s</span>"
               "<span class=\"dim\">%s</span><nav><a href=\"?\">Overview</a><a "
               "href=\"?redirects=top\">Redirects</a><a "
               "href=\"?directories=cost\">Directories</a><a href=\"?format=json\">JSON</a>"
               "<a href=\"?format=prometheus\">Prometheus</a></nav></header>\n<main>\n",
               HTC_VERSION, on ? "on" : "off", html_text(report, report->state),
               ap_ht_time(report->pool, report->now, "%F %T %Z", 0));
}

static void send_form(const htc_report *report)
{
    ap_rputs("<section><h2>Why does a URL go where it goes?</h2>\n<form method=\"get\">"
             "<input name=\"explain\" aria-label=\"URL\" placeholder=\"/path or "
             "https://host/path?query\" required><button>Explain</button></form></section>\n",
             report->r);
}

#define TOP_REDIRECTS 5

static void send_redirects(const htc_report *report)
{
    static const char links[] = "<a href=\"?redirects=top\">most used</a>, "
                                "<a href=\"?redirects=unused\">never used</a>";
    htc_redirect_totals totals;
    const htc_list *top = htc_redirects_most(htc_report_empty(report->r), TOP_REDIRECTS, &totals);
    uint64_t used = totals.used + totals.htaccess;

    if (!totals.all && !used)
        return;
    ap_rprintf(report->r,
               "<section id=\"s-redirects\"><h2>Redirects that answer most<span>%s have answered, "
               "%s never have%s: %s</span></h2>\n",
               big(report, HTC_UNIT_ONE, used), big(report, HTC_UNIT_ONE, totals.all - totals.used),
               totals.htaccess ? " outside of .htaccess files" : "", links);
    if (used)
        send_rows(top);
    ap_rputs("</section>\n", report->r);
}

/* Ahead of everything else. */
static void send_problems(const htc_report *report)
{
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_list *list = APR_ARRAY_IDX(report->sections, i, htc_report_section).list;

        for (int row = 0; list && is_problems(list) && row < htc_list_rows(list); row++)
            ap_rprintf(report->r, "<p class=\"problem\"><b>%s</b>%s</p>\n",
                       html_text(report, htc_list_cell(list, row, 0)->text),
                       html_text(report, htc_list_cell(list, row, 1)->text));
    }
}

void htc_status_html(const htc_report *report)
{
    send_head(report);
    send_problems(report);
    if (htc_report_figure(report, "htaccess", "lookups")) {
        send_cards(report);
        htc_plots(report);
    }
    if (!htc_report_figure(report, "redirects", "total"))
        send_form(report);
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        if (section->group)
            send_group(section->group);
        else if (!is_problems(section->list))
            send_list(section->list);
    }
    if (htc_report_figure(report, "htaccess", "lookups"))
        send_redirects(report);
    ap_rputs("</main>\n<footer>Figures since the last restart of httpd. They are explained in "
             "docs/status.md.</footer>\n</body>\n</html>\n",
             report->r);
}
