/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The last minutes: samples of the counters for the page's plots, and the groups "recent" and "saved". The
 * parent takes them from httpd's monitor hook, about every ten seconds. Where there is no such hook
 * (httpd -X), the process that shows the page does.
 */
#include "status/status.h"

#include "ap_mpm.h"

#define PROCESS_KEY    "htcache-history"
#define RECENT_SECONDS 300

/* One for the process and its children, over restarts. */
static htc_history *history;

/* In a pool that is never destroyed: this module's code is gone when the process's own is, and what
 * that would call for the history's end lies in it. */
static bool create(void)
{
    apr_pool_t *own;

    return apr_pool_create_unmanaged_ex(&own, NULL, NULL) == APR_SUCCESS &&
           htc_history_create(&history, own) == APR_SUCCESS;
}

int htc_history_post_config(server_rec *s)
{
    void *known = NULL;

    apr_pool_userdata_get(&known, PROCESS_KEY, s->process->pool);
    if (!known && !create()) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, APR_ENOMEM, s,
            "HtCache: no memory for the history on the status page; it shows totals only until "
            "httpd is restarted with more");
        return OK;
    }
    if (known)
        history = known;
    else
        apr_pool_userdata_set(history, PROCESS_KEY, NULL, s->process->pool);
    return OK;
}

/* What parsing a file takes. After a restart few files are parsed, as most are known: what was timed
 * before says more until as many were. */
static void take_parse_time(const htc_context *ctx, htc_sample *sample)
{
    uint64_t files = 0, ns = ctx->costs ? htc_costs_parse(ctx->costs, &files) : 0;
    htc_sample last;

    if (history && htc_history_last(history, &last) && last.values[HTC_H_PARSE_FILES] > files) {
        files = last.values[HTC_H_PARSE_FILES];
        ns = last.values[HTC_H_PARSE_NS];
    }
    sample->values[HTC_H_PARSE_NS] = ns;
    sample->values[HTC_H_PARSE_FILES] = files;
}

static void take_sample(const htc_context *ctx, htc_sample *sample)
{
    const htc_store *store = ctx->store;
    htc_store_stats stats;
    int generation = 0;
    uint64_t hits = htc_counter_read(store, HTC_C_hits);

    ap_mpm_query(AP_MPMQ_GENERATION, &generation);
    htc_store_stats_get(store, &stats);
    sample->at = apr_time_sec(apr_time_now());
    sample->generation = (uint64_t)generation;
    sample->values[HTC_H_LOOKUPS] = htc_counter_read(store, HTC_C_lookups);
    sample->values[HTC_H_SAVED] =
        hits + htc_counter_read(store, HTC_C_absent_hits) + htc_counter_read(store, HTC_C_replays);
    sample->values[HTC_H_PARSED] = hits;
    sample->values[HTC_H_STATS] = htc_counter_read(store, HTC_C_file_stats);
    sample->values[HTC_H_READS] = htc_counter_read(store, HTC_C_file_reads);
    sample->values[HTC_H_PARSES] = htc_counter_read(store, HTC_C_parses);
    sample->values[HTC_H_EVICTIONS] = htc_counter_read(store, HTC_C_evictions);
    sample->values[HTC_H_BYTES] = stats.bytes_used;
    take_parse_time(ctx, sample);
}

static void sample_when_due(const htc_context *ctx)
{
    htc_sample sample, last;

    if (!history || !htc_history_due(history, apr_time_sec(apr_time_now())))
        return;
    take_sample(ctx, &sample);
    /* A process of before the restart, with its last requests: the next sample would count anew. */
    if (htc_history_last(history, &last) && last.generation > sample.generation)
        return;
    htc_history_add(history, &sample);
}

int htc_history_monitor(apr_pool_t *p, server_rec *s)
{
    const htc_context *ctx = htc_server_conf_of(s)->ctx;

    (void)p;
    if (ctx && ctx->store)
        sample_when_due(ctx);
    return DECLINED;
}

size_t htc_history_get(const htc_report *report, htc_sample *samples)
{
    size_t n;

    if (!history || !report->store)
        return 0;
    sample_when_due(report->ctx);
    n = htc_history_read(history, samples);
    /* The counts since the last sample belong to it. */
    if (n == HTC_HISTORY_SAMPLES) {
        memmove(samples, samples + 1, (n - 1) * sizeof(*samples));
        n--;
    }
    take_sample(report->ctx, &samples[n]);
    return n + 1;
}

/* What was counted in the last minutes, and in how many seconds. It never reaches back over the time
 * since when the totals count, beside which it stands. */
static uint64_t recent_sums(const htc_report *report, uint64_t *sums)
{
    htc_sample *samples = apr_palloc(report->pool, HTC_HISTORY_SAMPLES * sizeof(*samples));
    size_t n = htc_history_get(report, samples), from = n;
    int64_t since = report->store ? htc_counters_since(report->store) : 0;

    memset(sums, 0, HTC_HISTORY_VALUES * sizeof(*sums));
    if (n && samples[n - 1].at - since <= RECENT_SECONDS) {
        memcpy(sums, samples[n - 1].values, sizeof(samples[n - 1].values));
        return samples[n - 1].at > since ? (uint64_t)(samples[n - 1].at - since) : 0;
    }
    while (from > 1 && samples[n - 1].at - samples[from - 1].at < RECENT_SECONDS)
        from--;
    for (size_t i = from; i < n; i++) {
        for (int v = 0; i > 0 && v < HTC_HISTORY_VALUES; v++)
            sums[v] += htc_history_delta(&samples[i - 1], &samples[i], v);
    }
    return n > from && from > 0 ? (uint64_t)(samples[n - 1].at - samples[from - 1].at) : 0;
}

void htc_recent_report(htc_report *report)
{
    htc_group *group = htc_report_group(report, "recent", "The last five minutes",
                                        "what was counted in that time");
    uint64_t sums[HTC_HISTORY_VALUES], seconds = recent_sums(report, sums);

    group->flags = HTC_GROUP_NO_METRICS;
    htc_add_gauge(group, "seconds", HTC_UNIT_ONE, seconds,
                  "seconds that these figures cover: 300, or fewer shortly after counting_since");
    htc_add_gauge(group, "lookups", HTC_UNIT_ONE, sums[HTC_H_LOOKUPS], "look-ups");
    htc_add_ratio(group, "hit_ratio", sums[HTC_H_SAVED], sums[HTC_H_LOOKUPS],
                  "look-ups that opened, read and parsed no file, of all");
    htc_add_gauge(group, "saved_opens", HTC_UNIT_ONE, sums[HTC_H_SAVED],
                  "times that httpd alone would have tried to open a file");
    htc_add_gauge(group, "saved_parses", HTC_UNIT_ONE, sums[HTC_H_PARSED],
                  "times that httpd alone would have read and parsed one");
    htc_add_gauge(group, "file_stats", HTC_UNIT_ONE, sums[HTC_H_STATS], "stat calls made");
    htc_add_gauge(group, "file_reads", HTC_UNIT_ONE, sums[HTC_H_READS], "files opened");
    htc_add_gauge(group, "parses", HTC_UNIT_ONE, sums[HTC_H_PARSES], "files parsed");
    htc_add_gauge(group, "evictions", HTC_UNIT_ONE, sums[HTC_H_EVICTIONS],
                  "records removed to make room");
}

/* --- what all of it saved ---------------------------------------------------------------------*/

static uint64_t counter(const htc_report *report, enum htc_counter which)
{
    return report->store ? htc_counter_read(report->store, which) : 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Each miss opens a file or finds that there is none; some files are opened again without one. */
static uint64_t operations_made(const htc_report *report)
{
    uint64_t misses = counter(report, HTC_C_misses), reads = counter(report, HTC_C_file_reads);

    return counter(report, HTC_C_file_stats) + (misses > reads ? misses : reads);
}

void htc_saved_report(htc_report *report)
{
    htc_group *group = htc_report_group(report, "saved", "What the cache saves",
                                        "what httpd alone would have done besides, estimated");
    uint64_t parses = less(counter(report, HTC_C_hits), counter(report, HTC_C_loads));
    htc_sample sample = {0};
    uint64_t ns;

    if (report->store)
        take_parse_time(report->ctx, &sample);
    ns = sample.values[HTC_H_PARSE_NS];

    /* httpd alone opens a file, or tries to, for each look-up. */
    htc_add_gauge(group, "file_operations", HTC_UNIT_ONE,
                  less(counter(report, HTC_C_lookups),
                       counter(report, HTC_C_bypasses) + operations_made(report)),
                  "files that httpd alone would have tried to open, less what the cache asked");
    htc_add_counter(group, "file_operations_made", HTC_UNIT_ONE, operations_made(report),
                    "stat and open calls of the cache");
    htc_add_gauge(group, "parses", HTC_UNIT_ONE, parses,
                  "files that httpd alone would have read, parsed and run");
    htc_add_gauge(group, "parse_us", HTC_UNIT_US, ns ? ns / 1000 : HTC_UNKNOWN,
                  "what parsing and running one takes: the median of those that were timed");
    htc_add_gauge(group, "processor_us", HTC_UNIT_US,
                  ns ? (uint64_t)((double)parses * (double)ns / 1000) : HTC_UNKNOWN,
                  "processor time that these parses would have taken");
}
