/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Limits the messages about maps of .htaccess files in the error log. The author of such a file can
 * have his maps read as often as he likes, and something may be wrong with all of them. Each
 * process counts messages for each owner (area/area.h).
 */
#include "base/base.h"
#include "redirects/map.h"

#define SAID_MOST 200
#define SAID_MS   INT64_C(3600000)
#define OWNERS    64

/* Messages about an owner's maps since. */
typedef struct said {
    uint64_t owner;
    int64_t since; /* monotonic ms */
    unsigned messages;
} said;

struct htc_said {
    apr_thread_mutex_t *lock;
    said owners[OWNERS];
};

apr_status_t htc_map_said_create(htc_redirects *redirects, apr_pool_t *pool)
{
    redirects->said = apr_pcalloc(pool, sizeof(*redirects->said));
    return apr_thread_mutex_create(&redirects->said->lock, APR_THREAD_MUTEX_DEFAULT, pool);
}

/* An owner that finds no place shares one. */
static said *place_of(struct htc_said *all, uint64_t owner, int64_t now)
{
    said *unused = NULL;

    for (size_t i = 0; i < OWNERS; i++) {
        said *one = &all->owners[i];

        if (!one->messages || now - one->since >= SAID_MS)
            unused = one;
        else if (one->owner == owner)
            return one;
    }
    if (!unused)
        return &all->owners[owner % OWNERS];
    *unused = (said){owner, now, 0};
    return unused;
}

/* The number that the message would have; at most one beyond those that are told apart. */
static unsigned count(struct htc_said *all, uint64_t owner)
{
    unsigned messages;
    said *one;

    apr_thread_mutex_lock(all->lock);
    one = place_of(all, owner, htc_mono_ms());
    messages = one->messages;
    if (messages < SAID_MOST + 2)
        messages = ++one->messages;
    apr_thread_mutex_unlock(all->lock);
    return messages;
}

bool htc_map_may_say(const htc_redirects *redirects, const htc_redirect_map *map, uint64_t owner,
                     int level)
{
    apr_pool_t *pool;
    unsigned messages;

    if (!APLOG_IS_LEVEL(redirects->main_server, level))
        return false;
    if (!map->tree || !redirects->said)
        return true;
    messages = count(redirects->said, owner);
    if (messages == SAID_MOST + 1 &&
        apr_pool_create_unmanaged_ex(&pool, NULL, NULL) == APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, redirects->main_server,
                     "HtCacheRedirectMap: further messages about maps of .htaccess files of the "
                     "document root and owner of %s are not logged by this process for an hour; "
                     "see those of a map with: htcachectl check FILE, for example %s",
                     map->tree, htc_shell_word(pool, map->file));
        apr_pool_destroy(pool);
    }
    return messages <= SAID_MOST;
}
