/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reading folded Redirect lines. The rules by which the words of a line are understood, and the
 * messages for those that are wrong, are mod_alias's, whose lines they are; httpd calls these
 * handlers while it processes the configuration tree.
 */
#include "redirects/fold.h"

#include "rules/rules.h"
#include "regex/regex.h"

#include <sys/mman.h>

const char *htc_fold_terminated(const char *text, size_t len, apr_pool_t *pool)
{
    return text[len] ? apr_pstrmemdup(pool, text, len) : text;
}

htc_fold *htc_fold_here(cmd_parms *cmd, void *dir_conf)
{
    htc_dir_conf *dc = cmd->path ? dir_conf : &htc_server_conf_of(cmd->server)->own;
    htc_fold *fold = dc->folds ? dc->folds->own : NULL;
    htc_options *options = htc_options_get();
    apr_array_header_t *made = cmd->pool != cmd->temp_pool ? options->folds : options->building;

    if (!fold) {
        fold = apr_pcalloc(cmd->pool, sizeof(*fold));
        fold->pool = cmd->pool;
        fold->opaque = options->regex_options;
        fold->entries = apr_array_make(cmd->pool, 4, sizeof(htc_fold_entry));
        dc->folds = htc_chain_of(cmd->pool, fold);
        if (made)
            APR_ARRAY_PUSH(made, htc_fold *) = fold;
    }
    fold->linear = htc_fold_linear(cmd);
    return fold;
}

static const char *add(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2,
                       const char *a3, bool is_regex)
{
    int status = (int)(intptr_t)cmd->info;
    redirect_first_word kind = redirect_config_status(a1, &status);
    const char *source = a3 || kind != REDIRECT_WORD_SOURCE ? a2 : a1;
    const char *target = a3 || kind != REDIRECT_WORD_SOURCE ? a3 : a2;
    ap_regex_t *regex = NULL;
    htc_fold_entry *entry;

    if (!htc_fold_made(cmd))
        return htc_refuse_private(cmd);
    if (a3 && kind == REDIRECT_WORD_SOURCE)
        return "Redirect: invalid first argument (of three)";
    if (is_regex) {
        regex = ap_pregcomp(cmd->pool, source, AP_REG_EXTENDED);
        if (!regex)
            return "Regular expression could not be compiled.";
    }
    if (!ap_is_HTTP_REDIRECT(status)) {
        if (target)
            return "Redirect URL not valid for this status";
    } else if (!target) {
        return "URL to redirect to is missing";
    } else if (!is_regex && !ap_is_url(target) && *target != '/') {
        return "Redirect to non-URL";
    }
    entry = apr_array_push(htc_fold_here(cmd, dir_conf)->entries);
    *entry = (htc_fold_entry){.source = source,
                              .source_len = (uint32_t)strlen(source),
                              .target = target,
                              .regex = regex,
                              .status = status,
                              .line = cmd->directive->line_num,
                              .file = cmd->directive->filename};
    return NULL;
}

const char *htc_fold_take123(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2,
                             const char *a3)
{
    return add(cmd, dir_conf, a1, a2, a3, false);
}

const char *htc_fold_take23(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2,
                            const char *a3)
{
    return add(cmd, dir_conf, a1, a2, a3, true);
}

const char *htc_fold_take2(cmd_parms *cmd, void *dir_conf, const char *a1, const char *a2)
{
    return add(cmd, dir_conf, a1, a2, NULL, false);
}

bool htc_fold_read_line(const ap_directive_t *node, apr_pool_t *pool, htc_fold_entry *entry,
                        bool *is_regex)
{
    int which = redirect_config_alias(node->directive);
    const char *args = node->args ? node->args : "";
    const char *first = ap_getword_conf(pool, &args);

    if (which < 0)
        return false;
    *is_regex = !strcasecmp(node->directive, "RedirectMatch");
    *entry = (htc_fold_entry){.source = first,
                              .status = strcasecmp(node->directive, "RedirectPermanent")
                                            ? HTTP_MOVED_TEMPORARILY
                                            : HTTP_MOVED_PERMANENTLY,
                              .line = node->line_num,
                              .file = node->filename};
    if (redirect_config_status(first, &entry->status) != REDIRECT_WORD_SOURCE)
        entry->source = ap_getword_conf(pool, &args);
    entry->source_len = (uint32_t)strlen(entry->source);
    entry->target = *args ? ap_getword_conf(pool, &args) : NULL;
    return entry->source_len > 0;
}

const char *htc_fold_mark(cmd_parms *cmd, void *dir_conf)
{
    htc_dir_conf *dc = dir_conf;

    if (!htc_fold_made(cmd))
        return htc_refuse_private(cmd);
    if (cmd->path) {
        dc->first_file = cmd->directive->filename;
        dc->first_line = cmd->directive->line_num;
    }
    return NULL;
}

const char *htc_fold_silent(cmd_parms *cmd, void *dir_conf, const char *args)
{
    (void)dir_conf;
    (void)args;
    return htc_fold_made(cmd) ? NULL : htc_refuse_private(cmd);
}

const char *htc_fold_host_directive(cmd_parms *cmd, void *dir_conf, int dirs)
{
    htc_server_conf *sc = htc_server_conf_of(cmd->server);

    (void)dir_conf;
    if (!htc_fold_made(cmd))
        return htc_refuse_private(cmd);
    sc->fold_lines = true;
    sc->fold_dirs = dirs != 0;
    return NULL;
}

static void describe(const void *owner, uint32_t i, htc_redirect_row *row)
{
    const htc_fold_entry *entry = &((const htc_fold_entry *)owner)[i];
    const char *target = entry->target;

    row->file = entry->file;
    row->line = (uint32_t)entry->line;
    row->rule = (redirect_rule){.kind = entry->regex ? REDIRECT_PATTERN : REDIRECT_PREFIX,
                                .source = entry->regex ? "" : entry->source,
                                .pattern = entry->regex ? entry->source : NULL,
                                .target = target,
                                .target_len = target ? strlen(target) : 0,
                                .status = entry->status,
                                .line = row->line};
    row->rule.source_len = entry->regex ? 0 : entry->source_len;
    row->rule.pattern_len = entry->regex ? entry->source_len : 0;
}

void htc_fold_count(htc_fold *fold)
{
    fold->counted = htc_counted_add(fold->entries->elts, (uint32_t)fold->entries->nelts, describe);
}

/* --- tables -----------------------------------------------------------------------------------*/

unsigned htc_fold_regex_flags(void)
{
    int cflags = ap_regcomp_get_default_cflags();

    return (cflags & AP_REG_DOTALL ? REDIRECT_REGEX_DOTALL : 0) |
           (cflags & AP_REG_DOLLAR_ENDONLY ? REDIRECT_REGEX_DOLLAR_ENDONLY : 0);
}

/* Floating strings, and what is not known, may be anywhere. */
static void add_to_prefix_filter(redirect_prefix_filter *prefixes,
                                 const redirect_regex_facts *facts)
{
    if (facts->kind == REDIRECT_REGEX_NONE || facts->kind == REDIRECT_REGEX_FLOATING)
        redirect_prefix_filter_open(prefixes);
    else
        for (unsigned i = 0; i < facts->count; i++)
            redirect_prefix_filter_add(prefixes, facts->strings[i].text, facts->strings[i].len,
                                       false);
}

redirect_outcome htc_fold_add_regex(redirect_builder *builder, redirect_prefix_filter *prefixes,
                                    redirect_rule *rule, const redirect_regex_facts *facts)
{
    redirect_outcome outcome = REDIRECT_ADDED;

    rule->kind = REDIRECT_PATTERN;
    if (prefixes)
        add_to_prefix_filter(prefixes, facts);
    if (facts->kind == REDIRECT_REGEX_NONE)
        return redirect_builder_add(builder, rule);
    if (facts->caseless)
        rule->flags |= REDIRECT_ICASE;
    if (facts->kind == REDIRECT_REGEX_FLOATING)
        rule->flags |= REDIRECT_FLOATING;
    for (unsigned i = 0; i < facts->count && outcome == REDIRECT_ADDED; i++) {
        rule->source = facts->strings[i].text;
        rule->source_len = facts->strings[i].len;
        outcome = redirect_builder_add(builder, rule);
    }
    return outcome;
}

/* The table finds entries: a rule's line is the entry's number, and so is its pattern's text. */
static redirect_outcome add_entry(redirect_builder *builder, const htc_fold *fold, int i,
                                  apr_pool_t *pool)
{
    const htc_fold_entry *entry = &APR_ARRAY_IDX(fold->entries, i, htc_fold_entry);
    redirect_rule rule = {.kind = REDIRECT_PREFIX, .status = HTTP_MOVED_TEMPORARILY, .source = ""};
    redirect_regex_facts facts = {.kind = REDIRECT_REGEX_NONE};

    rule.line = (uint32_t)i;
    if (!entry->regex) {
        rule.source = entry->source;
        rule.source_len = entry->source_len;
        redirect_prefix_filter_add_prefix(fold->prefixes, rule.source, rule.source_len, pool);
        return redirect_builder_add(builder, &rule);
    }
    rule.pattern = apr_itoa(pool, i);
    rule.pattern_len = strlen(rule.pattern);
    if (!fold->opaque)
        redirect_regex_read(entry->source, entry->source_len, htc_fold_regex_flags(), NULL, pool,
                            &facts);
    return htc_fold_add_regex(builder, fold->prefixes, &rule, &facts);
}

/* From so many bytes on an image stays in the memory in which it was built. Others would take more
 * of it than they need. */
#define LARGE_IMAGE   ((size_t)1 << 20)
#define IMAGE_ALIGNED ((uintptr_t)64)

typedef struct mapping {
    void *bytes;
    size_t size;
} mapping;

static apr_status_t unmap_image(void *image)
{
    const mapping *mapped = image;

    munmap(mapped->bytes, mapped->size);
    return APR_SUCCESS;
}

/* NULL: there is no memory. What the builder makes must lie in its pool. */
static void *image_of(redirect_builder *builder, size_t size, apr_pool_t *pool)
{
    mapping *mapped;
    void *image;

    if (size >= LARGE_IMAGE && !htc_options_get()->building) {
        mapped = apr_palloc(pool, sizeof(*mapped));
        mapped->bytes = redirect_builder_take(builder, &mapped->size);
        apr_pool_cleanup_register(pool, mapped, unmap_image, apr_pool_cleanup_null);
        return mapped->bytes;
    }
    image = apr_palloc(pool, size + IMAGE_ALIGNED);
    image = (void *)APR_ALIGN((uintptr_t)image, IMAGE_ALIGNED);
    redirect_builder_write(builder, image);
    return image;
}

const redirect_table *htc_fold_finish_table(redirect_builder *builder, redirect_outcome outcome,
                                            apr_pool_t *pool)
{
    const redirect_table *table = NULL;
    const void *image = NULL;
    size_t size;

    if (builder && outcome == REDIRECT_ADDED &&
        redirect_builder_finish(builder, NULL, NULL, &size) == APR_SUCCESS)
        image = image_of(builder, size, pool);
    if (image)
        table = redirect_table_open(image, size, pool);
    if (builder)
        redirect_builder_destroy(builder);
    return table;
}

/* Without a table lines are compared one after the other. */
static void make_table(htc_fold *fold)
{
    redirect_builder *builder;
    redirect_outcome outcome = REDIRECT_ADDED;
    apr_pool_t *scratch;

    if (fold->table || fold->linear || fold->entries->nelts < HTC_FOLD_MIN)
        return;
    builder = redirect_builder_create((size_t)fold->entries->nelts, 0);
    if (!builder)
        return;
    fold->prefixes = redirect_prefix_filter_create((size_t)fold->entries->nelts, fold->pool);
    apr_pool_create(&scratch, NULL);
    for (int i = 0; i < fold->entries->nelts && outcome == REDIRECT_ADDED; i++) {
        outcome = add_entry(builder, fold, i, scratch);
        if (i % 1024 == 1023)
            apr_pool_clear(scratch);
    }
    apr_pool_destroy(scratch);
    fold->table = htc_fold_finish_table(builder, outcome, fold->pool);
}

void htc_fold_make_tables(const apr_array_header_t *folds)
{
    for (int i = 0; i < folds->nelts; i++)
        make_table(APR_ARRAY_IDX(folds, i, htc_fold *));
}
