/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What each owner holds: the owner table with a ring of slots for each owner, shares, and the
 * totals. All of it is rebuilt from the slots after damage, so a function here checks what it
 * follows and reports instead of repairing. Called by put and remove, under the store's lock.
 */
#include "base/base.h"
#include "cache/store_internal.h"

/* Probes of the owner table before an owner is lumped with others. */
#define MAX_PROBES 64

/* --- owners -----------------------------------------------------------------------------------*/

static unsigned clamp_percent(unsigned percent)
{
    return percent < 1 ? 1 : percent > 100 ? 100 : percent;
}

static uint32_t share_of(uint32_t total, unsigned percent)
{
    uint32_t share = (uint32_t)((uint64_t)total * clamp_percent(percent) / 100);

    return share ? share : 1;
}

uint32_t htcs_share_blocks(const htc_store *store, unsigned share_percent)
{
    return share_of(store->nblocks, share_percent);
}

bool htcs_above_share(const htcs_owner *owner, uint32_t more_blocks, uint32_t more_slots)
{
    return (uint64_t)HTCS_GET(owner->blocks) + more_blocks > HTCS_GET(owner->share_blocks) ||
           (uint64_t)HTCS_GET(owner->slots) + more_slots > HTCS_GET(owner->share_slots);
}

/* Keep the number of owners above their share, so that a put that finds none need not search. */
static void note_above(htc_store *store, htcs_owner *owner)
{
    _Atomic uint32_t *count = &store->header->owners_above;
    uint32_t above = htcs_above_share(owner, 0, 0), was = HTCS_GET(owner->above);

    if (above == was)
        return;
    HTCS_CHANGE(store, owner->above, above);
    HTCS_CHANGE(store, *count, HTCS_GET(*count) + above - was);
}

static void set_share(htc_store *store, htcs_owner *owner, unsigned percent)
{
    htcs_task_begin(store, HTCS_SHARING, HTCS_NIL, NULL);
    HTCS_CHANGE(store, owner->share, percent);
    HTCS_CHANGE(store, owner->share_blocks, share_of(store->nblocks, percent));
    HTCS_CHANGE(store, owner->share_slots, share_of(store->nslots, percent));
    note_above(store, owner);
    htcs_task_end(store);
}

static void owner_take(htcs_owner *owner, uint64_t tag)
{
    HTCS_SET(owner->tag, tag);
    HTCS_SET(owner->taken, 1);
}

/* The owner's entry, or the first that may be given to it, or the common one. */
static uint32_t owner_find(const htc_store *store, uint64_t tag)
{
    uint32_t mask = store->nowners - 1, found = store->nowners;
    uint32_t start = (uint32_t)((tag * UINT64_C(0x9E3779B97F4A7C15)) >> 32);

    for (uint32_t i = 0; i < MAX_PROBES && i < store->nowners; i++) {
        uint32_t index = (start + i) & mask;
        const htcs_owner *owner = &store->owners[index];

        if (HTCS_GET(owner->taken) && HTCS_GET(owner->tag) == tag)
            return index;
        if (!HTCS_GET(owner->slots) && found == store->nowners)
            found = index;
        if (!HTCS_GET(owner->taken))
            break;
    }
    return found;
}

uint32_t htcs_owner_get(htc_store *store, uint64_t tag, unsigned share_percent)
{
    uint32_t index = owner_find(store, tag);
    htcs_owner *owner = &store->owners[index];

    if (index < store->nowners && !HTCS_GET(owner->slots))
        owner_take(owner, tag);
    if (HTCS_GET(owner->share) != clamp_percent(share_percent))
        set_share(store, owner, clamp_percent(share_percent));
    return index;
}

/* --- rings ------------------------------------------------------------------------------------*/

/* Behind all others, as CLOCK sees it. */
static void ring_insert(htc_store *store, htcs_owner *owner, uint32_t index)
{
    htcs_slot *slot = &store->slots[index];
    uint32_t next = HTCS_GET(owner->hand), prev;

    if (!HTCS_GET(owner->slots) || next >= store->nslots) {
        HTCS_SET(slot->own_prev, index);
        HTCS_SET(slot->own_next, index);
        HTCS_CHANGE(store, owner->hand, index);
        return;
    }
    prev = HTCS_GET(store->slots[next].own_prev);
    HTCS_SET(slot->own_prev, prev);
    HTCS_SET(slot->own_next, next);
    HTCS_CHANGE(store, store->slots[next].own_prev, index);
    if (prev < store->nslots)
        HTCS_CHANGE(store, store->slots[prev].own_next, index);
}

static bool ring_remove(htc_store *store, htcs_owner *owner, uint32_t index)
{
    htcs_slot *slot = &store->slots[index];
    uint32_t prev = HTCS_GET(slot->own_prev), next = HTCS_GET(slot->own_next);

    if (prev >= store->nslots || next >= store->nslots ||
        HTCS_GET(store->slots[prev].own_next) != index ||
        HTCS_GET(store->slots[next].own_prev) != index)
        return false;
    HTCS_CHANGE(store, store->slots[prev].own_next, next);
    HTCS_CHANGE(store, store->slots[next].own_prev, prev);
    if (HTCS_GET(owner->hand) == index)
        HTCS_CHANGE(store, owner->hand, next);
    return true;
}

/* --- accounts ---------------------------------------------------------------------------------*/

static void add(htc_store *store, _Atomic uint32_t *word, uint32_t n)
{
    HTCS_CHANGE(store, *word, HTCS_GET(*word) + n);
}

static void account_totals(htc_store *store, uint32_t kind, uint32_t blocks, uint32_t records)
{
    add(store, &store->header->blocks_used, blocks);
    add(store, &store->header->records[kind], records);
}

void htcs_set_used(htc_store *store, uint32_t index, bool used)
{
    uint64_t bit = UINT64_C(1) << index % 64, word = HTCS_GET(store->used[index / 64]);

    HTCS_SET(store->used[index / 64], used ? word | bit : word & ~bit);
}

static void count_in(htc_store *store, uint32_t index, const htcs_view *view)
{
    htcs_owner *owner = &store->owners[view->owner];
    uint32_t blocks = (uint32_t)htcs_blocks_for(view->body_len);

    ring_insert(store, owner, index);
    if (!HTCS_GET(owner->slots))
        add(store, &store->header->owners_live, 1);
    add(store, &owner->slots, 1);
    add(store, &owner->blocks, blocks);
    note_above(store, owner);
    account_totals(store, view->kind, blocks, 1);
}

void htcs_account(htc_store *store, uint32_t index, const htcs_view *view)
{
    count_in(store, index, view);
    htcs_note_wide(store, &store->used[index / 64]);
    htcs_set_used(store, index, true);
}

bool htcs_discount(htc_store *store, uint32_t index, const htcs_view *view)
{
    htcs_owner *owner = &store->owners[view->owner];
    uint32_t blocks = (uint32_t)htcs_blocks_for(view->body_len);

    if (!ring_remove(store, owner, index))
        return false;
    add(store, &owner->slots, -1U);
    add(store, &owner->blocks, -blocks);
    if (!HTCS_GET(owner->slots))
        add(store, &store->header->owners_live, -1U);
    note_above(store, owner);
    account_totals(store, view->kind, -blocks, -1U);
    htcs_note_wide(store, &store->used[index / 64]);
    htcs_set_used(store, index, false);
    return true;
}
