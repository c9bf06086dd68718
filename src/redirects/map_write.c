/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Edits that are written to the map's file, by the server's user and with no more rights than that
 * has. A new file takes the old one's place, with its owner and mode, so that whoever reads has the
 * one or the other. A link to the file stays. Called by redirects/map_edit.c.
 */
#include "base/base.h"
#include "redirects/map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_TRIES 100

/* A file that is about to be replaced. */
typedef struct replacing {
    apr_pool_t *pool;
    const char *path, *name; /* after links; `name` in the folder */
    const char *temporary;
    int folder, file, made;
    struct stat was;
} replacing;

static const char *user(const replacing *r)
{
    return apr_psprintf(r->pool, "the server's user (uid %ld, gid %ld)", (long)geteuid(),
                        (long)getegid());
}

static const char *cannot(const replacing *r, const char *what)
{
    apr_status_t rv = APR_FROM_OS_ERROR(errno);

    return apr_psprintf(r->pool,
                        "%s: %s cannot %s: %pm; with temporary=1 (--temporary) the edits "
                        "last until the file is loaded",
                        r->path, user(r), what, &rv);
}

static const char *open_old(replacing *r)
{
    char *slash = strrchr(r->path, '/');

    r->name = slash + 1;
    r->folder = open(slash == r->path ? "/" : apr_pstrmemdup(r->pool, r->path, slash - r->path),
                     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (r->folder < 0)
        return cannot(r, "open its folder");
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
        if (!n)
            return apr_psprintf(r->pool, "%s changed while it was read; try again", r->path);
        done += (size_t)n;
    }
    return NULL;
}

static const char *make_new(replacing *r)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        r->temporary = apr_psprintf(r->pool, ".%s.htcache-%ld-%d", r->name, (long)getpid(), i);
        r->made = openat(r->folder, r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (r->made >= 0)
            return NULL;
        if (errno != EEXIST)
            break;
    }
    r->temporary = NULL;
    return cannot(r, "make a file in its folder");
}

static const char *keep_owner(const replacing *r)
{
    struct stat st;

    if (fstat(r->made, &st) != 0)
        return cannot(r, "look at its new file");
    if ((st.st_uid != r->was.st_uid || st.st_gid != r->was.st_gid) &&
        fchown(r->made, st.st_uid == r->was.st_uid ? (uid_t)-1 : r->was.st_uid, r->was.st_gid) != 0)
        return cannot(r, apr_psprintf(r->pool, "give a new file its owner (uid %ld, gid %ld)",
                                      (long)r->was.st_uid, (long)r->was.st_gid));
    return fchmod(r->made, r->was.st_mode & 07777) != 0 ? cannot(r, "give a new file its mode")
                                                        : NULL;
}

static const char *write_new(const replacing *r, const char *bytes, size_t len)
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

    if (fstatat(r->folder, r->name, &now, AT_SYMLINK_NOFOLLOW) != 0 || !is_same(&now, &r->was))
        return apr_psprintf(r->pool, "%s changed meanwhile; try again", r->path);
    if (renameat(r->folder, r->temporary, r->folder, r->name) != 0)
        return cannot(r, "put a new file in its place");
    r->temporary = NULL;
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

/* What may not be written is known before it is read. */
static const char *prepare(replacing *r)
{
    const char *wrong = open_old(r);

    if (!wrong)
        wrong = make_new(r);
    return wrong ? wrong : keep_owner(r);
}

static const char *replace(replacing *r, const char *bytes, size_t len)
{
    const char *wrong = write_new(r, bytes, len);

    return wrong ? wrong : put_in_place(r);
}

const char *htc_map_replace(const char *file, htc_map_rewrite_fn *rewrite, void *baton,
                            apr_pool_t *pool)
{
    replacing r = {.pool = pool, .path = file, .folder = -1, .file = -1, .made = -1};
    char *path = realpath(file, NULL), *bytes = NULL, *out = NULL;
    size_t len = 0, out_len = 0;
    const char *wrong;

    if (!path)
        return cannot(&r, "find it");
    r.path = apr_pstrdup(pool, path);
    free(path);
    wrong = prepare(&r);
    if (!wrong)
        wrong = read_old(&r, &bytes, &len);
    if (!wrong && rewrite(baton, bytes, len, &out, &out_len))
        wrong = replace(&r, out, out_len);
    end(&r, bytes, len);
    return wrong;
}
