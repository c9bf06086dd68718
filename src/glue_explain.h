/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file glue_explain.h
 * ?explain=URL: what the module knows of one URL, found without a request. The path is mapped, and
 * sections are matched, from the configuration tree; records are read from shared memory; no hook
 * of another module runs, no file is opened, nothing is counted. glue_explain.c leads,
 * glue_explain_conf.c reads the configuration tree, glue_explain_levels.c the records,
 * glue_explain_contexts.c finds the sections that hold, glue_explain_rules.c compares Redirect,
 * RewriteRule and map lines with the path. Private to these.
 */
#ifndef GLUE_EXPLAIN_H
#define GLUE_EXPLAIN_H

#include "glue_map.h"
#include "glue_status.h"

/** More levels, rules (beside the one that answers) and notes of what is not looked into are not
 * shown. */
#define EXPLAIN_MAX_LEVELS 64
#define EXPLAIN_MAX_RULES  50
#define EXPLAIN_MAX_UNREAD 20

/** Directives that hold together: a section's, a .htaccess file's. */
typedef struct explain_context {
    const ap_directive_t *first; /* and those behind it */
    const char *directory;       /* that it stands in or is for, ends with '/' */
    bool htaccess;               /* it is in that directory's .htaccess file */
    bool plain;                  /* RewriteRules in it are that directory's */
} explain_context;

typedef enum explain_section_kind {
    EXPLAIN_NO_SECTION,
    EXPLAIN_DIRECTORY,
    EXPLAIN_LOCATION,
    EXPLAIN_FILES,
    EXPLAIN_IF,
    EXPLAIN_ELSE_IF,
    EXPLAIN_ELSE,
    EXPLAIN_LIMIT
} explain_section_kind;

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
    bool host_header; /* the URL names a host, and so says what Host is */
    const char *file, *mapped_by;
    const char *last_name;      /* that <Files> sections are compared with */
    bool to_directory;          /* the file is a directory */
    const ap_directive_t *host; /* its <VirtualHost>, or NULL */

    apr_array_header_t
        *sections;              /* const ap_directive_t *: <Directory> of the path, core's order */
    apr_array_header_t *levels; /* explain_level */
    apr_array_header_t *contexts; /* explain_context: of directories, in the order of merging */

    htc_list *rules, *levels_list, *notes;
    unsigned more_rules;      /* that match and are not listed */
    bool in_htaccess;       /* the lines that are looked at are those of a .htaccess file */
    bool engine;            /* RewriteEngine of the server, which directories begin with */
    bool rewritten;         /* by a rule; what follows is asked for another path */
    unsigned unread;        /* notes of what is not looked into */
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
/** Slashes of its name; UINT_MAX for a regex. */
unsigned explain_section_depth(const explain *e, const ap_directive_t *node);
/** A <Directory> with wildcards or a regex. */
bool explain_section_wild(const explain *e, const ap_directive_t *node);
explain_section_kind explain_kind(const ap_directive_t *node);
/** Does this <Directory>, <Location> or <Files> section match? */
bool explain_section_applies(const explain *e, const ap_directive_t *node);
/** Its arguments without the ">". */
const char *explain_section_args(const explain *e, const ap_directive_t *node);
/** The next directive of this name (any case) from @a node on; NULL: there is none. */
const ap_directive_t *explain_next(const ap_directive_t *node, const char *name);

/* glue_explain_contexts.c */
/** The directive behind this one, also into and out of <Limit>; NULL: there is none. */
const ap_directive_t *explain_step(const ap_directive_t *node);
/** After explain_walk(): fill e->contexts, and note sections of which nobody knows. */
void explain_find_contexts(explain *e);
/** Note Redirects without a path: those of <Location>, which come before the server's own, or the
 * others. */
void explain_note_pathless(explain *e, bool server);
/** Note what else may come between, when the server's own lines do not answer. */
void explain_note_rest(explain *e);
/** A directory's line answers: note what may refuse the request before. */
void explain_note_access(explain *e);

/* glue_explain_levels.c */
void explain_walk(explain *e);

/* glue_explain_rules.c */
void explain_rules(explain *e);
/** Does a Redirect line match the path? */
bool explain_redirect_matches(const explain *e, const ap_directive_t *node);
/** Is the first word of a Redirect line a status? Sets it then. */
bool explain_is_status(const char *word, int *status);

#endif
