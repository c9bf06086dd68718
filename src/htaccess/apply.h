/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/apply.h
 * What htaccess/hook.c (which finds a file) and htaccess/apply.c (which brings its directives into the
 * request's configuration) share.
 */
#ifndef GLUE_APPLY_H
#define GLUE_APPLY_H

#include "module/module.h"

/** What the private directive of one synthetic file has to do. Lives in the request's pool. */
typedef struct htc_job {
    htc_context *ctx;
    request_rec *r;
    const char *path;
    htc_info info;          /* the record, when has_text is false */
    bool has_text;          /* the file was just read: parse text and publish it */
    ap_configfile_t *file;  /* else: httpd's own reader of the file, for this request only */
    bool sections_resolved; /* text has <IfModule> and the like */
    bool counted;           /* the look-up was counted already */
    bool sent;              /* the one line was handed out */
    htc_seen *seen;         /* told of the kept configuration; NULL: nothing will be learned */
    htc_text text;
} htc_job;

/** The synthetic file for @a job. */
ap_configfile_t *htc_job_open(htc_job *job, apr_pool_t *pool);

/** HTC_RF_RACY or 0. */
uint32_t htc_racy_flag(const htc_identity *id);

/** Store a record; hash, owner and share are filled in. ref->version is 0 on failure. */
apr_status_t htc_publish(htc_context *ctx, request_rec *r, htc_put *put, htc_ref *ref);

/** Record that httpd must read the file at @a path itself, and why. */
void htc_publish_stock(htc_context *ctx, request_rec *r, const char *path, const htc_text *text,
                       const char *reason);

/** The same for a file that does not fit; counted and logged. */
void htc_publish_too_large(htc_context *ctx, request_rec *r, const char *path,
                           const htc_text *text);

#endif
