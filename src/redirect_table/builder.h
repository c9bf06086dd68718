/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirect_table/builder.h
 * What the files of the builder know of each other: build.c, key.c, index.c and memory.c; see
 * redirect_table/internal.h. The table's tests include it, too.
 */
#ifndef HTC_REDIRECT_TABLE_BUILDER_H
#define HTC_REDIRECT_TABLE_BUILDER_H

#include "redirect_table/internal.h"

/* Memory that grows without being copied; zero behind `len`. */
typedef struct rt_buffer {
    char *bytes;
    size_t len, capacity;
} rt_buffer;

bool rt_reserve(rt_buffer *buffer, size_t more);
bool rt_append(rt_buffer *buffer, const void *bytes, size_t len);
void rt_release(rt_buffer *buffer);

/* Numbers of strings that have been seen, by a hash table of these numbers. */
typedef struct rt_strings {
    rt_buffer text;  /* each with a NUL */
    rt_buffer ends;  /* uint32_t: where in the text the next begins */
    rt_buffer kinds; /* uint8_t */
    rt_buffer slots; /* uint32_t */
    uint32_t count, nslots;
} rt_strings;

/* The string's number, 0 when it is not there. Strings of another kind are other strings. */
uint32_t rt_strings_find(const rt_strings *strings, uint64_t seed, const char *text, size_t len,
                         uint8_t kind);
/* As above; it is added when it is not there. 0: no memory. */
uint32_t rt_strings_number(rt_strings *strings, uint64_t seed, const char *text, size_t len,
                           uint8_t kind);
const char *rt_strings_get(const rt_strings *strings, uint32_t number, size_t *len);
void rt_strings_release(rt_strings *strings);

/* A rule, in the index to be. */
typedef struct rt_entry {
    uint64_t key;
    uint32_t place; /* of its record */
    uint32_t prev;  /* 1 + number of the last rule in front of it with its key; 0: none */
} rt_entry;

/* A rule whose key is chosen by finish. */
typedef struct rt_open {
    uint32_t number;
    uint32_t literals_len; /* of what it has in `literals` */
} rt_open;

#define RT_DIRS_SEEN 8192

struct redirect_builder {
    uint64_t seed;
    rt_secret secret;
    rt_buffer image;                             /* room for the header, then records */
    rt_buffer entries, profiles, profile_slots;  /* rt_entry, redirect_profile, uint32_t */
    rt_buffer nodes, marks;                      /* rt_node, hashed; rt_mark */
    rt_buffer open, literals;                    /* rt_open, and its literals: each with a NUL */
    bool keeps_all;                              /* duplicates, too */
    rt_strings hosts, strips, origins, patterns; /* patterns' kind: REDIRECT_ICASE or 0 */
    rt_strings conditions, dirs;
    uint32_t dirs_seen[RT_DIRS_SEEN]; /* a hash, and in the lowest bits how often */
    uint32_t rules, exact, prefix, pattern;
    uint32_t nprofiles, nprofile_slots, nnodes, nnode_slots;
    uint32_t last_profile, last_origin, last_line, last_size;
    uint32_t records_end; /* set by finish */
    uint32_t nspaces, nkeyed_strips;
    uint32_t keyed_strips[RT_KEYED_STRIPS];
    rt_span section[RT_SECTIONS];
    rt_space spaces[RT_MAX_SPACES];
    char source[REDIRECT_MAX_TEXT]; /* the rule's, with single slashes */
};

/** For tests that must be repeatable, in front of the first rule: hash with this seed. */
void rt_builder_seed(redirect_builder *builder, uint64_t seed);

#define RT_MAX_NUMBERS (10 * RT_NUMBER_BYTES) /* bytes in front of a record's strings, at most */

/* Behind the last record lie a bucket, a word of the filter and the slack, so numbers can be read
 * at any place of a record. */
static_assert(RT_MAX_NUMBERS <= sizeof(rt_bucket) + sizeof(uint64_t) + REDIRECT_SLACK, "inside");

/* Write what is in front of a record's strings; all but `size` and the pointers must be set.
 * @return the number of bytes. */
size_t rt_encode(char *to, uint32_t profile, const rt_record *r);

/* redirect_table/key.c. False: no memory. */
/* The key of a rule by its source. */
bool rt_key_make(redirect_builder *b, const rt_record *r, uint64_t *key);
/* May the rule, which is the next, be found by literals? Then its key is chosen later. */
bool rt_key_is_open(const redirect_rule *rule);
bool rt_key_later(redirect_builder *b, const redirect_rule *rule);
/* Choose these keys, when all rules have been added. */
bool rt_key_choose(redirect_builder *b);

/* The marks that a record is the first for; there is room for them. */
void rt_put_marks(redirect_builder *builder, rt_mark mark);

/* Add lengths to a key's node in a table of nslots, some of them empty; true when it was not there.
 */
bool rt_node_add(rt_node *nodes, uint32_t nslots, uint64_t key, uint64_t lengths);

static inline rt_entry *rt_entries(const redirect_builder *builder)
{
    return (rt_entry *)(void *)builder->entries.bytes;
}

static inline void rt_builder_record(const redirect_builder *b, uint32_t number, rt_record *out)
{
    rt_decode(b->image.bytes + rt_entries(b)[number].place,
              (const redirect_profile *)(const void *)b->profiles.bytes, out);
    out->dir_text = "";
    out->dir_len = 0;
    if (out->dir) {
        size_t len;

        out->dir_text = rt_strings_get(&b->dirs, out->dir, &len);
        out->dir_len = (uint32_t)len;
    }
}

static inline bool rt_is_below(const char *host, size_t len)
{
    return len >= 2 && host[0] == '*' && host[1] == '.';
}

#endif
