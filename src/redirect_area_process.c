/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The area's lock, and its processes: joining, and finding out who still lives. Called by the glue
 * after each fork, and by the other parts of the area.
 */
#include "redirect_area_private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- the lock ---------------------------------------------------------------------------------*/

/* What a holder left when it died is consistent after each of its stores. */
apr_status_t rda_lock(redirect_area *area)
{
    return htc_lock_take(&area->lock, RDA_LOCK_MS) == HTC_LOCK_BUSY ? APR_EBUSY : APR_SUCCESS;
}

void rda_unlock(redirect_area *area)
{
    htc_lock_give(&area->lock);
}

/* --- what the system says of a process --------------------------------------------------------*/

typedef struct proc_stat {
    char state;
    unsigned long threads;
    uint64_t start;
} proc_stat;

/* Fields 3, 20 and 22 of /proc/PID/stat, see proc(5); the second may hold any characters, so they
 * are counted from the last parenthesis. False when it is not to be had. */
static bool read_stat(int32_t pid, proc_stat *stat)
{
    char path[64], text[1024], *at;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strrchr(text, ')');
    if (!at || at[1] != ' ' || !at[2])
        return false;
    stat->state = at[2];
    at += 2;
    for (int field = 3; field < 22; field++) {
        if (field == 20)
            stat->threads = strtoul(at, NULL, 10);
        at = strchr(at, ' ');
        if (!at)
            return false;
        at++;
    }
    stat->start = strtoull(at, NULL, 10);
    return true;
}

/* The number alone may belong to another process by now, so the time of its start must be the same.
 * One that only waits for its parent to notice its end has no memory any more; but the first thread
 * of a process may have ended before the others. Where /proc does not tell, the number decides. */
static bool process_alive(int32_t pid, uint64_t start)
{
    proc_stat stat;

    if (pid <= 0 || (kill(pid, 0) != 0 && errno != EPERM))
        return false;
    if (!read_stat(pid, &stat))
        return true;
    if ((stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1)
        return false;
    return start == 0 || (uint32_t)stat.start == (uint32_t)start;
}

/* --- the common cell --------------------------------------------------------------------------*/

/*
 * Who finds no cell of its own, or not the lock to take one, shares the last one with others like
 * it. It pins, holds, counts and builds as all do, as each word of a cell is changed atomically.
 * What it has pinned when it is killed stays pinned until the area ends, with its configuration
 * generation: nobody knows whose pins are whose. What it builds or gives back is found again, as
 * its serial says which process it is: the cell, its number and when it started.
 */
#define PID_BITS 22 /* the kernel's own limit of process numbers */

static uint64_t common_serial(int32_t pid, uint64_t start)
{
    uint64_t process = (uint64_t)(uint32_t)start << PID_BITS | (uint32_t)pid;

    return process * REDIRECT_AREA_PROCESSES + RDA_COMMON;
}

static bool common_alive(const redirect_area *area, uint64_t serial)
{
    uint64_t process = serial / REDIRECT_AREA_PROCESSES;

    return serial == rda_own_serial(area) ||
           process_alive((int32_t)(process & ((1 << PID_BITS) - 1)), process >> PID_BITS);
}

static void share_common(redirect_area *area, uint32_t generation)
{
    rda_process *common = &area->processes[RDA_COMMON];
    proc_stat stat = {0};
    uint64_t start = read_stat(getpid(), &stat) ? stat.start : 0;
    uint64_t serial = common_serial(getpid(), start);

    RDA_SET(common->generation, generation);
    atomic_store_explicit(&common->serial, serial, memory_order_seq_cst);
    RDA_SET(area->own->pid, getpid());
    RDA_SET(area->own->serial, serial);
}

/* --- who lives --------------------------------------------------------------------------------*/

/* The entry is read without the lock, too; if it is given to another process meanwhile, the one
 * that was asked for is dead. */
bool rda_serial_alive(const redirect_area *area, uint64_t serial, rda_census *census)
{
    const rda_process *process = &area->processes[rda_cell_of(serial)];
    int32_t pid = RDA_GET(process->pid);
    uint64_t start = RDA_GET(process->start);

    if (rda_cell_of(serial) == RDA_COMMON)
        return common_alive(area, serial);
    if (!serial || RDA_GET(process->serial) != serial)
        return false;
    if (census)
        return rda_cell_alive(area, rda_cell_of(serial), census);
    return serial == rda_own_serial(area) || process_alive(pid, start);
}

bool rda_cell_alive(const redirect_area *area, uint32_t cell, rda_census *census)
{
    if (cell == RDA_COMMON)
        return rda_common_used(area);
    if (census->cells[cell] == RDA_UNKNOWN) {
        uint64_t serial = RDA_GET(area->processes[cell].serial);

        census->cells[cell] = rda_serial_alive(area, serial, NULL) ? RDA_ALIVE : RDA_DEAD;
    }
    return census->cells[cell] == RDA_ALIVE;
}

bool rda_generation_alive(const redirect_area *area, uint32_t first, uint32_t last,
                          rda_census *census)
{
    for (uint32_t cell = 0; cell < rda_processes_end(area); cell++) {
        uint32_t generation = RDA_GET(area->processes[cell].generation);

        if (generation >= first && generation <= last && rda_cell_alive(area, cell, census))
            return true;
    }
    return false;
}

/* --- joining ----------------------------------------------------------------------------------*/

/* A cell that belongs to nobody any more. */
static uint32_t find_cell(const redirect_area *area, bool thoroughly)
{
    for (uint32_t cell = 0; cell < rda_cells_end(area); cell++) {
        const rda_process *process = &area->processes[cell];
        int32_t pid = RDA_GET(process->pid);

        /* One with this process's own number was left by a process that had it before. */
        if (!RDA_GET(process->serial) || pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH) ||
            (thoroughly && !process_alive(pid, RDA_GET(process->start))))
            return cell;
    }
    return RDA_NIL;
}

/* Whether a process has ended is asked thoroughly only when there is no room otherwise: a thousand
 * children may be starting. */
static uint32_t take_cell_locked(redirect_area *area)
{
    uint32_t cell = find_cell(area, false), end = rda_cells_end(area);

    if (cell == RDA_NIL && end < RDA_COMMON) {
        RDA_SET(area->header->processes_end, end + 1);
        return end;
    }
    return cell == RDA_NIL ? find_cell(area, true) : cell;
}

/* Nobody owns the cell before it is empty everywhere. */
static void clear_cell_locked(redirect_area *area, uint32_t cell)
{
    RDA_SET(area->processes[cell].serial, 0);
    for (uint32_t i = 0; i < rda_images_end(area); i++) {
        if (RDA_GET(area->cells[i].pins[cell]))
            RDA_SET(area->cells[i].pins[cell], 0);
    }
    for (uint64_t left = RDA_GET(area->processes[cell].racks); left; left &= left - 1) {
        rda_rack *rack = &area->racks[cell].racks[__builtin_ctzll(left)];

        for (uint32_t i = 0; i < RDA_PEGS; i++) {
            if (RDA_GET(rack->pegs[i].version))
                RDA_SET(rack->pegs[i].version, 0);
        }
    }
}

static void own_cell_locked(redirect_area *area, uint32_t cell, uint32_t generation)
{
    rda_process *process = &area->processes[cell];
    uint64_t number = RDA_GET(area->header->joins) + 1;
    uint64_t serial = number * REDIRECT_AREA_PROCESSES + cell;
    proc_stat stat = {0};

    clear_cell_locked(area, cell);
    RDA_SET(area->header->joins, number);
    RDA_SET(process->pid, getpid());
    RDA_SET(process->start, read_stat(getpid(), &stat) ? stat.start : 0);
    RDA_SET(process->generation, generation);
    RDA_SET(process->serial, serial);
    RDA_SET(area->own->pid, getpid());
    RDA_SET(area->own->serial, serial);
}

bool redirect_area_joined(const redirect_area *area)
{
    return rda_own_serial(area) != 0;
}

apr_status_t redirect_area_join(redirect_area *area, uint32_t generation)
{
    uint64_t own = rda_own_serial(area);
    rda_process *process = &area->processes[rda_cell_of(own)];
    uint32_t cell = RDA_NIL;

    if (own && (rda_cell_of(own) == RDA_COMMON || RDA_GET(process->serial) == own)) {
        RDA_SET(process->generation, generation);
        return APR_SUCCESS;
    }
    if (rda_lock(area) == APR_SUCCESS) {
        cell = take_cell_locked(area);
        if (cell != RDA_NIL)
            own_cell_locked(area, cell, generation);
        rda_unlock(area);
    }
    if (cell == RDA_NIL)
        share_common(area, generation);
    return APR_SUCCESS;
}
