/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Comparing and hashing for redirect tables: letters in any case, and queries as sets of
 * parameters. Used by the builder, which puts rules where look-ups find them, and by the look-ups.
 */
#include "redirect_table/internal.h"
#include "base/base.h"

static void fold_into(char *to, const char *from, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (char)rt_fold(from[i]);
}

static uint64_t hash_chunk(uint64_t seed, const char *bytes, size_t len, bool icase)
{
    char folded[RT_CHUNK];

    if (!icase || !len)
        return XXH3_64bits_withSeed(bytes, len, seed);
    fold_into(folded, bytes, len);
    return XXH3_64bits_withSeed(folded, len, seed);
}

uint64_t rt_hash_long(uint64_t seed, const char *bytes, size_t len, bool icase)
{
    uint64_t hash = 0;

    if (len <= RT_CHUNK && !icase)
        return XXH3_64bits_withSeed(bytes, len, seed);
    do {
        size_t n = len < RT_CHUNK ? len : RT_CHUNK;

        hash = rt_mix(hash ^ RT_K1, hash_chunk(seed, bytes, n, icase));
        bytes += n;
        len -= n;
    } while (len);
    return hash;
}

rt_secret rt_secret_of(uint64_t seed)
{
    rt_secret secret = {.seed = seed};

    for (unsigned i = 0; i < 8; i++)
        secret.lane[i] = rt_mix(seed ^ RT_K2, (i + 1) * RT_K1 ^ rt_rotate(seed, 32));
    return secret;
}

static void start_gathering(rt_gathered *g, uint64_t seed)
{
    g->hash = seed ^ RT_K3;
    g->n = 16;
    g->total = 0;
}

static inline void gather(rt_gathered *g, uint64_t seed, char byte)
{
    if (g->total < RT_SHORT_PATH)
        g->first[g->total] = byte;
    if (g->n == 32) {
        g->hash = rt_path_next(g->hash, seed, g->block + 16);
        memcpy(g->block, g->block + 16, 16);
        g->n = 16;
    }
    g->block[g->n++] = byte;
    g->total++;
}

/* As rt_hash_clean() of all of them. */
static uint64_t gathered_hash(const rt_gathered *g, const rt_secret *secret)
{
    if (g->total <= RT_SHORT_PATH)
        return rt_hash_clean(secret, g->first, g->total);
    return rt_path_last(g->hash, secret->seed, g->block + g->n - 16, g->total);
}

void rt_hasher_start(rt_hasher *h, const rt_secret *secret, const char *path, bool icase)
{
    h->secret = secret;
    h->path = path;
    h->icase = icase;
    h->blocks = h->at = 0;
    h->hash = secret->seed ^ RT_K3;
    start_gathering(&h->gathered, secret->seed);
}

uint64_t rt_hash_to(rt_hasher *h, size_t end, size_t clean)
{
    const char *path = h->path;
    uint64_t seed = h->secret->seed;

    if (!h->icase && end <= clean) {
        if (end <= RT_SHORT_PATH)
            return rt_hash_clean(h->secret, path, end);
        for (; h->blocks + 16 < end; h->blocks += 16)
            h->hash = rt_path_next(h->hash, seed, path + h->blocks);
        return rt_path_last(h->hash, seed, path + end - 16, end);
    }
    for (; h->at < end; h->at++) {
        char byte = path[h->at];

        if (byte != '/' || path[h->at + 1] != '/')
            gather(&h->gathered, seed, h->icase ? (char)rt_fold(byte) : byte);
    }
    return gathered_hash(&h->gathered, h->secret);
}

uint64_t rt_hash_path(const rt_secret *secret, const char *path, size_t len, bool icase)
{
    rt_hasher hasher;

    while (len && path[len - 1] == '/')
        len--;
    rt_hasher_start(&hasher, secret, path, icase);
    return rt_hash_to(&hasher, len, 0);
}

bool rt_equal_fold(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (rt_fold(a[i]) != rt_fold(b[i]))
            return false;
    }
    return true;
}

bool rt_contains(const char *text, size_t len, const char *part, size_t part_len, bool icase)
{
    if (!icase)
        return memmem(text, len, part, part_len) != NULL;
    for (; len >= part_len; text++, len--) {
        if (rt_equal_fold(text, part, part_len))
            return true;
        if (!len)
            break;
    }
    return false;
}

/* --- queries --------------------------------------------------------------------------------- */

typedef struct text {
    const char *at;
    size_t len;
} text;

/* Take what is in front of the first `separator`, or all, off the text. */
static text take(text *from, char separator)
{
    const char *end = memchr(from->at, separator, from->len);
    text taken = {from->at, end ? (size_t)(end - from->at) : from->len};
    size_t gone = taken.len + (end ? 1 : 0);

    from->at += gone;
    from->len -= gone;
    return taken;
}

static bool same(text a, text b)
{
    return a.len == b.len && !memcmp(a.at, b.at, a.len);
}

static bool is_stripped(text parameter, text strip)
{
    text name = take(&parameter, '=');

    while (strip.len) {
        text entry = take(&strip, ',');

        if (!entry.len)
            continue;
        if (entry.at[entry.len - 1] == '*') {
            entry.len--;
            if (name.len >= entry.len && !memcmp(name.at, entry.at, entry.len))
                return true;
        } else if (same(name, entry)) {
            return true;
        }
    }
    return false;
}

/* The next parameter that counts. */
static bool next_parameter(text *query, text strip, text *parameter)
{
    while (query->len) {
        *parameter = take(query, '&');
        if (parameter->len && !(strip.len && is_stripped(*parameter, strip)))
            return true;
    }
    return false;
}

static text text_of(const char *at, size_t len)
{
    return (text){at ? at : "", at ? len : 0};
}

uint64_t rt_query_hash(uint64_t seed, const char *query, size_t len, const char *strip,
                       size_t strip_len)
{
    text rest = text_of(query, len), names = text_of(strip, strip_len), parameter;
    uint64_t sum = 0;

    while (next_parameter(&rest, names, &parameter))
        sum += rt_mix(rt_hash(seed, parameter.at, parameter.len, false), RT_K2);
    return sum;
}

static size_t count_all(text query, text strip)
{
    size_t count = 0;
    text parameter;

    while (next_parameter(&query, strip, &parameter))
        count++;
    return count;
}

static size_t count_same(text query, text wanted)
{
    size_t count = 0;
    text parameter;

    while (next_parameter(&query, (text){"", 0}, &parameter))
        count += same(parameter, wanted);
    return count;
}

/* Equal numbers of all parameters and, for each, of its like: the same multiset. The square of the
 * rule's parameters in time, and so asked last. */
bool rt_query_equal(const char *a, size_t a_len, const char *b, size_t b_len, const char *strip,
                    size_t strip_len)
{
    text left = text_of(a, a_len), right = text_of(b, b_len), names = text_of(strip, strip_len);
    text rest = left, parameter;

    if (count_all(left, names) != count_all(right, names))
        return false;
    while (next_parameter(&rest, names, &parameter)) {
        if (count_same(left, parameter) != count_same(right, parameter))
            return false;
    }
    return true;
}

bool redirect_query_equal(const char *a, size_t a_len, const char *b, size_t b_len,
                          const char *strip, size_t strip_len)
{
    return rt_query_equal(a, a_len, b, b_len, strip, strip_len);
}

/* --- rules as text again --------------------------------------------------------------------- */

/* Into a buffer that has room for the target and no more. */
static void copy_exactly(const redirect_match *match, char *to)
{
    for (unsigned i = 0; i < 4; i++) {
        memcpy(to, match->part[i], match->part_len[i]);
        to += match->part_len[i];
    }
}

/* How long pieces are is not known before memory was waited for: a guess that is wrong costs more
 * than some bytes too many. */
HTC_HOT void redirect_match_target(const redirect_match *match, char *to)
{
    size_t first = match->part_len[0], second = match->part_len[1], third = match->part_len[2];

    if (__builtin_expect((first | second | third | match->part_len[3]) > REDIRECT_SLACK, 0)) {
        copy_exactly(match, to);
        return;
    }
    memcpy(to, match->part[0], REDIRECT_SLACK);
    memcpy(to + first, match->part[1], REDIRECT_SLACK);
    memcpy(to + first + second, match->part[2], REDIRECT_SLACK);
    memcpy(to + first + second + third, match->part[3], REDIRECT_SLACK);
}

/* The first `len` bytes of x's source, of which `cut` more are in its directory than in y's. */
static bool same_pieces(const rt_record *x, const rt_record *y, size_t cut, size_t len, bool icase)
{
    return rt_equal(x->dir_text, y->dir_text, y->dir_len, icase) &&
           rt_equal(x->dir_text + y->dir_len, y->source, cut, icase) &&
           rt_equal(x->source, y->source + cut, len - x->dir_len, icase);
}

bool rt_same_source(const rt_record *x, const rt_record *y)
{
    bool icase = x->profile->flags & REDIRECT_ICASE;
    size_t len = rt_compared_len(x);

    if (len != rt_compared_len(y))
        return false;
    return x->dir_len >= y->dir_len ? same_pieces(x, y, x->dir_len - y->dir_len, len, icase)
                                    : same_pieces(y, x, y->dir_len - x->dir_len, len, icase);
}

void redirect_table_info_get(const redirect_table *table, redirect_table_info *info)
{
    const rt_header *head = &table->head;

    *info = (redirect_table_info){.rules = head->rules,
                                  .exact = head->exact,
                                  .prefix = head->prefix,
                                  .pattern = head->pattern,
                                  .patterns = head->section[RT_PATTERNS].count,
                                  .bytes = head->size,
                                  .uses_host = head->uses_host,
                                  .uses_query = head->uses_query,
                                  .uses_condition = head->uses_condition};
}

/* All but its line, of the record at this place. */
static void rule_of(const redirect_table *table, uint32_t rule, const rt_record *r,
                    redirect_rule *out, char *buffer)
{
    redirect_match match;

    rt_fill(table, rule, r, 0, &match);
    out->kind = match.profile.kind;
    out->flags = match.profile.flags & ~(unsigned)REDIRECT_SEARCHED;
    out->source = r->source;
    out->source_len = r->dir_len + r->source_len;
    if (r->dir_len) {
        memcpy(buffer + REDIRECT_MAX_TEXT, r->dir_text, r->dir_len);
        memcpy(buffer + REDIRECT_MAX_TEXT + r->dir_len, r->source, r->source_len);
        out->source = buffer + REDIRECT_MAX_TEXT;
    }
    out->status = match.profile.status;
    out->options = match.profile.options;
    out->pattern = match.pattern;
    out->pattern_len = match.pattern_len;
    out->strip = match.strip;
    out->strip_len = match.strip_len;
    if (r->condition)
        out->condition = rt_text(table, RT_CONDITIONS, r->condition, &out->condition_len);
    if (r->host)
        out->host = rt_text(table, RT_HOSTS, r->host, &out->host_len);
    if (r->profile->has & REDIRECT_HAS_QUERY) {
        out->query = r->query;
        out->query_len = r->query_len;
    }
    if (r->profile->has & REDIRECT_HAS_TARGET) {
        copy_exactly(&match, buffer);
        out->target = buffer;
        out->target_len = match.target_len;
    }
}

void redirect_table_rule(const redirect_table *table, uint32_t rule, redirect_rule *out,
                         char *buffer, uint32_t *index)
{
    rt_record r;

    *out = (redirect_rule){.kind = REDIRECT_EXACT, .source = "", .status = 404};
    out->line = redirect_table_line(table, rule, index);
    if (rt_take(table, rule, &r))
        rule_of(table, rule, &r, out, buffer);
}

bool redirect_table_step(const redirect_table *table, redirect_step *at, redirect_rule *out,
                         char *buffer)
{
    uint32_t rule = at->next ? at->next : (uint32_t)sizeof(rt_header);
    rt_record r;

    if (rule >= table->records_end || !rt_take(table, rule, &r))
        return false;
    at->index += at->rule != 0;
    at->line += 1 + r.line_delta;
    at->rule = rule;
    at->next = rule + r.size;
    *out = (redirect_rule){.kind = REDIRECT_EXACT, .source = "", .status = 404, .line = at->line};
    rule_of(table, rule, &r, out, buffer);
    return true;
}

uint32_t redirect_table_next(const redirect_table *table, uint32_t rule)
{
    uint32_t next = sizeof(rt_header);
    rt_record r;

    if (rule)
        next = rt_take(table, rule, &r) ? rule + r.size : table->records_end;
    return next < table->records_end ? next : 0;
}

/* A private copy. */
static rt_mark mark_at(const redirect_table *table, uint32_t i)
{
    const rt_mark *marks =
        (const rt_mark *)(const void *)(table->image + table->head.section[RT_MARKS].at);
    rt_mark mark = marks[i];

    RT_READ_DONE();
    return mark;
}

uint32_t redirect_table_line(const redirect_table *table, uint32_t rule, uint32_t *index)
{
    rt_mark mark = {0};
    rt_record r;
    bool there = false;

    if (rule >> RT_MARK_SHIFT < rt_count(table, RT_MARKS))
        mark = mark_at(table, rule >> RT_MARK_SHIFT);
    if (mark.at < rule)
        there = rt_take(table, mark.at, &r);
    while (there && mark.at < rule) {
        mark.at += r.size;
        there = rt_take(table, mark.at, &r);
        mark.line += 1 + (there ? r.line_delta : 0);
        mark.number++;
    }
    if (index)
        *index = mark.number < table->head.rules ? mark.number : 0;
    return mark.line;
}

uint32_t redirect_table_nth(const redirect_table *table, uint32_t index)
{
    uint32_t low = 0, high = rt_count(table, RT_MARKS), rule, number;
    rt_mark mark;

    if (!high)
        return 0;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (mark_at(table, middle).number <= index)
            low = middle;
        else
            high = middle;
    }
    mark = mark_at(table, low);
    rule = mark.at;
    for (number = mark.number; rule && number < index; number++)
        rule = redirect_table_next(table, rule);
    return number == index ? rule : 0;
}

/* With its length, so that no two lists of strings look the same. */
static void hash_text(XXH3_state_t *state, const char *text, size_t len)
{
    uint64_t number = len;

    XXH3_64bits_update(state, &number, sizeof(number));
    if (len)
        XXH3_64bits_update(state, text, len);
}

/* As hash_text() of the whole source. */
static void hash_pieces(XXH3_state_t *state, const rt_record *r)
{
    uint64_t number = (uint64_t)r->dir_len + r->source_len;

    XXH3_64bits_update(state, &number, sizeof(number));
    if (r->dir_len)
        XXH3_64bits_update(state, r->dir_text, r->dir_len);
    if (r->source_len)
        XXH3_64bits_update(state, r->source, r->source_len);
}

uint64_t redirect_table_key(const redirect_table *table, uint32_t rule)
{
    XXH3_state_t state;
    redirect_match match;
    rt_record r;
    size_t len = 0;
    const char *text;
    uint32_t kind;

    if (!rt_take(table, rule, &r))
        return 0;
    rt_fill(table, rule, &r, 0, &match);
    /* which of the two a pattern is was not always told apart */
    kind = match.profile.kind == REDIRECT_TEMPLATE ? REDIRECT_PATTERN : match.profile.kind;
    XXH3_64bits_reset(&state);
    hash_pieces(&state, &r);
    text = rt_text(table, RT_HOSTS, r.host, &len);
    hash_text(&state, text, len);
    hash_text(&state, r.query, r.query_len);
    hash_text(&state, match.strip, match.strip_len);
    hash_text(&state, match.pattern, match.pattern_len);
    for (unsigned i = 0; i < 4; i++) /* where the target is cut may differ from image to image */
        XXH3_64bits_update(&state, match.part_len[i] ? match.part[i] : "", match.part_len[i]);
    hash_text(&state,
              (const char *)(uint32_t[]){kind, match.profile.flags, (uint32_t)match.profile.status,
                                         !!(r.profile->has & REDIRECT_HAS_TARGET),
                                         !!(r.profile->has & REDIRECT_HAS_QUERY)},
              5 * sizeof(uint32_t));
    if (r.condition) {
        text = rt_text(table, RT_CONDITIONS, r.condition, &len);
        hash_text(&state, text, len);
    }
    return XXH3_64bits_digest(&state);
}
