/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Holds a converted file against its origin, look-up by look-up. Called by htcachectl convert and
 * by unit tests.
 */
#include "tool/verify.h"

#include "tool/convert_internal.h"
#include "tool/probe.h"

#include <apr_strings.h>
#include <string.h>

typedef struct verifier {
    convert_list *list;
    probe_table from, to;
    bool good;
} verifier;

/* True: they agree, or it is known that they cannot. */
static bool agree(void *baton, const convert_rule *r, const redirect_request *request,
                  apr_pool_t *pool)
{
    verifier *v = baton;
    probe_answer was = probe_ask(&v->from, request, pool), is = probe_ask(&v->to, request, pool);

    if (probe_same(&was, &is))
        return true;
    if (was.index >= 0 && (APR_ARRAY_IDX(v->list->rules, was.index, convert_rule).lost ||
                           APR_ARRAY_IDX(v->list->rules, was.index, convert_rule).unread))
        return true;
    if (was.index >= 0) /* this is the one that something else answers for */
        r = &APR_ARRAY_IDX(v->list->rules, was.index, convert_rule);
    convert_lost(v->list, r, "after conversion '%s' is answered with '%s' instead of '%s'",
                 probe_url(request, pool), probe_text(&is, pool), probe_text(&was, pool));
    v->good = false;
    return false;
}

/* RewriteRules redirect no request that DirectoryIndex makes for a directory; maps do. */
static void check_index(const verifier *v, const char *base)
{
    const char *index = apr_pstrcat(v->list->pool, base, "index.html", NULL);
    redirect_request of_base = {.path = base, .path_len = strlen(base)};
    redirect_request of_index = {.path = index, .path_len = strlen(index)};
    probe_answer was = probe_ask(&v->to, &of_base, v->list->pool);
    probe_answer is = probe_ask(&v->to, &of_index, v->list->pool);

    if (was.index < 0 && is.index >= 0)
        convert_report(v->list, REDIRECT_ERROR, "converted", 0,
                       "a map answers '%s' as '%s', which DirectoryIndex tries; RewriteRules do "
                       "not. Set 'DirectoryIndex disabled' there, or add a row for '%s'",
                       base, index, base);
}

static void check_indexes(const verifier *v)
{
    const char *last = NULL;

    for (int i = 0; i < v->list->rules->nelts; i++) {
        const char *base = APR_ARRAY_IDX(v->list->rules, i, convert_rule).base;

        if (base && base != last)
            check_index(v, base);
        last = base ? base : last;
    }
}

static void quiet(void *baton, redirect_severity severity, const char *file, uint32_t line,
                  const char *message)
{
    (void)baton, (void)severity, (void)file, (void)line, (void)message;
}

static bool read_again(convert_list *to, convert_format format, const redirect_map_options *options,
                       const char *text, size_t len)
{
    redirect_map_options as = *options;
    convert_place place = {.htaccess = false};

    if (format == CONVERT_HTTPD) {
        convert_read_config(to, &place, "converted", text, len);
        return true;
    }
    as.format = convert_reader_of(format);
    return convert_read_map(to, &as, "converted", text, len) == APR_SUCCESS;
}

bool tool_verify(convert_list *list, convert_format format, const redirect_map_options *options,
                 bool keep_runs, const char *text, size_t len)
{
    convert_list *to = convert_list_create(list->pool, quiet, NULL);
    verifier v = {.list = list, .good = true};

    if (!read_again(to, format, options, text, len) || !probe_open(&v.from, list) ||
        !probe_open(&v.to, to)) {
        convert_report(list, REDIRECT_ERROR, "converted", 0,
                       "what was written cannot be read again");
        v.good = false;
    } else {
        probe_rules(list, NULL, keep_runs, agree, &v);
        if (format != CONVERT_HTTPD)
            check_indexes(&v);
    }
    convert_report_losses(list);
    if (v.to.table &&
        (map_regexes_out_of_budget(v.from.regexes) || map_regexes_out_of_budget(v.to.regexes))) {
        convert_report(list, REDIRECT_ERROR, "converted", 0,
                       "patterns take too long to compare all of what was written");
        v.good = false;
    }
    probe_close(&v.from);
    probe_close(&v.to);
    return v.good;
}
