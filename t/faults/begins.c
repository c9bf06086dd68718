/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lets what mod_htcache's builder begins with fail or hang. A file in the directory $HTCACHE_BEGINS
 * says which, as long as it is there:
 *   no-null        /dev/null cannot be opened in the builder, as in a chroot
 *   no-heap        the heap cannot be opened for writing
 *   hangs-in-fork  the builder hangs before it has done anything
 *   hangs-late     it hangs when it has the heap, and begins to hide its memory
 * What hangs makes a file "hung". Preloaded by t/38-builder-begins.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define APR_INCHILD 70001

typedef int open_fn(const char *, int, ...);
typedef int prctl_fn(int, ...);
typedef int fork_fn(void *, void *);

static const char *in_directory(const char *name)
{
    static char path[4096];
    const char *dir = getenv("HTCACHE_BEGINS");

    snprintf(path, sizeof(path), "%s/%s", dir ? dir : "", name);
    return path;
}

static int is_wanted(const char *name)
{
    return !access(in_directory(name), F_OK);
}

static open_fn *real_open(void)
{
    return (open_fn *)(uintptr_t)dlsym(RTLD_NEXT, "open");
}

static void hang(void)
{
    close(real_open()(in_directory("hung"), O_CREAT | O_WRONLY, 0644));
    for (;;)
        pause();
}

int open(const char *path, int flags, ...)
{
    va_list args;
    unsigned mode;

    va_start(args, flags);
    mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
    va_end(args);
    if ((!strcmp(path, "/dev/null") && !prctl(PR_GET_DUMPABLE) && is_wanted("no-null")) ||
        (!strncmp(path, "/proc/self/fd/", 14) && (flags & O_RDWR) && is_wanted("no-heap"))) {
        errno = ENOENT;
        return -1;
    }
    return real_open()(path, flags, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int prctl(int option, ...)
{
    prctl_fn *real = (prctl_fn *)(uintptr_t)dlsym(RTLD_NEXT, "prctl");
    va_list args;
    unsigned long value;

    va_start(args, option);
    value = va_arg(args, unsigned long);
    va_end(args);
    if (option == PR_SET_DUMPABLE && !value && is_wanted("hangs-late"))
        hang();
    return real(option, value, 0UL, 0UL, 0UL);
}

int apr_proc_fork(void *proc, void *pool)
{
    fork_fn *real = (fork_fn *)(uintptr_t)dlsym(RTLD_NEXT, "apr_proc_fork");
    int result = real(proc, pool);

    if (result == APR_INCHILD && is_wanted("hangs-in-fork"))
        hang();
    return result;
}
