/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/73-identity.t: it logs of each request, subrequest and internal redirect, when its
 * directories have been walked, what core concludes things from: whether its configuration is its
 * parent's by address, whether the name is canonical, and which directories have a .htaccess
 * configuration in r->htaccess. It hooks nothing that is asked for authorization, as core would
 * then always ask again.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_request.h"

#include <apr_strings.h>

extern module AP_MODULE_DECLARE_DATA identity_module;

static const struct ap_conf_vector_t *vector_of(const request_rec *r, const char *dir)
{
    const struct htaccess_result *result = r ? r->htaccess : NULL;

    while (result && strcmp(result->dir, dir))
        result = result->next;
    return result ? result->htaccess : NULL;
}

/* Its directories that have one, sorted: "=" behind those of which the parent has the same one. A
 * vector that stands for two directories is named. */
static const char *vectors(request_rec *r, const request_rec *parent)
{
    apr_array_header_t *all = apr_array_make(r->pool, 8, sizeof(const char *));

    for (const struct htaccess_result *at = r->htaccess; at; at = at->next) {
        const char *mark = at->htaccess == vector_of(parent, at->dir) ? "=" : "";

        for (const struct htaccess_result *next = at->next; next; next = next->next) {
            if (at->htaccess && at->htaccess == next->htaccess)
                mark = " (that of another directory)";
        }
        if (at->htaccess)
            APR_ARRAY_PUSH(all, const char *) = apr_pstrcat(r->pool, at->dir, mark, NULL);
    }
    for (int i = 1; i < all->nelts; i++) {
        for (int k = i; k > 0; k--) {
            const char **pair = &APR_ARRAY_IDX(all, k - 1, const char *), *swapped = pair[0];

            if (strcmp(pair[0], pair[1]) <= 0)
                break;
            pair[0] = pair[1];
            pair[1] = swapped;
        }
    }
    return apr_array_pstrcat(r->pool, all, ' ');
}

static const char *relation(const request_rec *r, const request_rec *other)
{
    if (!other)
        return "none";
    return r->per_dir_config == other->per_dir_config ? "same" : "another";
}

static int say(request_rec *r)
{
    ap_log_rerror(
        APLOG_MARK, APLOG_ERR, 0, r,
        "%s: name %s%s, path info %s, main: %s, prev: %s, defaults: %s, vectors: %s",
        r->unparsed_uri ? r->unparsed_uri : "(none)", r->filename ? r->filename : "(none)",
        r->canonical_filename == r->filename ? "" : " (not canonical)",
        r->path_info ? r->path_info : "(none)", relation(r, r->main), relation(r, r->prev),
        r->per_dir_config == r->server->lookup_defaults ? "same" : "others",
        vectors(r, r->prev ? r->prev : r->main));
    return DECLINED;
}

static void hooks(apr_pool_t *pool)
{
    ap_hook_post_perdir_config(say, NULL, NULL, APR_HOOK_REALLY_LAST);
}

AP_DECLARE_MODULE(identity) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, hooks};
