/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counts of redirects in a file. Called by redirects/keeper.c, the one process that has it.
 */
#include "area/counts_file.h"
#include "area/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <apr_strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* --- in memory --------------------------------------------------------------------------------*/

/* A group is its key, its number of pairs, and these. */
#define GROUP_WORDS 3

static bool add_word(redirect_counts *counts, uint64_t word)
{
    if (counts->n == counts->room) {
        size_t room = counts->room ? 2 * counts->room : 256;
        uint64_t *grown = realloc(counts->words, room * sizeof(*grown));

        if (!grown)
            return false;
        counts->words = grown;
        counts->room = room;
    }
    counts->words[counts->n++] = word;
    return true;
}

void redirect_counts_begin(redirect_counts *counts, const uint64_t key[2])
{
    counts->group = counts->n;
    if (add_word(counts, key[0]) && add_word(counts, key[1]) && add_word(counts, 0))
        return;
    counts->n = counts->group;
    counts->too_much = true;
}

/* Nothing was begun when there was no memory for it. */
void redirect_counts_add(redirect_counts *counts, uint64_t key, uint64_t word)
{
    size_t before = counts->n;

    if (!word || counts->n < counts->group + GROUP_WORDS)
        return;
    if ((counts->n + 2) * sizeof(word) <= REDIRECT_COUNTS_MOST && add_word(counts, key) &&
        add_word(counts, word)) {
        counts->words[counts->group + 2]++;
        return;
    }
    counts->n = before;
    counts->too_much = true;
}

void redirect_counts_end(redirect_counts *counts)
{
    if (counts->n == counts->group + GROUP_WORDS)
        counts->n = counts->group;
    counts->group = counts->n;
}

/* Also the proof that words from a file are groups. */
bool redirect_counts_next(const redirect_counts *counts, size_t *place,
                          redirect_counts_group *group)
{
    const uint64_t *words;

    if (*place > counts->n || counts->n - *place < GROUP_WORDS)
        return false;
    words = counts->words + *place;
    if (words[2] > (counts->n - *place - GROUP_WORDS) / 2)
        return false;
    *group = (redirect_counts_group){
        {words[0], words[1]}, (const redirect_counts_pair *)(words + GROUP_WORDS), words[2]};
    *place += GROUP_WORDS + 2 * words[2];
    return true;
}

bool redirect_counts_find(const redirect_counts *counts, const uint64_t key[2],
                          redirect_counts_group *group)
{
    size_t place = 0;

    while (redirect_counts_next(counts, &place, group)) {
        if (group->key[0] == key[0] && group->key[1] == key[1])
            return true;
    }
    return false;
}

void redirect_counts_clear(redirect_counts *counts)
{
    free(counts->words);
    *counts = (redirect_counts){0};
}

bool redirect_counts_equal(const redirect_counts *a, const redirect_counts *b)
{
    return a->since == b->since && a->n == b->n &&
           (!a->n || !memcmp(a->words, b->words, a->n * sizeof(*a->words)));
}

/* --- heads ------------------------------------------------------------------------------------*/

#define BLOCK  4096 /* a head has one to itself: a write of one cannot damage the other */
#define COUNTS (2 * BLOCK)

static const char magic[8] = "HTCCOUNT";
#define LAYOUT UINT64_C(0x0001000001020304) /* version 1; also tells the order of bytes */

typedef struct head {
    char magic[8];
    uint64_t layout;
    uint64_t generation;
    uint64_t at, len; /* of the counts, in bytes */
    uint64_t counts_hash;
    int64_t since, written;
    uint64_t head_hash; /* of all above */
} head;

static uint64_t hash_of(const void *bytes, size_t len)
{
    return XXH3_64bits(len ? bytes : "", len);
}

static bool head_whole(const head *h)
{
    return !memcmp(h->magic, magic, sizeof(magic)) && h->layout == LAYOUT && h->generation &&
           h->head_hash == hash_of(h, offsetof(head, head_hash));
}

/* The counts that a whole head names. */
static bool read_state(int fd, const head *h, uint64_t size, redirect_counts *counts)
{
    redirect_counts_group group;
    size_t place = 0;

    if (h->len % sizeof(uint64_t) || h->len > REDIRECT_COUNTS_MOST || h->at < COUNTS ||
        h->at > size || h->len > size - h->at)
        return false;
    counts->words = malloc(h->len + sizeof(uint64_t));
    if (!counts->words)
        return false;
    counts->room = h->len / sizeof(uint64_t) + 1;
    counts->n = counts->group = h->len / sizeof(uint64_t);
    counts->since = h->since;
    counts->written = h->written;
    if (!area_read_whole(fd, counts->words, h->len, h->at) ||
        hash_of(counts->words, h->len) != h->counts_hash)
        return false;
    while (redirect_counts_next(counts, &place, &group))
        continue;
    return place == counts->n;
}

/* Why neither state is whole. */
static const char *wrong(const head heads[2])
{
    bool own[2], layout[2];

    for (int i = 0; i < 2; i++) {
        own[i] = !memcmp(heads[i].magic, magic, sizeof(magic));
        layout[i] = heads[i].layout == LAYOUT || !heads[i].layout; /* 0: it ends there */
    }
    if (!own[0] && !own[1])
        return "it is not a file of counts";
    if ((!own[0] || !layout[0]) && (!own[1] || !layout[1]))
        return "it was written by another version of mod_htcache, or on another kind of machine";
    return "it is damaged";
}

const char *redirect_counts_file_read(redirect_counts_file *file, redirect_counts *counts,
                                      apr_pool_t *pool)
{
    head heads[2];
    bool whole[2];
    struct stat st;

    memset(heads, 0, sizeof(heads));
    redirect_counts_clear(counts);
    file->now = (redirect_counts_state){0};
    if (fstat(file->fd, &st))
        return apr_psprintf(pool, "it cannot be examined: %s", strerror(errno));
    for (unsigned i = 0; i < 2; i++)
        whole[i] = area_read_whole(file->fd, &heads[i], sizeof(head), (uint64_t)i * BLOCK) &&
                   head_whole(&heads[i]);
    file->torn = !whole[0] || !whole[1];
    for (unsigned tries = 0; tries < 2; tries++) {
        unsigned i = whole[1] && (!whole[0] || heads[1].generation > heads[0].generation);

        if (whole[i] && read_state(file->fd, &heads[i], (uint64_t)st.st_size, counts)) {
            file->now = (redirect_counts_state){heads[i].generation, heads[i].at, heads[i].len, i};
            return NULL;
        }
        redirect_counts_clear(counts);
        whole[i] = false;
        file->torn = true;
    }
    return wrong(heads);
}

/* --- writing ----------------------------------------------------------------------------------*/

/* Where the counts do not touch those of the newest state. */
static uint64_t place_for(const redirect_counts_state *now, uint64_t len)
{
    if (COUNTS + len <= now->at)
        return COUNTS;
    return (now->at + now->len + BLOCK - 1) / BLOCK * BLOCK;
}

static head make_head(const redirect_counts *counts, uint64_t generation, uint64_t at, int64_t now)
{
    size_t len = counts->n * sizeof(*counts->words);
    head h;

    memset(&h, 0, sizeof(h));
    memcpy(h.magic, magic, sizeof(magic));
    h.layout = LAYOUT;
    h.generation = generation;
    h.at = at;
    h.len = len;
    h.counts_hash = hash_of(counts->words, len);
    h.since = counts->since;
    h.written = now;
    h.head_hash = hash_of(&h, offsetof(head, head_hash));
    return h;
}

static apr_status_t sync_file(int fd)
{
    return fdatasync(fd) ? APR_FROM_OS_ERROR(errno) : APR_SUCCESS;
}

apr_status_t redirect_counts_file_write(redirect_counts_file *file, const redirect_counts *counts,
                                        int64_t now)
{
    size_t len = counts->n * sizeof(*counts->words);
    uint64_t at = place_for(&file->now, len), end = file->now.at + file->now.len;
    unsigned number = 1 - file->now.head;
    head h = make_head(counts, file->now.generation + 1, at, now);
    struct stat st;
    apr_status_t rv;

    if (fstat(file->fd, &st) || !st.st_nlink)
        return APR_ENOENT;
    rv = area_write_whole(file->fd, counts->words, len, at);
    if (rv == APR_SUCCESS)
        rv = sync_file(file->fd);
    if (rv == APR_SUCCESS)
        rv = area_write_whole(file->fd, &h, sizeof(h), (uint64_t)number * BLOCK);
    if (rv == APR_SUCCESS)
        rv = sync_file(file->fd);
    if (rv != APR_SUCCESS)
        return rv;
    file->now = (redirect_counts_state){h.generation, at, len, number};
    if (end < at + len)
        end = at + len;
    /* What is behind both states is of no use; if it stays, so be it. */
    if ((uint64_t)st.st_size > end && ftruncate(file->fd, (off_t)end))
        return APR_SUCCESS;
    return APR_SUCCESS;
}

/* --- opening ----------------------------------------------------------------------------------*/

/* The file may be opened by root, in a directory that others write to. */
static const char *check_file(int fd, apr_pool_t *pool)
{
    struct stat st;

    if (fstat(fd, &st))
        return apr_psprintf(pool, "it cannot be examined: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return "it is not a regular file";
    if (st.st_uid != geteuid())
        return apr_psprintf(pool,
                            "it must belong to the user that starts httpd (uid %ld), not to "
                            "uid %ld",
                            (long)geteuid(), (long)st.st_uid);
    if (st.st_nlink != 1)
        return "it has another name, too (a hard link)";
    if (st.st_mode & 077)
        return apr_psprintf(pool, "others may read or write it (mode %03o): chmod 600",
                            (unsigned)st.st_mode & 0777);
    return NULL;
}

/* Two empty states. */
static const char *write_empty(int fd, apr_pool_t *pool)
{
    redirect_counts none = {0};

    for (unsigned i = 0; i < 2; i++) {
        head h = make_head(&none, 1 + i, COUNTS, 0);
        apr_status_t rv = area_write_whole(fd, &h, sizeof(h), (uint64_t)i * BLOCK);

        if (rv == APR_SUCCESS && i)
            rv = ftruncate(fd, COUNTS) ? APR_FROM_OS_ERROR(errno) : sync_file(fd);
        if (rv != APR_SUCCESS)
            return apr_psprintf(pool, "it cannot be made: %pm", &rv);
    }
    return NULL;
}

/* A file without a name, which gets it when it is written, unless another server's file has it by
 * then. False: the file system has no such files. */
static bool make_nameless(const char *path, const char **why, apr_pool_t *pool)
{
    const char *slash = strrchr(path, '/');
    const char *dir = slash ? apr_pstrmemdup(pool, path, (apr_size_t)(slash - path) + 1) : ".";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    bool made;

    if (fd < 0)
        return false;
    *why = write_empty(fd, pool);
    made = *why ||
           linkat(AT_FDCWD, apr_psprintf(pool, "/proc/self/fd/%d", fd), AT_FDCWD, path,
                  AT_SYMLINK_FOLLOW) == 0 ||
           errno == EEXIST;
    close(fd);
    return made;
}

/* The same under another name, for want of such files. */
static const char *make_named(const char *path, const char *name, apr_pool_t *pool)
{
    const char *why;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd < 0)
        return apr_psprintf(pool, "it cannot be made: %s", strerror(errno));
    why = write_empty(fd, pool);
    close(fd);
    if (!why && rename(name, path))
        why = apr_psprintf(pool, "it cannot be made: %s", strerror(errno));
    unlink(name);
    return why;
}

/* The file is there as a whole or not at all. */
static const char *make_file(const char *path, apr_pool_t *pool)
{
    const char *name = apr_pstrcat(pool, path, ".new", NULL), *why = NULL;

    unlink(name); /* of a start that was cut off */
    return make_nameless(path, &why, pool) ? why : make_named(path, name, pool);
}

const char *redirect_counts_file_open(redirect_counts_file *file, const char *path,
                                      apr_pool_t *pool)
{
    const int how = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    const char *why = NULL;

    *file = (redirect_counts_file){.fd = open(path, how)};
    if (file->fd < 0 && errno == ENOENT) {
        why = make_file(path, pool);
        if (why)
            return why;
        file->fd = open(path, how);
    }
    if (file->fd < 0)
        return errno == ELOOP ? "it is a symbolic link"
                              : apr_psprintf(pool, "it cannot be opened: %s", strerror(errno));
    why = check_file(file->fd, pool);
    if (why)
        redirect_counts_file_close(file);
    return why;
}

void redirect_counts_file_close(redirect_counts_file *file)
{
    close(file->fd);
    file->fd = -1;
}

bool redirect_counts_file_lock(const redirect_counts_file *file)
{
    return flock(file->fd, LOCK_EX | LOCK_NB) == 0;
}
