/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Repair, under the lock. After a writer died: take back and end what it was doing. After damage:
 * keep the slots that prove themselves by their checksums, wipe the others, and derive everything
 * else anew. And emptying the store, some slots at a time.
 */
#include "cache/store_internal.h"

static void reset_owner(htcs_owner *owner)
{
    HTCS_SET(owner->slots, 0);
    HTCS_SET(owner->blocks, 0);
    HTCS_SET(owner->above, 0);
    HTCS_SET(owner->hand, HTCS_NIL);
}

/* No owner holds anything. Owners keep their names and shares: slots refer to them. */
static void reset(htc_store *store)
{
    htcs_header *header = store->header;

    for (uint32_t i = 0; i <= store->nowners; i++)
        reset_owner(&store->owners[i]);
    for (int kind = 0; kind <= HTC_KIND_STOCK; kind++)
        HTCS_SET(header->records[kind], 0);
    HTCS_SET(header->owners_live, 0);
    HTCS_SET(header->owners_above, 0);
    HTCS_SET(header->blocks_used, 0);
}

static void reset_marks(htc_store *store)
{
    for (uint32_t i = 0; i < (store->nblocks + 63) / 64; i++)
        HTCS_SET(store->marks[i], 0);
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

/* Mark the chain's blocks; false, and nothing marked, when one of them is another record's. It has
 * as many as were proved to be there, unless a process is writing nonsense. */
static bool claim_chain(htc_store *store, uint32_t first, uint64_t blocks)
{
    uint32_t block = first;
    uint64_t n = 0;

    for (; n < blocks && block < store->nblocks && !marked(store, block); n++) {
        flip_mark(store, block);
        block = HTCS_GET(store->fat[block]);
    }
    if (n == blocks && block == HTCS_NIL)
        return true;
    for (block = first; n && block < store->nblocks; n--) {
        flip_mark(store, block);
        block = HTCS_GET(store->fat[block]);
    }
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
        if (htcs_intact(store, index, &view) &&
            claim_chain(store, view.first, htcs_blocks_for(view.body_len))) {
            htcs_account(store, index, &view);
            return;
        }
        htcs_wipe(store, index);
        htc_count(store, HTC_C_corrupt, 1);
    }
    htcs_set_used(store, index, false);
}

/* All blocks below the last one in use that were not claimed. */
static void collect_free(htc_store *store)
{
    uint32_t words = (store->nblocks + 63) / 64, fresh, head = HTCS_NIL;

    while (words && !HTCS_GET(store->marks[words - 1]))
        words--;
    fresh = words * 64 < store->nblocks ? words * 64 : store->nblocks;
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

static bool is_used(const htc_store *store, uint32_t index)
{
    return HTCS_GET(store->used[index / 64]) >> index % 64 & 1;
}

/* How many words the map of used slots has. */
static uint32_t used_words(const htc_store *store)
{
    return (store->nslots + 63) / 64;
}

/* Call a function with each slot of a word of the map; in a large store with those of which the map
 * says that they are used. Nobody finds the others, and most of these never had memory. */
static void each_slot(htc_store *store, uint32_t word, void (*fn)(htc_store *store, uint32_t index))
{
    bool all = store->nslots <= HTCS_PROVED_MOST;

    if (!all && !HTCS_GET(store->used[word]))
        return;
    for (uint32_t index = word * 64; index < word * 64 + 64; index++) {
        if (index < store->nslots && (all || is_used(store, index)))
            fn(store, index);
        else if (index >= store->nslots) /* the map's last word may reach beyond the slots */
            htcs_set_used(store, index, false);
    }
}

static void empty(htc_store *store, uint32_t index)
{
    htcs_wipe(store, index);
    htcs_set_used(store, index, false);
}

void htcs_clear_begin(htc_store *store)
{
    HTCS_SET(store->header->cleared, 0);
    HTCS_SET(store->header->task, HTCS_CLEARING);
}

bool htcs_clear_step(htc_store *store)
{
    htcs_header *header = store->header;
    uint32_t from = HTCS_GET(header->cleared), end = used_words(store), word;

    for (word = from; word < end && word - from < HTCS_CLEARED_WORDS; word++)
        each_slot(store, word, empty);
    HTCS_SET(header->cleared, word);
    if (word < end)
        return false;
    reset(store);
    HTCS_SET(header->fresh, 0);
    HTCS_SET(header->free_head, HTCS_NIL);
    HTCS_SET(header->task, HTCS_NO_TASK);
    return true;
}

static uint64_t count_used(const htc_store *store)
{
    uint64_t n = 0;

    for (uint32_t word = 0; word < used_words(store); word++)
        n += (uint64_t)__builtin_popcountll(HTCS_GET(store->used[word]));
    return n;
}

/* To prove a record is to read all of it, and requests wait meanwhile. */
void htcs_rebuild(htc_store *store)
{
    if (count_used(store) > HTCS_PROVED_MOST) {
        htcs_clear_begin(store);
        return;
    }
    HTCS_SET(store->header->task, HTCS_REBUILDING);
    reset(store);
    reset_marks(store);
    for (uint32_t word = 0; word < used_words(store); word++)
        each_slot(store, word, examine);
    collect_free(store);
    HTCS_SET(store->header->task, HTCS_NO_TASK);
}

/* --- a writer died -----------------------------------------------------------------------------*/

/* The record is the one that the process that died had noted. False when that is impossible. */
static bool remove_again(htc_store *store)
{
    htcs_header *header = store->header;
    uint32_t index = HTCS_GET(header->changing);
    htcs_view view = {.first = HTCS_GET(header->changing_first),
                      .body_len = HTCS_GET(header->changing_len),
                      .kind = HTCS_GET(header->changing_kind),
                      .owner = HTCS_GET(header->changing_owner)};

    if (index >= store->nslots || view.kind > HTC_KIND_STOCK || view.owner > store->nowners ||
        htcs_blocks_for(view.body_len) > store->nblocks)
        return false;
    return htcs_remove_known(store, index, &view);
}

static bool give_up_new(htc_store *store)
{
    uint32_t index = HTCS_GET(store->header->changing);

    if (index >= store->nslots)
        return false;
    htcs_wipe(store, index);
    return true;
}

void htcs_recover(htc_store *store)
{
    htcs_task task = (htcs_task)HTCS_GET(store->header->task);
    bool good = true;

    switch (task) {
    case HTCS_NO_TASK:
    case HTCS_CLEARING:
        return;
    case HTCS_PUTTING:
        htcs_take_back(store);
        good = give_up_new(store);
        break;
    case HTCS_REMOVING:
        htcs_take_back(store);
        HTCS_SET(store->header->noted, 0);
        good = remove_again(store);
        break;
    case HTCS_SHARING:
        htcs_take_back(store);
        break;
    case HTCS_REBUILDING:
    default:
        good = false;
        break;
    }
    if (good)
        htcs_task_end(store);
    else
        htcs_rebuild(store);
}
