/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The lines that may hold for the request, and which of them httpd speaks of. mod_rewrite's trace
 * names the patterns of RewriteRules and RewriteConds in the order in which it comes to them. So
 * they are looked for in the lines that may hold there, each one from the one before on. Called by
 * explain/trace.c and explain/alias.c.
 */
#include "explain/internal.h"
#include "rules/rules.h"

typedef struct rewrite_text {
    const char *pattern, *target; /* target: of a rule */
    explain_where where;
    bool condition;
} rewrite_text;

struct explain_lines {
    const char *directory;     /* NULL: the server */
    apr_array_header_t *texts; /* rewrite_text */
    int rule;                  /* that was tried last; -1: none */
    int condition;             /* behind the one that was tested last */
};

/* --- reading ----------------------------------------------------------------------------------*/

static bool is_section(const ap_directive_t *node)
{
    static const char *const names[] = {
        "<Directory", "<DirectoryMatch", "<Location",   "<LocationMatch",
        "<Files",     "<FilesMatch",     "<If",         "<ElseIf",
        "<Else",      "<Limit",          "<LimitExcept"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcasecmp(node->directive, names[i]))
            return true;
    }
    return false;
}

/* The directory of a section, as mod_rewrite's trace names it; else @a around. */
static const char *directory_of(apr_pool_t *pool, const ap_directive_t *node, const char *around)
{
    const char *args = node->args ? config_section_args(pool, node->args) : "", *name;

    if (strcasecmp(node->directive, "<Directory"))
        return around;
    name = ap_getword_conf(pool, &args);
    return *name && name[strlen(name) - 1] == '/' ? name : apr_pstrcat(pool, name, "/", NULL);
}

/* @a around: what stands around the nodes; its name and args are of no use. */
static void each_node(const explain *e, const ap_directive_t *node, const explain_line *around,
                      explain_line_fn *fn, void *baton)
{
    for (; node; node = node->next) {
        explain_line line = {node->directive,   node->args ? node->args : "",
                             around->inside,    false,
                             around->directory, {node->filename, (unsigned)node->line_num}};

        if (!strcasecmp(node->directive, "<VirtualHost"))
            continue;
        if (!node->first_child) {
            fn(baton, &line);
            continue;
        }
        line.inside = around->inside || is_section(node);
        line.directory = directory_of(e->pool, node, around->directory);
        each_node(e, node->first_child, &line, fn, baton);
    }
}

static void each_of_file(const explain *e, const htc_met *met, explain_line_fn *fn, void *baton)
{
    char *text = apr_palloc(e->pool, HUGE_STRING_LEN);
    ap_configfile_t *file;

    if (ap_pcfg_openfile(&file, e->pool, met->path) != APR_SUCCESS)
        return;
    while (ap_cfg_getline(text, HUGE_STRING_LEN, file) == APR_SUCCESS) {
        const char *args = text, *name = ap_getword_conf(e->pool, &args);
        const explain_line line = {name, args,     true,
                                   true, met->dir, {met->path, file->line_number}};

        fn(baton, &line);
    }
    ap_cfg_closefile(file);
}

void explain_each_line(const explain *e, const char *directory, explain_line_fn *fn, void *baton)
{
    static const explain_line outside = {.inside = false};
    const server_rec *s = e->mark.server;

    for (int i = e->mark.met->nelts - 1; i >= 0; i--) {
        const htc_met *met = &APR_ARRAY_IDX(e->mark.met, i, htc_met);

        if (!directory || *directory != '/' || !strncmp(met->dir, directory, strlen(met->dir)))
            each_of_file(e, met, fn, baton);
    }
    for (const ap_directive_t *node = ap_conftree; node && s->is_virtual; node = node->next) {
        if (!strcasecmp(node->directive, "<VirtualHost") && s->defn_name &&
            node->line_num == (int)s->defn_line_number && !strcmp(node->filename, s->defn_name))
            each_node(e, node->first_child, &outside, fn, baton);
    }
    each_node(e, ap_conftree, &outside, fn, baton);
}

/* --- mod_rewrite's ----------------------------------------------------------------------------*/

typedef struct reading {
    explain *e;
    explain_lines *lines;
    bool own; /* those of the directory itself; else all others */
} reading;

static bool is_own(const explain_lines *lines, const explain_line *line)
{
    return lines->directory && line->directory && !strcmp(lines->directory, line->directory);
}

static void add(void *baton, const explain_line *line)
{
    const reading *reading = baton;
    apr_pool_t *pool = reading->e->pool;
    bool condition = !strcasecmp(line->name, "RewriteCond"), closed;
    const char *args = line->args, *pattern;

    if ((!condition && strcasecmp(line->name, "RewriteRule")) ||
        line->inside != (reading->lines->directory != NULL) ||
        is_own(reading->lines, line) != reading->own)
        return;
    if (condition)
        redirect_config_word(pool, &args, &closed);
    pattern = redirect_config_word(pool, &args, &closed);
    APR_ARRAY_PUSH(reading->lines->texts, rewrite_text) =
        (rewrite_text){*pattern == '!' ? pattern + 1 : pattern,
                       redirect_config_word(pool, &args, &closed), line->where, condition};
}

/* The lines of the directory itself come first, as those of others hold only where they are
 * inherited. */
explain_lines *explain_lines_of(explain *e, const char *directory)
{
    explain_lines *lines;

    for (int i = 0; i < e->lines->nelts; i++) {
        lines = APR_ARRAY_IDX(e->lines, i, explain_lines *);
        if (!lines->directory ? !directory : directory && !strcmp(lines->directory, directory))
            return lines;
    }
    lines = apr_pcalloc(e->pool, sizeof(*lines));
    lines->directory = directory ? apr_pstrdup(e->pool, directory) : NULL;
    lines->texts = apr_array_make(e->pool, 32, sizeof(rewrite_text));
    lines->rule = -1;
    for (int own = 1; own >= 0; own--)
        explain_each_line(e, directory ? directory : "", add, &(reading){e, lines, own});
    return APR_ARRAY_PUSH(e->lines, explain_lines *) = lines;
}

/* --- finding ----------------------------------------------------------------------------------*/

static const rewrite_text *text_at(const explain_lines *lines, int i)
{
    return &APR_ARRAY_IDX(lines->texts, i, const rewrite_text);
}

void explain_rules_begin(explain_lines *lines)
{
    lines->rule = -1;
    lines->condition = 0;
}

static explain_where set_rule(explain_lines *lines, int i)
{
    lines->rule = i;
    for (lines->condition = i; lines->condition > 0; lines->condition--) {
        if (!text_at(lines, lines->condition - 1)->condition)
            break;
    }
    return text_at(lines, i)->where;
}

static bool is_rule(const explain_lines *lines, int i, const char *pattern)
{
    const rewrite_text *text = text_at(lines, i);

    return !text->condition && !strcmp(text->pattern, pattern);
}

/* Rules begin again from the first one, for another path or by N. */
explain_where explain_rule(explain_lines *lines, const char *pattern)
{
    int n = lines->texts->nelts;

    for (int k = 1; k <= n; k++) {
        int i = (lines->rule + k) % n;

        if (is_rule(lines, i, pattern))
            return set_rule(lines, i);
    }
    return (explain_where){NULL, 0};
}

/* As far as the target stands there as it is. */
static bool makes(const explain_lines *lines, int i, const char *result)
{
    const char *target = text_at(lines, i)->target;

    return !strncmp(target, result, strcspn(target, "$%\\?"));
}

explain_where explain_rule_made(explain_lines *lines, const char *result)
{
    int n = lines->texts->nelts;

    for (int k = 0; lines->rule >= 0 && k < n; k++) {
        int i = (lines->rule + k) % n;

        if (is_rule(lines, i, text_at(lines, lines->rule)->pattern) && makes(lines, i, result))
            return set_rule(lines, i);
    }
    return lines->rule >= 0 ? text_at(lines, lines->rule)->where : (explain_where){NULL, 0};
}

explain_where explain_condition(explain_lines *lines, const char *pattern)
{
    for (int i = lines->condition; lines->rule >= 0 && i < lines->rule; i++) {
        const rewrite_text *text = text_at(lines, i);

        if (!text->condition || strcmp(text->pattern, pattern) != 0)
            continue;
        lines->condition = i + 1;
        return text->where;
    }
    return (explain_where){NULL, 0};
}
