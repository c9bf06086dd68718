/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The lock of the shared segments: robust, and waited for only so long. Called by the store of
 * .htaccess records, the tree of what is watched, and the area for table images.
 */
#include "htc_lock.h"

#include <errno.h>
#include <time.h>

/* ThreadSanitizer of some compilers does not know pthread_mutex_clocklock. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LOCK_WITHOUT_CLOCK
#endif
#endif
#if defined(__SANITIZE_THREAD__) || !defined(__GLIBC__) || !__GLIBC_PREREQ(2, 30)
#define LOCK_WITHOUT_CLOCK
#endif

#ifdef LOCK_WITHOUT_CLOCK
#define LOCK_CLOCK             CLOCK_REALTIME
#define lock_until(lock, time) pthread_mutex_timedlock(lock, time)
#else
#define LOCK_CLOCK             CLOCK_MONOTONIC
#define lock_until(lock, time) pthread_mutex_clocklock(lock, LOCK_CLOCK, time)
#endif

#define NS_PER_MS 1000000L
#define NS_PER_S  1000000000L

/* A test that kills a holder between any two of its stores defines this function. */
#ifdef HTC_CRASH_POINTS
void htc_crash_point(const char *where);
#define LOCK_CRASH_POINT(where) htc_crash_point(where)
#else
#define LOCK_CRASH_POINT(where) ((void)0)
#endif

apr_status_t htc_lock_init(htc_lock *lock)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (!rc)
        rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (!rc)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (!rc)
        rc = pthread_mutex_init(&lock->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    atomic_store(&lock->stuck_holder, 0);
    atomic_store(&lock->holder, 1);
    return rc ? APR_FROM_OS_ERROR(rc) : APR_SUCCESS;
}

/* A holder that was waited for in vain is stopped, or busy for long: nobody waits for it again. The
 * number is read before and after, as the lock may have changed hands meanwhile. */
static int wait_for(htc_lock *lock, unsigned wait_ms)
{
    uint64_t holder = atomic_load(&lock->holder);
    struct timespec until;
    int rc;

    if (atomic_load(&lock->stuck_holder) == holder)
        return EBUSY;
    clock_gettime(LOCK_CLOCK, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += (long)(wait_ms % 1000) * NS_PER_MS;
    until.tv_sec += until.tv_nsec / NS_PER_S;
    until.tv_nsec %= NS_PER_S;
    rc = lock_until(&lock->mutex, &until);
    if (rc == ETIMEDOUT && atomic_load(&lock->holder) == holder)
        atomic_store(&lock->stuck_holder, holder);
    return rc;
}

htc_lock_result htc_lock_take(htc_lock *lock, unsigned wait_ms)
{
    htc_lock_result result = HTC_LOCK_HELD;
    int rc = pthread_mutex_trylock(&lock->mutex);

    if (rc == EBUSY && wait_ms)
        rc = wait_for(lock, wait_ms);
    if (rc == EOWNERDEAD) {
        result = HTC_LOCK_INHERITED;
        LOCK_CRASH_POINT("inherited");
        rc = pthread_mutex_consistent(&lock->mutex);
    }
    if (rc)
        return HTC_LOCK_BUSY;
    atomic_store(&lock->holder, atomic_load(&lock->holder) + 1);
    LOCK_CRASH_POINT("lock->holder");
    return result;
}

void htc_lock_give(htc_lock *lock)
{
    LOCK_CRASH_POINT("before the lock is given up");
    pthread_mutex_unlock(&lock->mutex);
    LOCK_CRASH_POINT("after the lock was given up");
}
