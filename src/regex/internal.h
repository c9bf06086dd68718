/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Shared by the files of regex/: what is known of a part of a pattern, how such knowledge
 * is put together (regex/set.c), and the reader that does so (regex/parse.c,
 * regex/class.c).
 *
 * The method is that of Russ Cox, "Regular Expression Matching with a Trigram Index" (2012): for
 * each part the set of texts that it begins with, the set that it ends with, and the best set that
 * it contains, each put together from the parts' parts. Added here: assertions of the subject's
 * start and end are carried with each text, and so is whether the text is all that is matched, so
 * that a set can be exact.
 */
#ifndef HTC_REGEX_INTERNAL_H
#define HTC_REGEX_INTERNAL_H

#include "regex/regex.h"

#include <stdint.h>

/* What follows a text in whatever the part matches. */
typedef enum regex_tail {
    REGEX_OPEN,    /* nothing: the text is all of it */
    REGEX_END_NL,  /* nothing, and the subject ends here or after a newline */
    REGEX_END,     /* nothing, and the subject ends here */
    REGEX_REST,    /* each of all strings up to the subject's end */
    REGEX_UNKNOWN, /* something or nothing */
} regex_tail;

typedef struct regex_text {
    const char *bytes;
    uint32_t len;
    regex_tail tail;
    bool at_start; /* matches only at the subject's start */
    bool superset; /* what matches looks so, but not all that looks so matches */
} regex_text;

typedef struct regex_set {
    const regex_text *texts;
    unsigned count;
} regex_set;

typedef struct regex_part {
    regex_set heads; /* what it begins with; none: it never matches */
    regex_set feet;  /* what it ends with; OPEN: that is all of it, else UNKNOWN stands before it */
    regex_set best;  /* what it contains; none: nothing known */
    uint32_t ways;   /* at most so many ways to match or fail at one place are tried; saturates */
    bool one_byte;   /* a single byte, as an item of its own */
    bool any_byte;   /* and it can be any */
} regex_part;

/* This many or more. Also of back-references and calls of groups: PCRE2 does not always see that
 * they can match nothing (its least length of a match is too large when one stands in its own
 * group). */
#define REGEX_WAYS_MAX   1000000u
#define REGEX_WAYS_PATH  1000u /* of a repeated single byte: as long as a path may be, roughly */
#define REGEX_WAYS_EXACT 4000u /* from here on a match limit might come before the answer */

typedef struct regex_work {
    apr_pool_t *pool; /* for parts and texts */
    unsigned max_texts, max_inner, max_class;
    bool fold;       /* texts are in lower case, and mean either */
    bool wide_class; /* out: a class had more bytes than REGEX_NARROW_CLASS, and was listed */
    size_t spent;    /* steps and bytes so far */
} regex_work;

#define REGEX_NARROW_CLASS 4

/* Bytes, one bit each. */
typedef struct regex_bytes {
    uint32_t bits[8];
} regex_bytes;

/* regex/set.c */

/* Matches the empty string; `superset`: sometimes. */
regex_part redirect_regex_empty(bool superset);
/* Nothing is known of it. */
regex_part redirect_regex_unknown(uint32_t ways);
regex_part redirect_regex_start(void);
/* `tail`: END or END_NL. */
regex_part redirect_regex_end(regex_tail tail);
/* With `icase` there must be no byte over 127. */
regex_part redirect_regex_literal(regex_work *work, const char *bytes, size_t len, bool icase);
regex_part redirect_regex_one_of(regex_work *work, const regex_bytes *bytes);
/* Some byte. */
regex_part redirect_regex_byte(bool any);

regex_part redirect_regex_join(regex_work *work, const regex_part *a, const regex_part *b);
regex_part redirect_regex_either(regex_work *work, const regex_part *a, const regex_part *b);
#define REGEX_NO_MAX UINT32_MAX
regex_part redirect_regex_repeat(regex_work *work, const regex_part *what, uint32_t min,
                                 uint32_t max, bool possessive);
regex_part redirect_regex_atomic(regex_work *work, const regex_part *what);

/* The best of what the part is known to contain; its count is 0 for nothing. */
regex_set redirect_regex_contained(const regex_work *work, const regex_part *part);
/* Length of the shortest text; 0 of the empty set. */
uint32_t redirect_regex_shortest(const regex_set *set);
/* Cut texts, so that at most `max` (at least 12) different ones remain; those cut are UNKNOWN. */
regex_set redirect_regex_shorten(regex_work *work, const regex_set *set, unsigned max);

/* regex/parse.c */

typedef struct regex_reader {
    const char *at, *end;
    regex_work *work;
    char *run; /* literal bytes that are not in a part yet; has room for the pattern */
    size_t run_len;
    unsigned depth;
    int groups;
    bool groups_known;
    bool lost;       /* something that is not understood: nothing is known of the pattern */
    bool needs_fold; /* a caseless letter, and work->fold is not set: read again with it */
} regex_reader;

/* The whole pattern. Afterwards the part says something only if neither `lost` nor `needs_fold`. */
regex_part redirect_regex_parse(regex_reader *reader, unsigned flags);

/* regex/class.c */

/* Behind "[", reads to behind "]". */
regex_part redirect_regex_class(regex_reader *reader, bool icase);

/* Behind a backslash: if this is an escape for a byte, read it. Else false, and nothing is read, or
 * the reader is lost. */
bool redirect_regex_escaped_byte(regex_reader *reader, bool in_class, unsigned char *byte);

static inline bool regex_is_letter(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline unsigned char regex_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

static inline bool regex_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool regex_has_byte(const regex_bytes *bytes, unsigned c)
{
    return bytes->bits[c >> 5] >> (c & 31) & 1;
}

static inline void regex_add_byte(regex_bytes *bytes, unsigned c)
{
    bytes->bits[c >> 5] |= UINT32_C(1) << (c & 31);
}

#endif
