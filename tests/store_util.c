/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Helpers of the store's test programs, see store_util.h.
 */
#include "store_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apr_general.h>

apr_pool_t *su_pool(void)
{
    apr_pool_t *pool;

    if (apr_initialize() != APR_SUCCESS || apr_pool_create(&pool, NULL) != APR_SUCCESS)
        abort();
    return pool;
}

htc_store *su_create(apr_pool_t *pool, uint64_t bytes)
{
    htc_store *store;
    const char *why = "";

    if (htc_store_create(&store, bytes, pool, &why) != APR_SUCCESS) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    return store;
}

uint32_t su_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

const char *su_key(uint32_t number)
{
    static _Thread_local char key[256];
    int pad = (int)(number * 7 % 120);

    snprintf(key, sizeof(key), "/srv/%u/%0*d/.htaccess", number, pad + 1, 0);
    return key;
}

uint64_t su_hash(const htc_store *store, uint32_t number)
{
    const char *key = su_key(number);

    return htc_store_hash(store, key, strlen(key));
}

htc_identity su_identity(uint32_t number, bool reidentified)
{
    htc_identity id;

    memset(&id, 0, sizeof(id));
    id.dev = 5;
    id.ino = number;
    id.mtime_ns = reidentified ? -(int64_t)number : number;
    id.uid = number * 3;
    return id;
}

/* The payload: number, round, then bytes that follow from both; a short one has no round. */
static void fill(char *bytes, size_t len, uint32_t number, uint32_t round)
{
    uint64_t state = ((uint64_t)number << 32) + round;
    uint32_t head[2] = {number, round};

    if (len < sizeof(head)) {
        memset(bytes, (int)(number % 255) + 1, len);
        return;
    }
    memcpy(bytes, head, sizeof(head));
    for (size_t i = sizeof(head); i < len; i++)
        bytes[i] = (char)su_random(&state);
}

static uint32_t flags_of(uint32_t number)
{
    return number * UINT32_C(2654435761);
}

apr_status_t su_put(htc_store *store, const su_spec *spec, htc_ref *ref)
{
    htc_identity id = su_identity(spec->number, false);
    char *payload = malloc(spec->len + 1);
    htc_put put = {.hash = su_hash(store, spec->number),
                   .key = su_key(spec->number),
                   .key_len = strlen(su_key(spec->number)),
                   .kind = spec->kind ? spec->kind : HTC_KIND_TREE,
                   .flags = flags_of(spec->number),
                   .id = &id,
                   .payload = payload,
                   .payload_len = spec->len,
                   .owner = spec->owner,
                   .share_percent = spec->share ? spec->share : 100,
                   .checked_at = spec->number};
    apr_status_t rv;

    fill(payload, spec->len, spec->number, spec->round);
    rv = htc_store_put(store, &put, ref);
    free(payload);
    return rv;
}

static bool right_info(const htc_info *info, uint32_t number)
{
    htc_identity id = su_identity(number, false), again = su_identity(number, true);

    if (info->kind == HTC_KIND_ABSENT)
        memset(&id, 0, sizeof(id));
    return info->kind > HTC_KIND_NONE && info->kind <= HTC_KIND_STOCK && info->ref.version &&
           info->flags == flags_of(number) &&
           (htc_identity_equal(&info->id, &id) || htc_identity_equal(&info->id, &again));
}

static bool right_payload(const char *payload, size_t len, uint32_t number)
{
    uint32_t head[2] = {number, 0};
    char *expected = malloc(len + 1);
    bool right;

    if (len >= sizeof(head))
        memcpy(head, payload, sizeof(head));
    fill(expected, len, number, head[1]);
    right = !memcmp(payload, expected, len) && payload[len] == '\0' && (uintptr_t)payload % 8 == 0;
    free(expected);
    return right;
}

su_found su_get(htc_store *store, uint32_t number, apr_pool_t *pool, htc_info *info)
{
    const char *key = su_key(number);
    char *payload;
    size_t len;
    apr_status_t rv;

    if (!htc_store_find(store, su_hash(store, number), key, strlen(key), info))
        return SU_NONE;
    if (!right_info(info, number))
        return SU_WRONG;
    apr_pool_clear(pool);
    rv = htc_store_copy(store, info->ref, pool, &payload, &len);
    if (rv == APR_NOTFOUND)
        return SU_NONE;
    if (rv == APR_EGENERAL)
        return SU_FAILED;
    if (rv != APR_SUCCESS || len != info->payload_len || !right_payload(payload, len, number))
        return SU_WRONG;
    return SU_RIGHT;
}

/* --- consistency ------------------------------------------------------------------------------*/

/* What a walk over the slots comes to, to be compared with what the segment says. */
typedef struct tally {
    unsigned char *seen; /* per block */
    uint32_t *owner_blocks, *owner_slots;
    uint32_t blocks, records[HTC_KIND_STOCK + 1];
} tally;

static const char *tally_chain(const htc_store *store, const htcs_slot *slot, tally *t)
{
    uint32_t block = HTCS_GET(slot->first);
    uint32_t left = (uint32_t)htcs_blocks_for(HTCS_GET(slot->body_len));

    t->owner_blocks[HTCS_GET(slot->owner)] += left;
    for (; left; left--) {
        if (block >= store->nblocks)
            return "a chain is too short";
        if (t->seen[block]++)
            return "a block belongs to two records";
        t->blocks++;
        block = HTCS_GET(store->fat[block]);
    }
    return block == HTCS_NIL ? NULL : "a chain is too long";
}

static const char *tally_slot(const htc_store *store, uint32_t index, tally *t)
{
    const htcs_slot *slot = &store->slots[index];
    bool used = HTCS_GET(slot->hot.version) != 0;
    htcs_view view;

    if (HTCS_GET(slot->seq) % 2)
        return "a slot was left half-written";
    if (used != (HTCS_GET(store->used[index / 64]) >> index % 64 & 1))
        return "the map of used slots is wrong";
    if (!used)
        return NULL;
    if (!htcs_intact(store, index, &view))
        return "a record is damaged";
    if (HTCS_GET(slot->hot.version) > HTCS_GET(store->header->last_version))
        return "a version was never given";
    t->records[HTCS_GET(slot->kind)]++;
    t->owner_slots[HTCS_GET(slot->owner)]++;
    return tally_chain(store, slot, t);
}

static const char *check_free(const htc_store *store, tally *t)
{
    uint32_t fresh = HTCS_GET(store->header->fresh), free_blocks = 0;
    uint32_t block = HTCS_GET(store->header->free_head);

    for (; block != HTCS_NIL; block = HTCS_GET(store->fat[block]), free_blocks++) {
        if (block >= fresh)
            return "the free list leads outside";
        if (t->seen[block]++)
            return "a free block is in use, or twice in the list";
    }
    if (t->blocks != HTCS_GET(store->header->blocks_used))
        return "the number of used blocks is wrong";
    return t->blocks + free_blocks + (store->nblocks - fresh) == store->nblocks
               ? NULL
               : "blocks were lost";
}

static const char *check_ring(const htc_store *store, uint32_t index)
{
    uint32_t slots = HTCS_GET(store->owners[index].slots), at = HTCS_GET(store->owners[index].hand);

    for (uint32_t i = 0; i < slots; i++) {
        if (at >= store->nslots || !HTCS_GET(store->slots[at].hot.version) ||
            HTCS_GET(store->slots[at].owner) != index)
            return "an owner's ring holds a slot that is not its own";
        at = HTCS_GET(store->slots[at].own_next);
        if (i + 1 < slots && at == HTCS_GET(store->owners[index].hand))
            return "an owner's ring is too short";
    }
    return !slots || at == HTCS_GET(store->owners[index].hand) ? NULL
                                                               : "an owner's ring does not close";
}

static const char *check_owners(const htc_store *store, const tally *t)
{
    uint32_t live = 0, above = 0;

    for (uint32_t i = 0; i <= store->nowners; i++) {
        const htcs_owner *owner = &store->owners[i];
        const char *wrong = check_ring(store, i);

        if (wrong)
            return wrong;
        if (HTCS_GET(owner->slots) != t->owner_slots[i] ||
            HTCS_GET(owner->blocks) != t->owner_blocks[i])
            return "an owner's account is wrong";
        if (HTCS_GET(owner->slots) &&
            HTCS_GET(owner->above) != (HTCS_GET(owner->blocks) > HTCS_GET(owner->share_blocks) ||
                                       HTCS_GET(owner->slots) > HTCS_GET(owner->share_slots)))
            return "an owner is wrongly said to be above its share, or not";
        live += t->owner_slots[i] != 0;
        above += HTCS_GET(owner->above);
    }
    if (live != HTCS_GET(store->header->owners_live))
        return "the number of owners is wrong";
    return above == HTCS_GET(store->header->owners_above) ? NULL
                                                          : "the number above their share is wrong";
}

static const char *check_all(const htc_store *store, tally *t)
{
    const char *wrong = NULL;

    for (uint32_t i = 0; i < store->nslots && !wrong; i++)
        wrong = tally_slot(store, i, t);
    for (int kind = 0; kind <= HTC_KIND_STOCK && !wrong; kind++) {
        if (t->records[kind] != HTCS_GET(store->header->records[kind]))
            wrong = "the number of records is wrong";
    }
    if (!wrong)
        wrong = check_free(store, t);
    return wrong ? wrong : check_owners(store, t);
}

const char *su_inconsistent(const htc_store *store)
{
    tally t = {.seen = calloc(store->nblocks, 1),
               .owner_blocks = calloc(store->nowners + 1, sizeof(uint32_t)),
               .owner_slots = calloc(store->nowners + 1, sizeof(uint32_t))};
    const char *wrong = check_all(store, &t);

    free(t.seen);
    free(t.owner_blocks);
    free(t.owner_slots);
    return wrong;
}
