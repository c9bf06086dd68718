/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The network of farm/memcached.c: non-blocking TCP sockets and poll. Names were resolved when the
 * server started, so that no request waits for that.
 */
#include "farm/memcached.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t socket_now_us(void *baton)
{
    struct timespec t;

    (void)baton;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int socket_open(void *baton, unsigned server)
{
    const htc_mc_address *address = (const htc_mc_address *)baton + server;
    int fd, on = 1;

    if (!address->len)
        return -EHOSTUNREACH;
    fd = socket(address->family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(fd, (const struct sockaddr *)(const void *)address->sockaddr.bytes, address->len) !=
            0 &&
        errno != EINPROGRESS) {
        int error = errno;

        close(fd);
        return -error;
    }
    return fd;
}

static int socket_connected(void *baton, int fd)
{
    int error = 0;
    socklen_t len = sizeof(error);

    (void)baton;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return -errno;
    return -error;
}

static bool socket_idle(void *baton, int fd)
{
    char byte;

    (void)baton;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EINTR);
}

/* errno of a call that may be tried again is always -EAGAIN. */
static ptrdiff_t outcome(ssize_t n)
{
    if (n >= 0)
        return n;
    return errno == EINTR || errno == EWOULDBLOCK ? -EAGAIN : -errno;
}

static ptrdiff_t socket_send(void *baton, int fd, const void *bytes, size_t len)
{
    (void)baton;
    return outcome(send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT));
}

static ptrdiff_t socket_recv(void *baton, int fd, void *bytes, size_t len)
{
    (void)baton;
    return outcome(recv(fd, bytes, len, MSG_DONTWAIT));
}

static int socket_wait(void *baton, htc_mc_wait *waits, unsigned n, int64_t us)
{
    struct pollfd fds[HTC_MC_MAX_SERVERS];
    const struct timespec limit = {us / 1000000, us % 1000000 * 1000};
    int rv;

    (void)baton;
    for (unsigned i = 0; i < n; i++) {
        fds[i].fd = waits[i].handle;
        fds[i].events =
            (short)((waits[i].readable ? POLLIN : 0) | (waits[i].writable ? POLLOUT : 0));
        fds[i].revents = 0;
    }
    rv = ppoll(fds, n, &limit, NULL);
    for (unsigned i = 0; i < n; i++) {
        bool broken = fds[i].revents & (POLLERR | POLLHUP | POLLNVAL);

        waits[i].readable = broken || (fds[i].revents & POLLIN);
        waits[i].writable = broken || (fds[i].revents & POLLOUT);
    }
    return rv;
}

static void socket_close(void *baton, int fd)
{
    (void)baton;
    close(fd);
}

htc_mc_io htc_mc_sockets(const htc_mc_address *addresses)
{
    return (htc_mc_io){(void *)(uintptr_t)addresses,
                       socket_now_us,
                       socket_open,
                       socket_connected,
                       socket_idle,
                       socket_send,
                       socket_recv,
                       socket_wait,
                       socket_close};
}
