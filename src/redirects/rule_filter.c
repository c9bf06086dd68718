/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Standing in for mod_rewrite's hooks: a request whose path no rule can match is done without them,
 * and one in a directory runs the few rules that may match, with mod_rewrite as the engine and the
 * rules as it keeps them. As long as no pattern matches, mod_rewrite changes nothing, so leaving
 * such rules out is what trying them would have come to. Called by httpd for each request.
 */
#include "base/base.h"
#include "redirects/fold.h"
#include "redirects/rule_filter.h"
#include "redirects/header_tests.h"
#include "redirects/fold_track.h"
#include "redirects/map.h"

#include "redirect_table.h"

#include "http_main.h"
#include "http_protocol.h"

#define SHORT_MAX  24 /* literals: fewer are compared one after the other */
#define PICKED_MAX 12 /* rules for a request; with more, all behind the last one are tried */
/* A rule whose pattern matches, and a condition does not, costs mod_rewrite as much as so many
 * whose patterns do not, beside its own. */
#define CONDITION_SAVES REDIRECT_CONFIG_CONDITION_SAVES

/* Something of which a rule's matches begin, consist or have in them. */
typedef struct filter_literal {
    const char *text;
    size_t len;
    int rule;
    enum { LITERAL_WHOLE, LITERAL_PREFIX, LITERAL_INSIDE } kind;
    bool caseless;
} filter_literal;

struct htc_rule_filter {
    const redirect_table *table;            /* NULL: few literals */
    const redirect_prefix_filter *prefixes; /* of the table, or NULL */
    const filter_literal *literals;
    int nliterals;
    const int *any; /* rules that any path may match, ascending */
    int nany;
    const uint8_t *effects;        /* rewrite_effect of each rule */
    const htc_header_tests *tests; /* or NULL */
    int expected;
    bool in_dir;
    bool whole; /* only all rules or none: they begin again, or ask what another path comes to */
    /* A chain may begin with a rule that subrequests pass over. mod_rewrite then tries its second
     * rule by itself. */
    bool loose_chains;

    /* Facts about mod_rewrite, once it has read the rules. */
    const apr_array_header_t *rules;
};

/* --- making a filter ---------------------------------------------------------------------------*/

static filter_literal literal_of(const rewrite_rule *rule, unsigned i, int number, apr_pool_t *pool)
{
    const redirect_regex_facts *facts = &rule->facts;
    const redirect_regex_string *string = &facts->strings[i];
    filter_literal made = {apr_pstrmemdup(pool, string->text, string->len), string->len, number,
                           LITERAL_PREFIX, facts->caseless};

    if (facts->kind == REDIRECT_REGEX_FLOATING)
        made.kind = LITERAL_INSIDE;
    else if (facts->kind >= REDIRECT_REGEX_FINITE_MIXED && !string->rest)
        made.kind = LITERAL_WHOLE;
    return made;
}

/* With its number for a pattern, so that rules with the same literal are not taken for the same. */
static redirect_outcome add_to_table(redirect_builder *builder, const filter_literal *literal)
{
    char number[16];
    redirect_rule rule = {.kind = REDIRECT_LITERAL_PREFIX,
                          .status = HTTP_MOVED_TEMPORARILY,
                          .source = literal->text,
                          .source_len = literal->len,
                          .flags = literal->caseless ? REDIRECT_ICASE : 0,
                          .pattern = number,
                          .line = (uint32_t)literal->rule};

    rule.pattern_len = (size_t)apr_snprintf(number, sizeof(number), "%d", literal->rule);

    if (literal->kind == LITERAL_WHOLE)
        rule.kind = REDIRECT_LITERAL;
    if (literal->kind == LITERAL_INSIDE) {
        rule.kind = REDIRECT_PATTERN;
        rule.flags |= REDIRECT_FLOATING;
    }
    return redirect_builder_add(builder, &rule);
}

static bool make_table(htc_rule_filter *filter, apr_pool_t *pool)
{
    redirect_builder *builder = redirect_builder_create((size_t)filter->nliterals, 0);
    redirect_prefix_filter *prefixes =
        redirect_prefix_filter_create((size_t)filter->nliterals, pool);
    redirect_outcome outcome = builder ? REDIRECT_ADDED : REDIRECT_NO_MEMORY;

    for (int i = 0; i < filter->nliterals && outcome == REDIRECT_ADDED; i++) {
        const filter_literal *literal = &filter->literals[i];

        outcome = add_to_table(builder, literal);
        if (literal->kind == LITERAL_INSIDE)
            redirect_prefix_filter_open(prefixes);
        else
            redirect_prefix_filter_add(prefixes, literal->text, literal->len,
                                       literal->kind == LITERAL_WHOLE);
    }
    filter->prefixes = prefixes;
    filter->table = htc_fold_finish_table(builder, outcome, pool);
    return filter->table != NULL;
}

/* Into `scratch` what a table is made of, which has copies of it; into the filter's pool what is
 * compared one after the other. */
static bool add_literals(htc_rule_filter *filter, const rewrite_rule *rules, size_t n,
                         apr_pool_t *pool)
{
    apr_array_header_t *found;
    apr_pool_t *scratch;
    bool good = true;

    apr_pool_create(&scratch, pool);
    found = apr_array_make(scratch, 64, sizeof(filter_literal));
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; !rules[i].any && !rules[i].follows && k < rules[i].facts.count; k++)
            APR_ARRAY_PUSH(found, filter_literal) = literal_of(&rules[i], k, (int)i, scratch);
    }
    filter->nliterals = found->nelts;
    filter->literals = (const filter_literal *)found->elts;
    if (found->nelts > SHORT_MAX) {
        good = make_table(filter, pool);
        filter->literals = NULL;
    } else {
        filter_literal *kept = apr_pmemdup(pool, found->elts, sizeof(*kept) * (size_t)found->nelts);

        for (int i = 0; i < found->nelts; i++)
            kept[i].text = apr_pstrmemdup(pool, kept[i].text, kept[i].len);
        filter->literals = kept;
    }
    apr_pool_destroy(scratch);
    return good;
}

htc_rule_filter *htc_rule_filter_create(const rewrite_rule *rules, size_t n, size_t expected,
                                        bool in_dir, bool plain, apr_pool_t *pool)
{
    htc_rule_filter *filter = apr_pcalloc(pool, sizeof(*filter));
    uint8_t *effects = apr_palloc(pool, n);
    int *any = apr_palloc(pool, n * sizeof(*any));

    filter->in_dir = in_dir;
    filter->whole = !plain;
    filter->expected = (int)expected;
    filter->effects = effects;
    filter->any = any;
    for (size_t i = 0; i < n; i++) {
        effects[i] = (uint8_t)rules[i].effect;
        filter->whole = filter->whole || (rules[i].flags & REWRITE_NEXT);
        filter->loose_chains = filter->loose_chains || (rules[i].flags & REWRITE_CHAIN &&
                                                        rules[i].flags & REWRITE_PASSED_OVER);
        if (rules[i].any && !rules[i].follows)
            any[filter->nany++] = (int)i;
    }
    if (in_dir)
        filter->tests = htc_header_tests_create(rules, n, pool);
    return add_literals(filter, rules, n, pool) ? filter : NULL;
}

const char *htc_rule_filter_id(const htc_rule_filter *filter, apr_pool_t *pool)
{
    return apr_psprintf(pool, "%" APR_UINT64_T_HEX_FMT, (apr_uint64_t)(uintptr_t)filter);
}

/* The line stands behind the rules, so mod_rewrite has them by now. */
const char *htc_rule_filter_directive(cmd_parms *cmd, void *dir_conf, const char *args)
{
    const htc_rewrite *rewrite = htc_options_get()->rewrite;
    htc_rule_filter *filter;

    if (!htc_fold_made(cmd))
        return htc_refuse_private(cmd);
    filter = (htc_rule_filter *)(uintptr_t)apr_strtoi64(args, NULL, 16);
    if (filter->in_dir && cmd->path) {
        const htc_rewrite_dir *conf =
            ap_get_module_config((ap_conf_vector_t *)cmd->context, rewrite->module);

        if (!conf || conf->rules->nelts != filter->expected || !conf->directory)
            return NULL;
        filter->rules = conf->rules;
        ((htc_dir_conf *)dir_conf)->filter = filter;
    } else if (!filter->in_dir && !cmd->path) {
        const htc_rewrite_server *conf =
            ap_get_module_config(cmd->server->module_config, rewrite->module);

        if (!conf || conf->rules->nelts != filter->expected)
            return NULL;
        filter->rules = conf->rules;
        htc_server_conf_of(cmd->server)->own.filter = filter;
    }
    return NULL;
}

/* --- looking up -------------------------------------------------------------------------------*/

/* The rules of a request, ascending; from `tail` on all that there are. */
typedef struct picked {
    int n, tail;
    int saved; /* what it spares mod_rewrite, in patterns that do not match */
    int rules[PICKED_MAX];
} picked;

static bool admits(const filter_literal *literal, const char *path, size_t len)
{
    if (literal->kind == LITERAL_INSIDE)
        return literal->caseless ? htc_holds_caseless(path, literal->text, literal->len)
                                 : strstr(path, literal->text) != NULL;
    if (len < literal->len || (literal->kind == LITERAL_WHOLE && len > literal->len + 1))
        return false;
    return literal->caseless ? htc_begins_caseless(path, literal->text, literal->len)
                             : !memcmp(path, literal->text, literal->len);
}

bool htc_pattern_may_match(void *baton, uint32_t id, const char *pattern, unsigned flags,
                           const char *subject, size_t len)
{
    (void)baton;
    (void)id;
    (void)pattern;
    (void)flags;
    (void)subject;
    (void)len;
    return true;
}

/* The place of a walk over the rules that a look-up finds. */
typedef struct walk {
    const htc_rule_filter *filter;
    const char *path;
    size_t len;
    int literal;
    uint32_t from;
} walk;

#define NO_RULE INT_MAX

static int next_found(walk *w, int behind)
{
    const htc_rule_filter *filter = w->filter;
    redirect_request asked = {.path = w->path, .path_len = w->len, .regex = htc_pattern_may_match};
    redirect_match match;
    int rule;

    while (!filter->table && w->literal < filter->nliterals) {
        const filter_literal *literal = &filter->literals[w->literal++];

        if (literal->rule > behind && admits(literal, w->path, w->len))
            return literal->rule;
    }
    while (filter->table && redirect_table_lookup(filter->table, &asked, w->from, &match)) {
        w->from = match.rule + 1;
        rule = (int)redirect_table_line(filter->table, match.rule, NULL);
        if (rule > behind)
            return rule;
    }
    return NO_RULE;
}

static int first_found(walk *w)
{
    const redirect_prefix_filter *prefixes = w->filter->prefixes;

    return prefixes && !redirect_prefix_filter_passes(prefixes, w->path, w->len)
               ? NO_RULE
               : next_found(w, -1);
}

static bool pick(const htc_rule_filter *filter, const request_rec *r, const char *path, size_t len,
                 picked *out)
{
    htc_header_state state = {.r = r};
    walk w = {.filter = filter, .path = path, .len = len};
    int found = first_found(&w), any = 0;

    out->n = 0;
    out->saved = 0;
    out->tail = filter->expected;
    while (true) {
        int tried = any < filter->nany ? filter->any[any] : NO_RULE;
        int rule = found < tried ? found : tried;

        if (rule == NO_RULE)
            break;
        if (!htc_header_tests_hold(filter->tests, rule, &state)) {
            out->saved += CONDITION_SAVES;
        } else if (out->n == PICKED_MAX || filter->effects[rule] == REWRITE_CHANGES) {
            out->tail = rule;
            break;
        } else {
            out->rules[out->n++] = rule;
        }
        if (rule == found)
            found = next_found(&w, rule);
        else
            any++;
    }
    out->saved += out->tail - out->n;
    return out->n > 0 || out->tail < filter->expected;
}

/* True when there is a rule that the path may match. */
static bool any_rule(const htc_rule_filter *filter, const char *path, size_t len)
{
    walk w = {.filter = filter, .path = path, .len = len};

    return filter->nany > 0 || first_found(&w) != NO_RULE;
}

/* --- a request in a directory -----------------------------------------------------------------*/

static HTC_HOT bool logs(const request_rec *r, const htc_rewrite *rewrite)
{
    return APLOG_R_MODULE_IS_LEVEL(r, rewrite->module->module_index, APLOG_TRACE1);
}

/* The path that the rules are matched against, as mod_rewrite makes it. */
static const char *subject_of(request_rec *r, const char *directory, size_t *len)
{
    const char *path = r->filename;
    size_t above = strlen(directory);

    if (r->path_info && *r->path_info)
        path = apr_pstrcat(r->pool, path, r->path_info, NULL);
    *len = strlen(path);
    if (*len >= above && !memcmp(path, directory, above)) {
        path += above;
        *len -= above;
    }
    return path;
}

/* mod_rewrite's array with these rules only. It looks at the one behind the last when that one has
 * C, so there must be one. */
static apr_array_header_t *some_rules(const htc_rule_filter *filter, const picked *some,
                                      apr_pool_t *pool)
{
    const apr_array_header_t *all = filter->rules;
    apr_array_header_t *made = apr_pmemdup(pool, all, sizeof(*all));
    size_t size = (size_t)all->elt_size;
    char *to;

    made->pool = pool;
    made->nelts = some->n + all->nelts - some->tail;
    made->nalloc = made->nelts + 1;
    to = made->elts = apr_palloc(pool, size * (size_t)made->nalloc);
    for (int i = 0; i < some->n; i++, to += size)
        memcpy(to, all->elts + size * (size_t)some->rules[i], size);
    memcpy(to, all->elts + size * (size_t)some->tail, size * (size_t)(all->nelts - some->tail));
    memset(made->elts + size * (size_t)made->nelts, 0, size);
    return made;
}

/* mod_rewrite's own hook, as if these were all the rules. */
static int run_some(request_rec *r, const htc_rewrite *rewrite, const htc_rule_filter *filter,
                    const picked *some)
{
    ap_conf_vector_t *all = r->per_dir_config, *vector = ap_create_per_dir_config(r->pool);
    htc_rewrite_dir *conf = rewrite->module->merge_dir_config(
        r->pool, rewrite->blank, ap_get_module_config(all, rewrite->module));
    int status;

    if (conf->state != rewrite->enabled)
        return rewrite->fixup(r);
    conf->rules = some_rules(filter, some, r->pool);
    memcpy(vector, all, htc_options_get()->vector_bytes);
    ap_set_module_config(vector, rewrite->module, conf);
    r->per_dir_config = vector;
    status = rewrite->fixup(r);
    if (r->per_dir_config == vector)
        r->per_dir_config = all;
    return status;
}

/* Few rules left out do not pay for a list of those that are left. */
#define WORTHWHILE REDIRECT_CONFIG_MIN_PICKED

/* Not inlined: most requests have no filter, and need nothing of what is prepared here. */
static HTC_HOT HTC_APART int run_fixup(request_rec *r, const htc_rewrite *rewrite,
                                       const htc_rule_filter *filter)
{
    const htc_rewrite_dir *conf;
    const char *subject;
    picked some;
    size_t len;

    conf = ap_get_module_config(r->per_dir_config, rewrite->module);
    if (!conf || conf->rules != filter->rules || conf->rules->nelts != filter->expected ||
        conf->state != rewrite->enabled || !r->filename || r->proxyreq || logs(r, rewrite) ||
        (filter->loose_chains && r->main) ||
        !(ap_allow_options(r) & (OPT_SYM_LINKS | OPT_SYM_OWNER)))
        return rewrite->fixup(r);
    subject = subject_of(r, conf->directory, &len);
    if (!pick(filter, r, subject, len, &some))
        return DECLINED;
    if (filter->whole || some.saved < WORTHWHILE)
        return rewrite->fixup(r);
    return run_some(r, rewrite, filter, &some);
}

static HTC_EACH int filter_fixup(request_rec *r)
{
    const htc_rewrite *rewrite = htc_server_conf_of(r->server)->rewrite;
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);
    int status = dc && dc->filter ? run_fixup(r, rewrite, dc->filter) : rewrite->fixup(r);

    if (status != DECLINED && status != OK)
        htc_track_answered(r, status, true);
    return status;
}

/* --- a request in a server --------------------------------------------------------------------*/

/* mod_rewrite would be asked about the path for the first time, of a request of a client. */
static bool begins(request_rec *r, const htc_rewrite *rewrite, const htc_rule_filter *filter)
{
    const htc_rewrite_server *conf =
        ap_get_module_config(r->server->module_config, rewrite->module);
    const htc_rewrite_dir *dir = ap_get_module_config(r->per_dir_config, rewrite->module);
    void *ended = NULL;

    if (!conf || conf->rules != filter->rules || conf->rules->nelts != filter->expected ||
        conf->server != r->server || !dir || dir->state != rewrite->enabled || r->main ||
        r->filename || !r->uri || *r->uri != '/' || *r->unparsed_uri == '*' || logs(r, rewrite))
        return false;
    apr_pool_userdata_get(&ended, "rewrite_really_last", r->pool);
    return !ended && !apr_table_get(r->notes, "mod_rewrite_rewritten");
}

/* ":8080", or nothing for the port that the scheme implies. */
static size_t port_text(request_rec *r, char *to)
{
    apr_port_t port = ap_get_server_port(r);
    char digits[8];
    size_t n = 0, len = 0;

    if (ap_is_default_port(port, r))
        return 0;
    do
        digits[n++] = (char)('0' + port % 10);
    while ((port /= 10) && n < sizeof(digits));
    to[len++] = ':';
    while (n)
        to[len++] = digits[--n];
    return len;
}

static char *append(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

/* As apr_table_setn(), which looks for the key even where there is none. */
static void set_variable(apr_table_t *table, const char *key, const char *value)
{
    if (apr_is_empty_table(table))
        apr_table_addn(table, key, value);
    else
        apr_table_setn(table, key, value);
}

/* Leave the request as mod_rewrite leaves one that none of its rules matches. */
static void leave_traces(request_rec *r)
{
    bool blank = apr_is_empty_table(r->subprocess_env);
    const char *url = blank ? NULL : apr_table_get(r->subprocess_env, "REDIRECT_SCRIPT_URL");
    const char *scheme = ap_http_scheme(r), *name = ap_get_server_name_for_url(r);
    size_t scheme_len = strlen(scheme), name_len = strlen(name), port_len, url_len;
    char port[16], *uri, *to;

    if (!url)
        url = r->uri;
    url_len = strlen(url);
    port_len = port_text(r, port);
    uri = to = apr_palloc(r->pool, scheme_len + 3 + name_len + port_len + url_len + 1);
    to = append(to, scheme, scheme_len);
    to = append(to, "://", 3);
    to = append(to, name, name_len);
    to = append(to, port, port_len);
    append(to, url, url_len + 1);
    if (blank) {
        apr_table_addn(r->subprocess_env, "SCRIPT_URL", url);
        apr_table_addn(r->subprocess_env, "SCRIPT_URI", uri);
    } else {
        apr_table_setn(r->subprocess_env, "SCRIPT_URL", url);
        apr_table_setn(r->subprocess_env, "SCRIPT_URI", uri);
    }
    r->filename = apr_pstrdup(r->pool, r->uri);
    set_variable(r->notes, "mod_rewrite_rewritten", "0");
}

/* True when no rule can match the request. Then all is done. */
static HTC_HOT HTC_APART bool done_without(request_rec *r, const htc_rewrite *rewrite,
                                           const htc_rule_filter *filter)
{
    if (!begins(r, rewrite, filter) || any_rule(filter, r->uri, strlen(r->uri)))
        return false;
    leave_traces(r);
    return true;
}

/* A rule of the server has another pattern's text until mod_rewrite is done with the request. */
typedef struct htc_lent {
    const char *own, *pattern;
} htc_lent;

static const apr_array_header_t *rules_of(const request_rec *r, const htc_rewrite *rewrite)
{
    const htc_rewrite_server *conf =
        ap_get_module_config(r->server->module_config, rewrite->module);

    return conf->rules;
}

void htc_rule_filters_lend_pattern(request_rec *r, const char *own, const char *pattern)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    apr_thread_mutex_t *lock = sc->redirects->fold_lock;
    htc_request *rq = htc_request_get(r);
    const apr_array_header_t *rules;
    htc_lent *lent;

    if (!sc->rewrite || !lock || rq->lent)
        return;
    lent = apr_pcalloc(r->pool, sizeof(*lent));
    lent->pattern = pattern;
    rq->lent = lent;
    rules = rules_of(r, sc->rewrite);
    apr_thread_mutex_lock(lock);
    /* Where rules were inherited there may be copies, which share the text. */
    for (int i = 0; i < rules->nelts; i++) {
        const char **text = htc_rewrite_pattern(sc->rewrite, rules, i);

        if (!strcmp(*text, own)) {
            lent->own = *text;
            *text = pattern;
        }
    }
}

static void give_back(const request_rec *r, const htc_rewrite *rewrite)
{
    htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    const apr_array_header_t *rules;

    if (!rq || !rq->lent)
        return;
    rules = rules_of(r, rewrite);
    for (int i = 0; i < rules->nelts; i++) {
        const char **text = htc_rewrite_pattern(rewrite, rules, i);

        if (*text == rq->lent->pattern)
            *text = rq->lent->own;
    }
    apr_thread_mutex_unlock(htc_server_conf_of(r->server)->redirects->fold_lock);
    rq->lent = NULL;
}

static HTC_EACH int filter_translate(request_rec *r)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    const htc_rewrite *rewrite = sc->rewrite;
    int status;

    if (sc->own.filter && done_without(r, rewrite, sc->own.filter))
        return DECLINED;
    status = rewrite->translate(r);
    give_back(r, rewrite);
    if (status != DECLINED && status != OK)
        htc_track_answered(r, status, false);
    return status;
}

/* --- standing in ------------------------------------------------------------------------------*/

/* mod_rewrite's hooks, of which its second one in fixups, for types, is the last of all. False:
 * they are not as in all of httpd 2.4. */
static bool find_hooks(ap_LINK_translate_name_t **translate, ap_LINK_fixups_t **fixup)
{
    apr_array_header_t *translates = ap_hook_get_translate_name();
    apr_array_header_t *fixups = ap_hook_get_fixups();

    *translate = NULL;
    *fixup = NULL;
    for (int i = 0; translates && i < translates->nelts; i++) {
        ap_LINK_translate_name_t *link = &APR_ARRAY_IDX(translates, i, ap_LINK_translate_name_t);

        if (strcmp(link->szName, "mod_rewrite.c") != 0)
            continue;
        if (*translate)
            return false;
        *translate = link;
    }
    for (int i = 0; fixups && i < fixups->nelts; i++) {
        ap_LINK_fixups_t *link = &APR_ARRAY_IDX(fixups, i, ap_LINK_fixups_t);

        if (!strcmp(link->szName, "mod_rewrite.c") && link->nOrder == APR_HOOK_FIRST)
            *fixup = link;
    }
    return *translate && *fixup && (*translate)->pFunc != filter_translate &&
           (*fixup)->pFunc != filter_fixup;
}

htc_rewrite *htc_rule_filters_create(apr_pool_t *pconf, apr_pool_t *ptemp)
{
    htc_rewrite *rewrite = apr_pcalloc(pconf, sizeof(*rewrite));
    ap_LINK_translate_name_t *translate;
    ap_LINK_fixups_t *fixup;

    if (!ap_find_linked_module("mod_rewrite.c") || !ap_server_conf)
        return NULL;
    if (htc_rewrite_find(rewrite, HTC_FOLD_MAP, pconf, ptemp) && find_hooks(&translate, &fixup))
        return rewrite;
    ap_log_error(
        APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
        "HtCache: this mod_rewrite is built in a way not known here; RewriteRules are "
        "left to it, and answer as always. Please report it, with the output of 'httpd -V'");
    return NULL;
}

bool htc_rule_filters_install(htc_rewrite *rewrite)
{
    ap_LINK_translate_name_t *translate;
    ap_LINK_fixups_t *fixup;

    if (!find_hooks(&translate, &fixup)) {
        rewrite->variables = 0;
        return false;
    }
    rewrite->translate = translate->pFunc;
    rewrite->fixup = fixup->pFunc;
    translate->pFunc = filter_translate;
    fixup->pFunc = filter_fixup;
    return true;
}
