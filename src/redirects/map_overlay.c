/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Where temporary edits of a map lie. Each map of the server's configuration has two more places in
 * the area: for the overlay of its recent edits, and for an older one of many. An overlay names the
 * table that it belongs to, by the version of that table's image. So a table that is loaded ends all
 * edits of the one before by being there, and a request that has table and overlay of the same
 * version has both of one moment. Likewise recent edits name the older overlay that they lie over.
 * When both become one, that takes the older one's place, and says that it has all edits, so that the
 * recent one does not count any more.
 *
 * The right to build the recent overlay is that to build the older one, too.
 */
#include "redirects/counters.h"
#include "redirects/map.h"

/* --- places in the area ------------------------------------------------------------------------*/

static uint32_t place_for(const htc_redirects *redirects, const htc_redirect_map *map,
                          const char *what, apr_pool_t *pool)
{
    const char *text = apr_psprintf(pool, "%s %" APR_UINT64_T_HEX_FMT " %" APR_UINT64_T_HEX_FMT,
                                    what, map->key.word[0], map->key.word[1]);
    redirect_area_key key = redirect_area_key_of(text, strlen(text), pool);

    return redirect_area_map(redirects->area, &key, redirects->generation, true);
}

void htc_map_edits_prepare(htc_redirects *redirects, htc_redirect_map *map)
{
    apr_pool_t *pool;

    map->edits.recent = REDIRECT_AREA_NIL;
    if (!htc_options_get()->secret.wanted || map->slot == REDIRECT_AREA_NIL ||
        apr_pool_create(&pool, redirects->pool) != APR_SUCCESS)
        return;
    map->edits.older = place_for(redirects, map, "older edits", pool);
    if (map->edits.older != REDIRECT_AREA_NIL)
        map->edits.recent = place_for(redirects, map, "edits", pool);
    apr_pool_destroy(pool);
}

static htc_process_node *acquire(htc_redirects *redirects, uint32_t slot)
{
    return slot != REDIRECT_AREA_NIL && redirect_area_version(redirects->area, slot)
               ? htc_table_acquire(redirects, slot, HTC_IMAGE_EDITS)
               : NULL;
}

/* The recent one first: whatever takes the older one's place then has its edits, too. */
void htc_overlays_acquire(htc_redirects *redirects, const htc_edits_slots *slots, htc_overlays *o)
{
    *o = (htc_overlays){.recent_node = acquire(redirects, slots->recent)};
    if (!o->recent_node)
        return;
    o->recent = htc_process_cache_data(o->recent_node);
    o->older_node = acquire(redirects, slots->older);
    o->older = o->older_node ? htc_process_cache_data(o->older_node) : NULL;
    htc_overlays_belong(o);
}

void htc_overlays_release(htc_redirects *redirects, const htc_overlays *o)
{
    if (o->older_node)
        htc_table_release(redirects, o->older_node);
    if (o->recent_node)
        htc_table_release(redirects, o->recent_node);
}

uint64_t htc_overlays_older(const htc_overlays *o)
{
    return o->under ? o->under->pin.version : o->last == o->older ? o->older->pin.version : 0;
}

/* --- counts ------------------------------------------------------------------------------------*/

/* Rows that have the same in this place's image keep what was counted. */
static void move_counts(const htc_redirects *redirects, const htc_overlays *from, uint32_t slot,
                        apr_pool_t *pool)
{
    if (from->recent)
        htc_count_moved(redirects->area, slot, &from->recent->pin, pool);
    if (from->older)
        htc_count_moved(redirects->area, slot, &from->older->pin, pool);
}

/* Rows that stay, or become what they are in the file, keep their counts. */
static void take_counts(htc_redirects *redirects, const htc_redirect_map *map,
                        const htc_overlays *before, apr_pool_t *pool)
{
    htc_process_node *base = htc_table_acquire(redirects, map->slot, HTC_IMAGE_TABLE);
    const redirect_edited *edited = NULL;
    htc_overlays now;

    htc_overlays_acquire(redirects, &map->edits, &now);
    if (base)
        edited = htc_overlays_join(htc_process_cache_data(base), &now);
    if (edited && now.under) {
        if (before->recent)
            htc_count_moved(redirects->area, map->edits.recent, &before->recent->pin, pool);
        htc_count_recent(now.under, now.last);
    } else if (edited) {
        move_counts(redirects, before, now.last == now.older ? map->edits.older : map->edits.recent,
                    pool);
    }
    if (edited)
        htc_count_edited(htc_process_cache_data(base), now.last);
    htc_overlays_release(redirects, &now);
    if (base)
        htc_table_release(redirects, base);
}

/* --- the images --------------------------------------------------------------------------------*/

static apr_status_t fill(const htc_redirects *redirects, uint32_t slot, redirect_edits *edits,
                         size_t size, uint32_t counters)
{
    static const htc_identity nothing;
    void *image;
    apr_status_t rv = redirect_area_reserve(redirects->area, slot, size, counters, &image);

    if (rv != APR_SUCCESS)
        return rv;
    redirect_edits_write(edits, image);
    return redirect_area_publish(redirects->area, slot, &nothing);
}

static apr_status_t fill_older(const htc_redirects *redirects, const htc_redirect_map *map,
                               redirect_edits *edits, size_t size, uint32_t counters)
{
    apr_status_t rv;

    if (!redirect_area_build_begin(redirects->area, map->edits.older))
        return APR_EBUSY;
    rv = fill(redirects, map->edits.older, edits, size, counters);
    if (rv != APR_SUCCESS)
        redirect_area_build_failed(redirects->area, map->edits.older, NULL);
    return rv;
}

apr_status_t htc_map_edits_publish(htc_redirects *redirects, const htc_redirect_map *map,
                                   redirect_edits *edits, const htc_overlays *before,
                                   apr_pool_t *pool)
{
    uint32_t counters;
    bool older;
    size_t size;
    apr_status_t rv =
        redirect_edits_finish(edits, apr_time_sec(apr_time_now()), &size, &counters, &older);

    if (rv == APR_SUCCESS)
        rv = older ? fill_older(redirects, map, edits, size, counters)
                   : fill(redirects, map->edits.recent, edits, size, counters);
    if (rv != APR_SUCCESS)
        return rv;
    take_counts(redirects, map, before, pool);
    if (older)
        redirect_area_build_failed(redirects->area, map->edits.recent, NULL);
    return APR_SUCCESS;
}

/* --- their end ---------------------------------------------------------------------------------*/

/* An empty overlay in this place. */
static bool empty(const htc_redirects *redirects, const htc_redirect_map *map,
                  const htc_table *base, uint32_t slot, apr_pool_t *pool)
{
    redirect_edits *edits =
        redirect_edits_create(base->table, base->pin.version, NULL, 0, &map->options, pool);
    apr_status_t rv = APR_ENOMEM;
    uint32_t counters;
    size_t size;
    bool older;

    if (!edits)
        return false;
    rv = redirect_edits_finish(edits, 0, &size, &counters, &older);
    if (rv == APR_SUCCESS)
        rv = slot == map->edits.older ? fill_older(redirects, map, edits, size, counters)
                                      : fill(redirects, slot, edits, size, counters);
    redirect_edits_destroy(edits);
    return rv == APR_SUCCESS;
}

/* Empty overlays take the places of those that belong to no table any more. */
static bool clear(htc_redirects *redirects, const htc_redirect_map *map)
{
    htc_process_node *base = htc_table_acquire(redirects, map->slot, HTC_IMAGE_TABLE);
    apr_pool_t *pool;
    bool done;

    if (!base)
        return false;
    apr_pool_create(&pool, NULL);
    done = (!redirect_area_version(redirects->area, map->edits.older) ||
            empty(redirects, map, htc_process_cache_data(base), map->edits.older, pool)) &&
           empty(redirects, map, htc_process_cache_data(base), map->edits.recent, pool);
    apr_pool_destroy(pool);
    htc_table_release(redirects, base);
    return done;
}

/* Rows of edits that are in the file now keep their counts. */
static void give_counts(const htc_redirects *redirects, const htc_redirect_map *map,
                        const htc_overlays *edits)
{
    apr_pool_t *pool;

    apr_pool_create(&pool, NULL);
    move_counts(redirects, edits, map->slot, pool);
    apr_pool_destroy(pool);
}

bool htc_map_edits_clear(htc_redirects *redirects, const htc_redirect_map *map)
{
    htc_overlays ended;
    uint32_t rows = 0;
    bool any = false;

    htc_overlays_acquire(redirects, &map->edits, &ended);
    if (ended.last &&
        ended.last->edits->base != redirect_area_version(redirects->area, map->slot)) {
        rows = ended.last->edits->differing;
        any = rows || ended.last->edits->rules || ended.last->edits->older;
    }
    if (any)
        give_counts(redirects, map, &ended);
    htc_overlays_release(redirects, &ended);
    if (!any)
        return false;
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, redirects->main_server,
                 "HtCacheRedirectMap: %u temporary edit%s of %s end%s: its file was loaded", rows,
                 rows == 1 ? "" : "s", map->file, rows == 1 ? "s" : "");
    return clear(redirects, map);
}

/* If somebody edits just now, that finds out itself. */
void htc_map_edits_end(htc_redirects *redirects, const htc_redirect_map *map)
{
    if (map->edits.recent == REDIRECT_AREA_NIL || !redirects->tables ||
        !redirect_area_version(redirects->area, map->edits.recent) ||
        !redirect_area_build_begin(redirects->area, map->edits.recent))
        return;
    if (!htc_map_edits_clear(redirects, map))
        redirect_area_build_failed(redirects->area, map->edits.recent, NULL);
}

void htc_map_edits_report(htc_redirects *redirects, const htc_redirect_map *map, uint64_t version,
                          htc_map_report *report)
{
    htc_overlays now;

    htc_overlays_acquire(redirects, &map->edits, &now);
    if (now.last && now.last->edits->base == version) {
        report->edited = now.last->edits->differing;
        report->edited_since = report->edited ? now.last->edits->since : 0;
    }
    htc_overlays_release(redirects, &now);
}
