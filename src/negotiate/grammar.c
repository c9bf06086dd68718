/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * RFC 9110's grammar of lists, tokens, parameters and weights (5.6, 8.3.1, 12.4.2), and RFC 4647's
 * of basic language ranges. Called by negotiate.c and rows.c.
 */
#include "negotiate/internal.h"

static bool is_alpha(char c)
{
    c = negotiate_lower(c);
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_token(char c)
{
    switch (c) {
    case '!':
    case '#':
    case '$':
    case '%':
    case '&':
    case '\'':
    case '*':
    case '+':
    case '-':
    case '.':
    case '^':
    case '_':
    case '`':
    case '|':
    case '~':
        return true;
    default:
        return is_alpha(c) || is_digit(c);
    }
}

/* In quoted strings: HTAB, SP, VCHAR, obs-text. */
static bool is_text(char c)
{
    return c == '\t' || ((unsigned char)c >= ' ' && c != 127);
}

const char *negotiate_token(const char *p, const char *end)
{
    while (p < end && is_token(*p))
        p++;
    return p;
}

const char *negotiate_member(const char **p, const char *end, const char **member)
{
    const char *last;
    bool quoted = false;

    for (;; ++*p) {
        *p = negotiate_skip_space(*p, end);
        if (*p == end)
            return NULL;
        if (**p != ',')
            break;
    }
    *member = *p;
    for (; *p < end && (quoted || **p != ','); ++*p) {
        if (**p == '"')
            quoted = !quoted;
        else if (quoted && **p == '\\' && *p + 1 < end)
            ++*p;
    }
    for (last = *p; last[-1] == ' ' || last[-1] == '\t';)
        last--;
    return last;
}

const char *negotiate_media_type(const char *p, const char *end, size_t *type_len)
{
    const char *slash = negotiate_token(p, end), *last;

    if (slash == p || slash == end || *slash != '/')
        return NULL;
    *type_len = (size_t)(slash - p);
    last = negotiate_token(slash + 1, end);
    return last == slash + 1 ? NULL : last;
}

/* 1*8ALPHA *("-" 1*8alphanum) */
const char *negotiate_language(const char *p, const char *end)
{
    for (bool first = true;; first = false, p++) {
        const char *subtag = p;

        while (p < end && (is_alpha(*p) || (!first && is_digit(*p))))
            p++;
        if (p == subtag || p - subtag > 8)
            return NULL;
        if (p == end || *p != '-')
            return p;
    }
}

/* What is between the quotes, from behind the first one. NULL: it does not end, or has what it
 * must not. */
static const char *quoted_string(const char *p, const char *end)
{
    for (; p < end && *p != '"'; p++) {
        if (*p == '\\' && ++p == end)
            return NULL;
        if (!is_text(*p))
            return NULL;
    }
    return p < end ? p : NULL;
}

const char *negotiate_read_parameter(const char *p, const char *end, negotiate_parameter *parameter)
{
    const char *last = negotiate_token(p, end);

    parameter->name = p;
    parameter->name_len = (size_t)(last - p);
    if (last == p || last == end || *last != '=')
        return NULL;
    p = last + 1;
    parameter->quoted = p < end && *p == '"';
    if (parameter->quoted) {
        last = quoted_string(++p, end);
        if (!last)
            return NULL;
    } else {
        last = negotiate_token(p, end);
        if (last == p)
            return NULL;
    }
    parameter->value = p;
    parameter->value_len = (size_t)(last - p);
    return parameter->quoted ? last + 1 : last;
}

int negotiate_next_parameter(const char **p, const char *end, negotiate_parameter *parameter)
{
    for (;;) {
        *p = negotiate_skip_space(*p, end);
        if (*p == end)
            return 0;
        if (**p != ';')
            return -1;
        *p = negotiate_skip_space(*p + 1, end);
        if (*p == end || **p == ';')
            continue;
        *p = negotiate_read_parameter(*p, end, parameter);
        return *p ? 1 : -1;
    }
}

bool negotiate_is_weight(const negotiate_parameter *parameter)
{
    return parameter->name_len == 1 && (*parameter->name == 'q' || *parameter->name == 'Q');
}

bool negotiate_same_name(const negotiate_parameter *a, const negotiate_parameter *b)
{
    if (a->name_len != b->name_len)
        return false;
    for (size_t i = 0; i < a->name_len; i++) {
        if (negotiate_lower(a->name[i]) != negotiate_lower(b->name[i]))
            return false;
    }
    return true;
}

/* The octet of a value at *i, which goes behind it. */
static char next_octet(const negotiate_parameter *parameter, size_t *i)
{
    if (parameter->quoted && parameter->value[*i] == '\\')
        ++*i;
    return negotiate_lower(parameter->value[(*i)++]);
}

bool negotiate_same_value(const negotiate_parameter *a, const negotiate_parameter *b)
{
    size_t i = 0, k = 0;

    while (i < a->value_len && k < b->value_len) {
        if (next_octet(a, &i) != next_octet(b, &k))
            return false;
    }
    return i == a->value_len && k == b->value_len;
}

int negotiate_quality(const char *text, size_t len)
{
    const char *end = text + len;
    int whole = 0, part = 0, digits = 0;

    if (text < end && (*text == '0' || *text == '1'))
        whole = *text++ - '0';
    else if (len < 2)
        return -1;
    if (text == end)
        return whole * 1000;
    if (*text++ != '.' || end - text > 3)
        return -1;
    for (; text < end; text++, digits++) {
        if (!is_digit(*text))
            return -1;
        part = part * 10 + (*text - '0');
    }
    for (; digits < 3; digits++)
        part *= 10;
    return whole && part ? -1 : whole * 1000 + part;
}

int negotiate_count_parameters(const char *p, const char *end, uint16_t *quality, bool *weighed)
{
    negotiate_parameter seen[NEGOTIATE_PARAMETERS], parameter;
    int count = 0, more;

    *quality = 1000;
    *weighed = false;
    while ((more = negotiate_next_parameter(&p, end, &parameter)) > 0) {
        if (negotiate_is_weight(&parameter)) {
            int weight = negotiate_quality(parameter.value, parameter.value_len);

            if (weight < 0 || parameter.quoted || *weighed)
                return -1;
            *quality = (uint16_t)weight;
            *weighed = true;
            continue;
        }
        for (int i = 0; i < count; i++) {
            if (negotiate_same_name(&seen[i], &parameter))
                return -1;
        }
        if (count == NEGOTIATE_PARAMETERS)
            return -1;
        seen[count++] = parameter;
    }
    return more < 0 ? -1 : count;
}
