/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a request says to the conditions of rows, and Vary. Called by redirects/map.c for maps that
 * have rows with conditions. What was looked at is said in whatever answers: Vary stands both in the
 * headers of a page and in those that redirects and error pages keep; httpd makes one field of them.
 * A subrequest has headers of its own, which go along if its page is what is sent. If it is not, what
 * was looked at is the reason, too: DirectoryIndex and MultiViews go on with another file.
 */
#include "redirects/map.h"
#include "redirects/notes.h"

#define EXPLAINED_BY "HtCacheRedirectMap"

static const char *field_of(void *baton, const char *name)
{
    return apr_table_get(((const request_rec *)baton)->headers_in, name);
}

/* httpd gives variables another name when it redirects internally. */
static const char *country_of(const request_rec *r, const char *name)
{
    const char *country = apr_table_get(r->subprocess_env, name);

    if (!country && r->prev)
        country = apr_table_get(r->subprocess_env, apr_pstrcat(r->pool, "REDIRECT_", name, NULL));
    return country;
}

void htc_map_conditions(redirect_request *asked, request_rec *r, const htc_redirect_map *map)
{
    const char *from =
        map->options.country_from ? map->options.country_from : REDIRECT_COUNTRY_FROM;
    redirect_conditions *c = apr_palloc(r->pool, sizeof(*c));

    redirect_conditions_begin(c, r->pool, field_of, r);
    c->method = r->method;
    c->query = r->args;
    c->country = country_of(r, from);
    c->tells = htc_explained_of(r) != NULL;
    asked->judge = &c->judge;
}

/* Each name that is not there yet, all at once: each merge copies what was there. ap_find_token() takes
 * Accept for Accept-Language, too. */
static void add_vary(request_rec *r, apr_table_t *headers, const apr_array_header_t *names)
{
    const char *there = apr_table_get(headers, "Vary");
    apr_array_header_t *missing = apr_array_make(r->pool, names->nelts, sizeof(const char *));

    for (int i = 0; i < names->nelts; i++) {
        const char *name = APR_ARRAY_IDX(names, i, const char *);

        if (!there || !ap_find_list_item(r->pool, there, name))
            APR_ARRAY_PUSH(missing, const char *) = name;
    }
    if (missing->nelts)
        apr_table_mergen(headers, "Vary", apr_array_pstrcat(r->pool, missing, ','));
}

/* What came of each row's conditions, and what Vary has of it. */
static void explain_conditions(request_rec *r, const htc_redirect_map *map,
                               const redirect_conditions *c)
{
    htc_explained *e = htc_explained_of(r);
    char *room = apr_palloc(r->pool, REDIRECT_RULE_ROOM);
    const char *vary = redirect_conditions_vary(c, r->pool);

    for (int i = 0; c->told && i < c->told->nelts; i++) {
        const redirect_told_condition *one = &APR_ARRAY_IDX(c->told, i, redirect_told_condition);
        redirect_rule rule;

        redirect_table_rule(one->table, one->rule, &rule, room, NULL);
        e->step(e, EXPLAINED_BY, map->file, redirect_line_number(rule.line),
                apr_psprintf(r->pool, "the row with %d%s%.*s: %s", rule.status,
                             rule.target ? " to " : "", rule.target ? (int)rule.target_len : 0,
                             rule.target ? rule.target : "", one->text));
    }
    if (c->not_acceptable)
        e->step(e, EXPLAINED_BY, map->file, 0, "no row is acceptable: the answer is 406");
    if (vary)
        e->step(e, EXPLAINED_BY, map->file, 0,
                apr_psprintf(r->pool, "the answer has Vary: %s", vary));
}

bool htc_map_looked(request_rec *r, const htc_redirect_map *map, const redirect_judge *judge,
                    bool given_up)
{
    const redirect_conditions *c = (const redirect_conditions *)(const void *)judge;

    for (request_rec *of = r; c->vary && of; of = of->main) {
        add_vary(of, of->headers_out, c->vary);
        add_vary(of, of->err_headers_out, c->vary);
    }
    if (c->tells)
        explain_conditions(r, map, c);
    if (!c->not_acceptable || given_up)
        return false;
    ap_log_rerror(APLOG_MARK, APLOG_INFO, 0, r,
                  "HtCacheRedirectMap: %s: none of the rows for '%s' is acceptable by the "
                  "request's Accept and Accept-Language",
                  map->file, r->uri);
    return true;
}
