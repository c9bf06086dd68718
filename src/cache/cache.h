/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/cache.h
 * What the module remembers about .htaccess files: records and their shared store, the kernel's
 * reports of changes, the cost of each file, the history of the counters, and what each process
 * keeps. The contracts are in the headers below, one for each subject.
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
