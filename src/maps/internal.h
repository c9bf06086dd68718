/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file maps/internal.h
 * What the readers of redirect maps share. A reader (maps/text.c and so on) finds rows in a
 * file's bytes; maps/row.c makes rules of them, and maps/pattern.c makes regexes of
 * sources that are patterns. Only for the files of this folder.
 */
#ifndef HTC_MAPS_INTERNAL_H
#define HTC_MAPS_INTERNAL_H

#include "maps/condition.h"
#include "maps/maps.h"

/** What kinds of bytes occur in a text. */
enum {
    MAP_CONTROL = 1, /* also TAB and DEL */
    MAP_HIGH = 2,    /* over 127 */
    MAP_SPACE = 4,
    MAP_PERCENT = 8,
    MAP_QUESTION = 16,
    MAP_HASH = 32,
    MAP_BACKSLASH = 64
};
extern const uint8_t redirect_map_class[256];

/** The rank of a row decides when it is added: a file is read once for each rank in it. */
typedef enum map_rank { MAP_RANK_QUERY, MAP_RANK_PLAIN, MAP_RANK_REGEX, MAP_RANK_LAST } map_rank;

/** Things worth one note per file, or one warning. */
typedef enum map_tally {
    MAP_TALLY_SLASH,    /* sources that were given a leading slash */
    MAP_TALLY_ENCODED,  /* targets with blanks or bytes over 127 */
    MAP_TALLY_DOTS,     /* sources with dot segments */
    MAP_TALLY_PORT,     /* sources with a port */
    MAP_TALLY_FORCE,    /* _redirects: rows without "!" */
    MAP_TALLY_DISABLED, /* CSV: rows that are not in use */
    MAP_TALLY_STATUS,   /* rows that name no status, and get 302 */
    MAP_TALLY_BYTES,    /* rows that are not UTF-8 */
    MAP_TALLIES
} map_tally;

#define MAP_TALLY_LINES 3

#define MAP_HOST_MAX    255
#define MAP_GROUPS      9

/** Lines of a condition, in the order in which they are asked; see maps/condition.h. */
typedef enum redirect_condition_kind {
    MAP_METHOD,
    MAP_COUNTRY,
    MAP_PARAMETER,
    MAP_COOKIE,
    MAP_HEADER,
    MAP_ACCEPT, /* from here on it is for comparing rows */
    MAP_LANGUAGE,
    MAP_UNACCEPTABLE,
    MAP_CONDITIONS
} redirect_condition_kind;

/** One of a row, as its file has it. */
typedef struct map_condition {
    redirect_condition_kind kind;
    bool negated;   /* "!" */
    size_t at, len; /* in the text */
} map_condition;

#define MAP_CONDITIONS_MAX  32
#define MAP_CONDITION_BYTES 16384

typedef struct map_conditions {
    unsigned n;
    size_t len;
    map_condition item[MAP_CONDITIONS_MAX];
    char text[MAP_CONDITION_BYTES];
} map_conditions;

/** A file being read. */
typedef struct map_reader {
    const redirect_map_options *options;
    redirect_builder *builder;
    redirect_report *report;
    apr_pool_t *row_pool; /* cleared before the next row when it was used */
    bool row_pool_used;
    const char *begin, *at, *end;
    const char *row_at;      /* as redirect_placed_fn has it */
    const char *progress_at; /* where to report progress next */
    uint32_t line;           /* of the row being read */
    apr_status_t rv;         /* why reading cannot go on */
    bool all_ranks;          /* the order of the file is kept */
    map_rank rank;           /* else only rows of this rank are taken, */
    unsigned later;          /* and these were seen: 1 << rank */
    bool muted;              /* reports belong to another pass */
    bool again;              /* the row has had a rule, and what was to be said of it, already */
    uint64_t tried;          /* what patterns have cost so far, see redirect_report.try_most */
    bool cloudflare;         /* CSV: Cloudflare's bulk redirects */
    const char *patterns;    /* how the format says that a source is a pattern, for messages */
    int status;              /* of rows that name none, by options or format */
    bool names_status;       /* some rows do, or it is not asked */
    struct {
        uint64_t count;
        uint32_t line[MAP_TALLY_LINES]; /* the first; 0: none */
    } tallies[MAP_TALLIES];
    map_conditions conditions; /* of the row */
    char condition[MAP_CONDITION_BYTES + 32 * MAP_CONDITIONS_MAX];
    char host[MAP_HOST_MAX + 1];
    char path[REDIRECT_MAX_TEXT + 1];
    char query[3 * REDIRECT_MAX_TEXT + 1];
    char target[3 * REDIRECT_MAX_TEXT + 1];
    char expanded[REDIRECT_MAX_TEXT + 1]; /* a target with its names replaced */
    char pattern[REDIRECT_MAX_TEXT + 1];
} map_reader;

/* What is 0 when reading begins. Edits are read row by row. */
#define MAP_READER_HEAD offsetof(map_reader, path)

/** A source taken apart. */
typedef struct map_source {
    unsigned flags;   /* REDIRECT_HTTP, REDIRECT_HTTPS or 0 */
    const char *host; /* in the reader; NULL: none */
    size_t host_len;
    map_text path;  /* as written */
    map_text query; /* as written, without "?" */
} map_source;

/** A row as a reader has found it. */
typedef struct map_row {
    const redirect_map_options *options; /* the reader's, or the row's own */
    map_text source, target;             /* without blanks at their ends */
    int status;                          /* 0: none named */
    bool target_is_error;                /* with a status that has no target; else it is dropped */
    unsigned flags;                      /* REDIRECT_ICASE, by the format */
    map_rank rank;                       /* MAP_RANK_QUERY and MAP_RANK_PLAIN are found out */

    /* For rows that are more than a path; kind is 0 for those that are not. */
    redirect_kind kind;
    const map_source *parts; /* the source, taken apart */
    const char *literal;     /* redirect_rule.source */
    size_t literal_len;
    const char *pattern;              /* NUL-terminated; NULL: none */
    map_text written, written_target; /* what the pattern was made of; NULL: it is as written */
    bool append_rest, expand;
    bool escaped;   /* the pattern is a literal: it means what the source would without escapes */
    bool drop_rest; /* subpath: one target for everything below the source */
} map_row;

/* maps/maps.c */
/** A reader, with nothing in it set; NULL: no memory. It has half a megabyte, and edits are read row by
 * row. So the pool keeps the one that was given back last, and frees it in the end. */
map_reader *redirect_map_reader_take(apr_pool_t *pool);
/** @a r is not used any more. */
void redirect_map_reader_give(map_reader *r, apr_pool_t *pool);
void redirect_map_say(map_reader *r, redirect_severity severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** An error; false. */
bool redirect_map_fail(map_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void redirect_map_tally(map_reader *r, map_tally tally);
/** A row begins on this line. False when reading is to end. */
bool redirect_map_begin_row(map_reader *r);
/** @a len bytes without NUL, cut to what fits in a message. In the row's pool. */
const char *redirect_map_quote(map_reader *r, const char *s, size_t len);
map_text redirect_map_text_of(const char *s, size_t len);
map_text redirect_map_trim(map_text text);
bool redirect_map_text_is(map_text text, const char *lower_case);
/** For qsort() of map_texts: by their bytes. */
int redirect_map_compare_texts(const void *a, const void *b);
/** 100 to 999, or Redirect's words for some of them; 0 when it is neither. */
int redirect_map_status_of(map_text text);
/** Set one option of a row. */
bool redirect_map_row_option(map_reader *r, redirect_map_options *options, map_text word);
/** The end of the line at r->at (at the LF, or the end of the file). */
const char *redirect_map_line_end(const map_reader *r);
/** The next word before @a eol; a comment begins with "#" behind a blank. False: there is none. */
bool redirect_map_word(map_reader *r, const char *eol, map_text *word);

/* maps/text.c */
typedef enum map_word_kind { MAP_WORD, MAP_WORD_QUOTED, MAP_NO_WORD, MAP_BAD_WORD } map_word_kind;
/** The next word as the text format has them, also in quotes. @a copy has room for
 * REDIRECT_MAX_TEXT bytes, for a word whose backslashes are taken away. */
map_word_kind redirect_map_next_word(map_reader *r, const char *eol, char *copy, map_text *word);
/** Does the word begin as an option of a row does, "query=" and so on? */
bool redirect_map_is_option(map_text word);

/* maps/row.c */
/** Scheme and host, path, query; the fragment is dropped. False: reported. */
bool redirect_map_split(map_reader *r, map_text source, map_source *parts);
/** @a path decoded to r->path, with a leading slash and without dot segments. False: reported. */
bool redirect_map_decode_path(map_reader *r, map_text path, size_t *len);
/** Decode @a text to @a to, as sources are. Message or NULL. */
const char *redirect_map_decode(map_text text, char *to, size_t *len);
/** Make a rule of the row and add it. */
void redirect_map_add(map_reader *r, const map_row *row);

/* maps/signs.c */
/** False, reported: the source looks like a pattern in a format that has none, or, with @a wildcards,
 * like a regex in one that has "*" and ":name". */
bool redirect_map_check_literal(map_reader *r, const map_source *parts, map_text target,
                                bool wildcards);
/** Where regexes stand in vercel.json. */
extern const char redirect_map_vercel_patterns[];
/** The byte at s[i] stands outside of all patterns of a source of vercel.json. False, reported: it
 * looks like one, or must have a backslash in front. */
bool redirect_map_check_vercel(map_reader *r, map_text s, size_t i);

/* maps/condition_text.c */
/** The kind of this name; MAP_CONDITIONS: none has it. */
redirect_condition_kind redirect_condition_kind_of(const char *word, size_t len);
const char *redirect_condition_name(redirect_condition_kind kind);
/** The row has a condition, in the words of a text map. With @a negated it must not hold. False:
 * reported. */
bool redirect_map_condition(map_reader *r, redirect_condition_kind kind, bool negated,
                            map_text value);
/** The same of "cookie=a" and the like. *taken: it is such a word. */
bool redirect_map_condition_word(map_reader *r, map_text word, bool *taken);
/** Those of the row, for its rule. */
bool redirect_map_fill_condition(map_reader *r, const redirect_map_options *options,
                                 redirect_rule *rule);

/* maps/json_condition.c */
/** One of "has" or "missing". A NULL text where there is no such key. */
typedef struct map_json_condition {
    map_text type, key, value;
    bool other; /* one of them is not a string */
} map_json_condition;
/** It is the row's, or a host for its options. NULL, or why it cannot be had; *failed: which was
 * reported. */
const char *redirect_map_json_condition(map_reader *r, const map_json_condition *c, bool missing,
                                        redirect_map_options *own, bool *failed);
/** The target takes nothing from the row's conditions, nor what its source does not have. False:
 * reported. */
bool redirect_map_json_names(map_reader *r, const map_row *row);

/* maps/pattern.c */
/** Text that is built up in a buffer. */
typedef struct map_buffer {
    char *to;
    size_t len, size;
    bool full;
} map_buffer;
void redirect_map_put(map_buffer *b, const char *s, size_t len);
/** The same of a string. */
void redirect_map_put_text(map_buffer *b, const char *s);
/** Bytes that stand for themselves in a regex. */
void redirect_map_put_literal(map_buffer *b, const char *s, size_t len);

/** Names that stand for groups of a pattern. */
typedef struct map_names {
    unsigned count; /* groups, with names or without */
    map_text name[MAP_GROUPS];
} map_names;
/** The next group is called this (an empty text: nothing). False: too many, reported. */
bool redirect_map_names_add(map_reader *r, map_names *names, map_text name);
/** The number of the group with this name; 0: none. */
unsigned redirect_map_names_find(const map_names *names, map_text name);
size_t redirect_map_name_length(const char *s, size_t len);

/** Is ":name" in a source or target, without a backslash in front? */
bool redirect_map_has_name(map_text s, map_text name);
/** Each "/:name" of the target is in the source, too. False: reported. */
bool redirect_map_check_names(map_reader *r, map_text source, map_text target);
/** Replace ":name" in a target by "$number", in r->expanded, and say so in row->expand. With
 *  @a vercel also "*" and "+" behind a name are dropped, and "$number" means a group. False:
 * reported. */
bool redirect_map_expand_names(map_reader *r, const map_names *names, bool vercel, map_row *row);
/** Add a row with the pattern in @a b (r->pattern): the kind and the literal are found out. */
void redirect_map_add_pattern(map_reader *r, map_row *row, map_buffer *b);
/** The pattern with @a text, or a number, for each of its groups and classes. Whether it matches that,
 * and as a whole, is for the caller to find out. */
const char *redirect_map_sample(const char *pattern, const char *text, apr_pool_t *pool);

/* maps/detect.c */
typedef enum map_httpd {
    MAP_NOT_HTTPD,
    MAP_MAYBE_HTTPD, /* most lines begin with the name of a directive */
    MAP_HTTPD
} map_httpd;
/** Is this httpd's own configuration, or a .htaccess file? */
map_httpd redirect_map_looks_like_httpd(const char *name, const char *bytes, size_t len);

/* maps/csv.c */
#define REDIRECT_MAX_NAMES 4096 /* bytes of a header row of which it is found out */
/** True when the line, without its end, names the columns of a redirect list. */
bool redirect_map_is_csv_header(const char *line, size_t len);
/** True when a CSV file has the columns of Cloudflare's bulk redirects; with @a guess also when
 * its rows look so. @a columns as in columns=, or NULL. */
bool redirect_map_is_cloudflare_csv(const char *bytes, size_t len, const char *columns, bool guess);

/** The order that Cloudflare documents, where a file names no columns. */
void redirect_map_cloudflare_columns(redirect_csv *table);

/* maps/nginx.c */
/** Is this what a map of paths compares? *host: it begins with the host, without a scheme. */
bool redirect_map_nginx_subject(map_text variable, bool *host);

/* The readers. APR_EGENERAL: not of this format, reported. */
apr_status_t redirect_map_read_text(map_reader *r);
apr_status_t redirect_map_read_csv(map_reader *r);
apr_status_t redirect_map_read_netlify(map_reader *r);
apr_status_t redirect_map_read_nginx(map_reader *r);
apr_status_t redirect_map_read_json(map_reader *r);

/* maps/overlay_find.c, maps/overlay_edit.c: the header of an overlay's image */
#define OVERLAY_MAGIC UINT64_C(0x3279726c76634874) /* "tHcvlry2"; other byte orders read another */
#define OVERLAY_ALIGN 64                           /* of the table: buckets are cache lines */

typedef struct overlay_head {
    uint64_t magic;
    uint64_t base, since, edits, older; /* as in redirect_overlay */
    uint32_t rules, ngone, ngone_older;
    uint32_t table_at, table_size;
    uint32_t query_end, next, differing; /* as in redirect_overlay */
    uint32_t nkeys;                      /* words of the filter of keys, a power of two */
    uint32_t keyed;                      /* 1: they are of all rows, and of all that is gone */
    uint32_t strange;                    /* as in redirect_key_filter */
    uint32_t zero;
    uint64_t strange_lengths; /* the same */
} overlay_head;

/* Where a row stands: its place, see redirect_overlay_place(), its rank among those that have it, and a
 * number among those that have both. In an image the upper half comes first. */
typedef struct overlay_order {
    uint64_t upper, lower;
} overlay_order;
#define OVERLAY_START      ((overlay_order){0, 0})
#define OVERLAY_NOWHERE    ((overlay_order){UINT64_MAX, UINT64_MAX})
#define OVERLAY_RANK_BITS  31
#define OVERLAY_BEHIND_ALL ((UINT64_C(1) << 33) - 1)

/* What a row of an overlay is besides; below its number. */
#define OVERLAY_ROLE_BITS 8
enum {
    OVERLAY_ROW_MOVED = 1, /* it is as in the base: others that it is compared with were edited */
    OVERLAY_ROW_HAS_BELOW = 2, /* the row has a second rule, for the hosts below its own: */
    OVERLAY_ROW_BELOW = 4
};

static inline overlay_order overlay_order_of(uint64_t place, uint64_t rank, uint32_t number)
{
    return (overlay_order){place << OVERLAY_RANK_BITS | rank,
                           (uint64_t)number << OVERLAY_ROLE_BITS};
}

static inline bool overlay_is_before(overlay_order a, overlay_order b)
{
    return a.upper != b.upper ? a.upper < b.upper : a.lower < b.lower;
}

/* maps/overlay_find.c */
unsigned redirect_overlay_role(const redirect_overlay *overlay, uint32_t index);
uint32_t redirect_overlay_number(const redirect_overlay *overlay, uint32_t index);
/** redirect_edited_lookup() among the rows that stand behind this order. OVERLAY_START: among all. */
redirect_origin redirect_edited_next(const redirect_edited *edited, const redirect_table *base,
                                     const redirect_request *request, const redirect_request *own,
                                     const redirect_request *older, overlay_order behind,
                                     redirect_match *match);
/** Where a row of the overlay stands among all others. */
overlay_order redirect_overlay_order(const redirect_overlay *overlay, uint32_t index);

#endif
