/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * An edit as it is sent, one a line: words as in the text format of maps. Called through
 * maps/edit.h.
 */
#include "maps/edit_internal.h"

#include <apr_strings.h>
#include <string.h>
#include <strings.h>

/* The words of a line, as they are taken. */
typedef struct line_state {
    map_reader *r;
    const char *end, *why;
    apr_pool_t *pool;
} line_state;

static map_word_kind take_word(line_state *l, map_text *word)
{
    map_word_kind kind = redirect_map_next_word(l->r, l->end, l->r->target, word);

    if (kind == MAP_BAD_WORD)
        l->why = "a quote is not closed, or has no blank behind it";
    return kind;
}

static const char *take_op(map_text word, redirect_edit_op *op)
{
    static const char *const names[] = {
        [REDIRECT_EDIT_ADD] = "add", [REDIRECT_EDIT_SET] = "set", [REDIRECT_EDIT_DEL] = "del"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (redirect_map_text_is(word, names[i])) {
            *op = (redirect_edit_op)i;
            return NULL;
        }
    }
    return "an edit is 'add SOURCE TARGET [STATUS]', 'set SOURCE TARGET [STATUS]' or 'del SOURCE'";
}

static void take_option(line_state *l, redirect_edit *edit, map_text raw, map_text word)
{
    int status = word.len > 7 && !strncasecmp(word.s, "status=", 7)
                     ? redirect_map_status_of(redirect_map_text_of(word.s + 7, word.len - 7))
                     : redirect_map_status_of(word);

    if (status && !edit->status && edit->op != REDIRECT_EDIT_DEL)
        edit->status = status;
    else if (!status && redirect_map_is_option(word))
        edit->options = apr_pstrcat(l->pool, edit->options, *edit->options ? " " : "",
                                    apr_pstrmemdup(l->pool, raw.s, raw.len), NULL);
    else
        l->why = apr_psprintf(l->pool, "'%.*s' is neither a status nor an option",
                              (int)(word.len < 120 ? word.len : 120), word.s);
}

/* Behind the source. */
static void take_rest(line_state *l, redirect_edit *edit)
{
    map_word_kind kind;
    map_text word;

    for (int i = 0; !l->why; i++) {
        const char *begin;

        while (l->r->at < l->end && strchr(" \t\r", *l->r->at) && *l->r->at)
            l->r->at++;
        begin = l->r->at;
        kind = take_word(l, &word);
        if (kind >= MAP_NO_WORD)
            break;
        if (i == 0 && edit->op != REDIRECT_EDIT_DEL && word.len == 1 && *word.s == '-' &&
            kind == MAP_WORD)
            continue;
        if (i == 0 && edit->op != REDIRECT_EDIT_DEL &&
            (kind == MAP_WORD_QUOTED ||
             (!redirect_map_status_of(word) && !redirect_map_is_option(word))))
            edit->target = apr_pstrmemdup(l->pool, word.s, word.len);
        else
            take_option(l, edit, (map_text){begin, (size_t)(l->r->at - begin), 0}, word);
    }
}

static void keep_error(void *baton, redirect_severity severity, uint32_t line, const char *message)
{
    line_state *l = baton;

    (void)line;
    if (severity == REDIRECT_ERROR && !l->why)
        l->why = apr_pstrdup(l->pool, message);
}

/* The row as such: as one of a text map whose rows may be without a target. */
static void check_row(line_state *l, const redirect_edit *edit)
{
    redirect_map_options options;
    redirect_edit one = *edit;
    redirect_report report = {.fn = keep_error, .baton = l};
    edit_job j = {.pool = l->pool};
    map_text row;

    redirect_map_options_init(&options);
    options.format = REDIRECT_FORMAT_TEXT;
    options.any_source = true; /* the map's own format may have patterns */
    if (edit->op == REDIRECT_EDIT_DEL)
        one.target = "/";
    if (!one.target && !one.status)
        options.status = 410;
    row = redirect_edit_text.row(&j, &one);
    if (redirect_map_read(&options, "", row.s, row.len, NULL, &report, l->pool) != APR_SUCCESS &&
        !l->why)
        l->why = "there is no memory";
}

static void take_line(line_state *l, redirect_edit *edit)
{
    map_text word = {0};
    map_word_kind kind = take_word(l, &word);

    if (l->why || (l->why = take_op(word, &edit->op)))
        return;
    kind = take_word(l, &word);
    if (kind == MAP_NO_WORD || (!l->why && !word.len))
        l->why = "the source is missing";
    if (l->why)
        return;
    edit->source = apr_pstrmemdup(l->pool, word.s, word.len);
    take_rest(l, edit);
    if (!l->why && edit->op == REDIRECT_EDIT_DEL && (edit->target || edit->status))
        l->why = "del has no target and no status";
}

const char *redirect_edit_parse(const char *line, size_t len, redirect_edit *edit, apr_pool_t *pool)
{
    line_state l = {.end = line + len, .pool = pool};

    *edit = (redirect_edit){.options = ""};
    if (memchr(line, '\0', len) || memchr(line, '\n', len))
        return "an edit is one line without a NUL byte";
    if (len >= 3 && !memcmp(line, "\xEF\xBB\xBF", 3))
        return "it begins with a byte order mark (BOM): send the edits without one";
    l.r = redirect_map_reader_take(pool);
    if (!l.r)
        return "there is no memory";
    l.r->at = line;
    take_line(&l, edit);
    redirect_map_reader_give(l.r, pool); /* which check_row() takes */
    if (!l.why)
        check_row(&l, edit);
    return l.why;
}
