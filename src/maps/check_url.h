/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/check_url.h
 * Where a target leads, and what hides a row. Only for the files of this folder.
 */
#ifndef HTC_MAPS_CHECK_URL_H
#define HTC_MAPS_CHECK_URL_H

#include "maps/internal.h"

#define CHECK_HOST_MAX 255

/** The texts of a request. */
typedef struct check_url {
    char host[CHECK_HOST_MAX + 1];
    char path[REDIRECT_MAX_TEXT + 2];
    char query[REDIRECT_MAX_TEXT + 1];
} check_url;

/** Take a URL apart into what a client would ask for, who was at @a before. False: it is asked
 * elsewhere. */
bool check_request_of(check_url *u, const char *url, size_t len, const redirect_request *before,
                      redirect_request *request);
/** Who is at a row's source. */
redirect_request check_source_of(const redirect_rule *rule);
/** A URL leads back into this map only where the map is known to be that host's. */
bool check_leads_back(const char *url, const redirect_request *request,
                      const redirect_request *before, const redirect_rule *to);
/** @a url, with the fragment that @a before has if it has none. */
const char *check_with_fragment(const char *url, const char *before, apr_pool_t *pool);
/** The paths that a row with groups may answer, by their number from 0; NULL: there are no more. */
const char *check_sample(const redirect_rule *rule, unsigned number, apr_pool_t *pool);
/** What a row answers, also one with groups. NULL: nothing, or it cannot be known. */
const char *check_answer(const redirect_report *report, const redirect_match *match,
                         const redirect_request *request, apr_pool_t *pool);
/** The next of the earlier rows that answer the request. False: there are no more. */
typedef bool check_earlier_fn(void *baton, redirect_request *request, redirect_match *match);
/** True when one of the first of them, which is the last that was asked for, answers everything that
 * the rule would. @a path: room for one. Not for rules with a pattern that is no template. */
bool check_is_hidden(const redirect_rule *rule, char *path, check_earlier_fn *earlier, void *baton,
                     apr_pool_t *pool);

#endif
