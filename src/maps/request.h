/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/request.h
 * From the URL that a client asks for to what a redirect table is asked, as httpd 2.4 does it:
 * decoding, dot segments, runs of slashes, encoded slashes; and back, the escaping of a path in a
 * Location. The module gets paths from httpd itself and shares the forms in which they are
 * compared; htcachectl has all of it from here. Part of the core: no httpd headers.
 */
#ifndef HTC_MAPS_REQUEST_H
#define HTC_MAPS_REQUEST_H

#include "redirect_table.h"

/** httpd's AllowEncodedSlashes. */
typedef enum redirect_slashes {
    REDIRECT_SLASHES_OFF, /* httpd answers 404 itself */
    REDIRECT_SLASHES_ON,
    REDIRECT_SLASHES_NODECODE
} redirect_slashes;

/** What of a server's configuration makes a difference. All zeros: its defaults. */
typedef struct redirect_server {
    redirect_slashes encoded_slashes;
    bool keep_runs; /* MergeSlashes Off */
} redirect_server;

/**
 * The request that a client makes of @a url, as httpd has it when redirects are looked up: a full
 * URL, "//host/path" or a path, with a query or without. Strings are in @a pool; the query is as
 * the client sends it. NULL, or why there is none; then *status is what httpd answers itself (400
 * or 404), or 0: it is not a URL. @a server NULL: the defaults.
 */
const char *redirect_request_of(const char *url, const redirect_server *server,
                                redirect_request *request, int *status, apr_pool_t *pool);

/** Bring path and query to the one form in which tables have them. For a look-up only: a Location
 * is made of the request as it came. */
void redirect_request_one_form(redirect_request *request, apr_pool_t *pool);

/** An encoded slash, which AllowEncodedSlashes NoDecode leaves in a path, as "%2F". @a path itself
 * when there is nothing to change; else a copy in @a pool. */
const char *redirect_path_one_form(const char *path, apr_pool_t *pool);

/** A query with %XX in one form: hexadecimal digits in upper case, unreserved characters decoded.
 * @a to has room for @a len bytes and may be @a query; returns the new length. For queries on both
 * sides of a comparison. */
size_t redirect_query_normalize(const char *query, size_t len, char *to);

/** The byte that "%XX" at @a s stands for, where the text goes to @a end; -1: that is none. */
int redirect_escaped_byte(const char *s, const char *end);

/** A decoded path as httpd's ap_os_escape_path() writes it into a Location. */
const char *redirect_escape_path(apr_pool_t *pool, const char *path);

#endif
