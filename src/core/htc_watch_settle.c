/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Having a path watched: what of it is not known to be valid is looked at. Called by htc_watch.c,
 * without the lock, as a look may take as long as a file system likes: nothing is asked of one here
 * while the lock is held.
 *
 * A path is settled from the top down, each node after its parent's directory is watched. For one
 * node: (1) under the lock, note its number, which is another one after each report that may
 * concern it; (2) without the lock look at it and add its watch; (3) under the lock, if it still
 * has the number and the watch is still there, it is valid. A change after (2) is reported, and
 * makes (3) fail or undoes it. What was reported to the watch before (3) was nobody's yet, and need
 * not be: the file is compared with its record, and the names in a directory are looked at, after
 * (3).
 */
#include "htc_watch_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define DIRECTORY_MASK (HTCW_DIRECTORY_EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW)
#define FILE_MASK      (HTCW_FILE_EVENTS | IN_DONT_FOLLOW)

/* File systems on which all changes are made through this kernel and are reported: those of
 * linux/magic.h that keep their files on this machine. Not overlayfs, FUSE, network and cluster
 * file systems, and what is not known. */
static const uint32_t local_types[] = {
    0xEF53,     /* ext2, ext3, ext4 */
    0x58465342, /* xfs */
    0x9123683E, /* btrfs */
    0x01021994, /* tmpfs */
    0x858458F6, /* ramfs */
    0xF2F52010, /* f2fs */
    0x2FC12FC1, /* zfs */
    0xCA451A4E, /* bcachefs */
    0x52654973, /* reiserfs */
    0x3153464A, /* jfs */
    0x4D44,     /* vfat */
    0x2011BAB0, /* exfat */
    0x73717368, /* squashfs */
    0xE0F5E1E2, /* erofs */
    0x9660,     /* iso9660 */
};

/* Looks for one path; a node that changes all the time ends it. */
#define MAX_LOOKS (2 * HTCW_MAX_DEPTH)

/* One node to be looked at, and what was seen. */
typedef struct look {
    uint32_t node;
    uint64_t number, epoch; /* of the node and of the tree, as of (1) */
    uint32_t ngone;         /* watches that were gone */
    htcw_adding *adding;    /* or NULL */
    char *path;
    bool last, full;
    htcw_device devices[HTCW_DEVICES];

    htc_watch_why why;
    bool absent, met_limit, asked_device;
    int wd; /* -1: none */
    htcw_device device;
    uint32_t type; /* of the device's file system */
    char *target;  /* of a symbolic link, or NULL */
} look;

/* --- (1) what is to be looked at --------------------------------------------------------------*/

/* A file that so far was on the way only (to something that cannot be below it) is not watched. */
static bool needs_own(const htcw_node *n, bool last)
{
    return last && !n->absent && n->wd < 0;
}

static void note_adding(htc_watch *w, look *l)
{
    for (int i = 0; i < HTCW_ADDING; i++) {
        htcw_adding *adding = &w->header->adding[i];

        if (!adding->pid) {
            adding->after = w->header->last_wd;
            atomic_store(&adding->pid, getpid());
            l->adding = adding;
            return;
        }
    }
}

static void plan_look(htc_watch *w, uint32_t i, bool last, look *l)
{
    htcw_header *header = w->header;

    l->node = i;
    l->number = w->nodes[i].epoch;
    l->epoch = atomic_load(&header->epoch);
    l->ngone = header->ngone;
    l->last = last;
    l->full = (header->full_at && htc_mono_ms() - header->full_at < HTC_WATCH_RETRY_MS) ||
              (w->own_limit && w->nodes[i].wd < 0 && atomic_load(&header->watches) >= w->own_limit);
    memcpy(l->devices, header->devices, sizeof(l->devices));
    note_adding(w, l);
}

/* True when the node may be relied on as it is. Else either *why says why it cannot be watched, or
 * it is to be looked at, and *why is HTC_WATCH_OK. */
static bool rely_on(htc_watch *w, uint32_t i, bool last, look *l, htc_watch_why *why)
{
    const htcw_node *n = &w->nodes[i];

    *why = HTC_WATCH_OK;
    if (htcw_settled(w, n)) {
        if (n->why == HTC_WATCH_OK && !needs_own(n, last))
            return true;
        if (n->why != HTC_WATCH_OK && htc_mono_ms() - n->since < HTC_WATCH_RETRY_MS) {
            *why = (htc_watch_why)n->why;
            return false;
        }
        htcw_doom(w, i);
    }
    plan_look(w, i, last, l);
    return false;
}

static htc_watch_why child_of(htc_watch *w, const char *name, size_t len, uint32_t *node)
{
    uint64_t hash = htcw_name_hash(w, name, len);
    uint32_t child = htcw_find_child(w, *node, hash);

    if (*name == '.' && (len == 1 || (len == 2 && name[1] == '.')))
        return HTC_WATCH_PATH;
    if (child == HTCW_NIL)
        child = htcw_add_node(w, *node, hash);
    if (child == HTCW_NIL)
        return HTC_WATCH_FULL;
    *node = child;
    return HTC_WATCH_OK;
}

/* The first node of the path that must be looked at; *len is where its name ends. 0: there is none,
 * and *node is the last one, or the reason why it cannot be is returned. */
static htc_watch_why find_look(htc_watch *w, const char *path, look *l, size_t *len, uint32_t *node)
{
    size_t at = strspn(path, "/"), end = 1;
    htc_watch_why why;

    *node = HTCW_ROOT;
    for (unsigned depth = 0; rely_on(w, *node, depth && !path[at], l, &why); depth++) {
        *len = 0;
        if (!path[at])
            return HTC_WATCH_OK;
        if (depth > HTCW_MAX_DEPTH)
            return HTC_WATCH_PATH;
        end = at + strcspn(path + at, "/");
        why = child_of(w, path + at, end - at, node);
        if (why != HTC_WATCH_OK)
            return why;
        at = end + strspn(path + end, "/");
    }
    *len = why == HTC_WATCH_OK ? end : 0;
    return why;
}

/* --- (2) looking, without the lock ------------------------------------------------------------*/

static bool type_is_local(uint32_t type)
{
    for (size_t i = 0; i < sizeof(local_types) / sizeof(local_types[0]); i++) {
        if (type == local_types[i])
            return true;
    }
    return false;
}

/* Device and file system are asked of one descriptor: who may change the path must not have a
 * device taken for that of another file system, which all would rely on. */
static htc_watch_why ask_device(look *l, int fd, const struct stat *seen)
{
    struct statfs fs;
    struct stat st;

    if (fstat(fd, &st) != 0 || fstatfs(fd, &fs) != 0)
        return HTC_WATCH_FILESYSTEM;
    l->type = (uint32_t)fs.f_type;
    l->device = (htcw_device){st.st_dev, htc_mono_ms(), type_is_local(l->type)};
    l->asked_device = true;
    if (st.st_dev != seen->st_dev || st.st_ino != seen->st_ino)
        return HTC_WATCH_AGAIN;
    return l->device.local ? HTC_WATCH_OK : HTC_WATCH_FILESYSTEM;
}

/* Does it lie on a local file system? Numbers of devices are given anew, so what is known of one is
 * not known for long. */
static htc_watch_why is_local(look *l, const struct stat *seen)
{
    int64_t now = htc_mono_ms();
    htc_watch_why why;
    int fd;

    for (int i = 0; i < HTCW_DEVICES; i++) {
        const htcw_device *known = &l->devices[i];

        if (known->at && known->dev == seen->st_dev && now - known->at < 5000)
            return known->local ? HTC_WATCH_OK : HTC_WATCH_FILESYSTEM;
    }
    fd = open(l->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    /* Gone meanwhile, or there are no descriptors. */
    if (fd < 0)
        return errno == EACCES ? HTC_WATCH_DENIED : HTC_WATCH_AGAIN;
    why = ask_device(l, fd, seen);
    close(fd);
    return why;
}

static htc_watch_why add_watch(htc_watch *w, look *l, uint32_t mask)
{
    if (l->full)
        return HTC_WATCH_KERNEL;
    l->wd = inotify_add_watch(w->fd, l->path, mask);
    HTCW_CRASH_POINT("add_watch");
    if (l->wd >= 0)
        return HTC_WATCH_OK;
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
        return HTC_WATCH_AGAIN;
    case EACCES:
    case EPERM:
        return HTC_WATCH_DENIED;
    default:
        l->met_limit = true;
        return HTC_WATCH_KERNEL;
    }
}

/* A path without "." and ".." that means the same as the link's text does at @a at, or NULL. A ".."
 * behind a name of the text cannot be resolved without following that name: none of these. */
static char *target_path(const char *at, const char *text)
{
    char *parent = strdup(at), *base = NULL, *path = NULL;
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (*text == '/') {
        base = strdup("");
    } else if (slash) {
        slash[slash == parent] = '\0';
        base = realpath(parent, NULL);
    }
    free(parent);
    while (base && *text != '/' && *text == '.') {
        size_t dots = strspn(text, ".");

        if (dots > 2 || (text[dots] != '/' && text[dots]))
            break;
        slash = dots == 2 ? strrchr(base, '/') : NULL;
        if (slash)
            slash[slash == base] = '\0';
        text += dots;
        text += strspn(text, "/");
    }
    if (base && asprintf(&path, "%s/%s", base, text) < 0)
        path = NULL;
    free(base);
    return path;
}

static htc_watch_why read_link(look *l, unsigned links)
{
    char text[HTCW_MAX_PATH];
    ssize_t len = readlink(l->path, text, sizeof(text) - 1);

    if (len < 0)
        return HTC_WATCH_AGAIN;
    text[len] = '\0';
    if (!len || links >= HTCW_MAX_LINKS)
        return HTC_WATCH_PATH;
    l->target = target_path(l->path, text);
    return l->target && strlen(l->target) < HTCW_MAX_PATH ? HTC_WATCH_OK : HTC_WATCH_PATH;
}

static htc_watch_why look_at(htc_watch *w, look *l, unsigned links)
{
    struct stat st;
    htc_watch_why why;

    if (lstat(l->path, &st) != 0) {
        l->absent = errno == ENOENT || errno == ENOTDIR;
        return l->absent ? HTC_WATCH_OK : HTC_WATCH_DENIED;
    }
    if (S_ISLNK(st.st_mode))
        return read_link(l, links);
    if (!S_ISDIR(st.st_mode) && !(l->last && S_ISREG(st.st_mode)))
        return HTC_WATCH_OK;
    why = is_local(l, &st);
    if (why != HTC_WATCH_OK)
        return why;
    return add_watch(w, l, S_ISDIR(st.st_mode) ? DIRECTORY_MASK : FILE_MASK);
}

/* --- (3) what was seen ------------------------------------------------------------------------*/

/* Paths are settled from the top, so the first one met is where it is mounted. */
static void note_refused(htc_watch *w, uint64_t dev, uint32_t type, const char *path)
{
    for (int i = 0; i < HTCW_DEVICES; i++) {
        htcw_refused *one = &w->header->refused[i];

        if (atomic_load(&one->told) != HTCW_EMPTY && one->dev == dev)
            return;
        if (atomic_load(&one->told) == HTCW_EMPTY) {
            one->dev = dev;
            one->what.type = type;
            snprintf(one->what.at, sizeof(one->what.at), "%s", path);
            atomic_store(&one->told, HTCW_UNTOLD);
            return;
        }
    }
}

static bool gone_since(const htc_watch *w, const look *l)
{
    uint32_t n = w->header->ngone - l->ngone;

    if (l->wd < 0 || !n)
        return false;
    if (n > HTCW_GONE)
        return true;
    while (n--) {
        if (w->header->gone[(l->ngone + n) % HTCW_GONE] == l->wd)
            return true;
    }
    return false;
}

/* Has nothing been reported of the node since (1)? */
static bool still(const htc_watch *w, const look *l)
{
    return atomic_load(&w->header->epoch) == l->epoch && w->nodes[l->node].epoch == l->number &&
           !gone_since(w, l);
}

static void note_device(htc_watch *w, const look *l)
{
    htcw_header *header = w->header;

    if (l->met_limit)
        header->full_at = htc_mono_ms();
    if (!l->asked_device)
        return;
    header->devices[header->device_hand++ % HTCW_DEVICES] = l->device;
    if (!l->device.local)
        note_refused(w, l->device.dev, l->type, l->path);
}

/* The node is as it was seen. @a target: what its link leads to, valid; or HTCW_NIL. */
static void settle_node(htc_watch *w, const look *l, uint32_t target)
{
    htcw_node *n = &w->nodes[l->node];
    int32_t wd = n->wd;
    uint32_t led_to = n->target;

    if (l->why == HTC_WATCH_OK) {
        int32_t found = target == HTCW_NIL ? l->wd : w->nodes[target].wd;

        n->absent = target == HTCW_NIL ? l->absent : w->nodes[target].absent;
        htcw_set_target(w, l->node, target);
        if (found >= 0)
            htcw_set_wd(w, l->node, found);
        else
            htcw_drop_wd(w, l->node, false);
    }
    /* It leads elsewhere, and nothing was reported: a file system was mounted or unmounted. */
    if (!(n->epoch & HTCW_INVALID) && (n->wd != wd || n->target != led_to))
        htcw_doom(w, l->node);
    n->why = (uint8_t)l->why;
    n->since = htc_mono_ms();
    HTCW_CRASH_POINT("settle");
    if (l->why != HTC_WATCH_AGAIN)
        n->epoch = l->epoch;
}

static void end_adding(look *l)
{
    if (l->adding)
        atomic_store(&l->adding->pid, 0);
    l->adding = NULL;
}

/* False when the node changed meanwhile. */
static bool keep_seen(htc_watch *w, look *l, uint32_t target)
{
    bool same = still(w, l);

    note_device(w, l);
    if (same)
        settle_node(w, l, target);
    if (l->wd >= 0 && htcw_first_with_wd(w, l->wd) == HTCW_NIL)
        inotify_rm_watch(w->fd, l->wd);
    end_adding(l);
    return same;
}

/* Nobody else can tell whether the watch is needed; if it is, its end is reported. */
static htc_watch_why give_up_look(htc_watch *w, look *l)
{
    if (l->wd >= 0)
        inotify_rm_watch(w->fd, l->wd);
    end_adding(l);
    return HTC_WATCH_AGAIN;
}

static htc_watch_why settle(htc_watch *w, const char *path, unsigned links, bool *known,
                            htcw_finish *finish, void *data);

/* The link's target is valid: so is the link, if it still leads there. */
static htc_watch_why settle_link(htc_watch *w, uint32_t target, void *data)
{
    return keep_seen(w, data, target) ? HTC_WATCH_OK : HTC_WATCH_AGAIN;
}

/* One look. HTC_WATCH_OK: go on. */
static htc_watch_why settle_one(htc_watch *w, look *l, unsigned links)
{
    bool known;

    l->why = look_at(w, l, links);
    if (l->why == HTC_WATCH_OK && l->target) {
        l->why = settle(w, l->target, links + 1, &known, settle_link, l);
        if (l->why == HTC_WATCH_OK)
            return l->why;
    }
    if (!htcw_lock(w, true))
        return give_up_look(w, l);
    keep_seen(w, l, HTCW_NIL);
    htcw_unlock(w);
    return l->why;
}

static htc_watch_why settle(htc_watch *w, const char *path, unsigned links, bool *known,
                            htcw_finish *finish, void *data)
{
    htc_watch_why why = HTC_WATCH_OK;

    *known = true;
    for (unsigned looks = 0; why == HTC_WATCH_OK && looks < MAX_LOOKS; looks++) {
        look l = {.wd = -1};
        uint32_t node;
        size_t len;

        if (!htcw_lock(w, true))
            return HTC_WATCH_AGAIN;
        why = find_look(w, path, &l, &len, &node);
        if (why == HTC_WATCH_OK && !len)
            why = finish(w, node, data);
        htcw_unlock(w);
        if (!len)
            return why;
        *known = false;
        l.path = strndup(path, len);
        why = l.path ? settle_one(w, &l, links) : give_up_look(w, &l);
        free(l.path);
        free(l.target);
    }
    return why == HTC_WATCH_OK ? HTC_WATCH_AGAIN : why;
}

htc_watch_why htcw_settle(htc_watch *w, const char *path, bool *known, htcw_finish *finish,
                          void *data)
{
    *known = true;
    if (*path != '/' || strlen(path) >= HTCW_MAX_PATH)
        return HTC_WATCH_PATH;
    return settle(w, path, 0, known, finish, data);
}
