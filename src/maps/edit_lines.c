/* Licensed under the Apache License, Version 2.0; see LICENSE. */
/*
 * Editing maps with a row a line and words with blanks between them: the text format and _redirects.
 * Blanks between the words, comments and quotes of a row stay. Called by maps/edit_file.c.
 */
#include "maps/edit_internal.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define WORDS_MAX 32

/* A line taken apart. */
typedef struct line_words {
    const char *begin, *end; /* of the line, without its end */
    const char *next;        /* behind its end */
    unsigned count;
    map_text raw[WORDS_MAX]; /* with their quotes */
    map_text last;           /* if there are more than fit */
} line_words;

static char end_of_line(const edit_job *j)
{
    bool text = j->own.format == REDIRECT_FORMAT_TEXT;

    return text && !memchr(j->begin, '\n', (size_t)(j->end - j->begin)) ? '\r' : '\n';
}

static void take_line(edit_job *j, const char *at, line_words *line)
{
    bool quotes = j->own.format == REDIRECT_FORMAT_TEXT;
    map_reader *r = j->words;
    map_text word;

    line->begin = at;
    line->end = memchr(at, end_of_line(j), (size_t)(j->end - at));
    line->next = line->end ? line->end + 1 : j->end;
    line->end = line->end ? line->end : j->end;
    r->at = at;
    for (line->count = 0;; line->count++) {
        const char *start;

        while (r->at < line->end && strchr(" \t\r", *r->at) && *r->at)
            r->at++;
        start = r->at;
        if (quotes ? redirect_map_next_word(r, line->end, r->target, &word) >= MAP_NO_WORD
                   : !redirect_map_word(r, line->end, &word))
            break;
        line->last = (map_text){start, (size_t)(r->at - start), 0};
        if (line->count < WORDS_MAX)
            line->raw[line->count] = line->last;
        if (line->count == WORDS_MAX)
            line->count--;
    }
}

static void put_text(edit_buffer *b, map_text text)
{
    redirect_edit_put(b, text.s, text.len);
}

/* What stands in front of the line's word @a i; a blank if it has none. */
static map_text gap_before(const line_words *line, unsigned i)
{
    const char *end;

    if (!line || i >= line->count || i >= WORDS_MAX || !i)
        return (map_text){" ", 1, 0};
    end = line->raw[i - 1].s + line->raw[i - 1].len;
    return (map_text){end, (size_t)(line->raw[i].s - end), 0};
}

/* From the first word of the line to its last one. */
static map_text row_of(const line_words *line)
{
    const char *begin = line->raw[0].s;

    return (map_text){begin, (size_t)(line->last.s + line->last.len - begin), 0};
}

static void remove_lines(edit_job *j, const edit_touched *const *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        line_words line;

        take_line(j, rows[i]->at, &line);
        redirect_edit_patch(j, line.begin, line.next, (map_text){"", 0, 0});
    }
}

/* --- the text format --------------------------------------------------------------------------*/

/* Would the word be taken for something else where the target stands? */
static bool is_other_word(const char *word)
{
    map_text text = redirect_map_text_of(word, strlen(word));

    return redirect_map_status_of(text) || redirect_map_is_option(text) || !strcmp(word, "-");
}

static void put_word(edit_buffer *b, const char *word, bool quote)
{
    if (!quote && *word && *word != '"' && *word != '#' && !strpbrk(word, " \t\r")) {
        redirect_edit_put(b, word, strlen(word));
        return;
    }
    redirect_edit_put(b, "\"", 1);
    for (const char *s = word; *s; s++) {
        if (*s == '"' || *s == '\\')
            redirect_edit_put(b, "\\", 1);
        redirect_edit_put(b, s, 1);
    }
    redirect_edit_put(b, "\"", 1);
}

/* The words of a row behind its source. @a line: as they stand there; NULL: it is new. */
static void put_rest(edit_buffer *b, const redirect_edit *edit, const line_words *line)
{
    bool quoted = line && line->count > 1 && *line->raw[1].s == '"';
    bool dash = line && line->count > 1 && line->raw[1].len == 1 && *line->raw[1].s == '-';
    unsigned next = 1;
    char status[12];

    if (edit->target || dash) {
        put_text(b, gap_before(line, next++));
        if (edit->target)
            put_word(b, edit->target, quoted || is_other_word(edit->target));
        else
            redirect_edit_put(b, "-", 1);
    }
    if (edit->status) {
        put_text(b, gap_before(line, next++));
        redirect_edit_put(b, status, (size_t)snprintf(status, sizeof(status), "%d", edit->status));
    }
    if (*edit->options) {
        put_text(b, gap_before(line, next));
        redirect_edit_put(b, edit->options, strlen(edit->options));
    }
}

static bool open_text(edit_job *j)
{
    (void)j;
    return true;
}

static map_text new_row(edit_job *j, const redirect_edit *edit)
{
    edit_buffer b = {.job = j};

    put_word(&b, edit->source, false);
    put_rest(&b, edit, NULL);
    return redirect_edit_text_of(&b);
}

/* The host that a source names; NULL: it names none. */
static const char *host_in(const char *source, size_t len)
{
    const char *colon = *source == '/' ? NULL : memchr(source, ':', len);
    const char *at = colon ? colon + 1 : source;

    return (size_t)(source + len - at) > 2 && !memcmp(at, "//", 2) ? at + 2 : NULL;
}

/* A host that no option says any more stands in the edit's source. */
static bool keeps_host(const redirect_map_options *o, map_text old, const char *source)
{
    const char *host = host_in(source, strlen(source));
    size_t len = host ? strcspn(host, "/?#:") : 0;

    return !host || host_in(old.s, old.len) ||
           (o->host && strlen(o->host) == len && !strncasecmp(o->host, host, len));
}

static void put_old_source(edit_buffer *b, const line_words *line, const char *source)
{
    const redirect_map_options *o = b->job->options;
    map_text old = line->raw[0];

    if (old.len > 1 && *old.s == '"' && old.s[old.len - 1] == '"')
        old = (map_text){old.s + 1, old.len - 2, 0};
    if (keeps_host(o, old, source) &&
        redirect_edit_keeps_source(o, old.s, old.len, source, strlen(source)))
        put_text(b, line->raw[0]);
    else
        put_word(b, source, *line->raw[0].s == '"');
}

static bool replace_row(edit_job *j, edit_touched *row)
{
    edit_buffer b = {.job = j};
    line_words line;

    take_line(j, row->at, &line);
    row->row = row_of(&line);
    put_old_source(&b, &line, row->edit->source);
    put_rest(&b, row->edit, &line);
    row->text = redirect_edit_text_of(&b);
    return true;
}

const edit_format redirect_edit_text = {
    .open = open_text, .row = new_row, .replace = replace_row, .remove = remove_lines};

/* --- _redirects -------------------------------------------------------------------------------*/

/* Quotes mean nothing there: blanks are escaped, which says the same. */
static void put_escaped(edit_buffer *b, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (s[i] == ' ')
            redirect_edit_put(b, "%20", 3);
        else
            redirect_edit_put(b, s + i, 1);
    }
}

/* Is a query "a=1&b=2", which is written as "a=1 b=2"? */
static bool is_parameters(const char *query)
{
    while (*query) {
        size_t len = strcspn(query, "&"), name = strcspn(query, "=");

        if (!name || name >= len || memchr(query, '/', len) || memchr(query, '#', len))
            return false;
        query += len + (query[len] == '&' && query[len + 1]);
    }
    return true;
}

static void put_source(edit_buffer *b, const char *source)
{
    const char *query = strchr(source, '?');

    if (!query || !query[1] || !is_parameters(query + 1)) {
        put_escaped(b, source, strlen(source));
        return;
    }
    put_escaped(b, source, (size_t)(query - source));
    while (*query) {
        size_t len = strcspn(query + 1, "&");

        redirect_edit_put(b, " ", 1);
        put_escaped(b, query + 1, len);
        query += 1 + len;
    }
}

/* The number of words that say what is asked for: the source and its parameters. */
static unsigned source_words(const line_words *line)
{
    unsigned n = 1;

    while (n < line->count && n < WORDS_MAX && *line->raw[n].s != '/' && *line->raw[n].s != '=' &&
           memchr(line->raw[n].s, '=', line->raw[n].len) &&
           !memchr(line->raw[n].s, '/', line->raw[n].len))
        n++;
    return n;
}

/* The edit's conditions, in *conditions. */
static bool can_say(edit_job *j, const redirect_edit *edit, map_text *conditions)
{
    edit_buffer b = {.job = j};
    const char *at = edit->options, *why, *said;
    map_text word;

    if (!edit->target) {
        redirect_edit_refuse(j, "a row of _redirects cannot be without a target");
        return false;
    }
    while (redirect_edit_option(j, &at, &word)) {
        if (!redirect_condition_is(word.s)) {
            redirect_edit_refuse(j, "a row of _redirects has no options such as '%s'", word.s);
            return false;
        }
        said = redirect_condition_netlify(word.s, &why, j->pool);
        if (!said) {
            redirect_edit_refuse(j, "_redirects has no word for '%s': %s", word.s, why);
            return false;
        }
        redirect_edit_put(&b, " ", 1);
        redirect_edit_put(&b, said, strlen(said));
    }
    *conditions = redirect_edit_text_of(&b);
    return true;
}

/* The first of the line's words behind target and status: its conditions. */
static unsigned first_condition(const line_words *line, unsigned target)
{
    unsigned i = target + 1;

    return i < line->count && !memchr(line->raw[i].s, '=', line->raw[i].len) ? i + 1 : i;
}

static void put_target(edit_buffer *b, const redirect_edit *edit, const line_words *line,
                       unsigned at)
{
    char status[12];
    bool forced = line && at + 1 < line->count && at + 1 < WORDS_MAX &&
                  line->raw[at + 1].s[line->raw[at + 1].len - 1] == '!';

    put_text(b, gap_before(line, at));
    put_escaped(b, edit->target, strlen(edit->target));
    if (!edit->status)
        return;
    put_text(b, gap_before(line, at + 1));
    redirect_edit_put(
        b, status,
        (size_t)snprintf(status, sizeof(status), "%d%s", edit->status, forced ? "!" : ""));
}

static map_text new_redirect(edit_job *j, const redirect_edit *edit)
{
    edit_buffer b = {.job = j};
    map_text conditions;

    if (!can_say(j, edit, &conditions))
        return (map_text){0};
    put_source(&b, edit->source);
    put_target(&b, edit, NULL, 1);
    put_text(&b, conditions);
    return redirect_edit_text_of(&b);
}

static bool replace_redirect(edit_job *j, edit_touched *row)
{
    edit_buffer b = {.job = j};
    map_text conditions;
    line_words line;
    unsigned sources, i;

    if (!can_say(j, row->edit, &conditions))
        return false;
    take_line(j, row->at, &line);
    row->row = row_of(&line);
    if (line.count == WORDS_MAX) {
        redirect_edit_refuse(j, "the row has more words than can be edited");
        return false;
    }
    sources = source_words(&line);
    /* Where there may be placeholders: the edit's target has those of the edit's source. */
    if (memchr(line.raw[0].s, ':', line.raw[0].len))
        put_source(&b, row->edit->source);
    else
        redirect_edit_put(
            &b, row->row.s,
            (size_t)(line.raw[sources - 1].s + line.raw[sources - 1].len - row->row.s));
    put_target(&b, row->edit, &line, sources);
    /* The conditions are the same: they are a part of what is asked for. */
    for (i = first_condition(&line, sources); i < line.count; i++) {
        put_text(&b, gap_before(&line, i));
        put_text(&b, line.raw[i]);
    }
    row->text = redirect_edit_text_of(&b);
    return true;
}

const edit_format redirect_edit_netlify = {
    .open = open_text, .row = new_redirect, .replace = replace_redirect, .remove = remove_lines};
