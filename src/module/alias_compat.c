/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What mod_alias does with its lines: how a prefix is compared with a path, and how the target of
 * a Redirect becomes a Location header (alias_matches() and try_redirect() of
 * modules/mappers/mod_alias.c). Called by folded lines, by redirect maps and by ?explain.
 */
#include "module/module.h"

#include "apr_uri.h"
#include "http_protocol.h"

size_t htc_alias_prefix(const char *path, const char *prefix, size_t len)
{
    const char *end = prefix + len, *p = path;
    bool slash = false;

    while (prefix < end) {
        slash = *prefix == '/';
        if (*p != *prefix)
            return 0;
        if (!slash) {
            p++;
            prefix++;
            continue;
        }
        while (*p == '/')
            p++;
        while (prefix < end && *prefix == '/')
            prefix++;
    }
    return slash || !*p || *p == '/' ? (size_t)(p - path) : 0;
}

const char *htc_alias_escape(apr_pool_t *pool, const char *target)
{
    apr_uri_t uri;
    const char *escaped;

    apr_uri_parse(pool, target, &uri);
    escaped = ap_escape_uri(pool, apr_uri_unparse(pool, &uri, APR_URI_UNP_OMITQUERY));
    if (uri.query)
        escaped = apr_pstrcat(pool, escaped, "?", uri.query, NULL);
    if (uri.fragment)
        escaped = apr_pstrcat(pool, escaped, "#", uri.fragment, NULL);
    return escaped;
}

const char *htc_alias_complete(request_rec *r, const char *target, apr_pool_t *pool)
{
    return *target == '/' && !htc_alias_relative(r) ? ap_construct_url(pool, target, r) : target;
}

const char *htc_alias_add_query(apr_pool_t *pool, const char *location, const char *query)
{
    return query && !strchr(location, '?') ? apr_pstrcat(pool, location, "?", query, NULL)
                                           : location;
}
