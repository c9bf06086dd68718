/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file explain/explain.h
 * ?explain=URL: which lines of the configuration and of .htaccess files a URL meets, and what
 * answers.
 */
#ifndef HTC_EXPLAIN_EXPLAIN_H
#define HTC_EXPLAIN_EXPLAIN_H

#include "module/module.h"

/** Add what is known of @a url. False: it is no URL of a server. */
bool htc_explain_report(htc_report *report, const char *url);

#endif
