/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Moves this module's entries in httpd's sorted lists of hooks; see module/hooks.h. Called once in
 * each pass over the configuration.
 */
#include "module/hooks.h"

#define ALIAS "mod_alias.c"

/* Take element `from` out of the array and put it ahead of what was element `to`. */
static void move(apr_array_header_t *array, int from, int to)
{
    size_t size = (size_t)array->elt_size;
    char *elements = array->elts, saved[sizeof(ap_LINK_fixups_t)];

    to -= from < to;
    memcpy(saved, elements + size * (size_t)from, size);
    if (from < to)
        memmove(elements + size * (size_t)from, elements + size * (size_t)(from + 1),
                size * (size_t)(to - from));
    else
        memmove(elements + size * (size_t)(to + 1), elements + size * (size_t)to,
                size * (size_t)(from - to));
    memcpy(elements + size * (size_t)to, saved, size);
}

/* For each phase: the place of mod_alias's only hook, or of the one that is this function; -1:
 * there is none, or more than one. */
#define DEFINE_PHASE(phase)                                                                        \
    static int place_in_##phase(const apr_array_header_t *links, ap_HOOK_##phase##_t *own)         \
    {                                                                                              \
        int found = -1;                                                                            \
                                                                                                   \
        for (int i = 0; links && i < links->nelts; i++) {                                          \
            const ap_LINK_##phase##_t *link = &APR_ARRAY_IDX(links, i, const ap_LINK_##phase##_t); \
                                                                                                   \
            if (own ? link->pFunc != own : strcmp(link->szName, ALIAS) != 0)                       \
                continue;                                                                          \
            if (found >= 0)                                                                        \
                return -1;                                                                         \
            found = i;                                                                             \
        }                                                                                          \
        return found;                                                                              \
    }                                                                                              \
                                                                                                   \
    static void settle_##phase(apr_array_header_t *links, ap_HOOK_##phase##_t *own)                \
    {                                                                                              \
        int from = place_in_##phase(links, own), to = place_in_##phase(links, NULL);               \
                                                                                                   \
        if (from >= 0 && to >= 0)                                                                  \
            move(links, from, to);                                                                 \
    }

DEFINE_PHASE(translate_name)
DEFINE_PHASE(fixups)

bool htc_hooks_of_alias(void)
{
    return place_in_translate_name(ap_hook_get_translate_name(), NULL) >= 0 &&
           place_in_fixups(ap_hook_get_fixups(), NULL) >= 0;
}

void htc_hooks_settle(ap_HOOK_translate_name_t *translate, ap_HOOK_fixups_t *fixup)
{
    settle_translate_name(ap_hook_get_translate_name(), translate);
    settle_fixups(ap_hook_get_fixups(), fixup);
}
