/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The open_htaccess hook: httpd asks here for each .htaccess file it wants to read. The answer is
 * "there is none", an empty file, a synthetic file whose only line is the private directive, or
 * DECLINED, which leaves the file to httpd. The directive itself is in htaccess/apply.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

/* Everything one look-up needs, in one place. */
typedef struct lookup {
    htc_context *ctx;
    request_rec *r;
    htc_request *rq;
    htc_scope scope;
    const char *dir;
    const char *path; /* dir and the name asked for */
    size_t path_len;
    uint64_t hash;
    htc_info info;   /* the record; kind NONE when there is none */
    htc_trust trust; /* mark NULL: none is sought */
} lookup;

void htc_count_answer(htc_context *ctx, enum htc_counter outcome)
{
    htc_count(ctx->store, outcome, 1);
    if (outcome == HTC_C_hits || outcome == HTC_C_absent_hits)
        htc_count(ctx->store, HTC_C_asked, 1);
}

/* What a request and its family hold, in a note of the first request. */
typedef struct held_pin {
    struct held_pin *next;
    htc_pin *pin;
} held_pin;

static HTC_EACH apr_status_t release_held(void *data)
{
    request_rec *r = data;
    void **note = ap_get_request_note(r, htc_server_conf_of(r->server)->ctx->held_note);

    for (const held_pin *held = note ? *note : NULL; held; held = held->next)
        htc_heap_release(held->pin);
    return APR_SUCCESS;
}

HTC_EACH int htc_create_request(request_rec *r)
{
    const htc_context *ctx = htc_server_conf_of(r->server)->ctx;

    if (ctx && ctx->heap && !r->main)
        apr_pool_cleanup_register(r->pool, r, release_held, apr_pool_cleanup_null);
    return OK;
}

/* The request of the client: what its subrequests and the redirects to others find is handed on. */
static inline request_rec *first_of(request_rec *r)
{
    while (r->main || r->prev)
        r = r->main ? r->main : r->prev;
    return r;
}

static inline void hold(const htc_context *ctx, request_rec *first, htc_pin *pin)
{
    void **note = ap_get_request_note(first, ctx->held_note);
    held_pin *held = apr_palloc(first->pool, sizeof(*held));

    *held = (held_pin){*note, pin};
    *note = held;
}

HTC_EACH void htc_hold(const htc_context *ctx, request_rec *r, htc_pin *pin)
{
    hold(ctx, first_of(r), pin);
}

void htc_hold_once(htc_context *ctx, request_rec *r, htc_pin *pin)
{
    request_rec *first = first_of(r);
    htc_request *rq = htc_request_get(first);

    for (unsigned i = 0; i < HTC_HELD_RECENT; i++) {
        if (rq->held[i] == pin) {
            htc_heap_release(pin);
            return;
        }
    }
    rq->held[rq->nheld++ % HTC_HELD_RECENT] = pin;
    hold(ctx, first, pin);
}

/* The entry for the directory, a new one unless it was asked for just before: httpd asks once for
 * each name in AccessFileName. */
static htc_seen *seen_for(lookup *lk)
{
    htc_request *rq = lk->rq;
    htc_seen *seen = rq->last_seen;

    if (seen && !strcmp(seen->dir, lk->dir))
        return seen;
    seen = apr_pcalloc(lk->r->pool, sizeof(*seen));
    seen->dir = apr_pstrdup(lk->r->pool, lk->dir);
    seen->path = lk->path;
    seen->wanted = true;
    if (rq->last_seen)
        rq->last_seen->next = seen;
    else
        rq->seen = seen;
    return rq->last_seen = seen;
}

static htc_dep dep_of(const lookup *lk)
{
    return (htc_dep){lk->path, lk->info.ref, lk->info.kind, (lk->info.flags & HTC_RF_RACY) != 0,
                     lk->info.id};
}

/* True when requests may be answered from the record without a look at the file. A record that is
 * too young to be trusted by its identity is trusted if the kernel would report any change since.
 * */
static bool lasting(const lookup *lk)
{
    return !(lk->info.flags & HTC_RF_RACY) ||
           (lk->scope.revalidate_ms == HTC_REVALIDATE_AUTO &&
            lk->info.checked_at == htc_watch_fresh(lk->ctx->watch));
}

/* Remember that core asked for the directory, unless it does not begin at the top. */
static htc_seen *seen_add(lookup *lk, bool wanted)
{
    htc_seen *seen;

    if (lk->rq->inherited)
        return NULL;
    seen = seen_for(lk);
    seen->wanted = seen->wanted && wanted;
    return seen;
}

/* The file was too large for a smaller share: of another server, or of before a restart. */
static bool fits_by_now(const lookup *lk)
{
    unsigned share = HTC_RF_TOO_LARGE_AT(lk->info.flags);

    return share && share < htc_share_of(lk->r);
}

/* May the record found be used as it is? */
static bool record_current(lookup *lk)
{
    htc_slot_hot *slot = htc_store_slot(lk->ctx->store, lk->info.ref.slot);
    int64_t mark = lk->info.checked_at, fresh = htc_watch_fresh(lk->ctx->watch);
    apr_int64_t now = 0, ttl = lk->scope.revalidate_ms;
    const htc_dep dep = dep_of(lk);

    htc_store_touch(slot);
    if (fits_by_now(lk))
        return false;
    if (dep.racy && (ttl != HTC_REVALIDATE_AUTO || mark != fresh)) {
        htc_count(lk->ctx->store, HTC_C_racy, 1);
        if (ttl == HTC_REVALIDATE_AUTO)
            htc_trust_begin(lk->ctx, &lk->trust, &slot->checked_at, mark, lk->path, lk->info.ref);
        return false;
    }
    return htc_trusted(mark, ttl, fresh, &now) ||
           htc_recheck(lk->ctx, lk->r, slot, &dep, mark, ttl, now);
}

/* Bytes that are the same as before need no new parse, whatever happened to the file's times. */
static bool same_text(lookup *lk, const htc_text *text, char **payload, size_t *len)
{
    if (lk->info.kind != HTC_KIND_TREE ||
        htc_store_copy(lk->ctx->store, lk->info.ref, lk->r->pool, payload, len) != APR_SUCCESS ||
        htc_record_validate(*payload, *len) != APR_SUCCESS)
        return false;
    return htc_text_hash_equal(htc_record_text_hash(*payload), text->hash);
}

/* Begin a record of the file that was looked up. */
static htc_put *later(lookup *lk, htc_kind kind, apr_int64_t checked_at)
{
    htc_put *put = htc_publish_later(lk->ctx, lk->r, lk->rq);

    *put = (htc_put){.hash = lk->hash,
                     .key = lk->path,
                     .key_len = lk->path_len,
                     .kind = kind,
                     .checked_at = checked_at};
    return put;
}

static void publish_absent(lookup *lk, apr_int64_t checked_at)
{
    htc_farm_publish(lk->ctx, lk->r, later(lk, HTC_KIND_ABSENT, checked_at), false);
}

static void publish_empty(lookup *lk, const htc_text *text)
{
    htc_put *put = later(lk, HTC_KIND_TREE, text->checked_at);

    put->id = apr_pmemdup(lk->r->pool, &text->id, sizeof(text->id));
    put->flags = htc_racy_flag(text) | HTC_RF_EMPTY;
    /* Storing so small a record fails only for lack of memory, which aborts. */
    htc_record_finish(htc_record_begin(lk->r->pool, text->hash), &put->payload, &put->payload_len);
    htc_farm_publish(lk->ctx, lk->r, put, false);
}

static apr_status_t answer_stock(lookup *lk)
{
    seen_add(lk, false);
    lk->rq->outcomes |= 1U << HTC_C_bypasses;
    htc_count_answer(lk->ctx, HTC_C_bypasses);
    htc_cost_end(lk->ctx, lk->path, HTC_COST_STOCK, 0);
    return AP_DECLINED;
}

static apr_status_t answer_job(lookup *lk, htc_job *job, ap_configfile_t **cfg)
{
    job->ctx = lk->ctx;
    job->r = lk->r;
    job->path = lk->path;
    job->info = lk->info;
    *cfg = htc_job_open(job, lk->r->pool);
    return APR_SUCCESS;
}

/* A file that is left to httpd. When it has Redirect lines, httpd's reader is opened here, anew for
 * each request. So they are folded like those of other files, and come in their place among them.
 * What httpd cannot open it is asked for again, and answers and logs. */
static apr_status_t answer_left(lookup *lk, bool redirects, ap_configfile_t **cfg)
{
    apr_status_t rv = answer_stock(lk);
    ap_configfile_t *file;
    htc_job *job;

    if (!redirects || !htc_server_conf_of(lk->r->server)->fold_dirs ||
        ap_pcfg_openfile(&file, lk->r->pool, lk->path) != APR_SUCCESS)
        return rv;
    job = apr_pcalloc(lk->r->pool, sizeof(*job));
    job->file = file;
    job->counted = true;
    return answer_job(lk, job, cfg);
}

/* A record is at hand and may be used. */
static apr_status_t answer_record(lookup *lk, bool counted, ap_configfile_t **cfg)
{
    htc_seen *seen;
    htc_job *job;

    switch (lk->info.kind) {
    case HTC_KIND_ABSENT:
        seen_add(lk, lasting(lk));
        lk->rq->outcomes |= 1U << HTC_C_absent_hits;
        if (!counted)
            htc_count_answer(lk->ctx, HTC_C_absent_hits);
        return APR_ENOENT;
    case HTC_KIND_TREE:
        seen = seen_add(lk, !(lk->info.flags & HTC_RF_REPLAY) && lasting(lk));
        if (lk->info.flags & HTC_RF_EMPTY) {
            lk->rq->outcomes |= 1U << HTC_C_hits;
            if (!counted)
                htc_count_answer(lk->ctx, HTC_C_hits);
            *cfg = htc_empty_open(lk->path, lk->r->pool);
            return APR_SUCCESS;
        }
        job = apr_pcalloc(lk->r->pool, sizeof(*job));
        job->seen = seen;
        job->counted = counted; /* if not, the directive counts the outcome */
        return answer_job(lk, job, cfg);
    default:
        return answer_left(lk, lk->info.flags & HTC_RF_REDIRECTS, cfg);
    }
}

/* The file was read and is not what the record says. */
static apr_status_t answer_text(lookup *lk, const htc_text *text, ap_configfile_t **cfg)
{
    htc_survey survey;
    htc_job *job;

    htc_text_survey(lk->ctx, text, &survey, lk->r->pool);
    if (survey.stock) {
        htc_publish_stock(lk->ctx, lk->r, lk->path, text, survey.stock);
        return answer_left(lk, htc_redirects_flag(text), cfg);
    }
    seen_add(lk, !htc_racy_flag(text));
    if (!survey.directives) {
        publish_empty(lk, text);
        *cfg = htc_empty_open(lk->path, lk->r->pool);
        return APR_SUCCESS;
    }
    lk->rq->outcomes |= 1U << HTC_C_misses;
    htc_count_answer(lk->ctx, HTC_C_misses);
    job = apr_pcalloc(lk->r->pool, sizeof(*job));
    job->text = *text;
    job->has_text = true;
    job->sections_resolved = survey.sections_resolved;
    return answer_job(lk, job, cfg);
}

/* Publish the new identity of old bytes to the farm. */
static void tell_unchanged(const lookup *lk, const htc_text *text, const char *payload, size_t len)
{
    const htc_put put = {.key = lk->path,
                         .kind = lk->info.kind,
                         .flags = lk->info.flags,
                         .id = &text->id,
                         .payload = payload,
                         .payload_len = len,
                         .checked_at = text->checked_at};

    htc_farm_publish(lk->ctx, lk->r, &put, htc_text_computed(text));
}

/* How long the result of another server may be used here; 0: not at all. With auto it may be
 * used only where this server itself asks every second: on a file system whose changes the
 * kernel does not all see. *why is set in that case. */
static apr_int64_t farm_ttl(const lookup *lk, htc_watch_why *why)
{
    apr_int64_t ttl = lk->scope.revalidate_ms;
    const char *name = lk->path + strlen(lk->dir), *slash;
    htc_info parent;
    char *path;
    size_t len;

    if (ttl != HTC_REVALIDATE_AUTO || !lk->ctx->watch)
        return ttl == HTC_REVALIDATE_AUTO ? HTC_ASK_MS : ttl;
    slash = strlen(lk->dir) > 1 ? memrchr(lk->dir, '/', strlen(lk->dir) - 1) : NULL;
    if (!slash || lk->trust.mark)
        return 0;
    path = apr_pstrcat(lk->r->pool, apr_pstrmemdup(lk->r->pool, lk->dir, slash - lk->dir + 1), name,
                       NULL);
    len = strlen(path);
    if (!htc_store_find(lk->ctx->store, htc_store_hash(lk->ctx->store, path, len), path, len,
                        &parent))
        return 0;
    *why = htc_mark_why(parent.checked_at);
    if (!htc_mark_is_polled(parent.checked_at) || htc_watch_each_request(*why))
        return 0;
    return HTC_ASK_MS;
}

/* No usable record here: another server of the farm may have one. It becomes ours. */
static bool record_from_farm(lookup *lk)
{
    htc_put put = {.key = lk->path, .key_len = lk->path_len};
    htc_watch_why why = HTC_WATCH_OK;
    htc_ref ref;

    if (!htc_farm_fetch(lk->ctx, lk->r, farm_ttl(lk, &why), &put))
        return false;
    if (lk->scope.revalidate_ms == HTC_REVALIDATE_AUTO && lk->ctx->watch)
        put.checked_at = htc_mark_polled(why, put.checked_at);
    return htc_publish(lk->ctx, lk->r, &put, &ref) == APR_SUCCESS &&
           htc_store_find(lk->ctx->store, lk->hash, lk->path, lk->path_len, &lk->info) &&
           lk->info.ref.version == ref.version;
}

/* The file is there, or not, but gets no record. */
static apr_status_t answer_unkept(lookup *lk, const htc_text *text, ap_configfile_t **cfg)
{
    seen_add(lk, false);
    lk->rq->outcomes |= 1U << HTC_C_misses;
    htc_count_answer(lk->ctx, HTC_C_misses);
    if (!text)
        return APR_ENOENT;
    *cfg = htc_text_open(text, lk->path, lk->r->pool);
    return APR_SUCCESS;
}

/* No usable record: ask the file system. */
static apr_status_t answer_from_disk(lookup *lk, ap_configfile_t **cfg)
{
    uint64_t max = lk->ctx->memory / HTC_RECORDS_PART / 100 * htc_share_of(lk->r);
    htc_text text = {.bytes = NULL};
    uint64_t began = htc_cost_begin();
    bool keep = lk->info.ref.version || htc_store_admits(lk->ctx->store, lk->hash);
    apr_status_t rv;
    char *payload;
    size_t payload_len;

    /* One time for all of a request's files: the earlier, the sooner they are checked again. */
    if (!lk->rq->asked_at)
        lk->rq->asked_at = htc_mono_ms();
    text.checked_at = htc_fresh_mark(lk->ctx, lk->scope.revalidate_ms, lk->rq->asked_at);
    rv = htc_text_read(&text, lk->path, max, lk->r->pool);
    switch (rv) {
    case APR_ENOENT:
        if (!keep)
            return answer_unkept(lk, NULL, cfg);
        publish_absent(lk, text.checked_at);
        seen_add(lk, true);
        return APR_ENOENT;
    case APR_ENOSPC:
        htc_publish_too_large(lk->ctx, lk->r, lk->path, &text);
        return answer_left(lk, true, cfg);
    case APR_SUCCESS:
        htc_count(lk->ctx->store, HTC_C_file_reads, 1);
        htc_cost_end(lk->ctx, lk->path, HTC_COST_READS, began);
        break;
    default:
        htc_store_drop(lk->ctx->store, lk->info.ref);
        return answer_stock(lk);
    }
    /* Redirect lines that httpd reads itself would come behind folded ones of other files. */
    if (!keep && !htc_redirects_flag(&text))
        return answer_unkept(lk, &text, cfg);
    if (same_text(lk, &text, &payload, &payload_len)) {
        lk->info.flags = (lk->info.flags & ~HTC_RF_RACY) | htc_racy_flag(&text);
        lk->info.id = text.id;
        htc_store_reidentify(lk->ctx->store, lk->info.ref, &text.id, lk->info.flags,
                             lk->trust.mark ? HTC_STORE_KEEP : text.checked_at);
        if (lk->trust.mark)
            htc_trust_end(&lk->trust);
        htc_count(lk->ctx->store, HTC_C_unchanged, 1);
        tell_unchanged(lk, &text, payload, payload_len);
        htc_count_answer(lk->ctx, HTC_C_misses);
        return answer_record(lk, true, cfg);
    }
    return answer_text(lk, &text, cfg);
}

static apr_status_t answer(lookup *lk, const char *access_name, ap_configfile_t **cfg,
                           const char **full_name)
{
    request_rec *r = lk->r;

    lk->path = *full_name = ap_make_full_path(r->pool, lk->dir, access_name);
    lk->path_len = strlen(lk->path);
    lk->hash = htc_store_hash(lk->ctx->store, lk->path, lk->path_len);
    if (htc_store_find(lk->ctx->store, lk->hash, lk->path, lk->path_len, &lk->info) &&
        record_current(lk))
        return answer_record(lk, false, cfg);
    if (lk->ctx->farm && record_from_farm(lk))
        return answer_record(lk, false, cfg);
    return answer_from_disk(lk, cfg);
}

/* core takes the last component of an existing path for a directory when it need not look for
 * symbolic links, and asks for "page.html/.htaccess". It has just found that page.html is a file.
 * What is too long for a path is another error, and core refuses the request.
 */
static bool is_file_itself(const request_rec *r, const char *dir, const char *access_name)
{
    return dir == r->filename && r->finfo.filetype == APR_REG &&
           (!r->path_info || !*r->path_info) &&
           strlen(dir) + strlen(access_name) < APR_PATH_MAX - 1;
}

/* --- for ?explain -----------------------------------------------------------------------------*/

/* True when a request would use the record without a look at the file. */
static bool usable_as_it_is(lookup *lk)
{
    int64_t fresh = htc_watch_fresh(lk->ctx->watch);
    apr_int64_t now = 0, ttl = lk->scope.revalidate_ms;

    return htc_store_find(lk->ctx->store, lk->hash, lk->path, lk->path_len, &lk->info) &&
           !fits_by_now(lk) && lasting(lk) && htc_trusted(lk->info.checked_at, ttl, fresh, &now);
}

/* What a request would meet. Nothing is counted, stored or asked of the builder. What would be
 * compared with the disk is read from there. */
static apr_status_t peek_at(lookup *lk, ap_configfile_t **cfg)
{
    bool known = usable_as_it_is(lk);
    htc_job *job;

    if (known && lk->info.kind == HTC_KIND_ABSENT)
        return APR_ENOENT;
    job = apr_pcalloc(lk->r->pool, sizeof(*job));
    job->peek = true;
    if ((!known || lk->info.kind != HTC_KIND_TREE) &&
        ap_pcfg_openfile(&job->file, lk->r->pool, lk->path) != APR_SUCCESS)
        return AP_DECLINED; /* httpd finds the same, and says so */
    return answer_job(lk, job, cfg);
}

static HTC_APART apr_status_t peek(request_rec *r, const char *dir, const char *access_name,
                                   ap_configfile_t **cfg, const char **full_name)
{
    const htc_explained *e = htc_explained_of(r);
    const htc_server_conf *sc = htc_server_conf_of(e->server);
    const htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    lookup lk = {.ctx = sc->ctx, .r = r, .dir = dir};

    lk.path = ap_make_full_path(r->pool, dir, access_name);
    if (!is_file_itself(r, dir, access_name))
        htc_explained_met(e, dir, lk.path);
    if (!sc->may_be_enabled || !sc->ctx->serving || !sc->ctx->store)
        return AP_DECLINED;
    lk.scope = htc_scope_of(sc, dir, rq ? rq->location : NULL);
    if (!lk.scope.enabled)
        return AP_DECLINED;
    if (is_file_itself(r, dir, access_name))
        return APR_ENOTDIR;
    *full_name = lk.path;
    lk.path_len = strlen(lk.path);
    lk.hash = htc_store_hash(lk.ctx->store, lk.path, lk.path_len);
    return peek_at(&lk, cfg);
}

apr_status_t htc_open_htaccess(request_rec *r, const char *dir, const char *access_name,
                               ap_configfile_t **cfg, const char **full_name)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    lookup lk = {.r = r, .dir = dir};

    if (rq && (rq->page || rq->refused))
        return APR_ENOENT;
    if (!sc->may_be_enabled || !sc->ctx->serving)
        return sc->explained ? peek(r, dir, access_name, cfg, full_name) : AP_DECLINED;
    lk.scope = sc->plain;
    if (sc->special || (rq && rq->location))
        lk.scope = htc_scope_of(sc, dir, rq ? rq->location : NULL);
    if (!lk.scope.enabled) {
        if (htc_options_get()->notes)
            htc_request_get(r)->outcomes |= 1U << HTC_C_bypasses;
        return AP_DECLINED;
    }
    if (is_file_itself(r, dir, access_name))
        return APR_ENOTDIR;
    lk.ctx = sc->ctx;
    lk.rq = rq ? rq : htc_request_get(r);
    return answer(&lk, access_name, cfg, full_name);
}
