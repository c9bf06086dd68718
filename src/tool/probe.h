/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/probe.h
 * Lists of redirects that are asked, and the requests that show whether two of them answer alike.
 * For htcachectl convert, diff and check --fix, and unit tests.
 */
#ifndef HTC_TOOL_PROBE_H
#define HTC_TOOL_PROBE_H

#include "tool/convert.h"
#include "tool/map.h"

/** A list that can be asked. */
typedef struct probe_table {
    const convert_list *list;
    void *image;
    const redirect_table *table;
    map_regexes *regexes;
    uint32_t *indexes; /* in the list, of the rule at a place of the image, by place / PROBE_STEP */
} probe_table;

#define PROBE_STEP 2 /* a rule takes more of an image */

typedef struct probe_answer {
    int index;  /* of the rule in its list; -1: none */
    int status; /* 0: none */
    const char *location;
} probe_answer;

/** False: it cannot be built. Either way probe_close() frees what it has. */
bool probe_open(probe_table *table, const convert_list *list);
void probe_close(probe_table *table);

/** Thread-safe but for the patterns. The answer's strings are in @a pool. */
probe_answer probe_ask(const probe_table *table, const redirect_request *request, apr_pool_t *pool);
bool probe_same(const probe_answer *a, const probe_answer *b);

#define PROBE_HOPS (REDIRECT_FOLLOW_MAX + 1)

/** Ask as a browser does, until no rule answers what the last one leads to. *hops: how many rules
 * answered; PROBE_HOPS: it did not come to an end. The answer is the last one's, with the fragment
 * that a browser has then. */
probe_answer probe_follow(const probe_table *table, const redirect_request *request, int *hops,
                          apr_pool_t *pool);

/** The location, with the fragment of @a before unless it has one: browsers keep that of the redirect
 * before (RFC 9110, 10.2.2). */
const char *probe_with_fragment(const char *location, const char *before, apr_pool_t *pool);

/** "301 /b", "410" or "nothing". */
const char *probe_text(const probe_answer *answer, apr_pool_t *pool);
/** The URL that was asked for, "//host/path?query". */
const char *probe_url(const redirect_request *request, apr_pool_t *pool);

/** Receives a request for a rule. @a pool is cleared before the next rule. False: no more requests
 * are wanted for this rule. */
typedef bool probe_fn(void *baton, const convert_rule *r, const redirect_request *request,
                      apr_pool_t *pool);

/**
 * Make requests for each rule that is not lost. Paths: its source as it is, with and without a slash
 * behind it, below it, in other case. Queries: its own, the same in another order and with the
 * parameters that it leaves out, those that any rule leaves out and one more, none. Hosts: its own,
 * another. Some have hosts and queries of other rules. What other rules have is taken from @a also,
 * too (NULL: none): a list that is held against this one. With @a keep_runs also paths with runs of
 * slashes, for servers that do not merge them.
 */
void probe_rules(const convert_list *list, const convert_list *also, bool keep_runs, probe_fn *each,
                 void *baton);

#endif
