/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file htc_farm_clock.h
 * What time it is by a memcached server's own clock, to a fraction of a second. That clock is seen
 * as whole seconds only; but each time it is seen to stand at `tick`, between the moments `before`
 * and `after` of this machine's monotonic clock, its distance from ours is known to lie within
 *
 *     [tick - after, tick + 1 s - before]
 *
 * and the intersection of what several looks say becomes narrow as soon as a tick passed between
 * two of them. (Marzullo's way of combining intervals, for one source.) Nothing depends on clocks
 * of machines agreeing, only on seconds being about as long everywhere: the interval is widened by
 * HTC_CLOCK_DRIFT of the time that passed since. memcached moves its clock by a timer, so a busy
 * one may show a tick late: a look that seems to lie in the past lowers the lower end and leaves
 * the upper one, which makes whatever is judged by it look older, never younger.
 *
 * The clock's zero is given by an `epoch`, a random number. Times of different epochs have nothing
 * to do with each other. Within an epoch the clock cannot go back; when it seems to, by more than
 * HTC_CLOCK_LATE_MS, somebody tampered with it, and the epoch is not to be used any more.
 *
 * The struct lies in shared memory, all zero at first. Any thread of any process may call these;
 * an update that meets another one is skipped. A process killed in the middle of one blocks
 * updates for HTC_CLOCK_STUCK_MS.
 */
#ifndef HTC_FARM_CLOCK_H
#define HTC_FARM_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** One part in so many: memcached's ticks come late by up to some ms per second. */
#define HTC_CLOCK_DRIFT    200
#define HTC_CLOCK_LATE_MS  10000
#define HTC_CLOCK_STUCK_MS 2000

typedef struct htc_farm_clock {
    _Atomic int64_t busy_since; /* 0, or when the update under way began */
    _Atomic uint64_t sequence;  /* odd: being changed */
    _Atomic uint64_t epoch;     /* 0: never seen */
    _Atomic uint64_t refused;   /* an epoch in which the clock went back; 0: none */
    _Atomic int64_t low, high;  /* ms to be added to ours, as of seen_at */
    _Atomic int64_t seen_at;
} htc_farm_clock;

/** What a look at the clock says. */
typedef struct htc_farm_time {
    uint64_t epoch;    /* 0: unknown */
    int64_t low, high; /* ms: it is at least low and at most high */
} htc_farm_time;

typedef enum htc_clock_news {
    HTC_CLOCK_FINE,
    HTC_CLOCK_NEW,  /* another epoch has begun, or the clock jumped ahead */
    HTC_CLOCK_BACK, /* it went back: the epoch is refused from now on */
} htc_clock_news;

/** The clock was seen at @a tick whole seconds of @a epoch, between @a before and @a after (ms). */
htc_clock_news htc_farm_clock_seen(htc_farm_clock *clock, uint64_t epoch, int64_t tick,
                                   int64_t before, int64_t after);

/** The time at our moment @a now. epoch is 0 while it is not known. */
htc_farm_time htc_farm_clock_at(const htc_farm_clock *clock, int64_t now);

#endif
