/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reading redirects out of httpd configurations and .htaccess files, in the order in which httpd
 * would try them. Called by htcachectl convert. What a single line means is decided here, and
 * whether it can be folded at all in rules/rules.c.
 */
#include "base/base.h"
#include "rules/rules.h"
#include "tool/convert_internal.h"
#include "maps/maps.h"

#include <stdarg.h>
#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

/* When httpd tries the rules of a context. */
typedef enum phase {
    HOST_REWRITE,
    REWRITE,
    HOST_REDIRECT,
    REDIRECT,
    DIR_REWRITE,
    DIR_REDIRECT
} phase;
#define PHASES 6

/* What stands directly in one container. */
typedef struct scope {
    struct scope *parent;
    bool transparent, in_dir, in_host;
    bool inherits;      /* RewriteOptions Inherit */
    bool asks;          /* <If>: by the header Accept */
    const char *fault;  /* nothing in here can be taken, and why */
    const char *within; /* <Location>: its path */
    const char *base; /* of a directory: its URL path with "/" in front and behind; NULL: unknown */
    const char *rewrite_base, *document_root;
    unsigned place;                 /* convert_rule.place of a directory's */
    unsigned scheme;                /* REDIRECT_HTTP, REDIRECT_HTTPS or 0 */
    apr_array_header_t *hosts;      /* const char * */
    apr_array_header_t *conditions; /* rewrite_line, of the RewriteRule to come */
    apr_array_header_t *lines;      /* rewrite_line */
    apr_array_header_t *rules;      /* convert_begun, of the RewriteRules */
} scope;

/* The RewriteRules of a container. */
typedef struct block {
    convert_begun *begun;
    const rewrite_rule *rules;
    size_t n;
} block;

typedef struct reader {
    convert_list *list;
    const char *file;
    apr_pool_t *pool;
    scope *inner;
    apr_array_header_t *phases[PHASES]; /* convert_rule */
    uint64_t others;                    /* directives that are no redirects */
    unsigned places;                    /* given away */
    convert_askers askers;
    bool negotiate;
    apr_array_header_t *blocks; /* block, with negotiate */
    bool inherits;              /* some directory does, or gives on */
    bool parted; /* there are virtual hosts that do not inherit the server's RewriteRules */
} reader;

/* A redirect line that is left out. */
static void lost(reader *r, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void lost(reader *r, uint32_t line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    convert_report(r->list, REDIRECT_ERROR, r->file, line, "%s",
                   apr_pvsprintf(r->pool, format, args));
    convert_no_rule(r->list, &(convert_row){r->file, line, 0});
    va_end(args);
}

/* --- rules ------------------------------------------------------------------------------------*/

static bool is_redirect(int status)
{
    return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

/* Put it where its context belongs, once for each name of its virtual host. */
static void add_rule(reader *r, const convert_rule *rule, bool rewrite)
{
    const scope *s = r->inner;
    phase where = s->in_dir    ? (rewrite ? DIR_REWRITE : DIR_REDIRECT)
                  : s->in_host ? (rewrite ? HOST_REWRITE : HOST_REDIRECT)
                               : (rewrite ? REWRITE : REDIRECT);

    APR_ARRAY_PUSH(r->phases[where], convert_rule) = *rule;
    APR_ARRAY_IDX(r->phases[where], r->phases[where]->nelts - 1, convert_rule).place =
        s->in_dir ? s->place : 0;
    if (rule->rule.options & REDIRECT_OPT_APPEND_QUERY && rule->rule.options & REDIRECT_OPT_LINE &&
        !convert_has_query(rule) && strchr(rule->rule.target, '#'))
        convert_report(
            r->list, REDIRECT_WARNING, r->file, rule->rule.line,
            "httpd puts a request's query behind the fragment of the target; maps put it "
            "ahead of it, where it is a query");
}

/* A line that was left out, and what it does to rows of a map. @a pattern NULL: it may match every
 * path. */
static void keep_ahead(reader *r, uint32_t line, convert_ahead kind, const char *pattern,
                       unsigned flags, bool rewrite)
{
    convert_rule ahead = {
        .file = r->file, .ahead = kind, .rule = {.line = line, .flags = (uint16_t)flags}};

    convert_put_ahead(&ahead, pattern ? pattern : "", r->pool);
    add_rule(r, &ahead, rewrite);
}

static const char *with_slash(const char *path, apr_pool_t *pool)
{
    size_t len = strlen(path);

    return len && path[len - 1] == '/' ? path : apr_pstrcat(pool, path, "/", NULL);
}

/* "/srv/www/a" below the document root "/srv/www" is "/a/". */
static const char *url_of(const scope *s, const char *directory, apr_pool_t *pool)
{
    const char *root = s->document_root ? with_slash(s->document_root, pool) : NULL;
    const char *path = with_slash(directory, pool);

    if (!root || strncmp(path, root, strlen(root)) != 0)
        return NULL;
    return path + strlen(root) - 1;
}

static void set_target(convert_rule *rule, const char *target, apr_pool_t *pool)
{
    rule->rule.target = convert_clean_target(target, pool);
    rule->rule.target_len = strlen(rule->rule.target);
}

static void set_source(convert_rule *rule, const char *source, size_t len)
{
    rule->rule.source = source;
    rule->rule.source_len = len;
}

/* The regex becomes the rule's source. False: reported. */
static bool set_regex(reader *r, convert_rule *rule, const char *regex, bool expand)
{
    size_t len = strlen(regex), n;
    char *literal = apr_pcalloc(r->pool, len + 2);
    const char *why =
        r->list->compile ? r->list->compile(NULL, regex, rule->rule.flags & REDIRECT_ICASE) : NULL;

    if (why) {
        lost(r, rule->rule.line, "the pattern '%s' cannot be compiled: %s; it was left out", regex,
             why);
        return false;
    }
    n = redirect_map_literal_prefix(regex, len, literal, &rule->rule.kind);
    if (expand) {
        rule->rule.kind = REDIRECT_PATTERN;
        rule->rule.options |= REDIRECT_OPT_EXPAND;
    }
    set_source(rule, literal, n);
    if (rule->rule.kind == REDIRECT_PATTERN) {
        rule->rule.pattern = regex;
        rule->rule.pattern_len = len;
    }
    return true;
}

/* --- Redirect ---------------------------------------------------------------------------------*/

typedef struct redirect_words {
    int status;
    const char *source, *target;
} redirect_words;

static redirect_words words_of(int alias, const char *args, apr_pool_t *pool)
{
    redirect_words words = {
        .status = strcasecmp(redirect_config_alias_names[alias], "RedirectPermanent") ? 302 : 301};
    const char *word[3] = {NULL, NULL, NULL};
    bool named;
    int n = 0;

    while (*args && n < 3)
        word[n++] = config_word(pool, &args);
    named = alias < 2 && redirect_config_status(word[0], &words.status) != REDIRECT_WORD_SOURCE;
    words.source = word[named] ? word[named] : "";
    words.target = word[named + 1 < 3 ? named + 1 : 2];
    if (named && n < 3)
        words.target = NULL;
    return words;
}

/* True when putting the rest right behind the target is the same as one slash between the two. */
static bool joins_by_slash(const char *source, const char *target)
{
    size_t len = strlen(source), n = strlen(target);

    return convert_target_path(target, n) == n &&
           (source[len - 1] == '/') == (target[n - 1] == '/');
}

static void take_literal(reader *r, convert_rule *rule, const redirect_words *words)
{
    rule->rule.kind = REDIRECT_PREFIX;
    set_source(rule, words->source, strlen(words->source));
    if (rule->rule.target) {
        rule->joins = !joins_by_slash(words->source, rule->rule.target);
        if (!rule->joins)
            rule->rule.options |= REDIRECT_OPT_APPEND_REST;
    }
    if (*words->source != '/')
        lost(r, rule->rule.line,
             "the source '%s' does not begin with '/' and matches nothing; it was left out",
             words->source);
    else
        add_rule(r, rule, false);
}

static void take_match(reader *r, convert_rule *rule, const redirect_words *words)
{
    bool expand = false;
    const char *target =
        words->target ? convert_substitution(words->target, true, false, &expand, r->pool) : NULL;

    if (words->target && !target) {
        lost(r, rule->rule.line,
             "the target '%s' has an escaped '$' beside groups; it was left out", words->target);
        return;
    }
    if (target)
        set_target(rule, target, r->pool);
    if (expand)
        rule->captured = convert_captured(words->source, target, NULL, r->pool);
    if (set_regex(r, rule, words->source, expand && target))
        add_rule(r, rule, false);
}

static const char *scope_fault(const scope *s, const char *source)
{
    if (s->fault)
        return s->fault;
    if (s->within && strncmp(source, s->within, strlen(s->within)) != 0)
        return apr_pstrcat(s->lines->pool, "it stands in <Location ", s->within,
                           ">, and would hold outside of it, too", NULL);
    return NULL;
}

static const char *literal_pattern(const char *source, apr_pool_t *pool)
{
    return apr_pstrcat(pool, "^", convert_quote_regex(pool, source, strlen(source)), NULL);
}

static void take_redirect(reader *r, int alias, const config_line *line)
{
    convert_rule rule = {.file = r->file, .rule = {.line = line->number}};
    bool regex = !strcasecmp(redirect_config_alias_names[alias], "RedirectMatch");
    const char *reason = NULL, *fault;
    redirect_words words;

    if (redirect_config_redirect(alias, line->args, r->inner->in_dir, r->pool, &reason) !=
        REDIRECT_LINE_FOLD) {
        lost(r, line->number, "%s was left out: %s", line->name, reason);
        if (r->inner->asks)
            keep_ahead(r, line->number, CONVERT_AHEAD, NULL, 0, false);
        return;
    }
    words = words_of(alias, line->args, r->pool);
    rule.rule.status = words.status;
    fault = scope_fault(r->inner, words.source);
    if (!fault && strstr(line->args, "${"))
        fault = "it has a variable";
    if (!fault && is_redirect(words.status) != (words.target != NULL))
        fault = "its status does not go with its target";
    if (!fault && words.target)
        fault = convert_target_fault(words.target, regex);
    if (fault) {
        lost(r, line->number, "%s '%s' was left out: %s", line->name, words.source, fault);
        if (r->inner->asks)
            keep_ahead(r, line->number, CONVERT_AHEAD,
                       regex ? words.source : literal_pattern(words.source, r->pool), 0, false);
        return;
    }
    if (words.target) {
        set_target(&rule, words.target, r->pool);
        rule.rule.options = REDIRECT_OPT_APPEND_QUERY | REDIRECT_OPT_LINE;
    }
    if (regex)
        take_match(r, &rule, &words);
    else
        take_literal(r, &rule, &words);
}

/* --- RewriteRule ------------------------------------------------------------------------------*/

static const char *whole_pattern(const scope *s, const char *pattern, apr_pool_t *pool)
{
    return s->in_dir ? convert_whole_pattern(s->base ? s->base : "", pattern, pool) : pattern;
}

static const char *rewrite_target(reader *r, const rewrite_rule *rule, bool *expand)
{
    const scope *s = r->inner;
    const char *why,
        *target = convert_substitution(convert_unmark_escaped(rule->output, r->pool),
                                       !(rule->flags & REWRITE_NOESCAPE), true, expand, r->pool);

    if (target && *target != '/' && !redirect_map_free_part(target, strlen(target), &why) &&
        s->in_dir && !strstr(target, "://"))
        target = apr_pstrcat(r->pool, s->rewrite_base ? s->rewrite_base : s->base, target, NULL);
    return target;
}

static const char *rewrite_fault(const scope *s, const rewrite_rule *rule)
{
    if (s->fault)
        return s->fault;
    if (rule->fault)
        return rule->fault;
    if (!(rule->flags & (REWRITE_REDIRECT | REWRITE_STATUS)))
        return "it is no redirect";
    if (s->in_dir && !s->base)
        return "the URL path of its directory is not known";
    if (strstr(rule->output, "${") || strstr(rule->pattern, "${"))
        return "it has a variable";
    if (s->in_dir && convert_looks_back(rule->pattern))
        return "its pattern asks for what stands ahead, within";
    if (s->in_dir && strstr(rule->output, "$0"))
        return "it takes the whole match";
    if (rule->query && rule->flags & REWRITE_QSAPPEND)
        return "it appends the query to another one (QSA)";
    return NULL;
}

/* A query that is asked for and appended stands in the target of a map. NULL: no order of it is
 * known. */
static const char *with_query(const convert_rule *rule, const char *target, apr_pool_t *pool)
{
    if (!(rule->rule.flags & REDIRECT_QUERY_EXACT))
        return NULL;
    return *rule->rule.query ? apr_pstrcat(pool, target, "?", rule->rule.query, NULL) : target;
}

/* It answers by Accept. A server's lines are asked ahead of a map: a "-" that ends them leaves their
 * request to it, and END does so with those of directories. */
static void keep_asking(reader *r, const rewrite_rule *from, const convert_begun *has)
{
    const scope *s = r->inner;
    const char *pattern = NULL;
    bool answers = from->flags & (REWRITE_REDIRECT | REWRITE_STATUS | REWRITE_UNKNOWN) ||
                   strstr(from->output, "://");

    if (convert_goes_on(from) || (!s->in_dir && (answers || strcmp(from->output, "-") != 0)))
        return;
    if ((s->base || !s->in_dir) && !s->fault && *from->pattern != '!' &&
        !(from->flags & REWRITE_UNKNOWN) && !has->moved)
        pattern = whole_pattern(s, from->pattern, r->pool);
    answers = s->in_dir ? answers : from->flags & REWRITE_END;
    keep_ahead(r, has->rule.line, answers ? CONVERT_AHEAD : CONVERT_AHEAD_OF_REWRITES, pattern,
               from->flags & REWRITE_NOCASE ? REDIRECT_ICASE : 0, true);
}

/* With END, or PT in a server, no RewriteRule sees the path that it makes. A map would. */
static void keep_made_path(reader *r, const rewrite_rule *from, uint32_t line)
{
    const scope *s = r->inner;
    const char *base = *from->output == '/' ? "" : s->rewrite_base ? s->rewrite_base : s->base;
    size_t len = strcspn(from->output, "?$%\\");
    const char *path = apr_pstrmemdup(r->pool, from->output, len), *pattern = NULL;

    if (!(from->flags & (s->in_dir ? REWRITE_END : REWRITE_END | REWRITE_PASSTHROUGH)) ||
        from->flags & (REWRITE_REDIRECT | REWRITE_STATUS) || !strcmp(path, "-"))
        return;
    if (base && !url_of(s, path, r->pool)) /* it may be a file's name */
        pattern =
            apr_pstrcat(r->pool, literal_pattern(apr_pstrcat(r->pool, base, path, NULL), r->pool),
                        from->output[len] && from->output[len] != '?' ? NULL : "$", NULL);
    keep_ahead(r, line, CONVERT_MAKES_PATH, pattern, 0, true);
}

static void take_rewrite(reader *r, const rewrite_rule *from, convert_begun *has)
{
    const redirect_rule *begun = &has->rule;
    convert_rule rule = {.file = r->file, .begun = has, .rule = *begun};
    const char *fault = rewrite_fault(r->inner, from), *target = NULL, *pattern = from->pattern;
    bool expand = false, appends = false;

    if (from->conditions && has->accept.known && fault)
        fault = "it has conditions on Accept (see --negotiate)";
    rule.rule.status = from->status;
    if (!fault && !(pattern = whole_pattern(r->inner, from->pattern, r->pool)))
        fault = "its pattern has alternatives";
    if (!fault && !(from->flags & REWRITE_STATUS)) {
        target = rewrite_target(r, from, &expand);
        fault =
            target ? convert_target_fault(target, expand) : "it has an escaped '$' beside groups";
        appends = !from->drops_query && !(from->flags & REWRITE_QSDISCARD);
    }
    if (!fault && appends && begun->query && !strchr(target, '?')) {
        appends = false;
        target = with_query(&rule, target, r->pool);
        fault = target ? NULL : "it appends the query that it asks for";
    }
    if (fault) {
        lost(r, begun->line, "RewriteRule '%s' was left out: %s", from->pattern, fault);
        if (has->asks)
            keep_asking(r, from, has);
        keep_made_path(r, from, begun->line);
        return;
    }
    if (from->flags & REWRITE_NOCASE)
        rule.rule.flags |= REDIRECT_ICASE;
    if (target) {
        set_target(&rule, target, r->pool);
        rule.base = r->inner->in_dir ? r->inner->base : NULL;
        rule.captured = expand ? convert_captured(from->pattern, target, from, r->pool) : NULL;
        if (!begun->options)
            rule.rule.options |= REDIRECT_OPT_LINE;
        if (appends)
            rule.rule.options |= REDIRECT_OPT_APPEND_QUERY;
    }
    if (set_regex(r, &rule, pattern, expand))
        add_rule(r, &rule, true);
}

/* Behind the last rule of a context no other is tried, with the flag L or not. */
static void end_with_last(reader *r)
{
    const scope *s = r->inner;
    rewrite_line *last =
        s->lines->nelts ? &APR_ARRAY_IDX(s->lines, s->lines->nelts - 1, rewrite_line) : NULL;
    size_t len = last ? strlen(last->args) : 0;
    rewrite_rule rule;

    if (!len || last->condition || s->inherits || last->args[len - 1] != ']' ||
        !redirect_config_answers(last->args, &rule, r->pool) || !(rule.flags & REWRITE_REDIRECT))
        return;
    last->args = apr_psprintf(r->pool, "%.*s,L]", (int)len - 1, last->args);
}

static void take_rewrites(reader *r)
{
    const scope *s = r->inner;
    size_t n = (size_t)s->lines->nelts;
    rewrite_rule *rules = apr_palloc(r->pool, (n ? n : 1) * sizeof(*rules));
    convert_begun *begun = (convert_begun *)s->rules->elts;

    end_with_last(r);
    n = redirect_config_rewrites((const rewrite_line *)s->lines->elts, n, s->in_dir,
                                 REDIRECT_REGEX_DEFAULT, rules, r->pool);
    convert_pass_on(begun, rules, n);
    convert_find_same(begun, rules, n);
    for (size_t i = 0; i < n; i++)
        begun[i].taken = !rewrite_fault(s, &rules[i]);
    if (r->negotiate) {
        convert_find_never(begun, rules, n);
        APR_ARRAY_PUSH(r->blocks, block) = (block){begun, rules, n};
    }
    for (size_t i = 0; i < n; i++) {
        begun[i].taken = false;
        if (begun[i].never)
            convert_report(r->list, REDIRECT_NOTE, r->file, begun[i].rule.line,
                           "it never answers: line %u does", redirect_line_number(begun[i].never));
        else if (begun[i].same)
            convert_report(r->list, REDIRECT_NOTE, r->file, begun[i].rule.line,
                           "its conditions make no difference: line %u answers the same",
                           redirect_line_number(begun[i + 1].rule.line));
        else
            take_rewrite(r, &rules[i], &begun[i]);
    }
}

/* --- containers -------------------------------------------------------------------------------*/

/* Of addresses: http if all are of port 80, https if all are of 443; 0: neither. */
static unsigned scheme_of(const char *args, apr_pool_t *pool)
{
    unsigned all = REDIRECT_HTTP | REDIRECT_HTTPS;

    while (*args) {
        const char *port = strrchr(config_word(pool, &args), ':');

        all &= !port                   ? 0
               : !strcmp(port, ":80")  ? REDIRECT_HTTP
               : !strcmp(port, ":443") ? REDIRECT_HTTPS
                                       : 0;
    }
    return all == (REDIRECT_HTTP | REDIRECT_HTTPS) ? 0 : all;
}

static void open_host(scope *s, const char *args, apr_pool_t *pool)
{
    if (s->in_host) { /* httpd refuses the file */
        s->fault = "it stands in a <VirtualHost> within another";
        return;
    }
    s->in_host = true;
    s->hosts = apr_array_make(pool, 4, sizeof(const char *));
    s->scheme = scheme_of(args, pool);
}

static void open_directory(reader *r, scope *s, const config_line *line, const char *args)
{
    const char *word = config_word(r->pool, &args);

    s->in_dir = true;
    if (!strcasecmp(line->name, "<Directory") && *word == '/' && !strpbrk(word, "*?[")) {
        s->base = url_of(s->parent, word, r->pool);
        if (!s->base)
            convert_report(r->list, REDIRECT_WARNING, r->file, line->number,
                           "Redirect lines in <Directory %s> are taken to hold everywhere, as its "
                           "URL path is not known",
                           word);
    } else if (!strcasecmp(line->name, "<Location") && *word == '/' && !strpbrk(word, "*?["))
        s->within = word;
    else
        s->fault = apr_pstrcat(r->pool, "it stands in ", line->name, " ...>", NULL);
}

static void open_scope(reader *r, const config_line *line)
{
    config_section section = config_section_of(line->name);
    const char *args = config_section_args(r->pool, line->args);
    scope *made = apr_pmemdup(r->pool, r->inner, sizeof(*made));

    made->parent = r->inner;
    made->transparent = section == CONFIG_SECTION_TRANSPARENT;
    r->inner = made;
    if (made->transparent) {
        if (*args == '!' || strcasecmp(line->name, "<IfModule") != 0)
            convert_report(r->list, REDIRECT_WARNING, r->file, line->number,
                           "%s %s> is taken to hold", line->name, args);
        return;
    }
    made->lines = apr_array_make(r->pool, 16, sizeof(rewrite_line));
    made->conditions = apr_array_make(r->pool, 4, sizeof(rewrite_line));
    made->rules = apr_array_make(r->pool, 16, sizeof(convert_begun));
    made->rewrite_base = NULL;
    made->inherits = false;
    made->place = ++r->places;
    made->asks = made->asks || convert_section_asks(r->askers, line->name, args);
    if (section == CONFIG_SECTION_HOST)
        open_host(made, args, r->pool);
    else if (section == CONFIG_SECTION_DIRECTORY)
        open_directory(r, made, line, args);
    else
        made->fault = apr_pstrcat(r->pool, "it stands in ", line->name, " ...>", NULL);
}

/* The rules of a virtual host once for each of its names. */
static void name_rules(reader *r, const scope *s, apr_array_header_t *rules, int from)
{
    apr_array_header_t *own = apr_array_make(r->pool, 16, sizeof(convert_rule));

    for (int i = from; i < rules->nelts; i++)
        APR_ARRAY_PUSH(own, convert_rule) = APR_ARRAY_IDX(rules, i, convert_rule);
    rules->nelts = from;
    for (int i = 0; i < own->nelts; i++) {
        convert_rule rule = APR_ARRAY_IDX(own, i, convert_rule);

        if (!s->hosts->nelts && !s->scheme && !rule.ahead)
            lost(r, rule.rule.line, "it was left out: its virtual host has no ServerName");
        for (int h = 0; h < s->hosts->nelts; h++) {
            rule.rule.host = APR_ARRAY_IDX(s->hosts, h, const char *);
            rule.rule.host_len = strlen(rule.rule.host);
            rule.rule.flags |= s->scheme;
            APR_ARRAY_PUSH(rules, convert_rule) = rule;
        }
        if (!s->hosts->nelts && (s->scheme || rule.ahead)) {
            rule.rule.flags |= s->scheme;
            APR_ARRAY_PUSH(rules, convert_rule) = rule;
        }
    }
}

static void close_scope(reader *r)
{
    scope *done = r->inner;

    if (!done->transparent)
        take_rewrites(r);
    r->inner = done->parent;
    if (done->transparent && done->parent) {
        done->parent->rewrite_base = done->rewrite_base;
        done->parent->document_root = done->document_root;
    }
}

static void close_host(reader *r, const int *marks)
{
    scope *done = r->inner;

    close_scope(r);
    r->parted |= !done->inherits;
    for (int i = 0; i < PHASES; i++)
        name_rules(r, done, r->phases[i], marks[i]);
}

static bool is_named(const apr_array_header_t *hosts, const char *name)
{
    for (int i = 0; i < hosts->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(hosts, i, const char *), name))
            return true;
    }
    return false;
}

/* "https://www.example.com:443" names www.example.com. */
static void add_host(reader *r, const char *name, uint32_t line)
{
    const char *scheme = strstr(name, "://");
    char *host = apr_pstrdup(r->pool, scheme ? scheme + 3 : name);
    redirect_map_options options;
    const char *why;

    if (*host != '[')
        host[strcspn(host, ":")] = '\0';
    redirect_map_options_init(&options);
    why = redirect_map_option(&options, apr_pstrcat(r->pool, "host=", host, NULL), r->pool);
    if (why)
        convert_report(
            r->list, REDIRECT_ERROR, r->file, line,
            "the name '%s' of the virtual host cannot be used; its redirects are left out", name);
    else if (!is_named(r->inner->hosts, options.host)) {
        APR_ARRAY_PUSH(r->inner->hosts, const char *) = options.host;
        if (strchr(options.host, '*'))
            convert_report(r->list, REDIRECT_WARNING, r->file, line,
                           "rows for '%s' also answer where another virtual host has such a name",
                           options.host);
    }
}

/* --- lines ------------------------------------------------------------------------------------*/

bool convert_is_include(const char *name)
{
    return !strcasecmp(name, "Include") || !strcasecmp(name, "IncludeOptional");
}

/* Lines that change how other lines are understood. */
static void take_setting(reader *r, const config_line *line)
{
    const char *args = line->args;
    scope *s = r->inner;

    if (!strcasecmp(line->name, "RewriteBase"))
        s->rewrite_base = with_slash(config_word(r->pool, &args), r->pool);
    else if (!strcasecmp(line->name, "DocumentRoot"))
        s->document_root = config_word(r->pool, &args);
    else if (s->hosts && !s->fault &&
             (!strcasecmp(line->name, "ServerName") || !strcasecmp(line->name, "ServerAlias"))) {
        while (*args)
            add_host(r, config_word(r->pool, &args), line->number);
    } else if (convert_is_include(line->name))
        convert_report(r->list, REDIRECT_ERROR, r->file, line->number, CONVERT_NOT_READ, args);
    else if (!strcasecmp(line->name, "RewriteEngine") && !strcasecmp(args, "off"))
        convert_report(r->list, REDIRECT_WARNING, r->file, line->number,
                       "RewriteEngine is Off; the RewriteRules are converted all the same");
    else if (!strcasecmp(line->name, "RewriteOptions")) {
        s->inherits = s->inherits || redirect_config_inherits(args);
        r->inherits = r->inherits || strcasestr(args, "Inherit");
    } else if (!strcasecmp(line->name, "HtCacheRedirectMap"))
        convert_report(r->list, REDIRECT_ERROR, r->file, line->number,
                       "HtCacheRedirectMap '%s' was left out; convert the file itself", args);
    else
        r->others++;
}

/* Both together are one rule, whose query goes ahead of the fragment. */
static void begin_rewrite(reader *r, const config_line *line)
{
    scope *s = r->inner;
    apr_pool_t *pool = r->pool;
    bool negotiate = r->negotiate;
    convert_begun begun = {.rule = {.line = line->number}};
    redirect_rule *rule = &begun.rule;

    if (!s->conditions->nelts &&
        convert_is_without_query(s->lines, convert_mark_escaped(line->args, pool), pool)) {
        s->lines->nelts -= 2;
        s->rules->nelts--;
        rule->options = REDIRECT_OPT_APPEND_QUERY;
    }
    begun.asks = s->asks || convert_has_asking(r->askers, line->args);
    for (int i = 0; i < s->conditions->nelts; i++)
        begun.asks |= convert_asks(r->askers, APR_ARRAY_IDX(s->conditions, i, rewrite_line).args);
    if (s->conditions->nelts && !convert_read_query(s->conditions, rule, pool) &&
        !(convert_read_accept(s->conditions, &begun.accept, pool) && negotiate))
        apr_array_cat(s->lines, s->conditions);
    if (negotiate && begun.accept.known && *begun.accept.types)
        convert_put_accept(rule, &begun.accept, pool);
    apr_array_clear(s->conditions);
    APR_ARRAY_PUSH(s->lines, rewrite_line) =
        (rewrite_line){false, convert_mark_escaped(line->args, pool)};
    APR_ARRAY_PUSH(s->rules, convert_begun) = begun;
}

static void take_line(reader *r, const config_line *line)
{
    int alias = redirect_config_alias(line->name);

    if (alias >= 0)
        take_redirect(r, alias, line);
    else if (!strcasecmp(line->name, "RewriteCond"))
        APR_ARRAY_PUSH(r->inner->conditions, rewrite_line) = (rewrite_line){true, line->args};
    else if (!strcasecmp(line->name, "RewriteRule"))
        begin_rewrite(r, line);
    else
        take_setting(r, line);
}

static void read_lines(reader *r, config_reader *lines)
{
    int marks[PHASES] = {0};
    config_line line;

    while (config_next_line(lines, &line)) {
        if (line.name[0] != '<')
            take_line(r, &line);
        else if (line.name[1] != '/') {
            if (config_section_of(line.name) == CONFIG_SECTION_HOST && !r->inner->in_host) {
                for (int i = 0; i < PHASES; i++)
                    marks[i] = r->phases[i]->nelts;
            }
            open_scope(r, &line);
        } else if (r->inner->parent && !r->inner->transparent && r->inner->hosts &&
                   r->inner->hosts != r->inner->parent->hosts)
            close_host(r, marks);
        else if (r->inner->parent)
            close_scope(r);
    }
    while (r->inner)
        close_scope(r);
}

/* Virtual hosts do not inherit the server's RewriteRules by themselves. */
static void part_rewrites(reader *r)
{
    unsigned place = ++r->places;

    for (int i = 0; i < r->phases[REWRITE]->nelts; i++)
        APR_ARRAY_IDX(r->phases[REWRITE], i, convert_rule).place = place;
}

void convert_read_config(convert_list *list, const convert_place *place, const char *file,
                         const char *bytes, size_t len)
{
    config_reader lines = {.at = bytes, .end = bytes + len, .pool = list->pool};
    reader r = {.list = list,
                .file = file,
                .pool = list->pool,
                .negotiate = place->negotiate,
                .blocks = apr_array_make(list->pool, 4, sizeof(block)),
                .askers = convert_find_askers(lines)};
    scope top = {.in_dir = place->htaccess};

    if (place->htaccess)
        top.base = with_slash(place->base ? place->base : "/", list->pool);
    top.lines = apr_array_make(list->pool, 16, sizeof(rewrite_line));
    top.conditions = apr_array_make(list->pool, 4, sizeof(rewrite_line));
    top.rules = apr_array_make(list->pool, 16, sizeof(convert_begun));
    for (int i = 0; i < PHASES; i++)
        r.phases[i] = apr_array_make(list->pool, 16, sizeof(convert_rule));
    r.inner = &top;
    read_lines(&r, &lines);
    if (r.parted)
        part_rewrites(&r);
    convert_append(list, r.phases,
                   &(convert_phases){PHASES, DIR_REWRITE,
                                     1 << HOST_REWRITE | 1 << REWRITE | 1 << DIR_REWRITE,
                                     r.inherits});
    for (int i = 0; i < r.blocks->nelts; i++) {
        const block *one = &APR_ARRAY_IDX(r.blocks, i, block);

        convert_say_blocks(list, file, one->begun, one->rules, one->n);
    }
    if (r.others)
        convert_report(list, REDIRECT_NOTE, file, 0,
                       "%" APR_UINT64_T_FMT " other directives are no redirects", r.others);
}
