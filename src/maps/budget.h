/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/budget.h
 * What the patterns of one request may take: steps of the regex library, and processor time of the
 * thread. Wildcards, which the table matches itself, have steps of their own: bytes gone over. A pattern with nested repeats can take seconds for a short path, and a redirect map may
 * have thousands of them; httpd bounds a single pattern only. Used by the module for redirect maps
 * and by htcachectl. Part of the core: no httpd headers.
 *
 * Around the patterns of one look-up:
 *
 *     redirect_budget_begin(budget);
 *     while (more patterns && redirect_budget_left(budget))
 *         if (the pattern reached its limit)
 *             redirect_budget_charge(budget, REDIRECT_PATTERN_STEPS);
 *
 * A budget is used by one thread at a time. Steps make the end the same on each machine; time is
 * for patterns that each stay just below their limit. It is the thread's own processor time, so a
 * busy machine does not change answers, but by ticks of the coarse clock (4 ms on most systems): an
 * ordinary request asks the system for nothing.
 */
#ifndef HTC_MAPS_BUDGET_H
#define HTC_MAPS_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Steps that a single pattern of a redirect map may take; then it does not match. PCRE's own limit
 *  is 10,000,000. */
#define REDIRECT_PATTERN_STEPS 200000
/** Text that is put ahead of a pattern, and makes PCRE keep this limit, and 32 MiB for
 * backtracking. Try the first one first. NULL behind the last. The second one is for PCRE2 before
 * 10.30, and PCRE. These backtrack on the thread's stack, of which they may use some megabytes. And
 * they are told not to look for repeats that need no backtracking: PCRE can take 14 ms for that,
 * which is twenty times what the rest of compiling takes. PCRE before 8.33 has no limit at all. */
extern const char *const redirect_pattern_limits[];

/** True when the pattern sets such limits itself, at its head. PCRE uses the last ones, so ours
 * would mean nothing: do not run such a pattern. */
bool redirect_pattern_limits_itself(const char *pattern, size_t len);

/** The budget of all patterns of a request. */
#define REDIRECT_REQUEST_STEPS 2000000
#define REDIRECT_REQUEST_MS    500

typedef struct redirect_budget {
    uint64_t steps;     /* left */
    uint64_t templates; /* steps that are left for wildcards, see redirect_request.steps */
    int64_t time_ns;    /* left */
    int64_t tick;       /* htc_mono_ms() of the last look at the clock */
    int64_t cpu_ns;     /* the thread's processor time then; 0: not asked for yet */
} redirect_budget;

/** Start with so many steps, and as many for wildcards, and milliseconds of processor time. */
void redirect_budget_init(redirect_budget *budget, uint64_t steps, int64_t ms);

/** A run of patterns begins: what this thread did before is not charged. */
void redirect_budget_begin(redirect_budget *budget);

/** True when another pattern may run. Once false, it stays false. */
bool redirect_budget_left(redirect_budget *budget);

/** A pattern took this many steps. */
void redirect_budget_charge(redirect_budget *budget, uint64_t steps);

#endif
