/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The area's lock, and its processes: joining, and finding out which still live. Called by the glue
 * after each fork, and by the other parts of the area.
 */
#include "area/internal.h"

/* --- the lock ---------------------------------------------------------------------------------*/

/* A holder that dies leaves everything consistent, as it is consistent after each store. */
apr_status_t rda_lock(redirect_area *area)
{
    return htc_lock_take(&area->lock, RDA_LOCK_MS) == HTC_LOCK_BUSY ? APR_EBUSY : APR_SUCCESS;
}

void rda_unlock(redirect_area *area)
{
    htc_lock_give(&area->lock);
}

/* --- the common cell --------------------------------------------------------------------------*/

/* Never the same again, with or without the lock. */
static uint64_t next_serial(redirect_area *area, uint32_t cell)
{
    uint64_t number = atomic_fetch_add(&area->header->joins, 1) + 1;

    HTC_POINT("joins");
    return number * REDIRECT_AREA_PROCESSES + cell;
}

static void set_own(redirect_area *area, uint64_t serial)
{
    RDA_SET(area->own->pid, getpid());
    RDA_SET(area->own->serial, serial);
}

/*
 * A process that finds no cell of its own, or cannot have the lock, shares the last one with others
 * like it. It pins, holds, counts and builds as all do, as each word of a cell is changed
 * atomically. What it has pinned when it is killed stays pinned until the area ends, with its
 * configuration generation: whose pins are whose is not known. What it builds or gives back is
 * found again, as its serial is its own.
 */
static void share_common(redirect_area *area, uint32_t generation)
{
    rda_process *common = &area->processes[RDA_COMMON];
    uint64_t serial = next_serial(area, RDA_COMMON);

    htc_lock_enlist(&area->lock, serial);
    RDA_SET(common->generation, generation);
    atomic_store_explicit(&common->serial, serial, memory_order_seq_cst);
    set_own(area, serial);
}

/* --- which processes live ---------------------------------------------------------------------*/

bool rda_enlisted(const redirect_area *area)
{
    uint64_t own = rda_own_serial(area);

    return own && htc_lock_enlist(&area->lock, own);
}

/* The entry is read without the lock, too; if it is given to another process meanwhile, the one
 * that was asked for is dead. */
bool rda_serial_alive(const redirect_area *area, uint64_t serial, rda_census *census)
{
    uint32_t cell = rda_cell_of(serial);

    if (!serial || serial == rda_own_serial(area))
        return serial != 0;
    if (cell != RDA_COMMON && RDA_GET(area->processes[cell].serial) != serial)
        return false;
    if (census && cell != RDA_COMMON)
        return rda_cell_alive(area, cell, census);
    return htc_lock_enlisted(&area->lock, serial);
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

/* A cell that belongs to no process any more, or never did; RDA_NIL when there is none. Each cell is
 * a question to the kernel, which goes through all processes for it. So the first is the one behind
 * the last that was taken: of children that end after so many connections, it is likely to be the
 * oldest. */
static uint32_t take_cell_locked(redirect_area *area)
{
    uint32_t end = rda_cells_end(area), first = RDA_GET(area->header->cell);

    for (uint32_t n = 0; n < end; n++) {
        uint32_t cell = (uint32_t)(((uint64_t)first + n) % end);

        if (!rda_serial_alive(area, RDA_GET(area->processes[cell].serial), NULL)) {
            RDA_SET(area->header->cell, cell + 1);
            return cell;
        }
    }
    if (end == RDA_COMMON)
        return RDA_NIL;
    RDA_SET(area->header->processes_end, end + 1);
    return end;
}

/* Nobody owns the cell before it is empty everywhere. */
static void clear_cell_locked(redirect_area *area, uint32_t cell)
{
    RDA_SET(area->processes[cell].serial, 0);
    for (uint32_t i = 0; i < rda_images_end(area); i++) {
        if (RDA_GET(area->cells[i].pins[cell]))
            RDA_SET(area->cells[i].pins[cell], 0);
    }
    for (uint64_t left = RDA_GET(area->processes[cell].rows); left; left &= left - 1) {
        rda_pin_row *row = &area->rows[cell].rows[__builtin_ctzll(left)];

        for (uint32_t i = 0; i < RDA_ROW_PINS; i++) {
            if (RDA_GET(row->pins[i].version))
                RDA_SET(row->pins[i].version, 0);
        }
    }
}

/* False when the kernel cannot say of this process that it lives: others would take the cell. */
static bool own_cell_locked(redirect_area *area, uint32_t cell, uint32_t generation)
{
    uint64_t serial = next_serial(area, cell);

    if (!htc_lock_enlist(&area->lock, serial))
        return false;
    clear_cell_locked(area, cell);
    RDA_SET(area->processes[cell].generation, generation);
    RDA_SET(area->processes[cell].serial, serial);
    set_own(area, serial);
    return true;
}

void redirect_area_join(redirect_area *area, uint32_t generation)
{
    uint64_t own = rda_own_serial(area);
    rda_process *process = &area->processes[rda_cell_of(own)];
    bool joined = false;

    if (own && (rda_cell_of(own) == RDA_COMMON || RDA_GET(process->serial) == own)) {
        RDA_SET(process->generation, generation);
        return;
    }
    if (rda_lock(area) == APR_SUCCESS) {
        uint32_t cell = take_cell_locked(area);

        joined = cell != RDA_NIL && own_cell_locked(area, cell, generation);
        rda_unlock(area);
    }
    if (!joined)
        share_common(area, generation);
}
