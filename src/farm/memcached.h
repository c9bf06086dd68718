/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file farm/memcached.h
 * A client for memcached's text protocol that keeps one promise libraries do not: htc_mc_run()
 * returns when its time is up, whatever the servers do. All requests of a call are sent to their
 * servers at once, over one kept connection each, and the answers are read as they come. A server
 * that is silent, slow, gone, or speaks nonsense costs its own requests and the connection, nothing
 * else. Bytes of an answer are checked before they are believed: the answer must be to the request
 * that was made, and no longer than HTC_MC_MAX_VALUE.
 *
 * Used by the farm glue; knows nothing of what is stored. The sockets are reached through a struct
 * of functions, so that unit tests can be the network. Any thread may call htc_mc_run().
 */
#ifndef HTC_FARM_MEMCACHED_H
#define HTC_FARM_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

#include "farm/breaker.h"

#define HTC_MC_MAX_SERVERS 64
#define HTC_MC_KEY         33 /* bytes of a key: letter and 32 hexadecimal digits; without the NUL */
/** memcached's usual item limit is 1 MB with its own header. */
#define HTC_MC_MAX_VALUE (1024 * 1024)
/** Idle connections kept to one server by one process. */
#define HTC_MC_KEEP 16

typedef enum htc_mc_op {
    HTC_MC_GET,
    HTC_MC_SET,
    HTC_MC_ADD,
    HTC_MC_DELETE,
} htc_mc_op;

typedef enum htc_mc_result {
    HTC_MC_NONE,    /* not answered: time up, server failed, or not asked as its breaker is open */
    HTC_MC_HIT,     /* GET: there is a value */
    HTC_MC_MISS,    /* GET, DELETE: there is no such item */
    HTC_MC_DONE,    /* SET, ADD, DELETE: it has been done */
    HTC_MC_EXISTS,  /* ADD: there is such an item already */
    HTC_MC_REFUSED, /* the server says that it cannot: too large, out of memory */
} htc_mc_result;

/** One request and, after htc_mc_run(), its answer. */
typedef struct htc_mc_item {
    htc_mc_op op;
    unsigned server;
    const void *value; /* SET, ADD: what is stored */
    size_t value_len;
    uint32_t expire; /* SET, ADD: seconds it lives; at most 30 days, 0: for ever */

    const char *got; /* HIT: the value, in the call's pool */
    size_t got_len;
    htc_mc_result result;

    char key[HTC_MC_KEY + 1]; /* printable, no blank */
} htc_mc_item;

/* --- answers ---------------------------------------------------------------------------------- */

/** One parsed answer; got points into the bytes given. */
typedef struct htc_mc_answer {
    htc_mc_result result;
    const char *got;
    size_t got_len;
} htc_mc_answer;

/**
 * Parse the answer to one request from the front of @a bytes.
 * @return bytes it takes; 0 when more must come first; -1 when it is no answer to that request.
 */
ptrdiff_t htc_mc_parse(const char *bytes, size_t len, htc_mc_op op, const char *key,
                       htc_mc_answer *answer);

/* --- network ---------------------------------------------------------------------------------- */

/** What to wait for on one connection. */
typedef struct htc_mc_wait {
    int handle;
    bool readable, writable; /* asked for; then what came. An error counts as both */
} htc_mc_wait;

/** The network. Functions return 0 or more, or -errno; none of them blocks but wait(). */
typedef struct htc_mc_io {
    void *baton;
    int64_t (*now_us)(void *baton); /* monotonic */
    /** Begin to connect to a server; returns a handle. */
    int (*open)(void *baton, unsigned server);
    /** Once writable: is it connected? */
    int (*connected)(void *baton, int handle);
    /** Is a kept connection still good: open, and nothing to be read? */
    bool (*idle)(void *baton, int handle);
    /** -EAGAIN when it would block; recv returns 0 at the end of the stream. */
    ptrdiff_t (*send)(void *baton, int handle, const void *bytes, size_t len);
    ptrdiff_t (*recv)(void *baton, int handle, void *bytes, size_t len);
    /** Wait for any of @a n, at most @a us microseconds. */
    int (*wait)(void *baton, htc_mc_wait *waits, unsigned n, int64_t us);
    void (*close)(void *baton, int handle);
} htc_mc_io;

/** An address to connect to: a struct sockaddr of that length; 0: the name was not to be resolved
 */
typedef struct htc_mc_address {
    union {
        char bytes[128];
        uint64_t align;
    } sockaddr;
    unsigned len;
    int family;
} htc_mc_address;

/** Real sockets. @a addresses must live as long as they are used. */
htc_mc_io htc_mc_sockets(const htc_mc_address *addresses);

/* --- client ----------------------------------------------------------------------------------- */

/** Shared by all processes; all zero at first. */
typedef struct htc_mc_server {
    htc_breaker breaker;
    _Atomic uint64_t exchanges; /* requests and answers that went through */
    _Atomic uint64_t timeouts;  /* not answered in time */
    _Atomic uint64_t failures;  /* refused, broken off, nonsense */
    _Atomic uint64_t skipped;   /* not asked because the breaker was open */
    _Atomic uint64_t connects;  /* connections that were opened */
    _Atomic uint64_t reused;    /* exchanges that went through over a kept one */
} htc_mc_server;

typedef struct htc_mc htc_mc;

/** Told when a breaker opens or closes; @a why is for the log. */
typedef void (*htc_mc_news)(void *baton, unsigned server, bool open, const char *why);

/**
 * A client of @a n servers; one per process. @a servers is in shared memory.
 * Connections stay open until htc_mc_close(): threads may still use them while a child ends. A new
 * one is opened only when none is kept, so there are never more to one server than threads that
 * called htc_mc_run() at one time; of those that are not in use, HTC_MC_KEEP are kept.
 */
apr_status_t htc_mc_create(htc_mc **mc, const htc_mc_io *io, htc_mc_server *servers, unsigned n,
                           htc_mc_news news, void *news_baton, apr_pool_t *pool);

/** From now on *open is the number of open connections, to all servers. */
void htc_mc_count_open(htc_mc *mc, _Atomic int32_t *open);

/** Close the connections that are not in use. */
void htc_mc_close(htc_mc *mc);

/**
 * Make the requests of all items, each answered in its result. Items of one server are done in
 * their order. @a budget_us is what it may take at most and is reduced by what it took; 0 or less:
 * nothing is done. A call that has less than @a fair_us to go does not count against a breaker when
 * it runs out of time.
 * @param pool for values got.
 */
void htc_mc_run(htc_mc *mc, htc_mc_item *items, unsigned n, int64_t *budget_us, int64_t fair_us,
                apr_pool_t *pool);

/** Let @a us microseconds pass, without an exchange, but for no longer than the budget, which is
 *  reduced by what passed. It may be less when a signal comes. */
void htc_mc_pause(htc_mc *mc, int64_t us, int64_t *budget_us);

#endif
