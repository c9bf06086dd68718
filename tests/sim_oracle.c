/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What may be answered: the tree's own history. For each directory that is asked for it is known
 * what its .htaccess file was, and until when. An answer must be what was there at some moment
 * between the beginning of the request and now. Where the file is asked for now and then only, that
 * moment may lie one such interval earlier. And what must hold of the store and of the watches.
 */
#include "cache/store_internal.h"
#include "cache/watch_internal.h"
#include "sim.h"
#include "store_util.h"

#include <string.h>

#define STATES   256 /* of one file, in a history */
#define WRITES   1024
#define ASK_MS   1000
#define REFUSED  1024
#define NET_DONE 30 /* sweeps, after which each record was compared */
/* Nodes that one hold of the lock may visit without an event: a step, and what began in it. */
#define HOLD (2U * HTCW_STEP)
/* Nodes that one event may visit. For each node with its watch: the name in it three times (found,
 * told, doomed), the node twice (asked, doomed), and the next one. Where the watch ends, each node
 * leaves its lists, too. The rest is for looks into buckets. */
#define EVENT (7U * HTCW_PEERS + 4)
#define ENDED (14U * HTCW_PEERS + 4)

const char *const sim_dirs[SIM_PATHS] = {
    "/",           "/srv/",         "/srv/www/", "/srv/www/a/", "/srv/www/a/b/", "/srv/www/c/",
    "/srv/www/d/", "/srv/www/d/b/", "/srv/now/", "/srv/now/x/", "/rel1/x/",      "/rel2/x/",
    "/net/",       "/net/n/",       "/net/n/m/", "/mnt/",       "/mnt/t/",       "/mnt/t/u/",
    "/srv/www/e/", "/srv/www/e/x/", "/mnt/T/",   "/mnt/T/u/"};

#define LASTING UINT64_MAX

typedef struct state {
    unsigned what;
    const sim_node *file; /* that has it, or NULL */
    unsigned by;          /* the thread whose call has not returned; 0: none */
    unsigned nwrites;     /* before it */
    uint64_t until;       /* moment; LASTING: it is there */
    int64_t until_ns;
    bool asked_for,
        silent;   /* what followed it is noticed by asking; not at all, but by the sweep */
    bool relived; /* its file may look like one of before */
    bool aged;    /* it was old enough to be told by its times when the clock went back */
    int64_t ctime;
} state;

static struct path {
    state states[STATES];
    unsigned n;
    int64_t polled_until; /* it lay on a file system that is asked now and then */
} paths[SIM_PATHS];
/* Contents that files had, in their order. */
static struct written {
    const sim_node *file;
    unsigned content;
} writes[WRITES];
static unsigned nwrites;
static uint64_t moment;
static unsigned lost; /* claims may be */
static bool blind;    /* something happened that is never reported */
static unsigned sweeps;
static int64_t swept_at;
static int64_t refused_at[REFUSED]; /* by node */
static unsigned refused;
static bool several; /* there was more than one table at once */
/* Of the hold that a process has: nodes visited before it took events, and how many these may visit. */
static struct hold {
    unsigned before, may, events;
} holds[SIM_PROCESSES];

void sim_oracle_begin(void)
{
    for (int i = 0; i < SIM_PATHS; i++)
        paths[i].n = 0;
    moment = lost = sweeps = nwrites = 0;
    blind = false;
    swept_at = 0;
    memset(refused_at, 0, sizeof(refused_at));
    refused = 0;
    several = false;
    memset(holds, 0, sizeof(holds));
}

int sim_path_index(const char *dir)
{
    for (int i = 0; i < SIM_PATHS; i++) {
        if (!strcmp(sim_dirs[i], dir))
            return i;
    }
    return -1;
}

uint64_t sim_moment(void)
{
    return moment;
}

/* Who asks for all others, and does not go on, is waited for once more by each of them. */
void sim_claims_lost(void)
{
    lost++;
}

static int64_t interval(void)
{
    int64_t ms = sim_set.revalidate_ms > 0 ? sim_set.revalidate_ms : ASK_MS;

    return (ms * (2 + lost) + 1) * SIM_MS + 2 * sim_set.tick_ns;
}

static const char *said(unsigned what, char *text)
{
    if (what == SIM_ABSENT)
        return "no file";
    snprintf(text, 32, what == SIM_OTHER ? "an error" : "content %u", what - SIM_TEXT);
    return text;
}

static void look_at(struct path *path, const char *dir)
{
    state *last = path->n ? &path->states[path->n - 1] : NULL;
    char file[SIM_PATH];
    const sim_node *node;
    bool net = false;
    unsigned what;

    strcpy(file, dir);
    strcat(file, ".htaccess");
    what = sim_look(file, &net, &node);
    if (net)
        path->polled_until = sim_now + 1000 * SIM_S;
    else if (path->polled_until > sim_now + interval())
        path->polled_until = sim_now + interval();
    if (last && last->what == what && last->file == node)
        return;
    if (last) {
        last->by = sim_thread() + 1;
        last->asked_for =
            sim_set.revalidate_ms > 0 || (sim_set.revalidate_ms && path->polled_until > sim_now);
        last->silent = blind && sim_set.revalidate_ms;
    }
    if (path->n == STATES)
        sim_fail("simulator: too many states");
    if (sim_talks) {
        char text[32];

        sim_say("    %s is: %s at %.1f ms", dir, said(what, text), (double)sim_now / SIM_MS);
    }
    path->states[path->n++] = (state){.what = what,
                                      .file = node,
                                      .nwrites = nwrites,
                                      .until = LASTING,
                                      .relived = node && node->relived,
                                      .ctime = node ? node->ctime : 0};
}

void sim_changed(bool silent)
{
    moment++;
    if (silent) {
        blind = true;
        sweeps = 0;
    }
    for (int i = 0; i < SIM_PATHS; i++)
        look_at(&paths[i], sim_dirs[i]);
}

void sim_written(const sim_node *file, unsigned content)
{
    if (nwrites == WRITES)
        sim_fail("simulator: too many writes");
    writes[nwrites++] = (struct written){file, content};
}

void sim_change_done(void)
{
    moment++;
    for (int i = 0; i < SIM_PATHS; i++) {
        for (unsigned n = paths[i].n; n--;) {
            state *s = &paths[i].states[n];

            if (s->by == sim_thread() + 1 && s->until == LASTING) {
                s->by = 0;
                s->until = moment;
                s->until_ns = sim_now;
            }
        }
    }
}

void sim_net_done(void)
{
    blind = false;
    for (int i = 0; i < SIM_PATHS; i++) {
        for (unsigned n = 0; n < paths[i].n; n++)
            paths[i].states[n].silent = false;
    }
}

/* A process that got no instance asks for all, each second. */
static bool asks(void)
{
    return sim_set.revalidate_ms < 0 && !sim_httpd_watch(sim_own());
}

static bool may_be(const state *s, uint64_t began, int64_t at)
{
    return s->until > began || s->silent ||
           ((s->asked_for || asks()) && s->until_ns + interval() >= at);
}

void sim_going_back(void)
{
    sim_went_back = true;
    for (int i = 0; i < SIM_PATHS; i++) {
        for (unsigned n = 0; n < paths[i].n; n++) {
            state *s = &paths[i].states[n];

            s->aged |= s->file && sim_now + sim_wall - s->ctime >= HTC_RACY_NS;
        }
    }
}

/* A file has the times, the size and the number of one that was there, and not young, before the
 * clock went back: who compares cannot tell them apart. */
static bool looks_the_same(const struct path *p, unsigned n)
{
    if (!p->states[n].aged)
        return false;
    while (++n < p->n) {
        if (p->states[n].relived)
            return true;
    }
    return false;
}

/* Who has opened a file reads what is written to it later, also when the path leads elsewhere. */
static bool written_since(const state *s, unsigned what)
{
    for (unsigned i = s->nwrites; s->file && i < nwrites; i++) {
        if (writes[i].file == s->file && writes[i].content + SIM_TEXT == what)
            return true;
    }
    return false;
}

void sim_answered(unsigned path, unsigned what, uint64_t began, int64_t at)
{
    const struct path *p = &paths[path];
    char answer[32], now[32];

    if (sim_talks)
        sim_say("    %s: %s at %.1f ms, asked at %.1f ms by thread %u", sim_dirs[path],
                said(what, answer), (double)sim_now / SIM_MS, (double)at / SIM_MS, sim_thread());
    if (what == SIM_OTHER) /* httpd reads it itself */
        return;
    for (unsigned n = p->n; n--;) {
        if ((may_be(&p->states[n], began, at) || looks_the_same(p, n)) &&
            (p->states[n].what == what || written_since(&p->states[n], what)))
            return;
    }
    sim_fail("stale: for %s the answer is %s, and there is %s", sim_dirs[path], said(what, answer),
             said(p->states[p->n - 1].what, now));
}

/* --- what must hold -----------------------------------------------------------------------------*/

/* Some process of those that have this configuration's memory; 0: none. */
static unsigned any_child(void)
{
    for (unsigned i = SIM_PROCESSES; --i > 1;) {
        if (sim_processes[i].pid && !sim_processes[i].zombie)
            return i;
    }
    return 0;
}

/* Different ones that the parent or a child has. */
static unsigned tables_in_use(void)
{
    const void *seen[SIM_PROCESSES];
    unsigned n = 0;

    for (unsigned i = 0; i < SIM_PROCESSES; i++) {
        const htc_watch *w = i && !sim_processes[i].data ? NULL : sim_httpd_watch(i);
        unsigned at = 0;

        if (!w || !sim_processes[i].pid || sim_processes[i].zombie)
            continue;
        while (at < n && seen[at] != w->base)
            at++;
        if (at == n)
            seen[n++] = w->base;
    }
    return n;
}

static void count_sweeps(const htc_watch *w)
{
    int64_t at = atomic_load(&w->header->swept_at);

    /* Of two tables one may be swept for both. */
    if (at != swept_at && tables_in_use() == 1 && ++sweeps > NET_DONE)
        sim_net_done();
    swept_at = at;
}

/* A link is refused with what it leads to, which may have been asked for long before. */
static bool is_link(const htc_watch *w, const htcw_node *n)
{
    static const char *const links[] = {"d", "e", "now", "next"};

    for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
        if (n->name == htcw_name_hash(w, links[i], strlen(links[i])))
            return true;
    }
    return false;
}

/* Each node that cannot be watched for the limit was asked for, and refused. */
static void count_refusals(const htc_watch *w)
{
    for (uint32_t i = 0; i < w->header->fresh && i < REFUSED; i++) {
        const htcw_node *n = &w->nodes[i];

        if (n->why != HTC_WATCH_KERNEL || (n->epoch & HTCW_INVALID) || refused_at[i] == n->since ||
            is_link(w, n))
            continue;
        refused_at[i] = n->since;
        if (++refused > sim_refusals)
            sim_fail("refused: what cannot be watched for the limit was not refused by the kernel");
    }
}

static htc_watch *watch_of(unsigned process)
{
    const sim_process *p = &sim_processes[process];

    return process == 1 || !p->pid || p->zombie ? NULL : sim_httpd_watch(process);
}

/* There is one such call under a hold of the lock. */
void sim_events_taken(unsigned process, unsigned events, unsigned ended)
{
    const htc_watch *w = watch_of(process);

    if (w)
        holds[process] = (struct hold){w->visits, (events - ended) * EVENT + ended * ENDED, events};
}

void sim_check_hold(unsigned process)
{
    htc_watch *w = watch_of(process);
    struct hold *hold = &holds[process];

    if (!w || (!w->most_visits && !hold->events) || atomic_load(&w->header->lock.inside))
        return;
    if (hold->events && w->most_visits > hold->before + hold->may)
        sim_fail("hold: %u nodes were visited under one hold of the lock for %u events",
                 w->most_visits - hold->before, hold->events);
    if (hold->events ? hold->before > HOLD : w->most_visits > HOLD)
        sim_fail("hold: %u nodes were visited under one hold of the lock",
                 hold->events ? hold->before : w->most_visits);
    w->most_visits = 0;
    *hold = (struct hold){0};
}

static bool relied_on(const htc_watch *w, const htcw_node *n)
{
    return htcw_settled(w, n) && n->why == HTC_WATCH_OK;
}

/* Lists and numbers of a table that nobody writes to. */
static void check_node(htc_watch *w, uint32_t i, uint32_t *nwatches)
{
    const htcw_node *n = &w->nodes[i];
    uint32_t children = 0, linkers = 0;

    for (uint32_t c = n->children; c != HTCW_NIL; c = w->nodes[c].sibling.next) {
        if (w->nodes[c].parent != i || ++children > w->nnodes)
            sim_fail("tree: node %u has a child that is not its own", i);
    }
    for (uint32_t l = n->linkers; l != HTCW_NIL; l = w->nodes[l].linker.next) {
        if (w->nodes[l].target != i || ++linkers > w->nnodes)
            sim_fail("tree: node %u has a linker that does not lead there", i);
        if (!w->header->busy && relied_on(w, &w->nodes[l]) && !relied_on(w, n))
            sim_fail("tree: node %u is valid, and what it leads to is not", l);
    }
    if (linkers != n->nlinkers)
        sim_fail("tree: node %u has %u linkers and counts %u", i, linkers, n->nlinkers);
    if (i != HTCW_ROOT && !w->header->busy && relied_on(w, n) &&
        !relied_on(w, &w->nodes[n->parent]))
        sim_fail("tree: node %u is valid, and its parent is not", i);
    if (n->wd >= 0 && htcw_first_with_wd(w, n->wd) == HTCW_NIL)
        sim_fail("tree: node %u is not found by its watch", i);
    *nwatches += n->wd >= 0 && htcw_first_with_wd(w, n->wd) == i;
}

static void check_tree(htc_watch *w)
{
    uint32_t used = 0, nwatches = 0;

    for (uint32_t i = 0; i < w->header->fresh; i++) {
        if (w->nodes[i].parent == HTCW_NIL)
            continue;
        w->visits = 0;
        used++;
        check_node(w, i, &nwatches);
    }
    if (used != atomic_load(&w->header->used))
        sim_fail("tree: %u nodes are used, and %lu are counted", used,
                 (unsigned long)atomic_load(&w->header->used));
    if (nwatches != atomic_load(&w->header->watches))
        sim_fail("tree: nodes have %u watches, and %lu are counted", nwatches,
                 (unsigned long)atomic_load(&w->header->watches));
    if (w->damaged)
        sim_fail("tree: it is damaged");
}

/* Whenever nobody has the lock, also while a process is stopped. */
static void check_any_tree(void)
{
    unsigned process = any_child();
    htc_watch *w = process ? sim_httpd_watch(process) : NULL;

    if (w && !atomic_load(&w->header->lock.inside))
        check_tree(w);
}

void sim_check_always(void)
{
    for (unsigned i = 2; i < SIM_PROCESSES; i++) {
        const htc_watch *w = watch_of(i);

        if (!w)
            continue;
        several |= tables_in_use() > 1;
        if (!several)
            count_refusals(w);
        if (atomic_load(&w->header->troubles[HTC_TROUBLE_DAMAGE]) != HTCW_EMPTY)
            sim_fail("damage: the table was taken for damaged");
        count_sweeps(w);
    }
    check_any_tree();
    if (!sim_process_busy(0) && sim_instances() > tables_in_use())
        sim_fail("instances: there are %u, and processes have %u", sim_instances(),
                 tables_in_use());
}

/* Of processes that have nothing to do. */
static void check_own(void)
{
    for (unsigned i = 0; i < SIM_PROCESSES; i++) {
        if (sim_memory_of(i))
            sim_fail("kept: process %u has not given back %u pieces of memory", i,
                     sim_memory_of(i));
    }
    if (sim_fds_open(SIM_OPEN_FILE))
        sim_fail("kept: %u files are still open", sim_fds_open(SIM_OPEN_FILE));
}

/* What a killed process has left is repaired by the next one that writes. */
void sim_check_at_rest(void)
{
    unsigned process = any_child();
    htc_store *store;
    const char *wrong;

    check_own();
    if (!process || !sim_httpd_store(process))
        return;
    store = sim_httpd_store(process);
    wrong =
        atomic_load(&store->header->dirty) || htcs_clearing(store) ? NULL : su_inconsistent(store);
    if (wrong)
        sim_fail("store: %s", wrong);
}

void sim_check_given_back(unsigned process)
{
    const htc_watch *w = sim_httpd_watch(process);

    if (!w)
        return;
    if (atomic_load(&w->header->used) > 1)
        sim_fail("kept: %lu nodes are kept without a record",
                 (unsigned long)atomic_load(&w->header->used));
    if (sim_watches_of(sim_instance_of_fd(w->fd)) > atomic_load(&w->header->watches))
        sim_fail("kept: the kernel has %u watches, and %lu are known",
                 sim_watches_of(sim_instance_of_fd(w->fd)),
                 (unsigned long)atomic_load(&w->header->watches));
}
