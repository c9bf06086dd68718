/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htc_watch_private.h
 * The layout of the watch segment, and what its two source files know of each other:
 *
 *   htc_watch.c       creation, the lock, draining, figures
 *   htc_watch_tree.c  nodes: finding, settling, dooming, giving up
 *
 * All but the atomic words changes under the lock only. A process that dies with the lock leaves a
 * tree that nobody relies on: it is emptied, and the epoch incremented.
 */
#ifndef HTC_WATCH_PRIVATE_H
#define HTC_WATCH_PRIVATE_H

#include "htc_lock.h"
#include "htc_watch.h"

#ifdef HTC_CRASH_POINTS
void htc_crash_point(const char *where);
#define HTCW_CRASH_POINT(where) htc_crash_point(where)
#else
#define HTCW_CRASH_POINT(where) ((void)0)
#endif

#define HTCW_NIL         UINT32_MAX
#define HTCW_ROOT        0 /* the node of "/" */
#define HTCW_DEVICES     32
#define HTCW_WORD        0x80000000u /* in htcw_node::entered: a word, not a slot */
#define HTCW_EPOCH_BITS  29          /* of a word's mark; above these is the word's number */
#define HTCW_MAX_PATH    4096
#define HTCW_MAX_DEPTH   256
#define HTCW_MAX_LINKS   20
#define HTCW_READ_BYTES  (32 * 1024)
#define HTCW_SWEEP_NODES 8192 /* looked at by one sweep */

/* A list of nodes that belong to one other node. */
typedef struct htcw_links {
    uint32_t prev, next;
} htcw_links;

typedef struct htcw_node {
    uint64_t name;     /* hash of the last component */
    uint64_t version;  /* of the record */
    uint64_t epoch;    /* in which it was settled; 0: invalid */
    int64_t since;     /* htc_mono_ms() when it was settled or doomed last */
    uint32_t entered;  /* slot or word; HTCW_NIL: none */
    int32_t wd;        /* of what it leads to; -1: none */
    uint32_t parent;   /* HTCW_NIL: this node is free */
    uint32_t target;   /* where a symbolic link leads; or HTCW_NIL */
    uint32_t children; /* first of them */
    uint32_t linkers;  /* first of those that lead here */
    htcw_links sibling, linker;
    uint32_t name_next; /* same bucket; of a free node, the next free one */
    uint32_t wd_next;   /* same bucket */
    uint8_t why;        /* htc_watch_why: it cannot be watched, as of since */
    uint8_t absent;
} htcw_node;

/* A file system seen. */
typedef struct htcw_device {
    uint64_t dev;
    int64_t at;
    bool local;
} htcw_device;

/* A file system that was refused. Written under the lock while it is empty, and then given away. */
typedef enum htcw_told { HTCW_EMPTY = 0, HTCW_UNTOLD, HTCW_TOLD } htcw_told;

typedef struct htcw_refused {
    _Atomic uint32_t told;
    uint64_t dev;
    htc_watch_refusal what;
} htcw_refused;

typedef struct htcw_header {
    htc_lock lock;
    _Atomic uint64_t epoch; /* from 1 */
    _Atomic uint32_t busy;  /* events were taken from the queue and are not all published */
    _Atomic uint64_t doubts;
    _Atomic int64_t swept_at;
    _Atomic uint64_t watches;
    _Atomic uint64_t used; /* nodes */
    _Atomic uint64_t failures[HTC_WATCH_WHYS];
    _Atomic uint32_t told[HTC_WATCH_WHYS];
    _Atomic int64_t words[HTC_WATCH_WORDS];

    int32_t last_wd;   /* the highest that was entered */
    int64_t full_at;   /* when the kernel's limit was met last; 0: never */
    uint32_t free;     /* list, through name_next */
    uint32_t fresh;    /* nodes from here on were never used */
    uint32_t hand;     /* where the sweep stands */
    uint32_t net_hand; /* and where the doubting of trusted entries does */
    htcw_device devices[HTCW_DEVICES];
    uint32_t device_hand;
    htcw_refused refused[HTCW_DEVICES]; /* further ones are not told of */
} htcw_header;

struct htc_watch {
    void *base;
    size_t bytes;
    htc_store *store;
    int fd;
    uint64_t seed;
    uint32_t nnodes, nbuckets; /* nbuckets is a power of two */
    uint64_t limit;            /* fs.inotify.max_user_watches */
    uint64_t own_limit;        /* tests: no more watches than that; 0: none */
    htcw_header *header;
    uint32_t *names; /* buckets; a node's number plus 1 */
    uint32_t *wds;
    htcw_node *nodes;
};

/* --- htc_watch_tree.c, under the lock ---------------------------------------------------------*/

/* Forget everything, and give up all watches. */
void htcw_reset(htc_watch *w);

/* Have @a path settled; its node in *node. */
htc_watch_why htcw_settle_path(htc_watch *w, const char *path, uint32_t *node, bool *known);

/* One event; name is NULL for the watched thing itself. */
void htcw_event(htc_watch *w, int32_t wd, uint32_t mask, const char *name);

/* Look at some nodes; see htc_watch_sweep(). */
void htcw_sweep(htc_watch *w, int64_t now);

#endif
