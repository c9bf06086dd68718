/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reads a PCRE pattern, and puts together what is known of its parts while it reads. Called by
 * regex/regex.c. The syntax is that of pcre2pattern(3); the reader never guesses where a part
 * ends: what it does not know, or what PCRE's versions read differently, makes it lost.
 */
#include "regex/internal.h"

#include <string.h>

#define DEPTH_MAX 200

/* Options in force, besides REDIRECT_REGEX_ICASE and so on. */
enum { EXTENDED = 256, NO_CAPTURE = 512 };

/* A sequence of items. The literal bytes of reader->run come behind `sum`, `item` behind them;
 * there are never bytes and an item at once. */
typedef struct sequence {
    regex_part sum;
    regex_part item;
    bool has_item;
    bool repeatable; /* a quantifier may follow */
    unsigned *options;
} sequence;

static void read_alternatives(regex_reader *reader, unsigned *options, regex_part *part);

static void lose(regex_reader *reader)
{
    reader->lost = true;
}

static bool icase(const sequence *seq)
{
    return (*seq->options & REDIRECT_REGEX_ICASE) != 0;
}

static bool at_char(const regex_reader *reader, char c)
{
    return reader->at < reader->end && *reader->at == c;
}

/* Read `text` if it is next. */
static bool take(regex_reader *reader, const char *text)
{
    size_t len = strlen(text);

    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, text, len) != 0)
        return false;
    reader->at += len;
    return true;
}

/* Building the sequence */

static void flush_run(regex_reader *reader, sequence *seq)
{
    regex_part part;

    if (!reader->run_len)
        return;
    part = redirect_regex_literal(reader->work, reader->run, reader->run_len, icase(seq));
    seq->sum = redirect_regex_join(reader->work, &seq->sum, &part);
    reader->run_len = 0;
}

static void flush(regex_reader *reader, sequence *seq)
{
    flush_run(reader, seq);
    if (seq->has_item)
        seq->sum = redirect_regex_join(reader->work, &seq->sum, &seq->item);
    seq->has_item = false;
}

static void add_item(regex_reader *reader, sequence *seq, regex_part part, bool repeatable)
{
    flush(reader, seq);
    seq->item = part;
    seq->has_item = true;
    seq->repeatable = repeatable;
}

static void add_literal(regex_reader *reader, sequence *seq, unsigned char byte)
{
    if (icase(seq)) {
        if (byte > 127) { /* its other case depends on PCRE's tables */
            add_item(reader, seq, redirect_regex_byte(false), true);
            return;
        }
        if (regex_is_letter(byte) && !reader->work->fold)
            reader->needs_fold = true;
    }
    if (seq->has_item)
        flush(reader, seq);
    reader->run[reader->run_len++] = (char)byte;
    seq->repeatable = true;
}

/* Make the last literal byte an item. */
static void split_run(regex_reader *reader, sequence *seq)
{
    char last;

    if (!reader->run_len)
        return;
    last = reader->run[--reader->run_len];
    flush_run(reader, seq);
    seq->item = redirect_regex_literal(reader->work, &last, 1, icase(seq));
    seq->has_item = true;
}

/* Quantifiers */

static bool read_count(const char **at, const char *end, uint32_t *count)
{
    const char *first = *at;

    for (*count = 0; *at < end && regex_is_digit(**at) && *count <= 65535; ++*at)
        *count = *count * 10 + (uint32_t)(**at - '0');
    return *at > first;
}

/* At "{": is this a quantifier at least for some versions of PCRE (which differ in blanks, and in
 * whether the first number may be missing)? */
static bool like_braces(const regex_reader *reader)
{
    const char *at = reader->at + 1, *end = reader->end;
    bool digits = false;

    for (; at < end && *at != '}'; at++) {
        if (regex_is_digit(*at))
            digits = true;
        else if (*at != ',' && *at != ' ' && *at != '\t')
            return false;
    }
    return at < end && digits;
}

/* Read "{n}", "{n,}" or "{n,m}" as all versions do. */
static bool read_braces(regex_reader *reader, uint32_t *min, uint32_t *max)
{
    const char *at = reader->at + 1;

    if (!read_count(&at, reader->end, min))
        return false;
    *max = *min;
    if (at < reader->end && *at == ',') {
        at++;
        if (!read_count(&at, reader->end, max))
            *max = REGEX_NO_MAX;
    }
    if (at == reader->end || *at != '}' || *min > 65535 || *max < *min ||
        (*max > 65535 && *max != REGEX_NO_MAX))
        return false;
    reader->at = at + 1;
    return true;
}

static void read_quantifier(regex_reader *reader, sequence *seq)
{
    char c = *reader->at;
    uint32_t min = c == '+', max = c == '?' ? 1 : REGEX_NO_MAX;
    bool possessive;

    if (!seq->repeatable || (c == '{' && !read_braces(reader, &min, &max))) {
        lose(reader);
        return;
    }
    if (c != '{')
        reader->at++;
    possessive = at_char(reader, '+');
    if (possessive || at_char(reader, '?'))
        reader->at++;
    split_run(reader, seq);
    seq->item = redirect_regex_repeat(reader->work, &seq->item, min, max, possessive);
    seq->repeatable = false;
}

/* Escapes */

static bool name_char(char c)
{
    return regex_is_letter((unsigned char)c) || regex_is_digit(c) || c == '_';
}

/* A name or number up to the byte `end`, which is read, too. */
static void skip_name(regex_reader *reader, char end)
{
    const char *first = reader->at;

    if (at_char(reader, '+') || at_char(reader, '-'))
        reader->at++;
    while (reader->at < reader->end && name_char(*reader->at))
        reader->at++;
    if (reader->at == first || !at_char(reader, end))
        lose(reader);
    else
        reader->at++;
}

/* The byte that closes what the next one opens, which is read; 0: none. */
static char open_name(regex_reader *reader)
{
    char c = reader->at < reader->end ? *reader->at : 0;

    if (c != '{' && c != '<' && c != '\'')
        return 0;
    reader->at++;
    return c == '{' ? '}' : c == '<' ? '>' : c;
}

/* \g and \k, behind the letter: a back-reference or a call of a group. */
static void read_reference(regex_reader *reader, sequence *seq, char letter)
{
    char close = open_name(reader);
    uint32_t number;

    if (close) {
        skip_name(reader, close);
    } else if (letter == 'g') {
        if (at_char(reader, '-') || at_char(reader, '+'))
            reader->at++;
        if (!read_count(&reader->at, reader->end, &number))
            lose(reader);
    } else {
        lose(reader);
    }
    add_item(reader, seq, redirect_regex_unknown(REGEX_WAYS_MAX), true);
}

/* \p and \P, behind the letter. */
static void read_property(regex_reader *reader, sequence *seq)
{
    if (at_char(reader, '{')) {
        while (reader->at < reader->end && *reader->at != '}')
            reader->at++;
        if (!take(reader, "}"))
            lose(reader);
    } else if (reader->at < reader->end && regex_is_letter((unsigned char)*reader->at)) {
        reader->at++;
    } else {
        lose(reader);
    }
    add_item(reader, seq, redirect_regex_byte(false), true);
}

static void read_digit_kind(regex_reader *reader, sequence *seq)
{
    regex_bytes digits = {{0}};

    for (unsigned c = '0'; c <= '9'; c++)
        regex_add_byte(&digits, c);
    add_item(reader, seq, redirect_regex_one_of(reader->work, &digits), true);
}

/* Behind \Q, up to and with \E; without one, all is literal. */
static void read_quoted(regex_reader *reader, sequence *seq)
{
    while (reader->at < reader->end && !take(reader, "\\E"))
        add_literal(reader, seq, (unsigned char)*reader->at++);
}

/* \1 to \9, at the digit. With more digits it may be an octal number. */
static void read_number_reference(regex_reader *reader, sequence *seq)
{
    reader->at++;
    if (reader->at < reader->end && regex_is_digit(*reader->at))
        lose(reader);
    add_item(reader, seq, redirect_regex_unknown(REGEX_WAYS_MAX), true);
}

static void read_letter_escape(regex_reader *reader, sequence *seq, char letter)
{
    switch (letter) {
    case 'A':
    case 'G': /* where the search started: at the subject's first byte */
        add_item(reader, seq, redirect_regex_start(), false);
        break;
    case 'z':
    case 'Z':
        add_item(reader, seq, redirect_regex_end(letter == 'z' ? REGEX_END : REGEX_END_NL), false);
        break;
    case 'b':
    case 'B':
    case 'K':
        add_item(reader, seq, redirect_regex_empty(true), false);
        break;
    case 'd':
        read_digit_kind(reader, seq);
        break;
    case 'N':
        if (at_char(reader, '{')) {
            lose(reader);
            break;
        }
        /* fall through */
    case 'D':
    case 'w':
    case 'W':
    case 's':
    case 'S':
    case 'h':
    case 'H':
    case 'v':
    case 'V':
        add_item(reader, seq, redirect_regex_byte(false), true);
        break;
    case 'C':
    case 'R':
    case 'X':
        add_item(reader, seq, redirect_regex_unknown(2), true);
        break;
    case 'p':
    case 'P':
        read_property(reader, seq);
        break;
    case 'g':
    case 'k':
        read_reference(reader, seq, letter);
        break;
    case 'Q':
        read_quoted(reader, seq);
        break;
    case 'E':
        break;
    default:
        lose(reader);
    }
}

static void read_escape(regex_reader *reader, sequence *seq)
{
    unsigned char byte;

    reader->at++;
    if (redirect_regex_escaped_byte(reader, false, &byte))
        add_literal(reader, seq, byte);
    else if (!reader->lost && regex_is_digit(*reader->at))
        read_number_reference(reader, seq);
    else if (!reader->lost)
        read_letter_escape(reader, seq, *reader->at++);
}

/* Groups */

/* Behind what opens a group, to behind ")". */
static regex_part read_body(regex_reader *reader, unsigned options)
{
    regex_part part = redirect_regex_unknown(REGEX_WAYS_MAX);

    if (++reader->depth > DEPTH_MAX)
        lose(reader);
    else
        read_alternatives(reader, &options, &part);
    reader->depth--;
    if (!take(reader, ")"))
        lose(reader);
    part.one_byte = part.any_byte = false;
    return part;
}

static void read_capture(regex_reader *reader, sequence *seq)
{
    reader->groups++;
    add_item(reader, seq, read_body(reader, *seq->options), true);
}

static void read_look_around(regex_reader *reader, sequence *seq)
{
    regex_part part = redirect_regex_empty(true), body = read_body(reader, *seq->options);

    part.ways = body.ways > 1 ? body.ways : 1;
    add_item(reader, seq, part, true);
}

/* Behind "(?(". An assertion is read like the group that it is, another condition is skipped. */
static void read_conditional(regex_reader *reader, sequence *seq)
{
    if (take(reader, "?=") || take(reader, "?!") || take(reader, "?<=") || take(reader, "?<!")) {
        read_body(reader, *seq->options);
    } else if (reader->at < reader->end && *reader->at != '?' && *reader->at != '*') {
        while (reader->at < reader->end && *reader->at != ')')
            reader->at++;
        if (!take(reader, ")"))
            lose(reader);
    } else {
        lose(reader);
    }
    read_body(reader, *seq->options);
    add_item(reader, seq, redirect_regex_unknown(REGEX_WAYS_MAX), true);
}

static unsigned option_bit(char c)
{
    switch (c) {
    case 'i':
        return REDIRECT_REGEX_ICASE;
    case 'm':
        return REDIRECT_REGEX_MULTILINE;
    case 's':
        return REDIRECT_REGEX_DOTALL;
    case 'x':
        return EXTENDED;
    case 'n':
        return NO_CAPTURE;
    default:
        return 0;
    }
}

/* Behind "(?": "imsx-imsx", and ")" for what follows in this group, or ":" and a body. */
static void read_options(regex_reader *reader, sequence *seq)
{
    unsigned options = *seq->options, bit;
    bool minus = false;

    if (take(reader, "^"))
        options &= ~(option_bit('i') | option_bit('m') | option_bit('s') | EXTENDED | NO_CAPTURE);
    for (; reader->at < reader->end && *reader->at != ')' && *reader->at != ':'; reader->at++) {
        bit = option_bit(*reader->at);
        if (*reader->at == '-' && !minus)
            minus = true;
        else if (bit && (bit != EXTENDED || minus || !(options & EXTENDED)))
            options = minus ? options & ~bit : options | bit;
        else if (*reader->at != 'U' && *reader->at != 'J') /* these change no match */
            break;
    }
    if (take(reader, ":")) {
        add_item(reader, seq, read_body(reader, options), true);
    } else if (take(reader, ")")) {
        flush(reader, seq);
        *seq->options = options;
        seq->repeatable = false;
    } else {
        lose(reader);
    }
}

/* "(?P", and what else has a name or number and no body. */
static bool read_call(regex_reader *reader, sequence *seq)
{
    const char *at = reader->at;
    bool sign = at < reader->end && (*at == '-' || *at == '+');

    if (!take(reader, "P=") && !take(reader, "P>") && !take(reader, "&") &&
        !(at + sign < reader->end && regex_is_digit(at[sign])) && !at_char(reader, 'R'))
        return false;
    skip_name(reader, ')');
    add_item(reader, seq, redirect_regex_unknown(REGEX_WAYS_MAX), true);
    return true;
}

/* Behind "(?". */
static void read_special_group(regex_reader *reader, sequence *seq)
{
    if (take(reader, ":")) {
        add_item(reader, seq, read_body(reader, *seq->options), true);
    } else if (take(reader, "|")) {
        reader->groups_known = false; /* the alternatives number theirs alike */
        add_item(reader, seq, read_body(reader, *seq->options), true);
    } else if (take(reader, ">")) {
        regex_part body = read_body(reader, *seq->options);

        add_item(reader, seq, redirect_regex_atomic(reader->work, &body), true);
    } else if (take(reader, "=") || take(reader, "!") || take(reader, "*") || take(reader, "<=") ||
               take(reader, "<!") || take(reader, "<*")) {
        read_look_around(reader, seq);
    } else if (take(reader, "P<") || take(reader, "<")) {
        skip_name(reader, '>');
        read_capture(reader, seq);
    } else if (take(reader, "'")) {
        skip_name(reader, '\'');
        read_capture(reader, seq);
    } else if (take(reader, "(")) {
        read_conditional(reader, seq);
    } else if (!read_call(reader, seq)) {
        read_options(reader, seq);
    }
}

static void skip_comment(regex_reader *reader)
{
    while (reader->at < reader->end && *reader->at != ')')
        reader->at++;
    if (!take(reader, ")"))
        lose(reader);
}

/* At "(". Whatever stands before it is put into the sum first, because the body uses the run. */
static void read_group(regex_reader *reader, sequence *seq)
{
    reader->at++;
    if (take(reader, "?#")) {
        skip_comment(reader);
        return;
    }
    flush(reader, seq);
    if (at_char(reader, '*')) {
        lose(reader); /* verbs change how all the rest matches */
    } else if (take(reader, "?")) {
        read_special_group(reader, seq);
    } else if (*seq->options & NO_CAPTURE) {
        add_item(reader, seq, read_body(reader, *seq->options), true);
    } else {
        read_capture(reader, seq);
    }
}

/* Sequences */

/* With (?x): blanks and comments. */
static bool skip_extended(regex_reader *reader)
{
    char c = *reader->at;

    if (c == '#') {
        while (reader->at < reader->end && *reader->at++ != '\n')
            ;
        return true;
    }
    if (c == '\x85')
        lose(reader); /* a blank for some versions */
    if (c != ' ' && (c < '\t' || c > '\r'))
        return false;
    reader->at++;
    return true;
}

static void read_anchor(regex_reader *reader, sequence *seq)
{
    char c = *reader->at++;

    if (*seq->options & REDIRECT_REGEX_MULTILINE)
        add_item(reader, seq, redirect_regex_empty(true), false);
    else if (c == '^')
        add_item(reader, seq, redirect_regex_start(), false);
    else if (*seq->options & REDIRECT_REGEX_DOLLAR_ENDONLY)
        add_item(reader, seq, redirect_regex_end(REGEX_END), false);
    else
        add_item(reader, seq, redirect_regex_end(REGEX_END_NL), false);
}

static void read_item(regex_reader *reader, sequence *seq)
{
    if ((*seq->options & EXTENDED) && skip_extended(reader))
        return;
    switch (*reader->at) {
    case '\\':
        read_escape(reader, seq);
        break;
    case '(':
        read_group(reader, seq);
        break;
    case '[':
        reader->at++;
        add_item(reader, seq, redirect_regex_class(reader, icase(seq)), true);
        break;
    case '.':
        reader->at++;
        add_item(reader, seq, redirect_regex_byte((*seq->options & REDIRECT_REGEX_DOTALL) != 0),
                 true);
        break;
    case '^':
    case '$':
        read_anchor(reader, seq);
        break;
    case '{':
        if (!like_braces(reader)) {
            add_literal(reader, seq, (unsigned char)*reader->at++);
            break;
        }
        /* fall through */
    case '*':
    case '+':
    case '?':
        read_quantifier(reader, seq);
        break;
    default:
        add_literal(reader, seq, (unsigned char)*reader->at++);
    }
}

static bool stopped(const regex_reader *reader)
{
    return reader->lost || reader->needs_fold || reader->at == reader->end;
}

static void read_sequence(regex_reader *reader, unsigned *options, regex_part *part)
{
    sequence seq = {.sum = redirect_regex_empty(false), .options = options};

    while (!stopped(reader) && *reader->at != '|' && *reader->at != ')')
        read_item(reader, &seq);
    flush(reader, &seq);
    *part = seq.sum;
}

/* To the end or to a ")". An option set in one alternative holds in those that follow. */
static void read_alternatives(regex_reader *reader, unsigned *options, regex_part *part)
{
    regex_part next;

    read_sequence(reader, options, part);
    while (!stopped(reader) && *reader->at == '|') {
        reader->at++;
        read_sequence(reader, options, &next);
        *part = redirect_regex_either(reader->work, part, &next);
    }
}

regex_part redirect_regex_parse(regex_reader *reader, unsigned flags)
{
    regex_part part;

    read_alternatives(reader, &flags, &part);
    if (reader->at < reader->end)
        lose(reader);
    return part;
}
