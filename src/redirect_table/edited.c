/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Look-ups in a table of which some rules are edited. Look-ups find a rule by its key; so those that
 * come upon no key of an edited rule are answered by the table alone. The keys are kept as a Bloom
 * filter, which look-ups ask on their way with the keys that they make anyway. Called by
 * maps/overlay_*.c, which ask table and edits one after the other where the filter says so.
 *
 * A table's keys have numbers of its spaces and hosts in them. A rule that was added may need a
 * space or a host that the table has not: those get numbers behind the table's.
 */
#include "redirect_table/internal.h"

#include <apr_strings.h>

#define HOST_MODES  (RT_HOST_BELOW + 1)
#define QUERY_MODES (RT_QUERY_SET + 1)
#define NEW_SPACES  (2 * HOST_MODES * QUERY_MODES)
#define NEW_HOST    UINT32_C(0x80000000) /* no table has as many */
#define NONE        UINT32_MAX

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
            break;
        known = rt_text(t, RT_HOSTS, number, &known_len);
        star = known_len >= 2 && known[0] == '*' && known[1] == '.';

        if (star == below && known_len == len + below && !memcmp(known + below, name, len))
            return number;
        i = i + 1 < span->count ? i + 1 : 0;
    }
    return t->edited_hosts ? NEW_HOST | (uint32_t)(hash >> 32) : 0;
}

/* The number of a space, also of one that the table has not. Strip sets take no part. */
static uint32_t space_number(const redirect_table *t, bool icase, unsigned query, unsigned host)
{
    for (uint32_t i = 0; i < t->nspaces; i++) {
        const rt_space *space = &t->spaces[i];

        if (!space->icase == !icase && space->query == query && space->host == host &&
            !space->strip)
            return i;
    }
    return t->nspaces + (icase ? 1 : 0) + 2 * (query + QUERY_MODES * host);
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

static uint32_t host_of(const redirect_table *t, const redirect_rule *rule,
                        redirect_key_filter *keys)
{
    bool below = rule->host[0] == '*';
    const char *name = rule->host + below;
    size_t len = rule->host_len - below;
    uint32_t number = rt_host_number(t, name, len, below);

    if (number)
        return number;
    keys->new_hosts = true;
    return NEW_HOST | (uint32_t)(rt_hash(t->seed, name, len, false) >> 32);
}

bool redirect_filter_add(redirect_key_filter *keys, const redirect_table *t,
                         const redirect_rule *rule)
{
    bool icase = rule->flags & REDIRECT_ICASE;
    unsigned mode = !rule->host ? RT_HOST_ANY : rule->host[0] == '*' ? RT_HOST_BELOW : RT_HOST_NAME;
    uint64_t hash, salt;
    size_t word;

    if (rule->kind > REDIRECT_PREFIX || (rule->query && rule->strip))
        return false;
    salt = rt_salt(t->seed, space_number(t, icase, query_mode(rule), mode),
                   rule->host ? host_of(t, rule, keys) : 0, query_hash(t, rule));
    hash = rt_hash_path(&t->secret, rule->source, rule->source_len, icase);
    hash = rule->kind == REDIRECT_EXACT ? rt_whole_key(hash, salt) : rt_segments_key(hash, salt);
    word = hash & (keys->count - 1);
    keys->words[word] |= UINT64_C(1) << rt_edited_bit(hash, 0) | UINT64_C(1)
                                                                     << rt_edited_bit(hash, 1);
    return true;
}

/* --- looking up beside them -------------------------------------------------------------------- */

/* Look-ups must also make the keys of these rules. False: the table's own do not. */
static bool take_spaces(redirect_table *t, rt_space *spaces, const redirect_table *edits)
{
    bool own = true;

    for (uint32_t i = 0; i < edits->nspaces; i++) {
        const rt_space *space = &edits->spaces[i];
        uint32_t number;

        if (space->query >= QUERY_MODES || space->host >= HOST_MODES)
            continue;
        number = space_number(t, space->icase, space->query, space->host);
        own = own && number < t->nspaces;
        spaces[number].icase = space->icase != 0;
        spaces[number].query = space->query;
        spaces[number].host = space->host;
        spaces[number].has |= space->has & RT_WHOLE;
        spaces[number].prefix_depths |= space->prefix_depths;
    }
    for (unsigned i = 0; i < sizeof(t->head.wild_dots) / sizeof(t->head.wild_dots[0]); i++)
        t->head.wild_dots[i] |= edits->head.wild_dots[i];
    t->head.uses_host |= edits->head.uses_host;
    return own;
}

const redirect_table *redirect_table_beside(const redirect_table *base,
                                            const redirect_table *const *edits, unsigned n,
                                            const redirect_key_filter *keys, apr_pool_t *pool)
{
    redirect_table *t = apr_pmemdup(pool, base, sizeof(*t));
    rt_space *spaces = apr_pcalloc(pool, (t->nspaces + NEW_SPACES) * sizeof(*spaces));
    bool own = true;

    memcpy(spaces, base->spaces, base->nspaces * sizeof(*spaces));
    for (unsigned i = 0; i < n; i++)
        own = take_spaces(t, spaces, edits[i]) && own;
    if (base->lookup != rt_lookup_any) {
        if (!own) /* the quick ways know one space; both tables are asked as quickly */
            return NULL;
        t->ready = apr_pmemdup(pool, base->ready, RT_READY_MAX * sizeof(*t->ready));
        t->lookup = spaces->prefix_depths ? rt_lookup_prefix_edited : rt_lookup_whole_edited;
    }
    t->spaces = spaces;
    t->nspaces += own ? 0 : NEW_SPACES;
    t->edited = keys->words;
    t->edited_mask = keys->count - 1;
    t->edited_hosts = keys->new_hosts;
    return t;
}
