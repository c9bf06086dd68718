/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirect_table/hash.h
 * How segments, paths and their beginnings are hashed. A part of redirect_table/internal.h, which
 * includes it behind what it needs.
 */
#ifndef HTC_REDIRECT_TABLE_HASH_H
#define HTC_REDIRECT_TABLE_HASH_H

/* With `icase`, of the bytes with letters in lower case. */
uint64_t rt_hash_long(uint64_t seed, const char *bytes, size_t len, bool icase);

/* Of the first eight bytes and the last eight; with fewer than that, what is missing is zero. */
static inline uint64_t rt_hash_words(uint64_t seed, uint64_t first, uint64_t last, size_t len)
{
    return rt_mix(first ^ seed ^ RT_K1, last ^ rt_rotate(seed, 32) ^ len * RT_K2);
}

/* Segments are short, so these are hashed here, as wyhash does it: all bytes, some of them twice.
 */
static inline uint64_t rt_hash(uint64_t seed, const char *bytes, size_t len, bool icase)
{
    uint64_t a = 0, b;

    if (len > 16 || icase)
        return rt_hash_long(seed, bytes, len, icase);
    if (len >= 8) {
        memcpy(&a, bytes, 8);
        memcpy(&b, bytes + len - 8, 8);
        return rt_hash_words(seed, a, b, len);
    }
    if (len >= 4) {
        uint32_t low, high;

        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + len - 4, 4);
        a = low | (uint64_t)high << 8 * (len - 4);
    } else if (len) {
        a = (uint64_t)(unsigned char)bytes[0] |
            (uint64_t)(unsigned char)bytes[len / 2] << 8 * (len / 2) |
            (uint64_t)(unsigned char)bytes[len - 1] << 8 * (len - 1);
    }
    return rt_hash_words(seed, a, a, len);
}

/* What hashes long paths goes on with the next 16 bytes, or ends with the last 16. */
static inline uint64_t rt_path_next(uint64_t hash, uint64_t seed, const char *bytes)
{
    uint64_t words[2];

    memcpy(words, bytes, 16);
    return rt_mix(words[0] ^ hash, words[1] ^ rt_rotate(seed, 32) ^ RT_K1);
}

static inline uint64_t rt_path_last(uint64_t hash, uint64_t seed, const char *bytes, size_t len)
{
    return rt_path_next(hash ^ len * RT_K2, seed, bytes);
}

#define RT_SHORT_PATH \
    64 /* bytes, and from 16 on: looked at as four blocks of 16, some of them twice */

/* Where the second and the fourth of these blocks begin; the third ends at the path's end. */
static inline size_t rt_second(size_t len)
{
    return len < 32 ? len - 16 : 16;
}

static inline size_t rt_fourth(size_t len)
{
    return len - 16 - rt_second(len);
}

rt_secret rt_secret_of(uint64_t seed);

/* These blocks of a path. */
typedef struct rt_blocks {
#ifdef RT_SSE2
    __m128i a, b, c, d;
#else
    const char *path;
#endif
} rt_blocks;

#ifdef RT_SSE2
static inline __m128i rt_block(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* The slashes among 16 bytes, as bits. */
static inline uint64_t rt_slashes_of(const char *bytes)
{
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(rt_block(bytes), _mm_set1_epi8('/')));
}

/* In each of its two lanes the product of the halves. */
static inline __m128i rt_multiply(const rt_secret *secret, unsigned number, __m128i block)
{
    __m128i mixed = _mm_xor_si128(block, rt_block((const char *)&secret->lane[2 * (size_t)number]));

    return _mm_mul_epu32(mixed, _mm_srli_epi64(mixed, 32));
}
#endif

static inline rt_blocks rt_read_blocks(const char *path, size_t len)
{
#ifdef RT_SSE2
    return (rt_blocks){rt_block(path), rt_block(path + rt_second(len)), rt_block(path + len - 16),
                       rt_block(path + rt_fourth(len))};
#else
    (void)len;
    return (rt_blocks){path};
#endif
}

/* Without a branch. The halves of each 8 bytes are multiplied by each other once they have been
 * mixed with the secret, and, lest a half of zeroes hide the other, the bytes are added to the sum
 * beside, as XXH3 does it with long texts. */
static inline uint64_t rt_hash_blocks(const rt_secret *secret, rt_blocks blocks, size_t len)
{
    uint64_t sum[2];

#ifdef RT_SSE2
    __m128i a = blocks.a, b = blocks.b, c = blocks.c, d = blocks.d;
    __m128i products =
        _mm_add_epi64(_mm_add_epi64(rt_multiply(secret, 0, a), rt_multiply(secret, 1, b)),
                      _mm_add_epi64(rt_multiply(secret, 2, c), rt_multiply(secret, 3, d)));
    __m128i bytes = _mm_add_epi64(_mm_add_epi64(a, b), _mm_add_epi64(c, d));

    products = _mm_add_epi64(products, _mm_shuffle_epi32(bytes, _MM_SHUFFLE(1, 0, 3, 2)));
    sum[0] = (uint64_t)_mm_cvtsi128_si64(products);
    sum[1] = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(products, products));
#else
    const char *path = blocks.path;
    const char *at[] = {path, path + rt_second(len), path + len - 16, path + rt_fourth(len)};

    sum[0] = sum[1] = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t bytes, mixed;

        memcpy(&bytes, at[i / 2] + i % 2 * 8, 8);
        mixed = bytes ^ secret->lane[i];
        sum[i % 2] += (mixed & UINT32_MAX) * (mixed >> 32);
        sum[1 - i % 2] += bytes;
    }
#endif
    return rt_mix(sum[0] ^ secret->seed, sum[1] ^ len * RT_K2);
}

static inline bool rt_equal_blocks(rt_blocks blocks, const char *text, size_t len)
{
#ifdef RT_SSE2
    __m128i a = _mm_xor_si128(blocks.a, rt_block(text));
    __m128i b = _mm_xor_si128(blocks.b, rt_block(text + rt_second(len)));
    __m128i c = _mm_xor_si128(blocks.c, rt_block(text + len - 16));
    __m128i d = _mm_xor_si128(blocks.d, rt_block(text + rt_fourth(len)));
    __m128i differ = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));

    return _mm_movemask_epi8(_mm_cmpeq_epi8(differ, _mm_setzero_si128())) == 0xffff;
#else
    return !memcmp(blocks.path, text, len);
#endif
}

static inline uint64_t rt_hash_short(const rt_secret *secret, const char *path, size_t len)
{
    return rt_hash_blocks(secret, rt_read_blocks(path, len), len);
}

/* Where slashes are in a path of 16 to 64 bytes, as bits. */
static inline uint64_t rt_slashes_in(const char *path, size_t len)
{
    uint64_t slashes = 0;

#ifdef RT_SSE2
    size_t second = rt_second(len), third = len - 16, fourth = rt_fourth(len);

    slashes = rt_slashes_of(path) | rt_slashes_of(path + second) << second |
              rt_slashes_of(path + third) << third | rt_slashes_of(path + fourth) << fourth;
#else
    for (size_t i = 0; i < len; i++)
        slashes |= (uint64_t)(path[i] == '/') << i;
#endif
    return slashes;
}

static inline bool rt_equal_short(const char *a, const char *b, size_t len)
{
    return rt_equal_blocks(rt_read_blocks(a, len), b, len);
}

/* Without a branch, which a compiler might make of it otherwise. */
static inline ptrdiff_t rt_lesser(ptrdiff_t a, ptrdiff_t b)
{
    ptrdiff_t difference = a - b, negative = difference >> (8 * sizeof(difference) - 1);

    RT_OPAQUE(negative);
    return b + (difference & negative);
}

#ifdef RT_SSE2
/* The bits of bytes in which the texts differ, in four blocks of which the third ends `len` bytes from
 * their beginnings. Less than a block is compared four times, as the one that begins at `begin`, 0 or
 * len - 16; which is 0 at most. */
static inline unsigned rt_differing(const char *a, const char *b, ptrdiff_t begin, ptrdiff_t third)
{
    ptrdiff_t second = rt_lesser(third, 16), fourth = begin + third - second;
    __m128i differ = _mm_xor_si128(rt_block(a + begin), rt_block(b + begin));

    differ = _mm_or_si128(differ, _mm_xor_si128(rt_block(a + second), rt_block(b + second)));
    differ = _mm_or_si128(differ, _mm_xor_si128(rt_block(a + third), rt_block(b + third)));
    differ = _mm_or_si128(differ, _mm_xor_si128(rt_block(a + fourth), rt_block(b + fourth)));
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(differ, _mm_setzero_si128())) ^ 0xffff;
}
#endif

/* Is the path's beginning a directory's text and then a record's? Without a branch that depends on
 * the texts, or on their lengths, if there are 16 bytes and more: what waits for the record is then
 * nothing that a next look-up waits for. */
static inline bool rt_equals_both(const char *path, const char *dir, size_t dir_len,
                                  const char *source, size_t own)
{
#ifdef RT_SSE2
    if (__builtin_expect(dir_len + own >= 16, 1)) {
        ptrdiff_t front = (ptrdiff_t)dir_len - 16, back = (ptrdiff_t)own - 16;
        ptrdiff_t no_front = rt_lesser(front, 0), no_back = rt_lesser(back, 0);
        unsigned in_dir = rt_differing(path, dir, 0, front - no_front);
        unsigned in_own = rt_differing(path + dir_len, source, no_back, back);

        return !((in_dir & 0xffffu >> -no_front) | (in_own & 0xffffu << -no_back & 0xffff));
    }
#endif
    return !memcmp(dir, path, dir_len) && !memcmp(source, path + dir_len, own);
}

/* Of a path without runs of slashes and without one at its end; as rt_hash_path() of any. */
static inline uint64_t rt_hash_clean(const rt_secret *secret, const char *path, size_t len)
{
    uint64_t seed = secret->seed, hash = seed ^ RT_K3;

    if (len < 16)
        return rt_hash(seed, path, len, false);
    if (len <= RT_SHORT_PATH)
        return rt_hash_short(secret, path, len);
    for (size_t i = 0; i + 16 < len; i += 16)
        hash = rt_path_next(hash, seed, path + i);
    return rt_path_last(hash, seed, path + len - 16, len);
}

/* Of the path, its runs of slashes taken for one, and none at its end. */
uint64_t rt_hash_path(const rt_secret *secret, const char *path, size_t len, bool icase);

/* Bytes that come one by one, and what is known of them. */
typedef struct rt_gathered {
    uint64_t hash;
    size_t n, total;
    char first[RT_SHORT_PATH];
    char block[32]; /* the first half is the one in front of what comes, in the second half */
} rt_gathered;

/* Hashes of more and more of a path, in one pass over it. */
typedef struct rt_hasher {
    const rt_secret *secret;
    const char *path;
    bool icase;
    size_t blocks; /* so many bytes are in `hash`, as they are */
    uint64_t hash;
    size_t at; /* so many have been gathered */
    rt_gathered gathered;
} rt_hasher;

void rt_hasher_start(rt_hasher *hasher, const rt_secret *secret, const char *path, bool icase);

/* rt_hash_path() of the path's first `end` bytes, which are not fewer than before, and of which the
 * last is no slash. In `clean` bytes of the path there is no run of slashes. */
uint64_t rt_hash_to(rt_hasher *hasher, size_t end, size_t clean);

#endif
