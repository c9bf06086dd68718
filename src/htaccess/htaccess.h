/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/htaccess.h
 * The cache of .htaccess files: hooks and life cycle, called by mod_htcache.c, and what explain and
 * the status page ask of it.
 */
#ifndef HTC_HTACCESS_HTACCESS_H
#define HTC_HTACCESS_HTACCESS_H

#include "module/module.h"
#include "htaccess/farm.h"
#include "htaccess/freshness.h"

/** create_request, ahead of all others: the cleanup that gives back what the request holds. In
 * stock httpd a request's configuration lasts until the last cleanup of its pool has run. Cleanups
 * run in reverse, so this one is registered first. */
int htc_create_request(request_rec *r);
apr_status_t htc_open_htaccess(request_rec *r, const char *dir, const char *access_name,
                               ap_configfile_t **cfg, const char **full_name);
void htc_error_log(const ap_errorlog_info *info, const char *line);
/** Make the heap, before the children fork. post_config. */
void htc_heap_start(htc_context *ctx, server_rec *s);
/** In a child that has joined the heap: meet large pages now, not in requests. */
void htc_heap_child_init(htc_context *ctx);
/** Fork the builder. In optional_fn_retrieve, the last step before the MPM runs. */
void htc_builder_start(void);
/** Its process number, in the parent; 0: there is none now. */
pid_t htc_builder_pid(const htc_context *ctx);
/** monitor: start a builder where there is none, and end one that hangs before it works. */
int htc_builder_monitor(apr_pool_t *pool, server_rec *s);
void htc_heap_report(struct htc_report *report);
/** Find out which modules' merged configurations requests may share (base/merge_list.h). Called
 * once, when the configuration is complete. */
void htc_merged_walk_prepare(htc_context *ctx);
/** True when the sections of this server can be merged ahead. Called when the configuration is
 * complete. */
bool htc_merged_walk_possible(const server_rec *s);
int htc_shortcut(request_rec *r);
int htc_learn(request_rec *r);
/** True when the heap has an entry for directory @a dir (ends with '/'). */
bool htc_path_entry_known(const htc_context *ctx, const server_rec *s, const char *dir);
/** Make the table, before the children fork. */
void htc_cost_create(htc_context *ctx, server_rec *s);
const char *htc_apply_directive(cmd_parms *cmd, void *dir_conf, const char *args);

/** Add the private directive to every AllowOverrideList, so that a cached file may run. */
void htc_commands_admit(server_rec *main_server);

#endif
