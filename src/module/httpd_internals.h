/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file module/httpd_internals.h
 * Data of httpd that no header of httpd declares. Read this file again with each release of httpd:
 * nothing else in the module depends on an undeclared layout.
 *
 *   what                                 declared in                    made sure of by
 *   core's note of a walk                server/request.c:              htc_walk_note_matches(), against
 *                                        walk_cache_t, walk_walked_t    walks that core has made
 *   mod_rewrite's configurations:        modules/mappers/mod_rewrite.c: htc_rewrite_find(): it gives
 *   their first members, and where a     rewrite_perdir_conf,           mod_rewrite rules and looks for
 *   rule has its pattern and variables   rewrite_server_conf            them in the expected places
 *   RedirectRelative                     modules/mappers/mod_alias.c:   mod_alias's own command record,
 *                                        alias_dir_conf                 which names the offset
 *
 * The declarations of walk_cache_t, walk_walked_t and of the two configurations are the same, up to
 * the members used here, in httpd 2.4.1, 2.4.6, 2.4.37, 2.4.41, 2.4.51, 2.4.52, 2.4.57 to 2.4.59,
 * 2.4.62 and the head of the branch 2.4.x. RedirectRelative came with 2.4.58. The test suite runs
 * on 2.4.71. A httpd that differs fails the check in the last column. The module then leaves the
 * request, or all RewriteRules, to httpd.
 */
#ifndef HTC_MODULE_HTTPD_INTERNALS_H
#define HTC_MODULE_HTTPD_INTERNALS_H

#include <stdbool.h>
#include <stddef.h>

#include "httpd.h"
#include "http_config.h"
#include "http_request.h"
#include "apr_hash.h"
#include "apr_tables.h"

/** Bytes of a per-directory vector that the loaded modules use. core allocates more. */
size_t htc_vector_bytes(void);

/* --- core's note of a walk --------------------------------------------------------------------*/

/** One step of a walk: the section or file that matched, and all configurations up to it, merged.
 *  The layout is that of core's walk_walked_t, because core reads an array of these. */
typedef struct htc_walk_step {
    const ap_conf_vector_t *matched;
    ap_conf_vector_t *merged;
} htc_walk_step;

/** True when core left a note of its directory walk for @a r. */
bool htc_walk_note_present(const request_rec *r);
/** True when core's note for @a r, a client's request that core walked for, is what
 * htc_walk_note_leave() would write: directory @a dir, the server's @a sections, and @a steps
 * (htc_walk_step). Each member is compared before the next one is read. */
bool htc_walk_note_matches(const request_rec *r, const char *dir,
                           const apr_array_header_t *sections, const apr_array_header_t *steps);
/** Leave the note that core would have left after its directory walk. @a defaults is the
 *  configuration that the request had before; @a dir and @a steps must live as long as @a r. */
void htc_walk_note_leave(request_rec *r, const char *dir, const apr_array_header_t *sections,
                         const ap_conf_vector_t *defaults, const apr_array_header_t *steps);

/* --- mod_rewrite ------------------------------------------------------------------------------*/

/** The first members of mod_rewrite's rewrite_perdir_conf. */
typedef struct htc_rewrite_dir {
    int state, options;
    apr_array_header_t *conds, *rules;
    char *directory;
} htc_rewrite_dir;

/** The first members of mod_rewrite's rewrite_server_conf. */
typedef struct htc_rewrite_server {
    int state, options;
    apr_hash_t *maps;
    apr_array_header_t *conds, *rules;
    server_rec *server;
} htc_rewrite_server;

/** mod_rewrite, as redirects/rule_filter.c calls it and reads its rules. */
typedef struct htc_rewrite {
    module *module;
    int enabled;            /* `state` after RewriteEngine On */
    htc_rewrite_dir *blank; /* a configuration without rules */
    size_t pattern;         /* offset of the pattern's text in a rule */
    size_t variables;       /* offset of a rule's list of variables; 0: not known */
    const command_rec *map; /* the directive RewriteMap */
    ap_HOOK_translate_name_t *translate;
    ap_HOOK_fixups_t *fixup;
} htc_rewrite;

/** Find out where mod_rewrite keeps its rules, and fill all but the hooks. @a map is the name of
 * an internal map function that is registered already. False: they are not where they are
 * expected. */
bool htc_rewrite_find(htc_rewrite *rewrite, const char *map, apr_pool_t *pconf, apr_pool_t *ptemp);
/** Let rules ask the map function @a map for requests to this server, which has been merged. A
 * line in the tree would not do: a virtual host without any line of mod_rewrite must stay
 * without, because such a host does not run the main server's rules, whatever RewriteOptions
 * says. */
void htc_rewrite_declare_map(const htc_rewrite *rewrite, const char *map, server_rec *s,
                             apr_pool_t *pool);
/** Let the rules of @a real hold for @a copy, a copy of it with a configuration vector of its own,
 * and ask the map function @a program wherever they would ask a program (RewriteMap prg:). All that
 * is made comes from @a pool; @a real is not changed. */
void htc_rewrite_adopt(const htc_rewrite *rewrite, const char *program, server_rec *copy,
                       const server_rec *real, apr_pool_t *pool);
/** True when rules can be given variables to set. @a rewrite may be NULL. */
bool htc_rewrite_can_tell(const htc_rewrite *rewrite);
/** The rules that mod_rewrite has read so far in the context of @a cmd. NULL: none, or @a rewrite
 * is NULL. */
apr_array_header_t *htc_rewrite_rules(const htc_rewrite *rewrite, const cmd_parms *cmd);
/** Where rules[number] has its pattern's text. */
const char **htc_rewrite_pattern(const htc_rewrite *rewrite, const apr_array_header_t *rules,
                                 int number);
/** Let rules[number] set a variable, ahead of its own, as if the line had the flag E=@a text. Only
 *  while the configuration of the rules is being made. @a text and @a pool live as long as the
 *  rules. */
void htc_rewrite_give_variable(const htc_rewrite *rewrite, apr_array_header_t *rules, int number,
                               char *text, apr_pool_t *pool);

/* --- mod_alias --------------------------------------------------------------------------------*/

/** post_config: find mod_alias and its RedirectRelative. */
void htc_alias_find(void);
/** True when RedirectRelative On holds for the request. */
bool htc_alias_relative(const request_rec *r);
/** mod_alias's index, for log lines in its name; APLOG_NO_MODULE where it is not loaded. */
int htc_alias_index(void);

#endif
