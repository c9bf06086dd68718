/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/76-filter-chain.t: its header X-Chain tells what the merged configuration of
 * mod_filter has when the request is about to be answered, which is before mod_filter takes a reset
 * of the chain off it.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_request.h"

#include <apr_hash.h>
#include <apr_strings.h>

/* As in mod_filter.c. */
typedef struct chain {
    const char *name;
    struct chain *next;
} chain;

typedef struct filter_conf {
    apr_hash_t *filters;
    chain *chain;
} filter_conf;

static int show(request_rec *r)
{
    module *m = ap_find_linked_module("mod_filter.c");
    const filter_conf *conf = m ? ap_get_module_config(r->per_dir_config, m) : NULL;
    const char *text = "";

    for (const chain *at = conf ? conf->chain : NULL; at; at = at->next)
        text = apr_pstrcat(r->pool, text, at->name ? at->name : "reset", " ", NULL);
    apr_table_setn(r->headers_out, "X-Chain", apr_pstrcat(r->pool, text, "end", NULL));
    return DECLINED;
}

static void hooks(apr_pool_t *pool)
{
    ap_hook_fixups(show, NULL, NULL, APR_HOOK_REALLY_FIRST);
}

AP_DECLARE_MODULE(chain) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks};
