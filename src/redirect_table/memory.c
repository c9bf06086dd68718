/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The memory of a table's builder: buffers that grow by remapping, so that a large image is not
 * copied while it grows, and strings that are kept once and numbered. Used by the builder only; all
 * of it is given back when the builder ends.
 */
#include "base/base.h"
#include "redirect_table/builder.h"

#include <assert.h>
#include <sys/mman.h>

#define FIRST_CAPACITY ((size_t)64 << 10)
#define HUGE_BYTES     ((size_t)4 << 20) /* worth large pages */
#define FIRST_SLOTS    16

/* --- buffers --------------------------------------------------------------------------------- */

static void *map(rt_buffer *buffer, size_t capacity)
{
    void *bytes;

    if (!buffer->capacity)
        return htc_pages_take(capacity);
    bytes = mremap(buffer->bytes, buffer->capacity, capacity, MREMAP_MAYMOVE);
    if (bytes == MAP_FAILED)
        return NULL;
    if (capacity >= HUGE_BYTES)
        madvise(bytes, capacity, MADV_HUGEPAGE); /* only faster */
    return bytes;
}

bool rt_reserve(rt_buffer *buffer, size_t more)
{
    size_t capacity = buffer->capacity ? buffer->capacity : FIRST_CAPACITY;
    void *bytes;

    if (more <= buffer->capacity - buffer->len)
        return true;
    if (more > SIZE_MAX / 4 - buffer->len)
        return false;
    while (capacity - buffer->len < more)
        capacity *= 2;
    bytes = map(buffer, capacity);
    if (!bytes)
        return false;
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

bool rt_append(rt_buffer *buffer, const void *bytes, size_t len)
{
    if (!rt_reserve(buffer, len))
        return false;
    if (len)
        memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    return true;
}

void rt_release(rt_buffer *buffer)
{
    if (buffer->capacity)
        htc_pages_give(buffer->bytes, buffer->capacity);
    *buffer = (rt_buffer){0};
}

/* --- strings --------------------------------------------------------------------------------- */

const char *rt_strings_get(const rt_strings *strings, uint32_t number, size_t *len)
{
    const uint32_t *ends = (const uint32_t *)(const void *)strings->ends.bytes;
    uint32_t begin = number > 1 ? ends[number - 2] : 0;

    *len = ends[number - 1] - begin - 1;
    return strings->text.bytes + begin;
}

/* The slot of a string, or the empty one where it belongs. nslots is a power of two. */
static uint32_t *slot_of(const rt_strings *strings, uint64_t seed, const char *text, size_t len,
                         uint8_t kind)
{
    uint32_t *slots = (uint32_t *)(void *)strings->slots.bytes;
    uint32_t i = (uint32_t)rt_hash(seed, text, len, false);

    assert(slots);
    for (;; i++) {
        uint32_t *slot = &slots[i & (strings->nslots - 1)];
        size_t known_len;
        const char *known;

        if (!*slot)
            return slot;
        known = rt_strings_get(strings, *slot, &known_len);
        if (known_len == len && !memcmp(known, text, len) &&
            (uint8_t)strings->kinds.bytes[*slot - 1] == kind)
            return slot;
    }
}

/* Twice as many slots; at most half of them are ever used. */
static bool grow_slots(rt_strings *strings, uint64_t seed)
{
    uint32_t nslots = strings->nslots ? strings->nslots * 2 : FIRST_SLOTS;
    rt_buffer slots = {0};

    if (!rt_reserve(&slots, nslots * sizeof(uint32_t)))
        return false;
    rt_release(&strings->slots);
    strings->slots = slots;
    strings->nslots = nslots;
    for (uint32_t number = 1; number <= strings->count; number++) {
        size_t len;
        const char *text = rt_strings_get(strings, number, &len);

        *slot_of(strings, seed, text, len, (uint8_t)strings->kinds.bytes[number - 1]) = number;
    }
    return true;
}

uint32_t rt_strings_find(const rt_strings *strings, uint64_t seed, const char *text, size_t len,
                         uint8_t kind)
{
    return strings->nslots ? *slot_of(strings, seed, text, len, kind) : 0;
}

uint32_t rt_strings_number(rt_strings *strings, uint64_t seed, const char *text, size_t len,
                           uint8_t kind)
{
    uint32_t number = rt_strings_find(strings, seed, text, len, kind), end;

    if (number)
        return number;
    if (strings->text.len + len + 1 > UINT32_MAX ||
        (strings->count * 2 >= strings->nslots && !grow_slots(strings, seed)) ||
        !rt_reserve(&strings->text, len + 1) || !rt_reserve(&strings->ends, sizeof(end)) ||
        !rt_reserve(&strings->kinds, 1))
        return 0;
    rt_append(&strings->text, text, len);
    rt_append(&strings->text, "", 1);
    end = (uint32_t)strings->text.len;
    rt_append(&strings->ends, &end, sizeof(end));
    rt_append(&strings->kinds, &kind, 1);
    *slot_of(strings, seed, text, len, kind) = ++strings->count;
    return strings->count;
}

void rt_strings_release(rt_strings *strings)
{
    rt_release(&strings->text);
    rt_release(&strings->ends);
    rt_release(&strings->kinds);
    rt_release(&strings->slots);
}
