/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file glue_explain.h
 * ?explain=URL: what the module knows of one URL, found without a request. The path is mapped, and
 * sections are matched, from the configuration tree; records are read from shared memory; no hook
 * of another module runs, no file is opened, nothing is counted. glue_explain.c leads,
 * glue_explain_conf.c reads the configuration tree, glue_explain_levels.c the records,
 * glue_explain_rules.c compares Redirect, RewriteRule and map lines with the path. Private to
 * these.
 */
#ifndef GLUE_EXPLAIN_H
#define GLUE_EXPLAIN_H

#include "glue_map.h"
#include "glue_status.h"

/** More levels and rules than that are not shown. */
#define EXPLAIN_MAX_LEVELS 64
#define EXPLAIN_MAX_RULES  50

/** Directives that hold together: the server's own, a section's, a .htaccess file's. */
typedef struct explain_context {
    const ap_directive_t *first; /* and those behind it */
    const char *directory;       /* of a section or file, ends with '/'; NULL: the server's */
    bool htaccess;
} explain_context;

/** A directory on the way. */
typedef struct explain_level {
    const char *directory; /* ends with '/' */
    const char *override;  /* "None", "All", ... */
    const char *allowed_by;
    const ap_directive_t *tree; /* of its file, when that is known; else NULL */
} explain_level;

typedef struct explain {
    htc_report *report;
    apr_pool_t *pool;
    request_rec *r; /* a copy of the status page's, made to look like one for the URL */
    server_rec *server;
    const htc_server_conf *sc;
    const char *path, *query;
    const char *file, *mapped_by;
    const ap_directive_t *host; /* its <VirtualHost>, or NULL */

    apr_array_header_t
        *sections;              /* const ap_directive_t *: <Directory> of the path, core's order */
    apr_array_header_t *levels; /* explain_level */
    apr_array_header_t *contexts; /* explain_context: of directories, in the order of merging */

    htc_list *rules, *levels_list, *notes;
    bool in_htaccess;       /* the lines that are looked at are those of a .htaccess file */
    bool answered, certain; /* whoever answers first is known; nothing before can change that */
    const char *answer, *location;
    int status;
} explain;

void explain_note(explain *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "file:line" of a node. */
const char *explain_where(const explain *e, const ap_directive_t *node);

/* glue_explain_conf.c */
/** Find e->host: where the virtual host stands. */
void explain_find_host(explain *e);
/** Map the path to a file by Alias lines or the document root. */
void explain_map_path(explain *e);
/** Find the <Directory> sections of e->file. */
void explain_find_sections(explain *e);
/** AllowOverride of a level. */
void explain_override(const explain *e, explain_level *level);
/** Add the list of all sections that apply. */
void explain_list_sections(explain *e);
/** After explain_rules(): note what may apply and is not looked into; then nothing is certain. */
void explain_note_unread(explain *e);
/** Slashes of its name; UINT_MAX for a regex. */
unsigned explain_section_depth(const explain *e, const ap_directive_t *node);
/** The next directive of this name (any case) from @a node on; NULL: there is none. */
const ap_directive_t *explain_next(const ap_directive_t *node, const char *name);

/* glue_explain_levels.c */
void explain_walk(explain *e);

/* glue_explain_rules.c */
void explain_rules(explain *e);

#endif
