/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/config_cost.h
 * What a configuration or .htaccess file costs with the module, found from its text: what is kept,
 * what is run for each request and why, what becomes tables, and what to change. Used by htcachectl
 * check --cost. No httpd headers.
 */
#ifndef HTC_TOOL_CONFIG_COST_H
#define HTC_TOOL_CONFIG_COST_H

#include <apr_tables.h>

#include "rules/rules.h"

/** What becomes of a .htaccess file. */
typedef enum cost_class {
    COST_KEPT,     /* parsed once, and shared by requests */
    COST_REPLAYED, /* read once; its directives are run for each request */
    COST_STOCK     /* read and parsed by httpd for each request */
} cost_class;

/** What to change, and where. */
typedef struct cost_advice {
    uint32_t line;
    const char *text;
} cost_advice;

typedef struct cost_report {
    unsigned directives; /* lines, sections too */
    unsigned rules, conditions, redirects;
    unsigned regexes;    /* patterns that httpd compiles */
    unsigned disk_tests; /* RewriteConds that ask the disk, of rules that stay */
    redirect_config_totals folded;
    cost_class class;
    uint32_t class_line; /* of the first directive that makes it so; 0: it is kept */
    const char *class_directive;
    unsigned
        request_regexes; /* that requests may have to run one after the other: of rules that stay */
    uint64_t points;     /* rough weights of all this, to sort by; see docs/htcachectl.md */
    apr_array_header_t *advice; /* cost_advice, by line */
} cost_report;

/** The file that an Include line names, as written. */
typedef void cost_include_fn(void *baton, const char *name);

typedef struct cost_options {
    bool htaccess; /* a .htaccess file; else server configuration */
    /** Try to compile a pattern, or NULL: the time that takes is a part of the cost. A message: it
     * cannot be compiled. */
    const char *(*compile)(void *baton, const char *pattern, unsigned flags);
    cost_include_fn *include; /* NULL: not asked */
    void *baton;              /* of include */
} cost_options;

/** Look at a file. What the report points to is in @a pool. */
void cost_read(const char *bytes, size_t len, const cost_options *options, cost_report *report,
               apr_pool_t *pool);

/** "parsed", "replayed" or "stock", as the status page calls the record. */
const char *cost_class_name(cost_class class);

#endif
