/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which Redirect, RewriteRule and map lines match a path, in the order in which httpd comes to
 * them: first those of the server (mod_rewrite, maps, Redirect), then those of directories. Lines
 * are read from the configuration tree and from records, and compared one by one, as a person
 * would: nothing here has to be fast, and nothing is taken from the tables that is to be explained
 * by them. Called by glue_explain.c.
 */
#include <apr_uri.h>
#include <http_main.h>

#include "glue_explain.h"
#include "glue_fold.h"
#include "redirect_config.h"

/* --- the list ---------------------------------------------------------------------------------*/

/* A line that matches. */
typedef struct rule_line {
    const char *kind;
    const ap_directive_t *node;
    const char *file; /* if not the node's */
    unsigned line;
    bool server;
    const char *rule, *target, *location;
    int status;
    unsigned conditions;
    bool folded;
} rule_line;

static void list_rule(explain *e, const rule_line *l, const char *file, unsigned line)
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

/* The first that answers is the answer; what comes before and may answer makes it uncertain. Of
 * more than are listed the one that answers is. */
static void add_rule(explain *e, const rule_line *l)
{
    const ap_directive_t *node = l->file ? NULL : l->node;
    const char *file = node ? node->filename : l->file;
    unsigned line = node ? (unsigned)node->line_num : l->line;
    bool answers = l->status && !l->conditions;

    if (e->answered)
        return;
    if (answers || htc_list_rows(e->rules) < EXPLAIN_MAX_RULES)
        list_rule(e, l, file, line);
    else
        e->more_rules++;
    if (!answers) {
        e->certain = false;
        return;
    }
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

/* As mod_alias: bytes of the path that the prefix takes, or 0. */
static size_t prefix_length(const char *path, const char *prefix)
{
    const char *p = path;
    bool slash = false;

    while (*prefix) {
        slash = *prefix == '/';
        if (*p != *prefix)
            return 0;
        p += slash ? strspn(p, "/") : 1;
        prefix += slash ? strspn(prefix, "/") : 1;
    }
    return slash || !*p || *p == '/' ? (size_t)(p - path) : 0;
}

/* Location as mod_alias completes it. NULL: there is none. */
static const char *complete(const explain *e, int status, const char *target)
{
    if (!target || !ap_is_HTTP_REDIRECT(status))
        return NULL;
    if (*target == '/' && !htc_relative_allowed(e->r))
        target = ap_construct_url(e->pool, target, e->r);
    return e->query && !strchr(target, '?') ? apr_pstrcat(e->pool, target, "?", e->query, NULL)
                                            : target;
}

/* As mod_alias escapes what a pattern's substitution gave. */
static const char *escape_target(apr_pool_t *pool, const char *target)
{
    apr_uri_t uri;
    const char *escaped;

    if (!target || apr_uri_parse(pool, target, &uri) != APR_SUCCESS)
        return target;
    escaped = ap_escape_uri(pool, apr_uri_unparse(pool, &uri, APR_URI_UNP_OMITQUERY));
    if (uri.query)
        escaped = apr_pstrcat(pool, escaped, "?", uri.query, NULL);
    return uri.fragment ? apr_pstrcat(pool, escaped, "#", uri.fragment, NULL) : escaped;
}

static bool match_redirect(const explain *e, const redirect *redirect, const char **location)
{
    ap_regmatch_t groups[AP_MAX_REG_MATCH];
    const char *target = redirect->target;
    ap_regex_t *regex;
    size_t taken;

    if (!redirect->regex) {
        taken = prefix_length(e->path, redirect->source);
        if (taken && target)
            target =
                apr_pstrcat(e->pool, target, ap_os_escape_path(e->pool, e->path + taken, 1), NULL);
        *location = complete(e, redirect->status, target);
        return taken > 0;
    }
    regex = ap_pregcomp(e->pool, redirect->source, AP_REG_EXTENDED);
    if (!regex || ap_regexec(regex, e->path, AP_MAX_REG_MATCH, groups, 0))
        return false;
    if (target)
        target =
            escape_target(e->pool, ap_pregsub(e->pool, target, e->path, AP_MAX_REG_MATCH, groups));
    *location = complete(e, redirect->status, target);
    return true;
}

/* Are the lines of a context folded, as far as they can be? */
static bool folds(const explain *e, const ap_directive_t *node, bool server)
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
    for (; node && !e->answered; node = explain_step(node)) {
        redirect redirect = {0};
        const char *location = NULL, *reason;

        if (!explain_redirect_matches(e, node) || !read_redirect(e, node, &redirect) ||
            !match_redirect(e, &redirect, &location))
            continue;
        add_rule(e, &(rule_line){.kind = node->directive,
                                 .node = node,
                                 .server = server,
                                 .rule = redirect.source,
                                 .target = redirect.target,
                                 .location = location,
                                 .status = redirect.status,
                                 .folded = folds(e, node, server) &&
                                           redirect_config_redirect(
                                               redirect_config_alias(node->directive), node->args,
                                               !server, e->pool, &reason) == REDIRECT_LINE_FOLD});
    }
}

/* --- RewriteRule ------------------------------------------------------------------------------*/

static bool engine_is_on(const ap_directive_t *node, bool before)
{
    for (node = explain_next(node, "RewriteEngine"); node;
         node = explain_next(explain_step(node), "RewriteEngine"))
        before = !strcasecmp(node->args, "on");
    return before;
}

/* Rules and conditions of one context, and their nodes. */
typedef struct ruleset {
    rewrite_rule *rules;
    const ap_directive_t **nodes;
    unsigned *conditions;
    size_t n;
} ruleset;

static ruleset read_rules(const explain *e, const ap_directive_t *first, bool in_dir)
{
    apr_array_header_t *lines = apr_array_make(e->pool, 16, sizeof(rewrite_line));
    ruleset set = {0};
    unsigned conditions = 0;
    size_t n = 0, all = 0;

    for (const ap_directive_t *node = first; node; node = explain_step(node))
        all += !strcasecmp(node->directive, "RewriteRule");
    set.rules = apr_pcalloc(e->pool, (all + 1) * sizeof(*set.rules));
    set.nodes = apr_pcalloc(e->pool, (all + 1) * sizeof(*set.nodes));
    set.conditions = apr_pcalloc(e->pool, (all + 1) * sizeof(*set.conditions));
    for (const ap_directive_t *node = first; node; node = explain_step(node)) {
        bool condition = !strcasecmp(node->directive, "RewriteCond");

        if (!condition && strcasecmp(node->directive, "RewriteRule"))
            continue;
        APR_ARRAY_PUSH(lines, rewrite_line) = (rewrite_line){condition, node->args};
        if (!condition) {
            set.nodes[n] = node;
            set.conditions[n++] = conditions;
        }
        conditions = condition ? conditions + 1 : 0;
    }
    set.n = redirect_config_rewrites((const rewrite_line *)lines->elts, (size_t)lines->nelts,
                                     in_dir, htc_fold_regex_flags(), set.rules, e->pool);
    return set;
}

/* Location of a redirect by a rule, where it follows from the path alone. */
static const char *rewrite_location(const explain *e, const rewrite_rule *rule, const char *subject,
                                    const ap_regmatch_t *groups)
{
    const char *target;

    if (!(rule->flags & REWRITE_REDIRECT) || !ap_is_HTTP_REDIRECT(rule->status) ||
        strchr(rule->output, '%') || !strcmp(rule->output, "-"))
        return NULL;
    target = ap_pregsub(e->pool, rule->output, subject, AP_MAX_REG_MATCH, (ap_regmatch_t *)groups);
    if (!target || (!ap_is_url(target) && *target != '/'))
        return NULL;
    if (!(rule->flags & REWRITE_NOESCAPE)) {
        size_t len = strcspn(target, "?");

        target = apr_pstrcat(e->pool, ap_escape_uri(e->pool, apr_pstrmemdup(e->pool, target, len)),
                             target + len, NULL);
    }
    if (rule->drops_query && *target == '/')
        return ap_construct_url(e->pool, target, e->r);
    return rule->drops_query ? target : complete(e, rule->status, target);
}

/* What a rule's status is when it ends the request; 0: the request goes on. */
static int rewrite_status(const rewrite_rule *rule)
{
    if (rule->flags & REWRITE_FORBIDDEN)
        return HTTP_FORBIDDEN;
    if (rule->flags & REWRITE_GONE)
        return HTTP_GONE;
    if (rule->flags & (REWRITE_REDIRECT | REWRITE_STATUS))
        return rule->status ? rule->status : HTTP_MOVED_TEMPORARILY;
    return ap_is_url(rule->output) ? HTTP_MOVED_TEMPORARILY : 0;
}

static bool rule_matches(const explain *e, const rewrite_rule *rule, const char *subject,
                         ap_regmatch_t *groups)
{
    bool negated = *rule->pattern == '!';
    int flags = AP_REG_EXTENDED | (rule->flags & REWRITE_NOCASE ? AP_REG_ICASE : 0);
    ap_regex_t *regex;
    apr_pool_t *pool;
    bool matches;

    apr_pool_create(&pool, e->pool);
    regex = ap_pregcomp(pool, rule->pattern + negated, flags);
    for (int i = 0; i < AP_MAX_REG_MATCH; i++)
        groups[i].rm_so = groups[i].rm_eo = -1;
    matches = regex && (ap_regexec(regex, subject, AP_MAX_REG_MATCH, groups, 0) != 0) == negated;
    apr_pool_destroy(pool);
    return matches;
}

/* A rule that redirects or ends the processing without a condition is the last that counts: false
 * then. */
static bool rewrites_of(explain *e, const ap_directive_t *first, const char *subject, bool server)
{
    ruleset set = read_rules(e, first, !server);

    for (size_t i = 0; i < set.n && !e->answered; i++) {
        const rewrite_rule *rule = &set.rules[i];
        ap_regmatch_t groups[AP_MAX_REG_MATCH];
        unsigned conditions = set.conditions[i] + (rule->counted ? 1 : 0);

        if (!rule->pattern || !rule->output || !rule_matches(e, rule, subject, groups))
            continue;
        add_rule(e, &(rule_line){.kind = "RewriteRule",
                                 .node = set.nodes[i],
                                 .server = server,
                                 .rule = rule->pattern,
                                 .target = rule->output,
                                 .location = rewrite_location(e, rule, subject, groups),
                                 .status = rewrite_status(rule),
                                 .conditions = conditions,
                                 .folded = folds(e, set.nodes[i], server) && !rule->why});
        if (conditions || rewrite_status(rule) || !(rule->flags & (REWRITE_LAST | REWRITE_END)))
            continue;
        if (strcmp(rule->output, "-")) {
            explain_note(e,
                         "%s line %d rewrites the path to '%s'; what follows is not looked into "
                         "from there on.",
                         set.nodes[i]->filename, set.nodes[i]->line_num, rule->output);
            e->rewritten = true;
        }
        return false;
    }
    return true;
}

/* --- maps -------------------------------------------------------------------------------------*/

static void ask_map(explain *e, const htc_redirect_map *map, const char *where, bool server)
{
    htc_map_hit hit;

    if (!map || e->answered)
        return;
    if (htc_map_explain(e->r, map, &hit)) {
        add_rule(e, &(rule_line){.kind = "map",
                                 .file = map->file,
                                 .line = hit.line,
                                 .server = server,
                                 .rule = hit.rule,
                                 .target = hit.target,
                                 .location = hit.location,
                                 .status = hit.status,
                                 .folded = true});
        explain_note(e, "The map %s is named in %s.", map->file, where);
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

static bool has_rewrites(const ap_directive_t *node)
{
    for (; node; node = explain_step(node)) {
        if (!strncasecmp(node->directive, "Rewrite", 7))
            return true;
    }
    return false;
}

/* What mod_rewrite merges, from context to context. */
typedef struct rewriting {
    bool on;
    unsigned options;           /* INHERIT_* */
    explain_context chain[128]; /* whose rules are tried, in order */
    int n;
    const explain_context *last;
} rewriting;

enum {
    INHERIT = 1,
    INHERIT_BEFORE = 2,
    INHERIT_DOWN = 4,
    INHERIT_DOWN_BEFORE = 8,
    IGNORE_INHERIT = 16
};

/* False: there are none here. */
static bool options_of(const explain *e, const ap_directive_t *node, unsigned *options)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"Inherit", INHERIT},
                 {"InheritBefore", INHERIT_BEFORE},
                 {"InheritDown", INHERIT_DOWN},
                 {"InheritDownBefore", INHERIT_DOWN_BEFORE},
                 {"IgnoreInherit", IGNORE_INHERIT}};
    unsigned bits = 0;
    bool any = false;

    for (node = explain_next(node, "RewriteOptions"); node;
         node = explain_next(explain_step(node), "RewriteOptions")) {
        const char *args = node->args ? node->args : "", *word;

        for (any = true; *(word = ap_getword_conf(e->pool, &args));) {
            for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                bits |= strcasecmp(word, names[i].name) ? 0 : names[i].bit;
        }
    }
    if (any)
        *options = bits;
    return any;
}

/* Options and state count in the next context, too; rules only if these say so. */
static void merge_rewriting(const explain *e, rewriting *w, const explain_context *c)
{
    const ap_directive_t *first = c->first;
    unsigned base = w->options;
    bool first_own, first_base;

    options_of(e, first, &w->options);
    w->on = engine_is_on(first, w->on);
    first_own = (w->options & INHERIT) || (base & INHERIT_DOWN && !(w->options & IGNORE_INHERIT));
    first_base = !first_own && ((w->options & INHERIT_BEFORE) ||
                                (base & INHERIT_DOWN_BEFORE && !(w->options & IGNORE_INHERIT)));
    if ((!first_own && !first_base) || w->n == (int)(sizeof(w->chain) / sizeof(w->chain[0])))
        w->n = 0;
    if (first_own)
        memmove(w->chain + 1, w->chain, (size_t)w->n * sizeof(w->chain[0]));
    w->chain[first_own ? 0 : w->n] = *c;
    w->n++;
}

static void try_chain(explain *e, const rewriting *w, const char *subject, bool server)
{
    bool going_on = true;

    for (int i = 0; going_on && !e->answered && i < w->n; i++) {
        e->in_htaccess = w->chain[i].htaccess;
        going_on = rewrites_of(e, w->chain[i].first, subject, server);
    }
}

static void note_rewrites(explain *e, const explain_context *c)
{
    const ap_directive_t *rule = explain_next(c->first, "RewriteRule");

    if (!rule)
        return;
    e->certain = false;
    if (e->unread++ < EXPLAIN_MAX_UNREAD)
        explain_note(e,
                     "RewriteRules in a section that is not of one directory are not looked "
                     "into: %s.",
                     explain_where(e, rule));
}

static void rewrites_of_directories(explain *e)
{
    /* httpd merges directories with each other first: the server's Inherit options come too late.
     */
    rewriting w = {.on = e->engine};

    for (int i = 0; i < e->contexts->nelts; i++) {
        const explain_context *c = &APR_ARRAY_IDX(e->contexts, i, explain_context);

        if (!has_rewrites(c->first))
            continue;
        merge_rewriting(e, &w, c);
        w.last = c;
    }
    if (!w.last || !w.on)
        return;
    for (int i = 0; i < e->contexts->nelts; i++) {
        const explain_context *c = &APR_ARRAY_IDX(e->contexts, i, explain_context);

        if (!c->plain)
            note_rewrites(e, c);
    }
    if (w.last->plain && e->file && !strncmp(e->file, w.last->directory, strlen(w.last->directory)))
        try_chain(e, &w, e->file + strlen(w.last->directory), false);
}

static void rules_of_server(explain *e)
{
    rewriting w = {0};

    merge_rewriting(e, &w, &(explain_context){.first = ap_conftree});
    if (e->host)
        merge_rewriting(e, &w, &(explain_context){.first = host_lines(e)});
    /* Directories begin with the server's engine. */
    e->engine = w.on;
    explain_note_pathless(e, true);
    if (w.on)
        try_chain(e, &w, e->path, true);
    maps_of(e, host_lines(e), NULL, true);
    maps_of(e, ap_conftree, NULL, true);
    redirects_of(e, host_lines(e), true);
    redirects_of(e, ap_conftree, true);
}

static void rules_of_directories(explain *e)
{
    rewrites_of_directories(e);
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

/* Files whose lines nobody here knows, or knows to be allowed. */
static void note_unknown(explain *e)
{
    for (int i = 0; i < e->levels->nelts; i++) {
        const explain_level *level = &APR_ARRAY_IDX(e->levels, i, explain_level);
        const char *record = htc_list_cell(e->levels_list, i, 4)->text, *why = NULL;

        if (!strcmp(record, "none"))
            why = "Nobody has asked for %s.htaccess yet: its lines are not known here.";
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

void explain_rules(explain *e)
{
    explain_find_contexts(e);
    rules_of_server(e);
    if (!e->answered) {
        note_unknown(e);
        explain_note_rest(e);
        rules_of_directories(e);
        if (e->answered)
            explain_note_access(e);
    }
    if (!e->answer)
        e->answer = htc_list_rows(e->rules)
                        ? "no line is certain to answer; see the rules that match"
                    : e->certain ? "no redirect answers"
                                 : "no redirect answers, of those that are looked into";
    else if (!e->certain)
        e->answer =
            apr_pstrcat(e->pool, e->answer, "; unless a condition or a note says otherwise", NULL);
}
