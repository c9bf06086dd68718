/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/76-odd-httpd.t. With it httpd is not as mod_htcache knows it: mod_alias seems to
 * have a second hook (with -D OddAlias), and core's note of its walk over directories is gone
 * afterwards (with -D OddNote).
 */
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_request.h"

#include <apr_hooks.h>

static int nothing(request_rec *r)
{
    (void)r;
    return DECLINED;
}

static int forget(request_rec *r)
{
    void **note = ap_get_request_note(r, AP_NOTE_DIRECTORY_WALK);

    if (note)
        *note = NULL;
    return DECLINED;
}

static void register_hooks(apr_pool_t *p)
{
    static const char *const ahead_of[] = {"mod_htcache.c", NULL};
    const char *own = apr_hook_debug_current;

    (void)p;
    if (ap_exists_config_define("OddAlias")) {
        apr_hook_debug_current = "mod_alias.c";
        ap_hook_fixups(nothing, NULL, NULL, APR_HOOK_LAST);
        apr_hook_debug_current = own;
    }
    if (ap_exists_config_define("OddNote"))
        ap_hook_post_perdir_config(forget, NULL, ahead_of, APR_HOOK_REALLY_FIRST);
}

module AP_MODULE_DECLARE_DATA odd_module = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL,
                                            register_hooks};
