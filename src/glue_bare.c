/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Directories without a .htaccess file that says anything. core looks for each directory's result
 * in r->htaccess, which is a list, so that even results that are all "nothing" cost more with each
 * level. Where all directories of a request's path are known to have nothing, core's walk is run
 * with a stand-in of the server: the same <Directory> sections, but with AllowOverride None, for
 * which core does not look. Nothing else of a section depends on it; what the walk leaves in the
 * merged configuration of AllowOverride is put right before anybody sees it.
 *
 * Each section that sets AllowOverride gets in its stand-in an empty AllowOverrideList of its own.
 * The list that ends up in the merged configuration tells which section's setting has won. So there
 * is no stand-in for a server that uses AllowOverrideList.
 */
#include "mod_htcache.h"

/* A section's setting. */
typedef struct setting {
    const apr_table_t *mark;
    unsigned override;
} setting;

struct htc_bare {
    server_rec stand_in;
    int nsettings;
    setting *settings;
};

static ap_conf_vector_t *copy_of(apr_pool_t *pool, const ap_conf_vector_t *vector)
{
    ap_conf_vector_t *copy = ap_create_request_config(pool);

    for (module *m = ap_top_module; m; m = m->next)
        ap_set_module_config(copy, m, ap_get_module_config(vector, m));
    return copy;
}

static ap_conf_vector_t *section_of(apr_pool_t *pool, htc_bare *bare,
                                    const ap_conf_vector_t *section)
{
    ap_conf_vector_t *copy = copy_of(pool, section);
    core_dir_config *core = ap_get_core_module_config(section);

    if (!core)
        return copy;
    core = apr_pmemdup(pool, core, sizeof(*core));
    if (!(core->override & OR_UNSET)) {
        bare->settings[bare->nsettings].override = core->override;
        core->override_list = apr_table_make(pool, 1);
        bare->settings[bare->nsettings++].mark = core->override_list;
        core->override = OR_NONE;
    }
    ap_set_core_module_config(copy, core);
    return copy;
}

/* Before any directory is looked into, the root's section must have set AllowOverride; and nobody
 * may have set a list. */
static bool possible(const server_rec *s, const core_server_config *core)
{
    const core_dir_config *defaults = ap_get_core_module_config(s->lookup_defaults);
    bool root = false;

    if (!core->sec_dir || !defaults || defaults->override_list)
        return false;
    for (int i = 0; i < core->sec_dir->nelts; i++) {
        const core_dir_config *dir =
            ap_get_core_module_config(APR_ARRAY_IDX(core->sec_dir, i, ap_conf_vector_t *));

        if (!dir || dir->override_list)
            return false;
        root = root || (!(dir->override & OR_UNSET) && !dir->r && !dir->d_is_fnmatch && dir->d &&
                        !strcmp(dir->d, "/"));
    }
    return root;
}

/* A server with these sections, otherwise as it is. */
static void stand_in(htc_bare *bare, apr_pool_t *pool, const server_rec *s,
                     apr_array_header_t *sections)
{
    core_server_config *core =
        apr_pmemdup(pool, ap_get_core_module_config(s->module_config), sizeof(*core));

    core->sec_dir = sections;
    bare->stand_in = *s;
    bare->stand_in.module_config = copy_of(pool, s->module_config);
    ap_set_core_module_config(bare->stand_in.module_config, core);
}

static bool setting_of(const htc_bare *bare, const core_dir_config *core, setting *found)
{
    for (int i = 0; i < bare->nsettings; i++) {
        if (core->override_list == bare->settings[i].mark) {
            *found = bare->settings[i];
            return true;
        }
    }
    return false;
}

htc_bare *htc_bare_create(apr_pool_t *pool, const server_rec *s)
{
    const core_server_config *core = ap_get_core_module_config(s->module_config);
    apr_array_header_t *sections;
    htc_bare *bare;

    if (!possible(s, core))
        return NULL;
    bare = apr_pcalloc(pool, sizeof(*bare));
    bare->settings = apr_pcalloc(pool, (size_t)core->sec_dir->nelts * sizeof(*bare->settings));
    sections = apr_array_make(pool, core->sec_dir->nelts, sizeof(ap_conf_vector_t *));
    for (int i = 0; i < core->sec_dir->nelts; i++)
        APR_ARRAY_PUSH(sections, ap_conf_vector_t *) =
            section_of(pool, bare, APR_ARRAY_IDX(core->sec_dir, i, ap_conf_vector_t *));
    stand_in(bare, pool, s, sections);
    return bare;
}

/* The configuration was merged for this request, so it may be changed. */
static void put_right(const htc_bare *bare, const request_rec *r)
{
    core_dir_config *core = ap_get_core_module_config(r->per_dir_config);
    setting found;

    if (setting_of(bare, core, &found)) {
        core->override = found.override;
        core->override_list = NULL;
    }
}

/* core also looks for a .htaccess file "in" the file, to be told that it is no directory; but of a
 * path that is too long with AccessFileName behind it that is an error, and it refuses the request.
 * Somewhat longer ones it does not walk at all. */
#define MAX_PATH (APR_PATH_MAX - 1024)

bool htc_bare_suits(request_rec *r, const char *name)
{
    if ((size_t)(name - r->filename) + strlen(name) > MAX_PATH)
        return false;
    /* Of a directory with something behind it core walks on. */
    if (!*name && r->path_info && *r->path_info)
        return false;
    /* core does the same first; and asks for the .htaccess file of the last component if it is a
     * directory, of which nothing is known here. */
    if (r->finfo.filetype == APR_NOFILE &&
        ap_run_dirwalk_stat(&r->finfo, r, APR_FINFO_MIN) != APR_SUCCESS)
        r->finfo.filetype = APR_NOFILE;
    return r->finfo.filetype == (*name ? APR_REG : APR_DIR);
}

/* What core's map_to_storage does. */
int htc_bare_walk(htc_bare *bare, request_rec *r)
{
    const ap_conf_vector_t *defaults = r->per_dir_config;
    server_rec *server = r->server;
    int status;

    r->server = &bare->stand_in;
    status = ap_directory_walk(r);
    r->server = server;
    if (r->per_dir_config != defaults) /* which are everybody's */
        put_right(bare, r);
    return status ? status : ap_file_walk(r);
}
