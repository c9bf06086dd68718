/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which Redirect, RewriteRule and map lines match a path, in the order in which httpd comes to
 * them: first those of the server (mod_rewrite, maps, Redirect), then those of directories. Lines
 * are read from the configuration tree and from records, and compared one by one, as a person
 * would: nothing here has to be fast, and nothing is taken from the tables that is to be explained
 * by them. Called by explain/explain.c.
 */
#include <apr_uri.h>
#include <http_main.h>

#include "explain/internal.h"
#include "redirects/redirects.h"
#include "rules/rules.h"

/* --- the list ---------------------------------------------------------------------------------*/

static void list_rule(explain *e, const explain_line *l, const char *file, unsigned line)
{
    htc_cell_text(e->rules, l->kind);
    htc_cell_text(e->rules, l->server ? "server" : "directory");
    htc_cell_text(e->rules, file);
    htc_cell_number(e->rules, line);
    htc_cell_text(e->rules, l->rule ? l->rule : "");
    htc_cell_text(e->rules, l->target);
    htc_cell_number(e->rules, (uint64_t)l->status);
    htc_cell_text(e->rules, l->location);
    htc_cell_number(e->rules, l->conditions);
    htc_cell_number(e->rules, l->folded);
}

void explain_add_rule(explain *e, const explain_line *l)
{
    const ap_directive_t *node = l->file ? NULL : l->node;
    const char *file = node ? node->filename : l->file;
    unsigned line = node ? (unsigned)node->line_num : l->line;
    bool answers = l->status && !l->unsure;

    if (e->answered)
        return;
    if (answers || htc_list_rows(e->rules) < EXPLAIN_MAX_RULES)
        list_rule(e, l, file, line);
    else
        e->more_rules++;
    e->unsure = e->unsure || l->unsure;
    e->certain = e->certain && !l->unsure;
    if (!answers)
        return;
    e->answered = true;
    e->status = l->status;
    e->location = l->location;
    e->answer = apr_psprintf(e->pool, "%s in %s line %u answers %d%s%s", l->kind, file, line,
                             l->status, l->location ? ", to " : "", l->location ? l->location : "");
}

/* --- Redirect ---------------------------------------------------------------------------------*/

/* A Redirect line, understood as mod_alias does. */
typedef struct redirect {
    int status;
    const char *source, *target;
    bool regex;
} redirect;

bool explain_is_status(const char *word, int *status)
{
    return redirect_config_status(word, status) != REDIRECT_WORD_SOURCE;
}

static bool read_redirect(const explain *e, const ap_directive_t *node, redirect *redirect)
{
    htc_fold_entry entry;

    if (!htc_fold_read_line(node, e->pool, &entry, &redirect->regex))
        return false;
    redirect->status = entry.status;
    redirect->source = entry.source;
    redirect->target = entry.target;
    return true;
}

/* Location as mod_alias completes it. NULL: there is none. */
static const char *complete(const explain *e, int status, const char *target)
{
    if (!target || !ap_is_HTTP_REDIRECT(status))
        return NULL;
    return htc_alias_add_query(e->pool, htc_alias_complete(e->r, target, e->pool), e->query);
}

static bool match_redirect(const explain *e, const redirect *redirect, const char **location)
{
    ap_regmatch_t groups[AP_MAX_REG_MATCH];
    const char *target = redirect->target;
    size_t taken;

    if (!redirect->regex) {
        taken = htc_alias_prefix(e->path, redirect->source, strlen(redirect->source));
        if (taken && target)
            target =
                apr_pstrcat(e->pool, target, ap_os_escape_path(e->pool, e->path + taken, 1), NULL);
        *location = complete(e, redirect->status, target);
        return taken > 0;
    }
    if (explain_match(e, redirect->source, 0, e->path, AP_MAX_REG_MATCH, groups) != EXPLAIN_YES)
        return false;
    if (target)
        target = ap_pregsub(e->pool, target, e->path, AP_MAX_REG_MATCH, groups);
    if (target)
        target = htc_alias_escape(e->pool, target);
    *location = complete(e, redirect->status, target);
    return true;
}

/* True when the lines of a context are folded, as far as they can be. */
bool explain_folds(const explain *e, const ap_directive_t *node, bool server)
{
    bool shared = true;

    for (const ap_directive_t *up = node->parent; up; up = up->parent)
        shared = shared && strcasecmp(up->directive, "<VirtualHost");
    if (server)
        return (shared ? htc_server_conf_of(ap_server_conf) : e->sc)->fold_lines;
    return e->sc->fold_dirs && (!shared || e->in_htaccess || htc_options_get()->fold_shared);
}

/* Nothing of a line that does not match is kept: there may be a million. */
bool explain_redirect_matches(const explain *e, const ap_directive_t *node)
{
    explain one = *e;
    redirect redirect = {0};
    const char *location;
    bool matches;

    if (redirect_config_alias(node->directive) < 0)
        return false;
    apr_pool_create(&one.pool, e->pool);
    matches = read_redirect(&one, node, &redirect) && match_redirect(&one, &redirect, &location);
    apr_pool_destroy(one.pool);
    return matches;
}

static void redirects_of(explain *e, const ap_directive_t *node, bool server)
{
    for (; node && !e->answered && explain_goes_on(e); node = explain_step(node)) {
        redirect redirect = {0};
        const char *location = NULL, *reason;

        if (!explain_redirect_matches(e, node) || !read_redirect(e, node, &redirect) ||
            !match_redirect(e, &redirect, &location))
            continue;
        explain_add_rule(
            e, &(explain_line){.kind = node->directive,
                               .node = node,
                               .server = server,
                               .rule = redirect.source,
                               .target = redirect.target,
                               .location = location,
                               .status = redirect.status,
                               .folded = explain_folds(e, node, server) &&
                                         redirect_config_redirect(
                                             redirect_config_alias(node->directive), node->args,
                                             !server, e->pool, &reason) == REDIRECT_LINE_FOLD});
    }
}

/* --- maps -------------------------------------------------------------------------------------*/

static void ask_map(explain *e, const htc_redirect_map *map, const char *where, bool server)
{
    htc_map_hit hit;

    if (!map || e->answered || !explain_goes_on(e))
        return;
    if (htc_map_explain(e->r, map, &hit)) {
        explain_add_rule(e, &(explain_line){.kind = "map",
                                            .file = map->file,
                                            .line = hit.line,
                                            .server = server,
                                            .rule = hit.rule,
                                            .target = hit.target,
                                            .location = hit.location,
                                            .status = hit.status,
                                            .folded = true});
        explain_note(e, "The map %s is named in %s.", map->file, where);
    } else if (hit.out_of_budget) {
        explain_note(e, "Patterns of the map %s take too long for this path: it has no match.",
                     map->file);
    } else if (!hit.known) {
        explain_note(e, "The map %s, named in %s, has not been loaded.", map->file, where);
        e->certain = false;
    }
}

static void maps_of(explain *e, const ap_directive_t *node, const char *htaccess_dir, bool server)
{
    for (node = explain_next(node, "HtCacheRedirectMap"); node;
         node = explain_next(explain_step(node), "HtCacheRedirectMap")) {
        const char *where = explain_where(e, node);

        ask_map(e, htc_map_of_line(e->server, where, htaccess_dir, node->args, e->pool), where,
                server);
    }
}

/* --- the order --------------------------------------------------------------------------------*/

static const ap_directive_t *host_lines(const explain *e)
{
    return e->host ? e->host->first_child : NULL;
}

void explain_server_rules(explain *e)
{
    explain_note_pathless(e, true);
    explain_rewrite_server(e);
    /* A rule without PT has found the file already. */
    if (e->stopped || e->file)
        return;
    maps_of(e, host_lines(e), NULL, true);
    maps_of(e, ap_conftree, NULL, true);
    redirects_of(e, host_lines(e), true);
    redirects_of(e, ap_conftree, true);
}

static void rules_of_directories(explain *e)
{
    explain_rewrite_directories(e);
    for (int i = e->contexts->nelts - 1; i >= 0; i--) {
        const explain_context *c = &APR_ARRAY_IDX(e->contexts, i, explain_context);

        maps_of(e, c->first, c->htaccess ? c->directory : NULL, false);
    }
    for (int i = e->contexts->nelts - 1; i >= 0; i--) {
        const explain_context *c = &APR_ARRAY_IDX(e->contexts, i, explain_context);

        e->in_htaccess = c->htaccess;
        redirects_of(e, c->first, false);
    }
}

static bool may_redirect(const char *override)
{
    return (ap_strcasestr(override, "All") || ap_strcasestr(override, "FileInfo")) &&
           !ap_strcasestr(override, "Nonfatal") && !ap_strcasestr(override, "list");
}

/* Files whose lines are not known here, or not known to be allowed. */
static void note_unknown(explain *e)
{
    for (int i = 0; i < e->levels->nelts; i++) {
        const explain_level *level = &APR_ARRAY_IDX(e->levels, i, explain_level);
        const char *record = level->record, *why = NULL;

        if (!strcmp(record, "none"))
            why = "No request has asked for %s.htaccess yet, so its lines are not known here.";
        else if (!strcmp(record, "uncached"))
            why = "HtCache is Off for %s: lines of a .htaccess file there are not known here.";
        else if (!strcmp(record, "stock"))
            why = "The .htaccess file in %s is left to httpd: its lines are not known here.";
        else if (level->tree && !may_redirect(level->override))
            why = "AllowOverride may not allow all lines of %s.htaccess.";
        if (!why)
            continue;
        explain_note(e, why, level->directory);
        e->certain = false;
    }
}

void explain_directory_rules(explain *e)
{
    note_unknown(e);
    explain_note_rest(e);
    rules_of_directories(e);
    if (e->answered || e->next)
        explain_note_access(e);
}
