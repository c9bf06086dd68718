/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/base.h
 * What everything else stands on; nothing here knows of caches, redirects or httpd. The contracts
 * are in the headers below, a subject each.
 */
#ifndef HTC_BASE_BASE_H
#define HTC_BASE_BASE_H

#include "base/allow_list.h"
#include "base/build.h"
#include "base/caseless.h"
#include "base/chain.h"
#include "base/config_lines.h"
#include "base/escape.h"
#include "base/ghosts.h"
#include "base/hot.h"
#include "base/identity.h"
#include "base/lock.h"
#include "base/merge_list.h"
#include "base/pages.h"
#include "base/sys.h"
#include "base/wide.h"

#endif
