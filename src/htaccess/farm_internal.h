/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htaccess/farm_internal.h
 * What the farm*.c files of this folder share; only where the farm tier is built.
 */
#ifndef HTC_HTACCESS_FARM_INTERNAL_H
#define HTC_HTACCESS_FARM_INTERNAL_H

#include "farm/farm.h"
#include "htaccess/farm.h"
#include "htaccess/internal.h"

#define HTC_FARM_DEFAULT_TIMEOUT_US (20 * 1000)
/** Seconds that memcached keeps a record. */
#define HTC_FARM_RECORD_LIFE 86400
/** Seconds that a claim lasts. */
#define HTC_FARM_CLAIM_LIFE 2
/** What htc_mono_ms() may be behind. */
#define HTC_FARM_COARSE_MS 10

/** A record that this server goes on using while another one looks at the disk. */
typedef struct htc_farm_waiting {
    _Atomic uint64_t path; /* seeded hash; 0: none */
    _Atomic int64_t until; /* htc_mono_ms() until which the record may be used */
} htc_farm_waiting;

#define HTC_FARM_WAITING 1024

/** In memory shared by all processes. */
typedef struct htc_farm_shared {
    htc_mc_server servers[HTC_MC_MAX_SERVERS];
    _Atomic uint64_t counters[HTC_FARM_COUNTER_COUNT];
    _Atomic uint64_t told;       /* a bit for each counter that was already logged */
    _Atomic uint64_t longest_us; /* the longest time that one request spent here in all */
    htc_census connections;      /* open, of each process */
    htc_farm_waiting waiting[HTC_FARM_WAITING];
} htc_farm_shared;

struct htc_farm_options {
    apr_array_header_t *servers; /* const char *: as written */
    const char *key_file;
    apr_interval_time_t timeout;
};

struct htc_farm {
    server_rec *server; /* for the log */
    unsigned n;
    const char *const *names;
    htc_mc_address *addresses;
    void *ring; /* memcached_st: which server has a name */
    htc_farm_keys keys;
    unsigned char fingerprint[HTC_FARM_FINGERPRINT]; /* of what all virtual hosts have in common */
    int64_t timeout_us;
    htc_farm_shared *shared;
    htc_mc *mc; /* per process; NULL until child_init */
};

/** A lease that was asked for. */
typedef struct htc_farm_lease {
    const char *path;
    unsigned server;
    char name[HTC_MC_KEY + 1];
    bool valid; /* value is one that could be used when it came */
    htc_farm_value value;
} htc_farm_lease;

/** Of a top-level request; in its pool, as all that it points at. */
typedef struct htc_farm_request {
    htc_farm *farm;
    apr_pool_t *pool;
    int64_t budget_us;
    bool spent;                 /* counted already */
    apr_array_header_t *leases; /* htc_farm_lease */
    apr_array_header_t *out;    /* htc_mc_item: to be sent */
    apr_array_header_t *claims; /* htc_farm_claim: claims held */
} htc_farm_request;

typedef struct htc_farm_claim {
    const char *path;
    bool done;        /* what was found is told, or need not be */
    htc_mc_item item; /* deletes the claim */
} htc_farm_claim;

/* htaccess/farm_conf.c */
unsigned htc_farm_server_of(const htc_farm *farm, const char *name);

/* htaccess/farm_io.c */
void htc_farm_count(htc_farm *farm, enum htc_farm_counter counter, uint64_t n);
/** Make the exchange within the request's budget. Results are in the items. */
void htc_farm_run(htc_farm_request *fr, htc_mc_item *items, unsigned n);
/** Let @a us pass within the request's budget. */
void htc_farm_pause(htc_farm_request *fr, int64_t us);
/** Now, in ms since 1970, by the clock that all servers of the farm share. */
int64_t htc_farm_now(void);
/** Decode what an item got; counts and logs what is dropped. */
bool htc_farm_got(htc_farm_request *fr, const htc_farm_scope *scope, const htc_mc_item *item,
                  htc_farm_value *value);

#endif
