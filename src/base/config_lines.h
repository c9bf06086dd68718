/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/config_lines.h
 * httpd configurations and .htaccess files as text, read line by line as httpd reads them: with
 * continuations, without comments and blank lines. For what looks at such files without a server:
 * htcachectl check, check --cost and convert. Part of the core: no httpd headers.
 */
#ifndef HTC_BASE_CONFIG_LINES_H
#define HTC_BASE_CONFIG_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_pools.h>

/** What kind of section a line opens. */
typedef enum config_section {
    CONFIG_SECTION_NONE,        /* the line opens none */
    CONFIG_SECTION_TRANSPARENT, /* <IfModule> and such: its lines belong to what is around it */
    CONFIG_SECTION_DIRECTORY,   /* its lines are a directory's: <Directory>, <Files>, <If>, ... */
    CONFIG_SECTION_HOST,        /* <VirtualHost> */
    CONFIG_SECTION_OTHER        /* <Limit>, <Macro>, ... */
} config_section;

/** A line with its continuations. Strings are in the reader's pool. */
typedef struct config_line {
    const char *name; /* of a section with the "<" ("<Files"), of its end with "</" */
    const char *args; /* as ap_directive_t has them, but with the ">" of a section */
    uint32_t number;  /* of its last line, as httpd counts */
} config_line;

/** A file being read: set at, end and pool, the rest to 0. The bytes are the caller's and may be
 *  anything; a NUL byte ends the line for all that is made of it. */
typedef struct config_reader {
    const char *at, *end;
    uint32_t number;
    apr_pool_t *pool;
} config_reader;

/** The next line that is not empty. False: there is none. */
bool config_next_line(config_reader *reader, config_line *line);

config_section config_section_of(const char *name);

/** One word as httpd's own argument reader takes it: in quotes, or up to a blank. @a at is moved
 * behind it; empty when there is none. */
const char *config_word(apr_pool_t *pool, const char **at);

/** The arguments of a section without the ">" at their end. */
const char *config_section_args(apr_pool_t *pool, const char *args);

#endif
