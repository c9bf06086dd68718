/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file sim_sys.h
 * The system's calls as the simulated world has them: src/base/sys.h binds to these when a file is
 * compiled with HTC_SIMULATED. Each is as the system's own, as far as the module uses it; errno is
 * set as the kernel would.
 */
#ifndef SIM_SYS_H
#define SIM_SYS_H

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <time.h>

#include <apr_errno.h>

int sim_clock_gettime(clockid_t clock, struct timespec *now);
int sim_nanosleep(const struct timespec *sleep, struct timespec *left);
int sim_sched_yield(void);
pid_t sim_getpid(void);
int sim_kill(pid_t pid, int number);
uid_t sim_geteuid(void);
int sim_stat(const char *path, struct stat *st);
int sim_lstat(const char *path, struct stat *st);
int sim_statfs(const char *path, struct statfs *fs);
ssize_t sim_readlink(const char *path, char *text, size_t size);
char *sim_realpath(const char *path, char *resolved);
int sim_open(const char *path, int flags, ...);
int sim_openat(int fd, const char *path, int flags, ...);
FILE *sim_fopen(const char *path, const char *mode);
int sim_memfd_create(const char *name, unsigned flags);
int sim_fstat(int fd, struct stat *st);
int sim_fstatfs(int fd, struct statfs *fs);
ssize_t sim_read(int fd, void *bytes, size_t size);
int sim_ioctl(int fd, unsigned long request, ...);
int sim_fcntl(int fd, int command, ...);
int sim_close(int fd);
DIR *sim_fdopendir(int fd);
struct dirent *sim_readdir(DIR *dir);
int sim_closedir(DIR *dir);
int sim_inotify_init1(int flags);
int sim_inotify_add_watch(int fd, const char *path, uint32_t mask);
int sim_inotify_rm_watch(int fd, int wd);
void *sim_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int sim_munmap(void *at, size_t bytes);
void *sim_malloc(size_t bytes);
char *sim_strdup(const char *text);
char *sim_strndup(const char *text, size_t most);
int sim_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sim_free(void *at);
apr_status_t sim_apr_generate_random_bytes(unsigned char *bytes, apr_size_t n);

#endif
