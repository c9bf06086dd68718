/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * RewriteRules of directories get a filter (redirects/rule_filter.h). Those of servers, too; and
 * blocks of them that stand one behind the other, have no conditions, end the processing and have
 * the same flags become one rule in the same place, which asks a map function here:
 *
 *     RewriteCond ${htcache-fold:ID:$0} (?s)^=(.*)\z
 *     RewriteRule (?s)^.*$(?#ID) %1 [the same flags]
 *
 * A '?' that the rules have themselves stands in the one rule, too: httpd judges a path with %3f by
 * where the first '?' comes from, and does so differently in different versions.
 *
 * mod_rewrite stays the engine: context, order, escaping and trace logs are its own. The function
 * finds the first rule of the block whose own regex matches and expands its substitution as
 * mod_rewrite would have done. Called by redirects/fold_tree.c for each container of a tree, and by
 * mod_rewrite for each request.
 */
#include "redirects/fold.h"
#include "redirects/rule_filter.h"
#include "redirects/fold_track.h"
#include "redirects/map.h"
#include "rules/rules.h"
#include "regex/regex.h"
#include "redirects/notes.h"

#include "http_main.h"
#include "mod_rewrite.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAX_GROUPS AP_MAX_REG_MATCH

typedef struct rewrite_entry {
    const char *pattern, *output;
    ap_regex_t *regex;
    int line;
    int status; /* that it answers with; 0: it rewrites */
} rewrite_entry;

/* The table that the map function looks in. Its number among all of the server's configuration, with
 * a check value, is the ID. A process that can make the value, as one that was taken over can,
 * reaches a table that is there, and nothing else. */
typedef struct rewrite_block {
    const char *filename;
    const char *pattern;         /* of the one rule */
    htc_counted *counted;        /* of the server's configuration; else NULL */
    apr_array_header_t *entries; /* rewrite_entry */
    const redirect_table *table;
    bool status; /* its rules have no substitution */
    bool guard;  /* it only tells whether one of its rules may match */
} rewrite_block;

/* --- a block ----------------------------------------------------------------------------------*/

/* To be called once for each block: it has the next number. */
static const char *block_id(const rewrite_block *block, uint64_t secret, apr_pool_t *pool)
{
    apr_array_header_t *blocks = htc_options_get()->blocks;
    uint64_t number = (uint64_t)blocks->nelts;

    APR_ARRAY_PUSH(blocks, const rewrite_block *) = block;
    return apr_psprintf(pool, "%016" APR_UINT64_T_HEX_FMT "%016" APR_UINT64_T_HEX_FMT, number,
                        (uint64_t)XXH3_64bits_withSeed(&number, sizeof(number), secret));
}

static const rewrite_block *block_of(const char *id, uint64_t secret)
{
    const apr_array_header_t *blocks = htc_options_get()->blocks;
    uint64_t words[2] = {0, 0};

    for (int i = 0; i < 32; i++) {
        const char *digit = *id ? strchr("0123456789abcdef", *id++) : NULL;

        if (!digit)
            return NULL;
        words[i / 16] = words[i / 16] << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    if (*id != ':' || words[0] >= (uint64_t)blocks->nelts ||
        words[1] != XXH3_64bits_withSeed(&words[0], sizeof(words[0]), secret))
        return NULL;
    return APR_ARRAY_IDX(blocks, words[0], const rewrite_block *);
}

static bool build_block(rewrite_block *block, const rewrite_rule *rules, apr_pool_t *pool)
{
    redirect_builder *builder = redirect_builder_create((size_t)block->entries->nelts, 0);
    redirect_outcome outcome = builder ? REDIRECT_ADDED : REDIRECT_NO_MEMORY;

    for (int i = 0; i < block->entries->nelts && outcome == REDIRECT_ADDED; i++) {
        char number[16];
        redirect_rule rule = {
            .status = HTTP_MOVED_TEMPORARILY, .source = "", .pattern = number, .line = (uint32_t)i};

        rule.pattern_len = (size_t)apr_snprintf(number, sizeof(number), "%d", i);
        outcome = htc_fold_add_regex(builder, NULL, &rule, &rules[i].facts);
    }
    block->table = htc_fold_finish_table(builder, outcome, pool);
    return block->table != NULL;
}

static void describe(const void *owner, uint32_t i, htc_redirect_row *row)
{
    const rewrite_block *block = owner;
    const rewrite_entry *entry = &APR_ARRAY_IDX(block->entries, (int)i, rewrite_entry);

    row->file = block->filename;
    row->line = (uint32_t)entry->line;
    row->rule = (redirect_rule){.kind = REDIRECT_PATTERN,
                                .source = "",
                                .pattern = entry->pattern,
                                .pattern_len = strlen(entry->pattern),
                                .target = block->status ? NULL : entry->output,
                                .target_len = block->status ? 0 : strlen(entry->output),
                                .status = entry->status,
                                .line = row->line};
}

/* NULL: a regex is wrong, which mod_rewrite will say, or there is no memory. */
static rewrite_block *block_create(ap_directive_t **nodes, const rewrite_rule *rules, int n,
                                   apr_pool_t *pool)
{
    rewrite_block *block = apr_pcalloc(pool, sizeof(*block));

    block->filename = nodes[0]->filename;
    block->status = (rules[0].flags & REWRITE_STATUS) != 0;
    block->entries = apr_array_make(pool, n, sizeof(rewrite_entry));
    for (int i = 0; i < n; i++) {
        int cflags = AP_REG_EXTENDED | (rules[i].flags & REWRITE_NOCASE ? AP_REG_ICASE : 0);
        rewrite_entry *entry = apr_array_push(block->entries);

        *entry = (rewrite_entry){
            apr_pstrdup(pool, rules[i].pattern), apr_pstrdup(pool, rules[i].output),
            ap_pregcomp(pool, rules[i].pattern, cflags), nodes[i]->line_num,
            rules[i].flags & (REWRITE_REDIRECT | REWRITE_STATUS) ? rules[i].status : 0};
        if (!entry->regex)
            return NULL;
    }
    return build_block(block, rules, pool) ? block : NULL;
}

/* The flags of the one rule: those of all, but for the case of letters, which each regex knows. */
static const char *block_flags(const rewrite_rule *rule, bool knows_3f, apr_pool_t *pool)
{
    const char *text = apr_psprintf(
        pool, "%s%s%s%s%s%s%s%s",
        rule->flags & REWRITE_REDIRECT ? apr_psprintf(pool, "R=%d,", rule->status) : "",
        rule->flags & REWRITE_FORBIDDEN ? "F,"
        : rule->flags & REWRITE_GONE    ? "G,"
        : rule->flags & REWRITE_STATUS  ? apr_psprintf(pool, "R=%d,", rule->status)
                                        : "",
        rule->flags & REWRITE_LAST ? "L," : "", rule->flags & REWRITE_END ? "END," : "",
        rule->flags & REWRITE_NOESCAPE ? "NE," : "", rule->flags & REWRITE_QSAPPEND ? "QSA," : "",
        rule->flags & REWRITE_QSDISCARD ? "QSD," : "",
        rule->flags & REWRITE_PASSTHROUGH ? "PT," : "");

    if (knows_3f && (rule->flags & REWRITE_UNSAFE_3F))
        text = apr_pstrcat(pool, text, "UnsafeAllow3F,", NULL);
    return apr_pstrmemdup(pool, text, strlen(text) - 1);
}

/* The substitution of the one rule: what the map function answers, around the rules' own '?'. */
static const char *block_output(const rewrite_rule *rule, apr_pool_t *pool)
{
    if (rule->flags & REWRITE_STATUS)
        return "-";
    return apr_pstrcat(pool, rule->query ? "%1?%2" : "%1", rule->drops_query ? "?" : "", NULL);
}

/* Two lines ask, the others are silent. */
static void replace_block(htc_walk *w, ap_directive_t **nodes, const rewrite_rule *rules, int n)
{
    rewrite_block *block = block_create(nodes, rules, n, w->pool);
    const char *id;

    if (!block)
        return;
    if (w->changes)
        block->counted = htc_counted_add(block, (uint32_t)n, describe);
    id = block_id(block, w->secret, w->pool);
    block->pattern = apr_psprintf(w->pool, "(?s)^.*$(?#%s)", id);
    htc_fold_rename(w, nodes[0], "RewriteCond",
                    apr_psprintf(w->pool, "${" HTC_FOLD_MAP ":%s:$0} (?s)^=%s(.*)\\z", id,
                                 rules[0].query ? "([^?]*)\\?" : ""));
    htc_fold_rename(w, nodes[1], "RewriteRule",
                    apr_psprintf(w->pool, "%s %s [%s]", block->pattern,
                                 block_output(&rules[0], w->pool),
                                 block_flags(&rules[0], w->knows_3f, w->pool)));
    for (int i = 2; i < n; i++)
        htc_fold_rename(w, nodes[i], HTC_FOLD_SILENT, nodes[i]->args);
}

/* --- guards -----------------------------------------------------------------------------------*/

/* Rules that stay are passed over together when none of their patterns can match the path. As long
 * as no pattern matches, mod_rewrite changes nothing, so what it would do with each of them is what
 * it does when they are skipped:
 *
 *     RewriteCond ${htcache-fold:ID:$0} (?s)^=(.*)\z
 *     RewriteRule (?s)^.*$ - [S=n]
 */

/* The container's rules, with the nodes at which they begin: their first condition, or they. */
typedef struct container {
    ap_directive_t **nodes;
    ap_directive_t ***links; /* what points to the beginning */
    const rewrite_rule *rules;
    size_t n;
} container;

/* All that can be said of the pattern without running it. */
static bool add_literals(redirect_builder *builder, const redirect_regex_facts *facts)
{
    redirect_rule rule = {.status = HTTP_MOVED_TEMPORARILY,
                          .flags = facts->caseless ? REDIRECT_ICASE : 0};
    bool good = true;

    for (unsigned i = 0; i < facts->count && good; i++) {
        rule.source = facts->strings[i].text;
        rule.source_len = facts->strings[i].len;
        rule.kind =
            facts->kind == REDIRECT_REGEX_FINITE ? REDIRECT_LITERAL : REDIRECT_LITERAL_PREFIX;
        if (facts->kind == REDIRECT_REGEX_FLOATING) {
            rule.kind = REDIRECT_PATTERN;
            rule.flags |= REDIRECT_FLOATING;
            rule.pattern = "-";
            rule.pattern_len = 1;
        }
        good = redirect_builder_add(builder, &rule) == REDIRECT_ADDED;
    }
    return good;
}

/* NULL: one of the rules may match any path, or there is no memory. */
static const rewrite_block *guard_create(const htc_walk *w, const rewrite_rule *rules, size_t n)
{
    rewrite_block *block = apr_pcalloc(w->pool, sizeof(*block));
    redirect_builder *builder = redirect_builder_create(n, 0);
    bool good = builder != NULL;

    for (size_t i = 0; i < n && good; i++)
        good = !rules[i].any && add_literals(builder, &rules[i].facts);
    block->guard = true;
    block->table = htc_fold_finish_table(builder, good ? REDIRECT_ADDED : REDIRECT_BAD, w->pool);
    return block->table ? block : NULL;
}

/* Ahead of rules[at], to skip the n rules from there on when none of them can match. */
static bool put_guard(htc_walk *w, const container *c, size_t at, size_t n)
{
    const rewrite_block *block = guard_create(w, c->rules + at, n);
    ap_directive_t **link = c->links[at];

    if (!block)
        return false;
    htc_fold_insert(w, link, c->nodes[at], "RewriteCond",
                    apr_psprintf(w->pool, "${" HTC_FOLD_MAP ":%s:$0} (?s)^=(.*)\\z",
                                 block_id(block, w->secret, w->pool)));
    htc_fold_insert(w, &(*link)->next, c->nodes[at], "RewriteRule",
                    apr_psprintf(w->pool, "(?s)^.*$ - [S=%d]", (int)n));
    c->links[at] = &(*link)->next->next;
    return true;
}

/* How many rules are behind guards. */
static uint64_t guard_container(htc_walk *w, const container *c)
{
    uint64_t all = 0;

    for (size_t at = 0, n; at < c->n; at += n ? n : 1) {
        bool guarded;

        n = redirect_config_run(c->rules, c->n, at, &guarded);
        if (guarded && put_guard(w, c, at, n))
            all += n;
    }
    return all;
}

/* --- a container ------------------------------------------------------------------------------*/

/* The RewriteRules and RewriteConds among the nodes. Fills what is not NULL. */
static size_t collect(ap_directive_t **link, rewrite_line *lines, container *c)
{
    ap_directive_t **begin = NULL;
    size_t n = 0, rules = 0;

    for (; *link; link = &(*link)->next) {
        bool condition = !strcasecmp((*link)->directive, "RewriteCond");

        if (!condition && strcasecmp((*link)->directive, "RewriteRule"))
            continue;
        if (!begin)
            begin = link;
        if (lines)
            lines[n] = (rewrite_line){condition, (*link)->args};
        if (c && !condition) {
            c->nodes[rules] = *link;
            c->links[rules++] = begin;
        }
        if (!condition)
            begin = NULL;
        n++;
    }
    return n;
}

bool htc_fold_open_end(ap_directive_t **first, apr_pool_t *pool)
{
    size_t n = collect(first, NULL, NULL);
    apr_pool_t *scratch;
    rewrite_line *lines;
    bool open;

    if (!n)
        return false;
    apr_pool_create(&scratch, pool);
    lines = apr_palloc(scratch, n * sizeof(*lines));
    collect(first, lines, NULL);
    open = redirect_config_lines_open_end(lines, n, scratch);
    apr_pool_destroy(scratch);
    return open;
}

/* Then mod_rewrite puts other rules beside these, in an array of its own. */
static bool inherits(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "RewriteOptions") && redirect_config_inherits(node->args))
            return true;
    }
    return false;
}

/* Of the rules that mod_rewrite will have by then. */
static size_t count_rules(const ap_directive_t *node)
{
    size_t n = 0;

    for (; node; node = node->next)
        n += !strcasecmp(node->directive, "RewriteRule");
    return n;
}

static bool looks_ahead(const ap_directive_t *node)
{
    for (; node; node = node->next) {
        bool condition = !strcasecmp(node->directive, "RewriteCond");

        if ((condition || !strcasecmp(node->directive, "RewriteRule")) &&
            redirect_config_looks_ahead(node->args, condition))
            return true;
    }
    return false;
}

static bool put_filter(htc_walk *w, ap_directive_t **first, const container *c, bool in_dir)
{
    const htc_rule_filter *filter = htc_rule_filter_create(c->rules, c->n, count_rules(*first),
                                                           in_dir, !looks_ahead(*first), w->pool);
    ap_directive_t **link = first;
    const ap_directive_t *last = NULL;

    for (; *link; link = &(*link)->next)
        last = *link;
    if (filter)
        htc_fold_insert(w, link, last, HTC_RULE_FILTER, htc_rule_filter_id(filter, w->pool));
    return filter != NULL;
}

static void fold_directory(htc_walk *w, ap_directive_t **first, const container *c)
{
    uint64_t folded = 0;
    bool spared = false;

    for (size_t i = 0; i < c->n; i++) {
        folded += !c->rules[i].why;
        spared = spared || c->rules[i].spared;
    }
    if (inherits(*first))
        return;
    if (spared && (w->once || put_filter(w, first, c, true)))
        w->counts->rewrite_rules_folded += folded;
}

/* Behind blocks and guards there may be a filter, too. It does not count rules, which are all there
 * in the server's own order. */
static void fold_server(htc_walk *w, ap_directive_t **first, const container *c)
{
    uint64_t folded = 0;

    for (size_t i = 0; i < c->n; i++) {
        folded += !c->rules[i].why;
        if (!c->rules[i].why && c->rules[i].first)
            replace_block(w, c->nodes + i, c->rules + i, (int)c->rules[i].block);
    }
    folded += guard_container(w, c);
    if (redirect_config_passable(c->rules, c->n) && !inherits(*first) &&
        put_filter(w, first, c, false))
        folded = c->n;
    w->counts->rewrite_rules_folded += folded;
}

void htc_fold_rewrites(htc_walk *w, ap_directive_t **first, bool in_dir)
{
    size_t n = collect(first, NULL, NULL);
    apr_pool_t *scratch;
    rewrite_line *lines;
    rewrite_rule *rules;
    container c;

    if (!n)
        return;
    apr_pool_create(&scratch, w->pool);
    lines = apr_palloc(scratch, n * sizeof(*lines));
    rules = apr_palloc(scratch, n * sizeof(*rules));
    c.nodes = apr_palloc(scratch, n * sizeof(*c.nodes));
    c.links = apr_palloc(scratch, n * sizeof(*c.links));
    collect(first, lines, &c);
    c.rules = rules;
    c.n = redirect_config_rewrites(lines, n, in_dir, htc_fold_regex_flags(), rules, scratch);
    w->counts->rewrite_rules_seen += c.n;
    if (w->fold && in_dir)
        fold_directory(w, first, &c);
    else if (w->fold)
        fold_server(w, first, &c);
    if (w->fold && !w->dry && htc_rewrite_can_tell(htc_options_get()->rewrite))
        htc_track_put(w, first, in_dir, scratch);
    apr_pool_destroy(scratch);
}

/* --- a request --------------------------------------------------------------------------------*/

/* A pattern's text is its entry's number. */
static bool run_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                      const char *subject, size_t len)
{
    const rewrite_block *block = baton;

    (void)id;
    (void)flags;
    return !ap_regexec_len(
        APR_ARRAY_IDX(block->entries, (int)strtol(pattern, NULL, 10), rewrite_entry).regex, subject,
        len, 0, NULL, 0);
}

/* mod_rewrite ends a request when a rule has matched and the path is longer than this. */
static size_t longest_path(const request_rec *r)
{
    return 2 * (size_t)r->server->limit_req_line;
}

/* NULL: one of the rules behind the guard may match, or the guard itself must not. */
static char *ask_guard(request_rec *r, const rewrite_block *block, const char *path)
{
    redirect_request asked = {
        .path = path, .path_len = strlen(path), .regex = htc_pattern_may_match};
    redirect_match match;

    return asked.path_len > longest_path(r) ||
                   redirect_table_lookup(block->table, &asked, 0, &match)
               ? NULL
               : apr_pstrdup(r->pool, "=");
}

/* What mod_rewrite may put around a substitution, without the server's name. */
#define AROUND 32

/* A path of @a len bytes that mod_rewrite refuses is logged with the rule that made it. */
static void name_rule(request_rec *r, const rewrite_block *block, const rewrite_entry *entry,
                      size_t len)
{
    size_t longest = longest_path(r);

    if (len + AROUND > longest || len + AROUND + strlen(ap_get_server_name_for_url(r)) > longest)
        htc_rule_filters_lend_pattern(r, block->pattern, entry->pattern);
}

static const rewrite_entry *find(const rewrite_block *block, const char *path)
{
    redirect_request asked = {.path = path,
                              .path_len = strlen(path),
                              .regex = run_regex,
                              .baton = (void *)(uintptr_t)block};
    redirect_match match;

    if (!redirect_table_lookup(block->table, &asked, 0, &match))
        return NULL;
    return &APR_ARRAY_IDX(block->entries, (int)redirect_table_line(block->table, match.rule, NULL),
                          rewrite_entry);
}

/* Length of the substitution, which is written to `to` unless that is NULL. A backslash takes the
 * next byte as it is; groups that took part are replaced, others vanish. */
static size_t expand(const rewrite_entry *entry, const char *path, const ap_regmatch_t *groups,
                     char *to)
{
    size_t len = 0;

    for (const char *s = entry->output; *s; s++) {
        const char *from = s;
        size_t n = 1;

        if (*s == '\\' && s[1]) {
            from = ++s;
        } else if (*s == '$' && apr_isdigit(s[1])) {
            const ap_regmatch_t *group = &groups[*++s - '0'];

            from = path + group->rm_so;
            n = group->rm_eo > group->rm_so ? (size_t)(group->rm_eo - group->rm_so) : 0;
        }
        if (to && n)
            memcpy(to + len, from, n);
        len += n;
    }
    return len;
}

static void log_answer(request_rec *r, const rewrite_block *block, const rewrite_entry *entry,
                       const char *path)
{
    const module *rewrite = ap_find_linked_module("mod_rewrite.c");
    int index = rewrite->module_index;

    if (ap_get_request_module_loglevel(r, index) >= APLOG_TRACE2)
        ap_log_rerror_("mod_rewrite.c", 0, index, APLOG_TRACE2, 0, r,
                       "folded: '%s' matches RewriteRule %s in %s line %d", path, entry->pattern,
                       block->filename, entry->line);
}

/* The map function; for rules in no table, see redirects/fold_track.h. The answer begins with
 * "=", so that an empty substitution is one, too; NULL: no rule of the block matches. */
static char *look_up(request_rec *r, char *key)
{
    const rewrite_block *block;
    const char *path = key + 33;
    const rewrite_entry *entry;
    ap_regmatch_t groups[MAX_GROUPS];
    char *answer;
    size_t len;

    if (*key == HTC_TRACK_SIGN)
        return htc_track_told(r, key + 1);
    block = block_of(key, htc_server_conf_of(r->server)->redirects->fold_secret);
    if (!block)
        return NULL;
    if (block->guard)
        return ask_guard(r, block, path);
    entry = find(block, path);
    if (!entry)
        return NULL;
    log_answer(r, block, entry, path);
    htc_note_redirect(r, block->filename, (unsigned)entry->line);
    if (block->counted)
        htc_count_hit(r, block->counted->counters, block->counted->count,
                      (uint32_t)(entry - (const rewrite_entry *)block->entries->elts));
    if (block->status) {
        name_rule(r, block, entry, strlen(path));
        return apr_pstrdup(r->pool, "=");
    }
    if (ap_regexec(entry->regex, path, MAX_GROUPS, groups, 0))
        return NULL;
    len = expand(entry, path, groups, NULL);
    answer = apr_palloc(r->pool, len + 2);
    answer[0] = '=';
    expand(entry, path, groups, answer + 1);
    answer[len + 1] = '\0';
    name_rule(r, block, entry, len);
    return answer;
}

bool htc_fold_register_map(void)
{
    APR_OPTIONAL_FN_TYPE(ap_register_rewrite_mapfunc) *fn =
        APR_RETRIEVE_OPTIONAL_FN(ap_register_rewrite_mapfunc);
    static char name[] = HTC_FOLD_MAP;

    if (fn)
        fn(name, look_up);
    return fn != NULL;
}

/* Asked of its own handler, with a rule that goes nowhere. */
bool htc_fold_knows_3f(void)
{
    module *rewrite = ap_find_linked_module("mod_rewrite.c");
    const command_rec *cmd = rewrite ? rewrite->cmds : NULL;
    cmd_parms parms = {.server = ap_server_conf, .path = (char *)"/"};
    bool known = false;
    apr_pool_t *pool;

    while (cmd && cmd->name && strcasecmp(cmd->name, "RewriteRule"))
        cmd++;
    if (!cmd || !cmd->name || !ap_server_conf || cmd->args_how != RAW_ARGS)
        return false;
    apr_pool_create(&pool, NULL);
    parms.pool = parms.temp_pool = pool;
    parms.cmd = cmd;
    known = !cmd->AP_RAW_ARGS(&parms, rewrite->create_dir_config(pool, parms.path),
                              "^ - [UnsafeAllow3F]");
    apr_pool_destroy(pool);
    return known;
}
