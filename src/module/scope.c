/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What applies where: HtCache and HtCacheRevalidate of the server, of the <Directory> sections on
 * the way to a directory, of a <Location>, and HtCacheExclude. core merges <Directory> sections
 * while it walks and shows the result to nobody before the walk is over, so the few sections that
 * mention the cache are matched again here, once per directory and process.
 */
#include "module/module.h"

/* A <Directory> section with settings of ours. Lists are in core's own order. */
typedef struct htc_section {
    const char *pattern; /* ends with '/', unless a regex */
    bool wildcard;
    ap_regex_t *regex; /* or NULL */
    const htc_dir_conf *conf;
} htc_section;

static void add_section(apr_array_header_t *sections, ap_conf_vector_t *vector)
{
    const core_dir_config *core = ap_get_core_module_config(vector);
    const htc_dir_conf *conf = ap_get_module_config(vector, &htcache_module);
    htc_section *section;

    if (!conf || !core || !core->d || (conf->enabled == -1 && conf->revalidate_ms == -1))
        return;
    section = apr_array_push(sections);
    section->pattern = core->d;
    section->wildcard = core->d_is_fnmatch;
    section->regex = core->r;
    section->conf = conf;
}

static void overlay(htc_scope *scope, const htc_dir_conf *conf)
{
    if (conf->enabled != -1)
        scope->enabled = conf->enabled == 1;
    if (conf->revalidate_ms != -1)
        scope->revalidate_ms = conf->revalidate_ms;
}

static bool any_enabled(const htc_server_conf *sc)
{
    if (sc->own.enabled == 1 || sc->location_used)
        return true;
    for (int i = 0; i < sc->sections->nelts; i++) {
        if (APR_ARRAY_IDX(sc->sections, i, htc_section).conf->enabled == 1)
            return true;
    }
    return false;
}

static bool any_auto(const htc_server_conf *sc)
{
    if (!sc->may_be_enabled)
        return false;
    if (sc->plain.revalidate_ms == HTC_REVALIDATE_AUTO || sc->location_used)
        return true;
    for (int i = 0; i < sc->sections->nelts; i++) {
        if (APR_ARRAY_IDX(sc->sections, i, htc_section).conf->revalidate_ms == HTC_REVALIDATE_AUTO)
            return true;
    }
    return false;
}

void htc_scope_prepare(apr_pool_t *pconf, server_rec *main_server, bool *any)
{
    for (server_rec *s = main_server; s; s = s->next) {
        const core_server_config *core = ap_get_core_module_config(s->module_config);
        htc_server_conf *sc = htc_server_conf_of(s);

        /* Virtual hosts without own settings share the main server's struct: give each its own,
         * as their sections differ. */
        sc = apr_pmemdup(pconf, sc, sizeof(*sc));
        ap_set_module_config(s->module_config, &htcache_module, sc);
        sc->sections = apr_array_make(pconf, 2, sizeof(htc_section));
        for (int i = 0; core->sec_dir && i < core->sec_dir->nelts; i++)
            add_section(sc->sections, APR_ARRAY_IDX(core->sec_dir, i, ap_conf_vector_t *));
        sc->may_be_enabled = any_enabled(sc);
        sc->special = sc->sections->nelts || sc->exclude;
        sc->plain = (htc_scope){false, HTC_DEFAULT_REVALIDATE_MS};
        overlay(&sc->plain, &sc->own);
        sc->map_ttl = sc->plain.revalidate_ms;
        sc->may_be_auto = any_auto(sc);
        *any = *any || sc->may_be_enabled;
    }
}

static bool section_matches(const htc_section *section, const char *dir)
{
    if (section->regex)
        return ap_regexec(section->regex, dir, 0, NULL, 0) == 0;
    return htc_directory_matches(section->pattern, section->wildcard, dir);
}

static bool excluded(const htc_server_conf *sc, const char *dir)
{
    for (int i = 0; sc->exclude && i < sc->exclude->nelts; i++) {
        const char *path = APR_ARRAY_IDX(sc->exclude, i, const char *);
        if (!strncmp(dir, path, strlen(path)))
            return true;
    }
    return false;
}

htc_scope htc_scope_of(const htc_server_conf *sc, const char *dir, const htc_dir_conf *location)
{
    htc_scope scope = sc->plain;

    for (int i = 0; i < sc->sections->nelts; i++) {
        const htc_section *section = &APR_ARRAY_IDX(sc->sections, i, htc_section);
        if (section_matches(section, dir))
            overlay(&scope, section->conf);
    }
    if (location)
        overlay(&scope, location);
    if (scope.enabled && excluded(sc, dir))
        scope.enabled = false;
    return scope;
}
