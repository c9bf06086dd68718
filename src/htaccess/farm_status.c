/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The farm tier's figures. Reported also where it is off or not built, so that the status page has
 * the same keys everywhere.
 */
#include "farm/farm.h"
#include "htaccess/farm.h"

#ifdef HAVE_LIBMEMCACHED
#include "htaccess/farm_internal.h"
#endif

static const struct {
    const char *name, *help;
} counter_texts[HTC_FARM_COUNTER_COUNT] = {
#define X(name, help) {#name, help},
    HTC_FARM_COUNTERS(X)
#undef X
};

static const htc_column columns[] = {
    {"server", "Server", HTC_TEXT, HTC_UNIT_ONE, "as in HtCacheMemcached"},
    {"state", "State", HTC_TEXT, HTC_UNIT_ONE, "in use, or given up for the moment"},
    {"exchanges", "Exchanges", HTC_COUNTER, HTC_UNIT_ONE, "times it answered"},
    {"timeouts", "Too late", HTC_COUNTER, HTC_UNIT_ONE, "times it did not answer in time"},
    {"failures", "Failures", HTC_COUNTER, HTC_UNIT_ONE,
     "times it refused, broke off or made no sense"},
    {"skipped", "Not asked", HTC_COUNTER, HTC_UNIT_ONE,
     "times it was not asked, because it was given up"},
    {"connects", "Connections made", HTC_COUNTER, HTC_UNIT_ONE, "connections opened to it"},
    {"reused", "Reused", HTC_COUNTER, HTC_UNIT_ONE,
     "exchanges over a connection that was open already"},
    {"given_up", "Given up", HTC_COUNTER, HTC_UNIT_ONE, "times its circuit breaker opened"},
};

typedef struct figures {
    uint64_t longest_us, open, most;
} figures;

#ifdef HAVE_LIBMEMCACHED

static const char *state_of(const htc_report *report)
{
    const htc_farm_options *options = htc_options_get()->farm;

    if (report->ctx && report->ctx->farm)
        return "on";
    if (!options || !options->servers->nelts)
        return "off: HtCacheMemcached stands nowhere in the configuration";
    if (report->ctx && report->ctx->farm_off)
        return apr_pstrcat(report->pool, "off: ", report->ctx->farm_off, NULL);
    return "off: the cache itself is off";
}

static uint64_t counter_of(const htc_report *report, int which)
{
    return report->ctx && report->ctx->farm
               ? atomic_load(&report->ctx->farm->shared->counters[which])
               : 0;
}

static figures figures_of(const htc_report *report)
{
    figures now = {0};

    if (!report->ctx || !report->ctx->farm)
        return now;
    now.longest_us = atomic_load(&report->ctx->farm->shared->longest_us);
    now.open = htc_census_sum(&report->ctx->farm->shared->connections, &now.most);
    return now;
}

static void add_servers(htc_list *list)
{
    const htc_farm *farm = list->report->ctx ? list->report->ctx->farm : NULL;

    for (unsigned i = 0; farm && i < farm->n; i++) {
        htc_mc_server *server = &farm->shared->servers[i];

        htc_cell_text(list, farm->names[i]);
        htc_cell_text(list, htc_breaker_is_open(&server->breaker) ? "given up" : "in use");
        htc_cell_number(list, atomic_load(&server->exchanges));
        htc_cell_number(list, atomic_load(&server->timeouts));
        htc_cell_number(list, atomic_load(&server->failures));
        htc_cell_number(list, atomic_load(&server->skipped));
        htc_cell_number(list, atomic_load(&server->connects));
        htc_cell_number(list, atomic_load(&server->reused));
        htc_cell_number(list, atomic_load(&server->breaker.opened));
    }
}

void htc_farm_problems(htc_list *problems)
{
    const htc_farm *farm = problems->report->ctx ? problems->report->ctx->farm : NULL;

    for (unsigned i = 0; farm && i < farm->n; i++) {
        if (!htc_breaker_is_open(&farm->shared->servers[i].breaker))
            continue;
        htc_cell_text(problems, apr_pstrcat(problems->report->pool, "the memcached server ",
                                            farm->names[i], " is given up for now", NULL));
        htc_cell_text(problems, "check that it runs and can be reached from here; this server "
                                "tries it once a second, and goes on without it until it answers");
        htc_cell_text(problems, "memcached");
    }
}

#else

static const char *state_of(const htc_report *report)
{
    (void)report;
    return "off: built without libmemcached";
}

static uint64_t counter_of(const htc_report *report, int which)
{
    (void)report;
    (void)which;
    return 0;
}

static figures figures_of(const htc_report *report)
{
    (void)report;
    return (figures){0};
}

static void add_servers(htc_list *list)
{
    (void)list;
}

void htc_farm_problems(htc_list *problems)
{
    (void)problems;
}

#endif

void htc_farm_report(htc_report *report)
{
    htc_group *group =
        htc_report_group(report, "memcached", "Farm", "what servers share through memcached");
    const figures now = figures_of(report);

    htc_add_text(group, "state", state_of(report), "whether it is used, and if not, why");
    for (int i = 0; i < HTC_FARM_COUNTER_COUNT; i++)
        htc_add_counter(group, counter_texts[i].name, HTC_UNIT_ONE, counter_of(report, i),
                        counter_texts[i].help);
    htc_add_gauge(group, "longest_us", HTC_UNIT_US, now.longest_us,
                  "the most time that one request has spent on memcached, in microseconds");
    htc_add_gauge(group, "connections", HTC_UNIT_ONE, now.open,
                  "connections to memcached servers that this server has open");
    htc_add_gauge(group, "connections_most", HTC_UNIT_ONE, now.most,
                  "the most connections of any one of its processes");
    add_servers(htc_report_list(report, group, "servers", "memcached servers",
                                "their state, as this server sees them", HTC_LIST_METRICS, columns,
                                (int)(sizeof(columns) / sizeof(columns[0]))));
}
