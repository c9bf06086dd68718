/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The farm tier's policy. A lease says what another server's stat of a path gave, and when; this
 * server then needs no stat of its own. One exchange asks for the leases of all levels of a
 * request. Records are fetched one by one, when a level needs one. Results of this server are
 * queued, and published when the walk is over. When a lease has run out, the server that gets the
 * claim of that path (memcached's "add") looks at the disk. The others go on with what they have
 * for a moment. If that is too old, they wait for the result, within the request's time for
 * memcached.
 *
 * Called by htaccess/hook.c; see htaccess/farm.h.
 */
#include "htaccess/farm_internal.h"

#define MAX_LEVELS 48

/* The first pause between two questions whether another server has published its result; each
 * pause is twice the one before. */
#define PAUSE_FIRST_US 500
#define PAUSE_MOST_US  8000

/* --- per request --------------------------------------------------------------------------------
 */

/* The client's own request. It keeps the state of its subrequests and redirects, so all of them
 * share one time limit. */
static request_rec *top_of(request_rec *r)
{
    while (r->main || r->prev)
        r = r->main ? r->main : r->prev;
    return r;
}

static apr_status_t flush_at_end(void *data)
{
    request_rec *top = data;

    htc_farm_flush(htc_server_conf_of(top->server)->ctx, top);
    return APR_SUCCESS;
}

/* The state of the top-level request, or NULL where there is no farm or no time left. */
static htc_farm_request *farm_request(htc_context *ctx, request_rec *r)
{
    request_rec *top;
    htc_farm_request *fr;
    htc_request *rq;

    if (!ctx->farm || !ctx->farm->mc)
        return NULL;
    top = top_of(r);
    rq = htc_request_get(top);
    if (!rq->farm) {
        fr = rq->farm = apr_pcalloc(top->pool, sizeof(*fr));
        fr->farm = ctx->farm;
        fr->pool = top->pool;
        fr->budget_us = ctx->farm->timeout_us;
        fr->leases = apr_array_make(top->pool, 16, sizeof(htc_farm_lease));
        fr->out = apr_array_make(top->pool, 4, sizeof(htc_mc_item));
        fr->claims = apr_array_make(top->pool, 4, sizeof(htc_farm_claim));
        apr_pool_pre_cleanup_register(top->pool, top, flush_at_end);
    }
    return rq->farm->budget_us > 0 ? rq->farm : NULL;
}

static const unsigned char *fingerprint_of(const request_rec *r)
{
    return htc_server_conf_of(r->server)->farm_fingerprint;
}

static htc_farm_scope scope_of(const htc_farm_request *fr, const request_rec *r, const char *path)
{
    return (htc_farm_scope){&fr->farm->keys, fingerprint_of(r), path};
}

static htc_mc_item item_of(const htc_farm_request *fr, const request_rec *r, htc_farm_type type,
                           const char *path, htc_mc_op op)
{
    htc_mc_item item = {.op = op};

    htc_farm_name(item.key, type, fingerprint_of(r), path);
    item.server = htc_farm_server_of(fr->farm, item.key + 1);
    return item;
}

/* --- asking for leases --------------------------------------------------------------------------
 */

static htc_farm_lease *find_lease(htc_farm_request *fr, const char *path)
{
    for (int i = 0; i < fr->leases->nelts; i++) {
        htc_farm_lease *lease = &APR_ARRAY_IDX(fr->leases, i, htc_farm_lease);
        if (!strcmp(lease->path, path))
            return lease;
    }
    return NULL;
}

/* A path that the request will want to know of soon: not known on this server, or not checked. */
static bool wanted(htc_context *ctx, const char *path, apr_int64_t ttl, apr_int64_t now,
                   bool deeper)
{
    size_t len = strlen(path);
    htc_info info;

    if (!htc_store_find(ctx->store, htc_store_hash(ctx->store, path, len), path, len, &info))
        return deeper;
    return now - htc_mark_time(info.checked_at, info.checked_at) >= ttl;
}

static void want(htc_farm_request *fr, const request_rec *r, const char *path)
{
    htc_farm_lease *lease;

    if (find_lease(fr, path))
        return;
    lease = apr_array_push(fr->leases);
    memset(lease, 0, sizeof(*lease));
    lease->path = apr_pstrdup(fr->pool, path);
    htc_farm_name(lease->name, HTC_FARM_LEASE, fingerprint_of(r), path);
    lease->server = htc_farm_server_of(fr->farm, lease->name + 1);
}

/* The other levels of the request's path. */
static void want_levels(htc_context *ctx, htc_farm_request *fr, request_rec *r, const char *path,
                        apr_int64_t ttl)
{
    const core_server_config *core = ap_get_core_module_config(r->server->module_config);
    apr_int64_t now = htc_mono_ms();
    size_t asked = strlen(path);

    if (!r->filename || *r->filename != '/')
        return;
    for (const char *slash = r->filename; slash; slash = strchr(slash + 1, '/')) {
        const char *dir =
            apr_pstrmemdup(fr->pool, r->filename, (apr_size_t)(slash - r->filename) + 1);
        const char *names = core->access_name;

        while (*names && fr->leases->nelts < MAX_LEVELS) {
            const char *name = ap_getword_conf(fr->pool, &names);
            const char *level = apr_pstrcat(fr->pool, dir, name, NULL);

            if (wanted(ctx, level, ttl, now, strlen(level) >= asked))
                want(fr, r, level);
        }
    }
}

/* Ask for the lease of a path, and for those of the path's other levels with it. */
static htc_farm_lease *ask(htc_context *ctx, htc_farm_request *fr, request_rec *r, const char *path,
                           apr_int64_t ttl)
{
    htc_farm_lease *lease = find_lease(fr, path);
    htc_mc_item items[MAX_LEVELS + 1];
    int first = fr->leases->nelts;
    unsigned n = 0;

    if (lease || first > MAX_LEVELS)
        return lease;
    want(fr, r, path);
    want_levels(ctx, fr, r, path, ttl);
    for (int i = first; i < fr->leases->nelts; i++) {
        lease = &APR_ARRAY_IDX(fr->leases, i, htc_farm_lease);
        items[n] = (htc_mc_item){.op = HTC_MC_GET, .server = lease->server};
        memcpy(items[n++].key, lease->name, sizeof(lease->name));
    }
    htc_farm_run(fr, items, n);
    for (unsigned i = 0; i < n; i++) {
        htc_farm_scope scope;

        lease = &APR_ARRAY_IDX(fr->leases, first + (int)i, htc_farm_lease);
        scope = scope_of(fr, r, lease->path);
        lease->valid = htc_farm_got(fr, &scope, &items[i], &lease->value);
    }
    return &APR_ARRAY_IDX(fr->leases, first, htc_farm_lease);
}

/* True when it is young enough. *checked_at is then when it was true, by htc_mono_ms(), or
 * earlier. */
static bool fresh(const htc_farm_lease *lease, apr_int64_t ttl, apr_int64_t *checked_at)
{
    apr_int64_t age;

    if (!lease || !lease->valid)
        return false;
    age = htc_farm_now() - lease->value.stamp;
    if (age < 0)
        age = 0;
    if (age >= ttl)
        return false;
    *checked_at = htc_mono_ms() - age;
    return true;
}

/* --- going on with a record ----------------------------------------------------------------------
 */

/* The place in the table is known to nobody outside: what a tenant names cannot push others out. */
static htc_farm_waiting *waiting_of(htc_context *ctx, const char *path, uint64_t *hash)
{
    *hash = htc_store_hash(ctx->store, path, strlen(path)) | 1;
    return &ctx->farm->shared->waiting[*hash / 2 % HTC_FARM_WAITING];
}

/* It is known what the path is now. */
static void wait_ends(htc_context *ctx, const char *path)
{
    uint64_t hash;
    htc_farm_waiting *entry = waiting_of(ctx, path, &hash);

    atomic_compare_exchange_strong(&entry->path, &hash, 0);
}

/* --- telling ------------------------------------------------------------------------------------
 */

/* If this request has the claim of that path, it needs it no more. */
static void claim_done(htc_farm_request *fr, const char *path)
{
    for (int i = 0; i < fr->claims->nelts; i++) {
        htc_farm_claim *claim = &APR_ARRAY_IDX(fr->claims, i, htc_farm_claim);

        if (!strcmp(claim->path, path))
            claim->done = true;
    }
}

/* Queue a value that was true at our moment @a at and lives for @a life seconds. */
static bool tell(htc_farm_request *fr, request_rec *r, const char *path, htc_farm_value *value,
                 apr_int64_t at, uint32_t life)
{
    const htc_farm_scope scope = scope_of(fr, r, path);
    htc_mc_item item = item_of(fr, r, value->type, path, HTC_MC_SET);
    apr_status_t rv;

    value->stamp = htc_farm_now() - (htc_mono_ms() - at) - HTC_FARM_COARSE_MS;
    /* memcached ends it sooner: this is for one that was kept and put back. */
    value->expires = value->stamp + ((int64_t)life + 2) * 1000;
    rv = htc_farm_encode(&scope, value, fr->pool, &item.value, &item.value_len);
    if (rv == APR_ENOSPC)
        htc_farm_count(fr->farm, HTC_FC_local_large, 1);
    if (rv != APR_SUCCESS)
        return false;
    item.expire = life;
    APR_ARRAY_PUSH(fr->out, htc_mc_item) = item;
    return true;
}

static void tell_lease(htc_farm_request *fr, request_rec *r, const char *path, htc_kind kind,
                       const htc_identity *id, uint32_t flags, apr_int64_t at, apr_int64_t ttl)
{
    htc_farm_value value = {.type = HTC_FARM_LEASE,
                            .kind = kind == HTC_KIND_ABSENT ? kind : HTC_KIND_TREE,
                            .flags = flags & HTC_RF_RACY};
    htc_farm_lease *known = find_lease(fr, path);

    if (value.kind == HTC_KIND_TREE)
        value.id = *id;
    /* What this request got from memcached is out of date now. */
    if (known)
        known->valid = false;
    tell(fr, r, path, &value, at, (uint32_t)((ttl + 999) / 1000) + 2);
    claim_done(fr, path);
}

/* Send what is waiting to be published. Claims for which nothing more will be published are
 * given up behind it. */
static void send_told(htc_farm_request *fr)
{
    int kept = 0;

    for (int i = 0; i < fr->claims->nelts; i++) {
        const htc_farm_claim claim = APR_ARRAY_IDX(fr->claims, i, htc_farm_claim);

        if (claim.done)
            APR_ARRAY_PUSH(fr->out, htc_mc_item) = claim.item;
        else
            APR_ARRAY_IDX(fr->claims, kept++, htc_farm_claim) = claim;
    }
    fr->claims->nelts = kept;
    if (!fr->out->nelts)
        return;
    if (fr->budget_us > 0)
        htc_farm_run(fr, (htc_mc_item *)(void *)fr->out->elts, (unsigned)fr->out->nelts);
    else
        htc_farm_count(fr->farm, HTC_FC_unanswered, (uint64_t)fr->out->nelts);
    apr_array_clear(fr->out);
}

void htc_farm_flush(htc_context *ctx, request_rec *r)
{
    htc_farm_request *fr;

    if (!ctx || !ctx->farm)
        return;
    fr = htc_request_get(top_of(r))->farm;
    if (!fr)
        return;
    /* Claims are given up now, whatever became of the look. */
    for (int i = 0; i < fr->claims->nelts; i++)
        APR_ARRAY_IDX(fr->claims, i, htc_farm_claim).done = true;
    send_told(fr);
}

/* --- claims ------------------------------------------------------------------------------------
 */

static bool has_claim(const htc_farm_request *fr, const char *path)
{
    for (int i = 0; i < fr->claims->nelts; i++) {
        if (!strcmp(APR_ARRAY_IDX(fr->claims, i, htc_farm_claim).path, path))
            return true;
    }
    return false;
}

/* Try to become the one server that looks at the disk. False: another one does just now. A claim
 * that is forged or old does not count, so that nobody can keep all from looking. The lease is
 * asked for again behind the claim: a server tells what it found before it gives the claim up, and
 * who gets the claim next need not look once more. */
static bool take_claim(htc_farm_request *fr, request_rec *r, const char *path,
                       htc_farm_lease *lease)
{
    const htc_farm_scope scope = scope_of(fr, r, path);
    htc_mc_item items[3] = {item_of(fr, r, HTC_FARM_CLAIM, path, HTC_MC_ADD),
                            item_of(fr, r, HTC_FARM_CLAIM, path, HTC_MC_GET),
                            item_of(fr, r, HTC_FARM_LEASE, path, HTC_MC_GET)};
    htc_farm_value value = {.type = HTC_FARM_CLAIM};
    htc_farm_claim *claim;

    if (has_claim(fr, path))
        return true;
    value.stamp = htc_farm_now();
    value.expires = value.stamp + HTC_FARM_CLAIM_LIFE * 1000;
    if (htc_farm_encode(&scope, &value, fr->pool, &items[0].value, &items[0].value_len) !=
        APR_SUCCESS)
        return true;
    items[0].expire = HTC_FARM_CLAIM_LIFE;
    htc_farm_run(fr, items, lease ? 3 : 2);
    if (lease)
        lease->valid = htc_farm_got(fr, &scope, &items[2], &lease->value);
    if (items[0].result == HTC_MC_EXISTS && htc_farm_got(fr, &scope, &items[1], &value))
        return false;
    if (items[0].result == HTC_MC_DONE) {
        htc_farm_count(fr->farm, HTC_FC_claims_won, 1);
        claim = apr_array_push(fr->claims);
        claim->done = false;
        claim->path = apr_pstrdup(fr->pool, path);
        claim->item = item_of(fr, r, HTC_FARM_CLAIM, path, HTC_MC_DELETE);
    }
    return true;
}

/* Another server looks at the disk. May this one go on with a record that was checked at
 * *checked_at? Not for long: whoever has the claim may never tell what he found, and the next one
 * neither. The end of it is set once, when the first request goes on, and holds until the path was
 * looked at. The record's own time says nothing any more from then on, as each that goes on, or
 * claims the look, moves it. An entry that has ended is given to another path only when no such
 * time of its path can be taken for young any more. Where there is no room, the disk is asked. */
static bool may_wait(htc_context *ctx, const char *path, apr_int64_t ttl, apr_int64_t *checked_at)
{
    uint64_t hash;
    htc_farm_waiting *entry = waiting_of(ctx, path, &hash);
    uint64_t other = atomic_load(&entry->path);
    apr_int64_t now = htc_mono_ms(), until = atomic_load(&entry->until);

    if (other != hash) {
        if (other && now < until + HTC_FARM_WAIT_MOST_MS + HTC_FARM_WAIT_MS)
            return false;
        until = *checked_at + ttl + HTC_FARM_WAIT_MOST_MS;
        atomic_store(&entry->until, until);
        atomic_store(&entry->path, hash);
    }
    if (now >= until)
        return false;
    *checked_at = now - ttl + HTC_FARM_WAIT_MS;
    return true;
}

/* True when another server still has the claim. Asks for the lease, too, behind that: see
 * take_claim(). */
static bool others_look(htc_farm_request *fr, request_rec *r, htc_farm_lease *lease)
{
    const htc_farm_scope scope = scope_of(fr, r, lease->path);
    htc_mc_item items[2] = {item_of(fr, r, HTC_FARM_CLAIM, lease->path, HTC_MC_GET),
                            item_of(fr, r, HTC_FARM_LEASE, lease->path, HTC_MC_GET)};
    htc_farm_value claim;

    htc_farm_run(fr, items, 2);
    lease->valid = htc_farm_got(fr, &scope, &items[1], &lease->value);
    return htc_farm_got(fr, &scope, &items[0], &claim);
}

/* Another server looks, and what this one has is too old to go on with: wait for what that one
 * tells, or until the claim is free again. For half of the request's time at most: the rest is for
 * its other levels, and for telling. Nobody waits with a claim in hand, so that no two wait for
 * each other. True: the lease is young now. */
static bool await_look(htc_farm_request *fr, request_rec *r, htc_farm_lease *lease, apr_int64_t ttl,
                       apr_int64_t *checked_at)
{
    const int64_t rest = fr->farm->timeout_us / 2;
    int64_t pause = PAUSE_FIRST_US;

    send_told(fr);
    if (fr->claims->nelts || fr->budget_us <= rest)
        return false;
    htc_farm_count(fr->farm, HTC_FC_claims_awaited, 1);
    while (fr->budget_us > rest) {
        bool busy;

        htc_farm_pause(fr, pause < fr->budget_us - rest ? pause : fr->budget_us - rest);
        if (fr->budget_us <= 0)
            break;
        busy = others_look(fr, r, lease) || !take_claim(fr, r, lease->path, lease);
        if (!busy || fresh(lease, ttl, checked_at))
            break;
        pause = pause < PAUSE_MOST_US / 2 ? pause * 2 : PAUSE_MOST_US;
    }
    return fresh(lease, ttl, checked_at);
}

/* The lease is not young enough. HTC_FARM_SAME: it is now, as another server has looked. What
 * *checked_at is of may be gone on with; HTC_NEVER_CHECKED: there is no record. */
static htc_farm_word who_looks(htc_context *ctx, htc_farm_request *fr, request_rec *r,
                               const char *path, htc_farm_lease *lease, apr_int64_t ttl,
                               apr_int64_t *checked_at)
{
    bool ours = fr->budget_us <= 0 || take_claim(fr, r, path, lease);

    if (fresh(lease, ttl, checked_at)) {
        claim_done(fr, path);
        return HTC_FARM_SAME;
    }
    if (ours)
        return HTC_FARM_OWN;
    if (*checked_at != HTC_NEVER_CHECKED && may_wait(ctx, path, ttl, checked_at)) {
        htc_farm_count(fr->farm, HTC_FC_claims_lost, 1);
        return HTC_FARM_WAIT;
    }
    if (!lease || !await_look(fr, r, lease, ttl, checked_at))
        return HTC_FARM_OWN;
    claim_done(fr, path);
    return HTC_FARM_SAME;
}

/* --- what htaccess/hook.c calls -----------------------------------------------------------------
 */

/* True when the lease agrees with the record. */
static bool agrees(const htc_farm_value *lease, const htc_dep *dep)
{
    htc_identity id = dep->id;

    if (lease->kind == HTC_KIND_ABSENT || dep->kind == HTC_KIND_ABSENT)
        return lease->kind == dep->kind;
    id.dev = 0;
    return htc_identity_equal(&lease->id, &id);
}

/* The answer of a lease that is young enough. */
static htc_farm_word word_of(htc_farm_request *fr, const htc_farm_lease *lease, const htc_dep *dep)
{
    if (!agrees(&lease->value, dep)) {
        htc_farm_count(fr->farm, HTC_FC_changes_learned, 1);
        return HTC_FARM_CHANGED;
    }
    if (lease->value.flags & HTC_RF_RACY)
        return HTC_FARM_OWN;
    htc_farm_count(fr->farm, HTC_FC_leases_used, 1);
    return HTC_FARM_SAME;
}

htc_farm_word htc_farm_recheck(htc_context *ctx, request_rec *r, const htc_dep *dep,
                               apr_int64_t ttl, apr_int64_t *checked_at)
{
    htc_farm_request *fr = farm_request(ctx, r);
    htc_farm_lease *lease;
    htc_farm_word word = HTC_FARM_SAME;

    if (!fr || ttl <= 0)
        return HTC_FARM_OWN;
    lease = ask(ctx, fr, r, dep->path, ttl);
    if (!fresh(lease, ttl, checked_at))
        word = who_looks(ctx, fr, r, dep->path, lease, ttl, checked_at);
    if (word == HTC_FARM_SAME)
        wait_ends(ctx, dep->path);
    return word == HTC_FARM_SAME ? word_of(fr, lease, dep) : word;
}

void htc_farm_confirm(htc_context *ctx, request_rec *r, const htc_dep *dep, apr_int64_t ttl,
                      apr_int64_t now)
{
    htc_farm_request *fr = farm_request(ctx, r);

    wait_ends(ctx, dep->path);
    if (fr && ttl > 0)
        tell_lease(fr, r, dep->path, dep->kind, &dep->id, 0, now, ttl);
}

static bool fetch_record(htc_farm_request *fr, request_rec *r, const htc_farm_lease *lease,
                         htc_put *put)
{
    const htc_farm_scope scope = scope_of(fr, r, put->key);
    htc_mc_item item = item_of(fr, r, HTC_FARM_RECORD, put->key, HTC_MC_GET);
    htc_farm_value record;

    htc_farm_run(fr, &item, 1);
    if (!htc_farm_got(fr, &scope, &item, &record) ||
        !htc_identity_equal(&record.id, &lease->value.id))
        return false;
    put->flags = record.flags;
    put->id = apr_pmemdup(fr->pool, &record.id, sizeof(record.id));
    put->payload = record.body;
    put->payload_len = record.body_len;
    htc_farm_count(fr->farm, HTC_FC_records_used, 1);
    return true;
}

bool htc_farm_fetch(htc_context *ctx, request_rec *r, apr_int64_t ttl, htc_put *put)
{
    htc_farm_request *fr = ttl > 0 ? farm_request(ctx, r) : NULL;
    htc_farm_lease *lease;
    apr_int64_t checked_at = HTC_NEVER_CHECKED;

    if (!fr)
        return false;
    lease = ask(ctx, fr, r, put->key, ttl);
    if (!fresh(lease, ttl, &checked_at) &&
        who_looks(ctx, fr, r, put->key, lease, ttl, &checked_at) != HTC_FARM_SAME)
        return false;
    if (lease->value.flags & HTC_RF_RACY)
        return false;
    put->kind = lease->value.kind;
    put->checked_at = checked_at;
    if (put->kind != HTC_KIND_ABSENT && !fetch_record(fr, r, lease, put))
        return false;
    htc_farm_count(fr->farm, HTC_FC_leases_used, 1);
    return true;
}

/* The settings for the directory that a .htaccess file lies in. */
static apr_int64_t ttl_of(const request_rec *r, const char *path)
{
    const htc_server_conf *sc = htc_server_conf_of(r->server);
    const htc_request *rq = ap_get_module_config(r->request_config, &htcache_module);
    const char *slash = strrchr(path, '/');
    apr_int64_t ttl;

    if (!slash)
        return 0;
    ttl = htc_scope_of(sc, apr_pstrmemdup(r->pool, path, (apr_size_t)(slash - path) + 1),
                       rq ? rq->location : NULL)
              .revalidate_ms;
    return ttl == HTC_REVALIDATE_AUTO ? HTC_ASK_MS : ttl;
}

/* May the parsed tree be used by others? */
static bool shareable(htc_farm *farm, const htc_put *put, bool local)
{
    if (put->kind == HTC_KIND_STOCK)
        htc_farm_count(farm, HTC_FC_local_stock, 1);
    else if (put->flags & HTC_RF_REPLAY)
        htc_farm_count(farm, HTC_FC_local_replay, 1);
    else if (local)
        htc_farm_count(farm, HTC_FC_local_environment, 1);
    else
        return put->kind == HTC_KIND_TREE && !(put->flags & HTC_RF_RACY);
    return false;
}

void htc_farm_publish(htc_context *ctx, request_rec *r, const htc_put *put, bool local)
{
    htc_farm_request *fr = farm_request(ctx, r);
    apr_int64_t ttl = fr ? ttl_of(r, put->key) : 0, at = htc_request_get(r)->asked_at;

    if (ctx->farm)
        wait_ends(ctx, put->key);
    if (ttl <= 0 || !at)
        return;
    if (shareable(fr->farm, put, local)) {
        htc_farm_value record = {.type = HTC_FARM_RECORD,
                                 .kind = put->kind,
                                 .flags = put->flags,
                                 .id = *put->id,
                                 .body = put->payload,
                                 .body_len = put->payload_len};

        tell(fr, r, put->key, &record, at, HTC_FARM_RECORD_LIFE);
    }
    tell_lease(fr, r, put->key, put->kind, put->id, put->flags, at, ttl);
}
