/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module with the name of one that bounds requests at once, and counts as it does: up where a
 * request's header is parsed, down where it is logged. Compiled by t/51-explain-effects.t.
 */
#include "httpd.h"
#include "apr_atomic.h"
#include "http_config.h"
#include "http_protocol.h"
#include "http_request.h"

#define MOST 4

static apr_uint32_t now;

static int begin(request_rec *r)
{
    (void)r;
    return apr_atomic_inc32(&now) < MOST ? DECLINED : HTTP_SERVICE_UNAVAILABLE;
}

static int end(request_rec *r)
{
    (void)r;
    apr_atomic_dec32(&now);
    return DECLINED;
}

static void register_hooks(apr_pool_t *p)
{
    (void)p;
    ap_hook_post_read_request(begin, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_log_transaction(end, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA qos_module = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL,
                                            register_hooks};
