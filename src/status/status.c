/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * SetHandler htcache-status: makes the report that was asked for, and chooses its form.
 */
#include "status/internal.h"
#include "explain/explain.h"

#include "http_protocol.h"

htc_report *htc_report_make(request_rec *r, bool lists)
{
    htc_report *report = htc_report_empty(r);

    report->lists = lists;
    for (int i = 0; htc_reporters[i]; i++)
        htc_reporters[i](report);
    return report;
}

/* --- the handler ------------------------------------------------------------------------------*/

typedef void send_fn(const htc_report *report);

/* A form, and whether it shows what takes a walk through all records. */
typedef struct form {
    const char *name;
    const char *content_type;
    send_fn *send;
    bool lists;
} form;

static const form forms[] = {
    {"html", "text/html; charset=UTF-8", htc_status_html, true},
    {"json", "application/json", htc_status_json, true},
    {"prometheus", "text/plain; version=0.0.4; charset=utf-8", htc_status_prometheus, false},
    {"auto", "text/plain; charset=UTF-8", htc_status_auto, false},
};

#define NFORMS      (sizeof(forms) / sizeof(forms[0]))

#define MAX_HEADERS 100 /* of a request that is to be explained; as LimitRequestFields */

/* What the query asks for. */
typedef struct question {
    const form *form;
    htc_explain_question explain; /* url NULL: nothing */
    const char *asset;            /* of the page, or NULL */
    bool redirects, directories, freshness;
    bool tab; /* redirects on the overview */
    htc_redirect_query which;
    uint32_t limit; /* 0: not said */
} question;

static bool set_form(question *q, const char *name)
{
    for (size_t i = 0; i < NFORMS; i++) {
        if (!strcmp(name, forms[i].name))
            q->form = &forms[i];
    }
    return !strcmp(q->form->name, name);
}

static bool set_number(const char *text, uint64_t max, uint64_t *number)
{
    char *end;
    apr_int64_t n;

    errno = 0;
    n = apr_isdigit(*text) ? apr_strtoi64(text, &end, 10) : -1;
    if (n < 0 || errno || *end || (uint64_t)n > max)
        return false;
    *number = (uint64_t)n;
    return true;
}

/* "90d" ago. */
static bool set_since(const char *text, int64_t *since)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}};
    char *end;
    int64_t n;

    errno = 0;
    n = apr_isdigit(*text) ? apr_strtoi64(text, &end, 10) : -1;
    for (size_t i = 0; n >= 0 && !errno && n < 1000000000 && i < sizeof(units) / sizeof(units[0]);
         i++) {
        if (strcmp(end, units[i].name))
            continue;
        *since = apr_time_sec(apr_time_now()) - n * units[i].seconds;
        *since = *since > 1 ? *since : 1;
        return true;
    }
    return false;
}

/* One "name=value" of the query; both are decoded. */
static bool set_parameter(question *q, const char *name, const char *value)
{
    uint64_t number;

    if (!strcmp(name, "format"))
        return set_form(q, value);
    if (!strcmp(name, "auto"))
        return !*value && set_form(q, "auto");
    if (!strcmp(name, "explain"))
        return *(q->explain.url = value) != '\0';
    if (!strcmp(name, "method"))
        return *(q->explain.method = value) != '\0';
    if (!strcmp(name, "address"))
        return *(q->explain.address = value) != '\0';
    if (!strcmp(name, "header")) {
        APR_ARRAY_PUSH(q->explain.headers, const char *) = value;
        return q->explain.headers->nelts <= MAX_HEADERS;
    }
    if (!strcmp(name, "asset")) {
        q->asset = value;
        return !strcmp(value, "style") || !strcmp(value, "script");
    }
    if (!strcmp(name, "redirects") || !strcmp(name, "tab")) {
        *(*name == 't' ? &q->tab : &q->redirects) = true;
        q->which.used = !strcmp(value, "top");
        q->which.missing = !strcmp(value, "missing");
        return q->which.used || q->which.missing || !strcmp(value, "unused");
    }
    if (!strcmp(name, "search")) {
        q->which.search = *value ? value : NULL;
        return true;
    }
    if (!strcmp(name, "directories")) {
        q->directories = true;
        q->freshness = !strcmp(value, "freshness");
        return q->freshness || !strcmp(value, "cost");
    }
    if (!strcmp(name, "since"))
        return set_since(value, &q->which.since);
    if (!strcmp(name, "offset"))
        return set_number(value, UINT32_MAX, &q->which.offset);
    if (strcmp(name, "limit") || !set_number(value, HTC_COSTS_MAX_LIMIT, &number) || !number)
        return false;
    q->limit = (uint32_t)number;
    return true;
}

/* One question at a time, in a form that has an answer. */
static bool makes_sense(question *q)
{
    int questions = (q->explain.url != NULL) + q->redirects + q->directories;
    uint32_t most = q->directories ? HTC_COSTS_MAX_LIMIT : HTC_REDIRECTS_MAX_LIMIT;

    if (q->limit)
        q->which.limit = q->limit;
    if (q->tab && (questions || q->form->send != htc_status_html))
        return false;
    if (!q->explain.url && (q->explain.method || q->explain.address || q->explain.headers->nelts))
        return false;
    return questions <= 1 && q->limit <= most && (!questions || q->form->lists);
}

/* False when there is something in the query that means nothing here. */
static bool read_query(request_rec *r, question *q)
{
    char *args = apr_pstrdup(r->pool, r->args ? r->args : ""), *last, *pair;

    *q = (question){.form = forms, .which = {.used = true, .limit = HTC_REDIRECTS_LIMIT}};
    q->explain.headers = apr_array_make(r->pool, 4, sizeof(const char *));
    for (pair = apr_strtok(args, "&", &last); pair; pair = apr_strtok(NULL, "&", &last)) {
        char *value = strchr(pair, '=');

        if (value)
            *value++ = '\0';
        else
            value = pair + strlen(pair);
        if (ap_unescape_urlencoded(pair) != OK || ap_unescape_urlencoded(value) != OK ||
            !set_parameter(q, pair, value))
            return false;
    }
    return makes_sense(q);
}

/* All that there is; the page has the first of the single redirects besides. */
static htc_report *answer_all(request_rec *r, const question *q)
{
    htc_report *report = htc_report_make(r, q->form->lists);
    htc_redirect_query first = q->which;

    first.limit = HTC_REDIRECTS_SHOWN;
    first.quick = first.used && !first.since && !first.search && !first.offset;
    if (q->form->send == htc_status_html)
        (first.missing ? htc_missing_report : htc_redirects_report)(report, &first);
    return report;
}

/* For people: the form again, with what they typed. */
static htc_report *say_wrong(request_rec *r, const char *typed, const htc_explain_wrong *wrong)
{
    htc_report *report = htc_report_empty(r);
    htc_group *group = htc_report_group(report, "explain", "Why this URL goes where it goes", "");

    r->status = HTTP_BAD_REQUEST;
    htc_add_text(group, "url", typed, "what was asked for");
    htc_add_text(group, HTC_EXPLAIN_WRONG, wrong->what, "what is wrong with it");
    htc_add_text(group, HTC_EXPLAIN_HINT, wrong->hint, "how it is written");
    return report;
}

/* NULL: 400, what is to be explained is no request. */
static htc_report *answer(request_rec *r, const question *q)
{
    const htc_explain_wrong *wrong;
    htc_report *report;

    if (!q->redirects && !q->explain.url && !q->directories)
        return answer_all(r, q);
    report = htc_report_empty(r);
    report->lists = true;
    if (q->redirects)
        (q->which.missing ? htc_missing_report : htc_redirects_report)(report, &q->which);
    else if (q->freshness)
        htc_freshness_list(report, q->limit ? q->limit : HTC_COSTS_LIMIT,
                           (uint32_t)q->which.offset);
    else if (q->directories)
        htc_costs_list(report, q->limit ? q->limit : HTC_COSTS_LIMIT);
    else if ((wrong = htc_explain_report(report, &q->explain)) != NULL)
        return q->form->send == htc_status_html ? say_wrong(r, q->explain.url, wrong) : NULL;
    return report;
}

static int send_asset(request_rec *r, const char *asset)
{
    bool style = !strcmp(asset, "style");
    const char *text = style ? htc_page_style : htc_page_script;

    ap_set_content_type(r, style ? "text/css; charset=UTF-8" : "text/javascript; charset=UTF-8");
    ap_set_content_length(r, (apr_off_t)strlen(text));
    ap_rputs(text, r);
    return OK;
}

/* For every answer, errors among them. */
static void set_headers(request_rec *r)
{
    apr_table_setn(r->err_headers_out, "Cache-Control", "no-store");
    apr_table_setn(r->err_headers_out, "X-Content-Type-Options", "nosniff");
    apr_table_setn(r->err_headers_out, "Content-Security-Policy", HTC_PAGE_POLICY);
}

/* What Allow says: HEAD comes with GET. */
static void set_allowed(request_rec *r)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);

    ap_allow_standard_methods(r, REPLACE_ALLOW, M_GET, -1);
    if (dc && dc->admin == 1)
        ap_allow_standard_methods(r, MERGE_ALLOW, M_POST, -1);
}

/* Not inlined: all other requests come by, too. */
static HTC_APART int answer_status(request_rec *r)
{
    const htc_report *report;
    question q;

    if (!htc_page_may_show(r)) {
        ap_log_rerror(
            APLOG_MARK, APLOG_INFO, 0, r,
            "HtCache: the status page is not shown: SetHandler " HTC_STATUS_HANDLER
            " must stand in the server's configuration, best in a <Location>; in another "
            "section no .htaccess file may apply to the request, nor may a rule, an index "
            "or an error document of another page lead here");
        return DECLINED;
    }
    set_headers(r);
    set_allowed(r);
    if (r->method_number == M_POST)
        return htc_status_post(r);
    if (r->method_number != M_GET)
        return HTTP_METHOD_NOT_ALLOWED;
    if (htc_status_asks_rows(r))
        return htc_status_rows(r);
    if (!read_query(r, &q))
        return HTTP_BAD_REQUEST;
    if (q.asset)
        return send_asset(r, q.asset);
    report = answer(r, &q);
    if (!report)
        return HTTP_BAD_REQUEST;
    ap_set_content_type(r, q.form->content_type);
    q.form->send(report);
    return OK;
}

HTC_EACH int htc_status_handler(request_rec *r)
{
    if (htc_explained_of(r))
        return htc_explain_handler(r);
    if (!r->handler || strcmp(r->handler, HTC_STATUS_HANDLER))
        return DECLINED;
    return answer_status(r);
}
