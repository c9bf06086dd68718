/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in simple tables: those of which all rules are EXACT or PREFIX, in any mix, and have no
 * condition but the path, with regard to the case of letters. Most bulk maps are such tables.
 * Called by redirect_table_lookup(), with the same result as its own way.
 *
 * A processor that waits for memory goes on with whatever does not depend on what it waits for, for
 * some hundreds of instructions, as long as it guesses the branches on the way: so there are few of
 * both here. The bucket is asked for as soon as its number is known, the record as soon as its
 * place is, and what does not need the record is done before it is looked at, so that the next
 * look-up's wait begins within this one's. A match with a whole path costs a line of the index and
 * the lines of one record, one with a prefix also a word of the filter for each boundary.
 */
#include "redirect_table_private.h"
#include "core/htc_hot.h"

#define NONE UINT32_MAX

typedef struct quick {
    const redirect_table *table;
    const char *path;
    size_t len;
    size_t at;     /* the boundary: so many bytes of the path are in the key */
    unsigned kind; /* of the rules that the key is of */
    size_t clean;  /* so many bytes of the path have no run of slashes in them */
    uint32_t from; /* rules in front of it are not asked for */
    uint32_t best; /* the first rule known to match, or NONE */
    size_t matched;
    rt_record record; /* of the best */
} quick;

bool rt_is_simple(const redirect_table *t)
{
    const rt_header *head = t->head;
    const redirect_profile *profiles = t->profiles;
    uint32_t n = head->section[RT_PROFILES].count;

    if (t->nspaces != 1 || t->spaces->icase || t->spaces->query != RT_QUERY_ANY ||
        t->spaces->host != RT_HOST_ANY || t->spaces->partial_depths ||
        t->spaces->has & ~(unsigned)RT_WHOLE)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (profiles[i].kind > REDIRECT_PREFIX ||
            profiles[i].flags & ~(unsigned)REDIRECT_ANY_SLASH ||
            profiles[i].has & ~(unsigned)REDIRECT_HAS_TARGET)
            return false;
    }
    return true;
}

/* As rt_decode(), for numbers of one byte each without a branch on what the record has. */
static inline void decode(const redirect_table *t, uint32_t place, rt_record *r)
{
    const char *record = t->image + place;
    const redirect_profile *profile;
    uint32_t numbers;

    memcpy(&numbers, record, sizeof(numbers));
    profile = &t->profiles[(numbers & 0x7f) >> 1];
    if (__builtin_expect(numbers & UINT32_C(0x80808081) || !(profile->has & REDIRECT_HAS_TARGET),
                         0)) {
        rt_decode(record, t->profiles, r);
        return;
    }
    r->profile = profile;
    r->pattern = 0;
    r->source_len = numbers >> 8 & 0xff;
    r->middle_len = numbers >> 16 & 0xff;
    r->tail = numbers >> 24;
    r->source = record + sizeof(numbers);
    r->middle = r->source + r->source_len;
}

/* Where in the path the source ends, as runs of slashes equal one. */
static bool skip_source(const quick *q, const char *source, size_t len, size_t *end)
{
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        if (at == q->len || source[i] != q->path[at])
            return false;
        at++;
        while (source[i] == '/' && at < q->len && q->path[at] == '/')
            at++;
    }
    *end = at;
    return true;
}

static inline bool same_bytes(const char *a, const char *b, size_t len)
{
    if (len < 16 || len > RT_SHORT_PATH)
        return !memcmp(a, b, len);
    return rt_equal_short(a, b, len);
}

/* Where the source's bytes end in the path, without a slash at its end. At a boundary of a clean
 * path that is known beforehand, but for a hash that says too much. */
static inline bool find_end(const quick *q, const rt_record *r, bool slash, size_t *end)
{
    *end = q->at;
    if (__builtin_expect(q->at <= q->clean, 1))
        return r->source_len - slash == q->at && same_bytes(r->source, q->path, q->at);
    /* Of a PREFIX it must be this boundary: a rule that ends at an earlier one is found by that
     * one's key, and only seems to have this. */
    return skip_source(q, r->source, r->source_len - slash, end) &&
           (q->kind == REDIRECT_EXACT || *end == q->at);
}

/* See match_segments() in redirect_table.c. */
static inline bool matches(const quick *q, const rt_record *r, size_t *matched)
{
    bool slash = r->source_len && r->source[r->source_len - 1] == '/';
    bool is_prefix = r->profile->kind == REDIRECT_PREFIX;
    size_t end, rest;

    if (!find_end(q, r, slash, &end))
        return false;
    for (rest = end; rest < q->len && q->path[rest] == '/'; rest++)
        continue;
    *matched = is_prefix && !slash ? end : rest;
    if (rest < q->len && (!is_prefix || rest == end))
        return false;
    return r->profile->flags & REDIRECT_ANY_SLASH ||
           (slash ? rest > end : is_prefix || rest == end);
}

static bool try_rule(quick *q, uint32_t place)
{
    size_t matched;
    rt_record r;

    __builtin_prefetch(q->table->image + place + 64);
    decode(q->table, place, &r);
    if (r.profile->kind != q->kind || !matches(q, &r, &matched) || place < q->from)
        return false;
    if (place < q->best) {
        q->best = place;
        q->matched = matched;
        q->record = r;
    }
    return true;
}

static bool try_place(quick *q, uint32_t place)
{
    const uint32_t *posting;

    if (place < q->table->records_end)
        return try_rule(q, place);
    posting = (const uint32_t *)(q->table->image + place);
    for (uint32_t i = 1; i <= posting[0]; i++) {
        if (try_rule(q, posting[i]))
            return true;
    }
    return false;
}

/* Try the rules of a key. Rules of its kind that match here have no other key, and those of one key
 * lie together in their order: the first that matches ends it. One of the other kind may only seem
 * to have the key, and is found by its own. */
static inline void probe_buckets(quick *q, uint64_t key)
{
    const redirect_table *t = q->table;
    uint32_t number = rt_bucket_of(key, t->nbuckets);
    const rt_bucket *bucket = &t->buckets[number];

    for (unsigned reach = bucket->reach;; reach--) {
        for (unsigned hits = rt_tagged(bucket, rt_tag(key)); hits; hits &= hits - 1) {
            if (try_place(q, bucket->place[__builtin_ctz(hits)]))
                return;
        }
        if (!reach)
            break;
        number = number + 1 < t->nbuckets ? number + 1 : 0;
        bucket = &t->buckets[number];
    }
}

/* May there be rules of this key? */
static inline bool filtered_in(const redirect_table *t, uint64_t key)
{
    uint64_t bits = rt_filter_bits(key);

    __builtin_prefetch(&t->buckets[rt_bucket_of(key, t->nbuckets)]);
    return (t->filter[rt_filter_word(key, t->nfilter)] & bits) == bits;
}

static inline void probe(quick *q, uint64_t key)
{
    if (filtered_in(q->table, key))
        probe_buckets(q, key);
}

/* --- the walk over the path, as walk_segments() in redirect_table.c ------------------------------
 */

#if defined(__SSE2__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__

#define BLOCK 16 /* bytes that are looked at together; shorter paths are left to the other walk */

/* The slashes among the 16 bytes, as bits. */
static inline uint64_t slashes_of(const char *bytes)
{
    __m128i block = _mm_loadu_si128((const __m128i *)(const void *)bytes);

    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(block, _mm_set1_epi8('/')));
}

/* Those of up to 64 bytes from `at` on; the path has BLOCK bytes or more. */
static inline uint64_t slashes_from(const char *path, size_t at, size_t len)
{
    uint64_t bits = 0;
    unsigned n = 0;

    for (; n < 64 && at + n + BLOCK <= len; n += BLOCK)
        bits |= slashes_of(path + at + n) << n;
    if (n < 64 && at + n < len)
        bits |= slashes_of(path + len - BLOCK) >> (BLOCK - (len - at - n)) << n;
    return bits;
}

/* Hash of path[at, end) as rt_hash() makes it, with as few branches as can be. */
static inline uint64_t hash_segment(uint64_t seed, const char *path, size_t at, size_t end)
{
    size_t n = end - at, from = end > 8 ? end - 8 : 0;
    unsigned short_by = n < 8 ? 8 * (8 - (unsigned)n) : 0;
    uint64_t first, last;

    if (__builtin_expect(n > 16, 0))
        return rt_hash_long(seed, path + at, n, false);
    memcpy(&last, path + from, 8);
    last = last << 8 * (8 - (end - from)) >> short_by;
    memcpy(&first, path + (n > 8 ? at : 0), 8);
    return rt_hash_words(seed, n > 8 ? first : last, last, n);
}

static inline void walk_blocks(quick *q)
{
    const redirect_table *t = q->table;
    const char *path = q->path;
    size_t len = q->len, window = 0, begin = path[0] == '/';
    uint64_t seed = t->seed, depths = t->spaces->prefix_depths, bit = 1;
    uint64_t chain = begin ? rt_chain_root(seed) : rt_chain_no_slash(seed);
    uint64_t slashes = slashes_from(path, 0, len);

    q->at = 0;
    q->clean = len;
    slashes &= ~(uint64_t)begin;
    if (begin && depths & 1)
        probe(q, rt_key(chain, t->simple_salt, RT_KEY_SEGMENTS));
    for (;;) {
        size_t end;

        while (!slashes) {
            window += 64;
            if (window >= len)
                break;
            slashes = slashes_from(path, window, len);
        }
        end = slashes ? window + (size_t)__builtin_ctzll(slashes) : len;
        slashes &= slashes - 1;
        if (end == begin) { /* a run of slashes, or one at the path's end */
            if (end == len)
                break;
            if (q->clean > q->at)
                q->clean = q->at;
        } else {
            chain = rt_chain_next(chain, hash_segment(seed, path, begin, end));
            bit <<= bit < UINT64_C(1) << 63;
            q->at = end;
            if (end == len)
                break;
            if (depths & bit)
                probe(q, rt_key(chain, t->simple_salt, RT_KEY_SEGMENTS));
            if (bit < UINT64_C(1) << 63 && depths < 2 * bit)
                return;
        }
        begin = end + 1;
    }
    /* What a slash followed has been tried. */
    if (depths & bit && q->at == len)
        probe(q, rt_key(chain, t->simple_salt, RT_KEY_SEGMENTS));
}
#endif

static void walk(quick *q)
{
    const redirect_table *t = q->table;
    const char *path = q->path;
    size_t len = q->len, at = 0;
    uint64_t seed = t->seed, depths = t->spaces->prefix_depths;
    bool clean = true, rooted = !len || path[0] == '/';
    uint64_t chain = rooted ? rt_chain_root(seed) : rt_chain_no_slash(seed);

    for (size_t depth = 0;; depth++) {
        uint64_t bit = rt_depth(depth);
        size_t next = rt_slashes_end(path, at, len), end;

        q->at = at;
        if (clean)
            q->clean = at;
        if (depths & bit && (depth || rooted))
            probe(q, rt_key(chain, t->simple_salt, RT_KEY_SEGMENTS));
        if (next == len || (depth < 63 && depths < 2 * bit))
            return;
        end = rt_segment_end(path, next, len);
        chain = rt_chain_next(chain, rt_hash(seed, path + next, end - next, false));
        clean = clean && next - at <= 1;
        at = end;
    }
}

static inline void try_prefixes(quick *q)
{
#ifdef BLOCK
    if (q->len >= BLOCK) {
        walk_blocks(q);
        return;
    }
#endif
    walk(q);
}

/* --- the whole path -----------------------------------------------------------------------------
 */

static inline bool has_run(const char *path, size_t len)
{
    size_t i = 0;

#ifdef BLOCK
    if (len > BLOCK) {
        for (; i + BLOCK + 1 < len; i += BLOCK) {
            if (slashes_of(path + i) & slashes_of(path + i + 1))
                return true;
        }
        i = len - BLOCK - 1;
        return slashes_of(path + i) & slashes_of(path + i + 1);
    }
#endif
    for (; i + 1 < len; i++) {
        if (path[i] == '/' && path[i + 1] == '/')
            return true;
    }
    return false;
}

static inline uint64_t whole_key(const redirect_table *t, uint64_t hash)
{
    return rt_whole_key(hash, t->simple_salt);
}

static inline void try_whole(quick *q)
{
    const redirect_table *t = q->table;
    size_t len = q->len;
    uint64_t hash;

    if (__builtin_expect(has_run(q->path, len), 0)) {
        hash = rt_hash_path(&t->secret, q->path, len, false);
        q->clean = 0;
        q->at = len;
    } else {
        len -= len && q->path[len - 1] == '/';
        hash = rt_hash_clean(&t->secret, q->path, len);
        q->clean = q->at = len;
    }
    probe(q, whole_key(t, hash));
}

static HTC_HOT HTC_APART bool lookup(const redirect_table *table, const redirect_request *request,
                                     uint32_t from, redirect_match *match)
{
    quick q;

    q.table = table;
    q.path = request->path;
    q.len = request->path_len;
    q.from = from;
    q.best = NONE;
    if (table->spaces->has & RT_WHOLE) {
        q.kind = REDIRECT_EXACT;
        try_whole(&q);
    }
    if (table->spaces->prefix_depths) {
        q.kind = REDIRECT_PREFIX;
        try_prefixes(&q);
    }
    if (q.best == NONE) {
        match->rule = 0;
        return false;
    }
    rt_fill(table, q.best, &q.record, q.matched, match);
    return true;
}

/* The place that the buckets behind this one have first for the key's tag; 0: none. */
static HTC_APART uint32_t tagged_behind(const redirect_table *t, uint64_t key, uint32_t number)
{
    unsigned hits = 0;

    for (unsigned reach = t->buckets[number].reach; !hits && reach; reach--) {
        number = number + 1 < t->nbuckets ? number + 1 : 0;
        hits = rt_tagged(&t->buckets[number], rt_tag(key));
    }
    return hits ? t->buckets[number].place[__builtin_ctz(hits)] : 0;
}

/* The place that the index has first for it. */
static inline uint32_t first_tagged(const redirect_table *t, uint64_t key)
{
    uint32_t number = rt_bucket_of(key, t->nbuckets);
    const rt_bucket *bucket = &t->buckets[number];
    unsigned hits = rt_tagged(bucket, rt_tag(key));

    if (hits)
        return bucket->place[__builtin_ctz(hits)];
    return bucket->reach ? tagged_behind(t, key, number) : 0;
}

/* Of a record's first four bytes, if those are the numbers of one that has a target and no line:
 * what has to be 0, its profile's number, and its source's length. */
#define SHORT_ZERO    UINT32_C(0x80808081)
#define SHORT_PROFILE UINT32_C(0x7e)
#define SHORT_SOURCE  UINT32_C(0xff00)

/* What does not depend on a rule's record. */
static inline void begin_match(const rt_ready *ready, const char *source, size_t len,
                               redirect_match *match)
{
    match->profile = ready->profile;
    match->matched = len;
    match->strip = match->pattern = NULL;
    match->part[0] = ready->origin;
    match->part_len[0] = ready->origin_len;
    match->part[1] = source + len;
}

/* The rest, if the record's first numbers are as wanted, and its source is the path byte for byte.
 */
static inline bool end_match(const char *record, uint32_t mask, uint32_t wanted, const char *path,
                             size_t len, redirect_match *match)
{
    const char *source = record + sizeof(uint32_t);
    uint32_t numbers, middle_len, tail;

    memcpy(&numbers, record, sizeof(numbers));
    if (__builtin_expect((numbers & mask) != (wanted | (uint32_t)len << 8) ||
                             !rt_equal_short(source, path, len),
                         0))
        return false;
    middle_len = numbers >> 16 & 0xff;
    tail = numbers >> 24;
    match->part[2] = source + len - tail;
    match->part_len[1] = middle_len;
    match->part_len[2] = tail;
    match->target_len = match->part_len[0] + middle_len + tail;
    return true;
}

/* Most rules have the same profile. Taking it for granted, all that it says can be noted while the
 * record is waited for. */
static inline bool match_usual(const redirect_table *t, uint32_t place, const char *path,
                               size_t len, redirect_match *match)
{
    const char *record = t->image + place;

    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
    match->rule = place;
    begin_match(&t->usual_ready, record + sizeof(uint32_t), len, match);
    return end_match(record, SHORT_ZERO | SHORT_PROFILE | SHORT_SOURCE, t->usual, path, len, match);
}

/* The rule at this place is not usual, or not the one that is looked for. */
static HTC_APART bool match_other(const redirect_table *t, uint32_t place,
                                  const redirect_request *request, uint32_t from,
                                  redirect_match *match)
{
    const char *record = t->image + place;
    const rt_ready *ready = &t->ready[(*record & SHORT_PROFILE) >> 1];

    if (ready->profile) {
        match->rule = place;
        begin_match(ready, record + sizeof(uint32_t), request->path_len, match);
        if (end_match(record, SHORT_ZERO | SHORT_SOURCE, 0, request->path, request->path_len,
                      match))
            return true;
    }
    return lookup(t, request, from, match);
}

/* Most requests that are asked about match nothing, and most tables have nothing but whole paths:
 * of these no function is called, for which registers would have to be saved. Their index has tags
 * enough to be its own filter. A path that equals a source has no run of slashes, so that is asked
 * only of others. */
HTC_HOT bool rt_lookup_simple(const redirect_table *table, const redirect_request *request,
                              uint32_t from, redirect_match *match)
{
    const char *path = request->path;
    size_t len = request->path_len;
    uint32_t place;

    if (!table->only_whole || len <= 16 || len > RT_SHORT_PATH)
        return lookup(table, request, from, match);
    len -= path[len - 1] == '/';
    place = first_tagged(table, whole_key(table, rt_hash_short(&table->secret, path, len)));
    if (place) {
        if (__builtin_expect(place >= table->records_end || place < from, 0))
            return lookup(table, request, from, match);
        return match_usual(table, place, path, request->path_len, match) ||
               match_other(table, place, request, from, match);
    }
    if (__builtin_expect(has_run(path, request->path_len), 0))
        return lookup(table, request, from, match);
    match->rule = 0;
    return false;
}
