/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Targets of Redirect and RewriteRule lines: what httpd makes of their text, and what a map cannot
 * say. Called by tool/convert_config.c.
 */
#include "tool/convert_internal.h"

#include <string.h>

#include <apr_lib.h>
#include <apr_strings.h>

const char *convert_target_fault(const char *target, bool expand)
{
    const char *why;
    size_t n = redirect_map_free_part(target, strlen(target), &why);

    if (!n)
        return why;
    for (size_t i = 0; expand && target[i] && i < n; i++) {
        if (target[i] == '$' && apr_isdigit(target[i + 1]))
            return "its scheme and host must be written out";
    }
    for (const char *s = target; (s = strchr(s, '%')); s++) {
        if (!apr_isxdigit(s[1]) || !apr_isxdigit(s[2]))
            return "'%' is not followed by two hexadecimal digits";
    }
    return NULL;
}

const char *convert_substitution(const char *text, bool escape, bool escape_query, bool *expand,
                                 apr_pool_t *pool)
{
    const char *out = "";
    bool query = false, literal_dollar = false;

    *expand = false;
    for (const char *s = text; *s; s++) {
        char one[2] = {*s, '\0'};

        if (*s == '\\' && s[1]) {
            one[0] = *++s;
            literal_dollar |= *s == '$' && apr_isdigit(s[1]);
        } else if (*s == '$' && apr_isdigit(s[1])) {
            *expand = true;
        } else
            query |= *s == '?' || (*s == '#' && !escape_query);
        out = apr_pstrcat(pool, out,
                          escape && (!query || escape_query) && one[0] != '?'
                              ? redirect_escape_path(pool, one)
                              : one,
                          NULL);
    }
    return *expand && literal_dollar ? NULL : out;
}

#define ESCAPED       "${" CONVERT_ESCAPE_MAP ":$"
#define ESCAPED_GROUP '\1'

const char *convert_mark_escaped(const char *args, apr_pool_t *pool)
{
    const char *at;

    while ((at = strstr(args, ESCAPED)) && apr_isdigit(at[strlen(ESCAPED)]) &&
           at[strlen(ESCAPED) + 1] == '}')
        args = apr_psprintf(pool, "%.*s%c%c%s", (int)(at - args), args, ESCAPED_GROUP,
                            at[strlen(ESCAPED)], at + strlen(ESCAPED) + 2);
    return args;
}

const char *convert_unmark_escaped(const char *output, apr_pool_t *pool)
{
    char *copy = apr_pstrdup(pool, output);

    for (char *s = copy; (s = strchr(s, ESCAPED_GROUP)); s++)
        *s = '$';
    return copy;
}
