/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Profiles and counters of slowfs: what is slow, how slow, and how often it happened. Knows nothing
 * of FUSE; tests/check_slowfs_count.c tests it.
 */
#include "slowfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_US 1e7
#define MOST_S  1e6

static const char *const operation_names[SLOWFS_OP_COUNT] = {
#define X(name) [SLOWFS_##name] = #name,
    SLOWFS_OPERATIONS
#undef X
};

/*
 * lustre-2009: a client that caches what it found under a lock of its server, not what it did not
 * find. Delays are those with which stock httpd comes to the means at depth 10 in "`.htaccess`
 * files revisited: local disk and Lustre" (CatN, 2009): there a level without a file cost 0.7 ms,
 * one with an empty file 2.9 ms, and the page itself 1.2 ms, what the kernel and this program take
 * included. bench/slowfs-calibrate.py searches them again for a machine at hand.
 *
 * nfs: a server a switch or two away. Names are trusted for a while, there or not; each open asks
 * the server whether the file changed.
 *
 * local: no delays, to count with. The kernel keeps what it found for one second.
 */
static const slowfs_profile profiles[] = {
    {.name = "lustre-2009",
     .delay_us = {[SLOWFS_lookup_hit] = {700, 700},
                  [SLOWFS_lookup_miss] = {700, 700},
                  [SLOWFS_getattr] = {700, 700},
                  [SLOWFS_open] = {350, 3000},
                  [SLOWFS_read] = {400, 400},
                  [SLOWFS_readdir] = {1500, 1500},
                  [SLOWFS_change] = {2000, 2000},
                  [SLOWFS_other] = {700, 700}},
     .entry_s = 5,
     .attr_s = 5,
     .negative_s = 0,
     .keep_cache = true},
    {.name = "nfs",
     .delay_us = {[SLOWFS_lookup_hit] = {300, 300},
                  [SLOWFS_lookup_miss] = {300, 300},
                  [SLOWFS_getattr] = {250, 250},
                  [SLOWFS_open] = {300, 300},
                  [SLOWFS_read] = {400, 400},
                  [SLOWFS_readdir] = {600, 600},
                  [SLOWFS_change] = {500, 500},
                  [SLOWFS_other] = {300, 300}},
     .entry_s = 30,
     .attr_s = 3,
     .negative_s = 3,
     .keep_cache = true},
    {.name = "local", .entry_s = 1, .attr_s = 1, .negative_s = 0, .keep_cache = false},
};
#define PROFILES (sizeof(profiles) / sizeof(profiles[0]))

bool slowfs_profile_named(slowfs_profile *profile, const char *name)
{
    for (size_t i = 0; i < PROFILES; i++) {
        if (!strcmp(profiles[i].name, name)) {
            *profile = profiles[i];
            return true;
        }
    }
    return false;
}

const char *slowfs_profile_names(void)
{
    return "lustre-2009, nfs, local";
}

/* Of a name with the operation's and, after a dot, whose: SLOWFS_OP_COUNT for "all", -1 for a name
   that is none. `from` and `to` are the first and last index of the delays that are meant. */
static int operation_named(const char *name, int *from, int *to)
{
    const char *dot = strchr(name, '.');
    size_t len = dot ? (size_t)(dot - name) : strlen(name);

    *from = dot && !strcmp(dot, ".htaccess");
    *to = !dot || *from;
    if (dot && !*from && strcmp(dot, ".other") != 0)
        return -1;
    if (len == 3 && !strncmp(name, "all", len))
        return SLOWFS_OP_COUNT;
    for (int op = 0; op < SLOWFS_OP_COUNT; op++) {
        if (strlen(operation_names[op]) == len && !strncmp(operation_names[op], name, len))
            return op;
    }
    return -1;
}

static bool read_number(const char *text, double most, double *number)
{
    char *end;

    *number = strtod(text, &end);
    return end != text && !*end && *number >= 0 && *number <= most;
}

static const char *set_delay(slowfs_profile *profile, const char *name, const char *value)
{
    int from, to, op = operation_named(name, &from, &to);
    double us;

    if (op < 0)
        return "no such setting; there are: profile, cache, negative, all, lookup_hit, "
               "lookup_miss, getattr, open, read, readdir, change, other, and these with "
               ".htaccess or .other behind";
    if (!read_number(value, MOST_US, &us))
        return "a delay is a number of microseconds from 0 to 10000000";
    for (int i = 0; i < SLOWFS_OP_COUNT; i++) {
        for (int whose = from; whose <= to && (i == op || op == SLOWFS_OP_COUNT); whose++)
            profile->delay_us[i][whose] = (uint32_t)us;
    }
    return NULL;
}

static const char *set_one(slowfs_profile *profile, const char *name, const char *value)
{
    static const char no_seconds[] = "not a number of seconds from 0 to 1000000";

    if (!strcmp(name, "profile"))
        return slowfs_profile_named(profile, value) ? NULL : "no such profile";
    if (!strcmp(name, "cache")) {
        if (!read_number(value, MOST_S, &profile->entry_s))
            return no_seconds;
        profile->attr_s = profile->entry_s;
        return NULL;
    }
    if (!strcmp(name, "negative"))
        return read_number(value, MOST_S, &profile->negative_s) ? NULL : no_seconds;
    return set_delay(profile, name, value);
}

const char *slowfs_set(slowfs_profile *profile, const char *text)
{
    static const char separators[] = ", \t\r\n";
    char word[64];

    for (text += strspn(text, separators); *text; text += strspn(text, separators)) {
        size_t len = strcspn(text, separators);
        const char *error;
        char *value;

        if (len >= sizeof(word))
            return "too long";
        memcpy(word, text, len);
        word[len] = '\0';
        text += len;
        value = strchr(word, '=');
        if (!value)
            continue;
        *value = '\0';
        error = set_one(profile, word, value + 1);
        if (error)
            return error;
    }
    return NULL;
}

bool slowfs_is_htaccess(const char *name)
{
    return !strcmp(name, ".htaccess");
}

void slowfs_count(slowfs_counters *counters, enum slowfs_op op, bool htaccess)
{
    atomic_fetch_add(&counters->count[op][htaccess], 1);
}

void slowfs_reset(slowfs_counters *counters)
{
    for (int op = 0; op < SLOWFS_OP_COUNT; op++) {
        atomic_store(&counters->count[op][0], 0);
        atomic_store(&counters->count[op][1], 0);
    }
}

size_t slowfs_text(slowfs_counters *counters, char *text, size_t size)
{
    static const char *const whose[2] = {"other", "htaccess"};
    size_t len = 0;

    for (int op = 0; op < SLOWFS_OP_COUNT; op++) {
        for (int i = 1; i >= 0; i--) {
            uint64_t count = atomic_load(&counters->count[op][i]);
            int more = snprintf(text + len, size - len, "%s.%s %" PRIu64 "\n", operation_names[op],
                                whose[i], count);

            if (more < 0 || (size_t)more >= size - len) {
                text[len] = '\0';
                return len;
            }
            len += (size_t)more;
        }
    }
    return len;
}
