/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file tool/verify.h
 * Does a converted file answer as what it was made from? For htcachectl convert and its unit tests.
 */
#ifndef HTC_TOOL_VERIFY_H
#define HTC_TOOL_VERIFY_H

#include "tool/convert.h"

/**
 * Read @a text, which is of @a format and to be loaded with @a options, and compare what it
 * answers with what @a list does: for each rule at paths made from its source (as it is, with and
 * without a slash behind it, below it, in other case), with its query, another and none, its host
 * and another. With @a keep_runs paths have runs of slashes, too, for servers that do not merge
 * them. The first difference for each rule is reported as a loss of @a list, but for those
 * already known to be lost. False: there was one.
 */
bool tool_verify(convert_list *list, convert_format format, const redirect_map_options *options,
                 bool keep_runs, const char *text, size_t len);

#endif
