/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/sys.h
 * What the code of freshness and of shared memory asks the system: clocks, files, inotify, record
 * locks, processes. Each call has a name of its own here. In production that is another word for the
 * system's function: no instruction is added. With HTC_SIMULATED it is the function of the simulated
 * world (tests/sim_sys.h), so that the same source files run there.
 *
 * HTC_POINT() stands behind stores to shared memory. In production it is nothing. A test that kills a
 * process between any two stores, or lets another one run there, is compiled with HTC_CRASH_POINTS
 * and defines htc_crash_point().
 */
#ifndef HTC_BASE_SYS_H
#define HTC_BASE_SYS_H

#ifdef HTC_SIMULATED
#include "sim_sys.h"
#define HTC_SYS(call) sim_##call
#else
#define HTC_SYS(call) call
#endif

#ifdef HTC_CRASH_POINTS
void htc_crash_point(const char *where);
#define HTC_POINT(where) htc_crash_point(where)
#else
#define HTC_POINT(where) ((void)0)
#endif

/* Stands between loads of shared memory. Only the simulated world runs others there. */
#ifdef HTC_SIMULATED
#define HTC_LOAD_POINT(where) HTC_POINT(where)
#else
#define HTC_LOAD_POINT(where) ((void)0)
#endif

/* Time. */
#define sys_clock_gettime HTC_SYS(clock_gettime)
#define sys_nanosleep     HTC_SYS(nanosleep)
#define sys_sched_yield   HTC_SYS(sched_yield)

/* Processes. */
#define sys_getpid  HTC_SYS(getpid)
#define sys_kill    HTC_SYS(kill)
#define sys_geteuid HTC_SYS(geteuid)

/* Files by path. */
#define sys_stat     HTC_SYS(stat)
#define sys_lstat    HTC_SYS(lstat)
#define sys_statfs   HTC_SYS(statfs)
#define sys_readlink HTC_SYS(readlink)
#define sys_realpath HTC_SYS(realpath)
#define sys_open     HTC_SYS(open)
#define sys_openat   HTC_SYS(openat)
#define sys_fopen    HTC_SYS(fopen)

/* Descriptors. */
#define sys_memfd_create HTC_SYS(memfd_create)
#define sys_fstat        HTC_SYS(fstat)
#define sys_fstatfs      HTC_SYS(fstatfs)
#define sys_read         HTC_SYS(read)
#define sys_ioctl        HTC_SYS(ioctl)
#define sys_fcntl        HTC_SYS(fcntl)
#define sys_close        HTC_SYS(close)
#define sys_fdopendir    HTC_SYS(fdopendir)
#define sys_readdir      HTC_SYS(readdir)
#define sys_closedir     HTC_SYS(closedir)

/* What the kernel reports. */
#define sys_inotify_init1     HTC_SYS(inotify_init1)
#define sys_inotify_add_watch HTC_SYS(inotify_add_watch)
#define sys_inotify_rm_watch  HTC_SYS(inotify_rm_watch)

/* Memory, shared by processes and a process's own, and chance. */
#define sys_mmap         HTC_SYS(mmap)
#define sys_munmap       HTC_SYS(munmap)
#define sys_malloc       HTC_SYS(malloc)
#define sys_strdup       HTC_SYS(strdup)
#define sys_strndup      HTC_SYS(strndup)
#define sys_asprintf     HTC_SYS(asprintf)
#define sys_free         HTC_SYS(free)
#define sys_random_bytes HTC_SYS(apr_generate_random_bytes)

#endif
