/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/urls.h
 * Lists of URLs with what they should be answered: looked up in a file, asked of a server, compared.
 * For htcachectl lookup --urls.
 */
#ifndef HTC_TOOL_URLS_H
#define HTC_TOOL_URLS_H

#include "tool/map_file.h"

/** What answers a URL. Strings live as long as the list. */
typedef struct url_answer {
    int status;           /* 0: nothing */
    const char *location; /* NULL: none */
    uint32_t line;        /* of the file; 0: none */
    const char *why;      /* it could not be asked, and why; NULL: it was */
} url_answer;

typedef struct url_row {
    uint32_t line;      /* in the list */
    const char *url;    /* "/path", "//host/path" or "http://host/path" */
    const char *target; /* that it should lead to; NULL: not given */
    int status;         /* that it should have; 0: not given */
    url_answer map, server;
    const char *differs; /* NULL: as it should be; else what was expected */
} url_row;

/**
 * Look up each URL of command->urls. @a map (NULL: none) is loaded. With command->server the server
 * there is asked, and what a row does not say is expected as the map answers. Prints the
 * differences. A tool_exit: TOOL_FOUND if there are any.
 */
int tool_lookup_urls(const tool_options *command, map_file *map, apr_pool_t *pool);

/** Ask the server that listens at @a address ("http://127.0.0.1:8080") for each row's URL, with the
 * URL's host. No redirect is followed. A tool_exit: TOOL_NO_SERVER if no connection came about. */
int urls_ask(url_row *rows, size_t count, const char *address, apr_pool_t *pool);

#endif
