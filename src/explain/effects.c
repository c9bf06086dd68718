/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What httpd's modules do with a request beside answering it: filters that run programs or save a
 * session, logs of all requests, databases of who is logged in. It is kept from a request of
 * ?explain, or said. Called by the other files of this folder.
 */
#include "explain/internal.h"

#include "ap_provider.h"
#include "http_protocol.h"
#include "http_request.h"
#include "mod_auth.h"
#include "util_filter.h"

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++) {
        if (!strcasecmp(name, *names))
            return true;
    }
    return false;
}

/* --- modules ----------------------------------------------------------------------------------*/

/* They count a request from its beginning until it is logged, which this one never is. */
static const char *const counting[] = {"mod_qos.c", NULL};

const char *explain_counter(void)
{
    for (size_t i = 0; counting[i]; i++) {
        if (ap_find_linked_module(counting[i]))
            return counting[i];
    }
    return NULL;
}

#define FORENSIC_CONFIG 4096 /* more than mod_log_forensic's configuration of a server */

/* mod_log_forensic writes a line for each request that begins. Blank, it has no file to write to. */
void explain_switch_off(server_rec *copy, apr_pool_t *pool)
{
    const module *forensic = ap_find_linked_module("mod_log_forensic.c");

    if (forensic)
        ap_set_module_config(copy->module_config, forensic, apr_pcalloc(pool, FORENSIC_CONFIG));
}

/* Of these it is known what they do when a request is logged. */
static const char *const logging[] = {"mod_htcache.c", "mod_log_config.c", "mod_log_forensic.c",
                                      "mod_logio.c",   "mod_log_debug.c",  "mod_lua.c",
                                      "mod_perl.c",    "mod_security2.c",  NULL};

void explain_note_modules(explain *e)
{
    const apr_array_header_t *links = ap_hook_get_log_transaction();

    if (ap_find_linked_module("mod_cache.c"))
        explain_note(e, "mod_cache is loaded, and was not asked.");
    if (ap_find_linked_module("mod_ident.c"))
        explain_note(e, "mod_ident is loaded, and asked no client: %%{REMOTE_IDENT} was empty.");
    if (ap_find_linked_module("mod_perl.c") || ap_find_linked_module("mod_lua.c"))
        explain_note(e,
                     "Scripts of mod_perl and mod_lua that run before a handler did run, but for "
                     "those of LuaQuickHandler.");
    for (int i = 0; links && i < links->nelts; i++) {
        const char *name = APR_ARRAY_IDX(links, i, ap_LINK_log_transaction_t).szName;

        if (name && !is_one_of(name, logging))
            explain_note(e, "%s does something when a request is logged. This one was not logged.",
                         name);
    }
}

/* --- filters ----------------------------------------------------------------------------------*/

/* They change nothing but the header, and belong to what is explained. */
static const char *const run[] = {"fixup_headers_out", "fixup_headers_err", "mod_expires", NULL};
/* They change no status, but for a part of the content (Range). */
static const char *const coding[] = {"deflate",  "inflate",    "brotli_compress",
                                     "buffer",   "rate_limit", "substitute",
                                     "xlateout", "sed",        NULL};

static bool changes_no_status(const request_rec *r, const char *name)
{
    static const char by_type[] = "bytype:"; /* of AddOutputFilterByType */

    if (!strcasecmp(name, "mod_session_out"))
        return true;
    if (!strncasecmp(name, by_type, strlen(by_type)))
        name += strlen(by_type);
    return is_one_of(name, coding) && !apr_table_get(r->headers_in, "Range");
}

/* Those that a subrequest shares with its main request stay. */
void explain_drop_filters(explain *e, request_rec *r)
{
    ap_filter_t *last = NULL, *next;

    for (ap_filter_t *f = r->output_filters; f && f->r == r && f->frec->ftype < AP_FTYPE_PROTOCOL;
         f = next) {
        next = f->next;
        if (f->frec == ap_subreq_core_filter_handle)
            break;
        if (is_one_of(f->frec->name, run)) {
            last = f;
            continue;
        }
        if (!changes_no_status(r, f->frec->name))
            explain_note(e, "The output filter %s was not run. It may set another status.",
                         f->frec->name);
        if (last)
            last->next = next;
        else
            r->output_filters = next;
    }
}

static int begin_filters(ap_filter_t *f)
{
    int status = OK;

    for (; f && status == OK; f = f->next) {
        if (f->frec->filter_init_func)
            status = f->frec->filter_init_func(f);
    }
    return status;
}

int explain_insert_filters(request_rec *r)
{
    int status;

    ap_run_insert_filter(r);
    status = begin_filters(r->input_filters);
    return status == OK ? begin_filters(r->output_filters) : status;
}

/* As httpd sends an error, behind all that add a filter. */
static void insert_error_filter(request_rec *r)
{
    explain *e = explain_of(r);

    if (e)
        explain_drop_filters(e, r);
}

/* --- databases --------------------------------------------------------------------------------*/

/* mod_authz_dbd's, which write that a user has logged in or out. */
static const authz_provider *login, *logout;

static authz_status authorize(request_rec *r, const authz_provider *real, const char *name,
                              const char *args, const void *parsed)
{
    explain *e = explain_of(r);

    if (!e || !r->user)
        return real->check_authorization(r, args, parsed);
    explain_stop(e, "'Require %s' would write to a database for the user '%s'", name, r->user);
    return AUTHZ_DENIED;
}

static authz_status authorize_login(request_rec *r, const char *args, const void *parsed)
{
    return authorize(r, login, "dbd-login", args, parsed);
}

static authz_status authorize_logout(request_rec *r, const char *args, const void *parsed)
{
    return authorize(r, logout, "dbd-logout", args, parsed);
}

/* Before sections are read, which keep the provider that they find. */
static const authz_provider *stand_before(const char *name,
                                          authz_status (*check)(request_rec *, const char *,
                                                                const void *),
                                          apr_pool_t *pconf)
{
    const authz_provider *real =
        ap_lookup_provider(AUTHZ_PROVIDER_GROUP, name, AUTHZ_PROVIDER_VERSION);
    authz_provider *own;

    if (!real)
        return NULL;
    own = apr_pmemdup(pconf, real, sizeof(*own));
    own->check_authorization = check;
    ap_register_provider(pconf, AUTHZ_PROVIDER_GROUP, name, AUTHZ_PROVIDER_VERSION, own);
    return real;
}

void explain_hook_effects(apr_pool_t *pconf)
{
    login = stand_before("dbd-login", authorize_login, pconf);
    logout = stand_before("dbd-logout", authorize_logout, pconf);
    ap_hook_insert_error_filter(insert_error_filter, NULL, NULL, APR_HOOK_REALLY_LAST);
}
