/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A simulated world: the module's own code plays seeded histories of several actors, and each answer
 * is compared with the tree's history.
 *
 * Real: the shared store, the table of watches, locks (src/base, src/cache), the hook for .htaccess
 * files, revalidation, reading, publishing, the periodic checks, and what outlives a restart
 * (src/htaccess/{hook,revalidate,read,publish,net}.c, src/module/{watch,kept}.c).
 *
 * Simulated, in one process and from one seed:
 *
 *   files        hard and symbolic links, mounts, bind mounts, a network file system, names that ignore
 *                case, times of coarse grain, numbers that are used again, a disk that answers late
 *   inotify      its limits, its queue, late delivery
 *   processes    record locks; stopped, killed at any scheduling point, forked, lingering after a restart
 *   clocks       coarse, jumping ahead, standing still, going back
 *   shortages    of memory and descriptors
 *
 * Of httpd there are the few functions that this code calls.
 *
 * Not simulated so far: memory reordering (threads take turns), the heap, areas of redirect maps,
 * memcached.
 *
 * Checked: no answer that was not true within the promised time; no wait on a lock that is longer
 * than promised; nodes visited under one hold of the lock; lists and figures of the store whenever
 * nobody runs, and of the table whenever nobody has its lock; watches that are given back; one
 * instance over restarts.
 *
 * A step is a scheduling point: a place at which another process may run.
 *
 *     simulate [--steps N] [--seconds N] [--first SEED]   histories until that is reached
 *     simulate --seed SEED [--only LIST]                  one, or some of its actions; tells them
 *
 * A history that fails is played again without ever more of its actions, as long as it still fails.
 */
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILED   3
#define BATCH    500 /* histories of one process: what those killed leave behind goes with it */
#define DEADLINE 60  /* seconds for one history */

bool sim_talks;
uint64_t sim_chance;

/* What a worker tells: in memory that it shares with the one that began it. */
static struct told {
    uint64_t seed, steps;
    char text[256];
} * told;

void sim_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(told->text, sizeof(told->text), format, args);
    va_end(args);
    if (sim_talks)
        printf("%s\n", told->text);
    fflush(stdout);
    _exit(FAILED);
}

void sim_say(const char *format, ...)
{
    va_list args;

    if (!sim_talks)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

/* splitmix64 */
uint32_t sim_random(uint32_t n)
{
    uint64_t z = (sim_chance += UINT64_C(0x9E3779B97F4A7C15));

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)(((z ^ z >> 31) >> 32) * n >> 32);
}

/* --- workers ------------------------------------------------------------------------------------*/

/* True when all went well. What killed it is told otherwise. */
static bool ended_well(pid_t worker)
{
    int status;

    while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status))
        snprintf(told->text, sizeof(told->text), "signal: the history ended by signal %d",
                 WTERMSIG(status));
    else if (WEXITSTATUS(status) && WEXITSTATUS(status) != FAILED)
        snprintf(told->text, sizeof(told->text), "exit: the history ended with %d",
                 WEXITSTATUS(status));
    return WIFEXITED(status) && !WEXITSTATUS(status);
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool play_batch(uint64_t first, uint64_t steps, double until)
{
    pid_t worker;

    fflush(stdout);
    worker = fork();
    if (worker == 0) {
        for (uint64_t n = 0; n < BATCH && told->steps < steps && seconds() < until; n++) {
            told->seed = first + n;
            alarm(DEADLINE);
            sim_play(told->seed, NULL);
            told->steps += sim_steps;
            sim_steps = 0;
        }
        _exit(0);
    }
    return ended_well(worker);
}

static bool play_one(uint64_t seed, const bool *kept)
{
    pid_t worker;

    fflush(stdout);
    worker = fork();
    if (worker == 0) {
        alarm(DEADLINE);
        sim_play(seed, kept);
        _exit(0);
    }
    return ended_well(worker);
}

/* --- shortened histories ------------------------------------------------------------------------*/

static bool same_kind(const char *a, const char *b)
{
    size_t len = strcspn(a, ":");

    return !strncmp(a, b, len + 1);
}

/* Fails as before without these? Then they stay away. */
static bool without(uint64_t seed, bool *kept, unsigned first, unsigned n, const char *failure)
{
    bool before[SIM_ACTIONS], any = false;

    memcpy(before, kept, sizeof(before));
    for (unsigned i = first; i < first + n && i < SIM_ACTIONS; i++) {
        any |= kept[i];
        kept[i] = false;
    }
    if (!any)
        return false;
    *told->text = '\0';
    if (!play_one(seed, kept) && same_kind(failure, told->text))
        return true;
    memcpy(kept, before, sizeof(before));
    return false;
}

static void print_kept(const bool *kept)
{
    const char *between = "";

    for (unsigned i = 0; i < SIM_ACTIONS; i++) {
        if (kept[i]) {
            printf("%s%u", between, i);
            between = ",";
        }
    }
}

static void shorten(uint64_t seed, const char *failure)
{
    bool kept[SIM_ACTIONS], again = true;

    memset(kept, true, sizeof(kept));
    while (again) {
        again = false;
        for (unsigned n = SIM_ACTIONS / 2; n; n /= 2) {
            for (unsigned first = 0; first < SIM_ACTIONS; first += n)
                again |= without(seed, kept, first, n, failure);
        }
    }
    sim_talks = true;
    play_one(seed, kept);
    printf("again: simulate --seed %llu --only ", (unsigned long long)seed);
    print_kept(kept);
    putchar('\n');
}

/* --- the command --------------------------------------------------------------------------------*/

static void read_kept(const char *list, bool *kept)
{
    memset(kept, false, SIM_ACTIONS);
    while (*list) {
        char *end;
        unsigned long i = strtoul(list, &end, 10);

        if (end == list || i >= SIM_ACTIONS)
            exit(2);
        kept[i] = true;
        list = end + strspn(end, ",");
    }
}

static int play_many(uint64_t first, uint64_t steps, double limit)
{
    double began = seconds();

    while (told->steps < steps && seconds() < began + limit) {
        char failure[sizeof(told->text)];

        if (play_batch(first, steps, began + limit)) {
            first = told->seed + 1;
            continue;
        }
        memcpy(failure, told->text, sizeof(failure));
        printf("seed %llu: %s\nafter %llu steps\nshortened:\n", (unsigned long long)told->seed,
               failure, (unsigned long long)told->steps);
        shorten(told->seed, failure);
        return EXIT_FAILURE;
    }
    printf("%llu steps, histories up to seed %llu, %.0f steps a second\n",
           (unsigned long long)told->steps, (unsigned long long)told->seed,
           (double)told->steps / (seconds() - began));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, steps = 300000, seed = 0;
    double limit = 1e9;
    bool some[SIM_ACTIONS], *kept = NULL;

    told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return EXIT_FAILURE;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--steps"))
            steps = (uint64_t)strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--seconds"))
            limit = strtod(argv[i + 1], NULL);
        else if (!strcmp(argv[i], "--first"))
            first = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (!strcmp(argv[i], "--only"))
            read_kept(argv[i + 1], kept = some);
    }
    if (!seed)
        return play_many(first, steps, limit);
    sim_talks = true;
    return play_one(seed, kept) ? EXIT_SUCCESS : EXIT_FAILURE;
}
