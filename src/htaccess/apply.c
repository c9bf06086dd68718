/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The private directive: it stands in the synthetic .htaccess file that the hook returns, and fills
 * the request's new per-directory vector. Either by pointing it at the module configurations of a
 * vector this process has already parsed, or by running the cached directive tree in the request's
 * pool, or by parsing the text that was just read.
 */
#include "htaccess/htaccess.h"
#include "htaccess/internal.h"
#include "redirects/redirects.h"
#include "regex/regex.h"

/* Bytes of a record that is run about as fast as what is kept of it is made. */
#define SMALL_RECORD 4096

/* Lines that this thread wrote to the error log. A parse that logs must log again for each request,
 * so its result cannot be kept. The error_log hook has no other way to say whose line it was. */
static _Thread_local unsigned lines_logged;

void htc_error_log(const ap_errorlog_info *info, const char *line)
{
    (void)info;
    (void)line;
    lines_logged++;
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
 * temp_pool stay equal, which is how httpd's checks recognise a .htaccess file. */
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
                   .flags = htc_racy_flag(&job->text.id),
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

/* Rename what can be folded. */
static ap_directive_t *fold(const htc_job *job, const cmd_parms *cmd, ap_directive_t *tree,
                            bool once, bool count)
{
    htc_fold_counts counts = {0};

    if (!htc_server_conf_of(job->r->server)->fold_dirs || !tree)
        return tree;
    htc_fold_htaccess(&tree, cmd, once, &counts);
    if (count) {
        htc_count(job->ctx->store, HTC_C_redirects_seen, counts.redirects_seen);
        htc_count(job->ctx->store, HTC_C_redirects_folded, counts.redirects_folded);
        htc_count(job->ctx->store, HTC_C_rewrite_rules_seen, counts.rewrite_rules_seen);
        htc_count(job->ctx->store, HTC_C_rewrite_rules_folded, counts.rewrite_rules_folded);
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

    htc_count(job->ctx->store, HTC_C_parses, 1);
    if (publish && err)
        htc_publish_stock(job->ctx, job->r, job->path, &job->text, syntax_error(job, &parms, err));
    else if (publish && lines_logged != before)
        htc_publish_stock(job->ctx, job->r, job->path, &job->text,
                          "reading it writes to the error log");
    else if (publish)
        publish_tree(job, tree);
    if (!err)
        err = ap_walk_config(fold(job, &parms, tree, true, publish), &parms, cmd->context);
    htc_cost_end(job->ctx, job->path, HTC_COST_PARSES, began);
    return err;
}

/* Parse the text that was just read, and share it. */
static const char *apply_text(htc_job *job, cmd_parms *cmd)
{
    return apply_lines(job, cmd, htc_text_open(&job->text, job->path, cmd->pool), true);
}

/* As core answers a file that its hook cannot open, which it is too late for here: core takes the
 * directory for one whose file sets nothing. htc_refuse() ends the request once its walk is over;
 * until then no further file is opened. */
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

/* Could htc_tree_encode() have made it, with these flags? Other processes write the memory that it
 * comes from. What acts while a file is read has no place in a tree: httpd would give it another
 * thing than it expects. What is not to be kept or replayed must not be. */
static bool may_be_run(const htc_job *job, const char *record)
{
    htc_directive d;
    size_t offset = 0;

    while (htc_record_next(record, &offset, &d)) {
        const htc_command *command = htc_command_find(job->ctx, d.name);
        enum htc_allow allow = HTC_ALLOW_REPLAY;
        const char *reason;

        if (command)
            allow = htc_command_judge(command, d.args, &reason);
        if (allow == HTC_ALLOW_STOCK || (command && command->exec_on_read) ||
            (allow == HTC_ALLOW_REPLAY && !(job->info.flags & HTC_RF_REPLAY)))
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
        if (rv == APR_SUCCESS && may_be_run(job, payload))
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

/* The record's directives, those that can be folded renamed. */
static ap_directive_t *decode(const htc_job *job, const cmd_parms *parms, const char *record,
                              const char *path, bool once)
{
    ap_directive_t *tree = htc_tree_decode(record, path, parms->pool);

    return job->info.flags & HTC_RF_REDIRECTS ? fold(job, parms, tree, once, false) : tree;
}

/* Run the record in the request's pool. @a what: what this is counted as. */
static const char *run_record(htc_job *job, cmd_parms *cmd, htc_cost_kind what)
{
    uint64_t began = htc_cost_begin();
    char *record = fetch_record(job, cmd->pool);
    cmd_parms parms;
    const char *err;

    if (!record)
        return apply_from_disk(job, cmd);
    parms = nested_parms(cmd, htc_empty_open(job->path, cmd->pool), cmd->pool);
    err = ap_walk_config(decode(job, &parms, record, job->path, true), &parms, cmd->context);
    htc_cost_end(job->ctx, job->path, what, began);
    return err;
}

static const char *replay(htc_job *job, cmd_parms *cmd)
{
    return run_record(job, cmd, HTC_COST_REPLAYS);
}

/* Key of a kept configuration. */
typedef struct parsed_key {
    const char *path;
    const cmd_parms *cmd;
} parsed_key;

static bool parsed_match(const void *data, const void *key_)
{
    const htc_parsed *parsed = data;
    const parsed_key *key = key_;

    return parsed->object.type == HTC_OBJ_PARSED && parsed->server == key->cmd->server &&
           parsed->override == key->cmd->override &&
           parsed->override_opts == key->cmd->override_opts &&
           parsed->override_list == key->cmd->override_list && !strcmp(parsed->path, key->path);
}

static uint64_t parsed_hash(const htc_job *job, const cmd_parms *cmd)
{
    const struct {
        const void *server, *list;
        uint64_t path, override, opts;
    } mix = {cmd->server, cmd->override_list,
             htc_store_hash(job->ctx->store, job->path, strlen(job->path)), (unsigned)cmd->override,
             (unsigned)cmd->override_opts};

    return htc_store_hash(job->ctx->store, &mix, sizeof(mix));
}

static htc_parsed *parsed_create(htc_job *job, const cmd_parms *cmd)
{
    apr_pool_t *pool;
    htc_parsed *parsed;

    /* No parent: any thread may destroy it when it drops the last reference. */
    if (apr_pool_create_unmanaged_ex(&pool, apr_pool_abort_get(cmd->pool), job->ctx->allocator) !=
        APR_SUCCESS)
        return NULL;
    apr_pool_tag(pool, "htcache_parsed");
    parsed = apr_pcalloc(pool, sizeof(*parsed));
    parsed->object.type = HTC_OBJ_PARSED;
    parsed->object.cache = job->ctx->cache;
    parsed->pool = pool;
    parsed->path = apr_pstrdup(pool, job->path);
    parsed->server = cmd->server;
    parsed->override = cmd->override;
    parsed->override_opts = cmd->override_opts;
    parsed->override_list = cmd->override_list;
    parsed->ref = job->info.ref;
    return parsed;
}

/* A pool takes whole 8 KB blocks, and compiled regular expressions live outside of it. Measured
 * over real files the sum stays below this estimate, see docs/tuning-memory.md. */
static size_t parsed_cost(size_t record_len)
{
    return 9 * 1024 + 8 * record_len;
}

/* The addition for groups that are repeated by number. Few files have any. */
static size_t repeats_cost(const char *record)
{
    htc_directive directive;
    size_t at = 0, cost = 0;

    while (htc_record_next(record, &at, &directive))
        cost += redirect_regex_copies(directive.args, strlen(directive.args));
    return cost;
}

static void copy_vector(ap_conf_vector_t *to, const ap_conf_vector_t *from)
{
    for (module *m = ap_top_module; m; m = m->next) {
        void *conf = ap_get_module_config(from, m);
        if (conf)
            ap_set_module_config(to, m, conf);
    }
}

/* Give the vector to this request and keep the node for as long as it may be used. */
static void use_parsed(htc_job *job, cmd_parms *cmd, htc_process_node *node)
{
    const htc_parsed *parsed = htc_process_cache_data(node);

    copy_vector(cmd->context, parsed->vector);
    if (job->seen && !parsed->logs)
        job->seen->parsed = node;
    htc_hold_once(job->ctx, job->r, node);
}

/* Log a file for which there can be no room, whatever is evicted. */
static void say_too_large(const htc_job *job, size_t cost)
{
    static _Atomic int told;

    if (atomic_exchange(&told, 1))
        return;
    ap_log_rerror(APLOG_MARK, APLOG_WARNING, 0, job->r,
                  "HtCache: the parsed form of %s takes up to %" APR_SIZE_T_FMT
                  " bytes, more than HtCacheProcessMemory, so it is built again for each request; "
                  "raise HtCacheProcessMemory to more than that. Not logged again by this process",
                  job->path, cost);
}

/* Parse the record into a vector of its own. NULL in *out: no memory or no record, or, with a
 * *cost, no room whatever is evicted. */
static const char *parse_record(htc_job *job, cmd_parms *cmd, htc_parsed **out, size_t *cost)
{
    htc_parsed *parsed = parsed_create(job, cmd);
    unsigned before = lines_logged;
    cmd_parms parms;
    const char *err;
    char *record;

    *out = NULL;
    *cost = 0;
    if (!parsed)
        return NULL;
    record = fetch_record(job, parsed->pool);
    if (record)
        *cost = parsed_cost(job->info.payload_len) + repeats_cost(record);
    if (!record || !htc_process_cache_fits(job->ctx->cache, *cost)) {
        if (record)
            say_too_large(job, *cost);
        apr_pool_destroy(parsed->pool);
        return NULL;
    }
    parsed->vector = ap_create_per_dir_config(parsed->pool);
    parms = nested_parms(cmd, htc_empty_open(parsed->path, parsed->pool), parsed->pool);
    err = ap_walk_config(decode(job, &parms, record, parsed->path, false), &parms, parsed->vector);
    if (err) {
        err = apr_pstrdup(cmd->pool, err);
        apr_pool_destroy(parsed->pool);
        return err;
    }
    parsed->logs = lines_logged != before;
    *out = parsed;
    return NULL;
}

/* When this process has no room, a small file that has not been asked for lately is run for this
 * request alone: that costs no more than to make what would be kept, nobody else is driven out, and
 * the large ones, which are dear to make, are kept. */
static bool worth_keeping(const htc_job *job, uint64_t hash)
{
    size_t len = job->info.payload_len, cost = parsed_cost(len);

    if (!htc_process_cache_fits(job->ctx->cache, cost)) {
        say_too_large(job, cost);
        return false;
    }
    return len > SMALL_RECORD || htc_process_cache_admit(job->ctx->cache, hash, cost);
}

static const char *apply_once(htc_job *job, cmd_parms *cmd)
{
    htc_count(job->ctx->store, HTC_C_loads, 1);
    return run_record(job, cmd, HTC_COST_LOADS);
}

/* First use in this process: parse, keep, use. */
static const char *apply_new(htc_job *job, cmd_parms *cmd, uint64_t hash, const parsed_key *key)
{
    htc_parsed *parsed;
    htc_process_node *node;
    size_t cost;
    uint64_t began = htc_cost_begin();
    const char *err;

    err = parse_record(job, cmd, &parsed, &cost);
    if (err)
        return err;
    if (!parsed)
        return cost ? apply_once(job, cmd) : apply_from_disk(job, cmd);
    htc_count(job->ctx->store, HTC_C_loads, 1);
    htc_cost_end(job->ctx, job->path, HTC_COST_LOADS, began);
    node = htc_process_cache_insert(job->ctx->cache, hash, parsed_match, key, parsed, cost);
    htc_process_report(job->ctx);
    if (!node)
        return replay(job, cmd);
    use_parsed(job, cmd, node);
    return NULL;
}

static const char *apply_kept(htc_job *job, cmd_parms *cmd, bool *replayed)
{
    parsed_key key = {job->path, cmd};
    uint64_t hash = parsed_hash(job, cmd);
    htc_process_node *node = htc_process_cache_acquire(job->ctx->cache, hash, parsed_match, &key);
    const htc_parsed *parsed = node ? htc_process_cache_data(node) : NULL;

    if (parsed && parsed->ref.slot == job->info.ref.slot &&
        parsed->ref.version == job->info.ref.version) {
        if (!parsed->logs) {
            use_parsed(job, cmd, node);
            return NULL;
        }
        htc_process_cache_release(job->ctx->cache, node);
        *replayed = true;
        return replay(job, cmd);
    }
    if (node)
        htc_process_cache_release(job->ctx->cache, node);
    return worth_keeping(job, hash) ? apply_new(job, cmd, hash, &key) : apply_once(job, cmd);
}

static const char *apply_record(htc_job *job, cmd_parms *cmd)
{
    bool replayed = (job->info.flags & HTC_RF_REPLAY) != 0;
    const char *err;

    if (replayed)
        err = replay(job, cmd);
    else
        err = apply_kept(job, cmd, &replayed);
    htc_request_get(job->r)->outcomes |= 1U << (replayed ? HTC_C_replays : HTC_C_hits);
    if (!job->counted)
        htc_count_answer(job->ctx, replayed ? HTC_C_replays : HTC_C_hits);
    return err;
}

/* Sections that were resolved while the tree was built needed a right to stand in the file. Any of
 * the AllowOverride classes gives it; with an AllowOverrideList alone it must be asked for. */
static bool tree_suits(const htc_job *job, const cmd_parms *cmd)
{
    return !(job->info.flags & HTC_RF_EXEC_ON_READ) || (cmd->override & OR_ALL);
}

const char *htc_apply_directive(cmd_parms *cmd, void *dir_conf, const char *args)
{
    htc_job *job;

    (void)dir_conf;
    (void)args;
    if (!cmd->config_file || cmd->config_file->getstr != job_getstr)
        return htc_refuse_private(cmd);
    job = cmd->config_file->param;
    if (job->has_text)
        return apply_text(job, cmd);
    if (job->file)
        return apply_from_disk(job, cmd);
    if (!tree_suits(job, cmd)) {
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
