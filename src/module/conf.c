/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The directives: reading, checking and merging them. Every wrong argument is an error with a
 * sentence that says what is allowed; httpd adds file and line.
 */
#include "module/module.h"

#define HTC_MAX_REVALIDATE_MS (INT64_C(24) * 3600 * 1000)

/* Directives that hold for the whole server have nowhere to go but here: their handlers run before
 * post_config, which builds the context from it. Reset for every reading of the configuration. */
static htc_options *current_options;

static apr_status_t options_forget(void *data)
{
    (void)data;
    current_options = NULL;
    return APR_SUCCESS;
}

void htc_options_reset(apr_pool_t *pconf)
{
    current_options = apr_pcalloc(pconf, sizeof(*current_options));
    current_options->memory = HTC_DEFAULT_MEMORY;
    current_options->process_memory = HTC_DEFAULT_PROCESS_MEMORY;
    current_options->counters_file = HTC_COUNTERS_FILE;
    current_options->counters_interval = apr_time_from_sec(HTC_COUNTERS_SECONDS);
    current_options->trusted = apr_array_make(pconf, 2, sizeof(const char *));
    current_options->on.files = apr_array_make(pconf, 2, sizeof(const char *));
    current_options->folds = apr_array_make(pconf, 2, sizeof(void *));
    current_options->counted = apr_array_make(pconf, 2, sizeof(void *));
    current_options->tracked = apr_array_make(pconf, 2, sizeof(void *));
    current_options->blocks = apr_array_make(pconf, 2, sizeof(void *));
    current_options->maps = apr_array_make(pconf, 2, sizeof(void *));
    apr_pool_cleanup_register(pconf, NULL, options_forget, apr_pool_cleanup_null);
}

htc_options *htc_options_get(void)
{
    return current_options;
}

void *htc_create_server_conf(apr_pool_t *p, server_rec *s)
{
    htc_server_conf *sc = apr_pcalloc(p, sizeof(*sc));

    (void)s;
    sc->own.enabled = -1;
    sc->own.admin = -1;
    sc->own.revalidate_ms = -1;
    sc->share_percent = -1;
    sc->counters = -1;
    sc->missing = -1;
    return sc;
}

void *htc_merge_server_conf(apr_pool_t *p, void *base_, void *add_)
{
    htc_server_conf *base = base_, *add = add_;
    htc_server_conf *sc = apr_pmemdup(p, add, sizeof(*sc));
    const htc_dir_conf *own = htc_merge_dir_conf(p, &base->own, &add->own);

    sc->own = *own;
    if (sc->share_percent == -1)
        sc->share_percent = base->share_percent;
    if (sc->counters == -1)
        sc->counters = base->counters;
    if (sc->missing == -1)
        sc->missing = base->missing;
    if (!add->exclude)
        sc->exclude = base->exclude;
    else if (base->exclude)
        sc->exclude = apr_array_append(p, base->exclude, add->exclude);
    sc->location_used = base->location_used || add->location_used;
    return sc;
}

void *htc_create_dir_conf(apr_pool_t *p, char *path)
{
    htc_dir_conf *dc = apr_palloc(p, sizeof(*dc));

    (void)path;
    dc->enabled = -1;
    dc->admin = -1;
    dc->revalidate_ms = -1;
    dc->maps = NULL;
    dc->folds = NULL;
    dc->first_file = NULL;
    dc->first_line = 0;
    dc->filter = NULL;
    dc->tracks = NULL;
    return dc;
}

void *htc_merge_dir_conf(apr_pool_t *p, void *base_, void *add_)
{
    htc_dir_conf *base = base_, *add = add_;
    htc_dir_conf *dc = apr_palloc(p, sizeof(*dc));

    dc->enabled = add->enabled != -1 ? add->enabled : base->enabled;
    dc->admin = add->admin != -1 ? add->admin : base->admin;
    dc->revalidate_ms = add->revalidate_ms != -1 ? add->revalidate_ms : base->revalidate_ms;
    dc->maps = htc_chain_merge(p, add->maps, base->maps);
    dc->folds = htc_chain_merge(p, add->folds, base->folds);
    dc->first_file = add->first_file ? add->first_file : base->first_file;
    dc->first_line = add->first_file ? add->first_line : base->first_line;
    dc->filter = add->filter ? add->filter : base->filter;
    dc->tracks = htc_chain_merge(p, add->tracks, base->tracks);
    return dc;
}

static bool inside(const cmd_parms *cmd, const char *section)
{
    for (const ap_directive_t *d = cmd->directive->parent; d; d = d->parent) {
        if (!strcasecmp(d->directive, section))
            return true;
    }
    return false;
}

/* Where a directive for S, V and D stores its value: the server's own, or the section's. */
static htc_dir_conf *target_conf(cmd_parms *cmd, void *dir_conf)
{
    htc_server_conf *sc = htc_server_conf_of(cmd->server);

    if (!cmd->path)
        return &sc->own;
    if (inside(cmd, "<Location") || inside(cmd, "<LocationMatch"))
        sc->location_used = true;
    return dir_conf;
}

const char *htc_conf_set_enabled(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, NOT_IN_FILES | NOT_IN_LIMIT | NOT_IN_PROXY);

    if (err)
        return err;
    if (strcasecmp(arg, "on") && strcasecmp(arg, "off"))
        return apr_psprintf(cmd->pool, "HtCache '%s': give On or Off", arg);
    target_conf(cmd, dir_conf)->enabled = !strcasecmp(arg, "on");
    return NULL;
}

const char *htc_conf_set_admin(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    if (strcasecmp(arg, "on") && strcasecmp(arg, "off"))
        return apr_psprintf(cmd->pool, "HtCacheAdmin '%s': give On or Off", arg);
    ((htc_dir_conf *)dir_conf)->admin = !strcasecmp(arg, "on");
    current_options->secret.wanted |= !strcasecmp(arg, "on");
    return NULL;
}

/* Read when the whole configuration is known: see htc_secret_prepare(). */
const char *htc_conf_set_secret_file(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);

    (void)dir_conf;
    if (err)
        return err;
    current_options->secret.file = ap_server_root_relative(cmd->pool, arg);
    return current_options->secret.file
               ? NULL
               : apr_psprintf(cmd->pool, "HtCacheAdminSecretFile '%s': not a valid path", arg);
}

const char *htc_conf_set_revalidate(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, NOT_IN_FILES | NOT_IN_LIMIT | NOT_IN_PROXY);
    apr_interval_time_t interval = -1;

    if (err)
        return err;
    if (!strcasecmp(arg, "auto")) {
        target_conf(cmd, dir_conf)->revalidate_ms = HTC_REVALIDATE_AUTO;
        return NULL;
    }
    errno = 0;
    if (!apr_isdigit(*arg) || ap_timeout_parameter_parse(arg, &interval, "s") != APR_SUCCESS ||
        apr_time_as_msec(interval) > HTC_MAX_REVALIDATE_MS ||
        (interval > 0 && apr_time_as_msec(interval) == 0))
        return apr_psprintf(cmd->pool,
                            "HtCacheRevalidate '%s': give auto to be told of changes by the "
                            "kernel, 0 to compare with the disk on every request, or a time such "
                            "as 500ms, 1s or 1min, up to 24h",
                            arg);
    target_conf(cmd, dir_conf)->revalidate_ms = apr_time_as_msec(interval);
    return NULL;
}

/* "64M": digits and one optional unit. Sets *bytes; false when it is no size. */
static bool parse_size(const char *arg, uint64_t *bytes)
{
    char *end;
    apr_int64_t n;
    unsigned shift = 0;

    errno = 0;
    if (!apr_isdigit(*arg))
        return false;
    n = apr_strtoi64(arg, &end, 10);
    if (errno || n < 0)
        return false;
    switch (apr_toupper(*end)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    case 'T':
        shift = 40;
        break;
    default:
        break;
    }
    if ((shift && end[1]) || (!shift && *end) || (uint64_t)n > (UINT64_MAX >> 1 >> shift))
        return false;
    *bytes = (uint64_t)n << shift;
    return true;
}

const char *htc_conf_set_fold(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    (void)dir_conf;
    /* Its value was read from the tree before any directive was run, see redirects/fold_tree.c. */
    if (strcasecmp(arg, "on") && strcasecmp(arg, "off"))
        return apr_psprintf(cmd->pool, "HtCacheFold '%s': give On or Off", arg);
    return NULL;
}

static const char *set_size(cmd_parms *cmd, const char *arg, uint64_t min, uint64_t *value)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    uint64_t bytes;

    if (err)
        return err;
    if (!parse_size(arg, &bytes))
        return apr_psprintf(cmd->pool, "%s '%s': give a size such as 512K, 64M or 2G",
                            cmd->cmd->name, arg);
    if (bytes < min)
        return apr_psprintf(cmd->pool, "%s '%s': must be at least %" APR_UINT64_T_FMT "K",
                            cmd->cmd->name, arg, (apr_uint64_t)min >> 10);
    *value = bytes;
    return NULL;
}

const char *htc_conf_set_memory(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    (void)dir_conf;
    return set_size(cmd, arg, (uint64_t)HTC_STORE_MIN_BYTES * HTC_RECORDS_PART,
                    &current_options->memory);
}

const char *htc_conf_set_process_memory(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    (void)dir_conf;
    return set_size(cmd, arg, HTC_STORE_MIN_BYTES, &current_options->process_memory);
}

const char *htc_conf_set_share(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    char *end;
    long percent;

    (void)dir_conf;
    if (err)
        return err;
    percent = strtol(arg, &end, 10);
    if (!apr_isdigit(*arg) || (strcmp(end, "%") && *end) || percent < 1 || percent > 100)
        return apr_psprintf(
            cmd->pool, "HtCacheDocumentRootShare '%s': give a percentage from 1%% to 100%%", arg);
    htc_server_conf_of(cmd->server)->share_percent = (int)percent;
    return NULL;
}

const char *htc_conf_set_counters(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);

    (void)dir_conf;
    if (err)
        return err;
    if (strcasecmp(arg, "on") && strcasecmp(arg, "off"))
        return apr_psprintf(cmd->pool, "HtCacheCounters '%s': give On or Off", arg);
    htc_server_conf_of(cmd->server)->counters = !strcasecmp(arg, "on");
    return NULL;
}

const char *htc_conf_add_exclude(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);
    htc_server_conf *sc = htc_server_conf_of(cmd->server);
    char *path = ap_server_root_relative(cmd->pool, arg);
    size_t len;

    (void)dir_conf;
    if (err)
        return err;
    if (!path || apr_filepath_merge(&path, NULL, path, APR_FILEPATH_NOTRELATIVE, cmd->pool))
        return apr_psprintf(cmd->pool, "HtCacheExclude '%s': not a valid path", arg);
    if (!sc->exclude)
        sc->exclude = apr_array_make(cmd->pool, 2, sizeof(const char *));
    len = strlen(path);
    APR_ARRAY_PUSH(sc->exclude, const char *) =
        path[len - 1] == '/' ? path : apr_pstrcat(cmd->pool, path, "/", NULL);
    return NULL;
}

const char *htc_conf_add_trusted(cmd_parms *cmd, void *dir_conf, const char *arg)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);

    (void)dir_conf;
    if (err)
        return err;
    APR_ARRAY_PUSH(current_options->trusted, const char *) = arg;
    return NULL;
}
