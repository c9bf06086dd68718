/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Building what lies in the heap: from the records of a path to the entries of its directories.
 * Called by the builder process (htaccess/builder.c) for each request. What a file comes to is made
 * in htaccess/build_config.c.
 *
 * The builder decides by itself what may be shared. The <Directory> sections tell it which
 * directories core asks for, and with what rights. A file's record tells it what the file says. From
 * the request it takes the directory's name, and relies on nothing else there.
 */
#include "htaccess/htaccess.h"
#include "htaccess/build.h"
#include "htaccess/internal.h"

#define MOST_LEVELS 256

/* --- which directories core asks for ----------------------------------------------------------*/

static bool still_watched(const htc_building *b, const htc_info *info, apr_int64_t revalidate_ms)
{
    return revalidate_ms == HTC_REVALIDATE_AUTO &&
           info->checked_at == htc_watch_fresh(b->ctx->watch);
}

/* The first of the names in AccessFileName of which there is a file counts. False: something about
 * this directory is not known, or has to be asked each time. */
static bool find_records(const htc_building *b, htc_level *level)
{
    const core_server_config *core = ap_get_core_module_config(b->s->module_config);
    const char *names = core->access_name;

    while (*names) {
        const char *path =
            ap_make_full_path(b->scratch, level->dir, ap_getword_conf(b->scratch, &names));
        size_t len = strlen(path);
        htc_info info;

        if (level->ndeps == HTC_MAX_DEPS ||
            !htc_store_find(b->ctx->store, htc_store_hash(b->ctx->store, path, len), path, len,
                            &info) ||
            ((info.flags & HTC_RF_RACY) && !still_watched(b, &info, level->scope.revalidate_ms)))
            return false;
        level->deps[level->ndeps++] =
            (htc_dep){path, info.ref, info.kind, (info.flags & HTC_RF_RACY) != 0, info.id};
        if (info.kind == HTC_KIND_ABSENT)
            continue;
        level->file = info;
        level->path = path;
        if (info.kind != HTC_KIND_TREE || !htc_record_suits(info.flags, level->rights.override))
            return false;
        level->shareable = !(info.flags & HTC_RF_EMPTY);
        return !(info.flags & HTC_RF_REPLAY);
    }
    return level->ndeps > 0;
}

static bool asked(const htc_rights *rights)
{
    return rights->override || !apr_is_empty_table(rights->override_list);
}

/* From the top down to @a dir; how many of @a levels there are. 0: too many. */
static unsigned find_levels(const htc_building *b, const char *dir, htc_level *levels)
{
    const core_dir_config *defaults = ap_get_core_module_config(b->s->lookup_defaults);
    htc_rights rights = {defaults->override, defaults->override_opts, defaults->override_list};
    const char *above = NULL;
    unsigned n = 0;

    for (const char *slash = dir; slash; slash = strchr(slash + 1, '/')) {
        const char *here = apr_pstrmemdup(b->scratch, dir, (size_t)(slash - dir) + 1);

        htc_rights_add(&rights, b->s, here, above);
        above = here;
        if (!asked(&rights))
            continue;
        if (n == MOST_LEVELS)
            return 0;
        levels[n] = (htc_level){.dir = here, .rights = rights};
        levels[n].scope = b->sc->special ? htc_scope_of(b->sc, here, NULL) : b->sc->plain;
        levels[n].listable = levels[n].scope.enabled && find_records(b, &levels[n]);
        n++;
    }
    return n;
}

/* --- entries ----------------------------------------------------------------------------------*/

static bool same_refs(const htc_path_entry *entry, const htc_level *level)
{
    if (entry->ndeps != level->ndeps)
        return false;
    for (unsigned i = 0; i < entry->ndeps; i++) {
        if (entry->deps[i].ref.slot != level->deps[i].ref.slot ||
            entry->deps[i].ref.version != level->deps[i].ref.version)
            return false;
    }
    return true;
}

static void fill_deps(htc_path_entry *entry, const htc_level *level, apr_pool_t *pool)
{
    const char *known = entry->config ? entry->config->path : "";
    htc_dep *deps = apr_pmemdup(pool, level->deps, level->ndeps * sizeof(*deps));

    entry->ndeps = level->ndeps;
    for (unsigned i = 0; i < level->ndeps; i++) {
        deps[i].path = strcmp(deps[i].path, known) ? apr_pstrdup(pool, deps[i].path) : known;
        if (deps[i].kind == HTC_KIND_ABSENT)
            entry->absent++;
        else
            entry->hits++;
    }
    entry->deps = deps;
}

/* Right behind the directory, as every request reads both. */
static size_t steps_at(size_t dir_len)
{
    return APR_ALIGN_DEFAULT(offsetof(htc_path_entry, dir) + dir_len + 1);
}

/* The steps of the entry above, and then this entry's own. */
static void fill_steps(const htc_building *b, htc_path_entry *entry, const htc_path_entry *object)
{
    const htc_path_entry *parent = entry->parent;
    htc_step *steps;

    if (entry->ndeps != 1 || entry->revalidate_ms == 0 || (parent && !parent->steps))
        return;
    steps = (htc_step *)((char *)entry + steps_at(entry->dir_len));
    if (parent)
        memcpy(steps, parent->steps, parent->depth * sizeof(*steps));
    steps[entry->depth - 1] = (htc_step){htc_store_slot(b->ctx->store, entry->deps[0].ref.slot),
                                         entry->deps[0].ref.version};
    entry->steps = (const htc_step *)((const char *)object + steps_at(entry->dir_len));
}

static void fill_entry(const htc_building *b, const htc_heap_draft *draft, const htc_level *level,
                       const htc_path_entry *parent, const htc_config *config, bool complete,
                       bool walk, const htc_path_entry *model)
{
    htc_path_entry *entry = draft->payload;
    const htc_path_entry *object = draft->object;
    apr_pool_t *pool = draft->run.pool;
    htc_merged_step step = {entry->dir, NULL};
    const htc_merged_model same = {model ? &model->walk : NULL, model ? model->server : NULL};

    entry->dir_len = (unsigned)strlen(level->dir);
    memcpy(entry->dir, level->dir, entry->dir_len + 1);
    entry->server = b->s;
    entry->parent = parent;
    entry->config = config;
    entry->revalidate_ms = level->scope.revalidate_ms;
    entry->depth = parent ? parent->depth + 1 : 1;
    entry->hits = parent ? parent->hits : 0;
    entry->absent = parent ? parent->absent : 0;
    entry->complete = complete;
    entry->result.dir = object->dir;
    entry->result.override = level->rights.override;
    entry->result.override_opts = level->rights.override_opts;
    entry->result.override_list = level->rights.override_list;
    entry->result.next = parent ? &parent->result : NULL;
    /* An empty file has a vector of its own in each directory: core tells by the vectors'
     * addresses whether two paths have the same configuration. */
    if (config)
        step.vector = config->vector;
    else if (level->file.kind == HTC_KIND_TREE)
        step.vector = apr_pcalloc(pool, b->ctx->vector_bytes);
    entry->result.htaccess = step.vector;
    fill_deps(entry, level, pool);
    fill_steps(b, entry, object);
    if (complete && walk)
        htc_merged_walk_create(&entry->walk, b->ctx, b->s, &step, parent ? parent->dir : NULL,
                               parent ? &parent->walk : NULL, &same, pool);
}

/* Entries whose files have one content merge the same. So the later ones lean on the first: what was
 * merged of the same two there need not be merged, and kept, again. This is by content; of the
 * builder alone. */
static struct model {
    const void *content;
    const htc_path_entry *entry;
    uint64_t hash; /* of the entry */
} models[1024];

static struct model *model_for(const void *content)
{
    return &models[(uintptr_t)content / 128 % (sizeof(models) / sizeof(models[0]))];
}

static const htc_path_entry *find_model(const htc_building *b, const htc_config *config)
{
    const struct model *model = config && config->content ? model_for(config->content) : NULL;

    return model && model->content == config->content &&
                   htc_heap_has(b->ctx->heap, model->entry, model->hash)
               ? model->entry
               : NULL;
}

/* An entry that leans on another one is no model. What a model keeps in place besides may lean, so
 * chains are possible, and files can be written that make long ones: each entry of such a chain stays
 * while one that leans on it does, and the builder follows it. */
static void note_model(const htc_heap *heap, const htc_path_entry *entry, uint64_t hash)
{
    if (entry->config && entry->config->content && !entry->walk.leans &&
        htc_heap_depth(heap, entry) < HTC_HEAP_MOST_DEPTH)
        *model_for(entry->config->content) = (struct model){entry->config->content, entry, hash};
}

/* False for a cleanup. Merging compiles no regex, so each one belongs to something outside. */
static bool no_cleanup(void *baton, const void *data, apr_status_t (*plain)(void *))
{
    (void)baton;
    (void)data;
    return plain == apr_pool_cleanup_null;
}

static const htc_path_entry *build_entry(const htc_building *b, const htc_level *level,
                                         const htc_path_entry *parent, const htc_config *config,
                                         bool complete)
{
    const htc_entry_key key = {b->s, level->dir, strlen(level->dir)};
    const void *needs[HTC_HEAP_NEEDS] = {parent, config};
    uint64_t hash = htc_entry_hash(b->ctx, &key);
    size_t fixed = steps_at(key.len) + ((parent ? parent->depth : 0) + 1) * sizeof(htc_step);
    static size_t usual = HTC_BUILD_ROOM; /* what most entries took of late */
    bool scarce = htc_heap_scarce(b->ctx->heap);
    size_t room = scarce ? usual : HTC_BUILD_ROOM;
    bool walk = b->sc->walks;
    htc_heap_draft draft;

    for (int i = scarce ? -1 : 0; i < HTC_BUILD_TRIES; i++) {
        const htc_path_entry *model;

        if (i >= 0)
            room = HTC_BUILD_ROOM << 2 * i;
        if (!htc_heap_begin(b->ctx->heap, &draft, fixed, room, b->request->owner,
                            b->request->share))
            return NULL;
        model = find_model(b, config);
        fill_entry(b, &draft, level, parent, config, complete, walk, model);
        walk = walk && htc_run_each_cleanup(&draft.run, no_cleanup, NULL);
        if (htc_run_whole(&draft.run) && htc_run_each_cleanup(&draft.run, no_cleanup, NULL)) {
            size_t took = htc_run_used(&draft.run), less = usual - usual / 16;

            /* A few large ones make no difference to all others. */
            if (took <= HTC_BUILD_ROOM)
                usual = took > less ? took : less;
            needs[2] = ((const htc_path_entry *)draft.payload)->walk.leans ? model : NULL;
            htc_heap_publish(b->ctx->heap, &draft, HTC_HEAP_PATH_ENTRY, hash, htc_entry_match, &key,
                             needs);
            note_model(b->ctx->heap, draft.object, hash);
            return draft.object;
        }
        htc_heap_drop(b->ctx->heap, &draft);
    }
    return NULL;
}

/* The entry of a level, which may be there already. NULL: it has none. */
static const htc_path_entry *entry_of(const htc_building *b, const htc_level *level,
                                      const htc_config *config, const htc_path_entry *parent,
                                      bool complete)
{
    const htc_entry_key key = {b->s, level->dir, strlen(level->dir)};
    const htc_path_entry *entry =
        htc_heap_find(b->ctx->heap, htc_entry_hash(b->ctx, &key), htc_entry_match, &key);

    if (entry && entry->parent == parent && entry->complete == complete &&
        entry->config == config && same_refs(entry, level)) {
        htc_heap_keep(b->ctx->heap, entry);
        return entry;
    }
    entry = build_entry(b, level, parent, config, complete);
    if (entry)
        htc_heap_keep(b->ctx->heap, entry);
    return entry;
}

static bool build_path(const htc_building *b, const char *dir)
{
    htc_level *levels = apr_palloc(b->scratch, MOST_LEVELS * sizeof(*levels));
    unsigned n = find_levels(b, dir, levels);
    const htc_path_entry *entry = NULL, *made = NULL;
    const htc_config *config = NULL;
    bool complete = true;

    for (unsigned i = 0; i < n; i++) {
        const htc_level *level = &levels[i];

        config = level->shareable ? htc_build_config(b, level) : NULL;
        if (config)
            htc_heap_keep(b->ctx->heap, config);
        made = level->listable && b->ctx->shortcuts && (config ? !config->rest : !level->shareable)
                   ? entry_of(b, level, config, entry, complete)
                   : NULL;
        if (made)
            entry = made;
        complete = complete && made;
    }
    return made || config;
}

/* As core makes the paths that it asks for. */
static bool is_canonical(const char *dir)
{
    return *dir == '/' && !strstr(dir, "//") && !strstr(dir, "/./") && !strstr(dir, "/../");
}

/* The directory of a record's path, by the names that the server has for the file. NULL: it is
 * none. */
static const char *dir_of(const htc_building *b, const char *path)
{
    const core_server_config *core = ap_get_core_module_config(b->s->module_config);
    const char *names = core->access_name;
    size_t len = strlen(path);

    while (*names) {
        const char *name = ap_getword_conf(b->scratch, &names), *dir;
        size_t n = strlen(name);

        if (len <= n || path[len - n - 1] != '/' || strcmp(path + len - n, name))
            continue;
        dir = apr_pstrmemdup(b->scratch, path, len - n);
        return is_canonical(dir) ? dir : NULL;
    }
    return NULL;
}

bool htc_build(htc_context *ctx, server_rec *main_server, const htc_heap_request *request,
               apr_file_t *nowhere, apr_pool_t *scratch)
{
    htc_building b = {ctx, main_server, NULL, request, nowhere, scratch};
    const char *path, *dir;
    bool built = false;
    htc_info info;

    for (unsigned i = 0; b.s && i < request->server; i++)
        b.s = b.s->next;
    if (!b.s)
        return false;
    b.sc = htc_server_conf_of(b.s);
    if (!b.sc->may_be_enabled)
        return false;
    path = htc_store_name(ctx->store, request->record, b.scratch, &info);
    dir = path ? dir_of(&b, path) : NULL;
    if (dir)
        built = build_path(&b, dir);
    return built;
}
