/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A memcached server's clock by intersection of intervals, see htc_farm_clock.h. Called by the farm
 * glue after each exchange with a server.
 */
#include "htc_farm_clock.h"

/* A consistent copy of the interval. */
typedef struct reading {
    uint64_t epoch;
    int64_t low, high, seen_at;
} reading;

static bool read_clock(const htc_farm_clock *clock, reading *out)
{
    for (int i = 0; i < 100; i++) {
        uint64_t sequence = atomic_load_explicit(&clock->sequence, memory_order_acquire);

        out->epoch = atomic_load_explicit(&clock->epoch, memory_order_relaxed);
        out->low = atomic_load_explicit(&clock->low, memory_order_relaxed);
        out->high = atomic_load_explicit(&clock->high, memory_order_relaxed);
        out->seen_at = atomic_load_explicit(&clock->seen_at, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (!(sequence & 1) &&
            atomic_load_explicit(&clock->sequence, memory_order_relaxed) == sequence)
            return true;
    }
    return false; /* a writer died in the middle; the next one mends it */
}

static void write_clock(htc_farm_clock *clock, const reading *in)
{
    uint64_t sequence = atomic_load(&clock->sequence) | 1;

    atomic_store(&clock->sequence, sequence);
    atomic_store(&clock->epoch, in->epoch);
    atomic_store(&clock->low, in->low);
    atomic_store(&clock->high, in->high);
    atomic_store(&clock->seen_at, in->seen_at);
    atomic_store(&clock->sequence, sequence + 1);
}

static bool begin_update(htc_farm_clock *clock, int64_t now)
{
    int64_t since = atomic_load(&clock->busy_since);

    if (since && now - since < HTC_CLOCK_STUCK_MS)
        return false;
    return atomic_compare_exchange_strong(&clock->busy_since, &since, now);
}

static void widen(reading *r, int64_t now)
{
    int64_t passed = now > r->seen_at ? now - r->seen_at : 0;
    int64_t drift = (passed + HTC_CLOCK_DRIFT - 1) / HTC_CLOCK_DRIFT;

    r->low -= drift;
    r->high += drift;
    r->seen_at += passed;
}

/* Combine what was known, widened to the moment of the look, with the look. */
static htc_clock_news combine(reading *known, const reading *look)
{
    widen(known, look->seen_at);
    if (look->high < known->low - HTC_CLOCK_LATE_MS)
        return HTC_CLOCK_BACK;
    if (look->high < known->low) {
        known->low = look->low;
        return HTC_CLOCK_FINE;
    }
    if (look->low > known->high) {
        *known = *look;
        return HTC_CLOCK_NEW;
    }
    if (look->low > known->low)
        known->low = look->low;
    if (look->high < known->high)
        known->high = look->high;
    return HTC_CLOCK_FINE;
}

htc_clock_news htc_farm_clock_seen(htc_farm_clock *clock, uint64_t epoch, int64_t tick,
                                   int64_t before, int64_t after)
{
    const reading look = {epoch, tick * 1000 - after, tick * 1000 + 1000 - before, after};
    htc_clock_news news = HTC_CLOCK_NEW;
    reading known;

    if (atomic_load(&clock->refused) == epoch)
        return HTC_CLOCK_BACK;
    if (!begin_update(clock, after))
        return HTC_CLOCK_FINE;
    if (read_clock(clock, &known) && known.epoch == epoch)
        news = combine(&known, &look);
    else
        known = look;
    if (news == HTC_CLOCK_BACK) {
        atomic_store(&clock->refused, epoch);
        known.epoch = 0;
    }
    write_clock(clock, &known);
    atomic_store(&clock->busy_since, 0);
    return news;
}

htc_farm_time htc_farm_clock_at(const htc_farm_clock *clock, int64_t now)
{
    reading known;

    if (!read_clock(clock, &known) || !known.epoch)
        return (htc_farm_time){0, 0, 0};
    widen(&known, now);
    return (htc_farm_time){known.epoch, now + known.low, now + known.high};
}
