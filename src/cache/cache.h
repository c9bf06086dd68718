/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/cache.h
 * What is remembered of .htaccess files: records and the shared store of them, what the kernel
 * tells of changes, what each file costs, the history of the counters, and what a process keeps for
 * itself. The contracts are in the headers below, a subject each.
 */
#ifndef HTC_CACHE_CACHE_H
#define HTC_CACHE_CACHE_H

#include "cache/costs.h"
#include "cache/counters.h"
#include "cache/history.h"
#include "cache/process_cache.h"
#include "cache/record.h"
#include "cache/store.h"
#include "cache/watch.h"

#endif
