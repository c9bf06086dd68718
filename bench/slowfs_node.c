/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Nodes of slowfs: the files that the kernel knows, found by device and inode. Called by the
 * operations (slowfs_ops.c), from any thread.
 */
#include "slowfs_fuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static slowfs_node **bucket_of(slowfs *fs, dev_t dev, ino_t ino)
{
    return &fs->buckets[(ino * 11400714819323198485ULL ^ dev) % SLOWFS_BUCKETS];
}

static slowfs_node *find_locked(slowfs *fs, const struct stat *st)
{
    slowfs_node *n = *bucket_of(fs, st->st_dev, st->st_ino);

    while (n && (n->ino != st->st_ino || n->dev != st->st_dev))
        n = n->next;
    return n;
}

slowfs_node *slowfs_node_with(slowfs *fs, int fd, const struct stat *st)
{
    slowfs_node *n;

    pthread_mutex_lock(&fs->lock);
    n = find_locked(fs, st);
    if (n) {
        close(fd);
    } else if ((n = calloc(1, sizeof(*n)))) {
        slowfs_node **bucket = bucket_of(fs, st->st_dev, st->st_ino);

        *n = (slowfs_node){.next = *bucket, .dev = st->st_dev, .ino = st->st_ino, .fd = fd};
        *bucket = n;
    }
    if (n)
        n->lookups++;
    else
        close(fd);
    pthread_mutex_unlock(&fs->lock);
    return n;
}

void slowfs_node_forget(slowfs *fs, slowfs_node *n, uint64_t lookups)
{
    slowfs_node **link;

    pthread_mutex_lock(&fs->lock);
    n->lookups -= lookups;
    if (!n->lookups) {
        for (link = bucket_of(fs, n->dev, n->ino); *link != n; link = &(*link)->next)
            continue;
        *link = n->next;
        close(n->fd);
        free(n);
    }
    pthread_mutex_unlock(&fs->lock);
}

void slowfs_node_renamed(slowfs *fs, const struct stat *st, bool htaccess)
{
    slowfs_node *n;

    pthread_mutex_lock(&fs->lock);
    n = find_locked(fs, st);
    if (n)
        n->htaccess = htaccess;
    pthread_mutex_unlock(&fs->lock);
}

void slowfs_nodes_free(slowfs *fs)
{
    for (size_t i = 0; i < SLOWFS_BUCKETS; i++) {
        while (fs->buckets[i]) {
            slowfs_node *n = fs->buckets[i];

            fs->buckets[i] = n->next;
            close(n->fd);
            free(n);
        }
    }
}

const char *slowfs_proc_path(char path[SLOWFS_PROC_PATH_SIZE], const slowfs_node *n)
{
    snprintf(path, SLOWFS_PROC_PATH_SIZE, "/proc/self/fd/%d", n->fd);
    return path;
}
