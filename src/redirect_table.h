/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file redirect_table.h
 * An ordered list of redirect rules in which the first that matches wins, compiled into one
 * immutable, relocatable image and looked up by hashing: what a look-up costs depends on the
 * request's path, not on the number of rules. Bulk maps, Redirect lines and blocks of RewriteRules
 * all become such tables. Part of the core: no httpd headers.
 *
 * A table is made by a builder in private memory, written as one run of bytes (the image) to
 * wherever the caller wants it, and opened there, also by other processes and at other addresses.
 * An image is never changed; look-ups take no lock and allocate nothing.
 *
 * An image that another process can write is safe to read all the same. Whatever is written to it,
 * also while it is read, no function here reads outside of the image or runs without end. The rules
 * that it then returns may be nonsense, within these bounds: lengths are not above their limits and
 * within the image, numbers of patterns and rules are below the table's totals, kind and status are
 * possible ones. Texts need not end in a NUL.
 */
#ifndef HTC_REDIRECT_TABLE_H
#define HTC_REDIRECT_TABLE_H

#include "redirect_table/prefix_filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <apr_errno.h>
#include <apr_pools.h>

/** Longest source, target, pattern, query or strip, in bytes. */
#define REDIRECT_MAX_TEXT 65535
/** Longest host. A DNS name has at most 253 bytes. */
#define REDIRECT_MAX_HOST 255
/** Most bytes of an image, so that places in it fit in 32 bits. */
#define REDIRECT_MAX_IMAGE UINT32_MAX

/** How a rule's source is compared with the path. A path may hold any bytes; "/" separates
 * segments. */
typedef enum redirect_kind {
    /** The whole path. Any run of slashes equals one, on both sides. */
    REDIRECT_EXACT = 1,
    /** As mod_alias compares: the path begins with the source, runs of slashes equal one, and
     *  unless the source ends in a slash the next byte of the path is a slash or there is none. */
    REDIRECT_PREFIX,
    /** As the regex ^source$ compares: byte for byte, with an optional newline behind. */
    REDIRECT_LITERAL,
    /** As the regex ^source compares: byte for byte, and anything may follow. */
    REDIRECT_LITERAL_PREFIX,
    /** The caller's function runs the regex `pattern`. Every path that it matches begins with
     * `source` (which may be empty) or, with REDIRECT_FLOATING, contains it. */
    REDIRECT_PATTERN,
    /** As PATTERN, but never FLOATING, and for `pattern` redirect_template_is() holds. No regex is
     * run. */
    REDIRECT_TEMPLATE
} redirect_kind;

/** True when rules of the kind must have a pattern, which says what paths they match. */
static inline bool redirect_kind_has_pattern(redirect_kind kind)
{
    return kind == REDIRECT_PATTERN || kind == REDIRECT_TEMPLATE;
}

enum {
    REDIRECT_ICASE = 1, /**< ASCII letters of the path (not of query or host) in any case */
    REDIRECT_ANY_SLASH =
        2,                 /**< EXACT and PREFIX: a slash at the end of source or path is ignored */
    REDIRECT_FLOATING = 4, /**< PATTERN: `source` may begin anywhere in the path */
    REDIRECT_QUERY_EXACT = 8, /**< `query` is compared as a whole; else as a set of parameters */
    REDIRECT_HTTP = 16,       /**< only for http */
    REDIRECT_HTTPS = 32,      /**< only for https */
    REDIRECT_SEARCHED = 64    /**< TEMPLATE, set by the builder: redirect_template_needs_search() */
};

/** A rule as the builder is given it. Strings are counted, need not be NUL-terminated, stay the
 *  caller's, and are copied. A NULL pointer means there is none. */
typedef struct redirect_rule {
    redirect_kind kind;
    unsigned flags; /* REDIRECT_* bits */
    const char *source;
    size_t source_len;
    const char *
        literals; /* of a PATTERN or TEMPLATE: texts, each with a NUL behind, that every path which it
                           * matches contains, in any case of ASCII letters. It may be found by one
                           * of them, and need not be run for other paths. NULL: none are known */
    size_t literals_len;
    const char *pattern; /* the regex of a PATTERN or TEMPLATE. Other kinds may have one, for
                          * back-references. No NUL in it; the same holds for strip */
    size_t pattern_len;
    const char
        *host; /* lower case, no port; "*.name" is any host below name; NULL: any; never empty */
    size_t host_len;
    const char *query; /* condition on the request's query. With QUERY_EXACT it must be equal.
                        * Without, it must have the same parameters, each as often, in any
                        * order; empty ones do not count, so "" stands for no parameters. NULL:
                        * no condition */
    size_t query_len;
    const char *strip; /* parameters that are left out on both sides when queries are compared
                        * as sets: names with commas between them. "*" at the end of a name
                        * stands for all names that begin so */
    size_t strip_len;
    const char *condition; /* on what else the request has, in the caller's words: redirect_judge
                            * is asked. Rules of one source have different ones. NULL: none; else
                            * not empty, and no NUL in it */
    size_t condition_len;
    int status; /* 100 to 999 */
    const char *target;
    size_t target_len;
    unsigned options; /* 16 bits for the caller, given back with a match */
    uint32_t line;    /* for reports; see REDIRECT_BY_ROW */
} redirect_rule;

/** Of a line: several rows of the file stand in one, so this is the row's number among them. */
#define REDIRECT_BY_ROW UINT32_C(0x80000000)

/** The number of the line, or of the row. */
static inline unsigned redirect_line_number(uint32_t line)
{
    return line & ~REDIRECT_BY_ROW;
}

/** "line" or "row", for text. */
static inline const char *redirect_line_word(uint32_t line)
{
    return line & REDIRECT_BY_ROW ? "row" : "line";
}

/** In front of the number in "FILE:3" and "FILE:row 3". */
static inline const char *redirect_line_prefix(uint32_t line)
{
    return line & REDIRECT_BY_ROW ? "row " : "";
}

typedef struct redirect_builder redirect_builder;
typedef struct redirect_table redirect_table;

/** Why a rule was not taken, from redirect_builder_add(). */
typedef enum redirect_outcome {
    REDIRECT_ADDED,
    REDIRECT_BAD,     /* a field is out of its range, or the flags do not fit the kind */
    REDIRECT_TOO_BIG, /* the image would be larger than REDIRECT_MAX_IMAGE; nothing more fits */
    REDIRECT_NO_MEMORY
} redirect_outcome;

/** A builder for about @a expected rules with @a bytes of text in all (both are hints; 0 is
 * allowed). It has memory of its own, not a pool. NULL when there is no memory. */
redirect_builder *redirect_builder_create(size_t expected, size_t bytes);

/** Append a rule. Not thread-safe. */
redirect_outcome redirect_builder_add(redirect_builder *builder, const redirect_rule *rule);

/** All rules stay in the table, also those that no request can reach: edits may take away what stands
 * in front of them. */
void redirect_builder_keep_all(redirect_builder *builder);

/** Called by redirect_builder_finish() for each rule that no request can reach because an earlier
 * one has the same source, host, query, flags and condition. It is left out of the table. Stripped
 * parameters count, and the second of two rules of a line with a host as "*.h" is no other line's:
 * edits may take away the rule that hides such a one. */
typedef void redirect_duplicate_fn(void *baton, uint32_t line, uint32_t first_line);

/**
 * Make the index. @a duplicate may be NULL. Linear in the number of rules.
 * @return APR_SUCCESS and the image's size in *size; APR_ENOMEM; APR_ENOSPC when it is too large.
 */
apr_status_t redirect_builder_finish(redirect_builder *builder, redirect_duplicate_fn *duplicate,
                                     void *baton, size_t *size);

/** How many rules the table has; after finish. */
uint32_t redirect_builder_rules(const redirect_builder *builder);

/** The image in the builder's own memory; after finish, and before write and take. */
const void *redirect_builder_image(const redirect_builder *builder);

/** Write the image to @a to (8-byte aligned), which has room for the size that finish returned.
 * Once, after finish. */
void redirect_builder_write(redirect_builder *builder, void *to);
/** Take the image where it was built, instead of writing it. It lies in memory from mmap(),
 * whose size becomes *mapped; the caller calls munmap(). Afterwards the builder can only be
 * destroyed. */
void *redirect_builder_take(redirect_builder *builder, size_t *mapped);

void redirect_builder_destroy(redirect_builder *builder);

/**
 * Prove that a builder may have written the @a size bytes at @a image (8-byte aligned). No other
 * thread or process may write to the image meanwhile. Takes time linear in its size.
 * @return APR_SUCCESS; APR_EINVAL; APR_ENOMEM: there is no memory for a bit for each byte of the
 * image.
 */
apr_status_t redirect_table_validate(const void *image, size_t size);

/** Open an image. The table keeps pointing into it; it is a small struct in @a pool. NULL when its
 * header is impossible. */
const redirect_table *redirect_table_open(const void *image, size_t size, apr_pool_t *pool);

/** The regex function: does pattern number @a id of the table (they are numbered from 0 without
 * gaps) match? @a flags has REDIRECT_ICASE or not. @a pattern is NUL-terminated. */
typedef bool redirect_regex_fn(void *baton, uint32_t id, const char *pattern, unsigned flags,
                               const char *subject, size_t len);

/** How many sources a look-up remembers as those of which no rule is wanted. */
#define REDIRECT_REFUSED 8

/** What a request says to rules with a condition. Rules are of one source when kind, source, host,
 * query and flags are the same. If one of these matches and a condition of some of them is a
 * comparison with the others, the look-up has the caller compare: it offers all that hold, in their
 * order, and goes on as it is told. A caller keeps its own data behind this struct. */
typedef struct redirect_judge redirect_judge;

typedef enum redirect_choice {
    REDIRECT_CHOSEN,    /* the best of them */
    REDIRECT_NEXT_RULE, /* none of them; the look-up goes on with other sources */
    REDIRECT_NO_ANSWER  /* none of them, and no other rule either: the look-up ends */
} redirect_choice;

struct redirect_judge {
    /** Is the condition a comparison with others? */
    bool (*compares)(const redirect_judge *judge, const char *condition, size_t len);
    /** Does it hold, as far as it is none? */
    bool (*holds)(redirect_judge *judge, const char *condition, size_t len);
    /** One of several rules, which holds; a length of 0: without a condition. True when it is the
     * best one so far. The first one counts as such. */
    bool (*offer)(redirect_judge *judge, const char *condition, size_t len);
    /** All have been offered. The next offer begins anew. */
    redirect_choice (*choose)(redirect_judge *judge);
    /** NULL, or: does the rule not count? @a first: it was found, and is to be judged; otherwise it
     * is another one of its source. Asked only of sources some rule of which has a condition. */
    bool (*left_out)(const void *left_out_of, uint32_t rule, bool first);
    const void *left_out_of;
    uint32_t decided_at; /* the rule by whose source the look-up ended, with an answer or without;
                          * as it was if no condition was asked then */
    uint32_t refused[REDIRECT_REFUSED]; /* the look-up's own; `refusals` is 0 to begin with */
    unsigned refusals;
    const redirect_table *table; /* and */
    uint32_t rule;               /* whose condition is being asked */
    uint64_t steps; /* taken so far: for each rule that was looked at, and by what a caller adds */
    uint64_t most;  /* 0, or: the look-up ends without an answer when it has taken more steps */
};

/** True when a look-up has ended because it took too many steps. Its result means nothing. */
static inline bool redirect_judge_is_over(const redirect_judge *judge)
{
    return judge->most && judge->steps > judge->most;
}

typedef struct redirect_request {
    const char *path; /* decoded, as httpd has it in r->uri; NUL-terminated */
    size_t path_len;
    const char *host; /* lower case, without port; NULL when unknown */
    size_t host_len;
    bool https;
    const char *query; /* without "?"; NULL: none, which equals an empty one */
    size_t query_len;
    redirect_regex_fn *regex; /* NULL: patterns do not match */
    void *baton;
    redirect_judge *judge; /* NULL: rules with a condition do not match */
    uint64_t *compared;    /* the number of rules compared in lists for one key is added to it;
                         * NULL: not counted. The rest of the work is bounded by the path's
                         * length */
    uint64_t *steps;       /* what templates may take, in bytes gone over: lowered by that. At 0 no
                         * more of them are compared, and what was found means nothing. NULL: no
                         * limit */
    /** For redirect_map_location(): escape a decoded path for a URL. NULL: redirect_escape_path().
     */
    const char *(*escape)(apr_pool_t *pool, const char *path);
} redirect_request;

enum { REDIRECT_HAS_TARGET = 1, REDIRECT_HAS_QUERY = 2 };

/** What many rules have in common. */
typedef struct redirect_profile {
    uint8_t kind; /* redirect_kind */
    uint8_t has;  /* REDIRECT_HAS_TARGET; REDIRECT_HAS_QUERY: a condition on the query; others are
                   * the table's own */
    uint16_t flags;
    uint16_t status;
    uint16_t options;
    uint32_t strip, origin; /* the table's own */
} redirect_profile;

typedef struct redirect_match {
    uint32_t rule; /* its place in the image: later rules have higher numbers. 0: none */
    redirect_profile profile;
    size_t matched; /* PREFIX: where the rest of the path begins, behind the slashes if the
                     * source ends in one, otherwise with them. Other kinds: path_len */
    size_t target_len;
    const char *strip; /* as given with the rule, in the image; NULL: none */
    size_t strip_len;
    const char *pattern; /* in the image; NULL: none */
    size_t pattern_len;
    uint32_t pattern_id; /* valid with pattern; less than `patterns` of the table's totals */
    const char *part[4]; /* the target in four pieces, all in the image; not NULL */
    size_t part_len[4];
} redirect_match;

/**
 * Find the first rule that matches, among those from @a from on (0: all). Thread-safe; takes no
 * lock and allocates nothing. It goes over the path once, and looks only at candidates. At each "/"
 * at which the table has rules it asks a small filter, and looks further only where the filter says
 * that there may be rules. Where there is one such "/", or only the whole path, it asks the index
 * at once.
 */
bool redirect_table_lookup(const redirect_table *table, const redirect_request *request,
                           uint32_t from, redirect_match *match);

/* --- redirect_table/edited.c ------------------------------------------------------------------ */

#define REDIRECT_STRANGE_EXACT 1

/** Keys by which look-ups in a table find rules, or would find them: a Bloom filter. */
typedef struct redirect_key_filter {
    uint64_t *words;
    uint64_t count; /* a power of two */
    /* Of rules for which look-ups in the table make no key: */
    uint32_t strange; /* REDIRECT_STRANGE_EXACT: there is an EXACT one */
    uint64_t
        strange_lengths; /* bits: how long sources of PREFIX rules are, without a slash at the end */
} redirect_key_filter;

/** Add that of a rule. False: the keys of such a rule are not known beforehand. */
bool redirect_filter_add(redirect_key_filter *keys, const redirect_table *table,
                         const redirect_rule *rule);

/**
 * A table for looking up as in @a base, but for requests to which rules with these keys might come.
 * For such a request a look-up from 0 on is false, and the match's rule is REDIRECT_ASK_EDITS.
 * @a edits: tables of all these rules that @a base has not. The new table needs the images of base and
 * keys, not the other tables.
 */
const redirect_table *redirect_table_beside(const redirect_table *base,
                                            const redirect_table *const *edits, unsigned n,
                                            const redirect_key_filter *keys, apr_pool_t *pool);

#define REDIRECT_ASK_EDITS UINT32_MAX

/* ---------------------------------------------------------------------------------------------- */

/** Bytes that redirect_match_target() may write behind a target. */
#define REDIRECT_SLACK 32

/** Copy a match's target to @a to, which has room for target_len + REDIRECT_SLACK bytes. The
 * bytes behind the target are undefined. No NUL is added. */
void redirect_match_target(const redirect_match *match, char *to);

/** Totals, from the image's header. */
typedef struct redirect_table_info {
    uint32_t rules, exact, prefix, pattern; /* LITERAL counts as exact, LITERAL_PREFIX as prefix,
                                             * TEMPLATE as pattern */
    uint32_t patterns;                      /* distinct pattern ids */
    size_t bytes;
    bool uses_host, uses_query; /* some rule has such a condition */
    bool uses_condition;        /* or a redirect_rule.condition */
} redirect_table_info;

void redirect_table_info_get(const redirect_table *table, redirect_table_info *info);

/** Room for a rule's target and source. */
#define REDIRECT_RULE_ROOM (2 * REDIRECT_MAX_TEXT)

/** The rule at @a match->rule as text. Its strings lie in the image or in @a buffer, which has
 * room for REDIRECT_RULE_ROOM bytes. Target and source are as they were given, except that EXACT
 * and PREFIX sources have single slashes. *index (may be NULL) is the rule's number in the table,
 * from 0. */
void redirect_table_rule(const redirect_table *table, uint32_t rule, redirect_rule *out,
                         char *buffer, uint32_t *index);

/** The first rule (@a rule 0) or the one after @a rule; 0 behind the last. */
uint32_t redirect_table_next(const redirect_table *table, uint32_t rule);

/** Where a walk over all rules is. All 0: in front of the first. */
typedef struct redirect_step {
    uint32_t rule, line, index; /* as of redirect_table_line() */
    uint32_t next;              /* the place behind the rule */
} redirect_step;

/** Go on to the next rule, and take it apart as redirect_table_rule() does, in order and so with fewer
 * steps. False: there is none. */
bool redirect_table_step(const redirect_table *table, redirect_step *at, redirect_rule *out,
                         char *buffer);

/** The line that @a rule was given with, and its index; cheaper than redirect_table_rule(). */
uint32_t redirect_table_line(const redirect_table *table, uint32_t rule, uint32_t *index);

/** The rule with this index, or 0. */
uint32_t redirect_table_nth(const redirect_table *table, uint32_t index);

/** A hash of what @a rule answers to and with: source, conditions, target and status, but not
 * line or place. It is the same in every image and process, so a rule can be found again in
 * another image. */
uint64_t redirect_table_key(const redirect_table *table, uint32_t rule);

/** True when two queries, compared as sets, have the same parameters but for those of @a strip (as
 * redirect_rule.strip). */
bool redirect_query_equal(const char *a, size_t a_len, const char *b, size_t b_len,
                          const char *strip, size_t strip_len);

/** The version of the image format. */
uint64_t redirect_table_format(void);

/* --- redirect_table/template.c ---------------------------------------------------------------- */

/** The groups of a pattern: group i is path[start, end), -1: unset. */
typedef struct redirect_group {
    int start, end;
} redirect_group;
#define REDIRECT_GROUPS 10 /* most that a template can have, with number 0 */

/**
 * Is the regex a template, whose meaning the table knows itself? It is written with literals and
 *
 *   ([^/]+)                a name: bytes of one segment
 *   (.*)                   a splat: any bytes, also none
 *   (?:/(.*))?             the same with the slash ahead of it, or nothing
 *   (?:/([^/]+))?          a segment, or nothing
 *   ((?:[^/]+)(?:/(?:[^/]+))*)          segments
 *   (?:/((?:[^/]+)(?:/(?:[^/]+))*))?    segments, or nothing
 *
 * between "^" and "$" or "/?$", with one to nine of these groups. Each name may be lazy, [^/]+?. A
 * literal between two groups has at most 255 bytes. Others are left to a regex library.
 */
bool redirect_template_is(const char *pattern, size_t len);

/** Has the template several groups that may each have several places? It is matched with
 * REDIRECT_SEARCHED then. */
bool redirect_template_needs_search(const char *pattern, size_t len);

/**
 * Does the template match, as a regex in which "." matches each byte and "$" only the end? Takes no
 * lock, allocates nothing, and its time is linear. @a flags: REDIRECT_ICASE, REDIRECT_SEARCHED or
 * both. With the latter paths of more than 16,384 bytes do not match. What is no template may match
 * or not.
 * @return the number of its groups, with number 0, of which the first @a max are in @a groups (may
 * be NULL); 0: it does not match.
 */
int redirect_template_match(const char *pattern, size_t len, unsigned flags, const char *path,
                            size_t path_len, redirect_group *groups, int max);

#endif
