/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/farm.h
 * The third layer: what several servers of one network file system share through memcached.
 * htaccess/farm.c is the policy: when to ask, what to believe, what to tell. htaccess/farm_io.c
 * makes the exchanges. htaccess/farm_conf.c has directives, keys and fingerprints, and
 * htaccess/farm_status.c the figures. htaccess/hook.c and htaccess/apply.c call the functions of
 * the first group. These do nothing where the tier is not configured or not built.
 *
 * All that a request does here takes no longer than HtCacheMemcachedTimeout together, subrequests
 * included, and every failure means "find out yourself".
 */
#ifndef HTC_HTACCESS_FARM_H
#define HTC_HTACCESS_FARM_H

#include "module/module.h"

struct htc_dep;

/** The farm's answer about a record whose time is up. */
typedef enum htc_farm_word {
    HTC_FARM_OWN,     /* it knows nothing, or this server has the claim: compare with the disk */
    HTC_FARM_SAME,    /* another server found it true at *checked_at */
    HTC_FARM_CHANGED, /* another server found something else */
    HTC_FARM_WAIT,    /* another server is looking just now: go on with the record until
                    * *checked_at + ttl */
} htc_farm_word;

/** For how long a server goes on with a record that has run out, at a time and in all. */
#define HTC_FARM_WAIT_MS      50
#define HTC_FARM_WAIT_MOST_MS 2000

typedef struct htc_farm_options htc_farm_options; /* directives as read */
typedef struct htc_farm htc_farm;                 /* one per configuration generation */

struct htc_list;
struct htc_report;

/* Directives. */
const char *htc_farm_set_server(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_farm_set_key_file(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_farm_set_timeout(cmd_parms *cmd, void *dir_conf, const char *arg);

/** Figures for the status page; also where the tier is not built. */
void htc_farm_report(struct htc_report *report);
/** Adds a row for each memcached server that is given up: what is wrong, and what to do. */
void htc_farm_problems(struct htc_list *problems);

#ifdef HAVE_LIBMEMCACHED

/** Whose results records may be: the servers, and the state of the key's file. */
const char *htc_farm_text(apr_pool_t *pool);

/** Set ctx->farm if the directives ask for it and everything that it needs is there. Otherwise
 * log why not. */
void htc_farm_start(htc_context *ctx, server_rec *s);
void htc_farm_child_init(htc_context *ctx, server_rec *s);

/** The record @a dep of this server was checked at *checked_at, @a ttl ms ago or longer. */
htc_farm_word htc_farm_recheck(htc_context *ctx, request_rec *r, const struct htc_dep *dep,
                               apr_int64_t ttl, apr_int64_t *checked_at);

/** After HTC_FARM_OWN: the record was compared with the disk and found true at @a now. */
void htc_farm_confirm(htc_context *ctx, request_rec *r, const struct htc_dep *dep, apr_int64_t ttl,
                      apr_int64_t now);

/** Called when there is no usable record of put->key. True when the farm has one: then kind,
 * flags, id, payload and checked_at are set, in the request's pool. */
bool htc_farm_fetch(htc_context *ctx, request_rec *r, apr_int64_t ttl, htc_put *put);

/** Publish what was just read from the disk. htc_farm_flush() sends it when the walk is over;
 * what put points at must live until then. @a local: only this server may use the payload,
 * because it has ${...}. */
void htc_farm_publish(htc_context *ctx, request_rec *r, const htc_put *put, bool local);

/** Send what is waiting to be published. */
void htc_farm_flush(htc_context *ctx, request_rec *r);

#else

static inline const char *htc_farm_text(apr_pool_t *pool)
{
    (void)pool;
    return "";
}

static inline void htc_farm_start(htc_context *ctx, server_rec *s)
{
    (void)ctx;
    (void)s;
}

static inline void htc_farm_child_init(htc_context *ctx, server_rec *s)
{
    (void)ctx;
    (void)s;
}

static inline htc_farm_word htc_farm_recheck(htc_context *ctx, request_rec *r,
                                             const struct htc_dep *dep, apr_int64_t ttl,
                                             apr_int64_t *checked_at)
{
    (void)ctx;
    (void)r;
    (void)dep;
    (void)ttl;
    (void)checked_at;
    return HTC_FARM_OWN;
}

static inline void htc_farm_confirm(htc_context *ctx, request_rec *r, const struct htc_dep *dep,
                                    apr_int64_t ttl, apr_int64_t now)
{
    (void)ctx;
    (void)r;
    (void)dep;
    (void)ttl;
    (void)now;
}

static inline bool htc_farm_fetch(htc_context *ctx, request_rec *r, apr_int64_t ttl, htc_put *put)
{
    (void)ctx;
    (void)r;
    (void)ttl;
    (void)put;
    return false;
}

static inline void htc_farm_publish(htc_context *ctx, request_rec *r, const htc_put *put,
                                    bool local)
{
    (void)ctx;
    (void)r;
    (void)put;
    (void)local;
}

static inline void htc_farm_flush(htc_context *ctx, request_rec *r)
{
    (void)ctx;
    (void)r;
}

#endif
#endif
