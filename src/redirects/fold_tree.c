/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Renames the lines to be folded in a directive tree that httpd has built and not yet processed:
 * the server's configuration in pre_config, that of a .htaccess file just before it runs. The
 * changes in the server's tree are undone as soon as httpd has processed it. So mod_info, -D
 * DUMP_CONFIG and others that look at the tree later find what the administrator wrote.
 *
 * mod_alias tries the lines of all contexts of a request in one list, deeper contexts first. Folded
 * lines are tried before that list, so in each host all lines of directories are folded, or none.
 */
#include "redirects/fold.h"
#include "redirects/rule_filter.h"
#include "redirects/fold_track.h"
#include "module/module.h"
#include "rules/rules.h"

/* The names under which mod_alias's directives reach this module. */
static const char *const renamed[REDIRECT_CONFIG_ALIASES] = {HTC_FOLD_REDIRECT, HTC_FOLD_MATCH,
                                                             HTC_FOLD_TEMP, HTC_FOLD_PERMANENT};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Containers within which a line is a directory's. */
static const char *const dir_sections[] = {
    "<Directory", "<DirectoryMatch", "<Location", "<LocationMatch", "<Files", "<FilesMatch",
    "<If",        "<ElseIf",         "<Else"};
/* Those that change nothing about that. */
static const char *const limits[] = {"<Limit", "<LimitExcept"};

/* Marks the nodes that were renamed or inserted here: nobody else can write such a line. */
static char made_here, made_linear;

/* One change of the tree. */
typedef struct change {
    ap_directive_t *node;
    const char *directive, *args; /* as they were; NULL: the node was put at *link */
    ap_directive_t **link, *was;  /* and what was there */
} change;

static bool named(const ap_directive_t *node, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strcasecmp(node->directive, names[i]))
            return true;
    }
    return false;
}

/* --- changing the tree ------------------------------------------------------------------------*/

static void note(htc_walk *w, const change *made)
{
    if (w->changes)
        APR_ARRAY_PUSH(w->changes, change) = *made;
}

void htc_fold_rename(htc_walk *w, ap_directive_t *node, const char *name, const char *args)
{
    note(w, &(change){.node = node, .directive = node->directive, .args = node->args});
    node->directive = name;
    node->args = args;
    node->data = w->linear ? &made_linear : &made_here;
}

ap_directive_t *htc_fold_new_node(htc_walk *w, const ap_directive_t *like, const char *name,
                                  const char *args)
{
    const apr_array_header_t *building = htc_options_get()->building;
    ap_directive_t *node = apr_pcalloc(building ? building->pool : w->pool, sizeof(*node));

    node->directive = name;
    node->args = args;
    node->filename = like->filename;
    node->line_num = like->line_num;
    node->parent = like->parent;
    node->data = &made_here;
    return node;
}

void htc_fold_insert(htc_walk *w, ap_directive_t **link, const ap_directive_t *like,
                     const char *name, const char *args)
{
    ap_directive_t *node = htc_fold_new_node(w, like, name, args);

    note(w, &(change){.link = link, .was = *link});
    node->next = *link;
    *link = node;
}

static void undo(apr_array_header_t *changes)
{
    for (int i = changes->nelts - 1; i >= 0; i--) {
        const change *c = &APR_ARRAY_IDX(changes, i, change);

        if (c->directive) {
            c->node->directive = c->directive;
            c->node->args = c->args;
            c->node->data = NULL;
        } else {
            *c->link = c->was;
        }
    }
    changes->nelts = 0;
}

bool htc_fold_made_node(const ap_directive_t *node)
{
    return node->data == &made_here || node->data == &made_linear;
}

bool htc_fold_made(const cmd_parms *cmd)
{
    return cmd->directive && htc_fold_made_node(cmd->directive);
}

bool htc_fold_linear(const cmd_parms *cmd)
{
    return cmd->directive->data == &made_linear;
}

/* A line that may not stand in its file must hear so from httpd, under its own name. */
static bool allowed(const cmd_parms *cmd, int which)
{
    return !cmd || (cmd->override & OR_FILEINFO) ||
           (cmd->override_list &&
            apr_table_get(cmd->override_list, redirect_config_alias_names[which]));
}

static void walk_line(htc_walk *w, ap_directive_t **link, int which, bool in_dir)
{
    ap_directive_t *node = *link;
    const char *reason;
    redirect_line kind = redirect_config_redirect(which, node->args, in_dir, w->pool, &reason);

    if (kind == REDIRECT_LINE_LEAVE || !allowed(w->cmd, which))
        return;
    w->counts->redirects_seen++;
    if (kind == REDIRECT_LINE_FIRST) {
        htc_fold_insert(w, link, node, HTC_FOLD_MARK, "");
        return;
    }
    if (!w->fold)
        return;
    htc_fold_rename(w, node, renamed[which], node->args);
    w->counts->redirects_folded += !w->off;
}

/* Lines that one node stands for; only those that are folded are brought together. */
static bool walk_run(htc_walk *w, const ap_directive_t *node)
{
    const htc_fold_run *run = htc_fold_run_of(node);

    if (run) {
        w->counts->redirects_seen += (uint64_t)run->entries->nelts;
        w->counts->redirects_folded += (uint64_t)run->entries->nelts;
    }
    return run != NULL;
}

/* Lines that are left to httpd with what is around them. */
static void count_only(htc_walk *w, const ap_directive_t *node, bool rules_only)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "RewriteRule"))
            w->counts->rewrite_rules_seen++;
        else if (!rules_only && w->redirects && !node->first_child &&
                 redirect_config_alias(node->directive) >= 0)
            w->counts->redirects_seen++;
        else if (!rules_only)
            count_only(w, node->first_child, false);
    }
}

static void walk_level(htc_walk *w, ap_directive_t **link, bool in_dir);

static bool rewrites(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "RewriteRule") ||
            !strcasecmp(node->directive, "RewriteCond"))
            return true;
    }
    return false;
}

/* Rules in a <Limit> go on with those around it, as if it were not there. That is rare enough to
 * leave all of them alone. */
static bool limits_rewrites(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (named(node, limits, COUNT(limits)) &&
            (rewrites(node->first_child) || limits_rewrites(node->first_child)))
            return true;
    }
    return false;
}

static void fold_rewrites(htc_walk *w, ap_directive_t **first, bool in_dir)
{
    if (!w->rewrites || limits_rewrites(*first))
        count_only(w, *first, true);
    else if (w->tracked)
        htc_track_collect(w, *first);
    else
        htc_fold_rewrites(w, first, in_dir);
}

static void walk_limit(htc_walk *w, ap_directive_t **first, bool in_dir)
{
    bool saved = w->rewrites;

    w->rewrites = false;
    walk_level(w, first, in_dir);
    w->rewrites = saved;
}

static void walk_level(htc_walk *w, ap_directive_t **link, bool in_dir)
{
    fold_rewrites(w, link, in_dir);
    for (ap_directive_t *node = *link; node; link = &node->next, node = *link) {
        int which = w->redirects ? redirect_config_alias(node->directive) : -1;

        if (which >= 0 && !node->first_child)
            walk_line(w, link, which, in_dir);
        else if (walk_run(w, node))
            continue;
        else if (named(node, dir_sections, COUNT(dir_sections)))
            walk_level(w, &node->first_child, true);
        else if (named(node, limits, COUNT(limits)))
            walk_limit(w, &node->first_child, in_dir);
        else
            count_only(w, node->first_child, false);
    }
}

static bool says(const ap_directive_t *node, const char *name, int *value)
{
    if (strcasecmp(node->directive, name))
        return false;
    *value = !strcasecmp(node->args, "on");
    return true;
}

static void scan_level(const ap_directive_t *node, bool nested, redirect_config_host *found)
{
    int value;

    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "HtCacheExclude") ||
            (nested && (says(node, "HtCache", &value) || says(node, "HtCacheFold", &value)) &&
             !value))
            found->parts = true;
        if (!nested && !says(node, "HtCache", &found->cache))
            says(node, "HtCacheFold", &found->fold);
        if (node->first_child && strcasecmp(node->directive, "<VirtualHost"))
            scan_level(node->first_child, true, found);
    }
}

/* HtCache and HtCacheFold as a server or a .htaccess file sets them. */
static redirect_config_host scan(const ap_directive_t *node, bool parts)
{
    redirect_config_host found = {.cache = -1, .fold = -1, .parts = parts};

    scan_level(node, false, &found);
    return found;
}

void htc_fold_admit(apr_table_t *list)
{
    for (size_t i = 0; i < REDIRECT_CONFIG_ALIASES; i++) {
        if (!apr_table_get(list, redirect_config_alias_names[i]))
            continue;
        apr_table_setn(list, renamed[i], "1");
        apr_table_setn(list, HTC_FOLD_MARK, "1");
    }
}

static htc_walk walk_htaccess(const ap_directive_t *tree, const cmd_parms *cmd, bool once,
                              htc_fold_counts *counts)
{
    htc_walk w = htc_options_get()->walk;

    w.pool = cmd->pool;
    w.changes = NULL;
    w.cmd = cmd;
    w.counts = counts;
    w.fold = true;
    w.off = scan(tree, false).fold == 0;
    w.rewrites = w.rewrites && !w.off && (cmd->override & OR_FILEINFO);
    w.once = once;
    w.linear = w.off || once;
    return w;
}

void htc_fold_htaccess(ap_directive_t **tree, const cmd_parms *cmd, bool once,
                       htc_fold_counts *counts)
{
    htc_walk w = walk_htaccess(*tree, cmd, once, counts);

    walk_level(&w, tree, true);
}

apr_hash_t *htc_fold_tracked_of(ap_directive_t *tree, apr_pool_t *pool)
{
    const cmd_parms cmd = {.pool = pool, .override = OR_ALL};
    htc_fold_counts counts = {0};
    htc_walk w = walk_htaccess(tree, &cmd, true, &counts);

    w.redirects = false;
    w.tracked = apr_hash_make(pool);
    walk_level(&w, &tree, true);
    return w.tracked;
}

void htc_fold_count_tree(ap_directive_t *tree, bool replayed, apr_pool_t *pool,
                         htc_fold_counts *counts)
{
    const cmd_parms cmd = {.pool = pool, .override = OR_ALL};
    htc_walk w = walk_htaccess(tree, &cmd, true, counts);

    *counts = (htc_fold_counts){0};
    w.dry = true;
    walk_level(&w, &tree, true);
    if (!htc_options_get()->fold_dirs || replayed)
        counts->redirects_folded = counts->rewrite_rules_folded = 0;
}

/* --- the server's configuration ---------------------------------------------------------------*/

/* The lines of a server itself, not those of its sections. */
static void fold_server_lines(htc_walk *w, ap_directive_t **first)
{
    fold_rewrites(w, first, false);
    for (ap_directive_t **link = first; *link; link = &(*link)->next) {
        ap_directive_t *node = *link;
        int which =
            w->redirects && !node->first_child ? redirect_config_alias(node->directive) : -1;

        if (which >= 0)
            walk_line(w, link, which, false);
        else
            walk_run(w, node);
    }
}

static const char *host_name(const ap_directive_t *node)
{
    for (const ap_directive_t *child = node->first_child; child; child = child->next) {
        if (!strcasecmp(child->directive, "ServerName"))
            return child->args;
    }
    return node->args;
}

/* The host that is counted for from now on, begun if need be. */
static htc_fold_host *count_for(htc_walk *w, const ap_directive_t *node)
{
    const htc_options *options = htc_options_get();
    const void *key = node;
    htc_fold_host *host = apr_hash_get(options->host_of, &key, sizeof(key));

    if (host) {
        w->counts = &host->counts;
        return host;
    }
    host = apr_pcalloc(w->pool, sizeof(*host));
    host->node = node;
    host->name = node ? apr_pstrdup(w->pool, host_name(node)) : "main server";
    host->where = node ? apr_psprintf(w->pool, "%s:%d", node->filename, node->line_num) : NULL;
    APR_ARRAY_PUSH(options->hosts, htc_fold_host *) = host;
    apr_hash_set(options->host_of, &host->node, sizeof(host->node), host);
    w->counts = &host->counts;
    return host;
}

static void fold_sections(htc_walk *w, const ap_directive_t *node, ap_directive_t *first, bool fold)
{
    for (; first; first = first->next) {
        if (named(first, dir_sections, COUNT(dir_sections))) {
            count_for(w, node);
            w->fold = fold;
            walk_level(w, &first->first_child, true);
        } else if (!strcasecmp(first->directive, "<VirtualHost")) {
            fold_sections(w, first, first->first_child, count_for(w, first)->dirs);
        } else {
            count_for(w, node);
            count_only(w, first->first_child, false);
        }
    }
}

static void sum_up(htc_options *options)
{
    htc_fold_counts *sum = &options->counts;

    for (int i = 0; i < options->hosts->nelts; i++) {
        const htc_fold_counts *own = &APR_ARRAY_IDX(options->hosts, i, htc_fold_host *)->counts;

        sum->redirects_seen += own->redirects_seen;
        sum->redirects_folded += own->redirects_folded;
        sum->rewrite_rules_seen += own->rewrite_rules_seen;
        sum->rewrite_rules_folded += own->rewrite_rules_folded;
    }
}

/* True when the directive is this module's alone. If another module knows the name, its handler
 * must run, too. */
static bool only_of(const char *module_name, const char *directive)
{
    bool found = false;

    for (const module *m = ap_top_module; m; m = m->next) {
        for (const command_rec *cmd = m->cmds; cmd && cmd->name; cmd++) {
            if (strcasecmp(cmd->name, directive))
                continue;
            if (strcmp(m->name, module_name))
                return false;
            found = true;
        }
    }
    return found;
}

/* Why mod_alias's lines have to stay with it, for the error log; NULL: they need not. */
static const char *alias_is_odd(apr_pool_t *pool)
{
    if (!htc_hooks_of_alias())
        return "mod_alias does not have one hook in translate_name and one in fixups, as httpd's "
               "own has";
    for (size_t i = 0; i < REDIRECT_CONFIG_ALIASES; i++) {
        if (!only_of("mod_alias.c", redirect_config_alias_names[i]))
            return apr_pstrcat(pool, "mod_alias is not the only module with the directive ",
                               redirect_config_alias_names[i], NULL);
    }
    return NULL;
}

bool htc_tree_mentions(const ap_directive_t *node, const char *directive)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, directive) ||
            htc_tree_mentions(node->first_child, directive))
            return true;
    }
    return false;
}

/* mod_perl's PerlLoadModule loads modules while the configuration is processed, which is too late
 * to see what directives they have. Where it stands nowhere httpd ends when a module comes then or
 * later, by PerlModule or a <Perl> section: it makes room for as many as there are such lines. */
static bool loads_later(void)
{
    return ap_find_linked_module("mod_perl.c") && htc_tree_mentions(ap_conftree, "PerlLoadModule");
}

/* True when it asks for mod_rewrite's trace at a level that shows variables. */
static bool asks_for_trace(apr_pool_t *pool, const char *levels)
{
    while (*levels) {
        const char *word = ap_getword_conf(pool, &levels), *level = strrchr(word, ':');

        if (level && strncasecmp(word, "rewrite", 7) && strncasecmp(word, "mod_rewrite", 11))
            continue;
        level = level ? level + 1 : word;
        if (!strncasecmp(level, "trace", 5) && level[5] >= '5')
            return true;
    }
    return false;
}

static bool traces(const ap_directive_t *node, apr_pool_t *pool)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "LogLevel") && asks_for_trace(pool, node->args))
            return true;
        if (traces(node->first_child, pool))
            return true;
    }
    return false;
}

/* A skip or a chain that is open at the end of one context goes on with the rules of another one
 * that inherits it, and counts these one by one. */
static bool open_end_somewhere(ap_directive_t **first, apr_pool_t *pool)
{
    if (htc_fold_open_end(first, pool))
        return true;
    for (ap_directive_t *node = *first; node; node = node->next) {
        if (node->first_child && open_end_somewhere(&node->first_child, pool))
            return true;
    }
    return false;
}

/* Bring Redirect lines together, in a server and in what of its sections may be folded. */
static void make_runs(htc_walk *w, ap_directive_t **link, const ap_directive_t *host, bool in_dir,
                      apr_array_header_t *runs)
{
    for (; *link; link = &(*link)->next) {
        ap_directive_t *node = *link;

        if (!node->first_child)
            htc_fold_run_make(w, link, host, in_dir, runs);
        else if (named(node, dir_sections, COUNT(dir_sections)) ||
                 (in_dir && named(node, limits, COUNT(limits))))
            make_runs(w, &node->first_child, host, true, runs);
        else if (!host && !strcasecmp(node->directive, "<VirtualHost"))
            make_runs(w, &node->first_child, node, false, runs);
    }
}

/* Where httpd reads its configuration for the first time, only to see whether it can, mod_rewrite
 * sees its rules as they are. */
static void prepare_walk(htc_walk *w, htc_options *options, apr_array_header_t *runs,
                         apr_pool_t *pconf, apr_pool_t *ptemp)
{
    w->pool = pconf;
    options->hosts = apr_array_make(pconf, 4, sizeof(htc_fold_host *));
    options->host_of = apr_hash_make(pconf);
    count_for(w, NULL);
    w->changes = options->changes = apr_array_make(pconf, 64, sizeof(change));
    options->alias_odd = alias_is_odd(pconf);
    w->redirects = !options->alias_odd;
    if (w->redirects)
        make_runs(w, &ap_conftree, NULL, false, runs);
    w->opaque = options->regex_options = htc_tree_mentions(ap_conftree, "RegexDefaultOptions");
    w->rewrites = !htc_is_preflight() && !w->opaque && !open_end_somewhere(&ap_conftree, ptemp) &&
                  only_of("mod_rewrite.c", "RewriteRule") &&
                  only_of("mod_rewrite.c", "RewriteCond") && htc_fold_register_map();
    options->rewrite = w->rewrites ? htc_rule_filters_create(pconf, ptemp) : NULL;
    w->rewrites = options->rewrite != NULL;
    w->knows_3f = w->rewrites && htc_fold_knows_3f();
    options->traced = ap_default_loglevel >= APLOG_TRACE5 || traces(ap_conftree, ptemp);
    apr_generate_random_bytes((unsigned char *)&w->secret, sizeof(w->secret));
}

/* Redirect lines in sections that stand outside of virtual hosts, and so belong to all of them. */
static bool shares_redirects(const ap_directive_t *node, bool nested)
{
    for (; node; node = node->next) {
        if ((nested && (redirect_config_alias(node->directive) >= 0 || htc_fold_run_of(node))) ||
            (strcasecmp(node->directive, "<VirtualHost") &&
             shares_redirects(node->first_child,
                              nested || named(node, dir_sections, COUNT(dir_sections)))))
            return true;
    }
    return false;
}

/* Find out what is folded in each host, by redirect_config_plan_hosts(). @a parts: something
 * keeps the lines of all directories from being folded. Returns true when all lines of all
 * directories are folded. */
static bool plan_hosts(htc_walk *w, bool parts, apr_pool_t *ptemp)
{
    apr_array_header_t *plans = apr_array_make(ptemp, 16, sizeof(redirect_config_host));
    apr_array_header_t *hosts = apr_array_make(ptemp, 16, sizeof(htc_fold_host *));
    bool all_dirs;

    APR_ARRAY_PUSH(plans, redirect_config_host) = scan(ap_conftree, parts);
    APR_ARRAY_PUSH(hosts, htc_fold_host *) = count_for(w, NULL);
    for (ap_directive_t *node = ap_conftree; node; node = node->next) {
        if (strcasecmp(node->directive, "<VirtualHost"))
            continue;
        APR_ARRAY_PUSH(plans, redirect_config_host) = scan(node->first_child, false);
        APR_ARRAY_PUSH(hosts, htc_fold_host *) = count_for(w, node);
    }
    all_dirs = redirect_config_plan_hosts((redirect_config_host *)plans->elts, (size_t)plans->nelts,
                                          shares_redirects(ap_conftree, false), loads_later());
    for (int i = 0; i < hosts->nelts; i++) {
        htc_fold_host *host = APR_ARRAY_IDX(hosts, i, htc_fold_host *);

        host->lines = APR_ARRAY_IDX(plans, i, redirect_config_host).lines;
        host->dirs = APR_ARRAY_IDX(plans, i, redirect_config_host).dirs;
    }
    return all_dirs;
}

/* Where it turns out that they are not folded they go back to their places, before anything else is
 * changed in the tree. */
static void settle_runs(htc_walk *w, const apr_array_header_t *runs, bool all_dirs)
{
    for (int i = 0; i < runs->nelts; i++) {
        const htc_fold_run *run = APR_ARRAY_IDX(runs, i, const htc_fold_run *);
        const htc_fold_host *host = count_for(w, run->host);
        bool dirs = run->host ? host->dirs : all_dirs;

        if (run->in_dir ? dirs : host->lines)
            note(w, &(change){.link = run->link, .was = run->first});
        else
            *run->link = run->first;
    }
}

/* Tell the server what was decided for it, see htc_fold_host_directive(). */
static void fold_server(htc_walk *w, ap_directive_t **first, const ap_directive_t *node)
{
    htc_fold_host *host = count_for(w, node);
    const ap_directive_t *like;

    w->fold = host->lines;
    fold_server_lines(w, first);
    like = node ? node : *first;
    if (host->lines && like)
        htc_fold_insert(w, first, like, HTC_FOLD_HOST, host->dirs ? "on" : "off");
    htc_options_get()->fold_dirs |= host->dirs;
}

int htc_fold_pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    htc_options *options = htc_options_get();
    htc_walk *w = &options->walk;
    apr_array_header_t *runs = apr_array_make(ptemp, 16, sizeof(htc_fold_run *));
    bool all_dirs;

    (void)plog;
    if (!ap_conftree)
        return OK;
    prepare_walk(w, options, runs, pconf, ptemp);
    all_dirs = plan_hosts(w, htc_switches_users(), ptemp);
    settle_runs(w, runs, all_dirs);
    for (ap_directive_t *node = ap_conftree; node; node = node->next) {
        if (!strcasecmp(node->directive, "<VirtualHost"))
            fold_server(w, &node->first_child, node);
    }
    fold_server(w, &ap_conftree, NULL);
    options->fold_shared = all_dirs;
    fold_sections(w, NULL, ap_conftree, all_dirs);
    sum_up(options);
    return OK;
}

static bool any_folds(const htc_options *options)
{
    for (int i = 0; options->hosts && i < options->hosts->nelts; i++) {
        if (APR_ARRAY_IDX(options->hosts, i, htc_fold_host *)->lines)
            return true;
    }
    return false;
}

int htc_fold_check_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    htc_options *options = htc_options_get();

    (void)plog;
    (void)ptemp;
    if (options->changes)
        undo(options->changes);
    /* True when rules of some host ask the map function. */
    for (; s && options->rewrite && any_folds(options); s = s->next)
        htc_rewrite_declare_map(options->rewrite, HTC_FOLD_MAP, s, pconf);
    return OK;
}

void htc_fold_say_odd(const server_rec *s)
{
    const htc_options *options = htc_options_get();

    if (!options->alias_odd || !ap_find_linked_module("mod_alias.c") || !any_folds(options) ||
        htc_is_preflight())
        return;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                 "HtCache: Redirect lines are not folded: %s. mod_alias answers them, one line "
                 "after the other. Load httpd's own mod_alias and no other module with its "
                 "directives, or set HtCacheFold Off",
                 options->alias_odd);
}
