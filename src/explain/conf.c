/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What httpd's configuration tree says of a path: Alias lines, sections, AllowOverride. Sections
 * are matched as core matches them. Called by explain/explain.c.
 */
#include "base/base.h"
#include "explain/internal.h"

const ap_directive_t *explain_next(const ap_directive_t *node, const char *name)
{
    while (node && strcasecmp(node->directive, name))
        node = explain_step(node);
    return node;
}

void explain_find_host(explain *e)
{
    const server_rec *s = e->server;

    for (const ap_directive_t *node = explain_next(ap_conftree, "<VirtualHost");
         node && s->defn_name; node = explain_next(node->next, "<VirtualHost")) {
        if (node->line_num == (int)s->defn_line_number && !strcmp(node->filename, s->defn_name))
            e->host = node;
    }
}

/* --- from path to file ------------------------------------------------------------------------*/

static const char *alias_target(explain *e, const ap_directive_t *node, bool regex)
{
    const char *args = node->args ? node->args : "";
    const char *source = ap_getword_conf(e->pool, &args);
    const char *target = ap_getword_conf(e->pool, &args);
    ap_regmatch_t groups[AP_MAX_REG_MATCH];
    size_t taken;

    if (!*target)
        return NULL;
    if (!regex) {
        taken = htc_alias_prefix(e->path, source, strlen(source));
        e->context_prefix = taken ? source : NULL;
        e->context_root = taken ? target : NULL;
        target = ap_server_root_relative(e->pool, target);
        return taken ? apr_pstrcat(e->pool, target, e->path + taken, NULL) : NULL;
    }
    if (explain_match(e, source, 0, e->path, AP_MAX_REG_MATCH, groups) != EXPLAIN_YES)
        return NULL;
    return ap_pregsub(e->pool, target, e->path, AP_MAX_REG_MATCH, groups);
}

static bool map_by_alias(explain *e, const ap_directive_t *node)
{
    static const struct {
        const char *name;
        bool regex;
    } kinds[] = {
        {"Alias", false}, {"ScriptAlias", false}, {"AliasMatch", true}, {"ScriptAliasMatch", true}};

    for (; node; node = node->next) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            const char *file;

            if (strcasecmp(node->directive, kinds[i].name))
                continue;
            file = alias_target(e, node, kinds[i].regex);
            if (!file)
                continue;
            e->file = file;
            e->mapped_by = apr_psprintf(e->pool, "%s %s (%s)", node->directive, node->args,
                                        explain_where(e, node));
            return true;
        }
    }
    return false;
}

void explain_map_path(explain *e)
{
    const core_server_config *core = ap_get_core_module_config(e->server->module_config);

    e->context_prefix = e->context_root = NULL;
    if ((e->host && map_by_alias(e, e->host->first_child)) || map_by_alias(e, ap_conftree))
        return;
    e->file =
        apr_pstrcat(e->pool, core->ap_document_root ? core->ap_document_root : "", e->path, NULL);
    e->mapped_by = apr_pstrcat(e->pool, "DocumentRoot ", core->ap_document_root, NULL);
}

/* --- sections ---------------------------------------------------------------------------------*/

static unsigned components(const char *dir)
{
    unsigned n = 0;

    for (; *dir; dir++)
        n += *dir == '/';
    return n;
}

/* With one slash at its end, as core keeps the names of directories. */
static const char *with_slash(apr_pool_t *pool, const char *dir)
{
    size_t len = strlen(dir);

    return len && dir[len - 1] == '/' ? dir : apr_pstrcat(pool, dir, "/", NULL);
}

const char *explain_section_args(const explain *e, const ap_directive_t *node)
{
    return config_section_args(e->pool, node->args ? node->args : "");
}

/* The pattern of a section. *regex: it is one. */
static const char *section_pattern(const explain *e, const ap_directive_t *node, bool *regex)
{
    const char *args = explain_section_args(e, node);
    const char *pattern = ap_getword_conf(e->pool, &args);
    size_t len = strlen(node->directive);

    *regex = len > 5 && !strcasecmp(node->directive + len - 5, "Match");
    if (!strcmp(pattern, "~")) {
        *regex = true;
        pattern = ap_getword_conf(e->pool, &args);
    }
    return pattern;
}

static bool regex_matches(const explain *e, const char *pattern, const char *text)
{
    return explain_match(e, pattern, 0, text, 0, NULL) == EXPLAIN_YES;
}

static const char *directory_of(const explain *e)
{
    const char *slash = e->file ? strrchr(e->file, '/') : NULL;

    return slash ? apr_pstrmemdup(e->pool, e->file, (apr_size_t)(slash - e->file) + 1) : "";
}

static bool directory_matches(const explain *e, const ap_directive_t *node, const char *dir)
{
    bool regex;
    const char *pattern = section_pattern(e, node, &regex);

    if (regex)
        return regex_matches(e, pattern, dir);
    pattern = with_slash(e->pool, pattern);
    return htc_directory_matches(pattern, apr_fnmatch_test(pattern), dir);
}

static bool location_matches(const explain *e, const ap_directive_t *node)
{
    bool regex;
    const char *pattern = section_pattern(e, node, &regex);

    if (regex)
        return regex_matches(e, pattern, e->path);
    return htc_location_matches(pattern, apr_fnmatch_test(pattern), e->path);
}

static bool files_match(const explain *e, const ap_directive_t *node)
{
    bool regex;
    const char *pattern = section_pattern(e, node, &regex);

    return regex                       ? regex_matches(e, pattern, e->last_name)
           : apr_fnmatch_test(pattern) ? !apr_fnmatch(pattern, e->last_name, APR_FNM_PATHNAME)
                                       : !strcmp(pattern, e->last_name);
}

explain_section_kind explain_kind(const ap_directive_t *node)
{
    static const struct {
        const char *name;
        explain_section_kind kind;
    } kinds[] = {{"<Directory", EXPLAIN_DIRECTORY},
                 {"<DirectoryMatch", EXPLAIN_DIRECTORY},
                 {"<Location", EXPLAIN_LOCATION},
                 {"<LocationMatch", EXPLAIN_LOCATION},
                 {"<Files", EXPLAIN_FILES},
                 {"<FilesMatch", EXPLAIN_FILES},
                 {"<If", EXPLAIN_IF},
                 {"<ElseIf", EXPLAIN_ELSE_IF},
                 {"<Else", EXPLAIN_ELSE},
                 {"<Limit", EXPLAIN_LIMIT},
                 {"<LimitExcept", EXPLAIN_LIMIT}};

    for (size_t i = 0; *node->directive == '<' && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!strcasecmp(node->directive, kinds[i].name))
            return kinds[i].kind;
    }
    return EXPLAIN_NO_SECTION;
}

bool explain_section_applies(const explain *e, const ap_directive_t *node)
{
    switch (explain_kind(node)) {
    case EXPLAIN_DIRECTORY:
        return directory_matches(e, node, directory_of(e));
    case EXPLAIN_LOCATION:
        return location_matches(e, node);
    case EXPLAIN_FILES:
        return files_match(e, node);
    default:
        return false;
    }
}

static bool is_condition(explain_section_kind kind)
{
    return kind >= EXPLAIN_IF;
}

static bool is_listed(explain *e, const ap_directive_t *node)
{
    for (int i = 0; i < e->listed->nelts; i++) {
        if (APR_ARRAY_IDX(e->listed, i, const ap_directive_t *) == node)
            return true;
    }
    APR_ARRAY_PUSH(e->listed, const ap_directive_t *) = node;
    return false;
}

static void list_section(const explain *e, const ap_directive_t *node, bool condition)
{
    htc_cell_text(e->sections_list,
                  apr_psprintf(e->pool, "%s %s", node->directive, node->args ? node->args : ""));
    htc_cell_text(e->sections_list, explain_where(e, node));
    htc_cell_number(e->sections_list, condition);
}

static void list_sections(explain *e, const ap_directive_t *node, int depth)
{
    for (; node; node = node->next) {
        explain_section_kind kind = explain_kind(node);

        if (kind == EXPLAIN_NO_SECTION ||
            (!is_condition(kind) && !explain_section_applies(e, node)))
            continue;
        if (!is_listed(e, node))
            list_section(e, node, is_condition(kind));
        if (depth < 8)
            list_sections(e, node->first_child, depth + 1);
    }
}

htc_list *explain_sections_list(htc_report *report)
{
    static const htc_column columns[] = {
        {"section", "Section", HTC_TEXT, HTC_UNIT_ONE, "as it is written"},
        {"source", "Where", HTC_TEXT, HTC_UNIT_ONE, "its file and line"},
        {"condition", "Condition", HTC_FLAG, HTC_UNIT_ONE, "it depends on the request, too"},
    };

    return htc_report_list(report, NULL, "sections", "Sections that apply",
                           "in the order of the configuration", 0, columns, 3);
}

void explain_list_sections(explain *e)
{
    list_sections(e, ap_conftree, 0);
    if (e->host)
        list_sections(e, e->host->first_child, 0);
}

/* --- <Directory> ------------------------------------------------------------------------------*/

static bool is_plain_directory(const explain *e, const ap_directive_t *node)
{
    bool regex;

    section_pattern(e, node, &regex);
    return !strcasecmp(node->directive, "<Directory") && !regex;
}

static void add_directories(explain *e, const ap_directive_t *node, const char *dir, bool plain)
{
    for (; node; node = node->next) {
        if (explain_kind(node) == EXPLAIN_DIRECTORY && is_plain_directory(e, node) == plain &&
            directory_matches(e, node, dir))
            APR_ARRAY_PUSH(e->sections, const ap_directive_t *) = node;
    }
}

unsigned explain_section_depth(const explain *e, const ap_directive_t *node)
{
    bool regex;
    const char *pattern = section_pattern(e, node, &regex);

    return regex ? UINT_MAX : components(with_slash(e->pool, pattern));
}

bool explain_section_wild(const explain *e, const ap_directive_t *node)
{
    bool regex;
    const char *pattern = section_pattern(e, node, &regex);

    return regex || apr_fnmatch_test(pattern);
}

/* core goes from short to long names, and takes regexes last; a stable sort of a few. */
static void sort_by_depth(explain *e)
{
    const ap_directive_t **all = (const ap_directive_t **)e->sections->elts;

    for (int i = 1; i < e->sections->nelts; i++) {
        const ap_directive_t *node = all[i];
        unsigned depth = explain_section_depth(e, node);
        int j = i;

        for (; j > 0 && explain_section_depth(e, all[j - 1]) > depth; j--)
            all[j] = all[j - 1];
        all[j] = node;
    }
}

void explain_find_sections(explain *e)
{
    const char *dir = directory_of(e);

    e->sections = apr_array_make(e->pool, 8, sizeof(const ap_directive_t *));
    for (int plain = 1; plain >= 0; plain--) {
        add_directories(e, ap_conftree, dir, plain);
        if (e->host)
            add_directories(e, e->host->first_child, dir, plain);
    }
    sort_by_depth(e);
}

void explain_override(const explain *e, explain_level *level)
{
    unsigned depth = components(level->directory);

    level->override = "None";
    for (int i = 0; i < e->sections->nelts; i++) {
        const ap_directive_t *section = APR_ARRAY_IDX(e->sections, i, const ap_directive_t *);

        if (explain_section_depth(e, section) > depth)
            continue;
        for (const ap_directive_t *node = section->first_child; node; node = node->next) {
            bool is_list = !strcasecmp(node->directive, "AllowOverrideList");

            if (!is_list && strcasecmp(node->directive, "AllowOverride"))
                continue;
            if (is_list && strcasecmp(node->args, "None") && strcasecmp(level->override, "None"))
                level->override =
                    apr_pstrcat(e->pool, level->override, "; list: ", node->args, NULL);
            else if (!is_list || strcasecmp(node->args, "None"))
                level->override =
                    is_list ? apr_pstrcat(e->pool, "list: ", node->args, NULL) : node->args;
            else
                continue;
            level->allowed_by = explain_where(e, node);
        }
    }
}
