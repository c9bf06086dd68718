/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The first half of building a redirect table: each rule is checked, appended to the image as a
 * record, and given the key under which look-ups will find it. Called by all who compile rules;
 * redirect_table/index.c then makes the index and the rest of the image.
 */
#include "redirect_table/builder.h"

#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define ALL_FLAGS                                                                     \
    (REDIRECT_ICASE | REDIRECT_ANY_SLASH | REDIRECT_FLOATING | REDIRECT_QUERY_EXACT | \
     REDIRECT_HTTP | REDIRECT_HTTPS)
#define MAX_ORIGINS    16000 /* more would make the profile's number longer than two bytes */
#define MAX_ORIGIN_LEN 255
#define MAX_SCHEME_LEN 16
#define FIRST_SLOTS    16
#define BYTES_PER_RULE \
    16 /* of the index, at most, and a little more; marks are 1/85 of records \
        */
#define BYTES_PER_NODE 64
#define BYTES_PER_NAME 16

/* A rule on its way into the image. */
typedef struct draft {
    const redirect_rule *rule;
    rt_record record;
    redirect_profile profile;
    size_t origin_len;
} draft;

/* --- creation -------------------------------------------------------------------------------- */

/* Only against those who would choose sources that collide. */
static uint64_t random_seed(void)
{
    struct timespec now;
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed))
        return seed;
    clock_gettime(CLOCK_REALTIME, &now);
    return rt_mix((uint64_t)now.tv_nsec ^ RT_K1, (uint64_t)now.tv_sec ^ RT_K2);
}

redirect_builder *redirect_builder_create(size_t expected, size_t bytes)
{
    redirect_builder *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    rt_builder_seed(b, random_seed());
    if (bytes > REDIRECT_MAX_IMAGE)
        bytes = REDIRECT_MAX_IMAGE;
    if (expected > REDIRECT_MAX_IMAGE / BYTES_PER_RULE)
        expected = REDIRECT_MAX_IMAGE / BYTES_PER_RULE;
    if (!rt_reserve(&b->image, sizeof(rt_header) + bytes + expected * BYTES_PER_RULE) ||
        !rt_reserve(&b->entries, expected * sizeof(rt_entry))) {
        redirect_builder_destroy(b);
        return NULL;
    }
    b->image.len = sizeof(rt_header);
    return b;
}

void rt_builder_seed(redirect_builder *builder, uint64_t seed)
{
    builder->seed = seed;
    builder->secret = rt_secret_of(seed);
}

void redirect_builder_destroy(redirect_builder *builder)
{
    if (!builder)
        return;
    rt_release(&builder->image);
    rt_release(&builder->entries);
    rt_release(&builder->profiles);
    rt_release(&builder->profile_slots);
    rt_release(&builder->nodes);
    rt_release(&builder->marks);
    rt_strings_release(&builder->hosts);
    rt_strings_release(&builder->strips);
    rt_strings_release(&builder->origins);
    rt_strings_release(&builder->patterns);
    free(builder);
}

/* --- is it a rule ---------------------------------------------------------------------------- */

/* A string that may be missing; `with_nul` when it may have NULs in it. */
static bool text_ok(const char *text, size_t len, bool with_nul)
{
    return !text || (len <= REDIRECT_MAX_TEXT && (with_nul || !memchr(text, 0, len)));
}

static bool flags_ok(const redirect_rule *rule)
{
    unsigned flags = rule->flags;
    bool segments = rule->kind == REDIRECT_EXACT || rule->kind == REDIRECT_PREFIX;

    return !(flags & ~(unsigned)ALL_FLAGS) && !(flags & REDIRECT_HTTP && flags & REDIRECT_HTTPS) &&
           !(flags & REDIRECT_ANY_SLASH && !segments) &&
           !(flags & REDIRECT_FLOATING && rule->kind != REDIRECT_PATTERN) &&
           !(flags & REDIRECT_QUERY_EXACT && !rule->query);
}

static bool is_below(const char *host, size_t len)
{
    return len >= 2 && host[0] == '*' && host[1] == '.';
}

static bool host_ok(const char *host, size_t len)
{
    return !host || (len && len <= REDIRECT_MAX_HOST && !(is_below(host, len) && len == 2));
}

static bool rule_ok(const redirect_rule *rule)
{
    return rule->kind >= REDIRECT_EXACT && rule->kind <= REDIRECT_PATTERN && flags_ok(rule) &&
           rule->source && (rule->kind != REDIRECT_PATTERN || rule->pattern) &&
           text_ok(rule->source, rule->source_len, true) &&
           text_ok(rule->pattern, rule->pattern_len, false) &&
           text_ok(rule->query, rule->query_len, true) &&
           text_ok(rule->strip, rule->strip_len, false) &&
           text_ok(rule->target, rule->target_len, true) && host_ok(rule->host, rule->host_len) &&
           rule->status >= 100 && rule->status <= 999 && rule->options <= UINT16_MAX;
}

/* --- its strings ----------------------------------------------------------------------------- */

/* EXACT and PREFIX do not tell runs of slashes apart, so a run is kept as one. */
static void set_source(redirect_builder *b, draft *d)
{
    const char *source = d->rule->source;
    size_t len = d->rule->source_len, kept = 0;

    d->record.source = source;
    d->record.source_len = (uint32_t)len;
    if (d->rule->kind > REDIRECT_PREFIX || !memmem(source, len, "//", 2))
        return;
    for (size_t i = 0; i < len; i++) {
        if (source[i] != '/' || !i || source[i - 1] != '/')
            b->source[kept++] = source[i];
    }
    d->record.source = b->source;
    d->record.source_len = (uint32_t)kept;
}

static bool set_names(redirect_builder *b, draft *d)
{
    const redirect_rule *rule = d->rule;

    if (rule->host) {
        d->record.host = rt_strings_number(&b->hosts, b->seed, rule->host, rule->host_len, 0);
        if (!d->record.host)
            return false;
        d->profile.has |= RT_HOST;
    }
    if (rule->pattern) {
        d->record.pattern = rt_strings_number(&b->patterns, b->seed, rule->pattern,
                                              rule->pattern_len, rule->flags & REDIRECT_ICASE);
        if (!d->record.pattern)
            return false;
        d->profile.has |= RT_PATTERN;
    }
    if (rule->strip) {
        d->profile.strip = rt_strings_number(&b->strips, b->seed, rule->strip, rule->strip_len, 0);
        if (!d->profile.strip)
            return false;
    }
    if (rule->query) {
        d->record.query = rule->query;
        d->record.query_len = (uint32_t)rule->query_len;
        d->profile.has |= REDIRECT_HAS_QUERY;
    }
    return true;
}

/* Bytes of "scheme://host" that the target begins with, 0 when it does not. */
static size_t origin_length(const char *target, size_t len)
{
    const char *colon = memmem(target, len < MAX_SCHEME_LEN ? len : MAX_SCHEME_LEN, "://", 3);
    const char *slash;
    size_t origin;

    if (!colon)
        return 0;
    origin = (size_t)(colon - target) + 3;
    slash = memchr(target + origin, '/', len - origin);
    if (slash)
        len = (size_t)(slash - target);
    return len <= MAX_ORIGIN_LEN ? len : 0;
}

/* True when the last origin is also this target's. Most targets are of few sites. */
static bool same_origin(const redirect_builder *b, const char *target, size_t len, size_t *origin)
{
    const char *last;

    if (!b->last_origin)
        return false;
    last = rt_strings_get(&b->origins, b->last_origin, origin);
    return len >= *origin && (len == *origin || target[*origin] == '/') &&
           !memcmp(target, last, *origin);
}

static bool set_origin(redirect_builder *b, draft *d)
{
    const char *target = d->rule->target;
    size_t len = d->rule->target_len, origin;

    if (!same_origin(b, target, len, &origin)) {
        uint32_t number;

        origin = origin_length(target, len);
        if (!origin)
            return true;
        if (b->origins.count < MAX_ORIGINS) {
            number = rt_strings_number(&b->origins, b->seed, target, origin, 0);
            if (!number)
                return false;
        } else {
            number = rt_strings_find(&b->origins, b->seed, target, origin, 0);
            if (!number)
                return true;
        }
        b->last_origin = number;
    }
    d->profile.origin = b->last_origin;
    d->origin_len = origin;
    return true;
}

/* Bytes that both texts end with, at most `most`. */
static size_t common_tail(const char *a_end, const char *b_end, size_t most)
{
    size_t n = 0;
    uint64_t a, b;

    while (n + 8 <= most) {
        memcpy(&a, a_end - n - 8, 8);
        memcpy(&b, b_end - n - 8, 8);
        if (a != b)
            break;
        n += 8;
    }
    while (n < most && a_end[-1 - (ptrdiff_t)n] == b_end[-1 - (ptrdiff_t)n])
        n++;
    return n;
}

static bool set_target(redirect_builder *b, draft *d)
{
    const redirect_rule *rule = d->rule;
    rt_record *r = &d->record;
    size_t own, tail; /* what is behind the origin; the end of that which the source has, too */

    if (!rule->target)
        return true;
    if (!set_origin(b, d))
        return false;
    own = rule->target_len - d->origin_len;
    tail = own < r->source_len ? own : r->source_len;
    tail = common_tail(rule->target + rule->target_len, r->source + r->source_len, tail);
    d->profile.has |= REDIRECT_HAS_TARGET;
    r->tail = (uint32_t)tail;
    r->middle = rule->target + d->origin_len;
    r->middle_len = (uint32_t)own - r->tail;
    return true;
}

/* --- its profile ----------------------------------------------------------------------------- */

static uint32_t *profile_slot(const redirect_builder *b, const redirect_profile *profile)
{
    const redirect_profile *profiles = (const redirect_profile *)(const void *)b->profiles.bytes;
    uint32_t *slots = (uint32_t *)(void *)b->profile_slots.bytes;
    uint32_t i = (uint32_t)XXH3_64bits(profile, sizeof(*profile));

    for (;; i++) {
        uint32_t *slot = &slots[i & (b->nprofile_slots - 1)];

        if (!*slot || !memcmp(&profiles[*slot - 1], profile, sizeof(*profile)))
            return slot;
    }
}

static bool grow_profile_slots(redirect_builder *b)
{
    const redirect_profile *profiles = (const redirect_profile *)(const void *)b->profiles.bytes;
    uint32_t nslots = b->nprofile_slots ? b->nprofile_slots * 2 : FIRST_SLOTS;
    rt_buffer slots = {0};

    if (!rt_reserve(&slots, nslots * sizeof(uint32_t)))
        return false;
    rt_release(&b->profile_slots);
    b->profile_slots = slots;
    b->nprofile_slots = nslots;
    for (uint32_t i = 0; i < b->nprofiles; i++)
        *profile_slot(b, &profiles[i]) = i + 1;
    return true;
}

/* The profile's number, from 1; 0 when there is no memory. */
static uint32_t profile_number(redirect_builder *b, const redirect_profile *profile)
{
    const redirect_profile *profiles = (const redirect_profile *)(const void *)b->profiles.bytes;
    uint32_t *slot;

    if (b->last_profile && !memcmp(&profiles[b->last_profile - 1], profile, sizeof(*profile)))
        return b->last_profile;
    if (b->nprofiles * 2 >= b->nprofile_slots && !grow_profile_slots(b))
        return 0;
    slot = profile_slot(b, profile);
    if (!*slot) {
        if (!rt_append(&b->profiles, profile, sizeof(*profile)))
            return 0;
        *slot = ++b->nprofiles;
    }
    b->last_profile = *slot;
    return *slot;
}

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
static rt_query_mode query_mode(redirect_builder *b, const draft *d)
{
    if (!(d->profile.has & REDIRECT_HAS_QUERY))
        return RT_QUERY_ANY;
    if (d->profile.flags & REDIRECT_QUERY_EXACT)
        return RT_QUERY_WHOLE;
    return !d->profile.strip || keyed_strip(b, d->profile.strip) ? RT_QUERY_SET : RT_QUERY_ANY;
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

static uint64_t query_key(const redirect_builder *b, const redirect_rule *rule, rt_query_mode mode)
{
    if (mode == RT_QUERY_ANY)
        return 0;
    if (mode == RT_QUERY_WHOLE)
        return rt_hash(b->seed, rule->query, rule->query_len, false);
    return rt_query_hash(b->seed, rule->query, rule->query_len, rule->strip, rule->strip_len);
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
static bool partial_key(redirect_builder *b, const draft *d, rt_space *space, uint64_t salt,
                        uint64_t *key)
{
    const char *source = d->record.source;
    size_t len = d->record.source_len, depth;
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

static uint64_t floating_key(const redirect_builder *b, const draft *d, rt_space *space,
                             uint64_t salt)
{
    unsigned n = d->record.source_len >= 8 ? 8 : 4;
    uint64_t window;

    if (d->record.source_len < 4) {
        space->has |= RT_FLOAT_ALL;
        return rt_key(0, salt, RT_KEY_ALL);
    }
    space->has |= n == 8 ? RT_FLOAT_8 : RT_FLOAT_4;
    window = rt_window(d->record.source, n, space->icase);
    return rt_key(rt_mix(window ^ b->seed, RT_K1), salt, n == 8 ? RT_KEY_FLOAT_8 : RT_KEY_FLOAT_4);
}

/* EXACT and PREFIX have no runs of slashes any more. */
static uint64_t source_hash(const redirect_builder *b, const draft *d, bool icase)
{
    const char *source = d->record.source;
    size_t len = d->record.source_len;

    if (icase || d->rule->kind == REDIRECT_LITERAL)
        return rt_hash_path(&b->secret, source, len, icase);
    return rt_hash_clean(&b->secret, source, len - (len && source[len - 1] == '/'));
}

static bool make_key(redirect_builder *b, const draft *d, uint64_t *key)
{
    const redirect_rule *rule = d->rule;
    rt_query_mode mode = query_mode(b, d);
    bool below = rule->host && is_below(rule->host, rule->host_len);
    rt_space like = {.icase = !!(rule->flags & REDIRECT_ICASE),
                     .query = mode,
                     .host = below ? RT_HOST_BELOW : (rule->host ? RT_HOST_NAME : RT_HOST_ANY),
                     .strip = mode == RT_QUERY_SET ? d->profile.strip : 0};
    uint32_t number = find_space(b, &like);
    rt_space *space = &b->spaces[number];
    uint64_t salt = rt_salt(b->seed, number, d->record.host, query_key(b, rule, mode)), hash;

    if (rule->flags & REDIRECT_FLOATING) {
        *key = floating_key(b, d, space, salt);
        return true;
    }
    if (rule->kind == REDIRECT_LITERAL_PREFIX || rule->kind == REDIRECT_PATTERN)
        return partial_key(b, d, space, salt, key);
    hash = source_hash(b, d, space->icase);
    if (rule->kind == REDIRECT_EXACT) {
        *key = rt_whole_key(hash, salt);
        space->has |= RT_WHOLE;
        return true;
    }
    *key = rt_segments_key(hash, salt);
    if (rule->kind == REDIRECT_PREFIX)
        space->prefix_depths |= rt_depth(segments_of(d->record.source, d->record.source_len));
    else
        space->has |= RT_LITERAL;
    return true;
}

/* --- its record ------------------------------------------------------------------------------ */

static char *put_number(char *to, uint32_t number)
{
    for (; number > 0x7f; number >>= 7)
        *to++ = (char)(number | 0x80);
    *to++ = (char)number;
    return to;
}

size_t rt_encode(char *to, uint32_t profile, const rt_record *r)
{
    unsigned has = r->profile->has;
    char *at = put_number(to, profile << 1 | (r->line_delta != 0));

    at = put_number(at, r->source_len);
    if (has & RT_HOST)
        at = put_number(at, r->host);
    if (has & REDIRECT_HAS_TARGET) {
        at = put_number(at, r->middle_len);
        at = put_number(at, r->tail);
    }
    if (has & REDIRECT_HAS_QUERY)
        at = put_number(at, r->query_len);
    if (has & RT_PATTERN)
        at = put_number(at, r->pattern);
    if (r->line_delta)
        at = put_number(at, rt_zigzag(r->line_delta));
    return (size_t)(at - to);
}

/* More than the image can come to be, with this much more in it. */
static uint64_t image_estimate(const redirect_builder *b, size_t more)
{
    const rt_strings *all[] = {&b->hosts, &b->strips, &b->origins, &b->patterns};
    uint64_t bytes = (b->image.len + more) * 65 / 64 + 4096;

    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        bytes += all[i]->text.len + (uint64_t)all[i]->count * BYTES_PER_NAME;
    return bytes + ((uint64_t)b->rules + 1) * BYTES_PER_RULE + b->profiles.len +
           (uint64_t)b->nnodes * BYTES_PER_NODE;
}

static char *put_text(char *to, const char *text, size_t len)
{
    if (len)
        memcpy(to, text, len);
    return to + len;
}

void rt_put_marks(redirect_builder *builder, rt_mark mark)
{
    while (builder->marks.len / sizeof(mark) <= mark.at >> RT_MARK_SHIFT)
        rt_append(&builder->marks, &mark, sizeof(mark));
}

/* Append the record; there is room for it, and for its marks. */
static void put_record(redirect_builder *b, const draft *d, uint32_t profile, uint64_t key)
{
    const rt_record *r = &d->record;
    char *begin = b->image.bytes + b->image.len, *at;
    rt_entry entry = {key, (uint32_t)b->image.len, 0};

    rt_put_marks(b, (rt_mark){entry.place, d->rule->line, b->rules});
    rt_append(&b->entries, &entry, sizeof(entry));
    at = begin + rt_encode(begin, profile, r);
    at = put_text(at, r->source, r->source_len);
    at = put_text(at, r->middle, r->middle_len);
    at = put_text(at, r->query, r->query_len);
    b->image.len += (size_t)(at - begin);
    b->last_size = (uint32_t)(at - begin);
}

static void count_rule(redirect_builder *b, const redirect_rule *rule)
{
    b->rules++;
    b->last_line = rule->line;
    if (rule->kind == REDIRECT_EXACT || rule->kind == REDIRECT_LITERAL)
        b->exact++;
    else if (rule->kind == REDIRECT_PATTERN)
        b->pattern++;
    else
        b->prefix++;
}

redirect_outcome redirect_builder_add(redirect_builder *builder, const redirect_rule *rule)
{
    redirect_builder *b = builder;
    draft d = {.rule = rule};
    uint32_t profile;
    uint64_t key;
    size_t most;

    if (!rule_ok(rule))
        return REDIRECT_BAD;
    most = RT_MAX_NUMBERS + rule->source_len + rule->target_len + rule->query_len;
    if (image_estimate(b, most + rule->host_len + rule->pattern_len + rule->strip_len) >
        REDIRECT_MAX_IMAGE)
        return REDIRECT_TOO_BIG;
    d.profile.kind = (uint8_t)rule->kind;
    d.profile.flags = (uint16_t)rule->flags;
    d.profile.status = (uint16_t)rule->status;
    d.profile.options = (uint16_t)rule->options;
    set_source(b, &d);
    if (!set_names(b, &d) || !set_target(b, &d))
        return REDIRECT_NO_MEMORY;
    profile = profile_number(b, &d.profile);
    if (!profile || !rt_reserve(&b->image, most) || !rt_reserve(&b->entries, sizeof(rt_entry)) ||
        !rt_reserve(&b->marks, ((b->last_size >> RT_MARK_SHIFT) + 2) * sizeof(rt_mark)) ||
        !make_key(b, &d, &key))
        return REDIRECT_NO_MEMORY;
    d.record.profile = &d.profile;
    d.record.line_delta = rule->line - b->last_line - 1;
    put_record(b, &d, profile - 1, key);
    count_rule(b, rule);
    return REDIRECT_ADDED;
}
