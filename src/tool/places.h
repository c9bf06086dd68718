/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/places.h
 * Where the status page of this machine may be, for when nobody says it. Only for the files of this
 * folder, and their tests.
 */
#ifndef HTC_TOOL_PLACES_H
#define HTC_TOOL_PLACES_H

#include <stdbool.h>

#include <apr_network_io.h>
#include <apr_pools.h>
#include <apr_tables.h>

/** An address that httpd may listen at. */
typedef struct tool_place {
    const char *url; /* of the status page there */
    const char *host;
    apr_port_t port;
} tool_place;

/** All places, of tool_place: first http://127.0.0.1, then those of the Listen lines of the server's
 * configuration, then https://127.0.0.1. @a conf_file: the installed htcache.conf, which names the
 * page's path; the configuration is looked for beside it. It need not be there. */
apr_array_header_t *tool_places(const char *conf_file, apr_pool_t *pool);

/** For a URL without a scheme: http, then https. */
apr_array_header_t *tool_places_of(const char *url, apr_pool_t *pool);

/** The first place at which something listens; NULL: there is none. */
const tool_place *tool_listening(const apr_array_header_t *places, apr_pool_t *pool);

/** The URLs in words: "A, B or C". */
const char *tool_place_names(const apr_array_header_t *places, apr_pool_t *pool);

#endif
