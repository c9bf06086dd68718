/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The report as a page for people: whether it works, the figures that say most, redirects,
 * directories that ask for something, the last hour, and behind folds all groups and lists. Called
 * by the handler in status/status.c.
 */
#include "status/internal.h"

#include "http_protocol.h"

static bool is_overview(const htc_report *report)
{
    return htc_report_figure(report, "server", "now") != NULL;
}

static bool has_group(const htc_report *report, const char *name)
{
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_group *group = APR_ARRAY_IDX(report->sections, i, htc_report_section).group;

        if (group && !strcmp(group->name, name))
            return true;
    }
    return false;
}

static bool is_about_redirects(const htc_report *report)
{
    return has_group(report, "redirects") || has_group(report, "missing");
}

/* --- the head ---------------------------------------------------------------------------------*/

static void send_head(const htc_report *report, const char *badge)
{
    ap_rprintf(report->r,
               "<!DOCTYPE html>\n<html lang=\"en\"%s>\n<head>\n<meta charset=\"UTF-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
               "<meta name=\"robots\" content=\"noindex\">\n<title>%s: mod_htcache</title>\n"
               "<link rel=\"stylesheet\" href=\"?asset=style\">\n"
               "<script src=\"?asset=script\" defer></script>\n</head>\n<body>\n",
               is_overview(report) ? " data-live" : "", badge);
}

/* A page of its own, and whether it is the one that is shown. */
static void send_link(const htc_report *report, const char *query, const char *title, bool here)
{
    ap_rprintf(report->r, "<a href=\"?%s\"%s>%s</a>", query, here ? " aria-current=\"page\"" : "",
               title);
}

static void send_header(const htc_report *report, const char *state, const char *badge)
{
    bool explains = has_group(report, "explain");

    ap_rprintf(report->r,
               "<header><h1>mod_htcache <small>%s</small></h1><span class=\"pill %s\">%s</span>"
               "<span class=\"dim\">%s</span>"
               "<span id=\"stale\" role=\"status\"></span><nav aria-label=\"Pages\">",
               HTC_VERSION, state, badge, ap_ht_time(report->pool, report->now, "%F %T %Z", 0));
    send_link(report, "", "Overview", is_overview(report));
    send_link(report, "redirects=top", "Redirects",
              !is_overview(report) && is_about_redirects(report));
    send_link(report, "directories=cost", "Directories",
              !is_overview(report) && !explains && !is_about_redirects(report));
    ap_rputs("</nav></header>\n<main>\n", report->r);
}

/* --- directories ------------------------------------------------------------------------------*/

static bool asks(const htc_list *list, int row)
{
    return htc_list_cell(list, row, htc_page_column(list, "asks"))->number != 0;
}

static bool asks_nothing(const htc_list *list, int row)
{
    return !asks(list, row);
}

/* The files that cost most: those that ask for something, and behind a fold the others. */
static void send_directories(const htc_report *report)
{
    const htc_list *list = htc_page_find_list(report, "dearest");
    request_rec *r = report->r;
    int others = 0;

    if (!list || !htc_list_rows(list))
        return;
    for (int row = 0; row < htc_list_rows(list); row++)
        others += asks_nothing(list, row);
    ap_rprintf(r,
               "<section id=\"s-directories\"><h2>Directories that cost most<span>those that ask "
               "for something to be done</span></h2>\n");
    if (!htc_page_rows(list, asks, "t-dearest"))
        ap_rputs("<p class=\"none\">None of them asks for anything.</p>\n", r);
    if (others)
        ap_rprintf(
            r, "<details id=\"d-dearest\"%s><summary>%d other%s, with nothing to do</summary>\n",
            is_overview(report) ? "" : " open", others, others > 1 ? "s" : "");
    if (others) {
        htc_page_rows(list, asks_nothing, "t-dearest-others");
        ap_rputs("</details>\n", r);
    }
    ap_rputs("</section>\n", r);
}

static void send_directory_tabs(const htc_report *report)
{
    bool freshness = has_group(report, "freshness");

    ap_rputs("<nav class=\"tabs alone\" id=\"s-tabs\" aria-label=\"Directories\">", report->r);
    send_link(report, "directories=cost", "Cost", !freshness);
    send_link(report, "directories=freshness", "Freshness", freshness);
    ap_rputs("</nav>\n", report->r);
}

static void send_freshness_page(const htc_report *report)
{
    const htc_list *list = htc_page_find_list(report, "listed");
    const htc_figure *next = htc_report_figure(report, "freshness", "next");

    if (list)
        htc_page_list(list, false, false);
    if (next && next->value.number != HTC_UNKNOWN)
        ap_rprintf(report->r,
                   "<p class=\"more\" id=\"s-next\"><a "
                   "href=\"?directories=freshness&amp;offset=%" APR_UINT64_T_FMT
                   "\">Next</a></p>\n",
                   (apr_uint64_t)next->value.number);
}

/* --- all of it --------------------------------------------------------------------------------*/

/* What has a place of its own on the page. */
static bool is_placed(const htc_report_section *section)
{
    static const char *const placed[] = {"redirects", "missing",  "costs",          "rows",
                                         "pages",     "problems", "redirect_tables"};
    const char *name = section->group ? section->group->name : section->list->name;

    for (size_t i = 0; i < sizeof(placed) / sizeof(placed[0]); i++) {
        if (!strcmp(name, placed[i]))
            return true;
    }
    return false;
}

static void send_everything(const htc_report *report)
{
    ap_rputs("<section id=\"s-all\"><h2>All figures<span>explained in docs/status.md</span></h2>\n",
             report->r);
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        if (is_placed(section))
            continue;
        if (section->group)
            htc_page_group(section->group, false);
        else
            htc_page_list(section->list, true, false);
    }
    ap_rputs("</section>\n", report->r);
}

static void send_overview(const htc_report *report)
{
    const htc_list *maps = htc_page_find_list(report, "redirect_tables");

    htc_page_lead(report);
    htc_page_cards(report);
    htc_page_redirects(report);
    if (maps)
        htc_page_list(maps, false, false);
    htc_page_explain_form(report);
    send_directories(report);
    htc_plots(report);
    send_everything(report);
}

static void send_main(const htc_report *report)
{
    if (is_overview(report)) {
        send_overview(report);
    } else if (has_group(report, "explain")) {
        htc_page_explain(report);
    } else if (is_about_redirects(report)) {
        htc_page_redirects(report);
    } else {
        send_directory_tabs(report);
        send_directories(report);
        send_freshness_page(report);
    }
}

void htc_status_html(const htc_report *report)
{
    const htc_report *overview = is_overview(report) ? report : htc_report_make(report->r, false);
    const char *badge, *state = htc_page_state(overview, &badge);

    send_head(report, badge);
    send_header(report, state, badge);
    send_main(report);
    ap_rputs("</main>\n<footer>Figures count since the last restart of httpd, those of redirects "
             "for longer. All of them as <a href=\"?format=json\">JSON</a> and for "
             "<a href=\"?format=prometheus\">Prometheus</a>.</footer>\n</body>\n</html>\n",
             report->r);
}
