/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Unit tests of the memcached client: its parser by a table, and htc_mc_run() against a network
 * made of scripts, with a clock that only moves when somebody waits, so that "never longer than the
 * budget" can be asserted exactly. Run by 'make check'.
 */
#include "farm/memcached.h"

#include <apr_general.h>
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- answers ------------------------------------------------------------------------------------
 */

#define G HTC_MC_GET
#define S HTC_MC_SET
#define A HTC_MC_ADD
#define D HTC_MC_DELETE

/* What the parser says: bytes taken (-1: nonsense, 0: more), and the result. */
static const struct {
    htc_mc_op op;
    const char *bytes;
    int taken; /* -2: all of it */
    htc_mc_result result;
    const char *got;
} answers[] = {
    {G, "END\r\n", -2, HTC_MC_MISS, NULL},
    {G, "END\r\nEND\r\n", 5, HTC_MC_MISS, NULL},
    {G, "VALUE k1 0 3\r\nabc\r\nEND\r\n", -2, HTC_MC_HIT, "abc"},
    {G, "VALUE k1 0 3\r\nabc\r\nEND\r\nEND\r\n", 24, HTC_MC_HIT, "abc"},
    {G, "VALUE k1 4294967295 0\r\n\r\nEND\r\n", -2, HTC_MC_HIT, ""},
    {G, "VALUE k1 0 7\r\nEND\r\nab\r\nEND\r\n", -2, HTC_MC_HIT, "END\r\nab"},
    {G, "SERVER_ERROR out of memory\r\n", -2, HTC_MC_REFUSED, NULL},
    {G, "", 0, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 3\r", 0, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 3\r\nab", 0, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 3\r\nabc\r\nEND\r", 0, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 3\r\nabcd\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 3\r\nabc\r\nVALUE k1 0 3\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k2 0 3\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k12 0 3\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k 0 3\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 -1\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 1048577\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 1048576\r\n", 0, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 99999999999999999999999\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 000000000000000000003\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 4294967296 3\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0 3 5\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1 0\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1\r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE \r\n", -1, HTC_MC_NONE, NULL},
    {G, "VALUE k1  0 3\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "value k1 0 3\r\nabc\r\nEND\r\n", -1, HTC_MC_NONE, NULL},
    {G, "END\n", -1, HTC_MC_NONE, NULL},
    {G, "\r\n", -1, HTC_MC_NONE, NULL},
    {G, "\n", -1, HTC_MC_NONE, NULL},
    {G, "ERROR\r\n", -1, HTC_MC_NONE, NULL},
    {G, "STORED\r\n", -1, HTC_MC_NONE, NULL},
    {G, "EN\r\n", -1, HTC_MC_NONE, NULL},
    {S, "STORED\r\n", -2, HTC_MC_DONE, NULL},
    {S, "SERVER_ERROR object too large for cache\r\n", -2, HTC_MC_REFUSED, NULL},
    {S, "NOT_STORED\r\n", -1, HTC_MC_NONE, NULL},
    {S, "CLIENT_ERROR bad data chunk\r\n", -1, HTC_MC_NONE, NULL},
    {S, "STORED\r", 0, HTC_MC_NONE, NULL},
    {S, "STOREDX\r\n", -1, HTC_MC_NONE, NULL},
    {S, "END\r\n", -1, HTC_MC_NONE, NULL},
    {A, "STORED\r\n", -2, HTC_MC_DONE, NULL},
    {A, "NOT_STORED\r\n", -2, HTC_MC_EXISTS, NULL},
    {A, "EXISTS\r\n", -1, HTC_MC_NONE, NULL},
    {D, "DELETED\r\n", -2, HTC_MC_DONE, NULL},
    {D, "NOT_FOUND\r\n", -2, HTC_MC_MISS, NULL},
    {D, "STORED\r\n", -1, HTC_MC_NONE, NULL},
};

/* In memory that ends where the bytes end, so that a read beyond is found by sanitizers. */
static ptrdiff_t parse(const char *bytes, size_t len, htc_mc_op op, htc_mc_answer *answer)
{
    static char *copy;

    free(copy);
    copy = malloc(len ? len : 1);
    memcpy(copy, bytes, len);
    return htc_mc_parse(copy, len, op, "k1", answer);
}

START_TEST(parses)
{
    const char *bytes = answers[_i].bytes;
    size_t len = strlen(bytes);
    htc_mc_answer answer;
    ptrdiff_t taken = parse(bytes, len, answers[_i].op, &answer);

    ck_assert_int_eq(taken, answers[_i].taken == -2 ? (int)len : answers[_i].taken);
    if (taken <= 0)
        return;
    ck_assert_int_eq(answer.result, answers[_i].result);
    if (answers[_i].got) {
        ck_assert_uint_eq(answer.got_len, strlen(answers[_i].got));
        ck_assert(!memcmp(answer.got, answers[_i].got, answer.got_len));
    }
    /* Nothing is decided before it is all there. */
    for (size_t n = 0; n < (size_t)taken; n++)
        ck_assert_int_eq(parse(bytes, n, answers[_i].op, &answer), 0);
}
END_TEST

START_TEST(a_line_that_does_not_end_is_nonsense)
{
    char line[600];
    htc_mc_answer answer;

    memset(line, 'x', sizeof(line));
    ck_assert_int_eq(parse(line, 511, G, &answer), 0);
    ck_assert_int_eq(parse(line, 512, G, &answer), -1);
    ck_assert_int_eq(parse(line, 600, G, &answer), -1);
}
END_TEST

/* --- a network of scripts -----------------------------------------------------------------------
 */

/* What one connection does. */
typedef struct script {
    int64_t connect_us; /* -1: refuses; -2: never */
    const char *says;   /* in answer to anything */
    int64_t first_us;   /* until its first byte */
    size_t chunk;       /* bytes at a time */
    int64_t pause_us;   /* between these */
    bool closes;        /* after that */
    bool deaf;          /* takes no byte */
    bool stale;         /* once kept: the peer has closed it */
} script;

#define MAX_CONNECTIONS 32

static struct connection {
    const script *script;
    bool open;
    size_t said;
    int64_t ready_at;
    size_t heard;
    char first[64];
} connections[MAX_CONNECTIONS];

static int64_t now;
static unsigned nested; /* threads that come while one waits, one after the other */
static void run_nested(void);
static unsigned opened, closed, waits;
static const script *scripts[8][4]; /* of each server: one connection after the other */
static unsigned nth[8];
static htc_mc_server servers[8];
static htc_mc *mc;
static apr_pool_t *pool;
static int news_open, news_closed;

static int64_t net_now(void *baton)
{
    (void)baton;
    return now;
}

static int net_open(void *baton, unsigned server)
{
    const script *s = scripts[server][nth[server]];

    (void)baton;
    if (scripts[server][nth[server] + 1])
        nth[server]++;
    if (!s || s->connect_us == -1)
        return -ECONNREFUSED;
    ck_assert_uint_lt(opened, MAX_CONNECTIONS);
    memset(&connections[opened], 0, sizeof(connections[0]));
    connections[opened].script = s;
    connections[opened].open = true;
    connections[opened].ready_at = now + (s->connect_us == -2 ? INT64_MAX / 2 : s->connect_us);
    return (int)opened++;
}

static int net_connected(void *baton, int handle)
{
    (void)baton;
    return connections[handle].script->connect_us == -3 ? -ECONNREFUSED : 0;
}

static bool net_idle(void *baton, int handle)
{
    (void)baton;
    return !connections[handle].script->stale;
}

static ptrdiff_t net_send(void *baton, int handle, const void *bytes, size_t len)
{
    struct connection *c = &connections[handle];

    (void)baton;
    ck_assert(c->open);
    if (c->script->deaf)
        return -EAGAIN;
    if (!c->heard) {
        snprintf(c->first, sizeof(c->first), "%.*s", (int)(len < 60 ? len : 60),
                 (const char *)bytes);
        c->ready_at = now + c->script->first_us;
    } else if (!c->script->closes && !c->script->says[c->said])
        c->said = 0; /* says it again */
    c->heard += len;
    return (ptrdiff_t)len;
}

static ptrdiff_t net_recv(void *baton, int handle, void *bytes, size_t len)
{
    struct connection *c = &connections[handle];
    size_t left = strlen(c->script->says) - c->said;
    size_t n = c->script->chunk && c->script->chunk < left ? c->script->chunk : left;

    (void)baton;
    ck_assert(c->open);
    if (!c->heard || now < c->ready_at)
        return -EAGAIN;
    if (!left)
        return c->script->closes ? 0 : -EAGAIN;
    if (n > len)
        n = len;
    memcpy(bytes, c->script->says + c->said, n);
    c->said += n;
    c->ready_at = now + c->script->pause_us;
    return (ptrdiff_t)n;
}

static bool may_read(const struct connection *c)
{
    return c->heard && now >= c->ready_at && (c->script->says[c->said] || c->script->closes);
}

/* Time passes here and nowhere else. */
static int net_wait(void *baton, htc_mc_wait *wait, unsigned n, int64_t us)
{
    int64_t end = now + us;

    (void)baton;
    waits++;
    ck_assert_int_gt(us, 0);
    if (nested) {
        nested--;
        run_nested();
    }
    for (;;) {
        int came = 0;
        int64_t next = end;

        for (unsigned i = 0; i < n; i++) {
            const struct connection *c = &connections[wait[i].handle];
            bool connected = c->heard || now >= c->ready_at;

            wait[i].writable = connected && !c->script->deaf;
            if (may_read(c))
                came++;
            else if (!c->heard && connected && !c->script->deaf)
                came++;
            if (c->ready_at > now && c->ready_at < next)
                next = c->ready_at;
        }
        if (came || now >= end) {
            for (unsigned i = 0; i < n; i++)
                wait[i].readable = may_read(&connections[wait[i].handle]);
            return came;
        }
        now = next;
    }
}

static void net_close(void *baton, int handle)
{
    (void)baton;
    ck_assert(connections[handle].open);
    connections[handle].open = false;
    closed++;
}

static void on_news(void *baton, unsigned server, bool open, const char *why)
{
    (void)baton;
    (void)server;
    ck_assert(why && *why);
    news_open += open;
    news_closed += !open;
}

static void setup(void)
{
    const htc_mc_io io = {NULL,     net_now,  net_open, net_connected, net_idle,
                          net_send, net_recv, net_wait, net_close};

    apr_initialize();
    apr_pool_create(&pool, NULL);
    memset(scripts, 0, sizeof(scripts));
    memset(nth, 0, sizeof(nth));
    memset(servers, 0, sizeof(servers));
    now = 1000000;
    opened = closed = waits = nested = 0;
    news_open = news_closed = 0;
    ck_assert_int_eq(htc_mc_create(&mc, &io, servers, 8, on_news, NULL, pool), APR_SUCCESS);
}

static void teardown(void)
{
    htc_mc_close(mc);
    ck_assert_uint_eq(opened, closed);
    apr_pool_destroy(pool);
    apr_terminate();
}

#define BUDGET 20000

static htc_mc_item get_of(unsigned server)
{
    return (htc_mc_item){.op = HTC_MC_GET, .server = server, .key = "k1"};
}

/* One call with the whole budget; returns what is left. */
static int64_t run(htc_mc_item *items, unsigned n)
{
    int64_t budget = BUDGET, before = now;

    htc_mc_run(mc, items, n, &budget, BUDGET / 2, pool);
    ck_assert_int_le(now - before, BUDGET);
    ck_assert_int_eq(budget, BUDGET - (now - before));
    return budget;
}

static const script good = {.says = "VALUE k1 0 3\r\nabc\r\nEND\r\n"};
static const script good_stale = {.says = "VALUE k1 0 3\r\nabc\r\nEND\r\n", .stale = true};

START_TEST(gets_and_keeps_the_connection)
{
    htc_mc_item item;

    scripts[0][0] = &good;
    item = get_of(0);
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    ck_assert_uint_eq(item.got_len, 3);
    ck_assert(!memcmp(item.got, "abc", 3));
    ck_assert_str_eq(connections[0].first, "get k1\r\n");
    ck_assert_uint_eq(closed, 0);
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    ck_assert_uint_eq(opened, 1);
    ck_assert_uint_eq(servers[0].exchanges, 2);
    ck_assert_uint_eq(servers[0].connects, 1);
    ck_assert_uint_eq(servers[0].reused, 1);
}
END_TEST

static void run_nested(void)
{
    htc_mc_item item = get_of(0);

    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
}

/* As many connections as threads at a time; of those HTC_MC_KEEP are kept, and used again. */
START_TEST(no_more_connections_than_threads)
{
    const unsigned threads = HTC_MC_KEEP + 4;
    _Atomic int32_t open = 0;

    scripts[0][0] = &good;
    htc_mc_count_open(mc, &open);
    for (unsigned round = 0; round < 3; round++) {
        nested = threads - 1;
        run_nested();
        ck_assert_uint_eq(nested, 0);
        ck_assert_int_eq(open, HTC_MC_KEEP);
        ck_assert_uint_eq(opened - closed, HTC_MC_KEEP);
        ck_assert_uint_eq(servers[0].connects, threads + round * (threads - HTC_MC_KEEP));
        ck_assert_uint_eq(servers[0].reused, round * HTC_MC_KEEP);
    }
    htc_mc_close(mc);
    ck_assert_int_eq(open, 0);
}
END_TEST

/* Everything a server can do wrong. */
static const struct {
    const char *name;
    script script;
    bool late; /* takes the whole budget */
} bad[] = {
    {"refuses at once", {.connect_us = -1, .says = ""}, false},
    {"refuses later", {.connect_us = -3, .says = ""}, false},
    {"never connects", {.connect_us = -2, .says = ""}, true},
    {"connects and is silent", {.says = ""}, true},
    {"takes nothing", {.says = "", .deaf = true}, true},
    {"answers too late", {.says = "END\r\n", .first_us = BUDGET + 1}, true},
    {"drips", {.says = "VALUE k1 0 3\r\nabc\r\nEND\r\n", .chunk = 1, .pause_us = 1000}, true},
    {"closes", {.says = "", .closes = true}, false},
    {"closes in the middle", {.says = "VALUE k1 0 3\r\nab", .closes = true}, false},
    {"stops in the middle", {.says = "VALUE k1 0 3\r\nab"}, true},
    {"speaks nonsense", {.says = "hello\r\n"}, false},
    {"says too much", {.says = "END\r\nEND\r\n"}, false},
    {"is a web server", {.says = "HTTP/1.1 400 Bad Request\r\n\r\n", .closes = true}, false},
};

START_TEST(never_longer_than_the_budget)
{
    htc_mc_item items[2] = {get_of(0), get_of(1)};
    int64_t left;

    scripts[0][0] = &bad[_i].script;
    scripts[1][0] = &good;
    left = run(items, 2);
    ck_assert_msg((left <= 0) == bad[_i].late, "%s: %ld us left", bad[_i].name, (long)left);
    ck_assert_uint_eq(servers[0].timeouts, bad[_i].late);
    ck_assert_uint_eq(servers[0].failures, !bad[_i].late);
    /* The other server's answer is there all the same. */
    ck_assert_int_eq(items[1].result, HTC_MC_HIT);
    ck_assert_uint_eq(servers[1].failures + servers[1].timeouts, 0);
    if (strcmp(bad[_i].name, "says too much") != 0)
        ck_assert_int_eq(items[0].result, HTC_MC_NONE);
}
END_TEST

/* All that one request does, with a server that fails in each way in turn: connections that are
 * replaced, breakers that open and let a try through, and more calls than there is time for. */
START_TEST(many_calls_within_one_budget)
{
    int64_t budget = BUDGET, start = now, allowed = 3000;

    for (unsigned i = 0; i < 8; i++)
        scripts[i][0] = &bad[((unsigned)_i + i) % (sizeof(bad) / sizeof(bad[0]))].script;
    for (int call = 0; call < 50; call++) {
        htc_mc_item items[8];
        int64_t before = now, had = budget;

        for (unsigned i = 0; i < 8; i++)
            items[i] = get_of(i);
        if (opened + 8 > MAX_CONNECTIONS)
            break;
        /* Other work between the calls is none of the budget's. */
        htc_mc_run(mc, items, 8, &budget, BUDGET / 2, pool);
        ck_assert_int_eq(had - budget, now - before);
        now += allowed;
        start += allowed;
    }
    ck_assert_int_le(now - start, BUDGET);
    ck_assert_int_eq(budget, 0);
}
END_TEST

START_TEST(given_up_and_tried_again)
{
    static const script refuses = {.connect_us = -1, .says = ""};
    htc_mc_item item = get_of(0);

    scripts[0][0] = &refuses;
    for (int i = 0; i < 10; i++)
        run(&item, 1);
    ck_assert_uint_eq(servers[0].failures, HTC_BREAKER_LIMIT);
    ck_assert_uint_eq(servers[0].skipped, 10 - HTC_BREAKER_LIMIT);
    ck_assert_int_eq(news_open, 1);
    /* It comes back. The next request after the time is up finds out. */
    scripts[0][0] = &good;
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_NONE);
    now += HTC_BREAKER_RETRY_MS * 1000;
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    ck_assert_int_eq(news_closed, 1);
    ck_assert(!htc_breaker_is_open(&servers[0].breaker));
}
END_TEST

/* A restart closes all kept connections: another one is made, and nothing has failed. */
START_TEST(a_kept_connection_that_was_closed_is_no_failure)
{
    static const script dies = {.says = "END\r\n"};
    htc_mc_item item = get_of(0);

    scripts[0][0] = &good_stale;
    scripts[0][1] = &good;
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    ck_assert_uint_eq(opened, 2);
    ck_assert_uint_eq(closed, 1);
    ck_assert_uint_eq(servers[0].failures, 0);
    (void)dies;
}
END_TEST

/* The same, but the close comes after the connection was looked at. */
START_TEST(nor_one_that_is_closed_as_it_is_used)
{
    static const script once = {.says = "VALUE k1 0 3\r\nabc\r\nEND\r\n", .closes = true};
    htc_mc_item item = get_of(0);

    scripts[0][0] = &once;
    scripts[0][1] = &good;
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    ck_assert_uint_eq(opened, 2);
    ck_assert_uint_eq(servers[0].failures, 0);
    ck_assert_uint_eq(servers[0].exchanges, 2);
}
END_TEST

START_TEST(a_rest_of_budget_is_no_reason_to_give_up)
{
    static const script slow = {.says = "END\r\n", .first_us = 1000};
    htc_mc_item item = get_of(0);

    scripts[0][0] = &slow;
    for (int i = 0; i < 10; i++) {
        int64_t budget = 500;

        htc_mc_run(mc, &item, 1, &budget, BUDGET / 2, pool);
        ck_assert_int_le(budget, 0);
    }
    ck_assert(!htc_breaker_is_open(&servers[0].breaker));
    ck_assert_uint_eq(servers[0].timeouts, 10);
}
END_TEST

START_TEST(nothing_is_done_without_a_budget)
{
    htc_mc_item item = get_of(0);
    int64_t budget = 0;

    scripts[0][0] = &good;
    htc_mc_run(mc, &item, 1, &budget, BUDGET, pool);
    ck_assert_int_eq(item.result, HTC_MC_NONE);
    ck_assert_uint_eq(opened + waits, 0);
}
END_TEST

START_TEST(a_pause_is_within_the_budget)
{
    int64_t budget = BUDGET, start = now;

    htc_mc_pause(mc, BUDGET / 4, &budget);
    ck_assert_int_eq(now - start, BUDGET / 4);
    ck_assert_int_eq(budget, BUDGET - BUDGET / 4);
    htc_mc_pause(mc, 2 * BUDGET, &budget);
    ck_assert_int_eq(now - start, BUDGET);
    ck_assert_int_eq(budget, 0);
    htc_mc_pause(mc, 1, &budget);
    ck_assert_int_eq(now - start, BUDGET);
    ck_assert_uint_eq(opened, 0);
}
END_TEST

START_TEST(items_of_several_servers_are_asked_for_at_once)
{
    static const script one = {.says = "END\r\nSTORED\r\nVALUE k4 0 3\r\nabc\r\nEND\r\n",
                               .first_us = 3000};
    static const script two = {.says = "NOT_STORED\r\nDELETED\r\n", .first_us = 4000, .chunk = 3};
    htc_mc_item items[5] = {
        get_of(0),
        {.op = A, .server = 1, .key = "k1", .value = "v", .value_len = 1},
        {.op = S, .server = 0, .key = "k2", .value = "vv", .value_len = 2, .expire = 9},
        {.op = D, .server = 1, .key = "k3"},
        {.op = G, .server = 0, .key = "k4"}};

    scripts[0][0] = &one;
    scripts[1][0] = &two;
    ck_assert_int_eq(run(items, 5), BUDGET - 4000);
    ck_assert_int_eq(items[0].result, HTC_MC_MISS);
    ck_assert_int_eq(items[1].result, HTC_MC_EXISTS);
    ck_assert_int_eq(items[2].result, HTC_MC_DONE);
    ck_assert_int_eq(items[3].result, HTC_MC_DONE);
    ck_assert_int_eq(items[4].result, HTC_MC_HIT);
    ck_assert_uint_eq(items[4].got_len, 3);
    ck_assert_str_eq(connections[0].first, "get k1\r\nset k2 0 9 2\r\nvv\r\nget k4\r\n");
}
END_TEST

START_TEST(a_large_value_arrives_whole)
{
    size_t len = 900000;
    char *says = malloc(len + 64);
    script large = {.says = says, .chunk = 1460};
    htc_mc_item item = get_of(0);
    int n = sprintf(says, "VALUE k1 0 %zu\r\n", len);

    memset(says + n, 'v', len);
    strcpy(says + n + len, "\r\nEND\r\n");
    scripts[0][0] = &large;
    run(&item, 1);
    ck_assert_int_eq(item.result, HTC_MC_HIT);
    ck_assert_uint_eq(item.got_len, len);
    ck_assert(!memcmp(item.got, says + n, len));
    htc_mc_close(mc);
    free(says);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("memcached");
    TCase *tc = tcase_create("memcached");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, parses, 0, (int)(sizeof(answers) / sizeof(answers[0])));
    tcase_add_test(tc, a_line_that_does_not_end_is_nonsense);
    tcase_add_test(tc, gets_and_keeps_the_connection);
    tcase_add_test(tc, no_more_connections_than_threads);
    tcase_add_loop_test(tc, never_longer_than_the_budget, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_loop_test(tc, many_calls_within_one_budget, 0, (int)(sizeof(bad) / sizeof(bad[0])));
    tcase_add_test(tc, given_up_and_tried_again);
    tcase_add_test(tc, a_kept_connection_that_was_closed_is_no_failure);
    tcase_add_test(tc, nor_one_that_is_closed_as_it_is_used);
    tcase_add_test(tc, a_rest_of_budget_is_no_reason_to_give_up);
    tcase_add_test(tc, nothing_is_done_without_a_budget);
    tcase_add_test(tc, a_pause_is_within_the_budget);
    tcase_add_test(tc, items_of_several_servers_are_asked_for_at_once);
    tcase_add_test(tc, a_large_value_arrives_whole);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());
    int failed;

    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
