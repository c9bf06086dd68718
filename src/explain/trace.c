/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What httpd logs of the request: mod_rewrite's trace becomes steps, with file and line; what
 * LogLevel lets through becomes the list of what httpd would have logged. Called by httpd for each
 * line that it logs for any request.
 */
#include "explain/internal.h"
#include "redirects/redirects.h"

/* --- text -------------------------------------------------------------------------------------*/

static int hex(char c)
{
    return apr_isdigit(c) ? c - '0' : apr_isxdigit(c) ? apr_tolower(c) - 'a' + 10 : -1;
}

/* As it was before ap_escape_errorlog_item(). */
static char *unescape(apr_pool_t *pool, const char *text)
{
    static const char names[] = "bnrtv", values[] = "\b\n\r\t\v";
    char *made = apr_palloc(pool, strlen(text) + 1), *to = made;

    for (; *text; text++) {
        const char *name;

        if (*text != '\\' || !text[1]) {
            *to++ = *text;
            continue;
        }
        name = strchr(names, *++text);
        if (*text == 'x' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
            *to++ = (char)(hex(text[1]) * 16 + hex(text[2]));
            text += 2;
        } else {
            *to++ = name ? values[name - names] : *text;
        }
    }
    *to = '\0';
    return made;
}

/* What stands between two texts; *behind: what follows. NULL: @a text is not like that. */
static char *between(apr_pool_t *pool, const char *text, const char *before, const char *after,
                     const char **behind)
{
    size_t len = strlen(before);
    const char *end = strncmp(text, before, len) ? NULL : strstr(text + len, after);

    if (!end)
        return NULL;
    *behind = end + strlen(after);
    return apr_pstrmemdup(pool, text + len, (apr_size_t)(end - text) - len);
}

/* --- mod_rewrite ------------------------------------------------------------------------------*/

/* A line of its trace, without who asked and when. */
typedef struct traced {
    const char *text;
    const char *directory; /* whose rules it is about; NULL: the server's, or not said */
} traced;

static bool read_traced(apr_pool_t *pool, const char *line, traced *t)
{
    const char *at = strstr(line, "][rid#"), *behind;

    at = at ? strstr(at, "] ") : NULL;
    if (!at)
        return false;
    at += 2;
    t->directory = between(pool, at, "[perdir ", "] ", &behind);
    t->text = t->directory ? behind : at;
    return true;
}

static void trace_rule(explain *e, const traced *t)
{
    const char *behind,
        *pattern = between(e->pool, t->text, "applying pattern '", "' to uri '", &behind);

    e->named = false;
    if (pattern)
        e->tried = explain_rule(explain_lines_of(e, t->directory), pattern);
}

static void trace_condition(explain *e, const traced *t)
{
    explain_lines *lines = explain_lines_of(e, t->directory);
    const char *behind, *pattern = strstr(t->text, "' pattern='");
    explain_where where;
    char *end;

    if (!pattern)
        return;
    pattern = apr_pstrdup(e->pool, pattern + strlen("' pattern='"));
    end = strstr(pattern, "' => ");
    end = end ? end : strstr(pattern, "' [NC] => ");
    if (!end)
        return;
    *end = '\0';
    behind = *pattern == '!' ? pattern + 1 : pattern;
    where = explain_condition(lines, behind);
    explain_step(e, "RewriteCond", where.file ? &where : &e->tried,
                 t->text + strlen("RewriteCond: "), NULL, NULL);
}

static void trace_applied(explain *e, const traced *t)
{
    e->applied = e->tried;
    explain_step(e, "RewriteRule", &e->applied, t->text, NULL, NULL);
}

/* Rules of several directories may have the same pattern. Where a table has named the rule, its
 * pattern is in none of these lines. */
static void trace_made(explain *e, const traced *t)
{
    const char *result = strstr(t->text, "' -> '");

    if (result && e->tried.file && !e->named)
        e->tried = explain_rule_made(explain_lines_of(e, t->directory), result + strlen("' -> '"));
    trace_applied(e, t);
}

/* The rule refuses, or redirects. */
static void trace_end(explain *e, const traced *t)
{
    e->ended = true;
    if (*t->text == 'f')
        trace_applied(e, t);
    else
        explain_step(e, "RewriteRule", &e->applied, t->text, NULL, NULL);
}

static void trace_redirect(explain *e, const traced *t)
{
    static const char begin[] = "internal redirect with ";
    const char *behind, *path = between(e->pool, t->text, begin, " [INTERNAL", &behind);

    if (path)
        explain_step(e, "RewriteRule", &e->applied, t->text, path, NULL);
}

static void trace_step(explain *e, const traced *t)
{
    if (!strstr(t->text, HTC_FOLD_MAP) && !strstr(t->text, "'\001htcache"))
        explain_step(e, "RewriteRule", &e->tried, t->text, NULL, NULL);
}

/* A table answers in the place of rules, and names the one. */
static void trace_folded(explain *e, const traced *t)
{
    const char *in = strstr(t->text, " in "), *line = in ? strstr(in, " line ") : NULL;

    if (!line)
        return;
    e->tried.file = apr_pstrmemdup(e->pool, in + 4, (apr_size_t)(line - in) - 4);
    e->tried.line = (unsigned)strtoul(line + 6, NULL, 10);
    e->named = true;
}

static void trace_begin(explain *e, const traced *t)
{
    explain_rules_begin(explain_lines_of(e, t->directory));
}

/* What its lines begin with, and what is made of them; all others say nothing new. */
static const struct {
    const char *begin;
    void (*hear)(explain *e, const traced *t);
} kinds[] = {
    {"init rewrite engine", trace_begin},
    {"applying pattern ", trace_rule},
    {"RewriteCond: ", trace_condition},
    {"rewrite '", trace_made},
    {"forcing responsecode ", trace_end},
    {"internal redirect with ", trace_redirect},
    {"redirect to ", trace_end},
    {"go-ahead with proxy request", trace_step},
    {"forcing proxy-throughput", trace_step},
    {"initial URL equal rewritten", trace_step},
    {"map lookup ", trace_step},
    {"cache lookup ", trace_step},
    {"SQL map lookup ", trace_step},
    {"setting env variable ", trace_step},
    {"setting cookie ", trace_step},
    {"folded: ", trace_folded},
};

static void hear_rewrite(explain *e, const char *line)
{
    traced t;

    if (!read_traced(e->pool, line, &t))
        return;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!strncmp(t.text, kinds[i].begin, strlen(kinds[i].begin)))
            kinds[i].hear(e, &t);
    }
}

/* --- all --------------------------------------------------------------------------------------*/

static const char *name_of(int level)
{
    static const char *const names[] = {"emerg", "alert",  "crit", "error",
                                        "warn",  "notice", "info", "debug"};

    return level >= 0 && level < (int)(sizeof(names) / sizeof(names[0])) ? names[level] : "trace";
}

static void list_line(explain *e, const ap_errorlog_info *info, const char *text)
{
    if (htc_list_rows(e->log) == EXPLAIN_MAX_LOG) {
        explain_note(e, "Only the first %d lines that httpd would have logged are shown.",
                     EXPLAIN_MAX_LOG);
        return;
    }
    htc_cell_text(e->log, name_of(info->level));
    htc_cell_text(e->log, ap_find_module_short_name(info->module_index));
    htc_cell_text(e->log, text);
}

static int level_of(const struct ap_logconf *log, int module)
{
    return module < 0 || !log->module_levels || log->module_levels[module] < 0
               ? log->level
               : log->module_levels[module];
}

void explain_hear(const ap_errorlog_info *info, const char *line)
{
    static const char rewrite[] = "rewrite";
    explain *e = info->r ? explain_of(info->r) : NULL;
    const char *text, *name;

    if (!e || e->mark.stopped) /* httpd goes on as if it was refused */
        return;
    text = unescape(e->pool, line);
    name = ap_find_module_short_name(info->module_index);
    if (name && !strcmp(name, rewrite) && info->level > APLOG_DEBUG)
        hear_rewrite(e, text);
    else if (info->level <= level_of(htc_explained_level(&e->mark, info->r), info->module_index))
        list_line(e, info, text);
}
