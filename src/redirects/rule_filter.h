/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/rule_filter.h
 * RewriteRules that stay as they are, and of which each request runs only those that its path may
 * match. A rule filter says by look-up which rules of a directory these are; of a server it only
 * says whether there are any. redirects/fold_rewrite.c reads the rules and makes the filters.
 *
 * This module's two hooks stand in the places of mod_rewrite's in httpd's lists and call them, so
 * that the order of hooks is what it was. A filter belongs to the array in which mod_rewrite keeps
 * the rules that the filter was made of. A request whose rules are in another array (inherited
 * ones, those of a file that httpd read by itself) is left to mod_rewrite.
 */
#ifndef HTC_REDIRECTS_RULE_FILTER_H
#define HTC_REDIRECTS_RULE_FILTER_H

#include "module/module.h"
#include "rules/rules.h"

/** Ends the lines that have a filter, in the tree. */
#define HTC_RULE_FILTER "HtCacheRuleFilter"

/** The filter of these rules, or NULL when it would be of no use. @a expected: of how many rules
 *  mod_rewrite will know. @a plain: nothing in them makes subrequests, which core would
 *  authorize by the vector that the request has while rules run (docs/identity.md). */
htc_rule_filter *htc_rule_filter_create(const rewrite_rule *rules, size_t n, size_t expected,
                                        bool in_dir, bool plain, apr_pool_t *pool);
/** Arguments of the directive. */
const char *htc_rule_filter_id(const htc_rule_filter *filter, apr_pool_t *pool);
const char *htc_rule_filter_directive(cmd_parms *cmd, void *dir_conf, const char *args);
/** Takes every pattern for one that matches: for look-ups that only ask whether the literal in
 *  front of it does. */
redirect_regex_fn htc_pattern_may_match;

/** pre_config: find out where mod_rewrite keeps its rules. NULL: they are not where they are
 * expected. That is logged, and there are no filters then. */
htc_rewrite *htc_rule_filters_create(apr_pool_t *pconf, apr_pool_t *ptemp);
/** post_config, once all hooks are sorted: stand in for mod_rewrite's. False: they were not found.
 */
bool htc_rule_filters_install(htc_rewrite *rewrite);
/** mod_rewrite is about to apply the rule of the server that has the pattern's text @a own, and may
 * log it as one that makes a path too long: call it by @a pattern until it is done with the
 * request. Other threads that want the same wait for that. Only rules that end the processing, so
 * that none of them is asked for another one in between. */
void htc_rule_filters_lend_pattern(request_rec *r, const char *own, const char *pattern);

#endif
