/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Single redirects on the page: tabs for those that answer most and those that never did, a search
 * field, since when they are counted, and the rows. The same on the overview (?tab=) and on a page of
 * its own (?redirects=), which has longer lists. Called by status/html.c.
 */
#include "redirects/redirects.h"
#include "status/internal.h"

#include "http_protocol.h"

static const struct tab {
    const char *order, *title, *none;
} tabs[] = {
    {"top", "Most used", "No redirect has answered"},
    {"unused", "Never used", "Each redirect has answered at least once"},
    {"missing", "Not found", "No page that was asked for is missing"},
};

#define NTABS (sizeof(tabs) / sizeof(tabs[0]))

/* A list of redirects as the page links to it. */
typedef struct place {
    const htc_report *report;
    const char *parameter; /* "tab" on the overview, "redirects" on the page of its own */
    const char *order, *search;
    uint64_t offset, limit, total;
} place;

static bool is_missing(const htc_report *report)
{
    return htc_report_figure(report, "missing", "total") != NULL;
}

static bool counts_missing(const htc_report *report)
{
    return is_missing(report) || htc_missing_of(report->server);
}

static place place_of(const htc_report *report)
{
    bool overview = htc_report_figure(report, "server", "now") != NULL;
    const char *group = is_missing(report) ? "missing" : "redirects";

    return (place){.report = report,
                   .parameter = overview ? "tab" : "redirects",
                   .order =
                       is_missing(report) ? group : htc_page_figure_text(report, group, "order"),
                   .search = htc_page_figure_text(report, group, "search"),
                   .offset = htc_page_figure(report, group, "offset"),
                   .limit = htc_page_figure(report, group, "limit"),
                   .total = htc_page_figure(report, group, "total")};
}

static const char *number(const htc_report *report, uint64_t n)
{
    return htc_page_number(report->pool, HTC_UNIT_ONE, n);
}

/* "&amp;search=..." for a link; "" without one. */
static const char *search_part(const place *p)
{
    return p->search ? apr_pstrcat(p->report->pool, "&amp;search=",
                                   htc_page_text(p->report,
                                                 ap_escape_urlencoded(p->report->pool, p->search)),
                                   NULL)
                     : "";
}

static void send_tabs(const place *p)
{
    request_rec *r = p->report->r;

    ap_rputs("<nav class=\"tabs\" aria-label=\"Redirects\">", r);
    for (size_t i = 0; i < NTABS; i++) {
        if (!strcmp(tabs[i].order, "missing") && !counts_missing(p->report))
            continue;
        ap_rprintf(r, "<a href=\"?%s=%s%s#s-redirects\"%s>%s</a>", p->parameter, tabs[i].order,
                   search_part(p), strcmp(tabs[i].order, p->order) ? "" : " aria-current=\"page\"",
                   tabs[i].title);
    }
    ap_rputs("</nav>\n", r);
}

static void send_search(const place *p)
{
    ap_rprintf(p->report->r,
               "<form method=\"get\" class=\"search\" role=\"search\"><input type=\"hidden\" "
               "name=\"%s\" value=\"%s\"><input type=\"search\" name=\"search\" id=\"search\" "
               "aria-label=\"Search the redirects\" placeholder=\"Search: path, target, file\" "
               "value=\"%s\"><button>Search</button></form>\n",
               p->parameter, p->order, htc_page_text(p->report, p->search));
}

/* A part of the list from @a offset on, on the page of its own. */
static void send_link(const place *p, uint64_t offset, const char *title)
{
    ap_rprintf(p->report->r,
               " <a href=\"?redirects=%s%s&amp;offset=%" APR_UINT64_T_FMT
               "&amp;limit=%" APR_UINT64_T_FMT "\">%s</a>",
               p->order, search_part(p), (apr_uint64_t)offset, (apr_uint64_t)p->limit, title);
}

static void send_more(const place *p, uint64_t shown)
{
    request_rec *r = p->report->r;
    uint64_t next = p->offset + shown;

    if (!p->offset && next >= p->total)
        return;
    ap_rprintf(r, "<p class=\"more\">%s to %s of %s", number(p->report, p->offset + 1),
               number(p->report, next), number(p->report, p->total));
    if (!strcmp(p->parameter, "tab"))
        ap_rprintf(r, " <a href=\"?redirects=%s%s\">Show more</a>", p->order, search_part(p));
    else {
        if (p->offset)
            send_link(p, p->offset > p->limit ? p->offset - p->limit : 0, "Previous");
        if (shown && next < p->total)
            send_link(p, next, "Next");
    }
    ap_rputs("</p>\n", r);
}

static void send_none(const place *p)
{
    const char *none = "There is none";

    for (size_t i = 0; !p->search && !p->offset && i < NTABS; i++)
        none = strcmp(tabs[i].order, p->order) ? none : tabs[i].none;
    ap_rprintf(p->report->r, "<p class=\"none\">%s%s.</p>\n",
               p->search ? "Nothing in this list has the text that was searched for" : none,
               !p->search && !strcmp(p->order, "top") ? " so far" : "");
}

/* "12 pages were asked for and not found. Counted since 13:15:30." */
static void send_missing_totals(const place *p)
{
    ap_rprintf(p->report->r,
               "<span>%s pages were asked for and not found. Counted since %s.</span>",
               number(p->report, p->total),
               htc_page_time(p->report, htc_page_figure(p->report, "missing", "counting_since")));
}

static const char *unseen(const htc_report *report, const htc_redirect_totals *totals)
{
    return totals->unseen
               ? apr_psprintf(report->pool,
                              " Of those that have, %s in .htaccess files are shown when "
                              "they answer again.",
                              number(report, totals->unseen))
               : "";
}

/* "343 have answered, 14 859 never have. Counted since 13:15:30." */
static void send_totals(const place *p, const htc_redirect_totals *totals)
{
    const htc_report *report = p->report;
    const htc_server_conf *sc = htc_server_conf_of(report->server);
    int64_t since = htc_redirect_counts_since(report->server);

    ap_rprintf(report->r, "<span>%s have answered, %s never have%s. Counted since %s.%s%s</span>",
               number(report, totals->used + totals->htaccess + totals->unseen),
               number(report, totals->all - totals->used),
               totals->htaccess || totals->unseen ? " outside of .htaccess files" : "",
               htc_page_time(report, since > 0 ? (uint64_t)since : 0), unseen(report, totals),
               sc->counters == 0 ? " HtCacheCounters is Off for this virtual host." : "");
}

static bool no_row(void *baton, const htc_redirect_row *row)
{
    (void)baton;
    (void)row;
    return false;
}

void htc_page_redirects(const htc_report *report)
{
    const htc_list *rows = htc_page_find_list(report, is_missing(report) ? "pages" : "rows");
    place p = place_of(report);
    htc_redirect_totals totals;
    uint64_t shown;

    if (!p.order || !rows)
        return;
    htc_redirect_most(report->server, report->pool, 1, no_row, NULL, &totals);
    if (!totals.all && !totals.htaccess && !totals.unseen && !counts_missing(report) &&
        !strcmp(p.parameter, "tab"))
        return;
    ap_rputs("<section id=\"s-redirects\"><h2>Redirects", report->r);
    if (is_missing(report))
        send_missing_totals(&p);
    else
        send_totals(&p, &totals);
    ap_rputs("</h2>\n<div class=\"tools\">\n", report->r);
    send_tabs(&p);
    send_search(&p);
    ap_rputs("</div>\n", report->r);
    shown = (uint64_t)htc_page_rows(rows, NULL, "t-rows");
    if (shown)
        send_more(&p, shown);
    else
        send_none(&p);
    ap_rputs("</section>\n", report->r);
}
