/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in simple tables: those of which all rules are EXACT or PREFIX, in any mix, and have no
 * condition but the path, with regard to the case of letters. Most bulk maps are such tables. Some
 * rules may have a redirect_rule.condition: requests to which one of them may come are passed on.
 * Called by redirect_table_lookup(), with the same result as its own way.
 *
 * Paths of 17 to 63 bytes, as most are, have ways of their own, which leave to the other, lookup(),
 * whatever is not as usual. A processor that waits for memory goes on with what does not depend on
 * it, for some hundreds of instructions, as long as it guesses the branches on the way: so there
 * are few of both. The bucket is asked for as soon as its number is known, the record as soon as
 * its place is, and what does not need the record is done before that is looked at, so that a next
 * look-up's wait may begin within this one's. A match costs a line of the index and the lines of
 * one record; where a request has several keys, a word of the filter for each, too.
 */
#include "redirect_table/internal.h"
#include "base/base.h"

#include <endian.h>

#include <apr_strings.h>

#define NONE    UINT32_MAX
#define SAMPLES 32 /* rules of which the usual profile is found */
#define BLOCK   16 /* bytes that are looked at together */

typedef struct quick {
    const redirect_table *table;
    const char *path;
    size_t len;
    size_t at;     /* the boundary: the number of bytes of the path that are in the key */
    unsigned kind; /* of the rules that the key is of */
    size_t clean;  /* this number of bytes of the path have no run of slashes in them */
    uint32_t from; /* rules in front of it are not asked for */
    uint32_t best; /* the first rule known to match, or NONE */
    size_t matched;
    bool conditions;  /* a condition decides, which is not for this file */
    bool edited;      /* a key of an edited rule was made */
    rt_record record; /* of the best */
} quick;

bool rt_is_simple(const redirect_table *t)
{
    const redirect_profile *profiles = t->profiles;
    uint32_t n = rt_count(t, RT_PROFILES);

    if (t->nspaces != 1 || t->spaces->icase || t->spaces->query != RT_QUERY_ANY ||
        t->spaces->host != RT_HOST_ANY || t->spaces->partial_depths ||
        t->spaces->has & ~(unsigned)RT_WHOLE)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (profiles[i].kind > REDIRECT_PREFIX ||
            profiles[i].flags & ~(unsigned)REDIRECT_ANY_SLASH ||
            profiles[i].has & ~(unsigned)(REDIRECT_HAS_TARGET | RT_CONDITION | RT_DIR))
            return false;
    }
    return true;
}

/* True when a record of short texts that begins at this place lies inside the image, whatever
 * its numbers are. */
static inline bool is_quick(const redirect_table *t, uint32_t place)
{
    return place - (uint32_t)sizeof(rt_header) < t->quick;
}

/* As rt_take(), for numbers of one byte each without a branch on what the record has. */
static inline bool take(const redirect_table *t, uint32_t place, rt_record *r)
{
    const char *record = t->image + place;
    const rt_ready *ready;
    uint32_t numbers;

    if (__builtin_expect(!is_quick(t, place), 0))
        return rt_take(t, place, r);
    memcpy(&numbers, record, sizeof(numbers));
    numbers = le32toh(numbers); /* a byte for each */
    RT_OPAQUE(numbers);
    ready = &t->ready[(numbers & 0x7f) >> 1];
    if (__builtin_expect(numbers & UINT32_C(0x80808081) || !ready->usable, 0))
        return rt_take(t, place, r);
    r->own = ready->profile;
    r->profile = &r->own;
    r->pattern = r->condition = 0;
    r->dir_len = 0;
    r->source_len = numbers >> 8 & 0xff;
    r->middle_len = numbers >> 16 & 0xff;
    r->tail = numbers >> 24;
    r->source = record + sizeof(numbers);
    r->middle = r->source + r->source_len;
    return true;
}

/* Go over what is in the path from *at on, as runs of slashes equal one. */
static bool skip_text(const quick *q, const char *text, size_t len, size_t *at)
{
    for (size_t i = 0; i < len; i++) {
        if (*at == q->len || text[i] != q->path[*at])
            return false;
        ++*at;
        while (text[i] == '/' && *at < q->len && q->path[*at] == '/')
            ++*at;
    }
    return true;
}

/* Where in the path the rule's source ends; `len` of the record's own. */
static bool skip_source(const quick *q, const rt_record *r, size_t len, size_t *end)
{
    *end = 0;
    return (!r->dir_len || skip_text(q, r->dir_text, r->dir_len, end)) &&
           skip_text(q, r->source, len, end);
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
    size_t own = r->source_len - slash, dir = r->dir_len;

    *end = q->at;
    if (__builtin_expect(q->at <= q->clean, 1))
        return dir + own == q->at && (!dir || same_bytes(r->dir_text, q->path, dir)) &&
               same_bytes(r->source, q->path + dir, own);
    /* Of a PREFIX it must be this boundary: a rule that ends at an earlier one is found by that
     * one's key, and only seems to have this. */
    return skip_source(q, r, own, end) && (q->kind == REDIRECT_EXACT || *end == q->at);
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
    if (!take(q->table, place, &r) || r.profile->kind != q->kind || !matches(q, &r, &matched) ||
        place < q->from)
        return false;
    if (__builtin_expect(r.condition, 0)) {
        q->conditions = true;
        return true;
    }
    if (place < q->best) {
        q->best = place;
        q->matched = matched;
        q->record = r;
        q->record.profile = &q->record.own;
    }
    return true;
}

static bool try_place(quick *q, uint32_t place)
{
    const uint32_t *places;
    bool conditioned;
    uint32_t n;

    RT_OPAQUE(place);
    if (place < q->table->records_end)
        return try_rule(q, place);
    places = rt_posting(q->table, place, &n, &conditioned);
    if (__builtin_expect(conditioned, 0)) {
        q->conditions = true;
        return true;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rule = places[i];

        RT_OPAQUE(rule);
        if (try_rule(q, rule))
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
    if (q->table->edited && rt_is_edited(q->table, key))
        q->edited = true;
    else if (filtered_in(q->table, key))
        probe_buckets(q, key);
}

/* --- the walk over the path, as walk_segments() in redirect_table.c ------------------------------
 */

static void try_prefixes(quick *q)
{
    const redirect_table *t = q->table;
    const char *path = q->path;
    size_t len = q->len, at = 0;
    uint64_t depths = t->spaces->prefix_depths;
    bool clean = true, rooted = !len || path[0] == '/';
    rt_hasher hasher;

    rt_hasher_start(&hasher, &t->secret, path, false);
    for (size_t depth = 0;; depth++) {
        uint64_t bit = rt_depth(depth);
        size_t next = rt_slashes_end(path, at, len);

        q->at = at;
        if (clean)
            q->clean = at;
        if (depths & bit && (depth || rooted))
            probe(q, rt_segments_key(rt_hash_to(&hasher, at, q->clean), t->simple_salt));
        if (next == len || (depth < 63 && depths < 2 * bit))
            return;
        clean = clean && next - at <= 1;
        at = rt_segment_end(path, next, len);
    }
}

/* --- the whole path -----------------------------------------------------------------------------
 */

static inline bool has_run(const char *path, size_t len)
{
    size_t i = 0;

#ifdef RT_SSE2
    if (len > BLOCK) {
        for (; i + BLOCK + 1 < len; i += BLOCK) {
            if (rt_slashes_of(path + i) & rt_slashes_of(path + i + 1))
                return true;
        }
        i = len - BLOCK - 1;
        return rt_slashes_of(path + i) & rt_slashes_of(path + i + 1);
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
    q.conditions = q.edited = false;
    if (table->spaces->has & RT_WHOLE) {
        q.kind = REDIRECT_EXACT;
        try_whole(&q);
    }
    if (table->spaces->prefix_depths) {
        q.kind = REDIRECT_PREFIX;
        try_prefixes(&q);
    }
    if (q.edited)
        return rt_say_edited(match);
    if (__builtin_expect(q.conditions, 0))
        return rt_lookup_any(table, request, from, match);
    if (q.best == NONE) {
        match->rule = 0;
        return false;
    }
    rt_fill(table, q.best, &q.record, q.matched, match);
    return true;
}

/* --- short paths --------------------------------------------------------------------------------
 */

/* The first place of those with these bits. */
static inline uint32_t place_in(const rt_bucket *bucket, unsigned hits)
{
    uint32_t place = bucket->place[__builtin_ctz(hits)];

    RT_OPAQUE(place);
    return place;
}

/* The place that the buckets behind this one have first for the key's tag; 0: none. */
static HTC_APART uint32_t tagged_behind(const redirect_table *t, uint64_t key, uint32_t number)
{
    unsigned hits = 0;

    for (unsigned reach = t->buckets[number].reach; !hits && reach; reach--) {
        number = number + 1 < t->nbuckets ? number + 1 : 0;
        hits = rt_tagged(&t->buckets[number], rt_tag(key));
    }
    return hits ? place_in(&t->buckets[number], hits) : 0;
}

/* The place that the index has first for it. */
static inline uint32_t first_tagged(const redirect_table *t, uint64_t key)
{
    uint32_t number = rt_bucket_of(key, t->nbuckets);
    const rt_bucket *bucket = &t->buckets[number];
    unsigned hits = rt_tagged(bucket, rt_tag(key));

    if (hits)
        return place_in(bucket, hits);
    return bucket->reach ? tagged_behind(t, key, number) : 0;
}

/* Of a record's first four bytes, if those are the numbers of one that has a target and no line:
 * what has to be 0, its profile's number, and its source's length. */
#define SHORT_ZERO    UINT32_C(0x80808081)
#define SHORT_PROFILE UINT32_C(0x7e)
#define SHORT_SOURCE  UINT32_C(0xff00)

/* All that can be said of a match without the rule's record, which is asked for here. The place is
 * a quick one, and the path a short one: so wherever a text of the record is said to lie, it is
 * inside of the image. */
static inline void begin_match(const redirect_table *t, const rt_ready *ready, uint32_t place,
                               size_t len, redirect_match *match)
{
    const char *record = t->image + place;

    __builtin_prefetch(record);
    __builtin_prefetch(record + 64);
    match->rule = place;
    match->profile = ready->profile;
    match->matched = len;
    match->strip = match->pattern = NULL;
    match->part[0] = ready->origin;
    match->part_len[0] = ready->origin_len;
    match->part[1] = record + sizeof(uint32_t) + len;
}

/* The rest, of a record with these numbers. */
static inline void end_match(uint32_t numbers, redirect_match *match)
{
    uint32_t middle_len = numbers >> 16 & 0xff, tail = numbers >> 24;

    match->part[2] = match->part[1] - tail;
    match->part_len[1] = middle_len;
    match->part[3] = match->part[1];
    match->part_len[2] = tail;
    match->part_len[3] = 0;
    match->target_len = match->part_len[0] + middle_len + tail;
}

static inline uint32_t numbers_of(const redirect_table *t, uint32_t place)
{
    uint32_t numbers;

    memcpy(&numbers, t->image + place, sizeof(numbers));
    numbers = le32toh(numbers);
    RT_OPAQUE(numbers);
    return numbers;
}

/* Most rules have the same profile, which was taken for granted by begin_match(). */
static inline bool is_usual(const redirect_table *t, uint32_t numbers, size_t len)
{
    return (numbers & (SHORT_ZERO | SHORT_PROFILE | SHORT_SOURCE)) ==
           (t->usual | (uint32_t)len << 8);
}

/* The rule that a match was begun with is not usual, or not the one that is looked for. */
static HTC_APART bool match_other(const redirect_table *t, const redirect_request *request,
                                  redirect_match *match, redirect_kind kind)
{
    uint32_t place = match->rule, numbers = numbers_of(t, place);
    const rt_ready *ready = &t->ready[(numbers & SHORT_PROFILE) >> 1];
    size_t len = match->matched;

    /* A PREFIX may go on with the slash behind the segments. */
    if (kind == REDIRECT_PREFIX && len < request->path_len && (numbers >> 8 & 0xff) == len + 1)
        len++;
    if (ready->usable && ready->profile.kind == kind &&
        (numbers & (SHORT_ZERO | SHORT_SOURCE)) == len << 8 &&
        same_bytes(t->image + place + sizeof(numbers), request->path, len)) {
        begin_match(t, ready, place, len, match);
        end_match(numbers, match);
        return true;
    }
    return lookup(t, request, 0, match);
}

/* Of a record's first six bytes, if those are the numbers of one that has a target and a directory,
 * and no line: what has to be 0, and what has to be 1. */
#define DIR_ZERO UINT64_C(0x800080808081)
#define DIR_ONE  UINT64_C(0x008000000000)
#define DIR_SIZE 6

/* As begin_match() and end_match(), of a table whose rules are mostly in directories. The path's first
 * `len` bytes are to be the source of a rule of this kind. The place is a quick one. What there is to
 * know of the directory's length is known from the path. */
static HTC_APART bool match_in_dir(const redirect_table *t, const redirect_request *request,
                                   uint32_t place, size_t len, redirect_kind kind,
                                   redirect_match *match)
{
    const char *record = t->image + place, *source = record + DIR_SIZE, *dir;
    const rt_ready *ready = &t->usual_ready;
    const rt_span *dirs = &t->head.section[RT_DIRS];
    const uint32_t *offsets = (const uint32_t *)(const void *)(t->image + dirs->at);
    uint64_t slashes = rt_slashes_in(request->path, request->path_len), numbers;
    uint32_t number, at, end, tail, own_tail;
    size_t dir_len, own;

    __builtin_prefetch(record + 64);
    slashes &= (UINT64_C(1) << (len - 1)) - 1; /* one at the end belongs to the last segment */
    if (__builtin_expect(!slashes, 0))
        return lookup(t, request, 0, match);
    dir_len = 64 - (size_t)__builtin_clzll(slashes);
    own = len - dir_len;
    memcpy(&numbers, record, sizeof(numbers));
    numbers = le64toh(numbers);
    RT_OPAQUE(numbers);
    number = (uint32_t)((numbers >> 32 & 0x7f) | (numbers >> 40 & 0x7f) << 7);
    if (__builtin_expect((numbers & (DIR_ZERO | DIR_ONE | SHORT_PROFILE | SHORT_SOURCE)) !=
                                 (DIR_ONE | t->usual | own << 8) ||
                             ready->profile.kind != kind || !number || number > dirs->count,
                         0))
        return lookup(t, request, 0, match);
    at = offsets[number - 1];
    end = offsets[number];
    RT_OPAQUE(at);
    RT_OPAQUE(end);
    dir = t->image + at;
    if (__builtin_expect(at >= end || end > t->end || end - at - 1 != dir_len ||
                             !rt_equals_both(request->path, dir, dir_len, source, own),
                         0))
        return lookup(t, request, 0, match);
    tail = numbers >> 24 & 0xff;
    own_tail = (uint32_t)rt_lesser((ptrdiff_t)tail, (ptrdiff_t)own);
    if (__builtin_expect(tail - own_tail > dir_len, 0))
        return lookup(t, request, 0, match);
    match->rule = place;
    match->profile = ready->profile;
    match->matched = len;
    match->strip = match->pattern = NULL;
    match->part[0] = ready->origin;
    match->part_len[0] = ready->origin_len;
    match->part[1] = source + own;
    match->part_len[1] = numbers >> 16 & 0xff;
    match->part[2] = dir + dir_len - (tail - own_tail);
    match->part_len[2] = tail - own_tail;
    match->part[3] = source + own - own_tail;
    match->part_len[3] = own_tail;
    match->target_len = match->part_len[0] + match->part_len[1] + tail;
    return true;
}

/* So long that it is hashed as a short one, also without a slash at its end, and that each place
 * between its bytes has a bit. */
static inline bool is_short(size_t len)
{
    return len > 16 && len < RT_SHORT_PATH;
}

/* The bucket of the path's key has not its tag, but other buckets may. */
static HTC_APART bool lookup_behind(const redirect_table *t, const redirect_request *request,
                                    redirect_match *match, uint64_t key)
{
    uint32_t place = tagged_behind(t, key, rt_bucket_of(key, t->nbuckets)), numbers;
    size_t len = request->path_len;

    if (!is_quick(t, place))
        return lookup(t, request, 0, match);
    if (t->usual_in_dir)
        return match_in_dir(t, request, place, len, REDIRECT_EXACT, match);
    begin_match(t, &t->usual_ready, place, len, match);
    numbers = numbers_of(t, place);
    if (!is_usual(t, numbers, len) ||
        !rt_equal_short(request->path, t->image + place + sizeof(numbers), len))
        return match_other(t, request, match, REDIRECT_EXACT);
    end_match(numbers, match);
    return true;
}

/* A short path that ends in a slash, or one that does not. No function is called but at the end, so
 * that hardly a register has to be saved. A path that equals a source has no run of slashes, so
 * that is asked only of others. @a edited: the table is one with edited rules. */
static inline __attribute__((always_inline)) bool lookup_whole(const redirect_table *t,
                                                               const redirect_request *request,
                                                               bool slash, bool edited,
                                                               redirect_match *match)
{
    const char *path = request->path, *source;
    size_t len = request->path_len, hashed = len - slash;
    rt_blocks blocks = rt_read_blocks(path, hashed);
    uint64_t key = whole_key(t, rt_hash_blocks(&t->secret, blocks, hashed));
    const rt_bucket *bucket = &t->buckets[rt_bucket_of(key, t->nbuckets)];
    unsigned hits = rt_tagged(bucket, rt_tag(key));
    uint32_t place, numbers;

    if (edited && rt_is_edited(t, key))
        return rt_say_edited(match);
    if (!hits) {
        if (bucket->reach)
            return lookup_behind(t, request, match, key);
        if (__builtin_expect(has_run(path, len), 0))
            return lookup(t, request, 0, match);
        match->rule = 0;
        return false;
    }
    place = place_in(bucket, hits);
    if (__builtin_expect(!is_quick(t, place), 0)) /* a list of records, or near the image's end */
        return lookup(t, request, 0, match);
    if (t->usual_in_dir)
        return match_in_dir(t, request, place, len, REDIRECT_EXACT, match);
    begin_match(t, &t->usual_ready, place, len, match);
    source = t->image + place + sizeof(numbers);
    numbers = numbers_of(t, place);
    if (__builtin_expect(!is_usual(t, numbers, len) || !rt_equal_blocks(blocks, source, hashed) ||
                             (slash && source[hashed] != '/'),
                         0))
        return match_other(t, request, match, REDIRECT_EXACT);
    end_match(numbers, match);
    return true;
}

static HTC_HOT HTC_APART bool lookup_slash(const redirect_table *t, const redirect_request *request,
                                           redirect_match *match)
{
    return lookup_whole(t, request, true, false, match);
}

static HTC_HOT HTC_APART bool lookup_slash_edited(const redirect_table *t,
                                                  const redirect_request *request,
                                                  redirect_match *match)
{
    return lookup_whole(t, request, true, true, match);
}

HTC_HOT bool rt_lookup_whole(const redirect_table *t, const redirect_request *request,
                             uint32_t from, redirect_match *match)
{
    size_t len = request->path_len;

    if (__builtin_expect(!is_short(len) || from, 0))
        return lookup(t, request, from, match);
    if (request->path[len - 1] == '/')
        return lookup_slash(t, request, match);
    return lookup_whole(t, request, false, false, match);
}

HTC_HOT bool rt_lookup_whole_edited(const redirect_table *t, const redirect_request *request,
                                    uint32_t from, redirect_match *match)
{
    size_t len = request->path_len;

    if (__builtin_expect(!is_short(len) || from, 0))
        return lookup(t, request, from, match);
    if (request->path[len - 1] == '/')
        return lookup_slash_edited(t, request, match);
    return lookup_whole(t, request, false, true, match);
}

static inline uint32_t find_tagged(const redirect_table *t, uint64_t key)
{
    return t->nfilter > 1 && !filtered_in(t, key) ? 0 : first_tagged(t, key);
}

/* Of a short path. Inlined, lest one of the two variants of lookup_prefix() call it. */
static inline __attribute__((always_inline)) uint64_t hash_beginning(const redirect_table *t,
                                                                     const char *path, size_t at)
{
    if (__builtin_expect(at < 16, 0))
        return rt_hash_clean(&t->secret, path, at);
    return rt_hash_short(&t->secret, path, at);
}

/* A short path without runs of slashes, in a table with prefixes. All keys are tried first, and
 * nearly always one rule at most may match. */
static inline __attribute__((always_inline)) bool lookup_prefix(const redirect_table *t,
                                                                const redirect_request *request,
                                                                uint32_t from, bool edited,
                                                                redirect_match *match)
{
    const char *path = request->path;
    size_t len = request->path_len, end = len, clean_len;
    uint64_t depths = t->spaces->prefix_depths, slashes, ends, key;
    uint32_t place = 0, found, numbers;
    redirect_kind kind = REDIRECT_EXACT;

    if (__builtin_expect(!is_short(len) || from, 0))
        return lookup(t, request, from, match);
    clean_len = len - (path[len - 1] == '/');
    slashes = rt_slashes_in(path, len);
    if (slashes & slashes >> 1 || depths & 1)
        return lookup(t, request, 0, match);
    if (t->spaces->has & RT_WHOLE) {
        key = whole_key(t, rt_hash_short(&t->secret, path, clean_len));
        if (edited && rt_is_edited(t, key))
            return rt_say_edited(match);
        place = edited && !t->own_whole ? 0 : find_tagged(t, key);
    }
    ends = (slashes & ~UINT64_C(1)) | UINT64_C(1) << clean_len;
    for (depths >>= 1; depths; ends &= ends - 1) {
        unsigned skip = (unsigned)__builtin_ctzll(depths);
        size_t at;

        depths = depths >> skip >> 1;
        while (skip--)
            ends &= ends - 1;
        if (!ends)
            break;
        at = (size_t)__builtin_ctzll(ends);
        key = rt_segments_key(hash_beginning(t, path, at), t->simple_salt);
        if (edited && rt_is_edited(t, key))
            return rt_say_edited(match);
        found = find_tagged(t, key);
        if (!found)
            continue;
        if (place)
            return lookup(t, request, 0, match);
        place = found;
        kind = REDIRECT_PREFIX;
        end = at;
    }
    if (!place) {
        match->rule = 0;
        return false;
    }
    if (__builtin_expect(!is_quick(t, place), 0)) /* a list of records, or near the image's end */
        return lookup(t, request, 0, match);
    if (t->usual_in_dir)
        return match_in_dir(t, request, place, end, kind, match);
    begin_match(t, &t->usual_ready, place, end, match);
    numbers = numbers_of(t, place);
    if (__builtin_expect(t->usual_kind != kind || !is_usual(t, numbers, end) ||
                             !same_bytes(t->image + place + sizeof(numbers), path, end),
                         0))
        return match_other(t, request, match, kind);
    end_match(numbers, match);
    return true;
}

HTC_HOT bool rt_lookup_prefix(const redirect_table *t, const redirect_request *request,
                              uint32_t from, redirect_match *match)
{
    return lookup_prefix(t, request, from, false, match);
}

HTC_HOT bool rt_lookup_prefix_edited(const redirect_table *t, const redirect_request *request,
                                     uint32_t from, redirect_match *match)
{
    return lookup_prefix(t, request, from, true, match);
}

/* --- opening -----------------------------------------------------------------------------------
 */

static void make_ready(redirect_table *t, apr_pool_t *pool)
{
    rt_ready *all = apr_pcalloc(pool, RT_READY_MAX * sizeof(*all));
    uint32_t n = t->head.section[RT_PROFILES].count;

    for (uint32_t i = 0; i < RT_READY_MAX && i < n; i++) {
        rt_ready *ready = &all[i];

        ready->profile = t->profiles[i];
        RT_READ_DONE();
        ready->origin = rt_text(t, RT_ORIGINS, ready->profile.origin, &ready->origin_len);
        ready->usable = rt_profile_possible(&ready->profile) &&
                        (ready->profile.has & ~RT_DIR) == REDIRECT_HAS_TARGET &&
                        !ready->profile.strip && ready->origin_len + 2 * 0x7f <= REDIRECT_MAX_TEXT;
        ready->in_dir = ready->usable && ready->profile.has & RT_DIR;
        ready->usable = ready->usable && !ready->in_dir;
    }
    t->ready = all;
}

/* The profile that most of some rules have, from all over the table. */
static void see_usual(redirect_table *t)
{
    const rt_span *span = &t->head.section[RT_MARKS];
    const rt_mark *marks = (const rt_mark *)(t->image + span->at);
    uint32_t seen[RT_READY_MAX] = {0}, most = 0;

    t->usual = RT_UNUSUAL;
    for (uint32_t i = 0; i < SAMPLES && i < span->count; i++) {
        uint32_t mark =
            span->count <= SAMPLES ? i : (uint32_t)((uint64_t)i * span->count / SAMPLES);
        rt_record r;

        if (rt_take(t, marks[mark].at, &r) && r.number < RT_READY_MAX &&
            (t->ready[r.number].usable || t->ready[r.number].in_dir) && ++seen[r.number] > most) {
            most = seen[r.number];
            t->usual = r.number << 1;
            t->usual_ready = t->ready[r.number];
            t->usual_kind = t->usual_ready.profile.kind;
            t->usual_in_dir = t->usual_ready.in_dir;
        }
    }
}

void rt_prepare_simple(redirect_table *t, apr_pool_t *pool)
{
    make_ready(t, pool);
    see_usual(t);
}
