/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file cache/watch.h
 * How the kernel's reports of changes reach the records. All processes of the server share one
 * inotify instance. A tree of what is watched lies in a shared segment of its own.
 *
 * A node stands for one path as it is written: "/srv", "/srv/www", "/srv/www/.htaccess". It is
 * valid while the kernel has reported nothing that could change what this path leads to. Its parent
 * must be valid, as the directory's watch reports whatever happens to names in it. So must the node
 * that a symbolic link leads to. And the node's own watch, if it is a directory or a file, must have
 * reported nothing. A report makes the nodes that it may concern, and all below and behind them,
 * invalid. It marks the records that rest on them as unverified. A record is trusted again after
 * one look at the disk with valid nodes beneath it.
 *
 * Marks. A word of each record's slot says when the record was found to be true
 * (htc_slot_hot::checked_at). Every process reads it without a lock. Its value is one of
 *
 *     unverified (far below 0)           compare with the disk. Each such mark is a number of its
 *                                        own, and has the time at which it was made
 *     watched: HTC_MARK_WATCHED + epoch  trusted without a look while the epoch is the current one
 *     polled: HTC_MARK_POLLED + why, time
 *                                        cannot be watched, and why; true at that time
 *                                        (htc_mono_ms())
 *     a time                             true at that time; stored by a process that does not watch
 *
 * Order. A record is stored unverified. A process that wants to trust it (1) loads the epoch, (2)
 * exchanges the mark found with the record for a new unverified one, which fails when the slot was
 * given to another record since (a time would not tell), (3) has the path watched and the record
 * entered at its node, (4) looks at the disk, and (5) exchanges its mark for HTC_MARK_WATCHED +
 * epoch. A change after (4) is reported to a watch that is there since (3). The process that
 * publishes the report stores another unverified mark, so that (5) fails, or undoes (5). A request
 * calls htc_watch_drain() before it uses any record. When that returns, every change that was
 * complete before the call is published. See docs/design.md.
 *
 * Where something cannot be known, the epoch is incremented: the kernel's queue overflowed, a
 * process died or hung while it held events, or the kernel reported something unexpected. Then no
 * record is trusted before it is compared once. The cause is remembered, to be logged once
 * (htc_watch_troubled()).
 *
 * Thread and process safety: every function may be called by any thread of any process that
 * inherited the handle. One lock guards the tree. A process waits no longer than HTC_WATCH_LOCK_MS
 * for one that holds it and does not go on, and asks no file system for anything while it holds it.
 */
#ifndef HTC_CACHE_WATCH_H
#define HTC_CACHE_WATCH_H

#include "cache/store.h"

#define HTC_MARK_UNVERIFIED (-(INT64_C(1) << 62))
#define HTC_MARK_POLLED     (INT64_C(1) << 60)
#define HTC_MARK_WATCHED    (INT64_C(1) << 62)
/** Of a mark of the third kind: the time lies below the reason. */
#define HTC_MARK_TIME_BITS 48
/** What htc_watch_fresh() is where nothing is watched: no mark. */
#define HTC_MARK_NONE     INT64_MAX

#define HTC_WATCH_LOCK_MS 50
/** Nodes that are invalid, or whose record is gone, for longer are given up by the sweep. */
#define HTC_WATCH_KEEP_MS 3000
/** Words, longer: without them nobody would know whether a file that changes once more is complete. */
#define HTC_WATCH_WORD_MS 3600000
/** What could not be watched is not tried again before. */
#define HTC_WATCH_RETRY_MS 30000
/** A trusted entry is compared with the disk about that often, for what is never reported... */
#define HTC_WATCH_NET_MS 10000
/** ...but no more than this number of them each second. */
#define HTC_WATCH_NET_RATE 200
/** Who compares records itself is taken for gone after that. */
#define HTC_WATCH_NET_WAIT_MS 3000
/** Words that things other than records may be entered with; a power of two. */
#define HTC_WATCH_WORDS 4096
/** Kernels from here on report what is changed through a mounted overlayfs. */
#define HTC_WATCH_OVERLAY_MAJOR 4
#define HTC_WATCH_OVERLAY_MINOR 19

typedef struct htc_watch htc_watch; /* process-local handle */

/** Why something cannot be watched. */
typedef enum htc_watch_why {
    HTC_WATCH_OK = 0,
    HTC_WATCH_AGAIN,      /* it changed while it was looked at, or the lock was busy */
    HTC_WATCH_KERNEL,     /* fs.inotify.max_user_watches, or no memory in the kernel */
    HTC_WATCH_FULL,       /* the tree is, or its owner has his share of it */
    HTC_WATCH_FILESYSTEM, /* one whose changes the kernel does not see */
    HTC_WATCH_DENIED,     /* a directory on the way may not be read by this user */
    HTC_WATCH_PATH,       /* too deep, too many links, or too many others lead to the same place */
    HTC_WATCH_SILENT      /* the kernel sees all changes, but may report one by another name or not
                           * at all: the directory takes upper and lower case for the same, or it is
                           * a file of overlayfs with several names */
} htc_watch_why;

#define HTC_WATCH_WHYS (HTC_WATCH_SILENT + 1)

/**
 * Is what cannot be watched, because of @a why, compared with the disk on each request? So it is
 * wherever the disk is this machine's. A file system that the kernel does not see all changes of is
 * mostly a remote one, where each comparison costs a message: these are compared now and then.
 */
static inline bool htc_watch_each_request(htc_watch_why why)
{
    return why > HTC_WATCH_AGAIN && why != HTC_WATCH_FILESYSTEM;
}

/**
 * Make the instance and a tree of @a nodes nodes (of about 100 bytes, which take memory when they
 * are used). Both live until @a pool is cleaned up, in children until they end.
 * @param why on failure, a sentence for the administrator that names the limit.
 */
apr_status_t htc_watch_create(htc_watch **watch, htc_store *store, uint32_t nodes, apr_pool_t *pool,
                              const char **why);

/** As htc_store_keep(). */
void htc_watch_keep(htc_watch *watch, apr_pool_t *pool, htc_kept_memory *memory);
/** As htc_store_lock_free(). */
bool htc_watch_lock_free(const htc_watch *watch, unsigned wait_ms);
/** A new configuration goes on with what is there: messages may be said again. */
void htc_watch_begin_again(htc_watch *watch);

/** The mark of what is trusted now. @a watch may be NULL. */
int64_t htc_watch_fresh(const htc_watch *watch);

/** The time that a mark stands for, to be compared with an interval; @a fresh from
 *  htc_watch_fresh(). Negative for an unverified mark, far in the future for what is watched. */
static inline int64_t htc_mark_time(int64_t mark, int64_t fresh)
{
    if (mark < HTC_MARK_POLLED)
        return mark;
    if (mark < HTC_MARK_WATCHED)
        return mark & ((INT64_C(1) << HTC_MARK_TIME_BITS) - 1);
    return mark == fresh ? HTC_MARK_POLLED : HTC_MARK_UNVERIFIED;
}

/** What cannot be watched, because of @a why; true at @a time, which is not negative. */
static inline int64_t htc_mark_polled(htc_watch_why why, int64_t time)
{
    return HTC_MARK_POLLED + ((int64_t)why << HTC_MARK_TIME_BITS) + time;
}

static inline bool htc_mark_is_polled(int64_t mark)
{
    return mark >= HTC_MARK_POLLED && mark < HTC_MARK_WATCHED;
}

/** Of a polled mark: why. HTC_WATCH_OK: it could be watched, and has not been yet. */
static inline htc_watch_why htc_mark_why(int64_t mark)
{
    int64_t why = (mark - HTC_MARK_POLLED) >> HTC_MARK_TIME_BITS;

    return why >= 0 && why < HTC_WATCH_WHYS ? (htc_watch_why)why : HTC_WATCH_OK;
}

static inline bool htc_mark_is_unverified(int64_t mark)
{
    return mark < HTC_MARK_UNVERIFIED / 2;
}

/** Was it made by the sweep (see HTC_WATCH_NET_MS), although nothing was reported? */
static inline bool htc_mark_is_unprompted(int64_t mark)
{
    return htc_mark_is_unverified(mark) && (mark & 1);
}

/** The time at which an unverified mark was made. */
static inline int64_t htc_mark_unverified_at(int64_t mark)
{
    return (mark - HTC_MARK_UNVERIFIED) >> 20;
}

/** A new unverified mark, different from every other one. */
int64_t htc_watch_unverified(htc_watch *watch);

/**
 * Publish what was reported until now. One system call when nothing was. Afterwards every change
 * that was complete before the call can be seen in the marks, or the epoch is another one.
 */
void htc_watch_drain(htc_watch *watch);

/**
 * Have everything watched that decides what @a path (absolute) leads to, and enter the record
 * @a ref at it. *known is set when all of it was watched and the record entered already.
 * HTC_WATCH_AGAIN when a later record of this path was entered.
 */
htc_watch_why htc_watch_record(htc_watch *watch, const char *path, htc_ref ref, bool *known);

/** The same for a word instead of a record, beside what else depends on @a path. @a word is any
 *  number; those that agree in their low bits share a mark, which is htc_watch_word_fresh() for one
 *  of them at a time. *whole: the kernel reported that the file was closed by who wrote it, or was
 *  moved into place, and nothing since. */
htc_watch_why htc_watch_word(htc_watch *watch, const char *path, uint32_t word, bool *whole);

/** What the mark of a word is while it is trusted. */
int64_t htc_watch_word_fresh(const htc_watch *watch, uint32_t word);

/** The mark of a word; 0 at first. */
_Atomic int64_t *htc_watch_word_at(const htc_watch *watch, uint32_t word);

/**
 * For a process that compares trusted records with the disk itself, about as often as HTC_WATCH_NET_MS
 * and HTC_WATCH_NET_RATE say. To be called each second: the sweep leaves records alone for
 * HTC_WATCH_NET_WAIT_MS from @a now (htc_mono_ms()), and rechecks words only.
 */
void htc_watch_net_taken(htc_watch *watch, int64_t now);

/** As htc_watch_unverified(), for what may have changed although nothing was reported: see
 *  htc_mark_is_unprompted(). */
int64_t htc_watch_unprompted(htc_watch *watch);

/** No record is trusted any more before it is compared once. */
void htc_watch_distrust(htc_watch *watch);

/**
 * A file is another one although all on its path was watched and nothing was reported: something
 * happened that is never reported, and may have happened to others: htc_watch_distrust(). Once in
 * HTC_WATCH_NET_MS at most, as the owner of a file can do this as often as he likes; after so long
 * each record is compared in any case.
 * @param now htc_mono_ms()
 */
void htc_watch_untrue(htc_watch *watch, int64_t now);

/**
 * Give up what is not needed any more, and let a few entries be compared with the disk (see
 * HTC_WATCH_NET_MS). Does nothing when it was done within the last second by any process.
 * @param now htc_mono_ms()
 */
void htc_watch_sweep(htc_watch *watch, int64_t now);

/** Put what is in use of the table in large pages, see base/pages.h: a child finds nodes at random
 * places of it. For one process, now and then; no lock is taken.
 * @return true when what each request reads is in one. */
bool htc_watch_enlarge_pages(htc_watch *watch);
/** Enter that in the page table of a process that serves, once it is in a large page. */
void htc_watch_meet_page(const htc_watch *watch);

typedef struct htc_watch_stats {
    uint64_t watches;       /* of this instance */
    uint64_t watches_limit; /* fs.inotify.max_user_watches, for all of this user's instances */
    uint64_t nodes;
    uint64_t bytes;                    /* of the tree, as far as it was ever used */
    uint64_t failures[HTC_WATCH_WHYS]; /* times something could not be watched */
} htc_watch_stats;

void htc_watch_stats_get(const htc_watch *watch, htc_watch_stats *stats);

/** True for the first caller, of all processes, with this reason: for messages said once. */
bool htc_watch_first(htc_watch *watch, htc_watch_why why);

/** What made records unverified although no file may have changed. */
typedef enum htc_watch_trouble {
    HTC_TROUBLE_OVERFLOW = 0, /* of the kernel's queue: fs.inotify.max_queued_events. All records */
    HTC_TROUBLE_DEATH,        /* of a process that held events, or changed the tree. All records */
    HTC_TROUBLE_HANG,         /* such a process does not go on. All records, until it does */
    HTC_TROUBLE_UNKNOWN,      /* an unexpected event. All records */
    HTC_TROUBLE_DAMAGE,       /* of the tree, as another process wrote to it. All records */
    HTC_TROUBLE_UNMOUNT       /* of a file system. What was watched on it */
} htc_watch_trouble;

#define HTC_TROUBLES (HTC_TROUBLE_UNMOUNT + 1)

/** True for the first caller, of all processes, after this happened: for messages said once. One
 *  load when there is nothing to say. */
bool htc_watch_troubled(htc_watch *watch, htc_watch_trouble trouble);

/** A file system that cannot be watched. */
typedef struct htc_watch_refusal {
    uint32_t type; /* as of statfs */
    char at[256];  /* where it was met first, from the top: its mount point; may be cut off */
} htc_watch_refusal;

/** The next file system that was refused and that no process was given here before. */
bool htc_watch_refused(htc_watch *watch, htc_watch_refusal *refusal);

/** File systems that were refused, given to any process or not: at most @a max. Returns how many. */
size_t htc_watch_refusals(const htc_watch *watch, htc_watch_refusal *refusals, size_t max);

/** Are all changes below @a path reported, by its file system's type, which is *type? True as well
 *  when it cannot be asked. For the start: it asks the file system, and waits for the answer. */
bool htc_watch_reports(const htc_watch *watch, const char *path, uint32_t *type);

#endif
