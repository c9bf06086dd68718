/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file farm/breaker.h
 * A circuit breaker for one remote service, in memory shared by all processes of a server. While
 * the service answers the breaker is closed and every request may ask. After HTC_BREAKER_LIMIT
 * failures without a success between them it opens: no request asks, so none waits. Every
 * HTC_BREAKER_RETRY_MS one caller, and only one, is let through to try; when that try succeeds
 * the breaker closes at once for everybody.
 *
 * All zero is a closed breaker. Every function may be called by any thread of any process without
 * a lock. Times are htc_mono_ms().
 */
#ifndef HTC_FARM_BREAKER_H
#define HTC_FARM_BREAKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HTC_BREAKER_LIMIT    3
#define HTC_BREAKER_RETRY_MS 1000

typedef struct htc_breaker {
    _Atomic int64_t retry_at;  /* 0: closed; else when the next try is due */
    _Atomic uint32_t failures; /* since the last success; stops counting at the limit */
    _Atomic uint32_t opened;   /* times it went from closed to open */
} htc_breaker;

/** True when the caller may ask now. It must then report success or failure. If it found out
 * neither, it reports nothing, and the next try is due after HTC_BREAKER_RETRY_MS. */
bool htc_breaker_allow(htc_breaker *breaker, int64_t now);

/** The service answered. Returns true when that closed an open breaker. */
bool htc_breaker_success(htc_breaker *breaker);

/** The service did not answer. Returns true when that opened a closed breaker. */
bool htc_breaker_failure(htc_breaker *breaker, int64_t now);

static inline bool htc_breaker_is_open(const htc_breaker *breaker)
{
    return atomic_load_explicit(&breaker->retry_at, memory_order_relaxed) != 0;
}

#endif
