/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * GET ?map=NAME&rows=json: the rows of a redirect map as they answer now, a JSON object on each line,
 * and how each differs from the map's file. Called by the handler in status/status.c.
 */
#include "base/base.h"
#include "redirects/redirects.h"
#include "status/status.h"

#include "http_protocol.h"

#define ROWS_LIMIT 1000

typedef struct sending {
    request_rec *r;
    const htc_map_question *question;
    apr_pool_t *scratch;
    uint32_t left;
} sending;

static bool send_row(void *baton, const redirect_rule *rule, redirect_differs differs)
{
    static const char *const words[] = {[REDIRECT_ROW_ADDED] = "added",
                                        [REDIRECT_ROW_CHANGED] = "changed",
                                        [REDIRECT_ROW_DELETED] = "deleted"};
    sending *s = baton;
    apr_pool_t *pool = s->scratch;
    redirect_row_words row;

    redirect_edits_words(s->question->edits, rule, pool, &row);
    ap_rprintf(s->r, "{\"source\": %s, \"target\": %s, \"status\": %d, \"options\": %s",
               htc_escape_json(pool, row.source),
               row.target ? htc_escape_json(pool, row.target) : "null", rule->status,
               htc_escape_json(pool, row.options));
    if (rule->line)
        ap_rprintf(s->r, ", \"line\": %u", redirect_line_number(rule->line));
    if (differs != REDIRECT_SAME)
        ap_rprintf(s->r, ", \"differs\": \"%s\"", words[differs]);
    ap_rputs("}\n", s->r);
    apr_pool_clear(pool);
    return --s->left > 0 && !s->r->connection->aborted;
}

/* False: it is no number up to @a most. */
static bool number_of(const char *text, uint64_t most, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = apr_isdigit(*text) ? (uint64_t)apr_strtoi64(text, &end, 10) : 0;
    return apr_isdigit(*text) && !errno && !*end && *number <= most;
}

static const char *read_query(request_rec *r, htc_map_question *question, uint64_t *limit)
{
    char *args = apr_pstrdup(r->pool, r->args), *last, *pair;
    bool rows = false;

    for (pair = apr_strtok(args, "&", &last); pair; pair = apr_strtok(NULL, "&", &last)) {
        char *value = strchr(pair, '=');

        if (!value || ap_unescape_urlencoded(value + 1) != OK)
            return "a parameter cannot be decoded";
        *value++ = '\0';
        if (!strcmp(pair, "map") && question->map)
            return HTC_TWO_MAPS;
        if (!strcmp(pair, "map"))
            question->map = value;
        else if (!strcmp(pair, "source"))
            question->source = value;
        else if (!strcmp(pair, "rows"))
            rows = !strcmp(value, "json");
        else if (!strcmp(pair, "differs"))
            question->differing = !strcmp(value, "1");
        else if (!(!strcmp(pair, "from") && number_of(value, UINT32_MAX, &question->from)) &&
                 !(!strcmp(pair, "limit") && number_of(value, HTC_ROWS_MAX_LIMIT, limit) && *limit))
            return "the parameters are map=, rows=json, source=, differs=1, from= and limit=";
    }
    return !question->map ? "map= is missing" : rows ? NULL : "rows= is json";
}

bool htc_status_asks_rows(const request_rec *r)
{
    const char *at = r->args ? strstr(r->args, "rows=") : NULL;

    return at && (at == r->args || at[-1] == '&');
}

int htc_status_rows(request_rec *r)
{
    htc_map_question question = {.fn = send_row};
    sending s = {.r = r, .question = &question};
    uint64_t limit = ROWS_LIMIT;
    const char *why = read_query(r, &question, &limit);
    int status = HTTP_BAD_REQUEST;

    s.left = (uint32_t)limit;
    apr_pool_create(&s.scratch, r->pool);
    question.baton = &s;
    ap_set_content_type(r, "application/x-ndjson");
    if (!why) {
        status = htc_map_rows(r, &question);
        why = question.why;
    }
    if (status != HTTP_OK) {
        r->status = status;
        ap_set_content_type(r, "text/plain; charset=UTF-8");
        ap_rprintf(r, "%s\n", why);
    }
    return OK;
}
