/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htc_lock.h
 * A lock in shared memory, for threads and processes: who holds it may be killed (the next one is
 * told, and goes on), and may be stopped: then it is waited for once, by one or a few, for a
 * bounded time, and after that by nobody until it goes on. So no request waits for a lock again and
 * again, whatever happens to others. The segments of this module each have one.
 *
 * A robust process-shared mutex (pthread_mutexattr_setrobust(3)) beside the number of its last
 * holder. Threads of one process exclude each other, too; it is not recursive. It lies in memory
 * that all processes map, at any address, and is never destroyed: others may outlive whoever ends.
 *
 * House rule: while one of these is held, nothing is asked of a file system (open, stat, readlink,
 * statfs, inotify_add_watch and all else that follows a path). A call that hangs, as on a mount
 * whose server is gone, would hold everybody.
 */
#ifndef HTC_LOCK_H
#define HTC_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <apr_errno.h>

/** Private to htc_lock.c and to tests. */
typedef struct htc_lock {
    pthread_mutex_t mutex;
    _Atomic uint64_t holder;       /* number of the last holder, from 1 */
    _Atomic uint64_t stuck_holder; /* one that was waited for in vain; 0: none */
} htc_lock;

/** Prepare a lock in memory of zeros, before it is shared. An error of the mutex's. */
apr_status_t htc_lock_init(htc_lock *lock);

typedef enum htc_lock_result {
    HTC_LOCK_BUSY = 0, /* not held: it could not be had in time */
    HTC_LOCK_HELD,
    HTC_LOCK_INHERITED /* held; the last holder died with it, in the middle of what it guards. Who
                        * is killed before giving it back leaves it inherited again */
} htc_lock_result;

/**
 * Take the lock. @a wait_ms is how long to wait, at most, for a holder that nobody has waited for
 * in vain yet; 0: not at all. Measured by a clock that nobody can set, where the system has one for
 * it (glibc from 2.30 on).
 */
htc_lock_result htc_lock_take(htc_lock *lock, unsigned wait_ms);

/** Give it back. Only who holds it. */
void htc_lock_give(htc_lock *lock);

#endif
