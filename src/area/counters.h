/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file area/counters.h
 * How often each redirect has answered, and when it did last: one word for each rule, in memory
 * that all processes share, in an array beside a table's image whose index is the rule's number in
 * the table. Rules are known again, in another image, by their keys (redirect_table_key()), so that
 * those that stay keep their counts when a map is loaded anew. Part of the core: no httpd headers.
 *
 * A word of zeros means: never. Counting is one atomic addition, and once a second one exchange
 * more; nothing here takes a lock or fails.
 */
#ifndef HTC_AREA_COUNTERS_H
#define HTC_AREA_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <apr_errno.h>

/** Hits in the lower bits, seconds since REDIRECT_COUNTER_EPOCH above them. */
typedef struct redirect_counter {
    _Atomic uint64_t word;
} redirect_counter;

#define REDIRECT_COUNTER_HIT_BITS 34
/** Seconds since 1970 at the beginning of 2025. Earlier times count as a second later than that. */
#define REDIRECT_COUNTER_EPOCH INT64_C(1735689600)
/** Where counting ends, with room for threads that count at the same moment: 17 thousand million. */
#define REDIRECT_COUNTER_MOST ((UINT64_C(1) << REDIRECT_COUNTER_HIT_BITS) - (UINT64_C(1) << 20))

/** The rule has answered at @a now, in seconds since 1970. */
void redirect_counter_hit(redirect_counter *counter, int64_t now);

typedef struct redirect_count {
    uint64_t hits;
    int64_t last; /* seconds since 1970; 0: never */
} redirect_count;

/** Add what was counted elsewhere: a word of another counter. */
void redirect_counter_add(redirect_counter *counter, uint64_t word);

redirect_count redirect_counter_read(const redirect_counter *counter);

/** Of @a n counters: as if none of these rules had ever answered. What others count meanwhile may
 * go with it or stay. */
void redirect_counters_reset(redirect_counter *counters, uint32_t n);

/** The keys of a table's rules, in their order. */
typedef struct redirect_keys {
    /** The next rule's key, from the first on; called no more often than there are rules. */
    uint64_t (*next)(void *baton);
    void *baton;
    uint32_t count;
} redirect_keys;

/**
 * Take the counts of rules in @a from away and add them to those of the rules with the same keys in
 * @a to. Others may count in both meanwhile. Of several rules in @a to with one key the first gets
 * all. @a from_keys and @a to_keys are gone through once at most, and not at all when nothing was
 * ever counted in @a from. *moved (may be NULL) is how many rules had counts and are still there.
 * @return APR_SUCCESS or APR_ENOMEM; then nothing was moved.
 */
apr_status_t redirect_counters_move(redirect_counter *from, const redirect_keys *from_keys,
                                    redirect_counter *to, const redirect_keys *to_keys,
                                    uint32_t *moved);

#endif
