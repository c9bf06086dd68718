/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Whoever puts a new file in the place of $HTCACHE_WAITS goes on when another thread or process has begun
 * to load it, and that one goes on when $HTCACHE_WAITS.go is there. Meanwhile the first one's monotonic
 * clock moves on a second whenever it sleeps, for twenty seconds. What happened so far is told by the
 * files .renamed, .loading and .slept. Preloaded by t/87-map-run-time.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLEEPS     20
#define PATIENCE_S 60

static _Thread_local int sleeps = -1; /* -1: it has replaced no file */

static const char *file_of(const char *what, char *room, size_t size)
{
    const char *path = getenv("HTCACHE_WAITS");

    snprintf(room, size, "%s%s", path ? path : "/nowhere", what);
    return room;
}

static int is_there(const char *what)
{
    char path[4096];

    return access(file_of(what, path, sizeof(path)), F_OK) == 0;
}

static void tell(const char *what)
{
    char path[4096];
    long fd =
        syscall(SYS_openat, AT_FDCWD, file_of(what, path, sizeof(path)), O_CREAT | O_WRONLY, 0666);

    if (fd >= 0)
        close((int)fd);
}

static void wait_for(const char *what)
{
    struct timespec while_ = {0, 1000000};

    for (unsigned i = 0; i < PATIENCE_S * 1000 && !is_there(what); i++)
        syscall(SYS_nanosleep, &while_, NULL);
}

static int is_file(const char *path)
{
    const char *file = getenv("HTCACHE_WAITS"), *name = file ? strrchr(file, '/') : NULL;
    size_t len = strlen(path), n = name ? strlen(name + 1) : 0;

    return n && len >= n && !strcmp(path + len - n, name + 1);
}

int renameat(int from, const char *old, int to, const char *path)
{
    int (*real)(int, const char *, int, const char *) =
        (int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat");
    int result = real(from, old, to, path);

    if (!result && is_file(path) && is_there(".armed")) {
        tell(".renamed");
        wait_for(".loading");
        sleeps = 0;
    }
    return result;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t mode;

    va_start(more, flags);
    mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (sleeps < 0 && is_file(path) && is_there(".renamed") && !is_there(".go")) {
        tell(".loading");
        wait_for(".go");
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int select(int n, fd_set *in, fd_set *out, fd_set *except, struct timeval *timeout)
{
    int (*real)(int, fd_set *, fd_set *, fd_set *, struct timeval *) =
        (int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))dlsym(RTLD_NEXT, "select");

    if (sleeps >= 0 && !is_there(".go") && sleeps < SLEEPS && ++sleeps == SLEEPS)
        tell(".slept");
    return real(n, in, out, except, timeout);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    if (!result && sleeps > 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
        now->tv_sec += sleeps;
    return result;
}
