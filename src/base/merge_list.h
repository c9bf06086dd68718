/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/merge_list.h
 * The modules whose merged per-directory configuration several requests may share, at the same
 * time. htaccess/merged_walk.c asks this list before it merges for a directory what stock httpd
 * merges anew for each request.
 *
 * Deny by default: a module is on the list when its source was read, and nothing that runs while a
 * request is answered writes to the merged configuration or to what it points to, or hands it to
 * code that may. docs/identity.md, "Modules", says for each module why. The list is not the
 * allow-list (base/allow_list.h): that one is about what one .htaccess file sets. Constants only.
 */
#ifndef HTC_BASE_MERGE_LIST_H
#define HTC_BASE_MERGE_LIST_H

#include <stdbool.h>

/**
 * May requests share what the module named @a module_name ("mod_alias.c") merges? *unless is then
 * a directive of it whose merged configuration is written to; the answer holds for servers where
 * that directive stands nowhere. It is NULL when there is no such directive.
 */
bool htc_merge_shared(const char *module_name, const char **unless);

#endif
