/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Lines and words of httpd configurations, as ap_cfg_getline() and ap_getword_conf() take them.
 * Called by what reads such files without a server.
 */
#include "base/config_lines.h"

#include <string.h>
#include <strings.h>

#include <apr_lib.h>
#include <apr_strings.h>

static const char *physical_line(config_reader *r, size_t *len)
{
    const char *line = r->at, *eol;

    if (r->at >= r->end)
        return NULL;
    eol = memchr(line, '\n', (size_t)(r->end - line));
    r->at = eol ? eol + 1 : r->end;
    *len = (size_t)((eol ? eol : r->end) - line);
    if (*len && line[*len - 1] == '\r')
        --*len;
    r->number++;
    return line;
}

/* With its continuations, without blanks around it; NULL at the end. */
static char *logical_line(config_reader *r)
{
    char *text = NULL;
    const char *piece;
    size_t len;

    while ((piece = physical_line(r, &len))) {
        bool more = len && piece[len - 1] == '\\';
        char *copy = apr_pstrmemdup(r->pool, piece, more ? len - 1 : len);

        text = text ? apr_pstrcat(r->pool, text, copy, NULL) : copy;
        if (more)
            continue;
        while (apr_isspace(*text))
            text++;
        len = strlen(text);
        while (len && apr_isspace(text[len - 1]))
            text[--len] = '\0';
        return text;
    }
    return text && *text ? text : NULL;
}

bool config_next_line(config_reader *reader, config_line *line)
{
    char *text, *s;

    while ((text = logical_line(reader))) {
        if (!*text || *text == '#')
            continue;
        for (s = text; *s && !apr_isspace(*s) && !(s > text && *s == '>'); s++)
            ;
        line->args = s;
        while (apr_isspace(*line->args))
            line->args++;
        line->name = apr_pstrmemdup(reader->pool, text, (apr_size_t)(s - text));
        line->number = reader->number;
        return true;
    }
    return false;
}

static bool one_of(const char *name, const char *const *names)
{
    while (*names && strcasecmp(name, *names))
        names++;
    return *names != NULL;
}

config_section config_section_of(const char *name)
{
    static const char *const directories[] = {"<Directory", "<DirectoryMatch",
                                              "<Location",  "<LocationMatch",
                                              "<Files",     "<FilesMatch",
                                              "<If",        "<ElseIf",
                                              "<Else",      NULL};
    static const char *const transparents[] = {
        "<IfModule", "<IfDefine", "<IfVersion", "<IfFile", "<IfDirective", "<IfSection", NULL};

    if (name[0] != '<' || name[1] == '/')
        return CONFIG_SECTION_NONE;
    if (one_of(name, transparents))
        return CONFIG_SECTION_TRANSPARENT;
    if (one_of(name, directories))
        return CONFIG_SECTION_DIRECTORY;
    return strcasecmp(name, "<VirtualHost") ? CONFIG_SECTION_OTHER : CONFIG_SECTION_HOST;
}

const char *config_word(apr_pool_t *pool, const char **at)
{
    const char *s = *at, *start;
    char quote = '\0', *word, *to;

    while (apr_isspace(*s))
        s++;
    if (*s == '"' || *s == '\'')
        quote = *s++;
    start = s;
    while (*s && (quote ? *s != quote : !apr_isspace(*s)))
        s += quote && *s == '\\' && s[1] ? 2 : 1;
    to = word = apr_pstrmemdup(pool, start, (apr_size_t)(s - start));
    for (const char *from = word; *from; from++) {
        if (quote && *from == '\\' && (from[1] == '\\' || from[1] == quote))
            from++;
        *to++ = *from;
    }
    *to = '\0';
    if (quote && *s)
        s++;
    while (apr_isspace(*s))
        s++;
    *at = s;
    return word;
}

const char *config_section_args(apr_pool_t *pool, const char *args)
{
    size_t len = strlen(args);

    if (len && args[len - 1] == '>')
        len--;
    while (len && apr_isspace(args[len - 1]))
        len--;
    return apr_pstrmemdup(pool, args, len);
}
