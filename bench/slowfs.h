/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * slowfs: a pass-through file system that delays each operation as a network file system would, and
 * counts them. What its files share: profiles and counters (slowfs_count.c, which knows nothing of
 * FUSE and has unit tests) and how it is mounted. slowfs.c has the command line; slowfs_fuse.h what
 * the files share that serve.
 */
#ifndef SLOWFS_H
#define SLOWFS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Operations that are counted and may be delayed; the kernel's requests, not the callers' calls:
 *
 *   lookup_hit   a name was looked up and is there
 *   lookup_miss  a name was looked up and is not there
 *   getattr      attributes were asked for again
 *   open         a file was opened
 *   read         a piece of a file was read
 *   readdir      a piece of a directory was read
 *   change       anything that writes: create, write, rename, unlink, chmod, ...
 *   other        readlink, statfs, fsync
 */
#define SLOWFS_OPERATIONS \
    X(lookup_hit)         \
    X(lookup_miss)        \
    X(getattr)            \
    X(open)               \
    X(read)               \
    X(readdir)            \
    X(change)             \
    X(other)

enum slowfs_op {
#define X(name) SLOWFS_##name,
    SLOWFS_OPERATIONS
#undef X
        SLOWFS_OP_COUNT
};

/* How a mount behaves. Times: delays in microseconds, the rest in seconds. */
typedef struct slowfs_profile {
    const char *name;
    uint32_t delay_us[SLOWFS_OP_COUNT][2]; /* [0] on names other than .htaccess, [1] on .htaccess */
    double entry_s;                        /* how long the kernel trusts a name that it found */
    double attr_s;                         /* and its attributes */
    double negative_s;                     /* and that a name is not there; 0: it asks each time */
    bool keep_cache; /* data read once stays in the page cache while size and mtime stay */
} slowfs_profile;

/* Operations so far, [0] on names other than .htaccess, [1] on .htaccess. Any thread may count,
   read or reset at any time. */
typedef struct slowfs_counters {
    atomic_uint_fast64_t count[SLOWFS_OP_COUNT][2];
} slowfs_counters;

/* Room for all counters as text. */
#define SLOWFS_TEXT_SIZE 1024

/* Copies the named profile; false when there is none of this name. */
bool slowfs_profile_named(slowfs_profile *profile, const char *name);

/* Names of all profiles, separated by commas. */
const char *slowfs_profile_names(void);

/*
 * Changes a profile as text says: settings NAME=VALUE, with commas or white space between them.
 *
 *   profile=NAME        everything at once; comes before others
 *   OPERATION=US, all=US  delays in microseconds, at most 10 s; OPERATION.htaccess and
 *                       OPERATION.other, as the counters are named, are of these names alone
 *   cache=S             how long names and attributes are trusted, in seconds
 *   negative=S          how long it is trusted that a name is not there
 *
 * Words without "=" mean nothing. Returns NULL, or what is wrong, in words that stay valid; the
 * profile may then be changed in part.
 */
const char *slowfs_set(slowfs_profile *profile, const char *text);

/* True for the name that is counted apart. */
bool slowfs_is_htaccess(const char *name);

void slowfs_count(slowfs_counters *counters, enum slowfs_op op, bool htaccess);
void slowfs_reset(slowfs_counters *counters);

/*
 * Writes one line for each counter, "lookup_miss.htaccess 11" or "lookup_miss.other 3", always all
 * of them and in the same order, and a final NUL. Returns the length, less than `size`, which is to
 * be SLOWFS_TEXT_SIZE or more.
 */
size_t slowfs_text(slowfs_counters *counters, char *text, size_t size);

/*
 * Mounts `source` on `mount` and serves it until the process is told to end (SIGINT, SIGTERM,
 * SIGHUP) or somebody unmounts it; then nothing is left mounted. `options` are mount(8) options, or
 * NULL. In the background unless `foreground`; then the call returns in the caller's process once
 * the mount answers. 0 or 1, as exit() takes it; errors are printed.
 */
typedef struct slowfs_mount {
    char *source; /* both absolute */
    char *mount;
    const char *options;
    bool foreground;
    bool with_parent; /* end when the process that started this one ends */
    int descriptors; /* most for files that the kernel knows; as far as the process may have them */
    slowfs_profile profile;
} slowfs_mount;

int slowfs_serve(const slowfs_mount *config);

#endif
