/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * URLs as httpd reads them, and paths as it writes them. The order of steps is that of httpd's
 * ap_process_request_internal(): first unreserved characters are decoded and dot segments and runs
 * of slashes resolved, then the rest is decoded; with AllowEncodedSlashes On what that brought is
 * resolved once more. Called by htcachectl lookup and convert, the checks of maps, and
 * redirects/map.c.
 */
#include "maps/request.h"

#include <apr_lib.h>
#include <apr_strings.h>
#include <string.h>
#include <strings.h>

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int redirect_escaped_byte(const char *s, const char *end)
{
    int high = s + 2 < end ? hex_value(s[1]) : -1, low = high >= 0 ? hex_value(s[2]) : -1;

    return low >= 0 ? high * 16 + low : -1;
}

/* RFC 3986, 2.3: escaped or not, they mean the same. */
static bool is_unreserved(int c)
{
    return c < 128 && (apr_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~');
}

static char *put_escaped(char *to, unsigned char c, const char *digits)
{
    *to++ = '%';
    *to++ = digits[c >> 4];
    *to++ = digits[c & 15];
    return to;
}

/* --- the forms in which things are compared ----------------------------------------------------*/

size_t redirect_query_normalize(const char *query, size_t len, char *to)
{
    const char *s = query, *end = query + len;
    char *start = to;

    while (s < end) {
        int byte = *s == '%' ? redirect_escaped_byte(s, end) : -1;

        if (byte < 0)
            *to++ = *s++;
        else {
            if (is_unreserved(byte))
                *to++ = (char)byte;
            else
                to = put_escaped(to, (unsigned char)byte, "0123456789ABCDEF");
            s += 3;
        }
    }
    return (size_t)(to - start);
}

const char *redirect_path_one_form(const char *path, apr_pool_t *pool)
{
    char *copy, *s;

    if (!strstr(path, "%2f"))
        return path;
    copy = apr_pstrdup(pool, path);
    for (s = strstr(copy, "%2f"); s; s = strstr(s, "%2f"))
        s[2] = 'F';
    return copy;
}

void redirect_request_one_form(redirect_request *request, apr_pool_t *pool)
{
    char *query;

    request->path = redirect_path_one_form(request->path, pool);
    if (!request->query)
        return;
    query = apr_palloc(pool, request->query_len + 1);
    request->query_len = redirect_query_normalize(request->query, request->query_len, query);
    query[request->query_len] = '\0';
    request->query = query;
}

const char *redirect_escape_path(apr_pool_t *pool, const char *path)
{
    char *to = apr_palloc(pool, 3 * strlen(path) + 1), *start = to;

    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;

        if (c < 128 && (apr_isalnum(c) || strchr("$-_.+!*'(),:;@&=/~", c)))
            *to++ = (char)c;
        else
            to = put_escaped(to, c, "0123456789abcdef");
    }
    *to = '\0';
    return start;
}

/* --- paths -------------------------------------------------------------------------------------*/

/* False: "%" stands without two digits behind it. */
static bool decode_unreserved(const char *s, size_t len, char *to)
{
    const char *end = s + len;

    while (s < end) {
        int byte = *s == '%' ? redirect_escaped_byte(s, end) : -1;

        if (*s == '%' && byte < 0)
            return false;
        if (byte >= 0 && is_unreserved(byte)) {
            *to++ = (char)byte;
            s += 3;
        } else
            *to++ = *s++;
    }
    *to = '\0';
    return true;
}

/* Behind the last slash of what is left without the last segment. */
static char *drop_segment(char *path, char *to)
{
    to--;
    while (to > path && to[-1] != '/')
        to--;
    return to;
}

/* Resolve dot segments and, unless they are kept, runs of slashes of a path that begins with "/",
 * in place. An empty segment is one, too. False: there are more ".." than segments; these are
 * dropped.
 */
static bool resolve(char *path, bool keep_runs)
{
    char *to = path + 1;
    const char *s = path + 1;
    bool inside = true;

    while (*s) {
        size_t n = strcspn(s, "/"), with_slash = n + (s[n] == '/');

        if (n == 2 && s[0] == '.' && s[1] == '.') {
            if (to > path + 1)
                to = drop_segment(path, to);
            else
                inside = false;
        } else if (!(n == 1 && *s == '.') && (n || keep_runs)) {
            memmove(to, s, with_slash);
            to += with_slash;
        }
        s += with_slash;
    }
    *to = '\0';
    return inside;
}

/* Handle what resolve() left encoded. NULL, or why httpd answers 404. */
static const char *decode(char *path, redirect_slashes slashes)
{
    const char *end = path + strlen(path), *why = NULL;
    char *to = path;

    for (const char *s = path; s < end;) {
        int byte = *s == '%' ? redirect_escaped_byte(s, end) : -1;

        if (byte == 0)
            why = "there is %00 in its path";
        if (byte == '/' && slashes == REDIRECT_SLASHES_OFF && !why)
            why = "there is an encoded slash in its path, and AllowEncodedSlashes is Off";
        if (byte < 0 || (byte == '/' && slashes == REDIRECT_SLASHES_NODECODE))
            *to++ = *s++;
        else {
            *to++ = (char)byte;
            s += 3;
        }
    }
    *to = '\0';
    return why;
}

/* The path of a request, in the pool; or why httpd answers *status itself. */
static const char *path_of(const char *s, size_t len, const redirect_server *server,
                           const char **path, int *status, apr_pool_t *pool)
{
    char *copy = apr_palloc(pool, len + 2);
    const char *why;

    for (; len > 1 && s[0] == '/' && s[1] == '/'; len--) /* with MergeSlashes Off, too */
        s++;
    *status = 400;
    if (!len)
        memcpy(copy, "/", 2);
    else if (!decode_unreserved(s, len, copy))
        return "'%' is not followed by two hexadecimal digits";
    if (!resolve(copy, server->keep_runs))
        return "it leads above '/'";
    *status = 404;
    why = decode(copy, server->encoded_slashes);
    if (why)
        return why;
    if (server->encoded_slashes == REDIRECT_SLASHES_ON)
        resolve(copy, server->keep_runs);
    *status = 0;
    *path = copy;
    return NULL;
}

/* --- URLs --------------------------------------------------------------------------------------*/

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

const char *redirect_request_of(const char *url, const redirect_server *server,
                                redirect_request *request, int *status, apr_pool_t *pool)
{
    static const redirect_server defaults = {REDIRECT_SLASHES_OFF, false};
    const char *why, *end;

    memset(request, 0, sizeof(*request));
    *status = 0;
    why = take_host(&url, request, pool);
    if (why)
        return why;
    end = url + strcspn(url, "?#");
    why = path_of(url, (size_t)(end - url), server ? server : &defaults, &request->path, status,
                  pool);
    if (why)
        return why;
    request->path_len = strlen(request->path);
    if (*end == '?') {
        request->query_len = strcspn(end + 1, "#");
        request->query = apr_pstrmemdup(pool, end + 1, request->query_len);
    }
    return NULL;
}
