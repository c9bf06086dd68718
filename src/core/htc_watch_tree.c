/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is watched: a tree of nodes in shared memory, one for each path as it is written. Called by
 * htc_watch.c and htc_watch_settle.c, under the lock.
 *
 * A valid node's parent is valid, and so is the node that its symbolic link leads to; so whatever
 * hangs on an invalid node is invalid as well, and making a node invalid ends at those that are.
 */
#include "htc_watch_private.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* --- lists and buckets ------------------------------------------------------------------------*/

uint64_t htcw_name_hash(const htc_watch *w, const char *name, size_t len)
{
    return XXH3_64bits_withSeed(name, len, w->seed);
}

static uint32_t *name_bucket(const htc_watch *w, uint32_t parent, uint64_t name)
{
    uint64_t h = (name ^ parent * UINT64_C(0x9E3779B97F4A7C15)) * UINT64_C(0xC2B2AE3D27D4EB4F);

    return &w->names[(h >> 32) & (w->nbuckets - 1)];
}

static uint32_t *wd_bucket(const htc_watch *w, int32_t wd)
{
    return &w->wds[(uint32_t)wd * 2654435761U >> 4 & (w->nbuckets - 1)];
}

/* Bucket heads are 0 when empty. */
static uint32_t head_of(const uint32_t *bucket)
{
    return *bucket - 1;
}

uint32_t htcw_find_child(const htc_watch *w, uint32_t parent, uint64_t name)
{
    uint32_t i = head_of(name_bucket(w, parent, name));

    while (i != HTCW_NIL && (w->nodes[i].parent != parent || w->nodes[i].name != name))
        i = w->nodes[i].name_next;
    return i;
}

/* The first node from i on that has this wd. */
static uint32_t with_wd(const htc_watch *w, uint32_t i, int32_t wd)
{
    while (i != HTCW_NIL && w->nodes[i].wd != wd)
        i = w->nodes[i].wd_next;
    return i;
}

uint32_t htcw_first_with_wd(const htc_watch *w, int32_t wd)
{
    return with_wd(w, head_of(wd_bucket(w, wd)), wd);
}

bool htcw_settled(const htc_watch *w, const htcw_node *n)
{
    return n->epoch == atomic_load_explicit(&w->header->epoch, memory_order_relaxed);
}

/* --- nodes ------------------------------------------------------------------------------------*/

static void add_sibling(htc_watch *w, uint32_t parent, uint32_t i)
{
    htcw_node *n = &w->nodes[i];
    uint32_t *head = &w->nodes[parent].children;

    n->sibling = (htcw_links){HTCW_NIL, *head};
    if (*head != HTCW_NIL)
        w->nodes[*head].sibling.prev = i;
    HTCW_CRASH_POINT("sibling");
    *head = i;
}

static void remove_sibling(htc_watch *w, uint32_t i)
{
    htcw_links links = w->nodes[i].sibling;

    if (links.prev == HTCW_NIL)
        w->nodes[w->nodes[i].parent].children = links.next;
    else
        w->nodes[links.prev].sibling.next = links.next;
    if (links.next != HTCW_NIL)
        w->nodes[links.next].sibling.prev = links.prev;
}

void htcw_set_target(htc_watch *w, uint32_t i, uint32_t target)
{
    htcw_node *n = &w->nodes[i];

    if (n->target == target)
        return;
    if (n->target != HTCW_NIL) {
        if (n->linker.prev == HTCW_NIL)
            w->nodes[n->target].linkers = n->linker.next;
        else
            w->nodes[n->linker.prev].linker.next = n->linker.next;
        if (n->linker.next != HTCW_NIL)
            w->nodes[n->linker.next].linker.prev = n->linker.prev;
    }
    HTCW_CRASH_POINT("target");
    n->target = target;
    if (target == HTCW_NIL)
        return;
    n->linker = (htcw_links){HTCW_NIL, w->nodes[target].linkers};
    if (n->linker.next != HTCW_NIL)
        w->nodes[n->linker.next].linker.prev = i;
    w->nodes[target].linkers = i;
}

static void unlink_wd(htc_watch *w, uint32_t i)
{
    uint32_t *bucket = wd_bucket(w, w->nodes[i].wd), at = head_of(bucket);

    if (at == i) {
        *bucket = w->nodes[i].wd_next + 1;
    } else {
        while (w->nodes[at].wd_next != i)
            at = w->nodes[at].wd_next;
        w->nodes[at].wd_next = w->nodes[i].wd_next;
    }
    w->nodes[i].wd = -1;
}

static void count_watches(htc_watch *w, int64_t n)
{
    atomic_fetch_add_explicit(&w->header->watches, (uint64_t)n, memory_order_relaxed);
}

/* The node is not at this wd any more. @a gone: neither is the kernel. */
void htcw_drop_wd(htc_watch *w, uint32_t i, bool gone)
{
    int32_t wd = w->nodes[i].wd;

    if (wd < 0)
        return;
    unlink_wd(w, i);
    if (htcw_first_with_wd(w, wd) != HTCW_NIL)
        return;
    if (!gone)
        inotify_rm_watch(w->fd, wd);
    count_watches(w, -1);
}

void htcw_set_wd(htc_watch *w, uint32_t i, int32_t wd)
{
    htcw_node *n = &w->nodes[i];
    uint32_t *bucket = wd_bucket(w, wd);

    if (n->wd == wd)
        return;
    if (htcw_first_with_wd(w, wd) == HTCW_NIL)
        count_watches(w, 1);
    htcw_drop_wd(w, i, false);
    HTCW_CRASH_POINT("wd");
    n->wd = wd;
    n->wd_next = head_of(bucket);
    *bucket = i + 1;
    if (wd > atomic_load(&w->header->last_wd))
        atomic_store(&w->header->last_wd, wd);
}

static uint32_t take_node(htc_watch *w)
{
    htcw_header *header = w->header;
    uint32_t i = header->free;

    if (i != HTCW_NIL)
        header->free = w->nodes[i].name_next;
    else if (header->fresh < w->nnodes)
        i = header->fresh++;
    else
        return HTCW_NIL;
    atomic_fetch_add_explicit(&header->used, 1, memory_order_relaxed);
    return i;
}

uint32_t htcw_add_node(htc_watch *w, uint32_t parent, uint64_t name)
{
    uint32_t i = take_node(w), *bucket = name_bucket(w, parent, name);
    htcw_node *n;

    if (i == HTCW_NIL)
        return HTCW_NIL;
    n = &w->nodes[i];
    *n = (htcw_node){.name = name,
                     .epoch = HTCW_INVALID | ++w->header->invalids,
                     .entered = HTCW_NIL,
                     .wd = -1,
                     .parent = parent,
                     .target = HTCW_NIL,
                     .children = HTCW_NIL,
                     .linkers = HTCW_NIL,
                     .name_next = head_of(bucket),
                     .wd_next = HTCW_NIL};
    HTCW_CRASH_POINT("node");
    *bucket = i + 1;
    if (i != HTCW_ROOT)
        add_sibling(w, parent, i);
    return i;
}

static void unlink_name(htc_watch *w, uint32_t i)
{
    const htcw_node *n = &w->nodes[i];
    uint32_t *bucket = name_bucket(w, n->parent, n->name), at = head_of(bucket);

    if (at == i) {
        *bucket = n->name_next + 1;
        return;
    }
    while (w->nodes[at].name_next != i)
        at = w->nodes[at].name_next;
    w->nodes[at].name_next = n->name_next;
}

/* A node without children and linkers. */
static void free_node(htc_watch *w, uint32_t i)
{
    htcw_drop_wd(w, i, false);
    htcw_set_target(w, i, HTCW_NIL);
    remove_sibling(w, i);
    HTCW_CRASH_POINT("free");
    unlink_name(w, i);
    w->nodes[i].parent = HTCW_NIL;
    w->nodes[i].name_next = w->header->free;
    w->header->free = i;
    atomic_fetch_sub_explicit(&w->header->used, 1, memory_order_relaxed);
}

void htcw_reset(htc_watch *w)
{
    htcw_header *header = w->header;

    for (uint32_t i = 0; i < header->fresh; i++) {
        if (w->nodes[i].parent != HTCW_NIL && w->nodes[i].wd >= 0)
            inotify_rm_watch(w->fd, w->nodes[i].wd);
    }
    header->free = HTCW_NIL;
    header->fresh = header->hand = header->net_hand = 0;
    atomic_store(&header->used, 0);
    atomic_store(&header->watches, 0);
    memset(w->names, 0, w->nbuckets * sizeof(*w->names));
    memset(w->wds, 0, w->nbuckets * sizeof(*w->wds));
    /* Its parent is no node, but it must not look free. */
    htcw_add_node(w, HTCW_ROOT, 0);
}

/* --- dooming ----------------------------------------------------------------------------------*/

/* Where the mark of what is entered lies; NULL when it is gone. */
static _Atomic int64_t *mark_of(const htc_watch *w, const htcw_node *n)
{
    htc_slot_hot *hot;

    if (n->entered == HTCW_NIL)
        return NULL;
    if (n->entered & HTCW_WORD)
        return htc_watch_word_at(w, n->entered & ~HTCW_WORD);
    hot = htc_store_slot(w->store, n->entered);
    return atomic_load(&hot->version) == n->version ? &hot->checked_at : NULL;
}

static void doubt(htc_watch *w, const htcw_node *n)
{
    _Atomic int64_t *mark = mark_of(w, n);

    if (mark)
        atomic_store(mark, htc_watch_doubt(w));
}

/* A number for an invalid node that no node ever had. */
static uint64_t invalid(htc_watch *w)
{
    return HTCW_INVALID | ++w->header->invalids;
}

/* Whatever this node leads to may have changed. Who is looking at it, or at a child of a node that
 * was valid, sees by the number that what was seen is not to be relied on. */
void htcw_doom(htc_watch *w, uint32_t i)
{
    htcw_node *n = &w->nodes[i];
    bool was_valid = !(n->epoch & HTCW_INVALID);

    n->epoch = invalid(w);
    if (!was_valid)
        return;
    n->since = htc_mono_ms();
    doubt(w, n);
    HTCW_CRASH_POINT("doom");
    for (uint32_t c = n->children; c != HTCW_NIL; c = w->nodes[c].sibling.next)
        htcw_doom(w, c);
    for (uint32_t l = n->linkers; l != HTCW_NIL; l = w->nodes[l].linker.next)
        htcw_doom(w, l);
}

/* The kernel has given the watch up. */
static void wd_gone(htc_watch *w, int32_t wd)
{
    for (uint32_t i = htcw_first_with_wd(w, wd); i != HTCW_NIL; i = htcw_first_with_wd(w, wd)) {
        htcw_doom(w, i);
        htcw_drop_wd(w, i, true);
    }
}

void htcw_event(htc_watch *w, int32_t wd, uint32_t mask, const char *name)
{
    uint64_t hash = name ? htcw_name_hash(w, name, strlen(name)) : 0;
    uint32_t i = htcw_first_with_wd(w, wd);

    /* Added by a process that has not entered it yet, or has died; who has not will see that it is
     * gone. What was given up may still report. */
    if (i == HTCW_NIL && !(mask & IN_IGNORED))
        inotify_rm_watch(w->fd, wd);
    for (; i != HTCW_NIL; i = with_wd(w, w->nodes[i].wd_next, wd)) {
        uint32_t child = name ? htcw_find_child(w, i, hash) : i;

        if (child != HTCW_NIL)
            htcw_doom(w, child);
    }
    if (mask & IN_IGNORED) {
        w->header->gone[w->header->ngone++ % HTCW_GONE] = wd;
        wd_gone(w, wd);
    }
}

/* --- the sweep --------------------------------------------------------------------------------*/

static bool needed(const htc_watch *w, const htcw_node *n, int64_t now)
{
    int64_t keep = n->why ? HTC_WATCH_RETRY_MS : HTC_WATCH_KEEP_MS;

    return n->children != HTCW_NIL || n->linkers != HTCW_NIL || now - n->since < keep ||
           (htcw_settled(w, n) && mark_of(w, n));
}

static void give_up_some(htc_watch *w, int64_t now)
{
    htcw_header *header = w->header;
    uint32_t n = header->fresh < HTCW_SWEEP_NODES ? header->fresh : HTCW_SWEEP_NODES;

    for (; n; n--) {
        uint32_t i = header->hand < header->fresh ? header->hand : 0;

        header->hand = i + 1;
        if (i != HTCW_ROOT && w->nodes[i].parent != HTCW_NIL && !needed(w, &w->nodes[i], now))
            free_node(w, i);
    }
}

/* Each trusted entry about every HTC_WATCH_NET_MS, unless they are too many. */
static void doubt_some(htc_watch *w)
{
    htcw_header *header = w->header;
    uint32_t due = header->fresh / (HTC_WATCH_NET_MS / 1000) + 1;
    uint32_t looks = due < HTC_WATCH_NET_RATE ? due : HTCW_SWEEP_NODES;
    int64_t fresh = htc_watch_fresh(w);

    if (due > HTC_WATCH_NET_RATE)
        due = HTC_WATCH_NET_RATE;
    if (looks > header->fresh)
        looks = header->fresh;
    for (; looks && due; looks--) {
        uint32_t i = header->net_hand < header->fresh ? header->net_hand : 0;
        _Atomic int64_t *mark;
        int64_t seen;

        header->net_hand = i + 1;
        if (w->nodes[i].parent == HTCW_NIL)
            continue;
        mark = mark_of(w, &w->nodes[i]);
        seen = mark ? atomic_load(mark) : 0;
        /* A word's mark has the word's number above the epoch. */
        if (seen >= HTC_MARK_WATCHED && !((uint64_t)(seen - fresh) << (64 - HTCW_EPOCH_BITS))) {
            atomic_compare_exchange_strong(mark, &seen, htc_watch_doubt(w));
            due--;
        }
    }
}

/* A process was killed after the kernel had given it a watch and before that was entered. The
 * kernel counts up, so it has one of the numbers since then. One that somebody else is about to
 * enter may go, too: that is noticed there. */
static void give_up_unentered(htc_watch *w)
{
    htcw_header *header = w->header;

    for (int i = 0; i < HTCW_ADDING; i++) {
        htcw_adding *adding = &header->adding[i];
        int32_t end = header->last_wd + HTCW_ADDING;

        if (!adding->pid || kill(adding->pid, 0) == 0 || errno != ESRCH)
            continue;
        for (int32_t wd = adding->after + 1; wd <= end && wd - adding->after < 10000; wd++) {
            if (htcw_first_with_wd(w, wd) == HTCW_NIL)
                inotify_rm_watch(w->fd, wd);
        }
        adding->pid = 0;
    }
}

void htcw_sweep(htc_watch *w, int64_t now)
{
    give_up_unentered(w);
    give_up_some(w, now);
    doubt_some(w);
}
