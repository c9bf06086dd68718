/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Where the status page may be: only where the server's configuration says SetHandler
 * htcache-status. With AllowOverride FileInfo anybody may write that line into a .htaccess file of
 * his own; the page names directories of others and, by POST, forgets what is cached of them.
 * Called by glue_status.c for requests that have this handler.
 */
#include "glue_status.h"

#include "ap_expr.h"
#include "http_core.h"

#include "apr_fnmatch.h"

#define DEEPEST 5 /* sections within sections that are looked at */

static bool names_handler(request_rec *r, const core_dir_config *conf)
{
    const char *name = conf->handler, *fault = NULL;

    if (!name && conf->expr_handler)
        name = ap_expr_str_exec(r, conf->expr_handler, &fault);
    return name && !fault && !strcmp(name, HTC_STATUS_HANDLER);
}

static bool any_names_handler(request_rec *r, const apr_array_header_t *sections, int depth);

/* As ap_file_walk() and ap_if_walk() choose. <Else> has no condition of its own. */
static bool holds(request_rec *r, const core_dir_config *conf)
{
    const char *slash = r->filename ? strrchr(r->filename, '/') : NULL, *err = NULL;
    const char *name = slash ? slash + 1 : "";

    if (conf->condition)
        return ap_expr_exec(r, conf->condition, &err) > 0;
    if (conf->r)
        return !ap_regexec(conf->r, name, 0, NULL, 0);
    if (conf->d_is_fnmatch)
        return !apr_fnmatch(conf->d, name, APR_FNM_PATHNAME);
    return !conf->d || !strcmp(conf->d, name);
}

/* The section, or one in it that holds: all are the administrator's. */
static bool section_names_handler(request_rec *r, ap_conf_vector_t *section, int depth)
{
    const core_dir_config *conf = ap_get_core_module_config(section);

    return names_handler(r, conf) ||
           (depth < DEEPEST && (any_names_handler(r, conf->sec_file, depth + 1) ||
                                any_names_handler(r, conf->sec_if, depth + 1)));
}

static bool any_names_handler(request_rec *r, const apr_array_header_t *sections, int depth)
{
    for (int i = 0; sections && i < sections->nelts; i++) {
        ap_conf_vector_t *section = APR_ARRAY_IDX(sections, i, ap_conf_vector_t *);

        if (holds(r, ap_get_core_module_config(section)) &&
            section_names_handler(r, section, depth))
            return true;
    }
    return false;
}

/* As ap_location_walk() and ap_directory_walk() compare, but that a path of slashes is not made
 * one. */
static bool is_for(const core_dir_config *conf, const char *path)
{
    size_t len = conf->d ? strlen(conf->d) : 0;

    if (conf->r)
        return !ap_regexec(conf->r, path, 0, NULL, 0);
    if (conf->d_is_fnmatch)
        return !apr_fnmatch(conf->d, path, APR_FNM_PATHNAME);
    return !len || (!strncmp(conf->d, path, len) &&
                    (conf->d[len - 1] == '/' || path[len] == '/' || !path[len]));
}

static bool any_is_for(request_rec *r, const apr_array_header_t *sections, const char *path)
{
    for (int i = 0; path && sections && i < sections->nelts; i++) {
        ap_conf_vector_t *section = APR_ARRAY_IDX(sections, i, ap_conf_vector_t *);

        if (is_for(ap_get_core_module_config(section), path) &&
            section_names_handler(r, section, 0))
            return true;
    }
    return false;
}

bool htc_status_is_configured(request_rec *r)
{
    const core_server_config *server = ap_get_core_module_config(r->server->module_config);

    return any_is_for(r, server->sec_url, r->uri) || any_is_for(r, server->sec_dir, r->filename) ||
           section_names_handler(r, r->server->lookup_defaults, 0);
}
