/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module that ends the processes which mod_htcache forks in the very moment in which they begin, as
 * a restart may. It writes their numbers to the error log. Compiled by t/53-counts.t.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_protocol.h"
#include "mpm_common.h"
#include "scoreboard.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static int armed;

static void begun(void)
{
    if (!armed)
        return;
    dprintf(STDERR_FILENO, "early: %ld\n", (long)getpid());
    raise(SIGTERM);
}

static void arm(void)
{
    armed = ap_state_query(AP_SQ_MAIN_STATE) != AP_SQ_MS_CREATE_PRE_CONFIG;
}

static int disarm(apr_pool_t *p, ap_scoreboard_e type)
{
    (void)p;
    (void)type;
    armed = 0;
    return OK;
}

static void register_hooks(apr_pool_t *p)
{
    static int registered;

    (void)p;
    if (!registered)
        pthread_atfork(NULL, NULL, begun);
    registered = 1;
    ap_hook_optional_fn_retrieve(arm, NULL, NULL, APR_HOOK_LAST);
    ap_hook_pre_mpm(disarm, NULL, NULL, APR_HOOK_REALLY_FIRST);
}

module AP_MODULE_DECLARE_DATA early_module = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL,
                                              register_hooks};
