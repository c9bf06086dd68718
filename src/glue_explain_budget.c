/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What one ?explain may take. It runs the patterns of tenants' lines, of which httpd bounds each
 * one alone, and of a request only those up to the first that answers. So each pattern here has a
 * limit of its own, all have a budget, and the search ends when the client has gone. Called by the
 * other glue_explain files wherever there may be many lines.
 */
#include "glue_explain.h"

#include <poll.h>

#include "apr_portable.h"

/* About a second on a slow machine: some thousands of ordinary lines, a hundred of the worst. */
#define EXPLAIN_STEPS UINT64_C(20000000)
#define EXPLAIN_MS    1000
/* Lines between two looks at the connection, each a system call. */
#define LOOK_EVERY 64

struct explain_limits {
    redirect_budget budget;
    const request_rec *r; /* of the client */
    unsigned lines;
    bool spent;    /* nothing more is looked into */
    bool left;     /* for the client has gone */
    bool too_hard; /* a pattern met its own limit */
};

void explain_begin(explain *e)
{
    e->limits = apr_pcalloc(e->pool, sizeof(*e->limits));
    e->limits->r = e->report->r;
    redirect_budget_init(&e->limits->budget, EXPLAIN_STEPS, EXPLAIN_MS);
    redirect_budget_begin(&e->limits->budget);
}

/* httpd notices that a client has gone when it writes to it; nothing is written here for long. */
static bool client_left(const request_rec *r)
{
    conn_rec *c = r->connection;
    apr_socket_t *socket;
    struct pollfd one = {.events = POLLRDHUP};

    if (c->aborted)
        return true;
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 52)
    if (c->master)
        c = c->master;
#endif
    socket = ap_get_conn_socket(c);
    return socket && apr_os_sock_get(&one.fd, socket) == APR_SUCCESS && poll(&one, 1, 0) == 1 &&
           (one.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

bool explain_goes_on(const explain *e)
{
    explain_limits *l = e->limits;

    if (!l->spent && l->lines++ % LOOK_EVERY == 0)
        l->spent = l->left = client_left(l->r);
    if (!l->spent)
        l->spent = !redirect_budget_left(&l->budget);
    return !l->spent;
}

explain_verdict explain_match(const explain *e, const char *pattern, int flags, const char *subject,
                              apr_size_t n, ap_regmatch_t *groups)
{
    ap_regex_t *regex;
    apr_pool_t *pool;
    int rc = AP_REG_NOMATCH;

    if (!explain_goes_on(e))
        return EXPLAIN_UNKNOWN;
    apr_pool_create(&pool, e->pool);
    regex = ap_pregcomp(pool, apr_pstrcat(pool, REDIRECT_PATTERN_LIMIT, pattern, NULL),
                        AP_REG_EXTENDED | flags);
    if (regex)
        rc = ap_regexec(regex, subject, n, groups, 0);
    apr_pool_destroy(pool);
    if (rc == AP_REG_ESPACE) {
        redirect_budget_charge(&e->limits->budget, REDIRECT_PATTERN_STEPS);
        e->limits->too_hard = true;
    }
    return !regex || rc == AP_REG_ESPACE ? EXPLAIN_UNKNOWN : rc ? EXPLAIN_NO : EXPLAIN_YES;
}

void explain_charge_map(const explain *e)
{
    redirect_budget_charge(&e->limits->budget, REDIRECT_REQUEST_STEPS);
}

bool explain_complete(explain *e)
{
    const explain_limits *l = e->limits;

    if (l->too_hard)
        explain_note_unsure(e,
                            "Patterns take too many steps for this path: they are taken for ones "
                            "that do not match.");
    if (l->left) {
        explain_note_unsure(e, "The client has gone: the lines that follow were not looked into.");
        ap_log_rerror(APLOG_MARK, APLOG_INFO, 0, l->r,
                      "HtCache: ?explain ended before its answer was found: the client has gone");
    } else if (l->spent) {
        explain_note_unsure(e, "The budget for one question is spent: the lines that follow were "
                               "not looked into.");
    }
    return !l->spent;
}
