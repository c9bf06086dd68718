/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * The identity of a loaded object, from its program headers as the dynamic linker has them: no file
 * is read, which may be another one by now. Called in the parent, at the start and at each restart.
 */
#include "base/build.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define NOTE_ALIGN 4

typedef struct search {
    uintptr_t address;
    uint64_t build;
} search;

static const unsigned char *start_of(const struct dl_phdr_info *object, const ElfW(Phdr) * part)
{
    /* The dynamic linker gives addresses as numbers. NOLINTNEXTLINE(performance-no-int-to-ptr) */
    return (const unsigned char *)(object->dlpi_addr + part->p_vaddr);
}

static bool has(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && address - (uintptr_t)start_of(object, part) < part->p_memsz)
            return true;
    }
    return false;
}

static size_t padded(size_t size)
{
    return (size + NOTE_ALIGN - 1) / NOTE_ALIGN * NOTE_ALIGN;
}

/* 0: it is not among these notes. */
static uint64_t id_in(const unsigned char *notes, size_t left)
{
    static const char owner[] = "GNU";
    ElfW(Nhdr) head;

    while (left > sizeof(head)) {
        size_t name, all;

        memcpy(&head, notes, sizeof(head));
        name = sizeof(head) + padded(head.n_namesz);
        all = name + padded(head.n_descsz);
        if (all > left)
            return 0;
        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == sizeof(owner) &&
            !memcmp(notes + sizeof(head), owner, sizeof(owner)))
            return XXH3_64bits(notes + name, head.n_descsz);
        notes += all;
        left -= all;
    }
    return 0;
}

static uint64_t id_of(const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        uint64_t id = part->p_type == PT_NOTE ? id_in(start_of(object, part), part->p_memsz) : 0;

        if (id)
            return id;
    }
    return 0;
}

static uint64_t contents_of(const struct dl_phdr_info *object)
{
    uint64_t hash = 0;

    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && part->p_flags & PF_R && !(part->p_flags & PF_W))
            hash = XXH3_64bits_withSeed(start_of(object, part), part->p_memsz, hash);
    }
    return hash;
}

static int look_at(struct dl_phdr_info *object, size_t size, void *data)
{
    search *s = data;

    (void)size;
    if (!has(object, s->address))
        return 0;
    s->build = id_of(object);
    if (!s->build)
        s->build = contents_of(object);
    return 1;
}

uint64_t htc_build_of(const void *address)
{
    search s = {(uintptr_t)address, 0};

    dl_iterate_phdr(look_at, &s);
    return s.build;
}
