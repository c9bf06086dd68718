/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reads the headers, once for a request, and ranks what is offered. See negotiate.h for the rules.
 */
#include "negotiate/internal.h"

#include "base/base.h"

#include <string.h>

/* Of a variant in one dimension, from the worst to the best: not acceptable, the default, a weight
 * from 1 to 1000 thousandths and one more. */
#define NOT_ACCEPTABLE 0
#define BY_DEFAULT     1
#define RANKS          1002

/* --- reading ---------------------------------------------------------------------------------- */

enum { ANY, ANY_SUBTYPE, ONE_TYPE };

static bool is_star(const char *p, const char *end)
{
    return p + 1 == end && *p == '*';
}

static bool read_media_range(const char *p, const char *end, negotiate_range *range)
{
    const char *last, *subtype;
    size_t type_len = 1;
    unsigned kind = ONE_TYPE;
    bool weighed;
    int count;

    last = negotiate_media_type(p, end, &type_len);
    if (last) {
        subtype = p + type_len + 1;
        if (is_star(subtype, last))
            kind = is_star(p, p + type_len) ? ANY : ANY_SUBTYPE;
        else if (is_star(p, p + type_len))
            return false;
    } else {
        /* Java's "*" */
        last = negotiate_token(p, end);
        if (!is_star(p, last))
            return false;
        kind = ANY;
    }
    count = negotiate_count_parameters(last, end, &range->quality, &weighed);
    if (count < 0)
        return false;
    range->name = p;
    range->len = (size_t)(last - p);
    range->end = end;
    range->type_len = kind == ANY ? 0 : type_len;
    range->parameters = (uint8_t)count;
    range->kind = (uint8_t)kind;
    return true;
}

/* language-range [ OWS ";" OWS "q=" qvalue ] */
static bool read_language_range(const char *p, const char *end, negotiate_range *range)
{
    const char *last = *p == '*' ? p + 1 : negotiate_language(p, end);
    negotiate_parameter weight;
    int quality = 1000;

    if (!last)
        return false;
    range->name = p;
    range->len = *p == '*' ? 0 : (size_t)(last - p);
    p = negotiate_skip_space(last, end);
    if (p < end) {
        if (*p != ';')
            return false;
        p = negotiate_read_parameter(negotiate_skip_space(p + 1, end), end, &weight);
        if (p != end || !negotiate_is_weight(&weight) || weight.quoted)
            return false;
        quality = negotiate_quality(weight.value, weight.value_len);
        if (quality < 0)
            return false;
    }
    range->quality = (uint16_t)quality;
    return true;
}

static HTC_APART void read_header(negotiate_header *header,
                                  bool (*read_range)(const char *, const char *, negotiate_range *))
{
    header->read = true;
    header->count = 0;
    if (header->value) {
        const char *p = header->value, *end = p + strlen(p), *member, *member_end;

        while (header->count < NEGOTIATE_MEMBERS &&
               (member_end = negotiate_member(&p, end, &member)))
            header->count += read_range(member, member_end, &header->ranges[header->count]);
    }
}

/* --- matching --------------------------------------------------------------------------------- */

/* All of the range's parameters are among those of the type, which begin at [p, end). */
static bool has_parameters(const negotiate_range *range, const char *type_parameters,
                           const char *end)
{
    const char *p = range->name + range->len;
    negotiate_parameter wanted, has;

    while (negotiate_next_parameter(&p, range->end, &wanted) > 0) {
        const char *q = type_parameters;
        bool found = negotiate_is_weight(&wanted);

        while (!found && negotiate_next_parameter(&q, end, &has) > 0)
            found = negotiate_same_name(&wanted, &has) && negotiate_same_value(&wanted, &has);
        if (!found)
            return false;
    }
    return true;
}

/* The range is of the type's name, whose first part is type_len long. */
static bool has_name(const negotiate_range *range, const char *name, size_t len, size_t type_len)
{
    switch (range->kind) {
    case ANY:
        return true;
    case ANY_SUBTYPE:
        return range->type_len == type_len && htc_begins_caseless(range->name, name, type_len);
    default:
        return range->len == len && htc_begins_caseless(range->name, name, len);
    }
}

static bool more_specific(const negotiate_range *a, const negotiate_range *b)
{
    return a->kind != b->kind ? a->kind > b->kind : a->parameters > b->parameters;
}

static int count_parameters(const char *p, const char *end)
{
    negotiate_parameter parameter;
    int count = 0;

    while (negotiate_next_parameter(&p, end, &parameter) > 0)
        count++;
    return count;
}

/* The weight of one type, [name, end). */
static unsigned type_quality(const negotiate_header *header, const char *name, const char *end)
{
    const negotiate_range *best = NULL;
    size_t type_len = 0, len;
    const char *parameters = negotiate_media_type(name, end, &type_len);
    int count;

    if (!parameters)
        return 0;
    len = (size_t)(parameters - name);
    count = count_parameters(parameters, end);
    for (unsigned i = 0; i < header->count; i++) {
        const negotiate_range *range = &header->ranges[i];

        if ((!best || more_specific(range, best)) && has_name(range, name, len, type_len) &&
            range->parameters <= count &&
            (!range->parameters || has_parameters(range, parameters, end)))
            best = range;
    }
    return best ? best->quality : 0;
}

/* The weight of one language, [tag, end). */
static unsigned language_quality(const negotiate_header *header, const char *tag, const char *end)
{
    const negotiate_range *best = NULL;
    size_t len = (size_t)(end - tag);

    for (unsigned i = 0; i < header->count; i++) {
        const negotiate_range *range = &header->ranges[i];

        if (range->len > len || (best && range->len <= best->len))
            continue;
        /* All ranges begin with a letter but "*", which has no length. */
        if (range->len && (!htc_begins_caseless(range->name, tag, range->len) ||
                           (range->len < len && tag[range->len] != '-')))
            continue;
        best = range;
    }
    return best ? best->quality : 0;
}

static unsigned rank_of_list(const negotiate_header *header, const char *p, size_t len,
                             unsigned (*quality_of)(const negotiate_header *, const char *,
                                                    const char *))
{
    const char *end = p + len, *member, *member_end;
    unsigned best = header->count ? 0 : 1000;

    while (best < 1000 && (member_end = negotiate_member(&p, end, &member))) {
        unsigned quality = quality_of(header, member, member_end);

        if (quality > best)
            best = quality;
    }
    return best ? best + 1 : NOT_ACCEPTABLE;
}

/* --- the contract ----------------------------------------------------------------------------- */

void negotiate_begin(negotiation *n, const char *accept, const char *accept_language)
{
    n->offered = n->best = 0;
    n->best_rank = n->best_names = n->looked_at = 0;
    n->types.value = accept;
    n->languages.value = accept_language;
    n->types.read = n->languages.read = false;
}

void negotiate_offer(negotiation *n, const negotiate_variant *variant)
{
    unsigned type = BY_DEFAULT, language = BY_DEFAULT, names = 0, rank;

    if (variant->types_len) {
        names |= NEGOTIATE_ACCEPT;
        if (!n->types.read)
            read_header(&n->types, read_media_range);
        type = rank_of_list(&n->types, variant->types, variant->types_len, type_quality);
    }
    if (variant->languages_len) {
        names |= NEGOTIATE_ACCEPT_LANGUAGE;
        if (!n->languages.read)
            read_header(&n->languages, read_language_range);
        language = rank_of_list(&n->languages, variant->languages, variant->languages_len,
                                language_quality);
    }
    n->type = variant->types_len ? type - (type != NOT_ACCEPTABLE) : NEGOTIATE_UNSAID;
    n->language =
        variant->languages_len ? language - (language != NOT_ACCEPTABLE) : NEGOTIATE_UNSAID;
    rank = type && language ? type * RANKS + language : NOT_ACCEPTABLE;
    n->looked_at |= names;
    if (rank > n->best_rank) {
        n->best_rank = rank;
        n->best_names = names;
        n->best = n->offered;
    }
    n->offered++;
}

negotiate_answer negotiate_end(const negotiation *n)
{
    negotiate_answer answer = {NEGOTIATE_NONE, n->best, n->looked_at};

    if (n->best_rank)
        answer.outcome = n->best_names == n->looked_at ? NEGOTIATE_CHOSEN : NEGOTIATE_DEFAULT;
    return answer;
}
