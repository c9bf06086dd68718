/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Kept images of large maps (redirects/map_image.c) after an edit. A child has read the new text, but
 * no child's table becomes one that the next start trusts. So the parent forks a process with its own
 * rights that reads the text once more, and writes the image. It uses nothing of the memory that
 * children write to. Called from httpd's monitor hook, in the parent, about every ten seconds.
 *
 * That there was an edit the parent takes from the number of the map's image in the area. A child that
 * was taken over can give it wrong numbers. Then the process finds that the kept image is of the text
 * as it is, or none is written and the next start reads the text.
 *
 * The process has a low priority, and takes a tenth of a processor's time at most: after one that took
 * 20 seconds the next one begins 180 seconds later.
 */
#include "redirects/map.h"

#include "http_main.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define AGAIN    200 /* exit code: some file was not ready, it is to be looked at again */
#define REST     9   /* times as long as the last process took, the parent waits */
#define PRIORITY 10  /* nice */

struct htc_renewer {
    htc_redirects *redirects;
    apr_proc_t proc;
    pid_t parent;
    bool noted, running; /* as the builder's, htaccess/builder.c */
    int64_t began, rest_until;
};

/* --- in the process that the parent forks -------------------------------------------------------*/

static bool renew(const htc_redirects *redirects, const htc_redirect_map *map, apr_pool_t *pool)
{
    htc_identity id = htc_map_file(map);

    if (htc_identity_racy(&id, htc_wall_ns()))
        return false;
    return htc_map_image_settled(redirects, map, pool) ||
           htc_map_load_apart(redirects->main_server, map, pool);
}

/* The parent kills it when the configuration ends. Until then it is at its work, whatever the parent's
 * group is told. */
static void prepare_process(const struct htc_renewer *renewer)
{
    htc_fork_prepare();
    htc_fork_may_end();
    prctl(PR_SET_NAME, "htcache-tables");
    prctl(PR_SET_DUMPABLE, 0); /* no other process of this user may write to it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, PRIORITY);
    if (getppid() != renewer->parent)
        _exit(0);
}

static void run(const struct htc_renewer *renewer)
{
    const htc_redirects *redirects = renewer->redirects;
    bool again = false;

    prepare_process(renewer);
    for (int i = 0; i < redirects->maps->nelts; i++) {
        const htc_redirect_map *map = APR_ARRAY_IDX(redirects->maps, i, const htc_redirect_map *);
        apr_pool_t *pool;

        if (!map->renew || apr_pool_create_unmanaged_ex(&pool, NULL, NULL) != APR_SUCCESS)
            continue;
        again |= !renew(redirects, map, pool);
        apr_pool_destroy(pool);
    }
    _exit(again ? AGAIN : 0);
}

/* --- in the parent -----------------------------------------------------------------------------*/

/* Called by the MPM. */
static void maintain(int reason, void *data, apr_wait_t status)
{
    struct htc_renewer *renewer = data;
    const apr_array_header_t *maps = renewer->redirects->maps;
    bool again = reason == APR_OC_REASON_DEATH && htc_fork_ended(status) == AGAIN;

    if (reason == APR_OC_REASON_RESTART) {
        apr_proc_other_child_unregister(renewer);
        return;
    }
    if (reason != APR_OC_REASON_DEATH && reason != APR_OC_REASON_LOST)
        return;
    renewer->running = false;
    renewer->rest_until = htc_mono_ms() + REST * (htc_mono_ms() - renewer->began);
    for (int i = 0; again && i < maps->nelts; i++) {
        htc_redirect_map *map = APR_ARRAY_IDX(maps, i, htc_redirect_map *);

        if (map->renew)
            map->kept_version = 0;
    }
    apr_proc_other_child_unregister(renewer);
}

static void start(struct htc_renewer *renewer)
{
    apr_pool_t *pool = renewer->redirects->pool;
    apr_status_t rv;

    renewer->began = htc_mono_ms();
    rv = htc_fork(&renewer->proc, pool);
    if (rv == APR_INCHILD)
        run(renewer);
    if (rv != APR_INPARENT) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, renewer->redirects->main_server,
                     "HtCacheRedirectMap: cannot fork a process that keeps tables of edited maps; "
                     "the next start reads their text");
        return;
    }
    renewer->running = true;
    if (!renewer->noted)
        apr_pool_note_subprocess(pool, &renewer->proc, APR_KILL_ALWAYS);
    renewer->noted = true;
    apr_proc_other_child_register(&renewer->proc, maintain, renewer, NULL, pool);
}

/* True when there is one for the process to look at. */
static bool choose(const htc_redirects *redirects)
{
    bool any = false;

    for (int i = 0; i < redirects->maps->nelts; i++) {
        htc_redirect_map *map = APR_ARRAY_IDX(redirects->maps, i, htc_redirect_map *);
        uint32_t slot = atomic_load(&map->slot);
        uint64_t version =
            slot == REDIRECT_AREA_NIL ? 0 : redirect_area_version(redirects->area, slot);

        map->renew = version && version != map->kept_version && htc_map_image_wanted(map);
        map->kept_version = version;
        any |= map->renew;
    }
    return any;
}

int htc_map_renew_monitor(apr_pool_t *pool, server_rec *s)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    struct htc_renewer *renewer = redirects ? redirects->renewer : NULL;

    (void)pool;
    if (renewer && !renewer->running && htc_mono_ms() >= renewer->rest_until &&
        !htc_ends_children() && choose(redirects))
        start(renewer);
    return OK;
}

void htc_map_renew_prepare(htc_redirects *redirects)
{
    struct htc_renewer *renewer;

    if (!redirects->maps->nelts || !htc_options_get()->counters_file)
        return;
    renewer = apr_pcalloc(redirects->pool, sizeof(*renewer));
    renewer->redirects = redirects;
    renewer->parent = getpid();
    redirects->renewer = renewer;
}
