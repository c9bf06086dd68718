/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The server's redirect areas: one for each configuration generation, as children of an earlier one
 * can write to theirs. The parent keeps the earlier area until it has carried over what may be
 * carried over. Also decides which owner a map counts towards. Called by redirects/map_start.c and
 * redirects/map.c.
 */
#include "redirects/map.h"

#include <sys/stat.h>

/* Addresses reserved for images; memory is taken as they need it. With 32 bits httpd's own threads
 * and libraries need most of the addresses. */
#define AREA_BYTES (sizeof(void *) > 4 ? UINT64_C(16) << 30 : UINT64_C(512) << 20)

static bool fits(const htc_lasting *kept)
{
    return kept->layout == redirect_area_layout() && redirect_area_fits(kept->area);
}

/* A restart has loaded another build of the module, which would understand this memory
 * differently. The earlier children go on with it. Only the mapping is known; what else the
 * struct holds is not. */
static void abandon(server_rec *s, const htc_lasting *kept)
{
    ap_log_error(
        APLOG_MARK, APLOG_NOTICE, 0, s,
        "HtCacheRedirectMap: this is another build of mod_htcache than before the restart; "
        "the counts of redirects begin at 0");
    redirect_area_abandon(kept->area);
}

static const char lasting_key[] = "htcache-redirects";

htc_lasting *htc_lasting_find(server_rec *s)
{
    apr_pool_t *pool = s->process->pool;
    void *data = NULL;

    apr_pool_userdata_get(&data, lasting_key, pool);
    if (data && !fits(data)) {
        abandon(s, data);
        apr_pool_userdata_set(NULL, lasting_key, NULL, pool);
        data = NULL;
    }
    return data;
}

/* This module's code may move from one restart to the next, so neither the process's pool nor the
 * area's own may be given anything to call at its end. */
htc_lasting *htc_lasting_create(server_rec *s, const char **why)
{
    htc_lasting *kept;
    apr_pool_t *own;

    if (apr_pool_create_unmanaged_ex(&own, NULL, NULL) != APR_SUCCESS) {
        *why = "there is no memory";
        return NULL;
    }
    kept = apr_pcalloc(own, sizeof(*kept));
    kept->layout = redirect_area_layout();
    kept->pool = own;
    if (redirect_area_create(&kept->area, AREA_BYTES, own, why) != APR_SUCCESS) {
        *why = apr_pstrdup(s->process->pconf, *why);
        apr_pool_destroy(own);
        return NULL;
    }
    apr_pool_userdata_set(kept, lasting_key, NULL, s->process->pool);
    return kept;
}

void htc_lasting_end(htc_lasting *kept)
{
    redirect_area_destroy(kept->area);
    apr_pool_destroy(kept->pool);
}

/* --- maps of .htaccess files ------------------------------------------------------------------*/

/* The owner of a map: a document root, as for the cache, and in it each user who has
 * directories, as with mod_userdir. Files may be linked from elsewhere, directories may not; so
 * a tenant cannot choose his owner. */
static uint64_t owner_of(const char *document_root, const htc_redirect_map *map, apr_pool_t *pool)
{
    redirect_area_key key;
    const char *text;
    struct stat st;

    text = apr_psprintf(pool, "%ld %s", stat(map->tree, &st) == 0 ? (long)st.st_uid : -1L,
                        document_root);
    key = redirect_area_key_of(text, strlen(text), pool);
    return key.word[0] ? key.word[0] : 1;
}

static void adopt(htc_redirects *redirects, htc_redirect_map *map, const char *document_root,
                  apr_pool_t *pool)
{
    uint32_t slot = redirect_area_map(redirects->area, &map->key, redirects->generation, false);

    if (slot == REDIRECT_AREA_NIL) {
        slot = redirect_area_map_of(redirects->area, &map->key, redirects->generation,
                                    owner_of(document_root, map, pool));
        htc_map_say_evicted(redirects);
    }
    atomic_store(&map->slot, slot);
}

void htc_map_adopt(request_rec *r, htc_redirects *redirects, htc_redirect_map *map)
{
    adopt(redirects, map, ap_document_root(r), r->pool);
}

/* Before a request has the map's configuration, its document root is not known, which a module may
 * choose: the server's is taken for it. Neither the builder nor ?explain tells. */
void htc_map_reject(const cmd_parms *cmd, htc_redirect_map *map, const char *err)
{
    const htc_server_conf *sc = htc_server_conf_of(cmd->server);
    const core_server_config *core = ap_get_core_module_config(cmd->server->module_config);
    htc_identity id = htc_map_file(map);
    redirect_area_state state;
    redirect_area_note note;

    if (!sc->redirects || !sc->redirects->tables || sc->explained || htc_options_get()->building)
        return;
    adopt(sc->redirects, map, core->ap_document_root, cmd->temp_pool);
    if (!(redirect_area_state_get(sc->redirects->area, map->slot, &state) && state.failed &&
          htc_identity_equal(&id, &state.failed_id) &&
          redirect_area_note_get(sc->redirects->area, map->slot, &note) && note.rejected &&
          !strncmp(note.where, map->where, sizeof(note.where) - 1)) &&
        redirect_area_build_begin(sc->redirects->area, map->slot)) {
        htc_map_note(sc->redirects, map, 0, NULL, err);
        redirect_area_build_failed(sc->redirects->area, map->slot, &id);
    }
    redirect_area_confirm(sc->redirects->area, map->slot, htc_mono_ms());
}

/* Requests that were under way when the file changed may ask a moment later. */
#define CHANGED_NS (INT64_C(2000000000))
#define MS_NS      INT64_C(1000000)

static htc_identity identity_of(const char *file)
{
    htc_identity id = {0};
    struct stat st;

    if (stat(file, &st) == 0)
        htc_identity_from_stat(&id, &st);
    return id;
}

/* A name that was cut is no name. */
static bool is_whole(const char *text)
{
    return strlen(text) + 1 < REDIRECT_AREA_NOTE_TEXT;
}

/* True when the map's file is still @a read and when the .htaccess file that names it has not changed
 * after @a since, or if it has, a request asked for the map later. */
static bool is_wanted(const redirect_area_state *state, const redirect_area_note *note,
                      htc_identity read, int64_t since)
{
    const char *colon = strrchr(note->where, ':');
    char file[REDIRECT_AREA_NOTE_TEXT];
    htc_identity id;
    struct stat st;
    int64_t asked_at;

    if (!colon || !is_whole(note->where) || !is_whole(note->file))
        return true;
    id = identity_of(note->file);
    read.unused = 0;
    if (!htc_identity_equal(&id, &read))
        return false;
    apr_cpystrn(file, note->where, (apr_size_t)(colon - note->where) + 1);
    if (stat(file, &st) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    htc_identity_from_stat(&id, &st);
    asked_at = htc_wall_ns() - (htc_mono_ms() - state->checked_at) * MS_NS;
    return id.ctime_ns <= since || (state->checked_at && id.ctime_ns + CHANGED_NS <= asked_at);
}

bool htc_map_fails(const redirect_area_state *state, const redirect_area_note *note)
{
    return state->failed && is_wanted(state, note, state->failed_id, note->ended_at);
}

bool htc_map_leaves_out(const redirect_area_state *state, const redirect_area_note *note)
{
    return !state->failed && state->version && note->refused &&
           is_wanted(state, note, state->id, note->ended_at);
}

redirect_area_stats htc_map_area_stats(const server_rec *s)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    redirect_area_stats stats = {0};

    if (redirects && redirects->area)
        redirect_area_stats_get(redirects->area, &stats);
    return stats;
}

void htc_map_say_evicted(const htc_redirects *redirects)
{
    char where[REDIRECT_AREA_NOTE_TEXT];
    redirect_area_stats stats;

    if (!redirect_area_evicted(redirects->area, apr_time_sec(apr_time_now()), where, sizeof(where)))
        return;
    redirect_area_stats_get(redirects->area, &stats);
    ap_log_error(
        APLOG_MARK, APLOG_WARNING, 0, redirects->main_server,
        "HtCacheRedirectMap: .htaccess files name more maps than there is room for: %d of "
        "them and %" APR_UINT64_T_FMT
        " bytes of tables (four times HtCacheMemory). The owner that has most loses the "
        "map that was not used for the longest time, such as that of %s. It is read again "
        "when it is asked for. Raise HtCacheMemory for more room. This is said once an hour at "
        "most",
        (int)stats.owners_maps_most, (apr_uint64_t)stats.owners_most,
        *where ? where : "a line that was not asked for yet");
}
