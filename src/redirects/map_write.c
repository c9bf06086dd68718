/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Edits that are written to the map's file, by the server's user and with no more rights than that
 * has. A new file takes the old one's place, with its owner, mode and ACL, so that whoever reads has the
 * one or the other. A link to the file stays. Called by redirects/map_edit.c.
 */
#include "base/base.h"
#include "redirects/map.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LOCK_WAIT_MS    500
#define LOCK_LOOK_MS    1
#define ATTRIBUTE_BYTES 65536 /* Linux's limit, of a value and of all names */
#define ACL             "system.posix_acl_access"
#define MOST_LINKS      40 /* as Linux has it */

/* A file that is about to be replaced. */
typedef struct replacing {
    apr_pool_t *pool;
    const char *path, *name; /* after links, once they are known; `name` in the folder */
    const char *temporary;
    char *value; /* room for an attribute's */
    int folder, file, made;
    struct stat was;
    htc_map_not_written why;
} replacing;

static const char *user(const replacing *r)
{
    return apr_psprintf(r->pool, "the server's user (uid %ld, gid %ld)", (long)geteuid(),
                        (long)getegid());
}

static const char *cannot(replacing *r, const char *what)
{
    int error = errno;
    apr_status_t rv = APR_FROM_OS_ERROR(error);
    const char *how = "";

    if (error == ENOSPC || error == EDQUOT || error == EFBIG)
        r->why = HTC_MAP_FULL;
    if (error == EACCES || error == EPERM)
        how = apr_psprintf(r->pool, "give that user the file and its folder (chown %ld:%ld), or ",
                           (long)geteuid(), (long)getegid());
    return apr_psprintf(r->pool,
                        "%s: %s cannot %s: %pm; %swith temporary=1 (--temporary) the edits last "
                        "until the file is loaded",
                        r->path, user(r), what, &rv, how);
}

/* --- where it is -------------------------------------------------------------------------------*/

/* The way to a file, one name after the other. */
typedef struct way {
    int at;     /* the folder that was reached */
    char *name; /* in it */
    char *rest; /* behind the name; NULL: it is the last one */
    unsigned links;
} way;

static void next_name(way *w, char *path)
{
    w->name = path + strspn(path, "/");
    w->rest = strchr(w->name, '/');
    if (w->rest)
        *w->rest++ = '\0';
}

static const char *enter(replacing *r, way *w, int folder)
{
    if (w->at >= 0)
        close(w->at);
    w->at = folder;
    return folder < 0 ? cannot(r, "open its folder") : NULL;
}

/* A link is followed if nobody but root and the server's user could make it: else whoever may write
 * to a folder on the way could have another's file written. @a fd is the link itself. */
static const char *follow(replacing *r, way *w, int fd, const struct stat *link)
{
    char to[APR_PATH_MAX];
    ssize_t len = readlinkat(fd, "", to, sizeof(to) - 1);

    if (link->st_uid != 0 && link->st_uid != geteuid())
        return apr_psprintf(r->pool,
                            "%s: '%s' on the way to it is a symbolic link of another user (uid "
                            "%ld); one that is followed belongs to root or to %s",
                            r->path, w->name, (long)link->st_uid, user(r));
    errno = len < 0 ? errno : ELOOP;
    if (len <= 0 || (size_t)len >= sizeof(to) - 1 || ++w->links > MOST_LINKS)
        return cannot(r, "follow a link to it");
    to[len] = '\0';
    next_name(w, w->rest ? apr_pstrcat(r->pool, to, "/", w->rest, NULL) : apr_pstrdup(r->pool, to));
    return *to == '/' ? enter(r, w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) : NULL;
}

/* *there: this was the last name, and it is no link. What is a link is told by the file that is open,
 * as others may replace it at any time. */
static const char *go_on(replacing *r, way *w, bool *there)
{
    int fd = openat(w->at, w->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    const char *wrong;
    struct stat st;

    if (fd < 0)
        return cannot(r, "find it");
    if (fstat(fd, &st) != 0)
        wrong = cannot(r, "find it");
    else if (S_ISLNK(st.st_mode))
        wrong = follow(r, w, fd, &st);
    else if (w->rest) {
        next_name(w, w->rest);
        return enter(r, w, fd);
    } else {
        *there = true;
        wrong = NULL;
    }
    close(fd);
    return wrong;
}

static const char *open_folder(replacing *r)
{
    way w = {.at = -1};
    const char *wrong = enter(r, &w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    char folder[APR_PATH_MAX];
    bool there = false;
    ssize_t len;

    next_name(&w, apr_pstrdup(r->pool, r->path));
    while (!wrong && !there)
        wrong = go_on(r, &w, &there);
    if (!wrong) {
        r->name = w.name;
        r->folder = openat(w.at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        wrong = r->folder < 0 ? cannot(r, "open its folder") : NULL;
    }
    if (w.at >= 0)
        close(w.at);
    len = wrong ? -1
                : readlink(apr_psprintf(r->pool, "/proc/self/fd/%d", r->folder), folder,
                           sizeof(folder));
    if (len > 0 && (size_t)len < sizeof(folder))
        r->path = apr_psprintf(r->pool, "%.*s/%s", len > 1 ? (int)len : 0, folder, r->name);
    return wrong;
}

/* --- the old file and the new one --------------------------------------------------------------*/

static const char *open_old(replacing *r)
{
    r->file = openat(r->folder, r->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (r->file < 0)
        return cannot(r, "open it");
    if (fstat(r->file, &r->was) != 0)
        return cannot(r, "look at it");
    if (!S_ISREG(r->was.st_mode))
        return apr_psprintf(r->pool, "%s is not a plain file", r->path);
    if (faccessat(r->folder, r->name, W_OK, AT_EACCESS) != 0)
        return cannot(r, "write it");
    return NULL;
}

static const char *read_old(replacing *r, char **bytes, size_t *len)
{
    size_t done = 0;

    *len = (size_t)r->was.st_size;
    *bytes = htc_pages_take(*len + 1);
    if (!*bytes)
        return apr_psprintf(r->pool, "%s: there is no memory to read it", r->path);
    while (done < *len) {
        ssize_t n = read(r->file, *bytes + done, *len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cannot(r, "read it");
        if (!n) {
            r->why = HTC_MAP_AGAIN;
            return apr_psprintf(r->pool, "%s changed while it was read; try again", r->path);
        }
        done += (size_t)n;
    }
    return NULL;
}

/* *moved: it has its name no more, as another process has put it in the map's place. */
static bool is_own(const replacing *r, bool *moved)
{
    struct stat made, there;

    *moved = fstat(r->made, &made) != 0 ||
             fstatat(r->folder, r->temporary, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
             made.st_dev != there.st_dev || made.st_ino != there.st_ino;
    return !*moved && S_ISREG(made.st_mode) && made.st_uid == geteuid() && made.st_nlink == 1;
}

static const char *not_made(replacing *r, const char *wrong)
{
    r->temporary = NULL; /* it stays: it is another one's */
    return wrong;
}

static const char *say_in_the_way(const replacing *r)
{
    return apr_psprintf(r->pool, "%s: remove %s, which stands beside it", r->path, r->temporary);
}

/* Another user's file, as of a server that ran as that user, a folder, a link or a pipe may be there. */
static const char *cannot_make(replacing *r)
{
    int error = errno;
    struct stat st;

    if ((error == EACCES || error == EPERM || error == EISDIR || error == ELOOP ||
         error == ENXIO) &&
        fstatat(r->folder, r->temporary, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return say_in_the_way(r);
    errno = error;
    return cannot(r, apr_psprintf(r->pool, "make %s in its folder", r->temporary));
}

/* A file that is left by a process that was killed is used again. Its lock ends with the process. It
 * lets one process at a time write, whichever line of the configuration its map is of, and whether
 * it runs since before a restart or not. */
static const char *make_new(replacing *r)
{
    int64_t until = htc_mono_ms() + LOCK_WAIT_MS;
    bool moved;

    r->temporary = apr_psprintf(r->pool, ".%s.htcache", r->name);
    do {
        r->made = openat(r->folder, r->temporary,
                         O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
        if (r->made < 0)
            return not_made(r, cannot_make(r));
        if (flock(r->made, LOCK_EX | LOCK_NB) == 0) {
            if (is_own(r, &moved))
                return ftruncate(r->made, 0) != 0 ? cannot(r, "empty a file in its folder") : NULL;
            if (!moved)
                return not_made(r, say_in_the_way(r));
        } else
            apr_sleep(apr_time_from_msec(LOCK_LOOK_MS));
        close(r->made);
        r->made = -1;
    } while (htc_mono_ms() < until);
    r->why = HTC_MAP_AGAIN;
    return not_made(r, apr_psprintf(r->pool, "%s is being written; try again", r->path));
}

/* Whether the new file has it. Without one its value is that of no file: so it is removed. */
static bool copy_attribute(const replacing *r, const char *name)
{
    ssize_t len = fgetxattr(r->file, name, r->value, ATTRIBUTE_BYTES);

    if (len >= 0)
        return fsetxattr(r->made, name, r->value, (size_t)len, 0) == 0;
    if (errno != ENODATA)
        return errno == ENOTSUP;
    return fremovexattr(r->made, name) == 0 || errno == ENODATA || errno == ENOTSUP;
}

/* An ACL is a part of the mode: without it, its mask would be what the group may do. A new file may
 * also have got one from its folder, for people who may not read the old one. What the system itself
 * keeps there, such as labels, is taken over where that is allowed. */
static const char *keep_attributes(replacing *r)
{
    char *names = apr_palloc(r->pool, ATTRIBUTE_BYTES), *name;
    ssize_t len = flistxattr(r->file, names, ATTRIBUTE_BYTES);

    r->value = apr_palloc(r->pool, ATTRIBUTE_BYTES);
    if (!copy_attribute(r, ACL))
        return cannot(r, "give a new file its ACL");
    for (name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
        if (strcmp(name, ACL) != 0 && !copy_attribute(r, name) && !strncmp(name, "user.", 5))
            return cannot(r, apr_psprintf(r->pool, "give a new file its attribute %s", name));
    }
    return NULL;
}

static const char *keep_owner(replacing *r)
{
    const char *wrong;

    struct stat st;

    if (fstat(r->made, &st) != 0)
        return cannot(r, "look at its new file");
    if ((st.st_uid != r->was.st_uid || st.st_gid != r->was.st_gid) &&
        fchown(r->made, st.st_uid == r->was.st_uid ? (uid_t)-1 : r->was.st_uid, r->was.st_gid) != 0)
        return cannot(r, apr_psprintf(r->pool, "give a new file its owner (uid %ld, gid %ld)",
                                      (long)r->was.st_uid, (long)r->was.st_gid));
    wrong = keep_attributes(r);
    if (wrong)
        return wrong;
    return fchmod(r->made, r->was.st_mode & 07777) != 0 ? cannot(r, "give a new file its mode")
                                                        : NULL;
}

static const char *write_new(replacing *r, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(r->made, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cannot(r, "write its new file");
        bytes += n;
        len -= (size_t)n;
    }
    return fsync(r->made) != 0 ? cannot(r, "write its new file") : NULL;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    htc_identity before, after;

    htc_identity_from_stat(&before, a);
    htc_identity_from_stat(&after, b);
    return htc_identity_equal(&before, &after);
}

/* Whoever else replaces or writes it in this very moment is lost, as with an editor. */
static const char *put_in_place(replacing *r)
{
    struct stat now;

    if (fstatat(r->folder, r->name, &now, AT_SYMLINK_NOFOLLOW) != 0 || !is_same(&now, &r->was)) {
        r->why = HTC_MAP_AGAIN;
        return apr_psprintf(r->pool, "%s changed meanwhile; try again", r->path);
    }
    if (renameat(r->folder, r->temporary, r->folder, r->name) != 0)
        return cannot(r, "put a new file in its place");
    r->temporary = NULL;
    close(r->made); /* others may edit it now */
    r->made = -1;
    fsync(r->folder);
    return NULL;
}

static void end(const replacing *r, char *bytes, size_t len)
{
    if (r->temporary)
        unlinkat(r->folder, r->temporary, 0);
    if (r->made >= 0)
        close(r->made);
    if (r->file >= 0)
        close(r->file);
    if (r->folder >= 0)
        close(r->folder);
    htc_pages_give(bytes, len + 1);
}

/* Does another process have the file open for writing? Then half of a file would be taken for all of it,
 * and the other half would go to a file without a name. The kernel gives no lease on such a file. Who
 * opens the file meanwhile causes SIGURG, which ends no process. Where the kernel gives no lease for
 * another reason, nothing is known. */
static bool is_written(const replacing *r)
{
    bool written;

    fcntl(r->file, F_SETSIG, SIGURG);
    written = fcntl(r->file, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
    fcntl(r->file, F_SETLEASE, F_UNLCK);
    return written;
}

/* Whoever was waited for has replaced the file. Whoever edits through another line has closed it a moment
 * later. */
static const char *open_whole(replacing *r)
{
    int64_t until = htc_mono_ms() + LOCK_WAIT_MS;
    const char *wrong;
    bool written;

    do {
        close(r->file);
        wrong = open_old(r);
        if (wrong)
            return wrong;
        written = is_written(r);
        if (written)
            apr_sleep(apr_time_from_msec(LOCK_LOOK_MS));
    } while (written && htc_mono_ms() < until);
    if (!written)
        return NULL;
    r->why = HTC_MAP_AGAIN;
    return apr_psprintf(
        r->pool, "another process has %s open for writing; try again when it is done", r->path);
}

/* What may not be written is known before it is read. */
static const char *prepare(replacing *r)
{
    const char *wrong = open_folder(r);

    if (!wrong)
        wrong = open_old(r);
    if (!wrong)
        wrong = make_new(r);
    if (!wrong)
        wrong = open_whole(r);
    return wrong ? wrong : keep_owner(r);
}

static const char *replace(replacing *r, const char *bytes, size_t len)
{
    const char *wrong = write_new(r, bytes, len);

    return wrong ? wrong : put_in_place(r);
}

const char *htc_map_replace(const char *file, htc_map_rewrite_fn *rewrite, void *baton,
                            htc_map_not_written *why, apr_pool_t *pool)
{
    replacing r = {.pool = pool, .path = file, .folder = -1, .file = -1, .made = -1};
    char *bytes = NULL, *out = NULL;
    size_t len = 0, out_len = 0;
    const char *wrong;

    wrong = prepare(&r);
    if (!wrong)
        wrong = read_old(&r, &bytes, &len);
    if (!wrong && rewrite(baton, bytes, len, &out, &out_len))
        wrong = replace(&r, out, out_len);
    end(&r, bytes, len);
    *why = r.why;
    return wrong;
}
