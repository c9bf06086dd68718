/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file module/report.h
 * The report: what the module says of itself, before it has a form.
 *
 * Each part of the module has one function that reports its figures (htc_reporter), listed in
 * status/parts.c. It makes groups of figures and lists, and knows nothing of HTML, JSON or
 * Prometheus. The renderers (status/html.c, json.c, prometheus.c, auto.c) know nothing of
 * what the figures mean. So every form says the same, and each string is escaped in one place.
 *
 * To add a counter that all processes share: one line in cache/counters.h, with the group that
 * it is shown in. The group's reporter calls htc_add_counters(); that is all.
 *
 * To add a group: a function in a file of your part
 *
 *     void htc_example_report(htc_report *report)
 *     {
 *         htc_group *group = htc_report_group(report, "example", "Example", "What this part does");
 *
 *         htc_add_counters(group);                       // those of cache/counters.h
 *         htc_add_gauge(group, "watches", HTC_UNIT_ONE, n, "directories that are watched");
 *         htc_add_text(group, "state", "on", "whether it works, and if not, why");
 *     }
 *
 * its prototype in your folder's header, its name in the list in status/parts.c, its keys in
 * docs/status.schema.json, and in docs/status.md a section "## `example`" with a row for each
 * figure; tests/docs-agree.sh holds the names against each other (keep the name on the line of the
 * call). A list is made likewise, with htc_report_list() and one call per cell.
 *
 * A report is made for one request, in its pool, by one thread; strings are not copied and must
 * live as long. A reporter must not change anything, must not block, and must bound what it adds.
 */
#ifndef HTC_MODULE_REPORT_H
#define HTC_MODULE_REPORT_H

#include "module/module.h"

/** What a figure is; decides its form everywhere. */
typedef enum htc_type {
    HTC_COUNTER, /* only grows, from the start of this configuration on */
    HTC_GAUGE,   /* what is now */
    HTC_RATIO,   /* 0 to 1; negative: not known */
    HTC_TIME,    /* wall clock, seconds since 1970; 0: never. JSON has null then */
    HTC_FLAG,    /* true or false */
    HTC_TEXT     /* any bytes; NULL: not known. No metric */
} htc_type;

typedef enum htc_unit { HTC_UNIT_ONE, HTC_UNIT_BYTES, HTC_UNIT_MS, HTC_UNIT_US } htc_unit;

/** A number that is not known; JSON has null. */
#define HTC_UNKNOWN UINT64_MAX

typedef struct htc_value {
    uint64_t number; /* COUNTER, GAUGE, TIME, FLAG */
    double ratio;
    const char *text;
} htc_value;

/** A figure of a group. */
typedef struct htc_figure {
    const char *name; /* JSON key: lower case, words joined by "_" */
    htc_type type;
    htc_unit unit;
    const char *help; /* half a sentence, in small letters, without a full stop */
    htc_value value;
} htc_figure;

/** A column of a list. */
typedef struct htc_column {
    const char *name;  /* JSON key */
    const char *title; /* heading on the page */
    htc_type type;
    htc_unit unit;
    const char *help;
} htc_column;

typedef struct htc_report htc_report;

enum {
    HTC_LIST_METRICS = 1, /* its figures are metrics too, with the texts in front of them as labels:
                           * only for lists of bounded length */
    HTC_LIST_FOLDED = 2   /* long: closed on the page until it is opened */
};

/** Rows of the same columns. */
typedef struct htc_list {
    htc_report *report;
    const char *name; /* JSON key */
    const char *title, *help;
    unsigned flags; /* HTC_LIST_* */
    const htc_column *columns;
    int ncolumns;
    apr_array_header_t *cells; /* htc_value, ncolumns for each row */
} htc_list;

enum { HTC_GROUP_NO_METRICS = 1 /* derived from what is a metric itself */ };

/** A JSON object, a table on the page. */
typedef struct htc_group {
    htc_report *report;
    const char *name; /* JSON key */
    const char *title, *help;
    unsigned flags;              /* HTC_GROUP_* */
    apr_array_header_t *figures; /* htc_figure */
    apr_array_header_t *lists;   /* htc_list *: lists within the object */
} htc_group;

/** Groups and lists in their order: one of the two pointers is set. */
typedef struct htc_report_section {
    htc_group *group;
    htc_list *list;
} htc_report_section;

struct htc_report {
    request_rec *r;
    apr_pool_t *pool;
    server_rec *server;
    const htc_context *ctx; /* NULL: HtCache On holds nowhere */
    htc_store *store;       /* NULL: there is none */
    const char *state;      /* "on", or "off: " and why */
    apr_time_t now;
    bool lists; /* include lists that need a walk through all records; otherwise these may stay
                 * empty */
    apr_array_header_t *sections; /* htc_report_section */
};

typedef void htc_reporter(htc_report *report);

htc_group *htc_report_group(htc_report *report, const char *name, const char *title,
                            const char *help);
void htc_add_counter(htc_group *group, const char *name, htc_unit unit, uint64_t value,
                     const char *help);
void htc_add_gauge(htc_group *group, const char *name, htc_unit unit, uint64_t value,
                   const char *help);
void htc_add_ratio(htc_group *group, const char *name, uint64_t part, uint64_t whole,
                   const char *help);
void htc_add_time(htc_group *group, const char *name, int64_t seconds, const char *help);
void htc_add_flag(htc_group *group, const char *name, bool value, const char *help);
void htc_add_text(htc_group *group, const char *name, const char *text, const char *help);
/** All counters of cache/counters.h that name this group; a name's prefix "<group>_" is left
 * out. */
void htc_add_counters(htc_group *group);

/** A list; with @a group it is a member of that object, else of the whole. */
htc_list *htc_report_list(htc_report *report, htc_group *group, const char *name, const char *title,
                          const char *help, unsigned flags, const htc_column *columns,
                          int ncolumns);
/** The next cell, row by row, in the order of the columns. */
void htc_cell_number(htc_list *list, uint64_t number);
/** For a column of HTC_RATIO. */
void htc_cell_ratio(htc_list *list, uint64_t part, uint64_t whole);
void htc_cell_text(htc_list *list, const char *text);
int htc_list_rows(const htc_list *list);
const htc_value *htc_list_cell(const htc_list *list, int row, int column);
/** The figure's value; NULL when the report has none of these names. */
const htc_figure *htc_report_figure(const htc_report *report, const char *group, const char *name);

/** One without a section. */
htc_report *htc_report_empty(request_rec *r);

#endif
