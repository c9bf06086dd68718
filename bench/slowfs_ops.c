/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The operations of slowfs, with libfuse's low-level interface, where each request of the kernel
 * is one call: that makes the counts exact. Each operation is done on the source first, then
 * counted, then delayed, then answered; several are under way at once, each in a thread of its own.
 * When there are no more descriptors, and the source has no file handles or this is not root, names
 * that are new get ENFILE.
 */
#include "slowfs_fuse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_NAME ".slowfs"
#define CONTROL_INO  2

static slowfs *slowfs_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

static slowfs_node *node_of(fuse_req_t req, fuse_ino_t ino)
{
    /* The kernel gives back the number that it was given, which was a pointer. */
    return ino == FUSE_ROOT_ID ? &slowfs_of(req)->root : (slowfs_node *)(uintptr_t)ino;
}

/* A node's descriptor until release(); -1 with errno. */
static int acquire(fuse_req_t req, fuse_ino_t ino)
{
    return slowfs_node_open(slowfs_of(req), node_of(req, ino));
}

static void release(fuse_req_t req, fuse_ino_t ino, int fd)
{
    slowfs_node_close(node_of(req, ino), fd);
}

/* --- counting and waiting -----------------------------------------------------------------------
 */

static slowfs_profile profile_of(fuse_req_t req)
{
    slowfs *fs = slowfs_of(req);
    slowfs_profile now;

    pthread_mutex_lock(&fs->lock);
    now = fs->profile;
    pthread_mutex_unlock(&fs->lock);
    return now;
}

static void spend(fuse_req_t req, enum slowfs_op op, bool htaccess)
{
    uint32_t us = profile_of(req).delay_us[op][htaccess];
    struct timespec left = {us / 1000000, (long)(us % 1000000) * 1000};

    slowfs_count(&slowfs_of(req)->counters, op, htaccess);
    while (us && clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

static void spend_on(fuse_req_t req, enum slowfs_op op, fuse_ino_t ino)
{
    spend(req, op, node_of(req, ino)->htaccess);
}

/* Answers 0 or errno for an operation that changes something. */
static void reply_changed(fuse_req_t req, int result, bool htaccess)
{
    int error = result == -1 ? errno : 0;

    spend(req, SLOWFS_change, htaccess);
    fuse_reply_err(req, error);
}

/* Finds a name and describes it to the kernel, which then holds one more look-up. 0 or errno. */
static int find_entry(fuse_req_t req, int dir, const char *name, struct fuse_entry_param *e)
{
    slowfs_profile profile = profile_of(req);
    slowfs_node *n;
    int fd;

    memset(e, 0, sizeof(*e));
    e->entry_timeout = profile.entry_s;
    e->attr_timeout = profile.attr_s;
    fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1)
        return errno;
    if (fstatat(fd, "", &e->attr, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1) {
        int error = errno;

        close(fd);
        return error;
    }
    n = slowfs_node_with(slowfs_of(req), fd, &e->attr);
    if (!n)
        return errno;
    n->htaccess = slowfs_is_htaccess(name);
    e->ino = (uintptr_t)n;
    return 0;
}

/* --- the control file ----------------------------------------------------------------------------
 */

static void control_attr(struct stat *st)
{
    memset(st, 0, sizeof(*st));
    st->st_ino = CONTROL_INO;
    st->st_mode = S_IFREG | 0666;
    st->st_nlink = 1;
    st->st_uid = getuid();
    st->st_gid = getgid();
    st->st_size = 0; /* it is read with direct_io: to its end, whatever its size */
}

static void control_lookup(fuse_req_t req)
{
    struct fuse_entry_param e = {.ino = CONTROL_INO, .attr_timeout = 3600, .entry_timeout = 3600};

    control_attr(&e.attr);
    fuse_reply_entry(req, &e);
}

/* What the counters say at this moment is what the whole reading shows. */
static void control_open(fuse_req_t req, struct fuse_file_info *fi)
{
    char *text = malloc(SLOWFS_TEXT_SIZE);

    if (!text) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    if (fi->flags & O_TRUNC)
        slowfs_reset(&slowfs_of(req)->counters);
    slowfs_text(&slowfs_of(req)->counters, text, SLOWFS_TEXT_SIZE);
    fi->fh = (uintptr_t)text;
    fi->direct_io = 1;
    fuse_reply_open(req, fi);
}

static void control_read(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi)
{
    const char *text = (const char *)(uintptr_t)fi->fh;
    size_t len = strlen(text);
    size_t start = (size_t)offset < len ? (size_t)offset : len;

    fuse_reply_buf(req, text + start, size < len - start ? size : len - start);
}

/* Whatever is written sets the counters to 0; settings are taken as well. */
static void control_write(fuse_req_t req, const char *data, size_t size)
{
    slowfs *fs = slowfs_of(req);
    slowfs_profile profile = profile_of(req);
    char text[512];

    if (size >= sizeof(text)) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    if (slowfs_set(&profile, text)) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    pthread_mutex_lock(&fs->lock);
    fs->profile = profile;
    pthread_mutex_unlock(&fs->lock);
    slowfs_reset(&fs->counters);
    fuse_reply_write(req, size);
}

/* --- look-ups and attributes
 * ---------------------------------------------------------------------- */

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    double negative = profile_of(req).negative_s;
    struct fuse_entry_param e;
    int dir, error;

    if (parent == FUSE_ROOT_ID && !strcmp(name, CONTROL_NAME)) {
        control_lookup(req);
        return;
    }
    dir = acquire(req, parent);
    error = dir == -1 ? errno : find_entry(req, dir, name, &e);
    release(req, parent, dir);
    spend(req, error ? SLOWFS_lookup_miss : SLOWFS_lookup_hit, slowfs_is_htaccess(name));
    if (error == ENOENT && negative > 0) {
        e.ino = 0;
        e.entry_timeout = negative;
        fuse_reply_entry(req, &e);
    } else if (error) {
        fuse_reply_err(req, error);
    } else {
        fuse_reply_entry(req, &e);
    }
}

static void forget_one(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    if (ino != FUSE_ROOT_ID && ino != CONTROL_INO)
        slowfs_node_forget(slowfs_of(req), node_of(req, ino), lookups);
}

static void do_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    forget_one(req, ino, lookups);
    fuse_reply_none(req);
}

static void do_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    for (size_t i = 0; i < count; i++)
        forget_one(req, forgets[i].ino, forgets[i].nlookup);
    fuse_reply_none(req);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;
    int fd, error = 0;

    (void)fi;
    if (ino == CONTROL_INO) {
        control_attr(&st);
        fuse_reply_attr(req, &st, 3600);
        return;
    }
    fd = acquire(req, ino);
    if (fd == -1 || fstatat(fd, "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1)
        error = errno;
    release(req, ino, fd);
    spend_on(req, SLOWFS_getattr, ino);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_attr(req, &st, profile_of(req).attr_s);
}

static int set_times(const char *path, const struct stat *attr, int valid)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};

    if (valid & FUSE_SET_ATTR_ATIME_NOW)
        times[0].tv_nsec = UTIME_NOW;
    else if (valid & FUSE_SET_ATTR_ATIME)
        times[0] = attr->st_atim;
    if (valid & FUSE_SET_ATTR_MTIME_NOW)
        times[1].tv_nsec = UTIME_NOW;
    else if (valid & FUSE_SET_ATTR_MTIME)
        times[1] = attr->st_mtim;
    return utimensat(AT_FDCWD, path, times, 0);
}

static int set_attributes(int fd, const struct stat *attr, int valid)
{
    char path[SLOWFS_PROC_PATH_SIZE];
    uid_t uid = valid & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
    gid_t gid = valid & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

    slowfs_proc_path(path, fd);
    if ((valid & FUSE_SET_ATTR_MODE) && chmod(path, attr->st_mode) == -1)
        return -1;
    if ((valid & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) &&
        fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1)
        return -1;
    if ((valid & FUSE_SET_ATTR_SIZE) && truncate(path, attr->st_size) == -1)
        return -1;
    if (valid & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME))
        return set_times(path, attr, valid);
    return 0;
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int valid,
                       struct fuse_file_info *fi)
{
    struct stat st;
    int fd, error = 0;

    (void)fi;
    if (ino == CONTROL_INO) {
        if (valid & FUSE_SET_ATTR_SIZE)
            slowfs_reset(&slowfs_of(req)->counters);
        control_attr(&st);
        fuse_reply_attr(req, &st, 3600);
        return;
    }
    fd = acquire(req, ino);
    if (fd == -1 || set_attributes(fd, attr, valid) == -1 ||
        fstatat(fd, "", &st, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) == -1)
        error = errno;
    release(req, ino, fd);
    spend_on(req, SLOWFS_change, ino);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_attr(req, &st, profile_of(req).attr_s);
}

static void do_readlink(fuse_req_t req, fuse_ino_t ino)
{
    char target[PATH_MAX + 1];
    int fd = acquire(req, ino);
    ssize_t len = fd == -1 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);
    int error = len == -1 ? errno : 0;

    release(req, ino, fd);
    spend_on(req, SLOWFS_other, ino);
    if (error) {
        fuse_reply_err(req, error);
        return;
    }
    target[len] = '\0';
    fuse_reply_readlink(req, target);
}

static void do_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct statvfs st = {0};
    int fd, error;

    if (ino == CONTROL_INO) {
        fuse_reply_statfs(req, &st);
        return;
    }
    fd = acquire(req, ino);
    error = fd == -1 || fstatvfs(fd, &st) == -1 ? errno : 0;
    release(req, ino, fd);
    spend_on(req, SLOWFS_other, ino);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_statfs(req, &st);
}

/* --- files --------------------------------------------------------------------------------------
 */

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    char path[SLOWFS_PROC_PATH_SIZE];
    int node, fd = -1, error;

    if (ino == CONTROL_INO) {
        control_open(req, fi);
        return;
    }
    node = acquire(req, ino);
    if (node != -1)
        fd = open(slowfs_proc_path(path, node), (fi->flags & ~O_NOFOLLOW) | O_CLOEXEC);
    error = fd == -1 ? errno : 0;
    release(req, ino, node);
    spend_on(req, SLOWFS_open, ino);
    if (error) {
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uint64_t)fd;
    fi->keep_cache = profile_of(req).keep_cache;
    if (fuse_reply_open(req, fi) == -ENOENT) /* the caller was interrupted */
        close(fd);
}

static void do_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
                      struct fuse_file_info *fi)
{
    const struct fuse_ctx *who = fuse_req_ctx(req);
    int dir = acquire(req, parent);
    struct fuse_entry_param e;
    int fd = -1, error = 0;

    if (dir != -1)
        fd = openat(dir, name, (fi->flags | O_CREAT | O_CLOEXEC) & ~O_NOFOLLOW, mode);
    if (fd == -1 || (slowfs_of(req)->give_away && fchown(fd, who->uid, who->gid) == -1))
        error = errno;
    if (!error)
        error = find_entry(req, dir, name, &e);
    release(req, parent, dir);
    spend(req, SLOWFS_change, slowfs_is_htaccess(name));
    if (error) {
        if (fd != -1)
            close(fd);
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uint64_t)fd;
    fuse_reply_create(req, &e, fi);
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                    struct fuse_file_info *fi)
{
    struct fuse_bufvec buf = FUSE_BUFVEC_INIT(size);

    if (ino == CONTROL_INO) {
        control_read(req, size, offset, fi);
        return;
    }
    spend_on(req, SLOWFS_read, ino);
    buf.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
    buf.buf[0].fd = (int)fi->fh;
    buf.buf[0].pos = offset;
    fuse_reply_data(req, &buf, FUSE_BUF_SPLICE_MOVE);
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
                     struct fuse_file_info *fi)
{
    ssize_t written;
    int error;

    if (ino == CONTROL_INO) {
        control_write(req, data, size);
        return;
    }
    written = pwrite((int)fi->fh, data, size, offset);
    error = written == -1 ? errno : 0;
    spend_on(req, SLOWFS_change, ino);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_write(req, (size_t)written);
}

static void do_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (ino == CONTROL_INO)
        free((char *)(uintptr_t)fi->fh);
    else
        close((int)fi->fh);
    fuse_reply_err(req, 0);
}

static void do_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi)
{
    int result, error;

    if (ino == CONTROL_INO) {
        fuse_reply_err(req, 0);
        return;
    }
    result = data_only ? fdatasync((int)fi->fh) : fsync((int)fi->fh);
    error = result == -1 ? errno : 0;
    spend_on(req, SLOWFS_other, ino);
    fuse_reply_err(req, error);
}

/* --- directories --------------------------------------------------------------------------------
 */

static void do_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int node = acquire(req, ino);
    int fd = node == -1 ? -1 : openat(node, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd == -1 ? NULL : fdopendir(fd);
    int error = dir ? 0 : errno;

    release(req, ino, node);
    if (error) {
        if (fd != -1)
            close(fd);
        fuse_reply_err(req, error);
        return;
    }
    fi->fh = (uintptr_t)dir;
    fuse_reply_open(req, fi);
}

/* As many entries as fit; the offset of each is where the next one begins. */
static size_t fill(fuse_req_t req, DIR *dir, char *buffer, size_t size)
{
    size_t used = 0;

    while (true) {
        struct dirent *entry = readdir(dir);
        struct stat st = {0};
        size_t need;

        if (!entry)
            return used;
        st.st_ino = entry->d_ino;
        st.st_mode = (mode_t)entry->d_type << 12;
        need = fuse_add_direntry(req, buffer + used, size - used, entry->d_name, &st, entry->d_off);
        if (need > size - used)
            return used;
        used += need;
    }
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                       struct fuse_file_info *fi)
{
    DIR *dir = (DIR *)(uintptr_t)fi->fh;
    char *buffer = malloc(size);
    size_t used = 0;

    if (buffer) {
        seekdir(dir, offset);
        used = fill(req, dir, buffer, size);
    }
    spend_on(req, SLOWFS_readdir, ino);
    if (buffer)
        fuse_reply_buf(req, buffer, used);
    else
        fuse_reply_err(req, ENOMEM);
    free(buffer);
}

static void do_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void)ino;
    closedir((DIR *)(uintptr_t)fi->fh);
    fuse_reply_err(req, 0);
}

/* --- making, renaming, removing ------------------------------------------------------------------
 */

/* Answers with the entry that `result` says was made in `dir`, and releases that. */
static void reply_made(fuse_req_t req, fuse_ino_t parent, int dir, const char *name, int result)
{
    const struct fuse_ctx *who = fuse_req_ctx(req);
    struct fuse_entry_param e;
    int error = result == -1 ? errno : 0;

    if (!error && slowfs_of(req)->give_away &&
        fchownat(dir, name, who->uid, who->gid, AT_SYMLINK_NOFOLLOW) == -1)
        error = errno;
    if (!error)
        error = find_entry(req, dir, name, &e);
    release(req, parent, dir);
    spend(req, SLOWFS_change, slowfs_is_htaccess(name));
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_entry(req, &e);
}

static void do_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    int dir = acquire(req, parent);

    reply_made(req, parent, dir, name, mkdirat(dir, name, mode));
}

static void do_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t dev)
{
    int dir = acquire(req, parent);

    reply_made(req, parent, dir, name, mknodat(dir, name, mode, dev));
}

static void do_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    int dir = acquire(req, parent);

    reply_made(req, parent, dir, name, symlinkat(target, dir, name));
}

static void do_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    int fd = acquire(req, ino), dir = acquire(req, parent);
    struct fuse_entry_param e;
    char path[SLOWFS_PROC_PATH_SIZE];
    int error = 0;

    if (linkat(AT_FDCWD, slowfs_proc_path(path, fd), dir, name, AT_SYMLINK_FOLLOW) == -1)
        error = errno;
    if (!error)
        error = find_entry(req, dir, name, &e);
    release(req, parent, dir);
    release(req, ino, fd);
    spend(req, SLOWFS_change, slowfs_is_htaccess(name));
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_entry(req, &e);
}

static void remove_name(fuse_req_t req, fuse_ino_t parent, const char *name, int flags)
{
    int dir = acquire(req, parent), result = unlinkat(dir, name, flags);

    release(req, parent, dir);
    reply_changed(req, result, slowfs_is_htaccess(name));
}

static void do_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, 0);
}

static void do_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    remove_name(req, parent, name, AT_REMOVEDIR);
}

/* The kernel moves its entry without asking; the file's name for the counters moves with it. */
static void do_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                      const char *new_name, unsigned flags)
{
    int from = acquire(req, parent), to = acquire(req, new_parent);
    int result = renameat2(from, name, to, new_name, flags);
    int error = errno;
    struct stat st;

    if (result == 0 && fstatat(to, new_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        slowfs_node_renamed(slowfs_of(req), &st, slowfs_is_htaccess(new_name));
    release(req, new_parent, to);
    release(req, parent, from);
    errno = error;
    reply_changed(req, result, slowfs_is_htaccess(new_name));
}

const struct fuse_lowlevel_ops slowfs_operations = {
    .lookup = do_lookup,
    .forget = do_forget,
    .forget_multi = do_forget_multi,
    .getattr = do_getattr,
    .setattr = do_setattr,
    .readlink = do_readlink,
    .mknod = do_mknod,
    .mkdir = do_mkdir,
    .symlink = do_symlink,
    .link = do_link,
    .unlink = do_unlink,
    .rmdir = do_rmdir,
    .rename = do_rename,
    .open = do_open,
    .create = do_create,
    .read = do_read,
    .write = do_write,
    .release = do_release,
    .fsync = do_fsync,
    .opendir = do_opendir,
    .readdir = do_readdir,
    .releasedir = do_releasedir,
    .statfs = do_statfs,
};
