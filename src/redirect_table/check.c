/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Proof that an image is what a builder may have written: that every place, number and length in it
 * leads to something of the right kind inside of it. Called for an image that nobody else writes,
 * before it is shared. Look-ups do not rely on it, as they check what they use; but what it refuses
 * would be answered wrongly.
 *
 * One pass over the records notes in a bitmap where each begins, one over the postings does the
 * same; whatever points to a record or posting is then looked up there.
 */
#include "base/base.h"
#include "redirect_table/internal.h"

#define ALL_HAS \
    (REDIRECT_HAS_TARGET | RT_HOST | REDIRECT_HAS_QUERY | RT_PATTERN | RT_CONDITION | RT_DIR)

typedef struct check {
    const char *image;
    size_t size;
    const rt_header *head;
    const redirect_profile *profiles;
    uint8_t *starts; /* a bit for each place in front of the postings' end */
    uint32_t rules, exact, prefix, pattern, marks; /* passed */
} check;

static const void *section(const check *c, rt_section which)
{
    return c->image + c->head->section[which].at;
}

static uint32_t count(const check *c, rt_section which)
{
    return c->head->section[which].count;
}

static void mark_start(check *c, uint32_t place)
{
    c->starts[place / 8] |= (uint8_t)(1u << place % 8);
}

static bool is_start(const check *c, uint32_t place)
{
    return c->starts[place / 8] >> place % 8 & 1;
}

/* --- header and sections --------------------------------------------------------------------- */

static const size_t element_size[] = {
    [RT_BUCKETS] = sizeof(rt_bucket),
    [RT_FILTER] = sizeof(uint64_t),
    [RT_POSTINGS] = sizeof(uint32_t),
    [RT_NODES] = sizeof(rt_node),
    [RT_PROFILES] = sizeof(redirect_profile),
    [RT_SPACES] = sizeof(rt_space),
    [RT_MARKS] = sizeof(rt_mark),
    [RT_HOST_SLOTS] = sizeof(uint32_t),
    [RT_HOSTS] = sizeof(uint32_t),
    [RT_STRIPS] = sizeof(uint32_t),
    [RT_ORIGINS] = sizeof(uint32_t),
    [RT_PATTERNS] = sizeof(uint32_t),
    [RT_CONDITIONS] = sizeof(uint32_t),
    [RT_DIRS] = sizeof(uint32_t),
};

static_assert(sizeof(element_size) / sizeof(element_size[0]) == RT_SECTIONS, "all sections");

static bool section_ok(const rt_header *head, rt_section which, size_t size)
{
    uint64_t at = head->section[which].at, n = head->section[which].count;
    size_t align = which == RT_BUCKETS ? sizeof(rt_bucket) : sizeof(uint64_t);

    n += which >= RT_HOSTS;
    return at % align == 0 && at >= head->records_end &&
           at + n * element_size[which] <= size - REDIRECT_SLACK;
}

bool rt_header_possible(const rt_header *head, size_t size)
{
    if (size < sizeof(rt_header) + REDIRECT_SLACK || size > REDIRECT_MAX_IMAGE ||
        head->magic != RT_MAGIC || head->version != RT_VERSION || head->size != size ||
        head->records_end < sizeof(rt_header) || head->records_end > size - REDIRECT_SLACK)
        return false;
    for (unsigned i = 0; i < RT_SECTIONS; i++) {
        if (!section_ok(head, (rt_section)i, size))
            return false;
    }
    /* No record is shorter than its first number and the length of its source. */
    return head->rules <= (head->records_end - sizeof(rt_header)) / 2 &&
           head->section[RT_BUCKETS].count && head->section[RT_FILTER].count &&
           head->section[RT_SPACES].count <= RT_MAX_SPACES;
}

/* Each string ends in a NUL in front of the next. */
static bool strings_ok(const check *c, rt_section which)
{
    const uint32_t *at = section(c, which);
    uint32_t n = count(c, which);

    if (at[0] < sizeof(rt_header) || at[n] > c->size - REDIRECT_SLACK)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (at[i] >= at[i + 1] || at[i + 1] > c->size || c->image[at[i + 1] - 1] ||
            at[i + 1] - at[i] > REDIRECT_MAX_TEXT + 1)
            return false;
    }
    return true;
}

static bool profile_ok(const check *c, const redirect_profile *p)
{
    bool segments = p->kind == REDIRECT_EXACT || p->kind == REDIRECT_PREFIX;

    return rt_profile_possible(p) && !(p->has & ~(unsigned)ALL_HAS) &&
           !(p->origin && !(p->has & REDIRECT_HAS_TARGET)) &&
           !(redirect_kind_has_pattern(p->kind) && !(p->has & RT_PATTERN)) &&
           !(p->flags & REDIRECT_ANY_SLASH && !segments) && !(p->has & RT_DIR && !segments) &&
           !(p->flags & REDIRECT_FLOATING && p->kind != REDIRECT_PATTERN) &&
           p->strip <= count(c, RT_STRIPS) && p->origin <= count(c, RT_ORIGINS);
}

static bool profiles_ok(const check *c)
{
    bool host = false, query = false, condition = false;

    for (uint32_t i = 0; i < count(c, RT_PROFILES); i++) {
        if (!profile_ok(c, &c->profiles[i]))
            return false;
        host = host || c->profiles[i].has & RT_HOST;
        query = query || c->profiles[i].has & REDIRECT_HAS_QUERY;
        condition = condition || c->profiles[i].has & RT_CONDITION;
    }
    return c->head->uses_host == host && c->head->uses_query == query &&
           c->head->uses_condition == condition;
}

static bool spaces_ok(const check *c)
{
    const rt_space *spaces = section(c, RT_SPACES);

    for (uint32_t i = 0; i < count(c, RT_SPACES); i++) {
        if (spaces[i].icase > 1 || spaces[i].query > RT_QUERY_SET ||
            spaces[i].host > RT_HOST_BELOW || spaces[i].strip > count(c, RT_STRIPS))
            return false;
    }
    return true;
}

static bool host_slots_ok(const check *c)
{
    const uint32_t *slots = section(c, RT_HOST_SLOTS);

    for (uint32_t i = 0; i < count(c, RT_HOST_SLOTS); i++) {
        if (slots[i] > count(c, RT_HOSTS))
            return false;
    }
    return true;
}

/* --- records --------------------------------------------------------------------------------- */

/* A number in front of `end`, in at most five bytes. */
static bool take_number(const uint8_t **at, const uint8_t *end, uint64_t *number)
{
    *number = 0;
    for (unsigned i = 0; i < RT_NUMBER_BYTES && *at < end; i++) {
        uint8_t byte = *(*at)++;

        *number |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80))
            return *number <= UINT32_MAX;
    }
    return false;
}

/* True when all numbers of the record that begins at `at` are complete, and its profile is one
 * of the table's. */
static bool numbers_ok(const check *c, const uint8_t *at, const uint8_t *end)
{
    uint64_t first, number;
    unsigned fields = 1, has;

    if (!take_number(&at, end, &first) || first >> 1 >= count(c, RT_PROFILES))
        return false;
    has = c->profiles[first >> 1].has;
    fields += (first & 1) + !!(has & RT_HOST) + 2 * !!(has & REDIRECT_HAS_TARGET) +
              !!(has & REDIRECT_HAS_QUERY) + !!(has & RT_PATTERN) + !!(has & RT_CONDITION) +
              !!(has & RT_DIR);
    while (fields--) {
        if (!take_number(&at, end, &number))
            return false;
    }
    return true;
}

/* The number of a string has been checked. */
static uint32_t string_length(const check *c, rt_section which, uint32_t number)
{
    const uint32_t *ends = (const uint32_t *)section(c, which) + number;

    return number ? ends[0] - ends[-1] - 1 : 0;
}

static bool lengths_ok(const check *c, const rt_record *r, size_t room)
{
    uint64_t target = (uint64_t)r->middle_len + r->tail;
    uint64_t source = (uint64_t)string_length(c, RT_DIRS, r->dir) + r->source_len;

    target += string_length(c, RT_ORIGINS, r->profile->origin);
    return source <= REDIRECT_MAX_TEXT && !(r->dir && !r->source_len) &&
           r->query_len <= REDIRECT_MAX_TEXT && target <= REDIRECT_MAX_TEXT && r->tail <= source &&
           r->size <= room;
}

static bool numbers_of_strings_ok(const check *c, const rt_record *r)
{
    unsigned has = r->profile->has;

    return r->host <= count(c, RT_HOSTS) && !(has & RT_HOST && !r->host) &&
           r->pattern <= count(c, RT_PATTERNS) && !(has & RT_PATTERN && !r->pattern) &&
           r->condition <= count(c, RT_CONDITIONS) && !(has & RT_CONDITION && !r->condition) &&
           r->dir <= count(c, RT_DIRS) && !(has & RT_DIR && !r->dir);
}

/* The text of a TEMPLATE is one. */
static bool template_ok(const check *c, const rt_record *r)
{
    const uint32_t *ends = section(c, RT_PATTERNS);

    const char *pattern;
    size_t len;
    bool searched = r->profile->flags & REDIRECT_SEARCHED;

    if (r->profile->kind != REDIRECT_TEMPLATE)
        return !searched;
    pattern = c->image + ends[r->pattern - 1];
    len = ends[r->pattern] - ends[r->pattern - 1] - 1;
    return redirect_template_is(pattern, len) &&
           redirect_template_needs_search(pattern, len) == searched;
}

static void count_record(check *c, const rt_record *r)
{
    c->rules++;
    if (r->profile->kind == REDIRECT_EXACT || r->profile->kind == REDIRECT_LITERAL)
        c->exact++;
    else if (redirect_kind_has_pattern(r->profile->kind))
        c->pattern++;
    else
        c->prefix++;
}

/* Those that the next record is the first for. */
static bool marks_ok(check *c, uint32_t at, uint32_t line)
{
    const rt_mark *marks = section(c, RT_MARKS);

    for (; c->marks <= at >> RT_MARK_SHIFT; c->marks++) {
        if (c->marks == count(c, RT_MARKS) || marks[c->marks].at != at ||
            marks[c->marks].line != line || marks[c->marks].number != c->rules)
            return false;
    }
    return true;
}

/* All records, one behind the other, fill the room that there is for them. */
static bool records_ok(check *c)
{
    uint32_t at = sizeof(rt_header), end = c->head->records_end, line = 0;

    while (at < end) {
        const char *record = c->image + at;
        rt_record r;

        if (!numbers_ok(c, (const uint8_t *)record, (const uint8_t *)c->image + end))
            return false;
        rt_decode(record, c->profiles, &r);
        if (!numbers_of_strings_ok(c, &r) || !lengths_ok(c, &r, end - at) || !template_ok(c, &r))
            return false;
        line += 1 + r.line_delta;
        if (!marks_ok(c, at, line))
            return false;
        mark_start(c, at);
        count_record(c, &r);
        at += r.size;
    }
    return c->rules == c->head->rules && c->exact == c->head->exact &&
           c->prefix == c->head->prefix && c->pattern == c->head->pattern &&
           c->marks == count(c, RT_MARKS);
}

/* --- the index ------------------------------------------------------------------------------- */

static bool is_record(const check *c, uint32_t place)
{
    return place >= sizeof(rt_header) && place < c->head->records_end && is_start(c, place);
}

static bool has_condition(const check *c, uint32_t place)
{
    rt_record r;

    rt_decode(c->image + place, c->profiles, &r);
    return r.condition != 0;
}

static bool postings_ok(check *c)
{
    const uint32_t *words = section(c, RT_POSTINGS);
    uint32_t at = c->head->section[RT_POSTINGS].at, n = count(c, RT_POSTINGS), left;

    for (uint32_t i = 0; i < n; i++) {
        bool said, found = false;

        mark_start(c, at + i * (uint32_t)sizeof(uint32_t));
        left = words[i] & ~RT_CONDITIONED;
        said = words[i] & RT_CONDITIONED;
        if (left > n - i - 1)
            return false;
        while (left--) {
            i++;
            if (!is_record(c, words[i]))
                return false;
            found = found || has_condition(c, words[i]);
        }
        if (said != found)
            return false;
    }
    return true;
}

static bool is_posting(const check *c, uint32_t place)
{
    uint64_t at = c->head->section[RT_POSTINGS].at;

    return place >= at && place < at + count(c, RT_POSTINGS) * sizeof(uint32_t) &&
           is_start(c, place);
}

static bool buckets_ok(const check *c)
{
    const rt_bucket *buckets = section(c, RT_BUCKETS);
    uint32_t n = count(c, RT_BUCKETS);

    for (uint32_t i = 0; i < n; i++) {
        if (buckets[i].used > RT_WAYS || buckets[i].reach >= n)
            return false;
        for (unsigned j = 0; j < buckets[i].used; j++) {
            uint32_t place = buckets[i].place[j];

            if (!is_record(c, place) && !is_posting(c, place))
                return false;
        }
        for (unsigned j = buckets[i].used; j < RT_WAYS; j++) {
            if (buckets[i].tag[j])
                return false;
        }
    }
    return true;
}

apr_status_t redirect_table_validate(const void *image, size_t size)
{
    check c = {.image = image, .size = size, .head = image};
    bool ok;

    if (size < sizeof(rt_header) || !rt_header_possible(c.head, size))
        return APR_EINVAL;
    c.profiles = section(&c, RT_PROFILES);
    for (unsigned i = RT_HOSTS; i < RT_SECTIONS; i++) {
        if (!strings_ok(&c, (rt_section)i))
            return APR_EINVAL;
    }
    if (!profiles_ok(&c) || !spaces_ok(&c) || !host_slots_ok(&c))
        return APR_EINVAL;
    c.starts = htc_pages_take(size / 8 + 1);
    if (!c.starts)
        return APR_ENOMEM;
    ok = records_ok(&c) && postings_ok(&c) && buckets_ok(&c);
    htc_pages_give(c.starts, size / 8 + 1);
    return ok ? APR_SUCCESS : APR_EINVAL;
}
