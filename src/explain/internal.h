/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file explain/internal.h
 * ?explain=URL: what the module knows of one URL, found without a request. The path is mapped, and
 * sections are matched, from the configuration tree; records are read from shared memory; no hook
 * of another module runs, no file is opened, nothing is counted. explain/explain.c leads,
 * explain/steps.c goes from path to path as rules and DirectoryIndex lead on,
 * explain/conf.c reads the configuration tree, explain/directories.c the records,
 * explain/contexts.c finds the sections that hold, explain/rules.c compares Redirect and
 * map lines with the path, explain/rewrite.c finds the RewriteRules that are tried, and
 * explain/run.c runs them; explain/budget.c bounds what that takes. Private to these.
 */
#ifndef HTC_EXPLAIN_INTERNAL_H
#define HTC_EXPLAIN_INTERNAL_H

#include "redirects/redirects.h"
#include "maps/maps.h"
#include "rules/rules.h"

/** More levels, rules (beside the one that answers) and notes of what is not looked into are not
 * shown. */
#define EXPLAIN_MAX_LEVELS 64
#define EXPLAIN_MAX_RULES  50
#define EXPLAIN_MAX_UNREAD 20
/** Most times that a path is followed: httpd does not go further either, unless
 * LimitInternalRecursion says so. */
#define EXPLAIN_MAX_STEPS 10
/** Most names of DirectoryIndex that are tried. */
#define EXPLAIN_MAX_INDEX 16

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
    const char *record;         /* as docs/explain.md has it */
} explain_level;

/** A line that matches. */
typedef struct explain_line {
    const char *kind;
    const ap_directive_t *node;
    const char *file; /* if not the node's */
    unsigned line;
    bool server;
    const char *rule, *target, *location;
    int status; /* 0: the request goes on */
    unsigned conditions;
    bool unsure; /* nobody here knows whether its conditions hold */
    bool folded;
} explain_line;

typedef struct explain_limits explain_limits; /* explain/budget.c */

typedef struct explain {
    htc_report *report;
    explain_limits *limits;
    apr_pool_t *pool;
    request_rec *r; /* a copy of the status page's, made to look like one for the URL */
    server_rec *server;
    const htc_server_conf *sc;
    const ap_directive_t *host; /* its <VirtualHost>, or NULL */

    /* Where the request is now. */
    const char *path, *query;
    const char *file, *mapped_by; /* where the path leads; NULL: that is not known yet */
    const char *context_prefix, *context_root; /* of the Alias that leads there, or NULL */
    const char *filename, *path_info; /* the file as far as it is there; and the rest, or NULL */
    const char *last_name;            /* that <Files> sections are compared with */
    apr_array_header_t *server_rules; /* its RewriteRules, once they are read */
    apr_array_header_t
        *sections;              /* const ap_directive_t *: <Directory> of the path, core's order */
    apr_array_header_t *levels; /* explain_level */
    apr_array_header_t *contexts; /* explain_context: of directories, in the order of merging */
    const char *next; /* path that a directory's rule leads to, when nobody answers; or NULL */
    const ap_directive_t *next_by;

    /* What led there, until it is listed. */
    const char *step_by, *step_path, *step_query;
    const ap_directive_t *step_node;

    htc_list *rules, *steps, *levels_list, *sections_list, *notes;
    apr_array_header_t *listed; /* const ap_directive_t *: sections */
    const char *answer, *location;

    /* Of all of it, what takes little room. */
    bool host_header;       /* the URL names a host, and so says what Host is */
    bool to_directory;      /* the file is a directory */
    bool subrequest;        /* for a name of DirectoryIndex */
    bool engine;            /* RewriteEngine of the server, which directories begin with */
    bool rewrite_end;       /* a rule with END: no rule is tried any more */
    bool in_htaccess;       /* the lines that are looked at are those of a .htaccess file */
    bool stopped;           /* nobody here knows how it goes on; a note says why */
    unsigned more_rules;    /* that match and are not listed */
    unsigned unread;        /* notes of what is not looked into */
    bool answered, certain; /* whoever answers first is known; nothing before can change that */
    bool unsure;            /* a line before it might answer */
    int status;
} explain;

/** Add a note. False: it is there already. */
bool explain_note(explain *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** The same for what is not known here: no answer is certain then. */
void explain_note_unsure(explain *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** "file:line" of a node. */
const char *explain_where(const explain *e, const ap_directive_t *node);

/* explain/budget.c */
typedef enum explain_verdict { EXPLAIN_NO, EXPLAIN_YES, EXPLAIN_UNKNOWN } explain_verdict;
/** Begin the budget of this question. */
void explain_begin(explain *e);
/** May another line be looked into? Once false, it stays so: the budget is spent, or the client has
 * gone. To be asked in each loop over lines. */
bool explain_goes_on(const explain *e);
/** So many steps were taken, or bytes of text made. */
void explain_charge(const explain *e, uint64_t steps);
/** Does the pattern match? Unknown when it is none, met its limit, or the budget is spent. @a flags
 * beside AP_REG_EXTENDED; *groups as of ap_regexec(). */
explain_verdict explain_match(const explain *e, const char *pattern, int flags, const char *subject,
                              apr_size_t n, ap_regmatch_t *groups);
/** At the end: was all looked into? Notes why not. */
bool explain_complete(explain *e);

/** The request is for this path from now on; so is its copy. */
void explain_set_path(explain *e, const char *path);
void explain_set_query(explain *e, const char *query);

/* explain/steps.c */
/** Go through all that httpd would for the URL, until somebody answers. False: not all was looked
 * into. */
bool explain_follow(explain *e);
/** The path has become another, by this line (NULL: by default). It is listed when it is known
 * where that leads. */
void explain_set_step(explain *e, const char *by, const ap_directive_t *node, const char *path);

/* explain/conf.c */
/** Find e->host: where the virtual host stands. */
void explain_find_host(explain *e);
/** Map the path to a file by Alias lines or the document root. */
void explain_map_path(explain *e);
/** Find the <Directory> sections of e->file. */
void explain_find_sections(explain *e);
/** AllowOverride of a level. */
void explain_override(const explain *e, explain_level *level);
/** The list of all sections that apply, and those of the path now in it. */
htc_list *explain_sections_list(htc_report *report);
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

/* explain/contexts.c */
/** The directive behind this one, also into and out of <Limit>; NULL: there is none. */
const ap_directive_t *explain_step(const ap_directive_t *node);
/** Fill e->contexts with the <Location> sections of the path only: all that holds before it becomes
 * a file. */
void explain_find_locations(explain *e);
/** After explain_walk(): fill e->contexts, and note sections of which nobody knows. */
void explain_find_contexts(explain *e);
/** What DirectoryIndex says here: const char *, never NULL. *where: the line, or NULL. False: other
 * directives decide, which was noted. */
bool explain_index_names(explain *e, apr_array_header_t **names, const ap_directive_t **where);
/** Note Redirects without a path: those of <Location>, which come before the server's own, or the
 * others. */
void explain_note_pathless(explain *e, bool server);
/** Note what else may come between, when the server's own lines do not answer. */
void explain_note_rest(explain *e);
/** A directory's line answers: note what may refuse the request before. */
void explain_note_access(explain *e);

/* explain/directories.c */
htc_list *explain_levels_list(htc_report *report);
/** Find the directories on the way to e->file, and list those that are not listed. */
void explain_walk(explain *e);

/* explain/rules.c */
/** List a line that matches; the first that is sure to answer is the answer. */
void explain_add_rule(explain *e, const explain_line *line);
/** What is looked at before the path becomes a file, and behind that. */
void explain_server_rules(explain *e);
void explain_directory_rules(explain *e);
/** Is a line that can be part of a table part of one here? */
bool explain_folds(const explain *e, const ap_directive_t *node, bool server);
/** Does a Redirect line match the path? */
bool explain_redirect_matches(const explain *e, const ap_directive_t *node);
/** Is the first word of a Redirect line a status? Sets it then. */
bool explain_is_status(const char *word, int *status);

/* explain/rewrite.c: the server's RewriteRules, and those of directories. They may answer; set
 * e->file, or the path; set e->next; or set e->stopped. */
void explain_rewrite_server(explain *e);
void explain_rewrite_directories(explain *e);

/* explain/run.c */
/** A RewriteRule, with the arguments of its conditions. */
typedef struct explain_rewrite_rule {
    const rewrite_rule *rule;
    const ap_directive_t *node;
    const char *const *conditions;
    unsigned nconditions;
    bool folded;
} explain_rewrite_rule;

/** A path on its way through a list of rules, and what they make of it. */
typedef struct explain_run {
    const char *directory; /* whose rules they are, ends with '/'; NULL: the server's */
    const char *base;      /* its RewriteBase, or NULL */
    const char *filename, *path_info, *args;
    const char *subject;              /* that patterns are compared with; NULL: not made yet */
    bool changed, absolute;           /* by a rule; to a URL */
    bool noescape, passed;            /* by one with NE; PT */
    bool stopped;                     /* nobody here knows how it goes on */
    const explain_rewrite_rule *last; /* that changed it */
} explain_run;

void explain_run_rules(explain *e, explain_run *run, const explain_rewrite_rule *rules, int n);
/** As mod_rewrite's subst_prefix_path(). */
const char *explain_replace_prefix(const explain *e, const char *path, const char *from,
                                   const char *to);

#endif
