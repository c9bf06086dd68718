/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The second half of building a redirect table: rules are put into the index by their keys, those
 * of one key are compared and duplicates left out, and what else belongs to the image is written
 * behind the records. Called once all rules have been added, see redirect_table/build.c.
 *
 * While the index is made, a place in it holds 1 + the number of the last rule of its key, from
 * which the others are reached through rt_entry.prev; then places become what look-ups expect. When
 * there are duplicates, they are taken out of the records, and the index is made once more.
 */
#include "redirect_table/builder.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

#define BUCKET_ALIGN 64
#define AHEAD        12 /* rules whose buckets are fetched beforehand */
#define WRITE_CHUNK  ((size_t)8 << 20)
#define DUPLICATE    UINT32_MAX /* rt_entry.prev of a rule that is to be left out */

/* A rule among those of its key. */
typedef struct member {
    uint64_t identity; /* equal for duplicates */
    uint32_t number;
} member;

typedef struct duplicate {
    uint32_t number, first;
} duplicate;

typedef struct index_work {
    redirect_builder *b;
    rt_buffer postings, members, duplicates;
    uint32_t nbuckets, nwords, nduplicates;
} index_work;

static size_t align_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static rt_bucket *buckets_of(const redirect_builder *b)
{
    return (rt_bucket *)(void *)(b->image.bytes + b->section[RT_BUCKETS].at);
}

static uint64_t *filter_of(const redirect_builder *b)
{
    return (uint64_t *)(void *)(b->image.bytes + b->section[RT_FILTER].at);
}

/* --- filling --------------------------------------------------------------------------------- */

/* Make room behind the records for a section of `bytes` zeros. */
static apr_status_t begin_section(redirect_builder *b, rt_section which, uint32_t count,
                                  size_t bytes, size_t align)
{
    size_t at = align_up(b->image.len, align);

    if (at + bytes > REDIRECT_MAX_IMAGE)
        return APR_ENOSPC;
    if (!rt_reserve(&b->image, at + bytes - b->image.len))
        return APR_ENOMEM;
    b->image.len = at + bytes;
    b->section[which] = (rt_span){(uint32_t)at, count};
    return APR_SUCCESS;
}

/* Zero what an earlier attempt wrote behind the records. */
static void clear_sections(redirect_builder *b)
{
    memset(b->image.bytes + b->records_end, 0, b->image.len - b->records_end);
    b->image.len = b->records_end;
}

/* Where a request has one key for each way of hosts and queries, the index itself says as fast as a
 * filter that there is nothing. */
static bool has_filter(const redirect_builder *b)
{
    for (uint32_t i = 0; i < b->nspaces; i++) {
        const rt_space *space = &b->spaces[i];
        uint64_t depths = space->prefix_depths;
        bool single = !(depths & (depths - 1)) && depths != rt_depth(SIZE_MAX);

        if (space->partial_depths || space->has & ~(unsigned)RT_WHOLE || !single ||
            (space->has && depths))
            return true;
    }
    return false;
}

static void filter_add(uint64_t *filter, uint32_t nwords, uint64_t key)
{
    filter[rt_filter_word(key, nwords)] |= rt_filter_bits(key);
}

/* If a rule with this key is in the bucket, the new one takes its place, as the last of its key. */
static bool join_key(rt_bucket *bucket, rt_entry *entries, uint32_t number)
{
    uint64_t key = entries[number].key;

    for (unsigned i = 0; i < bucket->used; i++) {
        if (bucket->tag[i] == rt_tag(key) && entries[bucket->place[i] - 1].key == key) {
            entries[number].prev = bucket->place[i];
            bucket->place[i] = number + 1;
            return true;
        }
    }
    return false;
}

/* False when the rule would be too far from its bucket. Buckets are filled in the order in which
 * they are looked through, so a key is never behind the first bucket that is not full. */
static bool insert(index_work *w, rt_bucket *buckets, rt_entry *entries, uint32_t number)
{
    uint64_t key = entries[number].key;
    uint32_t home = rt_bucket_of(key, w->nbuckets), at = home;

    for (unsigned reach = 0; reach <= RT_MAX_REACH && reach < w->nbuckets; reach++) {
        rt_bucket *bucket = &buckets[at];

        if (join_key(bucket, entries, number))
            return true;
        if (bucket->used < RT_WAYS) {
            bucket->tag[bucket->used] = rt_tag(key);
            bucket->place[bucket->used++] = number + 1;
            if (buckets[home].reach < reach)
                buckets[home].reach = (uint8_t)reach;
            return true;
        }
        at = at + 1 < w->nbuckets ? at + 1 : 0;
    }
    return false;
}

static bool fill(index_work *w)
{
    redirect_builder *b = w->b;
    rt_bucket *buckets = buckets_of(b);
    uint64_t *filter = filter_of(b);
    rt_entry *entries = rt_entries(b);
    bool filtered = has_filter(b);

    if (!filtered)
        filter[0] = UINT64_MAX;
    for (uint32_t i = 0; i < b->rules; i++) {
        if (i + AHEAD < b->rules) {
            uint64_t key = entries[i + AHEAD].key;

            __builtin_prefetch(&buckets[rt_bucket_of(key, w->nbuckets)], 1);
            __builtin_prefetch(&filter[rt_filter_word(key, w->nwords)], 1);
        }
        entries[i].prev = 0;
        if (filtered)
            filter_add(filter, w->nwords, entries[i].key);
        if (!insert(w, buckets, entries, i))
            return false;
    }
    return true;
}

/* Buckets and filter, filled. More buckets than planned are made in the hardly possible case that
 * keys are spread so unevenly that some rule has no place near its own. */
static apr_status_t fill_index(index_work *w)
{
    redirect_builder *b = w->b;
    uint64_t keys = (uint64_t)b->rules + b->nnodes;

    w->nbuckets = (uint32_t)((uint64_t)b->rules * 100 / (RT_WAYS * RT_LOAD)) + 1;
    w->nwords = has_filter(b) ? (uint32_t)(keys * RT_FILTER_BITS / 64) + 1 : 1;
    for (;;) {
        apr_status_t rv = begin_section(b, RT_BUCKETS, w->nbuckets, w->nbuckets * sizeof(rt_bucket),
                                        BUCKET_ALIGN);

        if (rv == APR_SUCCESS)
            rv = begin_section(b, RT_FILTER, w->nwords, w->nwords * sizeof(uint64_t), 8);
        if (rv != APR_SUCCESS || fill(w))
            return rv;
        clear_sections(b);
        w->nbuckets += w->nbuckets / 8 + 1;
    }
}

/* --- rules of one key ------------------------------------------------------------------------ */

/* A rule's whole source, in b->source. */
static const char *source_of(redirect_builder *b, const rt_record *r)
{
    memcpy(b->source, r->dir_text, r->dir_len);
    memcpy(b->source + r->dir_len, r->source, r->source_len);
    return b->source;
}

/* The second rule of a row, for all hosts below the first one's. */
static bool is_below(const redirect_builder *b, const rt_record *r)
{
    size_t len;

    return r->host && r->line_delta == UINT32_MAX &&
           *rt_strings_get(&b->hosts, r->host, &len) == '*';
}

/* What is stripped counts: such a rule answers once the one in front of it is taken away. */
static bool same_query(const rt_record *x, const rt_record *y)
{
    if ((x->profile->has ^ y->profile->has) & REDIRECT_HAS_QUERY)
        return false;
    if (x->query_len == y->query_len && !memcmp(x->query, y->query, x->query_len))
        return true;
    return !(x->profile->flags & REDIRECT_QUERY_EXACT) &&
           rt_query_equal(x->query, x->query_len, y->query, y->query_len, NULL, 0);
}

static bool same_rule(redirect_builder *b, uint32_t first, uint32_t second)
{
    rt_record x, y;

    rt_builder_record(b, first, &x);
    rt_builder_record(b, second, &y);
    return x.profile->kind == y.profile->kind && x.profile->flags == y.profile->flags &&
           x.profile->strip == y.profile->strip && x.host == y.host && x.pattern == y.pattern &&
           x.condition == y.condition && rt_same_source(&x, &y) && same_query(&x, &y) &&
           is_below(b, &x) == is_below(b, &y);
}

static uint64_t identity_of(redirect_builder *b, uint32_t number)
{
    uint64_t hash;
    rt_record r;

    rt_builder_record(b, number, &r);
    hash =
        rt_hash(b->seed, source_of(b, &r), rt_compared_len(&r), r.profile->flags & REDIRECT_ICASE);
    hash = rt_mix(hash ^ r.profile->kind, (uint64_t)r.profile->flags << 32 ^ RT_K1);
    hash = rt_mix(hash ^ r.profile->strip, ((uint64_t)r.host << 32 | r.pattern) ^ RT_K2);
    hash = hash + (r.condition ^ (uint64_t)is_below(b, &r) << 32) * RT_K3;
    if (!(r.profile->has & REDIRECT_HAS_QUERY))
        return hash;
    if (r.profile->flags & REDIRECT_QUERY_EXACT)
        return hash ^ rt_hash(b->seed, r.query, r.query_len, false);
    return hash + rt_query_hash(b->seed, r.query, r.query_len, NULL, 0);
}

static int by_identity(const void *x, const void *y)
{
    const member *a = x, *b = y;

    if (a->identity != b->identity)
        return a->identity < b->identity ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int by_number(const void *x, const void *y)
{
    const member *a = x, *b = y;

    return a->number < b->number ? -1 : a->number > b->number;
}

static apr_status_t gather(index_work *w, uint32_t last)
{
    rt_entry *entries = rt_entries(w->b);

    w->members.len = 0;
    for (uint32_t n = last + 1; n; n = entries[n - 1].prev) {
        member m = {identity_of(w->b, n - 1), n - 1};

        if (!rt_append(&w->members, &m, sizeof(m)))
            return APR_ENOMEM;
    }
    return APR_SUCCESS;
}

/* Note the duplicates among the members and take them out. Only members of equal identity, which
 * hardly ever differ, are compared with one another. */
static apr_status_t drop_duplicates(index_work *w)
{
    member *members = (member *)(void *)w->members.bytes;
    size_t n = w->members.len / sizeof(member), kept = 0, run = 0;

    if (n)
        qsort(members, n, sizeof(member), by_identity);
    for (size_t i = 0; i < n; i++) {
        member m = members[i];
        size_t same;

        if (kept && members[kept - 1].identity != m.identity)
            run = kept;
        for (same = run; same < kept; same++) {
            if (same_rule(w->b, members[same].number, m.number))
                break;
        }
        if (same == kept) {
            members[kept++] = m;
        } else {
            duplicate d = {m.number, members[same].number};

            if (!rt_append(&w->duplicates, &d, sizeof(d)))
                return APR_ENOMEM;
            w->nduplicates++;
        }
    }
    w->members.len = kept * sizeof(member);
    return APR_SUCCESS;
}

static bool conditioned(const redirect_builder *b, const member *members, uint32_t n)
{
    rt_record r;

    for (uint32_t i = 0; b->conditions.count && i < n; i++) {
        rt_builder_record(b, members[i].number, &r);
        if (r.condition)
            return true;
    }
    return false;
}

/* Append the members' posting; *place becomes where it will be. */
static apr_status_t put_posting(index_work *w, uint32_t *place)
{
    member *members = (member *)(void *)w->members.bytes;
    const rt_entry *entries = rt_entries(w->b);
    uint32_t n = (uint32_t)(w->members.len / sizeof(member)), *words;
    size_t at = align_up(w->b->image.len, 8) + w->postings.len;

    if (at + (n + 1) * sizeof(uint32_t) > REDIRECT_MAX_IMAGE)
        return APR_ENOSPC;
    if (!rt_reserve(&w->postings, (n + 1) * sizeof(uint32_t)))
        return APR_ENOMEM;
    words = (uint32_t *)(void *)(w->postings.bytes + w->postings.len);
    if (n)
        qsort(members, n, sizeof(member), by_number);
    for (uint32_t i = 0; i < n; i++) {
        words[i + 1] = entries[members[i].number].place;
    }
    words[0] = conditioned(w->b, members, n) ? n | RT_CONDITIONED : n;
    w->postings.len += (n + 1) * sizeof(uint32_t);
    *place = (uint32_t)at;
    return APR_SUCCESS;
}

static apr_status_t resolve_group(index_work *w, uint32_t *place)
{
    apr_status_t rv = gather(w, *place - 1);

    if (rv == APR_SUCCESS && !w->b->keeps_all)
        rv = drop_duplicates(w);
    if (rv != APR_SUCCESS)
        return rv;
    if (w->members.len == sizeof(member)) {
        *place = rt_entries(w->b)[((member *)(void *)w->members.bytes)->number].place;
        return APR_SUCCESS;
    }
    return put_posting(w, place);
}

/* Turn numbers of rules in the index into places of records and postings. */
static apr_status_t resolve(index_work *w)
{
    rt_bucket *buckets = buckets_of(w->b);
    const rt_entry *entries = rt_entries(w->b);

    w->postings.len = 0;
    for (uint32_t i = 0; i < w->nbuckets; i++) {
        rt_bucket *bucket = &buckets[i];

        if (i + 1 < w->nbuckets) {
            for (unsigned j = 0; j < bucket[1].used; j++)
                __builtin_prefetch(&entries[bucket[1].place[j] - 1]);
        }
        for (unsigned j = 0; j < bucket->used; j++) {
            const rt_entry *entry = &entries[bucket->place[j] - 1];

            if (!entry->prev) {
                bucket->place[j] = entry->place;
            } else {
                apr_status_t rv = resolve_group(w, &bucket->place[j]);

                if (rv != APR_SUCCESS)
                    return rv;
            }
        }
    }
    return APR_SUCCESS;
}

/* --- duplicates ------------------------------------------------------------------------------ */

static int by_duplicate(const void *x, const void *y)
{
    const duplicate *a = x, *b = y;

    return a->number < b->number ? -1 : a->number > b->number;
}

/* The lines of all rules, by their numbers. */
static bool list_lines(const redirect_builder *b, rt_buffer *lines)
{
    uint32_t line = 0;

    for (uint32_t i = 0; i < b->rules; i++) {
        rt_record r;

        rt_builder_record(b, i, &r);
        line += 1 + r.line_delta;
        if (!rt_append(lines, &line, sizeof(line)))
            return false;
    }
    return true;
}

static void uncount(redirect_builder *b, const rt_record *r)
{
    b->rules--;
    if (r->profile->kind == REDIRECT_EXACT || r->profile->kind == REDIRECT_LITERAL)
        b->exact--;
    else if (redirect_kind_has_pattern(r->profile->kind))
        b->pattern--;
    else
        b->prefix--;
}

/* Write a record again, further in front. What its line's number may need more than before, because
 * the rule in front of it is gone, that rule's record has left. */
static size_t move_record(const redirect_builder *b, char *to, const char *record, rt_record *r,
                          uint32_t line_delta)
{
    const redirect_profile *profiles = (const redirect_profile *)(const void *)b->profiles.bytes;
    size_t text = r->size - (size_t)(r->source - record), n;
    char numbers[RT_MAX_NUMBERS];

    r->line_delta = line_delta;
    n = rt_encode(numbers, (uint32_t)(r->profile - profiles), r);
    memmove(to + n, r->source, text);
    memcpy(to, numbers, n);
    return n + text;
}

/* Take the rules marked as DUPLICATE out of the records and the entries. Marks are made anew. */
static void compact(redirect_builder *b, const uint32_t *lines)
{
    rt_entry *entries = rt_entries(b);
    uint32_t rules = b->rules, kept = 0, last_line = 0;
    size_t end = sizeof(rt_header);

    b->marks.len = 0;
    for (uint32_t i = 0; i < rules; i++) {
        rt_entry entry = entries[i];
        rt_mark mark = {(uint32_t)end, lines[i], kept};
        rt_record r;

        rt_builder_record(b, i, &r);
        if (entry.prev == DUPLICATE) {
            uncount(b, &r);
            continue;
        }
        rt_put_marks(b, mark); /* there were as many before */
        entries[kept++] = (rt_entry){entry.key, (uint32_t)end, 0};
        end += move_record(b, b->image.bytes + end, b->image.bytes + entry.place, &r,
                           lines[i] - last_line - 1);
        last_line = lines[i];
    }
    b->entries.len = kept * sizeof(rt_entry);
    memset(b->image.bytes + end, 0, b->records_end - end);
    b->records_end = (uint32_t)end;
    b->image.len = end;
}

static apr_status_t leave_out_duplicates(index_work *w, redirect_duplicate_fn *report, void *baton)
{
    redirect_builder *b = w->b;
    duplicate *duplicates = (duplicate *)(void *)w->duplicates.bytes;
    rt_buffer lines = {0};
    const uint32_t *line;

    if (!list_lines(b, &lines)) {
        rt_release(&lines);
        return APR_ENOMEM;
    }
    line = (const uint32_t *)(const void *)lines.bytes;
    assert(line || !w->nduplicates);
    qsort(duplicates, w->nduplicates, sizeof(duplicate), by_duplicate);
    for (uint32_t i = 0; i < w->nduplicates; i++) {
        rt_entries(b)[duplicates[i].number].prev = DUPLICATE;
        if (report)
            report(baton, line[duplicates[i].number], line[duplicates[i].first]);
    }
    clear_sections(b);
    compact(b, line);
    rt_release(&lines);
    w->nduplicates = 0;
    w->duplicates.len = 0;
    b->keeps_all = true; /* none is left */
    return APR_SUCCESS;
}

static apr_status_t make_index(index_work *w, redirect_duplicate_fn *report, void *baton)
{
    for (;;) {
        apr_status_t rv = fill_index(w);

        if (rv == APR_SUCCESS)
            rv = resolve(w);
        if (rv != APR_SUCCESS || !w->nduplicates)
            return rv;
        rv = leave_out_duplicates(w, report, baton);
        if (rv != APR_SUCCESS)
            return rv;
    }
}

/* --- the other sections ---------------------------------------------------------------------- */

static apr_status_t put_section(redirect_builder *b, rt_section which, const void *bytes,
                                uint32_t count, size_t size)
{
    apr_status_t rv = begin_section(b, which, count, count * size, 8);

    if (rv == APR_SUCCESS && count)
        memcpy(b->image.bytes + b->section[which].at, bytes, count * size);
    return rv;
}

static apr_status_t put_strings(redirect_builder *b, rt_section which, const rt_strings *strings)
{
    const uint32_t *ends = (const uint32_t *)(const void *)strings->ends.bytes;
    size_t offsets = ((size_t)strings->count + 1) * sizeof(uint32_t);
    apr_status_t rv = begin_section(b, which, strings->count, offsets + strings->text.len, 8);
    char *section = b->image.bytes + b->section[which].at;
    uint32_t first = b->section[which].at + (uint32_t)offsets;
    uint32_t *at = (uint32_t *)(void *)section;

    if (rv != APR_SUCCESS)
        return rv;
    at[0] = first;
    for (uint32_t i = 0; i < strings->count; i++)
        at[i + 1] = first + ends[i];
    if (strings->text.len)
        memcpy(section + offsets, strings->text.bytes, strings->text.len);
    return APR_SUCCESS;
}

/* Hosts by their names, wildcards by what is behind the star. */
static apr_status_t put_host_slots(redirect_builder *b, rt_header *head)
{
    uint32_t nslots = b->hosts.count * 2, *slots;
    apr_status_t rv = begin_section(b, RT_HOST_SLOTS, nslots, nslots * sizeof(uint32_t), 8);

    if (rv != APR_SUCCESS)
        return rv;
    slots = (uint32_t *)(void *)(b->image.bytes + b->section[RT_HOST_SLOTS].at);
    for (uint32_t number = 1; number <= b->hosts.count; number++) {
        size_t len;
        const char *name = rt_strings_get(&b->hosts, number, &len);
        unsigned below = rt_is_below(name, len), dots = 0;
        uint32_t i =
            rt_reduce((uint32_t)rt_hash(b->seed, name + below, len - below, false), nslots);

        while (slots[i])
            i = i + 1 < nslots ? i + 1 : 0;
        slots[i] = number;
        for (size_t j = 0; j < len; j++)
            dots += name[j] == '.';
        if (below)
            head->wild_dots[dots / 64] |= UINT64_C(1) << (dots % 64);
    }
    return APR_SUCCESS;
}

/* The nodes in a table with less room, and their keys in the filter. */
static apr_status_t put_nodes(redirect_builder *b)
{
    const rt_node *from = (const rt_node *)(const void *)b->nodes.bytes;
    uint32_t nslots = b->nnodes ? b->nnodes + b->nnodes / 3 + 1 : 0;
    apr_status_t rv = begin_section(b, RT_NODES, nslots, nslots * sizeof(rt_node), 8);

    for (uint32_t i = 0; rv == APR_SUCCESS && i < b->nnode_slots; i++) {
        if (!from[i].lengths)
            continue;
        rt_node_add((rt_node *)(void *)(b->image.bytes + b->section[RT_NODES].at), nslots,
                    from[i].key, from[i].lengths);
        filter_add(filter_of(b), b->section[RT_FILTER].count, from[i].key);
    }
    return rv;
}

static apr_status_t put_slack(redirect_builder *b)
{
    if (b->image.len + REDIRECT_SLACK > REDIRECT_MAX_IMAGE)
        return APR_ENOSPC;
    if (!rt_reserve(&b->image, REDIRECT_SLACK))
        return APR_ENOMEM;
    b->image.len += REDIRECT_SLACK;
    return APR_SUCCESS;
}

static apr_status_t put_sections(redirect_builder *b, const rt_buffer *postings, rt_header *head)
{
    apr_status_t rv = put_section(b, RT_POSTINGS, postings->bytes,
                                  (uint32_t)(postings->len / sizeof(uint32_t)), sizeof(uint32_t));

    if (rv == APR_SUCCESS)
        rv = put_nodes(b);
    if (rv == APR_SUCCESS)
        rv = put_section(b, RT_PROFILES, b->profiles.bytes, b->nprofiles, sizeof(redirect_profile));
    if (rv == APR_SUCCESS)
        rv = put_section(b, RT_SPACES, b->spaces, b->nspaces, sizeof(rt_space));
    if (rv == APR_SUCCESS)
        rv = put_section(b, RT_MARKS, b->marks.bytes, (uint32_t)(b->marks.len / sizeof(rt_mark)),
                         sizeof(rt_mark));
    if (rv == APR_SUCCESS)
        rv = put_host_slots(b, head);
    if (rv == APR_SUCCESS)
        rv = put_strings(b, RT_HOSTS, &b->hosts);
    if (rv == APR_SUCCESS)
        rv = put_strings(b, RT_STRIPS, &b->strips);
    if (rv == APR_SUCCESS)
        rv = put_strings(b, RT_ORIGINS, &b->origins);
    if (rv == APR_SUCCESS)
        rv = put_strings(b, RT_PATTERNS, &b->patterns);
    if (rv == APR_SUCCESS)
        rv = put_strings(b, RT_CONDITIONS, &b->conditions);
    if (rv == APR_SUCCESS)
        rv = put_strings(b, RT_DIRS, &b->dirs);
    if (rv == APR_SUCCESS)
        rv = put_slack(b);
    return rv;
}

static void put_header(redirect_builder *b, rt_header *head)
{
    const redirect_profile *profiles = (const redirect_profile *)(const void *)b->profiles.bytes;

    head->magic = RT_MAGIC;
    head->version = RT_VERSION;
    head->seed = b->seed;
    head->size = (uint32_t)b->image.len;
    head->records_end = b->records_end;
    head->rules = b->rules;
    head->exact = b->exact;
    head->prefix = b->prefix;
    head->pattern = b->pattern;
    for (uint32_t i = 0; i < b->nprofiles; i++) {
        head->uses_host |= !!(profiles[i].has & RT_HOST);
        head->uses_query |= !!(profiles[i].has & REDIRECT_HAS_QUERY);
        head->uses_condition |= !!(profiles[i].has & RT_CONDITION);
    }
    memcpy(head->section, b->section, sizeof(head->section));
    memcpy(b->image.bytes, head, sizeof(*head));
}

apr_status_t redirect_builder_finish(redirect_builder *builder, redirect_duplicate_fn *duplicate,
                                     void *baton, size_t *size)
{
    redirect_builder *b = builder;
    index_work work = {.b = b};
    rt_header head = {0};
    apr_status_t rv;

    b->records_end = (uint32_t)b->image.len;
    rv = rt_key_choose(b) ? make_index(&work, duplicate, baton) : APR_ENOMEM;
    rt_release(&b->entries);
    if (rv == APR_SUCCESS)
        rv = put_sections(b, &work.postings, &head);
    if (rv == APR_SUCCESS) {
        put_header(b, &head);
        *size = b->image.len;
    }
    rt_release(&work.postings);
    rt_release(&work.members);
    rt_release(&work.duplicates);
    return rv;
}

uint32_t redirect_builder_rules(const redirect_builder *builder)
{
    return builder->rules;
}

const void *redirect_builder_image(const redirect_builder *builder)
{
    return builder->image.bytes;
}

/* Written memory is given back on the way, so there are never two whole images. */
void redirect_builder_write(redirect_builder *builder, void *to)
{
    rt_buffer *image = &builder->image;

    for (size_t at = 0; at < image->len; at += WRITE_CHUNK) {
        size_t n = image->len - at < WRITE_CHUNK ? image->len - at : WRITE_CHUNK;

        memcpy((char *)to + at, image->bytes + at, n);
        madvise(image->bytes + at, n, MADV_DONTNEED);
    }
}

void *redirect_builder_take(redirect_builder *builder, size_t *mapped)
{
    void *image = builder->image.bytes;

    *mapped = builder->image.capacity;
    builder->image = (rt_buffer){0};
    return image;
}
