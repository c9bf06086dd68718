/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the FUSE half of slowfs shares: the mounted file system and its nodes (slowfs_node.c), the
 * operations (slowfs_ops.c), and mounting and serving (slowfs_serve.c).
 *
 * A node stands for a file that the kernel knows: a descriptor opened with O_PATH, found again by
 * device and inode, freed when the kernel has forgotten it. So a node survives renames, and files
 * that are opened are reached through /proc/self/fd. Where there are more files than descriptors,
 * the others' nodes have a file handle (name_to_handle_at(2)), which only root may open.
 */
#ifndef SLOWFS_FUSE_H
#define SLOWFS_FUSE_H

#define FUSE_USE_VERSION 312
#include "slowfs.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <sys/stat.h>

#define SLOWFS_BUCKETS        65536
#define SLOWFS_PROC_PATH_SIZE 32

typedef struct slowfs_node {
    struct slowfs_node *next; /* in its bucket */
    uint64_t lookups;         /* what the kernel has to forget before this may go */
    dev_t dev;
    ino_t ino;
    int fd;                     /* -1: it is opened by the handle each time */
    struct file_handle *handle; /* or NULL */
    atomic_bool htaccess;       /* it was last found under this name */
} slowfs_node;

typedef struct slowfs {
    slowfs_profile profile; /* under `lock`, as it can be changed while it is used */
    slowfs_counters counters;
    slowfs_node root;
    int descriptors;      /* that nodes may have */
    int held;             /* that they have; under `lock` */
    bool handles;         /* there may be nodes with handles; under `lock` */
    int source;           /* a descriptor of the root that handles are opened with */
    bool give_away;       /* run by root: what others make becomes theirs */
    pthread_mutex_t lock; /* protects also the buckets and all nodes' `lookups` */
    slowfs_node *buckets[SLOWFS_BUCKETS];
} slowfs;

/* The node of the file that `fd`, which was opened with O_PATH, and `st` stand for, with one
   look-up more. Takes the descriptor in any case. NULL with errno: ENOMEM, or ENFILE when there are
   no more descriptors for nodes, and no handles. */
slowfs_node *slowfs_node_with(slowfs *fs, int fd, const struct stat *st);

/* The kernel has forgotten so many look-ups of a node, which goes with the last. */
void slowfs_node_forget(slowfs *fs, slowfs_node *n, uint64_t lookups);

/* A descriptor of the node's file, for slowfs_node_close(). -1 with errno: ESTALE when the file is
   gone. */
int slowfs_node_open(const slowfs *fs, const slowfs_node *n);
/* Keeps errno; nothing when `fd` is -1. */
void slowfs_node_close(const slowfs_node *n, int fd);

/* What is now at `st` was renamed: to .htaccess, or from it. Nothing when it is no node. */
void slowfs_node_renamed(slowfs *fs, const struct stat *st, bool htaccess);

/* All nodes but the root; nothing may use them any more. */
void slowfs_nodes_free(slowfs *fs);

/* What the kernel may open a file by; O_PATH descriptors cannot be read themselves. Returns
   `path`. */
const char *slowfs_proc_path(char path[SLOWFS_PROC_PATH_SIZE], int fd);

extern const struct fuse_lowlevel_ops slowfs_operations;

#endif
