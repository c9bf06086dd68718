/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counts the compiled patterns that httpd and its modules hold, in the file that $HTCACHE_PATTERNS
 * names: one 64-bit number, shared by all processes. They lie outside of APR's pools, whose end
 * frees them. Preloaded by t/34-shared-memory.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef void *compile_fn(const unsigned char *, size_t, uint32_t, int *, size_t *, void *);
typedef void free_fn(void *);

static uint64_t *held;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("HTCACHE_PATTERNS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory =
        fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory != MAP_FAILED)
        held = memory;
}

void *pcre2_compile_8(const unsigned char *pattern, size_t len, uint32_t options, int *error,
                      size_t *at, void *context)
{
    compile_fn *real = (compile_fn *)(uintptr_t)dlsym(RTLD_NEXT, "pcre2_compile_8");
    void *code = real(pattern, len, options, error, at, context);

    if (held && code)
        __atomic_fetch_add(held, 1, __ATOMIC_RELAXED);
    return code;
}

void pcre2_code_free_8(void *code)
{
    free_fn *real = (free_fn *)(uintptr_t)dlsym(RTLD_NEXT, "pcre2_code_free_8");

    if (held && code)
        __atomic_fetch_sub(held, 1, __ATOMIC_RELAXED);
    real(code);
}
