/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Changing records: the lock, and under it put, reidentify, drop and clear. A writer may be
 * killed between any two stores; the order of the stores to a slot and its blocks keeps the
 * invariant stated in cache/store_internal.h, everything else is rebuilt by the next writer.
 */
#include "base/base.h"
#include "cache/store_internal.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* --- the lock ---------------------------------------------------------------------------------*/

/* Take the lock and say that the segment is being changed. */
static apr_status_t take(htc_store *store)
{
    htcs_header *header = store->header;

    /* A writer that died left its mark: `dirty` says whether there is anything to repair. */
    if (htc_lock_take(&store->lock, HTC_STORE_LOCK_MS) == HTC_LOCK_BUSY) {
        htc_count(store, HTC_C_lock_timeouts, 1);
        return APR_EBUSY;
    }
    if (HTCS_GET(header->dirty)) {
        htcs_recover(store);
        htc_count(store, HTC_C_recoveries, 1);
    }
    HTCS_SET(header->dirty, 1);
    atomic_thread_fence(memory_order_release);
    return APR_SUCCESS;
}

static void end(htc_store *store)
{
    atomic_store_explicit(&store->header->dirty, 0, memory_order_release);
    HTC_POINT("clean");
    htc_lock_give(&store->lock);
}

/* The same for changing records. While the store is being emptied it does a piece of that, and
 * what it wants must wait unless that was the last one. */
static apr_status_t begin(htc_store *store)
{
    apr_status_t rv = take(store);

    if (rv != APR_SUCCESS || !htcs_clearing(store) || htcs_clear_step(store))
        return rv;
    end(store);
    return APR_EBUSY;
}

/* --- changing a slot --------------------------------------------------------------------------*/

/* checked_at before version: see htc_store_current(). */
static void publish(htc_store *store, uint32_t index, const htcs_view *view)
{
    htcs_slot *slot = &store->slots[index];

    htcs_slot_begin(slot);
    HTCS_SET(slot->first, view->first);
    HTCS_SET(slot->tag, view->tag);
    HTCS_SET(slot->body_len, view->body_len);
    HTCS_SET(slot->flags, view->flags);
    HTCS_SET(slot->kind, view->kind);
    HTCS_SET(slot->owner, view->owner);
    HTCS_SET(slot->hot.touched, 0);
    HTCS_SET(slot->hot.used, 0);
    atomic_store_explicit(&slot->hot.checked_at, view->checked_at, memory_order_release);
    HTC_POINT("checked_at");
    atomic_store_explicit(&slot->hot.version, view->version, memory_order_release);
    HTC_POINT("version");
    htcs_slot_end(slot);
    htcs_account(store, index, view);
}

/* --- blocks -----------------------------------------------------------------------------------*/

static uint32_t take_block(htc_store *store)
{
    htcs_header *header = store->header;
    uint32_t block = HTCS_GET(header->free_head);

    if (block < store->nblocks) {
        HTCS_SET(header->free_head, HTCS_GET(store->fat[block]));
        return block;
    }
    if (block != HTCS_NIL)
        return HTCS_NIL;
    block = HTCS_GET(header->fresh);
    if (block >= store->nblocks)
        return HTCS_NIL;
    HTCS_SET(header->fresh, block + 1);
    return block;
}

/* What is behind a block of the free list there mostly is behind it here, too; what is behind one
 * that was never used has no owner. */
static void link_block(htc_store *store, uint32_t block, uint32_t next, uint32_t fresh)
{
    if (HTCS_GET(store->fat[block]) == next)
        return;
    if (block < fresh)
        htcs_note(store, &store->fat[block]);
    HTCS_SET(store->fat[block], next);
}

/* A chain of n blocks, or HTCS_NIL when the free list is damaged: there are enough, by the count.
 */
static uint32_t take_chain(htc_store *store, uint32_t n)
{
    uint32_t first = HTCS_NIL, last = HTCS_NIL, fresh = HTCS_GET(store->header->fresh);

    htcs_note(store, &store->header->free_head);
    htcs_note(store, &store->header->fresh);
    while (n--) {
        uint32_t block = take_block(store);

        if (block == HTCS_NIL)
            return HTCS_NIL;
        if (last == HTCS_NIL)
            first = block;
        else
            link_block(store, last, block, fresh);
        last = block;
    }
    link_block(store, last, HTCS_NIL, fresh);
    return first;
}

/* Up to the end of the current block; the rest of a last word becomes zero. */
static size_t write_block(htcs_block *block, htcs_cursor *cursor, const unsigned char *from,
                          size_t len)
{
    size_t room = (HTCS_BLOCK_WORDS - cursor->word) * 8, n = len < room ? len : room;
    _Atomic uint64_t *to = &block->words[cursor->word];

#pragma GCC unroll 4
    for (size_t i = 0; i < n / 8; i++) {
        uint64_t word;

        memcpy(&word, from + 8 * i, 8);
        HTCS_SET(to[i], word);
    }
    if (n % 8) {
        uint64_t word = 0;

        memcpy(&word, from + n / 8 * 8, n % 8);
        HTCS_SET(to[n / 8], word);
    }
    cursor->word += (uint32_t)((n + 7) / 8);
    return n;
}

/* False when the chain ends too early: a damaged free list delivered a block twice. */
static bool write_words(htc_store *store, htcs_cursor *cursor, const void *bytes, size_t len)
{
    const unsigned char *from = bytes;

    while (len) {
        size_t n;

        if (cursor->word == HTCS_BLOCK_WORDS)
            *cursor = (htcs_cursor){HTCS_GET(store->fat[cursor->block]), 0};
        if (cursor->block >= store->nblocks)
            return false;
        n = write_block(&store->blocks[cursor->block], cursor, from, len);
        from += n;
        len -= n;
    }
    return true;
}

/* --- records ----------------------------------------------------------------------------------*/

/* Take a record out, and repair what turns out to be damaged. */
static void drop(htc_store *store, uint32_t index)
{
    if (!htcs_remove(store, index))
        htcs_rebuild(store);
}

void htcs_drop_damaged(htc_store *store, uint32_t index, uint64_t version)
{
    htcs_view view;

    if (begin(store) != APR_SUCCESS)
        return;
    if (HTCS_GET(store->slots[index].hot.version) == version && !htcs_intact(store, index, &view))
        drop(store, index);
    end(store);
}

/* Remove the key's old record, and whatever is damaged in a slot that claims the key's hash. */
static HTC_APART void remove_key(htc_store *store, const htc_put *put, htcs_home home,
                                 uint32_t mask)
{
    htcs_view view;
    htcs_front front;
    htcs_cursor cursor;

    for (; mask; mask &= mask - 1) {
        uint32_t index = htcs_candidate(home, (unsigned)__builtin_ctz(mask));
        htcs_result result;

        if (HTCS_GET(store->slots[index].tag) != put->hash)
            continue;
        result = htcs_read(store, index, &view, &front, &cursor);
        if (result == HTCS_NONE)
            continue;
        if (result != HTCS_OK ||
            (front.head.key_len == put->key_len && !memcmp(front.key, put->key, put->key_len)))
            drop(store, index);
    }
}

static bool write_front(htc_store *store, htcs_cursor *cursor, const htcs_view *view,
                        const htcs_front *front)
{
    return write_words(store, cursor, front,
                       sizeof(front->head) + htcs_key_bytes(front->head.key_len)) &&
           (view->kind == HTC_KIND_ABSENT ||
            write_words(store, cursor, &front->id, sizeof(front->id)));
}

/* Fill the chain that view names. */
static bool write_body(htc_store *store, const htc_put *put, const htcs_view *view)
{
    htcs_front front;
    htcs_cursor cursor = {view->first, 0};

    if (put->id)
        front.id = *put->id;
    else if (put->kind != HTC_KIND_ABSENT)
        memset(&front.id, 0, sizeof(front.id));
    front.head.key_len = (uint32_t)put->key_len;
    front.head.payload_len = (uint32_t)put->payload_len;
    memset(front.key + put->key_len, 0, 8);
    memcpy(front.key, put->key, put->key_len);
    front.head.sum = htcs_front_sum(store, view, &front);
    if (!write_front(store, &cursor, view, &front))
        return false;
    if (put->payload_len) {
        uint64_t sum = htcs_payload_sum(store, view->version, put->payload, put->payload_len);

        return write_words(store, &cursor, &sum, sizeof(sum)) &&
               write_words(store, &cursor, put->payload, put->payload_len);
    }
    return true;
}

static uint64_t next_version(htc_store *store)
{
    HTCS_SET(store->header->last_version, HTCS_GET(store->header->last_version) + 1);
    return HTCS_GET(store->header->last_version);
}

/* False when the segment turned out to be damaged; nothing can be seen of the record then. */
static bool store_record(htc_store *store, const htc_put *put, htcs_home home, htcs_view *view,
                         bool rebuilt, htc_ref *ref)
{
    uint32_t blocks = (uint32_t)htcs_blocks_for(view->body_len);
    uint32_t index = htcs_room_slot(store, home, view->owner, rebuilt);

    if (index >= store->nslots || !htcs_room_blocks(store, blocks, view->owner) ||
        htcs_clearing(store))
        return false;
    htcs_task_begin(store, HTCS_PUTTING, index, NULL);
    view->first = take_chain(store, blocks);
    view->version = next_version(store);
    if (view->first == HTCS_NIL || !write_body(store, put, view))
        return false;
    publish(store, index, view);
    htcs_task_end(store);
    *ref = (htc_ref){index, view->version};
    return true;
}

/* owner: index of the entry of put->owner, with the put's share. */
static apr_status_t put_locked(htc_store *store, const htc_put *put, uint32_t owner, htc_ref *ref)
{
    uint64_t body_len = htcs_body_bytes(put->kind, (uint32_t)put->key_len, put->payload_len);
    htcs_view view = {.tag = put->hash,
                      .checked_at = put->checked_at,
                      .kind = put->kind,
                      .flags = put->flags,
                      .owner = owner,
                      .body_len = (uint32_t)body_len};

    htcs_home home = htcs_home_of(store, put->hash);
    uint32_t used = htcs_used(store, home);

    if (used)
        remove_key(store, put, home, used);
    if (put->payload_len > HTCS_MOST_PAYLOAD ||
        htcs_blocks_for(body_len) > htcs_share_blocks(store, put->share_percent))
        return APR_ENOSPC;
    if (store_record(store, put, home, &view, false, ref))
        return APR_SUCCESS;
    if (!htcs_clearing(store))
        htcs_rebuild(store);
    if (htcs_clearing(store))
        return APR_EBUSY;
    return store_record(store, put, home, &view, true, ref) ? APR_SUCCESS : APR_EGENERAL;
}

static bool possible(const htc_put *put)
{
    return put->key_len <= HTC_STORE_MAX_KEY && put->kind > HTC_KIND_NONE &&
           put->kind <= HTC_KIND_STOCK;
}

apr_status_t htc_store_put_all(htc_store *store, const htc_put *puts, size_t n, htc_ref *refs)
{
    apr_status_t rv, first = APR_SUCCESS;
    uint32_t owner = 0;

    memset(refs, 0, n * sizeof(*refs));
    rv = begin(store);
    if (rv != APR_SUCCESS)
        return rv;
    for (size_t i = 0; i < n; i++) {
        rv = APR_EINVAL;
        /* The records of one call mostly have one owner, whose entry stays while it holds some. */
        if (!i || !refs[i - 1].version || puts[i].owner != puts[i - 1].owner)
            owner = htcs_owner_get(store, puts[i].owner, puts[i].share_percent);
        if (possible(&puts[i]))
            rv = put_locked(store, &puts[i], owner, &refs[i]);
        if (first == APR_SUCCESS)
            first = rv;
    }
    end(store);
    return first;
}

apr_status_t htc_store_put(htc_store *store, const htc_put *put, htc_ref *ref)
{
    return htc_store_put_all(store, put, 1, ref);
}

/* --- single records ---------------------------------------------------------------------------*/

/* A look before the lock is taken; to be repeated under it. */
static bool ref_current(const htc_store *store, htc_ref ref)
{
    return ref.version && ref.slot < store->nslots &&
           HTCS_GET(store->slots[ref.slot].hot.version) == ref.version;
}

static void reidentify_locked(htc_store *store, htc_ref ref, const htc_identity *id, uint32_t flags,
                              int64_t checked_at)
{
    htcs_slot *slot = &store->slots[ref.slot];
    htcs_view view;
    htcs_front front;
    htcs_cursor cursor;

    if (htcs_read(store, ref.slot, &view, &front, &cursor) != HTCS_OK ||
        view.owner > store->nowners) {
        drop(store, ref.slot);
        return;
    }
    htcs_task_begin(store, HTCS_REMOVING, ref.slot, &view);
    view.flags = flags;
    if (view.kind != HTC_KIND_ABSENT)
        front.id = *id;
    front.head.sum = htcs_front_sum(store, &view, &front);
    htcs_slot_begin(slot);
    HTCS_SET(slot->flags, flags);
    cursor = (htcs_cursor){view.first, 0};
    write_front(store, &cursor, &view, &front);
    if (checked_at != HTC_STORE_KEEP)
        atomic_store_explicit(&slot->hot.checked_at, checked_at, memory_order_release);
    HTC_POINT("checked_at");
    htcs_slot_end(slot);
    htcs_task_end(store);
}

apr_status_t htc_store_reidentify(htc_store *store, htc_ref ref, const htc_identity *id,
                                  uint32_t flags, int64_t checked_at)
{
    apr_status_t rv;

    if (!ref_current(store, ref))
        return APR_SUCCESS;
    rv = begin(store);
    if (rv != APR_SUCCESS)
        return rv;
    if (ref_current(store, ref))
        reidentify_locked(store, ref, id, flags, checked_at);
    end(store);
    return APR_SUCCESS;
}

apr_status_t htc_store_drop(htc_store *store, htc_ref ref)
{
    apr_status_t rv;

    if (!ref_current(store, ref))
        return APR_SUCCESS;
    rv = begin(store);
    if (rv != APR_SUCCESS)
        return rv;
    if (ref_current(store, ref))
        drop(store, ref.slot);
    end(store);
    return APR_SUCCESS;
}

apr_status_t htc_store_clear(htc_store *store)
{
    bool begun = false, done = false;

    while (!done) {
        apr_status_t rv = take(store);

        if (rv != APR_SUCCESS)
            return rv;
        if (!begun)
            htcs_clear_begin(store);
        begun = true;
        /* Somebody else may have done the last piece. */
        done = !htcs_clearing(store) || htcs_clear_step(store);
        end(store);
    }
    return APR_SUCCESS;
}
