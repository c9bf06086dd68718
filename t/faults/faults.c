/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A library to be loaded ahead of others (LD_PRELOAD) that makes calls fail: HtCache::Faults compiles
 * it for drivers of t/. The file that HTCACHE_FAULTS names is mapped and holds a row for each kind of call:
 * every how many calls one fails (0: none), with which errno (0: it comes short, of read alone), and
 * how many did. Calls on files count only where the path ends in what HTCACHE_FAULTS_PATH says;
 * allocations and threads only where mod_htcache asks for them, because httpd itself ends its process
 * when there is no memory. New processes fail for whoever asks; httpd's parent, which then sleeps for ten
 * seconds, does not. DRAIN kills the processes that have taken changes out of inotify's queue, the first so many
 * of them. CHANGE makes no call fail: a file becomes longer just before its first bytes are read. Nor
 * does EXCHANGE: just before each of the first so many times that a file is opened, its directory DIR
 * becomes DIR.own, and DIR.other takes its place.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { OPEN, STAT, FSTAT, READ, MMAP, ALLOC, THREAD, CLOCK, FORK, INSTANCE, WATCH, DRAIN, CHANGE, EXCHANGE, KINDS };

typedef struct row {
    uint32_t every, error;
    _Atomic uint32_t calls, failed;
} row;

static row *rows;
static const char *ending;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("HTCACHE_FAULTS");
    int fd = path ? (int)syscall(SYS_open, path, O_RDWR) : -1;
    void *at;

    if (fd < 0)
        return;
    at = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    ending = getenv("HTCACHE_FAULTS_PATH");
    rows = at == MAP_FAILED ? NULL : at;
}

static int fails(int kind)
{
    if (!rows || !rows[kind].every || (atomic_fetch_add(&rows[kind].calls, 1) + 1) % rows[kind].every)
        return 0;
    atomic_fetch_add(&rows[kind].failed, 1);
    errno = (int)rows[kind].error;
    return 1;
}

static int ours(const char *path)
{
    size_t n = path ? strlen(path) : 0, m = ending ? strlen(ending) : 0;

    return m && n >= m && !strcmp(path + n - m, ending);
}

static const char *name_of(int fd, char *path, size_t size)
{
    char name[64];
    ssize_t n;

    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    n = readlink(name, path, size - 1);
    path[n < 0 ? 0 : n] = 0;
    return path;
}

static int ours_fd(int fd)
{
    char path[4096];

    return ours(name_of(fd, path, sizeof(path)));
}

/* The file becomes longer by a comment. */
static void change(int fd)
{
    char path[4096];
    int to = (int)syscall(SYS_open, name_of(fd, path, sizeof(path)), O_WRONLY | O_APPEND);

    if (to < 0)
        return;
    (void)!write(to, "#\n", 2);
    syscall(SYS_close, to);
}

static void exchange(const char *path)
{
    char dir[4096], own[4200], other[4200];

    if (!ours(path) || atomic_fetch_add(&rows[EXCHANGE].failed, 1) >= rows[EXCHANGE].every)
        return;
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
    snprintf(own, sizeof(own), "%s.own", dir);
    snprintf(other, sizeof(other), "%s.other", dir);
    if (rename(dir, own) || rename(other, dir))
        abort();
}

static void die_with_changes(int fd)
{
    char path[64];

    if (!strcmp(name_of(fd, path, sizeof(path)), "anon_inode:inotify") &&
        atomic_fetch_add(&rows[DRAIN].failed, 1) < rows[DRAIN].every)
        raise(SIGKILL);
}

static int asked_by_module(int kind, const void *caller)
{
    static __thread int inside;
    Dl_info info;
    int found;

    if (!rows || !rows[kind].every || inside)
        return 0;
    inside = 1;
    found = dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "mod_htcache");
    inside = 0;
    return found;
}

#define REAL(name)                                \
    static __typeof__(name) *real;                \
    if (!real)                                    \
        real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static mode_t mode_of(int flags, va_list args)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
}

#define OPENER(name)                              \
    int name(const char *path, int flags, ...)    \
    {                                             \
        va_list args;                             \
        mode_t mode;                              \
        REAL(name);                               \
        va_start(args, flags);                    \
        mode = mode_of(flags, args);              \
        va_end(args);                             \
        if (ours(path) && fails(OPEN))            \
            return -1;                            \
        if (rows && rows[EXCHANGE].every)         \
            exchange(path);                       \
        return real(path, flags, mode);           \
    }
OPENER(open)
OPENER(open64)

#define OPENER_AT(name)                                   \
    int name(int dir, const char *path, int flags, ...)   \
    {                                                     \
        va_list args;                                     \
        mode_t mode;                                      \
        REAL(name);                                       \
        va_start(args, flags);                            \
        mode = mode_of(flags, args);                      \
        va_end(args);                                     \
        if (ours(path) && fails(OPEN))                    \
            return -1;                                    \
        return real(dir, path, flags, mode);              \
    }
OPENER_AT(openat)
OPENER_AT(openat64)

#define STATTER(name, type)                       \
    int name(const char *path, type *st)          \
    {                                             \
        REAL(name);                               \
        if (ours(path) && fails(STAT))            \
            return -1;                            \
        return real(path, st);                    \
    }
STATTER(stat, struct stat)
STATTER(lstat, struct stat)
STATTER(stat64, struct stat64)
STATTER(lstat64, struct stat64)

int fstatat(int dir, const char *path, struct stat *st, int flags)
{
    REAL(fstatat);
    if (ours(path) && fails(STAT))
        return -1;
    return real(dir, path, st, flags);
}

#define FSTATTER(name, type)                      \
    int name(int fd, type *st)                    \
    {                                             \
        REAL(name);                               \
        if (rows && rows[FSTAT].every && ours_fd(fd) && fails(FSTAT)) \
            return -1;                            \
        return real(fd, st);                      \
    }
FSTATTER(fstat, struct stat)
FSTATTER(fstat64, struct stat64)

ssize_t read(int fd, void *to, size_t n)
{
    ssize_t got;

    REAL(read);
    if (rows && rows[READ].every && ours_fd(fd) && fails(READ)) {
        if (rows[READ].error)
            return -1;
        n = n > 1 ? 1 : n;
    }
    if (rows && rows[CHANGE].every && ours_fd(fd) && !lseek(fd, 0, SEEK_CUR) && fails(CHANGE))
        change(fd);
    got = real(fd, to, n);
    if (got > 0 && rows && rows[DRAIN].every)
        die_with_changes(fd);
    return got;
}

int inotify_init1(int flags)
{
    REAL(inotify_init1);
    return fails(INSTANCE) ? -1 : real(flags);
}

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    REAL(inotify_add_watch);
    return fails(WATCH) ? -1 : real(fd, path, mask);
}

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    REAL(pread);
    if (rows && rows[READ].every && ours_fd(fd) && fails(READ)) {
        if (rows[READ].error)
            return -1;
        n = n > 1 ? 1 : n;
    }
    return real(fd, to, n, at);
}

/* What _FORTIFY_SOURCE makes of these where the compiler does not see that there is room enough, as in
 * a build with a sanitizer. */
ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
    return n > room ? (abort(), -1) : read(fd, to, n);
}

ssize_t __pread_chk(int fd, void *to, size_t n, off_t at, size_t room)
{
    return n > room ? (abort(), -1) : pread(fd, to, n, at);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (asked_by_module(MMAP, __builtin_return_address(0)) && fails(MMAP))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

void *malloc(size_t n)
{
    if (asked_by_module(ALLOC, __builtin_return_address(0)) && fails(ALLOC))
        return NULL;
    return __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    if (asked_by_module(ALLOC, __builtin_return_address(0)) && fails(ALLOC))
        return NULL;
    return __libc_calloc(count, n);
}

void *realloc(void *old, size_t n)
{
    if (asked_by_module(ALLOC, __builtin_return_address(0)) && fails(ALLOC))
        return NULL;
    return __libc_realloc(old, n);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *baton)
{
    REAL(pthread_create);
    if (asked_by_module(THREAD, __builtin_return_address(0)) && fails(THREAD))
        return EAGAIN;
    return real(thread, attr, run, baton);
}

pid_t fork(void)
{
    REAL(fork);
    return fails(FORK) ? -1 : real();
}

unsigned sleep(unsigned seconds)
{
    struct timespec time = {rows && rows[FORK].every ? 0 : seconds, 100000000};

    nanosleep(&time, NULL);
    return 0;
}

/* The wall clock jumps: "every" seconds forward, or back if "error" is set. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);

    if (!result && rows && rows[CLOCK].every && clock == CLOCK_REALTIME)
        now->tv_sec += rows[CLOCK].error ? -(time_t)rows[CLOCK].every : (time_t)rows[CLOCK].every;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to)
{
    struct timespec exact;

    clock_gettime(CLOCK_REALTIME, &exact);
    if (to)
        *to = exact.tv_sec;
    return exact.tv_sec;
}
