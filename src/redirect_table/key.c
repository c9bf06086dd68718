/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The keys under which look-ups find rules, see redirect_table/internal.h. Called by the builder.
 * Most keys are made as soon as a rule is added. A pattern that may be found by literals, too, is
 * open until all rules are known: what counts is how many others have the same beginning, or the
 * same bytes in a literal.
 */
#include "redirect_table/builder.h"
#include "redirect_table/template.h"

#define WIDE            8 /* bytes of a literal that make a key, if it has as many */
#define NARROW          4
#define WINDOWS_MAX     64 /* of a literal: the last ones */
#define FEW             4  /* patterns with the same beginning: running these costs less */
#define FIRST_SLOTS     16
#define FIRST_COUNTS    1024
#define COUNTS_FOR_EACH 64
#define COUNTS_MAX      ((size_t)1 << 20)

/* --- its key --------------------------------------------------------------------------------- */

/* True when the strip set may be a part of keys. Each such set makes look-ups hash the
 * request's query once more, so only the first ones are. */
static bool keyed_strip(redirect_builder *b, uint32_t strip)
{
    for (unsigned i = 0; i < b->nkeyed_strips; i++) {
        if (b->keyed_strips[i] == strip)
            return true;
    }
    if (b->nkeyed_strips == RT_KEYED_STRIPS)
        return false;
    b->keyed_strips[b->nkeyed_strips++] = strip;
    return true;
}

/* How the rule's query takes part in its key. */
static rt_query_mode query_mode(redirect_builder *b, const rt_record *r)
{
    const redirect_profile *profile = r->profile;

    if (!(profile->has & REDIRECT_HAS_QUERY))
        return RT_QUERY_ANY;
    if (profile->flags & REDIRECT_QUERY_EXACT)
        return RT_QUERY_WHOLE;
    return !profile->strip || keyed_strip(b, profile->strip) ? RT_QUERY_SET : RT_QUERY_ANY;
}

static uint32_t find_space(redirect_builder *b, const rt_space *like)
{
    uint32_t i;

    for (i = 0; i < b->nspaces; i++) {
        const rt_space *space = &b->spaces[i];

        if (space->icase == like->icase && space->query == like->query &&
            space->host == like->host && space->strip == like->strip)
            return i;
    }
    b->spaces[b->nspaces++] = *like;
    return i;
}

static uint64_t query_key(const redirect_builder *b, const rt_record *r, rt_query_mode mode)
{
    const char *strip = NULL;
    size_t len = 0;

    if (mode == RT_QUERY_ANY)
        return 0;
    if (mode == RT_QUERY_WHOLE)
        return rt_hash(b->seed, r->query, r->query_len, false);
    if (r->profile->strip)
        strip = rt_strings_get(&b->strips, r->profile->strip, &len);
    return rt_query_hash(b->seed, r->query, r->query_len, strip, len);
}

static rt_host_mode host_mode(const redirect_builder *b, const rt_record *r)
{
    const char *host;
    size_t len;

    if (!r->host)
        return RT_HOST_ANY;
    host = rt_strings_get(&b->hosts, r->host, &len);
    return rt_is_below(host, len) ? RT_HOST_BELOW : RT_HOST_NAME;
}

/* The rule's space, and what host and query add to its key. */
static rt_space *space_of(redirect_builder *b, const rt_record *r, bool icase, uint64_t *salt)
{
    rt_query_mode mode = query_mode(b, r);
    rt_space like = {.icase = icase,
                     .query = mode,
                     .host = host_mode(b, r),
                     .strip = mode == RT_QUERY_SET ? r->profile->strip : 0};
    uint32_t number = find_space(b, &like);

    *salt = rt_salt(b->seed, number, r->host, query_key(b, r, mode));
    return &b->spaces[number];
}

/* The chain of all segments of a source, and their number. */
static uint64_t chain_of(uint64_t seed, const char *source, size_t len, bool icase, size_t *depth)
{
    uint64_t chain = !len || source[0] == '/' ? rt_chain_root(seed) : rt_chain_no_slash(seed);
    const char *end = source + len;

    *depth = 0;
    for (;;) {
        const char *slash;

        while (source < end && *source == '/')
            source++;
        if (source == end)
            return chain;
        slash = memchr(source, '/', (size_t)(end - source));
        if (!slash)
            slash = end;
        chain = rt_chain_next(chain, rt_hash(seed, source, (size_t)(slash - source), icase));
        ++*depth;
        source = slash;
    }
}

static size_t segments_of(const char *source, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += source[i] != '/' && (!i || source[i - 1] == '/');
    return n;
}

bool rt_node_add(rt_node *nodes, uint32_t nslots, uint64_t key, uint64_t lengths)
{
    uint32_t i = rt_bucket_of(key, nslots);
    bool fresh;

    while (nodes[i].lengths && nodes[i].key != key)
        i = i + 1 < nslots ? i + 1 : 0;
    fresh = !nodes[i].lengths;
    nodes[i].key = key;
    nodes[i].lengths |= lengths;
    return fresh;
}

static bool grow_nodes(redirect_builder *b)
{
    const rt_node *old = (const rt_node *)(const void *)b->nodes.bytes;
    uint32_t nslots = b->nnode_slots ? b->nnode_slots * 2 : FIRST_SLOTS;
    rt_buffer nodes = {0};

    if (!rt_reserve(&nodes, nslots * sizeof(rt_node)))
        return false;
    for (uint32_t i = 0; i < b->nnode_slots; i++) {
        if (old[i].lengths)
            rt_node_add((rt_node *)(void *)nodes.bytes, nslots, old[i].key, old[i].lengths);
    }
    rt_release(&b->nodes);
    b->nodes = nodes;
    b->nnode_slots = nslots;
    return true;
}

/* Keyed by the segments that a slash follows, and what is behind the last slash. */
static bool partial_key(redirect_builder *b, const rt_record *r, rt_space *space, uint64_t salt,
                        uint64_t *key)
{
    const char *source = r->source;
    size_t len = r->source_len, depth;
    const char *slash = memrchr(source, '/', len);
    size_t front = slash ? (size_t)(slash - source) + 1 : 0;
    uint64_t chain = rt_chain_no_slash(b->seed), hash;
    unsigned n = rt_partial(len - front);

    if (slash) {
        chain = chain_of(b->seed, source, front, space->icase, &depth);
        space->partial_depths |= rt_depth(depth);
    } else {
        space->has |= RT_NO_SLASH;
    }
    if (b->nnodes * 2 >= b->nnode_slots && !grow_nodes(b))
        return false;
    b->nnodes += rt_node_add((rt_node *)(void *)b->nodes.bytes, b->nnode_slots,
                             rt_key(chain, salt, RT_KEY_NODE), UINT64_C(1) << n);
    hash = rt_hash(b->seed, source + front, n, space->icase);
    *key = rt_key(rt_chain_next(chain, hash), salt, RT_KEY_PARTIAL);
    return true;
}

/* EXACT and PREFIX have no runs of slashes any more. */
static uint64_t source_hash(const redirect_builder *b, const rt_record *r, bool icase)
{
    size_t len = r->source_len;

    if (icase || r->profile->kind == REDIRECT_LITERAL)
        return rt_hash_path(&b->secret, r->source, len, icase);
    return rt_hash_clean(&b->secret, r->source, len - (len && r->source[len - 1] == '/'));
}

bool rt_key_make(redirect_builder *b, const rt_record *r, uint64_t *key)
{
    redirect_kind kind = r->profile->kind;
    uint64_t salt, hash;
    rt_space *space = space_of(b, r, r->profile->flags & REDIRECT_ICASE, &salt);

    if (r->profile->flags & REDIRECT_FLOATING) {
        *key = rt_key(0, salt, RT_KEY_ALL);
        space->has |= RT_FLOAT_ALL;
        return true;
    }
    if (kind == REDIRECT_LITERAL_PREFIX || redirect_kind_has_pattern(kind))
        return partial_key(b, r, space, salt, key);
    hash = source_hash(b, r, space->icase);
    if (kind == REDIRECT_EXACT) {
        *key = rt_whole_key(hash, salt);
        space->has |= RT_WHOLE;
        return true;
    }
    *key = rt_segments_key(hash, salt);
    if (kind == REDIRECT_PREFIX)
        space->prefix_depths |= rt_depth(segments_of(r->source, r->source_len));
    else
        space->has |= RT_LITERAL;
    return true;
}

/* --- keys that are chosen when all rules are known -------------------------------------------- */

bool rt_key_is_open(const redirect_rule *rule)
{
    return rule->kind == REDIRECT_TEMPLATE ||
           (rule->kind == REDIRECT_PATTERN &&
            (rule->literals || (rule->flags & REDIRECT_FLOATING && rule->source_len >= NARROW)));
}

bool rt_key_later(redirect_builder *b, const redirect_rule *rule)
{
    rt_open open = {b->rules, rule->literals ? (uint32_t)rule->literals_len : 0};

    return rt_append(&b->literals, rule->literals, open.literals_len) &&
           rt_append(&b->open, &open, sizeof(open));
}

/* How many rules have something, by a hash of it. Of things that have a place in common the sum. */
typedef struct counts {
    uint32_t *at;
    uint32_t mask;
} counts;

/* The bytes of a literal that a rule is to be found by, or a segment of a template. */
typedef struct window {
    const char *at; /* NULL: none */
    unsigned n;
    bool icase;
    bool fixed; /* a segment: */
    bool back;
    unsigned slashes;
    uint64_t hash;
    uint32_t count; /* of rules that have them, too */
} window;

static uint32_t *count_of(const counts *c, uint64_t hash)
{
    return &c->at[rt_mix(hash, RT_K3) & c->mask];
}

/* Count the bytes at each place of the literal or, with @a rarest, find those that fewest have; of
 * several the last. */
static void see_literal(const counts *c, uint64_t salt, const char *text, size_t len, bool icase,
                        window *rarest)
{
    unsigned n = len >= WIDE ? WIDE : NARROW;
    size_t at = len > WINDOWS_MAX + n ? len - n - WINDOWS_MAX : 0;

    for (; at + n <= len; at++) {
        uint64_t hash = rt_mix(rt_window(text + at, n, icase) ^ salt, RT_K1 + n + icase);
        uint32_t *count = count_of(c, hash);

        if (!rarest)
            ++*count;
        else if (*count <= rarest->count)
            *rarest = (window){.at = text + at, .n = n, .icase = icase, .count = *count};
    }
}

/* An open rule with what its literals and its beginning are counted by. */
typedef struct opened {
    rt_record record;
    uint64_t salt;
    const char *literals;
    size_t literals_len;
} opened;

/* The rule number i of those that are open. *at is where its literals are, and moved behind them. */
static opened open_at(redirect_builder *b, size_t i, size_t *at)
{
    const rt_open *open = (const rt_open *)(const void *)b->open.bytes + i;
    opened o = {.literals_len = open->literals_len};
    rt_query_mode mode;

    rt_builder_record(b, open->number, &o.record);
    mode = query_mode(b, &o.record);
    o.salt = rt_salt(b->seed, mode, o.record.host, query_key(b, &o.record, mode));
    o.literals = o.literals_len ? b->literals.bytes + *at : "";
    *at += o.literals_len;
    return o;
}

/* How many patterns have the same beginning. */
static uint32_t *same_beginning(const counts *c, const redirect_builder *b, const opened *o)
{
    return count_of(c, rt_hash(b->seed, o->record.source, o->record.source_len, false) ^ o->salt);
}

static void see_literals(const counts *c, const opened *o, window *rarest)
{
    const rt_record *r = &o->record;

    if (r->profile->flags & REDIRECT_FLOATING)
        see_literal(c, o->salt, r->source, r->source_len, r->profile->flags & REDIRECT_ICASE,
                    rarest);
    for (size_t at = 0, n; at < o->literals_len; at += n + 1) {
        n = strnlen(o->literals + at, o->literals_len - at);
        see_literal(c, o->salt, o->literals + at, n, true, rarest);
    }
}

/* A template whose segments are counted. */
typedef struct fixed_walk {
    const counts *c;
    const redirect_builder *b;
    uint64_t salt;
    bool icase;
    window *rarest; /* NULL: they are counted */
} fixed_walk;

/* One by which a look-up finds as few is better than bytes: these are asked for at each place. */
static void see_segment(void *baton, bool back, unsigned slashes, const char *text, size_t len)
{
    const fixed_walk *w = baton;
    uint64_t hash = rt_hash(w->b->seed, text, len, w->icase);
    uint32_t *count = count_of(w->c, rt_fixed_key(hash, slashes, back, w->salt));

    if (!w->rarest)
        ++*count;
    else if (*count < w->rarest->count || (*count == w->rarest->count && !w->rarest->fixed))
        *w->rarest = (window){.at = "",
                              .icase = w->icase,
                              .fixed = true,
                              .back = back,
                              .slashes = slashes,
                              .hash = hash,
                              .count = *count};
}

static void see_segments(const counts *c, const redirect_builder *b, const opened *o,
                         window *rarest)
{
    fixed_walk w = {c, b, o->salt, o->record.profile->flags & REDIRECT_ICASE, rarest};
    const char *pattern;
    size_t len;

    if (o->record.profile->kind != REDIRECT_TEMPLATE)
        return;
    pattern = rt_strings_get(&b->patterns, o->record.pattern, &len);
    rt_template_segments(pattern, len, see_segment, &w);
}

static uint64_t fixed_key(rt_space *space, const window *w, uint64_t salt)
{
    space->has |= RT_SEGMENT;
    if (w->back)
        space->back |= UINT64_C(1) << w->slashes;
    else
        space->front |= UINT64_C(1) << w->slashes;
    return rt_fixed_key(w->hash, w->slashes, w->back, salt);
}

/* By the rarest bytes of a literal, or segment, unless few enough are found by the beginning. */
static bool choose_key(redirect_builder *b, const counts *c, const opened *o, uint64_t *key)
{
    bool floating = o->record.profile->flags & REDIRECT_FLOATING;
    uint32_t same = floating ? UINT32_MAX : *same_beginning(c, b, o);
    window rarest = {.count = UINT32_MAX};
    rt_space *space;
    uint64_t salt, bytes;

    if (same > FEW) {
        see_literals(c, o, &rarest);
        see_segments(c, b, o, &rarest);
    }
    if (!rarest.at || rarest.count >= same)
        return rt_key_make(b, &o->record, key);
    space = space_of(b, &o->record, rarest.icase, &salt);
    if (rarest.fixed) {
        *key = fixed_key(space, &rarest, salt);
        return true;
    }
    space->has |= rarest.n == WIDE ? RT_FLOAT_8 : RT_FLOAT_4;
    bytes = rt_window(rarest.at, rarest.n, rarest.icase);
    *key = rt_key(rt_mix(bytes ^ b->seed, RT_K1), salt,
                  rarest.n == WIDE ? RT_KEY_FLOAT_8 : RT_KEY_FLOAT_4);
    return true;
}

static bool make_counts(redirect_builder *b, size_t n, rt_buffer *buffer, counts *c)
{
    size_t slots = FIRST_COUNTS;

    while (slots < n * COUNTS_FOR_EACH && slots < COUNTS_MAX)
        slots *= 2;
    if (!rt_reserve(buffer, slots * sizeof(uint32_t)))
        return false;
    *c = (counts){(uint32_t *)(void *)buffer->bytes, (uint32_t)slots - 1};
    for (size_t i = 0, at = 0; i < n; i++) {
        opened o = open_at(b, i, &at);

        ++*same_beginning(c, b, &o);
        see_literals(c, &o, NULL);
        see_segments(c, b, &o, NULL);
    }
    return true;
}

bool rt_key_choose(redirect_builder *b)
{
    const rt_open *open = (const rt_open *)(const void *)b->open.bytes;
    size_t n = b->open.len / sizeof(*open);
    rt_buffer buffer = {0};
    counts c;
    bool good = !n || make_counts(b, n, &buffer, &c);

    for (size_t i = 0, at = 0; good && i < n; i++) {
        opened o = open_at(b, i, &at);

        good = choose_key(b, &c, &o, &rt_entries(b)[open[i].number].key);
    }
    rt_release(&buffer);
    rt_release(&b->open);
    rt_release(&b->literals);
    return good;
}
