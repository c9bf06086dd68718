/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The census of farm/census.h: a list of process numbers that is searched when a process starts and
 * when somebody looks at the status page. Called by the farm glue.
 */
#include "farm/census.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

/* A process number that another program got since then counts as alive; its seat's number stays in
 * the sum until that program ends, too. */
static bool lives(int32_t pid)
{
    return pid && (kill(pid, 0) == 0 || errno == EPERM);
}

_Atomic int32_t *htc_census_join(htc_census *census, int32_t pid)
{
    for (unsigned i = 0; i < HTC_CENSUS_SEATS; i++) {
        int32_t was = atomic_load(&census->seat[i].pid);

        if ((was == pid || !lives(was)) &&
            atomic_compare_exchange_strong(&census->seat[i].pid, &was, pid)) {
            atomic_store(&census->seat[i].n, 0);
            return &census->seat[i].n;
        }
    }
    return NULL;
}

uint64_t htc_census_sum(const htc_census *census, uint64_t *most)
{
    uint64_t sum = 0;

    *most = 0;
    for (unsigned i = 0; i < HTC_CENSUS_SEATS; i++) {
        int32_t pid = atomic_load(&census->seat[i].pid), n = atomic_load(&census->seat[i].n);

        if (!pid)
            break; /* seats are taken from the front */
        if (n <= 0 || !lives(pid))
            continue;
        sum += (uint64_t)n;
        if ((uint64_t)n > *most)
            *most = (uint64_t)n;
    }
    return sum;
}
