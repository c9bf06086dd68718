/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file hostile_util.h
 * Shared by the test programs in which other processes overwrite what is read: those processes, memory
 * between pages that nobody may touch, and rounds that each have a pool of their own.
 */
#ifndef HOSTILE_UTIL_H
#define HOSTILE_UTIL_H

#include <check.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <apr_general.h>

#define HU_PAGE    4096
#define HU_WRITERS 2

/* A small generator, for tests that can be repeated. */
static inline uint64_t hu_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* --- memory -----------------------------------------------------------------------------------*/

/** Others write to `at`; `pristine` is as it was laid out. */
typedef struct hu_walled {
    char *at, *pristine;
    size_t size;
} hu_walled;

/** Lay @a bytes (NULL: zeros) out on a cache line. @a at_end: it ends where the untouchable page begins;
 * else it begins behind one. */
static inline hu_walled hu_wall(const void *bytes, size_t size, bool at_end)
{
    size_t room = (size + HU_PAGE - 1) / HU_PAGE * HU_PAGE;
    hu_walled w = {.size = size, .pristine = malloc(size)};
    char *mapping = mmap(NULL, room + 2 * (size_t)HU_PAGE, PROT_NONE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_ptr_ne(mapping, MAP_FAILED);
    ck_assert_int_eq(mprotect(mapping + HU_PAGE, room, PROT_READ | PROT_WRITE), 0);
    w.at = mapping + HU_PAGE + (at_end ? (room - size) / 64 * 64 : 0);
    if (bytes)
        memcpy(w.at, bytes, size);
    memcpy(w.pristine, w.at, size);
    return w;
}

/* --- who writes -------------------------------------------------------------------------------*/

/** Each process runs @a scribble, which does not return, with a seed of its own. */
static inline void hu_start(pid_t writers[HU_WRITERS], void (*scribble)(uint64_t seed))
{
    for (unsigned i = 0; i < HU_WRITERS; i++) {
        writers[i] = fork();
        ck_assert_int_ge(writers[i], 0);
        if (!writers[i])
            scribble(i + 1);
    }
}

/** Also where none was started, or only some were. */
static inline void hu_stop(pid_t writers[HU_WRITERS])
{
    for (unsigned i = 0; i < HU_WRITERS; i++) {
        if (writers[i] > 0) {
            kill(writers[i], SIGKILL);
            waitpid(writers[i], NULL, 0);
        }
        writers[i] = 0;
    }
}

/* --- who reads --------------------------------------------------------------------------------*/

/** Read so often, each time with another *pool. How often there was something to be read. */
static inline unsigned hu_read(unsigned rounds, apr_pool_t **pool, bool (*read)(unsigned round))
{
    apr_pool_t *outer = *pool;
    unsigned found = 0;

    for (unsigned round = 0; round < rounds; round++) {
        apr_pool_create(pool, outer);
        found += read(round);
        apr_pool_destroy(*pool);
        *pool = outer;
    }
    return found;
}

#endif
