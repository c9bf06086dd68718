/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is known of parts of a regex, and how the knowledge about a whole comes from its parts: one
 * behind the other, alternatives, repetition. Used by the reader of patterns
 * (regex/parse.c) and by regex/regex.c. See regex/internal.h for the method.
 */
#include "regex/internal.h"

#include <string.h>

#define TEXT_MAX    4096 /* bytes of a head; longer ones are cut */
#define FOOT_MAX    256  /* bytes of a foot; longer ones lose their beginning */
#define STEPS_MAX   64   /* of a repetition with a highest number, beyond the lowest */
#define SPENT_MAX   ((size_t)4 << 20)
#define NO_SET      ((regex_set){NULL, 0})
#define ONE_TEXT(t) ((regex_set){&(t), 1})

static const regex_text nothing = {"", 0, REGEX_OPEN, false, false};
static const regex_text sometimes_nothing = {"", 0, REGEX_OPEN, false, true};
static const regex_text unknown = {"", 0, REGEX_UNKNOWN, false, true};
static const regex_text everything = {"", 0, REGEX_REST, false, false};
static const regex_text at_start = {"", 0, REGEX_OPEN, true, false};
static const regex_text at_end = {"", 0, REGEX_END, false, false};
static const regex_text at_end_nl = {"", 0, REGEX_END_NL, false, false};

static bool spend(regex_work *work, size_t amount)
{
    if (work->spent < SPENT_MAX)
        work->spent += amount;
    return work->spent < SPENT_MAX;
}

static uint32_t times(uint32_t a, uint32_t b)
{
    uint64_t product = (uint64_t)a * b;

    return product < REGEX_WAYS_MAX ? (uint32_t)product : REGEX_WAYS_MAX;
}

static uint32_t plus(uint32_t a, uint32_t b)
{
    return a + b < REGEX_WAYS_MAX ? a + b : REGEX_WAYS_MAX;
}

/* a to the power of n, saturated. */
static uint32_t power(uint32_t a, uint32_t n)
{
    uint32_t result = 1;

    if (a <= 1)
        return n ? a : 1;
    for (; n && result < REGEX_WAYS_MAX; n--)
        result = times(result, a);
    return result;
}

/* Sets */

static regex_text *make_room(regex_work *work, size_t count)
{
    size_t bytes = (count ? count : 1) * sizeof(regex_text);

    spend(work, bytes);
    return apr_palloc(work->pool, bytes);
}

static bool same_text(const regex_text *a, const regex_text *b)
{
    return a->len == b->len && a->tail == b->tail && a->at_start == b->at_start &&
           !memcmp(a->bytes, b->bytes, a->len);
}

/* Add a text unless it is there; what one of two equal texts says exactly, the two do. */
static void add_text(regex_work *work, regex_text *texts, unsigned *count, const regex_text *text)
{
    spend(work, *count + 1);
    for (unsigned i = 0; i < *count; i++) {
        if (same_text(&texts[i], text)) {
            texts[i].superset = texts[i].superset && text->superset;
            return;
        }
    }
    texts[(*count)++] = *text;
}

static const char *glue(regex_work *work, const regex_text *a, const regex_text *b)
{
    char *bytes;

    if (!a->len)
        return b->bytes;
    if (!b->len)
        return a->bytes;
    spend(work, a->len + b->len);
    bytes = apr_palloc(work->pool, a->len + b->len);
    memcpy(bytes, a->bytes, a->len);
    memcpy(bytes + a->len, b->bytes, b->len);
    return bytes;
}

uint32_t redirect_regex_shortest(const regex_set *set)
{
    uint32_t shortest = set->count ? UINT32_MAX : 0;

    for (unsigned i = 0; i < set->count; i++) {
        if (set->texts[i].len < shortest)
            shortest = set->texts[i].len;
    }
    return shortest;
}

static uint32_t longest(const regex_set *set)
{
    uint32_t max = 0;

    for (unsigned i = 0; i < set->count; i++) {
        if (set->texts[i].len > max)
            max = set->texts[i].len;
    }
    return max;
}

static regex_set cut_at(regex_work *work, const regex_set *set, uint32_t len)
{
    regex_text *texts = make_room(work, set->count);
    unsigned count = 0;

    for (unsigned i = 0; i < set->count; i++) {
        regex_text text = set->texts[i];

        if (text.len > len) {
            text.len = len;
            text.tail = REGEX_UNKNOWN;
            text.superset = true;
        }
        add_text(work, texts, &count, &text);
    }
    return (regex_set){texts, count};
}

regex_set redirect_regex_shorten(regex_work *work, const regex_set *set, unsigned max)
{
    uint32_t low = 0, high = longest(set);
    regex_set best;

    if (set->count <= max)
        return *set;
    best = cut_at(work, set, 0); /* the more is cut, the fewer remain: halve */
    while (low < high && spend(work, 1)) {
        uint32_t middle = high - (high - low) / 2;
        regex_set cut = cut_at(work, set, middle);

        if (cut.count <= max) {
            low = middle;
            best = cut;
        } else {
            high = middle - 1;
        }
    }
    return best;
}

static regex_set unite(regex_work *work, const regex_set *a, const regex_set *b)
{
    regex_text *texts = make_room(work, (size_t)a->count + b->count);
    unsigned count = 0;

    for (unsigned i = 0; i < a->count; i++)
        add_text(work, texts, &count, &a->texts[i]);
    for (unsigned i = 0; i < b->count; i++)
        add_text(work, texts, &count, &b->texts[i]);
    return (regex_set){texts, count};
}

/* Every text, with anything behind. */
static regex_set with_unknown_tails(regex_work *work, const regex_set *set)
{
    regex_text *texts = make_room(work, set->count);
    unsigned count = 0;

    for (unsigned i = 0; i < set->count; i++) {
        regex_text text = set->texts[i];

        text.tail = REGEX_UNKNOWN;
        text.superset = true;
        add_text(work, texts, &count, &text);
    }
    return (regex_set){texts, count};
}

/* Simple parts */

static regex_part part_of(const regex_text *head, const regex_text *foot)
{
    return (regex_part){.heads = {head, 1}, .feet = {foot, 1}, .ways = 1};
}

regex_part redirect_regex_empty(bool superset)
{
    return part_of(superset ? &sometimes_nothing : &nothing, &nothing);
}

regex_part redirect_regex_unknown(uint32_t ways)
{
    regex_part part = part_of(&unknown, &unknown);

    part.ways = ways;
    return part;
}

regex_part redirect_regex_start(void)
{
    return part_of(&at_start, &nothing);
}

regex_part redirect_regex_end(regex_tail tail)
{
    return part_of(tail == REGEX_END ? &at_end : &at_end_nl, &nothing);
}

regex_part redirect_regex_byte(bool any)
{
    regex_part part = part_of(&unknown, &unknown);

    part.one_byte = true;
    part.any_byte = any;
    return part;
}

regex_part redirect_regex_literal(regex_work *work, const char *bytes, size_t len, bool icase)
{
    regex_text *text;
    char *copy;
    regex_part part;

    if (!spend(work, len))
        return redirect_regex_unknown(REGEX_WAYS_MAX);
    text = make_room(work, 1);
    copy = apr_palloc(work->pool, len + 1);
    *text = nothing;
    for (size_t i = 0; i < len; i++) {
        copy[i] = work->fold ? (char)regex_lower((unsigned char)bytes[i]) : bytes[i];
        if (work->fold && !icase && regex_is_letter((unsigned char)bytes[i]))
            text->superset = true;
    }
    text->bytes = copy;
    text->len = (uint32_t)len;
    part = part_of(text, text);
    part.one_byte = len == 1;
    if (len > TEXT_MAX)
        part.heads = cut_at(work, &part.heads, TEXT_MAX);
    return part;
}

static bool in_both_cases(const regex_bytes *bytes, unsigned c)
{
    return !regex_is_letter((unsigned char)c) || regex_has_byte(bytes, c ^ 0x20);
}

static bool listed(const regex_text *texts, unsigned count, char byte)
{
    for (unsigned i = 0; i < count; i++) {
        if (texts[i].bytes[0] == byte)
            return true;
    }
    return false;
}

regex_part redirect_regex_one_of(regex_work *work, const regex_bytes *bytes)
{
    regex_part part = redirect_regex_byte(false);
    regex_text *texts;
    char *byte;
    unsigned count = 0;

    if (!spend(work, work->max_class))
        return part;
    texts = make_room(work, work->max_class);
    byte = apr_palloc(work->pool, work->max_class);
    for (unsigned c = 0; c < 256; c++) {
        char as_text = work->fold ? (char)regex_lower((unsigned char)c) : (char)c;

        if (!regex_has_byte(bytes, c) || listed(texts, count, as_text))
            continue;
        if (count == work->max_class)
            return part;
        *byte = as_text;
        texts[count] = nothing;
        texts[count].bytes = byte++;
        texts[count].len = 1;
        texts[count++].superset = work->fold && !in_both_cases(bytes, c);
    }
    if (!count)
        return part;
    if (count > REGEX_NARROW_CLASS)
        work->wide_class = true;
    part.heads = part.feet = (regex_set){texts, count};
    return part;
}

/* What a part contains */

static uint32_t worth(const regex_work *work, const regex_set *set)
{
    return set->count <= work->max_inner ? redirect_regex_shortest(set) : 0;
}

static void take_better(const regex_work *work, regex_set *best, const regex_set *other)
{
    uint32_t worth_best = worth(work, best), worth_other = worth(work, other);

    if (worth_other > worth_best ||
        (worth_other && worth_other == worth_best && other->count < best->count))
        *best = *other;
}

regex_set redirect_regex_contained(const regex_work *work, const regex_part *part)
{
    regex_set best = NO_SET;

    take_better(work, &best, &part->best);
    take_better(work, &best, &part->heads);
    take_better(work, &best, &part->feet);
    return best;
}

/* The feet of `a` with the heads of `b` behind. */
static regex_set seam(regex_work *work, const regex_set *feet, const regex_set *heads)
{
    regex_text *texts = make_room(work, (size_t)feet->count * heads->count);
    unsigned count = 0;

    for (unsigned i = 0; i < feet->count; i++) {
        for (unsigned j = 0; j < heads->count; j++) {
            regex_text text = unknown;

            text.bytes = glue(work, &feet->texts[i], &heads->texts[j]);
            text.len = feet->texts[i].len + heads->texts[j].len;
            add_text(work, texts, &count, &text);
        }
    }
    return (regex_set){texts, count};
}

static regex_set join_best(regex_work *work, const regex_part *a, const regex_part *b)
{
    regex_set best = redirect_regex_contained(work, a), other = redirect_regex_contained(work, b);
    uint32_t feet = redirect_regex_shortest(&a->feet), heads = redirect_regex_shortest(&b->heads);

    take_better(work, &best, &other);
    if (feet && heads && feet + heads > worth(work, &best) &&
        a->feet.count * b->heads.count <= 2 * work->max_inner) {
        other = seam(work, &a->feet, &b->heads);
        take_better(work, &best, &other);
    }
    return best;
}

/* One behind the other */

static regex_tail stronger_end(regex_tail a, regex_tail b)
{
    return a == REGEX_END || b == REGEX_END ? REGEX_END : REGEX_END_NL;
}

/* `a` demands the end of the subject, and `b` follows. False: that cannot match. */
static bool join_behind_end(regex_work *work, const regex_text *a, const regex_text *b,
                            regex_text *out)
{
    *out = *a;
    out->superset = a->superset || b->superset;
    if (b->at_start && a->len)
        return false;
    out->at_start = a->at_start || b->at_start;
    if (!b->len) {
        if (b->tail == REGEX_END || b->tail == REGEX_END_NL)
            out->tail = stronger_end(a->tail, b->tail);
        else if (b->tail != REGEX_OPEN && a->tail == REGEX_END_NL)
            out->tail = REGEX_UNKNOWN; /* it may take the newline */
        out->superset = out->superset || b->tail == REGEX_UNKNOWN || out->tail == REGEX_UNKNOWN;
        return true;
    }
    if (a->tail == REGEX_END || b->len != 1 || b->bytes[0] != '\n')
        return false;
    out->bytes = glue(work, a, b); /* the newline that may be behind the end */
    out->len = a->len + 1;
    out->tail = REGEX_END;
    out->superset = out->superset || b->tail == REGEX_UNKNOWN;
    return true;
}

/* False: `b` cannot follow `a`. */
static bool join_texts(regex_work *work, const regex_text *a, const regex_text *b, regex_text *out)
{
    *out = *a;
    if (a->tail == REGEX_UNKNOWN)
        return true;
    if (a->tail != REGEX_OPEN)
        return join_behind_end(work, a, b, out);
    if (b->at_start && a->len)
        return false;
    if (a->len + b->len > TEXT_MAX) {
        out->tail = REGEX_UNKNOWN;
        out->superset = true;
        return true;
    }
    out->bytes = glue(work, a, b);
    out->len = a->len + b->len;
    out->tail = b->tail;
    out->at_start = a->at_start || b->at_start;
    out->superset = a->superset || b->superset;
    return true;
}

/* True when what follows holds wherever the subject ends. */
static bool can_be_nothing(const regex_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        const regex_text *text = &set->texts[i];

        if (!text->len && !text->at_start && !text->superset && text->tail != REGEX_UNKNOWN)
            return true;
    }
    return false;
}

static size_t count_joined(const regex_set *a, const regex_set *b)
{
    size_t count = 0;

    for (unsigned i = 0; i < a->count; i++)
        count += a->texts[i].tail >= REGEX_REST ? 1 : b->count;
    return count;
}

/* *rest_lost: something that takes all of the rest has to give back some of it. */
static regex_set join_heads(regex_work *work, const regex_set *a, const regex_set *b,
                            bool *rest_lost)
{
    bool nothing_follows = can_be_nothing(b);
    size_t room = count_joined(a, b);
    regex_text *texts, text;
    unsigned count = 0;

    if (room > work->max_texts) {
        *rest_lost = true;
        return with_unknown_tails(work, a);
    }
    texts = make_room(work, room);
    for (unsigned i = 0; i < a->count; i++) {
        if (a->texts[i].tail == REGEX_REST) {
            text = a->texts[i];
            if (!nothing_follows) {
                text.tail = REGEX_UNKNOWN;
                text.superset = true;
                *rest_lost = true;
            }
            add_text(work, texts, &count, &text);
        } else if (a->texts[i].tail == REGEX_UNKNOWN) {
            add_text(work, texts, &count, &a->texts[i]);
        } else {
            for (unsigned j = 0; j < b->count; j++) {
                if (join_texts(work, &a->texts[i], &b->texts[j], &text))
                    add_text(work, texts, &count, &text);
            }
        }
    }
    return (regex_set){texts, count};
}

static regex_text join_foot(regex_work *work, const regex_text *a, const regex_text *b)
{
    regex_text text = *a;

    text.bytes = glue(work, a, b);
    text.len = a->len + b->len;
    if (text.len > FOOT_MAX) {
        text.bytes += text.len - FOOT_MAX;
        text.len = FOOT_MAX;
        text.tail = REGEX_UNKNOWN;
    }
    return text;
}

static regex_set join_feet(regex_work *work, const regex_set *a, const regex_set *b)
{
    size_t room = 0;
    regex_text *texts;
    unsigned count = 0;

    for (unsigned i = 0; i < b->count; i++)
        room += b->texts[i].tail == REGEX_OPEN ? a->count : 1;
    if (room > 2 * work->max_inner)
        return b->count <= work->max_inner ? with_unknown_tails(work, b) : ONE_TEXT(unknown);
    texts = make_room(work, room);
    for (unsigned i = 0; i < b->count; i++) {
        if (b->texts[i].tail != REGEX_OPEN) {
            add_text(work, texts, &count, &b->texts[i]);
            continue;
        }
        for (unsigned j = 0; j < a->count; j++) {
            regex_text text = join_foot(work, &a->texts[j], &b->texts[i]);

            add_text(work, texts, &count, &text);
        }
    }
    return (regex_set){texts, count};
}

static regex_part never(uint32_t ways)
{
    return (regex_part){.ways = ways};
}

static bool all_unknown(const regex_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->texts[i].tail != REGEX_UNKNOWN)
            return false;
    }
    return true;
}

/* `a` with something behind that there is no time to look at. */
static regex_part and_something(regex_work *work, const regex_part *a)
{
    regex_part part = redirect_regex_unknown(REGEX_WAYS_MAX);

    part.heads = all_unknown(&a->heads) ? a->heads : with_unknown_tails(work, &a->heads);
    part.best = a->best;
    return part;
}

regex_part redirect_regex_join(regex_work *work, const regex_part *a, const regex_part *b)
{
    regex_part part = {.ways = times(a->ways, b->ways)};
    bool rest_lost = false;

    if (!spend(work, 1))
        return and_something(work, a);
    if (!a->heads.count || !b->heads.count)
        return never(part.ways);
    part.heads = join_heads(work, &a->heads, &b->heads, &rest_lost);
    if (rest_lost)
        part.ways = times(part.ways, REGEX_WAYS_PATH);
    if (!part.heads.count)
        return never(part.ways);
    part.feet = join_feet(work, &a->feet, &b->feet);
    part.best = join_best(work, a, b);
    return part;
}

/* Alternatives */

static regex_set either_best(regex_work *work, const regex_part *a, const regex_part *b)
{
    regex_set best_a = redirect_regex_contained(work, a),
              best_b = redirect_regex_contained(work, b);
    regex_set both;

    if (!best_a.count || !best_b.count)
        return NO_SET;
    both = unite(work, &best_a, &best_b);
    return both.count <= work->max_inner ? both : NO_SET;
}

regex_part redirect_regex_either(regex_work *work, const regex_part *a, const regex_part *b)
{
    regex_part part = {.ways = plus(a->ways, b->ways)};

    if (!spend(work, 1))
        return redirect_regex_unknown(REGEX_WAYS_MAX);
    if (!a->heads.count || !b->heads.count) {
        uint32_t ways = part.ways;

        part = a->heads.count ? *a : *b;
        part.ways = ways;
        part.one_byte = part.any_byte = false;
        return part;
    }
    part.heads = unite(work, &a->heads, &b->heads);
    if (part.heads.count > work->max_texts)
        part.heads = redirect_regex_shorten(work, &part.heads, work->max_texts / 2);
    part.feet = unite(work, &a->feet, &b->feet);
    if (part.feet.count > 2 * work->max_inner)
        part.feet = ONE_TEXT(unknown);
    part.best = either_best(work, a, b);
    return part;
}

/* Repetition */

static bool all_empty(const regex_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->texts[i].len || set->texts[i].tail >= REGEX_REST)
            return false;
    }
    return true;
}

static bool any_open(const regex_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->texts[i].tail < REGEX_REST)
            return true;
    }
    return false;
}

/* The part, or more of it. */
static regex_part or_more(regex_work *work, const regex_part *part)
{
    regex_part more = *part;

    more.heads = with_unknown_tails(work, &part->heads);
    more.feet = with_unknown_tails(work, &part->feet);
    return more;
}

/* `what` n times, n at least 1. Texts that cannot grow any more end it early. */
static regex_part n_times(regex_work *work, const regex_part *what, uint32_t n)
{
    regex_part part = *what;

    part.one_byte = part.any_byte = false;
    for (uint32_t i = 1; i < n; i++) {
        if (!any_open(&part.heads))
            return part.heads.count ? or_more(work, &part) : part;
        part = redirect_regex_join(work, &part, what);
    }
    return part;
}

/* `base`, or with up to `more` times `what` behind. */
static regex_part up_to(regex_work *work, const regex_part *base, const regex_part *what,
                        uint32_t more)
{
    regex_part part = *base, last = *base;

    for (uint32_t i = 0; i < more; i++) {
        bool grows = any_open(&last.heads) && part.heads.count <= work->max_texts / 2;

        if (!last.heads.count)
            break;
        if (!grows || more == REGEX_NO_MAX || i == STEPS_MAX) {
            last = redirect_regex_join(work, &last, what);
            if (!last.heads.count)
                break;
            last = or_more(work, &last);
            return redirect_regex_either(work, &part, &last);
        }
        last = redirect_regex_join(work, &last, what);
        part = redirect_regex_either(work, &part, &last);
    }
    return part;
}

/* How many ways there are to repeat; a generous count. */
static uint32_t repeat_ways(const regex_part *what, uint32_t min, uint32_t max)
{
    uint32_t ways;

    if (max == REGEX_NO_MAX)
        return what->one_byte ? REGEX_WAYS_PATH : REGEX_WAYS_MAX;
    ways = power(what->ways, max);
    return times(ways ? ways : 1, max - min + 1 < REGEX_WAYS_MAX ? max - min + 1 : REGEX_WAYS_MAX);
}

static regex_part repeat_some(regex_work *work, const regex_part *what, uint32_t min, uint32_t max)
{
    regex_part base = redirect_regex_empty(false);

    if (what->any_byte && !min && max == REGEX_NO_MAX)
        return part_of(&everything, &unknown);
    if (!what->heads.count)
        return min ? *what : base;
    if (all_empty(&what->heads)) /* repeated or not, it is the same */
        return min ? *what : redirect_regex_either(work, &base, what);
    if (min)
        base = n_times(work, what, min);
    return up_to(work, &base, what, max == REGEX_NO_MAX ? max : max - min);
}

regex_part redirect_regex_repeat(regex_work *work, const regex_part *what, uint32_t min,
                                 uint32_t max, bool possessive)
{
    regex_part part;

    if (!max)
        return redirect_regex_empty(false);
    part = repeat_some(work, what, min, max);
    part.one_byte = part.any_byte = false;
    if (what->any_byte && !min && max == REGEX_NO_MAX)
        return part;
    part.ways = repeat_ways(what, min, max);
    if (min) {
        regex_set once = redirect_regex_contained(work, what);

        take_better(work, &part.best, &once);
    }
    return possessive ? redirect_regex_atomic(work, &part) : part;
}

regex_part redirect_regex_atomic(regex_work *work, const regex_part *what)
{
    regex_part part = *what;
    regex_text *texts;

    part.one_byte = part.any_byte = false;
    if (part.ways <= 1 && part.heads.count == 1 && part.heads.texts[0].tail < REGEX_REST)
        return part; /* nothing to give back; a lazy rest stays nothing */
    texts = make_room(work, part.heads.count);
    for (unsigned i = 0; i < part.heads.count; i++) {
        texts[i] = part.heads.texts[i];
        texts[i].superset = true;
    }
    part.heads.texts = texts;
    return part;
}
