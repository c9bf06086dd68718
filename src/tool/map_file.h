/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/map_file.h
 * One redirect map or configuration, from its bytes to its table, as the module reads it but without
 * a server. For htcachectl check, lookup and diff.
 */
#ifndef HTC_TOOL_MAP_FILE_H
#define HTC_TOOL_MAP_FILE_H

#include "tool/convert.h"
#include "tool/htcachectl.h"
#include "tool/kinds.h"
#include "tool/map.h"

#define U64 APR_UINT64_T_FMT

typedef struct map_message {
    uint32_t line;
    uint32_t order;
    redirect_severity severity;
    char *text;
    uint64_t more; /* of its kind, behind it, that are only counted */
} map_message;

typedef struct map_file {
    const char *name;
    apr_pool_t *pool;
    redirect_map_options options;
    redirect_report report;
    char *bytes;
    size_t len;
    bool httpd; /* a configuration or .htaccess file */
    void *image;
    size_t image_size;
    const redirect_table *table;
    redirect_table_info info;
    convert_list *lines; /* of a configuration: the table's rules are its; else NULL */
    redirect_server server;
    const apr_table_t *headers;     /* of the requests that are looked up; NULL: none */
    const char *method, *country;   /* or NULL */
    redirect_conditions conditions; /* of the last look-up */
    map_regexes *regexes;
    map_message *messages;
    size_t count, capacity;
    message_kinds *kinds;
    bool keep_notes;
    bool shows; /* how far it is */
    tool_work work;
} map_file;

/** A file that was read as a list of redirects. */
typedef struct redirect_file {
    char *bytes; /* malloc'ed */
    size_t len;
    bool httpd; /* a configuration or .htaccess file */
} redirect_file;

/** Append the redirects of a map, configuration or .htaccess file. TOOL_FOUND: it is not of its
 * format, which the list was told; TOOL_USAGE: it cannot be read, which was said. The caller frees
 * file->bytes. In tool/convert_command.c. */
int tool_read_redirects(const tool_options *command, const redirect_map_options *options,
                        const char *name, convert_list *list, redirect_file *file);

/** What a request is answered with. */
typedef struct map_hop {
    redirect_request request; /* the query as sent */
    redirect_match match;
    const char *location; /* NULL: none */
    uint32_t line;
    bool refused; /* what was captured cannot stand in the target */
} map_hop;

extern const char *const map_severities[];

void map_file_begin(map_file *f, const char *name, const redirect_map_options *options,
                    apr_pool_t *pool);
void map_file_end(map_file *f);

/** Read the bytes, and find out what they are; @a format is --format or NULL. The format is said
 * on standard error unless it was given or the name says it. False: it cannot be read, which was said. */
bool map_file_read(map_file *f, const char *format);
/** For files that are read otherwise: the name of the format, and the same words about it, unless
 * the file's name says it. */
const char *map_format_name(const redirect_map_options *options, bool httpd, const char *name,
                            const char *bytes, size_t len);
void map_say_format(const char *name, const char *format);
/** Is this the name of a .htaccess file? */
bool map_is_htaccess(const char *name);
/** The format that the bytes are read in, for people. */
const char *map_file_format(const map_file *f);

/** Build the table of a map. APR_EGENERAL: has been reported. */
apr_status_t map_file_build(map_file *f);
/** Read and build, also from the lines of a configuration. A tool_exit; what is wrong was said. */
int map_file_load(map_file *f, const char *format);
/** The exit code of what building or checking gave. */
int map_file_code(const map_file *f, apr_status_t rv);

/** As redirect_report.fn; the baton is a map_file. */
void map_file_collect(void *baton, redirect_severity severity, uint32_t line, const char *text);
void map_file_sort(map_file *f);
void map_file_print(const map_file *f);
json_t *map_file_json(const map_file *f);

/** What keeps a line or row from being asked, each reason once; as convert_say_fn, the baton is
 * message_kinds with a limit of 1. At the end, how many lines more there are. */
void map_say_unasked(void *baton, redirect_severity severity, const char *file, uint32_t line,
                     const char *message);
void map_say_more_unasked(const message_kinds *kinds, const char *name);

/** Look a request up as it stands, in the forms that tables have. */
bool map_file_find(map_file *f, const redirect_request *request, redirect_match *match);
/** Does a row answer, and what? */
bool map_file_ask(map_file *f, const redirect_request *request, map_hop *hop);

#endif
