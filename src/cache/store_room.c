/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Who holds what, and who gives way: the owner table with a ring of slots per owner, shares, and
 * the choice of a victim. Called by put and remove, under the store's lock. All of it is rebuilt
 * from the slots after damage, so it checks what it follows and reports instead of repairing.
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

/* Would it hold more than its share with so much more? */
static bool above_share(const htcs_owner *owner, uint32_t more_blocks, uint32_t more_slots)
{
    return (uint64_t)HTCS_GET(owner->blocks) + more_blocks > HTCS_GET(owner->share_blocks) ||
           (uint64_t)HTCS_GET(owner->slots) + more_slots > HTCS_GET(owner->share_slots);
}

/* Keep the number of owners above their share, so that a put that finds none need not search. */
static void note_above(htc_store *store, htcs_owner *owner)
{
    _Atomic uint32_t *count = &store->header->owners_above;
    uint32_t above = above_share(owner, 0, 0), was = HTCS_GET(owner->above);

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

/* When very many are marked, or readers keep marking, the last one seen has to go: others wait for
 * the lock. */
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

/* Somebody above its share, going around; NULL when there is nobody. */
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

static void evict(htc_store *store, uint32_t index)
{
    htcs_remove(store, index);
    htc_count(store, HTC_C_evictions, 1);
}

/* --- room for blocks --------------------------------------------------------------------------*/

/* Whose records go first: its own, those of somebody above its share, anybody's. */
static uint32_t victim_for(htc_store *store, uint32_t blocks, uint32_t owner_index)
{
    htcs_owner *owner = &store->owners[owner_index], *above;

    if (HTCS_GET(owner->slots) && above_share(owner, blocks, 1))
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
    bool rebuilt = false;

    for (uint32_t n = 0; !enough_blocks(store, blocks); n++) {
        uint32_t index = victim_for(store, blocks, owner);

        if (n <= store->nslots && index < store->nslots &&
            HTCS_GET(store->slots[index].hot.version)) {
            evict(store, index);
            if (htcs_clearing(store))
                return false;
            continue;
        }
        /* The lists lead nowhere: damage. */
        if (rebuilt || n > store->nslots)
            return false;
        rebuilt = true;
        htcs_rebuild(store);
    }
    return true;
}

bool htcs_room_blocks(htc_store *store, uint32_t blocks, uint32_t owner)
{
    return enough_blocks(store, blocks) || evict_blocks(store, blocks, owner);
}

/* --- room for a slot --------------------------------------------------------------------------*/

/* The candidates, as bits, whose turn it is: those of this owner if it is above its share, else
 * those of anybody above its share, else all. */
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
    if (own && above_share(&store->owners[owner], 0, 1))
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
    evict(store, index);
    return index;
}

static uint32_t room_slot(htc_store *store, htcs_home home, uint32_t owner, bool rebuilt)
{
    const uint32_t all = (1U << HTCS_WAYS) - 1;
    uint32_t used = htcs_used(store, home), mask, index;
    unsigned set = count_ways(used >> HTCS_WAYS) < count_ways(used & all);

    /* A free one of the emptier set. */
    mask = ~(used >> (set * HTCS_WAYS)) & all;
    if (mask) {
        index = home.first[set] + (uint32_t)__builtin_ctz(mask);
        if (!HTCS_GET(store->slots[index].hot.version))
            return index;
        /* A record that the map does not know: damage. A repair that did not find it has not
         * counted it either. */
        htcs_rebuild(store);
        if (!rebuilt)
            return room_slot(store, home, owner, true);
        htcs_wipe(store, index);
        return index;
    }
    return evict_candidate(store, home, owner);
}

uint32_t htcs_room_slot(htc_store *store, htcs_home home, uint32_t owner)
{
    return room_slot(store, home, owner, false);
}
