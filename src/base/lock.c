/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The lock of the shared segments: kept by the kernel, and waited for only so long. Called by the
 * store of .htaccess records, the tree of what is watched, and the area for table images.
 */
#include "base/lock.h"
#include "base/pages.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS    1000000L
#define NS_PER_S     1000000000L
#define YIELDS       8       /* attempts before a waiting thread sleeps */
#define FIRST_SLEEP  16000L  /* nanoseconds */
#define LAST_SLEEP   500000L /* each sleep is twice as long as the one before, up to this */

#define MOST_NUMBERS (UINT64_C(1) << 62) /* that processes may be known by */

void htc_lock_close(htc_lock *lock)
{
    sys_close(lock->fd);
    lock->fd = -1;
}

static apr_status_t close_file(void *data)
{
    htc_lock_close(data);
    return APR_SUCCESS;
}

apr_status_t htc_lock_create(htc_lock *lock, htc_lock_shared *shared, apr_pool_t *pool)
{
    lock->shared = shared;
    atomic_store(&lock->holder, 0);
    lock->fd = htc_pages_file("mod_htcache-lock");
    if (lock->fd < 0)
        return APR_FROM_OS_ERROR(errno);
    if (pool)
        apr_pool_cleanup_register(pool, lock, close_file, apr_pool_cleanup_null);
    return APR_SUCCESS;
}

int htc_lock_keep(htc_lock *lock, apr_pool_t *pool)
{
    apr_pool_cleanup_kill(pool, lock, close_file);
    return lock->fd;
}

/* Byte 0 is the lock, those behind it are the numbers of processes. */
static struct flock byte_of(off_t at, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
}

/* Have the kernel lock or unlock the file for this process. Does not wait. */
static bool ask_kernel(const htc_lock *lock, short type)
{
    struct flock region = byte_of(0, type);

    return sys_fcntl(lock->fd, F_SETLK, &region) == 0;
}

/* The number of another process was inherited from it: one of its threads had the lock when this
 * process was forked. */
static bool try_take(htc_lock *lock, int32_t pid)
{
    int32_t seen = atomic_load(&lock->holder);

    if (seen == pid || !atomic_compare_exchange_strong(&lock->holder, &seen, pid))
        return false;
    if (ask_kernel(lock, F_WRLCK))
        return true;
    atomic_store(&lock->holder, 0);
    return false;
}

static int64_t now_ns(void)
{
    struct timespec now;

    sys_clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void pause_for(unsigned attempt, int64_t left)
{
    unsigned doublings = attempt > YIELDS ? attempt - YIELDS : 0;
    int64_t ns = doublings < 5 ? FIRST_SLEEP << doublings : LAST_SLEEP;
    struct timespec sleep = {0, (long)(ns < left ? ns : left)};

    if (attempt < YIELDS)
        sys_sched_yield();
    else
        sys_nanosleep(&sleep, NULL);
}

/* A holder that did not go on within the wait is stopped, or busy for long: no process waits
 * for it again. The number is read before and after, as the lock may have changed hands
 * meanwhile. */
static bool wait_for(htc_lock *lock, int32_t pid, unsigned wait_ms)
{
    htc_lock_shared *shared = lock->shared;
    uint64_t holder = atomic_load(&shared->holder);
    int64_t now = now_ns(), until = now + (int64_t)wait_ms * NS_PER_MS;

    if (atomic_load(&shared->stuck) == holder)
        return false;
    for (unsigned attempt = 0; now < until; attempt++) {
        pause_for(attempt, until - now);
        if (try_take(lock, pid))
            return true;
        now = now_ns();
    }
    if (atomic_load(&shared->holder) == holder)
        atomic_store(&shared->stuck, holder);
    return false;
}

htc_lock_result htc_lock_take(htc_lock *lock, unsigned wait_ms)
{
    htc_lock_shared *shared = lock->shared;
    int32_t pid = (int32_t)sys_getpid();
    uint64_t number;
    bool inherited;

    if (!try_take(lock, pid) && (!wait_ms || !wait_for(lock, pid, wait_ms)))
        return HTC_LOCK_BUSY;
    HTC_POINT("locked");
    inherited = atomic_load(&shared->inside) != 0;
    number = atomic_load(&shared->holder) + 1;
    if (!number) /* counting does not get there */
        number = 1;
    atomic_store(&shared->holder, number);
    HTC_POINT("lock->holder");
    atomic_store(&shared->inside, number);
    HTC_POINT("lock->inside");
    return inherited ? HTC_LOCK_INHERITED : HTC_LOCK_HELD;
}

void htc_lock_give(htc_lock *lock)
{
    HTC_POINT("before the lock is given up");
    atomic_store(&lock->shared->inside, 0);
    HTC_POINT("nobody is inside");
    ask_kernel(lock, F_UNLCK);
    HTC_POINT("after the lock was given up");
    atomic_store(&lock->holder, 0);
}

/* The process that holds it, as far as the kernel can say; 0: none; -1: the kernel cannot say. */
static pid_t kernel_holder(const htc_lock *lock)
{
    struct flock region = byte_of(0, F_WRLCK);

    if (sys_fcntl(lock->fd, F_GETLK, &region) != 0)
        return -1;
    return region.l_type == F_UNLCK ? 0 : region.l_pid;
}

/* With many writers each look may find another holder, and none finds the lock free. */
bool htc_lock_free_within(const htc_lock *lock, unsigned wait_ms)
{
    const pid_t first = kernel_holder(lock);
    int64_t now = now_ns(), until = now + (int64_t)wait_ms * NS_PER_MS;

    for (unsigned attempt = 0; first && kernel_holder(lock) == first; attempt++) {
        if (now >= until)
            return false;
        pause_for(attempt, until - now);
        now = now_ns();
    }
    return true;
}

bool htc_lock_stuck(const htc_lock *lock)
{
    return atomic_load(&lock->shared->stuck) == atomic_load(&lock->shared->holder);
}

/* --- which processes live ---------------------------------------------------------------------*/

static struct flock byte_of_number(uint64_t number)
{
    return byte_of((off_t)(number % MOST_NUMBERS) + 1, F_WRLCK);
}

bool htc_lock_enlist(const htc_lock *lock, uint64_t number)
{
    struct flock region = byte_of_number(number);

    return sys_fcntl(lock->fd, F_SETLK, &region) == 0;
}

/* A process that cannot be shown to be dead counts as living. */
bool htc_lock_any_enlisted(const htc_lock *lock, uint64_t first, uint64_t n)
{
    struct flock region = byte_of_number(first);

    region.l_len = (off_t)n;
    return sys_fcntl(lock->fd, F_GETLK, &region) != 0 || region.l_type != F_UNLCK;
}

bool htc_lock_enlisted(const htc_lock *lock, uint64_t number)
{
    return htc_lock_any_enlisted(lock, number, 1);
}
