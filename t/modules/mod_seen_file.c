/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/72-missing.t. It says in X-File what httpd's walk has found of the request's file,
 * and in X-Looks how often it has asked for a file on the way; in X-Part-File the same of each
 * subrequest. Times of access are left out: looks of others change them.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_request.h"

#include "apr_strings.h"

module AP_MODULE_DECLARE_DATA seen_file_module;

static apr_status_t count_look(apr_finfo_t *finfo, request_rec *r, apr_int32_t wanted)
{
    int *looks = ap_get_module_config(r->request_config, &seen_file_module);

    (void)finfo;
    (void)wanted;
    if (!looks) {
        looks = apr_pcalloc(r->pool, sizeof(*looks));
        ap_set_module_config(r->request_config, &seen_file_module, looks);
    }
    ++*looks;
    return AP_DECLINED;
}

/* Only what is valid: the rest is whatever was in memory. The root has a type alone. */
static const char *found(const request_rec *r)
{
    const apr_finfo_t *f = &r->finfo;

    if (!(f->valid & APR_FINFO_MTIME))
        return apr_psprintf(r->pool, "type %d valid %x", f->filetype, f->valid);
    return apr_psprintf(r->pool,
                        "type %d valid %x mode %x of %u:%u size %ld/%ld links %d file %lx:%lx at "
                        "%ld %ld name %s%s pool %d",
                        f->filetype, f->valid, f->protection, (unsigned)f->user, (unsigned)f->group,
                        (long)f->size, (long)f->csize, (int)f->nlink, (long)f->device,
                        (long)f->inode, (long)f->mtime, (long)f->ctime, f->fname,
                        f->fname == r->filename ? " (same)" : "", f->pool == r->pool);
}

static void say(request_rec *r)
{
    request_rec *top = r->main ? r->main : r;
    const int *looks = ap_get_module_config(r->request_config, &seen_file_module);

    while (top->main)
        top = top->main;
    apr_table_addn(top->err_headers_out, r == top ? "X-File" : "X-Part-File",
                   apr_psprintf(top->pool, "%s=%s+%s %s", r->filename ? r->filename : "-",
                                r->canonical_filename ? r->canonical_filename : "-",
                                r->path_info ? r->path_info : "-", found(r)));
    if (r == top)
        apr_table_addn(r->err_headers_out, "X-Looks", apr_itoa(r->pool, looks ? *looks : 0));
}

static int say_in_time(request_rec *r)
{
    say(r);
    return DECLINED;
}

/* An answer that is refused before the fixups. */
static void say_late(request_rec *r)
{
    if (!r->main && !apr_table_get(r->err_headers_out, "X-File"))
        say(r);
}

static void register_hooks(apr_pool_t *p)
{
    (void)p;
    ap_hook_dirwalk_stat(count_look, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_fixups(say_in_time, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_insert_error_filter(say_late, NULL, NULL, APR_HOOK_FIRST);
}

module AP_MODULE_DECLARE_DATA seen_file_module = {
    STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks};
