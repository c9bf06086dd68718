/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * One exchange with all memcached servers at once, within one limit of time. Each server that is
 * needed gets a lane: a connection, what is to be sent over it, and the items whose answers are
 * awaited, in order. A loop waits for whatever lane can go on, until all are finished or lost or
 * the time is up. Called by the farm glue.
 */
#include "farm/memcached.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <apr_strings.h>

#define FIRST_BUFFER 4096
#define MOST_BUFFER  (HTC_MC_MAX_VALUE + 4096)
#define MAX_COMMAND  128 /* a command line */

/* Connections to one server that are not in use. */
typedef struct kept_list {
    unsigned n;
    int handles[HTC_MC_KEEP];
} kept_list;

struct htc_mc {
    htc_mc_io io;
    htc_mc_server *servers;
    unsigned nservers;
    htc_mc_news news;
    void *news_baton;
    pthread_mutex_t lock; /* of kept; held for a few instructions, or for an idle() */
    kept_list *kept;
    _Atomic int32_t *open; /* NULL: not counted */
};

typedef enum lane_state { LANE_CONNECTING, LANE_TALKING, LANE_FINISHED, LANE_LOST } lane_state;

typedef struct lane {
    htc_mc *mc;
    unsigned server;
    lane_state state;
    int handle;
    bool kept;   /* from an earlier call, and nothing was received yet */
    bool reused; /* from an earlier call */
    char *out;   /* in the call's pool */
    size_t out_len, out_done;
    unsigned first, last; /* items of this server lie between these; others may, too */
    unsigned next;        /* the item whose answer is awaited */
    char *in;             /* malloc */
    size_t in_len, in_size;
} lane;

/* One call. */
typedef struct exchange {
    htc_mc *mc;
    htc_mc_item *items;
    unsigned nitems;
    apr_pool_t *pool;
    lane lanes[HTC_MC_MAX_SERVERS];
    unsigned nlanes;
} exchange;

static int64_t now_us(const htc_mc *mc)
{
    return mc->io.now_us(mc->io.baton);
}

static int open_connection(htc_mc *mc, unsigned server)
{
    int handle = mc->io.open(mc->io.baton, server);

    if (handle < 0)
        return handle;
    atomic_fetch_add(&mc->servers[server].connects, 1);
    if (mc->open)
        atomic_fetch_add(mc->open, 1);
    return handle;
}

static void close_connection(htc_mc *mc, int handle)
{
    mc->io.close(mc->io.baton, handle);
    if (mc->open)
        atomic_fetch_sub(mc->open, 1);
}

/* --- kept connections --------------------------------------------------------------------------
 */

/* A kept connection that is still good, or -1. Those the server has closed meanwhile, as it does
 * when it is restarted, are thrown away without counting as a failure. */
static int take_kept(htc_mc *mc, unsigned server)
{
    kept_list *kept = &mc->kept[server];
    int handle = -1;

    pthread_mutex_lock(&mc->lock);
    while (handle < 0 && kept->n) {
        handle = kept->handles[--kept->n];
        if (!mc->io.idle(mc->io.baton, handle)) {
            close_connection(mc, handle);
            handle = -1;
        }
    }
    pthread_mutex_unlock(&mc->lock);
    return handle;
}

static void keep(htc_mc *mc, unsigned server, int handle)
{
    kept_list *kept = &mc->kept[server];
    bool room;

    pthread_mutex_lock(&mc->lock);
    room = kept->n < HTC_MC_KEEP;
    if (room)
        kept->handles[kept->n++] = handle;
    pthread_mutex_unlock(&mc->lock);
    if (!room)
        close_connection(mc, handle);
}

void htc_mc_count_open(htc_mc *mc, _Atomic int32_t *open)
{
    mc->open = open;
}

void htc_mc_close(htc_mc *mc)
{
    for (unsigned i = 0; i < mc->nservers; i++) {
        while (mc->kept[i].n)
            close_connection(mc, mc->kept[i].handles[--mc->kept[i].n]);
    }
}

apr_status_t htc_mc_create(htc_mc **mc_, const htc_mc_io *io, htc_mc_server *servers, unsigned n,
                           htc_mc_news news, void *news_baton, apr_pool_t *pool)
{
    htc_mc *mc = apr_pcalloc(pool, sizeof(*mc));

    if (!n || n > HTC_MC_MAX_SERVERS)
        return APR_EINVAL;
    mc->io = *io;
    mc->servers = servers;
    mc->nservers = n;
    mc->news = news;
    mc->news_baton = news_baton;
    mc->kept = apr_pcalloc(pool, n * sizeof(*mc->kept));
    pthread_mutex_init(&mc->lock, NULL);
    *mc_ = mc;
    return APR_SUCCESS;
}

/* --- life of a lane ----------------------------------------------------------------------------
 */

static void report(lane *l, bool open, const char *why)
{
    if (l->mc->news)
        l->mc->news(l->mc->news_baton, l->server, open, why);
}

static void lane_failed(lane *l, const char *why)
{
    l->state = LANE_LOST;
    atomic_fetch_add(&l->mc->servers[l->server].failures, 1);
    if (htc_breaker_failure(&l->mc->servers[l->server].breaker, now_us(l->mc) / 1000))
        report(l, true, why);
}

static void lane_connect(lane *l)
{
    l->kept = l->reused = false;
    l->out_done = 0;
    l->handle = open_connection(l->mc, l->server);
    if (l->handle < 0)
        lane_failed(l, "no connection can be made");
    else
        l->state = LANE_CONNECTING;
}

static void lane_close(lane *l)
{
    if (l->handle >= 0)
        close_connection(l->mc, l->handle);
    l->handle = -1;
}

/* The connection is of no use any more. One that was kept may have been closed by the server at the
 * very moment it was taken: that is no failure, another one is made. */
static void lane_lost(lane *l, const char *why)
{
    lane_close(l);
    if (l->kept)
        lane_connect(l);
    else
        lane_failed(l, why);
}

static void lane_finished(lane *l)
{
    htc_mc_server *server = &l->mc->servers[l->server];

    l->state = LANE_FINISHED;
    keep(l->mc, l->server, l->handle);
    l->handle = -1;
    atomic_fetch_add(&server->exchanges, 1);
    if (l->reused)
        atomic_fetch_add(&server->reused, 1);
    if (htc_breaker_success(&server->breaker))
        report(l, false, "it answers again");
}

static void lane_timed_out(lane *l, bool fair)
{
    htc_mc_server *server = &l->mc->servers[l->server];

    lane_close(l);
    l->state = LANE_LOST;
    atomic_fetch_add(&server->timeouts, 1);
    if ((fair || htc_breaker_is_open(&server->breaker)) &&
        htc_breaker_failure(&server->breaker, now_us(l->mc) / 1000))
        report(l, true, "it does not answer in time");
}

static bool lane_active(const lane *l)
{
    return l->state == LANE_CONNECTING || l->state == LANE_TALKING;
}

/* --- sending ------------------------------------------------------------------------------------
 */

static size_t command(char *line, const htc_mc_item *item)
{
    int n;

    switch (item->op) {
    case HTC_MC_GET:
        n = snprintf(line, MAX_COMMAND, "get %s\r\n", item->key);
        break;
    case HTC_MC_DELETE:
        n = snprintf(line, MAX_COMMAND, "delete %s\r\n", item->key);
        break;
    default:
        n = snprintf(line, MAX_COMMAND, "%s %s 0 %u %zu\r\n",
                     item->op == HTC_MC_ADD ? "add" : "set", item->key, item->expire,
                     item->value_len);
    }
    return (size_t)n;
}

static bool has_value(const htc_mc_item *item)
{
    return item->op == HTC_MC_SET || item->op == HTC_MC_ADD;
}

static void write_commands(exchange *x, lane *l)
{
    size_t size = 0;

    for (unsigned i = l->first; i <= l->last; i++) {
        if (x->items[i].server == l->server)
            size += MAX_COMMAND + (has_value(&x->items[i]) ? x->items[i].value_len + 2 : 0);
    }
    l->out = apr_palloc(x->pool, size);
    for (unsigned i = l->first; i <= l->last; i++) {
        const htc_mc_item *item = &x->items[i];

        if (item->server != l->server)
            continue;
        l->out_len += command(l->out + l->out_len, item);
        if (!has_value(item))
            continue;
        memcpy(l->out + l->out_len, item->value, item->value_len);
        memcpy(l->out + l->out_len + item->value_len, "\r\n", 2);
        l->out_len += item->value_len + 2;
    }
}

static void lane_send(lane *l)
{
    while (l->out_done < l->out_len) {
        ptrdiff_t n = l->mc->io.send(l->mc->io.baton, l->handle, l->out + l->out_done,
                                     l->out_len - l->out_done);

        if (n == -EAGAIN)
            return;
        if (n < 0) {
            lane_lost(l, "the connection broke");
            return;
        }
        l->out_done += (size_t)n;
    }
}

/* --- receiving ----------------------------------------------------------------------------------
 */

static bool grow(lane *l)
{
    size_t size = l->in_size ? l->in_size * 2 : FIRST_BUFFER;
    char *in;

    if (l->in_len < l->in_size)
        return true;
    if (l->in_size >= MOST_BUFFER)
        return false;
    in = realloc(l->in, size > MOST_BUFFER ? MOST_BUFFER : size);
    if (!in)
        return false;
    l->in = in;
    l->in_size = size > MOST_BUFFER ? MOST_BUFFER : size;
    return true;
}

static void take_answer(exchange *x, htc_mc_item *item, const htc_mc_answer *answer)
{
    item->result = answer->result;
    if (answer->result != HTC_MC_HIT)
        return;
    item->got = apr_pmemdup(x->pool, answer->got, answer->got_len);
    item->got_len = answer->got_len;
}

static void next_item(exchange *x, lane *l)
{
    do {
        l->next++;
    } while (l->next <= l->last && x->items[l->next].server != l->server);
}

/* Answers that have arrived as a whole. */
static void take_answers(exchange *x, lane *l)
{
    size_t done = 0;

    while (l->next <= l->last) {
        htc_mc_item *item = &x->items[l->next];
        htc_mc_answer answer;
        ptrdiff_t n = htc_mc_parse(l->in + done, l->in_len - done, item->op, item->key, &answer);

        if (n < 0) {
            lane_lost(l, "it speaks no memcached protocol");
            return;
        }
        if (!n)
            break;
        take_answer(x, item, &answer);
        done += (size_t)n;
        next_item(x, l);
    }
    memmove(l->in, l->in + done, l->in_len - done);
    l->in_len -= done;
    if (l->next <= l->last)
        return;
    if (l->in_len || l->out_done < l->out_len)
        lane_lost(l, "it says more than it was asked");
    else
        lane_finished(l);
}

/* One read: a server that never stops talking must not keep the loop from looking at the time. */
static void lane_receive(exchange *x, lane *l)
{
    ptrdiff_t n;

    if (!grow(l)) {
        lane_lost(l, "it says more than it was asked");
        return;
    }
    n = l->mc->io.recv(l->mc->io.baton, l->handle, l->in + l->in_len, l->in_size - l->in_len);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        lane_lost(l, "it closed the connection");
        return;
    }
    l->kept = false;
    l->in_len += (size_t)n;
    take_answers(x, l);
}

/* --- the loop -----------------------------------------------------------------------------------
 */

static void lane_step(exchange *x, lane *l, const htc_mc_wait *came)
{
    if (l->state == LANE_CONNECTING && came->writable) {
        if (l->mc->io.connected(l->mc->io.baton, l->handle) < 0) {
            lane_lost(l, "it refuses the connection");
            return;
        }
        l->state = LANE_TALKING;
    }
    if (l->state == LANE_TALKING && came->writable)
        lane_send(l);
    if (l->state == LANE_TALKING && came->readable)
        lane_receive(x, l);
}

/* Wait once and let every lane that can go on do so. False when none is left. */
static bool go_on(exchange *x, int64_t left_us)
{
    htc_mc_wait waits[HTC_MC_MAX_SERVERS];
    unsigned waiting[HTC_MC_MAX_SERVERS];
    unsigned n = 0;

    for (unsigned i = 0; i < x->nlanes; i++) {
        lane *l = &x->lanes[i];

        if (!lane_active(l))
            continue;
        waits[n].handle = l->handle;
        waits[n].writable = l->state == LANE_CONNECTING || l->out_done < l->out_len;
        waits[n].readable = l->state == LANE_TALKING;
        waiting[n++] = i;
    }
    if (!n)
        return false;
    if (x->mc->io.wait(x->mc->io.baton, waits, n, left_us) > 0) {
        for (unsigned i = 0; i < n; i++)
            lane_step(x, &x->lanes[waiting[i]], &waits[i]);
    }
    return true;
}

static void lane_start(exchange *x, lane *l)
{
    write_commands(x, l);
    l->next = l->first;
    l->handle = take_kept(x->mc, l->server);
    if (l->handle < 0) {
        lane_connect(l);
        return;
    }
    l->kept = l->reused = true;
    l->state = LANE_TALKING;
    lane_send(l);
}

/* Which lanes there are to be. */
static void find_lanes(exchange *x)
{
    int lane_of[HTC_MC_MAX_SERVERS];
    int64_t now_ms = now_us(x->mc) / 1000;

    memset(lane_of, -1, sizeof(lane_of));
    for (unsigned i = 0; i < x->nitems; i++) {
        unsigned server = x->items[i].server;
        lane *l;

        if (server >= x->mc->nservers || lane_of[server] == -2)
            continue;
        if (lane_of[server] == -1 && !htc_breaker_allow(&x->mc->servers[server].breaker, now_ms)) {
            atomic_fetch_add(&x->mc->servers[server].skipped, 1);
            lane_of[server] = -2;
            continue;
        }
        if (lane_of[server] == -1) {
            l = &x->lanes[x->nlanes];
            memset(l, 0, sizeof(*l));
            l->mc = x->mc;
            l->server = server;
            l->first = i;
            lane_of[server] = (int)x->nlanes++;
        }
        x->lanes[lane_of[server]].last = i;
    }
}

void htc_mc_run(htc_mc *mc, htc_mc_item *items, unsigned n, int64_t *budget_us, int64_t fair_us,
                apr_pool_t *pool)
{
    int64_t start = now_us(mc), now = start;
    bool fair = *budget_us >= fair_us;
    exchange x;

    for (unsigned i = 0; i < n; i++)
        items[i].result = HTC_MC_NONE;
    if (*budget_us <= 0 || !n)
        return;
    x.mc = mc;
    x.items = items;
    x.nitems = n;
    x.pool = pool;
    x.nlanes = 0;
    find_lanes(&x);
    for (unsigned i = 0; i < x.nlanes; i++)
        lane_start(&x, &x.lanes[i]);
    while (now - start < *budget_us && go_on(&x, *budget_us - (now - start)))
        now = now_us(mc);
    for (unsigned i = 0; i < x.nlanes; i++) {
        if (lane_active(&x.lanes[i]))
            lane_timed_out(&x.lanes[i], fair);
        free(x.lanes[i].in);
    }
    *budget_us -= now_us(mc) - start;
}

void htc_mc_pause(htc_mc *mc, int64_t us, int64_t *budget_us)
{
    int64_t start = now_us(mc), most = us < *budget_us ? us : *budget_us;

    if (most <= 0)
        return;
    mc->io.wait(mc->io.baton, NULL, 0, most);
    *budget_us -= now_us(mc) - start;
}
