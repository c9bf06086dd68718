/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Symbolic links whose path ends in $HTCACHE_OWNERS belong to another user, to whoever looks at one
 * that is open: only root could make such a link. Preloaded by t/87-map-run-time.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANOTHER 54321

static int is_wanted(int fd)
{
    const char *end = getenv("HTCACHE_OWNERS");
    char link[64], path[4096];
    ssize_t len;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, path, sizeof(path));
    return end && len >= (ssize_t)strlen(end) &&
           !memcmp(path + len - strlen(end), end, strlen(end));
}

int fstat(int fd, struct stat *st)
{
    int (*real)(int, struct stat *) = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
    int result = real(fd, st);

    if (!result && S_ISLNK(st->st_mode) && is_wanted(fd))
        st->st_uid = ANOTHER;
    return result;
}

int fstat64(int fd, struct stat64 *st)
{
    int (*real)(int, struct stat64 *) = (int (*)(int, struct stat64 *))dlsym(RTLD_NEXT, "fstat64");
    int result = real(fd, st);

    if (!result && S_ISLNK(st->st_mode) && is_wanted(fd))
        st->st_uid = ANOTHER;
    return result;
}
