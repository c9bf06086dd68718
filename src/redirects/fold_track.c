/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * RewriteRules that tell when they are applied, so that their answers are counted and noted; see
 * redirects/fold_track.h. Called by redirects/fold_rewrite.c for each container of a tree, by httpd
 * for the private directive, by mod_rewrite through the map function, and by
 * redirects/rule_filter.c when mod_rewrite has ended a request.
 */
#include "redirects/fold_track.h"
#include "redirects/fold.h"
#include "redirects/rule_filter.h"
#include "rules/rules.h"
#include "redirects/notes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* A rule that redirects or refuses. */
typedef struct htc_tracked {
    const char *file;
    uint64_t key; /* in a .htaccess file: of its counter */
    int line;
    int status; /* that it answers with */
    int number; /* among the rules of its container */
} htc_tracked;

typedef struct rule_text {
    const char *pattern, *target; /* target NULL: none */
} rule_text;

/* The rules of one container. mod_rewrite may put those of several together, so contexts have
 * chains of them. */
typedef struct htc_tracks {
    uint64_t id; /* that nobody else can make; never used as an address */
    const htc_tracked *rules;
    const rule_text *texts; /* of the server's configuration; NULL: of a .htaccess file */
    int n;
    int expected; /* how many rules mod_rewrite will know */
    bool in_dir;
    htc_counted *counted; /* of the server's configuration; else NULL */
} htc_tracks;

/* --- reading lines ----------------------------------------------------------------------------*/

typedef void rule_fn(void *baton, const ap_directive_t *node, const rewrite_rule *rule, int number,
                     uint64_t key);

static uint64_t hash_of(const char *text, uint64_t seed)
{
    return text ? XXH3_64bits_withSeed(text, strlen(text) + 1, seed) : seed;
}

/* Call fn for the rules that are to be tracked; returns how many rules there are in all. The key is
 * the same for a rule as long as it and its conditions say the same in the same file. */
static int each_rule(const ap_directive_t *node, apr_pool_t *pool, rule_fn *fn, void *baton)
{
    uint64_t seed = hash_of(node ? node->filename : NULL, 0), key = seed;
    rewrite_rule rule;
    int n = 0;

    for (; node; node = node->next) {
        if (!strcasecmp(node->directive, "RewriteCond"))
            key = hash_of(node->args, key);
        if (strcasecmp(node->directive, "RewriteRule"))
            continue;
        if (!htc_fold_made_node(node) && redirect_config_answers(node->args, &rule, pool))
            fn(baton, node, &rule, n, hash_of(node->args, key));
        key = seed;
        n++;
    }
    return n;
}

/* --- putting ----------------------------------------------------------------------------------*/

typedef struct collector {
    apr_array_header_t *rules; /* htc_tracked */
    apr_array_header_t *texts; /* rule_text; NULL: they are not kept */
    apr_pool_t *pool;          /* of what is kept */
} collector;

static const char *target_of(const rewrite_rule *rule)
{
    return rule->flags & REWRITE_STATUS ? NULL : rule->output;
}

static void add_rule(void *baton, const ap_directive_t *node, const rewrite_rule *rule, int number,
                     uint64_t key)
{
    collector *c = baton;
    const char *target = target_of(rule);
    htc_tracked *made = apr_array_push(c->rules);

    *made = (htc_tracked){node->filename, key, node->line_num, rule->status, number};
    if (c->texts)
        APR_ARRAY_PUSH(c->texts, rule_text) = (rule_text){
            apr_pstrdup(c->pool, rule->pattern), target ? apr_pstrdup(c->pool, target) : NULL};
}

void htc_track_put(htc_walk *w, ap_directive_t **first, bool in_dir, apr_pool_t *scratch)
{
    collector c = {.pool = w->pool};
    ap_directive_t **link = first;
    const ap_directive_t *last = NULL;
    htc_tracks *tracks;
    uint64_t address;
    int expected;

    c.rules = apr_array_make(scratch, 16, sizeof(htc_tracked));
    c.texts = w->changes ? apr_array_make(scratch, 16, sizeof(rule_text)) : NULL;
    expected = each_rule(*first, scratch, add_rule, &c);
    if (!c.rules->nelts)
        return;
    tracks = apr_pcalloc(w->pool, sizeof(*tracks));
    address = (uint64_t)(uintptr_t)tracks;
    tracks->id = XXH3_64bits_withSeed(&address, sizeof(address), w->secret);
    tracks->n = c.rules->nelts;
    tracks->expected = expected;
    tracks->in_dir = in_dir;
    tracks->rules =
        apr_pmemdup(w->pool, c.rules->elts, sizeof(htc_tracked) * (size_t)c.rules->nelts);
    if (c.texts)
        tracks->texts =
            apr_pmemdup(w->pool, c.texts->elts, sizeof(rule_text) * (size_t)c.texts->nelts);
    for (; *link; link = &(*link)->next)
        last = *link;
    htc_fold_insert(w, link, last, HTC_FOLD_TRACK,
                    apr_psprintf(w->pool, "%" APR_UINT64_T_HEX_FMT, (apr_uint64_t)address));
}

static void describe(const void *owner, uint32_t i, htc_redirect_row *row)
{
    const htc_tracks *tracks = owner;
    const htc_tracked *rule = &tracks->rules[i];
    const rule_text *text = &tracks->texts[i];

    row->file = rule->file;
    row->line = (uint32_t)rule->line;
    row->rule = (redirect_rule){.kind = REDIRECT_PATTERN,
                                .source = "",
                                .pattern = text->pattern,
                                .pattern_len = strlen(text->pattern),
                                .target = text->target,
                                .target_len = text->target ? strlen(text->target) : 0,
                                .status = rule->status,
                                .line = row->line};
}

/* The line stands behind the rules, so mod_rewrite has them by now. */
const char *htc_track_directive(cmd_parms *cmd, void *dir_conf, const char *args)
{
    const htc_options *options = htc_options_get();
    htc_dir_conf *dc = cmd->path ? dir_conf : &htc_server_conf_of(cmd->server)->own;
    apr_array_header_t *rules;
    htc_tracks *tracks;

    if (!htc_fold_made(cmd))
        return htc_refuse_private(cmd);
    tracks = (htc_tracks *)(uintptr_t)strtoull(args, NULL, 16);
    rules = htc_rewrite_rules(options->rewrite, cmd);
    if (!rules || rules->nelts != tracks->expected || tracks->in_dir != (cmd->path != NULL))
        return NULL;
    for (int i = 0; i < tracks->n && !options->traced; i++)
        htc_rewrite_give_variable(
            options->rewrite, rules, tracks->rules[i].number,
            apr_psprintf(cmd->pool, "!${" HTC_FOLD_MAP ":%c%016" APR_UINT64_T_HEX_FMT ".%d}",
                         HTC_TRACK_SIGN, (apr_uint64_t)tracks->id, i),
            cmd->pool);
    dc->tracks = htc_chain_of(cmd->pool, tracks);
    if (tracks->texts) {
        tracks->counted = htc_counted_add(tracks, (uint32_t)tracks->n, describe);
        APR_ARRAY_PUSH(options->tracked, htc_counted *) = tracks->counted;
    }
    return NULL;
}

void htc_track_forget(void)
{
    const apr_array_header_t *tracked = htc_options_get()->tracked;

    for (int i = 0; i < tracked->nelts; i++)
        APR_ARRAY_IDX(tracked, i, htc_counted *)->count = 0;
}

/* --- a request --------------------------------------------------------------------------------*/

typedef struct wanted {
    uint64_t id;
    const htc_tracks *found;
} wanted;

static bool is_wanted(void *baton, void *own)
{
    const htc_tracks *tracks = own;
    wanted *wanted = baton;

    if (tracks->id == wanted->id)
        wanted->found = tracks;
    return wanted->found != NULL;
}

static const htc_tracks *tracks_of(const request_rec *r, uint64_t id)
{
    const htc_dir_conf *dc = ap_get_module_config(r->per_dir_config, &htcache_module);
    wanted wanted = {id, NULL};

    if (!dc || !htc_chain_find(dc->tracks, is_wanted, &wanted))
        htc_chain_find(htc_server_conf_of(r->server)->own.tracks, is_wanted, &wanted);
    return wanted.found;
}

/* The name that this returns is of a variable that nobody has. A rule that refuses a subrequest
 * answers nobody. */
char *htc_track_told(request_rec *r, const char *key)
{
    static char name[] = "\001htcache";
    const htc_tracks *tracks;
    htc_request *rq;
    char *end;
    uint64_t id = strtoull(key, &end, 16);
    long number = *end == '.' ? strtol(end + 1, NULL, 10) : -1;

    tracks = r->main ? NULL : tracks_of(r, id);
    if (!tracks || number < 0 || number >= tracks->n)
        return name;
    rq = htc_request_get(r);
    rq->applied_in = tracks;
    rq->applied = &tracks->rules[number];
    return name;
}

void htc_track_answered(request_rec *r, int status, bool in_dir)
{
    htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    const htc_tracks *tracks = rq ? rq->applied_in : NULL;
    const htc_tracked *rule = rq ? rq->applied : NULL;

    if (!tracks || tracks->in_dir != in_dir || rule->status != status)
        return;
    rq->applied_in = NULL;
    htc_note_redirect(r, rule->file, (unsigned)rule->line);
    if (tracks->counted)
        htc_count_hit(r, tracks->counted->counters, tracks->counted->count,
                      (uint32_t)(rule - tracks->rules));
    else
        htc_count_htaccess(r, rule->file, rule->key);
}

/* --- lists ------------------------------------------------------------------------------------*/

static void collect_rule(void *baton, const ap_directive_t *node, const rewrite_rule *rule,
                         int number, uint64_t key)
{
    apr_hash_t *tracked = baton;
    apr_pool_t *pool = apr_hash_pool_get(tracked);
    htc_track_row *row = apr_palloc(pool, sizeof(*row));
    const char *target = target_of(rule);

    (void)number;
    row->node = node;
    row->key = key;
    row->rule = (redirect_rule){.kind = REDIRECT_PATTERN,
                                .source = "",
                                .pattern = rule->pattern,
                                .pattern_len = strlen(rule->pattern),
                                .target = target,
                                .target_len = target ? strlen(target) : 0,
                                .status = rule->status,
                                .line = (uint32_t)node->line_num};
    apr_hash_set(tracked, &row->node, sizeof(row->node), row);
}

void htc_track_collect(const htc_walk *w, const ap_directive_t *first)
{
    if (htc_rewrite_can_tell(htc_options_get()->rewrite))
        each_rule(first, apr_hash_pool_get(w->tracked), collect_rule, w->tracked);
}
