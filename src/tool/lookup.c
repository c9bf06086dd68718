/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * htcachectl lookup: which row of a map, or line of a configuration, answers a URL. Lists of URLs
 * are for tool/urls.c. Called by tool/htcachectl.c.
 */
#include "tool/map_file.h"
#include "tool/urls.h"

#include <apr_strings.h>
#include <string.h>
#include <strings.h>

#define HOPS_MAX 20

/* The next request of a browser; false: none, or one that is not known to be for this map. */
static bool next_request(map_file *f, const map_hop *h, redirect_request *next)
{
    bool path = h->location && h->location[0] == '/';
    redirect_match match;
    redirect_rule rule;
    int status;

    if (!h->location || redirect_request_of(h->location, &f->server, next, &status, f->pool))
        return false;
    if (path) {
        next->host = h->request.host;
        next->host_len = h->request.host_len;
        next->https = h->request.https;
        return true;
    }
    if (h->request.host && next->host_len == h->request.host_len &&
        !memcmp(next->host, h->request.host, next->host_len))
        return true;
    /* Another host is this map's if it has a row for it. */
    if (!map_file_find(f, next, &match))
        return false;
    redirect_table_rule(f->table, match.rule, &rule, apr_palloc(f->pool, REDIRECT_RULE_ROOM), NULL);
    return rule.host != NULL;
}

static int follow(map_file *f, const redirect_request *request, bool on, map_hop *hops)
{
    redirect_request next = *request;
    int n = 0;

    while (n < HOPS_MAX && map_file_ask(f, &next, &hops[n])) {
        n++;
        if (!on || !next_request(f, &hops[n - 1], &next))
            break;
    }
    return n;
}

static void print_hops(const map_file *f, const map_hop *hops, int n, const char *vary)
{
    for (int i = 0; i < n; i++) {
        tool_put_place(stdout, f->name, hops[i].line);
        printf(": %d", hops[i].match.profile.status);
        if (hops[i].location) {
            putchar(' ');
            tool_put(stdout, hops[i].location);
        }
        puts(hops[i].refused
                 ? " refused: what was captured would change the target's host, or make it too "
                   "long"
                 : "");
    }
    if (n == HOPS_MAX)
        printf("more than %d redirects: probably a loop\n", HOPS_MAX - 1);
    if (n == 0)
        puts(f->conditions.not_acceptable ? "406: no row is acceptable" : "no row answers");
    if (vary)
        printf("Vary: %s\n", vary);
}

static json_t *json_hops(const map_file *f, const map_hop *hops, int n, const char *vary)
{
    json_t *list = json_array(), *root;

    for (int i = 0; i < n; i++) {
        json_t *one = tool_json_place(json_object(), hops[i].line);

        json_object_set_new(one, "status", json_integer(hops[i].match.profile.status));
        json_object_set_new(one, "refused", json_boolean(hops[i].refused));
        json_object_set_new(one, "location",
                            hops[i].location ? json_string(hops[i].location) : json_null());
        json_array_append_new(list, one);
    }
    root =
        json_pack("{sosbso}", "file", tool_json_string(f->name), "found", n > 0, "answers", list);
    if (f->conditions.not_acceptable)
        json_object_set_new(root, "status", json_integer(406));
    if (vary)
        json_object_set_new(root, "vary", json_string(vary));
    return root;
}

/* httpd answers before it asks any map. */
static int put_own_answer(const map_file *f, int status, const char *why, bool json)
{
    if (!json) {
        printf("no row answers: httpd answers %d itself: ", status);
        tool_put(stdout, why);
        putchar('\n');
        return TOOL_FOUND;
    }
    return tool_print_json(json_pack("{sosbs[]siss}", "file", tool_json_string(f->name), "found", 0,
                                     "answers", "status", status, "reason", why)) == TOOL_GOOD
               ? TOOL_FOUND
               : TOOL_USAGE;
}

static int look_up(map_file *f, const char *url, const tool_options *command)
{
    redirect_request request;
    map_hop hops[HOPS_MAX];
    int status, n, code;
    const char *vary, *why = redirect_request_of(url, &f->server, &request, &status, f->pool);

    if (why && !status) {
        tool_say("the URL cannot be used: %s", why);
        return TOOL_USAGE;
    }
    code = map_file_load(f, command->format);
    if (code != TOOL_GOOD)
        return code;
    if (why)
        return put_own_answer(f, status, why, command->json);
    if (f->info.pattern && !map_regexes_available())
        tool_say("built without PCRE2: rows with patterns were not asked");
    n = follow(f, &request, command->follow, hops);
    vary = command->follow ? NULL : redirect_conditions_vary(&f->conditions, f->pool);
    if (command->json) {
        int written = tool_print_json(json_hops(f, hops, n, vary));

        if (written != TOOL_GOOD)
            return written;
    } else
        print_hops(f, hops, n, vary);
    return n > 0 && n < HOPS_MAX && !hops[n - 1].refused ? TOOL_GOOD : TOOL_FOUND;
}

bool tool_take_server(const tool_options *command, redirect_server *server)
{
    static const char *const slashes[] = {[REDIRECT_SLASHES_OFF] = "off",
                                          [REDIRECT_SLASHES_ON] = "on",
                                          [REDIRECT_SLASHES_NODECODE] = "nodecode"};
    const char *encoded = command->encoded_slashes, *merge = command->merge_slashes;

    *server = (redirect_server){.keep_runs = merge && !strcasecmp(merge, "off")};
    for (int i = 0; encoded && i < 3; i++) {
        if (!strcasecmp(encoded, slashes[i])) {
            server->encoded_slashes = (redirect_slashes)i;
            encoded = NULL;
        }
    }
    if (encoded)
        tool_say("--allow-encoded-slashes must be off, on or nodecode");
    else if (merge && !server->keep_runs && strcasecmp(merge, "on") != 0)
        tool_say("--merge-slashes must be on or off");
    else
        return true;
    return false;
}

static int look_up_urls(const tool_options *command, const apr_array_header_t *names, map_file *f,
                        apr_pool_t *pool)
{
    int code;

    if (names->nelts > 1 || (!names->nelts && !command->server) ||
        (command->csv && command->json)) {
        tool_say(command->csv && command->json
                     ? "--csv or --json?"
                     : "lookup --urls needs one file to look the URLs up in, or --server");
        return TOOL_USAGE;
    }
    code = names->nelts ? map_file_load(f, command->format) : TOOL_GOOD;
    return code == TOOL_GOOD ? tool_lookup_urls(command, names->nelts ? f : NULL, pool) : code;
}

/* NULL: one of them is none, which was said. */
static const apr_table_t *take_headers(const tool_options *command, apr_pool_t *pool)
{
    apr_table_t *headers = apr_table_make(pool, command->headers);

    for (int i = 0; i < command->headers; i++) {
        const char *colon = strchr(command->header[i], ':');
        char *value = apr_pstrdup(pool, colon ? colon + 1 : "");

        if (!colon || colon == command->header[i]) {
            tool_say("--header='%s': must be 'Name: value'", command->header[i]);
            return NULL;
        }
        while (*value == ' ' || *value == '\t')
            value++;
        for (size_t n = strlen(value); n && (value[n - 1] == ' ' || value[n - 1] == '\t'); n--)
            value[n - 1] = '\0';
        apr_table_merge(
            headers, apr_pstrmemdup(pool, command->header[i], (size_t)(colon - command->header[i])),
            value);
    }
    return headers;
}

int tool_lookup(const tool_options *command, apr_pool_t *pool)
{
    apr_array_header_t *names = apr_array_make(pool, 2, sizeof(const char *));
    redirect_map_options options;
    const apr_table_t *headers = NULL;
    redirect_server server;
    map_file f;
    int code;

    if (!tool_take_words(command, &options, names, pool) || !tool_take_server(command, &server))
        return TOOL_USAGE;
    if (!command->urls && names->nelts != 2) {
        tool_say("lookup needs a file and a URL, or --urls");
        return TOOL_USAGE;
    }
    if (command->headers && (headers = take_headers(command, pool)) == NULL)
        return TOOL_USAGE;
    map_file_begin(&f, names->nelts ? APR_ARRAY_IDX(names, 0, const char *) : "", &options, pool);
    f.shows = true;
    f.server = server;
    f.headers = headers;
    f.method = command->method;
    f.country = command->country;
    code = command->urls ? look_up_urls(command, names, &f, pool)
                         : look_up(&f, APR_ARRAY_IDX(names, 1, const char *), command);
    map_file_end(&f);
    return code;
}
