/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * What edits of all formats need: how the map's file is laid out, and text that is put together.
 * Called by maps/edit_file.c, maps/overlay_rows.c and the formats.
 */
#include "maps/edit_internal.h"

#include <apr_strings.h>
#include <string.h>

static const edit_format *const formats[] = {[REDIRECT_FORMAT_TEXT] = &redirect_edit_text,
                                             [REDIRECT_FORMAT_CSV] = &redirect_edit_csv,
                                             [REDIRECT_FORMAT_NETLIFY] = &redirect_edit_netlify,
                                             [REDIRECT_FORMAT_NGINX] = &redirect_edit_nginx,
                                             [REDIRECT_FORMAT_JSON] = &redirect_edit_json,
                                             [REDIRECT_FORMAT_CLOUDFLARE] = &redirect_edit_csv};

void redirect_edit_put(edit_buffer *b, const char *s, size_t len)
{
    if (b->len + len > b->size) {
        char *grown;

        b->size = 2 * (b->len + len) + 64;
        grown = apr_palloc(b->job->pool, b->size);
        if (b->len)
            memcpy(grown, b->s, b->len);
        b->s = grown;
    }
    if (len)
        memcpy(b->s + b->len, s, len);
    b->len += len;
}

map_text redirect_edit_text_of(const edit_buffer *b)
{
    return (map_text){b->len ? b->s : "", b->len, 0};
}

map_text redirect_edit_format(edit_job *j, const char *format, ...)
{
    va_list args;
    const char *s;

    va_start(args, format);
    s = apr_pvsprintf(j->pool, format, args);
    va_end(args);
    return (map_text){s, strlen(s), 0};
}

map_text redirect_edit_refuse(edit_job *j, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    j->why = apr_pvsprintf(j->pool, format, args);
    va_end(args);
    return (map_text){NULL, 0, 0};
}

void redirect_edit_patch(edit_job *j, const char *at, const char *end, map_text text)
{
    APR_ARRAY_PUSH(j->patches, edit_patch) = (edit_patch){at, (size_t)(end - at), text};
}

bool redirect_edit_option(edit_job *j, const char **at, map_text *word)
{
    map_reader *r = j->words;
    bool more;

    r->at = *at;
    more = redirect_map_next_word(r, *at + strlen(*at), r->target, word) < MAP_NO_WORD;
    *at = r->at;
    if (more)
        word->s = apr_pstrmemdup(j->pool, word->s, word->len);
    return more;
}

bool redirect_edit_is_meant(const edit_job *j, const redirect_edit *edit, const redirect_rule *rule,
                            bool plain)
{
    size_t len = edit->target ? strlen(edit->target) : 0;
    char *target;

    if (edit->status && edit->status != rule->status)
        return false;
    if (!plain || rule->status >= 400 || j->own.format == REDIRECT_FORMAT_NGINX)
        return true;
    target = apr_palloc(j->pool, 3 * len + 1);
    return redirect_edit_same_bytes(
        rule->target, rule->target_len, target,
        redirect_map_encode(edit->target ? edit->target : "", len, target));
}

uint32_t redirect_edit_lines(const char *s, size_t len)
{
    const char *end = s + len;
    uint32_t n = 0;

    for (; s < end && (s = memchr(s, '\n', (size_t)(end - s))); s++)
        n++;
    return n;
}

const edit_format *redirect_edit_open(edit_job *j)
{
    const edit_format *how;
    const char *eol = memchr(j->begin, '\n', (size_t)(j->end - j->begin));

    if (j->end - j->begin >= 3 && !memcmp(j->begin, "\xEF\xBB\xBF", 3))
        j->begin += 3;
    j->eol = (map_text){"\n", 1, 0};
    if (eol && eol > j->begin && eol[-1] == '\r')
        j->eol = (map_text){"\r\n", 2, 0};
    else if (!eol && memchr(j->begin, '\r', (size_t)(j->end - j->begin)))
        j->eol = (map_text){"\r", 1, 0};
    j->append_at = j->end;
    j->before = j->after = (map_text){"", 0, 0};
    j->between = "";
    j->patches = apr_array_make(j->pool, 16, sizeof(edit_patch));
    j->own.format = redirect_format_of(j->options, j->name, j->bytes, (size_t)(j->end - j->bytes));
    j->status =
        j->own.format == REDIRECT_FORMAT_NETLIFY || j->own.format == REDIRECT_FORMAT_CLOUDFLARE
            ? 301
        : j->own.format == REDIRECT_FORMAT_JSON ? 307
                                                : 302;
    if (j->options->status)
        j->status = j->options->status;
    how = formats[j->own.format];
    return how->open(j) ? how : NULL;
}
