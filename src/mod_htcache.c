/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The module record and its life cycle: reading options, creating the shared segment before the
 * children fork, a process map in each child, and the hooks. Everything else is in the glue files.
 */
#include "module/module.h"
#include "htaccess/farm.h"
#include "redirects/fold.h"
#include "redirects/rule_filter.h"
#include "redirects/fold_track.h"
#include "module/hooks.h"
#include "redirects/map.h"
#include "status/status.h"

#include "ap_mpm.h"
#include "http_protocol.h"
#include "mpm_common.h"
#include "scoreboard.h"

/* Memory of configurations that were given up, kept for others. */
#define KEPT_FREE (1U << 20)

/* Modules that change the user a request runs as. What one user may read must not be remembered
 * for another, so the cache stays off beside them. */
static const char *const user_switching[] = {
    "itk.c", "mpm_itk.c", "mod_ruid2.c", "peruser.c", "mod_privileges.c", "mod_suid2.c", NULL};

static int htc_pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    int rv;

    htc_options_reset(pconf);
    htc_options_get()->pages = htc_pages_named(ap_conftree);
    rv = htc_fold_pre_config(pconf, plog, ptemp);
    htc_notes_pre_config(); /* by now the tree may be much shorter */
    return rv;
}

static const char *user_switching_module(void)
{
    for (int i = 0; user_switching[i]; i++) {
        if (ap_find_linked_module(user_switching[i]))
            return user_switching[i];
    }
    return NULL;
}

bool htc_switches_users(void)
{
    return user_switching_module() != NULL;
}

/* Another module that opens .htaccess files itself must be asked each time, so core may not be
 * answered ahead of it. */
static bool others_open_htaccess(void)
{
    apr_array_header_t *hooks = ap_hook_get_open_htaccess();

    for (int i = 0; hooks && i < hooks->nelts; i++) {
        ap_HOOK_open_htaccess_t *fn = APR_ARRAY_IDX(hooks, i, ap_LINK_open_htaccess_t).pFunc;
        if (fn != htc_open_htaccess && fn != ap_open_htaccess)
            return true;
    }
    return false;
}

bool htc_is_restart(void)
{
    int generation = 0;
    return ap_mpm_query(AP_MPMQ_GENERATION, &generation) == APR_SUCCESS && generation > 0;
}

bool htc_is_preflight(void)
{
    return ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG;
}

static int create_store(htc_context *ctx, server_rec *s)
{
    const char *why = NULL;
    apr_status_t rv = htc_store_create(&ctx->store, ctx->memory, ctx->pconf, &why);

    if (rv == APR_SUCCESS)
        return OK;
    if (htc_is_restart()) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, s,
                     "HtCache: no shared memory after the restart, going on without the cache: %s. "
                     "Lower HtCacheMemory or raise the limit, then restart",
                     why);
        ctx->off_reason = apr_pstrcat(ctx->pconf, "no shared memory: ", why, NULL);
        return OK;
    }
    ap_log_error(APLOG_MARK, APLOG_EMERG, rv, s,
                 "HtCache: cannot create the shared memory: %s. Lower HtCacheMemory or raise the "
                 "limit",
                 why);
    return HTTP_INTERNAL_SERVER_ERROR;
}

static htc_context *context_create(apr_pool_t *pconf)
{
    const htc_options *options = htc_options_get();
    htc_context *ctx = apr_pcalloc(pconf, sizeof(*ctx));

    ctx->pconf = pconf;
    ctx->memory = options->memory;
    ctx->process_memory = options->process_memory;
    ctx->trusted = options->trusted;
    ctx->seed = !others_open_htaccess();
    return ctx;
}

/* httpd's own note of its start goes on when it is restarted gracefully, and does not when it is
 * not. So the time is noted in the process's pool, which outlives configurations. */
static void note_start(server_rec *s)
{
    static const char key[] = "htcache-started";
    htc_options *options = htc_options_get();
    apr_pool_t *pool = s->process->pool;
    void *first = NULL;

    options->started_at = apr_time_now();
    apr_pool_userdata_get(&first, key, pool);
    if (!first) {
        first = apr_pmemdup(pool, &options->started_at, sizeof(options->started_at));
        apr_pool_userdata_set(first, key, apr_pool_cleanup_null, pool);
    }
    options->first_started_at = *(const apr_time_t *)first;
}

/* Maps come before the folded lines of the same phase. */
static HTC_HOT HTC_APART int answer_translate(request_rec *r)
{
    int answer = htc_map_translate(r);

    return answer != DECLINED ? answer : htc_fold_translate(r);
}

static HTC_EACH int redirect_translate(request_rec *r)
{
    const htc_dir_conf *own = &htc_server_conf_of(r->server)->own;

    return own->maps || own->folds ? answer_translate(r) : DECLINED;
}

static HTC_HOT HTC_APART int answer_fixup(request_rec *r)
{
    int answer = htc_map_fixup(r);

    return answer != DECLINED ? answer : htc_fold_fixup(r);
}

static HTC_EACH int redirect_fixup(request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);

    return dc && (dc->maps || dc->folds) ? answer_fixup(r) : DECLINED;
}

/* Without their hooks nobody would hear of the rules that mod_rewrite runs by itself. */
static void install_gates(server_rec *s)
{
    htc_gates *gates = htc_options_get()->gates;

    if (!gates || !htc_gates_install(gates)) {
        htc_track_forget();
        return;
    }
    for (; s; s = s->next)
        htc_server_conf_of(s)->gates = gates;
}

static int htc_post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    htc_context *ctx;
    const char *switcher;
    bool any = false;
    int rv;

    (void)plog;
    note_start(s);
    htc_pages_prepare(pconf, s);
    htc_secret_prepare(ptemp, s);
    htc_hooks_settle(redirect_translate, redirect_fixup);
    htc_scope_prepare(pconf, s, &any);
    install_gates(s);
    htc_fold_say_odd(s);
    rv = htc_maps_post_config(pconf, ptemp, s, any);
    if (rv != OK || !any)
        return rv;

    ctx = context_create(pconf);
    /* httpd reads its configuration twice, and detaches from the terminal in between. Creating the
     * segment already now, though it goes away with pconf, lets a start that must fail do so where
     * the administrator sees it. */
    if (htc_is_preflight())
        return create_store(ctx, s);
    for (server_rec *v = s; v; v = v->next)
        htc_server_conf_of(v)->ctx = ctx;
    switcher = user_switching_module();
    if (switcher) {
        ctx->off_reason = apr_pstrcat(
            pconf, switcher, " runs requests as different users; the cache stays off", NULL);
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "HtCache: %s", ctx->off_reason);
        return OK;
    }
    htc_history_post_config(s);
    htc_commands_prepare(ctx, s);
    htc_commands_admit(s);
    rv = create_store(ctx, s);
    if (rv == OK) {
        htc_cost_create(ctx, s);
        htc_fresh_create(ctx, s);
        htc_farm_start(ctx, s);
    }
    ctx->vector_bytes = htc_vector_bytes();
    ctx->held_note = ap_register_request_note();
    htc_dirwalk_prepare(ctx);
    for (server_rec *v = s; v && ctx->seed; v = v->next)
        htc_server_conf_of(v)->walks = htc_dirwalk_possible(v);
    return rv;
}

/* One for all configurations that this process keeps. Each has a pool of its own, which comes and
 * goes; where APR takes memory from the kernel directly, as Debian's does, an allocator for each
 * pool would map pages and give them back every time. */
static apr_allocator_t *make_allocator(void)
{
    apr_allocator_t *allocator;
    apr_thread_mutex_t *lock;
    apr_pool_t *pool;

    if (apr_allocator_create(&allocator) != APR_SUCCESS)
        return NULL;
    if (apr_pool_create_unmanaged_ex(&pool, NULL, allocator) != APR_SUCCESS ||
        apr_thread_mutex_create(&lock, APR_THREAD_MUTEX_DEFAULT, pool) != APR_SUCCESS) {
        apr_allocator_destroy(allocator);
        return NULL;
    }
    apr_allocator_mutex_set(allocator, lock);
    apr_allocator_max_free_set(allocator, KEPT_FREE);
    return allocator;
}

/* The map is never destroyed, nor is what it holds: requests may still release what they hold while
 * a child ends. */
static void htc_child_init(apr_pool_t *pchild, server_rec *s)
{
    htc_context *ctx = htc_server_conf_of(s)->ctx;

    htc_maps_child_init(pchild, s);
    if (!ctx || !ctx->store)
        return;
    ctx->allocator = make_allocator();
    if (!ctx->allocator ||
        htc_map_create(&ctx->map, ctx->process_memory, htc_object_free) != APR_SUCCESS) {
        ctx->map = NULL;
        ap_log_error(APLOG_MARK, APLOG_ERR, APR_ENOMEM, s,
                     "HtCache: no memory for this process's map; it serves without the cache. "
                     "Lower HtCacheProcessMemory");
    }
    htc_farm_child_init(ctx, s);
}

/* <Location> settings are known here only: core forgets them before it walks directories. */
static HTC_EACH int htc_translate(request_rec *r)
{
    htc_server_conf *sc = htc_server_conf_of(r->server);
    htc_dir_conf *dc;

    if (!sc->ctx || !sc->location_used)
        return DECLINED;
    dc = ap_get_module_config(r->per_dir_config, &htcache_module);
    if (dc && (dc->enabled != -1 || dc->revalidate_ms != -1))
        htc_request_get(r)->location = dc;
    return DECLINED;
}

static void htc_register_hooks(apr_pool_t *p)
{
    static const char *const after_rewrite[] = {"mod_rewrite.c", NULL};

    (void)p;
    ap_hook_pre_config(htc_pre_config, after_rewrite, NULL, APR_HOOK_MIDDLE);
    ap_hook_check_config(htc_fold_check_config, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_check_config(htc_maps_check_config, NULL, NULL, APR_HOOK_LAST);
    ap_hook_post_config(htc_post_config, NULL, NULL, APR_HOOK_LAST);
    ap_hook_child_init(htc_child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_create_request(htc_create_request, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_post_read_request(htc_fresh_request, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_monitor(htc_fresh_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_translate_name(htc_translate, NULL, NULL, APR_HOOK_REALLY_FIRST);
    /* These two go to mod_alias's place as soon as it is known, see module/hooks.h. */
    ap_hook_translate_name(redirect_translate, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_fixups(redirect_fixup, NULL, NULL, APR_HOOK_MIDDLE);
    /* Just ahead of core's own, behind everybody else's. */
    ap_hook_map_to_storage(htc_seed, NULL, NULL, APR_HOOK_REALLY_LAST - 1);
    ap_hook_open_htaccess(htc_open_htaccess, NULL, NULL, APR_HOOK_REALLY_LAST - 1);
    ap_hook_post_perdir_config(htc_learn, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_error_log(htc_error_log, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(htc_history_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_log_transaction(htc_map_done, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_handler(htc_status_handler, NULL, NULL, APR_HOOK_MIDDLE);
    htc_status_register_hook();
}

/* All else is hidden, so that calls between the files need no indirection. */
#pragma GCC visibility push(default)
module AP_MODULE_DECLARE_DATA htcache_module = {STANDARD20_MODULE_STUFF,
                                                htc_create_dir_conf,
                                                htc_merge_dir_conf,
                                                htc_create_server_conf,
                                                htc_merge_server_conf,
                                                htc_directives,
                                                htc_register_hooks
#if defined(AP_MODULE_FLAG_NONE)
                                                ,
                                                AP_MODULE_FLAG_NONE
#endif
};
#pragma GCC visibility pop
