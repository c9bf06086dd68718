/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/hot.h
 * What every request runs. After httpd and the kernel have done their part of a request, little of
 * the module is left in the processor's caches, so that a request pays for each line and page of
 * code it comes to, more than for the instructions on them. Functions that are marked HTC_HOT lie
 * side by side in the program; what not every request comes to belongs into a function of its own
 * (HTC_APART, or HTC_COLD where it is rare), so that it is not between them and nothing is saved on
 * the stack for it. HTC_EACH is for the few that each request runs, redirects or not: they have a
 * section of their own, which htc_hot_fetch() has the processor load while the request waits for
 * the kernel's answer anyway.
 */
#ifndef HTC_BASE_HOT_H
#define HTC_BASE_HOT_H

#define HTC_HOT        __attribute__((hot))
#define HTC_EACH       __attribute__((hot, section("htc_each")))
#define HTC_APART      __attribute__((noinline))
#define HTC_COLD       __attribute__((noinline, cold))

#define HTC_LINE_BYTES 64

/* The linker's names for where a section begins and ends. */
extern const char __start_htc_each[] __attribute__((visibility("hidden")));
extern const char __stop_htc_each[] __attribute__((visibility("hidden")));

/** Have the functions marked HTC_EACH loaded into the second-level cache, all at once; where they
 * are there already that is an instruction for each line. */
static inline void htc_hot_fetch(void)
{
    for (const char *line = __start_htc_each; line < __stop_htc_each; line += HTC_LINE_BYTES)
        __builtin_prefetch(line, 0, 2);
}

#endif
