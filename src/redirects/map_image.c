/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Images of large maps of the server's configuration in files, so that a start need not read their
 * text: area/image_file.h. The folder is HtCacheCountersFile with ".maps" behind its name. Called by
 * redirects/map_start.c, in the parent, before there are children, and by redirects/map_renew.c, in a
 * process that the parent forks.
 *
 * These alone write images, of text that they have read themselves with the rights that httpd starts
 * with. A child that reads a changed map writes none: it could be made to write the rows of somebody
 * else, and they would outlive it.
 *
 * Whatever is wrong with a file, the text is read.
 */
#include "redirects/map.h"
#include "redirects/counters.h"

#include <unistd.h>

#include "http_main.h"

/* Less is read as text in a tenth of a second. */
#define LEAST_BYTES ((uint64_t)4 << 20)

static const char *folder_name(apr_pool_t *pool)
{
    return apr_pstrcat(pool, htc_options_get()->counters_file, ".maps", NULL);
}

static uint64_t server_number(apr_pool_t *pool)
{
    return redirect_area_key_of(ap_server_root, strlen(ap_server_root), pool).word[0];
}

static bool is_kept(const htc_redirect_map *map, const htc_identity *id)
{
    return !map->tree && htc_options_get()->counters_file && id->ino && S_ISREG(id->mode) &&
           id->size >= LEAST_BYTES;
}

static void say(const htc_redirects *redirects, const htc_redirect_map *map, int level,
                const char *what)
{
    ap_log_error(APLOG_MARK, level, 0, redirects->main_server, "HtCacheRedirectMap: %s: %s",
                 map->file, what);
}

/* -1: there is none. A folder that nobody named need not be. */
static int open_folder(const htc_redirects *redirects, const htc_redirect_map *map, bool make,
                       apr_pool_t *pool)
{
    const char *path = folder_name(pool), *why;
    int fd;

    why = redirect_image_folder(path, make, &fd, pool);
    if (why)
        say(redirects, map, htc_options_get()->counters_file_set ? APLOG_WARNING : APLOG_INFO,
            apr_psprintf(pool,
                         "its table cannot be kept for the next start in the folder %s: %s; each "
                         "start reads the whole text",
                         path, why));
    return fd;
}

static redirect_image_about wanted_of(const htc_redirect_map *map)
{
    return (redirect_image_about){.version = HTC_VERSION,
                                  .key = {map->key.word[0], map->key.word[1]},
                                  .source = htc_map_file(map)};
}

/* --- from a file to the area ------------------------------------------------------------------*/

static bool is_whole(const void *image, const redirect_image_about *about, apr_pool_t *pool)
{
    redirect_table_info info;
    const redirect_table *table;

    if (redirect_table_validate(image, about->size) != APR_SUCCESS)
        return false;
    table = redirect_table_open(image, about->size, pool);
    if (!table)
        return false;
    redirect_table_info_get(table, &info);
    return info.rules == about->rules;
}

/* NULL, or why not. */
static const char *publish(const htc_redirects *redirects, const htc_redirect_map *map, int fd,
                           const redirect_image_about *about, apr_pool_t *pool)
{
    redirect_area *area = redirects->area;
    redirect_area_pin old = {NULL};
    void *image;

    if (redirect_area_reserve(area, map->slot, about->size, (uint32_t)about->rules, &image) !=
        APR_SUCCESS)
        return "there is no room for it";
    if (!redirect_image_read(fd, about, image) || !is_whole(image, about, pool))
        return "it is damaged";
    redirect_area_pin_get(area, map->slot, &old);
    if (redirect_area_publish(area, map->slot, &about->source) != APR_SUCCESS) {
        redirect_area_unpin(area, &old);
        return "there is no place for it";
    }
    htc_count_moved(area, map->slot, &old, pool);
    redirect_area_unpin(area, &old);
    return NULL;
}

static void say_loaded(const htc_redirects *redirects, const htc_redirect_map *map,
                       const char *file, const redirect_image_about *about, int64_t ms,
                       apr_pool_t *pool)
{
    say(redirects, map, APLOG_INFO,
        apr_psprintf(pool,
                     "%" APR_UINT64_T_FMT " rows, from %s in %" APR_INT64_T_FMT
                     " ms; the text is the same as when this was made of it",
                     (apr_uint64_t)about->rules, file, (apr_int64_t)ms));
    if (about->refused || about->warnings)
        say(redirects, map, APLOG_WARNING,
            apr_psprintf(pool,
                         "%" APR_UINT64_T_FMT " rows are left out, and there are %" APR_UINT64_T_FMT
                         " warnings, as when the text was read; see them with: htcachectl check %s",
                         (apr_uint64_t)about->refused, (apr_uint64_t)about->warnings,
                         htc_shell_word(pool, map->file)));
}

/* With the right to build. */
static bool load(htc_redirects *redirects, const htc_redirect_map *map, int fd,
                 const redirect_image_about *about, const char *file, apr_pool_t *pool)
{
    redirect_report report = {.errors = about->refused, .warnings = about->warnings};
    redirect_area_note note;
    int64_t began = htc_mono_ms();
    const char *why = publish(redirects, map, fd, about, pool);

    if (why) {
        redirect_area_build_failed(redirects->area, map->slot, NULL);
        say(redirects, map, APLOG_NOTICE,
            apr_psprintf(pool, "%s is not used: %s; the text is read instead", file, why));
        return false;
    }
    redirect_area_confirm(redirects->area, map->slot, began);
    htc_map_note(redirects, map, (int64_t)about->load_ms, &report, NULL);
    if (redirect_area_note_get(redirects->area, map->slot, &note)) {
        note.from_image = 1;
        redirect_area_note_set(redirects->area, map->slot, &note);
    }
    say_loaded(redirects, map, file, about, htc_mono_ms() - began, pool);
    return true;
}

bool htc_map_image_load(htc_redirects *redirects, const htc_redirect_map *map, apr_pool_t *pool)
{
    redirect_image_about wanted = wanted_of(map), about;
    char name[REDIRECT_IMAGE_NAME];
    int folder, fd;
    const char *why, *file;
    bool loaded = false;

    if (!is_kept(map, &wanted.source))
        return false;
    folder = open_folder(redirects, map, false, pool);
    if (folder < 0)
        return false;
    redirect_image_name(name, server_number(pool), wanted.key);
    file = apr_pstrcat(pool, folder_name(pool), "/", name, NULL);
    fd = redirect_image_open(folder, name, &wanted, &about, &why, pool);
    if (why)
        say(redirects, map, APLOG_NOTICE,
            apr_psprintf(pool, "%s is not used: %s; the text is read instead", file, why));
    if (fd >= 0) {
        loaded = redirect_area_build_begin(redirects->area, map->slot) &&
                 load(redirects, map, fd, &about, file, pool);
        close(fd);
    }
    close(folder);
    return loaded;
}

/* --- from the area to a file ------------------------------------------------------------------*/

void htc_map_image_write(const htc_redirects *redirects, const htc_redirect_map *map,
                         redirect_image_about *about, const void *image, apr_pool_t *pool)
{
    int folder = open_folder(redirects, map, true, pool);
    char name[REDIRECT_IMAGE_NAME];
    apr_status_t rv;

    if (folder < 0)
        return;
    apr_cpystrn(about->version, HTC_VERSION, sizeof(about->version));
    memcpy(about->key, map->key.word, sizeof(about->key));
    redirect_image_name(name, server_number(pool), about->key);
    rv = redirect_image_write(folder, name, about, image);
    close(folder);
    if (rv != APR_SUCCESS)
        say(redirects, map, APLOG_WARNING,
            apr_psprintf(pool,
                         "its table cannot be kept for the next start in the folder %s: %pm; that "
                         "start reads the whole text",
                         folder_name(pool), &rv));
}

bool htc_map_image_save(htc_redirects *redirects, const htc_redirect_map *map, int64_t began_ns,
                        apr_pool_t *pool)
{
    redirect_area *area = redirects->area;
    redirect_image_about about = {.size = 0};
    redirect_area_state state;
    redirect_area_note note;
    redirect_area_pin pin;

    if (!redirect_area_state_get(area, map->slot, &state) || !state.version ||
        !is_kept(map, &state.id) || !redirect_area_note_get(area, map->slot, &note))
        return true;
    /* What there is to say of rows is to stand in the error log, too; see load_at_start(). */
    if (htc_identity_racy(&state.id, began_ns) ||
        (htc_is_preflight() && (note.refused || note.warnings)) ||
        !redirect_area_pin_get(area, map->slot, &pin))
        return false;
    about.source = state.id;
    about.size = pin.size;
    about.rules = pin.ncounters;
    about.refused = note.refused;
    about.warnings = note.warnings;
    about.load_ms = note.load_ms;
    htc_map_image_write(redirects, map, &about, pin.image, pool);
    redirect_area_unpin(area, &pin);
    return true;
}

/* --- while the server runs --------------------------------------------------------------------*/

bool htc_map_image_wanted(const htc_redirect_map *map)
{
    htc_identity id = htc_map_file(map);

    return is_kept(map, &id);
}

bool htc_map_image_settled(const htc_redirects *redirects, const htc_redirect_map *map,
                           apr_pool_t *pool)
{
    redirect_image_about wanted = wanted_of(map), about;
    int folder = open_folder(redirects, map, true, pool), fd;
    char name[REDIRECT_IMAGE_NAME];
    const char *why;

    if (folder < 0)
        return true;
    redirect_image_name(name, server_number(pool), wanted.key);
    fd = redirect_image_open(folder, name, &wanted, &about, &why, pool);
    if (fd >= 0)
        close(fd);
    close(folder);
    return fd >= 0;
}

/* --- files that are not wanted any more -------------------------------------------------------*/

void htc_map_images_prune(const htc_redirects *redirects, apr_pool_t *pool)
{
    const apr_array_header_t *maps = redirects->maps;
    const char **names = apr_palloc(pool, (apr_size_t)(maps->nelts + 1) * sizeof(*names));
    uint64_t server = server_number(pool);
    int fd;

    if (!htc_options_get()->counters_file ||
        redirect_image_folder(folder_name(pool), false, &fd, pool) != NULL || fd < 0)
        return;
    for (int i = 0; i < maps->nelts; i++) {
        char *name = apr_palloc(pool, REDIRECT_IMAGE_NAME);

        redirect_image_name(name, server,
                            APR_ARRAY_IDX(maps, i, const htc_redirect_map *)->key.word);
        names[i] = name;
    }
    redirect_image_prune(fd, server, names, (size_t)maps->nelts);
    close(fd);
}
