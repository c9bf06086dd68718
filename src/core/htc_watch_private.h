/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htc_watch_private.h
 * The layout of the watch segment, and what its three source files know of each other:
 *
 *   htc_watch.c         creation, the lock, draining, figures
 *   htc_watch_tree.c    nodes: finding, dooming, giving up
 *   htc_watch_settle.c  having a path watched
 *
 * All but the atomic words changes under the lock only. A process that dies with the lock leaves a
 * tree that nobody relies on: it is emptied, and the epoch incremented.
 */
#ifndef HTC_WATCH_PRIVATE_H
#define HTC_WATCH_PRIVATE_H

#include "htc_lock.h"
#include "htc_watch.h"

#include <sys/inotify.h>

#ifdef HTC_CRASH_POINTS
void htc_crash_point(const char *where);
#define HTCW_CRASH_POINT(where) htc_crash_point(where)
#else
#define HTCW_CRASH_POINT(where) ((void)0)
#endif

#define HTCW_NIL        UINT32_MAX
#define HTCW_ROOT       0 /* the node of "/" */
#define HTCW_DEVICES    32
#define HTCW_WORD       0x80000000u /* in htcw_node::entered: a word, not a slot */
#define HTCW_EPOCH_BITS 29          /* of a word's mark; above these is the word's number */
#define HTCW_MAX_PATH   4096
#define HTCW_MAX_DEPTH  256
#define HTCW_MAX_LINKS  20
#define HTCW_READ_BYTES (32 * 1024)
#define HTCW_GONE       64 /* watches that are remembered to be gone */
#define HTCW_ADDING     64 /* watches that are being added at once, and are remembered */
/* What is asked for of a directory and of a file. IN_CLOSE_WRITE tells of a file that was written
 * through a mapping. */
#define HTCW_DIRECTORY_EVENTS                                                         \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_MOVE_SELF | \
     IN_DELETE_SELF)
#define HTCW_FILE_EVENTS (IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_MOVE_SELF | IN_DELETE_SELF)
/* What may be reported, then. */
#define HTCW_EVENTS \
    (HTCW_DIRECTORY_EVENTS | HTCW_FILE_EVENTS | IN_ISDIR | IN_IGNORED | IN_UNMOUNT | IN_Q_OVERFLOW)
/* In htcw_node::epoch: it is not valid, and the rest is a number that it had never before. */
#define HTCW_INVALID     (UINT64_C(1) << 63)
#define HTCW_SWEEP_NODES 8192 /* looked at by one sweep */

/* A list of nodes that belong to one other node. */
typedef struct htcw_links {
    uint32_t prev, next;
} htcw_links;

typedef struct htcw_node {
    uint64_t name;     /* hash of the last component */
    uint64_t version;  /* of the record */
    uint64_t epoch;    /* in which it was settled; or HTCW_INVALID and a number */
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

/* Something to be said once: there is nothing, there is, it was. */
typedef enum htcw_told { HTCW_EMPTY = 0, HTCW_UNTOLD, HTCW_TOLD } htcw_told;

/* A file system that was refused. Written under the lock while it is empty, and then given away. */

typedef struct htcw_refused {
    _Atomic uint32_t told;
    uint64_t dev;
    htc_watch_refusal what;
} htcw_refused;

/* Somebody is adding a watch, whose number will be greater than this. */
typedef struct htcw_adding {
    _Atomic int32_t pid; /* 0: nobody. Set under the lock, except to 0 by itself */
    int32_t after;
} htcw_adding;

typedef struct htcw_header {
    htc_lock lock;
    _Atomic uint64_t epoch;  /* from 1 */
    _Atomic uint32_t busy;   /* events were taken from the queue and are not all published */
    _Atomic int32_t last_wd; /* the highest watch that was entered; 0: never any */
    _Atomic uint64_t doubts;
    _Atomic int64_t swept_at;
    _Atomic uint64_t watches;
    _Atomic uint64_t used; /* nodes */
    _Atomic uint64_t failures[HTC_WATCH_WHYS];
    _Atomic uint32_t told[HTC_WATCH_WHYS];
    _Atomic uint32_t troubles[HTC_TROUBLES]; /* htcw_told */
    _Atomic int64_t words[HTC_WATCH_WORDS];

    uint64_t invalids;       /* numbers given to invalid nodes */
    int32_t gone[HTCW_GONE]; /* the last watches that the kernel has given up */
    uint32_t ngone;          /* in all */
    htcw_adding adding[HTCW_ADDING];
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

uint64_t htcw_name_hash(const htc_watch *w, const char *name, size_t len);
uint32_t htcw_find_child(const htc_watch *w, uint32_t parent, uint64_t name);
/* A new child, invalid; HTCW_NIL: the tree is full. */
uint32_t htcw_add_node(htc_watch *w, uint32_t parent, uint64_t name);
uint32_t htcw_first_with_wd(const htc_watch *w, int32_t wd);
bool htcw_settled(const htc_watch *w, const htcw_node *n);
void htcw_set_target(htc_watch *w, uint32_t i, uint32_t target);
void htcw_set_wd(htc_watch *w, uint32_t i, int32_t wd);
/* The node is not at its watch any more. @a gone: neither is the kernel. */
void htcw_drop_wd(htc_watch *w, uint32_t i, bool gone);
/* Make a node invalid, and all below and behind it. */
void htcw_doom(htc_watch *w, uint32_t i);

/* One event; name is NULL for the watched thing itself. */
void htcw_event(htc_watch *w, int32_t wd, uint32_t mask, const char *name);

/* Look at some nodes; see htc_watch_sweep(). */
void htcw_sweep(htc_watch *w, int64_t now);

/* --- htc_watch.c ------------------------------------------------------------------------------*/

/* False: it was not to be had, or not in HTC_WATCH_LOCK_MS with @a wait. */
bool htcw_lock(htc_watch *w, bool wait);
void htcw_unlock(htc_watch *w);

/* --- htc_watch_settle.c, without the lock -----------------------------------------------------*/

/* Called under the lock while all of the path is valid; its answer is that of htcw_settle(). */
typedef htc_watch_why htcw_finish(htc_watch *w, uint32_t node, void *data);

/* Have @a path watched, then call @a finish with its node. *known: nothing was looked at. */
htc_watch_why htcw_settle(htc_watch *w, const char *path, bool *known, htcw_finish *finish,
                          void *data);

#endif
