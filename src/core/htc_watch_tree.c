/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is watched: a tree of nodes in shared memory, one for each path as it is written. Called by
 * htc_watch.c, under the lock.
 *
 * A valid node's parent is valid, and so is the node that its symbolic link leads to; so whatever
 * hangs on an invalid node is invalid as well, and making a node invalid ends at those that are.
 * A node is settled from the top down, each after its parent's directory is watched: a change
 * after the look at it is reported.
 */
#include "htc_watch_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define DIRECTORY_MASK                                                                \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_MOVE_SELF | \
     IN_DELETE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW)
/* IN_CLOSE_WRITE tells of a file that was written through a mapping. */
#define FILE_MASK \
    (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVE_SELF | IN_DELETE_SELF | IN_DONT_FOLLOW)

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

/* --- lists and buckets ------------------------------------------------------------------------*/

static uint64_t name_hash(const htc_watch *w, const char *name, size_t len)
{
    return XXH3_64bits_withSeed(name, len, w->seed);
}

static uint32_t *name_bucket(const htc_watch *w, uint32_t parent, uint64_t name)
{
    uint64_t h = (name ^ parent * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xC2B2AE3D27D4EB4F);

    return &w->names[(h >> 32) & (w->nbuckets - 1)];
}

static uint32_t *wd_bucket(const htc_watch *w, int32_t wd)
{
    return &w->wds[(uint32_t)wd * 2654435761U >> 4 & (w->nbuckets - 1)];
}

/* Bucket heads are 0 when empty. */
static uint32_t head_of(const uint32_t *bucket)
{
    return *bucket - 1;
}

static uint32_t find_child(const htc_watch *w, uint32_t parent, uint64_t name)
{
    uint32_t i = head_of(name_bucket(w, parent, name));

    while (i != HTCW_NIL && (w->nodes[i].parent != parent || w->nodes[i].name != name))
        i = w->nodes[i].name_next;
    return i;
}

/* The first node from i on that has this wd. */
static uint32_t with_wd(const htc_watch *w, uint32_t i, int32_t wd)
{
    while (i != HTCW_NIL && w->nodes[i].wd != wd)
        i = w->nodes[i].wd_next;
    return i;
}

static uint32_t first_with_wd(const htc_watch *w, int32_t wd)
{
    return with_wd(w, head_of(wd_bucket(w, wd)), wd);
}

static bool settled(const htc_watch *w, const htcw_node *n)
{
    return n->epoch == atomic_load_explicit(&w->header->epoch, memory_order_relaxed);
}

/* --- nodes ------------------------------------------------------------------------------------*/

static void add_sibling(htc_watch *w, uint32_t parent, uint32_t i)
{
    htcw_node *n = &w->nodes[i];
    uint32_t *head = &w->nodes[parent].children;

    n->sibling = (htcw_links){HTCW_NIL, *head};
    if (*head != HTCW_NIL)
        w->nodes[*head].sibling.prev = i;
    HTCW_CRASH_POINT("sibling");
    *head = i;
}

static void remove_sibling(htc_watch *w, uint32_t i)
{
    htcw_links links = w->nodes[i].sibling;

    if (links.prev == HTCW_NIL)
        w->nodes[w->nodes[i].parent].children = links.next;
    else
        w->nodes[links.prev].sibling.next = links.next;
    if (links.next != HTCW_NIL)
        w->nodes[links.next].sibling.prev = links.prev;
}

static void set_target(htc_watch *w, uint32_t i, uint32_t target)
{
    htcw_node *n = &w->nodes[i];

    if (n->target == target)
        return;
    if (n->target != HTCW_NIL) {
        if (n->linker.prev == HTCW_NIL)
            w->nodes[n->target].linkers = n->linker.next;
        else
            w->nodes[n->linker.prev].linker.next = n->linker.next;
        if (n->linker.next != HTCW_NIL)
            w->nodes[n->linker.next].linker.prev = n->linker.prev;
    }
    HTCW_CRASH_POINT("target");
    n->target = target;
    if (target == HTCW_NIL)
        return;
    n->linker = (htcw_links){HTCW_NIL, w->nodes[target].linkers};
    if (n->linker.next != HTCW_NIL)
        w->nodes[n->linker.next].linker.prev = i;
    w->nodes[target].linkers = i;
}

static void unlink_wd(htc_watch *w, uint32_t i)
{
    uint32_t *bucket = wd_bucket(w, w->nodes[i].wd), at = head_of(bucket);

    if (at == i) {
        *bucket = w->nodes[i].wd_next + 1;
    } else {
        while (w->nodes[at].wd_next != i)
            at = w->nodes[at].wd_next;
        w->nodes[at].wd_next = w->nodes[i].wd_next;
    }
    w->nodes[i].wd = -1;
}

static void count_watches(htc_watch *w, int64_t n)
{
    atomic_fetch_add_explicit(&w->header->watches, (uint64_t)n, memory_order_relaxed);
}

/* The node is not at this wd any more. @a gone: neither is the kernel. */
static void drop_wd(htc_watch *w, uint32_t i, bool gone)
{
    int32_t wd = w->nodes[i].wd;

    if (wd < 0)
        return;
    unlink_wd(w, i);
    if (first_with_wd(w, wd) != HTCW_NIL)
        return;
    if (!gone)
        inotify_rm_watch(w->fd, wd);
    count_watches(w, -1);
}

static void set_wd(htc_watch *w, uint32_t i, int32_t wd)
{
    htcw_node *n = &w->nodes[i];
    uint32_t *bucket = wd_bucket(w, wd);

    if (n->wd == wd)
        return;
    if (first_with_wd(w, wd) == HTCW_NIL)
        count_watches(w, 1);
    drop_wd(w, i, false);
    HTCW_CRASH_POINT("wd");
    n->wd = wd;
    n->wd_next = head_of(bucket);
    *bucket = i + 1;
    if (wd > w->header->last_wd)
        w->header->last_wd = wd;
}

static uint32_t take_node(htc_watch *w)
{
    htcw_header *header = w->header;
    uint32_t i = header->free;

    if (i != HTCW_NIL)
        header->free = w->nodes[i].name_next;
    else if (header->fresh < w->nnodes)
        i = header->fresh++;
    else
        return HTCW_NIL;
    atomic_fetch_add_explicit(&header->used, 1, memory_order_relaxed);
    return i;
}

static uint32_t add_node(htc_watch *w, uint32_t parent, uint64_t name)
{
    uint32_t i = take_node(w), *bucket = name_bucket(w, parent, name);
    htcw_node *n;

    if (i == HTCW_NIL)
        return HTCW_NIL;
    n = &w->nodes[i];
    *n = (htcw_node){.name = name,
                     .entered = HTCW_NIL,
                     .wd = -1,
                     .parent = parent,
                     .target = HTCW_NIL,
                     .children = HTCW_NIL,
                     .linkers = HTCW_NIL,
                     .name_next = head_of(bucket),
                     .wd_next = HTCW_NIL};
    HTCW_CRASH_POINT("node");
    *bucket = i + 1;
    if (i != HTCW_ROOT)
        add_sibling(w, parent, i);
    return i;
}

static void unlink_name(htc_watch *w, uint32_t i)
{
    const htcw_node *n = &w->nodes[i];
    uint32_t *bucket = name_bucket(w, n->parent, n->name), at = head_of(bucket);

    if (at == i) {
        *bucket = n->name_next + 1;
        return;
    }
    while (w->nodes[at].name_next != i)
        at = w->nodes[at].name_next;
    w->nodes[at].name_next = n->name_next;
}

/* A node without children and linkers. */
static void free_node(htc_watch *w, uint32_t i)
{
    drop_wd(w, i, false);
    set_target(w, i, HTCW_NIL);
    remove_sibling(w, i);
    HTCW_CRASH_POINT("free");
    unlink_name(w, i);
    w->nodes[i].parent = HTCW_NIL;
    w->nodes[i].name_next = w->header->free;
    w->header->free = i;
    atomic_fetch_sub_explicit(&w->header->used, 1, memory_order_relaxed);
}

void htcw_reset(htc_watch *w)
{
    htcw_header *header = w->header;

    for (uint32_t i = 0; i < header->fresh; i++) {
        if (w->nodes[i].parent != HTCW_NIL && w->nodes[i].wd >= 0)
            inotify_rm_watch(w->fd, w->nodes[i].wd);
    }
    /* The kernel counts up: one that was added and could not be entered any more. */
    inotify_rm_watch(w->fd, header->last_wd + 1);
    header->free = HTCW_NIL;
    header->fresh = header->hand = header->net_hand = 0;
    atomic_store(&header->used, 0);
    atomic_store(&header->watches, 0);
    memset(w->names, 0, w->nbuckets * sizeof(*w->names));
    memset(w->wds, 0, w->nbuckets * sizeof(*w->wds));
    /* Its parent is no node, but it must not look free. */
    add_node(w, HTCW_ROOT, 0);
}

/* --- dooming ----------------------------------------------------------------------------------*/

/* Where the mark of what is entered lies; NULL when it is gone. */
static _Atomic int64_t *mark_of(const htc_watch *w, const htcw_node *n)
{
    htc_slot_hot *hot;

    if (n->entered == HTCW_NIL)
        return NULL;
    if (n->entered & HTCW_WORD)
        return htc_watch_word_at(w, n->entered & ~HTCW_WORD);
    hot = htc_store_slot(w->store, n->entered);
    return atomic_load(&hot->version) == n->version ? &hot->checked_at : NULL;
}

static void doubt(htc_watch *w, const htcw_node *n)
{
    _Atomic int64_t *mark = mark_of(w, n);

    if (mark)
        atomic_store(mark, htc_watch_doubt(w));
}

/* Whatever this node leads to may have changed. */
static void doom(htc_watch *w, uint32_t i)
{
    htcw_node *n = &w->nodes[i];

    if (!n->epoch)
        return;
    n->epoch = 0;
    n->since = htc_mono_ms();
    doubt(w, n);
    HTCW_CRASH_POINT("doom");
    for (uint32_t c = n->children; c != HTCW_NIL; c = w->nodes[c].sibling.next)
        doom(w, c);
    for (uint32_t l = n->linkers; l != HTCW_NIL; l = w->nodes[l].linker.next)
        doom(w, l);
}

/* The kernel has given the watch up. */
static void wd_gone(htc_watch *w, int32_t wd)
{
    for (uint32_t i = first_with_wd(w, wd); i != HTCW_NIL; i = first_with_wd(w, wd)) {
        doom(w, i);
        drop_wd(w, i, true);
    }
}

void htcw_event(htc_watch *w, int32_t wd, uint32_t mask, const char *name)
{
    uint64_t hash = name ? name_hash(w, name, strlen(name)) : 0;
    uint32_t i = first_with_wd(w, wd);

    /* Added by a process that died before it could say so. What was given up may still report. */
    if (i == HTCW_NIL && wd > w->header->last_wd && !(mask & IN_IGNORED))
        inotify_rm_watch(w->fd, wd);
    for (; i != HTCW_NIL; i = with_wd(w, w->nodes[i].wd_next, wd)) {
        uint32_t child = name ? find_child(w, i, hash) : i;

        if (child != HTCW_NIL)
            doom(w, child);
    }
    if (mask & IN_IGNORED)
        wd_gone(w, wd);
}

/* --- settling ---------------------------------------------------------------------------------*/

static bool type_is_local(uint32_t type)
{
    for (size_t i = 0; i < sizeof(local_types) / sizeof(local_types[0]); i++) {
        if (type == local_types[i])
            return true;
    }
    return false;
}

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

static bool look_at_device(htc_watch *w, uint64_t dev, const char *path)
{
    struct statfs fs;

    if (statfs(path, &fs) != 0)
        return false;
    if (type_is_local((uint32_t)fs.f_type))
        return true;
    note_refused(w, dev, (uint32_t)fs.f_type, path);
    return false;
}

/* Numbers of devices are given anew, so what is known of one is not known for long. */
static bool device_is_local(htc_watch *w, uint64_t dev, const char *path)
{
    htcw_header *header = w->header;
    int64_t now = htc_mono_ms();
    htcw_device *device;

    for (int i = 0; i < HTCW_DEVICES; i++) {
        device = &header->devices[i];
        if (device->at && device->dev == dev && now - device->at < 5000)
            return device->local;
    }
    device = &header->devices[header->device_hand++ % HTCW_DEVICES];
    *device = (htcw_device){dev, now, look_at_device(w, dev, path)};
    return device->local;
}

static htc_watch_why add_watch(htc_watch *w, uint32_t i, const char *path, uint32_t mask)
{
    htcw_header *header = w->header;
    int64_t now = htc_mono_ms();
    int wd;

    if (header->full_at && now - header->full_at < HTC_WATCH_RETRY_MS)
        return HTC_WATCH_KERNEL;
    if (w->own_limit && w->nodes[i].wd < 0 && atomic_load(&header->watches) >= w->own_limit) {
        wd = -1;
        errno = ENOSPC;
    } else {
        wd = inotify_add_watch(w->fd, path, mask);
    }
    HTCW_CRASH_POINT("add_watch");
    if (wd >= 0) {
        set_wd(w, i, wd);
        return HTC_WATCH_OK;
    }
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
        return HTC_WATCH_AGAIN;
    case EACCES:
    case EPERM:
        return HTC_WATCH_DENIED;
    default:
        header->full_at = now;
        return HTC_WATCH_KERNEL;
    }
}

static htc_watch_why settle_from(htc_watch *w, char *path, unsigned links, uint32_t *node,
                                 bool *known);

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

static htc_watch_why settle_link(htc_watch *w, uint32_t i, const char *path, unsigned links)
{
    char text[HTCW_MAX_PATH], *target;
    ssize_t len = readlink(path, text, sizeof(text) - 1);
    htc_watch_why why = HTC_WATCH_PATH;
    uint32_t node;
    bool known = true;

    if (len < 0)
        return HTC_WATCH_AGAIN;
    text[len] = '\0';
    if (!len || links >= HTCW_MAX_LINKS)
        return HTC_WATCH_PATH;
    target = target_path(path, text);
    if (target && strlen(target) < HTCW_MAX_PATH)
        why = settle_from(w, target, links + 1, &node, &known);
    free(target);
    if (why != HTC_WATCH_OK)
        return why;
    set_target(w, i, node);
    w->nodes[i].absent = w->nodes[node].absent;
    if (w->nodes[node].wd >= 0)
        set_wd(w, i, w->nodes[node].wd);
    else
        drop_wd(w, i, false);
    return HTC_WATCH_OK;
}

static htc_watch_why settle_present(htc_watch *w, uint32_t i, const char *path, bool last,
                                    unsigned links, const struct stat *st)
{
    w->nodes[i].absent = 0;
    if (S_ISLNK(st->st_mode))
        return settle_link(w, i, path, links);
    set_target(w, i, HTCW_NIL);
    if (S_ISDIR(st->st_mode))
        return device_is_local(w, st->st_dev, path) ? add_watch(w, i, path, DIRECTORY_MASK)
                                                    : HTC_WATCH_FILESYSTEM;
    if (last && S_ISREG(st->st_mode))
        return device_is_local(w, st->st_dev, path) ? add_watch(w, i, path, FILE_MASK)
                                                    : HTC_WATCH_FILESYSTEM;
    drop_wd(w, i, false);
    return HTC_WATCH_OK;
}

/* The parent is settled. */
static htc_watch_why settle(htc_watch *w, uint32_t i, const char *path, bool last, unsigned links)
{
    uint64_t epoch = atomic_load(&w->header->epoch);
    htc_watch_why why = HTC_WATCH_OK;
    htcw_node *n = &w->nodes[i];
    int32_t wd = n->wd;
    uint32_t target = n->target;
    struct stat st;

    if (lstat(path, &st) == 0) {
        why = settle_present(w, i, path, last, links, &st);
    } else if (errno == ENOENT || errno == ENOTDIR) {
        drop_wd(w, i, false);
        set_target(w, i, HTCW_NIL);
        n->absent = 1;
    } else {
        why = HTC_WATCH_DENIED;
    }
    /* It leads elsewhere, and nothing was reported: a file system was mounted or unmounted. */
    if (n->epoch && (n->wd != wd || n->target != target))
        doom(w, i);
    n->why = (uint8_t)why;
    n->since = htc_mono_ms();
    HTCW_CRASH_POINT("settle");
    if (why != HTC_WATCH_AGAIN)
        n->epoch = epoch;
    return why;
}

/* A file that so far was on the way only (to something that cannot be below it) is not watched. */
static bool needs_own(const htcw_node *n, bool last)
{
    return last && !n->absent && n->wd < 0;
}

static htc_watch_why settle_node(htc_watch *w, uint32_t i, const char *path, bool last,
                                 unsigned links, bool *known)
{
    const htcw_node *n = &w->nodes[i];

    if (settled(w, n)) {
        if (n->why == HTC_WATCH_OK && !needs_own(n, last))
            return HTC_WATCH_OK;
        if (n->why != HTC_WATCH_OK && htc_mono_ms() - n->since < HTC_WATCH_RETRY_MS)
            return n->why;
    }
    *known = false;
    return settle(w, i, path, last, links);
}

/* One component of the path. */
static htc_watch_why settle_step(htc_watch *w, char *path, char *name, size_t len, unsigned links,
                                 uint32_t *node, bool *known)
{
    uint64_t hash = name_hash(w, name, len);
    uint32_t child = find_child(w, *node, hash);
    char *end = name + len, keep = *end;
    bool last = !end[strspn(end, "/")];
    htc_watch_why why;

    if (*name == '.' && (len == 1 || (len == 2 && name[1] == '.')))
        return HTC_WATCH_PATH;
    if (child == HTCW_NIL)
        child = add_node(w, *node, hash);
    if (child == HTCW_NIL)
        return HTC_WATCH_FULL;
    *end = '\0';
    why = settle_node(w, child, path, last, links, known);
    *end = keep;
    *node = child;
    return why;
}

/* The path is changed and restored meanwhile. */
static htc_watch_why settle_from(htc_watch *w, char *path, unsigned links, uint32_t *node,
                                 bool *known)
{
    char *at = path + strspn(path, "/");
    htc_watch_why why;

    *node = HTCW_ROOT;
    why = settle_node(w, HTCW_ROOT, "/", false, links, known);
    for (unsigned depth = 0; *at && why == HTC_WATCH_OK; depth++) {
        size_t len = strcspn(at, "/");

        if (depth == HTCW_MAX_DEPTH)
            return HTC_WATCH_PATH;
        why = settle_step(w, path, at, len, links, node, known);
        at += len;
        at += strspn(at, "/");
    }
    return why;
}

htc_watch_why htcw_settle_path(htc_watch *w, const char *path, uint32_t *node, bool *known)
{
    char copy[HTCW_MAX_PATH];
    size_t len = strlen(path);

    *known = true;
    if (*path != '/' || len >= sizeof(copy))
        return HTC_WATCH_PATH;
    memcpy(copy, path, len + 1);
    return settle_from(w, copy, 0, node, known);
}

/* --- the sweep --------------------------------------------------------------------------------*/

static bool needed(const htc_watch *w, const htcw_node *n, int64_t now)
{
    int64_t keep = n->why ? HTC_WATCH_RETRY_MS : HTC_WATCH_KEEP_MS;

    return n->children != HTCW_NIL || n->linkers != HTCW_NIL || now - n->since < keep ||
           (settled(w, n) && mark_of(w, n));
}

static void give_up_some(htc_watch *w, int64_t now)
{
    htcw_header *header = w->header;
    uint32_t n = header->fresh < HTCW_SWEEP_NODES ? header->fresh : HTCW_SWEEP_NODES;

    for (; n; n--) {
        uint32_t i = header->hand < header->fresh ? header->hand : 0;

        header->hand = i + 1;
        if (i != HTCW_ROOT && w->nodes[i].parent != HTCW_NIL && !needed(w, &w->nodes[i], now))
            free_node(w, i);
    }
}

/* Each trusted entry about every HTC_WATCH_NET_MS, unless they are too many. */
static void doubt_some(htc_watch *w)
{
    htcw_header *header = w->header;
    uint32_t due = header->fresh / (HTC_WATCH_NET_MS / 1000) + 1;
    uint32_t looks = due < HTC_WATCH_NET_RATE ? due : HTCW_SWEEP_NODES;
    int64_t fresh = htc_watch_fresh(w);

    if (due > HTC_WATCH_NET_RATE)
        due = HTC_WATCH_NET_RATE;
    if (looks > header->fresh)
        looks = header->fresh;
    for (; looks && due; looks--) {
        uint32_t i = header->net_hand < header->fresh ? header->net_hand : 0;
        _Atomic int64_t *mark;
        int64_t seen;

        header->net_hand = i + 1;
        if (w->nodes[i].parent == HTCW_NIL)
            continue;
        mark = mark_of(w, &w->nodes[i]);
        seen = mark ? atomic_load(mark) : 0;
        /* A word's mark has the word's number above the epoch. */
        if (seen >= HTC_MARK_WATCHED && !((uint64_t)(seen - fresh) << (64 - HTCW_EPOCH_BITS))) {
            atomic_compare_exchange_strong(mark, &seen, htc_watch_doubt(w));
            due--;
        }
    }
}

void htcw_sweep(htc_watch *w, int64_t now)
{
    give_up_some(w, now);
    doubt_some(w);
}
