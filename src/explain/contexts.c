/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Which sections and files hold for a path, in the order in which httpd merges them: <Directory>
 * sections and .htaccess files level by level, then <Files>, <Location> and <If> sections, wherever
 * they stand. What holds only for some requests, and nobody can tell from the URL, is noted with
 * file and line. Called by explain/rules.c.
 */
#include "explain/internal.h"

#include "ap_expr.h"

const ap_directive_t *explain_step(const ap_directive_t *node)
{
    /* Lines in <Limit> are read as if they stood around it. */
    if (explain_kind(node) == EXPLAIN_LIMIT && node->first_child)
        return node->first_child;
    while (!node->next && node->parent && explain_kind(node->parent) == EXPLAIN_LIMIT)
        node = node->parent;
    return node->next;
}

static bool is_redirect(const ap_directive_t *node)
{
    return !strncasecmp(node->directive, "Redirect", 8) &&
           strcasecmp(node->directive, "RedirectRelative");
}

static bool is_pathless(const explain *e, const ap_directive_t *node);

/* Might a line here, or in a section here, answer the path? */
static bool may_answer(explain *e, const ap_directive_t *node, int depth)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "RewriteRule") ||
            !strcasecmp(node->directive, "HtCacheRedirectMap") ||
            (is_redirect(node) && (is_pathless(e, node) || explain_redirect_matches(e, node))) ||
            (depth < 8 && may_answer(e, node->first_child, depth + 1)))
            return true;
    }
    return false;
}

static void note_section(explain *e, const ap_directive_t *node, const char *what)
{
    explain_note_unsure(e, "%s %s in %s has redirects or rules, which are not examined: %s.",
                        node->directive, node->args ? node->args : "", explain_where(e, node),
                        what);
}

static void add(explain *e, const ap_directive_t *first, const explain_context *around, bool plain)
{
    if (first)
        APR_ARRAY_PUSH(e->contexts, explain_context) =
            (explain_context){.first = first,
                              .directory = around->directory,
                              .htaccess = around->htaccess,
                              .plain = plain};
}

/* --- <If> -------------------------------------------------------------------------------------*/

/* True when this variable, behind "%{", is known from the URL. */
static bool is_known(const explain *e, const char *name)
{
    size_t len = strcspn(name, "}:");

    return name[len] == '}' &&
           ((len == 11 && !strncasecmp(name, "REQUEST_URI", len)) ||
            (len == 12 && !strncasecmp(name, "QUERY_STRING", len)) ||
            (len == 9 && e->host_header && !strncasecmp(name, "HTTP_HOST", len)));
}

/* A word outside of strings that asks for more than comparing: a function, or an operator such as
 * -f. *at is moved to its last character. */
static bool asks_more(const char **at)
{
    static const char *const harmless[] = {"-eq",       "-ne",        "-lt",     "-le",
                                           "-gt",       "-ge",        "-n",      "-z",
                                           "-strmatch", "-strcmatch", "-fnmatch"};
    const char *begin = *at;
    size_t len = 1;

    while (apr_isalnum(begin[len]) || begin[len] == '_')
        len++;
    *at = begin + len - 1;
    if (*begin != '-') /* httpd's scanner lets blanks stand before the parenthesis */
        return begin[len + strspn(begin + len, " \t\n")] == '(';
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        if (strlen(harmless[i]) == len && !strncasecmp(begin, harmless[i], len))
            return false;
    }
    return true;
}

/* True when the expression depends on the URL alone. When in doubt it does not. */
static bool is_of_url(const explain *e, const char *text)
{
    char quote = 0;

    for (const char *at = text; *at; at++) {
        if (*at == '\\' || *at == '$')
            return false;
        if (*at == '%' && !(at[1] == '{' && is_known(e, at + 2)))
            return false;
        if (quote) {
            quote = *at == quote ? 0 : quote;
        } else if (*at == '\'' || *at == '"' || *at == '/') {
            quote = *at;
        } else if (*at == '%') {
            at += strcspn(at, "}");
        } else if (apr_isalpha(*at) || *at == '-') {
            bool regex = at > text && at[-1] == '~';

            if (regex || (strchr("ms", *at) && !apr_isalnum(at[1]) && at[1] != ' ') ||
                asks_more(&at))
                return false;
        }
    }
    return !quote;
}

typedef enum truth { IS_FALSE, IS_TRUE, IS_UNKNOWN } truth;

static truth evaluate(const explain *e, const ap_directive_t *node)
{
    const char *args = explain_section_args(e, node), *err = NULL, *text;
    ap_expr_info_t *info = apr_pcalloc(e->pool, sizeof(*info));
    int rc;

    text = ap_getword_conf(e->pool, &args);
    if (!is_of_url(e, text))
        return IS_UNKNOWN;
    info->filename = node->filename;
    info->line_number = (unsigned)node->line_num;
    info->module_index = APLOG_MODULE_INDEX;
    info->flags = AP_EXPR_FLAG_RESTRICTED | AP_EXPR_FLAG_DONT_VARY; /* no file is read for this */
    if (ap_expr_parse(e->pool, e->pool, info, text, NULL))
        return IS_UNKNOWN;
    rc = ap_expr_exec(e->r, info, &err);
    return rc < 0 ? IS_UNKNOWN : rc > 0 ? IS_TRUE : IS_FALSE;
}

/* Of <If>, or of an <ElseIf> or <Else> behind one with this result, which is what counts for the
 * next. */
static truth if_holds(const explain *e, const ap_directive_t *node, truth *before)
{
    explain_section_kind kind = explain_kind(node);
    truth own;

    if (kind != EXPLAIN_IF && *before == IS_TRUE)
        return IS_FALSE;
    own = kind == EXPLAIN_ELSE ? IS_TRUE : evaluate(e, node);
    if (kind != EXPLAIN_IF && *before == IS_UNKNOWN) {
        *before = own == IS_TRUE ? IS_TRUE : IS_UNKNOWN;
        return own == IS_FALSE ? IS_FALSE : IS_UNKNOWN;
    }
    *before = own;
    return own;
}

static bool is_if(explain_section_kind kind)
{
    return kind == EXPLAIN_IF || kind == EXPLAIN_ELSE_IF || kind == EXPLAIN_ELSE;
}

/* Lines in a section that is merged after those of its kind were looked for. */
static void note_nested(explain *e, const ap_directive_t *node, bool in_if)
{
    for (; node; node = explain_step(node)) {
        explain_section_kind kind = explain_kind(node);

        if (kind != EXPLAIN_NO_SECTION && kind != EXPLAIN_LIMIT && (in_if || !is_if(kind)) &&
            may_answer(e, node->first_child, 0))
            note_section(e, node, "it stands inside another section");
    }
}

static void add_ifs(explain *e, const explain_context *around)
{
    truth before = IS_UNKNOWN;

    for (const ap_directive_t *node = around->first; node; node = explain_step(node)) {
        truth holds;

        if (!is_if(explain_kind(node)))
            continue;
        holds = if_holds(e, node, &before);
        if (holds == IS_TRUE) {
            note_nested(e, node->first_child, true);
            add(e, node->first_child, around, false);
        } else if (holds == IS_UNKNOWN && may_answer(e, node->first_child, 0)) {
            note_section(e, node, "its condition depends on more than the URL");
        }
    }
}

/* --- <Files> and <Location> -------------------------------------------------------------------*/

static void add_sections(explain *e, const explain_context *around, explain_section_kind kind)
{
    for (const ap_directive_t *node = around->first; node; node = explain_step(node)) {
        if (explain_kind(node) != kind || !explain_section_applies(e, node))
            continue;
        note_nested(e, node->first_child, false);
        add(e, node->first_child, around, false);
    }
}

/* --- directories ------------------------------------------------------------------------------*/

/* At each level its <Directory> sections, then its file; then sections with regexes. */
static void add_directories(explain *e)
{
    int next = 0;

    for (int i = 0; i < e->levels->nelts; i++) {
        const explain_level *level = &APR_ARRAY_IDX(e->levels, i, explain_level);
        explain_context around = {.directory = level->directory};

        for (; next < e->sections->nelts; next++) {
            const ap_directive_t *section =
                APR_ARRAY_IDX(e->sections, next, const ap_directive_t *);

            if (explain_section_depth(e, section) > (unsigned)i + 1)
                break;
            add(e, section->first_child, &around, !explain_section_wild(e, section));
        }
        around.htaccess = true;
        add(e, level->tree, &around, true);
    }
    for (; next < e->sections->nelts; next++) {
        explain_context around = {.directory = "/"};

        add(e, APR_ARRAY_IDX(e->sections, next, const ap_directive_t *)->first_child, &around,
            false);
    }
}

/* The configuration of main server and virtual host, outside of any section. */
static int servers_of(const explain *e, explain_context *servers)
{
    servers[0] = (explain_context){.first = ap_conftree, .directory = "/"};
    servers[1] =
        (explain_context){.first = e->host ? e->host->first_child : NULL, .directory = "/"};
    return e->host ? 2 : 1;
}

void explain_find_locations(explain *e)
{
    explain_context servers[2];
    int nservers = servers_of(e, servers);

    e->contexts = apr_array_make(e->pool, 8, sizeof(explain_context));
    for (int i = 0; i < nservers; i++)
        add_sections(e, &servers[i], EXPLAIN_LOCATION);
}

void explain_find_contexts(explain *e)
{
    explain_context servers[2];
    int nservers = servers_of(e, servers), n;

    e->contexts = apr_array_make(e->pool, 16, sizeof(explain_context));
    add_directories(e);
    n = e->contexts->nelts;
    for (int i = 0; i < nservers; i++)
        add_sections(e, &servers[i], EXPLAIN_FILES);
    for (int i = 0; i < n; i++) {
        explain_context around = APR_ARRAY_IDX(e->contexts, i, explain_context);

        add_sections(e, &around, EXPLAIN_FILES);
    }
    for (int i = 0; i < nservers; i++)
        add_sections(e, &servers[i], EXPLAIN_LOCATION);
    n = e->contexts->nelts;
    for (int i = 0; i < nservers; i++)
        add_ifs(e, &servers[i]);
    for (int i = 0; i < n; i++) {
        explain_context around = APR_ARRAY_IDX(e->contexts, i, explain_context);

        add_ifs(e, &around);
    }
}

/* --- what else may answer ---------------------------------------------------------------------*/

static unsigned words_of(const explain *e, const char *args)
{
    unsigned n = 0;

    for (args = args ? args : ""; *ap_getword_conf(e->pool, &args);)
        n++;
    return n;
}

/* A Redirect without a path, for all that its section holds for: mod_alias tries it first. */
static bool is_pathless(const explain *e, const ap_directive_t *node)
{
    const char *args = node->args ? node->args : "", *first = ap_getword_conf(e->pool, &args);
    unsigned words = words_of(e, node->args);
    int status = 0;

    if (!is_redirect(node) || !strcasecmp(node->directive, "RedirectMatch"))
        return false;
    if (explain_is_status(first, &status))
        return words == 1 || (words == 2 && ap_is_HTTP_REDIRECT(status));
    return words == 1;
}

static bool is_access(const ap_directive_t *node)
{
    return (!strcasecmp(node->directive, "Require") &&
            (!node->args || strcasecmp(node->args, "all granted"))) ||
           !strncasecmp(node->directive, "<Require", 8) || !strcasecmp(node->directive, "Deny") ||
           (!strcasecmp(node->directive, "Order") && node->args &&
            !strncasecmp(node->args, "allow", 5));
}

static bool is_errordocument(const explain *e, const ap_directive_t *node)
{
    const char *args = node->args ? node->args : "";

    if (strcasecmp(node->directive, "ErrorDocument"))
        return false;
    ap_getword_conf(e->pool, &args);
    return ap_is_url(args + (*args == '"'));
}

/* Note that this line does something that nobody here looks into. */
static void note_line(explain *e, const ap_directive_t *node, const char *what)
{
    explain_note_unsure(e, "%s in %s %s.", node->directive, explain_where(e, node), what);
}

/* The last that says who may have the file counts. */
void explain_note_access(explain *e)
{
    for (int i = e->contexts->nelts - 1; i >= 0; i--) {
        const ap_directive_t *node = APR_ARRAY_IDX(e->contexts, i, explain_context).first;
        bool decided = false;

        for (; node; node = explain_step(node)) {
            decided = decided || !strcasecmp(node->directive, "Require");
            if (is_access(node)) {
                note_line(e, node, "may refuse the request before a directory's redirects come");
                return;
            }
        }
        if (decided)
            return;
    }
}

void explain_note_pathless(explain *e, bool server)
{
    for (int i = 0; i < e->contexts->nelts; i++) {
        const explain_context *c = &APR_ARRAY_IDX(e->contexts, i, explain_context);

        for (const ap_directive_t *node = c->first; node; node = explain_step(node)) {
            if (is_pathless(e, node) &&
                server == (node->parent && explain_kind(node->parent) == EXPLAIN_LOCATION))
                note_line(e, node, "has no path: it may answer before all others");
            else if (!server && is_errordocument(e, node))
                note_line(e, node, "answers errors with a redirect");
        }
    }
}

/* The last line of this name that holds, of those before the path becomes a file, too. */
static const ap_directive_t *last_line(const explain *e, const char *name)
{
    explain_context servers[2];
    int nservers = servers_of(e, servers);
    const ap_directive_t *last = NULL;

    for (int i = 0; i < nservers + e->contexts->nelts; i++) {
        const explain_context *c =
            i < nservers ? &servers[i] : &APR_ARRAY_IDX(e->contexts, i - nservers, explain_context);

        for (const ap_directive_t *node = explain_next(c->first, name); node;
             node = explain_next(explain_step(node), name))
            last = node;
    }
    return last;
}

static bool is_regular_file(const explain *e)
{
    apr_finfo_t finfo;

    return apr_stat(&finfo, e->filename, APR_FINFO_TYPE, e->pool) == APR_SUCCESS &&
           finfo.filetype != APR_NOFILE && finfo.filetype != APR_DIR;
}

void explain_note_rest(explain *e)
{
    const ap_directive_t *fallback = last_line(e, "FallbackResource");

    explain_note_pathless(e, false);
    if (fallback && !is_regular_file(e))
        note_line(e, fallback, "may lead to another path, which is not examined");
    if (e->to_directory && e->path[strlen(e->path) - 1] != '/')
        explain_note_unsure(e, "The path is a directory: DirectorySlash answers with a redirect to "
                               "the path with a slash.");
}

/* --- DirectoryIndex ---------------------------------------------------------------------------*/

/* The lines of one context take the place of those before. */
static void merge_index(const explain *e, const explain_context *c, apr_array_header_t **names,
                        const ap_directive_t **where)
{
    const ap_directive_t *node = explain_next(c->first, "DirectoryIndex");

    if (node)
        *names = apr_array_make(e->pool, 4, sizeof(const char *));
    for (; node; node = explain_next(explain_step(node), "DirectoryIndex")) {
        const char *args = node->args ? node->args : "", *word;

        *where = node;
        if (!strcasecmp(args, "disabled")) {
            apr_array_clear(*names);
            continue;
        }
        while (*(word = ap_getword_conf(e->pool, &args)))
            APR_ARRAY_PUSH(*names, const char *) = word;
    }
}

bool explain_index_names(explain *e, apr_array_header_t **names, const ap_directive_t **where)
{
    static const char *const others[] = {"DirectoryIndexRedirect", "DirectoryCheckHandler"};
    explain_context servers[2];
    int nservers = servers_of(e, servers);

    *names = apr_array_make(e->pool, 1, sizeof(const char *));
    *where = NULL;
    APR_ARRAY_PUSH(*names, const char *) = AP_DEFAULT_INDEX;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const ap_directive_t *node = last_line(e, others[i]);

        if (node) {
            note_line(e, node, "decides what DirectoryIndex does, which is not examined");
            return false;
        }
    }
    for (int i = 0; i < nservers; i++)
        merge_index(e, &servers[i], names, where);
    for (int i = 0; i < e->contexts->nelts; i++)
        merge_index(e, &APR_ARRAY_IDX(e->contexts, i, explain_context), names, where);
    return true;
}
