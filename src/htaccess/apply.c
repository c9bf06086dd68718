/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The private directive. It stands in the synthetic .htaccess file that the hook returns. It fills
 * the request's new per-directory vector, in one of three ways. Where the heap has a vector, it
 * copies the pointers. Where there is a record, it runs the directive tree in the request's pool.
 * Else it parses the text that was just read.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"
#include "redirects/redirects.h"

/* Lines that this thread wrote to the error log. A parse that logs must log again for each request,
 * so its result cannot be kept. The error_log hook has no other way to say whose line it was. */
static _Thread_local unsigned lines_logged;

void htc_error_log(const ap_errorlog_info *info, const char *line)
{
    (void)info;
    (void)line;
    lines_logged++;
}

unsigned htc_lines_logged(void)
{
    return lines_logged;
}

static apr_status_t job_getch(char *ch, void *param)
{
    (void)ch;
    (void)param;
    return APR_EOF;
}

static apr_status_t job_getstr(void *buf, apr_size_t size, void *param)
{
    htc_job *job = param;

    if (job->sent || size < sizeof(HTC_APPLY_DIRECTIVE))
        return APR_EOF;
    job->sent = true;
    memcpy(buf, HTC_APPLY_DIRECTIVE, sizeof(HTC_APPLY_DIRECTIVE));
    return APR_SUCCESS;
}

static apr_status_t job_close(void *param)
{
    const htc_job *job = param;

    return job->file ? (apr_status_t)ap_cfg_closefile(job->file) : APR_SUCCESS;
}

ap_configfile_t *htc_job_open(htc_job *job, apr_pool_t *pool)
{
    return ap_pcfg_open_custom(pool, job->path, job, job_getch, job_getstr, job_close);
}

/* The parameters core started with, for a parse inside its own: same rights, other file. pool and
 * temp_pool stay equal: by that httpd's checks recognise a .htaccess file. */
static cmd_parms nested_parms(const cmd_parms *cmd, ap_configfile_t *cfg, apr_pool_t *pool)
{
    cmd_parms parms = *cmd;

    parms.info = NULL;
    parms.limited = -1;
    parms.xlimited = NULL;
    parms.config_file = cfg;
    parms.directive = NULL;
    parms.pool = pool;
    parms.temp_pool = pool;
    parms.cmd = NULL;
    parms.context = NULL;
    parms.err_directive = NULL;
    if (pool != cmd->pool)
        parms.path = apr_pstrdup(pool, cmd->path);
    return parms;
}

/* Store what was parsed from the text just read. */
static void publish_tree(htc_job *job, const ap_directive_t *tree)
{
    const char *stock;
    htc_ref ref;
    htc_put put = {.key = job->path,
                   .key_len = strlen(job->path),
                   .kind = HTC_KIND_TREE,
                   .flags = htc_racy_flag(&job->text),
                   .id = &job->text.id,
                   .checked_at = job->text.checked_at};

    if (job->sections_resolved)
        put.flags |= HTC_RF_EXEC_ON_READ;
    if (htc_tree_encode(job->ctx, tree, job->text.hash, job->r->pool, &put.payload,
                        &put.payload_len, &put.flags, &stock) != APR_SUCCESS)
        stock = "it cannot be encoded";
    if (stock)
        htc_publish_stock(job->ctx, job->r, job->path, &job->text, stock);
    else if (htc_publish(job->ctx, job->r, &put, &ref) == APR_ENOSPC)
        htc_publish_too_large(job->ctx, job->r, job->path, &job->text);
    else
        htc_farm_publish(job->ctx, job->r, &put, htc_text_computed(&job->text));
}

ap_directive_t *htc_fold_record(const htc_context *ctx, const server_rec *s, const cmd_parms *cmd,
                                ap_directive_t *tree, bool once, bool count)
{
    htc_fold_counts counts = {0};

    if (!htc_server_conf_of(s)->fold_dirs || !tree)
        return tree;
    htc_fold_htaccess(&tree, cmd, once, &counts);
    if (count) {
        htc_count(ctx->store, HTC_C_redirects_seen, counts.redirects_seen);
        htc_count(ctx->store, HTC_C_redirects_folded, counts.redirects_folded);
        htc_count(ctx->store, HTC_C_rewrite_rules_seen, counts.rewrite_rules_seen);
        htc_count(ctx->store, HTC_C_rewrite_rules_folded, counts.rewrite_rules_folded);
    }
    return tree;
}

/* Why the file of a syntax error is left to httpd, which says the same on each request. */
static const char *syntax_error(const htc_job *job, const cmd_parms *parms, const char *err)
{
    return apr_psprintf(job->r->pool, "line %u: %s",
                        parms->err_directive ? (unsigned)parms->err_directive->line_num
                                             : parms->config_file->line_number,
                        err);
}

/* Parse lines into the request's vector, as httpd would have done. With @a publish they are the
 * job's text: share the tree. */
static const char *apply_lines(htc_job *job, cmd_parms *cmd, ap_configfile_t *cfg, bool publish)
{
    cmd_parms parms = nested_parms(cmd, cfg, cmd->pool);
    ap_directive_t *tree = NULL;
    unsigned before = lines_logged;
    uint64_t began = htc_cost_begin();
    const char *err = ap_build_config(&parms, cmd->pool, cmd->pool, &tree);

    uint64_t parsed = htc_cost_begin();

    htc_count(job->ctx->store, HTC_C_parses, 1);
    if (publish && err)
        htc_publish_stock(job->ctx, job->r, job->path, &job->text, syntax_error(job, &parms, err));
    else if (publish && lines_logged != before)
        htc_publish_stock(job->ctx, job->r, job->path, &job->text,
                          "reading it writes to the error log");
    else if (publish)
        publish_tree(job, tree);
    /* The time until here was spent for other requests: it is no part of what httpd would need. */
    began += htc_cost_begin() - parsed;
    if (!err)
        err = ap_walk_config(htc_fold_record(job->ctx, job->r->server, &parms, tree, true, publish),
                             &parms, cmd->context);
    htc_cost_end(job->ctx, job->path, HTC_COST_PARSES, began);
    return err;
}

/* Parse the text that was just read, and share it. */
static const char *apply_text(htc_job *job, cmd_parms *cmd)
{
    return apply_lines(job, cmd, htc_text_open(&job->text, job->path, cmd->pool), true);
}

/* core answers so when its hook cannot open a file. It is too late for that here, and core takes the
 * directory for one whose file sets nothing. htc_refuse() ends the request once its walk is over.
 * Until then no further file is opened. */
static void refuse_later(htc_job *job, const cmd_parms *cmd, apr_status_t rv)
{
    htc_request *rq = htc_request_get(job->r);

    ap_log_rerror_(__FILE__, __LINE__, AP_CORE_MODULE_INDEX, APLOG_CRIT, rv, job->r,
                   "AH00529: %s pcfg_openfile: unable to check htaccess file, ensure it is "
                   "readable and that '%s' is executable",
                   job->path, cmd->path);
    apr_table_setn(job->r->notes, "error-notes",
                   "Server unable to read htaccess file, denying access to be safe");
    rq->refused = true;
    rq->before_refusal = job->r->htaccess;
}

HTC_APART int htc_refuse(request_rec *r, const htc_request *rq)
{
    static const apr_size_t walks[] = {AP_NOTE_DIRECTORY_WALK, AP_NOTE_FILE_WALK};

    for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
        void **note = ap_get_request_note(r, walks[i]);

        if (note)
            *note = NULL;
    }
    r->htaccess = rq->before_refusal;
    r->per_dir_config = r->server->lookup_defaults;
    return HTTP_FORBIDDEN;
}

/* The stock way, line by line: the file may be of any size. It was left to httpd, or its record is
 * gone or does not suit this override. job_close() closes it. */
static const char *apply_from_disk(htc_job *job, cmd_parms *cmd)
{
    uint64_t began = htc_cost_begin();
    apr_status_t rv = job->file ? APR_SUCCESS : ap_pcfg_openfile(&job->file, cmd->pool, job->path);

    htc_count(job->ctx->store, HTC_C_file_reads, 1);
    htc_cost_end(job->ctx, job->path, HTC_COST_READS, began);
    if (rv == APR_SUCCESS)
        return apply_lines(job, cmd, job->file, false);
    if (!APR_STATUS_IS_ENOENT(rv) && !APR_STATUS_IS_ENOTDIR(rv))
        refuse_later(job, cmd, rv);
    return NULL;
}

bool htc_record_may_run(const htc_context *ctx, uint32_t flags, const char *record)
{
    htc_directive d;
    size_t offset = 0;

    while (htc_record_next(record, &offset, &d)) {
        const htc_command *command = htc_command_find(ctx, d.name);
        enum htc_allow allow = HTC_ALLOW_REPLAY;
        const char *reason;

        if (command)
            allow = htc_command_judge(command, d.args, &reason);
        if (allow == HTC_ALLOW_STOCK || (command && command->exec_on_read) ||
            (allow == HTC_ALLOW_REPLAY && !(flags & HTC_RF_REPLAY)))
            return false;
    }
    return true;
}

/* Copy the record out and prove it. NULL when it is gone or damaged. */
static char *fetch_record(htc_job *job, apr_pool_t *pool)
{
    static _Atomic int told;
    char *payload;
    size_t len;
    apr_status_t rv = htc_store_copy(job->ctx->store, job->info.ref, pool, &payload, &len);

    if (rv == APR_SUCCESS) {
        rv = htc_record_validate(payload, len);
        if (rv == APR_SUCCESS && htc_record_may_run(job->ctx, job->info.flags, payload))
            return payload;
        htc_count(job->ctx->store, HTC_C_corrupt, 1);
        htc_store_drop(job->ctx->store, job->info.ref);
    }
    if (rv != APR_NOTFOUND && !atomic_exchange(&told, 1))
        ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, job->r,
                      "HtCache: the record of %s was damaged and has been dropped; the file is "
                      "read from disk. If this count grows on the status page, check the memory "
                      "of this machine. Not logged again by this process",
                      job->path);
    return NULL;
}

/* Run the record in the request's pool. @a what: what this is counted as. */
static const char *run_record(htc_job *job, cmd_parms *cmd, htc_cost_kind what)
{
    uint64_t began = htc_cost_begin();
    char *record = fetch_record(job, cmd->pool);
    ap_directive_t *tree;
    cmd_parms parms;
    const char *err;

    if (!record)
        return apply_from_disk(job, cmd);
    parms = nested_parms(cmd, htc_empty_open(job->path, cmd->pool), cmd->pool);
    tree = htc_tree_decode(record, job->path, cmd->pool);
    if (job->info.flags & HTC_RF_REDIRECTS)
        tree = htc_fold_record(job->ctx, job->r->server, &parms, tree, true, false);
    err = ap_walk_config(tree, &parms, cmd->context);
    htc_cost_end(job->ctx, job->path, what, began);
    return err;
}

bool htc_config_match(const void *object, const void *key_)
{
    const htc_config *config = object;
    const htc_config_key *key = key_;

    return config->server == key->server && config->override == key->override &&
           config->override_opts == key->override_opts &&
           config->override_list == key->override_list && !strcmp(config->path, key->path);
}

uint64_t htc_config_hash(const htc_context *ctx, const htc_config_key *key)
{
    const struct {
        const void *server, *list;
        uint64_t path, override, opts;
    } mix = {key->server, key->override_list,
             htc_store_hash(ctx->store, key->path, strlen(key->path)), (unsigned)key->override,
             (unsigned)key->override_opts};

    return htc_store_hash(ctx->store, &mix, sizeof(mix));
}

static void copy_vector(ap_conf_vector_t *to, const ap_conf_vector_t *from)
{
    for (module *m = ap_top_module; m; m = m->next) {
        void *conf = ap_get_module_config(from, m);
        if (conf)
            ap_set_module_config(to, m, conf);
    }
}

/* The shared configuration of this record, pinned; NULL: there is none. */
static const htc_config *find_config(const htc_job *job, const cmd_parms *cmd, htc_pin **pin)
{
    const htc_context *ctx = job->ctx;
    const htc_config_key key = {job->path, cmd->server, cmd->override, cmd->override_opts,
                                cmd->override_list};
    const htc_config *config = ctx->heap ? htc_heap_acquire(ctx->heap, htc_config_hash(ctx, &key),
                                                            htc_config_match, &key, pin)
                                         : NULL;

    if (config &&
        (config->ref.slot != job->info.ref.slot || config->ref.version != job->info.ref.version)) {
        htc_heap_release(*pin);
        config = NULL;
    }
    return config;
}

/* Give the request what is shared, and run what is not. */
static const char *use_config(const htc_job *job, cmd_parms *cmd, const htc_config *config)
{
    uint64_t began;
    const char *err;
    cmd_parms parms;

    copy_vector(cmd->context, config->vector);
    if (!config->rest)
        return NULL;
    began = htc_cost_begin();
    parms = nested_parms(cmd, htc_empty_open(job->path, cmd->pool), cmd->pool);
    err = ap_walk_config((ap_directive_t *)(uintptr_t)config->rest, &parms, cmd->context);
    htc_cost_end(job->ctx, job->path, HTC_COST_REPLAYS, began);
    return err;
}

/* Without a shared configuration the record is run for this request. */
static const char *apply_record(htc_job *job, cmd_parms *cmd)
{
    bool replayed = (job->info.flags & HTC_RF_REPLAY) != 0;
    htc_pin *pin;
    const htc_config *config = find_config(job, cmd, &pin);
    const char *err;

    if (config && !config->reason) {
        replayed = config->rest != NULL;
        htc_hold_once(job->ctx, job->r, pin);
        err = use_config(job, cmd, config);
    } else {
        if (config)
            htc_heap_release(pin);
        else if (job->seen && replayed)
            job->seen->wanted = true;
        replayed = replayed || config;
        htc_count(job->ctx->store, HTC_C_loads, replayed ? 0 : 1);
        err = run_record(job, cmd, replayed ? HTC_COST_REPLAYS : HTC_COST_LOADS);
    }
    htc_request_get(job->r)->outcomes |= 1U << (replayed ? HTC_C_replays : HTC_C_hits);
    if (!job->counted)
        htc_count_answer(job->ctx, replayed ? HTC_C_replays : HTC_C_hits);
    return err;
}

/* For ?explain: as a request would, but silently. A record that is gone, or does not suit the
 * override, is the file's. */
static HTC_APART const char *apply_silently(htc_job *job, cmd_parms *cmd)
{
    const htc_context *ctx = job->ctx;
    ap_directive_t *tree = NULL;
    const char *err = NULL;
    char *record = NULL;
    cmd_parms parms;
    size_t len;

    if (!job->file &&
        (!htc_record_suits(job->info.flags, cmd->override) ||
         htc_store_copy(ctx->store, job->info.ref, cmd->pool, &record, &len) != APR_SUCCESS ||
         htc_record_validate(record, len) != APR_SUCCESS ||
         !htc_record_may_run(ctx, job->info.flags, record))) {
        record = NULL;
        if (ap_pcfg_openfile(&job->file, cmd->pool, job->path) != APR_SUCCESS)
            return NULL;
    }
    parms = nested_parms(cmd, record ? htc_empty_open(job->path, cmd->pool) : job->file, cmd->pool);
    if (record)
        tree = htc_tree_decode(record, job->path, cmd->pool);
    else
        err = ap_build_config(&parms, cmd->pool, cmd->pool, &tree);
    return err ? err
               : ap_walk_config(htc_fold_record(ctx, job->r->server, &parms, tree, true, false),
                                &parms, cmd->context);
}

bool htc_record_suits(uint32_t flags, int override)
{
    return !(flags & HTC_RF_EXEC_ON_READ) || (override & OR_ALL);
}

const char *htc_apply_directive(cmd_parms *cmd, void *dir_conf, const char *args)
{
    htc_job *job;

    (void)dir_conf;
    (void)args;
    if (!cmd->config_file || cmd->config_file->getstr != job_getstr)
        return htc_refuse_private(cmd);
    job = cmd->config_file->param;
    if (job->peek)
        return apply_silently(job, cmd);
    if (job->has_text)
        return apply_text(job, cmd);
    if (job->file)
        return apply_from_disk(job, cmd);
    if (!htc_record_suits(job->info.flags, cmd->override)) {
        htc_count(job->ctx->store, HTC_C_bypasses, job->counted ? 0 : 1);
        return apply_from_disk(job, cmd);
    }
    return apply_record(job, cmd);
}

void htc_commands_admit(server_rec *main_server)
{
    for (server_rec *s = main_server; s; s = s->next) {
        const core_server_config *core = ap_get_core_module_config(s->module_config);

        for (int i = 0; core->sec_dir && i < core->sec_dir->nelts; i++) {
            const core_dir_config *dir =
                ap_get_core_module_config(APR_ARRAY_IDX(core->sec_dir, i, ap_conf_vector_t *));
            if (dir && dir->override_list && !apr_is_empty_table(dir->override_list)) {
                htc_fold_admit(dir->override_list);
                apr_table_setn(dir->override_list, HTC_APPLY_DIRECTIVE, "1");
            }
        }
    }
}
