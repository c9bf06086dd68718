/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * HtCacheMissing: pages that are asked for and not found, and that no redirect answers. They are
 * candidates for a redirect. Counted when the request is logged (area/missing.h); where no such
 * directive stands there is no hook. Listed by status/missing.c.
 */
#include "redirects/counters.h"
#include "redirects/map.h"

#include "http_protocol.h"

const redirect_area_key htc_missing_name = {
    {UINT64_C(0x6e6f7420666f756e), UINT64_C(0x6d697373696e67)}};

const char *htc_missing_directive(cmd_parms *cmd, void *dir_conf, int on)
{
    const char *err = ap_check_cmd_context(cmd, NOT_IN_DIR_CONTEXT);

    (void)dir_conf;
    if (!err)
        htc_server_conf_of(cmd->server)->missing = on != 0;
    return err;
}

bool htc_missing_wanted(const server_rec *s)
{
    for (; s; s = s->next) {
        if (htc_server_conf_of(s)->missing == 1)
            return true;
    }
    return false;
}

/* --- counting ---------------------------------------------------------------------------------*/

const redirect_missing *htc_missing_of(const server_rec *s)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;

    return redirects ? redirects->missing : NULL;
}

/* Its own Redirect or RewriteRule line says that it is not found. */
static bool answered(const request_rec *r)
{
    for (; r; r = r->next) {
        const htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);

        if (rq && rq->answered)
            return true;
    }
    return false;
}

/* As the client wrote it, without the query. NULL: it is no path. */
static const char *path_of(const request_rec *r, size_t *len)
{
    const char *path = r->unparsed_uri;

    if (path && *path != '/') /* http://host/path, as a proxy is asked */
        path = strstr(path, "://") ? strchr(strstr(path, "://") + 3, '/') : NULL;
    if (path)
        *len = strcspn(path, "?#");
    return path;
}

static void count(redirect_missing *missing, const request_rec *r)
{
    const char *host = r->hostname ? r->hostname : r->server->server_hostname, *path;
    char text[REDIRECT_MISSING_TEXT];
    size_t host_len = host ? strcspn(host, "/") : 0, len = 0;

    path = path_of(r, &len);
    if (!path)
        return;
    if (host_len > sizeof(text) / 2)
        host_len = sizeof(text) / 2;
    if (len > sizeof(text) - host_len)
        len = sizeof(text) - host_len;
    for (size_t i = 0; i < host_len; i++)
        text[i] = (char)apr_tolower(host[i]);
    memcpy(text + host_len, path, len);
    redirect_missing_add(missing, text, host_len + len, apr_time_sec(r->request_time));
}

/* r is the request as it came; an error document is another one behind it. */
static int log_missing(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    const request_rec *last = r;

    while (last->next)
        last = last->next;
    if (last->status == HTTP_NOT_FOUND && sc->missing == 1 && r->method_number == M_GET &&
        sc->redirects && sc->redirects->missing && !answered(r))
        count(sc->redirects->missing, r);
    return DECLINED;
}

static bool stands_in(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "HtCacheMissing") ||
            (node->first_child && stands_in(node->first_child)))
            return true;
    }
    return false;
}

void htc_missing_pre_config(void)
{
    htc_options_get()->missing = stands_in(ap_conftree);
    if (htc_options_get()->missing)
        ap_hook_log_transaction(log_missing, NULL, NULL, APR_HOOK_MIDDLE);
}

/* --- their memory -----------------------------------------------------------------------------*/

static bool fits(const redirect_area_pin *pin)
{
    return pin->size == redirect_missing_bytes();
}

static void begin(const redirect_area_pin *pin, redirect_area *before)
{
    redirect_missing *missing = (redirect_missing *)(uintptr_t)pin->image;
    redirect_area_pin old = {NULL};
    uint64_t seed = 0;

    /* Without one somebody may choose pages that lie in one set, at worst. */
    (void)apr_generate_random_bytes((unsigned char *)&seed, sizeof(seed));
    redirect_missing_begin(missing, seed, apr_time_sec(apr_time_now()));
    if (!htc_counted_before(before, &htc_missing_name, &old))
        return;
    if (fits(&old)) {
        memcpy(missing, old.image, redirect_missing_bytes());
        redirect_missing_mend(missing);
    }
    redirect_area_unpin(before, &old);
}

/* The image that there is, from the first reading of the configuration, or a new one. */
static apr_status_t pin_missing(htc_redirects *redirects, redirect_area *before,
                                redirect_area_pin *pin)
{
    redirect_area *area = redirects->area;
    uint32_t slot = redirect_area_map(area, &htc_missing_name, redirects->generation, true);
    apr_status_t rv;

    redirects->missing_slot = slot;
    if (slot == REDIRECT_AREA_NIL)
        return APR_ENOSPC;
    if (redirect_area_pin_get(area, slot, pin))
        return fits(pin) ? APR_SUCCESS : APR_EGENERAL;
    rv = htc_counted_publish(area, slot, NULL, redirect_missing_bytes(), 0);
    if (rv != APR_SUCCESS)
        return rv;
    if (!redirect_area_pin_get(area, slot, pin) || !fits(pin))
        return APR_EGENERAL;
    begin(pin, before);
    return APR_SUCCESS;
}

void htc_missing_prepare(htc_redirects *redirects, redirect_area *before)
{
    redirect_area_pin pin = {NULL};
    apr_status_t rv;

    if (!htc_missing_wanted(redirects->main_server))
        return;
    rv = pin_missing(redirects, before, &pin);
    if (rv == APR_SUCCESS) {
        redirects->missing = (redirect_missing *)(uintptr_t)pin.image;
        redirects->missing_version = pin.version;
    } else {
        ap_log_error(APLOG_MARK, APLOG_WARNING, rv, redirects->main_server,
                     "HtCacheMissing: there is no room to count pages that are not found");
    }
    redirect_area_unpin(redirects->area, &pin);
}

void htc_missing_keep(htc_redirects *redirects)
{
    redirect_area_pin pin = {NULL};

    if (!redirects->missing)
        return;
    if (redirect_area_pin_get(redirects->area, redirects->missing_slot, &pin) &&
        pin.version == redirects->missing_version)
        return;
    redirect_area_unpin(redirects->area, &pin);
    redirects->missing = NULL;
}

void htc_missing_reset(const server_rec *s)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;

    if (redirects && redirects->missing)
        redirect_missing_reset(redirects->missing, apr_time_sec(apr_time_now()));
}
