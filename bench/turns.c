/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Two servers in turn, some hundred requests each, over keep-alive connections that stay open: what
 * another program on the machine takes away falls on both alike, because a turn lasts milliseconds.
 *
 *   cc -O2 -D_GNU_SOURCE -o turns bench/turns.c
 *   turns REQUESTS PAIRS CONNECTIONS PORT PATH PIDS PORT PATH PIDS
 *
 * PIDS are the processes of a server, with commas. For each pair of turns a line of four numbers:
 * microseconds for one request of the first server, of processor time of its processes, and both
 * of the second. Every answer has to have the status and the body's length of the server's first.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNECTIONS 256
#define MAX_PIDS        256
#define MAX_ANSWER      65536
#define STATUS_AT       9 /* "HTTP/1.1 200" */
#define TIMEOUT_MS      30000
#define WARM_UP         3  /* turns before anything is measured */
#define FIRST_OF_TURN   20 /* requests that come first in a turn and are not measured */

typedef struct server {
    char request[4096];
    size_t request_len;
    int port, epoll;
    int connections[MAX_CONNECTIONS];
    size_t received[MAX_CONNECTIONS], expected[MAX_CONNECTIONS];
    char status[3];
    size_t body_len;
    bool answered; /* status and body_len are known */
    clockid_t clocks[MAX_PIDS];
    int nclocks;
} server;

static void die(const char *what)
{
    fprintf(stderr, "turns: %s: %s\n", what, errno ? strerror(errno) : "unexpected answer");
    exit(1);
}

static double microseconds(clockid_t clock)
{
    struct timespec t;

    return clock_gettime(clock, &t) == 0 ? (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3 : 0;
}

static double processor_time(const server *s)
{
    double sum = 0;

    for (int i = 0; i < s->nclocks; i++)
        sum += microseconds(s->clocks[i]);
    return sum;
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        die("connect");
    return fd;
}

static void open_connection(server *s, int i)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};

    s->connections[i] = connect_to(s->port);
    if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->connections[i], &event) != 0)
        die("epoll_ctl");
}

static void open_server(server *s, char **args, int connections)
{
    s->port = atoi(args[0]);
    s->request_len = (size_t)snprintf(s->request, sizeof(s->request),
                                      "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", args[1]);
    if (s->request_len >= sizeof(s->request))
        die("the path is too long");
    for (char *pid = strtok(args[2], ","); pid && s->nclocks < MAX_PIDS; pid = strtok(NULL, ","))
        if (clock_getcpuclockid(atoi(pid), &s->clocks[s->nclocks]) == 0)
            s->nclocks++;
    s->epoll = epoll_create1(0);
    for (int i = 0; i < connections; i++)
        open_connection(s, i);
}

static void ask(const server *s, int i)
{
    /* A connection that is closed already is noticed by who reads. */
    if (send(s->connections[i], s->request, s->request_len, MSG_NOSIGNAL) !=
            (ssize_t)s->request_len &&
        errno != EPIPE && errno != ECONNRESET)
        die("send");
}

/* Of an answer's beginning: the status, and the length of all by what the head says. Heads of the
 * same page differ in length: an ETag is weak while the file is young. */
static size_t begin_answer(server *s, const char *answer, size_t len)
{
    const char *end = memmem(answer, len, "\r\n\r\n", 4), *length;
    size_t body_len;

    errno = 0;
    length = end ? memmem(answer, (size_t)(end - answer), "Content-Length: ", 16) : NULL;
    if (!length)
        die("an answer without Content-Length");
    body_len = strtoul(length + 16, NULL, 10);
    errno = 0;
    if (!s->answered) {
        s->answered = true;
        s->body_len = body_len;
        memcpy(s->status, answer + STATUS_AT, sizeof(s->status));
    }
    if (memcmp(answer + STATUS_AT, s->status, sizeof(s->status)) != 0)
        die("another status than at first");
    if (body_len != s->body_len)
        die("another length than at first");
    return (size_t)(end + 4 - answer) + body_len;
}

/* Is an answer complete? A head is small enough to come in one piece. */
static bool receive(server *s, int i)
{
    static char answer[MAX_ANSWER];
    ssize_t n = read(s->connections[i], answer, sizeof(answer));

    if (n <= 0 && !s->received[i]) { /* event closes some where all threads are busy */
        close(s->connections[i]);
        open_connection(s, i);
        ask(s, i);
        return false;
    }
    if (n <= 0)
        die("the server closed a connection");
    if (!s->received[i])
        s->expected[i] = begin_answer(s, answer, (size_t)n);
    s->received[i] += (size_t)n;
    if (s->received[i] < s->expected[i])
        return false;
    errno = 0;
    if (s->received[i] > s->expected[i])
        die("more than an answer");
    s->received[i] = 0;
    return true;
}

static void turn(server *s, int requests, int connections)
{
    int asked = 0, answered = 0;

    for (; asked < connections && asked < requests; asked++)
        ask(s, asked);
    while (answered < requests) {
        struct epoll_event events[MAX_CONNECTIONS];
        int n = epoll_wait(s->epoll, events, MAX_CONNECTIONS, TIMEOUT_MS);

        if (n <= 0)
            die("no answer");
        for (int k = 0; k < n; k++) {
            int i = (int)events[k].data.u32;

            if (!receive(s, i))
                continue;
            answered++;
            if (asked < requests) {
                ask(s, i);
                asked++;
            }
        }
    }
}

static void measure(server *s, int requests, int connections, double figures[2])
{
    double begin, cpu;

    turn(s, FIRST_OF_TURN, connections);
    cpu = processor_time(s);
    begin = microseconds(CLOCK_MONOTONIC);
    turn(s, requests, connections);
    figures[0] = (microseconds(CLOCK_MONOTONIC) - begin) / requests;
    figures[1] = (processor_time(s) - cpu) / requests;
}

int main(int argc, char **argv)
{
    static server servers[2];
    int requests, pairs, connections;

    if (argc != 10 || (requests = atoi(argv[1])) < 1 || (pairs = atoi(argv[2])) < 1 ||
        (connections = atoi(argv[3])) < 1 || connections > MAX_CONNECTIONS) {
        fprintf(stderr, "usage: turns REQUESTS PAIRS CONNECTIONS PORT PATH PIDS PORT PATH PIDS\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        open_server(&servers[i], argv + 4 + 3 * i, connections);
        turn(&servers[i], 1, 1);
        turn(&servers[i], WARM_UP * requests, connections);
    }
    for (int i = 0; i < pairs; i++) {
        double figures[2][2];

        for (int k = 0; k < 2; k++)
            measure(&servers[(i + k) % 2], requests, connections, figures[(i + k) % 2]);
        printf("%.3f %.3f %.3f %.3f\n", figures[0][0], figures[0][1], figures[1][0], figures[1][1]);
    }
    return 0;
}
