/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A library to be loaded ahead of others (LD_PRELOAD), for t/85-map-progress.t: a clock that the driver sets,
 * and a load of a map that stands still. The file that HTCACHE_PROGRESS names is mapped. With each reading
 * the clock that mod_htcache measures by goes on by so many milliseconds as the file says, and by nothing else
 * if the file says so. A thread that has
 * logged that half of a map's file is read, or more, waits until the driver lets it go on, for 20 seconds at most.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct control {
    uint32_t step_ms, holds, stands, zero;
    _Atomic uint64_t ahead_ms;
    _Atomic int64_t stood_at;
} control;

static volatile control *set;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("HTCACHE_PROGRESS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at;

    if (fd < 0)
        return;
    at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    set = at == MAP_FAILED ? NULL : at;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    uint64_t ahead;

    if (result || !set || clock != CLOCK_MONOTONIC_COARSE)
        return result;
    if (set->stands) { /* other work on the machine takes no time */
        int64_t none = 0;

        atomic_compare_exchange_strong(&set->stood_at, &none, (int64_t)now->tv_sec);
        now->tv_sec = (time_t)set->stood_at;
        now->tv_nsec = 0;
    }
    ahead = atomic_fetch_add(&set->ahead_ms, set->step_ms) + set->step_ms;
    now->tv_sec += (time_t)(ahead / 1000);
    now->tv_nsec += (long)(ahead % 1000) * 1000000;
    if (now->tv_nsec >= 1000000000) {
        now->tv_sec++;
        now->tv_nsec -= 1000000000;
    }
    return result;
}

static int is_halfway(const char *text, size_t len)
{
    static const char start[] = "HtCacheRedirectMap: reading ";
    const char *at = memmem(text, len, start, sizeof(start) - 1), *end = text + len;

    while (at && end > at && end[-1] != ':')
        end--;
    return at && atoi(end) >= 50;
}

ssize_t write(int fd, const void *text, size_t len)
{
    ssize_t (*real)(int, const void *, size_t) =
        (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    ssize_t result = real(fd, text, len);

    if (set && set->holds && is_halfway(text, len)) {
        for (int i = 0; i < 2000 && set->holds; i++)
            usleep(10000);
    }
    return result;
}
