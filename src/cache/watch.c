/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The shared inotify instance: creation, the lock, draining and figures. What is watched and why is
 * in cache/watch_tree.c.
 *
 * A request that finds the kernel's queue empty must know that no process has taken an event out of
 * it that is not published yet. So emptiness is asked without taking anything (FIONREAD), and a
 * process takes events only under the lock, after setting `busy`, which is cleared when all are
 * published. The kernel guards its queue with a lock of its own: a process that sees the queue
 * without an event that was in it sees everything that the taker did before, `busy` included.
 */
#include "base/base.h"
#include "cache/watch_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <apr_general.h>
#include <apr_strings.h>

#define MIN_NODES        256
#define NODES_PER_BUCKET 4 /* at most, on average: each touches pages of the buckets at random */
#define ALIGN            64
#define PAGE             ((size_t)4096)
/* So often HTC_WATCH_LOCK_MS, at most, for others that publish in turns. */
#define TURN_WAITS 20

/* --- creation ---------------------------------------------------------------------------------*/

static uint64_t limit_of(const char *path)
{
    FILE *file = sys_fopen(path, "re");
    char line[32];
    uint64_t value = 0;

    if (file && fgets(line, sizeof(line), file))
        value = strtoull(line, NULL, 10);
    if (file)
        fclose(file);
    return value;
}

/* From this version on a file of overlayfs is one inode for inotify, whichever layer it lies in,
 * and what is written to it is reported there. */
static bool kernel_reports_overlays(void)
{
    struct utsname kernel;
    long major, minor;
    char *end;

    if (uname(&kernel) != 0)
        return false;
    major = strtol(kernel.release, &end, 10);
    minor = *end == '.' ? strtol(end + 1, NULL, 10) : 0;
    return major > HTC_WATCH_OVERLAY_MAJOR ||
           (major == HTC_WATCH_OVERLAY_MAJOR && minor >= HTC_WATCH_OVERLAY_MINOR);
}

static apr_status_t destroy(void *data)
{
    htc_watch *w = data;

    sys_close(w->fd);
    sys_munmap(w->base, w->bytes);
    return APR_SUCCESS;
}

static size_t aligned(size_t size)
{
    return (size + ALIGN - 1) / ALIGN * ALIGN;
}

static apr_status_t map_tree(htc_watch *w)
{
    size_t header = aligned(sizeof(htcw_header)), buckets = aligned(w->nbuckets * sizeof(uint32_t));
    unsigned char *at;

    w->bytes = header + 2 * buckets + w->nnodes * sizeof(htcw_node);
    w->bytes = (w->bytes + PAGE - 1) / PAGE * PAGE;
    at = htc_pages_map(w->bytes, PROT_READ | PROT_WRITE, -1);
    if (!at)
        return APR_FROM_OS_ERROR(errno);
    madvise(at, w->bytes, MADV_DONTDUMP);
    w->base = at;
    w->untouched = true;
    w->header = (htcw_header *)(void *)at;
    w->names = (uint32_t *)(void *)(at + header);
    w->wds = (uint32_t *)(void *)(at + header + buckets);
    w->nodes = (htcw_node *)(void *)(at + header + 2 * buckets);
    return APR_SUCCESS;
}

static apr_status_t init_header(htc_watch *w, apr_pool_t *pool)
{
    apr_status_t rv = sys_random_bytes((unsigned char *)&w->seed, sizeof(w->seed));

    if (rv != APR_SUCCESS)
        return rv;
    atomic_store(&w->header->epoch, 1);
    htcw_reset(w);
    return htc_lock_create(&w->lock, &w->header->lock, pool); /* last: it leaves a cleanup */
}

static const char *why_no_instance(int err, apr_pool_t *pool)
{
    if (err == EMFILE)
        return "the kernel gives no inotify instance; raise the sysctl "
               "fs.inotify.max_user_instances (or the limit of open files)";
    return apr_psprintf(pool, "the kernel gives no inotify instance: %s", strerror(err));
}

apr_status_t htc_watch_create(htc_watch **watch, htc_store *store, uint32_t nodes, apr_pool_t *pool,
                              const char **why)
{
    htc_watch *w = apr_pcalloc(pool, sizeof(*w));
    apr_status_t rv;

    w->store = store;
    w->nnodes = nodes < MIN_NODES ? MIN_NODES : nodes;
    for (w->nbuckets = MIN_NODES; w->nbuckets < w->nnodes / NODES_PER_BUCKET; w->nbuckets *= 2)
        ;
    w->limit = limit_of("/proc/sys/fs/inotify/max_user_watches");
    w->overlays = kernel_reports_overlays();
    w->fd = sys_inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->fd < 0) {
        int err = errno;

        *why = why_no_instance(err, pool);
        return APR_FROM_OS_ERROR(err);
    }
    rv = map_tree(w);
    if (rv != APR_SUCCESS) {
        *why = apr_psprintf(pool, "no memory for the table of what is watched: %pm", &rv);
        sys_close(w->fd);
        return rv;
    }
    apr_pool_cleanup_register(pool, w, destroy, apr_pool_cleanup_null);
    rv = init_header(w, pool);
    if (rv != APR_SUCCESS) {
        *why = apr_psprintf(pool, "the table of what is watched could not be prepared: %pm", &rv);
        apr_pool_cleanup_run(pool, w, destroy);
        return rv;
    }
    *watch = w;
    return APR_SUCCESS;
}

void htc_watch_keep(htc_watch *watch, apr_pool_t *pool, htc_kept_memory *memory)
{
    apr_pool_cleanup_kill(pool, watch, destroy);
    *memory = (htc_kept_memory){
        watch->base, watch->bytes, {watch->fd, htc_lock_keep(&watch->lock, pool)}};
}

bool htc_watch_lock_free(const htc_watch *watch, unsigned wait_ms)
{
    return htc_lock_free_within(&watch->lock, wait_ms);
}

void htc_watch_begin_again(htc_watch *watch)
{
    htcw_header *header = watch->header;

    watch->untouched = false; /* processes have used it, which does not show in this one */
    watch->limit = limit_of("/proc/sys/fs/inotify/max_user_watches");
    for (int i = 0; i < HTC_WATCH_WHYS; i++)
        atomic_store(&header->told[i], 0);
    for (int i = 0; i < HTC_TROUBLES; i++)
        atomic_store(&header->troubles[i], HTCW_EMPTY);
    for (int i = 0; i < HTCW_DEVICES; i++) {
        uint32_t logged = HTCW_LOGGED;

        atomic_compare_exchange_strong(&header->refused[i].logged, &logged, HTCW_UNLOGGED);
    }
}

/* --- marks ------------------------------------------------------------------------------------*/

int64_t htc_watch_fresh(const htc_watch *watch)
{
    if (!watch)
        return HTC_MARK_NONE;
    return HTC_MARK_WATCHED + (int64_t)htcw_epoch(watch);
}

/* The time, and a number that tells those of one millisecond apart. The lowest bit is for the
 * sweep: htc_mark_is_unprompted(). */
int64_t htc_watch_unverified(htc_watch *watch)
{
    uint64_t n =
        atomic_fetch_add_explicit(&watch->header->unverified_marks, 1, memory_order_relaxed);
    uint64_t time = (uint64_t)htc_mono_ms() & ((UINT64_C(1) << 39) - 1);

    return HTC_MARK_UNVERIFIED + (int64_t)(time << 20 | (n & 0x7FFFF) << 1);
}

int64_t htc_watch_unprompted(htc_watch *watch)
{
    return htc_watch_unverified(watch) | 1;
}

void htc_watch_net_taken(htc_watch *watch, int64_t now)
{
    atomic_store(&watch->header->net_taken, now);
}

void htc_watch_distrust(htc_watch *watch)
{
    atomic_fetch_add(&watch->header->epoch, 1);
    htc_count(watch->store, HTC_C_distrusts, 1);
}

void htc_watch_untrue(htc_watch *watch, int64_t now)
{
    _Atomic int64_t *at = &watch->header->untrue_at;
    int64_t seen = atomic_load(at);

    if ((!seen || htcw_age(now, seen) >= HTC_WATCH_NET_MS) &&
        atomic_compare_exchange_strong(at, &seen, now))
        htc_watch_distrust(watch);
}

_Atomic int64_t *htc_watch_word_at(const htc_watch *watch, uint32_t word)
{
    return &watch->header->words[word % HTC_WATCH_WORDS];
}

int64_t htc_watch_word_fresh(const htc_watch *watch, uint32_t word)
{
    return htc_watch_fresh(watch) + ((int64_t)word << HTCW_EPOCH_BITS);
}

/* --- troubles ---------------------------------------------------------------------------------*/

static void note_trouble(htc_watch *w, htc_watch_trouble trouble)
{
    uint32_t empty = HTCW_EMPTY;

    atomic_compare_exchange_strong(&w->header->troubles[trouble], &empty, HTCW_UNLOGGED);
}

bool htc_watch_troubled(htc_watch *watch, htc_watch_trouble trouble)
{
    _Atomic uint32_t *logged = &watch->header->troubles[trouble];
    uint32_t unlogged = HTCW_UNLOGGED;

    return atomic_load_explicit(logged, memory_order_relaxed) == HTCW_UNLOGGED &&
           atomic_compare_exchange_strong(logged, &unlogged, HTCW_LOGGED);
}

/* --- the lock ---------------------------------------------------------------------------------*/

/* No record is trusted before it is compared once, and the error log must say why. */
static void distrust_because(htc_watch *w, htc_watch_trouble trouble)
{
    htc_watch_distrust(w);
    note_trouble(w, trouble);
}

/* The events that a dead holder had taken from the queue are lost, and the tree may be half
 * changed. */
static void start_again(htc_watch *w, htc_watch_trouble trouble)
{
    htcw_reset(w);
    distrust_because(w, trouble);
    atomic_store(&w->header->busy, 0);
}

bool htcw_lock(htc_watch *w, bool wait)
{
    htc_lock_result result = htc_lock_take(&w->lock, wait ? HTC_WATCH_LOCK_MS : 0);

    if (result == HTC_LOCK_BUSY)
        return false;
    w->damaged = false;
    w->visits = 0;
    if (result == HTC_LOCK_INHERITED)
        start_again(w, HTC_TROUBLE_DEATH);
    return true;
}

void htcw_unlock(htc_watch *w)
{
    if (w->visits > w->most_visits)
        w->most_visits = w->visits;
    if (w->damaged)
        start_again(w, HTC_TROUBLE_DAMAGE);
    htc_lock_give(&w->lock);
}

/* --- draining ---------------------------------------------------------------------------------*/

static size_t queued(const htc_watch *w)
{
    int n = 0;

    return sys_ioctl(w->fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* The meaning of an unexpected event is not known, but it shows that a watch has ended. */
static void publish_one(htc_watch *w, const struct inotify_event *event, const char *name)
{
    if (event->mask & IN_Q_OVERFLOW) {
        htc_count(w->store, HTC_C_overflows, 1);
        distrust_because(w, HTC_TROUBLE_OVERFLOW);
        return;
    }
    if (event->mask & ~(uint32_t)HTCW_EVENTS)
        distrust_because(w, HTC_TROUBLE_UNKNOWN);
    if (event->mask & IN_UNMOUNT) {
        note_trouble(w, HTC_TROUBLE_UNMOUNT);
        /* The kernel may give its number to the next file system that is mounted. */
        memset(w->header->devices, 0, sizeof(w->header->devices));
    }
    htcw_event(w, event->wd, event->mask, name);
}

/* Publish what was read. Returns how many events that were. */
static unsigned publish(htc_watch *w, const char *bytes, size_t len)
{
    unsigned n = 0;

    for (size_t at = 0; at + sizeof(struct inotify_event) <= len; n++) {
        struct inotify_event event;

        memcpy(&event, bytes + at, sizeof(event));
        at += sizeof(event);
        publish_one(w, &event, event.len ? bytes + at : NULL);
        at += event.len;
    }
    return n;
}

/* Take some of what is in the queue, at most *left bytes, and publish it. Not more of it is known
 * to this process alone than it publishes before it gives the lock back. */
static void take(htc_watch *w, size_t *left)
{
    _Alignas(struct inotify_event) char bytes[HTCW_READ_BYTES];
    ssize_t n;

    atomic_store(&w->header->busy, 1);
    HTC_POINT("busy");
    n = sys_read(w->fd, bytes, sizeof(bytes));
    HTC_POINT("read");
    if (n > 0)
        htc_count(w->store, HTC_C_events, publish(w, bytes, (size_t)n));
    HTC_POINT("published");
    *left = n > 0 && (size_t)n < *left ? *left - (size_t)n : 0;
}

/* One turn: what was published before and is not yet all doomed, else some of the queue. False when
 * all is published. */
static bool publish_some(htc_watch *w, size_t *left)
{
    if (!htcw_doom_some(w))
        return true;
    if (*left) {
        take(w, left);
        return true;
    }
    atomic_store(&w->header->busy, 0);
    return false;
}

/* True when there is something to publish, or a process is publishing. */
static inline bool anything(const htc_watch *w)
{
    return queued(w) || atomic_load(&w->header->busy);
}

/* Others may have much to publish, and take turn after turn. They are waited for while they go on;
 * only one that does not is a reason to rely on nothing. */
static bool lock_in_turn(htc_watch *w)
{
    for (int n = 0; n < TURN_WAITS; n++) {
        if (htcw_lock(w, true))
            return true;
        if (htc_lock_stuck(&w->lock) || !anything(w))
            return false;
    }
    return false;
}

/* A process is publishing, or there is something to publish: in turns, so that no process waits
 * for the lock longer than one turn takes. What others add to the queue meanwhile is for their
 * own requests. A process that cannot find out makes every record unverified. */
static HTC_APART void drain(htc_watch *w)
{
    size_t left = queued(w);
    /* A node is doomed again only when a request had it watched again, which takes much longer. A
     * drain that needs more turns goes in circles. */
    size_t turns = left / (HTCW_READ_BYTES / 2) + 4 * (w->nnodes / (HTCW_STEP / 8) + 2);
    bool more;

    do {
        if (!lock_in_turn(w)) {
            if (anything(w)) /* else others were at it all the time, and are done */
                distrust_because(w, HTC_TROUBLE_HANG);
            return;
        }
        more = publish_some(w, &left);
        if (!turns--)
            w->damaged = true;
        htcw_unlock(w);
    } while (more && turns + 1);
    htc_count(w->store, HTC_C_drains, 1);
}

HTC_EACH void htc_watch_drain(htc_watch *watch)
{
    /* A watch is entered before what it is for is looked at, so without any nothing is trusted. */
    if (!atomic_load(&watch->header->last_wd))
        return;
    if (anything(watch))
        drain(watch);
}

/* --- entering ---------------------------------------------------------------------------------*/

typedef struct entry {
    uint32_t entered;
    uint64_t version;
    bool same;  /* it was entered there already */
    bool whole; /* see htc_watch_word() */
} entry;

/* Versions count up: a record that was replaced meanwhile must not hide its successor. */
static htc_watch_why enter_record(htc_watch *w, uint32_t index, void *data)
{
    htcw_node *node = htcw_at(w, index);
    entry *e = data;

    if (node->entered != HTCW_NIL && node->version > e->version)
        return HTC_WATCH_AGAIN;
    e->same = node->entered == e->entered && node->version == e->version;
    node->version = e->version;
    HTC_POINT("version");
    node->entered = e->entered;
    return HTC_WATCH_OK;
}

/* What a chain of links leads to. */
static const htcw_node *behind_links(htc_watch *w, uint32_t index)
{
    const htcw_node *node = htcw_at(w, index);

    for (int n = 0; n < HTCW_MAX_LINKS && node->target != HTCW_NIL; n++)
        node = htcw_at(w, node->target);
    return node;
}

/* A path has one record, but any number of words: each has a node of its own below the path's, and
 * is doomed with it. */
static htc_watch_why enter_word(htc_watch *w, uint32_t index, void *data)
{
    entry *e = data;
    uint32_t child = htcw_word_node(w, index, e->entered & ~HTCW_WORD);
    htcw_node *node;

    if (child == HTCW_NIL)
        return HTC_WATCH_FULL;
    node = htcw_at(w, child);
    e->whole = behind_links(w, index)->flags & HTCW_WHOLE;
    node->entered = e->entered;
    HTC_POINT("word");
    node->since = htc_mono_ms();
    node->epoch = htcw_at(w, index)->epoch;
    return HTC_WATCH_OK;
}

static htc_watch_why enter(htc_watch *w, const char *path, htcw_finish *finish, entry *e,
                           bool *known)
{
    htc_watch_why why = htcw_settle(w, path, known, finish, e);

    *known = *known && e->same;
    if (why > HTC_WATCH_AGAIN)
        atomic_fetch_add(&w->header->failures[why], 1);
    return why;
}

htc_watch_why htc_watch_record(htc_watch *watch, const char *path, htc_ref ref, bool *known)
{
    entry e = {ref.slot & ~HTCW_WORD, ref.version, false, false};

    return enter(watch, path, enter_record, &e, known);
}

htc_watch_why htc_watch_word(htc_watch *watch, const char *path, uint32_t word, bool *whole)
{
    entry e = {word % HTC_WATCH_WORDS | HTCW_WORD, 0, false, false};
    bool known;
    htc_watch_why why = enter(watch, path, enter_word, &e, &known);

    *whole = e.whole;
    return why;
}

/* --- the sweep --------------------------------------------------------------------------------*/

void htc_watch_sweep(htc_watch *watch, int64_t now)
{
    htcw_header *header = watch->header;
    int64_t seen = atomic_load_explicit(&header->swept_at, memory_order_relaxed);
    htcw_sweep sweep;
    bool more;

    if (htcw_age(now, seen) < 1000 ||
        !atomic_compare_exchange_strong(&header->swept_at, &seen, now))
        return;
    if (!htcw_lock(watch, false))
        return;
    htcw_sweep_begin(watch, &sweep, now);
    do {
        more = htcw_sweep_some(watch, &sweep);
        htcw_unlock(watch);
    } while (more && htcw_lock(watch, false));
}

/* --- large pages ------------------------------------------------------------------------------*/

/* Nodes are taken in their order. The last large page is worth it when a quarter of it is empty. */
bool htc_watch_enlarge_pages(htc_watch *watch)
{
    uint32_t fresh = *(volatile uint32_t *)&watch->header->fresh;
    uint32_t n = fresh < watch->nnodes ? fresh : watch->nnodes;
    size_t used = (size_t)((unsigned char *)&watch->nodes[n] - (unsigned char *)watch->base);
    size_t whole = (used + HTC_LARGE_PAGE / 4) / HTC_LARGE_PAGE * HTC_LARGE_PAGE;

    if (whole > watch->bytes)
        whole -= HTC_LARGE_PAGE;
    if (whole > watch->enlarged) {
        bool large = htc_pages_enlarge((unsigned char *)watch->base + watch->enlarged,
                                       whole - watch->enlarged);

        watch->large = watch->enlarged ? watch->large : large;
        watch->enlarged = whole;
    }
    return watch->large;
}

void htc_watch_meet_page(const htc_watch *watch)
{
    htc_pages_meet(watch->base, HTC_LARGE_PAGE);
}

/* --- figures ----------------------------------------------------------------------------------*/

void htc_watch_stats_get(const htc_watch *watch, htc_watch_stats *stats)
{
    const htcw_header *header = watch->header;

    stats->watches = atomic_load(&header->watches);
    stats->watches_limit = watch->limit;
    stats->nodes = atomic_load(&header->used);
    stats->bytes = stats->nodes * (sizeof(htcw_node) + 2 * sizeof(uint32_t));
    for (int i = 0; i < HTC_WATCH_WHYS; i++)
        stats->failures[i] = atomic_load(&header->failures[i]);
}

bool htc_watch_first(htc_watch *watch, htc_watch_why why)
{
    return !atomic_exchange(&watch->header->told[why], 1);
}

bool htc_watch_refused(htc_watch *watch, htc_watch_refusal *refusal)
{
    for (int i = 0; i < HTCW_DEVICES; i++) {
        htcw_refused *one = &watch->header->refused[i];
        uint32_t unlogged = HTCW_UNLOGGED;

        if (atomic_compare_exchange_strong(&one->logged, &unlogged, HTCW_LOGGED)) {
            *refusal = one->what;
            refusal->at[sizeof(refusal->at) - 1] = '\0';
            return true;
        }
    }
    return false;
}

size_t htc_watch_refusals(const htc_watch *watch, htc_watch_refusal *refusals, size_t max)
{
    size_t n = 0;

    for (int i = 0; i < HTCW_DEVICES && n < max; i++) {
        const htcw_refused *one = &watch->header->refused[i];

        if (atomic_load(&one->logged) == HTCW_EMPTY)
            continue;
        refusals[n] = one->what;
        refusals[n++].at[sizeof(refusals->at) - 1] = '\0';
    }
    return n;
}
