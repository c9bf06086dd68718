/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What both parts of check_redirect_map_conditions share.
 */
#ifndef REDIRECT_MAP_CONDITIONS_H
#define REDIRECT_MAP_CONDITIONS_H

#include "redirect_map_util.h"

#include <check.h>

/** "3 Accept, Cookie": the line that answers, 0 for none, or 406; and Vary.
 * @param lines "Name: value" of the request, and "METHOD" or "country XX", with newlines between. */
const char *answer_to(test_map *map, const char *url, const char *lines);

/** Random maps and requests. */
void add_random_maps(TCase *tc);

#endif
