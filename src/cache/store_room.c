/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Room for a new record: whose records give way, and CLOCK among these. Called by put, under the
 * store's lock. Where damage is found nothing is repaired here: the caller rebuilds and asks again.
 */
#include "base/base.h"
#include "cache/store_internal.h"

/* --- CLOCK ------------------------------------------------------------------------------------*/

/* True when the record was used since CLOCK came by last; it will not be the next time. */
static bool second_chance(htcs_slot *slot)
{
    if (!HTCS_GET(slot->hot.touched))
        return false;
    HTCS_SET(slot->hot.touched, 0);
    return true;
}

/* The first used slot from `from` on, around the end; HTCS_NIL when there is none. */
static uint32_t next_used(const htc_store *store, uint32_t from)
{
    uint32_t nwords = (store->nslots + 63) / 64, at = from / 64;
    uint64_t mask = UINT64_MAX << from % 64;

    for (uint32_t i = 0; i <= nwords; i++) {
        uint64_t used = HTCS_GET(store->used[at]) & mask;

        if (used)
            return at * 64 + (uint32_t)__builtin_ctzll(used);
        at = (at + 1) % nwords;
        mask = UINT64_MAX;
    }
    return HTCS_NIL;
}

/* When very many records are marked, or readers keep marking them, the last one seen is
 * evicted: others wait for the lock. */
static uint32_t clock_all(htc_store *store)
{
    uint32_t hand = HTCS_GET(store->header->clock_hand), index = HTCS_NIL;

    for (uint32_t n = 0; n <= HTCS_LOOKS; n++) {
        index = next_used(store, hand < store->nslots ? hand : 0);
        if (index >= store->nslots)
            return HTCS_NIL;
        hand = index + 1;
        if (!second_chance(&store->slots[index]))
            break;
    }
    HTCS_SET(store->header->clock_hand, hand);
    return index;
}

static uint32_t clock_owner(htc_store *store, htcs_owner *owner)
{
    uint32_t index = HTCS_GET(owner->hand);

    for (uint32_t n = 0; n <= HTCS_LOOKS && index < store->nslots; n++) {
        if (!second_chance(&store->slots[index]))
            break;
        index = HTCS_GET(store->slots[index].own_next);
    }
    if (index < store->nslots)
        HTCS_SET(owner->hand, index);
    return index;
}

/* An owner above its share, going around; NULL when there is none. */
static htcs_owner *find_above(htc_store *store)
{
    uint32_t hand = HTCS_GET(store->header->owner_hand);

    if (!HTCS_GET(store->header->owners_above))
        return NULL;
    for (uint32_t i = 0; i <= store->nowners; i++) {
        uint32_t index = (uint32_t)(((uint64_t)hand + i) % (store->nowners + 1));

        if (HTCS_GET(store->owners[index].above)) {
            HTCS_SET(store->header->owner_hand, index);
            return &store->owners[index];
        }
    }
    return NULL;
}

/* False: damage. */
static bool evict(htc_store *store, uint32_t index)
{
    htc_count(store, HTC_C_evictions, 1);
    return htcs_remove(store, index);
}

/* --- room for blocks --------------------------------------------------------------------------*/

/* The record to evict: one of this owner if it is above its share, else one of another owner
 * above its share, else any. */
static uint32_t victim_for(htc_store *store, uint32_t blocks, uint32_t owner_index)
{
    htcs_owner *owner = &store->owners[owner_index], *above;

    if (HTCS_GET(owner->slots) && htcs_above_share(owner, blocks, 1))
        return clock_owner(store, owner);
    above = find_above(store);
    return above ? clock_owner(store, above) : clock_all(store);
}

static bool enough_blocks(const htc_store *store, uint32_t blocks)
{
    return (uint64_t)HTCS_GET(store->header->blocks_used) + blocks <= store->nblocks;
}

static HTC_APART bool evict_blocks(htc_store *store, uint32_t blocks, uint32_t owner)
{
    for (uint32_t n = 0; !enough_blocks(store, blocks); n++) {
        uint32_t index = victim_for(store, blocks, owner);

        /* Otherwise the lists lead nowhere, or around. */
        if (n > store->nslots || index >= store->nslots ||
            !HTCS_GET(store->slots[index].hot.version) || !evict(store, index) ||
            htcs_clearing(store))
            return false;
    }
    return true;
}

bool htcs_room_blocks(htc_store *store, uint32_t blocks, uint32_t owner)
{
    return enough_blocks(store, blocks) || evict_blocks(store, blocks, owner);
}

/* --- room for a slot --------------------------------------------------------------------------*/

/* The candidates, as bits, whose turn it is: those of this owner if it is above its share, else
 * those of any owner above its share, else all. */
static uint32_t eligible(const htc_store *store, htcs_home home, uint32_t owner)
{
    uint32_t own = 0, above = 0;

    for (unsigned i = 0; i < HTCS_CANDIDATES; i++) {
        uint32_t index = htcs_candidate(home, i);
        uint32_t holder = HTCS_GET(store->slots[index].owner);

        if (holder == owner)
            own |= 1U << i;
        if (holder <= store->nowners && HTCS_GET(store->owners[holder].above))
            above |= 1U << i;
    }
    if (own && htcs_above_share(&store->owners[owner], 0, 1))
        return own;
    return above ? above : (1U << HTCS_CANDIDATES) - 1;
}

/* Untouched before touched, then the one checked longest ago. */
static uint32_t oldest(const htc_store *store, htcs_home home, uint32_t mask)
{
    uint32_t best = HTCS_NIL, best_touched = 1;
    int64_t best_checked = INT64_MAX;

    for (; mask; mask &= mask - 1) {
        uint32_t index = htcs_candidate(home, (unsigned)__builtin_ctz(mask));
        const htc_slot_hot *hot = &store->slots[index].hot;
        uint32_t touched = HTCS_GET(hot->touched) != 0;
        int64_t checked = HTCS_GET(hot->checked_at);

        if (best == HTCS_NIL || touched < best_touched ||
            (touched == best_touched && checked < best_checked)) {
            best = index;
            best_touched = touched;
            best_checked = checked;
        }
    }
    return best;
}

/* Those older than the victim were spared because they were touched: once only. */
static void age(htc_store *store, htcs_home home, uint32_t mask, uint32_t victim)
{
    int64_t limit = HTCS_GET(store->slots[victim].hot.checked_at);

    for (; mask; mask &= mask - 1) {
        uint32_t index = htcs_candidate(home, (unsigned)__builtin_ctz(mask));
        htcs_slot *slot = &store->slots[index];

        if (HTCS_GET(slot->hot.checked_at) <= limit)
            second_chance(slot);
    }
}

/* Bits set in the mask of one set. */
static unsigned count_ways(uint32_t mask)
{
    unsigned n = 0;

    for (; mask; mask &= mask - 1)
        n++;
    return n;
}

/* Both sets are full. Apart, so that the usual way through need not save registers for it. */
static HTC_APART uint32_t evict_candidate(htc_store *store, htcs_home home, uint32_t owner)
{
    uint32_t mask = eligible(store, home, owner), index = oldest(store, home, mask);

    age(store, home, mask, index);
    return evict(store, index) ? index : HTCS_NIL;
}

uint32_t htcs_room_slot(htc_store *store, htcs_home home, uint32_t owner, bool rebuilt)
{
    const uint32_t all = (1U << HTCS_WAYS) - 1;
    uint32_t used = htcs_used(store, home), mask, index;
    unsigned set = count_ways(used >> HTCS_WAYS) < count_ways(used & all);

    /* A free one of the emptier set. */
    mask = ~(used >> (set * HTCS_WAYS)) & all;
    if (!mask)
        return evict_candidate(store, home, owner);
    index = home.first[set] + (uint32_t)__builtin_ctz(mask);
    /* A record that the map does not know: damage. A rebuild that did not find it has not counted
     * it either. */
    if (HTCS_GET(store->slots[index].hot.version)) {
        if (!rebuilt)
            return HTCS_NIL;
        htcs_wipe(store, index);
    }
    return index;
}
