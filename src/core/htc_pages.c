/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Large pages. Called by who has filled a large piece of memory that is going to be read often.
 */
#include "htc_pages.h"

#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

void htc_pages_enlarge(void *at, size_t bytes)
{
    uintptr_t begin = ((uintptr_t)at + HTC_LARGE_PAGE - 1) / HTC_LARGE_PAGE * HTC_LARGE_PAGE;
    uintptr_t end = ((uintptr_t)at + bytes) / HTC_LARGE_PAGE * HTC_LARGE_PAGE;

    /* One call for all would stop at the first that is not to be had, and keep the lock on this
     * process's addresses for long. */
    /* In one call: the kernel makes all processors hand in what they hold back once in each. It
     * goes on behind pages that cannot be had. */
    if (begin < end) {
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
        madvise((void *)begin, end - begin, MADV_COLLAPSE);
    }
}
