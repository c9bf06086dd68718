/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/rule_filter.h
 * RewriteRules of directories that stay as they are, and of which each request runs only those that
 * its path may match: a gate says by look-up which ones these are. The same for a server, where it
 * only says whether there are any. Used by redirects/fold_rewrite.c, which reads the rules, and by
 * mod_htcache.c.
 *
 * mod_rewrite's two hooks are called by ours, which stand in their place in httpd's lists, so that
 * the order of hooks is what it was. A gate belongs to the array in which mod_rewrite keeps the
 * rules that the gate was made of; a request whose rules are in another array (inherited ones,
 * those of a file that httpd read by itself) is left to mod_rewrite.
 */
#ifndef HTC_REDIRECTS_RULE_FILTER_H
#define HTC_REDIRECTS_RULE_FILTER_H

#include "module/module.h"
#include "rules/rules.h"

/** Ends the lines that have a gate, in the tree. */
#define HTC_FOLD_GATE "HtCacheFoldGate"

/** The gate of these rules, or NULL when it would be of no use. @a expected: of how many rules
 *  mod_rewrite will know. @a plain: nothing in them makes subrequests, which core would
 *  authorize by the vector that the request has while rules run (docs/identity.md). */
htc_gate *htc_gate_create(const rewrite_rule *rules, size_t n, size_t expected, bool in_dir,
                          bool plain, apr_pool_t *pool);
/** Arguments of the directive. */
const char *htc_gate_id(const htc_gate *gate, apr_pool_t *pool);
const char *htc_gate_directive(cmd_parms *cmd, void *dir_conf, const char *args);

/** pre_config: find out where mod_rewrite keeps its rules. NULL: not where it is expected, which is
 *  logged; then there are no gates. */
htc_gates *htc_gates_create(apr_pool_t *pconf, apr_pool_t *ptemp);
/** Let rules ask the map function HTC_FOLD_MAP for requests to this server; it has been merged.
 * This is not done by a line in the tree, since a virtual host without any line of mod_rewrite must
 * stay without: such a host does not run the main server's rules, whatever RewriteOptions says. */
void htc_gates_declare_map(const htc_gates *gates, server_rec *s, apr_pool_t *pool);
/** post_config, once all hooks are sorted: stand in for mod_rewrite's. False: they were not found.
 */
bool htc_gates_install(htc_gates *gates);
/** Will they be found? pre_config. */
bool htc_gates_find_hooks(void);

/** mod_rewrite is about to apply the rule of the server that has the pattern's text @a own, and may
 * log it as one that makes a path too long: call it by @a pattern until it is done with the
 * request. Other threads that want the same wait for that. Only rules that end the processing, so
 * that none of them is asked for another one in between. */
void htc_gates_lend_pattern(request_rec *r, const char *own, const char *pattern);

/** Can a rule be given variables to set? @a gates may be NULL. */
bool htc_gates_can_tell(const htc_gates *gates);
/** The rules that mod_rewrite has read so far in the context of @a cmd; NULL: none, or @a gates is.
 */
apr_array_header_t *htc_gates_rules(const htc_gates *gates, const cmd_parms *cmd);
/** Let rules[number] set a variable, or more, ahead of its own, as if the line had the flag
 * E=@a text. Only while the configuration of which the rules are is made. Both live as long as
 * these. */
void htc_gates_give_variable(const htc_gates *gates, apr_array_header_t *rules, int number,
                             char *text, apr_pool_t *pool);

#endif
