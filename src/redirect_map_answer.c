/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a matched row of a redirect map answers, and the one form in which queries are compared.
 * Called by the module for each request that a map answers, and by htcachectl lookup.
 */
#include "redirect_map.h"

#include <apr_escape.h>
#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>
#include <strings.h>

#include "redirect_map_private.h"

/* --- queries ---------------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 3986, 2.3: escaped or not, they mean the same. */
static bool is_unreserved(int c)
{
    return apr_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

size_t redirect_query_normalize(const char *query, size_t len, char *to)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int high = -1, low = -1;

        if (query[i] == '%' && i + 2 < len) {
            high = hex_value(query[i + 1]);
            low = hex_value(query[i + 2]);
        }
        if (high < 0 || low < 0) {
            to[n++] = query[i];
            continue;
        }
        i += 2;
        if (is_unreserved(high * 16 + low))
            to[n++] = (char)(high * 16 + low);
        else {
            to[n++] = '%';
            to[n++] = digits[high];
            to[n++] = digits[low];
        }
    }
    return n;
}

/* Is the parameter's name in the list? Its names have commas between them, "*" stands for any end.
 */
static bool is_stripped(const char *strip, const char *name, size_t len)
{
    while (*strip) {
        size_t n = strcspn(strip, ",");
        bool open = n && strip[n - 1] == '*';

        if (open ? len >= n - 1 && !memcmp(strip, name, n - 1)
                 : len == n && n && !memcmp(strip, name, n))
            return true;
        strip += n + (strip[n] == ',');
    }
    return false;
}

/* What the request's query has left, in @a to (3 bytes of room for each of it). Nothing in it can
 * end a header. */
static size_t copy_query(const redirect_request *request, const char *strip, char *to)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *s = request->query, *end = s + request->query_len;
    char *start = to;

    while (s < end) {
        const char *amp = memchr(s, '&', (size_t)(end - s)), *stop = amp ? amp : end;
        const char *equals = memchr(s, '=', (size_t)(stop - s));
        size_t name = (size_t)((equals ? equals : stop) - s);

        if (!strip || !is_stripped(strip, s, name)) {
            if (to > start)
                *to++ = '&';
            for (; s < stop; s++) {
                unsigned char c = (unsigned char)*s;

                if (c > ' ' && c < 127)
                    *to++ = *s;
                else {
                    *to++ = '%';
                    *to++ = digits[c >> 4];
                    *to++ = digits[c & 15];
                }
            }
        }
        s = amp ? amp + 1 : end;
    }
    return (size_t)(to - start);
}

/* --- requests --------------------------------------------------------------------------------- */

static const char *take_host(const char **url, redirect_request *request, apr_pool_t *pool)
{
    const char *s = *url;
    size_t len, name;
    char *host;

    if (!strncasecmp(s, "https://", 8)) {
        request->https = true;
        s += 8;
    } else if (!strncasecmp(s, "http://", 7))
        s += 7;
    else if (!strncmp(s, "//", 2))
        s += 2;
    else
        return *s == '/' ? NULL : "it is neither a URL nor a path";
    len = strcspn(s, "/?#");
    name = *s == '[' ? strcspn(s, "]") + 1 : strcspn(s, ":/?#");
    if (name > len || memchr(s, '@', len))
        return "its host is not valid";
    if (name && s[name - 1] == '.')
        name--;
    host = apr_pstrmemdup(pool, s, name);
    for (char *p = host; *p; p++)
        *p = (char)apr_tolower(*p);
    request->host = host;
    request->host_len = name;
    *url = s + len;
    return name ? NULL : "its host is missing";
}

const char *redirect_request_of(const char *url, redirect_request *request, apr_pool_t *pool)
{
    const char *why, *end;
    map_text path;
    char *to;

    memset(request, 0, sizeof(*request));
    why = take_host(&url, request, pool);
    if (why)
        return why;
    end = url + strcspn(url, "?#");
    path = *url == '/' ? (map_text){url, (size_t)(end - url), 0} : (map_text){"/", 1, 0};
    to = apr_palloc(pool, path.len + 1);
    why = redirect_map_decode(path, to, &request->path_len);
    if (why)
        return why;
    if (!redirect_map_resolve_dots(to, &request->path_len))
        return "it leads above '/'";
    to[request->path_len] = '\0';
    request->path = to;
    if (*end == '?') {
        request->query_len = strcspn(end + 1, "#");
        request->query = apr_pstrmemdup(pool, end + 1, request->query_len);
    }
    return NULL;
}

/* --- targets ---------------------------------------------------------------------------------- */

/* A Location being put together. `path` and `fragment` are where the target's path and everything
 * before its fragment end. */
typedef struct answer {
    char *text;
    size_t len, path, fragment;
} answer;

static void find_parts(answer *a)
{
    char *hash = memchr(a->text, '#', a->len), *mark;

    a->fragment = hash ? (size_t)(hash - a->text) : a->len;
    mark = memchr(a->text, '?', a->fragment);
    a->path = mark ? (size_t)(mark - a->text) : a->fragment;
}

static void insert(answer *a, size_t at, const char *s, size_t len, apr_pool_t *pool)
{
    char *text = apr_palloc(pool, a->len + len + 1);

    memcpy(text, a->text, at);
    memcpy(text + at, s, len);
    memcpy(text + at + len, a->text + at, a->len - at);
    a->text = text;
    a->len += len;
    a->text[a->len] = '\0';
}

static const char *escape_path(const redirect_request *request, const char *path, apr_pool_t *pool)
{
    return request->escape ? request->escape(pool, path) : apr_pescape_path(pool, path, 1);
}

/* One slash stands between the target's path and the rest, whichever of them has it: the rest of a
 * prefix begins with one or is empty. Never becomes a part of the host. */
static void append_rest(answer *a, const redirect_match *match, const redirect_request *request,
                        apr_pool_t *pool)
{
    size_t from = match->matched < request->path_len ? match->matched : request->path_len;
    const char *rest = request->path + from, *escaped, *why;

    if (!*rest)
        return;
    while (*rest == '/')
        rest++;
    find_parts(a);
    escaped = escape_path(request, rest, pool);
    if (a->path < redirect_map_free_part(a->text, a->len, &why) || a->text[a->path - 1] != '/')
        escaped = apr_pstrcat(pool, "/", escaped, NULL);
    insert(a, a->path, escaped, strlen(escaped), pool);
}

static void append_query(answer *a, const redirect_match *match, const redirect_request *request,
                         apr_pool_t *pool)
{
    char *query;
    size_t len;

    find_parts(a);
    if (!request->query || a->path != a->fragment)
        return;
    query = apr_palloc(pool, 3 * request->query_len + 1);
    query[0] = '?';
    len = copy_query(request, match->strip, query + 1);
    /* "?" alone is a query, too, for mod_alias; one whose parameters are all taken away is none. */
    if (len || !request->query_len)
        insert(a, a->path, query, len + 1, pool);
}

/* --- groups ----------------------------------------------------------------------------------- */

static const char *group_text(const redirect_request *request, const redirect_group *groups,
                              int ngroups, int i, apr_pool_t *pool)
{
    if (i >= ngroups || groups[i].start < 0 || groups[i].end < groups[i].start ||
        (size_t)groups[i].end > request->path_len)
        return "";
    return apr_pstrmemdup(pool, request->path + groups[i].start,
                          (size_t)(groups[i].end - groups[i].start));
}

/* In a query also what separates parameters. */
static const char *escape_for_query(const char *s, apr_pool_t *pool)
{
    static const char digits[] = "0123456789ABCDEF";
    char *to = apr_palloc(pool, 3 * strlen(s) + 1), *start = to;

    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (is_unreserved(c) || c == '/' || c == ':' || c == '@')
            *to++ = *s;
        else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    *to = '\0';
    return start;
}

/* "$digit" replaced. False: one stands where scheme or host are, or makes a host. */
static bool expand(answer *a, const redirect_request *request, const redirect_group *groups,
                   int ngroups, apr_pool_t *pool)
{
    const char *why, *mark = memchr(a->text, '?', a->len);
    size_t free_part = redirect_map_free_part(a->text, a->len, &why), begin = 0;
    const char *expanded = "";

    for (size_t i = 0; i < a->len; i++) {
        const char *group;

        if (a->text[i] != '$' || !apr_isdigit(a->text[i + 1]))
            continue;
        if (!free_part || i < free_part)
            return false;
        group = group_text(request, groups, ngroups, a->text[i + 1] - '0', pool);
        group = mark && mark < a->text + i ? escape_for_query(group, pool)
                                           : escape_path(request, group, pool);
        expanded = apr_pstrcat(pool, expanded, apr_pstrmemdup(pool, a->text + begin, i - begin),
                               group, NULL);
        begin = ++i + 1;
    }
    expanded = apr_pstrcat(pool, expanded, a->text + begin, NULL);
    a->len = strlen(expanded);
    a->text = apr_pstrmemdup(pool, expanded, a->len);
    return a->text[0] != '/' || (a->text[1] != '/' && a->text[1] != '\\');
}

const char *redirect_map_location(const redirect_match *match, const redirect_request *request,
                                  const redirect_group *groups, int ngroups, apr_pool_t *pool,
                                  bool *refused)
{
    answer a = {.len = match->target_len};

    *refused = false;
    if (!(match->profile->has & REDIRECT_HAS_TARGET))
        return NULL;
    a.text = apr_palloc(pool, a.len + REDIRECT_SLACK);
    redirect_match_target(match, a.text);
    a.text[a.len] = '\0';
    if (match->profile->options & REDIRECT_OPT_EXPAND &&
        !expand(&a, request, groups, ngroups, pool)) {
        *refused = true;
        return NULL;
    }
    if (match->profile->options & REDIRECT_OPT_APPEND_REST)
        append_rest(&a, match, request, pool);
    if (match->profile->options & REDIRECT_OPT_APPEND_QUERY)
        append_query(&a, match, request, pool);
    return a.text;
}
