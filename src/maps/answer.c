/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a matched row of a redirect map answers.
 * Called by the module for each request that a map answers, and by htcachectl lookup.
 */
#include "maps/maps.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <apr_tables.h>
#include <string.h>

#include "maps/internal.h"

/* --- queries ---------------------------------------------------------------------------------- */

/* RFC 3986, 2.3: escaped or not, they mean the same. */
static bool is_unreserved(int c)
{
    return apr_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~';
}

/* True when the parameter's name is in the list. Its names have commas between them; "*" stands
 * for any end. */
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

bool redirect_map_strips_all(const char *strip, size_t len, const char *other, size_t other_len)
{
    const char *end = other + other_len;

    while (other && other < end) {
        const char *comma = memchr(other, ',', (size_t)(end - other));
        size_t n = (size_t)((comma ? comma : end) - other), m;
        bool found = !n;

        for (const char *s = strip, *stop = s + len; s && s < stop && !found; s += m + 1) {
            const char *next = memchr(s, ',', (size_t)(stop - s));

            m = (size_t)((next ? next : stop) - s);
            found = m && s[m - 1] == '*' ? n >= m - 1 && !memcmp(s, other, m - 1)
                                         : m == n && !memcmp(s, other, n);
        }
        if (!found)
            return false;
        other += n + 1;
    }
    return true;
}

/* Nothing in it can end a header. Behind the copy. */
static char *copy_safe(const char *s, const char *stop, char *to)
{
    static const char digits[] = "0123456789ABCDEF";

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
    return to;
}

/* The parameters of the request's query that remain, in @a to (3 bytes of room for each byte), empty
 * ones as well. */
static size_t copy_query(const redirect_request *request, const char *strip, char *to)
{
    const char *s = request->query, *end = s + request->query_len, *amp;
    char *start = to;
    bool first = true;

    do {
        const char *stop, *equals;
        size_t name;

        amp = memchr(s, '&', (size_t)(end - s));
        stop = amp ? amp : end;
        equals = memchr(s, '=', (size_t)(stop - s));
        name = (size_t)((equals ? equals : stop) - s);
        if (!strip || !is_stripped(strip, s, name)) {
            if (!first)
                *to++ = '&';
            to = copy_safe(s, stop, to);
            first = false;
        }
        s = stop + 1;
    } while (amp);
    return (size_t)(to - start);
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
    return request->escape ? request->escape(pool, path) : redirect_escape_path(pool, path);
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
    const char *strip;
    char *query;
    size_t len;

    find_parts(a);
    if (!request->query || a->path != a->fragment)
        return;
    query = apr_palloc(pool, 3 * request->query_len + 1);
    query[0] = '?';
    strip = match->strip ? apr_pstrmemdup(pool, match->strip, match->strip_len) : NULL;
    len = copy_query(request, strip, query + 1);
    /* "?" alone is a query, too, for mod_alias; one whose parameters are all taken away is none. */
    if (len || !request->query_len)
        insert(a, a->path, query, len + 1, pool);
}

/* As mod_alias and mod_rewrite do it. */
static void append_behind(answer *a, const redirect_match *match, const redirect_request *request,
                          apr_pool_t *pool)
{
    unsigned options = match->profile.options;
    size_t from = match->matched < request->path_len ? match->matched : request->path_len;

    if (match->profile.kind == REDIRECT_PREFIX && !(options & REDIRECT_OPT_APPEND_REST)) {
        const char *rest = escape_path(request, request->path + from, pool);

        insert(a, a->len, rest, strlen(rest), pool);
    }
    if (options & REDIRECT_OPT_APPEND_QUERY && request->query && !memchr(a->text, '?', a->len)) {
        insert(a, a->len, "?", 1, pool);
        insert(a, a->len, request->query, request->query_len, pool);
    }
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

/* A piece of the text, which has @a len bytes then. False: that is too long. */
static bool add_piece(apr_array_header_t *pieces, const char *s, size_t n, size_t *len)
{
    struct iovec *piece = apr_array_push(pieces);

    *piece = (struct iovec){.iov_base = (char *)s, .iov_len = n};
    *len += n;
    return *len <= REDIRECT_LOCATION_MAX;
}

/* "$digit" replaced. False: one stands where scheme or host are, or makes a host; or the text
 * becomes too long. */
static bool expand(answer *a, const redirect_request *request, const redirect_group *groups,
                   int ngroups, apr_pool_t *pool)
{
    const char *why, *mark = memchr(a->text, '?', a->len);
    size_t free_part = redirect_map_free_part(a->text, a->len, &why), begin = 0, len = 0;
    apr_array_header_t *pieces = apr_array_make(pool, 8, sizeof(struct iovec));

    for (size_t i = 0; i < a->len; i++) {
        const char *group;

        if (a->text[i] != '$' || !apr_isdigit(a->text[i + 1]))
            continue;
        if (!free_part || i < free_part)
            return false;
        group = group_text(request, groups, ngroups, a->text[i + 1] - '0', pool);
        group = mark && mark < a->text + i ? escape_for_query(group, pool)
                                           : escape_path(request, group, pool);
        if (!add_piece(pieces, a->text + begin, i - begin, &len) ||
            !add_piece(pieces, group, strlen(group), &len))
            return false;
        begin = ++i + 1;
    }
    if (!add_piece(pieces, a->text + begin, a->len - begin, &len))
        return false;
    a->text = apr_pstrcatv(pool, (struct iovec *)pieces->elts, (apr_size_t)pieces->nelts, &a->len);
    return a->text[0] != '/' || (a->text[1] != '/' && a->text[1] != '\\');
}

const char *redirect_map_location(const redirect_match *match, const redirect_request *request,
                                  const redirect_group *groups, int ngroups, apr_pool_t *pool,
                                  bool *refused)
{
    answer a = {.len = match->target_len};

    *refused = false;
    if (!(match->profile.has & REDIRECT_HAS_TARGET))
        return NULL;
    a.text = apr_palloc(pool, a.len + REDIRECT_SLACK);
    redirect_match_target(match, a.text);
    a.text[a.len] = '\0';
    if (match->profile.options & REDIRECT_OPT_EXPAND &&
        !expand(&a, request, groups, ngroups, pool)) {
        *refused = true;
        return NULL;
    }
    if (match->profile.options & REDIRECT_OPT_APPEND_REST)
        append_rest(&a, match, request, pool);
    if (match->profile.options & REDIRECT_OPT_LINE)
        append_behind(&a, match, request, pool);
    else if (match->profile.options & REDIRECT_OPT_APPEND_QUERY)
        append_query(&a, match, request, pool);
    return a.text;
}
