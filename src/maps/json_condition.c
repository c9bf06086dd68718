/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * "has" and "missing" of vercel.json. Their values are regexes for the whole of what is asked; those
 * that match one text only are taken. Called by maps/json.c.
 */
#include "maps/internal.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>

/* A plain name is meant as it is written. */
static bool take_host(map_reader *r, map_text value, redirect_map_options *own)
{
    char *host = apr_palloc(r->row_pool, value.len + 6), *to = host;

    r->row_pool_used = true;
    memcpy(to, "host=", 5);
    to += 5;
    for (size_t i = 0; i < value.len; i++) {
        if (value.s[i] == '\\' && i + 1 < value.len && value.s[i + 1] == '.')
            i++;
        *to++ = value.s[i];
    }
    *to = '\0';
    return strlen(host) == (size_t)(to - host) && !strchr(host, '*') &&
           !redirect_map_option(own, host, r->row_pool);
}

/* The text that the regex matches, a "." of it being meant as it is written. False: there are
 * several. */
static bool take_literal(map_reader *r, map_text regex, map_text *out)
{
    char *to = apr_palloc(r->row_pool, regex.len + 1), *start = to;

    r->row_pool_used = true;
    for (size_t i = 0; i < regex.len; i++) {
        bool escaped = regex.s[i] == '\\' && i + 1 < regex.len && apr_ispunct(regex.s[i + 1]);

        i += escaped;
        if (!escaped && (!regex.s[i] || strchr("\\^$|?*+()[]{}", regex.s[i])))
            return false;
        *to++ = regex.s[i];
    }
    *out = redirect_map_text_of(start, (size_t)(to - start));
    return true;
}

/* "key=value" */
static map_text join(map_reader *r, map_text key, char between, map_text value)
{
    char *to = apr_palloc(r->row_pool, key.len + value.len + 1);

    r->row_pool_used = true;
    memcpy(to, key.s, key.len);
    to[key.len] = between;
    if (value.len)
        memcpy(to + key.len + 1, value.s, value.len);
    return redirect_map_text_of(to, key.len + 1 + value.len);
}

static bool has_any(map_text text, const char *bytes)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.s[i] && strchr(bytes, text.s[i]))
            return true;
    }
    return false;
}

const char *redirect_map_json_condition(map_reader *r, const map_json_condition *c, bool missing,
                                        redirect_map_options *own, bool *failed)
{
    bool header = redirect_map_text_is(c->type, "header"),
         cookie = redirect_map_text_is(c->type, "cookie"),
         query = redirect_map_text_is(c->type, "query");
    map_text value = {NULL, 0, 0};

    if (redirect_map_text_is(c->type, "host"))
        return missing                                       ? "on the host 'has' alone is"
               : c->value.len && take_host(r, c->value, own) ? NULL
                                                             : "the host must be a plain name";
    if (!header && !cookie && !query)
        return "its type must be header, cookie, query or host";
    if (c->other || !c->key.len)
        return "its key and value must be strings";
    if (c->value.s && !take_literal(r, c->value, &value))
        return "its value must be a plain text, not a regex";
    if (has_any(c->key, header   ? ":"
                        : cookie ? "=,"
                                 : "=&") ||
        (!header && has_any(value, cookie ? "," : "&")))
        return "its key or value has a character that separates these";
    if (c->value.s)
        value = join(r, c->key, header ? ':' : '=', value);
    *failed = !redirect_map_condition(r,
                                      header   ? MAP_HEADER
                                      : cookie ? MAP_COOKIE
                                               : MAP_PARAMETER,
                                      missing, c->value.s ? value : c->key);
    return NULL;
}

/* The text that a condition asks for by its name alone has that name in the target. */
bool redirect_map_json_names(map_reader *r, const map_row *row)
{
    for (unsigned i = 0; i < r->conditions.n; i++) {
        const map_condition *c = &r->conditions.item[i];
        map_text name = {r->conditions.text + c->at, c->len, 0};

        if (!c->negated && redirect_map_has_name(row->target, name) &&
            !redirect_map_has_name(row->source, name))
            return redirect_map_fail(r,
                                     "the target takes ':%s' from a condition, which is not "
                                     "possible",
                                     redirect_map_quote(r, name.s, name.len));
    }
    return redirect_map_check_names(r, row->source, row->target);
}
