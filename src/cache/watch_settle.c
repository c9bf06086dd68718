/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Having a path watched: what of it is not known to be valid is looked at. Called by cache/watch.c,
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
#include "cache/watch_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#define DIRECTORY_MASK (HTCW_DIRECTORY_EVENTS | IN_ONLYDIR | IN_DONT_FOLLOW)
#define FILE_MASK      (HTCW_FILE_EVENTS | IN_DONT_FOLLOW)

/* Facts about a file system by its type, a number of linux/magic.h. */
enum {
    UNSEEN = 0, /* the kernel does not see all changes, or nothing is known of it: network and
                 * cluster file systems, FUSE */
    SEEN,       /* it keeps its files on this machine, and all changes are reported */
    SEEN_PROBE, /* the same, unless it was made to take upper and lower case for the same */
    FOLDED,     /* it does so always: what is changed by another name is reported by that */
    OVERLAY     /* all changes made through the mounted file system, by kernels that know how, but
                 * of a file with several names: such an inode is forgotten with its last user */
};

static const struct {
    uint32_t type;
    uint8_t kind;
} types[] = {
    {0xEF53, SEEN},           /* ext2, ext3, ext4 */
    {0x58465342, SEEN_PROBE}, /* xfs */
    {0x9123683E, SEEN},       /* btrfs */
    {0x01021994, SEEN},       /* tmpfs */
    {0x858458F6, SEEN},       /* ramfs */
    {0xF2F52010, SEEN},       /* f2fs */
    {0x2FC12FC1, SEEN_PROBE}, /* zfs */
    {0xCA451A4E, SEEN},       /* bcachefs */
    {0x52654973, SEEN},       /* reiserfs */
    {0x3153464A, SEEN_PROBE}, /* jfs */
    {0x73717368, SEEN},       /* squashfs */
    {0xE0F5E1E2, SEEN},       /* erofs */
    {0x9660, SEEN},           /* iso9660 */
    {0x4D44, FOLDED},         /* vfat */
    {0x2011BAB0, FOLDED},     /* exfat */
    {0x7366746E, FOLDED},     /* ntfs3 */
    {0x5346544E, FOLDED},     /* ntfs */
    {0x482B, FOLDED},         /* hfsplus */
    {0x4244, FOLDED},         /* hfs */
    {0x794C7630, OVERLAY},
};

/* linux/fs.h and sys/mount.h do not go together. */
#define GET_FLAGS  _IOR('f', 1, long)
#define FOLDS_FLAG 0x40000000 /* FS_CASEFOLD_FL, from Linux 5.4 on */

/* XFS's description of itself, as in its xfs_fs.h (XFS_IOC_FSGEOMETRY_V1). */
typedef struct xfs_geometry {
    uint64_t sizes[11];
    uint32_t version, flags, more[3];
} xfs_geometry;

#define GET_GEOMETRY _IOR('X', 100, xfs_geometry)
#define XFS_FOLDS    (UINT32_C(1) << 12) /* XFS_FSOP_GEOM_FLAGS_DIRV2CI */

/* Looks for one path, and all that its links lead to; a node that changes all the time ends it. */
#define MAX_LOOKS (2 * HTCW_MAX_DEPTH)
/* Names of a directory that are looked at to find one with letters. */
#define MAX_NAMES 64

/* One node to be looked at, and what was seen. */
typedef struct look {
    uint32_t node;
    uint64_t number;     /* of the node, as of (1) */
    uint64_t epoch;      /* of the tree, before any node of the path was relied on */
    uint32_t ngone;      /* watches that were gone */
    htcw_adding *adding; /* or NULL */
    char *path;
    bool last, blind; /* it lies in a directory that is HTCW_BLIND */
    htcw_device devices[HTCW_DEVICES];

    htc_watch_why why;
    uint8_t flags; /* as of a node */
    uint32_t uid;
    bool asked_device;
    bool asks_names;    /* the path does not tell whether upper and lower case are the same there */
    int wd;             /* -1: none */
    htcw_device device; /* where it lies */
    uint32_t type;      /* of the device's file system, if that was asked */
    char *target;       /* of a symbolic link, or NULL */
} look;

/* --- (1) what is to be looked at --------------------------------------------------------------*/

/* A file that so far was on the way only (to something that cannot be below it) is not watched. */
static bool needs_own(const htcw_node *n, bool last)
{
    return last && !(n->flags & (HTCW_ABSENT | HTCW_OTHER | HTCW_BLIND)) && n->wd < 0;
}

static void note_adding(htc_watch *w, look *l)
{
    for (int i = 0; i < HTCW_ADDING; i++) {
        htcw_adding *adding = &w->header->adding[i];

        if (!adding->pid) {
            adding->after = w->header->last_wd;
            atomic_store(&adding->pid, sys_getpid());
            l->adding = adding;
            return;
        }
    }
}

static void plan_look(htc_watch *w, uint32_t i, bool last, look *l)
{
    htcw_header *header = w->header;
    const htcw_node *n = htcw_at(w, i);

    l->node = i;
    l->number = n->epoch;
    l->ngone = header->ngone;
    l->last = last;
    w->looks++;
    l->blind = i != HTCW_ROOT && (htcw_at(w, n->parent)->flags & HTCW_BLIND);
    memcpy(l->devices, header->devices, sizeof(l->devices));
    note_adding(w, l);
}

/* True when the node may be relied on as it is. Else either *why says why it cannot be watched, or
 * it is to be looked at, and *why is HTC_WATCH_OK. */
static bool rely_on(htc_watch *w, uint32_t i, bool last, look *l, htc_watch_why *why)
{
    const htcw_node *n = htcw_at(w, i);
    uint8_t told = *(const volatile uint8_t *)&n->why; /* once, as htcw_at() does */

    *why = HTC_WATCH_OK;
    if (htcw_settled(w, n)) {
        if (told == HTC_WATCH_OK && !needs_own(n, last))
            return true;
        if (told != HTC_WATCH_OK && told < HTC_WATCH_WHYS &&
            htcw_age(htc_mono_ms(), n->since) < HTC_WATCH_RETRY_MS) {
            *why = (htc_watch_why)told;
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
 * and *node is the last one, or the reason why it cannot be is returned. The epoch may change
 * meanwhile, as htc_watch_distrust() takes no lock. Then the look is in vain. */
static htc_watch_why find_look(htc_watch *w, const char *path, look *l, size_t *len, uint32_t *node)
{
    size_t at = strspn(path, "/"), end = 1;
    htc_watch_why why;

    l->epoch = htcw_epoch(w);
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
        HTC_LOAD_POINT("relied on");
    }
    *len = why == HTC_WATCH_OK ? end : 0;
    return why;
}

/* --- (2) looking, without the lock ------------------------------------------------------------*/

static uint8_t kind_of(const htc_watch *w, uint32_t type)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (type == types[i].type)
            return types[i].kind == OVERLAY && !w->overlays ? UNSEEN : types[i].kind;
    }
    return UNSEEN;
}

static bool type_reports(const htc_watch *w, uint32_t type)
{
    return kind_of(w, type) != UNSEEN;
}

bool htc_watch_reports(const htc_watch *watch, const char *path, uint32_t *type)
{
    struct statfs fs;

    if (sys_statfs(path, &fs) != 0)
        return true;
    *type = (uint32_t)fs.f_type;
    return type_reports(watch, *type);
}

static htc_watch_why why_of(uint8_t kind)
{
    return kind == UNSEEN ? HTC_WATCH_FILESYSTEM : kind == FOLDED ? HTC_WATCH_SILENT : HTC_WATCH_OK;
}

/* Device and file system are asked of one descriptor: who may change the path must not have a
 * device taken for that of another file system, which all would rely on. */
static htc_watch_why ask_device(const htc_watch *w, look *l, int fd, const struct stat *seen)
{
    struct statfs fs;
    struct stat st;

    if (sys_fstat(fd, &st) != 0 || sys_fstatfs(fd, &fs) != 0)
        return HTC_WATCH_FILESYSTEM;
    l->type = (uint32_t)fs.f_type;
    l->device = (htcw_device){st.st_dev, htc_mono_ms(), kind_of(w, l->type)};
    l->asked_device = true;
    if (st.st_dev != seen->st_dev || st.st_ino != seen->st_ino)
        return HTC_WATCH_AGAIN;
    return why_of(l->device.kind);
}

/* Find out which file system it lies on. Device numbers are used again, so what is known by one
 * does not hold for long. */
static htc_watch_why find_device(const htc_watch *w, look *l, const struct stat *seen)
{
    int64_t now = htc_mono_ms();
    htc_watch_why why;
    int fd;

    for (int i = 0; i < HTCW_DEVICES; i++) {
        const htcw_device *known = &l->devices[i];

        if (known->at && known->dev == seen->st_dev && htcw_age(now, known->at) < 5000) {
            l->device = *known;
            return why_of(known->kind);
        }
    }
    fd = sys_open(l->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    /* Gone meanwhile, or there are no descriptors. */
    if (fd < 0)
        return errno == EACCES ? HTC_WATCH_DENIED : HTC_WATCH_AGAIN;
    why = ask_device(w, l, fd, seen);
    sys_close(fd);
    return why;
}

static htc_watch_why add_watch(htc_watch *w, look *l, uint32_t mask)
{
    l->wd = sys_inotify_add_watch(w->fd, l->path, mask);
    HTC_POINT("add_watch");
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
        return HTC_WATCH_KERNEL;
    }
}

/* Whether a file system ignores the case of letters. */
typedef enum letters { LETTERS_UNKNOWN = 0, LETTERS_APART, LETTERS_FOLDED } letters;

/* True when there were any. */
static bool swap_case(char *text)
{
    bool any = false;

    for (; *text; text++) {
        if ((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')) {
            *text ^= 0x20;
            any = true;
        }
    }
    return any;
}

/* By the last name of the path that has letters and stands in a directory of the same file system:
 * the name of a mount point says nothing of what is mounted. */
static letters letters_of(const char *path, uint64_t dev)
{
    char at[HTCW_MAX_PATH], other[HTCW_MAX_PATH];
    struct stat st, swapped, above;
    size_t len = strlen(path);

    if (len >= sizeof(at))
        return LETTERS_UNKNOWN;
    memcpy(at, path, len + 1);
    for (char *slash = strrchr(at, '/'); slash; slash = strrchr(at, '/')) {
        bool exists = sys_lstat(at, &st) == 0;

        memcpy(other, at, strlen(at) + 1);
        if (swap_case(other + (slash - at)) && exists) {
            slash[slash == at] = '\0';
            if (sys_stat(at, &above) == 0 && above.st_dev == dev)
                return sys_lstat(other, &swapped) == 0 && swapped.st_ino == st.st_ino &&
                               swapped.st_dev == st.st_dev
                           ? LETTERS_FOLDED
                           : LETTERS_APART;
        }
        *slash = '\0';
    }
    return LETTERS_UNKNOWN;
}

static letters letters_of_names(const look *l, int fd)
{
    int own = sys_openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own < 0 ? NULL : sys_fdopendir(own);
    const struct dirent *entry = dir ? sys_readdir(dir) : NULL;
    letters found = LETTERS_UNKNOWN;
    char path[HTCW_MAX_PATH];

    for (int n = 0; entry && !found && n < MAX_NAMES; n++, entry = sys_readdir(dir)) {
        if ((size_t)snprintf(path, sizeof(path), "%s/%s", l->path, entry->d_name) < sizeof(path))
            found = letters_of(path, l->device.dev);
    }
    if (dir)
        sys_closedir(dir);
    else if (own >= 0)
        sys_close(own);
    return found;
}

/* Used where the path does not show it, as at a mount point. XFS is asked; on others a name in
 * the directory shows it. */
static letters letters_in(const look *l, int fd)
{
    xfs_geometry geometry = {.flags = 0};

    if (sys_ioctl(fd, GET_GEOMETRY, &geometry) == 0)
        return geometry.flags & XFS_FOLDS ? LETTERS_FOLDED : LETTERS_APART;
    return letters_of_names(l, fd);
}

static bool is_empty(int fd)
{
    DIR *dir = sys_fdopendir(fd);
    const struct dirent *entry = NULL;

    do
        entry = dir ? sys_readdir(dir) : NULL;
    while (entry && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
    if (dir)
        sys_closedir(dir);
    else
        sys_close(fd);
    return !entry;
}

/* Find out what matters of a directory that has its watch: whether it ignores the case of
 * letters; and, where only its own watch reports about it, that it is not empty (see
 * event_at()). */
static htc_watch_why ask_directory(const look *l)
{
    int fd = sys_open(l->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    long flags = 0;
    bool folds;

    if (fd < 0)
        return errno == EACCES ? HTC_WATCH_DENIED : HTC_WATCH_AGAIN;
    folds = sys_ioctl(fd, GET_FLAGS, &flags) == 0 && (flags & FOLDS_FLAG);
    if (l->asks_names && letters_in(l, fd) != LETTERS_APART)
        folds = true;
    if (l->blind && is_empty(fd))
        return HTC_WATCH_DENIED;
    if (!l->blind)
        sys_close(fd);
    return folds ? HTC_WATCH_SILENT : HTC_WATCH_OK;
}

/* A path without "." and ".." that means the same as the link's text does at @a at, or NULL. A ".."
 * behind a name of the text cannot be resolved without following that name: none of these. */
static char *target_path(const char *at, const char *text)
{
    char *parent = sys_strdup(at), *base = NULL, *path = NULL;
    char *slash = parent ? strrchr(parent, '/') : NULL;

    if (*text == '/') {
        base = sys_strdup("");
        text += strspn(text, "/");
    } else if (slash) {
        slash[slash == parent] = '\0';
        base = sys_realpath(parent, NULL);
    }
    sys_free(parent);
    while (base && *text == '.') {
        size_t dots = strspn(text, ".");

        if (dots > 2 || (text[dots] != '/' && text[dots]))
            break;
        slash = dots == 2 ? strrchr(base, '/') : NULL;
        if (slash)
            slash[slash == base] = '\0';
        text += dots;
        text += strspn(text, "/");
    }
    if (base && sys_asprintf(&path, "%s/%s", strcmp(base, "/") ? base : "", text) < 0)
        path = NULL;
    sys_free(base);
    return path;
}

static htc_watch_why read_link(look *l, unsigned links)
{
    char text[HTCW_MAX_PATH];
    ssize_t len = sys_readlink(l->path, text, sizeof(text) - 1);

    if (len < 0)
        return HTC_WATCH_AGAIN;
    text[len] = '\0';
    if (!len || links >= HTCW_MAX_LINKS)
        return HTC_WATCH_PATH;
    l->target = target_path(l->path, text);
    return l->target && strlen(l->target) < HTCW_MAX_PATH ? HTC_WATCH_OK : HTC_WATCH_PATH;
}

/* In a directory that cannot be read, a directory that can be read has its own watch. One that
 * cannot be read is passed if its parent's watch reports about it. */
static htc_watch_why look_at_directory(htc_watch *w, look *l)
{
    htc_watch_why why = add_watch(w, l, DIRECTORY_MASK);

    if (why == HTC_WATCH_DENIED && !l->blind) {
        l->flags = HTCW_BLIND;
        return HTC_WATCH_OK;
    }
    return why == HTC_WATCH_OK ? ask_directory(l) : why;
}

static htc_watch_why look_at_present(htc_watch *w, look *l, const struct stat *st)
{
    htc_watch_why why = find_device(w, l, st);

    if (why != HTC_WATCH_OK)
        return why;
    if (l->device.kind == SEEN_PROBE) {
        letters known = letters_of(l->path, st->st_dev);

        if (known == LETTERS_FOLDED)
            return HTC_WATCH_SILENT;
        l->asks_names = known == LETTERS_UNKNOWN;
    }
    if (l->blind)
        l->flags = HTCW_ALONE;
    if (S_ISDIR(st->st_mode))
        return look_at_directory(w, l);
    if (l->device.kind == OVERLAY && st->st_nlink > 1)
        return HTC_WATCH_SILENT;
    return add_watch(w, l, FILE_MASK);
}

static htc_watch_why look_at(htc_watch *w, look *l, unsigned links)
{
    /* A path without a watch of its own can be relied on only where its directory has one. */
    htc_watch_why without = l->blind ? HTC_WATCH_DENIED : HTC_WATCH_OK;
    struct stat st;

    if (sys_lstat(l->path, &st) != 0) {
        l->flags = HTCW_ABSENT;
        return errno == ENOENT || errno == ENOTDIR ? without : HTC_WATCH_DENIED;
    }
    l->uid = st.st_uid;
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && l->last))
        return look_at_present(w, l, &st);
    if (S_ISLNK(st.st_mode) && !l->blind)
        return read_link(l, links);
    if (!S_ISREG(st.st_mode))
        l->flags = HTCW_OTHER;
    return without;
}

/* --- (3) what was seen ------------------------------------------------------------------------*/

/* Paths are settled from the top, so the first one met is where it is mounted. */
static void note_refused(htc_watch *w, uint64_t dev, uint32_t type, const char *path)
{
    for (int i = 0; i < HTCW_DEVICES; i++) {
        htcw_refused *one = &w->header->refused[i];

        if (atomic_load(&one->logged) != HTCW_EMPTY && one->dev == dev)
            return;
        if (atomic_load(&one->logged) == HTCW_EMPTY) {
            one->dev = dev;
            one->what.type = type;
            snprintf(one->what.at, sizeof(one->what.at), "%s", path);
            atomic_store(&one->logged, HTCW_UNLOGGED);
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

/* True when nothing was reported about the node since (1). */
static bool still(htc_watch *w, const look *l)
{
    return htcw_epoch(w) == l->epoch && htcw_at(w, l->node)->epoch == l->number &&
           !gone_since(w, l);
}

static void note_device(htc_watch *w, const look *l)
{
    htcw_header *header = w->header;

    if (!l->asked_device)
        return;
    header->devices[header->device_hand++ % HTCW_DEVICES] = l->device;
    if (l->device.kind == UNSEEN)
        note_refused(w, l->device.dev, l->type, l->path);
}

/* Tests: as if the kernel had refused it. */
static bool over_own_limit(htc_watch *w, const look *l)
{
    return w->own_limit && l->wd >= 0 && htcw_first_with_wd(w, l->wd) == HTCW_NIL &&
           atomic_load(&w->header->watches) >= w->own_limit;
}

/* Where only the node's own watch reports about it, events of that watch since then must have
 * been reported to this node, not to others with the same watch. */
static bool reported_to_others(htc_watch *w, const look *l)
{
    return (l->flags & HTCW_ALONE) && htcw_at(w, l->node)->wd != l->wd &&
           htcw_first_with_wd(w, l->wd) != HTCW_NIL;
}

/* Where the node leads to. @a target: what its link leads to, valid; or HTCW_NIL. */
static htc_watch_why lead_to(htc_watch *w, const look *l, uint32_t target)
{
    int32_t found = l->wd;
    uint8_t flags = l->flags;

    if (l->why != HTC_WATCH_OK)
        return l->why;
    if (target != HTCW_NIL) {
        const htcw_node *led_to = htcw_at(w, target);

        found = led_to->wd;
        flags = led_to->flags & (HTCW_ABSENT | HTCW_OTHER | HTCW_BLIND);
    }
    if (over_own_limit(w, l))
        return HTC_WATCH_KERNEL;
    if (reported_to_others(w, l))
        return HTC_WATCH_DENIED;
    flags |= htcw_at(w, l->node)->flags & (HTCW_DOOMING | HTCW_WHOLE);
    htcw_at(w, l->node)->flags = flags;
    if (found < 0)
        htcw_drop_wd(w, l->node, false);
    if (!htcw_set_target(w, l->node, target) || (found >= 0 && !htcw_set_wd(w, l->node, found)))
        return HTC_WATCH_PATH;
    return HTC_WATCH_OK;
}

/* The node is as it was seen. */
static void settle_node(htc_watch *w, look *l, uint32_t target)
{
    htcw_node *n = htcw_at(w, l->node);
    int32_t wd = n->wd;
    uint32_t led_to = n->target;

    l->why = lead_to(w, l, target);
    if (!(l->flags & HTCW_ABSENT) && l->node != HTCW_ROOT)
        htcw_set_owner(w, l->node, l->uid);
    /* It leads elsewhere, and nothing was reported: a file system was mounted or unmounted. */
    if (!(n->epoch & HTCW_INVALID) && (n->wd != wd || n->target != led_to))
        htcw_doom(w, l->node);
    n->why = (uint8_t)l->why;
    n->since = htc_mono_ms();
    HTC_POINT("settle");
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
        sys_inotify_rm_watch(w->fd, l->wd);
    end_adding(l);
    return same;
}

/* Nobody else can tell whether the watch is needed; if it is, its end is reported. */
static htc_watch_why give_up_look(htc_watch *w, look *l)
{
    if (l->wd >= 0)
        sys_inotify_rm_watch(w->fd, l->wd);
    end_adding(l);
    return HTC_WATCH_AGAIN;
}

/* A path on the way to the one that is wanted, after this number of links; *looks are left for
 * all. */
typedef struct way {
    const char *path;
    unsigned links, *looks;
} way;

static htc_watch_why settle(htc_watch *w, way along, bool *known, htcw_finish *finish, void *data);

/* The link's target is valid: so is the link, if it still leads there. */
static htc_watch_why settle_link(htc_watch *w, uint32_t target, void *data)
{
    look *l = data;

    return keep_seen(w, l, target) ? l->why : HTC_WATCH_AGAIN;
}

/* One look. HTC_WATCH_OK: go on. */
static htc_watch_why settle_one(htc_watch *w, look *l, way along)
{
    bool known;

    l->why = look_at(w, l, along.links);
    if (l->why == HTC_WATCH_OK && l->target) {
        way behind = {l->target, along.links + 1, along.looks};

        l->why = settle(w, behind, &known, settle_link, l);
        if (l->why == HTC_WATCH_OK)
            return l->why;
    }
    if (!htcw_lock(w, true))
        return give_up_look(w, l);
    keep_seen(w, l, HTCW_NIL);
    htcw_unlock(w);
    return l->why;
}

static htc_watch_why settle(htc_watch *w, way along, bool *known, htcw_finish *finish, void *data)
{
    htc_watch_why why = HTC_WATCH_OK;

    *known = true;
    while (why == HTC_WATCH_OK && *along.looks) {
        look l = {.wd = -1};
        uint32_t node;
        size_t len;

        if (!htcw_lock(w, true))
            return HTC_WATCH_AGAIN;
        why = find_look(w, along.path, &l, &len, &node);
        if (why == HTC_WATCH_OK && !len)
            why = finish(w, node, data);
        htcw_unlock(w);
        if (!len)
            return why;
        *known = false;
        --*along.looks;
        l.path = sys_strndup(along.path, len);
        why = l.path ? settle_one(w, &l, along) : give_up_look(w, &l);
        sys_free(l.path);
        sys_free(l.target);
    }
    return why == HTC_WATCH_OK ? HTC_WATCH_AGAIN : why;
}

htc_watch_why htcw_settle(htc_watch *w, const char *path, bool *known, htcw_finish *finish,
                          void *data)
{
    unsigned looks = MAX_LOOKS;

    *known = true;
    if (*path != '/' || strlen(path) >= HTCW_MAX_PATH)
        return HTC_WATCH_PATH;
    return settle(w, (way){path, 0, &looks}, known, finish, data);
}
