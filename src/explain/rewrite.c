/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which RewriteRules are tried for a path, in which order, and where a path that they make leads:
 * as mod_rewrite merges contexts, and as it goes on behind its rules. The rules themselves are run
 * by explain/run.c. Called by explain/rules.c.
 */
#include "explain/internal.h"

#include "redirects/redirects.h"

/* --- the lists --------------------------------------------------------------------------------*/

static bool engine_is_on(const explain *e, const ap_directive_t *node, bool before)
{
    for (node = explain_next(node, "RewriteEngine"); node;
         node = explain_next(explain_step(node), "RewriteEngine")) {
        const char *args = node->args ? node->args : "";

        before = !strcasecmp(ap_getword_conf(e->pool, &args), "on");
    }
    return before;
}

static bool has_rewrites(const ap_directive_t *node)
{
    for (; node; node = explain_step(node)) {
        if (!strncasecmp(node->directive, "Rewrite", 7))
            return true;
    }
    return false;
}

/* Also in its sections: has mod_rewrite a configuration of this virtual host's own? It does nothing
 * in the server's context of one that it has none of, whatever the main server says. */
static bool has_configuration(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (!strncasecmp(node->directive, "Rewrite", 7) || has_configuration(node->first_child))
            return true;
    }
    return false;
}

/* The settings that mod_rewrite merges from context to context. */
typedef struct rewriting {
    bool on;
    unsigned options;           /* INHERIT_* */
    const ap_directive_t *odd;  /* RewriteOptions that change where a path leads */
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

static unsigned option_of(const char *word)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"Inherit", INHERIT},
                 {"InheritBefore", INHERIT_BEFORE},
                 {"InheritDown", INHERIT_DOWN},
                 {"InheritDownBefore", INHERIT_DOWN_BEFORE},
                 {"IgnoreInherit", IGNORE_INHERIT}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcasecmp(word, names[i].name))
            return names[i].bit;
    }
    return 0;
}

/* Those of one context take the place of those before. */
static void merge_options(const explain *e, const ap_directive_t *node, rewriting *w)
{
    unsigned bits = 0;
    bool any = false;

    for (node = explain_next(node, "RewriteOptions"); node;
         node = explain_next(explain_step(node), "RewriteOptions")) {
        const char *args = node->args ? node->args : "", *word;

        for (any = true; *(word = ap_getword_conf(e->pool, &args));) {
            bits |= option_of(word);
            if (!option_of(word))
                w->odd = node;
        }
    }
    if (any)
        w->options = bits;
}

/* Options and state count in the next context, too; rules only if these say so. */
static void merge_rewriting(const explain *e, rewriting *w, const explain_context *c)
{
    const ap_directive_t *first = c->first;
    unsigned base = w->options;
    bool first_own, first_base;

    merge_options(e, first, w);
    w->on = engine_is_on(e, first, w->on);
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

/* --- the rules of a list ----------------------------------------------------------------------*/

static size_t count_of(const ap_directive_t *node, const char *name)
{
    size_t n = 0;

    for (node = explain_next(node, name); node; node = explain_next(explain_step(node), name))
        n++;
    return n;
}

/* Add those of one context. */
static void read_rules(explain *e, const explain_context *c, bool server, apr_array_header_t *rules)
{
    size_t all = count_of(c->first, "RewriteRule"), nlines = 0, n = 0, conditions = 0;
    rewrite_line *lines =
        apr_pcalloc(e->pool, (all + count_of(c->first, "RewriteCond") + 1) * sizeof(rewrite_line));
    rewrite_rule *read = apr_pcalloc(e->pool, (all + 1) * sizeof(rewrite_rule));
    const char **args =
        apr_pcalloc(e->pool, (count_of(c->first, "RewriteCond") + 1) * sizeof(char *));

    for (const ap_directive_t *node = c->first; node; node = explain_step(node)) {
        bool condition = !strcasecmp(node->directive, "RewriteCond");

        if (!condition && strcasecmp(node->directive, "RewriteRule"))
            continue;
        lines[nlines++] = (rewrite_line){condition, node->args};
        if (condition) {
            args[conditions++] = node->args;
            continue;
        }
        APR_ARRAY_PUSH(rules, explain_rewrite_rule) =
            (explain_rewrite_rule){.rule = &read[n++],
                                   .node = node,
                                   .conditions = args,
                                   .nconditions = (unsigned)conditions};
        args += conditions;
        conditions = 0;
    }
    redirect_config_rewrites(lines, nlines, !server, htc_fold_regex_flags(), read, e->pool);
    e->in_htaccess = c->htaccess;
    for (size_t i = 0; i < n; i++) {
        explain_rewrite_rule *one =
            &APR_ARRAY_IDX(rules, rules->nelts - (int)n + (int)i, explain_rewrite_rule);

        one->folded = explain_folds(e, one->node, server) && !one->rule->why;
    }
}

static void run_chain(explain *e, const rewriting *w, explain_run *run)
{
    apr_array_header_t *rules = run->directory ? NULL : e->server_rules;

    if (!rules) {
        rules = apr_array_make(e->pool, 16, sizeof(explain_rewrite_rule));
        for (int i = 0; i < w->n; i++)
            read_rules(e, &w->chain[i], !run->directory, rules);
    }
    if (!run->directory)
        e->server_rules = rules; /* there may be very many, and many paths */
    explain_run_rules(e, run, (const explain_rewrite_rule *)rules->elts, rules->nelts);
    e->stopped = run->stopped;
    explain_set_query(e, run->args);
}

/* --- where it leads ---------------------------------------------------------------------------*/

/* "." or "..", up to the next slash. */
static bool is_dots(const char *name)
{
    size_t len = strcspn(name, "/");

    return (len == 1 || len == 2) && strspn(name, ".") == len;
}

/* A path that means the same however often it is decoded and cleaned up. */
static bool is_plain_path(const char *path)
{
    if (*path != '/' || path[1] == '~')
        return false;
    for (const char *p = path; *p; p++) {
        if ((unsigned char)*p <= ' ' || *p == 0x7f || strchr("%?#\\", *p) ||
            (*p == '/' && (p[1] == '/' || is_dots(p + 1))))
            return false;
    }
    return true;
}

static bool is_plain_query(const char *query)
{
    for (; query && *query; query++) {
        if ((unsigned char)*query <= ' ' || *query == 0x7f || *query == '#')
            return false;
    }
    return true;
}

/* Note it when how it goes on is not known here. */
static bool can_go_on(explain *e, const rewriting *w, const explain_run *run, const char *path)
{
    const ap_directive_t *rule = run->last->node;

    if (w->odd)
        explain_note_unsure(e,
                            "RewriteOptions in %s may change where the RewriteRule in %s line %d "
                            "leads, which is not examined.",
                            explain_where(e, w->odd), rule->filename, rule->line_num);
    else if (e->subrequest)
        explain_note_unsure(e,
                            "RewriteRule in %s line %d rewrites the path of an index file: what "
                            "follows is not examined.",
                            rule->filename, rule->line_num);
    else if (!is_plain_path(path) || !is_plain_query(run->args))
        explain_note_unsure(e,
                            "RewriteRule in %s line %d makes a path that is not plain: what "
                            "follows is not examined.",
                            rule->filename, rule->line_num);
    else
        return true;
    e->stopped = true;
    return false;
}

static const char *document_root(const explain *e)
{
    const core_server_config *core = ap_get_core_module_config(e->server->module_config);

    return core->ap_document_root ? core->ap_document_root : "";
}

static bool begins_with(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* As mod_rewrite decides whether a path is a file's already: its first directory exists, and the
 * rule says it or it is in the document root. */
static const char *file_of(const explain *e, const explain_run *run)
{
    const char *path = run->filename, *slash = strchr(path + 1, '/');
    const char *first = slash ? apr_pstrmemdup(e->pool, path, (apr_size_t)(slash - path)) : path;
    apr_finfo_t finfo;

    if (apr_stat(&finfo, first, APR_FINFO_MIN, e->pool) == APR_SUCCESS &&
        (begins_with(run->last->rule->output, first) || begins_with(path, document_root(e))))
        return path;
    return apr_pstrcat(e->pool, document_root(e), path, NULL);
}

void explain_rewrite_server(explain *e)
{
    rewriting w = {0};
    explain_run run = {.filename = e->path, .args = e->query};
    const ap_directive_t *host = e->host ? e->host->first_child : NULL;

    merge_rewriting(e, &w, &(explain_context){.first = ap_conftree});
    if (e->host)
        merge_rewriting(e, &w, &(explain_context){.first = host});
    /* Directories begin with the server's engine. */
    e->engine = w.on;
    if (!w.on || e->rewrite_end || (e->host && !has_configuration(host)))
        return;
    run_chain(e, &w, &run);
    if (e->answered || e->stopped || !run.changed || !can_go_on(e, &w, &run, run.filename))
        return;
    explain_set_step(e, "RewriteRule", run.last->node, run.filename);
    if (run.passed) {
        explain_set_path(e, run.filename);
        return;
    }
    e->file = file_of(e, &run);
    e->mapped_by = apr_psprintf(e->pool, "RewriteRule (%s)", explain_where(e, run.last->node));
    e->context_prefix = e->context_root = NULL;
}

/* The URL that mod_rewrite makes of a file's name, to begin anew with it. */
static const char *url_of(const explain *e, const explain_run *run)
{
    const char *path = run->filename, *root = document_root(e);
    size_t len = strlen(root);

    len -= len && root[len - 1] == '/';
    if (run->base)
        path = explain_replace_prefix(e, path, run->directory, run->base);
    else if (!strncmp(path, root, len) && path[len] == '/')
        path += len;
    if (path == run->filename)
        path = explain_replace_prefix(e, path, e->context_root ? e->context_root : root,
                                      e->context_root ? e->context_prefix : "");
    return path;
}

static const char *base_of(const explain *e, const ap_directive_t *node)
{
    const char *base = NULL;

    for (node = explain_next(node, "RewriteBase"); node;
         node = explain_next(explain_step(node), "RewriteBase")) {
        const char *args = node->args ? node->args : "";

        base = ap_getword_conf(e->pool, &args);
    }
    return base && *base == '/' ? base : NULL;
}

/* One Options line; *follows: FollowSymLinks or SymLinksIfOwnerMatch is on. */
static void merge_links(const explain *e, const ap_directive_t *node, bool *follows)
{
    const char *args = node->args ? node->args : "", *word;
    bool said = *args != '+' && *args != '-', links = false;

    while (*(word = ap_getword_conf(e->pool, &args))) {
        const char *name = word + (*word == '+' || *word == '-');

        if (strcasecmp(name, "FollowSymLinks") && strcasecmp(name, "All") &&
            strcasecmp(name, "SymLinksIfOwnerMatch"))
            continue;
        links = *word != '-';
        said = true;
    }
    *follows = said ? links : *follows;
}

static void merge_all_links(const explain *e, const ap_directive_t *node, bool *follows,
                            const ap_directive_t **last)
{
    for (node = explain_next(node, "Options"); node;
         node = explain_next(explain_step(node), "Options")) {
        merge_links(e, node, follows);
        *last = node;
    }
}

/* mod_rewrite refuses all requests in a directory without. */
static void note_links(explain *e)
{
    const ap_directive_t *last = NULL;
    bool follows = true;

    merge_all_links(e, ap_conftree, &follows, &last);
    merge_all_links(e, e->host ? e->host->first_child : NULL, &follows, &last);
    for (int i = 0; i < e->contexts->nelts; i++)
        merge_all_links(e, APR_ARRAY_IDX(e->contexts, i, explain_context).first, &follows, &last);
    if (!follows)
        explain_note_unsure(e, "Options in %s: without FollowSymLinks mod_rewrite refuses here.",
                            explain_where(e, last));
}

static void note_section(explain *e, const explain_context *c)
{
    const ap_directive_t *rule = explain_next(c->first, "RewriteRule");

    if (rule)
        explain_note_unsure(
            e, "RewriteRules in a section that is not for one directory are not examined: %s.",
            explain_where(e, rule));
}

static void run_directory(explain *e, rewriting *w)
{
    explain_run run = {.directory = w->last->directory,
                       .base = base_of(e, w->last->first),
                       .filename = e->filename,
                       .path_info = e->path_info,
                       .args = e->query};
    const char *url;

    note_links(e);
    run_chain(e, w, &run);
    if (e->answered || e->stopped || !run.changed || !strcmp(run.filename, e->filename))
        return;
    url = url_of(e, &run);
    /* Without a slash behind a directory's name mod_dir comes first, which is noted. */
    if (!can_go_on(e, w, &run, url) || (e->to_directory && e->path[strlen(e->path) - 1] != '/'))
        return;
    e->next = url;
    e->next_by = run.last->node;
}

void explain_rewrite_directories(explain *e)
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
    if (!w.last || !w.on || e->rewrite_end)
        return;
    for (int i = 0; i < e->contexts->nelts; i++) {
        const explain_context *c = &APR_ARRAY_IDX(e->contexts, i, explain_context);

        if (!c->plain)
            note_section(e, c);
    }
    if (w.last->plain && e->file && begins_with(e->file, w.last->directory))
        run_directory(e, &w);
}
