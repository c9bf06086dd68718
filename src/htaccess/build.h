/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/build.h
 * What the two files that build share; of the builder process alone.
 */
#ifndef HTC_HTACCESS_BUILD_H
#define HTC_HTACCESS_BUILD_H

#include "htaccess/internal.h"

/** Room for an object, beside what its record suggests. */
#define HTC_BUILD_ROOM ((size_t)4 << 10)
/** Tries, each with four times as much; one more while room is scarce, as these begin with less. */
#define HTC_BUILD_TRIES 4

/** A request to the builder, being worked on. */
typedef struct htc_building {
    htc_context *ctx;
    server_rec *s;
    htc_server_conf *sc;
    const htc_heap_request *request;
    apr_file_t *nowhere; /* for what directives log */
    apr_pool_t *scratch; /* until the request is answered */
} htc_building;

/** A directory for which core asks. */
typedef struct htc_level {
    const char *dir; /* ends with '/' */
    htc_rights rights;
    htc_scope scope;
    unsigned ndeps;
    htc_dep deps[HTC_MAX_DEPS];
    bool listable;  /* there can be an entry for it */
    bool shareable; /* its file can have a configuration */
    htc_info file;  /* the record of its file; kind NONE: it has none */
    const char *path;
} htc_level;

/** What the file of a directory comes to, in the heap. NULL: it is not shared. Only for one that is
 * shareable. */
const htc_config *htc_build_config(const htc_building *b, const htc_level *level);

#endif
