/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The first half of building a redirect table: each rule is checked, appended to the image as a
 * record, and given the key under which look-ups will find it (redirect_table/key.c). Called by all
 * who compile rules; redirect_table/index.c then makes the index and the rest of the image.
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
#define LEAST_DIR      4 /* bytes; its number takes two */
#define MOST_DIR       1024
#define DIR_OFTEN      4 /* rows until it is kept once for all */
#define DIR_COUNT      UINT32_C(7)

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

void redirect_builder_keep_all(redirect_builder *builder)
{
    builder->keeps_all = true;
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
    rt_release(&builder->open);
    rt_release(&builder->literals);
    rt_strings_release(&builder->hosts);
    rt_strings_release(&builder->strips);
    rt_strings_release(&builder->origins);
    rt_strings_release(&builder->patterns);
    rt_strings_release(&builder->conditions);
    rt_strings_release(&builder->dirs);
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

static bool host_ok(const char *host, size_t len)
{
    return !host || (len && len <= REDIRECT_MAX_HOST && !(rt_is_below(host, len) && len == 2));
}

/* A template is compared with paths that begin with its source. */
static bool template_ok(const redirect_rule *rule)
{
    return rule->kind != REDIRECT_TEMPLATE ||
           redirect_template_is(rule->pattern, rule->pattern_len);
}

static bool rule_ok(const redirect_rule *rule)
{
    return rule->kind >= REDIRECT_EXACT && rule->kind <= REDIRECT_TEMPLATE && flags_ok(rule) &&
           rule->source && (!redirect_kind_has_pattern(rule->kind) || rule->pattern) &&
           text_ok(rule->source, rule->source_len, true) &&
           text_ok(rule->pattern, rule->pattern_len, false) &&
           text_ok(rule->query, rule->query_len, true) &&
           text_ok(rule->strip, rule->strip_len, false) &&
           text_ok(rule->target, rule->target_len, true) &&
           text_ok(rule->condition, rule->condition_len, false) &&
           !(rule->condition && !rule->condition_len) &&
           !(rule->literals && !redirect_kind_has_pattern(rule->kind)) && template_ok(rule) &&
           host_ok(rule->host, rule->host_len) && rule->status >= 100 && rule->status <= 999 &&
           rule->options <= UINT16_MAX;
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
    if (rule->condition) {
        d->record.condition =
            rt_strings_number(&b->conditions, b->seed, rule->condition, rule->condition_len, 0);
        if (!d->record.condition)
            return false;
        d->profile.has |= RT_CONDITION;
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

/* --- its directory --------------------------------------------------------------------------- */

/* A number for a directory that was seen often enough, of late; 0: none, or no memory. */
static uint32_t learn_dir(redirect_builder *b, const char *dir, size_t len)
{
    uint64_t hash = rt_hash(b->seed, dir, len, false);
    uint32_t *seen = &b->dirs_seen[hash >> 32 & (RT_DIRS_SEEN - 1)];
    uint32_t tag = (uint32_t)hash & ~DIR_COUNT;

    if (b->dirs.count == RT_MAX_DIRS)
        return 0;
    if ((*seen & ~DIR_COUNT) != tag) {
        *seen = *seen & DIR_COUNT ? *seen - 1 : tag | 1;
        return 0;
    }
    if ((*seen & DIR_COUNT) < DIR_OFTEN) {
        ++*seen;
        return 0;
    }
    return rt_strings_number(&b->dirs, b->seed, dir, len, 0);
}

/* What is in front of the last segment, if many rules have it. The record's source stays whole
 * until its key is made. */
static size_t set_dir(redirect_builder *b, draft *d)
{
    rt_record *r = &d->record;
    const char *slash;
    size_t len;

    if (d->rule->kind > REDIRECT_PREFIX || r->source_len <= LEAST_DIR)
        return 0;
    slash = memrchr(r->source, '/', r->source_len - 1);
    len = slash ? (size_t)(slash - r->source) + 1 : 0;
    if (len < LEAST_DIR || len > MOST_DIR)
        return 0;
    r->dir = rt_strings_find(&b->dirs, b->seed, r->source, len, 0);
    if (!r->dir)
        r->dir = learn_dir(b, r->source, len);
    if (!r->dir)
        return 0;
    d->profile.has |= RT_DIR;
    return len;
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
    if (has & RT_CONDITION)
        at = put_number(at, r->condition);
    if (has & RT_DIR) {
        *at++ = (char)(r->dir | 0x80);
        *at++ = (char)(r->dir >> 7);
    }
    if (r->line_delta)
        at = put_number(at, rt_zigzag(r->line_delta));
    return (size_t)(at - to);
}

/* More than the image can come to be, with this much more in it. */
static uint64_t image_estimate(const redirect_builder *b, size_t more)
{
    const rt_strings *all[] = {&b->hosts,    &b->strips,     &b->origins,
                               &b->patterns, &b->conditions, &b->dirs};
    uint64_t bytes = (b->image.len + more) * 65 / 64 + 4096;

    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        bytes += all[i]->text.len + (uint64_t)all[i]->count * BYTES_PER_NAME;
    return bytes + ((uint64_t)b->rules + 1) * BYTES_PER_RULE + b->profiles.len +
           (b->nnodes + b->open.len / sizeof(rt_open)) * BYTES_PER_NODE;
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
    else if (redirect_kind_has_pattern(rule->kind))
        b->pattern++;
    else
        b->prefix++;
}

redirect_outcome redirect_builder_add(redirect_builder *builder, const redirect_rule *rule)
{
    redirect_builder *b = builder;
    draft d = {.rule = rule};
    uint32_t profile;
    uint64_t key = 0;
    size_t most, dir_len;

    if (!rule_ok(rule))
        return REDIRECT_BAD;
    most = RT_MAX_NUMBERS + rule->source_len + rule->target_len + rule->query_len;
    if (image_estimate(b, most + rule->host_len + rule->pattern_len + rule->strip_len +
                              rule->condition_len) > REDIRECT_MAX_IMAGE)
        return REDIRECT_TOO_BIG;
    d.profile.kind = (uint8_t)rule->kind;
    d.profile.flags = (uint16_t)rule->flags;
    if (rule->kind == REDIRECT_TEMPLATE &&
        redirect_template_needs_search(rule->pattern, rule->pattern_len))
        d.profile.flags |= REDIRECT_SEARCHED;
    d.profile.status = (uint16_t)rule->status;
    d.profile.options = (uint16_t)rule->options;
    set_source(b, &d);
    if (!set_names(b, &d) || !set_target(b, &d))
        return REDIRECT_NO_MEMORY;
    dir_len = set_dir(b, &d);
    profile = profile_number(b, &d.profile);
    d.record.profile = &d.profile;
    if (!profile || !rt_reserve(&b->image, most) || !rt_reserve(&b->entries, sizeof(rt_entry)) ||
        !rt_reserve(&b->marks, ((b->last_size >> RT_MARK_SHIFT) + 2) * sizeof(rt_mark)) ||
        !(rt_key_is_open(rule) ? rt_key_later(b, rule) : rt_key_make(b, &d.record, &key)))
        return REDIRECT_NO_MEMORY;
    d.record.source += dir_len;
    d.record.source_len -= (uint32_t)dir_len;
    d.record.line_delta = rule->line - b->last_line - 1;
    put_record(b, &d, profile - 1, key);
    count_rule(b, rule);
    return REDIRECT_ADDED;
}
