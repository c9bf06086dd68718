/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Images of the area as this process has them open: tables, and edits of their rows. Called by all
 * who look rows up or change them.
 */
#include "redirects/map.h"

#define SAY_AGAIN_MS 60000 /* of no memory */

void htc_table_free(void *data)
{
    apr_pool_destroy(((htc_table *)data)->pool);
}

static apr_pool_t *own_pool(void)
{
    apr_allocator_t *allocator;
    apr_pool_t *pool;

    if (apr_allocator_create(&allocator) != APR_SUCCESS)
        return NULL;
    if (apr_pool_create_unmanaged_ex(&pool, NULL, allocator) != APR_SUCCESS) {
        apr_allocator_destroy(allocator);
        return NULL;
    }
    apr_allocator_owner_set(allocator, pool);
    apr_pool_tag(pool, "htcache_table");
    return pool;
}

static bool open_image(htc_table *table, const redirect_area_pin *pin, htc_image_kind kind)
{
    if (kind == HTC_IMAGE_EDITS) {
        table->edits = redirect_overlay_open(pin->image, pin->size, table->pool);
        table->table = table->edits ? table->edits->table : NULL;
    } else {
        table->table = redirect_table_open(pin->image, pin->size, table->pool);
    }
    return table->table != NULL;
}

/* Once a minute. */
static void say_no_memory(htc_redirects *redirects, uint32_t slot)
{
    int64_t now = htc_mono_ms(), last = atomic_load(&redirects->no_memory);
    redirect_area_note note;

    if ((!last || now - last >= SAY_AGAIN_MS) &&
        atomic_compare_exchange_strong(&redirects->no_memory, &last, now) &&
        redirect_area_note_get(redirects->area, slot, &note))
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, redirects->main_server,
                     "HtCacheRedirectMap: %s: this process has no memory for the map, and answers "
                     "without it for now. Free memory, or raise its limit",
                     note.file);
}

/* In the pool, which is its own then. The pin stays the caller's. NULL: another process has overwritten
 * the image, or *no_memory. */
static htc_table *table_open(htc_redirects *redirects, uint32_t slot, const redirect_area_pin *pin,
                             htc_image_kind kind, apr_pool_t *pool, bool *no_memory)
{
    htc_table *table = apr_pcalloc(pool, sizeof(*table));

    table->redirects = redirects;
    table->place = redirect_area_place(slot);
    table->pin = *pin;
    table->pool = pool;
    if (!open_image(table, pin, kind))
        return NULL;
    redirect_table_info_get(table->table, &table->info);
    if (!redirect_area_owned(redirects->area, slot))
        table->regexes = apr_pcalloc(pool, (table->info.patterns + 1) * sizeof(*table->regexes));
    *no_memory =
        apr_thread_mutex_create(&table->lock, APR_THREAD_MUTEX_DEFAULT, pool) != APR_SUCCESS;
    return *no_memory ? NULL : table;
}

static htc_image_kind kind_of(const htc_table *table)
{
    return table->edits ? HTC_IMAGE_EDITS : HTC_IMAGE_TABLE;
}

/* Which map has a place is read from memory that others write. So one and the same place may be asked
 * for as that of rows and as that of edits. */
typedef struct table_key {
    uint32_t place;
    htc_image_kind kind;
} table_key;

static uint64_t hash_of(const table_key *key)
{
    return (uint64_t)key->place * 2 + key->kind;
}

static bool key_match(const void *data, const void *key)
{
    const table_key *wanted = key;
    const htc_table *table = data;

    return table->place == wanted->place && kind_of(table) == wanted->kind;
}

/* The table may be there already, made by another thread. */
static htc_process_node *table_insert(htc_redirects *redirects, uint32_t slot,
                                      const redirect_area_pin *pin, const table_key *key,
                                      bool *no_memory)
{
    apr_pool_t *pool = own_pool();
    htc_table *table = pool ? table_open(redirects, slot, pin, key->kind, pool, no_memory) : NULL;
    htc_process_node *node = NULL;

    if (table)
        node = htc_process_cache_insert(redirects->tables, hash_of(key), key_match, key, table,
                                        sizeof(*table));
    else if (pool)
        apr_pool_destroy(pool);
    *no_memory |= !pool || (table && !node);
    if (*no_memory)
        say_no_memory(redirects, slot);
    return node;
}

htc_process_node *htc_table_try(htc_redirects *redirects, uint32_t slot, htc_image_kind kind,
                                bool *no_memory)
{
    table_key key = {redirect_area_place(slot), kind};
    htc_process_node *node =
        htc_process_cache_acquire(redirects->tables, hash_of(&key), key_match, &key);
    redirect_area_pin pin;

    *no_memory = false;
    if (node) {
        if (redirect_area_pin_known(redirects->area, slot,
                                    &((htc_table *)htc_process_cache_data(node))->pin))
            return node;
        htc_process_cache_release(redirects->tables, node);
    }
    if (!redirect_area_pin_get(redirects->area, slot, &pin))
        return NULL;
    node = table_insert(redirects, slot, &pin, &key, no_memory);
    if (!node)
        redirect_area_unpin(redirects->area, &pin);
    return node;
}

htc_process_node *htc_table_acquire(htc_redirects *redirects, uint32_t slot, htc_image_kind kind)
{
    bool no_memory;

    return htc_table_try(redirects, slot, kind, &no_memory);
}

void htc_table_release(htc_redirects *redirects, htc_process_node *node)
{
    redirect_area_unpin(redirects->area, &((const htc_table *)htc_process_cache_data(node))->pin);
    htc_process_cache_release(redirects->tables, node);
}

/* --- edits ------------------------------------------------------------------------------------*/

void htc_overlays_belong(htc_overlays *o)
{
    const htc_table *recent = o->recent, *older = o->older;

    o->last = o->under = NULL;
    if (!recent)
        return;
    if (older && redirect_overlay_covers(older->edits, recent->edits)) {
        o->last = o->older;
    } else if (!recent->edits->older) {
        o->last = o->recent;
    } else if (older && older->pin.version == recent->edits->older) {
        o->last = o->recent;
        o->under = o->older;
    }
}

/* An image has one version, so another table of this version is the same. What is made lies with the
 * last overlay, and opens the older one's image once more, as the table of that may be freed. */
static HTC_APART void join_edits(const htc_table *base, htc_table *last, const htc_table *under)
{
    apr_thread_mutex_lock(last->lock);
    if (!atomic_load_explicit(&last->edited, memory_order_relaxed)) {
        const redirect_overlay *own =
            under ? redirect_overlay_open(under->pin.image, under->pin.size, last->pool) : NULL;

        if (own || !under)
            atomic_store_explicit(&last->edited,
                                  redirect_edited_open(base->table, last->edits, own, last->pool),
                                  memory_order_release);
    }
    apr_thread_mutex_unlock(last->lock);
}

const redirect_edited *htc_overlays_join(const htc_table *base, const htc_overlays *o)
{
    if (!o->last || o->last->edits->base != base->pin.version)
        return NULL;
    if (!atomic_load_explicit(&o->last->edited, memory_order_acquire))
        join_edits(base, o->last, o->under);
    return atomic_load_explicit(&o->last->edited, memory_order_acquire);
}
