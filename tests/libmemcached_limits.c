/* Licensed under the Apache License, Version 2.0; see LICENSE.
 *
 * How long libmemcached's own input and output waits for a server that misbehaves, with its
 * connection pool and every limit that it has at 20 ms. It is why src/farm/memcached.c speaks
 * the protocol itself (docs/farm.md). Run by hand, where libmemcached is installed:
 *
 *     make tests/libmemcached_limits && tests/libmemcached_limits
 *
 * Each server is a process on 127.0.0.1, each trial another one, so that an abort ends that alone.
 * Prints a row per protocol, server and call; exit code 0 when every call came back within a
 * second, that is, when the decision should be thought over.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <libmemcached-1.0/memcached.h>
#include <libmemcachedutil-1.0/pool.h>

#define LIMIT_MS  20
#define PATIENCE  60 /* seconds until a trial is ended */
#define KEY       "k"
#define VALUE_LEN 2000

/* --- servers ------------------------------------------------------------------------------------
 */

static void heard(int fd)
{
    char buffer[4096];

    if (read(fd, buffer, sizeof(buffer)) < 0)
        _exit(1);
}

static void silent(int fd)
{
    heard(fd);
    sleep(2 * PATIENCE);
}

/* The right answer to a get in the text protocol, a byte every 10 ms. */
static void drips(int fd)
{
    char answer[VALUE_LEN + 64];
    int n = sprintf(answer, "VALUE " KEY " 0 %d\r\n", VALUE_LEN);

    memset(answer + n, 'x', VALUE_LEN);
    strcpy(answer + n + VALUE_LEN, "\r\nEND\r\n");
    heard(fd);
    for (const char *p = answer; *p; p++) {
        const struct timespec pause = {0, 10 * 1000 * 1000};

        if (write(fd, p, 1) != 1)
            _exit(0);
        nanosleep(&pause, NULL);
    }
}

/* The same bytes at each run. */
static void random_bytes(int fd)
{
    uint32_t state = 1;
    char bytes[8192];

    heard(fd);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (char)(state >> 24);
    }
    if (write(fd, bytes, sizeof(bytes)) < 0)
        _exit(0);
    sleep(1);
}

static const struct {
    const char *name;
    void (*serve)(int fd);
} servers[] = {{"is silent", silent}, {"drips", drips}, {"says random bytes", random_bytes}};

/* Returns its process number; its port in *port. */
static pid_t start_server(void (*serve)(int), in_port_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pid_t pid;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) != 0 ||
        listen(listener, 16) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0) {
        perror("no server");
        exit(2);
    }
    *port = ntohs(address.sin_port);
    pid = fork();
    if (pid) {
        close(listener);
        return pid;
    }
    setpgid(0, 0);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    for (;;) {
        int fd = accept(listener, NULL, NULL);

        if (fd >= 0 && !fork()) {
            alarm(2 * PATIENCE);
            serve(fd);
            _exit(0);
        }
        close(fd);
    }
}

/* --- the library --------------------------------------------------------------------------------
 */

static void set_limits(memcached_st *mc, bool binary)
{
    const struct {
        memcached_behavior_t what;
        uint64_t value;
    } all[] = {
        {MEMCACHED_BEHAVIOR_BINARY_PROTOCOL, binary},
        {MEMCACHED_BEHAVIOR_NO_BLOCK, 1},
        {MEMCACHED_BEHAVIOR_TCP_NODELAY, 1},
        {MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, LIMIT_MS},
        {MEMCACHED_BEHAVIOR_POLL_TIMEOUT, LIMIT_MS},
        {MEMCACHED_BEHAVIOR_SND_TIMEOUT, LIMIT_MS * 1000},
        {MEMCACHED_BEHAVIOR_RCV_TIMEOUT, LIMIT_MS * 1000},
        {MEMCACHED_BEHAVIOR_IO_MSG_WATERMARK, 0},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        memcached_behavior_set(mc, all[i].what, all[i].value);
}

static const char *call(bool set, bool binary, in_port_t port)
{
    const struct timespec limit = {0, LIMIT_MS * 1000 * 1000};
    memcached_return_t rc;
    memcached_pool_st *pool;
    memcached_st *mc = memcached_create(NULL), *taken;

    memcached_server_add(mc, "127.0.0.1", port);
    set_limits(mc, binary);
    pool = memcached_pool_create(mc, 1, 4);
    taken = memcached_pool_fetch(pool, (struct timespec *)&limit, &rc);
    if (!taken)
        return memcached_strerror(mc, rc);
    if (set) {
        rc = memcached_set(taken, KEY, 1, "value", 5, 60, 0);
    } else {
        size_t len;
        uint32_t flags;

        free(memcached_get(taken, KEY, 1, &len, &flags, &rc));
    }
    return memcached_strerror(taken, rc);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* True when it came back within a second. */
static bool trial(unsigned server, bool set, bool binary)
{
    in_port_t port;
    pid_t serving = start_server(servers[server].serve, &port), pid;
    int64_t start = now_ms();
    char result[64];
    int status;

    printf("%-7s %-18s %-4s ", binary ? "binary" : "text", servers[server].name,
           set ? "set" : "get");
    fflush(stdout);
    pid = fork();
    if (!pid) {
        alarm(PATIENCE);
        printf("%-34.34s ", call(set, binary, port));
        fflush(stdout);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status)) {
        snprintf(result, sizeof(result), "ended by signal %d (%s)", WTERMSIG(status),
                 WTERMSIG(status) == SIGALRM ? "given up waiting" : strsignal(WTERMSIG(status)));
        printf("%-34.34s ", result);
    }
    printf("%6lld ms\n", (long long)(now_ms() - start));
    kill(-serving, SIGKILL);
    kill(serving, SIGKILL);
    waitpid(serving, NULL, 0);
    return !WIFSIGNALED(status) && now_ms() - start < 1000;
}

int main(void)
{
    bool good = true;

    printf("libmemcached %s, connection pool, each limit %d ms\n", memcached_lib_version(),
           LIMIT_MS);
    for (int binary = 0; binary < 2; binary++) {
        for (unsigned i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
            good &= trial(i, false, binary);
            good &= trial(i, true, binary);
        }
    }
    return !good;
}
