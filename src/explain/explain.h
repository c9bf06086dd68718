/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file explain/explain.h
 * ?explain=URL: httpd itself is asked what it makes of a request, up to where an answer would have
 * an effect.
 */
#ifndef HTC_EXPLAIN_EXPLAIN_H
#define HTC_EXPLAIN_EXPLAIN_H

#include "module/module.h"

/** What is asked for. */
typedef struct htc_explain_question {
    const char *url;
    const char *method;          /* NULL: GET */
    const char *address;         /* of the client, a number; NULL: that of the one who asks */
    apr_array_header_t *headers; /* const char *, "Name: value"; NULL: none */
} htc_explain_question;

/** What of a question is none of a client, and how it is written. */
typedef struct htc_explain_wrong {
    const char *what, *hint;
} htc_explain_wrong;

/** Make the request and add what httpd did with it. NULL, or why it cannot be made. */
const htc_explain_wrong *htc_explain_report(htc_report *report,
                                            const htc_explain_question *question);

/** Hooks that cost nothing where no request is explained. */
void htc_explain_register_hooks(void);
/** pre_config, behind mod_rewrite's, where the configuration has a status page. */
void htc_explain_pre_config(apr_pool_t *pconf, apr_pool_t *ptemp);
/** translate_name, ahead of all others, of a request that ?explain made. */
void htc_explain_translate(request_rec *r);
/** The handler of such a request; also where httpd runs one by itself. */
int htc_explain_handler(request_rec *r);

#endif
