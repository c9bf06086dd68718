/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The server's redirect area over restarts: made once, found again by each later reading of the
 * configuration, and left behind when another build of the module has taken over. Called by
 * glue_map_load.c.
 */
#include "glue_map.h"

/* Addresses reserved for images; memory is taken as they need it. */
#define AREA_BYTES (UINT64_C(16) << 30)

static bool fits(const htc_lasting *kept)
{
    return kept->layout == redirect_area_layout() && redirect_area_fits(kept->area);
}

/* A restart has brought another build of the module, to which this memory would say something else.
 * The children of before go on with it. */
static void abandon(server_rec *s, const htc_lasting *kept)
{
    ap_log_error(
        APLOG_MARK, APLOG_NOTICE, 0, s,
        "HtCacheRedirectMap: this is another build of mod_htcache than before the restart; "
        "all redirect maps are read anew, and the counts of redirects begin at 0");
    redirect_area_abandon(kept->area);
}

/* This module's code may move from one restart to the next, so the process's pool must not be given
 * anything to call at its end: the area lies in a pool that is never destroyed. */
htc_lasting *htc_lasting_get(server_rec *s, const char **why, bool create)
{
    static const char key[] = "htcache-redirects";
    apr_pool_t *pool = s->process->pool, *own;
    htc_lasting *kept;
    void *data = NULL;

    apr_pool_userdata_get(&data, key, pool);
    kept = data && fits(data) ? data : NULL;
    if (kept || !create)
        return kept;
    if (data) {
        abandon(s, data);
        apr_pool_userdata_set(NULL, key, apr_pool_cleanup_null, pool);
    }
    if (apr_pool_create_unmanaged_ex(&own, NULL, NULL) != APR_SUCCESS) {
        *why = "there is no memory";
        return NULL;
    }
    kept = apr_pcalloc(own, sizeof(*kept));
    kept->layout = redirect_area_layout();
    if (redirect_area_create(&kept->area, AREA_BYTES, own, why) != APR_SUCCESS)
        return NULL;
    apr_pool_userdata_set(kept, key, apr_pool_cleanup_null, pool);
    return kept;
}
