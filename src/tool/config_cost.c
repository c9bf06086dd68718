/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a configuration costs, line by line. Asks the same allow-list as the module does when it has
 * parsed a file, and the same code what can be folded. Called by htcachectl check --cost.
 */
#include "tool/config_cost.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <apr_hash.h>
#include <apr_lib.h>
#include <apr_strings.h>

/* What is tried with a rule that stays. */
typedef struct rule_cost {
    uint32_t line;
    unsigned regexes, disk_tests;
} rule_cost;

typedef struct coster {
    const cost_options *options;
    cost_report *report;
    apr_pool_t *pool;
    apr_hash_t *allowed; /* lower-case directive: array of htc_allow_entry */
    bool engine_on;
    bool not_file, not_dir; /* conditions before the next rule */
    rule_cost next;         /* of the conditions before the next rule */
    apr_hash_t *rules;      /* by line: rule_cost */
    uint32_t engine_line;
    unsigned if_modules;
} coster;

static void advise(coster *c, uint32_t line, const char *text)
{
    APR_ARRAY_PUSH(c->report->advice, cost_advice) = (cost_advice){line, text};
}

/* --- parsed, replayed or stock ----------------------------------------------------------------*/

static const char *lower(apr_pool_t *pool, const char *name)
{
    char *copy = apr_pstrdup(pool, name);

    for (char *s = copy; *s; s++)
        *s = (char)apr_tolower(*s);
    return copy;
}

static apr_hash_t *allow_list(apr_pool_t *pool)
{
    apr_hash_t *hash = apr_hash_make(pool);
    struct htc_allow_entry entry;

    for (size_t i = 0; htc_allow_entry(i, &entry); i++) {
        const char *key = lower(pool, entry.directive);
        apr_array_header_t *found = apr_hash_get(hash, key, APR_HASH_KEY_STRING);

        if (!found) {
            found = apr_array_make(pool, 1, sizeof(entry));
            apr_hash_set(hash, key, APR_HASH_KEY_STRING, found);
        }
        APR_ARRAY_PUSH(found, struct htc_allow_entry) = entry;
    }
    return hash;
}

/* The strictest of what the modules say that have such a directive. */
static cost_class class_of(const coster *c, const config_line *line, const char **reason)
{
    const apr_array_header_t *found =
        apr_hash_get(c->allowed, lower(c->pool, line->name), APR_HASH_KEY_STRING);
    cost_class worst = COST_KEPT;

    *reason = NULL;
    if (!strncasecmp(line->name, "HtCache", 7))
        return COST_KEPT;
    if (!found) {
        *reason = htc_allow_reason("", line->name);
        return COST_REPLAYED;
    }
    for (int i = 0; i < found->nelts; i++) {
        const struct htc_allow_entry *entry = &APR_ARRAY_IDX(found, i, struct htc_allow_entry);
        enum htc_allow allow = htc_allow_class(entry->module_name, line->name, line->args);
        cost_class class = allow == HTC_ALLOW_SHARE   ? COST_KEPT
                           : allow == HTC_ALLOW_STOCK ? COST_STOCK
                                                      : COST_REPLAYED;

        if (class > worst) {
            worst = class;
            *reason = entry->reason;
        }
    }
    return worst;
}

/* Of directives that are not in the table, those of mod_php are met most. */
static const char *trust_of(const coster *c, const char *name)
{
    char text[512];

    if (apr_hash_get(c->allowed, lower(c->pool, name), APR_HASH_KEY_STRING))
        return "";
    htc_allow_trust(text, sizeof(text), !strncasecmp(name, "php_", 4) ? "mod_php.c" : NULL);
    return apr_pstrcat(c->pool, ". ", text, NULL);
}

static void take_class(coster *c, const config_line *line)
{
    cost_report *report = c->report;
    const char *reason;
    cost_class class = class_of(c, line, &reason);

    if (!c->options->htaccess || class == COST_KEPT)
        return;
    advise(c, line->number,
           apr_psprintf(
               c->pool, "%s %s: %s%s", line->name, reason,
               class == COST_STOCK
                   ? "httpd reads and parses the whole file for each request; move the line to the "
                     "server's configuration"
                   : "each request runs the line, and all others of the file that cannot be told "
                     "apart from it; move the line to the server's configuration, or to a "
                     ".htaccess file where few requests pass",
               trust_of(c, line->name)));
    if (class <= report->class)
        return;
    report->class = class;
    report->class_line = line->number;
    report->class_directive = line->name;
}

/* --- patterns ---------------------------------------------------------------------------------*/

static void take_regex(coster *c, const config_line *line, const char *pattern)
{
    const char *why;

    c->report->regexes++;
    if (*pattern == '!')
        pattern++;
    why = c->options->compile ? c->options->compile(NULL, pattern, 0) : NULL;
    if (why)
        advise(c, line->number,
               apr_psprintf(c->pool, "'%s' cannot be used: %s; httpd answers 500", pattern, why));
}

static void advise_pattern(coster *c, const config_line *line, const char *pattern)
{
    size_t len = strlen(pattern);

    if (*pattern == '!')
        return;
    if (!strncmp(pattern, "^.*", 3) && len > 4)
        advise(c, line->number,
               apr_psprintf(c->pool,
                            "'%s' tries every position of the path, as it begins with '^.*'; leave "
                            "that out, or name what the path begins with",
                            pattern));
    else if (*pattern != '^' && *pattern != '(' && len > 2)
        advise(c, line->number,
               apr_psprintf(c->pool,
                            "'%s' is compared at every position of the path; begin it with '^' if "
                            "it is meant for its beginning, so that it can be looked up",
                            pattern));
}

/* The word of the line, counted from 0, that is a pattern; -1: it has none. */
static int pattern_word(const config_line *line)
{
    static const struct {
        const char *name;
        int word;
    } known[] = {{"RewriteRule", 0},      {"RewriteCond", 1},       {"<FilesMatch", 0},
                 {"<LocationMatch", 0},   {"<DirectoryMatch", 0},   {"AliasMatch", 0},
                 {"ScriptAliasMatch", 0}, {"SetEnvIf", 1},          {"SetEnvIfNoCase", 1},
                 {"BrowserMatch", 0},     {"BrowserMatchNoCase", 0}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!strcasecmp(line->name, known[i].name))
            return known[i].word;
    }
    return -1;
}

static const char *word_at(coster *c, const config_line *line, int n)
{
    const char *args = line->name[0] == '<' ? config_section_args(c->pool, line->args) : line->args;
    const char *word = "";

    for (int i = 0; i <= n; i++)
        word = config_word(c->pool, &args);
    return word;
}

/* --- mod_rewrite and mod_alias ----------------------------------------------------------------*/

static void take_condition(coster *c, const config_line *line)
{
    const char *test = word_at(c, line, 1);
    bool negated = *test == '!';
    const char *letter = test + negated;

    c->report->conditions++;
    if (*letter != '-' || !letter[1] || letter[2]) {
        c->next.regexes++;
        if (!strchr("<>=-", *letter))
            take_regex(c, line, letter);
        return;
    }
    if (!strchr("fdslLhxFU", letter[1]))
        return;
    c->next.disk_tests++;
    c->not_file |= negated && letter[1] == 'f';
    c->not_dir |= negated && letter[1] == 'd';
    if (letter[1] == 'F' || letter[1] == 'U')
        advise(c, line->number,
               apr_psprintf(c->pool,
                            "%s makes a subrequest for each request that gets here; -f asks the "
                            "disk only",
                            test));
    else if (!c->not_file || !c->not_dir)
        advise(c, line->number,
               apr_psprintf(c->pool,
                            "%s asks the disk for each request that gets here, also for images and "
                            "the like; let the RewriteRule's pattern leave those out",
                            test));
}

/* A RewriteRule. In most such files it follows the conditions "!-f" and "!-d". */
static void take_rule(coster *c, const config_line *line)
{
    const char *pattern = word_at(c, line, 0);
    rule_cost *cost = apr_pmemdup(c->pool, &c->next, sizeof(*cost));

    cost->line = line->number;
    cost->regexes++;
    apr_hash_set(c->rules, &cost->line, sizeof(cost->line), cost);
    c->report->rules++;
    take_regex(c, line, pattern);
    if (c->not_file && c->not_dir && (!strcmp(pattern, ".") || !strcmp(pattern, "^")))
        advise(c, line->number,
               apr_psprintf(c->pool,
                            "this front controller works without mod_rewrite: FallbackResource %s "
                            "asks the disk no more than httpd does anyway",
                            word_at(c, line, 1)));
    advise_pattern(c, line, pattern);
    c->not_file = c->not_dir = false;
    memset(&c->next, 0, sizeof(c->next));
}

static void take_redirect(coster *c, const config_line *line)
{
    int alias = redirect_config_alias(line->name), status;

    if (alias < 0)
        return;
    c->report->redirects++;
    if (!strcasecmp(line->name, "RedirectMatch"))
        take_regex(
            c, line,
            word_at(c, line,
                    redirect_config_status(word_at(c, line, 0), &status) != REDIRECT_WORD_SOURCE));
}

static void take_folding(void *baton, redirect_severity severity, uint32_t line, const char *text)
{
    coster *c = baton;
    const rule_cost *cost = apr_hash_get(c->rules, &line, sizeof(line));

    (void)severity;
    if (cost) {
        c->report->request_regexes += cost->regexes;
        c->report->disk_tests += cost->disk_tests;
    }
    if (!strstr(text, "it has conditions"))
        advise(c, line, apr_pstrdup(c->pool, text));
}

/* --- lines ------------------------------------------------------------------------------------*/

static bool names_a_host(const char *args)
{
    while (*args) {
        size_t len = strcspn(args, " \t"), digits = strspn(args, "0123456789.:/abcdefABCDEF");

        if (len && digits < len && strncasecmp(args, "all", len) != 0 &&
            strncasecmp(args, "env=", 4) != 0)
            return true;
        args += len;
        args += strspn(args, " \t");
    }
    return false;
}

static void take_other(coster *c, const config_line *line)
{
    if (!strcasecmp(line->name, "RewriteEngine")) {
        c->engine_on = !strncasecmp(line->args, "on", 2);
        c->engine_line = line->number;
    } else if (!strcasecmp(line->name, "<IfModule") && !c->if_modules++)
        advise(c, line->number,
               "<IfModule> hides it when a module is missing; without it httpd says so (this is "
               "the first)");
    else if (!strcasecmp(line->name, "Require") && !strncasecmp(line->args, "host", 4))
        advise(c, line->number, "Require host asks the DNS for each client; Require ip does not");
    else if ((!strcasecmp(line->name, "Allow") || !strcasecmp(line->name, "Deny")) &&
             !strncasecmp(line->args, "from ", 5) && names_a_host(line->args + 5))
        advise(c, line->number,
               "Allow and Deny with a host's name ask the DNS for each client; addresses do not");
    else if (!strncasecmp(line->name, "Include", 7) && c->options->include)
        c->options->include(c->options->baton, word_at(c, line, 0));
}

static void take_line(coster *c, const config_line *line)
{
    int word = pattern_word(line);

    c->report->directives++;
    take_class(c, line);
    if (!strcasecmp(line->name, "RewriteCond"))
        take_condition(c, line);
    else if (!strcasecmp(line->name, "RewriteRule"))
        take_rule(c, line);
    else if (word >= 0)
        take_regex(c, line, word_at(c, line, word));
    else {
        take_redirect(c, line);
        take_other(c, line);
    }
}

static int compare(const void *a, const void *b)
{
    const cost_advice *x = a, *y = b;

    return x->line < y->line ? -1 : x->line > y->line ? 1 : strcmp(x->text, y->text);
}

/* Weights: running a directive again 2, a regex 1, a question to the disk 10; reading a file 60. */
static void add_up(cost_report *report)
{
    const redirect_config_totals *t = &report->folded;

    report->points = report->request_regexes + 10 * (uint64_t)report->disk_tests;
    report->points += t->redirects_seen - t->redirects_folded;
    if (report->class != COST_KEPT)
        report->points += 2 * (uint64_t)report->directives + report->regexes;
    if (report->class == COST_STOCK)
        report->points += 60;
}

void cost_read(const char *bytes, size_t len, const cost_options *options, cost_report *report,
               apr_pool_t *pool)
{
    config_reader reader = {.at = bytes, .end = bytes + len, .pool = pool};
    coster c = {.options = options, .report = report, .pool = pool};
    config_line line;

    memset(report, 0, sizeof(*report));
    report->advice = apr_array_make(pool, 8, sizeof(cost_advice));
    c.allowed = allow_list(pool);
    c.rules = apr_hash_make(pool);
    while (config_next_line(&reader, &line)) {
        if (line.name[0] != '<' || line.name[1] != '/')
            take_line(&c, &line);
    }
    redirect_config_check(bytes, len, options->htaccess, take_folding, &c, &report->folded, pool);
    if (c.engine_on && !report->rules && options->htaccess)
        advise(&c, c.engine_line,
               "RewriteEngine On without rules: mod_rewrite looks at each request for nothing");
    if (!report->directives && options->htaccess)
        advise(&c, 0, "the file has no directives; without it httpd has one file less to read");
    add_up(report);
    if (report->advice->nelts)
        qsort(report->advice->elts, (size_t)report->advice->nelts, sizeof(cost_advice), compare);
}

const char *cost_class_name(cost_class class)
{
    static const char *const names[] = {"parsed", "replayed", "stock"};

    return names[class];
}
