/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Opening a table's image: what look-ups rely on is copied to private memory and checked. Called
 * once for each table by those who ask it.
 */
#include "redirect_table/internal.h"

#include <apr_strings.h>

static const void *section(const redirect_table *t, rt_section which)
{
    return t->image + t->head.section[which].at;
}

/* Places that have so much of the image behind them that a short record, wherever it is said to
 * begin there, lies inside. */
static uint32_t quick_range(const rt_header *head)
{
    uint32_t end = head->size < RT_QUICK ? 0 : head->size - RT_QUICK;

    if (end > head->records_end)
        end = head->records_end;
    return end > sizeof(*head) ? end - (uint32_t)sizeof(*head) : 0;
}

const redirect_table *redirect_table_open(const void *image, size_t size, apr_pool_t *pool)
{
    redirect_table *t = apr_pcalloc(pool, sizeof(*t));

    if (size < sizeof(t->head))
        return NULL;
    t->head = *(const rt_header *)image;
    RT_READ_DONE();
    if (!rt_header_possible(&t->head, size))
        return NULL;
    t->image = image;
    t->buckets = section(t, RT_BUCKETS);
    t->filter = section(t, RT_FILTER);
    t->profiles = section(t, RT_PROFILES);
    t->spaces = apr_pmemdup(pool, section(t, RT_SPACES),
                            (t->head.section[RT_SPACES].count + 1) * sizeof(rt_space));
    t->seed = t->head.seed;
    t->nbuckets = t->head.section[RT_BUCKETS].count;
    t->nfilter = t->head.section[RT_FILTER].count;
    t->nspaces = t->head.section[RT_SPACES].count;
    t->records_end = t->head.records_end;
    t->end = t->head.size - REDIRECT_SLACK;
    t->quick = quick_range(&t->head);
    t->secret = rt_secret_of(t->seed);
    t->lookup = rt_lookup_any;
    t->simple_salt = rt_salt(t->seed, 0, 0, 0);
    if (rt_is_simple(t)) {
        t->lookup = t->spaces->prefix_depths ? rt_lookup_prefix : rt_lookup_whole;
        rt_prepare_simple(t, pool);
    }
    return t;
}

uint64_t redirect_table_format(void)
{
    return (uint64_t)RT_VERSION << 32 | sizeof(rt_header);
}
