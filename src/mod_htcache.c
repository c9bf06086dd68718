/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The module record and its life cycle: reading options, creating what is shared before the
 * children fork, joining it in each child, and the hooks. Everything else is in the glue files.
 */
#include "module/module.h"
#include "explain/explain.h"
#include "htaccess/htaccess.h"
#include "redirects/redirects.h"
#include "status/status.h"

#include "ap_mpm.h"
#include "http_main.h"
#include "http_protocol.h"
#include "mpm_common.h"
#include "scoreboard.h"

#include <signal.h>

static int htc_pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    const char *registered = apr_hook_debug_current;
    int rv;

    apr_hook_debug_current = "mod_htcache.c"; /* whose hooks these are: mod_info and ?explain ask */
    htc_options_reset(pconf);
    htc_options_get()->pages = htc_pages_named(ap_conftree);
    htc_on_note(&htc_options_get()->on, ap_conftree);
    rv = htc_fold_pre_config(pconf, plog, ptemp);
    htc_notes_pre_config(); /* by now the tree may be much shorter */
    if (htc_options_get()->pages)
        htc_explain_pre_config(pconf, ptemp);
    htc_missing_pre_config();
    apr_hook_debug_current = registered;
    return rv;
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

static int create_store(htc_context *ctx, server_rec *s)
{
    const char *why = NULL;
    apr_status_t rv;

    ctx->farm_text = htc_farm_text(ctx->pconf);
    if (htc_is_preflight())
        rv = htc_store_create(&ctx->store, ctx->memory / HTC_RECORDS_PART, ctx->pconf, &why);
    else if (htc_kept_use(ctx, s))
        return OK;
    else
        rv = htc_kept_create(ctx, s, &why);
    if (rv == APR_SUCCESS)
        return OK;
    if (htc_is_restart()) {
        ctx->off_reason = apr_pstrcat(ctx->pconf, "there is no shared memory: ", why, NULL);
        ctx->off_advice = "lower HtCacheMemory or raise the limit, then restart httpd";
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, s,
                     "HtCache: after the restart %s. httpd goes on without the cache: %s",
                     ctx->off_reason, ctx->off_advice);
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
    ctx->trusted = options->trusted;
    ctx->shortcuts = !others_open_htaccess();
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
        apr_pool_userdata_set(first, key, NULL, pool);
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

    return dc && (dc->maps || dc->folds || dc->first_file) ? answer_fixup(r) : DECLINED;
}

/* Without these hooks the module does not hear of the rules that mod_rewrite runs by itself. */
static void install_rule_filters(server_rec *s)
{
    htc_rewrite *rewrite = htc_options_get()->rewrite;

    if (!rewrite || !htc_rule_filters_install(rewrite)) {
        htc_track_forget();
        return;
    }
    for (; s; s = s->next)
        htc_server_conf_of(s)->rewrite = rewrite;
}

/* A request may see what another user may read only. */
static bool stays_off(htc_context *ctx, server_rec *s)
{
    const char *switcher = htc_user_switcher();

    if (!switcher)
        return false;
    ctx->off_reason = apr_pstrcat(ctx->pconf, switcher,
                                  " runs requests as different users; the cache stays off", NULL);
    ctx->off_advice = "it cannot be used beside this module; remove one of the two";
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s, "HtCache: %s. %s", ctx->off_reason,
                 ctx->off_advice);
    htc_kept_end(s);
    return true;
}

static int htc_post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    htc_context *ctx;
    uint32_t number = 0;
    bool any = false;
    int rv;

    (void)plog;
    note_start(s);
    htc_pages_prepare(pconf, s);
    htc_secret_prepare(ptemp, s);
    htc_hooks_settle(redirect_translate, redirect_fixup);
    htc_scope_prepare(pconf, s, &any);
    htc_options_get()->vector_bytes = htc_vector_bytes();
    install_rule_filters(s);
    htc_fold_say_odd(s);
    rv = htc_maps_post_config(pconf, ptemp, s, any || htc_missing_wanted(s));
    if (!any && !htc_is_preflight()) {
        htc_options_get()->on_advice = htc_on_advice(
            &htc_options_get()->on, ap_conftree ? ap_conftree->filename : NULL, pconf);
        htc_kept_end(s);
    }
    if (rv != OK || !any)
        return rv;

    ctx = context_create(pconf);
    /* httpd reads its configuration twice, and detaches from the terminal in between. Creating the
     * segment already now, though it goes away with pconf, lets a start that must fail do so where
     * the administrator sees it. */
    if (htc_is_preflight())
        return create_store(ctx, s);
    for (server_rec *v = s; v; v = v->next) {
        htc_server_conf_of(v)->ctx = ctx;
        htc_server_conf_of(v)->number = number++;
    }
    if (stays_off(ctx, s))
        return OK;
    htc_history_post_config(s);
    htc_commands_prepare(ctx, s);
    htc_commands_admit(s);
    rv = create_store(ctx, s);
    if (rv == OK) {
        htc_cost_create(ctx, s);
        if (ctx->watch)
            htc_fresh_find_trees(ctx, s);
        htc_farm_start(ctx, s);
        htc_heap_start(ctx, s);
    }
    ctx->vector_bytes = htc_options_get()->vector_bytes;
    ctx->held_note = ap_register_request_note();
    htc_merged_walk_prepare(ctx);
    for (server_rec *v = s; v && ctx->shortcuts; v = v->next)
        htc_server_conf_of(v)->walks = htc_merged_walk_possible(v);
    return rv;
}

static bool one_process(void)
{
    return ap_exists_config_define("ONE_PROCESS") || ap_exists_config_define("DEBUG");
}

/* All that the parent forks and that gives up its rights comes by here: the children, the builder,
 * and daemons of other modules, which may be started again at any time. */
static int htc_drop_privileges(apr_pool_t *pool, server_rec *s)
{
    const htc_context *ctx = htc_server_conf_of(s)->ctx;

    (void)pool;
    if (ctx && ctx->heap && !one_process())
        htc_heap_join(ctx->heap, false);
    return OK;
}

/* The MPM has forked a child, or waited for one that ended. */
static void htc_child_status(server_rec *s, pid_t pid, ap_generation_t generation, int slot,
                             mpm_child_status state)
{
    const htc_context *ctx = htc_server_conf_of(s)->ctx;

    (void)generation;
    (void)slot;
    if (!ctx || !ctx->heap)
        return;
    if (state == MPM_CHILD_STARTED)
        htc_heap_forked(ctx->heap, pid);
    else if (state == MPM_CHILD_EXITED)
        htc_heap_ended(ctx->heap, pid);
}

/* The last step before the MPM runs. */
static void htc_start(void)
{
    htc_builder_start();
    if (ap_server_conf)
        htc_status_say_start(ap_server_conf);
}

static void child_init(apr_pool_t *pchild, server_rec *s)
{
    htc_context *ctx = htc_server_conf_of(s)->ctx;

    htc_maps_child_init(pchild, s);
    if (!ctx || !ctx->store)
        return;
    ctx->serving = true;
    if (!one_process())
        htc_pages_hole();
    htc_counters_join(ctx->store);
    if (ctx->heap && htc_heap_join(ctx->heap, one_process()))
        htc_heap_child_init(ctx);
    else if (ctx->heap)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                     "HtCache: more processes than the memory that they share has places for; this "
                     "one runs the directives of .htaccess files for each request. Restart httpd, "
                     "so that processes of before a graceful restart end");
    htc_farm_child_init(ctx, s);
}

/* httpd ends a child that does not serve yet within the signal's handler, pools and all, whatever
 * it is at. Half of what is made here must not be destroyed: the signal waits. */
static void htc_child_init(apr_pool_t *pchild, server_rec *s)
{
    sigset_t ends, before;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, AP_SIG_GRACEFUL);
    sigprocmask(SIG_BLOCK, &ends, &before);
    child_init(pchild, s);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

/* <Location> settings are known here only: core forgets them before it walks directories. A copy
 * that ?explain has made of the server comes by, too. */
static HTC_EACH int htc_translate(request_rec *r)
{
    htc_server_conf *sc = htc_server_conf_of(r->server);
    htc_dir_conf *dc;

    if (!sc->location_used)
        return DECLINED;
    if (sc->explained)
        htc_explain_translate(r);
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
    ap_hook_drop_privileges(htc_drop_privileges, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_child_status(htc_child_status, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_child_init(htc_child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_create_request(htc_create_request, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_post_read_request(htc_fresh_request, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_monitor(htc_fresh_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_translate_name(htc_translate, NULL, NULL, APR_HOOK_REALLY_FIRST);
    /* These two go to mod_alias's place as soon as it is known, see module/hooks.h. */
    ap_hook_translate_name(redirect_translate, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_fixups(redirect_fixup, NULL, NULL, APR_HOOK_MIDDLE);
    /* Just ahead of core's own, behind all others'. */
    ap_hook_map_to_storage(htc_shortcut, NULL, NULL, APR_HOOK_REALLY_LAST - 1);
    ap_hook_open_htaccess(htc_open_htaccess, NULL, NULL, APR_HOOK_REALLY_LAST - 1);
    ap_hook_post_perdir_config(htc_learn, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_error_log(htc_error_log, NULL, NULL, APR_HOOK_MIDDLE);
    htc_explain_register_hooks();
    ap_hook_optional_fn_retrieve(htc_start, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_optional_fn_retrieve(htc_keeper_start, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_monitor(htc_builder_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(htc_keeper_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(htc_map_renew_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_monitor(htc_history_monitor, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_log_transaction(htc_map_done, NULL, NULL, APR_HOOK_REALLY_LAST);
    /* Ahead of all others, so that no handler runs for a request of ?explain. */
    ap_hook_handler(htc_status_handler, NULL, NULL, APR_HOOK_REALLY_FIRST);
    htc_status_register_hook();
}

#define ANYWHERE_BUT_HTACCESS (RSRC_CONF | ACCESS_CONF)
#define IN_ANY_HTACCESS       (OR_ALL | NONFATAL_ALL)

#define PRIVATE_HELP          "Private to mod_htcache; not for use in any file"

static const command_rec directives[] = {
    AP_INIT_TAKE1("HtCache", htc_conf_set_enabled, NULL, ANYWHERE_BUT_HTACCESS,
                  "On to keep parsed .htaccess files in memory"),
    AP_INIT_TAKE1("HtCacheAdmin", htc_conf_set_admin, NULL, ANYWHERE_BUT_HTACCESS,
                  "On to let the status page forget records and reset counters, by POST"),
    AP_INIT_TAKE1("HtCacheAdminSecretFile", htc_conf_set_secret_file, NULL, RSRC_CONF,
                  "A file that only the administrator may read, with the secret that such a POST "
                  "must know"),
    AP_INIT_TAKE1("HtCacheMemory", htc_conf_set_memory, NULL, RSRC_CONF,
                  "Size of the shared memory, such as 256M"),
    AP_INIT_TAKE1("HtCacheProcessMemory", htc_conf_set_process_memory, NULL, RSRC_CONF,
                  "Most memory in each process for compiled patterns of redirect maps that "
                  ".htaccess files name, such as 16M"),
    AP_INIT_TAKE1("HtCacheRevalidate", htc_conf_set_revalidate, NULL, ANYWHERE_BUT_HTACCESS,
                  "How long an entry is trusted without asking the disk: auto for as long as the "
                  "kernel reports no change, or a time such as 1s; 0 for not at all"),
    AP_INIT_TAKE1("HtCacheDocumentRootShare", htc_conf_set_share, NULL, RSRC_CONF,
                  "Most of the shared memory that one document root may hold while others want "
                  "room, such as 25%"),
    AP_INIT_ITERATE("HtCacheExclude", htc_conf_add_exclude, NULL, RSRC_CONF,
                    "Directories whose .htaccess files are left to httpd"),
    AP_INIT_ITERATE("HtCacheTrustModule", htc_conf_add_trusted, NULL, RSRC_CONF,
                    "Modules whose parsed directives may be kept from request to request"),
    AP_INIT_ITERATE("HtCacheMemcached", htc_farm_set_server, NULL, RSRC_CONF,
                    "memcached servers, HOST:PORT, through which servers of a farm share what they "
                    "read"),
    AP_INIT_TAKE1("HtCacheMemcachedKeyFile", htc_farm_set_key_file, NULL, RSRC_CONF,
                  "A file that only root may read, with the key that servers of a farm share"),
    AP_INIT_TAKE1("HtCacheMemcachedTimeout", htc_farm_set_timeout, NULL, RSRC_CONF,
                  "Most time that a request may spend on memcached in all, such as 20ms"),
    AP_INIT_TAKE1("HtCacheFold", htc_conf_set_fold, NULL, OR_FILEINFO,
                  "Off to leave Redirect and RewriteRule lines to mod_alias and mod_rewrite"),
    AP_INIT_TAKE1("HtCacheCounters", htc_conf_set_counters, NULL, RSRC_CONF,
                  "Off not to count how often each redirect answers"),
    AP_INIT_TAKE12("HtCacheCountersFile", htc_keeper_directive, NULL, RSRC_CONF,
                   "A file that keeps these counts while httpd is stopped, and how often it is "
                   "written, such as 1min; Off for none"),
    AP_INIT_FLAG("HtCacheMissing", htc_missing_directive, NULL, RSRC_CONF,
                 "On to count pages that are asked for and not found"),
    AP_INIT_TAKE_ARGV("HtCacheRedirectMap", htc_map_directive, NULL, OR_FILEINFO,
                      "A file of redirects, then options such as status=301"),
    AP_INIT_TAKE123(HTC_FOLD_REDIRECT, htc_fold_take123, (void *)HTTP_MOVED_TEMPORARILY,
                    OR_FILEINFO, PRIVATE_HELP),
    AP_INIT_TAKE23(HTC_FOLD_MATCH, htc_fold_take23, (void *)HTTP_MOVED_TEMPORARILY, OR_FILEINFO,
                   PRIVATE_HELP),
    AP_INIT_TAKE2(HTC_FOLD_TEMP, htc_fold_take2, (void *)HTTP_MOVED_TEMPORARILY, OR_FILEINFO,
                  PRIVATE_HELP),
    AP_INIT_TAKE2(HTC_FOLD_PERMANENT, htc_fold_take2, (void *)HTTP_MOVED_PERMANENTLY, OR_FILEINFO,
                  PRIVATE_HELP),
    AP_INIT_RAW_ARGS(HTC_FOLD_RUN, htc_fold_run_directive, NULL, OR_FILEINFO, PRIVATE_HELP),
    AP_INIT_RAW_ARGS(HTC_FOLD_SILENT, htc_fold_silent, NULL, OR_FILEINFO, PRIVATE_HELP),
    AP_INIT_FLAG(HTC_FOLD_HOST, htc_fold_host_directive, NULL, RSRC_CONF, PRIVATE_HELP),
    AP_INIT_RAW_ARGS(HTC_RULE_FILTER, htc_rule_filter_directive, NULL, OR_FILEINFO, PRIVATE_HELP),
    AP_INIT_RAW_ARGS(HTC_FOLD_TRACK, htc_track_directive, NULL, OR_FILEINFO, PRIVATE_HELP),
    AP_INIT_NO_ARGS(HTC_FOLD_MARK, htc_fold_mark, NULL, OR_FILEINFO, PRIVATE_HELP),
    AP_INIT_RAW_ARGS(HTC_APPLY_DIRECTIVE, htc_apply_directive, NULL, IN_ANY_HTACCESS, PRIVATE_HELP),
    {NULL, {NULL}, NULL, 0, RAW_ARGS, NULL}};

/* All else is hidden, so that calls between the files need no indirection. */
#pragma GCC visibility push(default)
module AP_MODULE_DECLARE_DATA htcache_module = {STANDARD20_MODULE_STUFF,
                                                htc_create_dir_conf,
                                                htc_merge_dir_conf,
                                                htc_create_server_conf,
                                                htc_merge_server_conf,
                                                directives,
                                                htc_register_hooks
#if defined(AP_MODULE_FLAG_NONE)
                                                ,
                                                AP_MODULE_FLAG_NONE
#endif
};
#pragma GCC visibility pop
