/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/whole.h
 * Reading and writing a known number of bytes of a file, for area/counts_file.c and
 * area/image_file.c.
 */
#ifndef HTC_AREA_WHOLE_H
#define HTC_AREA_WHOLE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <apr_errno.h>

/** Read @a len bytes from @a at on. False: there are fewer, or they cannot be read. */
static inline bool area_read_whole(int fd, void *to, size_t len, uint64_t at)
{
    size_t had = 0;

    while (had < len) {
        ssize_t n = pread(fd, (char *)to + had, len - had, (off_t)(at + had));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        had += (size_t)n;
    }
    return true;
}

/** Write @a len bytes from @a at on. */
static inline apr_status_t area_write_whole(int fd, const void *from, size_t len, uint64_t at)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pwrite(fd, (const char *)from + done, len - done, (off_t)(at + done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return APR_FROM_OS_ERROR(errno);
        done += (size_t)n;
    }
    return APR_SUCCESS;
}

#endif
