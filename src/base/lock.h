/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/lock.h
 * A lock for the threads of several processes that share memory and do not trust each other. Each
 * shared segment of this module has one.
 *
 * The lock itself is a POSIX record lock on a memory file that no other program can open; its
 * descriptor is inherited by children. The kernel keeps it and releases it when its holder ends,
 * however that happens. A word in private memory keeps the threads of one process apart. What lies
 * in the shared segment (htc_lock_shared) are numbers only: no pointer, no size, nothing that the C
 * library reads. A process that writes nonsense there can make others wait for at most one wait_ms
 * each, not wait at all, or repair what is not broken.
 *
 * After a holder was killed, the next one learns of it (HTC_LOCK_INHERITED). While a holder is
 * stopped, one or a few processes wait for it, each for a bounded time; after that none does until
 * it goes on.
 *
 * Taking and giving cost a system call each, about 1 us together without contention. Only writers
 * take locks. A waiting process polls, in steps of up to half a millisecond. The lock is not
 * recursive.
 *
 * The same file says which processes live: a process may hold a byte of it far behind the first
 * one, by a number (htc_lock_enlist), and others ask the kernel for that. Neither the number of the
 * process nor /proc comes into it.
 *
 * Two rules of record locks: a child that is forked does not hold what its parent holds; and a
 * process that closes any descriptor of the file gives up the lock. Nothing but base/lock.c has
 * one.
 *
 * House rule: a process that holds one of these asks nothing of a file system (open, stat,
 * readlink, statfs, inotify_add_watch and all else that follows a path). A call that hangs, as on a
 * mount whose server is gone, would hold all processes.
 */
#ifndef HTC_BASE_LOCK_H
#define HTC_BASE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

/** In memory that all processes share and may write. Zeros to begin with. Private to base/lock.c
 * and to tests. */
typedef struct htc_lock_shared {
    _Atomic uint64_t holder; /* number of the last holder */
    _Atomic uint64_t inside; /* the same while it holds the lock; else 0 */
    _Atomic uint64_t stuck;  /* number of a holder that did not go on within the wait; 0: none */
} htc_lock_shared;

/** In memory of each process's own, made before it forks. Private to base/lock.c and to tests. */
typedef struct htc_lock {
    htc_lock_shared *shared;
    int fd;
    _Atomic int32_t holder; /* process id, while a thread of this process has the lock; else 0 */
} htc_lock;

/**
 * Prepare a lock, before the processes that share it fork. Its descriptor lives until @a pool is
 * cleaned up; without a pool, until htc_lock_close().
 * @return APR_SUCCESS, or the error of memfd_create(2) when there is no descriptor.
 */
apr_status_t htc_lock_create(htc_lock *lock, htc_lock_shared *shared, apr_pool_t *pool);
void htc_lock_close(htc_lock *lock);
/** From now on it lives until htc_lock_close(). @return its descriptor. */
int htc_lock_keep(htc_lock *lock, apr_pool_t *pool);

typedef enum htc_lock_result {
    HTC_LOCK_BUSY = 0, /* not held: it could not be had in time */
    HTC_LOCK_HELD,
    HTC_LOCK_INHERITED /* held; the last holder died with it, in the middle of what it guards. A
                        * process that is killed before it gives it back leaves it inherited again */
} htc_lock_result;

/**
 * Take the lock. @a wait_ms is the longest wait, by the monotonic clock; 0: none. A holder that
 * already let somebody wait in vain is not waited for again.
 */
htc_lock_result htc_lock_take(htc_lock *lock, unsigned wait_ms);

/** Give it back. Only the holder calls this. */
void htc_lock_give(htc_lock *lock);

/** Wait for at most @a wait_ms until the process that holds it has given it back; another one may
 * hold it then. For a process that must not rely on what others write: it asks the kernel, and reads
 * nothing that is shared. False when each look found the same process with it. */
bool htc_lock_free_within(const htc_lock *lock, unsigned wait_ms);

/** After HTC_LOCK_BUSY: true when one holder was waited for in vain, and has it still. False when it
 * went from one to the next meanwhile. Asks no system call. */
bool htc_lock_stuck(const htc_lock *lock);

/**
 * Make this process known to the kernel by @a number, below 2^62, until it ends, however that
 * happens. A forked child does not inherit the number. Any process that shares the lock may call
 * this, whether it holds the lock or not. True also when this process has the number already. False
 * when the kernel has no memory for it, or another process has the number.
 */
bool htc_lock_enlist(const htc_lock *lock, uint64_t number);

/** True when another process has the number. A process that has ended has none, also before its
 * parent has waited for it. This is a system call that asks no file system, so it may be made under
 * the lock. */
bool htc_lock_enlisted(const htc_lock *lock, uint64_t number);
/** True when another process has one of the @a n numbers from @a first on. Also one system call. */
bool htc_lock_any_enlisted(const htc_lock *lock, uint64_t first, uint64_t n);

#endif
