/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * From what a request found out to a record that all processes share. Called by htaccess/hook.c and
 * htaccess/apply.c.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

/* A path deeper than that is stored in parts. */
#define PENDING_MAX 16

/* Results of a request that are not published yet. */
struct htc_pending {
    size_t n, misses;
    htc_put puts[PENDING_MAX];
};

/* By the time at which it was read: whoever publishes it may have been held up since. */
uint32_t htc_racy_flag(const htc_text *text)
{
    return htc_identity_racy(&text->id, text->read_at) ? HTC_RF_RACY : 0;
}

unsigned htc_share_of(const request_rec *r)
{
    int percent = htc_server_conf_of(r->server)->share_percent;
    return percent == -1 ? HTC_DEFAULT_SHARE_PERCENT : (unsigned)percent;
}

/* Fill in whose the n records are. */
static void set_owner(htc_context *ctx, request_rec *r, htc_put *puts, size_t n)
{
    const char *root = ap_document_root(r);
    uint64_t owner = htc_store_hash(ctx->store, root, strlen(root));
    unsigned share = htc_share_of(r);

    for (size_t i = 0; i < n; i++) {
        puts[i].owner = owner;
        puts[i].share_percent = share;
    }
}

apr_status_t htc_publish(htc_context *ctx, request_rec *r, htc_put *put, htc_ref *ref)
{
    put->hash = htc_store_hash(ctx->store, put->key, put->key_len);
    set_owner(ctx, r, put, 1);
    return htc_store_put(ctx->store, put, ref);
}

/* Cheap results come in numbers, one for each directory of a new path. These records are stored
 * under one hold of the lock, when httpd's walk is over. */
void htc_publish_pending(htc_context *ctx, request_rec *r, htc_request *rq)
{
    struct htc_pending *pending = rq->pending;
    htc_ref refs[PENDING_MAX];

    if (!pending || !pending->n)
        return;
    htc_count(ctx->store, HTC_C_misses, pending->misses);
    set_owner(ctx, r, pending->puts, pending->n);
    htc_store_put_all(ctx->store, pending->puts, pending->n, refs);
    pending->n = pending->misses = 0;
}

/* A request whose walk ends in an error. */
static apr_status_t publish_at_end(void *data)
{
    request_rec *r = data;

    htc_publish_pending(htc_server_conf_of(r->server)->ctx, r, htc_request_get(r));
    return APR_SUCCESS;
}

/* Room for a record to be stored with others. The look-up counts as a miss. */
htc_put *htc_publish_later(htc_context *ctx, request_rec *r, htc_request *rq)
{
    struct htc_pending *pending = rq->pending;

    rq->outcomes |= 1U << HTC_C_absent_hits;
    if (!pending) {
        pending = rq->pending = apr_palloc(r->pool, sizeof(*pending));
        pending->n = pending->misses = 0;
        apr_pool_cleanup_register(r->pool, r, publish_at_end, apr_pool_cleanup_null);
    }
    if (pending->n == PENDING_MAX)
        htc_publish_pending(ctx, r, rq);
    pending->misses++;
    return &pending->puts[pending->n++];
}

/* Behind the ends of lines that httpd joins with the next. */
static const char *joined(const char *at)
{
    while (at[0] == '\\' && (at[1] == '\n' || (at[1] == '\r' && at[2] == '\n')))
        at += at[1] == '\n' ? 2 : 3;
    return at;
}

/* The word may go over several lines. */
static bool has_redirect(const char *text)
{
    while ((text = strpbrk(text, "rR"))) {
        const char *at = text++, *want = "redirect";

        while (*want && apr_tolower(*at) == *want) {
            at = joined(at + 1);
            want++;
        }
        if (!*want)
            return true;
    }
    return false;
}

/* Lines of mod_alias's that stay with it would be tried behind folded ones of directories above.
 * A file that was not read may have some, and so may one with a NUL byte or a computed word. */
uint32_t htc_redirects_flag(const htc_text *text)
{
    return !text->bytes || strlen(text->bytes) != text->len || htc_text_computed(text) ||
                   has_redirect(text->bytes)
               ? HTC_RF_REDIRECTS
               : 0;
}

static void publish_stock(htc_context *ctx, request_rec *r, const char *path, const htc_text *text,
                          uint32_t flags, const char *reason)
{
    htc_ref ref;
    htc_put put = {.key = path,
                   .key_len = strlen(path),
                   .kind = HTC_KIND_STOCK,
                   .flags = flags | htc_redirects_flag(text),
                   .id = &text->id,
                   .payload = reason,
                   .payload_len = strlen(reason) + 1,
                   .checked_at = text->checked_at};

    htc_publish(ctx, r, &put, &ref);
    htc_farm_publish(ctx, r, &put, true);
}

void htc_publish_stock(htc_context *ctx, request_rec *r, const char *path, const htc_text *text,
                       const char *reason)
{
    publish_stock(ctx, r, path, text, 0, reason);
}

void htc_publish_too_large(htc_context *ctx, request_rec *r, const char *path, const htc_text *text)
{
    htc_count(ctx->store, HTC_C_too_large, 1);
    ap_log_rerror(APLOG_MARK, APLOG_WARNING, 0, r,
                  "HtCache: %s (%" APR_UINT64_T_FMT " bytes) does not fit in its share of the "
                  "cache and is left to httpd; raise HtCacheMemory or HtCacheDocumentRootShare",
                  path, (apr_uint64_t)text->id.size);
    publish_stock(ctx, r, path, text, HTC_RF_TOO_LARGE(htc_share_of(r)),
                  "larger than its share of the cache");
}
