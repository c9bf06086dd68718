/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reading records without a lock: find, copy, each. A record is copied out word by word between
 * two looks at its slot's sequence count, and proved by checksums; every index is checked before it
 * is followed. Also used by writers, under the lock, to tell whether a record is intact.
 */
#include "base/base.h"
#include "cache/store_internal.h"

#include <string.h>

#include <apr_strings.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A writer that keeps a slot odd for longer has been stopped or killed: do without the record. */
#define READ_TRIES 16

/* --- slots ------------------------------------------------------------------------------------*/

static bool view_begin(const htcs_slot *slot, htcs_view *view)
{
    view->seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
    view->version = HTCS_GET(slot->hot.version);
    HTC_LOAD_POINT("version");
    view->checked_at = HTCS_GET(slot->hot.checked_at);
    view->tag = HTCS_GET(slot->tag);
    view->first = HTCS_GET(slot->first);
    view->body_len = HTCS_GET(slot->body_len);
    view->flags = HTCS_GET(slot->flags);
    view->kind = HTCS_GET(slot->kind);
    view->owner = HTCS_GET(slot->owner);
    return view->seq % 2 == 0;
}

/* True when all that was read since view_begin() belongs together. Blocks that were freed and
 * written again meanwhile are noticed too: the slot was changed before they were freed. */
static bool view_end(const htcs_slot *slot, const htcs_view *view)
{
    atomic_thread_fence(memory_order_acquire);
    return HTCS_GET(slot->seq) == view->seq && HTCS_GET(slot->hot.version) == view->version;
}

/* --- bodies -----------------------------------------------------------------------------------*/

/* Up to the end of the current block; 0 when the chain leads outside. */
static size_t read_block(const htc_store *store, htcs_cursor *cursor, uint64_t *words, size_t n)
{
    const htcs_block *block;
    size_t i;

    if (cursor->word == HTCS_BLOCK_WORDS) {
        cursor->block = HTCS_GET(store->fat[cursor->block]);
        cursor->word = 0;
    }
    if (cursor->block >= store->nblocks)
        return 0;
    HTC_LOAD_POINT("block");
    block = &store->blocks[cursor->block];
    if (n > HTCS_BLOCK_WORDS - cursor->word)
        n = HTCS_BLOCK_WORDS - cursor->word;
    for (i = 0; i < n; i++)
        words[i] = HTCS_GET(block->words[cursor->word + i]);
    cursor->word += (uint32_t)n;
    return n;
}

static bool read_words(const htc_store *store, htcs_cursor *cursor, uint64_t *words, size_t n)
{
    while (n) {
        size_t got = read_block(store, cursor, words, n);

        if (!got)
            return false;
        words += got;
        n -= got;
    }
    return true;
}

/* Two words of the slot into one: each multiplication by an odd number is reversible, so that a
 * change of any one field changes the result. */
static uint64_t mix(uint64_t sum, uint64_t a, uint64_t b)
{
    return (sum ^ a * UINT64_C(0x9E3779B97F4A7C15)) + b * UINT64_C(0xC2B2AE3D27D4EB4F);
}

static uint64_t pair(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* Words that are few and come from ourselves need no better hash: each step is reversible, so that
 * a change of any one word changes the result. */
static uint64_t mix_words(uint64_t sum, const void *bytes, size_t len)
{
    const char *at = bytes;

#pragma GCC unroll 4
    for (size_t i = 0; i < len / 8; i++) {
        uint64_t word;

        memcpy(&word, at + 8 * i, 8);
        sum ^= word;
        sum = (sum << 29 | sum >> 35) * UINT64_C(0x9E3779B97F4A7C15);
    }
    return sum;
}

uint64_t htcs_front_sum(const htc_store *store, const htcs_view *view, const htcs_front *front)
{
    const htcs_head *head = &front->head;
    uint64_t sum = mix(store->seed, view->version, view->tag);

    sum = mix(sum, pair(view->body_len, view->flags), pair(view->kind, view->owner));
    sum = mix(sum, pair(head->key_len, head->payload_len), 0);
    sum = mix_words(sum, front->key, htcs_key_bytes(head->key_len));
    if (view->kind != HTC_KIND_ABSENT)
        sum = mix_words(sum, &front->id, sizeof(front->id));
    return sum;
}

/* Begun with the version, so that the payload of another record cannot pass for this one's. */
static uint64_t sum_begin(const htc_store *store, uint64_t version)
{
    return store->seed + version;
}

static size_t piece_of(size_t len)
{
    return len < 8 * HTCS_SUM_WORDS ? len : 8 * HTCS_SUM_WORDS;
}

uint64_t htcs_payload_sum(const htc_store *store, uint64_t version, const void *bytes, size_t len)
{
    uint64_t sum = sum_begin(store, version);
    const char *at = bytes;

    while (len) {
        size_t piece = piece_of(len);

        sum = XXH3_64bits_withSeed(at, piece, sum);
        at += piece;
        len -= piece;
    }
    return sum;
}

static bool read_front(const htc_store *store, const htcs_view *view, htcs_front *front,
                       htcs_cursor *cursor)
{
    const htcs_head *head = &front->head;

    *cursor = (htcs_cursor){view->first, 0};
    if (!read_words(store, cursor, (uint64_t *)(void *)&front->head, HTCS_HEAD_WORDS))
        return false;
    if (view->kind - 1 >= HTC_KIND_STOCK || head->key_len > HTC_STORE_MAX_KEY ||
        head->payload_len > HTCS_MOST_PAYLOAD ||
        htcs_body_bytes(view->kind, head->key_len, head->payload_len) != view->body_len ||
        htcs_blocks_for(view->body_len) > store->nblocks)
        return false;
    if (!read_words(store, cursor, (uint64_t *)(void *)front->key,
                    htcs_key_bytes(head->key_len) / 8))
        return false;
    if (view->kind == HTC_KIND_ABSENT)
        memset(&front->id, 0, sizeof(front->id));
    else if (!read_words(store, cursor, (uint64_t *)(void *)&front->id, HTCS_ID_WORDS))
        return false;
    if (head->sum != htcs_front_sum(store, view, front))
        return false;
    front->key[head->key_len] = '\0'; /* a process that can write the segment can make a sum, too */
    return true;
}

static htcs_result read_once(const htc_store *store, uint32_t index, htcs_view *view,
                             htcs_front *front, htcs_cursor *cursor)
{
    const htcs_slot *slot = &store->slots[index];
    bool good;

    if (!view_begin(slot, view))
        return HTCS_BUSY;
    if (!view->version)
        return HTCS_NONE;
    good = read_front(store, view, front, cursor);
    if (!view_end(slot, view))
        return HTCS_BUSY;
    return good ? HTCS_OK : HTCS_DAMAGED;
}

htcs_result htcs_read(const htc_store *store, uint32_t index, htcs_view *view, htcs_front *front,
                      htcs_cursor *cursor)
{
    htcs_result result = HTCS_BUSY;

    for (int i = 0; i < READ_TRIES && result == HTCS_BUSY; i++)
        result = read_once(store, index, view, front, cursor);
    return result;
}

/* Sums up the payload behind the cursor without a copy of the whole. */
static bool payload_intact(const htc_store *store, uint64_t version, size_t len,
                           htcs_cursor *cursor)
{
    uint64_t words[HTCS_SUM_WORDS], expected, sum = sum_begin(store, version);

    if (!len)
        return true;
    if (!read_words(store, cursor, &expected, 1))
        return false;
    while (len) {
        size_t piece = piece_of(len);

        if (!read_words(store, cursor, words, (piece + 7) / 8))
            return false;
        sum = XXH3_64bits_withSeed(words, piece, sum);
        len -= piece;
    }
    return sum == expected;
}

/* The owner is under the checksum, but it becomes an index. */
bool htcs_intact(const htc_store *store, uint32_t index, htcs_view *view)
{
    htcs_front front;
    htcs_cursor cursor;

    return htcs_read(store, index, view, &front, &cursor) == HTCS_OK && view->version &&
           view->owner <= store->nowners &&
           payload_intact(store, view->version, front.head.payload_len, &cursor) &&
           HTCS_GET(store->fat[cursor.block]) == HTCS_NIL;
}

/* --- look-up ----------------------------------------------------------------------------------*/

static void fill_info(htc_info *info, uint32_t index, const htcs_view *view,
                      const htcs_front *front)
{
    info->ref = (htc_ref){index, view->version};
    info->kind = (htc_kind)view->kind;
    info->flags = view->flags;
    info->payload_len = front->head.payload_len;
    info->checked_at = view->checked_at;
    info->id = front->id;
}

/* Among the candidates in the mask. Apart: it needs much of the stack, and mostly is not needed for
 * what is not there. */
static HTC_APART bool find_among(htc_store *store, htcs_home home, uint32_t mask, uint64_t hash,
                                 const char *key, size_t key_len, htc_info *info)
{
    htcs_view view;
    htcs_front front;
    htcs_cursor cursor;

    for (; mask; mask &= mask - 1) {
        uint32_t index = htcs_candidate(home, (unsigned)__builtin_ctz(mask));

        if (HTCS_GET(store->slots[index].tag) != hash)
            continue;
        switch (htcs_read(store, index, &view, &front, &cursor)) {
        case HTCS_OK:
            if (view.tag == hash && front.head.key_len == key_len &&
                !memcmp(front.key, key, key_len)) {
                fill_info(info, index, &view, &front);
                return true;
            }
            break;
        case HTCS_DAMAGED:
            htcs_drop_damaged(store, index, view.version);
            break;
        default:
            break;
        }
    }
    return false;
}

bool htc_store_find(htc_store *store, uint64_t hash, const char *key, size_t key_len,
                    htc_info *info)
{
    htcs_home home = htcs_home_of(store, hash);
    uint32_t mask = htcs_used(store, home);

    if (mask && find_among(store, home, mask, hash, key, key_len, info))
        return true;
    memset(info, 0, sizeof(*info));
    return false;
}

char *htc_store_name(htc_store *store, uint64_t hash, apr_pool_t *pool, htc_info *info)
{
    htcs_home home = htcs_home_of(store, hash);
    htcs_view view;
    htcs_front front;
    htcs_cursor cursor;

    for (uint32_t mask = htcs_used(store, home); mask; mask &= mask - 1) {
        uint32_t index = htcs_candidate(home, (unsigned)__builtin_ctz(mask));

        if (HTCS_GET(store->slots[index].tag) != hash ||
            htcs_read(store, index, &view, &front, &cursor) != HTCS_OK || view.tag != hash)
            continue;
        fill_info(info, index, &view, &front);
        return apr_pstrmemdup(pool, front.key, front.head.key_len);
    }
    return NULL;
}

/* --- copy -------------------------------------------------------------------------------------*/

/* Where a payload is copied to; kept over the tries. */
typedef struct copy {
    apr_pool_t *pool;
    char *bytes;
    size_t len;
} copy;

static bool copy_alloc(copy *out, size_t len)
{
    if (out->bytes && out->len == len)
        return true;
    /* Room for whole words and the NUL. */
    out->bytes = apr_palloc(out->pool, (len + 8) / 8 * 8);
    out->len = len;
    return out->bytes != NULL;
}

/* The payload behind the cursor. True when it is what the writer left there. */
static bool copy_payload(const htc_store *store, uint64_t version, htcs_cursor *cursor, copy *out)
{
    uint64_t expected;
    bool good = !out->len ||
                (read_words(store, cursor, &expected, 1) &&
                 read_words(store, cursor, (uint64_t *)(void *)out->bytes, (out->len + 7) / 8) &&
                 htcs_payload_sum(store, version, out->bytes, out->len) == expected);

    out->bytes[out->len] = '\0';
    return good;
}

static htcs_result copy_once(const htc_store *store, htc_ref ref, copy *out)
{
    htcs_view view;
    htcs_front front;
    htcs_cursor cursor;
    htcs_result result = read_once(store, ref.slot, &view, &front, &cursor);
    bool good;

    if (view.version != ref.version)
        return HTCS_NONE;
    if (result != HTCS_OK)
        return result;
    if (!copy_alloc(out, front.head.payload_len))
        return HTCS_NONE;
    good = copy_payload(store, ref.version, &cursor, out);
    if (!view_end(&store->slots[ref.slot], &view))
        return HTCS_BUSY;
    return good ? HTCS_OK : HTCS_DAMAGED;
}

static bool has_little_room(const htc_store *store)
{
    const htcs_header *header = store->header;
    uint64_t records = 0;

    for (int kind = 0; kind <= HTC_KIND_STOCK; kind++)
        records += HTCS_GET(header->records[kind]);
    return records * 16 > (uint64_t)store->nslots * 15 ||
           (uint64_t)HTCS_GET(header->blocks_used) * 16 > (uint64_t)store->nblocks * 15;
}

bool htc_store_admits(htc_store *store, uint64_t hash)
{
    return !has_little_room(store) ||
           htc_ghosts_want(store->ghosts, HTCS_GHOSTS(store->nslots), hash);
}

apr_status_t htc_store_copy(htc_store *store, htc_ref ref, apr_pool_t *pool, char **payload,
                            size_t *len)
{
    copy out = {pool, NULL, 0};
    htcs_result result = HTCS_BUSY;

    if (ref.slot >= store->nslots || !ref.version)
        return APR_NOTFOUND;
    for (int i = 0; i < READ_TRIES && result == HTCS_BUSY; i++)
        result = copy_once(store, ref, &out);
    if (result == HTCS_DAMAGED) {
        htcs_drop_damaged(store, ref.slot, ref.version);
        return APR_EGENERAL;
    }
    if (result != HTCS_OK)
        return APR_NOTFOUND;
    *payload = out.bytes;
    *len = out.len;
    return APR_SUCCESS;
}

/* --- each -------------------------------------------------------------------------------------*/

static bool visit_slot(const htc_store *store, uint32_t index, htc_store_visit visit, void *baton)
{
    htcs_view view;
    htcs_front front;
    htcs_cursor cursor;
    htc_info info;

    if (htcs_read(store, index, &view, &front, &cursor) != HTCS_OK)
        return true;
    fill_info(&info, index, &view, &front);
    return visit(baton, front.key, front.head.key_len, &info);
}

/* The next slot from @a index on that is used, or nslots. The map of used slots, not the slots
 * themselves: most of these may never have been touched, and looking at them would give them
 * memory. */
static uint32_t next_used(const htc_store *store, uint32_t index)
{
    while (index < store->nslots) {
        uint64_t used = HTCS_GET(store->used[index / 64]) >> (index % 64);

        if (used)
            return index + (uint32_t)__builtin_ctzll(used);
        index += 64 - index % 64;
    }
    return store->nslots;
}

void htc_store_some(htc_store *store, uint32_t *place, uint32_t looks, htc_store_wanted wanted,
                    htc_store_visit visit, void *baton)
{
    uint32_t index = next_used(store, *place);

    for (; index < store->nslots && looks; index = next_used(store, index + 1), looks--) {
        const htc_slot_hot *hot = &store->slots[index].hot;

        if (wanted && !(HTCS_GET(hot->version) && wanted(baton, HTCS_GET(hot->checked_at))))
            continue;
        if (!visit_slot(store, index, visit, baton)) {
            index++;
            break;
        }
    }
    *place = index < store->nslots ? index : UINT32_MAX;
}

void htc_store_each(htc_store *store, htc_store_visit visit, void *baton)
{
    uint32_t place = 0;

    htc_store_some(store, &place, UINT32_MAX, NULL, visit, baton);
}

/* --- some -------------------------------------------------------------------------------------*/

static bool is_selected(const htc_store *store, uint32_t index, const htc_selection *s)
{
    const htcs_slot *slot = &store->slots[index];

    return (!s->kind || HTCS_GET(slot->kind) == s->kind) &&
           (!s->flags || HTCS_GET(slot->flags) & s->flags);
}

void htc_store_each_of(htc_store *store, const htc_selection *selection, htc_store_visit visit,
                       void *baton)
{
    for (uint32_t i = next_used(store, 0); i < store->nslots; i = next_used(store, i + 1)) {
        if (is_selected(store, i, selection) && !visit_slot(store, i, visit, baton))
            return;
    }
}

uint64_t htc_store_count_of(const htc_store *store, const htc_selection *selection)
{
    uint64_t n = 0;

    for (uint32_t i = next_used(store, 0); i < store->nslots; i = next_used(store, i + 1))
        n += is_selected(store, i, selection);
    return n;
}
