/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/**
 * @file negotiate/negotiate.h
 * Proactive content negotiation (RFC 9110, section 12.1): which of a source's rows does a request
 * want by its Accept and Accept-Language? A row, here a variant, names the media types and the
 * languages of its target, or does not. Part of the core: no httpd headers. Allocates nothing, and
 * keeps no state but what the caller has on its stack; any number of threads may negotiate.
 *
 *     negotiation n;
 *     negotiate_begin(&n, accept, accept_language);
 *     for each row of the source, in their order: negotiate_offer(&n, &variant);
 *     answer = negotiate_end(&n);
 *
 * Which variant is the best
 *
 * 1. In each of the two dimensions a variant has a quality: the weight of the most specific range
 *    that matches, 0 when none does. Of several types or languages of one variant the best counts.
 *    A variant with quality 0 in a dimension is not acceptable.
 * 2. A variant that names no type (language) is the default in that dimension: it is always
 *    acceptable, and comes behind each variant that names an acceptable one, however low that one's
 *    weight.
 * 3. The variant with the best type is the best; of those with equally good types the one with the
 *    best language; of those the one that was offered first.
 *
 * RFC 9110 leaves it to the server how the dimensions are combined. 3 is what mod_negotiation does
 * ("is_variant_better"; it multiplies the two for transparent negotiation alone, RFC 2296). It
 * needs no number for a variant without a language. By "Accept: text/turtle, text/html;q=0.1" data
 * without a language comes before a page in the right one. With a product it does not, if a missing
 * language is worth next to nothing. Where each type is there in each language, the
 * product has the same winner.
 *
 * mod_negotiation also changes weights that it was given ("fiddles"): wildcards count 0.01 and 0.02
 * when no member has a weight, and "en-US" accepts "en" with 0.001. Nothing of that here: it is not
 * in the RFC.
 *
 * What matches
 *
 * Accept (12.5.1): type/subtype with parameters, type/subtype, type/(star), (star)/(star), from the
 * most to the least specific; among ranges of one kind the one with more parameters; among equally
 * specific ones the one that stands first, as in mod_negotiation. A range matches a type that has all of the range's parameters, and perhaps more. Names and values of
 * parameters are compared in any case, as httpd does; whether a value is quoted makes no difference
 * (5.6.6), nor does the order of parameters.
 *
 * Accept-Language (12.5.4): basic filtering (RFC 4647, 3.3.1). A range matches a tag that is equal,
 * or that goes on with "-" after it; the longest range that matches counts, the first of two equal
 * ones, then "*". Filtering,
 * not lookup (3.4), because 12.5.4 names it as HTTP's own, because lookup has neither weights nor a
 * way to exclude a language, and because its fall back from "en-US" to "en" accepts what the client
 * did not. So "Accept-Language: en-US" alone does not accept a variant "en": the row says
 * "en,en-US", or there is a default.
 *
 * A header that is absent accepts everything equally (12.4.1), with weight 1.
 *
 * What is malformed
 *
 * A member that is malformed is ignored as a whole, and the others count. A member ends at a comma
 * outside of quoted strings. Any double quote begins a quoted string. It goes to the next one that
 * has no backslash before it; if there is none, the rest of the header is in it, and so in its
 * member.
 *
 * Passed over: a member that is empty or white space (5.6.1).
 * These members are ignored:
 * - with an octet that its grammar does not have there, white space around "/" or "=" included;
 * - with a weight that is not 0 to 1 with up to three digits (1.5, 0.1234, -1, none, in quotes);
 * - with two weights, or two parameters of one name;
 * - with a parameter without "=" or without a value;
 * - with more than NEGOTIATE_PARAMETERS parameters beside the weight;
 * - that is (star)/subtype;
 * - whose language range is not basic (en-(star), en_US, a subtag of nine letters);
 * - with a language range, and something other than one weight behind it, an empty parameter
 *   included.
 * Not malformed in Accept: empty parameters ("a/b;;q=1;"), and parameters behind the weight, which
 * are the range's as those before it (12.5.1 wants "q" to be the weight wherever it stands).
 *
 * Two exceptions are mod_negotiation's, and RFC 9110, 2.4, allows them: "*" in Accept is the range
 * of all types, and a weight may lack the 0 before its point. Java's HttpURLConnection says
 * "text/html, image/gif, image/jpeg, *; q=.2, (star)/(star); q=.2" of itself.
 *
 * A header without a member that counts says nothing, and is as one that is absent: who accepts
 * nothing says so with q=0. Only the first NEGOTIATE_MEMBERS members that are not malformed count;
 * what comes behind them is not read. Reading takes time in proportion to the header's length,
 * and each variant is compared with NEGOTIATE_MEMBERS ranges at most.
 */
#ifndef HTC_NEGOTIATE_NEGOTIATE_H
#define HTC_NEGOTIATE_NEGOTIATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NEGOTIATE_MEMBERS    64
#define NEGOTIATE_PARAMETERS 8

/** It names no type, or no language. */
#define NEGOTIATE_UNSAID 1001

/** Header fields, for "Vary". */
enum { NEGOTIATE_ACCEPT = 1, NEGOTIATE_ACCEPT_LANGUAGE = 2 };

/** What a row says of its target, as negotiate_types() and negotiate_languages() write it; a length
 * of 0: nothing. */
typedef struct negotiate_variant {
    const char *types, *languages;
    size_t types_len, languages_len;
} negotiate_variant;

/** One member of a header; the functions' own. */
typedef struct negotiate_range {
    const char *name;   /* type/subtype, or language; within the header */
    const char *end;    /* of the member */
    size_t len;         /* of the name; 0: any language */
    size_t type_len;    /* of the name up to the slash */
    uint16_t quality;   /* thousandths */
    uint8_t kind;       /* of media range */
    uint8_t parameters; /* how many, beside the weight */
} negotiate_range;

/** One header; the functions' own. */
typedef struct negotiate_header {
    const char *value;
    unsigned count;
    bool read;
    negotiate_range ranges[NEGOTIATE_MEMBERS];
} negotiate_header;

/** A negotiation under way; the functions' own. */
typedef struct negotiation {
    size_t offered, best;
    unsigned best_rank;
    unsigned type, language; /* of the last one offered: 0 to 1000 thousandths, NEGOTIATE_UNSAID */
    unsigned best_names, looked_at; /* header fields */
    negotiate_header types, languages;
} negotiation;

typedef enum negotiate_outcome {
    NEGOTIATE_NONE,    /* none acceptable */
    NEGOTIATE_CHOSEN,  /* the best one */
    NEGOTIATE_DEFAULT, /* one that does not say what others say of themselves, which are not
                          acceptable or have worse types */
} negotiate_outcome;

typedef struct negotiate_answer {
    negotiate_outcome outcome;
    size_t index;       /* of the variant, in the order of the offers; if there is one */
    unsigned looked_at; /* header fields that some variant depends on, sent or not */
} negotiate_answer;

/** Begin with the values of the two fields; several lines of one are joined by commas. NULL: the
 * request has none. The values must stay until the end. A header is read when the first variant
 * that depends on it is offered. */
void negotiate_begin(negotiation *n, const char *accept, const char *accept_language);

/** The next variant of the source. */
void negotiate_offer(negotiation *n, const negotiate_variant *variant);

/** The answer, once all variants of the source have been offered. */
negotiate_answer negotiate_end(const negotiation *n);

/** Check a row's list of media types ("text/html, application/xhtml+xml;charset=utf-8") and write it
 * to @a to as it is offered: lower case, without white space. @a to has room for @a len bytes; the
 * result is never longer. Returns its length. 0: not such a list; it is also an error when it is
 * empty, and when a type has wildcards, a weight, two parameters of one name, or more than
 * NEGOTIATE_PARAMETERS. */
size_t negotiate_types(const char *text, size_t len, char *to);

/** The same for language tags ("en, de-CH"). */
size_t negotiate_languages(const char *text, size_t len, char *to);

#endif
