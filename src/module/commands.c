/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The directives that the loaded modules define, each with what may be kept of it. Built once per
 * configuration generation from the modules' own command tables and the allow-list, because one
 * directive name may belong to several modules, and all of them must agree.
 */
#include "module/module.h"

/* Sections that are resolved while a file is read, by facts that do not change within one
 * configuration generation. Every other directive that runs while a file is read leaves nothing in
 * the tree, so a file that has one must be read by httpd itself. */
static const char *const fixed_sections[] = {"<IfModule",    "<IfDefine",  "<IfVersion",
                                             "<IfDirective", "<IfSection", NULL};

static bool is_fixed_section(const char *name)
{
    for (int i = 0; fixed_sections[i]; i++) {
        if (!strcasecmp(name, fixed_sections[i]))
            return true;
    }
    return false;
}

/* "mod_php.c", "mod_php" and "php_module" are all ways people name a module. */
static bool names_module(const char *given, const char *module_name)
{
    size_t len = strlen(given);
    const char *dot = strrchr(module_name, '.');
    size_t stem = dot ? (size_t)(dot - module_name) : strlen(module_name);

    if (!strcasecmp(given, module_name) || (len == stem && !strncasecmp(given, module_name, len)))
        return true;
    return len > 7 && !strcasecmp(given + len - 7, "_module") && stem == len - 7 + 4 &&
           !strncasecmp(module_name, "mod_", 4) && !strncasecmp(module_name + 4, given, len - 7);
}

static bool is_trusted(const htc_context *ctx, const char *module_name)
{
    for (int i = 0; i < ctx->trusted->nelts; i++) {
        if (names_module(APR_ARRAY_IDX(ctx->trusted, i, const char *), module_name))
            return true;
    }
    return false;
}

/* Share below replay below stock. */
static int strictness(enum htc_allow allow)
{
    return allow == HTC_ALLOW_STOCK ? 2 : allow == HTC_ALLOW_REPLAY ? 1 : 0;
}

static enum htc_allow judge(const htc_command_owner *owner, const char *name, const char *args)
{
    enum htc_allow allow = htc_allow_class(owner->module_name, name, args);

    if (owner->exec_on_read)
        return is_fixed_section(name) ? HTC_ALLOW_SHARE : HTC_ALLOW_STOCK;
    return allow == HTC_ALLOW_REPLAY && owner->trusted ? HTC_ALLOW_SHARE : allow;
}

enum htc_allow htc_command_judge(const htc_command *command, const char *args, const char **reason)
{
    enum htc_allow worst = HTC_ALLOW_SHARE;

    for (const htc_command_owner *owner = command->owners; owner; owner = owner->next) {
        enum htc_allow allow = judge(owner, command->name, args);

        if (strictness(allow) <= strictness(worst))
            continue;
        worst = allow;
        *reason = htc_allow_reason(owner->module_name, command->name);
        if (!*reason)
            *reason = owner->exec_on_read ? "acts while the file is read" : "is not known";
    }
    return worst;
}

/* The name to trust, when each module of the directive that asks for it is not in the table. */
static const char *trust_advice(const htc_command *command, const char *args, apr_pool_t *pool)
{
    const char *name = NULL;
    char text[512];

    for (const htc_command_owner *owner = command->owners; owner; owner = owner->next) {
        if (judge(owner, command->name, args) == HTC_ALLOW_SHARE)
            continue;
        if (htc_allow_listed(owner->module_name, command->name))
            return NULL;
        name = owner->module_name;
    }
    if (!name)
        return NULL;
    htc_allow_trust(text, sizeof(text), name);
    return apr_pstrdup(pool, text);
}

const char *htc_command_replayed(const htc_context *ctx, const htc_directive *directive,
                                 apr_pool_t *pool)
{
    const htc_command *command = htc_command_find(ctx, directive->name);
    const char *why = "is of no module that is loaded", *trust = NULL;

    if (command && htc_command_judge(command, directive->args, &why) == HTC_ALLOW_SHARE)
        return NULL;
    if (command)
        trust = trust_advice(command, directive->args, pool);
    return apr_psprintf(pool, "line %u: %s%s %s%s%s", directive->line, directive->name,
                        *directive->name == '<' ? ">" : "", why, trust ? ". " : "",
                        trust ? trust : "");
}

bool htc_command_only_trusted(const htc_command *command, const char *args)
{
    const htc_command_owner *owner = command->owners;

    while (owner && (!owner->named ||
                     htc_allow_class(owner->module_name, command->name, args) == HTC_ALLOW_SHARE))
        owner = owner->next;
    return owner != NULL;
}

static void add_command(htc_context *ctx, const module *m, const command_rec *cmd)
{
    htc_command_owner *owner = apr_pcalloc(ctx->pconf, sizeof(*owner));
    char *key = apr_pstrdup(ctx->pconf, cmd->name);
    htc_command *command;

    ap_str_tolower(key);
    command = apr_hash_get(ctx->commands, key, APR_HASH_KEY_STRING);
    if (!command) {
        command = apr_pcalloc(ctx->pconf, sizeof(*command));
        command->name = cmd->name;
        apr_hash_set(ctx->commands, key, APR_HASH_KEY_STRING, command);
    }
    owner->module_name = m->name;
    owner->named = is_trusted(ctx, m->name);
    owner->trusted = m == &htcache_module || owner->named;
    owner->exec_on_read = (cmd->req_override & EXEC_ON_READ) != 0;
    owner->next = command->owners;
    command->owners = owner;
    command->exec_on_read = command->exec_on_read || owner->exec_on_read;
    command->raw_args = command->raw_args || cmd->args_how == RAW_ARGS;
}

static void warn_unknown_trusted(const htc_context *ctx, server_rec *s)
{
    for (int i = 0; i < ctx->trusted->nelts; i++) {
        const char *given = APR_ARRAY_IDX(ctx->trusted, i, const char *);
        module *m;

        for (m = ap_top_module; m && !names_module(given, m->name); m = m->next)
            ;
        if (!m)
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, s,
                         "HtCacheTrustModule %s: no such module is loaded, so it changes nothing; "
                         "mod_NAME.c is what 'httpd -M' lists as NAME_module",
                         given);
    }
}

void htc_commands_prepare(htc_context *ctx, server_rec *s)
{
    ctx->commands = apr_hash_make(ctx->pconf);
    for (module *m = ap_top_module; m; m = m->next) {
        for (const command_rec *cmd = m->cmds; cmd && cmd->name; cmd++)
            add_command(ctx, m, cmd);
    }
    warn_unknown_trusted(ctx, s);
}

const htc_command *htc_command_find(const htc_context *ctx, const char *name)
{
    char key[64];
    size_t len = strlen(name);

    if (len >= sizeof(key))
        return NULL;
    memcpy(key, name, len + 1);
    ap_str_tolower(key);
    return apr_hash_get(ctx->commands, key, (apr_ssize_t)len);
}

const char *htc_command_refusal(const htc_command *command, unsigned line, const char *reason,
                                apr_pool_t *pool)
{
    return apr_psprintf(pool, "line %u: %s%s %s", line, command->name,
                        *command->name == '<' ? ">" : "", reason);
}
