/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Conditions, given in the words of a text map, as other formats have them. For edits of their files
 * and for the converter; see maps/condition.h.
 */
#include "maps/condition.h"
#include "maps/internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>
#include <strings.h>

/* A word taken apart. */
typedef struct word_parts {
    bool negated;
    redirect_condition_kind kind;
    const char *value; /* without blanks at its ends */
} word_parts;

static const char *trimmed(const char *s, size_t len, apr_pool_t *pool)
{
    map_text text = redirect_map_trim((map_text){s, len, 0});

    return apr_pstrmemdup(pool, text.s, text.len);
}

static bool take_parts(const char *word, word_parts *to, apr_pool_t *pool)
{
    const char *equals = strchr(word, '=');

    *to = (word_parts){.negated = *word == '!'};
    if (!equals)
        return false;
    word += to->negated;
    to->kind = redirect_condition_kind_of(word, (size_t)(equals - word));
    to->value = trimmed(equals + 1, strlen(equals + 1), pool);
    return to->kind < MAP_UNACCEPTABLE;
}

bool redirect_condition_is(const char *word)
{
    const char *name = word + (*word == '!'), *equals = strchr(name, '=');

    return equals && redirect_condition_kind_of(name, (size_t)(equals - name)) < MAP_UNACCEPTABLE;
}

/* Members of a list with commas alone between. */
static const char *packed(const char *list, apr_pool_t *pool)
{
    char *to = apr_pstrdup(pool, list), *start = to;

    for (; *list; list++) {
        if (!apr_isspace(*list))
            *to++ = *list;
    }
    *to = '\0';
    return start;
}

/* --- _redirects -------------------------------------------------------------------------------*/

const char *redirect_condition_netlify(const char *word, const char **why, apr_pool_t *pool)
{
    const char *name = NULL;
    word_parts p;

    *why = NULL;
    if (!take_parts(word, &p, pool))
        *why = "it has Language=, Country= and Cookie= alone";
    else if (p.negated)
        *why = "its conditions cannot be negated";
    else if (p.kind == MAP_LANGUAGE)
        name = "Language";
    else if (p.kind == MAP_COUNTRY)
        name = "Country";
    else if (p.kind == MAP_COOKIE && strchr(p.value, '='))
        *why = "its Cookie= has no values of cookies";
    else if (p.kind == MAP_COOKIE)
        name = "Cookie";
    else
        *why = "it has Language=, Country= and Cookie= alone";
    return *why ? NULL : apr_pstrcat(pool, name, "=", packed(p.value, pool), NULL);
}

/* --- vercel.json ------------------------------------------------------------------------------*/

/* A text as a string of JSON; @a regex: as a regex that matches it alone. */
static const char *json_string(const char *s, bool regex, apr_pool_t *pool)
{
    char *made = apr_palloc(pool, 6 * strlen(s) + 3), *to = made;

    *to++ = '"';
    for (; *s; s++) {
        if (regex && strchr("\\^$|?*+()[]{}.", *s)) {
            *to++ = '\\';
            *to++ = '\\';
        }
        if (apr_iscntrl(*s)) {
            to += apr_snprintf(to, 7, "\\u%04x", (unsigned char)*s);
            continue;
        }
        if (*s == '"' || *s == '\\')
            *to++ = '\\';
        *to++ = *s;
    }
    *to++ = '"';
    *to = '\0';
    return made;
}

/* What the reader encodes, decoded, as a browser's address shows it. NULL: something else is
 * encoded, too. */
static const char *parameter_text(const char *s, apr_pool_t *pool)
{
    char *made = apr_pstrdup(pool, s), *to = made;
    const char *end = s + strlen(s);

    for (; s < end; s++) {
        int byte = redirect_escaped_byte(s, end);

        if (*s != '%') {
            *to++ = *s;
            continue;
        }
        if (byte != ' ' && byte <= 126)
            return NULL;
        *to++ = (char)byte;
        s += 2;
    }
    *to = '\0';
    return made;
}

static const char *json_object(const char *type, const char *key, const char *value,
                               apr_pool_t *pool)
{
    return apr_pstrcat(pool, "{\"type\": \"", type, "\", \"key\": ", json_string(key, false, pool),
                       value ? ", \"value\": " : "", value ? json_string(value, true, pool) : "",
                       "}", NULL);
}

/* "name", or "name=value"; with ':' between for a header field. */
static const char *json_pair(const char *type, const char *pair, char between, const char **why,
                             apr_pool_t *pool)
{
    const char *at = strchr(pair, between), *value = NULL;

    if (at) {
        value = trimmed(at + 1, strlen(at + 1), pool);
        if (!*value)
            *why = "its conditions have no empty values";
    }
    return json_object(type, at ? trimmed(pair, (size_t)(at - pair), pool) : pair, value, pool);
}

/* All of a list must be missing; of several one cannot be wanted. */
static const char *json_cookies(const char *list, bool missing, const char **why, apr_pool_t *pool)
{
    char *state, *copy = apr_pstrdup(pool, packed(list, pool));
    const char *all = NULL;

    for (char *one = apr_strtok(copy, ",", &state); one; one = apr_strtok(NULL, ",", &state)) {
        const char *object = json_pair("cookie", one, '=', why, pool);

        if (all && !missing)
            *why = "its conditions cannot have one of several cookies";
        all = all ? apr_pstrcat(pool, all, ", ", object, NULL) : object;
    }
    return all ? all : "";
}

const char *redirect_condition_json(const char *word, bool *missing, const char **why,
                                    apr_pool_t *pool)
{
    const char *text, *made = NULL;
    word_parts p;

    *why = NULL;
    *missing = *word == '!';
    if (!strncasecmp(word, "host=", 5) && word[5] && word[5] != '*')
        return apr_pstrcat(
            pool, "{\"type\": \"host\", \"value\": ", json_string(word + 5, true, pool), "}", NULL);
    if (!take_parts(word, &p, pool) ||
        (p.kind != MAP_HEADER && p.kind != MAP_COOKIE && p.kind != MAP_PARAMETER)) {
        *why =
            "'has' and 'missing' are about header fields, cookies, parameters and one host alone";
        return NULL;
    }
    if (p.kind == MAP_HEADER)
        made = json_pair("header", p.value, ':', why, pool);
    else if (p.kind == MAP_COOKIE)
        made = json_cookies(p.value, p.negated, why, pool);
    else if ((text = parameter_text(p.value, pool)) != NULL)
        made = json_pair("query", text, '=', why, pool);
    else
        *why = "what of a parameter is written with % has no word there";
    return *why ? NULL : made;
}
