/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Redirect maps from start to stop: what is loaded before the children fork, and what a child
 * begins and ends with. Called from mod_htcache.c's hooks; the memory that outlives restarts is
 * glue_map_area.c's, reading and building glue_map_load.c's.
 */
#include "glue_count.h"
#include "glue_fold.h"
#include "glue_map.h"

/* At startup: what an earlier generation has read is good enough while the file is the same. */
static int load_at_start(htc_redirects *redirects, htc_redirect_map *map, apr_pool_t *ptemp)
{
    redirect_area_state state;
    htc_identity id = htc_map_file(map);
    bool have;

    map->slot = redirect_area_map(redirects->area, &map->key, redirects->generation, true);
    if (map->slot == REDIRECT_AREA_NIL) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, redirects->main_server,
                     "HtCacheRedirectMap %s (%s): there is no place for another one of at most %d "
                     "maps; it is not used",
                     map->file, map->where, REDIRECT_AREA_MAPS);
        return OK;
    }
    have = redirect_area_state_get(redirects->area, map->slot, &state) && state.version;
    if (have && htc_identity_equal(&id, &state.id))
        return OK;
    if (htc_map_load(redirects, map, true, ptemp) == APR_SUCCESS || have || htc_is_restart())
        return OK;
    return HTTP_INTERNAL_SERVER_ERROR;
}

static int load_all(htc_redirects *redirects, apr_pool_t *ptemp)
{
    for (int i = 0; i < redirects->maps->nelts; i++) {
        int rv =
            load_at_start(redirects, APR_ARRAY_IDX(redirects->maps, i, htc_redirect_map *), ptemp);
        if (rv != OK)
            return rv;
    }
    return OK;
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
    redirects->maps = options->maps;
    redirects->fold_secret = options->walk.secret;
    redirects->tree_limit = options->memory / 4;
    redirects->patterns_limit = options->process_memory / HTC_PATTERNS_PART;
    return redirects;
}

/* Lines of the server's configuration become tables once, before the children fork. */
static void fold_all(void)
{
    const apr_array_header_t *folds = htc_options_get()->folds;

    for (int i = 0; i < folds->nelts; i++) {
        htc_fold_table(APR_ARRAY_IDX(folds, i, htc_fold *), NULL);
        htc_fold_count(APR_ARRAY_IDX(folds, i, htc_fold *));
    }
}

int htc_maps_post_config(apr_pool_t *pconf, apr_pool_t *ptemp, server_rec *s, bool htaccess)
{
    bool wanted = htc_options_get()->maps->nelts > 0;
    const char *why = NULL;
    htc_lasting *kept = wanted || htaccess ? htc_lasting_get(s, &why, true) : NULL;
    htc_redirects *redirects = redirects_create(pconf, s, kept);
    int rv;

    htc_map_find_alias();
    if (!htc_is_preflight())
        fold_all();
    for (server_rec *v = s; v; v = v->next)
        htc_server_conf_of(v)->redirects = redirects;
    if (!kept && !wanted && !htaccess)
        return OK;
    if (!kept) {
        ap_log_error(APLOG_MARK, wanted ? APLOG_EMERG : APLOG_INFO, 0, s, "HtCacheRedirectMap: %s",
                     why);
        return wanted ? HTTP_INTERNAL_SERVER_ERROR : OK;
    }
    rv = redirect_area_join(redirects->area, redirects->generation);
    if (rv != APR_SUCCESS) {
        ap_log_error(
            APLOG_MARK, wanted ? APLOG_ERR : APLOG_INFO, rv, s,
            "HtCacheRedirectMap: there are too many processes of this server; the redirect "
            "maps are not used until it is restarted with fewer");
        return OK;
    }
    rv = load_all(redirects, ptemp);
    if (!htc_is_preflight())
        htc_counted_prepare(redirects);
    htc_hits_prepare(redirects);
    /* Only now are all maps marked that this generation uses. */
    redirect_area_collect(redirects->area, redirects->generation);
    return rv;
}

/* A build that is under way is waited for: it writes to memory that all share. */
static apr_status_t stop_loader(void *data)
{
    htc_redirects *redirects = data;

    atomic_store(&redirects->stopping, 1);
    apr_thread_mutex_lock(redirects->loader_lock);
    htc_map_end_loader(redirects);
    apr_thread_mutex_unlock(redirects->loader_lock);
    return APR_SUCCESS;
}

/* The map of open tables is never destroyed: requests may still release what they hold while a
 * child ends. */
void htc_maps_child_init(apr_pool_t *pchild, server_rec *s)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    apr_status_t joined = APR_EGENERAL;

    if (redirects->area) {
        joined = redirect_area_join(redirects->area, redirects->generation);
        /* Who has not joined cannot pin, so these make it count nothing. */
        htc_counted_keep(redirects);
        htc_hits_keep(redirects);
    }
    if (apr_thread_mutex_create(&redirects->fold_lock, APR_THREAD_MUTEX_DEFAULT, pchild) !=
            APR_SUCCESS ||
        !redirects->area)
        return;
    if (joined != APR_SUCCESS ||
        apr_thread_mutex_create(&redirects->loader_lock, APR_THREAD_MUTEX_DEFAULT, pchild) !=
            APR_SUCCESS ||
        htc_map_regex_prepare(redirects) != APR_SUCCESS ||
        htc_map_create(&redirects->tables, UINT64_C(1) << 30, htc_table_free) != APR_SUCCESS) {
        redirects->tables = NULL;
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, s,
                     "HtCacheRedirectMap: this process cannot use the redirect maps; there are too "
                     "many processes, or there is no memory");
        return;
    }
    apr_pool_pre_cleanup_register(pchild, redirects, stop_loader);
}

bool htc_map_known(server_rec *s, const redirect_area_key *key)
{
    const char *why = NULL;
    htc_lasting *kept = htc_lasting_get(s, &why, false);
    redirect_area_state state;
    uint32_t slot;

    if (!kept)
        return false;
    slot = redirect_area_map(kept->area, key, kept->generation, false);
    return slot != REDIRECT_AREA_NIL && redirect_area_state_get(kept->area, slot, &state) &&
           state.version;
}
