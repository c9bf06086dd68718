/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What a writer does in one piece, so that it can be killed at any store and costs no more than
 * the record that it was working on: each word that follows from the records (lists, accounts, the
 * map of used slots) is noted before it is changed. The next writer takes the changes back, then
 * ends the task: a new record is given up, one that was to be removed is removed. That takes the
 * same few steps however many records there are. Called under the store's lock.
 */
#include "cache/store_internal.h"

/* Only what is complete may be read of the log: a writer may be killed between any two stores, in
 * the order of the program. */
#define IN_ORDER() atomic_signal_fence(memory_order_seq_cst)

void htcs_task_begin(htc_store *store, htcs_task task, uint32_t index, const htcs_view *view)
{
    htcs_header *header = store->header;

    HTCS_SET(header->noted, 0);
    HTCS_SET(header->changing, index);
    if (view) {
        HTCS_SET(header->changing_first, view->first);
        HTCS_SET(header->changing_len, view->body_len);
        HTCS_SET(header->changing_kind, view->kind);
        HTCS_SET(header->changing_owner, view->owner);
    }
    IN_ORDER();
    HTCS_SET(header->task, task);
    IN_ORDER();
}

void htcs_task_end(htc_store *store)
{
    IN_ORDER();
    HTCS_SET(store->header->task, HTCS_NO_TASK);
    IN_ORDER();
}

/* If everything is derived anew, nothing needs to be taken back. */
static void note(htc_store *store, const void *word, uint64_t value, unsigned wide)
{
    htcs_header *header = store->header;
    uint64_t where = (uint64_t)((const char *)word - (const char *)store->base);
    uint32_t n = HTCS_GET(header->noted);

    if (HTCS_GET(header->task) == HTCS_REBUILDING)
        return;
    if (n >= HTCS_NOTES) { /* counting does not get there */
        HTCS_SET(header->task, HTCS_REBUILDING);
        return;
    }
    HTCS_SET(header->notes[n].where, where | wide);
    HTCS_SET(header->notes[n].value, value);
    IN_ORDER();
    HTCS_SET(header->noted, n + 1);
    IN_ORDER();
}

void htcs_note(htc_store *store, const _Atomic uint32_t *word)
{
    note(store, word, HTCS_GET(*word), 0);
}

void htcs_note_wide(htc_store *store, const _Atomic uint64_t *word)
{
    note(store, word, HTCS_GET(*word), 1);
}

void htcs_take_back(htc_store *store)
{
    htcs_header *header = store->header;
    uint32_t n = HTCS_GET(header->noted);

    for (n = n < HTCS_NOTES ? n : HTCS_NOTES; n-- > 0;) {
        uint64_t where = HTCS_GET(header->notes[n].where), value = HTCS_GET(header->notes[n].value);
        char *word = (char *)store->base + (where & ~UINT64_C(7));

        if (where >= store->bytes)
            continue;
        if (where & 1)
            HTCS_SET(*(_Atomic uint64_t *)(void *)word, value);
        else
            HTCS_SET(*(_Atomic uint32_t *)(void *)(word + (where & 4)), (uint32_t)value);
    }
}
