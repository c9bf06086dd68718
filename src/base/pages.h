/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/pages.h
 * Memory for all processes of a server, much memory for a moment, and large pages for memory that
 * is read at random places: with pages of 4 KiB the processor has to look up, in other memory,
 * where nearly each of its reads goes. Part of the core: no httpd headers.
 */
#ifndef HTC_BASE_PAGES_H
#define HTC_BASE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

/** The most that one mapping may have. A process of 32 bits keeps three quarters of its addresses for
 *  the rest of httpd. */
#define HTC_MAPPING_MAX ((uint64_t)(sizeof(void *) > 4 ? 256 : 1) << 30)

/**
 * Map @a bytes that processes share, at a multiple of HTC_LARGE_PAGE, so that they can be put in
 * large pages: the file @a fd from its beginning, or zeroes for -1. @a protection as for mmap(2).
 * @return NULL with errno when it cannot be had. To be unmapped by munmap(2).
 */
void *htc_pages_map(size_t bytes, int protection, int fd);

/**
 * @a bytes of zeroes that the processes forked from now on share with this one, at *at,
 * page-aligned, until @a pool is cleared in the process that does so.
 * @return APR_SUCCESS, or why there are none; *at is NULL then.
 */
apr_status_t htc_pages_share(void **at, size_t bytes, apr_pool_t *pool);

/** Memory that outlives a configuration, with descriptors that belong to it; -1: none. Another build
 * of the module knows no more than this of it. */
typedef struct htc_kept_memory {
    void *at;
    size_t bytes;
    int fds[2];
} htc_kept_memory;

/** Unmap it and close its descriptors, in this process. */
void htc_pages_forget(const htc_kept_memory *memory);

/**
 * An empty memory file, which nobody can execute. /proc shows @a name. The caller closes the
 * descriptor; exec does, too.
 * @return the descriptor, or -1 with errno.
 */
int htc_pages_file(const char *name);

/**
 * @a bytes of zeroes, page-aligned; NULL when there are none. Memory is taken as it is touched.
 * Give htc_pages_give() the same size. Also for megabytes that a long-lived process needs for a
 * moment: freed memory that is no mapping of its own stays in malloc's arena. glibc has eight
 * arenas for each processor and gives a new thread the next one, and malloc_trim() does not take
 * the memory from there.
 */
void *htc_pages_take(size_t bytes);

/**
 * Give them back; NULL does nothing. The pages go first, in pieces: munmap() of all of them at once
 * would keep the other threads from mapping a file until the last page is free.
 */
void htc_pages_give(void *at, size_t bytes);

/**
 * Leave a hole of one page among the mappings, high up. httpd maps each small file that it sends, and
 * the kernel takes the highest place where it fits. In a hole of just its size the mapping is one
 * entry for another. Elsewhere the kernel copies a node of its tree of mappings, twice for each file.
 * For a process that serves. Does nothing where there is no memory for it.
 * @return the hole, or NULL.
 */
void *htc_pages_hole(void);

/** Size and alignment of a large page. */
#define HTC_LARGE_PAGE ((size_t)2 << 20)

/**
 * Ask the kernel to put @a bytes bytes at @a at in large pages where it can: the whole pages
 * between the first and the last multiple of HTC_LARGE_PAGE, so no memory is taken that was not
 * there before. The contents stay. Works for private and for shared anonymous memory, from Linux
 * 6.1 on, also where the administrator has turned large pages off for shared memory by default.
 * Does nothing where there are none. May take as long as copying the memory.
 * @return true when all of these pages are in large ones.
 */
bool htc_pages_enlarge(void *at, size_t bytes);

/**
 * Enter @a bytes bytes at @a at, which are in large pages, in this process's page table. Each large
 * page that is met later would cost a fault, of which one costs as much as many of these. Reads no
 * memory. Does nothing on Linux before 5.14.
 */
void htc_pages_meet(void *at, size_t bytes);

#endif
