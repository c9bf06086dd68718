/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/htcachectl.h
 * What the commands of htcachectl share: what was said on the command line, exit codes, colours,
 * and how names from files and servers are printed. Only for the files of this folder.
 */
#ifndef HTC_TOOL_HTCACHECTL_H
#define HTC_TOOL_HTCACHECTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <apr_pools.h>
#include <apr_tables.h>
#include <jansson.h>

#include "maps/maps.h"

/** Exit codes; a part of the tool's interface. */
typedef enum tool_exit {
    TOOL_GOOD = 0,
    TOOL_FOUND = 1,     /* what was checked is wrong, or what was looked for is not there; see
                         * each command */
    TOOL_USAGE = 2,     /* wrong usage, or a file that cannot be read */
    TOOL_NO_SERVER = 3, /* no connection to the server */
    TOOL_REFUSED = 4,   /* the server does not allow it */
    TOOL_TOO_SHORT = 5  /* redirects are counted for a shorter time than was asked about */
} tool_exit;

/** Most headers of a request, as the server takes them. */
#define TOOL_HEADERS 100

/** What was said on the command line. */
typedef struct tool_options {
    const char *url;         /* of the status page */
    const char *secret_file; /* whose first line a POST sends; NULL: none */
    bool url_given;          /* by the option or the environment */
    const char *format, *columns, *to, *base, *since, *output;
    const char *urls, *server;                   /* lookup: a list, and the server that is asked */
    const char *encoded_slashes, *merge_slashes; /* what the server has */
    const char *method, *address;                /* of the request that explain asks about */
    const char *country;                         /* of that which lookup asks about */
    const char *header[TOOL_HEADERS];            /* and its headers */
    int headers;
    long limit; /* -1: not said */
    bool json, csv, follow, cost, fix, all, temporary, negotiate;
    bool colour; /* colours on standard output */
    int words;   /* behind the command's name */
    char *const *word;
} tool_options;

typedef int tool_run(const tool_options *options, apr_pool_t *pool);

/* The commands; each returns a tool_exit. tool/check.c, lookup.c, diff.c: */
tool_run tool_check, tool_lookup, tool_diff;
/* tool/convert_command.c: */
tool_run tool_convert;
/* tool/cost_command.c; called by check --cost: */
tool_run tool_cost;
/* tool/status.c: */
tool_run tool_status;
/* tool/server.c: */
tool_run tool_purge, tool_reset;
/* tool/map_command.c: */
tool_run tool_map;
/* tool/listing.c: */
tool_run tool_top, tool_unused, tool_missing;
/* tool/explain.c: */
tool_run tool_explain;

typedef enum tool_colour {
    COLOUR_BOLD,
    COLOUR_DIM,
    COLOUR_RED,
    COLOUR_YELLOW,
    COLOUR_GREEN
} tool_colour;

/** What begins a colour on standard output, "" when there are none; and what ends it. */
const char *tool_begin(const tool_options *options, tool_colour colour);
const char *tool_end(const tool_options *options);

/** Print names of files, hosts and paths, which may hold anything: control characters, and bytes
 *  that a terminal may take for such, stand as \xXX. */
void tool_put(FILE *out, const char *s);
void tool_put_bytes(FILE *out, const char *s, size_t len);

/** "FILE:3", or "FILE:row 3", see REDIRECT_BY_ROW. */
void tool_put_place(FILE *out, const char *file, uint32_t line);

/** The same in JSON: "line", and "by_row" where that is a row's number. Of @a object, which is
 * returned. */
json_t *tool_json_place(json_t *object, uint32_t line);

/** A time on standard output, "never" for 0. */
void tool_put_time(json_int_t seconds);

/** TOOL_GOOD when nothing stands behind the command's name; else wrong usage, which was said. */
int tool_no_words(const tool_options *options, const char *command);

/** A field of CSV, in quotes where it needs them; what is not printable is escaped as above. */
void tool_put_csv(FILE *out, const char *s);

/** "htcachectl: " and a message, with what is not printable escaped, to standard error. */
void tool_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same to a buffer: standard error takes several system calls for each message. */
void tool_say_to(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Words "key=value" that are options of maps go to *options, the others to @a names. False: wrong
 * usage, which was said. In tool/map_file.c. */
bool tool_take_words(const tool_options *command, redirect_map_options *options,
                     apr_array_header_t *names, apr_pool_t *pool);

/** What was said of the server's settings. False: wrong usage, which was said. In
 * tool/lookup.c. */
bool tool_take_server(const tool_options *command, redirect_server *server);

/** A plain file's bytes, malloc'ed; false: it cannot be read, which was said. */
bool tool_read_file(const char *name, char **bytes, size_t *len);
#define TOOL_STDIN      "/dev/stdin"
#define TOOL_STREAM_MAX ((size_t)16 << 20)
/** The same of anything that ends, such as a pipe, up to TOOL_STREAM_MAX bytes. TOOL_STDIN is what the
 * tool was started with, also where no file can be opened by that name. */
bool tool_read_stream(const char *name, char **bytes, size_t *len);

/**
 * Write what --output names. A regular file is replaced at once, when all is on disk. It keeps its
 * mode, and its owner where that is allowed. Links stay, and are followed. A link of another user
 * is refused if the file that it leads to is not that user's. Devices, pipes and open descriptors such as /dev/stdout
 * are written in place. False: it cannot be written, which was said. In tool/output.c.
 */
bool tool_write_file(const char *name, const char *bytes, size_t len, apr_pool_t *pool);

bool tool_is_directory(const char *name);

/** Call @a each for the .htaccess files below a directory. Links are not followed, so that no tree
 *  is without end. False: a part of it cannot be read, which was said. */
bool tool_tree(const char *name, void (*each)(void *baton, const char *path), void *baton);

/** A string of bytes that need not be UTF-8: others stand as the character of the same number. */
json_t *tool_json_string(const char *s);

/** Print and release. A tool_exit. */
int tool_print_json(json_t *root);

/** Print a text that is JSON. Characters that are not seen or that a terminal may take for a
 * command (controls, changes of direction) stand as \uXXXX. */
void tool_put_json(const char *text, size_t len);

/** Parse what a server sent. NULL, also when it holds more values, or deeper ones, than a page of
 *  mod_htcache has: a few bytes of JSON can take a hundred times their size in memory. */
json_t *tool_parse_json(const char *bytes, size_t len, json_error_t *error);

/** One line on a terminal that is written over again and again, on standard error. */
void tool_progress(bool terminal, const char *name, int percent);
void tool_progress_end(bool terminal);

/** What such a line says. */
typedef struct tool_work {
    const char *name;
    bool terminal;
    int percent; /* -1: there is no line */
} tool_work;

tool_work tool_work_begin(const char *name);
/** @a baton is a tool_work. All of it done: the line is taken away. */
void tool_work_done(void *baton, uint64_t done, uint64_t total);
void tool_work_end(tool_work *work);

#endif
