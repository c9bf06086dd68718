/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * ?explain=URL, the lead: which server and path a URL means, and what is found of it in one report.
 * Called by the handler in status/status.c.
 */
#include "explain/internal.h"

#include "apr_uri.h"
#include "http_main.h"
#include "http_protocol.h"

static bool add_note(explain *e, const char *text)
{
    for (int i = 0; i < htc_list_rows(e->notes); i++) {
        if (!strcmp(htc_list_cell(e->notes, i, 0)->text, text))
            return false;
    }
    htc_cell_text(e->notes, text);
    return true;
}

bool explain_note(explain *e, const char *format, ...)
{
    va_list args;
    const char *text;

    va_start(args, format);
    text = apr_pvsprintf(e->pool, format, args);
    va_end(args);
    return add_note(e, text);
}

void explain_note_unsure(explain *e, const char *format, ...)
{
    va_list args;
    const char *text;

    va_start(args, format);
    text = apr_pvsprintf(e->pool, format, args);
    va_end(args);
    e->certain = false;
    if (e->unread < EXPLAIN_MAX_UNREAD)
        e->unread += add_note(e, text);
    else
        add_note(e, "There are more such notes, which are not listed.");
}

const char *explain_where(const explain *e, const ap_directive_t *node)
{
    return apr_psprintf(e->pool, "%s:%d", node->filename, node->line_num);
}

/* --- which server -----------------------------------------------------------------------------*/

static bool name_listed(const apr_array_header_t *names, const char *host, bool wild)
{
    for (int i = 0; names && i < names->nelts; i++) {
        const char *name = APR_ARRAY_IDX(names, i, const char *);

        if (name && (wild ? !ap_strcasecmp_match(host, name) : !strcasecmp(host, name)))
            return true;
    }
    return false;
}

/* How well one of the virtual host's addresses fits: 0 not at all. */
static int address_fits(const server_rec *s, const apr_sockaddr_t *local, apr_port_t port)
{
    int best = 0;

    for (const server_addr_rec *a = s->addrs; a; a = a->next) {
        bool any = apr_sockaddr_is_wildcard(a->host_addr) || !strcmp(a->virthost, "*") ||
                   !strcasecmp(a->virthost, "_default_");
        bool same = !any && apr_sockaddr_equal(a->host_addr, local);
        int fits = (a->host_port && a->host_port != port) ? 0 : same ? 2 : any ? 1 : 0;

        best = fits > best ? fits : best;
    }
    return best;
}

static bool named_so(const server_rec *s, const char *host)
{
    return (s->server_hostname && !strcasecmp(host, s->server_hostname)) ||
           name_listed(s->names, host, false) || name_listed(s->wild_names, host, true);
}

/* As httpd chooses: by address, then by name; the first of the address's hosts when no name is
 * right, the main server when there is none. The list of servers has the last written first. */
static server_rec *find_server(const request_rec *r, const char *host, apr_port_t port)
{
    const apr_sockaddr_t *local = r->connection->local_addr;
    server_rec *first = NULL, *by_name = NULL;
    int best = 1;

    for (server_rec *s = ap_server_conf->next; s; s = s->next) {
        int fits = address_fits(s, local, port);

        if (fits < best)
            continue;
        by_name = named_so(s, host) ? s : fits > best ? NULL : by_name;
        best = fits;
        first = s;
    }
    return by_name ? by_name : first ? first : ap_server_conf;
}

/* --- the URL ----------------------------------------------------------------------------------*/

/* The path as httpd has it before hooks see it. False: it would refuse it. */
static bool set_path(explain *e, const char *path)
{
    char *decoded = apr_pstrdup(e->pool, path && *path ? path : "/");

    if (ap_unescape_url(decoded) != OK)
        return false;
    ap_getparents(decoded);
    ap_no2slash(decoded);
    e->path = decoded;
    return *decoded == '/';
}

/* A request that looks like one for the URL, for those who complete and compare URLs. It goes
 * through no hook. */
static void make_request(explain *e, request_rec *r, const char *host)
{
    e->r = apr_pmemdup(e->pool, r, sizeof(*r));
    e->r->request_config = ap_create_request_config(e->pool);
    e->r->per_dir_config = e->server->lookup_defaults;
    e->r->server = e->server;
    e->r->hostname = host;
    e->r->uri = apr_pstrdup(e->pool, e->path);
    e->r->args = e->query ? apr_pstrdup(e->pool, e->query) : NULL;
    e->r->headers_out = apr_table_make(e->pool, 4);
    e->r->headers_in = apr_table_make(e->pool, 4);
    e->r->subprocess_env = apr_table_make(e->pool, 4);
    e->r->notes = apr_table_make(e->pool, 4);
    e->r->method = "GET";
    e->r->method_number = M_GET;
    e->r->htaccess = NULL;
    e->r->main = e->r->prev = e->r->next = NULL;
}

void explain_set_path(explain *e, const char *path)
{
    e->path = path;
    e->r->uri = apr_pstrdup(e->pool, path);
}

void explain_set_query(explain *e, const char *query)
{
    e->query = query;
    e->r->args = query ? apr_pstrdup(e->pool, query) : NULL;
}

static bool read_url(explain *e, request_rec *r, const char *url)
{
    apr_uri_t uri;
    const char *host = r->hostname;
    apr_port_t port;

    if (apr_uri_parse(e->pool, url, &uri) != APR_SUCCESS ||
        (uri.scheme && strcmp(uri.scheme, "http") && strcmp(uri.scheme, "https")) ||
        (!uri.scheme && *url != '/') || (uri.scheme && (!uri.hostname || !*uri.hostname)) ||
        (uri.port_str && (*uri.port_str && strtol(uri.port_str, NULL, 10) != uri.port)) ||
        !set_path(e, uri.path))
        return false;
    e->query = uri.query;
    e->server = r->server;
    if (uri.hostname) {
        host = uri.hostname;
        port = uri.port ? uri.port : apr_uri_port_of_scheme(uri.scheme);
        e->server = find_server(r, host, port);
    }
    e->sc = htc_server_conf_of(e->server);
    make_request(e, r, host);
    e->host_header = uri.hostinfo != NULL;
    if (uri.hostinfo)
        apr_table_setn(e->r->headers_in, "Host", uri.hostinfo);
    return true;
}

/* --- the report -------------------------------------------------------------------------------*/

/* The question; the path may have become another one since. */
typedef struct asked {
    const char *url, *path, *query, *file, *mapped_by;
    bool complete;
} asked;

static void report_scope(explain *e, htc_group *group, const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    htc_scope scope = e->sc->plain;

    if (slash)
        scope = htc_scope_of(e->sc, apr_pstrmemdup(e->pool, file, (apr_size_t)(slash - file) + 1),
                             NULL);
    htc_add_flag(group, "enabled", scope.enabled && e->report->store,
                 "HtCache is On for the directory of that file");
    htc_add_gauge(group, "revalidate_ms", HTC_UNIT_MS,
                  scope.revalidate_ms >= 0 ? (uint64_t)scope.revalidate_ms : HTC_UNKNOWN,
                  "HtCacheRevalidate there; none: auto");
}

static void report_lead(explain *e, htc_group *group, const asked *asked)
{
    htc_add_text(group, "url", asked->url, "what was asked for");
    htc_add_text(group, "answer", e->answer, "who answers");
    htc_add_gauge(group, "status", HTC_UNIT_ONE, (uint64_t)e->status, "of the answer; 0: none");
    htc_add_text(group, "location", e->location, "Location of the answer");
    htc_add_flag(group, "complete", asked->complete,
                 "no: it took too long, or the client has gone, and the rest was not examined");
    htc_add_flag(group, "certain", e->certain, "no: conditions or other modules may change that");
    htc_add_gauge(group, "rules_more", HTC_UNIT_ONE, e->more_rules,
                  "more rules that match, but are not listed");
    htc_add_text(group, "path", asked->path, "its path, decoded");
    htc_add_text(group, "query", asked->query, "its query");
    htc_add_text(group, "server",
                 apr_psprintf(e->pool, e->server->port ? "%s:%u" : "%s",
                              e->server->server_hostname ? e->server->server_hostname : "-",
                              e->server->port),
                 "virtual host");
    htc_add_text(group, "server_source", e->host ? explain_where(e, e->host) : NULL,
                 "where it stands");
    htc_add_text(group, "file", asked->file, "where the path leads");
    htc_add_text(group, "mapped_by", asked->mapped_by, "what leads there");
    report_scope(e, group, asked->file);
}

static htc_list *rules_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"kind", "Kind", HTC_TEXT, HTC_UNIT_ONE, "directive"},
        {"phase", "When", HTC_TEXT, HTC_UNIT_ONE, "server: before the path becomes a file"},
        {"file", "File", HTC_TEXT, HTC_UNIT_ONE, "in which it stands"},
        {"line", "Line", HTC_GAUGE, HTC_UNIT_ONE, "its line there"},
        {"rule", "From", HTC_TEXT, HTC_UNIT_ONE, "path or pattern"},
        {"target", "To", HTC_TEXT, HTC_UNIT_ONE, "target as written"},
        {"status", "Status", HTC_GAUGE, HTC_UNIT_ONE, "of its answer; 0: the request goes on"},
        {"location", "Location", HTC_TEXT, HTC_UNIT_ONE, "of its answer"},
        {"conditions", "Conditions", HTC_GAUGE, HTC_UNIT_ONE, "that stand before it"},
        {"folded", "Table", HTC_FLAG, HTC_UNIT_ONE, "it is part of a table"},
    };

    return htc_report_list(report, NULL, "rules", "Rules that match",
                           "in the order in which httpd comes to them", 0, columns,
                           (int)(sizeof(columns) / sizeof(columns[0])));
}

static htc_list *steps_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"by", "By", HTC_TEXT, HTC_UNIT_ONE, "directive"},
        {"file", "File", HTC_TEXT, HTC_UNIT_ONE, "in which it stands"},
        {"line", "Line", HTC_GAUGE, HTC_UNIT_ONE, "its line there"},
        {"path", "Path", HTC_TEXT, HTC_UNIT_ONE, "from there on"},
        {"query", "Query", HTC_TEXT, HTC_UNIT_ONE, "from there on"},
        {"leads_to", "Leads to", HTC_TEXT, HTC_UNIT_ONE, "file"},
    };

    return htc_report_list(report, NULL, "steps", "The path becomes another",
                           "inside httpd; the browser does not see it", 0, columns,
                           (int)(sizeof(columns) / sizeof(columns[0])));
}

static htc_list *notes_list(htc_report *report)
{
    static const htc_column columns[] = {{"text", "Note", HTC_TEXT, HTC_UNIT_ONE, "a sentence"}};

    return htc_report_list(report, NULL, "notes", "Notes", "what else you should know", 0, columns,
                           1);
}

/* All lists in the order in which they are shown. */
static void make_lists(explain *e)
{
    e->rules = rules_list(e->report);
    e->steps = steps_list(e->report);
    e->notes = notes_list(e->report);
    e->levels_list = explain_levels_list(e->report);
    e->sections_list = explain_sections_list(e->report);
    e->listed = apr_array_make(e->pool, 8, sizeof(const ap_directive_t *));
}

bool htc_explain_report(htc_report *report, const char *url)
{
    explain e = {.report = report, .pool = report->pool, .certain = true};
    asked asked = {.url = url};
    htc_group *group;

    if (!read_url(&e, report->r, url))
        return false;
    explain_begin(&e);
    group = htc_report_group(report, "explain", "Why this URL goes where it goes",
                             "found without a request");
    make_lists(&e);
    explain_find_host(&e);
    explain_map_path(&e);
    asked.path = e.path;
    asked.query = e.query;
    asked.file = e.file;
    asked.mapped_by = e.mapped_by;
    asked.complete = explain_follow(&e);
    report_lead(&e, group, &asked);
    return true;
}
