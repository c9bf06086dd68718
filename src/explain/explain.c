/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * ?explain=URL, the lead: reads the question, has the request made, and writes the report. Called by
 * the handler in status/status.c.
 */
#include "explain/internal.h"

#include "ap_listen.h"
#include "apr_uri.h"
#include "http_main.h"
#include "http_protocol.h"

#include <arpa/inet.h>

static bool is_listed(const htc_list *list, const char *text)
{
    for (int i = 0; i < htc_list_rows(list); i++) {
        if (!strcmp(htc_list_cell(list, i, 0)->text, text))
            return true;
    }
    return false;
}

void explain_note(explain *e, const char *format, ...)
{
    va_list args;
    const char *text;

    va_start(args, format);
    text = apr_pvsprintf(e->pool, format, args);
    va_end(args);
    if (!is_listed(e->notes, text))
        htc_cell_text(e->notes, text);
}

void explain_stop(explain *e, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!e->mark.stopped)
        e->mark.stopped = apr_pvsprintf(e->pool, format, args);
    va_end(args);
}

void explain_step(explain *e, const char *by, const explain_where *where, const char *text,
                  const char *path, const char *query)
{
    if (e->mark.stopped)
        return;
    if (htc_list_rows(e->steps) == EXPLAIN_MAX_STEPS) {
        explain_note(e, "Only the first %d steps are shown.", EXPLAIN_MAX_STEPS);
        return;
    }
    htc_cell_text(e->steps, by);
    htc_cell_text(e->steps, where ? where->file : NULL);
    htc_cell_number(e->steps, where ? where->line : 0);
    htc_cell_text(e->steps, apr_pstrdup(e->pool, text));
    htc_cell_text(e->steps, path ? apr_pstrdup(e->pool, path) : NULL);
    htc_cell_text(e->steps, query ? apr_pstrdup(e->pool, query) : NULL);
}

/* --- the question -----------------------------------------------------------------------------*/

/* What no browser leaves as it is. */
static const char *encode(apr_pool_t *pool, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *made = apr_palloc(pool, strlen(text) * 3 + 1), *to = made;

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c > ' ' && c < 0x7f) {
            *to++ = *text;
            continue;
        }
        *to++ = '%';
        *to++ = digits[c >> 4];
        *to++ = digits[c & 15];
    }
    *to = '\0';
    return made;
}

static bool read_url(explain *e, const char *url)
{
    const request_rec *r = e->report->r;
    apr_uri_t uri;

    if (apr_uri_parse(e->pool, encode(e->pool, url), &uri) != APR_SUCCESS ||
        (uri.scheme && strcasecmp(uri.scheme, "http") && strcasecmp(uri.scheme, "https")) ||
        (!uri.scheme && *url != '/') || (uri.scheme && (!uri.hostname || !*uri.hostname)) ||
        (uri.port_str && *uri.port_str && strtol(uri.port_str, NULL, 10) != uri.port))
        return false;
    e->url.line = apr_pstrcat(e->pool, uri.path && *uri.path ? uri.path : "/",
                              uri.query ? "?" : NULL, uri.query, NULL);
    e->url.host_header = apr_table_get(r->headers_in, "Host");
    e->url.port = r->connection->local_addr->port;
    e->url.https = !strcasecmp(uri.scheme ? uri.scheme : ap_http_scheme(r), "https");
    e->url.has_host = uri.scheme != NULL;
    if (uri.scheme) {
        e->url.host_header = uri.hostinfo;
        e->url.port = uri.port_str && *uri.port_str ? uri.port : apr_uri_port_of_scheme(uri.scheme);
    }
    if (!e->url.host_header)
        e->url.host_header = "";
    return *e->url.line == '/';
}

/* A token, as the names of methods and headers are. */
static bool is_token(const char *text, const char *end)
{
    const char *at = text;

    while (at < end && (apr_isalnum(*at) || strchr("!#$%&'*+-.^_`|~", *at)))
        at++;
    return at == end && at > text;
}

static bool is_header(explain *e, const char *text)
{
    const char *colon = strchr(text, ':');

    if (!colon || !is_token(text, colon))
        return false;
    for (const char *at = colon; *at; at++) {
        if (apr_iscntrl(*at) && *at != '\t')
            return false;
    }
    if (!strncasecmp(text, "Content-Length:", 15) || !strncasecmp(text, "Transfer-Encoding:", 18))
        explain_note(e, "No body is sent, and so is no %.*s.", (int)(colon - text), text);
    return true;
}

static bool is_address(const char *text)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, text, bytes) == 1 || inet_pton(AF_INET6, text, bytes) == 1;
}

/* NULL, or what of it is wrong. */
static const htc_explain_wrong *read_question(explain *e)
{
    static const htc_explain_wrong url = {"This is no URL of a server.",
                                          "It begins with /, http:// or https://, and has no "
                                          "spaces."};
    static const htc_explain_wrong address = {"This is no address of a client.",
                                              "address= is a number, such as 192.0.2.7 or "
                                              "2001:db8::1."};
    static const htc_explain_wrong method = {"This is no method.",
                                             "method= is a word, such as POST."};
    static const htc_explain_wrong header = {"This is no header.",
                                             "header= is 'Name: value', such as "
                                             "'Accept-Language: de'."};
    const htc_explain_question *asked = e->asked;

    e->address = asked->address ? asked->address : e->report->r->useragent_ip;
    if (asked->address && !is_address(asked->address))
        return &address;
    if (asked->method && !is_token(asked->method, asked->method + strlen(asked->method)))
        return &method;
    for (int i = 0; asked->headers && i < asked->headers->nelts; i++) {
        if (!is_header(e, APR_ARRAY_IDX(asked->headers, i, const char *)))
            return &header;
    }
    return read_url(e, asked->url) ? NULL : &url;
}

/* --- notes ------------------------------------------------------------------------------------*/

static bool is_listened_to(apr_port_t port)
{
    for (const ap_listen_rec *l = ap_listeners; l; l = l->next) {
        if (l->bind_addr->port == port)
            return true;
    }
    return false;
}

static bool has_header(const explain *e, const char *name)
{
    return apr_table_get(e->r->headers_in, name) != NULL;
}

/* Nobody may try passwords unseen. */
static void say_credentials(explain *e)
{
    const request_rec *r = e->report->r;

    explain_note(e, "The password was compared, as for any request.");
    ap_log_rerror(APLOG_MARK, APLOG_NOTICE, 0, r,
                  "HtCache: ?explain asked about %s%s with a password, and compared it: %d",
                  e->url.host_header, e->url.line, e->status);
}

/* As ap_is_chunked(), which older versions do not have. */
static bool is_chunked(explain *e, const char *codings)
{
    const char *comma = strrchr(codings, ',');
    char *last = apr_pstrdup(e->pool, comma ? comma + 1 : codings);

    apr_collapse_spaces(last, last);
    return !strcasecmp(last, "chunked");
}

static bool among(const apr_array_header_t *names, const char *host)
{
    for (int i = 0; names && i < names->nelts; i++) {
        const char *name = APR_ARRAY_IDX(names, i, const char *);

        if (name && !ap_strcasecmp_match(host, name))
            return true;
    }
    return false;
}

/* By ServerName, ServerAlias, or the address in <VirtualHost>. */
static bool has_name(const server_rec *s, const char *host)
{
    for (const server_addr_rec *a = s->addrs; a; a = a->next) {
        if (a->virthost && !strcasecmp(a->virthost, host))
            return true;
    }
    return (s->server_hostname && !strcasecmp(s->server_hostname, host)) || among(s->names, host) ||
           among(s->wild_names, host);
}

/* Where there are no virtual hosts, the one server answers for all names, as everybody expects. */
static void note_server(explain *e)
{
    const server_rec *s = e->mark.server;
    const char *host = e->r->hostname;

    if (!e->url.has_host || !host || !ap_server_conf->next || has_name(s, host))
        return;
    explain_note(e,
                 s->is_virtual ? "No virtual host there is named %s, so the first one answers."
                               : "No virtual host is named %s, so the main server answers.",
                 host);
}

/* What httpd refuses as it reads a request, so that no lookup is made. */
static void note_refusal(explain *e)
{
    const char *codings = apr_table_get(e->r->headers_in, "Transfer-Encoding");
    const char *length = apr_table_get(e->r->headers_in, "Content-Length");
    const char *expected = apr_table_get(e->r->headers_in, "Expect");
    static const char others[] = "httpd answers %s What stands here is the answer without it.";

    if (codings && !is_chunked(e, codings))
        explain_note(e, others, "400 to a Transfer-Encoding that does not end with chunked.");
    else if (!codings && length && (!*length || length[strspn(length, "0123456789")]))
        explain_note(e, others, "400 to a Content-Length that is no number.");
    if (expected && *expected && strcasecmp(expected, "100-continue"))
        explain_note(e, others, "417 to an Expect of anything but 100-continue.");
}

/* What a client's request would have, and this one has not. */
static void note_differences(explain *e)
{
    if (!is_listened_to(e->url.port))
        explain_note(e,
                     "The server does not listen on port %d. If a proxy stands before it, give the "
                     "URL with the port on which the server listens.",
                     e->url.port);
    note_server(e);
    note_refusal(e);
    if (e->url.https)
        explain_note(e,
                     "There is no TLS connection: %%{HTTPS} is on, but other variables of mod_ssl "
                     "are empty, and it asks for no certificate.");
    if (has_header(e, "Upgrade"))
        explain_note(e, "The protocol stays HTTP/1.1, whatever Upgrade asks for.");
    explain_note_modules(e);
    if (has_header(e, "Authorization") || has_header(e, "Proxy-Authorization"))
        say_credentials(e);
}

/* --- the report -------------------------------------------------------------------------------*/

static htc_list *steps_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"by", "By", HTC_TEXT, HTC_UNIT_ONE, "directive or module"},
        {"file", "File", HTC_TEXT, HTC_UNIT_ONE, "in which it stands"},
        {"line", "Line", HTC_GAUGE, HTC_UNIT_ONE, "its line there"},
        {"text", "What", HTC_TEXT, HTC_UNIT_ONE, "what it did"},
        {"path", "Path", HTC_TEXT, HTC_UNIT_ONE, "from there on"},
        {"query", "Query", HTC_TEXT, HTC_UNIT_ONE, "from there on"},
    };

    return htc_report_list(report, NULL, "steps", "Steps", "rules that were tried and held", 0,
                           columns, (int)(sizeof(columns) / sizeof(columns[0])));
}

static htc_list *log_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"level", "Level", HTC_TEXT, HTC_UNIT_ONE, "as LogLevel has it"},
        {"module", "Module", HTC_TEXT, HTC_UNIT_ONE, "that says it"},
        {"text", "Line", HTC_TEXT, HTC_UNIT_ONE, "as in the error log"},
    };

    return htc_report_list(report, NULL, "log", "Error log", "what a request would have logged", 0,
                           columns, (int)(sizeof(columns) / sizeof(columns[0])));
}

static htc_list *notes_list(htc_report *report)
{
    static const htc_column columns[] = {{"text", "Note", HTC_TEXT, HTC_UNIT_ONE, "a sentence"}};

    return htc_report_list(report, NULL, "notes", "Notes", "what else you should know", 0, columns,
                           1);
}

/* The file, once httpd has found it; NULL: it answered before. */
static const char *file_of(const explain *e)
{
    const request_rec *r = e->last;
    const htc_request *rq = r ? ap_get_module_config(r->request_config, &htcache_module) : NULL;

    if (!rq || !rq->located)
        return NULL;
    /* A rule may have put a URL in its place, and mod_proxy one there from the start. */
    if (r->filename && *r->filename == '/')
        return apr_pstrcat(e->pool, r->filename, r->path_info, NULL);
    return *rq->file == '/' ? rq->file : NULL;
}

static const char *sentence(const explain *e, const char *file)
{
    const char *text = apr_itoa(e->pool, e->status);

    if (e->mark.stopped)
        return apr_pstrcat(e->pool, "stopped: ", e->mark.stopped, NULL);
    if (!e->r)
        return "no request was made; see the notes";
    if (e->location)
        text = apr_pstrcat(e->pool, text, " to ", e->location, NULL);
    if (e->by.file)
        return apr_pstrcat(e->pool, text, ", from ", explain_place(e), NULL);
    return file ? apr_pstrcat(e->pool, text, e->location ? ", at " : ": ", file, NULL) : text;
}

static void report_scope(const explain *e, htc_group *group, const char *file)
{
    const htc_server_conf *sc = htc_server_conf_of(e->mark.server);
    const char *slash = file ? strrchr(file, '/') : NULL;
    htc_scope scope = sc->plain;

    if (slash && sc->sections)
        scope =
            htc_scope_of(sc, apr_pstrmemdup(e->pool, file, (apr_size_t)(slash - file) + 1), NULL);
    htc_add_flag(group, "enabled", scope.enabled && e->report->store,
                 "HtCache is On for the directory of that file");
    htc_add_gauge(group, "revalidate_ms", HTC_UNIT_MS,
                  scope.revalidate_ms >= 0 ? (uint64_t)scope.revalidate_ms : HTC_UNKNOWN,
                  "HtCacheRevalidate there; none: auto");
}

static void report_server(const explain *e, htc_group *group)
{
    const server_rec *s = e->mark.server;

    htc_add_text(group, "server",
                 apr_psprintf(e->pool, s->port ? "%s:%u" : "%s",
                              s->server_hostname ? s->server_hostname : "-", s->port),
                 "virtual host");
    htc_add_text(group, "server_source",
                 s->is_virtual && s->defn_name
                     ? apr_psprintf(e->pool, "%s:%u", s->defn_name, s->defn_line_number)
                     : NULL,
                 "where it stands");
}

static void report_lead(const explain *e, htc_group *group, const char *file)
{
    htc_add_text(group, "url", e->asked->url, "what was asked for");
    htc_add_text(group, "answer", sentence(e, file), "what httpd answers");
    htc_add_gauge(group, "status", HTC_UNIT_ONE, (uint64_t)e->status, "of the answer; 0: stopped");
    htc_add_text(group, "location", e->location, "Location of the answer");
    htc_add_text(group, "answered_by", e->by.file, "file of the line that answered");
    htc_add_gauge(group, "answered_line", HTC_UNIT_ONE, redirect_line_number(e->by.line),
                  "its line; 0: none is known");
    htc_add_flag(group, "answered_by_row", (e->by.line & REDIRECT_BY_ROW) != 0,
                 "several rows stand in a line: that is the number of the row");
    htc_add_text(group, "answered_edit", e->edit,
                 "source of the row, which is a temporary edit and not in the file");
    htc_add_text(group, "stopped", e->mark.stopped, "before what the request was stopped");
    htc_add_text(group, "method", e->asked->method ? e->asked->method : "GET", "of the request");
    htc_add_text(group, "address", e->address, "of the client");
    htc_add_text(group, "path", e->mark.path, "its path, decoded");
    htc_add_text(group, "query", strchr(e->url.line, '?') ? strchr(e->url.line, '?') + 1 : NULL,
                 "its query");
    report_server(e, group);
    htc_add_text(group, "file", file, "that httpd found");
    htc_add_text(group, "handler", e->handler, "that makes the answer");
    report_scope(e, group, file);
}

/* For htc_explained.step. */
static void take_step(htc_explained *mark, const char *directive, const char *file, unsigned line,
                      const char *text)
{
    explain_where where = {apr_pstrdup(mark->pool, file), line};

    explain_step((explain *)(void *)mark, directive, &where, text, NULL, NULL);
}

/* The requests' pools come of this one, and what stands in it is referred to until they end. */
static explain *begin(htc_report *report, const htc_explain_question *question)
{
    apr_pool_t *pool;
    explain *e;

    apr_pool_create(&pool, report->pool);
    e = apr_pcalloc(pool, sizeof(*e));
    e->report = report;
    e->asked = question;
    e->pool = e->mark.pool = pool;
    e->mark.server = report->server;
    e->mark.step = take_step;
    e->mark.met = apr_array_make(pool, 16, sizeof(htc_met));
    e->lines = apr_array_make(pool, 4, sizeof(explain_lines *));
    e->head = apr_pcalloc(pool, EXPLAIN_HEAD + 1);
    e->steps = steps_list(report);
    e->log = log_list(report);
    e->notes = notes_list(report);
    e->levels = explain_levels_list(report);
    return e;
}

const htc_explain_wrong *htc_explain_report(htc_report *report,
                                            const htc_explain_question *question)
{
    htc_group *group = htc_report_group(report, "explain", "What httpd does with this URL",
                                        "a request up to where it would have an effect");
    explain *e = begin(report, question);
    const htc_explain_wrong *wrong = read_question(e);
    const char *file;

    if (wrong)
        return wrong;
    e->mark.https = e->url.https;
    if (explain_make_request(e)) {
        explain_look_up(e);
        note_differences(e);
    }
    file = file_of(e);
    explain_list_levels(e, file);
    report_lead(e, group, file);
    return NULL;
}
