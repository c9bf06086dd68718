/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirects/fold_views.h
 * What is known of mod_rewrite's own configuration, which httpd declares nowhere. redirects/fold_views.c
 * makes sure of it; redirects/rule_filter.c reads it for each request. For these two only.
 */
#ifndef HTC_REDIRECTS_FOLD_VIEWS_H
#define HTC_REDIRECTS_FOLD_VIEWS_H

#include "module/module.h"

/* How mod_rewrite's configurations begin, in all of httpd 2.4. htc_gates_create() makes sure. */
typedef struct dir_view {
    int state, options;
    apr_array_header_t *conds, *rules;
    char *directory;
} dir_view;

typedef struct server_view {
    int state, options;
    apr_hash_t *maps;
    apr_array_header_t *conds, *rules;
    server_rec *server;
} server_view;

struct htc_gates {
    module *rewrite;
    int enabled; /* a state */
    dir_view *blank;
    size_t vector_size;     /* bytes of a vector that modules use */
    size_t pattern;         /* where a rule has its pattern's text */
    size_t variables;       /* where it has its list of variables; 0: not known */
    const command_rec *map; /* the directive RewriteMap */
    ap_HOOK_translate_name_t *translate;
    ap_HOOK_fixups_t *fixup;
};

#endif
