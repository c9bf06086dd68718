/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Many Redirect lines of the server's configuration, one behind the other, as one directive: lists
 * of a million are common after a migration, and httpd would look up the directive of each line,
 * copy its words, and bring them here one by one, twice at each start. So they are taken out of the
 * tree until it has been processed, and read where they lie in it. Called by redirects/fold_tree.c
 * before, and by httpd while it processes the configuration.
 *
 * Only lines that nothing is wrong with are part of a run, but for a regex that cannot be compiled;
 * all others are brought here by httpd in their place, or left to mod_alias.
 */
#include "redirects/fold.h"
#include "rules/rules.h"

#define MIN_RUN    4
#define FIRST_ROOM 64

/* Being read. The memory is not of a pool, which would keep what an array has grown out of. */
typedef struct reading {
    htc_fold_entry *entries;
    size_t n, room;
    int regexes;
} reading;

static htc_fold_entry *push(reading *r)
{
    size_t room = r->room ? r->room * 2 : FIRST_ROOM;
    htc_fold_entry *grown;

    if (r->n == r->room) {
        grown = realloc(r->entries, room * sizeof(*grown));
        if (!grown)
            return NULL;
        r->entries = grown;
        r->room = room;
    }
    return &r->entries[r->n++];
}

/* False: the line is no part of a run. */
static bool read_line(reading *r, const ap_directive_t *node, apr_pool_t *pool)
{
    int alias = node->first_child ? -1 : redirect_config_alias(node->directive);
    bool regex = alias == REDIRECT_CONFIG_MATCH;
    htc_fold_entry *entry;
    redirect_plain plain;

    if (alias < 0 || !redirect_config_plain(alias, node->args, &plain) ||
        (plain.target && !regex && !ap_is_url(plain.target) && *plain.target != '/'))
        return false;
    entry = push(r);
    if (!entry)
        return false;
    *entry = (htc_fold_entry){.source = plain.source,
                              .source_len = (uint32_t)plain.source_len,
                              .file = node->filename,
                              .status = plain.status,
                              .line = node->line_num};
    if (regex)
        entry->source = htc_fold_terminated(plain.source, plain.source_len, pool);
    if (plain.target)
        entry->target = htc_fold_terminated(plain.target, plain.target_len, pool);
    r->regexes += regex;
    return true;
}

static apr_status_t free_entries(void *entries)
{
    free(entries);
    return APR_SUCCESS;
}

/* An array of just these, which may be grown like any other. */
static apr_array_header_t *finish(const reading *r, apr_pool_t *pool)
{
    apr_array_header_t *array = apr_array_make(pool, 0, sizeof(htc_fold_entry));
    htc_fold_entry *fitting = realloc(r->entries, r->n * sizeof(*fitting));

    if (!fitting)
        fitting = r->entries;
    array->elts = (char *)fitting;
    array->nelts = array->nalloc = (int)r->n;
    apr_pool_cleanup_register(pool, array->elts, free_entries, apr_pool_cleanup_null);
    return array;
}

void htc_fold_run_make(htc_walk *w, ap_directive_t **link, const ap_directive_t *host, bool in_dir,
                       apr_array_header_t *runs)
{
    ap_directive_t *behind = *link;
    reading r = {NULL};
    htc_fold_run *run;

    while (behind && r.n < INT_MAX && read_line(&r, behind, w->pool))
        behind = behind->next;
    if (r.n < MIN_RUN) {
        free(r.entries);
        return;
    }
    run = apr_pcalloc(w->pool, sizeof(*run));
    run->first = *link;
    run->link = link;
    run->host = host;
    run->in_dir = in_dir;
    run->regexes = r.regexes;
    run->entries = finish(&r, w->pool);
    run->node = htc_fold_new_node(
        w, run->first, HTC_FOLD_RUN,
        apr_psprintf(w->pool, "%" APR_UINT64_T_HEX_FMT, (apr_uint64_t)(uintptr_t)run));
    run->node->next = behind;
    *link = run->node;
    APR_ARRAY_PUSH(runs, htc_fold_run *) = run;
}

static htc_fold_run *run_of_args(const char *args)
{
    return (htc_fold_run *)(uintptr_t)apr_strtoi64(args, NULL, 16);
}

const htc_fold_run *htc_fold_run_of(const ap_directive_t *node)
{
    return htc_fold_made_node(node) && !strcmp(node->directive, HTC_FOLD_RUN)
               ? run_of_args(node->args)
               : NULL;
}

static const char *compile(cmd_parms *cmd, const htc_fold_run *run)
{
    const ap_directive_t *node = run->first;

    for (int i = 0; i < run->entries->nelts; i++, node = node->next) {
        htc_fold_entry *entry = &APR_ARRAY_IDX(run->entries, i, htc_fold_entry);

        if (redirect_config_alias(node->directive) != REDIRECT_CONFIG_MATCH)
            continue;
        entry->regex = ap_pregcomp(cmd->pool, entry->source, AP_REG_EXTENDED);
        if (!entry->regex) {
            cmd->err_directive = node;
            return "Regular expression could not be compiled.";
        }
    }
    return NULL;
}

const char *htc_fold_run_directive(cmd_parms *cmd, void *dir_conf, const char *args)
{
    const char *wrong;
    htc_fold_run *run;
    htc_fold *fold;

    if (!htc_fold_made(cmd))
        return htc_refuse_private(cmd);
    run = run_of_args(args);
    wrong = run->regexes ? compile(cmd, run) : NULL;
    if (wrong)
        return wrong;
    fold = htc_fold_here(cmd, dir_conf);
    if (!fold->entries->nelts && !run->taken) {
        fold->entries = run->entries;
        run->taken = true;
    } else {
        apr_array_cat(fold->entries, run->entries);
    }
    return NULL;
}
