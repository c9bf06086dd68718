/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Asking a server's status page over HTTP, and reading its JSON. Called by the commands in
 * htcachectl_server.c. The server may be anybody: size, time and depth of the answer are bounded,
 * and only http and https are spoken.
 */
#include "htcachectl_http.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)64 << 20)
#define TIMEOUT_S  30L

typedef struct answer {
    char *bytes;
    size_t len;
    bool too_large;
} answer;

static size_t collect(char *data, size_t size, size_t count, void *ctx)
{
    answer *a = ctx;
    size_t n = size * count;
    char *grown;

    if (n > ANSWER_MAX - a->len) {
        a->too_large = true;
        return 0;
    }
    grown = realloc(a->bytes, a->len + n + 1);
    if (!grown)
        return 0;
    memcpy(grown + a->len, data, n);
    a->bytes = grown;
    a->len += n;
    a->bytes[a->len] = '\0';
    return n;
}

static bool add_pair(CURL *curl, CURLU *parts, const char *name, const char *value)
{
    char *escaped = curl_easy_escape(curl, value, 0), *pair = NULL;
    bool good = escaped && asprintf(&pair, "%s=%s", name, escaped) >= 0 &&
                !curl_url_set(parts, CURLUPART_QUERY, pair, CURLU_APPENDQUERY);

    free(pair);
    curl_free(escaped);
    return good;
}

/* The address with all pairs in its query, and format=json unless something is to be changed; or
 * NULL. Freed with curl_free(). */
static char *full_url(CURL *curl, const char *url, const char *const *query, bool action)
{
    CURLU *parts = curl_url();
    char *full = NULL;
    bool good = parts && !curl_url_set(parts, CURLUPART_URL, url, CURLU_DEFAULT_SCHEME) &&
                (action || add_pair(curl, parts, "format", "json"));

    for (; good && query && query[0]; query += 2)
        good = add_pair(curl, parts, query[0], query[1]);
    if (good)
        curl_url_get(parts, CURLUPART_URL, &full, 0);
    curl_url_cleanup(parts);
    return full;
}

static struct curl_slist *headers_of(const char *action)
{
    struct curl_slist *list = NULL;
    char *header = NULL;

    if (action && asprintf(&header, "X-HtCache: %s", action) >= 0)
        list = curl_slist_append(NULL, header);
    free(action ? header : NULL);
    return list;
}

static CURLcode perform(CURL *curl, const char *url, const char *action, answer *a, long *status)
{
    struct curl_slist *headers = headers_of(action);
    CURLcode rv;

#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#endif
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "htcachectl");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
    if (action) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    }
    rv = action && !headers ? CURLE_OUT_OF_MEMORY : curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    curl_slist_free_all(headers);
    return rv;
}

static int check_status(const char *url, long status, const char *action)
{
    if (status == 200)
        return TOOL_GOOD;
    if (status == 401 || status == 403 || status == 405) {
        tool_say("%s does not allow it (status %ld)%s", url, status,
                 action
                     ? "; does the server have 'HtCacheAdmin On', and may this host use the page?"
                     : "; may this host read the page?");
        return TOOL_REFUSED;
    }
    tool_say("%s answers %ld instead of 200; does it have 'SetHandler htcache-status'?", url,
             status);
    return TOOL_FOUND;
}

static int check_transfer(const char *url, CURLcode rv, long status, const answer *a,
                          const char *action)
{
    if (a->too_large) {
        tool_say("%s answers with more than %zu bytes", url, ANSWER_MAX);
        return TOOL_FOUND;
    }
    if (rv == CURLE_UNSUPPORTED_PROTOCOL || rv == CURLE_URL_MALFORMAT) {
        tool_say("%s: %s", url, curl_easy_strerror(rv));
        return TOOL_USAGE;
    }
    if (rv != CURLE_OK && status == 0) {
        tool_say("cannot reach %s: %s", url, curl_easy_strerror(rv));
        return TOOL_NO_SERVER;
    }
    if (rv != CURLE_OK) {
        tool_say("%s stopped answering: %s", url, curl_easy_strerror(rv));
        return TOOL_FOUND;
    }
    return check_status(url, status, action);
}

static int parse(const char *url, const answer *a, json_t **root)
{
    json_error_t error;

    *root = json_loadb(a->bytes ? a->bytes : "", a->len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*root))
        return TOOL_GOOD;
    tool_say("%s is not a page of mod_htcache%s%s", url, *root ? "" : ": ",
             *root ? "" : error.text);
    json_decref(*root);
    *root = NULL;
    return TOOL_FOUND;
}

static int ask(CURL *curl, const char *url, const char *action, json_t **root, answer *a)
{
    long status = 0;
    CURLcode rv = perform(curl, url, action, a, &status);
    int code = check_transfer(url, rv, status, a, action);

    return code == TOOL_GOOD ? parse(url, a, root) : code;
}

int tool_ask(const tool_options *options, const char *const *query, const char *action,
             json_t **root, char **bytes)
{
    answer a = {0};
    CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
    char *full = curl ? full_url(curl, options->url, query, action != NULL) : NULL;
    int code = TOOL_USAGE;

    *root = NULL;
    if (!full)
        tool_say("not a URL: %s", options->url);
    else
        code = ask(curl, full, action, root, &a);
    curl_free(full);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    if (bytes && code == TOOL_GOOD)
        *bytes = a.bytes;
    else
        free(a.bytes);
    return code;
}
