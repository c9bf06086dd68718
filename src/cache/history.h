/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/history.h
 * What the counters were every ten seconds of the last hour, in a small shared segment, so that the
 * status page can say what happens now and draw it, without having been watched. Samples are taken
 * by the parent process, which httpd wakes about that often; a process that shows the page takes
 * one when none was taken in time.
 *
 * The segment outlives configurations (it belongs to the process pool); counters that begin anew
 * after a restart are seen as such. Lock-free; a process that dies while it takes a sample leaves
 * one that is not shown.
 */
#ifndef HTC_CACHE_HISTORY_H
#define HTC_CACHE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#define HTC_HISTORY_SAMPLES 360
#define HTC_HISTORY_SECONDS 10 /* between two samples, at least */

/** What is kept. */
enum htc_history_value {
    HTC_H_LOOKUPS,
    HTC_H_SAVED,  /* look-ups that opened no file */
    HTC_H_PARSED, /* of these: a parse was saved, too */
    HTC_H_STATS,
    HTC_H_READS,
    HTC_H_PARSES,
    HTC_H_EVICTIONS,
    HTC_H_BYTES,       /* no counter: memory in use */
    HTC_H_PARSE_NS,    /* no counter: what parsing a file takes; 0: not known */
    HTC_H_PARSE_FILES, /* no counter: how many files were timed for that */
    HTC_HISTORY_VALUES
};

typedef struct htc_sample {
    int64_t at;          /* wall clock, seconds since 1970 */
    uint64_t generation; /* samples of different ones count from different beginnings */
    uint64_t values[HTC_HISTORY_VALUES];
} htc_sample;

typedef struct htc_history htc_history;

/** Make an empty one. @return APR_SUCCESS or the error of mmap. It lives as long as @a pool. */
apr_status_t htc_history_create(htc_history **history, apr_pool_t *pool);

/** True when it is time for a sample and this caller takes it. @a now in seconds
 * since 1970; a clock that was set back does not stop it. */
bool htc_history_due(htc_history *history, int64_t now);

/** Add a sample. Only after htc_history_due() was true. */
void htc_history_add(htc_history *history, const htc_sample *sample);

/** Copy the samples, oldest first; returns how many. @a samples has room for HTC_HISTORY_SAMPLES.
 */
size_t htc_history_read(const htc_history *history, htc_sample *samples);

/** Copy the newest sample. False: there is none, or it is being written. */
bool htc_history_last(const htc_history *history, htc_sample *sample);

/** The growth of a counter from @a from to @a to: what it counted since a restart in between, as it
 * began anew there; 0 when it was set to 0 otherwise, or @a to is of before the restart. */
uint64_t htc_history_delta(const htc_sample *from, const htc_sample *to,
                           enum htc_history_value value);

#endif
