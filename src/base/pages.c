/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Memory that child processes share, and large pages for memory that is filled once and then read
 * often.
 */
#include "base/pages.h"
#include "base/sys.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* Linux 6.3 */
#endif

#define GIVE_CHUNK    ((size_t)4 << 20)
#define ENLARGE_TRIES 8

typedef struct shared {
    void *at;
    size_t bytes;
} shared;

static apr_status_t unmap(void *data)
{
    const shared *memory = data;

    munmap(memory->at, memory->bytes);
    return APR_SUCCESS;
}

static uintptr_t round_up(uintptr_t n, uintptr_t to)
{
    return (n + to - 1) / to * to;
}

/* Room enough to choose an aligned part of it is reserved first; the rest is given back. */
void *htc_pages_map(size_t bytes, int protection, int fd)
{
    size_t whole = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE)), room = whole + HTC_LARGE_PAGE;
    int flags = fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, err;
    char *at, *reserved = sys_mmap(NULL, room, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (reserved == MAP_FAILED)
        return NULL;
    at = reserved + (round_up((uintptr_t)reserved, HTC_LARGE_PAGE) - (uintptr_t)reserved);
    if (sys_mmap(at, whole, protection, flags | MAP_FIXED, fd, 0) == MAP_FAILED) {
        err = errno;
        munmap(reserved, room);
        errno = err;
        return NULL;
    }
    if (at > reserved)
        munmap(reserved, (size_t)(at - reserved));
    munmap(at + whole, (size_t)(reserved + room - (at + whole)));
    return at;
}

apr_status_t htc_pages_share(void **at, size_t bytes, apr_pool_t *pool)
{
    shared *memory = apr_palloc(pool, sizeof(*memory));

    *at = NULL;
    memory->bytes = bytes;
    memory->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory->at == MAP_FAILED)
        return APR_FROM_OS_ERROR(errno);
    madvise(memory->at, bytes, MADV_DONTDUMP);
    *at = memory->at;
    apr_pool_cleanup_register(pool, memory, unmap, apr_pool_cleanup_null);
    return APR_SUCCESS;
}

void htc_pages_forget(const htc_kept_memory *memory)
{
    if (!memory->at)
        return;
    sys_munmap(memory->at, memory->bytes);
    for (int i = 0; i < 2; i++) {
        if (memory->fds[i] >= 0)
            sys_close(memory->fds[i]);
    }
}

/* With vm.memfd_noexec=2 the kernel allows no other memory files. */
int htc_pages_file(const char *name)
{
    int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL ? sys_memfd_create(name, MFD_CLOEXEC) : fd;
}

void *htc_pages_take(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    if (bytes >= 2 * HTC_LARGE_PAGE)
        madvise(at, bytes, MADV_HUGEPAGE); /* taken and given back sooner */
    return at;
}

void htc_pages_give(void *at, size_t bytes)
{
    if (!at)
        return;
    for (size_t done = 0; done + GIVE_CHUNK < bytes; done += GIVE_CHUNK)
        madvise((char *)at + done, GIVE_CHUNK, MADV_DONTNEED);
    munmap(at, bytes);
}

void *htc_pages_hole(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *around =
        mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (around == MAP_FAILED || munmap(around + page, page))
        return NULL;
    return around + page;
}

bool htc_pages_enlarge(void *at, size_t bytes)
{
    uintptr_t begin = round_up((uintptr_t)at, HTC_LARGE_PAGE);
    uintptr_t end = ((uintptr_t)at + bytes) / HTC_LARGE_PAGE * HTC_LARGE_PAGE;

    if (begin >= end)
        return true;
    madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    /* In one call: the kernel makes all processors hand in what they hold back once in each. It
     * goes on behind pages that cannot be had, as where another process uses one just then. */
    for (int i = 0; i < ENLARGE_TRIES; i++) {
        if (madvise((void *)begin, end - begin, MADV_COLLAPSE) == 0)
            return true;
        if (errno != EAGAIN)
            return false;
    }
    return false;
}

void htc_pages_meet(void *at, size_t bytes)
{
    if (bytes)
        madvise(at, bytes, MADV_POPULATE_READ);
}
