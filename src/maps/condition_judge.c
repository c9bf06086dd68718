/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Asking a request whether the conditions of rows hold, see maps/condition.h. A condition's text may
 * lie in memory that other processes write. So it is copied before it is read, or read so that what
 * it says does not matter.
 */
#include "maps/condition.h"
#include "maps/internal.h"
#include "negotiate/negotiate.h"

#include <apr_strings.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_LEN 255 /* of a header field's name */

typedef struct line {
    bool negated;
    redirect_condition_kind kind;
    map_text value;
} line;

/* Take the next line off the text. False: there is none. */
static bool next_line(map_text *text, line *out)
{
    const char *end, *equals;
    map_text all;

    while (text->len) {
        end = memchr(text->s, '\n', text->len);
        all = (map_text){text->s, end ? (size_t)(end - text->s) : text->len, 0};
        text->s += all.len + (end != NULL);
        text->len -= all.len + (end != NULL);
        out->negated = all.len && all.s[0] == '!';
        equals = all.len ? memchr(all.s, '=', all.len) : NULL;
        if (!equals)
            continue;
        all.s += out->negated;
        all.len -= out->negated;
        out->kind = redirect_condition_kind_of(all.s, (size_t)(equals - all.s));
        out->value = (map_text){equals + 1, (size_t)(all.s + all.len - equals - 1), 0};
        if (out->kind != MAP_CONDITIONS)
            return true;
    }
    return false;
}

/* Take what is in front of the next comma off a list. */
static bool next_of_list(map_text *list, map_text *one)
{
    const char *comma;

    if (!list->len)
        return false;
    comma = memchr(list->s, ',', list->len);
    *one = (map_text){list->s, comma ? (size_t)(comma - list->s) : list->len, 0};
    list->s += one->len + (comma != NULL);
    list->len -= one->len + (comma != NULL);
    return true;
}

static bool same(map_text a, const char *b, size_t len)
{
    return a.len == len && !memcmp(a.s, b, len);
}

static bool is_listed(map_text list, const char *word)
{
    map_text one;

    while (next_of_list(&list, &one)) {
        if (same(one, word, strlen(word)))
            return true;
    }
    return false;
}

/* --- what it costs -----------------------------------------------------------------------------*/

#define BYTES_OF_STEP 32 /* that are looked for something, or copied */

static void charge(redirect_conditions *c, size_t bytes)
{
    c->judge.steps += 1 + bytes / BYTES_OF_STEP;
}

/* --- what was looked at ------------------------------------------------------------------------*/

static void note_field(redirect_conditions *c, const char *name, size_t len)
{
    if (!c->vary)
        c->vary = apr_array_make(c->pool, 4, sizeof(const char *));
    charge(c, BYTES_OF_STEP * (size_t)c->vary->nelts);
    for (int i = 0; i < c->vary->nelts; i++) {
        const char *known = APR_ARRAY_IDX(c->vary, i, const char *);

        if (strlen(known) == len && !strncasecmp(known, name, len))
            return;
    }
    if (c->vary->nelts < REDIRECT_VARY_MAX)
        APR_ARRAY_PUSH(c->vary, const char *) = apr_pstrmemdup(c->pool, name, len);
    else if (c->vary->nelts == REDIRECT_VARY_MAX)
        APR_ARRAY_PUSH(c->vary, const char *) = "*";
}

const char *redirect_conditions_vary(const redirect_conditions *c, apr_pool_t *pool)
{
    const char *all = NULL;

    for (int i = 0; c->vary && i < c->vary->nelts; i++) {
        const char *name = APR_ARRAY_IDX(c->vary, i, const char *);

        all = all ? apr_pstrcat(pool, all, ", ", name, NULL) : name;
    }
    return all;
}

redirect_conditions_notes redirect_conditions_noted(const redirect_conditions *c)
{
    redirect_conditions_notes notes = {0};

    if (c)
        notes =
            (redirect_conditions_notes){c->vary ? c->vary->nelts : 0, c->told ? c->told->nelts : 0,
                                        c->not_acceptable, c->looked_at_country};
    return notes;
}

bool redirect_conditions_noted_since(const redirect_conditions *c, redirect_conditions_notes notes)
{
    redirect_conditions_notes now = redirect_conditions_noted(c);

    return now.fields != notes.fields || now.told != notes.told ||
           now.not_acceptable != notes.not_acceptable ||
           now.looked_at_country != notes.looked_at_country;
}

void redirect_conditions_forget(redirect_conditions *c, redirect_conditions_notes notes)
{
    if (c->vary)
        c->vary->nelts = notes.fields;
    if (c->told)
        c->told->nelts = notes.told;
    c->not_acceptable = notes.not_acceptable;
    c->looked_at_country = notes.looked_at_country;
}

/* --- what came of it ---------------------------------------------------------------------------*/

static void tell(redirect_conditions *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void tell(redirect_conditions *c, const char *format, ...)
{
    va_list args;

    if (c->told && c->told->nelts == REDIRECT_TOLD_MAX)
        return;
    if (!c->told)
        c->told = apr_array_make(c->pool, 8, sizeof(redirect_told_condition));
    va_start(args, format);
    APR_ARRAY_PUSH(c->told, redirect_told_condition) = (redirect_told_condition){
        c->judge.table, c->judge.rule, apr_pvsprintf(c->pool, format, args)};
    va_end(args);
}

#define TELL_MOST 200 /* bytes of a value */

static void tell_line(redirect_conditions *c, const line *l, bool holds)
{
    tell(c, "%s%s=%.*s%s %s", l->negated ? "!" : "", redirect_condition_name(l->kind),
         (int)(l->value.len < TELL_MOST ? l->value.len : TELL_MOST), l->value.s,
         l->value.len < TELL_MOST ? "" : "...", holds ? "holds" : "does not hold");
}

/* "0.8", of thousandths. */
static const char *quality_of(const redirect_conditions *c, unsigned quality)
{
    char *text = apr_psprintf(c->pool, "%u.%03u", quality / 1000, quality % 1000);
    size_t len = strlen(text);

    while (text[len - 1] == '0' && text[len - 2] != '.')
        text[--len] = '\0';
    return quality % 1000 ? text : quality ? "1" : "0";
}

static void tell_offer(redirect_conditions *c, const negotiate_variant *v)
{
    unsigned type = c->negotiation->type, language = c->negotiation->language;

    if (type == NEGOTIATE_UNSAID && language == NEGOTIATE_UNSAID)
        tell(c, "it is the default");
    if (type != NEGOTIATE_UNSAID)
        tell(c, "accept=%.*s has the quality %s",
             (int)(v->types_len < TELL_MOST ? v->types_len : TELL_MOST), v->types,
             quality_of(c, type));
    if (language != NEGOTIATE_UNSAID)
        tell(c, "language=%.*s has the quality %s",
             (int)(v->languages_len < TELL_MOST ? v->languages_len : TELL_MOST), v->languages,
             quality_of(c, language));
}

/* --- what must hold ----------------------------------------------------------------------------*/

static bool method_holds(const redirect_conditions *c, map_text list)
{
    const char *method = c->method ? c->method : "GET";

    return is_listed(list, method) || (!strcmp(method, "HEAD") && is_listed(list, "GET"));
}

static bool country_holds(redirect_conditions *c, map_text list)
{
    map_text one;

    c->looked_at_country = true;
    while (c->country && next_of_list(&list, &one)) {
        if (strlen(c->country) == one.len && !strncasecmp(c->country, one.s, one.len))
            return true;
    }
    return false;
}

/* The next one of a query, brought to one form in @a room. */
static bool next_parameter(map_text *query, char *room, map_text *parameter)
{
    while (query->len) {
        const char *end = memchr(query->s, '&', query->len);
        size_t len = end ? (size_t)(end - query->s) : query->len;

        *parameter = (map_text){room, redirect_query_normalize(query->s, len, room), 0};
        query->s += len + (end != NULL);
        query->len -= len + (end != NULL);
        if (len)
            return true;
    }
    return false;
}

static bool is_called(map_text wanted, map_text pair)
{
    const char *equals = memchr(wanted.s, '=', wanted.len) ? NULL : memchr(pair.s, '=', pair.len);

    return same(wanted, pair.s, equals ? (size_t)(equals - pair.s) : pair.len);
}

static bool parameter_holds(redirect_conditions *c, map_text wanted)
{
    map_text query = {c->query, c->query ? strlen(c->query) : 0, 0}, one;

    charge(c, 2 * query.len);
    if (!c->parameter && query.len)
        c->parameter = apr_palloc(c->pool, query.len);
    while (next_parameter(&query, c->parameter, &one)) {
        if (is_called(wanted, one))
            return true;
    }
    return false;
}

/* The next "name=value" of a Cookie field (RFC 6265, 4.2.1). */
static bool next_cookie(map_text *field, map_text *cookie)
{
    const char *end;

    while (field->len) {
        end = memchr(field->s, ';', field->len);
        *cookie = (map_text){field->s, end ? (size_t)(end - field->s) : field->len, 0};
        field->s += cookie->len + (end != NULL);
        field->len -= cookie->len + (end != NULL);
        while (cookie->len && (*cookie->s == ' ' || *cookie->s == '\t'))
            cookie->s++, cookie->len--;
        while (cookie->len &&
               (cookie->s[cookie->len - 1] == ' ' || cookie->s[cookie->len - 1] == '\t'))
            cookie->len--;
        if (cookie->len)
            return true;
    }
    return false;
}

/* "name", or "name=value". */
static bool has_cookie(map_text field, map_text wanted)
{
    map_text cookie;

    while (next_cookie(&field, &cookie)) {
        if (is_called(wanted, cookie))
            return true;
    }
    return false;
}

static bool cookie_holds(redirect_conditions *c, map_text list)
{
    const char *value = c->field(c->baton, "Cookie");
    map_text one, field = {value, value ? strlen(value) : 0, 0};

    note_field(c, "Cookie", 6);
    while (value && !redirect_judge_is_over(&c->judge) && next_of_list(&list, &one)) {
        charge(c, field.len);
        if (one.len && has_cookie(field, one))
            return true;
    }
    return false;
}

static bool header_holds(redirect_conditions *c, map_text wanted)
{
    const char *colon = memchr(wanted.s, ':', wanted.len), *value;
    size_t len = colon ? (size_t)(colon - wanted.s) : wanted.len;
    char name[NAME_MAX_LEN + 1];

    if (!len || len > NAME_MAX_LEN)
        return false;
    memcpy(name, wanted.s, len);
    name[len] = '\0';
    value = c->field(c->baton, name);
    note_field(c, name, strlen(name));
    charge(c, value ? strlen(value) : 0);
    if (!value || !colon)
        return value != NULL;
    return same((map_text){colon + 1, wanted.len - len - 1, 0}, value, strlen(value));
}

static bool line_holds(redirect_conditions *c, const line *l)
{
    switch (l->kind) {
    case MAP_METHOD:
        return method_holds(c, l->value);
    case MAP_COUNTRY:
        return country_holds(c, l->value);
    case MAP_PARAMETER:
        return parameter_holds(c, l->value);
    case MAP_COOKIE:
        return cookie_holds(c, l->value);
    default:
        return header_holds(c, l->value);
    }
}

/* A private copy, until the next. */
static map_text copy_of(redirect_conditions *c, const char *condition, size_t len)
{
    charge(c, len);
    if (len > c->room) {
        c->room = len < 2 * c->room ? 2 * c->room : len;
        c->copy = apr_palloc(c->pool, c->room);
    }
    memcpy(c->copy, condition, len);
    return (map_text){c->copy, len, 0};
}

static bool holds(redirect_judge *judge, const char *condition, size_t len)
{
    redirect_conditions *c = (redirect_conditions *)(void *)judge;
    map_text text = copy_of(c, condition, len);
    line l;

    while (next_line(&text, &l) && l.kind < MAP_ACCEPT) {
        bool yes = line_holds(c, &l) != l.negated;

        if (c->tells)
            tell_line(c, &l, yes);
        if (!yes || redirect_judge_is_over(judge))
            return false;
    }
    return true;
}

/* --- what is compared --------------------------------------------------------------------------*/

/* The target's types and languages. True when it says either. */
static bool find_variant(map_text text, negotiate_variant *variant, bool *refuses)
{
    line l;

    *variant = (negotiate_variant){"", "", 0, 0};
    *refuses = false;
    while (next_line(&text, &l)) {
        if (l.kind == MAP_ACCEPT) {
            variant->types = l.value.s;
            variant->types_len = l.value.len;
        } else if (l.kind == MAP_LANGUAGE) {
            variant->languages = l.value.s;
            variant->languages_len = l.value.len;
        } else if (l.kind == MAP_UNACCEPTABLE)
            *refuses = true;
    }
    return variant->types_len || variant->languages_len;
}

static bool compares(const redirect_judge *judge, const char *condition, size_t len)
{
    negotiate_variant variant;
    bool refuses;

    (void)judge;
    return find_variant((map_text){condition, len, 0}, &variant, &refuses);
}

static bool offer(redirect_judge *judge, const char *condition, size_t len)
{
    redirect_conditions *c = (redirect_conditions *)(void *)judge;
    negotiate_variant variant = {"", "", 0, 0};
    unsigned before;
    bool refuses = false;

    if (!c->negotiation)
        c->negotiation = apr_palloc(c->pool, sizeof(*c->negotiation));
    if (!c->begun) {
        const char *accept = c->field(c->baton, "Accept"),
                   *language = c->field(c->baton, "Accept-Language");

        negotiate_begin(c->negotiation, accept, language);
        charge(c, (accept ? strlen(accept) : 0) + (language ? strlen(language) : 0));
        c->begun = true;
        c->refuses = false;
    }
    if (len)
        find_variant(copy_of(c, condition, len), &variant, &refuses);
    c->refuses |= refuses;
    before = c->negotiation->best_rank;
    negotiate_offer(c->negotiation, &variant);
    c->judge.steps += (variant.types_len * (1 + (size_t)c->negotiation->types.count) +
                       variant.languages_len * (1 + (size_t)c->negotiation->languages.count)) /
                      2;
    if (c->tells)
        tell_offer(c, &variant);
    return c->negotiation->best_rank > before;
}

static redirect_choice choose(redirect_judge *judge)
{
    redirect_conditions *c = (redirect_conditions *)(void *)judge;
    negotiate_answer answer = negotiate_end(c->negotiation);

    c->begun = false;
    if (answer.looked_at & NEGOTIATE_ACCEPT)
        note_field(c, "Accept", 6);
    if (answer.looked_at & NEGOTIATE_ACCEPT_LANGUAGE)
        note_field(c, "Accept-Language", 15);
    if (answer.outcome != NEGOTIATE_NONE)
        return REDIRECT_CHOSEN;
    c->not_acceptable |= c->refuses; /* edits of the map may have said so before its rows */
    return c->refuses ? REDIRECT_NO_ANSWER : REDIRECT_NEXT_RULE;
}

static const redirect_judge conditions_judge = {
    .compares = compares, .holds = holds, .offer = offer, .choose = choose};

void redirect_conditions_begin(redirect_conditions *conditions, apr_pool_t *pool,
                               redirect_field_fn *field, void *baton)
{
    *conditions = (redirect_conditions){
        .judge = conditions_judge, .pool = pool, .field = field, .baton = baton};
}

redirect_conditions *redirect_conditions_of(redirect_judge *judge)
{
    return judge && judge->choose == choose ? (redirect_conditions *)(void *)judge : NULL;
}

/* --- a request like a row ----------------------------------------------------------------------*/

static bool is_like(const redirect_likeness *l, const char *condition, size_t len)
{
    return l->condition && len == l->len && !memcmp(condition, l->condition, len);
}

static bool like_holds(redirect_judge *judge, const char *condition, size_t len)
{
    return is_like((const redirect_likeness *)(const void *)judge, condition, len);
}

/* The condition itself is better than none. */
static bool like_offer(redirect_judge *judge, const char *condition, size_t len)
{
    redirect_likeness *l = (redirect_likeness *)(void *)judge;
    bool exact = is_like(l, condition, len), better = !l->begun || (exact && !l->exact);

    l->begun = true;
    l->exact |= exact;
    return better;
}

static redirect_choice like_choose(redirect_judge *judge)
{
    redirect_likeness *l = (redirect_likeness *)(void *)judge;

    l->begun = l->exact = false;
    return REDIRECT_CHOSEN;
}

static const redirect_judge likeness_judge = {
    .compares = compares, .holds = like_holds, .offer = like_offer, .choose = like_choose};

void redirect_likeness_begin(redirect_likeness *likeness, const char *condition, size_t len)
{
    *likeness = (redirect_likeness){.judge = likeness_judge, .condition = condition, .len = len};
}

/* --- as words ----------------------------------------------------------------------------------*/

apr_array_header_t *redirect_condition_words(const char *condition, size_t len, apr_pool_t *pool)
{
    apr_array_header_t *words = apr_array_make(pool, 4, sizeof(const char *));

    while (len) {
        const char *end = memchr(condition, '\n', len);
        size_t n = end ? (size_t)(end - condition) : len;

        APR_ARRAY_PUSH(words, const char *) = apr_pstrmemdup(pool, condition, n);
        condition += n + (end != NULL);
        len -= n + (end != NULL);
    }
    return words;
}
