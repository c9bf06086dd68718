/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What this module remembers of a request. Called by the folders above.
 */
#include "module/module.h"

htc_request *htc_request_get(request_rec *r)
{
    htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);

    if (!rq) {
        rq = apr_pcalloc(r->pool, sizeof(*rq));
        ap_set_module_config(r->request_config, &htcache_module, rq);
    }
    return rq;
}
