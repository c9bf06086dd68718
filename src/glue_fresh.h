/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file glue_fresh.h
 * What HtCacheRevalidate auto says of itself on the status page. All else that others call of
 * glue_fresh.c is in mod_htcache.h.
 */
#ifndef GLUE_FRESH_H
#define GLUE_FRESH_H

#include "glue_status.h"

htc_reporter htc_fresh_report;

#endif
