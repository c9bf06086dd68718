/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The ring of samples. Each has a sequence number: odd while it is written, and never that of an
 * older one. Called by status/history.c.
 */
#include "cache/history.h"
#include "base/base.h"

#include <stdatomic.h>

typedef struct cell {
    _Atomic uint64_t seq; /* 0: never used; odd: being written */
    _Atomic int64_t at;
    _Atomic uint64_t generation;
    _Atomic uint64_t values[HTC_HISTORY_VALUES];
} cell;

struct htc_history {
    _Atomic int64_t last_at; /* when the last sample was claimed */
    _Atomic uint64_t taken;  /* samples ever */
    cell cells[HTC_HISTORY_SAMPLES];
};

apr_status_t htc_history_create(htc_history **history, apr_pool_t *pool)
{
    void *base;
    apr_status_t rv = htc_pages_share(&base, sizeof(htc_history), pool);

    *history = base;
    return rv;
}

bool htc_history_due(htc_history *history, int64_t now)
{
    int64_t last = atomic_load(&history->last_at);

    if (now >= last && last > now - HTC_HISTORY_SECONDS)
        return false;
    return atomic_compare_exchange_strong(&history->last_at, &last, now);
}

void htc_history_add(htc_history *history, const htc_sample *sample)
{
    uint64_t number = atomic_fetch_add(&history->taken, 1);
    cell *c = &history->cells[number % HTC_HISTORY_SAMPLES];

    atomic_store(&c->seq, 2 * number + 1);
    atomic_store(&c->at, sample->at);
    atomic_store(&c->generation, sample->generation);
    for (int i = 0; i < HTC_HISTORY_VALUES; i++)
        atomic_store(&c->values[i], sample->values[i]);
    atomic_store(&c->seq, 2 * number + 2);
}

static bool read_cell(const cell *c, uint64_t number, htc_sample *sample)
{
    if (atomic_load(&c->seq) != 2 * number + 2)
        return false;
    sample->at = atomic_load(&c->at);
    sample->generation = atomic_load(&c->generation);
    for (int i = 0; i < HTC_HISTORY_VALUES; i++)
        sample->values[i] = atomic_load(&c->values[i]);
    return atomic_load(&c->seq) == 2 * number + 2;
}

size_t htc_history_read(const htc_history *history, htc_sample *samples)
{
    uint64_t taken = atomic_load(&history->taken);
    uint64_t number = taken > HTC_HISTORY_SAMPLES ? taken - HTC_HISTORY_SAMPLES : 0;
    size_t n = 0;

    for (; number < taken; number++)
        n += read_cell(&history->cells[number % HTC_HISTORY_SAMPLES], number, &samples[n]);
    return n;
}

bool htc_history_last(const htc_history *history, htc_sample *sample)
{
    uint64_t taken = atomic_load(&history->taken);

    return taken &&
           read_cell(&history->cells[(taken - 1) % HTC_HISTORY_SAMPLES], taken - 1, sample);
}

uint64_t htc_history_delta(const htc_sample *from, const htc_sample *to,
                           enum htc_history_value value)
{
    if (to->generation > from->generation)
        return to->values[value];
    if (to->generation < from->generation || to->values[value] < from->values[value])
        return 0;
    return to->values[value] - from->values[value];
}
