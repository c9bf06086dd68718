/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/hits.h
 * How often redirects have answered that are not known beforehand: lines of
 * .htaccess files. Those that have answered are remembered by a hash, with a counter as in
 * area/counters.h, in memory that all processes share; those that never did take no room.
 *
 * Entries lie in sets of REDIRECT_HITS_WAYS, chosen by the hash. In a full set the one that has not
 * answered for the longest time makes room.
 *
 * Lock-free. What is counted in the very moment in which its entry is given to another redirect may
 * be counted for that one, or not at all. Any function may be called by any thread of any process
 * that has the memory. Part of the core: no httpd headers.
 */
#ifndef HTC_AREA_HITS_H
#define HTC_AREA_HITS_H

#include "area/counters.h"

#define REDIRECT_HITS_ENTRIES 65536
#define REDIRECT_HITS_WAYS    8

/** What an entry counts for; all zeros: nothing yet. */
typedef struct redirect_hits_name {
    _Atomic uint64_t key;  /* of the redirect; 0: unused */
    _Atomic uint64_t file; /* whatever finds its file again; 0: not known at the moment */
} redirect_hits_name;

/** REDIRECT_HITS_ENTRIES of both, in shared memory, zero to begin with. */
typedef struct redirect_hits {
    redirect_hits_name *names;
    redirect_counter *counters;
} redirect_hits;

/** The redirect with the hash @a key has answered at @a now, in seconds since 1970. */
void redirect_hits_add(const redirect_hits *hits, uint64_t key, uint64_t file, int64_t now);

/** Add what was counted elsewhere, a word of another counter, to what is counted here. Where all
 * places of its set are taken it is left out. */
void redirect_hits_restore(const redirect_hits *hits, uint64_t key, uint64_t word);

/** How often it did; zeros: never, or not for long. */
redirect_count redirect_hits_get(const redirect_hits *hits, uint64_t key);

/** As if nothing had ever answered. */
void redirect_hits_reset(const redirect_hits *hits);

#endif
