/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What runs out in the simulated world: descriptors, the kernel's memory, a process's own. While it
 * is short, every other call that needs it fails. A process's own memory is counted, so that it can
 * be said what is not given back.
 */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Stands before each piece. */
typedef struct piece {
    unsigned process, life;
} piece;

#define AHEAD 16 /* bytes for it: what follows is aligned */

unsigned sim_short;
uint64_t sim_shortages;
static unsigned lives[SIM_PROCESSES], pieces[SIM_PROCESSES];

void sim_short_begin(void)
{
    sim_short = 0;
    sim_shortages = 0;
    for (unsigned i = 0; i < SIM_PROCESSES; i++)
        sim_memory_ended(i);
}

bool sim_fails(unsigned what)
{
    if (!(sim_short & what) || sim_random(2))
        return false;
    sim_shortages++;
    return true;
}

unsigned sim_memory_of(unsigned process)
{
    return pieces[process];
}

void sim_memory_ended(unsigned process)
{
    lives[process]++;
    pieces[process] = 0;
}

void *sim_memory_new(size_t bytes)
{
    unsigned process = sim_own();
    piece *new = malloc(AHEAD + bytes);

    if (!new)
        abort();
    *new = (piece){process, lives[process]};
    pieces[process]++;
    return (char *)new + AHEAD;
}

void *sim_malloc(size_t bytes)
{
    if (sim_fails(SIM_NO_MEMORY)) {
        errno = ENOMEM;
        return NULL;
    }
    return sim_memory_new(bytes);
}

/* That of a process that has ended is gone already. */
void sim_free(void *at)
{
    piece *old = at ? (piece *)(void *)((char *)at - AHEAD) : NULL;

    if (old && old->life == lives[old->process])
        pieces[old->process]--;
    free(old);
}

char *sim_strndup(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = sim_malloc(len + 1);

    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *sim_strdup(const char *text)
{
    return sim_strndup(text, strlen(text));
}

int sim_asprintf(char **text, const char *format, ...)
{
    char line[2 * SIM_PATH];
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(line))
        sim_fail("simulator: a text is too long");
    *text = sim_strdup(line);
    return *text ? len : -1;
}

void *sim_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (!sim_fails(SIM_NO_KERNEL))
        return mmap(at, bytes, protection, flags, fd, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}
