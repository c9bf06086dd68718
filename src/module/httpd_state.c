/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What httpd is doing, asked of httpd: starting, restarting, or only reading its configuration; and
 * modules beside which the cache stays off. Called by the folders above.
 */
#include "module/module.h"

#include "ap_listen.h"
#include "ap_mpm.h"
#include "apr_signal.h"
#include "mpm_common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Modules that change the user a request runs as. What one user may read must not be remembered
 * for another, so the cache stays off beside them. */
static const char *const user_switching[] = {
    "itk.c", "mpm_itk.c", "mod_ruid2.c", "peruser.c", "mod_privileges.c", "mod_suid2.c", NULL};

const char *htc_user_switcher(void)
{
    for (int i = 0; user_switching[i]; i++) {
        if (ap_find_linked_module(user_switching[i]))
            return user_switching[i];
    }
    return NULL;
}

bool htc_switches_users(void)
{
    return htc_user_switcher() != NULL;
}

bool htc_is_restart(void)
{
    int generation = 0;
    return ap_mpm_query(AP_MPMQ_GENERATION, &generation) == APR_SUCCESS && generation > 0;
}

bool htc_is_preflight(void)
{
    return ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG;
}

/* httpd takes -k out of the arguments that modules see. */
bool htc_is_stopping(void)
{
    char text[16384], *end, *at = text;
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    bool stopping = false;

    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    for (end = text + (len > 0 ? len : 0); at < end; at += strlen(at) + 1) {
        const char *word = strncmp(at, "-k", 2) != 0 ? NULL : at[2] ? at + 2 : at + 3;

        if (word && word < end && (!strcmp(word, "stop") || !strcmp(word, "graceful-stop")))
            stopping = true;
    }
    return stopping;
}

/* A process that begins has the parent's handler, which would only note in its memory that it is to
 * end: the parent would wait in vain for it. */
apr_status_t htc_fork(apr_proc_t *proc, apr_pool_t *pool)
{
    sigset_t end, before;
    apr_status_t rv;

    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_BLOCK, &end, &before);
    rv = apr_proc_fork(proc, pool);
    if (rv != APR_INCHILD)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return rv;
}

void htc_fork_prepare(void)
{
    apr_signal(SIGTERM, SIG_DFL);
    apr_signal(SIGALRM, SIG_DFL);
    apr_signal(SIGCHLD, SIG_DFL);
    apr_signal(SIGHUP, SIG_IGN);
    apr_signal(SIGINT, SIG_IGN);
    apr_signal(SIGPIPE, SIG_IGN); /* the program of a piped log may have ended */
    apr_signal(SIGXFSZ, SIG_IGN);
    apr_signal(AP_SIG_GRACEFUL, SIG_IGN);
    apr_signal(AP_SIG_GRACEFUL_STOP, SIG_IGN);
    ap_close_listeners();
}

void htc_fork_may_end(void)
{
    sigset_t end;

    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &end, NULL);
}

bool htc_ends_children(void)
{
    int state;

    return ap_mpm_query(AP_MPMQ_MPM_STATE, &state) == APR_SUCCESS && state == AP_MPMQ_STOPPING;
}

/* The MPM takes it apart. Where APR itself finds that the process has ended, it does not. */
int htc_fork_ended(apr_wait_t status)
{
    return status > 0xFF ? WEXITSTATUS(status) : status;
}
