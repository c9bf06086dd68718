/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file farm/farm.h
 * What servers of a farm tell each other through memcached, as bytes: encoding, signing, and the
 * proof on the way back. There are three types of value:
 *
 *   record   the parsed directive tree of one file (cache/record.h), and the identity it was read
 *            with
 *   lease    what a stat of one path gave, absent or an identity, and when
 *   claim    "I am about to stat this path", for a second or two
 *
 * Each begins with an HMAC-SHA256 over all the rest: version, type, fingerprint of the
 * configuration, path, identity, times and body. (HMAC: RFC 2104.)
 * htc_farm_decode() believes nothing before the MAC was found right. Then it believes only what was
 * written for this path, this configuration and this time. A record's body must pass
 * htc_record_validate(), too.
 *
 * Times are in milliseconds since 1970, by the clock of the server that wrote them, and signed. So
 * a program without the key cannot make a value younger: not by keeping it, delaying it, repeating
 * it, or by what memcached says of its age. The servers' clocks must agree instead; a value from
 * the future by more than HTC_FARM_AGREE_MS shows that they do not. A record is used only together
 * with a lease that names the same identity, and a lease is worth nothing once it is older than the
 * reader's interval.
 *
 * Items are named by a letter and 32 hexadecimal digits of SHA-256 over fingerprint and path: no
 * path can inject a command.
 */
#ifndef HTC_FARM_FARM_H
#define HTC_FARM_FARM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "base/base.h"
#include "farm/breaker.h"
#include "farm/census.h"
#include "farm/memcached.h"
#include "cache/cache.h"

/* X(name, help): what the tier counts, for the status page and its JSON under "memcached". */
#define HTC_FARM_COUNTERS(X)                                                                   \
    X(gets, "items asked for")                                                                 \
    X(hits, "items that memcached had")                                                        \
    X(sets, "items stored")                                                                    \
    X(refused, "items that memcached did not take")                                            \
    X(unanswered, "items not answered: time up, server failed, or not asked")                  \
    X(leases_used, "looks at the disk saved, because another server had looked")               \
    X(records_used, "reads and parses saved, because another server had parsed the file")      \
    X(changes_learned, "changes learned from another server")                                  \
    X(claims_won, "times this server looked at the disk for all")                              \
    X(claims_lost, "times it went on with its record while another server looked")             \
    X(claims_awaited, "times a request waited for what another server found")                  \
    X(budget_spent, "requests that had no more time for memcached")                            \
    X(local_large, "records larger than memcached takes, kept local")                          \
    X(local_replay, "records of files that are run for each request, kept local")              \
    X(local_stock, "records of files left to httpd, kept local")                               \
    X(local_environment, "records of files that use ${...}, kept local")                       \
    X(drop_truncated, "values dropped: shorter or longer than they say")                       \
    X(drop_version, "values dropped: of another version of this module or another byte order") \
    X(drop_forged, "values dropped: not signed with a key of this farm")                       \
    X(drop_swapped, "values dropped: of another path or type")                                 \
    X(drop_fingerprint, "values dropped: of another configuration")                            \
    X(drop_future, "values dropped: from the future; the clocks of two servers disagree")      \
    X(drop_replayed, "values dropped: kept for longer than they are valid")                    \
    X(drop_invalid, "values dropped: rightly signed, but not well formed")

enum htc_farm_counter {
#define X(name, help) HTC_FC_##name,
    HTC_FARM_COUNTERS(X)
#undef X
        HTC_FARM_COUNTER_COUNT
};

#define HTC_FARM_FINGERPRINT 32 /* bytes of a fingerprint */
#define HTC_FARM_KEYS        2
#define HTC_FARM_KEY_MIN     32 /* characters of a line in the key file */
#define HTC_FARM_KEY_MAX     256

/** Milliseconds by which clocks of servers may differ, so that a value may come from the future. It
 * counts as made just now. */
#define HTC_FARM_AGREE_MS 50

typedef struct htc_farm_key {
    size_t len;
    char bytes[HTC_FARM_KEY_MAX];
} htc_farm_key;

/** Keys as read; the first signs, all are accepted. */
typedef struct htc_farm_keys {
    unsigned n;
    htc_farm_key key[HTC_FARM_KEYS];
} htc_farm_keys;

/**
 * Read the text of a key file: one key per line, at most HTC_FARM_KEYS; empty lines and lines that
 * begin with # do not count.
 * @return NULL, or what is wrong with it.
 */
const char *htc_farm_keys_read(htc_farm_keys *keys, const char *text, size_t len);

typedef enum htc_farm_type {
    HTC_FARM_RECORD = 'r',
    HTC_FARM_LEASE = 'l',
    HTC_FARM_CLAIM = 'o'
} htc_farm_type;

/** Name of an item: the type's letter, then what is the same for all types of one path. */
void htc_farm_name(char name[HTC_MC_KEY + 1], htc_farm_type type,
                   const unsigned char fingerprint[HTC_FARM_FINGERPRINT], const char *path);

/** SHA-256 of bytes, for fingerprints. */
void htc_farm_digest(unsigned char fingerprint[HTC_FARM_FINGERPRINT], const void *bytes,
                     size_t len);

/** HMAC-SHA256. For tests. @return false: there is no memory. */
bool htc_farm_hmac(const htc_farm_key *key, const void *bytes, size_t len, unsigned char mac[32]);

/** Whom a value is for. */
typedef struct htc_farm_scope {
    const htc_farm_keys *keys;
    const unsigned char *fingerprint; /* HTC_FARM_FINGERPRINT bytes */
    const char *path;
} htc_farm_scope;

typedef struct htc_farm_value {
    htc_farm_type type;
    htc_kind kind;   /* HTC_KIND_ABSENT; HTC_KIND_TREE: there is a file */
    uint32_t flags;  /* HTC_RF_* */
    htc_identity id; /* without dev, which is another one on each machine */
    int64_t stamp;   /* ms since 1970: when it was true, or a little earlier */
    int64_t expires; /* ms since 1970: not to be used from then on */
    const void *body;
    size_t body_len;
} htc_farm_value;

/** Sign and encode, in @a pool. APR_ENOSPC when it is larger than HTC_MC_MAX_VALUE less what
 *  memcached needs itself; APR_EGENERAL when there is no memory. */
apr_status_t htc_farm_encode(const htc_farm_scope *scope, const htc_farm_value *value,
                             apr_pool_t *pool, const void **bytes, size_t *len);

/**
 * Prove and decode a value at the time @a now, in ms since 1970. value->body points into the bytes.
 * @return -1 when all is well; else the counter of why it is to be dropped.
 */
int htc_farm_decode(const htc_farm_scope *scope, htc_farm_type type, int64_t now, const void *bytes,
                    size_t len, htc_farm_value *value);

#endif
