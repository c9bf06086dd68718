/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The thread of a process that loads maps that have changed, one after the other. Those who write
 * maps take turns (maps/queue.h), and what one load may take is bounded, so nobody's map stays as
 * it was because somebody else has many, or large ones. Called by redirects/map_look.c when it has
 * found a change, and by redirects/map_start.c when a child ends.
 *
 * The thread begins with the first change, and ends when nothing is left to do.
 */
#include "redirects/map.h"
#include "maps/maps.h"

typedef struct changed_map {
    redirect_queue_job job; /* first, as the queue's jobs are these */
    htc_redirects *redirects;
    const htc_redirect_map *map; /* a copy in pool: a map of .htaccess lives no longer than that */
    htc_map_dir dir;             /* as the first request that found the change saw it */
    apr_pool_t *pool;
} changed_map;

struct htc_loader {
    apr_thread_mutex_t *lock;
    redirect_queue queue; /* under the lock, as all that follows */
    bool running;         /* somebody will look into the queue */
    apr_thread_t *thread; /* the one that runs, or the last one */
    apr_pool_t *pool;     /* what it was made of */
};

apr_status_t htc_map_loader_create(htc_redirects *redirects, apr_pool_t *pool)
{
    htc_loader *loader = apr_pcalloc(pool, sizeof(*loader));
    apr_status_t rv = apr_thread_mutex_create(&loader->lock, APR_THREAD_MUTEX_DEFAULT, pool);

    redirects->loader = loader;
    return rv;
}

/* No job is taken any more when the process ends. */
static changed_map *next_map(htc_redirects *redirects)
{
    htc_loader *loader = redirects->loader;
    changed_map *changed = NULL;

    apr_thread_mutex_lock(loader->lock);
    if (!atomic_load(&redirects->stopping))
        changed = (changed_map *)redirect_queue_take(&loader->queue);
    loader->running = changed != NULL;
    apr_thread_mutex_unlock(loader->lock);
    return changed;
}

/* At the priority of the threads that serve requests, on purpose. A build asks the kernel for much
 * memory and gives it back, and a request has a file mapped: both need the lock of the process's
 * memory. A thread of lower priority that holds it waits for its turn with it, and all requests of
 * the process wait along, on a busy server for a tenth of a second. */
static void *APR_THREAD_FUNC run(apr_thread_t *thread, void *data)
{
    htc_redirects *redirects = data;
    changed_map *changed;

    (void)thread;
    while ((changed = next_map(redirects)) != NULL) {
        htc_map_load_behind(redirects, changed->map, changed->dir, changed->pool);
        apr_pool_destroy(changed->pool);
    }
    return NULL;
}

static void end_thread(htc_loader *loader)
{
    apr_status_t ended;

    if (loader->thread)
        apr_thread_join(&ended, loader->thread);
    if (loader->pool)
        apr_pool_destroy(loader->pool);
    loader->thread = NULL;
    loader->pool = NULL;
}

/* The thread before it has left the queue for good; take its place. APR's record of a thread lies
 * in the pool that it is created in: so each has one of its own, as a child may live for thousands
 * of reloads. */
static void start_thread(htc_redirects *redirects)
{
    htc_loader *loader = redirects->loader;
    apr_status_t rv;

    end_thread(loader);
    rv = apr_pool_create_unmanaged_ex(&loader->pool, NULL, NULL);
    if (rv == APR_SUCCESS)
        rv = apr_thread_create(&loader->thread, NULL, run, redirects, loader->pool);
    if (rv != APR_SUCCESS)
        loader->thread = NULL;
    loader->running = rv == APR_SUCCESS;
}

static changed_map *changed_map_create(htc_redirects *redirects, const htc_redirect_map *map,
                                       htc_map_dir dir)
{
    apr_pool_t *pool;
    changed_map *changed;
    htc_redirect_map *copy;

    if (apr_pool_create_unmanaged_ex(&pool, NULL, NULL) != APR_SUCCESS)
        return NULL;
    changed = apr_pcalloc(pool, sizeof(*changed));
    copy = apr_pmemdup(pool, map, sizeof(*map));
    copy->slot = atomic_load(&map->slot);
    copy->file = apr_pstrdup(pool, map->file);
    copy->where = apr_pstrdup(pool, map->where);
    copy->tree = apr_pstrdup(pool, map->tree);
    copy->options.host = apr_pstrdup(pool, map->options.host);
    copy->options.strip = apr_pstrdup(pool, map->options.strip);
    copy->options.columns = apr_pstrdup(pool, map->options.columns);
    *changed = (changed_map){{NULL, redirect_area_owner(redirects->area, copy->slot), copy->slot},
                             redirects,
                             copy,
                             dir,
                             pool};
    return changed;
}

void htc_map_load_later(htc_redirects *redirects, const htc_redirect_map *map, htc_map_dir dir)
{
    htc_loader *loader = redirects->loader;
    changed_map *changed = changed_map_create(redirects, map, dir);
    bool stopping, waits;

    if (!changed)
        return;
    apr_thread_mutex_lock(loader->lock);
    stopping = atomic_load(&redirects->stopping);
    waits = !stopping && redirect_queue_add(&loader->queue, &changed->job);
    /* Also where this map waits already: a thread could not be started then. */
    if (!stopping && !loader->running)
        start_thread(redirects);
    apr_thread_mutex_unlock(loader->lock);
    if (!waits)
        apr_pool_destroy(changed->pool);
}

/* The loader needs the lock to end. Nobody starts another one. */
void htc_map_loader_end(htc_redirects *redirects)
{
    htc_loader *loader = redirects->loader;
    redirect_queue_job *job;

    apr_thread_mutex_lock(loader->lock);
    atomic_store(&redirects->stopping, 1);
    apr_thread_mutex_unlock(loader->lock);
    end_thread(loader);
    while ((job = redirect_queue_take(&loader->queue)) != NULL)
        apr_pool_destroy(((changed_map *)job)->pool);
}
