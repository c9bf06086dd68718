/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A list of RewriteRules, run as mod_rewrite runs it, as far as path, query, host and the files
 * that there are decide what comes of it; nothing is asked that a person could not look up. Called
 * by explain/rewrite.c.
 */
#include "explain/internal.h"

#include "http_vhost.h"

#include "apr_uri.h"

typedef enum verdict { IS_NO, IS_YES, IS_MAYBE } verdict;

/* What "$1" or "%1" stand for; without a source for nothing. */
typedef struct groups {
    const char *source;
    ap_regmatch_t match[AP_MAX_REG_MATCH];
} groups;

/* A rule that is tried. */
typedef struct trial {
    explain *e;
    explain_run *run;
    const explain_rewrite_rule *one;
    groups rule, condition;
    bool condition_unknown; /* the groups of conditions depend on more than is known here */
} trial;

static void note_rule(const trial *t, const char *what)
{
    explain_note_unsure(t->e, "RewriteRule in %s line %d %s.", t->one->node->filename,
                        t->one->node->line_num, what);
}

/* --- strings ----------------------------------------------------------------------------------*/

/* NULL: it is not known here. */
static const char *variable(const trial *t, const char *name, size_t len)
{
    const core_server_config *core = ap_get_core_module_config(t->e->server->module_config);
    const struct {
        const char *name, *value;
    } known[] = {
        {"REQUEST_URI", t->e->r->uri},
        {"QUERY_STRING", t->run->args ? t->run->args : ""},
        {"REQUEST_FILENAME", t->run->filename},
        {"SCRIPT_FILENAME", t->run->filename},
        {"DOCUMENT_ROOT", core->ap_document_root},
        {"HTTP_HOST", t->e->host_header ? apr_table_get(t->e->r->headers_in, "Host") : NULL}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strlen(known[i].name) == len && !strncmp(name, known[i].name, len))
            return known[i].value;
    }
    return NULL;
}

static const char *group_of(const trial *t, const groups *g, int n)
{
    return g->source && n < AP_MAX_REG_MATCH && g->match[n].rm_eo > g->match[n].rm_so
               ? apr_pstrmemdup(t->e->pool, g->source + g->match[n].rm_so,
                                (apr_size_t)(g->match[n].rm_eo - g->match[n].rm_so))
               : "";
}

/* Read the variable at *at, which is moved behind it. NULL: it is not known here. */
static const char *expand_one(const trial *t, const char **at)
{
    const char *s = *at, *end;

    if (s[0] == '\\' || (s[1] != '{' && !apr_isdigit(s[1]))) {
        s += s[0] == '\\' && s[1];
        *at = s + 1;
        return apr_pstrmemdup(t->e->pool, s, 1);
    }
    if (s[1] == '{') {
        end = strchr(s, '}');
        if (*s == '$' || !end)
            return NULL;
        *at = end + 1;
        return variable(t, s + 2, (size_t)(end - s) - 2);
    }
    *at = s + 2;
    if (*s == '%' && t->condition_unknown)
        return NULL;
    return group_of(t, *s == '$' ? &t->rule : &t->condition, s[1] - '0');
}

/* With variables and groups in it. NULL: it is not known here, too long, or (@a safe) mod_rewrite may
 * refuse it for a "?" that came out of one. */
static const char *expand(const trial *t, const char *text, bool safe)
{
    apr_array_header_t *parts = apr_array_make(t->e->pool, 8, sizeof(struct iovec));
    size_t len = 0, max = 2 * (size_t)t->e->server->limit_req_line; /* of mod_rewrite's */
    bool has_query = false;

    while (*text && explain_goes_on(t->e)) {
        size_t plain = strcspn(text, "\\$%");
        const char *part = plain ? apr_pstrmemdup(t->e->pool, text, plain) : expand_one(t, &text);
        struct iovec *one;

        text += plain;
        if (!part || (safe && !plain && strchr(part, '?') && !has_query))
            return NULL;
        one = apr_array_push(parts);
        *one = (struct iovec){.iov_base = (char *)part, .iov_len = strlen(part)};
        has_query = has_query || strchr(part, '?');
        len += one->iov_len;
        explain_charge(t->e, one->iov_len);
        if (len > max) {
            note_rule(t, "or a condition of it makes a text that is longer than httpd lets a path "
                         "become");
            return NULL;
        }
    }
    return *text ? NULL
                 : apr_pstrcatv(t->e->pool, (struct iovec *)parts->elts, (apr_size_t)parts->nelts,
                                NULL);
}

/* As mod_rewrite's subst_prefix_path(). */
const char *explain_replace_prefix(const explain *e, const char *path, const char *from,
                                   const char *to)
{
    size_t len = strlen(from), tail = strlen(to);

    len -= len && from[len - 1] == '/';
    if (strncmp(path, from, len) != 0 || path[len] != '/')
        return path;
    return apr_pstrcat(e->pool, to, tail && to[tail - 1] != '/' ? "/" : "", path + len + 1, NULL);
}

/* --- conditions -------------------------------------------------------------------------------*/

typedef struct condition {
    const char *test, *pattern;
    bool negated, nocase, ornext;
} condition;

/* False: it has flags that are not known here. */
static bool read_condition(const trial *t, const char *args, condition *c)
{
    bool closed, known;
    unsigned flags;

    *c = (condition){.test = redirect_config_word(t->e->pool, &args, &closed)};
    c->pattern = redirect_config_word(t->e->pool, &args, &closed);
    c->negated = *c->pattern == '!';
    c->pattern += c->negated;
    known = redirect_config_condition_flags(args, &flags, t->e->pool);
    c->nocase = (flags & REWRITE_CONDITION_NOCASE) != 0;
    c->ornext = (flags & REWRITE_CONDITION_ORNEXT) != 0;
    return known;
}

static verdict is_file(const trial *t, const char *file, apr_filetype_e type)
{
    apr_finfo_t finfo;

    if (*file != '/')
        return IS_MAYBE;
    return apr_stat(&finfo, file, APR_FINFO_TYPE, t->e->pool) == APR_SUCCESS &&
                   finfo.filetype == type
               ? IS_YES
               : IS_NO;
}

static verdict is_match(trial *t, const condition *c, const char *input)
{
    groups g = {.source = input};
    explain_verdict v = explain_match(t->e, c->pattern, c->nocase ? AP_REG_ICASE : 0, input,
                                      AP_MAX_REG_MATCH, g.match);

    if (v != EXPLAIN_YES)
        return v == EXPLAIN_NO ? IS_NO : IS_MAYBE;
    if (!c->negated)
        t->condition = g;
    return IS_YES;
}

static verdict compare(trial *t, const condition *c)
{
    const char *p = c->pattern, *input = expand(t, c->test, false);

    if (!input || !strcasecmp(c->test, "expr"))
        return IS_MAYBE;
    if (!strcmp(p, "-f"))
        return is_file(t, input, APR_REG);
    if (!strcmp(p, "-d"))
        return is_file(t, input, APR_DIR);
    if (*p && p[1] && strchr("-<>", *p))
        return IS_MAYBE;
    if (*p == '=' && p[1]) {
        p = strcmp(p, "=\"\"") ? p + 1 : "";
        return (c->nocase ? strcasecmp(input, p) : strcmp(input, p)) ? IS_NO : IS_YES;
    }
    return is_match(t, c, input);
}

static verdict judge_condition(trial *t, const char *args, bool *ornext)
{
    condition c;
    verdict v = IS_MAYBE;

    if (read_condition(t, args, &c))
        v = compare(t, &c);
    *ornext = c.ornext;
    t->condition_unknown = t->condition_unknown || v == IS_MAYBE;
    return !c.negated || v == IS_MAYBE ? v : v == IS_YES ? IS_NO : IS_YES;
}

/* A condition with OR that holds ends its group; without one that does, the last decides. */
static verdict judge_conditions(trial *t)
{
    const explain_rewrite_rule *one = t->one;
    verdict all = IS_YES;
    bool unknown = false; /* one of the group */

    for (unsigned i = 0; i < one->nconditions; i++) {
        bool ornext;
        verdict v = judge_condition(t, one->conditions[i], &ornext);

        if (ornext && v != IS_YES) {
            unknown = unknown || v == IS_MAYBE;
            continue;
        }
        while (ornext && i + 1 < one->nconditions) {
            condition next;

            read_condition(t, one->conditions[++i], &next);
            ornext = next.ornext;
        }
        if (v == IS_NO && !unknown)
            return IS_NO;
        if (v != IS_YES)
            all = IS_MAYBE;
        unknown = false;
    }
    return all;
}

/* --- a rule -----------------------------------------------------------------------------------*/

/* What its pattern is compared with. */
static const char *subject_of(const explain *e, explain_run *run)
{
    size_t len = run->directory ? strlen(run->directory) : 0;
    const char *subject = run->filename;

    if (run->subject)
        return run->subject;
    if (run->directory && run->path_info)
        subject = apr_pstrcat(e->pool, subject, run->path_info, NULL);
    run->subject = len && !strncmp(subject, run->directory, len) ? subject + len : subject;
    return run->subject;
}

static bool pattern_matches(const explain *e, const rewrite_rule *rule, const char *subject,
                            groups *g)
{
    bool negated = *rule->pattern == '!';

    g->source = negated ? NULL : subject;
    return explain_match(e, rule->pattern + negated,
                         rule->flags & REWRITE_NOCASE ? AP_REG_ICASE : 0, subject, AP_MAX_REG_MATCH,
                         g->match) == (negated ? EXPLAIN_NO : EXPLAIN_YES);
}

static verdict judge(trial *t)
{
    const rewrite_rule *rule = t->one->rule;

    if (!rule->pattern || !rule->output ||
        !pattern_matches(t->e, rule, subject_of(t->e, t->run), &t->rule))
        return IS_NO;
    return judge_conditions(t);
}

static bool substitutes(const rewrite_rule *rule)
{
    return !(rule->flags & REWRITE_STATUS) && strcmp(rule->output, "-") != 0;
}

static bool is_http(const char *url)
{
    return !strncasecmp(url, "http://", 7) || !strncasecmp(url, "https://", 8);
}

/* The status of a rule that ends the request; 0: the request goes on. */
static int status_of(const rewrite_rule *rule)
{
    if (rule->flags & REWRITE_STATUS)
        return rule->status;
    if (!substitutes(rule))
        return 0;
    if (rule->flags & REWRITE_REDIRECT)
        return rule->status ? rule->status : HTTP_MOVED_TEMPORARILY;
    return ap_is_url(rule->output) ? HTTP_MOVED_TEMPORARILY : 0;
}

/* A URL of this virtual host is made a path again, unless R stands there. */
static bool is_own_url(const explain *e, const char *url)
{
    apr_uri_t uri;

    if (apr_uri_parse(e->pool, url, &uri) != APR_SUCCESS || !uri.hostname)
        return true;
    return ap_matches_request_vhost(e->r, uri.hostname,
                                    uri.port ? uri.port : apr_uri_port_of_scheme(uri.scheme)) != 0;
}

/* The substitution's query, or what was asked for, or both. False: it is not known here. */
static bool split_query(const explain *e, explain_run *run, const rewrite_rule *rule,
                        const char **path, bool drops)
{
    const char *mark = strchr(*path, '?');
    char *args;

    drops = drops || (rule->flags & REWRITE_QSDISCARD && !strchr(rule->output, '?'));
    if (drops)
        run->args = NULL;
    if (!mark || drops)
        return !mark;
    args = apr_pstrdup(e->pool, mark + 1);
    *path = apr_pstrmemdup(e->pool, *path, (apr_size_t)(mark - *path));
    if (rule->flags & REWRITE_QSDISCARD)
        run->args = NULL;
    if (rule->flags & REWRITE_QSAPPEND) {
        if (!*args)
            return true;
        args = apr_pstrcat(e->pool, args, "&", run->args, NULL);
        explain_charge(e, strlen(args));
    }
    if (*args && args[strlen(args) - 1] == '&')
        args[strlen(args) - 1] = '\0';
    run->args = *args ? args : NULL;
    return true;
}

/* NULL: what the substitution comes to is not known here. *drops: it ends in "?". */
static const char *substitution(const trial *t, bool *drops)
{
    const rewrite_rule *rule = t->one->rule;
    const char *output = rule->output, *path;
    size_t len = strlen(output);

    *drops = rule->drops_query || (len && output[len - 1] == '?');
    if (len && output[len - 1] == '?')
        output = apr_pstrmemdup(t->e->pool, output, len - 1);
    if ((*drops && (rule->flags & REWRITE_QSAPPEND)) || !strncmp(output, "//", 2))
        return NULL;
    path = expand(t, output, true);
    /* Whatever else has a colon first might be a URL of some other kind. */
    return path && *path && (is_http(path) || path[strcspn(path, "/:")] != ':') ? path : NULL;
}

/* Carry the substitution out. False: it is not known here, and nothing has changed. */
static bool substitute(const trial *t, explain_run *run)
{
    const explain *e = t->e;
    const rewrite_rule *rule = t->one->rule;
    bool drops, forced = (rule->flags & REWRITE_REDIRECT) != 0;
    const char *path = substitution(t, &drops), *args = run->args;

    if (!path || (is_http(path) && !forced && is_own_url(e, path)))
        return false;
    if (*path != '/' && !is_http(path))
        path = apr_pstrcat(e->pool, run->directory ? run->directory : "/", path, NULL);
    if (!split_query(e, run, rule, &path, drops)) {
        run->args = args;
        return false;
    }
    while (path[0] == '/' && path[1] == '/')
        path++;
    run->absolute = forced || is_http(path);
    run->filename = forced && !is_http(path) ? ap_construct_url(e->pool, path, e->r) : path;
    run->subject = NULL;
    run->noescape = (rule->flags & REWRITE_NOESCAPE) != 0;
    run->changed = true;
    run->last = t->one;
    return true;
}

/* As mod_rewrite completes it. */
static const char *location_of(const explain *e, const explain_run *run)
{
    const char *url = run->filename, *slash = strchr(strstr(url, "://") + 3, '/'),
               *args = run->args;

    if (slash && slash[1]) {
        const char *path = slash + 1;

        if (run->base)
            path = explain_replace_prefix(e, path, run->directory + 1, run->base + 1);
        if (!run->noescape)
            path = ap_escape_uri(e->pool, path);
        url = apr_pstrcat(e->pool, apr_pstrmemdup(e->pool, url, (apr_size_t)(slash - url) + 1),
                          path, NULL);
    }
    if (!args)
        return url;
    if (!run->noescape && !(e->query && !strcmp(args, e->query)))
        args = ap_escape_uri(e->pool, args);
    return apr_pstrcat(e->pool, url, "?", args, NULL);
}

static void add_row(const trial *t, int status, const char *location, bool unsure)
{
    explain_add_rule(t->e, &(explain_line){.kind = "RewriteRule",
                                           .node = t->one->node,
                                           .server = !t->run->directory,
                                           .rule = t->one->rule->pattern,
                                           .target = t->one->rule->output,
                                           .location = location,
                                           .status = status,
                                           .conditions = t->one->nconditions,
                                           .unsure = unsure,
                                           .folded = t->one->folded});
}

/* Nobody here knows whether it is carried out: go on as if it were not. */
static void add_doubtful(const trial *t)
{
    explain_run copy = *t->run;
    const rewrite_rule *rule = t->one->rule;
    const char *location = NULL;
    int status = status_of(rule);

    if (substitutes(rule) && substitute(t, &copy) && copy.absolute)
        location = location_of(t->e, &copy);
    add_row(t, status, location, true);
    if (substitutes(rule) && !status)
        note_rule(t, "may rewrite the path: its conditions, or a chain or skip before it, depend "
                     "on more than the URL; what follows assumes that it does not");
}

static bool stop(const trial *t, const char *why)
{
    add_row(t, 0, NULL, false);
    note_rule(t, why);
    t->run->stopped = true;
    return false;
}

/* It redirects, and with no L behind it another rule may still change that. */
static bool redirect_by(const trial *t, const explain_rewrite_rule *behind, int n)
{
    const char *subject = subject_of(t->e, t->run);
    bool ends = t->one->rule->flags & (REWRITE_LAST | REWRITE_END | REWRITE_PASSTHROUGH);
    groups g;

    for (int i = 0; !ends && i < n && explain_goes_on(t->e); i++) {
        if (behind[i].rule->pattern && pattern_matches(t->e, behind[i].rule, subject, &g)) {
            note_rule(t, "has no L, and a rule behind it matches what it makes");
            break;
        }
    }
    if (t->one->rule->flags & REWRITE_PASSTHROUGH)
        note_rule(t, "has PT beside a redirect, which is not looked into");
    add_row(t, status_of(t->one->rule) ? status_of(t->one->rule) : HTTP_MOVED_TEMPORARILY,
            location_of(t->e, t->run), false);
    return false;
}

/* A rule that matches. False: those behind it are not tried. */
static bool carry_out(const trial *t, const explain_rewrite_rule *behind, int n)
{
    const rewrite_rule *rule = t->one->rule;
    bool odd = (rule->flags & REWRITE_OTHER) != 0;
    bool forced = (rule->flags & REWRITE_REDIRECT) != 0;

    if ((rule->flags & REWRITE_NEXT) || (odd && substitutes(rule) && !forced))
        return stop(t, "matches, but has a flag that is not looked into, and so what follows is "
                       "not, either");
    if (odd)
        note_rule(t, "has a flag that is not looked into");
    if (rule->flags & REWRITE_STATUS) {
        add_row(t, status_of(rule), NULL, false);
        return false;
    }
    if (substitutes(rule) && !substitute(t, t->run)) {
        if (!forced)
            return stop(t, "rewrites the path to what depends on more than the URL, and so what "
                           "follows is not looked into");
        note_rule(t, "redirects to what depends on more than the URL");
        add_row(t, status_of(rule), NULL, false);
        return false;
    }
    if (substitutes(rule) && t->run->absolute)
        return redirect_by(t, behind, n);
    add_row(t, 0, NULL, false);
    if (rule->flags & REWRITE_END)
        t->e->rewrite_end = true;
    t->run->passed = (rule->flags & REWRITE_PASSTHROUGH) != 0;
    return !(rule->flags & (REWRITE_LAST | REWRITE_END | REWRITE_PASSTHROUGH));
}

/* The number of rules behind this one that its chain or skip decides on. */
static int counted_by(const explain_rewrite_rule *rules, int n, int i)
{
    int chained = 0;

    while (i + chained < n - 1 && rules[i + chained].rule->flags & REWRITE_CHAIN)
        chained++;
    return rules[i].rule->skip > chained && rules[i].rule->flags & REWRITE_SKIP
               ? rules[i].rule->skip
               : chained;
}

void explain_run_rules(explain *e, explain_run *run, const explain_rewrite_rule *rules, int n)
{
    int doubt = 0; /* rules that are tried or not, not known here */

    for (int i = 0; i < n; i++) {
        trial t = {.e = e, .run = run, .one = &rules[i]};
        bool doubtful = doubt > 0;
        verdict v;

        if (!explain_goes_on(e)) {
            run->stopped = true;
            return;
        }
        doubt -= doubtful;
        if (e->subrequest && rules[i].rule->flags & REWRITE_PASSED_OVER)
            continue;
        v = judge(&t);
        if (v == IS_MAYBE || doubtful) {
            int counted = counted_by(rules, n, i);

            doubt = counted > doubt ? counted : doubt;
            if (v != IS_NO)
                add_doubtful(&t);
        } else if (v == IS_NO) {
            while (i < n - 1 && rules[i].rule->flags & REWRITE_CHAIN)
                i++;
        } else if (!carry_out(&t, rules + i + 1, n - i - 1)) {
            return;
        } else if (rules[i].rule->flags & REWRITE_SKIP) {
            i = rules[i].rule->skip < n - i ? i + rules[i].rule->skip : n;
        }
    }
}
