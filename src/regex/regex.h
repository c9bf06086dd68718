/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file regex/regex.h
 * Reads the text of a PCRE regex and says what every string that it matches must look like, so that
 * rules with regexes can be found by hashing. The regex itself is neither compiled nor run here.
 * Part of the core: no httpd headers.
 *
 * "Matches" means what ap_regexec() answers for a whole subject, from its first byte, without
 * NOTBOL and NOTEOL, where an error (a match limit, say) is no match. What is said holds for PCRE2
 * (from 10.30) and PCRE 8 with their own character tables ("C" locale), the usual limits, no JIT,
 * not in UTF mode (a pattern that asks for it itself is NONE), and a newline that is LF. A pattern
 * that does not compile may get any answer.
 *
 * A weaker kind is always right, too: what is not understood exactly becomes a weaker claim.
 */
#ifndef HTC_REGEX_REGEX_H
#define HTC_REGEX_REGEX_H

#include <stdbool.h>
#include <stddef.h>

#include <apr_pools.h>

/** How the pattern is compiled: what ap_regcomp() makes of its flags and of RegexDefaultOptions. */
enum {
    REDIRECT_REGEX_ICASE = 1,
    REDIRECT_REGEX_DOTALL = 2,
    REDIRECT_REGEX_DOLLAR_ENDONLY = 4,
    REDIRECT_REGEX_MULTILINE = 8,
    /** httpd 2.4 without RegexDefaultOptions */
    REDIRECT_REGEX_DEFAULT = REDIRECT_REGEX_DOTALL | REDIRECT_REGEX_DOLLAR_ENDONLY
};

typedef enum redirect_regex_kind {
    /** Nothing is known of the strings. */
    REDIRECT_REGEX_NONE = 0,
    /** Every match contains one of `strings`; the regex decides. */
    REDIRECT_REGEX_FLOATING,
    /** Every match begins with one of `strings`; the regex decides. If `inner_count` is not 0,
     * every match also contains one of `inner`, the shortest of which is longer than the shortest
     * of `strings`. */
    REDIRECT_REGEX_PREFIXED,
    /** Matches exactly what is equal to one of `strings`, or begins with one that has `rest` set.
     */
    REDIRECT_REGEX_FINITE_MIXED,
    /** Matches exactly what begins with one of `strings` (`rest` is set in each). A single empty
     * string: matches everything. */
    REDIRECT_REGEX_FINITE_PREFIX,
    /** Matches exactly `strings` (`rest` is set in none), see final_newline. */
    REDIRECT_REGEX_FINITE
} redirect_regex_kind;

/** Counted, may hold any byte, also NUL; NUL-terminated besides. */
typedef struct redirect_regex_string {
    const char *text;
    size_t len;
    bool rest; /* for the FINITE kinds: anything may follow */
} redirect_regex_string;

typedef struct redirect_regex_facts {
    redirect_regex_kind kind;
    /** Compare ASCII letters in any case; those of the strings are lower case then. Bytes over 127
     *  are always compared as they are. */
    bool caseless;
    /** FINITE and FINITE_MIXED: each string without `rest` also matches with one newline behind. */
    bool final_newline;
    /** Every match begins at the subject's first byte. False: this is not so, or not known. */
    bool anchored;
    /** Capturing groups; -1 when not known. */
    int groups;
    /** False: there is no capturing group. */
    bool has_groups;
    unsigned count; /* of strings: at least 1 unless NONE. None begins with another one's text where
                     * that would say nothing more. */
    const redirect_regex_string *strings;
    unsigned inner_count;
    const redirect_regex_string *inner;
} redirect_regex_facts;

typedef struct redirect_regex_limits {
    unsigned strings; /* most strings, 1 to 256; 0: 16 */
    unsigned inner;   /* most strings of FLOATING and in `inner`, 1 to 256; 0: 4. With 1 it is the
                       * longest literal that every match contains. */
} redirect_regex_limits;

/**
 * Read @a pattern of @a len bytes, compiled with @a flags (REDIRECT_REGEX_* bits), without a
 * leading
 * "!" or other decoration. @a limits may be NULL. What @a facts points to is allocated from @a
 * pool; all else that is needed for a while is given back. Time and memory are bounded whatever the
 * pattern: patterns over 64 KiB, with NUL bytes or groups nested over 200 deep are NONE.
 */
void redirect_regex_read(const char *pattern, size_t len, unsigned flags,
                         const redirect_regex_limits *limits, apr_pool_t *pool,
                         redirect_regex_facts *facts);

/** As many bytes as the pattern takes at most when it is compiled by PCRE as it is usually built:
 * nine times its length and a few hundred, and what redirect_regex_copies() says. */
size_t redirect_regex_bytes(const char *text, size_t len);

/** The part of it that is for groups repeated by number, which PCRE copies, up to 64 KiB for each
 * pattern. @a text may also be a directive's arguments with several patterns. 0: there are none. */
size_t redirect_regex_copies(const char *text, size_t len);

/** Literals of which every name that one of some patterns matches has one. Begins with all bytes 0.
 */
typedef struct redirect_literals {
    unsigned char bytes[512]; /* the list, which ends with a 0; to be copied as it is */
    size_t len;               /* without that 0 */
} redirect_literals;

/** Add what a name must have to be @a text; to match a pattern of apr_fnmatch() without
 * APR_FNM_CASE_BLIND, where it has no '/'; to match a regex of which @a facts are known. False: that
 * is not known, or there are too many. Then the list is of no use. */
bool redirect_literals_add_text(redirect_literals *list, const char *text);
bool redirect_literals_add_wildcards(redirect_literals *list, const char *pattern);
bool redirect_literals_add_regex(redirect_literals *list, const redirect_regex_facts *facts);

/** False: @a name has none of them, so none of the patterns matches it. */
bool redirect_literals_any(const unsigned char *list, const char *name);

#endif
