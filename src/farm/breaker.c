/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The circuit breaker of farm/breaker.h: two words that are changed by compare and exchange. Called
 * by farm/memcached.c around each exchange with a server.
 */
#include "farm/breaker.h"

bool htc_breaker_allow(htc_breaker *breaker, int64_t now)
{
    int64_t retry_at = atomic_load(&breaker->retry_at);

    if (!retry_at)
        return true;
    /* The caller that moves the time forward makes the try. */
    return now >= retry_at && atomic_compare_exchange_strong(&breaker->retry_at, &retry_at,
                                                             now + HTC_BREAKER_RETRY_MS);
}

bool htc_breaker_success(htc_breaker *breaker)
{
    /* The usual case writes nothing, so that processors do not fight for the line. */
    if (atomic_load_explicit(&breaker->failures, memory_order_relaxed))
        atomic_store(&breaker->failures, 0);
    if (!atomic_load_explicit(&breaker->retry_at, memory_order_relaxed))
        return false;
    return atomic_exchange(&breaker->retry_at, 0) != 0;
}

bool htc_breaker_failure(htc_breaker *breaker, int64_t now)
{
    int64_t closed = 0;

    if (atomic_load(&breaker->failures) < HTC_BREAKER_LIMIT &&
        atomic_fetch_add(&breaker->failures, 1) + 1 < HTC_BREAKER_LIMIT)
        return false;
    if (!atomic_compare_exchange_strong(&breaker->retry_at, &closed, now + HTC_BREAKER_RETRY_MS))
        return false; /* open already; its next try is due when it is due */
    atomic_fetch_add(&breaker->opened, 1);
    return true;
}
