/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What outlives a configuration: records and watches. They belong to the process, not to pconf, and
 * the next configuration goes on with them if each record would be the same under it. Children of
 * the one before go on with them, too. Called by mod_htcache.c at the start and at each restart.
 *
 * The parent alone keeps what it needs for that, in memory of its own. It reads nothing from memory
 * that children write.
 */
#include "module/module.h"

#include "http_main.h"
#include "unixd.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MOST_GROUPS  256 /* of the children's user; further ones do not count */
#define LOCK_WAIT_MS 100 /* for each of two locks, which a process seldom holds for longer */

/* --- what records depend on -------------------------------------------------------------------*/

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A list in one order, whatever the order it was written in. */
static const char *list_text(apr_pool_t *pool, const char *title, const apr_array_header_t *list)
{
    apr_array_header_t *sorted = apr_array_copy(pool, list);

    qsort(sorted->elts, (size_t)sorted->nelts, sizeof(const char *), by_text);
    return apr_pstrcat(pool, title, " ", apr_array_pstrcat(pool, sorted, '\n'), "\n\n", NULL);
}

static const char *modules_text(apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 64, sizeof(const char *));

    for (const module *m = ap_top_module; m; m = m->next)
        APR_ARRAY_PUSH(names, const char *) =
            apr_psprintf(pool, "%s %d.%d", m->name, m->version, m->minor_version);
    return list_text(pool, "modules", names);
}

/* Names and values: what ${NAME} becomes in a file. */
static const char *defines_text(apr_pool_t *pool)
{
    apr_array_header_t *defines = apr_array_make(pool, 8, sizeof(const char *));

    for (int i = 0; i < ap_server_config_defines->nelts; i++) {
        const char *name = APR_ARRAY_IDX(ap_server_config_defines, i, const char *);
        APR_ARRAY_PUSH(defines, const char *) = apr_pstrcat(
            pool, name, "=", ap_resolve_env(pool, apr_pstrcat(pool, "${", name, "}", NULL)), NULL);
    }
    return list_text(pool, "defines", defines);
}

const char *htc_configuration_text(const htc_context *ctx, apr_pool_t *pool)
{
    ap_version_t version;

    ap_get_server_revision(&version);
    return apr_pstrcat(
        pool,
        apr_psprintf(pool, "mod_htcache %s\nhttpd %d.%d.%d%s mmn %d\nuser %ld group %ld\n",
                     HTC_VERSION, version.major, version.minor, version.patch, version.add_string,
                     MODULE_MAGIC_NUMBER_MAJOR, (long)ap_unixd_config.user_id,
                     (long)ap_unixd_config.group_id),
        modules_text(pool), defines_text(pool), list_text(pool, "trusted", ctx->trusted), NULL);
}

/* What directives there are, how httpd reads their arguments, and which code gets these: one module
 * may have been replaced by another of its name and version. */
static const char *commands_text(apr_pool_t *pool)
{
    XXH64_hash_t hash = 0;

    for (const module *m = ap_top_module; m; m = m->next) {
        const uint64_t build = htc_build_of(m);

        hash = XXH3_64bits_withSeed(&build, sizeof(build), hash);
        for (const command_rec *cmd = m->cmds; cmd && cmd->name; cmd++) {
            const int how[] = {cmd->req_override, (int)cmd->args_how};

            hash = XXH3_64bits_withSeed(cmd->name, strlen(cmd->name), hash);
            hash = XXH3_64bits_withSeed(how, sizeof(how), hash);
        }
    }
    return apr_psprintf(pool, "commands %" APR_UINT64_T_HEX_FMT "\n", (apr_uint64_t)hash);
}

/* Which directory it is now: its path may have been a link to another one. */
static const char *chroot_text(apr_pool_t *pool)
{
    const char *path = ap_unixd_config.chroot_dir;
    struct stat st;

    if (!path)
        return "";
    if (stat(path, &st) != 0)
        return path;
    return apr_psprintf(pool, "%s %" APR_UINT64_T_FMT " %" APR_UINT64_T_FMT, path,
                        (apr_uint64_t)st.st_dev, (apr_uint64_t)st.st_ino);
}

/* Which files the children may read. By number, as the name may be "#33". */
static const char *user_text(apr_pool_t *pool)
{
    const struct passwd *user = getpwuid(ap_unixd_config.user_id);
    const char *name = user ? apr_pstrdup(pool, user->pw_name) : "";
    const char *text =
        apr_pstrcat(pool, "user ", name, " chroot ", chroot_text(pool), " groups", NULL);
    gid_t groups[MOST_GROUPS];
    int n = MOST_GROUPS;

    /* When there are more, the first are there all the same. */
    if (*name && getgrouplist(name, ap_unixd_config.group_id, groups, &n) < 0)
        n = MOST_GROUPS;
    for (int i = 0; *name && i < n; i++)
        text = apr_psprintf(pool, "%s %ld", text, (long)groups[i]);
    return text;
}

/* The servers of a farm need not have the same environment, but a configuration of this one that
 * sees another one may read ${NAME} otherwise. */
static const char *own_text(const htc_context *ctx, apr_pool_t *pool)
{
    const char *text = apr_pstrcat(pool, htc_configuration_text(ctx, pool), commands_text(pool),
                                   user_text(pool), "\n", ctx->farm_text, "\n", NULL);
    XXH64_hash_t hash = 0;

    for (char *const *name = environ; *name; name++)
        hash = XXH3_64bits_withSeed(*name, strlen(*name), hash);
    return apr_psprintf(pool, "%senvironment %" APR_UINT64_T_HEX_FMT "\n", text,
                        (apr_uint64_t)hash);
}

/* --- what they are understood by ---------------------------------------------------------------*/

/* Another build may mean something else by the same bytes, in what is shared and in `kept`. */
static uint64_t own_build(void)
{
    static const char own;

    return htc_build_of(&own);
}

/* --- keeping it -------------------------------------------------------------------------------*/

/* The first two members are the same in every build. */
typedef struct kept {
    uint64_t build; /* own_build() */
    htc_kept_memory memory[2];
    apr_pool_t *pool; /* of all this */
    const char *text;
    uint64_t bytes;
    htc_store *store;
    htc_watch *watch; /* NULL: nothing is watched */
} kept;

static const char kept_key[] = "htcache-records";

static const kept *find(server_rec *s)
{
    void *data = NULL;

    apr_pool_userdata_get(&data, kept_key, s->process->pool);
    return data;
}

/* Of another build's struct no more is known than what it begins with. */
void htc_kept_end(server_rec *s)
{
    const kept *old = find(s);

    if (!old)
        return;
    for (int i = 0; i < 2; i++)
        htc_pages_forget(&old->memory[i]);
    apr_pool_userdata_set(NULL, kept_key, NULL, s->process->pool);
    if (old->build == own_build())
        apr_pool_destroy(old->pool);
}

static bool still_true(const kept *old, const htc_context *ctx)
{
    return old->bytes == ctx->memory && !strcmp(old->text, own_text(ctx, ctx->pconf));
}

/* Without it the new children could write nothing for as long as the old one is stopped. */
static const char *who_holds_it(const kept *old)
{
    if (!htc_store_lock_free(old->store, LOCK_WAIT_MS))
        return "a process of before the restart holds the lock of records and does not go on";
    if (old->watch && !htc_watch_lock_free(old->watch, LOCK_WAIT_MS))
        return "a process of before the restart holds the lock of watches and does not go on";
    return NULL;
}

bool htc_kept_use(htc_context *ctx, server_rec *s)
{
    const kept *old = find(s);
    const char *why = NULL;

    if (!old)
        return false;
    if (old->build != own_build())
        why = "this is another build of mod_htcache than before the restart";
    else if (!still_true(old, ctx))
        why = "what decides how .htaccess files are read has changed: HtCacheMemory, "
              "HtCacheTrustModule, HtCacheMemcached or its key, modules, "
              "definitions, the environment, the user, or ChrootDir";
    else if (!old->watch != !htc_fresh_wanted(s))
        why = old->watch ? "HtCacheRevalidate auto stands nowhere any more"
                         : "HtCacheRevalidate auto can begin with an empty one only";
    else
        why = who_holds_it(old);
    if (why) {
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s, "HtCache: the cache begins empty, as %s", why);
        htc_kept_end(s);
        return false;
    }
    ctx->store = old->store;
    ctx->watch = old->watch;
    htc_store_begin_again(ctx->store);
    if (ctx->watch)
        htc_watch_begin_again(ctx->watch);
    return true;
}

/* This module's code may move from one restart to the next, so nothing may be called when a pool of
 * the process ends. */
apr_status_t htc_kept_create(htc_context *ctx, server_rec *s, const char **why)
{
    apr_pool_t *own;
    apr_status_t rv;
    kept *new;

    if (apr_pool_create_unmanaged_ex(&own, NULL, NULL) != APR_SUCCESS) {
        *why = "there is no memory";
        return APR_ENOMEM;
    }
    rv = htc_store_create(&ctx->store, ctx->memory / HTC_RECORDS_PART, own, why);
    if (rv != APR_SUCCESS) {
        *why = apr_pstrdup(ctx->pconf, *why);
        apr_pool_destroy(own);
        return rv;
    }
    htc_fresh_create(ctx, s, own);
    new = apr_pcalloc(own, sizeof(*new));
    new->build = own_build();
    new->pool = own;
    new->bytes = ctx->memory;
    new->text = apr_pstrdup(own, own_text(ctx, ctx->pconf));
    new->store = ctx->store;
    new->watch = ctx->watch;
    htc_store_keep(ctx->store, own, &new->memory[0]);
    if (ctx->watch)
        htc_watch_keep(ctx->watch, own, &new->memory[1]);
    apr_pool_userdata_set(new, kept_key, NULL, s->process->pool);
    return APR_SUCCESS;
}
