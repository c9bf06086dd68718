/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/edit_internal.h
 * What the parts of maps/edit_file.c and maps/overlay_rows.c share: how a format writes rows and changes them where they
 * stand. Only for the files of this folder.
 */
#ifndef HTC_MAPS_EDIT_INTERNAL_H
#define HTC_MAPS_EDIT_INTERNAL_H

#include "maps/internal.h"

#include <apr_tables.h>

/** Bytes of the file that something else takes the place of. */
typedef struct edit_patch {
    const char *at;
    size_t len;
    map_text text;
} edit_patch;

/** A row of the file that is edited. */
typedef struct edit_touched {
    const char *at;            /* as redirect_placed_fn has it */
    const redirect_edit *edit; /* NULL: it is removed */
    map_text row, text;        /* what is replaced of the file, and by what */
    uint64_t hash;             /* of what the new text is read as */
} edit_touched;

typedef struct edit_job {
    const redirect_map_options *options;
    redirect_map_options own; /* with the file's format */
    const char *name, *bytes, *begin, *end;
    map_reader *words; /* for redirect_map_next_word() */
    apr_pool_t *pool;
    map_text eol;                /* what lines end in */
    int status;                  /* of rows that name none */
    map_text before, after;      /* what rows need around them to be read alone */
    const char *between;         /* and between them */
    const char *append_at;       /* where new rows go */
    apr_array_header_t *patches; /* edit_patch */
    const char *why;             /* the format has no word for it */
    void *layout;                /* the format's own */
} edit_job;

/** How a format is edited. */
typedef struct edit_format {
    /** Find out how the file is laid out. False: it cannot be edited, job->why says why. */
    bool (*open)(edit_job *job);
    /** A new row, without the end of its line; one line. s NULL: job->why. */
    map_text (*row)(edit_job *job, const redirect_edit *edit);
    /** The row at @a at, in row->row, and its new text in row->text. False: job->why. */
    bool (*replace)(edit_job *job, edit_touched *row);
    /** Add patches that remove these rows, in the order of the file. */
    void (*remove)(edit_job *job, const edit_touched *const *rows, size_t n);
    /** Add a patch that adds rows; NULL: as lines at the end. */
    void (*append)(edit_job *job, const map_text *rows, size_t n);
} edit_format;

extern const edit_format redirect_edit_text, redirect_edit_netlify, redirect_edit_csv,
    redirect_edit_nginx, redirect_edit_json;

/* maps/edit_job.c */
/** How the format of the map's file is edited. The job has options, own as options, name, bytes,
 * begin, end, words and pool; the rest is set. NULL: job->why. */
const edit_format *redirect_edit_open(edit_job *job);
/** Is the row read as the edit says? A writer's error would show here. */
bool redirect_edit_is_meant(const edit_job *job, const redirect_edit *edit,
                            const redirect_rule *rule, bool plain);
/** How many lines end there. */
uint32_t redirect_edit_lines(const char *s, size_t len);
map_text redirect_edit_format(edit_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Says why, for an edit whose format has no word for something; no text. */
map_text redirect_edit_refuse(edit_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void redirect_edit_patch(edit_job *job, const char *at, const char *end, map_text text);
/** The next "key=value" of an edit's options, without its quotes. False: there is none. */
bool redirect_edit_option(edit_job *job, const char **at, map_text *word);
/** Text that grows in the job's pool. */
typedef struct edit_buffer {
    edit_job *job;
    char *s;
    size_t len, size;
} edit_buffer;
void redirect_edit_put(edit_buffer *b, const char *s, size_t len);
map_text redirect_edit_text_of(const edit_buffer *b);

/* maps/edit_source.c */
uint64_t redirect_edit_mix(uint64_t hash, uint64_t value);
uint64_t redirect_edit_mix_bytes(uint64_t hash, const char *s, size_t len);
/** Equal, or both NULL. */
bool redirect_edit_same_bytes(const char *a, size_t a_len, const char *b, size_t b_len);
/** The rule that the row would be if it led to a plain path: "/path/ *" of a _redirects file is a prefix
 * or a pattern, as the target wants it, but one source to whoever edits. */
redirect_rule redirect_edit_without_target(const redirect_map_options *options,
                                           const redirect_rule *rule);
/** Of what a row is asked for: the same for all rows that redirect_edit_same_source() takes for the
 * same. @a options: the map's, with the format of its file. */
uint64_t redirect_edit_source_hash(const redirect_map_options *options, const redirect_rule *rule);
/** Is it the same source to whoever edits? Case counts unless it does for neither row; so does a
 * slash at the end. Whether more than the path itself matches (subpath=) does not make it another
 * one, unless the format writes it as another source. */
bool redirect_edit_same_source(const redirect_map_options *options, const redirect_rule *a,
                               const redirect_rule *b);
/** Is the rule's host that of the map's option host=? */
bool redirect_edit_is_own_host(const redirect_map_options *options, const redirect_rule *rule);
/** Is it the default of an nginx map? With host= the default has that host, too. */
bool redirect_edit_is_default(const redirect_map_options *options, const redirect_rule *rule);
/** The length of a condition without what comes of it when no row is acceptable: that is not asked
 * for. */
size_t redirect_edit_condition_len(const char *condition, size_t len);
/** Does a row that is set keep the source that stands there, @a old? Not if one of both alone ends in a
 * slash: rows with subpath= are the same either way, but what takes their place may not be. */
bool redirect_edit_keeps_source(const redirect_map_options *options, const char *old,
                                size_t old_len, const char *source, size_t len);
/** Equal for rules that a table takes for rules of one source (redirect_judge) and for no others. In
 * @a pool. */
map_text redirect_edit_group_key(const redirect_rule *rule, apr_pool_t *pool);
/** Of all that a row says. */
uint64_t redirect_edit_rule_hash(const redirect_rule *rule);

#endif
