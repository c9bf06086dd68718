/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file base/ghosts.h
 * Which of the things that a full cache does not have are asked for often, and so worth the room of
 * others. Things are known by their hashes. A table of words remembers those asked for last and how
 * often; each set of it is one of four words. Every process may write to it, without a lock: it is
 * a hint, and two at once may lose one. Part of the core: no httpd headers.
 */
#ifndef HTC_BASE_GHOSTS_H
#define HTC_BASE_GHOSTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTC_GHOST_WAYS 4
/** Asked for so often, before other things have taken its word, it is wanted. Where all is asked for
 * equally often few things are wanted, so they do not push out one another for nothing. */
#define HTC_GHOST_ASKS 4

/** @a hash is asked for. @a ghosts has @a n words, a multiple of HTC_GHOST_WAYS; zeroes at first.
 * @return true when it is wanted. Then its count begins again. */
static inline bool htc_ghosts_want(_Atomic uint32_t *ghosts, size_t n, uint64_t hash)
{
    _Atomic uint32_t *set = &ghosts[hash % (n / HTC_GHOST_WAYS) * HTC_GHOST_WAYS];
    uint32_t tag = ((uint32_t)(hash >> 32) | HTC_GHOST_ASKS) & ~(uint32_t)(HTC_GHOST_ASKS - 1);

    for (unsigned i = 0; i < HTC_GHOST_WAYS; i++) {
        uint32_t ghost = atomic_load_explicit(&set[i], memory_order_relaxed), asks = ghost - tag;

        if (asks >= HTC_GHOST_ASKS)
            continue;
        asks = (asks + 1) % HTC_GHOST_ASKS;
        atomic_store_explicit(&set[i], tag + asks, memory_order_relaxed);
        return !asks;
    }
    for (unsigned i = HTC_GHOST_WAYS - 1; i; i--)
        atomic_store_explicit(&set[i], atomic_load_explicit(&set[i - 1], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&set[0], tag + 1, memory_order_relaxed);
    return false;
}

#endif
