/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A configuration or .htaccess file as text: finds its containers and says of each Redirect and
 * RewriteRule line whether it would be folded, with the same rules as the module
 * (redirects/fold_tree.c), which has the tree that httpd makes of it. Called by htcachectl check.
 */
#include "rules/rules.h"

#include "base/base.h"
#include "maps/maps.h"

#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>
#include <apr_tables.h>

#define SAYS(line, directive) (!strcasecmp((line)->name, (directive)))

typedef struct redirect_line_at {
    config_line line;
    int alias;
} redirect_line_at;

/* What stands directly in one container. */
typedef struct container {
    struct container *parent;
    struct container *lines_of;    /* whose lines its lines are: its own, or those around it */
    int server;                    /* its number in checker.hosts */
    bool in_dir, host_level;       /* host_level: of the server itself */
    bool limit, in_limit;          /* it is a <Limit>; it or one around it is */
    bool limited;                  /* rules stand in a <Limit> in it */
    bool foreign;                  /* a section that is left to httpd */
    bool inherits;                 /* RewriteOptions Inherit */
    apr_array_header_t *lines;     /* rewrite_line */
    apr_array_header_t *numbers;   /* uint32_t, of the RewriteRules */
    apr_array_header_t *redirects; /* redirect_line_at */
    rewrite_rule *rules;           /* once all lines have been read */
    size_t nrules;
} container;

typedef struct checker {
    config_reader reader;
    redirect_report_fn *report;
    void *baton;
    redirect_config_totals *totals;
    apr_pool_t *pool;
    container *inner;
    apr_array_header_t *containers; /* container * */
    apr_array_header_t *hosts;      /* redirect_config_host, the main server first */
    bool htaccess;
    bool regex_options;       /* RegexDefaultOptions */
    bool loads_later;         /* PerlLoadModule */
    bool all_dirs;            /* lines of directories are folded in all hosts */
    const char *rewrites_off; /* why no RewriteRule is folded; NULL: they are */
} checker;

/* --- reporting --------------------------------------------------------------------------------*/

static void count_reason(checker *c, const char *reason)
{
    apr_hash_t *reasons = c->totals->reasons;
    uint64_t *times = reasons ? apr_hash_get(reasons, reason, APR_HASH_KEY_STRING) : NULL;

    if (!reasons)
        return;
    if (!times) {
        times = apr_pcalloc(apr_hash_pool_get(reasons), sizeof(*times));
        apr_hash_set(reasons, reason, APR_HASH_KEY_STRING, times);
    }
    ++*times;
}

/* Printable: redirect_report_say() escapes what is not. */
static void say(checker *c, uint32_t line, const char *message)
{
    redirect_report report = {.fn = c->report, .baton = c->baton};

    redirect_report_say(&report, REDIRECT_NOTE, line, "%s", message);
}

/* --- containers -------------------------------------------------------------------------------*/

static void container_open(checker *c, const char *name)
{
    config_section section = config_section_of(name);
    container *made = apr_pcalloc(c->pool, sizeof(*made)), *around = c->inner;

    made->parent = around;
    made->lines_of = made;
    if (around) {
        made->in_dir = around->in_dir;
        made->server = around->server;
        made->foreign = around->foreign;
        made->in_limit = around->in_limit;
    }
    c->inner = made;
    if (around && section == CONFIG_SECTION_TRANSPARENT) {
        made->lines_of = around->lines_of;
        made->host_level = around->host_level;
        return;
    }
    if (section == CONFIG_SECTION_DIRECTORY)
        made->in_dir = true;
    made->limit = !strcasecmp(name, "<Limit") || !strcasecmp(name, "<LimitExcept");
    made->in_limit = made->in_limit || made->limit;
    made->host_level = !around || section == CONFIG_SECTION_HOST;
    made->foreign = made->foreign || (around && section == CONFIG_SECTION_OTHER && !made->limit &&
                                      strcasecmp(name, "<Macro"));
    if (made->host_level) {
        made->server = c->hosts->nelts;
        APR_ARRAY_PUSH(c->hosts, redirect_config_host) =
            (redirect_config_host){.cache = -1, .fold = -1};
    }
    made->lines = apr_array_make(c->pool, 16, sizeof(rewrite_line));
    made->numbers = apr_array_make(c->pool, 16, sizeof(uint32_t));
    made->redirects = apr_array_make(c->pool, 16, sizeof(redirect_line_at));
    APR_ARRAY_PUSH(c->containers, container *) = made;
}

/* --- reading ----------------------------------------------------------------------------------*/

/* Rules in <Limit> go on with those around it, which makes all of them stay. */
static void limit_those_around(const container *inner)
{
    for (const container *at = inner; at->limit && at->parent; at = at->parent->lines_of)
        at->parent->lines_of->limited = true;
}

static void take_rewrite(checker *c, const config_line *line, bool condition)
{
    container *to = c->inner->lines_of;

    APR_ARRAY_PUSH(to->lines, rewrite_line) = (rewrite_line){condition, line->args};
    if (!condition)
        APR_ARRAY_PUSH(to->numbers, uint32_t) = line->number;
    limit_those_around(to);
}

static redirect_config_host *host_of(const checker *c, const container *at)
{
    return &APR_ARRAY_IDX(c->hosts, at->server, redirect_config_host);
}

/* HtCache, HtCacheFold, HtCacheExclude. */
static void take_setting(checker *c, const config_line *line)
{
    const container *at = c->inner->lines_of;
    redirect_config_host *host = host_of(c, at);
    const char *args = line->args;
    bool on = !strcasecmp(config_word(c->pool, &args), "on");

    if (SAYS(line, "HtCacheExclude"))
        host->parts = true;
    else if (!at->host_level && !c->htaccess)
        host->parts = host->parts || !on;
    else if (at->host_level && SAYS(line, "HtCache"))
        host->cache = on;
    else if (at->host_level)
        host->fold = on;
}

static void take_line(checker *c, const config_line *line)
{
    int alias = redirect_config_alias(line->name);
    bool condition = SAYS(line, "RewriteCond");

    if (line->name[0] == '<' && line->name[1] == '/') {
        if (c->inner->parent)
            c->inner = c->inner->parent;
    } else if (line->name[0] == '<')
        container_open(c, line->name);
    else if (alias >= 0)
        APR_ARRAY_PUSH(c->inner->lines_of->redirects, redirect_line_at) =
            (redirect_line_at){*line, alias};
    else if (condition || SAYS(line, "RewriteRule"))
        take_rewrite(c, line, condition);
    else if (SAYS(line, "RewriteOptions") && redirect_config_inherits(line->args))
        c->inner->lines_of->inherits = true;
    else if (SAYS(line, "RegexDefaultOptions"))
        c->regex_options = true;
    else if (SAYS(line, "PerlLoadModule"))
        c->loads_later = true;
    else if (SAYS(line, "HtCache") || SAYS(line, "HtCacheFold") || SAYS(line, "HtCacheExclude"))
        take_setting(c, line);
}

/* --- what the whole text says -----------------------------------------------------------------*/

/* Redirect lines in sections outside of virtual hosts belong to all of these. */
static bool shares_redirects(const checker *c)
{
    for (int i = 0; i < c->containers->nelts; i++) {
        const container *at = APR_ARRAY_IDX(c->containers, i, container *);

        if (at->in_dir && at->redirects->nelts && !at->server)
            return true;
    }
    return false;
}

/* A text that does not say HtCache is judged as a part of a configuration that says On. */
static void plan_hosts(checker *c)
{
    redirect_config_host *hosts = (redirect_config_host *)c->hosts->elts;

    if (hosts[0].cache == -1)
        hosts[0].cache = 1;
    c->all_dirs =
        redirect_config_plan_hosts(hosts, (size_t)c->hosts->nelts, shares_redirects(c), false);
}

/* NULL: nothing keeps the container's lines from being folded. */
static const char *off_reason(const checker *c, const container *at)
{
    const redirect_config_host *host = host_of(c, at);
    bool main_server = !at->server;

    if (at->foreign)
        return "it stands in a section that is left to httpd";
    if (c->htaccess)
        return host->lines ? NULL : "HtCacheFold is Off in this file";
    if (c->loads_later)
        return "PerlLoadModule may load a module with directives of these names";
    if (at->in_dir && !(main_server ? c->all_dirs : host->dirs))
        return "HtCache, HtCacheFold or HtCacheExclude leaves a part of the server to httpd, and "
               "lines of directories are folded in all of a virtual host or nowhere in it";
    if (at->in_dir || host->lines)
        return NULL;
    return main_server ? "HtCache or HtCacheFold is Off for one of the servers"
                       : "HtCache or HtCacheFold is Off here";
}

static void read_rules(checker *c)
{
    for (int i = 0; i < c->containers->nelts; i++) {
        container *at = APR_ARRAY_IDX(c->containers, i, container *);
        size_t n = (size_t)at->lines->nelts;

        at->rules = apr_palloc(c->pool, (n + 1) * sizeof(*at->rules));
        at->nrules = redirect_config_rewrites((const rewrite_line *)at->lines->elts, n, at->in_dir,
                                              REDIRECT_REGEX_DEFAULT, at->rules, c->pool);
    }
}

/* Rules that end within a skip or a chain may count those of a context that inherits them. */
static const char *find_rewrites_off(const checker *c)
{
    if (c->regex_options)
        return "RegexDefaultOptions changes what patterns mean";
    for (int i = 0; i < c->containers->nelts && !c->htaccess; i++) {
        const container *at = APR_ARRAY_IDX(c->containers, i, container *);

        if (redirect_config_open_end(at->rules, at->nrules))
            return "the rules of a context end within a skip or a chain, which goes on where they "
                   "are inherited";
    }
    return NULL;
}

/* --- what becomes of the lines ----------------------------------------------------------------*/

static void check_redirects(checker *c, const container *at)
{
    const char *off = off_reason(c, at), *reason;

    for (int i = 0; i < at->redirects->nelts; i++) {
        const redirect_line_at *redirect = &APR_ARRAY_IDX(at->redirects, i, redirect_line_at);
        redirect_line kind = redirect_config_redirect(redirect->alias, redirect->line.args,
                                                      at->in_dir, c->pool, &reason);

        c->totals->redirects_seen++;
        if (kind == REDIRECT_LINE_FOLD && !off) {
            c->totals->redirects_folded++;
            continue;
        }
        reason = kind == REDIRECT_LINE_FOLD ? off : reason;
        count_reason(c, reason);
        say(c, redirect->line.number,
            apr_psprintf(c->pool, "%s stays with mod_alias: %s; %s", redirect->line.name, reason,
                         kind == REDIRECT_LINE_LEAVE   ? "httpd refuses it"
                         : kind == REDIRECT_LINE_FIRST ? "it answers each request that gets to it"
                                                       : "each request compares it"));
    }
}

/* What a rule that stays costs a request that does not match it. @a together: 0, or the number
 * of rules behind one guard. */
static const char *cost_of(const rewrite_rule *rule, bool filter, size_t together, apr_pool_t *pool)
{
    const char *called =
        filter ? "mod_rewrite is called only where the path may match one of the rules here, and "
               : "";

    if (together)
        return apr_psprintf(pool,
                            "%sa guard skips it, as one of %" APR_SIZE_T_FMT
                            " rules, where the path can match none of these",
                            called, together);
    return apr_pstrcat(pool, called,
                       rule->follows ? "it costs nothing unless the rule before it in its chain "
                                       "matches"
                       : rule->any && rule->conditions
                           ? "each request that gets to it costs one regular expression, and its "
                             "conditions where that matches"
                           : "each request that gets to it costs one regular expression",
                       NULL);
}

/* In a table or not, and if not, spared or not. */
static void report_rules(checker *c, const container *at, bool folding)
{
    const uint32_t *numbers = (const uint32_t *)at->numbers->elts;
    const rewrite_rule *rules = at->rules;
    bool filter =
        folding && !at->in_dir && !at->inherits && redirect_config_passable(rules, at->nrules);
    bool guarded = false;
    size_t run = 0, end = 0;

    for (size_t i = 0; i < at->nrules; i++) {
        const rewrite_rule *rule = &rules[i];

        c->totals->rewrite_rules_seen++;
        c->totals->conditional += rule->conditions;
        c->totals->rewrite_rules_folded += !rule->why;
        if (!rule->why)
            continue;
        if (i >= end && folding && !at->in_dir) {
            run = redirect_config_run(rules, at->nrules, i, &guarded);
            end = i + run;
        }
        if (filter || guarded) {
            c->totals->rewrite_rules_folded++;
            c->totals->filtered++;
        } else
            count_reason(c, rule->why);
        say(c, numbers[i],
            apr_psprintf(c->pool, "RewriteRule %s stays as it is: %s; %s", rule->pattern, rule->why,
                         cost_of(rule, filter, guarded ? run : 0, c->pool)));
    }
}

static const char *rules_off_reason(const checker *c, const container *at)
{
    const char *off = off_reason(c, at);

    if (off || c->rewrites_off)
        return off ? off : c->rewrites_off;
    if (at->in_limit || at->limited)
        return "rules stand in <Limit> here";
    return at->in_dir && at->inherits
               ? "RewriteOptions Inherit puts rules of other contexts beside those here"
               : NULL;
}

static void check_rules(checker *c, const container *at)
{
    const char *off = rules_off_reason(c, at);

    for (size_t i = 0; i < at->nrules && off; i++)
        at->rules[i].why = off;
    report_rules(c, at, !off);
}

void redirect_config_check(const char *bytes, size_t len, bool htaccess, redirect_report_fn *report,
                           void *baton, redirect_config_totals *totals, apr_pool_t *pool)
{
    checker c = {.reader = {.at = bytes, .end = bytes + len, .pool = pool},
                 .report = report,
                 .baton = baton,
                 .totals = totals,
                 .pool = pool,
                 .htaccess = htaccess,
                 .containers = apr_array_make(pool, 16, sizeof(container *)),
                 .hosts = apr_array_make(pool, 4, sizeof(redirect_config_host))};
    config_line line;

    container_open(&c, "");
    c.inner->in_dir = htaccess;
    while (config_next_line(&c.reader, &line))
        take_line(&c, &line);
    plan_hosts(&c);
    read_rules(&c);
    c.rewrites_off = find_rewrites_off(&c);
    for (int i = 0; i < c.containers->nelts; i++) {
        const container *at = APR_ARRAY_IDX(c.containers, i, container *);

        check_redirects(&c, at);
        check_rules(&c, at);
    }
}
