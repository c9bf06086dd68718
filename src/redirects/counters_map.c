/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Counts of rows of maps from one image to the next: rows that stay keep them. Called when a map was
 * loaded, and when its rows were edited.
 */
#include "redirects/counters.h"
#include "redirects/map.h"

typedef struct table_keys {
    const redirect_table *table;
    uint32_t rule;
} table_keys;

static uint64_t next_of_table(void *baton)
{
    table_keys *keys = baton;

    keys->rule = redirect_table_next(keys->table, keys->rule);
    return keys->rule ? redirect_table_key(keys->table, keys->rule) : 0;
}

/* No keys where the image is neither that of a table nor that of a map's edits. */
static redirect_keys keys_of_table(const redirect_area_pin *pin, table_keys *keys, apr_pool_t *pool)
{
    const redirect_overlay *edits;

    *keys = (table_keys){redirect_table_open(pin->image, pin->size, pool), 0};
    if (!keys->table) {
        edits = redirect_overlay_open(pin->image, pin->size, pool);
        keys->table = edits ? edits->table : NULL;
    }
    return (redirect_keys){next_of_table, keys, keys->table ? pin->ncounters : 0};
}

void htc_count_moved(redirect_area *area, uint32_t slot, const redirect_area_pin *old,
                     apr_pool_t *pool)
{
    redirect_area_pin pin;
    table_keys old_keys, new_keys;
    redirect_keys from, to;

    if (!old->image || !redirect_area_pin_get(area, slot, &pin))
        return;
    if (pin.image != old->image) { /* versions of two areas may be the same */
        from = keys_of_table(old, &old_keys, pool);
        to = keys_of_table(&pin, &new_keys, pool);
        redirect_counters_move(old->counters, &from, pin.counters, &to, NULL);
    }
    redirect_area_unpin(area, &pin);
}

static redirect_counter *counter_of(const htc_table *table, uint32_t rule)
{
    uint32_t index;

    redirect_table_line(table->table, rule, &index);
    return index < table->pin.ncounters ? &table->pin.counters[index] : NULL;
}

static void add_count(const htc_table *to, uint32_t i, redirect_counter *from)
{
    redirect_counter_add(&to->pin.counters[i],
                         atomic_exchange_explicit(&from->word, 0, memory_order_relaxed));
}

void htc_count_edited(const htc_table *base, const htc_table *edits)
{
    uint32_t rule = redirect_table_next(edits->table, 0);

    for (uint32_t i = 0; rule && i < edits->pin.ncounters;
         i++, rule = redirect_table_next(edits->table, rule)) {
        uint64_t place = redirect_overlay_place(edits->edits, i);
        redirect_counter *counter;

        if (place % 2 || place / 2 > UINT32_MAX)
            continue;
        counter = counter_of(base, (uint32_t)(place / 2));
        if (counter && redirect_counter_read(counter).hits &&
            redirect_table_key(base->table, (uint32_t)(place / 2)) ==
                redirect_table_key(edits->table, rule))
            add_count(edits, i, counter);
    }
}

static void take_count(const htc_table *edits, uint64_t key, redirect_counter *counter)
{
    uint32_t rule = redirect_table_next(edits->table, 0);

    for (uint32_t i = 0; rule && i < edits->pin.ncounters;
         i++, rule = redirect_table_next(edits->table, rule)) {
        if (redirect_table_key(edits->table, rule) == key) {
            add_count(edits, i, counter);
            return;
        }
    }
    /* What it counted is lost, and it is not looked for again with each further edit. */
    atomic_store_explicit(&counter->word, 0, memory_order_relaxed);
}

void htc_count_recent(const htc_table *older, const htc_table *edits)
{
    const redirect_overlay *overlay = edits->edits;

    for (uint32_t i = 0; i < overlay->ngone_older; i++) {
        uint32_t rule = overlay->gone_older[i];
        redirect_counter *counter = counter_of(older, rule);

        if (counter && redirect_counter_read(counter).hits)
            take_count(edits, redirect_table_key(older->table, rule), counter);
    }
}
