/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/watch_internal.h
 * The layout of the watch segment, and what its three source files know of each other:
 *
 *   cache/watch.c         creation, the lock, draining, figures
 *   cache/watch_tree.c    nodes: finding, dooming, giving up
 *   cache/watch_settle.c  having a path watched
 *
 * All but the atomic words changes under the lock only. A process that dies with the lock leaves a
 * tree that no process relies on: it is emptied, and the epoch incremented.
 *
 * Every child can write to the segment, also one that was taken over. So a number found in it is
 * used as an index only by htcw_at(), which checks it, and htcw_at() bounds how many nodes are
 * visited under one hold of the lock, so that every walk along a list ends. What cannot be is
 * damage: the tree is emptied and the epoch incremented, as after a death.
 */
#ifndef HTC_CACHE_WATCH_INTERNAL_H
#define HTC_CACHE_WATCH_INTERNAL_H

#include "base/base.h"
#include "cache/watch.h"

#include <sys/inotify.h>

#define HTCW_NIL        UINT32_MAX
#define HTCW_ROOT       0 /* the node of "/" */
#define HTCW_DEVICES    32
#define HTCW_WORD       0x80000000u /* in htcw_node::entered: a word, not a slot */
#define HTCW_EPOCH_BITS 29          /* of a word's mark; above these is the word's number */
#define HTCW_MAX_PATH   4096
#define HTCW_MAX_DEPTH  256
#define HTCW_MAX_LINKS  20
#ifndef HTCW_READ_BYTES
#define HTCW_READ_BYTES 1024 /* of events, under one hold of the lock */
#endif
/* Nodes that may share one watch, and links that may lead to one node. Each event visits them all,
 * so that more would let one tenant make the events of others wait. */
#ifndef HTCW_PEERS
#define HTCW_PEERS 256
#endif
/* Nodes that are visited under one hold of the lock before others get their turn: of a doomed tree,
 * of a sweep, and watches that no node knows. Events of one read come on top. */
#ifndef HTCW_STEP
#define HTCW_STEP 1024
#endif
/* Nodes that can be visited under one hold of the lock at all; a walk that wants more goes in
 * circles.
 */
#define HTCW_MOST_VISITS (1U << 20)
/* The owner of a node: a user's number modulo this, root being 0. */
#define HTCW_OWNERS 4096
#define HTCW_GONE   64 /* watches that are remembered to be gone */
#define HTCW_ADDING 64 /* watches that are being added at once, and are remembered */
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
#define HTCW_SWEEP_NODES 8192 /* looked at by one sweep at most */

/* A list of nodes that belong to one other node. */
typedef struct htcw_links {
    uint32_t prev, next;
} htcw_links;

/* In htcw_node::flags. */
enum {
    HTCW_ABSENT = 1, /* there is nothing of this name */
    HTCW_OTHER = 2,  /* no directory, no regular file and no link: no watch of its own is needed */
    HTCW_BLIND = 4,  /* a directory that may be passed but not read: no report of names in it */
    HTCW_ALONE = 8,  /* lies in one of those: only its own watch tells of it */
    HTCW_DOOMING = 16, /* in the list of those whose children and linkers are to be doomed */
    HTCW_WHOLE = 32    /* a file: what was reported of it last is that it is written to no more */
};

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
    uint32_t name_next;               /* same bucket; of a free node, the next free one */
    htcw_links peer;                  /* nodes with the same watch */
    uint32_t wd_next;                 /* same bucket; only of the first of its peers */
    uint32_t doom_next;               /* of HTCW_DOOMING: the next one */
    uint32_t doom_child, doom_linker; /* and which of its children and linkers are next */
    uint16_t npeers;                  /* only of the first of them */
    uint16_t nlinkers;
    uint16_t owner;
    uint8_t why; /* htc_watch_why: it cannot be watched, as of since */
    uint8_t flags;
} htcw_node;

/* A file system seen. */
typedef struct htcw_device {
    uint64_t dev;
    int64_t at;
    uint8_t kind; /* what is known of its file system's type; see cache/watch_settle.c */
} htcw_device;

/* Something to be said once: there is nothing, there is, it was. */
typedef enum htcw_logged { HTCW_EMPTY = 0, HTCW_UNLOGGED, HTCW_LOGGED } htcw_logged;

/* A file system that was refused. Written under the lock while it is empty, and then given away. */

typedef struct htcw_refused {
    _Atomic uint32_t logged;
    uint64_t dev;
    htc_watch_refusal what;
} htcw_refused;

/* Somebody is adding a watch, whose number will be greater than this. */
typedef struct htcw_adding {
    _Atomic int32_t pid; /* 0: none. Set under the lock, except to 0 by itself */
    int32_t after;
} htcw_adding;

typedef struct htcw_header {
    htc_lock_shared lock;
    _Atomic uint64_t epoch;  /* from 1 */
    _Atomic uint32_t busy;   /* events were taken from the queue and are not all published */
    _Atomic int32_t last_wd; /* the highest watch that was entered; 0: never any */
    _Atomic uint64_t unverified_marks;
    _Atomic int64_t swept_at;
    _Atomic int64_t untrue_at; /* see htc_watch_untrue() */
    _Atomic int64_t net_taken; /* see htc_watch_net_taken(); 0: never */
    _Atomic uint64_t watches;
    _Atomic uint64_t used; /* nodes */
    _Atomic uint64_t failures[HTC_WATCH_WHYS];
    _Atomic uint32_t told[HTC_WATCH_WHYS];
    _Atomic uint32_t troubles[HTC_TROUBLES]; /* htcw_logged */
    _Atomic int64_t words[HTC_WATCH_WORDS];

    uint64_t invalids;       /* numbers given to invalid nodes */
    int32_t gone[HTCW_GONE]; /* the last watches that the kernel has given up */
    uint32_t ngone;          /* in all */
    htcw_adding adding[HTCW_ADDING];
    int32_t stray; /* watches from here to stray_end may be unknown: see htcw_sweep_some() */
    int32_t stray_end;
    uint32_t doomed;   /* list of nodes; HTCW_NIL: none. Then `busy` is 0, or events are read */
    uint32_t free;     /* list, through name_next */
    uint32_t fresh;    /* nodes from here on were never used */
    uint32_t hand;     /* where the sweep stands */
    uint32_t net_hand; /* and where the rechecking of trusted entries does */
    uint32_t word_hand;
    htcw_device devices[HTCW_DEVICES];
    uint32_t device_hand;
    uint32_t owned[HTCW_OWNERS];        /* nodes */
    htcw_refused refused[HTCW_DEVICES]; /* further ones are not told of */
} htcw_header;

struct htc_watch {
    void *base;
    size_t bytes, enlarged; /* in large pages, by this process */
    bool large;             /* so is the first of them */
    htc_store *store;
    htc_lock lock;
    bool untouched; /* the tree is as the kernel gave it: zeros, and without memory */
    int fd;
    uint64_t seed;
    uint32_t nnodes, nbuckets; /* nbuckets is a power of two */
    uint64_t limit;            /* fs.inotify.max_user_watches */
    uint64_t own_limit;        /* tests: no more watches than that; 0: none */
    bool overlays;             /* overlayfs reports changes */
    /* Under the lock, of this process's hold. */
    bool damaged;
    uint32_t visits;      /* nodes */
    uint32_t most_visits; /* of any hold, for tests */
    uint64_t looks;       /* by this process, for tests */
    htcw_node nowhere;    /* what an impossible number stands for */
    htcw_header *header;
    uint32_t *names; /* buckets; a node's number plus 1 */
    uint32_t *wds;
    htcw_node *nodes;
};

/* How long ago @a then was, whatever was written there. */
static inline int64_t htcw_age(int64_t now, int64_t then)
{
    return (int64_t)((uint64_t)now - (uint64_t)then);
}

/* The epoch, whatever was written there: an invalid node never has it, and marks can hold it. */
static inline uint64_t htcw_epoch(const htc_watch *w)
{
    return atomic_load_explicit(&w->header->epoch, memory_order_acquire) &
           ((UINT64_C(1) << HTCW_EPOCH_BITS) - 1);
}

/* --- cache/watch_tree.c, under the lock --------------------------------------------------------*/

/* Forget everything. Watches that are left over are given up by and by. */
void htcw_reset(htc_watch *w);

/* The node of this number, and one more visit. An impossible number, and any after too many visits,
 * is damage: then it is an invalid node that nothing belongs to, in this process's own memory. */
htcw_node *htcw_at(htc_watch *w, uint32_t i);

uint64_t htcw_name_hash(const htc_watch *w, const char *name, size_t len);
uint32_t htcw_find_child(htc_watch *w, uint32_t parent, uint64_t name);
/* A new child, invalid; HTCW_NIL: the tree is full, or the owner has its share of it. */
uint32_t htcw_add_node(htc_watch *w, uint32_t parent, uint64_t name);
/* The node below @a i that stands for a word which depends on it, and no name. */
uint32_t htcw_word_node(htc_watch *w, uint32_t i, uint32_t word);
uint32_t htcw_first_with_wd(htc_watch *w, int32_t wd);
bool htcw_settled(const htc_watch *w, const htcw_node *n);
/* Both: false when too many lead there already; then the node has none. */
bool htcw_set_target(htc_watch *w, uint32_t i, uint32_t target);
bool htcw_set_wd(htc_watch *w, uint32_t i, int32_t wd);
/* The node is not at its watch any more. @a gone: neither is the kernel. */
void htcw_drop_wd(htc_watch *w, uint32_t i, bool gone);
/* What the node stands for belongs to this user. What lies below a user's directory belongs to
 * that user. */
void htcw_set_owner(htc_watch *w, uint32_t i, uint32_t uid);

/* Make a node invalid. All below and behind it is to follow (htcw_doom_some()); `busy` says so. */
void htcw_doom(htc_watch *w, uint32_t i);
/* Go on with that. True when nothing is left. */
bool htcw_doom_some(htc_watch *w);

/* One event; name is NULL for the watched thing itself. */
void htcw_event(htc_watch *w, int32_t wd, uint32_t mask, const char *name);

/* A sweep, in steps of one hold of the lock each; see htc_watch_sweep(). */
typedef struct htcw_sweep {
    int64_t now;
    uint32_t strays;          /* watches still to be looked at that no node may know */
    uint32_t nodes;           /* still to be looked at for what is not needed */
    uint32_t looks, rechecks; /* still to be looked at, and to be verified again */
    bool words;               /* looked at are words alone */
} htcw_sweep;

void htcw_sweep_begin(htc_watch *w, htcw_sweep *sweep, int64_t now);
/* True when there is more to do. */
bool htcw_sweep_some(htc_watch *w, htcw_sweep *sweep);

/* --- cache/watch.c -----------------------------------------------------------------------------*/

/* False: it was not to be had, or not in HTC_WATCH_LOCK_MS with @a wait. */
bool htcw_lock(htc_watch *w, bool wait);
void htcw_unlock(htc_watch *w);

/* --- cache/watch_settle.c, without the lock ----------------------------------------------------*/

/* Called under the lock while all of the path is valid; its answer is that of htcw_settle(). */
typedef htc_watch_why htcw_finish(htc_watch *w, uint32_t node, void *data);

/* Have @a path watched, then call @a finish with its node. *known: nothing was looked at. */
htc_watch_why htcw_settle(htc_watch *w, const char *path, bool *known, htcw_finish *finish,
                          void *data);

#endif
