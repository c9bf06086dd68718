/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The simulated kernel's reports of changes: instances with watches, limits and queues. Equal events
 * in a row are one. What does not fit in the queue is lost, and one event says so.
 */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#define INSTANCES 8
#define WATCHES   512  /* of all instances */
#define NUMBERS   8192 /* of watches that an instance ever had */
#define QUEUE     1024

struct sim_watch {
    sim_node *node;  /* NULL: unused */
    sim_watch *next; /* of the same node */
    int instance, wd;
    uint32_t mask;
};

typedef struct event {
    int wd;
    uint32_t mask;
    char name[SIM_NAME]; /* empty: none */
} event;

static sim_watch watches[WATCHES];
static struct instance {
    bool used;
    int last_wd;
    unsigned nwatches, first, n;
    event queue[QUEUE];
    sim_watch *by_wd[NUMBERS];
} instances[INSTANCES];
unsigned sim_refusals;

void sim_inotify_begin(void)
{
    memset(watches, 0, sizeof(watches));
    for (int i = 0; i < INSTANCES; i++)
        instances[i].used = false;
    sim_refusals = 0;
}

static int fail(int err)
{
    errno = err;
    return -1;
}

/* --- events -------------------------------------------------------------------------------------*/

static event *queued(struct instance *in, unsigned i)
{
    return &in->queue[(in->first + i) % QUEUE];
}

static void enqueue(struct instance *in, int wd, uint32_t mask, const char *name)
{
    event new = {.wd = wd, .mask = mask};

    if (name)
        memcpy(new.name, name, strlen(name) + 1);
    if (in->n >= sim_set.max_queued) {
        if (queued(in, in->n - 1)->mask == IN_Q_OVERFLOW)
            return;
        new = (event){.wd = -1, .mask = IN_Q_OVERFLOW};
    } else if (in->n && !memcmp(queued(in, in->n - 1), &new, sizeof(new))) {
        return;
    }
    if (in->n >= QUEUE)
        sim_fail("simulator: the queue is too small");
    *queued(in, in->n++) = new;
}

void sim_report(sim_node *node, uint32_t mask, const char *name)
{
    for (const sim_watch *watch = node->watches; watch; watch = watch->next) {
        if (watch->mask & mask & IN_ALL_EVENTS)
            enqueue(&instances[watch->instance], watch->wd, mask, name);
    }
}

static void remove_watch(sim_watch *watch, bool ignored)
{
    struct instance *in = &instances[watch->instance];
    sim_watch **place = &watch->node->watches;

    while (*place != watch)
        place = &(*place)->next;
    *place = watch->next;
    watch->node = NULL;
    in->by_wd[watch->wd] = NULL;
    in->nwatches--;
    if (ignored)
        enqueue(in, watch->wd, IN_IGNORED, NULL);
}

/* The node's watches end with it. */
void sim_report_gone(sim_node *node, uint32_t mask)
{
    while (node->watches) {
        sim_watch *watch = node->watches;

        if (mask == IN_UNMOUNT || (watch->mask & mask))
            enqueue(&instances[watch->instance], watch->wd, mask, NULL);
        remove_watch(watch, true);
    }
}

/* Names are padded to whole headers. */
static size_t size_of(const event *e)
{
    size_t len = strlen(e->name), unit = sizeof(struct inotify_event);

    return unit + (len ? (len + unit) / unit * unit : 0);
}

static ssize_t read_events(struct instance *in, char *bytes, size_t size)
{
    size_t at = 0;

    if (!in->n)
        return fail(EAGAIN);
    for (; in->n; in->n--) {
        const event *e = queued(in, 0);
        struct inotify_event out = {.wd = e->wd, .mask = e->mask};
        size_t whole = size_of(e);

        if (at + whole > size)
            break;
        out.len = (uint32_t)(whole - sizeof(out));
        memset(bytes + at, 0, whole);
        memcpy(bytes + at, &out, sizeof(out));
        if (out.len)
            strcpy(bytes + at + sizeof(out), e->name);
        at += whole;
        in->first = (in->first + 1) % QUEUE;
    }
    return at ? (ssize_t)at : fail(EINVAL);
}

/* --- calls --------------------------------------------------------------------------------------*/

static struct instance *instance_of(int fd)
{
    int i = sim_instance_of_fd(fd);

    return i < 0 ? NULL : &instances[i];
}

int sim_instance_of_fd(int fd)
{
    int number;
    sim_node *node;

    return sim_fd_what(fd, &number, &node) == SIM_INOTIFY ? number : -1;
}

int sim_inotify_init1(int flags)
{
    (void)flags;
    if (sim_instances() >= sim_set.max_instances)
        return fail(EMFILE);
    for (int i = 0; i < INSTANCES; i++) {
        if (!instances[i].used) {
            struct instance *in = &instances[i];
            int fd = sim_fd_new(SIM_INOTIFY, i, NULL);

            if (fd < 0)
                return fd;
            in->used = true;
            in->last_wd = 0;
            in->nwatches = in->first = in->n = 0;
            memset(in->by_wd, 0, sizeof(in->by_wd));
            return fd;
        }
    }
    return fail(EMFILE);
}

void sim_inotify_close(int i)
{
    for (sim_watch *watch = watches; watch < watches + WATCHES; watch++) {
        if (watch->node && watch->instance == i)
            remove_watch(watch, false);
    }
    instances[i].used = false;
}

static sim_watch *find(const sim_node *node, int instance)
{
    sim_watch *watch = node->watches;

    while (watch && watch->instance != instance)
        watch = watch->next;
    return watch;
}

/* The limit is the user's: it counts the watches of all instances. */
static int add(sim_node *node, int instance, uint32_t mask)
{
    struct instance *in = &instances[instance];
    sim_watch *watch = watches;
    unsigned held = 0;

    for (int i = 0; i < INSTANCES; i++)
        held += instances[i].used ? instances[i].nwatches : 0;
    if (held >= sim_set.max_watches || sim_fails(SIM_NO_KERNEL)) {
        sim_refusals++;
        return fail(held >= sim_set.max_watches ? ENOSPC : ENOMEM);
    }
    while (watch->node)
        watch++;
    if (in->last_wd + 1 >= NUMBERS)
        sim_fail("simulator: too many watches");
    *watch = (sim_watch){node, node->watches, instance, ++in->last_wd, mask};
    node->watches = watch;
    in->by_wd[watch->wd] = watch;
    in->nwatches++;
    return watch->wd;
}

int sim_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    int instance = sim_instance_of_fd(fd), err;
    sim_watch *watch;
    sim_at at;

    sim_point();
    if (instance < 0)
        return fail(EBADF);
    err = sim_walk(path, !(mask & IN_DONT_FOLLOW), &at, NULL);
    if (!err && (mask & IN_ONLYDIR) && at.node->kind != SIM_DIR)
        err = ENOTDIR;
    if (!err && !at.node->readable)
        err = EACCES;
    if (err)
        return fail(err);
    watch = find(at.node, instance);
    if (watch)
        watch->mask = mask;
    sim_say("    watch %d: %s, by thread %u%s", watch ? watch->wd : instances[instance].last_wd + 1,
            path, sim_thread(), watch ? ", again" : "");
    return watch ? watch->wd : add(at.node, instance, mask);
}

int sim_inotify_rm_watch(int fd, int wd)
{
    struct instance *in = instance_of(fd);

    if (!in || wd < 0 || wd >= NUMBERS || !in->by_wd[wd])
        return fail(in ? EINVAL : EBADF);
    sim_say("    watch %d is given up by thread %u", wd, sim_thread());
    remove_watch(in->by_wd[wd], true);
    return 0;
}

ssize_t sim_inotify_read(int instance, void *bytes, size_t size, unsigned process)
{
    struct instance *in = &instances[instance];
    unsigned first = in->first, n = in->n, ended = 0;
    ssize_t got = read_events(in, bytes, size);

    n -= in->n;
    for (unsigned i = 0; i < n; i++)
        ended += in->queue[(first + i) % QUEUE].mask == IN_IGNORED;
    sim_events_taken(process, n, ended);
    return got;
}

int sim_ioctl(int fd, unsigned long request, ...)
{
    sim_node *node = NULL;
    int number, bytes = 0;
    sim_what what = sim_fd_what(fd, &number, &node);
    va_list args;
    void *answer;

    sim_point();
    va_start(args, request);
    answer = va_arg(args, void *);
    va_end(args);
    if (what == SIM_OPEN_FILE)
        return sim_node_ioctl(node, request, answer);
    if (what != SIM_INOTIFY || request != FIONREAD)
        return fail(ENOTTY);
    for (unsigned i = 0; i < instances[number].n; i++)
        bytes += (int)size_of(queued(&instances[number], i));
    memcpy(answer, &bytes, sizeof(bytes));
    return 0;
}

/* --- what can be seen of it ---------------------------------------------------------------------*/

unsigned sim_watches_of(int instance)
{
    return instances[instance].nwatches;
}

unsigned sim_instances(void)
{
    unsigned n = 0;

    for (int i = 0; i < INSTANCES; i++)
        n += instances[i].used;
    return n;
}

bool sim_is_watched(int instance, int wd)
{
    return wd >= 0 && wd < NUMBERS && instances[instance].by_wd[wd];
}
