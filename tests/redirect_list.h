/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * A redirect table as a linear list, written down from the contract in redirect_table.h alone and
 * without a thought to speed. check_redirect_table_random.c compares the table with it.
 */
#ifndef REDIRECT_LIST_H
#define REDIRECT_LIST_H

#include "redirect_table.h"

/* libcheck writes to a file for each of its own assertions; there are hundreds of millions here. */
#define REQUIRE(holds)                                 \
    do {                                               \
        if (!(holds))                                  \
            ck_abort_msg("does not hold: %s", #holds); \
    } while (0)

#define LIST_MAX_LEN 1200
/* The mock regex "m:s" matches subjects whose hash with s is 0 modulo m, and with ":text:text" behind
 * it only those that contain these texts in any case. */
#define LIST_PATTERN "%u:%u"

typedef struct list_string {
    bool there;
    size_t len;
    char bytes[LIST_MAX_LEN];
} list_string;

/* A rule as it was given, and what the list needs to know of it. */
typedef struct list_item {
    redirect_rule rule;
    char *memory;       /* of the rule's strings */
    list_string source; /* with single slashes, if the kind is of segments */
    bool kept;
    uint32_t place; /* in the image */
} list_item;

/* A request, with its path collapsed once. */
typedef struct list_question {
    redirect_request request;
    list_string path, collapsed, host, query;
    size_t map[LIST_MAX_LEN + 1];
} list_question;

char list_lower(char c);

/* Single slashes; map[i], if asked for, is where in `from` the first i bytes of the result end. */
void list_collapse(const char *from, size_t len, list_string *to, size_t *map);

bool list_regex(const char *pattern, unsigned flags, const char *subject, size_t len);

bool list_same_text(const char *a, size_t a_len, const char *b, size_t b_len);

/* Is a rule behind the other one its duplicate? */
bool list_same(const list_item *a, const list_item *b);

/* The list's answer, and how many patterns a table has to run for it at most. */
const list_item *list_lookup(const list_item *items, unsigned count, const list_question *q,
                             uint32_t from, size_t *matched, unsigned *runs);

#endif
