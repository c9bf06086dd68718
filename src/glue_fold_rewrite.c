/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Blocks of RewriteRules that stand one behind the other, have no conditions, end the processing
 * and have the same flags become one rule in the same place, which asks a map function here:
 *
 *     RewriteCond ${htcache-fold:ID:$0} (?s)^=(.*)\z
 *     RewriteRule (?s)^.*$ %1 [the same flags]
 *
 * mod_rewrite stays the engine: context, order, stripping of directories, escaping and trace logs
 * are its own. The function finds the first rule of the block whose own regex matches and expands
 * its substitution as mod_rewrite would have done. Called by glue_fold_tree.c for each container of
 * a tree, and by mod_rewrite for each request.
 */
#include "glue_fold.h"
#include "glue_map.h"

#include "http_main.h"
#include "mod_rewrite.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A block with fewer rules is no faster than its rules. */
#define MIN_RULES  8
#define MAX_GROUPS AP_MAX_REG_MATCH

/* What of a rule's flags matters here. Those that are not listed keep a rule from being folded. */
enum {
    F_REDIRECT = 1,
    F_LAST = 2,
    F_END = 4,
    F_STATUS = 8, /* F, G, or R with a status that is no redirect: there is no substitution */
    F_NOESCAPE = 16,
    F_QSAPPEND = 32,
    F_QSDISCARD = 64,
    F_PASSTHROUGH = 128,
    F_NOCASE = 256,
    F_OTHER = 512,
    F_SKIP = 1024,
    F_CHAIN = 2048,
    F_UNSAFE_3F = 4096
};

/* A RewriteRule line, understood. */
typedef struct rule_line {
    const char *pattern, *output; /* without quotes */
    unsigned flags;
    int status; /* of R, F and G */
    int skip;
    bool drops_query; /* the substitution ends in "?" */
    bool query;       /* it has another "?", before any back-reference */
} rule_line;

typedef struct rewrite_entry {
    const char *pattern, *output;
    ap_regex_t *regex;
    int line;
} rewrite_entry;

/* What the map function is asked for. Its address, with a check value that nobody else can make, is
 * the ID. */
typedef struct rewrite_block {
    const char *filename;
    apr_array_header_t *entries; /* rewrite_entry */
    const redirect_table *table;
    bool status; /* its rules have no substitution */
} rewrite_block;

/* --- reading a line ---------------------------------------------------------------------------*/

/* One word as mod_rewrite reads it: a backslash keeps a blank in the word, and stays there. NULL at
 * the end. */
static const char *next_word(apr_pool_t *pool, const char **at, bool *closed)
{
    const char *s = *at, *start;
    char quote = '\0';

    while (apr_isspace(*s))
        s++;
    if (*s == '"' || *s == '\'')
        quote = *s++;
    start = s;
    while (*s && !(quote ? *s == quote : apr_isspace(*s)))
        s += *s == '\\' && apr_isspace(s[1]) ? 2 : 1;
    *closed = *s != '\0';
    *at = *s ? s + 1 : s;
    return apr_pstrmemdup(pool, start, (apr_size_t)(s - start));
}

static bool is_flag(const char *key, const char *brief, const char *full)
{
    return !strcasecmp(key, brief) || !strcasecmp(key, full);
}

static unsigned read_redirect(const char *value, int *status)
{
    *status = HTTP_MOVED_TEMPORARILY;
    if (!*value || !strcasecmp(value, "temp"))
        return F_REDIRECT;
    if (!strcasecmp(value, "permanent"))
        *status = HTTP_MOVED_PERMANENTLY;
    else if (!strcasecmp(value, "seeother"))
        *status = HTTP_SEE_OTHER;
    else if (strlen(value) == 3 && apr_isdigit(value[0]) && apr_isdigit(value[1]) &&
             apr_isdigit(value[2]))
        *status = atoi(value);
    else
        return F_OTHER;
    return ap_is_HTTP_REDIRECT(*status) ? F_REDIRECT : F_STATUS;
}

static unsigned read_flag(const char *key, const char *value, rule_line *rule)
{
    if (is_flag(key, "R", "redirect"))
        return read_redirect(value, &rule->status);
    if (is_flag(key, "S", "skip")) {
        rule->skip = atoi(value);
        return F_SKIP;
    }
    if (*value)
        return F_OTHER;
    if (is_flag(key, "F", "forbidden") || is_flag(key, "G", "gone")) {
        rule->status = apr_toupper(*key) == 'F' ? HTTP_FORBIDDEN : HTTP_GONE;
        return F_STATUS;
    }
    return is_flag(key, "L", "last")           ? F_LAST
           : !strcasecmp(key, "END")           ? F_END
           : is_flag(key, "NE", "noescape")    ? F_NOESCAPE
           : is_flag(key, "NC", "nocase")      ? F_NOCASE
           : is_flag(key, "QSA", "qsappend")   ? F_QSAPPEND
           : is_flag(key, "QSD", "qsdiscard")  ? F_QSDISCARD
           : is_flag(key, "PT", "passthrough") ? F_PASSTHROUGH
           : is_flag(key, "C", "chain")        ? F_CHAIN
           : !strcasecmp(key, "UnsafeAllow3F") ? F_UNSAFE_3F
                                               : F_OTHER;
}

/* "[R=301,L]" */
static bool read_flags(apr_pool_t *pool, const char *text, rule_line *rule)
{
    size_t len = strlen(text);
    char *rest, *word;

    if (len < 2 || text[0] != '[' || text[len - 1] != ']')
        return false;
    word = apr_pstrmemdup(pool, text + 1, len - 2);
    for (word = apr_strtok(word, ",", &rest); word; word = apr_strtok(NULL, ",", &rest)) {
        char *value;

        apr_collapse_spaces(word, word);
        value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        rule->flags |= read_flag(word, value ? value : "", rule);
    }
    return true;
}

/* What of the substitution decides whether, and with whom, the rule can be folded. False: it
 * cannot. Only groups of the rule's own pattern may stand in it. A "?" that comes out of a group
 * makes mod_rewrite refuse the request, unless one that was written stands before it. */
static bool read_output(rule_line *rule, apr_pool_t *pool)
{
    bool group = false;
    size_t len = strlen(rule->output);

    if (rule->flags & F_STATUS)
        return true;
    if (!len || !strcmp(rule->output, "-") || !strncmp(rule->output, "//", 2))
        return false;
    if (rule->output[len - 1] == '?') {
        rule->drops_query = true;
        rule->output = apr_pstrmemdup(pool, rule->output, len - 1);
    }
    for (const char *s = rule->output; *s; s++) {
        if (*s == '\\' && s[1])
            s++;
        else if ((*s == '%' || *s == '$') && s[1] == '{')
            return false;
        else if (*s == '%' && apr_isdigit(s[1]))
            return false;
        else if (*s == '$' && apr_isdigit(s[1]))
            group = true;
        else if (*s == '?' && group && !rule->query)
            return false;
        if (*s == '?')
            rule->query = true;
    }
    return !(rule->query && (rule->flags & F_QSDISCARD)) &&
           !(rule->drops_query && (rule->flags & F_QSAPPEND));
}

static bool read_rule(const ap_directive_t *node, rule_line *rule, apr_pool_t *pool)
{
    const char *at = node->args, *flags;
    bool closed;

    memset(rule, 0, sizeof(*rule));
    rule->pattern = next_word(pool, &at, &closed);
    if (!closed)
        return false;
    rule->output = next_word(pool, &at, &closed);
    flags = next_word(pool, &at, &closed);
    return !*flags || read_flags(pool, flags, rule);
}

/* Does it end the processing, whatever comes behind it? */
static bool ends(const rule_line *rule)
{
    return (rule->flags & (F_LAST | F_END | F_STATUS | F_PASSTHROUGH)) != 0;
}

/* A path made in the server's context may be looked for on the disk, depending on how the
 * substitution begins, so it must be mod_rewrite that sees it. */
static bool suits_context(const rule_line *rule, bool in_dir)
{
    return in_dir || (rule->flags & (F_REDIRECT | F_STATUS | F_PASSTHROUGH));
}

static bool can_fold(rule_line *rule, bool in_dir, apr_pool_t *pool)
{
    return *rule->pattern != '!' && !(rule->flags & (F_OTHER | F_SKIP | F_CHAIN)) && ends(rule) &&
           suits_context(rule, in_dir) && read_output(rule, pool);
}

static bool same_kind(const rule_line *a, const rule_line *b)
{
    return !((a->flags ^ b->flags) & ~(unsigned)F_NOCASE) && a->status == b->status &&
           a->drops_query == b->drops_query && a->query == b->query;
}

/* --- a block ----------------------------------------------------------------------------------*/

static const char *block_id(const rewrite_block *block, uint64_t secret, apr_pool_t *pool)
{
    uint64_t address = (uint64_t)(uintptr_t)block;

    return apr_psprintf(pool, "%016" APR_UINT64_T_HEX_FMT "%016" APR_UINT64_T_HEX_FMT, address,
                        (uint64_t)XXH3_64bits_withSeed(&address, sizeof(address), secret));
}

static const rewrite_block *block_of(const char *id, uint64_t secret)
{
    uint64_t words[2] = {0, 0};

    for (int i = 0; i < 32; i++) {
        const char *digit = *id ? strchr("0123456789abcdef", *id++) : NULL;

        if (!digit)
            return NULL;
        words[i / 16] = words[i / 16] << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    if (*id != ':' || words[1] != XXH3_64bits_withSeed(&words[0], sizeof(words[0]), secret))
        return NULL;
    return (const rewrite_block *)(uintptr_t)words[0];
}

static apr_status_t free_image(void *image)
{
    free(image);
    return APR_SUCCESS;
}

static bool build_block(rewrite_block *block, const rule_line *rules, bool opaque, apr_pool_t *pool)
{
    redirect_builder *builder = redirect_builder_create((size_t)block->entries->nelts, 0);
    redirect_outcome outcome = builder ? REDIRECT_ADDED : REDIRECT_NO_MEMORY;
    void *image = NULL;
    apr_pool_t *scratch;
    size_t size;

    apr_pool_create(&scratch, pool);
    for (int i = 0; i < block->entries->nelts && outcome == REDIRECT_ADDED; i++) {
        redirect_rule rule = {.status = HTTP_MOVED_TEMPORARILY, .line = (uint32_t)i};

        rule.pattern = apr_itoa(scratch, i);
        rule.pattern_len = strlen(rule.pattern);
        outcome = htc_fold_add_regex(builder, &rule, rules[i].pattern,
                                     (rules[i].flags & F_NOCASE) != 0, opaque, scratch);
    }
    apr_pool_destroy(scratch);
    if (outcome == REDIRECT_ADDED &&
        redirect_builder_finish(builder, NULL, NULL, &size) == APR_SUCCESS &&
        !posix_memalign(&image, 64, size)) {
        redirect_builder_write(builder, image);
        apr_pool_cleanup_register(pool, image, free_image, apr_pool_cleanup_null);
        block->table = redirect_table_open(image, size, pool);
    }
    if (builder)
        redirect_builder_destroy(builder);
    return block->table != NULL;
}

/* NULL: a regex is wrong, which mod_rewrite will say, or there is no memory. */
static rewrite_block *block_create(ap_directive_t **nodes, const rule_line *rules, int n,
                                   bool opaque, apr_pool_t *pool)
{
    rewrite_block *block = apr_pcalloc(pool, sizeof(*block));

    block->filename = nodes[0]->filename;
    block->status = (rules[0].flags & F_STATUS) != 0;
    block->entries = apr_array_make(pool, n, sizeof(rewrite_entry));
    for (int i = 0; i < n; i++) {
        int cflags = AP_REG_EXTENDED | (rules[i].flags & F_NOCASE ? AP_REG_ICASE : 0);
        rewrite_entry *entry = apr_array_push(block->entries);

        *entry =
            (rewrite_entry){apr_pstrdup(pool, rules[i].pattern), apr_pstrdup(pool, rules[i].output),
                            ap_pregcomp(pool, rules[i].pattern, cflags), nodes[i]->line_num};
        if (!entry->regex)
            return NULL;
    }
    return build_block(block, rules, opaque, pool) ? block : NULL;
}

/* The flags of the one rule: those of all, but for the case of letters, which each regex knows. */
static const char *block_flags(const rule_line *rule, bool knows_3f, apr_pool_t *pool)
{
    const char *text = apr_psprintf(
        pool, "%s%s%s%s%s%s%s%s",
        rule->flags & F_REDIRECT ? apr_psprintf(pool, "R=%d,", rule->status) : "",
        rule->flags & F_STATUS ? apr_psprintf(pool, "R=%d,", rule->status) : "",
        rule->flags & F_LAST ? "L," : "", rule->flags & F_END ? "END," : "",
        rule->flags & F_NOESCAPE ? "NE," : "", rule->flags & F_QSAPPEND ? "QSA," : "",
        rule->flags & F_QSDISCARD ? "QSD," : "", rule->flags & F_PASSTHROUGH ? "PT," : "");

    if (knows_3f && (rule->query || (rule->flags & F_UNSAFE_3F)))
        text = apr_pstrcat(pool, text, "UnsafeAllow3F,", NULL);
    return apr_pstrmemdup(pool, text, strlen(text) - 1);
}

/* Two lines ask, the others are silent. */
static void replace_block(htc_walk *w, ap_directive_t **nodes, const rule_line *rules, int n)
{
    rewrite_block *block = block_create(nodes, rules, n, w->opaque, w->pool);
    const char *output = rules[0].flags & F_STATUS ? "-" : rules[0].drops_query ? "%1?" : "%1";

    if (!block)
        return;
    htc_fold_rename(w, nodes[0], "RewriteCond",
                    apr_psprintf(w->pool, "${" HTC_FOLD_MAP ":%s:$0} (?s)^=(.*)\\z",
                                 block_id(block, w->secret, w->pool)));
    htc_fold_rename(w, nodes[1], "RewriteRule",
                    apr_psprintf(w->pool, "(?s)^.*$ %s [%s]", output,
                                 block_flags(&rules[0], w->knows_3f, w->pool)));
    for (int i = 2; i < n; i++)
        htc_fold_rename(w, nodes[i], HTC_FOLD_SILENT, nodes[i]->args);
    w->counts->rewrite_rules_folded += (uint64_t)n;
}

/* --- a container ------------------------------------------------------------------------------*/

typedef struct run {
    apr_array_header_t *nodes; /* ap_directive_t * */
    apr_array_header_t *rules; /* rule_line */
} run;

static void end_run(htc_walk *w, run *run)
{
    if (run->nodes->nelts >= MIN_RULES)
        replace_block(w, (ap_directive_t **)run->nodes->elts, (rule_line *)run->rules->elts,
                      run->nodes->nelts);
    apr_array_clear(run->nodes);
    apr_array_clear(run->rules);
}

static void add_to_run(htc_walk *w, run *run, ap_directive_t *node, const rule_line *rule)
{
    if (run->rules->nelts && !same_kind(&APR_ARRAY_IDX(run->rules, 0, rule_line), rule))
        end_run(w, run);
    APR_ARRAY_PUSH(run->nodes, ap_directive_t *) = node;
    APR_ARRAY_PUSH(run->rules, rule_line) = *rule;
}

void htc_fold_rewrites(htc_walk *w, ap_directive_t *first, bool in_dir)
{
    run run = {apr_array_make(w->pool, 16, sizeof(ap_directive_t *)),
               apr_array_make(w->pool, 16, sizeof(rule_line))};
    bool conditions = false;
    int reserved = 0; /* rules that a skip or a chain counts */

    for (ap_directive_t *node = first; node; node = node->next) {
        rule_line rule;

        if (!strcasecmp(node->directive, "RewriteCond")) {
            conditions = true;
            continue;
        }
        if (strcasecmp(node->directive, "RewriteRule"))
            continue;
        w->counts->rewrite_rules_seen++;
        if (!read_rule(node, &rule, w->pool))
            rule.flags = F_OTHER;
        if (w->fold && !conditions && !reserved && can_fold(&rule, in_dir, w->pool))
            add_to_run(w, &run, node, &rule);
        else
            end_run(w, &run);
        if (reserved)
            reserved--;
        if (rule.flags & F_CHAIN && !reserved)
            reserved = 1;
        if (rule.flags & F_SKIP && rule.skip > reserved)
            reserved = rule.skip;
        conditions = false;
    }
    end_run(w, &run);
}

/* --- a request --------------------------------------------------------------------------------*/

/* A pattern's text is its entry's number. */
static bool run_regex(void *baton, uint32_t id, const char *pattern, unsigned flags,
                      const char *subject, size_t len)
{
    const rewrite_block *block = baton;

    (void)id;
    (void)flags;
    return !ap_regexec_len(APR_ARRAY_IDX(block->entries, atoi(pattern), rewrite_entry).regex,
                           subject, len, 0, NULL, 0);
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

/* The map function. The answer begins with "=", so that an empty substitution is one, too; NULL: no
 * rule of the block matches. */
static char *look_up(request_rec *r, char *key)
{
    const rewrite_block *block =
        block_of(key, htc_server_conf_of(r->server)->redirects->fold_secret);
    const char *path = key + 33;
    const rewrite_entry *entry = block ? find(block, path) : NULL;
    ap_regmatch_t groups[MAX_GROUPS];
    char *answer;
    size_t len;

    if (!entry)
        return NULL;
    log_answer(r, block, entry, path);
    if (block->status)
        return apr_pstrdup(r->pool, "=");
    if (ap_regexec(entry->regex, path, MAX_GROUPS, groups, 0))
        return NULL;
    len = expand(entry, path, groups, NULL);
    answer = apr_palloc(r->pool, len + 2);
    answer[0] = '=';
    expand(entry, path, groups, answer + 1);
    answer[len + 1] = '\0';
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
