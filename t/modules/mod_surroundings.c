/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/30-kept.t. As httpd reads its configuration, the environment variable KEPT_VALUE gets
 * the value that the file $HTCACHE_SURROUNDINGS has in it; without the file it is unset.
 */
#include "httpd.h"
#include "http_config.h"

#include <stdio.h>
#include <stdlib.h>

static int pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    const char *path = getenv("HTCACHE_SURROUNDINGS");
    FILE *file = path ? fopen(path, "re") : NULL;
    char value[64];

    (void)pconf;
    (void)plog;
    (void)ptemp;
    if (!file || fscanf(file, "%63s", value) != 1)
        unsetenv("KEPT_VALUE");
    else
        setenv("KEPT_VALUE", value, 1);
    if (file)
        fclose(file);
    return OK;
}

static void register_hooks(apr_pool_t *p)
{
    (void)p;
    ap_hook_pre_config(pre_config, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA surroundings_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks};
