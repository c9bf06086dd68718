/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/counts_file.h
 * Counts of redirects in a file, so that they survive a stop of the server. Only counts that are not
 * 0 are written. Part of the core: no httpd headers.
 *
 *   head 0 | head 1 | ... counts ... counts ...
 *
 * Each head names a place in the file, a generation, and the hash of what lies there. A write puts
 * the counts where the newest valid head does not point, waits until the disk has them, and then
 * replaces the older head. So there is a whole state at each moment, wherever a write is cut off. A
 * reader takes the newest one that is whole.
 *
 * One process writes at a time: the one that has the lock.
 */
#ifndef HTC_AREA_COUNTS_FILE_H
#define HTC_AREA_COUNTS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

/** One redirect: its key, and its counter's word (area/counters.h). */
typedef struct redirect_counts_pair {
    uint64_t key, word;
} redirect_counts_pair;

/** The counts of a map, or of all lines of one kind. */
typedef struct redirect_counts_group {
    uint64_t key[2]; /* as redirect_area_key */
    const redirect_counts_pair *pairs;
    uint64_t n;
} redirect_counts_group;

/** Counts in memory, in the form that they have in the file. All zeros: none. */
typedef struct redirect_counts {
    int64_t since;   /* they are counted, in seconds since 1970 */
    int64_t written; /* when the file got them; 0: they are not from a file */
    uint64_t *words; /* of malloc */
    size_t n, room;
    size_t group;  /* where the one that is being filled begins */
    bool too_much; /* something was left out: no memory, or more than a file may hold */
} redirect_counts;

/** Most that a file may hold: counts of four million redirects. */
#define REDIRECT_COUNTS_MOST ((uint64_t)64 << 20)

/** Begin a group. One that gets no pairs is not kept. */
void redirect_counts_begin(redirect_counts *counts, const uint64_t key[2]);
void redirect_counts_add(redirect_counts *counts, uint64_t key, uint64_t word);
/** End the group. */
void redirect_counts_end(redirect_counts *counts);
/** The groups in their order; *place is 0 at first and is changed here. False: there are no more.
 * Pairs are valid until @a counts is changed. */
bool redirect_counts_next(const redirect_counts *counts, size_t *place,
                          redirect_counts_group *group);
/** False: there is no such group. */
bool redirect_counts_find(const redirect_counts *counts, const uint64_t key[2],
                          redirect_counts_group *group);
/** Forget all, and give the memory back. */
void redirect_counts_clear(redirect_counts *counts);
/** True when both have the same counts since the same time. */
bool redirect_counts_equal(const redirect_counts *a, const redirect_counts *b);

/** Where in the file one state is. */
typedef struct redirect_counts_state {
    uint64_t generation; /* 0: there is none */
    uint64_t at, len;
    unsigned head; /* its number */
} redirect_counts_state;

typedef struct redirect_counts_file {
    int fd;
    redirect_counts_state now; /* the newest whole state */
    bool torn;                 /* a write to the file was cut off */
} redirect_counts_file;

/**
 * Open the file, or make it with no counts in it. It must be a regular file of this user, with no
 * other name, that nobody else may read or write. Links are not followed.
 * @return NULL, or a sentence for the administrator without the file's name, in @a pool. The
 * descriptor is closed by redirect_counts_file_close().
 */
const char *redirect_counts_file_open(redirect_counts_file *file, const char *path,
                                      apr_pool_t *pool);
void redirect_counts_file_close(redirect_counts_file *file);
/** Take the file's lock, which ends with the process. False: another process has it. */
bool redirect_counts_file_lock(const redirect_counts_file *file);
/** Read the newest whole state into @a counts, which is cleared before. The file may hold anything.
 * @return NULL, or why it cannot be used, in @a pool; then it must not be written. */
const char *redirect_counts_file_read(redirect_counts_file *file, redirect_counts *counts,
                                      apr_pool_t *pool);
/** Write the counts, and @a now as the time. After an error the file has the state of before.
 * APR_ENOENT: the file was removed. To be called after a read without an error. */
apr_status_t redirect_counts_file_write(redirect_counts_file *file, const redirect_counts *counts,
                                        int64_t now);

#endif
