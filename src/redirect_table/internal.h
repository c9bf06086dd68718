/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirect_table/internal.h
 * The layout of a table's image, and what the table's source files know of each other:
 *
 *   redirect_table.c        look-ups
 *   redirect_table/simple.c look-ups where all rules are of the simplest kinds
 *   redirect_table/text.c   comparing and hashing texts; rules as text again
 *   redirect_table/open.c   opening an image
 *   redirect_table/template.c, template_search.c  matching templates
 *   redirect_table/template_segments.c  segments by which they are found; these three share
 *                           redirect_table/template.h
 *   redirect_table/build.c  the builder: a rule becomes a record
 *   redirect_table/key.c    and a key
 *   redirect_table/index.c  the builder's end: duplicates, the index, the image
 *   redirect_table/memory.c the builder's memory: buffers, strings kept once; these four share
 *                           redirect_table/builder.h
 *   redirect_table/check.c  proof that an image is safe to read
 *   redirect_table/choose.c which of the rules of one source answers, where conditions tell
 *   redirect_table/edited.c look-ups where some rules are edited
 *
 * Only these and the table's tests include this file. An image is
 *
 *   rt_header | records in the rules' order | sections, see rt_section
 *
 * Places are 32-bit offsets from the image's beginning. A record is, of all that is in brackets
 * only what its profile or the lowest bit of its first number say is there,
 *
 *   2 * profile + (line is not the one behind the previous rule's), length of source, [host],
 *   [length of middle, length of tail], [length of query], [pattern], [condition], [directory],
 *   [line, see rt_line_delta], source, [middle], [query]
 *
 * with numbers of 7 bits a byte, the lowest first; that of a directory always has two bytes. The
 * rule's source is the directory, which many rules have in common, and what is said to be the
 * record's source. Its target is the profile's origin, its own middle, and the last `tail` bytes of
 * the rule's source.
 *
 * The index is a hash table of keys. Each rule has one key, made of
 *
 *   - the space: which of the things below make up the key (rt_space),
 *   - the number of its host; the hash of its query, unless it has one of too many strip sets,
 *   - of EXACT, PREFIX and LITERAL: the source without runs of slashes and a slash at the end;
 *   - of LITERAL_PREFIX, PATTERN, TEMPLATE: the segments that a slash follows, and up to RT_PARTIAL_MAX
 * bytes of what is behind the last slash, the partial segment. Which lengths of such there are
 *     behind given segments is known from the nodes;
 *   - of a pattern with literals that is not found better by its source, and of a FLOATING one: 8
 *     or 4 bytes of a literal, those that the fewest others have; of a FLOATING one with less, that
 *     it is one;
 *   - of a TEMPLATE that is not found better otherwise: a whole segment that it fixes, and the
 *     number of slashes in front of it or behind it. There are masks of these numbers.
 *
 * A look-up makes all keys that rules for its request can have and tries each rule found, so that
 * a hash never decides more than where to look. Rules of the same key are in a posting: how many,
 * and their places, ascending. Its number has RT_CONDITIONED if one of them has a condition.
 *
 * An image ends in REDIRECT_SLACK zeroes, so that short texts can be copied in one size.
 *
 * The filter in front of the index is a Bloom filter whose bits for a key are all in one word
 * (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007). Where a request
 * has one key in each space, as where all rules are EXACT, it is one word with all bits set: a
 * bucket of 16-bit tags, which is one cache line, says as well as a filter that there is no rule.
 */
#ifndef HTC_REDIRECT_TABLE_INTERNAL_H
#define HTC_REDIRECT_TABLE_INTERNAL_H

#include <assert.h>
#include <string.h>

#include "base/base.h"
#include "redirect_table.h"

/* Compilers for x86 of 32 bits lack some of what is used, even where they have SSE2. */
#if defined(__SSE2__) && defined(__x86_64__)
#define RT_SSE2 1
#include <emmintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#define RT_MAGIC           UINT64_C(0x3162615452637448) /* "HtcRTab1"; other byte orders read another */
#define RT_VERSION         11
#define RT_WAYS            10  /* places in a bucket */
#define RT_LOAD            85  /* per cent of the places that are used */
#define RT_MAX_REACH       255 /* buckets behind its own that a key may be in */
#define RT_FILTER_BITS     12  /* for each key */
#define RT_KEYED_STRIPS    7   /* strip sets that take part in keys */
#define RT_MAX_SPACES      60  /* 3 ways of hosts, 2 of case, and of queries 3 and the strip sets */
#define RT_PARTIAL_MAX     63
#define RT_MARK_SHIFT      9   /* bytes of records, as a power of two */
#define RT_CHUNK           240 /* bytes that XXH3 hashes fast with a seed */
#define RT_READY_MAX       64  /* profiles whose number takes one byte */
#define RT_UNUSUAL         UINT32_MAX
#define RT_NUMBER_BYTES    5
#define RT_MAX_DIRS        16383 /* in two bytes */
#define RT_SEGMENT_MAX     255   /* bytes of a segment by which a template is found, */
#define RT_SEGMENT_SLASHES 64    /* and fewer slashes than that in front or behind */
#define RT_TEMPLATE_STEPS  16    /* what a template takes in any case */
#define RT_TEMPLATE_PATH   16384 /* bytes of a path that a template with a search may match */
#define RT_QUICK           512   /* more than four numbers of a byte, their texts, and the slack */

/* What a record of a profile has, besides REDIRECT_HAS_TARGET and REDIRECT_HAS_QUERY. */
enum { RT_HOST = 4, RT_PATTERN = 8, RT_CONDITION = 16, RT_DIR = 32 };

#define RT_CONDITIONED UINT32_C(0x80000000)

typedef enum rt_section {
    RT_BUCKETS,    /* rt_bucket */
    RT_FILTER,     /* uint64_t */
    RT_POSTINGS,   /* uint32_t */
    RT_NODES,      /* rt_node */
    RT_PROFILES,   /* redirect_profile */
    RT_SPACES,     /* rt_space */
    RT_MARKS,      /* rt_mark */
    RT_HOST_SLOTS, /* uint32_t: number of a host or 0, hashed */
    RT_HOSTS,  /* the rest: strings. count + 1 offsets of uint32_t, and the strings, each with a */
    RT_STRIPS, /* NUL; where one ends the next begins. Their numbers start at 1 */
    RT_ORIGINS,
    RT_PATTERNS,
    RT_CONDITIONS,
    RT_DIRS,
    RT_SECTIONS
} rt_section;

typedef struct rt_span {
    uint32_t at, count;
} rt_span;

typedef struct rt_header {
    uint64_t magic;
    uint64_t seed;
    uint32_t version;
    uint32_t size;
    uint32_t records_end;
    uint32_t rules, exact, prefix, pattern;
    uint8_t uses_host, uses_query, uses_condition, zero;
    uint64_t wild_dots[4]; /* bit n: there is a *.name with n dots */
    rt_span section[RT_SECTIONS];
} rt_header;

static_assert(sizeof(rt_header) == 192, "no padding inside");

typedef struct rt_bucket {
    uint16_t tag[RT_WAYS]; /* of those not used: 0, which is no key's */
    uint8_t used;
    uint8_t reach; /* buckets behind this one in which keys are that belong here */
    uint8_t zero[2];
    uint32_t place[RT_WAYS]; /* of a record, or of a posting */
} rt_bucket;

static_assert(sizeof(rt_bucket) == 64, "a bucket is one cache line");

static_assert(sizeof(redirect_profile) == 16, "no padding inside");

typedef enum rt_query_mode { RT_QUERY_ANY, RT_QUERY_WHOLE, RT_QUERY_SET } rt_query_mode;

typedef enum rt_host_mode { RT_HOST_ANY, RT_HOST_NAME, RT_HOST_BELOW } rt_host_mode;

/* What the keys of a space are of, besides what is said above. */
enum {
    RT_WHOLE = 1,    /* EXACT */
    RT_LITERAL = 2,  /* LITERAL */
    RT_NO_SLASH = 4, /* LITERAL_PREFIX or PATTERN without a slash */
    RT_FLOAT_4 = 8,
    RT_FLOAT_8 = 16,
    RT_FLOAT_ALL = 32,
    RT_SEGMENT = 64 /* TEMPLATE, by a segment */
};

/* Rules that are alike in what their keys are made of. Depths are numbers of segments, as bits;
 * the highest also stands for all above. */
typedef struct rt_space {
    uint64_t prefix_depths;  /* of PREFIX rules */
    uint64_t partial_depths; /* of the segments in front of a partial one */
    uint64_t front, back;    /* RT_SEGMENT: numbers of slashes in front or behind, as bits */
    uint32_t strip;          /* of RT_QUERY_SET */
    uint8_t icase, query, host;
    uint8_t has;
} rt_space;

static_assert(RT_MAX_SPACES == 3 * 2 * (3 + RT_KEYED_STRIPS), "every space has a place");
static_assert(sizeof(rt_space) == 40, "no padding inside");

typedef struct rt_node {
    uint64_t key;
    uint64_t lengths; /* bit n: partial segments of n bytes; 0: an empty place */
} rt_node;

/* For each place >> RT_MARK_SHIFT up to that of the last record: the first record there, or, if
 * none begins there, the first behind. */
typedef struct rt_mark {
    uint32_t at, line, number;
} rt_mark;

/* What short paths are hashed with. */
typedef struct rt_secret {
    uint64_t seed;
    uint64_t lane[8]; /* two for each block of 16 bytes */
} rt_secret;

/* What is the same for all matches with rules of a profile. */
typedef struct rt_ready {
    redirect_profile profile;
    bool usable; /* its records have a target and nothing else */
    bool in_dir; /* the same, and a directory */
    const char *origin;
    size_t origin_len;
} rt_ready;

/* As redirect_table_lookup(). */
typedef bool rt_lookup_fn(const redirect_table *table, const redirect_request *request,
                          uint32_t from, redirect_match *match);

/* An image may lie in memory that other processes write. So what a look-up relies on lies here, in
 * private memory, and was checked when the table was opened: header, sizes, spaces. A place, number
 * or length that is read from the image later is read once and checked before it is used: see
 * rt_take(), rt_text(), RT_OPAQUE(). */
struct redirect_table {
    const char *image;
    rt_header head;
    const rt_bucket *buckets;
    const uint64_t *filter;
    const redirect_profile *profiles;
    const rt_space *spaces; /* a private copy */
    uint64_t seed;
    rt_secret secret; /* made of the seed */
    uint32_t nbuckets, nfilter, nspaces, records_end;
    uint32_t end; /* texts and lists end in front of the image's last REDIRECT_SLACK bytes */
    uint32_t
        quick; /* behind the header, so many bytes have RT_QUICK bytes of the image behind them */
    rt_lookup_fn *lookup;
    uint64_t simple_salt;
    /* Of a simple table: for each of the profiles whose number is of one byte, and of these the one
     * that most rules seem to have, with that byte of their records, or RT_UNUSUAL */
    const rt_ready *ready;
    rt_ready usual_ready;
    uint32_t usual, usual_kind;
    bool usual_in_dir;
    /* Of one that redirect_table_beside() made */
    uint64_t edited_mask;
    bool own_whole;            /* it has EXACT rules itself */
    bool strange;              /* as in redirect_key_filter */
    uint64_t strange_lengths;  /* the same */
    rt_lookup_fn *not_strange; /* look-ups of what no strange rule matches */
    const uint64_t *edited;    /* keys of edited rules; NULL: a look-up need not mind */
};

/* A record taken apart. */
typedef struct rt_record {
    const redirect_profile *profile; /* of one that rt_take() has read: `own` */
    redirect_profile own;
    uint32_t number;                     /* of the profile */
    const char *source, *middle, *query; /* the source without its directory */
    const char *dir_text; /* set by rt_take() and rt_builder_record(); without one dir_len is 0 */
    uint32_t source_len, middle_len, tail, query_len, dir_len;
    uint32_t host, pattern, condition, dir; /* numbers; 0: none */
    uint32_t line_delta;                    /* line minus the line behind the previous rule's */
    uint32_t size;                          /* bytes from the record's beginning to its end */
} rt_record;

/* --- numbers and records --------------------------------------------------------------------- */

/* A value that was read from memory which others write: the compiler must not read it again. */
#define RT_OPAQUE(value) __asm__ volatile("" : "+r"(value))

/* The same of all that was read until now. */
#define RT_READ_DONE() __asm__ volatile("" : : : "memory")

/* Reads RT_NUMBER_BYTES at most, whatever they are. */
static inline uint32_t rt_number(const uint8_t **at)
{
    const uint8_t *p = *at;
    uint32_t byte = *p++, value = byte & 0x7f;

    for (unsigned shift = 7; byte & 0x80 && shift < 7 * RT_NUMBER_BYTES; shift += 7) {
        byte = *p++;
        value |= (byte & 0x7f) << shift;
    }
    *at = p;
    return value;
}

/* Small differences in both directions as small numbers. */
static inline uint32_t rt_zigzag(uint32_t delta)
{
    return delta << 1 ^ (delta & UINT32_C(0x80000000) ? UINT32_MAX : 0);
}

static inline uint32_t rt_unzigzag(uint32_t number)
{
    return number >> 1 ^ (number & 1 ? UINT32_MAX : 0);
}

/* The numbers behind the first one, of a record of out->profile. */
static inline void rt_decode_rest(const char *record, const uint8_t *p, uint32_t first,
                                  rt_record *out)
{
    unsigned has = out->profile->has;

    out->source_len = rt_number(&p);
    out->host = has & RT_HOST ? rt_number(&p) : 0;
    out->middle_len = has & REDIRECT_HAS_TARGET ? rt_number(&p) : 0;
    out->tail = has & REDIRECT_HAS_TARGET ? rt_number(&p) : 0;
    out->query_len = has & REDIRECT_HAS_QUERY ? rt_number(&p) : 0;
    out->pattern = out->condition = out->dir = 0;
    if (has & (RT_PATTERN | RT_CONDITION | RT_DIR)) {
        out->pattern = has & RT_PATTERN ? rt_number(&p) : 0;
        out->condition = has & RT_CONDITION ? rt_number(&p) : 0;
        out->dir = has & RT_DIR ? rt_number(&p) : 0;
    }
    out->line_delta = first & 1 ? rt_unzigzag(rt_number(&p)) : 0;
    out->source = (const char *)p;
    out->middle = out->source + out->source_len;
    out->query = out->middle + out->middle_len;
    out->size = (uint32_t)(out->query + out->query_len - record);
}

/* Of a record whose numbers and profile have been checked, in private memory. */
static inline void rt_decode(const char *record, const redirect_profile *profiles, rt_record *out)
{
    const uint8_t *p = (const uint8_t *)record;
    uint32_t first = rt_number(&p);

    out->number = first >> 1;
    out->profile = &profiles[out->number];
    rt_decode_rest(record, p, first, out);
}

static inline uint32_t rt_count(const redirect_table *table, rt_section which)
{
    return table->head.section[which].count;
}

/* Can a rule have this profile? Its strings are checked when they are read. */
static inline bool rt_profile_possible(const redirect_profile *profile)
{
    return profile->kind >= REDIRECT_EXACT && profile->kind <= REDIRECT_TEMPLATE &&
           profile->status >= 100 && profile->status <= 999;
}

/* What rt_take() must find of a record that was read: all of it lies where records do, and its
 * numbers are of strings that there are. */
static inline bool rt_record_possible(const redirect_table *table, uint32_t place,
                                      const rt_record *r)
{
    uint64_t texts = (uint64_t)r->source_len + r->middle_len + r->query_len;
    uint64_t at = (uint64_t)(r->source - table->image);

    return rt_profile_possible(r->profile) && at + texts <= table->records_end &&
           (uint64_t)r->dir_len + r->source_len <= REDIRECT_MAX_TEXT &&
           r->query_len <= REDIRECT_MAX_TEXT &&
           (uint64_t)r->middle_len + r->tail <= REDIRECT_MAX_TEXT &&
           r->tail <= r->dir_len + r->source_len && r->host <= rt_count(table, RT_HOSTS) &&
           r->pattern <= rt_count(table, RT_PATTERNS) &&
           r->condition <= rt_count(table, RT_CONDITIONS) &&
           (r->pattern || r->profile->kind < REDIRECT_PATTERN) && place < place + r->size;
}

/* String number n (from 1) of a section, whatever stands there: of one that there is not, it is
 * empty. It need not end in a NUL. The REDIRECT_SLACK bytes behind it can be read, too. */
static inline const char *rt_text(const redirect_table *table, rt_section which, uint32_t n,
                                  size_t *len)
{
    static const char none[REDIRECT_SLACK];
    const uint32_t *offsets =
        (const uint32_t *)(const void *)(table->image + table->head.section[which].at);
    uint32_t at, end;

    *len = 0;
    if (!n || n > rt_count(table, which))
        return none;
    at = offsets[n - 1];
    end = offsets[n];
    RT_OPAQUE(at);
    RT_OPAQUE(end);
    if (at >= end || end > table->end || end - at > REDIRECT_MAX_TEXT + 1)
        return none;
    *len = end - at - 1;
    return table->image + at;
}

/* The record at `place`, whatever stands there. False: there is none. */
static inline bool rt_take(const redirect_table *table, uint32_t place, rt_record *out)
{
    const char *record = table->image + place;
    const uint8_t *p = (const uint8_t *)record;
    uint32_t first;

    if (place < sizeof(rt_header) || place >= table->records_end)
        return false;
    first = rt_number(&p);
    RT_OPAQUE(first);
    out->number = first >> 1;
    if (__builtin_expect(out->number >= rt_count(table, RT_PROFILES), 0))
        return false;
    out->own = table->profiles[out->number];
    RT_READ_DONE();
    out->profile = &out->own;
    rt_decode_rest(record, p, first, out);
    RT_READ_DONE();
    out->dir_text = "";
    out->dir_len = 0;
    if (out->dir) {
        size_t len;

        out->dir_text = rt_text(table, RT_DIRS, out->dir, &len);
        out->dir_len = (uint32_t)len;
    }
    return rt_record_possible(table, place, out);
}

/* The places of the posting at `place`, as many as lie inside of the image. *conditioned: some of
 * them are of rules with conditions. */
static inline const uint32_t *rt_posting(const redirect_table *table, uint32_t place, uint32_t *n,
                                         bool *conditioned)
{
    const uint32_t *posting = (const uint32_t *)(const void *)(table->image + place);
    uint32_t room = place < table->end ? (table->end - place) / (uint32_t)sizeof(*posting) : 0;

    *n = 0;
    *conditioned = false;
    if (!room || place % sizeof(*posting))
        return posting;
    *n = posting[0];
    RT_OPAQUE(*n);
    *conditioned = *n & RT_CONDITIONED;
    *n &= ~RT_CONDITIONED;
    if (*n >= room)
        *n = room - 1;
    return posting + 1;
}

/* --- hashing --------------------------------------------------------------------------------- */

#define RT_K1 UINT64_C(0x9e3779b97f4a7c15) /* odd numbers with no pattern in their bits */
#define RT_K2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define RT_K3 UINT64_C(0xa0761d6478bd642f)

/* What a key is of. */
#define RT_KEY_SEGMENTS UINT64_C(0xe7037ed1a0b428db)
#define RT_KEY_NODE     UINT64_C(0x8ebc6af09c88c6e3)
#define RT_KEY_PARTIAL  UINT64_C(0x589965cc75374cc3)
#define RT_KEY_FLOAT_4  UINT64_C(0x1d8e4e27c47d124f)
#define RT_KEY_FLOAT_8  UINT64_C(0xeb44accab455d165)
#define RT_KEY_ALL      UINT64_C(0x2f4d4f2b9c6d3a8b)
#define RT_KEY_FRONT    UINT64_C(0xd1b54a32d192ed03)
#define RT_KEY_BACK     UINT64_C(0xaef17502108ef2d9)

static inline uint64_t rt_rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline uint64_t rt_mix(uint64_t a, uint64_t b)
{
    return htc_fold_product(a, b);
}

/* A number below n from 32 evenly spread bits (Lemire, Fast random integer generation, 2019). */
static inline uint32_t rt_reduce(uint32_t bits, uint32_t n)
{
    return (uint32_t)((uint64_t)bits * n >> 32);
}

/* A chain of segments starts with one of these and goes on with rt_chain_next(). */
static inline uint64_t rt_chain_root(uint64_t seed)
{
    return seed ^ RT_K2;
}

static inline uint64_t rt_chain_no_slash(uint64_t seed)
{
    return seed ^ RT_K3;
}

static inline uint64_t rt_chain_next(uint64_t chain, uint64_t segment)
{
    return (rt_rotate(chain, 29) ^ segment) * RT_K1;
}

/* Of a request or rule with this host and query in a space. */
static inline uint64_t rt_salt(uint64_t seed, uint32_t space, uint32_t host, uint64_t query)
{
    return rt_mix(seed ^ query ^ RT_K2, ((uint64_t)space << 32 | host) * RT_K1 ^ RT_K3);
}

static inline uint64_t rt_key(uint64_t chain, uint64_t salt, uint64_t what)
{
    return rt_mix(chain ^ salt, what);
}

/* Of an EXACT rule, and of the others that whole segments are hashed of; these hashes are mixed
 * well enough already. */
static inline uint64_t rt_whole_key(uint64_t hash, uint64_t salt)
{
    return hash ^ salt;
}

static inline uint64_t rt_segments_key(uint64_t hash, uint64_t salt)
{
    return hash ^ salt ^ RT_KEY_SEGMENTS;
}

/* Of a template with a segment of this hash and so many slashes in front of it, or behind. */
static inline uint64_t rt_fixed_key(uint64_t segment, unsigned slashes, bool back, uint64_t salt)
{
    return rt_key(rt_mix(segment + slashes, RT_K1), salt, back ? RT_KEY_BACK : RT_KEY_FRONT);
}

static inline uint32_t rt_bucket_of(uint64_t key, uint32_t nbuckets)
{
    return rt_reduce((uint32_t)(key >> 32), nbuckets);
}

static inline uint16_t rt_tag(uint64_t key)
{
    return (uint16_t)(key | 1);
}

/* The places in a bucket that have the tag, as bits. */
static inline unsigned rt_tagged(const rt_bucket *bucket, uint16_t tag)
{
    unsigned bits = 0;
#ifdef RT_SSE2
    const __m128i *at = (const __m128i *)(const void *)bucket;
    __m128i wanted = _mm_set1_epi16((short)tag);
    __m128i first = _mm_cmpeq_epi16(_mm_loadu_si128(at), wanted);
    __m128i last = _mm_cmpeq_epi16(_mm_loadl_epi64(at + 1), wanted);

    bits = (unsigned)_mm_movemask_epi8(_mm_packs_epi16(first, last)) & ((1u << RT_WAYS) - 1);
#else
    for (unsigned i = 0; i < RT_WAYS; i++)
        bits |= (unsigned)(bucket->tag[i] == tag) << i;
#endif
    return bits;
}

static inline uint32_t rt_filter_word(uint64_t key, uint32_t words)
{
    return rt_reduce((uint32_t)key, words);
}

static inline uint64_t rt_filter_bits(uint64_t key)
{
    uint64_t x = key * RT_K3 >> 40;

    return UINT64_C(1) << (x & 63) | UINT64_C(1) << (x >> 6 & 63) | UINT64_C(1) << (x >> 12 & 63) |
           UINT64_C(1) << (x >> 18);
}

/* The two bits of a word that an edited rule's key has. */
static inline unsigned rt_edited_bit(uint64_t key, unsigned which)
{
    return key >> (58 - 6 * which) & 63;
}

/* Of a table that redirect_table_beside() made. The first bit nearly always tells. */
static inline bool rt_is_edited(const redirect_table *table, uint64_t key)
{
    uint64_t word = table->edited[key & table->edited_mask];

    if (__builtin_expect(!(word >> rt_edited_bit(key, 0) & 1), 1))
        return false;
    RT_OPAQUE(word); /* two tests, of which the second is hardly ever made */
    return word >> rt_edited_bit(key, 1) & 1;
}

/* An edited rule may be wanted. */
static inline bool rt_say_edited(redirect_match *match)
{
    match->rule = REDIRECT_ASK_EDITS;
    return false;
}

/* The bit of a number of segments in a mask of depths. */
static inline uint64_t rt_depth(size_t segments)
{
    return UINT64_C(1) << (segments < 63 ? segments : 63);
}

static inline unsigned rt_partial(size_t len)
{
    return len < RT_PARTIAL_MAX ? (unsigned)len : RT_PARTIAL_MAX;
}

/* --- redirect_table.c, redirect_table/text.c ---------------------------------------------------
 */

/* All of a match with the rule at `place`, whose record was taken apart; where it ends is told by
 * the caller. */
void rt_fill(const redirect_table *table, uint32_t place, const rt_record *record, size_t matched,
             redirect_match *match);

/* redirect_table.c's own way, for all tables. */
rt_lookup_fn rt_lookup_any;

/* As redirect_template_match(); what it takes is subtracted from *steps (NULL: it is not asked). */
int rt_template_match(const char *pattern, size_t len, unsigned flags, const char *path,
                      size_t path_len, redirect_group *groups, int max, uint64_t *steps);

/* redirect_table/choose.c. A rule matches, as far as its condition does not matter. It has one, or
 * is one of those of `posting` (0: none), of which some have. REDIRECT_CHOSEN: *place, whose record
 * is *record, answers. */
redirect_choice rt_choose(const redirect_table *table, const redirect_request *request,
                          uint32_t posting, uint32_t *place, rt_record *record);

/* The rule's source's length without what ANY_SLASH ignores. */
static inline size_t rt_compared_len(const rt_record *r)
{
    size_t len = r->source_len;

    if (len && r->profile->flags & REDIRECT_ANY_SLASH && r->source[len - 1] == '/')
        len--;
    return r->dir_len + len;
}

/* Of two rules with the same flags. They may be cut at different places, or not at all. */
bool rt_same_source(const rt_record *x, const rt_record *y);

/* redirect_table/simple.c */
bool rt_is_simple(const redirect_table *table);
/* Find out what its quick ways rely on. */
void rt_prepare_simple(redirect_table *table, apr_pool_t *pool);
rt_lookup_fn rt_lookup_whole, rt_lookup_prefix; /* where all rules are EXACT, and otherwise */
rt_lookup_fn rt_lookup_whole_edited, rt_lookup_prefix_edited;

/* redirect_table/edited.c. The number of a host in the table, or 0. A wildcard's `name` is without
 * its star. */
uint32_t rt_host_number(const redirect_table *table, const char *name, size_t len, bool below);

/* Segments are short: looking at eight bytes at a time beats a call of memchr(). The lowest bit set
 * is that of a slash; those above it may be wrong (Mycroft's test for a zero byte). */
static inline size_t rt_segment_end(const char *path, size_t at, size_t len)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    const uint64_t ones = UINT64_C(0x0101010101010101);

    for (; at + 8 <= len; at += 8) {
        uint64_t bytes, slashes;

        memcpy(&bytes, path + at, 8);
        bytes ^= ones * '/';
        slashes = (bytes - ones) & ~bytes & ones << 7;
        if (slashes)
            return at + (size_t)__builtin_ctzll(slashes) / 8;
    }
#endif
    while (at < len && path[at] != '/')
        at++;
    return at;
}

static inline size_t rt_slashes_end(const char *path, size_t at, size_t len)
{
    while (at < len && path[at] == '/')
        at++;
    return at;
}

#include "redirect_table/hash.h"

static inline unsigned char rt_fold(char c)
{
    unsigned char byte = (unsigned char)c;

    return (unsigned char)(byte - 'A') < 26 ? byte + ('a' - 'A') : byte;
}

bool rt_equal_fold(const char *a, const char *b, size_t len);

static inline bool rt_equal(const char *a, const char *b, size_t len, bool icase)
{
    return icase ? rt_equal_fold(a, b, len) : !memcmp(a, b, len);
}

bool rt_contains(const char *text, size_t len, const char *part, size_t part_len, bool icase);

/* Eight bytes with letters in lower case. */
static inline uint64_t rt_fold_word(uint64_t word)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t low = word & ~high, from_a = low + ones * (0x80 - 'A'),
             above_z = low + ones * (0x7f - 'Z');

    return word | ((from_a ^ above_z) & ~word & high) >> 2;
}

/* The first n (4 or 8) bytes as a number. */
static inline uint64_t rt_window(const char *bytes, unsigned n, bool icase)
{
    uint64_t word;
    uint32_t half;

    if (n == 8) {
        memcpy(&word, bytes, 8);
    } else {
        memcpy(&half, bytes, 4);
        word = half;
    }
    return icase ? rt_fold_word(word) : word;
}

/** A query as a set: split at "&", without empty parameters and those that @a strip (may be NULL)
 *  names. The hash does not depend on their order. */
uint64_t rt_query_hash(uint64_t seed, const char *query, size_t len, const char *strip,
                       size_t strip_len);
bool rt_query_equal(const char *a, size_t a_len, const char *b, size_t b_len, const char *strip,
                    size_t strip_len);

/* --- redirect_table/check.c ------------------------------------------------------------------- */

/* Does the header of an image of @a size bytes name sections that lie inside of it? */
bool rt_header_possible(const rt_header *head, size_t size);

#endif
