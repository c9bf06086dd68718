/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Values of the farm tier as bytes, see farm/farm.h.
 *
 *   MAC (32) | header | path | body
 *
 * Integers are in the byte order of the machine; another one has the wrong magic. Called by the
 * farm glue for whatever it sends to memcached and gets from there.
 */
#include "farm/farm.h"
#include "cache/cache.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apr_random.h>

#define MAGIC   UINT32_C(0x48744366) /* "HtCf" */
#define VERSION 2
#define MAC_LEN 32
/* Bytes that memcached adds to a value in an item. */
#define ITEM_OVERHEAD 256

typedef struct header {
    uint32_t magic, version;
    uint32_t type, kind, flags;
    uint32_t path_len;
    uint64_t body_len;
    int64_t stamp, expires;
    unsigned char fingerprint[HTC_FARM_FINGERPRINT];
    htc_identity id;
} header;

static_assert(sizeof(header) == 24 + 24 + HTC_FARM_FINGERPRINT + sizeof(htc_identity),
              "no padding");

/* --- SHA-256 ------------------------------------------------------------------------------------
 *
 * APR's: OpenSSL's library would be mapped in all processes of servers without a farm, too, and
 * each new child would have to copy its mappings. */

#define SHA_LEN   32
#define SHA_BLOCK 64

static_assert(MAC_LEN == SHA_LEN, "HMAC-SHA256");
static_assert(HTC_FARM_KEY_MAX >= SHA_BLOCK, "keys may have to be hashed");

/* In a pool of its own, which is destroyed with it. False: there is no memory. */
static bool sha_begin(apr_crypto_hash_t **sha, apr_pool_t **pool)
{
    if (apr_pool_create(pool, NULL) != APR_SUCCESS)
        return false;
    *sha = apr_crypto_sha256_new(*pool);
    return true;
}

static void sha_two(apr_crypto_hash_t *sha, const void *first, size_t first_len, const void *second,
                    size_t second_len, unsigned char digest[SHA_LEN])
{
    sha->init(sha);
    sha->add(sha, first, first_len);
    sha->add(sha, second, second_len);
    sha->finish(sha, digest);
}

static void sha256(const void *bytes, size_t len, unsigned char digest[SHA_LEN])
{
    apr_crypto_hash_t *sha;
    apr_pool_t *pool;

    if (!sha_begin(&sha, &pool))
        abort(); /* as httpd does: a digest that is not one could be another's, too */
    sha_two(sha, bytes, len, "", 0, digest);
    apr_pool_destroy(pool);
}

/* RFC 2104. */
bool htc_farm_hmac(const htc_farm_key *key, const void *bytes, size_t len,
                   unsigned char mac[SHA_LEN])
{
    unsigned char block[SHA_BLOCK] = {0};
    apr_crypto_hash_t *sha;
    apr_pool_t *pool;

    if (!sha_begin(&sha, &pool))
        return false;
    if (key->len > SHA_BLOCK)
        sha_two(sha, key->bytes, key->len, "", 0, block);
    else
        memcpy(block, key->bytes, key->len);
    for (int i = 0; i < SHA_BLOCK; i++)
        block[i] ^= 0x36;
    sha_two(sha, block, SHA_BLOCK, bytes, len, mac);
    for (int i = 0; i < SHA_BLOCK; i++)
        block[i] ^= 0x36 ^ 0x5c;
    sha_two(sha, block, SHA_BLOCK, mac, SHA_LEN, mac);
    apr_pool_destroy(pool);
    return true;
}

/* Takes as long wherever they differ. */
static bool same_mac(const unsigned char *a, const unsigned char *b)
{
    unsigned char differs = 0;

    for (int i = 0; i < MAC_LEN; i++)
        differs |= a[i] ^ b[i];
    return !differs;
}

/* --- keys and names -----------------------------------------------------------------------------
 */

static const char *add_key(htc_farm_keys *keys, const char *line, size_t len)
{
    while (len && (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t'))
        len--;
    if (!len || *line == '#')
        return NULL;
    if (keys->n == HTC_FARM_KEYS)
        return "it has more than two keys";
    if (len < HTC_FARM_KEY_MIN)
        return "a key is shorter than 32 characters";
    if (len > HTC_FARM_KEY_MAX)
        return "a key is longer than 256 characters";
    memcpy(keys->key[keys->n].bytes, line, len);
    keys->key[keys->n++].len = len;
    return NULL;
}

const char *htc_farm_keys_read(htc_farm_keys *keys, const char *text, size_t len)
{
    const char *end = text + len, *wrong = NULL;

    memset(keys, 0, sizeof(*keys));
    while (text < end && !wrong) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;

        wrong = add_key(keys, text, (size_t)(stop - text));
        text = stop + 1;
    }
    if (!wrong && !keys->n)
        wrong = "it has no key";
    return wrong;
}

void htc_farm_digest(unsigned char fingerprint[HTC_FARM_FINGERPRINT], const void *bytes, size_t len)
{
    sha256(bytes, len, fingerprint);
}

void htc_farm_name(char name[HTC_MC_KEY + 1], htc_farm_type type,
                   const unsigned char fingerprint[HTC_FARM_FINGERPRINT], const char *path)
{
    unsigned char bytes[HTC_FARM_FINGERPRINT + SHA_LEN], digest[SHA_LEN];

    memcpy(bytes, fingerprint, HTC_FARM_FINGERPRINT);
    sha256(path, strlen(path), bytes + HTC_FARM_FINGERPRINT);
    sha256(bytes, sizeof(bytes), digest);
    name[0] = (char)type;
    for (unsigned i = 0; i < (HTC_MC_KEY - 1) / 2; i++)
        snprintf(name + 1 + (size_t)2 * i, 3, "%02x", digest[i]);
}

/* --- signing ------------------------------------------------------------------------------------
 */

static bool signed_by_us(const htc_farm_keys *keys, const char *bytes, size_t len)
{
    unsigned char mac[MAC_LEN];

    for (unsigned i = 0; i < keys->n; i++) {
        if (htc_farm_hmac(&keys->key[i], bytes + MAC_LEN, len - MAC_LEN, mac) &&
            same_mac(mac, (const unsigned char *)bytes))
            return true;
    }
    return false;
}

apr_status_t htc_farm_encode(const htc_farm_scope *scope, const htc_farm_value *value,
                             apr_pool_t *pool, const void **bytes, size_t *len)
{
    size_t path_len = strlen(scope->path);
    size_t total = MAC_LEN + sizeof(header) + path_len + value->body_len;
    unsigned char mac[MAC_LEN];
    header head;
    char *out;

    if (value->body_len > HTC_MC_MAX_VALUE || total > HTC_MC_MAX_VALUE - ITEM_OVERHEAD)
        return APR_ENOSPC;
    memset(&head, 0, sizeof(head));
    head.magic = MAGIC;
    head.version = VERSION;
    head.type = value->type;
    head.kind = value->kind;
    head.flags = value->flags;
    head.path_len = (uint32_t)path_len;
    head.body_len = value->body_len;
    head.stamp = value->stamp;
    head.expires = value->expires;
    memcpy(head.fingerprint, scope->fingerprint, HTC_FARM_FINGERPRINT);
    head.id = value->id;
    head.id.dev = 0;
    out = apr_palloc(pool, total);
    memcpy(out + MAC_LEN, &head, sizeof(head));
    memcpy(out + MAC_LEN + sizeof(head), scope->path, path_len);
    if (value->body_len)
        memcpy(out + MAC_LEN + sizeof(head) + path_len, value->body, value->body_len);
    if (!htc_farm_hmac(&scope->keys->key[0], out + MAC_LEN, total - MAC_LEN, mac))
        return APR_EGENERAL;
    memcpy(out, mac, MAC_LEN);
    *bytes = out;
    *len = total;
    return APR_SUCCESS;
}

/* --- proof --------------------------------------------------------------------------------------
 */

/* The writer has the key. True when it also wrote what the module writes. */
static bool well_formed(const htc_farm_value *value)
{
    const uint32_t kept = HTC_RF_EMPTY | HTC_RF_EXEC_ON_READ | HTC_RF_REDIRECTS;

    switch (value->type) {
    case HTC_FARM_RECORD:
        return value->kind == HTC_KIND_TREE && !(value->flags & ~kept) &&
               htc_record_validate(value->body, value->body_len) == APR_SUCCESS &&
               (htc_record_count(value->body) == 0) == ((value->flags & HTC_RF_EMPTY) != 0);
    case HTC_FARM_LEASE:
        return (value->kind == HTC_KIND_ABSENT || value->kind == HTC_KIND_TREE) &&
               !(value->flags & ~HTC_RF_RACY) && !value->body_len;
    default:
        return value->kind == HTC_KIND_NONE && !value->flags && !value->body_len;
    }
}

int htc_farm_decode(const htc_farm_scope *scope, htc_farm_type type, int64_t now,
                    const void *bytes_, size_t len, htc_farm_value *value)
{
    const char *bytes = bytes_;
    header head;

    memset(value, 0, sizeof(*value));
    if (len < MAC_LEN + sizeof(head))
        return HTC_FC_drop_truncated;
    memcpy(&head, bytes + MAC_LEN, sizeof(head));
    if (head.magic != MAGIC || head.version != VERSION)
        return HTC_FC_drop_version;
    if (head.body_len > len || MAC_LEN + sizeof(head) + head.path_len + head.body_len != len)
        return HTC_FC_drop_truncated;
    if (!signed_by_us(scope->keys, bytes, len))
        return HTC_FC_drop_forged;
    if (memcmp(head.fingerprint, scope->fingerprint, HTC_FARM_FINGERPRINT) != 0)
        return HTC_FC_drop_fingerprint;
    bytes += MAC_LEN + sizeof(head);
    if (head.type != (uint32_t)type || head.path_len != strlen(scope->path) ||
        memcmp(bytes, scope->path, head.path_len) != 0)
        return HTC_FC_drop_swapped;
    *value = (htc_farm_value){
        type,         (htc_kind)head.kind,   head.flags,           head.id, head.stamp,
        head.expires, bytes + head.path_len, (size_t)head.body_len};
    if (!well_formed(value))
        return HTC_FC_drop_invalid;
    if (value->stamp > now + HTC_FARM_AGREE_MS)
        return HTC_FC_drop_future;
    return value->expires <= now ? HTC_FC_drop_replayed : -1;
}
