/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/redirects.h
 * Redirects that tables answer: lines of the configuration (fold, rule filter), redirect maps, and
 * the counters of both. The contracts are in the headers below, a subject each.
 */
#ifndef HTC_REDIRECTS_REDIRECTS_H
#define HTC_REDIRECTS_REDIRECTS_H

#include "redirects/counters.h"
#include "redirects/fold.h"
#include "redirects/fold_track.h"
#include "redirects/map.h"
#include "redirects/notes.h"
#include "redirects/rule_filter.h"

#endif
