/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Images of large maps in files. Called by redirects/map_image.c, in httpd's parent.
 */
#include "area/image_file.h"
#include "area/whole.h"
#include "redirect_table.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BLOCK    4096
#define PIECE    ((size_t)1 << 22)            /* bytes read, and then hashed while they are near */
#define LOOKED   65536                        /* names in the folder, at most */
#define LAYOUT   UINT64_C(0x0001000001020304) /* version 1; also tells the order of bytes */
#define NAME_END ".map"
#define NEW_END  ".new"

static const char magic[8] = "HTCIMAGE";

typedef struct head {
    char magic[8];
    uint64_t layout;
    uint64_t format; /* redirect_table_format() */
    redirect_image_about about;
    uint64_t image_hash[2];
    uint64_t head_hash; /* of all above */
} head;

/* --- the folder -------------------------------------------------------------------------------*/

/* What root's own folders are, too: others may not change what is in them. */
static const char *check_folder(int fd, apr_pool_t *pool)
{
    struct stat st;

    if (fstat(fd, &st))
        return apr_psprintf(pool, "it cannot be examined: %s", strerror(errno));
    if (st.st_uid != geteuid())
        return apr_psprintf(pool,
                            "it must belong to the user that starts httpd (uid %ld), not to "
                            "uid %ld",
                            (long)geteuid(), (long)st.st_uid);
    if (st.st_mode & 077)
        return apr_psprintf(pool, "others may read or write it (mode %03o): chmod 700",
                            (unsigned)st.st_mode & 0777);
    return NULL;
}

const char *redirect_image_folder(const char *path, bool make, int *fd, apr_pool_t *pool)
{
    const char *why;

    *fd = -1;
    if (make && mkdir(path, 0700) && errno != EEXIST)
        return apr_psprintf(pool, "it cannot be made: %s", strerror(errno));
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT)
        return NULL;
    if (*fd < 0)
        return errno == ELOOP || errno == ENOTDIR
                   ? "it is a symbolic link, or no folder"
                   : apr_psprintf(pool, "it cannot be opened: %s", strerror(errno));
    why = check_folder(*fd, pool);
    if (why) {
        close(*fd);
        *fd = -1;
    }
    return why;
}

void redirect_image_name(char name[REDIRECT_IMAGE_NAME], uint64_t server, const uint64_t key[2])
{
    snprintf(name, REDIRECT_IMAGE_NAME, "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 NAME_END, server,
             key[0], key[1]);
}

static bool is_ours(const char *name, const char *server)
{
    size_t len = strlen(name), digits = 48;

    return len == digits + strlen(NAME_END) && !strncmp(name, server, 16) &&
           strspn(name, "0123456789abcdef") == digits &&
           (!strcmp(name + digits, NAME_END) || !strcmp(name + digits, NEW_END));
}

static bool is_among(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(name, names[i]))
            return true;
    }
    return false;
}

void redirect_image_prune(int folder, uint64_t server, const char *const *names, size_t n)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    char own[17];
    struct dirent *entry;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return;
    }
    snprintf(own, sizeof(own), "%016" PRIx64, server);
    for (int i = 0; i < LOOKED && (entry = readdir(dir)) != NULL; i++) {
        if (is_ours(entry->d_name, own) && !is_among(entry->d_name, names, n))
            unlinkat(folder, entry->d_name, 0);
    }
    closedir(dir);
}

/* --- reading ----------------------------------------------------------------------------------*/

static const char *check_file(const struct stat *st, apr_pool_t *pool)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a regular file";
    if (st->st_uid != geteuid())
        return apr_psprintf(pool,
                            "it must belong to the user that starts httpd (uid %ld), not to "
                            "uid %ld",
                            (long)geteuid(), (long)st->st_uid);
    if (st->st_nlink != 1)
        return "it has another name, too (a hard link)";
    if (st->st_mode & 077)
        return apr_psprintf(pool, "others may read or write it (mode %03o): chmod 600",
                            (unsigned)st->st_mode & 0777);
    return NULL;
}

static uint64_t hash_of_head(const head *h)
{
    return XXH3_64bits(h, offsetof(head, head_hash));
}

/* NULL: it is what is wanted, or of an earlier text, with *other. Nothing is known of the rest of a head of
 * another layout, so its hash is not asked. */
static const char *check_head(const head *h, const struct stat *st,
                              const redirect_image_about *wanted, bool *other)
{
    bool layout = h->layout == LAYOUT && h->format == redirect_table_format();

    *other = false;
    if (memcmp(h->magic, magic, sizeof(magic)) != 0)
        return "it is damaged";
    if (layout &&
        (h->head_hash != hash_of_head(h) || !h->about.size || h->about.size > REDIRECT_MAX_IMAGE ||
         (uint64_t)st->st_size != BLOCK + h->about.size || h->about.rules > UINT32_MAX))
        return "it is damaged";
    if (!layout || memcmp(h->about.version, wanted->version, sizeof(wanted->version)) != 0)
        return "another version or build of the module made it";
    if (memcmp(h->about.key, wanted->key, sizeof(wanted->key)) != 0)
        return "it is of another map";
    *other = !htc_identity_equal(&h->about.source, &wanted->source);
    return NULL;
}

static int refuse(int fd, const char **why, const char *text)
{
    close(fd);
    *why = text;
    return -1;
}

int redirect_image_open(int folder, const char *name, const redirect_image_about *wanted,
                        redirect_image_about *about, const char **why, apr_pool_t *pool)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    bool other;
    head h;

    *why = NULL;
    if (fd < 0) {
        if (errno != ENOENT)
            *why = errno == ELOOP ? "it is a symbolic link"
                                  : apr_psprintf(pool, "it cannot be opened: %s", strerror(errno));
        return -1;
    }
    if (fstat(fd, &st))
        return refuse(fd, why, "it cannot be examined");
    *why = check_file(&st, pool);
    if (*why)
        return refuse(fd, why, *why);
    if (!area_read_whole(fd, &h, sizeof(h), 0))
        return refuse(fd, why, "it is damaged");
    *why = check_head(&h, &st, wanted, &other);
    if (*why || other)
        return refuse(fd, why, *why);
    *about = h.about;
    return fd;
}

/* Read and hashed piece by piece. */
bool redirect_image_read(int fd, const redirect_image_about *about, void *to)
{
    XXH3_state_t state;
    XXH128_hash_t hash;
    head h;

    if (!area_read_whole(fd, &h, sizeof(h), 0) || h.head_hash != hash_of_head(&h))
        return false;
    XXH3_128bits_reset(&state);
    for (size_t at = 0, n; at < about->size; at += n) {
        char *piece = (char *)to + at;

        n = about->size - at < PIECE ? about->size - at : PIECE;
        if (!area_read_whole(fd, piece, n, BLOCK + at))
            return false;
        XXH3_128bits_update(&state, piece, n);
    }
    hash = XXH3_128bits_digest(&state);
    return hash.low64 == h.image_hash[0] && hash.high64 == h.image_hash[1];
}

/* --- writing ----------------------------------------------------------------------------------*/

static apr_status_t write_all(int fd, const redirect_image_about *about, const void *image)
{
    XXH128_hash_t hash = XXH3_128bits(image, about->size);
    char block[BLOCK] = {0};
    apr_status_t rv;
    head h;

    memset(&h, 0, sizeof(h));
    memcpy(h.magic, magic, sizeof(magic));
    h.layout = LAYOUT;
    h.format = redirect_table_format();
    h.about = *about;
    h.image_hash[0] = hash.low64;
    h.image_hash[1] = hash.high64;
    h.head_hash = hash_of_head(&h);
    memcpy(block, &h, sizeof(h));
    rv = area_write_whole(fd, image, about->size, BLOCK);
    return rv == APR_SUCCESS ? area_write_whole(fd, block, sizeof(block), 0) : rv;
}

apr_status_t redirect_image_write(int folder, const char *name, const redirect_image_about *about,
                                  const void *image)
{
    char made[REDIRECT_IMAGE_NAME];
    apr_status_t rv;
    int fd;

    snprintf(made, sizeof(made), "%.*s" NEW_END, (int)(strlen(name) - strlen(NAME_END)), name);
    unlinkat(folder, made, 0); /* of a start that was cut off */
    fd = openat(folder, made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return APR_FROM_OS_ERROR(errno);
    rv = write_all(fd, about, image);
    if (close(fd) && rv == APR_SUCCESS)
        rv = APR_FROM_OS_ERROR(errno);
    if (rv == APR_SUCCESS && renameat(folder, made, folder, name))
        rv = APR_FROM_OS_ERROR(errno);
    if (rv != APR_SUCCESS)
        unlinkat(folder, made, 0);
    return rv;
}
