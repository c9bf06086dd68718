/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Redirect maps from start to stop: what is loaded before the children fork, and what a child does
 * at its beginning and end. Called from mod_htcache.c's hooks. redirects/map_area.c has the memory
 * that outlives restarts; redirects/map_load.c reads and builds.
 */
#include "redirects/counters.h"
#include "redirects/fold.h"
#include "redirects/map.h"

/* In the error log of each start; what the file's reading said of it may stand in another one. */
static void say_broken(const htc_redirects *redirects, const htc_redirect_map *map)
{
    redirect_area_note note = {.error = ""};

    redirect_area_note_get(redirects->area, map->slot, &note);
    ap_log_error(APLOG_MARK, APLOG_ERR, 0, redirects->main_server,
                 "HtCacheRedirectMap %s (%s): the server runs without this map: %s", map->file,
                 map->where, note.error);
}

/*
 * What the parent does at a restart. The area of before can be written by the children of before,
 * one of which may have been taken over. So nothing is decided by what lies there: each map is read
 * again, into an area that no process but the parent has yet. Carried over are only
 *
 *   - numbers: how often rows, lines and maps were asked for and have answered;
 *   - a copy of each map's table, if it is proved to be one. It is replaced at once, unless the
 *     map's file cannot be used just then. Its rows may be anybody's.
 *
 * No lock is taken in the area of before.
 */
static void take_over(htc_redirects *redirects, const htc_redirect_map *map,
                      const redirect_area_pin *old, const redirect_area *before, apr_pool_t *ptemp)
{
    redirect_area *area = redirects->area;
    static const htc_identity nothing;
    void *image;

    if (!redirect_table_open(old->image, old->size, ptemp) ||
        !redirect_area_build_begin(area, map->slot))
        return;
    if (redirect_area_reserve(area, map->slot, old->size, old->ncounters, &image) == APR_SUCCESS) {
        memcpy(image, old->image, old->size);
        if (redirect_table_validate(image, old->size) == APR_SUCCESS &&
            redirect_area_publish(area, map->slot, &nothing) == APR_SUCCESS) {
            htc_count_moved(area, map->slot, old, ptemp);
            htc_counted_carried(area, map->slot, before, &map->key);
            return;
        }
    }
    redirect_area_build_failed(area, map->slot, &nothing);
}

static void carry_over(htc_redirects *redirects, const htc_redirect_map *map, redirect_area *before,
                       apr_pool_t *ptemp)
{
    uint64_t lookups, hits;
    redirect_area_pin old;

    if (!htc_counted_before(before, &map->key, &old))
        return;
    redirect_area_asked(before, redirect_area_find(before, &map->key), &lookups, &hits);
    redirect_area_count(redirects->area, map->slot, lookups, hits);
    take_over(redirects, map, &old, before, ptemp);
    redirect_area_unpin(before, &old);
}

/* True when something was wrong with the rows that were read last. */
static bool has_remarks(const htc_redirects *redirects, const htc_redirect_map *map)
{
    redirect_area_note note = {.refused = 0};

    redirect_area_note_get(redirects->area, map->slot, &note);
    return note.refused || note.warnings;
}

/* At a start the configuration is read twice: what was read the first time is good enough while the
 * file is the same. But the first reading speaks to the terminal; what it had to say of rows must
 * stand in the error log, too, so such a file is read again. A map that cannot be used keeps
 * nobody from starting: it is loaded when its file is mended. */
static void load_at_start(htc_redirects *redirects, htc_redirect_map *map,
                          const htc_lasting *before, apr_pool_t *ptemp)
{
    redirect_area_state state;
    htc_identity id = htc_map_file(map);
    int64_t began;
    bool have;

    map->slot = redirect_area_map(redirects->area, &map->key, redirects->generation, true);
    if (map->slot == REDIRECT_AREA_NIL) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, redirects->main_server,
                     "HtCacheRedirectMap %s (%s): there is no place for another one of at most %d "
                     "maps; it is not used. Put the rows of several maps into one file",
                     map->file, map->where, REDIRECT_AREA_MAPS);
        return;
    }
    if (before)
        carry_over(redirects, map, before->area, ptemp);
    have = redirect_area_state_get(redirects->area, map->slot, &state) && state.version;
    if (have && htc_identity_equal(&id, &state.id) && id.ino &&
        (htc_is_preflight() || !has_remarks(redirects, map)))
        return;
    if (htc_map_image_load(redirects, map, ptemp)) {
        map->kept_version = redirect_area_version(redirects->area, map->slot);
        return;
    }
    began = htc_wall_ns();
    if (htc_map_load(redirects, map, htc_map_dir_now(map), true, ptemp) == APR_SUCCESS) {
        if (htc_map_image_save(redirects, map, began, ptemp))
            map->kept_version = redirect_area_version(redirects->area, map->slot);
    } else if (!have && !htc_is_preflight()) {
        say_broken(redirects, map);
    }
}

static htc_redirects *redirects_create(apr_pool_t *pconf, server_rec *s, htc_lasting *kept)
{
    htc_redirects *redirects = apr_pcalloc(pconf, sizeof(*redirects));
    const htc_options *options = htc_options_get();

    if (kept) {
        redirects->area = kept->area;
        redirect_area_bound(kept->area, HTC_TREES_MEMORY * options->memory);
        redirects->generation = ++kept->generation;
    }
    redirects->main_server = s;
    redirects->pool = pconf;
    redirects->maps = options->maps;
    redirects->fold_secret = options->walk.secret;
    redirects->tree_limit = options->memory / 4;
    redirects->patterns_limit = options->process_memory;
    return redirects;
}

/* Lines of the server's configuration become tables once, before the children fork. */
static void fold_all(void)
{
    const apr_array_header_t *folds = htc_options_get()->folds;

    htc_fold_make_tables(folds);
    for (int i = 0; i < folds->nelts; i++)
        htc_fold_count(APR_ARRAY_IDX(folds, i, htc_fold *));
}

/* An area that no other process could write to yet is used. Otherwise a new one is made, and
 * *before is the one that it replaces. Generations are counted on: what is watched outlives areas,
 * and a map has the mark of another one that had its place before, unless their numbers differ. */
static htc_lasting *lasting_for(server_rec *s, htc_lasting **before, const char **why)
{
    htc_lasting *known = htc_lasting_find(s), *made;

    if (known && !known->shared)
        return known;
    made = htc_lasting_create(s, why);
    *before = made ? known : NULL;
    if (*before)
        made->generation = known->generation;
    return made;
}

static void carry_since(redirect_area *area, const redirect_area *before)
{
    redirect_area_count_since(area, redirect_area_counting_since(before));
    if (redirect_area_restored(before, REDIRECT_AREA_NIL))
        redirect_area_set_restored(area, REDIRECT_AREA_NIL);
}

int htc_maps_post_config(apr_pool_t *pconf, apr_pool_t *ptemp, server_rec *s, bool needed)
{
    bool wanted = htc_options_get()->maps->nelts > 0;
    const char *why = NULL;
    htc_lasting *before = NULL, *kept = wanted || needed ? lasting_for(s, &before, &why) : NULL;
    htc_redirects *redirects = redirects_create(pconf, s, kept);

    htc_alias_find();
    if (!htc_is_preflight()) {
        fold_all();
        htc_map_images_prune(redirects, ptemp);
    }
    for (server_rec *v = s; v; v = v->next)
        htc_server_conf_of(v)->redirects = redirects;
    if (!kept && !wanted && !needed)
        return OK;
    if (!kept) {
        ap_log_error(APLOG_MARK, wanted ? APLOG_EMERG : APLOG_INFO, 0, s, "HtCacheRedirectMap: %s",
                     why);
        return wanted ? HTTP_INTERNAL_SERVER_ERROR : OK;
    }
    redirect_area_join(redirects->area, redirects->generation);
    if (before)
        carry_since(redirects->area, before->area);
    for (int i = 0; i < redirects->maps->nelts; i++)
        load_at_start(redirects, APR_ARRAY_IDX(redirects->maps, i, htc_redirect_map *), before,
                      ptemp);
    for (int i = 0; i < redirects->maps->nelts; i++) /* behind all maps, which need places, too */
        htc_map_edits_prepare(redirects, APR_ARRAY_IDX(redirects->maps, i, htc_redirect_map *));
    if (!htc_is_preflight())
        htc_counted_prepare(redirects, before ? before->area : NULL);
    htc_hits_prepare(redirects, before ? before->area : NULL);
    htc_missing_prepare(redirects, before ? before->area : NULL);
    if (before)
        htc_lasting_end(before);
    kept->shared = !htc_is_preflight();
    if (!htc_is_preflight())
        htc_map_renew_prepare(redirects);
    /* Only now are all maps marked that this generation uses. */
    redirect_area_collect(redirects->area, redirects->generation);
    return OK;
}

/* For `httpd -t`: read each map as the start does. */
static int try_all(server_rec *s, apr_pool_t *ptemp)
{
    const apr_array_header_t *maps = htc_options_get()->maps;
    int rv = OK;

    for (int i = 0; i < maps->nelts; i++) {
        const htc_redirect_map *map = APR_ARRAY_IDX(maps, i, htc_redirect_map *);
        apr_pool_t *pool;

        if (map->options.no_test)
            continue;
        apr_pool_create(&pool, ptemp);
        if (!htc_map_try(s, map, pool))
            rv = HTTP_INTERNAL_SERVER_ERROR;
        apr_pool_destroy(pool);
    }
    return rv;
}

/* The log files are opened later: what is wrong is said on the terminal. */
int htc_maps_check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    (void)plog;
    if (!htc_is_preflight() || !htc_options_get()->maps->nelts || htc_is_stopping())
        return OK;
    switch (ap_state_query(AP_SQ_RUN_MODE)) {
    case AP_SQ_RM_CONFIG_TEST:
        return try_all(s, ptemp);
    case AP_SQ_RM_NORMAL:
        return htc_maps_post_config(pconf, ptemp, s, false);
    default:
        return OK;
    }
}

/* The loader is waited for, as it uses memory that goes with the process; it ends soon. */
static apr_status_t stop_loader(void *data)
{
    htc_map_loader_end(data);
    return APR_SUCCESS;
}

/* The kernel tells of a change from now on, not only from the first request for a map on. Without that
 * nobody would know whether a file that has changed by then is complete. It is that request which
 * reads it. */
static void watch_files(const htc_redirects *redirects, const server_rec *s)
{
    const htc_server_conf *sc = htc_server_conf_of(s);

    if (!sc->ctx || !sc->ctx->watch || sc->map_ttl != HTC_REVALIDATE_AUTO)
        return;
    for (int i = 0; i < redirects->maps->nelts; i++) {
        const htc_redirect_map *map = APR_ARRAY_IDX(redirects->maps, i, const htc_redirect_map *);

        if (map->slot != REDIRECT_AREA_NIL)
            htc_map_watch(redirects, map, sc->ctx->watch);
    }
}

void htc_maps_child_init(apr_pool_t *pchild, server_rec *s)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;

    if (redirects->area) {
        redirect_area_join(redirects->area, redirects->generation);
        htc_counted_keep(redirects);
        htc_hits_keep(redirects);
        htc_missing_keep(redirects);
    }
    if (apr_thread_mutex_create(&redirects->fold_lock, APR_THREAD_MUTEX_DEFAULT, pchild) !=
            APR_SUCCESS ||
        !redirects->area)
        return;
    if (!htc_map_slots_create(redirects) ||
        htc_map_loader_create(redirects, pchild) != APR_SUCCESS ||
        htc_map_said_create(redirects, pchild) != APR_SUCCESS ||
        htc_map_regex_prepare(redirects) != APR_SUCCESS ||
        htc_process_cache_create(&redirects->tables, UINT64_C(1) << 30, htc_table_free) !=
            APR_SUCCESS) {
        redirects->tables = NULL;
        ap_log_error(
            APLOG_MARK, APLOG_ERR, 0, s,
            "HtCacheRedirectMap: this process has no memory for the redirect maps, and answers "
            "without them. Free memory, or raise its limit, then restart httpd");
        return;
    }
    apr_pool_pre_cleanup_register(pchild, redirects, stop_loader);
    watch_files(redirects, s);
}

bool htc_map_known(server_rec *s, const redirect_area_key *key)
{
    htc_lasting *kept = htc_lasting_find(s);
    redirect_area_state state;
    uint32_t slot;

    if (!kept)
        return false;
    slot = redirect_area_find(kept->area, key);
    return slot != REDIRECT_AREA_NIL && redirect_area_state_get(kept->area, slot, &state) &&
           state.version;
}
