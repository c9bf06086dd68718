/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counts the bytes that httpd and its modules take from APR's pools, in the file that
 * $HTCACHE_POOLS names: one 64-bit number, shared by all processes. Preloaded by t/71-merge.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *taken;
static void *(*real_palloc)(void *, size_t);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("HTCACHE_POOLS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory = fd < 0 ? MAP_FAILED
                          : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    real_palloc = (void *(*)(void *, size_t))(uintptr_t)dlsym(RTLD_NEXT, "apr_palloc");
    if (memory != MAP_FAILED)
        taken = memory;
}

void *apr_palloc(void *pool, size_t size)
{
    if (taken)
        __atomic_fetch_add(taken, size, __ATOMIC_RELAXED);
    return real_palloc(pool, size);
}
