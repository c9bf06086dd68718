/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Asking a server's status page over HTTP, and reading its JSON. Called by the commands in
 * tool/server.c. The server may be anything: size, time and depth of the answer are bounded,
 * and only http and https are spoken.
 */
#include "tool/http.h"
#include "base/base.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MAX ((size_t)32 << 20)
#define HEADER_MAX ((size_t)64 << 10)
#define TIMEOUT_S  30L

typedef struct answer {
    char *bytes;
    size_t len, header;
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

static size_t count_header(char *data, size_t size, size_t count, void *ctx)
{
    answer *a = ctx;

    (void)data;
    a->header += size * count;
    a->too_large |= a->header > HEADER_MAX;
    return a->too_large ? 0 : size * count;
}

/* Redirects are not followed, which is curl's default. A proxy that the environment names is passed
 * by: it would be sent the secret, and its 127.0.0.1 is another machine. */
static void set_limits(CURL *curl, long wait, answer *a)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, wait ? wait : TIMEOUT_S);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, count_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, a);
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
static char *full_url(CURL *curl, const char *url, const tool_request *request)
{
    const char *const *query = request->query;
    CURLU *parts = curl_url();
    char *full = NULL;
    bool good = parts && !curl_url_set(parts, CURLUPART_URL, url, CURLU_DEFAULT_SCHEME) &&
                (request->action || request->plain || add_pair(curl, parts, "format", "json"));

    for (; good && query && query[0]; query += 2)
        good = add_pair(curl, parts, query[0], query[1]);
    if (good)
        curl_url_get(parts, CURLUPART_URL, &full, 0);
    curl_url_cleanup(parts);
    return full;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    char *header = NULL;
    struct curl_slist *longer =
        asprintf(&header, "%s: %s", name, value) >= 0 ? curl_slist_append(*list, header) : NULL;

    if (longer)
        *list = longer;
    free(longer || header ? header : NULL);
    return longer != NULL;
}

/* The first line of the file; malloc'ed. NULL: there is none to be sent, which was said. */
static char *read_secret(const char *file)
{
    char *bytes = NULL;
    size_t len = 0, line = 0;
    apr_pool_t *pool;

    if (!tool_read_file(file, &bytes, &len))
        return NULL;
    while (line < len && bytes[line] > ' ' && bytes[line] < 127)
        line++;
    if (line && (line == len || bytes[line] == '\n' || bytes[line] == '\r')) {
        bytes[line] = '\0';
        return bytes;
    }
    apr_pool_create(&pool, NULL);
    tool_say("%s: its first line must be one word of printable ASCII characters; make one with: "
             "umask 077; openssl rand -hex 32 >%s",
             file, htc_shell_word(pool, file));
    apr_pool_destroy(pool);
    free(bytes);
    return NULL;
}

/* Add the headers that make the request a change. A tool_exit; errors were printed. */
static int headers_of(const tool_options *o, const tool_request *request, struct curl_slist **list)
{
    const char *action = request->action;
    char *secret = action && o->secret_file ? read_secret(o->secret_file) : NULL;
    bool good = !action || (add_header(list, "X-HtCache", action) &&
                            (!secret || add_header(list, "X-HtCache-Secret", secret)));

    if (good && request->body)
        good = add_header(list, "Content-Type", "text/plain") && add_header(list, "Expect", "");

    if (action && o->secret_file && !secret)
        return TOOL_USAGE;
    free(secret);
    if (good)
        return TOOL_GOOD;
    tool_say("there is no memory");
    return TOOL_USAGE;
}

/* The host is this machine by its number, whatever names its certificate has: what is sent does not
 * leave it. For a secret the port must also be one that only root can listen at. */
static bool needs_no_certificate(const char *url, bool secret)
{
    CURLU *parts = curl_url();
    char *host = NULL, *port = NULL;
    bool none;

    if (parts && !curl_url_set(parts, CURLUPART_URL, url, 0)) {
        curl_url_get(parts, CURLUPART_HOST, &host, 0);
        curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    }
    none = host && port && (!strcmp(host, "127.0.0.1") || !strcmp(host, "[::1]")) &&
           (!secret || strtol(port, NULL, 10) < 1024);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(parts);
    return none;
}

/* Something was sent, so it may be done even if no answer comes. */
static void note_reached(CURL *curl, const tool_request *request)
{
    long sent = 0;

    curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
    if (request->reached)
        *request->reached = sent > 0;
}

static CURLcode perform(CURL *curl, const char *url, const tool_request *request,
                        struct curl_slist *headers, answer *a, long *status)
{
    CURLcode rv;

    set_limits(curl, request->wait, a);
    if (needs_no_certificate(url, headers != NULL)) {
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "htcachectl");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, a);
    if (headers) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->len);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body ? request->body : "");
        curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    }
    rv = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, status);
    note_reached(curl, request);
    return rv;
}

static void say_unreachable(const char *url, CURLcode rv)
{
    int len = (int)strcspn(url, "?");
    const char *next =
        "Is httpd running? --url or HTCACHE_URL names the status page's address, such "
        "as http://127.0.0.1:8080/htcache-status";

    if (rv == CURLE_PEER_FAILED_VERIFICATION)
        next =
            "Name a host that its certificate is for, or the address https://127.0.0.1, for which "
            "no certificate is asked";
    else if (rv == CURLE_SSL_CONNECT_ERROR)
        next = "Does the port speak https? If not: --url http://...";
    else if (rv == CURLE_OPERATION_TIMEDOUT)
        next = "Something listens there and does not answer; look into httpd's error log";
    tool_say("cannot reach %.*s: %s. %s", len, url, curl_easy_strerror(rv), next);
}

static int check_transfer(const char *url, CURLcode rv, long status, const answer *a)
{
    if (a->too_large) {
        tool_say(
            "%s answers with more than %zu bytes, so it is no page of mod_htcache; --url names "
            "the page's address",
            url, a->header > HEADER_MAX ? HEADER_MAX : ANSWER_MAX);
        return TOOL_FOUND;
    }
    if (rv == CURLE_UNSUPPORTED_PROTOCOL || rv == CURLE_URL_MALFORMAT) {
        tool_say("%s: %s", url, curl_easy_strerror(rv));
        return TOOL_USAGE;
    }
    if (rv != CURLE_OK && status == 0) {
        say_unreachable(url, rv);
        return TOOL_NO_SERVER;
    }
    if (rv != CURLE_OK) {
        tool_say("%s stopped answering: %s. httpd's error log may say why", url,
                 curl_easy_strerror(rv));
        return TOOL_FOUND;
    }
    return TOOL_GOOD;
}

static int ask(CURL *curl, const tool_options *o, const char *url, const tool_request *request,
               int (*take)(void *baton, const tool_got *got), void *baton, answer *a)
{
    tool_got got = {.url = url, .secret = o->secret_file != NULL};
    struct curl_slist *headers = NULL;
    int code = headers_of(o, request, &headers);

    if (code == TOOL_GOOD) {
        CURLcode rv = perform(curl, url, request, headers, a, &got.status);

        code = check_transfer(url, rv, got.status, a);
    }
    if (code == TOOL_GOOD) {
        got.bytes = a->bytes ? a->bytes : "";
        got.len = a->len;
        curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &got.type);
        curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &got.redirect);
        code = take(baton, &got);
    }
    curl_slist_free_all(headers);
    return code;
}

int tool_talk(const tool_options *options, const tool_request *request,
              int (*take)(void *baton, const tool_got *got), void *baton)
{
    answer a = {0};
    CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
    char *full = curl ? full_url(curl, options->url, request) : NULL;
    int code = TOOL_USAGE;

    if (!full)
        tool_say("not a URL: %s; it is one like http://127.0.0.1:8080/htcache-status",
                 options->url);
    else
        code = ask(curl, options, full, request, take, baton, &a);
    curl_free(full);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    free(a.bytes);
    return code;
}

/* A page that is wanted. */
typedef struct page {
    const char *action, *part;
    json_t **root;
    char **bytes;
} page;

static int take_page(void *baton, const tool_got *got)
{
    page *p = baton;
    tool_got what = *got;
    json_error_t error = {.line = -1};

    *p->root = got->status == 200 ? tool_parse_json(got->bytes, got->len, &error) : NULL;
    what.too_much = !*p->root && !error.line; /* the parser's own errors have a line */
    if (!json_is_object(json_object_get(*p->root, p->part))) {
        json_decref(*p->root);
        *p->root = NULL;
        return tool_say_got(&what, p->action);
    }
    if (!p->bytes)
        return TOOL_GOOD;
    *p->bytes = malloc(got->len + 1);
    if (*p->bytes)
        memcpy(*p->bytes, got->bytes, got->len + 1);
    else
        tool_say("there is no memory");
    return *p->bytes ? TOOL_GOOD : TOOL_USAGE;
}

int tool_ask(const tool_options *options, const char *const *query, const char *action,
             const char *part, json_t **root, char **bytes)
{
    tool_request request = {.query = query, .action = action};
    page p = {action, part, root, bytes};

    *root = NULL;
    return tool_talk(options, &request, take_page, &p);
}
