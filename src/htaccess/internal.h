/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/internal.h
 * What the files of this folder share.
 */
#ifndef HTC_HTACCESS_INTERNAL_H
#define HTC_HTACCESS_INTERNAL_H

#include "module/module.h"
#include "heap/heap.h"

/** What httpd made of a file, or why that cannot be shared. Lies in the heap. */
typedef struct htc_config {
    const char *path; /* of the file */
    const server_rec *server;
    int override, override_opts;
    const apr_table_t *override_list;
    htc_ref ref; /* the record it was made from */
    ap_conf_vector_t *vector;
    const void *content;        /* what the vector leads to; NULL: the configuration's own */
    const ap_directive_t *rest; /* what each request runs besides; NULL: nothing */
    const char *reason;         /* not NULL: each request runs the record itself, because of this */
} htc_config;

/** What tells one from another. */
typedef struct htc_config_key {
    const char *path;
    const server_rec *server;
    int override, override_opts;
    const apr_table_t *override_list;
} htc_config_key;

/** A record that an answer rests on. */
typedef struct htc_dep {
    const char *path;
    htc_ref ref;
    htc_kind kind;
    bool racy; /* trusted only while it is watched */
    htc_identity id;
} htc_dep;

/** Names in AccessFileName that a ready-made answer may rest on. */
#define HTC_MAX_DEPS 4

/** What the hook saw for one directory of one request. */
typedef struct htc_seen {
    struct htc_seen *next; /* the directory asked for after this one */
    const char *dir;
    const char *path; /* of the first file that was asked for */
    bool wanted;      /* the builder could make something of it */
} htc_seen;

/* htaccess/read.c */
/** Bytes of a file and the identity they were read with. */
typedef struct htc_text {
    const char *bytes; /* NUL-terminated; NULL when the file could not be read */
    size_t len;
    htc_identity id;
    htc_text_hash hash;
    apr_int64_t checked_at; /* htc_mono_ms() from before it was opened */
    int64_t read_at;        /* htc_wall_ns() from before it was opened */
} htc_text;
/**
 * Read @a path in one consistent state. The bytes live as long as @a pool. The caller sets
 * text->checked_at. All else of *text is set here, on errors too: then bytes is NULL and len is 0.
 * @return APR_SUCCESS; APR_ENOENT when there is no file; APR_ENOSPC when it is larger than @a max
 *         (text->id is valid). After any other error httpd must read the file itself: it is no
 *         regular file, may not be read, changed in each of some tries, or a call failed.
 */
apr_status_t htc_text_read(htc_text *text, const char *path, uint64_t max, apr_pool_t *pool);
/** True when the text has ${...} in it, so that it depends on definitions or the environment. */
bool htc_text_computed(const htc_text *text);
/** What is known of a text before it is parsed. */
typedef struct htc_survey {
    unsigned directives;
    bool sections_resolved; /* has <IfModule> and the like */
    const char *stock;      /* why stock httpd must read this file itself, or NULL */
} htc_survey;
void htc_text_survey(const htc_context *ctx, const htc_text *text, htc_survey *survey,
                     apr_pool_t *pool);
/** An httpd configuration file over the bytes of @a text, named @a name. */
ap_configfile_t *htc_text_open(const htc_text *text, const char *name, apr_pool_t *pool);
/** A configuration file without a line. */
ap_configfile_t *htc_empty_open(const char *name, apr_pool_t *pool);
/* htaccess/costs.c */
/** A clock in nanoseconds, to be read before what is dear. */
uint64_t htc_cost_begin(void);
/** Count work for the file @a path that began at @a began; 0: its duration is not known. */
void htc_cost_end(htc_context *ctx, const char *path, htc_cost_kind kind, uint64_t began);

/* htaccess/revalidate.c */
/** True when the file is still what a record says, by one stat. */
bool htc_same_file(const char *path, htc_kind kind, const htc_identity *id);
/** From a look at a mark to trust in it; see cache/watch.h for the steps. */
typedef struct htc_trust {
    _Atomic int64_t *mark;
    int64_t fresh, own;
    bool mine;       /* the mark is this request's own unverified one */
    bool unprompted; /* it became unverified although nothing was reported */
    bool known;      /* all was watched and the record entered already */
    htc_watch_why why;
} htc_trust;
/** The mark of a record that is looked for on disk now and stored afterwards. */
int64_t htc_fresh_mark(const htc_context *ctx, apr_int64_t ttl, apr_int64_t now);
/** Before the disk is looked at: claim the mark, seen as @a seen, and have the path watched. */
void htc_trust_begin(htc_context *ctx, htc_trust *trust, _Atomic int64_t *mark, int64_t seen,
                     const char *path, htc_ref ref);
/** Store what was seen on the disk since then. */
void htc_trust_end(htc_trust *trust);
/** True when a mark can be relied on as it is. @a fresh is from htc_watch_fresh(); *now is 0
 * until a time is needed. */
static inline bool htc_trusted(int64_t mark, apr_int64_t ttl, int64_t fresh, apr_int64_t *now)
{
    if (mark == fresh)
        return ttl != 0;
    if (ttl <= 0)
        return false;
    if (!*now)
        *now = htc_mono_ms();
    return *now - htc_mark_time(mark, fresh) < ttl;
}

/* htaccess/hook.c */
/** Called when the time @a ttl of @a dep is up. Its record lies in @a slot and was checked at @a
 * checked_at. One process claims the record and compares it with the disk by one stat. It notes in
 * the slot that it was checked at @a now, or that nobody may trust it any more. The others go on
 * using it meanwhile. In a farm, the result of another server may do. True when the record may be
 * used. */
bool htc_recheck(htc_context *ctx, request_rec *r, htc_slot_hot *slot, const htc_dep *dep,
                 apr_int64_t checked_at, apr_int64_t ttl, apr_int64_t now);
/** Count a level that httpd asked for and that had this outcome. */
void htc_count_answer(htc_context *ctx, enum htc_counter outcome);
/** Keep what @a pin pins until the request of the client that @a r serves has ended, and all
 * cleanups of its pool have run. */
void htc_hold(const htc_context *ctx, request_rec *r, htc_pin *pin);
/** The same. A page that makes thousands of subrequests (SSI, listings) asks for the same few files
 *  again and again: each of these is pinned once. */
void htc_hold_once(htc_context *ctx, request_rec *r, htc_pin *pin);

/** Publish what the request found out and has not published yet. */
void htc_publish_pending(htc_context *ctx, request_rec *r, htc_request *rq);

/* htaccess/file_walk.c */
/** Literals (redirect_literals), one of which the name of a file must have, so that a <Files> or
 * <FilesMatch> section in @a vector can be for it; from @a pool. NULL: not known. For a name without
 * any of them core's ap_file_walk() would change nothing. */
const unsigned char *htc_file_literals(const ap_conf_vector_t *vector, apr_pool_t *pool);

/* htaccess/merged_walk.c */
/** What a .htaccess file may say, as core finds out while it walks. */
typedef struct htc_rights {
    int override, override_opts;
    apr_table_t *override_list;
} htc_rights;

/** What core's walk makes of the <Directory> sections and .htaccess files down to a directory. */
typedef struct htc_merged_walk {
    ap_conf_vector_t *merged;   /* NULL: nothing */
    apr_array_header_t *walked; /* what core notes of it */
    ap_conf_vector_t *ready;    /* with the server's defaults; NULL: for each request */
    const unsigned char *files; /* htc_file_literals() of it */
    bool known;                 /* it can be told ahead; else the rest means nothing */
    bool whole;                 /* and there is no section that could be for a file in it */
    bool leans;                 /* a part of it is the model's */
} htc_merged_walk;

/** A directory on the way. */
typedef struct htc_merged_step {
    const char *dir;          /* ends with '/' */
    ap_conf_vector_t *vector; /* what its .htaccess file sets; NULL: nothing */
} htc_merged_step;

/** What there is for another directory, which may be another server's. */
typedef struct htc_merged_model {
    const htc_merged_walk *walk; /* NULL: nothing */
    const server_rec *server;
} htc_merged_model;

/** Merge what there is for the directory @a step of a server for which that is possible, into @a
 * pool. @a above: the directory above for which core asked last, and what there is for it; both
 * NULL for the first. What was merged of the same two for @a model is not merged again; then @a walk
 * leans on it. All that they have must live as long as @a walk. Where it cannot be done @a walk says
 * so. */
void htc_merged_walk_create(htc_merged_walk *walk, const htc_context *ctx, const server_rec *s,
                            const htc_merged_step *step, const char *above_dir,
                            const htc_merged_walk *above, const htc_merged_model *model,
                            apr_pool_t *pool);
/** Add to @a rights what the <Directory> sections say that apply to @a dir and not to @a above
 * (NULL: none), as core does while it walks. */
void htc_rights_add(htc_rights *rights, const server_rec *s, const char *dir, const char *above);
/** core has walked for @a r, in directory @a dir, for which @a walk was made. Is what core notes of
 * its walks for subrequests as it is expected? */
bool htc_merged_walk_verify(const htc_merged_walk *walk, const char *dir, const request_rec *r);
/** True when htc_merged_walk_run() may take the place of core's walk. r->filename is the file @a
 * name (without '/') in the directory @a dir, which @a walk was made for; it may be missing. Looks at
 * the file, as core's walk does. */
bool htc_merged_walk_suits(const htc_merged_walk *walk, request_rec *r, const char *dir,
                           const char *name);
/** Do what core's map_to_storage does, and leave the same note. @a dir, and @a walk, must live as
 * long as the request. */
int htc_merged_walk_run(const htc_merged_walk *walk, const htc_context *ctx, request_rec *r,
                        const char *dir, const char *name);

/* htaccess/shortcut.c */
/** The one record that a path entry rests on, and the version it was made with. */
typedef struct htc_step {
    const htc_slot_hot *slot;
    uint64_t version;
} htc_step;

/** One directory's ready-made element of r->htaccess. Lies in the heap. What every request reads
 * comes first, on two cache lines, and the directory right behind it. */
typedef struct htc_path_entry {
    struct htaccess_result result;
    const struct htc_path_entry *parent;
    apr_int64_t revalidate_ms;
    unsigned ndeps;
    unsigned dir_len;
    const htc_step *steps; /* of all entries down to here, together; NULL if one rests on several
                            * records, or has to ask each time */
    htc_merged_walk walk;  /* in place of core's */
    unsigned depth;        /* entries down to here, and steps */
    unsigned hits, absent; /* records that say so, from the top down to here */
    const htc_dep *deps;   /* mostly one */
    bool complete;         /* core asks for no other directory down to here */
    const server_rec *server;
    const htc_config *config; /* of the directory's file; NULL: it has none, or an empty one */
    char dir[];               /* result.dir */
} htc_path_entry;

/** What tells one from another. */
typedef struct htc_entry_key {
    const server_rec *server;
    const char *dir;
    size_t len;
} htc_entry_key;

bool htc_entry_match(const void *object, const void *key);
uint64_t htc_entry_hash(const htc_context *ctx, const htc_entry_key *key);

/* htaccess/apply.c */
bool htc_config_match(const void *object, const void *key);
uint64_t htc_config_hash(const htc_context *ctx, const htc_config_key *key);
/** Sections that were resolved while the tree was built needed a right to stand in the file. Any of
 * the AllowOverride classes gives it; with an AllowOverrideList alone it must be asked for. @a
 * flags are those of the record. */
bool htc_record_suits(uint32_t flags, int override);
/** Could htc_tree_encode() have made @a record, with these flags? Other processes write the memory
 * that it comes from. What acts while a file is read has no place in a tree: httpd would give it
 * another thing than it expects. What is not to be kept or replayed must not be. */
bool htc_record_may_run(const htc_context *ctx, uint32_t flags, const char *record);
/** Rename what can be folded in @a tree, and count it if @a count. @a once: what comes of the tree
 * is for one request only. */
ap_directive_t *htc_fold_record(const htc_context *ctx, const server_rec *s, const cmd_parms *cmd,
                                ap_directive_t *tree, bool once, bool count);
/** Lines that this thread has written to the error log. */
unsigned htc_lines_logged(void);

/* htaccess/build.c */
/** Build what @a request asks for. In the builder. False: it cannot be done now. What directives
 * log goes to @a nowhere. What is in @a scratch is of no use afterwards. */
bool htc_build(htc_context *ctx, server_rec *main_server, const htc_heap_request *request,
               apr_file_t *nowhere, apr_pool_t *scratch);
/* htaccess/build_config.c */
/** Find out how httpd keeps compiled regexes. False: not as expected, so nothing can be shared.
 * *shares_regexes: files with regexes can be, too. */
bool htc_build_prepare(bool *shares_regexes);

/** What the private directive of one synthetic file has to do. Lives in the request's pool. */
typedef struct htc_job {
    htc_context *ctx;
    request_rec *r;
    const char *path;
    htc_info info;          /* the record, when has_text is false */
    bool has_text;          /* the file was just read: parse text and publish it */
    ap_configfile_t *file;  /* else: httpd's own reader of the file, for this request only */
    bool sections_resolved; /* text has <IfModule> and the like */
    bool counted;           /* the look-up was counted already */
    bool peek;              /* for ?explain: nothing is counted or stored */
    bool sent;              /* the one line was handed out */
    htc_seen *seen;         /* what is remembered of the directory, or NULL */
    htc_text text;
} htc_job;

/** The synthetic file for @a job. */
ap_configfile_t *htc_job_open(htc_job *job, apr_pool_t *pool);

/** HTC_RF_RACY or 0: could the file have changed since it was read, and its identity be the same? */
uint32_t htc_racy_flag(const htc_text *text);

/** Store a record; hash, owner and share are filled in. ref->version is 0 on failure. */
apr_status_t htc_publish(htc_context *ctx, request_rec *r, htc_put *put, htc_ref *ref);

/** Record that httpd must read the file at @a path itself, and why. */
void htc_publish_stock(htc_context *ctx, request_rec *r, const char *path, const htc_text *text,
                       const char *reason);

/** The same for a file that does not fit; counted and logged. */
void htc_publish_too_large(htc_context *ctx, request_rec *r, const char *path,
                           const htc_text *text);

/** Room for a record to be stored with others when httpd's walk is over. Counts a miss. */
htc_put *htc_publish_later(htc_context *ctx, request_rec *r, htc_request *rq);

/** HtCacheDocumentRootShare of the request's server, in per cent. */
unsigned htc_share_of(const request_rec *r);
/** HTC_RF_REDIRECTS where the text may have lines of mod_alias; else 0. */
uint32_t htc_redirects_flag(const htc_text *text);

/* htaccess/apply.c */
/** post_perdir_config of a request with @a rq->refused. Undoes what core did for it since then,
 * because core would not have gone on. HTTP_FORBIDDEN. */
int htc_refuse(request_rec *r, const htc_request *rq);

/* htaccess/ahead.c, in the builder */
/** A virtual host by what names it, and its number now. */
typedef struct htc_ahead_server {
    uint64_t hash;
    unsigned number;
} htc_ahead_server;
/** What a builder knows of what is used most. */
typedef struct htc_ahead {
    int64_t began, next_look; /* htc_mono_ms() */
    size_t next;              /* place of the list that is built next */
    apr_hash_t *servers;      /* htc_ahead_server by hash */
} htc_ahead;
/** Begin with the list that the builder before has left. */
void htc_ahead_begin(htc_ahead *ahead, const htc_context *ctx, server_rec *main_server,
                     apr_pool_t *pool);
/** The next directory to be built without being asked. False: there are no more, or it is time to
 * end, or room gets short. */
bool htc_ahead_next(htc_ahead *ahead, const htc_context *ctx, htc_heap_request *request);
/** Note for the next builder which directories are used most, if it is time. Clears @a scratch. */
void htc_ahead_note(htc_ahead *ahead, htc_context *ctx, int64_t now, apr_pool_t *scratch);

/* htaccess/net.c, in the builder */
/** Where the periodic check of trusted records stands; zeroes at first. */
typedef struct htc_net {
    int64_t next; /* htc_mono_ms() */
    uint32_t place;
} htc_net;
/** Compare some trusted records with the disk, if it is time. */
void htc_net_check(htc_net *net, htc_context *ctx, int64_t now);

#endif
