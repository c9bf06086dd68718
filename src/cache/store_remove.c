/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Taking a record out. A function here that finds damage says so and repairs nothing: the writer
 * that called it rebuilds. Called under the store's lock.
 */
#include "base/base.h"
#include "cache/store_internal.h"

/* A sequence count that is odd already is damage, as no other process writes. It is as good as
 * one made odd now. */
void htcs_slot_begin(htcs_slot *slot)
{
    HTCS_SET(slot->seq, HTCS_GET(slot->seq) | 1);
    atomic_thread_fence(memory_order_release);
}

void htcs_slot_end(htcs_slot *slot)
{
    atomic_store_explicit(&slot->seq, HTCS_GET(slot->seq) + 1, memory_order_release);
    HTC_POINT("slot->seq");
}

void htcs_wipe(htc_store *store, uint32_t index)
{
    htcs_slot *slot = &store->slots[index];

    htcs_slot_begin(slot);
    HTCS_SET(slot->hot.version, 0);
    HTCS_SET(slot->tag, 0);
    HTCS_SET(slot->kind, HTC_KIND_NONE);
    htcs_slot_end(slot);
}

/* The chain was proved intact: what leads out of the segment now was written since then, by a
 * process without the lock. */
static void free_chain(htc_store *store, const htcs_view *view)
{
    uint32_t last = view->first;

    for (uint64_t n = htcs_blocks_for(view->body_len); n > 1 && last < store->nblocks; n--)
        last = HTCS_GET(store->fat[last]);
    if (last >= store->nblocks)
        return;
    HTCS_CHANGE(store, store->fat[last], HTCS_GET(store->header->free_head));
    HTCS_CHANGE(store, store->header->free_head, view->first);
}

bool htcs_remove_known(htc_store *store, uint32_t index, const htcs_view *view)
{
    htcs_wipe(store, index);
    if (!htcs_discount(store, index, view))
        return false;
    free_chain(store, view);
    return true;
}

bool htcs_remove(htc_store *store, uint32_t index)
{
    htcs_view view;

    if (htcs_clearing(store)) { /* Everything that follows from the records will be derived anew. */
        htcs_wipe(store, index);
        return true;
    }
    /* A damaged chain may lead into those of others, so it must not be freed as it is. */
    if (!htcs_intact(store, index, &view)) {
        htcs_task_begin(store, HTCS_REBUILDING, index, NULL);
        htcs_wipe(store, index);
        htc_count(store, HTC_C_corrupt, 1);
        return false;
    }
    htcs_task_begin(store, HTCS_REMOVING, index, &view);
    if (!htcs_remove_known(store, index, &view))
        return false;
    htcs_task_end(store);
    return true;
}
