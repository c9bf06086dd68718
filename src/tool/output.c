/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The file that --output names. It is there as a whole, or as it was: the bytes go to another file
 * beside it, which then takes its name. Called by the commands that write one.
 */
#include "tool/htcachectl.h"

#include <apr_strings.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel follows */

static const char *beside(const char *path, const char *name, apr_pool_t *pool)
{
    const char *slash = strrchr(path, '/');

    if (*name == '/' || !slash)
        return name;
    return apr_pstrcat(pool, apr_pstrmemdup(pool, path, (apr_size_t)(slash - path) + 1), name,
                       NULL);
}

/* A link of another user may lead to a file that this user can write and that one cannot. */
static bool is_trusted(const char *path, const struct stat *link)
{
    struct stat to;

    return !link->st_uid || link->st_uid == geteuid() ||
           (stat(path, &to) == 0 && to.st_uid == link->st_uid);
}

/* The descriptor that a name such as /dev/stdout stands for: what else has it open goes on where
 * this ends. -1: none. */
static int descriptor_of(const char *path, apr_pool_t *pool)
{
    const char *name = strrchr(path, '/'), *dir = beside(path, ".", pool);
    struct statfs fs;
    struct stat here, own;
    char *end = NULL;
    long fd = name && name[1] ? strtol(name + 1, &end, 10) : -1;

    if (!end || *end || fd < 0 || fd > INT_MAX || statfs(dir, &fs) != 0 ||
        fs.f_type != PROC_SUPER_MAGIC || stat(dir, &here) != 0 ||
        stat("/proc/self/fd", &own) != 0 || here.st_ino != own.st_ino || here.st_dev != own.st_dev)
        return -1;
    return (int)fd;
}

/* Follow the links of a name. NULL: errno says why not. *fd: see above. */
static const char *real_target(const char *path, int *fd, apr_pool_t *pool)
{
    char to[PATH_MAX];

    *fd = -1;
    for (int i = 0; i < LINKS_MAX; i++) {
        struct stat st;
        ssize_t n;

        if (lstat(path, &st) != 0)
            return errno == ENOENT ? path : NULL;
        if (!S_ISLNK(st.st_mode))
            return path;
        *fd = descriptor_of(path, pool);
        if (*fd >= 0)
            return path;
        if (!is_trusted(path, &st)) {
            errno = EPERM;
            return NULL;
        }
        n = readlink(path, to, sizeof(to));
        if (n < 0)
            return NULL;
        path = beside(path, apr_pstrmemdup(pool, to, (apr_size_t)n), pool);
    }
    errno = ELOOP;
    return NULL;
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* Devices and pipes, and what is open already. */
static bool write_there(int fd, const char *bytes, size_t len)
{
    bool good = fd >= 0 && fflush(stdout) == 0 && write_all(fd, bytes, len);
    int why = errno;

    if (fd >= 0 && close(fd) != 0 && good)
        return false;
    errno = why;
    return good;
}

/* Whom the file that it replaces, if any, belongs to and who may read it. A file that belongs to
 * another group than that must not be readable for it. */
static bool keep_rights(int fd, const struct stat *old)
{
    mode_t mask = umask(0), mode = 0666 & ~mask;

    umask(mask);
    if (old) {
        mode = old->st_mode & 0777;
        if (fchown(fd, old->st_uid, old->st_gid) != 0)
            mode &= (mode & 07) << 3 | 0707;
    }
    return fchmod(fd, mode) == 0;
}

/* Not every file system knows it. */
static bool sync_file(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP;
}

/* Under a name that nobody knows before: whoever may write to the directory, as the owner of an
 * .htaccess file, could have put a link to another file there. */
static bool replace(const char *path, const struct stat *old, const char *bytes, size_t len,
                    apr_pool_t *pool)
{
    char *other = apr_pstrcat(pool, path, ".XXXXXX", NULL);
    int fd = mkostemp(other, O_CLOEXEC), why;
    bool good = fd >= 0 && write_all(fd, bytes, len) && keep_rights(fd, old) && sync_file(fd);

    why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        good = false;
        why = errno;
    }
    if (good && rename(other, path) != 0) {
        good = false;
        why = errno;
    }
    if (!good && fd >= 0)
        unlink(other);
    errno = why;
    return good;
}

static bool put(const char *name, const char *bytes, size_t len, apr_pool_t *pool)
{
    struct stat st;
    int fd;
    const char *path = real_target(name, &fd, pool);
    bool exists = path && stat(path, &st) == 0;

    if (!path)
        return false;
    if (fd >= 0)
        return write_there(dup(fd), bytes, len);
    if (exists && !S_ISREG(st.st_mode))
        return write_there(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY), bytes, len);
    return replace(path, exists ? &st : NULL, bytes, len, pool);
}

bool tool_write_file(const char *name, const char *bytes, size_t len, apr_pool_t *pool)
{
    if (put(name, bytes, len, pool))
        return true;
    tool_say("%s: %s", name,
             errno == EPERM ? "it is a link of another user, or may not be written"
                            : strerror(errno));
    return false;
}
