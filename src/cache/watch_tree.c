/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What is watched: a tree of nodes in shared memory, one for each path as it is written. Called by
 * cache/watch.c and cache/watch_settle.c, under the lock.
 *
 * A valid node's parent is valid, and so is the node that its symbolic link leads to. So whatever
 * hangs on an invalid node is invalid as well, or will be when the list of doomed nodes has been
 * worked off. That is done in bounded steps, and `busy` is set until it is done: no request uses a
 * record before. A node of the list may become valid again meanwhile; what hangs on it is doomed
 * all the same.
 */
#include "cache/watch_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* --- lists and buckets ------------------------------------------------------------------------*/

static const htcw_node no_node = {.epoch = HTCW_INVALID,
                                  .entered = HTCW_NIL,
                                  .wd = -1,
                                  .parent = HTCW_NIL,
                                  .target = HTCW_NIL,
                                  .children = HTCW_NIL,
                                  .linkers = HTCW_NIL,
                                  .sibling = {HTCW_NIL, HTCW_NIL},
                                  .linker = {HTCW_NIL, HTCW_NIL},
                                  .name_next = HTCW_NIL,
                                  .peer = {HTCW_NIL, HTCW_NIL},
                                  .wd_next = HTCW_NIL,
                                  .doom_next = HTCW_NIL,
                                  .doom_child = HTCW_NIL,
                                  .doom_linker = HTCW_NIL};

htcw_node *htcw_at(htc_watch *w, uint32_t i)
{
    /* Somebody may write to where the number comes from: it is read once. */
    const volatile uint32_t once = i;
    uint32_t index = once;

    if (index < w->nnodes && !w->damaged && w->visits++ < HTCW_MOST_VISITS)
        return &w->nodes[index];
    w->damaged = true;
    w->nowhere = no_node;
    return &w->nowhere;
}

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

uint32_t htcw_find_child(htc_watch *w, uint32_t parent, uint64_t name)
{
    uint32_t i = head_of(name_bucket(w, parent, name));

    while (i != HTCW_NIL) {
        const htcw_node *n = htcw_at(w, i);

        if (n->parent == parent && n->name == name)
            break;
        i = n->name_next;
    }
    return i;
}

/* A bucket's list has the first node of each watch; the others hang on that. */
uint32_t htcw_first_with_wd(htc_watch *w, int32_t wd)
{
    uint32_t i = head_of(wd_bucket(w, wd));

    while (i != HTCW_NIL) {
        const htcw_node *n = htcw_at(w, i);

        if (n->wd == wd)
            break;
        i = n->wd_next;
    }
    return i;
}

bool htcw_settled(const htc_watch *w, const htcw_node *n)
{
    return n->epoch == htcw_epoch(w);
}

/* --- nodes ------------------------------------------------------------------------------------*/

static void add_sibling(htc_watch *w, uint32_t parent, uint32_t i)
{
    htcw_node *n = htcw_at(w, i), *p = htcw_at(w, parent);

    n->sibling = (htcw_links){HTCW_NIL, p->children};
    if (n->sibling.next != HTCW_NIL)
        htcw_at(w, n->sibling.next)->sibling.prev = i;
    HTC_POINT("sibling");
    p->children = i;
}

static void remove_sibling(htc_watch *w, uint32_t i)
{
    const htcw_node *n = htcw_at(w, i);
    htcw_node *parent = htcw_at(w, n->parent);
    htcw_links links = n->sibling;

    if (parent->doom_child == i)
        parent->doom_child = links.next;
    if (links.prev == HTCW_NIL)
        parent->children = links.next;
    else
        htcw_at(w, links.prev)->sibling.next = links.next;
    if (links.next != HTCW_NIL)
        htcw_at(w, links.next)->sibling.prev = links.prev;
}

static void remove_target(htc_watch *w, uint32_t i)
{
    htcw_node *n = htcw_at(w, i), *target = htcw_at(w, n->target);
    htcw_links links = n->linker;

    if (target->doom_linker == i)
        target->doom_linker = links.next;
    if (links.prev == HTCW_NIL)
        target->linkers = links.next;
    else
        htcw_at(w, links.prev)->linker.next = links.next;
    if (links.next != HTCW_NIL)
        htcw_at(w, links.next)->linker.prev = links.prev;
    target->nlinkers--;
    n->target = HTCW_NIL;
}

bool htcw_set_target(htc_watch *w, uint32_t i, uint32_t target)
{
    htcw_node *n = htcw_at(w, i), *t;

    if (n->target == target)
        return true;
    if (n->target != HTCW_NIL)
        remove_target(w, i);
    HTC_POINT("target");
    if (target == HTCW_NIL)
        return true;
    t = htcw_at(w, target);
    if (t->nlinkers >= HTCW_PEERS)
        return false;
    t->nlinkers++;
    n->target = target;
    n->linker = (htcw_links){HTCW_NIL, t->linkers};
    if (n->linker.next != HTCW_NIL)
        htcw_at(w, n->linker.next)->linker.prev = i;
    t->linkers = i;
    return true;
}

/* In the list of a bucket of watches, node @a with takes the place of node i, or its successor. */
static void replace_first(htc_watch *w, uint32_t i, uint32_t with)
{
    const htcw_node *n = htcw_at(w, i);
    uint32_t *bucket = wd_bucket(w, n->wd), at = head_of(bucket);

    if (with == HTCW_NIL)
        with = n->wd_next;
    else
        htcw_at(w, with)->wd_next = n->wd_next;
    if (at == i) {
        *bucket = with + 1;
        return;
    }
    while (at != HTCW_NIL && htcw_at(w, at)->wd_next != i)
        at = htcw_at(w, at)->wd_next;
    htcw_at(w, at)->wd_next = with;
}

static void unlink_wd(htc_watch *w, uint32_t i)
{
    htcw_node *n = htcw_at(w, i);
    htcw_links links = n->peer;

    if (links.next != HTCW_NIL)
        htcw_at(w, links.next)->peer.prev = links.prev;
    if (links.prev != HTCW_NIL) {
        htcw_at(w, links.prev)->peer.next = links.next;
        htcw_at(w, htcw_first_with_wd(w, n->wd))->npeers--;
    } else {
        if (links.next != HTCW_NIL)
            htcw_at(w, links.next)->npeers = (uint16_t)(n->npeers - 1);
        replace_first(w, i, links.next);
    }
    n->wd = -1;
}

static void count_watches(htc_watch *w, int64_t n)
{
    atomic_fetch_add_explicit(&w->header->watches, (uint64_t)n, memory_order_relaxed);
}

/* The node is not at this wd any more. @a gone: neither is the kernel. */
void htcw_drop_wd(htc_watch *w, uint32_t i, bool gone)
{
    int32_t wd = htcw_at(w, i)->wd;

    if (wd < 0)
        return;
    unlink_wd(w, i);
    if (htcw_first_with_wd(w, wd) != HTCW_NIL)
        return;
    if (!gone)
        sys_inotify_rm_watch(w->fd, wd);
    count_watches(w, -1);
}

/* Behind the first node with this watch, or as the first. */
static void link_wd(htc_watch *w, uint32_t i, int32_t wd, uint32_t first)
{
    htcw_node *n = htcw_at(w, i), *f;

    n->wd = wd;
    n->npeers = 1;
    n->peer = (htcw_links){HTCW_NIL, HTCW_NIL};
    if (first == HTCW_NIL) {
        uint32_t *bucket = wd_bucket(w, wd);

        n->wd_next = head_of(bucket);
        *bucket = i + 1;
        count_watches(w, 1);
        return;
    }
    f = htcw_at(w, first);
    n->peer = (htcw_links){first, f->peer.next};
    if (n->peer.next != HTCW_NIL)
        htcw_at(w, n->peer.next)->peer.prev = i;
    f->peer.next = i;
    f->npeers++;
}

bool htcw_set_wd(htc_watch *w, uint32_t i, int32_t wd)
{
    uint32_t first;

    if (htcw_at(w, i)->wd == wd)
        return true;
    htcw_drop_wd(w, i, false);
    HTC_POINT("wd");
    first = htcw_first_with_wd(w, wd);
    if (first != HTCW_NIL && htcw_at(w, first)->npeers >= HTCW_PEERS)
        return false;
    link_wd(w, i, wd, first);
    if (wd > atomic_load(&w->header->last_wd))
        atomic_store(&w->header->last_wd, wd);
    return true;
}

/* --- owners -----------------------------------------------------------------------------------*/

static uint32_t *owned(const htc_watch *w, uint16_t owner)
{
    return &w->header->owned[owner % HTCW_OWNERS];
}

/* The last quarter is for owners that have less than a quarter. */
static bool has_share(uint64_t own, uint64_t used, uint64_t all)
{
    return own >= all / 4 && used >= all - all / 4;
}

/* What is root's is shared by all. */
static bool owner_has_share(const htc_watch *w, uint16_t owner)
{
    const htcw_header *header = w->header;
    uint64_t own = *owned(w, owner);

    return owner && (has_share(own, atomic_load(&header->used), w->nnodes) ||
                     (w->limit && has_share(own, atomic_load(&header->watches), w->limit)));
}

void htcw_set_owner(htc_watch *w, uint32_t i, uint32_t uid)
{
    htcw_node *n = htcw_at(w, i);
    uint16_t owner = htcw_at(w, n->parent)->owner;

    if (!owner && uid)
        owner = (uint16_t)(1 + uid % (HTCW_OWNERS - 1));
    if (owner == n->owner)
        return;
    --*owned(w, n->owner);
    ++*owned(w, owner);
    n->owner = owner;
}

static uint32_t take_node(htc_watch *w)
{
    htcw_header *header = w->header;
    uint32_t i = header->free;

    if (i != HTCW_NIL) {
        const htcw_node *n = htcw_at(w, i);

        if (n->parent != HTCW_NIL)
            w->damaged = true;
        header->free = n->name_next;
    } else if (header->fresh < w->nnodes) {
        i = header->fresh++;
    } else {
        return HTCW_NIL;
    }
    atomic_fetch_add_explicit(&header->used, 1, memory_order_relaxed);
    return i;
}

/* A number for an invalid node that no node ever had. */
static uint64_t invalid(htc_watch *w)
{
    return HTCW_INVALID | ++w->header->invalids;
}

static uint32_t add_node(htc_watch *w, uint32_t parent, uint64_t name, uint16_t owner)
{
    uint32_t i = take_node(w), *bucket = name_bucket(w, parent, name);
    htcw_node *n;

    if (i == HTCW_NIL)
        return HTCW_NIL;
    n = htcw_at(w, i);
    *n = no_node;
    n->name = name;
    n->epoch = invalid(w);
    n->parent = parent;
    n->owner = owner;
    n->name_next = head_of(bucket);
    ++*owned(w, owner);
    HTC_POINT("node");
    *bucket = i + 1;
    return i;
}

uint32_t htcw_add_node(htc_watch *w, uint32_t parent, uint64_t name)
{
    uint16_t owner = htcw_at(w, parent)->owner;
    uint32_t i = owner_has_share(w, owner) ? HTCW_NIL : add_node(w, parent, name, owner);

    if (i != HTCW_NIL)
        add_sibling(w, parent, i);
    return i;
}

/* A name with a slash is no file's. */
uint32_t htcw_word_node(htc_watch *w, uint32_t i, uint32_t word)
{
    char text[16];
    uint64_t name = htcw_name_hash(w, text, (size_t)snprintf(text, sizeof(text), "/%u", word));
    uint32_t child = htcw_find_child(w, i, name);

    return child == HTCW_NIL ? htcw_add_node(w, i, name) : child;
}

static void unlink_name(htc_watch *w, uint32_t i)
{
    const htcw_node *n = htcw_at(w, i);
    uint32_t *bucket = name_bucket(w, n->parent, n->name), at = head_of(bucket);

    if (at == i) {
        *bucket = n->name_next + 1;
        return;
    }
    while (at != HTCW_NIL && htcw_at(w, at)->name_next != i)
        at = htcw_at(w, at)->name_next;
    htcw_at(w, at)->name_next = n->name_next;
}

/* A node without children and linkers, and not HTCW_DOOMING. A process that is looking at it sees by
 * the number that it is another one. */
static void free_node(htc_watch *w, uint32_t i)
{
    htcw_node *n = htcw_at(w, i);

    htcw_drop_wd(w, i, false);
    if (n->target != HTCW_NIL)
        remove_target(w, i);
    remove_sibling(w, i);
    HTC_POINT("free");
    unlink_name(w, i);
    --*owned(w, n->owner);
    n->epoch = invalid(w);
    n->parent = HTCW_NIL;
    n->name_next = w->header->free;
    w->header->free = i;
    atomic_fetch_sub_explicit(&w->header->used, 1, memory_order_relaxed);
}

/* --- watches that no node knows ---------------------------------------------------------------*/

/* The kernel counts up, so what may be unknown lies between two numbers. */
static void note_strays(htcw_header *header, int32_t after)
{
    int64_t end = (int64_t)header->last_wd + HTCW_ADDING;

    if (after < 0)
        after = 0;
    if (header->stray < 0 || header->stray >= header->stray_end || after < header->stray)
        header->stray = after;
    if (end > INT32_MAX)
        end = INT32_MAX;
    if (end > header->stray_end)
        header->stray_end = (int32_t)end;
}

/* One of them. One that another process is about to enter may go, too: that is noticed there. */
static void give_up_stray(htc_watch *w)
{
    int32_t wd = ++w->header->stray;

    w->visits++;
    if (wd > 0 && htcw_first_with_wd(w, wd) == HTCW_NIL)
        sys_inotify_rm_watch(w->fd, wd);
}

static bool any_stray(const htcw_header *header)
{
    return header->stray >= 0 && header->stray < header->stray_end;
}

/* A process was killed after the kernel had given it a watch and before that was entered. */
static void note_dead_adders(htcw_header *header)
{
    for (int i = 0; i < HTCW_ADDING; i++) {
        htcw_adding *adding = &header->adding[i];

        if (adding->pid > 0 && sys_kill(adding->pid, 0) != 0 && errno == ESRCH) {
            note_strays(header, adding->after);
            adding->pid = 0;
        }
    }
}

void htcw_reset(htc_watch *w)
{
    htcw_header *header = w->header;

    w->damaged = false;
    w->visits = 0;
    header->free = header->doomed = HTCW_NIL;
    header->fresh = header->hand = header->net_hand = 0;
    atomic_store(&header->used, 0);
    atomic_store(&header->watches, 0);
    memset(header->owned, 0, sizeof(header->owned));
    memset(header->devices, 0, sizeof(header->devices));
    if (!w->untouched) {
        memset(w->names, 0, w->nbuckets * sizeof(*w->names));
        memset(w->wds, 0, w->nbuckets * sizeof(*w->wds));
    }
    w->untouched = false;
    /* Its parent is no node, but it must not look free. */
    add_node(w, HTCW_ROOT, 0, 0);
    header->stray_end = 0;
    note_strays(header, 0);
    while (any_stray(header) && w->visits < HTCW_STEP)
        give_up_stray(w);
}

/* --- dooming ----------------------------------------------------------------------------------*/

/* The mark of the entered record or word; NULL when it is gone. */
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

static void mark_unverified(htc_watch *w, const htcw_node *n)
{
    _Atomic int64_t *mark = mark_of(w, n);

    if (mark)
        atomic_store(mark, htc_watch_unverified(w));
}

/* What this node leads to may have changed. A process that is looking at it, or at a child of a
 * node that was valid, sees by the number that its result does not count. */
void htcw_doom(htc_watch *w, uint32_t i)
{
    htcw_node *n = htcw_at(w, i);
    bool was_valid = !(n->epoch & HTCW_INVALID);

    n->epoch = invalid(w);
    if (!was_valid)
        return;
    n->since = htc_mono_ms();
    mark_unverified(w, n);
    HTC_POINT("doom");
    if (n->children == HTCW_NIL && n->linkers == HTCW_NIL)
        return;
    n->doom_child = n->children;
    n->doom_linker = n->linkers;
    if (n->flags & HTCW_DOOMING)
        return;
    n->flags |= HTCW_DOOMING;
    n->doom_next = w->header->doomed;
    w->header->doomed = i;
    atomic_store(&w->header->busy, 1);
}

/* The nodes that hang on the first doomed node, one at a time. */
static void doom_next(htc_watch *w)
{
    htcw_node *n = htcw_at(w, w->header->doomed);
    uint32_t i = n->doom_child;

    if (i != HTCW_NIL) {
        n->doom_child = htcw_at(w, i)->sibling.next;
    } else if (n->doom_linker != HTCW_NIL) {
        i = n->doom_linker;
        n->doom_linker = htcw_at(w, i)->linker.next;
    } else {
        w->header->doomed = n->doom_next;
        n->flags &= (uint8_t)~HTCW_DOOMING;
        return;
    }
    htcw_doom(w, i);
}

bool htcw_doom_some(htc_watch *w)
{
    while (w->header->doomed != HTCW_NIL && w->visits < HTCW_STEP && !w->damaged)
        doom_next(w);
    return w->header->doomed == HTCW_NIL;
}

/* The kernel has given the watch up. */
static void wd_gone(htc_watch *w, int32_t wd)
{
    for (uint32_t i = htcw_first_with_wd(w, wd); i != HTCW_NIL && !w->damaged;
         i = htcw_first_with_wd(w, wd)) {
        htcw_doom(w, i);
        htcw_drop_wd(w, i, true);
    }
    w->header->gone[w->header->ngone++ % HTCW_GONE] = wd;
}

/* A file that is moved into place is one that was written before. */
static void note_writing(htcw_node *n, uint32_t mask)
{
    if (mask & (IN_CLOSE_WRITE | IN_MOVED_TO))
        n->flags |= HTCW_WHOLE;
    else if (mask & (IN_MODIFY | IN_CREATE | IN_DELETE | IN_MOVED_FROM))
        n->flags &= (uint8_t)~HTCW_WHOLE;
}

/* An event of one of the nodes with its watch. A directory of which only its own watch tells must
 * not become empty unnoticed: it could be removed and made again, which is reported only when the
 * last process that has it open lets it go. */
static void event_at(htc_watch *w, uint32_t i, uint32_t mask, const char *name, uint64_t hash)
{
    uint32_t child = name ? htcw_find_child(w, i, hash) : i;

    if (child != HTCW_NIL) {
        note_writing(htcw_at(w, child), mask);
        htcw_doom(w, child);
    }
    if ((mask & (IN_DELETE | IN_MOVED_FROM)) && (htcw_at(w, i)->flags & HTCW_ALONE))
        htcw_doom(w, i);
}

void htcw_event(htc_watch *w, int32_t wd, uint32_t mask, const char *name)
{
    uint64_t hash = name ? htcw_name_hash(w, name, strlen(name)) : 0;
    uint32_t i = htcw_first_with_wd(w, wd);

    /* The watch was added by a process that has not entered it yet, or has died. A process that
     * has not will see that the watch is gone. A watch that was given up may still report. */
    if (i == HTCW_NIL && !(mask & IN_IGNORED))
        sys_inotify_rm_watch(w->fd, wd);
    for (; i != HTCW_NIL; i = htcw_at(w, i)->peer.next)
        event_at(w, i, mask, name, hash);
    if (mask & IN_IGNORED)
        wd_gone(w, wd);
}

/* --- the sweep --------------------------------------------------------------------------------*/

static bool needed(const htc_watch *w, const htcw_node *n, int64_t now)
{
    bool word = n->entered != HTCW_NIL && n->entered & HTCW_WORD;
    int64_t keep = n->why ? HTC_WATCH_RETRY_MS : word ? HTC_WATCH_WORD_MS : HTC_WATCH_KEEP_MS;

    return n->children != HTCW_NIL || n->linkers != HTCW_NIL || (n->flags & HTCW_DOOMING) ||
           htcw_age(now, n->since) < keep || (htcw_settled(w, n) && mark_of(w, n));
}

/* The node where a hand stands, which goes on by one; HTCW_NIL: a free one. */
static uint32_t step_hand(htc_watch *w, uint32_t *hand)
{
    uint32_t i = *hand < w->header->fresh ? *hand : 0;

    *hand = i + 1;
    return htcw_at(w, i)->parent == HTCW_NIL ? HTCW_NIL : i;
}

static void give_up_one(htc_watch *w, int64_t now)
{
    uint32_t i = step_hand(w, &w->header->hand);

    if (i != HTCW_NIL && i != HTCW_ROOT && !needed(w, htcw_at(w, i), now))
        free_node(w, i);
}

static _Atomic int64_t *next_mark(htc_watch *w, bool words)
{
    uint32_t i;

    if (words)
        return htc_watch_word_at(w, w->header->word_hand++);
    i = step_hand(w, &w->header->net_hand);
    return i == HTCW_NIL ? NULL : mark_of(w, htcw_at(w, i));
}

/* True when it was trusted. */
static bool recheck_one(htc_watch *w, bool words)
{
    _Atomic int64_t *mark = next_mark(w, words);
    int64_t seen = mark ? atomic_load(mark) : 0;

    /* A word's mark has the word's number above the epoch. */
    if (seen < HTC_MARK_WATCHED || (uint64_t)(seen - htc_watch_fresh(w)) << (64 - HTCW_EPOCH_BITS))
        return false;
    atomic_compare_exchange_strong(mark, &seen, htc_watch_unprompted(w));
    return true;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Does another process compare records? Words are few, and each is looked at in turn. */
static bool leave_records(const htcw_header *header, int64_t now)
{
    int64_t taken = atomic_load(&header->net_taken);

    return taken && htcw_age(now, taken) >= 0 && htcw_age(now, taken) < HTC_WATCH_NET_WAIT_MS;
}

/* Each trusted entry becomes unverified about every HTC_WATCH_NET_MS, unless they are too many, or
 * the entry is a record and htc_watch_net_taken() says that another process looks at these. In that
 * time all nodes are looked at for those that nobody needs: a look reads memory that nothing
 * else of the request does, and what it costs falls on few requests where there are few. */
void htcw_sweep_begin(htc_watch *w, htcw_sweep *sweep, int64_t now)
{
    uint32_t fresh = least(w->header->fresh, w->nnodes);
    uint32_t due = fresh / (HTC_WATCH_NET_MS / 1000) + 1;

    note_dead_adders(w->header);
    *sweep = (htcw_sweep){
        .now = now,
        .strays = 4 * HTCW_STEP,
        .nodes = least(fresh, least(due > HTCW_STEP ? due : HTCW_STEP, HTCW_SWEEP_NODES)),
        .looks = least(due < HTC_WATCH_NET_RATE ? due : HTCW_SWEEP_NODES, fresh),
        .rechecks = least(due, HTC_WATCH_NET_RATE)};
    sweep->words = leave_records(w->header, now);
    if (sweep->words)
        sweep->looks = HTC_WATCH_WORDS / (HTC_WATCH_NET_MS / 1000) + 1;
}

bool htcw_sweep_some(htc_watch *w, htcw_sweep *sweep)
{
    while (w->visits < HTCW_STEP) {
        if (sweep->strays && any_stray(w->header)) {
            sweep->strays--;
            give_up_stray(w);
        } else if (sweep->nodes) {
            sweep->nodes--;
            give_up_one(w, sweep->now);
        } else if (sweep->looks && sweep->rechecks) {
            sweep->looks--;
            sweep->rechecks -= recheck_one(w, sweep->words);
        } else {
            return false;
        }
    }
    return true;
}
