/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the builder makes before it is asked: the directories that were used most before a graceful
 * restart. Each builder notes now and then which ones are used, in the records' memory, which
 * outlives the restart. The first thing that the next one does is to build these, the most used
 * first. Requests that ask it meanwhile come first, and it does not go on for long.
 *
 * Whether a directory is used is known by a mark that requests leave at its record. The list is a
 * hint: every process may write to it, and it can ask for no more than a request can.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include <time.h>

/* Between two looks at what is used: so long, or so many times the processor time that a look takes,
 * if that is longer. */
#define LOOK_MS      10000
#define LOOK_PART    2000
#define MOST_LOOK_MS 60000
#define YOUNG_MS     60000 /* a builder knows too little before, if there is a list */
#define AHEAD_MS     2000  /* no directory is begun later than that */

/* A virtual host by what names it: its number is another one when a host is added. */
static uint64_t server_hash(const htc_context *ctx, const server_rec *s, apr_pool_t *pool)
{
    const core_server_config *core = ap_get_core_module_config(s->module_config);
    const char *text = apr_psprintf(pool, "%s %u %s", s->server_hostname ? s->server_hostname : "",
                                    s->port, core->ap_document_root ? core->ap_document_root : "");

    for (const server_addr_rec *addr = s->addrs; addr; addr = addr->next)
        text = apr_psprintf(pool, "%s %s:%u", text, addr->virthost ? addr->virthost : "",
                            addr->host_port);
    return htc_store_hash(ctx->store, text, strlen(text));
}

/* --- noting -----------------------------------------------------------------------------------*/

/* What an object was made from. */
typedef struct origin {
    const char *path; /* of the record's file; NULL: it is not made ahead */
    const htc_ref *ref;
    const server_rec *server;
} origin;

static origin origin_of(htc_heap_kind kind, const void *object)
{
    if (kind == HTC_HEAP_PATH_ENTRY) {
        const htc_path_entry *entry = object;

        if (entry->ndeps)
            return (origin){entry->deps[0].path, &entry->deps[0].ref, entry->server};
    } else if (kind == HTC_HEAP_CONFIG) {
        const htc_config *config = object;

        /* Only where each request runs a part of it: no directory's result has it then. */
        if (config->rest)
            return (origin){config->path, &config->ref, config->server};
    }
    return (origin){NULL, NULL, NULL};
}

static htc_slot_hot *slot_of(const htc_context *ctx, htc_heap_kind kind, const void *object)
{
    const origin from = origin_of(kind, object);
    htc_slot_hot *slot = from.path ? htc_store_slot(ctx->store, from.ref->slot) : NULL;

    return slot && atomic_load(&slot->version) == from.ref->version ? slot : NULL;
}

static bool used(void *baton, htc_heap_kind kind, const void *object)
{
    const htc_slot_hot *slot = slot_of(baton, kind, object);

    return slot && atomic_load_explicit(&slot->used, memory_order_relaxed);
}

/* Virtual hosts may share records, so these are looked at anew when all were looked at. */
static void look_anew(void *baton, htc_heap_kind kind, const void *object)
{
    htc_slot_hot *slot = slot_of(baton, kind, object);

    if (slot)
        atomic_store_explicit(&slot->used, 0, memory_order_relaxed);
}

typedef struct noting {
    htc_context *ctx;
    apr_pool_t *pool;
    apr_hash_t *hashes; /* of servers, by their addresses */
} noting;

static void note(void *baton, size_t place, htc_heap_kind kind, const void *object, uint64_t owner)
{
    const noting *n = baton;
    const origin from = origin_of(kind, object);
    htc_favourite favourite = {.owner = owner};
    const uint64_t *known = apr_hash_get(n->hashes, &from.server, sizeof(from.server));

    favourite.record = htc_store_hash(n->ctx->store, from.path, strlen(from.path));
    if (!known) {
        uint64_t hash = server_hash(n->ctx, from.server, n->pool);

        known = apr_pmemdup(n->pool, &hash, sizeof(hash));
        apr_hash_set(n->hashes, apr_pmemdup(n->pool, &from.server, sizeof(from.server)),
                     sizeof(from.server), known);
    }
    favourite.server = *known;
    htc_store_favourite_set(n->ctx->store, place, &favourite);
}

static int64_t spent_us(void)
{
    struct timespec spent = {0, 0};

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000 + spent.tv_nsec / 1000;
}

static int64_t between(int64_t a, int64_t least, int64_t most)
{
    return a < least ? least : a > most ? most : a;
}

static void list(const htc_ahead *ahead, htc_context *ctx, int64_t now, apr_pool_t *scratch)
{
    noting n = {ctx, scratch, NULL};
    htc_favourite first = {0};
    size_t listed;

    htc_store_favourite_get(ctx->store, 0, &first);
    if (first.record && now - ahead->began < YOUNG_MS)
        return;
    n.hashes = apr_hash_make(scratch);
    listed = htc_heap_first(ctx->heap, htc_store_favourites(ctx->store), note, &n);
    htc_store_favourite_set(ctx->store, listed, &(htc_favourite){0});
    apr_pool_clear(scratch);
}

void htc_ahead_note(htc_ahead *ahead, htc_context *ctx, int64_t now, apr_pool_t *scratch)
{
    int64_t before;

    if (now < ahead->next_look)
        return;
    before = spent_us();
    htc_heap_rank(ctx->heap, used, look_anew, ctx);
    list(ahead, ctx, now, scratch);
    ahead->next_look =
        now + between((spent_us() - before) * LOOK_PART / 1000, LOOK_MS, MOST_LOOK_MS);
}

/* --- building ---------------------------------------------------------------------------------*/

void htc_ahead_begin(htc_ahead *ahead, const htc_context *ctx, server_rec *main_server,
                     apr_pool_t *pool)
{
    unsigned number = 0;

    ahead->began = htc_mono_ms();
    ahead->next_look = ahead->began + LOOK_MS;
    ahead->servers = apr_hash_make(pool);
    for (server_rec *s = main_server; s; s = s->next, number++) {
        uint64_t hash = server_hash(ctx, s, pool);
        const htc_ahead_server server = {hash, number};
        const htc_ahead_server *kept;

        if (apr_hash_get(ahead->servers, &hash, sizeof(hash)))
            continue;
        kept = apr_pmemdup(pool, &server, sizeof(server));
        apr_hash_set(ahead->servers, &kept->hash, sizeof(kept->hash), kept);
    }
}

bool htc_ahead_next(htc_ahead *ahead, const htc_context *ctx, htc_heap_request *request)
{
    htc_favourite favourite;

    while (htc_store_favourite_get(ctx->store, ahead->next, &favourite) && favourite.record &&
           htc_mono_ms() - ahead->began < AHEAD_MS && !htc_heap_scarce(ctx->heap)) {
        const htc_ahead_server *server =
            apr_hash_get(ahead->servers, &favourite.server, sizeof(favourite.server));

        ahead->next++;
        if (!server)
            continue;
        *request = (htc_heap_request){.record = favourite.record,
                                      .owner = favourite.owner,
                                      .server = server->number,
                                      .share = 100};
        return true;
    }
    return false;
}
