/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * POST to the status page with X-HtCache: map-edit: rows of a redirect map. The query names the map,
 * the body has an edit on each line. Called by status/admin.c; redirects/map_edit.c does it.
 */
#include "base/base.h"
#include "redirects/redirects.h"
#include "status/status.h"

#include "http_protocol.h"

#define READ_BYTES 65536

/* map=NAME and perhaps temporary=1. NULL, or what is wrong. */
static const char *read_query(request_rec *r, htc_map_edit *edit)
{
    char *args = apr_pstrdup(r->pool, r->args ? r->args : ""), *last, *pair;

    for (pair = apr_strtok(args, "&", &last); pair; pair = apr_strtok(NULL, "&", &last)) {
        char *value = strchr(pair, '=');

        if (!value)
            return "the parameters are map= and temporary=1";
        *value++ = '\0';
        if (ap_unescape_urlencoded(value) != OK)
            return "a parameter cannot be decoded";
        if (!strcmp(pair, "map") && edit->map)
            return HTC_TWO_MAPS;
        if (!strcmp(pair, "map") && *value)
            edit->map = value;
        else if (!strcmp(pair, "temporary") && !strcmp(value, "1"))
            edit->temporary = true;
        else
            return "the parameters are map= and temporary=1";
    }
    return edit->map ? NULL : "map= is missing: the file of the map, or the last part of its name";
}

/* OK, or a status. */
static int read_body(request_rec *r, htc_map_edit *edit)
{
    apr_array_header_t *parts = apr_array_make(r->pool, READ_BYTES, 1);
    char *chunk = apr_palloc(r->pool, READ_BYTES);
    int rv = ap_setup_client_block(r, REQUEST_CHUNKED_DECHUNK);
    long n = 0;

    if (rv != OK)
        return rv;
    if (!ap_should_client_block(r))
        return OK;
    if (r->remaining > (apr_off_t)REDIRECT_EDIT_BYTES)
        return HTTP_REQUEST_ENTITY_TOO_LARGE;
    while ((n = ap_get_client_block(r, chunk, READ_BYTES)) > 0) {
        if ((size_t)parts->nelts + (size_t)n > REDIRECT_EDIT_BYTES)
            return HTTP_REQUEST_ENTITY_TOO_LARGE;
        for (long left = n; left > 0;) { /* twice as much room each time */
            int at = parts->nelts, room = parts->nalloc - at;

            if (!room) {
                apr_array_push(parts);
                parts->nelts--;
                continue;
            }
            room = left < room ? (int)left : room;
            memcpy(parts->elts + at, chunk + (n - left), (size_t)room);
            parts->nelts += room;
            left -= room;
        }
    }
    edit->text = parts->elts;
    edit->len = (size_t)parts->nelts;
    return n < 0 ? HTTP_BAD_REQUEST : OK;
}

static int send_refusal(request_rec *r, int status, const char *why)
{
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "HtCache: POST to the status page refused: %s", why);
    r->status = status;
    if (status == HTTP_SERVICE_UNAVAILABLE)
        apr_table_setn(r->err_headers_out, "Retry-After", "1");
    ap_set_content_type(r, "text/plain; charset=UTF-8");
    ap_rprintf(r, "%s\n", why);
    return OK;
}

static int send_done(request_rec *r, const htc_map_edit *edit)
{
    ap_log_rerror(APLOG_MARK, APLOG_NOTICE, 0, r,
                  "HtCache: %u edit%s of %s, asked for through the status page%s", edit->applied,
                  edit->applied == 1 ? "" : "s", edit->file,
                  edit->temporary ? ", until its file is loaded" : ", written to it");
    ap_set_content_type(r, "application/json");
    ap_rprintf(r,
               "{\n  \"version\": \"%s\",\n  \"done\": {\"action\": \"map-edit\", \"map\": %s, "
               "\"temporary\": %s, \"edits\": %u, \"differing\": %u, \"ended\": %u, "
               "\"warnings\": [",
               HTC_VERSION, htc_escape_json(r->pool, edit->file),
               edit->temporary ? "true" : "false", edit->applied, edit->differing, edit->ended);
    for (int i = 0; i < edit->warnings->nelts; i++)
        ap_rprintf(r, "%s\n    %s", i ? "," : "",
                   htc_escape_json(r->pool, APR_ARRAY_IDX(edit->warnings, i, const char *)));
    ap_rputs("]}\n}\n", r);
    return OK;
}

int htc_status_edit(request_rec *r)
{
    htc_map_edit edit = {.text = ""};
    const char *wrong = read_query(r, &edit);
    int status;

    if (wrong)
        return send_refusal(r, HTTP_BAD_REQUEST, wrong);
    status = read_body(r, &edit);
    if (status == HTTP_REQUEST_ENTITY_TOO_LARGE)
        return send_refusal(r, status, "the edits of one request may have 16 MiB");
    if (status != OK)
        return status;
    status = htc_map_edit_apply(r, &edit);
    return status == HTTP_OK ? send_done(r, &edit) : send_refusal(r, status, edit.why);
}
