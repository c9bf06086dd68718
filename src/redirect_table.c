/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Looking rules up in a table's image. Called for every request that a table applies to. What an
 * image looks like and how keys are made is told in redirect_table/internal.h; images have been
 * validated before.
 *
 * A look-up walks once over the path. After each segment it makes, for each context (a space with
 * one of the request's hosts and its query), the keys of the rules that could match there, asks the
 * filter and then the index, and compares the rules found. The lowest that matches is kept.
 * Patterns are only noted on the way, and tried in the end, ascending, up to the one that is kept.
 */
#include "redirect_table/internal.h"
#include "base/base.h"

#include <apr_strings.h>

#define MAX_CONTEXTS 16  /* tried in one walk; with more of them there are several */
#define MAX_WAITING  64  /* patterns noted in one walk; with more of them there are several */
#define MAX_HOSTS    256 /* one name, and a wildcard for each dot */
#define NONE         UINT32_MAX

/* A space, and what the request adds to its keys. */
typedef struct context {
    const rt_space *space;
    uint64_t salt;
    uint32_t host;
} context;

/* A rule that more must be asked about. */
typedef struct waiting {
    uint32_t place;
    uint32_t posting; /* of it, if some rule there has a condition; 0 */
} waiting;

typedef struct search {
    const redirect_table *table;
    const redirect_request *request;
    const char *path;
    size_t len;
    uint32_t from;  /* rules in front of it are not asked for */
    uint32_t best;  /* the first rule known to match, or NONE */
    size_t matched; /* of it */
    size_t clean;   /* this number of bytes of the path have no run of slashes in them */
    uint32_t host;  /* of the context whose keys are being tried */
    bool any_icase, any_plain;
    rt_hasher plain, folded; /* of the path as it is and in lower case */
    unsigned ncontexts;
    uint8_t has;             /* of all contexts */
    uint64_t prefix_depths;  /* of all contexts */
    uint64_t partial_depths; /* of all contexts */
    uint32_t patterns_from;  /* patterns in front of it have been tried */
    uint32_t posting;        /* whose rules are being tried, if some have a condition; 0 */
    unsigned nwaiting;
    bool left_out; /* there was no room for a pattern behind the waiting ones */
    bool edited;   /* a key of an edited rule was made */
    unsigned nhosts;
    context contexts[MAX_CONTEXTS];
    waiting waiting[MAX_WAITING]; /* ascending */
    uint32_t hosts[MAX_HOSTS];    /* the name (or 0), then wildcards */
} search;

/* The chains of the segments passed, as they are and in lower case. */
typedef struct chains {
    uint64_t plain, folded;
} chains;

/* --- does a rule match ----------------------------------------------------------------------- */

/* Go over what is in the path from *at on, as runs of slashes equal one. */
static bool skip_text(const search *s, const char *text, size_t len, bool icase, size_t *at)
{
    for (size_t i = 0; i < len; i++) {
        if (*at == s->len || !rt_equal(text + i, s->path + *at, 1, icase))
            return false;
        ++*at;
        while (text[i] == '/' && *at < s->len && s->path[*at] == '/')
            ++*at;
    }
    return true;
}

/* Where in the path the rule's source ends; `len` of the record's own, without a slash at its end. */
static bool skip_source(const search *s, const rt_record *r, size_t len, size_t *end)
{
    bool icase = r->profile->flags & REDIRECT_ICASE;
    size_t dir = r->dir_len;

    if (dir + len <= s->clean) {
        *end = dir + len;
        return (!dir || rt_equal(r->dir_text, s->path, dir, icase)) &&
               rt_equal(r->source, s->path + dir, len, icase);
    }
    *end = 0;
    return (!dir || skip_text(s, r->dir_text, dir, icase, end)) &&
           skip_text(s, r->source, len, icase, end);
}

static bool match_segments(const search *s, const rt_record *r, size_t *matched)
{
    unsigned flags = r->profile->flags;
    bool slash = r->source_len && r->source[r->source_len - 1] == '/';
    bool is_prefix = r->profile->kind == REDIRECT_PREFIX;
    size_t end, rest;

    if (!skip_source(s, r, r->source_len - slash, &end))
        return false;
    for (rest = end; rest < s->len && s->path[rest] == '/'; rest++)
        continue;
    *matched = is_prefix && !slash ? end : rest;
    if (rest < s->len && (!is_prefix || rest == end))
        return false;
    return flags & REDIRECT_ANY_SLASH || (slash ? rest > end : is_prefix || rest == end);
}

static bool match_literal(const search *s, const rt_record *r)
{
    size_t len = r->source_len;

    return (s->len == len || (s->len == len + 1 && s->path[len] == '\n')) &&
           rt_equal(r->source, s->path, len, r->profile->flags & REDIRECT_ICASE);
}

static bool begins(const search *s, const rt_record *r)
{
    return s->len >= r->source_len &&
           rt_equal(r->source, s->path, r->source_len, r->profile->flags & REDIRECT_ICASE);
}

static bool match_template(const search *s, const rt_record *r)
{
    size_t len;
    const char *pattern = rt_text(s->table, RT_PATTERNS, r->pattern, &len);

    return rt_template_match(pattern, len, r->profile->flags, s->path, s->len, NULL, 0,
                             s->request->steps);
}

static bool match_source(const search *s, const rt_record *r, size_t *matched)
{
    *matched = s->len;
    switch (r->profile->kind) {
    case REDIRECT_EXACT:
    case REDIRECT_PREFIX:
        return match_segments(s, r, matched);
    case REDIRECT_LITERAL:
        return match_literal(s, r);
    default:
        break;
    }
    if (!(r->profile->flags & REDIRECT_FLOATING))
        return begins(s, r) && (r->profile->kind != REDIRECT_TEMPLATE || match_template(s, r));
    return rt_contains(s->path, s->len, r->source, r->source_len,
                       r->profile->flags & REDIRECT_ICASE);
}

static bool match_query(const search *s, const rt_record *r)
{
    const redirect_request *request = s->request;
    const char *query = request->query ? request->query : "", *strip = NULL;
    size_t len = request->query ? request->query_len : 0, strip_len = 0;

    if (!(r->profile->has & REDIRECT_HAS_QUERY))
        return true;
    if (r->profile->flags & REDIRECT_QUERY_EXACT)
        return r->query_len == len && !memcmp(r->query, query, len);
    if (r->profile->strip)
        strip = rt_text(s->table, RT_STRIPS, r->profile->strip, &strip_len);
    return rt_query_equal(r->query, r->query_len, query, len, strip, strip_len);
}

/* Keep a pattern, or a rule for which conditions tell, for later: the lowest MAX_WAITING of those not
 * tried yet, ascending. */
static void wait_with(search *s, uint32_t place)
{
    unsigned i = s->nwaiting;

    while (i && s->waiting[i - 1].place > place)
        i--;
    if (place < s->patterns_from || (i && s->waiting[i - 1].place == place))
        return;
    if (s->nwaiting == MAX_WAITING) {
        s->left_out = true;
        if (i == MAX_WAITING)
            return;
        s->nwaiting--;
    }
    memmove(&s->waiting[i + 1], &s->waiting[i], (s->nwaiting - i) * sizeof(s->waiting[0]));
    s->waiting[i] = (waiting){place, s->posting};
    s->nwaiting++;
}

/* Have templates taken what they may? */
static inline bool is_spent(const search *s)
{
    return s->request->steps && !*s->request->steps;
}

static void try_rule(search *s, uint32_t place)
{
    const redirect_profile *profile;
    size_t matched;
    rt_record r;

    if (place < s->from || place >= s->best)
        return;
    /* its end may be in other lines of memory, which are fetched meanwhile */
    __builtin_prefetch(s->table->image + place + 64);
    __builtin_prefetch(s->table->image + place + 128);
    if (!rt_take(s->table, place, &r))
        return;
    profile = r.profile;
    if (r.host != s->host ||
        profile->flags & (s->request->https ? REDIRECT_HTTP : REDIRECT_HTTPS) ||
        !match_source(s, &r, &matched) || !match_query(s, &r))
        return;
    if (profile->kind == REDIRECT_PATTERN || r.condition || s->posting) {
        if ((profile->kind != REDIRECT_PATTERN || s->request->regex) &&
            (!r.condition || s->request->judge))
            wait_with(s, place);
    } else {
        s->best = place;
        s->matched = matched;
    }
}

/* --- the index ------------------------------------------------------------------------------- */

/* The first of n ascending places that is not below `least`. */
static uint32_t lower_bound(const uint32_t *places, uint32_t n, uint32_t least)
{
    uint32_t low = 0;

    while (n) {
        uint32_t half = n / 2;

        if (places[low + half] < least) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* The rules of one key. What lies in front of patterns_from was tried in an earlier walk; what lies
 * behind all waiting patterns, when there is no room for more, is left to the next, so that several
 * walks over many patterns do not read all of them each time. */
static void try_posting(search *s, uint32_t place)
{
    uint32_t least = s->patterns_from > s->from ? s->patterns_from : s->from, n;
    bool conditioned;
    const uint32_t *places = rt_posting(s->table, place, &n, &conditioned);
    uint32_t first = lower_bound(places, n, least), i = first;

    if (conditioned)
        s->posting = place;

    for (; i < n; i++) {
        uint32_t rule = places[i];

        RT_OPAQUE(rule);
        if (rule >= s->best || is_spent(s))
            break;
        if (s->nwaiting == MAX_WAITING && rule > s->waiting[MAX_WAITING - 1].place) {
            s->left_out = true;
            break;
        }
        try_rule(s, rule);
    }
    s->posting = 0;
    if (s->request->compared)
        *s->request->compared += i - first;
}

/* Try all rules of a key, and perhaps some of others. */
static void probe(search *s, uint64_t key)
{
    const redirect_table *t = s->table;
    uint32_t number = rt_bucket_of(key, t->nbuckets);
    const rt_bucket *bucket = &t->buckets[number];
    uint64_t bits = rt_filter_bits(key);

    if (t->edited && rt_is_edited(t, key)) {
        s->edited = true;
        return;
    }
    __builtin_prefetch(bucket);
    if ((t->filter[rt_filter_word(key, t->nfilter)] & bits) != bits)
        return;
    for (unsigned reach = bucket->reach;; reach--) {
        for (unsigned hits = rt_tagged(bucket, rt_tag(key)); hits; hits &= hits - 1) {
            uint32_t place = bucket->place[__builtin_ctz(hits)];

            RT_OPAQUE(place);
            if (place < t->records_end)
                try_rule(s, place);
            else
                try_posting(s, place);
        }
        if (!reach)
            break;
        number = number + 1 < t->nbuckets ? number + 1 : 0;
        bucket = &t->buckets[number];
    }
}

/* Which lengths of partial segments there are in front of this key's chain. */
static uint64_t node_lengths(const redirect_table *t, uint64_t key)
{
    const rt_span *span = &t->head.section[RT_NODES];
    const rt_node *nodes = (const rt_node *)(t->image + span->at);
    uint64_t bits = rt_filter_bits(key);
    uint32_t i = span->count ? rt_bucket_of(key, span->count) : 0;

    if ((t->filter[rt_filter_word(key, t->nfilter)] & bits) != bits)
        return 0;
    for (uint32_t steps = 0; steps < span->count && nodes[i].lengths; steps++) {
        if (nodes[i].key == key)
            return nodes[i].lengths; /* any bits will do */
        i = i + 1 < span->count ? i + 1 : 0;
    }
    return 0;
}

/* --- the walk over the path ------------------------------------------------------------------ */

static inline uint64_t chain_of(const chains *c, const context *in)
{
    return in->space->icase ? c->folded : c->plain;
}

static inline void chain_on(const search *s, chains *c, const char *segment, size_t len)
{
    uint64_t seed = s->table->seed;

    if (s->any_plain)
        c->plain = rt_chain_next(c->plain, rt_hash(seed, segment, len, false));
    if (s->any_icase)
        c->folded = rt_chain_next(c->folded, rt_hash(seed, segment, len, true));
}

/* The hash of all segments so far, which the first `at` bytes of the path are. */
static uint64_t hash_to(search *s, const context *in, size_t at)
{
    return rt_hash_to(in->space->icase ? &s->folded : &s->plain, at, s->clean);
}

/* The rules of these segments. */
static void try_segments(search *s, size_t at, uint64_t depth, unsigned has)
{
    for (unsigned i = 0; i < s->ncontexts; i++) {
        const context *in = &s->contexts[i];

        if (!(in->space->prefix_depths & depth) && !(in->space->has & has))
            continue;
        s->host = in->host;
        probe(s, rt_segments_key(hash_to(s, in, at), in->salt));
    }
}

/* The EXACT rules of the path, whose segments these are. */
static void try_whole(search *s, size_t at)
{
    for (unsigned i = 0; i < s->ncontexts; i++) {
        const context *in = &s->contexts[i];

        if (!(in->space->has & RT_WHOLE))
            continue;
        s->host = in->host;
        probe(s, rt_whole_key(hash_to(s, in, at), in->salt));
    }
}

/* The rules of all segments so far and a part of the next, which may be empty. */
static void try_partial(search *s, const context *in, uint64_t chain, const char *segment,
                        size_t len)
{
    uint64_t lengths = node_lengths(s->table, rt_key(chain, in->salt, RT_KEY_NODE));

    if (len < RT_PARTIAL_MAX)
        lengths &= (UINT64_C(2) << len) - 1;
    s->host = in->host;
    for (; lengths; lengths &= lengths - 1) {
        size_t n = (size_t)__builtin_ctzll(lengths);
        uint64_t hash = rt_hash(s->table->seed, segment, n, in->space->icase);

        probe(s, rt_key(rt_chain_next(chain, hash), in->salt, RT_KEY_PARTIAL));
    }
}

static void try_partials(search *s, const chains *c, uint64_t depth, unsigned has,
                         const char *segment, size_t len)
{
    for (unsigned i = 0; i < s->ncontexts; i++) {
        const context *in = &s->contexts[i];

        if (in->space->partial_depths & depth || in->space->has & has)
            try_partial(s, in, chain_of(c, in), segment, len);
    }
}

/* LITERALs match a newline that is not theirs. In front of the path's last segment, which ends in
 * it, are `at` bytes. */
static void try_without_newline(search *s, size_t at, size_t segment_len)
{
    try_segments(s, segment_len > 1 ? s->len - 1 : at, 0, RT_LITERAL);
}

/* Rules whose key has no slash in it: the partial segment is what is in front of the first. */
static void try_no_slash(search *s)
{
    uint64_t chain = rt_chain_no_slash(s->table->seed);
    chains c = {chain, chain};

    if (s->has & RT_NO_SLASH)
        try_partials(s, &c, 0, RT_NO_SLASH, s->path, rt_segment_end(s->path, 0, s->len));
}

/* A place between segments: the path's first `at` bytes are `depth` segments, the next one is from
 * `next` to `end`. */
typedef struct boundary {
    size_t at, next, end, depth;
} boundary;

static void try_boundary(search *s, const chains *c, const boundary *b)
{
    const char *segment = s->path + b->next;
    size_t len = b->end - b->next;
    uint64_t bit = rt_depth(b->depth);
    bool last = b->next == s->len, rooted = !s->len || s->path[0] == '/';

    if ((b->depth || rooted) && (s->prefix_depths & bit || (last && s->has & RT_LITERAL)))
        try_segments(s, b->at, bit, last ? RT_LITERAL : 0);
    if (last && s->has & RT_WHOLE)
        try_whole(s, b->at);
    if (b->next > b->at && s->partial_depths & bit)
        try_partials(s, c, bit, 0, segment, len);
    if (len && b->end == s->len && s->has & RT_LITERAL && segment[len - 1] == '\n')
        try_without_newline(s, b->at, len);
}

static void walk_segments(search *s)
{
    const char *path = s->path;
    size_t len = s->len;
    bool rooted = !len || path[0] == '/', clean = true;
    uint64_t root = rooted ? rt_chain_root(s->table->seed) : rt_chain_no_slash(s->table->seed);
    uint64_t depths = s->prefix_depths | s->partial_depths;
    bool whole = s->has & (RT_WHOLE | RT_LITERAL);
    chains c = {root, root};
    boundary b = {0};

    rt_hasher_start(&s->plain, &s->table->secret, path, false);
    rt_hasher_start(&s->folded, &s->table->secret, path, true);
    for (;; b.depth++) {
        uint64_t bit = rt_depth(b.depth);

        b.next = rt_slashes_end(path, b.at, len);
        b.end = rt_segment_end(path, b.next, len);
        if (clean)
            s->clean = b.at;
        if (depths & bit || b.end == len)
            try_boundary(s, &c, &b);
        if (b.next == len || (!whole && b.depth < 63 && depths < 2 * bit))
            break;
        if (s->partial_depths)
            chain_on(s, &c, path + b.next, b.end - b.next);
        clean = clean && b.next - b.at <= 1;
        b.at = b.end;
    }
}

/* Patterns that are found by n bytes anywhere in the path. */
static void try_windows(search *s, const context *in, unsigned n, uint64_t what)
{
    for (size_t at = 0; at + n <= s->len; at++) {
        uint64_t window = rt_window(s->path + at, n, in->space->icase);

        probe(s, rt_key(rt_mix(window ^ s->table->seed, RT_K1), in->salt, what));
    }
}

static void walk_floating(search *s)
{
    if (!(s->has & (RT_FLOAT_4 | RT_FLOAT_8 | RT_FLOAT_ALL)))
        return;
    for (unsigned i = 0; i < s->ncontexts; i++) {
        const context *in = &s->contexts[i];

        s->host = in->host;
        if (in->space->has & RT_FLOAT_ALL)
            probe(s, rt_key(0, in->salt, RT_KEY_ALL));
        if (in->space->has & RT_FLOAT_4)
            try_windows(s, in, 4, RT_KEY_FLOAT_4);
        if (in->space->has & RT_FLOAT_8)
            try_windows(s, in, 8, RT_KEY_FLOAT_8);
    }
}

/* A segment of the path, from `at` to `end`, for one way of comparing letters. */
static void try_fixed(search *s, const context *in, size_t at, size_t end, size_t front,
                      size_t back)
{
    bool ahead = front < RT_SEGMENT_SLASHES && in->space->front >> front & 1;
    bool behind = back < RT_SEGMENT_SLASHES && in->space->back >> back & 1;
    uint64_t hash;

    if ((!ahead && !behind) || end - at > RT_SEGMENT_MAX)
        return;
    s->host = in->host;
    hash = rt_hash(s->table->seed, s->path + at, end - at, in->space->icase);
    if (ahead)
        probe(s, rt_fixed_key(hash, (unsigned)front, false, in->salt));
    if (behind)
        probe(s, rt_fixed_key(hash, (unsigned)back, true, in->salt));
}

/* Templates that are found by a whole segment. */
static void walk_fixed(search *s)
{
    size_t slashes = 0, all = 0;

    if (!(s->has & RT_SEGMENT))
        return;
    for (size_t i = 0; i < s->len; i++)
        all += s->path[i] == '/';
    for (size_t at = 0; at <= s->len; slashes++) {
        size_t end = rt_segment_end(s->path, at, s->len);

        for (unsigned i = 0; end > at && i < s->ncontexts; i++) {
            if (s->contexts[i].space->has & RT_SEGMENT)
                try_fixed(s, &s->contexts[i], at, end, slashes, all - slashes);
        }
        at = end + 1;
    }
}

/* --- the request's contexts ------------------------------------------------------------------ */

static void find_hosts(search *s)
{
    const redirect_request *request = s->request;
    const redirect_table *t = s->table;
    const char *host = request->host;
    unsigned dots = 0;

    s->nhosts = 1;
    s->hosts[0] = 0;
    if (!host || !t->head.uses_host)
        return;
    if (request->host_len <= REDIRECT_MAX_HOST)
        s->hosts[0] = rt_host_number(t, host, request->host_len, false);
    for (size_t at = request->host_len; at-- > 1 && request->host_len - at < REDIRECT_MAX_HOST;) {
        uint32_t number;

        if (host[at] != '.')
            continue;
        dots++;
        if (!(t->head.wild_dots[dots / 64] >> (dots % 64) & 1))
            continue;
        number = rt_host_number(t, host + at, request->host_len - at, true);
        if (number)
            s->hosts[s->nhosts++] = number;
    }
}

static uint64_t query_hash(const search *s, const rt_space *space)
{
    const redirect_request *request = s->request;
    const redirect_table *t = s->table;
    const char *query = request->query ? request->query : "", *strip = NULL;
    size_t len = request->query ? request->query_len : 0, strip_len = 0;

    if (space->query == RT_QUERY_ANY)
        return 0;
    if (space->query == RT_QUERY_WHOLE)
        return rt_hash(t->seed, query, len, false);
    if (space->strip)
        strip = rt_text(t, RT_STRIPS, space->strip, &strip_len);
    return rt_query_hash(t->seed, query, len, strip, strip_len);
}

static void add_context(search *s, const rt_space *space, uint32_t host, uint64_t query)
{
    uint32_t number = (uint32_t)(space - s->table->spaces);

    s->contexts[s->ncontexts++] =
        (context){space, rt_salt(s->table->seed, number, host, query), host};
    s->has |= space->has;
    s->prefix_depths |= space->prefix_depths;
    s->partial_depths |= space->partial_depths;
    if (space->icase)
        s->any_icase = true;
    else
        s->any_plain = true;
}

static void clear_contexts(search *s)
{
    s->ncontexts = 0;
    s->has = 0;
    s->prefix_depths = s->partial_depths = 0;
    s->any_icase = s->any_plain = false;
}

static void walk(search *s)
{
    if (s->has & (RT_WHOLE | RT_LITERAL) || s->prefix_depths || s->partial_depths)
        walk_segments(s);
    try_no_slash(s);
    walk_floating(s);
    walk_fixed(s);
    clear_contexts(s);
}

/* Walk over the path with all contexts, as many at a time as there is room for. */
static void walk_all(search *s)
{
    for (uint32_t i = 0; i < s->table->nspaces; i++) {
        const rt_space *space = &s->table->spaces[i];
        uint64_t query;
        unsigned first = space->host == RT_HOST_BELOW, end = first ? s->nhosts : 1;

        query = space->query == RT_QUERY_ANY ? 0 : query_hash(s, space);
        for (unsigned j = first; j < end; j++) {
            uint32_t host = space->host == RT_HOST_ANY ? 0 : s->hosts[j];

            if (space->host != RT_HOST_ANY && !host)
                continue;
            if (s->ncontexts == MAX_CONTEXTS)
                walk(s);
            add_context(s, space, host, query);
        }
    }
    if (s->ncontexts)
        walk(s);
}

/* Does the pattern of a record match? */
static bool run_pattern(const search *s, const rt_record *r)
{
    const redirect_request *request = s->request;
    size_t len;

    return request->regex(request->baton, r->pattern - 1,
                          rt_text(s->table, RT_PATTERNS, r->pattern, &len),
                          r->profile->flags & REDIRECT_ICASE, s->path, s->len);
}

/* Conditions tell whether the rule answers that waits, or another one of its source. True when
 * nothing is left to do. */
static HTC_APART bool judge(search *s, const waiting *w, rt_record *r)
{
    uint32_t place = w->place;

    switch (rt_choose(s->table, s->request, w->posting, &place, r)) {
    case REDIRECT_CHOSEN:
        s->best = place;
        s->matched = s->len;
        if (r->profile->kind != REDIRECT_PATTERN)
            match_source(s, r, &s->matched);
        if (s->request->judge)
            s->request->judge->decided_at = w->place;
        return true;
    case REDIRECT_NO_ANSWER:
        s->best = NONE;
        s->request->judge->decided_at = w->place;
        return true;
    default:
        return false;
    }
}

/* Ask about the waiting rules that would come before the best one. True when nothing is left to do.
 */
static bool try_waiting(search *s)
{
    for (unsigned i = 0; i < s->nwaiting; i++) {
        const waiting *w = &s->waiting[i];
        rt_record r;

        if (w->place >= s->best)
            return true;
        if (rt_take(s->table, w->place, &r) &&
            (r.profile->kind != REDIRECT_PATTERN || (r.pattern && run_pattern(s, &r)))) {
            if (r.condition || w->posting) {
                if (judge(s, w, &r))
                    return true;
            } else {
                s->best = w->place;
                s->matched = s->len;
                return true;
            }
        }
        s->patterns_from = w->place + 1;
    }
    return !s->left_out;
}

void rt_fill(const redirect_table *t, uint32_t place, const rt_record *r, size_t matched,
             redirect_match *match)
{
    const redirect_profile *profile = r->profile;
    uint32_t own_tail = r->tail < r->source_len ? r->tail : r->source_len;
    uint32_t dir_tail = r->tail - own_tail;

    *match = (redirect_match){.rule = place, .profile = *profile, .matched = matched};
    if (profile->strip)
        match->strip = rt_text(t, RT_STRIPS, profile->strip, &match->strip_len);
    if (r->pattern) {
        match->pattern = rt_text(t, RT_PATTERNS, r->pattern, &match->pattern_len);
        match->pattern_id = r->pattern - 1;
    }
    match->part[0] = rt_text(t, RT_ORIGINS, profile->origin, &match->part_len[0]);
    if (match->part_len[0] + r->middle_len + r->tail > REDIRECT_MAX_TEXT)
        match->part_len[0] = 0;
    match->part[1] = r->middle;
    match->part_len[1] = r->middle_len;
    match->part[2] = r->dir_len ? r->dir_text + r->dir_len - dir_tail : r->source;
    match->part_len[2] = dir_tail;
    match->part[3] = r->source + r->source_len - own_tail;
    match->part_len[3] = own_tail;
    match->target_len = match->part_len[0] + r->middle_len + r->tail;
}

HTC_HOT HTC_APART bool rt_lookup_any(const redirect_table *table, const redirect_request *request,
                                     uint32_t from, redirect_match *match)
{
    search s; /* too large to be cleared for each look-up */
    rt_record r;

    s.table = table;
    s.request = request;
    s.path = request->path;
    s.len = request->path_len;
    s.from = from;
    s.best = NONE;
    s.matched = 0;
    s.clean = 0;
    s.patterns_from = 0;
    s.posting = 0;
    s.edited = false;
    if (request->judge)
        request->judge->refusals = 0;
    clear_contexts(&s);
    find_hosts(&s);
    do {
        s.nwaiting = 0;
        s.left_out = false;
        walk_all(&s);
        if (s.edited)
            return rt_say_edited(match);
    } while (!is_spent(&s) && !try_waiting(&s));
    if (s.best == NONE || is_spent(&s) || !rt_take(table, s.best, &r)) {
        match->rule = 0;
        return false;
    }
    rt_fill(table, s.best, &r, s.matched, match);
    return true;
}

HTC_HOT bool redirect_table_lookup(const redirect_table *table, const redirect_request *request,
                                   uint32_t from, redirect_match *match)
{
    return table->lookup(table, request, from, match);
}
