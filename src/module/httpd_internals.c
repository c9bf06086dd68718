/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Data of httpd that no header of httpd declares; see httpd_internals.h for what is checked, and
 * against which releases. Called by htaccess/merged_walk.c and by the folders of redirects.
 */
#include "module/httpd_internals.h"
#include "base/base.h"

#include "http_core.h"
#include "http_log.h"
#include "http_main.h"
#include "apr_strings.h"

size_t htc_vector_bytes(void)
{
    int last = 0;

    for (const module *m = ap_top_module; m; m = m->next)
        last = m->module_index > last ? m->module_index : last;
    return ((size_t)last + 1) * sizeof(void *);
}

/* --- core's note of a walk --------------------------------------------------------------------*/

/* walk_cache_t and walk_walked_t of core, as far as a request's first walk needs them. What comes
 * behind (the note of a walk before, and how many there were) is zero for that. */
typedef struct walk_note {
    const char *dir;                  /* ends with '/' */
    const void *sections;             /* the server's array of them */
    const ap_conf_vector_t *defaults; /* what the request had */
    const ap_conf_vector_t *result;   /* what it has now */
    const apr_array_header_t *walked; /* htc_walk_step: what matched, from the top down */
} walk_note;

#define NOTE_BYTES 128

static HTC_EACH const walk_note *note_of(const request_rec *r, apr_size_t which)
{
    void **note = ap_get_request_note((request_rec *)r, which);

    return note ? *note : NULL;
}

/* True when core's array lists the same steps. */
static bool same_steps(const apr_array_header_t *walked, const apr_array_header_t *steps)
{
    const htc_walk_step *theirs, *ours;

    if (!walked || walked->elt_size != (int)sizeof(htc_walk_step) ||
        walked->nalloc < walked->nelts || walked->nelts != steps->nelts)
        return false;
    theirs = (const htc_walk_step *)(const void *)walked->elts;
    ours = (const htc_walk_step *)(const void *)steps->elts;
    for (int i = 0; i < walked->nelts; i++) {
        if (theirs[i].matched != ours[i].matched || !theirs[i].merged ||
            (i == 0 && theirs[i].merged != theirs[i].matched))
            return false;
    }
    return walked->nelts > 0;
}

/* True when it is the configuration that the request had when this walk was over. Each later
 * walk begins with the result of the one before. */
static bool came_to(const request_rec *r, const ap_conf_vector_t *result)
{
    static const apr_size_t following[] = {AP_NOTE_FILE_WALK, AP_NOTE_LOCATION_WALK,
                                           AP_NOTE_IF_WALK};

    for (size_t i = 0; i < sizeof(following) / sizeof(following[0]); i++) {
        const walk_note *next = note_of(r, following[i]);

        if (next && next->defaults == result)
            return true;
    }
    return result == r->per_dir_config;
}

HTC_EACH bool htc_walk_note_present(const request_rec *r)
{
    return note_of(r, AP_NOTE_DIRECTORY_WALK) != NULL;
}

bool htc_walk_note_matches(const request_rec *r, const char *dir,
                           const apr_array_header_t *sections, const apr_array_header_t *steps)
{
    const walk_note *note = note_of(r, AP_NOTE_DIRECTORY_WALK);

    /* Each look is at what the ones before have shown to be there. */
    return note && note->sections == sections->elts &&
           note->defaults == r->server->lookup_defaults && note->dir && !strcmp(note->dir, dir) &&
           came_to(r, note->result) && same_steps(note->walked, steps);
}

HTC_EACH void htc_walk_note_leave(request_rec *r, const char *dir,
                                  const apr_array_header_t *sections,
                                  const ap_conf_vector_t *defaults, const apr_array_header_t *steps)
{
    walk_note *note = apr_pcalloc(r->pool, NOTE_BYTES);
    void **place = ap_get_request_note(r, AP_NOTE_DIRECTORY_WALK);

    note->dir = dir;
    note->sections = sections->elts;
    note->defaults = defaults;
    note->result = r->per_dir_config;
    note->walked = steps; /* the next walk copies it */
    *place = note;
}

/* --- mod_rewrite ------------------------------------------------------------------------------*/

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

/* True when it was allocated at about the same time. */
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

/* Offset of the member that a rule has only if it sets a variable. 0: not found, and no rule is
 * given a variable. */
static size_t find_variables(htc_rewrite_dir *conf, cmd_parms *parms, const command_rec *rule)
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
static size_t find_pattern(const htc_rewrite_dir *conf, const char *pattern)
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
static bool dir_as_expected(htc_rewrite *rewrite, cmd_parms *parms, const command_rec *engine,
                            const command_rec *rule)
{
    htc_rewrite_dir *conf = rewrite->module->create_dir_config(parms->pool, parms->path);
    int disabled;

    if (!near(conf, conf->conds) || !is_empty_array(conf, conf->rules) ||
        !near(conf, conf->directory) || strcmp(conf->directory, "/d/"))
        return false;
    disabled = conf->state;
    parms->cmd = engine;
    if (engine->AP_FLAG(parms, conf, 1) || conf->state == disabled)
        return false;
    rewrite->enabled = conf->state;
    parms->cmd = rule;
    if (rule->AP_RAW_ARGS(parms, conf, "^htcache:here -") || conf->rules->nelts != 1)
        return false;
    rewrite->pattern = find_pattern(conf, "^htcache:here");
    rewrite->variables = find_variables(conf, parms, rule);
    return rewrite->pattern != 0;
}

/* RewriteMap MAP int:FUNCTION */
static bool declare(const htc_rewrite *rewrite, const char *map, const char *function,
                    cmd_parms *parms)
{
    const char *source = apr_pstrcat(parms->pool, "int:", function, NULL);

    parms->cmd = rewrite->map;
    return !(rewrite->map->args_how == TAKE2
                 ? rewrite->map->AP_TAKE2(parms, rewrite->blank, map, source)
                 : rewrite->map->AP_TAKE3(parms, rewrite->blank, map, source, NULL));
}

static bool server_as_expected(const htc_rewrite *rewrite, const char *map, cmd_parms *parms,
                               const command_rec *rule)
{
    server_rec *server = apr_pmemdup(parms->pool, ap_server_conf, sizeof(*server));
    htc_rewrite_server *conf = rewrite->module->create_server_config(parms->pool, server);

    server->module_config = (ap_conf_vector_t *)ap_create_per_dir_config(parms->pool);
    ap_set_module_config(server->module_config, rewrite->module, conf);
    if (!near(conf, conf->conds) || !is_empty_array(conf, conf->rules) || !near(conf, conf->maps) ||
        apr_hash_count(conf->maps) || conf->server != server)
        return false;
    parms->server = server;
    parms->path = NULL;
    return !rule->AP_RAW_ARGS(parms, rewrite->blank, "^ -") && conf->rules->nelts == 1 &&
           declare(rewrite, map, map, parms) && apr_hash_get(conf->maps, map, APR_HASH_KEY_STRING);
}

bool htc_rewrite_find(htc_rewrite *rewrite, const char *map, apr_pool_t *pconf, apr_pool_t *ptemp)
{
    const command_rec *engine, *rule;
    cmd_parms parms = {.server = ap_server_conf, .path = (char *)"/d"};
    apr_pool_t *pool;
    bool good = false;

    rewrite->module = ap_find_linked_module("mod_rewrite.c");
    if (!rewrite->module || !ap_server_conf)
        return false;
    engine = command(rewrite->module, "RewriteEngine");
    rule = command(rewrite->module, "RewriteRule");
    rewrite->map = command(rewrite->module, "RewriteMap");
    if (!engine || !rule || engine->args_how != FLAG || rule->args_how != RAW_ARGS ||
        !rewrite->map || (rewrite->map->args_how != TAKE2 && rewrite->map->args_how != TAKE23) ||
        !rewrite->module->create_dir_config || !rewrite->module->merge_dir_config ||
        !rewrite->module->create_server_config)
        return false;
    rewrite->blank = rewrite->module->create_dir_config(pconf, NULL);
    apr_pool_create(&pool, ptemp);
    parms.pool = parms.temp_pool = pool;
    good = dir_as_expected(rewrite, &parms, engine, rule) &&
           server_as_expected(rewrite, map, &parms, rule);
    apr_pool_destroy(pool);
    return good;
}

/* What the handler needs of mod_rewrite's configuration is there: most hosts have one of their own,
 * others share the main server's. */
void htc_rewrite_declare_map(const htc_rewrite *rewrite, const char *map, server_rec *s,
                             apr_pool_t *pool)
{
    cmd_parms parms = {.server = s, .pool = pool, .temp_pool = pool};

    if (ap_get_module_config(s->module_config, rewrite->module))
        declare(rewrite, map, map, &parms);
}

/* The RewriteMap lines of one server: the last one of a name counts. */
static void replace_programs(const htc_rewrite *rewrite, const char *program,
                             const ap_directive_t *node, apr_hash_t *own, cmd_parms *parms)
{
    const htc_rewrite_server *conf =
        ap_get_module_config(parms->server->module_config, rewrite->module);

    for (; node; node = node->next) {
        const char *args = node->args ? node->args : "";
        const char *name, *source;

        if (strcasecmp(node->directive, "RewriteMap"))
            continue;
        name = ap_getword_conf(parms->pool, &args);
        source = ap_getword_conf(parms->pool, &args);
        if (!apr_hash_get(own, name, APR_HASH_KEY_STRING))
            continue;
        if (!strncasecmp(source, "prg:", 4))
            declare(rewrite, name, program, parms);
        else
            apr_hash_set(conf->maps, name, APR_HASH_KEY_STRING,
                         apr_hash_get(own, name, APR_HASH_KEY_STRING));
    }
}

static const ap_directive_t *host_of(const server_rec *s)
{
    const ap_directive_t *node = s->is_virtual ? ap_conftree : NULL;

    while (node &&
           (strcasecmp(node->directive, "<VirtualHost") || !s->defn_name ||
            node->line_num != (int)s->defn_line_number || strcmp(node->filename, s->defn_name)))
        node = node->next;
    return node;
}

void htc_rewrite_adopt(const htc_rewrite *rewrite, const char *program, server_rec *copy,
                       const server_rec *real, apr_pool_t *pool)
{
    const htc_rewrite_server *conf = ap_get_module_config(real->module_config, rewrite->module);
    const ap_directive_t *host = host_of(real);
    cmd_parms parms = {.server = copy, .pool = pool, .temp_pool = pool};
    htc_rewrite_server *made;

    /* A host without lines of its own has the main server's, and mod_rewrite leaves it alone. */
    if (!conf || conf->server != real)
        return;
    /* Behind these members are some that only merging reads. */
    made = apr_pcalloc(pool, 2 * sizeof(*made));
    *made = *conf;
    made->server = copy;
    made->maps = apr_hash_copy(pool, conf->maps);
    ap_set_module_config(copy->module_config, rewrite->module, made);
    replace_programs(rewrite, program, ap_conftree, conf->maps, &parms);
    replace_programs(rewrite, program, host ? host->first_child : NULL, conf->maps, &parms);
}

bool htc_rewrite_can_tell(const htc_rewrite *rewrite)
{
    return rewrite && rewrite->variables;
}

apr_array_header_t *htc_rewrite_rules(const htc_rewrite *rewrite, const cmd_parms *cmd)
{
    const htc_rewrite_dir *dir;
    const htc_rewrite_server *server;

    if (!rewrite)
        return NULL;
    if (cmd->path) {
        dir = ap_get_module_config((ap_conf_vector_t *)cmd->context, rewrite->module);
        return dir ? dir->rules : NULL;
    }
    server = ap_get_module_config(cmd->server->module_config, rewrite->module);
    return server ? server->rules : NULL;
}

const char **htc_rewrite_pattern(const htc_rewrite *rewrite, const apr_array_header_t *rules,
                                 int number)
{
    char *rule = rules->elts + (size_t)rules->elt_size * (size_t)number;

    return (const char **)(void *)(rule + rewrite->pattern);
}

void htc_rewrite_give_variable(const htc_rewrite *rewrite, apr_array_header_t *rules, int number,
                               char *text, apr_pool_t *pool)
{
    char *rule = rules->elts + (size_t)number * (size_t)rules->elt_size;
    variable **first = (variable **)(void *)(rule + rewrite->variables);
    variable *made = apr_palloc(pool, sizeof(*made));

    *made = (variable){*first, text};
    *first = made;
}

/* --- mod_alias --------------------------------------------------------------------------------*/

/* RedirectRelative lies where its own command record says; httpd before 2.4.58 has none. */
static struct {
    const module *alias;
    bool known;
    size_t offset;
} relative;

void htc_alias_find(void)
{
    const module *alias = ap_find_linked_module("mod_alias.c");
    const command_rec *cmd = alias ? alias->cmds : NULL;

    relative.alias = alias;
    relative.known = false;
    for (; cmd && cmd->name; cmd++) {
        if (!strcmp(cmd->name, "RedirectRelative") && cmd->AP_FLAG == ap_set_flag_slot) {
            relative.known = true;
            relative.offset = (size_t)cmd->cmd_data;
        }
    }
}

bool htc_alias_relative(const request_rec *r)
{
    const char *conf =
        relative.known ? ap_get_module_config(r->per_dir_config, relative.alias) : NULL;
    int value = 0;

    if (conf)
        memcpy(&value, conf + relative.offset, sizeof(value));
    return value == 1;
}

int htc_alias_index(void)
{
    return relative.alias ? relative.alias->module_index : APLOG_NO_MODULE;
}
