/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file convert_fixture.h
 * What the unit tests of conversions share: lists from texts, what was written, what was reported
 * of it, and the figures.
 */
#ifndef CONVERT_FIXTURE_H
#define CONVERT_FIXTURE_H

#include "pool_fixture.h"
#include "redirect_map_util.h"
#include "suite_util.h"
#include "tool/convert.h"
#include "tool/map.h"

#include <apr_hash.h>
#include <apr_strings.h>
#include <stdlib.h>
#include <string.h>

static const char *const file_names[CONVERT_FORMATS] = {"a.txt",  "a.csv",  "_redirects", "a.map",
                                                        "a.json", "cf.csv", "v.json",     "a.conf"};

static char *said; /* "E3 message\n" */

static inline void say(void *baton, redirect_severity severity, const char *file, uint32_t line,
                       const char *message)
{
    (void)baton;
    ck_assert_ptr_nonnull(file);
    for (const char *p = message; *p; p++)
        ck_assert_msg((unsigned char)*p >= ' ' && *p != 127, "a control character in: %s", message);
    said = apr_psprintf(pool, "%s%c%u %s\n", said, "NWE"[severity], (unsigned)line, message);
}

static inline bool was_lost(unsigned line)
{
    const char *begin = apr_psprintf(pool, "\nE%u ", line);

    return strstr(apr_pstrcat(pool, "\n", said, NULL), begin) != NULL;
}

/* So many rows were reported with this at the end. */
static inline unsigned count_rows_said(const char *end)
{
    apr_hash_t *lines = apr_hash_make(pool);
    char *state, *copy = apr_pstrdup(pool, said);

    for (char *line = apr_strtok(copy, "\n", &state); line; line = apr_strtok(NULL, "\n", &state)) {
        size_t len = strlen(line), n = strlen(end);

        if (*line == 'E' && len > n && !strcmp(line + len - n, end))
            apr_hash_set(lines, apr_pstrmemdup(pool, line, strcspn(line, " ")), APR_HASH_KEY_STRING,
                         "");
    }
    return apr_hash_count(lines);
}

/* The figures add up, and agree with the reports of the writer. */
static inline void check_rows(const convert_list *list, const convert_result *result, unsigned read)
{
    convert_rows rows = convert_count_rows(list);
    unsigned all_the_same = count_rows_said("it was written all the same");
    unsigned rest = count_rows_said("the rest of the row was written");

    ck_assert_msg(rows.read == read && rows.whole + rows.partly + rows.left_out == read,
                  "%u rows: %u, %u, %u of %u\n%s", read, rows.whole, rows.partly, rows.left_out,
                  rows.read, said);
    ck_assert_msg((rows.left_out == read) == (result->written == 0), "%u left out, %u written\n%s",
                  rows.left_out, result->written, said);
    ck_assert_msg(rows.partly >= all_the_same && rows.partly >= rest &&
                      rows.partly <= all_the_same + rest,
                  "%u with a loss, but\n%s", rows.partly, said);
    ck_assert_msg(rows.left_out >= count_rows_said("it was left out"), "%u left out, but\n%s",
                  rows.left_out, said);
}

static inline convert_list *list_of(convert_format format, const char *text, const char *words)
{
    convert_list *list = convert_list_create(pool, say, NULL);
    convert_place place = {.htaccess = strstr(words, "htaccess") != NULL,
                           .base = "/",
                           .negotiate = strstr(words, "negotiate") != NULL};
    redirect_map_options options;

    said = "";
    list->compile = map_regexes_available() ? map_regexes_try : NULL;
    redirect_map_options_init(&options);
    if (format == CONVERT_HTTPD) {
        convert_read_config(list, &place, file_names[format], text, strlen(text));
        return list;
    }
    options.format = convert_reader_of(format);
    for (char *state, *word = apr_strtok(apr_pstrdup(pool, words), " ", &state); word;
         word = apr_strtok(NULL, " ", &state))
        ck_assert_ptr_null(redirect_map_option(&options, word, pool));
    ck_assert_int_eq(convert_read_map(list, &options, file_names[format], text, strlen(text)),
                     APR_SUCCESS);
    return list;
}

static inline const char *written(convert_list *list, convert_format to, convert_result *result)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    const char *copy;

    convert_write(list, to, out, result);
    ck_assert_int_eq(fclose(out), 0);
    copy = apr_pstrmemdup(pool, text, len);
    free(text);
    return copy;
}

#endif
