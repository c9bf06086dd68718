/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Redirects that can be read and do not do what they seem to. Called by tool/check.c.
 */
#include "tool/lint.h"

#include "base/base.h"
#include "rules/rules.h"
#include "tool/map.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

typedef struct lint {
    redirect_report *report;
    apr_pool_t *pool;
    uint32_t line;
} lint;

#define WARN(l, ...) redirect_report_say((l)->report, REDIRECT_WARNING, (l)->line, __VA_ARGS__)

/* --- targets ----------------------------------------------------------------------------------*/

static bool is_followed(const char *scheme, size_t len)
{
    static const char *const known[] = {"http", "https", "ftp", "ftps"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i]) == len && !strncasecmp(scheme, known[i], len))
            return true;
    }
    return false;
}

/* "www.example.com/x", "http:/x": meant as a URL, and none. */
static bool looks_like_host(const char *target)
{
    size_t n = strcspn(target, "/:?#");
    const char *dot = memchr(target, '.', n);

    return !strncasecmp(target, "http:", 5) || !strncasecmp(target, "https:", 6) ||
           !strncasecmp(target, "http/", 5) || !strncasecmp(target, "https/", 6) ||
           !strncasecmp(target, "www.", 4) ||
           (dot && target[n] == '/' && memchr(dot + 1, '.', n - (size_t)(dot + 1 - target)));
}

static void lint_target(lint *l, const char *target)
{
    const char *scheme = strstr(target, "://");
    size_t len = scheme ? (size_t)(scheme - target) : 0;

    if (*target == '/' || *target == '-' || strstr(target, "%{"))
        return;
    if (!scheme && looks_like_host(target))
        WARN(l, "the target '%s' has no scheme: write https:// in front of the host", target);
    else if (scheme && len && !memchr(target, '/', len) && !is_followed(target, len))
        WARN(l, "the target's scheme is '%.*s': browsers follow http and https", (int)len, target);
}

/* The length of "scheme:" without a "//" behind it, such as "javascript:"; 0: there is none. */
static size_t bare_scheme(const char *target)
{
    size_t n = 0;

    if (!apr_isalpha(*target))
        return 0;
    while (apr_isalnum(target[n]) || (target[n] && strchr("+-.", target[n])))
        n++;
    return target[n] == ':' && strncmp(target + n, "://", 3) != 0 ? n + 1 : 0;
}

/* "example.com:8080/x": httpd takes the host for a scheme. */
static bool is_host_and_port(const char *target, size_t scheme)
{
    size_t digits = strspn(target + scheme, "0123456789"), end = scheme + digits;

    return digits && digits <= 5 && (!target[end] || strchr("/?#", target[end]));
}

static void lint_bare_scheme(lint *l, const char *target)
{
    size_t scheme = bare_scheme(target);

    if (!scheme || looks_like_host(target))
        lint_target(l, target);
    else if (is_host_and_port(target, scheme))
        WARN(l, "the target '%s' has no scheme: write https:// in front of the host", target);
    else
        WARN(l, "the target's scheme is '%.*s': browsers follow http and https", (int)scheme - 1,
             target);
}

/* --- rows of maps -----------------------------------------------------------------------------*/

/* "$1", ":splat" and the like. NULL: there is nothing. */
static const char *group_in(const char *target)
{
    static const char *const signs[] = {"$1", "$2", ":splat", "${1}", "\\1"};

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        if (strstr(target, signs[i]))
            return signs[i];
    }
    return NULL;
}

static void lint_literal_target(lint *l, const char *target, const char *advice)
{
    const char *sign = target ? group_in(target) : NULL;

    if (sign)
        WARN(l, "'%s' in the target stands for itself: the source is no pattern; %s", sign, advice);
}

static void lint_literal(lint *l, const char *source, const char *target, const char *advice)
{
    size_t len = strlen(source);
    redirect_sign sign;

    if (redirect_map_find_sign(source, len, len, false, &sign))
        WARN(l, "'%.*s' in the source is no wildcard here, it stands for itself; %s", (int)sign.len,
             source + sign.at, advice);
    else
        lint_literal_target(l, target, advice);
}

void tool_lint_table(const redirect_table *table, redirect_report *report, apr_pool_t *pool)
{
    char *buffer = apr_palloc(pool, REDIRECT_RULE_ROOM);
    lint l = {report, pool, 0};
    apr_pool_t *sub;

    apr_pool_create(&sub, pool);
    for (uint32_t i = redirect_table_next(table, 0); i; i = redirect_table_next(table, i)) {
        redirect_rule rule;
        const char *target;

        redirect_table_rule(table, i, &rule, buffer, NULL);
        if (report->twins && l.line == rule.line)
            continue;
        l.line = rule.line;
        target = rule.target ? apr_pstrmemdup(sub, rule.target, rule.target_len) : NULL;
        if (rule.kind == REDIRECT_EXACT || rule.kind == REDIRECT_PREFIX)
            lint_literal_target(&l, rule.options & REDIRECT_OPT_EXPAND ? NULL : target,
                                "use subpath=on, or a format with patterns");
        if (target)
            lint_target(&l, target);
        apr_pool_clear(sub);
    }
    apr_pool_destroy(sub);
}

/* --- lines of configurations ------------------------------------------------------------------*/

/* A slash and a star, as in shells: the star repeats the slash. */
static bool repeats_slash(const char *pattern)
{
    const char *found = strstr(pattern, "/*");

    return found && (found == pattern || found[-1] != '\\') && found[2] != '?';
}

static bool asks_for_query(const char *pattern)
{
    const char *mark = strstr(pattern, "\\?");

    if (mark && mark[2] && mark[2] != '$' && mark[2] != ')')
        return true;
    mark = strchr(pattern, '?');
    return mark && mark > pattern && apr_isalnum(mark[1]) && strchr(mark, '=');
}

static void lint_regex(lint *l, const char *pattern)
{
    const char *why = l->report->compile ? l->report->compile(l->report->baton, pattern, 0) : NULL;

    if (why)
        redirect_report_say(l->report, REDIRECT_ERROR, l->line,
                            "the pattern '%s' cannot be compiled: %s", pattern, why);
    else if (repeats_slash(pattern))
        WARN(l,
             "'/*' in the pattern '%s' repeats the slash and is no wildcard; write '/.*' for "
             "everything below",
             pattern);
    else if (asks_for_query(pattern))
        WARN(l,
             "the pattern '%s' never matches a query: httpd compares the path only; use "
             "RewriteCond %%{QUERY_STRING}",
             pattern);
}

typedef struct words {
    const char *source, *target; /* target NULL: none */
    const char *refused;         /* a status that has no target; NULL: it is none of these */
} words;

static words words_of(int alias, const char *args, apr_pool_t *pool)
{
    const char *word[3] = {NULL, NULL, NULL};
    redirect_first_word first = REDIRECT_WORD_SOURCE;
    words out;
    bool named;
    int n = 0, status;

    while (*args && n < 3)
        word[n++] = config_word(pool, &args);
    if (n && alias < 2)
        first = redirect_config_status(word[0], &status);
    named = first != REDIRECT_WORD_SOURCE;
    out.refused = first == REDIRECT_WORD_NO_TARGET ? word[0] : NULL;
    out.source = word[named] ? word[named] : "";
    out.target = named + 1 < n ? word[named + 1] : NULL;
    return out;
}

/* As mod_alias judges it. What stands for something else, such as ${NAME}, is not known here. */
static void lint_alias_target(lint *l, int alias, const words *w)
{
    const char *target = w->target;
    size_t n = 0;
    bool url;

    while (apr_isalnum(target[n]) || (target[n] && strchr("+-.", target[n])))
        n++;
    url = n && target[n] == ':';
    if (w->refused)
        redirect_report_say(l->report, REDIRECT_ERROR, l->line,
                            "httpd refuses the line: a redirect with status %s has no target; "
                            "leave '%s' out",
                            w->refused, target);
    else if (*target == '/' || url || (*target && strchr("$%@", *target)) || strstr(target, "${"))
        lint_bare_scheme(l, target);
    else if (alias == REDIRECT_CONFIG_MATCH)
        WARN(l,
             "the target '%s' is neither a URL nor a path, so httpd answers 500; begin it with "
             "https:// or /",
             target);
    else
        redirect_report_say(l->report, REDIRECT_ERROR, l->line,
                            "httpd refuses the line: the target '%s' is neither a URL nor a path; "
                            "begin it with https:// or /",
                            target);
}

static void lint_redirect(lint *l, int alias, const char *args)
{
    words w = words_of(alias, args, l->pool);

    if (alias == REDIRECT_CONFIG_MATCH)
        lint_regex(l, w.source);
    else if (w.source[0] && w.source[0] != '/')
        WARN(l, "the source '%s' does not begin with '/' and never matches", w.source);
    else if (strchr(w.source, '?'))
        WARN(l,
             "the source '%s' has a query and never matches: httpd compares the path only; use "
             "RewriteCond %%{QUERY_STRING}",
             w.source);
    else if (strchr(w.source, '%'))
        WARN(l,
             "the source '%s' is compared with the decoded path and never matches: write the "
             "characters themselves",
             w.source);
    else
        lint_literal(l, w.source, w.target,
                     "Redirect answers everything below its source already; use RedirectMatch for "
                     "a pattern");
    if (w.target)
        lint_alias_target(l, alias, &w);
}

/* Of the schemes without "//" mod_rewrite knows only mailto: and news:. */
static void lint_rewrite_target(lint *l, const char *target)
{
    static const char *const unknown[] = {"javascript:", "vbscript:", "data:", "tel:", "file:"};

    if (!strncasecmp(target, "mailto:", 7) || !strncasecmp(target, "news:", 5)) {
        lint_bare_scheme(l, target);
        return;
    }
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        size_t n = strlen(unknown[i]);

        if (!strncasecmp(target, unknown[i], n) && strncmp(target + n, "//", 2) != 0) {
            WARN(l, "mod_rewrite takes the target '%s' for a path of this server", target);
            return;
        }
    }
    lint_target(l, target);
}

static void lint_rewrite(lint *l, const char *args, bool in_dir)
{
    bool closed;
    const char *pattern = redirect_config_word(l->pool, &args, &closed);
    const char *target = redirect_config_word(l->pool, &args, &closed);
    bool status = strchr(args, 'R') || strchr(args, 'r');

    if (*pattern == '!')
        pattern++;
    if (in_dir && !strncmp(pattern, "^/", 2) && !(pattern[2] && strchr("?*{", pattern[2])))
        WARN(l,
             "the pattern '%s' never matches here: in a directory the path has no slash in front",
             pattern);
    else if (!in_dir && *pattern == '^' && apr_isalnum(pattern[1]) && !strchr(pattern, '|'))
        WARN(l,
             "the pattern '%s' never matches here: outside of directories the path begins with "
             "a slash",
             pattern);
    else
        lint_regex(l, pattern);
    if (status || strstr(target, "://"))
        lint_rewrite_target(l, target);
}

#define DEPTH_MAX 64

static void lint_lines(lint *l, const char *bytes, size_t len, bool htaccess)
{
    config_reader reader = {.at = bytes, .end = bytes + len, .pool = l->pool};
    bool in_dir[DEPTH_MAX] = {htaccess};
    config_line line;
    unsigned depth = 0;

    while (config_next_line(&reader, &line)) {
        int alias = redirect_config_alias(line.name);

        l->line = line.number;
        if (alias >= 0)
            lint_redirect(l, alias, line.args);
        else if (!strcasecmp(line.name, "RewriteRule"))
            lint_rewrite(l, line.args, in_dir[depth]);
        else if (convert_is_include(line.name))
            WARN(l, CONVERT_NOT_READ, line.args);
        else if (line.name[0] == '<' && line.name[1] == '/')
            depth -= depth > 0;
        else if (line.name[0] == '<' && depth + 1 < DEPTH_MAX) {
            in_dir[depth + 1] =
                in_dir[depth] || config_section_of(line.name) == CONFIG_SECTION_DIRECTORY;
            depth++;
        }
    }
}

/* --- all together -----------------------------------------------------------------------------*/

/* A line stands in the table once for each name of its virtual host; each message comes once. */
typedef struct once {
    redirect_report *to;
    redirect_report inner, before; /* the counters of the check, and as they were at the last
                                    * message */
    apr_hash_t *seen;
} once;

static void pass_on(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    once *o = baton;
    apr_pool_t *pool = apr_hash_pool_get(o->seen);
    const char *key = apr_psprintf(pool, "%u %s", (unsigned)line, message);
    bool seen = apr_hash_get(o->seen, key, APR_HASH_KEY_STRING);

    if (!seen) {
        apr_hash_set(o->seen, key, APR_HASH_KEY_STRING, "");
        o->to->duplicates += o->inner.duplicates - o->before.duplicates;
        o->to->shadowed += o->inner.shadowed - o->before.shadowed;
        o->to->self += o->inner.self - o->before.self;
        o->to->loops += o->inner.loops - o->before.loops;
        o->to->chains += o->inner.chains - o->before.chains;
        redirect_report_say(o->to, severity, line, "%s", message);
    }
    o->before = o->inner;
}

static void say_duplicate(void *baton, uint32_t line, uint32_t first_line)
{
    once *o = baton;

    if (line == first_line)
        return;
    o->inner.duplicates++;
    redirect_report_say(&o->inner, REDIRECT_WARNING, line,
                        "the same source as in line %u, which answers; remove one of them",
                        (unsigned)first_line);
}

/* Some rules of one place, see convert_rule.place. */
static void check_place(const convert_rule *const *rules, size_t n, once *o, apr_pool_t *pool)
{
    redirect_builder *builder = redirect_builder_create(n, 0);
    size_t size;
    void *image = NULL;

    for (size_t i = 0; builder && i < n; i++) {
        redirect_rule rule = rules[i]->rule;

        if (redirect_kind_has_pattern(rule.kind))
            redirect_map_set_literals(&rule, pool);
        redirect_builder_add(builder, &rule);
    }
    if (builder && redirect_builder_finish(builder, say_duplicate, o, &size) == APR_SUCCESS)
        image = malloc(size ? size : 1);
    if (image) {
        redirect_builder_write(builder, image);
        redirect_map_check(redirect_table_open(image, size, pool), &o->inner, pool);
    }
    if (o->inner.longest_chain > o->to->longest_chain)
        o->to->longest_chain = o->inner.longest_chain;
    if (builder)
        redirect_builder_destroy(builder);
    free(image);
}

/* By place, and as they stand. */
static int compare_places(const void *a, const void *b)
{
    const convert_rule *x = *(const convert_rule *const *)a, *y = *(const convert_rule *const *)b;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x < y ? -1 : x > y;
}

static const convert_rule **by_place(const convert_list *list)
{
    size_t n = (size_t)list->rules->nelts;
    const convert_rule **rules = apr_palloc(list->pool, (n + 1) * sizeof(convert_rule *));

    for (size_t i = 0; i < n; i++)
        rules[i] = &APR_ARRAY_IDX(list->rules, i, convert_rule);
    qsort(rules, n, sizeof(convert_rule *), compare_places);
    return rules;
}

static void quiet(void *baton, redirect_severity severity, const char *file, uint32_t line,
                  const char *message)
{
    (void)baton, (void)severity, (void)file, (void)line, (void)message;
}

static void lint_together(const char *bytes, size_t len, bool htaccess, redirect_report *report,
                          apr_pool_t *pool)
{
    convert_list *list = convert_list_create(pool, quiet, NULL);
    convert_place at = {.htaccess = htaccess};
    const convert_rule **rules;
    apr_pool_t *sub;

    list->compile = report->compile;
    convert_read_config(list, &at, "", bytes, len);
    rules = by_place(list);
    apr_pool_create(&sub, pool);
    for (size_t i = 0, end, n = (size_t)list->rules->nelts; i < n; i = end) {
        once o = {.to = report, .seen = apr_hash_make(sub)};
        map_regexes *regexes = map_regexes_create(sub); /* they number the patterns of a table */

        for (end = i + 1; end < n && rules[end]->place == rules[i]->place;)
            end++;
        o.inner = (redirect_report){.fn = pass_on,
                                    .baton = &o,
                                    .lines = true,
                                    .check_most = report->check_most,
                                    .regex = map_regexes_match,
                                    .regex_baton = regexes,
                                    .groups = map_regexes_find_groups};
        map_regexes_budget(regexes, UINT64_MAX, MAP_REGEXES_COMMAND_MS);
        check_place(rules + i, end - i, &o, sub);
        apr_pool_clear(sub);
    }
    apr_pool_destroy(sub);
    report->rows += (uint64_t)list->rules->nelts;
}

void tool_lint_config(const char *bytes, size_t len, bool htaccess, redirect_report *report,
                      apr_pool_t *pool)
{
    lint l = {report, pool, 0};

    lint_lines(&l, bytes, len, htaccess);
    lint_together(bytes, len, htaccess, report, pool);
}
