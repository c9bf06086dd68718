/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/record.h
 * A parsed .htaccess file in linear form: the directive tree in pre-order, each directive with its
 * name, arguments, line number and depth, behind a small header with a hash of the file's bytes.
 * It holds no pointers, so it can lie in shared memory or travel over a network to machines of the
 * same byte order (others reject it). Bytes that come from there are hostile until
 * htc_record_validate() said otherwise.
 */
#ifndef HTC_CACHE_RECORD_H
#define HTC_CACHE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

/** 128-bit hash of a file's bytes, to recognise a file that was touched but not changed. */
typedef struct htc_text_hash {
    uint64_t low, high;
} htc_text_hash;

htc_text_hash htc_text_hash_of(const void *bytes, size_t len);
bool htc_text_hash_equal(htc_text_hash a, htc_text_hash b);

/** Depths are below this. A walk over a record may recurse once per level. */
#define HTC_RECORD_MAX_NESTING 200

/** One directive. Strings are NUL-terminated and point into the record. */
typedef struct htc_directive {
    uint32_t line;    /* line in the file, from 1 */
    uint32_t depth;   /* 0 at top level; a section's children have one more */
    const char *name; /* as httpd stores it: "<Files" for a section */
    const char *args;
} htc_directive;

typedef struct htc_record_builder htc_record_builder;

/** Start a record; everything is allocated from @a pool. */
htc_record_builder *htc_record_begin(apr_pool_t *pool, htc_text_hash text_hash);

/** Append a directive in pre-order. Its depth is at most one more than the last one's, the first
 *  one's is 0; its name is not empty; neither string is NULL. Errors are told by
 *  htc_record_finish(). */
void htc_record_add(htc_record_builder *builder, const htc_directive *directive);

/**
 * Finish: *bytes and *len are the record, owned by the builder's pool; NULL and 0 on error.
 * @return APR_SUCCESS; APR_ENOSPC when it would pass 4 GiB; APR_EINVAL when a directive broke the
 *         rules above or was nested too deep; APR_ENOMEM when the pool had no more.
 */
apr_status_t htc_record_finish(htc_record_builder *builder, const void **bytes, size_t *len);

/** Prove that a record is safe to walk, and that it is one that a builder can have made. @a bytes
 *  may lie anywhere. @return APR_SUCCESS or APR_EINVAL. */
apr_status_t htc_record_validate(const void *bytes, size_t len);

/** The following take a validated record. */
htc_text_hash htc_record_text_hash(const void *bytes);
uint32_t htc_record_count(const void *bytes);

/** Walk: start with *offset = 0; false at the end. */
bool htc_record_next(const void *bytes, size_t *offset, htc_directive *directive);

#endif
