/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/fold.h
 * Existing Redirect lines, as tables. redirects/fold_tree.c renames the lines in the configuration
 * tree before any module sees it, and gives them their names back before the tree is looked at
 * again. httpd so brings them to the handlers in redirects/fold_redirect.c, with the context they
 * stand in, as it would have brought them to mod_alias. redirects/fold_answer.c answers requests
 * where and as mod_alias would.
 */
#ifndef HTC_REDIRECTS_FOLD_H
#define HTC_REDIRECTS_FOLD_H

#include "redirects/counters.h"
#include "module/module.h"
#include "regex/regex.h"
#include "redirect_table.h"

#include "ap_regex.h"

/** The names under which folded lines reach this module. Their arguments are those of the original.
 */
#define HTC_FOLD_REDIRECT  "HtCacheFoldRedirect"
#define HTC_FOLD_MATCH     "HtCacheFoldRedirectMatch"
#define HTC_FOLD_TEMP      "HtCacheFoldRedirectTemp"
#define HTC_FOLD_PERMANENT "HtCacheFoldRedirectPermanent"
/** A line that stays with mod_alias and that mod_alias tries first. */
#define HTC_FOLD_MARK "HtCacheFoldMark"
/** A RewriteRule that another line answers for. */
#define HTC_FOLD_SILENT "HtCacheFoldSilent"
/** Find out for each server which of its lines are folded. */
#define HTC_FOLD_HOST "HtCacheFoldHost"
/** Stands for many Redirect lines. */
#define HTC_FOLD_RUN "HtCacheFoldRun"

/** Fewer lines than that are compared one after the other: it costs no more than hashing. */
#define HTC_FOLD_MIN 8

/** One folded line. There may be a million of them. */
typedef struct htc_fold_entry {
    const char *source; /* path prefix, which need not end with a NUL; or regex, which does */
    const char *target; /* NULL: none */
    ap_regex_t *regex;  /* NULL: source is a path prefix */
    const char *file;   /* in which it stands */
    uint32_t source_len;
    int status;
    int line;
} htc_fold_entry;

/** The text with a NUL behind its @a len bytes: the text itself if there is one, or a copy. */
const char *htc_fold_terminated(const char *text, size_t len, apr_pool_t *pool);

/** Read a Redirect line as mod_alias does, without checking its words; the regex of a
 * RedirectMatch is not compiled. False: it is no Redirect line. */
bool htc_fold_read_line(const ap_directive_t *node, apr_pool_t *pool, htc_fold_entry *entry,
                        bool *is_regex);

/** The folded lines of one context, in their order. */
typedef struct htc_fold {
    htc_counted *counted;        /* lines of the server's configuration; else NULL */
    apr_array_header_t *entries; /* htc_fold_entry */
    apr_pool_t *pool;
    bool linear; /* HtCacheFold Off */
    bool opaque; /* RegexDefaultOptions is in use: regexes are not looked into */
    redirect_prefix_filter *prefixes; /* of the table */
    const redirect_table *table;      /* NULL: few lines, compared one after the other */
} htc_fold;

/** Change a node of the tree, as long as w->changes is not undone. */
void htc_fold_rename(htc_walk *w, ap_directive_t *node, const char *name, const char *args);
/** Put a node ahead of the one that *link points to; its place in the file is taken for that of @a
 * like. */
void htc_fold_insert(htc_walk *w, ap_directive_t **link, const ap_directive_t *like,
                     const char *name, const char *args);
/** A node as the above puts one, with nothing behind it, not yet in the tree. */
ap_directive_t *htc_fold_new_node(htc_walk *w, const ap_directive_t *like, const char *name,
                                  const char *args);

/** End the builder (or NULL) and open what it built, which goes away with @a pool. NULL: @a outcome
 * says that something was not taken, or there is no memory. */
const redirect_table *htc_fold_finish_table(redirect_builder *builder, redirect_outcome outcome,
                                            apr_pool_t *pool);
/** How httpd compiles regexes: REDIRECT_REGEX_* bits. */
unsigned htc_fold_regex_flags(void);

/* redirects/fold_run.c */
/** Redirect lines that stand one behind the other in the server's configuration, out of the tree
 * while httpd processes it: one node stands for them. */
typedef struct htc_fold_run {
    ap_directive_t *node, *first;
    ap_directive_t **link;      /* what points to the node */
    const ap_directive_t *host; /* the <VirtualHost> that they stand in; NULL: the main server */
    bool in_dir;
    bool taken;                  /* its array has become that of a context */
    int regexes;                 /* of how many the regex is still to be compiled */
    apr_array_header_t *entries; /* htc_fold_entry */
} htc_fold_run;

/** Put a node in place of the lines from *link on that are foldable, if these are enough to be
 * worth it; added to @a runs (htc_fold_run *). */
void htc_fold_run_make(htc_walk *w, ap_directive_t **link, const ap_directive_t *host, bool in_dir,
                       apr_array_header_t *runs);
/** The run that this node stands for, or NULL. */
const htc_fold_run *htc_fold_run_of(const ap_directive_t *node);
/** The directive of such a node. */
const char *htc_fold_run_directive(cmd_parms *cmd, void *dir_conf, const char *args);

/* redirects/fold_rewrite.c */
/** Fold the RewriteRules among *first and the nodes behind it, which may put others before them. */
void htc_fold_rewrites(htc_walk *w, ap_directive_t **first, bool in_dir);
/** True when the rules among these nodes leave a skip or a chain open at their end. */
bool htc_fold_open_end(ap_directive_t **first, apr_pool_t *pool);
/** Make the map function known to mod_rewrite. False: it is not there. */
bool htc_fold_register_map(void);
/** True when mod_rewrite has the flag UnsafeAllow3F, and so the check that this flag turns off. */
bool htc_fold_knows_3f(void);
/** "int:" map of this module. */
#define HTC_FOLD_MAP "htcache-fold"

/* redirects/fold_tree.c */
int htc_fold_pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp);
int htc_fold_check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s);
/** Say in the error log of @a s if Redirect lines would be folded and have to stay with mod_alias,
 * as that is not as httpd's own is. post_config. */
void htc_fold_say_odd(const server_rec *s);

/** Rename what can be folded in the tree of a .htaccess file that will run with @a cmd's rights
 * and pool; may change its first node. @a once: the result is for one request only, so no
 * tables are made. */
void htc_fold_htaccess(ap_directive_t **tree, const cmd_parms *cmd, bool once,
                       htc_fold_counts *counts);
/** Count the lines in the tree of a .htaccess file, which is changed, but is not run. @a replayed:
 * it would be run anew for each request. */
void htc_fold_count_tree(ap_directive_t *tree, bool replayed, apr_pool_t *pool,
                         htc_fold_counts *counts);
/** The RewriteRules in the tree of a .htaccess file that would be tracked: htc_track_row by their
 * nodes, which lie in @a pool. */
apr_hash_t *htc_fold_tracked_of(ap_directive_t *tree, apr_pool_t *pool);
/** Allow the private names wherever @a list allows the originals. */
void htc_fold_admit(apr_table_t *list);
/** True when this module made the line that is being read. Otherwise the private names mean
 * nothing. */
bool htc_fold_made(const cmd_parms *cmd);
/** The same of a node of a tree. */
bool htc_fold_made_node(const ap_directive_t *node);
/** True when this directive, in any case, stands among @a node and the nodes behind and below
 * it. */
bool htc_tree_mentions(const ap_directive_t *node, const char *directive);
/** Is it to be compared line by line? */
bool htc_fold_linear(const cmd_parms *cmd);

/* redirects/fold_redirect.c */
/** The lines of the context that @a cmd stands in, begun if need be. */
htc_fold *htc_fold_here(cmd_parms *cmd, void *dir_conf);
const char *htc_fold_take123(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2,
                             const char *a3);
const char *htc_fold_take23(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2,
                            const char *a3);
const char *htc_fold_take2(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2);
/** Add a rule that a regex decides on, of which @a facts are known: its matches begin with known
 * strings, or contain them, or else it is a candidate for every path. What its matches begin with
 * is added to @a prefixes, too, unless that is NULL. */
redirect_outcome htc_fold_add_regex(redirect_builder *builder, redirect_prefix_filter *prefixes,
                                    redirect_rule *rule, const redirect_regex_facts *facts);
const char *htc_fold_mark(cmd_parms *cmd, void *dir_conf);
const char *htc_fold_silent(cmd_parms *cmd, void *dir_conf, const char *args);
const char *htc_fold_host_directive(cmd_parms *cmd, void *dir_conf, int dirs);
/** Make the tables of these (htc_fold *) that have enough lines: before the children fork, or in
 * the builder. */
void htc_fold_make_tables(const apr_array_header_t *folds);

/** The lines of @a fold are counted from post_config on. */
void htc_fold_count(htc_fold *fold);

/* redirects/fold_answer.c */
int htc_fold_translate(request_rec *r);
int htc_fold_fixup(request_rec *r);

#endif
