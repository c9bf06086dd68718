/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file status/internal.h
 * The pieces of the page for people: its style and script (page.css and page.js), which are sent as
 * ?asset=style and ?asset=script so that the page needs nothing inline and works below any
 * Content-Security-Policy that allows the site itself, and its plots (status/plot.c). Private
 * to status/html.c and the handler.
 */
#ifndef HTC_STATUS_INTERNAL_H
#define HTC_STATUS_INTERNAL_H

#include "status/status.h"

/** page.css and page.js, as the build embeds them in page_files.c. */
extern const char htc_page_style[];
extern const char htc_page_script[];

/** What the page may load and do; sent with it. */
#define HTC_PAGE_POLICY                                                                         \
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action " \
    "'self'; base-uri 'none'; frame-ancestors 'none'"

/** A number for people, with its unit, as HTML. */
const char *htc_page_number(apr_pool_t *pool, htc_unit unit, uint64_t number);

/* status/plot.c */
void htc_plots(const htc_report *report);
/** A bar of @a part of @a whole. */
void htc_bar(const htc_report *report, uint64_t part, uint64_t whole);

#endif
