/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The top of the page: whether the cache works, what it saves, what is to be done, and the figures
 * that say most. Made from the report's own figures. Called by status/html.c.
 */
#include "status/internal.h"

#include "http_protocol.h"

/* Of so few there is nothing to say yet. */
#define FEW_LOOKUPS 100

static bool is_on(const htc_report *report)
{
    return !strcmp(report->state, "on");
}

static int problems_of(const htc_report *report)
{
    const htc_list *problems = htc_page_find_list(report, "problems");

    return problems ? htc_list_rows(problems) : 0;
}

const char *htc_page_state(const htc_report *overview, const char **text)
{
    int problems = problems_of(overview);

    *text = "on";
    if (!is_on(overview)) {
        *text = "off";
        return "off";
    }
    if (!problems)
        return "on";
    *text = apr_psprintf(overview->pool, "on, %d problem%s", problems, problems > 1 ? "s" : "");
    return "warn";
}

/* --- the sentence -----------------------------------------------------------------------------*/

static const char *count(const htc_report *report, const char *group, const char *name)
{
    return htc_page_number(report->pool, HTC_UNIT_ONE, htc_page_figure(report, group, name));
}

/* "about 12 s of processor time and ", or nothing when no parse was timed or saved. */
static const char *processor_time(const htc_report *report)
{
    const htc_figure *us = htc_report_figure(report, "saved", "processor_us");

    if (!us || us->value.number == HTC_UNKNOWN || !us->value.number)
        return "";
    return apr_psprintf(report->pool, "about %s of processor time and ",
                        htc_page_number(report->pool, HTC_UNIT_US, us->value.number));
}

/* An answer from the cache may need one. httpd alone makes none, but opens the file. */
static const char *comparisons(const htc_report *report)
{
    uint64_t n = htc_page_figure(report, "htaccess", "file_stats");

    return n ? apr_psprintf(report->pool, ", compared files with the disk %s time%s",
                            count(report, "htaccess", "file_stats"), n == 1 ? "" : "s")
             : "";
}

static void send_savings(const htc_report *report)
{
    const htc_figure *ratio = htc_report_figure(report, "htaccess", "hit_ratio");
    const char *since = htc_page_time(report, htc_page_figure(report, "server", "counting_since"));
    uint64_t lookups = htc_page_figure(report, "htaccess", "lookups");
    uint64_t saved = htc_page_figure(report, "saved", "file_operations");

    if (lookups < FEW_LOOKUPS) {
        ap_rprintf(report->r,
                   ", and has saved next to nothing: requests made %s look-up%s since %s. ",
                   count(report, "htaccess", "lookups"), lookups == 1 ? "" : "s", since);
        return;
    }
    ap_rprintf(report->r,
               ": since %s it spared httpd opening and parsing .htaccess files in %s of %s "
               "look-ups%s, and so saved %s%s file operations. ",
               since, htc_page_percent(report->pool, ratio ? ratio->value.ratio : -1),
               count(report, "htaccess", "lookups"), comparisons(report), processor_time(report),
               saved ? count(report, "saved", "file_operations") : "no");
}

/* --- what is to be done -----------------------------------------------------------------------*/

static void send_problem(const htc_list *list, int row)
{
    const htc_report *report = list->report;

    ap_rprintf(report->r, "<li><b>%s</b><span>%s</span></li>\n",
               htc_page_text(report, htc_list_cell(list, row, 0)->text),
               htc_page_text(report, htc_list_cell(list, row, 1)->text));
}

/* The state itself is said by the sentence. */
static bool is_said(const htc_report *report, const htc_list *list, int row)
{
    const char *text = htc_list_cell(list, row, 0)->text;

    return !is_on(report) && text && strstr(text, report->state);
}

static int send_problems(const htc_report *report, const htc_list *list)
{
    int sent = 0;

    for (int row = 0; list && row < htc_list_rows(list); row++) {
        if (is_said(report, list, row))
            continue;
        ap_rputs(sent++ ? "" : "<ul class=\"problems\">\n", report->r);
        send_problem(list, row);
    }
    ap_rputs(sent ? "</ul>\n" : "", report->r);
    return sent;
}

/* What the list of problems says about the state; NULL: nothing. */
static const char *advice_when_off(const htc_report *report, const htc_list *problems)
{
    for (int row = 0; problems && row < htc_list_rows(problems); row++) {
        if (is_said(report, problems, row))
            return htc_list_cell(problems, row, 1)->text;
    }
    return NULL;
}

static void send_why_off(const htc_report *report, const htc_list *problems)
{
    const char *why = report->state + (strncmp(report->state, "off: ", 5) ? 0 : 5);
    const char *advice = advice_when_off(report, problems);

    ap_rprintf(report->r, " and saves nothing: %s. ", htc_page_text(report, why));
    if (advice)
        ap_rprintf(report->r, "<b>What to do:</b> %s.</p>\n", htc_page_text(report, advice));
    else
        ap_rputs("</p>\n", report->r);
}

/* Files that cost more than they need to: nothing is wrong with that. */
static int asking(const htc_report *report)
{
    const htc_list *list = htc_page_find_list(report, "dearest");
    int asks = list ? htc_page_column(list, "asks") : -1, n = 0;

    for (int row = 0; asks >= 0 && row < htc_list_rows(list); row++)
        n += htc_list_cell(list, row, asks)->number != 0;
    return n;
}

static void send_verdict(const htc_report *report)
{
    int problems = problems_of(report), n = asking(report);

    if (problems) {
        ap_rprintf(report->r,
                   problems > 1 ? "<b>%d things to do:</b></p>\n" : "<b>One thing to do:</b></p>\n",
                   problems);
        return;
    }
    ap_rputs("<b>Nothing to do.</b>", report->r);
    if (n)
        ap_rprintf(report->r, " <a href=\"#s-directories\">%d director%s could cost less.</a>", n,
                   n > 1 ? "ies" : "y");
    ap_rputs("</p>\n", report->r);
}

void htc_page_lead(const htc_report *report)
{
    const htc_list *problems = htc_page_find_list(report, "problems");
    const char *text, *state = htc_page_state(report, &text);

    ap_rprintf(report->r, "<section id=\"s-lead\" class=\"lead %s\"><p><b>The cache %s</b>", state,
               is_on(report) ? "works" : "is off");
    if (is_on(report)) {
        send_savings(report);
        send_verdict(report);
    } else {
        send_why_off(report, problems);
    }
    send_problems(report, problems);
    ap_rputs("</section>\n", report->r);
}

/* --- cards ------------------------------------------------------------------------------------*/

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

static const char *percent(const htc_report *report, const char *group)
{
    const htc_figure *ratio = htc_report_figure(report, group, "hit_ratio");

    return htc_page_percent(report->pool, ratio ? ratio->value.ratio : -1);
}

/* Records, and what httpd makes of them. */
static void send_memory(const htc_report *report)
{
    uint64_t used = htc_page_figure(report, "htaccess", "bytes_used") +
                    htc_page_figure(report, "shared", "bytes_used");
    uint64_t total = htc_page_figure(report, "htaccess", "bytes_total") +
                     htc_page_figure(report, "shared", "bytes_total");

    ap_rprintf(report->r, "<div class=\"card\"><h2>Shared memory</h2><strong>%s</strong>",
               htc_page_number(report->pool, HTC_UNIT_BYTES, used));
    htc_bar(report, used, total);
    ap_rprintf(report->r, "<p>of %s; %s evictions</p></div>\n",
               htc_page_number(report->pool, HTC_UNIT_BYTES, total),
               count(report, "htaccess", "evictions"));
}

static const char *saved_time(const htc_report *report)
{
    const htc_figure *us = htc_report_figure(report, "saved", "processor_us");

    return htc_page_number(report->pool, HTC_UNIT_US, us ? us->value.number : HTC_UNKNOWN);
}

/* ", at 19 us"; or nothing when no parse was timed. */
static const char *parse_time(const htc_report *report)
{
    const htc_figure *us = htc_report_figure(report, "saved", "parse_us");

    if (!us || us->value.number == HTC_UNKNOWN)
        return "";
    return apr_pstrcat(report->pool, ", at ",
                       htc_page_number(report->pool, HTC_UNIT_US, us->value.number), NULL);
}

void htc_page_cards(const htc_report *report)
{
    if (!report->store)
        return;
    ap_rputs("<div id=\"s-cards\" class=\"cards\">\n", report->r);
    send_card(report, "Answered from the cache", percent(report, "htaccess"),
              "%s in the last 5 minutes", percent(report, "recent"));
    send_card(report, "Processor time saved", saved_time(report), "%s parses%s",
              count(report, "saved", "parses"), parse_time(report));
    send_card(report, "File operations saved", count(report, "saved", "file_operations"),
              "of %s that httpd alone would make", count(report, "htaccess", "lookups"));
    send_card(report, "File operations made", count(report, "saved", "file_operations_made"),
              "%s of them to compare a file", count(report, "htaccess", "file_stats"));
    send_memory(report);
    send_card(report, "Directories known", count(report, "htaccess", "entries"),
              "%s without a file, %s left to httpd", count(report, "htaccess", "entries_absent"),
              count(report, "htaccess", "entries_stock"));
    ap_rputs("</div>\n", report->r);
}
