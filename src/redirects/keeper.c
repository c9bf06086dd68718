/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The keeper: a process that keeps the counts of redirects in HtCacheCountersFile. httpd's parent
 * forks it beside the children, once for each configuration generation, and again when it ends. It
 * opens the file with the rights that httpd starts with, then gives these up, so that no process
 * with more rights than a child reads the file or the counters. When the configuration ends, and the
 * children have ended at a stop, it writes the last counts.
 *
 * It also adds what the file has to a map's counters, once for each map, when the map has an image:
 * maps of .htaccess files come when they are first asked for. What it has added is marked in the
 * area (redirect_area_restored()), so that neither a restart nor another keeper adds it again.
 */
#include "redirects/counters.h"
#include "redirects/map.h"

#include "http_main.h"
#include "mpm_common.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BROKEN        200 /* exit code: another one could not keep them either, and it was said */
#define AGAIN_S       10  /* after an unexpected end the next one begins no earlier */
#define LOCK_S        10  /* a server that was stopped may still write */
#define LOOK_S        1   /* between two looks at which maps are there */
#define FORGOTTEN_S   (INT64_C(400) * 86400)
#define LEAST_SECONDS 1
#define MOST_SECONDS  3600

struct htc_keeper {
    htc_redirects *redirects;
    server_rec *s;
    apr_pool_t *pool; /* of the configuration */
    const char *path;
    bool set; /* the path, by the directive */
    apr_interval_time_t interval;
    apr_proc_t proc;
    pid_t parent;
    bool noted, running, broken; /* as the builder's, htaccess/builder.c */
    apr_time_t last;

    /* Of the keeper itself. */
    redirect_counts_file file;
    redirect_counts saved;  /* what the file has */
    int64_t since;          /* counts are from; at first, as it was when the keeper was forked */
    bool failed, said_much; /* it was said */
};

/* --- in the keeper: from the file to the counters ----------------------------------------------*/

static uint64_t next_of_pairs(void *baton)
{
    return (*(const redirect_counts_pair **)baton)++->key;
}

/* As if the group were the image of before. */
static void add_to_rows(const htc_counted_image *image, const redirect_counts_group *group)
{
    redirect_counter *counters = calloc(group->n, sizeof(*counters));
    const redirect_counts_pair *next = group->pairs;
    redirect_keys from = {next_of_pairs, &next, (uint32_t)group->n};

    if (!counters)
        return;
    for (uint64_t i = 0; i < group->n; i++)
        redirect_counter_add(&counters[i], group->pairs[i].word);
    redirect_counters_move(counters, &from, image->pin.counters, &image->keys, NULL);
    free(counters);
}

static void add_to_hits(const htc_counted_image *image, const redirect_counts_group *group)
{
    const redirect_hits hits = {(redirect_hits_name *)(uintptr_t)image->pin.image,
                                image->pin.counters};

    for (uint64_t i = 0; i < group->n; i++)
        redirect_hits_restore(&hits, group->pairs[i].key, group->pairs[i].word);
}

static void restore(const struct htc_keeper *keeper, uint32_t slot, apr_pool_t *scratch)
{
    redirect_area *area = keeper->redirects->area;
    redirect_counts_group group;
    htc_counted_image image;
    redirect_area_key key;

    if (redirect_area_restored(area, slot) || !htc_counted_open(area, slot, scratch, &image))
        return;
    if (redirect_area_key_get(area, slot, &key) &&
        redirect_counts_find(&keeper->saved, key.word, &group))
        (image.hits ? add_to_hits : add_to_rows)(&image, &group);
    redirect_area_set_restored(area, slot);
    htc_counted_close(area, &image);
}

static void restore_all(const struct htc_keeper *keeper, apr_pool_t *scratch)
{
    uint32_t place = 0, slot;

    while ((slot = redirect_area_next(keeper->redirects->area, &place)) != REDIRECT_AREA_NIL) {
        restore(keeper, slot, scratch);
        apr_pool_clear(scratch);
    }
}

/* Counters were reset, here or while no keeper looked: what the file has is from before that. */
static void look_at_since(struct htc_keeper *keeper)
{
    int64_t since = redirect_area_counting_since(keeper->redirects->area);

    if (since == keeper->since)
        return;
    keeper->since = since;
    redirect_counts_clear(&keeper->saved);
}

/* --- from the counters to the file -------------------------------------------------------------*/

static void gather(const htc_counted_image *image, redirect_counts *counts)
{
    for (uint32_t i = 0; i < image->keys.count; i++) {
        uint64_t word = atomic_load_explicit(&image->pin.counters[i].word, memory_order_relaxed);

        redirect_counts_add(counts, image->keys.next(image->keys.baton), word);
    }
}

/* Sets live[place] for the maps whose counters these are. */
static void gather_all(const struct htc_keeper *keeper, redirect_counts *counts, bool *live,
                       apr_pool_t *scratch)
{
    redirect_area *area = keeper->redirects->area;
    uint32_t place = 0, slot;
    htc_counted_image image;
    redirect_area_key key;

    while ((slot = redirect_area_next(area, &place)) != REDIRECT_AREA_NIL) {
        if (!redirect_area_restored(area, slot) || !redirect_area_key_get(area, slot, &key) ||
            !htc_counted_open(area, slot, scratch, &image))
            continue;
        redirect_counts_begin(counts, key.word);
        gather(&image, counts);
        redirect_counts_end(counts);
        live[redirect_area_place(slot)] = true;
        htc_counted_close(area, &image);
        apr_pool_clear(scratch);
    }
}

static bool is_forgotten(const redirect_counts_group *group, int64_t now)
{
    int64_t last = 0;

    for (uint64_t i = 0; i < group->n; i++) {
        redirect_counter counter = {group->pairs[i].word};
        int64_t at = redirect_counter_read(&counter).last;

        last = at > last ? at : last;
    }
    return last < now - FORGOTTEN_S;
}

/* Maps that are not in use at the moment, as nobody has asked for them since the start, or their
 * file is broken, or the line that names them is taken out for a while. */
static void keep_others(const struct htc_keeper *keeper, redirect_counts *counts, const bool *live,
                        int64_t now)
{
    redirect_area *area = keeper->redirects->area;
    redirect_counts_group group;
    size_t place = 0;

    while (redirect_counts_next(&keeper->saved, &place, &group)) {
        const redirect_area_key key = {{group.key[0], group.key[1]}};
        uint32_t slot = redirect_area_find(area, &key);

        if ((slot != REDIRECT_AREA_NIL && live[redirect_area_place(slot)]) ||
            is_forgotten(&group, now))
            continue;
        redirect_counts_begin(counts, group.key);
        for (uint64_t i = 0; i < group.n; i++)
            redirect_counts_add(counts, group.pairs[i].key, group.pairs[i].word);
        redirect_counts_end(counts);
    }
}

/* For the status page, which children make. */
static void note(const struct htc_keeper *keeper, redirect_area_kept kept)
{
    redirect_area_kept_set(keeper->redirects->area, kept);
}

static void say_result(struct htc_keeper *keeper, const redirect_counts *counts, apr_status_t rv)
{
    if (rv != APR_SUCCESS && !keeper->failed)
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, keeper->s,
                     "HtCacheCountersFile %s: counts of redirects cannot be written; it is tried "
                     "again. Until then a stop loses them",
                     keeper->path);
    keeper->failed = rv != APR_SUCCESS;
    if (counts->too_much && !keeper->said_much)
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, keeper->s,
                     "HtCacheCountersFile %s: not all counts of redirects are kept; there is no "
                     "memory, or there are more than the file may hold",
                     keeper->path);
    keeper->said_much |= counts->too_much;
    note(keeper, rv != APR_SUCCESS  ? REDIRECT_KEPT_UNWRITTEN
                 : counts->too_much ? REDIRECT_KEPT_IN_PART
                                    : REDIRECT_KEPT);
}

static void save(struct htc_keeper *keeper, apr_pool_t *scratch)
{
    redirect_counts counts = {.since = keeper->since};
    bool live[REDIRECT_AREA_MAPS] = {false};
    int64_t now = apr_time_sec(apr_time_now());
    apr_status_t rv = APR_SUCCESS;

    gather_all(keeper, &counts, live, scratch);
    keep_others(keeper, &counts, live, now);
    if (!redirect_counts_equal(&counts, &keeper->saved) || keeper->failed)
        rv = redirect_counts_file_write(&keeper->file, &counts, now);
    if (rv == APR_ENOENT) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, keeper->s,
                     "HtCacheCountersFile %s: the file was removed. Counts of redirects live until "
                     "httpd is stopped; restart httpd to keep them",
                     keeper->path);
        note(keeper, REDIRECT_KEPT_REMOVED);
        _exit(BROKEN);
    }
    say_result(keeper, &counts, rv);
    if (rv == APR_SUCCESS) {
        redirect_counts_clear(&keeper->saved);
        keeper->saved = counts;
    } else {
        redirect_counts_clear(&counts);
    }
}

/* --- its life ----------------------------------------------------------------------------------*/

/* Where nobody asked for the default file, and it cannot be, that is no fault. */
static void give_up(const struct htc_keeper *keeper, const char *why)
{
    ap_log_error(
        APLOG_MARK, keeper->set ? APLOG_ERR : APLOG_NOTICE, 0, keeper->s,
        "HtCacheCountersFile %s: %s. Counts of redirects live until httpd is stopped. Name "
        "a file in a directory that the user who starts httpd can write to, or Off",
        keeper->path, why);
    note(keeper, keeper->set ? REDIRECT_KEPT_UNUSABLE : REDIRECT_KEPT);
    _exit(BROKEN);
}

/* True when it is to end. */
static bool wait_for_end(const struct htc_keeper *keeper)
{
    const struct timespec look = {LOOK_S, 0};
    sigset_t end;

    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    return sigtimedwait(&end, NULL, &look) == SIGTERM || getppid() != keeper->parent;
}

/* Another server has the file as long as it runs, or had it until a moment ago. */
static void take_lock(const struct htc_keeper *keeper)
{
    for (int i = 0; !redirect_counts_file_lock(&keeper->file); i++) {
        if (i == LOCK_S / LOOK_S) {
            ap_log_error(APLOG_MARK, APLOG_WARNING, 0, keeper->s,
                         "HtCacheCountersFile %s: another server uses this file. Counts of "
                         "redirects of this one live until it is stopped; name a file of its own",
                         keeper->path);
            note(keeper, REDIRECT_KEPT_BY_OTHER);
        }
        if (wait_for_end(keeper))
            _exit(0);
    }
}

static const char *time_text(const struct htc_keeper *keeper, int64_t seconds)
{
    return ap_ht_time(keeper->pool, apr_time_from_sec(seconds), "%Y-%m-%d %H:%M:%S", 0);
}

static void read_file(struct htc_keeper *keeper)
{
    redirect_area *area = keeper->redirects->area;
    const char *why = redirect_counts_file_read(&keeper->file, &keeper->saved, keeper->pool);
    int64_t since = redirect_area_counting_since(area);

    if (why) {
        ap_log_error(
            APLOG_MARK, APLOG_ERR, 0, keeper->s,
            "HtCacheCountersFile %s: %s. It is left as it is, and counts of redirects live "
            "until httpd is stopped. Move it away and restart httpd, then counts begin at 0",
            keeper->path, why);
        note(keeper, REDIRECT_KEPT_UNUSABLE);
        _exit(BROKEN);
    }
    if (keeper->file.torn)
        ap_log_error(
            APLOG_MARK, APLOG_NOTICE, 0, keeper->s,
            "HtCacheCountersFile %s: the last write was cut off; counts of redirects go on "
            "from those of %s",
            keeper->path, time_text(keeper, keeper->saved.written));
    if (redirect_area_restored(area, REDIRECT_AREA_NIL) || since != keeper->since) {
        keeper->since = keeper->saved.since;
        look_at_since(keeper);
    } else if (keeper->saved.since > 0 && keeper->saved.since < since) {
        keeper->since = keeper->saved.since;
        redirect_area_count_since(area, keeper->since);
    }
    redirect_area_set_restored(area, REDIRECT_AREA_NIL);
}

static void work(struct htc_keeper *keeper)
{
    apr_pool_t *scratch;
    apr_time_t next = 0;
    bool end = false;

    if (apr_pool_create(&scratch, NULL) != APR_SUCCESS)
        _exit(BROKEN);
    for (;;) {
        int64_t since = keeper->since;

        look_at_since(keeper);
        restore_all(keeper, scratch);
        /* All of a reset is in the file at once. A clock that was set back writes it once more. */
        if (end || since != keeper->since || apr_time_now() >= next ||
            next - apr_time_now() > keeper->interval) {
            save(keeper, scratch);
            next = apr_time_now() + keeper->interval;
        }
        if (end)
            return;
        end = wait_for_end(keeper);
    }
}

static void run(struct htc_keeper *keeper)
{
    const char *why;

    /* The parent waits for it at the end. SIGTERM stays blocked: wait_for_end() takes it. */
    htc_fork_prepare();
    setsid(); /* so it sees what children count until they end */
    why = redirect_counts_file_open(&keeper->file, keeper->path, keeper->pool);
    if (why)
        give_up(keeper, why);
    if (ap_run_drop_privileges(keeper->pool, keeper->s) != OK)
        _exit(BROKEN);
    prctl(PR_SET_NAME, "htcache-counts");
    prctl(PR_SET_DUMPABLE, 0); /* no other process of this user may write to it */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    take_lock(keeper);
    read_file(keeper);
    redirect_area_join(keeper->redirects->area, keeper->redirects->generation);
    work(keeper);
    _exit(0);
}

/* --- in the parent -----------------------------------------------------------------------------*/

/* Called by the MPM. */
static void maintain(int reason, void *data, apr_wait_t status)
{
    struct htc_keeper *keeper = data;

    switch (reason) {
    case APR_OC_REASON_DEATH:
    case APR_OC_REASON_LOST:
        keeper->running = false;
        keeper->broken = reason == APR_OC_REASON_DEATH && htc_fork_ended(status) == BROKEN;
        apr_proc_other_child_unregister(keeper);
        break; /* htc_keeper_monitor() starts another one */
    case APR_OC_REASON_RESTART:
        /* It goes on until children have ended; then it is ended with the configuration. */
        if (htc_ends_children())
            apr_proc_other_child_unregister(keeper);
        break;
    default:
        break;
    }
}

static void start(struct htc_keeper *keeper)
{
    apr_status_t rv;

    keeper->last = apr_time_now();
    keeper->since = redirect_area_counting_since(keeper->redirects->area);
    rv = htc_fork(&keeper->proc, keeper->pool);
    if (rv == APR_INCHILD)
        run(keeper);
    if (rv != APR_INPARENT) {
        ap_log_error(APLOG_MARK, APLOG_ERR, rv, keeper->s,
                     "HtCacheCountersFile: cannot fork the process that keeps counts of redirects; "
                     "it is tried again");
        return;
    }
    keeper->running = true;
    if (!keeper->noted)
        apr_pool_note_subprocess(keeper->pool, &keeper->proc, APR_KILL_AFTER_TIMEOUT);
    keeper->noted = true;
    apr_proc_other_child_register(&keeper->proc, maintain, keeper, NULL, keeper->pool);
}

int htc_keeper_monitor(apr_pool_t *pool, server_rec *s)
{
    htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    struct htc_keeper *keeper = redirects ? redirects->keeper : NULL;
    apr_time_t passed = keeper ? apr_time_now() - keeper->last : 0;

    (void)pool;
    if (keeper && !keeper->running && !keeper->broken &&
        (passed < 0 || passed > apr_time_from_sec(AGAIN_S)) && !htc_ends_children())
        start(keeper);
    return OK;
}

const char *htc_keeper_problem(const server_rec *s, const char **advice, apr_pool_t *pool)
{
    static const struct {
        const char *problem, *advice;
    } all[] = {
        [REDIRECT_KEPT_UNUSABLE] = {"cannot be used, so a stop loses the counts of redirects",
                                    "the error log says why and what to do; then restart httpd"},
        [REDIRECT_KEPT_BY_OTHER] = {"is another server's, so a stop loses the counts of redirects",
                                    "name a file of its own, then stop and start httpd"},
        [REDIRECT_KEPT_UNWRITTEN] = {"cannot be written, so a stop loses the counts of redirects",
                                     "the error log says why; it is tried again and again"},
        [REDIRECT_KEPT_REMOVED] = {"was removed, so a stop loses the counts of redirects",
                                   "restart httpd, which makes it again"},
        [REDIRECT_KEPT_IN_PART] = {"has not all counts of redirects",
                                   "there is no memory, or there are more than it may hold: "
                                   "htcachectl unused names redirects that can go"},
    };
    const htc_redirects *redirects = htc_server_conf_of(s)->redirects;
    const struct htc_keeper *keeper = redirects ? redirects->keeper : NULL;
    redirect_area_kept kept = keeper ? redirect_area_kept_get(redirects->area) : REDIRECT_KEPT;

    if (kept == REDIRECT_KEPT)
        return NULL;
    *advice = all[kept].advice;
    return apr_pstrcat(pool, "HtCacheCountersFile ", keeper->path, " ", all[kept].problem, NULL);
}

static bool any_counts(const server_rec *s)
{
    for (; s; s = s->next) {
        if (htc_server_conf_of(s)->counters)
            return true;
    }
    return false;
}

void htc_keeper_start(void)
{
    htc_redirects *redirects =
        ap_server_conf ? htc_server_conf_of(ap_server_conf)->redirects : NULL;
    const htc_options *options = htc_options_get();
    struct htc_keeper *keeper;

    if (!redirects || !redirects->area || htc_is_preflight() || !options->counters_file ||
        !any_counts(ap_server_conf))
        return;
    keeper = apr_pcalloc(redirects->pool, sizeof(*keeper));
    keeper->redirects = redirects;
    keeper->s = ap_server_conf;
    keeper->pool = redirects->pool;
    keeper->path = options->counters_file;
    keeper->set = options->counters_file_set;
    keeper->interval = options->counters_interval;
    keeper->parent = getpid();
    keeper->file.fd = -1;
    redirects->keeper = keeper;
    redirect_area_kept_set(redirects->area, REDIRECT_KEPT);
    start(keeper);
}

/* --- the directive -----------------------------------------------------------------------------*/

const char *htc_keeper_directive(cmd_parms *cmd, void *dir_conf, const char *file,
                                 const char *interval)
{
    const char *err = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    htc_options *options = htc_options_get();
    apr_interval_time_t every = apr_time_from_sec(HTC_COUNTERS_SECONDS);

    (void)dir_conf;
    if (err)
        return err;
    if (interval &&
        (ap_timeout_parameter_parse(interval, &every, "s") != APR_SUCCESS ||
         every < apr_time_from_sec(LEAST_SECONDS) || every > apr_time_from_sec(MOST_SECONDS)))
        return apr_psprintf(cmd->pool,
                            "HtCacheCountersFile: '%s': give a time from 1s to 1h, such as 1min",
                            interval);
    options->counters_file_set = true;
    options->counters_interval = every;
    if (!strcasecmp(file, "off")) {
        options->counters_file = NULL;
        return interval ? "HtCacheCountersFile Off takes no time" : NULL;
    }
    options->counters_file = ap_server_root_relative(cmd->pool, file);
    return options->counters_file
               ? NULL
               : apr_psprintf(cmd->pool, "HtCacheCountersFile '%s': not a valid path", file);
}
