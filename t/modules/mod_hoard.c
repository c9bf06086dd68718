/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A module for t/38-trusted-module.t, to be named in HtCacheTrustModule. HoardPool keeps its words
 * in the pool that httpd gives it; HoardMalloc keeps them in malloc()'s memory, of which no other
 * process can read anything. The words are answered in the header X-Hoard.
 */
#include "httpd.h"
#include "http_config.h"
#include "http_protocol.h"

#include <apr_strings.h>

#include <stdlib.h>
#include <string.h>

#define WORDS_BYTES 40
#define FREED       16
#define APART       200 /* more than the builder makes tries */
#define SMALLEST    32  /* regexes of a line or two are of these sizes */
#define LARGEST     512

extern module AP_MODULE_DECLARE_DATA hoard_module;

typedef struct hoard_conf {
    const char *words;
} hoard_conf;

static void *create_dir_conf(apr_pool_t *p, char *dir)
{
    (void)dir;
    return apr_pcalloc(p, sizeof(hoard_conf));
}

static const char *hoard_pool(cmd_parms *cmd, void *dir_conf, const char *words)
{
    ((hoard_conf *)dir_conf)->words = apr_pstrdup(cmd->pool, words);
    return NULL;
}

static const char *hoard_malloc(cmd_parms *cmd, void *dir_conf, const char *words)
{
    char *kept = malloc(WORDS_BYTES);

    (void)cmd;
    if (!kept)
        return "no memory";
    apr_cpystrn(kept, words, WORDS_BYTES);
    ((hoard_conf *)dir_conf)->words = kept;
    return NULL;
}

/* Blocks in use lie between those that are freed, so these do not become one. */
static void free_apart(size_t size)
{
    static void *volatile blocks[2 * APART];

    for (int i = 0; i < 2 * APART; i++)
        blocks[i] = malloc(size);
    for (int i = 0; i < 2 * APART; i += 2)
        free(blocks[i]);
}

/* As any module may: malloc() has some blocks of this size at hand, which it does not call free; and
 * many of other sizes are free, which it takes before new ones. */
static int free_some(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    void *volatile blocks[FREED];

    (void)pconf;
    (void)plog;
    (void)ptemp;
    (void)s;
    for (int i = 0; i < FREED; i++)
        blocks[i] = malloc(WORDS_BYTES);
    for (int i = 0; i < FREED; i++)
        free(blocks[i]);
    for (size_t size = SMALLEST - sizeof(size_t); size <= LARGEST; size += 2 * sizeof(size_t))
        free_apart(size);
    return OK;
}

static int answer_words(request_rec *r)
{
    const hoard_conf *conf = ap_get_module_config(r->per_dir_config, &hoard_module);

    if (conf && conf->words)
        apr_table_set(r->headers_out, "X-Hoard", conf->words);
    return DECLINED;
}

static void register_hooks(apr_pool_t *p)
{
    (void)p;
    ap_hook_post_config(free_some, NULL, NULL, APR_HOOK_REALLY_LAST);
    ap_hook_fixups(answer_words, NULL, NULL, APR_HOOK_MIDDLE);
}

static const command_rec directives[] = {
    AP_INIT_TAKE1("HoardPool", hoard_pool, NULL, OR_FILEINFO, "words"),
    AP_INIT_TAKE1("HoardMalloc", hoard_malloc, NULL, OR_FILEINFO, "words"),
    {NULL, {NULL}, NULL, 0, RAW_ARGS, NULL}};

module AP_MODULE_DECLARE_DATA hoard_module = {
    STANDARD20_MODULE_STUFF, create_dir_conf, NULL, NULL, NULL, directives, register_hooks};
