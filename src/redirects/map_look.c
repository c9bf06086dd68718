/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * When a request looks whether a map's file has changed, and who reads it then: the request itself
 * if that takes a moment, so that it and the next ones have the new rows; else the loader's thread
 * while the old rows go on answering.
 */
#include "base/base.h"
#include "redirects/map.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between the words of one generation and the next: a golden section of them all, so that places
 * that were given to several maps do not come to words of other generations. */
#define NEXT_WORDS (UINT32_C(0x9E377) * HTC_WATCH_WORDS)
/* A file changed more recently may still be being written. */
#define QUIET_NS (INT64_C(1000000000))
/* So may one that does not end with a line's end. */
#define UNFINISHED_NS (10 * QUIET_NS)
#define LEASE_MS      1000
/* A request reads a changed file itself if that is expected to take less. */
#define AT_ONCE_MS 50
/* So small a file takes less, whatever it holds. */
#define AT_ONCE_BYTES (UINT64_C(64) << 10)

htc_map_dir htc_map_dir_now(const htc_redirect_map *map)
{
    struct stat st;

    if (!map->tree || stat(map->tree, &st) != 0)
        return (htc_map_dir){0, 0};
    return (htc_map_dir){(uint64_t)st.st_dev, (uint64_t)st.st_ino};
}

htc_identity htc_map_file(const htc_redirect_map *map)
{
    htc_identity id;
    struct stat st;

    memset(&id, 0, sizeof(id));
    if (stat(map->file, &st) == 0)
        htc_identity_from_stat(&id, &st);
    return id;
}

/* Another file than the one that was read, and not written to since it was given its name. */
static bool is_moved_in(const htc_identity *id, const redirect_area_state *state)
{
    return id->ino != state->id.ino && id->ctime_ns > id->mtime_ns;
}

/* True when the file may still be being written, by its age and its end. What is no plain file never
 * will be complete. */
static bool may_grow(const htc_redirect_map *map, const htc_identity *id)
{
    int64_t age = htc_wall_ns() - id->mtime_ns;
    bool unfinished = false;
    char last;
    int fd;

    if (!S_ISREG(id->mode) || age < 0 || age >= UNFINISHED_NS)
        return false;
    if (age < QUIET_NS)
        return true;
    fd = open(map->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0) {
        unfinished = id->size == 0 || pread(fd, &last, 1, (off_t)id->size - 1) != 1 ||
                     (last != '\n' && last != '\r' && last != ']' && last != '}');
        close(fd);
    }
    return unfinished;
}

bool htc_map_is_quick(const redirect_area_state *state, const redirect_area_note *note,
                      uint64_t size)
{
    double ms = (double)(note->load_ms + 1);

    return size <= AT_ONCE_BYTES || ms * (double)size < AT_ONCE_MS * (double)state->id.size;
}

static bool is_quick(const htc_redirects *redirects, const htc_redirect_map *map,
                     const redirect_area_state *state, uint64_t size)
{
    redirect_area_note note;

    return redirect_area_note_get(redirects->area, map->slot, &note) &&
           htc_map_is_quick(state, &note, size);
}

/* A changed file is to be read. True when it was, by this request. */
static bool read_changed(htc_redirects *redirects, const htc_redirect_map *map,
                         const redirect_area_state *state, uint64_t size, apr_pool_t *pool)
{
    if (is_quick(redirects, map, state, size))
        return htc_map_load(redirects, map, htc_map_dir_now(map), false, pool) == APR_SUCCESS;
    htc_map_load_later(redirects, map, htc_map_dir_now(map));
    return false;
}

/* True when the image in use, or the failure that is known, is that of the file as it is. @a whole:
 * nobody is writing it. */
static bool compare(htc_redirects *redirects, const htc_redirect_map *map, bool whole,
                    apr_pool_t *pool)
{
    redirect_area_state state;
    htc_identity id = htc_map_file(map);

    if (!redirect_area_state_get(redirects->area, map->slot, &state) || !state.version)
        return false;
    if (htc_identity_equal(&id, &state.id))
        return true;
    if (htc_map_in_vain(&id, &state)) {
        if (!map->tree)
            return !state.failed_id.unused;
        /* Asked for, and to be said so again in a second, see htc_map_fails(). */
        redirect_area_confirm(redirects->area, map->slot, htc_mono_ms());
        return false;
    }
    if (state.building || (id.ino && !whole && !is_moved_in(&id, &state) && may_grow(map, &id)))
        return false;
    return read_changed(redirects, map, &state, id.size, pool);
}

/* Processes of an earlier generation may watch another map by the same word. Each takes the mark of
 * the other for none of its own. */
static uint32_t word_of(const htc_redirects *redirects, const htc_redirect_map *map)
{
    return map->slot + redirects->generation * NEXT_WORDS;
}

void htc_map_watch(const htc_redirects *redirects, const htc_redirect_map *map, htc_watch *watch)
{
    uint32_t word = word_of(redirects, map);
    bool whole;

    if (atomic_load(htc_watch_word_at(watch, word)) != htc_watch_word_fresh(watch, word))
        htc_watch_word(watch, map->file, word, &whole);
}

/* HtCacheRevalidate auto: looked at when the kernel reported a change, and each second until the
 * image in use is that of the file. */
static void refresh_told(htc_redirects *redirects, const htc_redirect_map *map, htc_watch *watch,
                         apr_pool_t *pool)
{
    uint32_t word = word_of(redirects, map);
    _Atomic int64_t *mark = htc_watch_word_at(watch, word);
    int64_t fresh = htc_watch_word_fresh(watch, word), seen = atomic_load(mark), own, now;
    htc_watch_why why;
    bool whole;

    if (seen == fresh)
        return;
    now = htc_mono_ms();
    if (htc_mark_is_polled(seen) && now - htc_mark_time(seen, fresh) < HTC_ASK_MS)
        return;
    own = htc_watch_unverified(watch);
    if (!atomic_compare_exchange_strong(mark, &seen, own))
        return;
    why = htc_watch_word(watch, map->file, word, &whole);
    if (!compare(redirects, map, whole, pool) || why != HTC_WATCH_OK)
        fresh = htc_mark_polled(why, now);
    atomic_compare_exchange_strong(mark, &own, fresh);
}

apr_int64_t htc_map_refresh(htc_redirects *redirects, const htc_redirect_map *map, apr_int64_t ttl,
                            apr_pool_t *pool)
{
    const htc_context *ctx = htc_server_conf_of(redirects->main_server)->ctx;
    int64_t now, left;

    if (ttl == HTC_REVALIDATE_AUTO && ctx && ctx->watch) {
        refresh_told(redirects, map, ctx->watch, pool);
        return 0;
    }
    if (ttl == HTC_REVALIDATE_AUTO)
        ttl = HTC_ASK_MS;
    now = htc_mono_ms();
    if (redirect_area_claim(redirects->area, map->slot, now, ttl, LEASE_MS)) {
        compare(redirects, map, false, pool);
        redirect_area_confirm(redirects->area, map->slot, now);
    }
    left = redirect_area_checked_at(redirects->area, map->slot) + ttl - now;
    return left < 0 ? 0 : left < ttl ? left : ttl;
}
