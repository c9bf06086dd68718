/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * See redirect_table/prefix_filter.h. Strings are hashed in words of eight bytes, with the bit by
 * which ASCII letters of either case differ set in each, so that one pass over the path makes the
 * hashes of all its beginnings of 8, 16, ... bytes. A string of eight bytes and more is known by as
 * many whole words of it as there are, up to MAX_WORDS, a shorter one by all its bytes. Called for
 * each request that folded lines apply to.
 */
#include "redirect_table/prefix_filter.h"
#include "base/base.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define MAX_WORDS 8
#define CASE      UINT64_C(0x2020202020202020)
#define LOWS      UINT64_C(0x0101010101010101)
#define HIGHS     UINT64_C(0x8080808080808080)
#define FACTOR    UINT64_C(0x9E3779B97F4A7C15)
#define BEGIN     UINT64_C(0x2545F4914F6CDD1D)

struct redirect_prefix_filter {
    uint64_t *words;
    uint64_t mask;  /* number of words - 1 */
    unsigned brief; /* bit k: there are strings of k bytes, below 8 */
    unsigned heads; /* bit k: there are strings known by k + 1 words */
    bool whole, prefixes, all;
};

redirect_prefix_filter *redirect_prefix_filter_create(size_t n, apr_pool_t *pool)
{
    redirect_prefix_filter *filter = apr_pcalloc(pool, sizeof(*filter));
    uint64_t words = 1;

    while (words < n / 4 + 1)
        words *= 2;
    filter->mask = words - 1;
    filter->words = apr_pcalloc(pool, words * sizeof(*filter->words));
    return filter;
}

static inline uint64_t step(uint64_t hash, uint64_t word)
{
    return htc_fold_product(hash ^ word, FACTOR);
}

static inline uint64_t load(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return le64toh(word) | CASE;
}

/* Less than eight bytes from bytes[at] on, which are the last of `len`. */
static inline uint64_t load_tail(const char *bytes, size_t at, size_t len)
{
    uint64_t word = 0;

    if (at == len)
        return 0;
    if (len >= 8)
        return load(bytes + len - 8) >> 8 * (8 - (len - at));
    for (size_t i = len; i-- > at;)
        word = word << 8 | (unsigned char)bytes[i] | 0x20;
    return word;
}

static inline uint64_t cut(uint64_t word, unsigned bytes)
{
    return word & ((UINT64_C(1) << 8 * bytes) - 1);
}

static inline uint64_t bits_of(uint64_t hash)
{
    return UINT64_C(1) << (hash & 63) | UINT64_C(1) << (hash >> 6 & 63) |
           UINT64_C(1) << (hash >> 12 & 63);
}

static inline bool has(const redirect_prefix_filter *filter, uint64_t hash)
{
    uint64_t bits = bits_of(hash);

    return (filter->words[hash >> 32 & filter->mask] & bits) == bits;
}

static inline uint64_t whole_hash(uint64_t hash, uint64_t tail, size_t len)
{
    return step(hash + len, tail);
}

static inline uint64_t brief_hash(uint64_t word, unsigned bytes)
{
    return step(BEGIN + bytes, cut(word, bytes));
}

static void set(redirect_prefix_filter *filter, uint64_t hash)
{
    filter->words[hash >> 32 & filter->mask] |= bits_of(hash);
}

static void add_head(redirect_prefix_filter *filter, const char *bytes, size_t len)
{
    size_t words = len / 8 < MAX_WORDS ? len / 8 : MAX_WORDS;
    uint64_t hash = BEGIN;

    if (!len) {
        filter->all = true;
    } else if (!words) {
        filter->brief |= 1u << len;
        set(filter, brief_hash(load_tail(bytes, 0, len), (unsigned)len));
    } else {
        for (size_t i = 0; i < words; i++)
            hash = step(hash, load(bytes + 8 * i));
        filter->heads |= 1u << (words - 1);
        set(filter, hash);
    }
}

void redirect_prefix_filter_add(redirect_prefix_filter *filter, const char *bytes, size_t len,
                                bool whole)
{
    uint64_t hash = BEGIN;
    size_t at = 0;

    if (!whole) {
        add_head(filter, bytes, len);
        return;
    }
    for (; at + 8 <= len; at += 8)
        hash = step(hash, load(bytes + at));
    filter->whole = true;
    set(filter, whole_hash(hash, load_tail(bytes, at, len), len));
}

void redirect_prefix_filter_add_prefix(redirect_prefix_filter *filter, const char *bytes,
                                       size_t len, apr_pool_t *scratch)
{
    char *single;
    size_t n = 0;

    filter->prefixes = true;
    if (!memmem(bytes, len, "//", 2)) {
        add_head(filter, bytes, len);
        return;
    }
    single = apr_palloc(scratch, len + 1);
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != '/' || !n || single[n - 1] != '/')
            single[n++] = bytes[i];
    }
    add_head(filter, single, n);
}

void redirect_prefix_filter_open(redirect_prefix_filter *filter)
{
    filter->all = true;
}

/* True when one of these bytes and the one before it may both be slashes. *before: whether the
 * last byte of the earlier words may be a slash; updated. True is wrong now and then; false is
 * not. */
static inline bool slash_run(uint64_t word, uint64_t *before)
{
    uint64_t other = word ^ LOWS * '/', found = (other - LOWS) & ~other & HIGHS;
    bool run = found & (found << 8 | *before);

    *before = found >> 56;
    return run;
}

static inline bool brief_passes(const redirect_prefix_filter *filter, uint64_t word, size_t len)
{
    for (unsigned left = filter->brief; left; left &= left - 1) {
        unsigned bytes = (unsigned)__builtin_ctz(left);

        if (bytes <= len && has(filter, brief_hash(word, bytes)))
            return true;
    }
    return false;
}

HTC_HOT bool redirect_prefix_filter_passes(const redirect_prefix_filter *filter, const char *path,
                                           size_t len)
{
    uint64_t hash = BEGIN, before = 0, tail;
    unsigned heads = filter->heads;
    size_t at = 0;

    if (filter->all || (len && path[len - 1] == '\n'))
        return true;
    if (filter->brief && brief_passes(filter, len < 8 ? load_tail(path, 0, len) : load(path), len))
        return true;
    for (; at + 8 <= len; at += 8, heads >>= 1) {
        uint64_t word = load(path + at);

        if (filter->prefixes && slash_run(word, &before))
            return true;
        hash = step(hash, word);
        if (heads & 1 && has(filter, hash))
            return true;
        if (!filter->whole && heads < 2 && !filter->prefixes)
            return false;
    }
    tail = load_tail(path, at, len);
    if (filter->prefixes && slash_run(tail, &before))
        return true;
    return filter->whole && has(filter, whole_hash(hash, tail, len));
}
