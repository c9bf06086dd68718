/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/maps.h
 * Bulk redirect maps: the options of a map, the file formats that are read, what is reported about
 * a file, and what a matched row answers. Used by the module (HtCacheRedirectMap) and by
 * htcachectl check, lookup and convert. Part of the core: no httpd headers.
 */
#ifndef HTC_MAPS_MAPS_H
#define HTC_MAPS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "maps/budget.h"
#include "maps/condition.h"
#include "maps/csv.h"
#include "maps/edit.h"
#include "maps/overlay.h"
#include "maps/queue.h"
#include "maps/request.h"
#include "redirect_table.h"

typedef enum redirect_format {
    REDIRECT_FORMAT_AUTO = 0, /* by the file's name, see redirect_format_of() */
    REDIRECT_FORMAT_TEXT,     /* source target [status] [key=value...]; RewriteMap txt files too */
    REDIRECT_FORMAT_CSV,
    REDIRECT_FORMAT_NETLIFY,   /* _redirects of Netlify and Cloudflare */
    REDIRECT_FORMAT_NGINX,     /* the body of a map block, or whole map blocks */
    REDIRECT_FORMAT_JSON,      /* Vercel bulk redirects, vercel.json */
    REDIRECT_FORMAT_CLOUDFLARE /* CSV of Cloudflare's bulk redirects */
} redirect_format;

/** What the request's query has to do with the rule. */
typedef enum redirect_query {
    REDIRECT_QUERY_DEFAULT = 0, /* not given: APPEND, or the format's default (Vercel bulk: DROP) */
    REDIRECT_QUERY_APPEND,      /* The request must have the query of the source, as a set of
                                 * parameters; nothing is appended. A source without a query
                                 * matches any query, which is appended unless the target has
                                 * one */
    REDIRECT_QUERY_DROP,        /* as APPEND, but nothing is ever appended */
    REDIRECT_QUERY_WHOLE,       /* query=exact: equal byte for byte, none if the source has none;
                                 * nothing is appended */
    REDIRECT_QUERY_IGNORE       /* a query in the source is disregarded; else as APPEND */
} redirect_query;

/** redirect_rule.options of a row. */
enum {
    REDIRECT_OPT_APPEND_QUERY = 1, /* append the request's query unless the target has one */
    REDIRECT_OPT_APPEND_REST = 2,  /* append the rest of the path (PREFIX), escaped */
    REDIRECT_OPT_EXPAND = 4,       /* $0 to $9 in the target stand for the pattern's groups */
    REDIRECT_OPT_LINE = 8 /* a line of httpd: the query goes behind all of the target, its fragment
                           * too; so does the rest of the path (PREFIX) without APPEND_REST */
};

/** Options of a map, and the defaults of its rows. */
typedef struct redirect_map_options {
    redirect_format format;
    redirect_query query;
    bool ignore_case, ignore_slash, subpath;
    int status;          /* of rows that name none; 0: the format's default, which is 302 as with
                        * Redirect, but 301 for _redirects and 307 for JSON */
    const char *host;    /* of sources that name none: lower case, "*.name" allowed; or NULL */
    const char *strip;   /* as redirect_rule.strip; or NULL */
    const char *columns; /* of CSV files: what they are, "source,target,-"; or NULL: their names say
                          * it */
    const char *country_from; /* the environment variable with the request's country; or NULL */
    bool unacceptable; /* unacceptable=406: of rows with accept or language none is acceptable,
                          * and that is the answer; else the next row is asked */
    bool no_test;      /* configtest=off: httpd -t leaves the map out; changes no answer */
    bool any_source;   /* not an option of a map: also sources that look like patterns are taken */
} redirect_map_options;

void redirect_map_options_init(redirect_map_options *options);

/** Set one option from "key=value" (@a word). Returns NULL, or a message that says what is wrong
 * with it. What the options keep of @a word is copied to @a pool. */
const char *redirect_map_option(redirect_map_options *options, const char *word, apr_pool_t *pool);

/** The format that a file is read in. What @a options say; else by the file's name: .csv and .tsv
 * are CSV, or Cloudflare's by their content; .json and .jsonl; _redirects; .conf and .map are nginx
 * by their content. Anything else is by its content JSON, or CSV with a header, or text. Never
 * AUTO. */
redirect_format redirect_format_of(const redirect_map_options *options, const char *name,
                                   const char *bytes, size_t len);

/** True when the file looks like httpd's own configuration or a .htaccess file, not like a map. */
bool redirect_map_is_httpd(const char *name, const char *bytes, size_t len);

typedef enum redirect_severity {
    REDIRECT_NOTE,    /* for information: a chain of two */
    REDIRECT_WARNING, /* the row does not do what it seems to: duplicate, shadowed, loop */
    REDIRECT_ERROR    /* the row was left out */
} redirect_severity;

/** Receives what is found, in the order it is found. @a message is valid during the call only and
 *  is printable: control characters of the file are escaped. */
typedef void redirect_report_fn(void *baton, redirect_severity severity, uint32_t line,
                                const char *message);

/** A good redirect_report.try_most for a caller that may not take long: about a second. Ordinary
 * patterns cost some 600, so that is 100,000 of them. */
#define REDIRECT_TRY_MOST (UINT64_C(64) << 20)

/** Browsers follow so many redirects and no more. */
#define REDIRECT_FOLLOW_MAX 20

/** @a rule has the pattern that was made. The texts are valid during the call only. */
typedef void redirect_written_fn(void *baton, const redirect_rule *rule, map_text source,
                                 map_text target);

/** A row was taken. @a plain: its source is a path, no pattern of the format. Between @a at, a
 * place in the bytes, and the row there are at most blanks and comments. The rule is valid during
 * the call only. */
typedef void redirect_placed_fn(void *baton, const redirect_rule *rule, bool plain, const char *at);

#define REDIRECT_CHECK_ROWS  32
#define REDIRECT_CHECK_FIXED 4000000

/** Of a file without any row, also without one that cannot be used: a warning of redirect_map_read(),
 * as this may be meant. A server that has rows of it does not take it for meant. */
#define REDIRECT_MAP_NO_ROW "the file has no row"

/** What is said of a row. */
typedef enum redirect_tell {
    REDIRECT_TELL_DUPLICATE,
    REDIRECT_TELL_HIDDEN,
    REDIRECT_TELL_SELF,
    REDIRECT_TELL_LOOP,
    REDIRECT_TELL_CHAIN,
    REDIRECT_TELLS
} redirect_tell;

/** Of which row it was said last, and because of which other one. */
typedef struct redirect_told {
    uint32_t line, by;
} redirect_told;

/** What a JSON file has but redirects, which whoever writes these anew loses. */
typedef struct redirect_json_rest {
    bool in_object; /* they stand in an object, as in vercel.json */
    bool keys;      /* of others than of redirects, in that object or in rows */
    char key[48];   /* the first of these, cut */
} redirect_json_rest;

typedef struct redirect_report {
    redirect_report_fn *fn; /* NULL: only count */
    void *baton;
    uint64_t rows;                                      /* rows taken */
    uint64_t notes, warnings, errors;                   /* reported */
    uint64_t duplicates, loops, chains, shadowed, self; /* of these */
    uint32_t longest_chain;                             /* redirects until the end is reached */
    /** Called now and then with the number of bytes (when checking: of rules) that are done.
     * False stops the work with APR_EINTR. NULL: none */
    bool (*progress)(void *baton, uint64_t done, uint64_t total);
    /** Returns NULL when the pattern can be compiled, or the reason why not; its row is then an
     * error. NULL function: patterns are not compiled. */
    const char *(*compile)(void *baton, const char *pattern, unsigned flags);
    /** Compile no more patterns than this in all, by redirect_regex_bytes() of each, counted
     * once more for each 256 bytes of its text. The first pattern beyond it is reported; its
     * row and those behind it are taken without compiling. 0: no bound. */
    uint64_t try_most;
    /** redirect_map_check() compares no more rows than this (and those of one more look-up), and
     * reports where it stopped. 0: REDIRECT_CHECK_ROWS for each row of the table, and
     * REDIRECT_CHECK_FIXED. */
    uint64_t check_most;
    /** For redirect_map_check(): these are lines of a configuration. Nothing is said about the hosts
     * that a map may be used for. */
    bool lines;
    /** Called for each row that an earlier one hides, with the lines of both: by
     * redirect_map_build() for rows with the same source, by redirect_map_check() for others. NULL:
     * none */
    void (*hidden)(void *baton, uint32_t line, uint32_t by);
    void *hidden_baton;
    /** For redirect_map_check(), as in redirect_request. NULL: patterns do not match there. */
    redirect_regex_fn *regex;
    void *regex_baton;
    /** For redirect_map_check(): the groups of a match, at most @a max; returns how many there are.
     * NULL: rows with groups are not followed. */
    int (*groups)(void *regex_baton, const redirect_match *match, const char *subject, size_t len,
                  redirect_group *groups, int max);
    redirect_json_rest json; /* set by redirect_map_read() */
    /** Set by redirect_map_read(): a row may have two rules with its line, one behind the other, for a
     * host and for those below it. What is said of both is said and counted once. */
    bool twins;
    redirect_told told[REDIRECT_TELLS]; /* for redirect_report_is_again() */
    /** Called for each row whose pattern was made of something else, with source and target as they
     * are written: "/a/:b*". NULL: none */
    redirect_written_fn *written;
    void *written_baton;
    /** Called for each rule in the order in which they are asked. Where a row has two, one behind the
     * other. NULL: none */
    redirect_placed_fn *placed;
    void *placed_baton;
    /** Called by redirect_map_read() for each rule that was taken; it is valid during the call only.
     * NULL: none */
    void (*taken)(void *baton, const redirect_rule *rule);
    void *taken_baton;
} redirect_report;

/**
 * Read a whole file's bytes into the builder. Rows whose source has a query are added before those
 * without one (text, CSV, nginx), so that "/a" does not hide "/a?id=1"; apart from that, rows
 * keep their order, and the first that matches wins. nginx: exact sources, then regexes, then
 * default.
 * @a name is the file's, for its format. @a bytes may hold anything. @a builder NULL: what it has is
 * only reported.
 * @return APR_SUCCESS also when rows were left out (see report->errors); APR_EGENERAL when the file
 *         as a whole is not of its format (reported); APR_ENOMEM, APR_ENOSPC; APR_EINTR.
 */
apr_status_t redirect_map_read(const redirect_map_options *options, const char *name,
                               const char *bytes, size_t len, redirect_builder *builder,
                               redirect_report *report, apr_pool_t *pool);

/**
 * Read and build: the image in malloc'ed memory, to be freed by the caller. Reports duplicates too.
 * An image without any rule is fine. *image is NULL when something else than APR_SUCCESS is
 * returned.
 */
apr_status_t redirect_map_build(const redirect_map_options *options, const char *name,
                                const char *bytes, size_t len, redirect_report *report,
                                apr_pool_t *pool, void **image, size_t *size);

/**
 * Find loops, chains, self-redirects and shadowed rows of a table, in linear time. Where each
 * look-up has to compare many rows, as with patterns without a literal beginning, only the first
 * rows are checked, see redirect_report.check_most. A target is followed when it is a path, a URL
 * with the host of its own row's source, or a URL for whose host the table has a row. A path
 * without a known host is looked up among rows without a host only. Rows with groups are followed
 * from a URL that they answer, if one is found.
 */
apr_status_t redirect_map_check(const redirect_table *table, redirect_report *report,
                                apr_pool_t *pool);

/** Groups make no longer text of a target: a line can repeat one some thousand times. As mod_alias. */
#define REDIRECT_LOCATION_MAX 65536

/**
 * What a matched row answers: the value of Location before httpd completes it (a URL, or a path
 * that begins with "/"), in @a pool. @a request is the one that was looked up, but with the query
 * as the client sent it. The rest of the path goes behind the target's path, and the query before
 * its fragment. With REDIRECT_OPT_EXPAND groups are escaped, for a path or for a query by where
 * they stand. NULL when the row has no target, or when expansion would leave the target's scheme
 * and host or become longer than REDIRECT_LOCATION_MAX (then *refused is true and the row must not
 * be used).
 */
const char *redirect_map_location(const redirect_match *match, const redirect_request *request,
                                  const redirect_group *groups, int ngroups, apr_pool_t *pool,
                                  bool *refused);

/** Set the literals of a PATTERN: what its matches begin with and what they contain, if that is
 * known. They hold whatever RegexDefaultOptions says. In @a pool. */
void redirect_map_set_literals(redirect_rule *rule, apr_pool_t *pool);

/* --- for the converter ---------------------------------------------------------------------*/

/** True when this was said of the last rule that it was said of, and that was the same row's. */
bool redirect_report_is_again(redirect_report *report, redirect_tell what, uint32_t line,
                              uint32_t by);
void redirect_report_say(redirect_report *report, redirect_severity severity, uint32_t line,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/** Where in a target groups may stand: behind its scheme and host. A message in *why and 0 when it
 * is not a target at all. */
size_t redirect_map_free_part(const char *target, size_t len, const char **why);
/** A target or query as it is sent: blanks and bytes over 126 as %XX. @a to has three times @a len
 * bytes. The length. */
size_t redirect_map_encode(const char *s, size_t len, char *to);
/** Does one strip= (NULL: none) leave out all parameters that the other one does? */
bool redirect_map_strips_all(const char *strip, size_t len, const char *other, size_t other_len);
/** What makes a source look like a pattern: so many bytes, and the one of them that must be encoded if
 * it means itself. */
typedef struct redirect_sign {
    size_t at, len, mark;
} redirect_sign;
/** The first sign of a path of @a path_len bytes, and of the query behind it up to @a len. With
 * @a wildcards "*" is none. False: there is none. */
bool redirect_map_find_sign(const char *path, size_t path_len, size_t len, bool wildcards,
                            redirect_sign *sign);
/** True when a regex has alternatives that are in no group. */
bool redirect_map_has_alternatives(const char *regex, size_t len);
/** The literal that whatever @a regex matches begins with, copied to @a to (@a len bytes of room).
 *  *kind: LITERAL or LITERAL_PREFIX if the regex says nothing else, else PATTERN. */
size_t redirect_map_literal_prefix(const char *regex, size_t len, char *to, redirect_kind *kind);

#endif
