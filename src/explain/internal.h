/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file explain/internal.h
 * What the files of this folder share. explain/explain.c reads the question and writes the report;
 * explain/connection.c makes a connection, a server and a request that lead nowhere;
 * explain/lookup.c sends that request through httpd; explain/answer.c stands for its handlers;
 * explain/effects.c keeps from it what modules do beside answering;
 * explain/trace.c reads what httpd and mod_rewrite log of it; explain/lines.c finds the lines that
 * mod_rewrite's trace speaks of, explain/alias.c the one of mod_alias; explain/levels.c shows what the cache has of the .htaccess files
 * on the way.
 */
#ifndef HTC_EXPLAIN_INTERNAL_H
#define HTC_EXPLAIN_INTERNAL_H

#include "explain/explain.h"
#include "redirect_table.h"

/** "int:" map of this module that stands in for each map of a program. */
#define EXPLAIN_MAP "htcache-explain"

/** Note of a subrequest: its path. mod_dir gives its notes to the request that it answers. */
#define EXPLAIN_PATH "htcache-explain-path"

/** More are not shown; the list says so. */
#define EXPLAIN_MAX_STEPS  200
#define EXPLAIN_MAX_LOG    50
#define EXPLAIN_MAX_LEVELS 200
/** Most of an answer's header that is kept. */
#define EXPLAIN_HEAD 65536

/** The URL, taken apart. */
typedef struct explain_url {
    const char *host_header; /* "host:port" as it stands there */
    const char *line;        /* path and query, as a client would send them */
    apr_port_t port;
    bool https;
    bool has_host; /* it names one; else it is that of the page */
} explain_url;

typedef struct explain_lines explain_lines; /* explain/lines.c */

/** A line of a configuration file. */
typedef struct explain_where {
    const char *file; /* NULL: not known */
    unsigned line;    /* of a row of a map perhaps its number, see REDIRECT_BY_ROW */
} explain_where;

/** A line that may hold for the request. */
typedef struct explain_line {
    const char *name, *args;
    bool inside;           /* of a section or a .htaccess file */
    bool htaccess;         /* of a .htaccess file */
    const char *directory; /* of that one, or of a <Directory>, ends with '/'; or NULL */
    explain_where where;
} explain_line;

/** Strings are valid during the call only, but for those of the configuration's tree and the name
 * of the file. */
typedef void explain_line_fn(void *baton, const explain_line *line);

typedef struct explain {
    htc_explained mark; /* the first member: what httpd's hooks find */
    htc_report *report;
    apr_pool_t *pool;
    const htc_explain_question *asked;
    explain_url url;
    const char *address; /* of the client */
    request_rec *r;      /* that httpd goes through */

    /* What came of it. */
    const request_rec *last; /* the request that was answered, not with an ErrorDocument */
    const char *handler;
    char *head; /* the answer's header, as it would be sent */
    size_t head_len;
    bool head_complete;
    int refused; /* the first answer that was no success; what follows is its document */
    int status;
    const char *location;
    explain_where by;       /* the line that answered */
    const char *edit;       /* that is an edit of the map `by`, of this source; NULL: it is none */
    explain_where document; /* the one that redirected the document of an error */
    explain_where tried;    /* the RewriteRule that mod_rewrite is at */
    bool named;             /* a table has named it */
    explain_where applied;  /* the one that was applied last */
    bool ended;             /* by that one: mod_rewrite has answered */

    apr_array_header_t *lines; /* explain_lines *, by directory */
    htc_list *steps, *log, *notes, *levels;
} explain;

/** Add a note, once. */
void explain_note(explain *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** Add a step; @a where and @a path may be NULL. Copies what is not in the pool. */
void explain_step(explain *e, const char *by, const explain_where *where, const char *text,
                  const char *path, const char *query);
/** End here: what would come next has an effect. The first reason counts. */
void explain_stop(explain *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline explain *explain_of(const request_rec *r)
{
    return (explain *)htc_explained_of(r);
}

/* explain/connection.c */
/** Make e->r, for the server that httpd chooses; its status is not HTTP_OK where httpd refuses it
 * before any hook. False: it cannot be made, which is noted. */
bool explain_make_request(explain *e);
void explain_register_filters(void);

/* explain/lookup.c */
/** Send e->r through httpd. */
void explain_look_up(explain *e);
/** Where e->by is: "FILE line 3". It has a file. */
const char *explain_place(const explain *e);

/* explain/effects.c */
/** A module beside which no request may be made, because it would count it for ever; NULL: none. */
const char *explain_counter(void);
/** Switch off in @a copy what writes for each request. */
void explain_switch_off(server_rec *copy, apr_pool_t *pool);
/** Note which modules were not asked, or did something all the same. */
void explain_note_modules(explain *e);
/** As httpd does ahead of a handler; OK, or the status that a filter answers with. */
int explain_insert_filters(request_rec *r);
/** No filter of content is run: it may run programs, as mod_include and mod_ext_filter do. */
void explain_drop_filters(explain *e, request_rec *r);
/** At pre_config. */
void explain_hook_effects(apr_pool_t *pconf);

/* explain/answer.c */
/** httpd would run a handler for @a r: run one that has no effect, or say which one would run. */
int explain_answer(explain *e, request_rec *r);

/* explain/trace.c */
void explain_hear(const ap_errorlog_info *info, const char *line);

/* explain/lines.c */
/** Call @a fn for each line of the .htaccess files that httpd met, the last one first (@a directory
 * not NULL: of those on the way to it), then of the virtual host, then of the main server. */
void explain_each_line(const explain *e, const char *directory, explain_line_fn *fn, void *baton);
/** The lines of mod_rewrite that hold for @a directory (NULL: the server). */
explain_lines *explain_lines_of(explain *e, const char *directory);
/** mod_rewrite begins with the first of them. */
void explain_rules_begin(explain_lines *lines);
/** mod_rewrite tries the rule with this pattern, or tests a condition with it: where does it stand?
 * Each look goes on from the one before. */
explain_where explain_rule(explain_lines *lines, const char *pattern);
explain_where explain_condition(explain_lines *lines, const char *pattern);
/** The rule that was tried last, or another one with its pattern, made this: which one can? */
explain_where explain_rule_made(explain_lines *lines, const char *result);

/* explain/alias.c */
/** @a r was answered with @a status, and no line told of it: the Redirect line that did it, if there
 * is only one that can have. */
explain_where explain_redirect(explain *e, const request_rec *r, int status);

/* explain/levels.c */
htc_list *explain_levels_list(htc_report *report);
/** List the directories in which httpd looked, and those on the way to @a file (NULL: none) in which
 * it did not. */
void explain_list_levels(explain *e, const char *file);

#endif
