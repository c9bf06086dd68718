/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * ?explain= for people: the form with what was typed, the outcome large, and how it came to that,
 * folded. Takes what the report has of the names it knows. Called by status/html.c.
 */
#include "status/internal.h"

#include "http_protocol.h"

#define GROUP "explain"

void htc_page_explain_form(const htc_report *report)
{
    const char *url = htc_page_figure_text(report, GROUP, "url");

    ap_rprintf(report->r,
               "<section id=\"s-explain\"><h2><label for=\"url\">Why does a URL go where it goes?"
               "</label></h2>\n<form method=\"get\"><input id=\"url\" name=\"explain\" "
               "type=\"text\" inputmode=\"url\" autocapitalize=\"off\" autocomplete=\"off\" "
               "spellcheck=\"false\" placeholder=\"/path or https://host/path?query\" "
               "value=\"%s\" required><button>Explain</button></form></section>\n",
               htc_page_text(report, url));
}

/* "301 to ...", "200 /srv/www/page.html", "404 Not Found"; without a status the answer's sentence. */
static void send_answer(const htc_report *report)
{
    uint64_t status = htc_page_figure(report, GROUP, "status");
    const char *location = htc_page_figure_text(report, GROUP, "location");
    const char *file = htc_page_figure_text(report, GROUP, "file");
    request_rec *r = report->r;

    if (status < 100 || status > 999) {
        ap_rputs(htc_page_text(report, htc_page_figure_text(report, GROUP, "answer")), r);
        return;
    }
    ap_rprintf(r, "<b class=\"status s%u\">%u</b> ", (unsigned)(status / 100), (unsigned)status);
    if (location)
        ap_rprintf(r, "to %s", htc_page_text(report, location));
    else if (status < 300 && file)
        ap_rputs(htc_page_text(report, file), r);
    else
        ap_rputs(htc_page_text(report, ap_get_status_line((int)status) + 4), r);
}

static void send_place(const htc_report *report)
{
    const char *file = htc_page_figure_text(report, GROUP, "answered_by");
    const char *edit = htc_page_figure_text(report, GROUP, "answered_edit");
    uint64_t line = htc_page_figure(report, GROUP, "answered_line");

    if (file && edit)
        ap_rprintf(report->r,
                   "<p class=\"place\">from <code>%s</code>, edited row <code>%s</code></p>\n",
                   htc_page_text(report, file), htc_page_text(report, edit));
    else if (file && line)
        ap_rprintf(
            report->r, "<p class=\"place\">from <code>%s</code> %s %" APR_UINT64_T_FMT "</p>\n",
            htc_page_text(report, file),
            htc_page_figure(report, GROUP, "answered_by_row") ? "row" : "line", (apr_uint64_t)line);
    else if (file)
        ap_rprintf(report->r, "<p class=\"place\">from <code>%s</code></p>\n",
                   htc_page_text(report, file));
    else if (!htc_report_figure(report, GROUP, "answered_by") &&
             htc_page_figure(report, GROUP, "status"))
        ap_rprintf(report->r, "<p class=\"place\">%s</p>\n",
                   htc_page_text(report, htc_page_figure_text(report, GROUP, "answer")));
}

static bool is_no(const htc_report *report, const char *name)
{
    const htc_figure *figure = htc_report_figure(report, GROUP, name);

    return figure && figure->type == HTC_FLAG && !figure->value.number;
}

static void send_doubts(const htc_report *report)
{
    if (is_no(report, "complete"))
        ap_rputs("<p class=\"doubt\">Not all was examined: see the notes.</p>\n", report->r);
    else if (is_no(report, "certain"))
        ap_rputs("<p class=\"doubt\">Not certain: see the notes.</p>\n", report->r);
}

static void send_notes(const htc_list *notes)
{
    request_rec *r = notes->report->r;

    if (!htc_list_rows(notes))
        return;
    ap_rputs("<ul class=\"notes\">\n", r);
    for (int row = 0; row < htc_list_rows(notes); row++)
        ap_rprintf(r, "<li>%s</li>\n",
                   htc_page_text(notes->report, htc_list_cell(notes, row, 0)->text));
    ap_rputs("</ul>\n", r);
}

static void send_outcome(const htc_report *report)
{
    const htc_list *notes = htc_page_find_list(report, "notes");

    ap_rputs("<section id=\"s-outcome\" class=\"outcome\"><p class=\"answer\">", report->r);
    send_answer(report);
    ap_rputs("</p>\n", report->r);
    send_place(report);
    send_doubts(report);
    if (notes)
        send_notes(notes);
    ap_rputs("</section>\n", report->r);
}

/* A list that is no group's, but for what stands with the outcome. */
static void send_steps(const htc_report *report)
{
    ap_rputs("<section id=\"s-how\">\n", report->r);
    for (int i = 0; i < report->sections->nelts; i++) {
        const htc_report_section *section = &APR_ARRAY_IDX(report->sections, i, htc_report_section);

        if (section->group)
            htc_page_group(section->group, false);
        else if (strcmp(section->list->name, "notes"))
            htc_page_list(section->list, true, false);
    }
    ap_rputs("</section>\n", report->r);
}

void htc_page_explain(const htc_report *report)
{
    htc_page_explain_form(report);
    if (!htc_page_figure_text(report, GROUP, "answer")) {
        ap_rprintf(report->r,
                   "<section id=\"s-outcome\" class=\"outcome\"><p class=\"answer\">%s</p>"
                   "<p class=\"place\">%s</p></section>\n",
                   htc_page_text(report, htc_page_figure_text(report, GROUP, HTC_EXPLAIN_WRONG)),
                   htc_page_text(report, htc_page_figure_text(report, GROUP, HTC_EXPLAIN_HINT)));
        return;
    }
    send_outcome(report);
    send_steps(report);
}
