/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/csv.h
 * Tables as spreadsheets and exports write them: records of RFC 4180 with the line ends and
 * separators that are met, and header rows whose names say what a column is. Read by the CSV format
 * of redirect maps, and by htcachectl for lists of URLs.
 */
#ifndef HTC_MAPS_CSV_H
#define HTC_MAPS_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CSV_FIELDS_MAX 64
#define CSV_NO_COLUMN  CSV_FIELDS_MAX

typedef struct map_text {
    const char *s; /* NULL: there is none */
    size_t len;
    unsigned seen; /* MAP_* of maps/internal.h */
} map_text;

/** What a column is. */
typedef enum csv_role {
    CSV_SOURCE,
    CSV_TARGET,
    CSV_STATUS,
    CSV_PERMANENT,  /* 308 or 307 */
    CSV_QUERY,      /* the request's query is appended */
    CSV_CASE,       /* the case of letters counts */
    CSV_SUBDOMAINS, /* the host's subdomains match, too */
    CSV_SUBPATH,    /* so does what is below the path */
    CSV_SUFFIX,     /* and the rest of the path is appended */
    CSV_REGEX,      /* the source is a regex */
    CSV_ENABLED,    /* the row is in use */
    CSV_ACCEPT,     /* from here on: conditions, as in text maps */
    CSV_LANGUAGE,
    CSV_COUNTRY,
    CSV_COOKIE,
    CSV_HEADER,
    CSV_METHOD,
    CSV_ROLES
} csv_role;

/** Their names in columns=, in the order of csv_role. */
extern const char *const redirect_csv_roles[CSV_ROLES];

typedef enum csv_header {
    CSV_HEADER_NONE, /* the first record is a row */
    CSV_HEADER_KNOWN,
    CSV_HEADER_UNKNOWN /* the first record is no row, and its names say too little */
} csv_header;

/** A table that is being read. It points into the bytes, which stay the caller's. */
typedef struct redirect_csv {
    const char *at, *end;     /* behind the record; the end of the bytes */
    uint32_t line, next_line; /* where the record begins, and the one behind it */
    char separator;
    unsigned column[CSV_ROLES]; /* CSV_NO_COLUMN: there is none */
    map_text field[CSV_FIELDS_MAX];
    unsigned fields; /* of the record; those behind CSV_FIELDS_MAX are counted only */
    /** Room for fields whose doubled quotes are undone: of the source, the target, and all the
     * others. Those for which there is none keep them. */
    char *room[3];
    size_t room_size, room_used; /* bytes of each; of that of the others */
} redirect_csv;

/** Begin with the bytes from @a at on. A line "sep=;" is skipped. Columns are source, target,
 * status until redirect_csv_find_header() says otherwise. */
void redirect_csv_open(redirect_csv *csv, const char *at, size_t len, char *const room[3],
                       size_t room_size);

/**
 * Find out the separator, and whether the first record names the columns. Blank lines and comments
 * ahead of it are skipped. A header is skipped, also an unknown one. Its record stands in @a csv. It
 * has one field if something else separates its columns. @a columns (NULL: not given) says what the
 * columns are, as in columns=; then a header is not looked at, only skipped.
 */
csv_header redirect_csv_find_header(redirect_csv *csv, const char *columns);

/** Take the record at csv->at apart. NULL; or what is wrong with it, and csv->at is where it was. */
const char *redirect_csv_next(redirect_csv *csv);

/** Go on with the next line: the record there cannot be read. */
void redirect_csv_skip_line(redirect_csv *csv);

/** The record's field of this role, without blanks around it; empty when there is none. */
map_text redirect_csv_field(const redirect_csv *csv, csv_role role);

/** NULL, or the first part of a list as in columns= that is wrong: no column's name, one that was
 * named before, or all of it, which names no source. *len is its length; *why goes behind it. */
const char *redirect_csv_bad_column(const char *columns, size_t *len, const char **why);

#endif
