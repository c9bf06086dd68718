/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file negotiate_oracle.h
 * Content negotiation a second time, for check_negotiate_random.c: from the texts of RFC 9110 and
 * RFC 4647 and the choices that negotiate.h names, without a line of src/. Everything is copied and
 * decoded before it is compared, and each rule is a search in the order that its text gives.
 * Slow, not for threads.
 */
#ifndef NEGOTIATE_ORACLE_H
#define NEGOTIATE_ORACLE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct oracle_row {
    const char *types, *languages; /* as somebody writes them; NULL: none */
} oracle_row;

typedef struct oracle_answer {
    int row; /* -1: none is acceptable */
    bool by_default;
    bool accept, accept_language; /* what was looked at */
} oracle_answer;

oracle_answer oracle_negotiate(const char *accept, const char *accept_language,
                               const oracle_row *rows, int nrows);

/** Are these lists that a row may have? */
bool oracle_is_type_list(const char *text);
bool oracle_is_language_list(const char *text);

#endif
