/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/costs.h
 * Which .htaccess files cost most. For each file that cost anything, a small shared segment of its
 * own holds how often each kind of work was done for it, and the time that it took. Only expensive
 * work is counted: a comparison with the disk, a parse, directives that run for a request, a file
 * left to httpd. An answer from memory costs far less and is not counted.
 *
 * Entries lie in sets of HTC_COSTS_WAYS, chosen by the key, a hash of the file's path. The path
 * itself is not kept; it is the key of the file's record (htc_store_name()). In a full set the file
 * that cost least is evicted, so the files that cost most stay, however many there are.
 *
 * Lock-free, and exact with one exception: work that is counted in the very moment in which its
 * entry is given to another file may be counted for that file, or not at all. Any function may be
 * called by any thread of any process that inherited the segment.
 */
#ifndef HTC_CACHE_COSTS_H
#define HTC_CACHE_COSTS_H

#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#define HTC_COSTS_ENTRIES 16384
#define HTC_COSTS_WAYS    8
/** The time taken for a file that is left to httpd, as it cannot be measured. */
#define HTC_COSTS_STOCK_NS UINT64_C(50000)

/** What can be dear. */
typedef enum htc_cost_kind {
    HTC_COST_CHECKS,  /* compared with the disk */
    HTC_COST_READS,   /* opened and read */
    HTC_COST_PARSES,  /* its text parsed */
    HTC_COST_LOADS,   /* the record was run as its configuration was not shared, or to share it */
    HTC_COST_REPLAYS, /* its directives run for one request */
    HTC_COST_STOCK,   /* left to httpd */
    HTC_COST_KINDS
} htc_cost_kind;

/** A copy of an entry. */
typedef struct htc_cost {
    uint64_t key;
    uint64_t ns;                     /* spent on all that is counted here, but for HTC_COST_STOCK */
    uint64_t parse_ns;               /* that the last parse took */
    uint32_t counts[HTC_COST_KINDS]; /* each stays at about UINT32_MAX when it comes there */
} htc_cost;

typedef struct htc_costs htc_costs;

/** Make an empty one. @return APR_SUCCESS or the error of mmap. It lives as long as @a pool. */
apr_status_t htc_costs_create(htc_costs **costs, apr_pool_t *pool);

/** Count one for the file with the hash @a key, which took @a ns nanoseconds. */
void htc_costs_add(htc_costs *costs, uint64_t key, htc_cost_kind kind, uint64_t ns);

/** What a file cost, in nanoseconds, with HTC_COSTS_STOCK_NS for what was not timed: the order. */
uint64_t htc_cost_weight(const htc_cost *cost);

/** Copy the entries that cost most, in order of cost. @return how many, @a max at most; *total:
 * entries in use. */
size_t htc_costs_top(const htc_costs *costs, htc_cost *out, size_t max, size_t *total);

/** What parsing a file takes, in nanoseconds: the median of the files' last parses, so that one which
 * was interrupted does not count for more than its time. *files: how many these are. 0: none was
 * parsed, or there is no memory to find out. */
uint64_t htc_costs_parse(const htc_costs *costs, uint64_t *files);

/** As if nothing had cost anything. What the last parse of a file took is still known. */
void htc_costs_reset(htc_costs *costs);

#endif
