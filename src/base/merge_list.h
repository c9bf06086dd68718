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
 * True when requests may share what the module @a module_name ("mod_alias.c") merges. If *unless is
 * not NULL, it is a directive of the module whose merged configuration is written to; the answer
 * then holds only for servers that do not use this directive.
 */
bool htc_merge_shared(const char *module_name, const char **unless);

#endif
