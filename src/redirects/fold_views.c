/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Where mod_rewrite keeps its rules: it is given some, and looked whether they are where they
 * should be. Where they are not, RewriteRules of directories are left to it. Called in pre_config,
 * and by redirects/fold_track.c for what it lets rules set.
 */
#include "redirects/fold_views.h"
#include "redirects/fold.h"
#include "redirects/rule_filter.h"

#include "http_main.h"

/* A variable that a rule sets. */
typedef struct variable {
    struct variable *next;
    char *text;
} variable;

static const command_rec *command(const module *m, const char *name)
{
    const command_rec *cmd = m->cmds;

    while (cmd && cmd->name && strcasecmp(cmd->name, name))
        cmd++;
    return cmd && cmd->name ? cmd : NULL;
}

/* Was it allocated at about the same time? */
static bool around(const void *conf, const void *thing)
{
    ptrdiff_t distance = (intptr_t)thing - (intptr_t)conf;

    return thing && distance > -4096 && distance < 4096;
}

/* And is it of its own? */
static bool near(const void *conf, const void *thing)
{
    return around(conf, thing) && !((uintptr_t)thing % sizeof(void *));
}

static bool is_empty_array(const void *conf, const apr_array_header_t *array)
{
    return near(conf, array) && !array->nelts && near(conf, array->elts) &&
           array->elt_size > (int)sizeof(void *) && array->elt_size < 1024;
}

/* What a rule that sets a variable has, and one that does not has not. 0: not found, and no rule
 * is given any. */
static size_t find_variables(dir_view *conf, cmd_parms *parms, const command_rec *rule)
{
    size_t n = (size_t)conf->rules->elt_size / sizeof(void *), found = 0;
    variable *const *plain, *const *setting;

    if (rule->AP_RAW_ARGS(parms, conf, "^ - [E=htcache:here]") || conf->rules->nelts != 2)
        return 0;
    plain = (variable *const *)(const void *)conf->rules->elts;
    setting = (variable *const *)(const void *)(conf->rules->elts + conf->rules->elt_size);
    for (size_t i = 1; i < n; i++) {
        if (plain[i] || !setting[i])
            continue;
        if (found || !near(conf, setting[i]) || setting[i]->next ||
            !around(conf, setting[i]->text) || strcmp(setting[i]->text, "htcache:here"))
            return 0;
        found = i * sizeof(void *);
    }
    return found;
}

/* Of a conf with one rule. 0: not found. */
static size_t find_pattern(const dir_view *conf, const char *pattern)
{
    const char *const *fields = (const char *const *)(const void *)conf->rules->elts;
    size_t n = (size_t)conf->rules->elt_size / sizeof(void *), found = 0;

    for (size_t i = 1; i < n; i++) {
        if (!around(conf, fields[i]) || strcmp(fields[i], pattern) != 0)
            continue;
        if (found)
            return 0;
        found = i * sizeof(void *);
    }
    return found;
}

/* Ask its handlers for a rule, and look whether it is where it should be. */
static bool dir_as_expected(htc_gates *gates, cmd_parms *parms, const command_rec *engine,
                            const command_rec *rule)
{
    dir_view *conf = gates->rewrite->create_dir_config(parms->pool, parms->path);
    int disabled;

    if (!near(conf, conf->conds) || !is_empty_array(conf, conf->rules) ||
        !near(conf, conf->directory) || strcmp(conf->directory, "/d/"))
        return false;
    disabled = conf->state;
    parms->cmd = engine;
    if (engine->AP_FLAG(parms, conf, 1) || conf->state == disabled)
        return false;
    gates->enabled = conf->state;
    parms->cmd = rule;
    if (rule->AP_RAW_ARGS(parms, conf, "^htcache:here -") || conf->rules->nelts != 1)
        return false;
    gates->pattern = find_pattern(conf, "^htcache:here");
    gates->variables = find_variables(conf, parms, rule);
    return gates->pattern != 0;
}

/* The map function with its own name. */
static bool declare(const htc_gates *gates, cmd_parms *parms)
{
    static const char source[] = "int:" HTC_FOLD_MAP;

    parms->cmd = gates->map;
    return !(gates->map->args_how == TAKE2
                 ? gates->map->AP_TAKE2(parms, gates->blank, HTC_FOLD_MAP, source)
                 : gates->map->AP_TAKE3(parms, gates->blank, HTC_FOLD_MAP, source, NULL));
}

static bool server_as_expected(const htc_gates *gates, cmd_parms *parms, const command_rec *rule)
{
    server_rec *server = apr_pmemdup(parms->pool, ap_server_conf, sizeof(*server));
    server_view *conf = gates->rewrite->create_server_config(parms->pool, server);

    server->module_config = (ap_conf_vector_t *)ap_create_per_dir_config(parms->pool);
    ap_set_module_config(server->module_config, gates->rewrite, conf);
    if (!near(conf, conf->conds) || !is_empty_array(conf, conf->rules) || !near(conf, conf->maps) ||
        apr_hash_count(conf->maps) || conf->server != server)
        return false;
    parms->server = server;
    parms->path = NULL;
    return !rule->AP_RAW_ARGS(parms, gates->blank, "^ -") && conf->rules->nelts == 1 &&
           declare(gates, parms) && apr_hash_get(conf->maps, HTC_FOLD_MAP, APR_HASH_KEY_STRING);
}

static bool as_expected(htc_gates *gates, apr_pool_t *ptemp)
{
    const command_rec *engine = command(gates->rewrite, "RewriteEngine");
    const command_rec *rule = command(gates->rewrite, "RewriteRule");
    cmd_parms parms = {.server = ap_server_conf, .path = (char *)"/d"};
    apr_pool_t *pool;
    bool good = false;

    gates->map = command(gates->rewrite, "RewriteMap");
    if (!engine || !rule || engine->args_how != FLAG || rule->args_how != RAW_ARGS || !gates->map ||
        (gates->map->args_how != TAKE2 && gates->map->args_how != TAKE23) ||
        !gates->rewrite->create_dir_config || !gates->rewrite->merge_dir_config ||
        !gates->rewrite->create_server_config || !htc_gates_find_hooks())
        return false;
    apr_pool_create(&pool, ptemp);
    parms.pool = parms.temp_pool = pool;
    good = dir_as_expected(gates, &parms, engine, rule) && server_as_expected(gates, &parms, rule);
    apr_pool_destroy(pool);
    return good;
}

htc_gates *htc_gates_create(apr_pool_t *pconf, apr_pool_t *ptemp)
{
    htc_gates *gates = apr_pcalloc(pconf, sizeof(*gates));
    int last = htcache_module.module_index;

    gates->rewrite = ap_find_linked_module("mod_rewrite.c");
    if (!gates->rewrite || !ap_server_conf)
        return NULL;
    gates->blank = gates->rewrite->create_dir_config(pconf, NULL);
    if (!as_expected(gates, ptemp)) {
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, ap_server_conf,
                     "HtCache: this mod_rewrite is built in a way not known here; RewriteRules are "
                     "left to it");
        return NULL;
    }
    for (const module *m = ap_top_module; m; m = m->next)
        last = m->module_index > last ? m->module_index : last;
    gates->vector_size = ((size_t)last + 1) * sizeof(void *);
    return gates;
}

/* What the handler needs of mod_rewrite's configuration is there: most hosts have one of their own,
 * others share the main server's. */
void htc_gates_declare_map(const htc_gates *gates, server_rec *s, apr_pool_t *pool)
{
    cmd_parms parms = {.server = s, .pool = pool, .temp_pool = pool};

    if (ap_get_module_config(s->module_config, gates->rewrite))
        declare(gates, &parms);
}

bool htc_gates_can_tell(const htc_gates *gates)
{
    return gates && gates->variables;
}

apr_array_header_t *htc_gates_rules(const htc_gates *gates, const cmd_parms *cmd)
{
    const dir_view *dir;
    const server_view *server;

    if (!gates)
        return NULL;
    if (cmd->path) {
        dir = ap_get_module_config((ap_conf_vector_t *)cmd->context, gates->rewrite);
        return dir ? dir->rules : NULL;
    }
    server = ap_get_module_config(cmd->server->module_config, gates->rewrite);
    return server ? server->rules : NULL;
}

void htc_gates_give_variable(const htc_gates *gates, apr_array_header_t *rules, int number,
                             char *text, apr_pool_t *pool)
{
    char *rule = rules->elts + (size_t)number * (size_t)rules->elt_size;
    variable **first = (variable **)(void *)(rule + gates->variables);
    variable *made = apr_palloc(pool, sizeof(*made));

    *made = (variable){*first, text};
    *first = made;
}
