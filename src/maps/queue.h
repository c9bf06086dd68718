/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/queue.h
 * Work of several owners for one thread, in turns, so that no owner waits for more than one piece
 * of work of each other owner, however much that one has. Used by the module for maps that have
 * changed. Part of the core: no httpd headers.
 *
 * Allocates nothing: a job is a part of whatever the caller has to remember of it. The caller has a
 * lock around all calls.
 */
#ifndef HTC_MAPS_QUEUE_H
#define HTC_MAPS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/** Jobs of one owner that may wait at a time. */
#define REDIRECT_QUEUE_OWN 64

typedef struct redirect_queue_job {
    struct redirect_queue_job *next; /* the queue's */
    uint64_t owner;
    uint32_t map; /* what is to be done; one job for each */
} redirect_queue_job;

/** All zeros: empty. */
typedef struct redirect_queue {
    redirect_queue_job *first;
} redirect_queue;

/** Put a job behind the others. False when its map waits already, or its owner has
 * REDIRECT_QUEUE_OWN of them: then it stays the caller's. */
bool redirect_queue_add(redirect_queue *queue, redirect_queue_job *job);

/** Take the first one out. Others of its owner then go behind all that wait. NULL: there is none.
 */
redirect_queue_job *redirect_queue_take(redirect_queue *queue);

#endif
