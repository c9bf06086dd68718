/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file farm/census.h
 * A figure that each process of a server knows of itself and all want to see the sum of: how many
 * connections are open, say. Each process has a seat in shared memory and moves its number up and
 * down; a process that was killed cannot take its number back, so sums leave out the seats of those
 * that are gone, and a new process takes such a seat over.
 *
 * All zero at first. Used by the farm glue for its connections.
 */
#ifndef HTC_FARM_CENSUS_H
#define HTC_FARM_CENSUS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/** More processes than this at a time: those beyond are not counted. */
#define HTC_CENSUS_SEATS 1024

typedef struct htc_census {
    struct {
        _Atomic int32_t pid; /* 0: never taken */
        _Atomic int32_t n;
    } seat[HTC_CENSUS_SEATS];
} htc_census;

/** The number of process @a pid, 0 to begin with; lasts as long as the census. NULL when every seat
 *  is taken by a process that lives. */
_Atomic int32_t *htc_census_join(htc_census *census, int32_t pid);

/** Sum over the processes that live; *most is the largest of them. */
uint64_t htc_census_sum(const htc_census *census, uint64_t *most);

#endif
