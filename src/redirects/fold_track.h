/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/fold_track.h
 * Which RewriteRule answered a request, of those that mod_rewrite runs by itself: rules of
 * directories and .htaccess files, and those of servers that are in no table. Behind the lines of
 * a container stands a private directive; when httpd comes to it, mod_rewrite has read the rules,
 * and each one that redirects or refuses gets one more thing to do when it is applied, behind its
 * conditions:
 *
 *     [E=!${htcache-fold:tID.NUMBER}]
 *
 * that is, to ask this module's map function for the name of a variable to unset. The last rule
 * that asked is the one that answers, if mod_rewrite then ends the request with that rule's status.
 * The lines are not touched, no answer is changed, since nothing has a variable of that name, and
 * requests to which no such rule is applied do nothing more than before.
 *
 * mod_rewrite's trace would show this from level 5 on; where LogLevel asks for that, rules do not
 * tell.
 */
#ifndef HTC_REDIRECTS_FOLD_TRACK_H
#define HTC_REDIRECTS_FOLD_TRACK_H

#include "module/module.h"
#include "redirects/counters.h"

/** Ends the lines of which rules are tracked, in the tree. */
#define HTC_FOLD_TRACK "HtCacheFoldTrack"
/** With this the map function's keys begin when a rule tells that it is applied; other keys begin
 * with a hexadecimal digit. */
#define HTC_TRACK_SIGN 't'

/** Track the rules among *first and the nodes behind it that are in no table, of which the tree is
 * about to be run. */
void htc_track_put(htc_walk *w, ap_directive_t **first, bool in_dir, apr_pool_t *scratch);
const char *htc_track_directive(cmd_parms *cmd, void *dir_conf, const char *args);

/** The map function: a rule is applied. @a key: what stands behind the sign. */
char *htc_track_told(request_rec *r, const char *key);
/** mod_rewrite has answered the request with @a status: note and count the rule, if one told. */
void htc_track_answered(request_rec *r, int status, bool in_dir);

/** A tracked rule of a .htaccess file, for lists. */
typedef struct htc_track_row {
    const ap_directive_t *node;
    uint64_t key; /* of its counter, among the hits of .htaccess files */
    redirect_rule rule;
} htc_track_row;

/** As htc_track_put(), for a tree that is not run: into w->tracked, by their nodes. */
void htc_track_collect(const htc_walk *w, const ap_directive_t *first);
/** post_config: the module will not learn when mod_rewrite answers, so list no rules of the
 * server's configuration. */
void htc_track_forget(void);

#endif
