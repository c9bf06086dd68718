/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The conditions of a row as its file has them, checked and put together to the text that tables
 * keep, see maps/condition.h. Called by the readers of the formats.
 */
#include "maps/condition.h"
#include "maps/internal.h"
#include "negotiate/negotiate.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FIELD_NAME_MAX 255
#define PARAMETER_MAX  1000

static const char *const names[MAP_CONDITIONS] = {
    [MAP_METHOD] = "method",       [MAP_COUNTRY] = "country",
    [MAP_PARAMETER] = "parameter", [MAP_COOKIE] = "cookie",
    [MAP_HEADER] = "header",       [MAP_ACCEPT] = "accept",
    [MAP_LANGUAGE] = "language",   [MAP_UNACCEPTABLE] = "unacceptable"};

redirect_condition_kind redirect_condition_kind_of(const char *word, size_t len)
{
    int i = 0;

    while (i < MAP_CONDITIONS && (strlen(names[i]) != len || strncasecmp(names[i], word, len) != 0))
        i++;
    return (redirect_condition_kind)i;
}

const char *redirect_condition_name(redirect_condition_kind kind)
{
    return names[kind];
}

static bool is_token(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!apr_isalnum(s[i]) && !(s[i] && strchr("!#$%&'*+-.^_`|~", s[i])))
            return false;
    }
    return len > 0;
}

static bool is_country(const char *s, size_t len)
{
    return len == 2 && apr_isalpha(s[0]) && apr_isalnum(s[1]);
}

/* A name, or name=value. */
static bool is_cookie(const char *s, size_t len)
{
    const char *equals = memchr(s, '=', len);

    for (size_t i = 0; i < len; i++) {
        if (s[i] == ';' || apr_isspace(s[i]))
            return false;
    }
    return is_token(s, equals ? (size_t)(equals - s) : len);
}

/* The members of a list, in @a to; 0: not all of them are @a good. */
static size_t copy_list(map_text list, bool good(const char *s, size_t len), bool upper, char *to)
{
    char *start = to;

    for (;;) {
        const char *comma = list.len ? memchr(list.s, ',', list.len) : NULL;
        size_t len = comma ? (size_t)(comma - list.s) : list.len;
        map_text one = redirect_map_trim((map_text){list.s, len, list.seen});

        if (!one.len || !good(one.s, one.len))
            return 0;
        for (size_t i = 0; i < one.len; i++)
            *to++ = (char)(upper ? apr_toupper(one.s[i]) : one.s[i]);
        if (!comma)
            break;
        *to++ = ',';
        list.s += len + 1;
        list.len -= len + 1;
    }
    return (size_t)(to - start);
}

/* Take what is in front of the next comma off a list. False: that was the last one. */
static bool next_member(map_text *list, map_text *one)
{
    bool quoted = false;
    size_t len = 0;

    while (len < list->len && (quoted || list->s[len] != ',')) {
        len += quoted && list->s[len] == '\\' && len + 1 < list->len;
        quoted ^= list->s[len++] == '"';
    }
    *one = (map_text){list->s, len, list->seen};
    if (len == list->len)
        return false;
    list->s += len + 1;
    list->len -= len + 1;
    return true;
}

size_t redirect_condition_sort(char *list, size_t len, apr_pool_t *pool)
{
    apr_array_header_t *members;
    map_text rest = {list, len, 0}, one;
    char *to = list;
    bool more;

    if (!memchr(list, ',', len))
        return len;
    members = apr_array_make(pool, 8, sizeof(map_text));
    rest.s = apr_pmemdup(pool, list, len);
    do {
        more = next_member(&rest, &one);
        APR_ARRAY_PUSH(members, map_text) = one;
    } while (more);
    qsort(members->elts, (size_t)members->nelts, sizeof(map_text), redirect_map_compare_texts);
    for (int i = 0; i < members->nelts; i++) {
        const map_text *member = &APR_ARRAY_IDX(members, i, map_text);

        if (i && !redirect_map_compare_texts(member, member - 1))
            continue;
        if (i)
            *to++ = ',';
        memcpy(to, member->s, member->len);
        to += member->len;
    }
    return (size_t)(to - list);
}

/* NAME, or NAME:VALUE. */
static size_t copy_field(map_text field, char *to)
{
    const char *colon = memchr(field.s, ':', field.len);
    map_text name = {field.s, colon ? (size_t)(colon - field.s) : field.len, field.seen}, value;

    name = redirect_map_trim(name);
    if (!is_token(name.s, name.len) || name.len > FIELD_NAME_MAX)
        return 0;
    memcpy(to, name.s, name.len);
    if (!colon)
        return name.len;
    value = (map_text){colon + 1, (size_t)(field.s + field.len - colon - 1), field.seen};
    value = redirect_map_trim(value);
    to[name.len] = ':';
    if (value.len)
        memcpy(to + name.len + 1, value.s, value.len);
    return name.len + 1 + value.len;
}

/* As a query has it, see fill_query(). */
static size_t copy_parameter(map_text parameter, char *to, size_t room)
{
    char encoded[3 * PARAMETER_MAX];
    size_t len;

    if (parameter.s[0] == '=' || memchr(parameter.s, '&', parameter.len) ||
        parameter.len > PARAMETER_MAX)
        return 0;
    len = redirect_map_encode(parameter.s, parameter.len, encoded);
    len = redirect_query_normalize(encoded, len, encoded);
    if (len > room)
        return 0;
    memcpy(to, encoded, len);
    return len;
}

static size_t copy_value(redirect_condition_kind kind, map_text value, char *to, size_t room)
{
    switch (kind) {
    case MAP_METHOD:
        return copy_list(value, is_token, true, to);
    case MAP_COUNTRY:
        return copy_list(value, is_country, true, to);
    case MAP_PARAMETER:
        return copy_parameter(value, to, room);
    case MAP_COOKIE:
        return copy_list(value, is_cookie, false, to);
    case MAP_HEADER:
        return copy_field(value, to);
    case MAP_ACCEPT:
        return negotiate_types(value.s, value.len, to);
    default:
        return negotiate_languages(value.s, value.len, to);
    }
}

static bool fail_value(map_reader *r, redirect_condition_kind kind, map_text value)
{
    static const char *const wanted[MAP_CONDITIONS] = {
        [MAP_METHOD] = "methods with commas between, as in GET,POST",
        [MAP_COUNTRY] = "country codes of two letters with commas between, as in AT,DE",
        [MAP_PARAMETER] = "NAME or NAME=VALUE, without '&'",
        [MAP_COOKIE] = "names of cookies with commas between, or NAME=VALUE without blanks",
        [MAP_HEADER] = "NAME or NAME:VALUE",
        [MAP_ACCEPT] = "media types with commas between, as in text/turtle, without '*' and q=",
        [MAP_LANGUAGE] = "language tags with commas between, as in de,de-CH"};

    return redirect_map_fail(r, "%s=%s: must be %s", names[kind],
                             redirect_map_quote(r, value.s, value.len), wanted[kind]);
}

static bool is_new(map_reader *r, redirect_condition_kind kind)
{
    const map_conditions *c = &r->conditions;

    for (unsigned i = 0; kind >= MAP_ACCEPT && i < c->n; i++) {
        if (c->item[i].kind == kind)
            return redirect_map_fail(r, "%s= stands there twice; put commas between", names[kind]);
    }
    return c->n < MAP_CONDITIONS_MAX ||
           redirect_map_fail(r, "more than %d conditions", MAP_CONDITIONS_MAX);
}

bool redirect_map_condition(map_reader *r, redirect_condition_kind kind, bool negated,
                            map_text value)
{
    map_conditions *c = &r->conditions;
    map_condition *item = &c->item[c->n];
    map_text all = redirect_map_trim(redirect_map_text_of(value.s, value.len));

    if (all.seen & MAP_CONTROL && kind != MAP_HEADER)
        return fail_value(r, kind, all);
    if (all.seen & MAP_CONTROL)
        return redirect_map_fail(r, "a control character in %s=", names[kind]);
    if (!is_new(r, kind))
        return false;
    if (all.len + c->len >= sizeof(c->text))
        return redirect_map_fail(r, "the conditions are longer than %d bytes",
                                 (int)sizeof(c->text) - 1);
    *item = (map_condition){kind, negated, c->len, 0};
    if (all.len)
        item->len = copy_value(kind, all, c->text + c->len, sizeof(c->text) - c->len);
    if (!item->len)
        return fail_value(r, kind, all);
    if (kind != MAP_PARAMETER && kind != MAP_HEADER) {
        item->len = redirect_condition_sort(c->text + c->len, item->len, r->row_pool);
        r->row_pool_used = true;
    }
    c->len += item->len;
    c->n++;
    return true;
}

/* "cookie=a", "!header=b", as an option of a row. */
bool redirect_map_condition_word(map_reader *r, map_text word, bool *taken)
{
    bool negated = word.len && word.s[0] == '!';
    map_text name = {word.s + negated, word.len - negated, word.seen};
    const char *equals = name.len ? memchr(name.s, '=', name.len) : NULL;
    redirect_condition_kind kind =
        equals ? redirect_condition_kind_of(name.s, (size_t)(equals - name.s)) : MAP_CONDITIONS;

    *taken = kind < MAP_UNACCEPTABLE && !(negated && kind >= MAP_ACCEPT);
    if (!*taken)
        return true;
    return redirect_map_condition(
        r, kind, negated,
        (map_text){equals + 1, (size_t)(name.s + name.len - equals - 1), word.seen});
}

/* In the order in which they are asked. */
bool redirect_map_fill_condition(map_reader *r, const redirect_map_options *options,
                                 redirect_rule *rule)
{
    const map_conditions *c = &r->conditions;
    char *to = r->condition, *end = to + sizeof(r->condition);
    bool compared = false;

    if (!c->n)
        return true;
    for (int kind = 0; kind < MAP_UNACCEPTABLE; kind++) {
        for (unsigned i = 0; i < c->n; i++) {
            const map_condition *item = &c->item[i];

            if ((int)item->kind != kind)
                continue;
            compared |= kind >= MAP_ACCEPT;
            to += apr_snprintf(to, (apr_size_t)(end - to), "%s%s%s=%.*s",
                               to > r->condition ? "\n" : "", item->negated ? "!" : "", names[kind],
                               (int)item->len, c->text + item->at);
        }
    }
    if (compared && options->unacceptable)
        to += apr_snprintf(to, (apr_size_t)(end - to), "\n%s=%d", names[MAP_UNACCEPTABLE], 406);
    rule->condition = r->condition;
    rule->condition_len = (size_t)(to - r->condition);
    return true;
}
