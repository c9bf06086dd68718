/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htc_hot.h
 * What every request runs. After httpd and the kernel have done their part of a request, little of
 * the module is left in the processor's caches, so that a request pays for each line and page of
 * code it comes to, more than for the instructions on them. Functions that are marked HTC_HOT lie
 * side by side in the program; what not every request comes to belongs into a function of its own
 * (HTC_APART, or HTC_COLD where it is rare), so that it is not between them and nothing is saved on
 * the stack for it.
 */
#ifndef HTC_HOT_H
#define HTC_HOT_H

#define HTC_HOT   __attribute__((hot))
#define HTC_APART __attribute__((noinline))
#define HTC_COLD  __attribute__((noinline, cold))

#endif
