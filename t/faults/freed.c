/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/* Loaded ahead of all others: fills memory that is freed, so that whoever reads it still is found out. Not before the
 * first connection: what a server does at its start is no answer to a request. Pools give all their memory back with
 * MaxMemFree 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>

static volatile int serving;

extern void __libc_free(void *memory);

void free(void *memory)
{
    if (memory && serving) {
        memset(memory, 0xA5, malloc_usable_size(memory));
    }
    __libc_free(memory);
}

int accept4(int listener, struct sockaddr *peer, socklen_t *size, int flags)
{
    static int (*next)(int, struct sockaddr *, socklen_t *, int);
    if (!next) {
        next = (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    }
    serving = 1;
    return next(listener, peer, size, flags);
}
