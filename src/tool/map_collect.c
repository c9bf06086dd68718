/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Edits of a map that htcachectl map begin collects, in a file of the user's own, until commit sends
 * them. The file is locked while it is read or written, so that no edit is lost between two commands
 * that run at once. A command that is killed may leave a part of a line at the end. This counts as not
 * written. Called by tool/map_command.c.
 */
#include "tool/map_command.h"

#include <apr_strings.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define COLLECTED_MAX ((size_t)16 << 20) /* as the server takes */
#define TITLE         "# edits of the map "

/* Where edits are collected; NULL: the environment does not say it. */
static const char *folder_of(apr_pool_t *pool)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (state && *state == '/')
        return apr_pstrcat(pool, state, "/htcachectl/", NULL);
    return home && *home == '/' ? apr_pstrcat(pool, home, "/.local/state/htcachectl/", NULL) : NULL;
}

/* Make the folders ahead of a file's name. False: errno. */
static bool make_folders(const char *name, apr_pool_t *pool)
{
    char *path = apr_pstrdup(pool, name);

    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return true;
}

/* FNV-1a, for a file's name. */
static uint64_t hash_of(const char *url, const char *map)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);

    for (const char *s = url; *s; s++)
        hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001B3);
    hash *= UINT64_C(0x100000001B3);
    for (const char *s = map; *s; s++)
        hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001B3);
    return hash;
}

static const char *title_of(const tool_options *o, const char *map, apr_pool_t *pool)
{
    char *title = apr_psprintf(pool, TITLE "%s at %s, begun at ", map, o->url);

    for (char *s = title; *s; s++)
        *s = *s == '\n' || *s == '\r' ? '?' : *s;
    return title;
}

static int say_errno(const map_collection *c)
{
    tool_say("%s: %s", c->path, strerror(errno));
    return TOOL_USAGE;
}

/* All bytes of the file, with a NUL behind them, in c->bytes; *len is how many. */
static int read_bytes(map_collection *c, size_t *len)
{
    struct stat st;
    size_t at = 0;

    if (fstat(c->fd, &st) != 0)
        return say_errno(c);
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (uint64_t)st.st_size > COLLECTED_MAX) {
        tool_say("%s is not a file of this user with edits, or too large", c->path);
        return TOOL_USAGE;
    }
    c->bytes = calloc(1, (size_t)st.st_size + 1);
    while (c->bytes && at < (size_t)st.st_size) {
        ssize_t n = read(c->fd, c->bytes + at, (size_t)st.st_size - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    *len = at;
    return c->bytes ? TOOL_GOOD : say_errno(c);
}

/* What is behind the last end of a line is removed. False: errno. */
static bool drop_part(map_collection *c, size_t *len)
{
    size_t whole = *len;

    while (whole && c->bytes[whole - 1] != '\n')
        whole--;
    if (whole == *len)
        return true;
    *len = whole;
    return ftruncate(c->fd, (off_t)whole) == 0;
}

/* Of all below the first line, which must be the title. Without one the file is empty then. */
static int read_file(const tool_options *o, const char *map, map_collection *c, apr_pool_t *pool)
{
    const char *title = title_of(o, map, pool), *end;
    size_t skip = strlen(title), len = 0;
    int code = read_bytes(c, &len);

    if (code != TOOL_GOOD)
        return code;
    if (memcmp(c->bytes, title, len < skip ? len : skip) != 0) {
        tool_say("%s does not hold the edits of %s; remove it", c->path, map);
        return TOOL_USAGE;
    }
    if (!drop_part(c, &len))
        return say_errno(c);
    c->begun = len > skip;
    if (!c->begun)
        return TOOL_GOOD;
    c->since = (time_t)strtoll(c->bytes + skip, NULL, 10);
    end = (const char *)memchr(c->bytes, '\n', len) + 1;
    c->len = len - (size_t)(end - c->bytes);
    memmove(c->bytes, end, c->len);
    c->bytes[c->len] = '\0';
    for (size_t i = 0; i < c->len; i++)
        c->edits += c->bytes[i] == '\n';
    return TOOL_GOOD;
}

/* Open and lock the file. The lock is of no use if the file was removed before it was had. False:
 * errno. */
static bool open_locked(map_collection *c, int flags)
{
    struct stat st = {.st_nlink = 0};

    while (!st.st_nlink) {
        if (c->fd >= 0)
            close(c->fd);
        c->fd =
            open(c->path, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
        if (c->fd < 0 || flock(c->fd, LOCK_EX) != 0 || fstat(c->fd, &st) != 0)
            return false;
    }
    return true;
}

/* Nothing is collected, whether there is a file or not. */
static void forget(map_collection *c)
{
    map_collection_close(c);
    c->fd = -1;
    c->bytes = NULL;
}

int map_collection_open(const tool_options *o, const char *map, map_collection *c, apr_pool_t *pool)
{
    const char *folder = folder_of(pool), *name = strrchr(map, '/');
    char *plain = apr_pstrndup(pool, name ? name + 1 : map, 100);
    int code;

    *c = (map_collection){.fd = -1};
    if (!folder)
        return TOOL_GOOD;
    for (char *s = plain; *s; s++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *s))
            *s = '_';
    }
    c->path =
        apr_psprintf(pool, "%s%s-%016" APR_UINT64_T_HEX_FMT, folder, plain, hash_of(o->url, map));
    if (!open_locked(c, 0))
        return c->fd < 0 && (errno == ENOENT || errno == ENOTDIR) ? TOOL_GOOD : say_errno(c);
    code = read_file(o, map, c, pool);
    if (code == TOOL_GOOD && !c->begun)
        forget(c);
    return code;
}

static bool write_all(int fd, const char *s, size_t len)
{
    while (len) {
        ssize_t n = write(fd, s, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        s += n;
        len -= (size_t)n;
    }
    return true;
}

int map_collection_begin(const tool_options *o, const char *map, map_collection *c,
                         apr_pool_t *pool)
{
    const char *title;
    int code;

    if (!c->path) {
        tool_say("where can edits be collected? Neither HOME nor XDG_STATE_HOME is set");
        return TOOL_USAGE;
    }
    if (!make_folders(c->path, pool))
        return say_errno(c);
    if (!open_locked(c, O_CREAT))
        return say_errno(c);
    code = read_file(o, map, c, pool);
    if (code != TOOL_GOOD || c->begun)
        return code;
    title = apr_psprintf(pool, "%s%" APR_INT64_T_FMT "\n", title_of(o, map, pool),
                         (apr_int64_t)time(NULL));
    if (!write_all(c->fd, title, strlen(title))) {
        code = say_errno(c);
        unlink(c->path);
    }
    return code;
}

int map_collection_add(map_collection *c, const char *line)
{
    size_t len = strlen(line);
    off_t end = lseek(c->fd, 0, SEEK_END);

    if (c->len + len > COLLECTED_MAX) {
        tool_say("%s: no more edits are collected; commit them", c->path);
        return TOOL_USAGE;
    }
    if (!write_all(c->fd, line, len)) {
        int code = say_errno(c);

        if (end < 0 || ftruncate(c->fd, end) != 0)
            tool_say("%s: a part of the edit stands there; remove it", c->path);
        return code;
    }
    c->edits++;
    return TOOL_GOOD;
}

int map_collection_remove(map_collection *c)
{
    return unlink(c->path) == 0 ? TOOL_GOOD : say_errno(c);
}

void map_collection_close(map_collection *c)
{
    free(c->bytes);
    if (c->fd >= 0)
        close(c->fd);
}
