/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which <Directory> and <Location> sections apply to a path, as core compares them in
 * ap_directory_walk() and ap_location_walk(), server/request.c. Called wherever the module must
 * know a section before core has walked. Regular expressions are the caller's.
 */
#include "module/module.h"

/* The leading part of dir with as many components as the name has: core compares a section with
 * wildcards only there, and "*" matches no '/'. */
static bool wildcard_matches(const char *name, const char *dir)
{
    int slashes = ap_count_dirs(name);
    const char *end = dir;
    char part[APR_PATH_MAX];

    for (; *end && slashes; end++)
        slashes -= *end == '/';
    if (slashes || (size_t)(end - dir) >= sizeof(part))
        return false;
    apr_cpystrn(part, dir, (size_t)(end - dir) + 1);
    return apr_fnmatch(name, part, APR_FNM_PATHNAME) == APR_SUCCESS;
}

bool htc_directory_matches(const char *name, bool wildcards, const char *dir)
{
    return wildcards ? wildcard_matches(name, dir) : !strncmp(dir, name, strlen(name));
}

bool htc_location_matches(const char *name, bool wildcards, const char *path)
{
    size_t len = strlen(name);

    if (wildcards)
        return apr_fnmatch(name, path, APR_FNM_PATHNAME) == APR_SUCCESS;
    return !strncmp(path, name, len) &&
           (!len || name[len - 1] == '/' || path[len] == '/' || !path[len]);
}
