/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The directories on the way to a file and what the cache has of each: its record, read from shared
 * memory, and the directives in it. Called by explain/explain.c.
 */
#include "explain/internal.h"
#include "htaccess/htaccess.h"

/* What is known of one level's file. */
typedef struct found {
    const char *file;   /* that was found, or looked for first */
    const char *record; /* as docs/explain.md has it */
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

static void read_tree(explain *e, explain_level *level, found *f, const htc_info *info)
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
    level->tree = htc_tree_decode(payload, f->file, e->pool);
}

static void read_reason(explain *e, found *f, const htc_info *info)
{
    char *reason;
    size_t len;

    if (htc_store_copy(e->report->store, info->ref, e->pool, &reason, &len) == APR_SUCCESS)
        f->reason = reason;
}

/* How a change of the file is noticed, and the time since when it is not known. */
static void judge_freshness(const explain *e, const explain_level *level, found *f,
                            const htc_info *info)
{
    htc_fresh_entry fresh;

    htc_fresh_judge(e->report->ctx, e->server, level->directory, info, &fresh);
    f->age_ms = fresh.age_ms < 0 ? 0 : fresh.age_ms;
    f->racy = (info->flags & HTC_RF_RACY) != 0;
    f->freshness = htc_fresh_mode_name(fresh.mode);
    if (fresh.reason != HTC_FRESH_NO_REASON)
        f->fresh_reason = htc_fresh_reason_text(fresh.reason);
}

static void describe(explain *e, explain_level *level, found *f, const htc_info *info)
{
    judge_freshness(e, level, f, info);
    switch (info->kind) {
    case HTC_KIND_ABSENT:
        f->record = "absent";
        break;
    case HTC_KIND_TREE:
        f->record = (info->flags & HTC_RF_REPLAY)                                       ? "replayed"
                    : htc_path_entry_known(e->report->ctx, e->server, level->directory) ? "cached"
                                                                                        : "shared";
        read_tree(e, level, f, info);
        break;
    default:
        f->record = "stock";
        read_reason(e, f, info);
    }
}

/* httpd takes the first name of AccessFileName that there is. */
static void find_record(explain *e, explain_level *level, found *f)
{
    const core_server_config *core = ap_get_core_module_config(e->server->module_config);
    const char *names = core->access_name ? core->access_name : ".htaccess";

    f->record = "none";
    while (*names) {
        const char *file =
            ap_make_full_path(e->pool, level->directory, ap_getword_conf(e->pool, &names));
        size_t len = strlen(file);
        htc_info info;

        if (!f->file)
            f->file = file;
        if (!htc_store_find(e->report->store, htc_store_hash(e->report->store, file, len), file,
                            len, &info))
            return;
        f->file = file;
        describe(e, level, f, &info);
        if (info.kind != HTC_KIND_ABSENT)
            return;
    }
}

/* Paths on the way to the answer may have directories in common. */
static bool is_listed(const htc_list *list, const char *directory)
{
    for (int i = 0; i < htc_list_rows(list); i++) {
        if (!strcmp(htc_list_cell(list, i, 0)->text, directory))
            return true;
    }
    return false;
}

static void list_level(htc_list *list, const explain_level *level, const found *f)
{
    htc_cell_text(list, level->directory);
    htc_cell_text(list, f->file);
    htc_cell_text(list, level->override);
    htc_cell_text(list, level->allowed_by);
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

static void add_level(explain *e, explain_level *level)
{
    found f = {.age_ms = -1};

    explain_override(e, level);
    f.file = apr_pstrcat(e->pool, level->directory, ".htaccess", NULL);
    if (!strcasecmp(level->override, "None"))
        f.record = "off";
    else if (!e->report->store || !htc_scope_of(e->sc, level->directory, NULL).enabled)
        f.record = "uncached";
    else {
        f.file = NULL;
        find_record(e, level, &f);
    }
    level->record = f.record;
    if (!is_listed(e->levels_list, level->directory))
        list_level(e->levels_list, level, &f);
    APR_ARRAY_PUSH(e->levels, explain_level) = *level;
}

htc_list *explain_levels_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"directory", "Directory", HTC_TEXT, HTC_UNIT_ONE, "on the way to the file"},
        {"file", "File", HTC_TEXT, HTC_UNIT_ONE, "found there or looked for"},
        {"allow_override", "AllowOverride", HTC_TEXT, HTC_UNIT_ONE, "as it applies there"},
        {"allowed_by", "Set in", HTC_TEXT, HTC_UNIT_ONE, "file and line that says so"},
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

static bool is_directory(explain *e, const char *path)
{
    apr_finfo_t finfo;

    return apr_stat(&finfo, path, APR_FINFO_TYPE, e->pool) == APR_SUCCESS &&
           finfo.filetype == APR_DIR;
}

/* The rest of the path behind a file, or behind what is not there. */
static void split_path_info(explain *e, size_t len)
{
    e->filename = apr_pstrmemdup(e->pool, e->file, len);
    e->path_info = e->file[len] ? e->file + len : NULL;
}

void explain_walk(explain *e)
{
    const char *slash = e->file && *e->file == '/' ? e->file : NULL, *name = slash;

    e->last_name = "";
    e->to_directory = false;
    e->filename = e->file ? e->file : "";
    e->path_info = NULL;
    e->levels = apr_array_make(e->pool, 16, sizeof(explain_level));
    while (slash) {
        explain_level level = {
            .directory = apr_pstrmemdup(e->pool, e->file, (apr_size_t)(slash - e->file) + 1)};

        if (!is_directory(e, level.directory)) {
            e->last_name = apr_pstrmemdup(e->pool, name, (apr_size_t)(slash - name));
            split_path_info(e, (size_t)(slash - e->file));
            return;
        }
        if (e->levels->nelts == EXPLAIN_MAX_LEVELS) {
            explain_note(e, "Only the first %d directories are shown.", EXPLAIN_MAX_LEVELS);
            e->certain = false;
            return;
        }
        add_level(e, &level);
        name = slash + 1;
        slash = strchr(slash + 1, '/');
    }
    e->last_name = name ? name : "";
    e->to_directory = name && (!*name || is_directory(e, e->file));
    /* "/dir" leads to a directory, too. */
    if (e->file && *e->file && e->file[strlen(e->file) - 1] != '/' && is_directory(e, e->file)) {
        explain_level level = {.directory = apr_pstrcat(e->pool, e->file, "/", NULL)};

        add_level(e, &level);
    }
}
