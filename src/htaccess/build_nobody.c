/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A server that does not exist. Contents are built for it, so nothing in them is of one virtual
 * host. Called by htaccess/build_content.c.
 *
 * A directive learns of its server by cmd->server alone. Handlers look up their module's
 * configuration there even where they do not need it. So this server_rec tells where the
 * configuration of each module is, and nothing else: all its pointers lead to memory that nobody may
 * read or write, and the members behind module_config lie in such memory. A handler that looks at
 * anything faults, which htc_nobody_run() catches. (A system call would fail instead; what a directive
 * of the allow-list comes to depends on none.) What a handler only notes of the server is found by
 * htc_nobody_has().
 */
#include "htaccess/htaccess.h"
#include "htaccess/build.h"
#include "htaccess/internal.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Behind the middle, and before it, lies more than a module keeps for a server. */
#define CLOSED ((size_t)1 << 20)
#define OPEN   (offsetof(server_rec, module_config) + sizeof(ap_conf_vector_t *))

static struct {
    char *memory, *closed, *end; /* memory up to closed can be read */
    server_rec *server;
} nobody;

static struct {
    sigjmp_buf back;
    volatile sig_atomic_t armed;
} watch;

static bool make(const htc_context *ctx)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t open = (ctx->vector_bytes + OPEN + page - 1) / page * page;
    char *at = mmap(NULL, open + CLOSED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *nothing = at + open + CLOSED / 2;

    if (at == MAP_FAILED)
        return false;
    if (mprotect(at, open, PROT_READ | PROT_WRITE)) {
        munmap(at, open + CLOSED);
        return false;
    }
    for (size_t i = 0; i < open; i += sizeof(nothing))
        memcpy(at + i, &nothing, sizeof(nothing));
    nobody.memory = at;
    nobody.closed = at + open;
    nobody.end = nobody.closed + CLOSED;
    nobody.server = (server_rec *)(void *)(nobody.closed - OPEN);
    nobody.server->log.level = APLOG_TRACE8; /* whoever would log goes on, and looks where to */
    nobody.server->module_config = (ap_conf_vector_t *)(void *)at;
    return !mprotect(at, open, PROT_READ);
}

server_rec *htc_nobody(const htc_context *ctx)
{
    static bool tried, made;

    if (!tried)
        made = make(ctx);
    tried = true;
    return made ? nobody.server : NULL;
}

bool htc_nobody_has(uintptr_t pointer)
{
    return pointer >= (uintptr_t)nobody.memory && pointer < (uintptr_t)nobody.end;
}

/* Any other fault ends the process, as without this: the instruction is run again. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    (void)context;
    if (watch.armed && info->si_code == SEGV_ACCERR && htc_nobody_has((uintptr_t)info->si_addr)) {
        watch.armed = 0;
        siglongjmp(watch.back, 1);
    }
    signal(signal_number, SIG_DFL);
}

bool htc_nobody_run(void (*fn)(void *baton), void *baton)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO}, was;
    volatile bool good = false;

    action.sa_sigaction = on_fault;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &was))
        return false;
    if (!sigsetjmp(watch.back, 1)) {
        watch.armed = 1;
        fn(baton);
        good = true;
    }
    watch.armed = 0;
    sigaction(SIGSEGV, &was, NULL);
    return good;
}
