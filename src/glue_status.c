/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * SetHandler htcache-status: what the cache does, as a page for people, as "Key: value" lines like
 * mod_status (?auto) and as JSON (?format=json). Reads only. Everything that comes from a file name
 * is escaped.
 */
#include "mod_htcache.h"
#include "glue_map.h"

#include "http_protocol.h"

#define MAX_LISTED_FILES     200
#define MAX_LISTED_PROCESSES 1024

static const struct {
    const char *name;
    const char *help;
} counter_texts[HTC_COUNTER_COUNT] = {
#define X(name, help) {#name, help},
    HTC_COUNTERS(X)
#undef X
};

/* One figure that is no counter. */
typedef struct gauge {
    const char *name, *help;
    uint64_t value;
} gauge;

#define MAX_GAUGES 12

/* What a page shows; collected first, so that all forms say the same. */
typedef struct snapshot {
    request_rec *r;
    const htc_context *ctx;
    const char *state;
    uint64_t counters[HTC_COUNTER_COUNT];
    gauge gauges[MAX_GAUGES];
    int ngauges;
    htc_process_stats processes[MAX_LISTED_PROCESSES];
    size_t nprocesses;
    apr_array_header_t *files; /* stock_file */
    uint64_t files_total;
    apr_array_header_t *maps; /* htc_map_report; NULL: there are none */
} snapshot;

typedef struct stock_file {
    const char *path;
    const char *reason;
} stock_file;

/* Files left to httpd, by name and with the reason that is their record's payload. */
static bool collect_file(void *baton, const char *key, size_t key_len, const htc_info *info)
{
    snapshot *snap = baton;
    stock_file *file;
    char *reason;
    size_t len;

    if (info->kind != HTC_KIND_STOCK)
        return true;
    snap->files_total++;
    if (snap->files->nelts == MAX_LISTED_FILES ||
        htc_store_copy(snap->ctx->store, info->ref, snap->r->pool, &reason, &len) != APR_SUCCESS)
        return true;
    file = apr_array_push(snap->files);
    file->path = apr_pstrmemdup(snap->r->pool, key, key_len);
    file->reason = reason;
    return true;
}

static void add_gauge(snapshot *snap, const char *name, uint64_t value, const char *help)
{
    gauge *g = &snap->gauges[snap->ngauges++];

    ap_assert(snap->ngauges <= MAX_GAUGES);
    g->name = name;
    g->value = value;
    g->help = help;
}

static void collect_gauges(snapshot *snap)
{
    htc_store_stats stats = {0};
    uint64_t bytes = 0, entries = 0;

    if (snap->ctx && snap->ctx->store)
        htc_store_stats_get(snap->ctx->store, &stats);
    for (size_t i = 0; i < snap->nprocesses; i++) {
        bytes += snap->processes[i].bytes;
        entries += snap->processes[i].entries;
    }
    add_gauge(snap, "entries", stats.entries, "records in shared memory");
    add_gauge(snap, "entries_absent", stats.absent, "records that say: there is no file");
    add_gauge(snap, "entries_parsed", stats.trees, "records that hold a parsed file");
    add_gauge(snap, "entries_stock", stats.stock, "records of files left to httpd");
    add_gauge(snap, "document_roots", stats.owners, "document roots that hold records");
    add_gauge(snap, "bytes_used", stats.bytes_used, "shared memory in use");
    add_gauge(snap, "bytes_total", stats.bytes_total, "shared memory in all");
    add_gauge(snap, "processes", snap->nprocesses, "processes that keep parsed configurations");
    add_gauge(snap, "process_entries", entries, "objects they keep");
    add_gauge(snap, "process_bytes", bytes, "memory accounted to these");
}

static snapshot *collect(request_rec *r)
{
    snapshot *snap = apr_pcalloc(r->pool, sizeof(*snap));

    snap->r = r;
    snap->ctx = htc_server_conf_of(r->server)->ctx;
    snap->files = apr_array_make(r->pool, 8, sizeof(stock_file));
    snap->maps = htc_map_reports(r->server, r->pool);
    if (!snap->ctx)
        snap->state = "off: HtCache On stands nowhere in the configuration";
    else if (!snap->ctx->store)
        snap->state = apr_pstrcat(r->pool, "off: ", snap->ctx->off_reason, NULL);
    else
        snap->state = "on";
    if (snap->ctx && snap->ctx->store) {
        for (int i = 0; i < HTC_COUNTER_COUNT; i++)
            snap->counters[i] = htc_counter_read(snap->ctx->store, i);
        snap->nprocesses =
            htc_store_process_list(snap->ctx->store, snap->processes, MAX_LISTED_PROCESSES);
        htc_store_each(snap->ctx->store, collect_file, snap);
    }
    collect_gauges(snap);
    return snap;
}

/* Length of a valid UTF-8 sequence at s, or 0. */
static size_t utf8_length(const unsigned char *s)
{
    size_t len = *s >= 0xC2 && *s < 0xE0   ? 2
                 : *s >= 0xE0 && *s < 0xF0 ? 3
                 : *s >= 0xF0 && *s < 0xF5 ? 4
                                           : 0;

    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    }
    if ((*s == 0xE0 && s[1] < 0xA0) || (*s == 0xED && s[1] > 0x9F) || (*s == 0xF0 && s[1] < 0x90) ||
        (*s == 0xF4 && s[1] > 0x8F))
        return 0;
    return len;
}

/* A JSON string. A file name need not be UTF-8: a byte that is none becomes the character of the
 * same number. */
static const char *json_string(apr_pool_t *pool, const char *text)
{
    char *out = apr_palloc(pool, strlen(text) * 6 + 3), *p = out;

    *p++ = '"';
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        size_t len = utf8_length(s);

        if (len) {
            memcpy(p, s, len);
            p += len;
            s += len;
        } else if (*s < 0x20 || *s >= 0x7F || *s == '"' || *s == '\\' || *s == '<' || *s == '&') {
            p += apr_snprintf(p, 7, "\\u%04x", *s++);
        } else {
            *p++ = (char)*s++;
        }
    }
    *p++ = '"';
    *p = '\0';
    return out;
}

static void send_json_files(const snapshot *snap)
{
    request_rec *r = snap->r;

    ap_rprintf(r, "  \"stock_files\": {\"total\": %" APR_UINT64_T_FMT ", \"listed\": [",
               (apr_uint64_t)snap->files_total);
    for (int i = 0; i < snap->files->nelts; i++) {
        const stock_file *file = &APR_ARRAY_IDX(snap->files, i, stock_file);
        ap_rprintf(r, "%s\n    {\"path\": %s, \"reason\": %s}", i ? "," : "",
                   json_string(r->pool, file->path), json_string(r->pool, file->reason));
    }
    ap_rputs("]}\n", r);
}

/* Lines of the server's configuration and of .htaccess files together. */
static void send_json_fold(const snapshot *snap)
{
    const htc_fold_counts *own = &htc_options_get()->counts;
    const uint64_t *c = snap->counters;

    ap_rprintf(snap->r,
               "  \"fold\": {\"redirects_seen\": %" APR_UINT64_T_FMT
               ", \"redirects_folded\": %" APR_UINT64_T_FMT
               ", \"rewrite_rules_seen\": %" APR_UINT64_T_FMT
               ", \"rewrite_rules_folded\": %" APR_UINT64_T_FMT "},\n",
               (apr_uint64_t)(own->redirects_seen + c[HTC_C_redirects_seen]),
               (apr_uint64_t)(own->redirects_folded + c[HTC_C_redirects_folded]),
               (apr_uint64_t)(own->rewrite_rules_seen + c[HTC_C_rewrite_rules_seen]),
               (apr_uint64_t)(own->rewrite_rules_folded + c[HTC_C_rewrite_rules_folded]));
}

static void send_json_tables(const snapshot *snap)
{
    request_rec *r = snap->r;

    ap_rputs("  \"redirect_tables\": [", r);
    for (int i = 0; snap->maps && i < snap->maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(snap->maps, i, htc_map_report);

        ap_rprintf(r,
                   "%s\n    {\"name\": %s, \"source\": %s, \"rules\": %u, \"exact\": %u, "
                   "\"prefix\": %u, \"pattern\": %u, \"bytes\": %" APR_UINT64_T_FMT
                   ", \"loaded_at\": %" APR_INT64_T_FMT ", \"lookups\": %" APR_UINT64_T_FMT
                   ", \"hits\": %" APR_UINT64_T_FMT ", \"reloads\": %u, \"failures\": %u, "
                   "\"failed\": %s}",
                   i ? "," : "", json_string(r->pool, map->name), json_string(r->pool, map->source),
                   map->info.rules, map->info.exact, map->info.prefix, map->info.pattern,
                   (apr_uint64_t)map->state.size, (apr_int64_t)map->state.loaded_at,
                   (apr_uint64_t)map->state.lookups, (apr_uint64_t)map->state.hits,
                   map->state.reloads, map->state.failures, map->state.failed ? "true" : "false");
    }
    ap_rputs("],\n", r);
}

static void send_json(const snapshot *snap)
{
    request_rec *r = snap->r;

    ap_set_content_type(r, "application/json");
    ap_rprintf(r, "{\n  \"version\": \"%s\",\n  \"state\": %s,\n  \"htaccess\": {\n", HTC_VERSION,
               json_string(r->pool, snap->state));
    for (int i = 0; i < HTC_COUNTER_COUNT; i++)
        ap_rprintf(r, "    \"%s\": %" APR_UINT64_T_FMT ",\n", counter_texts[i].name,
                   (apr_uint64_t)snap->counters[i]);
    for (int i = 0; i < snap->ngauges; i++)
        ap_rprintf(r, "    \"%s\": %" APR_UINT64_T_FMT "%s\n", snap->gauges[i].name,
                   (apr_uint64_t)snap->gauges[i].value, i + 1 < snap->ngauges ? "," : "");
    ap_rputs("  },\n  \"processes\": [", r);
    for (size_t i = 0; i < snap->nprocesses; i++) {
        const htc_process_stats *p = &snap->processes[i];
        ap_rprintf(r,
                   "%s\n    {\"pid\": %d, \"entries\": %" APR_UINT64_T_FMT
                   ", \"bytes\": %" APR_UINT64_T_FMT "}",
                   i ? "," : "", (int)p->pid, (apr_uint64_t)p->entries, (apr_uint64_t)p->bytes);
    }
    ap_rputs("],\n", r);
    send_json_fold(snap);
    send_json_tables(snap);
    send_json_files(snap);
    ap_rputs("}\n", r);
}

/* "file_stats" becomes "FileStats", as mod_status writes its keys. */
static const char *auto_key(apr_pool_t *pool, const char *name)
{
    char *key = apr_palloc(pool, strlen(name) + 1), *p = key;
    bool upper = true;

    for (; *name; name++) {
        if (*name == '_') {
            upper = true;
            continue;
        }
        *p++ = upper ? (char)apr_toupper(*name) : *name;
        upper = false;
    }
    *p = '\0';
    return key;
}

static void send_auto(const snapshot *snap)
{
    request_rec *r = snap->r;

    ap_set_content_type(r, "text/plain; charset=UTF-8");
    ap_rprintf(r, "HtCacheVersion: %s\nHtCacheState: %s\n", HTC_VERSION, snap->state);
    for (int i = 0; i < HTC_COUNTER_COUNT; i++)
        ap_rprintf(r, "HtCache%s: %" APR_UINT64_T_FMT "\n",
                   auto_key(r->pool, counter_texts[i].name), (apr_uint64_t)snap->counters[i]);
    for (int i = 0; i < snap->ngauges; i++)
        ap_rprintf(r, "HtCache%s: %" APR_UINT64_T_FMT "\n", auto_key(r->pool, snap->gauges[i].name),
                   (apr_uint64_t)snap->gauges[i].value);
}

static void send_row(request_rec *r, const char *name, uint64_t value, const char *help)
{
    ap_rprintf(r, "<tr><th>%s</th><td>%" APR_UINT64_T_FMT "</td><td>%s</td></tr>\n", name,
               (apr_uint64_t)value, ap_escape_html(r->pool, help));
}

static void send_html_files(const snapshot *snap)
{
    request_rec *r = snap->r;

    if (!snap->files_total)
        return;
    ap_rprintf(r,
               "<h2>Files left to httpd</h2>\n<p>%" APR_UINT64_T_FMT
               " in all.</p>\n<table>\n<tr><th>File</th><th>Why</th></tr>\n",
               (apr_uint64_t)snap->files_total);
    for (int i = 0; i < snap->files->nelts; i++) {
        const stock_file *file = &APR_ARRAY_IDX(snap->files, i, stock_file);
        ap_rprintf(r, "<tr><td>%s</td><td>%s</td></tr>\n", ap_escape_html(r->pool, file->path),
                   ap_escape_html(r->pool, file->reason));
    }
    ap_rputs("</table>\n", r);
}

static void send_html_maps(const snapshot *snap)
{
    request_rec *r = snap->r;

    if (!snap->maps || !snap->maps->nelts)
        return;
    ap_rputs("<h2>Redirect maps</h2>\n<table>\n<tr><th>File</th><th>Rows</th><th>Bytes</th>"
             "<th>Look-ups</th><th>Hits</th><th>Loaded</th><th>Named in</th></tr>\n",
             r);
    for (int i = 0; i < snap->maps->nelts; i++) {
        const htc_map_report *map = &APR_ARRAY_IDX(snap->maps, i, htc_map_report);

        ap_rprintf(
            r,
            "<tr><td>%s</td><td>%u</td><td>%" APR_UINT64_T_FMT "</td><td>%" APR_UINT64_T_FMT
            "</td><td>%" APR_UINT64_T_FMT "</td><td>%s%s</td><td>%s</td></tr>\n",
            ap_escape_html(r->pool, map->name), map->info.rules, (apr_uint64_t)map->state.size,
            (apr_uint64_t)map->state.lookups, (apr_uint64_t)map->state.hits,
            ap_ht_time(r->pool, apr_time_from_sec(map->state.loaded_at), "%F %T", 0),
            map->state.failed ? "; the file as it is now cannot be used, see the error log" : "",
            ap_escape_html(r->pool, map->source));
    }
    ap_rputs("</table>\n", r);
}

/* Share of look-ups that needed neither the disk nor httpd, in percent. */
static double saved_percent(const snapshot *snap)
{
    uint64_t lookups = snap->counters[HTC_C_lookups];
    uint64_t saved = snap->counters[HTC_C_hits] + snap->counters[HTC_C_absent_hits] +
                     snap->counters[HTC_C_replays];

    return lookups ? 100.0 * (double)saved / (double)lookups : 0.0;
}

static void send_html_head(const snapshot *snap)
{
    ap_set_content_type(snap->r, "text/html; charset=UTF-8");
    ap_rprintf(snap->r,
               "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"UTF-8\">"
               "<meta name=\"viewport\" content=\"width=device-width\">"
               "<title>mod_htcache</title>\n<style>body{font-family:sans-serif;margin:1em auto;"
               "max-width:60em;padding:0 1em;color-scheme:light dark}table{border-collapse:"
               "collapse}th,td{text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid "
               "#8884}td:nth-child(2){font-variant-numeric:tabular-nums}</style></head><body>\n"
               "<h1>mod_htcache %s</h1>\n<p>State: <strong>%s</strong>. %.2f %% of look-ups "
               "needed no disk. Other forms: <a href=\"?auto\">text</a>, <a "
               "href=\"?format=json\">JSON</a>.</p>\n",
               HTC_VERSION, ap_escape_html(snap->r->pool, snap->state), saved_percent(snap));
}

static void send_html(const snapshot *snap)
{
    request_rec *r = snap->r;

    send_html_head(snap);
    ap_rputs("<h2>Since the start of this configuration</h2>\n<table>\n", r);
    for (int i = 0; i < HTC_COUNTER_COUNT; i++)
        send_row(r, counter_texts[i].name, snap->counters[i], counter_texts[i].help);
    ap_rputs("</table>\n<h2>Now</h2>\n<table>\n", r);
    for (int i = 0; i < snap->ngauges; i++)
        send_row(r, snap->gauges[i].name, snap->gauges[i].value, snap->gauges[i].help);
    ap_rputs("</table>\n", r);
    send_html_maps(snap);
    send_html_files(snap);
    ap_rputs("</body></html>\n", r);
}

int htc_status_handler(request_rec *r)
{
    const snapshot *snap;

    if (!r->handler || strcmp(r->handler, "htcache-status"))
        return DECLINED;
    r->allowed |= (AP_METHOD_BIT << M_GET);
    if (r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    apr_table_setn(r->headers_out, "X-Content-Type-Options", "nosniff");
    snap = collect(r);
    if (r->args && !strcmp(r->args, "format=json"))
        send_json(snap);
    else if (r->args && !strcmp(r->args, "auto"))
        send_auto(snap);
    else if (r->args && *r->args)
        return HTTP_BAD_REQUEST;
    else
        send_html(snap);
    return OK;
}
