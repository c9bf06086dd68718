/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Repair: keeps the slots that are whole and prove themselves by their checksums, wipes the others,
 * and derives everything else anew. Called under the lock when a writer died while it changed the
 * segment, when damage was found, and to empty the store.
 */
#include "htc_store_private.h"

static void reset_owner(htcs_owner *owner)
{
    HTCS_SET(owner->slots, 0);
    HTCS_SET(owner->blocks, 0);
    HTCS_SET(owner->above, 0);
    HTCS_SET(owner->hand, HTCS_NIL);
}

/* Nothing is held by anybody. Owners keep their names and shares: slots refer to them. */
static void reset(htc_store *store)
{
    htcs_header *header = store->header;

    for (uint32_t i = 0; i <= store->nowners; i++)
        reset_owner(&store->owners[i]);
    for (uint32_t i = 0; i < (store->nblocks + 63) / 64; i++)
        HTCS_SET(store->marks[i], 0);
    for (int kind = 0; kind <= HTC_KIND_STOCK; kind++)
        HTCS_SET(header->records[kind], 0);
    HTCS_SET(header->owners_live, 0);
    HTCS_SET(header->owners_above, 0);
    HTCS_SET(header->blocks_used, 0);
}

static bool marked(const htc_store *store, uint32_t block)
{
    return HTCS_GET(store->marks[block / 64]) >> block % 64 & 1;
}

static void flip_mark(htc_store *store, uint32_t block)
{
    HTCS_SET(store->marks[block / 64], HTCS_GET(store->marks[block / 64]) ^ UINT64_C(1)
                                                                                << block % 64);
}

/* Mark the chain's blocks; false, and nothing marked, when one of them is another record's. */
static bool claim_chain(htc_store *store, uint32_t first)
{
    uint32_t block = first;

    for (; block < store->nblocks && !marked(store, block); block = HTCS_GET(store->fat[block]))
        flip_mark(store, block);
    if (block == HTCS_NIL)
        return true;
    for (uint32_t undo = first; undo != block; undo = HTCS_GET(store->fat[undo]))
        flip_mark(store, undo);
    return false;
}

/* The map of used slots is corrected slot by slot, not begun anew: readers go by it meanwhile. */
static void examine(htc_store *store, uint32_t index)
{
    htcs_slot *slot = &store->slots[index];
    htcs_view view;

    if (HTCS_GET(slot->seq) % 2) {
        htcs_wipe(store, index);
    } else if (HTCS_GET(slot->hot.version)) {
        if (htcs_intact(store, index, &view) && claim_chain(store, view.first)) {
            htcs_account(store, index, &view);
            return;
        }
        htcs_wipe(store, index);
        htc_count(store, HTC_C_corrupt, 1);
    }
    htcs_set_used(store, index, false);
}

/* All blocks below the last one in use that nobody claimed. */
static void collect_free(htc_store *store)
{
    uint32_t fresh = store->nblocks, head = HTCS_NIL;

    while (fresh && !marked(store, fresh - 1))
        fresh--;
    for (uint32_t block = fresh; block-- > 0;) {
        if (marked(store, block))
            continue;
        HTCS_SET(store->fat[block], head);
        head = block;
    }
    HTCS_SET(store->header->free_head, head);
    HTCS_SET(store->header->fresh, fresh);
}

void htcs_rebuild(htc_store *store)
{
    reset(store);
    for (uint32_t i = 0; i < store->nslots; i++)
        examine(store, i);
    /* The map's last word may reach beyond the slots. */
    for (uint32_t i = store->nslots; i % 64; i++)
        htcs_set_used(store, i, false);
    collect_free(store);
}
