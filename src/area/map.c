/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The maps of the area: their names, what is known of each, whose turn it is to look at the file,
 * and the pins that keep an image in its place. Called by the glue, for the most part per request
 * and then without the lock.
 */
#include "area/internal.h"
#include "base/base.h"

#include <apr_random.h>
#include <string.h>

/* A process publishes an image once. Only one that means harm changes `current` so often that it
 * cannot be read. */
#define READ_TRIES 1000

/* --- names ------------------------------------------------------------------------------------*/

/* XXH3, which is used for other names, is not safe here. Who knows a text can find another one
 * with the same hash within seconds, also with 128 bits, and a .htaccess file can name any
 * file. */
redirect_area_key redirect_area_key_of(const char *text, size_t len, apr_pool_t *pool)
{
    apr_crypto_hash_t *hash = apr_crypto_sha256_new(pool);
    unsigned char digest[32];
    redirect_area_key key;

    hash->init(hash);
    hash->add(hash, text, len);
    hash->finish(hash, digest);
    memcpy(&key, digest, sizeof(key));
    return key;
}

/* The handle of the map with this key, or 0. A caller without the lock may miss one that is
 * being made. */
static uint32_t find(const redirect_area *area, const redirect_area_key *key)
{
    uint32_t end = rda_maps_end(area);

    for (uint32_t i = 0; i < end; i++) {
        const rda_name *name = &area->names[i];
        uint32_t handle = RDA_GET(name->handle);

        if (RDA_GET(name->key[0]) == key->word[0] && RDA_GET(name->key[1]) == key->word[1] &&
            rda_entry_of(handle) == i && rda_map_valid(area, handle))
            return handle;
    }
    return 0;
}

static uint32_t free_entry_locked(redirect_area *area)
{
    uint32_t end = rda_maps_end(area);

    for (uint32_t i = 0; i < end; i++) {
        if (!RDA_GET(area->names[i].handle))
            return i;
    }
    if (end == REDIRECT_AREA_MAPS)
        return RDA_NIL;
    RDA_SET(area->header->maps_end, end + 1);
    return end;
}

/* Another one than the entry ever had, for a million times. Neither 0 nor RDA_NIL. */
static uint32_t next_handle(const rda_name *name, uint32_t entry)
{
    uint32_t last = RDA_GET(name->last_handle) >> RDA_MAP_BITS;
    uint32_t most = RDA_NIL >> RDA_MAP_BITS;

    return (last + 1 < most ? last + 1 : 1) << RDA_MAP_BITS | entry;
}

/* The entry no longer has its old meaning, and does not have its new one yet. */
static void reset_locked(redirect_area *area, uint32_t entry)
{
    rda_map *map = &area->maps[entry];

    rda_set_current(map, 0);
    RDA_SET(map->checked_at, 0);
    RDA_SET(map->builder, 0);
    RDA_SET(map->reserved, RDA_NIL);
    RDA_SET(map->reloads, 0);
    RDA_SET(map->failures, 0);
    RDA_SET(map->failed, 0);
    RDA_SET(map->failed_seq, 0);
    if (!RDA_GET(area->names[entry].last_handle))
        return;
    for (uint32_t i = 0; i < RDA_STRIPES; i++) {
        RDA_SET(area->counts[entry].stripes[i].lookups, 0);
        RDA_SET(area->counts[entry].stripes[i].hits, 0);
    }
}

/* A free entry, for which another map is evicted if need be. */
static uint32_t entry_for_locked(redirect_area *area, uint64_t owner)
{
    uint32_t entry;

    if (!rda_may_have_locked(area, RDA_MAPS, owner, 1) &&
        !rda_make_way_locked(area, RDA_MAPS, owner, 1, false))
        return RDA_NIL;
    entry = free_entry_locked(area);
    if (entry == RDA_NIL && rda_make_way_locked(area, RDA_MAPS, owner, 1, true))
        entry = free_entry_locked(area);
    return entry;
}

/* Returns the handle, or 0. */
static uint32_t create_locked(redirect_area *area, const redirect_area_key *key,
                              uint32_t generation, uint64_t owner)
{
    uint32_t entry = entry_for_locked(area, owner), handle;
    rda_name *name = &area->names[rda_at_most(entry, REDIRECT_AREA_MAPS - 1)];

    if (entry == RDA_NIL)
        return 0;
    reset_locked(area, entry);
    handle = next_handle(name, entry);
    RDA_SET(name->last_handle, handle);
    RDA_SET(name->first, generation);
    RDA_SET(name->last, generation);
    RDA_SET(name->key[0], key->word[0]);
    RDA_SET(name->key[1], key->word[1]);
    RDA_SET(name->owner, owner);
    RDA_SET(name->touched, 0);
    RDA_SET(name->restored, 0);
    RDA_SET(name->handle, handle);
    return handle;
}

/* From the first generation that used it to the last one, it is kept for all between. */
static bool used_by(const rda_name *name, uint32_t generation)
{
    return generation >= RDA_GET(name->first) && generation <= RDA_GET(name->last);
}

static void mark_locked(rda_name *name, uint32_t generation)
{
    if (generation < RDA_GET(name->first))
        RDA_SET(name->first, generation);
    if (generation > RDA_GET(name->last))
        RDA_SET(name->last, generation);
}

static uint32_t find_or_create(redirect_area *area, const redirect_area_key *key,
                               uint32_t generation, bool create, uint64_t owner)
{
    uint32_t handle = find(area, key);

    if (handle ? used_by(&area->names[rda_entry_of(handle)], generation) : !create)
        return handle ? handle : RDA_NIL;
    if (rda_lock(area) != APR_SUCCESS)
        return RDA_NIL;
    handle = find(area, key);
    if (handle)
        mark_locked(&area->names[rda_entry_of(handle)], generation);
    else if (create)
        handle = create_locked(area, key, generation, owner);
    rda_unlock(area);
    return handle ? handle : RDA_NIL;
}

uint32_t redirect_area_map(redirect_area *area, const redirect_area_key *key, uint32_t generation,
                           bool create)
{
    return find_or_create(area, key, generation, create, 0);
}

uint32_t redirect_area_map_of(redirect_area *area, const redirect_area_key *key,
                              uint32_t generation, uint64_t owner)
{
    return find_or_create(area, key, generation, true, owner);
}

uint32_t redirect_area_find(const redirect_area *area, const redirect_area_key *key)
{
    uint32_t handle = find(area, key);

    return handle ? handle : REDIRECT_AREA_NIL;
}

bool redirect_area_exists(const redirect_area *area, uint32_t handle)
{
    return handle != RDA_NIL && rda_map_valid(area, handle);
}

bool redirect_area_owned(const redirect_area *area, uint32_t handle)
{
    return !redirect_area_exists(area, handle) || redirect_area_owner(area, handle);
}

uint64_t redirect_area_owner(const redirect_area *area, uint32_t handle)
{
    return redirect_area_exists(area, handle) ? RDA_GET(area->names[rda_entry_of(handle)].owner)
                                              : 0;
}

bool redirect_area_key_get(const redirect_area *area, uint32_t handle, redirect_area_key *key)
{
    const rda_name *name = &area->names[rda_entry_of(handle)];

    *key = (redirect_area_key){{RDA_GET(name->key[0]), RDA_GET(name->key[1])}};
    return redirect_area_exists(area, handle);
}

bool redirect_area_restored(const redirect_area *area, uint32_t handle)
{
    if (handle == RDA_NIL)
        return RDA_GET(area->header->restored) != 0;
    return redirect_area_exists(area, handle) &&
           RDA_GET(area->names[rda_entry_of(handle)].restored) != 0;
}

void redirect_area_set_restored(redirect_area *area, uint32_t handle)
{
    if (handle == RDA_NIL)
        RDA_SET(area->header->restored, 1);
    else if (redirect_area_exists(area, handle))
        RDA_SET(area->names[rda_entry_of(handle)].restored, 1);
}

uint32_t redirect_area_place(uint32_t handle)
{
    return rda_entry_of(handle);
}

void rda_forget_locked(redirect_area *area, uint32_t entry)
{
    rda_set_current(&area->maps[entry], 0);
    RDA_SET(area->names[entry].handle, 0);
}

static bool forgettable_locked(const redirect_area *area, uint32_t entry, uint32_t generation,
                               rda_census *census)
{
    const rda_name *name = &area->names[entry];

    return RDA_GET(name->handle) && !used_by(name, generation) &&
           !rda_generation_alive(area, RDA_GET(name->first), RDA_GET(name->last), census) &&
           !rda_serial_alive(area, RDA_GET(area->maps[entry].builder), census);
}

void redirect_area_collect(redirect_area *area, uint32_t generation)
{
    rda_census census = {0};

    if (!rda_own_serial(area) || rda_lock(area) != APR_SUCCESS)
        return;
    for (uint32_t i = 0; i < rda_maps_end(area); i++) {
        if (forgettable_locked(area, i, generation, &census))
            rda_forget_locked(area, i);
    }
    rda_unlock(area);
    redirect_area_sweep(area);
}

/* --- what is known of a map -------------------------------------------------------------------*/

/* The identity of the file that an image was built from stands with the image, so one word,
 * `current`, decides. */
static bool read_image(const redirect_area *area, const rda_map *map, redirect_area_state *state)
{
    uint64_t id[RDA_ID_WORDS], version = RDA_GET(map->current), seen = 0;

    for (unsigned tries = 0; tries < READ_TRIES; tries++) {
        const rda_image *image = &area->images[rda_slot_of(version)];

        state->version = version;
        if (!version)
            return true;
        HTC_POINT("reading the state");
        for (size_t i = 0; i < RDA_ID_WORDS; i++)
            id[i] = RDA_GET(image->id[i]);
        state->loaded_at = RDA_GET(image->loaded_at);
        state->size = RDA_GET(image->size);
        seen = RDA_GET(image->version);
        if (RDA_GET(map->current) == version)
            break;
        version = RDA_GET(map->current);
    }
    memcpy(&state->id, id, sizeof(id));
    return seen == version;
}

/* While the words are being changed, and when a process died over that, nothing is said to have
 * failed: then it is tried once too often. */
static void read_failure(const rda_map *map, redirect_area_state *state)
{
    uint64_t id[RDA_ID_WORDS];
    uint32_t seq = RDA_GET(map->failed_seq);

    state->failed = RDA_GET(map->failed) != 0;
    for (size_t i = 0; i < RDA_ID_WORDS; i++)
        id[i] = RDA_GET(map->failed_id[i]);
    if (seq % 2 || RDA_GET(map->failed_seq) != seq)
        state->failed = false;
    if (state->failed)
        memcpy(&state->failed_id, id, sizeof(id));
}

/* The counts of this process, and of those that had its cell before, in its thread pins. */
static void add_counts(const redirect_area *area, uint32_t cell, uint32_t handle, uint64_t *lookups,
                       uint64_t *hits)
{
    for (uint64_t left = RDA_GET(area->processes[cell].rows); left; left &= left - 1) {
        const rda_pin_row *row = &area->rows[cell].rows[__builtin_ctzll(left)];
        const redirect_area_thread_pin *pin = &row->pins[rda_first_pin(handle)];

        for (uint32_t i = 0; i < RDA_CHOICE; i++, pin++) {
            if (RDA_GET(pin->handle) != handle)
                continue;
            *lookups += RDA_GET(pin->lookups);
            *hits += RDA_GET(pin->hits);
        }
    }
}

void redirect_area_asked(const redirect_area *area, uint32_t handle, uint64_t *lookups,
                         uint64_t *hits)
{
    const rda_counts *counts = &area->counts[rda_entry_of(handle)];

    *lookups = *hits = 0;
    if (!rda_map_valid(area, handle))
        return;
    for (uint32_t i = 0; i < RDA_STRIPES; i++) {
        *lookups += RDA_GET(counts->stripes[i].lookups);
        *hits += RDA_GET(counts->stripes[i].hits);
    }
    for (uint32_t cell = 0; cell < rda_processes_end(area); cell++)
        add_counts(area, cell, handle, lookups, hits);
}

bool redirect_area_state_get(const redirect_area *area, uint32_t handle, redirect_area_state *state)
{
    const rda_map *map = rda_map_at(area, handle);

    memset(state, 0, sizeof(*state));
    if (!rda_map_valid(area, handle) || !read_image(area, map, state))
        return false;
    read_failure(map, state);
    state->checked_at = RDA_GET(map->checked_at);
    state->reloads = RDA_GET(map->reloads);
    state->failures = RDA_GET(map->failures);
    state->building = rda_serial_alive(area, RDA_GET(map->builder), NULL);
    state->percent = state->building ? RDA_GET(map->percent) % 101 : 0;
    redirect_area_asked(area, handle, &state->lookups, &state->hits);
    return rda_map_valid(area, handle);
}

/* --- notes ------------------------------------------------------------------------------------*/

void redirect_area_note_set(redirect_area *area, uint32_t handle, const redirect_area_note *said)
{
    rda_note *note = &area->notes[rda_entry_of(handle)];
    uint64_t words[RDA_NOTE_WORDS];
    uint32_t seq;

    if (rda_lock(area) != APR_SUCCESS)
        return;
    if (rda_map_valid(area, handle)) {
        memcpy(words, said, sizeof(words));
        seq = RDA_GET(note->seq) | 1;
        RDA_SET(note->seq, seq);
        RDA_SET(note->handle, handle);
        for (size_t i = 0; i < RDA_NOTE_WORDS; i++)
            RDA_SET(note->words[i], words[i]);
        RDA_SET(note->seq, seq + 1);
    }
    rda_unlock(area);
}

bool redirect_area_note_get(const redirect_area *area, uint32_t handle, redirect_area_note *said)
{
    const rda_note *note = &area->notes[rda_entry_of(handle)];
    uint64_t words[RDA_NOTE_WORDS];
    uint32_t seq = RDA_GET(note->seq);

    memset(said, 0, sizeof(*said));
    if (seq % 2 || RDA_GET(note->handle) != handle)
        return false;
    for (size_t i = 0; i < RDA_NOTE_WORDS; i++)
        words[i] = RDA_GET(note->words[i]);
    if (RDA_GET(note->seq) != seq || !rda_map_valid(area, handle))
        return false;
    memcpy(said, words, sizeof(*said));
    /* Whatever is there, it ends. */
    said->file[REDIRECT_AREA_NOTE_TEXT - 1] = '\0';
    said->where[REDIRECT_AREA_NOTE_TEXT - 1] = '\0';
    said->error[REDIRECT_AREA_NOTE_TEXT - 1] = '\0';
    return true;
}

uint32_t redirect_area_next(const redirect_area *area, uint32_t *place)
{
    uint32_t end = rda_maps_end(area), handle = 0;

    while (!handle && *place < end)
        handle = RDA_GET(area->names[(*place)++].handle);
    return handle ? handle : RDA_NIL;
}

uint64_t redirect_area_version(const redirect_area *area, uint32_t handle)
{
    uint64_t version = RDA_GET(rda_map_at(area, handle)->current);

    return rda_map_valid(area, handle) ? version : 0;
}

/* --- when to look at the file -----------------------------------------------------------------*/

bool redirect_area_claim(redirect_area *area, uint32_t handle, int64_t now, int64_t ttl,
                         int64_t lease)
{
    rda_map *map = rda_map_at(area, handle);
    int64_t seen = RDA_GET(map->checked_at), until = now - ttl + (lease < ttl ? lease : ttl);
    bool mine;

    if (!rda_map_valid(area, handle) || (seen && seen > now - ttl))
        return false;
    mine = atomic_compare_exchange_strong(&map->checked_at, &seen, until > 0 ? until : 1);
    HTC_POINT("claim");
    return mine;
}

int64_t redirect_area_checked_at(const redirect_area *area, uint32_t handle)
{
    return RDA_GET(rda_map_at(area, handle)->checked_at);
}

void redirect_area_confirm(redirect_area *area, uint32_t handle, int64_t now)
{
    if (rda_map_valid(area, handle))
        RDA_SET(rda_map_at(area, handle)->checked_at, now);
}

/* --- counting ---------------------------------------------------------------------------------*/

/* Threads have their stacks at different places, children of one parent have theirs at the same. */
static uint32_t own_stripe(const redirect_area *area)
{
    uint64_t mix = (uint64_t)(uintptr_t)__builtin_frame_address(0) >> 16;

    mix ^= rda_cell_of(RDA_GET(area->own->serial)) * UINT64_C(0x100000001);
    return (uint32_t)(mix * UINT64_C(0x9e3779b97f4a7c15) >> 32) % RDA_STRIPES;
}

/* The map is used, so others are evicted before it. Written only when the hand has gone by. */
static inline void touch(redirect_area *area, uint32_t handle)
{
    rda_name *name = &area->names[rda_entry_of(handle)];

    if (__builtin_expect(!RDA_GET(name->touched), 0))
        RDA_SET(name->touched, 1);
}

void redirect_area_count(redirect_area *area, uint32_t handle, uint64_t lookups, uint64_t hits)
{
    rda_stripe *stripe = &area->counts[rda_entry_of(handle)].stripes[own_stripe(area)];

    if (!rda_map_valid(area, handle))
        return;
    touch(area, handle);
    if (lookups)
        atomic_fetch_add_explicit(&stripe->lookups, lookups, memory_order_relaxed);
    HTC_POINT("lookups");
    if (hits)
        atomic_fetch_add_explicit(&stripe->hits, hits, memory_order_relaxed);
    HTC_POINT("hits");
}

/* --- pins -------------------------------------------------------------------------------------*/

/*
 * Why a pin taken here is safe, without a lock, from a process that gives memory back meanwhile.
 * All four accesses are sequentially consistent, so there is one order of all of them:
 *
 *     the process that pins                   one that publishes, then gives back (locked)
 *     P1  adds 1 to its cell of the slot      C1  stores another version in `current`
 *     P2  reads `current`                     C2  reads all cells of the slot
 *
 * If P2 comes before C1, so does P1, and C2 sees the pin: the image stays. If P2 comes after C1, it
 * sees another version than the one that said where to pin, as no version ever comes again; the pin
 * is taken back, and C2 may have seen it or not. Only then the cell may be one of another image,
 * the slot's next, which a pin for a moment does no harm. That an image is given up otherwise, with
 * its map, is the same: then C1 stores 0. Unpinning stores with release, C2 reads with acquire:
 * what was read of the image was read before its memory is used for another image.
 */
static void add_pins(redirect_area *area, uint32_t slot, uint64_t serial, uint32_t n)
{
    atomic_fetch_add_explicit(&area->cells[slot].pins[rda_cell_of(serial)], n,
                              memory_order_seq_cst);
    HTC_POINT("pins");
}

static bool pin_version(redirect_area *area, rda_map *map, uint64_t version, uint64_t serial)
{
    uint32_t slot = rda_slot_of(version);

    HTC_POINT("about to pin");
    add_pins(area, slot, serial, 1);
    if (atomic_load_explicit(&map->current, memory_order_seq_cst) == version)
        return true;
    add_pins(area, slot, serial, UINT32_MAX);
    return false;
}

/* The entry of a pinned image does not change. False when it is impossible. */
static bool describe(const redirect_area *area, uint64_t version, uint64_t serial,
                     redirect_area_pin *pin)
{
    const rda_image *image = &area->images[rda_slot_of(version)];
    uint64_t size = RDA_GET(image->size), room, used;
    uint32_t ncounters = RDA_GET(image->counters);
    unsigned char *at;
    rda_extent extent;

    if (RDA_GET(image->version) != version ||
        !rda_image_extent(area, rda_slot_of(version), &extent))
        return false;
    room = (uint64_t)extent.pages * area->page;
    if (size > room)
        return false;
    used = (size + area->page - 1) / area->page * area->page; /* counters begin on a page */
    if (ncounters * sizeof(redirect_counter) > room - used)
        return false;
    at = area->room + (size_t)extent.first * area->page;
    *pin = (redirect_area_pin){.image = at,
                               .size = (size_t)size,
                               .version = version,
                               .user = serial,
                               .slot = rda_slot_of(version),
                               .ncounters = ncounters,
                               .counters = (redirect_counter *)(void *)(at + used)};
    return true;
}

bool redirect_area_pin_get(redirect_area *area, uint32_t handle, redirect_area_pin *pin)
{
    rda_map *map = rda_map_at(area, handle);
    uint64_t serial = rda_own_serial(area), version;

    memset(pin, 0, sizeof(*pin));
    for (unsigned tries = 0;; tries++) {
        version = redirect_area_version(area, handle);
        if (!version || !serial || tries == READ_TRIES)
            return false;
        if (pin_version(area, map, version, serial))
            break;
    }
    if (describe(area, version, serial, pin))
        return true;
    add_pins(area, rda_slot_of(version), serial, UINT32_MAX);
    return false;
}

bool redirect_area_pin_known(redirect_area *area, uint32_t handle, const redirect_area_pin *known)
{
    uint64_t serial = rda_own_serial(area);

    return known->version && serial && serial == known->user &&
           redirect_area_version(area, handle) == known->version &&
           pin_version(area, rda_map_at(area, handle), known->version, serial);
}

/* A pin that a child inherited is its parent's. */
static bool own_pin(const redirect_area *area, const redirect_area_pin *pin)
{
    return pin->image && pin->slot < REDIRECT_AREA_IMAGES && pin->user == rda_own_serial(area);
}

void redirect_area_unpin(redirect_area *area, const redirect_area_pin *pin)
{
    if (own_pin(area, pin))
        add_pins(area, pin->slot, pin->user, UINT32_MAX);
}

/* --- thread pins -------------------------------------------------------------------------------*/

/*
 * The same as a pin, for one request at a time, written where no other thread writes: what is a
 * count there is the version itself here. P1 writes it there, C2 reads all thread pins; the rest
 * of the reasoning above holds word for word, but that no map needs to be asked whether it exists:
 * the image of one that is forgotten is no longer its current one.
 */
static bool take_pin(redirect_area_thread_pin *pin, const rda_map *map, uint64_t version)
{
    uint64_t none = 0;

    HTC_POINT("about to hold");
    if (!atomic_compare_exchange_strong(&pin->version, &none, version))
        return false;
    HTC_POINT("held");
    if (__builtin_expect(atomic_load_explicit(&map->current, memory_order_seq_cst) == version, 1))
        return true;
    RDA_SET(pin->version, 0);
    return false;
}

/* A caller that reads the counts of the new map meanwhile finds none of the old one's. */
static void give_to_map(redirect_area_thread_pin *pin, uint32_t handle)
{
    RDA_SET(pin->handle, 0);
    RDA_SET(pin->lookups, 0);
    RDA_SET(pin->hits, 0);
    RDA_SET(pin->handle, handle);
}

/* The thread's first request of this map, or one while another one of the same thread is under way,
 * as they are when answers are sent: a second pin, or one of a map that is forgotten. */
static HTC_APART redirect_area_thread_pin *find_pin(redirect_area *area, uint32_t handle,
                                                    const redirect_area_pin *known, uint32_t number)
{
    rda_process *process = &area->processes[rda_cell_of(known->user)];
    rda_pin_row *row = &area->rows[rda_cell_of(known->user)].rows[number];
    redirect_area_thread_pin *pin = &row->pins[rda_first_pin(handle)];

    if (!(RDA_GET(process->rows) >> number & 1)) {
        atomic_fetch_or(&process->rows, UINT64_C(1) << number);
        HTC_POINT("pin rows");
    }
    for (uint32_t i = 0; i < RDA_CHOICE; i++, pin++) {
        uint32_t owner = RDA_GET(pin->handle);

        if ((owner != handle && rda_map_valid(area, owner)) ||
            !take_pin(pin, rda_map_at(area, handle), known->version))
            continue;
        owner = RDA_GET(pin->handle);
        if (owner == handle)
            return pin;
        if (!rda_map_valid(area, owner)) {
            give_to_map(pin, handle);
            return pin;
        }
        RDA_SET(pin->version, 0);
    }
    return NULL;
}

HTC_HOT redirect_area_thread_pin *redirect_area_hold(redirect_area *area, uint32_t handle,
                                                     const redirect_area_pin *known,
                                                     uint64_t thread)
{
    uint32_t number = (uint32_t)(thread % RDA_PIN_ROWS);
    redirect_area_thread_pin *pin;

    if (!known->version || known->user != rda_own_serial(area))
        return NULL;
    touch(area, handle);
    pin = &area->rows[rda_cell_of(known->user)].rows[number].pins[rda_first_pin(handle)];
    if (RDA_GET(pin->handle) == handle && take_pin(pin, rda_map_at(area, handle), known->version)) {
        if (__builtin_expect(RDA_GET(pin->handle) == handle, 1))
            return pin;
        RDA_SET(pin->version, 0);
    }
    return find_pin(area, handle, known, number);
}

void redirect_area_let_go(redirect_area *area, const redirect_area_pin *known,
                          redirect_area_thread_pin *pin)
{
    if (known->user == rda_own_serial(area))
        RDA_SET(pin->version, 0);
}

void redirect_area_count_held(redirect_area_thread_pin *pin, uint64_t lookups, uint64_t hits)
{
    RDA_SET(pin->lookups, atomic_load_explicit(&pin->lookups, memory_order_relaxed) + lookups);
    if (hits)
        RDA_SET(pin->hits, atomic_load_explicit(&pin->hits, memory_order_relaxed) + hits);
}
