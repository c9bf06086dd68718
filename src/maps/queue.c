/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A queue in which owners take turns. Called by redirects/map_loader.c. There are rarely more than
 * a few jobs, so it is a list.
 */
#include "maps/queue.h"

#include <stddef.h>

bool redirect_queue_add(redirect_queue *queue, redirect_queue_job *job)
{
    redirect_queue_job **at = &queue->first;
    unsigned own = 0;

    for (; *at; at = &(*at)->next) {
        own += (*at)->owner == job->owner;
        if ((*at)->map == job->map || own == REDIRECT_QUEUE_OWN)
            return false;
    }
    job->next = NULL;
    *at = job;
    return true;
}

redirect_queue_job *redirect_queue_take(redirect_queue *queue)
{
    redirect_queue_job *job = queue->first, *later = NULL, **at = &queue->first, **end = &later;

    if (!job)
        return NULL;
    queue->first = job->next;
    while (*at) {
        redirect_queue_job *one = *at;

        if (one->owner != job->owner) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = NULL;
        *end = one;
        end = &one->next;
    }
    *at = later;
    job->next = NULL;
    return job;
}
