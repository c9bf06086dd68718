/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The budget of one ?explain. It runs the patterns of tenants' lines. httpd limits each pattern
 * alone, and runs those of a request only up to the first that answers. Here each pattern has a
 * limit of its own, all together have a budget, and the search ends when the client has gone. The
 * budget also pays for the text that rules make of groups: one line can repeat a group four
 * thousand times.
 * Called by the other files of this folder wherever there may be many lines.
 */
#include "explain/internal.h"

#include <poll.h>

#include "apr_portable.h"
#include "http_protocol.h"

/* About a second on a slow machine: some thousands of ordinary lines, a hundred of the worst. */
#define EXPLAIN_STEPS UINT64_C(20000000)
#define EXPLAIN_MS    1000
/* Lines between two looks at the connection, each a system call. */
#define LOOK_EVERY 64

struct explain_limits {
    redirect_budget budget;
    request_rec *r; /* of the client */
    unsigned lines;
    bool spent;    /* nothing more is looked into */
    bool left;     /* for the client has gone */
    bool asked;    /* whether it is there, of a client that has closed its half */
    bool too_hard; /* a pattern met its own limit */
};

void explain_begin(explain *e)
{
    e->limits = apr_pcalloc(e->pool, sizeof(*e->limits));
    e->limits->r = e->report->r;
    redirect_budget_init(&e->limits->budget, EXPLAIN_STEPS, EXPLAIN_MS);
    redirect_budget_begin(&e->limits->budget);
}

/* A client that will send nothing more may wait for its answer, as httpd lets it, or be gone. Its
 * kernel says so of what is written to it: here an interim response, which a client passes over. */
static void ask_client(request_rec *r)
{
    const char *line = r->status_line;
    int status = r->status;

    r->status = HTTP_PROCESSING;
    r->status_line = NULL;
    ap_send_interim_response(r, 0);
    r->status = status;
    r->status_line = line;
}

/* httpd notices that a client has gone when it writes to it; nothing is written here for long. */
static bool client_left(explain_limits *l)
{
    conn_rec *c = l->r->connection;
    bool multiplexed = false; /* as httpd's HTTP/2 ends with the client's half */
    apr_socket_t *socket;
    struct pollfd one = {.events = POLLRDHUP};

    if (c->aborted)
        return true;
#if AP_MODULE_MAGIC_AT_LEAST(20120211, 52)
    multiplexed = c->master != NULL;
    if (multiplexed)
        c = c->master;
#endif
    socket = ap_get_conn_socket(c);
    if (!socket || apr_os_sock_get(&one.fd, socket) != APR_SUCCESS || poll(&one, 1, 0) != 1)
        return false;
    if ((one.revents & (POLLHUP | POLLERR)) || multiplexed)
        return true;
    if (!l->asked)
        ask_client(l->r);
    l->asked = true;
    return c->aborted;
}

bool explain_goes_on(const explain *e)
{
    explain_limits *l = e->limits;

    if (!l->spent && l->lines++ % LOOK_EVERY == 0)
        l->spent = l->left = client_left(l);
    if (!l->spent)
        l->spent = !redirect_budget_left(&l->budget);
    return !l->spent;
}

void explain_charge(const explain *e, uint64_t steps)
{
    redirect_budget_charge(&e->limits->budget, steps);
}

explain_verdict explain_match(const explain *e, const char *pattern, int flags, const char *subject,
                              apr_size_t n, ap_regmatch_t *groups)
{
    ap_regex_t regex;
    int rc;

    if (!explain_goes_on(e))
        return EXPLAIN_UNKNOWN;
    if (htc_regex_limited(&regex, pattern, AP_REG_EXTENDED | flags)) {
        e->limits->too_hard |= redirect_pattern_limits_itself(pattern, strlen(pattern));
        return EXPLAIN_UNKNOWN;
    }
    rc = ap_regexec(&regex, subject, n, groups, 0);
    ap_regfree(&regex);
    if (!htc_regex_too_hard(rc))
        return rc ? EXPLAIN_NO : EXPLAIN_YES;
    explain_charge(e, REDIRECT_PATTERN_STEPS);
    e->limits->too_hard = true;
    return EXPLAIN_UNKNOWN;
}

bool explain_complete(explain *e)
{
    const explain_limits *l = e->limits;

    if (l->too_hard)
        explain_note_unsure(
            e, "Some patterns take too many steps for this path. They count as not matching.");
    if (l->left) {
        explain_note_unsure(e, "The client has gone, so the lines that follow were not examined.");
        ap_log_rerror(APLOG_MARK, APLOG_INFO, 0, l->r,
                      "HtCache: ?explain ended before its answer was found: the client has gone");
    } else if (l->spent) {
        explain_note_unsure(
            e, "The budget for one question is spent, so the lines that follow were not examined.");
    }
    return !l->spent;
}
