/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file status/status.h
 * What the module says of itself: a report (module/report.h), and forms to send it in.
 *
 * The renderers (status/html.c, json.c, prometheus.c, auto.c) know nothing of what the figures
 * mean. So every form says the same, and each string is escaped in one place.
 */
#ifndef HTC_STATUS_STATUS_H
#define HTC_STATUS_STATUS_H

#include "cache/cache.h"
#include "redirects/redirects.h"
#include "module/module.h"

/** Everything that the module reports about itself now. */
htc_report *htc_report_make(request_rec *r, bool lists);

/* --- single redirects: status/redirects.c ------------------------------------------------*/

#define HTC_REDIRECTS_LIMIT 100
/** On the overview; for those that answer most at most HTC_REDIRECT_MOST. */
#define HTC_REDIRECTS_SHOWN     10
#define HTC_REDIRECTS_MAX_LIMIT 10000

typedef struct htc_redirect_query {
    bool used;          /* those that answered, most hits first; else those that did not */
    bool missing;       /* pages that were not found instead of redirects */
    int64_t since;      /* seconds since 1970: hits before that do not count; 0: all do */
    const char *search; /* text that it has in what is shown of it; NULL: any */
    uint64_t offset;
    uint32_t limit;
    bool quick; /* those that answer most, at most HTC_REDIRECT_MOST, without a look at all of them.
                 * The total then counts lines that .htaccess files have no more, too */
} htc_redirect_query;

void htc_redirects_report(htc_report *report, const htc_redirect_query *query);
/** Do the @a len bytes at @a text, which may be NULL, have @a part in them? In any case of ASCII
 * letters. */
bool htc_text_has(const char *text, size_t len, const char *part);
/** The same for pages that were not found: status/missing.c. */
void htc_missing_report(htc_report *report, const htc_redirect_query *query);

/* --- single files: status/costs.c ---------------------------------------------------------*/

/** More files are not named on the page. */
#define HTC_LISTED_FILES 200
/** Of those that cost most, on the page and in ?directories=cost. */
#define HTC_COSTS_LISTED    20
#define HTC_COSTS_LIMIT     100
#define HTC_COSTS_MAX_LIMIT HTC_COSTS_ENTRIES

/** Files that cost most, the first 20. */
void htc_costs_report(htc_report *report);
/** The same, @a limit of them: ?directories=cost. */
void htc_costs_list(htc_report *report, uint32_t limit);
/** Files left to httpd, and files whose directives are run for each request. */
void htc_files_report(htc_report *report);

/* --- how directories are kept fresh: status/watch.c ---------------------------------------*/

/** Totals, and the first records that the kernel reports no changes of. */
void htc_freshness_report(htc_report *report);
/** @a limit directories from a place on: ?directories=freshness. */
void htc_freshness_list(htc_report *report, uint32_t limit, uint32_t place);

/* --- the last minutes: status/history.c --------------------------------------------------*/

/** post_config: where samples are kept. */
int htc_history_post_config(server_rec *s);
/** The monitor hook. */
int htc_history_monitor(apr_pool_t *p, server_rec *s);
/** The samples there are, and one of now behind them; @a samples has room for HTC_HISTORY_SAMPLES.
 */
size_t htc_history_get(const htc_report *report, htc_sample *samples);
void htc_recent_report(htc_report *report);
/** The group "saved": what the cache saved since figures count. */
void htc_saved_report(htc_report *report);

/* status/problems.c */
/** The last of the reporters, as it looks at what the others said. */
void htc_problems_report(htc_report *report);
/** All words that the list's last column may have; ends with NULL. */
extern const char *const htc_problem_kinds[];

/* --- the parts: status/parts.c -----------------------------------------------------------*/

/** Ends with NULL. */
extern htc_reporter *const htc_reporters[];

/* --- the forms --------------------------------------------------------------------------------*/

void htc_status_html(const htc_report *report);
void htc_status_json(const htc_report *report);
void htc_status_prometheus(const htc_report *report);
void htc_status_auto(const htc_report *report);

/* status/status.c */
int htc_status_handler(request_rec *r);
/* status/admin.c */
int htc_status_post(request_rec *r);
/* status/edit.c */
/** X-HtCache: map-edit. The caller has checked that the request may change state. */
int htc_status_edit(request_rec *r);
/* status/rows.c */
/** Most rows of a map in one answer. */
#define HTC_ROWS_MAX_LIMIT 100000
/* Of a query that names two maps. */
#define HTC_TWO_MAPS "map= stands there twice: a request is about one map"

/** Does the query ask for rows of a map? Then htc_status_rows() answers. */
bool htc_status_asks_rows(const request_rec *r);
int htc_status_rows(request_rec *r);
/* status/guard.c */
/** post_config, as the user that starts httpd: read the file of HtCacheAdminSecretFile. A file that
 * cannot be used is reported; then there is no secret, and POST is refused. */
void htc_secret_prepare(apr_pool_t *ptemp, server_rec *s);
/** Why this request may not change state; NULL: it may. */
const char *htc_admin_refusal(request_rec *r);
/* status/start.c */
/** Write the line of the start into the error log. In the parent, when the builder has begun. */
void htc_status_say_start(server_rec *s);
/* status/mod_status.c */
void htc_status_register_hook(void);

#endif
