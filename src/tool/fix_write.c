/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Changing single lines of a list of redirects, so that comments, order and all that is not known
 * stay. Called by tool/fix.c and unit tests.
 */
#include "tool/fix.h"

#include <apr_lib.h>
#include <string.h>

#define SEVERAL_ROWS "several rows stand in its line, or a part of one"

typedef struct text {
    const char *s;
    size_t len;
} text;

/* The line at *at with its end; *at is moved behind it. */
static text take_line(const char **at, const char *end, char end_of_line)
{
    const char *start = *at, *eol = memchr(start, end_of_line, (size_t)(end - start));

    *at = eol ? eol + 1 : end;
    return (text){start, (size_t)(*at - start)};
}

static bool is_border(char c, convert_format format)
{
    return apr_isspace(c) || strchr("\"',;", c) || (format == CONVERT_NGINX && c == '$') ||
           (format == CONVERT_NETLIFY && c == ':');
}

/* The last place where the target stands by itself. */
static const char *find_target(text line, const char *target, convert_format format)
{
    size_t n = strlen(target);
    const char *found = NULL;

    for (size_t i = 1; n && i + n <= line.len; i++) {
        if (memcmp(line.s + i, target, n) != 0 || !is_border(line.s[i - 1], format) ||
            line.s[i - 1] == '$' || line.s[i - 1] == ':')
            continue;
        if (i + n == line.len || is_border(line.s[i + n], format))
            found = line.s + i;
    }
    return found;
}

static unsigned count_of(text line, char c)
{
    unsigned n = 0;

    for (size_t i = 0; i < line.len; i++)
        n += line.s[i] == c;
    return n;
}

static bool goes_on(text line)
{
    while (line.len && (line.s[line.len - 1] == '\n' || line.s[line.len - 1] == '\r'))
        line.len--;
    return line.len && line.s[line.len - 1] == '\\';
}

/* Why the line cannot be changed by itself; NULL: it can. */
static const char *line_fault(text line, text before, convert_format format)
{
    bool csv = format == CONVERT_CSV || format == CONVERT_CLOUDFLARE;

    if (format == CONVERT_HTTPD && goes_on(before))
        return "it goes over several lines";
    if (csv && count_of(line, '"') % 2)
        return "it goes over several lines";
    if (format == CONVERT_NGINX && count_of(line, ';') != 1)
        return SEVERAL_ROWS;
    return NULL;
}

/* Bytes that would end the target where it is written without quotes. */
static const char *breaks_of(convert_format format)
{
    switch (format) {
    case CONVERT_CSV:
    case CONVERT_CLOUDFLARE:
        return ",;\t\"";
    case CONVERT_NGINX:
        return ";{}$\"' \\";
    default:
        return " \t\"\\";
    }
}

static void put_replaced(FILE *out, text line, const char *at, fix_edit *edit,
                         convert_format format)
{
    size_t n = strlen(edit->old_target);
    bool quoted = at[-1] == '"';
    bool csv = format == CONVERT_CSV || format == CONVERT_CLOUDFLARE;
    bool breaks = strpbrk(edit->new_target, breaks_of(format)) != NULL;
    bool quote = breaks && !quoted && csv;

    if (breaks && !(csv && !strchr(edit->new_target, '"'))) {
        edit->fault = "its new target has characters that would need quotes";
        fwrite(line.s, 1, line.len, out);
        return;
    }
    fwrite(line.s, 1, (size_t)(at - line.s), out);
    fprintf(out, "%s%s%s", quote ? "\"" : "", edit->new_target, quote ? "\"" : "");
    fwrite(at + n, 1, line.len - (size_t)(at - line.s) - n, out);
}

static void put_edited(FILE *out, text line, text before, fix_edit *edit, convert_format format)
{
    const char *at = NULL;

    edit->fault = line_fault(line, before, format);
    if (!edit->fault && edit->drop)
        return;
    if (!edit->fault && !(at = find_target(line, edit->old_target, format)))
        edit->fault = "its target is written in another way";
    if (edit->fault)
        fwrite(line.s, 1, line.len, out);
    else
        put_replaced(out, line, at, edit, format);
}

void fix_write(FILE *out, const char *bytes, size_t len, convert_format format, fix_edit *edits,
               size_t count)
{
    const char *at = bytes, *end = bytes + len;
    char end_of_line = memchr(bytes, '\n', len) ? '\n' : '\r';
    text line = {bytes, 0};
    size_t next = 0, here = 0;

    for (uint32_t number = 1; at < end; number++) {
        text before = line;

        line = take_line(&at, end, end_of_line);
        while (here < count && edits[here].line == number)
            here++;
        if (here - next == 1)
            put_edited(out, line, before, &edits[next], format);
        else
            fwrite(line.s, 1, line.len, out);
        for (size_t i = next; here - next > 1 && i < here; i++)
            edits[i].fault = SEVERAL_ROWS;
        next = here;
    }
}
