/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file store_util.h
 * Shared by the store's test programs: records whose every byte follows from a number, and a check
 * of everything that must hold in a segment at rest.
 */
#ifndef STORE_UTIL_H
#define STORE_UTIL_H

#include "cache/store_internal.h"

/* A record for key number `number`. Two records of one key differ by `round` and length. */
typedef struct su_spec {
    uint32_t number, round;
    size_t len;
    htc_kind kind;
    uint64_t owner;
    unsigned share;
} su_spec;

/* Start APR, and give a pool for the test; ends with the process. */
apr_pool_t *su_pool(void);

/* A store that must be creatable. */
htc_store *su_create(apr_pool_t *pool, uint64_t bytes);

/* The key of a number, in a static buffer per thread; lengths differ. */
const char *su_key(uint32_t number);
uint64_t su_hash(const htc_store *store, uint32_t number);

/* The identity of a record; su_reidentified() marks one that was given by reidentify. */
htc_identity su_identity(uint32_t number, bool reidentified);

apr_status_t su_put(htc_store *store, const su_spec *spec, htc_ref *ref);

typedef enum su_found {
    SU_NONE,   /* not found, or gone meanwhile */
    SU_RIGHT,  /* found, and every byte is as it was put */
    SU_FAILED, /* found, and the copy said that it is damaged */
    SU_WRONG   /* some byte is not what was put: must never happen */
} su_found;

/* Find and copy the record of a number and compare everything. The pool is cleared. */
su_found su_get(htc_store *store, uint32_t number, apr_pool_t *pool, htc_info *info);

/* NULL when slots, chains, free list, owner lists and totals agree; else what is wrong. Nobody may
 * write meanwhile. */
const char *su_inconsistent(const htc_store *store);

/* A small generator, for tests that can be repeated. */
uint32_t su_random(uint64_t *state);

#endif
