/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/convert.h
 * Redirects on their way from one format to another: lists of rules read from redirect maps and
 * from httpd configurations, and written in any of these formats. What a format cannot say is
 * reported rule by rule and never dropped silently. Used by htcachectl convert. Part of the core:
 * no httpd headers.
 */
#ifndef HTC_TOOL_CONVERT_H
#define HTC_TOOL_CONVERT_H

#include <stdio.h>

#include <apr_tables.h>

#include "maps/maps.h"

typedef enum convert_format {
    CONVERT_TEXT,
    CONVERT_CSV,
    CONVERT_NETLIFY,
    CONVERT_NGINX,
    CONVERT_JSON,       /* bulk redirects, or as in vercel.json where patterns are needed */
    CONVERT_CLOUDFLARE, /* CSV of Cloudflare's bulk redirects */
    CONVERT_VERCEL,     /* JSON with nothing in it that Vercel does not take */
    CONVERT_HTTPD       /* Redirect and RedirectMatch lines, or RewriteRules */
} convert_format;
#define CONVERT_FORMATS 8

/** What a line that was left out does to rows that may match the same paths. One of a server or its
 * virtual hosts may keep RewriteRules from being asked: those of directories, too, or not. */
typedef enum convert_ahead {
    CONVERT_NOT_AHEAD,
    CONVERT_AHEAD,             /* it may answer first, by the header Accept */
    CONVERT_AHEAD_OF_REWRITES, /* it may change the path that RewriteRules see, likewise */
    CONVERT_MAKES_PATH         /* it makes such a path, which no RewriteRule sees */
} convert_ahead;

/** One redirect. Strings are counted and NUL-terminated, in the list's pool. */
typedef struct convert_rule {
    redirect_rule rule; /* options: REDIRECT_OPT_* of maps/maps.h */
    bool joins;         /* PREFIX: the rest of the path is put right behind the target's last byte,
                         * as mod_alias does it, without minding slashes, query and fragment;
                         * then it has REDIRECT_OPT_LINE */
    const char *file;   /* rule.line is the line in it */
    uint32_t part;      /* see convert_row */
    unsigned place; /* of a configuration: rules of another place are asked in other requests, or
                         * in an order that is not known; 0: the server's and its virtual hosts' */
    convert_ahead ahead;         /* none of a list's is */
    struct convert_begun *begun; /* while a configuration is read: of a RewriteRule; else NULL */
    const unsigned char
        *literals; /* with `ahead`: redirect_literals that its paths have; NULL: not known */
    bool lost;     /* it could not be written as it is, which was reported */
    bool left_out; /* nor at all */
    bool differs;  /* it was written with a loss that only few requests see, which was reported */
    bool unread;   /* it was written as it is, but in a way that is not read again */
    const char
        *base; /* of a RewriteRule that redirects in a directory: its URL path, with "/" in front
                       * and behind */
    /** In what httpd treats captured bytes otherwise than a map, as a message; NULL: in nothing. */
    const char *captured;
    /** What a pattern was made of: "/a/:b*" and its target, as they are written; NULL: the pattern
     * is what is written. It is for rule.target as it was then. */
    const char *written, *written_target, *made_target;
} convert_rule;

/** Where a row or line stands. */
typedef struct convert_row {
    const char *file;
    uint32_t line;
    uint32_t part; /* tells rows of one line apart; 0: the line is one */
} convert_row;

/** Something that could not be said of a rule. */
typedef struct convert_loss {
    int rule; /* its index in the list */
    bool left_out;
    bool warning; /* nothing is lost */
    const char *text;
} convert_loss;

/** What became of the rows and lines that were read; `read` is the sum of the others. A row counts
 * once, however many redirects were made of it. */
typedef struct convert_rows {
    unsigned read;
    unsigned whole;  /* written as they are */
    unsigned partly; /* written, but something was lost, or a part of what they say */
    unsigned left_out;
} convert_rows;

/** Receives what is found. REDIRECT_ERROR: something was lost. @a message is printable. */
typedef void convert_say_fn(void *baton, redirect_severity severity, const char *file,
                            uint32_t line, const char *message);

/** A list of redirects, the first that matches wins, and where reports go. */
typedef struct convert_list {
    apr_pool_t *pool;
    apr_array_header_t *rules; /* convert_rule */
    convert_say_fn *say;
    void *baton;
    uint64_t losses;                                                          /* reported */
    const char *(*compile)(void *baton, const char *pattern, unsigned flags); /* as in
                                                                               * redirect_report */
    /** Called for each row of a map that is not in the list, as it has the source of another one,
     * with the lines of both. NULL: none */
    void (*hidden)(void *baton, uint32_t line, uint32_t by);
    void *hidden_baton;
    apr_array_header_t *no_rules; /* convert_row: of rows that were read, and are no rules here */
    apr_array_header_t *faults;   /* convert_row: of rows of which not all could be read */
    uint32_t parts;               /* so many rows that share a line were read */
    apr_array_header_t *waiting;  /* convert_loss: reported when all rules have been written */
    redirect_json_rest json;      /* of maps that were read */
    bool as_object;               /* write JSON as in vercel.json */
    /** Called while rules are tried, with how many are done. NULL: none */
    void (*progress)(void *baton, uint64_t done, uint64_t total);
    void *progress_baton;
    bool own_dollars; /* the writer can say a "$1" that stands for itself beside groups */
} convert_list;

convert_list *convert_list_create(apr_pool_t *pool, convert_say_fn *say, void *baton);

/** The format with this name, as of format=, "vercel" and "httpd"; -1: there is none. */
int convert_format_of(const char *name);
/** The format of maps that reads what was written in this one; not of CONVERT_HTTPD. */
redirect_format convert_reader_of(convert_format format);
const char *convert_format_name(convert_format format);

/**
 * Append the rows of a redirect map. APR_EGENERAL: it is not of its format, which was reported. @a
 * file is kept.
 */
apr_status_t convert_read_map(convert_list *list, const redirect_map_options *options,
                              const char *file, const char *bytes, size_t len);

/** Facts about a configuration that do not stand in it. */
typedef struct convert_place {
    bool htaccess;    /* the file is a .htaccess file */
    const char *base; /* URL path of its directory, "/" in front and behind; NULL: "/" */
    bool negotiate;   /* RewriteConds on Accept become rows that are negotiated */
} convert_place;

/**
 * Append the redirects of a configuration or .htaccess file: Redirect, RedirectMatch, RedirectTemp,
 * RedirectPermanent, and RewriteRules without conditions that redirect, or with such on Accept that
 * make no difference, or with place->negotiate have a common shape. Lines of a <VirtualHost>
 * are for its ServerName and ServerAliases. RewriteRules are asked before Redirect lines, and the
 * server's lines before those of directories, as httpd does it. Each such line that cannot be taken
 * is a loss, and so is each included file, which is not read. <IfModule> and the like are taken to
 * hold, which is reported.
 */
void convert_read_config(convert_list *list, const convert_place *place, const char *file,
                         const char *bytes, size_t len);

/** Of an Include line, with its argument. */
#define CONVERT_NOT_READ "the included file '%s' was not read"
bool convert_is_include(const char *name);

/** How a written map is to be loaded: options that hold for the whole of it. */
typedef struct convert_result {
    redirect_map_options options;
    const char *words; /* the same as words behind HtCacheRedirectMap FILE; "" for none */
    unsigned written;  /* rows or lines; a rule may take two, one that was lost takes none */
} convert_result;

/** Write all rules. Rules that cannot be said are reported and left out, or written as near as the
 * format can say them, which the report tells. */
void convert_write(convert_list *list, convert_format format, FILE *out, convert_result *result);

/** Count what became of all rows; after the list was written, and verified. */
convert_rows convert_count_rows(const convert_list *list);

/** A table of the rules; the line of each rule in it is its index in the list. malloc'ed. */
apr_status_t convert_build(const convert_list *list, void **image, size_t *size);

#endif
