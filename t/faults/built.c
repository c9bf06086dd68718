/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Accounts for what mod_htcache's builder takes from malloc() while it builds, which is between its
 * alarm(10) and its alarm(0): whatever is still allocated then, other than by APR for its pools and by PCRE for what
 * httpd matches with, which each thread has once, is counted in the file that $HTCACHE_BUILT names, with the library that asked for the last of it.
 * Preloaded by t/10-cases.t.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST 65536

static struct {
    uint64_t builds, left, overflows;
    char by[256];
} *counts;

static struct {
    void *block, *by;
} taken[MOST];

static unsigned ntaken, building;

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("HTCACHE_BUILT");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory =
        fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory != MAP_FAILED)
        counts = memory;
}

/* The builder has one thread. */
static void *take(void *block, void *by)
{
    if (!building || !block)
        return block;
    if (ntaken == MOST)
        counts->overflows++;
    else
        taken[ntaken].block = block, taken[ntaken++].by = by;
    return block;
}

static void give(void *block)
{
    for (unsigned i = ntaken; building && i-- > 0;) {
        if (taken[i].block == block) {
            taken[i] = taken[--ntaken];
            return;
        }
    }
}

void *malloc(size_t n) { return take(__libc_malloc(n), __builtin_return_address(0)); }
void *calloc(size_t n, size_t m) { return take(__libc_calloc(n, m), __builtin_return_address(0)); }

void *realloc(void *block, size_t n)
{
    void *at = __libc_realloc(block, n);

    if (at) {
        give(block);
        take(at, __builtin_return_address(0));
    }
    return at;
}

void free(void *block)
{
    give(block);
    __libc_free(block);
}

/* What they take is the thread's from then on. */
#define MATCHING(call)                                                                             \
    unsigned was = building;                                                                       \
    building = 0;                                                                                  \
    call;                                                                                          \
    building = was

typedef int match_fn(const void *, const void *, size_t, size_t, uint32_t, void *, void *);

int pcre2_match_8(const void *code, const void *text, size_t len, size_t at, uint32_t options,
                  void *data, void *context)
{
    match_fn *real = (match_fn *)(uintptr_t)dlsym(RTLD_NEXT, "pcre2_match_8");
    MATCHING(int result = real(code, text, len, at, options, data, context));

    return result;
}

void *pcre2_match_data_create_8(uint32_t n, void *context)
{
    void *(*real)(uint32_t, void *) =
        (void *(*)(uint32_t, void *))(uintptr_t)dlsym(RTLD_NEXT, "pcre2_match_data_create_8");
    MATCHING(void *result = real(n, context));

    return result;
}

static void look(void)
{
    building = 0;
    for (unsigned i = 0; i < ntaken; i++) {
        Dl_info info;

        /* The loader gives a thread its own variables with the first look at one. */
        if (!dladdr(taken[i].by, &info) || strstr(info.dli_fname, "libapr-1") ||
            strstr(info.dli_fname, "/ld-"))
            continue;
        counts->left++;
        strncpy(counts->by, info.dli_fname, sizeof(counts->by) - 1);
    }
    ntaken = 0;
}

unsigned alarm(unsigned seconds)
{
    unsigned (*real)(unsigned) = (unsigned (*)(unsigned))(uintptr_t)dlsym(RTLD_NEXT, "alarm");
    unsigned was = real(seconds);

    if (counts && seconds) {
        counts->builds++;
        building = 1;
    } else if (building) {
        look();
    }
    return was;
}
