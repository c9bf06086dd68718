/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Reads the escapes that stand for one byte, and character classes, of a PCRE pattern. Called by
 * the reader of patterns (regex/parse.c). Where PCRE's versions differ, or have an error,
 * the reader is lost.
 */
#include "regex/internal.h"

#include <string.h>

static bool lose(regex_reader *reader)
{
    reader->lost = true;
    return false;
}

static int hex_value(char c)
{
    if (regex_is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool octal_digit(char c)
{
    return c >= '0' && c <= '7';
}

static int digit_value(char c, unsigned base)
{
    return base == 16 ? hex_value(c) : octal_digit(c) ? c - '0' : -1;
}

/* "{...}" behind \x or \o. Blanks in it mean something only in some versions. */
static bool braced_number(regex_reader *reader, unsigned base, unsigned char *byte)
{
    const char *first = ++reader->at;
    unsigned value = 0;

    for (; reader->at < reader->end && digit_value(*reader->at, base) >= 0; reader->at++) {
        value = value * base + (unsigned)digit_value(*reader->at, base);
        if (value > 255)
            return lose(reader);
    }
    if (reader->at == first || reader->at == reader->end || *reader->at != '}')
        return lose(reader);
    reader->at++;
    *byte = (unsigned char)value;
    return true;
}

/* Up to `digits` digits, at least one. */
static bool short_number(regex_reader *reader, unsigned base, unsigned digits, unsigned char *byte)
{
    const char *first = reader->at;
    unsigned value = 0;

    for (; digits && reader->at < reader->end && digit_value(*reader->at, base) >= 0; digits--)
        value = value * base + (unsigned)digit_value(*reader->at++, base);
    if (reader->at == first || value > 255)
        return lose(reader);
    *byte = (unsigned char)value;
    return true;
}

static bool at_brace(const regex_reader *reader)
{
    return reader->at < reader->end && *reader->at == '{';
}

/* \x \o \c, behind the letter. */
static bool long_escape(regex_reader *reader, char letter, unsigned char *byte)
{
    if (letter == 'x') {
        return at_brace(reader) ? braced_number(reader, 16, byte)
                                : short_number(reader, 16, 2, byte);
    }
    if (letter == 'o')
        return at_brace(reader) ? braced_number(reader, 8, byte) : lose(reader);
    if (reader->at == reader->end || *reader->at < 32 || *reader->at > 126)
        return lose(reader);
    *byte = (unsigned char)*reader->at++;
    if (*byte >= 'a' && *byte <= 'z')
        *byte &= 0xDF;
    *byte ^= 0x40;
    return true;
}

static bool escaped_digit(regex_reader *reader, bool in_class, unsigned char *byte)
{
    if (*reader->at == '0' || (in_class && octal_digit(*reader->at)))
        return short_number(reader, 8, 3, byte);
    return in_class ? lose(reader) : false;
}

bool redirect_regex_escaped_byte(regex_reader *reader, bool in_class, unsigned char *byte)
{
    static const char letters[] = "aefnrt", values[] = "\a\033\f\n\r\t";
    const char *found;
    char c;

    if (reader->at == reader->end)
        return lose(reader);
    c = *reader->at;
    if (regex_is_digit(c))
        return escaped_digit(reader, in_class, byte);
    if (!regex_is_letter((unsigned char)c)) {
        *byte = (unsigned char)c;
        reader->at++;
        return true;
    }
    found = memchr(letters, c, sizeof(letters) - 1);
    if (found) {
        *byte = (unsigned char)values[found - letters];
        reader->at++;
        return true;
    }
    if (c != 'x' && c != 'o' && c != 'c')
        return false;
    reader->at++;
    return long_escape(reader, c, byte);
}

/* Classes */

typedef struct regex_class {
    regex_bytes bytes;
    bool vague;                  /* holds more than `bytes` */
    bool all;                    /* holds every byte */
    unsigned kinds, other_kinds; /* of \d \h \s \v \w, and of their opposites: one bit each */
    bool range_may_start;
    unsigned char last; /* where it would start */
    bool in_range;      /* behind the hyphen */
} regex_class;

static void add_range(regex_class *class, unsigned from, unsigned to)
{
    for (unsigned c = from; c <= to; c++)
        regex_add_byte(&class->bytes, c);
}

static void add_one(regex_reader *reader, regex_class *class, unsigned char byte)
{
    if (!class->in_range) {
        regex_add_byte(&class->bytes, byte);
        class->last = byte;
        class->range_may_start = true;
        return;
    }
    if (byte < class->last)
        reader->lost = true;
    add_range(class, class->last, byte);
    class->in_range = class->range_may_start = false;
}

/* Behind a set of bytes with a name a hyphen is an error or a literal. */
static void end_named(regex_reader *reader, regex_class *class)
{
    if (class->in_range)
        reader->lost = true;
    class->range_may_start = false;
    if (reader->end - reader->at >= 2 && reader->at[0] == '-' && reader->at[1] != ']')
        reader->lost = true;
}

/* \d and the like. Only that of digits is the same set everywhere. */
static void add_kind(regex_reader *reader, regex_class *class, char letter)
{
    static const char kinds[] = "dhsvw";
    const char *kind = memchr(kinds, letter | 0x20, sizeof(kinds) - 1);

    if (!kind) {
        reader->lost = true;
        return;
    }
    if (letter == 'd')
        add_range(class, '0', '9');
    else
        class->vague = true;
    if (letter & 0x20)
        class->kinds |= 1u << (kind - kinds);
    else
        class->other_kinds |= 1u << (kind - kinds);
    end_named(reader, class);
}

/* "[:name:]". Everything else that begins with "[:", "[." or "[=" is left alone. */
static void add_posix(regex_reader *reader, regex_class *class)
{
    const char *name = reader->at + 2, *end;
    size_t len;

    if (name < reader->end && *name == '^')
        name++;
    for (end = name; end < reader->end && *end >= 'a' && *end <= 'z'; end++)
        ;
    if (reader->at[1] != ':' || reader->end - end < 2 || end[0] != ':' || end[1] != ']') {
        reader->lost = true;
        return;
    }
    len = (size_t)(end - name);
    if (name == reader->at + 2 && len == 5 && !memcmp(name, "digit", 5))
        add_range(class, '0', '9');
    else
        class->vague = true;
    reader->at = end + 2;
    end_named(reader, class);
}

static void add_escaped(regex_reader *reader, regex_class *class)
{
    unsigned char byte;

    reader->at++;
    if (redirect_regex_escaped_byte(reader, true, &byte)) {
        add_one(reader, class, byte);
    } else if (!reader->lost && *reader->at == 'b') {
        reader->at++;
        add_one(reader, class, '\b');
    } else if (!reader->lost) {
        add_kind(reader, class, *reader->at++);
    }
}

static bool is_posix_mark(char c)
{
    return c == ':' || c == '.' || c == '=';
}

static void add_member(regex_reader *reader, regex_class *class)
{
    char c = *reader->at;

    if (c == '\\') {
        add_escaped(reader, class);
    } else if (c == '[' && reader->end - reader->at >= 2 && is_posix_mark(reader->at[1])) {
        add_posix(reader, class);
    } else if (c == '-' && class->range_may_start && !class->in_range) {
        class->in_range = true;
        reader->at++;
    } else {
        reader->at++;
        add_one(reader, class, (unsigned char)c);
    }
}

static void fold_cases(regex_class *class)
{
    for (unsigned c = 'a'; c <= 'z'; c++) {
        if (regex_has_byte(&class->bytes, c) || regex_has_byte(&class->bytes, c ^ 0x20))
            add_range(class, c, c), add_range(class, c ^ 0x20, c ^ 0x20);
    }
    for (unsigned i = 4; i < 8; i++) {
        if (class->bytes.bits[i])
            class->vague = true; /* what their other cases are depends on PCRE's tables */
    }
}

static regex_part part_of_class(regex_reader *reader, regex_class *class, bool negated)
{
    regex_bytes full;

    memset(&full, 0xFF, sizeof(full));
    if ((class->kinds & class->other_kinds) || !memcmp(&full, &class->bytes, sizeof(full)))
        return redirect_regex_byte(!negated);
    if (class->vague)
        return redirect_regex_byte(false);
    if (negated) {
        for (unsigned i = 0; i < 8; i++)
            class->bytes.bits[i] = ~class->bytes.bits[i];
    }
    return redirect_regex_one_of(reader->work, &class->bytes);
}

static bool holds_letter(const regex_bytes *bytes)
{
    for (unsigned c = 'a'; c <= 'z'; c++) {
        if (regex_has_byte(bytes, c) || regex_has_byte(bytes, c ^ 0x20))
            return true;
    }
    return false;
}

regex_part redirect_regex_class(regex_reader *reader, bool icase)
{
    regex_class class = {0};
    bool negated = reader->at < reader->end && *reader->at == '^';

    if (reader->end - reader->at >= 6 &&
        (!memcmp(reader->at, "[:<:]]", 6) || !memcmp(reader->at, "[:>:]]", 6)))
        reader->lost = true;
    reader->at += negated;
    if (reader->at < reader->end && *reader->at == ']') {
        reader->at++;
        add_one(reader, &class, ']');
    }
    while (!reader->lost && reader->at < reader->end && *reader->at != ']')
        add_member(reader, &class);
    if (reader->lost || reader->at == reader->end) {
        reader->lost = true;
        return redirect_regex_byte(false);
    }
    reader->at++;
    if (class.in_range)
        regex_add_byte(&class.bytes, '-');
    if (icase) {
        fold_cases(&class);
        if (holds_letter(&class.bytes) && !reader->work->fold)
            reader->needs_fold = true;
    }
    return part_of_class(reader, &class, negated);
}
