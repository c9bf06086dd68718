/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file status/internal.h
 * The pieces of the page for people. status/html.c puts them in their order:
 *
 *   status/lead.c            the sentence on top, and the cards
 *   status/redirects_html.c  single redirects
 *   status/explain_html.c    the answer to ?explain=
 *   status/tables.c          groups and lists
 *   status/plot.c            plots
 *   status/page.c            numbers and texts
 *
 * page.css and page.js are sent as ?asset=style and ?asset=script. So the page has nothing inline,
 * and works below any Content-Security-Policy that allows the site itself.
 * Private to these and the handler.
 *
 * All that makes text returns HTML, escaped, in the report's pool.
 */
#ifndef HTC_STATUS_INTERNAL_H
#define HTC_STATUS_INTERNAL_H

#include "status/status.h"

/** page.css and page.js, as the build embeds them in page_files.c. */
extern const char htc_page_style[];
extern const char htc_page_script[];

/** Figures of the group "explain" where nothing could be explained: what was wrong. */
#define HTC_EXPLAIN_WRONG "wrong"
#define HTC_EXPLAIN_HINT  "hint"

/** What the page may load and do; sent with it. */
#define HTC_PAGE_POLICY                                                                         \
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action " \
    "'self'; base-uri 'none'; frame-ancestors 'none'"

/* --- status/page.c ----------------------------------------------------------------------------*/

/** "" for NULL. */
const char *htc_page_text(const htc_report *report, const char *text);
/** A number for people, with its unit. */
const char *htc_page_number(apr_pool_t *pool, htc_unit unit, uint64_t number);
/** "99.9 %": never more than it is, so 100 % means all. A dash for what is not known. */
const char *htc_page_percent(apr_pool_t *pool, double ratio);
/** A time of today without its date. */
const char *htc_page_time(const htc_report *report, uint64_t seconds);
const char *htc_page_value(const htc_report *report, htc_type type, htc_unit unit,
                           const htc_value *value);
/** What the report has; 0 when it has none of these names. */
uint64_t htc_page_figure(const htc_report *report, const char *group, const char *name);
/** The same of a text; NULL when there is none. */
const char *htc_page_figure_text(const htc_report *report, const char *group, const char *name);
/** The list of this name; NULL: the report has none. */
const htc_list *htc_page_find_list(const htc_report *report, const char *name);
/** The number of the column of this name; -1: there is none. */
int htc_page_column(const htc_list *list, const char *name);

/* --- status/tables.c --------------------------------------------------------------------------*/

/** Is this row to be shown? */
typedef bool htc_page_filter(const htc_list *list, int row);
/** A list's rows as a table; without a filter all of them. A row has the columns that say most; the
 * others stand small in its first cell. Sends nothing when there is no row. Returns how many. */
int htc_page_rows(const htc_list *list, htc_page_filter *filter, const char *id);
/** The list below its heading; folded: behind a fold, which is closed unless @a open. */
void htc_page_list(const htc_list *list, bool folded, bool open);
/** Figures and lists of a group behind a fold. */
void htc_page_group(const htc_group *group, bool open);

/* --- the parts --------------------------------------------------------------------------------*/

/* status/lead.c */
/** "on", "warn" or "off", a class of the style; *text: what the badge says. */
const char *htc_page_state(const htc_report *overview, const char **text);
/** Does it work, what does it save, what is to be done: the first thing on the page. */
void htc_page_lead(const htc_report *report);
void htc_page_cards(const htc_report *report);
/* status/redirects_html.c */
/** Nothing when the server has no redirects, or the report is not about them. */
void htc_page_redirects(const htc_report *report);
/* status/explain_html.c */
void htc_page_explain_form(const htc_report *report);
/** The answer, large; then what is behind it, folded. */
void htc_page_explain(const htc_report *report);
/* status/plot.c */
void htc_plots(const htc_report *report);
/** A bar of @a part of @a whole. */
void htc_bar(const htc_report *report, uint64_t part, uint64_t whole);

#endif
