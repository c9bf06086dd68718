/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Records: a directive tree in linear form. Built by the glue after a file was parsed, validated
 * and walked by the glue of every process that takes one out of the shared segment.
 *
 *   header      magic, version, number of directives, length of all; hash of the file's bytes
 *   directive   line, depth, length of name, length of args;
 *               name, NUL, args, NUL, zero to three NULs up to a multiple of 4
 *   directive   ...
 *
 * Integers are 32 bits in the byte order of the machine; a record of a machine with another one
 * has the wrong magic. A sequence of directives has exactly one form. Fields are copied in and out,
 * not pointed at, so that nothing depends on how the compiler lays out or aligns a struct.
 */
#include "cache/record.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAGIC          UINT32_C(0x48744352) /* "HtCR"; bump the version, not the magic */
#define VERSION        1
#define ALIGNMENT      4
#define FIRST_CAPACITY 1024

typedef struct header {
    uint32_t magic;
    uint32_t version;
    uint32_t count;
    uint32_t total; /* bytes, this header included */
    uint32_t hash[4];
} header;

typedef struct entry {
    uint32_t line;
    uint32_t depth;
    uint32_t name_len; /* without the NUL */
    uint32_t args_len;
} entry;

static_assert(sizeof(header) == 32 && sizeof(entry) == 16, "no padding inside");

struct htc_record_builder {
    apr_pool_t *pool;
    char *bytes;
    size_t len, capacity;
    header head;
    uint32_t max_depth; /* of the next directive */
    apr_status_t rv;    /* of the first thing that went wrong */
};

htc_text_hash htc_text_hash_of(const void *bytes, size_t len)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, len);

    return (htc_text_hash){hash.low64, hash.high64};
}

bool htc_text_hash_equal(htc_text_hash a, htc_text_hash b)
{
    return a.low == b.low && a.high == b.high;
}

/* Bytes behind an entry: both strings with their NULs and the padding. Cannot overflow. */
static uint64_t body_size(uint64_t name_len, uint64_t args_len)
{
    uint64_t size = name_len + 1 + args_len + 1;

    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* --- building -------------------------------------------------------------------------------- */

/* Room for n more bytes; capacity doubles, so that a record of any size is copied about once. */
static apr_status_t grow(htc_record_builder *b, uint64_t n)
{
    uint64_t capacity = b->capacity;
    char *bytes;

    if (n > UINT32_MAX - b->len)
        return APR_ENOSPC;
    if (n <= b->capacity - b->len)
        return APR_SUCCESS;
    while (capacity < b->len + n)
        capacity *= 2;
    if (capacity > UINT32_MAX)
        capacity = UINT32_MAX;
    bytes = apr_palloc(b->pool, (size_t)capacity);
    if (!bytes)
        return APR_ENOMEM;
    memcpy(bytes, b->bytes, b->len);
    b->bytes = bytes;
    b->capacity = (size_t)capacity;
    return APR_SUCCESS;
}

htc_record_builder *htc_record_begin(apr_pool_t *pool, htc_text_hash text_hash)
{
    htc_record_builder *b = apr_pcalloc(pool, sizeof(*b));

    b->pool = pool;
    b->capacity = FIRST_CAPACITY;
    b->bytes = apr_palloc(pool, b->capacity);
    b->len = sizeof(header);
    b->head.magic = MAGIC;
    b->head.version = VERSION;
    memcpy(b->head.hash, &text_hash.low, sizeof(text_hash.low));
    memcpy(b->head.hash + 2, &text_hash.high, sizeof(text_hash.high));
    return b;
}

static void append(htc_record_builder *b, const void *bytes, size_t n)
{
    memcpy(b->bytes + b->len, bytes, n);
    b->len += n;
}

static apr_status_t add(htc_record_builder *b, const htc_directive *d)
{
    size_t name_len = strlen(d->name), args_len = strlen(d->args);
    entry e = {d->line, d->depth, (uint32_t)name_len, (uint32_t)args_len};
    uint64_t body = body_size(name_len, args_len);
    apr_status_t rv;

    if (!name_len || d->depth > b->max_depth || d->depth >= HTC_RECORD_MAX_NESTING)
        return APR_EINVAL;
    rv = grow(b, sizeof(e) + body);
    if (rv != APR_SUCCESS)
        return rv;
    append(b, &e, sizeof(e));
    append(b, d->name, name_len + 1);
    append(b, d->args, args_len + 1);
    append(b, "\0\0", (size_t)body - (name_len + 1 + args_len + 1));
    b->max_depth = d->depth + 1;
    b->head.count++;
    return APR_SUCCESS;
}

void htc_record_add(htc_record_builder *builder, const htc_directive *directive)
{
    if (builder->rv == APR_SUCCESS)
        builder->rv = add(builder, directive);
}

apr_status_t htc_record_finish(htc_record_builder *builder, const void **bytes, size_t *len)
{
    *bytes = NULL;
    *len = 0;
    if (builder->rv != APR_SUCCESS)
        return builder->rv;
    builder->head.total = (uint32_t)builder->len;
    memcpy(builder->bytes, &builder->head, sizeof(builder->head));
    *bytes = builder->bytes;
    *len = builder->len;
    return APR_SUCCESS;
}

/* --- reading --------------------------------------------------------------------------------- */

static header header_of(const void *bytes)
{
    header head;

    memcpy(&head, bytes, sizeof(head));
    return head;
}

static entry entry_at(const char *bytes)
{
    entry e;

    memcpy(&e, bytes, sizeof(e));
    return e;
}

/* A string of that length, its NUL, and no other NUL. */
static bool is_string(const char *s, size_t len)
{
    return memchr(s, '\0', len + 1) == s + len;
}

static bool all_zero(const char *from, const char *to)
{
    while (from < to) {
        if (*from++)
            return false;
    }
    return true;
}

/* The size of the valid directive at bytes, of which left are there; 0 when it is none. */
static size_t checked_size(const char *bytes, size_t left, uint32_t max_depth, uint32_t *depth)
{
    const char *name = bytes + sizeof(entry), *args;
    uint64_t body;
    entry e;

    if (left < sizeof(e))
        return 0;
    e = entry_at(bytes);
    body = body_size(e.name_len, e.args_len);
    if (body > left - sizeof(e) || !e.name_len || e.depth > max_depth ||
        e.depth >= HTC_RECORD_MAX_NESTING)
        return 0;
    args = name + e.name_len + 1;
    if (!is_string(name, e.name_len) || !is_string(args, e.args_len) ||
        !all_zero(args + e.args_len + 1, name + body))
        return 0;
    *depth = e.depth;
    return sizeof(e) + (size_t)body;
}

apr_status_t htc_record_validate(const void *bytes, size_t len)
{
    size_t offset = sizeof(header);
    uint32_t max_depth = 0;
    header head;

    if (len < sizeof(head))
        return APR_EINVAL;
    head = header_of(bytes);
    if (head.magic != MAGIC || head.version != VERSION || head.total != len)
        return APR_EINVAL;
    for (uint32_t i = 0; i < head.count; i++) {
        uint32_t depth = 0;
        size_t size = checked_size((const char *)bytes + offset, len - offset, max_depth, &depth);

        if (!size)
            return APR_EINVAL;
        offset += size;
        max_depth = depth + 1;
    }
    return offset == len ? APR_SUCCESS : APR_EINVAL;
}

htc_text_hash htc_record_text_hash(const void *bytes)
{
    header head = header_of(bytes);
    htc_text_hash hash;

    memcpy(&hash.low, head.hash, sizeof(hash.low));
    memcpy(&hash.high, head.hash + 2, sizeof(hash.high));
    return hash;
}

uint32_t htc_record_count(const void *bytes)
{
    return header_of(bytes).count;
}

bool htc_record_next(const void *bytes, size_t *offset, htc_directive *directive)
{
    size_t at = *offset ? *offset : sizeof(header);
    entry e;

    if (at >= header_of(bytes).total)
        return false;
    e = entry_at((const char *)bytes + at);
    directive->line = e.line;
    directive->depth = e.depth;
    directive->name = (const char *)bytes + at + sizeof(e);
    directive->args = directive->name + e.name_len + 1;
    *offset = at + sizeof(e) + (size_t)body_size(e.name_len, e.args_len);
    return true;
}
