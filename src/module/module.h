/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file module/module.h
 * What the folders below the httpd line stand on: the module's configuration, the one context of a
 * process, what is remembered of a request, and what is asked of httpd. Nothing here is visible
 * outside of the module.
 */
#ifndef HTC_MODULE_MODULE_H
#define HTC_MODULE_MODULE_H

#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_request.h"
#include "apr_fnmatch.h"
#include "apr_hash.h"
#include "apr_lib.h"
#include "apr_strings.h"
#include "apr_tables.h"

#include "base/base.h"
#include "cache/cache.h"
#include "heap/heap.h"
#include "module/httpd_internals.h"

extern module AP_MODULE_DECLARE_DATA htcache_module;

/* The name in front of this module's lines in the error log. */
APLOG_USE_MODULE(htcache);

#define HTC_VERSION "1.0.0"

/** The private directive that stands in a synthetic .htaccess file. */
#define HTC_APPLY_DIRECTIVE        "HtCacheApply"

#define HTC_DEFAULT_MEMORY         (UINT64_C(256) << 20)
#define HTC_DEFAULT_PROCESS_MEMORY (UINT64_C(16) << 20)
/** HtCacheCountersFile; the directory comes from configure. */
#define HTC_COUNTERS_FILE    HTC_STATE_DIR "/htcache.counts"
#define HTC_COUNTERS_SECONDS 60
/** Of HtCacheMemory, records have one part in so many, and what httpd makes of them the rest. */
#define HTC_RECORDS_PART 4
/** HtCacheRevalidate auto: the kernel tells of changes. */
#define HTC_REVALIDATE_AUTO (-2)
/** Interval in which what cannot be watched is compared with the disk. */
#define HTC_ASK_MS 1000
/** A path that was asked for only once within this time is not watched. */
#define HTC_WATCH_SOON_MS         60000
#define HTC_DEFAULT_REVALIDATE_MS HTC_REVALIDATE_AUTO
#define HTC_DEFAULT_SHARE_PERCENT 25
/** A process that dies while it revalidates keeps a record unchecked for no longer than this. */
#define HTC_LEASE_MS 1000
/** A checked_at longer ago than any HtCacheRevalidate. */
#define HTC_NEVER_CHECKED (-(INT64_C(1) << 60))

typedef struct htc_redirects htc_redirects; /* redirects/map.h */
struct htc_farm;                            /* htaccess/farm_internal.h */
struct htc_farm_options;
struct htc_farm_request;
struct htc_report; /* module/report.h */
struct htc_group;
typedef struct htc_rule_filter htc_rule_filter; /* redirects/rule_filter.c */

/** Lines that could be folded, and those that were. */
typedef struct htc_fold_counts {
    uint64_t redirects_seen, redirects_folded, rewrite_rules_seen, rewrite_rules_folded;
} htc_fold_counts;

/** Those of a virtual host or of the main server, sections included; .htaccess files are not. */
typedef struct htc_fold_host {
    const void *node;  /* the <VirtualHost>; NULL: the main server */
    const char *name;  /* its ServerName, or what the <VirtualHost> says */
    const char *where; /* "file:line" of the <VirtualHost>; NULL: the main server */
    bool lines, dirs;  /* as htc_server_conf's fold_lines and fold_dirs */
    htc_fold_counts counts;
} htc_fold_host;

/** One pass over a directive tree; redirects/fold.h. */
typedef struct htc_walk {
    apr_pool_t *pool;            /* of the tree */
    apr_array_header_t *changes; /* to be undone; NULL: the tree is this module's own */
    const cmd_parms *cmd;        /* of a .htaccess file: its rights; else NULL */
    htc_fold_counts *counts;
    bool fold;           /* else only count */
    bool linear;         /* no table, but in the same order */
    bool off;            /* HtCacheFold Off in a .htaccess file */
    bool redirects;      /* mod_alias is there, and its directives are its own */
    bool rewrites;       /* so is mod_rewrite */
    bool once;           /* the result is for one request only */
    bool opaque;         /* RegexDefaultOptions is in use: regexes are not examined */
    bool knows_3f;       /* mod_rewrite has the flag UnsafeAllow3F */
    bool dry;            /* the tree is not run */
    apr_hash_t *tracked; /* not NULL: find these only, fold nothing; redirects/fold_track.h */
    uint64_t secret;
} htc_walk;

/** HtCache and HtCacheRevalidate as written in one place, -1 where not written; and redirect maps.
 */
typedef struct htc_dir_conf {
    int enabled;
    int admin; /* HtCacheAdmin */
    apr_int64_t revalidate_ms;
    const htc_chain *maps;  /* of arrays of htc_redirect_map *, in their order; redirects/map.h */
    const htc_chain *folds; /* of htc_fold: folded Redirect lines; redirects/fold.h */
    /** Where the Redirect without a source stands that holds here, and that mod_alias tries before
     * all others; NULL: there is none. */
    const char *first_file;
    int first_line;
    const htc_rule_filter *filter; /* of the RewriteRules that stand here, or NULL */
    const htc_chain *tracks;       /* those of them that are tracked; redirects/fold_track.c */
} htc_dir_conf;

/** What applies to one directory level of one server. */
typedef struct htc_scope {
    bool enabled;
    apr_int64_t
        revalidate_ms; /* or HTC_REVALIDATE_AUTO; 0: compare with the disk on every request */
} htc_scope;

typedef struct htc_context htc_context;

/** Per server_rec. The second half is filled in by post_config. */
typedef struct htc_server_conf {
    htc_dir_conf own;            /* HtCache, HtCacheRevalidate outside of any section */
    int share_percent;           /* -1: not set */
    apr_array_header_t *exclude; /* const char *, absolute, ends with '/'; NULL: none */
    int counters;                /* count the answers of each redirect; -1: not set, which is On */
    int missing;                 /* count pages that are not found; -1: not set, which is Off */
    /* ap_conf_vector_t *: sections that set a handler by URL; NULL: none, or no status page */
    const apr_array_header_t *pages;
    bool page_possible; /* SetHandler htcache-status stands somewhere */
    bool location_used; /* a <Location> of this server has HtCache directives */
    bool fold_lines;    /* its own Redirect and RewriteRule lines are folded */
    bool fold_dirs;     /* so are those of its directories, in .htaccess files too */

    htc_context *ctx;             /* NULL: the cache is off everywhere */
    uint32_t number;              /* in the list of servers */
    const htc_rewrite *rewrite;   /* NULL: RewriteRules are left to mod_rewrite */
    apr_array_header_t *sections; /* htc_section, module/scope.c */
    bool may_be_enabled;          /* somewhere in this server */
    bool may_be_auto;             /* HtCacheRevalidate auto applies somewhere in it */
    bool special;                 /* it has sections or exclusions: ask for each directory */
    htc_scope plain;              /* what applies everywhere when it has none */
    bool walks;                   /* its <Directory> sections can be merged ahead */

    htc_redirects *redirects;        /* NULL: no redirect maps */
    struct htc_explained *explained; /* of the copy for a request of ?explain; else NULL */
    apr_int64_t map_ttl;             /* ms after which a map's file is compared */

    const unsigned char
        *farm_fingerprint; /* of the configuration, for servers of a farm; or NULL */
} htc_server_conf;

/** One per configuration generation, allocated from pconf; the children inherit a copy. */
struct htc_context {
    apr_pool_t *pconf;
    htc_store *store;
    htc_heap *heap;              /* what httpd made of records; NULL: it is made for each request */
    bool serving;                /* this process is a child, and has begun */
    struct htc_builder *builder; /* htaccess/builder.c; NULL: there is none */
    htc_watch *watch;            /* NULL: nothing is watched */
    apr_array_header_t *unwatched; /* htc_fresh_tree; NULL without watch. Set at the start */
    htc_costs *costs;              /* NULL: what is dear is not counted */
    apr_hash_t *commands;          /* module/commands.c */
    uint64_t memory;               /* HtCacheMemory: records and heap */
    apr_array_header_t *trusted;   /* const char *: module names */
    const char *off_reason;        /* why the cache stays off although it is configured; or NULL */
    const char *off_advice;        /* and what to do about it */
    _Atomic bool noted;            /* what core notes of its walks is as expected */
    _Atomic uint32_t unnoted;      /* comparisons of the note that failed before the first that
                                     * succeeded */
    bool *shares_merged;           /* by module_index: requests may share what it merges */
    bool shortcuts;                /* answer ahead of core; not when others hook open_htaccess */
    size_t vector_bytes;           /* of a per-directory vector: what the loaded modules use */
    apr_size_t held_note;          /* of a client's request: what it holds, htaccess/hook.c */
    _Atomic apr_int64_t swept;     /* the second in which this process swept last */
    struct htc_farm *farm;         /* NULL: alone */
    const char *farm_text;         /* htc_farm_text() */
    const char *farm_off;          /* why, although a farm is configured; or NULL */
};

#define HTC_SECRET_DIGEST 32

/** HtCacheAdminSecretFile; status/guard.c. */
typedef struct htc_secret {
    const char *file;                        /* NULL: not set */
    bool wanted;                             /* HtCacheAdmin On stands somewhere */
    bool known;                              /* the file was read */
    unsigned char digest[HTC_SECRET_DIGEST]; /* SHA-256 of what is in it */
} htc_secret;

/** Where HtCache On could be written; module/turn_on.c. */
typedef struct htc_turn_on {
    apr_array_header_t *files; /* const char *: files with lines of this module, in their order */
    const ap_directive_t *off; /* the last 'HtCache Off' of the server, which holds; or NULL */
    const ap_directive_t *off_inside; /* the first one in a section; or NULL */
} htc_turn_on;

/** Options read by directives before the context exists; lives in pconf. */
typedef struct htc_options {
    uint64_t memory;
    uint64_t process_memory;
    apr_array_header_t *trusted; /* const char * */
    apr_array_header_t *maps;    /* htc_redirect_map *: of the server's own configuration */
    apr_array_header_t *folds;   /* htc_fold *: the same */
    apr_array_header_t
        *building; /* htc_fold *: of the .htaccess file that the builder runs; or NULL */
    apr_array_header_t *counted; /* htc_counted *: the same */
    apr_array_header_t *tracked; /* those of `counted` that are RewriteRules in no table */
    apr_array_header_t *blocks;  /* of RewriteRules in a table; redirects/fold_rewrite.c */
    apr_array_header_t
        *changes; /* of the configuration tree, to be undone; redirects/fold_tree.c */
    struct htc_farm_options *farm; /* NULL: no such directives */
    htc_fold_counts counts;        /* of all hosts */
    apr_array_header_t *hosts;     /* htc_fold_host *: the main server first */
    apr_hash_t *host_of;           /* the same by `node` */
    apr_time_t first_started_at;   /* httpd itself */
    apr_time_t started_at;         /* with this configuration */
    bool pages;                    /* SetHandler htcache-status stands somewhere */
    htc_turn_on on;                /* where the cache could be turned on */
    const char *on_advice;         /* how, where HtCache On holds nowhere; or NULL */
    htc_secret secret;             /* what a POST to the status page must know */
    bool notes;                    /* a log format names one of ours; redirects/notes.c */
    bool missing;                  /* HtCacheMissing stands somewhere; redirects/missing.c */
    const char *counters_file;     /* HtCacheCountersFile; NULL: Off */
    bool counters_file_set;        /* by the directive */
    apr_interval_time_t counters_interval; /* between two writes of it */
    htc_walk walk;                         /* what is the same for every tree */
    htc_rewrite *rewrite;                  /* of RewriteRules; or NULL */
    htc_rewrite *explain_rewrite; /* for ?explain: also where rules are left alone; or NULL */
    size_t vector_bytes;          /* htc_vector_bytes(), once all modules are loaded */
    bool traced;                  /* somewhere LogLevel asks for what mod_rewrite's variables do */
    const char *alias_odd;        /* why Redirect lines cannot be folded; or NULL */
    bool regex_options;           /* the configuration changes how regexes are compiled */
    bool fold_dirs;               /* lines of directories are folded in one host or more */
    bool fold_shared;             /* so are those of sections outside of virtual hosts */
} htc_options;

#define HTC_HELD_RECENT 8

/** Per request; made only when something had to be asked. */
typedef struct htc_request {
    const htc_dir_conf *location;      /* <Location> settings, or NULL */
    struct htc_seen *seen, *last_seen; /* in the order in which core asked; NULL: the hook was
                                        * not called */
    bool inherited;                    /* started with another request's results: learn nothing */
    unsigned outcomes; /* 1 << enum htc_counter: how httpd's questions were answered */
    bool page;         /* the status page's by its URL: no .htaccess files */
    bool answered;     /* a redirect did; only kept where HtCacheMissing stands */
    /* Of a top-level request, ap_conf_vector_t *: configurations that may show the status page. */
    apr_array_header_t *page_confs;
    bool refused; /* a file could not be opened when it was too late to tell core: htc_refuse() */
    const struct htaccess_result *before_refusal; /* r->htaccess as it was then */
    const struct htc_path_entry
        *walked;                 /* core walks for what could have been answered ahead; or NULL */
    struct htc_pending *pending; /* found out by this request and not yet shared; or NULL */
    apr_int64_t asked_at;        /* htc_mono_ms() from before the first was looked for on disk */
    unsigned nheld;
    const struct htc_tracks *applied_in; /* the container of `applied`, or NULL */
    const struct htc_tracked *applied;   /* the RewriteRule that mod_rewrite applied last */
    const struct htc_lent *lent;         /* what a rule of its server is called for now, or NULL */
    struct htc_farm_request *farm;       /* of a top-level request that asked the farm; or NULL */
    struct redirect_budget *patterns; /* of a top-level request that ran maps' patterns; or NULL */
    htc_pin *held[HTC_HELD_RECENT];   /* of a client's request: what was held last */
    /* Of a request of ?explain: what LogLevel says, and what r->log is */
    const struct ap_logconf *level, *traced;
    const char *located; /* its path when httpd had found its file; NULL: it has not */
    const char *file;    /* which is this one */
} htc_request;

static inline htc_server_conf *htc_server_conf_of(const server_rec *s)
{
    return ap_get_module_config(s->module_config, &htcache_module);
}

/* module/conf.c */
/** Handlers of this module's directives, for the table in mod_htcache.c. */
const char *htc_conf_add_exclude(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_add_trusted(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_admin(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_counters(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_enabled(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_fold(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_memory(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_process_memory(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_revalidate(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_secret_file(cmd_parms *cmd, void *dir_conf, const char *arg);
const char *htc_conf_set_share(cmd_parms *cmd, void *dir_conf, const char *arg);
void *htc_create_server_conf(apr_pool_t *p, server_rec *s);
void *htc_merge_server_conf(apr_pool_t *p, void *base, void *add);
void *htc_create_dir_conf(apr_pool_t *p, char *path);
void *htc_merge_dir_conf(apr_pool_t *p, void *base, void *add);
/** Fresh options for a new configuration pass; called from pre_config. */
void htc_options_reset(apr_pool_t *pconf);
htc_options *htc_options_get(void);

/* module/turn_on.c */
/** Note lines of this module in a tree. pre_config, before folding changes the tree. */
void htc_on_note(htc_turn_on *on, const ap_directive_t *tree);
/** What turns the cache on: file and line. Reads the files that were noted. @a main_file: for when
 * there is none; may be NULL. */
const char *htc_on_advice(const htc_turn_on *on, const char *main_file, apr_pool_t *pool);

/* module/scope.c */
/** Prepare every server's scope; @a any is set when the cache may be on somewhere. */
void htc_scope_prepare(apr_pool_t *pconf, server_rec *main_server, bool *any);
/** The settings that apply to directory @a dir (ends with '/') of the server. @a location may be
 * NULL. */
htc_scope htc_scope_of(const htc_server_conf *sc, const char *dir, const htc_dir_conf *location);

/* module/sections.c */
/** True when <Directory @a name> applies to directory @a dir. Both end with '/'. @a wildcards: the
 *  name has some. */
bool htc_directory_matches(const char *name, bool wildcards, const char *dir);
/** True when <Location @a name> applies to the URL path @a path. */
bool htc_location_matches(const char *name, bool wildcards, const char *path);

/* module/alias_compat.c */
/** How many bytes of @a path the source of an Alias or Redirect line, @a len bytes, takes; 0: it
 *  does not match. A run of slashes equals any other. A source without a slash at its end matches
 *  only up to a slash or the end of the path. */
size_t htc_alias_prefix(const char *path, const char *prefix, size_t len);
/** What a RedirectMatch substituted, escaped; its query and fragment stay as they are. */
const char *htc_alias_escape(apr_pool_t *pool, const char *target);
/** A target that is a path, as a URL with the request's host, unless RedirectRelative is On. Others
 *  come back as they are. The URL is allocated from @a pool. */
const char *htc_alias_complete(request_rec *r, const char *target, apr_pool_t *pool);
/** @a location with the request's query (or NULL) behind it, unless it has one. */
const char *htc_alias_add_query(apr_pool_t *pool, const char *location, const char *query);

/* module/request.c */
/** What is remembered of @a r; made when there is nothing yet. */
htc_request *htc_request_get(request_rec *r);

/* module/commands.c */
/** A module that defines a directive. */
typedef struct htc_command_owner {
    const char *module_name;
    bool trusted;      /* HtCacheTrustModule */
    bool named;        /* in HtCacheTrustModule */
    bool exec_on_read; /* runs while the text is read and is gone from the tree */
    struct htc_command_owner *next;
} htc_command_owner;

/** A directive of the loaded modules. Several may define the same name; all of them run. */
typedef struct htc_command {
    const char *name;
    bool exec_on_read; /* of at least one owner */
    bool raw_args;     /* one owner's handler gets the line as it is */
    htc_command_owner *owners;
} htc_command;

/** Build ctx->commands from the loaded modules. */
void htc_commands_prepare(htc_context *ctx, server_rec *s);
/** Look a directive up (any case); NULL when no loaded module knows it. */
const htc_command *htc_command_find(const htc_context *ctx, const char *name);
/** The class of one line: the strictest that its modules have. *reason completes "<directive>
 * ..." and is set unless the answer is HTC_ALLOW_SHARE. @a args may be NULL. */
enum htc_allow htc_command_judge(const htc_command *command, const char *args, const char **reason);
/** May it be kept only because HtCacheTrustModule names a module of it? */
bool htc_command_only_trusted(const htc_command *command, const char *args);
/** Why a line keeps its file from being shared, and what to do where HtCacheTrustModule helps:
 * "line N: NAME REASON. ...". NULL: it does not. */
const char *htc_command_replayed(const htc_context *ctx, const htc_directive *directive,
                                 apr_pool_t *pool);
/** "line N: NAME REASON": why a file is left to httpd. */
const char *htc_command_refusal(const htc_command *command, unsigned line, const char *reason,
                                apr_pool_t *pool);

/* module/tree.c */
/** Encode a parsed tree; @a flags gets HTC_RF_REPLAY where a directive asks for it, and *stock the
 *  reason where one asks for stock httpd. */
apr_status_t htc_tree_encode(const htc_context *ctx, const ap_directive_t *tree, htc_text_hash hash,
                             apr_pool_t *pool, const void **record, size_t *len, uint32_t *flags,
                             const char **stock);
/** Rebuild a directive tree from a validated record, in @a pool. Its strings stay in the record. */
ap_directive_t *htc_tree_decode(const void *record, const char *filename, apr_pool_t *pool);

/* module/httpd_state.c */
/** True when a module changes the user that a request runs as, so the cache stays off. */
bool htc_switches_users(void);
/** Its name, or NULL. */
const char *htc_user_switcher(void);
/** True when the configuration is read for a restart, graceful or not. */
bool htc_is_restart(void);
/** True when httpd reads its configuration only to check it. It reads it once more to serve. */
bool htc_is_preflight(void);
/** True when this process is `httpd -k stop` or `graceful-stop`: it reads the configuration only to
 * know whom to send a signal. */
bool htc_is_stopping(void);
/** apr_proc_fork(), from the parent. SIGTERM is blocked in the child, so that one which comes before
 * the child has set its own handler is not lost; the child lets it through. */
apr_status_t htc_fork(apr_proc_t *proc, apr_pool_t *pool);
/** In such a child, first: signals for the parent's group are not for it, and it listens nowhere. */
void htc_fork_prepare(void);
/** Then: SIGTERM ends it from now on. */
void htc_fork_may_end(void);
/** Its signal or its exit code, of the @a status that apr_proc_other_child_register()'s function has. */
int htc_fork_ended(apr_wait_t status);
/** True while the parent ends the children of this configuration. httpd 2.5 also says
 * APR_OC_REASON_RESTART, for the last one's, when the new configuration's processes run. */
bool htc_ends_children(void);

/* module/private_directive.c */
/** The error that httpd would report for the line being read if its directive did not exist. */
const char *htc_refuse_private(cmd_parms *cmd);

/* module/kept.c */
/** All that decides what a file becomes when it is parsed, and that servers of a farm must have in
 * common. */
const char *htc_configuration_text(const htc_context *ctx, apr_pool_t *pool);
/** Go on with the records and watches of the configuration before: true when there are any, and
 * each record would be the same now. If not they are given up, and the error log says why. In
 * post_config, in the parent; sets ctx->store and ctx->watch. */
bool htc_kept_use(htc_context *ctx, server_rec *s);
/** Make new ones, which outlive this configuration. @param why a sentence for the administrator. */
apr_status_t htc_kept_create(htc_context *ctx, server_rec *s, const char **why);
/** Give them up, where there are any: children that have them keep them until they end. */
void htc_kept_end(server_rec *s);

/* module/watch.c */
/** True when some server has HtCacheRevalidate auto. */
bool htc_fresh_wanted(const server_rec *s);
/** Make the instance, before the children fork, if it is wanted; it lives as long as @a pool. */
void htc_fresh_create(htc_context *ctx, server_rec *s, apr_pool_t *pool);
/** post_read_request: publish what was reported. One system call for each request to a server in
 *  which HtCacheRevalidate auto applies somewhere, none for one to another. */
int htc_fresh_request(request_rec *r);
/** The same, for what a server without auto rests on. */
void htc_fresh_drain(const server_rec *s);
/** monitor: the same in the parent, now and then. */
int htc_fresh_monitor(apr_pool_t *pool, server_rec *s);
void htc_fresh_report(struct htc_report *report);

/** A tree of the configuration on whose file system the kernel does not see all changes. */
typedef struct htc_fresh_tree {
    const char *path; /* ends with '/' */
    const char *type; /* of its file system, for people; static */
} htc_fresh_tree;

/** The name of a file system's type, as statfs(2) has it, for people; static. */
const char *htc_fresh_type_name(uint32_t type);
/** Note these trees in ctx->unwatched, and name them in the error log. In post_config, when
 * ctx->watch is there; asks each tree's file system once. */
void htc_fresh_find_trees(htc_context *ctx, server_rec *s);
/** A list of them, and of the file systems that requests met. */
void htc_fresh_report_trees(struct htc_report *report, struct htc_group *group);

/* module/status_page.c */
/** map_to_storage. If the request is the status page's by its URL, mark it; it then has no
 * .htaccess files. @a sections: htc_server_conf.pages. */
bool htc_page_claim(request_rec *r, const apr_array_header_t *sections);
/** map_to_storage of a redirect or subrequest. If its parent request was marked, core noted for
 * each directory that it has no .htaccess file. This URL has .htaccess files, so it must not
 * inherit these notes. */
void htc_page_leave(request_rec *r);
/** post_perdir_config: the request has a SetHandler. Remember its configuration if it is the status
 * page's and no .htaccess file is part of it. DECLINED, or HTTP_FORBIDDEN for what was claimed and
 * is not the page's any more. */
int htc_page_note(request_rec *r);

#define HTC_STATUS_HANDLER "htcache-status"
/** True when a SetHandler line of this tree names the page. pre_config, for the whole
 * configuration. */
bool htc_pages_named(const ap_directive_t *node);
/** post_config: which sections decide by URL alone that a request is the page's. */
void htc_pages_prepare(apr_pool_t *pconf, server_rec *main_server);
/** True when the server's configuration alone authorized this request, and says that it is the
 * page's. */
bool htc_page_may_show(const request_rec *r);

/* module/explained.c: a request that ?explain makes (explain/lookup.c). Its server_rec is a copy of
 * its own, and in the copy's htc_server_conf stands what is found out about it. So its subrequests
 * and internal redirects are recognised, too, and nothing is asked for other requests. */
/** A .htaccess file for which httpd asked. */
typedef struct htc_met {
    const char *dir;  /* ends with '/' */
    const char *path; /* of the file */
} htc_met;

typedef struct htc_explained {
    apr_pool_t *pool;
    server_rec *server;      /* the real one */
    apr_array_header_t *met; /* htc_met, each once */
    const char *path;        /* of the request, decoded; NULL: httpd did not come to that */
    const char *stopped;     /* a sentence: before what it was stopped; NULL: before nothing */
    bool https;
    /** A directive did something. @a line as in the file; 0: none. Copies the texts. */
    void (*step)(struct htc_explained *explained, const char *directive, const char *file,
                 unsigned line, const char *text);
} htc_explained;

/** What @a r is, if ?explain made it; else NULL. */
static inline htc_explained *htc_explained_of(const request_rec *r)
{
    return htc_server_conf_of(r->server)->explained;
}

/** Give @a r mod_rewrite's trace, whatever LogLevel says. To be called after each step in which
 * httpd sets the level anew. */
void htc_explained_trace(request_rec *r);
/** httpd has found the file of @a r and what holds for it. */
void htc_explained_located(request_rec *r, htc_request *rq);
/** What LogLevel says for @a r. */
const struct ap_logconf *htc_explained_level(const htc_explained *e, const request_rec *r);
/** @a own, with mod_rewrite's trace; from @a pool. */
struct ap_logconf *htc_explained_traced(const struct ap_logconf *own, apr_pool_t *pool);
/** httpd asked for @a path in directory @a dir. Copies both. */
void htc_explained_met(const htc_explained *e, const char *dir, const char *path);

#include "module/hooks.h"
#include "module/report.h"

#endif
