/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in a table of which some rules are edited. Look-ups find a rule by its key; so those that
 * come upon no key of an edited rule are answered by the table alone. The keys are kept as a Bloom
 * filter, which look-ups ask on their way with the keys that they make anyway. Called by
 * maps/overlay_*.c, which ask table and edits one after the other where the filter says so.
 *
 * A simple table's look-ups make keys of paths alone. So the filter has a rule's path alone, whatever
 * its host and query are. In other tables a rule may need a space or a host that the table has not, for
 * which look-ups make no key. Such a rule is strange, as is one of a simple table without regard to
 * case. The filter has the end of its source, and look-ups first ask for the ends of their paths.
 */
#include "redirect_table/internal.h"

#include <apr_strings.h>

#define END 16 /* bytes of a strange rule's source that the filter has */

uint32_t rt_host_number(const redirect_table *t, const char *name, size_t len, bool below)
{
    const rt_span *span = &t->head.section[RT_HOST_SLOTS];
    const uint32_t *slots = (const uint32_t *)(t->image + span->at);
    uint64_t hash = rt_hash(t->seed, name, len, false);
    uint32_t i = rt_reduce((uint32_t)hash, span->count);

    for (uint32_t steps = 0; steps < span->count; steps++) {
        uint32_t number = slots[i];
        const char *known;
        size_t known_len;
        bool star;

        RT_OPAQUE(number);
        if (!number)
            return 0;
        known = rt_text(t, RT_HOSTS, number, &known_len);
        star = known_len >= 2 && known[0] == '*' && known[1] == '.';

        if (star == below && known_len == len + below && !memcmp(known + below, name, len))
            return number;
        i = i + 1 < span->count ? i + 1 : 0;
    }
    return 0;
}

/* Do look-ups know one space alone? */
static bool knows_paths(const redirect_table *t)
{
    return t->lookup != rt_lookup_any;
}

/* The number of a space; that of no space if the table has not this one. Strip sets take no part. */
static uint32_t space_number(const redirect_table *t, bool icase, unsigned query, unsigned host)
{
    for (uint32_t i = 0; i < t->nspaces; i++) {
        const rt_space *space = &t->spaces[i];

        if (!space->icase == !icase && space->query == query && space->host == host &&
            !space->strip)
            return i;
    }
    return t->nspaces;
}

static unsigned query_mode(const redirect_rule *rule)
{
    if (!rule->query)
        return RT_QUERY_ANY;
    return rule->flags & REDIRECT_QUERY_EXACT ? RT_QUERY_WHOLE : RT_QUERY_SET;
}

static uint64_t query_hash(const redirect_table *t, const redirect_rule *rule)
{
    switch (query_mode(rule)) {
    case RT_QUERY_ANY:
        return 0;
    case RT_QUERY_WHOLE:
        return rt_hash(t->seed, rule->query, rule->query_len, false);
    default:
        return rt_query_hash(t->seed, rule->query, rule->query_len, NULL, 0);
    }
}

/* What look-ups mix into keys of such rules. False: the rule is strange. */
static bool salt_of(const redirect_table *t, const redirect_rule *rule, uint64_t *salt)
{
    bool icase = rule->flags & REDIRECT_ICASE, below = rule->host && rule->host[0] == '*';
    unsigned mode = !rule->host ? RT_HOST_ANY : below ? RT_HOST_BELOW : RT_HOST_NAME;
    uint32_t space, host = 0;

    *salt = t->simple_salt;
    if (knows_paths(t))
        return !icase;
    space = space_number(t, icase, query_mode(rule), mode);
    if (rule->host)
        host = rt_host_number(t, rule->host + below, rule->host_len - below, below);
    if (space == t->nspaces || (rule->query && rule->strip) || (rule->host && !host))
        return false;
    *salt = rt_salt(t->seed, space, host, query_hash(t, rule));
    return true;
}

static void add_key(redirect_key_filter *keys, uint64_t key)
{
    keys->words[key & (keys->count - 1)] |=
        UINT64_C(1) << rt_edited_bit(key, 0) | UINT64_C(1) << rt_edited_bit(key, 1);
}

/* --- strange rules ----------------------------------------------------------------------------- */

/* Of the last bytes in front of `end`; there are n. Letters are the same in both cases. */
static inline uint64_t key_of_end(uint64_t seed, const char *end, size_t n)
{
    const uint64_t lower = UINT64_C(0x2020202020202020);
    uint64_t first = 0, last = 0;

    if (n >= END) {
        memcpy(&first, end - 16, 8);
        memcpy(&last, end - 8, 8);
    } else if (n >= 8) {
        memcpy(&first, end - n, 8);
        memcpy(&last, end - 8, 8);
    } else {
        for (size_t i = 0; i < n; i++)
            first = first << 8 | (unsigned char)end[-1 - (ptrdiff_t)i];
    }
    return rt_mix((first | lower) ^ seed ^ RT_K2, (last | lower) ^ rt_rotate(seed, 32) ^ RT_K3);
}

/* The bit of a length; the highest also stands for all above. */
static inline uint64_t length_bit(size_t n)
{
    return UINT64_C(1) << (n < 63 ? n : 63);
}

static void add_strange(redirect_key_filter *keys, const redirect_table *t,
                        const redirect_rule *rule)
{
    size_t len = rule->source_len, n = 0;
    char end[END];

    while (len && rule->source[len - 1] == '/')
        len--;
    for (size_t i = len; i; i--) {
        if (rule->source[i - 1] == '/' && rule->source[i] == '/')
            continue; /* of a run */
        if (n++ < END)
            end[END - n] = rule->source[i - 1];
    }
    add_key(keys, key_of_end(t->seed, end + END, n));
    if (rule->kind == REDIRECT_EXACT)
        keys->strange |= REDIRECT_STRANGE_EXACT;
    else
        keys->strange_lengths |= length_bit(n);
}

static inline bool may_end(const redirect_table *t, const char *path, size_t at)
{
    return rt_is_edited(t, key_of_end(t->seed, path + at, at));
}

/* Of any path of this length. Its end was tried. */
static HTC_APART bool may_begin_long(const redirect_table *t, const char *path, size_t len)
{
    for (size_t at = 0; at < len; at++) {
        at = rt_segment_end(path, at, len);
        if (at + 1 < len && path[at + 1] == '/')
            return true;
        if (at < len && t->strange_lengths & length_bit(at) && may_end(t, path, at))
            return true;
    }
    return false;
}

/* Are there runs of slashes among the bytes at the path's end that are in the filter? */
static inline bool ends_in_run(const char *path, size_t len)
{
    size_t at = len < END ? 0 : len - END;

#ifdef RT_SSE2
    if (!__builtin_expect(len < END, 0)) {
        uint64_t slashes = rt_slashes_of(path + at);

        return slashes & slashes >> 1;
    }
#endif
    for (; at + 1 < len; at++) {
        if (path[at] == '/' && path[at + 1] == '/')
            return true;
    }
    return false;
}

/* May a strange rule match that path? True also of one with a run of slashes that matters. */
static inline bool may_be_strange(const redirect_table *t, const char *path, size_t len)
{
    uint64_t ends;

    len -= len && path[len - 1] == '/';
    if (len && path[len - 1] == '/')
        return true;
    if ((t->strange || t->strange_lengths & length_bit(len)) && may_end(t, path, len))
        return true;
    if (!t->strange_lengths)
        return ends_in_run(path, len);
    if (len < 16 || len >= RT_SHORT_PATH)
        return may_begin_long(t, path, len);
    ends = rt_slashes_in(path, len);
    if (ends & ends >> 1)
        return true;
    for (ends &= t->strange_lengths; ends; ends &= ends - 1) {
        if (may_end(t, path, (size_t)__builtin_ctzll(ends)))
            return true;
    }
    return false;
}

static HTC_HOT bool lookup_strange(const redirect_table *t, const redirect_request *request,
                                   uint32_t from, redirect_match *match)
{
    if (may_be_strange(t, request->path, request->path_len))
        return rt_say_edited(match);
    return t->not_strange(t, request, from, match);
}

/* ----------------------------------------------------------------------------------------------- */

bool redirect_filter_add(redirect_key_filter *keys, const redirect_table *t,
                         const redirect_rule *rule)
{
    uint64_t hash, salt;

    if (rule->kind > REDIRECT_PREFIX)
        return false;
    if (!salt_of(t, rule, &salt)) {
        add_strange(keys, t, rule);
        return true;
    }
    hash = rt_hash_path(&t->secret, rule->source, rule->source_len, rule->flags & REDIRECT_ICASE);
    add_key(keys,
            rule->kind == REDIRECT_EXACT ? rt_whole_key(hash, salt) : rt_segments_key(hash, salt));
    return true;
}

/* Look-ups must also make the keys of these rules. */
static void take_spaces(const redirect_table *t, rt_space *spaces, const redirect_table *edits)
{
    for (uint32_t i = 0; i < edits->nspaces; i++) {
        const rt_space *space = &edits->spaces[i];
        uint32_t number = 0;

        if (knows_paths(t) ? space->icase : space->strip)
            continue;
        if (!knows_paths(t))
            number = space_number(t, space->icase, space->query, space->host);
        if (number == t->nspaces)
            continue;
        spaces[number].has |= space->has & RT_WHOLE;
        spaces[number].prefix_depths |= space->prefix_depths;
    }
}

const redirect_table *redirect_table_beside(const redirect_table *base,
                                            const redirect_table *const *edits, unsigned n,
                                            const redirect_key_filter *keys, apr_pool_t *pool)
{
    redirect_table *t = apr_pmemdup(pool, base, sizeof(*t));
    rt_space *spaces = apr_pmemdup(pool, base->spaces, (base->nspaces + 1) * sizeof(*spaces));

    for (unsigned i = 0; i < n; i++)
        take_spaces(base, spaces, edits[i]);
    if (knows_paths(base)) {
        t->own_whole = base->spaces->has & RT_WHOLE;
        t->ready = apr_pmemdup(pool, base->ready, RT_READY_MAX * sizeof(*t->ready));
        t->lookup = spaces->prefix_depths ? rt_lookup_prefix_edited : rt_lookup_whole_edited;
    }
    t->spaces = spaces;
    t->edited = keys->words;
    t->edited_mask = keys->count - 1;
    t->strange = keys->strange & REDIRECT_STRANGE_EXACT;
    t->strange_lengths = keys->strange_lengths;
    t->not_strange = t->lookup;
    if (t->strange || t->strange_lengths)
        t->lookup = lookup_strange;
    return t;
}
