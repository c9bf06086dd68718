/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/39-contents.t. It takes the name and the directives of mod_cern_meta, which may be
 * shared, and does what none of these may do: what they come to depends on the virtual host or on
 * the directory. That is answered in the header X-Meta.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_request.h"

#include <apr_strings.h>

#include <string.h>

extern module AP_MODULE_DECLARE_DATA meta_module;

/* A name that lies in a structure, to which nothing else leads. */
typedef struct box {
    long number;
    char dir[512];
} box;

typedef struct meta_conf {
    const char *text;
    const server_rec *server;
    const box *box;
    char own[256];
} meta_conf;

static void *create_dir_conf(apr_pool_t *p, char *dir)
{
    (void)dir;
    return apr_pcalloc(p, sizeof(meta_conf));
}

static const char *meta_directive(cmd_parms *cmd, void *dir_conf, const char *what)
{
    meta_conf *conf = dir_conf;
    box *made;

    if (!strcmp(what, "text")) {
        conf->text = "text";
    } else if (!strcmp(what, "host")) {
        conf->text = cmd->server->server_hostname;
    } else if (!strcmp(what, "server")) {
        conf->server = cmd->server;
    } else if (!strcmp(what, "box")) {
        conf->box = made = apr_pcalloc(cmd->pool, sizeof(*made));
        made->number = 1;
        apr_cpystrn(made->dir, cmd->path, sizeof(made->dir));
    } else {
        apr_cpystrn(conf->own, cmd->path, sizeof(conf->own));
        conf->text = conf->own;
    }
    return NULL;
}

static int answer(request_rec *r)
{
    const meta_conf *conf = ap_get_module_config(r->per_dir_config, &meta_module);
    const char *text = conf ? conf->text : NULL;

    if (conf && conf->server)
        text = conf->server->server_hostname;
    if (conf && conf->box)
        text = conf->box->dir;
    if (conf && conf->own[0])
        text = apr_pstrcat(r->pool, conf->own, " ", text, NULL);
    if (text)
        apr_table_setn(r->headers_out, "X-Meta", text);
    return DECLINED;
}

static void register_hooks(apr_pool_t *p)
{
    (void)p;
    ap_hook_fixups(answer, NULL, NULL, APR_HOOK_MIDDLE);
}

static const command_rec directives[] = {
    AP_INIT_TAKE1("MetaDir", meta_directive, NULL, OR_INDEXES, "what"),
    {NULL, {NULL}, NULL, 0, RAW_ARGS, NULL}};

/* httpd takes the name of a module from that of its file. */
#line 1 "mod_cern_meta.c"
module AP_MODULE_DECLARE_DATA meta_module = {
    STANDARD20_MODULE_STUFF, create_dir_conf, NULL, NULL, NULL, directives, register_hooks};
