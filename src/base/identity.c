/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Identity of a file and the two clocks. Called by the glue that stats and reads .htaccess files,
 * and by every caller that asks whether a record's time is up.
 */
#include "base/identity.h"
#include "base/sys.h"

#include <assert.h>
#include <string.h>

#define NS_PER_S  INT64_C(1000000000)
#define MS_PER_S  1000
#define NS_PER_MS 1000000

static_assert(sizeof(off_t) >= 8 && sizeof(ino_t) >= 8,
              "a stat() fails of files that have more; configure adds what it takes");
static_assert(sizeof(htc_identity) == 56, "an identity has no padding, it is compared as bytes");

/* A time outside of what 64 bits of nanoseconds can tell (1677 to 2262) becomes the nearest that
 * they can: one in the far future stays in the future. */
static int64_t ns_of(const struct timespec *ts)
{
    const int64_t seconds = ts->tv_sec; /* a processor of 32 bits may have as few in it */

    if (seconds >= INT64_MAX / NS_PER_S)
        return INT64_MAX;
    if (seconds <= INT64_MIN / NS_PER_S)
        return INT64_MIN;
    return seconds * NS_PER_S + ts->tv_nsec;
}

void htc_identity_from_stat(htc_identity *id, const struct stat *st)
{
    memset(id, 0, sizeof(*id));
    id->dev = (uint64_t)st->st_dev;
    id->ino = (uint64_t)st->st_ino;
    id->size = (uint64_t)st->st_size;
    id->mtime_ns = ns_of(&st->st_mtim);
    id->ctime_ns = ns_of(&st->st_ctim);
    id->mode = (uint32_t)st->st_mode;
    id->uid = (uint32_t)st->st_uid;
    id->gid = (uint32_t)st->st_gid;
}

bool htc_identity_equal(const htc_identity *a, const htc_identity *b)
{
    return !memcmp(a, b, sizeof(*a));
}

static bool recent(int64_t time_ns, int64_t now_ns)
{
    /* The difference may need 64 bits without a sign. */
    return time_ns >= now_ns || (uint64_t)now_ns - (uint64_t)time_ns < (uint64_t)HTC_RACY_NS;
}

bool htc_identity_racy(const htc_identity *id, int64_t now_ns)
{
    return recent(id->mtime_ns, now_ns) || recent(id->ctime_ns, now_ns);
}

int64_t htc_wall_ns(void)
{
    struct timespec now;

    sys_clock_gettime(CLOCK_REALTIME, &now);
    return ns_of(&now);
}

int64_t htc_mono_ms(void)
{
    struct timespec now;

#ifdef CLOCK_MONOTONIC_COARSE
    sys_clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
#else
    sys_clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    /* One more, because the clock may start at 0. */
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS + 1;
}
