/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The trees in which the kernel does not report all changes: document roots, <Directory> sections,
 * and targets of Alias and the like, on network file systems, FUSE and such. Found at the start by
 * the type of their file systems. The error log and the status page name them. Called by
 * module/watch.c and status/watch.c.
 */
#include "module/module.h"

/* Further ones are counted only. */
#define MOST_TREES 20

static bool is_auto(const htc_server_conf *sc, const char *dir)
{
    htc_scope scope = htc_scope_of(sc, dir, NULL);

    return scope.enabled && scope.revalidate_ms == HTC_REVALIDATE_AUTO;
}

static bool is_known(const apr_array_header_t *trees, const char *path)
{
    for (int i = 0; i < trees->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(trees, i, htc_fresh_tree).path, path))
            return true;
    }
    return false;
}

static void add_tree(htc_context *ctx, const htc_server_conf *sc, const char *path)
{
    uint32_t type = 0;
    size_t len = path ? strlen(path) : 0;
    char *dir;

    if (!len || *path != '/')
        return;
    dir = apr_pstrcat(ctx->pconf, path, path[len - 1] == '/' ? "" : "/", NULL);
    if (is_known(ctx->unwatched, dir) || !is_auto(sc, dir) ||
        htc_watch_reports(ctx->watch, dir, &type))
        return;
    *(htc_fresh_tree *)apr_array_push(ctx->unwatched) =
        (htc_fresh_tree){dir, htc_fresh_type_name(type)};
}

/* The part of a path ahead of what is known only when a request asks: wildcards, and what stands
 * for the request's own words. */
static const char *fixed_part(apr_pool_t *pool, const char *path)
{
    size_t len = strcspn(path, "*?[$%");

    while (path[len] && len && path[len - 1] != '/')
        len--;
    return apr_pstrmemdup(pool, path, len);
}

static void add_sections(htc_context *ctx, const server_rec *s)
{
    const core_server_config *core = ap_get_core_module_config(s->module_config);
    const htc_server_conf *sc = htc_server_conf_of(s);

    if (!sc->may_be_auto)
        return;
    add_tree(ctx, sc, core->ap_document_root);
    for (int i = 0; core->sec_dir && i < core->sec_dir->nelts; i++) {
        const core_dir_config *section =
            ap_get_core_module_config(APR_ARRAY_IDX(core->sec_dir, i, ap_conf_vector_t *));

        if (section && section->d && !section->r)
            add_tree(ctx, sc,
                     section->d_is_fnmatch ? fixed_part(ctx->pconf, section->d) : section->d);
    }
}

/* --- directives that lead elsewhere -----------------------------------------------------------*/

/* With these the first of two words is a URL's. */
static const char *const aliases[] = {"Alias", "AliasMatch", "ScriptAlias", "ScriptAliasMatch"};
static const char *const roots[] = {"UserDir", "VirtualDocumentRoot", "VirtualDocumentRootIP",
                                    "VirtualScriptAlias", "VirtualScriptAliasIP"};

#define IS_ONE_OF(name, names) is_one_of(name, names, sizeof(names) / sizeof((names)[0]))

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    while (n && strcasecmp(name, names[n - 1]))
        n--;
    return n;
}

/* Sections outside of all virtual hosts are for each of them. */
static void add_place(htc_context *ctx, const server_rec *s, const server_rec *host,
                      const char *path)
{
    for (const server_rec *one = host ? host : s; one; one = host ? NULL : one->next) {
        const htc_server_conf *sc = htc_server_conf_of(one);

        if (sc->may_be_auto)
            add_tree(ctx, sc, path);
    }
}

static void add_words(htc_context *ctx, const server_rec *s, const server_rec *host,
                      const ap_directive_t *node)
{
    bool alias = IS_ONE_OF(node->directive, aliases);
    const char *args = node->args ? node->args : "";
    const char *word =
        alias || IS_ONE_OF(node->directive, roots) ? ap_getword_conf(ctx->pconf, &args) : "";

    if (alias && *args)
        word = ap_server_root_relative(ctx->pconf, ap_getword_conf(ctx->pconf, &args));
    for (; word && *word; word = ap_getword_conf(ctx->pconf, &args)) {
        const char *path = fixed_part(ctx->pconf, word);

        if (path[0] == '/' && path[strlen(path) - 1] != '/' && !ap_is_directory(ctx->pconf, path))
            path = ap_make_dirstr_parent(ctx->pconf, path);
        add_place(ctx, s, host, path);
    }
}

static const char *name_of_host(apr_pool_t *pool, const char *file, unsigned line)
{
    return apr_psprintf(pool, "%u %s", line, file);
}

/* @a host is NULL outside of all. */
static void add_directives(htc_context *ctx, const server_rec *s, const server_rec *host,
                           apr_hash_t *hosts, const ap_directive_t *node)
{
    for (; node; node = node->next) {
        const server_rec *inside = host;

        if (!strcasecmp(node->directive, "<VirtualHost"))
            inside = apr_hash_get(
                hosts, name_of_host(ctx->pconf, node->filename, (unsigned)node->line_num),
                APR_HASH_KEY_STRING);
        add_words(ctx, s, host, node);
        add_directives(ctx, s, inside, hosts, node->first_child);
    }
}

static apr_hash_t *hosts_by_name(apr_pool_t *pool, const server_rec *s)
{
    apr_hash_t *hosts = apr_hash_make(pool);

    for (; s; s = s->next) {
        if (s->is_virtual && s->defn_name)
            apr_hash_set(hosts, name_of_host(pool, s->defn_name, s->defn_line_number),
                         APR_HASH_KEY_STRING, s);
    }
    return hosts;
}

/* --- saying so --------------------------------------------------------------------------------*/

static void say_trees(const htc_context *ctx, server_rec *s)
{
    const apr_array_header_t *trees = ctx->unwatched;
    const char *names = "";

    for (int i = 0; i < trees->nelts && i < MOST_TREES; i++) {
        const htc_fresh_tree *tree = &APR_ARRAY_IDX(trees, i, htc_fresh_tree);

        names =
            apr_psprintf(ctx->pconf, "%s%s%s (%s)", names, i ? ", " : "", tree->path, tree->type);
    }
    if (trees->nelts > MOST_TREES)
        names = apr_psprintf(ctx->pconf, "%s and %d more", names, trees->nelts - MOST_TREES);
    ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                 "HtCacheRevalidate auto: the kernel does not report all changes in %s: an edited "
                 ".htaccess file takes effect there within a second, not at once. Set "
                 "HtCacheRevalidate 0 for a tree in which the next request must see an edit",
                 names);
}

void htc_fresh_find_trees(htc_context *ctx, server_rec *s)
{
    ctx->unwatched = apr_array_make(ctx->pconf, 4, sizeof(htc_fresh_tree));
    for (const server_rec *v = s; v; v = v->next)
        add_sections(ctx, v);
    add_directives(ctx, s, NULL, hosts_by_name(ctx->pconf, s), ap_conftree);
    if (ctx->unwatched->nelts && !htc_is_preflight())
        say_trees(ctx, s);
}

/* Those of the configuration, and what was met on the way of requests: where it is mounted. */
void htc_fresh_report_trees(htc_report *report, htc_group *group)
{
    static const htc_column columns[] = {
        {"path", "Tree", HTC_TEXT, HTC_UNIT_ONE, "of the configuration, or where it is mounted"},
        {"type", "File system", HTC_TEXT, HTC_UNIT_ONE, "its type"},
        {"interval_ms", "Every", HTC_GAUGE, HTC_UNIT_MS, "time between two comparisons"},
    };
    const char *title = "Trees in which an edit takes effect within a second";
    const char *help = "the kernel does not report all changes on their file systems";
    htc_list *list = htc_report_list(report, group, "trees", title, help, 0, columns, 3);
    const apr_array_header_t *trees = report->ctx ? report->ctx->unwatched : NULL;
    htc_watch_refusal *met = apr_palloc(report->pool, MOST_TREES * sizeof(*met));
    size_t n = 0;

    for (int i = 0; report->lists && trees && i < trees->nelts && i < MOST_TREES; i++) {
        htc_cell_text(list, APR_ARRAY_IDX(trees, i, htc_fresh_tree).path);
        htc_cell_text(list, APR_ARRAY_IDX(trees, i, htc_fresh_tree).type);
        htc_cell_number(list, HTC_ASK_MS);
    }
    if (report->lists && report->ctx && report->ctx->watch)
        n = htc_watch_refusals(report->ctx->watch, met, MOST_TREES);
    for (size_t i = 0; i < n; i++) {
        if (is_known(trees, apr_pstrcat(report->pool, met[i].at, "/", NULL)))
            continue;
        htc_cell_text(list, met[i].at);
        htc_cell_text(list, htc_fresh_type_name(met[i].type));
        htc_cell_number(list, HTC_ASK_MS);
    }
}
