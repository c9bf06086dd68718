/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Where the status page of this machine may be: the path comes from the installed htcache.conf, the
 * addresses from the Listen lines beside it. Called by tool/htcachectl.c when neither --url nor
 * HTCACHE_URL says it.
 */
#include "tool/places.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_file_io.h>
#include <apr_strings.h>

#define DEFAULT_PATH "/htcache-status"
#define FILE_MOST    (4 << 20)
#define PLACES_MOST  16
#define CONNECT_US   1000000

/* False: it cannot be read, which is no error here. */
static bool open_lines(const char *name, config_reader *reader, apr_pool_t *pool)
{
    apr_finfo_t info;
    apr_file_t *file;
    apr_size_t len;
    char *bytes;

    if (apr_file_open(&file, name, APR_FOPEN_READ, 0, pool) != APR_SUCCESS)
        return false;
    if (apr_file_info_get(&info, APR_FINFO_SIZE | APR_FINFO_TYPE, file) != APR_SUCCESS ||
        info.filetype != APR_REG || info.size > FILE_MOST) {
        apr_file_close(file);
        return false;
    }
    len = (apr_size_t)info.size;
    bytes = apr_palloc(pool, len + 1);
    if (apr_file_read_full(file, bytes, len, &len) != APR_SUCCESS && len < (apr_size_t)info.size)
        len = 0;
    apr_file_close(file);
    *reader = (config_reader){.at = bytes, .end = bytes + len, .pool = pool};
    return true;
}

/* The path of the <Location> that has the handler. */
static const char *page_path(const char *conf_file, apr_pool_t *pool)
{
    const char *path = DEFAULT_PATH, *location = NULL;
    config_reader reader;
    config_line line;

    if (!open_lines(conf_file, &reader, pool))
        return path;
    while (config_next_line(&reader, &line)) {
        if (!strcasecmp(line.name, "<Location")) {
            const char *args = config_section_args(pool, line.args);

            location = config_word(pool, &args);
        } else if (!strcasecmp(line.name, "SetHandler") && location && *location == '/' &&
                   !strcasecmp(line.args, "htcache-status"))
            path = location;
    }
    return path;
}

static void add_place(apr_array_header_t *places, const char *scheme, const char *host,
                      apr_port_t port, const char *path)
{
    bool usual = port == (!strcmp(scheme, "https") ? 443 : 80);
    const char *named = strchr(host, ':') ? apr_psprintf(places->pool, "[%s]", host) : host;
    tool_place place = {.host = host, .port = port};

    place.url = usual ? apr_pstrcat(places->pool, scheme, "://", named, path, NULL)
                      : apr_psprintf(places->pool, "%s://%s:%u%s", scheme, named, port, path);
    for (int i = 0; i < places->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(places, i, tool_place).url, place.url))
            return;
    }
    if (places->nelts < PLACES_MOST)
        APR_ARRAY_PUSH(places, tool_place) = place;
}

/* "Listen [ADDRESS:]PORT [PROTOCOL]". All addresses of the machine include the local one. */
static void add_listen(apr_array_header_t *places, const char *args, const char *path)
{
    const char *address = config_word(places->pool, &args);
    const char *protocol = config_word(places->pool, &args);
    char *host = NULL, *scope = NULL;
    apr_port_t port = 0;

    if (apr_parse_addr_port(&host, &scope, &port, address, places->pool) != APR_SUCCESS || !port ||
        scope)
        return;
    if (!host || !strcmp(host, "0.0.0.0") || !strcmp(host, "*"))
        host = "127.0.0.1";
    else if (!strcmp(host, "::"))
        host = "::1";
    if (!*protocol)
        protocol = port == 443 || port == 8443 ? "https" : "http";
    add_place(places, strcasecmp(protocol, "https") ? "http" : "https", host, port, path);
}

static void add_listens(apr_array_header_t *places, const char *file, const char *path)
{
    config_reader reader;
    config_line line;

    if (!open_lines(file, &reader, places->pool))
        return;
    while (config_next_line(&reader, &line)) {
        if (!strcasecmp(line.name, "Listen"))
            add_listen(places, line.args, path);
    }
}

apr_array_header_t *tool_places(const char *conf_file, apr_pool_t *pool)
{
    /* Seen from the folder of htcache.conf: Debian's layout, Fedora's, httpd's own. */
    static const char *const files[] = {"../ports.conf", "../apache2.conf", "../conf/httpd.conf",
                                        "../httpd.conf", "httpd.conf"};
    apr_array_header_t *places = apr_array_make(pool, 4, sizeof(tool_place));
    const char *slash = strrchr(conf_file, '/'), *path = page_path(conf_file, pool);

    add_place(places, "http", "127.0.0.1", 80, path);
    for (size_t i = 0; slash && i < sizeof(files) / sizeof(files[0]); i++)
        add_listens(places,
                    apr_psprintf(pool, "%.*s/%s", (int)(slash - conf_file), conf_file, files[i]),
                    path);
    add_place(places, "https", "127.0.0.1", 443, path);
    return places;
}

apr_array_header_t *tool_places_of(const char *url, apr_pool_t *pool)
{
    apr_array_header_t *places = apr_array_make(pool, 2, sizeof(tool_place));
    const char *path = url + strcspn(url, "/?#");
    char *host = NULL, *scope = NULL;
    apr_port_t port = 0;

    if (apr_parse_addr_port(&host, &scope, &port, apr_pstrmemdup(pool, url, (size_t)(path - url)),
                            pool) != APR_SUCCESS ||
        !host)
        return places;
    add_place(places, "http", host, port ? port : 80, path);
    add_place(places, "https", host, port ? port : 443, path);
    return places;
}

static bool listens(const tool_place *place, apr_pool_t *pool)
{
    apr_sockaddr_t *address;
    apr_socket_t *socket;
    bool connected = false;

    if (apr_sockaddr_info_get(&address, place->host, APR_UNSPEC, place->port, 0, pool) !=
        APR_SUCCESS)
        return false;
    for (; address && !connected; address = address->next) {
        if (apr_socket_create(&socket, address->family, SOCK_STREAM, APR_PROTO_TCP, pool) !=
            APR_SUCCESS)
            continue;
        apr_socket_timeout_set(socket, CONNECT_US);
        connected = apr_socket_connect(socket, address) == APR_SUCCESS;
        apr_socket_close(socket);
    }
    return connected;
}

const tool_place *tool_listening(const apr_array_header_t *places, apr_pool_t *pool)
{
    for (int i = 0; i < places->nelts; i++) {
        const tool_place *place = &APR_ARRAY_IDX(places, i, tool_place);

        if (listens(place, pool))
            return place;
    }
    return NULL;
}

const char *tool_place_names(const apr_array_header_t *places, apr_pool_t *pool)
{
    const char *names = "";

    for (int i = 0; i < places->nelts; i++)
        names = apr_pstrcat(pool, names,
                            !i                       ? ""
                            : i + 1 == places->nelts ? " or "
                                                     : ", ",
                            APR_ARRAY_IDX(places, i, tool_place).url, NULL);
    return names;
}
