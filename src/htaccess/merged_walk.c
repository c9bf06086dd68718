/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * core's walk of the directories, made once for a directory instead of for each request. Where the
 * .htaccess files of all directories on a path are known, and links are followed without a look,
 * all that core does is merge. It merges those files, the <Directory> sections of the path, and the
 * server's defaults. The result is the same for each request. A request gets a copy of the vector:
 * core takes one that has its parent's configuration for authorized already.
 *
 * core leaves a note for subrequests: what its walk has merged, and for which directory. The next
 * walk begins with it. Where it comes to the same, the subrequest gets the same configuration and
 * is not authorized again. So the same note is left here. Its layout is core's own
 * (module/httpd_internals.h); nothing is made ahead before it was found to be as expected.
 *
 * What core's walk does was read in ap_directory_walk(), server/request.c of httpd 2.4. Called by
 * htaccess/shortcut.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"
#include "redirects/redirects.h"
#include "base/base.h"

static const apr_array_header_t *sections_of(const server_rec *s)
{
    const core_server_config *core = ap_get_core_module_config(s->module_config);

    return core->sec_dir;
}

static const core_dir_config *core_of(const ap_conf_vector_t *section)
{
    return ap_get_core_module_config(section);
}

/* With these, and after any of them, core follows links without looking for them. */
static bool follows_links(const core_dir_config *section)
{
    return ((section->opts & OPT_UNSET) ||
            (section->opts & (OPT_SYM_LINKS | OPT_SYM_OWNER)) == OPT_SYM_LINKS) &&
           !(section->opts_add & OPT_SYM_OWNER) && !(section->opts_remove & OPT_SYM_LINKS);
}

bool htc_merged_walk_possible(const server_rec *s)
{
    const apr_array_header_t *sections = sections_of(s);
    const core_dir_config *defaults = core_of(s->lookup_defaults);

    if (!sections || !defaults || !follows_links(defaults) || !(defaults->opts & OPT_SYM_LINKS))
        return false;
    for (int i = 0; i < sections->nelts; i++) {
        const core_dir_config *core = core_of(APR_ARRAY_IDX(sections, i, ap_conf_vector_t *));

        /* A regular expression is matched against the whole path of each file. */
        if (!core || core->r || !core->d)
            return false;
    }
    return true;
}

/* --- which sections a directory has -----------------------------------------------------------*/

/* As core does once it has come to the directory with as many components. */
static bool covers(const core_dir_config *section, const char *dir)
{
    return !section->d_components || htc_directory_matches(section->d, section->d_is_fnmatch, dir);
}

/* core takes a file for a directory of that name when it looks for sections. */
static bool may_be_file(const core_dir_config *section, const char *dir)
{
    return section->d_components == (unsigned)ap_count_dirs(dir) + 1 &&
           (section->d_is_fnmatch || !strncmp(section->d, dir, strlen(dir)));
}

/* A <Perl> section leaves no directive in the tree. */
static bool may_stand_somewhere(const char *directive)
{
    return htc_tree_mentions(ap_conftree, directive) || ap_find_linked_module("mod_perl.c");
}

static bool may_share(const module *m)
{
    const char *unless;

    return htc_merge_shared(m->name, &unless) && !(unless && may_stand_somewhere(unless));
}

void htc_merged_walk_prepare(htc_context *ctx)
{
    int n = 0;

    for (const module *m = ap_top_module; m; m = m->next)
        n = m->module_index < n ? n : m->module_index + 1;
    ctx->shares_merged = apr_pcalloc(ctx->pconf, (apr_size_t)n * sizeof(bool));
    for (const module *m = ap_top_module; m; m = m->next)
        ctx->shares_merged[m->module_index] = may_share(m);
}

/* True when httpd would merge only configurations whose merged form requests may share. */
static bool may_merge(const htc_context *ctx, const ap_conf_vector_t *base,
                      const ap_conf_vector_t *add)
{
    for (const module *m = ap_top_module; m; m = m->next) {
        if (m->merge_dir_config && ap_get_module_config(base, m) && ap_get_module_config(add, m) &&
            !ctx->shares_merged[m->module_index])
            return false;
    }
    return true;
}

/* --- merging ----------------------------------------------------------------------------------*/

/* As core's core_opts_merge(). */
void htc_rights_add(htc_rights *rights, const server_rec *s, const char *dir, const char *above)
{
    const apr_array_header_t *sections = sections_of(s);

    for (int i = 0; sections && i < sections->nelts; i++) {
        const core_dir_config *core = core_of(APR_ARRAY_IDX(sections, i, ap_conf_vector_t *));

        if (core && core->r)
            break; /* as core does: these come last, and it looks at no other behind them */
        if (!core || !core->d || !covers(core, dir) || (above && covers(core, above)))
            continue;
        if (!(core->override & OR_UNSET)) {
            rights->override = core->override;
            rights->override_opts = core->override_opts;
        }
        if (core->override_list)
            rights->override_list = core->override_list;
    }
}

/* A merge that was made before. */
typedef struct merge_made {
    const ap_conf_vector_t *base, *more;
    ap_conf_vector_t *made; /* NULL: none */
} merge_made;

/* What came of the same two; NULL: nothing yet. */
static void *made_before(const merge_made *before, const module *m, const void *old,
                         const void *add)
{
    return before->made && ap_get_module_config(before->base, m) == old &&
                   ap_get_module_config(before->more, m) == add
               ? ap_get_module_config(before->made, m)
               : NULL;
}

/* What the walk down to a directory is merged into. What was merged above is not changed. */
typedef struct merging {
    htc_merged_walk *walk;
    const htc_context *ctx;
    const htc_merged_walk *above, *model;
    const server_rec *model_server;
    apr_pool_t *pool;
} merging;

/* As ap_merge_per_dir_configs(), in a vector of just the size that the loaded modules need. What was
 * merged of the same two for the directory above, or for the model, need not be merged again. */
static ap_conf_vector_t *merge(const merging *to, const ap_conf_vector_t *base,
                               const ap_conf_vector_t *more, const merge_made *above,
                               const merge_made *model)
{
    ap_conf_vector_t *made;

    if (model->made && more == model->more && !memcmp(base, model->base, to->ctx->vector_bytes)) {
        to->walk->leans = true;
        return model->made;
    }
    made = apr_pmemdup(to->pool, base, to->ctx->vector_bytes);
    for (const module *m = ap_top_module; m; m = m->next) {
        void *add = ap_get_module_config(more, m), *old = ap_get_module_config(base, m), *before;

        if (!add)
            continue;
        if (old && m->merge_dir_config) {
            before = made_before(above, m, old, add);
            if (!before) {
                before = made_before(model, m, old, add);
                to->walk->leans |= before != NULL;
            }
            add = before ? before : m->merge_dir_config(to->pool, old, add);
        }
        ap_set_module_config(made, m, add);
    }
    return made;
}

/* With room for a section and a file. */
static apr_array_header_t *copy_steps(const apr_array_header_t *steps, apr_pool_t *pool)
{
    apr_array_header_t *copy = apr_array_make(pool, steps->nelts + 2, steps->elt_size);

    apr_array_cat(copy, steps);
    return copy;
}

static void note_step(const merging *m, const ap_conf_vector_t *matched)
{
    htc_merged_walk *walk = m->walk;
    htc_walk_step *step;

    if (!walk->walked)
        walk->walked = apr_array_make(m->pool, 1, sizeof(*step));
    else if (m->above && walk->walked == m->above->walked)
        walk->walked = copy_steps(walk->walked, m->pool);
    step = apr_array_push(walk->walked);
    step->matched = matched;
    step->merged = walk->merged;
}

/* The model's merge of as many steps as the walk has now, and one more. */
static merge_made made_for_model(const merging *m)
{
    const apr_array_header_t *steps = m->model ? m->model->walked : NULL;
    int n = m->walk->walked ? m->walk->walked->nelts : 0;

    return steps && n && n < steps->nelts
               ? (merge_made){APR_ARRAY_IDX(steps, n - 1, htc_walk_step).merged,
                              APR_ARRAY_IDX(steps, n, htc_walk_step).matched,
                              APR_ARRAY_IDX(steps, n, htc_walk_step).merged}
               : (merge_made){NULL, NULL, NULL};
}

static bool add(const merging *m, ap_conf_vector_t *vector)
{
    const merge_made none = {NULL, NULL, NULL}, model = made_for_model(m);
    htc_merged_walk *walk = m->walk;
    const core_dir_config *core = core_of(vector);

    if ((core && !follows_links(core)) ||
        (walk->merged && !may_merge(m->ctx, walk->merged, vector)))
        return false;
    walk->merged = walk->merged ? merge(m, walk->merged, vector, &none, &model) : vector;
    note_step(m, vector);
    return true;
}

/* The sections of a directory that the one above it does not have. */
static bool add_sections(const merging *m, const apr_array_header_t *sections, const char *dir,
                         const char *above)
{
    for (int i = 0; i < sections->nelts; i++) {
        ap_conf_vector_t *section = APR_ARRAY_IDX(sections, i, ap_conf_vector_t *);
        const core_dir_config *core = core_of(section);

        if (covers(core, dir) && !(above && covers(core, above)) && !add(m, section))
            return false;
    }
    return true;
}

static bool may_be_files(const apr_array_header_t *sections, const char *dir)
{
    for (int i = 0; i < sections->nelts; i++) {
        if (may_be_file(core_of(APR_ARRAY_IDX(sections, i, ap_conf_vector_t *)), dir))
            return true;
    }
    return false;
}

static bool has_files_of(const htc_merged_walk *walk, const htc_merged_walk *other)
{
    return other && other->ready &&
           core_of(other->ready)->sec_file == core_of(walk->ready)->sec_file;
}

/* Most files set no section, so the list is that of the directory above. */
static const unsigned char *files_of(const merging *m)
{
    if (has_files_of(m->walk, m->above))
        return m->above->files;
    if (!has_files_of(m->walk, m->model))
        return htc_file_literals(m->walk->ready, m->pool);
    m->walk->leans = true;
    return m->model->files;
}

static merge_made made_ready(const server_rec *s, const htc_merged_walk *walk)
{
    return walk && walk->ready ? (merge_made){s->lookup_defaults, walk->merged, walk->ready}
                               : (merge_made){NULL, NULL, NULL};
}

/* The last merge, if that can be done ahead, too. */
static void make_ready(const merging *m, const server_rec *s)
{
    const merge_made above = made_ready(s, m->above);
    const merge_made model = made_ready(m->model_server, m->model);
    htc_merged_walk *walk = m->walk;

    if (m->above && walk->merged == m->above->merged) {
        walk->ready = m->above->ready;
        walk->files = m->above->files;
        return;
    }
    if (may_merge(m->ctx, s->lookup_defaults, walk->merged))
        walk->ready = merge(m, s->lookup_defaults, walk->merged, &above, &model);
    if (walk->ready)
        walk->files = files_of(m);
}

void htc_merged_walk_create(htc_merged_walk *walk, const htc_context *ctx, const server_rec *s,
                            const htc_merged_step *step, const char *above_dir,
                            const htc_merged_walk *above, const htc_merged_model *model,
                            apr_pool_t *pool)
{
    const apr_array_header_t *sections = sections_of(s);
    const merging m = {walk, ctx, above, model->walk, model->server, pool};

    memset(walk, 0, sizeof(*walk));
    walk->merged = above ? above->merged : NULL;
    walk->walked = above ? above->walked : NULL;
    walk->known = (!above || above->known) && add_sections(&m, sections, step->dir, above_dir) &&
                  (!step->vector || add(&m, step->vector));
    if (walk->known && walk->walked)
        make_ready(&m, s);
    walk->whole = walk->known && walk->walked && !may_be_files(sections, step->dir);
}

/* --- core's note ------------------------------------------------------------------------------*/

bool htc_merged_walk_verify(const htc_merged_walk *walk, const char *dir, const request_rec *r)
{
    return walk->whole && !r->main && !r->prev &&
           htc_walk_note_matches(r, dir, sections_of(r->server), walk->walked);
}

/* --- a request --------------------------------------------------------------------------------*/

/* core also looks for a .htaccess file "in" the file, to be told that it is no directory. When the
 * path is too long with AccessFileName behind it, that is an error, and core refuses the request.
 * Somewhat longer paths it does not walk at all. */
#define MAX_PATH (APR_PATH_MAX - 1024)

/* A file that is not there: core looks at each component, from the top down. Where the directory is
 * one and no link, and the name is not even a dangling link, all of these looks end well: a
 * directory above that is a link may be followed. What the last look but one found stays in
 * r->finfo, as core leaves it. */
static HTC_APART bool is_missing(request_rec *r, const char *dir)
{
    const apr_int32_t wanted = APR_FINFO_MIN | APR_FINFO_NAME | APR_FINFO_LINK;
    char *path = r->filename;
    apr_size_t len = strlen(dir);
    apr_status_t rv;
    apr_finfo_t found;

    if (len < 2)
        return false; /* core does not look at the root */
    r->filename = apr_pstrmemdup(r->pool, dir, len - 1);
    rv = ap_run_dirwalk_stat(&found, r, wanted);
    r->filename = path;
    if ((rv != APR_SUCCESS && rv != APR_INCOMPLETE) || !(found.valid & APR_FINFO_TYPE) ||
        found.filetype != APR_DIR || (found.valid & APR_FINFO_NAME))
        return false;
    rv = ap_run_dirwalk_stat(&found, r, wanted);
    if (!APR_STATUS_IS_ENOENT(rv))
        return false;
    found.filetype = APR_NOFILE;
    r->finfo = found;
    return true;
}

HTC_EACH bool htc_merged_walk_suits(const htc_merged_walk *walk, request_rec *r, const char *dir,
                                    const char *name)
{
    apr_status_t rv = APR_SUCCESS;

    /* The notes of other requests decide about subrequests, so core walks for these. Core also
     * walks on from a directory with something behind it. */
    if (!walk->whole || r->main || r->prev || htc_walk_note_present(r) ||
        (!*name && r->path_info && *r->path_info) ||
        (size_t)(name - r->filename) + strlen(name) > MAX_PATH)
        return false;
    /* core does the same first. */
    if (r->finfo.filetype == APR_NOFILE) {
        rv = ap_run_dirwalk_stat(&r->finfo, r, APR_FINFO_MIN);
        if (rv != APR_SUCCESS)
            r->finfo.filetype = APR_NOFILE;
    }
    return r->finfo.filetype == (*name ? APR_REG : APR_DIR) ||
           (*name && APR_STATUS_IS_ENOENT(rv) && is_missing(r, dir));
}

/* The rest of core's walk when everything is known; and then of its map_to_storage. core leaves a
 * note of its walk of <Files> sections, too. One that says that none matched makes no difference to
 * a subrequest, so it is not left. */
HTC_EACH int htc_merged_walk_run(const htc_merged_walk *walk, const htc_context *ctx,
                                 request_rec *r, const char *dir, const char *name)
{
    const ap_conf_vector_t *defaults = r->per_dir_config;
    size_t len = strlen(r->filename);
    char *path = apr_palloc(r->pool, len + 2);

    /* Its own, as modules may write to it; and behind it the path_info that there is none of. */
    memcpy(path, r->filename, len + 1);
    path[len + 1] = '\0';
    r->filename = r->canonical_filename = path;
    if (r->finfo.filetype == APR_NOFILE)
        r->finfo.fname = path; /* core's last look was at the name that it leaves in r->filename */
    if (!r->path_info)
        r->path_info = path + len + 1;
    /* A vector of its own: core knows the request's configuration by its address, and modules may
     * put something into it. */
    r->per_dir_config = walk->ready
                            ? apr_pmemdup(r->pool, walk->ready, ctx->vector_bytes)
                            : ap_merge_per_dir_configs(r->pool, r->per_dir_config, walk->merged);
    htc_walk_note_leave(r, dir, sections_of(r->server), defaults, walk->walked);
    return walk->files && !redirect_literals_any(walk->files, name) ? OK : ap_file_walk(r);
}
