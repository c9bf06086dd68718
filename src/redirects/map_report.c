/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What the status page says of maps: those of the configuration, and those of .htaccess files that
 * were asked for. Loads leave a note of their outcome here, which all processes see.
 */
#include "redirects/map.h"

void htc_map_note(const htc_redirects *redirects, const htc_redirect_map *map, int64_t load_ms,
                  const redirect_report *report, const char *err)
{
    redirect_area_note note;

    redirect_area_note_get(redirects->area, map->slot, &note);
    apr_cpystrn(note.file, map->file, sizeof(note.file));
    apr_cpystrn(note.where, map->where ? map->where : "", sizeof(note.where));
    apr_cpystrn(note.error, err ? err : "", sizeof(note.error));
    note.htaccess = map->tree != NULL;
    note.rejected = !report;
    note.ended_at = htc_wall_ns();
    if (!err) {
        note.load_ms = (uint64_t)load_ms;
        note.refused = report->errors;
        note.warnings = report->warnings;
        note.out_of_budget_at = 0;
        note.from_image = 0;
    }
    redirect_area_note_set(redirects->area, map->slot, &note);
}

/* NULL: it is there already. */
static htc_map_report *add_report(htc_redirects *redirects, uint32_t slot,
                                  apr_array_header_t *reports)
{
    htc_map_report *report;
    htc_process_node *node;

    for (int i = 0; i < reports->nelts; i++) {
        if (APR_ARRAY_IDX(reports, i, htc_map_report).slot == slot)
            return NULL;
    }
    report = apr_array_push(reports);
    memset(report, 0, sizeof(*report));
    report->slot = slot;
    report->edits = (htc_edits_slots){REDIRECT_AREA_NIL, REDIRECT_AREA_NIL};
    redirect_area_state_get(redirects->area, slot, &report->state);
    redirect_area_note_get(redirects->area, slot, &report->note);
    node = htc_table_acquire(redirects, slot, HTC_IMAGE_TABLE);
    if (node) {
        report->info = ((const htc_table *)htc_process_cache_data(node))->info;
        htc_table_release(redirects, node);
    }
    return report;
}

/* Nobody has a list of these: each was given its name when it was loaded. */
static void add_htaccess_reports(htc_redirects *redirects, apr_array_header_t *reports,
                                 apr_pool_t *pool)
{
    uint32_t place = 0, slot;
    int added = 0;

    while (added < HTC_MAX_HTACCESS_REPORTS &&
           (slot = redirect_area_next(redirects->area, &place)) != REDIRECT_AREA_NIL) {
        redirect_area_note note;
        htc_map_report *report;

        if (!redirect_area_note_get(redirects->area, slot, &note) || !note.htaccess)
            continue;
        report = add_report(redirects, slot, reports);
        if (!report)
            continue;
        report->state.failed = htc_map_fails(&report->state, &note);
        report->name = apr_pstrdup(pool, note.file);
        report->source = apr_pstrdup(pool, note.where);
        added++;
    }
}

typedef bool is_wrong_fn(const redirect_area_state *state, const redirect_area_note *note);
typedef bool is_worse_fn(const redirect_area_note *note, const redirect_area_note *than);

/* Those with something wrong; *one: one of the worst. */
static unsigned wrong_in_htaccess(const server_rec *s, is_wrong_fn *is_wrong, is_worse_fn *is_worse,
                                  redirect_area_note *one)
{
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    uint32_t place = 0, slot;
    unsigned n = 0;

    while (redirects && redirects->tables &&
           (slot = redirect_area_next(redirects->area, &place)) != REDIRECT_AREA_NIL) {
        redirect_area_state state = {0};
        redirect_area_note note;

        redirect_area_state_get(redirects->area, slot, &state);
        if (!redirect_area_note_get(redirects->area, slot, &note) || !note.htaccess ||
            !is_wrong(&state, &note))
            continue;
        if (!n++ || is_worse(&note, one))
            *one = note;
    }
    return n;
}

static bool is_more_rejected(const redirect_area_note *note, const redirect_area_note *than)
{
    return note->rejected > than->rejected;
}

unsigned htc_map_failed_in_htaccess(const server_rec *s, redirect_area_note *one)
{
    return wrong_in_htaccess(s, htc_map_fails, is_more_rejected, one);
}

static bool lost_more(const redirect_area_note *note, const redirect_area_note *than)
{
    return note->refused > than->refused;
}

unsigned htc_map_rows_left_out_in_htaccess(const server_rec *s, redirect_area_note *one)
{
    return wrong_in_htaccess(s, htc_map_leaves_out, lost_more, one);
}

apr_array_header_t *htc_map_reports(const server_rec *s, apr_pool_t *pool)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    apr_array_header_t *reports;

    if (!redirects || !redirects->tables)
        return NULL;
    reports = apr_array_make(pool, 4, sizeof(htc_map_report));
    for (int i = 0; i < redirects->maps->nelts; i++) {
        const htc_redirect_map *map = APR_ARRAY_IDX(redirects->maps, i, htc_redirect_map *);
        htc_map_report *report =
            map->slot != REDIRECT_AREA_NIL ? add_report(redirects, map->slot, reports) : NULL;

        if (!report)
            continue;
        report->name = map->file;
        report->source = map->where;
        report->edits = map->edits;
        report->note.htaccess = 0;
        htc_map_edits_report(redirects, map, report->state.version, report);
    }
    add_htaccess_reports(redirects, reports, pool);
    return reports;
}
