/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Stops the process that is about to give up a lock of mod_htcache's, while it has it: as long as the
 * file $HTCACHE_HOLDS is there, which has the descriptor of the lock in it. The process takes the file
 * away, so that it is the only one. Preloaded by t/30-kept-held.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void stop_with(int fd)
{
    const char *path = getenv("HTCACHE_HOLDS");
    FILE *file = path ? fopen(path, "re") : NULL;
    int wanted = -1;

    if (!file)
        return;
    if (fscanf(file, "%d", &wanted) == 1 && wanted == fd && !unlink(path))
        raise(SIGSTOP);
    fclose(file);
}

static int pass_on(const char *name, int fd, int command, void *argument)
{
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);

    if (command == F_SETLK && ((struct flock *)argument)->l_type == F_UNLCK)
        stop_with(fd);
    return real(fd, command, argument);
}

int fcntl(int fd, int command, ...)
{
    va_list more;
    void *argument;

    va_start(more, command);
    argument = va_arg(more, void *);
    va_end(more);
    return pass_on("fcntl", fd, command, argument);
}

int fcntl64(int fd, int command, ...)
{
    va_list more;
    void *argument;

    va_start(more, command);
    argument = va_arg(more, void *);
    va_end(more);
    return pass_on("fcntl64", fd, command, argument);
}
