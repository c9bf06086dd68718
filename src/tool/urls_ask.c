/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Asking a running server for many URLs, some at a time. The server may be anything: time and size
 * of what it sends are bounded, and only http and https are spoken. Called by tool/urls.c.
 */
#include "tool/urls.h"

#include <apr_strings.h>
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define AT_ONCE      8
#define TIMEOUT_S    10L
#define BODY_MAX     ((size_t)64 << 10)
#define HEADER_MAX   ((size_t)64 << 10)
#define FAILURES_MAX 16 /* without any answer: there is no server */

/* A request on its way. */
typedef struct asking {
    CURL *curl;
    struct curl_slist *headers;
    url_row *row;
    size_t body, header;
    char *location; /* malloc'ed */
    char error[CURL_ERROR_SIZE];
} asking;

typedef struct asker {
    CURLM *multi;
    asking at[AT_ONCE];
    url_row *rows;
    size_t count, next, done, failures, answers;
    const char *address;
    apr_pool_t *pool;
} asker;

static size_t drop_body(char *data, size_t size, size_t count, void *baton)
{
    asking *a = baton;

    (void)data;
    a->body += size * count;
    return a->body > BODY_MAX ? 0 : size * count;
}

static size_t take_header(char *data, size_t size, size_t count, void *baton)
{
    asking *a = baton;
    size_t len = size * count;

    a->header += len;
    if (a->header > HEADER_MAX)
        return 0;
    if (len > 9 && !strncasecmp(data, "location:", 9) && !a->location) {
        const char *s = data + 9, *end = data + len;

        while (s < end && (*s == ' ' || *s == '\t'))
            s++;
        while (end > s && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
            end--;
        a->location = strndup(s, (size_t)(end - s));
    }
    return len;
}

/* The path and query of a URL as they are sent: no blanks, no control characters, no fragment. */
static const char *target_of(const char *url, apr_pool_t *pool)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *host = strstr(url, "//");
    const char *s =
        host && (host == url || host[-1] == ':') ? host + 2 + strcspn(host + 2, "/?#") : url;
    char *out = apr_palloc(pool, 3 * strlen(s) + 2), *to = out;

    if (*s != '/')
        *to++ = '/';
    for (; *s && *s != '#'; s++) {
        unsigned char c = (unsigned char)*s;

        if (c > ' ' && c != 127) {
            *to++ = *s;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    *to = '\0';
    return out;
}

/* "Host: name[:port]" as in the URL; NULL: it has none. */
static const char *host_header(const char *url, apr_pool_t *pool)
{
    const char *host = strstr(url, "//");

    if (!host || (host != url && host[-1] != ':'))
        return NULL;
    host += 2;
    return apr_pstrcat(pool, "Host: ", apr_pstrmemdup(pool, host, strcspn(host, "/?#")), NULL);
}

static bool set_options(asker *k, asking *a)
{
    const char *host = host_header(a->row->url, k->pool);

    a->headers = host ? curl_slist_append(NULL, host) : NULL;
    curl_easy_reset(a->curl);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(a->curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(a->curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(a->curl, CURLOPT_PROXY, "");
    curl_easy_setopt(a->curl, CURLOPT_TIMEOUT, TIMEOUT_S);
    curl_easy_setopt(a->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(a->curl, CURLOPT_USERAGENT, "htcachectl");
    curl_easy_setopt(a->curl, CURLOPT_WRITEFUNCTION, drop_body);
    curl_easy_setopt(a->curl, CURLOPT_WRITEDATA, a);
    curl_easy_setopt(a->curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(a->curl, CURLOPT_HEADERDATA, a);
    curl_easy_setopt(a->curl, CURLOPT_ERRORBUFFER, a->error);
    curl_easy_setopt(a->curl, CURLOPT_PRIVATE, a);
    curl_easy_setopt(a->curl, CURLOPT_HTTPHEADER, a->headers);
    /* As it stands in the list: curl would take dot segments away. */
    curl_easy_setopt(a->curl, CURLOPT_REQUEST_TARGET, target_of(a->row->url, k->pool));
    return curl_easy_setopt(a->curl, CURLOPT_URL, k->address) == CURLE_OK;
}

/* The next row's request. */
static bool start(asker *k, asking *a)
{
    CURL *curl = a->curl;

    *a = (asking){.curl = curl, .row = &k->rows[k->next++]};
    return set_options(k, a) && curl_multi_add_handle(k->multi, a->curl) == CURLM_OK;
}

static void finish(asker *k, asking *a, CURLcode rv)
{
    url_answer *answer = &a->row->server;
    long status = 0;

    curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status && a->header <= HEADER_MAX && (rv == CURLE_OK || a->body > BODY_MAX)) {
        answer->status = (int)status;
        answer->location = a->location ? apr_pstrdup(k->pool, a->location) : NULL;
        k->answers++;
    } else {
        answer->why = apr_pstrdup(k->pool, *a->error ? a->error : curl_easy_strerror(rv));
        k->failures++;
    }
    k->done++;
    curl_multi_remove_handle(k->multi, a->curl);
    curl_slist_free_all(a->headers);
    free(a->location);
    a->row = NULL;
}

static bool collect(asker *k)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(k->multi, &left))) {
        asking *a;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &a);
        finish(k, a, message->data.result);
        if (k->next < k->count && !start(k, a))
            return false;
    }
    return k->answers || k->failures < FAILURES_MAX;
}

static bool ask_all(asker *k)
{
    bool terminal = isatty(STDERR_FILENO), good = true;
    int running = 0;

    for (size_t i = 0; i < AT_ONCE && k->next < k->count && good; i++)
        good = (k->at[i].curl = curl_easy_init()) && start(k, &k->at[i]);
    while (good && k->done < k->count) {
        good = curl_multi_perform(k->multi, &running) == CURLM_OK && collect(k) &&
               curl_multi_poll(k->multi, NULL, 0, 1000, NULL) == CURLM_OK;
        tool_progress(terminal, k->address, (int)(100 * k->done / k->count));
    }
    tool_progress_end(terminal);
    return good || k->done == k->count;
}

static void close_all(asker *k)
{
    for (size_t i = 0; i < AT_ONCE; i++) {
        asking *a = &k->at[i];

        if (a->row) {
            curl_multi_remove_handle(k->multi, a->curl);
            curl_slist_free_all(a->headers);
            free(a->location);
        }
        curl_easy_cleanup(a->curl);
    }
    curl_multi_cleanup(k->multi);
    curl_global_cleanup();
}

static bool is_address(const char *address)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    bool good = parts && !curl_url_set(parts, CURLUPART_URL, address, 0) &&
                !curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) &&
                (!strcmp(scheme, "http") || !strcmp(scheme, "https"));

    curl_free(scheme);
    curl_url_cleanup(parts);
    return good;
}

int urls_ask(url_row *rows, size_t count, const char *address, apr_pool_t *pool)
{
    asker k = {.rows = rows, .count = count, .address = address, .pool = pool};
    bool good;

    if (!is_address(address)) {
        tool_say("--server must be http://ADDRESS[:PORT] or https://ADDRESS[:PORT], not '%s'",
                 address);
        return TOOL_USAGE;
    }
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(k.multi = curl_multi_init())) {
        tool_say("there is no memory");
        return TOOL_USAGE;
    }
    good = ask_all(&k);
    close_all(&k);
    if (good && (k.answers || !count))
        return TOOL_GOOD;
    tool_say("cannot reach %s: %s", address,
             count && rows[0].server.why ? rows[0].server.why : "no memory");
    return TOOL_NO_SERVER;
}
