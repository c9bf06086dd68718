/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * As much of httpd as the module's own code needs to answer for .htaccess files: the hook for each
 * directory of a path, a restart, the periodic checks. The module's functions are the real ones; what
 * they call of httpd, and of the module's parts that are not simulated, stands at the end.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"

#include "cache/store_internal.h"
#include "cache/watch_internal.h"
#include "module/report.h"
#include "sim.h"

#include "http_main.h"
#include "unixd.h"

#include <pwd.h>
#include <stdlib.h>

#define MEMORY    (4 * HTC_STORE_MIN_BYTES)
#define LOCKED_NS (100 * SIM_MS) /* module/kept.c waits so long for a process that holds a lock */

/* What a process has for itself. */
typedef struct child {
    htc_context ctx;
    htc_store store;
    htc_watch watch;
    htc_server_conf conf;
    htc_net net;
    process_rec process;
    server_rec server;
    void *module_config[1];
} child;

static apr_pool_t *world;
static child parent;
static htc_options options;
static unsigned generation;

module AP_MODULE_DECLARE_DATA htcache_module;

static child *child_of(unsigned process)
{
    return process ? sim_processes[process].data : &parent;
}

htc_watch *sim_httpd_watch(unsigned process)
{
    return child_of(process)->ctx.watch;
}

htc_store *sim_httpd_store(unsigned process)
{
    return child_of(process)->ctx.store;
}

/* --- processes ----------------------------------------------------------------------------------*/

static void configure(child *c)
{
    c->conf = (htc_server_conf){.share_percent = sim_set.share_percent,
                                .ctx = &c->ctx,
                                .may_be_enabled = true,
                                .may_be_auto = sim_set.revalidate_ms == HTC_REVALIDATE_AUTO,
                                .plain = {true, sim_set.revalidate_ms}};
    c->module_config[0] = &c->conf;
    c->server =
        (server_rec){.module_config = (ap_conf_vector_t *)c->module_config, .process = &c->process};
    c->process.pool = world;
}

void sim_httpd_child(void)
{
    unsigned process = sim_process_fork(0);
    child *c;

    if (!process)
        return;
    c = apr_palloc(world, sizeof(*c));
    *c = parent;
    if (parent.ctx.store) {
        c->store = *parent.ctx.store;
        c->ctx.store = &c->store;
    }
    if (parent.ctx.watch) {
        c->watch = *parent.ctx.watch;
        c->watch.store = &c->store;
        c->ctx.watch = &c->watch;
    }
    c->ctx.serving = parent.ctx.store;
    configure(c);
    sim_processes[process].data = c;
    sim_processes[process].generation = generation;
}

/* So little of it that it is full soon. */
static void make_small(void)
{
    htc_store *store = parent.ctx.store;

    if (parent.ctx.watch)
        parent.ctx.watch->nnodes = sim_set.nodes;
    if (!sim_set.sets)
        return;
    store->nsets = sim_set.sets;
    store->nslots = store->nsets * HTCS_WAYS;
    store->nblocks = sim_set.blocks;
}

/* As mod_htcache.c does. Without shared memory httpd does all itself. */
static void begin_generation(void)
{
    const char *why = "";
    uint64_t shortages = sim_shortages;

    apr_pool_create(&parent.ctx.pconf, world);
    parent.ctx = (htc_context){.pconf = parent.ctx.pconf, .memory = MEMORY, .farm_text = ""};
    parent.ctx.trusted = apr_array_make(world, 1, sizeof(const char *));
    if (htc_kept_use(&parent.ctx, &parent.server))
        ;
    else if (htc_kept_create(&parent.ctx, &parent.server, &why) == APR_SUCCESS)
        make_small();
    else if (shortages == sim_shortages)
        sim_fail("start: %s", why);
    generation++;
    for (unsigned i = 0; i < sim_set.children; i++)
        sim_httpd_child();
}

/* Graceful: children of before end when their requests have. What there is outlives it, unless a
 * process of before holds a lock and does not go on. */
void sim_httpd_restart(unsigned process, unsigned argument)
{
    const htc_watch *before = parent.ctx.watch;
    uint64_t shortages = sim_shortages;

    (void)process, (void)argument;
    for (unsigned i = 2; i < SIM_PROCESSES; i++)
        sim_processes[i].ending = true;
    begin_generation();
    if (before && parent.ctx.watch != before && sim_asked_in_vain() < LOCKED_NS &&
        shortages == sim_shortages)
        sim_fail("restart: it begins empty, and no process held a lock for long");
}

void sim_httpd_begin(void)
{
    static bool begun;

    if (!begun && apr_initialize() != APR_SUCCESS)
        abort();
    begun = true;
    apr_pool_create(&world, NULL);
    ap_server_config_defines = apr_array_make(world, 1, sizeof(const char *));
    configure(&parent);
    generation = 0;
}

void sim_httpd_start(void)
{
    begin_generation();
}

void sim_httpd_end(void)
{
    sim_processes[0].zombie = true; /* its watches go: nobody looks at them any more */
    htc_kept_end(&parent.server);
    apr_pool_destroy(world);
    memset(&parent, 0, sizeof(parent));
}

/* --- requests -----------------------------------------------------------------------------------*/

/* What of a file's text is known again. */
static unsigned content_of(const char *text)
{
    unsigned content;

    if (!*text)
        return 0;
    if (sscanf(text, "C%u", &content) != 1)
        sim_fail("bytes: a file's text is '%.20s'", text);
    return content;
}

/* In place of the job's only line, which is never read: the same as htaccess/apply.c does. */
static apr_status_t job_getch(char *ch, void *job)
{
    (void)ch;
    (void)job;
    return APR_EOF;
}

ap_configfile_t *htc_job_open(htc_job *job, apr_pool_t *pool)
{
    return ap_pcfg_open_custom(pool, job->path, job, job_getch, NULL, NULL);
}

static void publish_tree(htc_job *job, const char *text)
{
    htc_record_builder *builder = htc_record_begin(job->r->pool, job->text.hash);
    const htc_directive line = {.line = 1, .name = text, .args = ""};
    htc_put put = {.key = job->path,
                   .key_len = strlen(job->path),
                   .kind = HTC_KIND_TREE,
                   .flags = htc_racy_flag(&job->text),
                   .id = &job->text.id,
                   .checked_at = job->text.checked_at};
    htc_ref ref;

    htc_record_add(builder, &line);
    htc_record_finish(builder, &put.payload, &put.payload_len);
    htc_publish(job->ctx, job->r, &put, &ref);
}

/* SIM_OTHER: the record is gone, and httpd reads the file. */
static unsigned run_job(htc_job *job)
{
    htc_directive line = {.name = ""};
    size_t len, place = 0;
    char *record;

    if (job->has_text) {
        publish_tree(job, apr_pstrdup(job->r->pool, job->text.bytes));
        return SIM_TEXT + content_of(job->text.bytes);
    }
    if (htc_store_copy(job->ctx->store, job->info.ref, job->r->pool, &record, &len) != APR_SUCCESS)
        return SIM_OTHER;
    if (htc_record_validate(record, len) != APR_SUCCESS || !htc_record_next(record, &place, &line))
        sim_fail("record: the record of %s is damaged", job->path);
    return SIM_TEXT + content_of(line.name);
}

static unsigned answer_of(apr_status_t rv, ap_configfile_t *cfg)
{
    char text[64];

    if (rv == APR_ENOENT)
        return SIM_ABSENT;
    if (rv != APR_SUCCESS)
        return SIM_OTHER;
    if (cfg->getch == job_getch)
        return run_job(cfg->param);
    if (cfg->getstr(text, sizeof(text), cfg->param) != APR_SUCCESS)
        *text = '\0';
    return SIM_TEXT + content_of(text);
}

static void ask(request_rec *r, const char *dir, uint64_t began, int64_t at)
{
    const char *name = "";
    ap_configfile_t *cfg = NULL;
    apr_status_t rv = htc_open_htaccess(r, dir, ".htaccess", &cfg, &name);
    int path = sim_path_index(dir);

    if (path >= 0)
        sim_answered((unsigned)path, answer_of(rv, cfg), began, at);
}

/* Directories from the top down, as core asks for them. */
void sim_httpd_request(unsigned process, unsigned directory)
{
    child *c = child_of(process);
    uint64_t began = sim_moment();
    int64_t at = sim_now;
    const char *dir = sim_dirs[directory];
    void *request_config[1];
    request_rec *r;
    apr_pool_t *pool;

    apr_pool_create(&pool, world);
    r = apr_pcalloc(pool, sizeof(*r));
    request_config[0] = apr_pcalloc(pool, sizeof(htc_request));
    r->pool = pool;
    r->server = &c->server;
    r->request_config = apr_pmemdup(pool, request_config, sizeof(request_config));
    r->request_time = (sim_now + sim_wall) / 1000;
    r->filename = apr_pstrdup(pool, dir);
    htc_fresh_request(r);
    for (size_t len = 1; len <= strlen(dir); len++) {
        if (dir[len - 1] == '/')
            ask(r, apr_pstrmemdup(pool, dir, len), began, at);
    }
    htc_publish_pending(&c->ctx, r, htc_request_get(r));
    apr_pool_destroy(pool);
}

void sim_httpd_builder(unsigned process, unsigned argument)
{
    child *c = child_of(process);

    (void)argument;
    if (c->ctx.watch)
        htc_watch_drain(c->ctx.watch);
    htc_net_check(&c->net, &c->ctx, htc_mono_ms());
}

void sim_httpd_monitor(unsigned process, unsigned argument)
{
    (void)process;
    (void)argument;
    if (parent.ctx.watch)
        htc_fresh_monitor(world, &parent.server);
}

/* --- httpd's ------------------------------------------------------------------------------------*/

AP_DECLARE_DATA server_rec *ap_server_conf;
AP_DECLARE_DATA apr_array_header_t *ap_server_config_defines;
AP_DECLARE_DATA module *ap_top_module;
AP_DECLARE_DATA unixd_config_rec ap_unixd_config;

uid_t sim_geteuid(void)
{
    return sim_set.parent_is_root ? 0 : 33;
}

/* Who the children are does not matter here, and would be asked anew for each restart. */
struct passwd *getpwuid(uid_t uid)
{
    (void)uid;
    return NULL;
}

void ap_log_error_(const char *file, int line, int module_index, int level, apr_status_t status,
                   const server_rec *s, const char *format, ...)
{
    (void)file, (void)line, (void)module_index, (void)level, (void)status, (void)s;
    if (sim_talks) {
        char text[1024];
        va_list args;

        va_start(args, format);
        apr_vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        sim_say("    log: %.100s", text);
    }
}

void ap_log_rerror_(const char *file, int line, int module_index, int level, apr_status_t status,
                    const request_rec *r, const char *format, ...)
{
    (void)file, (void)line, (void)module_index, (void)level, (void)status, (void)r, (void)format;
}

void ap_get_server_revision(ap_version_t *version)
{
    *version = (ap_version_t){.add_string = ""};
}

const char *ap_resolve_env(apr_pool_t *pool, const char *word)
{
    (void)pool;
    return word;
}

const char *ap_document_root(request_rec *r)
{
    (void)r;
    return "/srv/www";
}

char *ap_make_full_path(apr_pool_t *pool, const char *dir, const char *file)
{
    return apr_pstrcat(pool, dir, file, NULL);
}

void **ap_get_request_note(request_rec *r, apr_size_t note)
{
    (void)r, (void)note;
    return NULL;
}

apr_status_t ap_pcfg_openfile(ap_configfile_t **file, apr_pool_t *pool, const char *path)
{
    (void)file, (void)pool, (void)path;
    return APR_ENOENT;
}

ap_configfile_t *ap_pcfg_open_custom(apr_pool_t *pool, const char *name, void *param,
                                     apr_status_t (*getch)(char *, void *),
                                     apr_status_t (*getstr)(void *, apr_size_t, void *),
                                     apr_status_t (*end)(void *))
{
    ap_configfile_t *file = apr_pcalloc(pool, sizeof(*file));

    *file = (ap_configfile_t){getch, getstr, end, param, name, 0};
    return file;
}

apr_status_t ap_cfg_getline(char *line, apr_size_t size, ap_configfile_t *file)
{
    apr_status_t rv = file->getstr(line, size, file->param);

    if (rv == APR_SUCCESS)
        line[strcspn(line, "\n")] = '\0';
    return rv;
}

/* --- the module's that are not simulated --------------------------------------------------------*/

htc_options *htc_options_get(void)
{
    return &options;
}

htc_request *htc_request_get(request_rec *r)
{
    return ap_get_module_config(r->request_config, &htcache_module);
}

htc_scope htc_scope_of(const htc_server_conf *sc, const char *dir, const htc_dir_conf *location)
{
    (void)dir, (void)location;
    return sc->plain;
}

const htc_command *htc_command_find(const htc_context *ctx, const char *name)
{
    (void)ctx, (void)name;
    return NULL;
}

enum htc_allow htc_command_judge(const htc_command *command, const char *args, const char **reason)
{
    (void)command, (void)args, (void)reason;
    return HTC_ALLOW_SHARE;
}

const char *htc_command_refusal(const htc_command *command, unsigned line, const char *reason,
                                apr_pool_t *pool)
{
    (void)command, (void)line, (void)reason, (void)pool;
    return "";
}

void htc_explained_met(const htc_explained *e, const char *dir, const char *path)
{
    (void)e, (void)dir, (void)path;
}

uint64_t htc_cost_begin(void)
{
    return 0;
}

void htc_cost_end(htc_context *ctx, const char *path, htc_cost_kind kind, uint64_t began)
{
    (void)ctx, (void)path, (void)kind, (void)began;
}

uint64_t htc_build_of(const void *code)
{
    (void)code;
    return 1;
}

htc_group *htc_report_group(htc_report *report, const char *name, const char *title,
                            const char *help)
{
    (void)report, (void)name, (void)title, (void)help;
    return NULL;
}

void htc_add_counters(htc_group *group)
{
    (void)group;
}

void htc_add_flag(htc_group *group, const char *name, bool value, const char *help)
{
    (void)group, (void)name, (void)value, (void)help;
}

void htc_add_gauge(htc_group *group, const char *name, htc_unit unit, uint64_t value,
                   const char *help)
{
    (void)group, (void)name, (void)unit, (void)value, (void)help;
}

void htc_add_counter(htc_group *group, const char *name, htc_unit unit, uint64_t value,
                     const char *help)
{
    htc_add_gauge(group, name, unit, value, help);
}
