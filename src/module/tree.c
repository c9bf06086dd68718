/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * httpd's directive trees as records, and records as trees (cache/record.h). Called by the folders
 * above.
 */
#include "module/module.h"

/* Turns a tree into a record, depth first. */
typedef struct encoder {
    const htc_context *ctx;
    htc_record_builder *builder;
    apr_pool_t *pool;
    uint32_t flags;
    const char *stock;
} encoder;

static void encode_one(encoder *e, const ap_directive_t *node, uint32_t depth)
{
    const htc_command *command = htc_command_find(e->ctx, node->directive);
    enum htc_allow allow = HTC_ALLOW_REPLAY; /* unknown: httpd's own error, each time */
    const char *reason;
    htc_directive d = {(uint32_t)node->line_num, depth, node->directive,
                       node->args ? node->args : ""};

    htc_record_add(e->builder, &d);
    if (!strncasecmp(d.name, "Redirect", 8) || !strcasecmp(d.name, "RewriteRule"))
        e->flags |= HTC_RF_REDIRECTS;
    if (command)
        allow = htc_command_judge(command, d.args, &reason);
    if (allow == HTC_ALLOW_REPLAY)
        e->flags |= HTC_RF_REPLAY;
    else if (allow == HTC_ALLOW_STOCK && !e->stock)
        e->stock = htc_command_refusal(command, d.line, reason, e->pool);
}

static void encode_level(encoder *e, const ap_directive_t *node, uint32_t depth)
{
    for (; node; node = node->next) {
        encode_one(e, node, depth);
        encode_level(e, node->first_child, depth + 1);
    }
}

apr_status_t htc_tree_encode(const htc_context *ctx, const ap_directive_t *tree, htc_text_hash hash,
                             apr_pool_t *pool, const void **record, size_t *len, uint32_t *flags,
                             const char **stock)
{
    encoder e = {.ctx = ctx, .builder = htc_record_begin(pool, hash), .pool = pool};
    apr_status_t rv;

    encode_level(&e, tree, 0);
    rv = htc_record_finish(e.builder, record, len);
    *flags |= e.flags;
    *stock = e.stock;
    return rv;
}

/* The last directive at each depth, while a tree is rebuilt. */
typedef struct decoder {
    apr_array_header_t *last; /* ap_directive_t * */
    ap_directive_t *root;
} decoder;

static void decode_link(decoder *d, ap_directive_t *node, uint32_t depth)
{
    ap_directive_t **last = (ap_directive_t **)d->last->elts;

    if (depth > 0)
        node->parent = last[depth - 1];
    if (depth < (uint32_t)d->last->nelts)
        last[depth]->next = node;
    else if (depth > 0)
        node->parent->first_child = node;
    else
        d->root = node;
    d->last->nelts = (int)depth;
    APR_ARRAY_PUSH(d->last, ap_directive_t *) = node;
}

ap_directive_t *htc_tree_decode(const void *record, const char *filename, apr_pool_t *pool)
{
    decoder d = {apr_array_make(pool, 8, sizeof(ap_directive_t *)), NULL};
    htc_directive directive;
    size_t offset = 0;

    while (htc_record_next(record, &offset, &directive)) {
        ap_directive_t *node = apr_pcalloc(pool, sizeof(*node));

        node->directive = directive.name;
        node->args = directive.args;
        node->filename = filename;
        node->line_num = (int)directive.line;
        decode_link(&d, node, directive.depth);
    }
    return d.root;
}
