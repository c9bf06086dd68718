/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The builder process: it alone writes the heap (heap/heap.h). httpd's parent forks it beside the
 * children, once for each configuration generation, and again when it ends. It has the children's
 * user and rights. What it builds is in htaccess/build.c.
 *
 * Nobody waits for it. Where there is no builder, requests run records themselves.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include "ap_mpm.h"
#include "apr_portable.h"
#include "http_main.h"
#include "mpm_common.h"
#include "unixd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define WAIT_MS        1000
#define STEP_S         10 /* to begin, and one request, may take so long; then the builder ends */
#define BURST          10 /* builders that may begin one right behind the other; then one in a second */
#define SPARE_ROWS     64 /* for processes that replace others which still end, and for daemons */
#define STORE_IS_LARGE 1U /* what the builder tells: pages of this are large */
#define WATCH_IS_LARGE 2U
#define BROKEN         200 /* exit code, which is no signal: another builder could not do it either */

struct htc_builder {
    htc_context *ctx;
    server_rec *s;
    apr_pool_t *pool; /* of the configuration */
    apr_proc_t proc;
    pid_t parent;
    bool noted; /* httpd ends the process with the configuration */
    bool running;
    bool broken; /* it cannot work before the next restart, and has said so */
    int ended;   /* how the last one did: its signal, or the code that it left with */
    unsigned tokens;
    apr_time_t last;
};

static void start(struct htc_builder *builder);

/* --- in the builder ----------------------------------------------------------------------------*/

/* True when the last builder was killed, or found no memory: that need not lie in its record. */
static bool was_ended(const struct htc_builder *builder)
{
    return builder->ended == SIGKILL || builder->ended == SIGTERM ||
           builder->ended == HTC_HEAP_NO_MEMORY;
}

/* The last builder was at this record when it ended. The first time it may have been killed by
 * somebody; if it ended by a fault, or a second time, the record is not tried again. */
static void look_at_last(const struct htc_builder *builder)
{
    htc_heap *heap = builder->ctx->heap;
    bool killed = was_ended(builder);
    uint64_t version, record = htc_heap_died_of(heap, &version);
    apr_pool_t *pool;
    const char *path;
    htc_info info;

    if (!record || (killed && !htc_heap_suspected(heap, record, version)))
        return;
    apr_pool_create(&pool, NULL);
    path = htc_store_name(builder->ctx->store, record, pool, &info);
    htc_heap_condemn(heap, record, version);
    ap_log_error(
        APLOG_MARK, APLOG_ERR, 0, builder->s,
        "HtCache: the builder process ended (signal or exit code %d) while it built the "
        "configuration of %s. Each request runs this file's directives itself until the file "
        "changes. Please report the file's content as a defect of mod_htcache or of a module whose "
        "directives it has",
        builder->ended, path ? path : "a file that is gone");
    apr_pool_destroy(pool);
}

/* A pipe that nobody reads; the builder ignores SIGPIPE. There may be no /dev/null, as in a chroot.
 * Takes the place of stderr, too. NULL: it cannot be had. */
static apr_file_t *open_nowhere(apr_pool_t *pool)
{
    apr_file_t *nowhere = NULL;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) || close(ends[0]) || dup2(ends[1], STDERR_FILENO) < 0 ||
        apr_os_file_put(&nowhere, &ends[1], APR_FOPEN_WRITE, pool) != APR_SUCCESS)
        return NULL;
    return nowhere;
}

static void build(const struct htc_builder *builder, const htc_heap_request *request,
                  apr_file_t *nowhere, apr_pool_t *scratch)
{
    bool built;

    alarm(STEP_S);
    built = htc_build(builder->ctx, builder->s, request, nowhere, scratch);
    alarm(0);
    apr_pool_clear(scratch);
    htc_heap_answer(builder->ctx->heap, built, htc_mono_ms());
}

static void work(const struct htc_builder *builder, apr_file_t *nowhere)
{
    htc_context *ctx = builder->ctx;
    htc_heap_request request;
    apr_pool_t *scratch;
    htc_ahead ahead = {0};
    htc_net net = {0};

    if (apr_pool_create(&scratch, NULL) != APR_SUCCESS)
        _exit(HTC_HEAP_NO_MEMORY);
    htc_ahead_begin(&ahead, ctx, builder->s, builder->pool);
    htc_heap_ready(ctx->heap);
    while (getppid() == builder->parent) {
        bool more = htc_ahead_next(&ahead, ctx, &request);

        if (more)
            build(builder, &request, nowhere, scratch);
        else
            htc_heap_wait(ctx->heap, WAIT_MS);
        if (htc_store_enlarge_pages(ctx->store))
            htc_heap_tell(ctx->heap, STORE_IS_LARGE);
        if (ctx->watch && htc_watch_enlarge_pages(ctx->watch))
            htc_heap_tell(ctx->heap, WATCH_IS_LARGE);
        while (htc_heap_next(ctx->heap, &request, htc_mono_ms()))
            build(builder, &request, nowhere, scratch);
        if (!more)
            htc_ahead_note(&ahead, ctx, htc_mono_ms(), scratch);
        alarm(STEP_S);
        htc_net_check(&net, ctx, htc_mono_ms());
        alarm(0);
    }
}

static void run(struct htc_builder *builder)
{
    bool fault = builder->ended && builder->ended != SIGKILL && builder->ended != SIGTERM &&
                 builder->ended != SIGALRM; /* it may have written anything before */
    apr_file_t *nowhere;
    apr_status_t rv;

    htc_fork_prepare();
    htc_fork_may_end();
    rv = htc_heap_own(builder->ctx->heap, fault);
    if (rv != APR_SUCCESS) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, builder->s,
                     "HtCache: the builder process cannot write the heap. Each request runs the "
                     "directives of .htaccess files itself until httpd is restarted");
        _exit(BROKEN);
    }
    if (ap_run_drop_privileges(builder->pool, builder->s) != OK)
        _exit(BROKEN);
    prctl(PR_SET_DUMPABLE, 0); /* no other process of this user may write to it */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    look_at_last(builder);
    nowhere = open_nowhere(builder->pool);
    if (!nowhere) {
        ap_log_error(
            APLOG_MARK, APLOG_ERR, APR_FROM_OS_ERROR(errno), builder->s,
            "HtCache: the builder process has no descriptor for what directives log; raise "
            "the limit of open files. Each request runs the directives of .htaccess files "
            "itself until httpd is restarted");
        _exit(BROKEN);
    }
    work(builder, nowhere);
    _exit(0);
}

/* --- in the parent -----------------------------------------------------------------------------*/

static bool may_start(struct htc_builder *builder)
{
    apr_time_t now = apr_time_now(), passed = now - builder->last;

    if (passed < 0 || passed >= apr_time_from_sec(BURST))
        builder->tokens = BURST;
    else if (builder->tokens < BURST)
        builder->tokens += (unsigned)apr_time_sec(passed);
    if (!builder->tokens)
        return false;
    builder->tokens--;
    builder->last = now;
    return true;
}

/* Called by the MPM. */
static void maintain(int reason, void *data, apr_wait_t status)
{
    struct htc_builder *builder = data;

    switch (reason) {
    case APR_OC_REASON_DEATH:
    case APR_OC_REASON_LOST:
        builder->running = false;
        apr_proc_other_child_unregister(builder);
        builder->ended = reason == APR_OC_REASON_DEATH ? htc_fork_ended(status) : 0;
        builder->broken = builder->ended == BROKEN;
        if (!htc_ends_children() && !builder->broken)
            start(builder);
        break;
    case APR_OC_REASON_RESTART:
        if (htc_ends_children())
            apr_proc_other_child_unregister(builder);
        break;
    case APR_OC_REASON_UNREGISTER: /* called by apr_proc_other_child_unregister() */
        if (builder->running)
            kill(builder->proc.pid, SIGKILL); /* it may be stopped */
        builder->running = false;
        break;
    default:
        break;
    }
}

static void start(struct htc_builder *builder)
{
    apr_status_t rv;

    if (!may_start(builder))
        return; /* htc_builder_monitor() tries again */
    htc_heap_hide_rows(builder->ctx->heap, false);
    rv = htc_fork(&builder->proc, builder->pool);
    if (rv != APR_INCHILD)
        htc_heap_hide_rows(builder->ctx->heap, true);
    if (rv == APR_INCHILD)
        run(builder);
    if (rv != APR_INPARENT) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, builder->s,
                     "HtCache: cannot fork the builder process; it is tried again. Until then each "
                     "request runs the directives of .htaccess files itself. Raise the limit of "
                     "processes (ulimit -u, TasksMax of systemd), or free memory");
        return;
    }
    builder->running = true;
    if (!builder->noted)
        apr_pool_note_subprocess(builder->pool, &builder->proc, APR_KILL_AFTER_TIMEOUT);
    builder->noted = true;
    apr_proc_other_child_register(&builder->proc, maintain, builder, NULL, builder->pool);
}

/* True while a signal has it stopped. waitid() does not tell: httpd's own waitpid() takes that away. */
static bool is_stopped(pid_t pid, apr_pool_t *pool)
{
    FILE *file = fopen(apr_psprintf(pool, "/proc/%" APR_PID_T_FMT "/stat", pid), "re");
    char state = '?';
    bool known = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;

    if (file)
        fclose(file);
    return known && state == 'T';
}

/* A fork may hang, as on a lock that another thread of the parent had. A builder has a second more
 * for each GB that it looks through. maintain() learns of its end. */
static void end_if_it_hangs(const struct htc_builder *builder, apr_pool_t *pool)
{
    int seconds = STEP_S + (int)(builder->ctx->memory >> 30);
    pid_t pid = builder->proc.pid;
    const char *what;

    if (is_stopped(pid, pool))
        what = "was stopped by a signal (SIGSTOP or the like)";
    else if (htc_heap_builder(builder->ctx->heap) != pid &&
             apr_time_now() - builder->last > apr_time_from_sec(seconds))
        what = apr_psprintf(pool, "did not begin to work within %d seconds", seconds);
    else
        return;
    ap_log_error(APLOG_MARK, APLOG_WARNING, 0, builder->s,
                 "HtCache: the builder process %" APR_PID_T_FMT " %s; another one takes its "
                 "place. Until then each request runs the directives of .htaccess files itself",
                 pid, what);
    kill(pid, SIGKILL);
}

int htc_builder_monitor(apr_pool_t *pool, server_rec *s)
{
    htc_context *ctx = htc_server_conf_of(s)->ctx;
    struct htc_builder *builder = ctx ? ctx->builder : NULL;

    if (!builder || htc_ends_children())
        return OK;
    if (!builder->running && !builder->broken)
        start(builder);
    else if (builder->running)
        end_if_it_hangs(builder, pool);
    return OK;
}

pid_t htc_builder_pid(const htc_context *ctx)
{
    return ctx->builder && ctx->builder->running ? ctx->builder->proc.pid : 0;
}

void htc_builder_start(void)
{
    htc_context *ctx = ap_server_conf ? htc_server_conf_of(ap_server_conf)->ctx : NULL;
    struct htc_builder *builder;

    if (!ctx || !ctx->heap || htc_is_preflight())
        return;
    builder = apr_pcalloc(ctx->pconf, sizeof(*builder));
    builder->ctx = ctx;
    builder->s = ap_server_conf;
    builder->pool = ctx->pconf;
    builder->parent = getpid();
    builder->tokens = BURST;
    builder->last = apr_time_now();
    ctx->builder = builder;
    start(builder);
}

void htc_heap_child_init(htc_context *ctx)
{
    uint64_t told = htc_heap_told(ctx->heap);

    htc_heap_meet(ctx->heap);
    if (told & STORE_IS_LARGE)
        htc_store_meet_pages(ctx->store);
    if (ctx->watch && told & WATCH_IS_LARGE)
        htc_watch_meet_page(ctx->watch);
}

void htc_heap_start(htc_context *ctx, server_rec *s)
{
    int processes = 0;
    const char *why = NULL;
    bool shares_regexes;
    apr_status_t rv;

    if (!ctx->store)
        return;
    ap_mpm_query(AP_MPMQ_HARD_LIMIT_DAEMONS, &processes);
    if (!htc_build_prepare(&shares_regexes)) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, 0, s,
            "HtCache: this httpd, APR or PCRE keeps memory in a way not known here. What httpd "
            "makes of .htaccess files cannot be shared; each request runs their directives "
            "itself. Please report it, with the output of 'httpd -V' and the version of PCRE");
        return;
    }
    if (!shares_regexes)
        ap_log_error(APLOG_MARK, APLOG_NOTICE, 0, s,
                     "HtCache: httpd before 2.4.53 writes into regexes when it uses them. So each "
                     "request runs the directives of a .htaccess file with regexes itself. Update "
                     "httpd to share what it makes of these files");
    rv =
        htc_heap_create(&ctx->heap, ctx->memory - ctx->memory / HTC_RECORDS_PART,
                        (unsigned)(processes < 1 ? 256 : processes) + SPARE_ROWS, ctx->pconf, &why);
    if (rv != APR_SUCCESS)
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, rv, s,
            "HtCache: no memory to share what httpd makes of .htaccess files: %s. Each request "
            "runs their directives itself. Lower HtCacheMemory or raise the limit, then restart "
            "httpd",
            why);
    else
        htc_heap_hide_rows(ctx->heap, true);
}
