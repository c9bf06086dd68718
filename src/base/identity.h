/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/identity.h
 * What makes a file on disk "the same file, unchanged": device, inode, size, mtime and ctime with
 * nanoseconds, mode, uid and gid. Identities are compared for equality only, never for "newer":
 * rsync -a, cp -p and mv set old times, but cannot set ctime or the inode.
 */
#ifndef HTC_BASE_IDENTITY_H
#define HTC_BASE_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

/** Fixed-width, so that it can lie in shared memory and travel between processes. No padding. */
typedef struct htc_identity {
    uint64_t dev;
    uint64_t ino;
    uint64_t size;    /* bytes */
    int64_t mtime_ns; /* nanoseconds since the epoch */
    int64_t ctime_ns; /* nanoseconds since the epoch */
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t unused; /* 0 */
} htc_identity;

/** A file younger than this may change again without changing its times. They are whole multiples of two
 * seconds on FAT, and the kernel takes them from a clock that lags behind by a tick, 10 ms at most. */
#define HTC_RACY_NS (2 * INT64_C(1000000000) + 20 * INT64_C(1000000))

/** Fill @a id from @a st. */
void htc_identity_from_stat(htc_identity *id, const struct stat *st);

/** True when both name the same file in the same state. */
bool htc_identity_equal(const htc_identity *a, const htc_identity *b);

/**
 * True when the file was changed within HTC_RACY_NS of @a now_ns (wall clock, nanoseconds since
 * the epoch) or has a time in the future: on a file system with coarse times a second change
 * could leave the identity as it is, so it must not be trusted yet.
 */
bool htc_identity_racy(const htc_identity *id, int64_t now_ns);

/** Wall clock, nanoseconds since the epoch. */
int64_t htc_wall_ns(void);

/**
 * Milliseconds of a clock that never jumps and is the same in every process of this machine.
 * Resolution is that of CLOCK_MONOTONIC_COARSE (4 ms or better); costs no system call.
 * Always greater than 0.
 */
int64_t htc_mono_ms(void);

#endif
