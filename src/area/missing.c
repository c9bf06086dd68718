/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Pages that are asked for and not found, in a set-associative table. Called by redirects/missing.c
 * for each such request, and for the status page.
 */
#include "base/base.h"
#include "area/missing.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define GHOSTS 16384
#define SETS   (REDIRECT_MISSING_ENTRIES / REDIRECT_MISSING_WAYS)
#define WORDS  (REDIRECT_MISSING_TEXT / 8)
#define WEEK   (INT64_C(7) * 86400)

/* `seq` is odd while a process writes the entry. One that dies over that leaves the place unused
 * until the next restart. */
typedef struct entry {
    _Atomic uint64_t hash; /* of the text; 0: unused */
    redirect_counter counter;
    _Atomic uint32_t seq, unused;
    _Atomic uint64_t words[WORDS]; /* the text, and zeros */
} entry;

struct redirect_missing {
    _Atomic uint64_t seed;
    _Atomic int64_t since;
    entry entries[REDIRECT_MISSING_ENTRIES];
    _Atomic uint32_t ghosts[GHOSTS];
};

size_t redirect_missing_bytes(void)
{
    return sizeof(redirect_missing);
}

void redirect_missing_begin(redirect_missing *missing, uint64_t seed, int64_t now)
{
    atomic_store(&missing->seed, seed);
    atomic_store(&missing->since, now);
}

void redirect_missing_mend(redirect_missing *missing)
{
    for (uint32_t i = 0; i < REDIRECT_MISSING_ENTRIES; i++) {
        if (atomic_load(&missing->entries[i].seq) % 2)
            memset(&missing->entries[i], 0, sizeof(entry));
    }
}

int64_t redirect_missing_since(const redirect_missing *missing)
{
    return atomic_load(&missing->since);
}

/* --- an entry ---------------------------------------------------------------------------------*/

/* True for one process, which then ends it with unlock(). */
static bool lock(entry *e)
{
    uint32_t seq = atomic_load(&e->seq);

    return seq % 2 == 0 && atomic_compare_exchange_strong(&e->seq, &seq, seq + 1);
}

static void unlock(entry *e)
{
    atomic_fetch_add(&e->seq, 1);
}

/* Unless another process was faster. */
static void fill(entry *e, uint64_t before, uint64_t hash, const uint64_t words[WORDS],
                 uint64_t hits, int64_t now)
{
    if (!lock(e))
        return;
    if (!atomic_compare_exchange_strong(&e->hash, &before, hash)) {
        unlock(e);
        return;
    }
    for (unsigned i = 0; i < WORDS; i++)
        atomic_store_explicit(&e->words[i], words[i], memory_order_relaxed);
    redirect_counters_reset(&e->counter, 1);
    redirect_counter_hit(&e->counter, now);
    redirect_counter_add(&e->counter, hits - 1);
    unlock(e);
}

void redirect_missing_reset(redirect_missing *missing, int64_t now)
{
    for (uint32_t i = 0; i < REDIRECT_MISSING_ENTRIES; i++) {
        entry *e = &missing->entries[i];

        if (!atomic_load(&e->hash) || !lock(e))
            continue;
        atomic_store(&e->hash, 0);
        redirect_counters_reset(&e->counter, 1);
        unlock(e);
    }
    atomic_store(&missing->since, now);
}

/* --- counting ---------------------------------------------------------------------------------*/

static uint64_t hash_of(const redirect_missing *missing, const uint64_t words[WORDS])
{
    uint64_t hash = XXH3_64bits_withSeed(words, REDIRECT_MISSING_TEXT, atomic_load(&missing->seed));

    return hash ? hash : 1;
}

/* What it is worth to keep it. */
static uint64_t worth(const entry *e, int64_t now)
{
    redirect_count count = redirect_counter_read(&e->counter);
    int64_t weeks = now > count.last ? (now - count.last) / WEEK : 0;

    return weeks < 63 ? count.hits >> weeks : 0;
}

/* The unused entry of the set, or the one that is worth least. */
static entry *victim_of(entry *set, int64_t now)
{
    entry *least = set;

    for (uint32_t i = 0; i < REDIRECT_MISSING_WAYS; i++) {
        if (!atomic_load(&set[i].hash))
            return &set[i];
        if (worth(&set[i], now) < worth(least, now))
            least = &set[i];
    }
    return least;
}

void redirect_missing_add(redirect_missing *missing, const char *text, size_t len, int64_t now)
{
    uint64_t words[WORDS] = {0}, hash, other;
    entry *set, *victim;

    memcpy(words, text, len < REDIRECT_MISSING_TEXT ? len : REDIRECT_MISSING_TEXT);
    hash = hash_of(missing, words);
    set = &missing->entries[(hash >> 32) % SETS * REDIRECT_MISSING_WAYS];
    for (uint32_t i = 0; i < REDIRECT_MISSING_WAYS; i++) {
        if (atomic_load_explicit(&set[i].hash, memory_order_relaxed) != hash)
            continue;
        redirect_counter_hit(&set[i].counter, now);
        return;
    }
    victim = victim_of(set, now);
    other = atomic_load(&victim->hash);
    if (!other)
        fill(victim, other, hash, words, 1, now);
    else if (htc_ghosts_want(missing->ghosts, GHOSTS, hash))
        fill(victim, other, hash, words, HTC_GHOST_ASKS, now);
}

/* --- reading ----------------------------------------------------------------------------------*/

bool redirect_missing_get(const redirect_missing *missing, uint32_t i,
                          char text[REDIRECT_MISSING_TEXT + 1], redirect_count *count)
{
    const entry *e = &missing->entries[i];
    uint32_t seq = atomic_load(&e->seq);
    uint64_t words[WORDS], hash = atomic_load(&e->hash);

    if (seq % 2 || !hash)
        return false;
    for (unsigned n = 0; n < WORDS; n++)
        words[n] = atomic_load(&e->words[n]);
    *count = redirect_counter_read(&e->counter);
    memcpy(text, words, REDIRECT_MISSING_TEXT);
    text[REDIRECT_MISSING_TEXT] = '\0';
    return atomic_load(&e->seq) == seq && count->hits && hash == hash_of(missing, words);
}
