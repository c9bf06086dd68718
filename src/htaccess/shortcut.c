/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Answering ahead of core. httpd keeps the .htaccess results of a request in a list, r->htaccess,
 * and looks there before it calls the hook. A path entry is one directory's ready-made element of
 * that list, linked to its parent directory's. One pointer to the deepest entry answers for the
 * whole path, without a copy, a lock or a system call. Entries are learned from requests that went
 * through the hook. The process cache keeps them by (server, directory). An entry is used only
 * while every record that it rests on has the version it was learned with, and was checked within
 * its time.
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

/* The one record that a path entry rests on, and the version it was learned with. */
typedef struct htc_step {
    const htc_slot_hot *slot;
    uint64_t version;
} htc_step;

/* The members that every request reads come first, on two cache lines. The directory comes
 * right behind them. */
typedef struct htc_path_entry {
    htc_object object;
    struct htaccess_result result;
    const struct htc_path_entry *parent;
    apr_int64_t revalidate_ms;
    unsigned ndeps;
    unsigned dir_len;
    htc_step *steps; /* of all entries down to here, together; NULL if one rests on several records,
                       * or has to ask each time */
    htc_merged_walk walk;  /* in place of core's; where something is set from RIPE requests on */
    unsigned depth;        /* entries down to here, and steps */
    uint64_t hits, absent; /* records that say so, from the top down to here */
    htc_ref refs[HTC_MAX_DEPS]; /* of deps; mostly one */
    bool complete;              /* core asks for no other directory down to here */
    bool nothing;               /* and none of them has anything */
    size_t bytes;               /* of this block */
    server_rec *server;
    htc_process_node *parent_node; /* held; or NULL */
    htc_process_node *parsed;      /* held; or NULL */
    htc_dep *deps;
    _Atomic unsigned asked; /* how often, up to RIPE; what is before it stays as it is */
    char dir[];             /* result.dir, then steps, deps and their paths */
} htc_path_entry;

typedef struct entry_key {
    const server_rec *server;
    const char *dir;
    size_t len;
} entry_key;

static HTC_EACH bool entry_match(const void *data, const void *key_)
{
    const htc_path_entry *entry = data;
    const entry_key *key = key_;

    return entry->object.type == HTC_OBJ_PATH_ENTRY && entry->server == key->server &&
           entry->dir_len == key->len && !memcmp(entry->dir, key->dir, key->len);
}

static uint64_t entry_hash(const htc_context *ctx, const entry_key *key)
{
    /* Directories of different servers that share a tree must not crowd one set. */
    return htc_store_hash(ctx->store, key->dir, key->len) ^
           ((uint64_t)(uintptr_t)key->server * UINT64_C(0x9E3779B97F4A7C15));
}

void htc_path_entry_free(void *data)
{
    htc_path_entry *entry = data;

    htc_merged_walk_destroy(&entry->walk); /* before what it is made of */
    if (entry->parsed)
        htc_process_cache_release(entry->object.cache, entry->parsed);
    if (entry->parent_node)
        htc_process_cache_release(entry->object.cache, entry->parent_node);
    free(entry);
}

static inline bool entry_current(htc_context *ctx, request_rec *r, const htc_path_entry *entry,
                                 int64_t fresh, apr_int64_t *now)
{
    for (unsigned i = 0; i < entry->ndeps; i++) {
        htc_slot_hot *slot = htc_store_slot(ctx->store, entry->refs[i].slot);
        int64_t checked_at;

        if (!htc_store_current(slot, entry->refs[i].version, &checked_at))
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
            !atomic_load_explicit(&step->slot->touched, memory_order_relaxed))
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

/* The deepest directory on the path that is known, or NULL; and the path's last component. */
static htc_process_node *find_level(htc_context *ctx, const request_rec *r, const char **name)
{
    entry_key key = {r->server, r->filename, 0};
    const char *slash = strrchr(r->filename, '/');

    *name = slash + 1; /* there is one at the beginning */
    for (int i = 0; slash && i < MAX_PREFIXES; i++) {
        htc_process_node *node;

        key.len = (size_t)(slash - r->filename) + 1;
        node = htc_process_cache_acquire(ctx->cache, entry_hash(ctx, &key), entry_match, &key);
        if (node)
            return node;
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

static void ripen(htc_context *ctx, htc_path_entry *entry);

/* The whole walk, where all on the way is known. */
static inline int walk(htc_context *ctx, htc_path_entry *entry, request_rec *r, const char *name)
{
    if (!entry->complete || entry->dir_len != (size_t)(name - r->filename))
        return DECLINED;
    if (!entry->walk.whole && !entry->nothing)
        ripen(ctx, entry);
    if (!htc_merged_walk_suits(&entry->walk, r, name))
        return DECLINED;
    if (!atomic_load_explicit(&ctx->noted, memory_order_relaxed)) {
        htc_request_get(r)->walked = entry; /* for a look at what core notes of it */
        return DECLINED;
    }
    return htc_merged_walk_run(&entry->walk, ctx, r, entry->dir);
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

static int answer_from(htc_context *ctx, request_rec *r, htc_process_node *node,
                       const htc_path_entry *start, const char *name)
{
    int status;

    count_levels(ctx, start);
    taint(r, start);
    htc_hold(ctx, r, node);
    status = start == htc_process_cache_data(node)
                 ? walk(ctx, htc_process_cache_data(node), r, name)
                 : DECLINED;
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
static inline htc_process_node *find_ancestor(htc_context *ctx, request_rec *r, const char **name)
{
    htc_process_node *node = find_level(ctx, r, name);
    const htc_path_entry *entry = node ? htc_process_cache_data(node) : NULL;

    if (entry && stays_below(r->filename + entry->dir_len, *name))
        return node;
    if (node)
        htc_process_cache_release(ctx->cache, node);
    return make_canonical(r) ? find_level(ctx, r, name) : NULL;
}

/* map_to_storage, just ahead of core's, which walks the directories. */
HTC_EACH int htc_shortcut(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    htc_context *ctx = sc->ctx;
    const htc_request *rq;
    const htc_path_entry *start;
    const char *name;
    htc_process_node *node;

    if (sc->page_possible) {
        if (r->prev || r->main)
            htc_page_leave(r);
        if (sc->pages && htc_page_claim(r, sc->pages))
            return DECLINED;
    }
    if (!sc->may_be_enabled || !ctx->cache || !ctx->shortcuts || !r->filename ||
        *r->filename != '/')
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
    node = find_ancestor(ctx, r, &name);
    if (!node)
        return DECLINED;
    start = current_part(ctx, r, htc_process_cache_data(node));
    if (start)
        return answer_from(ctx, r, node, start, name);
    htc_process_cache_release(ctx->cache, node);
    return DECLINED;
}

static const struct htaccess_result *find_result(const request_rec *r, const char *dir)
{
    const struct htaccess_result *result = r->htaccess;

    while (result && strcmp(result->dir, dir))
        result = result->next;
    return result;
}

/* The memory behind an entry's directory, and its size with all of it. */
typedef struct entry_layout {
    size_t steps, deps, texts;
    size_t vector; /* of an empty file; else none is there */
    size_t bytes;
} entry_layout;

static entry_layout layout_of(const htc_context *ctx, const htc_seen *seen, unsigned depth)
{
    entry_layout at;

    at.steps = APR_ALIGN_DEFAULT(offsetof(htc_path_entry, dir) + strlen(seen->dir) + 1);
    at.deps = at.steps + depth * sizeof(htc_step);
    at.vector = at.deps + seen->ndeps * sizeof(htc_dep);
    at.texts = at.vector + (seen->empty ? ctx->vector_bytes : 0);
    at.bytes = at.texts;
    for (unsigned i = 0; i < seen->ndeps; i++)
        at.bytes += strlen(seen->deps[i]->path) + 1;
    return at;
}

/* Copy the strings of a entry, and what it rests on, behind it. */
static void entry_texts(htc_path_entry *entry, const htc_seen *seen, const entry_layout *at)
{
    char *next = (char *)entry + at->texts;

    entry->dir_len = (unsigned)strlen(seen->dir);
    entry->result.dir = memcpy(entry->dir, seen->dir, entry->dir_len + 1);
    entry->deps = (htc_dep *)(void *)((char *)entry + at->deps);
    for (unsigned i = 0; i < seen->ndeps; i++) {
        size_t len = strlen(seen->deps[i]->path) + 1;

        entry->refs[i] = seen->deps[i]->ref;
        entry->deps[i] = *seen->deps[i];
        entry->deps[i].path = memcpy(next, seen->deps[i]->path, len);
        next += len;
    }
}

/* Those of the parent, and its own. */
static void entry_steps(const htc_context *ctx, htc_path_entry *entry, const entry_layout *at)
{
    const htc_path_entry *parent = entry->parent;

    if (entry->ndeps != 1 || entry->revalidate_ms == 0 || (parent && !parent->steps))
        return;
    entry->steps = (htc_step *)(void *)((char *)entry + at->steps);
    if (parent)
        memcpy(entry->steps, parent->steps, parent->depth * sizeof(htc_step));
    entry->steps[entry->depth - 1] =
        (htc_step){htc_store_slot(ctx->store, entry->refs[0].slot), entry->refs[0].version};
}

static void entry_counts(htc_path_entry *entry)
{
    if (entry->parent) {
        entry->hits = entry->parent->hits;
        entry->absent = entry->parent->absent;
    }
    for (unsigned i = 0; i < entry->ndeps; i++) {
        if (entry->deps[i].kind == HTC_KIND_ABSENT)
            entry->absent++;
        else
            entry->hits++;
    }
}

/* True when it is the directory itself, or one that the directory lies in. Both are canonical
 * and end with a slash. */
static bool leads_to(const char *above, const char *dir)
{
    return !strncmp(above, dir, strlen(above));
}

/* Directories for which core had a result, from the top down to this one. */
static unsigned asked_down_to(const request_rec *r, const char *dir)
{
    unsigned n = 0;

    for (const struct htaccess_result *result = r->htaccess; result; result = result->next)
        n += leads_to(result->dir, dir);
    return n;
}

/* The configuration that the directory's file sets. That of an empty file lies in the entry:
 * one for each directory, as core tells by the vectors' addresses whether two paths have the
 * same configuration. */
static void entry_vector(htc_path_entry *entry, const htc_context *ctx, const htc_seen *seen,
                         const entry_layout *at)
{
    if (seen->parsed) {
        const htc_parsed *parsed = htc_process_cache_data(seen->parsed);

        entry->parsed = seen->parsed;
        entry->result.htaccess = parsed->vector;
        entry->result.override_list = parsed->override_list;
        htc_process_cache_retain(seen->parsed);
    } else if (seen->empty) {
        entry->result.htaccess = memset((char *)entry + at->vector, 0, ctx->vector_bytes);
    }
}

/* A directory without settings of its own shares the result of its sections with those above
 * and below it. */
static void entry_walk(htc_path_entry *entry, const htc_context *ctx)
{
    const htc_server_conf *sc = htc_server_conf_of(entry->server);
    const htc_path_entry *above = entry->parent;
    htc_merged_step steps[] = {{above ? above->dir : NULL, NULL}, {entry->dir, NULL}};

    if (sc->walks)
        htc_merged_walk_create(&entry->walk, ctx, entry->server, above ? steps : steps + 1,
                               above ? 2 : 1, above ? &above->walk : NULL);
}

static htc_path_entry *entry_create(htc_context *ctx, const request_rec *r, const htc_seen *seen,
                                    const struct htaccess_result *result, htc_process_node *parent)
{
    const htc_path_entry *above = parent ? htc_process_cache_data(parent) : NULL;
    unsigned depth = above ? above->depth + 1 : 1;
    const entry_layout at = layout_of(ctx, seen, depth);
    void *memory;
    htc_path_entry *entry;

    if (posix_memalign(&memory, 64, at.bytes))
        return NULL;
    entry = memory;
    memset(entry, 0, sizeof(*entry));
    entry->object.type = HTC_OBJ_PATH_ENTRY;
    entry->object.cache = ctx->cache;
    entry->server = r->server;
    entry->bytes = at.bytes;
    entry->revalidate_ms = seen->revalidate_ms;
    entry->ndeps = seen->ndeps;
    entry->depth = depth;
    entry_texts(entry, seen, &at);
    entry->result.override = result->override;
    entry->result.override_opts = result->override_opts;
    if (parent) {
        entry->parent_node = parent;
        entry->parent = above;
        entry->result.next = &entry->parent->result;
        htc_process_cache_retain(parent);
    }
    entry_vector(entry, ctx, seen, &at);
    entry_steps(ctx, entry, &at);
    entry_counts(entry);
    entry->complete = entry->depth == asked_down_to(r, entry->dir);
    entry->nothing =
        entry->complete && !entry->result.htaccess && (!entry->parent || entry->parent->nothing);
    if (entry->nothing)
        entry_walk(entry, ctx);
    return entry;
}

static size_t entry_cost(const htc_path_entry *entry)
{
    size_t set = 0;

    for (const htc_path_entry *at = entry; at; at = at->parent)
        set += at->parsed ? htc_process_cache_cost(at->parsed) : 0;
    return entry->bytes + htc_merged_walk_bytes(&entry->walk, set) + HTC_NODE_OVERHEAD;
}

/* Add an entry below parent. Returns it with a reference, or NULL. */
static htc_process_node *entry_insert(htc_context *ctx, const request_rec *r, const htc_seen *seen,
                                      const struct htaccess_result *result,
                                      htc_process_node *parent)
{
    htc_path_entry *entry = entry_create(ctx, r, seen, result, parent);
    entry_key key = {r->server, seen->dir, strlen(seen->dir)};

    if (!entry)
        return NULL;
    return htc_process_cache_insert(ctx->cache, entry_hash(ctx, &key), entry_match, &key, entry,
                                    entry_cost(entry));
}

/* Requests to a directory before its walk is made ahead although it, or one above it, has
 * something: that takes memory of its own, and many directories are visited now and then. */
#define RIPE 8

static void *same_place(htc_path_entry *copy, const htc_path_entry *entry, const void *there)
{
    return (char *)copy + ((const char *)there - (const char *)entry);
}

/* The block is the same, elsewhere. */
static htc_path_entry *copy_entry(const htc_path_entry *entry)
{
    void *memory;
    htc_path_entry *copy;

    if (posix_memalign(&memory, 64, entry->bytes))
        return NULL;
    copy = memory;
    memcpy(copy, entry, offsetof(htc_path_entry, asked));
    atomic_init(&copy->asked, RIPE);
    memcpy(copy->dir, entry->dir, entry->bytes - offsetof(htc_path_entry, dir));
    copy->result.dir = copy->dir;
    copy->deps = same_place(copy, entry, entry->deps);
    if (entry->result.htaccess && !entry->parsed)
        copy->result.htaccess = same_place(copy, entry, entry->result.htaccess);
    if (entry->steps)
        copy->steps = same_place(copy, entry, entry->steps);
    for (unsigned i = 0; i < copy->ndeps; i++)
        copy->deps[i].path = same_place(copy, entry, entry->deps[i].path);
    if (copy->parent_node)
        htc_process_cache_retain(copy->parent_node);
    if (copy->parsed)
        htc_process_cache_retain(copy->parsed);
    return copy;
}

/* From the top down. */
static bool walk_ahead(htc_path_entry *entry, const htc_context *ctx)
{
    unsigned n = entry->depth;
    htc_merged_step *steps = malloc(n * sizeof(*steps));

    if (!steps)
        return false;
    for (const htc_path_entry *at = entry; at; at = at->parent)
        steps[--n] = (htc_merged_step){at->dir, (ap_conf_vector_t *)at->result.htaccess};
    htc_merged_walk_create(&entry->walk, ctx, entry->server, steps, entry->depth, NULL);
    free(steps);
    return entry->walk.whole;
}

/* An entry that has proved to be asked for is replaced by one with its walk. */
static HTC_APART void ripen(htc_context *ctx, htc_path_entry *entry)
{
    unsigned asked = atomic_load_explicit(&entry->asked, memory_order_relaxed);
    entry_key key = {entry->server, entry->dir, entry->dir_len};
    htc_path_entry *copy;
    htc_process_node *node;

    if (asked >= RIPE || !htc_server_conf_of(entry->server)->walks)
        return;
    atomic_store_explicit(&entry->asked, asked + 1, memory_order_relaxed);
    if (asked + 1 < RIPE)
        return;
    copy = copy_entry(entry);
    if (!copy)
        return;
    if (!walk_ahead(copy, ctx)) {
        htc_path_entry_free(copy);
        return;
    }
    node = htc_process_cache_insert(ctx->cache, entry_hash(ctx, &key), entry_match, &key, copy,
                                    entry_cost(copy));
    if (node)
        htc_process_cache_release(ctx->cache, node);
}

static bool learnable(const htc_seen *seen)
{
    return seen->listable && (!seen->needs_parsed || seen->parsed);
}

/* The node of the entry that the request was answered from, if it still is in the process cache. */
static htc_process_node *base_node(htc_context *ctx, const request_rec *r, const htc_seen *first)
{
    const struct htaccess_result *result = r->htaccess;
    entry_key key = {r->server, NULL, 0};

    while (result && (!leads_to(result->dir, first->dir) || !strcmp(result->dir, first->dir)))
        result = result->next;
    if (!result)
        return NULL;
    key.dir = result->dir;
    key.len = strlen(result->dir);
    return htc_process_cache_acquire(ctx->cache, entry_hash(ctx, &key), entry_match, &key);
}

bool htc_path_entry_known(const htc_context *ctx, const server_rec *s, const char *dir)
{
    entry_key key = {s, dir, strlen(dir)};
    htc_process_node *node =
        ctx->cache ? htc_process_cache_acquire(ctx->cache, entry_hash(ctx, &key), entry_match, &key)
                   : NULL;

    if (node)
        htc_process_cache_release(ctx->cache, node);
    return node != NULL;
}

static bool was_seen(const htc_seen *seen, const char *dir)
{
    while (seen && strcmp(seen->dir, dir))
        seen = seen->next;
    return seen != NULL;
}

/* Levels below a newly learned one that were answered ahead of it have a gap in their chain: forget
 * them, so that the next request learns them with it. */
static void forget_below(htc_context *ctx, const request_rec *r, const htc_seen *learned,
                         const htc_seen *seen)
{
    size_t len = strlen(learned->dir);
    const struct htaccess_result *result = r->htaccess;

    for (; result && strlen(result->dir) > len; result = result->next) {
        entry_key key = {r->server, result->dir, strlen(result->dir)};
        htc_process_node *node;

        if (was_seen(seen, result->dir))
            continue;
        node = htc_process_cache_acquire(ctx->cache, entry_hash(ctx, &key), entry_match, &key);
        if (node) {
            htc_process_cache_remove(ctx->cache, node);
            htc_process_cache_release(ctx->cache, node);
        }
    }
}

/* Extend the chain by what this request found out, shallow to deep. */
static void learn_levels(htc_context *ctx, request_rec *r, const htc_seen *seen)
{
    htc_process_node *parent = base_node(ctx, r, seen);
    const htc_seen *shallowest = NULL;

    for (const htc_seen *one = seen; one; one = one->next) {
        const struct htaccess_result *result = learnable(one) ? find_result(r, one->dir) : NULL;
        htc_process_node *node = result ? entry_insert(ctx, r, one, result, parent) : NULL;

        if (!node)
            continue;
        if (parent)
            htc_process_cache_release(ctx->cache, parent);
        parent = node;
        if (!shallowest)
            shallowest = one;
    }
    if (parent)
        htc_process_cache_release(ctx->cache, parent);
    if (shallowest)
        forget_below(ctx, r, shallowest, seen);
    htc_process_report(ctx);
}

static bool anything_to_learn(const htc_seen *seen)
{
    while (seen && !learnable(seen))
        seen = seen->next;
    return seen != NULL;
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

/* A first visit is not learned from: many directories are visited once. */
static HTC_APART int learn(request_rec *r, htc_request *rq)
{
    htc_context *ctx = htc_server_conf_of(r->server)->ctx;

    if (!ctx || !ctx->cache)
        return DECLINED;
    if (rq->walked)
        look_at_note(ctx, r, rq->walked);
    htc_publish_pending(ctx, r, rq);
    htc_farm_flush(ctx, r);
    if (!rq->seen || rq->inherited || rq->cold || !ctx->shortcuts)
        return DECLINED;
    if (anything_to_learn(rq->seen))
        learn_levels(ctx, r, rq->seen);
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
