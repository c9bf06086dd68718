/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Nodes of slowfs: the files that the kernel knows, found by device and inode. Called by the
 * operations (slowfs_ops.c), from any thread.
 */
#include "slowfs_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static slowfs_node **bucket_of(slowfs *fs, dev_t dev, ino_t ino)
{
    return &fs->buckets[(ino * 11400714819323198485ULL ^ dev) % SLOWFS_BUCKETS];
}

static bool same_handle(const struct file_handle *x, const struct file_handle *y)
{
    return x && y && x->handle_type == y->handle_type && x->handle_bytes == y->handle_bytes &&
           !memcmp(x->f_handle, y->f_handle, x->handle_bytes);
}

/* A descriptor keeps an inode's number from being given to another file; a handle does not, and is
 * itself another one then. */
static slowfs_node *find_locked(slowfs *fs, const struct stat *st, const struct file_handle *handle)
{
    slowfs_node *n = *bucket_of(fs, st->st_dev, st->st_ino);

    while (n && (n->ino != st->st_ino || n->dev != st->st_dev ||
                 (n->fd == -1 && !same_handle(n->handle, handle))))
        n = n->next;
    return n;
}

/* NULL: the file system has none, or this is not root. */
static struct file_handle *handle_of(const slowfs *fs, int fd)
{
    struct file_handle *handle = malloc(sizeof(*handle) + MAX_HANDLE_SZ);
    int mount, again;

    if (!handle)
        return NULL;
    handle->handle_bytes = MAX_HANDLE_SZ;
    if (name_to_handle_at(fd, "", handle, &mount, AT_EMPTY_PATH) == 0 &&
        (again = open_by_handle_at(fs->source, handle, O_PATH | O_NOFOLLOW | O_CLOEXEC)) != -1) {
        close(again);
        return handle;
    }
    free(handle);
    return NULL;
}

/* Takes *fd when another one may be kept, or else *handle. NULL with errno: neither is to be had,
 * or there is no memory. */
static slowfs_node *add_locked(slowfs *fs, const struct stat *st, int *fd,
                               struct file_handle **handle)
{
    slowfs_node *n, **bucket = bucket_of(fs, st->st_dev, st->st_ino);
    bool keep = fs->held < fs->descriptors;

    if (!keep && !*handle) {
        errno = ENFILE;
        return NULL;
    }
    n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    *n = (slowfs_node){.next = *bucket, .dev = st->st_dev, .ino = st->st_ino, .fd = -1};
    if (keep) {
        fs->held++;
        n->fd = *fd;
        *fd = -1;
    } else {
        n->handle = *handle;
        *handle = NULL;
    }
    return *bucket = n;
}

slowfs_node *slowfs_node_with(slowfs *fs, int fd, const struct stat *st)
{
    struct file_handle *handle;
    slowfs_node *n;
    int error = 0;

    pthread_mutex_lock(&fs->lock);
    fs->handles |= fs->held >= fs->descriptors;
    handle = fs->handles ? handle_of(fs, fd) : NULL;
    n = find_locked(fs, st, handle);
    if (!n)
        n = add_locked(fs, st, &fd, &handle);
    if (n)
        n->lookups++;
    else
        error = errno;
    pthread_mutex_unlock(&fs->lock);
    if (fd != -1)
        close(fd);
    free(handle);
    errno = error;
    return n;
}

int slowfs_node_open(const slowfs *fs, const slowfs_node *n)
{
    return n->fd != -1 ? n->fd
                       : open_by_handle_at(fs->source, n->handle, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

void slowfs_node_close(const slowfs_node *n, int fd)
{
    int error = errno;

    if (n->fd == -1 && fd != -1)
        close(fd);
    errno = error;
}

static void end(slowfs *fs, slowfs_node *n)
{
    if (n->fd != -1) {
        close(n->fd);
        fs->held--;
    }
    free(n->handle);
    free(n);
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
        end(fs, n);
    }
    pthread_mutex_unlock(&fs->lock);
}

/* Also those of files that had the inode's number before: nobody asks for them any more. */
void slowfs_node_renamed(slowfs *fs, const struct stat *st, bool htaccess)
{
    pthread_mutex_lock(&fs->lock);
    for (slowfs_node *n = *bucket_of(fs, st->st_dev, st->st_ino); n; n = n->next) {
        if (n->ino == st->st_ino && n->dev == st->st_dev)
            n->htaccess = htaccess;
    }
    pthread_mutex_unlock(&fs->lock);
}

void slowfs_nodes_free(slowfs *fs)
{
    for (size_t i = 0; i < SLOWFS_BUCKETS; i++) {
        while (fs->buckets[i]) {
            slowfs_node *n = fs->buckets[i];

            fs->buckets[i] = n->next;
            end(fs, n);
        }
    }
}

const char *slowfs_proc_path(char path[SLOWFS_PROC_PATH_SIZE], int fd)
{
    snprintf(path, SLOWFS_PROC_PATH_SIZE, "/proc/self/fd/%d", fd);
    return path;
}
