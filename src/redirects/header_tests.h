/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/header_tests.h
 * The conditions on a request's headers that the rules of a filter (redirects/rule_filter.h) have.
 * Each is looked at once for a request, however many rules have it, and by text where its regex
 * needs one that is not there.
 */
#ifndef HTC_REDIRECTS_HEADER_TESTS_H
#define HTC_REDIRECTS_HEADER_TESTS_H

#include "httpd.h"
#include "rules/rules.h"

#define HTC_HEADERS_MAX 8 /* different headers */

/** Made once, in the pool of the filter; requests only read it. */
typedef struct htc_header_tests htc_header_tests;

/** What is known of a request. Begins with all 0 but `r`. */
typedef struct htc_header_state {
    const request_rec *r;
    uint64_t asked, holds; /* a bit for each test */
    unsigned looked;       /* one for each header */
    const char *values[HTC_HEADERS_MAX];
} htc_header_state;

/** The tests of these rules, or NULL: none of them has one that can be judged. */
const htc_header_tests *htc_header_tests_create(const rewrite_rule *rules, size_t n,
                                                apr_pool_t *pool);
/** False: the conditions of the rule do not hold, so mod_rewrite would do nothing for it. */
bool htc_header_tests_hold(const htc_header_tests *tests, int rule, htc_header_state *state);

#endif
