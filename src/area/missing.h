/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/missing.h
 * Which pages are asked for most and not found, in bounded memory that all processes share. Pages
 * are known by a text, cut to REDIRECT_MISSING_TEXT bytes.
 *
 * Entries lie in sets of REDIRECT_MISSING_WAYS, chosen by a hash with a seed that nobody outside
 * knows. In a full set a page takes the place of another one only after HTC_GHOST_ASKS requests in a
 * short while (base/ghosts.h). So a scanner that asks for each page once takes no place. The entry
 * with the fewest requests makes room; an entry's requests count half for each week without one.
 *
 * Lock-free, and nobody waits: what would have to is not counted. What other processes write there
 * can at worst make the list wrong. Part of the core: no httpd headers.
 */
#ifndef HTC_AREA_MISSING_H
#define HTC_AREA_MISSING_H

#include "area/counters.h"

#include <stddef.h>

#define REDIRECT_MISSING_ENTRIES 4096
#define REDIRECT_MISSING_WAYS    8
#define REDIRECT_MISSING_TEXT    224 /* bytes, a multiple of 8 */

/** In shared memory, zero to begin with. */
typedef struct redirect_missing redirect_missing;

size_t redirect_missing_bytes(void);

/** Begin: @a seed is random, @a now when counting begins, in seconds since 1970. */
void redirect_missing_begin(redirect_missing *missing, uint64_t seed, int64_t now);
/** After a copy of the memory: give up what another process was about to write. */
void redirect_missing_mend(redirect_missing *missing);
int64_t redirect_missing_since(const redirect_missing *missing);
/** Forget all, and begin again at @a now. */
void redirect_missing_reset(redirect_missing *missing, int64_t now);

/** The page was asked for at @a now, and not found. */
void redirect_missing_add(redirect_missing *missing, const char *text, size_t len, int64_t now);

/** Number @a i of REDIRECT_MISSING_ENTRIES. False: there is none, or it changes just now. */
bool redirect_missing_get(const redirect_missing *missing, uint32_t i,
                          char text[REDIRECT_MISSING_TEXT + 1], redirect_count *count);

#endif
