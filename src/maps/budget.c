/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The bound on what patterns of one request take. Called for each pattern that a redirect map runs
 * (redirects/map.c, tool/regex.c).
 */
#include "maps/budget.h"

#include "base/base.h"

#include <string.h>
#include <time.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)
/* What a thread is charged for the first tick of a run at most: it may have waited for a processor.
 */
#define FIRST_TICK_MS 10

const char *const redirect_pattern_limits[] = {
    "(*LIMIT_MATCH=200000)(*LIMIT_HEAP=32768)",
    "(*LIMIT_MATCH=200000)(*LIMIT_RECURSION=6000)(*NO_AUTO_POSSESS)", "(*LIMIT_MATCH=200000)", "",
    NULL};

/* Settings such as (*UTF) stand one behind the other. Behind something else, "(*LIMIT_" is an error
 * or literal. */
bool redirect_pattern_limits_itself(const char *pattern, size_t len)
{
    static const char limit[] = "(*LIMIT_";
    const char *end = pattern + len, *close;

    for (; end - pattern > 2 && !memcmp(pattern, "(*", 2); pattern = close + 1) {
        if ((size_t)(end - pattern) >= sizeof(limit) - 1 &&
            !memcmp(pattern, limit, sizeof(limit) - 1))
            return true;
        close = memchr(pattern, ')', (size_t)(end - pattern));
        if (!close)
            break;
    }
    return false;
}

void redirect_budget_init(redirect_budget *budget, uint64_t steps, int64_t ms)
{
    *budget = (redirect_budget){.steps = steps, .templates = steps, .time_ns = ms * NS_PER_MS};
    redirect_budget_begin(budget);
}

void redirect_budget_begin(redirect_budget *budget)
{
    budget->tick = htc_mono_ms();
    budget->cpu_ns = 0;
}

static int64_t thread_cpu_ns(void)
{
    struct timespec used;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) != 0)
        return 0;
    return (int64_t)used.tv_sec * NS_PER_S + used.tv_nsec;
}

/* Until the clock ticks, nothing is charged; a run that is short sees a tick as seldom as its
 * length is to a tick's, so that many short ones are charged what they take together. */
static void charge_time(redirect_budget *budget, int64_t now)
{
    int64_t cpu = thread_cpu_ns(), passed = now - budget->tick;

    if (budget->cpu_ns && cpu)
        budget->time_ns -= cpu - budget->cpu_ns;
    else
        budget->time_ns -= (passed < FIRST_TICK_MS ? passed : FIRST_TICK_MS) * NS_PER_MS;
    budget->cpu_ns = cpu;
    budget->tick = now;
}

bool redirect_budget_left(redirect_budget *budget)
{
    int64_t now = htc_mono_ms();

    if (now != budget->tick)
        charge_time(budget, now);
    return budget->steps > 0 && budget->time_ns > 0;
}

void redirect_budget_charge(redirect_budget *budget, uint64_t steps)
{
    budget->steps -= steps < budget->steps ? steps : budget->steps;
}
