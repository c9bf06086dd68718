/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Answering ahead of core. httpd keeps the .htaccess results of a request in a list, r->htaccess,
 * and looks there before it calls the hook. A path entry is one directory's ready-made element of
 * that list, linked to its parent directory's. One pointer to the deepest entry answers for the
 * whole path, without a copy, a lock or a system call. The builder makes entries (htaccess/build.c)
 * and keeps them in the heap by (server, directory). An entry is used only while every record that
 * it rests on has the version it was made with, and was checked within its time.
 *
 * core compares directory and override only. Both, and the other two override settings, follow from
 * the server and the directory, because core starts each walk from the same defaults. A request for
 * which something changed those defaults is not answered here.
 *
 * The address of a directory's vector matters, not only its contents (docs/identity.md). An empty
 * file has a vector, in which nothing is set; an absent file has none.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include "http_main.h"

/* Prefixes of a path that are tried before the request is left to the hook. A path below a
 * directory that does not exist (a "pretty URL") has a few. */
#define MAX_PREFIXES 3
#define UNNOTED_SAID 100 /* requests whose note is not as expected, before that is said */

HTC_EACH bool htc_entry_match(const void *object, const void *key_)
{
    const htc_path_entry *entry = object;
    const htc_entry_key *key = key_;

    return entry->server == key->server && entry->dir_len == key->len &&
           !memcmp(entry->dir, key->dir, key->len);
}

HTC_EACH uint64_t htc_entry_hash(const htc_context *ctx, const htc_entry_key *key)
{
    /* Directories of different servers that share a tree must not crowd one set. */
    return htc_store_hash(ctx->store, key->dir, key->len) ^
           ((uint64_t)(uintptr_t)key->server * UINT64_C(0x9E3779B97F4A7C15));
}

static inline bool entry_current(htc_context *ctx, request_rec *r, const htc_path_entry *entry,
                                 int64_t fresh, apr_int64_t *now)
{
    for (unsigned i = 0; i < entry->ndeps; i++) {
        htc_slot_hot *slot = htc_store_slot(ctx->store, entry->deps[i].ref.slot);
        int64_t checked_at;

        if (!htc_store_current(slot, entry->deps[i].ref.version, &checked_at))
            return false;
        htc_store_touch(slot);
        if (!htc_trusted(checked_at, entry->revalidate_ms, fresh, now) &&
            !htc_recheck(ctx, r, slot, &entry->deps[i], checked_at, entry->revalidate_ms, *now))
            return false;
    }
    return true;
}

/* The common case in few instructions: all down to here was looked at and has not changed since. */
static inline bool all_fresh(const htc_path_entry *leaf, int64_t fresh)
{
    const htc_step *step = leaf->steps;

    if (!step)
        return false;
    for (const htc_step *end = step + leaf->depth; step < end; step++) {
        int64_t checked_at;

        if (!htc_store_current(step->slot, step->version, &checked_at) || checked_at != fresh ||
            !htc_store_touched(step->slot))
            return false;
    }
    return true;
}

/* The deepest entry from which all is current up to the top. */
static HTC_APART const htc_path_entry *look_at_each(htc_context *ctx, request_rec *r,
                                                    const htc_path_entry *leaf, int64_t fresh)
{
    const htc_path_entry *start = leaf;
    apr_int64_t now = 0;

    for (const htc_path_entry *entry = leaf; entry; entry = entry->parent) {
        if (!entry_current(ctx, r, entry, fresh, &now))
            start = entry->parent;
    }
    return start;
}

static inline const htc_path_entry *current_part(htc_context *ctx, request_rec *r,
                                                 const htc_path_entry *leaf)
{
    int64_t fresh = htc_watch_fresh(ctx->watch);

    return all_fresh(leaf, fresh) ? leaf : look_at_each(ctx, r, leaf, fresh);
}

/* The deepest directory on the path that is known, pinned, or NULL; and the path's last component.
 * */
static HTC_EACH const htc_path_entry *find_level(htc_context *ctx, const request_rec *r,
                                                 const char **name, htc_pin **pin)
{
    htc_entry_key key = {r->server, r->filename, 0};
    const char *slash = strrchr(r->filename, '/');

    *name = slash + 1; /* there is one at the beginning */
    for (int i = 0; slash && i < MAX_PREFIXES; i++) {
        const htc_path_entry *entry;

        key.len = (size_t)(slash - r->filename) + 1;
        entry = htc_heap_acquire(ctx->heap, htc_entry_hash(ctx, &key), htc_entry_match, &key, pin);
        if (entry)
            return entry;
        slash = key.len > 1 ? memrchr(r->filename, '/', key.len - 1) : NULL;
    }
    return NULL;
}

static void count_levels(htc_context *ctx, const htc_path_entry *start)
{
    if (start->hits)
        htc_count(ctx->store, HTC_C_hits, start->hits);
    if (start->absent)
        htc_count(ctx->store, HTC_C_absent_hits, start->absent);
}

/* The whole walk, where all on the way is known. */
static inline int walk(htc_context *ctx, const htc_path_entry *entry, request_rec *r,
                       const char *name)
{
    if (!entry->complete || entry->dir_len != (size_t)(name - r->filename) ||
        !htc_merged_walk_suits(&entry->walk, r, entry->dir, name))
        return DECLINED;
    if (!atomic_load_explicit(&ctx->noted, memory_order_relaxed)) {
        htc_request_get(r)->walked = entry; /* for a look at what core notes of it */
        return DECLINED;
    }
    return htc_merged_walk_run(&entry->walk, ctx, r, entry->dir, name);
}

/* httpd after 2.4 marks a request for which it opens a .htaccess file. It does so itself where it
 * asks the hook; a file that is answered ahead it does not ask for. */
static inline void taint(request_rec *r, const htc_path_entry *start)
{
#ifdef AP_TAINT_HTACCESS
    if (start->hits)
        r->taint |= AP_TAINT_HTACCESS;
#else
    (void)r;
    (void)start;
#endif
}

static int answer_from(htc_context *ctx, request_rec *r, const htc_path_entry *leaf,
                       const htc_path_entry *start, const char *name)
{
    int status;

    count_levels(ctx, start);
    taint(r, start);
    status = start == leaf ? walk(ctx, leaf, r, name) : DECLINED;
    /* Core's walk would have found its results there, and so do subrequests. */
    if (!r->htaccess)
        r->htaccess = &start->result;
    return status;
}

/* True when the path behind a directory, whose last component is @a last, stays below the
 * directory. With ".", ".." and empty components it may lead elsewhere. */
static inline bool stays_below(const char *at, const char *last)
{
    for (;;) {
        const char *name = at;

        while (*at == '.')
            at++;
        if (at - name <= 2 && (at > name ? !*at || *at == '/' : *at == '/'))
            return false;
        if (name >= last)
            return true;
        at = strchr(at, '/') + 1;
    }
}

/* Take such components out, as core's walk does first. False: there are none. */
static HTC_APART bool make_canonical(request_rec *r)
{
    char *path;

    if ((!strstr(r->filename, "//") && !strstr(r->filename, "/.")) ||
        apr_filepath_merge(&path, NULL, r->filename, APR_FILEPATH_NOTRELATIVE, r->pool) !=
            APR_SUCCESS ||
        !strcmp(path, r->filename))
        return false;
    r->filename = path;
    return true;
}

/* The deepest known directory that the path lies in, or NULL. */
static inline const htc_path_entry *find_ancestor(htc_context *ctx, request_rec *r,
                                                  const char **name, htc_pin **pin)
{
    const htc_path_entry *entry = find_level(ctx, r, name, pin);

    if (entry && stays_below(r->filename + entry->dir_len, *name))
        return entry;
    if (entry)
        htc_heap_release(*pin);
    return make_canonical(r) ? find_level(ctx, r, name, pin) : NULL;
}

/* map_to_storage, just ahead of core's, which walks the directories. */
HTC_EACH int htc_shortcut(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    htc_context *ctx = sc->ctx;
    const htc_request *rq;
    const htc_path_entry *leaf, *start;
    const char *name;
    htc_pin *pin;

    if (sc->page_possible) {
        if (r->prev || r->main)
            htc_page_leave(r);
        if (sc->pages && htc_page_claim(r, sc->pages))
            return DECLINED;
    }
    if (!sc->may_be_enabled || !ctx->heap || !ctx->shortcuts || !r->filename || *r->filename != '/')
        return DECLINED;
    if (r->htaccess || r->per_dir_config != r->server->lookup_defaults) {
        htc_request_get(r)->inherited = true;
        return DECLINED;
    }
    rq = ap_get_module_config(r->request_config, &htcache_module);
    if (rq && rq->location) {
        htc_request_get(r)->inherited = true;
        return DECLINED;
    }
    leaf = find_ancestor(ctx, r, &name, &pin);
    if (!leaf)
        return DECLINED;
    start = current_part(ctx, r, leaf);
    if (start) {
        htc_hold(ctx, r, pin);
        return answer_from(ctx, r, leaf, start, name);
    }
    htc_heap_release(pin);
    return DECLINED;
}

bool htc_path_entry_known(const htc_context *ctx, const server_rec *s, const char *dir)
{
    const htc_entry_key key = {s, dir, strlen(dir)};
    htc_pin *pin;

    if (!ctx->heap ||
        !htc_heap_acquire(ctx->heap, htc_entry_hash(ctx, &key), htc_entry_match, &key, &pin))
        return false;
    htc_heap_release(pin);
    return true;
}

/* Ask the builder for what could have been answered ahead: the deepest directory that was asked for
 * brings those above with it. */
static void ask(htc_context *ctx, request_rec *r, const htc_seen *seen)
{
    const htc_seen *deepest = NULL;
    const char *root;
    htc_entry_key key = {r->server, NULL, 0};

    for (; seen; seen = seen->next)
        deepest = seen->wanted ? seen : deepest;
    if (!deepest)
        return;
    root = ap_document_root(r);
    key.dir = deepest->dir;
    key.len = strlen(deepest->dir);
    htc_heap_ask(ctx->heap,
                 &(htc_heap_request){
                     .key = htc_entry_hash(ctx, &key),
                     .record = htc_store_hash(ctx->store, deepest->path, strlen(deepest->path)),
                     .owner = htc_store_hash(ctx->store, root, strlen(root)),
                     .server = htc_server_conf_of(r->server)->number,
                     .share = htc_share_of(r)},
                 htc_mono_ms());
}

/* A note that is as expected shows that the walk can be left out from now on. A single one may be
 * something else, where another module has changed the configuration of its request. */
static void look_at_note(htc_context *ctx, const request_rec *r, const htc_path_entry *entry)
{
    if (htc_merged_walk_verify(&entry->walk, entry->dir, r))
        atomic_store_explicit(&ctx->noted, true, memory_order_relaxed);
    else if (atomic_fetch_add_explicit(&ctx->unnoted, 1, memory_order_relaxed) + 1 ==
                 UNNOTED_SAID &&
             htc_store_say(ctx->store))
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, ap_server_conf,
                     "HtCache: in %d requests of a process, httpd's notes of its walks over "
                     "directories were not as mod_htcache expects. So httpd walks in each request, "
                     "which costs some time; answers are the same. Either a module changes the "
                     "configuration of requests, or this httpd was modified: remove that module, "
                     "or use an unmodified httpd. Not logged again until the next restart",
                     UNNOTED_SAID);
}

static HTC_APART int learn(request_rec *r, htc_request *rq)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    htc_context *ctx = sc->ctx;

    if (sc->explained)
        htc_explained_located(r, rq);
    if (sc->explained || !ctx || !ctx->serving)
        return DECLINED;
    if (rq->walked)
        look_at_note(ctx, r, rq->walked);
    htc_publish_pending(ctx, r, rq);
    htc_farm_flush(ctx, r);
    if (!rq->seen || rq->inherited || !ctx->heap)
        return DECLINED;
    ask(ctx, r, rq->seen);
    rq->seen = rq->last_seen = NULL;
    return DECLINED;
}

/* post_perdir_config: the walk is over and r->htaccess tells the override of every level. */
HTC_EACH int htc_learn(request_rec *r)
{
    htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    const core_dir_config *core = ap_get_core_module_config(r->per_dir_config);

    if (rq && rq->refused)
        return htc_refuse(r, rq);
    if ((core->expr_handler || core->handler) && htc_server_conf_of(r->server)->page_possible) {
        int rv = htc_page_note(r);

        if (rv != DECLINED)
            return rv;
    }
    return rq ? learn(r, rq) : DECLINED;
}
