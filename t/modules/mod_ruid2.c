/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module with the name of one that runs requests as different users; it does nothing. Compiled by
 * t/51-explain-modules.t.
 */
#include "httpd.h"
#include "http_config.h"

static void register_hooks(apr_pool_t *p)
{
    (void)p;
}

module AP_MODULE_DECLARE_DATA ruid2_module = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL,
                                              register_hooks};
