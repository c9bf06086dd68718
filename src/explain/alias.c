/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which Redirect line answered where mod_alias runs the lines itself (HtCache or HtCacheFold Off),
 * which tells nobody. It is named if it is the only line that leads from this path to this answer.
 * Called by explain/lookup.c.
 */
#include "explain/internal.h"
#include "rules/rules.h"

typedef struct search {
    explain *e;
    const char *path, *location;
    int status, found;
    explain_where where;
} search;

/* What a target begins with, whatever groups it takes. */
static bool leads_there(const search *s, const redirect_plain *plain, bool regex)
{
    const char *end = regex ? memchr(plain->target, '$', plain->target_len) : NULL;
    size_t len = end ? (size_t)(end - plain->target) : plain->target_len;

    return memmem(s->location, strlen(s->location), plain->target, len) != NULL;
}

static bool matches(const search *s, const redirect_plain *plain, bool regex)
{
    const ap_regex_t *compiled;

    if (!regex)
        return htc_alias_prefix(s->path, plain->source, plain->source_len) > 0;
    compiled = ap_pregcomp(s->e->pool, apr_pstrmemdup(s->e->pool, plain->source, plain->source_len),
                           AP_REG_EXTENDED);
    return compiled && !ap_regexec(compiled, s->path, 0, NULL, 0);
}

static void look_at(void *baton, const explain_line *line)
{
    search *s = baton;
    int alias = redirect_config_alias(line->name);
    bool regex = alias == REDIRECT_CONFIG_MATCH;
    redirect_plain plain;

    if (alias < 0 || !redirect_config_plain(alias, line->args, &plain) ||
        plain.status != s->status || (plain.target != NULL) != (s->location != NULL) ||
        (plain.target && !leads_there(s, &plain, regex)) || !matches(s, &plain, regex))
        return;
    s->found++;
    s->where = line->where;
}

explain_where explain_redirect(explain *e, const request_rec *r, int status)
{
    search s = {.e = e, .path = r->uri, .status = status};

    if (ap_is_HTTP_REDIRECT(status))
        s.location = apr_table_get(r->headers_out, "Location");
    explain_each_line(e, NULL, look_at, &s);
    return s.found == 1 ? s.where : (explain_where){NULL, 0};
}
