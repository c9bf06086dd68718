/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lists of media types and of language tags as rows have them: checked, and written in the form in
 * which they are offered. Called when a map is built.
 */
#include "negotiate/internal.h"

#include <string.h>

/* Where a list is written to. */
typedef struct output {
    char *at;
    bool more; /* than one member */
} output;

static void put(output *out, char c)
{
    *out->at++ = c;
}

static void put_lower(output *out, const char *p, const char *end)
{
    while (p < end)
        put(out, negotiate_lower(*p++));
}

/* In quotes only what is not a token without them. */
static void put_value(output *out, const negotiate_parameter *parameter)
{
    const char *p = parameter->value, *end = p + parameter->value_len;
    bool quotes = parameter->quoted && (p == end || negotiate_token(p, end) != end);

    if (quotes)
        put(out, '"');
    put_lower(out, p, end);
    if (quotes)
        put(out, '"');
}

static bool put_type(output *out, const char *p, const char *end)
{
    negotiate_parameter parameter;
    uint16_t quality;
    size_t type_len;
    bool weighed;
    const char *last = negotiate_media_type(p, end, &type_len);

    if (!last || memchr(p, '*', (size_t)(last - p)) ||
        negotiate_count_parameters(last, end, &quality, &weighed) < 0 || weighed)
        return false;
    put_lower(out, p, last);
    while (negotiate_next_parameter(&last, end, &parameter) > 0) {
        put(out, ';');
        put_lower(out, parameter.name, parameter.name + parameter.name_len);
        put(out, '=');
        put_value(out, &parameter);
    }
    return true;
}

static bool put_language(output *out, const char *p, const char *end)
{
    if (negotiate_language(p, end) != end)
        return false;
    put_lower(out, p, end);
    return true;
}

static size_t write_list(const char *p, size_t len, char *to,
                         bool (*put_member)(output *, const char *, const char *))
{
    const char *end = p + len, *member, *member_end;
    output out = {to, false};

    while ((member_end = negotiate_member(&p, end, &member))) {
        if (out.more)
            put(&out, ',');
        if (!put_member(&out, member, member_end))
            return 0;
        out.more = true;
    }
    return (size_t)(out.at - to);
}

size_t negotiate_types(const char *text, size_t len, char *to)
{
    return write_list(text, len, to, put_type);
}

size_t negotiate_languages(const char *text, size_t len, char *to)
{
    return write_list(text, len, to, put_language);
}
