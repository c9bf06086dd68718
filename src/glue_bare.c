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
 *
 * core merges the sections of a path anew for each request. Below the document root these are the
 * same for most paths, so there is a second stand-in, with one section: what core would have made
 * of them. That one is still merged with the server's defaults for each request, so that no two
 * requests have the same configuration (core takes equal ones for "access was checked before").
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
    const apr_array_header_t *sections; /* of the stand-in: each is a copy */
    htc_bare *merged;                   /* has one section in place of some; or NULL */
    const core_dir_config *last;        /* of a merged one: the last of these */
    unsigned components;                /* and what core's walk has of it at the end */
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
    bare->sections = sections;
    bare->stand_in = *s;
    bare->stand_in.module_config = copy_of(pool, s->module_config);
    ap_set_core_module_config(bare->stand_in.module_config, core);
}

/* --- sections merged ahead --------------------------------------------------------------------*/

static const core_dir_config *section_at(const htc_bare *bare, int i)
{
    return ap_get_core_module_config(APR_ARRAY_IDX(bare->sections, i, ap_conf_vector_t *));
}

static bool begins_with(const char *dir, const char *with)
{
    return !strncmp(dir, with, strlen(with));
}

/* Whether it is for this directory and what is in it depends on how the path begins. */
static bool covers(const core_dir_config *section, const char *dir)
{
    return !section->d_components || begins_with(dir, section->d);
}

/* With these, and after any of them, core follows links without looking for them. It asks at each
 * directory what the sections down to there say, of which one section for all would know nothing.
 */
static bool follows_links(const core_dir_config *section)
{
    return ((section->opts & OPT_UNSET) ||
            (section->opts & (OPT_SYM_LINKS | OPT_SYM_OWNER)) == OPT_SYM_LINKS) &&
           !(section->opts_add & OPT_SYM_OWNER) && !(section->opts_remove & OPT_SYM_LINKS);
}

/* Is this a module of httpd's own? Merging is to have no other effect, and what comes of it to be
 * good for many requests; of others nobody knows. */
static bool is_known(const module *m)
{
    struct htc_allow_entry entry;

    for (size_t i = 0; htc_allow_entry(i, &entry); i++) {
        if (!strcmp(entry.module_name, m->name))
            return true;
    }
    return m == &htcache_module;
}

static bool may_merge(const ap_conf_vector_t *base, const ap_conf_vector_t *add)
{
    for (const module *m = ap_top_module; m; m = m->next) {
        if (m->merge_dir_config && ap_get_module_config(base, m) && ap_get_module_config(add, m) &&
            !is_known(m))
            return false;
    }
    return true;
}

/* The sections for what is in this directory, as core's walk would merge them, or NULL. */
static ap_conf_vector_t *merge_sections(apr_pool_t *pool, htc_bare *bare, const htc_bare *all,
                                        const char *dir)
{
    ap_conf_vector_t *merged = NULL;
    int n = 0;

    for (int i = 0; i < all->sections->nelts; i++) {
        ap_conf_vector_t *section = APR_ARRAY_IDX(all->sections, i, ap_conf_vector_t *);
        const core_dir_config *core = section_at(all, i);

        if (core->r || core->d_is_fnmatch || !core->d || !follows_links(core))
            return NULL;
        if (!covers(core, dir))
            continue;
        if (merged && !may_merge(merged, section))
            return NULL;
        merged = merged ? ap_merge_per_dir_configs(pool, merged, section) : section;
        bare->last = core;
        n++;
    }
    return n > 1 ? merged : NULL;
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

/* One section in place of those for the document root. It says whose AllowOverride has won. */
static htc_bare *merge_ahead(apr_pool_t *pool, const server_rec *s, const htc_bare *all,
                             const char *root)
{
    const core_dir_config *defaults = ap_get_core_module_config(s->lookup_defaults);
    htc_bare *bare = apr_pcalloc(pool, sizeof(*bare));
    apr_array_header_t *sections = apr_array_make(pool, 1, sizeof(ap_conf_vector_t *));
    ap_conf_vector_t *merged;
    core_dir_config *core;

    if (!root || !*root || !follows_links(defaults) || !(defaults->opts & OPT_SYM_LINKS))
        return NULL;
    if (root[strlen(root) - 1] != '/')
        root = apr_pstrcat(pool, root, "/", NULL);
    merged = merge_sections(pool, bare, all, root);
    if (!merged)
        return NULL;
    core = ap_get_core_module_config(merged);
    bare->settings = apr_pcalloc(pool, sizeof(*bare->settings));
    bare->nsettings = 1;
    if (!setting_of(all, core, bare->settings))
        return NULL;
    bare->settings->mark = core->override_list = NULL;
    bare->components = core->d_components;
    core->d_components = 0; /* for all paths */
    APR_ARRAY_PUSH(sections, ap_conf_vector_t *) = merged;
    stand_in(bare, pool, s, sections);
    return bare;
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
    bare->merged = merge_ahead(pool, s, bare, core->ap_document_root);
    return bare;
}

/* A file in the directory may have the name of a section, which core's walk then takes for it. */
htc_bare *htc_bare_for(htc_bare *bare, const char *dir)
{
    if (!bare || !bare->merged)
        return bare;
    for (int i = 0; i < bare->sections->nelts; i++) {
        const core_dir_config *section = section_at(bare, i);

        if (covers(section, dir) != covers(section, bare->merged->last->d) ||
            (section->d_components && strcmp(section->d, dir) != 0 && begins_with(section->d, dir)))
            return bare;
    }
    return bare->merged;
}

/* The configuration was merged for this request, so it may be changed. */
static void put_right(const htc_bare *bare, const request_rec *r)
{
    core_dir_config *core = ap_get_core_module_config(r->per_dir_config);
    setting found;

    if (bare->last)
        core->d_components = bare->components;
    if (setting_of(bare, core, &found)) {
        core->override = found.override;
        core->override_list = NULL;
    }
}

bool htc_bare_suits(request_rec *r, const char *name)
{
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
