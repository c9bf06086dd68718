/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which requests may have the status page. The page names directories of all tenants, so only the
 * server's configuration decides who sees it: no .htaccess file may give it, open it, or close it.
 *
 * Two steps. Where the URL alone decides that a request is the page's (SetHandler in <Location>, or
 * for a whole virtual host), httpd is told ahead of its walk that there are no .htaccess files.
 * Where the handler comes of <Directory>, <Files> or <If>, that is known only after the walk; then
 * the page is refused if the walk found a .htaccess file. The second step also stands behind the
 * first.
 *
 * Authorization was done for one configuration, r->per_dir_config. A subrequest can lead to
 * another, and mod_dir and mod_negotiation put a subrequest's in the place of the request's own. So
 * those that may have the page are remembered, by the top-level request.
 *
 * Called by mod_htcache.c (start), htaccess/shortcut.c, htaccess/hook.c and status/status.c.
 */
#include "module/module.h"

#include "ap_expr.h"

static const core_dir_config *core_of(const ap_conf_vector_t *section)
{
    return ap_get_core_module_config(section);
}

static bool has_handler(const core_dir_config *core)
{
    return core->handler || core->expr_handler;
}

/* As core's fixup decides: SetHandler is an expression, and its value is in any case. */
static bool names_page(request_rec *r, const core_dir_config *core)
{
    const char *name = core->handler, *fault = NULL;

    if (core->expr_handler)
        name = ap_expr_str_exec(r, core->expr_handler, &fault);
    return name && !fault && !strcasecmp(name, HTC_STATUS_HANDLER);
}

/* --- start ------------------------------------------------------------------------------------*/

bool htc_pages_named(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if ((!strcasecmp(node->directive, "SetHandler") && node->args &&
             strcasestr(node->args, HTC_STATUS_HANDLER)) ||
            (node->first_child && htc_pages_named(node->first_child)))
            return true;
    }
    return false;
}

typedef bool section_test(const core_dir_config *core);

static bool any_section(const apr_array_header_t *sections, section_test *test)
{
    for (int i = 0; sections && i < sections->nelts; i++) {
        if (test(core_of(APR_ARRAY_IDX(sections, i, ap_conf_vector_t *))))
            return true;
    }
    return false;
}

/* The section, or one within it, sets a handler. */
static bool sets_handler(const core_dir_config *core)
{
    return has_handler(core) || any_section(core->sec_file, sets_handler) ||
           any_section(core->sec_if, sets_handler);
}

/* An <If> within it does. These come after <Location>, whatever they stand in. */
static bool has_if_with_handler(const core_dir_config *core)
{
    return any_section(core->sec_if, sets_handler) ||
           any_section(core->sec_file, has_if_with_handler);
}

/* The server's own handler holds for each URL when no <Directory> or <Files> sets another. */
static bool own_handler_holds(const core_dir_config *own, const core_server_config *server)
{
    return has_handler(own) && !any_section(server->sec_dir, sets_handler) &&
           !any_section(own->sec_file, sets_handler);
}

/* What decides the handler of a URL by the URL alone, in the order of its merging; NULL: nothing
 * does. */
static apr_array_header_t *sections_by_url(apr_pool_t *pconf, server_rec *s)
{
    const core_server_config *server = ap_get_core_module_config(s->module_config);
    const core_dir_config *own = core_of(s->lookup_defaults);
    apr_array_header_t *sections = apr_array_make(pconf, 4, sizeof(ap_conf_vector_t *));

    if (has_if_with_handler(own) || any_section(server->sec_dir, has_if_with_handler) ||
        any_section(server->sec_url, has_if_with_handler))
        return NULL;
    if (own_handler_holds(own, server))
        APR_ARRAY_PUSH(sections, ap_conf_vector_t *) = s->lookup_defaults;
    for (int i = 0; i < server->sec_url->nelts; i++) {
        ap_conf_vector_t *section = APR_ARRAY_IDX(server->sec_url, i, ap_conf_vector_t *);

        if (has_handler(core_of(section)))
            APR_ARRAY_PUSH(sections, ap_conf_vector_t *) = section;
    }
    return sections->nelts ? sections : NULL;
}

/* httpd gives a virtual host without a directive of this module the main server's configuration,
 * the same struct. Its sections are its own, so it gets a copy. */
static htc_server_conf *own_conf(apr_pool_t *pconf, server_rec *s, const server_rec *main_server)
{
    htc_server_conf *sc = htc_server_conf_of(s);

    if (s != main_server && sc == htc_server_conf_of(main_server)) {
        sc = apr_pmemdup(pconf, sc, sizeof(*sc));
        ap_set_module_config(s->module_config, &htcache_module, sc);
    }
    return sc;
}

void htc_pages_prepare(apr_pool_t *pconf, server_rec *main_server)
{
    for (server_rec *s = main_server; s && htc_options_get()->pages; s = s->next) {
        htc_server_conf *sc = own_conf(pconf, s, main_server);

        sc->page_possible = true;
        sc->pages = sections_by_url(pconf, s);
    }
}

/* --- requests ---------------------------------------------------------------------------------*/

/* The request that this one comes of; NULL: the client's own. */
static const request_rec *parent_of(const request_rec *r)
{
    return r->prev ? r->prev : r->main;
}

static const request_rec *top_of(const request_rec *r)
{
    while (r->main)
        r = r->main;
    return r;
}

bool htc_page_may_show(const request_rec *r)
{
    const htc_request *rq = ap_get_module_config(top_of(r)->request_config, &htcache_module);

    for (int i = 0; rq && rq->page_confs && i < rq->page_confs->nelts; i++) {
        if (APR_ARRAY_IDX(rq->page_confs, i, ap_conf_vector_t *) == r->per_dir_config)
            return true;
    }
    return false;
}

static bool parent_may_show(const request_rec *r)
{
    const request_rec *parent = parent_of(r);

    return !parent || htc_page_may_show(parent);
}

/* As ap_location_walk() compares. A URL with "//" that httpd would merge only here is not the
 * page's by its URL. */
static bool is_for(const core_dir_config *core, const char *uri)
{
    if (core->r)
        return !ap_regexec(core->r, uri, 0, NULL, 0);
    return !core->d || htc_location_matches(core->d, core->d_is_fnmatch, uri);
}

HTC_HOT bool htc_page_claim(request_rec *r, const apr_array_header_t *sections)
{
    const core_dir_config *last = NULL;

    for (int i = 0; i < sections->nelts; i++) {
        const ap_conf_vector_t *section = APR_ARRAY_IDX(sections, i, ap_conf_vector_t *);

        if (section == r->server->lookup_defaults || is_for(core_of(section), r->uri))
            last = core_of(section);
    }
    if (!last || !parent_may_show(r) || !names_page(r, last))
        return false;
    htc_request_get(r)->page = true;
    return true;
}

static bool found_htaccess(const request_rec *r)
{
    const struct htaccess_result *result = r->htaccess;

    while (result && !result->htaccess)
        result = result->next;
    return result != NULL;
}

HTC_APART void htc_page_leave(request_rec *r)
{
    const request_rec *parent = parent_of(r);
    const htc_request *rq = ap_get_module_config(parent->request_config, &htcache_module);
    void **walk;

    if (!rq || !rq->page)
        return;
    walk = ap_get_request_note((request_rec *)parent, AP_NOTE_DIRECTORY_WALK);
    if (walk)
        *walk = NULL;
    r->htaccess = NULL;
}

/* No site's file may take the page's place, and be sent the administrator's secret: mod_negotiation
 * and mod_speling look for others where a file is missing, mod_dir redirects to a directory. All of
 * them leave a device alone. */
static void hide_files(request_rec *r)
{
    r->finfo.filetype = APR_CHR;
}

HTC_APART int htc_page_note(request_rec *r)
{
    const htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    bool claimed = rq && rq->page;
    htc_request *top;

    if (claimed)
        hide_files(r);
    if (found_htaccess(r) || !parent_may_show(r) || !names_page(r, core_of(r->per_dir_config))) {
        if (!claimed)
            return DECLINED;
        ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r,
                      "HtCache: request refused: httpd read no .htaccess file for it, because it "
                      "was for the status page, but it does not lead to the page any more. Give "
                      "SetHandler " HTC_STATUS_HANDLER
                      " a <Location> of its own, without an expression");
        return HTTP_FORBIDDEN;
    }
    top = htc_request_get((request_rec *)top_of(r));
    if (!top->page_confs)
        top->page_confs = apr_array_make(top_of(r)->pool, 2, sizeof(ap_conf_vector_t *));
    APR_ARRAY_PUSH(top->page_confs, ap_conf_vector_t *) = r->per_dir_config;
    return DECLINED;
}
