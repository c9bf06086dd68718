/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A connection that leads nowhere, a copy of the server whose error log leads nowhere, and a
 * request on them, as mod_http2 makes them for its streams. The copy belongs to this one request:
 * nothing that other requests use is changed. Called by explain/lookup.c's caller,
 * explain/explain.c.
 */
#include "explain/internal.h"
#include "redirects/redirects.h"

#include "ap_mpm.h"
#include "http_connection.h"
#include "http_main.h"
#include "http_protocol.h"
#include "http_vhost.h"
#include "mod_core.h"
#include "util_filter.h"

static ap_filter_rec_t *source_filter, *sink_filter;

/* --- filters ----------------------------------------------------------------------------------*/

/* The client sends nothing behind the header. */
static apr_status_t source(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode,
                           apr_read_type_e block, apr_off_t readbytes)
{
    (void)f;
    (void)bb;
    (void)mode;
    (void)block;
    (void)readbytes;
    return APR_EOF;
}

static void keep_head(explain *e, const char *data, size_t len)
{
    size_t room = EXPLAIN_HEAD - e->head_len;

    len = len < room ? len : room;
    memcpy(e->head + e->head_len, data, len);
    e->head_len += len;
    e->head[e->head_len] = '\0';
    e->head_complete = e->head_len == EXPLAIN_HEAD || strstr(e->head, "\r\n\r\n");
}

/* Of what is sent the header is kept, and no byte of what follows is read. */
static apr_status_t sink(ap_filter_t *f, apr_bucket_brigade *bb)
{
    explain *e = (explain *)htc_server_conf_of(f->c->base_server)->explained;

    for (apr_bucket *b = APR_BRIGADE_FIRST(bb); e && b != APR_BRIGADE_SENTINEL(bb);
         b = APR_BUCKET_NEXT(b)) {
        const char *data;
        apr_size_t len;

        if (e->head_complete || APR_BUCKET_IS_METADATA(b))
            continue;
        if (apr_bucket_read(b, &data, &len, APR_BLOCK_READ) != APR_SUCCESS)
            break;
        keep_head(e, data, len);
    }
    apr_brigade_cleanup(bb);
    return APR_SUCCESS;
}

void explain_register_filters(void)
{
    source_filter = ap_register_input_filter("HTCACHE_EXPLAIN_IN", source, NULL, AP_FTYPE_NETWORK);
    sink_filter = ap_register_output_filter("HTCACHE_EXPLAIN_OUT", sink, NULL, AP_FTYPE_NETWORK);
}

/* --- the connection ---------------------------------------------------------------------------*/

/* Of a number, so nobody is asked. */
static apr_sockaddr_t *address_of(const char *ip, apr_port_t port, apr_pool_t *pool)
{
    apr_sockaddr_t *address;

    return apr_sockaddr_info_get(&address, ip, APR_UNSPEC, port, 0, pool) == APR_SUCCESS ? address
                                                                                         : NULL;
}

#define MPM_STATE 4096 /* more than the state that any MPM keeps of a connection */

/* The event MPM notes in its own state of a connection which server a request is for. There is none
 * for this one, so it gets one that nobody reads. */
static void set_configs(conn_rec *c)
{
    const module *mpm = ap_find_linked_module(apr_pstrcat(c->pool, ap_show_mpm(), ".c", NULL));
    apr_socket_t *socket;

    c->conn_config = ap_create_conn_config(c->pool);
    if (mpm)
        ap_set_module_config(c->conn_config, mpm, apr_pcalloc(c->pool, MPM_STATE));
    if (apr_socket_create(&socket, APR_INET, SOCK_STREAM, APR_PROTO_TCP, c->pool) == APR_SUCCESS)
        ap_set_core_module_config(c->conn_config, socket);
}

static conn_rec *make_connection(explain *e)
{
    conn_rec *own = e->report->r->connection, *c = apr_pmemdup(e->pool, own, sizeof(*c));

    c->pool = e->pool;
    c->master = NULL;
    c->bucket_alloc = apr_bucket_alloc_create(c->pool);
    c->notes = apr_table_make(c->pool, 4);
    c->input_filters = NULL;
    c->output_filters = NULL;
    c->keepalives = 0;
    c->keepalive = AP_CONN_CLOSE;
    c->aborted = 0;
    c->sbh = NULL;
    c->cs = NULL;
    c->log = NULL;
    c->log_id = NULL;
    c->remote_host = NULL;
    c->double_reverse = 0;
    c->client_ip = (char *)(uintptr_t)e->address;
    c->remote_logname = ""; /* that it is known keeps mod_ident from asking the client */
    c->client_addr = address_of(c->client_ip, 0, c->pool);
    c->local_addr = address_of(own->local_ip, e->url.port, c->pool);
#if AP_MODULE_MAGIC_AT_LEAST(20180903, 1)
    c->filter_conn_ctx = NULL;
#endif
    if (!c->client_addr || !c->local_addr)
        return NULL;
    set_configs(c);
    ap_add_input_filter_handle(source_filter, NULL, NULL, c);
    ap_add_output_filter_handle(sink_filter, NULL, NULL, c);
    c->base_server = ap_server_conf;
    c->vhost_lookup_data = NULL;
    ap_update_vhost_given_ip(c);
    return c;
}

/* --- the server -------------------------------------------------------------------------------*/

/* Each line fails to be written, so the hook for log lines is called, and nothing else happens. */
static apr_file_t *nowhere(apr_pool_t *pool)
{
    apr_os_file_t closed = -1;
    apr_file_t *file = NULL;

    apr_os_file_put(&file, &closed, APR_FOPEN_WRITE, pool);
    return file;
}

/* Nothing is counted for it, and its .htaccess files are opened by hook.c's peek(). */
static void mark(explain *e, const server_rec *real, const server_rec *copy)
{
    htc_server_conf *sc = apr_pmemdup(e->pool, htc_server_conf_of(real), sizeof(*sc));

    sc->may_be_enabled = sc->may_be_auto = false;
    sc->counters = 0;
    sc->location_used = true; /* so that htc_translate() looks */
    sc->explained = &e->mark;
    ap_set_module_config(copy->module_config, &htcache_module, sc);
}

static server_rec *copy_server(explain *e, server_rec *real)
{
    server_rec *copy = apr_pmemdup(e->pool, real, sizeof(*copy));
    const htc_options *options = htc_options_get();

    copy->module_config = apr_pmemdup(e->pool, real->module_config, options->vector_bytes);
    copy->error_log = nowhere(e->pool);
    copy->log = *htc_explained_traced(&real->log, e->pool);
    if (e->url.https)
        copy->server_scheme = "https";
    mark(e, real, copy);
    explain_switch_off(copy, e->pool);
    if (options->explain_rewrite)
        htc_rewrite_adopt(options->explain_rewrite, EXPLAIN_MAP, copy, real, e->pool);
    return copy;
}

/* --- the request ------------------------------------------------------------------------------*/

#if AP_MODULE_MAGIC_AT_LEAST(20120211, 106)
#define create_request(c) ap_create_request(c)
#else
static request_rec *create_request(conn_rec *c)
{
    request_rec *r;
    apr_pool_t *pool;

    apr_pool_create(&pool, c->pool);
    r = apr_pcalloc(pool, sizeof(*r));
    r->pool = pool;
    r->connection = c;
    r->server = c->base_server;
    r->allowed_methods = ap_make_method_list(pool, 2);
    r->headers_in = apr_table_make(pool, 25);
    r->trailers_in = apr_table_make(pool, 5);
    r->subprocess_env = apr_table_make(pool, 25);
    r->headers_out = apr_table_make(pool, 12);
    r->err_headers_out = apr_table_make(pool, 5);
    r->trailers_out = apr_table_make(pool, 5);
    r->notes = apr_table_make(pool, 5);
    r->request_config = ap_create_request_config(pool);
    r->proto_output_filters = r->output_filters = c->output_filters;
    r->proto_input_filters = r->input_filters = c->input_filters;
    ap_run_create_request(r);
    r->per_dir_config = r->server->lookup_defaults;
    r->read_body = REQUEST_NO_BODY;
    r->status = HTTP_OK;
    r->used_path_info = AP_REQ_DEFAULT_PATH_INFO;
    r->useragent_addr = c->client_addr;
    r->useragent_ip = c->client_ip;
    return r;
}
#endif

/* A Host that is asked for takes the place of the URL's. A second one is merged, as any header. */
static void set_headers(const explain *e, request_rec *r)
{
    bool host = false;

    apr_table_setn(r->headers_in, "Host", e->url.host_header);
    for (int i = 0; e->asked->headers && i < e->asked->headers->nelts; i++) {
        const char *text = APR_ARRAY_IDX(e->asked->headers, i, const char *);
        const char *value = strchr(text, ':');
        const char *name = apr_pstrmemdup(r->pool, text, (apr_size_t)(value - text));

        while (apr_isspace(*++value)) {
        }
        /* With SSLEngine optional mod_ssl would shake hands with nobody. */
        if (!strcasecmp(name, "Upgrade") && ap_find_token(r->pool, value, "TLS/1.0"))
            continue;
        if (!strcasecmp(name, "Host") && !host) {
            apr_table_set(r->headers_in, name, value);
            host = true;
        } else {
            apr_table_mergen(r->headers_in, name, value);
        }
    }
}

/* As httpd reads a request's first line. Of the answer only the header is wanted. */
static void set_line(const explain *e, request_rec *r)
{
    r->method = e->asked->method ? e->asked->method : "GET";
    r->method_number = ap_method_number_of(r->method);
    r->header_only = 1;
    r->protocol = apr_pstrdup(r->pool, "HTTP/1.1");
    r->proto_num = HTTP_VERSION(1, 1);
    r->the_request = apr_pstrcat(r->pool, r->method, " ", e->url.line, " ", r->protocol, NULL);
    r->request_time = apr_time_now();
    ap_parse_uri(r, e->url.line);
}

/* httpd logs some of what it finds for the real server. */
static void choose_server(request_rec *r)
{
    static const struct ap_logconf silent = {NULL, -1};

    r->log = &silent;
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 107)
    ap_check_request_header(r);
#else
    ap_update_vhost_from_headers(r);
#endif
    r->log = NULL;
}

/* mod_rewrite does nothing for a server that is not its own, and where it keeps that is known only
 * of the mod_rewrite that the module knows. */
static bool can_copy(explain *e)
{
    const char *switcher = htc_user_switcher(), *counter = explain_counter();

    if (switcher)
        explain_note(e, "%s runs requests as different users, so none is made here.", switcher);
    else if (counter)
        explain_note(e,
                     "%s counts a request until it is logged, and would refuse others after some "
                     "of those made here. So none is made.",
                     counter);
    else if (!htc_options_get()->explain_rewrite && ap_find_linked_module("mod_rewrite.c"))
        explain_note(e,
                     "This mod_rewrite is built in a way not known here, so no request is made.");
    else
        return true;
    return false;
}

/* httpd 2.5 writes the header as text in a filter of its own, which it adds when it begins to read a
 * request. */
static void add_header_filter(request_rec *r)
{
    ap_filter_rec_t *filter = ap_get_output_filter_handle("HTTP1_RESPONSE_OUT");

    if (filter)
        ap_add_output_filter_handle(filter, NULL, r, r->connection);
}

bool explain_make_request(explain *e)
{
    conn_rec *c = can_copy(e) ? make_connection(e) : NULL;
    server_rec *base;
    request_rec *r;

    if (!c)
        return false;
    r = e->r = create_request(c);
    set_headers(e, r);
    set_line(e, r);
    ap_add_input_filter_handle(ap_http_input_filter_handle, NULL, r, c);
    add_header_filter(r);
    if (r->status == HTTP_OK)
        choose_server(r);
    e->mark.server = r->server;
    base = c->base_server;
    r->server = copy_server(e, e->mark.server);
    c->base_server = base == e->mark.server ? r->server : copy_server(e, base);
    r->per_dir_config = r->server->lookup_defaults;
    return true;
}
