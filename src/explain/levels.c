/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The directories in which httpd looked for a .htaccess file, and what the cache has of each: its
 * record, read from shared memory, and the directives in it. Called by explain/explain.c.
 */
#include "explain/internal.h"
#include "htaccess/htaccess.h"

/* What is known of one level's file. */
typedef struct found {
    const char *directory; /* ends with '/' */
    const char *file;      /* that was found, or looked for first */
    const char *override;  /* AllowOverride; NULL: not known */
    const char *record;    /* as docs/explain.md has it */
    const char *reason;
    int64_t age_ms; /* -1: there is no record */
    bool racy;
    const char *freshness, *fresh_reason; /* as docs/explain.md has it */
    unsigned directives, redirects, rewrite_rules, maps;
} found;

static void count_directive(found *f, const htc_directive *directive)
{
    f->directives++;
    f->redirects += !strncasecmp(directive->name, "Redirect", 8);
    f->rewrite_rules += !strcasecmp(directive->name, "RewriteRule");
    f->maps += !strcasecmp(directive->name, "HtCacheRedirectMap");
}

/* The first directive that keeps the parsed file from being kept, and why. */
static void judge(const explain *e, found *f, const htc_directive *directive)
{
    if (!f->reason)
        f->reason = htc_command_replayed(e->report->ctx, directive, e->pool);
}

static void read_tree(const explain *e, found *f, const htc_info *info)
{
    htc_directive directive;
    size_t offset = 0, len;
    char *payload;

    if (htc_store_copy(e->report->store, info->ref, e->pool, &payload, &len) != APR_SUCCESS ||
        htc_record_validate(payload, len) != APR_SUCCESS)
        return;
    while (htc_record_next(payload, &offset, &directive)) {
        count_directive(f, &directive);
        if (info->flags & HTC_RF_REPLAY)
            judge(e, f, &directive);
    }
}

static void read_reason(const explain *e, found *f, const htc_info *info)
{
    char *reason;
    size_t len;

    if (htc_store_copy(e->report->store, info->ref, e->pool, &reason, &len) == APR_SUCCESS)
        f->reason = reason;
}

/* How a change of the file is noticed, and the time since when it is not known. */
static void judge_freshness(const explain *e, found *f, const htc_info *info)
{
    htc_fresh_entry fresh;

    htc_fresh_judge(e->report->ctx, e->mark.server, f->directory, info, &fresh);
    f->age_ms = fresh.age_ms < 0 ? 0 : fresh.age_ms;
    f->racy = (info->flags & HTC_RF_RACY) != 0;
    f->freshness = htc_fresh_mode_name(fresh.mode);
    if (fresh.reason != HTC_FRESH_NO_REASON)
        f->fresh_reason = htc_fresh_reason_text(fresh.reason);
}

static void describe(const explain *e, found *f, const htc_info *info)
{
    judge_freshness(e, f, info);
    switch (info->kind) {
    case HTC_KIND_ABSENT:
        f->record = "absent";
        break;
    case HTC_KIND_TREE:
        f->record = (info->flags & HTC_RF_REPLAY) ? "replayed"
                    : htc_path_entry_known(e->report->ctx, e->mark.server, f->directory) ? "cached"
                                                                                         : "shared";
        read_tree(e, f, info);
        break;
    default:
        f->record = "stock";
        read_reason(e, f, info);
    }
}

static void find_record(const explain *e, found *f)
{
    size_t len = strlen(f->file);
    htc_info info;

    f->record = "none";
    if (htc_store_find(e->report->store, htc_store_hash(e->report->store, f->file, len), f->file,
                       len, &info))
        describe(e, f, &info);
}

static void list_level(htc_list *list, const found *f)
{
    htc_cell_text(list, f->directory);
    htc_cell_text(list, f->file);
    htc_cell_text(list, f->override);
    htc_cell_text(list, f->record);
    htc_cell_text(list, f->reason);
    htc_cell_number(list, f->age_ms < 0 ? HTC_UNKNOWN : (uint64_t)f->age_ms);
    htc_cell_number(list, f->racy);
    htc_cell_number(list, f->directives);
    htc_cell_number(list, f->redirects);
    htc_cell_number(list, f->rewrite_rules);
    htc_cell_number(list, f->maps);
    htc_cell_text(list, f->freshness);
    htc_cell_text(list, f->fresh_reason);
}

htc_list *explain_levels_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"directory", "Directory", HTC_TEXT, HTC_UNIT_ONE, "on the way to the file"},
        {"file", "File", HTC_TEXT, HTC_UNIT_ONE, "found there or looked for"},
        {"allow_override", "AllowOverride", HTC_TEXT, HTC_UNIT_ONE, "as it applies there"},
        {"record", "Record", HTC_TEXT, HTC_UNIT_ONE, "what the cache has"},
        {"reason", "Why", HTC_TEXT, HTC_UNIT_ONE, "why it is replayed or left to httpd"},
        {"age_ms", "Age", HTC_GAUGE, HTC_UNIT_MS, "since it was last known to be true"},
        {"racy", "Racy", HTC_FLAG, HTC_UNIT_ONE, "so young that it is read again each time"},
        {"directives", "Directives", HTC_GAUGE, HTC_UNIT_ONE, "in it"},
        {"redirects", "Redirects", HTC_GAUGE, HTC_UNIT_ONE, "of these: Redirect lines"},
        {"rewrite_rules", "RewriteRules", HTC_GAUGE, HTC_UNIT_ONE, "of these: RewriteRule lines"},
        {"maps", "Maps", HTC_GAUGE, HTC_UNIT_ONE, "of these: HtCacheRedirectMap lines"},
        {"freshness", "Kept fresh", HTC_TEXT, HTC_UNIT_ONE, "how a change of it is noticed"},
        {"fresh_reason", "Why so", HTC_TEXT, HTC_UNIT_ONE, "why the kernel does not report it"},
    };

    return htc_report_list(report, NULL, "levels", "Directories on the way",
                           "each may have a .htaccess file", 0, columns,
                           (int)(sizeof(columns) / sizeof(columns[0])));
}

/* --- AllowOverride ----------------------------------------------------------------------------*/

static const struct {
    int bits;
    const char *name;
} rights[] = {{OR_AUTHCFG, "AuthConfig"},
              {OR_FILEINFO, "FileInfo"},
              {OR_INDEXES, "Indexes"},
              {OR_LIMIT, "Limit"},
              {OR_OPTIONS, "Options"}};

/* httpd notes no AllowOverrideList, but looks nowhere without one or the other. */
static const char *override_text(const explain *e, int override)
{
    const char *text = "";

    if ((override & OR_ALL) == OR_ALL)
        return "All";
    for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        if (override & rights[i].bits)
            text = apr_pstrcat(e->pool, text, *text ? " " : "", rights[i].name, NULL);
    }
    return *text ? text : "AllowOverrideList";
}

/* As httpd noted for the request; what it noted for a subrequest is gone. */
static const char *override_of(const explain *e, const char *directory)
{
    for (const request_rec *r = e->last; r; r = r->prev) {
        for (const struct htaccess_result *result = r->htaccess; result; result = result->next) {
            if (!strcmp(result->dir, directory))
                return override_text(e, result->override);
        }
    }
    return NULL;
}

/* --- the list ---------------------------------------------------------------------------------*/

/* @a file NULL: httpd did not ask for one there. */
static void add_level(explain *e, const char *directory, const char *file)
{
    found f = {.directory = directory, .file = file, .age_ms = -1};

    if (htc_list_rows(e->levels) == EXPLAIN_MAX_LEVELS) {
        explain_note(e, "Only the first %d directories are shown.", EXPLAIN_MAX_LEVELS);
        return;
    }
    f.override = file ? override_of(e, directory) : "None";
    if (!file) {
        f.file = apr_pstrcat(e->pool, directory, ".htaccess", NULL);
        f.record = "off";
    } else if (!e->report->store ||
               !htc_scope_of(htc_server_conf_of(e->mark.server), directory, NULL).enabled) {
        f.record = "uncached";
    } else {
        find_record(e, &f);
    }
    list_level(e->levels, &f);
}

static bool is_met(const explain *e, const char *directory)
{
    for (int i = 0; i < e->mark.met->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(e->mark.met, i, htc_met).dir, directory))
            return true;
    }
    return false;
}

static bool is_directory(const explain *e, const char *path)
{
    apr_finfo_t finfo;

    return apr_stat(&finfo, path, APR_FINFO_TYPE, e->pool) == APR_SUCCESS &&
           finfo.filetype == APR_DIR;
}

/* Those on the way to the file for which httpd did not ask. */
static void add_others(explain *e, const char *file)
{
    for (const char *slash = strchr(file, '/'); slash; slash = strchr(slash + 1, '/')) {
        const char *directory = apr_pstrmemdup(e->pool, file, (apr_size_t)(slash - file) + 1);

        if (!is_directory(e, directory))
            return;
        if (!is_met(e, directory))
            add_level(e, directory, NULL);
    }
}

void explain_list_levels(explain *e, const char *file)
{
    if (file)
        add_others(e, file);
    for (int i = 0; i < e->mark.met->nelts; i++) {
        const htc_met *met = &APR_ARRAY_IDX(e->mark.met, i, htc_met);

        add_level(e, met->dir, met->path);
    }
}
